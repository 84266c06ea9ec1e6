/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot whose content follows from a number, to be written and compared. */
#ifndef TESTS_UNIT_LOG_SNAP_RIG_H
#define TESTS_UNIT_LOG_SNAP_RIG_H
#include "io/fs.h"
#include "log/snapfile.h"

struct snap_head snap_rig_head(uint64_t index);
/* Writes the snapshot in three sections of several chunks; the name is durable on ERR_OK. */
enum err snap_rig_write(struct fs *fs, const char *dir, uint64_t index, uint64_t unique,
                        struct note *note);
/* Reads and compares all of the snapshot. ERR_INTERNAL: complete, but another snapshot. */
enum err snap_rig_compare(struct fs *fs, const char *path, uint64_t index, struct note *note);
bool snap_rig_heads_equal(const struct snap_head *a, const struct snap_head *b);
#endif
