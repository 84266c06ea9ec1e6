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

static enum err shelf_put(struct decider *e, struct shelves *all, uint32_t type,
                          const struct bag_item *item)
{
    struct supply_shelf **slot = shelf_slot(all, type, item->shape), *shelf = *slot;
    const struct cohort *c = item->cohort;
    enum err err;

    if (!shelf) {
        err = decider_grow(e, &all->at, all->count, &all->cap, sizeof(struct supply_shelf *));
        if (err) return err;
        shelf = decider_alloc(e, 1, sizeof *shelf);
        if (!shelf) return ERR_FULL;
        *shelf = (struct supply_shelf){.type = type, .shape = item->shape};
        all->at[all->count++] = *slot = shelf;
    }
    err = decider_grow(e, &shelf->items, shelf->count, &shelf->cap, sizeof *shelf->items);
    if (err) return err;
    shelf->items[shelf->count++] = (struct shelf_item){
        c->traits.price, c->traits.probability, c->slot, item->look, c->count, cohort_kept(e, c)};
    return ERR_OK;
}

static int shelf_compare(const void *left, const void *right)
{
    const struct supply_shelf *a = *(struct supply_shelf *const *)left,
                              *b = *(struct supply_shelf *const *)right;

    if (a->type != b->type) return a->type < b->type ? -1 : 1;
    return a->shape < b->shape ? -1 : a->shape > b->shape;
}

static enum err shelves_make(struct decider *e, enum pool_state state, struct shelves *all)
{
    const struct inventory *inv = e->inventory;
    uint32_t size = 16;
    enum err err = ERR_OK;

    while (size < 2 * inv->outfits.count) size *= 2;
    all->by_outfit = decider_alloc(e, size, sizeof(struct supply_shelf *));
    if (!all->by_outfit) return ERR_FULL;
    all->by_outfit_mask = size - 1;
    for (uint32_t i = 0; i < inv->look_slots.used; i++) {
        const struct look *look = rooms_get(&inv->look_slots, i);
        for (uint32_t k = 0; !err && look && k < look->pools[state].count; k++) {
            const struct bag_item *item = &look->pools[state].at[k];
            if (item->cohort->count) err = shelf_put(e, all, inv->look_briefs[i].type, item);
        }
    }
    if (all->count) qsort(all->at, all->count, sizeof(struct supply_shelf *), shelf_compare);
    return err;
}

static enum err shelves_of(struct decider *e, enum pool_state state, struct shelves **ret_shelves)
{
    *ret_shelves = &e->shelves[state];
    return e->shelves[state].by_outfit ? ERR_OK : shelves_make(e, state, &e->shelves[state]);
}

/* --- orders --- */

static int item_compare(const void *left, const void *right)
{
    const struct shelf_item *a = left, *b = right;

    if (a->probability != b->probability) return a->probability < b->probability ? -1 : 1;
    return a->price < b->price ? -1 : a->price > b->price;
}

static uint32_t run_end(const struct shelf_entry *at, uint32_t from, uint32_t count)
{
    uint32_t end = from + 1;

    while (end < count && at[end - 1].first <= at[end].first) end++;
    return end;
}

/* Merges what ascends already, run by run: few machines differ in their probability. */
static struct shelf_entry *runs_merge(struct shelf_entry *at, struct shelf_entry *spare,
                                      uint32_t count)
{
    uint32_t runs = 2;

    while (runs > 1) {
        struct shelf_entry *swap = at;
        runs = 0;
        for (uint32_t from = 0, end; from < count; from = end, runs++) {
            uint32_t middle = run_end(at, from, count), a = from, b = middle;
            end = middle < count ? run_end(at, middle, count) : middle;
            for (uint32_t to = from; to < end; to++) {
                bool left = b == end || (a < middle && at[a].first <= at[b].first);
                spare[to] = left ? at[a++] : at[b++];
            }
        }
        at = spare;
        spare = swap;
    }
    return at;
}

/* Idle machines are taken by price alone. */
static enum err shelf_sort(struct decider *e, enum pool_kind kind, struct supply_shelf *shelf)
{
    shelf->sorted = arena_alloc(&e->arena, shelf->count * sizeof *shelf->sorted);
    if (!shelf->sorted) return ERR_FULL;
    memcpy(shelf->sorted, shelf->items, shelf->count * sizeof *shelf->sorted);
    for (uint32_t i = 0; kind == POOL_OF_IDLE && i < shelf->count; i++) {
        shelf->sorted[i].probability = 0;
    }
    qsort(shelf->sorted, shelf->count, sizeof *shelf->sorted, item_compare);
    return ERR_OK;
}

/* Where the machines of the same probability as the one at `from` end. */
static uint32_t even_end(const struct supply_shelf *shelf, uint32_t from)
{
    uint32_t end = from + 1;

    while (end < shelf->count && shelf->sorted[end].probability == shelf->sorted[from].probability)
        end++;
    return end;
}

/* An order for each probability, if they are few. */
static enum err even_make(struct decider *e, struct supply_shelf *shelf)
{
    enum { EVEN_MOST = 8 };
    struct shelf_entry *at;
    uint32_t count = 0;

    for (uint32_t i = 0; i < shelf->count; i = even_end(shelf, i)) count++;
    if (count > EVEN_MOST) return ERR_OK;
    shelf->even = decider_alloc(e, count, sizeof *shelf->even);
    at = arena_alloc(&e->arena, shelf->count * sizeof *at);
    if (!shelf->even || !at) return ERR_FULL;
    for (uint32_t i = 0; i < shelf->count; i++) {
        const struct shelf_item *item = &shelf->sorted[i];
        at[i] = (struct shelf_entry){item->price, item->cohort, item->look};
    }
    for (uint32_t from = 0, end; from < shelf->count; from = end) {
        end = even_end(shelf, from);
        shelf->even[shelf->even_count++] = (struct shelf_order){
            .probability = shelf->sorted[from].probability, .count = end - from, .at = at + from};
    }
    return ERR_OK;
}

/* Does the bucket's cost tell apart what the price does? It is infinite for who must not be
 * interrupted, and rounds. */
static bool even_serves(struct shelf_order *order, uint32_t bucket)
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

/* All of the shelf by the bucket's cost. */
static enum err order_make(struct decider *e, struct supply_shelf *shelf, uint32_t bucket,
                           struct shelf_order *order)
{
    struct shelf_entry *at = arena_alloc(&e->arena, shelf->count * sizeof *at);
    struct shelf_entry *spare = arena_alloc(&e->arena, shelf->count * sizeof *spare);

    if (!at || !spare) return ERR_FULL;
    for (uint32_t i = 0; i < shelf->count; i++) {
        const struct shelf_item *item = &shelf->sorted[i];
        double first =
            effective_cost(item->price, item->probability, penalty_dollars((uint8_t)bucket));
        at[i] = (struct shelf_entry){first, item->cohort, item->look};
    }
    *order = (struct shelf_order){.bucket = bucket,
                                  .at = runs_merge(at, spare, shelf->count),
                                  .count = shelf->count,
                                  .next = shelf->orders};
    return ERR_OK;
}

static enum err order_of(struct decider *e, struct supply_shelf *shelf, uint32_t bucket,
                         struct shelf_order **ret_order)
{
    struct shelf_order *order = shelf->orders;
    enum err err;

    while (order && order->bucket != bucket) order = order->next;
    if (!order) {
        order = decider_alloc(e, 1, sizeof *order);
        if (!order) return ERR_FULL;
        err = order_make(e, shelf, bucket, order);
        if (err) return err;
        shelf->orders = order;
    }
    *ret_order = order;
    return ERR_OK;
}

enum err shelf_orders(struct decider *e, enum pool_kind kind, struct supply_shelf *shelf,
                      uint32_t bucket, struct shelf_orders *ret_orders)
{
    struct shelf_orders orders;
    bool even;
    enum err err = ERR_OK;

    if (!shelf->sorted) {
        err = shelf_sort(e, kind, shelf);
        if (!err) err = even_make(e, shelf);
        if (err) return err;
    }
    even = shelf->even != NULL;
    for (uint32_t i = 0; even && i < shelf->even_count; i++) {
        even = even_serves(&shelf->even[i], bucket);
    }
    orders = (struct shelf_orders){shelf->even, shelf->even_count};
    if (!even) {
        err = order_of(e, shelf, bucket, &orders.at);
        if (err) return err;
        orders.count = 1;
    }
    for (uint32_t i = 0; i < orders.count; i++) {
        struct shelf_order *order = &orders.at[i];
        while (order->head < order->count && entry_used_up(e, &order->at[order->head]))
            order->head++;
    }
    *ret_orders = orders;
    return ERR_OK;
}

/* --- values --- */

enum err shelf_values(struct decider *e, struct supply_shelf *shelf, struct str key,
                      const struct posting *const **ret_values)
{
    const struct word *word = inventory_word(e->inventory, key);
    struct shelf_values *values = shelf->values;

    while (values && values->key != word) values = values->next;
    if (!values) {
        values = decider_alloc(e, 1, sizeof *values);
        if (!values) return ERR_FULL;
        values->at = decider_alloc(e, shelf->count, sizeof(struct posting *));
        if (!values->at) return ERR_FULL;
        for (uint32_t i = 0; word && i < shelf->count; i++) {
            values->at[i] =
                look_find(rooms_get(&e->inventory->look_slots, shelf->items[i].look), key);
        }
        values->key = word;
        values->next = shelf->values;
        shelf->values = values;
    }
    *ret_values = values->at;
    return ERR_OK;
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

enum err shelf_walk_begin(struct decider *e, enum pool_state state, const struct set_memory *memory,
                          const struct resources *wanted, struct shelf_walk *walk)
{
    struct shelves *all;
    enum err err = shelves_of(e, state, &all);

    *walk = (struct shelf_walk){.all = all, .memory = memory, .wanted = wanted};
    if (memory->type_count == TYPES_ANY) walk->end = all->count;
    shapes_ask(e);
    return err;
}

static bool named_before(const struct set_memory *memory, uint32_t number)
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
        if (!named_before(walk->memory, walk->type)) {
            uint64_t type = walk->memory->types[walk->type];
            walk->next = shelves_from(walk->all, type);
            walk->end = shelves_from(walk->all, type + 1);
        }
        walk->type++;
    }
}

/* --- pools --- */

static double cursor_first(const struct shelf_cursor *c)
{
    return c->order->at[c->next].first + c->more;
}

static bool cursor_before(const struct shelf_cursor *a, const struct shelf_cursor *b)
{
    return cursor_first(a) < cursor_first(b);
}

static void cursor_sink(struct supply_pool *pool, uint32_t at)
{
    for (;;) {
        uint32_t least = at, left = 2 * at + 1;
        struct shelf_cursor moved = pool->cursors[at];
        if (left < pool->cursor_count && cursor_before(&pool->cursors[left], &moved)) least = left;
        if (left + 1 < pool->cursor_count &&
            cursor_before(&pool->cursors[left + 1], &pool->cursors[least])) {
            least = left + 1;
        }
        if (least == at) return;
        pool->cursors[at] = pool->cursors[least];
        pool->cursors[least] = moved;
        at = least;
    }
}

static enum err cursor_add(struct decider *e, struct supply_pool *pool,
                           const struct shelf_order *order, uint32_t bucket, uint32_t *cap)
{
    enum err err = decider_grow(e, &pool->cursors, pool->cursor_count, cap, sizeof *pool->cursors);

    if (err) return err;
    pool->cursors[pool->cursor_count++] =
        (struct shelf_cursor){order, order->head, shelf_order_adds(order, bucket)};
    return ERR_OK;
}

enum err shelves_open(struct decider *e, enum pool_kind kind, const struct want *w,
                      struct set_memory *memory, struct supply_pool *pool)
{
    uint32_t bucket = pool_bucket(kind, w), cap = 0;
    struct shelf_walk walk;
    struct supply_shelf *shelf;
    enum err err = shelf_walk_begin(e, pool_state_of(kind), memory, w->demand->unit, &walk);

    pool->memory = memory;
    while (!err && (shelf = shelf_walk_next(e, &walk))) {
        struct shelf_orders orders;
        err = shelf_orders(e, kind, shelf, bucket, &orders);
        for (uint32_t i = 0; !err && i < orders.count; i++) {
            const struct shelf_order *order = &orders.at[i];
            if (order->head < order->count) err = cursor_add(e, pool, order, bucket, &cap);
        }
    }
    for (uint32_t i = pool->cursor_count / 2; i-- > 0;) cursor_sink(pool, i);
    return err;
}

enum err shelves_pull(struct decider *e, struct supply_pool *pool, bool *ret_more)
{
    while (pool->cursor_count) {
        struct shelf_cursor *c = &pool->cursors[0];
        const struct shelf_entry *entry = &c->order->at[c->next];
        double first = cursor_first(c);
        if (++c->next == c->order->count) *c = pool->cursors[--pool->cursor_count];
        if (pool->cursor_count > 1) cursor_sink(pool, 0);
        if (entry_used_up(e, entry) || !set_matches(e, pool->memory, entry->look)) continue;
        *ret_more = true;
        return pool_add(
            e, pool, source_of(e, rooms_get(&e->inventory->cohort_slots, entry->cohort)), first, 0);
    }
    *ret_more = false;
    return ERR_OK;
}

enum err shelves_count(struct decider *e, enum pool_state state, const struct want *w,
                       struct set_memory *memory, uint32_t *ret_count)
{
    struct shelf_walk walk;
    const struct supply_shelf *shelf;
    uint64_t machines = 0;
    enum err err = shelf_walk_begin(e, state, memory, w->demand->unit, &walk);

    while (!err && machines < VERDICT_COUNT_MOST && (shelf = shelf_walk_next(e, &walk))) {
        for (uint32_t i = 0; machines < VERDICT_COUNT_MOST && i < shelf->count; i++) {
            if (!set_matches(e, memory, shelf->items[i].look)) continue;
            machines += shelf->items[i].machines;
        }
    }
    *ret_count = (uint32_t)min_u64(machines, VERDICT_COUNT_MOST);
    return err;
}

enum err shelves_hold(struct decider *e, enum pool_state state, struct set_memory *memory,
                      const struct resources *whole, bool *ret_hold)
{
    struct shelf_walk walk;
    const struct supply_shelf *shelf;
    enum err err = shelf_walk_begin(e, state, memory, whole, &walk);

    *ret_hold = false;
    while (!err && !*ret_hold && (shelf = shelf_walk_next(e, &walk))) {
        for (uint32_t i = 0; i < shelf->count && !*ret_hold; i++) {
            const struct shelf_item *item = &shelf->items[i];
            *ret_hold = !item->kept && set_matches(e, memory, item->look);
        }
    }
    return err;
}
