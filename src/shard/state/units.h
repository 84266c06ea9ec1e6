/* SPDX-License-Identifier: Apache-2.0 */
/* Units, kept once and counted: most rows ask for machines of a few sizes. */
#ifndef SHARD_STATE_UNITS_H
#define SHARD_STATE_UNITS_H
#include "shard/state/demand.h"

/* Finds or copies it. ERR_TOO_LARGE: no machine can have as much. ERR_NOMEM. */
enum err unit_take(struct needs *needs, const struct resource_sum *sum,
                   struct demand_unit **ret_unit);
void unit_give(struct needs *needs, struct demand_unit *unit);
#endif
