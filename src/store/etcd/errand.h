/* SPDX-License-Identifier: Apache-2.0 */
/* What a replica needs of the leader for a call that it keeps itself: a transaction, a lease, or
 * to be as new as the leader is now.
 *
 * On the leader it goes into the log, or waits for a round of leadership; elsewhere it is asked of
 * the leader as any client would, in the name of who called. Nobody to ask, or an answer that was
 * lost: it is asked again, of whoever leads by then, until its time is up. So an errand may come to
 * the leader twice, and only what does the same when it comes twice may be one. */
#ifndef STORE_ETCD_ERRAND_H
#define STORE_ETCD_ERRAND_H
#include "store/etcd/internal.h"

enum errand_kind {
    ERRAND_TXN,
    ERRAND_GRANT,    /* of a lease with a number; one that has it already will do */
    ERRAND_CATCH_UP, /* until everything is applied here that was acknowledged before it began */
};
enum errand_step {
    ERRAND_RESTS,
    ERRAND_PAUSES, /* until it is tried again */
    ERRAND_PROPOSED,
    ERRAND_READS,
    ERRAND_ASKED,  /* of the leader */
    ERRAND_BEHIND, /* what it waits for is not applied here yet */
};
struct errand_answer { /* valid during the call */
    enum grpc_status status;
    struct str text;
    uint64_t revision;                    /* GRPC_OK: as of then */
    const Etcdserverpb__TxnResponse *txn; /* GRPC_OK of ERRAND_TXN */
};
struct leader_call;
typedef void errand_fn(struct leader_call *errand, const struct errand_answer *answer);
struct leader_call { /* the owner's storage until done() has begun; zeroed at first */
    struct list link;
    struct etcd_api *api;
    enum errand_kind kind;
    enum errand_step step;
    struct buf request;                    /* the message as the leader is asked with it */
    Etcdserverpb__LeaseGrantRequest grant; /* ERRAND_GRANT: the message */
    struct buf caller;                     /* in whose name */
    char actor[REPLICA_ACTOR_MAX];
    size_t actor_len;
    mono_time until;
    uint64_t revision;
    struct proposal proposal;
    struct read_ticket ticket;
    errand_fn *done;
};
/* In the name of `call`, which it does not need any longer. */
enum err errand_init(struct leader_call *errand, struct etcd_api *api, const struct rpc_call *call);
void errand_deinit(struct leader_call *errand); /* at rest; fine on a zeroed one */
/* done() comes once, never from inside. ERR_CLOSED: the API stops; ERR_NOMEM, ERR_TOO_LARGE.
 * wait_ms 0: for as long as it takes. One at a time. */
enum err errand_begin(struct leader_call *errand, enum errand_kind kind,
                      const ProtobufCMessage *message, uint64_t wait_ms, errand_fn *done);
/* Until this revision is applied here. */
enum err errand_wait_for(struct leader_call *errand, uint64_t revision, errand_fn *done);

/* Each ends: those who wait for nothing but time at once, the others when the way to the leader and
 * the replica are closed. */
void errands_stop(struct etcd_api *api);
#endif
