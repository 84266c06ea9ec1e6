/* SPDX-License-Identifier: Apache-2.0 */
/* Counters shared by all channels of a process. */
#include <stdlib.h>

#include "rpc/client_internal.h"

enum err rpc_client_metrics_open(struct metrics *metrics, struct rpc_client_metrics **ret_metrics,
                                 struct note *note)
{
    static const double seconds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                     0.25,  0.5,    1,     2.5,  5,     10,   30};
    struct rpc_client_metrics *m = calloc(1, sizeof *m);
    const struct metric_options ended = {.name = "muster_rpc_client_calls_total",
                                         .help = "Ended calls by status.",
                                         .kind = METRIC_COUNTER,
                                         .labels = {"status"}};
    struct metric_family *calls;
    enum err err;

    if (!m) return ERR_NOMEM;
    const struct {
        const char *name, *help;
        struct counter **counter;
    } counters[] = {
        {"muster_rpc_client_calls_unknown_total",
         "Ended calls with an unknown outcome: the server may or may not have applied them.",
         &m->unknown},
        {"muster_rpc_client_retries_total", "Retries of calls.", &m->retries},
        {"muster_rpc_client_dials_total", "Connection attempts.", &m->dials},
        {"muster_rpc_client_dials_failed_total", "Connection attempts that failed.",
         &m->dials_failed},
    };
    err = metrics_add(metrics, &ended, &calls, note);
    if (!err)
        err = metrics_add_histogram(metrics, "muster_rpc_client_call_seconds", "Duration of calls.",
                                    seconds, ARRAY_LEN(seconds), &m->seconds, note);
    for (size_t i = 0; !err && i < ARRAY_LEN(counters); i++)
        err = metrics_add_counter(metrics, counters[i].name, counters[i].help, counters[i].counter,
                                  note);
    if (err) {
        free(m);
        return err;
    }
    for (size_t i = 0; i < ARRAY_LEN(m->calls); i++) {
        struct str name = str_from(grpc_status_name((enum grpc_status)i));
        m->calls[i] = metric_counter(calls, &name);
    }
    *ret_metrics = m;
    return ERR_OK;
}

void rpc_client_metrics_close(struct rpc_client_metrics *metrics)
{
    free(metrics);
}
