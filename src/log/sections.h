/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the snapshot sections of several state machines one after another, all from one moment:
 * for snapshots, backups and restored data directories. */
#ifndef LOG_SECTIONS_H
#define LOG_SECTIONS_H
#include "log/log.h"

struct sections {
    const struct state_machine *machines;  /* owned by the caller */
    size_t count, at;                      /* at: the machine being read */
    void *views[REPLICA_MACHINES_MAX + 1]; /* NULL: not added, or read to the end */
};
/* Adds the machine at `place` in its current state. Errors of snapshot_begin. */
enum err sections_add(struct sections *sections, size_t place, uint64_t index);
/* Appends about `budget` bytes of the machine at *ret_place. After the last bytes `at` is
 * `count`. Errors of snapshot_next. */
enum err sections_next(struct sections *sections, size_t budget, struct buf *into,
                       size_t *ret_place);
void sections_end(struct sections *sections); /* closes all views; allowed at any time */
#endif
