/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/metrics.h"

static enum err add_nodes(struct metrics *metrics, struct operator_meters *m, struct note *note)
{
    struct metric_options options = {
        .name = "muster_operator_nodes",
        .help = "machines of this cluster as the shard told of them, by phase",
        .kind = METRIC_GAUGE,
        .labels = {"phase", NULL},
    };
    struct metric_family *family;
    enum err err = metrics_add(metrics, &options, &family, note);

    for (int phase = 0; phase < NODE_PHASE_COUNT && !err; phase++) {
        struct str name = str_from(node_phase_name((enum node_phase)phase));
        m->nodes[phase] = metric_gauge(family, &name);
    }
    return err;
}

enum err operator_meters_open(struct metrics *metrics, struct operator_meters *ret_meters,
                              struct note *note)
{
    struct operator_meters m = {0};
    const struct {
        const char *name, *help;
        struct counter **counter;
    } counters[] = {
        {"muster_operator_sessions_total", "streams to the shard that were opened", &m.sessions},
        {"muster_operator_session_ends_total", "streams to the shard that ended", &m.session_ends},
        {"muster_operator_rollups_total", "roll-ups that were sent", &m.rollups},
        {"muster_operator_rollup_bytes_total", "bytes of them", &m.rollup_bytes},
        {"muster_operator_rollups_acknowledged_total", "roll-ups that the shard took",
         &m.rollup_acks},
        {"muster_operator_rollups_unanswered_total",
         "times a roll-up was due and the one before had no answer: a slow shard, or one that "
         "refuses it",
         &m.rollups_unanswered},
        {"muster_operator_blobs_total", "bootstrap blobs that were asked for", &m.blobs},
        {"muster_operator_blob_errors_total", "of them, answered with an error", &m.blob_errors},
        {"muster_operator_template_errors_total",
         "edits of the bootstrap template that could not be used", &m.blob_template_errors},
        {"muster_operator_reclaims_ordered_total", "machines the shard took back",
         &m.reclaims_ordered},
        {"muster_operator_reclaims_drained_total", "of them, emptied in time", &m.reclaims_drained},
        {"muster_operator_reclaims_failed_total", "of them, given up by the source",
         &m.reclaims_failed},
        {"muster_operator_reclaims_expired_total", "of them, not empty when the grace was over",
         &m.reclaims_expired},
        {"muster_operator_outbox_dropped_total",
         "answers to the shard that found no place or no stream", &m.answers_dropped},
        {"muster_operator_frames_refused_total", "frames of the shard that could not be used",
         &m.frames_refused},
        {"muster_operator_requests_refused_total", "requests that no shard would take",
         &m.requests_refused},
        {"muster_operator_save_errors_total", "times the state directory could not be written",
         &m.save_errors},
    };
    const struct {
        const char *name, *help;
        struct gauge **gauge;
    } gauges[] = {
        {"muster_operator_connected", "1: the shard has answered our Hello", &m.connected},
        {"muster_operator_requests", "requests of the source", &m.requests},
        {"muster_operator_rows", "rows they make in a roll-up", &m.rows},
        {"muster_operator_unsent", "1: demand changed since the last roll-up", &m.change_unsent},
        {"muster_operator_reclaims", "machines that are being emptied", &m.reclaims},
    };
    enum err err = ERR_OK;

    for (size_t i = 0; metrics && i < ARRAY_LEN(counters) && !err; i++)
        err = metrics_add_counter(metrics, counters[i].name, counters[i].help, counters[i].counter,
                                  note);
    for (size_t i = 0; metrics && i < ARRAY_LEN(gauges) && !err; i++)
        err = metrics_add_gauge(metrics, gauges[i].name, gauges[i].help, gauges[i].gauge, note);
    if (metrics && !err) err = add_nodes(metrics, &m, note);
    if (!err) *ret_meters = m;
    return err;
}
