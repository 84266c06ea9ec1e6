/* SPDX-License-Identifier: Apache-2.0 */
/* The machines that an operator of the shard took out of use: by id, or by a label. A rule for a
 * label also covers machines that appear later.
 *
 * move.c gives every record its cordon, so the inventory and the rules agree after each event. If
 * memory runs out while new rules are applied, the next cycle applies them before it decides.
 *
 * A machine that is being emptied is drained like a reclaimed machine (drain.c). The cycle asks for
 * the drain again until the machine is empty, so a refused or lost drain needs no memory of its
 * own. */
#include <stdlib.h>
#include <string.h>

#include "shard/core/running_actions.h"
#include "shard/decide/rails.h"
#include "shard/state/cohort.h"

static int cordon_compare(const void *left, const void *right)
{
    const struct cordon_rule *a = left, *b = right;
    int by_key = str_compare(a->key, b->key);

    return by_key ? by_key : str_compare(a->value, b->value);
}

void cordons_deinit(struct cordons *cordons)
{
    arena_deinit(&cordons->arena);
}

/* CORDON_NONE: no such rule. */
static enum machine_cordon cordon_under(const struct cordons *cordons, struct str key,
                                        struct str value)
{
    struct cordon_rule like = {.key = key, .value = value};
    const struct cordon_rule *found = NULL;

    if (cordons->count)
        found = bsearch(&like, cordons->rules, cordons->count, sizeof like, cordon_compare);
    return found ? found->cordon : CORDON_NONE;
}

static enum machine_cordon cordon_larger(enum machine_cordon a, enum machine_cordon b)
{
    return a > b ? a : b;
}

enum machine_cordon cordon_of(const struct core *core, struct str id,
                              const struct attributes *attributes)
{
    const struct cordons *cordons = &core->cordons;
    enum machine_cordon cordon = cordon_under(cordons, STR_EMPTY, id);

    for (size_t i = 0; i < cordons->key_count; i++) {
        const struct str *value = attributes_find(attributes, cordons->keys[i]);
        if (value) cordon = cordon_larger(cordon, cordon_under(cordons, cordons->keys[i], *value));
    }
    return cordon;
}

static enum machine_cordon cordon_of_look(const struct cordons *cordons, const struct look *look)
{
    enum machine_cordon cordon = CORDON_NONE;

    for (size_t i = 0; i < cordons->key_count; i++) {
        const struct posting *found = look_find(look, cordons->keys[i]);
        if (found)
            cordon = cordon_larger(cordon,
                                   cordon_under(cordons, cordons->keys[i], posting_value(found)));
    }
    return cordon;
}

/* --- new rules --- */

struct cordon_ids {
    struct str *at;
    size_t count, most;
};

static void cordon_id_add(struct cordon_ids *ids, struct str id)
{
    if (ids->count < ids->most) ids->at[ids->count++] = id;
}

/* Machines whose cordon differs from the rules. The ids are borrowed until a machine is removed. */
static enum err cordons_differing(struct core *core, struct arena *arena, struct cordon_ids *ids)
{
    const struct inventory *inv = core->inventory;

    ids->most = inv->rows.count;
    ids->at = arena_alloc(arena, ids->most * sizeof *ids->at);
    if (!ids->at) return ERR_NOMEM;
    for (uint32_t slot = 0; slot < inv->cohort_slots.used; slot++) {
        const struct cohort *c = slot_map_get(&inv->cohort_slots, slot);
        struct member_place place;
        const struct machine_row *row;
        enum machine_cordon by_look;

        if (!c || !c->count) continue;
        by_look = cordon_of_look(&core->cordons, c->traits.look);
        if (by_look == c->traits.cordon && !core->cordons.ids) continue;
        place = cohort_begin(c);
        while ((row = cohort_next(&place))) {
            enum machine_cordon by_id = cordon_under(&core->cordons, STR_EMPTY, row_id(row));
            if (cordon_larger(by_look, by_id) != row_actual(inv, row)->traits.cordon)
                cordon_id_add(ids, row_id(row));
        }
    }
    return ERR_OK;
}

/* True if every machine has the cordon of the rules. */
static bool cordons_apply(struct core *core)
{
    struct cordon_ids ids = {0};
    struct arena arena;
    enum err err;

    arena_init(&arena, SIZE_MAX);
    err = cordons_differing(core, &arena, &ids);
    for (size_t i = 0; i < ids.count && !err; i++) {
        struct inventory_entry entry;

        arena_reset(&core->scratch);
        err = core_get(core, ids.at[i], &entry);
        if (!err) err = core_move(core, &entry.machine, INVENTORY_OBSERVED, NULL, NULL);
    }
    arena_deinit(&arena);
    return !err;
}

static enum err cordons_copy(struct cordons *to, const struct cordon_rule *rules, size_t count)
{
    struct cordon_rule *copies = arena_calloc(&to->arena, count, sizeof *copies);
    struct str *keys = arena_calloc(&to->arena, count, sizeof *keys);
    enum err err = copies && keys ? ERR_OK : ERR_NOMEM;

    for (size_t i = 0; i < count && !err; i++) {
        copies[i].cordon = rules[i].cordon;
        err = text_copy(&to->arena, rules[i].key, &copies[i].key);
        if (!err) err = text_copy(&to->arena, rules[i].value, &copies[i].value);
    }
    if (err) return err;
    if (count) qsort(copies, count, sizeof *copies, cordon_compare);
    for (size_t i = 0; i < count; i++) {
        if (!copies[i].key.len)
            to->ids = true;
        else if (!to->key_count || !str_equal(copies[i].key, keys[to->key_count - 1]))
            keys[to->key_count++] = copies[i].key;
        if (copies[i].cordon == CORDON_EMPTY) to->empties = true;
    }
    to->rules = copies;
    to->keys = keys;
    to->count = count;
    return ERR_OK;
}

enum err cordons_init(struct core *core, const struct cordon_rule *rules, size_t count)
{
    arena_init(&core->cordons.arena, SIZE_MAX);
    return cordons_copy(&core->cordons, rules, count);
}

enum err core_cordon(struct core *core, const struct cordon_rule *rules, size_t count,
                     mono_time now, struct effects *out)
{
    struct cordons next = {0};
    enum err err;

    arena_init(&next.arena, SIZE_MAX);
    err = cordons_copy(&next, rules, count);
    if (err) {
        cordons_deinit(&next);
        return err;
    }
    core_begin(core, now, out);
    /* With old rules for ids, machines without a rule may differ, too. */
    next.ids = next.ids || core->cordons.ids;
    cordons_deinit(&core->cordons);
    core->cordons = next;
    core->cordons.owed = !cordons_apply(core);
    (void)effects_add(core->out, EFFECT_CYCLE_SOON);
    core_end(core);
    return ERR_OK;
}

/* --- before each decision --- */

/* True if a drain of the machine may begin now. */
static bool cordon_may_drain(const struct core *core, struct str id)
{
    const struct machine_work *w = work_find(core, id);

    if (!w) return true;
    return !w->task && list_empty(&w->ended) && w->kind != WORK_DOUBT && w->kind != WORK_DRAINED &&
           mono_due(w->until, core->now);
}

static enum err cordon_drain(struct core *core, struct str id)
{
    struct inventory_entry entry;
    struct machine_task *task;
    enum err err;

    arena_reset(&core->scratch);
    err = core_get(core, id, &entry);
    if (err) return err;
    return task_open(core,
                     &(struct action){.kind = ACTION_RECLAIM,
                                      .machine = entry.machine.id,
                                      .cluster = entry.machine.cluster,
                                      .grace_ms = RECLAIM_GRACE_MS},
                     NULL, CAUSE_MAINTENANCE, &task);
}

/* The number of drains that one cycle may begin: the reclaim cap over all clusters, and the limit of
 * actions. */
static uint64_t cordon_drains_most(const struct core *core)
{
    const struct rails_options *rails = &core->options.rails;
    struct inventory_counts counts = inventory_counts(core->inventory);
    uint64_t configured = 0, most = UINT64_MAX;

    for (int type = 0; type < CAPACITY_TYPE_COUNT; type++)
        configured += counts.by_state[MACHINE_CONFIGURED][type];
    if (rails->reclaim_fraction > 0) most = rails_reclaim_cap(rails->reclaim_fraction, configured);
    return rails->actions_max ? min_u64(most, rails->actions_max) : most;
}

static void cordons_drain(struct core *core)
{
    const struct slot_map *cohorts = &core->inventory->cohort_slots;
    uint64_t left = cordon_drains_most(core);
    enum err err = ERR_OK;

    for (uint32_t slot = 0; slot < cohorts->used && left && !err; slot++) {
        const struct cohort *c = slot_map_get(cohorts, slot);
        struct member_place place;
        const struct machine_row *row;

        if (!c || !c->count || c->traits.cordon != CORDON_EMPTY ||
            c->traits.state != MACHINE_CONFIGURED)
            continue;
        place = cohort_begin(c);
        while (left && !err && (row = cohort_next(&place))) {
            if (!cordon_may_drain(core, row_id(row))) continue;
            err = cordon_drain(core, row_id(row)); /* the queue is full: a later cycle */
            if (!err) left--;
        }
    }
}

void cordons_run(struct core *core)
{
    if (core->cordons.owed) core->cordons.owed = !cordons_apply(core);
    if (core->cordons.empties && core_acts(core) && core->running->settled) cordons_drain(core);
}

bool cordon_forbids(struct core *core, struct machine_task *task, const struct machine *machine)
{
    enum machine_cordon cordon = cordon_of(core, machine->id, &machine->attributes);
    bool gone = task->cause == CAUSE_MAINTENANCE && !task->draining && cordon != CORDON_EMPTY;

    /* A decided reclaim of a cordoned machine goes on; a preemption would free the machine for a
     * Need that cannot get it. */
    if (!gone && (task->cause != CAUSE_DECIDED || task->draining || task->blob ||
                  cordon == CORDON_NONE || task->action == ACTION_RECLAIM))
        return false;
    task_end(core, task, OUTCOME_STALE_STATE,
             gone ? STR("the order to empty the machine was taken back")
                  : STR("the machine was cordoned"));
    return true;
}

/* --- for people --- */

enum err core_cordon_count(struct core *core, struct str key, struct str value,
                           uint32_t *ret_machines)
{
    const struct inventory *inv = core->inventory;
    const struct posting *posting;
    uint32_t machines = 0;

    *ret_machines = 0;
    if (!key.len) {
        *ret_machines = inventory_row(inv, value) != NULL;
        return *ret_machines ? ERR_OK : ERR_NOT_FOUND;
    }
    posting = inventory_posting(inv, key, value);
    for (uint32_t slot = 0; posting && slot < inv->cohort_slots.used; slot++) {
        const struct cohort *c = slot_map_get(&inv->cohort_slots, slot);
        if (c && look_find(c->traits.look, key) == posting) machines += c->count;
    }
    *ret_machines = machines;
    return machines ? ERR_OK : ERR_NOT_FOUND;
}
