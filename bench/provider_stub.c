/* SPDX-License-Identifier: Apache-2.0 */
/* A provider for benches: hundreds of thousands of machines in memory, acks after a fixed time,
 * next to no CPU. It checks no fences, never fails and accepts every request.
 *
 *   provider_stub ADDRESS MACHINES NEEDS CLUSTERS LATENCY_MS [SEED]
 *
 * prints "listening on ADDRESS" and serves until its input ends. The machines are those of
 * `muster plan --generate` with the same numbers, so a bench can ask for the demand that fits them.
 *
 *   List              everything, with a revision and tombstones; made once, streamed, kept until
 *                     something changes
 *   since_revision    the changes since then, and a thousandth of all machines, whose price it
 *                     changes now
 *   Create, Configure, Drain, Delete
 *                     done at once, answered LATENCY_MS later with the machine in its final state;
 *                     any number at a time
 *   Get               at once */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tests/lib/machine_write.h"
#include "base/map.h"
#include "base/prng.h"
#include "bench.h"
#include "io/real.h"
#include "model/metadata.h"
#include "provider/machine_wire.h"
#include "rpc/server.h"
#include "shard/plan/generate.h"
#include "wire/field.h"
#include "wire/pack.h"
#include "wire/pb/bigfleet_v1alpha1_provider.pb-c.h"

enum {
    BYTES_MAX = INT32_MAX,
    PIECE = 64 << 10,
    AHEAD_MAX = 1 << 20, /* of a List given to the server before it has gone out */
    LIST_REVISION = 2,
    LIST_TOMBSTONES = 101,
    FILTER_SINCE = 5,
};

struct row { /* one machine; its id is a view of its record */
    char *record;
    uint32_t len;
    uint64_t revision; /* of its last change */
};
struct answer { /* an ack whose time has not come */
    struct list link;
    struct rpc_call *call; /* NULL: nobody waits any more */
    mono_time due;
    struct buf bytes;
};
struct listing { /* a List on its way out */
    struct list link;
    struct rpc_call *call;
    struct buf *own; /* a delta; NULL: the full one */
    struct str left;
};
static struct {
    struct real_io *real;
    struct io *io;
    struct rpc_server *server;
    struct generate_options fleet;
    uint64_t latency_ms, revision, full_revision;
    struct dimensions dimensions;
    struct machine_reader *reader;
    struct prng prng;
    struct row *rows;
    struct map by_id;
    struct buf full;
    struct list answers, listings;
    struct timer answer_timer, list_timer;
    struct post end;
} stub;

/* --- the table --- */

static struct str record_of(const struct row *row)
{
    return str_of(row->record, row->len);
}

static void put_row(struct row *row, const struct machine_record *record)
{
    struct buf bytes;
    struct str id;

    buf_init(&bytes, BYTES_MAX);
    MUST(machine_write(&stub.dimensions, record, &bytes) == ERR_OK);
    id = machine_read_id(buf_peek(&bytes));
    if (row->record) (void)map_remove(&stub.by_id, id);
    MUST(map_put(&stub.by_id, id, row) == ERR_OK);
    free(row->record);
    row->len = (uint32_t)bytes.len;
    row->record = bytes.data;
    row->revision = ++stub.revision;
}

static void generate(void)
{
    struct label metadata[METADATA_MAX];
    struct machine_record record;
    struct arena arena;

    arena_init(&arena, 16 << 20);
    stub.rows = calloc(stub.fleet.machines, sizeof *stub.rows);
    MUST(stub.rows);
    for (uint32_t i = 0; i < stub.fleet.machines; i++) {
        struct machine_metadata m;
        arena_reset(&arena);
        record = (struct machine_record){.metadata = metadata};
        MUST(generate_machine(&stub.fleet, i, &arena, &stub.dimensions, &record.machine) == ERR_OK);
        m = (struct machine_metadata){record.machine.stamp, record.machine.destination,
                                      record.machine.promised};
        if (record.machine.cluster.len > 0)
            MUST(metadata_encode(&arena, &m, metadata, &record.metadata_count) == ERR_OK);
        put_row(&stub.rows[i], &record);
    }
    arena_deinit(&arena);
}

static void change_price(struct row *row)
{
    struct str old = record_of(row);
    struct machine_record record;

    MUST(machine_read(stub.reader, old, &record, NULL) == ERR_OK);
    record.machine.price_per_hour += 0.0001;
    put_row(row, &record);
}

/* --- List --- */

static void put_tail(struct pack *pack)
{
    char revision[24];

    snprintf(revision, sizeof revision, "%llu", (unsigned long long)stub.revision);
    pack_text(pack, LIST_REVISION, str_from(revision));
    pack_u64(pack, LIST_TOMBSTONES, 1);
}

static void put_rows(struct buf *into, uint64_t since)
{
    struct pack pack = {into, ERR_OK};

    for (uint32_t i = 0; i < stub.fleet.machines; i++)
        if (stub.rows[i].revision > since) pack_bytes(&pack, 1, record_of(&stub.rows[i]));
    put_tail(&pack);
    MUST(pack.err == ERR_OK);
}

static void end_listing(struct listing *l)
{
    list_remove(&l->link);
    if (l->own) buf_deinit(l->own);
    free(l->own);
    free(l);
}

/* A piece more for each, while little waits to go out. */
static void push_lists(struct timer *timer)
{
    LIST_EACH_SAFE(&stub.listings, node, following)
    {
        struct listing *l = CONTAINER_OF(node, struct listing, link);
        while (l->left.len > 0 && rpc_server_stats(stub.server).buffered < AHEAD_MAX) {
            struct str piece = str_of(l->left.at, min_size(PIECE, l->left.len));
            l->left = str_tail(l->left, piece.len);
            if (rpc_reply_more(l->call, piece)) l->left.len = 0;
        }
        if (l->left.len > 0) continue;
        rpc_call_set_data(l->call, NULL);
        end_listing(l);
    }
    if (!list_empty(&stub.listings)) timer_start_in(timer, 1);
}

static uint64_t cursor_of(struct str filter)
{
    struct fields fields = fields_of(filter);
    struct field field;
    uint64_t since = 0;

    while (fields_next(&fields, &field))
        if (field.number == FILTER_SINCE) (void)str_to_u64(field.bytes, &since);
    return since;
}

static void on_list(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                    struct str bytes)
{
    struct listing *l = calloc(1, sizeof *l);
    uint64_t since = cursor_of(bytes);

    (void)service;
    (void)message;
    MUST(l);
    list_init(&l->link);
    l->call = call;
    if (since > 0) {
        l->own = calloc(1, sizeof *l->own);
        MUST(l->own);
        buf_init(l->own, BYTES_MAX);
        for (uint32_t i = 0; i < stub.fleet.machines / 1000; i++)
            change_price(&stub.rows[prng_below(&stub.prng, stub.fleet.machines)]);
        put_rows(l->own, since);
        l->left = buf_peek(l->own);
    } else {
        if (stub.full_revision != stub.revision && list_empty(&stub.listings)) {
            buf_clear(&stub.full);
            put_rows(&stub.full, 0);
            stub.full_revision = stub.revision;
        }
        l->left = buf_peek(&stub.full);
    }
    list_append(&stub.listings, &l->link);
    rpc_call_set_data(call, l);
    MUST(rpc_reply_begin(call, l->left.len) == ERR_OK);
    timer_start_in(&stub.list_timer, 0);
}

static void on_list_done(void *service, struct rpc_call *call)
{
    struct listing *l = rpc_call_data(call);

    (void)service;
    if (l) end_listing(l);
}

/* --- calls --- */

static void send_answers(struct timer *timer)
{
    mono_time now = loop_now(stub.io->loop);

    while (!list_empty(&stub.answers)) {
        struct answer *a = CONTAINER_OF(stub.answers.next, struct answer, link);
        if (!mono_due(a->due, now)) {
            timer_start(timer, a->due);
            return;
        }
        list_remove(&a->link);
        if (a->call) {
            rpc_call_set_data(a->call, NULL);
            rpc_reply_bytes(a->call, buf_peek(&a->bytes));
        }
        buf_deinit(&a->bytes);
        free(a);
    }
}

static void on_call_done(void *service, struct rpc_call *call)
{
    struct answer *a = rpc_call_data(call);

    (void)service;
    if (a) a->call = NULL;
}

static void answer_later(struct rpc_call *call, const struct row *row)
{
    struct answer *a = calloc(1, sizeof *a);
    struct pack pack;
    char operation[24];

    MUST(a);
    list_init(&a->link);
    buf_init(&a->bytes, BYTES_MAX);
    pack = (struct pack){&a->bytes, ERR_OK};
    snprintf(operation, sizeof operation, "op-%llu", (unsigned long long)row->revision);
    pack_text(&pack, 1, str_from(operation));
    pack_bytes(&pack, 2, record_of(row));
    MUST(pack.err == ERR_OK);
    a->call = call;
    a->due = mono_after(loop_now(stub.io->loop), stub.latency_ms);
    rpc_call_set_data(call, a);
    list_append(&stub.answers, &a->link);
    if (!timer_running(&stub.answer_timer)) timer_start(&stub.answer_timer, a->due);
}

/* The machine of a request, for a change; NULL: already answered with an error. */
static struct row *begin(struct rpc_call *call, const char *id, struct machine_record *ret_record)
{
    struct row *row = map_get(&stub.by_id, str_from(id));

    if (!row) {
        rpc_finish(call, GRPC_NOT_FOUND, STR("no such machine"), STR_EMPTY);
        return NULL;
    }
    MUST(machine_read(stub.reader, record_of(row), ret_record, NULL) == ERR_OK);
    return row;
}

static void become(struct rpc_call *call, struct row *row, struct machine_record *record,
                   enum machine_state state)
{
    struct machine *m = &record->machine;

    m->state = state;
    m->last_error = STR_EMPTY;
    if (state == MACHINE_SPECULATIVE)
        m->host_provider = m->host_ref = STR_EMPTY;
    else if (m->host_ref.len == 0)
        m->host_provider = STR("stub"), m->host_ref = m->id;
    if (state != MACHINE_CONFIGURED) {
        m->cluster = STR_EMPTY;
        record->metadata_count = 0;
    }
    put_row(row, record);
    answer_later(call, row);
}

static void on_create(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                      struct str bytes)
{
    struct machine_record record;
    struct row *row =
        begin(call, ((const Bigfleet__V1alpha1__CreateRequest *)message)->machine_id, &record);

    (void)service;
    (void)bytes;
    if (row) become(call, row, &record, MACHINE_IDLE);
}

static void on_configure(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                         struct str bytes)
{
    const Bigfleet__V1alpha1__ConfigureRequest *request =
        (const Bigfleet__V1alpha1__ConfigureRequest *)message;
    struct label metadata[METADATA_READ_MAX];
    struct machine_record record;
    struct row *row = begin(call, request->machine_id, &record);

    (void)service;
    (void)bytes;
    if (!row) return;
    MUST(request->n_shard_metadata <= METADATA_READ_MAX);
    for (size_t i = 0; i < request->n_shard_metadata; i++)
        metadata[i] = (struct label){
            str_of(request->shard_metadata[i]->key.data, request->shard_metadata[i]->key.len),
            str_of(request->shard_metadata[i]->value.data, request->shard_metadata[i]->value.len)};
    record.machine.cluster = str_from(request->cluster_id);
    record.metadata = metadata;
    record.metadata_count = request->n_shard_metadata;
    become(call, row, &record, MACHINE_CONFIGURED);
}

static void on_drain(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                     struct str bytes)
{
    struct machine_record record;
    struct row *row =
        begin(call, ((const Bigfleet__V1alpha1__DrainRequest *)message)->machine_id, &record);

    (void)service;
    (void)bytes;
    if (row) become(call, row, &record, MACHINE_IDLE);
}

static void on_delete(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                      struct str bytes)
{
    struct machine_record record;
    struct row *row =
        begin(call, ((const Bigfleet__V1alpha1__DeleteRequest *)message)->machine_id, &record);

    (void)service;
    (void)bytes;
    if (row) become(call, row, &record, MACHINE_SPECULATIVE);
}

static void on_get(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                   struct str bytes)
{
    struct machine_record record;
    struct row *row = begin(call, ((const Bigfleet__V1alpha1__MachineRef *)message)->id, &record);

    (void)service;
    (void)bytes;
    if (row) rpc_reply_bytes(call, record_of(row));
}

/* --- the program --- */

#define PATH(name) "/bigfleet.v1alpha1.CapacityProvider/" name
static void serve(const char *address)
{
    static const struct rpc_handler create = {.on_message = on_create, .on_done = on_call_done},
                                    configure = {.on_message = on_configure,
                                                 .on_done = on_call_done},
                                    drain = {.on_message = on_drain, .on_done = on_call_done},
                                    remove = {.on_message = on_delete, .on_done = on_call_done},
                                    get = {.on_message = on_get},
                                    list = {.on_message = on_list, .on_done = on_list_done};
    static const struct rpc_method methods[] = {
        {.path = PATH("Create"),
         .input = &bigfleet__v1alpha1__create_request__descriptor,
         .handler = &create},
        {.path = PATH("Configure"),
         .input = &bigfleet__v1alpha1__configure_request__descriptor,
         .handler = &configure},
        {.path = PATH("Drain"),
         .input = &bigfleet__v1alpha1__drain_request__descriptor,
         .handler = &drain},
        {.path = PATH("Delete"),
         .input = &bigfleet__v1alpha1__delete_request__descriptor,
         .handler = &remove},
        {.path = PATH("Get"),
         .input = &bigfleet__v1alpha1__machine_ref__descriptor,
         .handler = &get},
        {.path = PATH("List"), .response_max = BYTES_MAX, .handler = &list},
    };
    const struct rpc_server_options options = {.io = stub.io,
                                               .limits = {.streams_per_connection_max = 65536,
                                                          .calls_max = 200000,
                                                          .slow_call_ms = UINT64_MAX,
                                                          .stream_output_max = 256 << 10,
                                                          .socket_output_max = 1 << 20}};
    struct note note = {""};

    MUST(rpc_server_open(&options, &stub.server, &note) == ERR_OK);
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        MUST(rpc_server_add(stub.server, &methods[i], &note) == ERR_OK);
    if (rpc_server_listen(stub.server, address, NULL, &note)) {
        fprintf(stderr, "provider_stub: %s\n", note.text);
        exit(1);
    }
    printf("listening on %s\n", rpc_server_address(stub.server, 0));
    fflush(stdout);
}

static void stopped(void *owner)
{
    (void)owner;
    real_io_stop(stub.real);
}

static void on_input_end(struct post *post)
{
    (void)post;
    rpc_server_close(stub.server, stopped, NULL);
}

static void *wait_for_end(void *unused)
{
    while (getchar() != EOF) continue;
    loop_post(stub.io->loop, &stub.end);
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;

    if (argc < 6) {
        fprintf(stderr, "usage: provider_stub ADDRESS MACHINES NEEDS CLUSTERS LATENCY_MS [SEED]\n");
        return 2;
    }
    stub.fleet = (struct generate_options){
        .machines = (uint32_t)strtoul(argv[2], NULL, 10),
        .needs = (uint32_t)strtoul(argv[3], NULL, 10),
        .clusters = (uint32_t)strtoul(argv[4], NULL, 10),
        .seed = argc > 6 ? strtoull(argv[6], NULL, 10) : 1,
    };
    stub.latency_ms = strtoull(argv[5], NULL, 10);
    MUST(stub.fleet.machines > 0 && stub.fleet.needs > 0 && stub.fleet.clusters > 0);
    MUST(real_io_open(&stub.real) == ERR_OK);
    stub.io = real_io_io(stub.real);
    dimensions_init(&stub.dimensions);
    MUST(machine_reader_open(&stub.dimensions, &stub.reader) == ERR_OK);
    map_init(&stub.by_id, MAP_MOST, stub.fleet.seed);
    prng_seed(&stub.prng, stub.fleet.seed);
    buf_init(&stub.full, BYTES_MAX);
    list_init(&stub.answers);
    list_init(&stub.listings);
    MUST(timer_init(&stub.answer_timer, stub.io->loop, send_answers) == ERR_OK);
    MUST(timer_init(&stub.list_timer, stub.io->loop, push_lists) == ERR_OK);
    post_init(&stub.end, on_input_end);
    generate();
    serve(argv[1]);
    MUST(pthread_create(&thread, NULL, wait_for_end, NULL) == 0);
    real_io_run(stub.real);
    pthread_join(thread, NULL);
    return 0; /* the process frees the table */
}
