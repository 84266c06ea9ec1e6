/* SPDX-License-Identifier: Apache-2.0 */
/* The counters all channels of a process share. */
#include <stdlib.h>

#include "rpc/client_internal.h"

struct rpc_client_metrics {
    struct client_counts counts;
};

static enum err add(struct metrics *metrics, const struct metric_options *options,
                    struct metric_family **ret_family, struct note *note)
{
    return metrics_add(metrics, options, ret_family, note);
}

enum err rpc_client_metrics_open(struct metrics *metrics, struct rpc_client_metrics **ret_metrics,
                                 struct note *note)
{
    static const double seconds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                     0.25,  0.5,    1,     2.5,  5,     10,   30};
    struct rpc_client_metrics *m = calloc(1, sizeof *m);
    struct metric_family *calls, *unknown, *retries, *dials, *dials_failed, *took;
    enum err err;

    if (!m) return ERR_NOMEM;
    err = add(metrics,
              &(struct metric_options){.name = "muster_rpc_client_calls_total",
                                       .help = "Calls that ended, by status.",
                                       .kind = METRIC_COUNTER,
                                       .labels = {"status", NULL}},
              &calls, note);
    if (!err)
        err = add(metrics,
                  &(struct metric_options){
                      .name = "muster_rpc_client_calls_unknown_total",
                      .help = "Calls of which nobody can say whether they were applied.",
                      .kind = METRIC_COUNTER},
                  &unknown, note);
    if (!err)
        err = add(metrics,
                  &(struct metric_options){.name = "muster_rpc_client_retries_total",
                                           .help = "Further attempts at calls.",
                                           .kind = METRIC_COUNTER},
                  &retries, note);
    if (!err)
        err = add(metrics,
                  &(struct metric_options){.name = "muster_rpc_client_dials_total",
                                           .help = "Connections begun.",
                                           .kind = METRIC_COUNTER},
                  &dials, note);
    if (!err)
        err = add(metrics,
                  &(struct metric_options){.name = "muster_rpc_client_dials_failed_total",
                                           .help = "Connections that never became ready.",
                                           .kind = METRIC_COUNTER},
                  &dials_failed, note);
    if (!err)
        err = add(metrics,
                  &(struct metric_options){.name = "muster_rpc_client_call_seconds",
                                           .help = "From the start of a call to its end.",
                                           .kind = METRIC_HISTOGRAM,
                                           .buckets = seconds,
                                           .bucket_count = ARRAY_LEN(seconds)},
                  &took, note);
    if (err) {
        free(m);
        return err;
    }
    for (size_t i = 0; i < ARRAY_LEN(m->counts.calls); i++) {
        struct str name = str_from(grpc_status_name((enum grpc_status)i));
        m->counts.calls[i] = metric_counter(calls, &name);
    }
    m->counts.unknown = metric_counter(unknown, NULL);
    m->counts.retries = metric_counter(retries, NULL);
    m->counts.dials = metric_counter(dials, NULL);
    m->counts.dials_failed = metric_counter(dials_failed, NULL);
    m->counts.seconds = metric_histogram(took, NULL);
    *ret_metrics = m;
    return ERR_OK;
}

void rpc_client_metrics_close(struct rpc_client_metrics *metrics)
{
    free(metrics);
}

const struct client_counts *client_metrics_counts(const struct rpc_client_metrics *metrics)
{
    return &metrics->counts;
}
