/* SPDX-License-Identifier: Apache-2.0 */
/* A record of every call by which a process changes files, from which power.py makes the disks that
 * a power cut at any moment could have left.
 *
 * A change and its record are made under one lock, so there is one call at a time. A sync takes
 * time, so it has two records: bytes written before its begin are durable at its end. All processes
 * of the machine share the clock of the records, so the journals of several replicas and the
 * answers of their clients have one order. */
#ifndef DISK_JOURNAL_H
#define DISK_JOURNAL_H
#include <stddef.h>
#include <stdint.h>

enum journal_kind {
    JOURNAL_CREATE = 'C',     /* a file; text is its path */
    JOURNAL_MAKE_DIR = 'M',   /* a directory; text is its path */
    JOURNAL_WRITE = 'W',      /* at `number`; text is the content */
    JOURNAL_TRUNCATE = 'T',   /* to `number` bytes */
    JOURNAL_RENAME = 'R',     /* text is both paths, each with its NUL */
    JOURNAL_REMOVE = 'U',     /* a file or a directory; text is its path */
    JOURNAL_SYNC_BEGIN = 'b', /* of a file or a directory; `number` names the sync */
    JOURNAL_SYNC_END = 's',
};
/* Opens it when the environment names one; the file is continued by the next process. */
void journal_open(void);
void journal_lock(void);
void journal_unlock(void);
/* All under the lock; nothing happens when there is no journal. */
void journal_put(enum journal_kind kind, uint64_t inode, uint64_t number, const void *text,
                 size_t len);
void journal_put_fd(enum journal_kind kind, int fd, uint64_t number, const void *text, size_t len);
uint64_t journal_sync_begins(int fd); /* takes the lock itself; its name */
void journal_sync_ended(int fd, uint64_t number);
#endif
