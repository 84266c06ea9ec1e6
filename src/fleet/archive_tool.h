/* SPDX-License-Identifier: Apache-2.0 */
/* Restores and verifies archives offline. Reports are text or one JSON object. Calls block. */
#ifndef FLEET_ARCHIVE_TOOL_H
#define FLEET_ARCHIVE_TOOL_H
#include "fleet/archive.h"

struct restore_request {
    struct archive_restore_options to;
    const char *archive;
    const char *name; /* name of the node, for the report */
    bool replaces;    /* replace the directory's content; false: ERR_EXISTS */
    bool json;
    /* Called before anything changes, for each part of the state that the archive lacks; or NULL. */
    void (*warn)(const char *part);
};
/* Restores an archive and appends a report to `out`. `more` is as in archive_open. ERR_BUSY: the
 * directory is in use. ERR_CORRUPT: not an archive, or damaged. Errors of archive_restore. */
enum err archive_tool_restore(const struct restore_request *wish, const struct state_machine *more,
                              struct buf *out, struct note *note);
/* Reads the whole archive, changes nothing, and reports its content. */
enum err archive_tool_verify(struct fs *fs, const char *path, bool json,
                             const struct state_machine *more, struct buf *out, struct note *note);
#endif
