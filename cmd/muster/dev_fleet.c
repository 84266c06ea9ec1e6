#include "muster/dev_fleet.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/process.h"
#include "rpc/client.h"
#include "wire/message.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"

enum {
    AGAIN_MS = 1000,       /* before a replica that died is started again */
    END_WITHIN_MS = 10000, /* of being asked; then it is killed */
    LOOK_MS = 200,         /* while it forms */
    LOOK_CALM_MS = 1000,   /* when all is well */
    PATH_CAP = 4096,
    ADDRESS_CAP = 32,
    WORD_CAP = PATH_CAP + 64,
    ENV_MAX = 1024,
    ANSWER_ARENA_MAX = 1 << 20,
};

struct child {
    struct dev_fleet *fleet;
    size_t number;
    struct process *process; /* NULL: not running */
    struct timer again;
    char said[256]; /* its last words on stderr */
};
struct dev_fleet {
    struct io *io;
    const struct log_source *log;
    char dir[PATH_CAP], program[PATH_CAP], log_level[16];
    size_t replicas;
    struct dev_ports ports;
    void (*on_ready)(void *owner, bool ready, const char *reason);
    void (*on_failed)(void *owner, enum err err, const struct note *note);
    void (*on_stopped)(void *owner);
    void *owner;
    struct child children[DEV_REPLICAS_MAX];
    struct rpc_channel *channel;
    bool asking, ready, stopping, channel_closing;
    size_t leader, voters;
    struct timer look, kill;
};

/* -- one replica -- */

static void address(char text[ADDRESS_CAP], uint16_t port)
{
    snprintf(text, ADDRESS_CAP, "127.0.0.1:%u", port);
}

/* Everything but our own settings: those of `muster dev` are not a replica's. */
static void make_environment(const char *environment[ENV_MAX])
{
    size_t count = 0;

    for (char **at = environ; *at && count < ENV_MAX - 1; at++)
        if (strncmp(*at, "MUSTER_", 7) != 0) environment[count++] = *at;
    environment[count] = NULL;
}

static void on_line(void *owner, int fd, struct str line)
{
    struct child *child = owner;

    if (fd != STDERR_FILENO || line.len == 0) return;
    snprintf(child->said, sizeof child->said, "%.*s", STR_ARG(line));
    LOG_WARN(child->fleet->log, "replica says", log_u64("node", child->number),
             log_str("line", line));
}

static void stopped_one(struct dev_fleet *fleet)
{
    if (fleet->stopping && !dev_fleet_running(fleet)) fleet->on_stopped(fleet->owner);
}

/* 2 and 4: wrong settings, a port or a directory that is taken. Starting again would not help. */
static void on_exit_of(void *owner, struct process_exit exit)
{
    struct child *child = owner;
    struct dev_fleet *fleet = child->fleet;
    struct note note = {""};

    child->process = NULL;
    if (fleet->stopping) {
        stopped_one(fleet);
        return;
    }
    LOG_WARN(fleet->log, "a replica ended and is started again", log_u64("node", child->number),
             log_i64("code", exit.code), log_bool("signalled", exit.signalled));
    if (!exit.signalled && (exit.code == 2 || exit.code == 4)) {
        note_set(&note, "node-%zu did not start: %s", child->number, child->said);
        fleet->on_failed(fleet->owner, exit.code == 2 ? ERR_INVALID : ERR_BUSY, &note);
        return;
    }
    timer_start_in(&child->again, AGAIN_MS);
}

static enum err start_child(struct child *child, struct note *note)
{
    struct dev_fleet *fleet = child->fleet;
    size_t n = child->number;
    char id[32], dir[WORD_CAP], log_file[WORD_CAP];
    char grpc[ADDRESS_CAP], raft[ADDRESS_CAP], http[ADDRESS_CAP];
    char join[DEV_REPLICAS_MAX * ADDRESS_CAP] = "", one[ADDRESS_CAP];
    size_t len = 0;
    const char *environment[ENV_MAX];
    const char *argv[] = {
        fleet->program,
        "coordinator",
        "run",
        "--id",
        id,
        "--data-dir",
        dir,
        "--listen",
        grpc,
        "--raft-bind",
        raft,
        "--http-listen",
        http,
        "--join-addr",
        join,
        "--log-level",
        fleet->log_level,
        "--log-file",
        log_file,
        "--no-insecure",
        NULL,
    };
    struct process_options options = {.argv = argv,
                                      .env = environment,
                                      .die_with_parent = true,
                                      .on_line = on_line,
                                      .on_exit = on_exit_of,
                                      .owner = child};

    for (size_t i = 0; i < fleet->replicas; i++) {
        address(one, fleet->ports.grpc[i]);
        len += (size_t)snprintf(join + len, sizeof join - len, "%s%s", i > 0 ? "," : "", one);
    }
    snprintf(id, sizeof id, "node-%zu", n);
    snprintf(dir, sizeof dir, "%s/node-%zu", fleet->dir, n);
    snprintf(log_file, sizeof log_file, "%s/node-%zu.log", fleet->dir, n);
    address(grpc, fleet->ports.grpc[n]);
    address(raft, fleet->ports.raft[n]);
    address(http, fleet->ports.http[n]);
    make_environment(environment);
    child->said[0] = '\0';
    return process_start(fleet->io->loop, &options, &child->process, note);
}

static void on_again(struct timer *timer)
{
    struct child *child = CONTAINER_OF(timer, struct child, again);
    struct note note = {""};
    enum err err = start_child(child, &note);

    if (err) child->fleet->on_failed(child->fleet->owner, err, &note);
}

/* -- is there a quorum? -- */

static void channel_closed(void *owner)
{
    struct dev_fleet *fleet = owner;
    fleet->channel = NULL;
    stopped_one(fleet);
}

static void tell(struct dev_fleet *fleet, bool ready, const char *reason)
{
    bool changed = ready != fleet->ready;

    fleet->ready = ready;
    if (changed || !ready) fleet->on_ready(fleet->owner, ready, reason);
}

static void take_list(struct dev_fleet *fleet, const Muster__V1__ListReplicasResponse *list)
{
    char reason[64];

    fleet->leader = SIZE_MAX;
    fleet->voters = 0;
    for (size_t i = 0; i < list->n_replicas; i++) {
        const Muster__V1__Replica *replica = list->replicas[i];
        if (replica->voter) fleet->voters++;
        if (replica->leader && strncmp(replica->name, "node-", 5) == 0)
            fleet->leader = (size_t)strtoul(replica->name + 5, NULL, 10);
    }
    snprintf(reason, sizeof reason, "%zu of %zu replicas are voters", fleet->voters,
             fleet->replicas);
    tell(fleet, fleet->leader != SIZE_MAX && fleet->voters == fleet->replicas, reason);
}

static void on_answer(void *owner, const struct rpc_client_call *call,
                      const struct rpc_outcome *outcome, struct str bytes)
{
    struct dev_fleet *fleet = owner;
    ProtobufCMessage *message;
    struct arena arena;

    (void)call;
    fleet->asking = false;
    if (fleet->stopping) return;
    arena_init(&arena, ANSWER_ARENA_MAX);
    if (outcome->err || message_read(&muster__v1__list_replicas_response__descriptor, bytes, NULL,
                                     &arena, &message, NULL))
        tell(fleet, false, "no leader answers yet");
    else
        take_list(fleet, (const Muster__V1__ListReplicasResponse *)message);
    arena_deinit(&arena);
    timer_start_in(&fleet->look, fleet->ready ? LOOK_CALM_MS : LOOK_MS);
}

static void on_look(struct timer *timer)
{
    struct dev_fleet *fleet = CONTAINER_OF(timer, struct dev_fleet, look);
    struct rpc_call_options call = {
        .path = "/muster.v1.Fleet/ListReplicas", .timeout_ms = 2000, .idempotent = true};

    fleet->asking = rpc_unary(fleet->channel, &call, STR_EMPTY, on_answer, fleet, NULL) == ERR_OK;
    if (!fleet->asking) timer_start_in(timer, LOOK_MS);
}

static enum err open_channel(struct dev_fleet *fleet, struct note *note)
{
    char texts[DEV_REPLICAS_MAX][ADDRESS_CAP];
    const char *list[DEV_REPLICAS_MAX + 1] = {NULL};
    struct rpc_channel_options options = {
        .io = fleet->io, .addresses = list, .follow_leader = true, .backoff_max_ms = 500};

    for (size_t i = 0; i < fleet->replicas; i++) {
        address(texts[i], fleet->ports.grpc[i]);
        list[i] = texts[i];
    }
    return rpc_channel_open(&options, &fleet->channel, note);
}

void dev_fleet_table(const struct dev_fleet *fleet, FILE *out)
{
    fprintf(out, "  NODE    ROLE      GRPC             RAFT             HTTP                    "
                 "PID\n");
    for (size_t i = 0; i < fleet->replicas; i++) {
        const struct process *process = fleet->children[i].process;
        fprintf(out,
                "  node-%zu  %-8s  127.0.0.1:%-5u  127.0.0.1:%-5u  http://127.0.0.1:%-5u  %d\n", i,
                i == fleet->leader ? "leader" : "follower", fleet->ports.grpc[i],
                fleet->ports.raft[i], fleet->ports.http[i], process ? process_pid(process) : 0);
    }
}

/* -- life -- */

static void on_kill(struct timer *timer)
{
    struct dev_fleet *fleet = CONTAINER_OF(timer, struct dev_fleet, kill);

    for (size_t i = 0; i < fleet->replicas; i++)
        if (fleet->children[i].process) (void)process_signal(fleet->children[i].process, SIGKILL);
}

static enum err find_program(struct dev_fleet *fleet, struct note *note)
{
    ssize_t len = readlink("/proc/self/exe", fleet->program, sizeof fleet->program - 1);

    if (len > 0) {
        fleet->program[len] = '\0';
        return ERR_OK;
    }
    note_set(note, "cannot find this very program");
    return ERR_NOT_FOUND;
}

enum err dev_fleet_open(const struct dev_fleet_options *options, struct dev_fleet **ret_fleet,
                        struct note *note)
{
    struct dev_fleet *fleet = calloc(1, sizeof *fleet);
    enum err err;

    if (!fleet) return ERR_NOMEM;
    *ret_fleet = fleet; /* also when it fails half-way: it must be stopped then */
    fleet->io = options->io;
    fleet->log = options->log;
    fleet->replicas = options->replicas;
    fleet->ports = options->ports;
    fleet->on_ready = options->on_ready;
    fleet->on_failed = options->on_failed;
    fleet->on_stopped = options->on_stopped;
    fleet->owner = options->owner;
    fleet->leader = SIZE_MAX;
    snprintf(fleet->log_level, sizeof fleet->log_level, "%s", options->log_level);
    if (snprintf(fleet->dir, sizeof fleet->dir, "%s", options->dir) >= PATH_CAP)
        return ERR_TOO_LARGE;
    err = find_program(fleet, note);
    if (!err) err = timer_init(&fleet->look, fleet->io->loop, on_look);
    if (!err) err = timer_init(&fleet->kill, fleet->io->loop, on_kill);
    for (size_t i = 0; !err && i < fleet->replicas; i++) {
        fleet->children[i] = (struct child){.fleet = fleet, .number = i};
        err = timer_init(&fleet->children[i].again, fleet->io->loop, on_again);
    }
    for (size_t i = 0; !err && i < fleet->replicas; i++)
        err = start_child(&fleet->children[i], note);
    if (!err) err = open_channel(fleet, note);
    if (!err) timer_start_in(&fleet->look, LOOK_MS);
    return err;
}

bool dev_fleet_running(const struct dev_fleet *fleet)
{
    for (size_t i = 0; i < fleet->replicas; i++)
        if (fleet->children[i].process) return true;
    return fleet->channel != NULL;
}

void dev_fleet_stop(struct dev_fleet *fleet)
{
    if (fleet->stopping) return;
    fleet->stopping = true;
    timer_stop(&fleet->look);
    for (size_t i = 0; i < fleet->replicas; i++) {
        timer_stop(&fleet->children[i].again);
        if (fleet->children[i].process) (void)process_signal(fleet->children[i].process, SIGTERM);
    }
    timer_start_in(&fleet->kill, END_WITHIN_MS);
    if (fleet->channel)
        rpc_channel_close(fleet->channel, channel_closed, fleet);
    else
        stopped_one(fleet);
}

void dev_fleet_close(struct dev_fleet *fleet)
{
    if (!fleet) return;
    assert(!dev_fleet_running(fleet));
    for (size_t i = 0; i < fleet->replicas; i++) timer_deinit(&fleet->children[i].again);
    timer_deinit(&fleet->look);
    timer_deinit(&fleet->kill);
    free(fleet);
}
