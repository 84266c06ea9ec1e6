/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/coordinator_workers.h"

#include <stdlib.h>
#include <string.h>

#include "cert/workers.h"
#include "common/files.h"
#include "common/version.h"
#include "member/config/config.h"
#include "member/events/events.h"
#include "member/ledger/ledger.h"
#include "member/service.h"
#include "member/settings.h"

enum {
    FLUSH_MS = 100,  /* events that a full pipe did not take */
    PAGES_EVERY = 5, /* flushes */
    LISTS_EVERY = 20,
    HTTP_FINE = 200,
    HTTP_UNAVAILABLE = 503,
    CERTS_EVERY = 600, /* flushes: a minute */
    PING_LEAST_MS = 5000,
    PROBLEMS_MAX = 64 << 10,
    PAGE_MAX = 64 << 20,
};
struct coordinator_workers {
    struct chassis *chassis;
    struct io *io;
    const struct log_source *log;
    struct member_config config;
    struct cert_workers *ca;
    struct events *sink;
    struct worker *sink_worker;
    struct member_events *events;
    struct member_ledger *ledger;
    struct member_service *service;
    struct role_listener listener;
    struct timer timer;
    uint64_t ticks;
    struct replica *replica;
    uint64_t last_index; /* of the log, a tick ago: is it on disk by now? */
    bool log_is_slow, led;
    mono_time give_up_at;
    struct buf page;
};

/* -- settings -- */

static enum err read_config(struct coordinator_workers *w, struct note *note)
{
    struct buf problems, warnings;
    enum err err;

    buf_init(&problems, PROBLEMS_MAX);
    buf_init(&warnings, PROBLEMS_MAX);
    err = member_config_read(chassis_conf(w->chassis), &w->config, &problems, &warnings);
    if (err) note_set(note, "%.*s", STR_ARG(buf_peek(&problems)));
    if (!err && warnings.len) LOG_WARN(w->log, "workers", log_str("about", buf_peek(&warnings)));
    buf_deinit(&problems);
    buf_deinit(&warnings);
    return err;
}

/* -- events -- */

static void on_trouble(void *context, enum err trouble, const char *note, uint64_t lost)
{
    const struct coordinator_workers *w = context;

    if (trouble)
        LOG_ERROR(w->log, "workers' events cannot be written", log_err("err", trouble),
                  log_text("why", note));
    else
        LOG_WARN(w->log, "workers' events are written again", log_u64("lost", lost));
}

static enum err open_events(struct coordinator_workers *w, struct note *note)
{
    static const enum events_kind kinds[] = {[CONFIG_SINK_STDOUT] = EVENTS_STDOUT,
                                             [CONFIG_SINK_FILE] = EVENTS_FILE,
                                             [CONFIG_SINK_NONE] = EVENTS_NONE};
    const struct conf *conf = chassis_conf(w->chassis);
    char path[FS_PATH_CAP], run[ULID_TEXT_CAP];
    struct events_options options = {
        .kind = kinds[w->config.events.sink],
        .fs = w->io->fs,
        .clock = w->io->clock,
        .path = path,
        .rotate_bytes = conf_number(conf, "events.file-max"),
        .keep = (uint32_t)conf_number(conf, "events.files-kept"),
        .queue_max = w->config.events.queue,
        .on_trouble = on_trouble,
        .context = w,
    };
    enum err err =
        files_below_data_dir(conf, "events.worker_file", w->config.events.file, path, note);

    if (err) return err;
    if (options.kind == EVENTS_FILE)
        err = worker_open(w->io->loop, &(struct worker_options){.name = "events", .jobs_max = 64},
                          &w->sink_worker);
    options.worker = w->sink_worker;
    if (!err) err = events_open(&options, &w->sink, note);
    if (err) {
        note_prefix(note, "events.worker_file");
        return err;
    }
    ulid_text(&w->config.run_id, run);
    return member_events_open(
        &(struct member_events_options){
            .sink = w->sink,
            .clock = w->io->clock,
            .log = w->log,
            .run_id = str_from(run),
            .heartbeat = (enum member_events_heartbeat)w->config.events.heartbeat,
            .heartbeat_limit = w->config.events.heartbeat_event_limit,
            .ids = w->config.events.ids,
            .rollout_only = w->config.events.rollout_only,
            .seed = entropy_u64(w->io->entropy),
        },
        &w->events);
}

static bool log_is_slow(void *owner)
{
    return ((const struct coordinator_workers *)owner)->log_is_slow;
}

static enum err open_ledger(struct coordinator_workers *w)
{
    return member_ledger_open(
        &(struct member_ledger_options){
            .io = w->io,
            .log = w->log,
            .path = w->config.storage.path,
            .flush_ms = w->config.storage.heartbeat_flush_interval_ms,
            .log_is_slow = log_is_slow,
            .owner = w,
        },
        &w->ledger);
}

/* -- the service and its listener -- */

static enum err open_service(struct coordinator_workers *w,
                             const struct coordinator_workers_options *options, struct note *note)
{
    struct member_service_options service = {
        .io = w->io,
        .log = w->log,
        .metrics = instruments_metrics(chassis_instruments(w->chassis)),
        .leader_address = options->leader_address,
        .owner = options->owner,
        .tls = options->tls,
        .name = conf_text(chassis_conf(w->chassis), "id"),
        .run = w->config.run_id,
        .events = w->events,
        .ledger = w->ledger,
    };

    member_settings_read(chassis_conf(w->chassis), &service);
    return member_service_open(&service, &w->service, note);
}

static enum err open_ca(struct coordinator_workers *w, struct note *note)
{
    const struct member_transport *t = &w->config.transport;
    enum err err = cert_workers_open(w->io->fs,
                                     &(struct cert_workers_options){
                                         .tls_dir = t->tls_dir,
                                         .ca_file = t->ca_file,
                                         .cert_file = t->cert_file,
                                         .key_file = t->key_file,
                                         .strict_permissions = t->strict_permissions,
                                     },
                                     clock_wall(w->io->clock), &w->ca, note);

    if (err) {
        note_prefix(note, "transport");
        return err;
    }
    if (cert_workers_notice(w->ca)[0]) fprintf(stderr, "%s\n", cert_workers_notice(w->ca));
    if (cert_workers_warning(w->ca)[0])
        LOG_WARN(w->log, "workers' certificates", log_text("about", cert_workers_warning(w->ca)));
    return ERR_OK;
}

static void publish_lists(struct coordinator_workers *w)
{
    buf_clear(&w->page);
    if (!member_workers_write(w->service, &w->page))
        (void)chassis_publish(w->chassis, "/workers", "application/x-ndjson", buf_peek(&w->page));
    buf_clear(&w->page);
    if (!member_partitions_write(w->service, &w->page))
        (void)chassis_publish(w->chassis, "/partitions", "application/x-ndjson",
                              buf_peek(&w->page));
}

static void publish(struct coordinator_workers *w)
{
    enum member_health health;
    int status;

    buf_clear(&w->page);
    if (member_health_write(w->service, version_number(), &w->page, &health)) return;
    status = health == MEMBER_HEALTH_UNAVAILABLE ? HTTP_UNAVAILABLE : HTTP_FINE;
    (void)chassis_publish_as(w->chassis, "/health", status, "application/json", buf_peek(&w->page));
    (void)chassis_publish_as(w->chassis, "/ready", status, "text/plain",
                             status == HTTP_FINE ? STR("ready\n") : STR("not ready\n"));
    buf_clear(&w->page);
    if (!member_status_write(w->service, &w->page))
        (void)chassis_publish(w->chassis, "/status", "application/json", buf_peek(&w->page));
}

static void look_at_certificates(struct coordinator_workers *w)
{
    struct note note = {""};
    bool changed;

    if (w->ca && cert_workers_refresh(w->ca, clock_wall(w->io->clock), &changed, &note))
        LOG_WARN(w->log, "workers' certificates were not renewed", log_text("why", note.text));
}

/* Without a leader nobody can be served; a supervisor should know (workers.md 15). */
static void give_up(struct coordinator_workers *w)
{
    struct note note;

    note_set(&note, "no leader was heard of within start_timeout %llums",
             (unsigned long long)w->config.start_timeout_ms);
    chassis_give_up(w->chassis, (int)w->config.loser_exit, ERR_NOT_READY, &note);
}

/* An entry that was there a tick ago and is not on disk yet makes the ledger wait. */
static void watch_log(struct coordinator_workers *w)
{
    struct replica_status status = replica_status(w->replica);

    w->log_is_slow = status.durable < w->last_index;
    w->last_index = status.last;
    w->led |= status.leader_id != 0;
    if (!w->led && mono_due(w->give_up_at, loop_now(w->io->loop))) give_up(w);
}

static void on_tick(struct timer *timer)
{
    struct coordinator_workers *w = CONTAINER_OF(timer, struct coordinator_workers, timer);

    w->ticks++;
    watch_log(w);
    if (w->sink) (void)events_flush(w->sink);
    if (w->ticks % PAGES_EVERY == 0) publish(w);
    if (w->ticks % LISTS_EVERY == 0) publish_lists(w);
    if (w->ticks % CERTS_EVERY == 0) look_at_certificates(w);
    timer_start_in(timer, FLUSH_MS);
}

enum err coordinator_workers_open(const struct coordinator_workers_options *options,
                                  struct coordinator_workers **ret_workers, struct note *note)
{
    struct coordinator_workers *w = calloc(1, sizeof *w);
    enum err err;

    if (!w) return ERR_NOMEM;
    *ret_workers = w;
    w->chassis = options->chassis;
    w->io = chassis_io(options->chassis);
    w->log = instruments_log(chassis_instruments(options->chassis));
    buf_init(&w->page, PAGE_MAX);
    err = read_config(w, note);
    if (!err) err = timer_init(&w->timer, w->io->loop, on_tick);
    if (!err && w->config.enabled) err = open_events(w, note);
    if (!err && w->config.enabled) err = open_ledger(w);
    return err ? err : open_service(w, options, note);
}

struct machine coordinator_workers_machine(struct coordinator_workers *w)
{
    return member_machine_registration(member_service_machine(w->service));
}

void coordinator_workers_attach(struct coordinator_workers *w, struct replica *replica)
{
    w->replica = replica;
    member_service_attach(w->service, replica);
}

/* The authority of workers is their own unless both settings name one file. */
static bool has_own_authority(const struct coordinator_workers *w)
{
    const char *fleet = conf_text(chassis_conf(w->chassis), "tls.ca-file");
    const char *workers = w->config.transport.ca_file;

    return !fleet || !workers || strcmp(fleet, workers) != 0;
}

static enum err listen(struct coordinator_workers *w, struct rpc_meter *meter, struct note *note)
{
    const struct member_transport *t = &w->config.transport;
    struct rpc_server_options options = {
        .io = w->io,
        .log = w->log,
        .meter = meter,
        .outsiders = has_own_authority(w),
        .limits = {.connections_max = (uint32_t)t->max_connections,
                   /* A worker's warm second connection has nothing but pings. */
                   .ping_min_interval_ms = PING_LEAST_MS,
                   .connections_per_identity_max = (uint32_t)t->max_connections,
                   .calls_max = 2 * (uint32_t)t->max_connections},
    };
    enum err err = open_ca(w, note);

    if (!err) err = role_listener_open(&w->listener, &options, note);
    if (!err) err = member_service_methods(w->service, w->listener.server, true, note);
    return err ? err
               : role_listener_listen(&w->listener, "transport.listen_addr", t->listen_addr,
                                      cert_workers_context(w->ca), note);
}

enum err coordinator_workers_serve(struct coordinator_workers *w, struct rpc_server *server,
                                   struct rpc_meter *meter, struct note *note)
{
    enum err err;

    if (!w->config.enabled) return ERR_OK;
    err = member_service_methods(w->service, server, false, note);
    if (!err) err = listen(w, meter, note);
    if (err) return err;
    if (conf_bool(chassis_conf(w->chassis), "placement.grant_to_legacy"))
        LOG_WARN(w->log, "partitions are granted to workers that only beat: nothing proves that "
                         "they fence themselves");
    w->give_up_at = w->config.start_timeout_ms
                        ? mono_after(loop_now(w->io->loop), w->config.start_timeout_ms)
                        : MONO_NEVER;
    timer_start_in(&w->timer, FLUSH_MS);
    return ERR_OK;
}

void coordinator_workers_on_change(struct coordinator_workers *w,
                                   const struct replica_status *status)
{
    member_service_on_change(w->service, status);
}

void coordinator_workers_reload(struct coordinator_workers *w)
{
    const struct conf *conf = w ? chassis_conf_now(w->chassis) : NULL;
    struct member_service_options service = {0};
    struct member_config next;
    struct buf problems;

    if (!w || !w->config.enabled) return;
    buf_init(&problems, PROBLEMS_MAX);
    if (!member_config_read(conf, &next, &problems, NULL)) {
        member_settings_read(conf, &service);
        if (member_service_reload(w->service, &service.local))
            LOG_ERROR(w->log, "detector.* and checkpoint.* stay as they are");
        member_events_set(w->events, (enum member_events_heartbeat)next.events.heartbeat,
                          next.events.heartbeat_event_limit, next.events.ids,
                          next.events.rollout_only);
    }
    buf_deinit(&problems);
    look_at_certificates(w);
}

struct role_listener *coordinator_workers_listener(struct coordinator_workers *w)
{
    return w ? &w->listener : NULL;
}

bool coordinator_workers_own_stdout(const struct coordinator_workers *w)
{
    return w->config.enabled && w->config.events.sink == CONFIG_SINK_STDOUT;
}

void coordinator_workers_stop(struct coordinator_workers *w)
{
    if (!w) return;
    timer_stop(&w->timer);
    CHASSIS_AWAIT(w->chassis, rpc_server_close, w->listener.server);
}

void coordinator_workers_close(struct coordinator_workers *w)
{
    if (!w) return;
    CHASSIS_AWAIT(w->chassis, member_service_stop, w->service);
    member_service_close(w->service);
    rpc_health_close(w->listener.health);
    timer_deinit(&w->timer);
    member_ledger_close(w->ledger);
    member_events_close(w->events);
    events_close(w->sink);
    worker_close(w->sink_worker);
    cert_workers_close(w->ca);
    buf_deinit(&w->page);
    free(w);
}
