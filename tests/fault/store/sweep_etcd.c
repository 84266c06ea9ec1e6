/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of etcd's API while memory runs out: KV and Txn from the bytes to the command and from
 * the state to the answer, Watch from the request to the last event, Lease to the command.
 * Applying is left out, because without memory it ends the process (keys.h). */
#include <stdio.h>
#include <string.h>

#include "lib/fault_alloc.h"
#include "lib/test.h"
#include "sim/sim.h"
#include "store/etcd/feed.h"
#include "store/etcd/internal.h"
#include "store/txn_wire.h"
#include "wire/message.h"

enum { KEYS = 300, WATCHES = 3 };

static struct {
    struct sim *sim;
    struct store_machine *store;
    struct state_machine machine;
    struct watch_engine *engine;
    struct feed *feed;
    uint64_t index;
} bed;

static void apply(const struct store_command *command)
{
    struct buf bytes, reply;

    buf_init(&bytes, 1 << 20);
    buf_init(&reply, 1 << 20);
    CHECK_OK("write", store_command_write(command, &bytes));
    struct machine_entry entry = {.index = ++bed.index,
                                  .term = 1,
                                  .clock_ns = 1,
                                  .version = STORE_MACHINE_VERSION,
                                  .level = STORE_MACHINE_VERSION,
                                  .command = buf_peek(&bytes)};
    CHECK_OK("known", bed.machine.ops->apply(bed.machine.state, &entry, &reply, NULL));
    buf_deinit(&bytes);
    buf_deinit(&reply);
}

static void put_all(void)
{
    char key[16], value[300];

    memset(value, 'v', sizeof value);
    for (int i = 0; i < KEYS; i++) {
        struct store_command put = {.kind = STORE_PUT, .value = str_of(value, sizeof value)};
        put.key = str_of(key, (size_t)snprintf(key, sizeof key, "k/%04d", i));
        apply(&put);
    }
}

/* -- from bytes to a command -- */

static size_t pack_request(uint8_t room[4096])
{
    Etcdserverpb__TxnRequest txn = ETCDSERVERPB__TXN_REQUEST__INIT,
                             inner = ETCDSERVERPB__TXN_REQUEST__INIT;
    Etcdserverpb__Compare compare = ETCDSERVERPB__COMPARE__INIT, *compares[] = {&compare};
    Etcdserverpb__RangeRequest range = ETCDSERVERPB__RANGE_REQUEST__INIT;
    Etcdserverpb__PutRequest put = ETCDSERVERPB__PUT_REQUEST__INIT;
    Etcdserverpb__RequestOp ops[3], *all[] = {&ops[0], &ops[1]}, *within[] = {&ops[2]};

    for (size_t i = 0; i < ARRAY_LEN(ops); i++) etcdserverpb__request_op__init(&ops[i]);
    compare.key = range.key = put.key = (ProtobufCBinaryData){2, (uint8_t *)"k/"};
    range.range_end = (ProtobufCBinaryData){2, (uint8_t *)"k0"};
    ops[0].request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
    ops[0].request_range = &range;
    ops[1].request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_TXN;
    ops[1].request_txn = &inner;
    ops[2].request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
    ops[2].request_put = &put;
    inner.success = within;
    inner.n_success = 1;
    inner.compare = txn.compare = compares;
    inner.n_compare = txn.n_compare = 1;
    txn.success = txn.failure = all;
    txn.n_success = txn.n_failure = 2;
    return etcdserverpb__txn_request__pack(&txn, room);
}

static enum err err_of(enum txn_refusal refusal)
{
    return refusal == TXN_NO_MEMORY ? ERR_NOMEM : refusal ? ERR_INVALID : ERR_OK;
}

static enum err take(struct str bytes, struct arena *arena, struct buf *command)
{
    ProtobufCMessage *message;
    struct txn *txn;
    enum err err =
        message_read(&etcdserverpb__txn_request__descriptor, bytes, NULL, arena, &message, NULL);

    if (!err) err = txn_from_message((const Etcdserverpb__TxnRequest *)message, arena, &txn);
    if (!err) err = err_of(txn_check(txn));
    if (!err) err = store_txn_write((const Etcdserverpb__TxnRequest *)message, 0, command);
    return err;
}

TEST(a_transaction_becomes_a_command_or_memory_is_said_to_be_out)
{
    uint8_t room[4096];
    struct str bytes = str_of(room, pack_request(room));
    struct buf want;
    struct arena arena;
    uint64_t turns = 0;

    arena_init(&arena, 1 << 20);
    buf_init(&want, 1 << 20);
    CHECK_OK("as it should be", take(bytes, &arena, &want));
    arena_deinit(&arena);
    FAULT_SWEEP_ALLOC(k)
    {
        struct buf command;
        enum err err;

        arena_init(&arena, 1 << 20);
        buf_init(&command, 1 << 20);
        err = take(bytes, &arena, &command);
        CHECK_U64("said, and nothing else", err, fault_alloc_fired() ? ERR_NOMEM : ERR_OK);
        if (err) {
            arena_reset(&arena);
            buf_clear(&command);
            CHECK_OK("then it is taken", take(bytes, &arena, &command));
        }
        CHECK_STR("the same", buf_peek(&command), buf_peek(&want));
        buf_deinit(&command);
        arena_deinit(&arena);
        turns = k;
    }
    CHECK("far enough", turns > 2);
    buf_deinit(&want);
}

/* As every replica reads it before it applies it: lack of memory must not be reported as an invalid
 * command. */
TEST(a_command_is_read_or_fails_for_memory)
{
    uint8_t room[4096];
    struct str bytes = str_of(room, pack_request(room));
    struct arena arena;
    struct buf command;
    uint64_t turns = 0;

    arena_init(&arena, 1 << 20);
    buf_init(&command, 1 << 20);
    CHECK_OK("as it should be", take(bytes, &arena, &command));
    FAULT_SWEEP_ALLOC(k)
    {
        struct store_command got;
        enum err err;

        arena_deinit(&arena);
        arena_init(&arena, 1 << 20);
        err = store_command_read(buf_peek(&command), &arena, &got, NULL);
        CHECK_U64("said, and nothing else", err, fault_alloc_fired() ? ERR_NOMEM : ERR_OK);
        turns = k;
    }
    CHECK("far enough", turns > 2);
    arena_deinit(&arena);
    buf_deinit(&command);
}

TEST(a_grant_and_a_revocation_become_commands_or_memory_is_said_to_be_out)
{
    Etcdserverpb__LeaseGrantRequest grant = ETCDSERVERPB__LEASE_GRANT_REQUEST__INIT;
    Etcdserverpb__LeaseRevokeRequest revoke = ETCDSERVERPB__LEASE_REVOKE_REQUEST__INIT;
    uint64_t turns = 0;

    grant.ttl = 60;
    grant.id = revoke.id = 7;
    FAULT_SWEEP_ALLOC(k)
    {
        struct store_command commands[2];
        struct buf bytes;
        enum err err = ERR_OK;

        CHECK("asked", !etcd_grant_command(&grant, 9, &commands[0]) &&
                           !etcd_revoke_command(&revoke, &commands[1]));
        buf_init(&bytes, 1 << 20);
        for (size_t i = 0; !err && i < ARRAY_LEN(commands); i++)
            err = store_command_write(&commands[i], &bytes);
        CHECK_U64("said, and nothing else", err, fault_alloc_fired() ? ERR_NOMEM : ERR_OK);
        buf_deinit(&bytes);
        turns = k;
    }
    CHECK("far enough", turns > 1);
}

/* -- from the state to an answer -- */

TEST(a_transaction_is_answered_whole_or_fails_for_memory)
{
    struct txn_op ops[] = {
        {.kind = TXN_RANGE, .range = {.range = {{"k/", 2}, {"k0", 2}}}},
        {.kind = TXN_RANGE, .range = {.range = {{"k/0007", 6}, {"", 0}}}},
        {.kind = TXN_RANGE, .range = {.range = {{"k/", 2}, {"k0", 2}}, .order = QUERY_DESCEND}}};
    struct txn txn = {.ops = {NULL, ops}, .op_count = {0, ARRAY_LEN(ops)}};
    uint64_t hash, turns = 0, sorts = 0;

    CHECK_OK("open", store_machine_open(&(struct store_machine_options){0}, &bed.store));
    bed.machine = store_machine_registration(bed.store);
    put_all();
    hash = bed.machine.ops->hash(bed.machine.state);
    FAULT_SWEEP_ALLOC(k)
    {
        struct txn_writer writer;
        struct buf answer;
        enum err err;

        buf_init(&answer, 1 << 20);
        txn_writer_init(&writer, &answer, false);
        err = err_of(txn_read(store_machine_store(bed.store), &txn, &writer.sink));
        sorts += err != ERR_OK;
        if (!err) err = writer.pack.err;
        CHECK_U64("said", err, fault_alloc_fired() ? ERR_NOMEM : ERR_OK);
        CHECK("whole, if it is not said", err || answer.len > 2 * (size_t)KEYS * 300);
        CHECK_U64("nothing changed", bed.machine.ops->hash(bed.machine.state), hash);
        buf_deinit(&answer);
        turns = k;
    }
    CHECK("far enough", turns > 5);
    CHECK("also while it was sorted", sorts > 1);
    store_machine_close(bed.store);
}

/* -- watches -- */

/* Messages are kept here and decoded later, because decoding allocates. */
static struct {
    size_t len;
    char bytes[1 << 20];
} sent;

struct client {
    struct feed_stream stream;
    uint32_t created, refused, broken;
    uint64_t events;
};

static enum err on_send(struct feed_stream *, struct str bytes, bool)
{
    CHECK("room", sent.len + sizeof bytes.len + bytes.len <= sizeof sent.bytes);
    memcpy(sent.bytes + sent.len, &bytes.len, sizeof bytes.len);
    memcpy(sent.bytes + sent.len + sizeof bytes.len, bytes.at, bytes.len);
    sent.len += sizeof bytes.len + bytes.len;
    return ERR_OK;
}

static void look(struct client *c)
{
    for (size_t at = 0, len; at < sent.len; at += len) {
        Etcdserverpb__WatchResponse *m;

        memcpy(&len, sent.bytes + at, sizeof len);
        at += sizeof len;
        m = etcdserverpb__watch_response__unpack(NULL, len, (const uint8_t *)sent.bytes + at);
        CHECK("a message, whatever failed", m && m->header);
        c->created += m->created ? 1 : 0;
        c->refused += m->canceled ? 1 : 0;
        c->events += m->n_events;
        etcdserverpb__watch_response__free_unpacked(m, NULL);
    }
    sent.len = 0;
}

static void on_broken(struct feed_stream *stream, enum err err)
{
    struct client *c = CONTAINER_OF(stream, struct client, stream);

    CHECK_ERR("why", err, ERR_NOMEM);
    c->broken++;
}

static void header(void *owner, struct pack *into, uint64_t revision)
{
    char room[16];
    struct buf small = {.data = room, .cap = sizeof room, .max = sizeof room};
    struct pack head = {&small, ERR_OK};

    (void)owner;
    pack_u64(&head, 3, revision);
    pack_row(into, 1, &head);
}

static const char *refusal(void *owner, struct key_range range)
{
    (void)owner, (void)range;
    return NULL;
}

static void watch_all(struct client *c)
{
    Etcdserverpb__WatchRequest request = ETCDSERVERPB__WATCH_REQUEST__INIT;
    Etcdserverpb__WatchCreateRequest create = ETCDSERVERPB__WATCH_CREATE_REQUEST__INIT;

    request.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    request.create_request = &create;
    create.key = (ProtobufCBinaryData){2, (uint8_t *)"k/"};
    create.range_end = (ProtobufCBinaryData){2, (uint8_t *)"k0"};
    create.start_revision = 2;
    create.prev_kv = true;
    for (int i = 0; i < WATCHES && !c->broken; i++)
        feed_request(&c->stream, &request, refusal, NULL);
}

static void open_bed(void)
{
    struct sim_host *host;

    memset(&bed, 0, sizeof bed);
    CHECK_OK("sim", sim_open(&(struct sim_options){.seed = 1, .events_max = 1000000}, &bed.sim));
    CHECK_OK("host", sim_host_add(bed.sim, &(struct sim_host_options){.name = "h"}, &host));
    CHECK_OK("store", store_machine_open(&(struct store_machine_options){0}, &bed.store));
    bed.machine = store_machine_registration(bed.store);
    put_all();
    CHECK_OK("engine", watch_engine_open(&(struct watch_engine_options){.io = sim_host_io(host),
                                                                        .machine = bed.store},
                                         &bed.engine));
    CHECK_OK("feed", feed_open(&(struct feed_options){.io = sim_host_io(host),
                                                      .engine = bed.engine,
                                                      .watches_max = 16,
                                                      .send = on_send,
                                                      .broken = on_broken,
                                                      .header = header},
                               &bed.feed));
}

static void close_bed(void)
{
    feed_close(bed.feed);
    watch_engine_close(bed.engine);
    store_machine_close(bed.store);
    sim_close(bed.sim);
}

TEST(a_watch_receives_every_event_or_its_stream_ends_for_memory)
{
    uint64_t turns = 0;

    for (bool fired = true; fired; turns++) {
        struct client first = {.created = 0}, second = {.created = 0};

        open_bed();
        feed_stream_init(bed.feed, &first.stream);
        fault_alloc_arm(turns + 1);
        watch_all(&first);
        (void)sim_run_for(bed.sim, 50);
        fired = fault_alloc_fired();
        fault_alloc_arm(0);
        look(&first);
        CHECK("it ends once at most, and only for a reason", first.broken <= fired);
        CHECK("each is answered, or the stream is over", first.broken || first.created == WATCHES);
        (void)sim_run_for(bed.sim, 50);
        look(&first);
        CHECK("a client that was not refused received everything",
              first.broken || first.events == (uint64_t)KEYS * (WATCHES - first.refused));
        feed_stream_deinit(&first.stream);
        feed_stream_init(bed.feed, &second.stream);
        watch_all(&second);
        (void)sim_run_for(bed.sim, 50);
        look(&second);
        CHECK_U64("and another's is whole", second.events, (uint64_t)KEYS * WATCHES);
        feed_stream_deinit(&second.stream);
        CHECK_SIZE("none is left", feed_count(bed.feed), 0);
        close_bed();
    }
    CHECK("far enough", turns > 5);
}
