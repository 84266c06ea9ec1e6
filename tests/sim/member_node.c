/* SPDX-License-Identifier: Apache-2.0 */
/* A coordinator's process: log, member machine, service and gRPC server as `muster coordinator run`
 * joins them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/datadir.h"
#include "member/service.h"
#include "member_story.h"
#include "rpc/server.h"

enum { CLUSTER = 78 };
const char *const member_addresses[] = {"s0:7790", "s1:7790", "s2:7790", NULL};

struct member_process {
    struct member_host *host;
    struct io *io;
    struct member_service *service;
    struct replica *replica;
    struct rpc_server *server;
    bool dead;
};

struct replica *member_host_replica(const struct member_host *host)
{
    return host->process && !host->process->dead ? host->process->replica : NULL;
}

const struct membership *member_host_membership(const struct member_host *host)
{
    const struct member_process *p = host->process;

    if (!p || p->dead || !p->service ||
        member_machine_restoring(member_service_machine(p->service)))
        return NULL;
    return member_machine_membership(member_service_machine(p->service));
}

/* -- joining -- */
static const char *leader_address(void *owner)
{
    const struct member_process *p = owner;
    uint64_t leader = p->replica ? replica_status(p->replica).leader_id : 0;

    return leader && leader <= MEMBER_HOSTS ? member_addresses[leader - 1] : "";
}

static void on_change(void *owner, const struct replica_status *status)
{
    struct member_process *p = owner;

    if (p->dead) return;
    sim_trace(scenario_sim(p->host->story->world), p->host->host, "role %d term %llu ready %d",
              (int)status->role, (unsigned long long)status->term, status->ready);
    if (p->service) member_service_on_change(p->service, status);
}

static void on_stopped(void *owner, enum err why, const struct note *note)
{
    struct member_process *p = owner;

    if (p->dead) return;
    if (why == ERR_CORRUPT || why == ERR_INTERNAL || why == ERR_VERSION)
        member_wrong(p->host->story, "s%zu stopped: %s: %s", p->host->number, err_name(why),
                     note->text);
    sim_host_die(p->host->host, SIM_KILLED); /* a supervisor starts it again */
}

static enum err open_replica(struct member_process *p, const struct state_machine *machine,
                             struct note *note)
{
    char address[16];
    struct replica_options options = {
        .io = p->io,
        .dir = "data",
        .listen = "0.0.0.0:7791",
        .address = address,
        .machines = machine,
        .machine_count = 1,
        .level = MEMBER_MACHINE_VERSION,
        .limits = {.segment_bytes = 64 << 10,
                   .disk_reserve_bytes = 1 << 20,
                   .snapshot_entries_min = 60,
                   .snapshot_every_ms = 700,
                   .snapshot_chunk_bytes = 2048,
                   .trailing_entries = 20,
                   .hash_every = 16},
        .events = {.on_change = on_change, .on_stopped = on_stopped, .owner = p},
    };
    struct datadir_format_options format = {.fs = p->io->fs,
                                            .entropy = p->io->entropy,
                                            .dir = "data",
                                            .founders = &p->host->story->founders,
                                            .cluster_id = CLUSTER,
                                            .replica_id = p->host->number + 1};
    struct datadir known;
    enum err err = datadir_read(p->io->fs, "data", &known, note);

    (void)snprintf(address, sizeof address, "s%u:7791", (unsigned)p->host->number);
    if (err == ERR_NOT_FOUND) err = datadir_format(&format, &known, note);
    return err ? err : replica_open(&options, &p->replica, note);
}

static enum err open_all(struct member_process *p, struct note *note)
{
    static const char *const names[] = {"s0", "s1", "s2"};
    struct member_service_options service = {
        .io = p->io,
        .leader_address = leader_address,
        .owner = p,
        .name = names[p->host->number],
        .enabled = true,
    };
    struct rpc_server_options server = {.io = p->io};
    struct state_machine machine;
    enum err err = ulid_parse(STR(MEMBER_RUN), &service.run, note);

    if (err) return err;
    member_rules_defaults(&service.rules);
    service.rules.total_partitions = MEMBER_PARTITIONS;
    service.rules.virtual_nodes = 16;
    service.rules.move_limit_ppm = 500000;
    service.rules.rebalance_window_ms = 100;
    service.rules.revoke_timeout_ms = 2000;
    service.rules.evict_on_revoke_timeout = p->host->story->evicts;
    service.rules.dead_retention_ms = 2000;
    service.rules.tombstone_retention_ms = 3000;
    member_local_defaults(&service.local);
    service.local.detect.heartbeat_interval_ns = MEMBER_BEAT_MS * NS_PER_MS;
    service.local.detect.clock_skew_budget_ns = MEMBER_SKEW_MS * NS_PER_MS;
    service.local.detect.failure_timeout_ns = MEMBER_FAILURE_MS * NS_PER_MS;
    service.local.self_fence_ns = MEMBER_FENCE_MS * NS_PER_MS;
    service.local.checkpoint_interval_ns = 3000 * NS_PER_MS;
    err = member_service_open(&service, &p->service, note);
    if (err) return err;
    machine = member_machine_registration(member_service_machine(p->service));
    err = open_replica(p, &machine, note);
    if (err) return err;
    member_service_attach(p->service, p->replica);
    err = rpc_server_open(&server, &p->server, note);
    if (!err) err = member_service_methods(p->service, p->server, false, note);
    return err ? err : rpc_server_listen(p->server, "0.0.0.0:7790", NULL, note);
}

/* -- life -- */
static void finish(void *owner)
{
    struct member_process *p = owner;

    member_service_close(p->service);
    free(p);
}

static void on_server_closed(void *owner)
{
    struct member_process *p = owner;

    replica_close(p->replica);
    if (p->service)
        member_service_stop(p->service, finish, p);
    else
        finish(p);
}

static void destroy(void *state)
{
    struct member_process *p = state;

    p->dead = true;
    if (p->host->process == p) p->host->process = NULL;
    rpc_server_close(p->server, on_server_closed, p);
}

static enum err start(struct io *io, void *context, void **ret_state)
{
    struct member_host *host = context;
    struct member_process *p = calloc(1, sizeof *p);
    struct note note = {""};
    enum err err;

    if (!p) return ERR_NOMEM;
    p->host = host;
    p->io = io;
    host->process = p;
    host->read = 0; /* its events are compared from the start */
    *ret_state = p;
    err = open_all(p, &note);
    if (!err) return ERR_OK;
    sim_trace(scenario_sim(host->story->world), host->host, "cannot start: %s: %s", err_name(err),
              note.text);
    if (err == ERR_CORRUPT || err == ERR_VERSION || err == ERR_INTERNAL)
        member_wrong(host->story, "s%zu cannot start: %s: %s", host->number, err_name(err),
                     note.text);
    sim_host_die(host->host, SIM_KILLED); /* destroy closes what is open */
    return ERR_OK;
}

const struct sim_process_ops member_process_ops = {start, NULL, destroy};
