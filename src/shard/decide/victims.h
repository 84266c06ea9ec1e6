/* SPDX-License-Identifier: Apache-2.0 */
/* Possible victims in the order of taking; see victims.c. */
#ifndef SHARD_DECIDE_VICTIMS_H
#define SHARD_DECIDE_VICTIMS_H
#include "shard/decide/decider.h"

struct victim { /* a range of machines, all claimed by one Need or by none */
    struct supply_source run;
    struct victim *other; /* next victim with the same look */
};
struct victim_entry {
    double key; /* the part of the score that does not depend on the preemptor; largest first */
    struct victim *victim;
    uint32_t look; /* slot of the look */
    int32_t priority;
};
/* `at` is a heap, followed by the entries sorted so far. */
struct victim_list {
    uint32_t type, shape; /* slots; type SLOT_NONE: machines without an instance type */
    struct victim_entry *at;
    uint32_t count, cap;
    uint32_t sorted; /* number of sorted entries, at the end of `at`, smallest first */
    uint32_t head;   /* number of used-up sorted entries */
};
struct victim_cursor {
    struct victim_list *list;
    uint32_t next;
};
struct victim_walk {
    struct victim_cursor *at;
    uint32_t count, cap;
    double base, margin; /* score = base + key; its rounding error is at most `margin` */
};

/* Adds the victims with this look that fit and have a lower priority than the Need. */
void victims_of_look(struct decider *e, const struct want *w, const struct look *look,
                     struct supply_pool *pool);
/* Initialises a pool that is filled as it is read. */
void victims_open(struct decider *e, const struct want *w, struct supply_pool *pool);
/* Appends the next victims of the pool's order, at least one if any is left. */
void victims_pull(struct decider *e, struct supply_pool *pool);
#endif
