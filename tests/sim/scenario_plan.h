/* SPDX-License-Identifier: Apache-2.0 */
/* Runs many worlds of one scenario one after the other and reports on standard output, for a
 * runner's main(). Stops at the first seed that fails and prints how to run it again. */
#ifndef TESTS_SIM_SCENARIO_PLAN_H
#define TESTS_SIM_SCENARIO_PLAN_H
#include "scenario.h"

struct scenario_plan {
    const struct scenario *scenario;
    const char *again;  /* command line of this plan, without seed, profile and bug */
    const char *commit; /* of the code, for reports */
    uint64_t seed, count;
    bool mild, harsh; /* which profiles each seed is run in */
    uint32_t bug;
    bool trace, quiet, expect_failure;
};
/* The exit code: 0 passed (or failed, when that is expected), else as in scenario.h. */
int scenario_plan_run(const struct scenario_plan *plan);
/* From here on a crash prints its seed and exits with SCENARIO_EXIT_CRASH. */
void scenario_plan_catch_crashes(void);
#endif
