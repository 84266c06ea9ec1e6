/* SPDX-License-Identifier: Apache-2.0 */
/* Calls as their callers see them: requests, streams and flow control, deadlines, cancellation,
 * limits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/test.h"
#include "scripted.h"

static struct world world;
static struct heard heard;

static void open_with(scripted_fn *script, struct rpc_channel_options options)
{
    world_open(&world, 11);
    world.servers[0].on_request = script;
    world_channel(&world, options);
}

static void close_all(void)
{
    heard_deinit(&heard);
    world_close(&world);
}

static void start(struct rpc_call_options options)
{
    heard = (struct heard){.world = &world, .started_inside = true};
    buf_init(&heard.bytes, 64 << 20);
    if (!options.path) options.path = "/test.Echo/Stream";
    CHECK_OK("a call", rpc_call_start(world.channel, &options, &heard_events, &heard, &heard.call));
    heard.started_inside = false;
}

static void never_answer(struct scripted *s, struct scripted_request *r)
{
    (void)s, (void)r;
}

TEST(a_request_has_the_documented_headers)
{
    const struct h2_header metadata[] = {{STR("x-color"), STR("blue")},
                                         {STR("x-raw-bin"), str_of("\0\1\2\3", 4)}};
    const struct scripted_request *r = &world.servers[0].requests[0];

    open_with(scripted_echo, (struct rpc_channel_options){0});
    ask(&world, &heard,
        (struct rpc_call_options){.path = "/pkg.Service/Do",
                                  .timeout_ms = 5000,
                                  .metadata = metadata,
                                  .metadata_count = 2,
                                  .request_id = STR("id-7"),
                                  .trace = STR("0123456789abcdef0123456789abcdef")},
        STR("hello"));
    CHECK("ends", wait_end(&world, &heard));
    CHECK_OK("done", heard.err);
    CHECK_STR("the answer", buf_peek(&heard.bytes), STR("hello"));
    CHECK_TEXT("method", scripted_header(r, ":method"), "POST");
    CHECK_TEXT("path", scripted_header(r, ":path"), "/pkg.Service/Do");
    CHECK_TEXT("scheme", scripted_header(r, ":scheme"), "http");
    CHECK_TEXT("authority", scripted_header(r, ":authority"), "s0:7000");
    CHECK_TEXT("te", scripted_header(r, "te"), "trailers");
    CHECK_TEXT("content type", scripted_header(r, "content-type"), "application/grpc");
    CHECK_TEXT("metadata", scripted_header(r, "x-color"), "blue");
    CHECK_TEXT("binary metadata in base64", scripted_header(r, "x-raw-bin"), "AAECAw");
    CHECK_TEXT("request id", scripted_header(r, RPC_REQUEST_ID), "id-7");
    CHECK("a deadline", scripted_header(r, "grpc-timeout") != NULL);
    CHECK_HAS("the trace", scripted_header(r, "traceparent"),
              "00-0123456789abcdef0123456789abcdef-");
    CHECK_SIZE("framed", r->body.len, 5 + 5);
    close_all();
}

TEST(a_trace_is_drawn_where_none_is_given)
{
    struct heard other;

    open_with(scripted_echo, (struct rpc_channel_options){0});
    ask(&world, &heard, (struct rpc_call_options){0}, STR(""));
    ask(&world, &other, (struct rpc_call_options){0}, STR(""));
    CHECK("ends", wait_end(&world, &heard) && wait_end(&world, &other));
    CHECK_SIZE("W3C's form", strlen(scripted_header(&world.servers[0].requests[0], "traceparent")),
               55);
    CHECK("another each time",
          strcmp(scripted_header(&world.servers[0].requests[0], "traceparent"),
                 scripted_header(&world.servers[0].requests[1], "traceparent")) != 0);
    heard_deinit(&other);
    close_all();
}

TEST(untraced_sends_what_a_stock_client_sends)
{
    open_with(scripted_echo, (struct rpc_channel_options){0});
    ask(&world, &heard, (struct rpc_call_options){.untraced = true}, STR(""));
    CHECK("ends", wait_end(&world, &heard));
    CHECK_OK("done", heard.err);
    CHECK("no trace", !scripted_header(&world.servers[0].requests[0], "traceparent"));
    close_all();
}

static void send_metadata(struct scripted *s, struct scripted_request *r)
{
    const struct h2_header headers[] = {{STR(":status"), STR("200")},
                                        {STR("content-type"), STR("application/grpc")},
                                        {STR("x-first"), STR("1")},
                                        {STR("x-raw-bin"), STR("AAEC,/w==")}};
    const struct h2_header trailers[] = {{STR("grpc-status"), STR("0")}, {STR("x-last"), STR("2")}};
    (void)s;
    scripted_respond_with(r, headers, 4, false);
    scripted_message(r, STR("m"));
    scripted_trailers_with(r, trailers, 2);
}

static struct str seen_first, seen_raw, seen_last;
static bool seen_status;
static void look_at_end(void *owner, struct rpc_client_call *call,
                        const struct rpc_outcome *outcome)
{
    struct str value;
    const struct h2_header *all;

    heard_events.on_end(owner, call, outcome);
    CHECK("header", rpc_call_header(call, STR("x-first"), &seen_first));
    CHECK_STR("header", seen_first, STR("1"));
    CHECK("binary header", rpc_call_header(call, STR("x-raw-bin"), &seen_raw));
    CHECK_STR("each of several is decoded", seen_raw, str_of("\0\1\2,\377", 5));
    CHECK("trailer", rpc_call_trailer(call, STR("x-last"), &seen_last));
    CHECK_STR("trailer", seen_last, STR("2"));
    seen_status = rpc_call_trailer(call, STR("grpc-status"), &value);
    CHECK_SIZE("all of them", rpc_call_headers(call, &all), 2);
    CHECK_SIZE("all of them", rpc_call_trailers(call, &all), 1);
}

TEST(metadata_of_the_answer_reaches_the_caller)
{
    const struct rpc_call_events events = {heard_events.on_message, NULL, look_at_end};
    struct rpc_call_options options = {.path = "/a/b"};

    open_with(send_metadata, (struct rpc_channel_options){0});
    heard = (struct heard){.world = &world};
    buf_init(&heard.bytes, 1000);
    CHECK_OK("a call", rpc_call_start(world.channel, &options, &events, &heard, &heard.call));
    rpc_call_end(heard.call);
    CHECK("ends", wait_end(&world, &heard));
    CHECK("the protocol's own headers are left out", !seen_status);
    close_all();
}

TEST(an_invalid_request_is_refused_at_once)
{
    char long_value[RPC_METADATA_BYTES_MAX + 1];
    struct h2_header many[RPC_METADATA_MAX + 1];
    static const struct h2_header upper = {{"X-Upper", 7}, {"1", 1}};
    static const struct h2_header reserved = {{"grpc-timeout", 12}, {"1S", 2}};
    static const struct h2_header not_text = {{"x-a", 3}, {"a\n", 2}};
    static const struct h2_header te = {{"te", 2}, {"x", 1}};
    struct h2_header huge = {STR("x-huge"), {long_value, sizeof long_value}};
    const struct {
        const char *why;
        struct rpc_call_options options;
        enum err want;
    } cases[] = {
        {"no path", {.path = NULL}, ERR_INVALID},
        {"no slash", {.path = "a"}, ERR_INVALID},
        {"a name in capitals",
         {.path = "/a/b", .metadata = &upper, .metadata_count = 1},
         ERR_INVALID},
        {"a name of gRPC's own",
         {.path = "/a/b", .metadata = &reserved, .metadata_count = 1},
         ERR_INVALID},
        {"a name of HTTP's own",
         {.path = "/a/b", .metadata = &te, .metadata_count = 1},
         ERR_INVALID},
        {"a value that is no text",
         {.path = "/a/b", .metadata = &not_text, .metadata_count = 1},
         ERR_INVALID},
        {"too much of it", {.path = "/a/b", .metadata = &huge, .metadata_count = 1}, ERR_TOO_LARGE},
        {"too many",
         {.path = "/a/b", .metadata = many, .metadata_count = RPC_METADATA_MAX + 1},
         ERR_TOO_LARGE},
        {"a trace that is none", {.path = "/a/b", .trace = STR("xyz")}, ERR_INVALID},
    };

    memset(long_value, 'a', sizeof long_value);
    for (size_t i = 0; i < ARRAY_LEN(many); i++) many[i] = (struct h2_header){STR("x-a"), STR("1")};
    open_with(scripted_echo, (struct rpc_channel_options){.calls_max = 1});
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        heard = (struct heard){0};
        CHECK_ERR(
            cases[i].why,
            rpc_call_start(world.channel, &cases[i].options, &heard_events, &heard, &heard.call),
            cases[i].want);
    }
    start((struct rpc_call_options){0});
    CHECK_ERR("calls are bounded",
              rpc_unary(world.channel, &(struct rpc_call_options){.path = "/a/b"}, STR(""), NULL,
                        NULL, NULL),
              ERR_FULL);
    rpc_call_cancel(heard.call);
    CHECK("ends", wait_end(&world, &heard));
    world_run(&world, 1);
    heard_deinit(&heard);
    ask(&world, &heard, (struct rpc_call_options){0}, STR("again"));
    CHECK("and free again after the end", wait_end(&world, &heard) && !heard.err);
    close_all();
}

TEST(three_mebibytes_go_both_ways)
{
    size_t len = 3 << 20;
    char *bytes = malloc(len);

    CHECK("memory", bytes);
    for (size_t i = 0; i < len; i++) bytes[i] = (char)(i * 7 + (i >> 13));
    open_with(never_answer, (struct rpc_channel_options){0});
    ask(&world, &heard, (struct rpc_call_options){0}, str_of(bytes, len));
    while (world.servers[0].count == 0 || !world.servers[0].requests[0].ended)
        world_run(&world, 100);
    CHECK_SIZE("whole", world.servers[0].requests[0].body.len, len + 5);
    CHECK("unchanged", memcmp(world.servers[0].requests[0].body.data + 5, bytes, len) == 0);
    scripted_respond(&world.servers[0].requests[0]);
    for (size_t at = 0; at < len + 5;) {
        struct scripted_request *r = &world.servers[0].requests[0];
        size_t n = min_size(h2_send_room(r->peer->h2, r->stream), len + 5 - at);
        if (n > 0) scripted_bytes(r, str_of(r->body.data + at, n));
        at += n;
        scripted_flush(r->peer);
        world_run(&world, 5);
    }
    scripted_trailers(&world.servers[0].requests[0], "0", NULL);
    scripted_flush(world.servers[0].requests[0].peer);
    CHECK("ends", wait_end(&world, &heard));
    CHECK_OK("done", heard.err);
    CHECK_SIZE("whole", heard.bytes.len, len);
    CHECK("unchanged", memcmp(heard.bytes.data, bytes, len) == 0);
    free(bytes);
    close_all();
}

static void answer_as_they_come(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    scripted_respond(r);
}

TEST(a_stream_sends_and_receives_in_any_order)
{
    struct scripted_request *r = &world.servers[0].requests[0];

    open_with(answer_as_they_come, (struct rpc_channel_options){0});
    world.servers[0].at_headers = true;
    start((struct rpc_call_options){0});
    CHECK_OK("one", rpc_call_send(heard.call, STR("one")));
    world_run(&world, 500);
    CHECK_SIZE("the first is there before the second is sent", r->body.len, 8);
    scripted_message(r, STR("uno"));
    scripted_flush(r->peer);
    world_run(&world, 500);
    CHECK_U64("and answered", heard.messages, 1);
    CHECK_OK("two", rpc_call_send(heard.call, STR("two")));
    rpc_call_end(heard.call);
    CHECK_ERR("nothing after the end", rpc_call_send(heard.call, STR("three")), ERR_CLOSED);
    world_run(&world, 500);
    CHECK("half-closed", r->ended);
    scripted_message(r, STR("due"));
    scripted_trailers(r, "0", NULL);
    scripted_flush(r->peer);
    CHECK("ends", wait_end(&world, &heard));
    CHECK_OK("done", heard.err);
    CHECK_STR("in order", buf_peek(&heard.bytes), STR("uno|due|"));
    close_all();
}

TEST(a_server_that_does_not_read_holds_the_sender)
{
    char block[32 * 1024] = {0};
    size_t sent = 0;
    enum err err = ERR_OK;

    open_with(never_answer, (struct rpc_channel_options){0});
    world.servers[0].hold_data = true;
    start((struct rpc_call_options){0});
    for (int i = 0; i < 1000 && !err; i++) {
        err = rpc_call_send(heard.call, str_of(block, sizeof block));
        if (!err) sent += sizeof block;
        world_run(&world, 20);
    }
    CHECK_ERR("reported", err, ERR_FULL);
    CHECK("after a bounded amount", sent < 2 << 20);
    CHECK_U64("no room yet", heard.writables, 0);
    for (int i = 0; i < 100 && heard.writables == 0; i++) {
        struct scripted_request *r = &world.servers[0].requests[0];
        h2_consume(r->peer->h2, r->stream, 64 * 1024);
        scripted_flush(r->peer);
        world_run(&world, 100);
    }
    CHECK_U64("reported once when there is room", heard.writables, 1);
    CHECK_OK("and there is", rpc_call_send(heard.call, str_of(block, sizeof block)));
    rpc_call_cancel(heard.call);
    CHECK("ends", wait_end(&world, &heard));
    close_all();
}

TEST(a_caller_that_pauses_holds_the_server_and_then_gets_everything)
{
    char block[60 * 1024];
    struct scripted_request *r = &world.servers[0].requests[0];
    size_t sent = 0;

    memset(block, 'x', sizeof block);
    open_with(answer_as_they_come, (struct rpc_channel_options){0});
    start((struct rpc_call_options){0});
    heard.pause_at_message = true;
    rpc_call_end(heard.call);
    world_run(&world, 500);
    for (int i = 0; i < 30; i++) {
        if (h2_send_room(r->peer->h2, r->stream) >= sizeof block + 5) {
            scripted_message(r, str_of(block, sizeof block));
            sent++;
        }
        scripted_flush(r->peer);
        world_run(&world, 50);
    }
    CHECK_U64("one message, then silence", heard.messages, 1);
    CHECK("the server is held", sent < 30 && h2_stream_pending(r->peer->h2, r->stream) > 0);
    scripted_trailers(r, "0", NULL);
    for (size_t i = 0; i < sent && heard.ends == 0;
         i++) { /* one at a time, as the caller resumes */
        CHECK_U64("no more than asked for", heard.messages, i + 1);
        rpc_call_resume(heard.call);
        for (int k = 0; k < 50 && heard.messages == i + 1 && heard.ends == 0; k++) {
            scripted_flush(r->peer);
            world_run(&world, 20);
        }
    }
    if (heard.call) heard.pause_at_message = false, rpc_call_resume(heard.call);
    CHECK("ends", wait_end(&world, &heard));
    CHECK_OK("done", heard.err);
    CHECK_U64("all of them", heard.messages, sent);
    close_all();
}

TEST(an_answer_that_is_whole_waits_for_a_paused_caller)
{
    open_with(scripted_echo, (struct rpc_channel_options){0});
    start((struct rpc_call_options){0});
    heard.pause_at_message = true;
    CHECK_OK("two", rpc_call_send(heard.call, STR("one")));
    CHECK_OK("messages", rpc_call_send(heard.call, STR("two")));
    rpc_call_end(heard.call);
    world_run(&world, 2000);
    CHECK_U64("the first", heard.messages, 1);
    CHECK_U64("and no end, although the server has sent it", heard.ends, 0);
    rpc_call_resume(heard.call);
    world_run(&world, 1);
    CHECK_U64("the second", heard.messages, 2);
    CHECK_U64("still no end: it paused again", heard.ends, 0);
    rpc_call_resume(heard.call);
    CHECK("ends", wait_end(&world, &heard));
    CHECK_OK("done", heard.err);
    close_all();
    /* If the connection ends meanwhile, the answer is still complete. */
    open_with(scripted_echo, (struct rpc_channel_options){0});
    start((struct rpc_call_options){0});
    heard.pause_at_message = true;
    CHECK_OK("two", rpc_call_send(heard.call, STR("one")));
    CHECK_OK("messages", rpc_call_send(heard.call, STR("two")));
    rpc_call_end(heard.call);
    world_run(&world, 2000);
    stream_close(world.servers[0].peers[0].stream);
    world_run(&world, 2000);
    heard.pause_at_message = false;
    rpc_call_resume(heard.call);
    CHECK("ends", wait_end(&world, &heard));
    CHECK_OK("done", heard.err);
    CHECK_U64("with both", heard.messages, 2);
    close_all();
}

/* A server that ends an answer early may reset the stream, and muster's does. A server that does
 * not, and then closes the connection, has answered as well. */
TEST(an_answer_that_is_whole_outlives_the_connection_before_the_request_has_ended)
{
    static const char ok[] = "\0\0\x0f\1\5\0\0\0\1" /* HEADERS, their end and the stream's */
                             "\0\x0bgrpc-status\x01\x30";
    struct str trailers = str_of(ok, sizeof ok - 1);

    open_with(answer_as_they_come, (struct rpc_channel_options){0});
    world.servers[0].at_headers = true;
    start((struct rpc_call_options){0});
    heard.pause_at_message = true;
    world_run(&world, 500);
    scripted_message(&world.servers[0].requests[0], STR("one"));
    scripted_message(&world.servers[0].requests[0], STR("two"));
    scripted_flush(&world.servers[0].peers[0]);
    CHECK_OK("trailers", stream_write(world.servers[0].peers[0].stream, &trailers, 1));
    world_run(&world, 500);
    CHECK_U64("the first", heard.messages, 1);
    stream_close(world.servers[0].peers[0].stream);
    world_run(&world, 2000);
    CHECK_U64("no end while it pauses", heard.ends, 0);
    heard.pause_at_message = false;
    if (heard.call) rpc_call_resume(heard.call);
    CHECK("ends", wait_end(&world, &heard));
    CHECK_OK("done", heard.err);
    CHECK("the server's own status", heard.answered);
    CHECK_U64("with both", heard.messages, 2);
    close_all();
}

TEST(a_deadline_is_kept_here_whatever_the_server_does)
{
    sim_time before;

    open_with(never_answer, (struct rpc_channel_options){0});
    CHECK("ready", world_wait_ready(&world));
    before = sim_now(world.sim);
    ask(&world, &heard, (struct rpc_call_options){.timeout_ms = 700, .idempotent = true},
        STR("hi"));
    CHECK("ends", wait_end(&world, &heard));
    CHECK_ERR("it was sent: nobody knows", heard.err, ERR_UNKNOWN);
    CHECK_U64("because", heard.status, GRPC_DEADLINE_EXCEEDED);
    CHECK("in time", sim_now(world.sim).ns - before.ns < 750 * NS_PER_MS);
    world_run(&world, 500);
    CHECK_U64("the server is reported", world.servers[0].peers[0].reset_code, H2_CANCEL);
    close_all();
    /* Never sent, because no server is there. */
    open_with(never_answer, (struct rpc_channel_options){0});
    sim_host_die(world.hosts[0], SIM_POWER_CUT);
    ask(&world, &heard, (struct rpc_call_options){.timeout_ms = 700, .wait_for_ready = true},
        STR("hi"));
    CHECK("ends", wait_end(&world, &heard));
    CHECK_ERR("nothing left: was not done", heard.err, ERR_TIMEOUT);
    CHECK_U64("no attempt", heard.attempts, 0);
    close_all();
}

TEST(the_timeout_that_is_sent_is_what_is_left)
{
    open_with(scripted_echo, (struct rpc_channel_options){0});
    sim_link_clog(world.client, world.hosts[0], 600);
    ask(&world, &heard, (struct rpc_call_options){.timeout_ms = 2000}, STR("hi"));
    CHECK("ends", wait_end(&world, &heard));
    CHECK_OK("done", heard.err);
    uint64_t left_us = 0;
    CHECK_OK("a timeout", grpc_timeout_parse(str_from(scripted_header(&world.servers[0].requests[0],
                                                                      "grpc-timeout")),
                                             &left_us));
    CHECK("less than requested, by the connection time", left_us < 1400 * 1000);
    close_all();
}

TEST(cancelling_resets_the_stream_and_ends_once)
{
    open_with(never_answer, (struct rpc_channel_options){0});
    CHECK("ready", world_wait_ready(&world));
    start((struct rpc_call_options){0});
    CHECK_OK("send", rpc_call_send(heard.call, STR("hi")));
    world_run(&world, 200);
    rpc_call_cancel(heard.call);
    CHECK_U64("not from inside", heard.ends, 0);
    rpc_call_cancel(heard.call);
    CHECK_ERR("over is over", rpc_call_send(heard.call, STR("more")), ERR_CLOSED);
    CHECK("ends", wait_end(&world, &heard));
    CHECK_ERR("it was sent", heard.err, ERR_UNKNOWN);
    CHECK_U64("because", heard.status, GRPC_CANCELLED);
    world_run(&world, 200);
    CHECK_U64("the server is reported", world.servers[0].peers[0].reset_code, H2_CANCEL);
    heard_deinit(&heard);
    start((struct rpc_call_options){0});
    CHECK_OK("send", rpc_call_send(heard.call, STR("hi")));
    rpc_call_cancel(heard.call); /* in the same turn: no byte was sent */
    CHECK("ends", wait_end(&world, &heard));
    CHECK_ERR("was not done, for certain", heard.err, ERR_CANCELLED);
    world_run(&world, 200);
    CHECK_U64("the server never saw it", world.servers[0].count, 1);
    close_all();
}

static void cancel_at_message(void *owner, struct rpc_client_call *call, struct str message)
{
    heard_events.on_message(owner, call, message);
    rpc_call_cancel(call);
}

TEST(a_call_may_be_cancelled_from_its_own_message)
{
    const struct rpc_call_events events = {cancel_at_message, NULL, heard_events.on_end};
    struct rpc_call_options options = {.path = "/a/b"};

    open_with(scripted_echo, (struct rpc_channel_options){0});
    heard = (struct heard){.world = &world};
    buf_init(&heard.bytes, 1000);
    CHECK_OK("a call", rpc_call_start(world.channel, &options, &events, &heard, &heard.call));
    CHECK_OK("one", rpc_call_send(heard.call, STR("one")));
    CHECK_OK("two", rpc_call_send(heard.call, STR("two")));
    rpc_call_end(heard.call);
    CHECK("ends", wait_end(&world, &heard));
    CHECK_U64("one message", heard.messages, 1);
    CHECK_U64("by us", heard.status, GRPC_CANCELLED);
    close_all();
}

static void close_at_message(void *owner, struct rpc_client_call *call, struct str message)
{
    heard_events.on_message(owner, call, message);
    rpc_channel_close(world.channel, NULL, NULL);
    world.channel = NULL;
}

TEST(a_channel_may_be_closed_from_a_message_and_every_call_ends)
{
    const struct rpc_call_events events = {close_at_message, NULL, heard_events.on_end};
    struct rpc_call_options options = {.path = "/a/b"};
    struct heard other;

    open_with(scripted_echo, (struct rpc_channel_options){0});
    ask(&world, &other, (struct rpc_call_options){.wait_for_ready = true}, STR("x"));
    heard = (struct heard){.world = &world};
    buf_init(&heard.bytes, 1000);
    CHECK_OK("a call", rpc_call_start(world.channel, &options, &events, &heard, &heard.call));
    CHECK_OK("one", rpc_call_send(heard.call, STR("one")));
    rpc_call_end(heard.call);
    CHECK("ends", wait_end(&world, &heard) && wait_end(&world, &other));
    heard_deinit(&other);
    close_all();
}

static unsigned open_requests(const struct scripted *s)
{
    unsigned open = 0;

    for (size_t i = 0; i < s->count; i++) open += !s->requests[i].closed;
    return open;
}

static unsigned open_connections(const struct scripted *s)
{
    unsigned open = 0;

    for (size_t i = 0; i < s->accepted; i++) open += s->peers[i].stream != NULL;
    return open;
}

TEST(calls_that_wait_at_the_server_do_not_hold_up_those_past_its_stream_limit)
{
    enum { LIMIT = 4, MOST = 3, CALLS = LIMIT * MOST + 2 };
    static struct heard many[CALLS];
    struct scripted *s = &world.servers[0];

    world_open(&world, 4);
    s->streams_max = LIMIT;
    s->on_request = never_answer;
    world_channel(&world, (struct rpc_channel_options){.connections_max = MOST});
    CHECK("ready", world_wait_ready(&world));
    for (size_t i = 0; i < LIMIT; i++) ask(&world, &many[i], (struct rpc_call_options){0}, STR(""));
    world_run(&world, 1000);
    CHECK_U64("one connection while its streams suffice", open_connections(s), 1);
    for (size_t i = LIMIT; i < CALLS; i++)
        ask(&world, &many[i], (struct rpc_call_options){0}, STR(""));
    world_run(&world, 1000);
    CHECK_U64("further connections", open_connections(s), MOST);
    CHECK_U64("as many calls as all their streams", open_requests(s), (uint64_t)LIMIT * MOST);
    for (size_t i = 0; i < CALLS; i++) CHECK_U64("the others wait", many[i].ends, 0);
    for (unsigned answered = 0; answered < CALLS; answered++) {
        for (size_t i = 0; i < s->count; i++)
            if (!s->requests[i].closed && s->requests[i].ended) {
                scripted_echo(s, &s->requests[i]);
                s->requests[i].ended = false;
                scripted_flush(s->requests[i].peer);
                break;
            }
        world_run(&world, 100);
    }
    for (size_t i = 0; i < CALLS; i++) {
        CHECK_U64("each ends once", many[i].ends, 1);
        CHECK_OK("and well", many[i].err);
        CHECK_U64("at the first attempt", many[i].attempts, 1);
        heard_deinit(&many[i]);
    }
    world_run(&world, 5000);
    CHECK_U64("the further ones are closed when they are not needed", open_connections(s), 1);
    world_close(&world);
}

TEST(a_further_connection_that_fails_is_dialed_again)
{
    enum { LIMIT = 2 };
    static struct heard many[LIMIT + 1];
    struct scripted *s = &world.servers[0];

    world_open(&world, 5);
    s->streams_max = LIMIT;
    s->on_request = never_answer;
    world_channel(&world, (struct rpc_channel_options){.connections_max = 2});
    CHECK("ready", world_wait_ready(&world));
    s->refuse = true;
    for (size_t i = 0; i < ARRAY_LEN(many); i++)
        ask(&world, &many[i], (struct rpc_call_options){0}, STR(""));
    world_run(&world, 300);
    CHECK_U64("refused", open_connections(s), 1);
    CHECK_U64("the call waits", many[LIMIT].ends, 0);
    s->refuse = false;
    world_run(&world, 20000);
    CHECK_U64("dialed again, though no call ended", open_connections(s), 2);
    CHECK_U64("and the call goes out", open_requests(s), LIMIT + 1);
    world_close_channel(&world);
    for (size_t i = 0; i < ARRAY_LEN(many); i++) {
        CHECK_U64("ended", many[i].ends, 1);
        heard_deinit(&many[i]);
    }
    world_close(&world);
}

TEST(more_calls_than_the_server_takes_wait_their_turn)
{
    enum { CALLS = 40 };
    static struct heard many[CALLS];
    unsigned done = 0;

    world_open(&world, 3);
    world.servers[0].streams_max = 4;
    world.servers[0].on_request = never_answer;
    world_channel(&world, (struct rpc_channel_options){0});
    CHECK("ready", world_wait_ready(&world));
    for (size_t i = 0; i < CALLS; i++)
        ask(&world, &many[i], (struct rpc_call_options){.timeout_ms = 60000}, STR("hi"));
    for (int turn = 0; turn < 200 && done < CALLS; turn++) {
        struct scripted *s = &world.servers[0];
        unsigned open = 0;
        world_run(&world, 100);
        for (size_t i = 0; i < s->count; i++) open += !s->requests[i].closed;
        CHECK("never more than it takes", open <= 4);
        for (size_t i = 0; i < s->count; i++)
            if (!s->requests[i].closed && s->requests[i].ended) {
                scripted_echo(s, &s->requests[i]);
                s->requests[i].ended = false;
                scripted_flush(s->requests[i].peer);
                break;
            }
        done = 0;
        for (size_t i = 0; i < CALLS; i++) done += many[i].ends;
    }
    for (size_t i = 0; i < CALLS; i++) {
        CHECK_U64("each ends once", many[i].ends, 1);
        CHECK_OK("and well", many[i].err);
        CHECK_U64("at the first attempt", many[i].attempts, 1);
        heard_deinit(&many[i]);
    }
    heard = (struct heard){0};
    close_all();
}
