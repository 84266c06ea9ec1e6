/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes the frames of Shard.Session (proto/bigfleet/v1alpha1/shard.proto).
 *
 * frame_read() finds the payload of a frame. It does not decode a roll-up, but returns the
 * roll-up's bytes. rollup_read() compares the cluster in the roll-up with the session's cluster.
 * Frames are encoded field by field (wire/pack.h), without copies of their texts. No I/O and no
 * state. */
#ifndef SHARD_SESSION_FRAME_H
#define SHARD_SESSION_FRAME_H
#include "model/machine.h"
#include "shard/need_wire.h"

enum {
    /* Fields that the loop accepts in one message. No encoder writes that many, and skipping
     * millions of tiny fields would block the loop. */
    FRAME_FIELDS_MAX = 64,
    REQUEST_ID_LEN = 16, /* number of hex digits */
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
    struct str payload;    /* encoded; for ROLLUP: the ClusterCapacityNeeds */
    struct str cluster;    /* HELLO: the operator's cluster */
    struct str version;    /* HELLO: the operator's version */
    bool reports_drains;   /* HELLO: the operator reports its drains */
    struct str request_id; /* BLOB: the request id; RECLAIM_ACK, DRAIN_REPORT: the instruction id */
    struct str user_data;  /* BLOB: the bootstrap blob */
    struct str error;      /* BLOB: why there is no blob; DRAIN_REPORT: why the drain failed */
    struct str machine;    /* DRAIN_REPORT: the machine id */
    bool drained;          /* DRAIN_REPORT: the machine is drained */
    uint64_t left_seconds; /* DRAIN_REPORT: seconds left of the grace period */
};
/* Decodes a frame. Returns ERR_PARSE for bytes that are no OperatorMessage, two payloads or invalid
 * UTF-8, and ERR_TOO_LARGE for more than FRAME_FIELDS_MAX fields. */
enum err frame_read(struct str bytes, struct operator_frame *ret_frame, struct note *note);

/* -- frames to the operator: a whole ShardMessage in writer->frame, valid until the next call -- */
/* Each function returns ERR_FULL if the frame exceeds 8 MiB, or ERR_NOMEM. */
/* Writes the answer to Hello. `drain_reports`: the operator's Hello announced drain reports. */
enum err frame_write_ack(struct frame_writer *writer, struct str echo, int64_t term, int64_t epoch,
                         bool drain_reports);
enum err frame_write_blob_request(struct frame_writer *writer, struct str request_id,
                                  struct str cluster, const struct profile *profile);
enum err frame_write_reclaim(struct frame_writer *writer, struct str instruction_id,
                             struct str machine, uint64_t grace_ms, int32_t preemptor_priority);
enum err frame_write_node_state(struct frame_writer *writer, struct str cluster,
                                const struct machine *machine, const struct dimensions *dimensions);
enum err frame_write_capacity(struct frame_writer *writer, const struct capacity_offer *offer);
#endif
