/* SPDX-License-Identifier: Apache-2.0 */
/* However the bytes are cut, a connection reports and sends the same. Random conversations, cut at
 * random in both directions, bring every byte to its stream and close every stream once. */
#include <stdlib.h>
#include <string.h>

#include "h2_pair.h"
#include "lib/test.h"

enum { WORLDS = 60, CUTS = 6, WIRE_MAX = 16 << 20 };

/* Records all bytes that a client sends over a connection: calls, data, cancels and pings. In every
 * other world a few of the bytes are changed. */
static void record_client(struct prng *p, struct buf *wire)
{
    struct h2_peer client;
    int32_t open[40];
    size_t count = 0;
    char bytes[2000];

    memset(bytes, 'd', sizeof bytes);
    CHECK_OK("client", h2_peer_open(&client, H2_CLIENT, NULL));
    for (int step = 0; step < 200; step++) {
        struct str part = str_of(bytes, prng_below(p, sizeof bytes));
        int32_t stream = count > 0 ? open[prng_below(p, count)] : 0;
        uint64_t die = prng_below(p, 10);
        if (die < 3 && count < ARRAY_LEN(open)) {
            bool end = prng_chance(p, 300000);
            if (!h2_call(&client, "/a.B/C", end, &stream)) open[count++] = stream;
        } else if (die < 7 && stream) {
            h2_send(client.h2, stream, &part, 1);
        } else if (die == 7 && stream) {
            h2_send_end(client.h2, stream);
        } else if (die == 8 && stream) {
            h2_reset(client.h2, stream, H2_CANCEL);
        } else if (prng_chance(p, 300000)) {
            h2_ping(client.h2, prng_u64(p));
        }
        CHECK_OK("write", h2_take_output(client.h2, prng_below(p, 3000), wire));
    }
    while (h2_has_output(client.h2)) CHECK_OK("write", h2_take_output(client.h2, 100000, wire));
    h2_peer_close(&client);
    if (prng_chance(p, 500000)) return;
    for (uint64_t i = prng_below(p, 4); i > 0; i--)
        wire->data[24 + prng_below(p, wire->len - 24)] ^= (char)BIT(prng_below(p, 7));
}

/* Feeds all bytes to a fresh server. The server's output is not consumed meanwhile, so only the
 * cuts differ. */
static enum err listen_to(struct str wire, size_t piece_max, struct prng *p, struct buf *log,
                          struct buf *said)
{
    struct h2_pair pair;
    enum err err;

    CHECK_OK("open", h2_pair_open(&pair, NULL, NULL));
    h2_echo(&pair.server);
    prng_fork(p, &pair.prng);
    pair.piece_max = piece_max;
    err = h2_pair_feed(&pair, &pair.server, wire);
    h2_log_flush(&pair.server);
    CHECK_OK("log", buf_append(log, buf_peek(&pair.server.log)));
    while (h2_has_output(pair.server.h2))
        CHECK_OK("write", h2_take_output(pair.server.h2, 1 + prng_below(p, 9000), said));
    h2_pair_close(&pair);
    return err;
}

TEST(cutting_the_bytes_changes_nothing)
{
    struct prng p;

    prng_seed(&p, test_seed());
    for (int world = 0; world < WORLDS; world++) {
        struct buf wire, log, said;
        enum err want;

        buf_init(&wire, WIRE_MAX);
        buf_init(&log, WIRE_MAX);
        buf_init(&said, WIRE_MAX);
        record_client(&p, &wire);
        want = listen_to(buf_peek(&wire), 0, &p, &log, &said);
        for (int cut = 0; cut < CUTS; cut++) {
            struct buf log_again, said_again;
            buf_init(&log_again, WIRE_MAX);
            buf_init(&said_again, WIRE_MAX);
            CHECK_ERR("the same answer",
                      listen_to(buf_peek(&wire), (size_t)1 << 2 * cut, &p, &log_again, &said_again),
                      want);
            CHECK_STR("reported the same", buf_peek(&log_again), buf_peek(&log));
            CHECK("sent the same", str_equal(buf_peek(&said_again), buf_peek(&said)));
            buf_deinit(&log_again);
            buf_deinit(&said_again);
        }
        buf_deinit(&wire);
        buf_deinit(&log);
        buf_deinit(&said);
    }
}

/* -- conversations -- */

enum { CALLS = 60, BODY_MAX = 30000 };

struct call {
    int32_t stream;
    size_t sent, total;
    bool cancelled, ended;
};

static char body_byte(int32_t stream, size_t at)
{
    return (char)((size_t)stream * 31 + at * 7);
}

static void say_more(struct h2_pair *pair, struct call *c)
{
    char bytes[4000];
    size_t n = min_size(1 + prng_below(&pair->prng, sizeof bytes - 1), c->total - c->sent);
    struct str part = str_of(bytes, n);
    enum err err;

    for (size_t i = 0; i < n; i++) bytes[i] = body_byte(c->stream, c->sent + i);
    err = h2_send(pair->client.h2, c->stream, &part, 1);
    if (err == ERR_FULL) return;
    CHECK_OK("sent", err);
    c->sent += n;
    if (c->sent < c->total) return;
    CHECK_OK("end", h2_send_end(pair->client.h2, c->stream));
    c->ended = true;
}

static void check_call(struct h2_pair *pair, const struct call *c)
{
    struct seen *here = h2_peer_seen(&pair->client, c->stream);
    struct seen *there = h2_peer_seen(&pair->server, c->stream);

    CHECK_U64("closed once at the client", here->closed, 1);
    CHECK_U64("at the server once, if it saw the headers", there->closed, there->headers);
    if (c->cancelled) return;
    CHECK_TEXT("answered", here->grpc_status, "0");
    CHECK_U64("well", here->code | there->code, 0);
    CHECK_SIZE("every byte there", there->data.len, c->total);
    CHECK_SIZE("and back", here->data.len, c->total);
    for (size_t i = 0; i < c->total; i++)
        if (here->data.data[i] != body_byte(c->stream, i)) CHECK("in order", false);
}

static void converse(struct h2_pair *pair)
{
    struct call calls[CALLS] = {{0}};
    size_t begun = 0, left = CALLS;

    for (unsigned step = 0; left > 0; step++) {
        struct call *c = &calls[prng_below(&pair->prng, begun + 1) % CALLS];
        CHECK("it comes to an end", step < 2000000);
        if (!c->stream) {
            bool end;
            c->total = prng_below(&pair->prng, BODY_MAX);
            end = c->total == 0;
            if (h2_call(&pair->client, "/a.B/C", end, &c->stream)) continue;
            c->ended = end;
            begun++;
            left -= end;
        } else if (!c->ended && !c->cancelled) {
            if (prng_chance(&pair->prng, 2000)) {
                h2_reset(pair->client.h2, c->stream, H2_CANCEL);
                c->cancelled = true;
            } else {
                say_more(pair, c);
            }
            left -= c->cancelled || c->ended;
        }
        if (prng_chance(&pair->prng, 300000)) h2_pair_carry(pair, &pair->client, &pair->server);
        if (prng_chance(&pair->prng, 300000)) h2_pair_carry(pair, &pair->server, &pair->client);
    }
    CHECK("at rest", h2_pair_pump(pair));
    for (size_t i = 0; i < CALLS; i++) check_call(pair, &calls[i]);
}

TEST(random_conversations_lose_nothing)
{
    struct prng p;

    prng_seed(&p, test_seed());
    for (int world = 0; world < WORLDS / 2; world++) {
        struct h2_limits small = {.stream_window = 1 + (uint32_t)prng_below(&p, 70000),
                                  .connection_window = 65535 + (uint32_t)prng_below(&p, 70000),
                                  .stream_output_max = BODY_MAX,
                                  .output_max = (CALLS + 1) * BODY_MAX};
        struct h2_pair pair;

        CHECK_OK("open", h2_pair_open(&pair, &small, &small));
        prng_fork(&p, &pair.prng);
        pair.piece_max = (size_t)1 << prng_below(&p, 16);
        h2_echo(&pair.server);
        converse(&pair);
        CHECK_SIZE("nothing waits", h2_pending(pair.server.h2) + h2_pending(pair.client.h2), 0);
        CHECK_SIZE("nothing is open", h2_streams(pair.server.h2) + h2_streams(pair.client.h2), 0);
        h2_pair_close(&pair);
    }
}
