/* SPDX-License-Identifier: Apache-2.0 */
/* The one number a shard keeps: how often it was started. Every call to a provider carries it, so
 * that a process which was replaced and does not know it is refused.
 *
 * Decimal text in <dir>/epoch, as the original writes it. Missing is 0; text around it that is not
 * blank is fatal: to guess could mean to go back. */
#ifndef SHARD_EPOCH_H
#define SHARD_EPOCH_H
#include "io/fs.h"

/* Reads, adds one, writes it so that it survives a power cut, then answers it. The directory must
 * be locked. ERR_PARSE with a note, ERR_TOO_LARGE (the last number there is), and what
 * fs_read_whole and fs_publish answer: then the shard must not start. `unique`: fs_publish's. */
enum err epoch_next(struct fs *fs, const char *dir, uint64_t unique, uint64_t *ret_epoch,
                    struct note *note);
/* After the directory was lost, or a copy of it was started: the next start uses an epoch above
 * `at_least`. What is there already and higher stays: ERR_PRECONDITION. ERR_INVALID (no room is
 * left above it), and as epoch_next. The directory must be locked. */
enum err epoch_set(struct fs *fs, const char *dir, uint64_t at_least, uint64_t unique,
                   struct note *note);
#endif
