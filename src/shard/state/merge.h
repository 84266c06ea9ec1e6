/* SPDX-License-Identifier: Apache-2.0 */
/* Turns a roll-up's rows into demands, gangs and folds. */
#ifndef SHARD_STATE_MERGE_H
#define SHARD_STATE_MERGE_H
#include "shard/state/demand.h"

/* Fills demands, gangs and folds of `set`, in its arena. ERR_NOMEM. */
enum err demand_merge(struct needs *needs, struct demand_cluster *cluster, struct demand_set *set);
#endif
