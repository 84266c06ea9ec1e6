/* SPDX-License-Identifier: Apache-2.0 */
/* Stores the domains of this shard on disk. A shard that restarts while no coordinator answers
 * continues with its own domains and does not treat the whole fleet as its own.
 *
 * <dir>/domains: the first line names the format. Each further line is a domain: key and value
 * separated by a tab. Lines are in bytewise order. Keys and values contain no control characters.
 *
 * The surprising rule: no file means that no domain was ever assigned, and every machine belongs to
 * the shard. A file without domains means that the last domain was taken away, and no machine
 * belongs to the shard. */
#ifndef SHARD_DOMAINS_H
#define SHARD_DOMAINS_H
#include "io/fs.h"
#include "model/ids.h"

enum { DOMAINS_MAX = 65536 };

struct domains; /* opaque, one owner */

/* Returns ERR_PARSE with a note that names the line, ERR_TOO_LARGE, ERR_NOMEM, or an error of
 * fs_read_whole (except ERR_NOT_FOUND). */
enum err domains_open(struct fs *fs, const char *dir, struct domains **ret_domains,
                      struct note *note);
void domains_close(struct domains *domains);       /* NULL is fine */
bool domains_given(const struct domains *domains); /* true if a domain was ever assigned */
/* Returns all domains in order. The array is borrowed until the next change. */
const struct label *domains_list(const struct domains *domains, size_t *ret_count);
/* Adds a domain if `there`, otherwise removes it, in memory and on disk. Without a change, returns
 * ERR_OK and writes no file. ERR_UNKNOWN: memory and file are changed, but a power cut may revert
 * the file. Each further call then writes the file until a write is durable. Other errors change
 * nothing: ERR_PRECONDITION (a removal before any domain was assigned), ERR_INVALID, ERR_TOO_LARGE
 * (a text), ERR_FULL (DOMAINS_MAX), ERR_NOMEM, and errors of fs_publish. */
enum err domains_set(struct domains *domains, struct str key, struct str value, bool there,
                     uint64_t unique, struct note *note);
#endif
