/* SPDX-License-Identifier: Apache-2.0 */
/* The export directory: one directory per export with meta.json and state, and `latest`, a link to
 * the newest (coordinator.md 6.4). Blocking; used from a worker.
 *
 *     <dir>/20261115-180000-2-12-1794764400000/meta.json  state
 *     <dir>/latest -> 20261115-180000-2-12-1794764400000
 *     <dir>/.<name>.tmp/   being written, or being removed
 *
 * An export is written under a temporary name, synced, renamed, and only then `latest` is swapped:
 * a reader of `latest` finds a whole one at any moment and after any power cut. */
#ifndef FLEET_EXPORT_DIR_H
#define FLEET_EXPORT_DIR_H
#include "base/time.h"
#include "fleet/format/meta.h"
#include "io/fs.h"

enum { EXPORT_NAME_CAP = FLEET_META_TEXT_MAX + 32 };

struct export_file;
/* Makes `dir` when it is not there, and clears what a dead process left unfinished in it. */
enum err export_dir_open(struct fs *fs, const char *dir, struct note *note);
/* Begins one of the name that the meta's id and the time give. ERR_EXISTS. */
enum err export_create(struct fs *fs, const char *dir, const struct fleet_meta *meta, wall_time now,
                       struct export_file **ret_file, struct note *note);
enum err export_write(struct export_file *file, struct str state, struct note *note);
/* Writes meta.json with the size of what came, makes all of it durable, gives it its name and swaps
 * `latest`. The file is gone whatever it answers. name: of the export, when it answers ERR_OK. */
enum err export_finish(struct export_file *own_file, char name[EXPORT_NAME_CAP], struct note *note);
void export_abandon(struct export_file *own_file); /* NULL is fine */
/* Removes the oldest past `keep` (at least 1), never `newest`. Says how many went. */
enum err export_prune(struct fs *fs, const char *dir, uint32_t keep, const char *newest,
                      uint32_t *ret_removed, struct note *note);
#endif
