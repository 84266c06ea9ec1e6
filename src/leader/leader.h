/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the calls that only a service's leader answers, from the request to the response.
 *
 *     call -> too many? -> `admit` (checks arguments) -> waits until the leader is ready
 *          -> `begin` -> request_read -> `read`, or request_propose -> `written`,
 *             or request_keep: the service keeps the request in its own list
 *          -> one of the request_* functions that answer; each frees the request
 *
 * If the client disconnects, a read is dropped. A write continues with its `call` set to NULL.
 * After wait_ms, a waiting request or read is refused. A write of that age gets the answer "may
 * or may not have been applied".
 *
 * rpc/forward.h forwards calls to the leader before they reach this code. Loop's thread only. */
#ifndef LEADER_LEADER_H
#define LEADER_LEADER_H
#include "io/io.h"
#include "log/log.h"
#include "rpc/forward.h"
#include "rpc/server.h"
#include "wire/pack.h"

struct leader_method {       /* must be the first field of the service's own struct */
    const char *path, *name; /* name: used in error texts */
    const ProtobufCMessageDescriptor *input, *output;
    size_t request_max, response_max; /* 0: the service's limits (leader_options) */
    enum rpc_kind kind;               /* RPC_UNARY, or RPC_SERVER_STREAM for kept requests */
};
/* Initializes `base` of a row in a service's method table. input_, output_: protobuf-c names. */
#define LEADER_METHOD(service_, rpc_, input_, output_, ...)                                        \
    .base = {.path = "/" service_ "/" rpc_,                                                        \
             .name = rpc_,                                                                         \
             .input = &input_##__descriptor,                                                       \
             .output = &output_##__descriptor,                                                     \
             __VA_ARGS__}

enum request_step {
    REQUEST_WAITS,
    REQUEST_READS,
    REQUEST_WRITES,
    REQUEST_KEPT, /* in the service's list */
};
/* A call that this replica makes itself. The caller must keep the storage until `answered`
 * begins. */
struct leader_caller {
    struct arena *arena; /* must live as long as the request */
    struct str actor;
    /* Called once, possibly inside leader_ask. */
    void (*answered)(struct leader_caller *caller, enum grpc_status status, struct str text,
                     struct str message);
};
struct leader_request { /* must be the first field of the service's own struct */
    struct list link;   /* in leader.requests or in the service's list; may be detached */
    struct leader *leader;
    const struct leader_method *method;
    struct rpc_call *call; /* NULL: the caller is a leader_caller, or the client disconnected */
    struct leader_caller *caller;
    const ProtobufCMessage *message;
    enum request_step step;
    bool acted;   /* the request had an effect: never answer "not applied" */
    bool streams; /* a kept stream; not in request_count, because the service limits streams */
    mono_time since;
    struct read_ticket ticket;
    struct proposal proposal;
};

/* Why leader.c refuses a call. Only LEADER_UNKNOWN calls may have been applied. */
enum leader_refusal {
    LEADER_NOT_LEADER,
    LEADER_TOO_MANY,
    LEADER_NOT_READY,
    LEADER_NO_MAJORITY, /* no majority confirmed the leader within wait_ms */
    LEADER_UNKNOWN,
    LEADER_LOG_FULL,
    LEADER_DISK_FULL,
    LEADER_OLD_LEVEL, /* some replicas are not upgraded yet */
    LEADER_FAILED,
    LEADER_REFUSALS
};
struct leader_text {
    enum grpc_status status;
    const char *text;
};
struct leader_rules {
    size_t request_size;
    /* Texts by refusal, for services whose clients expect certain texts. NULL: leader.c's texts. */
    const struct leader_text *words;
    enum grpc_status full, doubt;                  /* codes for a full log and for LEADER_UNKNOWN */
    bool (*admit)(struct leader_request *request); /* false: the request was refused and freed */
    void (*begin)(struct leader_request *request);
    void (*read)(struct leader_request *request); /* the leader is confirmed; must answer */
    /* Receives the state machine's reply or the log's error. Must answer the request, or free a
     * request without a call. */
    void (*written)(struct leader_request *request, enum err err, struct str reply);
    /* The caller of a kept request disconnected. NULL: the request is freed. */
    void (*gone)(struct leader_request *request);
    /* Called for kept requests when the server stops. May be NULL. */
    void (*drain)(struct leader_request *request);
    void (*writable)(struct leader_request *request); /* the peer reads again; may be NULL */
    void (*freed)(struct leader_request *request);    /* may be NULL */
};

enum {
    LEADER_METHODS_MAX = 64,
    LEADER_GATES_MAX = 96, /* on all servers together */
    LEADER_WAIT_MS = 5000, /* the usual wait_ms */
};
struct leader_options {
    const struct leader_rules *rules;
    struct loop *loop;
    const char *(*address)(void *owner); /* the leader's serving address; may return NULL */
    void *owner;
    uint64_t wait_ms;
    uint32_t requests_max;
    size_t request_max, response_max, arena_max; /* limits of each method; 0: the server's */
    struct rpc_forward_gate gate;                /* for leader_add_gated; no `stays`: no gate */
};
struct leader {
    struct leader_options options;
    struct replica *replica;         /* NULL until the replica is attached */
    struct rpc_forwarder *forwarder; /* for gates; opened and closed by the service */
    bool led;                        /* this replica leads `term`, by its last status */
    bool ready;
    uint64_t term;
    struct list requests;
    uint32_t request_count; /* without kept streams */
    struct timer overdue;
    struct leader_binding { /* what the RPC server passes to a method as its service */
        struct leader *leader;
        const struct leader_method *method;
    } bindings[LEADER_METHODS_MAX];
    size_t binding_count;
    struct rpc_forward_gate gates[LEADER_GATES_MAX];
    size_t gate_count;
};

/* -- open and close -- */
/* Returns ERR_FULL or ERR_NOMEM (timers). Call leader_close() even after an error. */
enum err leader_open(struct leader *leader, const struct leader_options *options);
void leader_close(struct leader *leader); /* all requests must have ended */
enum err leader_add(struct leader *leader, struct rpc_server *server,
                    const struct leader_method *method, struct note *note);
/* Like leader_add, behind a copy of `gate`. The caller sets only the gate's functions and
 * timeout. */
enum err leader_add_gated(struct leader *leader, struct rpc_server *server,
                          const struct rpc_method *method, const struct rpc_forward_gate *gate,
                          struct note *note);
/* Runs a call of this replica like a client's call. The service must have `words`. ERR_NOMEM:
 * `answered` is not called. The message must live as long as the caller's arena. */
enum err leader_ask(struct leader *leader, const struct leader_method *method,
                    const ProtobufCMessage *message, struct leader_caller *caller);

/* -- changes of the replica's status, in this order; true once per change -- */
bool leader_term_ended(struct leader *leader,
                       const struct replica_status *status); /* true: the replica lost the term */
bool leader_term_began(struct leader *leader, const struct replica_status *status);
bool leader_ready(struct leader *leader, const struct replica_status *status);
void leader_resume(struct leader *leader);

/* -- leadership -- */
bool leader_here(const struct leader *leader); /* true as of the last status */
/* True if the replica still leads the service's term and is ready. */
bool leader_leads(const struct leader *leader);
/* redirects the call to the leader and ends the call */
void leader_redirect(const struct leader *leader, struct rpc_call *call);

/* -- for requests that `begin` has received -- */
void request_read(struct leader_request *request);
/* Replaces the proposal's `done`. Copies the struct; its texts are read before the function
 * returns. */
void request_propose(struct leader_request *request, const struct proposal *proposal);
/* Passes the request to the service, which must end the request. No age limit applies then. */
void request_keep(struct leader_request *request, struct list *list);

/* -- each of these functions answers the request once and frees it -- */
void request_reply(struct leader_request *request, struct str message);
void request_reply_packed(struct leader_request *request, const struct pack *pack);
#define request_fail(request, status, ...) request_end(request, status, false, __VA_ARGS__)
/* Refuses a request that was not applied: the header x-muster-applied says that a
 * retry is safe. After `acted`, the answer is UNAVAILABLE without the header. */
#define request_refuse(request, status, ...) request_end(request, status, true, __VA_ARGS__)
void request_end(struct leader_request *request, enum grpc_status status, bool applied_no,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));
void request_redirect(struct leader_request *request);
void request_refuse_as(struct leader_request *request, enum leader_refusal why);
/* Only ERR_UNKNOWN means that the proposal may have been applied. */
void request_log_failed(struct leader_request *request, enum err err);
static inline bool request_is_awaited(const struct leader_request *request)
{
    return request->call || request->caller;
}
void request_free(struct leader_request *request); /* request->call must be answered, or NULL */
#endif
