/* SPDX-License-Identifier: Apache-2.0 */
/* ShardRead.InspectNeeds over a virtual network, with an owner that answers when the test says so:
 * wire.md § 7 and 9.6, shard.md § 17. What a row looks like is in test_need_wire.c. */
#include "shard/read.h"

#include <stdio.h>

#include "lib/test.h"
#include "rpc/client.h"
#include "sim/sim.h"
#include "wire/pb/bigfleet_v1alpha1_shardread.pb-c.h"

enum { CLIENTS = 3, WAIT_MS = 60000, ROWS_MAX = 3000 };

struct client {
    struct rpc_channel *channel;
    struct rpc_client_call *call;
    size_t headers, rows;
    uint64_t total;
    char first[64]; /* cluster of the first row */
    bool ended, closed, header_first;
    enum grpc_status status;
};
static struct {
    struct sim *sim;
    struct io *io;
    struct rpc_server *server;
    struct inspections *inspections;
    struct inspection *asked[CLIENTS + 1];
    size_t asked_count;
    struct client clients[CLIENTS];
    struct need_view views[ROWS_MAX];
    struct dimensions dimensions;
    bool closed;
} rig;
/* In virtual time contexts are only counted, never looked into. */
static struct {
    size_t refs;
    char rest[64];
} tls_stands_for = {.refs = 1};

static const struct resources no_unit;
static char fingerprint[1000]; /* long: no window takes all rows */
static struct profile profile = {.priority = 2000, .fingerprint = {"p=2000", 6}};

static void on_inspect(void *owner, struct inspection *inspection)
{
    (void)owner;
    rig.asked[rig.asked_count++] = inspection;
}

/* As the deciding thread and the driver would. */
static void answer(size_t count, uint64_t total)
{
    static const struct shortage shortage = {.reason = REASON_NO_MATCHING_SUPPLY};
    const struct demand needs[] = {
        {.key = {.cluster = STR("cluster-b")}, .profile = &profile, .unit = &no_unit},
        {.key = {.cluster = STR("cluster-a")}, .profile = &profile, .unit = &no_unit}};
    const struct need_verdict rows[] = {{.need = &needs[0], .shortage = &shortage},
                                        {.need = &needs[1], .shortage = &shortage}};
    struct inspection *inspection = rig.asked[--rig.asked_count];

    for (size_t i = 0; i < count; i++) rig.views[i] = (struct need_view){.row = &rows[i > 0]};
    inspection_write(
        inspection, ERR_OK,
        &(struct needs_view){.cycle = 7, .total = total, .needs = rig.views, .count = count},
        &rig.dimensions);
    inspection_done(inspection);
}

static void on_message(void *owner, struct rpc_client_call *call, struct str bytes)
{
    const Bigfleet__V1alpha1__InspectNeedsResponse *m;
    struct client *c = owner;
    ProtobufCMessage *message;
    struct arena arena;

    (void)call;
    arena_init(&arena, 1 << 20);
    CHECK_OK("decoded", message_read(&bigfleet__v1alpha1__inspect_needs_response__descriptor, bytes,
                                     NULL, &arena, &message, NULL));
    m = (const Bigfleet__V1alpha1__InspectNeedsResponse *)message;
    if (m->frame_case == BIGFLEET__V1ALPHA1__INSPECT_NEEDS_RESPONSE__FRAME_HEADER) {
        c->header_first = c->rows == 0;
        c->headers++;
        c->total = (uint64_t)m->header->total_needs;
    } else if (c->rows++ == 0) {
        snprintf(c->first, sizeof c->first, "%s", m->need->cluster_id);
    }
    arena_deinit(&arena);
}

static void on_end(void *owner, struct rpc_client_call *call, const struct rpc_outcome *outcome)
{
    struct client *c = owner;

    (void)call;
    c->call = NULL;
    c->ended = true;
    c->status = outcome->status;
}

static const struct rpc_call_events call_events = {on_message, NULL, on_end};

static struct client *inspect(size_t index, const char *cluster, int32_t limit)
{
    Bigfleet__V1alpha1__InspectNeedsRequest request =
        BIGFLEET__V1ALPHA1__INSPECT_NEEDS_REQUEST__INIT;
    struct client *c = &rig.clients[index];
    struct rpc_channel *channel = c->channel;
    struct buf bytes;

    *c = (struct client){.channel = channel};
    request.cluster_id = (char *)(uintptr_t)cluster;
    request.limit = limit;
    buf_init(&bytes, 1 << 20);
    CHECK_OK("encoded", message_write(&request.base, &bytes, NULL));
    CHECK_OK("called", rpc_call_start(c->channel,
                                      &(struct rpc_call_options){
                                          .path = "/bigfleet.v1alpha1.ShardRead/InspectNeeds",
                                          .wait_for_ready = true,
                                          .attempts_max = 1},
                                      &call_events, c, &c->call));
    CHECK_OK("asked", rpc_call_send(c->call, buf_peek(&bytes)));
    rpc_call_end(c->call);
    buf_deinit(&bytes);
    (void)sim_run_for(rig.sim, 50);
    return c;
}

static void open_rig(const struct inspections_options *given, const struct tls_identity *const *who)
{
    struct inspections_options options = *given;
    struct tls_context *tls = who ? (struct tls_context *)(void *)&tls_stands_for : NULL;
    struct sim_host *host;
    struct note note = {""};

    memset(&rig, 0, sizeof rig);
    dimensions_init(&rig.dimensions);
    CHECK_OK("a world",
             sim_open(&(struct sim_options){.seed = 3, .events_max = 5000000}, &rig.sim));
    CHECK_OK(
        "a host",
        sim_host_add(rig.sim, &(struct sim_host_options){.name = "shard", .alpn = "h2"}, &host));
    rig.io = sim_host_io(host);
    options.io = rig.io;
    options.inspect = on_inspect;
    CHECK_OK("open", inspections_open(&options, &rig.inspections));
    CHECK_OK("server",
             rpc_server_open(&(struct rpc_server_options){.io = rig.io}, &rig.server, &note));
    CHECK_ERR(note.text, inspections_serve(rig.inspections, rig.server, &note), ERR_OK);
    CHECK_OK("listens", rpc_server_listen(rig.server, "shard:7780", tls, &note));
    for (size_t i = 0; i < CLIENTS; i++) {
        char name[16];
        snprintf(name, sizeof name, "reader%zu", i);
        CHECK_OK("a host",
                 sim_host_add(rig.sim,
                              &(struct sim_host_options){
                                  .name = name, .alpn = "h2", .identity = who ? who[i] : NULL},
                              &host));
        CHECK_OK("a channel", rpc_channel_open(
                                  &(struct rpc_channel_options){
                                      .io = sim_host_io(host),
                                      .addresses = (const char *[]){"shard:7780", NULL},
                                      .tls = tls},
                                  &rig.clients[i].channel, &note));
    }
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
    for (size_t i = 0; i < CLIENTS; i++) {
        bool *closed = &rig.clients[i].closed;
        rpc_channel_close(rig.clients[i].channel, set_true, closed);
        CHECK("closes", sim_wait(rig.sim, is_true, closed, WAIT_MS) == SIM_REACHED);
    }
    rpc_server_close(rig.server, set_true, &rig.closed);
    CHECK("closes", sim_wait(rig.sim, is_true, &rig.closed, WAIT_MS) == SIM_REACHED);
    inspections_close(rig.inspections);
    dimensions_deinit(&rig.dimensions);
    sim_close(rig.sim);
}

TEST(a_header_comes_first_then_the_rows_in_their_order)
{
    struct client *c;

    open_rig(&(struct inspections_options){0}, NULL);
    c = inspect(0, "", 0);
    CHECK_SIZE("asked for all", rig.asked[0]->text.len, 0);
    CHECK_U32("without limit", rig.asked[0]->limit, 0);
    answer(2, 2);
    (void)sim_run_for(rig.sim, 50);
    CHECK("done", c->ended);
    CHECK_U64("well", c->status, GRPC_OK);
    CHECK("first", c->header_first);
    CHECK_SIZE("once", c->headers, 1);
    CHECK_SIZE("then both", c->rows, 2);
    CHECK_TEXT("in order", c->first, "cluster-b");
    c = inspect(0, "cluster-b", -4);
    CHECK_STR("one cluster", rig.asked[0]->text, STR("cluster-b"));
    CHECK_U32("less than none is none", rig.asked[0]->limit, 0);
    answer(0, 0);
    (void)sim_run_for(rig.sim, 50);
    CHECK_U64("nothing computed is no error", c->status, GRPC_OK);
    CHECK_SIZE("a header of its own", c->headers, 1);
    c = inspect(0, "", 2);
    CHECK_U32("limit", rig.asked[0]->limit, 2);
    answer(2, 5);
    (void)sim_run_for(rig.sim, 50);
    CHECK_U64("counted before it", c->total, 5);
    CHECK_SIZE("cut", c->rows, 2);
    close_rig();
}

TEST(a_reader_that_does_not_read_holds_only_itself_and_not_for_ever)
{
    struct client *slow, *quick;

    open_rig(&(struct inspections_options){.read_timeout_ms = 5000}, NULL);
    memset(fingerprint, 'f', sizeof fingerprint);
    profile.fingerprint = str_of(fingerprint, sizeof fingerprint);
    slow = inspect(0, "", 0);
    rpc_call_pause(slow->call);
    answer(ROWS_MAX, ROWS_MAX);
    (void)sim_run_for(rig.sim, 100);
    CHECK("it waits", !slow->ended);
    quick = inspect(1, "", 0);
    answer(ROWS_MAX, ROWS_MAX);
    (void)sim_run_for(rig.sim, 2000);
    CHECK_SIZE("another reads all of its own", quick->rows, ROWS_MAX);
    CHECK_U64("well", quick->status, GRPC_OK);
    (void)sim_run_for(rig.sim, 10000);
    rpc_call_resume(slow->call);
    (void)sim_run_for(rig.sim, 1000);
    CHECK("ended", slow->ended);
    CHECK_U64("by name", slow->status, GRPC_DEADLINE_EXCEEDED);
    profile.fingerprint = STR("p=2000");
    close_rig();
}

TEST(inspections_are_bounded_in_number_and_size)
{
    struct client *c;

    open_rig(&(struct inspections_options){.readers_max = 2, .bytes_max = 1000}, NULL);
    inspect(0, "", 0);
    inspect(1, "", 0);
    c = inspect(2, "", 0);
    CHECK_U64("one too many", c->status, GRPC_RESOURCE_EXHAUSTED);
    CHECK_SIZE("the owner was not asked", rig.asked_count, 2);
    answer(100, 100);
    answer(1, 1);
    (void)sim_run_for(rig.sim, 50);
    CHECK_U64("too large", rig.clients[1].status, GRPC_RESOURCE_EXHAUSTED);
    CHECK_SIZE("and nothing of it", rig.clients[1].headers, 0);
    CHECK_U64("small enough", rig.clients[0].status, GRPC_OK);
    c = inspect(2, "", 0);
    rpc_call_cancel(c->call);
    (void)sim_run_for(rig.sim, 50);
    answer(1, 1); /* for nobody */
    c = inspect(2, "", 0);
    answer(1, 1);
    (void)sim_run_for(rig.sim, 50);
    CHECK_U64("places are given back", c->status, GRPC_OK);
    close_rig();
}

TEST(what_the_owner_cannot_answer_ends_with_a_status)
{
    struct client *c;

    open_rig(&(struct inspections_options){0}, NULL);
    c = inspect(0, "", 0);
    inspection_write(rig.asked[0], ERR_CANCELLED, NULL, NULL); /* it is closing */
    inspection_done(rig.asked[0]);
    (void)sim_run_for(rig.sim, 50);
    CHECK("ended", c->ended && c->status != GRPC_OK);
    CHECK_SIZE("with nothing", c->headers, 0);
    close_rig();
}

TEST(only_readers_and_administrators_may_look)
{
    const struct tls_identity cluster = {.uris = (const struct str[]){STR("bigfleet://cluster/a")},
                                         .uri_count = 1};
    const struct tls_identity readonly = {.uris = (const struct str[]){STR("bigfleet://readonly")},
                                          .uri_count = 1};
    const struct tls_identity admin = {.uris = (const struct str[]){STR("bigfleet://admin")},
                                       .uri_count = 1};
    const struct tls_identity *shown[] = {&cluster, &readonly, &admin};

    open_rig(&(struct inspections_options){0}, shown);
    CHECK_U64("a cluster may not", inspect(0, "", 0)->status, GRPC_PERMISSION_DENIED);
    CHECK_SIZE("and nobody was asked", rig.asked_count, 0);
    for (size_t i = 1; i < CLIENTS; i++) {
        struct client *c = inspect(i, "", 0);
        CHECK_SIZE("asked", rig.asked_count, 1);
        answer(1, 1);
        (void)sim_run_for(rig.sim, 50);
        CHECK_U64("may", c->status, GRPC_OK);
    }
    close_rig();
}
