/* SPDX-License-Identifier: Apache-2.0 */
/* The file a client saves a stream of state to: `snapshot save` (a tar of meta.json and state, as
 * the original's) and `backup`. Blocking.
 *
 * Written beside its target, checked as it comes, synced, and renamed only when it is whole: the
 * target is what it was, or a good archive. The surprising rule: a tar's header needs the size of
 * the state, so room is left for it, and it is written last. */
#ifndef FLEET_SAVE_FILE_H
#define FLEET_SAVE_FILE_H
#include "base/note.h"
#include "base/str.h"
#include "io/fs.h"

enum save_kind { SAVE_SNAPSHOT, SAVE_BACKUP };
struct save_file;
/* `unique` is new each time; leftovers of a dead process are hidden files, ".NAME.<8 hex>.tmp". */
enum err save_open(struct fs *fs, const char *path, enum save_kind kind, uint64_t unique,
                   struct save_file **ret_file, struct note *note);
/* The first frame. ERR_PARSE, ERR_INVALID (index 0). */
enum err save_meta(struct save_file *file, struct str meta_json, struct note *note);
enum err save_data(struct save_file *file, struct str bytes, struct note *note);
struct save_facts {
    uint64_t index, term, bytes; /* of the file */
};
/* After the last frame. The file is gone whatever it answers. ERR_PARSE, ERR_CORRUPT: what came is
 * not whole; the target is untouched. ERR_UNKNOWN: in place, perhaps not durable. */
enum err save_finish(struct save_file *own_file, struct save_facts *ret_facts, struct note *note);
void save_abandon(struct save_file *own_file); /* removes what came; NULL is fine */
#endif
