/* The service's parts and who calls whom.
 *
 *     call -> service_request.c (leader? -> method's own checks -> wait until ready)
 *          -> replica_read -> method's `read`, or method's `command` -> replica_propose -> `done`
 *     applied entries -> service_follow.c (audit, soft state, instructions), on every replica
 *     replica's changes -> service.c (terms, events, gauges)
 *
 * A request lives from its call's message to its answer. If the caller goes away, a read is
 * forgotten and a write goes on without anybody to tell. */
#ifndef FLEET_SERVICE_INTERNAL_H
#define FLEET_SERVICE_INTERNAL_H
#include "base/map.h"
#include "fleet/desk.h"
#include "fleet/seed.h"
#include "fleet/service.h"
#include "rpc/client.h"
#include "rpc/forward.h"
#include "wire/pack.h"
#include "wire/pb/bigfleet_v1alpha1_coordinator.pb-c.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"

struct request;
struct service_method {
    const char *path, *name; /* name: in texts and stages */
    const ProtobufCMessageDescriptor *input, *output;
    size_t request_max, response_max; /* 0: the server's */
    /* Arguments, and identity where it depends on them. Answers and returns false. May be NULL. */
    bool (*admit)(struct request *request);
    /* Reads and soft state: runs once leadership is proved, and answers. */
    void (*read)(struct request *request);
    /* Writes: from the message; its memory is the call's arena. ERR_NOMEM. */
    enum err (*command)(struct request *request, struct fleet_command *ret_command);
    /* Writes: what the tables said. Answers. NULL: service_answer_write. */
    void (*done)(struct request *request, const struct fleet_result *result);
};
extern const struct service_method service_admin_methods[], service_read_methods[],
    service_report_methods[], service_instruct_methods[]; /* each ends with a NULL path */

enum { SERVICE_METHODS_MAX = 32, SEED_BATCH = 64 };
struct service_binding { /* what the server hands to our handler */
    struct fleet_service *service;
    const struct service_method *method;
};

enum request_step { REQUEST_WAITS, REQUEST_READS, REQUEST_WRITES, REQUEST_LISTS };
struct request {
    struct list link; /* service.requests by age; detached once abandoned; or a lister's */
    struct fleet_service *service;
    const struct service_method *method;
    struct rpc_call *call; /* NULL: nobody waits any more */
    const ProtobufCMessage *message;
    enum request_step step;
    bool answering; /* of a long list: it has got a part of its answer */
    bool acted;     /* something was done: no answer may say that nothing was */
    mono_time since;
    struct read_ticket ticket;
    struct proposal proposal;
};

enum ack_outcome { /* the contract's numbers, then ours */
                   ACK_NUMBERS = 5,
                   ACK_OTHER = ACK_NUMBERS, /* a number the contract does not have */
                   ACK_UNKNOWN,             /* of an instruction that is not waiting */
                   ACK_OUTCOMES
};
enum report_result { REPORT_TAKEN, REPORT_LATE, REPORT_REFUSED, REPORT_RESULTS };
enum drop_reason { DROP_FULL, DROP_SHARD, DROP_TERM, DROP_REASONS };
enum apply_outcome { APPLY_SUCCESS, APPLY_ERROR, APPLY_FSM_ERROR, APPLY_OUTCOMES };
struct service_metrics { /* all NULL without a registry */
    struct gauge *term, *is_leader, *shards_silent, *soft_bytes, *requests;
    struct gauge *rows[FLEET_TABLES];
    struct counter *apply[APPLY_OUTCOMES], *reports[REPORT_RESULTS], *acks[ACK_OUTCOMES],
        *dropped[DROP_REASONS], *queued;
    struct metric_family *pending;
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

struct fleet_service {
    struct io *io;
    struct log_source log;
    struct fleet_journal *journal;
    const char *(*leader_address)(void *owner);
    void *owner;
    struct fleet_service_limits limits;
    struct fleet_machine *machine;
    struct fleet *fleet;     /* the machine's */
    struct replica *replica; /* NULL before it is attached */
    struct desk *desk;
    struct service_metrics metrics;
    struct service_binding bindings[SERVICE_METHODS_MAX];
    size_t binding_count;
    /* what the replica said last */
    bool led;   /* leader: the desk is of its term */
    bool ready; /* and may be asked */
    uint64_t term, leader_id;
    struct replica_member members[REPLICA_MEMBERS_MAX];
    size_t member_count;
    struct list requests;
    uint32_t request_count;
    struct service_lister domains, clusters;
    struct timer overdue, tick;
    struct buf answer, row, command; /* scratch of one call */
    /* the rows of --bootstrap-state that a leader still has to propose */
    const struct fleet_seed *seed;
    size_t seed_next, seed_running;
    bool seed_failed;
    struct seed_proposal {
        struct fleet_service *service;
        struct proposal proposal;
    } seed_proposals[SEED_BATCH];
};

/* -- service_request.c -- */
extern const struct rpc_handler service_handler;
void service_requests_resume(struct fleet_service *service); /* those that wait: ready, or lost */
void service_request_overdue(struct timer *timer);
/* Still the leader of the term the desk is of; to be asked once leadership is proved. */
bool service_leads(const struct fleet_service *service);
void service_write(struct request *request); /* proposes the method's command */
void service_answer_write(struct request *request, const struct fleet_result *result);
/* Each answers, once, and the request is gone. */
void service_reply(struct request *request, struct str message);
void service_fail(struct request *request, enum grpc_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Nothing was done, and the caller may try again: x-muster-applied says so. Of a request that has
 * acted the answer is UNAVAILABLE without it: it may or may not have been applied. */
void service_refuse(struct request *request, enum grpc_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void service_reply_packed(struct request *request, const struct pack *pack);
void service_replied(struct request *request); /* the call has its answer already */

/* -- service_follow.c -- */
void service_applied(void *owner, const struct machine_entry *entry,
                     const struct fleet_command *command, const struct fleet_result *result);
void service_restored(void *owner);
void service_begin_term(struct fleet_service *service, uint64_t term);
void service_end_term(struct fleet_service *service);
void service_look_for_silence(struct fleet_service *service);

/* -- service_seed.c -- */
void service_seed_begin(struct fleet_service *service);

/* -- service_instruct.c -- */
#define INSTRUCTION_ID_CAP 17
/* Term, sequence and, if it has none, an id of 16 hexadecimal digits, which then stands in `id`. */
void service_stamp(struct fleet_service *service,
                   Bigfleet__V1alpha1__CoordinatorInstruction *instruction,
                   char id[INSTRUCTION_ID_CAP]);
/* A stamped one. Errors as desk_queue. */
enum err service_queue(struct fleet_service *service, struct str shard, struct str topic,
                       const Bigfleet__V1alpha1__CoordinatorInstruction *instruction);
/* Word of an assignment to its owner; a word that finds no room is dropped and counted: the tables
 * hold what is true. */
void service_tell_owner(struct fleet_service *service, const struct fleet_domain *domain,
                        bool assigned);

/* -- service_list.c -- */
/* The original sends and takes 256 MiB; a million domains are about 60 MB. */
enum { SERVICE_ANSWER_MAX = 256 << 20 };
enum err service_lister_init(struct service_lister *lister, struct fleet_service *service,
                             enum fleet_table table);      /* ERR_FULL (timers), ERR_NOMEM */
void service_lister_deinit(struct service_lister *lister); /* fine on a zeroed one */
void service_list_later(struct request *request, struct service_lister *lister);

/* -- service_metrics.c -- */
enum err service_metrics_open(struct service_metrics *ret_metrics, struct metrics *metrics,
                              struct note *note);
void service_count(struct counter *counter);
void service_count_many(struct counter *counter, uint64_t n);
void service_gauge(struct gauge *gauge, double value);
void service_pending_gauge(struct fleet_service *service, struct str shard);
/* All of them anew, so that a shard that is gone keeps no number. */
void service_pending_gauges(struct fleet_service *service);
void service_gauges(struct fleet_service *service);

int64_t service_wall_ns(const struct fleet_service *service);
#endif
