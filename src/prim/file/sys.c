/* SPDX-License-Identifier: Apache-2.0 */
/* System calls of the file store (sys.h), and the registry of its descriptors. Any thread. Every
 * open descriptor of the store has its bit in `ours`, also during a fork(), so that the child
 * closes all of them. */
#include "prim/file/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "prim/thread.h"

/* One bit per descriptor number, set if the file store opened the descriptor. */
enum { FD_WORDS = 16384, FD_MAX = FD_WORDS * 64 };
static _Atomic uint64_t ours[FD_WORDS];
static atomic_int highest;
static pthread_rwlock_t fork_lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    (void)pthread_rwlock_wrlock(&fork_lock);
}

static void after_fork_parent(void)
{
    (void)pthread_rwlock_unlock(&fork_lock);
}

/* Closing releases no lock: locks belong to the open file, which the parent keeps. */
static void after_fork_child(void)
{
    int last = atomic_load(&highest);
    for (int word = 0; word <= last / 64; word++) {
        uint64_t bits = atomic_exchange(&ours[word], 0);
        while (bits != 0) {
            (void)close(word * 64 + __builtin_ctzll(bits));
            bits &= bits - 1;
        }
    }
    /* The child's thread has another id, so unlocking would fail. */
    fork_lock = (pthread_rwlock_t)PTHREAD_RWLOCK_INITIALIZER;
}

static void sys_watch_forks(void)
{
    (void)pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

static void opening(void)
{
    (void)pthread_once(&fork_once, sys_watch_forks);
    (void)pthread_rwlock_rdlock(&fork_lock);
}

static int sys_opened(int fd)
{
    int error = errno;
    if (fd >= FD_MAX) {
        (void)close(fd);
        fd = -1;
        error = EMFILE;
    }
    if (fd >= 0) {
        int last = atomic_load(&highest);
        atomic_fetch_or(&ours[fd / 64], UINT64_C(1) << (fd % 64));
        while (last < fd && !atomic_compare_exchange_weak(&highest, &last, fd)) {}
    }
    (void)pthread_rwlock_unlock(&fork_lock);
    errno = error;
    return fd;
}

int sys_open(int dir, const char *name, int flags, mode_t mode)
{
    opening();
    return sys_opened(openat(dir, name, flags | O_CLOEXEC | O_NOCTTY, mode));
}

int sys_inotify(void)
{
    opening();
    return sys_opened(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
}

int sys_eventfd(void)
{
    opening();
    return sys_opened(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

int sys_pidfd(uint32_t pid)
{
    opening();
    return sys_opened((int)syscall(SYS_pidfd_open, (pid_t)pid, 0)); /* always close-on-exec */
}

void sys_close(int fd)
{
    if (fd < 0) return;
    int error = errno;
    uint64_t bit = UINT64_C(1) << (fd % 64);
    (void)pthread_rwlock_rdlock(&fork_lock);
    /* A forked child has cleared all bits, and the number may have another user. */
    if ((atomic_fetch_and(&ours[fd / 64], ~bit) & bit) != 0) (void)close(fd);
    (void)pthread_rwlock_unlock(&fork_lock);
    errno = error;
}

int sys_open_dir(int parent, const char *name)
{
    return sys_open(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
}

int sys_make_dir(int parent, const char *name, mode_t mode)
{
    struct stat info;
    if (mkdirat(parent, name, mode) < 0) return errno == EEXIST ? 0 : errno;
    /* Sets the mode regardless of the umask, for all users of a shared store. With setgid, files
     * below inherit the group. */
    if (fstatat(parent, name, &info, AT_SYMLINK_NOFOLLOW) < 0) return errno;
    return fchmodat(parent, name, mode | (info.st_mode & S_ISGID), 0) < 0 ? errno : 0;
}

/* A network file system may lose the reply of a link that it made. Two links prove success,
 * because no other process knows the file. */
int sys_link(int from_dir, const char *from, int dir, const char *name)
{
    struct stat info;
    int error = linkat(from_dir, from, dir, name, 0) < 0 ? errno : 0;
    if (error != 0 && fstatat(from_dir, from, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        info.st_nlink == 2)
        error = 0;
    return error;
}

static int lock_call(int fd, int command, uint64_t byte, short type, struct flock *ret_lock)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1};
    int got;
    do {
        got = fcntl(fd, command, &lock);
    } while (got < 0 && errno == EINTR);
    if (got < 0) return errno == EACCES ? EAGAIN : errno;
    *ret_lock = lock;
    return 0;
}

int sys_lock(int fd, uint64_t byte, enum lock_kind kind)
{
    static const short types[] = {F_UNLCK, F_RDLCK, F_WRLCK};
    struct flock lock;
    return lock_call(fd, F_OFD_SETLK, byte, types[kind], &lock);
}

int sys_lock_test(int fd, uint64_t byte)
{
    struct flock lock = {0};
    int error = lock_call(fd, F_OFD_GETLK, byte, F_WRLCK, &lock);
    return error != 0 ? error : lock.l_type == F_UNLCK ? 0 : EAGAIN;
}

int sys_read(int fd, void *into, size_t len, size_t *ret_got)
{
    size_t got = 0;
    while (got < len) {
        ssize_t n = pread(fd, (char *)into + got, len - got, (off_t)got);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        if (n == 0) break;
        got += (size_t)n;
    }
    *ret_got = got;
    return 0;
}

int sys_write(int fd, const void *from, size_t len)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = pwrite(fd, (const char *)from + done, len - done, (off_t)done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        if (n == 0) return ENOSPC;
        done += (size_t)n;
    }
    return 0;
}

int sys_read_file(int dir, const char *name, void *into, size_t cap, size_t *ret_got)
{
    char more;
    size_t extra = 0;
    int fd = sys_open(dir, name, O_RDONLY | O_NOFOLLOW, 0);
    if (fd < 0) return errno;
    int error = sys_read(fd, into, cap, ret_got);
    if (error == 0 && *ret_got == cap && pread(fd, &more, 1, (off_t)cap) > 0) extra = 1;
    sys_close(fd);
    return error != 0 ? error : extra > 0 ? EBADMSG : 0;
}

/* -- directories -- */

/* The layout of getdents64(). opendir() would open a descriptor that after_fork_child() misses. */
struct entry {
    uint64_t inode;
    int64_t offset;
    unsigned short length;
    unsigned char type;
    char name[];
};

int sys_walk(int dir, sys_walk_fn *each, void *context)
{
    _Alignas(struct entry) char bytes[16384];
    int fd = sys_open_dir(dir, "."); /* a second descriptor has its own read position */
    if (fd < 0) return errno;
    int error = 0;
    for (bool more = true; more;) {
        long got = syscall(SYS_getdents64, fd, bytes, sizeof bytes);
        if (got < 0) error = errno;
        if (got <= 0) break;
        for (long at = 0; at < got && more;) {
            const struct entry *entry = (const void *)(bytes + at);
            at += entry->length;
            if (strcmp(entry->name, ".") == 0 || strcmp(entry->name, "..") == 0) continue;
            more = each(context, entry->name);
        }
    }
    sys_close(fd);
    return error;
}

/* -- locks among threads -- */

void rwlock_init(struct rwlock *lock)
{
    *lock = (struct rwlock){0};
    (void)pthread_mutex_init(&lock->mutex, NULL);
    prim_cond_init(&lock->changed);
}

void rwlock_deinit(struct rwlock *lock)
{
    assert(lock->sharing == 0 && !lock->alone);
    (void)pthread_cond_destroy(&lock->changed);
    (void)pthread_mutex_destroy(&lock->mutex);
}

static bool rwlock_is_free(const struct rwlock *lock, bool alone)
{
    return alone ? !lock->alone && lock->sharing == 0 : !lock->alone && lock->waiting_alone == 0;
}

bool rwlock_take(struct rwlock *lock, bool alone, int64_t wait_ns)
{
    struct timespec until = prim_until_ms(wait_ns > 0 ? wait_ns / 1000000 + 1 : 0);
    int waited = 0;
    (void)pthread_mutex_lock(&lock->mutex);
    if (!rwlock_is_free(lock, alone) && wait_ns > 0) {
        lock->waiting_alone += alone ? 1 : 0;
        while (!rwlock_is_free(lock, alone) && waited != ETIMEDOUT)
            waited = pthread_cond_timedwait(&lock->changed, &lock->mutex, &until);
        lock->waiting_alone -= alone ? 1 : 0;
    }
    bool entered = rwlock_is_free(lock, alone);
    if (entered && alone) lock->alone = true;
    if (entered && !alone) lock->sharing++;
    /* A thread that waited for exclusive access may have blocked shared callers. */
    if (!entered) (void)pthread_cond_broadcast(&lock->changed);
    (void)pthread_mutex_unlock(&lock->mutex);
    return entered;
}

void rwlock_give(struct rwlock *lock, bool alone)
{
    (void)pthread_mutex_lock(&lock->mutex);
    assert(alone ? lock->alone : lock->sharing > 0);
    if (alone)
        lock->alone = false;
    else
        lock->sharing--;
    (void)pthread_cond_broadcast(&lock->changed);
    (void)pthread_mutex_unlock(&lock->mutex);
}
