/* SPDX-License-Identifier: Apache-2.0 */
/* Every checker has planted bugs that prove it can fail: each is found within a bounded number of
 * seeds, and the same service without a bug passes the very seeds that found them. */
#include <stdio.h>

#include "lib/test.h"
#include "register.h"
#include "register_scenario.h"

enum { SEEDS_MAX = 400 };

/* The kind of failure that must be found. */
static const struct {
    enum register_bug bug;
    enum scenario_end want;
} bugs[] = {
    {REGISTER_ACK_BEFORE_SYNC, SCENARIO_UNSAFE},     {REGISTER_NO_DIRECTORY_SYNC, SCENARIO_UNSAFE},
    {REGISTER_TRUST_THE_TAIL, SCENARIO_UNSAFE},      {REGISTER_TRUST_THE_CACHE, SCENARIO_UNSAFE},
    {REGISTER_ACK_A_PENDING_TWIN, SCENARIO_UNSAFE},  {REGISTER_IGNORE_HALF_CLOSE, SCENARIO_STUCK},
    {REGISTER_NO_WRITE_BACK, SCENARIO_UNSAFE},       {REGISTER_COUNT_A_NODE_TWICE, SCENARIO_UNSAFE},
    {REGISTER_STAMP_BY_WALL_CLOCK, SCENARIO_UNSAFE},
};
static_assert(ARRAY_LEN(bugs) == REGISTER_BUG_COUNT - 1, "every planted bug is listed");

static enum scenario_end run(uint64_t seed, enum register_bug bug)
{
    const struct scenario_options options = {.seed = seed, .profile = SCENARIO_HARSH, .bug = bug};
    struct scenario_result result;

    CHECK_OK("memory", scenario_run(&register_scenario, &options, &result));
    return result.end;
}

TEST(every_planted_bug_is_caught)
{
    for (size_t i = 0; i < ARRAY_LEN(bugs); i++) {
        const char *name = register_bug_names[bugs[i].bug - 1];
        enum scenario_end end = SCENARIO_PASSED;
        uint64_t seed = 0;

        while (end == SCENARIO_PASSED && seed < SEEDS_MAX) end = run(++seed, bugs[i].bug);
        fprintf(stderr, "%s: %s at seed %llu\n", name, scenario_end_text(end),
                (unsigned long long)seed);
        CHECK(name, end == bugs[i].want);
        CHECK("the same seed without the bug passes",
              run(seed, REGISTER_NO_BUG) == SCENARIO_PASSED);
    }
}
