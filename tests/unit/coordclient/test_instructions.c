/* SPDX-License-Identifier: Apache-2.0 */
/* Terms and ids: wire.md 3.1 and facts F1 to F3. */
#include "coordclient/instructions.h"

#include <stdio.h>

#include "lib/test.h"

static struct instructions in;

static void open_it(void)
{
    CHECK_OK("open", instructions_init(&in, 7));
}

TEST(f1_f2_f3_the_mark_rises_and_never_falls)
{
    open_it();
    CHECK_I64("F1", in.term, 0);
    CHECK("F2", instructions_hear(&in, 3));
    CHECK("F2 the same again", instructions_hear(&in, 3));
    CHECK("F2 higher", instructions_hear(&in, 5));
    CHECK("F3 lower is stale", !instructions_hear(&in, 4));
    CHECK_I64("F3 and changes nothing", in.term, 5);
    instructions_deinit(&in);
}

TEST(an_executed_instruction_is_a_duplicate_even_under_an_older_term)
{
    open_it();
    CHECK_U64("new", instructions_judge(&in, STR("i-1"), 5), INSTRUCTION_TAKE);
    CHECK_U64("not done yet: again", instructions_judge(&in, STR("i-1"), 5), INSTRUCTION_TAKE);
    instructions_done(&in, STR("i-1"));
    CHECK_U64("done", instructions_judge(&in, STR("i-1"), 5), INSTRUCTION_DUPLICATE);
    CHECK_U64("done, older term", instructions_judge(&in, STR("i-1"), 1), INSTRUCTION_DUPLICATE);
    CHECK_U64("another, older term", instructions_judge(&in, STR("i-2"), 4), INSTRUCTION_STALE);
    CHECK_I64("the mark stays", in.term, 5);
    instructions_deinit(&in);
}

TEST(an_id_that_is_none_is_ignored)
{
    char id[INSTRUCTION_ID_MAX + 1] = {0};

    open_it();
    CHECK_U64("empty", instructions_judge(&in, STR_EMPTY, 5), INSTRUCTION_IGNORE);
    CHECK_U64("too long", instructions_judge(&in, str_of(id, sizeof id), 5), INSTRUCTION_IGNORE);
    CHECK_U64("the longest", instructions_judge(&in, str_of(id, sizeof id - 1), 5),
              INSTRUCTION_TAKE);
    CHECK_I64("an ignored instruction moves no mark", in.term, 5);
    instructions_deinit(&in);
}

TEST(ids_are_remembered_up_to_a_bound_and_the_oldest_goes_first)
{
    char id[32];

    open_it();
    for (int i = 0; i <= INSTRUCTIONS_REMEMBERED; i++) {
        snprintf(id, sizeof id, "i-%d", i);
        instructions_done(&in, str_from(id));
        instructions_done(&in, str_from(id)); /* a repeat takes no second place */
    }
    CHECK_SIZE("bounded", in.count, INSTRUCTIONS_REMEMBERED);
    CHECK_U64("the oldest is forgotten", instructions_judge(&in, STR("i-0"), 1), INSTRUCTION_TAKE);
    CHECK_U64("the next is not", instructions_judge(&in, STR("i-1"), 1), INSTRUCTION_DUPLICATE);
    CHECK_U64("nor the last", instructions_judge(&in, str_from(id), 1), INSTRUCTION_DUPLICATE);
    instructions_deinit(&in);
}
