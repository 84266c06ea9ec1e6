/* SPDX-License-Identifier: Apache-2.0 */
/* The scenarios that run against the log with its planted bugs. */
#include "scenarios.h"
#include "sim/log/story.h"

static const struct scenario *const all[] = {&log_scenario};

struct scenario_table scenarios_all(void)
{
    return (struct scenario_table){all, ARRAY_LEN(all)};
}
