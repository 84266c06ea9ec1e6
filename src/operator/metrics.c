/* SPDX-License-Identifier: Apache-2.0 */
/* The names and help texts of an operator's metrics. */
#include "operator/operator_internal.h"

#define PREFIX          "muster_operator_"
#define COUNTER(member) METRIC_COUNTER, METRIC_FIELD(struct operator_counts, member)
#define GAUGE(member)   METRIC_GAUGE, METRIC_FIELD(struct operator_counts, member)
#define NODES(phase, name)                                                                         \
    {                                                                                              \
        PREFIX "nodes", "machines of this cluster as the shard reported them, by phase",           \
            GAUGE(nodes[phase]), .label = "phase", .value = name                                   \
    }

static const struct metric_field operator_rows[] = {
    {PREFIX "connected", "1: the shard has answered our Hello", GAUGE(connected)},
    {PREFIX "requests", "requests of the source", GAUGE(requests)},
    {PREFIX "rows", "rows they make in a roll-up", GAUGE(rows)},
    {PREFIX "unsent", "1: demand changed since the last roll-up", GAUGE(unsent)},
    {PREFIX "reclaims", "machines that are being emptied", GAUGE(reclaims)},
    NODES(NODE_PROVISIONING, "Provisioning"),
    NODES(NODE_LAUNCHED, "Launched"),
    NODES(NODE_REGISTERED, "Registered"),
    NODES(NODE_READY, "Ready"),
    NODES(NODE_DRAINING, "Draining"),
    NODES(NODE_DRAINED, "Drained"),
    NODES(NODE_FAILED, "Failed"),
    {PREFIX "sessions_total", "streams to the shard that were opened", COUNTER(sessions)},
    {PREFIX "session_ends_total", "streams to the shard that ended", COUNTER(session_ends)},
    {PREFIX "rollups_total", "roll-ups that were sent", COUNTER(rollups)},
    {PREFIX "rollup_bytes_total", "bytes of them", COUNTER(rollup_bytes)},
    {PREFIX "rollups_acknowledged_total", "roll-ups that the shard took", COUNTER(rollup_acks)},
    {PREFIX "rollups_unanswered_total",
     "times a roll-up was due and the one before had no answer: a slow shard, or one that refuses "
     "it",
     COUNTER(rollups_unanswered)},
    {PREFIX "blobs_total", "bootstrap blobs that were asked for", COUNTER(blobs)},
    {PREFIX "blob_errors_total", "of them, answered with an error", COUNTER(blob_errors)},
    {PREFIX "template_errors_total", "edits of the bootstrap template that could not be used",
     COUNTER(template_errors)},
    {PREFIX "reclaims_ordered_total", "machines the shard took back", COUNTER(reclaims_ordered)},
    {PREFIX "reclaims_drained_total", "of them, emptied in time", COUNTER(reclaims_drained)},
    {PREFIX "reclaims_failed_total", "of them, given up by the source", COUNTER(reclaims_failed)},
    {PREFIX "reclaims_expired_total", "of them, not empty when the grace was over",
     COUNTER(reclaims_expired)},
    {PREFIX "outbox_dropped_total", "answers to the shard that found no place or no stream",
     COUNTER(answers_dropped)},
    {PREFIX "frames_refused_total", "frames of the shard that could not be used",
     COUNTER(frames_refused)},
    {PREFIX "requests_refused_total", "requests that no shard would take",
     COUNTER(requests_refused)},
    {PREFIX "save_errors_total", "times the state directory could not be written",
     COUNTER(save_errors)},
};

enum err operator_metrics_open(struct metrics *metrics, struct metric_fields **ret_rows,
                               struct note *note)
{
    if (!metrics) return ERR_OK;
    return metrics_add_fields(metrics, operator_rows, ARRAY_LEN(operator_rows), ret_rows, note);
}
