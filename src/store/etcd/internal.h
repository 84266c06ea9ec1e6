/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the API and the calls between them.
 *
 *     call -> rpc/forward.h (etcd.c: handled here?) -> leader/leader.h -> the part's `check`
 *          -> serializable: the part's `read`, without a round
 *          -> once leadership is confirmed: `read`; or `command` -> the log -> `written`
 *     streams -> the part's own handler (struct etcd_raw)
 *     applied entries, a restore, a change of leadership -> every part
 *
 * A part is one file and implements one service of etcd. */
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
    ETCD_REQUEST_MAX = 1536 * 1024,                   /* bytes of a proposal */
    ETCD_MESSAGE_MAX = ETCD_REQUEST_MAX + 512 * 1024, /* bytes of a request message */
    ETCD_ANSWER_MAX = INT32_MAX,
    /* time for the leader to report its own timeout */
    ETCD_FORWARD_MS = 2000,
};

struct etcd_api;
struct etcd_request {
    struct leader_request base;
    enum store_kind kind; /* kind of the proposed command */
    struct txn *txn;
    struct etcd_listing *listing; /* NULL unless a Range of very many keys is in progress */
    bool acts; /* `change` or `transfer` is in use, even after the client disconnected */
    union {
        struct member_change change;
        struct transfer transfer;
    };
};
struct etcd_method { /* a unary method */
    struct leader_method base;
    /* Checks what does not depend on the store's state. May be NULL. */
    enum etcd_error (*check)(struct etcd_request *request);
    /* True if the caller may make the checked request, for example etcd_may_manage. */
    bool (*allows)(const struct etcd_request *request);
    /* True if any replica may answer from its applied state. Called before `check`. NULL: only the
     * leader answers. */
    bool (*serializable)(const ProtobufCMessage *message);
    /* The newest revision that a serializable request names. A replica that has not applied the
     * revision forwards the request. May be NULL. */
    int64_t (*newest)(const ProtobufCMessage *message);
    /* For Lock and Election: most errors get the code UNKNOWN, as in etcd (etcd_inner_status). */
    bool inner;
    /* True for a read of a method that has a `command`. May be NULL. */
    bool (*reads)(const struct etcd_request *request);
    void (*read)(struct etcd_request *request); /* answers from one state of the store */
    /* Appends the command to `into`. ERR_FULL: the command is too large. Or ERR_NOMEM. */
    enum err (*command)(struct etcd_request *request, struct buf *into, enum store_kind *ret_kind);
    void (*act)(struct etcd_request *request); /* for other work on the leader; may be NULL */
    /* answers with the reply that apply returned */
    void (*written)(struct etcd_request *request, struct str reply);
};

struct etcd_raw { /* a stream, or a unary method with its own handler */
    struct rpc_method rpc;
    bool leader_only; /* other replicas forward the call to the leader */
};

/* A row of a method table: ETCD_METHOD("Range", etcdserverpb, KV, range, range). The last two
 * arguments are the prefixes of the message names. */
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

struct etcd_part {                     /* all fields may be NULL */
    const struct etcd_method *methods; /* ends with a NULL path */
    const struct etcd_raw *raws;       /* ends with a NULL path */
    enum err (*open)(struct etcd_api *api);
    void (*close)(struct etcd_api *api); /* also closes a part that failed to open completely */
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
    struct rpc_channel *channel; /* channel of the query in progress, until it is closed */
    bool channel_closing;
    bool was_member, leaderless, stopping;
    bool removed;
};
struct etcd_leader_calls { /* leader_call.h; one list per step of a call */
    struct list fresh, pausing, running;
    struct list behind; /* wait until this replica has applied a revision */
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
    struct buf answer, command; /* scratch buffers of one call */
    struct list listings;       /* Ranges of very many keys */
    struct list acting;
    struct timer listing_turn;
    struct list pruning; /* compactions that wait until the compacted history is freed */
    struct etcd_watches watches;
    struct etcd_removal removal;
    void (*stopped)(void *owner); /* callback of etcd_stop */
    void *stopped_owner;
    struct list keepers; /* LeaseKeepAlive streams: lease.c */
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
static inline const void *etcd_message(const struct etcd_request *request)
{
    return request->base.message;
}

/* the arena of the client's call, or of a call that this replica makes itself */
static inline struct arena *etcd_arena(const struct etcd_request *request)
{
    return request->base.caller ? request->base.caller->arena : rpc_call_arena(request->base.call);
}

/* -- etcd.c -- */
/* The unary method must exist. */
const struct leader_method *etcd_method_at(const char *path);
/* the revision in the header of an encoded response; 0: none */
uint64_t etcd_answer_revision(struct str answer);
/* `revision` 0: the header names no revision */
void etcd_header(const struct etcd_api *api, struct pack *pack, uint64_t revision);
/* a response in the scratch buffer, with a header of the current revision */
struct pack etcd_answer(struct etcd_api *api);
void etcd_reply(struct etcd_request *request, const struct pack *pack);
/* a response with only the header of the current revision */
void etcd_reply_header(struct etcd_request *request);
void etcd_refuse(struct etcd_request *request, enum etcd_error error);
void etcd_finish(struct rpc_call *call, enum etcd_error error);
/* Keeps the request until `change` or `transfer` is done; the completion answers the request. */
void etcd_act(struct etcd_request *request);
/* the status that Lock and Election report instead of `status`, as etcd does */
enum grpc_status etcd_inner_status(enum grpc_status status);
/* -- permissions under TLS, checked where a call is answered -- */
bool etcd_may(const struct etcd_api *api, const struct rpc_call *call, struct key_range range,
              enum etcd_act act);
bool etcd_may_any(const struct etcd_api *api,
                  const struct rpc_call *call); /* a rule names the client */
/* True for an administrator, as required for members and history. */
bool etcd_may_manage(const struct etcd_request *request);
bool etcd_may_look(const struct etcd_request *request); /* true if a rule names the client */
/* True for a fleet administrator, or without TLS. Required for requests about more than keys. */
bool etcd_may_administer(const struct etcd_request *request);

bool etcd_leader_known(const struct etcd_api *api);
/* true if the client requires a leader (metadata hasleader) */
bool etcd_wants_leader(const struct rpc_call *call);
/* true if the client requires a leader and none is known */
bool etcd_lacks_leader(const struct etcd_api *api, const struct rpc_call *call);
/* Why this replica does not keep a call open. `full`: too many such calls are open. */
enum etcd_error etcd_keep_refusal(const struct etcd_api *api, const struct rpc_call *call,
                                  bool full);
/* the channel for this replica's own calls to the leader; NULL without a leader */
struct rpc_channel *etcd_leader_channel(struct etcd_api *api);
void etcd_passed(struct etcd_api *api,
                 struct str answer); /* notes the revision of a forwarded response */
const char *etcd_version(const struct etcd_api *api);

/* -- lease.c: build commands from the request message alone, or return an error -- */
/* `drawn`: a positive random number, for a request that names no lease */
enum etcd_error etcd_grant_command(const Etcdserverpb__LeaseGrantRequest *m, int64_t drawn,
                                   struct store_command *ret_command);
enum etcd_error etcd_revoke_command(const Etcdserverpb__LeaseRevokeRequest *m,
                                    struct store_command *ret_command);

/* -- watch.c -- */
void etcd_watches_end(struct etcd_api *api, enum etcd_error error); /* ends every watch stream */
/* -- queue_wait.c: ends the waits; the keys stay until their leases end -- */
void etcd_queue_waits_end(struct etcd_api *api, enum etcd_error error);
/* -- observe.c: ends all observers, or only those that need a leader -- */
void etcd_observers_end(struct etcd_api *api, enum etcd_error error, bool needs_leader);

/* -- removed.c: stops the queries. Calls etcd_removal_stopped(), perhaps before the return -- */
void etcd_removal_stop(struct etcd_api *api);
/* -- etcd.c -- */
void etcd_removal_stopped(struct etcd_api *api);

/* -- cluster.c -- */
size_t etcd_members(const struct etcd_api *api, struct etcd_member members[REPLICA_MEMBERS_MAX]);
#endif
