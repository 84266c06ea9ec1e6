/* SPDX-License-Identifier: Apache-2.0 */
/* A shard's process: joined as `muster shard run` joins it, but for the HTTP server and TLS, which
 * have no place in virtual time. Of two hosts one is active; the other one's process does nothing
 * until it takes over, with the epoch of the first on its disk, as if they shared a volume. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "obs/events.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "provider/client.h"
#include "rpc/server.h"
#include "shard/domains.h"
#include "shard/epoch.h"
#include "shard/shard.h"
#include "shard_story.h"

static_assert((int)ORDER_CORDON == CORDON_KEEP && (int)ORDER_DRAIN == CORDON_EMPTY, "one order");
enum { MODE = 0644, DIR_MODE = 0755, GETS_MAX = 256, DRAIN_MS = 2000, RETURN_MS = 3000 };
const char *const shard_addresses[] = {"s0:7780", "s1:7780", NULL};

struct shard_process {
    struct shard_host *host;
    struct io *io;
    uint64_t epoch;
    struct logger *logger;
    struct log_source log;
    struct metrics *metrics;
    struct domains *domains;
    struct cordon_file *cordons;
    struct events *audit;
    struct provider *provider;
    struct shard *shard;
    struct rpc_server *server;
    bool stopping;
};

/* -- what it needs -- */

/* What the other host had written is what this one finds. */
static enum err share_epoch(struct shard_process *p)
{
    struct shard_story *story = p->host->story;
    char text[24];

    if (story->holder == p->host->number) return ERR_OK;
    (void)snprintf(text, sizeof text, "%" PRIu64, story->epoch);
    return fs_publish(p->io->fs, "data/epoch", str_from(text), MODE, entropy_u64(p->io->entropy));
}

static enum err open_files(struct shard_process *p, struct note *note)
{
    struct shard_story *story = p->host->story;
    struct events_options audit = {.kind = EVENTS_FILE,
                                   .fs = p->io->fs,
                                   .clock = p->io->clock,
                                   .path = "data/audit.ndjson",
                                   .rotate_bytes = 64 << 10,
                                   .keep = 2};
    enum err err = fs_make_dirs(p->io->fs, "data", DIR_MODE);

    if (!err) err = share_epoch(p);
    if (!err) err = epoch_next(p->io->fs, "data", entropy_u64(p->io->entropy), &p->epoch, note);
    if (!err) err = domains_open(p->io->fs, "data", &p->domains, note);
    if (!err && story->bug == SHARD_CORDON_FORGOTTEN) (void)fs_remove(p->io->fs, "data/cordons");
    if (!err) err = cordon_file_open(p->io->fs, "data", &p->cordons, note);
    if (!err && story->settings.audit) err = events_open(&audit, &p->audit, note);
    if (err) return err;
    if (story->bug == SHARD_EPOCH_FORGOTTEN) p->epoch = 1;
    if (p->epoch <= story->epoch)
        shard_wrong(story, "a start has the epoch %" PRIu64 ", after %" PRIu64, p->epoch,
                    story->epoch);
    story->epoch = p->epoch;
    story->holder = p->host->number;
    return ERR_OK;
}

/* Its log lines are in the trace. */
static void on_line(void *context, enum log_level level, struct str line)
{
    struct shard_process *p = context;

    (void)level;
    sim_trace(scenario_sim(p->host->story->world), p->host->host, "%.*s", (int)line.len - 1,
              line.at);
}

static enum err open_log(struct shard_process *p)
{
    struct logger_options options = {
        .clock = p->io->clock, .level = LOG_LEVEL_INFO, .sink = on_line, .sink_context = p};
    enum err err = logger_open(&options, &p->logger);

    if (!err) log_source_init(&p->log, p->logger, "shard", (const struct log_field[]){LOG_END});
    return err;
}

/* -- the parts -- */

static enum err open_provider(struct shard_process *p, struct note *note)
{
    const struct shard_settings *settings = &p->host->story->settings;
    struct provider_options options = {
        .io = p->io,
        .address = SHARD_PROVIDER_ADDRESS,
        .shard_id = "shard-0",
        .epoch = (int64_t)p->epoch,
        .calls_max = settings->concurrency + GETS_MAX,
        .timeout_ms = settings->execute_ms,
        .list_timeout_ms = settings->execute_ms * 2,
        .backoff_max_ms = 1000,
    };

    return provider_open(&options, &p->provider, note);
}

static struct core_options core_of(const struct shard_settings *settings, struct io *io)
{
    return (struct core_options){
        .seed = entropy_u64(io->entropy),
        .rollup_guard = true,
        .paused = settings->paused,
        .rails = {.reclaim_fraction = settings->reclaim_fraction,
                  .actions_max = settings->actions_max},
        .concurrency = settings->concurrency,
        .queue_max = settings->queue,
        .execute_timeout_ms = settings->execute_ms,
        .bootstrap_timeout_ms = settings->bootstrap_ms,
        .operator_return_ms = RETURN_MS,
        .operators_reported = true,
        .rest_first_ms = settings->rest_first_ms,
        .rest_most_ms = settings->rest_most_ms,
        .stuck_ms = settings->stuck_ms,
        .idle_hold_ms = {[CAPACITY_ON_DEMAND] = settings->hold_on_demand_ms,
                         [CAPACITY_SPOT] = settings->hold_spot_ms},
    };
}

static enum err open_shard(struct shard_process *p, struct note *note)
{
    const struct shard_settings *settings = &p->host->story->settings;
    struct shard_options options = {
        .io = p->io,
        .log = &p->log,
        .metrics = p->metrics,
        .audit = p->audit,
        .id = "shard-0",
        .epoch = p->epoch,
        .provider = p->provider,
        .provider_address = SHARD_PROVIDER_ADDRESS,
        .domains = p->domains,
        .cordons = p->cordons,
        .core = core_of(settings, p->io),
        .cycle_ms = settings->cycle_ms,
        .incremental = settings->incremental,
    };

    return shard_open(&options, &p->shard, note);
}

static enum err open_server(struct shard_process *p, struct note *note)
{
    struct rpc_server_options options = {.io = p->io};
    enum err err;

    shard_server_limits(p->shard, &options.limits);
    err = rpc_server_open(&options, &p->server, note);
    if (!err) err = shard_serve(p->shard, p->server, note);
    return err ? err : rpc_server_listen(p->server, "0.0.0.0:7780", NULL, note);
}

static enum err open_all(struct shard_process *p, struct note *note)
{
    enum err err = open_files(p, note);

    if (!err) err = open_log(p);
    if (!err) err = metrics_open(&p->metrics);
    if (!err) err = open_provider(p, note);
    if (!err) err = open_shard(p, note);
    if (!err) err = open_server(p, note);
    if (!err) shard_start(p->shard);
    return err;
}

/* -- orders -- */

struct shard_node_order {
    struct shard_story *story;
    struct shard_machine *machine;
    uint64_t epoch;
    enum machine_cordon cordon;
};

static void on_order(void *context, enum err err, uint32_t machines, struct str why)
{
    struct shard_node_order *o = context;

    (void)machines;
    (void)why;
    if (!err && o->cordon) o->machine->cordon_sure = o->epoch;
    if (!o->cordon && (!err || err == ERR_NOT_FOUND)) o->machine->cordoned = false;
    free(o);
}

void shard_process_order(struct shard_story *story, struct shard_machine *machine,
                         enum shard_order_kind kind)
{
    enum machine_cordon cordon = (enum machine_cordon)kind;
    struct shard_process *p = story->hosts[story->holder].process;
    struct shard_node_order *o = calloc(1, sizeof *o);
    struct shard_order order = {
        .entry = {.value = str_from(machine->id), .cordon = cordon, .by = STR("sim")},
        .done = on_order,
        .context = o,
    };

    assert(o);
    if (p && p->shard && !p->stopping && !sim_host_paused(story->hosts[story->holder].host)) {
        *o = (struct shard_node_order){story, machine, p->epoch, cordon};
        machine->cordon_sure = 0;
        if (cordon) machine->cordoned = true;
        if (cordon == CORDON_EMPTY) machine->emptied = true;
        if (cordon == CORDON_EMPTY) machine->emptied_ms = shard_now_ms(story);
        if (shard_order(p->shard, &order) == ERR_OK) return;
    }
    free(o);
}

/* -- life -- */

static void on_provider_closed(void *owner)
{
    struct shard_process *p = owner;

    shard_close(p->shard);
    events_close(p->audit);
    domains_close(p->domains);
    cordon_file_close(p->cordons);
    metrics_close(p->metrics);
    logger_close(p->logger);
    free(p);
}

static void on_server_closed(void *owner)
{
    struct shard_process *p = owner;

    if (p->provider)
        provider_close(p->provider, on_provider_closed, p);
    else
        on_provider_closed(p);
}

static void destroy(void *state)
{
    struct shard_process *p = state;

    if (p->host->process == p) p->host->process = NULL;
    if (p->shard) shard_stop(p->shard);
    if (p->server)
        rpc_server_close(p->server, on_server_closed, p);
    else
        on_server_closed(p);
}

static void on_drained(void *owner)
{
    struct shard_process *p = owner;

    sim_host_die(p->host->host, SIM_KILLED); /* it has ended */
}

/* As on SIGTERM. */
static void stop(void *state)
{
    struct shard_process *p = state;

    if (!p->shard || p->stopping) return;
    p->stopping = true;
    shard_stop(p->shard);
    rpc_server_drain(p->server, DRAIN_MS, on_drained, p);
}

static enum err start(struct io *io, void *context, void **ret_state)
{
    struct shard_host *host = context;
    struct shard_process *p = calloc(1, sizeof *p);
    struct note note = {""};
    enum err err;

    if (!p) return ERR_NOMEM;
    p->host = host;
    p->io = io;
    host->process = p;
    *ret_state = p;
    if (!host->active) return ERR_OK;
    err = open_all(p, &note);
    sim_trace(scenario_sim(host->story->world), host->host, "starts as %" PRIu64 ": %s %s",
              p->epoch, err_name(err), note.text);
    if (err) sim_host_die(host->host, SIM_KILLED); /* destroy takes back what is half open */
    return ERR_OK;
}

const struct sim_process_ops shard_process_ops = {start, stop, destroy};
