/* SPDX-License-Identifier: Apache-2.0 */
/* The provider calls: how each call changes a machine, and how its answer changes the task.
 *
 *   Create      Speculative -> Creating -> Idle, then Bootstrap in the same action
 *   Configure   Idle -> Configuring -> Configured, with a blob from the operator in between
 *   Drain       Configured -> Draining -> Idle (begins in drain.c)
 *   Delete      Idle -> Deleting -> Speculative; a Failed machine stays Failed until the provider
 *               reports another state
 *
 * If a provider answers before the operation is done, the task ends, and reconciliation detects the
 * end of the operation. Decide thread. */
#include "model/metadata.h"
#include "shard/core/running_actions.h"

const struct call_rule call_rules[STEP_COUNT] = {
    [STEP_OPERATOR] = {.passing = MACHINE_DRAINING},
    [STEP_BLOB] = {.effect = EFFECT_ASK_BLOB, .passing = MACHINE_CONFIGURING},
    [STEP_CREATE] = {"create", EFFECT_CREATE, ACTION_PROVISION, PLANNED_PROVISION,
                     MACHINE_SPECULATIVE, MACHINE_CREATING, MACHINE_IDLE},
    [STEP_CONFIGURE] = {"configure", EFFECT_CONFIGURE, ACTION_BOOTSTRAP, PLANNED_BOOTSTRAP,
                        MACHINE_IDLE, MACHINE_CONFIGURING, MACHINE_CONFIGURED},
    [STEP_DRAIN] = {"drain", EFFECT_DRAIN, ACTION_RECLAIM, PLANNED_DRAIN, MACHINE_CONFIGURED,
                    MACHINE_DRAINING, MACHINE_IDLE},
    [STEP_DELETE] = {"delete", EFFECT_DELETE, ACTION_DELETE, PLANNED_DELETE, MACHINE_IDLE,
                     MACHINE_DELETING, MACHINE_SPECULATIVE},
};

const struct call_rule *call_rule_of(enum action_kind action)
{
    static const enum task_step steps[] = {
        [ACTION_BOOTSTRAP] = STEP_CONFIGURE, [ACTION_PROVISION] = STEP_CREATE,
        [ACTION_PREEMPT] = STEP_DRAIN,       [ACTION_RECLAIM] = STEP_DRAIN,
        [ACTION_DELETE] = STEP_DELETE,
    };

    return &call_rules[steps[action]];
}

const struct call_rule *call_rule_passing(enum machine_state state)
{
    for (enum task_step step = STEP_CREATE; step < STEP_COUNT; step++)
        if (call_rules[step].word && call_rules[step].passing == state) return &call_rules[step];
    return NULL;
}

void call_begin(struct core *core, struct machine_task *task)
{
    const struct call_rule *rule = call_rule_of(task->action);
    enum machine_state from = task->cause == CAUSE_STUCK ? rule->passing : rule->before;
    bool create = task->action == ACTION_PROVISION;
    struct machine m;

    if (create && !task->kind && task->cause == CAUSE_DECIDED) {
        task_end(core, task, OUTCOME_MISSING_PROFILE, STR("missing source profile"));
        return;
    }
    if (!task_machine(core, task, &m)) return;
    if (m.state != (task->cause == CAUSE_FAILED ? MACHINE_FAILED : from)) {
        if (create)
            task_end(core, task, OUTCOME_STALE_STATE, STR("expected Speculative"));
        else
            task_done(core, task, false); /* nothing is left to do */
        return;
    }
    if (!task_ours(core, task, &m)) return;
    if (task->cause == CAUSE_FAILED) core->counts.given_back++;
    if (task->cause == CAUSE_DECIDED) {
        task->since = core->now;
        m.state = rule->passing;
        if (create) {
            m.destination = task->cluster;
            m.stamp = task_stamp(task);
        }
        if (!task_move(core, task, &m, false)) return;
    }
    (void)task_call(core, task, create ? STEP_CREATE : STEP_DELETE);
}

/* --- Bootstrap --- */

/* The stamp is set before the provider is called, so that a lost answer does not lose the Need. The
 * provider is called only after the blob has arrived, so a return to Idle leaves nothing on the
 * machine. */

static bool steps_blob_ask(struct core *core, struct machine_task *task)
{
    const struct profile *profile = effects_profile(core->out, &task->kind->profile);
    struct effect *effect =
        profile ? task_effect(core, task, EFFECT_ASK_BLOB, core->options.bootstrap_timeout_ms)
                : NULL;

    if (effect) effect->profile = profile;
    return effect != NULL;
}

/* Returns the machine to Idle, because the provider was not called. For a repeated call the machine
 * keeps the provider's state. */
static void roll_back(struct core *core, struct machine_task *task, enum action_outcome outcome,
                      struct str text)
{
    struct machine m;

    if (task->cause == CAUSE_STUCK) {
        work_passing(core, task);
        task_end(core, task, outcome, text);
        return;
    }
    if (!task_machine(core, task, &m)) return;
    m.state = MACHINE_IDLE;
    m.last_error = STR_EMPTY;
    machine_unbind(&m);
    if (!task_move(core, task, &m, true)) return;
    task_end(core, task, outcome, text);
}

void bootstrap_begin(struct core *core, struct machine_task *task)
{
    struct machine m;

    if (!task->kind) {
        task_end(core, task, OUTCOME_MISSING_PROFILE, STR("missing source profile"));
        return;
    }
    if (task->cause == CAUSE_DECIDED && blob_rests(core, &task->key)) {
        task_end(core, task, OUTCOME_BLOB_ERROR, STR("pause after the operator's error"));
        return;
    }
    if (!task_machine(core, task, &m)) return;
    if (m.state == MACHINE_CONFIGURED && str_equal(m.cluster, task->cluster) &&
        str_equal(m.stamp.fingerprint, task->key.fingerprint)) {
        task_done(core, task, false); /* already in the desired state */
        return;
    }
    if (m.state == MACHINE_IDLE) {
        if (!task_ours(core, task, &m)) return;
        task->since = core->now;
        m.state = MACHINE_CONFIGURING;
        m.cluster = task->cluster;
        m.stamp = task_stamp(task);
        if (!task_move(core, task, &m, false)) return;
    } else if (task->cause != CAUSE_STUCK || m.state != MACHINE_CONFIGURING) {
        task_end(core, task, OUTCOME_STALE_STATE, STR("expected Idle"));
        return;
    }
    if (core->counts.blobs_waiting >= core->options.blobs_max)
        roll_back(core, task, OUTCOME_BLOB_ERROR, STR("too many actions wait for a blob"));
    else if (steps_blob_ask(core, task))
        task_hold(core, task, STEP_BLOB,
                  mono_after(core->now, core->options.bootstrap_timeout_ms + OVERDUE_MS));
    else
        roll_back(core, task, OUTCOME_OTHER, STR("out of memory"));
}

static bool configure_ask(struct core *core, struct machine_task *task)
{
    struct machine_metadata metadata = {.stamp = task_stamp(task)};
    struct label pairs[METADATA_MAX];
    const struct label *kept;
    struct effect *effect;
    size_t count;

    if (metadata_encode(&core->scratch, &metadata, pairs, &count)) return false;
    if (effects_labels(core->out, pairs, count, &kept)) return false;
    effect = task_effect(core, task, EFFECT_CONFIGURE, core->options.execute_timeout_ms);
    if (!effect) return false;
    effect->configure.metadata = kept;
    effect->configure.metadata_count = count;
    return true;
}

void bootstrap_configure(struct core *core, struct machine_task *task)
{
    struct machine m;

    if (!task_machine(core, task, &m)) return;
    if (m.cordon == CORDON_EMPTY && task->cause == CAUSE_DECIDED)
        roll_back(core, task, OUTCOME_STALE_STATE, STR("the machine must be emptied"));
    else if (!core_acts(core))
        roll_back(core, task, OUTCOME_SUPPRESSED, str_from(core_hold_text(core)));
    else if (configure_ask(core, task))
        task_await(core, task, STEP_CONFIGURE, core->options.execute_timeout_ms);
    else
        roll_back(core, task, OUTCOME_OTHER, STR("out of memory"));
}

void bootstrap_blob(struct core *core, struct machine_task *task, enum blob_end end,
                    struct str text)
{
    if (end != BLOB_NO_SESSION) effects_observe(core->out, OBSERVE_BLOB, task->asked, core->now);
    switch (end) {
    case BLOB_READY:
        blob_rests_note(core, &task->key, false);
        task->blob = true;
        task_unhold(core, task);
        break;
    case BLOB_NO_SESSION:
        roll_back(core, task, OUTCOME_NO_SESSION, STR("no active operator session"));
        break;
    case BLOB_TIMEOUT: roll_back(core, task, OUTCOME_CTX_CANCELED, STR("no blob in time")); break;
    case BLOB_NO_ROOM:
        roll_back(core, task, OUTCOME_BLOB_ERROR, STR("no room for the blob: too many wait"));
        break;
    case BLOB_ERROR:
        blob_rests_note(core, &task->key, true);
        roll_back(core, task, OUTCOME_BLOB_ERROR, text);
        break;
    }
}

/* --- answers to calls --- */

/* Sets the fields that the shard owns. */
static void ack_bind(const struct machine_task *task, struct machine *m, bool done)
{
    if (task->step == STEP_CONFIGURE) {
        m->cluster = task->cluster;
        m->stamp = task_stamp(task);
    } else if (done) { /* the promise stays, so that the machine is kept for its Need */
        machine_unbind(m);
        if (task->step == STEP_DELETE) m->host_provider = m->host_ref = STR_EMPTY;
        if (task->step == STEP_CREATE && task->cause == CAUSE_STUCK)
            m->promised = task_promise(task); /* keep the machine for the Need that bought it */
    }
}

static void ack_done(struct core *core, struct machine_task *task)
{
    if (task->step == STEP_CONFIGURE)
        effects_observe(core->out, OBSERVE_CONFIGURE, task->since, core->now);
    if (task->step == STEP_DRAIN) effects_observe(core->out, OBSERVE_DRAIN, task->since, core->now);
    if (task->step == STEP_CREATE && task->cause == CAUSE_DECIDED && core_acts(core))
        bootstrap_begin(core, task);
    else /* The shard is held, or a Create was repeated: a later cycle uses the machine. */
        task_done(core, task, task->step != STEP_CREATE);
}

static void ack_of_failed(struct core *core, struct machine_task *task,
                          const struct call_answer *answer)
{
    const struct machine *said = answer->machine;

    if (said->state == MACHINE_FAILED)
        task_refuse(core, task, said->last_error, false);
    else
        task_believe(core, task, answer, OUTCOME_SUCCESS);
}

void call_acked(struct core *core, struct machine_task *task, const struct call_answer *answer)
{
    const struct call_rule *rule = &call_rules[task->step];
    const struct machine *said = answer->machine;
    bool done = said->state == rule->after, configure = task->step == STEP_CONFIGURE;
    struct machine m;

    if (task->cause == CAUSE_FAILED) {
        ack_of_failed(core, task, answer);
        return;
    }
    if (configure && said->state == MACHINE_IDLE) { /* harmless: the next cycle retries */
        task_believe(core, task, answer, OUTCOME_RACED_TO_IDLE);
        return;
    }
    if ((!done && said->state != rule->passing) ||
        (configure && said->cluster.len && !str_equal(said->cluster, task->cluster))) {
        task_believe(core, task, answer, OUTCOME_TRANSITION_ERROR);
        return;
    }
    if (task->step == STEP_CREATE) pools_accepted(core, task);
    if (!task_machine(core, task, &m)) return;
    machine_take(&m, said);
    m.state = said->state;
    ack_bind(task, &m, done);
    if (!task_move(core, task, &m, true)) return;
    if (task->step == STEP_DELETE && task->cause == CAUSE_DECIDED) core->counts.idle_releases++;
    if (done)
        ack_done(core, task);
    else
        task_goes_on(core, task);
}
