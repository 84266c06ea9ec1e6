/* SPDX-License-Identifier: Apache-2.0 */
/* The locks of a file store, taken in this order: bucket, key, lease record.
 *
 * All are open-file-description locks on single bytes, asked for without waiting, again and again
 * until the caller's deadline. A dead process holds none. Bytes of l/.bucket: 0 the bucket lock, 1
 * the turnstile, through which everyone goes and in which a caller that wants the bucket alone
 * stays while it waits, so that a stream of others cannot starve it; 2 the gate, shared while a key
 * lock is being taken and alone while one is being recovered.
 *
 * What is left to recover is a key lock that a child made by a bare clone() keeps after its parent
 * died. A process that is stopped, or that cannot be proven dead, is never robbed of a lock. */
#ifndef PRIM_FILE_LOCKS_H
#define PRIM_FILE_LOCKS_H
#include "prim/file/store.h"

struct locked {
    struct file_store *store;
    struct bucket *bucket; /* NULL: nothing is held */
    int bucket_fd, key_fd; /* -1: not held */
    bool alone;
    struct rwlock *key_rwlock;
};
#define LOCKED_NONE ((struct locked){.bucket_fd = -1, .key_fd = -1})

/* OK, UNAVAILABLE/timeout, UNAVAILABLE/storage. After any of them unlock() is due and harmless. */
coord_result lock_bucket(struct file_store *store, struct bucket *bucket, bool alone,
                         int64_t until_ns, struct locked *locked);
/* With the bucket lock held. The text of a timeout names the pid in the way. */
coord_result lock_key(struct locked *locked, const char *name, enum file_op op, int64_t until_ns);
void unlock_key(struct locked *locked);
void unlock(struct locked *locked);

/* One byte of an open file, until the deadline: 0, ETIMEDOUT or an errno. */
int lock_byte(struct file_store *store, int fd, uint64_t byte, enum lock_kind kind,
              int64_t until_ns);
/* Opens a lock file or a record for writing, made when it is not there. -1 with errno. */
int lock_open(const struct file_store *store, int dir, const char *name);

/* Pauses between 0.2 and 10 ms, longer each time, at random. False: the deadline has come. */
struct pause {
    int64_t longest_ns;
};
bool pause_until(struct file_store *store, struct pause *pause, int64_t until_ns);
#endif
