/* SPDX-License-Identifier: Apache-2.0 */
/* Calls on one key: create, compare-and-set, delete, release, get. Steps S1 to S12. */
#ifndef PRIM_FILE_WRITE_H
#define PRIM_FILE_WRITE_H
#include "prim/file/head_file.h"
#include "prim/file/judge.h"
#include "prim/file/locks.h"

coord_result file_create(struct prim_backend *backend, const struct prim_call *call,
                         const struct prim_create *in, struct prim_grant *ret_grant);
coord_result file_cas(struct prim_backend *backend, const struct prim_call *call,
                      const struct prim_cas *in, struct prim_grant *ret_grant);
coord_result file_remove(struct prim_backend *backend, const struct prim_call *call,
                         const struct prim_delete *in);
coord_result file_get(struct prim_backend *backend, const struct prim_call *call, struct str key,
                      int consistency, coord_entry **ret_entry);
coord_result file_release(struct prim_backend *backend, const struct prim_call *call,
                          const struct prim_claim *claim, const char *key);

/* -- shared with slots.c -- */
uint64_t file_wall_ms(void);
/* A head for `key` as this process writes it now; the caller sets what differs. */
void head_begin(const struct file_store *store, const struct prim_call *call, struct str key,
                uint64_t revision, int reason, struct head *ret_head);
void head_lease(const struct file_store *store, const coord_id *id, struct str owner,
                int64_t ttl_ms, int64_t deadline_ns, struct head *head);
void head_tombstone(const struct file_store *store, const struct prim_call *call,
                    const struct head *old, uint64_t revision, int reason, struct head *ret_head);
/* Who is in the way: owner, token, revision, when it may be over. */
void answer_holder(const struct file_store *store, coord_result *result, const struct head *head,
                   const struct verdict *verdict);
/* The rest of a grant that was made before, of a live head: OK/replayed. EXPIRED: it is over by
 * now. Without locks held. */
coord_result replay_grant(struct file_store *store, const struct prim_call *call,
                          const struct head *head, struct prim_grant *ret_grant);
/* Tells the host of a failed sync. Without locks held. */
void file_settle(struct file_store *store);
#endif
