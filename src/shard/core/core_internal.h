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
 *
 * core->scratch holds temporary data of one event. Every public event begins with core_begin(), so
 * nothing in core->scratch outlives the event. The core also stores the time and the effects of the
 * event, so that functions need not pass them on. */
#ifndef SHARD_CORE_CORE_INTERNAL_H
#define SHARD_CORE_CORE_INTERNAL_H
#include "shard/core/clients.h"
#include "shard/core/tally.h"
#include "shard/decide/parking.h"

struct running_actions; /* queued and running actions, machines in back-off */

struct listing { /* about the List being read, or else about the last List */
    enum list_kind kind;
    uint32_t number; /* the inventory's number for this List */
    bool listed;     /* since the start, at least one List was complete */
    bool empty;      /* the last complete full List was empty, and the shard knows no machine */
    bool failed;     /* a record of this List could not be stored, for lack of memory or room */
    bool owed;       /* a full List was wanted when this List began */
    bool settles;    /* this List began when no call of an earlier process could still be running */
    uint32_t records, refused, surprises;
    uint32_t nameless;          /* records without a machine id */
    uint32_t untaken;           /* refused records that a delta List will not repeat */
    uint32_t spoilt, full_in;   /* spoilt: full Lists in a row with refused records; full_in: Lists
                                 * until the next full List */
    uint32_t holds, first_held; /* holds: full Lists in a row that left out too many machines;
                                 * first_held: number of the first of these Lists */
    size_t left_out;            /* number of machines that are missing from every held List */
};
struct scope { /* state of scope.c */
    struct arena arena;
    bool given;                  /* false: no domain was assigned; every machine is the shard's */
    const struct label *domains; /* sorted; if `given` and empty, the shard has no machine */
    const struct str *keys;      /* the distinct keys; often one key for thousands of domains */
    size_t count, key_count;
    struct map outside; /* ids of known machines outside the domains */
    bool incomplete;    /* an id is missing from `outside`, because memory ran out */
};

/* A copy of the last cycle's results for readers. Verdicts point into the needs table, which keeps
 * its Needs until the next cycle (needs_keep). Only data made by the decision engine is copied. */
struct views {
    struct arena arena;
    struct need_verdict *rows; /* in the order of the Needs */
    size_t count;
    uint32_t by_bucket[PENALTY_BUCKET_COUNT]; /* rows by interruption bucket */
    uint64_t cycle;
    wall_time at;
};

struct core {
    struct core_options options; /* each 0 that selects a default was replaced by the default */
    struct dimensions dimensions;
    struct inventory *inventory;
    struct needs *needs;
    struct decider *decider;
    struct parking *parking;
    struct ledger *ledger;
    struct core_counts counts;
    struct arena scratch; /* temporary data of one event; `now`, `wall`, `out`: of one event, too */
    mono_time now;
    wall_time wall;
    struct effects *out; /* list to which the event's effects are added */
    size_t out_first;    /* index of the event's first effect */
    struct clients clients;
    struct tally tally;
    struct listing listing;
    struct scope scope;
    struct views views;
    bool full_list_wanted;
    bool fenced; /* set by core_hold(CORE_FENCED); the kill switch is options.paused */
    uint32_t capacity_round;
    size_t capacity_from; /* map cursor: the next client whose hints are sent */
    struct running_actions *running;
};

/* Begins an event: empties scratch and sets `now`, `wall` and `out`. An event that can start
 * actions must have a wall time (core_begin_at). */
void core_begin(struct core *core, mono_time now, struct effects *out);
void core_begin_at(struct core *core, mono_time now, wall_time wall, struct effects *out);
void core_end(const struct core *core); /* asserts the invariants, including those of the effects */

/* -- whether an action may begin: queue.c -- */
bool core_acts(const struct core *core);
const char *core_hold_text(const struct core *core); /* why no action may begin; "" if allowed */

/* -- logging: core.c -- */
/* Adds a log line. Without memory the line is dropped, because no decision depends on log lines. */
void core_log(const struct core *core, enum core_level level, const char *text, const char *format,
              ...) __attribute__((format(printf, 4, 5)));

/* -- machines: move.c. Only move.c calls inventory_insert, _apply and _remove -- */
/* Returns the machine's current record. Its arrays are in core->scratch; its texts are borrowed
 * until the next change. ERR_NOT_FOUND, ERR_NOMEM. */
enum err core_get(struct core *core, struct str id, struct inventory_entry *ret_entry);
/* Changes a known machine to `to` (a modified copy of the record from core_get()) and notifies the
 * operator of its cluster. If the change cleared the cluster, the operator of the previous cluster
 * is notified. All or nothing. A machine that reaches Configured ends the wait of the Need it was
 * bought for (provisioning latency). Errors as inventory_apply(). */
enum err core_move(struct core *core, const struct machine *to, enum inventory_source source,
                   enum machine_edge *ret_edge, struct note *note);

/* Adds an unknown machine. ERR_EXISTS, ERR_FULL, ERR_INVALID, ERR_NOMEM. */
enum err core_admit(struct core *core, const struct machine *machine, struct note *note);
/* Removes a machine. An operator that waits for the machine is sent FAILED with `why`.
 * ERR_NOT_FOUND, ERR_NOMEM. */
enum err core_drop(struct core *core, struct str id, const char *why);
/* Sends NODE_STATE to the operator of `cluster`, if it has a session. ERR_NOMEM. */
enum err core_send_state(struct core *core, struct str cluster, const struct machine *machine);

/* -- clusters: clients.c -- */
bool core_has_session(const struct core *core, struct str cluster);

/* -- running actions: queue.c, work.c -- */
enum err running_open(struct core *core); /* opened last, closed first */
void running_close(struct core *core);
/* Returns true if an action of this machine is queued or under way, or ended while the current List
 * was being read, because the List's record may then be older than the shard's state. */
bool core_is_pending(const struct core *core, struct str machine);
/* Checks a provider's record of a machine whose drain waits for its operator. The provider was not
 * called yet, so the record is reliable. `said` NULL: the provider does not know the machine. If
 * the machine has changed, ends the wait and returns true: the machine is not pending any more. */
bool running_overtaken(struct core *core, struct str machine, const struct machine *said);
/* True if running_overtaken() would return true for a machine unknown to the provider. */
bool running_waits_for_operator(const struct core *core, struct str machine);
/* Call when a delta lists the machine, because later deltas do not repeat the record. A pending
 * machine is queried by Get later, and the answer of a Get under way counts as possibly older. Also
 * call when a full List contains a pending machine, because a delta may follow. */
void running_listed(struct core *core, struct str machine, enum machine_state said);
/* True if an action of the machine was refused and its back-off has not ended. Until then a record
 * that would make the machine available is not accepted. */
bool core_rests(const struct core *core, struct str machine);
/* Returns true if the state `said` in a record proves nothing, because it is the machine's state
 * before an unanswered call that may still be executed. */
bool running_call_may_run(const struct core *core, struct str machine, enum machine_state said);
/* move.c calls the next four functions when a machine appeared (`from` MACHINE_UNSPECIFIED),
 * changed its state by a provider's record, or was removed. The functions ensure that the shard
 * later checks every machine in a passing state or Failed. */
/* call before the change; ERR_NOMEM */
enum err running_reserve(struct core *core, const struct machine *machine);
/* undoes the reservation, because the change failed */
void running_unreserve(struct core *core, struct str machine);
void running_changed(struct core *core, const struct machine *machine, enum machine_state from);
void running_gone(struct core *core, struct str machine);
/* called when a List begins, and when it was read */
void running_list_begin(struct core *core, enum list_kind kind);
void running_list_end(struct core *core);

/* Returns true if the shard knows none or only a part of its machines, too few for a decision. */
bool reconcile_is_blind(const struct core *core);
/* -- answers of Get: reconcile.c -- */
/* Applies the answer of a Get like a List record, even during a back-off. ERR_INVALID: the record
 * is refused, counted and logged, and the old record stays. ERR_NOMEM. */
enum err reconcile_got(struct core *core, const struct call_answer *answer);
/* Removes a machine that the provider does not know any more. */
void reconcile_gone(struct core *core, struct str machine);

/* -- which machines belong to this shard: scope.c -- */
#define SCOPE_BYTES_MAX ((size_t)64 << 20)
void scope_init(struct scope *scope, uint64_t seed);
void scope_deinit(struct scope *scope);
bool scope_has(const struct core *core, const struct attributes *attributes);
/* Call when a known machine may have new attributes. */
void scope_note(struct core *core, struct str id, bool inside);

/* -- parts of the cycle, called by decide_cycle.c in this order -- */
/* Before the decision: removes free machines outside the shard's domains. */
void scope_sweep(struct core *core);
/* After the decision: stores the data for InspectNeeds. Call after parking_note() and
 * ledger_note(), because the view contains their ages. ERR_NOMEM: the previous view stays. */
enum err view_note(struct core *core, const struct decision *decision);
void views_deinit(struct views *views);
/* Sends capacity hints to every cluster with a session. */
void capacity_note(struct core *core, const struct decision *decision);
/* Updates the gauges of core_counts. */
void gauges_note(struct core *core);
/* Logs the decision's attribution (--phase-attribution-log). No cost if the option is off. */
void attribution_note(struct core *core, const struct decision *decision);
/* Removes clusters that had no session, demand or machines for an hour. */
void clients_sweep(struct core *core);
#endif
