/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the service, and which part calls which.
 *
 *     Beat -> beats.c -> service_beat.c (decide; acknowledge) -> core/local.h
 *     calls -> rpc/forward.h (to the leader) -> leader/leader.h -> service_request.c
 *           -> the method's `read` after a leadership round, or its `begin` on the leader
 *     changes -> batch.c: operations of many callers, one entry of the log
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
    MEMBER_REQUEST_OPS_MAX = 1024, /* partitions or items per call */
};

/* -- beats.c -- */
struct member_service;
struct beat_batch;
struct beats;
enum { BEATS_GATHER_MS = 20, BEATS_PASS_MAX = 500 };

enum { BEATS_NUMBER_CAP = 24 };
struct beats_stats {
    uint64_t came; /* received, including those passed to the leader */
    uint64_t acknowledged, refused, overdue, rounds, passed, batches;
    size_t waiting;
};
/* The part of an acknowledgement that is the same for all heartbeats. Texts are copied. */
struct beats_facts {
    uint64_t coord_epoch, assignment_epoch;
    uint64_t next_beat_ms; /* advised interval; 0: the configured interval applies */
    /* The leader's worker_self_fence_timeout. A worker that registered under a different timeout
     * registers again. 0: the field is omitted. */
    uint64_t self_fence_ms;
    const char *leader; /* empty: omitted */
};
struct beats_round {
    struct beats *beats;
    struct read_ticket ticket;
    struct list members; /* the heartbeats of this round */
    bool running;
    mono_time began;
};
struct beats {
    struct member_service *service;
    struct loop *loop;
    uint64_t reply_max_ms;
    struct list ages; /* unanswered heartbeats, oldest first */
    struct timer overdue;
    /* Only on the leader: */
    struct list gathered;
    struct beats_round round;
    struct timer round_due;
    /* only on a follower: */
    struct list outgoing; /* heartbeats that were not sent to the leader yet */
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

struct beat_call {    /* owned by beats.c; the service may keep it until the answer */
    struct list link; /* in a list of beats.c, or of the service if BEATS_KEPT */
    struct list age;
    struct rpc_call *call;    /* NULL: answered, cancelled, or in a batch */
    struct beat_batch *batch; /* the follower's batch with the heartbeat; NULL: none, or answered */
    uint32_t place;           /* index in the batch */
    mono_time since;
    wall_time at;
    struct beat_said said;
    uint64_t incarnation; /* used by the service only */
};
enum beats_way {
    BEATS_ROUND, /* beat_acknowledge() follows after a leadership round */
    BEATS_KEPT,  /* in the service's own list until beats_over() */
    BEATS_OVER,  /* beats_ack() or beats_refuse() was already called */
};
/* The service's forwarder sends heartbeats to the leader. The forwarder must outlive `beats`. */
enum err beats_open(struct beats *beats, struct member_service *service);
/* Releases waiting heartbeats. Call after the server and the replica are closed. */
void beats_stop(struct beats *beats);
void beats_close(struct beats *beats); /* call after the connection to the leader is closed */

void beats_set_facts(struct beats *beats, const struct beats_facts *facts);

/* -- answers: exactly one per heartbeat. After the answer beats.c owns the heartbeat again, but a
 * BEATS_KEPT heartbeat only after beats_over(). -- */
struct beat_ack {
    uint64_t incarnation; /* 0: omitted */
    bool reset;
    bool has_drift;
    int64_t drift_ms;
    bool has_control;
    struct str control; /* an encoded ControlPush */
};
void beats_ack(struct beats *beats, struct beat_call *beat, const struct beat_ack *ack);
void beats_refuse(struct beats *beats, struct beat_call *beat, enum grpc_status status,
                  const char *text);
void beats_over(struct beats *beats, struct beat_call *beat); /* ends BEATS_KEPT, answered or not */
/* Leadership was lost: ends all rounds with UNAVAILABLE. */
void beats_lost(struct beats *beats, const char *why);

/* -- methods Heartbeat/Beat and Membership/PassBeats; `service` of both is a struct beats -- */
extern const struct rpc_handler beats_handler, beats_pass_handler;

/* -- batches of operations for the log: batch.c -- */
struct batch;
struct operation_wait;
/* After an error `reply` is NULL and no operation is logged; after ERR_UNKNOWN some may be. */
typedef void wait_fn(struct operation_wait *wait, enum err err, const struct member_reply *reply);
struct operation_wait { /* waits for the operations [first, first + count) of a batch */
    struct list link;
    wait_fn *done;
    uint32_t first, count;
};
/* Reserves room for `ops` operations of `bytes` bytes in one batch. If true, call batch_op() for
 * each and then batch_wait() if a caller waits. False: too many for one entry, no memory, or this
 * replica does not lead. */
bool batch_room(struct member_service *service, size_t ops, size_t bytes);
void batch_op(struct member_service *service, const struct member_op *op);
void batch_wait(struct member_service *service, struct operation_wait *wait, wait_fn *done,
                uint32_t count);
/* `wait` NULL: no caller waits */
bool batch_one(struct member_service *service, const struct member_op *op,
               struct operation_wait *wait, wait_fn *done);
/* The batch's buffer for operations that the core writes; NULL without memory. */
struct buf *batch_bytes(struct member_service *service);
void batch_added(struct member_service *service, size_t ops);
void batch_flush(struct member_service *service);
void batch_now(struct task *task);
void batch_overdue(struct timer *timer);
void batch_drop(struct member_service *service);

/* -- requests -- */
struct member_method {
    struct leader_method base;
    void (*read)(struct leader_request *request); /* for reads: runs after a leadership round */
    /* For other methods: runs on the leader, without a round. */
    void (*begin)(struct leader_request *request);
    /* Answers the request when its operations are in the log. `reply` has their `count` results
     * from index `first` on. */
    void (*answer)(struct leader_request *request, const struct member_reply *reply, uint32_t first,
                   uint32_t count);
    /* A call of a worker: field 1 is the worker's id, and the certificate must have that name. */
    bool of_worker;
    bool tools;             /* not served on the workers' listener */
    enum member_kind items; /* Start, Submit, GiveBack: the kind of operation for each item */
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
    /* Only for Pull: */
    struct timer timer;
    mono_time until;
    bool pulls; /* in service.pullers */
    size_t worker_len;
    char worker[MEMBER_ID_MAX]; /* in calls of a worker: the worker's canonical id */
};

struct member_metrics { /* all NULL without a metrics registry */
    struct metric_fields *cluster_rows, *beat_rows, *local_rows, *event_rows, *ledger_rows;
    struct histogram *reply, *scan;
    struct metric_family *failures, *moves;
    uint64_t entries, operations;
};

struct member_service {
    struct io *io;
    struct log_source log;
    struct member_service_options options;
    char name[REPLICA_NAME_MAX + 1], run[ULID_TEXT_CAP];
    struct leader leader;
    struct member_machine *machine;
    struct member_local *local; /* not NULL while this replica leads */
    bool serving;               /* this leadership's first entry is applied */
    bool leading;               /* this leadership's first entry is proposed */
    struct beats beats;
    struct map control; /* from worker to its control stream and waiting directives: control.c */
    size_t control_streams;
    struct member_metrics metrics;
    /* entries of the log: */
    struct batch *batch; /* the batch being filled, or NULL */
    struct list batches; /* proposed batches */
    size_t batches_running;
    bool refused; /* the last proposal was refused */
    struct timer batch_due;
    struct task batch_task;
    /* duties of the leader: */
    struct timer scan;
    struct task after; /* runs after an entry was applied */
    mono_time scanned_at;
    uint64_t clock_ns; /* clock T when it was last read */
    mono_time clock_at;
    /* last event: written, written by an earlier leader, proposed as EMITTED */
    uint64_t events_written, events_before, events_noted;
    struct timer events_due;
    bool noting;
    uint64_t changes; /* increases with every visible change */
    /* waiting calls: */
    struct list kept;    /* requests that wait for their batch */
    struct list pullers; /* Pull requests that wait for work, oldest first */
    struct map watches;  /* assignment watches by worker */
    struct list lookers; /* watchers of changes */
    struct list streams; /* all call streams */
    struct timer second;
    struct buf answer, row, inner; /* scratch buffers of one call */
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
void member_refuse(struct leader_request *request, enum member_status status);
/* The result of the request's single operation. False: the core refused, and the request is
 * answered. */
bool request_result(struct leader_request *request, const struct member_reply *reply,
                    uint32_t first, struct member_result *ret_result);
/* The method's `answer` is called when the operation is applied. */
void request_put(struct leader_request *request, const struct member_op *op);
/* Reserves room for `count` operations of `bytes` bytes. If true, call batch_op() for each and then
 * request_put_many(). False: the operations exceed a limit, and the request is answered. */
bool request_room_for(struct leader_request *request, size_t count, size_t bytes);
void request_put_many(struct leader_request *request, size_t count);
/* A worker's canonical name, in `room`: a ULID in upper case, or another name that muster.v1
 * accepts. "": `text` is not a worker's name. */
struct str worker_name(const char *text, char room[MEMBER_ID_MAX]);
struct str request_worker(const struct leader_request *request);
/* Checks the coordinator epoch that a caller has seen. False: wrong, and the request is
 * answered. */
bool epoch_is_fine(struct leader_request *request, uint64_t seen);

/* -- service_beat.c -- */
/* Checks run and certificate, on the replica that received the call. False: the call was refused.
 * Passed heartbeats are not checked again. */
bool beat_admit(struct member_service *service, struct rpc_call *call,
                const struct beat_said *said);
enum beats_way beat_heard(struct member_service *service, struct beat_call *beat);
void beat_acknowledge(struct member_service *service, struct beat_call *beat);
bool speaks_for(const struct member_service *service, const struct rpc_call *call,
                struct str worker, struct note *note);
void id_in_use(const struct member_service *service, struct str worker,
               const struct member_in_use *in_use, struct note *ret_why);

/* -- service_lead.c -- */
void lead_begin(struct member_service *service);
void lead_end(struct member_service *service);
void lead_applied(void *service); /* called inside apply, on every replica */
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
/* Asks the worker, on its watch, for a checkpoint of `round`; 0: the round is answered. False: the
 * worker has no watch. */
bool watch_ask(struct member_service *service, struct str worker, uint64_t round);
void lookers_notify(struct member_service *service);
/* `round`: the checkpoint round that the worker must still answer */
void pack_assignment(struct member_service *service, struct pack *answer, struct str worker,
                     uint64_t incarnation, uint64_t round);

/* -- service_stream.c -- */
extern const struct rpc_handler member_control_handler, member_stream_handler;
#define CALL_STREAM_REPLACED "another stream of this worker took its place"
struct call_stream { /* first member of every stream's struct, which is the call's data */
    struct list link;
    struct member_service *service;
    struct rpc_call *call;                    /* NULL: the call is over */
    void (*over)(struct call_stream *stream); /* frees the stream after its pending operations */
};
void call_stream_begin(struct call_stream *stream, struct member_service *service,
                       struct rpc_call *call, void (*over)(struct call_stream *stream));
void call_stream_end(struct call_stream *stream, enum grpc_status status, const char *why);
void call_stream_drained(void *service, struct rpc_call *call); /* the on_drain callback */
void call_stream_done(void *service, struct rpc_call *call);    /* the on_done callback */
void call_streams_end(struct member_service *service, const char *why);

/* -- control.c -- */
enum directive_kind { ORDER_DRAIN, ORDER_SNAPSHOT, ORDER_KINDS };
struct directive {
    enum directive_kind kind;
    uint64_t deadline_ms; /* only for ORDER_DRAIN */
    struct str text;      /* kind of the snapshot; truncated to 256 bytes */
};
/* Makes an admitted Subscribe call the worker's control stream. The worker's previous stream ends
 * with OK. With ERR_FULL and ERR_NOMEM the caller must finish the call. */
enum err control_subscribe(struct member_service *service, struct str worker,
                           struct rpc_call *call);
/* False: the directive waits for a heartbeat, or was dropped because memory ran out. */
bool control_push(struct member_service *service, struct str worker, const struct directive *order);
/* Appends the worker's pending ControlPush, encoded. False: none. */
bool control_take(struct member_service *service, struct str worker, struct buf *into);
void control_release(struct member_service *service, struct str worker);
/* Ends all streams with UNAVAILABLE: another replica leads, or the server stops. */
void control_end(struct member_service *service, const char *why);

/* -- service_ledger.c: for people to read; no decision depends on the ledger -- */
void ledger_beat(struct member_service *service, const struct beat_call *beat);
void ledger_worker(struct member_service *service, struct str worker);

/* -- service_metrics.c -- */
enum err member_metrics_open(struct member_metrics *ret_metrics, struct metrics *metrics,
                             struct note *note);
void member_gauges(struct member_service *service);
void member_counted(struct member_service *service, const struct member_event *event);

/* -- the state of workers and cluster as all pages show it -- */
enum member_shown { SHOWN_ACTIVE, SHOWN_SUSPECTED, SHOWN_DEAD, SHOWN_REMOVED };
enum member_shown worker_shown(const struct member_service *service,
                               const struct member_worker *worker);
struct cluster_numbers {
    uint64_t active, suspected, dead, known, draining, round;
    uint64_t streams, entries, operations; /* only shown as metrics */
    bool hold;
    struct member_status_counts counts;
};
struct cluster_numbers cluster_numbers(const struct member_service *service);
#endif
