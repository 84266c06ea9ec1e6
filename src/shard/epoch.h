/* SPDX-License-Identifier: Apache-2.0 */
/* The epoch: the number of starts of this shard. Every provider call carries the epoch, so that the
 * provider refuses calls of older processes.
 *
 * Stored as decimal text in <dir>/epoch, in the original's format. A missing file means 0. Anything
 * else in the file, except blanks, is a fatal error, because a guess could decrease the epoch. The
 * copy in <dir>/epoch.newest shows that an older file came back. */
#ifndef SHARD_EPOCH_H
#define SHARD_EPOCH_H
#include "io/fs.h"

/* Reads the epoch, adds one, writes it durably and returns it. The directory must be locked. The
 * shard must not start after an error: ERR_PARSE with a note, ERR_TOO_LARGE (no higher number
 * exists), ERR_PRECONDITION (the file went back), and errors of fs_read_whole and fs_publish. `unique` is passed to fs_publish. */
enum err epoch_next(struct fs *fs, const char *dir, uint64_t unique, uint64_t *ret_epoch,
                    struct note *note);
/* Makes the next epoch higher than `at_least`, for a lost or copied directory. The directory must
 * be locked. ERR_PRECONDITION: the stored epoch is already higher. ERR_INVALID: no higher number
 * exists. Other errors as epoch_next(). */
enum err epoch_set(struct fs *fs, const char *dir, uint64_t at_least, uint64_t unique,
                   struct note *note);
#endif
