/* SPDX-License-Identifier: Apache-2.0 */
/* Running actions, and the machines that the shard must check again.
 *
 *   task   an action, from queueing until its end. At most one per machine
 *   work   what the shard must do with a machine: its task, or why and when to check it again. At
 *          most one per machine
 *
 * A machine in a transitional state or Failed always has a task or a reason to check it, so that no
 * machine is stuck for ever. The work record is allocated before a task or such a state begins, so
 * that the end of a task needs no memory. A machine has one deadline at a time, `due`.
 *
 *   queue.c    tasks: create, wait, start, close         steps.c, drain.c: begin a step, and apply
 *   actions.c  match answers to tasks; end tasks         an answer to the machine
 *   work.c     machines without a task */
#ifndef SHARD_CORE_RUNNING_ACTIONS_H
#define SHARD_CORE_RUNNING_ACTIONS_H
#include "base/heap.h"
#include "base/list.h"
#include "shard/core/core_internal.h"
#include "shard/state/kinds.h"

/* --- tasks: queue.c --- */

enum task_step {
    STEP_WAITING,
    STEP_OPERATOR, /* Draining: waits for the operator; uses no slot */
    STEP_CREATE,   /* from here on, except in STEP_BLOB, the task waits for the provider */
    STEP_BLOB,     /* waits for the operator's bootstrap blob; uses no slot */
    STEP_CONFIGURE,
    STEP_DRAIN,
    STEP_DELETE,
    STEP_COUNT
};
enum task_cause {
    CAUSE_DECIDED,
    CAUSE_STUCK,       /* the transitional state lasted too long, so the call is repeated */
    CAUSE_FAILED,      /* the provider reports Failed, so the machine is deleted */
    CAUSE_RESUMED,     /* the operator already drains for an earlier process of this shard */
    CAUSE_MAINTENANCE, /* an operator of the shard ordered that the machine is emptied */
};
struct machine_task {
    struct machine_work *work; /* exists as long as the task */
    struct list place; /* in `waiting`, `creates` or `ready`; detached while the task runs */
    uint64_t number;   /* action number in its effects */
    struct kind *kind; /* Bootstrap, Provision: a reference to the Need's profile */
    enum action_kind action;
    enum task_step step;
    enum task_cause cause;
    bool planned;  /* the inventory has a plan for the action, or needs none */
    bool draining; /* the machine is Draining, and the operator has the reclaim */
    bool drained;  /* the task no longer waits for the operator */
    bool blob;     /* the driver has the blob */
    int32_t priority;
    double interruption_dollars, reclamation_dollars;
    uint64_t grace_ms;
    mono_time since, asked; /* start of the transitional state; creation of the effect */
    struct str machine, cluster;
    struct need_key key; /* as in struct action */
    size_t size;         /* bytes of the block with the task and its texts */
};

enum { OVERDUE_MS = 60 * 1000 }; /* extra time for an effect's answer after its own deadline */

/* Creates a waiting task with copies of the texts. ERR_FULL, ERR_NOMEM. */
enum err task_open(struct core *core, const struct action *action, const struct profile *profile,
                   enum task_cause cause, struct machine_task **ret_task);
/* Frees the task and undoes its plan. */
void task_close(struct core *core, struct machine_task *task);
/* Closes a waiting CAUSE_DECIDED task, which a later decision decides again. */
void task_drop(struct core *core, struct machine_task *task);
struct machine_task *task_find(const struct core *core, struct str machine); /* NULL: none */
struct machine_task *task_numbered(const struct core *core, uint64_t number);
/* True if a task of the machine ended during the current List, whose record may then be too old. */
bool task_ended_in_list(const struct core *core, struct str machine);
/* Protects the answer of a Get from older records of the current List. If memory runs out, the
 * List's record is accepted, and the next List corrects the machine. */
void task_shield(struct core *core, struct str machine);
/* Plans the results of new waiting tasks in the inventory. */
void tasks_plan(struct core *core);
/* Starts as many tasks as `concurrency` allows, and ends the event. Must be the last call of every
 * event that may have ended a task. */
void running_start(struct core *core);
/* Called in every cycle: checks whether calls of an earlier process can still be executed. */
void running_settle(struct core *core);
/* Sets the task's step, whose answer is due within `timeout_ms`. */
void task_await(struct core *core, struct machine_task *task, enum task_step step,
                uint64_t timeout_ms);
/* Frees the slot of a running task that waits for its operator (STEP_OPERATOR) or a bootstrap blob
 * (STEP_BLOB). */
void task_hold(struct core *core, struct machine_task *task, enum task_step step, mono_time until);
/* Ends the wait of a held task. The task gets a free slot before tasks that have not begun. */
void task_unhold(struct core *core, struct machine_task *task);

/* --- ends of tasks: actions.c --- */

/* Counts the outcome, writes the audit line and closes the task. `error` is empty on success. */
void task_end(struct core *core, struct machine_task *task, enum action_outcome outcome,
              struct str error);
/* Ends a task that may not act any more. `ask`: send a Get. */
void task_suppress(struct core *core, struct machine_task *task, bool ask);
void action_audit(struct core *core, const struct machine_task *task, enum action_outcome outcome,
                  struct str error);
/* NULL: out of memory. */
struct effect *task_effect(struct core *core, const struct machine_task *task,
                           enum effect_kind kind, uint64_t timeout_ms);
/* Adds a provider call. If memory runs out or no action may begin, ends the task and returns NULL;
 * a Get follows later. */
struct effect *task_call(struct core *core, struct machine_task *task, enum task_step step);
/* If the machine is unknown, ends the task and returns false. */
bool task_machine(struct core *core, struct machine_task *task, struct machine *ret_machine);
/* If the machine is no longer in the shard's domains, ends the task and returns false. */
bool task_ours(struct core *core, struct machine_task *task, const struct machine *machine);
/* cordon.c: if a cordon forbids the task, which has not begun, ends the task and returns true. */
bool cordon_forbids(struct core *core, struct machine_task *task, const struct machine *machine);
/* Changes the machine. On failure ends the task and returns false. `asked`: the provider already
 * received a call, so the machine's state is in doubt. */
bool task_move(struct core *core, struct machine_task *task, const struct machine *to, bool asked);
/* Copies the fields that the provider owns. */
void machine_take(struct machine *machine, const struct machine *said);
void machine_unbind(struct machine *machine); /* clears cluster, destination and stamp */
/* The Need for which the machine was bought. */
struct machine_stamp task_stamp(const struct machine_task *task);
struct machine_promise task_promise(const struct machine_task *task);
/* Ends the task with success. `good`: forget earlier refusals of the machine. */
void task_done(struct core *core, struct machine_task *task, bool good);
/* Ends the task while the provider continues the operation. Reconciliation detects its end. */
void task_goes_on(struct core *core, struct machine_task *task);
/* Accepts a state that no step of the task leads to, and ends the task. */
void task_believe(struct core *core, struct machine_task *task, const struct call_answer *answer,
                  enum action_outcome outcome);
/* Makes the machine Failed with the error "<word>: <text>", and puts it in back-off. */
void task_refuse(struct core *core, struct machine_task *task, struct str text, bool most);

void task_due(struct core *core, struct machine_task *task);

/* A provider call, indexed by step: the machine's state `before` the call, `passing` while the
 * provider works, and `after` the call. Steps that wait for an operator set only `effect` and
 * `passing`. */
struct call_rule {
    const char *word; /* for example "create"; NULL: no call */
    enum effect_kind effect;
    enum action_kind action;
    enum planned_action planned;
    enum machine_state before, passing, after;
};
extern const struct call_rule call_rules[STEP_COUNT];
const struct call_rule *call_rule_of(enum action_kind action);
const struct call_rule *call_rule_passing(enum machine_state state); /* NULL: not a passing state */

/* -- Steps: each function ends the task or adds the next effect. call_begin: Create, Delete -- */
void call_begin(struct core *core, struct machine_task *task);
/* Applies the answer of a call that the provider executed or accepted. */
void call_acked(struct core *core, struct machine_task *task, const struct call_answer *answer);
void bootstrap_begin(struct core *core, struct machine_task *task);
/* Sends Configure with the blob. If no action may begin any more, returns the machine to Idle. */
void bootstrap_configure(struct core *core, struct machine_task *task);
/* True if the operator answered the last blob request for this profile with an error, and the pause
 * has not ended. */
bool blob_rests(const struct core *core, const struct need_key *key);
void blob_rests_note(struct core *core, const struct need_key *key, bool failed);
void bootstrap_blob(struct core *core, struct machine_task *task, enum blob_end end,
                    struct str text);
void drain_begin(struct core *core, struct machine_task *task);
/* Call when the cluster's operator connected or disconnected. */
void drains_session(struct core *core, struct str cluster, enum operator_link link);
void drain_facts(const struct core *core, struct str machine, mono_time now,
                 struct machine_facts *facts);
/* Drains a machine that its operator has already drained. ERR_FULL, ERR_NOMEM. */
enum err drain_repeat(struct core *core, const struct machine *machine);
/* Ends the wait for the operator and returns the task to the queue. */
void drain_due(struct core *core, struct machine_task *task);

/* --- work: work.c --- */

enum work_kind {
    WORK_QUIET,   /* nothing to do; the record keeps the number of refusals */
    WORK_PASSING, /* transitional state: after a timeout a Get, then the call again */
    WORK_DOUBT,   /* a call's outcome is unknown: Gets until one reports a state */
    WORK_REFUSED, /* back-off after a refusal, then a Get */
    WORK_FAILED,  /* the provider reports Failed: Deletes, with growing pauses */
    WORK_DRAINED, /* The operator drained the machine, but the provider's Drain was not executed.
                     The drain is repeated after the back-off. */
};
struct machine_work {
    struct table_link link;    /* in running_actions.works, keyed by machine id */
    struct machine_task *task; /* NULL: none */
    struct list ended;         /* in running_actions.ended, or detached */
    struct heap_node due;      /* deadline of the task, or else of this record */
    struct kind *kind_held;    /* Configuring: profile of the blob request; NULL: unknown */
    mono_time since;           /* start of the transitional state */
    mono_time until;           /* REFUSED: end of the back-off */
    mono_time may_run; /* DOUBT: the unanswered call may still be executed until this time */
    uint64_t grace_ms; /* of a Draining machine */
    enum work_kind kind;
    enum machine_state passed_over; /* state in a List record ignored during an action; 0: none */
    enum machine_state before;      /* DOUBT: the machine's state before the call */
    bool repeated;                  /* DOUBT: the call was a repetition */
    uint32_t drained_for; /* hash of the cluster whose operator drained the machine; 0: none */
    uint8_t refusals;     /* refused actions in a row */
    uint8_t tries;        /* Gets in a row without a useful answer */
    bool measured;        /* false: `since` is when the shard first saw the state */
    bool asked;           /* a Get is under way */
    bool stale;           /* the answer of the Get may be outdated */
    bool again;           /* repeat the call without another Get */
    uint8_t id_len;
    char id[];
};
enum {
    /* Limits of Gets that run at a time: `concurrency` within these two bounds. */
    ASKING_LEAST = 64,
    ASKING_MOST = 4096,
    DOUBT_FIRST_MS = 5 * 1000, /* first pause between useless Gets; doubles */
    DOUBT_MOST_MS = 300 * 1000,
    LIST_LATE_CYCLES = 3, /* a List that takes longer is supplemented by Gets */
    DOUBT_TRIES_MOST = 5, /* Gets about a machine in a stable state; then a full List decides */
};

struct machine_work *work_find(const struct core *core, struct str machine); /* NULL: none */
/* NULL: out of memory. */
struct machine_work *work_make(struct core *core, struct str machine);
void work_due(struct core *core, struct machine_work *w, mono_time due);
/* Call when the machine needs nothing beyond its task. Its refusals are remembered for a while. */
void work_quiet(struct core *core, struct machine_work *w);
/* Call when the machine needs nothing. Its refusals are forgotten. */
void work_forget(struct core *core, struct machine_work *w);
/* Frees the record if nothing is left to do or to remember. */
void work_settle(struct core *core, struct machine_work *w);
/* Undoes the inventory's plan for the machine. */
void work_unplan(struct core *core, struct machine_work *w);
/* Called when a task ends, to record what its machine needs next. */
void work_passing(struct core *core, const struct machine_task *task);
void work_doubt(struct core *core, const struct machine_task *task);
/* Asks the provider for the machine by a Get. The last call will not run any more, so the Get's
 * state is accepted as it is. */
void work_ask(struct core *core, const struct machine_task *task);
/* Call if the provider was not called. The call is repeated later, without a Get. */
void work_unsent(struct core *core, const struct machine_task *task);
/* Puts the machine in back-off after a refusal. */
void work_refused(struct core *core, const struct machine_task *task, bool most);
void work_failed(struct core *core, struct machine_work *w, bool most);
/* Call after an action if a List reported state `said` during the action. If the machine is in
 * another state, it is queried by Get. */
void work_look(struct core *core, struct str machine, enum machine_state said);
/* Handles all due work. Called before the decision of a cycle. */
void works_run(struct core *core);

/* --- the state of all running actions --- */

struct running_actions {
    uint64_t bytes;
    struct slot_map slots; /* indexed by the low half of the task number */
    struct list ended;     /* machine_work whose task ended during the current List */
    struct list waiting;
    struct list creates; /* waiting Provisions: they begin after all other tasks */
    struct list ready;   /* held tasks that may continue, before `waiting` */
    uint32_t serial;     /* high half of the last task number */
    bool dropped;        /* the full queue refused an action: request a cycle later */
    bool list_open;
    uint32_t list_cycles; /* since the current List began */
    bool deltas;          /* the provider sends deltas */
    bool overlooked;      /* a List had a record of a pending machine */
    struct table works;
    struct heap due;
    uint32_t asking;
    bool settle_due; /* the next complete List sets `settled` */
    bool settled;    /* no call of an earlier process can still be executed */
    bool settle_said;
    bool opened; /* `opened_at` is set */
    mono_time opened_at;
};
#endif
