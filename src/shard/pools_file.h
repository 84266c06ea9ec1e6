/* SPDX-License-Identifier: Apache-2.0 */
/* The text of the file with the capacity pools that are sold out, so that a restarted shard does not
 * try them all again. A hint: the file may be lost, and lines that cannot be read are ignored.
 *
 * The first line names the format. Each further line is a pool, with tabs in between: refusals in a
 * row, end of the pause (unix milliseconds), capacity type (a number), instance type, zone. */
#ifndef SHARD_POOLS_FILE_H
#define SHARD_POOLS_FILE_H
#include "shard/core/core.h"

enum { POOLS_FILE_MAX = 1 << 20 };

/* ERR_NOMEM, ERR_FULL. */
enum err pools_file_write(const struct core *core, mono_time now, wall_time wall,
                          struct arena *arena, struct buf *into);
void pools_file_read(struct core *core, struct str text, mono_time now, wall_time wall);
#endif
