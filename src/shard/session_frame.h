/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes the frames of Shard.Session (proto/bigfleet/v1alpha1/shard.proto).
 * frame_read() returns the bytes of a roll-up undecoded, for rollup_read(). No I/O and no state. */
#ifndef SHARD_SESSION_FRAME_H
#define SHARD_SESSION_FRAME_H
#include "model/machine.h"
#include "shard/need_wire.h"

enum {
    /* A message with more fields is refused, because skipping millions of tiny fields would block
     * the loop. */
    FRAME_FIELDS_MAX = 64,
    REQUEST_ID_LEN = 16, /* hex digits */
};

enum operator_frame_kind {
    FRAME_UNSET,
    FRAME_HELLO,
    FRAME_ROLLUP,
    FRAME_BLOB,
    FRAME_RECLAIM_ACK,
    FRAME_DRAIN_REPORT
};
struct operator_frame { /* views of the decoded bytes */
    enum operator_frame_kind kind;
    struct str payload;                     /* encoded; for ROLLUP: the ClusterCapacityNeeds */
    struct str cluster;                     /* HELLO: the operator's cluster */
    struct str version;                     /* HELLO */
    bool reports_drains, reports_occupancy; /* HELLO */
    struct str request_id; /* BLOB: request id; RECLAIM_ACK, DRAIN_REPORT: instruction id */
    struct str user_data;  /* BLOB */
    struct str error;      /* BLOB, DRAIN_REPORT: reason of a failure */
    struct str machine;    /* DRAIN_REPORT */
    bool drained;          /* DRAIN_REPORT */
    uint64_t left_seconds; /* DRAIN_REPORT: rest of the grace period */
};
/* ERR_PARSE: no OperatorMessage, two payloads or invalid UTF-8. ERR_TOO_LARGE: more than
 * FRAME_FIELDS_MAX fields. */
enum err frame_read(struct str bytes, struct operator_frame *ret_frame, struct note *note);

/* -- frames to the operator: a whole ShardMessage in writer->frame, valid until the next call -- */
/* Return ERR_FULL if the frame exceeds 8 MiB, or ERR_NOMEM. */
/* `drain_reports`, `occupancy`: the operator announced these reports in the Hello that this
 * answers. */
enum err frame_write_ack(struct frame_writer *writer, struct str echo, int64_t term, int64_t epoch,
                         bool drain_reports, bool occupancy);
enum err frame_write_blob_request(struct frame_writer *writer, struct str request_id,
                                  struct str cluster, const struct profile *profile);
enum err frame_write_reclaim(struct frame_writer *writer, struct str instruction_id,
                             struct str machine, uint64_t grace_ms, int32_t preemptor_priority);
enum err frame_write_node_state(struct frame_writer *writer, struct str cluster,
                                const struct machine *machine, const struct dimensions *dimensions);
enum err frame_write_capacity(struct frame_writer *writer, const struct capacity_offer *offer);
#endif
