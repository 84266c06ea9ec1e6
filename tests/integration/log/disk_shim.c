/* Preloaded into a replica: makes its disk fail or its life end at a chosen call. It counts the
 * calls that change files; everything else of the process is untouched.
 *
 *   MUSTER_TEST_DISK_KILL_AT=N    the process is gone, as by kill -9, instead of its N-th such
 * call   MUSTER_TEST_DISK_EIO=FILE     while FILE exists, the next fdatasync removes it and fails
 * MUSTER_TEST_DISK_COUNT=FILE   the number of calls so far, as the last 8 bytes of FILE */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static _Atomic uint64_t calls;

static void step(void)
{
    static uint64_t kill_at;
    static int count_fd = -1;
    uint64_t now = ++calls;

    if (now == 1) { /* the first call is made before there is a second thread */
        const char *text = getenv("MUSTER_TEST_DISK_KILL_AT");
        const char *count = getenv("MUSTER_TEST_DISK_COUNT");
        kill_at = text ? strtoull(text, NULL, 10) : 0;
        if (count) count_fd = open(count, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    }
    if (count_fd >= 0) syscall(SYS_pwrite64, count_fd, &now, sizeof now, (off_t)0);
    if (now == kill_at) kill(getpid(), SIGKILL);
}

static int sync_fails(void)
{
    const char *flag = getenv("MUSTER_TEST_DISK_EIO");
    return flag && syscall(SYS_unlinkat, AT_FDCWD, flag, 0) == 0;
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off_t offset)
{
    step();
    return syscall(SYS_pwrite64, fd, bytes, len, offset);
}

int fdatasync(int fd)
{
    step();
    if (sync_fails()) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
    step();
    return (int)syscall(SYS_fsync, fd);
}

int ftruncate64(int fd, off_t len)
{
    step();
    return (int)syscall(SYS_ftruncate, fd, len);
}

int rename(const char *from, const char *to)
{
    step();
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlink(const char *path)
{
    step();
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}
