/* SPDX-License-Identifier: Apache-2.0 */
/* Which file systems may carry a file store, and whether this one does what it should.
 *
 * A store is only as safe as the locks and renames below it. What is not known to be good is
 * refused; nothing a caller says turns a network file system into a safe one. */
#ifndef PRIM_FILE_ADMISSION_H
#define PRIM_FILE_ADMISSION_H
#include "prim/file/store.h"

struct medium {
    int64_t magic;
    char type[32];     /* as the mount table says, "ext4" */
    bool durable;      /* what is synced survives power loss */
    bool overlay;      /* one container's own */
    bool network;      /* refused, but a store that only creates may try (netfs=create-only) */
    const char *known; /* "NFS", or NULL */
};
/* By statfs and the mount table, both of which must agree. OK, or UNSUPPORTED/file_system. */
coord_result admission_look(int dir, struct medium *ret_medium);
/* Live, in store->meta: what the promises stand on. UNSUPPORTED/file_system naming the probe. Sets
 * store->poll when no inotify can be had. */
coord_result admission_probe(struct file_store *store);
/* The little that create-only needs: link() that does not replace. */
coord_result admission_probe_link(struct file_store *store);
/* A clock shifted by a time namespace would put our deadlines elsewhere than everybody's. */
coord_result admission_clock(void);
#endif
