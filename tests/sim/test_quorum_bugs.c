/* The witness of the quorum scenario can fail: each planted bug is found within a bounded number of
 * seeds, and the same world without it passes the very seeds that found it. */
#include <stdio.h>

#include "lib/test.h"
#include "quorum_story.h"

enum { SEEDS_MAX = 30 };

static enum scenario_end run(uint64_t seed, enum quorum_bug bug)
{
    const struct scenario_options options = {.seed = seed, .profile = SCENARIO_MILD, .bug = bug};
    struct scenario_result result;

    CHECK_OK("memory", scenario_run(&quorum_scenario, &options, &result));
    return result.end;
}

TEST(every_planted_bug_is_caught)
{
    for (uint32_t bug = 1; bug < QUORUM_BUG_COUNT; bug++) {
        const char *name = quorum_bug_names[bug - 1];
        enum scenario_end end = SCENARIO_PASSED;
        uint64_t seed = 0;

        while (end == SCENARIO_PASSED && seed < SEEDS_MAX) end = run(++seed, (enum quorum_bug)bug);
        fprintf(stderr, "%s: %s at seed %llu\n", name, scenario_end_text(end),
                (unsigned long long)seed);
        CHECK(name, end == (bug == QUORUM_FOUND_ANYWAY ? SCENARIO_UNSAFE : SCENARIO_STUCK));
        CHECK("the same seed without the bug passes", run(seed, QUORUM_NO_BUG) == SCENARIO_PASSED);
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
