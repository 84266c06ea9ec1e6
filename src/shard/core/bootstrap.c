/* SPDX-License-Identifier: Apache-2.0 */
/* Bootstrap: Idle -> Configuring -> Configured, with a blob from the operator in between.
 *
 * The stamp is put on before the provider is asked, so that the next decision counts the machine
 * for its Need, and so that an answer that is lost loses no protection. Until the blob is there
 * nothing was asked of the provider, and the way back is to Idle, with nothing left on the machine.
 *
 * The task holds no place while it waits for the blob (STEP_BLOB). With the blob it waits in
 * `ready` for a place, and then asks the provider. */
#include "model/metadata.h"
#include "shard/core/hands.h"

static bool blob_ask(struct core *core, struct machine_task *task, struct effects *out)
{
    const struct profile *profile = effects_profile(out, &task->kind->profile);
    struct effect *effect =
        profile ? task_effect(task, EFFECT_ASK_BLOB, core->options.bootstrap_timeout_ms, out)
                : NULL;

    if (effect) effect->profile = profile;
    return effect != NULL;
}

/* Nothing was asked of the provider: back to Idle, for the next cycle to derive again. One that was
 * stuck stays what the provider says it is. */
static void roll_back(struct core *core, struct machine_task *task, enum action_outcome outcome,
                      struct str text, mono_time now, struct effects *out)
{
    struct machine m;

    if (task->cause == CAUSE_STUCK) {
        concern_passing(core, task, now);
        task_end(core, task, outcome, text, now, out);
        return;
    }
    if (!task_machine(core, task, &m, now, out)) return;
    m.state = MACHINE_IDLE;
    m.last_error = STR_EMPTY;
    machine_unbind(&m);
    if (!task_move(core, task, &m, true, now, out)) return;
    task_end(core, task, outcome, text, now, out);
}

void bootstrap_begin(struct core *core, struct machine_task *task, mono_time now,
                     struct effects *out)
{
    struct machine m;

    if (!task->kind) {
        task_end(core, task, OUTCOME_MISSING_PROFILE, STR("missing source profile"), now, out);
        return;
    }
    if (!task_machine(core, task, &m, now, out)) return;
    if (m.state == MACHINE_CONFIGURED && str_equal(m.cluster, task->cluster) &&
        str_equal(m.stamp.fingerprint, task->key.fingerprint)) {
        task_done(core, task, false, now, out); /* it is what was wished for already */
        return;
    }
    if (m.state == MACHINE_IDLE) {
        if (!task_ours(core, task, &m, now, out)) return;
        task->since = now;
        m.state = MACHINE_CONFIGURING;
        m.cluster = task->cluster;
        m.stamp = task_stamp(task);
        if (!task_move(core, task, &m, false, now, out)) return;
    } else if (task->cause != CAUSE_STUCK || m.state != MACHINE_CONFIGURING) {
        task_end(core, task, OUTCOME_STALE_STATE, STR("expected Idle"), now, out);
        return;
    }
    if (core->counts.blobs_waiting >= core->options.blobs_max)
        roll_back(core, task, OUTCOME_BLOB_ERROR, STR("too many actions wait for a blob"), now,
                  out);
    else if (blob_ask(core, task, out))
        task_hold_for_blob(core, task, now);
    else
        roll_back(core, task, OUTCOME_OTHER, STR("out of memory"), now, out);
}

static bool configure_ask(struct core *core, struct machine_task *task, struct effects *out)
{
    struct machine_metadata metadata = {.stamp = task_stamp(task)};
    struct label pairs[METADATA_MAX];
    const struct label *kept;
    struct effect *effect;
    size_t count;

    if (metadata_encode(&core->scratch, &metadata, pairs, &count)) return false;
    if (effects_labels(out, pairs, count, &kept)) return false;
    effect = task_effect(task, EFFECT_CONFIGURE, core->options.execute_timeout_ms, out);
    if (!effect) return false;
    effect->configure.metadata = kept;
    effect->configure.metadata_count = count;
    return true;
}

void bootstrap_configure(struct core *core, struct machine_task *task, mono_time now,
                         struct effects *out)
{
    if (!core_acts(core))
        roll_back(core, task, OUTCOME_SUPPRESSED, str_from(core_hold_text(core)), now, out);
    else if (configure_ask(core, task, out))
        task_await(core, task, STEP_CONFIGURE, core->options.execute_timeout_ms, now);
    else
        roll_back(core, task, OUTCOME_OTHER, STR("out of memory"), now, out);
}

void bootstrap_blob(struct core *core, struct machine_task *task, enum blob_end end,
                    struct str text, mono_time now, struct effects *out)
{
    if (end != BLOB_NO_SESSION) effects_observe(out, OBSERVE_BLOB, task->asked, now);
    switch (end) {
    case BLOB_READY:
        task->blob = true;
        task_unhold(core, task);
        break;
    case BLOB_NO_SESSION:
        roll_back(core, task, OUTCOME_NO_SESSION, STR("no active operator session"), now, out);
        break;
    case BLOB_TIMEOUT:
        roll_back(core, task, OUTCOME_CTX_CANCELED, STR("no blob in time"), now, out);
        break;
    case BLOB_NO_ROOM:
        roll_back(core, task, OUTCOME_BLOB_ERROR, STR("no room for the blob: too many wait"), now,
                  out);
        break;
    case BLOB_ERROR: /* the machine is sound: if it rested, another would be bought in its place */
        roll_back(core, task, OUTCOME_BLOB_ERROR, text, now, out);
        break;
    }
}
