/* SPDX-License-Identifier: Apache-2.0 */
/* The cycle: due work, the decision, the safety limits, and queueing.
 *
 * A decision is valid until the inventory changes. Therefore everything that reads the decision
 * comes first, and machines are changed afterwards. Before the first complete List the shard
 * decides nothing, because it would buy machines again that already serve. */
#include "shard/core/running_actions.h"
#include "shard/state/cohort.h"

struct turn { /* data of one cycle */
    const struct decision *decision;
    struct rails_passed passed;
    core_mark_fn *mark; /* may be NULL */
    void *mark_context;
};

const char *cycle_phase_name(enum cycle_phase phase)
{
    static const char *const names[PHASE_COUNT] = {"reconcile", "snapread", "phase1", "phase2",
                                                   "phase3",    "emit",     "execute"};

    return names[phase];
}

static void mark_end(const struct turn *turn, enum cycle_phase phase)
{
    if (turn->mark) turn->mark(turn->mark_context, phase);
}

static void mark_decide(void *context, enum decide_part part)
{
    mark_end(context, PHASE_SNAPREAD + (enum cycle_phase)part);
}

static enum err decide_now(struct core *core, struct turn *turn)
{
    struct decide_input input;
    enum err err;

    decide_input_init(&input, core->now);
    memcpy(input.idle_hold_ms, core->options.idle_hold_ms, sizeof input.idle_hold_ms);
    input.weights = core->options.weights;
    input.mark = mark_decide;
    input.mark_context = turn;
    input.parked = parking_parked(core->parking, &input.parked_count);
    err = decide(core->decider, &input, &turn->decision);
    /* If memory runs out, the ages are updated a cycle later. */
    if (!err) (void)parking_note(core->parking, turn->decision);
    if (!err) (void)ledger_note(core->ledger, turn->decision);
    return err;
}

/* --- safety limits --- */

/* If no action may begin, the safety limits are not applied: held actions would request another
 * cycle without end. */
static enum err rails_now(struct core *core, struct turn *turn)
{
    struct rails_options rails = {0};
    enum err err;

    if (core_acts(core) && core->running->settled) rails = core->options.rails;
    err = occupancy_admit(core, turn->decision, &rails.withheld);
    if (!err)
        err = rails_pass(turn->decision, core->inventory, &rails, &core->scratch, &turn->passed);
    if (err) return err;
    if (turn->passed.reclaims_held) {
        core->counts.capped += turn->passed.reclaims_held;
        core_log(core, CORE_WARN, "reclaim blast-radius cap engaged", "deferred=%zu cycle=%llu",
                 turn->passed.reclaims_held, (unsigned long long)core->counts.cycles);
    }
    return ERR_OK;
}

/* --- no actions: paused, fenced, shadow mode --- */

static void actions_hold(struct core *core, struct turn *turn)
{
    bool dry = !core->options.paused && !core->fenced;

    for (size_t i = 0; i < turn->passed.action_count; i++) {
        const struct action *action = turn->passed.actions[i];
        const struct machine_task unbegun = {.machine = action->machine,
                                             .cluster = action->cluster,
                                             .action = action->kind,
                                             .cause = CAUSE_DECIDED,
                                             .grace_ms = action->grace_ms};
        (dry ? core->counts.dryrun : core->counts.suppressed)[action->kind]++;
        if (dry)
            core_log(core, CORE_INFO, "dry-run: would execute action",
                     "kind=%s machine=%.*s cluster=%.*s reason=%s", action_kind_name(action->kind),
                     STR_ARG(action->machine), STR_ARG(action->cluster),
                     action_reason(action->kind));
        action_audit(core, &unbegun, dry ? OUTCOME_DRYRUN : OUTCOME_SUPPRESSED, STR_EMPTY);
    }
    if (turn->passed.action_count && !dry)
        core_log(core, CORE_WARN,
                 core->fenced ? "fenced: decided actions suppressed"
                              : "actuation paused: decided actions suppressed",
                 "actions=%zu cycle=%llu", turn->passed.action_count,
                 (unsigned long long)core->counts.cycles);
}

/* --- queueing --- */

/* True if the action must not be queued, because the machine is not in the state in which the
 * action begins, its state is in doubt, or it is in back-off. */
static bool moot(struct core *core, const struct action *action)
{
    const struct machine_row *row = inventory_row(core->inventory, action->machine);
    const struct machine_work *w = work_find(core, action->machine);

    if (w && (w->kind == WORK_DOUBT || !mono_due(w->until, core->now))) return true;
    return task_find(core, action->machine) ||
           (row &&
            row_actual(core->inventory, row)->traits.state != call_rule_of(action->kind)->before);
}

/* Finds the verdict of an action: Phase 1 lists its actions in the order of the verdicts. */
struct buyers {
    size_t at, end;
};

static const struct profile *buyer_of(const struct decision *decision, struct buyers *b,
                                      const struct action *action)
{
    const struct need_verdict *v;

    if (action->kind != ACTION_BOOTSTRAP && action->kind != ACTION_PROVISION) return NULL;
    while (b->end <= (size_t)(action - decision->actions)) {
        assert(b->at < decision->verdict_count);
        v = &decision->verdicts[b->at++];
        b->end += (size_t)v->bootstraps + v->provisions;
    }
    v = &decision->verdicts[b->at - 1];
    assert(str_equal(v->need->key.fingerprint, action->key.fingerprint));
    return v->need->profile;
}

static void enqueue(struct core *core, struct turn *turn)
{
    struct buyers buyers = {0};

    for (size_t i = 0; i < turn->passed.action_count; i++) {
        const struct action *action = turn->passed.actions[i];
        const struct profile *profile = buyer_of(turn->decision, &buyers, action);
        struct machine_task *task;
        if (moot(core, action)) {
            core->counts.deduped++;
        } else if (task_open(core, action, profile, CAUSE_DECIDED, &task)) {
            core->counts.dropped++;
            core->running->dropped = true;
        }
    }
}

/* --- log --- */

static void shortfalls_warn(struct core *core)
{
    enum { NAMED = 3 };
    size_t count;
    const struct shortfall *const *all = ledger_shortfalls(core->ledger, &count);
    struct str top[NAMED] = {STR_EMPTY, STR_EMPTY, STR_EMPTY};

    if (!count) return;
    for (size_t i = 0; i < NAMED && i < count; i++) {
        top[i] = all[i]->profile.fingerprint;
        top[i].len = min_size(top[i].len, 256); /* three names must fit into a log line */
    }
    core_log(core, CORE_WARN, "shortfalls detected", "count=%zu top=%.*s %.*s %.*s", count,
             STR_ARG(top[0]), STR_ARG(top[1]), STR_ARG(top[2]));
}

/* --- the whole cycle --- */

static enum err dispatch(struct core *core, struct turn *turn)
{
    enum err err = rails_now(core, turn);

    if (err) return err;
    if (!core_acts(core))
        actions_hold(core, turn);
    else if (core->running->settled)
        enqueue(core, turn);
    if (!turn->passed.actions_held) return ERR_OK;
    /* Actions held by the action limit may run in the next cycle. Reclaims held by the reclaim cap
     * need more time, so they request no cycle. */
    core->counts.deferred += turn->passed.actions_held;
    (void)effects_add(core->out, EFFECT_CYCLE_SOON);
    return ERR_OK;
}

enum err core_cycle(struct core *core, mono_time now, wall_time wall, core_mark_fn *mark,
                    void *context, struct effects *out)
{
    struct turn turn = {.mark = mark, .mark_context = context};
    enum err err;

    core_begin_at(core, now, wall, out);
    core->counts.cycles++;
    if (!core->running->opened) core->running->opened_at = now;
    core->running->opened = true;
    running_settle(core);
    works_run(core);
    clients_sweep(core);
    scope_sweep(core);
    if (reconcile_is_blind(core)) {
        running_start(core);
        return ERR_OK;
    }
    err = decide_now(core, &turn);
    if (!err) attribution_note(core, turn.decision);
    if (!err) capacity_note(core, turn.decision);
    mark_end(&turn, PHASE_EMIT);
    if (!err) err = dispatch(core, &turn);
    if (!err) {
        (void)view_note(core, turn.decision);
        gauges_note(core);
        shortfalls_warn(core);
        occupancy_settle(core);
    }
    running_start(core);
    tasks_plan(core);
    mark_end(&turn, PHASE_EXECUTE);
    return err;
}
