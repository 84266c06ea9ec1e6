/* SPDX-License-Identifier: Apache-2.0 */
/* Large messages that nobody holds whole: pieces as they arrive, and flow control while the caller
 * pauses. Also how a caller with more calls than one connection takes uses a channel. */
#include <string.h>

#include "lib/test.h"
#include "scripted.h"

static struct world world;
static struct heard heard;
static unsigned pieces;
static size_t piece_most;

static void on_piece(void *owner, struct rpc_client_call *call, struct str piece, bool last)
{
    struct heard *h = owner;

    CHECK("nothing after the end", h->ends == 0);
    pieces++;
    piece_most = max_size(piece_most, piece.len);
    CHECK_OK("room", buf_append(&h->bytes, piece));
    if (last) h->messages++;
    if (h->pause_at_message) rpc_call_pause(call);
}

static void start(scripted_fn *script, struct rpc_call_options options)
{
    pieces = 0;
    piece_most = 0;
    world_open(&world, 7);
    world.servers[0].on_request = script;
    world_channel(&world, (struct rpc_channel_options){0});
    heard = (struct heard){.world = &world};
    buf_init(&heard.bytes, 8 << 20);
    options.path = "/a/b";
    CHECK_OK("a call", rpc_call_start(world.channel, &options, &heard_events, &heard, &heard.call));
    rpc_call_in_pieces(heard.call, on_piece);
    CHECK_OK("asks", rpc_call_send(heard.call, STR("hi")));
    rpc_call_end(heard.call);
}

static void close_all(void)
{
    heard_deinit(&heard);
    world_close(&world);
}

static void nothing(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    (void)r;
}

enum { BODY = 3 << 20 };
static char body[BODY];

/* Sends what the windows allow while the client reads. */
static void send_body(struct scripted_request *r, size_t until)
{
    static size_t at;
    char head[GRPC_FRAME_BYTES];

    if (until == 0) {
        at = 0;
        for (size_t i = 0; i < BODY; i++) body[i] = (char)('a' + i % 23);
        grpc_frame_write(BODY, false, head);
        scripted_respond(r);
        scripted_bytes(r, str_of(head, sizeof head));
    }
    while (at < until) {
        size_t n = min_size(until - at, h2_send_room(r->peer->h2, r->stream));
        if (n > 0) scripted_bytes(r, str_of(body + at, n));
        at += n;
        scripted_flush(r->peer);
        world_run(&world, 5);
        if (n == 0 && heard.pause_at_message) return;
    }
}

TEST(a_long_message_comes_in_pieces)
{
    struct scripted_request *r = &world.servers[0].requests[0];

    start(nothing, (struct rpc_call_options){.response_max = BODY});
    world_run(&world, 500);
    CHECK_TEXT("gzip is not offered", scripted_header(r, "grpc-accept-encoding"), "identity");
    send_body(r, 0);
    send_body(r, BODY);
    CHECK_U64("one message", heard.messages, 1);
    CHECK("in pieces, each far smaller", pieces > 100 && piece_most < 70000);
    CHECK_STR("all of it", buf_peek(&heard.bytes), str_of(body, BODY));
    scripted_message(r, STR(""));
    scripted_trailers(r, "0", NULL);
    scripted_flush(r->peer);
    CHECK("ends", wait_end(&world, &heard));
    CHECK_OK("well", heard.err);
    CHECK_U64("an empty message is a piece, too", heard.messages, 2);
    close_all();
}

TEST(a_paused_reader_holds_the_sender_inside_a_message)
{
    struct scripted_request *r = &world.servers[0].requests[0];

    start(nothing, (struct rpc_call_options){.response_max = BODY});
    heard.pause_at_message = true;
    world_run(&world, 500);
    send_body(r, 0);
    send_body(r, BODY);
    CHECK_U64("one piece, then silence", pieces, 1);
    CHECK("the sender is held", h2_stream_pending(r->peer->h2, r->stream) > 0);
    heard.pause_at_message = false;
    rpc_call_resume(heard.call);
    send_body(r, BODY);
    CHECK_STR("nothing was lost", buf_peek(&heard.bytes), str_of(body, BODY));
    scripted_trailers(r, "0", NULL);
    scripted_flush(r->peer);
    CHECK("ends", wait_end(&world, &heard));
    CHECK_OK("well", heard.err);
    close_all();
}

/* -- invalid answers -- */

static void too_large(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    scripted_respond(r);
    scripted_bytes(r, str_of("\0\0\0\4\1x", 6));
}
static void compressed(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    scripted_respond(r);
    scripted_bytes(r, str_of("\1\0\0\0\2x", 6));
}
static void cut_inside(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    scripted_respond(r);
    scripted_bytes(r, str_of("\0\0\0\0\2x", 6));
    scripted_trailers(r, "0", NULL);
}
static void half(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    scripted_respond(r);
    scripted_bytes(r, str_of("\0\0\0\0\2x", 6));
}

/* The server resets the first call that arrived. */
static void reset_first(void)
{
    world_run(&world, 500);
    scripted_reset(&world.servers[0].requests[0], H2_CANCEL);
    scripted_flush(&world.servers[0].peers[0]);
}

TEST(a_message_that_does_not_end_well_is_not_done)
{
    static const struct {
        const char *why;
        scripted_fn *script;
        enum grpc_status status;
        unsigned pieces;
        bool reset;
    } cases[] = {
        {"announced past the limit", too_large, GRPC_RESOURCE_EXHAUSTED, 0, false},
        {"compressed all the same", compressed, GRPC_INTERNAL, 0, false},
        {"OK in the middle", cut_inside, GRPC_INTERNAL, 1, false},
        {"reset in the middle", half, GRPC_CANCELLED, 1, true},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        start(cases[i].script, (struct rpc_call_options){.response_max = 1024, .attempts_max = 1});
        if (cases[i].reset) reset_first();
        CHECK("ends", wait_end(&world, &heard));
        CHECK_ERR(cases[i].why, heard.err, ERR_UNKNOWN);
        CHECK_U64(cases[i].why, heard.status, cases[i].status);
        CHECK_U64(cases[i].why, pieces, cases[i].pieces);
        CHECK_U64(cases[i].why, heard.messages, 0);
        close_all();
    }
}

TEST(an_idempotent_call_is_begun_again_only_before_its_first_piece)
{
    start(half, (struct rpc_call_options){.idempotent = true});
    reset_first();
    CHECK("ends", wait_end(&world, &heard));
    CHECK_ERR("not known", heard.err, ERR_UNKNOWN);
    CHECK_U64("once", heard.attempts, 1);
    close_all();
}

/* -- state changes of a channel -- */

static unsigned changes;
static void on_change(void *owner)
{
    CHECK("ours", owner == &world);
    changes++;
}

TEST(a_channel_says_how_many_calls_the_server_takes_and_when_that_changes)
{
    world_open(&world, 3);
    changes = 0;
    world.servers[0].streams_max = 4;
    world.servers[0].on_request = scripted_echo;
    world_channel(&world, (struct rpc_channel_options){.on_change = on_change, .owner = &world});
    CHECK_U64("nobody is there yet", rpc_channel_room(world.channel), 0);
    CHECK("ready", world_wait_ready(&world));
    world_run(&world, 10);
    CHECK_U64("its limit", rpc_channel_room(world.channel), 4);
    CHECK("reported", changes > 0);
    changes = 0;
    ask(&world, &heard, (struct rpc_call_options){0}, STR("hi"));
    CHECK("ends", wait_end(&world, &heard));
    world_run(&world, 10);
    CHECK("reported when a call has ended", changes > 0);
    changes = 0;
    scripted_close(&world.servers[0]);
    world_run(&world, 5000);
    CHECK("reported when it is lost", changes > 0);
    CHECK("and that nobody answers", rpc_channel_failing(world.channel));
    CHECK_U64("no room", rpc_channel_room(world.channel), 0);
    close_all();
}

TEST(thousands_of_calls_on_one_connection_find_their_answers)
{
    enum { CALLS = 3000 };
    static struct heard many[CALLS];

    world_open(&world, 3);
    world.servers[0].streams_max = 10000;
    world.servers[0].on_request = nothing;
    world_channel(&world, (struct rpc_channel_options){0});
    CHECK("ready", world_wait_ready(&world));
    for (size_t i = 0; i < CALLS; i++)
        ask(&world, &many[i], (struct rpc_call_options){.timeout_ms = 1000, .attempts_max = 1},
            STR("hi"));
    world_run(&world, 100);
    for (size_t i = 0; i < SCRIPTED_REQUESTS; i++) {
        scripted_echo(&world.servers[0], &world.servers[0].requests[i]);
        scripted_flush(&world.servers[0].peers[0]);
    }
    world_run(&world, 5000);
    for (size_t i = 0; i < CALLS; i++) {
        CHECK_U64("each ends once", many[i].ends, 1);
        CHECK_ERR("answered or not sent", many[i].err,
                  i < SCRIPTED_REQUESTS ? ERR_OK : ERR_UNKNOWN);
        heard_deinit(&many[i]);
    }
    buf_init(&heard.bytes, 1);
    close_all();
}
