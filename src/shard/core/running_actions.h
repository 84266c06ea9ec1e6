/* SPDX-License-Identifier: Apache-2.0 */
/* The actions that run, and the machines that the shard must come back to.
 *
 *   task   an action, from the moment it is queued until its last effect was answered. At most one
 *          per machine; meanwhile the machine is *pending*
 *   work   what the shard has to do with a machine: its task, or why and when it must look at the
 *          machine again. At most one per machine
 *
 * A machine in a passing state or Failed always has a task or such a reason, so that none is stuck
 * for ever (tests/lib/shard_check.h). The work is made before a task or such a state begins, so
 * that no end of a task lacks memory for what follows. A machine has one deadline at a time:
 * `due`.
 *
 *   queue.c    tasks: made, waiting, started, closed     steps.c, drain.c: what each step begins,
 *   actions.c  answers find their task; how it ends      and what an ack makes of the machine
 *   work.c     machines that have no task */
#ifndef SHARD_CORE_RUNNING_ACTIONS_H
#define SHARD_CORE_RUNNING_ACTIONS_H
#include "base/heap.h"
#include "base/list.h"
#include "shard/core/core_internal.h"
#include "shard/state/kinds.h"

/* --- tasks: queue.c --- */

enum task_step {
    STEP_WAITING,
    STEP_OPERATOR, /* Draining: the operator evicts; the provider was not asked yet. Not running */
    STEP_CREATE,   /* asked for, not answered, and so on */
    STEP_BLOB,     /* the operator was asked for a bootstrap blob. Not running */
    STEP_CONFIGURE,
    STEP_DRAIN,
    STEP_DELETE,
    STEP_COUNT
};
enum task_cause {
    CAUSE_DECIDED,
    CAUSE_STUCK,   /* its passing state lasts: the call is made again */
    CAUSE_FAILED,  /* the provider calls it Failed: it is given back by Delete */
    CAUSE_RESUMED, /* its operator drains it, by the order of an earlier process of this shard */
};
struct machine_task {
    struct machine_work *work; /* of its machine: there is one as long as there is a task */
    struct list place;         /* among the waiting; alone while it runs */
    uint64_t number;           /* the action of its effects */
    struct kind *kind;         /* Bootstrap, Provision: the profile of the Need; held */
    enum action_kind action;
    enum task_step step;
    enum task_cause cause;
    bool planned;  /* the inventory counts it as begun, or need not */
    bool draining; /* the machine was made Draining, and the operator has the reclaim */
    bool drained;  /* the operator need not be waited for any more */
    bool blob;     /* the driver has the blob: Configure is next */
    int32_t priority;
    double interruption_dollars, reclamation_dollars;
    uint64_t grace_ms;
    mono_time since, asked; /* its passing state began; the step's effect was made */
    struct str machine, cluster;
    struct need_key key; /* as in struct action */
    size_t size;         /* of the block that holds the task and its texts */
};

enum { OVERDUE_MS = 60 * 1000 }; /* beyond an effect's own deadline */

/* Makes a task that waits, or says why not: ERR_FULL, ERR_NOMEM. Texts are copied. */
enum err task_open(struct core *core, const struct action *action, const struct profile *profile,
                   enum task_cause cause, struct machine_task **ret_task);
/* The plan for it, if there is one, and the task itself go; the machine is not pending any more. */
void task_close(struct core *core, struct machine_task *task);
struct machine_task *task_find(const struct core *core, struct str machine); /* NULL */
struct machine_task *task_numbered(const struct core *core, uint64_t number);
/* A task of the machine ended while the List was that is read now: its record may be older. */
bool task_ended_in_list(const struct core *core, struct str machine);
/* Get has said what the machine is while a List is read, whose record may be older. Without memory
 * for that the List is believed, and the next one corrects it. */
void task_shield(struct core *core, struct str machine);
/* Plans in the inventory what the newest of those that wait will make of their machines. */
void tasks_plan(struct core *core);
/* Starts what there is room for, once the core is settled, and ends the event (core_end). The last
 * call in every event that may have ended a task. */
void running_start(struct core *core);
/* Is it time for the List that settles the core? In every cycle. */
void running_settle(struct core *core);
/* The next answer of this task is due in `timeout_ms`. */
void task_await(struct core *core, struct machine_task *task, enum task_step step,
                uint64_t timeout_ms);
/* A task that runs gives its place to others and waits until `until`: for the operator
 * (STEP_OPERATOR), or for a bootstrap blob (STEP_BLOB). */
void task_hold(struct core *core, struct machine_task *task, enum task_step step, mono_time until);
/* What a held task waited for has come: it goes on before any task that has not begun. */
void task_unhold(struct core *core, struct machine_task *task);

/* --- how they go: actions.c --- */

/* Counts, audits and closes. `error` is empty on success. */
void task_end(struct core *core, struct machine_task *task, enum action_outcome outcome,
              struct str error);
/* Ends a task that may not act any more. `ask`: Get shows what the machine is. */
void task_suppress(struct core *core, struct machine_task *task, bool ask);
/* The audit's line of an action that ended, or was not begun. */
void action_audit(struct core *core, const struct machine_task *task, enum action_outcome outcome,
                  struct str error);
/* An effect of the task: NULL when out of memory. */
struct effect *task_effect(struct core *core, const struct machine_task *task,
                           enum effect_kind kind, uint64_t timeout_ms);
/* A call of the provider, whose answer is awaited. NULL: without memory for it, or when nothing may
 * begin any more, the task is ended, the machine waits in its passing state, and Get brings it
 * back. */
struct effect *task_call(struct core *core, struct machine_task *task, enum task_step step);
/* The live record of the task's machine. When there is none the task is ended: false. */
bool task_machine(struct core *core, struct machine_task *task, struct machine *ret_machine);
/* What was decided before its machine's domain was taken away is not begun any more: the machine is
 * another shard's. Then the task is ended: false. */
bool task_ours(struct core *core, struct machine_task *task, const struct machine *machine);
/* Moves the machine by our own hand. When that cannot be done the task is ended, and if `asked` is
 * set the machine is in doubt, because the provider has heard of it: false. */
bool task_move(struct core *core, struct machine_task *task, const struct machine *to, bool asked);
/* What the provider owns of a record. */
void machine_take(struct machine *machine, const struct machine *said);
void machine_unbind(struct machine *machine); /* no cluster, no destination, no stamp */
/* What was bought for whom. */
struct machine_stamp task_stamp(const struct machine_task *task);
struct machine_promise task_promise(const struct machine_task *task);
/* The machine is as wished now. `good`: what was refused before is forgotten. */
void task_done(struct core *core, struct machine_task *task, bool good);
/* The provider goes on with it by itself; reconciling finishes it. */
void task_goes_on(struct core *core, struct machine_task *task);
/* The state of an ack that no step of ours leads to: it is believed. */
void task_believe(struct core *core, struct machine_task *task, const struct call_answer *answer,
                  enum action_outcome outcome);
/* A definite no before or from the provider: Failed with "<word>: <text>", and it rests. */
void task_refuse(struct core *core, struct machine_task *task, struct str text, bool most);

/* What the task waits for did not come in time. */
void task_due(struct core *core, struct machine_task *task);

/* What a call of the provider makes of a machine: it is `before`, `passing` while the provider
 * works on it, then `after`. By step; of those that wait for an operator: effect and `passing`. */
struct call_rule {
    const char *word; /* "create"; NULL: no call */
    enum effect_kind effect;
    enum action_kind action; /* that begins with the call */
    enum planned_action planned;
    enum machine_state before, passing, after;
};
extern const struct call_rule call_rules[STEP_COUNT];
const struct call_rule *call_rule_of(enum action_kind action);
const struct call_rule *call_rule_passing(enum machine_state state); /* NULL: a state that lasts */

/* The steps: each ends the task or asks for the next effect. Create and Delete: */
void call_begin(struct core *core, struct machine_task *task);
/* The provider has carried out the call, or has begun to: any of the four. */
void call_acked(struct core *core, struct machine_task *task, const struct call_answer *answer);
void bootstrap_begin(struct core *core, struct machine_task *task);
/* The blob is there, and so is a place: Configure. When nothing may begin any more, back to Idle. */
void bootstrap_configure(struct core *core, struct machine_task *task);
void bootstrap_blob(struct core *core, struct machine_task *task, enum blob_end end,
                    struct str text);
void drain_begin(struct core *core, struct machine_task *task);
/* The operator of `cluster` came or went: the drains that wait for it. */
void drains_session(struct core *core, struct str cluster, enum operator_link link);
void drain_facts(const struct core *core, struct str machine, mono_time now,
                 struct machine_facts *facts);
/* Drains a machine, without its operator, that the operator has drained before. ERR_FULL,
 * ERR_NOMEM. */
enum err drain_repeat(struct core *core, const struct machine *machine);
/* The wait for the operator is over: back to the queue. */
void drain_due(struct core *core, struct machine_task *task);

/* --- work: work.c --- */

enum work_kind {
    WORK_QUIET,   /* nothing to do but to remember refusals for a while */
    WORK_PASSING, /* the provider works on it; when that lasts, Get, then the call again */
    WORK_DOUBT,   /* it is unknown how a call ended: Get until the provider says it */
    WORK_REFUSED, /* rests; then Get, and what it says is believed */
    WORK_FAILED,  /* the provider calls it Failed: Delete, with growing pauses */
    WORK_DRAINED, /* its operator has drained it, and the provider's Drain did not come to be: it
                        serves and takes no pod. Drained again when its rest is over */
};
struct machine_work {
    struct table_link link;    /* by machine */
    struct machine_task *task; /* NULL: none */
    struct list ended;         /* in running_actions.ended, or alone */
    struct heap_node due;      /* of the task's wait while there is a task */
    struct kind *kind_held;    /* Configuring: the profile to ask a blob for; NULL: not known */
    mono_time since;           /* the passing state began */
    mono_time until;           /* REFUSED: rests */
    mono_time may_run; /* DOUBT: until then the call that was not answered may still be carried
                               out, although the machine is as before the call */
    uint64_t grace_ms; /* Draining */
    enum work_kind kind;
    enum machine_state passed_over; /* what a List said of it while it was pending; 0: nothing */
    enum machine_state before;      /* ... which is this state, ... */
    bool repeated;                  /* ... or the passing state that made us call again */
    uint32_t drained_for; /* hash of the cluster whose operator has drained the machine; 0: none */
    uint8_t refusals;     /* in a row */
    uint8_t tries;        /* Gets in a row that said nothing */
    bool measured;        /* `since` is ours, not when we first saw it */
    bool asked;           /* a Get is under way ... */
    bool stale;           /* ... and an action began or a List named it since: it may be older */
    bool again;           /* it still passes, or was not asked for: the call is to be made again */
    uint8_t id_len;
    char id[];
};
enum {
    ASKING_LEAST = 64,          /* Gets under way at once: as many as actions, but so many ... */
    ASKING_MOST = 4096,         /* ... and at most so many; the rest waits for a cycle */
    DOUBT_FIRST_MS = 5 * 1000,  /* between Gets that said nothing, doubling ... */
    DOUBT_MOST_MS = 300 * 1000, /* ... up to here */
    LIST_LATE_CYCLES = 3,       /* a List takes longer: what passes is asked for by Get meanwhile */
    DOUBT_TRIES_MOST = 5,       /* of a machine that does not pass; then a full List decides */
};

struct machine_work *work_find(const struct core *core, struct str machine); /* NULL */
/* The machine's, made if there is none. NULL: no memory. */
struct machine_work *work_make(struct core *core, struct str machine);
void work_due(struct core *core, struct machine_work *w, mono_time due);
/* Nothing is to be done about the machine but its task, or to remember refusals for a while. */
void work_quiet(struct core *core, struct machine_work *w);
/* Nothing is to be done about it, and what was refused is forgotten. */
void work_forget(struct core *core, struct machine_work *w);
/* Frees it when nothing is to be done or to be remembered. */
void work_settle(struct core *core, struct machine_work *w);
/* Undoes what is planned for the machine. */
void work_unplan(struct core *core, struct machine_work *w);
/* How a task left its machine. */
void work_passing(struct core *core, const struct machine_task *task);
void work_doubt(struct core *core, const struct machine_task *task);
/* The last call was not carried out and will not be: the machine is what Get says. */
void work_ask(struct core *core, const struct machine_task *task);
/* The provider was not asked at all: the call is made again, without a Get. */
void work_unsent(struct core *core, const struct machine_task *task);
/* Of a drain it is remembered when the operator need not be waited for any more: a machine that
 * turns out to be Configured still is drained again. */
void work_refused(struct core *core, const struct machine_task *task, bool most);
void work_failed(struct core *core, struct machine_work *w, bool most);
/* A List said this of it while it was pending. If that differs: Get, when there is time. */
void work_look(struct core *core, struct str machine, enum machine_state said);
/* What is due. Before the decision of a cycle. */
void works_run(struct core *core);

/* --- all of it --- */

struct running_actions {
    uint64_t bytes;
    struct rooms slots; /* by the low half of a task's number */
    struct list ended;  /* work whose task ended while the List was that is read now */
    struct list waiting;
    struct list ready; /* held tasks that may go on; before those of `waiting` */
    uint32_t serial;   /* the high half of the last number */
    bool dropped; /* an action found the queue full: a cycle is to follow when it has drained */
    bool list_open;
    uint32_t list_cycles; /* since the List that is read began */
    bool deltas;          /* Lists are deltas, but for some */
    bool overlooked;      /* a List named a pending machine */
    struct table works;
    struct heap due;
    uint32_t asking;
    bool settle_due; /* calls of an earlier process are over: the next List is believed */
    bool settled;    /* no call of an earlier process may still be carried out */
    bool settle_said;
    bool opened; /* `opened_at` is known */
    mono_time opened_at;
};
#endif
