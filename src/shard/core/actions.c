/* SPDX-License-Identifier: Apache-2.0 */
/* Matches the provider's answers to tasks. Only this file ends tasks, so each task is counted and
 * audited exactly once. */
#include <stdio.h>

#include "shard/core/running_actions.h"

/* --- the record --- */

void machine_take(struct machine *machine, const struct machine *said)
{
    machine->attributes = said->attributes;
    machine->capacity_type = said->capacity_type;
    machine->resources = said->resources;
    machine->allocatable = said->allocatable;
    machine->price_per_hour = said->price_per_hour;
    machine->interruption_probability = said->interruption_probability;
    if (said->host_provider.len + said->host_ref.len) {
        machine->host_provider = said->host_provider;
        machine->host_ref = said->host_ref;
    }
    machine->last_error = STR_EMPTY;
}

void machine_unbind(struct machine *machine)
{
    machine->cluster = machine->destination = STR_EMPTY;
    machine->stamp = (struct machine_stamp){0};
}

struct machine_stamp task_stamp(const struct machine_task *task)
{
    return (struct machine_stamp){.priority = task->priority,
                                  .interruption_dollars = task->interruption_dollars,
                                  .reclamation_dollars = task->reclamation_dollars,
                                  .fingerprint = task->key.fingerprint,
                                  .group = task->key.group};
}

struct machine_promise task_promise(const struct machine_task *task)
{
    return (struct machine_promise){.cluster = task->key.cluster,
                                    .fingerprint = task->key.fingerprint,
                                    .group = task->key.group,
                                    .priority = task->priority};
}

bool task_machine(struct core *core, struct machine_task *task, struct machine *ret_machine)
{
    struct inventory_entry entry;
    enum err err = core_get(core, task->machine, &entry);

    if (!err) {
        *ret_machine = entry.machine;
        return true;
    }
    task_end(core, task, err == ERR_NOT_FOUND ? OUTCOME_INVENTORY_MISS : OUTCOME_OTHER,
             str_from(err_text(err)));
    return false;
}

bool task_ours(struct core *core, struct machine_task *task, const struct machine *machine)
{
    if (cordon_forbids(core, task, machine)) return false;
    if (task->cause != CAUSE_DECIDED || scope_has(core, &machine->attributes)) return true;
    task_end(core, task, OUTCOME_STALE_STATE, STR("its domain is not this shard's any more"));
    return false;
}

bool task_move(struct core *core, struct machine_task *task, const struct machine *to, bool asked)
{
    struct note note = {""};
    enum err err = core_move(core, to, INVENTORY_DRIVEN, NULL, &note);

    if (!err) return true;
    if (asked) work_doubt(core, task);
    task_end(core, task, err == ERR_NOMEM ? OUTCOME_OTHER : OUTCOME_TRANSITION_ERROR,
             note.text[0] ? str_from(note.text) : str_from(err_text(err)));
    return false;
}

/* --- effects --- */

struct effect *task_effect(struct core *core, const struct machine_task *task,
                           enum effect_kind kind, uint64_t timeout_ms)
{
    struct str machine, cluster;
    struct effect *effect;

    if (text_copy(&core->out->arena, task->machine, &machine) ||
        text_copy(&core->out->arena, task->cluster, &cluster))
        return NULL;
    effect = effects_add(core->out, kind);
    if (!effect) return NULL;
    effect->action = task->number;
    effect->machine = machine;
    effect->cluster = cluster;
    effect->timeout_ms = timeout_ms;
    return effect;
}

struct effect *task_call(struct core *core, struct machine_task *task, enum task_step step)
{
    uint64_t timeout_ms = core->options.execute_timeout_ms;
    struct effect *effect;

    if (!core_acts(core)) {
        task_suppress(core, task, true);
        return NULL;
    }
    effect = task_effect(core, task, call_rules[step].effect, timeout_ms);
    if (effect) {
        task_await(core, task, step, timeout_ms);
    } else {
        work_ask(core, task);
        task_end(core, task, OUTCOME_OTHER, STR("out of memory"));
    }
    return effect;
}

/* --- ends --- */

void action_audit(struct core *core, const struct machine_task *task, enum action_outcome outcome,
                  struct str error)
{
    static const char *const reasons[] = {
        [CAUSE_STUCK] = "stuck.again",
        [CAUSE_FAILED] = "failed.release",
        [CAUSE_RESUMED] = "operator.resumed",
        [CAUSE_MAINTENANCE] = "maintenance",
    };
    struct effect *effect;
    struct str text;

    if (text_copy(&core->out->arena, error, &text)) text = STR_EMPTY;
    effect = task_effect(core, task, EFFECT_AUDIT, 0);
    if (!effect) return;
    effect->audit.cycle = core->counts.cycles;
    effect->audit.kind = task->action;
    effect->audit.outcome = outcome;
    effect->audit.grace_ms = task->grace_ms;
    effect->audit.reason =
        task->cause == CAUSE_DECIDED ? action_reason(task->action) : reasons[task->cause];
    effect->audit.error = text;
}

void task_end(struct core *core, struct machine_task *task, enum action_outcome outcome,
              struct str error)
{
    core->counts.outcomes[task->action][outcome]++;
    action_audit(core, task, outcome, error);
    if (outcome == OUTCOME_SUPPRESSED) core->counts.suppressed[task->action]++;
    if (outcome != OUTCOME_SUCCESS && outcome != OUTCOME_SUPPRESSED) {
        bool fenced = outcome == OUTCOME_FENCED;
        core_log(core, fenced ? CORE_ERROR : CORE_WARN,
                 fenced ? "provider fenced this shard's mutation" : "action failed",
                 "kind=%s machine=%.*s cluster=%.*s outcome=%s error=%.*s",
                 action_kind_name(task->action), STR_ARG(task->machine), STR_ARG(task->cluster),
                 action_outcome_name(outcome), STR_ARG(error));
    }
    if (task->step != STEP_OPERATOR && task->step != STEP_BLOB) core->counts.inflight--;
    task_close(core, task);
}

void task_suppress(struct core *core, struct machine_task *task, bool ask)
{
    if (ask) work_ask(core, task);
    task_end(core, task, OUTCOME_SUPPRESSED, str_from(core_hold_text(core)));
}

void task_done(struct core *core, struct machine_task *task, bool good)
{
    if (good) work_forget(core, task->work);
    task_end(core, task, OUTCOME_SUCCESS, STR_EMPTY);
}

void task_goes_on(struct core *core, struct machine_task *task)
{
    work_passing(core, task);
    task_end(core, task, OUTCOME_SUCCESS, STR_EMPTY);
}

void task_believe(struct core *core, struct machine_task *task, const struct call_answer *answer,
                  enum action_outcome outcome)
{
    const struct machine *said = answer->machine;
    char text[MACHINE_NAME_CAP + 64], name[MACHINE_NAME_CAP];

    if (reconcile_got(core, answer)) {
        work_doubt(core, task);
        task_end(core, task, OUTCOME_PROVIDER_ERROR, STR("the ack's record was refused"));
        return;
    }
    (void)snprintf(text, sizeof text, "the provider says %s",
                   machine_state_name(said->state, name));
    if (said->state == MACHINE_FAILED) outcome = OUTCOME_PROVIDER_ERROR;
    task_end(core, task, outcome, outcome == OUTCOME_SUCCESS ? STR_EMPTY : str_from(text));
}

void task_refuse(struct core *core, struct machine_task *task, struct str text, bool most)
{
    char error[ERROR_TEXT_MAX];
    struct machine m;
    int len = snprintf(error, sizeof error, "%s: %.*s", call_rules[task->step].word,
                       (int)min_size(text.len, sizeof error - 32), text.len ? text.at : "");

    if (!task_machine(core, task, &m)) return;
    m.last_error = str_of(error, (size_t)len);
    if (task->cause == CAUSE_FAILED) { /* the machine already has an error text */
        work_failed(core, task->work, most);
    } else {
        m.state = MACHINE_FAILED;
        if (!task_move(core, task, &m, true)) return;
        work_refused(core, task, most);
    }
    task_end(core, task, OUTCOME_PROVIDER_ERROR, str_of(error, (size_t)len));
}

/* --- answers --- */

/* The provider has no stock: the machine is sound, and its pool is in back-off. */
static void task_unsold(struct core *core, struct machine_task *task, struct str text)
{
    struct note note = {""};
    struct machine m;

    if (!task_machine(core, task, &m)) return;
    m.state = MACHINE_SPECULATIVE;
    machine_unbind(&m);
    if (core_move(core, &m, INVENTORY_OBSERVED, NULL, &note)) work_doubt(core, task);
    task_end(core, task, OUTCOME_PROVIDER_ERROR, text.len ? text : STR("no stock"));
}

static void task_unknown(struct core *core, struct machine_task *task, struct str text)
{
    work_doubt(core, task);
    task_end(core, task, OUTCOME_CTX_CANCELED, text.len ? text : STR("no answer"));
}

/* Handles an answer with an invalid machine record. A Create then counts as refused, because the
 * machine would be unusable. */
static void task_garbled(struct core *core, struct machine_task *task, enum machine_fault fault,
                         struct note *note)
{
    core->counts.machines_rejected[fault]++;
    core_log(core, CORE_WARN, "provider machine rejected at ingest", "machine=%.*s why=%s",
             STR_ARG(task->machine), note->text);
    if (task->step == STEP_CREATE) {
        note_prefix(note, "ack rejected");
        task_refuse(core, task, str_from(note->text), false);
        return;
    }
    work_doubt(core, task);
    task_end(core, task, OUTCOME_PROVIDER_ERROR, str_from(note->text));
}

static void task_answered(struct core *core, struct machine_task *task,
                          const struct call_answer *answer)
{
    const struct machine *said = answer->machine;
    enum machine_fault fault = MACHINE_FAULT_STRUCTURAL;
    static const char *const no[] = {[CALL_REFUSED] = "",
                                     [CALL_NOT_FOUND] = "not found",
                                     [CALL_NOT_SUPPORTED] = "not supported"};
    struct note note = {"id: not the one that was asked for"};

    switch (answer->end) {
    case CALL_DONE:
        if (!said)
            task_unknown(core, task, answer->text);
        else if (!str_equal(said->id, task->machine) || machine_check(said, &fault, &note))
            task_garbled(core, task, fault, &note);
        else
            call_acked(core, task, answer);
        break;
    case CALL_UNKNOWN: task_unknown(core, task, answer->text); break;
    case CALL_UNSENT:
        if (!core_acts(core)) { /* accept the provider's state: the call will never be sent */
            task_suppress(core, task, true);
            break;
        }
        work_unsent(core, task);
        task_end(core, task, OUTCOME_PROVIDER_ERROR,
                 answer->text.len ? answer->text : STR("not sent"));
        break;
    case CALL_FENCED: /* the machine is sound; a newer process of this shard handles it */
        work_ask(core, task);
        task_end(core, task, OUTCOME_FENCED, answer->text);
        break;
    case CALL_NOT_SUPPORTED:
    case CALL_NOT_FOUND:
    case CALL_REFUSED:
        if (answer->end == CALL_NOT_SUPPORTED && task->step == STEP_DELETE)
            core->counts.delete_unsupported++;
        if (task->step == STEP_CREATE && pools_refused(core, task, answer)) {
            task_unsold(core, task, answer->text);
            break;
        }
        task_refuse(core, task, answer->text.len ? answer->text : str_from(no[answer->end]),
                    answer->end == CALL_NOT_SUPPORTED);
        break;
    }
}

static void concurrency_learn(struct core *core, const struct machine_task *task,
                              const struct call_answer *answer)
{
    bool overloaded =
        answer->end == CALL_UNKNOWN || answer->end == CALL_UNSENT ||
        (answer->exhausted && (task->step != STEP_CREATE || answer_is_throttling(answer)));
    uint64_t halvings = core->concurrency.halvings;

    concurrency_answered(&core->concurrency, task->step, task->asked, overloaded,
                         core->counts.inflight >= core->concurrency.limit, core->now);
    core->counts.concurrency = core->concurrency.limit;
    core->counts.concurrency_cuts = core->concurrency.halvings;
    if (core->concurrency.halvings == halvings) return;
    core_log(core, CORE_WARN, "the provider is overloaded: fewer calls run at once",
             "limit=%u kind=%s error=%.*s", (unsigned)core->concurrency.limit,
             call_rules[task->step].word, STR_ARG(answer->text));
}

void core_answered(struct core *core, uint64_t action, const struct call_answer *answer,
                   mono_time now, wall_time wall, struct effects *out)
{
    struct machine_task *task = task_numbered(core, action);

    core_begin_at(core, now, wall, out);
    if (task && call_rules[task->step].word) {
        concurrency_learn(core, task, answer);
        task_answered(core, task, answer);
    }
    running_start(core);
}

void core_blob(struct core *core, uint64_t action, enum blob_end end, struct str text,
               mono_time now, wall_time wall, struct effects *out)
{
    struct machine_task *task = task_numbered(core, action);

    core_begin_at(core, now, wall, out);
    if (task && task->step == STEP_BLOB) bootstrap_blob(core, task, end, text);
    running_start(core);
}

bool core_blob_waits(const struct core *core, uint64_t action)
{
    const struct machine_task *task = task_numbered(core, action);

    return task && task->step == STEP_WAITING && task->blob;
}

void task_due(struct core *core, struct machine_task *task)
{
    if (task->step == STEP_WAITING) return; /* the deadline was set for an earlier effect */
    if (task->step == STEP_OPERATOR)
        drain_due(core, task);
    else if (task->step == STEP_BLOB)
        bootstrap_blob(core, task, BLOB_TIMEOUT, STR("never answered"));
    else
        task_unknown(core, task, STR("never answered"));
}
