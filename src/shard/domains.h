/* SPDX-License-Identifier: Apache-2.0 */
/* Stores the domains of this shard on disk, so that a restarted shard knows its domains before a
 * coordinator answers.
 *
 * <dir>/domains: the first line names the format. Each further line is a domain: key, tab, value.
 * Lines are sorted bytewise.
 *
 * No file: no domain was ever assigned, so every machine belongs to the shard. A file without
 * domains: no machine belongs to the shard. */
#ifndef SHARD_DOMAINS_H
#define SHARD_DOMAINS_H
#include "io/fs.h"
#include "model/ids.h"

enum { DOMAINS_MAX = 65536 };

struct domains; /* opaque, one owner */

/* ERR_PARSE with a note that names the line, ERR_TOO_LARGE, ERR_NOMEM, or an error of fs_read_whole
 * (except ERR_NOT_FOUND). */
enum err domains_open(struct fs *fs, const char *dir, struct domains **ret_domains,
                      struct note *note);
void domains_close(struct domains *domains);       /* NULL is fine */
bool domains_given(const struct domains *domains); /* true if a domain was ever assigned */
/* Sorted; borrowed until the next change. */
const struct label *domains_list(const struct domains *domains, size_t *ret_count);
/* Adds a domain if `there`, else removes it, in memory and on disk.
 * - ERR_UNKNOWN: changed, but a power cut may revert the file. Each further call writes the file
 *   again.
 * - ERR_PRECONDITION (a removal before any domain was assigned), ERR_INVALID, ERR_TOO_LARGE (a
 *   text), ERR_FULL (DOMAINS_MAX), ERR_NOMEM, errors of fs_publish: nothing changed. */
enum err domains_set(struct domains *domains, struct str key, struct str value, bool there,
                     uint64_t unique, struct note *note);
#endif
