/* SPDX-License-Identifier: Apache-2.0 */
/* muster worker run: one worker. Joins the parts; decides nothing.
 *
 * Up:   database, certificate, checkpoint store -> plugins, until all are ready -> the host
 * Down: the host, when it has drained -> plugins -> the rest */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cert/workers.h"
#include "common/chassis.h"
#include "common/tables.h"
#include "io/clock_boot.h"
#include "member/config/config.h"
#include "member/ledger/db.h"
#include "muster/commands.h"
#include "worker/database.h"
#include "worker/host.h"

enum { REFRESH_MS = 60 * 1000, EXIT_FENCED = 75, PROCESS_PLUGIN = 1 };
#define PREEMPT_VARIABLE "ROLLOUT_MOCK_PREEMPT_MS"

struct worker_role_state {
    struct chassis *chassis;
    struct io *io;
    struct worker_config config;
    struct log_source log; /* with the worker's id on every line */
    char worker_id[ULID_TEXT_CAP], run_id[ULID_TEXT_CAP];
    struct ledger_db *db;
    struct cert_workers *ca;
    struct rpc_client_metrics *client_metrics;
    struct checkpoint_store *store;
    struct plugins *plugins;
    struct worker_host *host;
    struct timer refresh, preempt;
    enum err plugin_failed;
    struct note plugin_note;
    bool plugins_closed, host_closed, draining;
};

/* -- who we are -- */

static enum err name_worker(struct worker_role_state *s)
{
    struct ulid_maker maker = {0};
    struct ulid id = s->config.worker_id;
    uint8_t random[10];
    enum err err = ERR_OK;

    if (!s->config.has_worker_id) {
        entropy_fill(s->io->entropy, random, sizeof random);
        err = ulid_next(&maker, clock_wall(s->io->clock), random, &id);
    }
    s->config.worker_id = id;
    ulid_text(&id, s->worker_id);
    ulid_text(&s->config.run_id, s->run_id);
    return err;
}

static enum err open_certificate(struct worker_role_state *s, struct note *note)
{
    const struct member_transport *t = &s->config.transport;
    struct cert_workers_options options = {.tls_dir = t->tls_dir,
                                           .ca_file = t->ca_file,
                                           .cert_file = t->cert_file,
                                           .key_file = t->key_file,
                                           .strict_permissions = t->strict_permissions,
                                           .worker = &s->config.worker_id};
    enum err err = cert_workers_open(s->io->fs, &options, clock_wall(s->io->clock), &s->ca, note);

    if (err) return err;
    if (cert_workers_notice(s->ca)[0]) fprintf(stderr, "%s\n", cert_workers_notice(s->ca));
    if (cert_workers_warning(s->ca)[0])
        LOG_WARN(&s->log, "certificates", log_text("warning", cert_workers_warning(s->ca)));
    return ERR_OK;
}

static void refresh_now(struct worker_role_state *s)
{
    struct note note = {""};
    bool changed = false;
    enum err err = cert_workers_refresh(s->ca, clock_wall(s->io->clock), &changed, &note);

    if (err)
        LOG_ERROR(&s->log, "certificate not renewed, the old one stays", log_err("err", err),
                  log_text("why", note.text));
    else if (changed)
        LOG_INFO(&s->log, "certificate renewed");
}

static void on_refresh(struct timer *timer)
{
    struct worker_role_state *s = CONTAINER_OF(timer, struct worker_role_state, refresh);

    refresh_now(s);
    timer_start_in(timer, REFRESH_MS);
}

/* -- plugins -- */

static void plugins_changed(void *owner)
{
    struct worker_role_state *s = owner;

    if (s->host) worker_host_plugins_changed(s->host);
}

static void plugin_failed(void *owner, enum err err, const struct note *note)
{
    struct worker_role_state *s = owner;

    s->plugin_failed = err;
    s->plugin_note = *note;
}

static enum err keep_manifest(void *owner, const char *name, struct str json, struct note *note)
{
    struct worker_role_state *s = owner;

    return worker_db_keep_plugin(s->db, str_from(name), json, note);
}

static enum err load_plugins(struct worker_role_state *s, struct note *note)
{
    const char *manifests[OPTION_LIST_MAX + 1] = {NULL};
    struct plugins_options options = {
        .io = s->io,
        .log = &s->log,
        .manifests = manifests,
        .hot_reload = s->config.hot_reload,
        .bind_ms = conf_number(chassis_conf(s->chassis), "process.plugin_timeout"),
        .keep = keep_manifest,
        .on_change = plugins_changed,
        .on_failed = plugin_failed,
        .owner = s};
    enum err err;

    for (size_t i = 0; i < s->config.plugins.item_count; i++)
        manifests[i] = s->config.plugins.items[i].at;
    err = plugins_open(&options, &s->plugins, note);
    while (!err && !s->plugin_failed && !plugins_ready(s->plugins) && !chassis_stopping(s->chassis))
        chassis_turn(s->chassis);
    if (!err && s->plugin_failed) {
        *note = s->plugin_note;
        err = ERR_INVALID; /* whatever it was: the plugin was asked for and is not there */
    }
    return err;
}

/* -- the host -- */

static void on_fenced(void *owner)
{
    struct worker_role_state *s = owner;

    if (s->config.fence_action != WORKER_FENCE_EXIT) return;
    LOG_ERROR(&s->log, "ending, as worker.fence_action says");
    _exit(EXIT_FENCED); /* plugins die with us */
}

static void on_drained(void *owner, bool in_time)
{
    struct worker_role_state *s = owner;
    struct note note;

    if (in_time) {
        chassis_stop(s->chassis);
        return;
    }
    note_set(&note, "draining took longer than worker.drain_deadline, %" PRIu64 " ms",
             s->config.drain_deadline_ms);
    chassis_fail(s->chassis, ERR_CANCELLED, &note);
}

static enum err open_host(struct worker_role_state *s, struct note *note)
{
    const struct conf *conf = chassis_conf(s->chassis);
    const struct member_transport *t = &s->config.transport;
    const char *coordinators[MEMBER_COORDINATORS_MAX + 1] = {NULL};
    struct worker_host_options options = {
        .io = s->io,
        .boot = clock_boot(),
        .log = &s->log,
        .metrics = instruments_metrics(chassis_instruments(s->chassis)),
        .rpc_metrics = s->client_metrics,
        .tls = cert_workers_context(s->ca),
        .tls_name = s->config.coordinator_domain,
        .coordinators = coordinators,
        .worker_id = s->worker_id,
        .run_id = s->run_id,
        .heartbeat_interval_ms = t->heartbeat_interval_ms,
        .self_fence_timeout_ms = t->worker_self_fence_timeout_ms,
        .drain_deadline_ms = s->config.drain_deadline_ms,
        .store = s->store,
        .input = conf_text(conf, "process.input"),
        .use_plugin = conf_choice(conf, "process.kind") == PROCESS_PLUGIN,
        .rate = conf_number(conf, "process.rate"),
        .plugins = s->plugins,
        .on_fenced = on_fenced,
        .on_drained = on_drained,
        .owner = s};

    if (options.use_plugin && plugins_count(s->plugins) == 0) {
        note_set(note, "process.kind is \"plugin\", and there is no --plugin");
        return ERR_INVALID;
    }
    for (size_t i = 0; i < s->config.coordinator_count; i++)
        coordinators[i] = s->config.coordinators[i];
    return worker_host_open(&options, &s->host, note);
}

static void on_preempt(struct timer *timer)
{
    struct worker_role_state *s = CONTAINER_OF(timer, struct worker_role_state, preempt);

    LOG_WARN(&s->log, "preempted", log_text("by", PREEMPT_VARIABLE));
    worker_host_drain(s->host);
}

/* A notice that tests give instead of a provider. */
static void start_preempt(struct worker_role_state *s)
{
    const char *text = getenv(PREEMPT_VARIABLE);
    uint64_t ms;

    if (text && !str_to_u64(str_from(text), &ms)) timer_start_in(&s->preempt, ms);
}

/* -- the hooks -- */

static enum err read_config(struct worker_role_state *s, struct note *note)
{
    struct buf problems, warnings;
    struct str line, rest;
    enum err err;

    buf_init(&problems, PROGRAM_TEXT_MAX);
    buf_init(&warnings, PROGRAM_TEXT_MAX);
    err = worker_config_read(chassis_conf(s->chassis), &s->config, &problems, &warnings);
    if (err) note_set(note, "%.*s", STR_ARG(buf_peek(&problems)));
    for (rest = buf_peek(&warnings); !err && rest.len && str_split(&rest, '\n', &line);)
        if (line.len)
            LOG_WARN(instruments_log(chassis_instruments(s->chassis)), "settings",
                     log_str("warning", line));
    buf_deinit(&problems);
    buf_deinit(&warnings);
    return err;
}

static enum err open_role(struct chassis *chassis, void **ret_state, struct note *note)
{
    struct worker_role_state *s = calloc(1, sizeof *s);
    struct instruments *instruments = chassis_instruments(chassis);
    enum err err;

    if (!s) return ERR_NOMEM;
    *ret_state = s;
    s->chassis = chassis;
    s->io = chassis_io(chassis);
    err = read_config(s, note);
    if (!err) err = name_worker(s);
    if (err) return err;
    log_source_init(&s->log, instruments_log(instruments)->logger, "worker",
                    (const struct log_field[]){log_text("worker", s->worker_id), LOG_END});
    err = timer_init(&s->refresh, s->io->loop, on_refresh);
    if (!err) err = timer_init(&s->preempt, s->io->loop, on_preempt);
    if (!err) err = worker_db_open(s->io->fs, s->config.storage_path, &s->db, note);
    if (!err && s->config.checkpoint_store)
        err = checkpoint_store_open(s->io->fs, s->config.checkpoint_store, &s->store, note);
    if (!err) err = open_certificate(s, note);
    if (!err)
        err = rpc_client_metrics_open(instruments_metrics(instruments), &s->client_metrics, note);
    if (!err) err = load_plugins(s, note);
    if (!err && chassis_stopping(chassis)) return ERR_CANCELLED;
    if (!err) err = open_host(s, note);
    if (err) return err;
    LOG_INFO(&s->log, "started", log_text("run", s->run_id),
             log_text("coordinators", s->config.coordinators[0]));
    timer_start_in(&s->refresh, REFRESH_MS);
    start_preempt(s);
    return ERR_OK;
}

static void say_started(void *state, FILE *out)
{
    const struct worker_role_state *s = state;

    fprintf(out, "  worker       %s\n", s->worker_id);
    for (size_t i = 0; i < s->config.coordinator_count; i++)
        fprintf(out, "  coordinator  %s\n", s->config.coordinators[i]);
}

static void reload(void *state)
{
    struct worker_role_state *s = state;

    refresh_now(s);
    plugins_reload(s->plugins);
}

static void stop(void *state)
{
    struct worker_role_state *s = state;

    worker_host_drain(s->host);
}

/* From any half-built state. */
static void close_role(void *state)
{
    struct worker_role_state *s = state;

    timer_deinit(&s->refresh);
    timer_deinit(&s->preempt);
    worker_host_close(s->host, chassis_set_true, &s->host_closed);
    while (!s->host_closed) chassis_turn(s->chassis);
    plugins_close(s->plugins, chassis_set_true, &s->plugins_closed);
    while (!s->plugins_closed) chassis_turn(s->chassis);
    checkpoint_store_close(s->store);
    rpc_client_metrics_close(s->client_metrics);
    cert_workers_close(s->ca);
    ledger_db_close(s->db);
    free(s);
}

static enum err check_worker_files(const struct conf *conf, struct fs *fs, struct note *note)
{
    struct worker_config config;
    struct buf problems;
    enum err err;

    (void)fs;
    buf_init(&problems, PROGRAM_TEXT_MAX);
    err = worker_config_read(conf, &config, &problems, NULL);
    if (err) note_set(note, "%.*s", STR_ARG(buf_peek(&problems)));
    buf_deinit(&problems);
    if (err || conf_choice(conf, "process.kind") != PROCESS_PLUGIN || config.plugins.item_count)
        return err;
    note_set(note, "process.kind is \"plugin\", and there is no --plugin");
    return ERR_INVALID;
}

static int run_worker(void *context, const struct command_call *call)
{
    static const struct chassis_hooks hooks = {.second_signal_ends = true,
                                               .check = check_worker_files,
                                               .open = open_role,
                                               .say_started = say_started,
                                               .reload = reload,
                                               .stop = stop,
                                               .close = close_role};

    return chassis_run(context, call, &worker_role, &hooks);
}

static const struct command_example examples[] = {
    {"muster worker run --config examples/worker.toml", "a worker of the run in the file"},
    {"muster worker run --config w.toml --worker-id 01JFEAVS7C5DE5XEAEAB91EBT6",
     "under a name of its own"},
    {"muster worker run --config w.toml --plugin examples/plugins/lengths.toml --hot-reload",
     "with a plugin, started again when its files change"},
    {NULL, NULL},
};
static const struct command worker_run_command = {
    .name = "run",
    .summary = "run one worker",
    .about =
        "Runs a worker: it beats to the coordinators over mutual TLS, is given partitions, reads "
        "their input, writes checkpoints when it is asked to, and gives partitions back when they "
        "are wanted elsewhere. A partition that another worker had goes on at its newest "
        "checkpoint.\n"
        "A worker that no coordinator answers for transport.worker_self_fence_timeout fences "
        "itself: it stops its work and its plugins, says so, and registers anew once it is "
        "answered.\n"
        "SIGTERM or Ctrl-C drains it: it writes what it has begun, gives everything back, and "
        "ends; "
        "a second one ends it at once. It may be killed at any time. SIGHUP starts its plugins "
        "anew.\n"
        "Every key is in docs/workers.md.",
    .options = &worker_run_table,
    .examples = examples,
    .exits = BIT(1) | BIT(2) | BIT(4) | BIT(6),
    .run = run_worker,
};

static const struct command *const children[] = {&worker_run_command, NULL};
const struct command worker_command = {
    .name = "worker",
    .summary = "a worker: processes partitions, and beats",
    .about = "Runs a worker.",
    .children = children,
};
