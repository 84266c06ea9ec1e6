/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SIM_REGISTER_SCENARIO_H
#define TESTS_SIM_REGISTER_SCENARIO_H
#include "scenario.h"

extern const struct scenario register_scenario;
#endif
