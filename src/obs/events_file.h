/* SPDX-License-Identifier: Apache-2.0 */
/* One event file and its rotated ones. Used by events.c only, under its lock.
 *
 * path is renamed to path.1, path.1 to path.2 and so on; path.<keep> is replaced. That another file
 * has the name is noticed within a second, by its inode. */
#ifndef OBS_EVENTS_FILE_H
#define OBS_EVENTS_FILE_H
#include "obs/events.h"

struct events_file;
enum err events_file_open(const struct events_options *options, struct events_file **ret_file,
                          struct note *note);
void events_file_close(struct events_file *file); /* syncs; NULL is fine */
/* `line` with its end. After an error the file holds none of it, or, where that could not be cut
 * off, a torn line that the next write ends. */
enum err events_file_write(struct events_file *file, struct str line);
void events_file_count(const struct events_file *file, struct events_stats *stats); /* rotations */
#endif
