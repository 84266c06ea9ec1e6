/* SPDX-License-Identifier: Apache-2.0 */
/* System calls of the file store: descriptors that a forked child does not keep, locks that
 * belong to one open file, complete reads and writes.
 *
 * Every descriptor of a file store is opened here. A fork() between opening and registering
 * would leave a lock in the child that nobody can release. So one lock covers both steps, and
 * fork() takes the same lock. locks.h handles a child made by a bare clone(). */
#ifndef PRIM_FILE_SYS_H
#define PRIM_FILE_SYS_H
#include <pthread.h>
#include <sys/types.h>

#include "base/str.h"

/* All descriptors are O_CLOEXEC. -1 with errno on failure. */
int sys_open(int dir, const char *name, int flags, mode_t mode);
int sys_inotify(void);
int sys_eventfd(void);
int sys_pidfd(uint32_t pid);
void sys_close(int fd);                         /* -1 is allowed */
int sys_open_dir(int parent, const char *name); /* a real directory, no symbolic link */
int sys_make_dir(int parent, const char *name, mode_t mode); /* 0 (also if it exists) or errno */

enum lock_kind { LOCK_NONE, LOCK_SHARED, LOCK_EXCLUSIVE };
/* 0, EAGAIN (refused) or another errno. LOCK_NONE unlocks. */
int sys_lock(int fd, uint64_t byte, enum lock_kind kind);
/* Would an exclusive lock be granted? 0, EAGAIN or another errno. */
int sys_lock_test(int fd, uint64_t byte);

/* The name must be unused. 0, EEXIST or another errno. */
int sys_link(int from_dir, const char *from, int dir, const char *name);
/* Reads from offset 0 until `len` bytes or end of file. 0 or errno. */
int sys_read(int fd, void *into, size_t len, size_t *ret_got);
int sys_write(int fd, const void *from, size_t len); /* writes all bytes at offset 0 */
/* EBADMSG: the file has more than `cap` bytes. */
int sys_read_file(int dir, const char *name, void *into, size_t cap, size_t *ret_got);
/* Calls `each` for each name except "." and "..". 0 or errno. */
typedef bool sys_walk_fn(void *context, const char *name); /* returning false stops the walk */
int sys_walk(int dir, sys_walk_fn *each, void *context);

/* A reader-writer lock between threads of this process, with a deadline. The locks on files
 * exclude threads, too, but here threads wake each other instead of polling. A thread that waits
 * for exclusive access goes first. */
struct rwlock {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned sharing, waiting_alone;
    bool alone;
};
void rwlock_init(struct rwlock *lock);
void rwlock_deinit(struct rwlock *lock);
bool rwlock_take(struct rwlock *lock, bool alone, int64_t wait_ns); /* false: wait_ns passed */
void rwlock_give(struct rwlock *lock, bool alone);
#endif
