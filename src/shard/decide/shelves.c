/* SPDX-License-Identifier: Apache-2.0 */
/* What can be acquired, on shelves: one for each instance type and shape, and each in the order in
 * which its machines are taken.
 *
 * Where every machine has labels of its own every Need has a set of its own, and a pool that is
 * filled and sorted for it is a walk over the fleet. So a pool is filled from the shelves as far as
 * it is read: their heads are merged, what is used up is passed over, and a set is asked only of
 * what comes next. */
#include "shard/decide/shelves.h"

#include <stdlib.h>
#include <string.h>

/* --- filling --- */

static struct supply_shelf **shelf_slot(struct shelves *all, uint32_t type, uint32_t shape)
{
    uint32_t at = (type * 31 + shape) * 2654435761u >> 8;

    while (all->by_outfit[at & all->by_outfit_mask] &&
           (all->by_outfit[at & all->by_outfit_mask]->type != type ||
            all->by_outfit[at & all->by_outfit_mask]->shape != shape)) {
        at++;
    }
    return &all->by_outfit[at & all->by_outfit_mask];
}

static void shelf_put(struct decider *e, struct shelves *all, uint32_t type,
                      const struct bag_item *item)
{
    struct supply_shelf **slot = shelf_slot(all, type, item->shape), *shelf = *slot;
    const struct cohort *c = item->cohort;

    if (!shelf) {
        shelf = decider_alloc(e, 1, sizeof *shelf);
        if (!decider_grow(e, &all->at, all->count, &all->cap, sizeof shelf) || !shelf) return;
        *shelf = (struct supply_shelf){.type = type, .shape = item->shape};
        all->at[all->count++] = *slot = shelf;
    }
    if (!decider_grow(e, &shelf->items, shelf->count, &shelf->cap, sizeof *shelf->items)) return;
    shelf->items[shelf->count++] = (struct shelf_item){
        c->traits.price, c->traits.probability, c->slot, item->look, c->count, cohort_kept(e, c)};
}

static int shelf_compare(const void *left, const void *right)
{
    const struct supply_shelf *a = *(struct supply_shelf *const *)left,
                              *b = *(struct supply_shelf *const *)right;

    if (a->type != b->type) return a->type < b->type ? -1 : 1;
    return a->shape < b->shape ? -1 : a->shape > b->shape;
}

static void shelves_make(struct decider *e, enum pool_state state, struct shelves *all)
{
    const struct inventory *inv = e->inventory;
    uint32_t size = 16;

    while (size < 2 * inv->outfits.count) size *= 2;
    all->by_outfit = decider_alloc(e, size, sizeof(struct supply_shelf *));
    if (!all->by_outfit) return;
    all->by_outfit_mask = size - 1;
    for (uint32_t i = 0; i < inv->look_slots.used; i++) {
        const struct look *look = rooms_get(&inv->look_slots, i);
        for (uint32_t k = 0; look && k < look->pools[state].count; k++) {
            const struct bag_item *item = &look->pools[state].at[k];
            if (item->cohort->count) shelf_put(e, all, inv->look_briefs[i].type, item);
        }
    }
    if (all->count) qsort(all->at, all->count, sizeof(struct supply_shelf *), shelf_compare);
}

/* --- orders --- */

static int shelf_item_compare(const void *left, const void *right)
{
    const struct shelf_item *a = left, *b = right;

    if (a->probability != b->probability) return a->probability < b->probability ? -1 : 1;
    return a->price < b->price ? -1 : a->price > b->price;
}

static int shelf_entry_compare(const void *left, const void *right)
{
    const struct shelf_entry *a = left, *b = right;

    return a->first < b->first ? -1 : a->first > b->first;
}

/* Idle machines are taken by price alone. */
static void shelf_sort(struct decider *e, enum pool_kind kind, struct supply_shelf *shelf)
{
    shelf->sorted = decider_room(e, shelf->count, sizeof *shelf->sorted);
    if (!shelf->sorted) return;
    memcpy(shelf->sorted, shelf->items, shelf->count * sizeof *shelf->sorted);
    for (uint32_t i = 0; kind == POOL_OF_IDLE && i < shelf->count; i++) {
        shelf->sorted[i].probability = 0;
    }
    qsort(shelf->sorted, shelf->count, sizeof *shelf->sorted, shelf_item_compare);
}

/* Where the machines of the same probability as the one at `from` end. */
static uint32_t shelf_even_end(const struct supply_shelf *shelf, uint32_t from)
{
    uint32_t end = from + 1;

    while (end < shelf->count && shelf->sorted[end].probability == shelf->sorted[from].probability)
        end++;
    return end;
}

/* An order for each probability, if they are few. */
static void shelf_even_make(struct decider *e, struct supply_shelf *shelf)
{
    enum { EVEN_MOST = 8 };
    struct shelf_entry *at;
    uint32_t count = 0;

    for (uint32_t i = 0; i < shelf->count; i = shelf_even_end(shelf, i)) count++;
    if (count > EVEN_MOST) return;
    shelf->even = decider_alloc(e, count, sizeof *shelf->even);
    at = decider_room(e, shelf->count, sizeof *at);
    if (!shelf->even || !at) return;
    for (uint32_t i = 0; i < shelf->count; i++) {
        const struct shelf_item *item = &shelf->sorted[i];
        at[i] = (struct shelf_entry){item->price, item->cohort, item->look};
    }
    for (uint32_t from = 0, end; from < shelf->count; from = end) {
        end = shelf_even_end(shelf, from);
        shelf->even[shelf->even_count++] = (struct shelf_order){
            .probability = shelf->sorted[from].probability, .count = end - from, .at = at + from};
    }
}

/* Does the bucket's cost tell apart what the price does? It is infinite for who must not be
 * interrupted, and rounds. */
static bool shelf_even_serves(struct shelf_order *order, uint32_t bucket)
{
    double more = shelf_order_adds(order, bucket);
    uint32_t bit = (uint32_t)1 << bucket;

    static_assert(PENALTY_BUCKET_COUNT <= 32, "a bit for each bucket");
    if (more > 0 && !(order->buckets_asked & bit)) {
        order->buckets_asked |= bit;
        for (uint32_t i = 1; i < order->count; i++) {
            double a = order->at[i - 1].first, b = order->at[i].first;
            if (a != b && a + more == b + more) order->buckets_merge |= bit;
        }
    }
    return !(order->buckets_merge & bit);
}

/* All of the shelf by the bucket's cost. NULL: full. */
static struct shelf_order *shelf_order_of(struct decider *e, struct supply_shelf *shelf,
                                          uint32_t bucket)
{
    struct shelf_order *order = shelf->orders;
    struct shelf_entry *at;

    while (order && order->bucket != bucket) order = order->next;
    if (order) return order;
    order = decider_alloc(e, 1, sizeof *order);
    at = decider_room(e, shelf->count, sizeof *at);
    if (!order || !at) return NULL;
    for (uint32_t i = 0; i < shelf->count; i++) {
        const struct shelf_item *item = &shelf->sorted[i];
        double first =
            effective_cost(item->price, item->probability, penalty_dollars((uint8_t)bucket));
        at[i] = (struct shelf_entry){first, item->cohort, item->look};
    }
    qsort(at, shelf->count, sizeof *at, shelf_entry_compare);
    *order = (struct shelf_order){
        .bucket = bucket, .at = at, .count = shelf->count, .next = shelf->orders};
    shelf->orders = order;
    return order;
}

struct shelf_orders shelf_orders(struct decider *e, enum pool_kind kind, struct supply_shelf *shelf,
                                 uint32_t bucket)
{
    struct shelf_orders orders;
    bool even;

    if (!shelf->sorted) {
        shelf_sort(e, kind, shelf);
        if (shelf->sorted) shelf_even_make(e, shelf);
    }
    if (e->err) return (struct shelf_orders){0};
    even = shelf->even != NULL;
    for (uint32_t i = 0; even && i < shelf->even_count; i++) {
        even = shelf_even_serves(&shelf->even[i], bucket);
    }
    orders = (struct shelf_orders){shelf->even, shelf->even_count};
    if (!even) {
        orders.at = shelf_order_of(e, shelf, bucket);
        orders.count = orders.at ? 1 : 0;
    }
    for (uint32_t i = 0; i < orders.count; i++) {
        struct shelf_order *order = &orders.at[i];
        while (order->head < order->count && entry_used_up(e, &order->at[order->head]))
            order->head++;
    }
    return orders;
}

/* --- values --- */

const struct posting *const *shelf_values(struct decider *e, struct supply_shelf *shelf,
                                          struct str key)
{
    const struct word *word = inventory_word(e->inventory, key);
    struct shelf_values *values = shelf->values;

    while (values && values->key != word) values = values->next;
    if (values) return values->at;
    values = decider_alloc(e, 1, sizeof *values);
    if (values) values->at = decider_alloc(e, shelf->count, sizeof(struct posting *));
    if (!values || !values->at) return NULL;
    for (uint32_t i = 0; word && i < shelf->count; i++) {
        values->at[i] = look_find(rooms_get(&e->inventory->look_slots, shelf->items[i].look), key);
    }
    values->key = word;
    values->next = shelf->values;
    shelf->values = values;
    return values->at;
}

/* --- those that a Need could take from --- */

/* The first shelf whose type is not below. */
static uint32_t shelves_from(const struct shelves *all, uint64_t type)
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

struct shelf_walk shelf_walk_begin(struct decider *e, enum pool_state state,
                                   const struct set_memory *memory, const struct resources *wanted)
{
    struct shelves *all = &e->shelves[state];
    struct shelf_walk walk = {.all = all, .memory = memory, .wanted = wanted};

    if (!all->by_outfit) shelves_make(e, state, all);
    if (memory->type_count == TYPES_ANY) walk.end = all->count;
    shapes_ask(e);
    return walk;
}

static bool shelf_type_repeats(const struct set_memory *memory, uint32_t number)
{
    for (uint32_t i = 0; i < number; i++)
        if (memory->types[i] == memory->types[number]) return true;
    return false;
}

struct supply_shelf *shelf_walk_next(struct decider *e, struct shelf_walk *walk)
{
    for (;;) {
        while (walk->next < walk->end) {
            struct supply_shelf *shelf = walk->all->at[walk->next++];
            if (shape_covers(e, shelf->shape, walk->wanted)) return shelf;
        }
        if (walk->memory->type_count == TYPES_ANY || walk->type == walk->memory->type_count) {
            return NULL;
        }
        if (!shelf_type_repeats(walk->memory, walk->type)) {
            uint64_t type = walk->memory->types[walk->type];
            walk->next = shelves_from(walk->all, type);
            walk->end = shelves_from(walk->all, type + 1);
        }
        walk->type++;
    }
}

/* --- pools --- */

static double shelf_cursor_first(const struct shelf_cursor *c)
{
    return c->order->at[c->next].first + c->more;
}

static bool shelf_cursor_before(const struct shelf_cursor *a, const struct shelf_cursor *b)
{
    return shelf_cursor_first(a) < shelf_cursor_first(b);
}

static void shelf_cursor_sink(struct supply_pool *pool, uint32_t at)
{
    for (;;) {
        uint32_t least = at, left = 2 * at + 1;
        struct shelf_cursor moved = pool->cursors[at];
        if (left < pool->cursor_count && shelf_cursor_before(&pool->cursors[left], &moved))
            least = left;
        if (left + 1 < pool->cursor_count &&
            shelf_cursor_before(&pool->cursors[left + 1], &pool->cursors[least])) {
            least = left + 1;
        }
        if (least == at) return;
        pool->cursors[at] = pool->cursors[least];
        pool->cursors[least] = moved;
        at = least;
    }
}

static void shelf_cursor_add(struct decider *e, struct supply_pool *pool,
                             const struct shelf_order *order, uint32_t bucket, uint32_t *cap)
{
    if (!decider_grow(e, &pool->cursors, pool->cursor_count, cap, sizeof *pool->cursors)) return;
    pool->cursors[pool->cursor_count++] =
        (struct shelf_cursor){order, order->head, shelf_order_adds(order, bucket)};
}

void shelves_open(struct decider *e, enum pool_kind kind, const struct want *w,
                  struct supply_pool *pool)
{
    uint32_t bucket = pool_bucket(kind, w), cap = 0;
    struct shelf_walk walk =
        shelf_walk_begin(e, pool_state_of(kind), pool->memory, w->demand->unit);
    struct supply_shelf *shelf;

    while ((shelf = shelf_walk_next(e, &walk))) {
        struct shelf_orders orders = shelf_orders(e, kind, shelf, bucket);
        for (uint32_t i = 0; i < orders.count; i++) {
            const struct shelf_order *order = &orders.at[i];
            if (order->head < order->count) shelf_cursor_add(e, pool, order, bucket, &cap);
        }
    }
    for (uint32_t i = pool->cursor_count / 2; i-- > 0;) shelf_cursor_sink(pool, i);
}

void shelves_pull(struct decider *e, struct supply_pool *pool)
{
    while (pool->cursor_count) {
        struct shelf_cursor *c = &pool->cursors[0];
        const struct shelf_entry *entry = &c->order->at[c->next];
        double first = shelf_cursor_first(c);
        if (++c->next == c->order->count) *c = pool->cursors[--pool->cursor_count];
        if (pool->cursor_count > 1) shelf_cursor_sink(pool, 0);
        if (entry_used_up(e, entry) || !set_matches(e, pool->memory, entry->look)) continue;
        pool_add(e, pool, source_of(e, rooms_get(&e->inventory->cohort_slots, entry->cohort)),
                 first, 0);
        return;
    }
}

uint32_t shelves_count(struct decider *e, enum pool_state state, const struct want *w,
                       const struct set_memory *memory)
{
    struct shelf_walk walk = shelf_walk_begin(e, state, memory, w->demand->unit);
    const struct supply_shelf *shelf;
    uint64_t machines = 0;

    while (machines < VERDICT_COUNT_MOST && (shelf = shelf_walk_next(e, &walk))) {
        for (uint32_t i = 0; machines < VERDICT_COUNT_MOST && i < shelf->count; i++) {
            if (!set_matches(e, memory, shelf->items[i].look)) continue;
            machines += shelf->items[i].machines;
        }
    }
    return (uint32_t)min_u64(machines, VERDICT_COUNT_MOST);
}

bool shelves_hold(struct decider *e, enum pool_state state, const struct set_memory *memory,
                  const struct resources *whole)
{
    struct shelf_walk walk = shelf_walk_begin(e, state, memory, whole);
    const struct supply_shelf *shelf;

    while ((shelf = shelf_walk_next(e, &walk))) {
        for (uint32_t i = 0; i < shelf->count; i++) {
            const struct shelf_item *item = &shelf->items[i];
            if (!item->kept && set_matches(e, memory, item->look)) return true;
        }
    }
    return false;
}
