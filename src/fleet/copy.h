/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of the fleet tables at one log index, as the two files meta.json and state of the original
 * program (coordinator.md 6.1, 6.2). SnapshotSave and the export loop use copies.
 *
 * A copy is opened on a leader that has just confirmed its leadership, so that the copy contains
 * every acknowledged write. The copy is read in slices while commands are applied. */
#ifndef FLEET_COPY_H
#define FLEET_COPY_H
#include "base/time.h"
#include "fleet/format/meta.h"
#include "fleet/format/state.h"
#include "fleet/roster.h"

struct fleet_copy {                    /* in the caller's storage; a zeroed copy may be closed */
    struct fleet_meta meta;            /* the caller sets meta.size */
    struct fleet_state_writer *writer; /* writes the copied state; NULL: closed */
};
bool fleet_copy_is_empty(const struct fleet *fleet);
/* Without a roster, members are named by identity. ERR_FULL, ERR_NOMEM. */
enum err fleet_copy_open(struct fleet_copy *copy, struct fleet *fleet,
                         const struct replica *replica, const struct roster *roster, wall_time now);
void fleet_copy_close(struct fleet_copy *copy);
#endif
