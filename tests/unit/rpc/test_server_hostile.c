/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that stall, flood, hoard or never read: only their connection is closed or limited, and
 * another client's call succeeds meanwhile. */
#include <string.h>

#include "../wire/h2_pair.h" /* frames by hand */
#include "lib/test.h"
#include "rig.h"

#define UNARY  "/muster.test.v1.Echo/Unary"
#define STREAM "/muster.test.v1.Echo/ServerStream"
#define BIDI   "/muster.test.v1.Echo/Bidi"

static struct rig rig;

/* Another client is served normally. */
static void check_neighbour(void)
{
    struct client *c = &rig.clients[3];
    int32_t stream;

    if (!c->stream) c = client_connect(&rig, 3, false);
    stream = client_unary(c, UNARY, &ECHO_REQUEST(.sequence = 1));
    client_wait_closed(c, stream);
    CHECK_I64("the neighbour is served", client_answer(c, stream)->grpc, 0);
}

static void check_closed_for_abuse(struct client *c)
{
    client_wait_gone(c);
    CHECK_U64("counted", rig_counts(&rig).abuse, 1);
    check_neighbour();
    CHECK_U64("only the neighbour is left", rpc_server_stats(rig.server).connections, 1);
    CHECK_U64("no call is left", rpc_server_stats(rig.server).calls, 0);
    CHECK_SIZE("nothing is kept", rpc_server_stats(rig.server).buffered, 0);
}

/* -- slow -- */

static const struct rpc_server_limits quick = {.handshake_timeout_ms = 2000,
                                               .header_timeout_ms = 3000};

TEST(a_greeting_that_does_not_come_is_not_waited_for)
{
    struct client *c;
    sim_time began;

    rig_open(&rig, &quick, NULL, NULL);
    began = sim_now(rig.sim);
    c = client_connect(&rig, 0, true);
    for (int i = 0; i < 20 && !c->closed; i++) {
        client_bytes(c, str_of(&"PRI * HTTP/2.0\r\n\r\nSM\r\n"[i], 1));
        rig_run(&rig, 150);
    }
    check_closed_for_abuse(c);
    CHECK("in its time", sim_now(rig.sim).ns - began.ns < 4000 * NS_PER_MS);
    rig_close(&rig);
}

TEST(headers_that_trickle_are_not_waited_for)
{
    struct client *c;
    struct buf frames;
    unsigned sent = 0;

    rig_open(&rig, &quick, NULL, NULL);
    c = client_connect(&rig, 0, true);
    buf_init(&frames, 1 << 16);
    raw_preface(&frames);
    client_bytes(c, buf_peek(&frames));
    buf_clear(&frames);
    rig_run(&rig, 5000);
    CHECK("a connection without requests may stay", c->open);
    raw_request(&frames, 1, false);
    for (; sent < 100 && sent < frames.len && !c->closed; sent++) {
        client_bytes(c, str_of(frames.data + sent, 1));
        rig_run(&rig, 100);
    }
    CHECK("not at once", sent > 25);
    CHECK("not for ever", sent < 40);
    check_closed_for_abuse(c);
    buf_deinit(&frames);
    rig_close(&rig);
}

TEST(continuations_that_do_not_end_are_not_waited_for)
{
    struct client *c;
    struct buf frames, block;

    rig_open(&rig, &quick, NULL, NULL);
    c = client_connect(&rig, 0, true);
    buf_init(&frames, 1 << 16);
    buf_init(&block, 1 << 16);
    raw_preface(&frames);
    raw_field(&block, STR(":method"), STR("POST"));
    raw_frame(&frames, 1, 0, 1, buf_peek(&block));
    client_bytes(c, buf_peek(&frames));
    for (int i = 0; i < 100 && !c->closed; i++) {
        buf_clear(&frames);
        buf_clear(&block);
        raw_field(&block, STR("x"), STR("y"));
        raw_frame(&frames, 9, 0, 1, buf_peek(&block));
        client_bytes(c, buf_peek(&frames));
        rig_run(&rig, 500);
    }
    check_closed_for_abuse(c);
    buf_deinit(&frames);
    buf_deinit(&block);
    rig_close(&rig);
}

TEST(a_slow_body_is_no_crime_and_ends_with_its_deadline)
{
    struct h2_header timeout = {STR("grpc-timeout"), STR("20S")};
    struct client *c;
    int32_t stream;

    rig_open(&rig, &quick, NULL, NULL);
    c = client_connect(&rig, 0, false);
    stream = client_start(c, UNARY, &timeout, 1);
    for (int i = 0; i < 8; i++) {
        struct str byte = str_of(&"\0\0\0\0\100abc"[i], 1);
        CHECK_OK("send", h2_send(c->h2, stream, &byte, 1));
        rig_client_flush(c);
        rig_run(&rig, 2000);
    }
    CHECK("it waits", c->open && client_answer(c, stream)->closed == 0);
    client_wait_closed(c, stream);
    CHECK_I64("then it is over", client_answer(c, stream)->grpc, GRPC_DEADLINE_EXCEEDED);
    CHECK("the connection lives", c->open);
    rig_close(&rig);
}

/* -- floods -- */

TEST(rapid_resets_cost_the_connection)
{
    struct client *c;
    unsigned made = 0;

    rig_open(&rig, NULL, NULL, NULL);
    c = client_connect(&rig, 0, false);
    for (; made < 1000 && !c->closed; made++) {
        int32_t stream = client_start(c, BIDI, NULL, 0);
        h2_reset(c->h2, stream, H2_CANCEL);
        rig_client_flush(c);
    }
    rig_run(&rig, 100);
    CHECK("a thousand cancelled calls are forgiven", c->open);
    CHECK_U64("each was notified to its handler", echo_stats(rig.echo).done, 1000);
    client_close(c);
    c = client_connect(&rig, 0, true);
    {
        struct buf frames;
        buf_init(&frames, 8 << 20);
        raw_preface(&frames);
        for (int32_t stream = 1; stream < 6000; stream += 2) {
            raw_request(&frames, stream, false);
            raw_frame(&frames, 3, 0, stream, str_of("\0\0\0\10", 4));
        }
        for (size_t at = 0; at < frames.len; at += 4096) {
            client_bytes(c, str_of(frames.data + at, min_size(4096, frames.len - at)));
            rig_run(&rig, 2);
        }
        buf_deinit(&frames);
    }
    check_closed_for_abuse(c);
    rig_close(&rig);
}

TEST(pings_that_come_too_often_draw_enhance_your_calm)
{
    struct client *c;
    int sent = 0;

    rig_open(&rig, &(struct rpc_server_limits){.ping_min_interval_ms = 10000}, NULL, NULL);
    c = client_connect(&rig, 0, false);
    for (int i = 0; i < 5; i++) { /* slowly is fine */
        CHECK_OK("ping", h2_ping(c->h2, 1));
        rig_client_flush(c);
        rig_run(&rig, 11000);
    }
    CHECK("slowly is fine", c->open);
    CHECK_U64("answered", c->acks, 5);
    for (int i = 0; i < 20; i++) { /* with work between is fine */
        CHECK_OK("ping", h2_ping(c->h2, 1));
        client_wait_closed(c, client_unary(c, UNARY, &ECHO_REQUEST()));
    }
    CHECK("with work between is fine", c->open);
    for (; sent < 10 && !c->closed; sent++) {
        (void)h2_ping(c->h2, 1);
        rig_client_flush(c);
        rig_run(&rig, 100);
    }
    check_closed_for_abuse(c);
    CHECK_U64("reported why", c->goaway_code, H2_ENHANCE_YOUR_CALM);
    CHECK("two strikes are forgiven", sent > 2);
    rig_close(&rig);
}

/* Finds the first GOAWAY among the frames that a raw client received: its code and text. */
static struct str heard_goaway(const struct client *c, uint32_t *ret_code)
{
    struct str rest = buf_peek(&c->answers[0].body);

    while (rest.len >= 9) {
        const uint8_t *at = (const uint8_t *)rest.at;
        size_t len = (size_t)at[0] << 16 | (size_t)at[1] << 8 | at[2];
        if (at[3] == 7 && rest.len >= 9 + len && len >= 8) {
            *ret_code = at[16]; /* all expected codes fit into one byte */
            return str_of(rest.at + 17, len - 8);
        }
        rest = str_tail(rest, min_size(rest.len, 9 + len));
    }
    CHECK("a GOAWAY came", false);
    return STR_EMPTY;
}

/* Stock gRPC clients measure the bandwidth with pings while a large message arrives. */
TEST(pings_while_one_large_answer_comes_in_are_fine)
{
    struct client *c;
    int32_t stream;
    int pings = 0;

    rig_open(&rig, &(struct rpc_server_limits){.ping_min_interval_ms = 10000}, NULL, NULL);
    rig.client_window = 16384;
    c = client_connect(&rig, 0, false);
    stream = client_unary(c, UNARY, &ECHO_REQUEST(.response_bytes = 1 << 20));
    while (!client_answer(c, stream)->closed && !c->closed) {
        size_t before = client_answer(c, stream)->bytes;

        rig_run(&rig, 1);
        if (client_answer(c, stream)->bytes == before) continue; /* only where data arrived */
        (void)h2_ping(c->h2, 1);
        rig_client_flush(c);
        pings++;
    }
    CHECK("several", pings > 10);
    CHECK("it stays", c->open && c->goaways == 0);
    CHECK_I64("and is answered", client_answer(c, stream)->grpc, 0);
    CHECK("with all of it", client_answer(c, stream)->bytes > 1 << 20);
    rig_close(&rig);
}

/* Checks the code and text that make stock gRPC clients ping less often. */
static void check_too_many_pings(struct client *c)
{
    uint32_t code = 0;

    CHECK_STR("the text that gRPC clients know", heard_goaway(c, &code), STR("too_many_pings"));
    CHECK_U64("with their code", code, H2_ENHANCE_YOUR_CALM);
}

TEST(a_client_that_pings_too_often_gets_the_grpc_error_for_it)
{
    struct client *c;
    struct buf frames;

    rig_open(&rig, &(struct rpc_server_limits){.ping_min_interval_ms = 10000}, NULL, NULL);
    c = client_connect(&rig, 0, true);
    c->keep = true;
    buf_init(&frames, 1 << 16);
    raw_preface(&frames);
    for (int i = 0; i < 4; i++) raw_frame(&frames, 6, 0, 0, STR("12345678"));
    client_bytes(c, buf_peek(&frames));
    check_closed_for_abuse(c);
    check_too_many_pings(c);
    buf_deinit(&frames);
    rig_close(&rig);
}

TEST(a_ping_flood_is_cut_short)
{
    struct client *c;
    struct buf frames;

    /* Also when any interval is allowed. */
    rig_open(&rig, &(struct rpc_server_limits){.ping_min_interval_ms = 1}, NULL, NULL);
    c = client_connect(&rig, 0, true);
    c->keep = true;
    buf_init(&frames, 8 << 20);
    raw_preface(&frames);
    for (int i = 0; i < 290; i++) raw_frame(&frames, 6, 0, 0, STR("12345678"));
    for (size_t at = 0; at < frames.len; at += 17) { /* one by one, and none too early */
        client_bytes(c, str_of(frames.data + at, min_size(17, frames.len - at)));
        rig_run(&rig, 2);
    }
    CHECK("so far so good", c->open);
    buf_clear(&frames);
    for (int i = 0; i < 5000; i++) raw_frame(&frames, 6, 0, 0, STR("12345678"));
    client_bytes(c, buf_peek(&frames));
    check_closed_for_abuse(c);
    CHECK("few are answered", c->heard < 400 * 17);
    check_too_many_pings(c);
    buf_deinit(&frames);
    rig_close(&rig);
}

/* Sends up to `total` bytes on one stream, in frames that respect the connection's window. */
static void pour_data(struct client *c, int32_t stream, size_t total)
{
    static const char block[16384];
    struct buf frames;

    buf_init(&frames, 1 << 20);
    for (size_t at = 0; at < total && !c->closed; at += sizeof block) {
        buf_clear(&frames);
        raw_frame(&frames, 0, 0, stream, str_of(block, min_size(sizeof block, total - at)));
        client_bytes(c, buf_peek(&frames));
        rig_run(&rig, 2);
    }
    buf_deinit(&frames);
}

TEST(data_that_crosses_the_end_of_a_call_is_counted_and_forgiven)
{
    enum { STREAMS = 24, EACH = 200000 };
    struct client *c;
    struct buf frames;

    rig_open(&rig, NULL, NULL, NULL);
    c = client_connect(&rig, 0, true);
    buf_init(&frames, 1 << 16);
    raw_preface(&frames);
    for (int32_t i = 0; i < STREAMS;
         i++) { /* no gRPC and too long to wait for: the server ends the stream */
        raw_request(&frames, 2 * i + 1, false);
        client_bytes(c, buf_peek(&frames));
        buf_clear(&frames);
        pour_data(c, 2 * i + 1, EACH);
    }
    CHECK("the connection lives", c->open);
    CHECK("most of it came too late", rig_counts(&rig).late_bytes > (uint64_t)STREAMS * EACH / 2);
    CHECK("and not more than came", rig_counts(&rig).late_bytes <= (uint64_t)STREAMS * EACH);
    CHECK_U64("nobody was turned away", rig_counts(&rig).abuse, 0);
    check_neighbour();
    buf_deinit(&frames);
    rig_close(&rig);
}

TEST(data_for_streams_that_are_over_is_counted_and_bounded)
{
    struct client *c;
    struct buf frames;

    rig_open(&rig, NULL, NULL, NULL);
    c = client_connect(&rig, 0, true);
    buf_init(&frames, 1 << 16);
    raw_preface(&frames);
    raw_request(&frames, 1, true); /* ended by its peer: no late bytes are possible */
    client_bytes(c, buf_peek(&frames));
    rig_run(&rig, 100);
    for (int i = 0; i < 3; i++) check_neighbour(); /* its last frame is empty, which is allowed */
    CHECK_U64("nothing is late yet", rig_counts(&rig).late_bytes, 0);
    pour_data(c, 1, 64 << 20);
    check_closed_for_abuse(c);
    CHECK("counted", rig_counts(&rig).late_bytes >= 1 << 20);
    CHECK("and cut short", rig_counts(&rig).late_bytes < 2 << 20);
    CHECK_OK("NUL", buf_append_byte(&rig.log, 0));
    CHECK_HAS("reported in the log", rig.log.data, "data on closed streams");
    buf_deinit(&frames);
    rig_close(&rig);
}

TEST(empty_frames_for_streams_that_are_over_are_bounded_too)
{
    struct client *c;
    struct buf frames;

    rig_open(&rig, &(struct rpc_server_limits){.connection_window = 65535}, NULL, NULL);
    c = client_connect(&rig, 0, true);
    buf_init(&frames, 4 << 20);
    raw_preface(&frames);
    raw_request(&frames, 1, true);
    client_bytes(c, buf_peek(&frames));
    rig_run(&rig, 100);
    buf_clear(&frames);
    for (int i = 0; i < 1000; i++) raw_frame(&frames, 0, 0, 1, STR_EMPTY);
    for (int i = 0; i < 100 && !c->closed; i++) {
        client_bytes(c, buf_peek(&frames));
        rig_run(&rig, 2);
    }
    check_closed_for_abuse(c);
    buf_deinit(&frames);
    rig_close(&rig);
}

TEST(a_header_bomb_is_cut_short)
{
    struct client *c;
    struct buf frames, block;
    char value[16000];

    rig_open(&rig, NULL, NULL, NULL);
    c = client_connect(&rig, 0, true);
    memset(value, 'v', sizeof value);
    buf_init(&frames, 8 << 20);
    buf_init(&block, 1 << 20);
    raw_preface(&frames);
    raw_field(&block, STR("x"), str_of(value, sizeof value));
    raw_frame(&frames, 1, 0, 1, buf_peek(&block));
    for (int i = 0; i < 40; i++) raw_frame(&frames, 9, 0, 1, buf_peek(&block));
    client_bytes(c, buf_peek(&frames));
    check_closed_for_abuse(c);
    buf_deinit(&frames);
    buf_deinit(&block);
    rig_close(&rig);
}

TEST(bytes_that_are_no_http2_are_answered_with_goaway)
{
    static const char *const junk[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                                       "PRI * HTTP/2.0\r\n\r\nSM\r\nxx",
                                       "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"};

    rig_open(&rig, NULL, NULL, NULL);
    for (size_t i = 0; i < ARRAY_LEN(junk); i++) {
        struct client *c = client_connect(&rig, 0, true);
        struct str bytes = i == 2 ? str_of(junk[i], 11) : str_from(junk[i]);
        client_bytes(c, bytes);
        if (i == 2) client_bytes(c, STR("0123456789012345678901234567890"));
        client_wait_gone(c);
        check_neighbour();
    }
    rig_close(&rig);
}

/* -- hoards -- */

static void raw_call(struct buf *out, int32_t stream, const char *path)
{
    struct buf block;

    buf_init(&block, 1 << 16);
    raw_field(&block, STR(":method"), STR("POST"));
    raw_field(&block, STR(":scheme"), STR("http"));
    raw_field(&block, STR(":path"), str_from(path));
    raw_field(&block, STR(":authority"), STR("x"));
    raw_field(&block, STR("content-type"), STR("application/grpc"));
    raw_frame(out, 1, 4, stream, buf_peek(&block));
    buf_deinit(&block);
}

/* Bytes that the server buffers for all peers, by its own statistics. */
static size_t held(void)
{
    return rpc_server_stats(rig.server).buffered;
}

TEST(a_window_of_zero_is_waited_for_within_bounds)
{
    struct client *c;
    struct buf frames;
    uint64_t answers;

    rig_open(&rig, NULL, NULL, NULL);
    c = client_connect(&rig, 0, false);
    buf_init(&frames, 1 << 16);
    raw_frame(&frames, 4, 0, 0, str_of("\0\4\0\0\0\0", 6)); /* SETTINGS_INITIAL_WINDOW_SIZE 0 */
    client_bytes(c, buf_peek(&frames));
    for (int i = 0; i < 64; i++)
        client_unary(c, STREAM, &ECHO_REQUEST(.count = 1000000, .response_bytes = 1000));
    rig_run(&rig, 5000);
    answers = echo_stats(rig.echo).answers;
    CHECK("they stop", answers < 4000);
    CHECK("within bounds", held() < 1 << 20);
    rig_run(&rig, 50000);
    CHECK_U64("for a while", echo_stats(rig.echo).answers, answers);
    check_neighbour();
    buf_deinit(&frames);
    rig_close(&rig);
}

TEST(windows_may_stay_shut_as_long_as_the_peer_answers_pings)
{
    struct client *c;
    int32_t stream = 0;

    rig_open(&rig, NULL, NULL, NULL);
    rig.client_window = 1;
    c = client_connect(&rig, 0, false);
    c->hold = true;
    for (int i = 0; i < 64; i++)
        stream = client_unary(c, STREAM, &ECHO_REQUEST(.count = 1000, .response_bytes = 1000));
    rig_run(&rig, 3600000);
    CHECK("an hour later", c->open && client_answer(c, stream)->closed == 0);
    CHECK("within bounds", held() < 1 << 20);
    check_neighbour();
    rig_close(&rig);
}

TEST(sixty_four_streams_whose_client_never_reads_are_bounded_and_then_cut)
{
    struct client *c;

    rig_open(&rig, &(struct rpc_server_limits){.write_timeout_ms = 30000}, NULL, NULL);
    c = client_connect(&rig, 0, false);
    stream_pause(c->stream); /* does not even read the socket */
    for (int i = 0; i < 64; i++) {
        int32_t stream = client_start(c, BIDI, NULL, 0);
        for (int k = 0; k < 20; k++)
            (void)client_send(c, stream, &ECHO_REQUEST(.payload = {60000, (uint8_t[60000]){0}}));
    }
    rig_run(&rig, 10000);
    CHECK("its calls are open", rpc_server_stats(rig.server).calls == 64);
    CHECK("the buffered requests are bounded by its window", held() <= (1 << 20) + 64 * 70000);
    check_neighbour();
    CHECK("still there", rpc_server_stats(rig.server).connections == 2);
    rig_run(&rig, 40000);
    CHECK_U64("a peer whose kernel takes nothing is cut", rpc_server_stats(rig.server).connections,
              1);
    CHECK_U64("and its calls with it", rpc_server_stats(rig.server).calls, 0);
    CHECK_SIZE("nothing is kept", held(), 0);
    check_neighbour();
    rig_close(&rig);
}

/* The server may send 64 KiB to a client that never opens a window: the kernel takes these bytes,
 * and no more wait in a socket. Frames from such a client do not make it count as alive. */
TEST(a_client_that_reads_nothing_is_cut_after_its_windows_are_full)
{
    struct client *c;
    struct buf frames;
    int32_t stream = 1;
    uint64_t slept = 0;

    rig_open(&rig, &(struct rpc_server_limits){.write_timeout_ms = 30000, .ping_timeout_ms = 10000},
             NULL, NULL);
    c = client_connect(&rig, 0, true);
    stream_pause(c->stream);
    buf_init(&frames, 1 << 20);
    raw_preface(&frames);
    for (; stream < 128; stream += 2) {
        raw_call(&frames, stream, STREAM);
        raw_frame(&frames, 0, 1, stream, STR("\0\0\0\0\6\x18\xe8\7\x28\xe8\7")); /* 1,000 x 1,000 */
    }
    client_bytes(c, buf_peek(&frames));
    rig_run(&rig, 25000);
    CHECK_U64("not at once", rpc_server_stats(rig.server).connections, 1);
    check_neighbour();
    for (; slept < 60000 && rpc_server_stats(rig.server).connections == 2; slept += 1000) {
        buf_clear(&frames);
        raw_request(&frames, stream, true);
        stream += 2;
        client_bytes(c, buf_peek(&frames));
        rig_run(&rig, 1000);
        check_neighbour();
    }
    CHECK("after a while it is cut", slept > 10000 && slept < 20000);
    CHECK_U64("and its calls with it", rpc_server_stats(rig.server).calls, 0);
    CHECK_SIZE("nothing is kept", held(), 0);
    CHECK_U64("it alone", rpc_server_stats(rig.server).connections, 1);
    buf_deinit(&frames);
    rig_close(&rig);
}

/* -- limits -- */

TEST(connections_are_bounded_in_all_and_per_identity)
{
    rig_open(&rig,
             &(struct rpc_server_limits){.connections_max = 3, .connections_per_identity_max = 1},
             NULL, NULL);
    for (size_t i = 0; i < 3; i++) client_connect(&rig, i, false);
    {
        struct client *c = client_connect(&rig, 3, false);
        client_wait_gone(c);
    }
    CHECK_U64("three are in", rpc_server_stats(rig.server).connections, 3);
    CHECK_U64("one was refused", rig_counts(&rig).connections, 1);
    client_close(&rig.clients[0]);
    rig_run(&rig, 100);
    client_close(&rig.clients[3]);
    check_neighbour();
    rig_close(&rig);
}

TEST(calls_are_bounded_in_all)
{
    struct client *c;
    int32_t stream;

    rig_open(&rig, &(struct rpc_server_limits){.calls_max = 10}, NULL, NULL);
    c = client_connect(&rig, 0, false);
    for (int i = 0; i < 10; i++) client_unary(c, UNARY, &ECHO_REQUEST(.delay_ms = 1000));
    stream = client_unary(c, UNARY, &ECHO_REQUEST());
    client_wait_closed(c, stream);
    CHECK_I64("the eleventh", client_answer(c, stream)->grpc, GRPC_RESOURCE_EXHAUSTED);
    CHECK_U64("counted", rig_counts(&rig).calls, 1);
    rig_run(&rig, 2000);
    stream = client_unary(c, UNARY, &ECHO_REQUEST());
    client_wait_closed(c, stream);
    CHECK_I64("later there is room", client_answer(c, stream)->grpc, 0);
    rig_close(&rig);
}

TEST(bytes_are_bounded_per_identity)
{
    struct client *c;
    int32_t stream[3];

    rig_open(&rig, &(struct rpc_server_limits){.buffered_per_identity_max = 5 << 20}, NULL, NULL);
    c = client_connect(&rig, 0, false);
    for (int i = 0; i < 3; i++) { /* each sends 2 MiB of 3 announced */
        static char part[2 << 20];
        struct str parts[2] = {{"\0\0\x30\0\0", 5}, {part, sizeof part}};
        stream[i] = client_start(c, UNARY, NULL, 0);
        CHECK_OK("send", h2_send(c->h2, stream[i], parts, 2));
        rig_client_flush(c);
    }
    rig_run(&rig, 5000);
    CHECK_I64("the third is too much",
              client_answer(c, stream[2])->grpc + client_answer(c, stream[1])->grpc +
                  client_answer(c, stream[0])->grpc,
              GRPC_RESOURCE_EXHAUSTED - 1 - 1);
    CHECK("bounded", held() <= 5 << 20);
    check_neighbour();
    rig_close(&rig);
}

/* Starts a request that stays incomplete, so that the server keeps its `bytes`. */
static int32_t half_a_request(struct client *c, size_t bytes)
{
    static char part[1 << 17];
    struct str parts[2] = {{"\0\0\x30\0\0", 5}, {part, bytes}}; /* 3 MiB are announced */
    int32_t stream = client_start(c, UNARY, NULL, 0);

    CHECK_OK("send", h2_send(c->h2, stream, parts, 2));
    rig_client_flush(c);
    rig_run(&rig, 100);
    return stream;
}

TEST(requests_fill_the_share_of_an_identity_to_the_byte)
{
    static const struct rpc_server_limits of_identity = {.buffered_per_identity_max = 100000},
                                          of_all = {.buffered_max = 100000};
    const struct rpc_server_limits *const limits[] = {&of_identity, &of_all};

    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        struct str one_more = STR("x");
        struct client *c;
        int32_t first, second, third;
        rig_open(&rig, limits[i], NULL, NULL);
        c = client_connect(&rig, 0, false);
        first = half_a_request(c, 60000);
        second = half_a_request(c, 40000);
        CHECK_SIZE("the whole share", held(), 100000);
        CHECK_U64("both wait", client_answer(c, first)->closed + client_answer(c, second)->closed,
                  0);
        third = half_a_request(c, 1);
        CHECK_I64("not a byte more", client_answer(c, third)->grpc, GRPC_RESOURCE_EXHAUSTED);
        CHECK_OK("send", h2_send(c->h2, first, &one_more, 1));
        rig_client_flush(c);
        client_wait_closed(c, first);
        CHECK_I64("nor to a call that waits", client_answer(c, first)->grpc,
                  GRPC_RESOURCE_EXHAUSTED);
        CHECK_SIZE("its buffers are free again", held(), 40000);
        client_wait_closed(c, client_unary(c, UNARY, &ECHO_REQUEST(.text = "words")));
        CHECK_U64("the other still waits", client_answer(c, second)->closed, 0);
        rig_close(&rig);
    }
}

static size_t answer_bytes;

static void give_answer(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                        struct str bytes)
{
    static const char block[200000];

    (void)owner, (void)message, (void)bytes;
    rpc_reply_bytes(call, str_of(block, answer_bytes));
}

static void add_answers(struct rig *r)
{
    static const struct rpc_handler handler = {.on_message = give_answer};

    CHECK_OK("add", rpc_server_add(r->server,
                                   &(struct rpc_method){.path = "/test.Answer/Give",
                                                        .kind = RPC_UNARY,
                                                        .access = {ACCESS_ANYONE},
                                                        .handler = &handler},
                                   NULL));
}

TEST(answers_fill_the_share_of_an_identity_to_the_byte)
{
    struct client *c;
    int32_t stream;

    rig_open(&rig, &(struct rpc_server_limits){.buffered_per_identity_max = 100000}, NULL,
             add_answers);
    c = client_connect(&rig, 0, false);
    c->hold = true; /* 64 KiB are taken, the rest waits */
    answer_bytes = 100000 - GRPC_FRAME_BYTES + 1;
    stream = client_unary(c, "/test.Answer/Give", &ECHO_REQUEST());
    client_wait_closed(c, stream);
    CHECK_I64("a byte too many is not \"was not applied\"", client_answer(c, stream)->grpc,
              GRPC_INTERNAL);
    CHECK_SIZE("and none of it is kept", held(), 0);
    answer_bytes--;
    stream = client_unary(c, "/test.Answer/Give", &ECHO_REQUEST());
    rig_run(&rig, 1000);
    CHECK_SIZE("the whole share", held(), 100000);
    CHECK_U64("it waits for its reader", client_answer(c, stream)->closed, 0);
    c->hold = false;
    h2_consume(c->h2, stream, client_answer(c, stream)->bytes);
    rig_client_flush(c);
    client_wait_closed(c, stream);
    CHECK_I64("and is served", client_answer(c, stream)->grpc, 0);
    CHECK_SIZE("whole", client_answer(c, stream)->bytes, 100000);
    CHECK_SIZE("nothing is kept", held(), 0);
    rig_close(&rig);
}

TEST(streams_past_the_announced_limit_are_refused)
{
    struct client *c;
    struct buf frames;

    rig_open(&rig, &(struct rpc_server_limits){.streams_per_connection_max = 10}, NULL, NULL);
    c = client_connect(&rig, 0, true);
    buf_init(&frames, 1 << 20);
    raw_preface(&frames);
    for (int32_t stream = 1; stream < 100; stream += 2) raw_request(&frames, stream, false);
    client_bytes(c, buf_peek(&frames));
    rig_run(&rig, 100);
    CHECK("no more than ten", rpc_server_stats(rig.server).calls <= 10);
    check_neighbour();
    buf_deinit(&frames);
    rig_close(&rig);
}

/* -- quiet peers -- */

TEST(a_peer_that_vanished_is_found_by_a_ping)
{
    struct client *c;

    rig_open(&rig, &(struct rpc_server_limits){.ping_after_ms = 5000, .ping_timeout_ms = 2000},
             NULL, NULL);
    c = client_connect(&rig, 0, false);
    client_unary(c, UNARY, &ECHO_REQUEST(.delay_ms = 3600000));
    rig_run(&rig, 30000);
    CHECK_U64("one that answers pings stays", rpc_server_stats(rig.server).connections, 1);
    sim_link_block(rig.others[0], rig.host, true);
    sim_link_block(rig.host, rig.others[0], true);
    rig_run(&rig, 8000);
    CHECK_U64("one that does not is gone", rpc_server_stats(rig.server).connections, 0);
    CHECK_U64("with its call", echo_stats(rig.echo).done, 1);
    sim_link_heal_all(rig.sim);
    rig_close(&rig);
}

TEST(an_idle_connection_is_asked_to_leave_when_so_configured)
{
    struct client *c;

    rig_open(&rig, &(struct rpc_server_limits){.idle_timeout_ms = 10000}, NULL, NULL);
    c = client_connect(&rig, 0, false);
    client_unary(c, UNARY, &ECHO_REQUEST(.delay_ms = 15000));
    rig_run(&rig, 14000);
    CHECK("a call under way is not idle", c->open);
    rig_run(&rig, 10000);
    CHECK("nor just after", c->open);
    client_wait_gone(c);
    CHECK_U64("politely", c->goaway_code, 0);
    CHECK("with GOAWAY", c->goaways > 0);
    rig_close(&rig);
}

/* -- draining -- */

TEST(draining_serves_running_calls_and_no_new_ones)
{
    struct client *c;
    int32_t slow, stream, refused = 0;
    struct h2_header none[1];

    rig_open(&rig, NULL, NULL, NULL);
    c = client_connect(&rig, 0, false);
    slow = client_unary(c, UNARY, &ECHO_REQUEST(.delay_ms = 2000));
    stream = client_start(c, BIDI, NULL, 0);
    rig_run(&rig, 10);
    rig_drain(&rig, 30000);
    rig_run(&rig, 100);
    CHECK_U64("two GOAWAYs", c->goaways, 2);
    CHECK_U64("no error", c->goaway_code, 0);
    CHECK_I64("up to the last stream", c->goaway_last, stream);
    CHECK_ERR("no new call", h2_request(c->h2, none, 0, true, &refused), ERR_CLOSED);
    CHECK_OK("the open stream goes on", client_send(c, stream, &ECHO_REQUEST()));
    client_wait_closed(c, slow);
    CHECK_I64("the slow call is answered", client_answer(c, slow)->grpc, 0);
    CHECK("not yet drained", !rig.drained);
    client_end(c, stream);
    client_wait_closed(c, stream);
    CHECK_I64("and the stream", client_answer(c, stream)->grpc, 0);
    client_wait_gone(c);
    rig_run(&rig, 100);
    CHECK("drained", rig.drained);
    rig_close(&rig);
}

TEST(draining_gives_up_in_its_time)
{
    struct client *c;

    rig_open(&rig, NULL, NULL, NULL);
    c = client_connect(&rig, 0, false);
    client_start(c, BIDI, NULL, 0);
    rig_run(&rig, 10);
    rig_drain(&rig, 5000);
    rig_run(&rig, 4900);
    CHECK("it waits", !rig.drained);
    rig_run(&rig, 200);
    CHECK("not longer", rig.drained);
    CHECK("the call is the caller's to cut", c->open);
    rig_close(&rig);
}

TEST(draining_an_idle_server_is_quick)
{
    rig_open(&rig, NULL, NULL, NULL);
    client_connect(&rig, 0, false);
    rig_drain(&rig, 60000);
    rig_run(&rig, 100);
    CHECK("drained", rig.drained);
    rig_close(&rig);
    rig_open(&rig, NULL, NULL, NULL);
    rig_drain(&rig, 60000);
    rig_run(&rig, 10);
    CHECK("without anybody", rig.drained);
    rig_close(&rig);
}
