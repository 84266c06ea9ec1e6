/* SPDX-License-Identifier: Apache-2.0 */
/* The restore both programs have: `muster coordinator restore`, `musterctl restore` and the
 * original's `snapshot restore`, and what all of them say about an archive. */
#ifndef COMMON_RESTORE_ARCHIVE_H
#define COMMON_RESTORE_ARCHIVE_H
#include "base/buf.h"
#include "base/note.h"

struct restore_wish {
    const char *archive, *data_dir, *address;
    const char *name; /* of the node; only told */
    bool replaces;    /* what the directory holds may go; else it is refused: ERR_EXISTS */
    bool json;
};
/* Offline. Appends what was done to `out`, for people or for programs. ERR_BUSY: the directory is
 * in use; and what archive_open and archive_restore answer. */
enum err restore_archive(const struct restore_wish *wish, struct buf *out, struct note *note);
/* Reads all of it, changes nothing, and says what it is. */
enum err verify_archive(const char *path, bool json, struct buf *out, struct note *note);
#endif
