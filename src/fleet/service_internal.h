/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the service and the calls between them.
 *
 *     call -> leader/leader.h -> service_request.c (leader? -> method's own checks)
 *          -> once ready: the method's `read`, or the method's `command`, then `done`
 *     applied entries -> service_follow.c (audit, soft state, instructions), on every replica
 *     domains that move, conflicts of ownership -> service_ownership.c
 *     the replica's changes -> service.c (terms, events, gauges) */
#ifndef FLEET_SERVICE_INTERNAL_H
#define FLEET_SERVICE_INTERNAL_H
#include "base/map.h"
#include "fleet/copy.h"
#include "fleet/join.h"
#include "fleet/seed.h"
#include "fleet/service.h"
#include "fleet/shard_reports.h"
#include "leader/leader.h"
#include "log/sections.h"
#include "log/snapfile.h"
#include "rpc/client.h"
#include "rpc/forward.h"
#include "wire/pack.h"
#include "wire/pb/bigfleet_v1alpha1_coordinator.pb-c.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"

/* STREAM_SAVE first measures the state: the meta data has the size, and precedes the state.
 * STREAM_ETCD is a backup in etcd's frames. */
enum stream_kind { STREAM_SAVE, STREAM_BACKUP, STREAM_ETCD };
struct service_method {
    struct leader_method base;
    /* Checks the arguments, and the caller if its rights depend on them. With `anywhere`, also
     * checks the leader. False: the call was answered or kept. May be NULL. */
    bool (*admit)(struct leader_request *request);
    /* For reads and soft state: answers the call, after the leadership was confirmed. */
    void (*read)(struct leader_request *request);
    /* For writes: checks the leader's soft state. False: the call was answered. May be NULL. */
    bool (*judge)(struct leader_request *request);
    enum fleet_table table;
    enum fleet_kind kind; /* for writes of service_admin.c */
    enum stream_kind stream;
    const char *label; /* value of a stream's metric label */
    bool anywhere;     /* `admit` runs on any replica and handles the whole call */
    bool is_old;       /* BigFleet's own method, whose response has no "not yet" */
    /* Replaces `read`, `judge` and `command`. Runs on a leader that is ready. */
    void (*begin)(struct leader_request *request);
    /* Handles the result of a proposal to a state machine other than the fleet tables. */
    void (*written)(struct leader_request *request, enum err err, struct str reply);
    size_t needed; /* the first `needed` texts must not be empty */
    /* For writes: builds the command from the message, in the call's arena. ERR_NOMEM. */
    enum err (*command)(struct leader_request *request, struct fleet_command *ret_command);
    /* For writes: answers with the command's result. NULL: sends the standard response. */
    void (*done)(struct leader_request *request, const struct fleet_result *result);
};
enum { SERVICE_ACTOR_CAP = 256 };
#define BIGFLEET "bigfleet.v1alpha1.Coordinator"
#define MUSTER   "muster.v1.Fleet"
#define SERVICE_METHOD(service, rpc, package, word, ...)                                           \
    {                                                                                              \
        .base = {.path = "/" service "/" rpc,                                                      \
                 .name = rpc,                                                                      \
                 .input = &package##__##word##_request__descriptor,                                \
                 .output = &package##__##word##_response__descriptor,                              \
                 .response_max = SERVICE_ANSWER_MAX},                                              \
        __VA_ARGS__                                                                                \
    }
/* The original limits a response to 256 MiB. A million domains need about 60 MB. */
enum { SERVICE_ANSWER_MAX = 256 << 20 };
extern const struct service_method service_admin_methods[], service_read_methods[],
    service_report_methods[], service_instruct_methods[], service_ownership_methods[],
    service_stream_methods[], service_replica_methods[]; /* each ends with a NULL path */

struct fleet_request {
    struct leader_request base;
    bool answering; /* a part of a long list response was sent */
    /* For service_replica.c. The log may use these fields after the caller has disconnected. */
    bool busy; /* the Raft log uses `change` or `transfer` */
    struct admission *admission;
    char actor[SERVICE_ACTOR_CAP];
    uint64_t id; /* id of the replica named in the request */
    struct timer again;
    struct member_change change;
    struct transfer transfer;
};

/* the contract's result codes, then muster's */
enum ack_outcome {
    ACK_NUMBERS = 5,
    ACK_OTHER = ACK_NUMBERS, /* a result code that the contract does not define */
    ACK_UNKNOWN,             /* the acknowledged instruction is not pending */
    ACK_OUTCOMES
};
enum report_result { REPORT_TAKEN, REPORT_LATE, REPORT_REFUSED, REPORT_RESULTS };
enum drop_reason { DROP_FULL, DROP_SHARD, DROP_TERM, DROP_REASONS };
enum apply_outcome { APPLY_SUCCESS, APPLY_ERROR, APPLY_FSM_ERROR, APPLY_OUTCOMES };
struct service_numbers { /* for the metrics: counters, then gauges */
    uint64_t apply[APPLY_OUTCOMES], reports[REPORT_RESULTS], acks[ACK_OUTCOMES];
    uint64_t dropped[DROP_REASONS], queued;
    uint64_t term, is_leader, shards_silent, shard_id_conflicts, shards_unscoped, domain_conflicts;
    uint64_t soft_bytes, requests;
    struct fleet_counts counts;
};

struct service_lister { /* service_list.c */
    struct fleet_service *service;
    enum fleet_table table;
    struct timer timer;
    struct list waiting, running; /* requests for the next list, and for the list being sent */
    bool busy;                    /* a list response is being built or sent */
    struct fleet_view *view;      /* table rows to be read; NULL: all are read */
    struct list parts;            /* encoded parts of the response, in order */
    struct map by_shard;
    size_t total; /* bytes of all `parts` */
    /* position in the response to the first request in `running` */
    struct list *part;
    size_t part_at;
};

struct outflow {                    /* a stream of the whole state: service_snapshot.c */
    struct leader_request *request; /* NULL: no stream is running */
    unsigned stage;
    bool is_blocked, has_waited;
    bool is_made; /* the whole stream is encoded */
    mono_time turn_until;
    uint64_t sent;
    struct buf out;         /* bytes that are encoded, but not sent */
    struct fleet_copy copy; /* for STREAM_SAVE; copy.meta for every stream */
    struct fleet_state_writer *measure;
    struct snap_stream frame; /* used by STREAM_BACKUP */
    struct sections sections;
    struct buf slice;
};

struct rival {
    struct survey *survey; /* NULL: no join addresses, or no rival_found */
    struct task ask;
    mono_time asked;     /* time of the last round; 0: never */
    uint64_t cluster_id; /* cluster of the replica that connected */
    bool running, was_found;
};

struct quorum { /* quorum.c joins this replica, admission.c admits others */
    struct fleet_service *service;
    struct admit_request self; /* this replica's request to join; cluster_id is set at sending */

    /* for joining */
    struct join join;
    struct timer look_timer;
    struct survey *survey; /* queries the leader at the join addresses */

    /* for the leader */
    struct list admissions;
    size_t admission_count;
    mono_time leading_since; /* 0: not the leader */

    struct rival rival;

    bool stopping;
    unsigned closing; /* surveys that are not closed yet */
    void (*stopped)(void *owner);
    void *stopped_owner;
};

struct fleet_service {
    struct fleet_service_options options; /* with the defaults filled in */
    struct io *io;
    struct log_source log;
    struct leader leader; /* `reports` belongs to this leader's term */
    struct fleet_machine *machine;
    struct fleet *fleet; /* owned by `machine` */
    struct shard_reports *reports;
    struct service_numbers numbers;
    struct metric_fields *fields; /* describes `numbers` */
    struct metric_family *pending;
    /* the replica's last status */
    uint64_t leader_id;
    struct buf members;               /* the cluster's members as text */
    struct service_lister listers[2]; /* one for domains, one for clusters */
    struct timer tick;
    mono_time led_since; /* start of the current leadership */
    size_t clears;       /* ClearLeaving proposals in flight */
    size_t unscoped;     /* shards without domains on shared providers, at the last check */
    uint32_t unscoped_ticks;
    struct buf answer, row, command, line; /* scratch buffers of a call or an event */
    struct quorum *quorum;                 /* NULL before fleet_service_join */
    const struct state_machine *machines;
    size_t machine_count;
    struct list kept; /* requests that ask for a stream or concern a replica */
    struct outflow stream;
    struct timer stream_timer; /* next slice or retry, or the end of a stalled stream */
    struct metric_family *streams;
    struct counter *stream_bytes;
    struct export_loop *exports; /* NULL: exports are not configured */
    /* rows of --bootstrap-state that a leader has to propose */
    size_t seed_next, seed_running;
    bool seed_failed;
};

static inline struct fleet_service *service_of(const struct leader_request *request)
{
    return CONTAINER_OF(request->leader, struct fleet_service, leader);
}

static inline const struct service_method *service_method_of(const struct leader_request *request)
{
    return CONTAINER_OF(request->method, struct service_method, base);
}

static inline struct fleet_request *fleet_request_of(struct leader_request *request)
{
    return CONTAINER_OF(request, struct fleet_request, base);
}

#define SERVICE_LOG_EVENT(service, level, message, event, ...)                                     \
    do {                                                                                           \
        LOG_AT(&(service)->log, LOG_LEVEL_##level, message, __VA_ARGS__, LOG_END);                 \
        service_event((service), event, (const struct log_field[]){__VA_ARGS__, LOG_END});         \
    } while (0)

/* -- service_request.c -- */
extern const struct leader_rules service_rules;
void service_write(struct leader_request *request); /* proposes the method's command */
/* Proposes a command that no client requested; `actor` is copied. done() follows, unless this call
 * fails: ERR_NOMEM, errors of fleet_command_encode. */
typedef void service_done_fn(struct fleet_service *service, enum err err,
                             const struct fleet_result *result);
enum err service_propose(struct fleet_service *service, const struct fleet_command *command,
                         struct str actor, service_done_fn *done);

/* -- service_follow.c -- */
void service_applied(void *owner, const struct machine_entry *entry,
                     const struct fleet_command *command, const struct fleet_result *result);
void service_restored(void *owner);
void service_begin_term(struct fleet_service *service, uint64_t term);
void service_end_term(struct fleet_service *service);
void service_check_silence(struct fleet_service *service);

/* -- service_ownership.c -- */
void service_domain_leaving(struct fleet_service *service, const struct machine_entry *entry,
                            const struct fleet_domain *domain, struct str shard);
/* The shard's acknowledgement was applied. */
void service_domain_given_up(struct fleet_service *service, const struct fleet_leaving *leaving);
/* Has an effect only on an instruction to release a domain. */
void service_take_unassign_ack(struct fleet_service *service, const struct reported_shard *shard,
                               const struct instruction *instruction);
/* True if the refused instruction stays pending; *ret_first is then true for the first refusal. */
bool service_take_unassign_refusal(struct fleet_service *service,
                                   const struct reported_shard *shard,
                                   struct instruction *instruction, struct str reason,
                                   bool *ret_first);
void service_compare_domains(struct fleet_service *service, const struct reported_shard *shard,
                             const Bigfleet__V1alpha1__ShardReport *report);
/* Queues the UnassignDomain instructions that are missing for domains leaving the shard. */
void service_queue_unassigns(struct fleet_service *service, const struct reported_shard *shard);
void service_conflict_begun(struct fleet_service *service, const struct reported_shard *shard);
/* Called once per tick on the leader. Checks for conflicts of ownership. */
void service_check_conflicts(struct fleet_service *service);

/* -- service_seed.c -- */
void service_seed_begin(struct fleet_service *service);

/* -- service_instruct.c -- */
#define INSTRUCTION_ID_CAP 17
/* Without room the instruction is dropped and counted; the tables stay correct. */
void service_instruct_owner(struct fleet_service *service, const struct fleet_domain *domain,
                            bool assigned);
/* Queues UnassignDomain with the tag `since`, unless an equal instruction is pending. */
void service_queue_unassign(struct fleet_service *service, const struct fleet_leaving *leaving);
/* Queues UnassignDomain to a shard that reports another shard's domain, unless one is pending. */
void service_queue_stray(struct fleet_service *service, const struct fleet_domain *domain);
/* NULL: none is pending. */
const struct instruction *service_find_pending(const struct fleet_service *service,
                                               const struct fleet_domain *domain);
/* Queues missing instructions for all domains of the shard: the previous leader may not have sent
 * them, or the shard may have lost its disk. Repeats are harmless. */
void service_instruct_domains(struct fleet_service *service, const struct reported_shard *shard);

/* -- service_list.c -- */
enum err service_lister_init(struct service_lister *lister, struct fleet_service *service,
                             enum fleet_table table);      /* ERR_FULL (timers), ERR_NOMEM */
void service_lister_deinit(struct service_lister *lister); /* allowed for a zeroed lister */
void service_list_later(struct leader_request *request, struct service_lister *lister);

/* -- quorum.c -- */
void quorum_on_change(struct quorum *quorum, const struct replica_status *status);
/* done() is called once, after the last query, inside this call if none runs. A second call
 * replaces the first. */
void quorum_stop(struct quorum *quorum, void (*done)(void *owner), void *owner); /* may be NULL */
void quorum_close(struct quorum *quorum);                                        /* may be NULL */
uint64_t quorum_leading_ms(const struct quorum *quorum); /* 0 if this replica is not the leader */

/* -- rival.c: errors of survey_open -- */
enum err rival_open(struct quorum *quorum, const struct survey_to *to, struct note *note);

/* -- admission.c: on the leader -- */
struct admission;
/* Called once, at the end of an admission. ERR_OK: the replica is a voter at its address.
 * ERR_NOT_READY: not yet, see the note. ERR_NOT_LEADER, ERR_UNKNOWN. Other errors: refused. */
typedef void admission_fn(void *owner, enum err err, const struct note *note);
/* Admits a replica step by step until `until`. ERR_NOMEM, ERR_FULL (timers, calls), ERR_CLOSED. */
enum err quorum_admit(struct quorum *quorum, const struct admit_request *request, struct str actor,
                      mono_time until, admission_fn *done, void *owner,
                      struct admission **ret_admission);
/* Call when the caller has disconnected. The admission continues. */
void admission_forget(struct admission *admission);
/* Ends admissions that wait for a timer. Other admissions end with their proposal in the log. */
void admissions_stop(struct quorum *quorum);

/* -- service_replica.c -- */
/* The caller disconnected. The log or the admission may still use the request. */
void service_request_gone(struct leader_request *request);

/* -- service_snapshot.c -- */
/* Errors of timer_init and metrics_add. */
enum err service_streams_open(struct fleet_service *service, struct note *note);
void service_stream_freed(struct leader_request *request); /* for a stream's request */
void service_stream_writable(struct leader_request *request);

/* -- service_journal.c -- */
/* `fields` ends with LOG_END, or is NULL. */
void service_event(struct fleet_service *service, const char *event,
                   const struct log_field *fields);
void service_audit(struct fleet_service *service, const char *what, struct str actor,
                   const struct log_field *fields);
/* The bigfleet: identity of the caller's certificate, otherwise its common name, or
 * "plaintext:<peer>" without TLS. */
void service_actor(const struct rpc_call *call, char actor[SERVICE_ACTOR_CAP]);

/* -- export.c -- */
/* ERR_INVALID (dir), ERR_NOMEM, errors of worker_open and metrics_add. */
enum err export_loop_open(struct fleet_service *service, struct note *note);
/* Call before the replica is closed. Waits for the disk. NULL is allowed. */
void export_loop_close(struct export_loop *loop);

/* -- service_read.c -- */
/* Returns the shards in the order of the tables, and then NULL. */
const struct reported_shard *service_next_reported(const struct fleet_service *service,
                                                   struct fleet_walk *walk);
void service_pack_row(struct fleet_service *service, struct pack *pack,
                      const struct fleet_row *row);

/* -- service_metrics.c -- */
extern const char *const service_ack_names[ACK_OUTCOMES];
/* Opens the metrics, if there is a registry. Also after an error, call service_metrics_close. */
enum err service_metrics_open(struct fleet_service *service, struct note *note);
void service_metrics_close(struct fleet_service *service);

int64_t service_wall_ns(const struct fleet_service *service);
#endif
