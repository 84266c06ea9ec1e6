/* SPDX-License-Identifier: Apache-2.0 */
/* Limits against abuse: every limit is reached and answered with GOAWAY on that connection, and
 * requests below it are served. Frames are hand-made; the test sets the time. */
#include <stdlib.h>
#include <string.h>

#include "h2_pair.h"
#include "lib/test.h"

enum { DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE };
enum { UNKNOWN_TYPE = 0xee, PADDED = 8, END_HEADERS = 4, END_STREAM = 1, ACK = 1 };
enum { TCP_PIECE = 16 << 10, WIRE_MAX = 64 << 20, FRAME_SIZE_ERROR = 6 };

static struct h2_pair pair; /* its client sends nothing here */
static struct buf wire;     /* bytes of the misbehaving client */

static void start(const struct h2_limits *limits)
{
    CHECK_OK("open", h2_pair_open(&pair, limits, NULL));
    buf_init(&wire, WIRE_MAX);
    raw_preface(&wire);
}

static void stop(void)
{
    buf_deinit(&wire);
    h2_pair_close(&pair);
}

/* Feeds the frames in pieces as a socket delivers them, and consumes the output, as an owner does.
 * */
static enum err send_wire(void)
{
    struct str rest = buf_peek(&wire);
    struct buf out;
    enum err err = ERR_OK;

    buf_init(&out, WIRE_MAX);
    while (rest.len > 0 && !err) {
        size_t n = min_size(rest.len, TCP_PIECE);
        err = h2_feed(pair.server.h2, str_of(rest.at, n), pair.now);
        rest = str_tail(rest, n);
        if (!err) CHECK_OK("output", h2_take_output(pair.server.h2, SIZE_MAX, &out));
        buf_clear(&out);
    }
    buf_deinit(&out);
    buf_clear(&wire);
    return err;
}

/* The error code of the pending GOAWAY; UINT32_MAX when there is none. */
static uint32_t goaway_code(void)
{
    struct buf out;
    uint32_t code = UINT32_MAX;

    buf_init(&out, WIRE_MAX);
    CHECK_OK("output", h2_take_output(pair.server.h2, SIZE_MAX, &out));
    for (size_t at = 0; at + 9 <= out.len;) {
        const unsigned char *f = (unsigned char *)out.data + at;
        size_t len = (size_t)f[0] << 16 | (size_t)f[1] << 8 | f[2];
        if (f[3] == GOAWAY)
            code = (uint32_t)f[13] << 24 | (uint32_t)f[14] << 16 | (uint32_t)f[15] << 8 | f[16];
        at += 9 + len;
    }
    buf_deinit(&out);
    return code;
}

/* Checks the state after any refusal. */
static void check_denied(const char *why, enum err err)
{
    CHECK_ERR(why, err, ERR_DENIED);
    CHECK("there is something to say", h2_has_output(pair.server.h2));
    CHECK("so it is not over", !h2_is_over(pair.server.h2));
    CHECK_U64(why, goaway_code(), H2_ENHANCE_YOUR_CALM);
    CHECK("then it is over", h2_is_over(pair.server.h2));
    CHECK_ERR("and stays refused", h2_feed(pair.server.h2, STR("x"), pair.now), ERR_DENIED);
}

static void raw_window_update(int32_t stream, uint32_t by)
{
    struct buf payload;

    buf_init(&payload, 4);
    raw_u32(&payload, by);
    raw_frame(&wire, WINDOW_UPDATE, 0, stream, buf_peek(&payload));
    buf_deinit(&payload);
}

static void raw_reset(int32_t stream)
{
    raw_frame(&wire, RST_STREAM, 0, stream, STR("\0\0\0\x08"));
}

/* -- floods: n frames are accepted, one more is not, and after a minute the count starts again --
 * */

static void flood_ping(uint32_t i)
{
    (void)i;
    raw_frame(&wire, PING, 0, 0, STR("12345678"));
}

static void flood_settings(uint32_t i)
{
    (void)i;
    raw_frame(&wire, SETTINGS, 0, 0, STR_EMPTY);
}

static void flood_rapid_reset(uint32_t i)
{
    int32_t stream = (int32_t)(2 * i + 1);

    raw_request(&wire, stream, true);
    raw_reset(stream);
}

static void flood_priority(uint32_t i)
{
    (void)i;
    raw_frame(&wire, PRIORITY, 0, 1, STR("\0\0\0\0\x10"));
}

static void flood_unknown(uint32_t i)
{
    (void)i;
    raw_frame(&wire, UNKNOWN_TYPE, 0, 0, STR("whatever"));
}

static void flood_window(uint32_t i)
{
    (void)i;
    raw_window_update(0, 1);
}

static void flood_empty_data(uint32_t i)
{
    if (i == 0) raw_request(&wire, 1, false);
    raw_frame(&wire, DATA, 0, 1, STR_EMPTY);
}

static void flood_padding(uint32_t i)
{
    if (i == 0) raw_request(&wire, 1, false);
    raw_frame(&wire, DATA, PADDED, 1, STR("\3\0\0\0"));
}

static void flood_dead_resets(uint32_t i)
{
    if (i == 0) {
        raw_request(&wire, 1, false);
        raw_reset(1);
    }
    raw_reset(1);
}

static void flood_idle_resets(uint32_t i)
{
    if (i == 0) raw_request(&wire, 1, false);
    raw_reset((int32_t)(2 * i + 3));
}

static void flood_goaway(uint32_t i)
{
    if (i == 0)
        raw_request(&wire, 1,
                    false); /* without a stream the first GOAWAY would end the connection */
    raw_frame(&wire, GOAWAY, 0, 0, STR("\0\0\0\0\0\0\0\0"));
}

static const struct {
    const char *why;
    void (*one)(uint32_t i);
    uint32_t limit; /* with the limits below */
} floods[] = {
    {"pings", flood_ping, 50},
    {"settings, and one was the first", flood_settings, 39},
    {"streams opened and reset", flood_rapid_reset, 70},
    {"PRIORITY", flood_priority, 60},
    {"unknown frame types", flood_unknown, 60},
    {"window updates for nothing", flood_window, 60},
    {"empty DATA", flood_empty_data, 60},
    {"DATA that is all padding", flood_padding, 60},
    {"resets of a stream that is gone", flood_dead_resets, 60},
    {"resets of streams that never were", flood_idle_resets, 60},
    {"GOAWAY without end", flood_goaway, 60},
};
static const struct h2_limits low = {.pings_per_minute_max = 50,
                                     .settings_per_minute_max = 40,
                                     .resets_per_minute_max = 70,
                                     .idle_frames_per_minute_max = 60};

TEST(every_flood_is_borne_up_to_its_limit_and_answered_past_it)
{
    for (size_t i = 0; i < ARRAY_LEN(floods); i++) {
        uint32_t n = floods[i].limit;
        start(&low);
        for (uint32_t j = 0; j < n; j++) floods[i].one(j);
        CHECK_OK(floods[i].why, send_wire());
        floods[i].one(n);
        check_denied(floods[i].why, send_wire());
        stop();
    }
}

TEST(the_next_minute_starts_a_new_count)
{
    for (size_t i = 0; i < ARRAY_LEN(floods); i++) {
        uint32_t next = 0, n = floods[i].limit;
        start(&low);
        for (int minute = 0; minute < 3; minute++) {
            for (uint32_t j = 0; j < n; j++) floods[i].one(next++);
            CHECK_OK(floods[i].why, send_wire());
            pair.now.ms += 60000;
        }
        stop();
    }
}

/* The whole flood in one piece: the connection stops in the middle, and its queued output is
 * bounded. */
TEST(flood_in_one_piece_is_stopped_inside_it)
{
    for (size_t i = 0; i < ARRAY_LEN(floods); i++) {
        start(&low);
        for (uint32_t j = 0; j < 20000; j++) floods[i].one(j % (SEEN_MAX - 1));
        CHECK_ERR(floods[i].why, h2_feed(pair.server.h2, buf_peek(&wire), pair.now), ERR_DENIED);
        CHECK(floods[i].why, h2_memory(pair.server.h2) < 200000);
        CHECK_U64(floods[i].why, goaway_code(), H2_ENHANCE_YOUR_CALM);
        stop();
    }
}

TEST(pings_between_data_are_keep_alive)
{
    start(&low);
    raw_request(&wire, 1, false);
    for (uint32_t i = 0; i < 1000; i++) {
        flood_ping(i);
        if (i % 40 == 0) raw_frame(&wire, DATA, 0, 1, STR("beat"));
    }
    CHECK_OK("accepted", send_wire());
    stop();
}

TEST(resets_of_answered_calls_are_ordinary)
{
    int32_t most = 5 * (int32_t)low.resets_per_minute_max;

    start(&low);
    h2_echo(&pair.server);
    for (int32_t i = 0; i <= most; i++) {
        raw_request(&wire, 2 * i + 1, false);
        CHECK_OK("request", send_wire());
        raw_reset(2 * i + 1);
        CHECK_ERR("cancelled after its answer began", send_wire(), i < most ? ERR_OK : ERR_DENIED);
    }
    stop();
}

TEST(window_updates_that_data_calls_for_are_ordinary)
{
    struct str part = STR("some data");

    start(&low);
    raw_request(&wire, 1, false);
    CHECK_OK("request", send_wire());
    CHECK_OK("answer", h2_answer(&pair.server, 1));
    for (int i = 0; i < 500; i++) {
        CHECK_OK("data", h2_send(pair.server.h2, 1, &part, 1));
        raw_window_update(0, 9);
        raw_window_update(1, 9);
        CHECK_OK("updates", send_wire());
    }
    stop();
}

/* nghttp2's own limit would apply at 1,000, by the machine's clock. */
TEST(only_muster_limits_resets)
{
    start(&(struct h2_limits){.resets_per_minute_max = 3000});
    for (uint32_t i = 0; i < 3000; i++) flood_rapid_reset(i);
    CHECK_OK("accepted", send_wire());
    flood_rapid_reset(3000);
    check_denied("one more", send_wire());
    stop();
}

/* A peer that causes resets, with frames that break a stream. */
TEST(streams_broken_on_purpose_count_as_reset)
{
    enum err err = ERR_OK;
    int32_t i;

    start(&low);
    for (i = 0; i < 1000 && !err; i++) {
        raw_request(&wire, 2 * i + 1, false);
        raw_window_update(2 * i + 1, INT32_MAX); /* beyond the largest window */
        err = send_wire();
    }
    CHECK("at the limit of resets, roughly", i >= 69 && i <= 72);
    check_denied("broken streams", err);
    stop();
}

TEST(acknowledgements_a_peer_never_reads_are_bounded)
{
    size_t most = 0;
    enum err err = ERR_OK;

    start(&(struct h2_limits){.pings_per_minute_max = UINT32_MAX});
    while (!err) { /* nothing is taken */
        for (uint32_t i = 0; i < 100; i++) flood_ping(i);
        err = h2_feed(pair.server.h2, buf_peek(&wire), pair.now);
        buf_clear(&wire);
        most = max_size(most, h2_memory(pair.server.h2));
        CHECK("bounded", most < 1 << 20);
    }
    CHECK_ERR("it ends", err, ERR_DENIED);
    stop();
}

/* -- header blocks -- */

static void raw_headers(int32_t stream, size_t fields, size_t value_len, const char *name)
{
    struct buf block;
    char *value = calloc(1, value_len + 1);

    memset(value, 'v', value_len);
    buf_init(&block, WIRE_MAX);
    raw_field(&block, STR(":method"), STR("POST"));
    raw_field(&block, STR(":scheme"), STR("http"));
    raw_field(&block, STR(":path"), STR("/a.B/C"));
    raw_field(&block, STR(":authority"), STR("x"));
    for (size_t i = 0; i < fields; i++) raw_field(&block, str_from(name), str_of(value, value_len));
    for (size_t at = 0; at < block.len || at == 0;) {
        size_t n = min_size(block.len - at, 16 << 10);
        bool last = at + n == block.len;
        raw_frame(&wire, at == 0 ? HEADERS : 9, last ? END_HEADERS : 0, stream,
                  str_of(block.data + at, n));
        at += n;
    }
    free(value);
    buf_deinit(&block);
}

static const struct {
    const char *why;
    size_t fields, value_len;
    const char *name;
    bool reported;
    enum err err;
} block_cases[] = {
    {"a few", 10, 10, "k", true, ERR_OK},
    {"up to the number of fields", 16, 10, "k", true, ERR_OK},
    {"one field more", 17, 10, "k", false, ERR_OK},
    {"up to the bytes", 4, 2000, "k", true, ERR_OK},
    {"more bytes", 5, 2000, "k", false, ERR_OK},
    {"several times over", 16, 2000, "k", false, ERR_OK},
    {"a bomb", 30, 2000, "k", false, ERR_DENIED},
    {"upper case in a name", 1, 5, "Key", false, ERR_OK},
    {"a header of HTTP/1", 1, 5, "connection", false, ERR_OK},
    {"a blank in a name", 1, 5, "a b", false, ERR_OK},
};

TEST(header_blocks_within_limits_are_reported_others_end_their_stream)
{
    for (size_t i = 0; i < ARRAY_LEN(block_cases); i++) {
        enum err err;
        start(&(struct h2_limits){.headers_max = 20, .header_bytes_max = 9000});
        raw_headers(1, block_cases[i].fields, block_cases[i].value_len, block_cases[i].name);
        err = send_wire();
        CHECK_ERR(block_cases[i].why, err, block_cases[i].err);
        CHECK_U64(block_cases[i].why, pair.server.reported, block_cases[i].reported);
        CHECK_U64("an unreported stream is not closed", h2_peer_seen(&pair.server, 1)->closed, 0);
        if (!err) {
            raw_request(&wire, 3, true);
            CHECK_OK("the connection goes on", send_wire());
            CHECK_U64(block_cases[i].why, h2_peer_seen(&pair.server, 3)->headers, 1);
        } else {
            check_denied(block_cases[i].why, err);
        }
        stop();
    }
}

/* Fields as "name=value"; the body, if any, follows in one frame, then trailers, if any. */
static const struct {
    const char *why, *fields[7], *body, *trailer;
    bool reported, whole;
} request_cases[] = {
#define USUAL ":method=POST", ":scheme=http", ":path=/a"
    {"the usual", {USUAL, ":authority=h:1"}, NULL, NULL, true, true},
    {"an authority of etcdctl's",
     {USUAL, ":authority=http://127.0.0.1:2379"},
     NULL,
     NULL,
     true,
     true},
    {"of clientv3 3.5", {USUAL, ":authority=#initially=[h:1;h:2]"}, NULL, NULL, true, true},
    {"an empty one", {USUAL, ":authority="}, NULL, NULL, true, true},
    {"one that is no value", {USUAL, ":authority=a\nb"}, NULL, NULL, false, false},
    {"a host instead", {USUAL, "host=h"}, NULL, NULL, true, true},
    {"neither", {USUAL}, NULL, NULL, false, false},
    {"two", {USUAL, ":authority=h", ":authority=h"}, NULL, NULL, false, false},
    {"no method", {":scheme=http", ":path=/a", ":authority=h"}, NULL, NULL, false, false},
    {"no scheme", {":method=GET", ":path=/a", ":authority=h"}, NULL, NULL, false, false},
    {"no path", {":method=GET", ":scheme=http", ":authority=h"}, NULL, NULL, false, false},
    {"an empty path",
     {":method=GET", ":scheme=http", ":path=", ":authority=h"},
     NULL,
     NULL,
     false,
     false},
    {"a path that is none",
     {":method=GET", ":scheme=http", ":path=a", ":authority=h"},
     NULL,
     NULL,
     false,
     false},
    {"a star",
     {":method=GET", ":scheme=http", ":path=*", ":authority=h"},
     NULL,
     NULL,
     false,
     false},
    {"a star for options",
     {":method=OPTIONS", ":scheme=http", ":path=*", ":authority=h"},
     NULL,
     NULL,
     true,
     true},
    {"a method that is none",
     {":method=P ST", ":scheme=http", ":path=/a", ":authority=h"},
     NULL,
     NULL,
     false,
     false},
    {"connect", {":method=CONNECT", ":authority=h"}, NULL, NULL, true, true},
    {"connect with a path",
     {":method=CONNECT", ":scheme=http", ":path=/a", ":authority=h"},
     NULL,
     NULL,
     false,
     false},
    {"an unknown pseudo field", {USUAL, ":authority=h", ":odd=x"}, NULL, NULL, false, false},
    {"a status", {USUAL, ":authority=h", ":status=200"}, NULL, NULL, false, false},
    {"a pseudo field late", {USUAL, "k=v", ":authority=h"}, NULL, NULL, false, false},
    {"te", {USUAL, ":authority=h", "te=trailers"}, NULL, NULL, true, true},
    {"another te", {USUAL, ":authority=h", "te=gzip"}, NULL, NULL, false, false},
    {"an upgrade", {USUAL, ":authority=h", "upgrade=x"}, NULL, NULL, false, false},
    {"a body", {USUAL, ":authority=h", "content-length=4"}, "body", NULL, true, true},
    {"a longer one", {USUAL, ":authority=h", "content-length=3"}, "body", NULL, true, false},
    {"a shorter one", {USUAL, ":authority=h", "content-length=5"}, "body", NULL, true, false},
    {"a length of nothing", {USUAL, ":authority=h", "content-length=1"}, NULL, NULL, false, false},
    {"two lengths",
     {USUAL, ":authority=h", "content-length=4", "content-length=4"},
     "body",
     NULL,
     false,
     false},
    {"no length", {USUAL, ":authority=h", "content-length=-4"}, "body", NULL, false, false},
    {"trailers", {USUAL, ":authority=h"}, "body", "k=v", true, true},
    {"trailers of a short body",
     {USUAL, ":authority=h", "content-length=5"},
     "body",
     "k=v",
     true,
     false},
    {"a pseudo field in trailers", {USUAL, ":authority=h"}, "body", ":path=/a", true, false},
};

static void raw_text(struct buf *block, const char *text)
{
    struct str rest = str_from(text), name, head;
    size_t colon = text[0] == ':';

    head = str_tail(rest, colon);
    (void)str_split(&head, '=', &name);
    raw_field(block, str_of(text, name.len + colon), str_tail(rest, name.len + colon + 1));
}

TEST(requests_are_judged_as_http_2_wants_but_for_their_authority)
{
    for (size_t i = 0; i < ARRAY_LEN(request_cases); i++) {
        const char *body = request_cases[i].body, *trailer = request_cases[i].trailer;
        struct buf block;

        start(NULL);
        buf_init(&block, WIRE_MAX);
        for (size_t at = 0; at < 7 && request_cases[i].fields[at]; at++)
            raw_text(&block, request_cases[i].fields[at]);
        raw_frame(&wire, HEADERS, (uint8_t)(END_HEADERS | (body ? 0 : END_STREAM)), 1,
                  buf_peek(&block));
        if (body) raw_frame(&wire, DATA, trailer ? 0 : END_STREAM, 1, str_from(body));
        buf_clear(&block);
        if (trailer) raw_text(&block, trailer);
        if (trailer) raw_frame(&wire, HEADERS, END_HEADERS | END_STREAM, 1, buf_peek(&block));
        CHECK_OK(request_cases[i].why, send_wire());
        CHECK_U64(request_cases[i].why, h2_peer_seen(&pair.server, 1)->headers,
                  request_cases[i].reported);
        CHECK_U64(request_cases[i].why,
                  h2_peer_seen(&pair.server, 1)->ends || (request_cases[i].reported && !body),
                  request_cases[i].whole);
        raw_request(&wire, 3, true);
        CHECK_OK("the connection goes on", send_wire());
        CHECK_U64(request_cases[i].why, h2_peer_seen(&pair.server, 3)->headers, 1);
        buf_deinit(&block);
        stop();
    }
}

/* One long entry in the header table, and then one byte per reference: 16 KiB that decode to 64
 * MiB. */
TEST(header_bomb_by_reference_is_stopped_and_costs_nothing)
{
    char value[4000];
    struct buf block;

    memset(value, 'b', sizeof value);
    start(NULL);
    buf_init(&block, 16 << 10);
    buf_append_byte(&block, 0x40); /* literal, kept in the table */
    buf_append_c(&block, "\x01x\x7f");
    buf_append_byte(&block, (char)((sizeof value - 127) % 128 + 128));
    buf_append_byte(&block, (char)((sizeof value - 127) / 128));
    buf_append(&block, str_of(value, sizeof value));
    while (block.len < 16 << 10) buf_append_byte(&block, (char)(0x80 | 62));
    /* Pseudo-headers must come first; the static table has them. */
    {
        struct buf whole;
        buf_init(&whole, 16 << 10);
        buf_append_c(&whole, "\x83\x86\x84");
        buf_append(&whole, str_of(block.data, (16 << 10) - 3));
        raw_frame(&wire, HEADERS, END_HEADERS | END_STREAM, 1, buf_peek(&whole));
        buf_deinit(&whole);
    }
    check_denied("bomb", send_wire());
    CHECK("almost no memory", h2_memory(pair.server.h2) < 50000);
    CHECK_U64("not reported", pair.server.reported, 0);
    buf_deinit(&block);
    stop();
}

/* Found by the property test: nghttp2 counted the pieces of a header block as frames. */
TEST(long_header_block_may_come_byte_by_byte)
{
    start(NULL);
    raw_headers(1, 27, 2000, "k");
    pair.piece_max = 1;
    CHECK_OK("fed", h2_pair_feed(&pair, &pair.server, buf_peek(&wire)));
    CHECK_U64("54 KiB in four frames", pair.server.reported, 1);
    stop();
}

TEST(header_block_without_end_is_stopped)
{
    enum err err = ERR_OK;
    int i;

    start(NULL);
    raw_frame(&wire, HEADERS, 0, 1, STR("\x83\x86\x84"));
    for (i = 0; i < 1000 && !err; i++) {
        raw_frame(&wire, 9, 0, 1, STR_EMPTY);
        err = send_wire();
    }
    CHECK_I64("soon", i, 17);
    check_denied("without end", err);
    CHECK_U64("not reported", pair.server.reported, 0);
    stop();
}

/* -- the protocol itself -- */

static const struct {
    const char *why;
    struct str bytes;
} broken[] = {
    {"HTTP/1", {"GET / HTTP/1.1\r\nhost: a\r\n\r\n", 27}},
    {"no SETTINGS first", {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x08\x06\0\0\0\0\0abcdefgh", 41}},
    {"a frame too long",
     {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0\xff\xff\xff\0\0\0\0\0\1", 42}},
    {"data on an idle stream",
     {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0\0\0\1\0\0\0\0\0\1x", 43}},
    {"an even stream",
     {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0\0\0\1\1\4\0\0\0\2\x82", 43}},
    {"header bytes that decode to nothing",
     {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0\0\0\1\1\4\0\0\0\1\xff", 43}},
    {"a push from a client",
     {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0\0\0\4\5\4\0\0\0\1\0\0\0\2", 46}},
};

TEST(protocol_errors_end_with_goaway_and_then_it_is_over)
{
    for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
        enum err err;
        start(NULL);
        err = h2_feed(pair.server.h2, broken[i].bytes, pair.now);
        CHECK(broken[i].why, err == ERR_OK || err == ERR_DENIED);
        CHECK(broken[i].why, goaway_code() != UINT32_MAX);
        CHECK(broken[i].why, h2_is_over(pair.server.h2));
        CHECK_U64("nothing was reported", pair.server.reported, 0);
        stop();
    }
}

static size_t flood_memory(uint32_t memory_max, enum err *ret_err)
{
    struct h2_limits limits = {.memory_max = memory_max,
                               .output_max = 1000,
                               .stream_output_max = 1000,
                               .streams_max = 100000};
    size_t most = 0;
    enum err err = ERR_OK;

    start(&limits);
    for (int32_t i = 0; i < SEEN_MAX && !err; i++) { /* streams that stay open */
        raw_request(&wire, 2 * i + 1, false);
        err = h2_feed(pair.server.h2, buf_peek(&wire), pair.now);
        buf_clear(&wire);
        most = max_size(most, h2_memory(pair.server.h2));
    }
    *ret_err = err;
    stop();
    return most;
}

TEST(memory_of_one_connection_has_a_ceiling)
{
    enum err err;

    CHECK("more than is allowed next", flood_memory(16 << 20, &err) > 500000);
    CHECK_OK("4,096 streams fit the default", err);
    CHECK("held", flood_memory(300000, &err) < 301000);
    CHECK_ERR("and refused", err, ERR_DENIED);
}

/* -- a client against its server -- */

TEST(client_drops_a_server_that_floods_or_pushes)
{
    struct h2_peer *client = &pair.client;
    int32_t stream;

    CHECK_OK("open", h2_pair_open(&pair, NULL, &low));
    buf_init(&wire, WIRE_MAX);
    CHECK_OK("request", h2_call(client, "/a.B/C", true, &stream));
    raw_frame(&wire, SETTINGS, 0, 0, STR_EMPTY);
    for (uint32_t i = 0; i < 51; i++) flood_ping(i);
    CHECK_ERR("pings", h2_feed(client->h2, buf_peek(&wire), pair.now), ERR_DENIED);
    CHECK_ERR("no more calls", h2_call(client, "/a.B/C", true, &stream), ERR_CLOSED);
    stop();
}

TEST(interim_answers_are_dropped_and_the_real_one_is_reported)
{
    struct h2_peer *client = &pair.client;
    struct buf out;
    int32_t stream;

    CHECK_OK("open", h2_pair_open(&pair, NULL, NULL));
    buf_init(&wire, WIRE_MAX);
    buf_init(&out, WIRE_MAX);
    CHECK_OK("request", h2_call(client, "/a.B/C", true, &stream));
    CHECK_OK("goes out", h2_take_output(client->h2, SIZE_MAX, &out));
    raw_frame(&wire, SETTINGS, 0, 0, STR_EMPTY);
    raw_frame(&wire, HEADERS, END_HEADERS, 1, STR("\0\7:status\003100"));
    raw_frame(&wire, HEADERS, END_HEADERS, 1, STR("\0\7:status\003103"));
    raw_frame(&wire, HEADERS, END_HEADERS, 1, STR("\x88"));
    raw_frame(&wire, HEADERS, END_HEADERS | END_STREAM, 1, STR("\0\013grpc-status\0010"));
    CHECK_OK("fed", h2_feed(client->h2, buf_peek(&wire), pair.now));
    CHECK_U64("one answer", h2_peer_seen(client, 1)->headers, 1);
    CHECK_TEXT("the last", h2_peer_seen(client, 1)->status, "200");
    CHECK_U64("and its trailers", h2_peer_seen(client, 1)->trailers, 1);
    CHECK_U64("closed", h2_peer_seen(client, 1)->closed, 1);
    buf_deinit(&out);
    stop();
}

TEST(trailers_of_a_request_are_its_end)
{
    start(NULL);
    raw_request(&wire, 1, false);
    raw_frame(&wire, DATA, 0, 1, STR("body"));
    raw_frame(&wire, HEADERS, END_HEADERS | END_STREAM, 1, STR("\0\1k\1v"));
    CHECK_OK("fed", send_wire());
    CHECK_U64("the end", h2_peer_seen(&pair.server, 1)->ends, 1);
    CHECK_U64("no headers again", h2_peer_seen(&pair.server, 1)->headers, 1);
    stop();
}

TEST(headers_on_a_stream_the_peer_has_ended_itself_end_the_connection)
{
    start(NULL);
    raw_request(&wire, 1, false);
    raw_reset(1);
    CHECK_OK("its own reset", send_wire());
    raw_request(&wire, 1, true);
    CHECK("then it sent again", send_wire() == ERR_DENIED);
    CHECK_U64("STREAM_CLOSED", goaway_code(), H2_STREAM_CLOSED);
    stop();
}

/* gRPC's C core sends this for a call that is cancelled before its headers were sent. */
TEST(resets_of_streams_that_were_never_opened_are_passed_over_however_they_are_cut)
{
    for (size_t piece = 1; piece < 40; piece++) {
        struct str rest;

        start(NULL);
        raw_request(&wire, 1, false);
        raw_reset(3);
        raw_frame(&wire, DATA, END_STREAM, 1, STR("body"));
        raw_reset(5);
        raw_reset(9);
        raw_request(&wire, 11, true);
        raw_reset(13);
        for (rest = buf_peek(&wire); rest.len > 0; rest = str_tail(rest, min_size(piece, rest.len)))
            CHECK_OK("fed",
                     h2_feed(pair.server.h2, str_of(rest.at, min_size(piece, rest.len)), pair.now));
        CHECK_U64("nobody goes away", goaway_code(), UINT32_MAX);
        CHECK_U64("the call that was there goes on", h2_peer_seen(&pair.server, 1)->ends, 1);
        CHECK_U64("and another is received", h2_peer_seen(&pair.server, 11)->headers, 1);
        CHECK_U64("those that never were are not reported", pair.server.reported, 2);
        buf_clear(&wire);
        raw_request(&wire, 13, true);
        CHECK("a number that is spent does not come back", send_wire() == ERR_DENIED);
        CHECK_U64("STREAM_CLOSED", goaway_code(), H2_STREAM_CLOSED);
        stop();
    }
}

/* Other clients share no such connection, or the frame cannot be that client's mistake. */
TEST(other_frames_on_idle_streams_end_the_connection)
{
    static const struct {
        const char *why;
        bool open; /* a stream is */
        uint8_t type;
        int32_t stream;
        struct str payload;
        uint32_t code;
    } cases[] = {
        {"a reset before any stream", false, RST_STREAM, 1, {"\0\0\0\x08", 4}, H2_PROTOCOL_ERROR},
        {"of a stream of ours", true, RST_STREAM, 2, {"\0\0\0\x08", 4}, H2_PROTOCOL_ERROR},
        {"of none", true, RST_STREAM, 0, {"\0\0\0\x08", 4}, H2_PROTOCOL_ERROR},
        {"too long", true, RST_STREAM, 3, {"\0\0\0\x08\0", 5}, FRAME_SIZE_ERROR},
        {"data", true, DATA, 3, {"x", 1}, H2_PROTOCOL_ERROR},
        {"a window", true, WINDOW_UPDATE, 3, {"\0\0\0\1", 4}, H2_PROTOCOL_ERROR},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        start(NULL);
        if (cases[i].open) raw_request(&wire, 1, false);
        raw_frame(&wire, cases[i].type, 0, cases[i].stream, cases[i].payload);
        (void)h2_feed(pair.server.h2, buf_peek(&wire), pair.now);
        CHECK_U64(cases[i].why, goaway_code(), cases[i].code);
        stop();
    }
}

TEST(headers_that_crossed_our_own_reset_are_passed_over)
{
    start(NULL);
    raw_request(&wire, 1, false);
    CHECK_OK("open", send_wire());
    h2_reset(pair.server.h2, 1, H2_CANCEL);
    CHECK_U64("a reset is no end of all", goaway_code(), UINT32_MAX);
    raw_frame(&wire, HEADERS, END_HEADERS | END_STREAM, 1, STR("\0\1k\1v"));
    raw_request(&wire, 3, true);
    CHECK_OK("it could not know", send_wire());
    CHECK_U64("and goes on", h2_peer_seen(&pair.server, 3)->headers, 1);
    stop();
}
