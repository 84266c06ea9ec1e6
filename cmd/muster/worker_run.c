/* SPDX-License-Identifier: Apache-2.0 */
/* muster worker run: one worker. Connects the parts and makes no decision. `hooks` has the order of
 * start and drain. Loop's thread. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/help.h"
#include "common/tables.h"
#include "io/clock.h"
#include "member/config/config.h"
#include "muster/commands.h"
#include "muster/role.h"
#include "worker/database.h"
#include "worker/host.h"

enum { REFRESH_MS = 60 * 1000, EXIT_FENCED = 75, PROCESS_PLUGIN = 1 };
#define PREEMPT_VARIABLE "ROLLOUT_MOCK_PREEMPT_MS"

struct worker_role_state {
    struct role_base role; /* its log adds the worker's id to every line */
    struct worker_config config;
    char worker_id[ULID_TEXT_CAP], run_id[ULID_TEXT_CAP];
    struct cert_workers *ca;
    struct checkpoint_store *store;
    struct plugins *plugins;
    struct worker_host *host;
    struct timer refresh, preempt;
    enum err plugin_failed;
    struct note plugin_note;
};

/* -- identity -- */

static enum err name_worker(struct worker_role_state *s)
{
    struct ulid_maker maker = {0};
    struct ulid id = s->config.worker_id;
    uint8_t random[10];
    enum err err = ERR_OK;

    if (!s->config.has_worker_id) {
        entropy_fill(s->role.io->entropy, random, sizeof random);
        err = ulid_next(&maker, clock_wall(s->role.io->clock), random, &id);
    }
    s->config.worker_id = id;
    ulid_text(&id, s->worker_id);
    ulid_text(&s->config.run_id, s->run_id);
    return err;
}

static enum err open_certificate(void *state, struct note *note)
{
    struct worker_role_state *s = state;

    return role_open_worker_ca(&s->role, &s->role.log, &s->config.transport, &s->config.worker_id,
                               &s->ca, note);
}

static void refresh_now(struct worker_role_state *s)
{
    struct note note = {""};
    bool changed = false;
    enum err err = cert_workers_refresh(s->ca, clock_wall(s->role.io->clock), &changed, &note);

    if (err)
        LOG_ERROR(&s->role.log, "certificate could not be renewed: the old one stays in use",
                  log_err("err", err), log_text("why", note.text));
    else if (changed)
        LOG_INFO(&s->role.log, "certificate renewed");
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

static enum err load_plugins(void *state, struct note *note)
{
    struct worker_role_state *s = state;
    const char *manifests[OPTION_LIST_MAX + 1] = {NULL};
    struct plugins_options options = {.io = s->role.io,
                                      .log = &s->role.log,
                                      .manifests = manifests,
                                      .hot_reload = s->config.hot_reload,
                                      .bind_ms =
                                          conf_number(s->role.conf, "process.plugin_timeout"),
                                      .storage_path = s->config.storage_path,
                                      .on_change = plugins_changed,
                                      .on_failed = plugin_failed,
                                      .owner = s};
    enum err err;

    for (size_t i = 0; i < s->config.plugins.item_count; i++)
        manifests[i] = s->config.plugins.items[i].at;
    err = plugins_open(&options, &s->plugins, note);
    while (!err && !s->plugin_failed && !plugins_ready(s->plugins) &&
           !chassis_stopping(s->role.chassis))
        chassis_turn(s->role.chassis);
    if (!err && s->plugin_failed) {
        *note = s->plugin_note;
        err = ERR_INVALID; /* a plugin that does not start is an error of the settings */
    }
    return !err && chassis_stopping(s->role.chassis) ? ERR_CANCELLED : err;
}

/* -- the host -- */

static void worker_run_on_fenced(void *owner)
{
    struct worker_role_state *s = owner;

    if (s->config.fence_action != WORKER_FENCE_EXIT) return;
    LOG_ERROR(&s->role.log,
              "stopping because the worker is fenced and worker.fence_action is exit");
    _exit(EXIT_FENCED);
}

static void on_drained(void *owner, bool in_time)
{
    struct worker_role_state *s = owner;
    struct note note;

    if (in_time) {
        chassis_stop(s->role.chassis);
        return;
    }
    note_set(&note, "draining took longer than worker.drain_deadline, %" PRIu64 " ms",
             s->config.drain_deadline_ms);
    chassis_fail(s->role.chassis, ERR_CANCELLED, &note);
}

static void on_preempt(struct timer *timer)
{
    struct worker_role_state *s = CONTAINER_OF(timer, struct worker_role_state, preempt);

    LOG_WARN(&s->role.log, "preemption notice: the worker drains and stops",
             log_text("by", PREEMPT_VARIABLE));
    worker_host_drain(s->host);
}

/* Tests give a preemption notice in a variable. */
static void start_preempt(struct worker_role_state *s)
{
    const char *text = getenv(PREEMPT_VARIABLE);
    uint64_t ms;

    if (text && !str_to_u64(str_from(text), &ms)) timer_start_in(&s->preempt, ms);
}

static enum err worker_run_open_host(void *state, struct note *note)
{
    struct worker_role_state *s = state;
    const struct conf *conf = s->role.conf;
    const struct member_transport *t = &s->config.transport;
    const char *coordinators[MEMBER_COORDINATORS_MAX + 1] = {NULL};
    struct worker_host_options options = {.io = s->role.io,
                                          .boot = clock_boot(),
                                          .log = &s->role.log,
                                          .metrics = s->role.metrics,
                                          .rpc_metrics = s->role.client_metrics,
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
                                          .use_plugin =
                                              conf_choice(conf, "process.kind") == PROCESS_PLUGIN,
                                          .rate = conf_number(conf, "process.rate"),
                                          .plugins = s->plugins,
                                          .on_fenced = worker_run_on_fenced,
                                          .on_drained = on_drained,
                                          .owner = s};
    enum err err;

    for (size_t i = 0; i < s->config.coordinator_count; i++)
        coordinators[i] = s->config.coordinators[i];
    err = worker_host_open(&options, &s->host, note);
    if (err) return err;
    LOG_INFO(&s->role.log, "started", log_text("run", s->run_id),
             log_text("coordinators", s->config.coordinators[0]));
    timer_start_in(&s->refresh, REFRESH_MS);
    start_preempt(s);
    return ERR_OK;
}

/* -- the hooks -- */

static enum err worker_run_read_config(struct worker_role_state *s, struct note *note)
{
    struct buf problems, warnings;
    struct str line, rest;
    enum err err;

    buf_init(&problems, PROGRAM_TEXT_MAX);
    buf_init(&warnings, PROGRAM_TEXT_MAX);
    err = worker_config_read(s->role.conf, &s->config, &problems, &warnings);
    if (err) note_set(note, "%.*s", STR_ARG(buf_peek(&problems)));
    for (rest = buf_peek(&warnings); !err && rest.len && str_split(&rest, '\n', &line);)
        if (line.len)
            LOG_WARN(&s->role.instruments->log,
                     "a worker setting is questionable: it is used nevertheless",
                     log_str("warning", line));
    buf_deinit(&problems);
    buf_deinit(&warnings);
    return err;
}

static enum err worker_begin(void *state, struct note *note)
{
    struct worker_role_state *s = state;
    enum err err = worker_run_read_config(s, note);

    if (!err) err = name_worker(s);
    if (err) return err;
    role_log(&s->role, "worker",
             (const struct log_field[]){log_text("worker", s->worker_id), LOG_END});
    err = timer_init(&s->refresh, s->role.io->loop, on_refresh);
    return err ? err : timer_init(&s->preempt, s->role.io->loop, on_preempt);
}

static enum err open_stores(void *state, struct note *note)
{
    struct worker_role_state *s = state;
    const char *checkpoints = s->config.checkpoint_store;
    struct fs *fs = s->role.io->fs;
    enum err err = worker_db_check(fs, s->config.storage_path, note);

    return err || !checkpoints ? err : checkpoint_store_open(fs, checkpoints, &s->store, note);
}

static void worker_run_say_started(void *state, FILE *out)
{
    const struct worker_role_state *s = state;

    fprintf(out, "  worker       %s\n", s->worker_id);
    for (size_t i = 0; i < s->config.coordinator_count; i++)
        fprintf(out, "  coordinator  %s\n", s->config.coordinators[i]);
}

static void worker_run_reload(void *state)
{
    struct worker_role_state *s = state;

    refresh_now(s);
    plugins_reload(s->plugins);
}

/* Ends in on_drained. */
static void drain_host(void *state)
{
    struct worker_role_state *s = state;

    worker_host_drain(s->host);
}

/* Accepts any half-built state. */
static void close_worker(void *state)
{
    struct worker_role_state *s = state;

    timer_deinit(&s->refresh);
    timer_deinit(&s->preempt);
    CHASSIS_AWAIT(s->role.chassis, worker_host_close, s->host);
    CHASSIS_AWAIT(s->role.chassis, plugins_close, s->plugins);
    checkpoint_store_close(s->store);
    cert_workers_close(s->ca);
    role_close(&s->role);
}

static enum err check_plugin(const struct conf *conf, struct fs *, struct note *note)
{
    if (conf_choice(conf, "process.kind") != PROCESS_PLUGIN || conf_list(conf, "plugin").item_count)
        return ERR_OK;
    return note_fail(note, ERR_INVALID, "process.kind is \"plugin\", and there is no --plugin");
}

static const struct chassis_hooks worker_run_hooks = {
    .role = &worker_role,
    CHASSIS_STATE(struct worker_role_state),
    .steps = CHASSIS_STEPS(worker_begin, open_stores, open_certificate, role_open_client_metrics,
                           load_plugins, worker_run_open_host),
    .drains = CHASSIS_DRAINS(drain_host),
    .second_signal_ends = true,
    .check = check_plugin,
    .say_started = worker_run_say_started,
    .reload = worker_run_reload,
    .close = close_worker,
};

const struct command worker_command =
    COMMAND_TREE(HELP_MUSTER_WORKER, COMMAND(COMMAND_ROW(HELP_MUSTER_WORKER_RUN, worker_run),
                                             CHASSIS_RUN(worker_run_hooks)));
