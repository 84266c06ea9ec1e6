/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks: create, wait, start, close. A bounded queue, first in, first out. The queue retries
 * nothing.
 *
 * Waiting purchases begin last, so that machines that were begun are finished first.
 *
 *   waiting --free slot--> running --waits for operator or blob--> held
 *                             ^                                      |
 *                             +--free slot--- ready <--it arrived----+
 *
 * A held task uses no slot of the running tasks, so a silent operator delays only its own cluster.
 *
 * No task begins under the kill switch, in shadow mode, or when a newer process of this shard is
 * active. After a restart no task begins for execute_timeout_ms: a call of the earlier process may
 * still run, and a provider shows the old state until the call is done. */
#include <stdlib.h>

#include "base/memory.h"
#include "shard/core/running_actions.h"

/* --- whether an action may begin --- */

bool core_acts(const struct core *core)
{
    return !core->options.paused && !core->options.dry_run && !core->fenced;
}

const char *core_hold_text(const struct core *core)
{
    if (core->fenced) return "fenced by a newer process of this shard";
    if (core->options.paused) return "actuation is paused";
    return core->options.dry_run ? "dry-run" : "";
}

void running_settle(struct core *core)
{
    struct running_actions *h = core->running;
    mono_time due = mono_after(h->opened_at, core->options.execute_timeout_ms);

    if (h->settled) return;
    if (!h->settle_said)
        core_log(core, CORE_INFO,
                 "no action starts yet: calls of the previous process may still run",
                 "most_ms=%llu", (unsigned long long)core->options.execute_timeout_ms);
    h->settle_said = true;
    h->settle_due = h->settle_due || mono_due(due, core->now);
}

void core_hold(struct core *core, enum core_hold why, mono_time now, wall_time wall,
               struct effects *out)
{
    uint32_t waiting = core->counts.queued;

    core_begin_at(core, now, wall, out);
    if (why == CORE_FENCED)
        core->fenced = true;
    else
        core->options.paused = true;
    running_start(core);
    core_log(core, CORE_WARN, "the shard starts no more actions", "why=%s dropped=%u under_way=%u",
             core_hold_text(core), (unsigned)waiting, (unsigned)core->counts.inflight);
}

/* --- open and close --- */

enum err running_open(struct core *core)
{
    struct running_actions *h = calloc(1, sizeof *h);

    if (!h) return ERR_NOMEM;
    list_init(&h->waiting);
    list_init(&h->creates);
    list_init(&h->ready);
    list_init(&h->ended);
    h->settled = !core->options.restarted;
    heap_init(&h->due, core->options.machines_max);
    core->running = h;
    return ERR_OK;
}

/* the task must not be in a list */
static void task_free(struct core *core, struct machine_task *task)
{
    task->work->task = NULL;
    kind_release(core->needs, task->kind);
    memory_give(&core->running->bytes, task, task->size);
}

void running_close(struct core *core)
{
    struct running_actions *h = core->running;

    if (!h) return;
    for (uint32_t i = 0; i < h->works.bucket_count; i++)
        while (h->works.buckets[i]) {
            struct machine_work *w = CONTAINER_OF(h->works.buckets[i], struct machine_work, link);
            if (w->task) task_free(core, w->task);
            list_init(&w->ended);
            work_forget(core, w);
        }
    heap_deinit(&h->due);
    table_deinit(&h->works, &h->bytes);
    slot_map_deinit(&h->slots, &h->bytes);
    assert(h->bytes == 0);
    free(h);
    core->running = NULL;
}

/* --- lookup --- */

struct machine_task *task_find(const struct core *core, struct str machine)
{
    const struct machine_work *w = work_find(core, machine);

    return w ? w->task : NULL;
}

struct machine_task *task_numbered(const struct core *core, uint64_t number)
{
    const struct slot_map *slots = &core->running->slots;
    uint32_t slot = (uint32_t)number;
    struct machine_task *task = slot < slots->used ? slot_map_get(slots, slot) : NULL;

    return task && task->number == number ? task : NULL;
}

bool task_ended_in_list(const struct core *core, struct str machine)
{
    const struct machine_work *w = work_find(core, machine);

    return w && !list_empty(&w->ended);
}

bool core_is_pending(const struct core *core, struct str machine)
{
    return task_find(core, machine) || task_ended_in_list(core, machine);
}

void running_listed(struct core *core, struct str machine, enum machine_state said)
{
    struct machine_work *w = work_find(core, machine);

    if (!w) return;
    w->stale = w->asked;
    if (!w->task && list_empty(&w->ended)) return;
    w->passed_over = said;
    core->running->overlooked = true;
}

/* --- creation --- */

/* One block with the task and its texts. The task is in no table yet. */
static struct machine_task *task_make(struct core *core, const struct action *action)
{
    size_t size = sizeof(struct machine_task) + action->machine.len + action->cluster.len +
                  action->key.cluster.len + action->key.fingerprint.len + action->key.group.len;
    struct machine_task *task = memory_take(&core->running->bytes, size);
    char *at;

    if (!task) return NULL;
    at = (char *)(task + 1);
    *task = (struct machine_task){.action = action->kind,
                                  .priority = action->priority,
                                  .interruption_dollars = action->interruption_dollars,
                                  .reclamation_dollars = action->reclamation_dollars,
                                  .grace_ms = action->grace_ms,
                                  .size = size};
    task->machine = text_put(&at, action->machine);
    task->cluster = text_put(&at, action->cluster);
    task->key.cluster = text_put(&at, action->key.cluster);
    task->key.fingerprint = text_put(&at, action->key.fingerprint);
    task->key.group = text_put(&at, action->key.group);
    list_init(&task->place);
    return task;
}

/* A task that can start immediately needs no room in the queue. */
static bool queue_full(const struct core *core)
{
    uint64_t room = (uint64_t)core->options.queue_max;

    if (core->counts.inflight < core->concurrency.limit)
        room += core->concurrency.limit - core->counts.inflight;
    return core->counts.queued >= room;
}

enum err task_open(struct core *core, const struct action *action, const struct profile *profile,
                   enum task_cause cause, struct machine_task **ret_task)
{
    struct running_actions *h = core->running;
    struct machine_task *task;
    struct machine_work *work;
    uint32_t slot;
    enum err err = ERR_OK;

    if (queue_full(core)) return ERR_FULL;
    work = work_make(core, action->machine);
    if (!work) return ERR_NOMEM;
    assert(!work->task);
    task = task_make(core, action);
    if (!task) goto no_task;
    task->work = work;
    if (profile) err = kind_hold(core->needs, profile, &task->kind);
    if (!err) err = slot_map_take(&h->slots, task, &slot, &h->bytes);
    if (err) goto no_number;
    work->task = task;
    h->serial += h->serial == UINT32_MAX ? 2 : 1; /* never 0: action number 0 means none */
    task->number = (uint64_t)h->serial << 32 | slot;
    task->cause = cause;
    task->planned = cause != CAUSE_DECIDED; /* tasks of other causes need no plan */
    list_append(task->action == ACTION_PROVISION ? &h->creates : &h->waiting, &task->place);
    pools_task_opened(core, task);
    core->counts.queued++;
    core->counts.actions[task->action]++;
    work_quiet(core, work); /* the new task replaces the machine's pending work */
    *ret_task = task;
    return ERR_OK;

no_number:
    task_free(core, task);
no_task:
    work_settle(core, work);
    return task ? err : ERR_NOMEM;
}

void task_shield(struct core *core, struct str machine)
{
    struct running_actions *h = core->running;
    struct machine_work *w;

    if (!h->list_open || core_is_pending(core, machine)) return;
    w = work_make(core, machine);
    if (w) list_append(&h->ended, &w->ended);
}

static struct plan task_plan(const struct machine_task *task)
{
    struct plan plan = {.action = call_rule_of(task->action)->planned};

    if (plan.action == PLANNED_DRAIN) {
        plan.promised = task_promise(task);
    } else if (plan.action != PLANNED_DELETE) {
        plan.cluster = task->cluster;
        plan.stamp = task_stamp(task);
    }
    return plan;
}

void task_drop(struct core *core, struct machine_task *task)
{
    core->counts.dropped++;
    core->counts.actions[task->action]--;
    core->counts.queued--;
    core->running->dropped = true;
    task_close(core, task);
}

static void tasks_plan_list(struct core *core, struct list *list)
{
    for (struct list *place = list->prev, *next; place != list; place = next) {
        struct machine_task *task = CONTAINER_OF(place, struct machine_task, place);
        struct plan plan = task_plan(task);
        if (task->planned) break; /* all earlier tasks are planned */
        next = place->prev;
        task->planned = true;
        if (inventory_plan(core->inventory, task->machine, &plan, NULL) == ERR_OK) continue;
        /* Without a plan the next decision would decide the action a second time, so the task is
         * dropped. */
        task_drop(core, task);
    }
}

void tasks_plan(struct core *core)
{
    tasks_plan_list(core, &core->running->waiting);
    tasks_plan_list(core, &core->running->creates);
}

/* --- closing --- */

/* Called when a task has ended, or at the end of the List that was open then. */
static void work_task_ended(struct core *core, struct machine_work *w)
{
    enum machine_state said = w->passed_over;

    if (w->task) return; /* a new task exists already */
    w->passed_over = MACHINE_UNSPECIFIED;
    /* Only for deltas: otherwise the next List repeats the record. */
    if (said && core->running->deltas) work_look(core, str_of(w->id, w->id_len), said);
    if (w->kind == WORK_QUIET) work_quiet(core, w);
}

static void task_wait_end(struct core *core, struct machine_task *task)
{
    if (task->step == STEP_OPERATOR) core->counts.drains_waiting--;
    if (task->step == STEP_BLOB) core->counts.blobs_waiting--;
}

void task_close(struct core *core, struct machine_task *task)
{
    struct running_actions *h = core->running;
    struct machine_work *w = task->work;

    work_unplan(core, w);
    pools_task_closed(core, task);
    slot_map_give(&h->slots, (uint32_t)task->number);
    task_wait_end(core, task);
    list_remove(&task->place);
    task_free(core, task);
    if (w->asked && !w->due.place) /* the task's deadlines replaced the deadline of the Get */
        work_due(core, w, mono_after(core->now, core->options.execute_timeout_ms + OVERDUE_MS));
    if (!h->list_open)
        work_task_ended(core, w);
    else if (list_empty(&w->ended))
        list_append(&h->ended, &w->ended);
}

void running_list_begin(struct core *core, enum list_kind kind)
{
    struct running_actions *h = core->running;

    h->list_open = true;
    h->list_cycles = 0;
    if (kind == LIST_FULL || h->deltas) return;
    h->deltas = true;
    /* Earlier full Lists skipped pending machines, and a delta does not repeat their records. */
    if (h->overlooked) core->full_list_wanted = true;
}

void running_list_end(struct core *core)
{
    struct running_actions *h = core->running;

    h->list_open = false;
    LIST_EACH_SAFE(&h->ended, place, next)
    {
        list_remove(place);
        work_task_ended(core, CONTAINER_OF(place, struct machine_work, ended));
    }
}

/* --- running --- */

void task_await(struct core *core, struct machine_task *task, enum task_step step,
                uint64_t timeout_ms)
{
    task->step = step;
    task->asked = core->now;
    work_due(core, task->work, mono_after(core->now, timeout_ms + OVERDUE_MS));
}

void task_hold(struct core *core, struct machine_task *task, enum task_step step, mono_time until)
{
    work_due(core, task->work, until);
    task->step = step;
    task->asked = core->now;
    core->counts.inflight--;
    ++*(step == STEP_OPERATOR ? &core->counts.drains_waiting : &core->counts.blobs_waiting);
}

void task_unhold(struct core *core, struct machine_task *task)
{
    task_wait_end(core, task);
    heap_remove(&core->running->due, &task->work->due);
    task->step = STEP_WAITING;
    task->planned = true; /* a Draining or Configuring machine needs no plan */
    list_append(&core->running->ready, &task->place);
    core->counts.queued++;
}

static void task_begin(struct core *core, struct machine_task *task)
{
    if (task->blob) {
        bootstrap_configure(core, task);
        return;
    }
    switch (task->action) {
    case ACTION_PROVISION:
    case ACTION_DELETE: call_begin(core, task); break;
    case ACTION_BOOTSTRAP: bootstrap_begin(core, task); break;
    case ACTION_PREEMPT:
    case ACTION_RECLAIM: drain_begin(core, task); break;
    }
}

/* Machines that were begun come first, purchases last. NULL: none. */
static struct machine_task *task_next(const struct running_actions *h)
{
    const struct list *from = !list_empty(&h->ready)     ? &h->ready
                              : !list_empty(&h->waiting) ? &h->waiting
                                                         : &h->creates;

    return list_empty(from) ? NULL : CONTAINER_OF(from->next, struct machine_task, place);
}

/* Ends all waiting tasks, because no action may begin any more. */
static void tasks_suppress(struct core *core)
{
    struct running_actions *h = core->running;
    struct machine_task *task;

    while ((task = task_next(h))) {
        list_remove(&task->place);
        core->counts.queued--;
        core->counts.inflight++;
        if (task->blob) {
            bootstrap_configure(core, task); /* cancels: moves the machine back to Idle */
            continue;
        }
        /* A Get follows if the machine is in a transitional state, Failed, or drained by its
         * operator. */
        task_suppress(core, task, task->cause != CAUSE_DECIDED || task->draining);
    }
}

void running_start(struct core *core)
{
    struct running_actions *h = core->running;
    struct machine_task *task;

    if (!core_acts(core)) tasks_suppress(core);
    while (h->settled && core->counts.inflight < core->concurrency.limit && (task = task_next(h))) {
        list_remove(&task->place);
        core->counts.queued--;
        core->counts.inflight++;
        arena_reset(&core->scratch); /* thousands of tasks may begin in one event */
        task_begin(core, task);
    }
    /* Requests a cycle when the queue is a quarter full, to refill the queue in time. */
    if (h->dropped && core->counts.queued <= core->options.queue_max / 4 &&
        effects_add(core->out, EFFECT_CYCLE_SOON)) {
        h->dropped = false;
    }
    core_end(core);
}
