/* SPDX-License-Identifier: Apache-2.0 */
/* Opens, starts and stops a shard. The parts are closed in the reverse order of opening. Loop's
 * thread. */
#include "shard/shard.h"

#include <stdlib.h>
#include <string.h>

#include "shard/shard_internal.h"
#include "wire/pb/muster_v1_shard.pb-c.h"

enum { METRICS_MS = 250 };

static void on_counts(void *owner, const struct core_counts *counts)
{
    struct shard *shard = owner;

    shard_metrics_take(shard->metrics, counts);
}

/* The sessions' counters change without jobs, so a timer copies them. */
static void on_metrics(struct timer *timer)
{
    struct shard *shard = CONTAINER_OF(timer, struct shard, metrics_timer);
    struct sessions_stats stats = sessions_stats(shard->sessions);

    shard_metrics_sessions(shard->metrics, &stats, blob_bytes(shard), shard->calls.blobs_refused);
    report_scope_owed(shard);
    orders_owed(shard);
    timer_start_in(&shard->metrics_timer, METRICS_MS);
}

static enum err open_decide_thread(struct shard *shard)
{
    struct decide_thread_options options = {
        .io = shard->io,
        .prepare = effect_prepare,
        .carry_out = effect_apply,
        .on_counts = on_counts,
        .owner = shard,
    };
    struct cordon_rule *cordons;
    enum err err = orders_at_start(shard, &shard->options.core, &cordons);

    if (!err) err = core_open(&shard->options.core, &options.core);
    free(cordons);
    if (err) return err;
    err = decide_thread_open(&options, &shard->decide_thread);
    if (err) core_close(options.core);
    return err;
}

enum err shard_open(const struct shard_options *options, struct shard **ret_shard,
                    struct note *note)
{
    struct shard *shard = calloc(1, sizeof *shard);
    enum err err;

    if (!shard) return ERR_NOMEM;
    shard->options = *options;
    shard->io = options->io;
    if (options->log) shard->log = *options->log;
    if (!shard->options.cycle_ms) shard->options.cycle_ms = SHARD_CYCLE_MS;
    shard->options.core.restarted = options->epoch > 1; /* the first start has epoch 1 */
    shard->id = strdup(options->id);
    shard->provider_address = strdup(options->provider_address);
    provider_calls_open(shard);
    status_open(shard);
    audit_open(&shard->audit);
    err = shard->id && shard->provider_address ? ERR_OK : ERR_NOMEM;
    if (!err) err = shard_metrics_open(options->metrics, &shard->metrics, note);
    if (!err) err = cycles_open(shard);
    if (!err) err = inspect_open(shard);
    if (!err)
        err = sessions_open(&(struct sessions_options){.io = shard->io,
                                                       .log = &shard->log,
                                                       .events = &operators_events,
                                                       .owner = shard,
                                                       .epoch = (int64_t)options->epoch,
                                                       .blobs_max = options->core.blobs_max},
                            &shard->sessions);
    if (!err) err = open_decide_thread(shard);
    if (!err) err = report_scope(shard, ERR_OK, &(struct label){STR_EMPTY, STR_EMPTY}, NULL, NULL);
    if (!err) err = timer_init(&shard->metrics_timer, shard->io->loop, on_metrics);
    if (err) {
        shard_close(shard);
        return err;
    }
    shard_metrics_hold(shard->metrics, options->core.paused, false);
    timer_start_in(&shard->metrics_timer, METRICS_MS);
    *ret_shard = shard;
    return ERR_OK;
}

void shard_server_limits(const struct shard *shard, struct rpc_server_limits *limits)
{
    sessions_server_limits(shard->sessions, limits);
}

enum err shard_serve(struct shard *shard, struct rpc_server *server, struct note *note)
{
    const struct rpc_method methods[] = {
        {.path = "/muster.v1.ShardView/Status",
         .input = &muster__v1__shard_status_request__descriptor,
         .handler = &status_handler,
         .service = shard},
        {.path = "/muster.v1.ShardView/Machine",
         .input = &muster__v1__shard_machine_request__descriptor,
         .handler = &machine_view_handler,
         .service = shard},
        {.path = "/muster.v1.ShardView/ListMachines",
         .kind = RPC_SERVER_STREAM,
         .input = &muster__v1__shard_list_machines_request__descriptor,
         .handler = &machines_handler,
         .service = shard},
        {.path = "/muster.v1.ShardView/ListCordons",
         .input = &muster__v1__shard_list_cordons_request__descriptor,
         .response_max = 16 << 20,
         .handler = &cordons_handler,
         .service = shard},
        {.path = "/muster.v1.ShardControl/Cordon",
         .input = &muster__v1__shard_cordon_request__descriptor,
         .handler = &order_handler,
         .service = shard}};
    enum err err = sessions_serve(shard->sessions, server, note);

    if (!err) err = inspections_serve(shard->inspections, server, note);
    for (size_t i = 0; i < ARRAY_LEN(methods) && !err; i++)
        err = rpc_server_add(server, &methods[i], note);
    return err;
}

void shard_start(struct shard *shard)
{
    shard->started = true;
    cycles_start(shard);
}

void shard_stop(struct shard *shard)
{
    if (shard->stopping) return;
    shard->stopping = true;
    cycles_stop(shard);
    sessions_drain(shard->sessions);
}

void shard_close(struct shard *shard)
{
    if (!shard) return;
    shard->stopping = true;
    timer_deinit(&shard->metrics_timer);
    decide_thread_close(shard->decide_thread);
    provider_calls_close(shard);
    cycles_close(shard);
    inspections_close(shard->inspections);
    status_close(shard);
    sessions_close(shard->sessions);
    audit_close(&shard->audit);
    shard_metrics_close(shard->metrics);
    free(shard->id);
    free(shard->provider_address);
    free(shard);
}
