/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that wait for an operator that reads more slowly than the shard writes.
 *
 * Frames leave in the order in which they were added. A frame with a key replaces the waiting frame
 * with the same key and is added at the end, so that a machine's state never overtakes an earlier
 * instruction. Frames without a key are never dropped. The owner bounds the outbox. */
#ifndef SHARD_OUTBOX_H
#define SHARD_OUTBOX_H
#include "base/list.h"
#include "base/map.h"

struct out_frame {
    struct list link;
    struct str key;   /* a later frame with this key replaces this frame; empty: never */
    struct str bytes; /* `key` and `bytes` are stored behind this struct */
    bool departed;    /* about a machine that left the cluster: no resync repeats the frame */
};
struct outbox_limits {
    size_t frames_max, bytes_max;
};
struct outbox_totals { /* sums over all outboxes */
    size_t frames, bytes;
    uint64_t superseded;
};
struct outbox {
    struct list frames;
    struct map by_key;
    struct outbox_limits limits;
    size_t count, bytes; /* of waiting frames; bytes include a fixed overhead per frame */
    struct outbox_totals *totals;
};
void outbox_init(struct outbox *box, struct outbox_limits limits, struct outbox_totals *totals,
                 uint64_t seed);
void outbox_deinit(struct outbox *box); /* a zeroed struct is allowed */
/* Copies key and bytes. ERR_FULL: nothing changed. ERR_NOMEM: a waiting frame with this key may be
 * lost. */
enum err outbox_put(struct outbox *box, struct str key, struct str bytes, bool departed);
struct out_frame *outbox_first(const struct outbox *box); /* NULL: no frame waits */
void outbox_drop(struct outbox *box, struct out_frame *frame);
/* Removes the frame. The caller then owns it. */
void outbox_detach(struct outbox *box, struct out_frame *frame);
void outbox_drop_key(struct outbox *box, struct str key);
#endif
