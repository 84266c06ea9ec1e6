/* SPDX-License-Identifier: Apache-2.0 */
/* Reclaim and Preempt: Configured -> Draining -> Idle.
 *
 *   Reclaim to the operator --> waits (STEP_OPERATOR) --> the provider's Drain --> Idle
 *
 * The operator cordons the node and evicts the pods. The wait ends when the operator reports the
 * machine drained, or when the grace period ends. An operator that disconnects has
 * operator_return_ms to return. Without an operator that reports its drains, the provider drains
 * immediately.
 *
 * A process that starts during the wait finds the machine Configured. The operator reports the
 * reclaim that it is executing, and the drain continues from there (CAUSE_RESUMED).
 *
 * If the provider refuses Drain after the operator has drained the machine, the machine takes no
 * pods any more, so the drain is repeated (WORK_DRAINED, drain_repeat). */
#include "shard/core/running_actions.h"

/* The provider gets at least this time for the shutdown. */
enum { PROVIDER_GRACE_LEAST_MS = 30 * 1000 };

const char *drain_wait_name(enum drain_wait wait)
{
    static const char *const names[DRAIN_WAIT_COUNT] = {
        [DRAIN_WAIT_DRAINED] = "drained",
        [DRAIN_WAIT_GRACE_ENDED] = "grace_ended",
        [DRAIN_WAIT_AWAY] = "operator_away",
        [DRAIN_WAIT_NO_OPERATOR] = "no_operator",
    };

    assert(wait < DRAIN_WAIT_COUNT);
    return names[wait];
}

static mono_time grace_end(const struct machine_task *task)
{
    return mono_after(task->since, task->grace_ms);
}

/* --- the operator to wait for --- */

/* Sets *ret_until to the end of the wait for an absent operator. False: no wait. */
static bool operator_returns_until(const struct core *core, struct str cluster,
                                   mono_time *ret_until)
{
    const struct cluster_client *client = client_find(&core->clients, cluster);

    if (client && client->met) {
        *ret_until = mono_after(client->left, core->options.operator_return_ms);
        return client->reports_drains;
    }
    *ret_until = mono_after(core->running->opened_at, core->options.operator_return_ms);
    return core->options.restarted && core->options.operators_reported;
}

/* Sets *ret_until to the end of the wait for the task's operator. False: no wait. */
static bool operator_wait(struct core *core, struct machine_task *task, mono_time *ret_until)
{
    const struct cluster_client *client = client_find(&core->clients, task->cluster);
    mono_time returns = {0}, end = mono_after(core->now, task->grace_ms);

    *ret_until = end;
    if (client && client->session) return client->reports_drains && !mono_due(end, core->now);
    if (operator_returns_until(core, task->cluster, &returns) && !mono_due(returns, core->now)) {
        *ret_until = mono_min(end, returns);
        core_log(core, CORE_WARN, "drain waits for an operator that is disconnected",
                 "machine=%.*s cluster=%.*s most_ms=%llu", STR_ARG(task->machine),
                 STR_ARG(task->cluster),
                 (unsigned long long)mono_elapsed_ms(core->now, *ret_until));
        return !mono_due(*ret_until, core->now);
    }
    core->counts.drain_waits[DRAIN_WAIT_NO_OPERATOR]++;
    core_log(core, CORE_WARN,
             task->action == ACTION_RECLAIM
                 ? "reclaim fallback: no operator session; PDB-respecting drain skipped"
                 : "preempt fallback: no operator session; PDB-respecting drain skipped",
             "machine=%.*s cluster=%.*s", STR_ARG(task->machine), STR_ARG(task->cluster));
    return false;
}

/* Sends the reclaim if the operator has a session. False: out of memory. */
static bool operator_reclaim(struct core *core, struct machine_task *task, uint64_t grace_ms)
{
    struct effect *effect;

    if (!core_has_session(core, task->cluster)) return true;
    effect = task_effect(core, task, EFFECT_RECLAIM, 0);
    if (!effect) return false;
    effect->drain.grace_ms = grace_ms;
    effect->drain.preemptor_priority = task->action == ACTION_PREEMPT ? task->priority : 0;
    return true;
}

/* --- start --- */

static bool drain_start(struct core *core, struct machine_task *task, struct machine *m)
{
    /* The operator that reported a resumed drain already has the reclaim. */
    if (task->cause != CAUSE_RESUMED && !operator_reclaim(core, task, task->grace_ms)) {
        /* nothing began; a later cycle decides the action again */
        task_end(core, task, OUTCOME_OTHER, STR("out of memory"));
        return false;
    }
    task->since = core->now;
    task->draining = true;
    m->state = MACHINE_DRAINING;
    m->promised = (struct machine_promise){0};
    if (task->key.cluster.len) m->promised = task_promise(task);
    if (task->key.cluster.len) m->promised.at = core->wall;
    return task_move(core, task, m, false);
}

/* Returns the remaining grace period, but at least PROVIDER_GRACE_LEAST_MS and at most the whole
 * grace period. The whole grace period of a resumed drain is unknown. */
static uint64_t provider_grace_ms(const struct machine_task *task, mono_time now)
{
    uint64_t left = mono_elapsed_ms(now, grace_end(task));

    if (!task->draining) return task->grace_ms;
    if (task->cause == CAUSE_RESUMED) return max_u64(left, PROVIDER_GRACE_LEAST_MS);
    return min_u64(task->grace_ms, max_u64(left, PROVIDER_GRACE_LEAST_MS));
}

static void drain_call(struct core *core, struct machine_task *task)
{
    uint64_t grace_ms = provider_grace_ms(task, core->now);
    struct effect *effect;

    /* Earlier List records of the machine no longer matter. */
    task->work->passed_over = MACHINE_UNSPECIFIED;
    effect = task_call(core, task, STEP_DRAIN);
    if (!effect) return;
    effect->drain.grace_ms = grace_ms;
    effect->drain.preemptor_priority = task->action == ACTION_PREEMPT ? task->priority : 0;
}

void drain_begin(struct core *core, struct machine_task *task)
{
    bool again = task->cause == CAUSE_STUCK || task->draining, wait = false;
    struct inventory_entry entry;
    mono_time until = {0};
    struct machine m;

    if (again && core_get(core, task->machine, &entry) == ERR_NOMEM) {
        /* the call is repeated later */
        work_unsent(core, task);
        task_end(core, task, OUTCOME_OTHER, STR("out of memory"));
        return;
    }
    if (!task_machine(core, task, &m)) return;
    if (m.state != (again ? MACHINE_DRAINING : MACHINE_CONFIGURED) ||
        !str_equal(m.cluster, task->cluster)) {
        task_done(core, task, false); /* nothing is left to do */
        return;
    }
    if (!again) {
        if (cordon_forbids(core, task, &m)) return;
        wait = !task->drained && operator_wait(core, task, &until);
        if (!drain_start(core, task, &m)) return;
    }
    if (wait)
        task_hold(core, task, STEP_OPERATOR, until);
    else
        drain_call(core, task);
}

/* --- the wait --- */

static struct machine_task *drain_held(const struct core *core, struct str machine)
{
    struct machine_task *task = task_find(core, machine);

    return task && task->step == STEP_OPERATOR ? task : NULL;
}

static void drain_wait_over(struct core *core, struct machine_task *task, enum drain_wait wait)
{
    core->counts.drain_waits[wait]++;
    task->drained = true;
    task_unhold(core, task);
}

void drain_due(struct core *core, struct machine_task *task)
{
    bool ended = mono_due(grace_end(task), core->now);

    core_log(core, CORE_WARN,
             ended ? "grace period ended before the operator reported the machine drained"
                   : "operator did not reconnect in time to drain a machine",
             "machine=%.*s cluster=%.*s waited_ms=%llu", STR_ARG(task->machine),
             STR_ARG(task->cluster), (unsigned long long)mono_elapsed_ms(task->since, core->now));
    drain_wait_over(core, task, ended ? DRAIN_WAIT_GRACE_ENDED : DRAIN_WAIT_AWAY);
}

/* --- operators that connect and disconnect --- */

/* The operator may have missed or lost the reclaim, so the reclaim is sent again with the same
 * number. */
static void operator_is_back(struct core *core, struct machine_task *task, enum operator_link link)
{
    uint64_t left_ms = mono_elapsed_ms(core->now, grace_end(task));

    if (left_ms && task->cause != CAUSE_RESUMED) (void)operator_reclaim(core, task, left_ms);
    if (link >= OPERATOR_REPORTS_DRAINS)
        work_due(core, task->work, grace_end(task));
    else
        drain_wait_over(core, task, DRAIN_WAIT_NO_OPERATOR);
}

void drains_session(struct core *core, struct str cluster, enum operator_link link)
{
    mono_time until = mono_after(core->now, core->options.operator_return_ms);
    const struct slot_map *slots = &core->running->slots;
    size_t held = 0;

    for (uint32_t i = 0; core->counts.drains_waiting && i < slots->used; i++) {
        struct machine_task *task = slot_map_get(slots, i);
        if (!task || task->step != STEP_OPERATOR || !str_equal(task->cluster, cluster)) continue;
        held++;
        if (link != OPERATOR_AWAY)
            operator_is_back(core, task, link);
        else
            work_due(core, task->work, mono_min(grace_end(task), until));
    }
    if (held && link == OPERATOR_CONNECTED) (void)effects_add(core->out, EFFECT_CYCLE_SOON);
    if (held && link == OPERATOR_AWAY)
        core_log(core, CORE_WARN, "operator disconnected while it drains machines",
                 "cluster=%.*s machines=%zu return_ms=%llu", STR_ARG(cluster), held,
                 (unsigned long long)core->options.operator_return_ms);
}

/* --- reports --- */

/* True if this process assigned the number. A number of an earlier process passes by chance with a
 * probability below one in a billion. */
static bool number_is_ours(const struct core *core, uint64_t number)
{
    uint32_t serial = (uint32_t)(number >> 32), slot = (uint32_t)number;

    return serial && serial <= core->running->serial && slot < core->running->slots.used;
}

/* True while reclaims of an earlier process may be active: RECLAIM_GRACE_MS plus operator_return_ms
 * after the start. */
static bool earlier_orders_count(const struct core *core)
{
    const struct running_actions *h = core->running;
    uint64_t most_ms = add_sat_u64(RECLAIM_GRACE_MS, core->options.operator_return_ms);

    return core->options.restarted &&
           (!h->opened || mono_elapsed_ms(h->opened_at, core->now) < most_ms);
}

/* Creates a drain whose reclaim the operator already has. */
static enum err drain_open(struct core *core, struct str machine, struct str cluster,
                           uint64_t grace_ms, bool drained)
{
    struct action action = {.kind = ACTION_RECLAIM,
                            .machine = machine,
                            .cluster = cluster,
                            .grace_ms = drained ? PROVIDER_GRACE_LEAST_MS : grace_ms};
    struct machine_task *task;
    enum err err = task_open(core, &action, NULL, CAUSE_RESUMED, &task);

    if (!err) task->drained = drained;
    return err;
}

/* Continues a reclaim that an earlier process of this shard ordered. */
static void drain_resume(struct core *core, const struct drain_report *report)
{
    const struct machine_work *w = work_find(core, report->machine);
    uint64_t left_ms = min_u64(report->left_ms, RECLAIM_GRACE_MS);
    struct inventory_entry entry;

    if (!core_acts(core) || !earlier_orders_count(core)) return;
    if (w && w->kind != WORK_QUIET) return; /* the machine's state is unknown */
    if (core_get(core, report->machine, &entry) || entry.machine.state != MACHINE_CONFIGURED ||
        !str_equal(entry.machine.cluster, report->cluster))
        return;
    if (drain_open(core, report->machine, report->cluster, left_ms, report->drained))
        return; /* the operator repeats the report */
    core_log(core, CORE_WARN, "resumed a drain that began before the shard restarted",
             "machine=%.*s cluster=%.*s drained=%s left_ms=%llu", STR_ARG(report->machine),
             STR_ARG(report->cluster), report->drained ? "true" : "false",
             (unsigned long long)left_ms);
}

enum err drain_repeat(struct core *core, const struct machine *machine)
{
    enum err err = drain_open(core, machine->id, machine->cluster, 0, true);

    if (!err)
        core_log(
            core, CORE_WARN,
            "provider did not drain a machine that the operator has emptied: repeating the Drain",
            "machine=%.*s cluster=%.*s", STR_ARG(machine->id), STR_ARG(machine->cluster));
    return err;
}

void core_drain_report(struct core *core, const struct drain_report *report, mono_time now,
                       wall_time wall, struct effects *out)
{
    struct machine_task *task = task_find(core, report->machine);

    core_begin_at(core, now, wall, out);
    if (!task) {
        if (!number_is_ours(core, report->action)) drain_resume(core, report);
    } else if (task->step == STEP_OPERATOR && str_equal(task->cluster, report->cluster) &&
               (task->number == report->action || task->cause == CAUSE_RESUMED)) {
        if (report->drained)
            drain_wait_over(core, task, DRAIN_WAIT_DRAINED);
        else if (report->error.len)
            core_log(core, CORE_WARN, "operator could not drain a machine",
                     "machine=%.*s cluster=%.*s error=%.*s", STR_ARG(task->machine),
                     STR_ARG(task->cluster), STR_ARG(report->error));
    }
    running_start(core);
}

void drain_facts(const struct core *core, struct str machine, mono_time now,
                 struct machine_facts *facts)
{
    const struct machine_task *task = drain_held(core, machine);

    if (!task) return;
    facts->operator_drains = true;
    facts->operator_away = !core_has_session(core, task->cluster);
    facts->operator_left_ms = mono_elapsed_ms(now, (mono_time){task->work->due.due});
}

/* --- records from the provider during the wait --- */

bool running_waits_for_operator(const struct core *core, struct str machine)
{
    return drain_held(core, machine) && !task_ended_in_list(core, machine);
}

bool running_overtaken(struct core *core, struct str machine, const struct machine *said)
{
    struct machine_task *task = drain_held(core, machine);

    if (!task || task_ended_in_list(core, machine)) return false;
    if (said && said->state == MACHINE_CONFIGURED && str_equal(said->cluster, task->cluster))
        return false;         /* unchanged since the wait began */
    work_passing(core, task); /* if memory runs out below, the machine is checked later */
    task_end(core, task, OUTCOME_STALE_STATE,
             said ? STR("the machine changed while its operator drained it")
                  : STR("the machine went while its operator drained it"));
    return true;
}
