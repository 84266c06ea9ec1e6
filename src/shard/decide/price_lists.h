/* SPDX-License-Identifier: Apache-2.0 */
/* What can be acquired, by instance type and shape, in the order it is taken; see price_lists.c. */
#ifndef SHARD_DECIDE_PRICE_LISTS_H
#define SHARD_DECIDE_PRICE_LISTS_H
#include "shard/decide/decider.h"

struct price_item {
    double price, probability;
    uint32_t cohort, look; /* slots */
    uint32_t machines;     /* when nothing is taken */
    bool kept;             /* for a Need */
};
static inline uint32_t price_item_left(const struct decider *e, const struct price_item *item)
{
    bool touched = e->touched[item->cohort / 64] >> item->cohort % 64 & 1;

    return touched ? source_left(e, &e->sources[item->cohort]) : item->machines;
}
struct price_entry {
    double first;          /* as in a pool's entry */
    uint32_t cohort, look; /* slots */
};
static inline bool entry_used_up(const struct decider *e, const struct price_entry *entry)
{
    if (!(e->touched[entry->cohort / 64] >> entry->cohort % 64 & 1)) return false;
    return source_left(e, &e->sources[entry->cohort]) == 0;
}
/* All machines of a list in the order they are taken, for one penalty bucket. */
struct price_order {
    uint32_t bucket, count;
    uint32_t head; /* entries before it are used up */
    struct price_entry *at;
    struct chains *chains;    /* by values of keys: chains.h */
    struct price_order *next; /* for another bucket */
};
struct price_values { /* what the items have under one key; NULL: nothing */
    const struct word *key;
    const struct posting **at;
    struct price_values *next;
};
struct price_list {
    uint32_t type, shape;     /* slots; type SLOT_NONE: none */
    struct price_item *items; /* in the order of the looks, so that a walk over all is cheap */
    uint32_t count, cap;
    struct price_order *orders;
    struct price_values *values;
};
struct price_cursor {
    const struct price_order *order;
    uint32_t next;
};

/* A walk over the lists of types that a set names and shapes that cover. */
struct price_walk {
    const struct price_lists *all;
    const struct set_memory *memory;
    const struct resources *wanted;
    uint32_t type, next, end; /* type: number of the named one that is next */
};
struct price_walk price_walk_begin(struct decider *e, enum pool_state state,
                                   const struct set_memory *memory, const struct resources *wanted);
struct price_list *price_walk_next(struct decider *e,
                                   struct price_walk *walk); /* NULL at the end */
/* The order for that bucket, used-up entries at its front passed over. NULL: full. */
struct price_order *price_order_of(struct decider *e, struct price_list *list, uint32_t bucket);
/* What the items have under the key, in their order. NULL: full. */
const struct posting *const *price_values(struct decider *e, struct price_list *list,
                                          struct str key);

/* Prepares a pool of that kind that is filled as it is read. */
void price_lists_open(struct decider *e, enum pool_kind kind, const struct want *w,
                      struct supply_pool *pool);
/* One more entry, the next in the pool's order, of which something is left, if there is one. */
void price_lists_pull(struct decider *e, struct supply_pool *pool);
/* Machines that match and cover, taken or not, with or without those that are kept for a Need;
 * counted up to `most`. */
uint64_t price_lists_count(struct decider *e, enum pool_state state,
                           const struct set_memory *memory, const struct resources *wanted,
                           bool with_kept, uint64_t most);
#endif
