/* SPDX-License-Identifier: Apache-2.0 */
/* Credits a Need with machines of its cluster in keep order, whichever Need they were bought for.
 *
 * Each cluster, state and instance type has a list, which is sorted again only after its cohorts
 * changed. A Need merges the lists of the types it names, and stops reading when it lacks
 * nothing. */
#include <stdlib.h>

#include "shard/decide/decider.h"

struct keep_entry {
    struct keep_rank rank;
    const struct cohort *cohort;
    uint32_t slot, look, shape, key; /* slots; key: the key that owns the cohort */
    /* In decision `used_up`, this entry and all entries before `next` have no machine left. */
    uint32_t used_up, next;
};
struct keep_order {
    uint64_t version; /* version of the bag for which `at` is sorted; 0: none */
    struct keep_entry *at;
    uint32_t count, cap;
};
struct keep_cursor {
    struct keep_order *order;
    uint32_t at; /* index of the next entry; `count`: none */
};

void keep_orders_free(struct decider *e)
{
    for (uint32_t i = 0; i < e->cluster_cap * KEEP_STATES; i++) {
        struct keep_orders *orders = &e->clusters[i / KEEP_STATES].keep_orders[i % KEEP_STATES];
        for (uint32_t k = 0; k < orders->cap; k++) free(orders->at[k].at);
        free(orders->at);
    }
}

/* --- one sorted list --- */

static int keep_entry_compare(const void *left, const void *right)
{
    const struct keep_entry *a = left, *b = right;

    return keep_rank_compare(a->rank, b->rank);
}

static bool keep_order_sort(struct decider *e, struct keep_order *o, const struct type_bag *of_type)
{
    const struct bag *bag = &of_type->bag;

    if (!kept_room(e, &o->at, bag->count, &o->cap, sizeof *o->at)) return false;
    for (uint32_t i = 0; i < bag->count; i++) {
        const struct bag_item *item = &bag->at[i];
        o->at[i] = (struct keep_entry){.rank = cohort_keep_rank(item->cohort),
                                       .cohort = item->cohort,
                                       .slot = item->cohort->slot,
                                       .look = item->look,
                                       .shape = item->shape,
                                       .key = item->key};
    }
    if (bag->count > 1) qsort(o->at, bag->count, sizeof *o->at, keep_entry_compare);
    o->count = bag->count;
    o->version = of_type->version;
    return true;
}

static bool keep_entry_is_used_up(const struct decider *e, const struct keep_order *o, uint32_t at)
{
    return at < o->count && o->at[at].used_up == (uint32_t)e->number;
}

/* Returns the first entry from `at` on that is not known to be used up. */
static uint32_t keep_order_next(const struct decider *e, struct keep_order *o, uint32_t at)
{
    while (keep_entry_is_used_up(e, o, at)) {
        struct keep_entry *entry = &o->at[at];
        if (keep_entry_is_used_up(e, o, entry->next)) entry->next = o->at[entry->next].next;
        at = entry->next;
    }
    return at;
}

/* --- walking --- */

static bool keep_entry_is_gone(const struct decider *e, const struct keep_entry *entry)
{
    if (entry->key != SLOT_NONE && key_all(e, entry->key)) return true;
    return e->cohorts[entry->slot].emptied == (uint32_t)e->number;
}

/* Moves the cursor to the first entry from `at` on that matches, fits and is not used up. */
static void keep_cursor_move(struct decider *e, const struct want *w,
                             const struct set_memory *memory, struct keep_cursor *c, uint32_t at)
{
    struct keep_order *o = c->order;

    for (at = keep_order_next(e, o, at); at < o->count; at = keep_order_next(e, o, at + 1)) {
        struct keep_entry *entry = &o->at[at];
        if (keep_entry_is_gone(e, entry)) {
            entry->used_up = (uint32_t)e->number;
            entry->next = at + 1;
            continue;
        }
        if (!shape_covers(e, entry->shape, w->demand->unit)) continue;
        if (!set_accepts(e, memory, entry->look)) continue;
        __builtin_prefetch(&e->sources[entry->slot], 1); /* arrives while other lists are read */
        __builtin_prefetch(entry->cohort);
        break;
    }
    c->at = at;
}

struct keep_cursors {
    struct keep_cursor *at;
    uint32_t count;
};

static struct keep_cursors keep_cursors_make(struct decider *e, const struct want *w,
                                             const struct type_bags *types, enum keep_state state,
                                             const struct set_memory *memory)
{
    struct keep_orders *orders = &e->clusters[w->cluster->slot].keep_orders[state];
    struct keep_cursors cursors = {.at = decider_alloc(e, types->count, sizeof *cursors.at)};

    if (!kept_room(e, &orders->at, types->count, &orders->cap, sizeof *orders->at)) return cursors;
    for (uint32_t i = 0; cursors.at && i < types->count; i++) {
        const struct type_bag *of_type = &types->at[i];
        struct keep_order *order = &orders->at[i];
        if (!set_names_type(memory, of_type->type) || !of_type->bag.count) continue;
        if (order->version != of_type->version && !keep_order_sort(e, order, of_type)) continue;
        cursors.at[cursors.count++].order = order;
    }
    for (uint32_t i = 0; i < cursors.count; i++) keep_cursor_move(e, w, memory, &cursors.at[i], 0);
    return cursors;
}

static const struct keep_entry *keep_cursor_entry(const struct keep_cursor *c)
{
    return c->at < c->order->count ? &c->order->at[c->at] : NULL;
}

static const struct keep_entry *keep_cursors_first(const struct keep_cursors *cursors)
{
    const struct keep_entry *first = NULL;

    for (uint32_t i = 0; i < cursors->count; i++) {
        const struct keep_entry *entry = keep_cursor_entry(&cursors->at[i]);
        if (entry && (!first || keep_entry_compare(entry, first) < 0)) first = entry;
    }
    return first;
}

/* Collects all entries whose sort keys equal those of the next entry. */
static void keep_class(struct decider *e, const struct want *w, const struct set_memory *memory,
                       struct keep_cursors *cursors, struct supply_pool *class)
{
    const struct keep_entry *first = keep_cursors_first(cursors), *entry;

    class->count = class->head = 0;
    for (uint32_t i = 0; first && i < cursors->count; i++) {
        struct keep_cursor *c = &cursors->at[i];
        while ((entry = keep_cursor_entry(c)) && keep_entry_compare(entry, first) == 0) {
            pool_add(e, class, source_of(e, entry->cohort), entry->rank.first, entry->rank.second);
            keep_cursor_move(e, w, memory, c, c->at + 1);
        }
    }
}

void keep_order_fetch(const struct decider *e)
{
    for (uint32_t i = 0; i < e->turn_count; i++) {
        const struct want *w = &e->wants[e->turns[i].row];
        const struct course *c = &row_at(e, e->turns[i].row)->course;
        replay_fetch(e, c, true);
        if (c->again || !w->live || !w->cluster) continue;
        __builtin_prefetch(&e->sets[w->demand->kind->set->slot]);
        __builtin_prefetch(&e->clusters[w->cluster->slot].keep_orders[KEEP_CONFIGURED]);
        __builtin_prefetch(w->cluster->configured.at);
    }
    for (uint32_t i = 0; i < e->turn_count; i++) {
        const struct want *w = &e->wants[e->turns[i].row];
        const struct set_memory *memory;
        const struct keep_orders *orders;
        if (row_at(e, e->turns[i].row)->course.again || !w->live || !w->cluster) continue;
        memory = &e->sets[w->demand->kind->set->slot];
        if (memory->type_count == TYPES_ANY) continue;
        orders = &e->clusters[w->cluster->slot].keep_orders[KEEP_CONFIGURED];
        for (uint32_t k = 0; k < orders->cap && k < w->cluster->configured.count; k++) {
            if (!set_names_type(memory, w->cluster->configured.at[k].type)) continue;
            if (!orders->at[k].at) continue; /* not built yet */
            __builtin_prefetch(orders->at[k].at);
            __builtin_prefetch(orders->at[k].at + 1);
            __builtin_prefetch(orders->at[k].at + 2);
        }
    }
}

void keep_order_credit(struct decider *e, struct want *w, enum keep_state state)
{
    const struct type_bags *types =
        state == KEEP_CONFIGURED ? &w->cluster->configured : &w->cluster->configuring;
    const struct set_memory *memory = set_recall(e, w->demand->kind->set);
    struct supply_pool *class = &e->own_pool;
    struct keep_cursors cursors;

    cursors = keep_cursors_make(e, w, types, state, memory);
    while (w->live) {
        keep_class(e, w, memory, &cursors, class);
        if (!class->count) break;
        pool_take_all(e, w, class, want_claim);
    }
}
