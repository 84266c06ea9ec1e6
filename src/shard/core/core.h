/* SPDX-License-Identifier: Apache-2.0 */
/* The shard as a state machine: (state, event, time) in, effects out.
 *
 * The core contains all state and all decisions of a shard: machines, demand, decisions, queued and
 * running actions, sessions, and the content of reports. The core has no clock, no I/O and no
 * thread. The driver passes one event at a time to the core on the decide thread, and executes the
 * effects on the loop. The simulator and the tests run the same code.
 *
 *   provider  List records, tombstones, the end of a List     core_list_*
 *             result of an action's call, result of a Get      core_answered, core_got
 *   operator  a session began or ended, a roll-up, a blob      core_session, core_rollup, core_blob
 *             progress of a drain                              core_drain_report
 *   time      the cycle                                        core_cycle
 *   above     the domains of this shard                        core_scope
 *
 * The surprising rules:
 * - One action per machine. A machine is *pending* from the moment its action is queued until the
 *   action's last effect is answered. List records of a pending machine are ignored.
 * - A call without a timely answer has an unknown outcome; it has not failed. The machine keeps its
 *   passing state and the shard sends a Get. The shard accepts the state that the provider then
 *   reports. A call that was never sent needs no Get and is repeated later.
 * - A machine whose List record was ignored is also queried by Get. No action begins on the machine
 *   until the provider has answered.
 * - The next decision treats a queued action as begun (inventory_plan).
 * - The core does not retry. The next cycle derives dropped or undone actions again.
 * - After a refused action the machine is in back-off before the next try (`rest_*`). A machine
 *   that the provider reports as Failed is deleted, with growing pauses between the tries.
 *
 * Invariants, asserted before events that can start actions, and after most events (core.c):
 *   I1 A machine has at most one action, and the action has the machine's work record.
 *   I2 At most `concurrency` actions are under way and at most `blobs_max` wait for a blob.
 *   I3 The queue is empty exactly while no action is counted as queued.
 *   I4 No call of an action is sent while the core is held, in shadow mode or not settled.
 *   I5 A call belongs to the only action of its machine, in the step that waits for its answer.
 *   I6 Every effect is complete (effect_check). I7 The time of events never goes back.
 *
 * The core stays consistent after any ERR_NOMEM: either the event had no effect, or a later cycle
 * derives the missing work again. */
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
    uint32_t clusters_max;           /* limit of clusters with a session or demand; 0: 10,000 */
    uint64_t seed;                   /* seed of the hash tables */
    bool paused, dry_run;            /* kill switch, shadow mode; the kill switch has precedence */
    bool rollup_guard;               /* enables the quarantine of rails.h */
    struct rails_options rails;
    struct victim_weights weights; /* all zero: the default weights of docs/decision.md */
    uint32_t concurrency; /* Limit of actions under way at once; 0: 64. With 64 actions, and 7 s for
                           * each of a purchase's two calls, a provider delivers 5 machines per
                           * second. */
    uint32_t queue_max;   /* Limit of queued actions; 0: 65,536. Actions beyond the limit are
                           * dropped and counted. A cycle soon derives such actions again. */
    uint32_t blobs_max;   /* Limit of actions that wait for a bootstrap blob; 0: 100,000. They do
                           * not count against `concurrency`. An action beyond the limit is undone,
                           * and a later cycle derives it again. */
    uint64_t execute_timeout_ms, bootstrap_timeout_ms; /* provider calls, blob requests; 0: 30 s */
    /* How long a drain waits for an operator whose session has ended. 0: 2 min. */
    uint64_t operator_return_ms;
    /* Calls of an earlier process of this shard may still be executed. So no action begins until
     * execute_timeout_ms after the start have passed and a List that began later is complete. */
    bool restarted;
    /* An operator reported its drains to an earlier process. Until operator_return_ms after the
     * start, drains of every cluster wait for the cluster's operator to return. */
    bool operators_reported;
    uint64_t capacity_interval_ms;              /* least time between hints for a profile; 0: 5 s */
    uint32_t hints_most;                        /* limit of hints repeated in one cycle; 0: 2,500 */
    uint64_t idle_hold_ms[CAPACITY_TYPE_COUNT]; /* hold time of Idle machines; 0: type's default */
    uint64_t rest_first_ms, rest_most_ms;       /* first and longest back-off; 0: 30 s, 1 h */
    /* A machine in a passing state for this long is queried by Get, then its call is repeated. 0:
     * 10 min (Creating, Configuring, Deleting), 20 min beyond its grace period (Draining). */
    uint64_t stuck_ms;
    /* A full List that would remove more than this share of the machines (and at least 10) is held
     * until three Lists in a row agree. 0: 0.1 */
    double removal_fraction;
    bool attribution; /* enables --phase-attribution-log */
};

enum err core_open(const struct core_options *options, struct core **ret_core); /* ERR_NOMEM */
void core_close(struct core *core);                                             /* NULL is fine */
/* Returns the table of resource names, with which the caller must build machines and Needs. */
struct dimensions *core_dimensions(struct core *core);

/* -- List: reconcile.c -- */
enum list_kind {
    LIST_FULL,  /* all machines: a machine missing from the List is removed (guarded) */
    LIST_DELTA, /* changes only: a machine is removed only if the List has its tombstone */
};
void core_list_begin(struct core *core, enum list_kind kind);
/* Applies one record of the List. `metadata` is its shard_metadata. A refused record is counted and
 * logged, the machine keeps its old record, and the machine still counts as listed. ERR_NOMEM,
 * ERR_FULL (machines_max): the caller must abandon the List. */
enum err core_list_machine(struct core *core, const struct machine *machine,
                           const struct label *metadata, size_t metadata_count, mono_time now,
                           struct effects *out);
/* Counts and logs a record that could not be decoded as a machine. `id` may be empty. */
void core_list_refused(struct core *core, struct str id, const char *why, struct effects *out);
void core_list_gone(struct core *core, struct str id, mono_time now, struct effects *out);
/* Ends the List. `whole`: machines missing from a full List are removed, unless suspiciously many
 * are missing. If not `whole` (the call failed or was cut off), no machine is removed. */
void core_list_end(struct core *core, bool whole, mono_time now, struct effects *out);
bool core_listed(const struct core *core); /* true once a List was complete; used for readiness */
/* Returns true if the next List must be full, because of a refused record or new domains. */
bool core_wants_full_list(const struct core *core);

/* -- demand: demand.c -- */
enum rollup_verdict { ROLLUP_APPLIED, ROLLUP_HELD };
/* Replaces the cluster's demand by `rows`. The rows must belong to the cluster, be built with
 * core_dimensions(), and be consistent (need_build). ERR_FULL (rows_max, clusters_max), ERR_NOMEM:
 * the last good demand stays. The core counts and logs the error, so the caller must not. */
enum err core_rollup(struct core *core, struct str cluster, const struct need *rows, size_t count,
                     mono_time now, enum rollup_verdict *ret_verdict, struct effects *out,
                     struct note *note);
/* Counts and logs a roll-up that could not be decoded. */
void core_rollup_refused(struct core *core, struct str cluster, const char *why,
                         struct effects *out);
enum operator_link {
    OPERATOR_AWAY,           /* the session ended; the driver has answered its blob requests */
    OPERATOR_CONNECTED,      /* a session was installed */
    OPERATOR_REPORTS_DRAINS, /* a session was installed, and the operator reports finished drains */
};
/* Notes that a session was installed or ended. A new session is sent the state of every machine
 * bound to the cluster, and every reclaim that waits for the operator. */
enum err core_session(struct core *core, struct str cluster, enum operator_link link, mono_time now,
                      struct effects *out);
/* An operator's report about a reclaim. */
struct drain_report {
    struct str cluster; /* cluster of the session */
    struct str machine;
    uint64_t action;  /* Number of the action that sent the RECLAIM. A number that this process
                       * never used belongs to a reclaim of an earlier process. */
    bool drained;     /* false: the operator is still draining the machine, or gave up */
    uint64_t left_ms; /* remaining grace period, if not drained */
    struct str error; /* not empty: the operator gave up, for this reason */
};
/* Ignores reports about a machine that is not being drained for the report's cluster. */
void core_drain_report(struct core *core, const struct drain_report *report, mono_time now,
                       wall_time wall, struct effects *out);

/* -- the cycle: decide_cycle.c -- */
/* The parts of a cycle, as cycle_phase_duration_seconds names them. */
enum cycle_phase {
    PHASE_RECONCILE, /* measured by the driver: from the List request to its last record */
    PHASE_SNAPREAD,  /* demand is normalised; DECIDE_READ of decide.h, as are the next three */
    PHASE_1,
    PHASE_2,
    PHASE_3,
    PHASE_EMIT,    /* capacity hints and views */
    PHASE_EXECUTE, /* safety limits and queue */
    PHASE_COUNT
};
const char *cycle_phase_name(enum cycle_phase phase); /* for example "phase1" */
/* Decides, applies the safety limits, queues actions, and starts as many as `concurrency` allows.
 * `mark` (may be NULL) is called at the end of each part, so that the driver can time the parts. */
typedef void core_mark_fn(void *context, enum cycle_phase phase);
enum err core_cycle(struct core *core, mono_time now, wall_time wall, core_mark_fn *mark,
                    void *context, struct effects *out);

/* -- stopping all actions for good: queue.c -- */
enum core_hold {
    CORE_PAUSED, /* by the kill switch */
    CORE_FENCED, /* a newer process of this shard is active */
};
/* Stops all actions. Cycles still decide, but their actions are suppressed. Waiting actions end as
 * suppressed, and running actions make no further call. The driver answers a call that it no longer
 * sends with CALL_UNSENT. */
void core_hold(struct core *core, enum core_hold why, mono_time now, wall_time wall,
               struct effects *out);

/* -- results of effects: actions.c -- */
enum call_end {
    CALL_DONE,          /* the provider executed the call; `machine` is the record it returned */
    CALL_UNKNOWN,       /* no response in time, connection lost, or unreadable response */
    CALL_REFUSED,       /* a definite refusal; `text` gives the reason */
    CALL_FENCED,        /* nothing was done: the provider knows a newer epoch of this shard */
    CALL_NOT_FOUND,     /* the provider does not know the machine */
    CALL_NOT_SUPPORTED, /* the provider does not offer the call */
    CALL_UNSENT,        /* never sent: no connection to the provider, or no free slot in time */
};
struct call_answer {
    enum call_end end;
    struct str text;               /* text for last_error and the audit log */
    const struct machine *machine; /* CALL_DONE: the returned record; NULL: not readable */
    const struct label *metadata;
    size_t metadata_count;
};
void core_answered(struct core *core, uint64_t action, const struct call_answer *answer,
                   mono_time now, wall_time wall, struct effects *out);
void core_got(struct core *core, struct str machine, const struct call_answer *answer,
              mono_time now, struct effects *out);
enum blob_end {
    BLOB_READY,      /* the driver keeps the blob for the Configure that follows */
    BLOB_NO_SESSION, /* no session, or the session ended during the wait */
    BLOB_TIMEOUT,
    BLOB_ERROR,   /* the operator reported an error */
    BLOB_NO_ROOM, /* the blob arrived, but the driver already holds as many blob bytes as it may */
};
void core_blob(struct core *core, uint64_t action, enum blob_end end, struct str text,
               mono_time now, wall_time wall, struct effects *out);
/* Returns true if the action still needs its blob. The driver then keeps the blob until the
 * action's CONFIGURE or AUDIT effect, and otherwise drops it after executing the effects so far. */
bool core_blob_waits(const struct core *core, uint64_t action);

/* -- the domains of this shard: scope.c -- */
/* Sets the shard's domains, pairs of label key and value. `given` false: no domain was ever
 * assigned, and every machine belongs to the shard. `given` with an empty list: the last domain was
 * taken away, and no machine belongs to the shard. Machines outside the domains are neither counted
 * nor bought. A machine that is bound to a cluster stays until it is drained. */
enum err core_scope(struct core *core, bool given, const struct label *domains, size_t count,
                    mono_time now, struct effects *out);
/* Counts the machines of `domain` that are in no domain of this shard but are still in use: they
 * serve a cluster or have a running action. *ret_more: the count is a lower bound. ERR_NOMEM. */
enum err core_serving(struct core *core, const struct label *domain, uint32_t *ret_count,
                      bool *ret_more);

/* -- reading: view.c -- */
struct need_view {                  /* a Need of the last cycle */
    const struct need_verdict *row; /* owned by the core until the next cycle */
    uint32_t parked_age, unmet_age; /* ages in cycles */
};
struct needs_view {
    uint64_t cycle; /* 0: no cycle has run yet */
    wall_time at;
    uint64_t total; /* number of Needs before applying the limit */
    const struct need_view *needs;
    size_t count;
};
/* Returns the Needs by priority (highest first), arrival and cluster. The view is in the arena; its
 * texts belong to the core. Empty `cluster`: all clusters. `limit` 0: no limit. ERR_NOMEM. */
enum err core_inspect(const struct core *core, struct str cluster, uint32_t limit,
                      struct arena *arena, struct needs_view *ret_view);

/* Machines in back-off. */
enum resting_why {
    RESTING_REFUSED, /* an action of the machine was refused; no new try until the back-off ends */
    RESTING_DOUBT,   /* a call had no response; the shard asks the provider by Get */
    RESTING_FAILED,  /* the provider reports Failed; Delete is tried when the back-off ends */
};
struct rest {
    enum resting_why why;
    uint32_t refusals; /* refused actions in a row */
    uint32_t asked;    /* number of Gets in a row without a useful result */
    uint64_t left_ms;  /* time until the shard checks the machine again */
};
struct resting {
    struct str machine, cluster, error; /* from the machine record; borrowed until the next event */
    enum machine_state state;
    struct rest rest;
};
struct resting_view {               /* allocated in the arena */
    const struct resting *machines; /* sorted by id */
    size_t count;                   /* at most the requested number */
    uint64_t total;
    bool all; /* false: too many machines, only some of them were examined */
};
/* Lists the machines in back-off. ERR_NOMEM. */
enum err core_resting(struct core *core, size_t most, mono_time now, struct arena *arena,
                      struct resting_view *ret_view);
/* Everything the shard knows about one machine. */
struct machine_facts {
    struct machine machine;           /* real state; borrowed until the next event */
    mono_time idle_since;             /* valid only while the machine is Idle */
    enum machine_state planned_state; /* equal to the real state when nothing is planned */
    bool pending;                     /* an action of the machine is queued or under way */
    bool outside;                     /* outside the shard's domains: dropped once it is free */
    bool rests;
    struct rest rest;          /* valid only if `rests` */
    bool operator_drains;      /* Draining: the provider's Drain waits for the operator */
    bool operator_away;        /* Draining: the machine's operator is not connected */
    uint64_t operator_left_ms; /* time until the provider drains the machine without the operator */
};
/* Looks up a machine. ERR_NOT_FOUND, ERR_NOMEM. */
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

/* Counts machines that are equal in these fields. Texts are borrowed until the next change. */
struct holding {
    enum machine_state state; /* planned state */
    enum capacity_type capacity_type;
    struct str type, zone; /* may be empty */
    double price;          /* dollars per machine and hour */
    uint32_t count;
};
/* Returns sorted holdings in the arena. ERR_TOO_LARGE: over `cohorts_max` cohorts. ERR_NOMEM. */
enum err core_holdings(const struct core *core, size_t cohorts_max, struct arena *arena,
                       struct holding **ret_rows, size_t *ret_count);

/* How a drain's wait for the operator ended. */
enum drain_wait {
    DRAIN_WAIT_DRAINED,     /* the operator reported the machine drained */
    DRAIN_WAIT_GRACE_ENDED, /* the grace period ended first */
    DRAIN_WAIT_AWAY,        /* the operator was away and did not return in time */
    DRAIN_WAIT_NO_OPERATOR, /* no wait: no operator was connected, or it was away for too long */
    DRAIN_WAIT_COUNT
};
const char *drain_wait_name(enum drain_wait wait); /* for example "grace_ended" */

/* Counters since the start, and gauges. The driver copies them to the metrics after every event. */
struct core_counts {
    uint64_t cycles;
    uint64_t actions[ACTION_DELETE + 1]; /* by kind: queued actions that passed the safety limits */
    uint64_t outcomes[ACTION_DELETE + 1][OUTCOME_COUNT];
    uint64_t suppressed[ACTION_DELETE + 1], dryrun[ACTION_DELETE + 1];
    uint64_t deferred, dropped, deduped, capped, idle_releases;
    uint64_t machines_rejected[MACHINE_FAULT_PRICE + 1];
    uint64_t duplicate_records; /* machine twice in a List; also counted as rejected (structural) */
    uint64_t rollups_rejected;
    uint64_t observed_edges, foreign_edges, lists_held;
    uint64_t doubts;             /* calls with an unknown outcome */
    uint64_t called_again;       /* calls repeated because a machine stayed in a passing state */
    uint64_t given_back;         /* tries to Delete a Failed machine */
    uint64_t delete_unsupported; /* Deletes that the provider does not support */
    uint64_t drain_waits[DRAIN_WAIT_COUNT]; /* indexed by result: ended waits for an operator */
    uint32_t drains_waiting;                /* drains that wait for an operator now */
    uint32_t blobs_waiting;                 /* actions that wait for a bootstrap blob now */
    uint32_t queued, inflight;              /* neither counts drains_waiting or blobs_waiting */
    uint32_t in_doubt;                      /* machines with an unanswered call, queried by Get */
    /* Gauges of the last cycle. */
    uint32_t shortfalls; /* all shortfalls; the next two arrays count the LEDGER_TOP largest */
    uint32_t shortfalls_aged[SHORTFALL_AGES], shortfalls_by_class[SHORTFALL_CLASSES];
    uint32_t demand_rows[PENALTY_BUCKET_COUNT]; /* demand rows by interruption bucket */
    struct inventory_counts inventory;
    uint32_t inventory_by_bucket[MACHINE_STATE_COUNT][CAPACITY_TYPE_COUNT][PENALTY_BUCKET_COUNT];
};
const struct core_counts *core_counts(const struct core *core);
/* Counters of a cluster, for `rollup_quarantined` and `rollups_rejected_total`. */
struct cluster_counts {
    struct str cluster;
    uint32_t holds;
    uint64_t rejected;
};
enum err core_clusters(const struct core *core, struct arena *arena,
                       struct cluster_counts **ret_clusters, size_t *ret_count);
#endif
