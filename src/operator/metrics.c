/* SPDX-License-Identifier: Apache-2.0 */
/* The names and help texts of an operator's metrics. */
#include "operator/operator_internal.h"

#define PREFIX          "muster_operator_"
#define COUNTER(member) METRIC_COUNTER, METRIC_FIELD(struct operator_counts, member)
#define GAUGE(member)   METRIC_GAUGE, METRIC_FIELD(struct operator_counts, member)
#define NODES(phase, name)                                                                         \
    {                                                                                              \
        PREFIX "nodes", "Machines of this cluster by phase, as reported by the shard.",            \
            GAUGE(nodes[phase]), .label = "phase", .value = name                                   \
    }

static const struct metric_field operator_rows[] = {
    {PREFIX "connected", "1 while the shard has accepted this operator's session.",
     GAUGE(connected)},
    {PREFIX "requests", "CapacityRequests or entries of the demand file.", GAUGE(requests)},
    {PREFIX "rows", "Rows in the current roll-up.", GAUGE(rows)},
    {PREFIX "unsent", "1 while demand has changed since the last roll-up.", GAUGE(unsent)},
    {PREFIX "reclaims", "Machines being drained.", GAUGE(reclaims)},
    {PREFIX "occupancy_machines", "Machines whose occupancy the last roll-up reported.",
     GAUGE(occupied)},
    {PREFIX "occupancy_left_out",
     "Machines whose occupancy the last roll-up left out, above 65536.", GAUGE(unoccupied)},
    NODES(NODE_PROVISIONING, "Provisioning"),
    NODES(NODE_LAUNCHED, "Launched"),
    NODES(NODE_REGISTERED, "Registered"),
    NODES(NODE_READY, "Ready"),
    NODES(NODE_DRAINING, "Draining"),
    NODES(NODE_DRAINED, "Drained"),
    NODES(NODE_FAILED, "Failed"),
    {PREFIX "sessions_total", "Sessions opened to the shard.", COUNTER(sessions)},
    {PREFIX "session_ends_total", "Sessions with the shard that ended.", COUNTER(session_ends)},
    {PREFIX "rollups_total", "Roll-ups sent.", COUNTER(rollups)},
    {PREFIX "rollup_bytes_total", "Bytes of roll-ups sent.", COUNTER(rollup_bytes)},
    {PREFIX "rollups_acknowledged_total", "Roll-ups acknowledged by the shard.",
     COUNTER(rollup_acks)},
    {PREFIX "rollups_unanswered_total",
     "Times that a roll-up was due while the shard had not acknowledged the previous one.",
     COUNTER(rollups_unanswered)},
    {PREFIX "blobs_total", "Bootstrap requests received from the shard.", COUNTER(blobs)},
    {PREFIX "blob_errors_total", "Bootstrap requests answered with an error.",
     COUNTER(blob_errors)},
    {PREFIX "template_errors_total", "Changes of the bootstrap template that were invalid.",
     COUNTER(template_errors)},
    {PREFIX "reclaims_ordered_total", "Machines that the shard ordered to drain.",
     COUNTER(reclaims_ordered)},
    {PREFIX "reclaims_drained_total", "Machines drained before the grace period ended.",
     COUNTER(reclaims_drained)},
    {PREFIX "reclaims_failed_total", "Drains that the demand source gave up.",
     COUNTER(reclaims_failed)},
    {PREFIX "reclaims_expired_total",
     "Machines that were not empty at the end of the grace period.", COUNTER(reclaims_expired)},
    {PREFIX "outbox_dropped_total",
     "Messages to the shard dropped because the queue was full or there was no stream.",
     COUNTER(answers_dropped)},
    {PREFIX "frames_refused_total", "Frames of the shard that were invalid.",
     COUNTER(frames_refused)},
    {PREFIX "requests_refused_total", "Requests that are too large or invalid for a roll-up.",
     COUNTER(requests_refused)},
    {PREFIX "save_errors_total", "Failed writes of the state directory.", COUNTER(save_errors)},
};

enum err operator_metrics_open(struct metrics *metrics, struct metric_fields **ret_rows,
                               struct note *note)
{
    if (!metrics) return ERR_OK;
    return metrics_add_fields(metrics, operator_rows, ARRAY_LEN(operator_rows), ret_rows, note);
}
