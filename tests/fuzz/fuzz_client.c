/* SPDX-License-Identifier: Apache-2.0 */
/* Any acts of a server against our client, in the virtual world: right and wrong answers, resets,
 * GOAWAYs, windows, stray frames and bytes, lost connections, and time. Meanwhile the caller makes
 * calls of every kind, pauses, and cancels.
 *
 *   byte 0   the channel's options (see open_session())
 *   byte 1   seed
 *   rest     acts: one byte of kind, then its arguments (see act())
 *
 * Invariants: a call ends once, after its last message and never in a pause. It ends well only if
 * the server returned OK. A status that does not exclude an application never becomes "not done".
 * Lent memory is readable, and the channel closes. */
#include <stdlib.h>
#include <string.h>

#include "rpc/client.h"
#include "sim/sim.h"
#include "wire/grpc.h"
#include "wire/message.h"
#include "wire/pb/muster_test_v1_echo.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    ACTS_MAX = 200,
    OUT_MAX = 1 << 20,
    BLOCK_MAX = 1 << 16,
    CALLS_MAX = 24,
    PEERS_MAX = 64,
    SERVERS = 2,
    SESSION_MAX_MS = 20000,
    RESPONSE_MAX = 3000,
    ATTEMPTS_MAX = 4,
    DECODED_MAX = 1 << 16,
    ARENA_MAX = 1 << 18,
};
enum { FRAME_DATA, FRAME_HEADERS, FRAME_RESET = 3, FRAME_SETTINGS, FRAME_PING = 6, FRAME_GOAWAY };
enum { FRAME_WINDOW = 8, END_STREAM = 1, END_HEADERS = 4 };

struct input {
    const uint8_t *at;
    size_t left;
};
struct session;
struct peer { /* the server's view of a connection */
    struct stream *stream;
    struct buf out;
};
struct called {
    struct session *session;
    struct rpc_client_call *call; /* NULL once ended */
    uint8_t manner;               /* see start_call() */
    bool paused;
    unsigned ends, messages;
};
struct session {
    struct sim *sim;
    struct sim_host *client_host, *server_hosts[SERVERS];
    struct listener *listeners[SERVERS];
    struct peer peers[PEERS_MAX];
    size_t accepted, at; /* peers[at] is the one that acts */
    struct rpc_channel *channel;
    struct called calls[CALLS_MAX];
    size_t called;
    bool mute;    /* the server sends nothing by itself, not even SETTINGS */
    bool patient; /* calls wait for a connection */
    bool closed;
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

/* -- the caller -- */

static void start_call(struct session *s, uint8_t manner, struct str request);

/* Reads every byte, so that a sanitizer finds one that is not ours to read. */
static void read_all(struct str text)
{
    for (size_t i = 0; i < text.len; i++) (void)*(const volatile char *)(text.at + i);
}

static void read_fields(const struct h2_header *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        must(fields[i].name.len > 0 && fields[i].name.at[0] != ':');
        must(!str_starts(fields[i].name, STR("grpc-")));
        read_all(fields[i].name);
        read_all(fields[i].value);
    }
}

static bool says_nothing(enum grpc_status status)
{
    return status == GRPC_UNKNOWN || status == GRPC_CANCELLED || status == GRPC_DEADLINE_EXCEEDED ||
           status == GRPC_INTERNAL || status == GRPC_UNAVAILABLE || status == GRPC_DATA_LOSS;
}

static void judge(struct called *c, const struct rpc_client_call *call,
                  const struct rpc_outcome *outcome)
{
    const struct h2_header *headers, *trailers;
    size_t headers_count = rpc_call_headers(call, &headers);
    size_t trailers_count = rpc_call_trailers(call, &trailers);
    struct str applied = STR_EMPTY;

    must(++c->ends == 1);
    must(outcome->attempts <= ATTEMPTS_MAX);
    must(outcome->status <= GRPC_UNAUTHENTICATED);
    must(!outcome->err == (outcome->answered && outcome->status == GRPC_OK));
    (void)rpc_call_trailer(call, STR(RPC_APPLIED_TRAILER), &applied);
    if (outcome->answered && says_nothing(outcome->status) && !str_equal(applied, STR("no")))
        must(outcome->err == ERR_UNKNOWN);
    read_all(outcome->text);
    read_all(outcome->details);
    read_fields(headers, headers_count);
    read_fields(trailers, trailers_count);
    c->call = NULL;
    if (c->manner & 1) start_call(c->session, c->manner & 0xfe, STR("again"));
}

static void decode(struct str message)
{
    ProtobufCMessage *decoded;
    struct arena arena;
    struct note note;

    must(message.len <= RESPONSE_MAX);
    arena_init(&arena, ARENA_MAX);
    (void)message_read(&muster__test__v1__echo_response__descriptor, message, NULL, &arena,
                       &decoded, &note);
    arena_deinit(&arena);
}

static void unary_done(void *owner, const struct rpc_client_call *call,
                       const struct rpc_outcome *outcome, struct str message)
{
    must(!outcome->err || message.len == 0);
    decode(message);
    judge(owner, call, outcome);
}

static void on_message(void *owner, struct rpc_client_call *call, struct str message)
{
    struct called *c = owner;

    must(c->ends == 0 && !c->paused);
    c->messages++;
    decode(message);
    if (c->manner & 2) rpc_call_pause(call), c->paused = true;
    if (c->manner & 4 && c->messages == 2) rpc_call_cancel(call);
    if (c->manner & 8) (void)rpc_call_send(call, message);
}

static void on_writable(void *owner, struct rpc_client_call *call)
{
    struct called *c = owner;

    must(c->ends == 0);
    (void)rpc_call_send(call, STR("there is room again"));
}

static void on_end(void *owner, struct rpc_client_call *call, const struct rpc_outcome *outcome)
{
    judge(owner, call, outcome);
}

/* Bits of the manner: 0 call again at the end; 1 pause, 2 cancel, 3 answer at a message; 4 request
 * id; 5 a stream; 6 a deadline; 7 idempotent. */
static void start_call(struct session *s, uint8_t manner, struct str request)
{
    static const struct rpc_call_events events = {on_message, on_writable, on_end};
    const struct rpc_call_options options = {
        .path = "/muster.test.v1.Echo/Unary",
        .timeout_ms = manner & 64 ? 50 : 0,
        .request_id = manner & 16 ? STR("id-1") : STR_EMPTY,
        .dedups_by_request_id = manner & 16,
        .idempotent = manner & 128,
        .wait_for_ready = s->patient,
        .response_max = RESPONSE_MAX,
        .attempts_max = ATTEMPTS_MAX,
    };
    struct called *c = &s->calls[s->called];
    enum err err;

    if (s->called == CALLS_MAX || !s->channel) return;
    s->called++;
    *c = (struct called){.session = s, .manner = manner};
    if (!(manner & 32)) {
        err = rpc_unary(s->channel, &options, request, unary_done, c, &c->call);
        must(!err);
        return;
    }
    err = rpc_call_start(s->channel, &options, &events, c, &c->call);
    must(!err);
    (void)rpc_call_send(c->call, request);
}

static void send_much(struct rpc_client_call *call)
{
    static const char zeros[70000];

    for (int i = 0; i < 6; i++)
        if (rpc_call_send(call, str_of(zeros, sizeof zeros))) return;
}

static void caller_acts(struct session *s, struct input *in)
{
    uint8_t what = take(in);
    struct called *c = &s->calls[(what >> 3) % CALLS_MAX];

    if ((what & 7) == 7) rpc_channel_next_address(s->channel);
    if ((what & 7) == 6) rpc_channel_answer_late(s->channel, what);
    if (!c->call) return;
    switch (what & 7) {
    case 0: rpc_call_cancel(c->call); break;
    case 1:
        if (c->manner & 32) rpc_call_pause(c->call), c->paused = true;
        break;
    case 2:
        c->paused = false;
        rpc_call_resume(c->call);
        break;
    case 3: (void)rpc_call_send(c->call, take_bytes(in)); break;
    case 4: rpc_call_end(c->call); break;
    case 5: send_much(c->call); break;
    default: break;
    }
}

/* -- the server -- */

static void on_bytes(void *owner, struct str bytes)
{
    (void)owner, (void)bytes;
}

static void on_closed(void *owner, enum err why, const struct note *note)
{
    (void)why, (void)note;
    ((struct peer *)owner)->stream = NULL;
}
static const struct stream_events peer_events = {.on_bytes = on_bytes, .on_closed = on_closed};

static void frame(struct buf *out, uint8_t type, uint8_t flags, uint32_t stream, struct str payload)
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

static void say(struct peer *p)
{
    struct str bytes = buf_peek(&p->out);

    if (p->stream && bytes.len > 0) (void)stream_write(p->stream, &bytes, 1);
    buf_clear(&p->out);
}

static void on_accept(void *owner, struct stream *own_stream)
{
    struct session *s = owner;
    struct peer *p = &s->peers[s->accepted];

    if (s->accepted == PEERS_MAX) {
        stream_close(own_stream);
        return;
    }
    s->at = s->accepted++;
    p->stream = own_stream;
    buf_init(&p->out, OUT_MAX);
    stream_start(own_stream, &peer_events, p);
    if (!s->mute) frame(&p->out, FRAME_SETTINGS, 0, 0, STR_EMPTY);
    say(p);
}

/* A literal that is not indexed, no Huffman coding; its length takes two bytes at most. */
static void hpack_text(struct buf *block, struct str text)
{
    size_t len = min_size(text.len, 127 + 127);

    (void)buf_append_byte(block, (char)min_size(len, 127));
    if (len >= 127) (void)buf_append_byte(block, (char)(len - 127));
    (void)buf_append(block, str_of(text.at, len));
}

static void field(struct buf *block, struct str name, struct str value)
{
    (void)buf_append_byte(block, 0);
    hpack_text(block, name);
    hpack_text(block, value);
}

static struct str status_text(uint8_t what)
{
    static const char *const texts[] = {"0",
                                        "1",
                                        "2",
                                        "3",
                                        "4",
                                        "5",
                                        "6",
                                        "7",
                                        "8",
                                        "9",
                                        "10",
                                        "11",
                                        "12",
                                        "13",
                                        "14",
                                        "15",
                                        "16",
                                        "17",
                                        "-1",
                                        "",
                                        "OK",
                                        "00",
                                        "18446744073709551616"};

    return str_from(texts[what % ARRAY_LEN(texts)]);
}

/* Known fields, and one with a value from the input. */
static void put_fields(struct buf *block, struct input *in)
{
    static const char *const names[] = {"grpc-message",    "grpc-status-details-bin",
                                        "x-muster-leader", "x-muster-applied",
                                        "grpc-encoding",   "x-any-bin",
                                        "grpc-status",     "x-any"};
    uint8_t what = take(in);

    if (what & 1) field(block, STR("grpc-status"), status_text(take(in)));
    if (what & 2) field(block, STR("x-muster-applied"), STR("no"));
    if (what & 4) field(block, STR("x-muster-leader"), what & 8 ? STR("s1:7000") : STR("s0:7000"));
    if (what & 16) field(block, STR("grpc-encoding"), STR("gzip"));
    if (what & 32) field(block, str_from(names[take(in) % 8]), take_bytes(in));
}

static void answer(struct peer *p, struct input *in, uint32_t stream, bool trailers)
{
    static const char *const statuses[] = {"200", "200", "200", "100", "404", "503", "000", "2"};
    uint8_t what = take(in);
    struct buf block;

    buf_init(&block, BLOCK_MAX);
    if (!trailers) field(&block, STR(":status"), str_from(statuses[what & 7]));
    if (!trailers)
        field(&block, STR("content-type"), what & 8 ? STR("text/html") : STR("application/grpc"));
    put_fields(&block, in);
    frame(&p->out, FRAME_HEADERS,
          (uint8_t)(END_HEADERS | ((what & 16 || trailers) && !(what & 32))), stream,
          buf_peek(&block));
    buf_deinit(&block);
}

static void data(struct peer *p, struct input *in, uint32_t stream, bool framed)
{
    uint8_t flags = take(in);
    struct str body = take_bytes(in);
    char head[GRPC_FRAME_BYTES];
    struct buf bytes;

    buf_init(&bytes, BLOCK_MAX);
    grpc_frame_write((uint32_t)body.len, flags & 2, head);
    if (framed) (void)buf_append(&bytes, str_of(head, sizeof head));
    (void)buf_append(&bytes, body);
    frame(&p->out, FRAME_DATA, flags & END_STREAM, stream, buf_peek(&bytes));
    buf_deinit(&bytes);
}

static void put_number(char into[4], uint32_t number)
{
    for (int i = 0; i < 4; i++) into[i] = (char)(number >> (24 - 8 * i));
}

/* One byte becomes a number of any size. */
static uint32_t stretch(uint8_t byte)
{
    return byte < 128 ? byte : (uint32_t)(byte & 15) << (byte >> 4 & 7) * 4;
}

static void reset(struct peer *p, struct input *in, uint32_t stream)
{
    char code[4];

    put_number(code, take(in) % 15);
    frame(&p->out, FRAME_RESET, 0, stream, str_of(code, 4));
}

static void go_away(struct peer *p, struct input *in)
{
    char body[8];

    put_number(body, stretch(take(in)));
    put_number(body + 4, take(in) % 15);
    frame(&p->out, FRAME_GOAWAY, 0, 0, str_of(body, 8));
}

static void settings(struct peer *p, struct input *in)
{
    char body[6] = {0, (char)(take(in) % 9)};

    put_number(body + 2, stretch(take(in)));
    frame(&p->out, FRAME_SETTINGS, 0, 0, str_of(body, 6));
}

static void window(struct peer *p, struct input *in, uint32_t stream)
{
    char body[4];
    uint8_t what = take(in);

    put_number(body, stretch(take(in)));
    frame(&p->out, FRAME_WINDOW, 0, what & 1 ? stream : 0, str_of(body, 4));
}

static void connection_acts(struct session *s, struct input *in)
{
    uint8_t what = take(in);
    struct peer *p = &s->peers[s->at];

    switch (what & 3) {
    case 0:
        if (p->stream) stream_end(p->stream);
        break;
    case 1:
        if (p->stream) stream_close(p->stream);
        break;
    case 2:
        if (p->stream && what & 4) stream_pause(p->stream);
        if (p->stream && !(what & 4)) stream_resume(p->stream);
        break;
    default:
        say(p);
        s->at = (what >> 2) % s->accepted;
        break;
    }
}

static void act(struct session *s, struct input *in)
{
    uint8_t what = take(in);
    uint32_t stream = (uint32_t)(what >> 4) * 2 + 1;
    struct peer *p = &s->peers[s->at];

    switch (what & 15) {
    case 0: {
        uint8_t manner = take(in);
        start_call(s, manner, take_bytes(in));
        return;
    }
    case 1: caller_acts(s, in); return;
    default: break;
    }
    if (s->accepted == 0 || (what & 15) == 15) {
        if (s->accepted > 0) say(p);
        sim_run_for(s->sim, stretch(take(in)) % 5000);
        return;
    }
    switch (what & 15) {
    case 2: answer(p, in, stream, false); break;
    case 3: answer(p, in, stream, true); break;
    case 4:
    case 5: data(p, in, stream, true); break;
    case 6: data(p, in, stream, false); break;
    case 7: reset(p, in, stream); break;
    case 8: go_away(p, in); break;
    case 9: settings(p, in); break;
    case 10: window(p, in, stream); break;
    case 11: frame(&p->out, FRAME_PING, take(in) & 1, 0, STR("12345678")); break;
    case 12: {
        uint8_t type = take(in), flags = take(in);
        frame(&p->out, type, flags, stream, take_bytes(in));
        break;
    }
    case 13: (void)buf_append(&p->out, take_bytes(in)); break;
    default: connection_acts(s, in); break;
    }
}

/* -- the session -- */

static void on_channel_closed(void *owner)
{
    ((struct session *)owner)->closed = true;
}

static void open_session(struct session *s, uint8_t mode, uint8_t seed)
{
    static const char *const names[SERVERS] = {"s0", "s1"};
    static const char *const addresses[] = {"s0:7000", "s1:7000", NULL};

    s->mute = mode & 16;
    s->patient = !(mode & 64);
    must(!sim_open(&(struct sim_options){.seed = seed}, &s->sim));
    must(!sim_host_add(s->sim, &(struct sim_host_options){.name = "c"}, &s->client_host));
    for (size_t i = 0; i < SERVERS; i++) {
        const struct listen_options listen = {
            .address = addresses[i], .on_accept = on_accept, .owner = s, .output_max = OUT_MAX};
        must(!sim_host_add(s->sim, &(struct sim_host_options){.name = names[i]},
                           &s->server_hosts[i]));
        must(!net_listen(sim_host_io(s->server_hosts[i])->net, &listen, &s->listeners[i], NULL));
    }
    must(!rpc_channel_open(
        &(struct rpc_channel_options){.io = sim_host_io(s->client_host),
                                      .addresses = mode & 8 ? addresses + 1 : addresses,
                                      .warm_second = mode & 1,
                                      .follow_leader = mode & 2,
                                      .ping_after_ms = mode & 4 ? 300 : 0,
                                      .ping_timeout_ms = 500,
                                      .backoff_max_ms = 1000},
        &s->channel, NULL));
    sim_run_for(s->sim, 10); /* until there is a connection */
}

static void close_session(struct session *s)
{
    struct rpc_channel *channel = s->channel;

    s->channel = NULL;
    rpc_channel_close(channel, on_channel_closed, s);
    sim_run_for(s->sim, 5000);
    must(s->closed);
    for (size_t i = 0; i < s->called; i++) must(s->calls[i].ends == 1);
    for (size_t i = 0; i < SERVERS; i++) listener_close(s->listeners[i]);
    for (size_t i = 0; i < s->accepted; i++)
        if (s->peers[i].stream) stream_close(s->peers[i].stream);
    sim_run_for(s->sim, 100);
    sim_close(s->sim);
    for (size_t i = 0; i < s->accepted; i++) buf_deinit(&s->peers[i].out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct input in = {bytes, size};
    struct session s = {0};
    uint8_t mode = take(&in), seed = take(&in);

    open_session(&s, mode, seed);
    for (int i = 0; i < ACTS_MAX && in.left > 0; i++) act(&s, &in);
    for (size_t i = 0; i < s.accepted; i++) say(&s.peers[i]);
    sim_run_for(s.sim, SESSION_MAX_MS);
    close_session(&s);
    return 0;
}
