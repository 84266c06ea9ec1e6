/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a lease is over. The only place that decides it, always under the record lock, and before
 * an entry is given to anybody else the record says "dead": a renewal that comes later finds that.
 *
 * Over: of another boot; released; dead; past its deadline; or its process is provably dead and its
 * liveness lock is free (early death). A record that is missing or damaged proves nothing: its
 * holder cannot renew, but may have renewed a moment ago, so a full TTL must pass from our own
 * first sight of the damage. */
#ifndef PRIM_FILE_JUDGE_H
#define PRIM_FILE_JUDGE_H
#include "prim/file/store.h"

enum { BYTE_RECORD = 0, BYTE_LIVENESS = 4096, COLLECT_AFTER_MS = 600000 };

struct verdict {
    bool over;
    bool released;       /* over, by its own holder */
    int64_t deadline_ns; /* live: when it ends unless renewed; over: when it ended, 0 unknown */
};
/* Writes "dead" when it is over. UNAVAILABLE/timeout, UNAVAILABLE/storage. */
coord_result judge(struct file_store *store, const struct head *head, int64_t until_ns,
                   struct verdict *ret_verdict);

/* Opens s/<id>, takes the record lock and reads. *ret_fd stays open, locked. 0; ENOENT; EBADMSG
 * (damaged; the lock is held all the same); ETIMEDOUT; another errno. A record lock that is stuck
 * with a provably dead owner counts as taken: only its owner would renew. */
int record_open(struct file_store *store, const coord_id *id, bool exclusive, int64_t until_ns,
                int *ret_fd, struct lease_record *ret_record);
int record_lock(struct file_store *store, int fd, bool exclusive, int64_t until_ns);
int lease_record_get(int fd, const coord_id *id, struct lease_record *ret_record);
int lease_record_put(int fd, const struct lease_record *record);
void record_close(int fd);
/* By what stands in it, now, without the liveness lock. */
bool record_is_over(const struct file_store *store, const struct lease_record *record);
#endif
