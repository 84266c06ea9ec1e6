/* SPDX-License-Identifier: Apache-2.0 */
/* Any acts of a client as gRPC sessions with our server, in the virtual world: requests of every
 * kind, right and wrong messages, resets, windows, pings, stray bytes, and time.
 *
 *   byte 0   bit 0: the client does not read; the others: seed
 *   rest     acts: one byte of kind, then its arguments (see act())
 *
 * Invariants: every call that began is done once, all charged memory is refunded (the server
 * asserts it when it closes), and the server closes. */
#include <stdlib.h>
#include <string.h>

#include "echo_service.h"
#include "rpc/health.h"
#include "sim/sim.h"
#include "wire/grpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ACTS_MAX = 200, OUT_MAX = 1 << 20, SESSION_MAX_MS = 20000 };

struct session {
    struct sim *sim;
    struct sim_host *server_host, *client_host;
    struct rpc_server *server;
    struct echo *echo;
    struct rpc_health *health;
    struct stream *client;
    struct buf out;
    int32_t next;
    bool closed;
};
struct input {
    const uint8_t *at;
    size_t left;
};

static void must(bool holds)
{
    if (!holds) abort();
}

static uint8_t take(struct input *in)
{
    if (in->left == 0) return 0;
    in->left--;
    return *in->at++;
}

static struct str take_bytes(struct input *in)
{
    size_t n = take(in);
    struct str bytes;

    n = min_size(n, in->left);
    bytes = str_of(in->at, n);
    in->at += n;
    in->left -= n;
    return bytes;
}

/* -- frames -- */

static void frame(struct buf *out, uint8_t type, uint8_t flags, int32_t stream, struct str payload)
{
    char head[9] = {(char)(payload.len >> 16),
                    (char)(payload.len >> 8),
                    (char)payload.len,
                    (char)type,
                    (char)flags,
                    (char)(stream >> 24),
                    (char)(stream >> 16),
                    (char)(stream >> 8),
                    (char)stream};

    (void)buf_append(out, str_of(head, sizeof head));
    (void)buf_append(out, payload);
}

static void field(struct buf *block, const char *name, const char *value)
{
    (void)buf_append_byte(block, 0);
    (void)buf_append_byte(block, (char)strlen(name));
    (void)buf_append_c(block, name);
    (void)buf_append_byte(block, (char)strlen(value));
    (void)buf_append_c(block, value);
}

static void request(struct session *s, struct input *in)
{
    static const char *const paths[] = {
        "/muster.test.v1.Echo/Unary",
        "/muster.test.v1.Echo/Bidi",
        "/muster.test.v1.Echo/ServerStream",
        "/muster.test.v1.Echo/ClientStream",
        "/grpc.health.v1.Health/Watch",
        "/grpc.health.v1.Health/Check",
        "/none.Such/Method",
        "/",
    };
    uint8_t what = take(in), more = take(in);
    struct buf block;

    buf_init(&block, 4096);
    field(&block, ":method", more & 64 ? "GET" : "POST");
    field(&block, ":scheme", "http");
    field(&block, ":path", paths[what % 8]);
    field(&block, ":authority", "x");
    field(&block, "content-type", more & 32 ? "text/plain" : "application/grpc");
    if (more & 1) field(&block, "grpc-timeout", "10m");
    if (more & 2) field(&block, "grpc-encoding", "gzip");
    if (more & 4) field(&block, "x-a-bin", "AAEC");
    if (more & 8) field(&block, "x-b-bin", "*");
    frame(&s->out, 1, more & 16 ? 5 : 4, s->next, buf_peek(&block));
    s->next += 2;
    buf_deinit(&block);
}

static void message(struct session *s, struct input *in, int32_t stream, bool framed)
{
    uint8_t flags = take(in);
    struct str body = take_bytes(in);
    char head[GRPC_FRAME_BYTES];
    struct buf data;

    buf_init(&data, 4096);
    grpc_frame_write((uint32_t)body.len, flags & 2, head);
    if (framed) (void)buf_append(&data, str_of(head, sizeof head));
    (void)buf_append(&data, body);
    frame(&s->out, 0, flags & 1, stream, buf_peek(&data));
    buf_deinit(&data);
}

static void say(struct session *s)
{
    struct str bytes = buf_peek(&s->out);

    if (s->client && bytes.len > 0) (void)stream_write(s->client, &bytes, 1);
    buf_clear(&s->out);
}

static void act(struct session *s, struct input *in)
{
    uint8_t what = take(in);
    int32_t stream = s->next > 1 ? (int32_t)((what >> 4) % (unsigned)(s->next / 2)) * 2 + 1 : 1;
    char number[4] = {0, 0, 0, 0};

    switch (what & 15) {
    case 0:
    case 1:
    case 2: request(s, in); break;
    case 3:
    case 4:
    case 5: message(s, in, stream, true); break;
    case 6: message(s, in, stream, false); break;
    case 7: frame(&s->out, 3, 0, stream, str_of("\0\0\0\10", 4)); break;
    case 8: (void)buf_append(&s->out, take_bytes(in)); break;
    case 9: frame(&s->out, 6, take(in) & 1, 0, STR("12345678")); break;
    case 10:
        number[2] = (char)take(in);
        frame(&s->out, 8, 0, what & 128 ? 0 : stream, str_of(number, 4));
        break;
    case 11: {
        char setting[6] = {0, 4, 0, 0, (char)take(in), 0}; /* the initial window */
        frame(&s->out, 4, 0, 0, str_of(setting, 6));
        break;
    }
    case 12: frame(&s->out, take(in), take(in), stream, take_bytes(in)); break;
    case 13:
        if (s->client && what & 16) stream_resume(s->client);
        break;
    default:
        say(s);
        sim_run_for(s->sim, take(in));
        break;
    }
}

/* -- the session -- */

static void on_bytes(void *owner, struct str bytes)
{
    (void)owner, (void)bytes;
}
static void on_closed(void *owner, enum err why, const struct note *note)
{
    (void)why, (void)note;
    ((struct session *)owner)->client = NULL;
}
static const struct stream_events events = {.on_bytes = on_bytes, .on_closed = on_closed};

static void on_server_closed(void *owner)
{
    ((struct session *)owner)->closed = true;
}

static void open_session(struct session *s, uint64_t seed)
{
    struct io *io;

    must(!sim_open(&(struct sim_options){.seed = seed}, &s->sim));
    must(!sim_host_add(s->sim, &(struct sim_host_options){.name = "server"}, &s->server_host));
    must(!sim_host_add(s->sim, &(struct sim_host_options){.name = "client"}, &s->client_host));
    io = sim_host_io(s->server_host);
    must(!rpc_server_open(&(struct rpc_server_options){.io = io,
                                                       .limits = {.stream_window = 1 << 16,
                                                                  .stream_output_max = 1 << 12,
                                                                  .output_max = 1 << 14,
                                                                  .socket_output_max = 1 << 15,
                                                                  .buffered_max = 1 << 20,
                                                                  .calls_max = 20,
                                                                  .header_timeout_ms = 500,
                                                                  .ping_after_ms = 1000,
                                                                  .ping_timeout_ms = 500}},
                          &s->server, NULL));
    must(!echo_open(s->server, &(struct echo_options){.io = io, .request_max = 1000}, &s->echo,
                    NULL));
    must(!rpc_health_open(s->server, &s->health, NULL));
    must(!rpc_server_listen(s->server, "server:1", NULL, NULL));
    must(!net_dial(sim_host_io(s->client_host)->net, &(struct dial_options){.address = "server:1"},
                   &events, s, &s->client, NULL));
    buf_init(&s->out, OUT_MAX);
    s->next = 1;
    (void)buf_append_c(&s->out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    frame(&s->out, 4, 0, 0, STR_EMPTY);
}

static void close_session(struct session *s)
{
    rpc_server_close(s->server, on_server_closed, s);
    sim_run_for(s->sim, 1000);
    must(s->closed);
    must(echo_stats(s->echo).done == echo_stats(s->echo).begun);
    echo_close(s->echo);
    rpc_health_close(s->health);
    if (s->client) stream_close(s->client);
    sim_run_for(s->sim, 100);
    sim_close(s->sim);
    buf_deinit(&s->out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct session s = {0};
    uint8_t mode = take(&in);

    open_session(&s, mode);
    if (mode & 1) stream_pause(s.client);
    for (int i = 0; i < ACTS_MAX && in.left > 0; i++) act(&s, &in);
    say(&s);
    sim_run_for(s.sim, SESSION_MAX_MS);
    close_session(&s);
    return 0;
}
