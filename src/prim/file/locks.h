/* SPDX-License-Identifier: Apache-2.0 */
/* The locks of a file store, taken in this order: bucket, key, lease record. All are
 * open-file-description locks on single bytes, tried until the caller's deadline, and end with
 * the process.
 *
 * Bytes of l/.bucket:
 *   0  the bucket lock
 *   1  the turnstile, which every caller passes. A caller that waits for the bucket exclusively
 *      holds the turnstile, so that shared callers cannot starve it.
 *   2  the gate: shared while a key lock is taken, exclusive while a key lock is recovered
 *
 * Recovery: a child made by a bare clone() keeps a key lock after its parent died. A process
 * that is not provably dead, such as a stopped process, keeps its locks. */
#ifndef PRIM_FILE_LOCKS_H
#define PRIM_FILE_LOCKS_H
#include "prim/file/store.h"

struct locked {
    struct file_store *store;
    struct bucket *bucket; /* NULL: no lock is held */
    int bucket_fd, key_fd; /* -1: not held */
    bool alone;
    struct rwlock *key_rwlock;
};
#define LOCKED_NONE ((struct locked){.bucket_fd = -1, .key_fd = -1})

/* OK, UNAVAILABLE/timeout or /storage. Call unlock() after any result. */
coord_result lock_bucket(struct file_store *store, struct bucket *bucket, bool alone,
                         int64_t until_ns, struct locked *locked);
/* The bucket lock must be held. A timeout's text names the holder's pid. */
coord_result lock_key(struct locked *locked, const char *name, enum file_op op, int64_t until_ns);
void unlock_key(struct locked *locked);
void unlock(struct locked *locked);

/* Retries until the deadline. 0, ETIMEDOUT or an errno. */
int lock_byte(struct file_store *store, int fd, uint64_t byte, enum lock_kind kind,
              int64_t until_ns);
/* Opens or creates a lock file or record. -1 with errno on failure. */
int lock_open(const struct file_store *store, int dir, const char *name);

/* Random pauses of 0.2 to 10 ms that grow. pause_until() is false at the deadline. */
struct pause {
    int64_t longest_ns;
};
bool pause_until(struct file_store *store, struct pause *pause, int64_t until_ns);
#endif
