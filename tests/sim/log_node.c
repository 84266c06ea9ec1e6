/* SPDX-License-Identifier: Apache-2.0 */
/* A process: the shipped replica with a trial machine, and the requests of clients and steward to
 * it.
 *
 * Clients and the steward live outside of the processes and never die. A timer of the process looks
 * for their requests and runs them in the process's own turns. An attempt dies with the process:
 * the replica's ordinary close path answers ERR_UNKNOWN. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "log_story.h"
#include "obs/metrics.h"

enum { ATTEMPTS_AT_ONCE = 32, VALUE_MAX = 24 << 10 };

struct attempt { /* a write or a read of a client, through this process */
    struct log_process *process;
    struct log_client *client;
    bool busy, is_read;
    size_t key;
    uint64_t number, floor;
    mono_time give_up;
    struct proposal proposal;
    size_t command_at; /* offset in the batch, while its buffer may still move */
    struct read_ticket ticket;
    char request_id[24], actor[8];
};
struct log_process {
    struct log_host *host;
    struct io *io;
    struct trial *trial;
    struct replica *replica;
    struct timer poll;
    struct attempt attempts[ATTEMPTS_AT_ONCE];
    struct member_change change;
    struct transfer transfer;
    bool changing, transferring, dead;
    enum member_change_kind change_kind;
    char change_address[40];
    uint64_t restores;
};

void log_host_address(const struct log_host *host, char address[40])
{
    snprintf(address, 40, "h%zu:%u", host->number, host->port);
}

struct replica *log_host_replica(const struct log_host *host)
{
    return host->process && !host->process->dead ? host->process->replica : NULL;
}

struct log_host *log_story_leader(struct log_story *story)
{
    struct log_host *leader = NULL;
    uint64_t term = 0;

    for (size_t i = 0; i < LOG_HOSTS; i++) {
        struct log_host *host = &story->hosts[i];
        struct replica *replica = log_host_replica(host);
        struct replica_status status;

        if (!replica || sim_host_paused(host->host)) continue;
        status = replica_status(replica);
        if (status.role != REPLICA_LEADER || status.term <= term) continue;
        leader = host;
        term = status.term;
    }
    return leader;
}

/* -- the machine: a trial one, watched -- */

static enum err apply(void *state, const struct machine_entry *entry, struct buf *reply,
                      struct note *note)
{
    struct log_process *process = state;
    enum err err = trial_ops.apply(process->trial, entry, reply, note);

    log_witness_applied(&process->host->story->witness, process->host->id, entry,
                        trial_hash(process->trial));
    return err;
}
static enum err snapshot_begin(void *state, uint64_t index, void **ret_view)
{
    return trial_ops.snapshot_begin(((struct log_process *)state)->trial, index, ret_view);
}
static enum err restore_begin(void *state, uint64_t index, struct note *note)
{
    struct log_process *process = state;

    process->restores++;
    if (index) process->host->story->witness.snapshots_restored++;
    return trial_ops.restore_begin(process->trial, index, note);
}
static enum err restore_next(void *state, struct str bytes, struct note *note)
{
    return trial_ops.restore_next(((struct log_process *)state)->trial, bytes, note);
}
static enum err restore_end(void *state, struct note *note)
{
    return trial_ops.restore_end(((struct log_process *)state)->trial, note);
}
static uint64_t state_hash(const void *state)
{
    return trial_hash(((const struct log_process *)state)->trial);
}
static uint64_t state_size(const void *state)
{
    return trial_ops.size(((const struct log_process *)state)->trial);
}

/* -- clients -- */

static void attempt_over(struct attempt *attempt, enum err err)
{
    struct log_story *story = attempt->process->host->story;
    struct log_client *client = attempt->client;
    struct prng *prng = scenario_prng(story->world);
    sim_time now = sim_now(scenario_sim(story->world));

    attempt->busy = false;
    client->busy--;
    if (err == ERR_OK) return;
    /* another host, after a while; mostly the leader, sometimes any host */
    client->target = prng_below(prng, LOG_HOSTS);
    if (prng_chance(prng, 700000)) {
        struct log_host *leader = log_story_leader(story);
        if (leader) client->target = leader->number;
    }
    client->rest_until.ns = now.ns + prng_between(prng, 1, 60) * NS_PER_MS;
}

static void on_written(struct proposal *proposal, enum err err, struct str reply)
{
    struct attempt *attempt = CONTAINER_OF(proposal, struct attempt, proposal);
    struct log_witness *witness = &attempt->process->host->story->witness;
    struct trial_reply parsed;

    if (!attempt->process->dead) {
        log_witness_wrote(witness, attempt->number, err, proposal->index);
        if (err == ERR_OK && (trial_reply_parse(reply, &parsed) || parsed.err != ERR_OK))
            log_witness_wrong(witness, "attempt %" PRIu64 " got no answer with its ERR_OK",
                              attempt->number);
    } /* else there is no answer: the attempt stays open, its result unknown */
    attempt_over(attempt, err);
}

static void on_read(struct read_ticket *ticket, enum err err)
{
    struct attempt *attempt = CONTAINER_OF(ticket, struct attempt, ticket);
    struct log_process *process = attempt->process;
    char key[16];
    uint64_t revision = 0, written_by = 0;
    int64_t number = 0;
    struct str value = STR_EMPTY;

    if (err == ERR_OK && !process->dead) {
        struct replica_status status = replica_status(process->replica);
        bool found;
        snprintf(key, sizeof key, "key-%zu", attempt->key);
        found = trial_get(process->trial, str_from(key), &revision, &number, &value);
        if (found && value.len >= 8) written_by = load_le64(value.at);
        log_witness_read(&process->host->story->witness, attempt->floor, status.applied,
                         attempt->key, found, revision, written_by);
    }
    attempt_over(attempt, err);
}

static void write_something(struct log_process *process, struct attempt *attempt,
                            struct proposal **batch, size_t *count, struct buf *bytes)
{
    struct log_story *story = process->host->story;
    struct prng *prng = scenario_prng(story->world);
    struct replica_status status = replica_status(process->replica);
    char key[16], value[VALUE_MAX];
    size_t len =
        8 + prng_below(prng, prng_chance(prng, 20000) ? VALUE_MAX - 8 : story->settings.value_max);
    size_t start = bytes->len;

    attempt->number = log_witness_attempt(&story->witness);
    if (attempt->number == 0) {
        attempt->busy = false;
        attempt->client->busy--;
        return;
    }
    store_le64(value, attempt->number);
    memset(value + 8, (int)('a' + attempt->number % 26), len - 8);
    snprintf(key, sizeof key, "key-%zu", attempt->key);
    snprintf(attempt->request_id, sizeof attempt->request_id, "%" PRIu64, attempt->number);
    snprintf(attempt->actor, sizeof attempt->actor, "%zu", attempt->key);
    if (trial_encode(&(struct trial_command){.op = TRIAL_SET,
                                             .key = str_from(key),
                                             .value = str_of(value, len)},
                     bytes)) {
        log_witness_wrong(&story->witness, "a command cannot be encoded");
        return;
    }
    attempt->proposal = (struct proposal){
        .machine = TRIAL_MACHINE,
        /* sometimes a version above the cluster level, which must be refused */
        .version = prng_chance(prng, 20000)
                       ? process->host->level
                       : (uint32_t)max_u64(1, min_u64(status.level, process->host->level)),
        .actor = str_from(attempt->actor),
        .request_id = str_from(attempt->request_id),
        .command = {NULL, bytes->len - start}, /* made a view below */
        .done = on_written,
    };
    attempt->command_at = start;
    batch[(*count)++] = &attempt->proposal;
}

static struct attempt *free_attempt(struct log_process *process)
{
    for (size_t i = 0; i < ATTEMPTS_AT_ONCE; i++)
        if (!process->attempts[i].busy) return &process->attempts[i];
    return NULL;
}

static void serve_clients(struct log_process *process)
{
    struct log_story *story = process->host->story;
    struct prng *prng = scenario_prng(story->world);
    sim_time now = sim_now(scenario_sim(story->world));
    struct proposal *batch[ATTEMPTS_AT_ONCE];
    struct attempt *reads[ATTEMPTS_AT_ONCE];
    size_t count = 0, read_count = 0;
    struct buf bytes;

    buf_init(&bytes, (size_t)ATTEMPTS_AT_ONCE * (VALUE_MAX + 256));
    for (size_t i = 0; i < LOG_CLIENTS; i++) {
        struct log_client *client = &story->clients[i];
        size_t wanted = 1 + prng_below(prng, story->settings.busy_max);

        if (client->restless && prng_chance(prng, 200000)) {
            struct log_host *leader = log_story_leader(story);
            if (leader) client->target = leader->number;
        }
        if (client->target != process->host->number || client->rest_until.ns > now.ns) continue;
        while (client->busy < story->settings.busy_max && wanted-- > 0) {
            struct attempt *attempt = free_attempt(process);
            if (!attempt) break;
            *attempt = (struct attempt){
                .process = process,
                .client = client,
                .busy = true,
                .is_read = prng_below(prng, 100) < story->settings.read_percent,
                .key = prng_below(prng, LOG_KEYS),
                .floor = story->witness.floor,
                .give_up = mono_after(loop_now(process->io->loop), story->settings.give_up_ms)};
            client->busy++;
            if (attempt->is_read)
                reads[read_count++] = attempt;
            else
                write_something(process, attempt, batch, &count, &bytes);
        }
    }
    for (size_t i = 0; i < count; i++) /* the buffer does not move any more */
        batch[i]->command.at =
            bytes.data + CONTAINER_OF(batch[i], struct attempt, proposal)->command_at;
    if (count) replica_propose(process->replica, batch, count);
    for (size_t i = 0; i < read_count; i++) {
        reads[i]->ticket = (struct read_ticket){.done = on_read};
        replica_read(process->replica, &reads[i]->ticket);
    }
    buf_deinit(&bytes);
}

static void give_up_late(struct log_process *process)
{
    mono_time now = loop_now(process->io->loop);

    for (size_t i = 0; i < ATTEMPTS_AT_ONCE; i++) {
        struct attempt *attempt = &process->attempts[i];

        if (!attempt->busy || !mono_due(attempt->give_up, now)) continue;
        attempt->give_up = MONO_NEVER;
        if (!attempt->is_read) {
            replica_abandon(process->replica, &attempt->proposal);
        } else {
            replica_read_cancel(process->replica, &attempt->ticket);
            attempt_over(attempt, ERR_TIMEOUT);
        }
    }
}

static void on_poll(struct timer *timer)
{
    struct log_process *process = CONTAINER_OF(timer, struct log_process, poll);
    struct log_story *story = process->host->story;

    give_up_late(process);
    serve_clients(process);
    timer_start_in(timer, 1 + prng_below(scenario_prng(story->world), story->settings.poll_ms));
}

/* -- the steward's hands -- */

static void on_changed(struct member_change *change, enum err err, const struct note *note)
{
    struct log_process *process = CONTAINER_OF(change, struct log_process, change);
    struct log_story *story = process->host->story;

    process->changing = false;
    story->steward.asked = false;
    if (process->dead) return;
    sim_trace(scenario_sim(story->world), process->host->host, "change %d of %" PRIx64 ": %s %s",
              (int)change->kind, change->id, err_name(err), note ? note->text : "");
    if (err == ERR_OK) story->witness.changes++;
    for (size_t i = 0; err == ERR_VERSION && i < LOG_HOSTS; i++)
        if (story->hosts[i].id == change->id) story->hosts[i].too_old = true;
}

void log_host_change(struct log_host *host, enum member_change_kind kind, uint64_t id,
                     const char *address)
{
    struct log_process *process = host->process;

    if (process->changing) {
        host->story->steward.asked = false;
        return;
    }
    process->changing = true;
    snprintf(process->change_address, sizeof process->change_address, "%s", address ? address : "");
    process->change = (struct member_change){.kind = kind,
                                             .id = id,
                                             .address = address ? process->change_address : NULL,
                                             .done = on_changed};
    replica_change(process->replica, &process->change);
}

static void on_transferred(struct transfer *transfer, enum err err, const struct note *note)
{
    struct log_process *process = CONTAINER_OF(transfer, struct log_process, transfer);
    struct log_story *story = process->host->story;

    (void)note;
    process->transferring = false;
    story->steward.asked = false;
    if (!process->dead && err == ERR_OK) story->witness.transfers++;
}

void log_host_transfer(struct log_host *host, uint64_t to)
{
    struct log_process *process = host->process;

    if (process->transferring) {
        host->story->steward.asked = false;
        return;
    }
    process->transferring = true;
    process->transfer = (struct transfer){.to = to, .done = on_transferred};
    replica_transfer(process->replica, &process->transfer);
}

/* -- life -- */

static void on_change(void *owner, const struct replica_status *status)
{
    struct log_process *process = owner;

    if (process->dead || status->role != REPLICA_LEADER) return;
    log_witness_leads(&process->host->story->witness, status->term, status->id);
    sim_trace(scenario_sim(process->host->story->world), process->host->host,
              "leads term %" PRIu64 "%s", status->term, status->ready ? ", ready" : "");
}

static void on_stopped(void *owner, enum err why, const struct note *note)
{
    struct log_process *process = owner;
    struct log_story *story = process->host->story;

    if (process->dead) return;
    sim_trace(scenario_sim(story->world), process->host->host, "stopped: %s: %s", err_name(why),
              note->text);
    if (why == ERR_VERSION &&
        process->host->level < story->witness.seen[story->witness.newest].level)
        process->host->level = 2; /* too old for this cluster: upgrade the host */
    else if (why == ERR_CORRUPT || why == ERR_INTERNAL || why == ERR_VERSION)
        log_witness_wrong(&story->witness, "h%zu stopped: %s: %s", process->host->number,
                          err_name(why), note->text);
    sim_host_die(process->host->host, SIM_KILLED); /* the supervisor restarts the process */
}

static void destroy(void *state)
{
    struct log_process *process = state;

    process->dead = true;
    replica_close(process->replica);
    timer_deinit(&process->poll);
    trial_close(process->trial);
    for (size_t i = 0; i < ATTEMPTS_AT_ONCE; i++) assert(!process->attempts[i].busy);
    if (process->host->process == process) process->host->process = NULL;
    free(process);
}

static enum err format(struct log_host *host, struct io *io, const char *dir)
{
    struct datadir_format_options options = {
        .fs = io->fs,
        .entropy = io->entropy,
        .dir = dir,
        .founders = host->founder ? &host->story->founders : NULL,
        .cluster_id = host->founder ? host->story->cluster_id : 0,
        .replica_id = host->founder ? host->id : 0,
    };
    struct datadir datadir;
    struct note note = {""};
    enum err err = datadir_format(&options, &datadir, &note);

    if (!err) host->id = datadir.replica_id;
    return err;
}

/* The directory in use, created when it is missing. A wiped disk is another directory. */
static enum err find_directory(struct log_host *host, struct io *io, char dir[LOG_DIR_CAP])
{
    struct datadir datadir;
    struct note note = {""};
    enum err err;

    if (host->wipe) {
        host->wipe = false;
        host->lives++;
        host->founder = false;
        host->id = 0;
        host->story->witness.wipes++;
    }
    snprintf(dir, LOG_DIR_CAP, "data-%u", host->lives);
    err = datadir_read(io->fs, dir, &datadir, &note);
    if (err == ERR_NOT_FOUND) return format(host, io, dir);
    if (!err) host->id = datadir.replica_id;
    if (err == ERR_CORRUPT)
        log_witness_wrong(&host->story->witness, "h%zu: %s", host->number, note.text);
    return err;
}

static enum err start(struct io *io, void *context, void **ret_state)
{
    static const struct machine_ops ops = {
        .apply = apply,
        .snapshot_begin = snapshot_begin,
        .snapshot_next = NULL, /* trial's own, below */
        .restore_begin = restore_begin,
        .restore_next = restore_next,
        .restore_end = restore_end,
        .hash = state_hash,
        .size = state_size,
    };
    static struct machine_ops watched;
    struct log_host *host = context;
    struct log_story *story = host->story;
    struct log_process *process = calloc(1, sizeof *process);
    char dir[LOG_DIR_CAP], address[40], listen[40];
    struct note note = {""};
    struct state_machine machine;
    enum err err;

    if (!process) return ERR_NOMEM;
    watched = ops;
    watched.snapshot_next = trial_ops.snapshot_next;
    watched.snapshot_end = trial_ops.snapshot_end;
    process->host = host;
    process->io = io;
    machine = (struct state_machine){.id = TRIAL_MACHINE,
                                     .name = "trial",
                                     .version = host->level,
                                     .ops = &watched,
                                     .state = process};
    log_host_address(host, address);
    snprintf(listen, sizeof listen, "0.0.0.0:%u", host->port);
    err = find_directory(host, io, dir);
    if (!err) err = trial_open((uint64_t)LOG_KEYS * 2, &process->trial);
    if (!err) err = timer_init(&process->poll, io->loop, on_poll);
    if (!err) {
        struct replica_options options = {
            .io = io,
            .dir = dir,
            .listen = listen,
            .address = address,
            .name = address,
            .machines = &machine,
            .machine_count = 1,
            .level = host->level,
            .timing = {.election_ms = story->settings.election_ms,
                       .heartbeat_ms = story->settings.heartbeat_ms},
            .limits = story->settings.limits,
            .events = {.on_change = on_change, .on_stopped = on_stopped, .owner = process},
        };
        err = replica_open(&options, &process->replica, &note);
        if (err) {
            sim_trace(scenario_sim(story->world), host->host, "cannot start: %s: %s", err_name(err),
                      note.text);
            /* A power cut or a failed disk call may end the open; damage is a bug. */
            if (err == ERR_VERSION && host->level == 1 && story->settings.levels)
                host->level = 2;
            else if (err == ERR_CORRUPT || err == ERR_VERSION || err == ERR_INTERNAL)
                log_witness_wrong(&story->witness, "h%zu cannot start: %s: %s", host->number,
                                  err_name(err), note.text);
        }
    }
    if (err) {
        timer_deinit(&process->poll);
        trial_close(process->trial);
        free(process);
        return err;
    }
    host->process = process;
    timer_start_in(&process->poll, 1);
    *ret_state = process;
    return ERR_OK;
}

const struct sim_process_ops log_process_ops = {start, NULL, destroy};
