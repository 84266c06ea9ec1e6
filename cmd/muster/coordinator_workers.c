/* SPDX-License-Identifier: Apache-2.0 */
/* Worker membership of a coordinator: settings, events, ledger, service, the workers' listener, and
 * the pages of rollout's HTTP API. The service is open even without a [transport] section, because
 * its state machine is in every log. Runs on the loop's thread. */
#include <string.h>

#include "common/files.h"
#include "common/version.h"
#include "member/events/events.h"
#include "member/ledger/ledger.h"
#include "member/service.h"
#include "member/settings.h"
#include "muster/coordinator.h"

enum {
    FLUSH_MS = 100,  /* before another try to write to a full event pipe */
    PAGES_EVERY = 5, /* flushes */
    LISTS_EVERY = 20,
    HTTP_UNAVAILABLE = 503,
    CERTS_EVERY = 600, /* flushes: a minute */
    PING_LEAST_MS = 5000,
    PROBLEMS_MAX = 64 << 10,
    PAGE_MAX = 64 << 20,
};

/* -- settings -- */

static enum err coordinator_workers_read_config(struct coordinator *c, struct note *note)
{
    struct buf problems, warnings;
    enum err err;

    buf_init(&problems, PROBLEMS_MAX);
    buf_init(&warnings, PROBLEMS_MAX);
    err = member_config_read(c->role.conf, &c->workers.config, &problems, &warnings);
    if (err) note_set(note, "%.*s", STR_ARG(buf_peek(&problems)));
    if (!err && warnings.len)
        LOG_WARN(c->log, "workers' configuration has a problem",
                 log_str("about", buf_peek(&warnings)));
    buf_deinit(&problems);
    buf_deinit(&warnings);
    return err;
}

/* -- events -- */

static enum err workers_open_events(struct coordinator *c, struct note *note)
{
    static const enum events_kind kinds[] = {[CONFIG_SINK_STDOUT] = EVENTS_STDOUT,
                                             [CONFIG_SINK_FILE] = EVENTS_FILE,
                                             [CONFIG_SINK_NONE] = EVENTS_NONE};
    struct coordinator_workers *w = &c->workers;
    const struct conf *conf = c->role.conf;
    char path[FS_PATH_CAP], run[ULID_TEXT_CAP];
    struct events_options options = {
        .kind = kinds[w->config.events.sink],
        .fs = c->role.io->fs,
        .clock = c->role.io->clock,
        .path = path,
        .rotate_bytes = conf_number(conf, "events.file-max"),
        .keep = (uint32_t)conf_number(conf, "events.files-kept"),
        .queue_max = w->config.events.queue,
        .loop = c->role.io->loop,
        .log = c->log,
        .name = "workers' events",
    };
    enum err err =
        files_below_data_dir(conf, "events.worker_file", w->config.events.file, path, note);

    if (err) return err;
    err = events_open(&options, &w->sink, note);
    if (err) {
        note_prefix(note, "events.worker_file");
        return err;
    }
    ulid_text(&w->config.run_id, run);
    return member_events_open(
        &(struct member_events_options){
            .sink = w->sink,
            .clock = c->role.io->clock,
            .log = c->log,
            .run_id = str_from(run),
            .heartbeat = (enum member_events_heartbeat)w->config.events.heartbeat,
            .heartbeat_limit = w->config.events.heartbeat_event_limit,
            .ids = w->config.events.ids,
            .rollout_only = w->config.events.rollout_only,
            .seed = entropy_u64(c->role.io->entropy),
        },
        &w->events);
}

static bool log_is_slow(void *owner)
{
    return ((const struct coordinator *)owner)->workers.log_is_slow;
}

static enum err workers_open_ledger(struct coordinator *c)
{
    struct coordinator_workers *w = &c->workers;

    return member_ledger_open(
        &(struct member_ledger_options){
            .io = c->role.io,
            .log = c->log,
            .path = w->config.storage.path,
            .flush_ms = w->config.storage.heartbeat_flush_interval_ms,
            .log_is_slow = log_is_slow,
            .owner = c,
        },
        &w->ledger);
}

/* -- the service and its listener -- */

static enum err workers_open_service(struct coordinator *c, struct note *note)
{
    struct coordinator_workers *w = &c->workers;
    struct member_service_options service = {
        .io = c->role.io,
        .log = c->log,
        .metrics = c->role.metrics,
        .leader_address = coordinator_leader_address,
        .owner = c,
        .tls = c->role.client_tls,
        .name = conf_text(c->role.conf, "id"),
        .run = w->config.run_id,
        .events = w->events,
        .ledger = w->ledger,
    };

    member_settings_read(c->role.conf, &service);
    return member_service_open(&service, &w->service, note);
}

/* If the page cannot be written, the old page stays. */
static void workers_publish_page(struct coordinator *c, const char *path, const char *type,
                                 enum err (*write)(const struct member_service *, struct buf *))
{
    struct buf *page = &c->workers.page;

    buf_clear(page);
    if (!write(c->workers.service, page))
        chassis_publish(c->role.chassis, path, CHASSIS_HTTP_OK, type, buf_peek(page));
}

static void workers_publish_lists(struct coordinator *c)
{
    workers_publish_page(c, "/workers", "application/x-ndjson", member_workers_write);
    workers_publish_page(c, "/partitions", "application/x-ndjson", member_partitions_write);
}

static void workers_publish(struct coordinator *c)
{
    struct coordinator_workers *w = &c->workers;
    struct chassis *chassis = c->role.chassis;
    enum member_health health;
    int status;

    buf_clear(&w->page);
    if (member_health_write(w->service, version_number(), &w->page, &health)) return;
    status = health == MEMBER_HEALTH_UNAVAILABLE ? HTTP_UNAVAILABLE : CHASSIS_HTTP_OK;
    chassis_publish(chassis, "/health", status, "application/json", buf_peek(&w->page));
    chassis_publish(chassis, "/ready", status, "text/plain",
                    status == CHASSIS_HTTP_OK ? STR("ready\n") : STR("not ready\n"));
    workers_publish_page(c, "/status", "application/json", member_status_write);
}

static void look_at_certificates(struct coordinator *c)
{
    struct cert_workers *ca = c->workers.ca;
    struct note note = {""};
    bool changed;

    if (ca && cert_workers_refresh(ca, clock_wall(c->role.io->clock), &changed, &note))
        LOG_WARN(c->log, "workers' certificates could not be renewed", log_text("why", note.text));
}

/* Ends the process if there was no leader for too long, so that a supervisor notices (workers.md
 * 15). */
static void workers_give_up(struct coordinator *c)
{
    const struct member_config *config = &c->workers.config;
    struct note note;

    note_set(&note, "no leader was heard of within start_timeout %llums",
             (unsigned long long)config->start_timeout_ms);
    chassis_give_up(c->role.chassis, (int)config->loser_exit, ERR_NOT_READY, &note);
}

/* The heartbeat ledger waits while a log entry of the previous tick is not on disk. */
static void workers_watch_log(struct coordinator *c)
{
    struct coordinator_workers *w = &c->workers;
    struct replica_status status = replica_status(c->replica);

    w->log_is_slow = status.durable < w->last_index;
    w->last_index = status.last;
    w->led |= status.leader_id != 0;
    if (!w->led && mono_due(w->give_up_at, loop_now(c->role.io->loop))) workers_give_up(c);
}

static void workers_on_tick(struct timer *timer)
{
    struct coordinator *c = CONTAINER_OF(timer, struct coordinator, workers.timer);
    struct coordinator_workers *w = &c->workers;

    w->ticks++;
    workers_watch_log(c);
    if (w->sink) (void)events_flush(w->sink);
    if (w->ticks % PAGES_EVERY == 0) workers_publish(c);
    if (w->ticks % LISTS_EVERY == 0) workers_publish_lists(c);
    if (w->ticks % CERTS_EVERY == 0) look_at_certificates(c);
    timer_start_in(timer, FLUSH_MS);
}

enum err coordinator_workers_open(struct coordinator *c, struct note *note)
{
    struct coordinator_workers *w = &c->workers;
    enum err err = coordinator_workers_read_config(c, note);

    buf_init(&w->page, PAGE_MAX);
    if (!err) err = timer_init(&w->timer, c->role.io->loop, workers_on_tick);
    if (!err && w->config.enabled) err = workers_open_events(c, note);
    if (!err && w->config.enabled) err = workers_open_ledger(c);
    return err ? err : workers_open_service(c, note);
}

static enum err coordinator_workers_listen(struct coordinator *c, struct note *note)
{
    struct coordinator_workers *w = &c->workers;
    const struct member_transport *t = &w->config.transport;
    const char *fleet = conf_text(c->role.conf, "tls.ca-file");
    struct rpc_server_options options = {
        .io = c->role.io,
        .log = c->log,
        .meter = c->role.meter,
        /* separate from the fleet's authority, unless both settings name one file */
        .outsiders = !fleet || !t->ca_file || strcmp(fleet, t->ca_file) != 0,
        .limits = {.connections_max = (uint32_t)t->max_connections,
                   /* an idle second connection sends only pings */
                   .ping_min_interval_ms = PING_LEAST_MS,
                   .connections_per_identity_max = (uint32_t)t->max_connections,
                   .calls_max = 2 * (uint32_t)t->max_connections},
    };
    enum err err = role_open_worker_ca(&c->role, c->log, t, NULL, &w->ca, note);

    if (!err) err = role_listener_open(&w->listener, &options, note);
    if (!err) err = member_service_methods(w->service, w->listener.server, true, note);
    return err ? err
               : role_listener_listen(&w->listener, "transport.listen_addr", t->listen_addr,
                                      cert_workers_context(w->ca), note);
}

enum err coordinator_workers_serve(struct coordinator *c, struct note *note)
{
    struct coordinator_workers *w = &c->workers;
    uint64_t start_timeout_ms = w->config.start_timeout_ms;
    enum err err;

    if (!w->config.enabled) return ERR_OK;
    err = member_service_methods(w->service, c->role.server, false, note);
    if (!err) err = coordinator_workers_listen(c, note);
    if (err) return err;
    if (conf_bool(c->role.conf, "placement.grant_to_legacy"))
        LOG_WARN(c->log, "placement.grant_to_legacy is on: workers that only send heartbeats get "
                         "partitions, and nothing proves that they fence themselves");
    w->give_up_at =
        start_timeout_ms ? mono_after(loop_now(c->role.io->loop), start_timeout_ms) : MONO_NEVER;
    timer_start_in(&w->timer, FLUSH_MS);
    return ERR_OK;
}

void coordinator_workers_reload(void *state)
{
    struct coordinator *c = state;
    const struct conf *conf = c->role.conf_now;
    struct coordinator_workers *w = &c->workers;
    struct member_service_options service = {0};
    struct member_config next;
    struct buf problems;

    if (!w->config.enabled) return;
    buf_init(&problems, PROBLEMS_MAX);
    if (!member_config_read(conf, &next, &problems, NULL)) {
        member_settings_read(conf, &service);
        if (member_service_reload(w->service, &service.local))
            LOG_ERROR(c->log,
                      "reload of detector.* and checkpoint.* failed: the old values stay in force");
        member_events_set(w->events, (enum member_events_heartbeat)next.events.heartbeat,
                          next.events.heartbeat_event_limit, next.events.ids,
                          next.events.rollout_only);
    }
    buf_deinit(&problems);
    look_at_certificates(c);
}

void coordinator_workers_close(struct coordinator *c)
{
    struct coordinator_workers *w = &c->workers;

    CHASSIS_AWAIT(c->role.chassis, member_service_stop, w->service);
    member_service_close(w->service);
    rpc_health_close(w->listener.health);
    timer_deinit(&w->timer);
    member_ledger_close(w->ledger);
    member_events_close(w->events);
    events_close(w->sink);
    cert_workers_close(w->ca);
    buf_deinit(&w->page);
}
