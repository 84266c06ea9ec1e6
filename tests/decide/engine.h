/* SPDX-License-Identifier: Apache-2.0 */
/* The engine behind the oracle's words: the same fleet goes through inventory, needs table and
 * decide(), and reports the decision as the oracle does. */
#ifndef TESTS_DECIDE_ENGINE_H
#define TESTS_DECIDE_ENGINE_H
#include "decide/oracle.h"

/* A `decider`. Builds everything anew, in the order of the fleet's tables; claimed_by stays
 * NULL. */
void engine_decide(const struct oracle_fleet *fleet, struct oracle_decision *ret_decision);
#endif
