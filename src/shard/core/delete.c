/* SPDX-License-Identifier: Apache-2.0 */
/* Delete: Idle -> Deleting -> Speculative; and of a machine that the provider calls Failed, which
 * stays Failed until the provider says otherwise. */
#include "shard/core/hands.h"

void delete_begin(struct core *core, struct machine_task *task, mono_time now, struct effects *out)
{
    static const enum machine_state from[] = {[CAUSE_DECIDED] = MACHINE_IDLE,
                                              [CAUSE_STUCK] = MACHINE_DELETING,
                                              [CAUSE_FAILED] = MACHINE_FAILED};
    struct machine m;

    if (!task_machine(core, task, &m, now, out)) return;
    if (m.state != from[task->cause]) {
        task_done(core, task, false, now, out); /* nothing is left to do */
        return;
    }
    if (!task_ours(core, task, &m, now, out)) return;
    if (task->cause == CAUSE_FAILED) core->counts.given_back++;
    if (task->cause == CAUSE_DECIDED) {
        task->since = now;
        m.state = MACHINE_DELETING;
        if (!task_move(core, task, &m, false, now, out)) return;
    }
    (void)task_call(core, task, EFFECT_DELETE, now, out);
}

void delete_answered(struct core *core, struct machine_task *task, const struct call_answer *answer,
                     mono_time now, struct effects *out)
{
    const struct machine *said = answer->machine;
    struct machine m;

    if (task->cause == CAUSE_FAILED) {
        if (said->state == MACHINE_FAILED)
            task_refuse(core, task, "delete", said->last_error, OUTCOME_PROVIDER_ERROR, false, now,
                        out);
        else
            task_believe(core, task, answer, OUTCOME_SUCCESS, now, out);
        return;
    }
    if (said->state != MACHINE_SPECULATIVE && said->state != MACHINE_DELETING) {
        task_believe(core, task, answer, OUTCOME_TRANSITION_ERROR, now, out);
        return;
    }
    if (!task_machine(core, task, &m, now, out)) return;
    machine_take(&m, said);
    m.state = said->state;
    if (said->state == MACHINE_SPECULATIVE) {
        m.host_provider = m.host_ref = STR_EMPTY;
        machine_unbind(&m);
    }
    if (!task_move(core, task, &m, true, now, out)) return;
    if (task->cause == CAUSE_DECIDED) core->counts.idle_releases++;
    if (said->state == MACHINE_DELETING)
        task_goes_on(core, task, now, out);
    else
        task_done(core, task, true, now, out);
}
