/* SPDX-License-Identifier: Apache-2.0 */
/* What the machines of a cluster run, as the last roll-up reported it, and whether the pods of a
 * machine have room on the cluster's other machines. Not persisted. Decide thread.
 *
 * A decision reclaims machines whose pods may be evicted. occupancy_admit() withholds a reclaim
 * whose pods have no room elsewhere; the machine then counts as held until the reports change. */
#ifndef SHARD_CORE_OCCUPANCY_H
#define SHARD_CORE_OCCUPANCY_H
#include "shard/core/core.h"

enum {
    /* Busy machines per cluster and cycle for which room is sought. Later ones wait a cycle. */
    OCCUPANCY_TRIES_MAX = 64,
};

struct occupancy_table;                             /* of one cluster */
void occupancy_free(struct occupancy_table *table); /* NULL is allowed */

/* Sets *ret_withheld to an array in core->scratch, indexed by action: the reclaims that must not
 * begin. NULL: none. ERR_NOMEM. */
enum err occupancy_admit(struct core *core, const struct decision *decision,
                         const bool **ret_withheld);
/* Marks the machines that occupancy_admit() found without room. Changes the inventory. */
void occupancy_settle(struct core *core);
void occupancy_facts(const struct core *core, struct machine_facts *facts);
#endif
