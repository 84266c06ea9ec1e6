/* SPDX-License-Identifier: Apache-2.0 */
/* Watches and guards: one thread, one inotify descriptor, the directories of heads it looks at.
 *
 * Only head files are watched; temporary files, locks and lease records stand in directories that
 * nobody watches. An event names a file; what counts is the head that is read then, and whether its
 * revision is larger than the last one known. Expiry makes no event: deadlines are kept, and judged
 * when they are due, and every now and then before, because a holder may die early. Without inotify
 * the same is done by reading all heads every 250 ms. */
#ifndef PRIM_FILE_WATCH_H
#define PRIM_FILE_WATCH_H
#include "prim/file/store.h"

/* The thread starts with the first watch or guard. NULL: no memory. */
struct hub *file_hub_open(struct file_store *store);
void file_hub_close(struct hub *hub);

coord_result file_watch(struct prim_backend *backend, const struct prim_call *call,
                        struct str scope, bool bucket, struct prim_feed *feed, void **ret_watch);
void file_unwatch(struct prim_backend *backend, void *watch);
void file_guard(struct prim_backend *backend, const struct prim_claim *claim);
void file_unguard(struct prim_backend *backend, const coord_id *lease_id);
#endif
