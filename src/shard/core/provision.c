/* SPDX-License-Identifier: Apache-2.0 */
/* Provision: Speculative -> Creating -> Idle, then Bootstrap in the same action. A provider that
 * only begins to create is left to it: reconciling brings the machine to Idle. */
#include "shard/core/hands.h"

void provision_begin(struct core *core, struct machine_task *task, mono_time now,
                     struct effects *out)
{
    enum machine_state from = task->cause == CAUSE_STUCK ? MACHINE_CREATING : MACHINE_SPECULATIVE;
    struct machine m;

    if (!task->kind && task->cause == CAUSE_DECIDED) {
        task_end(core, task, OUTCOME_MISSING_PROFILE, STR("missing source profile"), now, out);
        return;
    }
    if (!task_machine(core, task, &m, now, out)) return;
    if (m.state != from) {
        task_end(core, task, OUTCOME_STALE_STATE, STR("expected Speculative"), now, out);
        return;
    }
    if (!task_ours(core, task, &m, now, out)) return;
    if (task->cause == CAUSE_DECIDED) {
        task->since = now;
        m.state = MACHINE_CREATING;
        m.destination = task->cluster;
        m.stamp = task_stamp(task);
        if (!task_move(core, task, &m, false, now, out)) return;
    }
    (void)task_call(core, task, EFFECT_CREATE, now, out);
}

void provision_answered(struct core *core, struct machine_task *task,
                        const struct call_answer *answer, mono_time now, struct effects *out)
{
    const struct machine *said = answer->machine;
    struct machine m;

    if (!task_machine(core, task, &m, now, out)) return;
    if (said->state != MACHINE_IDLE && said->state != MACHINE_CREATING) {
        task_believe(core, task, answer, OUTCOME_TRANSITION_ERROR, now, out);
        return;
    }
    machine_take(&m, said);
    m.state = said->state;
    if (said->state == MACHINE_IDLE) machine_unbind(&m);
    if (said->state == MACHINE_IDLE && task->cause == CAUSE_STUCK) /* kept for whom it was bought */
        m.promised = (struct machine_promise){.cluster = task->key.cluster,
                                              .fingerprint = task->key.fingerprint,
                                              .group = task->key.group,
                                              .priority = task->priority};
    if (!task_move(core, task, &m, true, now, out)) return;
    if (said->state == MACHINE_CREATING)
        task_goes_on(core, task, now, out);
    else if (task->cause == CAUSE_DECIDED && core_acts(core))
        bootstrap_begin(core, task, now, out);
    else /* held meanwhile, or made again long after the decision: a later cycle knows who wants it */
        task_done(core, task, false, now, out);
}
