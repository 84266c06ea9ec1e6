/* SPDX-License-Identifier: Apache-2.0 */
/* The shard as a state machine: (state, event, time) in, effects out.
 *
 * Everything a shard knows and every choice it makes is here: machines, demand, decisions, which
 * actions are queued and under way, which sessions exist, what is reported. No clock, no I/O, no
 * thread. The driver feeds it events, one at a time, on the decide thread, and carries out the
 * effects on the loop; the simulator and the tests drive the very same code.
 *
 *   provider  List records, tombstones, the end of a List     core_list_*
 *             how a call of an action ended, what Get said     core_answered, core_got
 *   operator  a session began or ended, a roll-up, a blob      core_session, core_rollup, core_blob
 *             how far it has drained a machine                 core_drain_report
 *   time      the cycle                                        core_cycle
 *   above     which domains are ours                           core_scope
 *
 * The surprising rules:
 *   - one action per machine: from the moment it is queued until its last effect was answered the
 *     machine is *pending*, and what a List says of it is not looked at;
 *   - a call that was not answered in time is "don't know", never "failed": the machine keeps its
 *     passing state, is asked for by Get, and whatever the provider then says is believed; one that
 *     was not even sent needs no asking, and is made again after a while;
 *   - a machine of which something was said that we could not look at is asked for, too, and is not
 *     acted on until the provider has shown what it is;
 *   - a queued action counts as begun in the next decision (inventory_plan);
 *   - nothing is retried inside: what was dropped or undone the next cycle derives again;
 *   - a machine whose action was refused rests before anybody tries again (`rest_*`), and one that
 *     the provider itself calls Failed is given back by Delete, with growing pauses.
 *
 * Invariants, asserted when an event that can act begins, and when any but a record ends (core.c):
 *   I1 A machine has at most one action, and the action has the machine's work record.
 *   I2 At most `concurrency` actions are under way and at most `blobs_max` wait for a blob.
 *   I3 The queue is empty exactly while no action is counted as queued.
 *   I4 No call of an action leaves while the core is held, in shadow mode or not settled.
 *   I5 A call belongs to the only action of its machine, in the step that waits for its answer.
 *   I6 Every effect is complete (effect_check). I7 The time of events never goes back.
 *
 * Any ERR_NOMEM leaves the core consistent: the event did not happen, or what it could not do is
 * derived again by a later cycle. */
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
    uint32_t clusters_max;           /* with a session or demand; 0: 10,000 */
    uint64_t seed;                   /* of the hash tables */
    bool paused, dry_run;            /* the kill switch wins over shadow mode */
    bool rollup_guard;               /* the quarantine of rails.h */
    struct rails_options rails;
    struct victim_weights weights; /* all zero: those of docs/decision.md */
    uint32_t concurrency; /* actions under way at once; 0: 64. A provider that takes 7 s for each of
                             the two calls of a purchase gives 5 machines a second then */
    uint32_t queue_max;   /* actions that wait for their turn; 0: 65,536. At the bound the rest is
                             dropped, counted, and derived again by a cycle that follows soon */
    uint32_t blobs_max;   /* actions that wait for a bootstrap blob; 0: 100,000. They hold no place
                           among those under way. At the bound an action is undone, and derived
                           again by a later cycle */
    uint64_t execute_timeout_ms, bootstrap_timeout_ms; /* 0: 30 s each */
    /* How long a drain waits for an operator that was connected and is away. 0: 2 min. */
    uint64_t operator_return_ms;
    /* An earlier process of this shard made calls that may still be carried out: no action begins
     * before execute_timeout_ms after the start are over and a List that began later was whole. */
    bool restarted;
    /* An operator reported its drains to an earlier process: until operator_return_ms after the
     * start every cluster counts as one whose operator is away. */
    bool operators_reported;
    uint64_t capacity_interval_ms;              /* 0: 5 s */
    uint32_t hints_most;                        /* of capacity, said again in one cycle; 0: 2,500 */
    uint64_t idle_hold_ms[CAPACITY_TYPE_COUNT]; /* 0: the kind's own */
    uint64_t rest_first_ms, rest_most_ms;       /* 0: 30 s, 1 h */
    /* A machine that stays in a passing state longer than this is asked for by Get, then its call
     * is made again. 0: 10 min (Creating, Configuring, Deleting), 20 min beyond its grace
     * (Draining). */
    uint64_t stuck_ms;
    /* A full List that would remove more than this share of the machines (and at least 10) is
     * held until it was said three times in a row. 0: 0.1 */
    double removal_fraction;
    bool attribution; /* --phase-attribution-log */
};

enum err core_open(const struct core_options *options, struct core **ret_core); /* ERR_NOMEM */
void core_close(struct core *core);                                             /* NULL is fine */
/* The resource names of this shard: machines and needs for the core are built with it. */
struct dimensions *core_dimensions(struct core *core);

/* -- List: reconcile.c -- */
enum list_kind {
    LIST_FULL,  /* every machine: what is not in it is gone (guarded) */
    LIST_DELTA, /* what changed: only tombstones remove */
};
void core_list_begin(struct core *core, enum list_kind kind);
/* One record; `metadata` is its shard_metadata. A record that is refused is counted and logged, and
 * the old one stays; it still counts as seen. ERR_NOMEM, ERR_FULL (machines_max): the List is to be
 * given up. */
enum err core_list_machine(struct core *core, const struct machine *machine,
                           const struct label *metadata, size_t metadata_count, mono_time now,
                           struct effects *out);
/* A record that could not even be read as a machine; `id` may be empty. */
void core_list_refused(struct core *core, struct str id, const char *why, struct effects *out);
void core_list_gone(struct core *core, struct str id, mono_time now, struct effects *out);
/* Whole: what a full List left out goes, unless that is suspiciously much. Not whole (the call
 * failed or was cut): nothing goes. */
void core_list_end(struct core *core, bool whole, mono_time now, struct effects *out);
bool core_listed(const struct core *core); /* a List was whole at least once: readiness */
/* A delta would not do next time: one of its records was not taken, or more machines are ours. */
bool core_wants_full_list(const struct core *core);

/* -- demand: demand.c -- */
enum rollup_verdict { ROLLUP_APPLIED, ROLLUP_HELD };
/* The rows are of this cluster, built with core_dimensions(), and do not contradict themselves
 * (need_build). ERR_FULL (rows_max, clusters_max), ERR_NOMEM: the last good demand stays; counted
 * and logged, so not by the caller. */
enum err core_rollup(struct core *core, struct str cluster, const struct need *rows, size_t count,
                     mono_time now, enum rollup_verdict *ret_verdict, struct effects *out,
                     struct note *note);
/* One that could not be read. */
void core_rollup_refused(struct core *core, struct str cluster, const char *why,
                         struct effects *out);
enum operator_link {
    OPERATOR_AWAY,           /* the session is gone; the driver answered its waiting blobs */
    OPERATOR_CONNECTED,      /* a session was installed */
    OPERATOR_REPORTS_DRAINS, /* likewise, and the operator reports when it has drained a machine */
};
/* After a session was installed the state of every machine bound to the cluster follows, and every
 * reclaim that waits for its operator. */
enum err core_session(struct core *core, struct str cluster, enum operator_link link, mono_time now,
                      struct effects *out);
/* What an operator says of a reclaim. */
struct drain_report {
    struct str cluster; /* the session's */
    struct str machine;
    uint64_t action;  /* of the RECLAIM effect; a number this process never gave: the reclaim is an
                         earlier process's */
    bool drained;     /* false: the operator still drains the machine, or gave up */
    uint64_t left_ms; /* of the grace; when not drained */
    struct str error; /* not empty: the operator gave up */
};
/* A report about a machine that is not drained for this cluster is ignored. */
void core_drain_report(struct core *core, const struct drain_report *report, mono_time now,
                       wall_time wall, struct effects *out);

/* -- the cycle: decide_cycle.c -- */
/* The parts of a cycle, as cycle_phase_duration_seconds names them. */
enum cycle_phase {
    PHASE_RECONCILE, /* the driver's: from List asked to List read */
    PHASE_SNAPREAD,  /* demand normalised: DECIDE_READ of decide.h, and the next three likewise */
    PHASE_1,
    PHASE_2,
    PHASE_3,
    PHASE_EMIT,    /* hints, views */
    PHASE_EXECUTE, /* rails, queue */
    PHASE_COUNT
};
const char *cycle_phase_name(enum cycle_phase phase); /* "phase1" */
/* Decides, passes the rails, queues, starts what there is room for. `mark` (may be NULL) is called
 * at the end of each part: the driver's clock, for the histograms. */
typedef void core_mark_fn(void *context, enum cycle_phase phase);
enum err core_cycle(struct core *core, mono_time now, wall_time wall, core_mark_fn *mark,
                    void *context, struct effects *out);

/* -- acting ends, for good: queue.c -- */
enum core_hold {
    CORE_PAUSED, /* the kill switch */
    CORE_FENCED, /* a newer process of this shard acts */
};
/* From now on no action begins: cycles decide and suppress, actions that wait for their turn end as
 * suppressed, and an action under way asks for no further call. A call that the driver does not
 * send any more ends by CALL_UNSENT. */
void core_hold(struct core *core, enum core_hold why, mono_time now, wall_time wall,
               struct effects *out);

/* -- how effects ended: actions.c -- */
enum call_end {
    CALL_DONE,          /* `machine` is what the ack carried */
    CALL_UNKNOWN,       /* no answer in time, lost, or one that cannot be read */
    CALL_REFUSED,       /* a definite no; `text` says why */
    CALL_FENCED,        /* nothing was done: the provider knows a newer token of this shard */
    CALL_NOT_FOUND,     /* the provider does not know the machine */
    CALL_NOT_SUPPORTED, /* the provider does not offer the call */
    CALL_UNSENT,        /* the provider never heard of it: no connection, or no turn in time */
};
struct call_answer {
    enum call_end end;
    struct str text;               /* for last_error and the audit */
    const struct machine *machine; /* CALL_DONE; NULL: the ack carried none that can be read */
    const struct label *metadata;
    size_t metadata_count;
};
void core_answered(struct core *core, uint64_t action, const struct call_answer *answer,
                   mono_time now, wall_time wall, struct effects *out);
void core_got(struct core *core, struct str machine, const struct call_answer *answer,
              mono_time now, struct effects *out);
enum blob_end {
    BLOB_READY,      /* the driver keeps it for the Configure that follows */
    BLOB_NO_SESSION, /* none, or it ended while we waited */
    BLOB_TIMEOUT,
    BLOB_ERROR,   /* the operator said why */
    BLOB_NO_ROOM, /* it came, and the driver holds as many bytes of others as it may */
};
void core_blob(struct core *core, uint64_t action, enum blob_end end, struct str text,
               mono_time now, wall_time wall, struct effects *out);
/* The blob of this action waits for its turn: the driver keeps it until a CONFIGURE or the AUDIT of
 * the action. False: the driver drops it when the effects so far are carried out. */
bool core_blob_waits(const struct core *core, uint64_t action);

/* -- which machines are ours: scope.c -- */
/* Domains (label key, value). Not `given`: no domain ever was, and everything is ours. Given, and
 * none: the last one was taken away, and nothing is. A machine outside is neither counted nor
 * bought; one that is bound to a cluster already stays until it is drained. */
enum err core_scope(struct core *core, bool given, const struct label *domains, size_t count,
                    mono_time now, struct effects *out);
/* Machines of this domain that are in none of ours and are not let go yet: they serve, or an action
 * of them is under way. At least so many when *ret_more. ERR_NOMEM: nobody knows. */
enum err core_serving(struct core *core, const struct label *domain, uint32_t *ret_count,
                      bool *ret_more);

/* -- reading: view.c -- */
struct need_view {                  /* one Need of the last cycle */
    const struct need_verdict *row; /* the core's until the next one */
    uint32_t parked_age, unmet_age; /* in cycles */
};
struct needs_view {
    uint64_t cycle; /* 0: nothing computed yet */
    wall_time at;
    uint64_t total; /* before the limit */
    const struct need_view *needs;
    size_t count;
};
/* By priority descending, arrival, cluster. In the arena, with texts of the core's. `cluster`
 * empty: all; limit 0: no limit. ERR_NOMEM. */
enum err core_inspect(const struct core *core, struct str cluster, uint32_t limit,
                      struct arena *arena, struct needs_view *ret_view);

/* Machines that nobody acts on for now. */
enum resting_why {
    RESTING_REFUSED, /* an action of it was; nobody tries again before its rest is over */
    RESTING_DOUBT,   /* a call was not answered: the provider is being asked */
    RESTING_FAILED,  /* the provider calls it so; Delete is tried when its rest is over */
};
struct rest {
    enum resting_why why;
    uint32_t refusals; /* in a row */
    uint32_t asked;    /* Gets in a row that said nothing */
    uint64_t left_ms;  /* until the shard looks at the machine again */
};
struct resting {
    struct str machine, cluster, error; /* of the record: borrowed until the next event */
    enum machine_state state;
    struct rest rest;
};
struct resting_view {               /* in the arena */
    const struct resting *machines; /* by id */
    size_t count;                   /* at most as many as were asked for */
    uint64_t total;
    bool all; /* false: there are very many, and a part of them was looked at */
};
/* ERR_NOMEM. */
enum err core_resting(struct core *core, size_t most, mono_time now, struct arena *arena,
                      struct resting_view *ret_view);
/* One machine, for who asks after it. */
struct machine_facts {
    struct machine machine;           /* as it really is; borrowed until the next event */
    mono_time idle_since;             /* when Idle */
    enum machine_state planned_state; /* the real one when nothing is planned */
    bool pending;                     /* an action of it is queued or under way */
    bool outside;                     /* of our domains: it goes once it serves nobody */
    bool rests;
    struct rest rest;          /* when it rests */
    bool operator_drains;      /* Draining: the provider's drain waits for the operator */
    bool operator_away;        /* ... which is not connected */
    uint64_t operator_left_ms; /* until the provider drains the machine anyway */
};
/* ERR_NOT_FOUND, ERR_NOMEM. */
enum err core_machine(struct core *core, struct str id, mono_time now,
                      struct machine_facts *ret_facts);

struct count_by_name {
    struct str name;
    uint32_t count;
};
struct core_summary { /* in the arena; texts and shortfalls are the core's until the next cycle */
    uint32_t machines, free;
    const struct count_by_name *types, *zones; /* by name */
    size_t type_count, zone_count;
    const struct shortfall *const *shortfalls; /* worst first, at most LEDGER_TOP */
    size_t shortfall_count;
};
enum err core_summary(const struct core *core, struct arena *arena,
                      struct core_summary *ret_summary);

/* Machines that are alike in all of this, sorted; texts are borrowed until the next change. */
struct holding {
    enum machine_state state; /* as planned */
    enum capacity_type capacity_type;
    struct str type, zone; /* may be empty */
    double price;          /* of one, an hour */
    uint32_t count;
};
/* In the arena. ERR_TOO_LARGE: more cohorts than that have to be looked at. ERR_NOMEM. */
enum err core_holdings(const struct core *core, size_t cohorts_max, struct arena *arena,
                       struct holding **ret_rows, size_t *ret_count);

/* How the wait of a drain for its operator ended. */
enum drain_wait {
    DRAIN_WAIT_DRAINED,     /* the operator reported the machine drained */
    DRAIN_WAIT_GRACE_ENDED, /* the grace ended first */
    DRAIN_WAIT_AWAY,        /* the operator was away and did not return in time */
    DRAIN_WAIT_NO_OPERATOR, /* no wait: no operator was connected, or it was away for too long */
    DRAIN_WAIT_COUNT
};
const char *drain_wait_name(enum drain_wait wait); /* "grace_ended" */

/* Plain numbers since the start; the driver copies them to the metrics after every event. */
struct core_counts {
    uint64_t cycles;
    uint64_t actions[ACTION_DELETE + 1]; /* after the guards: queued */
    uint64_t outcomes[ACTION_DELETE + 1][OUTCOME_COUNT];
    uint64_t suppressed[ACTION_DELETE + 1], dryrun[ACTION_DELETE + 1];
    uint64_t deferred, dropped, deduped, capped, idle_releases;
    uint64_t machines_rejected[MACHINE_FAULT_PRICE + 1];
    uint64_t duplicate_records; /* also rejected as structural */
    uint64_t rollups_rejected;
    uint64_t observed_edges, foreign_edges, lists_held;
    uint64_t doubts;             /* calls of which nobody knew how they ended */
    uint64_t called_again;       /* calls made again because a passing state lasted */
    uint64_t given_back;         /* Failed machines that Delete was tried on */
    uint64_t delete_unsupported; /* of those and of releases: the provider does not offer it */
    uint64_t drain_waits[DRAIN_WAIT_COUNT]; /* how they ended */
    uint32_t drains_waiting;                /* for an operator, now */
    uint32_t blobs_waiting;                 /* actions that wait for a bootstrap blob, now */
    uint32_t queued, inflight;              /* inflight: not those that wait for an operator */
    uint32_t in_doubt;                      /* machines that the provider is asked for */
    /* gauges, of the last cycle */
    uint32_t shortfalls; /* all; the next two of the first LEDGER_TOP */
    uint32_t shortfalls_aged[SHORTFALL_AGES], shortfalls_by_class[SHORTFALL_CLASSES];
    uint32_t demand_rows[PENALTY_BUCKET_COUNT]; /* by interruption bucket */
    struct inventory_counts inventory;
    uint32_t inventory_by_bucket[MACHINE_STATE_COUNT][CAPACITY_TYPE_COUNT][PENALTY_BUCKET_COUNT];
};
const struct core_counts *core_counts(const struct core *core);
/* Per cluster, for `rollup_quarantined` and `rollups_rejected_total`. */
struct cluster_counts {
    struct str cluster;
    uint32_t holds;
    uint64_t rejected;
};
enum err core_clusters(const struct core *core, struct arena *arena,
                       struct cluster_counts **ret_clusters, size_t *ret_count);
#endif
