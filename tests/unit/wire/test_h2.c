/* SPDX-License-Identifier: Apache-2.0 */
/* Two connections joined in memory: calls of every shape, flow control both ways, every kind of
 * end, and draining. Limits against abuse are in test_h2_guard.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h2_pair.h"
#include "lib/test.h"

static struct h2_pair pair;

static void start(const struct h2_limits *server, const struct h2_limits *client)
{
    CHECK_OK("both open", h2_pair_open(&pair, server, client));
}

static void pump(void)
{
    CHECK("the two come to rest", h2_pair_pump(&pair));
    CHECK_OK("the server is content", pair.server.err);
    CHECK_OK("the client is content", pair.client.err);
}

static void stop(void)
{
    h2_pair_close(&pair);
}

static struct seen *at_client(int32_t stream)
{
    return h2_peer_seen(&pair.client, stream);
}

static struct seen *at_server(int32_t stream)
{
    return h2_peer_seen(&pair.server, stream);
}

/* -- shapes of a call -- */

static void unary(size_t size, size_t piece_max)
{
    char *bytes = malloc(size + 1);
    struct str body;
    int32_t stream = 0;

    for (size_t i = 0; i < size; i++) bytes[i] = (char)(i * 7);
    body = str_of(bytes, size);
    start(NULL, NULL);
    h2_echo(&pair.server);
    pair.piece_max = piece_max;
    CHECK_OK("request", h2_call(&pair.client, "/a.B/C", false, &stream));
    CHECK_I64("a client's first stream", stream, 1);
    CHECK_OK("body", h2_send(pair.client.h2, stream, &body, 1));
    CHECK_OK("half-close", h2_send_end(pair.client.h2, stream));
    pump();
    CHECK_U64("headers once", at_client(1)->headers, 1);
    CHECK_TEXT("status", at_client(1)->status, "200");
    CHECK_STR("the body came back", buf_peek(&at_client(1)->data), body);
    CHECK_U64("trailers once", at_client(1)->trailers, 1);
    CHECK_TEXT("grpc-status", at_client(1)->grpc_status, "0");
    CHECK("they end it", at_client(1)->end_with_headers && at_client(1)->ends == 0);
    CHECK_TEXT("path", at_server(1)->status, "/a.B/C");
    CHECK_U64("the server saw the end once", at_server(1)->ends, 1);
    CHECK_U64("closed once at the client", at_client(1)->closed, 1);
    CHECK_U64("closed once at the server", at_server(1)->closed, 1);
    CHECK_U64("well", at_client(1)->code | at_server(1)->code, 0);
    CHECK_SIZE("nothing is open", h2_streams(pair.client.h2) + h2_streams(pair.server.h2), 0);
    CHECK_SIZE("nothing waits", h2_pending(pair.client.h2) + h2_pending(pair.server.h2), 0);
    CHECK_ERR("gone", h2_send(pair.client.h2, stream, &body, 1), ERR_CLOSED);
    stop();
    free(bytes);
}

TEST(unary_call_whole)
{
    unary(5, 0);
}

TEST(unary_call_byte_by_byte)
{
    unary(300, 1);
}

TEST(unary_call_in_random_pieces)
{
    unary(200000, 5000);
}

TEST(unary_call_without_a_body)
{
    unary(0, 3);
}

static void answer_trailers_only(struct h2_peer *p, int32_t stream, const struct h2_header *headers,
                                 size_t count, bool trailers, bool end)
{
    struct h2_header answer[] = {
        {STR(":status"), STR("200")},
        {STR("content-type"), STR("application/grpc")},
        {STR("grpc-status"), STR("12")},
    };
    struct str late = STR("late");

    (void)headers, (void)count, (void)trailers, (void)end;
    CHECK_ERR("no data before headers", h2_send(p->h2, stream, &late, 1), ERR_INVALID);
    CHECK_ERR("no trailers either", h2_send_trailers(p->h2, stream, answer + 2, 1), ERR_INVALID);
    CHECK_OK("trailers-only", h2_respond(p->h2, stream, answer, 3, true));
    CHECK_ERR("once", h2_respond(p->h2, stream, answer, 3, true), ERR_INVALID);
    CHECK_ERR("and that was the end", h2_send(p->h2, stream, &late, 1), ERR_INVALID);
    CHECK_SIZE("no room after it", h2_send_room(p->h2, stream), 0);
}

TEST(trailers_only_answer_is_one_block_that_ends)
{
    int32_t stream;

    start(NULL, NULL);
    pair.server.on_headers = answer_trailers_only;
    CHECK_OK("request", h2_call(&pair.client, "/no.Such/Method", true, &stream));
    pump();
    CHECK("one block, and the end with it", at_client(1)->headers == 1 &&
                                                at_client(1)->trailers == 0 &&
                                                at_client(1)->end_with_headers);
    CHECK_TEXT("its status", at_client(1)->grpc_status, "12");
    CHECK_U64("closed well", at_client(1)->closed + at_client(1)->code, 1);
    CHECK("the request ended with its headers", at_server(1)->end_with_headers);
    stop();
}

TEST(answer_before_the_request_ended_makes_the_peer_stop)
{
    struct str more = STR("more");
    int32_t stream;

    start(NULL, NULL);
    pair.server.on_headers = answer_trailers_only;
    CHECK_OK("request", h2_call(&pair.client, "/a.B/C", false, &stream));
    pump();
    CHECK_U64("server closed, well", at_server(1)->closed + at_server(1)->code, 1);
    CHECK_U64("client closed, well", at_client(1)->closed + at_client(1)->code, 1);
    CHECK_TEXT("after the whole answer", at_client(1)->grpc_status, "12");
    CHECK_ERR("and cannot send", h2_send(pair.client.h2, stream, &more, 1), ERR_CLOSED);
    stop();
}

TEST(half_closed_stream_goes_on_in_the_other_direction)
{
    struct str word = STR("word");
    int32_t stream;

    start(NULL, NULL);
    CHECK_OK("request", h2_call(&pair.client, "/a.B/C", true, &stream));
    pump();
    CHECK_OK("answer", h2_answer(&pair.server, stream));
    for (int i = 0; i < 100; i++) {
        CHECK_OK("word", h2_send(pair.server.h2, stream, &word, 1));
        if (i % 10 == 0) pump();
    }
    CHECK_OK("end", h2_finish(&pair.server, stream));
    CHECK_ERR("not after the end", h2_send(pair.server.h2, stream, &word, 1), ERR_INVALID);
    CHECK_ERR("one end", h2_finish(&pair.server, stream), ERR_INVALID);
    pump();
    CHECK_SIZE("all words", at_client(1)->data.len, 400);
    CHECK_U64("then trailers", at_client(1)->trailers, 1);
    CHECK_U64("closed", at_client(1)->closed, 1);
    stop();
}

TEST(both_directions_interleave_on_one_stream)
{
    struct str word = STR("ping");
    int32_t stream;

    start(NULL, NULL);
    h2_echo(&pair.server);
    pair.piece_max = 7;
    CHECK_OK("request", h2_call(&pair.client, "/a.B/Chat", false, &stream));
    for (size_t i = 1; i <= 200; i++) {
        CHECK_OK("ping", h2_send(pair.client.h2, stream, &word, 1));
        pump();
        CHECK_SIZE("answered at once", at_client(1)->data.len, 4 * i);
    }
    CHECK_OK("end", h2_send_end(pair.client.h2, stream));
    pump();
    CHECK_U64("closed", at_client(1)->closed, 1);
    stop();
}

TEST(several_parts_go_as_one)
{
    struct str parts[] = {STR("head"), STR(""), STR("body"), STR("!")};
    int32_t stream;

    start(NULL, NULL);
    h2_echo(&pair.server);
    CHECK_OK("request", h2_call(&pair.client, "/a.B/C", false, &stream));
    CHECK_OK("parts", h2_send(pair.client.h2, stream, parts, ARRAY_LEN(parts)));
    CHECK_OK("nothing", h2_send(pair.client.h2, stream, parts, 0));
    CHECK_SIZE("waiting", h2_stream_pending(pair.client.h2, stream), 9);
    CHECK_OK("end", h2_send_end(pair.client.h2, stream));
    pump();
    CHECK_STR("whole", buf_peek(&at_client(1)->data), STR("headbody!"));
    stop();
}

TEST(thousand_streams_at_once)
{
    enum { STREAMS = 1000 };
    char body[64];
    int32_t stream;

    start(&(struct h2_limits){.streams_max = STREAMS}, NULL);
    pump(); /* now the client knows the server's limit */
    for (int i = 0; i < STREAMS; i++) {
        struct str bytes = str_of(body, (size_t)snprintf(body, sizeof body, "body of %d", i));
        CHECK_OK("request", h2_call(&pair.client, "/a.B/C", false, &stream));
        CHECK_OK("body", h2_send(pair.client.h2, stream, &bytes, 1));
    }
    CHECK_ERR("the peer's limit", h2_call(&pair.client, "/a.B/C", true, &stream), ERR_FULL);
    pump();
    CHECK_SIZE("all open", h2_streams(pair.server.h2), STREAMS);
    for (int i = STREAMS - 1; i >= 0; i--) { /* answered in another order */
        struct str bytes = buf_peek(&at_server(2 * i + 1)->data);
        CHECK_OK("answer", h2_answer(&pair.server, 2 * i + 1));
        CHECK_OK("echo", h2_send(pair.server.h2, 2 * i + 1, &bytes, 1));
        CHECK_OK("end", h2_finish(&pair.server, 2 * i + 1));
        CHECK_OK("half-close", h2_send_end(pair.client.h2, 2 * i + 1));
    }
    pump();
    for (int i = 0; i < STREAMS; i++) {
        snprintf(body, sizeof body, "body of %d", i);
        CHECK_STR("its own body", buf_peek(&at_client(2 * i + 1)->data), str_from(body));
        CHECK_U64("closed once here", at_client(2 * i + 1)->closed, 1);
        CHECK_U64("and there", at_server(2 * i + 1)->closed, 1);
        CHECK_U64("well", at_client(2 * i + 1)->code, 0);
    }
    CHECK_SIZE("none left", h2_streams(pair.server.h2) + h2_streams(pair.client.h2), 0);
    CHECK_OK("room again", h2_call(&pair.client, "/a.B/C", true, &stream));
    stop();
}

/* -- flow control -- */

TEST(peer_that_does_not_consume_stops_the_sender_at_the_window)
{
    enum { WINDOW = 100000, OUTPUT = 50000 };
    struct h2_limits limits = {.stream_window = WINDOW, .stream_output_max = OUTPUT};
    static char kilobyte[1000];
    struct str part = str_of(kilobyte, sizeof kilobyte);
    size_t sent = 0;
    int32_t stream;

    start(&limits, &limits);
    pair.server.hold = true;
    CHECK_OK("request", h2_call(&pair.client, "/a.B/C", false, &stream));
    pump();
    for (int stalls = 0; stalls < 3;) {
        enum err err = h2_send(pair.client.h2, stream, &part, 1);
        if (err == ERR_FULL) {
            stalls++;
            pump();
        } else {
            CHECK_OK("sent", err);
            sent += part.len;
            stalls = 0;
        }
    }
    CHECK_SIZE("the window went over", at_server(1)->data.len, WINDOW);
    CHECK_SIZE("our bound waits", h2_stream_pending(pair.client.h2, stream), OUTPUT);
    CHECK_SIZE("nothing else was taken", sent, WINDOW + OUTPUT);
    CHECK_SIZE("no room", h2_send_room(pair.client.h2, stream), 0);
    CHECK_U64("writable twice, not while it stalls", at_client(1)->writable, 2);
    h2_consume(pair.server.h2, stream, 60000);
    pump();
    CHECK_U64("writable again", at_client(1)->writable, 3);
    CHECK_SIZE("all over", h2_stream_pending(pair.client.h2, stream), 0);
    CHECK_SIZE("and arrived", at_server(1)->data.len, WINDOW + OUTPUT);
    stop();
}

TEST(consuming_opens_the_connection_for_other_streams)
{
    struct h2_limits limits = {.connection_window = 70000, .stream_window = 65000};
    static char bytes[60000];
    struct str part = str_of(bytes, sizeof bytes);
    int32_t a, b;

    start(&limits, NULL);
    pair.server.hold = true;
    CHECK_OK("a", h2_call(&pair.client, "/a.B/C", false, &a));
    CHECK_OK("b", h2_call(&pair.client, "/a.B/C", false, &b));
    CHECK_OK("a's body", h2_send(pair.client.h2, a, &part, 1));
    pump();
    CHECK_OK("b's body", h2_send(pair.client.h2, b, &part, 1));
    pump();
    CHECK_SIZE("b is blocked by the bytes that a has not consumed", at_server(b)->data.len, 10000);
    h2_consume(pair.server.h2, a, sizeof bytes);
    pump();
    CHECK_SIZE("b goes on", at_server(b)->data.len, sizeof bytes);
    stop();
}

TEST(stream_that_closes_gives_back_what_it_never_consumed)
{
    struct h2_limits limits = {.connection_window = 70000, .stream_window = 65000};
    static char bytes[60000];
    struct str part = str_of(bytes, sizeof bytes);
    int32_t stream;

    start(&limits, NULL);
    pair.server.hold = true;
    for (int i = 0; i < 20; i++) {
        CHECK_OK("request", h2_call(&pair.client, "/a.B/C", false, &stream));
        CHECK_OK("body", h2_send(pair.client.h2, stream, &part, 1));
        pump();
        CHECK_SIZE("it arrives whole each time", at_server(stream)->data.len, sizeof bytes);
        if (i % 2)
            h2_reset(pair.client.h2, stream, H2_CANCEL);
        else
            h2_reset(pair.server.h2, stream, H2_INTERNAL_ERROR);
        pump();
        h2_consume(pair.server.h2, stream, sizeof bytes); /* too late, and harmless */
        CHECK_U64("closed", at_server(stream)->closed, 1);
    }
    stop();
}

TEST(consuming_more_than_came_opens_nothing)
{
    enum { WINDOW = 70000 };
    static char bytes[50000];
    struct str part = str_of(bytes, sizeof bytes);
    int32_t stream;

    start(&(struct h2_limits){.stream_window = WINDOW}, NULL);
    pair.server.hold = true;
    CHECK_OK("request", h2_call(&pair.client, "/a.B/C", false, &stream));
    CHECK_OK("body", h2_send(pair.client.h2, stream, &part, 1));
    pump();
    h2_consume(pair.server.h2, stream, SIZE_MAX);
    h2_consume(pair.server.h2, stream, 1000000);
    pump();
    CHECK_OK("body", h2_send(pair.client.h2, stream, &part, 1));
    CHECK_OK("body", h2_send(pair.client.h2, stream, &part, 1));
    pump();
    CHECK_SIZE("one window beyond the consumed bytes", at_server(1)->data.len, 50000 + WINDOW);
    stop();
}

TEST(window_of_a_stream_that_ended_is_not_opened)
{
    static char bytes[200000];
    struct str part = str_of(bytes, sizeof bytes);
    struct buf out;
    int32_t stream;

    start(NULL, NULL);
    pair.server.hold = true;
    CHECK_OK("request", h2_call(&pair.client, "/a.B/C", false, &stream));
    CHECK_OK("body", h2_send(pair.client.h2, stream, &part, 1));
    CHECK_OK("end", h2_send_end(pair.client.h2, stream));
    pump();
    h2_consume(pair.server.h2, stream, sizeof bytes);
    buf_init(&out, 1000);
    CHECK_OK("output", h2_take_output(pair.server.h2, SIZE_MAX, &out));
    CHECK_SIZE("no frame for nothing", out.len, 0);
    buf_deinit(&out);
    stop();
}

/* Sends from on_writable until everything is sent, as a handler does. */
struct bulk {
    size_t left, piece;
};

static void bulk_on(struct h2_peer *p, int32_t stream)
{
    static char bytes[1 << 16];
    struct bulk *bulk = p->test;

    while (bulk->left > 0) {
        struct str part = str_of(bytes, min_size(bulk->left, bulk->piece));
        enum err err = h2_send(p->h2, stream, &part, 1);
        if (err == ERR_FULL) return;
        CHECK_OK("piece", err);
        bulk->left -= part.len;
    }
    CHECK_OK("end", h2_finish(p, stream));
}

TEST(large_answer_flows_through_small_bounds)
{
    struct h2_limits small = {.stream_window = 20000,
                              .connection_window = 66000,
                              .stream_output_max = 10000,
                              .output_max = 30000};
    struct bulk bulk = {3 << 20, 7001};
    size_t most = 0;
    int32_t stream;

    start(&small, &small);
    pair.server.on_writable = bulk_on;
    pair.server.test = &bulk;
    pair.piece_max = 3000;
    CHECK_OK("request", h2_call(&pair.client, "/a.B/List", true, &stream));
    pump();
    CHECK_OK("answer", h2_answer(&pair.server, stream));
    bulk_on(&pair.server, stream);
    for (bool moved = true; moved;) {
        most = max_size(most, h2_memory(pair.server.h2));
        moved = h2_pair_carry(&pair, &pair.client, &pair.server);
        moved |= h2_pair_carry(&pair, &pair.server, &pair.client);
    }
    CHECK_SIZE("3 MiB arrived", at_client(1)->data.len, 3 << 20);
    CHECK_U64("and their trailers", at_client(1)->trailers, 1);
    CHECK("at no moment more memory than the bounds explain", most < 100000);
    stop();
}

TEST(trailers_that_wait_for_a_window_are_no_unread_answer)
{
    enum { WINDOW = 1000 };
    struct h2_limits small = {.stream_window = WINDOW};
    static char bytes[2 * WINDOW];
    struct str part = str_of(bytes, sizeof bytes);
    int32_t stream;

    start(NULL, &small);
    pair.client.hold = true;
    CHECK_OK("request", h2_call(&pair.client, "/a.B/C", true, &stream));
    pump();
    CHECK_OK("headers", h2_answer(&pair.server, stream));
    CHECK_OK("more than the window", h2_send(pair.server.h2, stream, &part, 1));
    pump();
    CHECK_OK("trailers", h2_finish(&pair.server, stream));
    pump();
    CHECK_SIZE("the window is shut", h2_stream_pending(pair.server.h2, stream), WINDOW);
    CHECK_SIZE("nothing counts as unread", h2_answers_pending(pair.server.h2), 0);
    h2_consume(pair.client.h2, stream, WINDOW);
    pump();
    CHECK_U64("and they arrive", at_client(1)->trailers, 1);
    stop();
}

/* Each message is refused at first: the total limit blocks all streams, and each gets on_writable
 * later. */
TEST(total_bound_holds_all_streams_and_wakes_each)
{
    enum { STREAMS = 64 };
    struct h2_limits limits = {.stream_output_max = 100000, .output_max = 400000};
    static char bytes[90000];
    struct str part = str_of(bytes, sizeof bytes);
    unsigned refused = 0;
    int32_t stream;

    start(&limits, &(struct h2_limits){.connection_window = 65535, .stream_window = 100000});
    pair.client.hold = true;
    for (int i = 0; i < STREAMS; i++)
        CHECK_OK("request", h2_call(&pair.client, "/a.B/C", true, &stream));
    pump();
    for (stream = 1; stream < 2 * STREAMS; stream += 2) {
        enum err err;
        CHECK_OK("answer", h2_answer(&pair.server, stream));
        err = h2_send(pair.server.h2, stream, &part, 1);
        if (err) CHECK_ERR("the total", err, ERR_FULL);
        refused += err == ERR_FULL;
    }
    CHECK_U64("four fit", refused, STREAMS - 4);
    CHECK_SIZE("within the total", h2_pending(pair.server.h2), 360000);
    pump();
    for (stream = 1; stream < 2 * STREAMS; stream += 2)
        CHECK_U64("nobody may write yet", at_server(stream)->writable, 0);
    h2_reset(pair.server.h2, 1, H2_CANCEL);
    h2_reset(pair.server.h2, 3, H2_CANCEL);
    h2_reset(pair.server.h2, 5, H2_CANCEL);
    pump();
    for (stream = 9; stream < 2 * STREAMS; stream += 2)
        CHECK_U64("room was made by resets", at_server(stream)->writable, 1);
    stop();
}

TEST(reset_that_comes_in_makes_room_at_once)
{
    struct h2_limits limits = {.stream_output_max = 1000, .output_max = 1000};
    static char bytes[1000];
    struct str part = str_of(bytes, sizeof bytes), one = str_of(bytes, 1);
    int32_t a, b;

    start(&limits, &(struct h2_limits){.stream_window = 1});
    CHECK_OK("a", h2_call(&pair.client, "/a.B/C", true, &a));
    CHECK_OK("b", h2_call(&pair.client, "/a.B/C", true, &b));
    pair.client.hold = true;
    pump();
    CHECK_OK("a answers", h2_answer(&pair.server, a));
    CHECK_OK("b answers", h2_answer(&pair.server, b));
    CHECK_OK("a fills the connection", h2_send(pair.server.h2, a, &part, 1));
    pump();
    CHECK_OK("a again", h2_send(pair.server.h2, a, &one, 1));
    CHECK_ERR("b must wait", h2_send(pair.server.h2, b, &one, 1), ERR_FULL);
    h2_reset(pair.client.h2, a, H2_CANCEL);
    CHECK("the reset arrives", h2_pair_carry(&pair, &pair.client, &pair.server));
    CHECK_U64("b may write again, though nothing was sent", at_server(b)->writable, 1);
    stop();
}

TEST(streams_whose_client_never_reads_cost_a_bounded_amount)
{
    enum { STREAMS = 64 };
    static char bytes[16 << 10];
    struct str part = str_of(bytes, sizeof bytes);
    unsigned full = 0;
    int32_t stream;

    start(NULL, NULL); /* the defaults */
    for (int i = 0; i < STREAMS; i++)
        CHECK_OK("request", h2_call(&pair.client, "/a.B/Watch", false, &stream));
    CHECK("requests reach the server", h2_pair_carry(&pair, &pair.client, &pair.server));
    for (stream = 1; stream < 2 * STREAMS; stream += 2)
        CHECK_OK("answer", h2_answer(&pair.server, stream));
    for (int round = 0; round < 100; round++) { /* 100 MiB are offered; the peer takes nothing */
        for (stream = 1; stream < 2 * STREAMS; stream += 2)
            full += h2_send(pair.server.h2, stream, &part, 1) == ERR_FULL;
    }
    CHECK("most was refused", full > 6000);
    CHECK("under the 4 MiB asked for", h2_memory(pair.server.h2) < 5 * (1 << 20) / 2);
    for (stream = 1; stream < 2 * STREAMS; stream += 2) h2_reset(pair.server.h2, stream, H2_CANCEL);
    CHECK("a reset gives the memory back at once", h2_memory(pair.server.h2) < 300000);
    stop();
}

TEST(message_that_can_never_fit_differs_from_one_that_must_wait)
{
    static char bytes[5001];
    struct str part = str_of(bytes, sizeof bytes), halves[] = {{bytes, 2501}, {bytes, 2500}};
    int32_t stream;

    start(NULL, &(struct h2_limits){.stream_output_max = 5000, .output_max = 8000});
    CHECK_OK("request", h2_call(&pair.client, "/a.B/C", false, &stream));
    CHECK_ERR("never", h2_send(pair.client.h2, stream, &part, 1), ERR_TOO_LARGE);
    CHECK_ERR("nor in parts", h2_send(pair.client.h2, stream, halves, 2), ERR_TOO_LARGE);
    CHECK_SIZE("the reported room fits", h2_send_room(pair.client.h2, stream), 5000);
    part.len = 5000;
    CHECK_OK("exactly", h2_send(pair.client.h2, stream, &part, 1));
    part.len = 1;
    CHECK_ERR("later", h2_send(pair.client.h2, stream, &part, 1), ERR_FULL);
    CHECK_SIZE("all or nothing", h2_stream_pending(pair.client.h2, stream), 5000);
    stop();
}

/* -- ends -- */

static void reset_it(struct h2_peer *p, int32_t stream, const struct h2_header *headers,
                     size_t count, bool trailers, bool end)
{
    (void)headers, (void)count, (void)trailers, (void)end;
    h2_reset(p->h2, stream, H2_INTERNAL_ERROR);
    h2_reset(p->h2, stream, H2_CANCEL); /* the first counts */
    CHECK_ERR("no answer after it", h2_answer(p, stream), ERR_CLOSED);
}

TEST(reset_from_inside_an_event_silences_the_stream)
{
    struct str body = STR("body");
    int32_t stream;

    start(NULL, NULL);
    pair.server.on_headers = reset_it;
    CHECK_OK("request", h2_call(&pair.client, "/a.B/C", false, &stream));
    CHECK_OK("body", h2_send(pair.client.h2, stream, &body, 1));
    CHECK_OK("end", h2_send_end(pair.client.h2, stream));
    pump();
    CHECK_SIZE("no data after the reset", at_server(1)->data.len, 0);
    CHECK_U64("no end either", at_server(1)->ends, 0);
    CHECK_U64("closed once", at_server(1)->closed, 1);
    CHECK_U64("with our code", at_server(1)->code, H2_INTERNAL_ERROR);
    CHECK_U64("the code at the client", at_client(1)->code, H2_INTERNAL_ERROR);
    CHECK_U64("once", at_client(1)->closed, 1);
    stop();
}

static void reset_in_data(struct h2_peer *p, int32_t stream, struct str bytes)
{
    (void)bytes;
    h2_reset(p->h2, stream, H2_CANCEL);
}

/* The rest of the frame whose first bytes caused the reset is already in flight. */
TEST(reset_in_the_middle_of_a_frame_silences_its_rest)
{
    struct str body = STR("a body that comes byte by byte");
    int32_t stream;

    start(NULL, NULL);
    pump();
    pair.piece_max = 1;
    pair.server.on_data = reset_in_data;
    CHECK_OK("request", h2_call(&pair.client, "/a.B/C", false, &stream));
    CHECK_OK("body", h2_send(pair.client.h2, stream, &body, 1));
    CHECK_OK("end", h2_send_end(pair.client.h2, stream));
    pump();
    CHECK_SIZE("one byte was reported", at_server(1)->data.len, 1);
    CHECK_U64("and no end", at_server(1)->ends, 0);
    CHECK_U64("closed once", at_server(1)->closed, 1);
    pair.piece_max = 0;
    pair.server.on_data = NULL;
    CHECK_OK("the connection goes on", h2_call(&pair.client, "/a.B/C", true, &stream));
    pump();
    CHECK_U64("reported", at_server(stream)->headers, 1);
    stop();
}

static struct buf gathered;
static size_t gathered_at_close[2], closes;

static void note_gathered(struct h2_peer *p, int32_t stream, uint32_t code)
{
    (void)p, (void)stream, (void)code;
    gathered_at_close[closes++] = gathered.len;
}

TEST(events_of_sending_come_when_all_is_gathered)
{
    int32_t a, b;

    start(NULL, NULL);
    h2_echo(&pair.server);
    pair.server.on_closed = note_gathered;
    CHECK_OK("a", h2_call(&pair.client, "/a.B/C", true, &a));
    CHECK_OK("b", h2_call(&pair.client, "/a.B/C", true, &b));
    CHECK("arrive", h2_pair_carry(&pair, &pair.client, &pair.server));
    CHECK_SIZE("answers are queued, nobody is closed", closes, 0);
    buf_init(&gathered, 10000);
    CHECK_OK("gathered", h2_take_output(pair.server.h2, SIZE_MAX, &gathered));
    CHECK_SIZE("both are closed", closes, 2);
    CHECK_SIZE("after the last byte", gathered_at_close[0], gathered.len);
    CHECK_SIZE("both", gathered_at_close[1], gathered.len);
    buf_deinit(&gathered);
    stop();
}

static char of_a, of_b;
static void *bound_at_close[2];

/* The first reported end clears the user data of the stream that ends next. */
static void note_bound(struct h2_peer *p, int32_t stream, uint32_t code)
{
    bool first = !bound_at_close[0];

    (void)code;
    bound_at_close[!first] = h2_bound(p->h2, stream);
    if (first) h2_bind(p->h2, stream + 2, NULL);
}

TEST(user_data_of_a_stream_stays_until_its_end_was_reported)
{
    int32_t a, b;

    start(NULL, NULL);
    h2_echo(&pair.server);
    pair.server.on_closed = note_bound;
    CHECK_OK("a", h2_call(&pair.client, "/a.B/C", true, &a));
    CHECK_OK("b", h2_call(&pair.client, "/a.B/C", true, &b));
    CHECK("arrive", h2_pair_carry(&pair, &pair.client, &pair.server));
    CHECK("nothing at first", !h2_bound(pair.server.h2, a));
    h2_bind(pair.server.h2, a, &of_a);
    h2_bind(pair.server.h2, b, &of_b);
    CHECK("each has its own", h2_bound(pair.server.h2, a) == &of_a);
    CHECK("each has its own", h2_bound(pair.server.h2, b) == &of_b);
    pump();
    CHECK("there while the end is reported", bound_at_close[0] == &of_a);
    CHECK("changed between the stream's end and its telling", !bound_at_close[1]);
    CHECK("gone", !h2_bound(pair.server.h2, a));
    h2_bind(pair.server.h2, a, &of_a);
    CHECK("and stays so", !h2_bound(pair.server.h2, a));
    stop();
}

TEST(cancel_reaches_the_server_and_frees_what_waits)
{
    static char bytes[100000];
    struct str part = str_of(bytes, sizeof bytes);
    int32_t stream;

    start(NULL, NULL);
    pair.client.hold = true;
    CHECK_OK("request", h2_call(&pair.client, "/a.B/C", true, &stream));
    pump();
    CHECK_OK("answer", h2_answer(&pair.server, stream));
    for (int i = 0; i < 5; i++) {
        h2_send(pair.server.h2, stream, &part, 1);
        pump();
    }
    CHECK("something waits", h2_pending(pair.server.h2) > 100000);
    h2_reset(pair.client.h2, stream, H2_CANCEL);
    pump();
    CHECK_U64("cancelled", at_server(1)->code, H2_CANCEL);
    CHECK_SIZE("nothing waits", h2_pending(pair.server.h2), 0);
    CHECK_ERR("gone", h2_send(pair.server.h2, stream, &part, 1), ERR_CLOSED);
    CHECK_ERR("gone", h2_finish(&pair.server, stream), ERR_CLOSED);
    stop();
}

TEST(request_cancelled_before_it_was_sent_never_leaves)
{
    int32_t a, b;

    start(NULL, NULL);
    pump();
    CHECK_OK("a", h2_call(&pair.client, "/a.B/C", false, &a));
    CHECK_OK("b", h2_call(&pair.client, "/a.B/C", true, &b));
    h2_reset(pair.client.h2, a, H2_CANCEL);
    CHECK_U64("not from inside the call", at_client(a)->closed, 0);
    pump();
    CHECK_U64("reported once", at_client(a)->closed, 1);
    CHECK_U64("our code", at_client(a)->code, H2_CANCEL);
    CHECK_U64("the server never saw it", at_server(a)->headers, 0);
    CHECK_U64("but of the other", at_server(b)->headers, 1);
    stop();
}

TEST(streams_above_the_servers_limit_are_refused_not_served)
{
    int32_t stream;

    start(&(struct h2_limits){.streams_max = 5}, NULL);
    for (int i = 0; i < 8; i++) /* before this side knows the limit */
        CHECK_OK("request", h2_call(&pair.client, "/a.B/C", true, &stream));
    pump();
    for (stream = 1; stream <= 15; stream += 2) {
        bool served = stream <= 9;
        CHECK_U64("reported", at_server(stream)->headers, served);
        CHECK_U64("refused: safe to try again", at_client(stream)->code,
                  served ? 0 : H2_REFUSED_STREAM);
        CHECK_U64("closed", at_client(stream)->closed, !served);
    }
    CHECK_ERR("now it is known", h2_call(&pair.client, "/a.B/C", true, &stream), ERR_FULL);
    stop();
}

/* -- draining -- */

TEST(draining_in_two_steps_loses_no_call)
{
    int32_t before, between, after = 0;

    start(NULL, NULL);
    CHECK_OK("before", h2_call(&pair.client, "/a.B/C", false, &before));
    pump();
    CHECK_OK("under way", h2_call(&pair.client, "/a.B/C", false, &between));
    h2_go_away(pair.server.h2, H2_NO_ERROR);
    pump();
    CHECK_U64("announced", pair.client.goaways, 1);
    CHECK_I64("with no bound yet", pair.client.goaway_last, INT32_MAX);
    CHECK_U64("running calls are served", at_server(between)->headers, 1);
    CHECK_ERR("no new call", h2_call(&pair.client, "/a.B/C", true, &after), ERR_CLOSED);
    CHECK("both live on", !h2_is_over(pair.server.h2) && !h2_is_over(pair.client.h2));
    h2_go_away(pair.server.h2, H2_NO_ERROR);
    pump();
    CHECK_I64("final: the last one served", pair.client.goaway_last, between);
    h2_go_away(pair.server.h2, H2_NO_ERROR);
    pump();
    CHECK_U64("a third has no effect", pair.client.goaways, 2);
    h2_echo(&pair.server);
    for (int32_t stream = before; stream <= between; stream += 2) {
        CHECK_OK("answer", h2_answer(&pair.server, stream));
        CHECK_OK("client ends", h2_send_end(pair.client.h2, stream));
        pump();
        CHECK_TEXT("completed", at_client(stream)->grpc_status, "0");
        CHECK_U64("well", at_client(stream)->code, 0);
    }
    CHECK("and now both are over", h2_is_over(pair.server.h2) && h2_is_over(pair.client.h2));
    stop();
}

TEST(stream_that_arrives_after_the_final_step_is_refused)
{
    int32_t a, b;

    start(NULL, NULL);
    CHECK_OK("a", h2_call(&pair.client, "/a.B/C", false, &a));
    pump();
    CHECK_OK("b", h2_call(&pair.client, "/a.B/C", false, &b));
    h2_go_away(pair.server.h2, H2_NO_ERROR);
    h2_go_away(pair.server.h2, H2_NO_ERROR); /* decided but not yet sent when b arrives */
    pump();
    CHECK_U64("b was not reported", at_server(b)->headers, 0);
    CHECK_U64("b is known apart from failed", at_client(b)->code, H2_REFUSED_STREAM);
    CHECK_U64("once", at_client(b)->closed, 1);
    CHECK_U64("a goes on", at_client(a)->closed, 0);
    stop();
}

TEST(request_not_yet_sent_when_goaway_comes_is_refused)
{
    int32_t a, b;

    start(NULL, NULL);
    CHECK_OK("a", h2_call(&pair.client, "/a.B/C", false, &a));
    pump();
    h2_go_away(pair.server.h2, H2_NO_ERROR);
    CHECK_OK("b, waiting", h2_call(&pair.client, "/a.B/C", true, &b));
    CHECK("GOAWAY arrives first", h2_pair_carry(&pair, &pair.server, &pair.client));
    pump();
    CHECK_U64("b is closed", at_client(b)->closed, 1);
    CHECK_U64("as never applied", at_client(b)->code, H2_REFUSED_STREAM);
    CHECK_U64("the server never saw it", at_server(b)->headers, 0);
    stop();
}

TEST(client_that_goes_away_finishes_what_it_began)
{
    int32_t a, b = 0;

    start(NULL, NULL);
    h2_echo(&pair.server);
    CHECK_OK("a", h2_call(&pair.client, "/a.B/C", false, &a));
    pump();
    h2_go_away(pair.client.h2, H2_NO_ERROR);
    CHECK_ERR("no more", h2_call(&pair.client, "/a.B/C", true, &b), ERR_CLOSED);
    pump();
    CHECK_U64("the server received it", pair.server.goaways, 1);
    CHECK_OK("end", h2_send_end(pair.client.h2, a));
    pump();
    CHECK_TEXT("completed", at_client(a)->grpc_status, "0");
    CHECK("over", h2_is_over(pair.client.h2) && h2_is_over(pair.server.h2));
    stop();
}

/* -- the rest -- */

TEST(ping_is_answered_with_its_token)
{
    start(NULL, NULL);
    CHECK_OK("ping", h2_ping(pair.client.h2, 0x0123456789abcdef));
    pump();
    CHECK_U64("one answer", pair.client.acks, 1);
    CHECK_U64("its token", pair.client.ack_token, 0x0123456789abcdef);
    CHECK_OK("the server may, too", h2_ping(pair.server.h2, UINT64_MAX));
    pump();
    CHECK_U64("its token", pair.server.ack_token, UINT64_MAX);
    stop();
}

static const struct {
    const char *why;
    struct str name, value;
    enum err want;
} header_cases[] = {
    {"upper case", {"Upper", 5}, {"x", 1}, ERR_INVALID},
    {"empty name", {"", 0}, {"x", 1}, ERR_INVALID},
    {"blank in a name", {"a b", 3}, {"x", 1}, ERR_INVALID},
    {"line break in a value", {"a", 1}, {"x\r\ny", 4}, ERR_INVALID},
    {"NUL in a value", {"a", 1}, {"x\0y", 3}, ERR_INVALID},
    {"empty value", {"a", 1}, {"", 0}, ERR_OK},
    {"blanks around a value", {"a", 1}, {" x ", 3}, ERR_OK},
    {"UTF-8 in a value", {"a", 1}, {"\xc3\xa9", 2}, ERR_OK},
    {"every sign a name may have", {"a-_.0*!#$%&'+^`|~", 17}, {"x", 1}, ERR_OK},
};

TEST(headers_that_http2_cannot_carry_are_refused_here)
{
    int32_t stream, ignored = 0;

    start(NULL, NULL);
    CHECK_OK("request", h2_call(&pair.client, "/a.B/C", true, &stream));
    pump();
    CHECK_OK("answer", h2_answer(&pair.server, stream));
    for (size_t i = 0; i < ARRAY_LEN(header_cases); i++) {
        struct h2_header all[] = {{STR(":method"), STR("POST")},
                                  {STR(":scheme"), STR("http")},
                                  {STR(":path"), STR("/")},
                                  {STR(":authority"), STR("a")},
                                  {header_cases[i].name, header_cases[i].value}};
        CHECK_ERR(header_cases[i].why, h2_request(pair.client.h2, all, 5, true, &ignored),
                  header_cases[i].want);
        if (header_cases[i].want)
            CHECK_ERR(header_cases[i].why, h2_send_trailers(pair.server.h2, stream, all + 4, 1),
                      header_cases[i].want);
    }
    pump();
    CHECK_U64("the accepted bytes arrived", pair.server.reported, 5);
    stop();
}

TEST(headers_larger_than_one_block_are_refused_locally)
{
    static char long_value[61 << 10];
    struct h2_header one = {STR("a"), {long_value, sizeof long_value}};
    struct h2_header many[257];
    int32_t stream;

    memset(long_value, 'x', sizeof long_value);
    for (size_t i = 0; i < ARRAY_LEN(many); i++) many[i] = (struct h2_header){STR("a"), STR("b")};
    start(NULL, NULL);
    CHECK_OK("request", h2_call(&pair.client, "/a.B/C", true, &stream));
    pump();
    CHECK_ERR("bytes", h2_respond(pair.server.h2, stream, &one, 1, false), ERR_TOO_LARGE);
    CHECK_ERR("fields", h2_respond(pair.server.h2, stream, many, 257, false), ERR_TOO_LARGE);
    one.value.len = 59 << 10;
    CHECK_OK("answer", h2_answer(&pair.server, stream));
    CHECK_OK("just below", h2_send_trailers(pair.server.h2, stream, &one, 1));
    pump();
    CHECK_U64("arrives", at_client(1)->trailers, 1);
    stop();
}

TEST(calls_of_the_wrong_side_or_stream_are_refused)
{
    struct str part = STR("x");
    struct h2_header status = {STR(":status"), STR("200")};
    int32_t stream = 0;

    start(NULL, NULL);
    CHECK_ERR("a server asks nothing", h2_call(&pair.server, "/a.B/C", true, &stream), ERR_INVALID);
    CHECK_ERR("unknown", h2_send(pair.client.h2, 77, &part, 1), ERR_CLOSED);
    CHECK_ERR("unknown", h2_respond(pair.server.h2, 77, &status, 1, true), ERR_CLOSED);
    CHECK_OK("request", h2_call(&pair.client, "/a.B/C", false, &stream));
    CHECK_ERR("a client does not respond", h2_respond(pair.client.h2, stream, &status, 1, true),
              ERR_INVALID);
    CHECK_ERR("nor send trailers", h2_send_trailers(pair.client.h2, stream, &status, 1),
              ERR_INVALID);
    pump();
    CHECK_OK("answer", h2_answer(&pair.server, stream));
    CHECK_ERR("a server ends with trailers", h2_send_end(pair.server.h2, stream), ERR_INVALID);
    h2_reset(pair.client.h2, 77, 0); /* harmless */
    h2_consume(pair.client.h2, 77, 5);
    stop();
}

TEST(options_that_contradict_each_other_are_refused)
{
    static const struct h2_limits bad[] = {
        {.stream_window = 1u << 31},
        {.connection_window = 1u << 31},
        {.stream_output_max = 1000, .output_max = 999},
        {.output_max = 1 << 20, .memory_max = 1000},
    };
    struct h2_peer p;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK_ERR("refused", h2_peer_open(&p, H2_SERVER, &bad[i]), ERR_INVALID);
    h2_close(NULL);
}

/* An operator receives ten thousand machines at once, and one a second from then on. */
TEST(memory_of_a_busy_moment_is_released)
{
    struct str part = STR("a frame as small as most");
    int32_t stream;
    size_t before;

    start(NULL, NULL);
    CHECK_OK("request", h2_call(&pair.client, "/a.B/Watch", false, &stream));
    pump();
    CHECK_OK("answer", h2_answer(&pair.server, stream));
    pump();
    before = h2_memory(pair.server.h2);
    for (int i = 0; i < 1000; i++) CHECK_OK("many", h2_send(pair.server.h2, stream, &part, 1));
    pump();
    for (int i = 0; i < 1000; i++) {
        CHECK_OK("one", h2_send(pair.server.h2, stream, &part, 1));
        pump();
    }
    CHECK("as before", h2_memory(pair.server.h2) < before + 2000);
    stop();
}

TEST(idle_connection_costs_little)
{
    start(NULL, NULL);
    pump();
    CHECK("server", h2_memory(pair.server.h2) < 40000);
    CHECK("client", h2_memory(pair.client.h2) < 40000);
    stop();
}
