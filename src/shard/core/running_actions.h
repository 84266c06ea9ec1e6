/* SPDX-License-Identifier: Apache-2.0 */
/* Running actions, and the machines that the shard must check again.
 *
 *   task   an action, from the moment it is queued until its last effect is answered. At most one
 *          per machine; in this time the machine is *pending*
 *   work   what the shard has to do with a machine: its task, or why and when the shard must check
 *          the machine again. At most one per machine
 *
 * A machine that is in a passing state or Failed always has a task or such a reason, so that no
 * machine is stuck for ever (tests/lib/shard_check.h). The work record is allocated before a task
 * or such a state begins. Therefore the end of a task never lacks memory for the next step. A
 * machine has one deadline at a time, `due`.
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
    STEP_OPERATOR, /* Draining: the operator evicts pods before the provider call. Uses no slot */
    STEP_CREATE,   /* from here on, except in STEP_BLOB, the task waits for the provider */
    STEP_BLOB,     /* the operator was asked for a bootstrap blob. Uses no slot */
    STEP_CONFIGURE,
    STEP_DRAIN,
    STEP_DELETE,
    STEP_COUNT
};
enum task_cause {
    CAUSE_DECIDED,
    CAUSE_STUCK,   /* the machine stayed too long in a passing state, so the call is repeated */
    CAUSE_FAILED,  /* the provider reports Failed, so the machine is deleted */
    CAUSE_RESUMED, /* the operator is draining, as ordered by an earlier process of this shard */
};
struct machine_task {
    struct machine_work *work; /* work record of the machine; exists as long as the task */
    struct list place;         /* in the list of waiting tasks; detached while the task runs */
    uint64_t number;           /* action number of its effects */
    struct kind *kind;         /* Bootstrap, Provision: a reference to the Need's profile */
    enum action_kind action;
    enum task_step step;
    enum task_cause cause;
    bool planned;  /* the inventory has a plan for the action, or needs none */
    bool draining; /* the machine is already Draining; the operator has received the reclaim */
    bool drained;  /* the task does not wait for the operator any more */
    bool blob;     /* the driver has the blob, so Configure is the next step */
    int32_t priority;
    double interruption_dollars, reclamation_dollars;
    uint64_t grace_ms;
    mono_time since, asked; /* times: the passing state began; the effect was created */
    struct str machine, cluster;
    struct need_key key; /* as in struct action */
    size_t size;         /* size of the memory block with the task and its texts */
};

enum { OVERDUE_MS = 60 * 1000 }; /* extra time for an effect's answer after its own deadline */

/* Creates a waiting task. Texts are copied. ERR_FULL, ERR_NOMEM. */
enum err task_open(struct core *core, const struct action *action, const struct profile *profile,
                   enum task_cause cause, struct machine_task **ret_task);
/* Frees the task and undoes its plan, if there is one. The machine is not pending any more. */
void task_close(struct core *core, struct machine_task *task);
struct machine_task *task_find(const struct core *core, struct str machine); /* NULL: none */
struct machine_task *task_numbered(const struct core *core, uint64_t number);
/* Returns true if a task of the machine ended while the current List was being read. The List's
 * record may then be older than the task's end. */
bool task_ended_in_list(const struct core *core, struct str machine);
/* Protects the answer of a Get from older records of the List being read. If memory runs out, the
 * List's record is accepted, and the next List corrects it. */
void task_shield(struct core *core, struct str machine);
/* Plans the results of the newest waiting tasks in the inventory. */
void tasks_plan(struct core *core);
/* Starts as many tasks as `concurrency` allows, once no call of an earlier process can run, and
 * ends the event (core_end). Must be the last call in every event that may have ended a task. */
void running_start(struct core *core);
/* Called in every cycle: checks whether calls of an earlier process can still be executed. */
void running_settle(struct core *core);
/* Sets the task's step. The answer to the step is due within `timeout_ms`. */
void task_await(struct core *core, struct machine_task *task, enum task_step step,
                uint64_t timeout_ms);
/* Pauses a running task until `until`, and frees its slot. The task waits for the operator
 * (STEP_OPERATOR) or for a bootstrap blob (STEP_BLOB). */
void task_hold(struct core *core, struct machine_task *task, enum task_step step, mono_time until);
/* Makes a held task ready when its wait has ended. Ready tasks precede waiting tasks. */
void task_unhold(struct core *core, struct machine_task *task);

/* --- ends of tasks: actions.c --- */

/* Counts the outcome, writes the audit line and closes the task. `error` is empty on success. */
void task_end(struct core *core, struct machine_task *task, enum action_outcome outcome,
              struct str error);
/* Ends a task that may not act any more. `ask`: sends a Get to read the machine's state. */
void task_suppress(struct core *core, struct machine_task *task, bool ask);
/* Adds the audit line of an action that ended or was not begun. */
void action_audit(struct core *core, const struct machine_task *task, enum action_outcome outcome,
                  struct str error);
/* Adds an effect of the task. NULL: out of memory. */
struct effect *task_effect(struct core *core, const struct machine_task *task,
                           enum effect_kind kind, uint64_t timeout_ms);
/* Adds a call to the provider and awaits its answer. Without memory, or if no action may begin any
 * more, ends the task and returns NULL. A Get resolves the machine's passing state later. */
struct effect *task_call(struct core *core, struct machine_task *task, enum task_step step);
/* Reads the task's machine. If it has no record, ends the task and returns false. */
bool task_machine(struct core *core, struct machine_task *task, struct machine *ret_machine);
/* Ends the task and returns false if the machine's domain was taken away after the decision,
 * because the machine then belongs to another shard. */
bool task_ours(struct core *core, struct machine_task *task, const struct machine *machine);
/* Changes the machine without a provider's record. On failure ends the task and returns false. With
 * `asked`, the provider already received a call, so the machine's state is then in doubt. */
bool task_move(struct core *core, struct machine_task *task, const struct machine *to, bool asked);
/* Copies the fields that the provider owns from `said`. */
void machine_take(struct machine *machine, const struct machine *said);
void machine_unbind(struct machine *machine); /* clears cluster, destination and stamp */
/* Returns the Need that the machine was bought for. */
struct machine_stamp task_stamp(const struct machine_task *task);
struct machine_promise task_promise(const struct machine_task *task);
/* Ends the task with success. `good`: earlier refusals of the machine are forgotten. */
void task_done(struct core *core, struct machine_task *task, bool good);
/* Ends the task early: the provider continues the operation, and reconciliation detects its end. */
void task_goes_on(struct core *core, struct machine_task *task);
/* Accepts a state that no step of the task leads to, and ends the task with `outcome`. */
void task_believe(struct core *core, struct machine_task *task, const struct call_answer *answer,
                  enum action_outcome outcome);
/* Ends a refused task. The machine becomes Failed with "<word>: <text>" and enters back-off. */
void task_refuse(struct core *core, struct machine_task *task, struct str text, bool most);

/* The task's deadline has passed. */
void task_due(struct core *core, struct machine_task *task);

/* A provider call: the machine's state `before` the call, `passing` while the provider works, and
 * `after` the call. Indexed by step. Steps that wait for an operator have no other fields than
 * `effect` and `passing`. */
struct call_rule {
    const char *word; /* the call's name, like "create"; NULL: the step makes no call */
    enum effect_kind effect;
    enum action_kind action; /* the action that begins with this call */
    enum planned_action planned;
    enum machine_state before, passing, after;
};
extern const struct call_rule call_rules[STEP_COUNT];
const struct call_rule *call_rule_of(enum action_kind action);
const struct call_rule *call_rule_passing(enum machine_state state); /* NULL: not a passing state */

/* -- Steps: each function ends the task or adds the next effect. call_begin: Create, Delete -- */
void call_begin(struct core *core, struct machine_task *task);
/* Applies the answer of any of the four calls, which the provider has executed or accepted. */
void call_acked(struct core *core, struct machine_task *task, const struct call_answer *answer);
void bootstrap_begin(struct core *core, struct machine_task *task);
/* Sends Configure, because the blob is available and a slot is free. Returns the machine to Idle if
 * no action may begin any more. */
void bootstrap_configure(struct core *core, struct machine_task *task);
void bootstrap_blob(struct core *core, struct machine_task *task, enum blob_end end,
                    struct str text);
void drain_begin(struct core *core, struct machine_task *task);
/* Updates the drains that wait for the operator of `cluster`, which connected or disconnected. */
void drains_session(struct core *core, struct str cluster, enum operator_link link);
void drain_facts(const struct core *core, struct str machine, mono_time now,
                 struct machine_facts *facts);
/* Drains a machine without its operator, which has already drained it. ERR_FULL, ERR_NOMEM. */
enum err drain_repeat(struct core *core, const struct machine *machine);
/* Ends the wait for the operator and returns the task to the queue. */
void drain_due(struct core *core, struct machine_task *task);

/* --- work: work.c --- */

enum work_kind {
    WORK_QUIET,   /* nothing to do; the record only keeps the number of refusals for a while */
    WORK_PASSING, /* the provider works on the machine; after a timeout the shard sends a Get, then
                   * repeats the call */
    WORK_DOUBT,   /* a call's outcome is unknown; Gets are sent until one reports a state */
    WORK_REFUSED, /* in back-off; then a Get is sent, and the state that it returns is accepted */
    WORK_FAILED,  /* the provider reports Failed; Deletes are sent, with growing pauses */
    WORK_DRAINED, /* The operator drained the machine, but the provider's Drain was not executed.
                   * The machine is Configured but takes no pods. The drain is repeated after the
                   * back-off. */
};
struct machine_work {
    struct table_link link;    /* in running_actions.works, keyed by machine id */
    struct machine_task *task; /* NULL: the machine has no task */
    struct list ended;         /* in running_actions.ended, or detached */
    struct heap_node due;      /* deadline of the task, or of this record if there is no task */
    struct kind *kind_held;    /* Configuring: the profile for requesting a blob; NULL: unknown */
    mono_time since;           /* start of the passing state */
    mono_time until;           /* REFUSED: end of the back-off */
    mono_time may_run; /* DOUBT: until then the unanswered call may be executed, even if the machine
                        * is as before the call */
    uint64_t grace_ms; /* grace period of a Draining machine */
    enum work_kind kind;
    enum machine_state passed_over; /* state of a List record that came during an action; 0: none */
    enum machine_state before;      /* DOUBT: the machine's state before the call */
    bool repeated;                  /* DOUBT: the call was a repetition, so the state before the
                                     * call may also be the passing state */
    uint32_t drained_for; /* hash of the cluster whose operator drained the machine; 0: none */
    uint8_t refusals;     /* refused actions in a row */
    uint8_t tries;        /* number of Gets in a row without a useful result */
    bool measured;        /* false: `since` is the time when the shard first saw the state */
    bool asked;           /* a Get is under way */
    bool stale;           /* an action began or a List had a record after the Get was sent, so the
                           * result of the Get may be outdated */
    bool again;           /* the next step repeats the call, without another Get */
    uint8_t id_len;
    char id[];
};
enum {
    /* The most Gets under way at once: `concurrency`, but at least ASKING_LEAST and at most
     * ASKING_MOST. Further Gets wait for a cycle. */
    ASKING_LEAST = 64,
    ASKING_MOST = 4096,
    DOUBT_FIRST_MS = 5 * 1000, /* first pause between useless Gets; doubles up to DOUBT_MOST_MS */
    DOUBT_MOST_MS = 300 * 1000,
    LIST_LATE_CYCLES = 3, /* if a List takes longer, Gets query machines in a passing state */
    DOUBT_TRIES_MOST = 5, /* Gets about a machine in a stable state; then a full List decides */
};

struct machine_work *work_find(const struct core *core, struct str machine); /* NULL: none */
/* Finds or creates the work record. NULL: out of memory. */
struct machine_work *work_make(struct core *core, struct str machine);
void work_due(struct core *core, struct machine_work *w, mono_time due);
/* Notes that the machine needs nothing beyond its task. A record of refusals stays for a while. */
void work_quiet(struct core *core, struct machine_work *w);
/* Notes that the machine needs nothing, and forgets its refusals. */
void work_forget(struct core *core, struct machine_work *w);
/* Frees the record if there is nothing to do or to remember. */
void work_settle(struct core *core, struct machine_work *w);
/* Undoes the inventory's plan for the machine. */
void work_unplan(struct core *core, struct machine_work *w);
/* Called when a task ends, to record what its machine needs next. */
void work_passing(struct core *core, const struct machine_task *task);
void work_doubt(struct core *core, const struct machine_task *task);
/* Accepts the state from a Get, because the last call was not and will not be executed. */
void work_ask(struct core *core, const struct machine_task *task);
/* Repeats the call later without a Get, because the provider was never called. */
void work_unsent(struct core *core, const struct machine_task *task);
/* Puts the machine in back-off after a refusal. After a refused drain, the machine is drained again
 * without waiting for the operator, if it turns out to be still Configured. */
void work_refused(struct core *core, const struct machine_task *task, bool most);
void work_failed(struct core *core, struct machine_work *w, bool most);
/* Notes the state that a List contained while the machine was pending. If the shard's state differs
 * later, the machine is queried by Get when a Get slot is free. */
void work_look(struct core *core, struct str machine, enum machine_state said);
/* Handles all due work. Called before the decision of a cycle. */
void works_run(struct core *core);

/* --- the state of all running actions --- */

struct running_actions {
    uint64_t bytes;
    struct slot_map slots; /* tasks, indexed by the low half of their number */
    struct list ended;     /* machine_work whose task ended while the current List was being read */
    struct list waiting;
    struct list ready; /* tasks that were held and may continue; they precede `waiting` */
    uint32_t serial;   /* high half of the last task number */
    bool dropped;      /* the full queue refused an action: request a cycle when it has room */
    bool list_open;
    uint32_t list_cycles; /* cycles since the current List began */
    bool deltas;          /* the provider sends deltas, with occasional full Lists */
    bool overlooked;      /* a List had a record of a machine with a pending action */
    struct table works;
    struct heap due;
    uint32_t asking;
    bool settle_due; /* calls of an earlier process have ended; the next List sets `settled` */
    bool settled;    /* no call of an earlier process can still be executed */
    bool settle_said;
    bool opened; /* `opened_at` is set */
    mono_time opened_at;
};
#endif
