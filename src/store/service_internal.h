/* The service's parts and who calls whom.
 *
 *     call -> service_request.c (limits -> leader? -> wait until ready)
 *          -> replica_read -> method's `read`, or method's `command` -> replica_propose -> answer
 *     Acquire that waits -> service_wait.c until an event of a later entry answers it
 *     Renew -> service_renew.c: many calls, one entry
 *     Watch -> service_watch.c, hub.c
 *     applied entries -> service.c -> waiters, hub; service_clock.c: ticks and compaction
 *
 * A request lives from its call's message to its answer. If the caller goes away, a read is
 * forgotten, a write goes on without anybody to tell, and who waited for a slot leaves its queue.
 */
#ifndef STORE_SERVICE_INTERNAL_H
#define STORE_SERVICE_INTERNAL_H
#include <muster/coord.h> /* codes and reasons only */

#include "base/map.h"
#include "rpc/client.h"
#include "rpc/forward.h"
#include "store/bounds.h"
#include "store/service.h"
#include "wire/pack.h"
#include "wire/pb/muster_v1_coordination.pb-c.h"

struct request;
struct hub;
struct store_method {
    const char *path, *name;
    const ProtobufCMessageDescriptor *input, *output;
    /* The reason of COORD_INVALID with a note, or 0. May be NULL. */
    int (*check)(const ProtobufCMessage *message, struct note *note);
    /* Reads: true when any replica may answer. */
    bool (*serializable)(const ProtobufCMessage *message);
    void (*read)(struct request *request); /* answers */
    /* Writes: from the message; its memory is the call's arena. ERR_NOMEM. */
    enum err (*command)(struct request *request, struct store_command *ret_command);
    void (*begin)(struct request *request); /* neither: it has a way of its own, on the leader */
};
extern const struct store_method store_write_methods[], store_read_methods[];

enum { STORE_METHODS_MAX = 24, STORE_ANSWER_MAX = 4 << 20 };
struct store_binding {
    struct store_service *service;
    const struct store_method *method;
};

enum request_step {
    REQUEST_PAUSES, /* until the leader is ready */
    REQUEST_READS,
    REQUEST_WRITES,
    REQUEST_RENEWS, /* in a batch */
    REQUEST_QUEUES, /* for a slot */
    REQUEST_LEAVES, /* the queue: its time is up */
};
struct request {
    struct list link; /* service.requests by age; a batch's; or service.waiting */
    struct store_service *service;
    const struct store_method *method;
    struct rpc_call *call; /* NULL: nobody waits any more */
    const ProtobufCMessage *message;
    enum request_step step;
    mono_time since;
    struct read_ticket ticket;
    struct proposal proposal;
    /* Acquire that may wait */
    struct store_id lease; /* its key in service.waits */
    bool in_waits;
    struct timer timer; /* renews its lease; ends its time */
    mono_time wait_until, renew_at;
    int64_t ttl_ms;
    struct store_id wait_client; /* of the request */
    uint64_t wait_sequence;
    uint8_t wait_id[24];        /* both: its key in service.attempts */
    struct str wait_group;      /* with its prefix, in the call's arena */
    bool has_early, lost_early; /* granted, or out of the queue, before its own reply was here */
    struct store_result early;
    /* Renew */
    uint32_t batch_at;
};
struct renew_batch {
    struct store_service *service;
    struct proposal proposal;
    struct list requests; /* those whose ids stand in it */
    uint32_t count;
    struct store_id ids[STORE_RENEW_MAX];
};
/* An entry of the service's own: a tick, a compaction, a cancelled wait. */
struct own_proposal {
    struct list link; /* service.own */
    struct store_service *service;
    struct proposal proposal;
    enum store_kind kind;
};

enum { STORE_CODES = 8, HISTORY_MARKS = 16 };
struct store_metrics { /* all NULL without a registry */
    struct gauge *revision, *compacted, *keys, *bytes, *quota, *leases, *groups, *waiters,
        *watchers, *clients, *clock, *requests;
    struct counter *outcomes[STORE_CODES], *renewals, *renew_batches, *expired, *ticks,
        *compactions, *resyncs, *watch_events;
};

struct store_service {
    struct io *io;
    struct log_source log;
    const char *(*leader_address)(void *owner);
    void *owner;
    struct store_service_limits limits;
    struct store_machine *machine;
    struct replica *replica; /* NULL before it is attached */
    struct hub *hub;
    struct store_metrics metrics;
    struct store_binding bindings[STORE_METHODS_MAX];
    size_t binding_count;
    bool led, ready;
    uint64_t term;
    struct list requests, waiting;
    struct list starting; /* watches that wait for a leadership round */
    uint32_t request_count;
    struct map waits;    /* requests by the lease they wait with */
    struct map attempts; /* the newest of those that may wait, by client and sequence */
    struct timer overdue, second;
    struct buf answer, row, command; /* scratch of one call */
    /* renewals */
    struct renew_batch *batch; /* being gathered, or NULL */
    uint32_t batches_running;
    struct timer batch_due;
    struct task batch_now;
    /* the clock: service_clock.c */
    struct timer tick;
    bool tick_running, compact_running;
    struct list own;      /* entries of our own on their way */
    mono_time applied_at; /* when T was what it is */
    mono_time tick_at;    /* what the timer is set to */
    struct {
        mono_time at;
        uint64_t revision;
    } marks[HISTORY_MARKS]; /* oldest first */
    size_t mark_count;
};

static inline struct store *service_store(const struct store_service *service)
{
    return store_machine_store(service->machine);
}
static inline struct str bytes_str(ProtobufCBinaryData bytes)
{
    return bytes.len ? str_of(bytes.data, bytes.len) : STR_EMPTY;
}

/* -- service_request.c -- */
extern const struct rpc_handler store_handler;
void store_requests_resume(struct store_service *service);
void store_request_overdue(struct timer *timer);
bool store_leads(const struct store_service *service);
void store_write(struct request *request);
void store_request_free(struct request *request); /* its call is answered, or gone */
/* Each answers, once, and the request is gone. */
void store_reply(struct request *request, struct str message);
void store_reply_packed(struct request *request, const struct pack *pack);
void store_reply_result(struct request *request, const struct store_result *result,
                        struct str text);
void store_fail(struct request *request, enum grpc_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Nothing was done: x-muster-applied says so. */
void store_refuse(struct request *request, enum grpc_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void store_not_leader(struct request *request);
void store_log_failed(struct request *request, enum err err);
void store_actor(const struct rpc_call *call, char actor[REPLICA_ACTOR_MAX + 1]);

/* -- service_wait.c: Acquire -- */
void wait_propose(struct request *request); /* before it is proposed: an event may be first */
void wait_register(struct request *request);
void wait_begin(struct request *request, const struct store_id *lease); /* the reply said so */
void wait_event(struct store_service *service, const struct store_event *event);
void wait_gone(struct request *request); /* its call is over */
void wait_forget(struct request *request);
void wait_attempt_over(struct request *request); /* before it is freed */
void waits_end(struct store_service *service);   /* leadership is lost */

/* -- service_renew.c -- */
void renew_begin(struct request *request);
void renew_add(struct store_service *service, const struct store_id *id); /* nobody asked */
void renew_overdue(struct timer *timer);
void renew_now(struct task *task);

/* -- service_clock.c -- */
void clock_applied(struct store_service *service);
void clock_tick(struct timer *timer);
void clock_set(struct store_service *service);    /* when the next tick is due */
void clock_second(struct store_service *service); /* once a second, on the leader */
void clock_forget(struct store_service *service); /* a term is over */
/* Proposes a command nobody waits for; false: it could not be. */
bool own_propose(struct store_service *service, const struct store_command *command);

/* -- service_watch.c -- */
extern const struct rpc_handler store_watch_handler;
void starts_overdue(struct store_service *service);

/* -- service_metrics.c -- */
enum err store_metrics_open(struct store_metrics *ret_metrics, struct metrics *metrics,
                            struct note *note);
void store_count(struct counter *counter, uint64_t n);
void store_gauges(struct store_service *service);
#endif
