/* SPDX-License-Identifier: Apache-2.0 */
/* The judge of the member scenario can fail: each planted bug is found within a bounded number of
 * seeds, and the same world without it passes the very seeds that found it. */
#include <stdio.h>

#include "lib/test.h"
#include "member_story.h"

enum { SEEDS_MAX = 60 };

static struct scenario_result run(uint64_t seed, uint32_t bug)
{
    const struct scenario_options options = {
        .seed = seed, .profile = seed % 2 ? SCENARIO_HARSH : SCENARIO_MILD, .bug = bug};
    struct scenario_result result;

    CHECK_OK("memory", scenario_run(&member_scenario, &options, &result));
    return result;
}

TEST(every_planted_bug_is_caught)
{
    for (uint32_t bug = 1; bug < MEMBER_BUG_COUNT; bug++) {
        struct scenario_result found = {.end = SCENARIO_PASSED};
        uint64_t seed = 0;

        while (found.end == SCENARIO_PASSED && seed < SEEDS_MAX) found = run(++seed, bug);
        fprintf(stderr, "%s at seed %llu: %s\n", member_bug_names[bug - 1],
                (unsigned long long)seed, found.why.text);
        CHECK(member_bug_names[bug - 1], found.end == SCENARIO_UNSAFE);
        CHECK("the same seed without it", run(seed, MEMBER_NO_BUG).end == SCENARIO_PASSED);
    }
}

TEST(the_same_seed_gives_the_same_run)
{
    CHECK_U64("event by event", run(5, MEMBER_NO_BUG).hash, run(5, MEMBER_NO_BUG).hash);
}
