/* SPDX-License-Identifier: Apache-2.0 */
/* The service's parts and who calls whom.
 *
 *     call -> leader/leader.h -> service_request.c (leader? -> method's own checks)
 *          -> once ready: method's `read`, or method's `command`, then `done`
 *     applied entries -> service_follow.c (audit, soft state, instructions), on every replica
 *     domains between two owners, conflicts of ownership -> service_ownership.c
 *     replica's changes -> service.c (terms, events, gauges)
 */
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

/* SAVE measures the state before it sends it, because its meta, which comes first, has the size:
 * two views of one moment. ETCD: a backup in etcd's frames. */
enum stream_kind { STREAM_SAVE, STREAM_BACKUP, STREAM_ETCD };
struct service_method {
    struct leader_method base;
    /* Arguments, and identity where it depends on them; where `anywhere`, who leads. Answers or
     * keeps it, and returns false. May be NULL. */
    bool (*admit)(struct leader_request *request);
    /* Reads and soft state: runs once leadership is proved, and answers. */
    void (*read)(struct leader_request *request);
    /* Writes: what the leader's soft state says against it. Answers and returns false. May be
     * NULL. */
    bool (*judge)(struct leader_request *request);
    enum fleet_table table; /* reads of a table */
    enum fleet_kind kind;   /* writes of service_admin.c */
    enum stream_kind stream;
    const char *label; /* of a stream, in the metric */
    bool anywhere;     /* `admit` comes first, on any replica, and decides alone */
    bool is_old;       /* of the original's contract, which has no answer "not yet" */
    /* On a leader that may be asked, in place of read, judge and command. */
    void (*begin)(struct leader_request *request);
    /* What the log said to a proposal of another machine. */
    void (*written)(struct leader_request *request, enum err err, struct str reply);
    size_t needed; /* how many of its texts may not be empty */
    /* Writes: from the message; its memory is the call's arena. ERR_NOMEM. */
    enum err (*command)(struct leader_request *request, struct fleet_command *ret_command);
    /* Writes: what the tables said. Answers. NULL: in the words of the tables. */
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
/* The original sends and takes 256 MiB; a million domains are about 60 MB. */
enum { SERVICE_ANSWER_MAX = 256 << 20 };
extern const struct service_method service_admin_methods[], service_read_methods[],
    service_report_methods[], service_instruct_methods[], service_ownership_methods[],
    service_stream_methods[], service_replica_methods[]; /* each ends with a NULL path */

struct fleet_request {
    struct leader_request base;
    bool answering; /* of a long list: it has got a part of its answer */
    /* of service_replica.c; the log may hold parts of it longer than the caller waits */
    bool busy; /* the log has `change` or `transfer` */
    struct admission *admission;
    char actor[SERVICE_ACTOR_CAP];
    uint64_t id; /* of the replica that is meant */
    struct timer again;
    struct member_change change;
    struct transfer transfer;
};

/* the contract's numbers, then ours */
enum ack_outcome {
    ACK_NUMBERS = 5,
    ACK_OTHER = ACK_NUMBERS, /* a number the contract does not have */
    ACK_UNKNOWN,             /* of an instruction that is not waiting */
    ACK_OUTCOMES
};
enum report_result { REPORT_TAKEN, REPORT_LATE, REPORT_REFUSED, REPORT_RESULTS };
enum drop_reason { DROP_FULL, DROP_SHARD, DROP_TERM, DROP_REASONS };
enum apply_outcome { APPLY_SUCCESS, APPLY_ERROR, APPLY_FSM_ERROR, APPLY_OUTCOMES };
struct service_numbers { /* for the metrics: counted, and then gauges of the moment */
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
    struct list waiting, running; /* requests: for the next list, for this one */
    bool busy;                    /* a list is being made or handed out */
    struct fleet_view *view;      /* NULL: all rows are read */
    struct list parts;            /* the answer, one behind the other */
    struct map by_shard;
    size_t total; /* bytes of all parts */
    /* how far the first of `running` has it, once it is `answering` */
    struct list *part;
    size_t part_at;
};

struct outflow {                    /* service_snapshot.c: a stream of the whole state */
    struct leader_request *request; /* NULL: none is running */
    unsigned stage;
    bool is_blocked, has_waited;
    bool is_made; /* all of it is in `out`, or sent */
    mono_time turn_until;
    uint64_t sent;
    struct buf out;         /* made, not sent */
    struct fleet_copy copy; /* SAVE; index and term of all */
    struct fleet_state_writer *measure;
    struct snap_stream frame; /* BACKUP */
    struct sections sections;
    struct buf slice;
};

struct quorum { /* this replica's place: quorum.c; as a leader, that of others: admission.c */
    struct fleet_service *service;
    struct admit_request self; /* what we ask for; the cluster is filled in when asking */

    /* the join loop */
    struct join join;
    struct timer look_timer;
    struct survey *survey; /* asks the leader at the join addresses */

    /* the leader's side */
    struct list admissions;
    size_t admission_count;
    mono_time leading_since; /* 0: we do not lead */

    bool stopping;
};

struct fleet_service {
    struct fleet_service_options options; /* limits filled in */
    struct io *io;
    struct log_source log;
    struct leader leader; /* while it is led, the reports are of its term */
    struct fleet_machine *machine;
    struct fleet *fleet; /* the machine's */
    struct shard_reports *reports;
    struct service_numbers numbers;
    struct metric_fields *fields; /* of `numbers` */
    struct metric_family *pending;
    /* what the replica said last */
    uint64_t leader_id;
    struct buf members;               /* as text */
    struct service_lister listers[2]; /* of domains and of clusters */
    struct timer tick;
    mono_time led_since; /* of the term that is led */
    size_t clears;       /* proposals of ClearLeaving in flight */
    size_t unscoped;     /* shards without domains that share a provider, when last looked at */
    uint32_t unscoped_ticks;
    struct buf answer, row, command, line; /* scratch of one call; of an event */
    struct quorum *quorum;                 /* NULL before fleet_service_join */
    const struct state_machine *machines;
    size_t machine_count;
    struct list kept; /* requests of the stream, and those about replicas */
    struct outflow stream;
    struct timer stream_timer; /* the next slice or try; while blocked, the end of patience */
    struct metric_family *streams;
    struct counter *stream_bytes;
    struct export_loop *exports; /* NULL: none is configured */
    /* the rows of --bootstrap-state that a leader still has to propose */
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

/* The same in the log and among the events. */
#define SERVICE_LOG_EVENT(service, level, message, event, ...)                                     \
    do {                                                                                           \
        LOG_AT(&(service)->log, LOG_LEVEL_##level, message, __VA_ARGS__, LOG_END);                 \
        service_event((service), event, (const struct log_field[]){__VA_ARGS__, LOG_END});         \
    } while (0)

/* -- service_request.c -- */
extern const struct leader_rules service_rules;
void service_write(struct leader_request *request); /* proposes the method's command */
/* Proposes a command that nobody called for; `actor` is copied. done() follows, with what the tables
 * answered unless `err`. ERR_NOMEM, what fleet_command_encode answers: nothing follows. */
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
/* A domain was taken from the shard by this entry. */
void service_domain_leaving(struct fleet_service *service, const struct machine_entry *entry,
                            const struct fleet_domain *domain, struct str shard);
/* The shard's acknowledgement was applied. */
void service_domain_given_up(struct fleet_service *service, const struct fleet_leaving *leaving);
/* The shard accepted the instruction; nothing happens unless it is about a leaving domain. */
void service_take_unassign_ack(struct fleet_service *service, const struct reported_shard *shard,
                               const struct instruction *instruction);
/* The shard refused the instruction. True: it waits on, and *ret_first says whether this is its
 * first refusal. */
bool service_take_unassign_refusal(struct fleet_service *service,
                                   const struct reported_shard *shard,
                                   struct instruction *instruction, struct str reason,
                                   bool *ret_first);
/* The domains that a report names, beside the tables. */
void service_compare_domains(struct fleet_service *service, const struct reported_shard *shard,
                             const Bigfleet__V1alpha1__ShardReport *report);
/* Queues UnassignDomain for the domains that are leaving the shard and have none waiting. */
void service_queue_unassigns(struct fleet_service *service, const struct reported_shard *shard);
void service_conflict_begun(struct fleet_service *service, const struct reported_shard *shard);
void service_check_conflicts(struct fleet_service *service); /* once a tick, on the leader */

/* -- service_seed.c -- */
void service_seed_begin(struct fleet_service *service);

/* -- service_instruct.c -- */
#define INSTRUCTION_ID_CAP 17
/* Instructs the owner about an assignment. An instruction that finds no room is dropped and counted:
 * the tables hold what is true. */
void service_instruct_owner(struct fleet_service *service, const struct fleet_domain *domain,
                            bool assigned);
/* UnassignDomain with the tag `since`, unless that one waits already. */
void service_queue_unassign(struct fleet_service *service, const struct fleet_leaving *leaving);
/* UnassignDomain to a shard that has a domain of another shard, unless one about it waits. */
void service_queue_stray(struct fleet_service *service, const struct fleet_domain *domain);
/* The instruction that waits for domain->shard about the domain; NULL: none. */
const struct instruction *service_find_pending(const struct fleet_service *service,
                                               const struct fleet_domain *domain);
/* Instructs the shard about all its domains about which none waits: those that the leader before had
 * not sent, and those that a shard without its disk has forgotten. A repeat does no harm. */
void service_instruct_domains(struct fleet_service *service, const struct reported_shard *shard);

/* -- service_list.c -- */
enum err service_lister_init(struct service_lister *lister, struct fleet_service *service,
                             enum fleet_table table);      /* ERR_FULL (timers), ERR_NOMEM */
void service_lister_deinit(struct service_lister *lister); /* fine on a zeroed one */
void service_list_later(struct leader_request *request, struct service_lister *lister);

/* -- quorum.c -- */
void quorum_on_change(struct quorum *quorum, const struct replica_status *status);
/* Asks and admits no more. done() once, at once when nothing is asked; nothing follows it. */
void quorum_stop(struct quorum *quorum, void (*done)(void *owner), void *owner); /* NULL is fine */
void quorum_close(struct quorum *quorum);                                        /* likewise */
uint64_t quorum_leading_ms(const struct quorum *quorum); /* 0 when we do not lead */

/* -- admission.c: on the leader -- */
struct admission;
/* ERR_OK: a voter in its place. ERR_NOT_READY: not yet, the note says what it waits for.
 * ERR_NOT_LEADER, ERR_UNKNOWN; anything else: refused. Once, never from inside. */
typedef void admission_fn(void *owner, enum err err, const struct note *note);
/* Step by step until done or `until`. ERR_NOMEM, ERR_FULL (timers, or too many ask at once),
 * ERR_CLOSED. */
enum err quorum_admit(struct quorum *quorum, const struct admit_request *request, struct str actor,
                      mono_time until, admission_fn *done, void *owner,
                      struct admission **ret_admission);
/* Nobody waits for the answer any more; it goes on by itself. */
void admission_forget(struct admission *admission);
/* Those that wait for a timer end here; those that the log has end with it. */
void admissions_stop(struct quorum *quorum);

/* -- service_replica.c -- */
/* Its caller went away; the log, or the admission, may still have it. */
void service_request_gone(struct leader_request *request);

/* -- service_snapshot.c -- */
/* What timer_init and metrics_add answer. */
enum err service_streams_open(struct fleet_service *service, struct note *note);
void service_stream_freed(struct leader_request *request); /* of a stream */
void service_stream_writable(struct leader_request *request);

/* -- service_journal.c -- */
/* `fields` ends with LOG_END, or is NULL. */
void service_event(struct fleet_service *service, const char *event,
                   const struct log_field *fields);
void service_audit(struct fleet_service *service, const char *what, struct str actor,
                   const struct log_field *fields);
/* The caller, for the audit and the log's envelope: the bigfleet: identity of the certificate, its
 * common name if there is none, "plaintext:<peer>" without TLS. NUL-terminated. */
void service_actor(const struct rpc_call *call, char actor[SERVICE_ACTOR_CAP]);

/* -- export.c -- */
/* ERR_INVALID (dir), ERR_NOMEM, and what worker_open and metrics_add answer. */
enum err export_loop_open(struct fleet_service *service, struct note *note);
/* Before the replica is closed; waits for the disk. NULL is fine. */
void export_loop_close(struct export_loop *loop);

/* -- service_read.c -- */
/* The next reported shard in the order of the tables, so that an answer is sorted; NULL at the
 * end. */
const struct reported_shard *service_next_reported(const struct fleet_service *service,
                                                   struct fleet_walk *walk);
/* As lists contain it. */
void service_pack_row(struct fleet_service *service, struct pack *pack,
                      const struct fleet_row *row);

/* -- service_metrics.c -- */
extern const char *const service_ack_names[ACK_OUTCOMES];
/* With a registry only. What metrics_add and metrics_on_write answer; to be closed all the same. */
enum err service_metrics_open(struct fleet_service *service, struct note *note);
void service_metrics_close(struct fleet_service *service);

int64_t service_wall_ns(const struct fleet_service *service);
#endif
