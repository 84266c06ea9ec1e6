/* SPDX-License-Identifier: Apache-2.0 */
/* System calls as the file store needs them: descriptors that no forked child keeps, locks that
 * belong to one open file, whole reads and writes.
 *
 * Every descriptor of a file store is opened and closed here. A fork() between an open and its
 * registration would leave a lock in the child that nobody can take away, so both happen under one
 * lock that fork() takes too. A child made by a bare clone() knows nothing of this; its locks are
 * what the recovery in locks.h is for. */
#ifndef PRIM_FILE_SYS_H
#define PRIM_FILE_SYS_H
#include <pthread.h>
#include <sys/types.h>

#include "base/str.h"

/* All set O_CLOEXEC; the numbers are -1 with errno on failure. */
int sys_open(int dir, const char *name, int flags, mode_t mode);
int sys_inotify(void);
int sys_eventfd(void);
int sys_pidfd(uint32_t pid);
void sys_close(int fd);                         /* -1 is fine */
int sys_open_dir(int parent, const char *name); /* a real directory, never through a link */
int sys_make_dir(int parent, const char *name, mode_t mode); /* there already is fine: 0, errno */

enum lock_kind { LOCK_NONE, LOCK_SHARED, LOCK_EXCLUSIVE };
/* Never waits. 0: granted, EAGAIN: refused, or another errno. LOCK_NONE gives it back. */
int sys_lock(int fd, uint64_t byte, enum lock_kind kind);
/* Would an exclusive lock be granted? 0, EAGAIN or another errno. */
int sys_lock_test(int fd, uint64_t byte);

/* Links a file to a name that is not taken. 0, EEXIST or another errno. */
int sys_link(int from_dir, const char *from, int dir, const char *name);
/* 0 or errno. All of it from offset 0, or as much as there is. */
int sys_read(int fd, void *into, size_t len, size_t *ret_got);
int sys_write(int fd, const void *from, size_t len); /* all, at offset 0 */
/* A small file by name: EBADMSG when it holds more than `cap` bytes. */
int sys_read_file(int dir, const char *name, void *into, size_t cap, size_t *ret_got);
/* The names in a directory, without the two that are always there. 0 or errno. */
typedef bool sys_walk_fn(void *context, const char *name); /* false: enough */
int sys_walk(int dir, sys_walk_fn *each, void *context);

/* A lock among the threads of this process, shared or exclusive, that gives up at a deadline.
 *
 * Beside the locks on files it decides nothing: those exclude threads too, each call opening its
 * own. It is there so that threads of one process wake each other instead of asking the kernel
 * again and again. A thread that waits for it alone gets it before those that would share it. */
struct rwlock {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned sharing, waiting_alone;
    bool alone;
};
void rwlock_init(struct rwlock *lock);
void rwlock_deinit(struct rwlock *lock);
bool rwlock_take(struct rwlock *lock, bool alone, int64_t wait_ns); /* false: not in time */
void rwlock_give(struct rwlock *lock, bool alone);
#endif
