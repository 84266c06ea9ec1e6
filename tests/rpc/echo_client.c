/* SPDX-License-Identifier: Apache-2.0 */
/* Our client over the real operating system, against the foreign server of
 * tests/integration/rpc/test_python_server.py, which starts this program and controls it by
 * environment:
 *   MUSTER_ECHO_ADDRESS    where the server listens
 *   MUSTER_ECHO_TLS        a directory with ca.pem, NAME.pem and NAME.key.pem; empty: plaintext
 *   MUSTER_ECHO_NAME       NAME of the certificate we show; empty: none
 * What the server does with a call is asked for in its metadata x-do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/real.h"
#include "lib/test.h"
#include "rpc/client.h"

enum { DEADLINE_MS = 30000, BYTES_MAX = 64 << 20, PATH_CAP = 512 };

struct scene {
    struct real_io *real;
    struct io *io;
    struct tls_context *tls;
    struct rpc_channel *channel;
    struct timer deadline;
    bool late, closed;
};
struct heard {
    unsigned ends, messages, writables;
    struct buf bytes;
    enum err err;
    enum grpc_status status;
    bool answered;
    char text[256], header[256], trailer[256];
    size_t details;
    struct rpc_client_call *call;
    unsigned cancel_after;
};
static struct scene scene;
static struct heard heard;

static const char *from_environment(const char *name)
{
    const char *value = getenv(name);

    return value ? value : "";
}

static void on_late(struct timer *timer)
{
    (void)timer;
    scene.late = true;
}

static void open_tls(const char *directory)
{
    const char *name = from_environment("MUSTER_ECHO_NAME");
    char cert[PATH_CAP], key[PATH_CAP], ca[PATH_CAP];
    struct note note = {0};

    snprintf(cert, sizeof cert, "%s/%s.pem", directory, name);
    snprintf(key, sizeof key, "%s/%s.key.pem", directory, name);
    snprintf(ca, sizeof ca, "%s/ca.pem", directory);
    CHECK_OK("TLS material",
             tls_context_open(scene.io->fs,
                              &(struct tls_options){.side = TLS_CLIENT,
                                                    .version_min = TLS_V1_2,
                                                    .cert_file = name[0] ? cert : NULL,
                                                    .key_file = name[0] ? key : NULL,
                                                    .ca_files = {ca},
                                                    .alpn = {"h2"}},
                              &scene.tls, &note));
}

static void open_scene(void)
{
    const char *const addresses[] = {from_environment("MUSTER_ECHO_ADDRESS"), NULL};
    const char *directory = from_environment("MUSTER_ECHO_TLS");
    struct note note = {0};

    if (!addresses[0][0]) SKIP("no server: MUSTER_ECHO_ADDRESS is not set");
    scene = (struct scene){0};
    CHECK_OK("a loop", real_io_open(&scene.real));
    scene.io = real_io_io(scene.real);
    CHECK_OK("a timer", timer_init(&scene.deadline, scene.io->loop, on_late));
    if (directory[0]) open_tls(directory);
    CHECK_OK("a channel", rpc_channel_open(&(struct rpc_channel_options){.io = scene.io,
                                                                         .addresses = addresses,
                                                                         .tls = scene.tls},
                                           &scene.channel, &note));
}

static void on_closed(void *owner)
{
    (void)owner;
    scene.closed = true;
}

#define UNTIL(condition)                                                                           \
    do {                                                                                           \
        scene.late = false;                                                                        \
        timer_start_in(&scene.deadline, DEADLINE_MS);                                              \
        while (!(condition) && !scene.late) real_io_turn(scene.real, true);                        \
        timer_stop(&scene.deadline);                                                               \
    } while (0)

static void close_scene(void)
{
    rpc_channel_close(scene.channel, on_closed, NULL);
    UNTIL(scene.closed);
    CHECK("closed", scene.closed);
    tls_context_unref(scene.tls);
    timer_deinit(&scene.deadline);
    real_io_close(scene.real);
    buf_deinit(&heard.bytes);
}

static void on_message(void *owner, struct rpc_client_call *call, struct str message)
{
    struct heard *h = owner;

    h->messages++;
    CHECK_OK("room", buf_append(&h->bytes, message));
    if (h->cancel_after == h->messages) rpc_call_cancel(call);
}

static void on_writable(void *owner, struct rpc_client_call *call)
{
    (void)call;
    ((struct heard *)owner)->writables++;
}

static void copy(char *into, size_t cap, struct str value)
{
    snprintf(into, cap, "%.*s", STR_ARG(value));
}

static void on_end(void *owner, struct rpc_client_call *call, const struct rpc_outcome *outcome)
{
    struct heard *h = owner;
    struct str value;

    h->ends++;
    h->call = NULL;
    h->err = outcome->err;
    h->status = outcome->status;
    h->answered = outcome->answered;
    h->details = outcome->details.len;
    copy(h->text, sizeof h->text, outcome->text);
    if (rpc_call_header(call, STR("x-first"), &value)) copy(h->header, sizeof h->header, value);
    if (rpc_call_trailer(call, STR("x-last-bin"), &value))
        copy(h->trailer, sizeof h->trailer, value);
}

static const struct rpc_call_events events = {on_message, on_writable, on_end};

static void start(const char *method, const char *what, uint64_t timeout_ms)
{
    char path[64];
    const struct h2_header metadata[] = {{STR("x-do"), str_from(what)},
                                         {STR("x-color"), STR("blue")},
                                         {STR("x-raw-bin"), str_of("\0\1\377", 3)}};

    snprintf(path, sizeof path, "/test.Echo/%s", method);
    buf_deinit(&heard.bytes);
    heard = (struct heard){0};
    buf_init(&heard.bytes, BYTES_MAX);
    CHECK_OK("a call", rpc_call_start(scene.channel,
                                      &(struct rpc_call_options){.path = path,
                                                                 .metadata = metadata,
                                                                 .metadata_count = 3,
                                                                 .timeout_ms = timeout_ms,
                                                                 .wait_for_ready = true,
                                                                 .response_max = 8 << 20},
                                      &events, &heard, &heard.call));
}

static void ask(const char *method, const char *what, struct str request)
{
    start(method, what, DEADLINE_MS);
    CHECK_OK("send", rpc_call_send(heard.call, request));
    rpc_call_end(heard.call);
    UNTIL(heard.ends > 0);
    CHECK_U64("ends once", heard.ends, 1);
}

TEST(unary)
{
    open_scene();
    ask("Unary", "", STR("hello"));
    CHECK_OK("done", heard.err);
    CHECK_STR("echo", buf_peek(&heard.bytes), STR("hello"));
    ask("Unary", "", STR(""));
    CHECK_OK("an empty message is a message", heard.err);
    CHECK_U64("one", heard.messages, 1);
    close_scene();
}

TEST(three_mebibytes)
{
    size_t len = 3 << 20;
    char *bytes = malloc(len);

    CHECK("memory", bytes);
    for (size_t i = 0; i < len; i++) bytes[i] = (char)(i * 31 + (i >> 11));
    open_scene();
    ask("Unary", "", str_of(bytes, len));
    CHECK_OK("done", heard.err);
    CHECK("unchanged", heard.bytes.len == len && memcmp(heard.bytes.data, bytes, len) == 0);
    free(bytes);
    close_scene();
}

TEST(server_stream)
{
    open_scene();
    ask("ServerStream", "", STR("1000"));
    CHECK_OK("done", heard.err);
    CHECK_U64("all", heard.messages, 1000);
    close_scene();
}

static void send_waiting(struct str message)
{
    enum err err = rpc_call_send(heard.call, message);

    while (err == ERR_FULL) {
        heard.writables = 0;
        UNTIL(heard.writables > 0 || heard.ends > 0);
        CHECK_U64("not over", heard.ends, 0);
        err = rpc_call_send(heard.call, message);
    }
    CHECK_OK("sent", err);
}

TEST(client_stream)
{
    static char block[50000];

    open_scene();
    start("ClientStream", "", DEADLINE_MS);
    for (int i = 0; i < 200; i++) send_waiting(str_of(block, sizeof block));
    rpc_call_end(heard.call);
    UNTIL(heard.ends > 0);
    CHECK_OK("done", heard.err);
    CHECK_STR("the count and the bytes that the server received", buf_peek(&heard.bytes),
              STR("200 10000000"));
    close_scene();
}

TEST(bidirectional_stream)
{
    char text[32];

    open_scene();
    start("Bidi", "", DEADLINE_MS);
    for (unsigned i = 0; i < 500; i++) { /* one at a time, each answered before the next */
        snprintf(text, sizeof text, "%04u", i);
        CHECK_OK("send", rpc_call_send(heard.call, str_from(text)));
        if (i % 50 == 0) {
            UNTIL(heard.messages == i + 1 || heard.ends > 0);
            CHECK_U64("answered", heard.messages, i + 1);
        }
    }
    rpc_call_end(heard.call);
    UNTIL(heard.ends > 0);
    CHECK_OK("done", heard.err);
    CHECK_U64("all", heard.messages, 500);
    for (unsigned i = 0; i < 500; i++) {
        snprintf(text, sizeof text, "%04u", i);
        CHECK("in order", memcmp(heard.bytes.data + 4 * i, text, 4) == 0);
    }
    close_scene();
}

TEST(forty_large_messages_both_ways)
{
    static char block[1 << 20];

    open_scene();
    start("Bidi", "", DEADLINE_MS);
    for (int i = 0; i < 40; i++) send_waiting(str_of(block, sizeof block));
    rpc_call_end(heard.call);
    UNTIL(heard.ends > 0);
    CHECK_OK("done", heard.err);
    CHECK_SIZE("all came back", heard.bytes.len, 40 * sizeof block);
    close_scene();
}

TEST(a_deadline_is_seen_by_the_server_and_kept_here)
{
    uint64_t left = 0;

    open_scene();
    ask("Unary", "deadline", STR(""));
    CHECK_OK("done", heard.err);
    CHECK_OK("a number", str_to_u64(buf_peek(&heard.bytes), &left));
    CHECK("the deadline that the server saw", left > 0 && left <= DEADLINE_MS);
    start("Unary", "sleep:20", 300);
    CHECK_OK("send", rpc_call_send(heard.call, STR("x")));
    rpc_call_end(heard.call);
    UNTIL(heard.ends > 0);
    CHECK_ERR("sent and not answered", heard.err, ERR_UNKNOWN);
    CHECK_U64("because", heard.status, GRPC_DEADLINE_EXCEEDED);
    close_scene();
}

TEST(cancelling_reaches_the_server)
{
    uint64_t before = 0, after = 0;

    open_scene();
    ask("Unary", "cancelled", STR(""));
    CHECK_OK("a number", str_to_u64(buf_peek(&heard.bytes), &before));
    start("ServerStream", "endless", 0);
    heard.cancel_after = 3;
    CHECK_OK("send", rpc_call_send(heard.call, STR("0")));
    rpc_call_end(heard.call);
    UNTIL(heard.ends > 0);
    CHECK_U64("by us", heard.status, GRPC_CANCELLED);
    CHECK_U64("nothing after it", heard.messages, 3);
    for (int i = 0; i < 200 && after <= before; i++) {
        ask("Unary", "cancelled", STR(""));
        CHECK_OK("a number", str_to_u64(buf_peek(&heard.bytes), &after));
    }
    CHECK("the server saw it", after == before + 1);
    close_scene();
}

TEST(errors_come_with_code_text_and_details)
{
    open_scene();
    ask("Unary", "fail:5", STR("x"));
    CHECK_ERR("code", heard.err, ERR_NOT_FOUND);
    CHECK("said by the peer", heard.answered);
    CHECK_TEXT("text", heard.text, "sorry, 50% of \xe2\x82\xac\nare gone");
    CHECK_SIZE("details", heard.details, 4);
    ask("Unary", "fail:14", STR("x"));
    CHECK_ERR("after UNAVAILABLE the result is unknown", heard.err, ERR_UNKNOWN);
    ask("Unary", "raise", STR("x"));
    CHECK_ERR("an exception in the server", heard.err, ERR_UNKNOWN);
    CHECK_U64("code", heard.status, GRPC_UNKNOWN);
    ask("ServerStream", "fail:9", STR("5"));
    CHECK_U64("after some messages", heard.messages, 5);
    CHECK_ERR("code", heard.err, ERR_PRECONDITION);
    ask("NoSuchMethod", "", STR("x"));
    CHECK_ERR("unknown method", heard.err, ERR_UNSUPPORTED);
    close_scene();
}

TEST(metadata_goes_both_ways)
{
    open_scene();
    ask("Unary", "metadata", STR("x"));
    CHECK_OK("done", heard.err);
    CHECK_STR("ours", buf_peek(&heard.bytes), STR("blue 0001ff"));
    CHECK_TEXT("its headers", heard.header, "one");
    CHECK_TEXT("its trailers", heard.trailer, "two");
    close_scene();
}

TEST(gzip_answers_are_read)
{
    open_scene();
    ask("Unary", "gzip", STR("x"));
    CHECK_OK("done", heard.err);
    CHECK_SIZE("inflated", heard.bytes.len, 100000);
    close_scene();
}

TEST(an_answer_past_the_limit_is_not_kept)
{
    open_scene();
    ask("Unary", "huge", STR("x"));
    CHECK_ERR("the server applied it; the result is unknown here", heard.err, ERR_UNKNOWN);
    CHECK_U64("because", heard.status, GRPC_RESOURCE_EXHAUSTED);
    CHECK_SIZE("nothing was kept", heard.bytes.len, 0);
    ask("Unary", "", STR("still"));
    CHECK_OK("and the connection lives", heard.err);
    close_scene();
}

static unsigned many_done, many_good;
static void one_done(void *owner, const struct rpc_client_call *call,
                     const struct rpc_outcome *outcome, struct str message)
{
    (void)owner, (void)call;
    many_done++;
    many_good += !outcome->err && str_equal(message, STR("many"));
}

TEST(a_thousand_calls_at_once)
{
    open_scene();
    many_done = many_good = 0;
    for (int i = 0; i < 1000; i++)
        CHECK_OK("a call", rpc_unary(scene.channel,
                                     &(struct rpc_call_options){.path = "/test.Echo/Unary",
                                                                .wait_for_ready = true},
                                     STR("many"), one_done, NULL, NULL));
    UNTIL(many_done == 1000);
    CHECK_U64("each ends once, and well", many_good, 1000);
    buf_init(&heard.bytes, BYTES_MAX);
    close_scene();
}

TEST(the_client_certificate_is_seen_under_tls)
{
    if (!from_environment("MUSTER_ECHO_TLS")[0]) SKIP("plaintext has no identity");
    open_scene();
    ask("Unary", "who", STR("x"));
    CHECK_OK("done", heard.err);
    CHECK("the URI of our certificate",
          buf_append_byte(&heard.bytes, '\0') == ERR_OK &&
              strstr(heard.bytes.data, "bigfleet://shard/s1") != NULL);
    close_scene();
}

/* Run alone, with a certificate that the server must refuse. */
TEST(refused_and_for_certain_not_applied)
{
    struct note note = {0};

    if (!from_environment("MUSTER_ECHO_REFUSED")[0]) SKIP("for clients that must be refused");
    open_scene();
    buf_init(&heard.bytes, BYTES_MAX);
    heard = (struct heard){0};
    CHECK_OK("a call",
             rpc_call_start(scene.channel, &(struct rpc_call_options){.path = "/test.Echo/Unary"},
                            &events, &heard, &heard.call));
    CHECK_OK("send", rpc_call_send(heard.call, STR("x")));
    rpc_call_end(heard.call);
    UNTIL(heard.ends > 0);
    CHECK_U64("ends once", heard.ends, 1);
    note_set(&note, "%s: %s", err_name(heard.err), heard.text);
    CHECK(note.text, heard.err == ERR_UNAVAILABLE);
    CHECK("with a reason", heard.text[0] != '\0');
    close_scene();
}
