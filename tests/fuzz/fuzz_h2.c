/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an HTTP/2 connection: a server that has read the client's preface, or a client that
 * has sent requests. The owner echoes, and between pieces does something at random.
 *
 *   byte 0   bit 0: client; the others: limits
 *   byte 1   seed of the pieces and of the owner's acts
 *   rest     the bytes that the peer sends
 *
 * Invariants: a stream is closed once, and gets no event before its headers or after its end;
 * memory stays within its ceiling, and is all freed at the end (h2_close asserts it). */
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "wire/h2.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STREAMS = 16, MEMORY_MAX = 1 << 20, TURNS_MAX = 100000 };
enum { OUTPUT_MAX = 4096, STREAM_OUTPUT_MAX = 1500 };

static void must(bool holds)
{
    if (!holds) abort();
}

struct live {
    int32_t id; /* 0: free */
    bool headers, trailers, ended, reset, blocked;
    size_t unconsumed;
};
struct owner {
    struct h2 *h2;
    bool server;
    struct live live[2 * STREAMS];
    struct prng prng;
    unsigned reported, closed;
};

static struct live *find(struct owner *o, int32_t id)
{
    for (size_t i = 0; i < 2 * STREAMS; i++)
        if (o->live[i].id == id) return &o->live[i];
    return NULL;
}

static struct live *report(struct owner *o, int32_t id)
{
    struct live *l = find(o, 0);

    must(id > 0 && id % 2 == 1 && !find(o, id));
    must(l != NULL); /* never more open than the limit */
    *l = (struct live){.id = id};
    o->reported++;
    return l;
}

static void finish(struct owner *o, int32_t id)
{
    static const struct h2_header trailers[] = {{{"grpc-status", 11}, {"0", 1}}};
    enum err err;

    if (o->server)
        err = h2_send_trailers(o->h2, id, trailers, 1);
    else
        err = h2_send_end(o->h2, id);
    must(err == ERR_OK || err == ERR_INVALID || err == ERR_CLOSED);
}

static void on_headers(void *owner, int32_t id, const struct h2_header *headers, size_t count,
                       bool trailers, bool end)
{
    static const struct h2_header answer[] = {{{":status", 7}, {"200", 3}}};
    struct owner *o = owner;
    struct live *l = o->server ? report(o, id) : find(o, id);
    size_t bytes = 0;

    must(l && !l->ended && !l->reset && !l->trailers);
    must(!(o->server && trailers) && trailers == l->headers);
    for (size_t i = 0; i < count; i++) bytes += headers[i].name.len + headers[i].value.len + 32;
    must(count <= 20 && bytes <= 5000);
    l->headers = true;
    l->trailers = trailers;
    l->ended = end;
    if (!o->server) return;
    must(h2_respond(o->h2, id, answer, 1, prng_chance(&o->prng, 100000)) == ERR_OK);
    if (end) finish(o, id);
}

static void on_data(void *owner, int32_t id, struct str bytes)
{
    struct owner *o = owner;
    struct live *l = find(o, id);
    enum err err;

    must(l && l->headers && !l->ended && !l->reset);
    l->unconsumed += bytes.len;
    must(l->unconsumed <= 70000); /* the window */
    if (prng_chance(&o->prng, 700000)) {
        h2_consume(o->h2, id, l->unconsumed);
        l->unconsumed = 0;
    }
    err = h2_send(o->h2, id, &bytes, 1);
    must(err != ERR_NOMEM);
    if (err == ERR_FULL) l->blocked = true;
}

static void on_end(void *owner, int32_t id)
{
    struct owner *o = owner;
    struct live *l = find(o, id);

    must(l && l->headers && !l->ended && !l->reset);
    l->ended = true;
    finish(o, id);
}

static void on_writable(void *owner, int32_t id)
{
    struct owner *o = owner;
    struct live *l = find(o, id);

    must(l && l->blocked && !l->reset);
    l->blocked = false;
    must(h2_send_room(o->h2, id) >= STREAM_OUTPUT_MAX / 2);
}

static void on_closed(void *owner, int32_t id, uint32_t code)
{
    struct owner *o = owner;
    struct live *l = find(o, id);
    struct str late = STR("late");

    (void)code;
    must(l != NULL); /* reported, and not closed before */
    l->id = 0;
    o->closed++;
    must(h2_send(o->h2, id, &late, 1) == ERR_CLOSED && h2_stream_pending(o->h2, id) == 0);
}

static void call(struct owner *o)
{
    static const struct h2_header headers[] = {
        {{":method", 7}, {"POST", 4}},
        {{":scheme", 7}, {"http", 4}},
        {{":path", 5}, {"/a.B/C", 6}},
        {{":authority", 10}, {"a", 1}},
    };
    bool end = prng_chance(&o->prng, 300000);
    int32_t id = 0;
    enum err err = h2_request(o->h2, headers, 4, end, &id);

    must(err == ERR_OK || err == ERR_FULL || err == ERR_CLOSED);
    if (!err) report(o, id);
}

/* One random act of the owner on one random stream. */
static void act(struct owner *o)
{
    struct live *l = &o->live[prng_below(&o->prng, 2 * STREAMS)];
    struct str word = STR("a few words of the owner's own");

    switch (prng_below(&o->prng, 40)) {
    case 0:
        if (!l->id) break;
        l->reset = true;
        h2_reset(o->h2, l->id, H2_CANCEL);
        break;
    case 1: h2_go_away(o->h2, 0); break;
    case 2: h2_ping(o->h2, 7); break;
    case 3:
        if (l->id) finish(o, l->id);
        break;
    case 4:
        if (!o->server) call(o);
        break;
    case 5: h2_consume(o->h2, (int32_t)prng_below(&o->prng, 99), 1000); break;
    default:
        if (l->id && !l->reset && h2_send(o->h2, l->id, &word, 1) == ERR_FULL) l->blocked = true;
    }
}

static void take(struct owner *o, size_t max)
{
    struct buf out;
    enum err err;

    buf_init(&out, SIZE_MAX);
    err = h2_take_output(o->h2, max, &out);
    must(err == ERR_OK || err == ERR_DENIED);
    must(out.len <= max);
    buf_deinit(&out);
}

static void converse(struct owner *o, const uint8_t *data, size_t size)
{
    mono_time now = {5};
    enum err err = ERR_OK;

    while (size > 0 && !err) {
        size_t n =
            min_size(size, 1 + prng_below(&o->prng, prng_chance(&o->prng, 500000) ? 9 : 999));
        uint8_t *exact = malloc(n);
        must(exact != NULL);
        memcpy(exact, data, n);
        err = h2_feed(o->h2, str_of(exact, n), now);
        free(exact);
        must(err == ERR_OK || err == ERR_DENIED);
        must(h2_memory(o->h2) <= MEMORY_MAX + 4096);
        must(h2_pending(o->h2) <= OUTPUT_MAX && h2_streams(o->h2) <= 2 * STREAMS);
        must(o->reported - o->closed >= h2_streams(o->h2));
        data += n;
        size -= n;
        now.ms += prng_below(&o->prng, 1000);
        act(o);
        if (prng_chance(&o->prng, 600000)) take(o, prng_below(&o->prng, 5000));
    }
    for (unsigned turn = 0; h2_has_output(o->h2); turn++) {
        must(turn < TURNS_MAX);
        take(o, 1 + prng_below(&o->prng, 30000));
    }
    if (err) must(h2_is_over(o->h2));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct h2_events events = {on_headers, on_data, on_end, on_writable,
                                            on_closed,  NULL,    NULL};
    struct h2_limits limits = {.streams_max = STREAMS,
                               .headers_max = 20,
                               .header_bytes_max = 5000,
                               .stream_output_max = STREAM_OUTPUT_MAX,
                               .output_max = OUTPUT_MAX,
                               .memory_max = MEMORY_MAX,
                               .stream_window = 70000,
                               .connection_window = 100000};
    struct owner o = {0};

    if (size < 2) return 0;
    o.server = !(data[0] & 1);
    if (data[0] & 2) limits.resets_per_minute_max = 2, limits.pings_per_minute_max = 2;
    if (data[0] & 4) limits.memory_max = 40000;
    prng_seed(&o.prng, data[1]);
    must(h2_open(o.server ? H2_SERVER : H2_CLIENT, &limits, &events, &o, &o.h2) == ERR_OK);
    if (o.server) {
        must(h2_feed(o.h2, STR("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"),
                     (mono_time){1}) == ERR_OK);
    } else {
        for (int i = 0; i < 3; i++) call(&o);
        take(&o, 100000);
    }
    converse(&o, data + 2, size - 2);
    h2_close(o.h2);
    return 0;
}
