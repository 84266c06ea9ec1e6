/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/group.h"

#include "lib/test.h"

static const struct prim_call call = {.request_id = {{7}}};
static const coord_id other_request = {{9}};

/* An acquire of 3 slots by "me"; tests change fields. */
static struct prim_acquire acquire(uint32_t flags, uint32_t prefer)
{
    return (struct prim_acquire){.group = STR("g"),
                                 .owner = STR("me"),
                                 .slot_count = 3,
                                 .flags = flags,
                                 .prefer_slot = prefer};
}

#define CHOOSES(why, group, spread, want_choice, want_slot)                                        \
    do {                                                                                           \
        uint32_t slot_ = 77;                                                                       \
        CHECK_I64(why, prim_group_choose(group, spread, &slot_), want_choice);                     \
        CHECK_U64(why, slot_, want_slot);                                                          \
    } while (0)

TEST(the_lowest_free_slot_is_taken_unless_a_free_one_is_preferred)
{
    struct prim_acquire any = acquire(0, COORD_NO_SLOT), third = acquire(0, 2);
    struct prim_acquire beyond = acquire(0, 3);
    struct prim_group group;
    prim_group_begin(&group, &call, &any, 3);
    CHOOSES("all are free", &group, 0, PRIM_GROUP_TAKE, 0);
    prim_group_held(&group, 0, &other_request, STR("you"), -1);
    CHOOSES("the first is held", &group, 0, PRIM_GROUP_TAKE, 1);
    group.in = &third;
    CHOOSES("preferred and free", &group, 0, PRIM_GROUP_TAKE, 2);
    prim_group_taken(&group, 2, -1);
    CHOOSES("preferred and not free", &group, 0, PRIM_GROUP_TAKE, 1);
    group.in = &beyond;
    CHOOSES("preferred and not there", &group, 0, PRIM_GROUP_TAKE, 1);
    prim_group_taken(&group, 1, -1);
    CHOOSES("none is left", &group, 0, PRIM_GROUP_FULL, COORD_NO_SLOT);
}

TEST(contenders_spread_over_the_free_slots)
{
    struct prim_acquire in = acquire(0, COORD_NO_SLOT);
    struct prim_group group;
    prim_group_begin(&group, &call, &in, 3);
    prim_group_held(&group, 1, &other_request, STR("you"), -1);
    CHOOSES("0 of 2", &group, 0, PRIM_GROUP_TAKE, 0);
    CHOOSES("1 of 2", &group, 1, PRIM_GROUP_TAKE, 2);
    CHOOSES("any number", &group, 4, PRIM_GROUP_TAKE, 0);
}

TEST(a_request_that_has_a_slot_gets_it_again_whatever_changed_since)
{
    struct prim_acquire in = acquire(COORD_NO_CREATE, COORD_NO_SLOT);
    struct prim_group group;
    prim_group_begin(&group, &call, &in, 2); /* resized; the record has 0 slots */
    prim_group_held(&group, 0, &other_request, STR("me"), -1);
    prim_group_held(&group, 2, &call.request_id, STR("me"), -1);
    CHOOSES("before count, owner and rest", &group, 0, PRIM_GROUP_REPLAY, 2);
    group.slot_count = 0;
    CHOOSES("and without a group", &group, 0, PRIM_GROUP_REPLAY, 2);
}

TEST(a_group_is_made_unless_that_is_forbidden)
{
    struct prim_acquire in = acquire(0, COORD_NO_SLOT);
    struct prim_group group;
    prim_group_begin(&group, &call, &in, 0);
    CHOOSES("made", &group, 0, PRIM_GROUP_CREATE, COORD_NO_SLOT);
    in.flags = COORD_NO_CREATE;
    CHOOSES("forbidden", &group, 0, PRIM_GROUP_ABSENT, COORD_NO_SLOT);
}

TEST(another_number_of_slots_is_a_conflict_before_holders_are_checked)
{
    struct prim_acquire in = acquire(COORD_TAKEOVER_SAME_OWNER, COORD_NO_SLOT);
    struct prim_group group;
    prim_group_begin(&group, &call, &in, 4);
    prim_group_held(&group, 0, &other_request, STR("me"), -1);
    CHOOSES("4 and not 3", &group, 0, PRIM_GROUP_CONFLICT, COORD_NO_SLOT);
}

TEST(an_owner_holds_one_slot_and_may_take_over_its_own)
{
    struct prim_acquire in = acquire(0, 0);
    struct prim_group group;
    prim_group_begin(&group, &call, &in, 3);
    prim_group_held(&group, 1, &other_request, STR("me"), -1);
    CHOOSES("already", &group, 0, PRIM_GROUP_ALREADY, 1);
    in.flags = COORD_TAKEOVER_SAME_OWNER;
    CHOOSES("its own slot, not the preferred", &group, 0, PRIM_GROUP_TAKEOVER, 1);
    in.owner = STR("m");
    prim_group_begin(&group, &call, &in, 3);
    prim_group_held(&group, 1, &other_request, STR("me"), -1);
    CHOOSES("a part of a name is another name", &group, 0, PRIM_GROUP_TAKE, 0);
}

TEST(no_owner_enters_a_shrunk_group_until_holders_above_the_size_have_left)
{
    struct prim_acquire in = acquire(0, 0);
    struct prim_group group;
    prim_group_begin(&group, &call, &in, 3);
    prim_group_held(&group, 3, &other_request, STR("you"), -1);
    CHOOSES("full with three free slots", &group, 0, PRIM_GROUP_FULL, COORD_NO_SLOT);
    CHECK_U64("a holder above the size counts", group.live, 1);
    in.owner = STR("you");
    in.flags = COORD_TAKEOVER_SAME_OWNER;
    prim_group_begin(&group, &call, &in, 3);
    prim_group_held(&group, 3, &other_request, STR("you"), -1);
    CHOOSES("but may take over its own", &group, 0, PRIM_GROUP_TAKEOVER, 3);
}

TEST(the_hint_is_the_first_end_that_is_known)
{
    struct prim_acquire in = acquire(0, COORD_NO_SLOT);
    struct prim_group group;
    prim_group_begin(&group, &call, &in, 3);
    CHECK_I64("nothing ends", group.next_ms, -1);
    prim_group_held(&group, 0, &other_request, STR("a"), -1);
    CHECK_I64("not known", group.next_ms, -1);
    prim_group_held(&group, 1, &other_request, STR("b"), 500);
    prim_group_taken(&group, 2, 200);
    CHECK_I64("a cooldown, too", group.next_ms, 200);
    prim_group_held(&group, 3, &other_request, STR("c"), 0);
    CHECK_I64("now", group.next_ms, 0);
    CHECK_U64("a cooldown is no holder", group.live, 3);
}

TEST(the_last_of_1024_slots_is_found)
{
    struct prim_acquire in = acquire(0, COORD_NO_SLOT);
    struct prim_group group;
    in.slot_count = PRIM_SLOTS_MAX;
    prim_group_begin(&group, &call, &in, PRIM_SLOTS_MAX);
    for (uint32_t i = 0; i + 1 < PRIM_SLOTS_MAX; i++)
        prim_group_held(&group, i, &other_request, STR("you"), -1);
    CHOOSES("the last", &group, 0, PRIM_GROUP_TAKE, PRIM_SLOTS_MAX - 1);
    prim_group_taken(&group, PRIM_SLOTS_MAX - 1, -1);
    CHOOSES("full", &group, 5, PRIM_GROUP_FULL, COORD_NO_SLOT);
}
