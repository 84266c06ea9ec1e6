/* SPDX-License-Identifier: Apache-2.0 */
/* The k-th allocation fails in the life of whole replicas: they open, elect, propose, read, take a
 * snapshot, add a third replica, send it that snapshot and promote it, send old entries to one that
 * was away, transfer leadership, close and open again. A replica that stops is started again, as
 * its supervisor would; a refused call is repeated.
 *
 * After every failure: acknowledged entries are on all replicas in the end; entries refused as not
 * in the log are not there; a read shows everything acknowledged before it; each call is answered
 * once; a replica that stops names memory as the reason; the run reaches its end; nothing leaks
 * (AddressSanitizer counts). The machine has its memory from the start: apply cannot fail.
 *
 * A run has thousands of allocations: `make test` fails one in eight of them, `make test-long`
 * each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "lib/fault_alloc.h"
#include "lib/test.h"
#include "log/datadir.h"
#include "log/log.h"
#include "sim/sim.h"

enum {
    NODES = 3,
    NUMBERS = 4096,   /* commands of one life, each its own number */
    PADDING = 60000,  /* of a snapshot: several chunks and slices */
    COMMAND = 600,    /* bytes: a few leave memory */
    WAIT_MS = 120000, /* virtual, against a hang */
};
struct set { /* the machine: which numbers were applied, and how often in all */
    unsigned char is_in[NUMBERS];
    uint64_t count;
};
struct view {
    struct set set;
    size_t at;
};
struct node {
    struct sim_host *host;
    struct io *io;
    struct replica *replica;
    struct set set, coming; /* coming: a snapshot that is being read */
    size_t coming_at;
    struct view view;
    char address[16];
    uint64_t id;
    bool stopped;
    struct logger *logger; /* NULL: silent */
    struct log_source log;
};
enum answer { NONE, YES, NO, MAYBE };
static struct sim *sim;
static struct node nodes[NODES];
static enum answer answers[NUMBERS]; /* by number */
static size_t proposed;
static uint64_t asked, ended_calls; /* calls */
static const char *what;            /* is being waited for */

/* -- the machine -- */

static size_t set_bytes(const struct set *set, size_t at, char *into, size_t room)
{
    size_t done = 0;

    for (; done < room && at + done < sizeof *set + PADDING; done++)
        into[done] = at + done < sizeof *set ? ((const char *)set)[at + done] : 'p';
    return done;
}

static enum err apply(void *state, const struct machine_entry *entry, struct buf *reply,
                      struct note *note)
{
    struct set *set = state;
    uint32_t number = load_le32(entry->command.at);

    (void)reply;
    (void)note;
    CHECK("a number of ours, for the first time", number < NUMBERS && !set->is_in[number]);
    set->is_in[number] = 1;
    set->count++;
    return ERR_OK;
}

static enum err snapshot_begin(void *state, uint64_t index, void **ret_view)
{
    struct node *node = CONTAINER_OF((struct set *)state, struct node, set);

    (void)index;
    node->view = (struct view){.set = node->set};
    *ret_view = &node->view;
    return ERR_OK;
}

static enum err snapshot_next(void *state, size_t budget, struct buf *into, bool *ret_done)
{
    struct view *view = state;
    size_t want = min_size(budget, sizeof view->set + PADDING - view->at);
    char *room;
    enum err err = buf_reserve(into, want, &room);

    if (err) return err;
    want = set_bytes(&view->set, view->at, room, want);
    buf_commit(into, want);
    view->at += want;
    *ret_done = view->at == sizeof view->set + PADDING;
    return ERR_OK;
}

static void snapshot_end(void *view)
{
    (void)view;
}

static enum err restore_begin(void *state, uint64_t index, struct note *note)
{
    struct node *node = CONTAINER_OF((struct set *)state, struct node, set);

    (void)index;
    (void)note;
    memset(&node->set, 0, sizeof node->set);
    memset(&node->coming, 0, sizeof node->coming);
    node->coming_at = 0;
    return ERR_OK;
}

static enum err restore_next(void *state, struct str bytes, struct note *note)
{
    struct node *node = CONTAINER_OF((struct set *)state, struct node, set);

    (void)note;
    for (size_t i = 0; i < bytes.len; i++, node->coming_at++)
        if (node->coming_at < sizeof node->coming)
            ((char *)&node->coming)[node->coming_at] = bytes.at[i];
    return ERR_OK;
}

static enum err restore_end(void *state, struct note *note)
{
    struct node *node = CONTAINER_OF((struct set *)state, struct node, set);

    (void)note;
    CHECK("all or nothing", node->coming_at == 0 || node->coming_at == sizeof node->set + PADDING);
    node->set = node->coming;
    return ERR_OK;
}

static uint64_t hash(const void *state)
{
    return str_hash(str_of(state, sizeof(struct set)), 0);
}

static uint64_t size(const void *state)
{
    return ((const struct set *)state)->count;
}

static const struct machine_ops ops = {
    .apply = apply,
    .snapshot_begin = snapshot_begin,
    .snapshot_next = snapshot_next,
    .snapshot_end = snapshot_end,
    .restore_begin = restore_begin,
    .restore_next = restore_next,
    .restore_end = restore_end,
    .hash = hash,
    .size = size,
};

/* -- replicas and their supervisor -- */

static void on_stopped(void *owner, enum err why, const struct note *note)
{
    struct node *node = owner;

    CHECK("some memory was missing", fault_alloc_fired());
    CHECK_ERR(note->text, why, ERR_NOMEM);
    node->stopped = true;
}

/* With MUSTER_TEST_NTH the log lines of one run are printed. */
static void on_line(void *context, enum log_level level, struct str line)
{
    struct node *node = context;

    (void)level;
    fprintf(stderr, "%c: %.*s", node->address[0], STR_ARG(line));
}

static void listen_to(struct node *node)
{
    struct logger_options options = {
        .clock = node->io->clock, .level = LOG_LEVEL_DEBUG, .sink = on_line, .sink_context = node};

    if (!getenv("MUSTER_TEST_NTH")) return;
    CHECK_OK("a logger", logger_open(&options, &node->logger));
    log_source_init(&node->log, node->logger, "log", NULL);
}

static enum err open_node(struct io *io, void *context, void **ret_state)
{
    struct node *node = context;
    struct note note = {""};
    struct state_machine machine = {
        .id = 1, .name = "set", .version = 1, .ops = &ops, .state = &node->set};
    enum err err;

    node->stopped = false;
    err = replica_open(
        &(struct replica_options){
            .io = io,
            .log = node->logger ? &node->log : NULL,
            .dir = "data",
            .listen = node->address,
            .address = node->address,
            .machines = &machine,
            .machine_count = 1,
            .limits = {.cache_bytes = 8 << 10,
                       .segment_bytes = 64 << 10,
                       .snapshot_every_ms = 1000000000,
                       .snapshot_chunk_bytes = 20000,
                       .trailing_entries = 40,
                       .hash_every = 32},
            .events = {.on_change = NULL, .on_stopped = on_stopped, .owner = node}},
        &node->replica, &note);
    if (err) {
        CHECK("only memory may be missing",
              fault_alloc_fired() && (err == ERR_NOMEM || err == ERR_FULL));
        node->replica = NULL;
        return err;
    }
    *ret_state = node;
    return ERR_OK;
}

static void close_node(void *state)
{
    struct node *node = state;

    replica_close(node->replica);
    node->replica = NULL;
}

static const struct sim_process_ops process = {.start = open_node, .destroy = close_node};

static void supervise(size_t except)
{
    for (size_t i = 0; i < NODES; i++) {
        struct node *node = &nodes[i];

        if (node->replica && node->stopped) sim_host_die(node->host, SIM_KILLED);
        if (!node->replica && i != except) (void)sim_host_start(node->host, &process, node);
    }
}

static size_t away = NODES; /* switched off: NODES is none */

#define UNTIL(why, condition)                                                                      \
    do {                                                                                           \
        what = (why);                                                                              \
        for (uint64_t ms = 0; !(condition); ms += 5) {                                             \
            CHECK(what, ms < WAIT_MS);                                                             \
            supervise(away);                                                                       \
            sim_run_for(sim, 5);                                                                   \
        }                                                                                          \
    } while (0)

static struct node *leader(void)
{
    struct node *best = NULL;
    uint64_t term = 0;

    for (size_t i = 0; i < NODES; i++) {
        struct replica_status status;

        if (!nodes[i].replica || nodes[i].stopped) continue;
        status = replica_status(nodes[i].replica);
        if (!status.ready || status.term <= term) continue;
        best = &nodes[i];
        term = status.term;
    }
    return best;
}

/* -- calls, one at a time -- */

static bool waiting;
static enum err last_err;

static void answered(enum err err)
{
    CHECK("answered once", waiting);
    waiting = false;
    last_err = err;
    ended_calls++;
}

static void on_proposed(struct proposal *proposal, enum err err, struct str reply)
{
    (void)proposal;
    (void)reply;
    answered(err);
}

static enum err propose(struct node *node)
{
    static char command[COMMAND];
    struct proposal proposal = {.machine = 1,
                                .version = 1,
                                .actor = STR_EMPTY,
                                .request_id = STR_EMPTY,
                                .command = str_of(command, sizeof command),
                                .done = on_proposed};
    struct proposal *one = &proposal;
    size_t number = proposed++;

    CHECK("room", number < NUMBERS);
    store_le32(command, (uint32_t)number);
    waiting = true;
    asked++;
    replica_propose(node->replica, &one, 1);
    UNTIL("a proposal's answer", !waiting);
    answers[number] = last_err == ERR_OK ? YES : last_err == ERR_UNKNOWN ? MAYBE : NO;
    return last_err;
}

static void on_read(struct read_ticket *ticket, enum err err)
{
    (void)ticket;
    answered(err);
}

static bool holds_all(const struct node *node)
{
    for (size_t i = 0; i < proposed; i++)
        if (answers[i] == YES && !node->set.is_in[i]) return false;
    return true;
}

static struct node *reader;
static bool read_well;
static void on_read_look(struct read_ticket *ticket, enum err err)
{
    if (!err) CHECK("a read sees every acknowledged write", holds_all(reader));
    read_well = !err;
    on_read(ticket, err);
}

static void read_once(struct node *node)
{
    struct read_ticket ticket = {.done = on_read_look};

    reader = node;
    waiting = true;
    asked++;
    replica_read(node->replica, &ticket);
    UNTIL("a read's answer", !waiting);
}

static void on_changed(struct member_change *change, enum err err, const struct note *note)
{
    (void)change;
    (void)note;
    answered(err);
}

static enum err change_once(struct node *node, enum member_change_kind kind, struct node *whom)
{
    struct member_change change = {
        .kind = kind, .id = whom->id, .address = whom->address, .done = on_changed};

    waiting = true;
    asked++;
    replica_change(node->replica, &change);
    UNTIL("a change's answer", !waiting);
    return last_err;
}

static void on_transferred(struct transfer *transfer, enum err err, const struct note *note)
{
    (void)transfer;
    (void)note;
    answered(err);
}

static void transfer_once(struct node *node)
{
    struct transfer transfer = {.done = on_transferred};

    waiting = true;
    asked++;
    replica_transfer(node->replica, &transfer);
    UNTIL("a hand-over's answer", !waiting);
}

/* -- a life -- */

static void write_some(size_t count)
{
    for (size_t done = 0; done < count;) {
        UNTIL("a leader", leader());
        if (propose(leader()) == ERR_OK) done++;
        if (last_err) sim_run_for(sim, 20);
    }
}

static void change_members(enum member_change_kind kind, struct node *whom)
{
    for (;;) {
        enum err err;

        UNTIL("a leader", leader());
        err = change_once(leader(), kind, whom);
        if (!err || err == ERR_EXISTS) return;
        sim_run_for(sim, 20);
    }
}

static bool same(void)
{
    for (size_t i = 0; i < NODES; i++) {
        if (!nodes[i].replica || nodes[i].stopped) return false;
        if (memcmp(&nodes[i].set, &nodes[0].set, sizeof nodes[0].set) != 0) return false;
    }
    return leader() && holds_all(&nodes[0]);
}

static uint64_t snapshot_at(struct node *node)
{
    return node && node->replica && !node->stopped ? replica_status(node->replica).snapshot : 0;
}

/* On every voter, because any of them may be the leader that must send it. */
static void take_snapshots(void)
{
    for (size_t i = 0; i < 2; i++) {
        struct node *node = &nodes[i];

        while (snapshot_at(node) == 0) {
            UNTIL("it runs", node->replica && !node->stopped);
            (void)replica_snapshot(node->replica);
            sim_run_for(sim, 200);
        }
    }
}

static void live(void)
{
    write_some(60);
    do {
        UNTIL("a leader", leader());
        read_once(leader());
    } while (!read_well);
    take_snapshots();
    change_members(CHANGE_ADD, &nodes[2]);
    UNTIL("it catches up", nodes[2].replica && holds_all(&nodes[2]));
    /* A replica that was started again may have enough of the log to need no snapshot. */
    CHECK("by a snapshot", fault_alloc_fired() || snapshot_at(&nodes[2]) > 0);
    change_members(CHANGE_PROMOTE, &nodes[2]);
    /* one goes away, and comes back when its entries have left the others' memory */
    UNTIL("a leader", leader());
    away = leader() == &nodes[0] ? 1 : 0;
    if (nodes[away].replica) sim_host_die(nodes[away].host, SIM_KILLED);
    write_some(35);
    away = NODES;
    UNTIL("all are the same", same());
    transfer_once(leader());
    write_some(2);
    for (size_t i = 0; i < NODES; i++) /* all stop in order and start again */
        if (nodes[i].replica) sim_host_die(nodes[i].host, SIM_KILLED);
    UNTIL("all are the same again", same());
    for (size_t i = 0; i < proposed; i++)
        CHECK("a refused command is never in the log", answers[i] != NO || !nodes[0].set.is_in[i]);
    CHECK_U64("each call was answered", ended_calls, asked);
}

static void make_world(void)
{
    struct members founders = {.count = 2};

    CHECK_OK("a world", sim_open(&(struct sim_options){.seed = 5, .events_max = 20000000}, &sim));
    for (size_t i = 0; i < NODES; i++) {
        struct node *node = &nodes[i];
        char name[2] = {(char)('a' + i), '\0'};

        *node = (struct node){.id = i + 1};
        snprintf(node->address, sizeof node->address, "%s:7791", name);
        CHECK_OK("a host",
                 sim_host_add(sim, &(struct sim_host_options){.name = name}, &node->host));
        node->io = sim_host_io(node->host);
        listen_to(node);
        if (i < 2) {
            founders.at[i] = (struct member){.id = node->id, .role = MEMBER_VOTER};
            memcpy(founders.at[i].address, node->address, sizeof node->address);
        }
    }
    for (size_t i = 0; i < NODES; i++) {
        struct datadir datadir;
        struct note note = {""};

        CHECK_ERR(
            note.text,
            datadir_format(&(struct datadir_format_options){.fs = nodes[i].io->fs,
                                                            .entropy = nodes[i].io->entropy,
                                                            .dir = "data",
                                                            .founders = i < 2 ? &founders : NULL,
                                                            .cluster_id = i < 2 ? 9 : 0,
                                                            .replica_id = i + 1},
                           &datadir, &note),
            ERR_OK);
    }
}

static bool run_with(uint64_t nth)
{
    bool fired;

    memset(answers, 0, sizeof answers);
    proposed = asked = ended_calls = 0;
    away = NODES;
    fault_alloc_arm(0);
    make_world();
    fault_alloc_arm(nth);
    live();
    fired = fault_alloc_fired();
    fault_alloc_arm(0);
    for (size_t i = 0; i < NODES; i++)
        if (nodes[i].replica) close_node(&nodes[i]);
    for (size_t i = 0; i < NODES; i++) logger_close(nodes[i].logger);
    sim_close(sim);
    return fired;
}

TEST(the_kth_allocation_fails_in_the_life_of_replicas)
{
    uint64_t nth = sweep_first(), runs = 0;
    const char *only = getenv("MUSTER_TEST_NTH");

    if (only) {
        CHECK("it fails", run_with(strtoull(only, NULL, 10)));
        return;
    }
    CHECK("as it is, nothing fails", !run_with(0));
    for (bool fired = true; fired; nth += sweep_stride(), runs++) {
        if (getenv("MUSTER_TEST_LOUD"))
            fprintf(stderr, "allocation %llu\n", (unsigned long long)nth);
        fired = run_with(nth);
    }
    CHECK("many places", nth > 3000 && runs > 100);
}
