/* SPDX-License-Identifier: Apache-2.0 */
/* The judge of the shard scenario can fail: each planted bug is found. The same seed gives the same
 * run. A world without faults buys as many machines whether a Create takes no time or a minute. */
#include <stdio.h>

#include "lib/test.h"
#include "shard_story.h"

enum { SEEDS_MAX = 240, CALM_SEEDS = 6 };

static struct scenario_result run(const struct scenario *scenario, uint64_t seed,
                                  enum shard_bug bug)
{
    const struct scenario_options options = {.seed = seed, .profile = SCENARIO_MILD, .bug = bug};
    struct scenario_result result;

    CHECK_OK("memory", scenario_run(scenario, &options, &result));
    if (result.end != SCENARIO_PASSED) fprintf(stderr, "%s\n", result.why.text);
    return result;
}

TEST(every_planted_bug_is_caught)
{
    for (uint32_t bug = 1; bug < SHARD_BUG_COUNT; bug++) {
        const char *name = shard_bug_names[bug - 1];
        enum scenario_end end = SCENARIO_PASSED;
        uint64_t seed = 0;

        while (end == SCENARIO_PASSED && seed < SEEDS_MAX)
            end = run(&shard_scenario, ++seed, (enum shard_bug)bug).end;
        fprintf(stderr, "%s: %s at seed %llu\n", name, scenario_end_text(end),
                (unsigned long long)seed);
        CHECK(name, end == SCENARIO_UNSAFE || end == SCENARIO_STUCK);
        CHECK("the same seed without the bug passes",
              run(&shard_scenario, seed, SHARD_NO_BUG).end == SCENARIO_PASSED);
    }
}

TEST(the_same_seed_gives_the_same_run)
{
    const struct scenario_options options = {.seed = 5, .profile = SCENARIO_HARSH};
    struct scenario_result first, again;

    CHECK_OK("memory", scenario_run(&shard_scenario, &options, &first));
    CHECK_OK("memory", scenario_run(&shard_scenario, &options, &again));
    CHECK_U64("event by event", again.hash, first.hash);
}

/* -- calm worlds -- */

static struct shard_calm calm;

static enum err calm_open(struct scenario_world *world, void **ret_state)
{
    return shard_story_open(world, &calm, ret_state);
}

TEST(how_long_a_create_takes_changes_no_total)
{
    static const uint64_t creates_ms[] = {0, 30000, 60000};
    struct scenario scenario = shard_scenario;

    scenario.open = calm_open;
    scenario.faults_ms = 1;
    scenario.faults_ms_min = 0;
    for (uint64_t seed = 1; seed <= CALM_SEEDS; seed++) {
        uint64_t at_once = 0;

        for (size_t i = 0; i < ARRAY_LEN(creates_ms); i++) {
            calm = (struct shard_calm){.create_ms = creates_ms[i]};
            CHECK("passed", run(&scenario, seed, SHARD_NO_BUG).end == SCENARIO_PASSED);
            if (i == 0) at_once = calm.bought;
            CHECK_U64("bought", calm.bought, at_once);
        }
    }
}
