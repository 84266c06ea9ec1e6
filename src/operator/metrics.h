/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics of an operator, muster_operator_*: numbers that it counts, shown at the end of each
 * turn of its loop. */
#ifndef OPERATOR_METRICS_H
#define OPERATOR_METRICS_H
#include "obs/metrics.h"
#include "operator/core/nodes.h"

struct operator_counts {
    uint64_t connected, requests, rows, unsent, reclaims;
    uint64_t nodes[NODE_PHASE_COUNT];
    uint64_t sessions, session_ends;
    uint64_t rollups, rollup_acks, rollups_unanswered, rollup_bytes;
    uint64_t blobs, blob_errors, template_errors;
    uint64_t reclaims_ordered, reclaims_drained, reclaims_failed, reclaims_expired;
    uint64_t answers_dropped, frames_refused, requests_refused, save_errors;
};
/* Errors as metrics_add_fields. `metrics` NULL: *ret_rows is NULL. */
enum err operator_metrics_open(struct metrics *metrics, struct metric_fields **ret_rows,
                               struct note *note);
#endif
