/* SPDX-License-Identifier: Apache-2.0 */
/* A file system that wraps another and makes the k-th call of a chosen kind fail.
 *
 *     FAULT_SWEEP_FS(&fault, k, FAULT_FS_SYNC, ERR_IO) { run it over fault_fs_fs(&fault) }
 *
 * runs the body with the 1st, 2nd, ... call of the kind failing until a run needs fewer than k of
 * them. Handles are those of the wrapped file system. */
#ifndef TESTS_LIB_FAULT_FS_H
#define TESTS_LIB_FAULT_FS_H
#include "io/fs.h"

enum fault_fs_call {
    FAULT_FS_OPEN = BIT(0), /* locking a directory too */
    FAULT_FS_READ = BIT(1),
    FAULT_FS_WRITE = BIT(2), /* truncation too */
    FAULT_FS_SYNC = BIT(3),  /* of a file */
    FAULT_FS_SYNC_DIR = BIT(4),
    FAULT_FS_RENAME = BIT(5),
    FAULT_FS_REMOVE = BIT(6),
    FAULT_FS_MAKE_DIR = BIT(7), /* links too */
    FAULT_FS_LOOK = BIT(8),     /* size, stat, list, free bytes */
    FAULT_FS_ANY = BIT(9) - 1,
};
struct fault_fs_plan {
    uint32_t calls; /* of enum fault_fs_call; 0 disarms */
    uint64_t nth;   /* from 1 */
    enum err err;
    size_t partial;    /* a failing write puts that many bytes first, at most all */
    bool from_then_on; /* every counted call after it fails too: the power is gone */
};
struct fault_fs {
    struct fs fs; /* first */
    struct fs *inner;
    struct fault_fs_plan plan;
    uint64_t seen;  /* calls of the plan's kinds, since it was armed */
    uint64_t total; /* all calls, since init */
    bool fired;
};

void fault_fs_init(struct fault_fs *fault, struct fs *inner);
struct fs *fault_fs_fs(struct fault_fs *fault);
void fault_fs_arm(struct fault_fs *fault, struct fault_fs_plan plan);
void fault_fs_disarm(struct fault_fs *fault);
bool fault_fs_fired(const struct fault_fs *fault); /* since the last arm */
bool fault_fs_sweep_next(struct fault_fs *fault, struct fault_fs_plan plan, uint64_t *k);

enum { FAULT_FS_SWEEP_MAX = 100000 }; /* a sweep longer than this is a loop that never ends */
#define FAULT_SWEEP_FS(fault, k, kinds, error)                                                     \
    for (uint64_t k = 0; fault_fs_sweep_next(                                                      \
             (fault), (struct fault_fs_plan){.calls = (kinds), .err = (error)}, &k);)
#endif
