/* SPDX-License-Identifier: Apache-2.0 */
/* Each rule of membership, and its mutant without the rule. */
#include <stdio.h>

#include "lib/test.h"
#include "log/members.h"
#include "mutants/mutant.h"

/* Three voters, all sound, a learner that has caught up; replica 1 leads. */
static struct members members;
static struct members_view sound_view(void)
{
    struct members_view view = {
        .self = 1, .members = &members, .own_term_committed = true, .commit = 100};

    members.count = 4;
    for (size_t i = 0; i < members.count; i++) {
        members.at[i].id = i + 1;
        members.at[i].role = i < 3 ? MEMBER_VOTER : MEMBER_LEARNER;
        view.match[i] = 100;
        view.responsive[i] = true;
    }
    return view;
}

static enum err change(const struct members_view *view, enum member_change_kind kind, uint64_t id)
{
    struct members next;
    return members_change(view, kind, id, STR("host:1"), &next, NULL);
}

GUARD_TEST(no_change_before_the_last_one_is_committed, RULE_R2_UNCOMMITTED)
{
    struct members_view view = sound_view();

    view.uncommitted = 99;
    HOLDS(change(&view, CHANGE_REMOVE, 4) == ERR_NOT_READY);
    return true;
}

GUARD_TEST(no_change_before_an_entry_of_its_own_term_is_committed, RULE_R2_OWN_TERM)
{
    struct members_view view = sound_view();

    view.own_term_committed = false;
    HOLDS(change(&view, CHANGE_REMOVE, 4) == ERR_NOT_READY);
    return true;
}

GUARD_TEST(no_removal_that_leaves_no_majority_with_all_that_is_committed, RULE_R2_MATCH)
{
    struct members_view view = sound_view();

    view.match[2] = 99;
    HOLDS(change(&view, CHANGE_REMOVE, 2) == ERR_NOT_READY);
    HOLDS(change(&view, CHANGE_REMOVE, 3) == ERR_OK);
    return true;
}

GUARD_TEST(no_promotion_that_needs_the_newcomer, RULE_R2B)
{
    struct members_view view = sound_view();

    view.responsive[2] = false;
    HOLDS(change(&view, CHANGE_PROMOTE, 4) == ERR_NOT_READY);
    HOLDS(change(&view, CHANGE_REMOVE, 3) == ERR_OK);
    return true;
}
