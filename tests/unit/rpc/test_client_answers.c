/* SPDX-License-Identifier: Apache-2.0 */
/* For any answer of a server, valid or not, the call ends once and reports correctly: done, not
 * done, or unknown. */
#include <string.h>

#include "lib/test.h"
#include "scripted.h"

static struct world world;
static struct heard heard;

static void open_with(scripted_fn *script)
{
    world_open(&world, 7);
    world.servers[0].on_request = script;
    world_channel(&world, (struct rpc_channel_options){0});
}

static void close_all(void)
{
    heard_deinit(&heard);
    world_close(&world);
}

/* -- one unusual answer per row -- */

static void say_not_found(struct scripted *s, struct scripted_request *r)
{
    const struct h2_header trailers[] = {
        {STR("grpc-status"), STR("5")},
        {STR("grpc-message"), STR("no such%20key %E2%82%AC")},
        {STR("grpc-status-details-bin"), STR("AAECAw")},
    };
    (void)s;
    scripted_respond(r);
    scripted_trailers_with(r, trailers, ARRAY_LEN(trailers));
}
static void trailers_only(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    scripted_only(r, "7", "who are you");
}
static void http_503(struct scripted *s, struct scripted_request *r)
{
    const struct h2_header headers[] = {{STR(":status"), STR("503")},
                                        {STR("content-type"), STR("text/html")}};
    (void)s;
    scripted_respond_with(r, headers, 2, false);
    scripted_bytes(r, STR("<html>"));
}
static void http_404(struct scripted *s, struct scripted_request *r)
{
    const struct h2_header headers[] = {{STR(":status"), STR("404")}};
    (void)s;
    scripted_respond_with(r, headers, 1, true);
}
static void http_503_with_status(struct scripted *s, struct scripted_request *r)
{
    const struct h2_header headers[] = {{STR(":status"), STR("503")},
                                        {STR("grpc-status"), STR("8")}};
    (void)s;
    scripted_respond_with(r, headers, 2, true);
}
static void no_status_in_trailers(struct scripted *s, struct scripted_request *r)
{
    const struct h2_header trailers[] = {{STR("x-other"), STR("1")}};
    (void)s;
    scripted_respond(r);
    scripted_message(r, STR("m"));
    scripted_trailers_with(r, trailers, 1);
}
static void no_status_only(struct scripted *s, struct scripted_request *r)
{
    const struct h2_header headers[] = {{STR(":status"), STR("200")},
                                        {STR("content-type"), STR("application/grpc")}};
    (void)s;
    scripted_respond_with(r, headers, 2, true);
}
static void status_is_no_number(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    scripted_only(r, "fine", NULL);
}
static void status_nobody_defined(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    scripted_only(r, "99", "odd");
}
static void other_content_type(struct scripted *s, struct scripted_request *r)
{
    const struct h2_header headers[] = {{STR(":status"), STR("200")},
                                        {STR("content-type"), STR("text/plain")}};
    (void)s;
    scripted_respond_with(r, headers, 2, false);
    scripted_bytes(r, STR("hello"));
}
static void other_encoding(struct scripted *s, struct scripted_request *r)
{
    const struct h2_header headers[] = {{STR(":status"), STR("200")},
                                        {STR("content-type"), STR("application/grpc")},
                                        {STR("grpc-encoding"), STR("zstd")}};
    (void)s;
    scripted_respond_with(r, headers, 3, false);
}
static void compressed_without_encoding(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    scripted_respond(r);
    scripted_bytes(r, str_of("\1\0\0\0\1x", 6));
    scripted_trailers(r, "0", NULL);
}
static void reserved_flags(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    scripted_respond(r);
    scripted_bytes(r, str_of("\7\0\0\0\1x", 6));
    scripted_trailers(r, "0", NULL);
}
static void too_large(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    scripted_respond(r);
    scripted_bytes(r, str_of("\0\177\377\377\377", 5)); /* the five bytes alone decide */
}
static void ends_inside_a_message(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    scripted_respond(r);
    scripted_bytes(r, str_of("\0\0\0\0\11abc", 8));
    scripted_trailers(r, "0", NULL);
}
static void no_message(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    scripted_respond(r);
    scripted_trailers(r, "0", NULL);
}
static void two_messages(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    scripted_respond(r);
    scripted_message(r, STR("a"));
    scripted_message(r, STR("b"));
    scripted_trailers(r, "0", NULL);
}
static void reset_internal(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    scripted_reset(r, H2_INTERNAL_ERROR);
}
static void reset_cancel(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    scripted_reset(r, H2_CANCEL);
}
static void only_headers(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    scripted_respond(r);
}
static void cut(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    stream_close(r->peer->stream);
}
static void unavailable(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    scripted_only(r, "14", "busy");
}
static void full_not_applied(struct scripted *s, struct scripted_request *r)
{
    const struct h2_header headers[] = {{STR(":status"), STR("200")},
                                        {STR("content-type"), STR("application/grpc")},
                                        {STR("grpc-status"), STR("13")},
                                        {STR(RPC_APPLIED_TRAILER), STR("no")}};
    (void)s;
    scripted_respond_with(r, headers, 4, true);
}
static void not_leader(struct scripted *s, struct scripted_request *r)
{
    const struct h2_header headers[] = {{STR(":status"), STR("200")},
                                        {STR("content-type"), STR("application/grpc")},
                                        {STR("grpc-status"), STR("9")},
                                        {STR(RPC_LEADER_TRAILER), STR("s2:7000")}};
    (void)s;
    scripted_respond_with(r, headers, 4, true);
}
static void fenced(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    scripted_only(r, "9", "token is stale");
}

static const struct {
    const char *why;
    scripted_fn *script;
    enum err err;
    enum grpc_status status;
    bool answered;
    const char *text; /* part of it */
} answers[] = {
    {"a plain no, with text and details", say_not_found, ERR_NOT_FOUND, GRPC_NOT_FOUND, true,
     "no such key \xe2\x82\xac"},
    {"trailers-only", trailers_only, ERR_DENIED, GRPC_PERMISSION_DENIED, true, "who are you"},
    {"HTTP 503", http_503, ERR_UNKNOWN, GRPC_UNAVAILABLE, false, "HTTP status 503"},
    {"HTTP 404", http_404, ERR_UNSUPPORTED, GRPC_UNIMPLEMENTED, false, "HTTP status 404"},
    {"grpc-status goes before the HTTP status", http_503_with_status, ERR_FULL,
     GRPC_RESOURCE_EXHAUSTED, true, ""},
    {"trailers without a status", no_status_in_trailers, ERR_UNKNOWN, GRPC_UNKNOWN, false,
     "no grpc-status"},
    {"headers that end the answer, without a status", no_status_only, ERR_UNKNOWN, GRPC_UNKNOWN,
     false, "no grpc-status"},
    {"a status that is no number", status_is_no_number, ERR_UNKNOWN, GRPC_UNKNOWN, false,
     "no number"},
    {"a status nobody defined", status_nobody_defined, ERR_UNKNOWN, GRPC_UNKNOWN, true, "odd"},
    {"a page instead of gRPC", other_content_type, ERR_UNKNOWN, GRPC_UNKNOWN, false,
     "content type"},
    {"an encoding we did not offer", other_encoding, ERR_UNKNOWN, GRPC_INTERNAL, false,
     "did not offer"},
    {"compressed without saying how", compressed_without_encoding, ERR_UNKNOWN, GRPC_INTERNAL,
     false, "without a grpc-encoding"},
    {"reserved bits of the frame", reserved_flags, ERR_UNKNOWN, GRPC_INTERNAL, false, "frame"},
    {"larger than the limit", too_large, ERR_UNKNOWN, GRPC_RESOURCE_EXHAUSTED, false,
     "larger than the limit"},
    {"OK in the middle of a message", ends_inside_a_message, ERR_UNKNOWN, GRPC_INTERNAL, false,
     "inside a message"},
    {"OK without a message", no_message, ERR_UNKNOWN, GRPC_INTERNAL, false, "without a message"},
    {"OK with two", two_messages, ERR_UNKNOWN, GRPC_INTERNAL, false, "more than one"},
    {"reset, internal error", reset_internal, ERR_UNKNOWN, GRPC_INTERNAL, false, "code 2"},
    {"reset, cancel", reset_cancel, ERR_UNKNOWN, GRPC_CANCELLED, false, "code 8"},
    {"the connection is cut", cut, ERR_UNKNOWN, GRPC_UNAVAILABLE, false, "s0:7000"},
    {"unavailable says nothing", unavailable, ERR_UNKNOWN, GRPC_UNAVAILABLE, true, "busy"},
    {"an error that says not applied", full_not_applied, ERR_INTERNAL, GRPC_INTERNAL, true, ""},
    {"not leader, and we do not follow", not_leader, ERR_NOT_LEADER, GRPC_FAILED_PRECONDITION, true,
     ""},
    {"another failed precondition", fenced, ERR_PRECONDITION, GRPC_FAILED_PRECONDITION, true,
     "stale"},
};

TEST(each_answer_ends_the_call_once_and_rightly)
{
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        open_with(answers[i].script);
        ask(&world, &heard, (struct rpc_call_options){0}, STR("hi"));
        CHECK(answers[i].why, wait_end(&world, &heard));
        CHECK_ERR(answers[i].why, heard.err, answers[i].err);
        CHECK_U64(answers[i].why, heard.status, answers[i].status);
        CHECK_U64(answers[i].why, heard.answered, answers[i].answered);
        CHECK_HAS(answers[i].why, heard.text, answers[i].text);
        CHECK_U64("a call that may have been applied is never tried again", heard.attempts, 1);
        CHECK_U64("the server saw it once", world.servers[0].count, 1);
        close_all();
    }
}

TEST(details_and_leader_reach_the_caller)
{
    open_with(say_not_found);
    ask(&world, &heard, (struct rpc_call_options){0}, STR("hi"));
    CHECK("ends", wait_end(&world, &heard));
    CHECK("details are decoded", memcmp(heard.details, "\0\1\2\3", 4) == 0);
    close_all();
    open_with(not_leader);
    ask(&world, &heard, (struct rpc_call_options){0}, STR("hi"));
    CHECK("ends", wait_end(&world, &heard));
    CHECK_TEXT("the leader's name is in the trailers", heard.leader, "s2:7000");
    close_all();
}

static void answers_after_the_bad(struct scripted *s, struct scripted_request *r)
{
    if (s->count <= 2)
        scripted_reset(r, H2_REFUSED_STREAM);
    else
        scripted_echo(s, r);
}

TEST(a_refused_stream_is_tried_again_without_being_asked)
{
    open_with(answers_after_the_bad);
    ask(&world, &heard, (struct rpc_call_options){0}, STR("hi"));
    CHECK("ends", wait_end(&world, &heard));
    CHECK_OK("done", heard.err);
    CHECK_U64("at the third attempt", heard.attempts, 3);
    CHECK("and the first two are certain", !heard.doubted);
    close_all();
}

static void lost_then_answered(struct scripted *s, struct scripted_request *r)
{
    if (s->count == 1)
        stream_close(r->peer->stream);
    else
        scripted_echo(s, r);
}

TEST(an_answer_says_that_an_earlier_attempt_may_still_come)
{
    open_with(lost_then_answered);
    ask(&world, &heard,
        (struct rpc_call_options){.request_id = STR("r-1"), .dedups_by_request_id = true},
        STR("hi"));
    CHECK("ends", wait_end(&world, &heard));
    CHECK_OK("done", heard.err);
    CHECK_U64("at the second attempt", heard.attempts, 2);
    CHECK("the first was sent", heard.doubted);
    close_all();
}

TEST(refused_after_an_answer_began_is_no_refusal)
{
    open_with(only_headers);
    ask(&world, &heard, (struct rpc_call_options){0}, STR("hi"));
    world_run(&world, 1000);
    CHECK_U64("the server has it", world.servers[0].count, 1);
    scripted_reset(&world.servers[0].requests[0], H2_REFUSED_STREAM);
    scripted_flush(world.servers[0].requests[0].peer);
    CHECK("ends", wait_end(&world, &heard));
    CHECK_ERR("it looked at the call, despite its later refusal", heard.err, ERR_UNKNOWN);
    CHECK_U64("once", heard.attempts, 1);
    close_all();
}

static void lost_then_good(struct scripted *s, struct scripted_request *r)
{
    if (s->count == 1)
        stream_close(r->peer->stream);
    else
        scripted_echo(s, r);
}

TEST(a_lost_answer_is_asked_for_again_only_where_a_repeat_does_no_harm)
{
    static const struct {
        const char *why;
        bool idempotent, dedups;
        struct str id;
        uint32_t attempts;
        enum err err;
    } cases[] = {
        {"plain", false, false, {"", 0}, 1, ERR_UNKNOWN},
        {"idempotent", true, false, {"", 0}, 2, ERR_OK},
        {"a request id alone allows nothing", false, false, {"r-1", 3}, 1, ERR_UNKNOWN},
        {"a method that knows it", false, true, {"r-1", 3}, 2, ERR_OK},
        {"which it cannot without one", false, true, {"", 0}, 1, ERR_UNKNOWN},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        open_with(lost_then_good);
        ask(&world, &heard,
            (struct rpc_call_options){.idempotent = cases[i].idempotent,
                                      .dedups_by_request_id = cases[i].dedups,
                                      .request_id = cases[i].id},
            STR("hi"));
        CHECK("ends", wait_end(&world, &heard));
        CHECK_ERR(cases[i].why, heard.err, cases[i].err);
        CHECK_U64(cases[i].why, heard.attempts, cases[i].attempts);
        CHECK_U64("as often as the server saw it", world.servers[0].count, cases[i].attempts);
        for (size_t at = 0; cases[i].id.len > 0 && at < cases[i].attempts; at++)
            CHECK_TEXT("the id is the same each time",
                       scripted_header(&world.servers[0].requests[at], RPC_REQUEST_ID), "r-1");
        close_all();
    }
}

static void echo_on_the_second_connection(struct scripted *s, struct scripted_request *r)
{
    if (r->peer != &s->peers[0]) scripted_echo(s, r);
}

static void lost_then_refused(struct scripted *s, struct scripted_request *r)
{
    if (s->count == 1)
        stream_close(r->peer->stream);
    else
        scripted_reset(r, H2_REFUSED_STREAM);
}

TEST(a_doubt_stays_though_later_attempts_are_refused_for_certain)
{
    open_with(lost_then_refused);
    ask(&world, &heard,
        (struct rpc_call_options){
            .request_id = STR("r-1"), .dedups_by_request_id = true, .attempts_max = 4},
        STR("hi"));
    CHECK("ends", wait_end(&world, &heard));
    CHECK_U64("all attempts", heard.attempts, 4);
    CHECK_ERR("the first may have been applied", heard.err, ERR_UNKNOWN);
    close_all();
}

static void one_message_then_cut(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    scripted_respond(r);
    scripted_message(r, STR("first"));
}

TEST(a_stream_of_which_something_was_seen_is_not_begun_again)
{
    struct rpc_call_options options = {.path = "/a/b", .idempotent = true};

    open_with(one_message_then_cut);
    heard = (struct heard){.world = &world};
    buf_init(&heard.bytes, 1000);
    CHECK_OK("a call", rpc_call_start(world.channel, &options, &heard_events, &heard, &heard.call));
    rpc_call_end(heard.call);
    world_run(&world, 1000);
    CHECK_U64("the first message", heard.messages, 1);
    stream_close(world.servers[0].peers[0].stream);
    CHECK("ends", wait_end(&world, &heard));
    CHECK_ERR("nobody knows the rest", heard.err, ERR_UNKNOWN);
    CHECK_U64("no message came twice", heard.messages, 1);
    CHECK_U64("one attempt", heard.attempts, 1);
    close_all();
}

TEST(streams_below_a_goaway_finish_and_those_above_move_on)
{
    struct heard above = {0}, later = {0};
    struct scripted *s = &world.servers[0];

    open_with(echo_on_the_second_connection);
    ask(&world, &heard, (struct rpc_call_options){0}, STR("below"));
    world_run(&world, 2000);
    CHECK_U64("the server has it", s->count, 1);
    h2_go_away(s->peers[0].h2, H2_NO_ERROR); /* an announcement */
    h2_go_away(s->peers[0].h2, H2_NO_ERROR); /* final: later streams are ignored */
    scripted_flush(&s->peers[0]);
    ask(&world, &above, (struct rpc_call_options){0}, STR("above")); /* they cross on the way */
    CHECK("ends", wait_end(&world, &above));
    CHECK_OK("the one above is done elsewhere", above.err);
    CHECK_U64("at the second attempt", above.attempts, 2);
    CHECK_U64("the one below goes on", heard.ends, 0);
    ask(&world, &later, (struct rpc_call_options){0}, STR("later"));
    CHECK("ends", wait_end(&world, &later));
    CHECK_OK("done", later.err);
    CHECK_U64("a later one goes to the new connection at once", later.attempts, 1);
    CHECK("the old connection is kept for its call", s->peers[0].stream != NULL);
    scripted_echo(s, &s->requests[0]);
    scripted_flush(&s->peers[0]);
    CHECK("ends", wait_end(&world, &heard));
    CHECK_OK("the one below is answered where it was", heard.err);
    CHECK_U64("two connections in all", s->accepted, 2);
    world_run(&world, 5000);
    CHECK("the first one is closed in the end", !s->peers[0].stream);
    heard_deinit(&above);
    heard_deinit(&later);
    close_all();
}

TEST(garbage_is_not_ready_and_ends_no_call_wrongly)
{
    static const struct str garbage[] = {
        {"HTTP/1.1 400 Bad Request\r\n\r\n", 28},
        {"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20},
        {"\377\377\377\377\377\377\377\377\377\377\377\377", 12},
    };

    for (size_t i = 0; i < ARRAY_LEN(garbage); i++) {
        world_open(&world, i);
        world.servers[0].garbage = garbage[i];
        world_channel(&world, (struct rpc_channel_options){0});
        ask(&world, &heard, (struct rpc_call_options){.timeout_ms = 3000}, STR("hi"));
        CHECK("ends", wait_end(&world, &heard));
        CHECK("was not done, for certain",
              heard.err == ERR_UNAVAILABLE || heard.err == ERR_TIMEOUT);
        CHECK_U64("no server saw it", world.servers[0].count, 0);
        close_all();
    }
}

static void gzip_echo(struct scripted *s, struct scripted_request *r)
{
    /* A thousand times "a", compressed with gzip elsewhere. */
    static const unsigned char zipped[] = {
        0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x4b, 0x4c, 0x1c, 0x05, 0xa3,
        0x60, 0x14, 0x0c, 0x77, 0x00, 0x00, 0x03, 0xda, 0x38, 0x9a, 0xe8, 0x03, 0x00, 0x00};
    const struct h2_header headers[] = {{STR(":status"), STR("200")},
                                        {STR("content-type"), STR("application/grpc+proto")},
                                        {STR("grpc-encoding"), STR("gzip")}};
    char head[GRPC_FRAME_BYTES];

    (void)s;
    scripted_respond_with(r, headers, 3, false);
    grpc_frame_write(sizeof zipped, true, head);
    scripted_bytes(r, str_of(head, sizeof head));
    scripted_bytes(r, str_of(zipped, sizeof zipped));
    scripted_trailers(r, "0", NULL);
}

TEST(gzip_answers_are_decoded_within_the_limit)
{
    open_with(gzip_echo);
    ask(&world, &heard, (struct rpc_call_options){0}, STR("hi"));
    CHECK("ends", wait_end(&world, &heard));
    CHECK_OK("done", heard.err);
    CHECK_SIZE("decoded", heard.bytes.len, 1000);
    CHECK("rightly", heard.bytes.data[0] == 'a' && heard.bytes.data[999] == 'a');
    CHECK_HAS("the client announced that it can",
              scripted_header(&world.servers[0].requests[0], "grpc-accept-encoding"), "gzip");
    heard_deinit(&heard);
    /* The compressed message is below the limit, the decompressed one is above it. */
    ask(&world, &heard, (struct rpc_call_options){.response_max = 999}, STR("hi"));
    CHECK("ends", wait_end(&world, &heard));
    CHECK_ERR("done by the server, not known to us", heard.err, ERR_UNKNOWN);
    CHECK_U64("because", heard.status, GRPC_RESOURCE_EXHAUSTED);
    close_all();
}
