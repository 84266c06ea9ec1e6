/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the operator; only for its own files.
 *
 *   operator.c           open, close, calls to the source, metrics
 *   operator_stream.c    the stream: reconnects; frames in both directions; roll-ups
 *   operator_reclaim.c   reclaim orders: stored, passed to the source, acknowledged
 *   operator_blob.c      the template and the blobs
 *   metrics.c            names and help texts of the metrics
 *
 * The operator never calls a source from inside a call of the source. The task `step` does so later
 * in the turn. */
#ifndef OPERATOR_OPERATOR_INTERNAL_H
#define OPERATOR_OPERATOR_INTERNAL_H
#include "operator/core/demand.h"
#include "operator/core/reclaims.h"
#include "operator/frames.h"
#include "operator/operator.h"
#include "operator/side_file.h"
#include "operator/template.h"

enum {
    /* Changes within this time are sent together. */
    ROLLUP_SETTLE_MS = 100,
    /* Changes of occupancy are frequent, and only scale-in reads them. */
    OCCUPANCY_SETTLE_MS = 1000,
    OCCUPANCY_WAIT_MS = 60 * 1000, /* from the start of a session; then it counts as unknown */
    /* Unanswered roll-ups whose change number is kept. An acknowledgement does not name its
     * roll-up, so it counts for the oldest one. */
    ROLLUPS_UNANSWERED_MAX = 4,
    TICK_MS = 1000,
    BLOB_ARENA_MAX = 4 * FRAMES_READ_MAX,
    UPLINK_ANSWERS_MAX = 256,
};

struct operator_counts {
    uint64_t connected, requests, rows, unsent, reclaims, occupied, unoccupied;
    uint64_t nodes[NODE_PHASE_COUNT];
    uint64_t sessions, session_ends;
    uint64_t rollups, rollup_acks, rollups_unanswered, rollup_bytes;
    uint64_t blobs, blob_errors, template_errors;
    uint64_t reclaims_ordered, reclaims_drained, reclaims_failed, reclaims_expired;
    uint64_t answers_dropped, frames_refused, requests_refused, save_errors;
};
struct uplink {
    struct rpc_channel *channel;
    struct rpc_client_call *call;
    struct timer pause;
    struct task pump;
    struct str answers[UPLINK_ANSWERS_MAX]; /* ring of frames, each in its own memory */
    size_t answer_first, answer_count;
    struct buf frame;
    mono_time opened;
    uint32_t failures;
    bool rollup_wanted, unreachable;
};
struct operator_host {
    struct io *io;
    struct log_source log;
    struct operator_counts counts;
    struct metric_fields *metrics; /* NULL: none */
    struct demand_source *source;
    struct operator_around around;
    const char *cluster, *state_dir;
    uint64_t rollup_ms, stale_ms;

    struct demand *demand;
    struct nodes *nodes;
    struct reclaims *reclaims;
    struct uplink uplink;
    struct frame_parts parts;
    struct buf frame;   /* the answer being built */
    struct arena arena; /* memory of the frame being read */

    struct template *template;
    struct side_file *template_watch;
    struct buf blob;

    struct side_file *keeper; /* writes the file of reclaim orders */
    uint64_t keeping;         /* reclaims_change() in the newest write */
    struct task step;
    struct turn_hook hook;
    uint64_t seen_change;
    bool seen_whole;
    struct timer tick, settle, due, stale;

    bool open;         /* a stream exists, and the Hello was sent */
    bool connected;    /* the shard acknowledged the Hello */
    bool whole;        /* a roll-up was acknowledged: all machines were reported */
    bool whole_due;    /* source_ops.nodes_whole must be called */
    bool supplies_due; /* source_ops.supplies must be called */
    bool supplies_changed;
    uint64_t taken_due; /* argument for a pending call of source_ops.taken; 0: no call is pending */
    uint64_t sent[ROLLUPS_UNANSWERED_MAX];
    size_t sent_count;
    bool awaiting;           /* the newest roll-up is not acknowledged */
    uint64_t last_sent;      /* demand_change() of the newest roll-up */
    bool settles_slowly;     /* the timer `settle` waits for a change of occupancy only */
    bool takes_occupancy;    /* the shard wants to know what the machines run */
    uint64_t occupancy_sent; /* source_ops.occupancy_change of the newest roll-up */
    char ended[160];

    bool started, closing;
    void (*closed)(void *owner);
    void *closed_owner;
};

void operator_step_later(struct operator_host *host);
/* in operator_stream.c: */
enum err uplink_open(struct operator_host *host, const struct operator_options *options,
                     struct note *note);
/* Calls done() in a later turn, when the stream is closed. */
void uplink_close(struct operator_host *host, void (*done)(void *owner));
void uplink_free(struct operator_host *host);
void operator_demand_changed(struct operator_host *host);
void operator_occupancy_changed(struct operator_host *host);
/* Queues the frame in host->frame. False: the frame was dropped, counted and logged. */
bool operator_answer(struct operator_host *host, enum err written);
/* in operator_reclaim.c: */
enum err operator_reclaims_open(struct operator_host *host, struct note *note);
void operator_reclaims_step(struct operator_host *host);
/* ERR_INVALID with a note: the order has no id. */
enum err operator_reclaims_take(struct operator_host *host,
                                const Bigfleet__V1alpha1__ReclaimInstruction *order,
                                struct note *note);
/* Errors of metrics_add_fields(). `metrics` NULL: *ret_rows is NULL. */
enum err operator_metrics_open(struct metrics *metrics, struct metric_fields **ret_rows,
                               struct note *note);
/* in operator_blob.c: */
enum err operator_template_open(struct operator_host *host, const char *path, struct note *note);
void operator_blob_wanted(struct operator_host *host, const struct blob_request *request);
#endif
