/* SPDX-License-Identifier: Apache-2.0 */
/* The core from the inside, shared by the files of this folder and by nobody else.
 *
 *   core.c          open, close, what every file says to people
 *   move.c          the only place that changes a machine; its operator hears of it
 *   reconcile.c     what a List says             clients.c   clusters: sessions and bounds
 *   demand.c        roll-ups                     capacity.c  hints of what could be had
 *   scope.c         which machines are ours      view.c      what people and the coordinator read
 *   decide_cycle.c  decide, rails, queue         queue.c     actions waiting, and why none begins
 *   actions.c       what answers make of them    work.c      machines to come back to
 *
 * core->scratch holds what one event needs: every public event begins with core_begin(), so nothing
 * in it outlives the event. The time and the effects of the event are in the core, too, so that no
 * function passes them on. */
#ifndef SHARD_CORE_CORE_INTERNAL_H
#define SHARD_CORE_CORE_INTERNAL_H
#include "shard/core/clients.h"
#include "shard/core/tally.h"
#include "shard/decide/parking.h"

struct running_actions; /* queue, pending ledger, rests: the half that acts */

struct listing { /* the List that is read, or the last one */
    enum list_kind kind;
    uint32_t number; /* the inventory's */
    bool listed;     /* one was whole */
    bool empty;      /* the last full one that was whole named no machine, and we know none */
    bool failed;     /* one of its records found no room */
    bool owed;       /* a full one was wanted when it began */
    bool settles;    /* it began when no call of an earlier process was under way any more */
    uint32_t records, refused, surprises;
    uint32_t nameless;          /* records without a machine id */
    uint32_t untaken;           /* records that were refused: a delta will not say them again */
    uint32_t spoilt, full_in;   /* full Lists in a row with such; Lists until the next full one */
    uint32_t holds, first_held; /* full Lists in a row that left out too many; the first's number */
    size_t left_out;            /* machines that none of these named, when the last was held */
};
struct scope { /* scope.c */
    struct arena arena;
    bool given;                  /* false: no domain ever was, and everything is ours */
    const struct label *domains; /* by key, then value; given, and none: nothing is ours */
    const struct str *keys;      /* of them, each once; often one for thousands of domains */
    size_t count, key_count;
    struct map outside; /* ids of known machines that are not ours */
    bool incomplete;    /* memory was lacking for one */
};

/* The last cycle as people read it: verdicts point into the needs table, which keeps that until the
 * next cycle (needs_keep); only what the engine made is copied. */
struct views {
    struct arena arena;
    struct need_verdict *rows; /* in the order of Needs */
    size_t count;
    uint32_t by_bucket[PENALTY_BUCKET_COUNT]; /* rows by interruption bucket */
    uint64_t cycle;
    wall_time at;
};

struct core {
    struct core_options options; /* with the defaults filled in: no 0 that means something else */
    struct dimensions dimensions;
    struct inventory *inventory;
    struct needs *needs;
    struct decider *decider;
    struct parking *parking;
    struct ledger *ledger;
    struct core_counts counts;
    struct arena scratch; /* of one event, as the next three */
    mono_time now;
    wall_time wall;
    struct effects *out; /* where its effects go */
    size_t out_first;    /* the first of them */
    struct clients clients;
    struct tally tally;
    struct listing listing;
    struct scope scope;
    struct views views;
    bool full_list_wanted;
    bool fenced; /* core_hold(); the kill switch is options.paused */
    uint32_t capacity_round;
    size_t capacity_from; /* cursor of the client whose hints are next */
    struct running_actions *running;
};

/* Begins an event: scratch is empty, `now`, `wall` and `out` are the event's. An event that can
 * start actions has a wall time. */
void core_begin(struct core *core, mono_time now, struct effects *out);
void core_begin_at(struct core *core, mono_time now, wall_time wall, struct effects *out);
void core_end(const struct core *core); /* asserts the invariants, those of the effects too */

/* -- may anything be begun: queue.c -- */
bool core_acts(const struct core *core);
const char *core_hold_text(const struct core *core); /* why not; "" when it acts */

/* -- to people: core.c -- */
/* A line of the log. One that finds no memory is not said: nothing is decided by it. */
void core_log(const struct core *core, enum core_level level, const char *text, const char *format,
              ...) __attribute__((format(printf, 4, 5)));

/* -- machines: move.c. Nobody else calls inventory_insert, _apply and _remove -- */
/* The live record; its arrays are in core->scratch, its texts are borrowed until the next change.
 * ERR_NOT_FOUND, ERR_NOMEM. */
enum err core_get(struct core *core, struct str id, struct inventory_entry *ret_entry);
/* A known machine becomes `to` (a changed copy of what core_get() gave), and the operator of its
 * cluster hears of it, or, when the change cleared the cluster, the operator of the one it had. All
 * or nothing. A machine that reaches Configured ends the wait of the Need it was bought for
 * (provisioning latency). Errors as of inventory_apply(). */
enum err core_move(struct core *core, const struct machine *to, enum inventory_source source,
                   enum machine_edge *ret_edge, struct note *note);

/* One that was not known appears. ERR_EXISTS, ERR_FULL, ERR_INVALID, ERR_NOMEM. */
enum err core_admit(struct core *core, const struct machine *machine, struct note *note);
/* It goes. An operator that waits for it hears FAILED and `why`. ERR_NOT_FOUND, ERR_NOMEM. */
enum err core_drop(struct core *core, struct str id, const char *why);
/* NODE_STATE to the operator of `cluster`, if there is one. ERR_NOMEM. */
enum err core_send_state(struct core *core, struct str cluster, const struct machine *machine);

/* -- clusters: clients.c -- */
bool core_has_session(const struct core *core, struct str cluster);

/* -- the actions that run: queue.c, work.c -- */
enum err running_open(struct core *core); /* the last part to open, the first to close */
void running_close(struct core *core);
/* An action of this machine is queued or under way, or ended while the List was that is read now,
 * so that its record may be older than what we know. */
bool core_is_pending(const struct core *core, struct str machine);
/* The only action of the machine waits for its operator: the provider was not asked anything yet,
 * so what it says of the machine is believed. `said` NULL: the provider does not know the machine.
 * True: the wait is over, and the machine is not pending for this record any more. */
bool running_overtaken(struct core *core, struct str machine, const struct machine *said);
/* Would running_overtaken() say yes to a machine that the provider does not know? */
bool running_waits_for_operator(const struct core *core, struct str machine);
/* A delta names this machine, and will not say it again: of a pending one it is asked for later,
 * and a Get that is under way may be older. Also when a full List names a pending one, because a
 * delta may follow it. */
void running_listed(struct core *core, struct str machine, enum machine_state said);
/* An action of it was refused and it is not yet time to try again: what makes it available again is
 * not believed until then. */
bool core_rests(const struct core *core, struct str machine);
/* A call of the machine was not answered and may still be carried out; `said` is what the machine
 * was before the call, so nothing is known by it. */
bool running_call_may_run(const struct core *core, struct str machine, enum machine_state said);
/* move.c: a machine appeared (`from` MACHINE_UNSPECIFIED), changed its state by the provider's
 * word, or went. So that no machine stays in a passing state or Failed without somebody coming
 * back. */
enum err running_reserve(struct core *core, const struct machine *machine); /* before; ERR_NOMEM */
void running_unreserve(struct core *core, struct str machine);              /* it did not happen */
void running_changed(struct core *core, const struct machine *machine, enum machine_state from);
void running_gone(struct core *core, struct str machine);
void running_list_begin(struct core *core, enum list_kind kind); /* a List is read, and was read */
void running_list_end(struct core *core);

/* What is known is nothing, or a part of it: not enough to decide over. */
bool reconcile_is_blind(const struct core *core);
/* -- what the half that acts asks of reconcile.c: an answer of Get, believed as a List's record is,
 * resting or not. ERR_INVALID: refused, counted and logged; the old record stays. ERR_NOMEM -- */
enum err reconcile_got(struct core *core, const struct call_answer *answer);
/* The provider does not know it any more. */
void reconcile_gone(struct core *core, struct str machine);

/* -- which machines are ours: scope.c -- */
#define SCOPE_BYTES_MAX ((size_t)64 << 20)
void scope_init(struct scope *scope, uint64_t seed);
void scope_deinit(struct scope *scope);
bool scope_has(const struct core *core, const struct attributes *attributes);
/* A known machine may have new attributes. */
void scope_note(struct core *core, struct str id, bool inside);

/* -- parts of the cycle that decide_cycle.c calls, in this order -- */
/* Before the decision: machines that are not ours and are free now go. */
void scope_sweep(struct core *core);
/* After it: what InspectNeeds answers. Call after parking_note() and ledger_note(), whose ages it
 * shows. ERR_NOMEM: the last views stay. */
enum err view_note(struct core *core, const struct decision *decision);
void views_deinit(struct views *views);
/* Hints to every cluster with a session. */
void capacity_note(struct core *core, const struct decision *decision);
/* The gauges of core_counts. */
void gauges_note(struct core *core);
/* --phase-attribution-log: what is logged about the decision; free when the option is off. */
void attribution_note(struct core *core, const struct decision *decision);
/* Departed clusters are forgotten in time. */
void clients_sweep(struct core *core);
#endif
