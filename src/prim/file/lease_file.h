/* SPDX-License-Identifier: Apache-2.0 */
/* Lease records: the files s/<id>, overwritten in place. A renewal locks, reads, writes and unlocks
 * a record through a descriptor that is kept open. A renewal uses no directory and no sync.
 *
 * The kept descriptor also holds the liveness lock. A lease is valid without the two: when
 * descriptors run short, or after an import, a renewal opens the record again. */
#ifndef PRIM_FILE_LEASE_FILE_H
#define PRIM_FILE_LEASE_FILE_H
#include "prim/file/store.h"

/* Makes an empty table. Returns NULL if memory ran out. */
struct lease_table *lease_table_open(void);
void lease_table_close(struct lease_table *table);

/* Makes a record (step S7). Returns UNAVAILABLE/storage also if the id is in use. */
coord_result lease_make(struct file_store *store, const coord_id *id, int64_t ttl_ms,
                        int64_t *ret_deadline_ns);
/* Removes the lease after a failure (step S12), so that nobody finds it live. `published` is true
 * if a head may refer to the lease. */
void lease_abandon(struct file_store *store, const coord_id *id, bool published);
/* Makes this process the holder of the lease, or returns EXPIRED/deadline or EXPIRED/revoked. */
coord_result lease_take_up(struct file_store *store, const coord_id *id, int64_t until_ns,
                           int64_t *ret_deadline_ns);
prim_renew_fn file_renew;
prim_adopt_fn file_adopt;
/* Checks that the lease is live before a key is added: OK, EXPIRED/deadline or EXPIRED/revoked. */
coord_result lease_alive(struct file_store *store, const coord_id *id, int64_t until_ns,
                         struct lease_record *ret_record);
/* Ends a lease that its holder releases: marks the record, removes it, and frees its table entry.
 * Does nothing if the lease is already over. */
void lease_finish(struct file_store *store, const coord_id *id, int64_t until_ns);
/* Records that an entry is taken away from a live lease, so that the next renewal checks the
 * lease's heads. Call this before the new head is published, with the key locked. */
coord_result lease_raise_lost(struct file_store *store, const coord_id *id, int64_t until_ns);

/* Closes the descriptors of leases that ended long ago without a release. */
void lease_table_sweep(struct file_store *store);

/* Decides whether a lease is over. No other code decides this. The record lock is held, and the
 * record is marked "dead" before the entry is granted to another owner, so that a late renewal
 * fails.
 *
 * A lease is over if it is from another boot, released, marked dead, or past its deadline. It is
 * also over if its process is provably dead and its liveness lock is free (early death). A missing
 * or damaged record proves nothing: the holder cannot renew any more, but may have renewed just
 * before. So a full TTL must pass from the first time this process saw the damage. */
enum { BYTE_RECORD = 0, BYTE_LIVENESS = 4096, COLLECT_AFTER_MS = 600000 };

struct lease_verdict {
    bool over;
    bool released;       /* the lease is over because its holder released it */
    int64_t deadline_ns; /* time when the lease ends if not renewed, or ended (0: unknown) */
};
/* Judges the lease and marks it dead if it is over. Fails with UNAVAILABLE/timeout or /storage. */
coord_result judge(struct file_store *store, const struct head *head, int64_t until_ns,
                   struct lease_verdict *ret_verdict);

/* Opens s/<id>, takes the record lock and reads. *ret_fd stays open and locked. Returns 0, ENOENT,
 * EBADMSG (damaged; the lock is held nevertheless), ETIMEDOUT, or another errno. A stuck record
 * lock of a provably dead owner counts as acquired, because only the owner would renew. */
int record_open(struct file_store *store, const coord_id *id, bool exclusive, int64_t until_ns,
                int *ret_fd, struct lease_record *ret_record);
void record_close(int fd);
/* Decides by the record's contents and the time only, without the liveness lock. */
bool record_is_over(const struct file_store *store, const struct lease_record *record);
#endif
