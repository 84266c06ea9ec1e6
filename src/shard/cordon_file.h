/* SPDX-License-Identifier: Apache-2.0 */
/* Stores the cordons of this shard on disk, so that a restarted shard knows them before it decides.
 *
 * <dir>/cordons: the first line names the format. Each further line is a cordon: "cordon" or
 * "drain", label key (empty: the value is a machine's id), value, time in milliseconds since 1970,
 * who ordered it, and the reason, with tabs between them. The last line is the checksum of all
 * lines before it. */
#ifndef SHARD_CORDON_FILE_H
#define SHARD_CORDON_FILE_H
#include "io/fs.h"
#include "model/ids.h"
#include "model/machine.h"

enum {
    CORDONS_MAX = 10000,
    CORDON_TEXT_MAX = 253, /* bytes of a reason, and of who ordered the cordon */
};

struct cordon_entry {
    struct str key, value; /* empty key: a machine's id */
    enum machine_cordon cordon;
    uint64_t at_ms;
    struct str by, reason; /* may be empty */
};
struct cordon_file; /* opaque, one owner */

/* ERR_PARSE, ERR_CORRUPT with a note, ERR_TOO_LARGE, ERR_NOMEM, or an error of fs_read_whole
 * (except ERR_NOT_FOUND: no cordons). */
enum err cordon_file_open(struct fs *fs, const char *dir, struct cordon_file **ret_file,
                          struct note *note);
void cordon_file_close(struct cordon_file *file); /* NULL is fine */
/* Sorted by key, then value; borrowed until the next change. */
const struct cordon_entry *cordon_file_list(const struct cordon_file *file, size_t *ret_count);
/* Adds or replaces the cordon of this key and value, or removes it (CORDON_NONE).
 * - ERR_UNKNOWN: changed, but a power cut may revert the file. A repeat writes the file again.
 * - ERR_NOT_FOUND (a removal), ERR_INVALID, ERR_TOO_LARGE (a text), ERR_FULL (CORDONS_MAX),
 *   ERR_NOMEM, errors of fs_publish: nothing changed. */
enum err cordon_file_set(struct cordon_file *file, const struct cordon_entry *entry,
                         uint64_t unique, struct note *note);
#endif
