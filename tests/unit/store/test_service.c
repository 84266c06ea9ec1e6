/* The store's service over virtual I/O: replica, service and server on up to three hosts, time as
 * it is told. What needs no clock of its own is in tests/integration/store. */
#include <muster/coord.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/test.h"
#include "log/datadir.h"
#include "rpc/client.h"
#include "sim/sim.h"
#include "sim/sim_link.h"
#include "store/service.h"
#include "wire/message.h"
#include "wire/pb/muster_v1_coordination.pb-c.h"

enum { NODES = 3, WAIT_MS = 60000, EVENTS_MAX = 20000000, CLUSTER = 0xf2, ANSWERS = 256 };

struct node {
    size_t number;
    struct sim_host *host;
    struct io *io;
    char raft[32], grpc[32];
    struct store_service *service;
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
    struct machine machine;
    struct note note = {""};

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
    machine = store_machine_registration(store_service_machine(node->service));
    CHECK_ERR(note.text,
              replica_open(&(struct replica_options){.io = node->io,
                                                     .dir = "data",
                                                     .listen = node->raft,
                                                     .machines = &machine,
                                                     .machine_count = 1,
                                                     .limits = {.segment_bytes = 4 << 20},
                                                     .events = {on_change, on_stopped, node}},
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
    memset(&rig, 0, sizeof rig);
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
    CHECK("somebody leads",
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

/* Nobody reaches anybody. */
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
    struct buf bytes;
};

static void on_answer(void *owner, const struct rpc_client_call *call,
                      const struct rpc_outcome *outcome, struct str message)
{
    struct answer *answer = owner;

    (void)call;
    answer->done = true;
    answer->err = outcome->err;
    answer->status = outcome->status;
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
    CHECK_OK("sent",
             rpc_unary(leader()->channel, &options, buf_peek(&bytes), on_answer, answer, NULL));
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

TEST(the_clock_stands_still_without_a_leader)
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
    CHECK_U64("for what was left", leases(), 1);
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
    CHECK("in entries of 256", entries() >= before + 4);
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

/* -- history and quota -- */

TEST(history_is_compacted_after_its_time)
{
    open_rig(3, (struct store_service_limits){.history_ms = 15000});
    for (int i = 0; i < 10; i++) (void)put("k", 10);
    sim_run_for(rig.sim, 5000);
    CHECK_U64("not yet", keys_compacted(store_keys(store_of(leader()))), 0);
    sim_run_for(rig.sim, 15000);
    uint64_t compacted = keys_compacted(store_keys(store_of(leader())));
    CHECK("what was there then", compacted >= 11);
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

TEST(a_full_store_refuses_what_adds_only)
{
    Muster__V1__DeleteRangeRequest del = MUSTER__V1__DELETE_RANGE_REQUEST__INIT;
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
    CHECK_I64("said so", got->code, COORD_UNAVAILABLE);
    CHECK_I64("and why", got->reason, COORD_R_QUOTA);
    CHECK("in words", strstr(got->text, "full"));
    del.key = bytes_of("k0");
    CHECK_I64("a deletion works", ask("DeleteRange", &del.base)->code, COORD_OK);
    Muster__V1__ReleaseRequest release = MUSTER__V1__RELEASE_REQUEST__INIT;
    release.lease_id = lease_id(1);
    CHECK_I64("a release, too", ask("Release", &release.base)->code, COORD_OK);
    close_rig();
}

/* -- watches -- */

struct watch {
    struct rpc_client_call *call;
    uint32_t kinds[8], events; /* messages of each kind; events after the last snapshot */
    uint64_t revision;
    bool ended;
};

static void on_message(void *owner, struct rpc_client_call *call, struct str message)
{
    struct watch *watch = owner;
    const Muster__V1__WatchResponse *told;
    ProtobufCMessage *read;
    struct arena arena;

    (void)call;
    arena_init(&arena, 4 << 20);
    CHECK_OK("read", message_read(&muster__v1__watch_response__descriptor, message, NULL, &arena,
                                  &read, NULL));
    told = (const Muster__V1__WatchResponse *)read;
    watch->kinds[told->kind & 7]++;
    watch->revision = told->revision;
    if (told->kind == MUSTER__V1__WATCH_RESPONSE__KIND__SNAPSHOT) watch->events = 0;
    if (told->kind == MUSTER__V1__WATCH_RESPONSE__KIND__CHANGES)
        watch->events += (uint32_t)told->n_events;
    arena_deinit(&arena);
}

static void on_end(void *owner, struct rpc_client_call *call, const struct rpc_outcome *outcome)
{
    (void)call;
    (void)outcome;
    ((struct watch *)owner)->ended = true;
}

static void start_watch(struct watch *watch, const char *prefix)
{
    static const struct rpc_call_events events = {.on_message = on_message, .on_end = on_end};
    Muster__V1__WatchRequest m = MUSTER__V1__WATCH_REQUEST__INIT;
    struct rpc_call_options options = {
        .path = "/muster.v1.Coordination/Watch", .wait_for_ready = true, .attempts_max = 1};
    struct buf bytes;

    memset(watch, 0, sizeof *watch);
    m.scope = bytes_of(prefix);
    m.raw = true;
    buf_init(&bytes, 4096);
    CHECK_OK("request", message_write(&m.base, &bytes, NULL));
    CHECK_OK("start", rpc_call_start(leader()->channel, &options, &events, watch, &watch->call));
    CHECK_OK("send", rpc_call_send(watch->call, buf_peek(&bytes)));
    rpc_call_end(watch->call);
    buf_deinit(&bytes);
    sim_run_for(rig.sim, 1000);
    CHECK_U64("a snapshot", watch->kinds[MUSTER__V1__WATCH_RESPONSE__KIND__SNAPSHOT], 1);
}

TEST(too_many_waiting_events_are_a_resync_for_that_watcher_only)
{
    Muster__V1__CreateRequest more = MUSTER__V1__CREATE_REQUEST__INIT;
    Muster__V1__ReleaseRequest release = MUSTER__V1__RELEASE_REQUEST__INIT;
    struct watch all, one;
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
    CHECK_U64("told so", all.kinds[MUSTER__V1__WATCH_RESPONSE__KIND__RESYNC], 1);
    CHECK_U64("a new snapshot", all.kinds[MUSTER__V1__WATCH_RESPONSE__KIND__SNAPSHOT], 2);
    CHECK_U64("with all of it", all.revision, keys_revision(store_keys(store_of(leader()))));
    CHECK_U64("not the other", one.kinds[MUSTER__V1__WATCH_RESPONSE__KIND__RESYNC], 0);
    CHECK_U64("which is told its one", one.events, 1);
    (void)put("muster", 1); /* not below the prefix */
    (void)lease("after", 2, 60000);
    sim_run_for(rig.sim, 1000);
    CHECK_U64("and it goes on", all.events, 1);
    rpc_call_cancel(all.call);
    rpc_call_cancel(one.call);
    close_rig();
}

TEST(progress_is_told_when_nothing_is_to_come)
{
    struct watch watch;

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
