/* SPDX-License-Identifier: Apache-2.0 */
/* Calls: the four kinds byte by byte, their ends, and the guarantees to a handler. */
#include <stdio.h>
#include <string.h>

#include "lib/test.h"
#include "rig.h"

#define UNARY  "/muster.test.v1.Echo/Unary"
#define STREAM "/muster.test.v1.Echo/ServerStream"
#define UP     "/muster.test.v1.Echo/ClientStream"
#define BIDI   "/muster.test.v1.Echo/Bidi"

static struct rig rig;

/* Decodes each message of a body. */
static size_t decode(struct buf *body, struct arena *arena, echo_response **into, size_t cap)
{
    struct str rest = buf_peek(body);
    size_t count = 0;

    while (rest.len >= GRPC_FRAME_BYTES) {
        size_t len = 0;
        for (size_t i = 1; i < GRPC_FRAME_BYTES; i++) len = len << 8 | (unsigned char)rest.at[i];
        CHECK("whole", rest.len - GRPC_FRAME_BYTES >= len && count < cap);
        CHECK_OK("decodes", message_read(&muster__test__v1__echo_response__descriptor,
                                         str_of(rest.at + GRPC_FRAME_BYTES, len), NULL, arena,
                                         (ProtobufCMessage **)&into[count], NULL));
        count++;
        rest = str_tail(rest, GRPC_FRAME_BYTES + len);
    }
    CHECK_SIZE("nothing after the last", rest.len, 0);
    return count;
}

TEST(a_unary_call_comes_back_with_headers_message_and_trailers)
{
    struct client *c;
    struct answer *a;
    struct arena arena;
    echo_response *got[1];
    int32_t stream;

    rig_open(&rig, NULL, NULL, NULL);
    c = client_connect(&rig, 0, false);
    c->keep = true;
    stream = client_unary(c, UNARY, &ECHO_REQUEST(.text = (char *)"hello", .sequence = 9));
    client_wait_closed(c, stream);
    a = client_answer(c, stream);
    CHECK_I64("http", a->http, 200);
    CHECK_I64("grpc", a->grpc, 0);
    CHECK_U64("headers once", a->headers, 1);
    CHECK_U64("trailers once", a->trailers, 1);
    CHECK_U64("a good end", a->code, 0);
    CHECK_TEXT("the accepted encodings", a->accept, "identity,gzip");
    CHECK_SIZE("a trace id", strlen(a->trace), 32);
    arena_init(&arena, 1 << 20);
    CHECK_SIZE("one message", decode(&a->body, &arena, got, 1), 1);
    CHECK_TEXT("text", got[0]->text, "hello");
    CHECK_U64("sequence", got[0]->sequence, 9);
    arena_deinit(&arena);
    CHECK_U64("the handler was done with it", echo_stats(rig.echo).done, 1);
    CHECK_U64("no call is left", rpc_server_stats(rig.server).calls, 0);
    rig_close(&rig);
}

static const struct {
    const char *why, *method, *path, *content_type;
    int http, grpc;
} refused[] = {
    {"no such method", "POST", "/muster.test.v1.Echo/Nothing", "application/grpc", 200, 12},
    {"no such service", "POST", "/x/y", "application/grpc", 200, 12},
    {"GET", "GET", UNARY, "application/grpc", 405, 13},
    {"not gRPC", "POST", UNARY, "application/json", 415, 13},
    {"almost gRPC", "POST", UNARY, "application/grpcx", 415, 13},
    {"no content type", "POST", UNARY, NULL, 415, 13},
    {"with a suffix it is gRPC, and lacks its message", "POST", UNARY, "application/grpc+proto",
     200, 12},
};

TEST(an_invalid_call_is_refused_with_trailers_only_and_a_request_without_grpc_in_text)
{
    struct client *c;

    rig_open(&rig, NULL, NULL, NULL);
    c = client_connect(&rig, 0, false);
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        struct h2_header headers[] = {
            {STR(":method"), str_from(refused[i].method)},
            {STR(":scheme"), STR("http")},
            {STR(":path"), str_from(refused[i].path)},
            {STR(":authority"), STR("server")},
            {STR("content-type"), str_from(refused[i].content_type)},
        };
        struct answer *a;
        int32_t stream = 0;
        CHECK_OK("request",
                 h2_request(c->h2, headers, refused[i].content_type ? 5 : 4, true, &stream));
        rig_client_flush(c);
        client_wait_closed(c, stream);
        a = client_answer(c, stream);
        CHECK_I64(refused[i].why, a->http, refused[i].http);
        CHECK_I64(refused[i].why, a->grpc, refused[i].grpc);
        CHECK_U64("headers only", a->headers, 1);
        CHECK_U64("trailers only after messages", a->trailers, refused[i].http != 200);
    }
    CHECK("the connection lives", c->open);
    rig_close(&rig);
}

/* More requests than may wait at once, and one that is too long to wait for. */
TEST(a_request_without_grpc_is_answered_at_its_end_and_the_wait_is_bounded)
{
    static const char block[30000];
    const struct h2_header headers[] = {{STR(":method"), STR("POST")},
                                        {STR(":scheme"), STR("http")},
                                        {STR(":path"), STR("/upload")},
                                        {STR(":authority"), STR("server")}};
    const struct str part = str_of(block, sizeof block);
    int32_t streams[9] = {0};
    struct client *c;

    rig_open(&rig, &(struct rpc_server_limits){.calls_max = 8}, NULL, NULL);
    c = client_connect(&rig, 0, false);
    for (size_t i = 0; i < ARRAY_LEN(streams); i++)
        CHECK_OK("request", h2_request(c->h2, headers, 4, false, &streams[i]));
    rig_client_flush(c);
    client_wait_closed(c, streams[8]); /* waiting requests count as calls */
    CHECK_I64("the ninth is one too many", client_answer(c, streams[8])->http, 200);
    CHECK_I64("the first waits", client_answer(c, streams[0])->http, -1);
    CHECK_OK("end", h2_send_end(c->h2, streams[0]));
    rig_client_flush(c);
    client_wait_closed(c, streams[0]);
    CHECK_I64("and is answered", client_answer(c, streams[0])->http, 415);
    for (int i = 0; i < 3; i++) {
        CHECK_OK("data", h2_send(c->h2, streams[1], &part, 1));
        rig_client_flush(c);
    }
    client_wait_closed(c, streams[1]);
    CHECK_I64("a long one before its end", client_answer(c, streams[1])->http, 415);
    h2_reset(c->h2, streams[2], H2_CANCEL);
    CHECK_OK("its place is free again", h2_request(c->h2, headers, 4, true, &streams[2]));
    rig_client_flush(c);
    client_wait_closed(c, streams[2]);
    CHECK("the connection lives", c->open);
    rig_close(&rig);
}

static int32_t stranger(struct client *c, const char *method, bool end)
{
    const struct h2_header headers[] = {{STR(":method"), str_from(method)},
                                        {STR(":scheme"), STR("http")},
                                        {STR(":path"), STR("/index.html")},
                                        {STR(":authority"), STR("server")}};
    int32_t stream = 0;

    CHECK_OK("request", h2_request(c->h2, headers, ARRAY_LEN(headers), end, &stream));
    rig_client_flush(c);
    return stream;
}

TEST(a_request_without_grpc_that_does_not_end_is_answered_in_time)
{
    struct client *c;
    int32_t get, put;

    rig_open(&rig, &(struct rpc_server_limits){.header_timeout_ms = 3000}, NULL, NULL);
    c = client_connect(&rig, 0, false);
    get = stranger(c, "GET", false);
    rig_run(&rig, 1000);
    put = stranger(c, "POST", false);
    rig_run(&rig, 1900);
    CHECK_I64("patience", client_answer(c, get)->http, -1);
    rig_run(&rig, 200);
    CHECK_I64("has an end", client_answer(c, get)->http, 405);
    CHECK_U64("and the peer is reported to stop", client_answer(c, get)->closed, 1);
    CHECK_I64("for each its own", client_answer(c, put)->http, -1);
    rig_run(&rig, 1000);
    CHECK_I64("for each its own", client_answer(c, put)->http, 415);
    CHECK("the connection lives", c->open);
    rig_close(&rig);
}

TEST(a_head_request_is_answered_without_a_body)
{
    struct client *c;

    rig_open(&rig, NULL, NULL, NULL);
    c = client_connect(&rig, 0, false);
    for (int whole = 0; whole < 2; whole++) { /* answered at once, and after the whole request */
        int32_t head = stranger(c, "HEAD", whole), get = stranger(c, "GET", whole);
        if (!whole) client_end(c, head), client_end(c, get);
        client_wait_closed(c, head);
        client_wait_closed(c, get);
        CHECK_I64("the same status", client_answer(c, head)->http, 405);
        CHECK_I64("as GET", client_answer(c, get)->http, 405);
        CHECK_SIZE("no body", client_answer(c, head)->bytes, 0);
        CHECK_U64("no trailers", client_answer(c, head)->trailers, 0);
        CHECK_U64("a good end", client_answer(c, head)->code, 0);
        CHECK("which GET has", client_answer(c, get)->bytes > 0);
    }
    CHECK("the connection lives", c->open);
    rig_close(&rig);
}

static const struct {
    const char *why;
    struct h2_header header;
    int grpc;
} bad_headers[] = {
    {"a timeout that is none", {{"grpc-timeout", 12}, {"soon", 4}}, 3},
    {"an encoding we do not speak", {{"grpc-encoding", 13}, {"br", 2}}, 12},
    {"binary metadata that is no base64", {{"x-echo-bin", 10}, {"***", 3}}, 3},
    {"identity is fine", {{"grpc-encoding", 13}, {"identity", 8}}, 0},
    {"metadata is fine", {{"x-echo-bin", 10}, {"AAEC", 4}}, 0},
};

TEST(headers_are_checked_before_the_handler_runs)
{
    struct client *c;
    uint64_t begun = 0;

    rig_open(&rig, NULL, NULL, NULL);
    c = client_connect(&rig, 0, false);
    for (size_t i = 0; i < ARRAY_LEN(bad_headers); i++) {
        int32_t stream = client_start(c, UNARY, &bad_headers[i].header, 1);
        begun += bad_headers[i].grpc == 0;
        (void)client_send(c, stream, &ECHO_REQUEST());
        client_end(c, stream);
        client_wait_closed(c, stream);
        CHECK_I64(bad_headers[i].why, client_answer(c, stream)->grpc, bad_headers[i].grpc);
        CHECK_U64("reported only of good ones", echo_stats(rig.echo).begun, begun);
    }
    rig_close(&rig);
}

TEST(the_decompression_list_is_sent_once_and_with_each_refusal)
{
    struct h2_header encoding = {STR("grpc-encoding"), STR("br")};
    struct client *c;
    int32_t stream;

    rig_open(&rig, NULL, NULL, NULL);
    c = client_connect(&rig, 0, false);
    for (unsigned i = 0; i < 3; i++) {
        stream = client_unary(c, UNARY, &ECHO_REQUEST());
        client_wait_closed(c, stream);
        CHECK_TEXT("with the first answer", client_answer(c, stream)->accept,
                   i == 0 ? "identity,gzip" : "");
    }
    stream = client_start(c, UNARY, &encoding, 1);
    client_wait_closed(c, stream);
    CHECK_TEXT("with the refusal", client_answer(c, stream)->accept, "identity,gzip");
    stream = client_unary(c, UNARY, &ECHO_REQUEST());
    client_wait_closed(c, stream);
    CHECK_TEXT("not again", client_answer(c, stream)->accept, "");
    rig_close(&rig);
}

TEST(a_deadline_ends_the_call_in_time_and_a_late_answer_is_ignored)
{
    struct h2_header timeout = {STR("grpc-timeout"), STR("50m")};
    struct client *c;
    sim_time began;
    int32_t stream;

    rig_open(&rig, NULL, NULL, NULL);
    c = client_connect(&rig, 0, false);
    began = sim_now(rig.sim);
    stream = client_start(c, UNARY, &timeout, 1);
    CHECK_OK("send", client_send(c, stream, &ECHO_REQUEST(.delay_ms = 200)));
    client_end(c, stream);
    client_wait_closed(c, stream);
    CHECK_I64("deadline exceeded", client_answer(c, stream)->grpc, GRPC_DEADLINE_EXCEEDED);
    CHECK("not early", sim_now(rig.sim).ns - began.ns >= 50 * NS_PER_MS);
    CHECK("not late", sim_now(rig.sim).ns - began.ns < 60 * NS_PER_MS);
    CHECK_U64("the handler was notified", echo_stats(rig.echo).done, 1);
    /* An incomplete request has a deadline, too. */
    stream = client_start(c, UNARY, &timeout, 1);
    client_wait_closed(c, stream);
    CHECK_I64("half a request", client_answer(c, stream)->grpc, GRPC_DEADLINE_EXCEEDED);
    rig_run(&rig, 1000);
    CHECK_U64("no answer was made after it", echo_stats(rig.echo).answers, 0);
    rig_close(&rig);
}

static bool has_begun(void *context)
{
    return echo_stats(rig.echo).begun >= *(uint64_t *)context;
}
static bool is_idle(void *context)
{
    (void)context;
    return echo_stats(rig.echo).open == 0 && rpc_server_stats(rig.server).calls == 0;
}

TEST(a_reset_and_a_lost_connection_end_every_call_once)
{
    uint64_t want = 20;
    struct client *c;
    int32_t first;

    rig_open(&rig, NULL, NULL, NULL);
    c = client_connect(&rig, 0, false);
    first = client_unary(c, UNARY, &ECHO_REQUEST(.delay_ms = 5000));
    for (size_t i = 1; i < want; i++) {
        if (i % 2)
            client_unary(c, UNARY, &ECHO_REQUEST(.delay_ms = 5000));
        else
            client_send(c, client_start(c, BIDI, NULL, 0), &ECHO_REQUEST(.delay_ms = 5000));
    }
    rig_wait(&rig, "all begun", has_begun, &want);
    h2_reset(c->h2, first, H2_CANCEL);
    rig_client_flush(c);
    rig_run(&rig, 100);
    CHECK_U64("one is done", echo_stats(rig.echo).done, 1);
    stream_close(c->stream);
    rig_wait(&rig, "all are done", is_idle, NULL);
    CHECK_U64("each once", echo_stats(rig.echo).done, want);
    CHECK_SIZE("nothing is kept", rpc_server_stats(rig.server).buffered, 0);
    rig_close(&rig);
}

TEST(closing_the_server_ends_every_call_once)
{
    uint64_t want = 10;
    struct client *c;

    rig_open(&rig, NULL, NULL, NULL);
    c = client_connect(&rig, 0, false);
    for (size_t i = 0; i < want; i++) client_unary(c, UNARY, &ECHO_REQUEST(.delay_ms = 5000));
    rig_wait(&rig, "all begun", has_begun, &want);
    rig_close_server(&rig);
    CHECK_U64("done", echo_stats(rig.echo).done, want);
    client_wait_gone(c);
    rig_close(&rig);
}

/* -- a handler that breaks the rules -- */

static void (*script)(struct rpc_call *call);
static unsigned script_done;

static void on_script(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                      struct str bytes)
{
    (void)owner, (void)message, (void)bytes;
    script(call);
}
static void on_script_done(void *owner, struct rpc_call *call)
{
    (void)owner;
    CHECK_ERR("nothing can be sent any more", rpc_send_bytes(call, STR("x")), ERR_CLOSED);
    rpc_finish(call, GRPC_OK, STR_EMPTY, STR_EMPTY);
    script_done++;
}
static const struct rpc_handler script_handler = {.on_message = on_script,
                                                  .on_done = on_script_done};

static void add_script(struct rig *r)
{
    script_done = 0;
    CHECK_OK("add", rpc_server_add(r->server,
                                   &(struct rpc_method){.path = "/test.Script/Run",
                                                        .kind = RPC_UNARY,
                                                        .access = {ACCESS_ANYONE},
                                                        .handler = &script_handler,
                                                        .response_max = 1000},
                                   NULL));
}

static void finish_twice(struct rpc_call *call)
{
    rpc_finish(call, GRPC_ABORTED, STR("first"), STR_EMPTY);
    rpc_finish(call, GRPC_OK, STR("second"), STR_EMPTY);
    rpc_reply_bytes(call, STR("third"));
    CHECK_ERR("nor metadata", rpc_add_trailer(call, STR("x"), STR("y")), ERR_CLOSED);
}
static void close_inside(struct rpc_call *call)
{
    rpc_server_close(rig.server, NULL, NULL);
    rpc_reply_bytes(call, STR("late"));
}
static void bad_metadata(struct rpc_call *call)
{
    CHECK_ERR("upper case", rpc_add_header(call, STR("X-a"), STR("v")), ERR_INVALID);
    CHECK_ERR("pseudo", rpc_add_header(call, STR(":path"), STR("v")), ERR_INVALID);
    CHECK_ERR("gRPC's own", rpc_add_trailer(call, STR("grpc-status"), STR("0")), ERR_INVALID);
    CHECK_ERR("not text", rpc_add_trailer(call, STR("x"), STR("a\nb")), ERR_INVALID);
    CHECK_OK("bytes", rpc_add_trailer(call, STR("x-echo-bin"), str_of("\0\1\2", 3)));
    for (int i = 1; i < RPC_METADATA_OUT_MAX; i++)
        CHECK_OK("room", rpc_add_header(call, STR("x"), STR("v")));
    CHECK_ERR("bounded", rpc_add_header(call, STR("x"), STR("v")), ERR_FULL);
    rpc_reply_bytes(call, STR("good"));
}
static void too_large(struct rpc_call *call)
{
    static const char large[1001];
    CHECK_ERR("past the method's limit", rpc_send_bytes(call, str_of(large, sizeof large)),
              ERR_TOO_LARGE);
    rpc_reply_bytes(call, str_of(large, sizeof large));
}
static void not_text(struct rpc_call *call)
{
    static char text[] = "caf\xe9";
    echo_response response = MUSTER__TEST__V1__ECHO_RESPONSE__INIT;
    response.text = text;
    CHECK_ERR("our mistake", rpc_send(call, &response.base), ERR_INTERNAL);
    rpc_reply(call, &response.base);
}
static void huge_trailers(struct rpc_call *call)
{
    static char value[60000];
    memset(value, 'v', sizeof value);
    for (int i = 0; i < 2; i++)
        CHECK_OK("taken", rpc_add_trailer(call, STR("x"), str_of(value, sizeof value)));
    rpc_finish(call, GRPC_NOT_FOUND, STR("text"), STR_EMPTY);
}

static const struct {
    const char *why;
    void (*script)(struct rpc_call *call);
    int grpc;
    const char *text, *echoed;
} scripts[] = {
    {"the first status counts", finish_twice, GRPC_ABORTED, "first", ""},
    {"metadata is checked and bounded", bad_metadata, GRPC_OK, "", "AAEC"},
    {"an answer past the limit is no \"was not applied\"", too_large, GRPC_INTERNAL,
     "the answer cannot be sent: larger than the limit", ""},
    {"text that is not UTF-8 is reported, not sent", not_text, GRPC_INTERNAL,
     "the answer cannot be sent: muster.test.v1.EchoResponse.text: not UTF-8", ""},
    {"trailers that do not fit leave the status", huge_trailers, GRPC_NOT_FOUND, "", ""},
};

TEST(a_handler_cannot_break_its_call)
{
    struct client *c;

    rig_open(&rig, NULL, NULL, add_script);
    c = client_connect(&rig, 0, false);
    for (size_t i = 0; i < ARRAY_LEN(scripts); i++) {
        int32_t stream;
        script = scripts[i].script;
        stream = client_unary(c, "/test.Script/Run", &ECHO_REQUEST());
        client_wait_closed(c, stream);
        CHECK_I64(scripts[i].why, client_answer(c, stream)->grpc, scripts[i].grpc);
        CHECK_TEXT(scripts[i].why, client_answer(c, stream)->text, scripts[i].text);
        CHECK_TEXT(scripts[i].why, client_answer(c, stream)->echoed, scripts[i].echoed);
        CHECK_U64("done once", script_done, i + 1);
    }
    rig_close(&rig);
}

static struct rpc_call *kept[2];
static unsigned kept_count, answered_others;

static void keep(struct rpc_call *call)
{
    kept[kept_count++] = call;
}
static void on_kept_done(void *owner, struct rpc_call *call)
{
    struct rpc_call *other = kept[kept[0] == call ? 1 : 0];

    (void)owner;
    if (other)
        CHECK_ERR("a call of the same lost connection", rpc_send_bytes(other, STR("x")),
                  ERR_CLOSED);
    if (other) answered_others++;
    kept[kept[0] == call ? 0 : 1] = NULL;
}
static const struct rpc_handler kept_handler = {.on_message = on_script, .on_done = on_kept_done};

static void add_kept(struct rig *r)
{
    CHECK_OK("add", rpc_server_add(r->server,
                                   &(struct rpc_method){.path = "/test.Script/Keep",
                                                        .kind = RPC_UNARY,
                                                        .access = {ACCESS_ANYONE},
                                                        .handler = &kept_handler},
                                   NULL));
}

TEST(when_a_connection_is_lost_all_its_calls_are_closed_before_the_first_callback)
{
    struct client *c;

    kept_count = answered_others = 0;
    rig_open(&rig, NULL, NULL, add_kept);
    c = client_connect(&rig, 0, false);
    script = keep;
    for (int i = 0; i < 2; i++) client_unary(c, "/test.Script/Keep", &ECHO_REQUEST());
    rig_run(&rig, 100);
    CHECK_U64("both run", kept_count, 2);
    stream_close(c->stream);
    rig_run(&rig, 100);
    CHECK("both are done", !kept[0] && !kept[1]);
    CHECK_U64("the first tried the other", answered_others, 1);
    rig_close(&rig);
}

TEST(a_server_may_be_closed_from_inside_a_handler)
{
    struct client *c;

    rig_open(&rig, NULL, NULL, add_script);
    c = client_connect(&rig, 0, false);
    script = close_inside;
    client_unary(c, "/test.Script/Run", &ECHO_REQUEST());
    client_wait_gone(c);
    CHECK_U64("done", script_done, 1);
    rig.server = NULL;
    rig_close(&rig);
}

/* -- back-pressure -- */

static bool is_full(void *context)
{
    (void)context;
    return echo_stats(rig.echo).full > 0;
}

TEST(a_stream_whose_client_does_not_read_waits_and_then_goes_on_in_order)
{
    struct client *c;
    struct arena arena;
    echo_response *got[600];
    struct answer *a;
    uint64_t answers;
    int32_t stream;

    rig_open(&rig, NULL, NULL, NULL);
    c = client_connect(&rig, 0, false);
    c->keep = c->hold = true;
    stream = client_unary(c, STREAM, &ECHO_REQUEST(.count = 600, .response_bytes = 10000));
    rig_wait(&rig, "the handler is reported to wait", is_full, NULL);
    rig_run(&rig, 1000);
    answers = echo_stats(rig.echo).answers;
    CHECK("it does wait", answers < 300);
    rig_run(&rig, 1000);
    CHECK_U64("for ever", echo_stats(rig.echo).answers, answers);
    a = client_answer(c, stream);
    c->hold = false;
    h2_consume(c->h2, stream, a->bytes);
    rig_client_flush(c);
    client_wait_closed(c, stream);
    CHECK_I64("well", a->grpc, 0);
    arena_init(&arena, 64 << 20);
    CHECK_SIZE("all of them", decode(&a->body, &arena, got, ARRAY_LEN(got)), 600);
    arena_deinit(&arena);
    rig_close(&rig);
}

TEST(requests_wait_unread_while_answers_are_not_taken)
{
    struct client *c;
    size_t high;
    enum { CALLS = 200 };

    rig_open(&rig, NULL, NULL, NULL);
    c = client_connect(&rig, 0, false);
    c->hold = true;
    /* 200 answers of 256 KiB: 50 MiB if all were built. */
    for (int i = 0; i < CALLS; i++)
        client_unary(c, UNARY, &ECHO_REQUEST(.response_bytes = 256 << 10));
    rig_run(&rig, 2000);
    high = rpc_server_stats(rig.server).buffered;
    CHECK("some answers wait", high > 0);
    CHECK("not more than the bound and one", high <= (1 << 20) + (258 << 10));
    CHECK("the rest is not even begun", echo_stats(rig.echo).begun < CALLS);
    c->hold = false;
    for (int i = 0; i < CALLS; i++)
        h2_consume(c->h2, 2 * i + 1, client_answer(c, 2 * i + 1)->bytes);
    rig_client_flush(c);
    for (int i = 0; i < CALLS; i++) {
        client_wait_closed(c, 2 * i + 1);
        CHECK_I64("answered", client_answer(c, 2 * i + 1)->grpc, 0);
        CHECK("whole", client_answer(c, 2 * i + 1)->bytes > 256 << 10);
    }
    CHECK_SIZE("nothing is kept", rpc_server_stats(rig.server).buffered, 0);
    rig_close(&rig);
}

TEST(a_large_answer_needs_nothing_more_from_a_peer_with_wide_windows)
{
    struct client *c;
    int32_t stream;

    rig_open(&rig, NULL, NULL, NULL);
    rig.client_window = 8 << 20;
    c = client_connect(&rig, 0, false);
    c->hold = true; /* the client sends nothing after the request */
    stream = client_unary(c, UNARY, &ECHO_REQUEST(.response_bytes = 3 << 20));
    client_wait_closed(c, stream);
    CHECK_I64("well", client_answer(c, stream)->grpc, 0);
    CHECK("whole", client_answer(c, stream)->bytes > 3 << 20);
    rig_close(&rig);
}

TEST(a_status_never_follows_half_a_message)
{
    struct h2_header timeout = {STR("grpc-timeout"), STR("50m")};
    struct client *c;
    int32_t half, whole;

    rig_open(&rig, NULL, NULL, NULL);
    c = client_connect(&rig, 0, false);
    c->hold = true;
    half = client_start(c, STREAM, &timeout, 1);
    CHECK_OK("send", client_send(c, half, &ECHO_REQUEST(.count = 5, .response_bytes = 200000)));
    client_end(c, half);
    whole = client_start(c, STREAM, &timeout, 1);
    CHECK_OK("send", client_send(c, whole, &ECHO_REQUEST(.count = 1, .delay_ms = 100)));
    client_end(c, whole);
    client_wait_closed(c, half);
    CHECK_I64("no status", client_answer(c, half)->grpc, -1);
    CHECK_U64("but a reset", client_answer(c, half)->code, H2_CANCEL);
    client_wait_closed(c, whole);
    CHECK_I64("with nothing torn there is one", client_answer(c, whole)->grpc,
              GRPC_DEADLINE_EXCEEDED);
    CHECK_U64("both are done", echo_stats(rig.echo).done, 2);
    CHECK_SIZE("nothing is kept", rpc_server_stats(rig.server).buffered, 0);
    rig_close(&rig);
}

TEST(a_paused_call_reads_nothing_and_its_peer_feels_it)
{
    struct client *c;
    int32_t stream;
    uint64_t answers;

    rig_open(&rig, NULL, NULL, NULL);
    c = client_connect(&rig, 0, false);
    c->hold = true; /* the echo's answers fill the buffers, then it pauses */
    stream = client_start(c, BIDI, NULL, 0);
    for (int i = 0; i < 400; i++)
        (void)client_send(c, stream, &ECHO_REQUEST(.payload = {10000, (uint8_t[10000]){0}}));
    rig_run(&rig, 3000);
    answers = echo_stats(rig.echo).answers;
    CHECK("it stopped reading", answers < 300);
    CHECK("unread bytes stay with the peer", h2_stream_pending(c->h2, stream) > 1 << 20);
    CHECK("the buffer is bounded by the window",
          rpc_server_stats(rig.server).buffered <= (256 << 10) + 20000);
    c->hold = false;
    h2_consume(c->h2, stream, client_answer(c, stream)->bytes);
    rig_client_flush(c);
    client_end(c, stream);
    client_wait_closed(c, stream);
    CHECK_I64("well", client_answer(c, stream)->grpc, 0);
    CHECK_U64("all came back", echo_stats(rig.echo).answers, 400);
    rig_close(&rig);
}

/* -- unreadable requests -- */

TEST(a_stream_of_bytes_that_are_no_messages_is_refused_with_the_reason)
{
    static const struct {
        const char *why, *path;
        struct str bytes;
        int grpc;
    } cases[] = {
        {"reserved flags", UNARY, {"\2\0\0\0\0", 5}, 13},
        {"compressed without saying how", UNARY, {"\1\0\0\0\1x", 6}, 13},
        {"longer than the limit", UNARY, {"\0\x7f\xff\xff\xff", 5}, 8},
        {"cut off in its head", UNARY, {"\0\0\0", 3}, 3},
        {"cut off in its body", UNARY, {"\0\0\0\0\5hel", 8}, 3},
        {"cut off, in a stream", BIDI, {"\0\0\0\0\5hel", 8}, 3},
        {"no message at all", UNARY, {"", 0}, 12},
        {"two messages", UNARY, {"\0\0\0\0\0\0\0\0\0\0", 10}, 12},
        {"none is fine for a stream", UP, {"", 0}, 0},
        {"not protobuf", UNARY, {"\0\0\0\0\1\xff", 6}, 3},
    };
    struct client *c;

    rig_open(&rig, NULL, NULL, NULL);
    c = client_connect(&rig, 0, false);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int32_t stream = client_start(c, cases[i].path, NULL, 0);
        (void)h2_send(c->h2, stream, &cases[i].bytes, 1);
        client_end(c, stream);
        client_wait_closed(c, stream);
        CHECK_I64(cases[i].why, client_answer(c, stream)->grpc, cases[i].grpc);
    }
    CHECK("the connection lives", c->open);
    CHECK_U64("every handler that began is done", echo_stats(rig.echo).open, 0);
    rig_close(&rig);
}

TEST(bytes_one_by_one_make_the_same_message)
{
    char framed[] = "\0\0\0\0\7\x0a\5hello";
    struct client *c;
    int32_t stream;

    rig_open(&rig, NULL, NULL, NULL);
    c = client_connect(&rig, 0, false);
    stream = client_start(c, BIDI, NULL, 0);
    for (size_t i = 0; i < 12; i++) {
        struct str byte = str_of(framed + i, 1);
        CHECK_OK("send", h2_send(c->h2, stream, &byte, 1));
        rig_client_flush(c);
        rig_run(&rig, 1);
    }
    client_end(c, stream);
    client_wait_closed(c, stream);
    CHECK_I64("well", client_answer(c, stream)->grpc, 0);
    CHECK_U64("one answer", echo_stats(rig.echo).answers, 1);
    rig_close(&rig);
}

/* -- log lines -- */

TEST(a_slow_call_is_logged_with_its_stages_and_trace)
{
    struct h2_header trace = {STR("x-muster-trace"), STR("0123456789abcdef0123456789abcdef")};
    struct client *c;
    int32_t stream;

    rig_open(&rig, &(struct rpc_server_limits){.slow_call_ms = 100}, NULL, NULL);
    c = client_connect(&rig, 0, false);
    client_wait_closed(c, client_unary(c, UNARY, &ECHO_REQUEST(.delay_ms = 50)));
    CHECK_SIZE("a quick one is not", rig.log.len, 0);
    stream = client_start(c, UNARY, &trace, 1);
    CHECK_OK("send", client_send(c, stream, &ECHO_REQUEST(.delay_ms = 150)));
    client_end(c, stream);
    client_wait_closed(c, stream);
    CHECK_OK("NUL", buf_append_byte(&rig.log, 0));
    CHECK_HAS("the line", rig.log.data, "slow call");
    CHECK_HAS("its method", rig.log.data, "method=" UNARY);
    CHECK_HAS("its trace", rig.log.data, "trace=0123456789abcdef0123456789abcdef");
    CHECK_HAS("its stages", rig.log.data, "received=");
    CHECK_HAS("its stages", rig.log.data, "decoded=");
    CHECK_TEXT("and the reply carries it", client_answer(c, stream)->trace,
               "0123456789abcdef0123456789abcdef");
    rig_close(&rig);
}

TEST(calls_are_counted_by_method_and_status)
{
    struct client *c;
    struct buf text;

    rig_open(&rig, NULL, NULL, NULL);
    c = client_connect(&rig, 0, false);
    for (int i = 0; i < 3; i++)
        client_wait_closed(c, client_unary(c, UNARY, &ECHO_REQUEST(.text = (char *)"12345678")));
    for (int i = 0; i < 50; i++) {
        char path[32];
        snprintf(path, sizeof path, "/attack/%d", i);
        client_wait_closed(c, client_unary(c, path, &ECHO_REQUEST()));
    }
    buf_init(&text, 1 << 20);
    CHECK_OK("text", metrics_write(rig.metrics, &text));
    CHECK_OK("NUL", buf_append_byte(&text, 0));
    CHECK_HAS("calls", text.data,
              "muster_rpc_server_calls_total{method=\"muster.test.v1.Echo/Unary\",code=\"OK\"} 3");
    CHECK_HAS("paths from outside make no series", text.data,
              "muster_rpc_server_calls_total{method=\"unknown\",code=\"UNIMPLEMENTED\"} 50");
    CHECK_HAS("time", text.data,
              "muster_rpc_server_seconds_count{method=\"muster.test.v1.Echo/Unary\"} 3");
    CHECK_HAS(
        "bytes", text.data,
        "muster_rpc_server_bytes_total{method=\"muster.test.v1.Echo/Unary\",direction=\"in\"} 30");
    CHECK_HAS("running", text.data, "muster_rpc_server_running 0");
    CHECK_HAS("connections", text.data, "muster_rpc_server_connections 1");
    buf_deinit(&text);
    rig_close(&rig);
}

/* -- messages announced before they are complete -- */

static struct {
    struct rpc_call *call;
    size_t announced[8], delivered[8];
    size_t announced_count, delivered_count;
    size_t inflated_max;
    size_t hold_from; /* pauses on announced messages of at least this size */
    struct buf taken;
} raw;

static void raw_start(void *service, struct rpc_call *call)
{
    (void)service;
    raw.call = call;
}

static void raw_announced(void *service, struct rpc_call *call, size_t bytes)
{
    (void)service;
    raw.announced[raw.announced_count++] = bytes;
    if (bytes >= raw.hold_from) rpc_pause(call);
}

static void raw_message(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                        struct str bytes)
{
    (void)service, (void)message;
    raw.delivered[raw.delivered_count++] = bytes.len;
    buf_deinit(&raw.taken);
    raw.taken = rpc_take_message(call);
    CHECK("the very same bytes", bytes.len == 0 || raw.taken.data == bytes.at);
}

static const struct rpc_handler raw_handler = {
    .on_start = raw_start, .on_announced = raw_announced, .on_message = raw_message};

static void add_raw(struct rig *r)
{
    CHECK_OK("a raw method", rpc_server_add(r->server,
                                            &(struct rpc_method){.path = "/muster.test.v1.Raw/Take",
                                                                 .kind = RPC_BIDI,
                                                                 .request_max = 1 << 20,
                                                                 .inflated_max = raw.inflated_max,
                                                                 .access = {ACCESS_ANYONE},
                                                                 .handler = &raw_handler},
                                            NULL));
}

/* Sends what fits, one turn at a time, until nothing moves for a while; returns the new position.
 * */
static size_t push(struct client *c, int32_t stream, struct str bytes, size_t at)
{
    for (size_t idle = 0; at < bytes.len && idle < 50; idle++) {
        struct str part = str_of(bytes.at + at, min_size(10000, bytes.len - at));
        if (!h2_send(c->h2, stream, &part, 1)) {
            at += part.len;
            idle = 0;
        }
        rig_client_flush(c);
        rig_run(&rig, 10);
    }
    return at;
}

/* A thousand times "a", compressed with gzip elsewhere, in its frame. */
static const char zipped[] = "\x01\0\0\0\x1d\x1f\x8b\x08\0\0\0\0\0\x02\x03\x4b\x4c\x1c\x05"
                             "\xa3\x60\x14\x0c\x77\0\0\x03\xda\x38\x9a\xe8\x03\0";
static const struct h2_header encoded[] = {{{"grpc-encoding", 13}, {"gzip", 4}}};

TEST(a_message_is_announced_before_it_is_read_and_may_be_taken)
{
    static char large[900000 + GRPC_FRAME_BYTES];
    struct client *c;
    int32_t stream;
    size_t at;

    memset(&raw, 0, sizeof raw);
    raw.hold_from = 900000;
    rig_open(&rig, NULL, NULL, add_raw);
    c = client_connect(&rig, 0, false);
    stream = client_start(c, "/muster.test.v1.Raw/Take", encoded, 1);
    CHECK_OK("an empty one", client_send_bytes(c, stream, STR_EMPTY));
    for (size_t i = 0; i < 9; i++) /* each message is announced once, at every cut */
        push(c, stream, str_of("\0\0\0\0\4abcd" + i, 1), 0);
    CHECK_SIZE("the empty one was not", raw.announced_count, 1);
    CHECK_SIZE("the other once", raw.announced[0], 4);
    CHECK_SIZE("both came", raw.delivered_count, 2);
    CHECK_STR("whole, and ours", buf_peek(&raw.taken), STR("abcd"));
    push(c, stream, str_of(zipped, sizeof zipped), 0);
    CHECK_SIZE("announced with the most it can become", raw.announced[1], 0x1d * 1032);
    CHECK_SIZE("and handed over as it is", raw.delivered[2], 1000);
    CHECK_SIZE("ours", raw.taken.len, 1000);
    grpc_frame_write(900000, false, large);
    at = push(c, stream, str_of(large, sizeof large), 0);
    CHECK("one that is held waits at its peer", rpc_server_stats(rig.server).buffered <= 256 << 10);
    CHECK_SIZE("nothing of it is delivered", raw.delivered_count, 3);
    rpc_resume(raw.call);
    push(c, stream, str_of(large, sizeof large), at);
    rig_run(&rig, 100);
    CHECK_SIZE("not announced again", raw.announced_count, 3);
    CHECK_SIZE("then all of it came", raw.delivered[3], 900000);
    buf_deinit(&raw.taken);
    rig_close(&rig);
}

TEST(a_compressed_message_has_a_bound_of_its_own)
{
    struct client *c;
    int32_t stream;

    memset(&raw, 0, sizeof raw);
    raw.hold_from = SIZE_MAX;
    raw.inflated_max = 999;
    rig_open(&rig, NULL, NULL, add_raw);
    c = client_connect(&rig, 0, false);
    stream = client_start(c, "/muster.test.v1.Raw/Take", encoded, 1);
    push(c, stream, str_of(zipped, sizeof zipped), 0);
    CHECK_SIZE("announced with that", raw.announced[0], 999);
    CHECK_SIZE("not handed over", raw.delivered_count, 0);
    CHECK_I64("refused", client_answer(c, stream)->grpc, GRPC_RESOURCE_EXHAUSTED);
    rig_close(&rig);
}
