/* SPDX-License-Identifier: Apache-2.0 */
#include "replica_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOG_MAX = 4 << 20, EVENTS_MAX = 20000000 };

struct rig rig;

/* -- the world -- */

static void on_deadline(struct timer *timer)
{
    CONTAINER_OF(timer, struct rig, deadline)->late = true;
}

static void name_node(struct node *node, size_t i)
{
    static unsigned runs;
    unsigned pid = (unsigned)getpid();

    node->number = i;
    node->id = i + 1;
    if (!rig.real) {
        snprintf(node->dir, sizeof node->dir, "data");
        snprintf(node->address, sizeof node->address, "%c:7791", (char)('a' + i));
        return;
    }
    if (i == 0) runs++;
    /* All of 127.0.0.0/8 is local: each process and node has its own address. */
    snprintf(node->address, sizeof node->address, "127.%u.%u.%u:7791", 1 + (pid >> 8) % 250,
             pid & 0xff, 1 + (unsigned)i + 10 * (runs % 20));
    snprintf(node->dir, sizeof node->dir, "%s/run%u-%zu", test_dir(), runs, i);
}

void rig_open(size_t founders)
{
    rig.founders = founders;
    if (rig.real) {
        CHECK_OK("a loop", real_io_open(&rig.real_io));
        CHECK_OK("a timer", timer_init(&rig.deadline, real_io_io(rig.real_io)->loop, on_deadline));
    } else {
        struct sim_options options = {.seed = rig.seed ? rig.seed : 7, .events_max = EVENTS_MAX};
        CHECK_OK("a world", sim_open(&options, &rig.sim));
    }
    for (size_t i = 0; i < RIG_NODES; i++) {
        struct node *node = &rig.nodes[i];
        char name[8];

        name_node(node, i);
        /* Filling whole segments with zeros would take most of each test's time. */
        if (!node->limits.segment_bytes) node->limits.segment_bytes = 1 << 20;
        buf_init(&node->log, LOG_MAX);
        if (rig.real) {
            node->io = real_io_io(rig.real_io);
            continue;
        }
        snprintf(name, sizeof name, "%c", (char)('a' + i));
        CHECK_OK("a host",
                 sim_host_add(rig.sim, &(struct sim_host_options){.name = name}, &node->host));
        node->io = sim_host_io(node->host);
    }
    for (size_t i = 0; i < founders; i++) rig_format(i, true);
    for (size_t i = 0; i < founders; i++) rig_start_ok(i);
}

bool rig_turn(void)
{
    if (!rig.real) return sim_step(rig.sim);
    if (!timer_running(&rig.deadline) && !rig.late) timer_start_in(&rig.deadline, RIG_WAIT_MS);
    real_io_turn(rig.real_io, true);
    return !rig.late;
}

void rig_run(uint64_t ms)
{
    if (!rig.real) {
        sim_run_for(rig.sim, ms);
        return;
    }
    rig.late = false;
    timer_start_in(&rig.deadline, ms);
    while (!rig.late) real_io_turn(rig.real_io, true);
    rig.late = false;
}

void rig_close(void)
{
    for (size_t i = 0; i < RIG_NODES; i++) rig_stop(i);
    if (rig.real) {
        timer_deinit(&rig.deadline);
        real_io_close(rig.real_io);
    } else {
        sim_close(rig.sim);
    }
    for (size_t i = 0; i < RIG_NODES; i++) buf_deinit(&rig.nodes[i].log);
    for (size_t i = 0; i < RIG_CALLS; i++) buf_deinit(&rig.calls[i].command);
    memset(&rig, 0, sizeof rig);
}

/* -- nodes -- */

static void on_line(void *context, enum log_level level, struct str line)
{
    struct node *node = context;

    (void)level;
    if (getenv("MUSTER_TEST_LOUD")) fprintf(stderr, "%zu: %.*s", node->number, STR_ARG(line));
    if (buf_append(&node->log, line)) buf_clear(&node->log);
}

static void on_change(void *owner, const struct replica_status *status)
{
    struct node *node = owner;

    node->changes++;
    node->reported = *status;
    node->reported.leader_address = "";
}

static void on_stopped(void *owner, enum err why, const struct note *note)
{
    struct node *node = owner;

    node->stopped = why;
    node->why = *note;
}

static void close_node(void *state)
{
    struct node *node = state;

    replica_close(node->replica);
    trial_close(node->trial);
    trial_close(node->second);
    metrics_close(node->metrics);
    logger_close(node->logger);
    node->replica = NULL;
    node->trial = node->second = NULL;
    node->metrics = NULL;
    node->logger = NULL;
}

static enum err open_node(struct io *io, void *context, void **ret_state)
{
    struct node *node = context;
    struct state_machine machines[2] = {
        {.id = TRIAL_MACHINE,
         .name = "trial",
         .version = node->version ? node->version : 1,
         .ops = node->ops ? node->ops : &trial_ops,
         .quota = node->quota,
         .in_flight_share = node->share},
        {.id = TRIAL_MACHINE + 1, .name = "second", .version = 1, .ops = &trial_ops},
    };

    node->stopped = ERR_OK;
    node->changes = 0;
    if (logger_open(&(struct logger_options){.clock = io->clock,
                                             .level = LOG_LEVEL_DEBUG,
                                             .sink = on_line,
                                             .sink_context = node},
                    &node->logger))
        return ERR_NOMEM;
    log_source_init(&node->log_source, node->logger, "log", NULL);
    if (metrics_open(&node->metrics) || trial_open(1 << 20, &node->trial)) return ERR_NOMEM;
    if (trial_open(1 << 20, &node->second)) return ERR_NOMEM;
    machines[0].state = node->trial;
    machines[1].state = node->second;
    node->open_err = replica_open(
        &(struct replica_options){
            .io = io,
            .log = &node->log_source,
            .metrics = node->metrics,
            .dir = node->dir,
            .listen = node->address,
            .address = node->says ? node->says : node->address,
            .machines = machines,
            .machine_count = node->wants_second ? 2 : 1,
            .level = node->level,
            .timing = rig.timing,
            .limits = node->limits,
            .events = {.on_change = on_change, .on_stopped = on_stopped, .owner = node},
        },
        &node->replica, &node->open_note);
    if (node->open_err)
        close_node(node);
    else
        *ret_state = node;
    return node->open_err;
}

static const struct sim_process_ops process_ops = {.start = open_node, .destroy = close_node};

void rig_format(size_t i, bool founder)
{
    struct node *node = &rig.nodes[i];
    struct members founders = {.count = rig.founders};
    struct datadir datadir;
    struct note note = {""};

    for (size_t k = 0; k < rig.founders; k++) {
        founders.at[k].id = k + 1;
        founders.at[k].role = MEMBER_VOTER;
        snprintf(founders.at[k].address, sizeof founders.at[k].address, "%s", rig.nodes[k].address);
    }
    CHECK_ERR(
        note.text,
        datadir_format(&(struct datadir_format_options){.fs = node->io->fs,
                                                        .entropy = node->io->entropy,
                                                        .dir = node->dir,
                                                        .founders = founder ? &founders : NULL,
                                                        .cluster_id = founder ? RIG_CLUSTER : 0,
                                                        .replica_id = node->id},
                       &datadir, &note),
        ERR_OK);
}

enum err rig_start(size_t i)
{
    struct node *node = &rig.nodes[i];
    void *state;

    if (rig.real) return open_node(node->io, node, &state);
    return sim_host_start(node->host, &process_ops, node);
}

void rig_start_ok(size_t i)
{
    enum err err = rig_start(i);
    CHECK_ERR(rig.nodes[i].open_note.text, err, ERR_OK);
}

void rig_stop(size_t i)
{
    struct node *node = &rig.nodes[i];

    if (!node->replica) return;
    close_node(node);
    if (!rig.real) sim_host_die(node->host, SIM_KILLED);
}

void rig_kill(size_t i)
{
    struct node *node = &rig.nodes[i];

    if (rig.real)
        close_node(node);
    else
        sim_host_die(node->host, SIM_KILLED);
}

void rig_cut(size_t i, bool cut)
{
    for (size_t k = 0; k < RIG_NODES; k++) {
        if (k == i) continue;
        sim_link_block(rig.nodes[i].host, rig.nodes[k].host, cut);
        sim_link_block(rig.nodes[k].host, rig.nodes[i].host, cut);
    }
}

struct node *rig_leader(void)
{
    struct node *best = NULL;
    uint64_t term = 0;

    for (size_t i = 0; i < RIG_NODES; i++) {
        struct node *node = &rig.nodes[i];
        struct replica_status status;

        if (!node->replica || node->stopped) continue;
        status = replica_status(node->replica);
        if (!status.ready || status.term <= term) continue;
        best = node;
        term = status.term;
    }
    return best;
}

bool rig_has_new_leader(const struct node *old)
{
    struct node *leader = rig_leader();

    return leader && leader != old;
}

bool rig_settled(void)
{
    uint64_t last = 0;

    for (size_t i = 0; i < RIG_NODES; i++) {
        struct node *node = &rig.nodes[i];
        if (!node->replica || node->stopped) continue;
        struct replica_status status = replica_status(node->replica);
        if (last == 0) last = status.last;
        if (status.last != last || status.applied != last || status.durable != last) return false;
    }
    return last != 0;
}

uint64_t rig_counter(struct node *node, const char *line)
{
    struct buf text;
    uint64_t value = 0;
    char *found;

    buf_init(&text, 1 << 20);
    CHECK_OK("metrics", metrics_write(node->metrics, &text));
    CHECK_OK("an end", buf_append_byte(&text, '\0'));
    found = strstr(text.data, line);
    while (found && found != text.data && found[-1] != '\n') found = strstr(found + 1, line);
    if (found) value = strtoull(found + strlen(line), NULL, 10);
    buf_deinit(&text);
    return value;
}

/* -- clients -- */

static void on_proposed(struct proposal *proposal, enum err err, struct str reply)
{
    struct call *call = CONTAINER_OF(proposal, struct call, proposal);

    CHECK("answered once", !call->done);
    call->err = err;
    call->rounds++;
    if (!err) CHECK_OK("a reply", trial_reply_parse(reply, &call->reply));
    if (!err && call->again) {
        replica_propose(call->node->replica, &proposal, 1);
        return;
    }
    call->done = true;
}

static struct call *propose(struct node *node, size_t at, const struct trial_command *command)
{
    struct call *call = &rig.calls[at];
    struct proposal *proposal = &call->proposal;

    buf_deinit(&call->command);
    *call = (struct call){.node = node, .again = call->again};
    buf_init(&call->command, 2 << 20);
    CHECK_OK("a command", trial_encode(command, &call->command));
    proposal->machine = TRIAL_MACHINE;
    proposal->version = 1;
    proposal->actor = STR("tester");
    proposal->request_id = STR("r1");
    proposal->command = buf_peek(&call->command);
    proposal->done = on_proposed;
    replica_propose(node->replica, &proposal, 1);
    CHECK("never from inside the call", !call->done);
    return call;
}

struct call *rig_set(struct node *node, size_t call, const char *key, const char *value)
{
    return propose(
        node, call,
        &(struct trial_command){.op = TRIAL_SET, .key = str_from(key), .value = str_from(value)});
}

struct call *rig_add(struct node *node, size_t call, const char *key, int64_t by)
{
    return propose(node, call,
                   &(struct trial_command){.op = TRIAL_ADD, .key = str_from(key), .number = by});
}

static void on_read(struct read_ticket *ticket, enum err err)
{
    struct call *call = CONTAINER_OF(ticket, struct call, ticket);

    CHECK("answered once", !call->done);
    call->done = true;
    call->err = err;
}

struct call *rig_read(struct node *node, size_t at)
{
    struct call *call = &rig.calls[at];

    buf_deinit(&call->command);
    *call = (struct call){.node = node, .ticket.done = on_read};
    replica_read(node->replica, &call->ticket);
    CHECK("never from inside the call", !call->done);
    return call;
}

static void on_changed(struct member_change *change, enum err err, const struct note *note)
{
    struct call *call = CONTAINER_OF(change, struct call, change);

    CHECK("answered once", !call->done);
    call->done = true;
    call->err = err;
    call->note = *note;
}

struct call *rig_change(struct node *node, size_t at, enum member_change_kind kind,
                        struct node *which)
{
    struct call *call = &rig.calls[at];

    buf_deinit(&call->command);
    *call = (struct call){.node = node};
    call->change = (struct member_change){
        .kind = kind, .id = which->id, .address = which->address, .done = on_changed};
    replica_change(node->replica, &call->change);
    CHECK("never from inside the call", !call->done);
    return call;
}

static void on_transferred(struct transfer *transfer, enum err err, const struct note *note)
{
    struct call *call = CONTAINER_OF(transfer, struct call, transfer);

    CHECK("answered once", !call->done);
    call->done = true;
    call->err = err;
    call->note = *note;
}

struct call *rig_transfer(struct node *node, size_t at, uint64_t to)
{
    struct call *call = &rig.calls[at];

    buf_deinit(&call->command);
    *call = (struct call){.node = node};
    call->transfer = (struct transfer){.to = to, .done = on_transferred};
    replica_transfer(node->replica, &call->transfer);
    return call;
}

int64_t rig_number(struct node *node, const char *key)
{
    uint64_t revision;
    struct str value;
    int64_t number;

    if (!trial_get(node->trial, str_from(key), &revision, &number, &value)) return -1;
    return number;
}
