/* SPDX-License-Identifier: Apache-2.0 */
/* The sections of several machines at one moment, read one machine after another: what goes into a
 * snapshot, into a backup and into a restored data directory. */
#ifndef LOG_SECTIONS_H
#define LOG_SECTIONS_H
#include "log/log.h"

struct sections {
    const struct state_machine *machines;  /* the caller's */
    size_t count, at;                      /* at: place of the machine that is being read */
    void *views[REPLICA_MACHINES_MAX + 1]; /* NULL: not added, or read to its end */
};
/* The machine at `place` as it is now. What its snapshot_begin answers. */
enum err sections_add(struct sections *sections, size_t place, uint64_t index);
/* Appends about `budget` bytes of one machine, the one at *ret_place. Nothing is appended when no
 * machine has anything left; `at` is `count` then, and with the last bytes. What snapshot_next
 * answers. */
enum err sections_next(struct sections *sections, size_t budget, struct buf *into,
                       size_t *ret_place);
void sections_end(struct sections *sections); /* at any time; all of them are closed */
#endif
