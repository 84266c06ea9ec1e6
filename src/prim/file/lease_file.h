/* SPDX-License-Identifier: Apache-2.0 */
/* Lease records: s/<id>, rewritten in place. A renewal is a lock, a read, a write and an unlock on
 * a descriptor that is kept; no directory, no sync.
 *
 * The kept descriptor also holds the liveness lock. Neither is needed for a lease to be valid: when
 * descriptors run short, or after an import, a renewal opens the record anew. */
#ifndef PRIM_FILE_LEASE_FILE_H
#define PRIM_FILE_LEASE_FILE_H
#include "prim/file/store.h"

/* NULL: no memory. */
struct lease_table *lease_table_open(void);
void lease_table_close(struct lease_table *table);

/* S7. UNAVAILABLE/storage, also when the id is in use. */
coord_result lease_make(struct file_store *store, const coord_id *id, int64_t ttl_ms,
                        int64_t *ret_deadline_ns);
/* S12 after a failure: nobody may find it live. `published`: a head may refer to it. */
void lease_abandon(struct file_store *store, const coord_id *id, bool published);
/* Its holder is this process from now on. EXPIRED/deadline, EXPIRED/revoked. */
coord_result lease_take_up(struct file_store *store, const coord_id *id, int64_t until_ns,
                           int64_t *ret_deadline_ns);
prim_renew_fn file_renew;
prim_adopt_fn file_adopt;
/* Is it live now? For one more key under it. OK, EXPIRED/deadline, EXPIRED/revoked. */
coord_result lease_alive(struct file_store *store, const coord_id *id, int64_t until_ns,
                         struct lease_record *ret_record);
/* Released by its holder: marked, removed, forgotten. Nothing when it is over already. */
void lease_finish(struct file_store *store, const coord_id *id, int64_t until_ns);
/* Somebody takes an entry away from a lease that lives: its next renewal looks at its heads. Call
 * before the new head is published, with its key locked. */
coord_result lease_raise_lost(struct file_store *store, const coord_id *id, int64_t until_ns);

/* Gives back descriptors of leases that ended long ago without a word. */
void lease_table_sweep(struct file_store *store);

/* Whether a lease is over. The only place that decides it, always under the record lock, and before
 * an entry is given to anybody else the record says "dead": a renewal that comes later finds that.
 *
 * Over: of another boot; released; dead; past its deadline; or its process is provably dead and its
 * liveness lock is free (early death). A record that is missing or damaged proves nothing: its
 * holder cannot renew, but may have renewed a moment ago, so a full TTL must pass from our own
 * first sight of the damage. */
enum { BYTE_RECORD = 0, BYTE_LIVENESS = 4096, COLLECT_AFTER_MS = 600000 };

struct lease_verdict {
    bool over;
    bool released;       /* over, by its own holder */
    int64_t deadline_ns; /* live: when it ends unless renewed; over: when it ended, 0 unknown */
};
/* Writes "dead" when it is over. UNAVAILABLE/timeout, UNAVAILABLE/storage. */
coord_result judge(struct file_store *store, const struct head *head, int64_t until_ns,
                   struct lease_verdict *ret_verdict);

/* Opens s/<id>, takes the record lock and reads. *ret_fd stays open, locked. 0; ENOENT; EBADMSG
 * (damaged; the lock is held all the same); ETIMEDOUT; another errno. A record lock that is stuck
 * with a provably dead owner counts as taken: only its owner would renew. */
int record_open(struct file_store *store, const coord_id *id, bool exclusive, int64_t until_ns,
                int *ret_fd, struct lease_record *ret_record);
void record_close(int fd);
/* By its contents, now, without the liveness lock. */
bool record_is_over(const struct file_store *store, const struct lease_record *record);
#endif
