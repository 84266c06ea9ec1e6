/* SPDX-License-Identifier: Apache-2.0 */
/* The frames of Shard.Session (proto/bigfleet/v1alpha1/shard.proto) as an operator writes and reads
 * them. Nothing a shard says is trusted: a frame that is wrong is refused alone, with its field
 * named. */
#ifndef OPERATOR_FRAMES_H
#define OPERATOR_FRAMES_H
#include "operator/core/demand.h"
#include "operator/source.h"
#include "wire/pb/bigfleet_v1alpha1_shard.pb-c.h"

enum {
    FRAMES_ROLLUP_MAX = 256 << 20, /* bytes; as much as a shard reads */
    FRAMES_BLOB_MAX = 1 << 20,     /* likewise */
    FRAMES_READ_MAX = 16 << 20,    /* of one frame from the shard, encoded; decoded four times it */
};

/* -- to the shard; each empties `out` and leaves a whole OperatorMessage there -- */
struct frame_parts { /* memory for what is written before its length is known */
    struct buf body, row, piece;
};
void frame_parts_init(struct frame_parts *parts);
void frame_parts_deinit(struct frame_parts *parts);
/* All: ERR_FULL (FRAMES_ROLLUP_MAX), ERR_NOMEM. */
enum err frames_hello(struct frame_parts *parts, struct str cluster, struct buf *out);
enum err frames_rollup(struct frame_parts *parts, struct str cluster, wall_time now,
                       struct demand *demand, struct buf *out);
/* `error` is cut to 4 KiB. */
enum err frames_blob(struct frame_parts *parts, struct str request_id, struct str user_data,
                     struct str error, struct buf *out);
enum err frames_reclaim_ack(struct frame_parts *parts, struct str instruction_id, struct buf *out);
struct drain_message {
    struct str instruction_id, machine;
    bool drained;
    uint64_t left_seconds;
    struct str error; /* empty: the operator did not give up */
};
enum err frames_drain_report(struct frame_parts *parts, const struct drain_message *word,
                             struct buf *out);

/* -- from the shard: the parts of a frame, checked; texts and lists are in the message or the arena.
 * ERR_INVALID, ERR_PARSE, ERR_TOO_LARGE with a note, ERR_NOMEM -- */
enum err frames_read_blob(const Bigfleet__V1alpha1__BootstrapRequest *given, struct arena *arena,
                          struct blob_request *ret_request, struct note *note);
/* Without its phase. */
enum err frames_read_node(const Bigfleet__V1alpha1__NodeStateUpdate *given, struct arena *arena,
                          struct cluster_node *ret_node, struct note *note);
enum err frames_read_available(const Bigfleet__V1alpha1__AvailableCapacityUpdate *given,
                               struct arena *arena, struct available *ret_hint, struct note *note);
#endif
