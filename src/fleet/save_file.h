/* SPDX-License-Identifier: Apache-2.0 */
/* The file in which a client saves a stream of the state: `snapshot save` (a tar of meta.json and
 * state, as the original's) and `backup`. Blocking.
 *
 * The file is written beside its target, checked while it arrives, synced, and renamed only when
 * complete. The target is therefore unchanged or a good archive. The surprising rule: a tar's
 * header needs the size of the state, so the header is written last, in space reserved for it. */
#ifndef FLEET_SAVE_FILE_H
#define FLEET_SAVE_FILE_H
#include "base/note.h"
#include "base/str.h"
#include "io/fs.h"

enum save_kind { SAVE_SNAPSHOT, SAVE_BACKUP };
struct save_file;
/* `unique` must differ each time. A process that dies leaves a hidden file ".NAME.<8 hex>.tmp". */
enum err save_open(struct fs *fs, const char *path, enum save_kind kind, uint64_t unique,
                   struct save_file **ret_file, struct note *note);
/* Takes the first frame. ERR_PARSE, ERR_INVALID (index 0). */
enum err save_meta(struct save_file *file, struct str meta_json, struct note *note);
enum err save_data(struct save_file *file, struct str bytes, struct note *note);
struct save_facts {
    uint64_t index, term, bytes; /* of the file */
};
/* Call after the last frame; always frees the file. ERR_PARSE, ERR_CORRUPT: incomplete; the target
 * is unchanged. ERR_UNKNOWN: the target is in place, but perhaps not durable. */
enum err save_finish(struct save_file *own_file, struct save_facts *ret_facts, struct note *note);
void save_abandon(struct save_file *own_file); /* removes the temporary file; NULL is fine */
#endif
