/* SPDX-License-Identifier: Apache-2.0 */
/* The internals of the core, shared by the files of this directory only.
 *
 *   core.c          open, close, log lines
 *   move.c          the only place that changes a machine; notifies the machine's operator
 *   reconcile.c     the content of a List        clients.c   clusters: sessions and bounds
 *   demand.c        roll-ups                     capacity.c  hints about available capacity
 *   scope.c         the machines of this shard   view.c      views for people and the coordinator
 *   decide_cycle.c  decide, limits, queue        queue.c     waiting actions; why none may begin
 *   actions.c       answers to calls             work.c      machines to check again
 *   pools.c, availability.c  pools without stock concurrency.c  limit of calls
 *   cordon.c        machines out of use          machine_list.c  the list for people
 *
 * Every public event begins with core_begin(). The fields scratch, now, wall and out of struct core
 * are valid only until the event ends. */
#ifndef SHARD_CORE_CORE_INTERNAL_H
#define SHARD_CORE_CORE_INTERNAL_H
#include "shard/core/availability.h"
#include "shard/core/clients.h"
#include "shard/core/concurrency.h"
#include "shard/core/tally.h"
#include "shard/decide/parking.h"

struct running_actions;
struct machine_task;

struct listing { /* about the current or the last List */
    enum list_kind kind;
    uint32_t number; /* number of the List in the inventory */
    bool listed;     /* at least one List was complete since the start */
    bool empty;      /* the last full List was empty, and the shard knows no machine */
    bool failed;     /* a record could not be stored (memory or limits) */
    bool owed;       /* a full List was wanted when this List began */
    bool settles;    /* when this List began, no call of an earlier process could still run */
    uint32_t records, refused, surprises;
    uint32_t nameless;
    uint32_t untaken;           /* refused records that a delta List will not repeat */
    uint32_t spoilt, full_in;   /* spoilt: full Lists in a row with refused records; full_in: Lists
                                   until the next full List */
    uint32_t holds, first_held; /* held full Lists in a row; number of the first held List */
    size_t left_out;            /* number of machines that all held Lists lacked */
};
struct scope { /* state of scope.c */
    struct arena arena;
    bool given;                  /* false: no domain was assigned; every machine belongs here */
    const struct label *domains; /* sorted; if `given` and empty: no machine belongs here */
    const struct str *keys;      /* the distinct keys of `domains` */
    size_t count, key_count;
    struct map outside; /* ids of known machines outside the domains */
    bool incomplete;    /* memory ran out, so ids may be missing in `outside` */
};

struct cordons { /* state of cordon.c */
    struct arena arena;
    const struct cordon_rule *rules; /* sorted by key, then value */
    const struct str *keys;          /* the distinct keys of `rules`, without the empty one */
    size_t count, key_count;
    bool ids;     /* a rule names a machine, or did before the last change */
    bool empties; /* a rule empties machines */
    bool owed;    /* memory ran out, so machines may differ from the rules */
};

/* A copy of the last cycle's results for readers. Verdicts point into the needs table, which keeps
 * its Needs until the next cycle (needs_keep). */
struct views {
    struct arena arena;
    struct need_verdict *rows; /* in the order of the Needs */
    size_t count;
    uint32_t by_bucket[PENALTY_BUCKET_COUNT]; /* rows by interruption bucket */
    uint64_t cycle;
    wall_time at;
};

struct core {
    struct core_options options; /* with the defaults in place of 0 */
    struct dimensions dimensions;
    struct inventory *inventory;
    struct needs *needs;
    struct decider *decider;
    struct parking *parking;
    struct ledger *ledger;
    struct core_counts counts;
    struct arena scratch; /* temporary data of one event */
    mono_time now;
    wall_time wall;
    struct effects *out; /* the event's effects are appended here */
    size_t out_first;    /* index of the event's first effect */
    struct clients clients;
    struct tally tally;
    struct listing listing;
    struct scope scope;
    struct cordons cordons;
    struct views views;
    bool full_list_wanted;
    bool fenced; /* by core_hold(CORE_FENCED); the kill switch is options.paused */
    uint32_t capacity_round;
    size_t capacity_from; /* map cursor: the next client to send hints to */
    uint32_t status_round;
    size_t status_from; /* the next verdict whose status is sent */
    struct running_actions *running;
    struct availability availability;
    struct concurrency concurrency;
};

/* Begins an event: empties scratch. An event that can start actions must use core_begin_at(). */
void core_begin(struct core *core, mono_time now, struct effects *out);
void core_begin_at(struct core *core, mono_time now, wall_time wall, struct effects *out);
void core_end(const struct core *core); /* asserts the invariants */

/* -- whether an action may begin: queue.c -- */
bool core_acts(const struct core *core);
const char *core_hold_text(const struct core *core); /* "" if actions may begin */

/* -- capacity pools without stock: pools.c -- */
/* False: the machine's pool is sold out, so that it must not be bought now. */
bool pools_let_buy(const struct core *core, struct str machine);
void pools_task_opened(struct core *core, const struct machine_task *task);
void pools_task_closed(struct core *core, const struct machine_task *task);
/* Call when a Create was refused. True: the cause is lack of stock, so the machine itself is
 * sound. */
bool pools_refused(struct core *core, const struct machine_task *task,
                   const struct call_answer *answer);
void pools_accepted(struct core *core, const struct machine_task *task); /* a Create */
bool answer_is_throttling(const struct call_answer *answer);
/* The input of the next decision, in scratch. If memory runs out, no pool is sold out. */
const struct capacity_pool *pools_sold_out(struct core *core, size_t *ret_count);
/* Makes Needs unsatisfied if their machines are of a sold-out pool and not accepted yet. Returns
 * the decision, or a copy in scratch. */
const struct decision *pools_amend(struct core *core, const struct decision *decision);
/* Time until a machine of the sold-out pool is tried; 0: now. */
uint64_t pools_next_try(const struct core *core, const struct capacity_pool *pool);

/* -- logging: core.c -- */
/* If memory runs out, the line is dropped. */
void core_log(const struct core *core, enum core_level level, const char *text, const char *format,
              ...) __attribute__((format(printf, 4, 5)));

/* -- machines: move.c. Only move.c calls inventory_insert, _apply and _remove -- */
/* The record's arrays are in core->scratch; its texts are borrowed until the next change.
 * ERR_NOT_FOUND, ERR_NOMEM. */
enum err core_get(struct core *core, struct str id, struct inventory_entry *ret_entry);
/* Replaces a machine's record by `to`, and notifies the operator of its cluster, or of its previous
 * cluster if the change cleared the cluster. All or nothing. Errors as inventory_apply(). */
enum err core_move(struct core *core, const struct machine *to, enum inventory_source source,
                   enum machine_edge *ret_edge, struct note *note);

/* Adds an unknown machine. ERR_EXISTS, ERR_FULL, ERR_INVALID, ERR_NOMEM. */
enum err core_admit(struct core *core, const struct machine *machine, struct note *note);
/* Removes a machine. The operator of its cluster is sent FAILED with `why`. ERR_NOT_FOUND,
 * ERR_NOMEM. */
enum err core_drop(struct core *core, struct str id, const char *why);
/* Sends NODE_STATE, if the cluster has a session. ERR_NOMEM. */
enum err core_send_state(struct core *core, struct str cluster, const struct machine *machine);

/* -- clusters: clients.c -- */
bool core_has_session(const struct core *core, struct str cluster);

/* -- running actions: queue.c, work.c -- */
enum err running_open(struct core *core); /* opened last, closed first */
void running_close(struct core *core);
/* True if an action of this machine is queued or under way, or ended during the current List. The
 * List's record may then be older than the shard's state. */
bool core_is_pending(const struct core *core, struct str machine);
/* Ends a drain's wait for its operator if the provider's record shows that the machine changed.
 * Returns true if the wait ended: the machine is then not pending. `said` NULL: the provider does
 * not know the machine. */
bool running_overtaken(struct core *core, struct str machine, const struct machine *said);
/* True if the machine's drain waits for its operator. */
bool running_waits_for_operator(const struct core *core, struct str machine);
/* Call when a List has a record of a pending machine. The machine is queried by Get later, because
 * a delta does not repeat the record. */
void running_listed(struct core *core, struct str machine, enum machine_state said);
/* True if the machine is in back-off after a refusal. A record must not make it available
 * earlier. */
bool core_rests(const struct core *core, struct str machine);
/* True if `said` is the machine's state before an unanswered call that may still be executed. The
 * record then proves nothing. */
bool running_call_may_run(const struct core *core, struct str machine, enum machine_state said);
/* move.c calls the next four functions when a machine appeared (`from` MACHINE_UNSPECIFIED),
 * changed its state by a provider's record, or was removed. */
/* Call before the change. Reserves the memory for checking the machine later. ERR_NOMEM. */
enum err running_reserve(struct core *core, const struct machine *machine);
/* undoes the reservation after a failed change */
void running_unreserve(struct core *core, struct str machine);
void running_changed(struct core *core, const struct machine *machine, enum machine_state from);
void running_gone(struct core *core, struct str machine);
void running_list_begin(struct core *core, enum list_kind kind);
void running_list_end(struct core *core);

/* True if the shard knows too few of its machines for a decision. */
bool reconcile_is_blind(const struct core *core);
/* -- answers of Get: reconcile.c -- */
/* Applies the answer of a Get like a List record. ERR_INVALID: the record is refused and the old
 * record stays. ERR_NOMEM. */
enum err reconcile_got(struct core *core, const struct call_answer *answer);
/* Removes a machine that the provider no longer knows. */
void reconcile_gone(struct core *core, struct str machine);

/* -- which machines belong to this shard: scope.c -- */
#define SCOPE_BYTES_MAX ((size_t)64 << 20)
void scope_init(struct scope *scope, uint64_t seed);
void scope_deinit(struct scope *scope);
bool scope_has(const struct core *core, const struct attributes *attributes);
/* Call when the attributes of a known machine may have changed. */
void scope_note(struct core *core, struct str id, bool inside);

/* -- machines out of use: cordon.c -- */
enum err cordons_init(struct core *core, const struct cordon_rule *rules, size_t count);
void cordons_deinit(struct cordons *cordons);
enum machine_cordon cordon_of(const struct core *core, struct str id,
                              const struct attributes *attributes);
/* Before the decision: begins drains of machines that must be emptied. */
void cordons_run(struct core *core);

/* -- parts of the cycle, called by decide_cycle.c in this order -- */
/* Before the decision: removes free machines outside the shard's domains. */
void scope_sweep(struct core *core);
/* After the decision: stores the data for InspectNeeds. Call after parking_note() and
 * ledger_note(), because the view contains their ages. ERR_NOMEM: the previous view stays. */
enum err view_note(struct core *core, const struct decision *decision);
void views_deinit(struct views *views);
void capacity_note(struct core *core, const struct decision *decision);
void need_status_note(struct core *core, const struct decision *decision);
void gauges_note(struct core *core);
void attribution_note(struct core *core, const struct decision *decision);
void clients_sweep(struct core *core);
#endif
