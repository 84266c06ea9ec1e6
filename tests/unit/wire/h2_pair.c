/* SPDX-License-Identifier: Apache-2.0 */
#include "h2_pair.h"

#include <stdlib.h>
#include <string.h>

enum { TURNS_MAX = 2000000, LOG_MAX = 64 << 20, DATA_MAX = 64 << 20 };

struct seen *h2_peer_seen(struct h2_peer *p, int32_t stream)
{
    assert(stream > 0);
    return &p->seen[min_size((size_t)stream / 2, SEEN_MAX - 1)];
}

static void copy_text(char *out, size_t cap, struct str s)
{
    size_t n = min_size(s.len, cap - 1);

    memcpy(out, s.at, n);
    out[n] = '\0';
}

void h2_log_flush(struct h2_peer *p)
{
    if (p->log_stream) buf_appendf(&p->log, "%d data %zu\n", p->log_stream, p->log_data);
    p->log_stream = 0;
    p->log_data = 0;
}

static void on_headers(void *owner, int32_t stream, const struct h2_header *headers, size_t count,
                       bool trailers, bool end)
{
    struct h2_peer *p = owner;
    struct seen *s = h2_peer_seen(p, stream);

    h2_log_flush(p);
    buf_appendf(&p->log, "%d %s%s", stream, trailers ? "trailers" : "headers", end ? " end" : "");
    for (size_t i = 0; i < count; i++) {
        struct str name = headers[i].name, value = headers[i].value;
        if (str_equal(name, STR(":status")) || str_equal(name, STR(":path")))
            copy_text(s->status, sizeof s->status, value);
        if (str_equal(name, STR("grpc-status")))
            copy_text(s->grpc_status, sizeof s->grpc_status, value);
        buf_appendf(&p->log, " %.*s=%.*s", STR_ARG(name), (int)min_size(value.len, 100), value.at);
    }
    buf_append_c(&p->log, "\n");
    if (trailers)
        s->trailers++;
    else
        s->headers++;
    if (p->side == H2_SERVER) p->reported++;
    s->end_with_headers = end;
    if (p->on_headers) p->on_headers(p, stream, headers, count, trailers, end);
}

static void on_data(void *owner, int32_t stream, struct str bytes)
{
    struct h2_peer *p = owner;
    struct seen *s = h2_peer_seen(p, stream);

    if (stream / 2 < SEEN_MAX - 1) assert(s->closed == 0 && s->ends == 0);
    if (p->log_stream != stream) h2_log_flush(p);
    p->log_stream = stream;
    p->log_data += bytes.len;
    if (s->data.max == 0) buf_init(&s->data, DATA_MAX);
    if (buf_append(&s->data, bytes)) abort();
    if (!p->hold) h2_consume(p->h2, stream, bytes.len);
    if (p->on_data) p->on_data(p, stream, bytes);
}

static void on_end(void *owner, int32_t stream)
{
    struct h2_peer *p = owner;

    h2_log_flush(p);
    buf_appendf(&p->log, "%d end\n", stream);
    h2_peer_seen(p, stream)->ends++;
    if (p->on_end) p->on_end(p, stream);
}

static void on_writable(void *owner, int32_t stream)
{
    struct h2_peer *p = owner;

    h2_peer_seen(p, stream)->writable++;
    if (p->on_writable) p->on_writable(p, stream);
}

static void on_closed(void *owner, int32_t stream, uint32_t code)
{
    struct h2_peer *p = owner;
    struct seen *s = h2_peer_seen(p, stream);

    h2_log_flush(p);
    buf_appendf(&p->log, "%d closed %u\n", stream, code);
    s->closed++;
    s->code = code;
    if (p->on_closed) p->on_closed(p, stream, code);
}

static void on_goaway(void *owner, int32_t last_stream, uint32_t code)
{
    struct h2_peer *p = owner;

    p->goaways++;
    p->goaway_last = last_stream;
    p->goaway_code = code;
}

static void on_ping_ack(void *owner, uint64_t token)
{
    struct h2_peer *p = owner;

    p->acks++;
    p->ack_token = token;
}

enum err h2_peer_open(struct h2_peer *p, enum h2_side side, const struct h2_limits *limits)
{
    static const struct h2_events events = {on_headers, on_data,   on_end,     on_writable,
                                            on_closed,  on_goaway, on_ping_ack};
    enum err err;

    *p = (struct h2_peer){.side = side};
    p->seen = calloc(SEEN_MAX, sizeof *p->seen);
    if (!p->seen) return ERR_NOMEM;
    buf_init(&p->log, LOG_MAX);
    err = h2_open(side, limits, &events, p, &p->h2);
    if (err) h2_peer_close(p);
    return err;
}

void h2_peer_close(struct h2_peer *p)
{
    h2_close(p->h2);
    p->h2 = NULL;
    for (size_t i = 0; p->seen && i < SEEN_MAX; i++) buf_deinit(&p->seen[i].data);
    free(p->seen);
    p->seen = NULL;
    buf_deinit(&p->log);
}

enum err h2_pair_open(struct h2_pair *pair, const struct h2_limits *server,
                      const struct h2_limits *client)
{
    enum err err;

    *pair = (struct h2_pair){.now = {1000000}};
    prng_seed(&pair->prng, 1);
    err = h2_peer_open(&pair->server, H2_SERVER, server);
    if (!err) err = h2_peer_open(&pair->client, H2_CLIENT, client);
    if (err) h2_pair_close(pair);
    return err;
}

void h2_pair_close(struct h2_pair *pair)
{
    h2_peer_close(&pair->client);
    h2_peer_close(&pair->server);
}

static size_t piece(struct h2_pair *pair, size_t most)
{
    if (pair->piece_max == 0) return most;
    return min_size(most, 1 + prng_below(&pair->prng, pair->piece_max));
}

enum err h2_pair_feed(struct h2_pair *pair, struct h2_peer *to, struct str bytes)
{
    while (bytes.len > 0) {
        size_t n = piece(pair, bytes.len);
        /* A copy of exactly that size, so that ASan sees a read past the end. */
        char *exact = malloc(n);
        if (!exact) return ERR_NOMEM;
        memcpy(exact, bytes.at, n);
        to->err = h2_feed(to->h2, str_of(exact, n), pair->now);
        free(exact);
        if (to->err) return to->err;
        to->fed += n;
        bytes = str_tail(bytes, n);
    }
    return ERR_OK;
}

bool h2_pair_carry(struct h2_pair *pair, struct h2_peer *from, struct h2_peer *to)
{
    struct buf wire;
    bool moved = false;

    buf_init(&wire, SIZE_MAX);
    while (h2_has_output(from->h2)) {
        size_t before = wire.len;
        if (h2_take_output(from->h2, piece(pair, PIECE_MAX), &wire)) break;
        if (wire.len == before) break;
        if (wire.len > 1 << 20) break; /* the other side's turn */
    }
    if (wire.len > 0) {
        moved = true;
        h2_pair_feed(pair, to, buf_peek(&wire));
    }
    buf_deinit(&wire);
    return moved;
}

bool h2_pair_pump(struct h2_pair *pair)
{
    for (unsigned turn = 0; turn < TURNS_MAX; turn++) {
        bool moved = h2_pair_carry(pair, &pair->client, &pair->server);
        moved |= h2_pair_carry(pair, &pair->server, &pair->client);
        if (!moved) return true;
    }
    return false;
}

/* -- a service and its caller -- */

enum err h2_call(struct h2_peer *client, const char *path, bool end, int32_t *ret_stream)
{
    struct h2_header headers[] = {
        {STR(":method"), STR("POST")},
        {STR(":scheme"), STR("http")},
        {STR(":path"), str_from(path)},
        {STR(":authority"), STR("fleet:7790")},
        {STR("content-type"), STR("application/grpc")},
        {STR("te"), STR("trailers")},
        {STR("grpc-timeout"), STR("1S")},
    };

    return h2_request(client->h2, headers, ARRAY_LEN(headers), end, ret_stream);
}

enum err h2_answer(struct h2_peer *server, int32_t stream)
{
    struct h2_header headers[] = {
        {STR(":status"), STR("200")},
        {STR("content-type"), STR("application/grpc")},
    };

    return h2_respond(server->h2, stream, headers, ARRAY_LEN(headers), false);
}

enum err h2_finish(struct h2_peer *server, int32_t stream)
{
    struct h2_header trailers[] = {
        {STR("grpc-status"), STR("0")},
        {STR("grpc-message"), STR("all%20is well")},
    };

    return h2_send_trailers(server->h2, stream, trailers, ARRAY_LEN(trailers));
}

static void echo_headers(struct h2_peer *p, int32_t stream, const struct h2_header *headers,
                         size_t count, bool trailers, bool end)
{
    (void)headers, (void)count;
    if (trailers || h2_answer(p, stream)) return;
    if (end) h2_finish(p, stream);
}

static void echo_data(struct h2_peer *p, int32_t stream, struct str bytes)
{
    h2_send(p->h2, stream, &bytes, 1);
}

static void echo_end(struct h2_peer *p, int32_t stream)
{
    h2_finish(p, stream);
}

void h2_echo(struct h2_peer *server)
{
    server->on_headers = echo_headers;
    server->on_data = echo_data;
    server->on_end = echo_end;
}

/* -- frames by hand -- */

void raw_u32(struct buf *out, uint32_t value)
{
    for (int shift = 24; shift >= 0; shift -= 8) buf_append_byte(out, (char)(value >> shift));
}

void raw_frame(struct buf *out, uint8_t type, uint8_t flags, int32_t stream, struct str payload)
{
    buf_append_byte(out, (char)(payload.len >> 16));
    buf_append_byte(out, (char)(payload.len >> 8));
    buf_append_byte(out, (char)payload.len);
    buf_append_byte(out, (char)type);
    buf_append_byte(out, (char)flags);
    raw_u32(out, (uint32_t)stream);
    buf_append(out, payload);
}

void raw_preface(struct buf *out)
{
    buf_append_c(out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    raw_frame(out, 4, 0, 0, STR_EMPTY);
}

/* An integer behind a 7-bit prefix (RFC 7541, 5.1), no Huffman coding. */
static void raw_text(struct buf *out, struct str s)
{
    size_t left = s.len;

    if (left < 127) {
        buf_append_byte(out, (char)left);
    } else {
        buf_append_byte(out, 127);
        for (left -= 127; left >= 128; left /= 128) buf_append_byte(out, (char)(left % 128 + 128));
        buf_append_byte(out, (char)left);
    }
    buf_append(out, s);
}

void raw_field(struct buf *out, struct str name, struct str value)
{
    buf_append_byte(out, 0); /* literal, not indexed, new name */
    raw_text(out, name);
    raw_text(out, value);
}

void raw_request(struct buf *out, int32_t stream, bool end)
{
    struct buf block;

    buf_init(&block, 1 << 16);
    raw_field(&block, STR(":method"), STR("POST"));
    raw_field(&block, STR(":scheme"), STR("http"));
    raw_field(&block, STR(":path"), STR("/a.B/C"));
    raw_field(&block, STR(":authority"), STR("x"));
    raw_frame(out, 1, (uint8_t)(4 | (end ? 1 : 0)), stream, buf_peek(&block));
    buf_deinit(&block);
}
