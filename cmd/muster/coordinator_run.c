/* SPDX-License-Identifier: Apache-2.0 */
/* muster coordinator run: one replica of the coordinator. Connects the parts; makes no decision.
 * `hooks` has the order of start and drain; close_coordinator has the order of closing. Loop's
 * thread. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/help.h"
#include "common/restore_archive.h"
#include "common/tables.h"
#include "dash/token.h"
#include "fleet/join.h"
#include "fleet/roster.h"
#include "log/datadir.h"
#include "member/machine.h"
#include "member/service.h"
#include "muster/commands.h"
#include "muster/coordinator.h"

#define COORDINATOR_RUN_SERVICE_NAME "bigfleet.v1alpha1.Coordinator"
enum {
    TABLES_SHARE = 4 << 20,
    WORKERS_SHARE = 16 << 20,
    FOREIGN_KNOWN_MS = 60000, /* replicas of another cluster dial more often */
};
static_assert((int)STORE_MACHINE_VERSION <= (int)CLUSTER_LEVEL,
              "or the store could never be written to");
static_assert((int)MEMBER_MACHINE_VERSION <= (int)CLUSTER_LEVEL, "nor could workers register");

struct survey_to coordinator_join(const struct coordinator *c)
{
    return (struct survey_to){.io = c->role.io,
                              .addresses = c->join_addresses,
                              .self = c->grpc_address,
                              .tls = c->role.client_tls,
                              .look_up = true};
}

const char *coordinator_raft_address(const struct coordinator *c)
{
    const char *given = conf_text(c->role.conf, "raft-advertise");
    return given ? given : conf_text(c->role.conf, "raft-bind");
}

/* The address to advertise for a listener on `listening`. A listener on all interfaces is
 * advertised at the host of the raft address. */
static enum err reached_at(const struct coordinator *c, const char *listening,
                           char address[ADDRESS_CAP], struct note *note)
{
    struct address_parts own, raft;
    bool everywhere;
    int len;

    if (address_split(listening, &own, note) ||
        address_split(coordinator_raft_address(c), &raft, note))
        return ERR_INVALID;
    everywhere =
        own.host.len == 0 || str_equal(own.host, STR("0.0.0.0")) || str_equal(own.host, STR("::"));
    if (own.is_unix || !everywhere)
        len = snprintf(address, ADDRESS_CAP, "%s", listening);
    else
        len = snprintf(address, ADDRESS_CAP, str_has(raft.host, ':') ? "[%.*s]:%u" : "%.*s:%u",
                       STR_ARG(raft.host), own.port);
    return len < ADDRESS_CAP ? ERR_OK : ERR_TOO_LARGE;
}

/* -- TLS -- */

static enum err open_raft_tls(void *state, struct note *note)
{
    struct coordinator *c = state;
    enum err err;

    if (!conf_is_set(c->role.conf, "tls.cert-file")) return ERR_OK;
    err = chassis_tls(c->role.chassis, TLS_SERVER, NULL, &c->raft_server, note);
    return err ? err : chassis_tls(c->role.chassis, TLS_CLIENT, NULL, &c->raft_client, note);
}

/* -- the replica -- */

static void on_change(void *owner, const struct replica_status *status)
{
    static const char *const role_words[] = {"follower", "candidate", "leader"};
    struct coordinator *c = owner;
    bool led = status->leader_id != 0;

    if (!c->joins) return; /* a failed start is closing; the loop turns once more */
    LOG_INFO(c->log, "replica status changed", log_text("role", role_words[status->role]),
             log_bool("ready", status->ready), log_bool("voter", status->voter),
             log_u64("term", status->term), log_u64("commit", status->commit),
             log_text("leader", status->leader_address));
    health_check_set(c->role.ready, led && status->voter,
                     led ? "not a voter yet" : "no leader is known");
    (void)rpc_health_set(c->role.health, STR(COORDINATOR_RUN_SERVICE_NAME),
                         led ? RPC_SERVING : RPC_NOT_SERVING);
    fleet_service_on_change(c->fleet, status);
    store_service_on_change(c->store, status);
    if (c->etcd.api) etcd_on_change(c->etcd.api, status);
    member_service_on_change(c->workers.service, status);
}

static void on_stopped(void *owner, enum err why, const struct note *note)
{
    struct coordinator *c = owner;
    chassis_fail(c->role.chassis, why, note);
}

/* True for a while after a hello of another cluster, whose replicas keep dialing. */
static bool cluster_known(void *owner)
{
    struct coordinator *c = owner;

    return c->join_ordered ||
           (c->foreign_at.ms &&
            mono_elapsed_ms(c->foreign_at, loop_now(c->role.io->loop)) < FOREIGN_KNOWN_MS);
}

/* Another cluster lists this replica. The mark in the data directory makes the next start refuse to
 * serve (coordinator_bootstrap.c). */
static void on_rival(void *owner, const struct note *note)
{
    struct coordinator *c = owner;
    struct replica_status status = replica_status(c->replica);
    struct datadir mark = {.replica_id = status.id, .cluster_id = status.cluster_id};
    struct note why;

    if (datadir_mark_write(c->role.io->fs, conf_text(c->role.conf, "data-dir"), DATADIR_CONFLICT,
                           &mark, entropy_u64(c->role.io->entropy), &why))
        LOG_ERROR(c->log,
                  "could not record the conflict with another cluster: the next start does not "
                  "know of it",
                  log_text("why", why.text));
    chassis_fail(c->role.chassis, ERR_CONFLICT, note);
}

/* Judges a hello of another cluster. If that cluster knows this address under an older replica id,
 * this replica was wiped and belongs to that cluster. */
static void judge_foreign(struct task *task)
{
    struct coordinator *c = CONTAINER_OF(task, struct coordinator, foreign);
    struct replica_status status = replica_status(c->replica);
    struct replica_member members[REPLICA_MEMBERS_MAX];
    struct note note = {""};

    if (!c->bootstrapped_alone || c->foreign_to == status.id ||
        replica_members(c->replica, members) > 1)
        return;
    note_set(&note,
             "two clusters: cluster %016" PRIx64 " dials this replica as its member %016" PRIx64
             ", but it has just bootstrapped cluster %016" PRIx64
             " alone; it stops serving. To join that cluster again, remove --data-dir and give "
             "--join-addr",
             c->foreign_cluster, c->foreign_to, status.cluster_id);
    on_rival(c, &note);
}

static void on_foreign(void *owner, uint64_t cluster_id, uint64_t to)
{
    struct coordinator *c = owner;

    c->foreign_at = loop_now(c->role.io->loop);
    c->foreign_cluster = cluster_id;
    c->foreign_to = to;
    if (c->join_addresses[0] && c->joins)
        fleet_service_greeted(c->fleet, cluster_id);
    else
        loop_defer(c->role.io->loop, &c->foreign);
}

const char *coordinator_leader_address(void *coordinator)
{
    struct coordinator *c = coordinator;
    return roster_grpc(c->roster, replica_status(c->replica).leader_id);
}

static enum err open_fleet(struct coordinator *c, struct note *note)
{
    struct fleet_service_options options = {
        .io = c->role.io,
        .log = c->log,
        .metrics = c->role.metrics,
        .events = c->role.instruments->events,
        .leader_address = coordinator_leader_address,
        .owner = c,
        .seed = &c->seed,
        .roster = c->roster,
        .name = conf_text(c->role.conf, "id"),
        .dir = conf_text(c->role.conf, "data-dir"),
        .cluster_known = cluster_known,
        .rival_found = on_rival,
        .exports = {.dir = conf_text(c->role.conf, "snapshot-export-dir"),
                    .every_ms = conf_number(c->role.conf, "snapshot-export-interval"),
                    .keep = (uint32_t)conf_number(c->role.conf, "snapshot-export-keep")},
        .limits = {.silent_after_ms = conf_number(c->role.conf, "shard-silent-after")},
    };
    const char *seed = conf_text(c->role.conf, "bootstrap-state");
    enum err err = seed ? fleet_seed_read(c->role.io->fs, seed, &c->seed, note) : ERR_OK;

    return err ? err : fleet_service_open(&options, &c->fleet, note);
}

static enum err open_store(struct coordinator *c, struct note *note)
{
    struct store_service_options options = {
        .io = c->role.io,
        .log = c->log,
        .metrics = c->role.metrics,
        .leader_address = coordinator_leader_address,
        .owner = c,
        .limits = {.history_ms = conf_number(c->role.conf, "store-history"),
                   .history_revisions = conf_number(c->role.conf, "store-history-revisions")},
    };
    if (!options.limits.history_ms) options.limits.history_ms = UINT64_MAX;
    return store_service_open(&options, &c->store, note);
}

static enum err open_replica(void *state, struct note *note)
{
    struct coordinator *c = state;
    const struct conf *conf = c->role.conf;
    struct replica_options options = {
        .io = c->role.io,
        .log = c->log,
        .metrics = c->role.metrics,
        .dir = conf_text(conf, "data-dir"),
        .listen = conf_text(conf, "raft-bind"),
        .address = coordinator_raft_address(c),
        .name = conf_text(conf, "id"),
        .tls_server = c->raft_server,
        .tls_client = c->raft_client,
        .machines = c->machines,
        .level = CLUSTER_LEVEL,
        .timing = {.election_ms = (uint32_t)conf_number(conf, "election"),
                   .heartbeat_ms = (uint32_t)conf_number(conf, "heartbeat"),
                   .scale_percent = (uint32_t)conf_number(conf, "timing-scale")},
        .limits = {.snapshot_entries_min = (uint32_t)conf_number(conf, "snapshot-entries"),
                   .snapshot_every_ms = conf_number(conf, "snapshot-every"),
                   .trailing_entries = (uint32_t)conf_number(conf, "trailing-entries"),
                   .segment_bytes = conf_number(conf, "segment-size")},
        .events = {.on_change = on_change,
                   .on_stopped = on_stopped,
                   .on_foreign = on_foreign,
                   .owner = c},
    };
    enum err err = coordinator_directory(c, note);

    if (!err) health_check_set(c->role.ready, false, "no leader is known");
    if (!err) err = roster_open(&c->roster);
    if (!err) err = open_fleet(c, note);
    if (!err) err = open_store(c, note);
    if (!err) err = coordinator_workers_open(c, note);
    if (err) return err;
    c->machines[c->machine_count++] = fleet_machine_registration(fleet_service_machine(c->fleet));
    c->machines[c->machine_count++] = roster_registration(c->roster);
    c->machines[c->machine_count++] = store_machine_registration(store_service_machine(c->store));
    c->machines[c->machine_count++] =
        member_machine_registration(member_service_machine(c->workers.service));
    /* With a share of their own, fleet tables and workers stay writable under any load of the
     * store. */
    c->machines[0].in_flight_share = c->machines[1].in_flight_share = TABLES_SHARE;
    c->machines[3].in_flight_share = WORKERS_SHARE;
    options.machine_count = c->machine_count;
    err = replica_open(&options, &c->replica, note);
    if (err) return err;
    fleet_service_attach(c->fleet, c->replica, c->machines, c->machine_count);
    store_service_attach(c->store, c->replica);
    member_service_attach(c->workers.service, c->replica);
    return ERR_OK;
}

/* -- the server -- */

static enum err coordinator_run_open_server(void *state, struct note *note)
{
    struct coordinator *c = state;
    struct rpc_server_options options = {.log = c->log, .limits = etcd_server_limits()};
    enum err err = role_open_server(&c->role, &options, note);

    if (!err) err = fleet_service_methods(c->fleet, c->role.server, note);
    if (!err) err = store_service_methods(c->store, c->role.server, note);
    if (!err) err = coordinator_workers_serve(c, note);
    if (!err) err = coordinator_etcd_open(c, note);
    if (!err) err = role_open_health(&c->role, COORDINATOR_RUN_SERVICE_NAME, RPC_NOT_SERVING, note);
    return err ? err : role_listen(&c->role, note);
}

static enum err open_quorum(void *state, struct note *note)
{
    struct coordinator *c = state;
    const char *etcd = role_listener_address(&c->etcd.listener);
    const char *given = conf_text(c->role.conf, "advertise");
    struct fleet_join join = {.to = coordinator_join(c), .raft = coordinator_raft_address(c)};
    enum err err =
        reached_at(c, given ? given : rpc_server_address(c->role.server, 0), c->grpc_address, note);

    if (!err && c->role.status->http)
        err = reached_at(c, c->role.status->address, c->http_address, note);
    if (err) return err;
    snprintf(join.self.name, sizeof join.self.name, "%s", conf_text(c->role.conf, "id"));
    memcpy(join.self.grpc, c->grpc_address, sizeof join.self.grpc);
    memcpy(join.self.http, c->http_address, sizeof join.self.http);
    if (etcd[0]) {
        given = conf_text(c->role.conf, "etcd-advertise");
        err = reached_at(c, given ? given : etcd, join.self.etcd, note);
        if (err) return err;
    }
    err = fleet_service_join(c->fleet, &join, note);
    c->joins = !err;
    return err;
}

/* -- the hooks -- */

static enum err coordinator_begin(void *state, struct note *note)
{
    struct coordinator *c = state;
    struct option_value join = conf_list(c->role.conf, "join-addr");
    const char *given = conf_text(c->role.conf, "advertise");

    task_init(&c->foreign, judge_foreign);
    c->log = &c->role.instruments->log;
    for (size_t i = 0; i < join.item_count; i++) c->join_addresses[i] = join.items[i].at;
    /* This address must only identify the replica among the join addresses. */
    return reached_at(c, given ? given : conf_text(c->role.conf, "listen"), c->grpc_address, note);
}

static enum err warn_of_open_listeners(void *state, struct note *)
{
    static const char *const names[] = {"listen", "raft-bind", "etcd-listen"};
    const struct coordinator *c = state;

    for (size_t i = 0; i < ARRAY_LEN(names) && !c->role.server_tls; i++) {
        const char *address = conf_text(c->role.conf, names[i]);
        if (address && !address_is_loopback(address))
            LOG_WARN(c->log, "listener is open to the network without TLS",
                     log_text("option", names[i]), log_text("at", address));
    }
    return ERR_OK;
}

static void coordinator_run_say_started(void *state, FILE *out)
{
    const struct coordinator *c = state;
    const char *etcd = role_listener_address(&c->etcd.listener);
    const char *workers = role_listener_address(&c->workers.listener);
    struct replica_status status = replica_status(c->replica);

    if (c->dash.token[0])
        fprintf(out, "  admin token  in %s\n", c->dash.token_path);
    else if (c->dash.dash)
        fprintf(out, "  dashboard    read-only\n");
    fprintf(out, "  gRPC         %s\n", rpc_server_address(c->role.server, 0));
    if (etcd[0]) fprintf(out, "  etcd         %s\n", etcd);
    if (workers[0]) fprintf(out, "  workers      %s\n", workers);
    fprintf(out, "  Raft         %s\n", replica_address(c->replica));
    fprintf(out, "  replica      %016" PRIx64 " (%s)\n", status.id, conf_text(c->role.conf, "id"));
}

static bool owns_stdout(const void *state)
{
    const struct member_config *config = &((const struct coordinator *)state)->workers.config;

    return config->enabled && config->events.sink == CONFIG_SINK_STDOUT;
}

/* -- the end -- */

static void drain_dash(void *state)
{
    struct coordinator *c = state;

    coordinator_dash_stop(c); /* one client less to drain */
    chassis_drained(c->role.chassis);
}

static void on_handed_over(struct transfer *transfer, enum err err, const struct note *note)
{
    struct coordinator *c = CONTAINER_OF(transfer, struct coordinator, transfer);

    if (err && err != ERR_NOT_READY)
        LOG_INFO(c->log, "leadership was not handed over before the stop", log_err("err", err),
                 log_text("why", note->text));
    chassis_drained(c->role.chassis);
}

static void drain_leadership(void *state)
{
    struct coordinator *c = state;

    c->transfer = (struct transfer){.done = on_handed_over};
    if (replica_status(c->replica).role == REPLICA_LEADER)
        replica_transfer(c->replica, &c->transfer);
    else
        chassis_drained(c->role.chassis);
}

static void drain_etcd(void *state)
{
    struct coordinator *c = state;
    role_listener_drain(&c->etcd.listener, c->role.chassis);
}

static void drain_workers(void *state)
{
    struct coordinator *c = state;
    role_listener_drain(&c->workers.listener, c->role.chassis);
}

static void on_quorum_stopped(void *owner)
{
    struct coordinator *c = owner;

    c->quorum_stopped = true;
    chassis_drained(c->role.chassis);
}

static void drain_quorum(void *state)
{
    struct coordinator *c = state;
    fleet_service_stop(c->fleet, on_quorum_stopped, c);
}

/* Accepts any half-built state. */
static void close_coordinator(void *state)
{
    struct coordinator *c = state;
    struct chassis *chassis = c->role.chassis;

    coordinator_dash_stop(c);
    while (c->dash.closing && !c->dash.closed) chassis_turn(chassis);
    task_cancel(&c->foreign);
    role_close_server(&c->role);
    CHASSIS_AWAIT(chassis, rpc_server_close, c->etcd.listener.server);
    CHASSIS_AWAIT(chassis, etcd_stop, c->etcd.api);
    timer_stop(&c->workers.timer);
    CHASSIS_AWAIT(chassis, rpc_server_close, c->workers.listener.server);
    if (!c->quorum_stopped) CHASSIS_AWAIT(chassis, fleet_service_stop, c->fleet);
    replica_close(c->replica);
    coordinator_workers_close(c);
    fleet_service_close(c->fleet);
    rpc_health_close(c->etcd.listener.health);
    etcd_close(c->etcd.api);
    tls_context_unref(c->etcd.tls);
    store_service_close(c->store);
    fleet_seed_deinit(&c->seed);
    roster_close(c->roster);
    tls_context_unref(c->raft_server);
    tls_context_unref(c->raft_client);
    role_close(&c->role);
}

static_assert((int)JOIN_NAME_MAX == (int)REPLICA_NAME_MAX, "one bound of a replica's name");
static enum err check_coordinator(const struct conf *conf, struct fs *fs, struct note *note)
{
    const char *path = conf_text(conf, "bootstrap-state");
    struct fleet_seed seed = {.count = 0};
    enum err err = path ? fleet_seed_read(fs, path, &seed, note) : ERR_OK;

    fleet_seed_deinit(&seed);
    path = conf_text(conf, "dashboard.token-file");
    return err || !path ? err : dash_token_check(fs, path, note);
}

static const struct chassis_hooks coordinator_run_hooks = {
    .role = &coordinator_role,
    CHASSIS_STATE(struct coordinator),
    .ready_check = "quorum",
    .ready_reason = "no leader is known",
    .tls = ROLE_TLS_SERVER | ROLE_TLS_CLIENT,
    .steps = CHASSIS_STEPS(coordinator_begin, role_open_ready, role_open_tls, open_raft_tls,
                           open_replica, coordinator_run_open_server, open_quorum,
                           coordinator_dash_open, warn_of_open_listeners),
    .drains = CHASSIS_DRAINS(role_drain_ready, drain_dash, drain_leadership, role_drain_server,
                             drain_etcd, drain_workers, drain_quorum),
    .locks_data_dir = true,
    .knows_callers = true,
    .check = check_coordinator,
    .say_started = coordinator_run_say_started,
    .owns_stdout = owns_stdout,
    .reload = coordinator_workers_reload,
    .close = close_coordinator,
};

const struct command coordinator_command = COMMAND_TREE(
    HELP_MUSTER_COORDINATOR,
    COMMAND(COMMAND_ROW(HELP_MUSTER_COORDINATOR_RUN, coordinator_run),
            CHASSIS_RUN(coordinator_run_hooks)),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTER_COORDINATOR_FORCE_CONFIG, force_config, "DIR", 1, 1),
            PROGRAM_ACT(BIT(4) | BIT(5), force_config_act)),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTER_COORDINATOR_REJOIN, rejoin, "DIR", 1, 1),
            PROGRAM_ACT(BIT(4) | BIT(5), rejoin_act)),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTER_COORDINATOR_RESTORE, coordinator_restore, "ARCHIVE", 1, 1),
            PROGRAM_ACT(BIT(4) | BIT(5), restore_act)),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTER_COORDINATOR_LEDGER, coordinator_ledger, "FILE", 1, 1),
            PROGRAM_ACT(BIT(4) | BIT(5), coordinator_ledger_act)));
