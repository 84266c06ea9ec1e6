/* SPDX-License-Identifier: Apache-2.0 */
/* What nobody needs any more: temporary files of dead processes, lease records that are over and
 * unreferenced, old tombstones and expired entries, and their lock files.
 *
 * A revision that goes with its head is remembered by meta/floor first, durably: a key created
 * anew gets a larger one. */
#ifndef PRIM_FILE_GC_H
#define PRIM_FILE_GC_H
#include "prim/file/store.h"

struct gc_report {
    unsigned temps, heads, locks, leases, buckets_busy;
};
/* One round over the whole store. It looks without any lock, and locks a bucket for moments only
 * where there is something to remove; one that is in use is left for the next round. */
struct gc_report gc_run(struct file_store *store);

/* A thread that does it at once and then every 60 s, give or take half, unless another process did
 * within the last half minute. NULL: none could start. */
struct collector *collector_open(struct file_store *store);
void collector_close(struct collector *collector);
#endif
