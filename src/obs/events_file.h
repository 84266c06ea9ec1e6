/* SPDX-License-Identifier: Apache-2.0 */
/* An event file and its rotated files. Only events.c uses this, under its lock.
 *
 * Rotation renames path to path.1, path.1 to path.2 and so on, and replaces path.<keep>. If another
 * program replaced the file, the inode check finds the new file within a second. */
#ifndef OBS_EVENTS_FILE_H
#define OBS_EVENTS_FILE_H
#include "obs/events.h"

struct events_file;
enum err events_file_open(const struct events_options *options, struct events_file **ret_file,
                          struct note *note);
void events_file_close(struct events_file *file); /* syncs and closes the file; NULL is allowed */
/* `line` includes its line end. After an error the file has no part of the line, or a part that the
 * next write ends with a line break. */
enum err events_file_write(struct events_file *file, struct str line);
void events_file_count(const struct events_file *file, struct events_stats *stats);
#endif
