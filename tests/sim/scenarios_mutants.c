/* SPDX-License-Identifier: Apache-2.0 */
/* The scenario `log` with the planted bugs of src/log: --bug switches one of them on. */
#include "log_story.h"
#include "mutants/mutant.h"
#include "scenarios.h"

static const char *const bugs[] = {
#define X(name) #name,
    MUTANT_MAP(X)
#undef X
        NULL,
};

static enum err open_planted(struct scenario_world *world, void **ret_state)
{
    log_mutant = (enum mutant)scenario_bug(world);
    return log_scenario.open(world, ret_state);
}

struct scenario_table scenarios_all(void)
{
    static struct scenario planted;
    static const struct scenario *const all[] = {&planted};

    planted = log_scenario;
    planted.bugs = bugs;
    planted.open = open_planted;
    return (struct scenario_table){all, ARRAY_LEN(all)};
}
