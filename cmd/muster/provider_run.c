/* SPDX-License-Identifier: Apache-2.0 */
/* muster provider run: the reference provider. Joins the parts; decides nothing.
 *
 * Up:   backend -> host (state file read) -> gRPC server -> the backend begins, offers machines
 * Down: server drained -> host and backend; machines and their state stay */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/chassis.h"
#include "common/tables.h"
#include "io/tls.h"
#include "muster/commands.h"
#include "muster/provider_backend.h"
#include "provider/host/service.h"
#include "rpc/health.h"
#include "rpc/meter.h"
#include "rpc/reflection.h"
#include "wire/descriptors.h"

#define SERVICE_NAME "bigfleet.v1alpha1.CapacityProvider"
enum { DRAIN_WITHIN_MS = 5000 };

struct provider_role_state {
    struct chassis *chassis;
    struct io *io;
    const struct conf *conf;
    struct log_source log;
    struct tls_context *tls;
    char state[FS_PATH_CAP];
    struct fs_lock *lock; /* of the state's directory, where that is not the data directory */
    struct host *host;
    struct host_service *service;
    struct rpc_meter *meter;
    struct rpc_server *server;
    struct rpc_health *health;
    struct rpc_reflection *reflection;
    struct health_check *ready;
    bool server_closed;
};

/* -- opening -- */

/* The directory of a path, as the caller wrote it. */
static void directory_of(const char *path, char dir[FS_PATH_CAP])
{
    const char *slash = strrchr(path, '/');

    if (!slash)
        snprintf(dir, FS_PATH_CAP, ".");
    else
        snprintf(dir, FS_PATH_CAP, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

static enum err find_state(struct provider_role_state *s, struct note *note)
{
    const char *given = conf_text(s->conf, "state"), *data = conf_text(s->conf, "data-dir");
    int len = given ? snprintf(s->state, sizeof s->state, "%s", given)
                    : snprintf(s->state, sizeof s->state, "%s/state", data);
    char dir[FS_PATH_CAP];
    enum err err;

    if (len >= (int)sizeof s->state) {
        note_set(note, "state: too long a path");
        return ERR_INVALID;
    }
    directory_of(s->state, dir);
    if (!given || strcmp(dir, data) == 0) return ERR_OK; /* locked already */
    err = fs_make_dirs(s->io->fs, dir, 0755);
    if (err && err != ERR_UNKNOWN) {
        note_set(note, "state %s: %s", s->state, err_text(err));
        return err;
    }
    err = fs_lock_dir(s->io->fs, dir, &s->lock, note);
    if (err) note_prefix(note, "state %s", s->state);
    return err;
}

static void on_failed(void *owner, enum err err, const struct note *note)
{
    struct provider_role_state *s = owner;
    chassis_fail(s->chassis, err, note);
}

static enum err open_host(struct provider_role_state *s, struct note *note)
{
    struct host_options options = {
        .io = s->io,
        .log = &s->log,
        .metrics = instruments_metrics(chassis_instruments(s->chassis)),
        .state = s->state,
        .name = conf_text(s->conf, "name"),
        .compact_bytes = conf_number(s->conf, "state-rewrite"),
        .on_failed = on_failed,
        .owner = s,
    };
    enum err err = provider_backend_open(s->conf, s->io, &s->log, &options.own_backend, note);

    return err ? err : host_open(&options, &s->host, note);
}

static enum err open_server(struct provider_role_state *s, struct note *note)
{
    struct metrics *metrics = instruments_metrics(chassis_instruments(s->chassis));
    struct rpc_server_options options = {.io = s->io, .log = &s->log};
    enum err err = rpc_meter_open(metrics, &s->meter, note);

    options.meter = s->meter;
    host_server_limits(&options.limits);
    if (!err) err = rpc_server_open(&options, &s->server, note);
    if (!err) err = host_service_open(s->host, s->server, &s->service, note);
    if (!err) err = rpc_health_open(s->server, &s->health, note);
    if (!err) err = rpc_reflection_open(s->server, descriptors_product(), &s->reflection, note);
    if (!err) err = rpc_health_set(s->health, STR_EMPTY, RPC_SERVING);
    if (!err) err = rpc_health_set(s->health, STR(SERVICE_NAME), RPC_SERVING);
    return err;
}

/* Nobody is let in before the machines are there: a List without them would remove them from a
 * shard's inventory. */
static enum err open_door(struct provider_role_state *s, struct note *note)
{
    enum err err = host_start(s->host, note);

    if (err) return err;
    err = rpc_server_listen(s->server, conf_text(s->conf, "listen"), s->tls, note);
    if (err) note_prefix(note, "listen");
    return err;
}

static enum err open_role(struct chassis *chassis, void **ret_state, struct note *note)
{
    struct provider_role_state *s = calloc(1, sizeof *s);
    struct instruments *instruments = chassis_instruments(chassis);
    enum err err;

    if (!s) return ERR_NOMEM;
    *ret_state = s;
    s->chassis = chassis;
    s->io = chassis_io(chassis);
    s->conf = chassis_conf(chassis);
    log_source_init(&s->log, instruments_log(instruments)->logger, "provider",
                    (const struct log_field[]){LOG_END});
    err = instruments_check(instruments, "machines", "machines are not loaded", &s->ready);
    if (!err) err = find_state(s, note);
    if (!err && conf_is_set(s->conf, "tls.cert-file"))
        err = chassis_tls(chassis, TLS_SERVER, "h2", &s->tls, note);
    if (!err) err = open_host(s, note);
    if (!err) err = open_server(s, note);
    if (!err) err = open_door(s, note);
    if (err) return err;
    if (!s->tls && !address_is_loopback(conf_text(s->conf, "listen")))
        LOG_WARN(&s->log, "listener is open to the network without TLS",
                 log_text("at", conf_text(s->conf, "listen")));
    health_check_set(s->ready, true, "");
    return ERR_OK;
}

static void say_started(void *state, FILE *out)
{
    const struct provider_role_state *s = state;

    fprintf(out, "  gRPC         %s\n", rpc_server_address(s->server, 0));
    fprintf(out, "  state        %s%s\n", s->state, host_loaded(s->host)->made ? " (new)" : "");
    fprintf(out, "  machines     %" PRIu64 "\n", book_stats(host_book(s->host)).total);
}

/* -- running and closing -- */

static void reload(void *state)
{
    struct provider_role_state *s = state;
    struct note note;

    if (host_reload(s->host, &note))
        LOG_ERROR(&s->log, "catalogue is wrong, the old one stays", log_text("why", note.text));
}

static void on_drained(void *owner)
{
    struct provider_role_state *s = owner;
    chassis_stop(s->chassis);
}

static void stop(void *state)
{
    struct provider_role_state *s = state;

    health_check_set(s->ready, false, "stopping");
    rpc_server_drain(s->server, DRAIN_WITHIN_MS, on_drained, s);
}

/* From any half-built state. */
static void close_role(void *state)
{
    struct provider_role_state *s = state;

    if (s->server) {
        rpc_server_close(s->server, chassis_set_true, &s->server_closed);
        while (!s->server_closed) chassis_turn(s->chassis);
    }
    rpc_reflection_close(s->reflection);
    rpc_health_close(s->health);
    host_service_close(s->service);
    host_close(s->host);
    rpc_meter_close(s->meter);
    tls_context_unref(s->tls);
    fs_unlock(s->io->fs, s->lock);
    free(s);
}

static int run_provider(void *context, const struct command_call *call)
{
    static const struct chassis_hooks hooks = {.check = provider_backend_check,
                                               .open = open_role,
                                               .say_started = say_started,
                                               .reload = reload,
                                               .stop = stop,
                                               .close = close_role};

    return chassis_run(context, call, &provider_role, &hooks);
}

static const struct command_example examples[] = {
    {"muster provider run", "a small cloud on this machine, for `muster shard run --provider-addr "
                            "127.0.0.1:7770`"},
    {"muster provider run --seed-count 20000 --catalogue cloud.toml", "a larger one of your own"},
    {"muster provider run --backend process --process-node ./node-agent",
     "machines that are processes"},
    {"muster provider run --backend command --command-script ./my-cloud.sh",
     "any cloud, by a script"},
    {"muster provider run --config provider.toml --addr :7770",
     "open to the network, with the TLS files named in the file"},
    {NULL, NULL},
};
static const struct command provider_run_command = {
    .name = "run",
    .summary = "run the reference provider",
    .about =
        "Runs a capacity provider: shards create, configure, drain and delete its machines by "
        "gRPC. It keeps every machine, operation and fencing mark in one file and answers only "
        "what is durable there, so it may be killed at any moment.\n"
        "The machines are those of a catalogue: types, zones, racks, prices, quotas, how long "
        "things take, how often they fail, and when spot capacity is taken back. Without "
        "--catalogue it sells a small lively cloud. A changed catalogue is taken over while it "
        "runs. With --backend process each machine is a process on this host, with --backend "
        "command every operation runs a script of yours. SIGTERM or Ctrl-C stops it; operations "
        "under way go on after the next start.",
    .options = &provider_run_table,
    .examples = examples,
    .exits = BIT(1) | BIT(2) | BIT(4) | BIT(6),
    .run = run_provider,
};

static const struct command *const children[] = {&provider_run_command, NULL};
const struct command provider_command = {
    .name = "provider",
    .summary = "a capacity provider: machines to buy",
    .about = "Runs the reference provider.",
    .children = children,
};
