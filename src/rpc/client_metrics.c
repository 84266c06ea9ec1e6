/* SPDX-License-Identifier: Apache-2.0 */
/* The counters all channels of a process share. */
#include <stdlib.h>

#include "rpc/client_internal.h"

enum err rpc_client_metrics_open(struct metrics *metrics, struct rpc_client_metrics **ret_metrics,
                                 struct note *note)
{
    static const double seconds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                     0.25,  0.5,    1,     2.5,  5,     10,   30};
    struct rpc_client_metrics *m = calloc(1, sizeof *m);
    struct metric_family *calls, *took;
    enum err err;

    if (!m) return ERR_NOMEM;
    err = metrics_add(metrics,
                      &(struct metric_options){.name = "muster_rpc_client_calls_total",
                                               .help = "Calls that ended, by status.",
                                               .kind = METRIC_COUNTER,
                                               .labels = {"status", NULL}},
                      &calls, note);
    if (!err)
        err = metrics_add_counter(metrics, "muster_rpc_client_calls_unknown_total",
                                  "Calls of which nobody can say whether they were applied.",
                                  &m->unknown, note);
    if (!err)
        err = metrics_add_counter(metrics, "muster_rpc_client_retries_total",
                                  "Further attempts at calls.", &m->retries, note);
    if (!err)
        err = metrics_add_counter(metrics, "muster_rpc_client_dials_total", "Connections begun.",
                                  &m->dials, note);
    if (!err)
        err = metrics_add_counter(metrics, "muster_rpc_client_dials_failed_total",
                                  "Connections that never became ready.", &m->dials_failed, note);
    if (!err)
        err = metrics_add(metrics,
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
    for (size_t i = 0; i < ARRAY_LEN(m->calls); i++) {
        struct str name = str_from(grpc_status_name((enum grpc_status)i));
        m->calls[i] = metric_counter(calls, &name);
    }
    m->seconds = metric_histogram(took, NULL);
    *ret_metrics = m;
    return ERR_OK;
}

void rpc_client_metrics_close(struct rpc_client_metrics *metrics)
{
    free(metrics);
}
