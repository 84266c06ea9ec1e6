/* SPDX-License-Identifier: Apache-2.0 */
/* A unary call that this replica makes itself: encodes a request message and returns the response.
 *
 * On the leader the request is handled like a client's call (leader_ask). A follower sends the
 * request to the leader in the name of the client that caused the call. Without a leader or a
 * response, the request is sent again until the call's deadline. The leader may get a request
 * twice, so requests must be idempotent.
 *
 * Loop's thread. */
#ifndef STORE_ETCD_LEADER_CALL_H
#define STORE_ETCD_LEADER_CALL_H
#include "store/etcd/internal.h"

struct leader_answer { /* valid only while leader_call_fn runs */
    enum grpc_status status;
    struct str text;
    uint64_t revision;   /* with GRPC_OK: the response's revision, or the awaited revision */
    struct str response; /* with GRPC_OK: the message, or "" for catch_up and wait */
};
struct leader_call;
typedef void leader_call_fn(struct leader_call *call, const struct leader_answer *answer);
struct leader_call { /* the owner's memory until `done` is called; zero it first */
    struct list link;
    struct etcd_api *api;
    const char *path; /* "/etcdserverpb.KV/Txn" */
    bool busy;        /* from leader_call_begin() until `done` is called */
    bool catches_up;
    struct buf request, client; /* `client`: name of the client that caused the call */
    char actor[REPLICA_ACTOR_MAX];
    struct leader_caller caller;
    struct arena arena; /* memory of the current attempt */
    mono_time until;
    uint64_t revision;
    leader_call_fn *done;
};
/* Calls are made in the name of the client of `from`. `from` is not used afterwards. */
enum err leader_call_init(struct leader_call *call, struct etcd_api *api,
                          const struct rpc_call *from);
void leader_call_deinit(struct leader_call *call); /* must not be busy; a zeroed call is fine */
/* Starts a call, which must not be busy. `path` must be static. `done` is called once, after this
 * function has returned. ERR_CLOSED: the API is stopping. Or ERR_NOMEM, ERR_FULL. */
enum err leader_call_begin(struct leader_call *call, const char *path,
                           const ProtobufCMessage *request, uint64_t wait_ms, leader_call_fn *done);
/* Waits until this replica has applied every write that was acknowledged before the call. The
 * client must be allowed to read `key`. `wait_ms` 0: no timeout. */
enum err leader_call_catch_up(struct leader_call *call, struct str key, uint64_t wait_ms,
                              leader_call_fn *done);
enum err leader_call_wait(struct leader_call *call, uint64_t revision, leader_call_fn *done);

/* Ends all calls that only wait for a timer. Other calls end when the connection to the leader and
 * the replica are closed. */
void leader_calls_stop(struct etcd_api *api);
#endif
