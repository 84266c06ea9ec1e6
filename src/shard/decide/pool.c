/* SPDX-License-Identifier: Apache-2.0 */
/* Pools: sorted sources of machines. A *class* is a run of entries with equal sort keys. Within a
 * class, machines are taken by ascending id. */
#include <stdlib.h>

#include "base/sift.h"
#include "shard/decide/price_lists.h"
#include "shard/decide/victims.h"

void pool_add(struct decider *e, struct supply_pool *pool, struct supply_source *source,
              double first, double second)
{
    if (decider_grow(e, &pool->at, pool->count, &pool->cap, sizeof *pool->at)) {
        pool->at[pool->count++] = (struct pool_entry){first, second, source};
    }
}

static int pool_entry_compare(const void *left, const void *right)
{
    const struct pool_entry *a = left, *b = right;

    if (a->first != b->first) return a->first < b->first ? -1 : 1;
    if (a->second != b->second) return a->second < b->second ? -1 : 1;
    return 0; /* ids are compared only when needed */
}

void pool_sort(struct supply_pool *pool, uint32_t from)
{
    uint32_t count = pool->count - from;

    if (count > 1) qsort(pool->at + from, count, sizeof *pool->at, pool_entry_compare);
}

static bool pool_reaches(struct decider *e, struct supply_pool *pool, uint32_t number)
{
    if (number >= pool->count && pool->cursor_count) price_lists_pull(e, pool);
    if (number >= pool->count && pool->victims) victims_pull(e, pool);
    return number < pool->count;
}

void pool_fetch(struct decider *e, struct supply_pool *pool)
{
    while (pool_reaches(e, pool, pool->count)) continue;
}

/* Returns the end of a class, after fetching all its entries. */
static uint32_t pool_class_end(struct decider *e, struct supply_pool *pool, uint32_t from)
{
    uint32_t low = from, high;

    while (!pool_entry_compare(&pool->at[from], &pool->at[pool->count - 1])) {
        if (!pool_reaches(e, pool, pool->count)) break;
    }
    for (high = pool->count; high - low > 1;) {
        uint32_t middle = low + (high - low) / 2;
        if (pool_entry_compare(&pool->at[from], &pool->at[middle]) == 0)
            low = middle;
        else
            high = middle;
    }
    return high;
}

/* --- walking --- */

static bool pool_may_take(const struct decider *e, const struct want *w,
                          const struct supply_source *s)
{
    return source_left(e, s) && want_helped(w, s->cohort->traits.shape) &&
           source_in_domain(w, s->cohort) && source_open(e, w, s->cohort);
}

bool source_before(const void *, const void *left, const void *right)
{
    const struct supply_source *a = *(struct supply_source *const *)left,
                               *b = *(struct supply_source *const *)right;

    return str_compare(row_id(a->next), row_id(b->next)) < 0;
}

void source_sink(struct supply_source **heap, uint32_t count, uint32_t at)
{
    sift_down(heap, sizeof(struct supply_source *), count, at, source_before, NULL);
}

/* Collects in e->heap the sources of a class from which the Need may take. */
static uint32_t pool_class_open(struct decider *e, const struct want *w,
                                const struct supply_pool *pool, uint32_t from, uint32_t end)
{
    uint32_t count = 0;

    if (!decider_grow(e, &e->heap, end - from, &e->heap_cap, sizeof(struct supply_source *))) {
        return 0;
    }
    for (uint32_t i = from; i < end; i++) {
        if (pool_may_take(e, w, pool->at[i].source)) e->heap[count++] = pool->at[i].source;
    }
    return count;
}

/* True if the Need takes every machine of the class, so that the order of ids does not matter.
 * False for Idle and Speculative machines: their actions are emitted in the order of taking. */
static bool pool_class_whole(const struct decider *e, const struct want *w, uint32_t count)
{
    const struct traits *t = &e->heap[0]->cohort->traits;
    uint64_t left = 0;

    if (t->state == MACHINE_IDLE || t->state == MACHINE_SPECULATIVE) return false;
    for (uint32_t i = 0; i < count; i++) {
        if (e->heap[i]->cohort->traits.shape != t->shape) return false;
        left += source_left(e, e->heap[i]);
    }
    return left <= UINT32_MAX && want_needs(w, t->shape, (uint32_t)left) == left;
}

/* `take` is want_claim in Phase 1 and source_take in Phase 2. */
static void pool_class_take(struct decider *e, struct want *w, struct supply_pool *pool,
                            uint32_t from, uint32_t end, pool_take *take)
{
    uint32_t count = pool_class_open(e, w, pool, from, end);
    struct supply_source **heap = e->heap;

    if (count > 1 && take == want_claim && pool_class_whole(e, w, count)) {
        for (uint32_t i = 0; i < count; i++) take(e, w, heap[i], source_left(e, heap[i]));
        return;
    }
    if (count > 1) { /* a heap by next id */
        for (uint32_t i = 0; i < count; i++) (void)source_next(heap[i]);
        for (uint32_t i = count / 2; i-- > 0;) source_sink(heap, count, i);
    }
    while (count > 0 && w->live) {
        struct supply_source *s = heap[0];
        uint32_t wanted = want_needs(w, s->cohort->traits.shape, source_left(e, s));
        if (count > 1 && wanted > 1) wanted = 1; /* the next id may be in another cohort */
        if (wanted > 0) take(e, w, s, wanted);
        if (wanted == 0 || source_left(e, s) == 0)
            heap[0] = heap[--count];
        else if (count > 1)
            (void)source_next(s);
        if (count > 1) source_sink(heap, count, 0);
    }
}

void pool_take_all(struct decider *e, struct want *w, struct supply_pool *pool, pool_take *take)
{
    uint32_t end;

    while (pool->head < pool->count && source_left(e, pool->at[pool->head].source) == 0)
        pool->head++;
    for (uint32_t i = pool->head; w->live && pool_reaches(e, pool, i); i = end) {
        end = pool_class_end(e, pool, i);
        pool_class_take(e, w, pool, i, end, take);
    }
}

/* --- building pools --- */

struct kept_pool {
    struct kept_pool *next;
    enum pool_kind kind;
    uint32_t extra; /* penalty bucket or priority, depending on the kind */
    const struct resources *unit;
    struct supply_pool pool;
};

void pool_add_in_order(struct decider *e, struct supply_pool *pool, enum pool_kind kind,
                       const struct want *w, struct supply_source *s)
{
    const struct traits *t = &s->cohort->traits;
    double first = t->price, second = 0;

    if (kind == POOL_OF_SPECULATIVE) {
        first = effective_cost(t->price, t->probability,
                               penalty_dollars(w->demand->profile->interruption_bucket));
    } else if (kind == POOL_OF_VICTIMS) {
        first = -victim_score(&e->input.weights, w->demand->profile->priority, s);
    } else if (kind == POOL_OF_EXCESS && t->occupancy == OCCUPANCY_EMPTY) {
        first = -HUGE_VAL;
        second = t->price;
    }
    pool_add(e, pool, s, first, second);
}

void pool_add_bag(struct decider *e, const struct want *w, const struct bag *bag,
                  enum machine_state state, struct supply_pool *pool)
{
    bool by_id = state == MACHINE_CREATING || state == MACHINE_DRAINING;
    struct set_memory *memory = bag->count ? set_recall(e, w->demand->kind->set) : NULL;

    for (uint32_t i = 0; i < bag->count; i++) {
        const struct bag_item *item = &bag->at[i];
        const struct cohort *c = item->cohort;
        struct keep_rank rank = {0};
        if (item->state != (uint32_t)state) continue;
        if (!set_matches(e, memory, item->look) || !cohort_fits(c, w->demand->unit)) continue;
        if (!by_id) rank = cohort_keep_rank(c);
        pool_add(e, pool, source_of(e, c), rank.first, rank.second);
    }
}

static void pool_fill(struct decider *e, struct supply_pool *pool, enum pool_kind kind,
                      const struct want *w)
{
    if (kind == POOL_OF_EXCESS)
        tails_add(e, w, pool->memory, pool);
    else if (kind == POOL_OF_VICTIMS)
        victims_open(e, w, pool);
    else if (kind == POOL_OF_CREATING)
        pool_add_bag(e, w, &e->inventory->nobodys, MACHINE_CREATING, pool);
    else if (kind == POOL_OF_DRAINING)
        pool_add_bag(e, w, &e->inventory->nobodys, MACHINE_DRAINING, pool);
    else
        price_lists_open(e, kind, w, pool);
    pool_sort(pool, 0);
}

struct supply_pool *pool_of(struct decider *e, enum pool_kind kind, const struct want *w)
{
    struct set_memory *memory = set_recall(e, w->demand->kind->set);
    uint32_t extra = kind == POOL_OF_VICTIMS       ? (uint32_t)w->demand->profile->priority
                     : kind == POOL_OF_SPECULATIVE ? pool_bucket(kind, w)
                                                   : 0;
    struct kept_pool *kept;

    if (memory->pools_of != e->number) memory->pools = NULL;
    memory->pools_of = e->number;
    for (kept = memory->pools; kept; kept = kept->next) {
        if (kept->kind == kind && kept->extra == extra &&
            resources_equal(kept->unit, w->demand->unit)) {
            return &kept->pool;
        }
    }
    kept = decider_alloc(e, 1, sizeof *kept);
    if (!kept) return NULL;
    *kept = (struct kept_pool){memory->pools, kind, extra, w->demand->unit, {.memory = memory}};
    pool_fill(e, &kept->pool, kind, w);
    memory->pools = kept;
    return &kept->pool;
}
