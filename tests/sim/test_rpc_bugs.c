/* SPDX-License-Identifier: Apache-2.0 */
/* The witness of the rpc scenario can fail: each planted bug is found within a bounded number of
 * seeds, and the same world without it passes the very seeds that found it. */
#include <stdio.h>

#include "lib/test.h"
#include "rpc_scenario.h"
#include "rpc_story.h"

enum { SEEDS_MAX = 60 };

static const struct {
    enum rpc_bug bug;
    enum scenario_end want;
} bugs[] = {
    {RPC_REPEAT_A_PLAIN_CALL, SCENARIO_UNSAFE},
    {RPC_UNKNOWN_AS_NO, SCENARIO_UNSAFE},
    {RPC_END_TWICE, SCENARIO_UNSAFE},
    {RPC_FORGET_AN_END, SCENARIO_STUCK},
    {RPC_ANSWER_ANOTHER, SCENARIO_UNSAFE},
    {RPC_FORGET_REQUEST_IDS, SCENARIO_UNSAFE},
    {RPC_ANSWER_WITHOUT_APPLYING, SCENARIO_UNSAFE},
    {RPC_SKIP_A_MESSAGE, SCENARIO_UNSAFE},
};
static_assert(ARRAY_LEN(bugs) == RPC_BUG_COUNT - 1, "every planted bug is listed");

static enum scenario_end run(uint64_t seed, enum rpc_bug bug)
{
    const struct scenario_options options = {.seed = seed, .profile = SCENARIO_HARSH, .bug = bug};
    struct scenario_result result;

    CHECK_OK("memory", scenario_run(&rpc_scenario, &options, &result));
    return result.end;
}

TEST(every_planted_bug_is_caught)
{
    for (size_t i = 0; i < ARRAY_LEN(bugs); i++) {
        const char *name = rpc_bug_names[bugs[i].bug - 1];
        enum scenario_end end = SCENARIO_PASSED;
        uint64_t seed = 0;

        while (end == SCENARIO_PASSED && seed < SEEDS_MAX) end = run(++seed, bugs[i].bug);
        fprintf(stderr, "%s: %s at seed %llu\n", name, scenario_end_text(end),
                (unsigned long long)seed);
        CHECK(name, end == bugs[i].want);
        CHECK("the same seed without the bug passes", run(seed, RPC_NO_BUG) == SCENARIO_PASSED);
    }
}

TEST(the_same_seed_gives_the_same_run)
{
    const struct scenario_options options = {.seed = 5, .profile = SCENARIO_HARSH};
    struct scenario_result first, again;

    CHECK_OK("memory", scenario_run(&rpc_scenario, &options, &first));
    CHECK_OK("memory", scenario_run(&rpc_scenario, &options, &again));
    CHECK_U64("event by event", again.hash, first.hash);
    CHECK_U64("as many", again.events, first.events);
}
