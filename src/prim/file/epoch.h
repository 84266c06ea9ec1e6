/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the directory itself: FORMAT, the epoch of this boot, the floor of revisions.
 *
 * A revision is never smaller than epoch << 40, and the epoch grows with each boot of the host:
 * that is why leased entries need no sync. What a power cut takes back was written in an epoch
 * whose numbers are never given out again. */
#ifndef PRIM_FILE_EPOCH_H
#define PRIM_FILE_EPOCH_H
#include "prim/file/store.h"

/* Makes or opens the store below store->root, under meta/recover.lk. Sets id, epoch, the
 * directories and `damaged`. UNAVAILABLE, INVALID/url, UNSUPPORTED. */
coord_result epoch_open(struct file_store *store, bool overlay, int64_t until_ns);

/* The highest revision ever collected; 0 when none was. 0 or errno (EBADMSG: damaged). */
int floor_read(struct file_store *store, uint64_t *ret_floor);
/* Raises it, durably; never lowers it. Among processes one at a time, by meta/recover.lk. */
int floor_raise(struct file_store *store, uint64_t floor);
/* Replaces a small file of `dir` durably: temporary, sync, rename, sync. */
int small_replace(struct file_store *store, int dir, const char *name, const void *bytes,
                  size_t len);
#endif
