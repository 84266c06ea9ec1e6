/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of a service that only the leader answers, from a call's request to its response.
 *
 *     call -> too many? -> `admit` (arguments; leader_here) -> waits until the leader may be asked
 *          -> `begin` -> request_read -> `read`, or request_propose -> `written`,
 *             or request_keep: the service keeps it in a list of its own
 *          -> one of the answers, once, and the request is gone
 *
 * If the client goes away, a read is dropped and a write goes on without a client: its `call` is
 * NULL then. A request that has waited or read for wait_ms is refused. A write of that age is
 * abandoned and answered that it may or may not have been applied.
 *
 * Knows no service: what is asked, what it means and what it costs are the service's own. Passing a
 * call on to the leader is rpc/forward.h's, in front of this. All on the loop's thread. */
#ifndef LEADER_LEADER_H
#define LEADER_LEADER_H
#include "io/io.h"
#include "log/log.h"
#include "rpc/server.h"
#include "wire/pack.h"

struct leader_method {       /* first in the service's own */
    const char *path, *name; /* name: in texts */
    const ProtobufCMessageDescriptor *input, *output;
    size_t request_max, response_max; /* 0: the server's */
    enum rpc_kind kind;               /* RPC_UNARY, or RPC_SERVER_STREAM: kept while it sends */
};
/* The first field of a row in a service's table. `input_` and `output_` are messages' names as in
 * protobuf-c. */
#define LEADER_METHOD(service_, rpc_, input_, output_, ...)                                        \
    .base = {.path = "/" service_ "/" rpc_,                                                        \
             .name = rpc_,                                                                         \
             .input = &input_##__descriptor,                                                       \
             .output = &output_##__descriptor,                                                     \
             __VA_ARGS__}

enum request_step {
    REQUEST_WAITS, /* until the leader may be asked */
    REQUEST_READS,
    REQUEST_WRITES,
    REQUEST_KEPT, /* by the service */
};
/* This replica's own call, where a client's has a struct rpc_call. The caller's storage, which is not
 * used any more once `answered` has begun. */
struct leader_caller {
    struct arena *arena; /* lives as long as the request */
    struct str actor;
    /* With the message, or a status and its text. Once, maybe from inside leader_ask. */
    void (*answered)(struct leader_caller *caller, enum grpc_status status, struct str text,
                     struct str message);
};
struct leader_request { /* first in the service's own */
    struct list link;   /* leader.requests by age; detached once abandoned; or the service's */
    struct leader *leader;
    const struct leader_method *method;
    struct rpc_call *call; /* NULL: of a caller of our own, or the client is gone */
    struct leader_caller *caller;
    const ProtobufCMessage *message;
    enum request_step step;
    bool acted;   /* something was done: no answer may say that nothing was */
    bool streams; /* a stream that is kept: not counted, the service has a limit of its own */
    mono_time since;
    struct read_ticket ticket;
    struct proposal proposal;
};

/* Why a call is answered here and not by its service. Of LEADER_UNKNOWN alone it is open whether it
 * was applied. */
enum leader_refusal {
    LEADER_NOT_LEADER,
    LEADER_TOO_MANY,    /* requests_max */
    LEADER_NOT_READY,   /* within wait_ms */
    LEADER_NO_MAJORITY, /* likewise */
    LEADER_UNKNOWN,
    LEADER_LOG_FULL,
    LEADER_DISK_FULL,
    LEADER_OLD_LEVEL, /* not every replica is upgraded */
    LEADER_FAILED,
    LEADER_REFUSALS
};
struct leader_text {
    enum grpc_status status;
    const char *text;
};
struct leader_rules {
    size_t request_size; /* of the service's own struct */
    /* By refusal, for a service whose clients know the texts; NULL: the texts of leader.c. */
    const struct leader_text *words;
    enum grpc_status full, doubt; /* the log is full; it may or may not have been applied */
    bool (*admit)(struct leader_request *request); /* answers and returns false */
    void (*begin)(struct leader_request *request); /* on a leader that may be asked */
    void (*read)(struct leader_request *request);  /* leadership is proved; answers */
    /* What the state machine replied, or why the log did not take it. Answers, or frees one without
     * a call. */
    void (*written)(struct leader_request *request, enum err err, struct str reply);
    void (*gone)(
        struct leader_request *request); /* kept, and its caller went away; NULL: it is freed */
    void (*drain)(struct leader_request *request);    /* kept, and the server stops; or NULL */
    void (*writable)(struct leader_request *request); /* kept, and its peer reads again; or NULL */
    void (*freed)(struct leader_request *request);    /* or NULL */
};

enum { LEADER_METHODS_MAX = 64, LEADER_WAIT_MS = 5000 /* the usual wait_ms */ };
struct leader_options {
    const struct leader_rules *rules;
    struct loop *loop;
    const char *(*address)(void *owner); /* where the leader serves; may be NULL */
    void *owner;
    uint64_t wait_ms;
    uint32_t requests_max;
};
struct leader { /* in the service */
    struct leader_options options;
    struct replica *replica; /* NULL before it is attached */
    /* as of the replica's last status */
    bool led;   /* leader of `term` */
    bool ready; /* and may be asked */
    uint64_t term;
    struct list requests;
    uint32_t request_count; /* kept ones too, but for streams */
    struct timer overdue;
    struct leader_binding { /* what the server gives to our handler */
        struct leader *leader;
        const struct leader_method *method;
    } bindings[LEADER_METHODS_MAX];
    size_t binding_count;
};

/* -- life -- */
/* ERR_FULL, ERR_NOMEM (timers): to be closed all the same. */
enum err leader_open(struct leader *leader, const struct leader_options *options);
void leader_close(struct leader *leader); /* no request is left; fine on a zeroed one */
enum err leader_add(struct leader *leader, struct rpc_server *server,
                    const struct leader_method *method, struct note *note);
/* For a service that registers the method itself, with leader_handler and this as the method's
 * service; the same for the same method. */
struct leader_binding *leader_bind(struct leader *leader, const struct leader_method *method);
extern const struct rpc_handler leader_handler;
/* The way of a client's call, for a call of our own; of a service with `words`. ERR_NOMEM: not
 * answered. The message lives as the caller's arena does. */
enum err leader_ask(struct leader *leader, const struct leader_method *method,
                    const ProtobufCMessage *message, struct leader_caller *caller);

/* -- the replica's changes, in this order; each true once a change -- */
bool leader_term_ended(struct leader *leader,
                       const struct replica_status *status); /* a term we led */
bool leader_term_began(struct leader *leader, const struct replica_status *status);
bool leader_ready(struct leader *leader, const struct replica_status *status);
void leader_resume(struct leader *leader); /* waiting requests begin, or are redirected */
/* All of them, for a service that keeps nothing of a term. */
void leader_follow(struct leader *leader, const struct replica_status *status);

/* -- who leads -- */
bool leader_here(const struct leader *leader); /* as the replica knows it at this moment */
/* Still ready in the term that the service knows. */
bool leader_leads(const struct leader *leader);
void leader_redirect(const struct leader *leader, struct rpc_call *call); /* ends the call */

/* -- from `begin` on -- */
void request_read(struct leader_request *request);
/* All but `done`; texts and command are read before it returns. */
void request_propose(struct leader_request *request, const struct proposal *proposal);
/* From now on it ends by the service's doing, at whatever age. */
void request_keep(struct leader_request *request, struct list *list);

/* -- each answers, once, and the request is gone -- */
void request_reply(struct leader_request *request, struct str message);
void request_reply_packed(struct leader_request *request, const struct pack *pack);
#define request_fail(request, status, ...) request_end(request, status, false, __VA_ARGS__)
/* Nothing was done, and the caller may try again: x-muster-applied says so. Of a request that has
 * acted the answer is UNAVAILABLE without it: it may or may not have been applied. */
#define request_refuse(request, status, ...) request_end(request, status, true, __VA_ARGS__)
void request_end(struct leader_request *request, enum grpc_status status, bool applied_no,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));
void request_redirect(struct leader_request *request); /* to the leader */
void request_refuse_as(struct leader_request *request,
                       enum leader_refusal why); /* with the rules' texts */
/* The log's error. Only ERR_UNKNOWN leaves open whether the proposal was applied. */
void request_log_failed(struct leader_request *request, enum err err);
static inline bool request_is_awaited(const struct leader_request *request)
{
    return request->call || request->caller;
}
void request_free(struct leader_request *request); /* its call is answered already, or gone */
#endif
