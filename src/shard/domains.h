/* SPDX-License-Identifier: Apache-2.0 */
/* The domains this shard was given, kept on disk: a shard that restarts while no coordinator
 * answers goes on with what was its own, and does not take the whole fleet for it.
 *
 * <dir>/domains: a first line that names the format, then one domain a line, key and value with a
 * tab between, in bytewise order. Neither holds a control character.
 *
 * The surprising rule: no file means that no domain ever was given, and everything is the shard's;
 * a file without a domain means that the last one was taken away, and nothing is. */
#ifndef SHARD_DOMAINS_H
#define SHARD_DOMAINS_H
#include "io/fs.h"
#include "model/ids.h"

enum { DOMAINS_MAX = 65536 };

struct domains; /* the set; opaque, one owner */

/* ERR_PARSE with a note that names the line, ERR_TOO_LARGE, ERR_NOMEM, what fs_read_whole answers
 * (but ERR_NOT_FOUND). */
enum err domains_open(struct fs *fs, const char *dir, struct domains **ret_domains,
                      struct note *note);
void domains_close(struct domains *domains);       /* NULL is fine */
bool domains_given(const struct domains *domains); /* at least one, at any time */
/* All of them, in order; borrowed until the next change. */
const struct label *domains_list(const struct domains *domains, size_t *ret_count);
/* Adds or takes away, in memory and on disk; one that is there, or is not, already: ERR_OK, and
 * nothing is written. ERR_UNKNOWN: the set is changed, and the file, which a power cut may take
 * back; until a call wrote it durably, each call writes it again. ERR_PRECONDITION (taken away where
 * none ever was given), ERR_INVALID, ERR_TOO_LARGE (a text), ERR_FULL (DOMAINS_MAX), ERR_NOMEM, what fs_publish answers else: the set is as it was. */
enum err domains_set(struct domains *domains, struct str key, struct str value, bool there,
                     uint64_t unique, struct note *note);
#endif
