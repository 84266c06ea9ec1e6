/* SPDX-License-Identifier: Apache-2.0 */
/* The fleet tables at one index, as the original's two files: meta.json and state (coordinator.md
 * 6.1, 6.2). Used by SnapshotSave and by the export loop.
 *
 * Opened on a leader that has just confirmed its leadership (inside a read's done()), so that the
 * copy contains everything acknowledged. Read in slices while commands are applied. The state
 * contains our seal, which other readers ignore, and the heartbeats that are known. */
#ifndef FLEET_COPY_H
#define FLEET_COPY_H
#include "base/time.h"
#include "fleet/format/meta.h"
#include "fleet/format/state.h"
#include "fleet/roster.h"

struct fleet_copy {                    /* in the caller's storage; may be closed when zeroed */
    struct fleet_meta meta;            /* the caller fills in its size */
    struct fleet_state_writer *writer; /* writes the state; NULL: closed */
};
/* True if no table has a row. */
bool fleet_copy_is_empty(const struct fleet *fleet);
/* roster may be NULL: members then have their identity as name. ERR_FULL, ERR_NOMEM. */
enum err fleet_copy_open(struct fleet_copy *copy, struct fleet *fleet,
                         const struct replica *replica, const struct roster *roster, wall_time now);
void fleet_copy_close(struct fleet_copy *copy);
#endif
