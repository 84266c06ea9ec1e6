/* SPDX-License-Identifier: Apache-2.0 */
/* A unary call that this replica makes of its own: a request message out, a response message back.
 *
 * On the leader the request takes the way of a client's call (leader_ask). Elsewhere it is sent to
 * the leader in the name of the client that caused it. Without a leader, or when the answer is lost,
 * the request is sent again, to whichever replica leads by then, until the call's time is up. The
 * leader may therefore see a request twice: only what does the same when it comes twice may be sent.
 *
 * Everything runs on the loop's thread. */
#ifndef STORE_ETCD_LEADER_CALL_H
#define STORE_ETCD_LEADER_CALL_H
#include "store/etcd/internal.h"

struct leader_answer { /* valid during the call */
    enum grpc_status status;
    struct str text;
    uint64_t revision;   /* GRPC_OK: of the response's header, or the one that was waited for */
    struct str response; /* GRPC_OK: the message; "" of leader_call_catch_up and leader_call_wait */
};
struct leader_call;
typedef void leader_call_fn(struct leader_call *call, const struct leader_answer *answer);
struct leader_call { /* the owner's storage until `done` has begun; zeroed at first */
    struct list link;
    struct etcd_api *api;
    const char *path; /* "/etcdserverpb.KV/Txn" */
    bool busy;        /* from its beginning until `done` */
    bool catches_up;
    struct buf request, client; /* client: whom the leader is asked for */
    char actor[REPLICA_ACTOR_MAX];
    struct leader_caller caller;
    struct arena arena; /* of the attempt on this leader */
    mono_time until;
    uint64_t revision;
    leader_call_fn *done;
};
/* In the name of the client of `from`, which is not needed any longer. */
enum err leader_call_init(struct leader_call *call, struct etcd_api *api,
                          const struct rpc_call *from);
void leader_call_deinit(struct leader_call *call); /* not busy; fine on a zeroed one */
/* One at a time; `done` comes once, never from inside. ERR_CLOSED: the API stops; ERR_NOMEM,
 * ERR_FULL. `path`: static. */
enum err leader_call_begin(struct leader_call *call, const char *path,
                           const ProtobufCMessage *request, uint64_t wait_ms, leader_call_fn *done);
/* Until everything is applied here that was acknowledged before. `key` is one that the client may
 * read. wait_ms 0: for as long as it takes. */
enum err leader_call_catch_up(struct leader_call *call, struct str key, uint64_t wait_ms,
                              leader_call_fn *done);
/* Until this revision is applied here. */
enum err leader_call_wait(struct leader_call *call, uint64_t revision, leader_call_fn *done);

/* Calls that wait for nothing but time end at once, the others when the way to the leader and the
 * replica are closed. */
void leader_calls_stop(struct etcd_api *api);
#endif
