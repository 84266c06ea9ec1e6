/* SPDX-License-Identifier: Apache-2.0 */
/* The store's service over virtual I/O: replica, service and server on up to three hosts. Cases
 * without virtual time are in tests/integration/store. */
#include <muster/coord.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/store_apply.h"
#include "lib/test.h"
#include "log/datadir.h"
#include "rpc/client.h"
#include "sim/sim.h"
#include "sim/sim_link.h"
#include "store/service_internal.h"
#include "store/watch_engine.h"
#include "trial/trial.h"
#include "wire/message.h"
#include "wire/pb/muster_v1_coordination.pb-c.h"

enum {
    NODES = 3,
    WAIT_MS = 60000,
    EVENTS_MAX = 20000000,
    CLUSTER = 0xf2,
    ANSWERS = 256,
    IN_FLIGHT = 8 << 20
};

struct node {
    size_t number;
    struct sim_host *host;
    struct io *io;
    char raft[32], grpc[32];
    struct store_service *service;
    struct trial *other; /* another machine on the same log, like the fleet's tables */
    struct replica *replica;
    struct rpc_server *server;
    struct rpc_channel *channel; /* of the client to it */
    bool server_closed, channel_closed;
};
static struct {
    struct sim *sim;
    size_t count;
    struct node nodes[NODES];
    struct sim_host *client;
    struct arena arena;
    uint64_t sequence;
    uint32_t level; /* the level of the last replica; 0: as the others */
} rig;

/* -- the world -- */

static void on_change(void *owner, const struct replica_status *status)
{
    store_service_on_change(((struct node *)owner)->service, status);
}

static void on_stopped(void *owner, enum err why, const struct note *note)
{
    (void)owner;
    CHECK_ERR(note->text, why, ERR_OK);
}

static void open_node(struct node *node, const struct store_service_limits *limits)
{
    struct members founders = {.count = rig.count};
    struct datadir made;
    struct state_machine machines[2] = {
        {.id = TRIAL_MACHINE, .name = "other", .version = 1, .ops = &trial_ops}};
    struct note note = {""};
    bool last = node->number + 1 == rig.count;
    uint32_t level = last && rig.level ? rig.level : STORE_MACHINE_VERSION;

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
    CHECK_OK("service",
             store_service_open(&(struct store_service_options){.io = node->io, .limits = *limits},
                                &node->service, &note));
    CHECK_OK("another machine", trial_open(64, &node->other));
    machines[0].state = node->other;
    machines[1] = store_machine_registration(store_service_machine(node->service));
    CHECK_ERR(note.text,
              replica_open(
                  &(struct replica_options){
                      .io = node->io,
                      .dir = "data",
                      .listen = node->raft,
                      .machines = machines,
                      .machine_count = 2,
                      .level = level,
                      .limits = {.segment_bytes = 4 << 20, .in_flight_bytes = IN_FLIGHT},
                      .events = {.on_change = on_change, .on_stopped = on_stopped, .owner = node}},
                  &node->replica, &note),
              ERR_OK);
    store_service_attach(node->service, node->replica);
    CHECK_OK("server",
             rpc_server_open(&(struct rpc_server_options){.io = node->io}, &node->server, &note));
    CHECK_ERR(note.text, store_service_methods(node->service, node->server, &note), ERR_OK);
    CHECK_OK("listen", rpc_server_listen(node->server, node->grpc, NULL, &note));
    CHECK_OK("channel",
             rpc_channel_open(
                 &(struct rpc_channel_options){.io = sim_host_io(rig.client),
                                               .addresses = (const char *[]){node->grpc, NULL}},
                 &node->channel, &note));
}

static void open_rig(size_t count, struct store_service_limits limits)
{
    uint32_t level = rig.level;

    memset(&rig, 0, sizeof rig);
    rig.level = level;
    rig.count = count;
    arena_init(&rig.arena, 64 << 20);
    CHECK_OK("a world",
             sim_open(&(struct sim_options){.seed = 11, .events_max = EVENTS_MAX}, &rig.sim));
    for (size_t i = 0; i < count; i++) {
        struct node *node = &rig.nodes[i];
        char name[] = {(char)('a' + i), '\0'};

        node->number = i;
        snprintf(node->raft, sizeof node->raft, "%s:7791", name);
        snprintf(node->grpc, sizeof node->grpc, "%s:7790", name);
        CHECK_OK("a host",
                 sim_host_add(rig.sim, &(struct sim_host_options){.name = name}, &node->host));
        node->io = sim_host_io(node->host);
    }
    CHECK_OK("a host",
             sim_host_add(rig.sim, &(struct sim_host_options){.name = "client"}, &rig.client));
    for (size_t i = 0; i < count; i++) open_node(&rig.nodes[i], &limits);
}

static void set_true(void *flag)
{
    *(bool *)flag = true;
}

static bool is_true(void *flag)
{
    return *(bool *)flag;
}

static void close_rig(void)
{
    for (size_t i = 0; i < rig.count; i++) {
        struct node *node = &rig.nodes[i];

        rpc_channel_close(node->channel, set_true, &node->channel_closed);
        CHECK("the channel closes",
              sim_wait(rig.sim, is_true, &node->channel_closed, WAIT_MS) == SIM_REACHED);
    }
    for (size_t i = 0; i < rig.count; i++) {
        struct node *node = &rig.nodes[i];

        rpc_server_close(node->server, set_true, &node->server_closed);
        CHECK("the server closes",
              sim_wait(rig.sim, is_true, &node->server_closed, WAIT_MS) == SIM_REACHED);
        replica_close(node->replica);
        store_service_close(node->service);
        trial_close(node->other);
    }
    sim_close(rig.sim);
    arena_deinit(&rig.arena);
}

static struct node *find_leader(void)
{
    struct node *best = NULL;
    uint64_t term = 0;

    for (size_t i = 0; i < rig.count; i++) {
        struct replica_status status = replica_status(rig.nodes[i].replica);

        if (!status.ready || status.term <= term) continue;
        if (!rig.level && status.level < STORE_MACHINE_VERSION) continue; /* they have just met */
        term = status.term;
        best = &rig.nodes[i];
    }
    return best;
}

static bool has_leader(void *context)
{
    (void)context;
    return find_leader() != NULL;
}

static struct node *leader(void)
{
    CHECK("a replica leads",
          find_leader() || sim_wait(rig.sim, has_leader, NULL, WAIT_MS) == SIM_REACHED);
    return find_leader();
}

static struct store *store_of(const struct node *node)
{
    return store_machine_store(store_service_machine(node->service));
}

static uint64_t entries(void)
{
    return replica_status(leader()->replica).last;
}

/* Cuts all nodes off from each other. */
static void cut_all(bool cut)
{
    for (size_t i = 0; i < rig.count; i++)
        for (size_t k = 0; k < rig.count; k++)
            if (i != k) sim_link_block(rig.nodes[i].host, rig.nodes[k].host, cut);
}

/* -- calls -- */

struct answer {
    bool done;
    enum err err;
    enum grpc_status status;
    char text[160];
    struct buf bytes;
    struct rpc_client_call *call; /* until it is done */
};

static void on_answer(void *owner, const struct rpc_client_call *call,
                      const struct rpc_outcome *outcome, struct str message)
{
    struct answer *answer = owner;

    (void)call;
    answer->done = true;
    answer->err = outcome->err;
    answer->status = outcome->status;
    snprintf(answer->text, sizeof answer->text, "%.*s", STR_ARG(outcome->text));
    CHECK_OK("kept", buf_append(&answer->bytes, message));
}

static void start(struct answer *answer, const char *method, const ProtobufCMessage *request)
{
    struct rpc_call_options options = {.wait_for_ready = true, .attempts_max = 1};
    struct buf bytes;
    char path[64];

    snprintf(path, sizeof path, "/muster.v1.Coordination/%s", method);
    options.path = path;
    memset(answer, 0, sizeof *answer);
    buf_init(&answer->bytes, 4 << 20);
    buf_init(&bytes, 4 << 20);
    CHECK_OK("request", message_write(request, &bytes, NULL));
    CHECK_OK("sent", rpc_unary(leader()->channel, &options, buf_peek(&bytes), on_answer, answer,
                               &answer->call));
    buf_deinit(&bytes);
}

static void wait_answer(struct answer *answer)
{
    CHECK("an answer comes",
          answer->done || sim_wait(rig.sim, is_true, &answer->done, WAIT_MS) == SIM_REACHED);
    CHECK_U64("it was decided", answer->status, GRPC_OK);
}

/* Valid until the next. */
static const Muster__V1__Outcome *ask(const char *method, const ProtobufCMessage *request)
{
    struct answer answer;
    struct note note = {""};
    ProtobufCMessage *message;

    start(&answer, method, request);
    wait_answer(&answer);
    arena_reset(&rig.arena);
    CHECK_ERR(note.text,
              message_read(&muster__v1__outcome__descriptor, buf_peek(&answer.bytes), NULL,
                           &rig.arena, &message, &note),
              ERR_OK);
    buf_deinit(&answer.bytes);
    return (const Muster__V1__Outcome *)message;
}

static ProtobufCBinaryData bytes_of(const char *text)
{
    return (ProtobufCBinaryData){strlen(text), (uint8_t *)(uintptr_t)text};
}

static ProtobufCBinaryData lease_id(uint32_t n)
{
    static uint8_t ids[4096][16];

    ids[n % 4096][0] = (uint8_t)(n % 251 + 1);
    ids[n % 4096][1] = (uint8_t)(n / 251);
    return (ProtobufCBinaryData){16, ids[n % 4096]};
}

static const Muster__V1__Outcome *lease(const char *key, uint32_t n, int64_t ttl_ms)
{
    Muster__V1__CreateRequest m = MUSTER__V1__CREATE_REQUEST__INIT;

    m.key = bytes_of(key);
    m.ttl_ms = ttl_ms;
    m.owner = (char *)(uintptr_t) "w";
    m.lease_id = lease_id(n);
    return ask("Create", &m.base);
}

static const Muster__V1__Outcome *put(const char *key, size_t value_len)
{
    static char value[1 << 20];
    Muster__V1__PutRequest m = MUSTER__V1__PUT_REQUEST__INIT;

    m.key = bytes_of(key);
    m.value = (ProtobufCBinaryData){value_len, (uint8_t *)value};
    return ask("Put", &m.base);
}

static uint64_t leases(void)
{
    return store_sizes(store_of(leader())).leases;
}

/* -- the clock -- */

TEST(a_lease_ends_at_its_deadline_without_a_call)
{
    open_rig(1, (struct store_service_limits){0});
    CHECK_I64("made", lease("a", 1, 2000)->code, COORD_OK);
    sim_run_for(rig.sim, 1900);
    CHECK_U64("not before", leases(), 1);
    sim_run_for(rig.sim, 200);
    CHECK_U64("and not long after", leases(), 0);
    close_rig();
}

TEST(an_idle_store_writes_nothing_and_one_with_leases_once_a_second)
{
    uint64_t before;

    open_rig(1, (struct store_service_limits){0});
    (void)put("k", 1); /* and its identity is drawn */
    sim_run_for(rig.sim, 1000);
    before = entries();
    sim_run_for(rig.sim, 60000);
    CHECK_U64("idle", entries(), before);
    (void)lease("a", 1, 3600000);
    before = entries();
    sim_run_for(rig.sim, 10000);
    CHECK("it ticks", entries() >= before + 9);
    CHECK("once a second", entries() <= before + 11);
    close_rig();
}

TEST(the_clock_stops_without_a_leader)
{
    uint64_t clock;

    open_rig(3, (struct store_service_limits){0});
    (void)lease("a", 1, 5000);
    sim_run_for(rig.sim, 1000);
    cut_all(true);
    sim_run_for(rig.sim, 60000);
    clock = store_clock_ns(store_of(&rig.nodes[0]));
    CHECK("a second or two at most", clock < 4000 * NS_PER_MS);
    cut_all(false);
    CHECK_U64("it lives on", leases(), 1);
    sim_run_for(rig.sim, 2000);
    CHECK_U64("for the remaining time", leases(), 1);
    sim_run_for(rig.sim, 4000);
    CHECK_U64("and no longer", leases(), 0);
    close_rig();
}

TEST(many_that_end_at_once_are_paced)
{
    static ProtobufCBinaryData ids[1000];
    Muster__V1__RenewRequest renew = MUSTER__V1__RENEW_REQUEST__INIT;
    struct answer answer;
    uint64_t before;

    open_rig(1, (struct store_service_limits){0});
    for (uint32_t n = 0; n < 1000; n++) {
        char key[16];

        snprintf(key, sizeof key, "k%u", n);
        CHECK_I64("made", lease(key, n + 1, 20000)->code, COORD_OK);
    }
    for (uint32_t n = 0; n < 1000; n++) ids[n] = lease_id(n + 1);
    renew.lease_ids = ids;
    renew.n_lease_ids = 1000;
    start(&answer, "Renew", &renew.base); /* one entry: one deadline */
    wait_answer(&answer);
    buf_deinit(&answer.bytes);
    sim_run_for(rig.sim, 19900);
    CHECK_U64("all there", leases(), 1000);
    before = entries();
    sim_run_for(rig.sim, 200);
    CHECK_U64("all gone", leases(), 0);
    CHECK("in portions, of leases and their keys",
          entries() >= before + (2 * 1000 + STORE_EXPIRE_MAX - 1) / STORE_EXPIRE_MAX);
    close_rig();
}

TEST(compacted_versions_are_freed_without_further_writes)
{
    Muster__V1__CompactRequest compact = MUSTER__V1__COMPACT_REQUEST__INIT;
    uint64_t one;

    open_rig(1, (struct store_service_limits){0});
    (void)put("k", 100);
    one = store_sizes(store_of(leader())).bytes;
    for (int i = 0; i < 100; i++) compact.revision = put("k", 100)->revision;
    CHECK("history", store_sizes(store_of(leader())).bytes > one + 100 * 100);
    CHECK_I64("compacted", ask("Compact", &compact.base)->code, COORD_OK);
    sim_run_for(rig.sim, 200);
    CHECK("freed, but for the version before the last",
          store_sizes(store_of(leader())).bytes <= one + 200);
    one = entries();
    sim_run_for(rig.sim, 5000);
    CHECK_U64("and then it is idle", entries(), one);
    close_rig();
}

TEST(renewals_of_many_calls_are_few_entries)
{
    static struct answer answers[ANSWERS];
    Muster__V1__RenewRequest m = MUSTER__V1__RENEW_REQUEST__INIT;
    ProtobufCBinaryData id = lease_id(1);
    uint64_t before;

    open_rig(3, (struct store_service_limits){0});
    (void)lease("a", 1, 5000);
    m.lease_ids = &id;
    m.n_lease_ids = 1;
    before = entries();
    for (size_t i = 0; i < ANSWERS; i++) start(&answers[i], "Renew", &m.base);
    for (size_t i = 0; i < ANSWERS; i++) {
        wait_answer(&answers[i]);
        CHECK("renewed", answers[i].bytes.len > 0);
        buf_deinit(&answers[i].bytes);
    }
    CHECK("a few entries", entries() <= before + 8);
    close_rig();
}

/* -- tokens -- */

static int32_t renew_by(const uint64_t *tokens, size_t count, enum grpc_status *ret_status)
{
    Muster__V1__RenewRequest m = MUSTER__V1__RENEW_REQUEST__INIT;
    ProtobufCBinaryData id = lease_id(1);
    ProtobufCMessage *message = NULL;
    struct answer answer;
    int32_t code = -1;

    m.lease_ids = &id;
    m.n_lease_ids = 1;
    m.tokens = (uint64_t *)tokens;
    m.n_tokens = count;
    start(&answer, "Renew", &m.base);
    CHECK("it is answered", sim_wait(rig.sim, is_true, &answer.done, WAIT_MS) == SIM_REACHED);
    *ret_status = answer.status;
    if (!message_read(&muster__v1__renew_response__descriptor, buf_peek(&answer.bytes), NULL,
                      &rig.arena, &message, NULL) &&
        ((Muster__V1__RenewResponse *)message)->n_renewals == 1)
        code = ((Muster__V1__RenewResponse *)message)->renewals[0]->code;
    buf_deinit(&answer.bytes);
    return code;
}

/* What another token may do to the claim "k" under lease 1, whose token is `token`. */
static void check_another_token(uint64_t token, bool refused)
{
    Muster__V1__CompareAndSetRequest cas = MUSTER__V1__COMPARE_AND_SET_REQUEST__INIT;
    Muster__V1__DeleteRequest del = MUSTER__V1__DELETE_REQUEST__INIT;
    Muster__V1__ReleaseRequest release = MUSTER__V1__RELEASE_REQUEST__INIT;
    const uint64_t tokens[2] = {token, token + 1};
    enum grpc_status status;

    cas.key = del.key = release.key = bytes_of("k");
    cas.held = del.held = release.lease_id = lease_id(1);
    cas.token = del.token = release.token = token + 1;
    cas.expected = token;
    cas.ttl_ms = STORE_TTL_KEEP;
    del.which_case = MUSTER__V1__DELETE_REQUEST__WHICH_ANY;
    del.any = true;
    CHECK_I64("renewed by its token", renew_by(tokens, 1, &status), COORD_OK);
    CHECK_I64("or by another", renew_by(tokens + 1, 1, &status),
              refused ? COORD_EXPIRED : COORD_OK);
    CHECK_I64("by none: an earlier release", renew_by(NULL, 0, &status), COORD_OK);
    CHECK_I64("as many tokens as leases", renew_by(tokens, 2, &status), -1);
    CHECK_I64("or it is refused", status, GRPC_INVALID_ARGUMENT);
    CHECK_I64("compared and set", ask("CompareAndSet", &cas.base)->code,
              refused ? COORD_CONFLICT : COORD_OK);
    if (!refused) {
        CHECK_I64("released", ask("Release", &release.base)->code, COORD_OK);
        return;
    }
    CHECK_I64("not deleted", ask("Delete", &del.base)->code, COORD_CONFLICT);
    CHECK_I64("not released", ask("Release", &release.base)->code, COORD_EXPIRED);
    CHECK_U64("it lives", leases(), 1);
    cas.token = release.token = token;
    CHECK_I64("its own token does", ask("CompareAndSet", &cas.base)->code, COORD_OK);
    CHECK_I64("and releases", ask("Release", &release.base)->code, COORD_OK);
    CHECK_U64("all of it", leases(), 0);
}

TEST(a_claim_is_changed_only_with_its_lease_and_token)
{
    open_rig(3, (struct store_service_limits){0});
    check_another_token(lease("k", 1, 60000)->token, true);
    close_rig();
}

/* Below the level, the log refuses commands with tokens, and requests with tokens are treated as if
 * they had none. */
TEST(tokens_count_once_every_replica_checks_them)
{
    rig.level = STORE_TOKENS_LEVEL - 1;
    open_rig(3, (struct store_service_limits){0});
    sim_run_for(rig.sim, 5000);
    CHECK_U64("all have met", replica_status(leader()->replica).level, STORE_TOKENS_LEVEL - 1);
    check_another_token(lease("k", 1, 60000)->token, false);
    close_rig();
    rig.level = 0;
}

/* -- levels -- */

TEST(nothing_is_written_before_every_replica_supports_the_level)
{
    Muster__V1__PutRequest m = MUSTER__V1__PUT_REQUEST__INIT;
    struct answer answer;
    uint64_t before, idle;

    rig.level = STORE_FIRST_VERSION - 1;
    open_rig(3, (struct store_service_limits){0});
    (void)leader();
    sim_run_for(rig.sim, 5000);
    before = entries();
    idle = sim_events(rig.sim);
    m.key = bytes_of("k");
    start(&answer, "Put", &m.base);
    CHECK("it is answered", sim_wait(rig.sim, is_true, &answer.done, WAIT_MS) == SIM_REACHED);
    CHECK_U64("refused", answer.status, GRPC_UNAVAILABLE);
    CHECK_HAS("and why", answer.text, "at level 1 until every replica is upgraded");
    buf_deinit(&answer.bytes);
    sim_run_for(rig.sim, 10000);
    CHECK_U64("no entry", entries(), before);
    CHECK("and nobody spins", sim_events(rig.sim) - idle < 20000);
    close_rig();
    rig.level = 0;
}

/* -- history and quota -- */

TEST(history_is_compacted_after_its_time)
{
    open_rig(3, (struct store_service_limits){.history_ms = 15000});
    for (int i = 0; i < 10; i++) (void)put("k", 10);
    sim_run_for(rig.sim, 5000);
    CHECK_U64("not yet", keys_compacted(store_keys(store_of(leader()))), 0);
    sim_run_for(rig.sim, 15000);
    uint64_t compacted = keys_compacted(store_keys(store_of(leader())));
    CHECK("the state of that revision", compacted >= 11);
    sim_run_for(rig.sim, 1000);
    for (size_t i = 0; i < rig.count; i++)
        CHECK_U64("everywhere", keys_compacted(store_keys(store_of(&rig.nodes[i]))), compacted);
    close_rig();
}

TEST(history_that_takes_a_quarter_of_the_quota_is_compacted_at_once)
{
    open_rig(1, (struct store_service_limits){.quota_bytes = 4 << 20});
    for (int i = 0; i < 25; i++) {
        char key[8];

        snprintf(key, sizeof key, "k%d", i);
        CHECK_I64("put", put(key, 50000)->code, COORD_OK);
    }
    sim_run_for(rig.sim, 3000);
    CHECK_U64("the present is no history", keys_compacted(store_keys(store_of(leader()))), 0);
    for (int i = 0; i < 30; i++) CHECK_I64("put", put("k", 50000)->code, COORD_OK);
    sim_run_for(rig.sim, 3000);
    CHECK("compacted", keys_compacted(store_keys(store_of(leader()))) > 0);
    for (int i = 0; i < 200; i++) {
        CHECK_I64("never full of the past", put("k", 50000)->code, COORD_OK);
        sim_run_for(rig.sim, 100);
    }
    close_rig();
}

static bool other_done;

static void on_other(struct proposal *proposal, enum err err, struct str reply)
{
    (void)proposal, (void)reply;
    CHECK_OK("the other machine is written to", err);
    other_done = true;
}

static void write_other(void)
{
    struct proposal proposal = {.machine = TRIAL_MACHINE, .version = 1, .done = on_other};
    struct buf command;

    other_done = false;
    buf_init(&command, 1024);
    CHECK_OK("a command", trial_encode(&(struct trial_command){.op = TRIAL_ADD,
                                                               .key = STR("n"),
                                                               .value = STR_EMPTY,
                                                               .number = 1},
                                       &command));
    proposal.actor = proposal.request_id = STR_EMPTY;
    proposal.command = buf_peek(&command);
    replica_propose(leader()->replica, (struct proposal *const[]){&proposal}, 1);
    CHECK("it is answered", sim_wait(rig.sim, is_true, &other_done, WAIT_MS) == SIM_REACHED);
    buf_deinit(&command);
}

TEST(a_full_store_refuses_only_additions)
{
    Muster__V1__DeleteRangeRequest del = MUSTER__V1__DELETE_RANGE_REQUEST__INIT;
    Muster__V1__CompactRequest compact = MUSTER__V1__COMPACT_REQUEST__INIT;
    const Muster__V1__Outcome *got;
    char key[8];
    int made = 0;

    open_rig(1, (struct store_service_limits){.quota_bytes = 1 << 20});
    (void)lease("held", 1, 60000);
    for (; made < 100; made++) {
        snprintf(key, sizeof key, "k%d", made);
        got = put(key, 50000);
        if (got->code) break;
    }
    CHECK("full", made > 5 && made < 25);
    CHECK_I64("reported", got->code, COORD_UNAVAILABLE);
    CHECK_I64("and why", got->reason, COORD_R_QUOTA);
    CHECK("the text", strstr(got->text, "full"));
    del.key = bytes_of("k0");
    CHECK_I64("a deletion works", ask("DeleteRange", &del.base)->code, COORD_OK);
    Muster__V1__ReleaseRequest release = MUSTER__V1__RELEASE_REQUEST__INIT;
    release.lease_id = lease_id(1);
    CHECK_I64("a release, too", ask("Release", &release.base)->code, COORD_OK);
    CHECK_I64("additions are still refused: history counts", put("more", 400000)->code,
              COORD_UNAVAILABLE);
    write_other(); /* fleet tables and members share the log and still work */
    del.range_end = bytes_of("l");
    CHECK_I64("all of them", ask("DeleteRange", &del.base)->code, COORD_OK);
    compact.revision = keys_revision(store_keys(store_of(leader())));
    CHECK_I64("without their history", ask("Compact", &compact.base)->code, COORD_OK);
    sim_run_for(rig.sim, 5000); /* the leader frees the versions that the deletion replaced */
    CHECK_I64("there is room again", put("more", 400000)->code, COORD_OK);
    close_rig();
}

TEST(more_than_may_be_under_way_is_refused_by_name_and_the_rest_is_not)
{
    static struct answer answers[100], small;
    static char value[IN_FLIGHT / 64];
    Muster__V1__PutRequest m = MUSTER__V1__PUT_REQUEST__INIT;
    uint32_t refused = 0, other = 0;

    open_rig(3, (struct store_service_limits){0});
    (void)put("k", 1);
    cut_all(true); /* no proposal is committed for a while */
    m.key = bytes_of("k");
    m.value = (ProtobufCBinaryData){sizeof value, (uint8_t *)value};
    for (int i = 0; i < 100; i++) start(&answers[i], "Put", &m.base);
    m.value.len = 1;
    start(&small, "Put", &m.base); /* arrives last and still fits */
    sim_run_for(rig.sim, 10000);
    cut_all(false);
    for (int i = 0; i < 100; i++) {
        CHECK("each is answered", answers[i].done);
        if (answers[i].status == GRPC_RESOURCE_EXHAUSTED)
            CHECK("certainly not done", answers[i].err != ERR_UNKNOWN && ++refused);
        else
            CHECK("or nobody knows", answers[i].err == ERR_UNKNOWN && ++other);
        buf_deinit(&answers[i].bytes);
    }
    CHECK("over the limit", refused >= 100 - 64 && other > 50);
    CHECK("the small one had room", small.done && small.status != GRPC_RESOURCE_EXHAUSTED);
    buf_deinit(&small.bytes);
    close_rig();
}

TEST(a_look_into_the_past_has_a_bound)
{
    Muster__V1__RangeRequest m = MUSTER__V1__RANGE_REQUEST__INIT;
    struct store_command command = {.kind = STORE_PUT, .value = STR("v")};
    struct store_result result;
    struct answer answer;
    struct store *store;
    char key[16];

    open_rig(1, (struct store_service_limits){0});
    m.revision = put("k/x", 1)->revision;
    store = store_of(leader());
    for (int i = 0; i < 70000; i++) { /* without the log, because only reading is tested */
        command.key = str_of(key, (size_t)snprintf(key, sizeof key, "k/%06d", i));
        store_apply(store, store_clock_ns(store), &command, &result, NULL);
    }
    m.key = bytes_of("k/");
    m.range_end = bytes_of("k0");
    for (int i = 0; i < 2; i++) {
        m.count_only = i == 1;
        start(&answer, "Range", &m.base);
        CHECK("answered", sim_wait(rig.sim, is_true, &answer.done, WAIT_MS) == SIM_REACHED);
        CHECK_U64("too far", answer.status, GRPC_RESOURCE_EXHAUSTED);
        buf_deinit(&answer.bytes);
    }
    m.key = bytes_of("k/06");
    start(&answer, "Range", &m.base);
    wait_answer(&answer); /* a part of it */
    buf_deinit(&answer.bytes);
    close_rig();
}

/* -- waiting -- */

/* Acquires for client n with a chosen lease. */
static void start_acquire_with(struct answer *answer, uint32_t n, uint32_t lease, int64_t wait_ms)
{
    Muster__V1__AcquireRequest m = MUSTER__V1__ACQUIRE_REQUEST__INIT;
    Muster__V1__Request request = MUSTER__V1__REQUEST__INIT;
    char owner[8];

    snprintf(owner, sizeof owner, "w%u", (unsigned)n);
    request.client_id = lease_id(100 + n);
    request.sequence = 1;
    m.request = &request;
    m.group = bytes_of("g");
    m.slot_count = 1;
    m.prefer_slot = -1;
    m.owner = owner;
    m.ttl_ms = 60000;
    m.wait_ms = wait_ms;
    m.lease_id = lease_id(lease);
    start(answer, "Acquire", &m.base);
}

static void start_acquire(struct answer *answer, uint32_t n, int64_t wait_ms)
{
    start_acquire_with(answer, n, n, wait_ms);
}

/* The first attempt, which nobody waits for any more, ends after its repeat in the log. It must not
 * cancel the place, which has the first attempt's lease although the repeat drew another, nor free
 * the slot that the repeat got meanwhile. `steps`: progress of the repeat when the first attempt
 * ends. */
static void end_first_attempt(int steps)
{
    Muster__V1__ReleaseRequest release = MUSTER__V1__RELEASE_REQUEST__INIT;
    struct answer holder, first, again, given_back;

    open_rig(1, (struct store_service_limits){0});
    start_acquire(&holder, 1, 0);
    wait_answer(&holder);
    start_acquire(&first, 2, 30000);
    sim_run_for(rig.sim, 100);
    start_acquire_with(&again, 2, 7, 30000);
    release.lease_id = lease_id(1);
    start(&given_back, "Release", &release.base);
    for (int i = 0; i < steps; i++) (void)sim_step(rig.sim);
    if (!first.done)
        rpc_call_cancel(first.call); /* otherwise it was answered that another took over */
    wait_answer(&given_back);
    wait_answer(&again);
    sim_run_for(rig.sim, 5000);
    CHECK_U64("its answer's slot is still held", leases(), 1);
    buf_deinit(&holder.bytes);
    buf_deinit(&first.bytes);
    buf_deinit(&again.bytes);
    buf_deinit(&given_back.bytes);
    close_rig();
}

TEST(the_end_of_the_first_attempt_takes_nothing_from_a_repeat_with_another_lease)
{
    for (int steps = 0; steps < 40; steps++) end_first_attempt(steps);
}

/* The order in the log: the release that gives the slot to the first attempt; the first attempt's
 * end, which gives the slot to the next in the queue; the repeat, which is behind that one. */
TEST(a_repeat_does_not_report_a_slot_that_the_end_of_the_first_attempt_freed)
{
    Muster__V1__ReleaseRequest release = MUSTER__V1__RELEASE_REQUEST__INIT;
    struct answer holder, first, next, given_back, again;

    open_rig(1, (struct store_service_limits){0});
    start_acquire(&holder, 1, 0);
    wait_answer(&holder);
    start_acquire(&first, 2, 30000);
    sim_run_for(rig.sim, 100);
    start_acquire(&next, 3, 30000);
    sim_run_for(rig.sim, 100);
    CHECK("both wait", !first.done && !next.done);
    release.lease_id = lease_id(1);
    start(&given_back, "Release", &release.base);
    rpc_call_cancel(first.call);
    start_acquire(&again, 2, 30000);
    wait_answer(&given_back);
    wait_answer(&next);
    sim_run_for(rig.sim, 1000);
    CHECK("the repeat waits", !again.done);
    release.lease_id = lease_id(3);
    CHECK_I64("until it is its turn", ask("Release", &release.base)->code, COORD_OK);
    wait_answer(&again);
    buf_deinit(&holder.bytes);
    buf_deinit(&first.bytes);
    buf_deinit(&next.bytes);
    buf_deinit(&given_back.bytes);
    buf_deinit(&again.bytes);
    close_rig();
}

/* -- watches -- */

struct watching {
    struct rpc_client_call *call;
    uint32_t kinds[8], events; /* number of messages of each kind; events after the last snapshot */
    uint32_t expired;          /* number of events of that type */
    uint64_t revision;
    bool ended, early; /* early: an event named a token newer than itself */
};

static void on_message(void *owner, struct rpc_client_call *call, struct str message)
{
    struct watching *watch = owner;
    const Muster__V1__WatchResponse *reported;
    ProtobufCMessage *read;
    struct arena arena;

    (void)call;
    arena_init(&arena, 4 << 20);
    CHECK_OK("read", message_read(&muster__v1__watch_response__descriptor, message, NULL, &arena,
                                  &read, NULL));
    reported = (const Muster__V1__WatchResponse *)read;
    watch->kinds[reported->kind & 7]++;
    watch->revision = reported->revision;
    if (reported->kind == MUSTER__V1__WATCH_RESPONSE__KIND__SNAPSHOT) watch->events = 0;
    if (reported->kind == MUSTER__V1__WATCH_RESPONSE__KIND__CHANGES)
        watch->events += (uint32_t)reported->n_events;
    for (size_t i = 0; i < reported->n_events; i++) {
        watch->early |= reported->events[i]->entry->token > reported->events[i]->entry->revision;
        watch->expired += reported->events[i]->type == MUSTER__V1__WATCH_EVENT__TYPE__EXPIRED;
    }
    arena_deinit(&arena);
}

static void on_end(void *owner, struct rpc_client_call *call, const struct rpc_outcome *outcome)
{
    (void)call;
    (void)outcome;
    ((struct watching *)owner)->ended = true;
}

static void start_watch_at(struct watching *watch, const char *prefix, uint64_t start_revision)
{
    static const struct rpc_call_events events = {.on_message = on_message, .on_end = on_end};
    Muster__V1__WatchRequest m = MUSTER__V1__WATCH_REQUEST__INIT;
    struct rpc_call_options options = {
        .path = "/muster.v1.Coordination/Watch", .wait_for_ready = true, .attempts_max = 1};
    struct buf bytes;

    memset(watch, 0, sizeof *watch);
    m.scope = bytes_of(prefix);
    m.raw = true;
    m.start_revision = start_revision;
    buf_init(&bytes, 4096);
    CHECK_OK("request", message_write(&m.base, &bytes, NULL));
    CHECK_OK("start", rpc_call_start(leader()->channel, &options, &events, watch, &watch->call));
    CHECK_OK("send", rpc_call_send(watch->call, buf_peek(&bytes)));
    rpc_call_end(watch->call);
    buf_deinit(&bytes);
    sim_run_for(rig.sim, 1000);
}

static void start_watch(struct watching *watch, const char *prefix)
{
    start_watch_at(watch, prefix, 0);
    CHECK_U64("a snapshot", watch->kinds[MUSTER__V1__WATCH_RESPONSE__KIND__SNAPSHOT], 1);
}

TEST(too_many_waiting_events_are_a_resync_for_that_watcher_only)
{
    Muster__V1__CreateRequest more = MUSTER__V1__CREATE_REQUEST__INIT;
    Muster__V1__ReleaseRequest release = MUSTER__V1__RELEASE_REQUEST__INIT;
    struct watching all, one;
    char key[8];

    open_rig(1, (struct store_service_limits){.watch_events_max = 8});
    (void)lease("k0", 1, 60000);
    for (int i = 1; i < 20; i++) {
        snprintf(key, sizeof key, "k%02d", i);
        more.key = bytes_of(key);
        more.under = lease_id(1);
        CHECK_I64("made", ask("Create", &more.base)->code, COORD_OK);
    }
    start_watch(&all, "muster/");
    start_watch(&one, "muster/k07");
    release.lease_id = lease_id(1);
    CHECK_I64("twenty in one step", ask("Release", &release.base)->code, COORD_OK);
    sim_run_for(rig.sim, 1000);
    CHECK_U64("reported so", all.kinds[MUSTER__V1__WATCH_RESPONSE__KIND__RESYNC], 1);
    CHECK_U64("a new snapshot", all.kinds[MUSTER__V1__WATCH_RESPONSE__KIND__SNAPSHOT], 2);
    CHECK_U64("with all of it", all.revision, keys_revision(store_keys(store_of(leader()))));
    CHECK_U64("not the other", one.kinds[MUSTER__V1__WATCH_RESPONSE__KIND__RESYNC], 0);
    CHECK_U64("which is reported its one", one.events, 1);
    (void)put("muster", 1); /* not below the prefix */
    (void)lease("after", 2, 60000);
    sim_run_for(rig.sim, 1000);
    CHECK_U64("and it goes on", all.events, 1);
    rpc_call_cancel(all.call);
    rpc_call_cancel(one.call);
    close_rig();
}

/* The watch's client does not read: messages fill windows and buffers, then they wait. */
static void write_past(struct watching *deaf, int count)
{
    rpc_call_pause(deaf->call);
    for (int i = 0; i < count; i++) CHECK_I64("put", put("k/1", 50000)->code, COORD_OK);
    sim_run_for(rig.sim, 1000);
    rpc_call_resume(deaf->call);
    sim_run_for(rig.sim, 5000);
}

TEST(events_queued_for_a_watcher_are_bounded_in_bytes)
{
    struct watching deaf, keen;

    open_rig(1, (struct store_service_limits){.watch_bytes_max = 1 << 20});
    start_watch(&deaf, "k/");
    start_watch(&keen, "k/");
    write_past(&deaf, 150);
    CHECK_U64("reported so", deaf.kinds[MUSTER__V1__WATCH_RESPONSE__KIND__RESYNC], 1);
    CHECK("up to the present", deaf.revision == keys_revision(store_keys(store_of(leader()))));
    CHECK_U64("nobody else", keen.kinds[MUSTER__V1__WATCH_RESPONSE__KIND__RESYNC], 0);
    CHECK_U64("the watch that got all", keen.events, 150);
    rpc_call_cancel(deaf.call);
    rpc_call_cancel(keen.call);
    close_rig();
}

TEST(watches_of_every_prefix_length_report_and_stay_within_the_limit)
{
    static const char *const prefixes[] = {"", "k", "k/", "k/12", "k/1", "l", "k/123"};
    enum { COUNT = sizeof prefixes / sizeof prefixes[0] };
    static const uint32_t want[COUNT] = {3, 3, 3, 1, 2, 0, 0};
    struct watching watches[COUNT], late;

    open_rig(1, (struct store_service_limits){.watchers_max = COUNT});
    for (int i = 0; i < COUNT; i++) start_watch(&watches[i], prefixes[i]);
    start_watch_at(&late, "k", 0);
    CHECK("one too many",
          late.ended && late.kinds[MUSTER__V1__WATCH_RESPONSE__KIND__SNAPSHOT] == 0);
    (void)put("k/1", 10);
    (void)put("k/12", 10);
    (void)put("k/2", 10);
    sim_run_for(rig.sim, 1000);
    for (int i = 0; i < COUNT; i++) CHECK_U32(prefixes[i], watches[i].events, want[i]);
    for (int i = 0; i < COUNT; i++) rpc_call_cancel(watches[i].call);
    sim_run_for(rig.sim, 1000);
    start_watch(&late, "k/1"); /* there is room again */
    rpc_call_cancel(late.call);
    close_rig();
}

TEST(a_step_of_many_changes_is_applied_and_reported_in_parts)
{
    enum { MANY = 5000 };
    Muster__V1__DeleteRangeRequest del = MUSTER__V1__DELETE_RANGE_REQUEST__INIT;
    struct watching live, later, one;
    const Muster__V1__Outcome *got;
    char key[16];

    open_rig(1, (struct store_service_limits){0});
    for (int i = 0; i < MANY; i++) {
        snprintf(key, sizeof key, "k/%04d", i);
        (void)put(key, 1);
    }
    start_watch_at(&live, "k/", 0);
    start_watch(&one, "k/4321");
    del.key = bytes_of("k/");
    del.range_end = bytes_of("k0");
    got = ask("DeleteRange", &del.base);
    CHECK_I64("one step", got->code, COORD_OK);
    CHECK_U32("of them all", got->live, MANY);
    start_watch_at(&later, "k/", got->revision);
    CHECK_U32("all of it", later.events, MANY);
    CHECK_U32("and live", live.events, MANY);
    CHECK_U32("each its own", one.events, 1);
    CHECK("in parts", later.kinds[MUSTER__V1__WATCH_RESPONSE__KIND__CHANGES] > 1);
    (void)put("k/4321", 1);
    sim_run_for(rig.sim, 1000);
    CHECK("they go on", live.events == MANY + 1 && one.events == 2 && later.events == MANY + 1);
    rpc_call_cancel(live.call);
    rpc_call_cancel(later.call);
    rpc_call_cancel(one.call);
    close_rig();
}

TEST(a_restore_during_a_step_repeats_and_skips_no_event)
{
    enum { MANY = 5000 };
    Muster__V1__DeleteRangeRequest del = MUSTER__V1__DELETE_RANGE_REQUEST__INIT;
    struct watching live, idle;
    struct answer answer;
    char key[512];

    open_rig(1, (struct store_service_limits){0});
    for (int i = 0; i < MANY; i++) {
        snprintf(key, sizeof key, "k/%0400d", i); /* more than the windows hold */
        (void)put(key, 1);
    }
    start_watch_at(&live, "k/", 0);
    start_watch_at(&idle, "other/", 0);
    del.key = bytes_of("k/");
    del.range_end = bytes_of("k0");
    rpc_call_pause(live.call);
    start(&answer, "DeleteRange", &del.base);
    sim_run_for(rig.sim, 1000);
    watch_engine_restored(
        leader()->service->watches); /* like after a snapshot that a follower received */
    rpc_call_resume(live.call);
    wait_answer(&answer);
    sim_run_for(rig.sim, 5000);
    CHECK_U64("no restart", live.kinds[MUSTER__V1__WATCH_RESPONSE__KIND__RESYNC], 0);
    CHECK_U32("every event once", live.events, MANY);
    CHECK_U64("not the watch between two steps",
              idle.kinds[MUSTER__V1__WATCH_RESPONSE__KIND__RESYNC], 0);
    buf_deinit(&answer.bytes);
    rpc_call_cancel(live.call);
    rpc_call_cancel(idle.call);
    close_rig();
}

/* Applies without the log, at a chosen time before the leader's own next entry. */
static void apply_at(uint64_t clock_ns, const struct store_command *command)
{
    struct store_machine *store = store_service_machine(leader()->service);
    struct state_machine machine = store_machine_registration(store);
    struct machine_entry entry = {.index = store_machine_index(store),
                                  .term = 1,
                                  .clock_ns = clock_ns,
                                  .version = STORE_MACHINE_VERSION,
                                  .level = STORE_MACHINE_VERSION};
    struct buf bytes, reply;

    buf_init(&bytes, 1 << 20);
    buf_init(&reply, 1 << 20);
    CHECK_OK("write", store_command_write(command, &bytes));
    entry.command = buf_peek(&bytes);
    CHECK_OK("known", machine.ops->apply(machine.state, &entry, &reply, NULL));
    while (machine.ops->apply_more(machine.state, &reply)) continue;
    buf_deinit(&bytes);
    buf_deinit(&reply);
}

/* The lease ends because its number is granted again; that entry has no other revision. */
TEST(the_end_of_a_lease_of_very_many_keys_is_reported_as_expiry)
{
    enum { MANY = 5000, TTL_MS = 1000 };
    struct store_command grant = {
        .kind = STORE_LEASE_GRANT, .lease = store_plain_lease(7), .ttl_ms = TTL_MS};
    struct watching watch;
    uint64_t now;
    char key[16];

    open_rig(1, (struct store_service_limits){0});
    start_watch(&watch, "k/");
    now = store_clock_ns(store_of(leader()));
    apply_at(now, &grant);
    for (int i = 0; i < MANY; i++) {
        struct store_command put = {.kind = STORE_PUT, .held = grant.lease};
        put.key = str_of(key, (size_t)snprintf(key, sizeof key, "k/%04d", i));
        apply_at(now, &put);
    }
    apply_at(now, &(struct store_command){
                      .kind = STORE_LEASE_GRANT, .lease = store_plain_lease(8), .ttl_ms = 500});
    apply_at(now + TTL_MS * NS_PER_MS, &grant); /* 8 ends first: 7 is left for the command */
    sim_run_for(rig.sim, 100);
    CHECK_U32("each is put and deleted", watch.events, 2 * MANY);
    CHECK_U32("by its deadline", watch.expired, MANY);
    rpc_call_cancel(watch.call);
    close_rig();
}

TEST(an_earlier_change_is_not_reported_with_the_token_of_a_later_claim_under_the_same_lease)
{
    Muster__V1__ReleaseRequest release = MUSTER__V1__RELEASE_REQUEST__INIT;
    struct watching watch;

    open_rig(1, (struct store_service_limits){0});
    (void)lease("k", 1, 60000);
    release.lease_id = lease_id(1);
    CHECK_I64("released", ask("Release", &release.base)->code, COORD_OK);
    CHECK_I64("and had again", lease("k", 1, 60000)->code, COORD_OK);
    start_watch_at(&watch, "muster/", 2);
    CHECK_U64("all three", watch.events, 3);
    CHECK("each with a token of its time", !watch.early);
    rpc_call_cancel(watch.call);
    close_rig();
}

TEST(progress_is_sent_when_nothing_is_pending)
{
    struct watching watch;

    open_rig(1, (struct store_service_limits){0});
    start_watch(&watch, "p/");
    CHECK_U64("once it is live", watch.kinds[MUSTER__V1__WATCH_RESPONSE__KIND__PROGRESS], 1);
    (void)put("q/1", 1);
    sim_run_for(rig.sim, 12000);
    CHECK_U64("and when others wrote", watch.kinds[MUSTER__V1__WATCH_RESPONSE__KIND__PROGRESS], 2);
    CHECK_U64("how far", watch.revision, keys_revision(store_keys(store_of(leader()))));
    sim_run_for(rig.sim, 60000);
    CHECK_U64("not again", watch.kinds[MUSTER__V1__WATCH_RESPONSE__KIND__PROGRESS], 2);
    rpc_call_cancel(watch.call);
    close_rig();
}
