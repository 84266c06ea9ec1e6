/* SPDX-License-Identifier: Apache-2.0 */
/* muster provider run: the reference provider. Connects the parts and makes no decision. `hooks`
 * has the order of start and drain. Machines and their state outlive the process. Loop's thread. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/help.h"
#include "common/tables.h"
#include "muster/commands.h"
#include "muster/provider_backend.h"
#include "muster/role.h"
#include "provider/host/service.h"

#define PROVIDER_RUN_SERVICE_NAME "bigfleet.v1alpha1.CapacityProvider"

struct provider_role_state {
    struct role_base role;
    char state[FS_PATH_CAP];
    struct fs_lock *lock; /* on the directory of `state`, if that is not the data directory */
    struct host *host;
    struct host_service *service;
};

/* -- opening -- */

static void directory_of(const char *path, char dir[FS_PATH_CAP])
{
    const char *slash = strrchr(path, '/');

    if (!slash)
        snprintf(dir, FS_PATH_CAP, ".");
    else
        snprintf(dir, FS_PATH_CAP, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

static enum err find_state(void *state, struct note *note)
{
    struct provider_role_state *s = state;
    const char *given = conf_text(s->role.conf, "state"),
               *data = conf_text(s->role.conf, "data-dir");
    int len = given ? snprintf(s->state, sizeof s->state, "%s", given)
                    : snprintf(s->state, sizeof s->state, "%s/state", data);
    char dir[FS_PATH_CAP];
    enum err err;

    if (len >= (int)sizeof s->state) return note_fail(note, ERR_INVALID, "state: too long a path");
    role_log(&s->role, "provider", (const struct log_field[]){LOG_END});
    directory_of(s->state, dir);
    if (!given || strcmp(dir, data) == 0) return ERR_OK; /* locked already */
    err = fs_make_dirs(s->role.io->fs, dir, 0755);
    if (err && err != ERR_UNKNOWN)
        return note_fail(note, err, "state %s: %s", s->state, err_text(err));
    err = fs_lock_dir(s->role.io->fs, dir, &s->lock, note);
    if (err) note_prefix(note, "state %s", s->state);
    return err;
}

static void on_failed(void *owner, enum err err, const struct note *note)
{
    struct provider_role_state *s = owner;
    chassis_fail(s->role.chassis, err, note);
}

static enum err provider_run_open_host(void *state, struct note *note)
{
    struct provider_role_state *s = state;
    struct host_options options = {
        .io = s->role.io,
        .log = &s->role.log,
        .metrics = s->role.metrics,
        .state = s->state,
        .name = conf_text(s->role.conf, "name"),
        .compact_bytes = conf_number(s->role.conf, "state-rewrite"),
        .on_failed = on_failed,
        .owner = s,
    };
    enum err err =
        provider_backend_open(s->role.conf, s->role.io, &s->role.log, &options.own_backend, note);

    return err ? err : host_open(&options, &s->host, note);
}

static enum err provider_run_open_server(void *state, struct note *note)
{
    struct provider_role_state *s = state;
    struct rpc_server_options options = {.log = &s->role.log};
    enum err err;

    host_server_limits(&options.limits);
    err = role_open_server(&s->role, &options, note);
    if (!err) err = host_service_open(s->host, s->role.server, &s->service, note);
    return err ? err : role_open_health(&s->role, PROVIDER_RUN_SERVICE_NAME, RPC_SERVING, note);
}

/* Listens after the machines are loaded. An earlier List would be empty, and a shard would lose all
 * machines. */
static enum err provider_begin(void *state, struct note *note)
{
    struct provider_role_state *s = state;
    enum err err = host_start(s->host, note);

    if (!err) err = role_listen(&s->role, note);
    if (err) return err;
    role_warn_of_listener(&s->role);
    health_check_set(s->role.ready, true, "");
    return ERR_OK;
}

static void provider_run_say_started(void *state, FILE *out)
{
    const struct provider_role_state *s = state;

    fprintf(out, "  gRPC         %s\n", rpc_server_address(s->role.server, 0));
    fprintf(out, "  state        %s%s\n", s->state, host_loaded(s->host)->made ? " (new)" : "");
    fprintf(out, "  machines     %" PRIu64 "\n", book_stats(host_book(s->host)).total);
}

/* -- running and closing -- */

static void provider_run_reload(void *state)
{
    struct provider_role_state *s = state;
    struct note note;

    if (host_reload(s->host, &note))
        LOG_ERROR(&s->role.log, "reload of the catalogue failed: the old one stays in force",
                  log_text("why", note.text));
}

/* Accepts any half-built state. */
static void close_provider(void *state)
{
    struct provider_role_state *s = state;

    role_close_server(&s->role);
    host_service_close(s->service);
    host_close(s->host);
    fs_unlock(s->role.io->fs, s->lock);
    role_close(&s->role);
}

static const struct chassis_hooks provider_run_hooks = {
    .role = &provider_role,
    CHASSIS_STATE(struct provider_role_state),
    .ready_check = "machines",
    .ready_reason = "machines are not loaded",
    .tls = ROLE_TLS_SERVER,
    .steps = CHASSIS_STEPS(role_open_ready, find_state, role_open_tls, provider_run_open_host,
                           provider_run_open_server, provider_begin),
    .drains = CHASSIS_DRAINS(role_drain_ready, role_drain_server),
    .check = provider_backend_check,
    .say_started = provider_run_say_started,
    .reload = provider_run_reload,
    .close = close_provider,
};

const struct command provider_command =
    COMMAND_TREE(HELP_MUSTER_PROVIDER, COMMAND(COMMAND_ROW(HELP_MUSTER_PROVIDER_RUN, provider_run),
                                               CHASSIS_RUN(provider_run_hooks)));
