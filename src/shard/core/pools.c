/* SPDX-License-Identifier: Apache-2.0 */
/* Capacity pools without stock, as the core uses them: which Creates may begin, what refusals
 * teach, what a decision leaves out, and which Needs wait for stock. The table is availability.h.
 * Decide thread. */
#include <stdio.h>
#include <string.h>

#include "shard/core/running_actions.h"
#include "shard/state/cohort.h"

enum { POOL_TEXT_CAP = 2 * ID_MAX + MACHINE_NAME_CAP + 32 };

/* --- the pool of a machine --- */

static struct str pool_text(const struct posting *p)
{
    return p ? posting_value(p) : STR_EMPTY;
}

static bool pool_of_machine(const struct core *core, struct str machine,
                            struct capacity_pool *ret_pool)
{
    const struct machine_row *row = inventory_row(core->inventory, machine);
    const struct traits *t;

    if (!row) return false;
    t = &row_actual(core->inventory, row)->traits;
    *ret_pool = (struct capacity_pool){pool_text(t->look->postings[LOOK_TYPE]),
                                       pool_text(t->look->postings[LOOK_ZONE]),
                                       (enum capacity_type)t->capacity_type};
    return true;
}

/* Finds the pool of the machine. NULL: no Create of this pool was refused. */
static struct pool_memory *pool_remembered(const struct core *core, struct str machine)
{
    struct capacity_pool pool;

    if (!core->availability.count || !pool_of_machine(core, machine, &pool)) return NULL;
    return availability_find(&core->availability, &pool);
}

/* --- Creates --- */

static uint32_t probes_most(const struct core *core)
{
    return core->concurrency.limit / 4 + 1; /* probes use a quarter of the slots */
}

static bool pool_barred(const struct core *core, const struct pool_memory *m)
{
    return availability_barred(&core->availability, m, core->now) ||
           (m->sold_out && core->availability.probes >= probes_most(core));
}

bool pools_let_buy(const struct core *core, struct str machine)
{
    const struct pool_memory *m = pool_remembered(core, machine);

    return !m || !pool_barred(core, m);
}

void pools_task_opened(struct core *core, const struct machine_task *task)
{
    struct pool_memory *m;

    if (task->action != ACTION_PROVISION || task->cause != CAUSE_DECIDED) return;
    m = pool_remembered(core, task->machine);
    if (m && m->sold_out) availability_probe(&core->availability, m, task->number);
}

void pools_task_closed(struct core *core, const struct machine_task *task)
{
    if (task->action == ACTION_PROVISION)
        availability_over(&core->availability, task->number, core->now);
}

/* Writes "type=m5.large zone=eu-1a capacity_type=Spot". */
static const char *pool_details(const struct capacity_pool *pool, char text[POOL_TEXT_CAP])
{
    char name[MACHINE_NAME_CAP];

    (void)snprintf(text, POOL_TEXT_CAP, "type=%.*s zone=%.*s capacity_type=%s",
                   STR_ARG(pool->instance_type), STR_ARG(pool->zone),
                   capacity_type_name(pool->capacity_type, name));
    return text;
}

/* Drops the waiting Creates of a pool, so that the next decision uses other pools. */
static void pool_drop_tasks(struct core *core, const struct pool_memory *m)
{
    LIST_EACH_SAFE(&core->running->creates, place, next)
    {
        struct machine_task *task = CONTAINER_OF(place, struct machine_task, place);
        /* A machine whose Create is repeated is Creating, and needs its task. */
        if (task->cause == CAUSE_DECIDED && pool_remembered(core, task->machine) == m)
            task_drop(core, task);
    }
}

/* True if the provider's text names a limit on the rate of calls, which says nothing about
 * stock. */
bool answer_is_throttling(const struct call_answer *answer)
{
    static const char *const words[] = {"throttl",       "rate limit",    "ratelimit",
                                        "rate exceeded", "request limit", "too many"};

    if (!answer->exhausted) return false;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        for (size_t at = 0; at + strlen(words[i]) <= answer->text.len; at++)
            if (str_equal_nocase(str_of(answer->text.at + at, strlen(words[i])),
                                 str_from(words[i])))
                return true;
    return false;
}

bool pools_refused(struct core *core, const struct machine_task *task,
                   const struct call_answer *answer)
{
    bool stock = answer->exhausted && !answer_is_throttling(answer);
    char text[POOL_TEXT_CAP];
    struct capacity_pool pool;
    struct pool_memory *m;

    if (task->cause != CAUSE_DECIDED || answer_is_throttling(answer) ||
        !pool_of_machine(core, task->machine, &pool))
        return false;
    m = availability_refused(&core->availability, &pool, task->number,
                             stock ? REFUSED_STOCK : REFUSED_OTHER, answer->text, core->now);
    if (stock) core->counts.stock_refusals++;
    if (m) {
        core->counts.pools_version++;
        core_log(core, CORE_WARN, "the provider sells no machine of this kind now",
                 "%s next_try_s=%llu error=%.*s", pool_details(&pool, text),
                 (unsigned long long)mono_elapsed_ms(core->now, m->until) / 1000, (int)m->why_len,
                 m->why);
        pool_drop_tasks(core, m);
        (void)effects_add(core->out, EFFECT_CYCLE_SOON);
    }
    return stock;
}

void pools_accepted(struct core *core, const struct machine_task *task)
{
    char text[POOL_TEXT_CAP];
    struct capacity_pool pool;

    if (!core->availability.count || !pool_of_machine(core, task->machine, &pool) ||
        !availability_accepted(&core->availability, &pool, task->number))
        return;
    core->counts.pools_version++;
    core_log(core, CORE_INFO, "the provider sells machines of this kind again", "%s",
             pool_details(&pool, text));
    (void)effects_add(core->out, EFFECT_CYCLE_SOON);
}

/* --- the decision --- */

const struct capacity_pool *pools_sold_out(struct core *core, size_t *ret_count)
{
    struct availability *a = &core->availability;
    struct capacity_pool *pools;
    size_t count = 0;

    *ret_count = 0;
    availability_sweep(a, core->now);
    core->counts.pools_sold_out = 0;
    core->counts.pools_forgotten = a->forgotten;
    pools = a->count ? arena_calloc(&core->scratch, a->count, sizeof *pools) : NULL;
    for (uint32_t i = 0; pools && i < a->count; i++) {
        if (a->at[i]->sold_out) core->counts.pools_sold_out++;
        if (pool_barred(core, a->at[i])) pools[count++] = a->at[i]->pool;
    }
    *ret_count = count;
    return pools;
}

/* --- Needs that wait for stock --- */

/* Machines that a decision counts for a Need, although the provider refused their pool before and
 * has accepted none of it since. */
struct waits_for_stock {
    struct core *core;
    const struct decision *from;
    struct decision *amended; /* NULL: no verdict was changed yet */
    struct need_verdict *verdicts;
};

static bool stock_copy(struct waits_for_stock *w)
{
    struct arena *arena = &w->core->scratch;

    if (w->amended) return true;
    w->amended = arena_alloc(arena, sizeof *w->amended);
    w->verdicts = arena_alloc(arena, w->from->verdict_count * sizeof *w->verdicts);
    if (!w->amended || !w->verdicts) return false;
    memcpy(w->verdicts, w->from->verdicts, w->from->verdict_count * sizeof *w->verdicts);
    *w->amended = *w->from;
    w->amended->verdicts = w->verdicts;
    return true;
}

/* Adds the machine's amounts, as far as the Need asks for them. */
static void stock_amounts_add(struct waits_for_stock *w, const struct demand *need,
                              const struct machine *machine, struct amounts *amounts)
{
    struct resource_sum whole, lacks;

    amounts_sum(&need->aggregate, &whole);
    amounts_sum(amounts, &lacks);
    resource_sum_add(&lacks, machine_capacity(machine));
    lacks.mask &= whole.mask;
    for (uint64_t left = lacks.mask; left; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        if (lacks.milli[i] > whole.milli[i]) lacks.milli[i] = whole.milli[i];
    }
    (void)amounts_keep(&w->core->scratch, &lacks, amounts);
}

static void stock_lacks(struct waits_for_stock *w, size_t verdict, struct str machine,
                        const struct pool_memory *m)
{
    struct need_verdict *v;
    struct inventory_entry entry;
    struct shortage *s;

    if (core_get(w->core, machine, &entry) || !stock_copy(w)) return;
    v = &w->verdicts[verdict];
    s = ARENA_NEW(&w->core->scratch, struct shortage);
    if (!s) return;
    if (v->shortage) *s = *v->shortage;
    stock_amounts_add(w, v->need, &entry.machine, &s->unresolved);
    stock_amounts_add(w, v->need, &entry.machine, &s->deficit);
    if (!s->sold_out_count) s->sold_out = m->pool;
    s->sold_out_count++;
    s->reason = REASON_SOLD_OUT;
    v->satisfied = false;
    v->shortage = s;
}

/* Marks the Need that waits for the probe of the pool. At most PROBES_MOST probes are under way. */
static void stock_of_probe(struct waits_for_stock *w, const struct pool_memory *m)
{
    const struct machine_task *task = task_numbered(w->core, m->probe);

    for (size_t i = 0; task && i < w->from->verdict_count; i++) {
        const struct need_verdict *v = &w->from->verdicts[i];
        if (!v->claimed || need_key_compare(&v->need->key, &task->key)) continue;
        stock_lacks(w, i, task->machine, m);
        return;
    }
}

/* Marks the Needs for which this decision provisions from a sold-out pool. Phase 1 lists its
 * actions in the order of the verdicts. */
static void stock_of_actions(struct waits_for_stock *w)
{
    size_t action = 0;

    for (size_t i = 0; i < w->from->verdict_count; i++) {
        const struct need_verdict *v = &w->from->verdicts[i];
        size_t end = action + v->bootstraps + v->provisions;
        for (; action < end; action++) {
            const struct action *a = &w->from->actions[action];
            const struct pool_memory *m =
                a->kind == ACTION_PROVISION ? pool_remembered(w->core, a->machine) : NULL;
            if (m && m->sold_out) stock_lacks(w, i, a->machine, m);
        }
    }
}

const struct decision *pools_amend(struct core *core, const struct decision *decision)
{
    const struct availability *a = &core->availability;
    struct waits_for_stock w = {.core = core, .from = decision};
    bool due = false;

    for (uint32_t i = 0; i < a->count; i++) {
        due |= a->at[i]->sold_out && !pool_barred(core, a->at[i]);
        if (a->at[i]->probe) stock_of_probe(&w, a->at[i]);
    }
    if (due) stock_of_actions(&w);
    return w.amended ? w.amended : decision;
}

/* --- reading --- */

uint64_t pools_next_try(const struct core *core, const struct capacity_pool *pool)
{
    const struct pool_memory *m = availability_find(&core->availability, pool);

    return !m || m->probe ? 0 : mono_elapsed_ms(core->now, m->until);
}

enum err core_pools(const struct core *core, mono_time now, wall_time wall, struct arena *arena,
                    struct sold_out_pool **ret_pools, size_t *ret_count)
{
    const struct availability *a = &core->availability;
    struct sold_out_pool *pools = arena_calloc(arena, a->count, sizeof *pools);
    size_t count = 0;

    if (!pools) return ERR_NOMEM;
    for (uint32_t i = 0; i < a->count; i++) {
        const struct pool_memory *m = a->at[i];
        if (!m->sold_out) continue;
        pools[count].pool = m->pool;
        pools[count].refusals = m->refusals;
        pools[count].left_ms = m->probe ? 0 : mono_elapsed_ms(now, m->until);
        pools[count].until = (wall_time){wall.ms + pools[count].left_ms};
        pools[count++].error = str_of(m->why, m->why_len);
    }
    *ret_pools = pools;
    *ret_count = count;
    return ERR_OK;
}

void core_pool_restore(struct core *core, const struct sold_out_pool *hint, mono_time now)
{
    availability_restore(&core->availability, &hint->pool, (uint8_t)min_u64(hint->refusals, 100),
                         mono_after(now, hint->left_ms), now);
}
