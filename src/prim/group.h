/* SPDX-License-Identifier: Apache-2.0 */
/* Which slot of a group an acquire gets: the one place that knows the rules.
 *
 * A backend describes the group as it read it (prim_group_begin, then one call per slot that is not
 * free) and prim_group_choose says what the acquire must do. The choice is only as good as what was
 * read: the backend makes it hold by one atomic step on the chosen slot, and when another client
 * was faster it describes the group again, or marks that slot as taken and asks again. */
#ifndef PRIM_GROUP_H
#define PRIM_GROUP_H
#include "prim/backend.h"
#include "prim/names.h"

/* In the order in which they are looked for. */
enum prim_group_choice {
    PRIM_GROUP_REPLAY,   /* the slot is this request's own: an earlier attempt was applied */
    PRIM_GROUP_CREATE,   /* there is no group: make its record, then choose again */
    PRIM_GROUP_ABSENT,   /* there is no group, and COORD_NO_CREATE */
    PRIM_GROUP_CONFLICT, /* the group has another number of slots */
    PRIM_GROUP_ALREADY,  /* the slot is held under this owner's name */
    PRIM_GROUP_TAKEOVER, /* the same, and COORD_TAKEOVER_SAME_OWNER */
    PRIM_GROUP_FULL,
    PRIM_GROUP_TAKE, /* the slot is free */
};
struct prim_group {
    const struct prim_call *call;
    const struct prim_acquire *in;
    uint32_t slot_count;   /* 0: there is no group */
    uint32_t live;         /* slots that are held, also those above slot_count */
    uint32_t replay, same; /* slot of this request, of this owner; or COORD_NO_SLOT */
    bool left_over;        /* a holder from before a shrink: nobody enters until it has left */
    int64_t next_ms;       /* until the first slot may become free; -1: not known */
    uint64_t taken[PRIM_SLOTS_MAX / 64]; /* a bit per slot that is not free */
};
/* `call` and `in` are borrowed. */
void prim_group_begin(struct prim_group *group, const struct prim_call *call,
                      const struct prim_acquire *in, uint32_t slot_count);
/* A slot has a holder. `left_ms`: until the slot may become free; -1: not known. */
void prim_group_held(struct prim_group *group, uint32_t slot, const coord_id *request_id,
                     struct str owner, int64_t left_ms);
/* A slot has no holder of ours and is not free: it cools down, or another client has it by now. */
void prim_group_taken(struct prim_group *group, uint32_t slot, int64_t left_ms);
/* The preferred slot, if it is free; else the free slot number `spread` modulo their count, counted
 * from the lowest: 0, or a random number where many clients contend. *ret_slot: COORD_NO_SLOT when
 * the choice has none. */
enum prim_group_choice prim_group_choose(const struct prim_group *group, uint32_t spread,
                                         uint32_t *ret_slot);
#endif
