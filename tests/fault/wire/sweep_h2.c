/* SPDX-License-Identifier: Apache-2.0 */
/* The k-th allocation fails, for every k, while two joined connections talk; nghttp2's own
 * allocations count, because it uses our memory. After each failure some call returned
 * out of memory, every reported stream is closed at most once, and nothing leaks. */
#include <stdlib.h>
#include <string.h>

#include "lib/fault_alloc.h"
#include "lib/test.h"
#include "wire/grpc.h"
#include "wire/h2.h"

static unsigned reported;

static enum err note(enum err err)
{
    if (err == ERR_NOMEM) reported++;
    return err;
}

/* -- plain events: the pair of the unit tests allocates for its records, which must not fail here
 * -- */

struct side {
    struct h2 *h2;
    bool server;
    unsigned reported, closed, answered;
};

static const struct h2_header answer[] = {{{":status", 7}, {"200", 3}},
                                          {{"content-type", 12}, {"application/grpc", 16}}};
static const struct h2_header trailers[] = {{{"grpc-status", 11}, {"0", 1}},
                                            {{"grpc-message", 12}, {"well", 4}}};

static void on_headers(void *owner, int32_t stream, const struct h2_header *headers, size_t count,
                       bool is_trailers, bool end)
{
    struct side *s = owner;

    (void)headers, (void)count;
    s->answered += is_trailers;
    if (!s->server) return;
    s->reported++;
    if (note(h2_respond(s->h2, stream, answer, 2, false)))
        h2_reset(s->h2, stream, H2_INTERNAL_ERROR);
    if (end) note(h2_send_trailers(s->h2, stream, trailers, 2));
}

static void on_data(void *owner, int32_t stream, struct str bytes)
{
    struct side *s = owner;

    h2_consume(s->h2, stream, bytes.len);
    if (s->server) note(h2_send(s->h2, stream, &bytes, 1));
}

static void on_end(void *owner, int32_t stream)
{
    struct side *s = owner;

    if (s->server && note(h2_send_trailers(s->h2, stream, trailers, 2)))
        h2_reset(s->h2, stream, H2_INTERNAL_ERROR);
}

static void on_closed(void *owner, int32_t stream, uint32_t code)
{
    struct side *s = owner;

    (void)stream, (void)code;
    s->closed++;
    CHECK("no stream closes that was not reported", s->closed <= s->reported);
}

static bool carry(struct side *from, struct side *to)
{
    struct buf wire;
    bool moved = false;
    enum err err;

    buf_init(&wire, 1 << 20);
    err = note(h2_take_output(from->h2, 1 << 16, &wire));
    if (wire.len > 0) moved = !note(h2_feed(to->h2, buf_peek(&wire), (mono_time){1}));
    buf_deinit(&wire);
    return !err && moved;
}

static void call(struct side *client, struct str body)
{
    struct h2_header headers[] = {
        {STR(":method"), STR("POST")}, {STR(":scheme"), STR("http")},
        {STR(":path"), STR("/a.B/C")}, {STR(":authority"), STR("fleet")},
        {STR("te"), STR("trailers")},  {STR("x-long"), body},
    };
    int32_t stream = -1;

    if (note(h2_request(client->h2, headers, ARRAY_LEN(headers), false, &stream))) {
        CHECK_I64("untouched", stream, -1);
        return;
    }
    client->reported++;
    if (note(h2_send(client->h2, stream, &body, 1)) || note(h2_send_end(client->h2, stream)))
        h2_reset(client->h2, stream, H2_CANCEL);
}

static void scenario(struct side *server, struct side *client)
{
    static const struct h2_events events = {on_headers, on_data, on_end, NULL,
                                            on_closed,  NULL,    NULL};
    static const struct h2_limits limits = {.stream_window = 2000};
    char body[3000];

    memset(body, 'b', sizeof body);
    if (note(h2_open(H2_SERVER, &limits, &events, server, &server->h2))) return;
    if (note(h2_open(H2_CLIENT, &limits, &events, client, &client->h2))) return;
    for (int i = 0; i < 20; i++) call(client, str_of(body, sizeof body / (size_t)(i + 1)));
    note(h2_ping(server->h2, 1));
    while (carry(client, server) | carry(server, client)) {}
    h2_go_away(server->h2, 0);
    while (carry(client, server) | carry(server, client)) {}
    h2_go_away(server->h2, 0);
    while (carry(client, server) | carry(server, client)) {}
}

TEST(every_allocation_of_a_conversation_may_fail)
{
    uint64_t turns = 0;

    FAULT_SWEEP_ALLOC(k)
    {
        struct side server = {.server = true}, client = {0};
        bool failed;

        reported = 0;
        scenario(&server, &client);
        failed = fault_alloc_fired();
        if (failed && reported == 0 && client.answered < 20) {
            /* nghttp2 answers any failure to compress a header with GOAWAY. */
            CHECK("an unreported failure ends the connection, or had no effect",
                  h2_is_over(client.h2) || h2_is_over(server.h2));
        } else if (reported == 0) {
            CHECK_U64("20 calls answered", client.answered, 20);
            CHECK_U64("20 closed", client.closed, 20);
            CHECK_U64("on both sides", server.closed, 20);
            CHECK("over", h2_is_over(server.h2) && h2_is_over(client.h2));
        }
        h2_close(client.h2);
        h2_close(server.h2);
        turns = k;
    }
    CHECK("a conversation of many allocations", turns > 200);
}

/* -- the plain functions -- */

TEST(grpc_functions_leave_their_buffer_as_it_was)
{
    static const unsigned char zipped[] = {0x1f, 0x8b, 8,    0,    0,    0,    0, 0,
                                           2,    3,    0x4b, 0xca, 0x49, 0x4c, 2, 0,
                                           0x42, 0x88, 0xfc, 0x2e, 4,    0,    0, 0};

    FAULT_SWEEP_ALLOC(k)
    {
        struct buf out;
        reported = 0;
        buf_init(&out, 1000);
        while (note(grpc_message_encode(STR("100%"), &out))) CHECK_SIZE("nothing", out.len, 0);
        while (note(grpc_message_decode(STR("%41 and more text that needs more room than 64 "
                                            "bytes, so that the buffer grows"),
                                        &out)))
            CHECK_SIZE("nothing", out.len, 6);
        buf_deinit(&out);
        while (note(grpc_bin_encode(STR("foo"), &out))) CHECK_SIZE("nothing", out.len, 0);
        buf_deinit(&out);
        while (note(grpc_bin_decode(STR("Zm9v,Zm9v"), &out))) CHECK_SIZE("nothing", out.len, 0);
        buf_deinit(&out);
        while (note(grpc_gunzip(str_of(zipped, sizeof zipped), 100, &out)))
            CHECK_SIZE("nothing", out.len, 0);
        CHECK_STR("inflated", buf_peek(&out), STR("blab"));
        CHECK_U64("each failure is reported, once", reported, fault_alloc_fired() ? 1 : 0);
        buf_deinit(&out);
    }
}
