/* SPDX-License-Identifier: Apache-2.0 */
/* The witness of the quorum scenario can fail: each planted bug is found within a bounded number of
 * seeds, and the same world without it passes the very seeds that found it. */
#include <stdio.h>

#include "lib/test.h"
#include "quorum_story.h"

enum { SEEDS_MAX = 30, RARE_FROM = 1850, RARE_MAX = 300 };

static enum scenario_end run(uint64_t seed, enum quorum_bug bug, enum scenario_profile profile)
{
    const struct scenario_options options = {.seed = seed, .profile = profile, .bug = bug};
    struct scenario_result result;

    CHECK_OK("memory", scenario_run(&quorum_scenario, &options, &result));
    return result.end;
}

TEST(every_planted_bug_is_caught)
{
    for (uint32_t bug = 1; bug < QUORUM_BUG_COUNT; bug++) {
        const char *name = quorum_bug_names[bug - 1];
        enum scenario_end end = SCENARIO_PASSED;
        /* Rare: node-0 loses its disk and then reaches nobody for three seconds. */
        bool rare = bug == QUORUM_TRUST_SILENCE;
        enum scenario_profile profile = rare ? SCENARIO_HARSH : SCENARIO_MILD;
        uint64_t seed = rare ? RARE_FROM : 0, last = seed + (rare ? RARE_MAX : SEEDS_MAX);

        while (end == SCENARIO_PASSED && seed < last)
            end = run(++seed, (enum quorum_bug)bug, profile);
        fprintf(stderr, "%s: %s at seed %llu\n", name, scenario_end_text(end),
                (unsigned long long)seed);
        bool second = bug == QUORUM_FOUND_ANYWAY || bug == QUORUM_TRUST_SILENCE;
        CHECK(name, end == (second ? SCENARIO_UNSAFE : SCENARIO_STUCK));
        CHECK("the same seed without the bug passes",
              run(seed, QUORUM_NO_BUG, profile) == SCENARIO_PASSED);
    }
}

TEST(the_same_seed_gives_the_same_run)
{
    const struct scenario_options options = {.seed = 5, .profile = SCENARIO_HARSH};
    struct scenario_result first, again;

    CHECK_OK("memory", scenario_run(&quorum_scenario, &options, &first));
    CHECK_OK("memory", scenario_run(&quorum_scenario, &options, &again));
    CHECK_U64("event by event", again.hash, first.hash);
}
