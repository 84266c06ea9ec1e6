/* SPDX-License-Identifier: Apache-2.0 */
/* Section 1 of decision.md: decides which gangs fold, and sorts the rows in the order of Needs. The
 * rows of the last decision are reused if neither the demand nor the folding changed. Plain rows
 * are already merged (shard/state/merge.c). */
#include <stdlib.h>
#include <string.h>

#include "shard/decide/price_lists.h"

enum { ANSWER_UNKNOWN, ANSWER_NO, ANSWER_YES };
enum { OUTFITS_MOST = 1024 };

struct folding {
    uint8_t *fits;    /* indexed by gangs.number; cached: can one machine hold the gang? */
    uint32_t *counts; /* indexed by fold.number: number of gangs folded into the row */
    int64_t *arrivals;
    bool any, changed;
};

/* --- cached facts about rows --- */

/* Finds the row's family or key. Hashes strings only if the cached slot is invalid. */
static void memory_refresh(struct decider *e, struct row_memory *m, const struct demand *d)
{
    const struct inventory *inv = e->inventory;
    const struct slot_map *slots = d->gang ? &inv->key_slots : &inv->family_slots;
    void *known = m->birth && m->slot < slots->used ? slot_map_get(slots, m->slot) : NULL;
    const struct key *key = d->gang ? known : NULL;
    const struct family *family = d->gang ? NULL : known;
    uint64_t birth = key ? key->birth : family ? family->birth : 0;
    bool same = known && birth == m->birth;
    uint64_t version;

    if (!same && !m->birth && m->version == inv->keys_born) return; /* still no family or key */
    if (!same && d->gang) {
        key = inventory_key(inv, d->key.cluster, d->key.fingerprint, d->key.group);
    } else if (!same) {
        family = inventory_family(inv, d->key.cluster, d->key.fingerprint);
    }
    version = key ? key->version : family ? family->version : inv->keys_born;
    if (same && version == m->version) return;
    *m = (struct row_memory){.row = m->row, .version = version, .key = KEY_NONE};
    if (key) {
        m->birth = key->birth;
        m->slot = m->key = key->slot;
    } else if (family) {
        m->birth = family->birth;
        m->slot = family->slot;
        if (family->count == 1) m->key = family->keys[0]->slot;
    }
}

struct row_state *row_state_of(struct decider *e, struct demand *d)
{
    bool known = d->memory < e->state_count && e->memories[d->memory].row == d->birth;

    if (!known) {
        uint32_t count = e->state_count + 1;
        if (!kept_room(e, &e->steady, count, &e->steady_cap, sizeof *e->steady) ||
            !kept_room(e, &e->states, count, &e->state_cap, sizeof *e->states) ||
            !kept_room(e, &e->memories, count, &e->memory_cap, sizeof *e->memories))
            return NULL;
        d->memory = e->state_count++;
        e->steady[d->memory].key = KEY_NONE;
        e->states[d->memory] = (struct row_state){.made = UINT64_MAX};
        e->memories[d->memory] = (struct row_memory){
            .row = d->birth, .key = KEY_NONE, .version = UINT64_MAX /* forces a look-up */};
    }
    return &e->states[d->memory];
}

struct row_memory *memory_of(struct decider *e, struct demand *d)
{
    if (!row_state_of(e, d)) return NULL;
    memory_refresh(e, &e->memories[d->memory], d);
    return &e->memories[d->memory];
}

/* States are never freed one by one, so all are dropped when most belong to removed rows. */
static void memory_sweep(struct decider *e)
{
    if (e->state_count / 4 <= e->needs->order_count + e->needs->folds_count) return;
    e->state_count = 0;
}

void want_find(struct decider *e, struct want *w, struct demand *demand)
{
    const struct row_memory *m = memory_of(e, demand);

    *w = (struct want){.demand = demand,
                       .cluster = e->cluster_of[demand->cluster->slot],
                       .gang = demand->gang,
                       .live = demand->aggregate.mask};
    if (!m || !m->birth) return;
    if (demand->gang) {
        w->key = slot_map_held(&e->inventory->key_slots, m->slot);
        w->family = w->key->family;
    } else {
        w->family = slot_map_held(&e->inventory->family_slots, m->slot);
    }
}

/* --- folding --- */

/* A quick test: true if a machine of a type that the set names might hold the whole gang. */
static bool might_hold_whole(const struct decider *e, const struct demand *d,
                             const struct set_memory *memory)
{
    const struct slot_map *outfits = &e->inventory->outfit_slots;

    if (outfits->used > OUTFITS_MOST) return true; /* testing all outfits would take too long */
    for (uint32_t i = 0; i < outfits->used; i++) {
        const struct outfit *outfit = slot_map_get(outfits, i);
        if (outfit && set_names_type(memory, outfit->type) &&
            resources_covers(outfit->shape->alloc, d->gangs->fold->demand.unit)) {
            return true;
        }
    }
    return false;
}

static bool holds_whole(struct decider *e, const struct demand *d)
{
    const struct resources *whole = d->gangs->fold->demand.unit;
    const struct set_memory *memory = set_recall(e, d->kind->set);
    const struct cohort_cluster *cluster = e->cluster_of[d->cluster->slot];

    if (!might_hold_whole(e, d, memory)) return false;
    for (int state = 0; state < POOL_COUNT; state++) {
        if (price_lists_count(e, (enum pool_state)state, memory, whole, false, 1)) return true;
    }
    return cluster && (type_bags_count(e, &cluster->configured, memory, whole, 1) ||
                       type_bags_count(e, &cluster->configuring, memory, whole, 1));
}

static bool is_served(struct decider *e, struct demand *d)
{
    struct row_memory *m = memory_of(e, d);
    struct want w;

    if (m && m->birth && !m->domain_known) {
        want_find(e, &w, d);
        m->domain = gang_served(e, &w);
        m->domain_known = !e->err;
    }
    return m && m->birth && m->domain;
}

static bool gang_folds(struct decider *e, struct folding *f, struct demand *d)
{
    uint8_t *fits = &f->fits[d->gangs->number];

    /* the gang asks for nothing, or for more than any machine has */
    if (!d->gangs->fold || !d->aggregate.mask) return false;
    if (*fits == ANSWER_UNKNOWN) *fits = holds_whole(e, d) ? ANSWER_YES : ANSWER_NO;
    return *fits == ANSWER_YES && !is_served(e, d);
}

static void fold_gangs(struct decider *e, struct folding *f)
{
    for (uint32_t k = 0; k < e->gang_place_count; k++) {
        uint32_t i = e->gang_places[k];
        struct demand *demand = e->needs->order[i];
        bool folds = gang_folds(e, f, demand);
        assert(e->folded);
        if (folds != e->folded[i]) f->changed = true;
        e->folded[i] = folds;
        if (!folds) continue;
        uint32_t number = demand->gangs->fold->number;
        f->counts[number]++;
        f->arrivals[number] = arrival_earlier(f->arrivals[number], demand->arrival_unix_ns);
        f->any = true;
    }
}

/* --- resulting rows --- */

/* Returns the row of a fold, merged with an equal plain row if there is one. */
static struct demand *fold_row(struct decider *e, const struct folding *f, const struct fold *fold)
{
    struct demand *row = ARENA_NEW(&e->rows_arena, struct demand);
    struct resource_sum one, all, plain;

    if (!row) {
        decider_note(e, ERR_NOMEM);
        return NULL;
    }
    *row = fold->plain ? *fold->plain : fold->demand;
    amounts_sum(&fold->demand.aggregate, &one);
    resource_sum_scale_sum(&all, &one, f->counts[fold->number]);
    if (fold->plain) {
        amounts_sum(&fold->plain->aggregate, &plain);
        resource_sum_add_sum(&all, &plain);
    }
    row->arrival_unix_ns = arrival_earlier(row->arrival_unix_ns, f->arrivals[fold->number]);
    row->birth = fold->demand.birth;
    row->memory = UINT32_MAX; /* nothing is cached about the new row */
    decider_note(e, amounts_keep(&e->rows_arena, &all, &row->aggregate));
    return row;
}

static void row_add(struct decider *e, struct demand *row)
{
    if (!kept_room(e, &e->rows, e->row_count + 1, &e->row_cap, sizeof row)) return;
    e->rows[e->row_count++] = row;
}

static void fold_rows(struct decider *e, const struct folding *f)
{
    for (uint32_t i = 0; !e->err && i < e->row_count; i++) {
        const struct fold *fold = e->rows[i]->fold;
        if (!fold || !f->counts[fold->number]) continue;
        e->rows[i] = fold_row(e, f, fold);
        e->folded_rows++;
    }
    for (uint32_t i = 0; !e->err && i < e->needs->folds_count; i++) {
        const struct fold *fold = e->needs->folds[i];
        if (fold->plain || !f->counts[i]) continue;
        row_add(e, fold_row(e, f, fold));
        e->folded_rows++;
    }
}

static void rows_make(struct decider *e, const struct folding *f)
{
    e->rows_version = 0; /* invalid until the rows are complete */
    e->rows_made++;
    e->row_count = e->folded_rows = 0;
    arena_reset(&e->rows_arena);
    for (uint32_t i = 0; i < e->needs->order_count; i++) {
        if (!e->folded[i]) row_add(e, e->needs->order[i]);
    }
    if (f->any) fold_rows(e, f);
    if (e->err) return;
    if (f->any) qsort(e->rows, e->row_count, sizeof(struct demand *), demand_compare);
    e->rows_version = e->needs->version;
}

static void gangs_find(struct decider *e)
{
    e->gang_place_count = 0;
    for (uint32_t i = 0; e->needs->gangs_count && i < e->needs->order_count; i++) {
        if (e->needs->order[i]->gang) e->gang_places[e->gang_place_count++] = i;
    }
}

void normalise(struct decider *e)
{
    const struct needs *needs = e->needs;
    bool demand_changed = e->rows_version != needs->version;
    const struct kept_array arrays[] = {
        {&e->folded, needs->order_count, &e->folded_cap, sizeof *e->folded},
        {&e->gang_places, needs->order_count, &e->gang_place_cap, sizeof *e->gang_places},
        {&e->memories, 1, &e->memory_cap, sizeof *e->memories},
    };
    struct folding f = {.changed = demand_changed};

    f.fits = decider_alloc(e, needs->gangs_count, sizeof *f.fits);
    f.counts = decider_alloc(e, needs->folds_count, sizeof *f.counts);
    f.arrivals = decider_alloc(e, needs->folds_count, sizeof *f.arrivals);
    if (!kept_arrays_reserve(e, arrays, ARRAY_LEN(arrays)) || e->err) return;
    if (demand_changed) {
        if (e->folded) memset(e->folded, 0, e->folded_cap);
        gangs_find(e);
    }
    fold_gangs(e, &f);
    if (f.changed) {
        memory_sweep(e);
        rows_make(e, &f);
    }
    if (e->err) e->rows_version = 0; /* the rows are incomplete */
    e->decision.folded = e->folded_rows;
}
