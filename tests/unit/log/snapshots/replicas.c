/* SPDX-License-Identifier: Apache-2.0 */
#include "replicas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "obs/metrics.h"

enum { WAIT_MS = 120000 };

struct replicas world;
static size_t outstanding; /* proposals without an answer */

/* -- processes -- */

static void on_stopped(void *owner, enum err why, const struct note *note)
{
    struct node *node = owner;
    node->stopped = why;
    node->stopped_note = *note;
}

static void print_line(void *context, enum log_level level, struct str line)
{
    struct node *node = context;
    (void)level;
    node->began += memmem(line.at, line.len, "receiving a snapshot from the leader", 20) != NULL;
    if (world.loud || getenv("MUSTER_TEST_LOUD"))
        fprintf(stderr, "%8.3f r%zu %.*s", (double)sim_now(world.sim).ns / 1e9, node->number,
                STR_ARG(line));
}

static void destroy(void *state)
{
    struct node *node = state;

    replica_close(node->replica);
    node->replica = NULL;
    trial_close(node->trial);
    trial_close(node->newer);
    node->trial = node->newer = NULL;
    metrics_close(node->metrics);
    node->metrics = NULL;
    logger_close(node->logger);
    node->logger = NULL;
}

static enum err start(struct io *io, void *context, void **ret_state)
{
    struct node *node = context;
    char listen[40];
    struct state_machine machines[] = {
        {.id = TRIAL_MACHINE, .name = "trial", .version = 1, .ops = &trial_ops},
        {.id = TRIAL_MACHINE + 1, .name = "newer", .version = 2, .ops = &trial_ops},
    };
    enum err err;

    snprintf(listen, sizeof listen, "r%zu:7791", node->number);
    node->stopped = ERR_OK;
    node->open_note.text[0] = '\0';
    CHECK_OK("logger", logger_open(&(struct logger_options){.clock = io->clock,
                                                            .level = LOG_LEVEL_INFO,
                                                            .sink = print_line,
                                                            .sink_context = node},
                                   &node->logger));
    log_source_init(&node->source, node->logger, "log", NULL);
    CHECK_OK("metrics", metrics_open(&node->metrics));
    CHECK_OK("trial", trial_open(REPLICAS_KEYS * 3, &node->trial));
    CHECK_OK("newer", trial_open(REPLICAS_KEYS, &node->newer));
    machines[0].state = node->trial;
    machines[1].state = node->newer;
    err =
        replica_open(&(struct replica_options){.io = io,
                                               .log = &node->source,
                                               .metrics = node->metrics,
                                               .dir = "data",
                                               .listen = "0.0.0.0:7791",
                                               .address = listen,
                                               .machines = machines,
                                               .machine_count = world.no_machine ? 0
                                                                : world.newer    ? 2
                                                                                 : 1,
                                               .level = world.level,
                                               .limits = world.limits,
                                               .events = {.on_stopped = on_stopped, .owner = node}},
                     &node->replica, &node->open_note);
    if (err) {
        destroy(node);
        return err;
    }
    *ret_state = node;
    return ERR_OK;
}

static const struct sim_process_ops ops = {start, NULL, destroy};

enum err replicas_try_start(size_t number)
{
    return sim_host_start(world.nodes[number].host, &ops, &world.nodes[number]);
}

void replicas_start(size_t number)
{
    enum err err = replicas_try_start(number);
    CHECK_ERR(world.nodes[number].open_note.text, err, ERR_OK);
}

void replicas_kill(size_t number, enum sim_death death)
{
    sim_host_die(world.nodes[number].host, death);
}

static void format(struct node *node, const struct members *founders)
{
    struct io *io = sim_host_io(node->host);
    struct note note = {""};
    struct datadir datadir;
    enum err err = datadir_format(&(struct datadir_format_options){.fs = io->fs,
                                                                   .entropy = io->entropy,
                                                                   .dir = "data",
                                                                   .founders = founders,
                                                                   .cluster_id = founders ? 77 : 0,
                                                                   .replica_id = node->number + 1},
                                  &datadir, &note);
    CHECK_ERR(note.text, err, ERR_OK);
}

void replicas_open(void)
{
    struct members founders = {.count = 0};
    struct sim_fs_options disk = world.disk;

    if (world.founders == 0) world.founders = world.count;
    outstanding = 0; /* a failed test may have left some */
    world.proposed = world.acknowledged = world.unknown = world.refused = 0;
    memset(world.sure, 0, sizeof world.sure);
    memset(world.maybe, 0, sizeof world.maybe);
    CHECK_OK("world", sim_open(&(struct sim_options){.seed = world.seed}, &world.sim));
    for (size_t i = 0; i < world.founders; i++) {
        struct member *member = &founders.at[founders.count++];
        member->id = i + 1;
        member->role = MEMBER_VOTER;
        snprintf(member->address, sizeof member->address, "r%zu:7791", i);
    }
    for (size_t i = 0; i < world.count; i++) {
        struct node *node = &world.nodes[i];
        char name[SIM_NAME_CAP];

        snprintf(name, sizeof name, "r%zu", i);
        node->all = &world;
        node->number = i;
        CHECK_OK("host",
                 sim_host_add(world.sim, &(struct sim_host_options){.name = name, .disk = disk},
                              &node->host));
        format(node, i < world.founders ? &founders : NULL);
    }
    for (size_t i = 0; i < world.founders; i++) replicas_start(i);
}

void replicas_close(void)
{
    sim_close(world.sim);
    memset(&world, 0, sizeof world);
}

void replicas_run(uint64_t ms)
{
    CHECK("the world goes on", sim_run_for(world.sim, ms) != SIM_EXHAUSTED);
}

static bool call_holds(void *context)
{
    bool (*holds)(void);
    memcpy(&holds, context, sizeof holds);
    return holds();
}

bool replicas_until(bool (*holds)(void), uint64_t ms)
{
    return sim_wait(world.sim, call_holds, &holds, ms) == SIM_REACHED;
}

size_t replicas_leader(void)
{
    size_t leader = SIZE_MAX;
    uint64_t term = 0;

    for (size_t i = 0; i < world.count; i++) {
        struct replica_status status;

        if (!world.nodes[i].replica || sim_host_paused(world.nodes[i].host)) continue;
        status = replica_status(world.nodes[i].replica);
        if (status.role != REPLICA_LEADER || !status.ready || status.term <= term) continue;
        leader = i;
        term = status.term;
    }
    return leader;
}

static bool has_leader(void)
{
    return replicas_leader() != SIZE_MAX;
}

size_t replicas_wait_leader(void)
{
    CHECK("a leader", replicas_until(has_leader, WAIT_MS));
    return replicas_leader();
}

/* -- writing -- */

struct write {
    struct proposal proposal;
    size_t key;
    bool is_text; /* nothing is counted by it */
};
static void write_done(struct proposal *proposal, enum err err, struct str reply)
{
    struct write *write = CONTAINER_OF(proposal, struct write, proposal);

    (void)reply;
    outstanding--;
    if (err == ERR_OK) {
        world.acknowledged++;
        world.sure[write->key] += !write->is_text;
    } else if (err == ERR_UNKNOWN) {
        world.unknown++;
        world.maybe[write->key] += !write->is_text;
    } else
        world.refused++;
    free(write);
}

void replicas_propose(size_t number, size_t count)
{
    struct buf bytes;

    buf_init(&bytes, 4096);
    for (size_t i = 0; i < count; i++) {
        struct write *write = calloc(1, sizeof *write);
        struct proposal *one = &write->proposal;
        char key[TRIAL_KEY_MAX + 1];
        struct trial_command command = {.op = TRIAL_ADD, .number = 1};

        write->key = world.proposed++ % REPLICAS_KEYS;
        snprintf(key, sizeof key, "key-%zu", write->key);
        command.key = str_from(key);
        buf_clear(&bytes);
        CHECK_OK("encode", trial_encode(&command, &bytes));
        *one = (struct proposal){.machine = TRIAL_MACHINE,
                                 .version = 1,
                                 .command = buf_peek(&bytes),
                                 .done = write_done};
        list_init(&one->link);
        outstanding++;
        replica_propose(world.nodes[number].replica, &one, 1);
    }
    buf_deinit(&bytes);
}

static bool none_outstanding(void)
{
    return outstanding == 0;
}

static void propose_set(size_t number, const char *name, size_t n, size_t value_len)
{
    static char value[REPLICAS_FILL];
    struct write *write = calloc(1, sizeof *write);
    struct proposal *one = &write->proposal;
    struct trial_command command = {.op = TRIAL_SET, .value = str_of(value, value_len)};
    char key[TRIAL_KEY_MAX + 1];
    struct buf bytes;

    snprintf(key, sizeof key, "%s-%zu", name, n);
    command.key = str_from(key);
    buf_init(&bytes, 2 * REPLICAS_FILL);
    CHECK_OK("encode", trial_encode(&command, &bytes));
    write->is_text = true;
    *one = (struct proposal){
        .machine = TRIAL_MACHINE, .version = 1, .command = buf_peek(&bytes), .done = write_done};
    list_init(&one->link);
    outstanding++;
    replica_propose(world.nodes[number].replica, &one, 1);
    buf_deinit(&bytes);
}

void replicas_fill(void)
{
    size_t keys = world.fill_keys ? world.fill_keys : 8, count = max_size(keys, 40);

    for (size_t i = 0; i < count; i++)
        propose_set(replicas_wait_leader(), "fill", i % keys, REPLICAS_FILL);
    CHECK("filled", replicas_until(none_outstanding, WAIT_MS));
}

void replicas_write(size_t count)
{
    uint64_t before = world.acknowledged;
    size_t leader = replicas_wait_leader();

    if (world.proposed == 0) { /* gives the state a size */
        for (size_t key = 0; key < REPLICAS_KEYS; key++)
            propose_set(leader, "text", key, REPLICAS_VALUE);
        CHECK("values are set", replicas_until(none_outstanding, WAIT_MS));
        before = world.acknowledged;
    }
    while (count > 0) {
        size_t some = min_size(count, 64);
        replicas_propose(replicas_wait_leader(), some);
        CHECK("answered", replicas_until(none_outstanding, WAIT_MS));
        count -= some;
    }
    CHECK("something was acknowledged", world.acknowledged > before);
}

void replicas_check(size_t number)
{
    const struct trial *trial = world.nodes[number].trial;

    for (size_t key = 0; key < REPLICAS_KEYS; key++) {
        char text[TRIAL_KEY_MAX + 1];
        uint64_t revision = 0;
        int64_t value = 0;
        struct str bytes = STR_EMPTY;

        snprintf(text, sizeof text, "key-%zu", key);
        trial_get(trial, str_from(text), &revision, &value, &bytes);
        CHECK("nothing acknowledged is missing", value >= world.sure[key]);
        CHECK("nothing is in twice", value <= world.sure[key] + world.maybe[key]);
    }
}

static bool all_same(void)
{
    size_t leader = replicas_leader();
    struct replica_status first;

    if (leader == SIZE_MAX) return false;
    first = replica_status(world.nodes[leader].replica);
    for (size_t i = 0; i < world.count; i++) {
        struct replica_status status;
        if (!world.nodes[i].replica) continue;
        status = replica_status(world.nodes[i].replica);
        if (status.applied != first.applied || status.applied != first.last) return false;
        if (status.installing) return false;
    }
    return true;
}

void replicas_wait_same(void)
{
    size_t leader;

    CHECK("all reach the end", replicas_until(all_same, WAIT_MS));
    leader = replicas_leader();
    for (size_t i = 0; i < world.count; i++) {
        if (!world.nodes[i].replica) continue;
        CHECK_U64("the same state", trial_hash(world.nodes[i].trial),
                  trial_hash(world.nodes[leader].trial));
        CHECK_U64("the same clock", replica_status(world.nodes[i].replica).clock_ns,
                  replica_status(world.nodes[leader].replica).clock_ns);
        replicas_check(i);
    }
}

/* -- members -- */

static enum err change_result;
static bool change_over;
static void change_done(struct member_change *change, enum err err, const struct note *note)
{
    (void)change;
    change_result = err;
    change_over = true;
    if (err && world.loud) fprintf(stderr, "change: %s\n", note->text);
}

static bool change_ended(void)
{
    return change_over;
}

enum err replicas_change(enum member_change_kind kind, size_t number)
{
    char address[40];
    struct member_change change = {.kind = kind, .id = number + 1, .done = change_done};

    snprintf(address, sizeof address, "r%zu:7791", number);
    change.address = address;
    list_init(&change.link);
    change_over = false;
    replica_change(world.nodes[replicas_wait_leader()].replica, &change);
    CHECK("the change is answered", replicas_until(change_ended, WAIT_MS));
    return change_result;
}

uint64_t replicas_metric(size_t number, const char *line)
{
    struct buf text;
    uint64_t value = 0;
    const char *found;

    buf_init(&text, 1 << 20);
    CHECK_OK("print", metrics_write(world.nodes[number].metrics, &text));
    CHECK_OK("end", buf_append_byte(&text, '\0'));
    found = strstr(text.data, line);
    CHECK(line, found != NULL);
    value = strtoull(found + strlen(line), NULL, 10);
    buf_deinit(&text);
    return value;
}
