/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of open calls: the end of a connection with many calls, their metadata, unread answers,
 * incomplete requests. The tests count steps, bytes and virtual time, never the machine's speed. */
#include <string.h>

#include "../wire/h2_pair.h" /* frames by hand */
#include "lib/test.h"
#include "rig.h"

#define UNARY "/muster.test.v1.Echo/Unary"
#define BIDI  "/muster.test.v1.Echo/Bidi"
#define OPEN  "/test.Open/Stream"
#define HELD  "/test.Open/Held"
#define NOTED "/test.Open/Noted"

enum {
    CALLS_PER_TURN_MAX = 128, /* of a teardown */
    STREAMS_DEFAULT = 1000,
    TURNS_MAX = 4096,
};

static struct rig rig;

static struct rpc_server_stats stats(void)
{
    return rpc_server_stats(rig.server);
}

/* -- a service with streams that stay open; it counts their ends by turn of the loop -- */

static struct {
    uint64_t done, turn, in_turn, most_in_turn, turns, not_gone, wrong_peer;
    uint32_t connections_least;
    struct rpc_call *sibling;
} ends;

static void on_open(void *service, struct rpc_call *call)
{
    (void)service;
    ends.sibling = call;
}

static void on_open_message(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                            struct str bytes)
{
    (void)service, (void)call, (void)message, (void)bytes;
}

static void on_held_open(void *service, struct rpc_call *call)
{
    (void)service;
    rpc_pause(call);
}

static void on_reported_start(void *service, struct rpc_call *call)
{
    (void)service;
    CHECK_OK("a first answer", rpc_send_bytes(call, STR("first")));
}

static void on_open_done(void *service, struct rpc_call *call)
{
    uint64_t turn = loop_stats(sim_host_io(rig.host)->loop).turns;

    (void)service;
    ends.turns += ends.done == 0 || turn != ends.turn;
    ends.in_turn = turn == ends.turn ? ends.in_turn + 1 : 1;
    ends.most_in_turn = ends.in_turn > ends.most_in_turn ? ends.in_turn : ends.most_in_turn;
    ends.turn = turn;
    ends.done++;
    ends.wrong_peer += rpc_call_peer(call)[0] == '\0';
    if (stats().connections < ends.connections_least) ends.connections_least = stats().connections;
    if (rpc_send_bytes(call, STR("late")) != ERR_CLOSED) ends.not_gone++;
}

static void add_open(struct rig *r)
{
    static const struct rpc_handler open = {
        .on_start = on_open, .on_message = on_open_message, .on_done = on_open_done};
    static const struct rpc_handler held = {.on_start = on_held_open,
                                            .on_message = on_open_message};
    static const struct rpc_handler reported = {.on_start = on_reported_start,
                                                .on_message = on_open_message};
    const struct {
        const char *path;
        const struct rpc_handler *handler;
    } methods[] = {{OPEN, &open}, {HELD, &held}, {NOTED, &reported}};

    memset(&ends, 0, sizeof ends);
    ends.connections_least = UINT32_MAX;
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        CHECK_OK("add", rpc_server_add(r->server,
                                       &(struct rpc_method){.path = methods[i].path,
                                                            .kind = RPC_BIDI,
                                                            .access = {ACCESS_ANYONE},
                                                            .handler = methods[i].handler},
                                       NULL));
}

static void raw_headers(struct buf *out, int32_t stream, const char *path, struct str more,
                        bool end)
{
    struct buf block;

    buf_init(&block, 1 << 17);
    raw_field(&block, STR(":method"), STR("POST"));
    raw_field(&block, STR(":scheme"), STR("http"));
    raw_field(&block, STR(":path"), str_from(path));
    raw_field(&block, STR(":authority"), STR("x"));
    raw_field(&block, STR("content-type"), STR("application/grpc"));
    CHECK_OK("room", buf_append(&block, more));
    raw_frame(out, 1, end ? 5 : 4, stream, buf_peek(&block));
    buf_deinit(&block);
}

/* Sends in pieces that the connection accepts. */
static void pour(struct client *c, struct buf *frames)
{
    for (size_t at = 0; at < frames->len; at += 16384) {
        client_bytes(c, str_of(frames->data + at, min_size(16384, frames->len - at)));
        rig_run(&rig, 2);
    }
    buf_clear(frames);
}

static void open_raw(struct client *c, const char *path, int32_t count, struct buf *frames)
{
    raw_preface(frames);
    for (int32_t i = 0; i < count; i++) raw_headers(frames, 2 * i + 1, path, STR_EMPTY, false);
    pour(c, frames);
}

static void check_served(void)
{
    struct client *c = &rig.clients[3];
    int32_t stream;

    if (!c->stream) c = client_connect(&rig, 3, false);
    stream = client_unary(c, UNARY, &ECHO_REQUEST());
    client_wait_closed(c, stream);
    CHECK_I64("the neighbour is served", client_answer(c, stream)->grpc, 0);
}

/* -- the end of a connection -- */

static void hang_up(uint32_t streams, size_t connections)
{
    struct buf frames;
    uint64_t calls = (uint64_t)streams * connections;

    rig_open(&rig, &(struct rpc_server_limits){.streams_per_connection_max = streams}, NULL,
             add_open);
    buf_init(&frames, 8 << 20);
    for (size_t i = 0; i < connections; i++) {
        client_connect(&rig, i, true);
        open_raw(&rig.clients[i], OPEN, (int32_t)streams, &frames);
    }
    CHECK_U64("all are open", stats().calls, calls);
    for (size_t i = 0; i < connections; i++) stream_close(rig.clients[i].stream);
    rig_run(&rig, 1000);
    CHECK_U64("each handler was notified once", ends.done, calls);
    CHECK_U64("nobody could answer", ends.not_gone, 0);
    CHECK_U64("the caller was still known", ends.wrong_peer, 0);
    CHECK_U64("no call is left", stats().calls, 0);
    CHECK_U64("no connection is left", stats().connections, 0);
    CHECK("a bounded number of calls in a turn", ends.most_in_turn <= CALLS_PER_TURN_MAX);
    CHECK("so it took many turns", ends.turns >= calls / CALLS_PER_TURN_MAX);
    CHECK_U64("a connection counts until its last call is over", ends.connections_least, 1);
    check_served();
    buf_deinit(&frames);
    rig_close(&rig);
}

TEST(the_end_of_a_connection_with_many_calls_is_linear_and_comes_in_slices)
{
    hang_up(500, 1);
    hang_up(2000, 1);
    hang_up(8000, 1);
    hang_up(2000, 3);
}

TEST(a_server_that_closes_ends_its_calls_in_slices_too)
{
    struct buf frames;

    rig_open(&rig, NULL, NULL, add_open);
    buf_init(&frames, 1 << 20);
    client_connect(&rig, 0, true);
    open_raw(&rig.clients[0], OPEN, STREAMS_DEFAULT, &frames);
    rig_close_server(&rig);
    CHECK_U64("each handler was notified once", ends.done, STREAMS_DEFAULT);
    CHECK("a bounded number of calls in a turn", ends.most_in_turn <= CALLS_PER_TURN_MAX);
    buf_deinit(&frames);
    rig_close(&rig);
}

TEST(a_connection_has_at_most_1000_streams_by_default)
{
    struct client *c;
    struct buf frames;

    rig_open(&rig, NULL, NULL, add_open);
    buf_init(&frames, 1 << 20);
    c = client_connect(&rig, 0, false);
    CHECK_SIZE("announced", h2_requests_max(c->h2), STREAMS_DEFAULT);
    client_close(c);
    c = client_connect(&rig, 0, true);
    open_raw(c, OPEN, STREAMS_DEFAULT + 500, &frames);
    CHECK_U64("and enforced", stats().calls, STREAMS_DEFAULT);
    CHECK("those past it are refused, the connection stays", c->open);
    buf_deinit(&frames);
    rig_close(&rig);
}

/* A connection is blocked while a large answer waits. Each time it recovers, the server visits only
 * calls with pending input. */
TEST(an_answer_that_is_read_costs_no_walk_over_the_open_calls)
{
    enum { IDLE = 900, TIMES = 20 };
    struct client *c;

    rig_open(&rig,
             &(struct rpc_server_limits){.output_max = 64 << 10, .stream_output_max = 16 << 10},
             NULL, add_open);
    c = client_connect(&rig, 0, false);
    for (int i = 0; i < IDLE; i++) client_start(c, OPEN, NULL, 0);
    rig_run(&rig, 100);
    for (int i = 0; i < TIMES; i++) {
        int32_t stream = client_unary(c, UNARY, &ECHO_REQUEST(.response_bytes = 1 << 20));
        client_wait_closed(c, stream);
        CHECK_SIZE("whole", client_answer(c, stream)->bytes > 1 << 20, true);
    }
    CHECK("looks", stats().unchoked <= TIMES);
    rig_close(&rig);
}

TEST(requests_that_came_while_their_connection_was_choked_are_answered)
{
    enum { MORE = 50 };
    struct client *c;
    int32_t large, small[MORE];

    rig_open(&rig,
             &(struct rpc_server_limits){.output_max = 64 << 10, .stream_output_max = 16 << 10},
             NULL, NULL);
    c = client_connect(&rig, 0, false);
    c->hold = true;
    large = client_unary(c, UNARY, &ECHO_REQUEST(.response_bytes = 1 << 20));
    rig_run(&rig, 100);
    for (int i = 0; i < MORE; i++) small[i] = client_unary(c, UNARY, &ECHO_REQUEST());
    rig_run(&rig, 1000);
    CHECK_U64("they wait", client_answer(c, small[MORE - 1])->closed, 0);
    c->hold = false;
    h2_consume(c->h2, large, client_answer(c, large)->bytes);
    rig_client_flush(c);
    client_wait_closed(c, large);
    for (int i = 0; i < MORE; i++) {
        client_wait_closed(c, small[i]);
        CHECK_I64("answered", client_answer(c, small[i])->grpc, 0);
    }
    CHECK("each was looked at", stats().unchoked >= MORE);
    rig_close(&rig);
}

/* -- metadata -- */

enum { VALUE = 3900, REFERENCES = 15, PER_CALL = REFERENCES * (VALUE + 1) };

/* The first request puts a long entry into the header table; each request refers to the entry 15
 * times, with one byte each. */
static void metadata_by_reference(struct buf *frames, int32_t stream)
{
    char more[VALUE + 64], refers[REFERENCES];
    struct buf fields;

    buf_init(&fields, sizeof more);
    memset(refers, '\xbe', sizeof refers);
    if (stream == 1) {
        char value[VALUE];
        memset(value, 'v', sizeof value);
        CHECK_OK("a field that is kept", buf_append(&fields, STR("\x40\x01x\x7f")));
        for (size_t left = VALUE - 127;; left >>= 7) {
            CHECK_OK(
                "its length",
                buf_append_byte(&fields, (char)(uint8_t)((left & 127) | (left > 127 ? 128u : 0))));
            if (left <= 127) break;
        }
        CHECK_OK("its value", buf_append(&fields, str_of(value, sizeof value)));
        memcpy(more, fields.data, fields.len);
        memcpy(more + fields.len, refers, REFERENCES - 1);
        raw_headers(frames, stream, OPEN, str_of(more, fields.len + REFERENCES - 1), false);
    } else {
        raw_headers(frames, stream, OPEN, str_of(refers, sizeof refers), false);
    }
    buf_deinit(&fields);
}

TEST(metadata_of_open_calls_is_charged_whatever_it_cost_on_the_wire)
{
    enum { CALLS = 20, PER_FIELD_MAX = 64 };
    struct client *c;
    struct buf frames;

    rig_open(&rig, NULL, NULL, add_open);
    buf_init(&frames, 1 << 20);
    c = client_connect(&rig, 0, true);
    raw_preface(&frames);
    for (int32_t i = 0; i < CALLS; i++) metadata_by_reference(&frames, 2 * i + 1);
    pour(c, &frames);
    CHECK_U64("all are open", stats().calls, CALLS);
    CHECK("all texts are charged", stats().metadata >= (size_t)CALLS * PER_CALL);
    CHECK("and little beside them",
          stats().metadata <= (size_t)CALLS * (PER_CALL + REFERENCES * PER_FIELD_MAX));
    client_close(c);
    rig_run(&rig, 100);
    CHECK_SIZE("all of it is freed", stats().metadata, 0);
    buf_deinit(&frames);
    rig_close(&rig);
}

/* Finds the first GOAWAY among the frames that a raw client received. */
static bool heard_goaway(const struct client *c, uint8_t *ret_code, struct str *ret_words)
{
    struct str rest = buf_peek(&c->answers[0].body);

    while (rest.len >= 9) {
        const uint8_t *at = (const uint8_t *)rest.at;
        size_t len = (size_t)at[0] << 16 | (size_t)at[1] << 8 | at[2];
        if (at[3] == 7 && rest.len >= 9 + len && len >= 8) {
            *ret_code = at[16];
            *ret_words = str_of(rest.at + 17, len - 8);
            return true;
        }
        rest = str_tail(rest, min_size(rest.len, 9 + len));
    }
    return false;
}

TEST(a_connection_whose_open_calls_keep_too_much_metadata_is_closed_by_name)
{
    enum { LIMIT = 4 << 20 };
    struct str words = STR_EMPTY;
    size_t most = 0;
    uint8_t code = 0;
    struct client *c;
    struct buf frames;

    rig_open(&rig, NULL, NULL, add_open);
    buf_init(&frames, 1 << 20);
    c = client_connect(&rig, 0, true);
    c->keep = true;
    raw_preface(&frames);
    for (int32_t i = 0; i < 500 && !c->closed; i++) {
        metadata_by_reference(&frames, 2 * i + 1);
        pour(c, &frames);
        most = max_size(most, stats().metadata);
        CHECK("no more calls than that takes", stats().calls <= LIMIT / PER_CALL + 1);
    }
    client_wait_gone(c);
    rig_run(&rig, 100);
    CHECK("the limit was reached", most > LIMIT - 2 * PER_CALL);
    CHECK("and not passed", most <= LIMIT);
    CHECK("a GOAWAY came", heard_goaway(c, &code, &words));
    CHECK_U64("with its code", code, H2_ENHANCE_YOUR_CALM);
    CHECK_STR("and its reason", words, STR("metadata of open calls"));
    CHECK_U64("counted", rig_counts(&rig).memory, 1);
    CHECK_U64("as abuse, too", rig_counts(&rig).abuse, 1);
    CHECK_SIZE("nothing is kept", stats().metadata, 0);
    CHECK_U64("no call is left", stats().calls, 0);
    CHECK_OK("NUL", buf_append_byte(&rig.log, 0));
    CHECK_HAS("named in the log", rig.log.data, "metadata of open calls");
    check_served();
    buf_deinit(&frames);
    rig_close(&rig);
}

TEST(a_peer_with_many_connections_has_one_share_of_metadata)
{
    struct client *c;
    struct buf frames;

    rig_open(&rig, &(struct rpc_server_limits){.metadata_per_identity_max = 10 * PER_CALL}, NULL,
             add_open);
    buf_init(&frames, 1 << 20);
    c = client_connect(&rig, 0, true);
    raw_preface(&frames);
    for (int32_t i = 0; i < 30; i++) metadata_by_reference(&frames, 2 * i + 1);
    pour(c, &frames);
    CHECK("the connection stays", c->open);
    CHECK("its share is not passed", stats().metadata <= 10 * PER_CALL);
    CHECK_U64("calls past it are refused", stats().calls, 9);
    CHECK("counted", rig_counts(&rig).calls == 21);
    check_served();
    buf_deinit(&frames);
    rig_close(&rig);
}

static const struct str replica_uris[] = {{"muster://replica/node-1", 23}};
static const struct tls_identity replica = {.uris = replica_uris, .uri_count = 1};
static const struct tls_identity *const tls[RIG_CLIENTS] = {&replica, NULL, NULL, NULL};

/* One connection carries the calls of many clients: no client may end the others' calls. */
TEST(clients_that_hang_up_at_a_replica_do_not_cost_it_its_connection)
{
    enum { CANCELLED = 6000 };
    struct client *c;
    struct buf frames;

    rig_open(&rig, NULL, tls, add_open);
    buf_init(&frames, 1 << 20);
    c = client_connect(&rig, 0, true);
    raw_preface(&frames);
    for (int32_t i = 0; i < CANCELLED; i++) {
        raw_headers(&frames, 2 * i + 1, OPEN, STR_EMPTY, false);
        raw_frame(&frames, 3, 0, 2 * i + 1, str_of("\0\0\0\10", 4));
    }
    pour(c, &frames);
    rig_run(&rig, 100);
    CHECK_U64("all were calls", stats().calls_total, CANCELLED);
    CHECK("the connection stays", c->open);
    buf_deinit(&frames);
    rig_close(&rig);
}

TEST(a_replica_that_passes_calls_on_has_no_limit_of_its_own)
{
    struct client *c;
    struct buf frames;

    rig_open(&rig,
             &(struct rpc_server_limits){.metadata_per_connection_max = 10 * PER_CALL,
                                         .metadata_per_identity_max = 10 * PER_CALL,
                                         .metadata_max = 20 * PER_CALL},
             tls, add_open);
    buf_init(&frames, 1 << 20);
    c = client_connect(&rig, 0, true);
    raw_preface(&frames);
    for (int32_t i = 0; i < 30; i++) metadata_by_reference(&frames, 2 * i + 1);
    pour(c, &frames);
    CHECK("the connection stays", c->open);
    CHECK_U64("as many as all may have", stats().calls, 19);
    CHECK_U64("the others are refused", rig_counts(&rig).calls, 11);
    client_close(c);
    rig_run(&rig, 100);
    CHECK_SIZE("all of it is freed", stats().metadata, 0);
    buf_deinit(&frames);
    rig_close(&rig);
}

/* -- unread answers -- */

TEST(a_peer_that_never_reads_its_refusals_is_not_read_either)
{
    enum { ASKED = 20000 };
    struct client *c;
    struct buf frames;
    uint64_t began;

    rig_open(&rig,
             &(struct rpc_server_limits){.socket_output_max = 16 << 10,
                                         .write_timeout_ms = 30000,
                                         .streams_per_connection_max = 100000},
             NULL, NULL);
    buf_init(&frames, 4 << 20);
    c = client_connect(&rig, 0, true);
    stream_pause(c->stream);
    raw_preface(&frames);
    for (int32_t i = 0; i < ASKED; i++)
        raw_headers(&frames, 2 * i + 1, "/no.Such/Method", STR_EMPTY, true);
    pour(c, &frames);
    rig_run(&rig, 1000);
    began = stats().calls_total;
    CHECK("some were answered", began > 0);
    CHECK("the rest waits unread", began < ASKED / 2);
    rig_run(&rig, 10000);
    CHECK_U64("for as long as it does not read", stats().calls_total, began);
    check_served();
    rig_run(&rig, 30000);
    CHECK("then it is cut", c->closed || stats().connections == 1);
    CHECK_SIZE("nothing is kept", stats().metadata, 0);
    buf_deinit(&frames);
    rig_close(&rig);
}

TEST(a_peer_that_reads_late_gets_all_its_answers)
{
    enum { ASKED = 900 };
    struct client *c;

    rig_open(&rig, &(struct rpc_server_limits){.socket_output_max = 4 << 10}, NULL, NULL);
    c = client_connect(&rig, 0, false);
    stream_pause(c->stream);
    for (int i = 0; i < ASKED; i++) {
        int32_t stream = client_start(c, "/no.Such/Method", NULL, 0);
        client_end(c, stream);
    }
    rig_run(&rig, 2000);
    stream_resume(c->stream);
    for (int32_t i = 0; i < ASKED; i++) {
        client_wait_closed(c, 2 * i + 1);
        CHECK_I64("answered", client_answer(c, 2 * i + 1)->grpc, GRPC_UNIMPLEMENTED);
    }
    CHECK("the connection stays", c->open);
    rig_close(&rig);
}

/* -- incomplete requests -- */

static void check_expired(struct client *c, int32_t stream, uint64_t counted)
{
    client_wait_closed(c, stream);
    CHECK_I64("ended", client_answer(c, stream)->grpc, GRPC_DEADLINE_EXCEEDED);
    CHECK_U64("counted", rig_counts(&rig).bodies, counted);
    CHECK("the connection stays", c->open);
    CHECK_U64("no call is left", stats().calls, 0);
}

TEST(a_request_that_does_not_arrive_in_time_is_ended)
{
    struct client *c;
    int32_t stream;

    rig_open(&rig, NULL, NULL, add_open);
    c = client_connect(&rig, 0, false);
    stream = client_start(c, UNARY, NULL, 0);
    rig_run(&rig, 29000);
    CHECK_U64("it waits", stats().calls, 1);
    rig_run(&rig, 2000);
    check_expired(c, stream, 1);
    stream = client_start(c, UNARY, NULL, 0); /* one byte a second is no request, either */
    for (int i = 0; i < 64 && !client_answer(c, stream)->closed; i++) {
        struct str byte = str_of(i == 3 ? "\1" : "\0", 1);
        (void)h2_send(c->h2, stream, &byte, 1);
        rig_client_flush(c);
        rig_run(&rig, 1000);
    }
    CHECK("while it trickles", client_answer(c, stream)->closed == 1);
    check_expired(c, stream, 2);
    CHECK_OK("NUL", buf_append_byte(&rig.log, 0));
    CHECK_HAS("named in the log", rig.log.data, "request did not arrive in time");
    check_served();
    rig_close(&rig);
}

TEST(a_stream_may_be_silent_between_its_messages_and_not_within_one)
{
    struct str half = STR("\0\0\0\0\100half of it");
    struct client *c;
    int32_t stream;

    rig_open(&rig, NULL, NULL, add_open);
    c = client_connect(&rig, 0, false);
    stream = client_start(c, OPEN, NULL, 0);
    rig_run(&rig, 3600000);
    CHECK_U64("an hour without a message", client_answer(c, stream)->closed, 0);
    CHECK_OK("one message", client_send_bytes(c, stream, STR("whole")));
    rig_run(&rig, 3600000);
    CHECK_U64("an hour after one", client_answer(c, stream)->closed, 0);
    CHECK_OK("half a message", h2_send(c->h2, stream, &half, 1));
    rig_client_flush(c);
    rig_run(&rig, 29000);
    CHECK_U64("it waits for the rest", client_answer(c, stream)->closed, 0);
    rig_run(&rig, 2000);
    check_expired(c, stream, 1);
    CHECK_U64("the handler was notified", ends.done, 1);
    rig_close(&rig);
}

TEST(a_long_request_on_a_slow_line_arrives)
{
    enum { SECONDS = 120, RATE = 20 << 10, TOTAL = SECONDS * RATE };
    static char part[RATE];
    char head[GRPC_FRAME_BYTES];
    struct str first = {head, sizeof head}, next = {part, sizeof part};
    struct client *c;
    int32_t stream;

    rig_open(&rig, NULL, NULL, add_open);
    c = client_connect(&rig, 0, false);
    stream = client_start(c, OPEN, NULL, 0);
    grpc_frame_write(TOTAL, false, head);
    CHECK_OK("head", h2_send(c->h2, stream, &first, 1));
    for (int i = 0; i < SECONDS; i++) {
        CHECK_OK("a part", h2_send(c->h2, stream, &next, 1));
        rig_client_flush(c);
        rig_run(&rig, 1000);
    }
    client_end(c, stream);
    rig_run(&rig, 1000);
    CHECK_U64("it was not ended", client_answer(c, stream)->closed, 0);
    CHECK_U64("none was", rig_counts(&rig).bodies, 0);
    CHECK_SIZE("it was taken", stats().buffered, 0);
    rig_close(&rig);
}

TEST(time_in_which_we_do_not_read_does_not_count)
{
    static char part[100];
    struct str half = {part, sizeof part};
    struct client *c;
    int32_t held, stream;

    rig_open(&rig, &(struct rpc_server_limits){.connection_window = 65535, .stream_window = 65535},
             NULL, add_open);
    c = client_connect(&rig, 0, false);
    held = client_start(c, HELD, NULL, 0);
    part[3] = 1; /* of 256 bytes */
    CHECK_OK("half a message", h2_send(c->h2, held, &half, 1));
    rig_client_flush(c);
    rig_run(&rig, 600000);
    CHECK_U64("a stream that its handler paused", client_answer(c, held)->closed, 0);
    {
        static char rest[65535 - 100];
        struct str fill = {rest, sizeof rest};
        CHECK_OK("fill the window", h2_send(c->h2, held, &fill, 1));
    }
    stream = client_unary(c, UNARY, &ECHO_REQUEST());
    rig_run(&rig, 600000);
    CHECK_U64("a call whose bytes were blocked by the server", client_answer(c, stream)->closed, 0);
    CHECK_U64("none was ended", rig_counts(&rig).bodies, 0);
    rig_close(&rig);
}

/* -- resets of answered streams -- */

TEST(streams_that_are_reset_after_their_first_answer_are_counted_too)
{
    enum { BATCH = 500, ROUNDS = 24 };
    struct client *c;
    struct buf frames;
    int round = 0;

    rig_open(&rig, NULL, NULL, add_open);
    c = client_connect(&rig, 0, true);
    buf_init(&frames, 1 << 20);
    raw_preface(&frames);
    for (; round < ROUNDS && !c->closed; round++) {
        for (int32_t i = 0; i < BATCH; i++)
            raw_headers(&frames, 2 * (round * BATCH + i) + 1, NOTED, STR_EMPTY, false);
        pour(c, &frames);
        rig_run(&rig, 10);
        for (int32_t i = 0; i < BATCH; i++)
            raw_frame(&frames, 3, 0, 2 * (round * BATCH + i) + 1, str_of("\0\0\0\10", 4));
        pour(c, &frames);
        if (round == 10) CHECK("watches may end so", c->open);
    }
    CHECK("twelve thousand within a minute are a flood", c->closed);
    CHECK_U64("counted", rig_counts(&rig).abuse, 1);
    check_served();
    buf_deinit(&frames);
    rig_close(&rig);
}

/* -- metrics -- */

static void passer_by_bytes(void *owner, struct str bytes)
{
    (void)owner, (void)bytes;
}

static void passer_by_closed(void *owner, enum err why, const struct note *note)
{
    (void)owner, (void)why, (void)note;
}

static const struct stream_events passer_by_events = {.on_bytes = passer_by_bytes,
                                                      .on_closed = passer_by_closed};

TEST(the_gauge_of_connections_is_over_all_servers_of_a_process)
{
    struct stream *passer_by;
    struct rpc_server *other;
    struct buf text;

    rig_open(&rig, NULL, NULL, NULL);
    client_connect(&rig, 0, false);
    CHECK_OK("another server",
             rpc_server_open(
                 &(struct rpc_server_options){.io = sim_host_io(rig.host), .meter = rig.meter},
                 &other, NULL));
    CHECK_OK("listen", rpc_server_listen(other, "server:7001", NULL, NULL));
    CHECK_OK("a connection to it", net_dial(sim_host_io(rig.others[1])->net,
                                            &(struct dial_options){.address = "server:7001"},
                                            &passer_by_events, NULL, &passer_by, NULL));
    rig_run(&rig, 1000);
    CHECK_U64("the other has one", rpc_server_stats(other).connections, 1);
    stream_close(passer_by);
    rig_run(&rig, 3000);
    CHECK_U64("and has none", rpc_server_stats(other).connections, 0);
    buf_init(&text, 1 << 20);
    CHECK_OK("metrics", metrics_write(rig.metrics, &text));
    CHECK_OK("NUL", buf_append_byte(&text, 0));
    CHECK_HAS("one is open", text.data, "\nmuster_rpc_server_connections 1\n");
    buf_deinit(&text);
    rpc_server_close(other, NULL, NULL);
    rig_run(&rig, 100);
    rig_close(&rig);
}
