/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which slot of a group an acquire gets.
 *
 * A backend describes the group that it read: prim_group_begin, then one call per slot that is
 * not free. prim_group_choose returns what the acquire must do. The backend applies the choice
 * with one atomic step on the chosen slot. If another client was faster, the backend describes
 * the group again, or marks the slot taken and repeats. */
#ifndef PRIM_GROUP_H
#define PRIM_GROUP_H
#include "prim/backend.h"
#include "prim/names.h"

/* In order of precedence. */
enum prim_group_choice {
    PRIM_GROUP_REPLAY,   /* an earlier attempt of this request has the slot */
    PRIM_GROUP_CREATE,   /* no group: make its record, then choose again */
    PRIM_GROUP_ABSENT,   /* no group, and COORD_NO_CREATE is set */
    PRIM_GROUP_CONFLICT, /* the group has another slot count */
    PRIM_GROUP_ALREADY,  /* this owner already holds a slot */
    PRIM_GROUP_TAKEOVER, /* this owner holds a slot, and COORD_TAKEOVER_SAME_OWNER is set */
    PRIM_GROUP_FULL,
    PRIM_GROUP_TAKE,
};
struct prim_group {
    const struct prim_call *call;
    const struct prim_acquire *in;
    uint32_t slot_count;   /* 0: there is no group */
    uint32_t live;         /* held slots, also above slot_count */
    uint32_t replay, same; /* slots of this request and of this owner; COORD_NO_SLOT: none */
    bool left_over;        /* a slot above a smaller slot_count is still held: grant none */
    int64_t next_ms;       /* until the first slot can become free; -1: unknown */
    uint64_t taken[PRIM_SLOTS_MAX / 64]; /* bit i: slot i is not free */
};
/* `call` and `in` are borrowed. */
void prim_group_begin(struct prim_group *group, const struct prim_call *call,
                      const struct prim_acquire *in, uint32_t slot_count);
/* left_ms: until the slot can become free; -1: unknown. */
void prim_group_held(struct prim_group *group, uint32_t slot, const coord_id *request_id,
                     struct str owner, int64_t left_ms);
/* Call if the slot is neither held nor free: it cools down, or another client took it meanwhile. */
void prim_group_taken(struct prim_group *group, uint32_t slot, int64_t left_ms);
/* Chooses the preferred slot if free, else the free slot with index `spread` modulo the number
 * of free slots. `spread`: 0, or random when many clients contend. *ret_slot: COORD_NO_SLOT if
 * the choice has no slot. */
enum prim_group_choice prim_group_choose(const struct prim_group *group, uint32_t spread,
                                         uint32_t *ret_slot);
#endif
