/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the snapshot sections of several state machines one after another, all from one moment.
 * Used for snapshots, backups and restored data directories. */
#ifndef LOG_SECTIONS_H
#define LOG_SECTIONS_H
#include "log/log.h"

struct sections {
    const struct state_machine *machines;  /* owned by the caller */
    size_t count, at;                      /* at: position of the state machine being read */
    void *views[REPLICA_MACHINES_MAX + 1]; /* NULL: machine not added, or already read to the end */
};
/* Adds the machine at `place` in its current state. Returns the error of snapshot_begin. */
enum err sections_add(struct sections *sections, size_t place, uint64_t index);
/* Appends about `budget` bytes of one machine, whose position is *ret_place. `at` becomes `count`
 * with the last bytes, or if no machine has bytes. Returns the error of snapshot_next. */
enum err sections_next(struct sections *sections, size_t budget, struct buf *into,
                       size_t *ret_place);
void sections_end(struct sections *sections); /* may be called at any time; closes all views */
#endif
