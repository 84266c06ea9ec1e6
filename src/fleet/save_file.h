/* SPDX-License-Identifier: Apache-2.0 */
/* The file in which a client saves a stream of the state: a tar of meta.json and state as in the
 * original (`snapshot save`), or a backup (`backup`). Calls block.
 *
 * The file is written beside its target, checked, synced and renamed: the target is unchanged or a
 * good archive. A tar's header needs the size of the state, so the header is written last, into
 * space reserved at the beginning. */
#ifndef FLEET_SAVE_FILE_H
#define FLEET_SAVE_FILE_H
#include "base/note.h"
#include "base/str.h"
#include "io/fs.h"

enum save_kind { SAVE_SNAPSHOT, SAVE_BACKUP };
struct save_file;
/* The temporary file is .NAME.<8 hex digits of `unique`>.tmp. A process that dies leaves it
 * behind. */
enum err save_open(struct fs *fs, const char *path, enum save_kind kind, uint64_t unique,
                   struct save_file **ret_file, struct note *note);
/* Receives the stream's first frame, the meta data. ERR_PARSE, ERR_INVALID (index 0). */
enum err save_meta(struct save_file *file, struct str meta_json, struct note *note);
enum err save_data(struct save_file *file, struct str bytes, struct note *note);
struct save_facts {
    uint64_t index, term, bytes; /* log index, term and size of the file */
};
/* Completes the file and always frees `own_file`. ERR_PARSE, ERR_CORRUPT: the stream is incomplete,
 * and the target unchanged. ERR_UNKNOWN: the target may not be durable. */
enum err save_finish(struct save_file *own_file, struct save_facts *ret_facts, struct note *note);
void save_abandon(struct save_file *own_file); /* removes the temporary file; NULL is allowed */
#endif
