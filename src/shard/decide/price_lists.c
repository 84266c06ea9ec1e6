/* SPDX-License-Identifier: Apache-2.0 */
/* Acquirable machines: one list per instance type and shape, in the order of acquisition.
 *
 * A Need's pool is filled from these lists only as far as the pool is read. Filling a whole pool
 * per Need would walk the whole fleet for each Need if every machine has labels of its own. */
#include "shard/decide/price_lists.h"

#include <stdlib.h>
#include <string.h>

#include "base/sift.h"

/* --- filling --- */

static struct price_list **price_list_slot(struct price_lists *all, uint32_t type, uint32_t shape)
{
    uint32_t at = (type * 31 + shape) * 2654435761u >> 8;

    while (all->by_outfit[at & all->by_outfit_mask] &&
           (all->by_outfit[at & all->by_outfit_mask]->type != type ||
            all->by_outfit[at & all->by_outfit_mask]->shape != shape)) {
        at++;
    }
    return &all->by_outfit[at & all->by_outfit_mask];
}

static void price_list_put(struct decider *e, struct price_lists *all, uint32_t type,
                           const struct bag_item *item)
{
    struct price_list **slot = price_list_slot(all, type, item->shape), *list = *slot;
    const struct cohort *c = item->cohort;

    if (!list) {
        list = decider_alloc(e, 1, sizeof *list);
        if (!decider_grow(e, &all->at, all->count, &all->cap, sizeof list) || !list) return;
        *list = (struct price_list){.type = type, .shape = item->shape};
        all->at[all->count++] = *slot = list;
    }
    if (!decider_grow(e, &list->items, list->count, &list->cap, sizeof *list->items)) return;
    list->items[list->count++] = (struct price_item){
        c->traits.price, c->traits.probability, c->slot, item->look, c->count, cohort_kept(e, c)};
}

static int price_list_compare(const void *left, const void *right)
{
    const struct price_list *a = *(struct price_list *const *)left,
                            *b = *(struct price_list *const *)right;

    if (a->type != b->type) return a->type < b->type ? -1 : 1;
    return a->shape < b->shape ? -1 : a->shape > b->shape;
}

static void price_lists_make(struct decider *e, enum pool_state state, struct price_lists *all)
{
    bool sold_out = state == POOL_SOLD_OUT;
    const struct inventory *inv = e->inventory;
    uint32_t size = 16;

    while (size < 2 * inv->outfits.count) size *= 2;
    all->by_outfit = decider_alloc(e, size, sizeof(struct price_list *));
    if (!all->by_outfit) return;
    all->by_outfit_mask = size - 1;
    for (uint32_t i = 0; i < inv->look_slots.used; i++) {
        const struct look *look = slot_map_get(&inv->look_slots, i);
        const struct bag *bag = look ? &look->pools[sold_out ? POOL_SPECULATIVE : state] : NULL;
        for (uint32_t k = 0; bag && k < bag->count; k++) {
            const struct bag_item *item = &bag->at[k];
            if (item->cohort->count && cohort_sold_out(e, item->cohort) == sold_out)
                price_list_put(e, all, inv->look_briefs[i].type, item);
        }
    }
    if (all->count) qsort(all->at, all->count, sizeof(struct price_list *), price_list_compare);
}

/* --- orders --- */

/* A merge sort, because qsort() calls a function for each comparison. `spare` has room for half of
 * the entries. */
static void price_entries_sort(struct price_entry *at, uint32_t count, struct price_entry *spare)
{
    uint32_t half = count / 2, from = half, to = 0;

    if (count < 2) return;
    price_entries_sort(at, half, spare);
    price_entries_sort(at + half, count - half, spare);
    memcpy(spare, at, half * sizeof *at);
    for (const struct price_entry *end = spare + half; spare < end; to++)
        at[to] = from < count && at[from].first < spare->first ? at[from++] : *spare++;
}

static struct price_order *price_order_make(struct decider *e, const struct price_list *list,
                                            uint32_t bucket)
{
    struct price_order *order = decider_alloc(e, 1, sizeof *order);
    struct price_entry *at = decider_room(e, list->count, sizeof *at);
    struct price_entry *spare = decider_room(e, list->count / 2 + 1, sizeof *at);
    double penalty = penalty_dollars((uint8_t)bucket);

    if (!order || !at || !spare) return NULL;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct price_item *item = &list->items[i];
        at[i] = (struct price_entry){effective_cost(item->price, item->probability, penalty),
                                     item->cohort, item->look};
    }
    price_entries_sort(at, list->count, spare);
    *order = (struct price_order){
        .bucket = bucket, .at = at, .count = list->count, .next = list->orders};
    return order;
}

struct price_order *price_order_of(struct decider *e, struct price_list *list, uint32_t bucket)
{
    struct price_order *order = list->orders;

    while (order && order->bucket != bucket) order = order->next;
    if (!order) {
        order = price_order_make(e, list, bucket);
        if (order) list->orders = order;
    }
    while (order && order->head < order->count && entry_used_up(e, &order->at[order->head])) {
        order->head++;
    }
    return order;
}

/* --- values --- */

const struct posting *const *price_values(struct decider *e, struct price_list *list,
                                          struct str key)
{
    const struct word *word = inventory_word(e->inventory, key);
    struct price_values *values = list->values;

    while (values && values->key != word) values = values->next;
    if (values) return values->at;
    values = decider_alloc(e, 1, sizeof *values);
    if (values) values->at = decider_alloc(e, list->count, sizeof(struct posting *));
    if (!values || !values->at) return NULL;
    for (uint32_t i = 0; word && i < list->count; i++) {
        values->at[i] =
            look_find(slot_map_get(&e->inventory->look_slots, list->items[i].look), key);
    }
    values->key = word;
    values->next = list->values;
    list->values = values;
    return values->at;
}

/* --- walks over lists --- */

static uint32_t price_lists_from(const struct price_lists *all, uint64_t type)
{
    uint32_t low = 0, high = all->count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (all->at[middle]->type < type)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct price_walk price_walk_begin(struct decider *e, enum pool_state state,
                                   const struct set_memory *memory, const struct resources *wanted)
{
    struct price_lists *all = &e->price_lists[state];
    struct price_walk walk = {.all = all, .memory = memory, .wanted = wanted};

    if (!all->by_outfit) price_lists_make(e, state, all);
    if (memory->type_count == TYPES_ANY) walk.end = all->count;
    return walk;
}

struct price_list *price_walk_next(struct decider *e, struct price_walk *walk)
{
    for (;;) {
        while (walk->next < walk->end) {
            struct price_list *list = walk->all->at[walk->next++];
            if (shape_covers(e, list->shape, walk->wanted)) return list;
        }
        if (walk->memory->type_count == TYPES_ANY || walk->type == walk->memory->type_count) {
            return NULL;
        }
        walk->next = price_lists_from(walk->all, walk->memory->types[walk->type]);
        walk->end = price_lists_from(walk->all, (uint64_t)walk->memory->types[walk->type++] + 1);
    }
}

/* --- pools --- */

static double price_cursor_first(const struct price_cursor *c)
{
    return c->order->at[c->next].first;
}

static bool price_cursor_before(const void *, const void *a, const void *b)
{
    return price_cursor_first(a) < price_cursor_first(b);
}

void price_lists_open(struct decider *e, enum pool_kind kind, const struct want *w,
                      struct supply_pool *pool)
{
    uint32_t cap = 0;
    struct price_walk walk =
        price_walk_begin(e, pool_state_of(kind), pool->memory, w->demand->unit);
    struct price_list *list;

    while ((list = price_walk_next(e, &walk))) {
        const struct price_order *order = price_order_of(e, list, pool_bucket(kind, w));
        if (!order || order->head == order->count) continue;
        if (!decider_grow(e, &pool->cursors, pool->cursor_count, &cap, sizeof *pool->cursors)) {
            return;
        }
        pool->cursors[pool->cursor_count++] = (struct price_cursor){order, order->head};
    }
    sift_all(pool->cursors, sizeof *pool->cursors, pool->cursor_count, price_cursor_before, NULL);
}

void price_lists_pull(struct decider *e, struct supply_pool *pool)
{
    while (pool->cursor_count) {
        struct price_cursor *c = &pool->cursors[0];
        const struct price_entry *entry = &c->order->at[c->next];
        double first = price_cursor_first(c);
        if (++c->next == c->order->count) *c = pool->cursors[--pool->cursor_count];
        if (pool->cursor_count > 1)
            sift_down(pool->cursors, sizeof *c, pool->cursor_count, 0, price_cursor_before, NULL);
        if (entry_used_up(e, entry) || !set_accepts(e, pool->memory, entry->look)) continue;
        pool_add(e, pool, source_of(e, slot_map_get(&e->inventory->cohort_slots, entry->cohort)),
                 first, 0);
        return;
    }
}

uint64_t price_lists_count(struct decider *e, enum pool_state state,
                           const struct set_memory *memory, const struct resources *wanted,
                           bool with_kept, uint64_t most)
{
    struct price_walk walk = price_walk_begin(e, state, memory, wanted);
    const struct price_list *list;
    uint64_t machines = 0;

    while (machines < most && (list = price_walk_next(e, &walk))) {
        for (uint32_t i = 0; machines < most && i < list->count; i++) {
            const struct price_item *item = &list->items[i];
            if (item->kept && !with_kept) continue;
            if (set_accepts(e, memory, item->look)) machines += item->machines;
        }
    }
    return min_u64(machines, most);
}
