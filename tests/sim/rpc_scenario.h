/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SIM_RPC_SCENARIO_H
#define TESTS_SIM_RPC_SCENARIO_H
#include "scenario.h"

extern const struct scenario rpc_scenario;
#endif
