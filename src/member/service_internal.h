/* SPDX-License-Identifier: Apache-2.0 */
/* The service's parts and who calls whom.
 *
 *     Beat -> beats.c -> service_beat.c (heard; acknowledge) -> core/local.h
 *     calls -> rpc/forward.h (to the leader) -> leader/leader.h -> service_request.c
 *           -> method's `read` behind a leadership round, or method's `begin` on the leader
 *     what changes anything -> batch.c: operations of many callers, one entry of the log
 *     applied entries -> service_lead.c: events, pushes, watches, the next scan
 *     streams -> service_watch.c (assignments, changes), service_stream.c (Control, Work) */
#ifndef MEMBER_SERVICE_INTERNAL_H
#define MEMBER_SERVICE_INTERNAL_H
#include "base/hex.h"
#include "base/map.h"
#include "leader/leader.h"
#include "member/beat.h"
#include "member/service.h"
#include "rpc/forward.h"
#include "wire/pack.h"
#include "wire/pb/muster_v1_member.pb-c.h"
#include "wire/pb/rollout_transport.pb-c.h"

enum {
    MEMBER_ANSWER_MAX = 4 << 20,
    MEMBER_METHODS_MAX = 64,       /* of two servers */
    MEMBER_REQUEST_OPS_MAX = 1024, /* partitions or items of one call */
};

/* -- beats.c -- */
struct member_service;
struct beat_batch;
struct beats;
enum { BEATS_GATHER_MS = 20, BEATS_PASS_MAX = 500 };

enum { BEATS_NUMBER_CAP = 24 };
struct beats_stats {
    uint64_t came; /* those that are passed on, too */
    uint64_t acknowledged, refused, overdue, rounds, passed, batches;
    size_t waiting;
};
/* What every acknowledgement says beside its own. Texts are copied. */
struct beats_facts {
    uint64_t coord_epoch, assignment_epoch;
    uint64_t next_beat_ms; /* advised; 0: as configured, and not said */
    /* The leader's worker_self_fence_timeout: a worker that registered under another one registers
     * again. 0: not known (an older leader), and not said. */
    uint64_t self_fence_ms;
    const char *leader; /* "": not said */
};
struct beats_round {
    struct beats *beats;
    struct read_ticket ticket;
    struct list members; /* beats */
    bool running;
    mono_time began;
};
struct beats {
    struct member_service *service;
    struct loop *loop;
    uint64_t reply_max_ms;
    struct list ages; /* unanswered, oldest first */
    struct timer overdue;
    /* the leader's */
    struct list gathered;
    struct beats_round round;
    struct timer round_due;
    /* a follower's */
    struct list outgoing; /* beats, not yet under way */
    uint32_t outgoing_count;
    size_t pass_count;
    struct timer pass_due;
    mono_time passed_at;
    struct buf request, row, answer; /* scratch */
    struct beats_facts facts;
    struct {
        char coord[BEATS_NUMBER_CAP], assignment[BEATS_NUMBER_CAP], next[BEATS_NUMBER_CAP],
            fence[BEATS_NUMBER_CAP];
        char leader[RPC_ADDRESS_CAP];
    } texts;
    struct beats_stats stats;
};

struct beat_call {    /* the module's memory; the service may keep it while it owes the answer */
    struct list link; /* where it waits; the service's own list while it is kept */
    struct list age;
    struct rpc_call *call;    /* NULL: answered, gone, or of a batch */
    struct beat_batch *batch; /* passed on to us; NULL: answered, or not */
    uint32_t place;           /* in it */
    mono_time since;
    wall_time at;
    struct beat_said said;
    uint64_t incarnation; /* the service's */
};
enum beats_way {
    BEATS_ROUND, /* it is fine; beat_acknowledge() comes behind a leadership round */
    BEATS_KEPT,  /* in a list of the service's, until it calls beats_over */
    BEATS_OVER,  /* answered already: beats_ack or beats_refuse was called */
};
/* Beats go to the leader on the way of the service's forwarder, which must outlive them. */
enum err beats_open(struct beats *beats, struct member_service *service);
/* The server is closed and the replica, too: those that still wait are let go. */
void beats_stop(struct beats *beats);
void beats_close(struct beats *beats); /* the way to the leader is gone */

void beats_set_facts(struct beats *beats, const struct beats_facts *facts);

/* -- answers; each once. The beat is the module's again, but for one that was KEPT: then it is
 * until beats_over(). -- */
struct beat_ack {
    uint64_t incarnation; /* 0: not said */
    bool reset;
    bool has_drift;
    int64_t drift_ms;
    bool has_control;
    struct str control; /* an encoded ControlPush */
};
void beats_ack(struct beats *beats, struct beat_call *beat, const struct beat_ack *ack);
void beats_refuse(struct beats *beats, struct beat_call *beat, enum grpc_status status,
                  const char *text);
void beats_over(struct beats *beats, struct beat_call *beat); /* kept no longer, answered or not */
void beats_lost(struct beats *beats, const char *why); /* leadership: rounds end, unavailable */

/* -- methods: Heartbeat/Beat and Membership/PassBeats; their service is struct beats -- */
extern const struct rpc_handler beats_handler, beats_pass_handler;

/* -- operations on their way into the log: batch.c -- */
struct batch;
struct operation_wait;
/* `reply` is NULL with an error: it is not in the log, but for ERR_UNKNOWN. */
typedef void wait_fn(struct operation_wait *wait, enum err err, const struct member_reply *reply);
struct operation_wait { /* for the operations [first, first + count) of a batch */
    struct list link;
    wait_fn *done;
    uint32_t first, count;
};
/* How many operations of how many bytes in all come next, as one: true when there is room for
 * them. They are added by batch_op, then batch_wait (or nobody waits). False: too much for one
 * entry, no memory, or nobody leads here. */
bool batch_room(struct member_service *service, size_t ops, size_t bytes);
void batch_op(struct member_service *service, const struct member_op *op);
void batch_wait(struct member_service *service, struct operation_wait *wait, wait_fn *done,
                uint32_t count);
/* One operation that nobody waits for, or `wait` does. */
bool batch_one(struct member_service *service, const struct member_op *op,
               struct operation_wait *wait, wait_fn *done);
struct buf *batch_bytes(struct member_service *service); /* for the core's own; NULL: no memory */
void batch_added(struct member_service *service, size_t ops); /* that were written there */
void batch_flush(struct member_service *service);
void batch_now(struct task *task);
void batch_overdue(struct timer *timer);
void batch_drop(struct member_service *service); /* what was not proposed yet */

/* -- requests -- */
struct member_method {
    struct leader_method base;
    void (*read)(struct leader_request *request);  /* behind a leadership round; or */
    void (*begin)(struct leader_request *request); /* on the leader, at once */
    /* How its operations went, once they are in the log: answers. Of those in `reply` they are
     * `count` from `first` on. */
    void (*answer)(struct leader_request *request, const struct member_reply *reply, uint32_t first,
                   uint32_t count);
    /* A worker's call: field 1 is its id, and its certificate must have that name. */
    bool of_worker;
    bool tools;             /* not on the workers' listener */
    enum member_kind items; /* Start, Submit, GiveBack: the operation on each item */
};
#define MEMBER_METHOD(rpc, word, response_max, ...)                                                \
    {                                                                                              \
        .base = {"/muster.v1.Membership/" rpc,                                                     \
                 rpc,                                                                              \
                 &muster__v1__##word##_request__descriptor,                                        \
                 &muster__v1__##word##_response__descriptor,                                       \
                 0,                                                                                \
                 response_max},                                                                    \
        __VA_ARGS__                                                                                \
    }
extern const struct member_method member_worker_methods[], member_work_methods[],
    member_read_methods[];
struct member_request {
    struct leader_request base;
    struct operation_wait wait;
    /* Pull */
    struct timer timer;
    mono_time until;
    bool pulls; /* in service.pullers */
    size_t worker_len;
    char worker[MEMBER_ID_MAX]; /* of a worker's call, canonical */
};

struct member_metrics { /* all NULL without a registry */
    struct metric_fields *cluster_rows, *beat_rows, *local_rows, *event_rows, *ledger_rows;
    struct histogram *reply, *scan;
    struct metric_family *failures, *moves;
    uint64_t entries, operations; /* of the log */
};

struct member_service {
    struct io *io;
    struct log_source log;
    struct member_service_options options;
    char name[REPLICA_NAME_MAX + 1], run[ULID_TEXT_CAP];
    struct leader leader;
    struct member_machine *machine;
    struct member_local *local; /* while we lead */
    bool serving;               /* and the entry that says so is applied */
    bool leading;               /* that entry is on its way */
    struct beats beats;
    struct map control; /* by worker: control.c */
    size_t control_streams;
    struct rpc_forwarder *forwarder;
    struct rpc_forward_gate gates[MEMBER_METHODS_MAX];
    size_t gate_count;
    struct member_metrics metrics;
    /* entries of the log */
    struct batch *batch; /* being gathered, or NULL */
    struct list batches; /* under way */
    size_t batches_running;
    bool refused; /* the last one was */
    struct timer batch_due;
    struct task batch_task;
    /* the leader's duties */
    struct timer scan;
    struct task after; /* what follows from an applied entry */
    mono_time scanned_at;
    uint64_t clock_ns; /* T as last seen */
    mono_time clock_at;
    /* numbers of events: up to which they are written, of another leader, and proposed as noted */
    uint64_t events_written, events_before, events_noted;
    struct timer events_due;
    bool noting;
    uint64_t changes; /* grows with everything that can be seen */
    /* calls that wait */
    struct list kept;    /* requests that wait for their batch */
    struct list pullers; /* those that wait for work, oldest first */
    struct map watches;  /* assignments, by worker */
    struct list lookers; /* of changes */
    struct list streams; /* of calls */
    struct timer second;
    struct buf answer, row, inner; /* scratch of one call */
    mono_time opened_at;
    void (*done)(void *owner);
    void *done_owner;
};

static inline struct member_service *member_of(const struct leader_request *request)
{
    return CONTAINER_OF(request->leader, struct member_service, leader);
}
static inline struct member_request *member_request_of(struct leader_request *request)
{
    return CONTAINER_OF(request, struct member_request, base);
}
static inline const struct member_method *member_method_of(const struct leader_request *request)
{
    return CONTAINER_OF(request->method, struct member_method, base);
}
static inline struct membership *membership_of(const struct member_service *service)
{
    return member_machine_membership(service->machine);
}
static inline uint64_t now_ns(const struct member_service *service)
{
    return loop_now(service->io->loop).ms * NS_PER_MS;
}
static inline int64_t wall_ms(const struct member_service *service)
{
    return (int64_t)clock_wall(service->io->clock).ms;
}
static inline struct str bytes_str(ProtobufCBinaryData bytes)
{
    return bytes.len ? str_of(bytes.data, bytes.len) : STR_EMPTY;
}

/* -- service_request.c -- */
extern const struct leader_rules member_rules_of_calls;
enum grpc_status member_grpc(enum member_status status);
/* Answers with what the core refused. */
void member_refuse(struct leader_request *request, enum member_status status);
/* What the core said to the request's one operation; false: it is answered, the core refused. */
bool request_result(struct leader_request *request, const struct member_reply *reply,
                    uint32_t first, struct member_result *ret_result);
/* One operation, and who asked for it waits for the method's `answer`. */
void request_put(struct leader_request *request, const struct member_op *op);
/* Operations of one call, `count` of them of `bytes` in all: true when there is room, and then
 * batch_op() adds them and request_put_many() waits for them. False: more than MEMBER_REQUEST_OPS_MAX,
 * too large, or too much is under way. */
bool request_room_for(struct leader_request *request, size_t count, size_t bytes);
void request_put_many(struct leader_request *request, size_t count);
/* Canonical: a ULID in upper case, or another name that our own interface takes for a worker. Empty:
 * it is none. `room` keeps the text. */
struct str worker_name(const char *text, char room[MEMBER_ID_MAX]);
struct str request_worker(const struct leader_request *request); /* of a worker's call: who it is */
bool epoch_is_fine(struct leader_request *request,
                   uint64_t seen); /* a coordinator epoch; or answered */

/* -- service_beat.c -- */
/* Before anything else, on the replica that was called: run and certificate. False: it was answered.
 * A beat that was passed on is not asked about again. */
bool beat_admit(struct member_service *service, struct rpc_call *call,
                const struct beat_said *said);
enum beats_way beat_heard(struct member_service *service, struct beat_call *beat);
void beat_acknowledge(struct member_service *service, struct beat_call *beat);
bool speaks_for(const struct member_service *service, const struct rpc_call *call,
                struct str worker, struct note *note);
/* Logs, and writes what to answer, when a second process has a worker id. */
void id_in_use(const struct member_service *service, struct str worker,
               const struct member_in_use *in_use, struct note *ret_why);

/* -- service_lead.c -- */
void lead_begin(struct member_service *service);
void lead_end(struct member_service *service);
void lead_applied(void *service); /* inside apply, on every replica */
void lead_after(struct task *task);
void lead_scan(struct timer *timer);
void scan_now(struct member_service *service);
void lead_events_due(struct timer *timer);
uint64_t clock_guess(struct member_service *service);
void lead_write_events(struct member_service *service);

/* -- service_work.c -- */
void pulls_again(struct member_service *service);
void pulls_end(struct member_service *service);

/* -- service_watch.c -- */
extern const struct rpc_handler member_watch_handler, member_look_handler;
void watch_changed(struct member_service *service, struct str worker);
/* A checkpoint of that round; 0: it has answered. False: it does not watch. */
bool watch_ask(struct member_service *service, struct str worker, uint64_t round);
void lookers_notify(struct member_service *service);
/* An AssignmentResponse. `round`: of checkpoints, asked for and not answered. */
void pack_assignment(struct member_service *service, struct pack *answer, struct str worker,
                     uint64_t incarnation, uint64_t round);

/* -- service_stream.c -- */
extern const struct rpc_handler member_control_handler, member_stream_handler;
#define CALL_STREAM_REPLACED "another stream of this worker took its place"
struct call_stream { /* first in each stream's own; the data of its call */
    struct list link;
    struct member_service *service;
    struct rpc_call *call;                    /* NULL: it is over */
    void (*over)(struct call_stream *stream); /* frees it, or leaves that to what is under way */
};
void call_stream_begin(struct call_stream *stream, struct member_service *service,
                       struct rpc_call *call, void (*over)(struct call_stream *stream));
void call_stream_end(struct call_stream *stream, enum grpc_status status, const char *why);
void call_stream_drained(void *service, struct rpc_call *call); /* on_drain */
void call_stream_done(void *service, struct rpc_call *call);    /* on_done */
void call_streams_end(struct member_service *service, const char *why);

/* -- control.c -- */
enum directive_kind { ORDER_DRAIN, ORDER_SNAPSHOT, ORDER_KINDS };
struct directive {
    enum directive_kind kind;
    uint64_t deadline_ms; /* DRAIN */
    struct str text;      /* kind of the snapshot; cut at 256 bytes */
};
/* The call is a Subscribe that was admitted. The stream that the worker had ends with OK. ERR_FULL,
 * ERR_NOMEM: it is the caller's to finish. */
enum err control_subscribe(struct member_service *service, struct str worker,
                           struct rpc_call *call);
/* True: it went down the stream. False: it waits for a beat (or was lost for want of memory). */
bool control_push(struct member_service *service, struct str worker, const struct directive *order);
/* An encoded ControlPush that waited, appended; false: none. */
bool control_take(struct member_service *service, struct str worker, struct buf *into);
/* The service lets the worker go: its stream ends, what waits is forgotten. */
void control_release(struct member_service *service, struct str worker);
/* Every stream ends with UNAVAILABLE: another leads, or the server stops. */
void control_end(struct member_service *service, const char *why);

/* -- service_ledger.c: for people to look at, nothing decides by it -- */
void ledger_beat(struct member_service *service, const struct beat_call *beat);
void ledger_worker(struct member_service *service, struct str worker); /* as it is now */

/* -- service_metrics.c -- */
enum err member_metrics_open(struct member_metrics *ret_metrics, struct metrics *metrics,
                             struct note *note);
void member_gauges(struct member_service *service);
void member_counted(struct member_service *service, const struct member_event *event);

/* -- what everybody shows -- */
enum member_shown { SHOWN_ACTIVE, SHOWN_SUSPECTED, SHOWN_DEAD, SHOWN_REMOVED };
enum member_shown worker_shown(const struct member_service *service,
                               const struct member_worker *worker);
struct cluster_numbers {
    uint64_t active, suspected, dead, known, draining, round;
    uint64_t streams, entries, operations; /* for the metrics */
    bool hold;
    struct member_status_counts counts;
};
struct cluster_numbers cluster_numbers(const struct member_service *service);
#endif
