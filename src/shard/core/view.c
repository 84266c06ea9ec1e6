/* SPDX-License-Identifier: Apache-2.0 */
/* The data for people and the coordinator: verdicts of the last cycle, gauges, the summary. */
#include <stdlib.h>

#include "shard/core/running_actions.h"
#include "shard/state/cohort.h"

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

/* Returns the row of the needs table. A folded row belongs to the decision engine, so it is
 * copied. */
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
    if (text_copy(arena, from->sold_out.instance_type, &to->sold_out.instance_type) ||
        text_copy(arena, from->sold_out.zone, &to->sold_out.zone))
        return NULL;
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
    return a < b ? -1 : 1; /* the order of the Needs */
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
        if (found[i]->shortage && found[i]->shortage->reason == REASON_SOLD_OUT)
            needs[i].next_try_ms = pools_next_try(core, &found[i]->shortage->sold_out);
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

/* --- holdings: cohorts merged by what matters for cost --- */

static struct str posting_name(const struct inventory *inv, uint32_t slot)
{
    const struct posting *p = slot == SLOT_NONE ? NULL : slot_map_held(&inv->posting_slots, slot);

    return p ? str_of(p->value, p->value_len) : STR_EMPTY;
}

static int compare_kinds(const struct holding *a, const struct holding *b)
{
    int order = a->state != b->state ? (a->state < b->state ? -1 : 1) : 0;

    if (!order) order = str_compare(a->type, b->type);
    if (!order) order = str_compare(a->zone, b->zone);
    if (!order && a->capacity_type != b->capacity_type)
        order = a->capacity_type < b->capacity_type ? -1 : 1;
    if (!order && a->price != b->price) order = a->price < b->price ? -1 : 1;
    return order;
}

static int compare_holdings(const void *left, const void *right)
{
    return compare_kinds(left, right);
}

static size_t holdings_merge(struct holding *rows, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        if (kept && compare_kinds(&rows[kept - 1], &rows[i]) == 0)
            rows[kept - 1].count += rows[i].count;
        else
            rows[kept++] = rows[i];
    }
    return kept;
}

enum err core_holdings(const struct core *core, size_t cohorts_max, struct arena *arena,
                       struct holding **ret_rows, size_t *ret_count)
{
    const struct inventory *inv = core->inventory;
    size_t count = 0, cohorts = inv->cohort_slots.used;
    struct holding *rows;

    if (cohorts > cohorts_max) return ERR_TOO_LARGE;
    rows = arena_calloc(arena, cohorts, sizeof *rows);
    if (!rows) return ERR_NOMEM;
    for (uint32_t slot = 0; slot < cohorts; slot++) {
        const struct cohort *c = slot_map_get(&inv->cohort_slots, slot);
        const struct look_brief *look = c ? &inv->look_briefs[c->traits.look->slot] : NULL;

        if (!c || c->count == 0) continue;
        rows[count++] = (struct holding){
            .state = (enum machine_state)c->traits.state,
            .capacity_type = (enum capacity_type)c->traits.capacity_type,
            .type = posting_name(inv, look->type),
            .zone = posting_name(inv, look->zone),
            .price = c->traits.price,
            .count = c->count,
        };
    }
    if (count > 1) qsort(rows, count, sizeof *rows, compare_holdings);
    *ret_rows = rows;
    *ret_count = holdings_merge(rows, count);
    return ERR_OK;
}

/* --- machines in back-off --- */

enum { LOOKED_MOST = 65536 }; /* limit of work records examined */

static int resting_compare(const void *a, const void *b)
{
    const struct resting *x = a, *y = b;

    return str_compare(x->machine, y->machine);
}

/* True if the machine is in back-off. */
static bool work_rests(const struct machine_work *w, mono_time now, struct rest *ret_rest)
{
    mono_time end = {w->due.due};

    switch (w->kind) {
    case WORK_PASSING: return false;
    case WORK_QUIET:
    case WORK_DRAINED:
    case WORK_REFUSED:
        if (mono_due(w->until, now)) return false;
        ret_rest->why = RESTING_REFUSED;
        end = w->until;
        break;
    case WORK_DOUBT: ret_rest->why = RESTING_DOUBT; break;
    case WORK_FAILED: ret_rest->why = RESTING_FAILED; break;
    }
    ret_rest->refusals = w->refusals;
    ret_rest->asked = w->tries;
    ret_rest->left_ms = mono_elapsed_ms(now, end);
    return true;
}

enum err core_resting(struct core *core, size_t most, mono_time now, struct arena *arena,
                      struct resting_view *ret_view)
{
    const struct table *works = &core->running->works;
    struct resting *machines = arena_calloc(arena, most, sizeof *machines);
    struct resting_view view = {.machines = machines};
    size_t looked = 0;

    if (!machines) return ERR_NOMEM;
    for (uint32_t i = 0; i < works->bucket_count && looked < LOOKED_MOST; i++)
        for (const struct table_link *link = works->buckets[i]; link; link = link->next) {
            const struct machine_work *w = CONTAINER_OF(link, struct machine_work, link);
            struct inventory_entry entry;
            struct rest rest;

            looked++;
            if (!work_rests(w, now, &rest)) continue;
            view.total++;
            if (view.count == most) continue;
            arena_reset(&core->scratch); /* frees the previous record */
            if (core_get(core, str_of(w->id, w->id_len), &entry)) continue;
            machines[view.count++] = (struct resting){.machine = entry.machine.id,
                                                      .cluster = entry.machine.cluster,
                                                      .error = entry.machine.last_error,
                                                      .state = entry.machine.state,
                                                      .rest = rest};
        }
    view.all = looked == works->count;
    qsort(machines, view.count, sizeof *machines, resting_compare);
    *ret_view = view;
    return ERR_OK;
}

enum err core_machine(struct core *core, struct str id, mono_time now,
                      struct machine_facts *ret_facts)
{
    struct machine_facts facts = {0};
    struct inventory_entry entry;
    const struct machine_work *w;
    enum err err;

    arena_reset(&core->scratch);
    err = core_get(core, id, &entry);
    if (err) return err;
    facts.machine = entry.machine;
    facts.idle_since = entry.idle_since;
    facts.planned_state = entry.planned_state;
    facts.pending = core_is_pending(core, id);
    facts.outside = !scope_has(core, &facts.machine.attributes);
    drain_facts(core, id, now, &facts);
    occupancy_facts(core, &facts);
    w = work_find(core, id);
    facts.rests = w && work_rests(w, now, &facts.rest);
    *ret_facts = facts;
    return ERR_OK;
}
