/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator counts, muster_operator_*. */
#ifndef OPERATOR_METRICS_H
#define OPERATOR_METRICS_H
#include "obs/metrics.h"
#include "operator/core/nodes.h"

struct operator_meters { /* all NULL without metrics; use the functions below */
    struct gauge *connected, *requests, *rows, *change_unsent, *reclaims;
    struct gauge *nodes[NODE_PHASE_COUNT];
    struct counter *sessions, *session_ends;
    struct counter *rollups, *rollup_acks, *rollups_unanswered, *rollup_bytes;
    struct counter *blobs, *blob_errors, *blob_template_errors;
    struct counter *reclaims_ordered, *reclaims_drained, *reclaims_failed, *reclaims_expired;
    struct counter *answers_dropped, *frames_refused, *requests_refused, *save_errors;
};
/* Errors as metrics_add. `metrics` NULL: nothing is counted. */
enum err operator_meters_open(struct metrics *metrics, struct operator_meters *ret_meters,
                              struct note *note);
static inline void meter_add(struct counter *counter, uint64_t n)
{
    if (counter) counter_add(counter, n);
}
static inline void meter_inc(struct counter *counter)
{
    meter_add(counter, 1);
}
static inline void meter_set(struct gauge *gauge, double value)
{
    if (gauge) gauge_set(gauge, value);
}
#endif
