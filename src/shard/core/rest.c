/* SPDX-License-Identifier: Apache-2.0 */
/* Concerns: machines that are to be looked at again, and when.
 *
 *           async ack          lasts           still passes
 *   task ------------> PASSING -----> (Get) ----------------> the call again
 *    |   no answer                      | answered
 *    +----------------> DOUBT --> (Get) +--> what it says is believed
 *    |   not sent                       |
 *    +----------------> PASSING ---------------------------> the call again
 *    |   refused                        |
 *    +----------------> REFUSED ..rests..> (Get)
 *
 *   the provider says Failed --> FAILED ..rests..> Delete --> refused: FAILED, a longer rest
 *
 *   drained by its operator, Drain refused or not done, still Configured --> DRAINED ..rests..> Drain
 *
 * Pauses double with every refusal in a row and are forgotten when an action of the machine came to
 * its end, or after a time without any. They are spread by the machine's id, so that a thousand
 * machines that failed together are not tried together. */
#include <stdlib.h>

#include "base/memory.h"
#include "model/fingerprint.h"
#include "shard/core/hands.h"
#include "shard/state/cohort.h"

static struct str concern_id(const struct concern *c)
{
    return str_of(c->id, c->id_len);
}

static uint32_t id_hash(const struct core *core, struct str machine)
{
    return (uint32_t)str_hash(machine, core->options.seed);
}

struct concern *concern_find(const struct core *core, struct str machine)
{
    uint32_t hash = id_hash(core, machine);

    TABLE_EACH(&core->hands->concerns, hash, link)
    {
        struct concern *c = CONTAINER_OF(link, struct concern, link);
        if (str_equal(concern_id(c), machine)) return c;
    }
    return NULL;
}

static void kind_set(struct core *core, struct concern *c, enum concern_kind kind)
{
    if (c->kind == CONCERN_DOUBT) core->counts.in_doubt--;
    if (kind == CONCERN_DOUBT) core->counts.in_doubt++;
    c->kind = kind;
}

void concern_settle(struct core *core, struct concern *c)
{
    struct hands *h = core->hands;

    if (c->task || !list_empty(&c->ended) || c->asked || c->refusals || c->kind != CONCERN_QUIET)
        return;
    heap_remove(&h->due, &c->due);
    table_remove(&h->concerns, &c->link);
    memory_give(&h->bytes, c, sizeof *c + c->id_len);
}

struct concern *concern_take(struct core *core, struct str machine)
{
    struct hands *h = core->hands;
    struct concern *c = concern_find(core, machine);

    if (c) return c;
    if (!table_reserve(&h->concerns, &h->bytes) && !heap_reserve(&h->due, h->concerns.count + 1))
        c = memory_take(&h->bytes, sizeof *c + machine.len);
    if (!c) return NULL;
    *c = (struct concern){.id_len = (uint8_t)machine.len};
    list_init(&c->ended);
    memcpy(c->id, machine.at, machine.len);
    table_add(&h->concerns, &c->link, id_hash(core, machine));
    return c;
}

void concern_due(struct core *core, struct concern *c, mono_time due)
{
    enum err err = heap_put(&core->hands->due, &c->due, due.ms);

    assert(!err); /* room was taken with the concern */
    (void)err;
}

/* A new reason; what the old one remembered for itself goes. */
static void concern_become(struct core *core, struct concern *c, enum concern_kind kind)
{
    kind_release(core->needs, c->kind_held);
    c->kind_held = NULL;
    kind_set(core, c, kind);
    c->tries = 0;
    c->again = c->measured = false;
    c->may_run = (mono_time){0};
    c->before = MACHINE_UNSPECIFIED;
    c->drained_for = 0;
    c->repeated = false;
    c->grace_ms = 0;
}

void concern_free(struct core *core, struct concern *c)
{
    concern_become(core, c, CONCERN_QUIET);
    if (c->asked) core->hands->asking--;
    c->asked = false;
    c->refusals = 0;
    c->until = (mono_time){0};
    heap_remove(&core->hands->due, &c->due);
    concern_settle(core, c);
}

/* --- pauses --- */

/* Doubles with every time in a row. */
static uint64_t backoff_ms(uint64_t first_ms, uint64_t most_ms, uint8_t times)
{
    uint64_t ms = first_ms;

    for (uint8_t i = 1; i < times && ms < most_ms; i++) ms *= 2;
    return min_u64(ms, most_ms);
}

static uint64_t rest_ms(const struct core *core, const struct concern *c, bool most)
{
    uint64_t most_ms = core->options.rest_most_ms;
    uint64_t ms = most ? most_ms : backoff_ms(core->options.rest_first_ms, most_ms, c->refusals);

    return ms - str_hash(concern_id(c), c->refusals) % (ms / 4 + 1);
}

static void refusals_add(struct concern *c)
{
    if (c->refusals < UINT8_MAX) c->refusals++;
}

/* When a passing state has lasted too long. A drain may take its grace and then some. */
static mono_time stuck_at(const struct core *core, const struct concern *c,
                          enum machine_state state)
{
    uint64_t ms = core->options.stuck_ms;

    if (state == MACHINE_DRAINING) ms = add_sat_u64(add_sat_u64(ms, ms), c->grace_ms);
    return mono_after(c->since, ms);
}

static bool passing(enum machine_state state)
{
    return call_rule_passing(state) != NULL;
}

/* --- Get --- */

static uint32_t asking_most(const struct core *core)
{
    uint32_t most = core->options.concurrency;

    if (most < ASKING_LEAST) return ASKING_LEAST;
    return most < ASKING_MOST ? most : ASKING_MOST;
}

static void ask(struct core *core, struct concern *c, mono_time now, struct effects *out)
{
    struct hands *h = core->hands;
    struct str id;
    struct effect *effect;

    assert(!c->asked);
    concern_due(core, c, mono_after(now, 1)); /* whatever keeps us from asking, a cycle tries */
    if (h->asking >= asking_most(core) || effects_text(out, concern_id(c), &id)) return;
    effect = effects_add(out, EFFECT_GET);
    if (!effect) return;
    effect->machine = id;
    effect->timeout_ms = core->options.execute_timeout_ms;
    c->asked = true;
    c->stale = false;
    h->asking++;
    concern_due(core, c, mono_after(now, effect->timeout_ms + OVERDUE_MS));
}

/* --- how a task leaves its machine --- */

static uint32_t cluster_hash(const struct core *core, struct str cluster)
{
    return (uint32_t)str_hash(cluster, core->options.seed) | 1; /* never 0 */
}

/* What lasts: the start of a passing state, and what its call needs when it is made again. */
static void remember(struct core *core, struct concern *c, const struct machine_task *task)
{
    c->since = task->since;
    c->measured = true;
    c->grace_ms = task->grace_ms;
    if (task->drained) c->drained_for = cluster_hash(core, task->cluster);
    if (task->kind && kind_hold(core->needs, &task->kind->profile, &c->kind_held))
        c->kind_held = NULL; /* then it is looked for in the demand */
}

void concern_passing(struct core *core, const struct machine_task *task, mono_time now)
{
    struct concern *c = task->work;

    concern_become(core, c, CONCERN_PASSING);
    remember(core, c, task);
    /* Made again it has its time again. */
    concern_due(core, c,
                task->cause == CAUSE_STUCK ? mono_after(now, core->options.stuck_ms)
                                           : stuck_at(core, c, call_rules[task->step].passing));
}

void concern_ask(struct core *core, const struct machine_task *task, mono_time now,
                 struct effects *out)
{
    struct concern *c = task->work;

    core->counts.doubts++;
    concern_become(core, c, CONCERN_DOUBT);
    remember(core, c, task);
    if (!c->asked) ask(core, c, now, out);
}

void concern_doubt(struct core *core, const struct machine_task *task, mono_time now,
                   struct effects *out)
{
    struct concern *c = task->work;

    concern_ask(core, task, now, out);
    c->may_run = mono_after(now, core->options.execute_timeout_ms);
    c->before = task->cause == CAUSE_FAILED ? MACHINE_FAILED : call_rules[task->step].before;
    c->repeated = task->cause == CAUSE_STUCK;
}

bool hands_call_may_run(const struct core *core, struct str machine, enum machine_state said,
                        mono_time now)
{
    const struct concern *c = concern_find(core, machine);
    const struct machine_row *row;

    if (!c || c->kind != CONCERN_DOUBT || mono_due(c->may_run, now)) return false;
    if (c->before == said) return true;
    row = c->repeated ? inventory_row(core->inventory, machine) : NULL;
    return row && row_actual(core->inventory, row)->traits.state == said;
}

void concern_unsent(struct core *core, const struct machine_task *task, mono_time now)
{
    /* Half as long again as it has tried, so that a provider that is away for an hour is not asked
     * for everything with every cycle. */
    uint64_t ms = mono_elapsed_ms(task->since, now) / 2;
    struct concern *c = task->work;

    ms = min_u64(max_u64(ms, DOUBT_FIRST_MS), DOUBT_MOST_MS);
    if (task->cause == CAUSE_FAILED) {
        concern_become(core, c, CONCERN_FAILED);
        ms = core->options.rest_first_ms;
    } else {
        concern_become(core, c, CONCERN_PASSING);
        remember(core, c, task);
        c->again = true;
    }
    concern_due(core, c, mono_after(now, ms));
}

void concern_refused(struct core *core, const struct machine_task *task, bool most, mono_time now)
{
    struct concern *c = task->work;

    concern_become(core, c, CONCERN_REFUSED);
    refusals_add(c);
    c->until = mono_after(now, rest_ms(core, c, most));
    concern_due(core, c, c->until);
    if (task->drained) c->drained_for = cluster_hash(core, task->cluster);
}

static bool is_drained(const struct core *core, const struct concern *c,
                       const struct machine *machine)
{
    return c->drained_for && machine->state == MACHINE_CONFIGURED &&
           c->drained_for == cluster_hash(core, machine->cluster);
}

/* It rests as long as a refusal asks for. */
static void drained_seen(struct core *core, struct concern *c, mono_time now)
{
    uint32_t cluster = c->drained_for;

    concern_become(core, c, CONCERN_DRAINED);
    c->drained_for = cluster;
    if (!c->asked) concern_due(core, c, mono_due(c->until, now) ? now : c->until);
}

void concern_failed(struct core *core, struct concern *c, bool most, mono_time now)
{
    concern_become(core, c, CONCERN_FAILED);
    refusals_add(c);
    concern_due(core, c, mono_after(now, rest_ms(core, c, most)));
}

/* Nothing is to be done about it. Refusals are remembered for as long as the longest rest. */
void concern_quiet(struct core *core, struct concern *c, mono_time now)
{
    concern_become(core, c, CONCERN_QUIET);
    if (c->task) return;
    if (c->asked) /* its answer ends it */
        concern_due(core, c, mono_after(now, core->options.execute_timeout_ms + OVERDUE_MS));
    else if (c->refusals)
        concern_due(core, c, mono_after(now, core->options.rest_most_ms));
    else
        concern_free(core, c);
}

void concern_unplan(struct core *core, struct concern *c, mono_time now)
{
    /* Usually nothing is planned any more. Without memory it stays planned until the machine is
     * looked at again. */
    if (inventory_unplan(core->inventory, concern_id(c)) != ERR_NOMEM || c->kind != CONCERN_QUIET)
        return;
    concern_become(core, c, CONCERN_DOUBT);
    if (!c->asked) concern_due(core, c, now);
}

void concern_look(struct core *core, struct str machine, enum machine_state said, mono_time now)
{
    struct inventory_entry entry;
    struct concern *c;

    if (passing(said)) return; /* the end of it will be said, too */
    if (core_get(core, machine, &entry) || entry.machine.state == said) return;
    c = concern_take(core, machine);
    if (!c) core->full_list_wanted = true; /* which says it again */
    if (!c || c->kind == CONCERN_REFUSED || c->kind == CONCERN_DOUBT) return; /* it is asked for */
    kind_set(core, c, CONCERN_DOUBT); /* what else is remembered stays */
    if (!c->asked) concern_due(core, c, now);
}

/* --- what reconciling tells --- */

bool core_rests(const struct core *core, struct str machine, mono_time now)
{
    const struct concern *c = concern_find(core, machine);

    return c && c->kind == CONCERN_REFUSED && !mono_due(c->until, now);
}

void hands_gone(struct core *core, struct str machine)
{
    struct concern *c = concern_find(core, machine);

    if (c) concern_free(core, c);
}

enum err hands_reserve(struct core *core, const struct machine *machine)
{
    if (machine->state != MACHINE_FAILED && !passing(machine->state)) return ERR_OK;
    return concern_take(core, machine->id) ? ERR_OK : ERR_NOMEM;
}

void hands_unreserve(struct core *core, struct str machine)
{
    struct concern *c = concern_find(core, machine);

    if (c) concern_settle(core, c);
}

/* A passing state that nobody of us began, or whose beginning we do not remember. */
static void passing_seen(struct core *core, struct concern *c, enum machine_state state,
                         mono_time now)
{
    concern_become(core, c, CONCERN_PASSING);
    c->since = now;
    if (state == MACHINE_DRAINING) c->grace_ms = RECLAIM_GRACE_MS; /* the longest there is */
    concern_due(core, c, stuck_at(core, c, state));
}

void hands_seen(struct core *core, const struct machine *machine, enum machine_state from,
                mono_time now, struct effects *out)
{
    struct concern *c = concern_find(core, machine->id);

    if (!c) return;      /* of a passing or Failed one there is room: hands_reserve() */
    c->stale = c->asked; /* what Get has seen may be older than this */
    if (passing(machine->state)) {
        passing_seen(core, c, machine->state, now);
        return;
    }
    if (machine->state == MACHINE_FAILED) {
        concern_failed(core, c, false, now);
        return;
    }
    if (c->measured && from == MACHINE_CONFIGURING && machine->state == MACHINE_CONFIGURED)
        effects_observe(out, OBSERVE_CONFIGURE, c->since, now);
    if (c->measured && from == MACHINE_DRAINING && machine->state == MACHINE_IDLE)
        effects_observe(out, OBSERVE_DRAIN, c->since, now);
    if (is_drained(core, c, machine))
        drained_seen(core, c, now);
    else if (machine->state == MACHINE_CONFIGURED && from != MACHINE_FAILED)
        concern_free(core, c);
    else /* what a refused drain left Failed serves on, and rests all the same */
        concern_quiet(core, c, now);
}

/* --- answers of Get --- */

/* The record is believed and in the tables; what is left to do about the machine? */
static void got_settle(struct core *core, struct str machine, mono_time now)
{
    struct concern *c = concern_find(core, machine);
    struct inventory_entry entry;

    if (!c || core_get(core, machine, &entry)) return;
    if (passing(entry.machine.state)) {
        if (c->kind == CONCERN_PASSING && mono_due(stuck_at(core, c, entry.machine.state), now)) {
            c->again = true;
            concern_due(core, c, now);
        } else if (c->kind == CONCERN_DOUBT || c->kind == CONCERN_PASSING) {
            kind_set(core, c, CONCERN_PASSING);
            concern_due(core, c, stuck_at(core, c, entry.machine.state));
        }
    } else if (c->kind == CONCERN_REFUSED && entry.machine.state == MACHINE_FAILED) {
        /* It has rested, and the provider calls it Failed as well: given back now. */
        concern_become(core, c, CONCERN_FAILED);
        concern_due(core, c, now);
    } else if (entry.machine.state == MACHINE_FAILED) {
        if (c->kind != CONCERN_FAILED) concern_failed(core, c, false, now);
    } else if (c->kind == CONCERN_DRAINED) {
        concern_due(core, c, mono_due(c->until, now) ? now : c->until);
    } else if (c->kind != CONCERN_QUIET) {
        concern_quiet(core, c, now);
    }
}

/* Get said nothing we can use. */
static void got_nothing(struct core *core, struct concern *c, mono_time now)
{
    struct inventory_entry entry;

    if (c->tries < UINT8_MAX) c->tries++;
    if (c->kind == CONCERN_DOUBT && c->tries >= DOUBT_TRIES_MOST &&
        !core_get(core, concern_id(c), &entry) && machine_state_stable(entry.machine.state)) {
        core->full_list_wanted = true; /* it would not be acted on for as long as nobody tells */
        concern_quiet(core, c, now);
        return;
    }
    concern_due(core, c, mono_after(now, backoff_ms(DOUBT_FIRST_MS, DOUBT_MOST_MS, c->tries)));
}

void core_got(struct core *core, struct str machine, const struct call_answer *answer,
              mono_time now, struct effects *out)
{
    struct concern *c = concern_find(core, machine);
    bool stale;

    core_begin(core);
    if (!c || !c->asked) return; /* too late, or nobody asked */
    stale = c->stale || task_find(core, machine);
    c->asked = c->stale = false;
    core->hands->asking--;
    if (c->kind == CONCERN_QUIET) {
        concern_quiet(core, c, now);
    } else if (stale) {
        if (c->kind == CONCERN_DOUBT) concern_due(core, c, now); /* the others have their time */
    } else if (answer->end == CALL_NOT_FOUND) {
        reconcile_gone(core, machine, now, out);
    } else if (answer->end == CALL_DONE && answer->machine &&
               hands_call_may_run(core, machine, answer->machine->state, now)) {
        concern_due(core, c, c->may_run);
    } else if (answer->end == CALL_DONE && answer->machine &&
               str_equal(answer->machine->id, machine) &&
               !reconcile_got(core, answer->machine, answer->metadata, answer->metadata_count, now,
                              out)) {
        task_shield(core, machine);
        got_settle(core, machine, now);
    } else {
        got_nothing(core, c, now);
    }
}

/* --- what is due --- */

/* What the machine was bought for: remembered, demanded, or, after a restart and with nobody who
 * demands it any more, as its stamp names it. NULL: nobody knows. */
static const struct profile *profile_of(struct core *core, const struct concern *c,
                                        const struct machine *m)
{
    const struct kind *kind =
        c->kind_held ? c->kind_held : kind_find(core->needs, m->stamp.fingerprint);
    struct profile *read = kind ? NULL : ARENA_NEW(&core->scratch, struct profile);

    if (kind) return &kind->profile;
    return read && !fingerprint_read(&core->scratch, m->stamp.fingerprint, read) ? read : NULL;
}

static void call_again(struct core *core, struct concern *c, const struct machine *m, mono_time now)
{
    struct action action = {.kind = call_rule_passing(m->state)->action,
                            .machine = m->id,
                            .cluster = m->state == MACHINE_CREATING ? m->destination : m->cluster,
                            .grace_ms = c->grace_ms,
                            .priority = m->stamp.priority,
                            .interruption_dollars = m->stamp.interruption_dollars,
                            .reclamation_dollars = m->stamp.reclamation_dollars,
                            .key = {.fingerprint = m->stamp.fingerprint, .group = m->stamp.group}};
    const struct profile *profile = profile_of(core, c, m);
    mono_time since = c->since;
    bool drained = c->drained_for != 0;
    struct machine_task *task;

    c->again = false;
    action.key.cluster = action.cluster;
    /* Nobody knows any more what to ask a blob for: looked at again in a while. */
    if ((action.kind == ACTION_BOOTSTRAP && !profile) ||
        task_open(core, &action, profile, CAUSE_STUCK, now, &task)) {
        c->since = now;
        concern_due(core, c, mono_after(now, DOUBT_MOST_MS));
        return;
    }
    task->since = since;
    task->drained = drained;
    core->counts.called_again++;
}

static void give_back(struct core *core, struct concern *c, const struct machine *m, mono_time now)
{
    struct action action = {.kind = ACTION_DELETE, .machine = m->id, .cluster = m->cluster};
    struct machine_task *task;

    if (task_open(core, &action, NULL, CAUSE_FAILED, now, &task)) /* full: derived again */
        concern_due(core, c, mono_after(now, 1));
}

static void concern_run(struct core *core, struct concern *c, mono_time now, struct effects *out)
{
    bool may_act = core_acts(core);
    struct inventory_entry entry;

    if (c->asked) { /* not even the driver's deadline was heard of */
        c->asked = false;
        core->hands->asking--;
        if (c->kind != CONCERN_QUIET) {
            got_nothing(core, c, now);
            return;
        }
    }
    if (c->kind == CONCERN_QUIET) {
        concern_free(core, c);
        return;
    }
    if (core_get(core, concern_id(c), &entry)) { /* no memory to look at it */
        concern_due(core, c, mono_after(now, DOUBT_FIRST_MS));
        return;
    }
    if (entry.planned)
        (void)inventory_unplan(core->inventory, concern_id(c)); /* see concern_unplan */
    if (c->kind == CONCERN_FAILED && entry.machine.state == MACHINE_FAILED) {
        if (may_act)
            give_back(core, c, &entry.machine, now);
        else
            concern_due(core, c, mono_after(now, core->options.rest_first_ms));
        return;
    }
    if (c->kind == CONCERN_DRAINED) {
        if (!is_drained(core, c, &entry.machine))
            concern_quiet(core, c, now);
        else if (!may_act || drain_repeat(core, &entry.machine, now, out))
            concern_due(core, c, mono_after(now, core->options.rest_first_ms));
        return;
    }
    if (c->kind == CONCERN_PASSING && c->again && passing(entry.machine.state) && may_act) {
        call_again(core, c, &entry.machine, now);
        return;
    }
    ask(core, c, now, out);
}

static int compare_since(const void *left, const void *right)
{
    const struct concern *a = *(const struct concern *const *)left;
    const struct concern *b = *(const struct concern *const *)right;

    if (a->since.ms != b->since.ms) return a->since.ms < b->since.ms ? -1 : 1;
    return str_compare(concern_id(a), concern_id(b));
}

/* A List that takes long tells nothing meanwhile, and a provider that acks before it is done tells
 * the end by List only: what passes is asked for, the longest first, so that what is created can
 * serve. Without memory the List is waited for. */
static void ask_instead_of_list(struct core *core, mono_time now, struct effects *out)
{
    struct hands *h = core->hands;
    struct concern **passes;
    size_t count = 0;

    core_begin(core);
    passes = arena_calloc(&core->scratch, h->concerns.count, sizeof(struct concern *));
    if (!passes) return;
    for (uint32_t i = 0; i < h->concerns.bucket_count; i++)
        for (struct table_link *link = h->concerns.buckets[i]; link; link = link->next) {
            struct concern *c = CONTAINER_OF(link, struct concern, link);
            if (c->kind == CONCERN_PASSING && !c->asked && !c->again) passes[count++] = c;
        }
    if (count) qsort(passes, count, sizeof(struct concern *), compare_since);
    for (size_t i = 0; i < count && h->asking < asking_most(core); i++)
        ask(core, passes[i], now, out);
}

void concerns_run(struct core *core, mono_time now, struct effects *out)
{
    struct hands *h = core->hands;

    if (h->list_open && ++h->list_cycles % LIST_LATE_CYCLES == 0)
        ask_instead_of_list(core, now, out);
    for (size_t left = h->due.count; left > 0; left--) {
        struct heap_node *node = heap_pop_due(&h->due, now.ms);
        struct concern *c;
        if (!node) break;
        c = CONTAINER_OF(node, struct concern, due);
        core_begin(core); /* thousands may be due */
        if (c->task)
            task_due(core, c->task, now, out);
        else
            concern_run(core, c, now, out);
    }
}
