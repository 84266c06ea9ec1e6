/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the service and the calls between them.
 *
 *     call -> leader/leader.h -> service_request.c (limits -> leader?)
 *          -> once ready: the method's `read`, or the method's `command` and the applied result
 *     Acquire that waits -> service_wait.c until an event of a later entry answers the call
 *     Renew -> service_renew.c: many calls, one entry
 *     Watch -> kept -> service_watch.c, watch_engine.c
 *     applied entries -> service.c -> waiters, watches; service_clock.c: ticks and compaction
 *
 * A call that waits for a slot leaves the queue when its client disconnects. */
#ifndef STORE_SERVICE_INTERNAL_H
#define STORE_SERVICE_INTERNAL_H
#include <muster/coord.h>

#include "base/map.h"
#include "leader/leader.h"
#include "rpc/client.h"
#include "rpc/forward.h"
#include "store/bounds.h"
#include "store/service.h"
#include "store/txn_wire.h"
#include "wire/pack.h"
#include "wire/pb/muster_v1_coordination.pb-c.h"

struct hub;
struct store_method {
    struct leader_method base;
    /* 0, or the reason of COORD_INVALID with a note; may be NULL */
    int (*check)(const ProtobufCMessage *message, struct note *note);
    /* For reads: true if any replica may answer. */
    bool (*serializable)(const ProtobufCMessage *message);
    void (*read)(struct leader_request *request);
    enum store_kind kind; /* for writes */
    /* For writes: fills in the command without the request id and without the key's prefix. */
    void (*command)(const ProtobufCMessage *message, struct store_command *command);
    void (*begin)(struct leader_request *request); /* neither read nor write; runs on the leader */
};
extern const struct store_method store_write_methods[], store_read_methods[];
bool store_always(const ProtobufCMessage *message); /* always true: any replica may answer */
/* 0, or the reason of COORD_INVALID with a note */
int store_check_request(const ProtobufCMessage *message, struct note *note);
enum err store_write_command(const struct store_method *method, const ProtobufCMessage *message,
                             struct arena *arena, struct store_command *ret_command);

/* STORE_ID_FIELD: number of the field `store_id` in requests */
enum { STORE_ANSWER_MAX = 4 << 20, STORE_ID_FIELD = 15 };
enum store_kept {
    KEPT_NOT,
    KEPT_RENEWS,
    KEPT_QUEUES,
    KEPT_LEAVES, /* leaves the queue, because its wait time is over */
    KEPT_WATCHES,
};
/* A caller that waits for the renewal of its lease ids. `done` is called once, after renew_add()
 * has returned:
 * ERR_OK: `renewals` has the result of each id
 * ERR_UNKNOWN: the batch may have been applied
 * other errors: nothing was applied */
struct renew_asker {
    struct list link;
    uint32_t at; /* index of the asker's first lease id in the batch */
    void (*done)(struct renew_asker *asker, enum err err, const struct store_renewal *renewals);
};
struct store_request {
    struct leader_request base;
    enum store_kept kept;
    /* for an Acquire that may wait */
    struct store_id lease; /* key in service.waits */
    bool in_waits;
    struct timer timer; /* renews the lease, and ends the wait */
    mono_time wait_until, renew_at;
    int64_t ttl_ms;
    struct store_id wait_client; /* client id of the request */
    uint64_t wait_sequence;
    uint8_t wait_id[24];        /* key in service.attempts: client id and sequence */
    struct str wait_group;      /* name of the group with its prefix, in the call's arena */
    bool has_early, lost_early; /* a grant or a removal from the queue came before the reply */
    struct store_result early;
    struct renew_asker asker;
    struct watcher *watcher; /* for Watch; NULL until the watch begins */
};
/* a tick, a compaction or a cancelled wait that the service itself proposes */
struct own_proposal {
    struct store_service *service;
    struct proposal proposal;
    enum store_kind kind;
};

enum { STORE_CODES = 8, HISTORY_MARKS = 16 };
struct store_numbers { /* values of the metrics */
    uint64_t revision, compacted, keys, bytes, quota, leases, groups, waiters, watchers, clients,
        clock_ns, requests, lock_waiters;
    uint64_t outcomes[STORE_CODES], renewals, renew_batches, expired, ticks, compactions, resyncs,
        watch_events, lock_grants;
};

struct store_service {
    struct io *io;
    struct log_source log;
    struct store_service_limits limits;
    struct leader leader;
    struct store_machine *machine;
    struct store_follower follower;
    struct watch_engine *watches; /* shared by all APIs */
    struct store_numbers numbers;
    struct metric_fields *metrics; /* NULL: no registry */
    struct list kept;              /* kept requests; see enum store_kept */
    struct list watchers;          /* watches of muster.v1 */
    uint32_t watcher_count, watch_seconds;
    struct map waits;    /* waiting requests by lease */
    struct map attempts; /* newest attempt of each Acquire that may wait, by client and sequence */
    struct timer second;
    struct buf answer, row, command; /* scratch buffers of one call */
    /* renewals */
    struct renew_batch *batch; /* collects ids; may be NULL */
    uint32_t batches_running;
    struct timer batch_due;
    struct task batch_now;
    /* the clock: service_clock.c */
    struct timer tick;
    bool tick_running, compact_running;
    uint32_t own_running; /* entries proposed by the service that are not applied yet */
    mono_time applied_at; /* when the lease clock T last changed */
    mono_time tick_at;
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
/* False: the cluster may contain an older release, which cannot apply tokens. */
static inline bool store_checks_tokens(const struct store_service *service)
{
    return replica_status(service->leader.replica).level >= STORE_TOKENS_LEVEL;
}
/* a proposal of service->command, without the name of a user */
static inline struct proposal store_proposal(const struct store_service *service,
                                             enum store_kind kind, proposal_fn *done)
{
    return (struct proposal){.machine = STORE_MACHINE_ID,
                             .version = store_kind_version(kind),
                             .actor = STR_EMPTY,
                             .request_id = STR_EMPTY,
                             .command = buf_peek(&service->command),
                             .done = done};
}
static inline struct store_service *service_of(const struct leader_request *request)
{
    return CONTAINER_OF(request->leader, struct store_service, leader);
}
static inline struct store_request *store_request_of(struct leader_request *request)
{
    return CONTAINER_OF(request, struct store_request, base);
}

/* -- service_request.c -- */
extern const struct leader_rules store_rules;
/* Answers with an Outcome and frees the request. */
void store_reply_result(struct leader_request *request, const struct store_result *result,
                        struct str text);

/* -- service_wait.c: Acquire -- */
/* Call before the command is proposed, because an event may arrive before the reply. */
void wait_propose(struct store_request *wait, const struct store_command *command);
void wait_begin(struct store_request *wait,
                const struct store_id *lease); /* `lease`: the lease of the reply */
void wait_event(struct store_service *service, const struct store_event *event);
void wait_gone(struct store_request *wait); /* call when the client's call has ended */
void wait_forget(struct store_request *wait);
void wait_attempt_over(struct store_request *wait); /* call before the request is freed */
void waits_end(struct store_service *service);      /* call when leadership was lost */

/* -- service_renew.c -- */
void renew_begin(struct leader_request *request);
/* Adds all ids, at most STORE_RENEW_MAX, to one batch. `asker` may be NULL. False: no memory, and
 * `done` is never called. */
bool renew_add(struct store_service *service, const struct store_id *ids, size_t count,
               struct renew_asker *asker);
void renew_drop(struct renew_batch *own_batch); /* the batch was never proposed; may be NULL */
void renew_overdue(struct timer *timer);
void renew_now(struct task *task);

/* -- service_clock.c -- */
void clock_applied(struct store_service *service);
void clock_tick(struct timer *timer);
void clock_set(struct store_service *service);
void clock_second(struct store_service *service); /* once a second on the leader */
void clock_forget(struct store_service *service); /* call when the leader's term is over */
/* Proposes a command of the service itself. False: no memory. */
bool own_propose(struct store_service *service, const struct store_command *command);

/* -- service_watch.c -- */
int watch_check(const ProtobufCMessage *message, struct note *note);
void watch_begin(struct leader_request *request);
void watcher_writable(struct watcher *watcher);
void watcher_free(struct watcher *watcher); /* when the request is freed; NULL is fine */
void watchers_second(struct store_service *service);
void watchers_leadership_lost(struct store_service *service);

/* -- service_metrics.c -- */
enum err store_metrics_open(struct store_service *service, struct metrics *metrics,
                            struct note *note);
void store_numbers_take(struct store_service *service); /* sets the gauges */
#endif
