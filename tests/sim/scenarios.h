/* SPDX-License-Identifier: Apache-2.0 */
/* All scenarios, by name. A new one is added to scenarios.c. */
#ifndef TESTS_SIM_SCENARIOS_H
#define TESTS_SIM_SCENARIOS_H
#include "scenario.h"

struct scenario_table scenarios_all(void);
#endif
