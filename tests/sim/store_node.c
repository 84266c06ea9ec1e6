/* SPDX-License-Identifier: Apache-2.0 */
/* A replica's process: log, store machine, service and gRPC server as `muster coordinator run`
 * joins them. The machine is watched. Some planted bugs are between the log and the machine, on
 * every replica alike, so that only the clients can notice them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <muster/coord.h>

#include "base/bytes.h"
#include "log/datadir.h"
#include "rpc/server.h"
#include "store/etcd/etcd.h"
#include "store/service.h"
#include "store_story.h"

enum { ARENA_MAX = 4 << 20, LOSE_ONE_IN = 2, CLUSTER = 77 };
const char *const store_addresses[] = {"s0:7790", "s1:7790", "s2:7790", "s3:7790", NULL};

struct rpc_channel_options store_channel(struct io *io)
{
    return (struct rpc_channel_options){.io = io,
                                        .addresses = store_addresses,
                                        .backoff_max_ms = 500,
                                        .dial_timeout_ms = 800,
                                        .ping_after_ms = 500,
                                        .ping_timeout_ms = 700};
}

struct store_process {
    struct store_host *host;
    struct io *io;
    struct store_service *service;
    struct state_machine machine; /* the real one */
    struct replica *replica;
    struct rpc_server *server;
    struct etcd_api *etcd;
    uint64_t restoring; /* the index of the snapshot */
    struct member_change change;
    char change_address[16]; /* lent to the replica until the change is done */
    bool changing;
    struct timer upgrade; /* of an older release: when it ends */
    bool older, dead;
};

struct replica *store_host_replica(const struct store_host *host)
{
    return host->process && !host->process->dead ? host->process->replica : NULL;
}

struct store *store_host_store(const struct store_host *host)
{
    struct store_service *service = host->process->service;

    return service ? store_machine_store(store_service_machine(service)) : NULL;
}

bool store_host_is_older(const struct store_host *host)
{
    return host->process && host->process->older;
}

/* -- the machine, watched -- */
/* The planted bugs: the entry is applied differently from the log. */
static void plant(struct store_process *p, struct machine_entry *entry,
                  struct store_command *command, struct buf *bytes, bool *ret_lost)
{
    enum store_bug bug = p->host->story->bug;
    bool forgets = bug == STORE_FORGET_REQUESTS && command->sequence; /* the rest has no request */

    *ret_lost = false;
    if (bug == STORE_FAST_CLOCK) entry->clock_ns *= 2;
    if (forgets) command->client.b[15] ^= (uint8_t)entry->term;
    if (bug == STORE_LOSE_RENEWALS && command->kind == STORE_RENEW &&
        entry->index % LOSE_ONE_IN == 0) {
        *ret_lost = true;
        command->kind = STORE_TICK;
        command->renew_count = 0;
        memset(&command->lease, 0, sizeof command->lease);
    }
    if (!forgets && !*ret_lost) return;
    if (store_command_write(command, bytes)) store_wrong(p->host->story, "no memory");
    entry->command = buf_peek(bytes);
}

static void answer_lost_renewals(size_t count, struct buf *reply)
{
    char one[STORE_RENEWAL_BYTES] = {0};

    buf_clear(reply);
    store_le32(one, COORD_OK);
    store_le32(one + 4, COORD_R_RENEWED);
    store_le64(one + 8, 10000); /* at least every requested TTL */
    for (size_t i = 0; i < count; i++) (void)buf_append(reply, str_of(one, sizeof one));
}

static enum err apply(void *state, const struct machine_entry *entry, struct buf *reply,
                      struct note *note)
{
    struct store_process *p = state;
    struct store *store = store_machine_store(p->machine.state);
    uint64_t before = keys_changes(store_keys(store)).end;
    struct machine_entry done = *entry;
    struct store_command command, changed;
    struct arena arena;
    struct buf bytes;
    enum err err;
    bool taken, lost = false;

    arena_init(&arena, ARENA_MAX);
    buf_init(&bytes, ARENA_MAX);
    taken = store_command_read(entry->command, &arena, &command, NULL) == ERR_OK;
    changed = command;
    if (taken && p->host->story->bug) plant(p, &done, &changed, &bytes, &lost);
    err = p->machine.ops->apply(p->machine.state, &done, reply, note);
    if (lost) answer_lost_renewals(command.renew_count, reply);
    if (!err && !p->dead)
        store_witness_applied(p->host->story, entry, taken ? &command : NULL, buf_peek(reply),
                              store, before);
    buf_deinit(&bytes);
    arena_deinit(&arena);
    return err;
}
static enum err snapshot_begin(void *state, uint64_t index, void **ret_view)
{
    struct store_process *p = state;

    return p->machine.ops->snapshot_begin(p->machine.state, index, ret_view);
}
static enum err restore_begin(void *state, uint64_t index, struct note *note)
{
    struct store_process *p = state;

    if (index) p->host->story->witness.restores++;
    if (index && p->replica) p->host->story->witness.installs++; /* it ran, and lagged */
    p->restoring = index;
    return p->machine.ops->restore_begin(p->machine.state, index, note);
}
static enum err restore_next(void *state, struct str bytes, struct note *note)
{
    struct store_process *p = state;

    return p->machine.ops->restore_next(p->machine.state, bytes, note);
}
static enum err restore_end(void *state, struct note *note)
{
    struct store_process *p = state;
    enum err err = p->machine.ops->restore_end(p->machine.state, note);

    if (!err && p->restoring && !p->dead)
        store_witness_restored(p->host->story, p->restoring, store_machine_store(p->machine.state));
    return err;
}
static uint64_t state_hash(const void *state)
{
    const struct store_process *p = state;

    return p->machine.ops->hash(p->machine.state);
}
static uint64_t state_size(const void *state)
{
    const struct store_process *p = state;

    return p->machine.ops->size(p->machine.state);
}

/* -- joining -- */
static const char *leader_address(void *owner)
{
    const struct store_process *p = owner;
    uint64_t leader = p->replica ? replica_status(p->replica).leader_id : 0;

    for (size_t i = 0; leader && i < STORE_HOSTS; i++)
        if (p->host->story->hosts[i].id == leader) return store_addresses[i];
    return "";
}

static void on_change(void *owner, const struct replica_status *status)
{
    struct store_process *p = owner;

    if (p->dead) return;
    sim_trace(scenario_sim(p->host->story->world), p->host->host, "role %d term %llu ready %d",
              (int)status->role, (unsigned long long)status->term, status->ready);
    if (p->service) store_service_on_change(p->service, status);
    if (p->etcd) etcd_on_change(p->etcd, status);
}

static void on_changed_members(struct member_change *change, enum err err, const struct note *note)
{
    struct store_process *p = CONTAINER_OF(change, struct store_process, change);

    p->changing = false;
    if (!p->dead && !err) p->host->story->witness.changes_of_members++;
    sim_trace(scenario_sim(p->host->story->world), p->host->host, "change %d of members: %s %s",
              (int)change->kind, err_name(err), note ? note->text : "");
}

void store_host_change(struct store_host *host, enum member_change_kind kind, uint64_t id,
                       const char *address)
{
    struct store_process *p = host->process;

    if (p->changing) return;
    p->changing = true;
    (void)snprintf(p->change_address, sizeof p->change_address, "%s", address ? address : "");
    p->change = (struct member_change){
        .kind = kind, .id = id, .address = p->change_address, .done = on_changed_members};
    replica_change(p->replica, &p->change);
}

static void on_stopped(void *owner, enum err why, const struct note *note)
{
    struct store_process *p = owner;

    if (p->dead) return;
    if (why == ERR_CORRUPT || why == ERR_INTERNAL || why == ERR_VERSION)
        store_wrong(p->host->story, "s%zu stopped: %s: %s", p->host->number, err_name(why),
                    note->text);
    sim_host_die(p->host->host, SIM_KILLED); /* a supervisor starts it again */
}

static enum err open_replica(struct store_process *p, const struct state_machine *machine,
                             struct note *note)
{
    struct store_story *story = p->host->story;
    bool founder = p->host->number < STORE_FOUNDERS;
    char address[16];
    struct replica_options options = {
        .io = p->io,
        .dir = "data",
        .listen = "0.0.0.0:7791",
        .address = address,
        .machines = machine,
        .machine_count = p->older ? 0 : 1,
        .level = p->older ? STORE_FIRST_VERSION - 1 : STORE_MACHINE_VERSION,
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
                                            .founders = founder ? &story->founders : NULL,
                                            .cluster_id = founder ? CLUSTER : 0,
                                            .replica_id = founder ? p->host->number + 1 : 0};
    struct datadir known;
    enum err err = datadir_read(p->io->fs, "data", &known, note);

    (void)snprintf(address, sizeof address, "s%u:7791", (unsigned)p->host->number);
    if (err == ERR_NOT_FOUND) err = datadir_format(&format, &known, note);
    if (!err) p->host->id = known.replica_id;
    if (!err) err = replica_open(&options, &p->replica, note);
    return err;
}

/* -- a release without a store: it knows no entry of the store, and serves none -- */
static void on_upgrade(struct timer *timer)
{
    struct store_process *p = CONTAINER_OF(timer, struct store_process, upgrade);

    if (!p->dead)
        sim_host_die(p->host->host, SIM_KILLED); /* the supervisor starts the new release */
}

static enum err open_older(struct store_process *p, sim_time now, struct note *note)
{
    struct rpc_server_options server = {.io = p->io};
    enum err err = timer_init(&p->upgrade, p->io->loop, on_upgrade);

    if (err) return err;
    p->older = true;
    timer_start_in(&p->upgrade, (p->host->upgrade_at.ns - now.ns) / NS_PER_MS + 1);
    err = open_replica(p, NULL, note);
    if (!err) err = rpc_server_open(&server, &p->server, note);
    return err ? err : rpc_server_listen(p->server, "0.0.0.0:7790", NULL, note);
}

static enum err open_all(struct store_process *p, struct note *note)
{
    static struct machine_ops watched;
    struct store_service_options service = {
        .io = p->io,
        .leader_address = leader_address,
        .owner = p,
        .limits = {.wait_ms = 2000, .watch_events_max = 20, .history_ms = 1500},
    };
    struct rpc_server_options server = {.io = p->io};
    struct state_machine machine;
    enum err err = store_service_open(&service, &p->service, note);

    if (err) return err;
    machine = p->machine = store_machine_registration(store_service_machine(p->service));
    watched = (struct machine_ops){.apply = apply,
                                   .snapshot_begin = snapshot_begin,
                                   .snapshot_next = p->machine.ops->snapshot_next,
                                   .snapshot_end = p->machine.ops->snapshot_end,
                                   .restore_begin = restore_begin,
                                   .restore_next = restore_next,
                                   .restore_end = restore_end,
                                   .hash = state_hash,
                                   .size = state_size};
    machine.ops = &watched;
    machine.state = p;
    err = open_replica(p, &machine, note);
    if (err) return err;
    store_service_attach(p->service, p->replica);
    err = rpc_server_open(&server, &p->server, note);
    if (!err) err = store_service_methods(p->service, p->server, note);
    if (!err)
        err = etcd_open(&(struct etcd_options){.io = p->io,
                                               .store = p->service,
                                               .replica = p->replica,
                                               .leader_address = leader_address,
                                               .owner = p},
                        &p->etcd);
    if (!err) err = etcd_methods(p->etcd, p->server, note);
    return err ? err : rpc_server_listen(p->server, "0.0.0.0:7790", NULL, note);
}

/* -- life -- */
static void finish(void *owner)
{
    struct store_process *p = owner;

    replica_close(p->replica);
    etcd_close(p->etcd);
    store_service_close(p->service);
    if (p->older) timer_deinit(&p->upgrade);
    free(p);
}

static void on_server_closed(void *owner)
{
    struct store_process *p = owner;

    if (p->etcd)
        etcd_stop(p->etcd, finish, p);
    else
        finish(p);
}

static void destroy(void *state)
{
    struct store_process *p = state;

    p->dead = true;
    if (p->host->process == p) p->host->process = NULL;
    rpc_server_close(p->server, on_server_closed, p);
}

static enum err start(struct io *io, void *context, void **ret_state)
{
    struct store_host *host = context;
    struct store_process *p = calloc(1, sizeof *p);
    struct note note = {""};
    sim_time now;
    enum err err;

    if (!p) return ERR_NOMEM;
    p->host = host;
    p->io = io;
    host->process = p;
    *ret_state = p;
    now = sim_now(scenario_sim(host->story->world));
    err = now.ns < host->upgrade_at.ns ? open_older(p, now, &note) : open_all(p, &note);
    if (!err) return ERR_OK;
    sim_trace(scenario_sim(host->story->world), host->host, "cannot start: %s: %s", err_name(err),
              note.text);
    if (err == ERR_CORRUPT || err == ERR_VERSION || err == ERR_INTERNAL)
        store_wrong(host->story, "s%zu cannot start: %s: %s", host->number, err_name(err),
                    note.text);
    sim_host_die(host->host, SIM_KILLED); /* destroy closes what is open */
    return ERR_OK;
}

const struct sim_process_ops store_process_ops = {start, NULL, destroy};
