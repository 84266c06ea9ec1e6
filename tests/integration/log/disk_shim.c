/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into a replica: makes its disk fail, kills it at a chosen call, or records every change
 * of its files. It counts the calls that change files; other calls are untouched.
 *
 *   MUSTER_TEST_DISK_KILL_AT=N      gone, as by kill -9, instead of its N-th such call
 *   MUSTER_TEST_DISK_KILL=FILE      once FILE exists, it is gone instead of its next such call
 *   MUSTER_TEST_DISK_ONLY=DIR       only calls on DIR and below it are counted for both
 *   MUSTER_TEST_DISK_EIO=FILE       while FILE exists, the next fdatasync removes it and fails
 *   MUSTER_TEST_DISK_JOURNAL=FILE   all changes are recorded there (disk_journal.h) */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "disk_journal.h"

static uint64_t calls, kill_at;
static const char *kill_flag, *eio_flag, *only;

__attribute__((constructor)) static void begin(void)
{
    const char *at = getenv("MUSTER_TEST_DISK_KILL_AT");

    kill_at = at ? strtoull(at, NULL, 10) : 0;
    kill_flag = getenv("MUSTER_TEST_DISK_KILL");
    eio_flag = getenv("MUSTER_TEST_DISK_EIO");
    only = getenv("MUSTER_TEST_DISK_ONLY");
    journal_open();
}

static bool counts(const char *path)
{
    size_t len = only ? strlen(only) : 0;

    return !only || (strncmp(path, only, len) == 0 && (path[len] == '/' || !path[len]));
}

static bool counts_fd(int fd)
{
    char link[32], path[4096];
    ssize_t len;

    if (!only) return true;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    len = readlink(link, path, sizeof path - 1);
    if (len < 0) abort();
    path[len] = '\0';
    return counts(path);
}

/* Dying with the lock held: no other thread is between a change and its record. */
static void step_locked(bool counted)
{
    journal_lock();
    if (!counted) return;
    if (++calls == kill_at || (kill_flag && syscall(SYS_access, kill_flag, F_OK) == 0)) {
        kill(getpid(), SIGKILL);
        for (;;) pause();
    }
}

static int ended(long result)
{
    journal_unlock();
    return (int)result;
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off_t offset)
{
    ssize_t put;

    step_locked(counts_fd(fd));
    put = syscall(SYS_pwrite64, fd, bytes, len, offset);
    if (put > 0) journal_put_fd(JOURNAL_WRITE, fd, (uint64_t)offset, bytes, (size_t)put);
    journal_unlock();
    return put;
}

int ftruncate64(int fd, off_t len)
{
    long bad;

    step_locked(counts_fd(fd));
    bad = syscall(SYS_ftruncate, fd, len);
    if (!bad) journal_put_fd(JOURNAL_TRUNCATE, fd, (uint64_t)len, "", 0);
    return ended(bad);
}

static int sync_with(long call, int fd)
{
    uint64_t number;
    long bad;

    step_locked(counts_fd(fd));
    journal_unlock();
    number = journal_sync_begins(fd);
    bad = syscall(call, fd);
    if (!bad) journal_sync_ended(fd, number);
    return (int)bad;
}

int fdatasync(int fd)
{
    if (eio_flag && syscall(SYS_unlinkat, AT_FDCWD, eio_flag, 0) == 0) {
        errno = EIO;
        return -1;
    }
    return sync_with(SYS_fdatasync, fd);
}

int fsync(int fd)
{
    return sync_with(SYS_fsync, fd);
}

int open64(const char *path, int flags, ...)
{
    struct stat before;
    va_list list;
    mode_t mode;
    int fd, was_there;

    if (!(flags & O_CREAT)) return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0);
    va_start(list, flags);
    mode = va_arg(list, mode_t);
    va_end(list);
    step_locked(counts(path));
    was_there = lstat(path, &before) == 0;
    fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    if (fd >= 0 && !was_there) journal_put_fd(JOURNAL_CREATE, fd, 0, path, strlen(path));
    if (fd >= 0 && was_there && flags & O_TRUNC) journal_put_fd(JOURNAL_TRUNCATE, fd, 0, "", 0);
    return ended(fd);
}

int mkdir(const char *path, mode_t mode)
{
    struct stat made;
    long bad;

    step_locked(counts(path));
    bad = syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    if (!bad && lstat(path, &made) == 0)
        journal_put(JOURNAL_MAKE_DIR, made.st_ino, 0, path, strlen(path));
    return ended(bad);
}

int rename(const char *from, const char *to)
{
    char both[2 * 4096];
    size_t from_size = strlen(from) + 1, to_size = strlen(to) + 1;
    long bad;

    if (from_size + to_size > sizeof both) abort();
    memcpy(both, from, from_size);
    memcpy(both + from_size, to, to_size);
    step_locked(counts(to));
    bad = syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    if (!bad) journal_put(JOURNAL_RENAME, 0, 0, both, from_size + to_size);
    return ended(bad);
}

int symlink(const char *target, const char *path)
{
    step_locked(counts(path));
    return ended(syscall(SYS_symlink, target, path)); /* no replica makes one: not in the journal */
}

static int removed(const char *path, int flags)
{
    long bad;

    step_locked(counts(path));
    bad = syscall(SYS_unlinkat, AT_FDCWD, path, flags);
    if (!bad) journal_put(JOURNAL_REMOVE, 0, 0, path, strlen(path));
    return ended(bad);
}

int unlink(const char *path)
{
    return removed(path, 0);
}

int rmdir(const char *path)
{
    return removed(path, AT_REMOVEDIR);
}
