/* SPDX-License-Identifier: Apache-2.0 */
/* Section 1 of the rule book: which gangs fold, and the rows in their order. Plain rows are merged
 * already (shard/state/merge.c): that much the rows alone decide. While neither the demand nor the
 * answer of any gang changes, the rows of the last decision stand. */
#include <stdlib.h>
#include <string.h>

#include "shard/decide/shelves.h"

enum { ANSWER_UNKNOWN, ANSWER_NO, ANSWER_YES };
enum { OUTFITS_MOST = 1024 };

struct folding {
    uint8_t *fits;    /* by number of the gangs: could one machine hold one of them whole? */
    uint32_t *counts; /* by number of the fold: gangs that fold into it */
    int64_t *arrivals;
    bool any, changed;
};

/* --- what a Need has in the inventory --- */

/* Looks the row's family or key up; strings are hashed only when it is not remembered. */
static void memory_refresh(struct decider *e, struct row_memory *m, const struct demand *d)
{
    const struct inventory *inv = e->inventory;
    const struct rooms *slots = d->gang ? &inv->key_slots : &inv->family_slots;
    void *thing = m->birth && m->slot < slots->used ? rooms_get(slots, m->slot) : NULL;
    const struct key *key = d->gang ? thing : NULL;
    const struct family *family = d->gang ? NULL : thing;
    uint64_t birth = key ? key->birth : family ? family->birth : 0;
    bool same = thing && birth == m->birth;
    uint64_t version;

    if (!same && !m->birth && m->version == inv->keys_born) return; /* still none */
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

enum err memory_of(struct decider *e, struct demand *d, struct row_memory **ret_memory)
{
    struct row_memory *m = d->memory < e->memory_count ? &e->memory[d->memory] : NULL;

    if (!m || m->row != d->birth) {
        enum err err =
            kept_room(&e->memory, e->memory_count + 1, &e->memory_cap, sizeof *e->memory);
        if (err) return err;
        d->memory = e->memory_count++;
        m = &e->memory[d->memory];
        *m = (struct row_memory){.row = d->birth, .key = KEY_NONE};
        m->version = UINT64_MAX; /* of nothing: it is looked up */
    }
    memory_refresh(e, m, d);
    *ret_memory = m;
    return ERR_OK;
}

/* Rows that are gone leave their memories behind; when most are of that kind all are dropped. */
static void memory_sweep(struct decider *e)
{
    if (e->memory_count / 4 <= e->needs->order_count + e->needs->folds_count) return;
    e->memory_count = 0;
    e->swept = e->number;
}

enum err want_find(struct decider *e, struct want *w, struct demand *demand)
{
    struct row_memory *m;
    enum err err = memory_of(e, demand, &m);

    if (err) return err;
    *w = (struct want){.demand = demand,
                       .cluster = e->cluster_of[demand->cluster->slot],
                       .gang = demand->gang,
                       .live = demand->aggregate.mask};
    if (!m->birth) return ERR_OK;
    if (demand->gang) {
        w->key = rooms_held(&e->inventory->key_slots, m->slot);
        w->family = w->key->family;
    } else {
        w->family = rooms_held(&e->inventory->family_slots, m->slot);
    }
    return ERR_OK;
}

/* --- folding --- */

static bool lanes_hold_whole(struct decider *e, const struct lanes *lanes, const struct demand *d,
                             const struct set_memory *memory)
{
    struct lane_walk walk = {lanes, memory, d->gangs->fold->demand.unit, 0, 0};
    const struct bag_item *item;

    do item = lane_walk_next(e, &walk);
    while (item && !item->cohort->count); /* a plan may hold an empty cohort */
    return item != NULL;
}

/* Some machine of a type that the set names could, wherever it is. */
static bool might_hold_whole(const struct decider *e, const struct demand *d,
                             const struct set_memory *memory)
{
    const struct rooms *outfits = &e->inventory->outfit_slots;

    if (outfits->used > OUTFITS_MOST) return true; /* a walk would not be cheaper */
    for (uint32_t i = 0; i < outfits->used; i++) {
        const struct outfit *outfit = rooms_get(outfits, i);
        if (outfit && set_names_type(memory, outfit->type) &&
            resources_covers(outfit->shape->alloc, d->gangs->fold->demand.unit)) {
            return true;
        }
    }
    return false;
}

/* Some machine matches the whole profile and covers the whole aggregate. */
static enum err holds_whole(struct decider *e, const struct demand *d, bool *ret_holds)
{
    const struct cohort_cluster *cluster;
    struct set_memory *memory;
    enum err err;

    *ret_holds = true;
    err = set_recall(e, d->kind->set, &memory);
    if (err) return err;
    if (!might_hold_whole(e, d, memory)) {
        *ret_holds = false;
        return ERR_OK;
    }
    *ret_holds = false;
    for (int state = 0; !err && !*ret_holds && state < POOL_COUNT; state++) {
        err =
            shelves_hold(e, (enum pool_state)state, memory, d->gangs->fold->demand.unit, ret_holds);
    }
    if (err || *ret_holds) return err;
    shapes_ask(e);
    cluster = e->cluster_of[d->cluster->slot];
    *ret_holds = cluster && (lanes_hold_whole(e, &cluster->configured, d, memory) ||
                             lanes_hold_whole(e, &cluster->configuring, d, memory));
    return ERR_OK;
}

static enum err is_served(struct decider *e, struct demand *d, bool *ret_served)
{
    struct row_memory *m;
    struct want w;
    enum err err = memory_of(e, d, &m);

    if (!err && m->birth && !m->domain_known) {
        err = want_find(e, &w, d);
        if (!err) err = gang_served(e, &w, &m->domain);
        if (!err) m->domain_known = true;
    }
    *ret_served = !err && m->birth && m->domain;
    return err;
}

static enum err gang_folds(struct decider *e, struct folding *f, struct demand *d, bool *ret_folds)
{
    uint8_t *fits = &f->fits[d->gangs->number];
    bool yes;
    enum err err;

    *ret_folds = false;
    if (!d->gangs->fold || !d->aggregate.mask) return ERR_OK; /* too large, or asks nothing */
    if (*fits == ANSWER_UNKNOWN) {
        err = holds_whole(e, d, &yes);
        if (err) return err;
        *fits = yes ? ANSWER_YES : ANSWER_NO;
    }
    if (*fits == ANSWER_NO) return ERR_OK;
    err = is_served(e, d, &yes);
    *ret_folds = !err && !yes;
    return err;
}

static enum err fold_gangs(struct decider *e, struct folding *f)
{
    for (uint32_t k = 0; k < e->gang_place_count; k++) {
        uint32_t i = e->gang_places[k];
        struct demand *demand = e->needs->order[i];
        bool folds;
        enum err err = gang_folds(e, f, demand, &folds);
        if (err) return err;
        assert(e->folded); /* normalise() made room for all */
        if (folds != e->folded[i]) f->changed = true;
        e->folded[i] = folds;
        if (!folds) continue;
        uint32_t number = demand->gangs->fold->number;
        f->counts[number]++;
        f->arrivals[number] = arrival_earlier(f->arrivals[number], demand->arrival_unix_ns);
        f->any = true;
    }
    return ERR_OK;
}

/* --- the rows that come of it --- */

/* A fold with the plain row it merges into, if there is one. */
static enum err fold_row(struct decider *e, const struct folding *f, const struct fold *fold,
                         struct demand **ret_row)
{
    struct demand *row = ARENA_NEW(&e->rows_arena, struct demand);
    struct resource_sum one, all, plain;
    enum err err;

    if (!row) return ERR_NOMEM;
    *row = fold->plain ? *fold->plain : fold->demand;
    amounts_sum(&fold->demand.aggregate, &one);
    resource_sum_scale_sum(&all, &one, f->counts[fold->number]);
    if (fold->plain) {
        amounts_sum(&fold->plain->aggregate, &plain);
        resource_sum_add_sum(&all, &plain);
    }
    row->arrival_unix_ns = arrival_earlier(row->arrival_unix_ns, f->arrivals[fold->number]);
    row->birth = fold->demand.birth;
    row->memory = UINT32_MAX; /* its amounts are new, so nothing is remembered of it */
    err = amounts_keep(&e->rows_arena, &all, &row->aggregate);
    *ret_row = row;
    return err;
}

static enum err row_add(struct decider *e, struct demand *row)
{
    enum err err = kept_room(&e->rows, e->row_count + 1, &e->row_cap, sizeof(struct demand *));

    if (!err) e->rows[e->row_count++] = row;
    return err;
}

static enum err fold_rows(struct decider *e, const struct folding *f)
{
    for (uint32_t i = 0; i < e->row_count; i++) {
        const struct fold *fold = e->rows[i]->fold;
        enum err err;
        if (!fold || !f->counts[fold->number]) continue;
        err = fold_row(e, f, fold, &e->rows[i]);
        if (err) return err;
        e->folded_rows++;
    }
    for (uint32_t i = 0; i < e->needs->folds_count; i++) {
        const struct fold *fold = e->needs->folds[i];
        struct demand *row;
        enum err err;
        if (fold->plain || !f->counts[i]) continue;
        err = fold_row(e, f, fold, &row);
        if (!err) err = row_add(e, row);
        if (err) return err;
        e->folded_rows++;
    }
    return ERR_OK;
}

static enum err rows_make(struct decider *e, const struct folding *f)
{
    enum err err = ERR_OK;

    e->rows_version = 0; /* until it is done */
    e->rows_made++;
    e->row_count = e->folded_rows = 0;
    arena_reset(&e->rows_arena);
    for (uint32_t i = 0; !err && i < e->needs->order_count; i++) {
        if (!e->folded[i]) err = row_add(e, e->needs->order[i]);
    }
    if (!err && f->any) err = fold_rows(e, f);
    if (!err && f->any) qsort(e->rows, e->row_count, sizeof(struct demand *), demand_compare);
    if (!err) e->rows_version = e->needs->version;
    return err;
}

static void gangs_find(struct decider *e)
{
    e->gang_place_count = 0;
    for (uint32_t i = 0; e->needs->gangs_count && i < e->needs->order_count; i++) {
        if (e->needs->order[i]->gang) e->gang_places[e->gang_place_count++] = i;
    }
}

enum err normalise(struct decider *e)
{
    const struct needs *needs = e->needs;
    bool demand_changed = e->rows_version != needs->version;
    struct folding f = {.changed = demand_changed};
    enum err err;

    f.fits = decider_alloc(e, needs->gangs_count, sizeof *f.fits);
    f.counts = decider_alloc(e, needs->folds_count, sizeof *f.counts);
    f.arrivals = decider_alloc(e, needs->folds_count, sizeof *f.arrivals);
    if (!f.fits || !f.counts || !f.arrivals) return ERR_FULL;
    err = kept_room(&e->folded, needs->order_count, &e->folded_cap, sizeof *e->folded);
    if (!err) {
        err = kept_room(&e->gang_places, needs->order_count, &e->gang_place_cap,
                        sizeof *e->gang_places);
    }
    if (!err) err = kept_room(&e->memory, 1, &e->memory_cap, sizeof *e->memory);
    if (err) return err;
    if (demand_changed) {
        if (e->folded) memset(e->folded, 0, e->folded_cap);
        gangs_find(e);
    }
    err = fold_gangs(e, &f);
    if (!err && f.changed) {
        memory_sweep(e);
        err = rows_make(e, &f);
    }
    if (err) e->rows_version = 0; /* some of the answers are new, the rows are not */
    e->decision.folded = e->folded_rows;
    return err;
}
