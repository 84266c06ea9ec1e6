/* SPDX-License-Identifier: Apache-2.0 */
/* Writes and reads the frames of Shard.Session (proto/bigfleet/v1alpha1/shard.proto) for an
 * operator. */
#ifndef OPERATOR_FRAMES_H
#define OPERATOR_FRAMES_H
#include "operator/core/demand.h"
#include "operator/core/occupancy.h"
#include "operator/source.h"
#include "wire/pb/bigfleet_v1alpha1_shard.pb-c.h"

enum {
    FRAMES_ROLLUP_MAX = 256 << 20, /* bytes; a shard accepts no more */
    FRAMES_BLOB_MAX = 1 << 20,     /* bytes of bootstrap data; a shard accepts no more */
    /* Bytes of one encoded frame from the shard. A decoded frame may take four times as many. */
    FRAMES_READ_MAX = 16 << 20,
};

/* -- to the shard; each function replaces `out` with a whole OperatorMessage -- */
struct frame_parts { /* buffers for nested messages, whose length must be written first */
    struct buf body, row, piece;
};
void frame_parts_init(struct frame_parts *parts);
void frame_parts_deinit(struct frame_parts *parts);
/* All writers return ERR_FULL (above FRAMES_ROLLUP_MAX) or ERR_NOMEM. */
enum err frames_hello(struct frame_parts *parts, struct str cluster, bool occupancy,
                      struct buf *out);
/* Sends at most OCCUPANCY_ROWS_MAX rows of `occupancy`. NULL: nothing is known, yet if `pending`. */
enum err frames_rollup(struct frame_parts *parts, struct str cluster, wall_time now,
                       struct demand *demand, const struct occupancy_rows *occupancy, bool pending,
                       struct buf *out);
/* Truncates `error` to 4 KiB. */
enum err frames_blob(struct frame_parts *parts, struct str request_id, struct str user_data,
                     struct str error, struct buf *out);
enum err frames_reclaim_ack(struct frame_parts *parts, struct str instruction_id, struct buf *out);
struct drain_message {
    struct str instruction_id, machine;
    bool drained;
    uint64_t left_seconds;
    struct str error; /* why the operator gave up; empty: the operator did not */
};
enum err frames_drain_report(struct frame_parts *parts, const struct drain_message *word,
                             struct buf *out);

/* -- from the shard: checks and converts parts of a frame. Texts and lists are stored in the
 * message or the arena. Errors: ERR_INVALID, ERR_PARSE, ERR_TOO_LARGE with a note, ERR_NOMEM -- */
enum err frames_read_blob(const Bigfleet__V1alpha1__BootstrapRequest *given, struct arena *arena,
                          struct blob_request *ret_request, struct note *note);
/* Leaves ret_node->phase unset. */
enum err frames_read_node(const Bigfleet__V1alpha1__NodeStateUpdate *given, struct arena *arena,
                          struct cluster_node *ret_node, struct note *note);
enum err frames_read_available(const Bigfleet__V1alpha1__AvailableCapacityUpdate *given,
                               struct arena *arena, struct available *ret_hint, struct note *note);
#endif
