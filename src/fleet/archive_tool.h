/* SPDX-License-Identifier: Apache-2.0 */
/* Restore and verification as a person or a program asks for them: the answer as lines of text or
 * as one JSON object. Offline and blocking. */
#ifndef FLEET_ARCHIVE_TOOL_H
#define FLEET_ARCHIVE_TOOL_H
#include "fleet/archive.h"

struct restore_request {
    struct archive_restore_options to;
    const char *archive;
    const char *name; /* of the node; only reported */
    bool replaces;    /* what the directory holds may go; else it is refused: ERR_EXISTS */
    bool json;
};
/* Appends what was done to `out`. `more` is archive_open's. ERR_BUSY: the directory is in use;
 * ERR_CORRUPT: the archive is none, or damaged; and what archive_open and archive_restore answer. */
enum err archive_tool_restore(const struct restore_request *wish, const struct state_machine *more,
                              struct buf *out, struct note *note);
/* Reads all of it, changes nothing, and says what it is. */
enum err archive_tool_verify(struct fs *fs, const char *path, bool json,
                             const struct state_machine *more, struct buf *out, struct note *note);
#endif
