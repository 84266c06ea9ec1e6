/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that wait for an operator who does not read as fast as we write.
 *
 * What leaves is what was put in, in that order, less what was superseded: a frame with a key takes
 * the place of the one that waits under the same key, and goes to the end. So no two frames of one
 * key are ever swapped, nor does a machine's state overtake an instruction that was given before
 * it. Frames without a key are never dropped. Pure; bounded by its owner's limits. */
#ifndef SHARD_OUTBOX_H
#define SHARD_OUTBOX_H
#include "base/list.h"
#include "base/map.h"

struct out_frame {
    struct list link;
    struct str key;   /* empty: never superseded */
    struct str bytes; /* both behind this struct */
    bool departed;    /* the state of a machine that left the cluster: no resync repeats it */
};
struct outbox_limits {
    size_t frames_max, bytes_max;
};
struct outbox_totals { /* of all boxes that share it */
    size_t frames, bytes;
    uint64_t superseded;
};
struct outbox {
    struct list frames;
    struct map by_key;
    struct outbox_limits limits;
    size_t count, bytes; /* bytes: with what a frame costs beside its content */
    struct outbox_totals *totals;
};
void outbox_init(struct outbox *box, struct outbox_limits limits, struct outbox_totals *totals,
                 uint64_t seed);
void outbox_deinit(struct outbox *box); /* fine on a zeroed one */
/* Copies. ERR_FULL (a limit): nothing changed. ERR_NOMEM: what waited under the key may be gone. */
enum err outbox_put(struct outbox *box, struct str key, struct str bytes, bool departed);
struct out_frame *outbox_first(const struct outbox *box); /* NULL: none waits */
void outbox_drop(struct outbox *box, struct out_frame *frame);
void outbox_detach(struct outbox *box, struct out_frame *frame); /* ... and it is the caller's */
void outbox_drop_key(struct outbox *box, struct str key);        /* fine when none waits */
#endif
