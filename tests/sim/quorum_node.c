/* SPDX-License-Identifier: Apache-2.0 */
/* A process: the parts that `muster coordinator run` joins, without its chassis. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/bootstrap.h"
#include "fleet/roster.h"
#include "fleet/service.h"
#include "log/datadir.h"
#include "quorum_story.h"
#include "rpc/server.h"

enum { DIR_CAP = 32, ADDRESS_CAP = 40 };
static const char *const join_addresses[] = {"q0:7790", "q1:7790", "q2:7790", NULL};

struct quorum_process {
    struct quorum_host *host;
    struct io *io;
    struct bootstrap *bootstrap;
    struct roster *roster;
    struct replica *replica;
    struct rpc_server *server;
    struct fleet_service *service;
    struct state_machine machine;
    char dir[DIR_CAP], raft[ADDRESS_CAP], name[16];
    bool bootstraps;
    bool dead, stopping; /* stopping: it asks for no more promises */
};

void quorum_host_address(const struct quorum_host *host, char address[40])
{
    snprintf(address, 40, "q%zu:%u", host->number, 7791 + 10 * host->moves);
}

struct replica *quorum_host_replica(const struct quorum_host *host)
{
    return host->process && !host->process->dead ? host->process->replica : NULL;
}

const struct roster *quorum_host_roster(const struct quorum_host *host)
{
    return host->process ? host->process->roster : NULL;
}

static void on_change(void *owner, const struct replica_status *status)
{
    struct quorum_process *p = owner;
    struct quorum_story *story = p->host->story;

    if (p->dead) return;
    sim_trace(scenario_sim(story->world), p->host->host,
              "role %d term %llu commit %llu voter %d leader %llx", (int)status->role,
              (unsigned long long)status->term, (unsigned long long)status->commit, status->voter,
              (unsigned long long)status->leader_id);
    if (status->role == REPLICA_LEADER && status->term < QUORUM_TERMS_MAX) {
        uint64_t *leader = &story->leaders[status->term];
        if (*leader && *leader != status->id)
            quorum_wrong(story, "two leaders of term %llu", (unsigned long long)status->term);
        *leader = status->id;
    }
    if (p->service) fleet_service_on_change(p->service, status);
}

static void on_stopped(void *owner, enum err why, const struct note *note)
{
    struct quorum_process *p = owner;

    if (p->dead) return;
    sim_trace(scenario_sim(p->host->story->world), p->host->host, "stopped: %s: %s", err_name(why),
              note->text);
    if (why == ERR_CORRUPT || why == ERR_INTERNAL || why == ERR_VERSION)
        quorum_wrong(p->host->story, "q%zu stopped: %s: %s", p->host->number, err_name(why),
                     note->text);
    sim_host_die(p->host->host, SIM_KILLED); /* a supervisor starts it again */
}

/* -- opening, once it is known whether to bootstrap -- */

static enum err open_replica(struct quorum_process *p, struct note *note)
{
    struct state_machine machine;
    char listen[ADDRESS_CAP], name[16];
    struct replica_options options = {
        .io = p->io,
        .dir = p->dir,
        .listen = listen,
        .address = p->raft,
        .name = name,
        .machines = &machine,
        .machine_count = 1,
        .limits = {.segment_bytes = 64 << 10, .disk_reserve_bytes = 1 << 20, .hash_every = 16},
        .events = {.on_change = on_change, .on_stopped = on_stopped, .owner = p},
    };
    enum err err = roster_open(&p->roster);

    if (err) return err;
    machine = roster_registration(p->roster);
    snprintf(name, sizeof name, "node-%zu", p->host->number);
    snprintf(listen, sizeof listen, "0.0.0.0%s", strchr(p->raft, ':'));
    err = replica_open(&options, &p->replica, note);
    if (err == ERR_CORRUPT || err == ERR_VERSION || err == ERR_INTERNAL)
        quorum_wrong(p->host->story, "q%zu cannot start: %s: %s", p->host->number, err_name(err),
                     note->text);
    return err;
}

static const char *leader_address(void *owner)
{
    const struct quorum_process *p = owner;

    return roster_grpc(p->roster, replica_status(p->replica).leader_id);
}

static enum err open_server(struct quorum_process *p, struct note *note)
{
    struct rpc_server_options options = {.io = p->io};
    struct fleet_service_options service = {.io = p->io,
                                            .leader_address = leader_address,
                                            .owner = p,
                                            .roster = p->roster,
                                            .name = p->name,
                                            .dir = p->dir};
    enum err err = rpc_server_open(&options, &p->server, note);

    p->machine = roster_registration(p->roster);
    snprintf(p->name, sizeof p->name, "node-%zu", p->host->number);
    if (!err) err = fleet_service_open(&service, &p->service, note);
    if (!err) fleet_service_attach(p->service, p->replica, &p->machine, 1);
    if (!err) err = fleet_service_methods(p->service, p->server, note);
    return err ? err : rpc_server_listen(p->server, "0.0.0.0:7790", NULL, note);
}

static enum err open_quorum(struct quorum_process *p, struct note *note)
{
    struct quorum_story *story = p->host->story;
    struct quorum_host before = *p->host;
    char raft[ADDRESS_CAP];
    struct fleet_join join = {.to = {.io = p->io, .addresses = join_addresses}, .raft = raft};

    if (story->bug == QUORUM_FORGET_MOVE) before.moves = 0;
    quorum_host_address(&before, raft);
    snprintf(join.self.name, sizeof join.self.name, "node-%zu", p->host->number);
    snprintf(join.self.grpc, sizeof join.self.grpc, "q%zu:7790", p->host->number);
    if (story->bug == QUORUM_STOP_ASKING && p->host->number == 2) join.to.addresses = NULL;
    return fleet_service_join(p->service, &join, note);
}

static enum err open_all(struct quorum_process *p, struct note *note)
{
    enum err err = open_replica(p, note);

    if (!err) err = open_server(p, note);
    return err ? err : open_quorum(p, note);
}

static enum err make_directory(struct quorum_process *p, struct note *note)
{
    struct members founders = {.count = 1, .at = {{.role = MEMBER_VOTER}}};
    struct datadir_format_options options = {
        .fs = p->io->fs, .entropy = p->io->entropy, .dir = p->dir};
    struct datadir made;

    if (p->bootstrap) {
        made = bootstrap_identity(p->bootstrap);
        options.replica_id = made.replica_id;
        if (p->bootstraps) options.cluster_id = made.cluster_id;
    }
    snprintf(founders.at[0].address, sizeof founders.at[0].address, "%s", p->raft);
    if (p->bootstraps) options.founders = &founders;
    return datadir_format(&options, &made, note);
}

static void finish(void *owner);

static void on_bootstrap_stopped(void *owner)
{
    struct quorum_process *p = owner;
    struct note note = {""};
    enum err err;

    if (p->dead) {
        finish(p);
        return;
    }
    err = make_directory(p, &note);
    bootstrap_free(p->bootstrap);
    p->bootstrap = NULL;
    if (!err) err = open_all(p, &note);
    if (!err) return;
    sim_trace(scenario_sim(p->host->story->world), p->host->host, "cannot start: %s: %s",
              err_name(err), note.text);
    sim_host_die(p->host->host, SIM_KILLED);
}

static void on_verdict(void *owner, enum bootstrap_verdict verdict)
{
    struct quorum_process *p = owner;

    sim_trace(scenario_sim(p->host->story->world), p->host->host, "%s",
              verdict == BOOTSTRAP_NOW ? "bootstraps" : "joins");
    p->bootstraps = verdict == BOOTSTRAP_NOW;
    p->stopping = true;
    bootstrap_stop(p->bootstrap, on_bootstrap_stopped, p);
}

/* -- life -- */

/* The last step of the chain that destroy begins, or all of it when there is nothing to wait for.
 */
static void finish(void *owner)
{
    struct quorum_process *p = owner;

    bootstrap_free(p->bootstrap);
    replica_close(p->replica);
    fleet_service_close(p->service);
    roster_close(p->roster);
    if (p->host->process == p) p->host->process = NULL;
    free(p);
}

static void on_server_closed(void *owner)
{
    struct quorum_process *p = owner;

    if (p->service)
        fleet_service_stop(p->service, finish, p);
    else
        finish(p);
}

static void destroy(void *state)
{
    struct quorum_process *p = state;

    p->dead = true;
    if (p->host->process == p) p->host->process = NULL;
    if (p->bootstrap && !p->stopping)
        bootstrap_stop(p->bootstrap, on_bootstrap_stopped, p);
    else if (!p->bootstrap)
        rpc_server_close(p->server, on_server_closed, p);
}

static enum err start(struct io *io, void *context, void **ret_state)
{
    struct quorum_host *host = context;
    struct quorum_story *story = host->story;
    struct quorum_process *p = calloc(1, sizeof *p);
    struct bootstrap_facts facts = {
        .allowed = true, .has_join_address = true, .ordinal = host->number};
    struct bootstrap_options bootstrap = {.to = {.io = io, .addresses = join_addresses},
                                          .dir = p ? p->dir : "",
                                          .expect = QUORUM_HOSTS,
                                          .done = on_verdict,
                                          .owner = p};
    struct note note = {""};
    struct datadir known;
    char self[ADDRESS_CAP], name[16];
    enum err err;

    if (!p) return ERR_NOMEM;
    p->host = host;
    p->io = io;
    snprintf(p->dir, sizeof p->dir, "data-%u", host->lives);
    quorum_host_address(host, p->raft);
    snprintf(self, sizeof self, "q%zu:7790", host->number);
    snprintf(name, sizeof name, "node-%zu", host->number);
    bootstrap.to.self = self;
    bootstrap.name = name;
    if (story->bug == QUORUM_TRUST_SILENCE) bootstrap.expect = 1;
    host->process = p;
    *ret_state = p;
    err = fs_make_dirs(io->fs, p->dir, 0700);
    if (!err) err = datadir_read(io->fs, p->dir, &known, &note);
    if (err == ERR_NOT_FOUND) {
        p->bootstraps = story->bug == QUORUM_FOUND_ANYWAY;
        if (!p->bootstraps && bootstrap_start(&facts) == BOOTSTRAP_ASK)
            err = bootstrap_open(&bootstrap, &p->bootstrap, &note);
        if (p->bootstrap) return ERR_OK;
    }
    if (err == ERR_NOT_FOUND) err = make_directory(p, &note);
    if (!err) err = open_all(p, &note);
    if (err) { /* as a process that ends: destroy closes what is open */
        sim_trace(scenario_sim(story->world), host->host, "cannot start: %s: %s", err_name(err),
                  note.text);
        sim_host_die(host->host, SIM_KILLED);
    }
    return ERR_OK;
}

const struct sim_process_ops quorum_process_ops = {start, NULL, destroy};
