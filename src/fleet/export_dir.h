/* SPDX-License-Identifier: Apache-2.0 */
/* The export directory: one directory per export with meta.json and state, and `latest`, a link to
 * the newest export (coordinator.md 6.4). Calls block and run on a worker thread.
 *
 *     <dir>/20261115-180000-2-12-1794764400000/meta.json  state
 *     <dir>/latest -> 20261115-180000-2-12-1794764400000
 *     <dir>/.<name>.tmp/   being written or removed
 *
 * An export is written under a temporary name, synced and renamed before `latest` changes. `latest`
 * is therefore always a complete export, also after a power failure. */
#ifndef FLEET_EXPORT_DIR_H
#define FLEET_EXPORT_DIR_H
#include "base/time.h"
#include "fleet/format/meta.h"
#include "io/fs.h"

enum { EXPORT_NAME_CAP = FLEET_META_TEXT_MAX + 32 };

struct export_file;
/* Creates `dir` if needed. Removes exports that an earlier process left incomplete. */
enum err export_dir_open(struct fs *fs, const char *dir, struct note *note);
/* The name is made of the id in `meta` and the time. ERR_EXISTS: the name exists. */
enum err export_create(struct fs *fs, const char *dir, const struct fleet_meta *meta, wall_time now,
                       struct export_file **ret_file, struct note *note);
enum err export_write(struct export_file *file, struct str state, struct note *note);
/* Writes meta.json with the size of the state, makes the export durable, and changes `latest`.
 * Always frees the file. `name` gets the export's name. */
enum err export_finish(struct export_file *own_file, char name[EXPORT_NAME_CAP], struct note *note);
void export_abandon(struct export_file *own_file); /* NULL is allowed */
/* Removes the oldest exports beyond `keep` (at least 1), never `newest`. */
enum err export_prune(struct fs *fs, const char *dir, uint32_t keep, const char *newest,
                      uint32_t *ret_removed, struct note *note);
#endif
