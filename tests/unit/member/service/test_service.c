/* SPDX-License-Identifier: Apache-2.0 */
/* The service over virtual I/O: replica, service and server on up to three hosts, by the numbers of
 * workers.md 24. Cases without virtual time are in tests/integration/member. */
#include <stdio.h>
#include <stdlib.h>

#include "lib/test.h"
#include "log/datadir.h"
#include "member/service_internal.h"
#include "rpc/client.h"
#include "sim/sim.h"
#include "sim/sim_link.h"

#define RUN "01JFEAVS7C5DE5XEAEAB91EBT5"
enum {
    NODES = 3,
    WAIT_MS = 60000,
    EVENTS_MAX = 40000000,
    CLUSTER = 0xf3,
    BEATS = 512,
    INTERVAL_MS = 500,
    STEP_MS = 10,
};

struct node {
    size_t number;
    struct sim_host *host;
    struct io *io;
    char raft[32], grpc[32], name[2];
    struct member_service *service;
    struct replica *replica;
    struct rpc_server *server;
    struct rpc_channel *channel; /* of the client to it */
    bool server_closed, channel_closed, stopped;
};
static struct {
    struct sim *sim;
    size_t count;
    struct node nodes[NODES];
    struct sim_host *client;
} rig;

/* -- the world -- */

static void on_change(void *owner, const struct replica_status *status)
{
    member_service_on_change(((struct node *)owner)->service, status);
}

static void on_stopped(void *owner, enum err why, const struct note *note)
{
    (void)owner;
    CHECK_ERR(note->text, why, ERR_OK);
}

static const char *leader_address(void *owner)
{
    struct node *node = owner;
    uint64_t id = node->replica ? replica_status(node->replica).leader_id : 0;

    return id ? rig.nodes[id - 1].grpc : "";
}

static void open_node(struct node *node)
{
    struct members founders = {.count = rig.count};
    struct datadir made;
    struct state_machine machine;
    struct note note = {""};
    struct member_service_options options = {.io = node->io,
                                             .leader_address = leader_address,
                                             .owner = node,
                                             .name = node->name,
                                             .enabled = true};

    for (size_t i = 0; i < rig.count; i++) {
        founders.at[i].id = i + 1;
        founders.at[i].role = MEMBER_VOTER;
        snprintf(founders.at[i].address, sizeof founders.at[i].address, "%s", rig.nodes[i].raft);
    }
    CHECK_OK("format",
             datadir_format(&(struct datadir_format_options){.fs = node->io->fs,
                                                             .entropy = node->io->entropy,
                                                             .dir = "data",
                                                             .founders = &founders,
                                                             .cluster_id = CLUSTER,
                                                             .replica_id = node->number + 1},
                            &made, &note));
    CHECK_OK("run", ulid_parse(STR(RUN), &options.run, &note));
    member_rules_defaults(&options.rules);
    member_local_defaults(&options.local);
    CHECK_OK("service", member_service_open(&options, &node->service, &note));
    machine = member_machine_registration(member_service_machine(node->service));
    CHECK_ERR(note.text,
              replica_open(
                  &(struct replica_options){
                      .io = node->io,
                      .dir = "data",
                      .listen = node->raft,
                      .machines = &machine,
                      .machine_count = 1,
                      .level = MEMBER_MACHINE_VERSION,
                      .limits = {.segment_bytes = 4 << 20},
                      .events = {.on_change = on_change, .on_stopped = on_stopped, .owner = node}},
                  &node->replica, &note),
              ERR_OK);
    member_service_attach(node->service, node->replica);
    CHECK_OK("server",
             rpc_server_open(&(struct rpc_server_options){.io = node->io}, &node->server, &note));
    CHECK_ERR(note.text, member_service_methods(node->service, node->server, false, &note), ERR_OK);
    CHECK_OK("listen", rpc_server_listen(node->server, node->grpc, NULL, &note));
    CHECK_OK("channel",
             rpc_channel_open(
                 &(struct rpc_channel_options){.io = sim_host_io(rig.client),
                                               .addresses = (const char *[]){node->grpc, NULL}},
                 &node->channel, &note));
}

static void open_rig(size_t count)
{
    memset(&rig, 0, sizeof rig);
    rig.count = count;
    CHECK_OK("a world",
             sim_open(&(struct sim_options){.seed = 12, .events_max = EVENTS_MAX}, &rig.sim));
    for (size_t i = 0; i < count; i++) {
        struct node *node = &rig.nodes[i];

        node->number = i;
        node->name[0] = (char)('a' + i);
        snprintf(node->raft, sizeof node->raft, "%s:7791", node->name);
        snprintf(node->grpc, sizeof node->grpc, "%s:7790", node->name);
        CHECK_OK("a host", sim_host_add(rig.sim, &(struct sim_host_options){.name = node->name},
                                        &node->host));
        node->io = sim_host_io(node->host);
    }
    CHECK_OK("a host",
             sim_host_add(rig.sim, &(struct sim_host_options){.name = "client"}, &rig.client));
    for (size_t i = 0; i < count; i++) open_node(&rig.nodes[i]);
}

static void set_true(void *flag)
{
    *(bool *)flag = true;
}

static bool is_true(void *flag)
{
    return *(bool *)flag;
}

static void await(const char *what, bool *flag)
{
    CHECK(what, *flag || sim_wait(rig.sim, is_true, flag, WAIT_MS) == SIM_REACHED);
}

static void close_rig(void)
{
    for (size_t i = 0; i < rig.count; i++) {
        struct node *node = &rig.nodes[i];

        rpc_channel_close(node->channel, set_true, &node->channel_closed);
        await("the channel closes", &node->channel_closed);
    }
    for (size_t i = 0; i < rig.count; i++) {
        struct node *node = &rig.nodes[i];

        rpc_server_close(node->server, set_true, &node->server_closed);
        await("the server closes", &node->server_closed);
        replica_close(node->replica);
        node->replica = NULL;
        member_service_stop(node->service, set_true, &node->stopped);
        await("the ways to the leader close", &node->stopped);
        member_service_close(node->service);
    }
    sim_close(rig.sim);
}

static bool serves(const struct node *node)
{
    return node->service->serving && leader_leads(&node->service->leader);
}

static struct node *find_leader(void)
{
    for (size_t i = 0; i < rig.count; i++)
        if (serves(&rig.nodes[i])) return &rig.nodes[i];
    return NULL;
}

static bool has_leader(void *context)
{
    struct node *found = find_leader();

    return found && found != context;
}

/* The serving node; not `old`. */
static struct node *leader_but(struct node *old)
{
    CHECK("a replica leads",
          has_leader(old) || sim_wait(rig.sim, has_leader, old, WAIT_MS) == SIM_REACHED);
    for (size_t i = 0; i < rig.count; i++)
        if (serves(&rig.nodes[i]) && &rig.nodes[i] != old) return &rig.nodes[i];
    return NULL;
}

static struct node *leader(void)
{
    return leader_but(NULL);
}

static struct node *follower(void)
{
    struct node *led = leader();

    return &rig.nodes[(led->number + 1) % rig.count];
}

/* Cuts this node off from the other nodes; the client still reaches it. */
static void cut(struct node *node, bool on)
{
    for (size_t i = 0; i < rig.count; i++) {
        if (&rig.nodes[i] == node) continue;
        sim_link_block(rig.nodes[i].host, node->host, on);
        sim_link_block(node->host, rig.nodes[i].host, on);
    }
}

static uint64_t now_ms(void)
{
    return clock_mono(sim_host_io(rig.client)->clock).ms;
}

/* -- beats -- */

struct answer {
    bool done;
    enum err err;
    enum grpc_status status;
    uint64_t at_ms, incarnation, coord_epoch;
    bool reset;
    char text[128];
};

static uint64_t number_of(const struct rpc_client_call *call, const char *name)
{
    struct str text;
    uint64_t value = 0;

    if (rpc_call_trailer(call, str_from(name), &text)) (void)str_to_u64(text, &value);
    return value;
}

static void on_answer(void *owner, const struct rpc_client_call *call,
                      const struct rpc_outcome *outcome, struct str message)
{
    struct answer *answer = owner;
    struct str text;

    (void)message;
    answer->done = true;
    answer->err = outcome->err;
    answer->status = outcome->status;
    answer->at_ms = now_ms();
    answer->incarnation = number_of(call, "x-worker-incarnation");
    answer->coord_epoch = number_of(call, "x-coord-epoch");
    answer->reset = rpc_call_trailer(call, STR("x-directive"), &text);
    snprintf(answer->text, sizeof answer->text, "%.*s", STR_ARG(outcome->text));
}

static void worker_text(uint32_t worker, char text[ULID_TEXT_CAP])
{
    struct ulid ulid = {{0}};

    ulid.bytes[14] = (uint8_t)(worker >> 8);
    ulid.bytes[15] = (uint8_t)worker;
    ulid_text(&ulid, text);
}

static void start_beat(struct answer *answer, struct node *node, uint32_t worker,
                       enum beat_phase phase)
{
    Rollout__Transport__V1__BeatRequest m = ROLLOUT__TRANSPORT__V1__BEAT_REQUEST__INIT;
    Google__Protobuf__Timestamp due = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    struct rpc_call_options options = {
        .path = "/rollout.transport.v1.Heartbeat/Beat", .wait_for_ready = true, .attempts_max = 1};
    uint64_t due_ms = clock_wall(sim_host_io(rig.client)->clock).ms + 2 * INTERVAL_MS;
    char id[ULID_TEXT_CAP];
    struct buf bytes;

    worker_text(worker, id);
    m.worker_id = id;
    m.run_id = (char *)(uintptr_t)RUN;
    m.state = (Rollout__Transport__V1__WorkerState)phase;
    m.due_at = &due;
    due.seconds = (int64_t)(due_ms / 1000);
    due.nanos = (int32_t)(due_ms % 1000 * 1000000);
    memset(answer, 0, sizeof *answer);
    buf_init(&bytes, 4096);
    CHECK_OK("request", message_write(&m.base, &bytes, NULL));
    CHECK_OK("sent", rpc_unary(node->channel, &options, buf_peek(&bytes), on_answer, answer, NULL));
    buf_deinit(&bytes);
}

static struct answer beat(struct node *node, uint32_t worker, enum beat_phase phase)
{
    struct answer answer;

    start_beat(&answer, node, worker, phase);
    await("an answer comes", &answer.done);
    return answer;
}

static enum member_shown shown(struct node *node, uint32_t worker)
{
    struct member_worker row;
    char id[ULID_TEXT_CAP];

    worker_text(worker, id);
    CHECK("it is known",
          member_find_worker(membership_of(node->service), str_of(id, ULID_LEN), &row));
    return worker_shown(node->service, &row);
}

/* The time when the worker is first shown with that state. */
static uint64_t seen_at(struct node *node, uint32_t worker, enum member_shown want)
{
    for (uint64_t i = 0; i < WAIT_MS / STEP_MS && shown(node, worker) != want; i++)
        sim_run_for(rig.sim, STEP_MS);
    CHECK_U64("it comes to that", shown(node, worker), want);
    return now_ms();
}

/* -- rounds -- */

TEST(beats_of_a_moment_share_a_leadership_round) /* 77, design 6 */
{
    static struct answer answers[BEATS];
    struct node *led;
    struct beats_stats before, after;

    open_rig(3);
    led = leader();
    for (uint32_t i = 0; i < BEATS; i++) start_beat(&answers[i], led, i % 16, PHASE_READY);
    for (uint32_t i = 0; i < BEATS; i++) await("registered, or asked to wait", &answers[i].done);
    before = led->service->beats.stats;
    for (uint32_t i = 0; i < BEATS; i++) start_beat(&answers[i], led, i % 16, PHASE_READY);
    for (uint32_t i = 0; i < BEATS; i++) {
        await("acknowledged", &answers[i].done);
        CHECK_U64(answers[i].text, answers[i].status, GRPC_OK);
        CHECK_U64("its incarnation", answers[i].incarnation, 1);
    }
    after = led->service->beats.stats;
    CHECK_U64("all of them", after.acknowledged - before.acknowledged, BEATS);
    CHECK("by a few rounds", after.rounds - before.rounds <= 4);
    CHECK_SIZE("nobody waits", after.waiting, 0);
    close_rig();
}

TEST(a_lone_beat_does_not_wait_for_others)
{
    struct node *led;
    struct answer answer;
    uint64_t sent;

    open_rig(1);
    led = leader();
    (void)beat(led, 1, PHASE_READY);
    sim_run_for(rig.sim, 1000);
    sent = now_ms();
    answer = beat(led, 1, PHASE_READY);
    CHECK_U64("fine", answer.status, GRPC_OK);
    CHECK("at once", answer.at_ms - sent < BEATS_GATHER_MS);
    close_rig();
}

TEST(a_leader_that_is_cut_off_acknowledges_nothing_and_answers_in_time) /* 25, 95 */
{
    struct node *old;
    struct answer answer;
    uint64_t sent;

    open_rig(3);
    old = leader();
    CHECK_U64("fine", beat(old, 1, PHASE_READY).status, GRPC_OK);
    cut(old, true);
    for (int i = 0; i < 20; i++) {
        sent = now_ms();
        answer = beat(old, 1, PHASE_READY);
        CHECK_U64("nothing is promised", answer.status, GRPC_UNAVAILABLE);
        CHECK("and it is answered", answer.at_ms - sent <= 200 + 50);
        sim_run_for(rig.sim, 100);
    }
    cut(old, false);
    close_rig();
}

/* -- followers -- */

TEST(a_follower_passes_beats_on_many_in_one_call) /* 23, 21 */
{
    static struct answer answers[BEATS];
    struct node *met;
    struct beats_stats stats;

    open_rig(3);
    met = follower();
    for (uint32_t i = 0; i < BEATS; i++) start_beat(&answers[i], met, i, PHASE_INIT);
    for (uint32_t i = 0; i < BEATS; i++) {
        await("answered", &answers[i].done);
        CHECK_U64(answers[i].text, answers[i].status, GRPC_OK);
        CHECK_U64("registered", answers[i].incarnation, 1);
    }
    stats = met->service->beats.stats;
    CHECK_U64("all were passed on", stats.passed, BEATS);
    CHECK("in a few calls", stats.batches <= 8);
    CHECK_U64("every node is a member", member_counts(membership_of(leader()->service)).active,
              BEATS);
    close_rig();
}

TEST(without_a_leader_a_follower_says_so_in_time) /* 4.1 */
{
    struct node *met, *led;
    struct answer answer;
    uint64_t sent;

    open_rig(3);
    met = follower();
    led = leader();
    CHECK_U64("fine", beat(met, 1, PHASE_READY).status, GRPC_OK);
    for (size_t i = 0; i < rig.count; i++)
        if (&rig.nodes[i] != met) cut(&rig.nodes[i], true);
    (void)led;
    for (int i = 0; i < 10; i++) {
        sent = now_ms();
        answer = beat(met, 1, PHASE_READY);
        CHECK_U64("nothing is promised", answer.status, GRPC_UNAVAILABLE);
        CHECK("and it is answered", answer.at_ms - sent <= 200 + 50);
        sim_run_for(rig.sim, 200);
    }
    for (size_t i = 0; i < rig.count; i++) cut(&rig.nodes[i], false);
    close_rig();
}

/* -- silent workers -- */

TEST(silence_is_seen_at_its_time) /* 66 */
{
    struct node *led;
    uint64_t last, at;

    open_rig(1);
    led = leader();
    (void)beat(led, 1, PHASE_INIT);
    last = beat(led, 1, PHASE_READY).at_ms;
    at = seen_at(led, 1, SHOWN_SUSPECTED);
    CHECK("not before 1.25 s", at - last >= 1250 - STEP_MS);
    CHECK("by 1.5 s", at - last <= 1500 + 4 * STEP_MS);
    at = seen_at(led, 1, SHOWN_DEAD);
    CHECK("not before 6.0 s", at - last >= 6000 - STEP_MS);
    CHECK("by 6.25 s", at - last <= 6250 + 4 * STEP_MS);
    close_rig();
}

TEST(a_beating_worker_never_fails_and_costs_no_writes) /* 140, 242 */
{
    struct node *led;
    uint64_t entries;

    open_rig(1);
    led = leader();
    for (uint32_t w = 0; w < 20; w++) (void)beat(led, w, PHASE_READY);
    sim_run_for(rig.sim, 1000);
    entries = replica_status(led->replica).last;
    for (int i = 0; i < 40; i++) {
        for (uint32_t w = 0; w < 20; w++) {
            struct answer answer = beat(led, w, PHASE_READY);
            CHECK_U64(answer.text, answer.status, GRPC_OK);
        }
        sim_run_for(rig.sim, INTERVAL_MS);
    }
    for (uint32_t w = 0; w < 20; w++) CHECK_U64("active", shown(led, w), SHOWN_ACTIVE);
    CHECK("less than one entry a second", replica_status(led->replica).last - entries < 20);
    close_rig();
}

TEST(a_new_leader_fails_no_worker_before_its_own_timeout) /* 88 */
{
    struct node *old, *next;
    uint64_t taken, at;

    open_rig(3);
    old = leader();
    (void)beat(old, 1, PHASE_READY);
    sim_run_for(rig.sim, 5000);
    cut(old, true);
    next = leader_but(old);
    taken = now_ms();
    at = seen_at(next, 1, SHOWN_DEAD);
    CHECK("not before takeover + 6.0 s", at - taken >= 6000 - 250);
    CHECK("not after takeover + 6.25 s", at - taken <= 6250 + 250);
    cut(old, false);
    close_rig();
}

TEST(a_failure_is_one_transition_under_any_leader) /* 78, 83, 84 */
{
    struct node *led;
    struct member_worker row;
    char id[ULID_TEXT_CAP];

    open_rig(3);
    worker_text(1, id);
    (void)beat(leader(), 1, PHASE_READY);
    for (int i = 0; i < 3; i++) { /* each leader in turn is cut off while the worker is silent */
        led = leader();
        sim_run_for(rig.sim, 2500);
        cut(led, true);
        (void)leader_but(led);
        sim_run_for(rig.sim, 1000);
        cut(led, false);
        sim_run_for(rig.sim, 1000);
    }
    (void)seen_at(leader(), 1, SHOWN_DEAD);
    sim_run_for(rig.sim, 10000);
    led = leader();
    CHECK("known", member_find_worker(membership_of(led->service), str_of(id, ULID_LEN), &row));
    CHECK_U64("one incarnation", row.incarnation, 1);
    for (size_t i = 1; i < rig.count; i++)
        CHECK_U64("the same state everywhere", member_hash(membership_of(rig.nodes[i].service)),
                  member_hash(membership_of(rig.nodes[0].service)));
    CHECK_U64("it comes back as another", beat(led, 1, PHASE_READY).incarnation, 2);
    close_rig();
}

TEST(a_restarted_worker_is_reset) /* 41, 44 */
{
    struct node *led;
    struct answer answer;

    open_rig(1);
    led = leader();
    (void)beat(led, 1, PHASE_INIT);
    CHECK_U64("the first", beat(led, 1, PHASE_READY).incarnation, 1);
    answer = beat(led, 1, PHASE_INIT);
    CHECK_U64("the next", answer.incarnation, 2);
    CHECK("and it drops its partitions", answer.reset);
    CHECK("once", !beat(led, 1, PHASE_READY).reset);
    close_rig();
}
