/* SPDX-License-Identifier: Apache-2.0 */
/* Machines that can be acquired, by instance type and shape, as they are taken: price_lists.c. */
#ifndef SHARD_DECIDE_PRICE_LISTS_H
#define SHARD_DECIDE_PRICE_LISTS_H
#include "shard/decide/decider.h"

struct price_item {
    double price, probability;
    uint32_t cohort, look; /* slots of the cohort and of its look */
    uint32_t machines;     /* number of machines before this decision took any */
    bool kept;             /* kept for a Need (shield) */
};
static inline uint32_t price_item_left(const struct decider *e, const struct price_item *item)
{
    bool touched = e->touched[item->cohort / 64] >> item->cohort % 64 & 1;

    return touched ? source_left(e, &e->sources[item->cohort]) : item->machines;
}
struct price_entry {
    double first;          /* sort key, as in pool_entry */
    uint32_t cohort, look; /* slots of the cohort and of its look */
};
static inline bool entry_used_up(const struct decider *e, const struct price_entry *entry)
{
    if (!(e->touched[entry->cohort / 64] >> entry->cohort % 64 & 1)) return false;
    return source_left(e, &e->sources[entry->cohort]) == 0;
}
/* All machines of a list in the order they are taken, for one penalty bucket. */
struct price_order {
    uint32_t bucket, count;
    uint32_t head; /* number of entries at the front that are used up */
    struct price_entry *at;
    struct chains *chains;    /* chains of this order, one struct for each label key: chains.h */
    struct price_order *next; /* the order for another bucket */
};
struct price_values { /* for one label key, the value of each item; NULL: no such label */
    const struct word *key;
    const struct posting **at;
    struct price_values *next;
};
struct price_list {
    uint32_t type, shape;     /* slots; type SLOT_NONE: no instance type */
    struct price_item *items; /* sorted by look, for fast walks */
    uint32_t count, cap;
    struct price_order *orders;
    struct price_values *values;
};
struct price_cursor {
    const struct price_order *order;
    uint32_t next;
};

/* A walk over the lists whose type the set names and whose shape covers the wanted amounts. */
struct price_walk {
    const struct price_lists *all;
    const struct set_memory *memory;
    const struct resources *wanted;
    uint32_t type, next, end; /* type: index of the next type that the set names */
};
struct price_walk price_walk_begin(struct decider *e, enum pool_state state,
                                   const struct set_memory *memory, const struct resources *wanted);
struct price_list *price_walk_next(struct decider *e,
                                   struct price_walk *walk); /* NULL at the end */
/* Returns the order for that bucket. Its head is after all used-up entries. NULL: out of memory. */
struct price_order *price_order_of(struct decider *e, struct price_list *list, uint32_t bucket);
/* Returns the value of each item under the key, in item order. NULL if memory ran out. */
const struct posting *const *price_values(struct decider *e, struct price_list *list,
                                          struct str key);

/* Initialises a pool of that kind, which fetches its entries as they are read. */
void price_lists_open(struct decider *e, enum pool_kind kind, const struct want *w,
                      struct supply_pool *pool);
/* Appends the next entry in the pool's order that has machines left, if there is one. */
void price_lists_pull(struct decider *e, struct supply_pool *pool);
/* Counts machines that match and cover, taken or not, up to `most`. `with_kept` includes machines
 * that are kept for a Need. */
uint64_t price_lists_count(struct decider *e, enum pool_state state,
                           const struct set_memory *memory, const struct resources *wanted,
                           bool with_kept, uint64_t most);
#endif
