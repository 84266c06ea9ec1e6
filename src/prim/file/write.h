/* SPDX-License-Identifier: Apache-2.0 */
/* The calls: create, compare-and-set, delete, release and get on one key (write.c), groups
 * (slots.c). Steps S1 to S12. */
#ifndef PRIM_FILE_WRITE_H
#define PRIM_FILE_WRITE_H
#include "prim/file/head_file.h"
#include "prim/file/lease_file.h"
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

/* A group is N slots as ordinary keys of its bucket, and one record that fixes N. The three calls
 * hold the bucket lock alone, so that choosing a slot, changing N and listing are each one step for
 * the whole group. */
coord_result file_acquire(struct prim_backend *backend, const struct prim_call *call,
                          const struct prim_acquire *in, struct prim_grant *ret_grant);
coord_result file_resize(struct prim_backend *backend, const struct prim_call *call,
                         struct str group, uint64_t expected, uint32_t slot_count);
coord_result file_holders(struct prim_backend *backend, const struct prim_call *call,
                          struct str group, coord_holders **ret_holders);

/* -- one key of one call, between S2 and S12 -- */
struct key_op {
    struct file_store *store;
    const struct prim_call *call;
    struct str key;
    char name[LAYOUT_NAME_CAP];
    struct bucket *bucket; /* NULL: not there, and so is the key */
    struct locked locked;
    struct head_file file;
    struct lease_verdict verdict;
    bool live;    /* there is an entry */
    bool expired; /* there was one; its lease is over */
};
void key_op_init(struct key_op *op, struct file_store *store, const struct prim_call *call);
/* S1 to S4. Locks the key; from OP_ACQUIRE on the whole bucket. Without `create` a bucket that is
 * not there means an absent key. key_op_end is due in any case. */
coord_result key_op_begin(struct key_op *op, struct prim_backend *backend,
                          const struct prim_call *call, struct str key, enum file_op kind,
                          bool create);
void key_op_end(struct key_op *op);
/* Reads the head named `name` in the bucket, and whether its lease is over. */
coord_result key_op_look(struct key_op *op);
/* What is to stand there. */
struct key_write {
    struct str value, owner;
    int64_t ttl_ms; /* > 0: of a new lease; COORD_TTL_KEEP: as it is; 0: none */
    coord_id lease_id;
    const struct prim_claim *under; /* not NULL: one more key of this lease */
    bool update;                    /* of the same entry; else a new one */
};
/* S6 to S11. */
coord_result key_op_write(const struct key_op *op, const struct key_write *in, int reason,
                          struct prim_grant *ret_grant);
/* key_op_end. After OK/replayed also what is left of the grant that `replayed`, a live head, was;
 * EXPIRED: it is over by now. */
coord_result key_op_finish(struct key_op *op, coord_result result, const struct head *replayed,
                           struct prim_grant *ret_grant);
int64_t key_op_left_ms(const struct key_op *op); /* of a leased entry */
/* Who is in the way: owner, token, revision, when it may be over. */
void answer_holder(const struct key_op *op, coord_result *result);
#endif
