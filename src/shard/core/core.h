/* SPDX-License-Identifier: Apache-2.0 */
/* The shard as a state machine: (state, event, time) in, effects out. The core has no clock, no I/O
 * and no thread. The driver passes one event at a time to the core on the decide thread, and
 * executes the effects on the loop.
 *
 *   provider  List records, tombstones, the end of a List     core_list_*
 *             result of an action's call, result of a Get      core_answered, core_got
 *   operator  a session began or ended, a roll-up, a blob      core_session, core_rollup, core_blob
 *             progress of a drain                              core_drain_report
 *   time      the cycle                                        core_cycle
 *   above     the domains of this shard                        core_scope
 *
 * Rules (transitional states: Creating, Configuring, Draining, Deleting):
 * - One action per machine. A machine is *pending* from the moment its action is queued until the
 *   action ends. List records of a pending machine are ignored.
 * - The outcome of a call without an answer is unknown. The machine keeps its transitional state,
 *   and the shard sends a Get and accepts the state that the Get returns.
 * - A machine whose List record was ignored is queried by Get. No action begins on the machine
 *   until the provider has answered.
 * - The next decision treats a queued action as begun (inventory_plan).
 * - The core does not retry. The next cycle decides dropped actions again.
 * - After a refused action the machine is in back-off (`rest_*`). A machine that the provider
 *   reports as Failed is deleted, with growing pauses between the tries.
 *
 * Invariants, asserted in core.c:
 *   I1 A machine has at most one action, and the action has the machine's work record.
 *   I2 At most `concurrency` actions are under way and at most `blobs_max` wait for a blob.
 *   I3 The queue is empty exactly while no action is counted as queued.
 *   I4 No call of an action is sent while the core is held, in shadow mode or not settled.
 *   I5 A call belongs to the only action of its machine, in the step that waits for its answer.
 *   I6 Every effect is complete (effect_check).
 *   I7 The time of events never goes back.
 *
 * The core stays consistent after any ERR_NOMEM: either the event had no effect, or a later cycle
 * does the missing work. */
#ifndef SHARD_CORE_CORE_H
#define SHARD_CORE_CORE_H
#include "model/need.h"
#include "model/penalty.h"
#include "shard/core/effects.h"
#include "shard/decide/ledger.h"
#include "shard/decide/rails.h"

struct core; /* opaque, one owner */

struct core_options {
    uint32_t machines_max, rows_max; /* 0: INVENTORY_MACHINES_MOST, NEEDS_ROWS_MOST */
    uint32_t clusters_max;           /* clusters with a session or demand; 0: 10,000 */
    uint64_t seed;                   /* seed of the hash tables */
    bool paused, dry_run;            /* kill switch, which has precedence; shadow mode */
    bool rollup_guard;               /* enables the quarantine of rails.h */
    struct rails_options rails;
    struct victim_weights weights; /* all zero: the default weights of docs/decision.md */
    uint32_t concurrency;          /* Limit of actions under way; 0: 64. */
    uint32_t queue_max; /* Limit of queued actions; 0: 65,536. A later cycle decides further actions
                           again. */
    uint32_t blobs_max; /* Limit of actions that wait for a bootstrap blob; 0: 100,000. A later
                           cycle decides further actions again. */
    uint64_t execute_timeout_ms, bootstrap_timeout_ms; /* provider calls, blob requests; 0: 30 s */
    /* How long a drain waits for an operator to reconnect. 0: 2 min. */
    uint64_t operator_return_ms;
    /* Calls of an earlier process may still be executed. So no action begins before a List that
     * began execute_timeout_ms after the start is complete. */
    bool restarted;
    /* An operator reported its drains to an earlier process, so drains wait up to
     * operator_return_ms after the start for the operators to return. */
    bool operators_reported;
    uint64_t capacity_interval_ms;              /* least time between hints for a profile; 0: 5 s */
    uint32_t hints_most;                        /* repeated hints per cycle; 0: 2,500 */
    uint64_t idle_hold_ms[CAPACITY_TYPE_COUNT]; /* how long Idle machines stay; 0: type's default */
    uint64_t rest_first_ms, rest_most_ms;       /* first and longest back-off; 0: 30 s, 1 h */
    /* A machine in a transitional state for this long is queried by Get, then its call is repeated.
     * 0: 10 min (Creating, Configuring, Deleting), 20 min beyond its grace period (Draining). */
    uint64_t stuck_ms;
    /* A full List that would remove more than this share of the machines (and at least 10) is held
     * until three Lists in a row agree. 0: 0.1 */
    double removal_fraction;
    bool attribution; /* enables --phase-attribution-log */
};

enum err core_open(const struct core_options *options, struct core **ret_core); /* ERR_NOMEM */
void core_close(struct core *core);                                             /* NULL is fine */
/* Machines and Needs must be built with this table of resource names. */
struct dimensions *core_dimensions(struct core *core);

/* -- List: reconcile.c -- */
enum list_kind {
    LIST_FULL,  /* all machines: a missing machine is removed, with the guard of removal_fraction */
    LIST_DELTA, /* changes only: a machine is removed by its tombstone */
};
void core_list_begin(struct core *core, enum list_kind kind);
/* Applies a List record with its shard_metadata. A refused record is counted and logged, and the
 * machine keeps its old record. ERR_NOMEM, ERR_FULL: the caller must abandon the List. */
enum err core_list_machine(struct core *core, const struct machine *machine,
                           const struct label *metadata, size_t metadata_count, mono_time now,
                           struct effects *out);
/* Counts and logs an undecodable record. `id` may be empty. */
void core_list_refused(struct core *core, struct str id, const char *why, struct effects *out);
void core_list_gone(struct core *core, struct str id, mono_time now, struct effects *out);
/* `whole`: the List is complete. False: the List was cut off, so no machine is removed. */
void core_list_end(struct core *core, bool whole, mono_time now, struct effects *out);
bool core_listed(const struct core *core); /* true after the first complete List; for readiness */
/* True if the next List must be full. */
bool core_wants_full_list(const struct core *core);

/* -- demand: demand.c -- */
enum rollup_verdict { ROLLUP_APPLIED, ROLLUP_HELD };
/* Replaces the cluster's demand. `rows` must be built with core_dimensions() and be consistent
 * (need_build). ERR_FULL (rows_max, clusters_max), ERR_NOMEM: the last good demand stays, and the
 * core counts and logs the error. */
enum err core_rollup(struct core *core, struct str cluster, const struct need *rows, size_t count,
                     mono_time now, enum rollup_verdict *ret_verdict, struct effects *out,
                     struct note *note);
/* Counts and logs a roll-up that could not be decoded. */
void core_rollup_refused(struct core *core, struct str cluster, const char *why,
                         struct effects *out);
/* What a machine runs, as its operator reports it: pods, without those of DaemonSets and mirror
 * pods, and without pods that terminate. */
struct machine_occupancy {
    struct str machine;
    uint32_t evictable, held;   /* pods that may be evicted now; pods that may not */
    double disruption;          /* cost of evicting them: at least 0 */
    struct resources free;      /* allocatable minus the requests of all pods */
    struct resources requested; /* by the evictable pods together */
    struct resources largest;   /* request of an evictable pod, at most, in each dimension */
};
/* Replaces what is known about the machines of the cluster. Without rows nothing is known.
 * `pending`: the operator does not know its machines yet. The earlier reports stay, and no machine
 * of the cluster is reclaimed before the next roll-up, at most for operator_return_ms. Call after
 * the core_rollup() of the same roll-up. ERR_NOMEM, ERR_INVALID (disruption): the earlier reports
 * stay. */
enum err core_occupancy(struct core *core, struct str cluster, const struct machine_occupancy *rows,
                        size_t count, bool pending, mono_time now, struct effects *out);
enum operator_link {
    OPERATOR_AWAY,           /* disconnected; the driver has answered all blob requests */
    OPERATOR_CONNECTED,      /* connected, without reports of finished drains */
    OPERATOR_REPORTS_DRAINS, /* connected, with reports of finished drains */
};
/* A new session is sent the state of every machine bound to the cluster, and every reclaim that
 * waits for the operator. */
enum err core_session(struct core *core, struct str cluster, enum operator_link link, mono_time now,
                      struct effects *out);
struct drain_report {
    struct str cluster;
    struct str machine;
    uint64_t action;  /* number in the RECLAIM; may be from an earlier process */
    bool drained;     /* false: still draining, or given up */
    uint64_t left_ms; /* remaining grace period, if not drained */
    struct str error; /* why the operator gave up; else empty */
};
/* Ignores reports about machines that are not being drained for the report's cluster. */
void core_drain_report(struct core *core, const struct drain_report *report, mono_time now,
                       wall_time wall, struct effects *out);

/* -- the cycle: decide_cycle.c -- */
/* Named by the metric cycle_phase_duration_seconds. */
enum cycle_phase {
    PHASE_RECONCILE, /* measured by the driver: from the List request to the last record */
    PHASE_SNAPREAD,  /* this part and the next three are those of decide.h */
    PHASE_1,
    PHASE_2,
    PHASE_3,
    PHASE_EMIT,    /* capacity hints and views */
    PHASE_EXECUTE, /* safety limits and queue */
    PHASE_COUNT
};
const char *cycle_phase_name(enum cycle_phase phase); /* for example "phase1" */
/* Decides, applies the safety limits, and starts as many actions as `concurrency` allows. `mark`
 * (may be NULL) is called at the end of each phase. */
typedef void core_mark_fn(void *context, enum cycle_phase phase);
enum err core_cycle(struct core *core, mono_time now, wall_time wall, core_mark_fn *mark,
                    void *context, struct effects *out);

/* -- stopping all actions for good: queue.c -- */
enum core_hold {
    CORE_PAUSED, /* by the kill switch */
    CORE_FENCED, /* by a newer process of this shard */
};
/* Stops all actions until the process ends. Cycles still decide, but begin nothing, and running
 * actions make no further call. The driver must answer each call that it does not send with
 * CALL_UNSENT. */
void core_hold(struct core *core, enum core_hold why, mono_time now, wall_time wall,
               struct effects *out);

/* -- results of effects: actions.c -- */
enum call_end {
    CALL_DONE,    /* the provider executed the call */
    CALL_UNKNOWN, /* no response in time, connection lost, or unreadable response */
    CALL_REFUSED, /* refused; `text` gives the reason */
    CALL_FENCED,  /* not executed: the provider knows a newer epoch of this shard */
    CALL_NOT_FOUND,
    CALL_NOT_SUPPORTED,
    CALL_UNSENT, /* never sent: no connection to the provider, or no free slot in time */
};
struct call_answer {
    enum call_end end;
    struct str text;               /* for last_error and the audit log */
    const struct machine *machine; /* CALL_DONE: the returned record; NULL: unreadable */
    const struct label *metadata;
    size_t metadata_count;
};
void core_answered(struct core *core, uint64_t action, const struct call_answer *answer,
                   mono_time now, wall_time wall, struct effects *out);
void core_got(struct core *core, struct str machine, const struct call_answer *answer,
              mono_time now, struct effects *out);
enum blob_end {
    BLOB_READY,      /* the driver keeps the blob for Configure */
    BLOB_NO_SESSION, /* no session, or the session ended during the wait */
    BLOB_TIMEOUT,
    BLOB_ERROR,
    BLOB_NO_ROOM, /* the driver has no room for further blobs */
};
void core_blob(struct core *core, uint64_t action, enum blob_end end, struct str text,
               mono_time now, wall_time wall, struct effects *out);
/* True if the action still needs its blob. The driver keeps the blob until the action's CONFIGURE
 * or AUDIT effect. False: the driver drops the blob. */
bool core_blob_waits(const struct core *core, uint64_t action);

/* -- the domains of this shard: scope.c -- */
/* Sets the shard's domains (label key and value).
 * - `given` false: no domain was ever assigned, so every machine belongs to the shard.
 * - `given` and count 0: no machine belongs to the shard.
 * A machine outside the domains is not used. A machine that serves a cluster stays until it is
 * drained. */
enum err core_scope(struct core *core, bool given, const struct label *domains, size_t count,
                    mono_time now, struct effects *out);
/* Counts the machines of `domain` that are outside the shard's domains but still in use. *ret_more:
 * the count is a lower bound. ERR_NOMEM. */
enum err core_serving(struct core *core, const struct label *domain, uint32_t *ret_count,
                      bool *ret_more);

/* -- reading: view.c -- */
struct need_view {
    const struct need_verdict *row; /* owned by the core until the next cycle */
    uint32_t parked_age, unmet_age; /* in cycles */
};
struct needs_view {
    uint64_t cycle; /* 0: no cycle has run yet */
    wall_time at;
    uint64_t total; /* number of Needs, without the limit */
    const struct need_view *needs;
    size_t count;
};
/* Returns the Needs by priority (highest first), arrival and cluster. Texts are borrowed until the
 * next cycle. Empty `cluster`: all clusters. `limit` 0: no limit. ERR_NOMEM. */
enum err core_inspect(const struct core *core, struct str cluster, uint32_t limit,
                      struct arena *arena, struct needs_view *ret_view);

/* Machines in back-off. */
enum resting_why {
    RESTING_REFUSED, /* refused; next try after the back-off */
    RESTING_DOUBT,   /* a call had no response; the shard sends a Get */
    RESTING_FAILED,  /* the provider reports Failed; the shard sends Delete after the back-off */
};
struct rest {
    enum resting_why why;
    uint32_t refusals; /* in a row */
    uint32_t asked;    /* Gets in a row without a useful answer */
    uint64_t left_ms;  /* until the shard checks the machine again */
};
struct resting {
    struct str machine, cluster, error; /* borrowed until the next event */
    enum machine_state state;
    struct rest rest;
};
struct resting_view {               /* allocated in the arena */
    const struct resting *machines; /* sorted by id */
    size_t count;                   /* at most the requested number */
    uint64_t total;
    bool all; /* false: only some machines were examined */
};
/* Lists machines in back-off. ERR_NOMEM. */
enum err core_resting(struct core *core, size_t most, mono_time now, struct arena *arena,
                      struct resting_view *ret_view);
struct machine_facts {
    struct machine machine;           /* borrowed until the next event */
    mono_time idle_since;             /* valid only for an Idle machine */
    enum machine_state planned_state; /* the real state if nothing is planned */
    bool pending;                     /* an action is queued or under way */
    bool occupancy_known;             /* the next three fields are valid */
    bool no_room;                     /* its pods have no room on other machines */
    uint32_t evictable_pods, held_pods;
    bool outside; /* outside the shard's domains; dropped when free */
    bool rests;
    struct rest rest;          /* valid if `rests` */
    bool operator_drains;      /* Draining: the shard waits for the operator */
    bool operator_away;        /* Draining: the operator is not connected */
    uint64_t operator_left_ms; /* longest remaining wait for the operator */
};
/* ERR_NOT_FOUND, ERR_NOMEM. */
enum err core_machine(struct core *core, struct str id, mono_time now,
                      struct machine_facts *ret_facts);

struct count_by_name {
    struct str name;
    uint32_t count;
};
struct core_summary { /* in the arena; texts and shortfalls are borrowed until the next cycle */
    uint32_t machines, free;
    const struct count_by_name *types, *zones; /* sorted by name */
    size_t type_count, zone_count;
    const struct shortfall *const *shortfalls; /* largest first, at most LEDGER_TOP */
    size_t shortfall_count;
};
enum err core_summary(const struct core *core, struct arena *arena,
                      struct core_summary *ret_summary);

/* Number of machines with equal fields. Texts are borrowed until the next event. */
struct holding {
    enum machine_state state;
    enum capacity_type capacity_type;
    struct str type, zone; /* may be empty */
    double price;          /* dollars per machine and hour */
    uint32_t count;
};
/* Sorted, in the arena. ERR_TOO_LARGE: more than `cohorts_max` cohorts. ERR_NOMEM. */
enum err core_holdings(const struct core *core, size_t cohorts_max, struct arena *arena,
                       struct holding **ret_rows, size_t *ret_count);

/* How the wait for an operator ended. */
enum drain_wait {
    DRAIN_WAIT_DRAINED, /* the operator reported the machine drained */
    DRAIN_WAIT_GRACE_ENDED,
    DRAIN_WAIT_AWAY,        /* the operator did not reconnect in time */
    DRAIN_WAIT_NO_OPERATOR, /* no wait, because no operator was connected */
    DRAIN_WAIT_COUNT
};
const char *drain_wait_name(enum drain_wait wait); /* for example "grace_ended" */

/* Counters since the start, and gauges. */
struct core_counts {
    uint64_t cycles;
    uint64_t actions[ACTION_DELETE + 1]; /* by kind: queued actions */
    uint64_t outcomes[ACTION_DELETE + 1][OUTCOME_COUNT];
    uint64_t suppressed[ACTION_DELETE + 1], dryrun[ACTION_DELETE + 1];
    uint64_t deferred, dropped, deduped, capped, roomless, idle_releases;
    uint64_t machines_rejected[MACHINE_FAULT_PRICE + 1];
    uint64_t duplicate_records; /* machine twice in a List; also counted as rejected */
    uint64_t rollups_rejected;
    uint64_t observed_edges, foreign_edges, lists_held;
    uint64_t doubts;
    uint64_t called_again; /* calls repeated after too long in a transitional state */
    uint64_t given_back;   /* tries to Delete a Failed machine */
    uint64_t delete_unsupported;
    uint64_t drain_waits[DRAIN_WAIT_COUNT]; /* ended waits, by result */
    uint32_t drains_waiting;                /* drains that wait for an operator now */
    uint32_t blobs_waiting;                 /* actions that wait for a blob now */
    uint32_t queued, inflight;              /* without drains_waiting and blobs_waiting */
    uint32_t in_doubt;                      /* machines whose last call had no answer */
    /* Gauges of the last cycle. */
    uint32_t shortfalls; /* all shortfalls; the arrays below count the LEDGER_TOP largest */
    uint32_t shortfalls_aged[SHORTFALL_AGES], shortfalls_by_class[SHORTFALL_CLASSES];
    uint32_t demand_rows[PENALTY_BUCKET_COUNT]; /* demand rows by interruption bucket */
    struct inventory_counts inventory;
    uint32_t inventory_by_bucket[MACHINE_STATE_COUNT][CAPACITY_TYPE_COUNT][PENALTY_BUCKET_COUNT];
};
const struct core_counts *core_counts(const struct core *core);
struct cluster_counts {
    struct str cluster;
    uint32_t holds;
    uint64_t rejected;
};
enum err core_clusters(const struct core *core, struct arena *arena,
                       struct cluster_counts **ret_clusters, size_t *ret_count);
#endif
