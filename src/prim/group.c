/* SPDX-License-Identifier: Apache-2.0 */
/* The rules for the slots of a group (group.h). Pure: no clock, no randomness, no I/O, no
 * thread.
 *
 * Invariants: a slot is chosen only if it is free and below slot_count. A request that has a
 * slot gets the same slot again. */
#include "prim/group.h"

#include "prim/answer.h"

void prim_group_begin(struct prim_group *group, const struct prim_call *call,
                      const struct prim_acquire *in, uint32_t slot_count)
{
    assert(slot_count <= PRIM_SLOTS_MAX);
    *group = (struct prim_group){.call = call,
                                 .in = in,
                                 .slot_count = slot_count,
                                 .replay = COORD_NO_SLOT,
                                 .same = COORD_NO_SLOT,
                                 .next_ms = -1};
}

static bool slot_is_free(const struct prim_group *group, uint32_t slot)
{
    return slot < group->slot_count && !(group->taken[slot / 64] >> slot % 64 & 1);
}

void prim_group_taken(struct prim_group *group, uint32_t slot, int64_t left_ms)
{
    assert(slot < PRIM_SLOTS_MAX);
    group->taken[slot / 64] |= UINT64_C(1) << slot % 64;
    if (left_ms >= 0 && (group->next_ms < 0 || left_ms < group->next_ms)) group->next_ms = left_ms;
}

void prim_group_held(struct prim_group *group, uint32_t slot, const coord_id *request_id,
                     struct str owner, int64_t left_ms)
{
    prim_group_taken(group, slot, left_ms);
    group->live++;
    if (slot >= group->slot_count) group->left_over = true;
    if (group->replay == COORD_NO_SLOT && prim_id_equal(request_id, &group->call->request_id))
        group->replay = slot;
    if (group->same == COORD_NO_SLOT && str_equal(owner, group->in->owner)) group->same = slot;
}

static uint32_t free_slot(const struct prim_group *group, uint32_t spread)
{
    uint32_t count = 0, skip;

    if (slot_is_free(group, group->in->prefer_slot)) return group->in->prefer_slot;
    for (uint32_t i = 0; i < group->slot_count; i++) count += slot_is_free(group, i);
    if (count == 0) return COORD_NO_SLOT;
    skip = spread % count;
    for (uint32_t i = 0;; i++)
        if (slot_is_free(group, i) && skip-- == 0) return i;
}

enum prim_group_choice prim_group_choose(const struct prim_group *group, uint32_t spread,
                                         uint32_t *ret_slot)
{
    *ret_slot = group->replay;
    if (group->replay != COORD_NO_SLOT) return PRIM_GROUP_REPLAY;
    if (group->slot_count == 0)
        return group->in->flags & COORD_NO_CREATE ? PRIM_GROUP_ABSENT : PRIM_GROUP_CREATE;
    if (group->slot_count != group->in->slot_count) return PRIM_GROUP_CONFLICT;
    *ret_slot = group->same;
    if (group->same != COORD_NO_SLOT)
        return group->in->flags & COORD_TAKEOVER_SAME_OWNER ? PRIM_GROUP_TAKEOVER
                                                            : PRIM_GROUP_ALREADY;
    if (!group->left_over) *ret_slot = free_slot(group, spread);
    return *ret_slot == COORD_NO_SLOT ? PRIM_GROUP_FULL : PRIM_GROUP_TAKE;
}
