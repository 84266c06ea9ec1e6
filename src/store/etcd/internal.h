/* SPDX-License-Identifier: Apache-2.0 */
/* The API's parts and their calls.
 *
 *     call -> rpc/forward.h (etcd.c: stays here?) -> leader/leader.h -> etcd.c: the part's `check`
 *          -> serializable: the part's `read`, at once
 *          -> once leadership is proved: `read`; or `command` -> the log -> `written`
 *     streams -> the part's own handler (struct etcd_raw)
 *     what is applied, a restore, a change of leadership -> every part
 *
 * A part is one file: one service of etcd's. */
#ifndef STORE_ETCD_INTERNAL_H
#define STORE_ETCD_INTERNAL_H
#include "leader/leader.h"
#include "rpc/forward.h"
#include "store/etcd/errors.h"
#include "store/etcd/etcd.h"
#include "store/service_internal.h"
#include "store/watch_engine.h"
#include "wire/pb/etcd_rpc.pb-c.h"

enum {
    ETCD_REQUEST_MAX = 1536 * 1024,                   /* of what is proposed */
    ETCD_MESSAGE_MAX = ETCD_REQUEST_MAX + 512 * 1024, /* of what is read */
    ETCD_ANSWER_MAX = INT32_MAX,
    ETCD_GATES_MAX = 96,
    /* How much longer than its own limit a leader may need to answer that the limit has passed. */
    ETCD_FORWARD_MS = 2000,
};

struct etcd_api;
struct etcd_request {
    struct leader_request base;
    enum store_kind kind;         /* of the command that is on its way */
    struct txn *txn;              /* Txn: decoded, in the call's arena */
    struct etcd_listing *listing; /* Range of very many keys, while it is sent; or NULL */
    bool acts; /* the log has one of these until it is done, though the client goes away */
    union {
        struct member_change change;
        struct transfer transfer;
    };
};
struct etcd_method { /* unary */
    struct leader_method base;
    /* What is wrong with the request whatever the store holds. May be NULL. */
    enum etcd_error (*check)(struct etcd_request *request);
    /* Whether its caller may ask for it, once it is checked: etcd_may, or etcd_may_manage. */
    bool (*allows)(const struct etcd_request *request);
    /* Any replica may answer it, from what is applied there. May be NULL: no. Asked of the message
     * alone, before it is checked. */
    bool (*serializable)(const ProtobufCMessage *message);
    /* The newest revision that it names, if it is serializable: a replica that has not got so far
     * passes it on, rather than call it the future. May be NULL: none. */
    int64_t (*newest)(const ProtobufCMessage *message);
    /* Of Lock and Election: etcd asks itself as a client there, and errors lose their codes. */
    bool inner;
    /* It is a read though it has a `command`. May be NULL. */
    bool (*reads)(const struct etcd_request *request);
    void (*read)(struct etcd_request *request); /* answers, of one moment */
    /* Appends the command to `into`, and returns its kind. ERR_NOMEM, ERR_FULL (too large). */
    enum err (*command)(struct etcd_request *request, struct buf *into, enum store_kind *ret_kind);
    void (*act)(struct etcd_request *request); /* none of these: on the leader; or NULL */
    /* What apply replied: answers. */
    void (*written)(struct etcd_request *request, struct str reply);
};

struct
    etcd_raw { /* a stream, or a unary method with a handler of its own; its service is the API */
    struct rpc_method rpc;
    bool leader_only; /* another replica passes it on to the leader */
};

/* Of a table of methods: ETCD_METHOD("Range", etcdserverpb, KV, range, range). The last two are the
 * words that its messages begin with. */
#define ETCD_METHOD(rpc_, package, service_, request_, response_)                                  \
    LEADER_METHOD(#package "." #service_, rpc_, package##__##request_##_request,                   \
                  package##__##response_##_response)
#define ETCD_RAW(rpc_, package, service_, request_, response_, kind_, handler_)                    \
    .rpc = {.path = "/" #package "." #service_ "/" rpc_,                                           \
            .kind = kind_,                                                                         \
            .input = &package##__##request_##_request__descriptor,                                 \
            .output = &package##__##response_##_response__descriptor,                              \
            .request_max = ETCD_MESSAGE_MAX,                                                       \
            .response_max = ETCD_ANSWER_MAX,                                                       \
            .handler = &(handler_)}

struct etcd_part {                     /* all may be NULL */
    const struct etcd_method *methods; /* up to a NULL path */
    const struct etcd_raw *raws;       /* the same */
    enum err (*open)(struct etcd_api *api);
    void (*close)(struct etcd_api *api); /* from a half-opened one too */
    void (*applied)(struct etcd_api *api);
    void (*restored)(struct etcd_api *api);
    void (*changed)(struct etcd_api *api, const struct replica_status *status);
};
extern const struct etcd_part etcd_kv_part, etcd_lease_part, etcd_watch_part, etcd_cluster_part,
    etcd_maintenance_part, etcd_removal_part, etcd_leader_call_part, etcd_queue_wait_part,
    etcd_election_part, etcd_observe_part;

struct etcd_watches { /* watch.c */
    struct feed *feed;
    struct list streams;
    struct timer no_leader; /* runs while no leader is known */
};
struct etcd_removal { /* removed.c */
    struct timer again;
    struct rpc_channel *channel; /* of the question under way, until it is closed */
    bool channel_closing;
    bool was_member, leaderless, stopping;
    bool removed; /* from the cluster: this replica serves no client any more */
};
struct etcd_leader_calls { /* leader_call.h; each list has the calls at one step */
    struct list fresh, pausing, running;
    struct list behind; /* the revision that each waits for is not applied here yet */
    struct timer again;
    struct task now;
    bool stopped;
};
struct etcd_queue_waits { /* queue_wait.c */
    struct list all, changed;
    struct task check;
    uint32_t count;
};
struct etcd_observers { /* observe.c */
    struct list all, changed;
    uint32_t count;
};
struct etcd_api {
    struct etcd_options options;
    struct log_source log;
    struct store_service *service;
    struct leader leader;
    struct rpc_forwarder *forwarder;
    struct rpc_forward_gate gates[ETCD_GATES_MAX];
    size_t gate_count;
    struct buf answer, command; /* scratch of one call */
    struct list listings;       /* Ranges of very many keys */
    struct list acting;
    struct timer listing_turn;
    struct list pruning; /* compactions that wait until what they cut off is freed */
    struct etcd_watches watches;
    struct etcd_removal removal;
    void (*stopped)(void *owner); /* of etcd_stop */
    void *stopped_owner;
    struct list keepers; /* streams that keep leases alive: lease.c */
    struct etcd_leader_calls leader_calls;
    struct etcd_queue_waits queue_waits;
    struct etcd_observers observers;
};

static inline struct etcd_api *api_of(const struct etcd_request *request)
{
    return CONTAINER_OF(request->base.leader, struct etcd_api, leader);
}
static inline struct etcd_request *etcd_request_of(struct leader_request *request)
{
    return CONTAINER_OF(request, struct etcd_request, base);
}
static inline const struct store *api_store(const struct etcd_api *api)
{
    return service_store(api->service);
}
static inline const struct keys *api_keys(const struct etcd_api *api)
{
    return store_keys(api_store(api));
}
/* The request's message, of its method's type. */
static inline const void *etcd_message(const struct etcd_request *request)
{
    return request->base.message;
}

/* Of the call, or of the call of our own. */
static inline struct arena *etcd_arena(const struct etcd_request *request)
{
    return request->base.caller ? request->base.caller->arena : rpc_call_arena(request->base.call);
}

/* -- etcd.c -- */
/* The unary method with this path, which exists. */
const struct leader_method *etcd_method_at(const char *path);
/* The revision in the header of any answer; 0: none. */
uint64_t etcd_answer_revision(struct str answer);
/* ResponseHeader as field 1 of the message. `revision` 0: none. */
void etcd_header(const struct etcd_api *api, struct pack *pack, uint64_t revision);
/* Of now, in the scratch, which has the header already. */
struct pack etcd_answer(struct etcd_api *api);
void etcd_reply(struct etcd_request *request, const struct pack *pack);
void etcd_reply_header(struct etcd_request *request); /* of now, and nothing else */
/* Nothing was done. */
void etcd_refuse(struct etcd_request *request, enum etcd_error error);
void etcd_finish(struct rpc_call *call, enum etcd_error error);
/* Until `change` or `transfer` is done, which answers. */
void etcd_act(struct etcd_request *request);
/* The status of an `inner` method for what another would refuse with `status`. */
enum grpc_status etcd_inner_status(enum grpc_status status);
/* -- permissions, under TLS: checked where a call is answered -- */
bool etcd_may(const struct etcd_api *api, const struct rpc_call *call, struct key_range range,
              enum etcd_act act);
bool etcd_may_any(const struct etcd_api *api,
                  const struct rpc_call *call);           /* a rule names the client */
bool etcd_may_manage(const struct etcd_request *request); /* an administrator: members, history */
bool etcd_may_look(const struct etcd_request *request);   /* a rule names the client */
/* An administrator of the fleet, or no TLS: for what is more than keys. */
bool etcd_may_administer(const struct etcd_request *request);

bool etcd_leader_known(const struct etcd_api *api);
bool etcd_wants_leader(const struct rpc_call *call); /* hasleader is asked for */
/* And no leader is known. */
bool etcd_lacks_leader(const struct etcd_api *api, const struct rpc_call *call);
/* Why a call that this replica keeps may not begin. `full`: there are too many of its kind. */
enum etcd_error etcd_keep_refusal(const struct etcd_api *api, const struct rpc_call *call,
                                  bool full);
/* The channel to it, for calls of our own; NULL: no leader is known. */
struct rpc_channel *etcd_leader_channel(struct etcd_api *api);
void etcd_passed(struct etcd_api *api,
                 struct str answer); /* of the leader's, to a caller of ours */
const char *etcd_version(const struct etcd_api *api);

/* -- lease.c: commands of requests, from the message alone; or why there is none -- */
/* `drawn`: the lease's number when the request has none; positive. */
enum etcd_error etcd_grant_command(const Etcdserverpb__LeaseGrantRequest *m, int64_t drawn,
                                   struct store_command *ret_command);
enum etcd_error etcd_revoke_command(const Etcdserverpb__LeaseRevokeRequest *m,
                                    struct store_command *ret_command);

/* -- watch.c -- */
void etcd_watches_end(struct etcd_api *api, enum etcd_error error); /* every stream */
/* -- queue_wait.c: the keys of named leases stay -- */
void etcd_queue_waits_end(struct etcd_api *api, enum etcd_error error);
/* -- observe.c: all of them, or those that need a leader -- */
void etcd_observers_end(struct etcd_api *api, enum etcd_error error, bool needs_leader);

/* -- removed.c: asks no more. etcd_removal_stopped() comes, maybe at once -- */
void etcd_removal_stop(struct etcd_api *api);
/* -- etcd.c -- */
void etcd_removal_stopped(struct etcd_api *api);

/* -- cluster.c -- */
size_t etcd_members(const struct etcd_api *api, struct etcd_member members[REPLICA_MEMBERS_MAX]);
#endif
