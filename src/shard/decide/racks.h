/* SPDX-License-Identifier: Apache-2.0 */
/* Machines that gangs of one base and unit could acquire, by domain; see racks.c. */
#ifndef SHARD_DECIDE_RACKS_H
#define SHARD_DECIDE_RACKS_H
#include "shard/decide/decider.h"

#define RACK_NONE  UINT32_MAX
#define CLASS_NONE UINT32_MAX
enum { RACK_CLASS_SLOTS = 64 };

struct rack_member { /* an Idle or Speculative cohort in a rack */
    const struct posting *value;
    uint32_t cohort, shape; /* slots */
    uint32_t left;          /* machines left when the racks were made */
    uint32_t next;          /* next member of the same rack; RACK_NONE: none */
};
struct rack {
    const struct posting *value;
    uint32_t count; /* machines left */
    uint32_t class_number, member;
};
struct rack_class { /* racks with equal numbers of machines and equal amounts left */
    const int128 *total;
    uint32_t machines, next;
    uint32_t *heap; /* racks, smallest value on top; may contain racks of other classes */
    uint32_t count, cap;
};
struct racks {
    struct racks *next;
    struct set_memory *memory; /* cached results of a requirement set with this base */
    const struct resources *unit;
    struct str key;                /* the gang's topology key */
    uint64_t mask;                 /* dimensions that are summed */
    uint32_t dimensions, log_read; /* log_read: number of entries of e->acquired that were read */
    struct rack *at;
    int128 *totals;
    uint32_t count;
    struct rack_member *members;
    uint32_t member_count, member_cap;
    struct supply_source **kept; /* machines kept for a Need */
    uint32_t kept_count, kept_cap;
    uint32_t *by_value, by_value_mask;
    struct rack_class *classes;
    uint32_t class_count, class_cap;
    uint32_t class_of[RACK_CLASS_SLOTS];
};

static inline int128 *racks_total(const struct racks *r, uint32_t number)
{
    return r->totals + (size_t)number * r->dimensions;
}
/* Adds the amounts of some machines to sums that are ordered by the dimensions of the mask. */
void rack_amounts_add(uint64_t mask, int128 *sums, const struct machine_shape *shape,
                      int64_t machines);
/* NULL: out of memory. */
struct racks *racks_of(struct decider *e, const struct want *w);
uint32_t racks_find(const struct racks *r, const struct posting *value);
/* Finds up to `most` racks that pass the filter, smallest value first. */
typedef bool rack_filter(const void *context, const struct rack *rack);
uint32_t racks_smallest(struct decider *e, struct racks *r, uint32_t class_number,
                        rack_filter *filter, const void *context, uint32_t *found, uint32_t most);
#endif
