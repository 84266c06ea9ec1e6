/* SPDX-License-Identifier: Apache-2.0 */
/* Machines without a task: why and when the shard checks them again. Decide thread.
 *
 *           async ack          lasts       still transitional
 *   task ------------> PASSING -----> (Get) ----------------> the call again
 *    |   no answer                      | answered
 *    +----------------> DOUBT --> (Get) +--> the reported state is accepted
 *    |   not sent                       |
 *    +----------------> PASSING ---------------------------> the call again
 *    |   refused                        |
 *    +----------------> REFUSED ..back-off..> (Get)
 *
 *   the provider reports Failed --> FAILED ..back-off..> Delete --> refused: FAILED again
 *   drained by its operator, Drain refused or not done, still Configured
 *                               --> DRAINED ..back-off..> Drain
 *
 * The back-off doubles with every refusal in a row. An action that succeeds, or a time without
 * refusals, resets it. The machine's id spreads the back-off, so that machines that failed together
 * are not retried together. */
#include <stdlib.h>

#include "base/memory.h"
#include "model/fingerprint.h"
#include "shard/core/running_actions.h"
#include "shard/state/cohort.h"

static struct str work_id(const struct machine_work *w)
{
    return str_of(w->id, w->id_len);
}

static uint32_t id_hash(const struct core *core, struct str machine)
{
    return (uint32_t)str_hash(machine, core->options.seed);
}

struct machine_work *work_find(const struct core *core, struct str machine)
{
    uint32_t hash = id_hash(core, machine);

    TABLE_EACH(&core->running->works, hash, link)
    {
        struct machine_work *w = CONTAINER_OF(link, struct machine_work, link);
        if (str_equal(work_id(w), machine)) return w;
    }
    return NULL;
}

static void work_kind_set(struct core *core, struct machine_work *w, enum work_kind kind)
{
    if (w->kind == WORK_DOUBT) core->counts.in_doubt--;
    if (kind == WORK_DOUBT) core->counts.in_doubt++;
    w->kind = kind;
}

void work_settle(struct core *core, struct machine_work *w)
{
    struct running_actions *h = core->running;

    if (w->task || !list_empty(&w->ended) || w->asked || w->refusals || w->kind != WORK_QUIET)
        return;
    heap_remove(&h->due, &w->due);
    table_remove(&h->works, &w->link);
    memory_give(&h->bytes, w, sizeof *w + w->id_len);
}

struct machine_work *work_make(struct core *core, struct str machine)
{
    struct running_actions *h = core->running;
    struct machine_work *w = work_find(core, machine);

    if (w) return w;
    if (!table_reserve(&h->works, &h->bytes) && !heap_reserve(&h->due, h->works.count + 1))
        w = memory_take(&h->bytes, sizeof *w + machine.len);
    if (!w) return NULL;
    *w = (struct machine_work){.id_len = (uint8_t)machine.len};
    list_init(&w->ended);
    memcpy(w->id, machine.at, machine.len);
    table_add(&h->works, &w->link, id_hash(core, machine));
    return w;
}

void work_due(struct core *core, struct machine_work *w, mono_time due)
{
    enum err err = heap_put(&core->running->due, &w->due, due.ms);

    assert(!err);
    (void)err;
}

/* Changes the kind and clears the data of the previous kind. */
static void work_become(struct core *core, struct machine_work *w, enum work_kind kind)
{
    kind_release(core->needs, w->kind_held);
    w->kind_held = NULL;
    work_kind_set(core, w, kind);
    w->tries = 0;
    w->again = w->measured = false;
    w->may_run = (mono_time){0};
    w->before = MACHINE_UNSPECIFIED;
    w->drained_for = 0;
    w->repeated = false;
    w->grace_ms = 0;
}

void work_forget(struct core *core, struct machine_work *w)
{
    work_become(core, w, WORK_QUIET);
    if (w->asked) core->running->asking--;
    w->asked = false;
    w->refusals = 0;
    w->until = (mono_time){0};
    heap_remove(&core->running->due, &w->due);
    work_settle(core, w);
}

/* --- back-off --- */

static uint64_t backoff_ms(uint64_t first_ms, uint64_t most_ms, uint8_t times)
{
    uint64_t ms = first_ms;

    for (uint8_t i = 1; i < times && ms < most_ms; i++) ms *= 2;
    return min_u64(ms, most_ms);
}

static uint64_t rest_ms(const struct core *core, const struct machine_work *w, bool most)
{
    uint64_t most_ms = core->options.rest_most_ms;
    uint64_t ms = most ? most_ms : backoff_ms(core->options.rest_first_ms, most_ms, w->refusals);

    return ms - str_hash(work_id(w), w->refusals) % (ms / 4 + 1);
}

/* Returns when a transitional state has lasted too long. A drain gets time beyond its grace
 * period. */
static mono_time stuck_at(const struct core *core, const struct machine_work *w,
                          enum machine_state state)
{
    uint64_t ms = core->options.stuck_ms;

    if (state == MACHINE_DRAINING) ms = add_sat_u64(add_sat_u64(ms, ms), w->grace_ms);
    return mono_after(w->since, ms);
}

static bool state_passes(enum machine_state state)
{
    return call_rule_passing(state) != NULL;
}

/* --- Get --- */

static uint32_t asking_most(const struct core *core)
{
    uint32_t most = core->concurrency.limit;

    if (most < ASKING_LEAST) return ASKING_LEAST;
    return most < ASKING_MOST ? most : ASKING_MOST;
}

static void work_get(struct core *core, struct machine_work *w)
{
    struct running_actions *h = core->running;
    struct str id;
    struct effect *effect;

    assert(!w->asked);
    work_due(core, w, mono_after(core->now, 1)); /* if no Get is sent now, a later cycle retries */
    if (h->asking >= asking_most(core) || text_copy(&core->out->arena, work_id(w), &id)) return;
    effect = effects_add(core->out, EFFECT_GET);
    if (!effect) return;
    effect->machine = id;
    effect->timeout_ms = core->options.execute_timeout_ms;
    w->asked = true;
    w->stale = false;
    h->asking++;
    work_due(core, w, mono_after(core->now, effect->timeout_ms + OVERDUE_MS));
}

/* --- work left by a task --- */

static uint32_t cluster_hash(const struct core *core, struct str cluster)
{
    return (uint32_t)str_hash(cluster, core->options.seed) | 1; /* never 0: 0 means none */
}

/* Stores what is needed to repeat the task's call. */
static void work_remember(struct core *core, struct machine_work *w,
                          const struct machine_task *task)
{
    w->since = task->since;
    w->measured = true;
    w->grace_ms = task->grace_ms;
    if (task->drained) w->drained_for = cluster_hash(core, task->cluster);
    if (task->kind && kind_hold(core->needs, &task->kind->profile, &w->kind_held))
        w->kind_held = NULL; /* the profile is searched in the demand instead */
}

void work_passing(struct core *core, const struct machine_task *task)
{
    struct machine_work *w = task->work;

    work_become(core, w, WORK_PASSING);
    work_remember(core, w, task);
    /* A repeated call gets the full time again. */
    work_due(core, w,
             task->cause == CAUSE_STUCK ? mono_after(core->now, core->options.stuck_ms)
                                        : stuck_at(core, w, call_rules[task->step].passing));
}

void work_ask(struct core *core, const struct machine_task *task)
{
    struct machine_work *w = task->work;

    core->counts.doubts++;
    work_become(core, w, WORK_DOUBT);
    work_remember(core, w, task);
    if (!w->asked) work_get(core, w);
}

void work_doubt(struct core *core, const struct machine_task *task)
{
    struct machine_work *w = task->work;

    work_ask(core, task);
    w->may_run = mono_after(core->now, core->options.execute_timeout_ms);
    w->before = task->cause == CAUSE_FAILED ? MACHINE_FAILED : call_rules[task->step].before;
    w->repeated = task->cause == CAUSE_STUCK;
}

bool running_call_may_run(const struct core *core, struct str machine, enum machine_state said)
{
    const struct machine_work *w = work_find(core, machine);
    const struct machine_row *row;

    if (!w || w->kind != WORK_DOUBT || mono_due(w->may_run, core->now)) return false;
    if (w->before == said) return true;
    row = w->repeated ? inventory_row(core->inventory, machine) : NULL;
    return row && row_actual(core->inventory, row)->traits.state == said;
}

void work_unsent(struct core *core, const struct machine_task *task)
{
    /* Waits half the time since the first try, so that an absent provider is not called for all
     * machines in every cycle. */
    uint64_t ms = mono_elapsed_ms(task->since, core->now) / 2;
    struct machine_work *w = task->work;

    ms = min_u64(max_u64(ms, DOUBT_FIRST_MS), DOUBT_MOST_MS);
    if (task->cause == CAUSE_FAILED) {
        work_become(core, w, WORK_FAILED);
        ms = core->options.rest_first_ms;
    } else {
        work_become(core, w, WORK_PASSING);
        work_remember(core, w, task);
        w->again = true;
    }
    work_due(core, w, mono_after(core->now, ms));
}

void work_refused(struct core *core, const struct machine_task *task, bool most)
{
    struct machine_work *w = task->work;

    work_become(core, w, WORK_REFUSED);
    if (w->refusals < UINT8_MAX) w->refusals++;
    w->until = mono_after(core->now, rest_ms(core, w, most));
    work_due(core, w, w->until);
    if (task->drained) w->drained_for = cluster_hash(core, task->cluster);
}

static bool work_is_drained(const struct core *core, const struct machine_work *w,
                            const struct machine *machine)
{
    return w->drained_for && machine->state == MACHINE_CONFIGURED &&
           w->drained_for == cluster_hash(core, machine->cluster);
}

/* Schedules another drain after the back-off. */
static void work_drained(struct core *core, struct machine_work *w)
{
    uint32_t cluster = w->drained_for;

    work_become(core, w, WORK_DRAINED);
    w->drained_for = cluster;
    if (!w->asked) work_due(core, w, mono_due(w->until, core->now) ? core->now : w->until);
}

void work_failed(struct core *core, struct machine_work *w, bool most)
{
    work_become(core, w, WORK_FAILED);
    if (w->refusals < UINT8_MAX) w->refusals++;
    work_due(core, w, mono_after(core->now, rest_ms(core, w, most)));
}

/* Remembers the machine's refusals for the longest back-off. */
void work_quiet(struct core *core, struct machine_work *w)
{
    work_become(core, w, WORK_QUIET);
    if (w->task) return;
    if (w->asked) /* the answer of the Get ends the work */
        work_due(core, w, mono_after(core->now, core->options.execute_timeout_ms + OVERDUE_MS));
    else if (w->refusals)
        work_due(core, w, mono_after(core->now, core->options.rest_most_ms));
    else
        work_forget(core, w);
}

void work_unplan(struct core *core, struct machine_work *w)
{
    /* Usually there is no plan. If memory runs out, the plan stays until the next check. */
    if (inventory_unplan(core->inventory, work_id(w)) != ERR_NOMEM || w->kind != WORK_QUIET) return;
    work_become(core, w, WORK_DOUBT);
    if (!w->asked) work_due(core, w, core->now);
}

void work_look(struct core *core, struct str machine, enum machine_state said)
{
    struct inventory_entry entry;
    struct machine_work *w;

    if (state_passes(said)) return; /* a later record will report the state that follows */
    if (core_get(core, machine, &entry) || entry.machine.state == said) return;
    w = work_make(core, machine);
    /* out of memory: a full List must repeat the record */
    if (!w) core->full_list_wanted = true;
    if (!w || w->kind == WORK_REFUSED || w->kind == WORK_DOUBT) return; /* a Get follows anyway */
    work_kind_set(core, w, WORK_DOUBT);
    if (!w->asked) work_due(core, w, core->now);
}

/* --- what Lists say --- */

bool core_rests(const struct core *core, struct str machine)
{
    const struct machine_work *w = work_find(core, machine);

    return w && w->kind == WORK_REFUSED && !mono_due(w->until, core->now);
}

void running_gone(struct core *core, struct str machine)
{
    struct machine_work *w = work_find(core, machine);

    if (w) work_forget(core, w);
}

enum err running_reserve(struct core *core, const struct machine *machine)
{
    if (machine->state != MACHINE_FAILED && !state_passes(machine->state)) return ERR_OK;
    return work_make(core, machine->id) ? ERR_OK : ERR_NOMEM;
}

void running_unreserve(struct core *core, struct str machine)
{
    struct machine_work *w = work_find(core, machine);

    if (w) work_settle(core, w);
}

/* Records a transitional state that no task of this shard started, or whose start was forgotten. */
static void work_passing_seen(struct core *core, struct machine_work *w, enum machine_state state)
{
    work_become(core, w, WORK_PASSING);
    w->since = core->now;
    if (state == MACHINE_DRAINING) w->grace_ms = RECLAIM_GRACE_MS; /* the longest grace period */
    work_due(core, w, stuck_at(core, w, state));
}

void running_changed(struct core *core, const struct machine *machine, enum machine_state from)
{
    struct machine_work *w = work_find(core, machine->id);

    if (!w) return;      /* running_reserve() made room for every transitional or Failed machine */
    w->stale = w->asked; /* the answer of the Get may be older than this record */
    if (state_passes(machine->state)) {
        work_passing_seen(core, w, machine->state);
        return;
    }
    if (machine->state == MACHINE_FAILED) {
        work_failed(core, w, false);
        return;
    }
    if (w->measured && from == MACHINE_CONFIGURING && machine->state == MACHINE_CONFIGURED)
        effects_observe(core->out, OBSERVE_CONFIGURE, w->since, core->now);
    if (w->measured && from == MACHINE_DRAINING && machine->state == MACHINE_IDLE)
        effects_observe(core->out, OBSERVE_DRAIN, w->since, core->now);
    if (work_is_drained(core, w, machine))
        work_drained(core, w);
    else if (machine->state == MACHINE_CONFIGURED && from != MACHINE_FAILED)
        work_forget(core, w);
    else /* keeps the back-off of a refused drain */
        work_quiet(core, w);
}

/* --- answers of Get --- */

/* Decides what is left to do about a machine after a Get's record was accepted. */
static void got_settle(struct core *core, struct str machine)
{
    struct machine_work *w = work_find(core, machine);
    struct inventory_entry entry;

    if (!w || core_get(core, machine, &entry)) return;
    if (state_passes(entry.machine.state)) {
        if (w->kind == WORK_PASSING &&
            mono_due(stuck_at(core, w, entry.machine.state), core->now)) {
            w->again = true;
            work_due(core, w, core->now);
        } else if (w->kind == WORK_DOUBT || w->kind == WORK_PASSING) {
            work_kind_set(core, w, WORK_PASSING);
            work_due(core, w, stuck_at(core, w, entry.machine.state));
        }
    } else if (w->kind == WORK_REFUSED && entry.machine.state == MACHINE_FAILED) {
        /* The back-off is over and the provider still reports Failed: delete the machine now. */
        work_become(core, w, WORK_FAILED);
        work_due(core, w, core->now);
    } else if (entry.machine.state == MACHINE_FAILED) {
        if (w->kind != WORK_FAILED) work_failed(core, w, false);
    } else if (w->kind == WORK_DRAINED) {
        work_due(core, w, mono_due(w->until, core->now) ? core->now : w->until);
    } else if (w->kind != WORK_QUIET) {
        work_quiet(core, w);
    }
}

static void got_nothing(struct core *core, struct machine_work *w)
{
    struct inventory_entry entry;

    if (w->tries < UINT8_MAX) w->tries++;
    if (w->kind == WORK_DOUBT && w->tries >= DOUBT_TRIES_MOST &&
        !core_get(core, work_id(w), &entry) && machine_state_stable(entry.machine.state)) {
        core->full_list_wanted = true; /* no action begins on the machine before a full List */
        work_quiet(core, w);
        return;
    }
    work_due(core, w, mono_after(core->now, backoff_ms(DOUBT_FIRST_MS, DOUBT_MOST_MS, w->tries)));
}

void core_got(struct core *core, struct str machine, const struct call_answer *answer,
              mono_time now, struct effects *out)
{
    struct machine_work *w = work_find(core, machine);
    bool stale;

    core_begin(core, now, out);
    if (!w || !w->asked) return; /* too late, or no Get was sent */
    stale = w->stale || task_find(core, machine);
    w->asked = w->stale = false;
    core->running->asking--;
    if (w->kind == WORK_QUIET) {
        work_quiet(core, w);
    } else if (stale) {
        if (w->kind == WORK_DOUBT || w->kind == WORK_DRAINED) /* other kinds keep their deadline */
            work_due(core, w, w->kind == WORK_DOUBT ? now : w->until);
    } else if (answer->end == CALL_NOT_FOUND) {
        reconcile_gone(core, machine);
    } else if (answer->end == CALL_DONE && answer->machine &&
               running_call_may_run(core, machine, answer->machine->state)) {
        work_due(core, w, w->may_run);
    } else if (answer->end == CALL_DONE && answer->machine &&
               str_equal(answer->machine->id, machine) && !reconcile_got(core, answer)) {
        task_shield(core, machine);
        got_settle(core, machine);
    } else {
        got_nothing(core, w);
    }
    core_end(core);
}

/* --- what is due --- */

/* Returns the profile for which the machine was bought: as stored, from the demand, or from the
 * machine's stamp. NULL: unknown. */
static const struct profile *work_profile(struct core *core, const struct machine_work *w,
                                          const struct machine *m)
{
    const struct kind *kind =
        w->kind_held ? w->kind_held : kind_find(core->needs, m->stamp.fingerprint);
    struct profile *read = kind ? NULL : ARENA_NEW(&core->scratch, struct profile);

    if (kind) return &kind->profile;
    return read && !fingerprint_read(&core->scratch, m->stamp.fingerprint, read) ? read : NULL;
}

static void work_call_again(struct core *core, struct machine_work *w, const struct machine *m)
{
    struct action action = {.kind = call_rule_passing(m->state)->action,
                            .machine = m->id,
                            .cluster = m->state == MACHINE_CREATING ? m->destination : m->cluster,
                            .grace_ms = w->grace_ms,
                            .priority = m->stamp.priority,
                            .interruption_dollars = m->stamp.interruption_dollars,
                            .reclamation_dollars = m->stamp.reclamation_dollars,
                            .key = {.fingerprint = m->stamp.fingerprint, .group = m->stamp.group}};
    const struct profile *profile = work_profile(core, w, m);
    mono_time since = w->since;
    bool drained = w->drained_for != 0;
    struct machine_task *task;

    w->again = false;
    action.key.cluster = action.cluster;
    /* no profile for the blob request, or no task: try later */
    if ((action.kind == ACTION_BOOTSTRAP && !profile) ||
        task_open(core, &action, profile, CAUSE_STUCK, &task)) {
        w->since = core->now;
        work_due(core, w, mono_after(core->now, DOUBT_MOST_MS));
        return;
    }
    task->since = since;
    task->drained = drained;
    core->counts.called_again++;
}

static void work_give_back(struct core *core, struct machine_work *w, const struct machine *m)
{
    struct action action = {.kind = ACTION_DELETE, .machine = m->id, .cluster = m->cluster};
    struct machine_task *task;

    if (task_open(core, &action, NULL, CAUSE_FAILED, &task)) /* the queue is full: try later */
        work_due(core, w, mono_after(core->now, 1));
}

static void work_run(struct core *core, struct machine_work *w)
{
    bool may_act = core_acts(core);
    struct inventory_entry entry;

    if (w->asked) { /* the driver reported no result, not even a timeout */
        w->asked = false;
        core->running->asking--;
        if (w->kind != WORK_QUIET) {
            got_nothing(core, w);
            return;
        }
    }
    if (w->kind == WORK_QUIET) {
        work_forget(core, w);
        return;
    }
    if (core_get(core, work_id(w), &entry)) { /* out of memory */
        work_due(core, w, mono_after(core->now, DOUBT_FIRST_MS));
        return;
    }
    if (entry.planned) (void)inventory_unplan(core->inventory, work_id(w)); /* see work_unplan */
    if (w->kind == WORK_FAILED && entry.machine.state == MACHINE_FAILED) {
        if (may_act)
            work_give_back(core, w, &entry.machine);
        else
            work_due(core, w, mono_after(core->now, core->options.rest_first_ms));
        return;
    }
    if (w->kind == WORK_DRAINED) {
        if (!work_is_drained(core, w, &entry.machine))
            work_quiet(core, w);
        else if (!may_act || drain_repeat(core, &entry.machine))
            work_due(core, w, mono_after(core->now, core->options.rest_first_ms));
        return;
    }
    if (w->kind == WORK_PASSING && w->again && state_passes(entry.machine.state) && may_act) {
        work_call_again(core, w, &entry.machine);
        return;
    }
    work_get(core, w);
}

static int compare_since(const void *left, const void *right)
{
    const struct machine_work *a = *(const struct machine_work *const *)left;
    const struct machine_work *b = *(const struct machine_work *const *)right;

    if (a->since.ms != b->since.ms) return a->since.ms < b->since.ms ? -1 : 1;
    return str_compare(work_id(a), work_id(b));
}

/* Queries machines in a transitional state by Get while a List takes long, so that created machines
 * can serve. Machines that have waited longest come first. */
static void works_get_instead_of_list(struct core *core)
{
    struct running_actions *h = core->running;
    struct machine_work **passes;
    size_t count = 0;

    arena_reset(&core->scratch);
    passes = arena_calloc(&core->scratch, h->works.count, sizeof(struct machine_work *));
    if (!passes) return;
    for (uint32_t i = 0; i < h->works.bucket_count; i++)
        for (struct table_link *link = h->works.buckets[i]; link; link = link->next) {
            struct machine_work *w = CONTAINER_OF(link, struct machine_work, link);
            if (w->kind == WORK_PASSING && !w->asked && !w->again) passes[count++] = w;
        }
    if (count) qsort(passes, count, sizeof(struct machine_work *), compare_since);
    for (size_t i = 0; i < count && h->asking < asking_most(core); i++) work_get(core, passes[i]);
}

void works_run(struct core *core)
{
    struct running_actions *h = core->running;

    if (h->list_open && ++h->list_cycles % LIST_LATE_CYCLES == 0) works_get_instead_of_list(core);
    for (size_t left = h->due.count; left > 0; left--) {
        struct heap_node *node = heap_pop_due(&h->due, core->now.ms);
        struct machine_work *w;
        if (!node) break;
        w = CONTAINER_OF(node, struct machine_work, due);
        arena_reset(&core->scratch); /* thousands of machines may be due in one event */
        if (w->task)
            task_due(core, w->task);
        else
            work_run(core, w);
    }
}
