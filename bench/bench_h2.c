/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of one unary exchange in HTTP/2 alone: two connections joined in memory, no sockets, no
 * protobuf. Both halves are counted: request and answer are each written once and read once. The
 * same exchange with bare nghttp2 calls is the floor; the difference is ours.
 *
 * usage: bench_h2 [commit] */
#include "bench.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "wire/grpc.h"
#include "wire/h2.h"

enum {
    ROUNDS = 7,
    CALLS = 128000,
    IN_FLIGHT = 64,
    BODY = 64,
    BULK_CALLS = 200,
    BULK_BODY = 1 << 20
};

static void must(bool holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "bench_h2: %s\n", what);
    exit(1);
}

/* ---- ours ---- */

static struct h2 *server, *client;
static size_t answered, got_bytes;
static char body[BULK_BODY + GRPC_FRAME_BYTES];
static size_t body_len;
static size_t request_left,
    answer_left; /* of the exchange that runs, when it is larger than a bound */

static void send_some(struct h2 *h2, int32_t stream, size_t *left)
{
    while (*left > 0) {
        size_t n = min_size(*left, 64 << 10);
        struct str part = str_of(body + body_len - *left, n);
        if (h2_send(h2, stream, &part, 1)) return;
        *left -= n;
    }
}

static void server_headers(void *owner, int32_t stream, const struct h2_header *headers,
                           size_t count, bool trailers, bool end)
{
    (void)owner, (void)stream, (void)headers, (void)count, (void)trailers, (void)end;
}

static void server_data(void *owner, int32_t stream, struct str bytes)
{
    (void)owner;
    h2_consume(server, stream, bytes.len);
}

static void server_answer(int32_t stream)
{
    static const struct h2_header trailers[] = {{{"grpc-status", 11}, {"0", 1}}};

    send_some(server, stream, &answer_left);
    if (answer_left == 0) must(!h2_send_trailers(server, stream, trailers, 1), "trailers");
}

static void server_end(void *owner, int32_t stream)
{
    static const struct h2_header headers[] = {{{":status", 7}, {"200", 3}},
                                               {{"content-type", 12}, {"application/grpc", 16}}};

    (void)owner;
    must(!h2_respond(server, stream, headers, 2, false), "respond");
    answer_left = body_len;
    server_answer(stream);
}

static void server_writable(void *owner, int32_t stream)
{
    (void)owner;
    server_answer(stream);
}

static void client_headers(void *owner, int32_t stream, const struct h2_header *headers,
                           size_t count, bool trailers, bool end)
{
    (void)owner, (void)stream, (void)headers, (void)count, (void)end;
    answered += trailers;
}

static void client_data(void *owner, int32_t stream, struct str bytes)
{
    (void)owner;
    got_bytes += bytes.len;
    h2_consume(client, stream, bytes.len);
}

static void client_writable(void *owner, int32_t stream)
{
    (void)owner;
    send_some(client, stream, &request_left);
    if (request_left == 0) must(!h2_send_end(client, stream), "end");
}

static void no_end(void *owner, int32_t stream)
{
    (void)owner, (void)stream;
}

static void no_close(void *owner, int32_t stream, uint32_t code)
{
    (void)owner, (void)stream;
    must(code == 0, "a stream ended badly");
}

static void open_both(void)
{
    static const struct h2_events at_server = {
        server_headers, server_data, server_end, server_writable, no_close, NULL, NULL};
    static const struct h2_events at_client = {client_headers, client_data, no_end, client_writable,
                                               no_close,       NULL,        NULL};

    must(!h2_open(H2_SERVER, NULL, &at_server, NULL, &server), "server");
    must(!h2_open(H2_CLIENT, NULL, &at_client, NULL, &client), "client");
}

static bool clock_halves; /* per batch, not per call: reading the clock costs, too */
static double server_ns;  /* spent in the server's half */

static bool carry(struct h2 *from, struct h2 *to, struct buf *wire)
{
    double start = clock_halves ? clock_ns(CLOCK_PROCESS_CPUTIME_ID) : 0, middle;

    buf_clear(wire);
    must(!h2_take_output(from, 64 << 10, wire), "output");
    middle = clock_halves ? clock_ns(CLOCK_PROCESS_CPUTIME_ID) : 0;
    if (wire->len > 0) must(!h2_feed(to, buf_peek(wire), (mono_time){1}), "feed");
    if (clock_halves)
        server_ns += from == server ? middle - start : clock_ns(CLOCK_PROCESS_CPUTIME_ID) - middle;
    return wire->len > 0;
}

static void request(void)
{
    static const struct h2_header headers[] = {
        {{":method", 7}, {"POST", 4}},
        {{":scheme", 7}, {"http", 4}},
        {{":path", 5}, {"/bigfleet.v1alpha1.Coordinator/ReportShard", 42}},
        {{":authority", 10}, {"fleet.example:7790", 18}},
        {{"te", 2}, {"trailers", 8}},
        {{"content-type", 12}, {"application/grpc", 16}},
        {{"user-agent", 10}, {"muster/0.1", 10}},
        {{"grpc-timeout", 12}, {"10S", 3}},
    };
    int32_t stream;

    must(!h2_request(client, headers, ARRAY_LEN(headers), false, &stream), "request");
    request_left = body_len;
    send_some(client, stream, &request_left);
    if (request_left == 0) must(!h2_send_end(client, stream), "end");
}

/* Nanoseconds of CPU per exchange with `together` streams in flight. */
static double ours(size_t calls, size_t together, double *ret_server)
{
    double best = 1e18;
    struct buf wire;

    buf_init(&wire, 1 << 20);
    for (int round = 0; round < ROUNDS; round++) {
        double start;
        open_both();
        while (carry(client, server, &wire) | carry(server, client, &wire)) {}
        answered = got_bytes = 0;
        server_ns = 0;
        start = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        for (size_t done = 0; done < calls; done += together) {
            for (size_t i = 0; i < together; i++) request();
            while (carry(client, server, &wire) | carry(server, client, &wire)) {}
        }
        start = (clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start) / (double)calls;
        if (start < best) *ret_server = server_ns / (double)calls;
        if (start < best) best = start;
        must(answered == calls && got_bytes == calls * body_len, "not all came back");
        h2_close(client);
        h2_close(server);
    }
    buf_deinit(&wire);
    return best;
}

/* ---- bare nghttp2: the same frames, the least code ---- */

static nghttp2_session *bare_server, *bare_client;
static size_t bare_answered;

#define NV(name, value)                                                                            \
    {                                                                                              \
        (uint8_t *)(name), (uint8_t *)(value), sizeof(name) - 1, sizeof(value) - 1,                \
            NGHTTP2_NV_FLAG_NONE                                                                   \
    }

static ssize_t bare_read(nghttp2_session *session, int32_t id, uint8_t *into, size_t room,
                         uint32_t *flags, nghttp2_data_source *source, void *user)
{
    static nghttp2_nv trailer[] = {NV("grpc-status", "0")};

    (void)user, (void)room, (void)source;
    memcpy(into, body, body_len);
    *flags = NGHTTP2_DATA_FLAG_EOF;
    if (session == bare_server) {
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        nghttp2_submit_trailer(session, id, trailer, 1);
    }
    return (ssize_t)body_len;
}

static int bare_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    static nghttp2_nv head[] = {NV(":status", "200"), NV("content-type", "application/grpc")};
    nghttp2_data_provider data = {.read_callback = bare_read};
    bool end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

    (void)user;
    if (session == bare_client)
        bare_answered += end && frame->hd.type == NGHTTP2_HEADERS;
    else if (end)
        nghttp2_submit_response(session, frame->hd.stream_id, head, 2, &data);
    return 0;
}

static bool bare_carry(nghttp2_session *from, nghttp2_session *to)
{
    const uint8_t *bytes;
    bool moved = false;
    ssize_t n;

    while ((n = nghttp2_session_mem_send(from, &bytes)) > 0) {
        moved = true;
        must(nghttp2_session_mem_recv(to, bytes, (size_t)n) == n, "bare feed");
    }
    return moved;
}

static double bare(size_t calls, size_t together)
{
    static nghttp2_nv head[] = {
        NV(":method", "POST"),
        NV(":scheme", "http"),
        NV(":path", "/bigfleet.v1alpha1.Coordinator/ReportShard"),
        NV(":authority", "fleet.example:7790"),
        NV("te", "trailers"),
        NV("content-type", "application/grpc"),
        NV("user-agent", "muster/0.1"),
        NV("grpc-timeout", "10S"),
    };
    nghttp2_session_callbacks *callbacks;
    nghttp2_data_provider data = {.read_callback = bare_read};
    double best = 1e18;

    for (int round = 0; round < ROUNDS; round++) {
        double start;
        must(!nghttp2_session_callbacks_new(&callbacks), "memory");
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, bare_frame);
        must(!nghttp2_session_server_new(&bare_server, callbacks, NULL), "memory");
        must(!nghttp2_session_client_new(&bare_client, callbacks, NULL), "memory");
        nghttp2_session_callbacks_del(callbacks);
        nghttp2_submit_settings(bare_server, 0, NULL, 0);
        nghttp2_submit_settings(bare_client, 0, NULL, 0);
        while (bare_carry(bare_client, bare_server) | bare_carry(bare_server, bare_client)) {}
        bare_answered = 0;
        start = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        for (size_t done = 0; done < calls; done += together) {
            for (size_t i = 0; i < together; i++)
                nghttp2_submit_request(bare_client, NULL, head, ARRAY_LEN(head), &data, NULL);
            while (bare_carry(bare_client, bare_server) | bare_carry(bare_server, bare_client)) {}
        }
        start = (clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start) / (double)calls;
        if (start < best) best = start;
        must(bare_answered == calls, "bare: not all came back");
        nghttp2_session_del(bare_client);
        nghttp2_session_del(bare_server);
    }
    return best;
}

int main(int argc, char **argv)
{
    double mine, server_half, floor_ns;

    printf("h2: nghttp2 %s, commit %s\n", nghttp2_version(0)->version_str,
           argc > 1 ? argv[1] : "?");
    body_len = BODY + GRPC_FRAME_BYTES;
    clock_halves = true;
    mine = ours(CALLS, IN_FLIGHT, &server_half);
    floor_ns = bare(CALLS, IN_FLIGHT);
    printf("unary, %d in flight      %7.0f ns CPU, both sides   server alone %5.0f ns   "
           "bare nghttp2, both sides %5.0f ns   %.2f x\n",
           IN_FLIGHT, mine, server_half, floor_ns, mine / floor_ns);
    body_len = BULK_BODY;
    clock_halves = false;
    mine = ours(BULK_CALLS, 1, &server_half);
    printf("unary, 1 MiB each way    %7.0f us CPU, both sides   %.1f GiB/s through both\n",
           mine / 1e3, 2.0 * BULK_BODY / mine * 1e9 / (1 << 30));
    return 0;
}
