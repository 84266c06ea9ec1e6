/* SPDX-License-Identifier: Apache-2.0 */
/* The k-th allocation fails while a channel with two connections makes calls of every kind, is
 * refused, follows a leader, retries, and closes. After any failure every started call ends once,
 * nothing leaks, a call that may have been applied is never reported as refused, and a call that
 * ends well has the whole answer. */
#include <string.h>

#include "lib/fault_alloc.h"
#include "lib/test.h"
#include "rpc/client.h"
#include "sim/sim.h"
#include "wire/grpc.h"
#include "wire/h2.h"

enum { CALLS_MAX = 8, RUN_MS = 40000, STEP_MS = 500, BODY_MAX = 1 << 20 };

/* -- a small server; its allocations fail as well, and then it resets the stream or closes -- */

struct peer {
    struct stream *stream;
    struct h2 *h2;
    struct server *server;
};
struct server {
    struct io *io;
    struct listener *listener;
    struct peer peers[64];
    size_t accepted;
    const char *leader; /* not ours: answer so */
    unsigned seen, refuse;
    unsigned applied[CALLS_MAX];
};
struct called {
    bool started;
    unsigned ends, messages;
    enum err err;
};
static struct sim *sim;
static struct server servers[2];
static struct called called[CALLS_MAX];
static struct rpc_channel *channel;
static bool channel_closed;

static void flush(struct peer *peer)
{
    struct buf out;
    struct str bytes;

    if (!peer->stream || !peer->h2) return;
    buf_init(&out, BODY_MAX);
    if (!h2_take_output(peer->h2, BODY_MAX, &out) && out.len > 0) {
        bytes = buf_peek(&out);
        (void)stream_write(peer->stream, &bytes, 1);
    }
    buf_deinit(&out);
}

static void answer(struct peer *peer, int32_t stream)
{
    const struct h2_header headers[] = {{STR(":status"), STR("200")},
                                        {STR("content-type"), STR("application/grpc")},
                                        {STR("x-first"), STR("1")}};
    const struct h2_header trailers[] = {{STR("grpc-status"), STR("0")},
                                         {STR("x-last-bin"), STR("AAEC")}};
    const struct str message = {"\0\0\0\0\5hello\0\0\0\0\5world", 20};

    if (h2_respond(peer->h2, stream, headers, 3, false) || h2_send(peer->h2, stream, &message, 1) ||
        h2_send_trailers(peer->h2, stream, trailers, 2))
        h2_reset(peer->h2, stream, H2_INTERNAL_ERROR);
}

static void on_headers(void *owner, int32_t stream, const struct h2_header *headers, size_t count,
                       bool trailers, bool end)
{
    struct peer *peer = owner;
    const struct h2_header not_leader[] = {
        {STR(":status"), STR("200")},
        {STR("content-type"), STR("application/grpc")},
        {STR("grpc-status"), STR("9")},
        {STR("grpc-message"), STR("not%20me")},
        {STR(RPC_LEADER_TRAILER), str_from(peer->server->leader)}};

    (void)trailers, (void)end;
    peer->server->seen++;
    if (peer->server->leader) {
        if (h2_respond(peer->h2, stream, not_leader, 5, true))
            h2_reset(peer->h2, stream, H2_REFUSED_STREAM);
        return;
    }
    if (peer->server->seen <= peer->server->refuse) {
        h2_reset(peer->h2, stream, H2_REFUSED_STREAM);
        return;
    }
    for (size_t i = 0; i < count; i++) /* ":path" is "/t/N" */
        if (str_equal(headers[i].name, STR(":path")) && headers[i].value.len == 4)
            peer->server->applied[headers[i].value.at[3] - '0']++;
    answer(peer, stream);
}
static void on_data(void *owner, int32_t stream, struct str bytes)
{
    h2_consume(((struct peer *)owner)->h2, stream, bytes.len);
}
static void on_end(void *owner, int32_t stream)
{
    (void)owner, (void)stream;
}
static void on_closed(void *owner, int32_t stream, uint32_t code)
{
    (void)owner, (void)stream, (void)code;
}
static const struct h2_events h2_events = {
    .on_headers = on_headers, .on_data = on_data, .on_end = on_end, .on_closed = on_closed};

static void peer_bytes(void *owner, struct str bytes)
{
    struct peer *peer = owner;

    if (!peer->h2) return;
    (void)h2_feed(peer->h2, bytes, loop_now(peer->server->io->loop));
    flush(peer);
}
static void peer_closed(void *owner, enum err why, const struct note *note)
{
    struct peer *peer = owner;

    (void)why, (void)note;
    peer->stream = NULL;
    h2_close(peer->h2);
    peer->h2 = NULL;
}
static const struct stream_events peer_events = {.on_bytes = peer_bytes, .on_closed = peer_closed};

static void on_accept(void *owner, struct stream *own_stream)
{
    struct server *s = owner;
    struct peer *peer = &s->peers[s->accepted];

    if (s->accepted == ARRAY_LEN(s->peers)) {
        stream_close(own_stream);
        return;
    }
    s->accepted++;
    *peer = (struct peer){.stream = own_stream, .server = s};
    stream_start(own_stream, &peer_events, peer);
    if (h2_open(H2_SERVER, NULL, &h2_events, peer, &peer->h2)) {
        peer->h2 = NULL;
        stream_close(own_stream);
        return;
    }
    flush(peer);
}

/* -- calls -- */

static void call_message(void *owner, struct rpc_client_call *call, struct str message)
{
    struct called *c = owner;

    (void)call;
    CHECK("nothing after the end", c->ends == 0);
    CHECK("whole", str_equal(message, c->messages % 2 ? STR("world") : STR("hello")));
    c->messages++;
}
static void call_end(void *owner, struct rpc_client_call *call, const struct rpc_outcome *outcome)
{
    struct called *c = owner;

    (void)call;
    c->ends++;
    c->err = outcome->err;
    if (!outcome->err) CHECK_U64("a good end has the whole answer", c->messages, 2);
}
static void unary_end(void *owner, const struct rpc_client_call *call,
                      const struct rpc_outcome *outcome, struct str message)
{
    struct called *c = owner;

    (void)call, (void)message;
    c->ends++;
    c->err = outcome->err; /* two messages: ERR_UNKNOWN by the rules of a unary call */
}
static const struct rpc_call_events call_events = {call_message, NULL, call_end};

static void start_calls(void)
{
    static char large[100000];
    static const char *const paths[CALLS_MAX] = {"/t/0", "/t/1", "/t/2", "/t/3",
                                                 "/t/4", "/t/5", "/t/6", "/t/7"};
    const struct h2_header metadata[] = {{STR("x-a"), STR("1")}, {STR("x-b-bin"), STR("\1\2")}};

    for (size_t i = 0; i < CALLS_MAX; i++) {
        struct rpc_call_options options = {.path = paths[i],
                                           .metadata = metadata,
                                           .metadata_count = i % 3,
                                           .timeout_ms = 30000,
                                           .wait_for_ready = true,
                                           .idempotent = i % 2,
                                           .dedups_by_request_id = i == 4,
                                           .request_id = i == 4 ? STR("id") : STR_EMPTY};
        struct rpc_client_call *call;
        if (i == 7) {
            called[i].started = !rpc_unary(channel, &options, str_of(large, sizeof large),
                                           unary_end, &called[i], NULL);
            continue;
        }
        if (rpc_call_start(channel, &options, &call_events, &called[i], &call)) continue;
        called[i].started = true;
        if (rpc_call_send(call, str_of(large, i * 1000))) rpc_call_cancel(call);
        rpc_call_end(call);
        if (i == 6) rpc_call_cancel(call);
    }
}

static void note_closed(void *owner)
{
    (void)owner;
    channel_closed = true;
}

static bool all_ended(void *context)
{
    (void)context;
    for (size_t i = 0; i < CALLS_MAX; i++)
        if (called[i].started && !called[i].ends) return false;
    return true;
}

static void open_world(struct sim_host **ret_client)
{
    static const char *const names[] = {"s0", "s1"}, *const addresses[] = {"s0:7000", "s1:7000"};

    memset(servers, 0, sizeof servers);
    memset(called, 0, sizeof called);
    channel = NULL;
    channel_closed = false;
    CHECK_OK("a world", sim_open(&(struct sim_options){.seed = 3}, &sim));
    CHECK_OK("client", sim_host_add(sim, &(struct sim_host_options){.name = "c"}, ret_client));
    for (size_t i = 0; i < 2; i++) {
        struct sim_host *host;
        CHECK_OK("host", sim_host_add(sim, &(struct sim_host_options){.name = names[i]}, &host));
        servers[i].io = sim_host_io(host);
        CHECK_OK("listen", net_listen(servers[i].io->net,
                                      &(struct listen_options){.address = addresses[i],
                                                               .on_accept = on_accept,
                                                               .owner = &servers[i]},
                                      &servers[i].listener, NULL));
    }
    servers[0].leader = "s1:7000";
    servers[1].refuse = 2;
}

static void check_calls(void)
{
    for (size_t i = 0; i < CALLS_MAX; i++) {
        bool repeatable = i % 2 || i == 4;
        if (!called[i].started) continue;
        CHECK_U64("each ends once", called[i].ends, 1);
        if (called[i].err && called[i].err != ERR_UNKNOWN)
            CHECK_U64("a no is a no", servers[1].applied[i], 0);
        if (!repeatable)
            CHECK("a call that may not be repeated is applied once", servers[1].applied[i] <= 1);
    }
}

static void run_once(uint64_t k)
{
    const char *const addresses[] = {"s0:7000", "s1:7000", NULL};
    struct sim_host *client;

    fault_alloc_arm(0);
    open_world(&client);
    fault_alloc_arm(k);
    if (rpc_channel_open(&(struct rpc_channel_options){.io = sim_host_io(client),
                                                       .addresses = addresses,
                                                       .warm_second = true,
                                                       .follow_leader = true},
                         &channel, NULL) == ERR_OK) {
        start_calls();
        (void)sim_wait(sim, all_ended, NULL, RUN_MS);
        CHECK("nobody is forgotten", all_ended(NULL));
        check_calls();
        rpc_channel_close(channel, note_closed, NULL);
        (void)sim_run_for(sim, STEP_MS);
        CHECK("the channel is gone", channel_closed);
    }
    sim_close(sim);
    for (size_t i = 0; i < 2; i++)
        for (size_t p = 0; p < servers[i].accepted; p++) h2_close(servers[i].peers[p].h2);
}

TEST(whatever_allocation_fails_every_call_ends_once_and_rightly)
{
    uint64_t runs = 0;

    FAULT_SWEEP_ALLOC(k)
    {
        run_once(k);
        runs = k;
    }
    CHECK("there was something to sweep", runs > 200);
}

TEST(without_a_fault_every_call_is_done)
{
    fault_alloc_arm(0);
    run_once(0);
    for (size_t i = 0; i < CALLS_MAX; i++) {
        CHECK("started", called[i].started);
        if (i < 6) CHECK_OK("done", called[i].err);
        if (i < 6) CHECK_U64("once", servers[1].applied[i], 1);
    }
    CHECK_ERR("cancelled before it left", called[6].err, ERR_CANCELLED);
    CHECK_ERR("two answers to one request", called[7].err, ERR_UNKNOWN);
}
