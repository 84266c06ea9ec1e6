/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the phases of a decision in order. */
#include "shard/decide/decider.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void decide_input_init(struct decide_input *input, mono_time now)
{
    memset(input, 0, sizeof *input);
    input->now = now;
    input->weights = (struct victim_weights){.priority = 1.0,
                                             .drain = 0.1,
                                             .interruption = 0.1,
                                             .reclamation = 0.1,
                                             .drain_ms = 30 * MS_PER_SECOND};
    for (int type = 0; type < CAPACITY_TYPE_COUNT; type++) {
        input->idle_hold_ms[type] = capacity_type_idle_hold_ms((enum capacity_type)type);
    }
}

enum err decider_open(const struct decider_options *options, struct decider **ret_engine)
{
    struct decider *e;

    if (!options->inventory || !options->needs || !options->dimensions) return ERR_INVALID;
    e = calloc(1, sizeof *e);
    if (!e) return ERR_NOMEM;
    e->options = *options;
    e->inventory = options->inventory;
    e->needs = options->needs;
    arena_init(&e->arena, options->scratch_max ? options->scratch_max : SIZE_MAX);
    arena_init(&e->rows_arena, SIZE_MAX);
    *ret_engine = e;
    return ERR_OK;
}

void decider_close(struct decider *engine)
{
    if (!engine) return;
    for (uint32_t i = 0; i < engine->set_cap; i++) {
        free(engine->sets[i].terms);
        free(engine->sets[i].values);
    }
    arena_deinit(&engine->arena);
    arena_deinit(&engine->rows_arena);
    keep_orders_free(engine);
    void *const kept[] = {
        engine->sources,        engine->keys,       engine->cohorts,      engine->clusters,
        engine->family_marks,   engine->sets,       engine->states,       engine->slots,
        engine->steady,         engine->key_states, engine->memories,     engine->verdicts,
        engine->verdicts_next,  engine->wants,      engine->levels,       engine->gang_rows,
        engine->gang_places,    engine->victims,    engine->victim_types, engine->rows,
        engine->folded,         engine->takes.at,   engine->before.at,    engine->ties.at,
        engine->ties_before.at, engine->log.at,     engine->actions};
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) free(kept[i]);
    free(engine);
}

void decider_note(struct decider *e, enum err err)
{
    if (!e->err) e->err = err;
}

void *decider_room(struct decider *e, size_t count, size_t size)
{
    void *items = arena_alloc(&e->arena, count * size);

    if (!items) decider_note(e, ERR_FULL);
    return items;
}

void *decider_alloc(struct decider *e, size_t count, size_t size)
{
    void *items = arena_calloc(&e->arena, count ? count : 1, size);

    if (!items) decider_note(e, ERR_FULL);
    return items;
}

bool kept_room(struct decider *e, void *items_pointer, uint32_t count, uint32_t *cap, size_t size)
{
    char *items;

    if (count <= *cap) return true;
    /* Grows by a quarter and not by doubling, because with half a million machines these arrays are
     * most of an engine's memory. */
    uint64_t more = max_u64(count, (uint64_t)*cap + *cap / 4);
    memcpy(&items, items_pointer, sizeof items);
    items = realloc(items, more * size); /* after a failure, *items_pointer is still valid */
    if (!items) {
        decider_note(e, ERR_NOMEM);
        return false;
    }
    memset(items + *cap * size, 0, (more - *cap) * size);
    memcpy(items_pointer, &items, sizeof items);
    *cap = (uint32_t)more;
    return true;
}

bool decider_grow(struct decider *e, void *items_pointer, uint32_t count, uint32_t *cap,
                  size_t size)
{
    void *old, *items;

    if (count < *cap) return true;
    uint32_t more = *cap ? *cap : 16;
    while (more <= count && more <= UINT32_MAX / 2) more *= 2;
    items = more > count ? decider_room(e, more, size) : NULL;
    if (!items) {
        decider_note(e, ERR_FULL);
        return false;
    }
    memcpy(&old, items_pointer, sizeof old);
    if (*cap) memcpy(items, old, *cap * size);
    memcpy(items_pointer, &items, sizeof items);
    *cap = more;
    return true;
}

void action_add(struct decider *e, const struct action *action)
{
    if (kept_room(e, &e->actions, e->action_count + 1, &e->action_cap, sizeof *e->actions)) {
        e->actions[e->action_count++] = *action;
    }
}

bool kept_arrays_reserve(struct decider *e, const struct kept_array *arrays, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct kept_array *a = &arrays[i];
        if (!kept_room(e, a->items_pointer, a->count, a->cap, a->size)) return false;
    }
    return true;
}

static bool decider_start_kept(struct decider *e)
{
    const struct inventory *inv = e->inventory;
    const struct kept_array arrays[] = {
        {&e->sources, inv->cohort_slots.used, &e->source_cap, sizeof *e->sources},
        {&e->cohorts, inv->cohort_slots.used, &e->cohort_cap, sizeof *e->cohorts},
        {&e->key_states, inv->key_slots.used, &e->key_state_cap, sizeof *e->key_states},
        {&e->keys, inv->key_slots.used, &e->key_cap, sizeof *e->keys},
        {&e->family_marks, inv->family_slots.used, &e->family_cap, sizeof *e->family_marks},
        {&e->clusters, inv->cluster_slots.used, &e->cluster_cap, sizeof *e->clusters},
        {&e->victims, inv->look_slots.used, &e->victims_cap, sizeof *e->victims},
        {&e->victim_types, inv->posting_slots.used + 1, &e->victim_type_cap,
         sizeof *e->victim_types},
        {&e->sets, e->needs->set_slots.used, &e->set_cap, sizeof *e->sets},
    };

    return kept_arrays_reserve(e, arrays, ARRAY_LEN(arrays));
}

static void decider_start(struct decider *e, const struct decide_input *input)
{
    const struct inventory *inv = e->inventory;

    e->number++;
    if (!decider_start_kept(e)) return;
    arena_reset(&e->arena);
    e->input = *input;
    memset((char *)e + offsetof(struct decider, restless), 0,
           sizeof *e - offsetof(struct decider, restless));
    e->decision = (struct decision){0};
    e->log.count = e->action_count = 0;
    e->key_last = decider_alloc(e, inv->key_slots.used, sizeof *e->key_last);
    e->claimed = decider_alloc(e, inv->cluster_slots.used, sizeof *e->claimed);
    e->ready = decider_alloc(e, inv->cluster_slots.used, sizeof *e->ready);
    e->bucket_of = decider_alloc(e, inv->posting_slots.used, sizeof *e->bucket_of);
    e->cluster_of = decider_alloc(e, e->needs->cluster_slots.used, sizeof(struct cohort_cluster *));
    e->touched = decider_alloc(e, inv->cohort_slots.used / 64 + 1, sizeof *e->touched);
    if (e->err) return;
    for (uint32_t i = 0; i < inv->cluster_slots.used; i++) {
        const struct cohort_cluster *cluster = slot_map_get(&inv->cluster_slots, i);
        if (cluster) e->ready[i] = needs_reported(e->needs, cluster_text(cluster));
    }
    for (uint32_t i = 0; i < e->needs->cluster_slots.used; i++) {
        const struct demand_cluster *cluster = slot_map_get(&e->needs->cluster_slots, i);
        if (cluster) e->cluster_of[i] = inventory_cluster(inv, cluster->name);
    }
    sold_out_read(e);
}

/* Steps in their order. After the first error no further step runs. */
static const struct decide_step {
    void (*run)(struct decider *e);
    bool ends; /* the last step of a part (enum decide_part) */
    enum decide_part part;
} decide_steps[] = {
    {normalise, false, 0},
    {steady_refresh, true, DECIDE_READ},
    {assign, false, 0},
    {emit_phase1, true, DECIDE_PHASE1},
    {preempt, true, DECIDE_PHASE2},
    {release, false, 0},
    {verdicts_make, true, DECIDE_PHASE3},
};

enum err decide(struct decider *engine, const struct decide_input *input,
                const struct decision **ret_decision)
{
    engine->err = needs_order(engine->needs);
    if (!engine->err) decider_start(engine, input);
    for (size_t i = 0; i < ARRAY_LEN(decide_steps); i++) {
        const struct decide_step *step = &decide_steps[i];
        if (!engine->err) step->run(engine);
        if (step->ends && input->mark) input->mark(input->mark_context, step->part);
    }
    /* Without a limit, ERR_FULL can only mean that memory ran out. */
    if (engine->err == ERR_FULL && !engine->options.scratch_max) engine->err = ERR_NOMEM;
    if (engine->err) return engine->err;
    engine->courses_of = engine->number;
    engine->decision.actions = engine->actions;
    engine->decision.action_count = engine->action_count;
    *ret_decision = &engine->decision;
    return ERR_OK;
}
