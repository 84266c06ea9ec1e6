/* SPDX-License-Identifier: Apache-2.0 */
/* What people and the coordinator read: the verdicts of the last cycle, gauges, the summary. */
#include <stdlib.h>

#include "shard/core/core_internal.h"

#define VIEW_BYTES_MAX ((size_t)1 << 30)

void views_deinit(struct views *views)
{
    arena_deinit(&views->arena);
    *views = (struct views){0};
}

/* --- after a decision --- */

static bool amounts_copy(struct arena *arena, const struct amounts *from, struct amounts *ret_to)
{
    size_t size = resource_bits(from->mask) * sizeof *from->milli;
    int128 *milli = arena_alloc(arena, size);

    if (!milli) return false;
    if (size) memcpy(milli, from->milli, size);
    *ret_to = *from;
    ret_to->milli = milli;
    return true;
}

/* The row itself when the needs table has it; a folded one is the engine's, and is copied. */
static const struct demand *need_keep(struct arena *arena, const struct demand *need)
{
    const struct demand_set *set = &need->cluster->set;
    struct demand *copy;

    if ((uintptr_t)need >= (uintptr_t)set->demands &&
        (uintptr_t)need < (uintptr_t)(set->demands + set->demand_count))
        return need;
    copy = arena_alloc(arena, sizeof *copy);
    if (!copy) return NULL;
    *copy = *need;
    return amounts_copy(arena, &need->aggregate, &copy->aggregate) ? copy : NULL;
}

static const struct shortage *shortage_keep(struct arena *arena, const struct shortage *from)
{
    struct shortage *to = arena_alloc(arena, sizeof *to);

    if (!to) return NULL;
    *to = *from;
    for (uint32_t i = 0; i < from->domain_count; i++)
        if (text_copy(arena, from->domains[i].value, &to->domains[i].value)) return NULL;
    return amounts_copy(arena, &from->deficit, &to->deficit) &&
                   amounts_copy(arena, &from->freed, &to->freed) &&
                   amounts_copy(arena, &from->unresolved, &to->unresolved)
               ? to
               : NULL;
}

static bool row_keep(struct arena *arena, const struct need_verdict *v, struct need_verdict *row)
{
    *row = *v;
    row->need = need_keep(arena, v->need);
    if (!row->need || text_copy(arena, v->domain, &row->domain)) return false;
    if (v->shortage) row->shortage = shortage_keep(arena, v->shortage);
    return !v->shortage || row->shortage;
}

enum err view_note(struct core *core, const struct decision *decision)
{
    struct views next = {
        .count = decision->verdict_count, .cycle = core->counts.cycles, .at = core->wall};
    bool kept;

    arena_init(&next.arena, VIEW_BYTES_MAX);
    next.rows = arena_alloc(&next.arena, next.count * sizeof *next.rows);
    kept = next.rows != NULL;
    for (size_t i = 0; i < next.count && kept; i++) {
        kept = row_keep(&next.arena, &decision->verdicts[i], &next.rows[i]);
        next.by_bucket[demand_interruption_bucket(decision->verdicts[i].need)]++;
    }
    if (!kept) {
        views_deinit(&next);
        return ERR_NOMEM;
    }
    needs_keep(core->needs);
    views_deinit(&core->views);
    core->views = next;
    return ERR_OK;
}

/* --- gauges --- */

void gauges_note(struct core *core)
{
    struct core_counts *counts = &core->counts;
    size_t count;
    const struct shortfall *const *all = ledger_shortfalls(core->ledger, &count);

    counts->shortfalls = (uint32_t)count;
    memset(counts->shortfalls_aged, 0, sizeof counts->shortfalls_aged);
    memset(counts->shortfalls_by_class, 0, sizeof counts->shortfalls_by_class);
    for (size_t i = 0; i < count && i < LEDGER_TOP; i++) {
        counts->shortfalls_aged[shortfall_age_index(all[i]->age)]++;
        counts->shortfalls_by_class[shortfall_class_index(all[i]->profile.priority)]++;
    }
    memcpy(counts->demand_rows, core->views.by_bucket, sizeof counts->demand_rows);
    counts->inventory = inventory_counts(core->inventory);
    memcpy(counts->inventory_by_bucket, core->tally.by_bucket, sizeof counts->inventory_by_bucket);
}

/* --- InspectNeeds --- */

static int compare_rows(const void *left, const void *right)
{
    const struct need_verdict *a = *(const struct need_verdict *const *)left;
    const struct need_verdict *b = *(const struct need_verdict *const *)right;
    const struct demand *x = a->need, *y = b->need;
    int order;

    if (x->profile->priority != y->profile->priority)
        return x->profile->priority > y->profile->priority ? -1 : 1;
    if (x->arrival_unix_ns != y->arrival_unix_ns)
        return x->arrival_unix_ns < y->arrival_unix_ns ? -1 : 1;
    order = str_compare(x->key.cluster, y->key.cluster);
    if (order) return order;
    return a < b ? -1 : 1; /* the order of Needs */
}

enum err core_inspect(const struct core *core, struct str cluster, uint32_t limit,
                      struct arena *arena, struct needs_view *ret_view)
{
    const struct views *v = &core->views;
    const struct need_verdict **found = arena_alloc(arena, v->count * sizeof(void *));
    struct needs_view view = {.cycle = v->cycle, .at = v->at};
    struct need_view *needs;
    size_t count = 0;

    if (!found) return ERR_NOMEM;
    for (size_t i = 0; i < v->count; i++)
        if (!cluster.len || str_equal(v->rows[i].need->key.cluster, cluster))
            found[count++] = &v->rows[i];
    if (count) qsort(found, count, sizeof(void *), compare_rows);
    view.total = count;
    if (limit) count = min_size(count, limit);
    needs = arena_alloc(arena, count * sizeof *needs);
    if (!needs) return ERR_NOMEM;
    for (size_t i = 0; i < count; i++) {
        const struct need_key *key = &found[i]->need->key;
        needs[i] = (struct need_view){.row = found[i]};
        if (found[i]->need->gang) needs[i].parked_age = parking_age(core->parking, key);
        if (found[i]->shortage) needs[i].unmet_age = ledger_age(core->ledger, key->fingerprint);
    }
    view.needs = needs;
    view.count = count;
    *ret_view = view;
    return ERR_OK;
}

/* --- Summary --- */

static int compare_counts(const void *a, const void *b)
{
    const struct count_by_name *x = a, *y = b;

    return str_compare(x->name, y->name);
}

static bool names_show(const struct map *map, struct arena *arena,
                       const struct count_by_name **ret_names, size_t *ret_count)
{
    struct count_by_name *names = arena_alloc(arena, map_count(map) * sizeof *names);
    size_t count = 0, cursor = 0;
    struct map_entry *entry;

    if (!names) return false;
    while ((entry = map_next(map, &cursor))) {
        const struct tally_entry *tally = entry->value;
        names[count++] = (struct count_by_name){tally->name, tally->machines};
    }
    if (count) qsort(names, count, sizeof *names, compare_counts);
    *ret_names = names;
    *ret_count = count;
    return true;
}

enum err core_summary(const struct core *core, struct arena *arena,
                      struct core_summary *ret_summary)
{
    struct inventory_counts counts = inventory_counts(core->inventory);
    struct core_summary s = {.machines = counts.machines};

    s.shortfalls = ledger_shortfalls(core->ledger, &s.shortfall_count);
    s.shortfall_count = min_size(s.shortfall_count, LEDGER_TOP);
    for (int type = 0; type < CAPACITY_TYPE_COUNT; type++)
        s.free += counts.by_state[MACHINE_IDLE][type] + counts.by_state[MACHINE_SPECULATIVE][type];
    if (!names_show(&core->tally.types, arena, &s.types, &s.type_count) ||
        !names_show(&core->tally.zones, arena, &s.zones, &s.zone_count))
        return ERR_NOMEM;
    *ret_summary = s;
    return ERR_OK;
}
