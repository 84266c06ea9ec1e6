/* SPDX-License-Identifier: Apache-2.0 */
/* netfs=create-only: what can still be promised on a network file system, which is little: create
 * without a lease, by link(), whose success shows in the link count even when its reply was lost;
 * get; and delete of what this very store object created. Everything else is refused. */
#ifndef PRIM_FILE_NETFS_H
#define PRIM_FILE_NETFS_H
#include "prim/file/store.h"

coord_result netfs_open(struct file_store *store);
coord_result netfs_create(struct file_store *store, const struct prim_call *call,
                          const struct prim_create *in, struct prim_grant *ret_grant);
coord_result netfs_remove(struct file_store *store, const struct prim_call *call,
                          const struct prim_delete *in);
void netfs_close(struct file_store *store);
#endif
