/* SPDX-License-Identifier: Apache-2.0 */
/* What can be acquired, by instance type and shape, in the order it is taken; see shelves.c. */
#ifndef SHARD_DECIDE_SHELVES_H
#define SHARD_DECIDE_SHELVES_H
#include "shard/decide/decider.h"

struct shelf_item {
    double price, probability;
    uint32_t cohort, look; /* slots */
    uint32_t machines;     /* when nothing is taken */
    bool kept;             /* for somebody */
};
static inline uint32_t shelf_left(const struct decider *e, const struct shelf_item *item)
{
    bool touched = e->touched[item->cohort / 64] >> item->cohort % 64 & 1;

    return touched ? source_left(e, &e->sources[item->cohort]) : item->machines;
}
struct shelf_entry {
    double first;          /* and what the cursor adds: as in a pool's entry */
    uint32_t cohort, look; /* slots */
};
static inline bool entry_used_up(const struct decider *e, const struct shelf_entry *entry)
{
    if (!(e->touched[entry->cohort / 64] >> entry->cohort % 64 & 1)) return false;
    return source_left(e, &e->sources[entry->cohort]) == 0;
}
/* Machines of a shelf in the order they are taken. Those of one probability, by price: a penalty
 * adds the same to each, so one order does for all buckets. Or all of the shelf, by effective cost,
 * for one bucket: where probabilities are many, or the cost makes prices one that differ. */
struct shelf_order {
    double probability; /* of all; 0: nothing is to be added */
    uint32_t bucket, count;
    uint32_t head;                         /* entries before it are used up */
    uint32_t buckets_asked, buckets_merge; /* a bit each: does the cost make prices one? */
    struct shelf_entry *at;
    struct chains *chains;    /* by values of keys: chains.h */
    struct shelf_order *next; /* for another bucket */
};
static inline double shelf_order_adds(const struct shelf_order *order, uint32_t bucket)
{
    return effective_cost(0, order->probability, penalty_dollars((uint8_t)bucket));
}
struct shelf_orders { /* that make up a shelf, for one bucket */
    struct shelf_order *at;
    uint32_t count;
};
struct shelf_values { /* what the items have under one key; NULL: nothing */
    const struct word *key;
    const struct posting **at;
    struct shelf_values *next;
};
struct supply_shelf {
    uint32_t type, shape;      /* slots; type SLOT_NONE: none */
    struct shelf_item *items;  /* as the looks stand in memory: a walk over all is then cheap */
    struct shelf_item *sorted; /* by probability and price; NULL: not yet */
    uint32_t count, cap;
    struct shelf_order *even; /* by probability; NULL: there are too many */
    uint32_t even_count;
    struct shelf_order *orders; /* by bucket, of all of the shelf */
    struct shelf_values *values;
};
struct shelf_cursor {
    const struct shelf_order *order;
    uint32_t next;
    double more; /* than what the entries say */
};

/* A walk over the shelves of types that a set names and shapes that cover. */
struct shelf_walk {
    const struct shelves *all;
    const struct set_memory *memory;
    const struct resources *wanted;
    uint32_t type, next, end; /* type: number of the named one that is next */
};
struct shelf_walk shelf_walk_begin(struct decider *e, enum pool_state state,
                                   const struct set_memory *memory, const struct resources *wanted);
struct supply_shelf *shelf_walk_next(struct decider *e,
                                     struct shelf_walk *walk); /* NULL at the end */
/* The orders to take from for machines of the kind (Idle or Speculative). */
struct shelf_orders shelf_orders(struct decider *e, enum pool_kind kind, struct supply_shelf *shelf,
                                 uint32_t bucket);
/* What the items have under the key, in their order. NULL: full. */
const struct posting *const *shelf_values(struct decider *e, struct supply_shelf *shelf,
                                          struct str key);

/* Prepares a pool of that kind that is filled as it is read. */
void shelves_open(struct decider *e, enum pool_kind kind, const struct want *w,
                  struct supply_pool *pool);
/* One more entry, the next in the pool's order, of which something is left, if there is one. */
void shelves_pull(struct decider *e, struct supply_pool *pool);
/* Machines that match and fit, taken or not; counted up to VERDICT_COUNT_MOST. */
uint32_t shelves_count(struct decider *e, enum pool_state state, const struct want *w,
                       const struct set_memory *memory);
/* Does one of them match, cover and is kept for nobody? */
bool shelves_hold(struct decider *e, enum pool_state state, const struct set_memory *memory,
                  const struct resources *whole);
#endif
