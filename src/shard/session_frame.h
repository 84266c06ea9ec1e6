/* SPDX-License-Identifier: Apache-2.0 */
/* The frames of Shard.Session (proto/bigfleet/v1alpha1/shard.proto) as bytes.
 *
 * Reading never decodes a roll-up: it finds which payload a frame carries, and of a roll-up no more
 * than its bytes. Their reader compares the cluster that they name with the session's.
 * Writing appends by hand (wire/pack.h), since texts are views and frames are many. Pure. */
#ifndef SHARD_SESSION_FRAME_H
#define SHARD_SESSION_FRAME_H
#include "model/machine.h"
#include "shard/need_wire.h"

enum {
    /* Fields of one level that are looked at on the loop: no encoder writes as many, and skipping
     * millions of tiny ones would hold everybody up. */
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
struct operator_frame { /* views of the bytes that were read */
    enum operator_frame_kind kind;
    struct str payload;    /* encoded; ROLLUP: the ClusterCapacityNeeds */
    struct str cluster;    /* HELLO */
    struct str version;    /* HELLO */
    bool reports_drains;   /* HELLO */
    struct str request_id; /* BLOB; RECLAIM_ACK, DRAIN_REPORT: the instruction's */
    struct str user_data;  /* BLOB */
    struct str error;      /* BLOB; empty: there is a blob. DRAIN_REPORT: why it gave up */
    struct str machine;    /* DRAIN_REPORT */
    bool drained;          /* DRAIN_REPORT */
    uint64_t left_seconds; /* DRAIN_REPORT */
};
/* ERR_PARSE: no OperatorMessage, two payloads, text that is not UTF-8; ERR_TOO_LARGE: past
 * FRAME_FIELDS_MAX. */
enum err frame_read(struct str bytes, struct operator_frame *ret_frame, struct note *note);

/* -- to the operator: a whole ShardMessage in writer->frame, until the next one -- */
/* All of them: ERR_FULL (a frame past 8 MiB), ERR_NOMEM. */
/* `drain_reports`: the answer to a Hello that announced them. */
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
