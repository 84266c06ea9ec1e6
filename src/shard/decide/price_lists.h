/* SPDX-License-Identifier: Apache-2.0 */
/* Acquirable machines by instance type and shape, in the order of acquisition: price_lists.c. */
#ifndef SHARD_DECIDE_PRICE_LISTS_H
#define SHARD_DECIDE_PRICE_LISTS_H
#include "shard/decide/decider.h"

struct price_item {
    double price, probability;
    uint32_t cohort, look; /* slots of the cohort and of its look */
    uint32_t machines;     /* machines when the list was made */
    bool kept;             /* kept for a Need that drained the machines */
};
static inline uint32_t price_item_left(const struct decider *e, const struct price_item *item)
{
    bool touched = e->touched[item->cohort / 64] >> item->cohort % 64 & 1;

    return touched ? source_left(e, &e->sources[item->cohort]) : item->machines;
}
struct price_entry {
    double first;          /* as in pool_entry */
    uint32_t cohort, look; /* slots */
};
static inline bool entry_used_up(const struct decider *e, const struct price_entry *entry)
{
    if (!(e->touched[entry->cohort / 64] >> entry->cohort % 64 & 1)) return false;
    return source_left(e, &e->sources[entry->cohort]) == 0;
}
/* All machines of a list in the order of acquisition, for one penalty bucket. */
struct price_order {
    uint32_t bucket, count;
    uint32_t head; /* number of used-up entries at the front */
    struct price_entry *at;
    struct chains *chains;    /* one struct for each label key */
    struct price_order *next; /* the order for another bucket */
};
struct price_values { /* the value of each item under one label key; NULL: no such label */
    const struct word *key;
    const struct posting **at;
    struct price_values *next;
};
struct price_list {
    uint32_t type, shape;     /* slots; type SLOT_NONE: machines without an instance type */
    struct price_item *items; /* sorted by look */
    uint32_t count, cap;
    struct price_order *orders;
    struct price_values *values;
};
struct price_cursor {
    const struct price_order *order;
    uint32_t next;
};

/* A walk over the lists whose type the set names and whose shape covers `wanted`. */
struct price_walk {
    const struct price_lists *all;
    const struct set_memory *memory;
    const struct resources *wanted;
    uint32_t type, next, end; /* type: index of the next named type */
};
struct price_walk price_walk_begin(struct decider *e, enum pool_state state,
                                   const struct set_memory *memory, const struct resources *wanted);
struct price_list *price_walk_next(struct decider *e,
                                   struct price_walk *walk); /* NULL at the end */
/* Returns the order for the bucket and skips its used-up entries. NULL: out of memory. */
struct price_order *price_order_of(struct decider *e, struct price_list *list, uint32_t bucket);
/* Returns the value of each item, in item order. NULL: out of memory. */
const struct posting *const *price_values(struct decider *e, struct price_list *list,
                                          struct str key);

void price_lists_open(struct decider *e, enum pool_kind kind, const struct want *w,
                      struct supply_pool *pool);
/* Appends the next entry that has machines left, if there is one. */
void price_lists_pull(struct decider *e, struct supply_pool *pool);
/* Counts machines that match the set and cover `wanted`, including taken machines, up to `most`.
 * `with_kept`: also machines kept for a Need. */
uint64_t price_lists_count(struct decider *e, enum pool_state state,
                           const struct set_memory *memory, const struct resources *wanted,
                           bool with_kept, uint64_t most);
#endif
