/* Reclaim and Preempt: Configured -> Draining -> Idle. The operator hears of it first, so that its
 * evictions run ahead of the provider's drain; nobody waits for them, the grace keeps the two
 * together. For whom the machine is drained stays on it as a promise. */
#include "shard/core/hands.h"

static bool reclaim_tell(struct core *core, struct task *task, struct effects *out)
{
    struct effect *effect;

    if (!core_has_session(core, task->cluster)) {
        if (task->action == ACTION_RECLAIM)
            core_log(out, CORE_WARN,
                     "reclaim fallback: no operator session; PDB-respecting drain skipped",
                     "machine=%.*s cluster=%.*s", STR_ARG(task->machine), STR_ARG(task->cluster));
        return true;
    }
    effect = task_effect(task, EFFECT_RECLAIM, 0, out);
    if (!effect) return false;
    effect->drain.grace_ms = task->grace_ms;
    effect->drain.preemptor_priority = task->action == ACTION_PREEMPT ? task->priority : 0;
    return true;
}

static bool draining(struct core *core, struct task *task, struct machine *m, mono_time now,
                     wall_time wall, struct effects *out)
{
    if (!reclaim_tell(core, task, out)) { /* nothing began: derived again */
        task_end(core, task, OUTCOME_OTHER, STR("out of memory"), now, out);
        return false;
    }
    task->since = now;
    m->state = MACHINE_DRAINING;
    m->promised = (struct machine_promise){0};
    if (task->key.cluster.len)
        m->promised = (struct machine_promise){.cluster = task->key.cluster,
                                               .fingerprint = task->key.fingerprint,
                                               .group = task->key.group,
                                               .priority = task->priority,
                                               .at = wall};
    return task_move(core, task, m, false, now, out);
}

void drain_begin(struct core *core, struct task *task, mono_time now, wall_time wall,
                 struct effects *out)
{
    bool again = task->cause == CAUSE_STUCK;
    struct effect *effect;
    struct machine m;

    if (!task_machine(core, task, &m, now, out)) return;
    if (m.state != (again ? MACHINE_DRAINING : MACHINE_CONFIGURED) ||
        !str_equal(m.cluster, task->cluster)) {
        task_done(core, task, false, now, out); /* nothing is left to do */
        return;
    }
    if (!again && !draining(core, task, &m, now, wall, out)) return;
    effect = task_call(core, task, EFFECT_DRAIN, now, out);
    if (!effect) return;
    effect->drain.grace_ms = task->grace_ms;
    effect->drain.preemptor_priority = task->action == ACTION_PREEMPT ? task->priority : 0;
}

void drain_answered(struct core *core, struct task *task, const struct call_answer *answer,
                    mono_time now, struct effects *out)
{
    const struct machine *said = answer->machine;
    struct machine m;

    if (said->state == MACHINE_DRAINING) {
        task_goes_on(core, task, now, out);
        return;
    }
    if (said->state != MACHINE_IDLE) {
        task_believe(core, task, answer, OUTCOME_TRANSITION_ERROR, now, out);
        return;
    }
    if (!task_machine(core, task, &m, now, out)) return;
    machine_take(&m, said);
    m.state = MACHINE_IDLE;
    machine_unbind(&m); /* the promise stays: the machine is kept for that Need for a while */
    if (!task_move(core, task, &m, true, now, out)) return;
    effects_observe(out, OBSERVE_DRAIN, task->since, now);
    task_done(core, task, true, now, out);
}
