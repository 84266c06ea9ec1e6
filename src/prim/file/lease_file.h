/* SPDX-License-Identifier: Apache-2.0 */
/* Lease records: the files s/<id>, overwritten in place. A renewal locks, reads, writes and
 * unlocks a record through a kept descriptor, without a directory or a sync. The descriptor also
 * holds the liveness lock.
 *
 * A lease is valid without descriptor and liveness lock: a renewal then opens the record again. */
#ifndef PRIM_FILE_LEASE_FILE_H
#define PRIM_FILE_LEASE_FILE_H
#include "prim/file/store.h"

/* NULL: out of memory. */
struct lease_table *lease_table_open(void);
void lease_table_close(struct lease_table *table);

/* Step S7. UNAVAILABLE/storage also if the id is in use. */
coord_result lease_make(struct file_store *store, const coord_id *id, int64_t ttl_ms,
                        int64_t *ret_deadline_ns);
/* Step S12: removes the lease after a failure. `published`: a head may refer to the lease. */
void lease_abandon(struct file_store *store, const coord_id *id, bool published);
/* Makes this process the holder, or EXPIRED/deadline or EXPIRED/revoked. */
coord_result lease_take_up(struct file_store *store, const coord_id *id, int64_t until_ns,
                           int64_t *ret_deadline_ns);
prim_renew_fn file_renew;
prim_adopt_fn file_adopt;
/* Call before a key is added. Returns OK, EXPIRED/deadline or EXPIRED/revoked. */
coord_result lease_alive(struct file_store *store, const coord_id *id, int64_t until_ns,
                         struct lease_record *ret_record);
/* Releases the holder's own lease. No effect on a lease that is over. */
void lease_finish(struct file_store *store, const coord_id *id, int64_t until_ns);
/* Call when an entry is taken away from a live lease, before the new head is published, with the
 * key locked. The lease's next renewal then checks the heads. */
coord_result lease_raise_lost(struct file_store *store, const coord_id *id, int64_t until_ns);

/* Closes the descriptors of leases that ended long ago without a release. */
void lease_table_sweep(struct file_store *store);

/* Decides whether a lease is over; no other code does. The record is marked "dead" under its
 * lock before the entry is granted to another owner, so that a late renewal fails.
 *
 * A lease is over if it is from another boot, released, marked dead, or past its deadline. It is
 * also over if its process is provably dead and its liveness lock is free (early death). A
 * missing or damaged record proves nothing, because the holder may have renewed just before. So
 * a full TTL must pass after this process first saw the damage. */
enum { BYTE_RECORD = 0, BYTE_LIVENESS = 4096, COLLECT_AFTER_MS = 600000 };

struct lease_verdict {
    bool over;
    bool released;       /* its holder released the lease */
    int64_t deadline_ns; /* when the lease ends or ended; 0: unknown */
};
/* Marks a lease that is over as dead. Fails with UNAVAILABLE/timeout or /storage. */
coord_result judge(struct file_store *store, const struct head *head, int64_t until_ns,
                   struct lease_verdict *ret_verdict);

/* Opens s/<id>, takes the record lock and reads. *ret_fd stays open and locked. 0, ENOENT,
 * EBADMSG (damaged, but locked), ETIMEDOUT, or another errno. A stuck lock of a provably dead
 * owner counts as acquired, because only the owner would renew. */
int record_open(struct file_store *store, const coord_id *id, bool exclusive, int64_t until_ns,
                int *ret_fd, struct lease_record *ret_record);
void record_close(int fd);
/* Decides by the record and the time only, without the liveness lock. */
bool record_is_over(const struct file_store *store, const struct lease_record *record);
#endif
