/* SPDX-License-Identifier: Apache-2.0 */
/* Possible victims, in the order they are taken; see victims.c. */
#ifndef SHARD_DECIDE_VICTIMS_H
#define SHARD_DECIDE_VICTIMS_H
#include "shard/decide/decider.h"

struct victim { /* a run of machines that one Need claimed, or nobody in a cluster unheard of */
    struct supply_source run;
    struct victim *other; /* of the same look */
};
struct victim_entry {
    double key; /* what its score is beside the preemptor's priority; the larger goes first */
    struct victim *victim;
    uint32_t look; /* slot */
    int32_t priority;
};
/* Victims of one instance type and shape. A heap, sorted from its end as far as it was read. */
struct victim_list {
    uint32_t type, shape; /* slots; type SLOT_NONE: none */
    struct victim_entry *at;
    uint32_t count, cap;
    uint32_t sorted; /* so many, the first one last */
    uint32_t head;   /* so many of those are used up */
};
struct victim_cursor {
    struct victim_list *list;
    uint32_t next;
};
struct victim_walk {
    struct victim_cursor *at;
    uint32_t count, cap;
    double base, margin; /* a score is base + key, give or take the margin */
};

/* Adds those with this look that fit and give way to the Need. */
void victims_of_look(struct decider *e, const struct want *w, const struct look *look,
                     struct supply_pool *pool);
/* Prepares a pool that is filled as it is read. */
void victims_open(struct decider *e, const struct want *w, struct supply_pool *pool);
/* The next ones in the pool's order, at least one if there is any. */
void victims_pull(struct decider *e, struct supply_pool *pool);
#endif
