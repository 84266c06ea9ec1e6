/* SPDX-License-Identifier: Apache-2.0 */
#include "disk_journal.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct head { /* read by power.py */
    uint64_t ns, inode, number, len, kind;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int journal = -1;
static uint64_t syncs;

void journal_open(void)
{
    const char *path = getenv("MUSTER_TEST_DISK_JOURNAL");
    if (path)
        journal = (int)syscall(SYS_openat, AT_FDCWD, path,
                               O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    if (path && journal < 0) abort();
}

void journal_lock(void)
{
    pthread_mutex_lock(&lock);
}

void journal_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void journal_put(enum journal_kind kind, uint64_t inode, uint64_t number, const void *text,
                 size_t len)
{
    struct timespec now;
    struct head head = {.inode = inode, .number = number, .len = len, .kind = (uint64_t)kind};
    struct iovec parts[] = {{&head, sizeof head}, {(void *)text, len}};

    if (journal < 0) return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    head.ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    /* A journal with a hole would prove nothing. */
    if (writev(journal, parts, 2) != (ssize_t)(sizeof head + len)) abort();
}

void journal_put_fd(enum journal_kind kind, int fd, uint64_t number, const void *text, size_t len)
{
    struct stat info;

    if (journal < 0) return;
    if (fstat(fd, &info) != 0) abort();
    journal_put(kind, info.st_ino, number, text, len);
}

uint64_t journal_sync_begins(int fd)
{
    uint64_t number;

    journal_lock();
    number = ++syncs;
    journal_put_fd(JOURNAL_SYNC_BEGIN, fd, number, "", 0);
    journal_unlock();
    return number;
}

void journal_sync_ended(int fd, uint64_t number)
{
    journal_lock();
    journal_put_fd(JOURNAL_SYNC_END, fd, number, "", 0);
    journal_unlock();
}
