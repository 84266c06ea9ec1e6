/* SPDX-License-Identifier: Apache-2.0 */
/* The locks of a file store, taken in this order: bucket, key, lease record.
 *
 * All locks are open-file-description locks on single bytes. Each lock is tried repeatedly without
 * blocking until the caller's deadline. The locks of a process end with the process. Bytes of
 * l/.bucket: byte 0 is the bucket lock. Byte 1 is the turnstile, which every caller passes. A
 * caller that wants the bucket exclusively holds the turnstile while it waits, so that a stream of
 * shared callers cannot starve it. Byte 2 is the gate: held shared while a key lock is being taken,
 * and exclusively while a key lock is being recovered.
 *
 * Recovery is needed for one case only: a child made by a bare clone() keeps a key lock after its
 * parent died. A process that is not provably dead, such as a stopped process, keeps its locks. */
#ifndef PRIM_FILE_LOCKS_H
#define PRIM_FILE_LOCKS_H
#include "prim/file/store.h"

struct locked {
    struct file_store *store;
    struct bucket *bucket; /* NULL: no lock is held */
    int bucket_fd, key_fd; /* -1: that lock is not held */
    bool alone;
    struct rwlock *key_rwlock;
};
#define LOCKED_NONE ((struct locked){.bucket_fd = -1, .key_fd = -1})

/* Locks a bucket: OK, UNAVAILABLE/timeout or /storage. After any result, call unlock(). */
coord_result lock_bucket(struct file_store *store, struct bucket *bucket, bool alone,
                         int64_t until_ns, struct locked *locked);
/* Locks a key. The bucket lock must be held. The text of a timeout names the holder's pid. */
coord_result lock_key(struct locked *locked, const char *name, enum file_op op, int64_t until_ns);
void unlock_key(struct locked *locked);
void unlock(struct locked *locked);

/* Locks one byte of an open file, retrying until the deadline. Returns 0, ETIMEDOUT or an errno. */
int lock_byte(struct file_store *store, int fd, uint64_t byte, enum lock_kind kind,
              int64_t until_ns);
/* Opens a lock file or record for writing, or creates it. Returns -1 with errno on failure. */
int lock_open(const struct file_store *store, int dir, const char *name);

/* Random pauses of 0.2 to 10 ms that grow each time. pause_until() is false at the deadline. */
struct pause {
    int64_t longest_ns;
};
bool pause_until(struct file_store *store, struct pause *pause, int64_t until_ns);
#endif
