/* SPDX-License-Identifier: Apache-2.0 */
/* The witness of the store scenario can fail: each planted bug is found within a bounded number of
 * seeds, and the same world without it passes the very seeds that found it. */
#include <stdio.h>

#include "lib/test.h"
#include "store_story.h"

enum { SEEDS_MAX = 60 };

static enum scenario_end run(uint64_t seed, enum store_bug bug)
{
    const struct scenario_options options = {
        .seed = seed, .profile = seed % 2 ? SCENARIO_HARSH : SCENARIO_MILD, .bug = bug};
    struct scenario_result result;

    CHECK_OK("memory", scenario_run(&store_scenario, &options, &result));
    if (result.end != SCENARIO_PASSED) fprintf(stderr, "%s\n", result.why.text);
    return result.end;
}

TEST(every_planted_bug_is_caught)
{
    for (uint32_t bug = 1; bug < STORE_BUG_COUNT; bug++) {
        const char *name = store_bug_names[bug - 1];
        enum scenario_end end = SCENARIO_PASSED;
        uint64_t seed = 0;

        while (end == SCENARIO_PASSED && seed < SEEDS_MAX) end = run(++seed, (enum store_bug)bug);
        fprintf(stderr, "%s: %s at seed %llu\n", name, scenario_end_text(end),
                (unsigned long long)seed);
        CHECK(name, end == SCENARIO_UNSAFE);
        CHECK("the same seed without the bug passes", run(seed, STORE_NO_BUG) == SCENARIO_PASSED);
    }
}

TEST(the_same_seed_gives_the_same_run)
{
    const struct scenario_options options = {.seed = 5, .profile = SCENARIO_HARSH};
    struct scenario_result first, again;

    CHECK_OK("memory", scenario_run(&store_scenario, &options, &first));
    CHECK_OK("memory", scenario_run(&store_scenario, &options, &again));
    CHECK_U64("event by event", again.hash, first.hash);
}
