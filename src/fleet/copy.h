/* SPDX-License-Identifier: Apache-2.0 */
/* The fleet tables at one index, as the original's two files: meta.json and state (coordinator.md
 * 6.1, 6.2). Shared by SnapshotSave and by the export loop.
 *
 * Opened on a leader that has just proved it leads (inside a read's done()), so that everything
 * acknowledged is in it, and read in slices while commands go on. The state carries our seal, which
 * other readers ignore, and heartbeats where they are known. */
#ifndef FLEET_COPY_H
#define FLEET_COPY_H
#include "base/time.h"
#include "fleet/format/meta.h"
#include "fleet/format/state.h"
#include "fleet/roster.h"

struct fleet_copy {                    /* the caller's storage; fine to close when zeroed */
    struct fleet_meta meta;            /* its size is the caller's to fill in */
    struct fleet_state_writer *writer; /* of the state; NULL: closed */
};
/* No table has a row: there is nothing to copy. */
bool fleet_copy_is_empty(const struct fleet *fleet);
/* roster may be NULL: members are then named by their identity. ERR_FULL, ERR_NOMEM. */
enum err fleet_copy_open(struct fleet_copy *copy, struct fleet *fleet,
                         const struct replica *replica, const struct roster *roster, wall_time now);
void fleet_copy_close(struct fleet_copy *copy);
#endif
