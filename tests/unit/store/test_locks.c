/* SPDX-License-Identifier: Apache-2.0 */
/* etcd's Lock and Election over virtual I/O, on one replica: limits, a reader that does not read,
 * and every allocation failing in turn. The rest is in tests/integration/etcd/test_lock.py. */
#include <stdio.h>
#include <stdlib.h>

#include "lib/fault_alloc.h"
#include "lib/test.h"
#include "log/datadir.h"
#include "rpc/client.h"
#include "sim/sim.h"
#include "store/etcd/internal.h"
#include "wire/message.h"
#include "wire/pb/etcd_election.pb-c.h"
#include "wire/pb/etcd_lock.pb-c.h"

enum {
    WAIT_MS = 60000,
    SETTLE_MS = 5000,
    EVENTS_MAX = 20000000,
    CLUSTER = 0xf3,
    ANSWER_MAX = 1 << 20
};

static struct {
    struct sim *sim;
    struct sim_host *host, *client;
    struct io *io;
    struct store_service *service;
    struct replica *replica;
    struct rpc_server *server;
    struct etcd_api *etcd;
    struct rpc_channel *channel;
    bool closed, stopped, hung_up, drained;
} rig;

/* -- the world -- */

static void on_change(void *owner, const struct replica_status *status)
{
    (void)owner;
    store_service_on_change(rig.service, status);
    if (rig.etcd) etcd_on_change(rig.etcd, status);
}

static void on_stopped(void *owner, enum err why, const struct note *note)
{
    (void)owner;
    CHECK_ERR(note->text, why, ERR_OK);
}

static const char *nobody(void *owner)
{
    (void)owner;
    return "";
}

static void set_true(void *flag)
{
    *(bool *)flag = true;
}

static bool is_true(void *flag)
{
    return *(bool *)flag;
}

static bool is_ready(void *context)
{
    struct replica_status status = replica_status(rig.replica);

    (void)context;
    return status.ready && status.level >= STORE_MACHINE_VERSION;
}

static void open_replica(struct note *note)
{
    struct members founders = {.count = 1, .at = {{.id = 1, .role = MEMBER_VOTER}}};
    struct state_machine machine = store_machine_registration(store_service_machine(rig.service));
    struct datadir made;

    snprintf(founders.at[0].address, sizeof founders.at[0].address, "a:7791");
    CHECK_OK("format", datadir_format(&(struct datadir_format_options){.fs = rig.io->fs,
                                                                       .entropy = rig.io->entropy,
                                                                       .dir = "data",
                                                                       .founders = &founders,
                                                                       .cluster_id = CLUSTER,
                                                                       .replica_id = 1},
                                      &made, note));
    CHECK_OK("replica",
             replica_open(&(struct replica_options){.io = rig.io,
                                                    .dir = "data",
                                                    .listen = "a:7791",
                                                    .machines = &machine,
                                                    .machine_count = 1,
                                                    .level = STORE_MACHINE_VERSION,
                                                    .limits = {.segment_bytes = 4 << 20},
                                                    .events = {on_change, on_stopped, NULL}},
                          &rig.replica, note));
}

static void open_rig(struct store_service_limits limits)
{
    const char *addresses[] = {"a:7790", NULL};
    struct note note = {""};

    memset(&rig, 0, sizeof rig);
    CHECK_OK("a world",
             sim_open(&(struct sim_options){.seed = 5, .events_max = EVENTS_MAX}, &rig.sim));
    CHECK_OK("a host", sim_host_add(rig.sim, &(struct sim_host_options){.name = "a"}, &rig.host));
    CHECK_OK("a host",
             sim_host_add(rig.sim, &(struct sim_host_options){.name = "client"}, &rig.client));
    rig.io = sim_host_io(rig.host);
    CHECK_OK("service",
             store_service_open(&(struct store_service_options){.io = rig.io, .limits = limits},
                                &rig.service, &note));
    open_replica(&note);
    store_service_attach(rig.service, rig.replica);
    CHECK_OK("etcd", etcd_open(&(struct etcd_options){.io = rig.io,
                                                      .store = rig.service,
                                                      .replica = rig.replica,
                                                      .leader_address = nobody},
                               &rig.etcd));
    CHECK_OK("server",
             rpc_server_open(&(struct rpc_server_options){.io = rig.io}, &rig.server, &note));
    CHECK_ERR(note.text, etcd_methods(rig.etcd, rig.server, &note), ERR_OK);
    CHECK_OK("listen", rpc_server_listen(rig.server, "a:7790", NULL, &note));
    CHECK_OK("channel",
             rpc_channel_open(&(struct rpc_channel_options){.io = sim_host_io(rig.client),
                                                            .addresses = addresses},
                              &rig.channel, &note));
    CHECK("it leads", sim_wait(rig.sim, is_ready, NULL, WAIT_MS) == SIM_REACHED);
    (void)sim_run_for(rig.sim, SETTLE_MS); /* the log's preparations allocate memory, too */
}

static void close_rig(void)
{
    rpc_channel_close(rig.channel, set_true, &rig.hung_up);
    CHECK("hung up", sim_wait(rig.sim, is_true, &rig.hung_up, WAIT_MS) == SIM_REACHED);
    rpc_server_close(rig.server, set_true, &rig.closed);
    CHECK("closed", sim_wait(rig.sim, is_true, &rig.closed, WAIT_MS) == SIM_REACHED);
    etcd_stop(rig.etcd, set_true, &rig.stopped);
    CHECK("stopped",
          rig.stopped || sim_wait(rig.sim, is_true, &rig.stopped, WAIT_MS) == SIM_REACHED);
    replica_close(rig.replica);
    etcd_close(rig.etcd);
    store_service_close(rig.service);
    sim_close(rig.sim);
}

/* -- calls -- */

struct answer {
    bool done;
    enum grpc_status status;
    char text[160];
    struct rpc_client_call *call;
};

static void on_answer(void *owner, const struct rpc_client_call *call,
                      const struct rpc_outcome *outcome, struct str message)
{
    struct answer *answer = owner;

    (void)call;
    (void)message;
    answer->done = true;
    answer->status = outcome->status;
    snprintf(answer->text, sizeof answer->text, "%.*s", STR_ARG(outcome->text));
}

static void start(struct answer *answer, const char *path, const ProtobufCMessage *request)
{
    struct rpc_call_options options = {.path = path, .wait_for_ready = true, .attempts_max = 1};
    struct buf bytes;

    memset(answer, 0, sizeof *answer);
    buf_init(&bytes, ANSWER_MAX);
    CHECK_OK("request", message_write(request, &bytes, NULL));
    CHECK_OK("sent",
             rpc_unary(rig.channel, &options, buf_peek(&bytes), on_answer, answer, &answer->call));
    buf_deinit(&bytes);
}

static enum grpc_status wait_answer(struct answer *answer)
{
    CHECK("an answer comes",
          answer->done || sim_wait(rig.sim, is_true, &answer->done, WAIT_MS) == SIM_REACHED);
    return answer->status;
}

static enum grpc_status ask(const char *path, const ProtobufCMessage *request)
{
    struct answer answer;

    start(&answer, path, request);
    return wait_answer(&answer);
}

static ProtobufCBinaryData bytes_of(const char *text)
{
    return (ProtobufCBinaryData){strlen(text), (uint8_t *)(uintptr_t)text};
}

static enum grpc_status grant(int64_t lease)
{
    Etcdserverpb__LeaseGrantRequest m = ETCDSERVERPB__LEASE_GRANT_REQUEST__INIT;

    m.id = lease;
    m.ttl = 600;
    return ask("/etcdserverpb.Lease/LeaseGrant", &m.base);
}

static void start_lock(struct answer *answer, const char *name, int64_t lease)
{
    V3lockpb__LockRequest m = V3LOCKPB__LOCK_REQUEST__INIT;

    m.name = bytes_of(name);
    m.lease = lease;
    start(answer, "/v3lockpb.Lock/Lock", &m.base);
}

static enum grpc_status unlock(const char *key)
{
    V3lockpb__UnlockRequest m = V3LOCKPB__UNLOCK_REQUEST__INIT;

    m.key = bytes_of(key);
    return ask("/v3lockpb.Lock/Unlock", &m.base);
}

static const struct keys *keys(void)
{
    return store_keys(store_machine_store(store_service_machine(rig.service)));
}

static bool has(const char *key)
{
    struct key_value value;

    return keys_get(keys(), str_from(key), 0, &value);
}

static bool is_there(void *key)
{
    return has(key);
}

static bool is_gone(void *key)
{
    return !has(key);
}

static bool nobody_waits(void *context)
{
    (void)context;
    return rig.etcd->queue_waits.count == 0 && rig.etcd->observers.count == 0;
}

/* -- bounds -- */

TEST(more_than_may_wait_is_refused_by_name_and_the_rest_is_not)
{
    struct answer first, second, third;
    V3lockpb__LockRequest m = V3LOCKPB__LOCK_REQUEST__INIT;

    open_rig((struct store_service_limits){.requests_max = 2});
    for (int64_t lease = 1; lease <= 4; lease++) CHECK_U64("a lease", grant(lease), GRPC_OK);
    m.name = bytes_of("l");
    m.lease = 1;
    CHECK_U64("it is free", ask("/v3lockpb.Lock/Lock", &m.base), GRPC_OK);
    start_lock(&first, "l", 2);
    CHECK("in", sim_wait(rig.sim, is_there, (void *)(uintptr_t) "l/2", WAIT_MS) == SIM_REACHED);
    start_lock(&second, "l", 3);
    CHECK("in", sim_wait(rig.sim, is_there, (void *)(uintptr_t) "l/3", WAIT_MS) == SIM_REACHED);
    start_lock(&third, "l", 4);
    CHECK_U64("too many", wait_answer(&third), GRPC_RESOURCE_EXHAUSTED);
    CHECK_TEXT("etcd's text", third.text, "etcdserver: too many requests");
    CHECK("and nothing was done", !has("l/4") && !first.done && !second.done);
    CHECK_U64("the others", unlock("l/1"), GRPC_OK);
    CHECK_U64("have their turns", wait_answer(&first), GRPC_OK);
    CHECK_U64("one", unlock("l/2"), GRPC_OK);
    CHECK_U64("by one", wait_answer(&second), GRPC_OK);
    start_lock(&third, "l", 4);
    CHECK("and there is room",
          sim_wait(rig.sim, is_there, (void *)(uintptr_t) "l/4", WAIT_MS) == SIM_REACHED);
    rpc_call_cancel(third.call);
    CHECK("a client that disconnects leaves",
          sim_wait(rig.sim, is_gone, (void *)(uintptr_t) "l/4", WAIT_MS) == SIM_REACHED);
    close_rig();
}

/* -- two calls with one lease -- */

static uint64_t mod_of(const char *key)
{
    struct key_value value;

    return keys_get(keys(), str_from(key), 0, &value) ? value.mod : 0;
}

static uint64_t awaited_mod;

static bool is_written_again(void *key)
{
    return mod_of(key) > awaited_mod;
}

/* Enters the queue behind the first; the key may exist already. */
static void come_in(struct answer *answer, int64_t lease, const char *key)
{
    awaited_mod = mod_of(key);
    start_lock(answer, "l", lease);
    CHECK("in",
          sim_wait(rig.sim, is_written_again, (void *)(uintptr_t)key, WAIT_MS) == SIM_REACHED);
    (void)sim_run_for(rig.sim, 10);
    CHECK("and waits", !answer->done);
}

static void lock_first(void)
{
    V3lockpb__LockRequest m = V3LOCKPB__LOCK_REQUEST__INIT;

    for (int64_t lease = 1; lease <= 3; lease++) CHECK_U64("a lease", grant(lease), GRPC_OK);
    m.name = bytes_of("l");
    m.lease = 1;
    CHECK_U64("it is free", ask("/v3lockpb.Lock/Lock", &m.base), GRPC_OK);
}

static void give_up(struct answer *answer)
{
    rpc_call_cancel(answer->call);
    (void)wait_answer(answer);
    (void)sim_run_for(rig.sim, SETTLE_MS); /* everything it left is removed by then */
}

TEST(a_cancelled_call_does_not_delete_the_key_of_the_lease_s_next_call)
{
    struct answer earlier, later, last;
    struct key_value own;
    uint64_t create;

    open_rig((struct store_service_limits){0});
    lock_first();
    come_in(&earlier, 2, "l/2");
    CHECK("there", keys_get(keys(), STR("l/2"), 0, &own));
    create = own.create;
    come_in(&last, 3, "l/3");
    come_in(&later, 2, "l/2"); /* like a call at another replica after the first got no answer */
    CHECK("in its place", keys_get(keys(), STR("l/2"), 0, &own) && own.create == create);
    give_up(&earlier);
    CHECK("the key is the later call's", has("l/2") && !later.done);
    CHECK_U64("unlock", unlock("l/1"), GRPC_OK);
    CHECK_U64("its turn, before later arrivals than the first call", wait_answer(&later), GRPC_OK);
    CHECK("and nobody else's", !last.done && has("l/2"));
    CHECK_U64("unlock", unlock("l/2"), GRPC_OK);
    CHECK_U64("then the last", wait_answer(&last), GRPC_OK);
    close_rig();
}

TEST(a_cancelled_second_call_leaves_the_queue_and_ends_the_earlier_call)
{
    struct answer earlier, later;

    open_rig((struct store_service_limits){0});
    lock_first();
    come_in(&earlier, 2, "l/2");
    come_in(&later, 2, "l/2");
    give_up(&later);
    CHECK("it left", !has("l/2"));
    CHECK_U64("reported", wait_answer(&earlier), GRPC_UNKNOWN);
    CHECK_TEXT("etcd's text", earlier.text, "mutex: session is expired");
    close_rig();
}

/* The first call may have reported that it has the lock, so the second must not release the lock.
 * */
TEST(a_cancelled_repeat_for_a_held_lock_releases_nothing)
{
    struct answer again;

    open_rig((struct store_service_limits){0});
    lock_first();
    rig.etcd->leader.ready = false; /* the call waits before its proposal */
    start_lock(&again, "l", 1);
    (void)sim_run_for(rig.sim, 10);
    CHECK("on its way", !again.done && rig.etcd->queue_waits.count == 1);
    rpc_call_cancel(again.call);
    (void)wait_answer(&again);
    (void)sim_run_for(rig.sim, 10);
    awaited_mod = mod_of("l/1");
    rig.etcd->leader.ready = true;
    CHECK("it comes in late",
          sim_wait(rig.sim, is_written_again, (void *)(uintptr_t) "l/1", WAIT_MS) == SIM_REACHED);
    CHECK("and is forgotten", sim_wait(rig.sim, nobody_waits, NULL, WAIT_MS) == SIM_REACHED);
    (void)sim_run_for(rig.sim, SETTLE_MS);
    CHECK("the lock is held", has("l/1"));
    close_rig();
}

/* -- a reader that does not read -- */

struct reader {
    uint64_t reported;
    char last[32], text[160];
    bool ended;
};

static void on_observed(void *owner, struct rpc_client_call *call, struct str message)
{
    struct reader *reader = owner;
    struct arena arena;
    ProtobufCMessage *read;
    const Mvccpb__KeyValue *kv;
    enum err err;

    (void)call;
    reader->reported++;
    arena_init(&arena, 4 << 20);
    err = message_read(&v3electionpb__leader_response__descriptor, message, NULL, &arena, &read,
                       NULL);
    if (err == ERR_NOMEM) { /* the client's own memory was short */
        arena_deinit(&arena);
        return;
    }
    CHECK_OK("a leader", err);
    kv = ((const V3electionpb__LeaderResponse *)read)->kv;
    snprintf(reader->last, sizeof reader->last, "%.*s", (int)min_size(kv->value.len, 8),
             (const char *)kv->value.data);
    arena_deinit(&arena);
}

static void on_ended(void *owner, struct rpc_client_call *call, const struct rpc_outcome *outcome)
{
    struct reader *reader = owner;

    (void)call;
    reader->ended = true;
    snprintf(reader->text, sizeof reader->text, "%.*s", STR_ARG(outcome->text));
}

static struct rpc_client_call *observe(struct reader *reader, const char *name)
{
    static const struct rpc_call_events events = {on_observed, NULL, on_ended};
    struct rpc_call_options options = {
        .path = "/v3electionpb.Election/Observe", .wait_for_ready = true, .attempts_max = 1};
    V3electionpb__LeaderRequest m = V3ELECTIONPB__LEADER_REQUEST__INIT;
    struct rpc_client_call *call;
    struct buf bytes;

    memset(reader, 0, sizeof *reader);
    m.name = bytes_of(name);
    buf_init(&bytes, ANSWER_MAX);
    CHECK_OK("request", message_write(&m.base, &bytes, NULL));
    CHECK_OK("sent", rpc_call_start(rig.channel, &options, &events, reader, &call));
    CHECK_OK("asked", rpc_call_send(call, buf_peek(&bytes)));
    rpc_call_end(call);
    buf_deinit(&bytes);
    return call;
}

static bool has_value(void *reader)
{
    return ((struct reader *)reader)->reported > 0;
}

static char newest[16];

static bool has_newest(void *reader)
{
    return strcmp(((struct reader *)reader)->last, newest) == 0;
}

TEST(an_observer_that_reads_late_receives_the_newest)
{
    enum { ROUNDS = 20, SIZE = 64 * 1024 }; /* a few of these fill the windows */
    static char value[SIZE];
    V3electionpb__CampaignRequest m = V3ELECTIONPB__CAMPAIGN_REQUEST__INIT;
    struct reader reader;
    struct rpc_client_call *call;
    uint64_t words = 0;

    open_rig((struct store_service_limits){0});
    CHECK_U64("a lease", grant(7), GRPC_OK);
    m.name = bytes_of("e");
    m.lease = 7;
    m.value = (ProtobufCBinaryData){SIZE, (uint8_t *)value};
    CHECK_U64("elected", ask("/v3electionpb.Election/Campaign", &m.base), GRPC_OK);
    call = observe(&reader, "e");
    CHECK("reported", sim_wait(rig.sim, has_value, &reader, WAIT_MS) == SIM_REACHED);
    for (int round = 1; round <= ROUNDS; round++) {
        rpc_call_pause(call);
        for (int i = 0; i < round; i++) { /* the present leader campaigns again with a new value */
            snprintf(newest, sizeof newest, "%04d%04d", round, i);
            memcpy(value, newest, strlen(newest));
            CHECK_U64("campaign", ask("/v3electionpb.Election/Campaign", &m.base), GRPC_OK);
            words++;
        }
        rpc_call_resume(call);
        CHECK("the newest", has_newest(&reader) ||
                                sim_wait(rig.sim, has_newest, &reader, WAIT_MS) == SIM_REACHED);
    }
    CHECK("and not every value", reader.reported < words);
    rpc_call_cancel(call);
    CHECK("it ends", sim_wait(rig.sim, is_true, &reader.ended, WAIT_MS) == SIM_REACHED);
    CHECK("and is forgotten", sim_wait(rig.sim, nobody_waits, NULL, WAIT_MS) == SIM_REACHED);
    close_rig();
}

/* -- cleanup -- */

/* Number of waiting keys, of any lease. */
static uint64_t queue_of(const char *prefix)
{
    char end[16];

    return keys_count_range(keys(), key_range_of_prefix(str_from(prefix), end), 0);
}

static bool two_want_it(void *prefix)
{
    return queue_of(prefix) == 2;
}

TEST(a_waiter_at_a_stopping_replica_keeps_its_place_only_with_its_own_lease)
{
    struct answer named, unnamed;

    open_rig((struct store_service_limits){0});
    lock_first();
    come_in(&named, 2, "l/2");
    CHECK_U64("it is free", (start_lock(&unnamed, "u", 1), wait_answer(&unnamed)), GRPC_OK);
    start_lock(&unnamed, "u", 0);
    CHECK("in", sim_wait(rig.sim, two_want_it, (void *)(uintptr_t) "u/", WAIT_MS) == SIM_REACHED);
    (void)sim_run_for(rig.sim, 10);
    CHECK("both wait", !named.done && !unnamed.done);
    rpc_server_drain(rig.server, WAIT_MS, set_true, &rig.drained);
    CHECK_U64("sent away", wait_answer(&named), GRPC_UNAVAILABLE);
    CHECK_U64("sent away", wait_answer(&unnamed), GRPC_UNAVAILABLE);
    (void)sim_run_for(rig.sim, SETTLE_MS); /* the lease lasts for a minute */
    CHECK_U64("nobody could come back to it", queue_of("u/"), 1);
    CHECK("with its lease it has its place", has("l/2"));
    CHECK("drained",
          rig.drained || sim_wait(rig.sim, is_true, &rig.drained, WAIT_MS) == SIM_REACHED);
    close_rig();
}

TEST(a_request_while_it_stops_gets_that_error_and_not_the_limit)
{
    struct answer answer;

    open_rig((struct store_service_limits){0});
    lock_first();
    rig.etcd->leader_calls.stopped = true;
    start_lock(&answer, "l", 2);
    CHECK_U64("refused", wait_answer(&answer), GRPC_UNAVAILABLE);
    CHECK_TEXT("by name", answer.text, "etcdserver: server stopped");
    start_lock(&answer, "l", 0);
    CHECK_U64("refused", wait_answer(&answer), GRPC_UNAVAILABLE);
    CHECK_TEXT("by name", answer.text, "etcdserver: server stopped");
    rig.etcd->leader_calls.stopped = false;
    close_rig();
}

TEST(a_client_that_cannot_be_notified_of_its_lock_does_not_keep_it)
{
    struct answer answer;
    size_t room;

    open_rig((struct store_service_limits){0});
    CHECK_U64("a lease", grant(1), GRPC_OK);
    buf_deinit(&rig.service->answer);
    room = rig.service->answer.max;
    rig.service->answer.max = 1; /* as without memory */
    start_lock(&answer, "l", 1);
    CHECK_U64("not reported", wait_answer(&answer), GRPC_UNAVAILABLE);
    rig.service->answer.max = room;
    CHECK("it leaves",
          nobody_waits(NULL) || sim_wait(rig.sim, nobody_waits, NULL, WAIT_MS) == SIM_REACHED);
    CHECK("and nobody has it", !has("l/1"));
    close_rig();
}

/* -- names -- */

static enum grpc_status leader_of(struct answer *answer, const char *name)
{
    V3electionpb__LeaderRequest m = V3ELECTIONPB__LEADER_REQUEST__INIT;

    m.name = bytes_of(name);
    start(answer, "/v3electionpb.Election/Leader", &m.base);
    return wait_answer(answer);
}

static void check_ends_as_too_large(const char *name)
{
    struct reader reader;

    (void)observe(&reader, name);
    CHECK("it ends", sim_wait(rig.sim, is_true, &reader.ended, WAIT_MS) == SIM_REACHED);
    CHECK_TEXT("by name", reader.text, "etcdserver: request is too large");
    CHECK("and is forgotten",
          nobody_waits(NULL) || sim_wait(rig.sim, nobody_waits, NULL, WAIT_MS) == SIM_REACHED);
}

TEST(a_name_that_no_key_can_have_is_refused_and_takes_no_lease)
{
    static char name[STORE_KEY_MAX + 1];
    struct answer answer;

    open_rig((struct store_service_limits){0});
    memset(name, 'n', STORE_KEY_MAX);
    start_lock(&answer, name, 0);
    CHECK_U64("refused", wait_answer(&answer), GRPC_UNKNOWN);
    CHECK_TEXT("by name", answer.text, "etcdserver: request is too large");
    CHECK_U64("no lease", store_sizes(service_store(rig.service)).leases, 0);
    check_ends_as_too_large(name);
    close_rig();
}

TEST(a_leader_among_more_keys_than_a_transaction_may_look_at_is_not_looked_for)
{
    /* Written without the log, which would be slow: there is one replica. */
    struct keys *space;
    struct answer answer;
    char name[16];

    open_rig((struct store_service_limits){0});
    space = (struct keys *)(uintptr_t)keys();
    keys_begin(space);
    for (int i = 0; i <= TXN_KEYS_MAX; i++) {
        snprintf(name, sizeof name, "r/%d", i);
        keys_put(space, str_from(name), STR_EMPTY, 0);
    }
    (void)keys_commit(space);
    CHECK_U64("refused", leader_of(&answer, "r"), GRPC_UNKNOWN);
    CHECK_TEXT("by name", answer.text, "etcdserver: request is too large");
    check_ends_as_too_large("r");
    CHECK_U64("another", leader_of(&answer, "s"), GRPC_UNKNOWN);
    CHECK_TEXT("has none", answer.text, "election: no leader");
    close_rig();
}

/* -- every allocation fails in turn, except while an entry is applied, which stops a replica -- */

enum { ENOUGH = 500 };

static bool is_on_its_way_or_over(void *answer)
{
    return ((struct answer *)answer)->done || !list_empty(&rig.etcd->leader_calls.pausing);
}

static bool is_in_or_over(void *answer)
{
    return ((struct answer *)answer)->done || has("l/2");
}

/* In every outcome the call does not get another call's lock, and leaves nothing behind. */
static void check_and_leave(struct answer *waits)
{
    CHECK("in, or refused",
          is_in_or_over(waits) || sim_wait(rig.sim, is_in_or_over, waits, WAIT_MS) == SIM_REACHED);
    CHECK("it is held", !waits->done || waits->status != GRPC_OK);
    if (!waits->done) rpc_call_cancel(waits->call);
    CHECK("it leaves",
          nobody_waits(NULL) || sim_wait(rig.sim, nobody_waits, NULL, WAIT_MS) == SIM_REACHED);
    CHECK("with its key", !has("l/2") && has("l/1"));
    (void)wait_answer(waits);
}

TEST(a_call_without_memory_is_refused_and_leaves_nothing)
{
    bool fired = true;
    uint64_t k = 0;

    open_rig((struct store_service_limits){0});
    lock_first();
    while (fired && k < ENOUGH) {
        struct answer waits;

        rig.etcd->leader.ready = false; /* the call waits before its proposal */
        start_lock(&waits, "l", 2);
        fault_alloc_arm(++k);
        CHECK("it comes", sim_wait(rig.sim, is_on_its_way_or_over, &waits, WAIT_MS) == SIM_REACHED);
        fired = fault_alloc_fired();
        fault_alloc_arm(0);
        rig.etcd->leader.ready = true;
        check_and_leave(&waits);
    }
    CHECK("the last needed no more", !fired && k > 3);
    close_rig();
}

/* Like after a snapshot: waiting calls read again, and no entry is applied. */
TEST(a_waiter_that_cannot_read_without_memory_leaves_the_queue)
{
    uint64_t k = 0, refused = 0;
    bool fired = true;

    open_rig((struct store_service_limits){0});
    lock_first();
    while (fired && k < ENOUGH) {
        struct answer waits;

        start_lock(&waits, "l", 2);
        CHECK("in", sim_wait(rig.sim, is_there, (void *)(uintptr_t) "l/2", WAIT_MS) == SIM_REACHED);
        CHECK("it waits", sim_run_for(rig.sim, 10) == SIM_REACHED && !waits.done);
        fault_alloc_arm(++k);
        watch_engine_restored(rig.service->watches);
        (void)sim_run_for(rig.sim, 0);
        fired = fault_alloc_fired();
        fault_alloc_arm(0);
        (void)sim_run_for(rig.sim, 10);
        refused += waits.done;
        check_and_leave(&waits);
    }
    CHECK("the last needed no more", !fired && k > 1);
    CHECK("some were refused", refused > 0);
    close_rig();
}

static bool has_value_or_ended(void *reader)
{
    return has_value(reader) || ((struct reader *)reader)->ended;
}

TEST(an_observer_without_memory_receives_the_value_or_ends)
{
    bool fired = true;
    uint64_t k = 0;

    open_rig((struct store_service_limits){0});
    lock_first();
    while (fired && k < ENOUGH) {
        struct reader reader;
        struct rpc_client_call *call = observe(&reader, "l");

        fault_alloc_arm(++k);
        CHECK("reported, or over",
              sim_wait(rig.sim, has_value_or_ended, &reader, WAIT_MS) == SIM_REACHED);
        fired = fault_alloc_fired();
        fault_alloc_arm(0);
        if (!reader.ended) rpc_call_cancel(call);
        CHECK("it ends",
              reader.ended || sim_wait(rig.sim, is_true, &reader.ended, WAIT_MS) == SIM_REACHED);
        CHECK("and is forgotten",
              nobody_waits(NULL) || sim_wait(rig.sim, nobody_waits, NULL, WAIT_MS) == SIM_REACHED);
    }
    CHECK("the last needed no more", !fired && k > 5);
    close_rig();
}
