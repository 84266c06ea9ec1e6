/* SPDX-License-Identifier: Apache-2.0 */
/* What the machines of a cluster run, for roll-ups. Pods of DaemonSets, mirror pods and terminating
 * pods do not count as pods; their requests reduce `free` all the same. */
#ifndef OPERATOR_CORE_OCCUPANCY_H
#define OPERATOR_CORE_OCCUPANCY_H
#include "model/resource.h"

enum { OCCUPANCY_ROWS_MAX = 65536 }; /* in one roll-up; a shard refuses more */

struct occupancy_row {
    struct str machine;
    uint32_t evictable, held; /* pods that may be evicted now; pods that may not */
    double disruption;        /* of the evictable pods: 1 each, plus reclamation penalties */
    struct resources free;    /* allocatable minus the requests of all pods */
    struct resources requested, largest; /* by the evictable pods together; by one, at most */
};
struct occupancy_rows {
    const struct occupancy_row *rows;
    size_t count;
    const struct dimensions *dimensions;
};
#endif
