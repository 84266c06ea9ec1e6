/* SPDX-License-Identifier: Apache-2.0 */
/* muster-log node: one replica of the replicated log, with registers to try it by hand. */
#include "log_node.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/program.h"
#include "io/signals.h"
#include "io/tls.h"

enum { KEYS_MAX = 4 << 20 };

struct run {
    struct log_node node;
    struct conf *conf;
    struct signals *signals;
    struct tls_context *tls_server, *tls_client;
};

static struct io *run_io(struct run *run)
{
    return real_io_io(run->node.real);
}

static void on_signal(void *owner, int number)
{
    struct run *run = owner;
    (void)number;
    real_io_stop(run->node.real);
}

static void on_change(void *owner, const struct replica_status *status)
{
    static const char *const role_words[] = {"follower", "candidate", "leader"};
    struct log_node *node = owner;

    LOG_INFO(&node->log, "role", log_text("role", role_words[status->role]),
             log_bool("ready", status->ready), log_u64("term", status->term),
             log_u64("commit", status->commit));
}

static void on_stopped(void *owner, enum err why, const struct note *note)
{
    struct log_node *node = owner;

    node->stopped = why;
    node->stopped_note = *note;
    LOG_ERROR(&node->log, "the replica stopped", log_err("err", why), log_text("why", note->text));
    real_io_stop(node->real);
}

/* -- the data directory, made when there is none -- */

static enum err parse_founder(struct str text, struct member *ret_member, struct note *note)
{
    size_t at = str_find(text, '=');
    char id[24], *end;

    if (at == text.len || at == 0 || at > 16 || text.len - at - 1 > REPLICA_ADDRESS_MAX) {
        note_set(note, "founders: '%.*s' is not ID=HOST:PORT, ID in hexadecimal", STR_ARG(text));
        return ERR_INVALID;
    }
    snprintf(id, sizeof id, "%.*s", (int)at, text.at);
    ret_member->id = strtoull(id, &end, 16);
    ret_member->role = MEMBER_VOTER;
    snprintf(ret_member->address, sizeof ret_member->address, "%.*s", (int)(text.len - at - 1),
             text.at + at + 1);
    if (*end || ret_member->id == 0) {
        note_set(note, "founders: '%s' is no identity", id);
        return ERR_INVALID;
    }
    return ERR_OK;
}

static enum err parse_hex(const char *text, uint64_t *ret_value)
{
    char *end;
    if (!text) return ERR_OK;
    *ret_value = strtoull(text, &end, 16);
    return *end || !*text ? ERR_INVALID : ERR_OK;
}

static enum err make_directory(struct run *run, const char *dir, struct note *note)
{
    struct option_value list = conf_list(run->conf, "founders");
    struct datadir_format_options options = {
        .fs = run_io(run)->fs, .entropy = run_io(run)->entropy, .dir = dir};
    struct members founders = {.count = 0};
    struct datadir made;
    enum err err = parse_hex(conf_text(run->conf, "id"), &options.replica_id);

    if (!err) err = parse_hex(conf_text(run->conf, "cluster"), &options.cluster_id);
    if (err) {
        note_set(note, "id and cluster are hexadecimal numbers");
        return err;
    }
    for (size_t i = 0; !err && i < list.item_count; i++) {
        if (founders.count == REPLICA_MEMBERS_MAX) return ERR_FULL;
        err = parse_founder(list.items[i], &founders.at[founders.count++], note);
    }
    if (!err && founders.count == 0 && !conf_bool(run->conf, "join")) { /* founds alone */
        const char *address = conf_text(run->conf, "address");
        founders.at[0] = (struct member){.id = options.replica_id, .role = MEMBER_VOTER};
        snprintf(founders.at[0].address, sizeof founders.at[0].address, "%s",
                 address ? address : conf_text(run->conf, "listen"));
        founders.count = 1;
    }
    if (founders.count) options.founders = &founders;
    return err ? err : datadir_format(&options, &made, note);
}

/* -- opening -- */

static enum err open_tls(struct run *run, struct note *note)
{
    struct tls_options options = {
        .side = TLS_SERVER,
        .version_min = TLS_V1_3,
        .cert_file = conf_text(run->conf, "tls.cert-file"),
        .key_file = conf_text(run->conf, "tls.key-file"),
        .ca_files = {conf_text(run->conf, "tls.ca-file")},
    };
    enum err err;

    if (!options.cert_file) return ERR_OK;
    err = tls_context_open(run_io(run)->fs, &options, &run->tls_server, note);
    options.side = TLS_CLIENT;
    return err ? err : tls_context_open(run_io(run)->fs, &options, &run->tls_client, note);
}

static enum err open_replica(struct run *run, struct note *note)
{
    struct conf *conf = run->conf;
    const char *dir = conf_text(conf, "data-dir");
    struct state_machine machine = {.id = TRIAL_MACHINE,
                                    .name = "trial",
                                    .version = 1,
                                    .ops = &trial_ops,
                                    .state = run->node.trial};
    struct replica_options options = {
        .io = run_io(run),
        .log = &run->node.log,
        .metrics = run->node.metrics,
        .dir = dir,
        .listen = conf_text(conf, "listen"),
        .address = conf_text(conf, "address"),
        .name = conf_text(conf, "name"),
        .tls_server = run->tls_server,
        .tls_client = run->tls_client,
        .machines = &machine,
        .machine_count = 1,
        .level = CLUSTER_LEVEL, /* force-config writes entries of it */
        .timing = {.election_ms = (uint32_t)conf_number(conf, "election"),
                   .heartbeat_ms = (uint32_t)conf_number(conf, "heartbeat"),
                   .scale_percent = (uint32_t)conf_number(conf, "timing-scale")},
        .limits = {.snapshot_entries_min = (uint32_t)conf_number(conf, "snapshot-entries"),
                   .snapshot_every_ms = conf_number(conf, "snapshot-every"),
                   .trailing_entries = (uint32_t)conf_number(conf, "trailing-entries"),
                   .segment_bytes = conf_number(conf, "segment-size"),
                   .disk_reserve_bytes = conf_number(conf, "disk-reserve")},
        .events = {.on_change = on_change, .on_stopped = on_stopped, .owner = &run->node},
    };
    struct datadir known;
    enum err err = datadir_read(options.io->fs, dir, &known, note);

    if (err == ERR_NOT_FOUND) err = make_directory(run, dir, note);
    return err ? err : replica_open(&options, &run->node.replica, note);
}

static enum err open_parts(struct run *run, struct note *note)
{
    static const int numbers[] = {SIGTERM, SIGINT, 0};
    struct log_node *node = &run->node;
    struct logger_options log = {.fd = STDERR_FILENO, .level = LOG_LEVEL_INFO};
    enum err err = real_io_open(&node->real);

    list_init(&node->connections);
    if (err) return err;
    log.clock = run_io(run)->clock;
    err = logger_open(&log, &node->logger);
    if (!err) log_source_init(&node->log, node->logger, "log_node", NULL);
    if (!err) err = metrics_open(&node->metrics);
    if (!err) err = trial_open(KEYS_MAX, &node->trial);
    if (!err) err = open_tls(run, note);
    if (!err) err = open_replica(run, note);
    if (!err) err = log_node_serve(node, conf_text(run->conf, "client-listen"), note);
    if (!err) err = signals_open(run_io(run)->loop, numbers, on_signal, run, &run->signals);
    return err;
}

static void close_parts(struct run *run)
{
    struct log_node *node = &run->node;

    signals_close(run->signals);
    if (node->real) log_node_hang_up(node);
    replica_close(node->replica);
    log_load_close(node);
    tls_context_unref(run->tls_server);
    tls_context_unref(run->tls_client);
    trial_close(node->trial);
    metrics_close(node->metrics);
    real_io_close(node->real);
    logger_close(node->logger);
    conf_close(run->conf);
}

static int run_log_node(void *context, const struct command_call *call)
{
    struct run run = {0};
    struct note note = {""};
    struct replica_status status;
    int exit_code = 0;
    enum err err = program_load_conf(context, call, &run.conf);

    if (err) return err_exit_code(err);
    err = open_parts(&run, &note);
    if (err) {
        exit_code = program_fail(call, err, &note);
    } else {
        status = replica_status(run.node.replica);
        printf("node %016" PRIx64 " cluster %016" PRIx64 " raft %s client %s pid %d\n", status.id,
               status.cluster_id, replica_address(run.node.replica),
               listener_address(run.node.listener), (int)getpid());
        fflush(stdout);
        real_io_run(run.node.real);
        if (run.node.stopped)
            exit_code = program_fail(call, run.node.stopped, &run.node.stopped_note);
    }
    close_parts(&run);
    return exit_code;
}

/* -- options -- */

#define TEXT(option, shows, about)                                                                 \
    {                                                                                              \
        .name = option, .kind = OPTION_STRING, .placeholder = shows, .help = about                 \
    }
#define ADDRESS(option, otherwise, about)                                                          \
    {                                                                                              \
        .name = option, .kind = OPTION_ADDRESS, .fallback = otherwise, .help = about               \
    }
#define NUMBER(option, sort, otherwise, least, about)                                              \
    {                                                                                              \
        .name = option, .kind = sort, .fallback = otherwise, .min = least, .help = about           \
    }
static const struct option options[] = {
    {.name = "data-dir",
     .kind = OPTION_STRING,
     .fallback = "muster-log",
     .placeholder = "DIR",
     .help = "where log, snapshots and identity are kept; made when it is not there"},
    ADDRESS("listen", "127.0.0.1:7791", "the Raft port, for the other replicas"),
    {.name = "address",
     .kind = OPTION_ADDRESS,
     .example = "node1.example:7791",
     .help = "how the others reach it; without it, as it listens"},
    ADDRESS("client-listen", "127.0.0.1:7792",
            "where requests in text are answered; loopback, for there is no identity here"),
    {.name = "name",
     .kind = OPTION_STRING,
     .fallback = "",
     .placeholder = "NAME",
     .help = "the node's name, a label; under TLS the one its certificate is for"},
    {.name = "join",
     .kind = OPTION_BOOL,
     .flags = OPTION_FLAG_ONLY,
     .help = "make a new data directory for a replica that waits to be added to a cluster"},
    {.name = "founders",
     .kind = OPTION_LIST,
     .placeholder = "ID=ADDRESS,...",
     .example = "1=127.0.0.1:7791,2=127.0.0.1:7801,3=127.0.0.1:7811",
     .help = "make a new data directory of a cluster these found together; the same list, and the "
             "same --cluster, on each"},
    TEXT("id", "HEX", "identity of a new data directory; without it, drawn"),
    TEXT("cluster", "HEX", "cluster of a new data directory; needed with several founders"),
    NUMBER("election", OPTION_DURATION, "250ms", 10, "how long a leader may be silent, at least"),
    NUMBER("heartbeat", OPTION_DURATION, "50ms", 1, "how often a leader speaks"),
    NUMBER("timing-scale", OPTION_U64, "100", 10, "multiplies every time of the log, in per cent"),
    NUMBER("snapshot-entries", OPTION_U64, "1024", 1, "entries between two snapshots"),
    NUMBER("snapshot-every", OPTION_DURATION, "30s", 10,
           "how often it is looked whether one is due"),
    NUMBER("trailing-entries", OPTION_U64, "4096", 1, "entries kept behind a snapshot"),
    NUMBER("segment-size", OPTION_SIZE, "64MiB", 1048576, "size of one file of the log"),
    {.name = "disk-reserve",
     .kind = OPTION_SIZE,
     .fallback = "0",
     .help = "free space below which proposals are refused; 0: 256 MiB or a twentieth of the disk"},
    TEXT("tls.cert-file", "FILE",
         "certificate of this replica, as `musterctl cert issue replica` makes it; with it, "
         "replicas speak TLS and show each other who they are"),
    TEXT("tls.key-file", "FILE", "its key"),
    TEXT("tls.ca-file", "FILE", "the authority the other replicas' certificates come from"),
};
static const struct option_table table = {options, ARRAY_LEN(options)};

static const struct command_example examples[] = {
    {"muster-log node --data-dir /tmp/a", "a cluster of one; then: nc 127.0.0.1 7792"},
    {"muster-log node --data-dir /tmp/b --join --listen 127.0.0.1:7801 --client-listen "
     "127.0.0.1:7802",
     "one that waits to be added: member add ID 127.0.0.1:7801"},
    {NULL, NULL},
};
const struct command log_node_command = {
    .name = "node",
    .summary = "one replica of the log, to try it by hand",
    .about =
        "Runs one replica of the replicated log with a small machine of registers, and answers "
        "requests in text on --client-listen: set, add, cas, del, get, status, members, member "
        "add|promote|remove|address, transfer, snapshot, load. It is how the log is tried and "
        "tested by itself; services use the same log inside `muster coordinator`.\n"
        "A data directory that is not there is made: a cluster of one, or one of --founders, "
        "or with --join one that waits to be added.",
    .options = &table,
    .examples = examples,
    .exits = BIT(1) | BIT(2) | BIT(4) | BIT(6),
    .run = run_log_node,
};
