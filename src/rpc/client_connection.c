/* SPDX-License-Identifier: Apache-2.0 */
/* One connection: passes bytes between a stream and an h2, and events to calls.
 *
 * The timer has three uses in turn: the dial timeout until the server's first bytes, then the ping
 * interval and timeout, then the timeout of an orderly close. */
#include <stdlib.h>
#include <string.h>

#include "rpc/client_internal.h"

/* A client tolerates any number of resets by its server, but bounds the memory. */
static const struct h2_limits connection_limits = {
    .streams_max = 1u << 16,
    .memory_max = 64u << 20,
    .resets_per_minute_max = 10u * 1000 * 1000,
};

/* -- its calls -- */

static struct rpc_client_call *client_call_of(const struct client_connection *n, int32_t stream)
{
    return h2_bound(n->h2, stream);
}

void client_add_call(struct client_connection *n, struct rpc_client_call *call)
{
    call->connection = n;
    n->calls_count++;
    h2_bind(n->h2, call->stream, call);
}

void client_remove_call(struct client_connection *n, struct rpc_client_call *call)
{
    h2_bind(n->h2, call->stream, NULL);
    call->connection = NULL;
    call->stream = 0;
    assert(n->calls_count > 0);
    n->calls_count--;
    /* A stream was freed: a waiting call may start, or a retiring connection may be done. */
    if (!list_empty(&n->channel->waiting) || n->state == CLIENT_RETIRING ||
        n->channel->extra_count > 0)
        channel_touch(n->channel);
}

/* -- the states: see struct client_connection -- */

static void client_to(struct client_connection *n, enum client_state to)
{
    static const uint8_t moves[] = {
        [CLIENT_DIALING] = BIT(CLIENT_READY) | BIT(CLIENT_RETIRING) | BIT(CLIENT_CLOSING),
        [CLIENT_READY] = BIT(CLIENT_RETIRING) | BIT(CLIENT_CLOSING),
        [CLIENT_RETIRING] = BIT(CLIENT_RETIRING) | BIT(CLIENT_CLOSING),
        [CLIENT_CLOSING] = BIT(CLIENT_CLOSING),
    };

    assert(moves[n->state] & BIT(to));
    assert(to != CLIENT_READY || n->h2);
    n->state = to;
}

bool client_has_spoken(const struct client_connection *n)
{
    return n->ready_since.ms != MONO_NEVER.ms;
}

static void client_spoke(struct client_connection *n, mono_time now)
{
    n->ready_since = now;
    if (n->state == CLIENT_DIALING) client_to(n, CLIENT_READY);
}

/* -- events of h2 -- */

static void client_on_headers(void *owner, int32_t stream, const struct h2_header *headers,
                              size_t count, bool trailers, bool end)
{
    struct rpc_client_call *call = client_call_of(owner, stream);
    if (call) answer_headers(call, headers, count, trailers, end);
}

static void client_on_data(void *owner, int32_t stream, struct str bytes)
{
    struct client_connection *n = owner;
    struct rpc_client_call *call = client_call_of(n, stream);

    if (call)
        answer_data(call, bytes);
    else
        h2_consume(n->h2, stream, bytes.len); /* the call is gone */
}

static void client_on_stream_end(void *owner, int32_t stream)
{
    struct rpc_client_call *call = client_call_of(owner, stream);
    if (call) answer_ended(call);
}

static void client_on_writable(void *owner, int32_t stream)
{
    struct rpc_client_call *call = client_call_of(owner, stream);
    if (call) client_call_pump(call);
}

static void client_on_stream_closed(void *owner, int32_t stream, uint32_t code)
{
    struct client_connection *n = owner;
    struct rpc_client_call *call = client_call_of(n, stream);

    if (call) answer_closed(call, code);
    if (!list_empty(&n->channel->waiting)) channel_touch(n->channel);
}

/* h2 has closed the streams above the last accepted stream as refused. */
static void client_on_goaway(void *owner, int32_t, uint32_t code)
{
    struct client_connection *n = owner;

    /* The ping interval is doubled at most once per connection, so that repeated codes cannot stop
     * all pings. */
    if (code == H2_ENHANCE_YOUR_CALM && !n->goaway && n->channel->options.ping_after_ms)
        n->channel->options.ping_after_ms =
            add_sat_u64(n->channel->options.ping_after_ms, n->channel->options.ping_after_ms);
    n->goaway = true;
    if (!client_has_spoken(n)) client_spoke(n, loop_now(n->channel->io->loop));
    note_set(&n->channel->last_failure, "%s: the server is going away", n->address);
    roles_drop(n);
    client_retire(n);
}

static const struct h2_events client_connection_h2_events = {
    .on_headers = client_on_headers,
    .on_data = client_on_data,
    .on_end = client_on_stream_end,
    .on_writable = client_on_writable,
    .on_closed = client_on_stream_closed,
    .on_goaway = client_on_goaway,
};

/* -- time -- */

static void client_watch_silence(struct client_connection *n)
{
    n->ping_waits = false;
    if (n->channel->options.ping_after_ms)
        timer_start(&n->timer, mono_after(n->heard, n->channel->options.ping_after_ms));
    else
        timer_stop(&n->timer);
}

static void client_on_timer(struct timer *timer)
{
    struct client_connection *n = CONTAINER_OF(timer, struct client_connection, timer);
    const struct rpc_channel_options *options = &n->channel->options;
    mono_time now = loop_now(n->channel->io->loop);

    if (!client_has_spoken(n) || n->ping_waits || n->state == CLIENT_CLOSING) {
        if (!client_has_spoken(n))
            note_set(&n->why, "%s: the server did not speak within %llu ms", n->address,
                     (unsigned long long)options->dial_timeout_ms);
        else if (n->ping_waits)
            note_set(&n->why, "%s: no answer to a ping", n->address);
        client_cut(n);
    } else if (mono_elapsed_ms(n->heard, now) < options->ping_after_ms) {
        client_watch_silence(n);
    } else if (n->calls_count > 0 || n == n->channel->spare) {
        /* A spare counts as ready only while its server answers. */
        n->ping_waits = true;
        if (h2_ping(n->h2, prng_u64(&n->channel->prng))) client_cut(n);
        timer_start_in(&n->timer, options->ping_timeout_ms);
    } else {
        timer_start_in(&n->timer, options->ping_after_ms);
    }
}

void client_probe(struct client_connection *n, uint64_t timeout_ms)
{
    if (n->state != CLIENT_READY || n->ping_waits) return;
    n->ping_waits = true;
    if (h2_ping(n->h2, prng_u64(&n->channel->prng))) {
        client_cut(n);
        return;
    }
    timer_start_in(&n->timer, timeout_ms);
    channel_touch(n->channel);
}

/* -- events of the stream -- */

static const char broke_protocol[] = "the server broke the protocol";

static void client_cut_because(struct client_connection *n, const char *why)
{
    note_set(&n->why, "%s: %s", n->address, why);
    client_cut(n);
}

static void client_on_open(void *owner)
{
    struct client_connection *n = owner;

    if (n->channel->options.tls && strcmp(stream_alpn(n->stream), "h2") != 0) {
        client_cut_because(n, "the server does not speak h2");
    } else if (h2_open(H2_CLIENT, &connection_limits, &client_connection_h2_events, n, &n->h2)) {
        n->h2 = NULL;
        client_cut_because(n, err_text(ERR_NOMEM));
    }
}

static void client_on_bytes(void *owner, struct str bytes)
{
    struct client_connection *n = owner;
    mono_time now = loop_now(n->channel->io->loop);
    enum err err;

    if (n->state == CLIENT_CLOSING) return;
    n->heard = now;
    if (!client_has_spoken(n) && str_starts(bytes, STR("HTTP/"))) { /* this is HTTP/1 */
        client_cut_because(n, "the server speaks HTTP/1.1, not gRPC; is this the port of its "
                              "dashboard and metrics?");
        return;
    }
    err = h2_feed(n->h2, bytes, now);
    if (err) {
        client_cut_because(n, err == ERR_NOMEM ? err_text(err) : broke_protocol);
        return;
    }
    if (!client_has_spoken(n)) {
        client_spoke(n, now);
        client_watch_silence(n);
        roles_ready(n);
    } else if (n->ping_waits) {
        client_watch_silence(n);
    }
}

static void client_on_end(void *owner)
{
    client_cut(owner);
}

static void client_lose_calls(struct client_connection *n, const struct note *why)
{
    while (!list_empty(&n->calls)) {
        struct rpc_client_call *call = CONTAINER_OF(n->calls.next, struct rpc_client_call, link);
        struct attempt attempt = {
            .end = client_call_was_sent(call) ? ATTEMPT_LOST : ATTEMPT_UNSENT,
            .status = GRPC_UNAVAILABLE,
        };
        if (call->incoming == INCOMING_WHOLE) {
            answer_set_aside(call);
            continue;
        }
        attempt.text = str_from(arena_dup(&call->answer, str_from(why->text)));
        client_call_over(call, &attempt);
    }
}

static void client_free(struct client_connection *n)
{
    list_remove(&n->link);
    timer_deinit(&n->timer);
    buf_deinit(&n->output);
    h2_close(n->h2);
    free(n);
}

static void client_on_closed(void *owner, enum err why, const struct note *note)
{
    struct client_connection *n = owner;
    struct rpc_channel *c = n->channel;
    struct note text = n->why;

    if (!text.text[0] && note && note->text[0])
        note_set(&text, "%s: %s", n->address, note->text);
    else if (!text.text[0])
        note_set(&text, "%s: connection %s", n->address, why == ERR_CLOSED ? "closed" : "lost");
    n->stream = NULL;
    client_to(n, CLIENT_CLOSING);
    roles_lost(n, &text);
    client_lose_calls(n, &text);
    client_free(n);
    channel_touch(c);
}

static void client_on_drained(void *owner)
{
    channel_touch(
        ((struct client_connection *)owner)->channel); /* flushed at the end of the turn */
}

static const struct stream_events client_connection_stream_events = {.on_open = client_on_open,
                                                                     .on_bytes = client_on_bytes,
                                                                     .on_drained =
                                                                         client_on_drained,
                                                                     .on_end = client_on_end,
                                                                     .on_closed = client_on_closed};

/* -- actions -- */

enum err client_dial(struct rpc_channel *c, const char *address,
                     struct client_connection **ret_connection, struct note *note)
{
    const struct dial_options options = {
        .address = address,
        .tls = c->options.tls,
        .tls_name = c->tls_name,
        .timeout_ms = c->options.dial_timeout_ms,
        .output_max = CONNECTION_OUTPUT_MAX,
    };
    struct client_connection *n = calloc(1, sizeof *n);
    enum err err;

    if (!n) return ERR_NOMEM;
    assert(strlen(address) < sizeof n->address);
    n->channel = c;
    n->ready_since = MONO_NEVER;
    memcpy(n->address, address, strlen(address) + 1);
    list_init(&n->link);
    list_init(&n->calls);
    buf_init(&n->output, CONNECTION_OUTPUT_MAX);
    err = timer_init(&n->timer, c->io->loop, client_on_timer);
    if (!err)
        err = net_dial(c->io->net, &options, &client_connection_stream_events, n, &n->stream, note);
    if (err) {
        client_free(n);
        return err;
    }
    list_append(&c->connections, &n->link);
    timer_start_in(&n->timer, c->options.dial_timeout_ms);
    *ret_connection = n;
    return ERR_OK;
}

void client_cut(struct client_connection *n)
{
    if (n->channel->active == n || n->channel->next == n || n->channel->spare == n) {
        if (n->why.text[0]) n->channel->last_failure = n->why;
        roles_drop(n);
    }
    client_to(n, CLIENT_CLOSING);
    timer_stop(&n->timer);
    stream_close(n->stream);
}

void client_retire(struct client_connection *n)
{
    if (!n->h2)
        client_cut(n);
    else if (n->state != CLIENT_CLOSING)
        client_to(n, CLIENT_RETIRING);
}

static void client_end_in_order(struct client_connection *n)
{
    client_to(n, CLIENT_CLOSING);
    h2_go_away(n->h2, H2_NO_ERROR);
    timer_start_in(&n->timer, CONNECTION_LINGER_MS);
}

/* Writes while at most half of the output bound is pending, because then another half fits. With
 * more pending, client_on_drained triggers the next flush. */
void client_flush(struct client_connection *n)
{
    struct str bytes;
    bool ending = false;
    enum err err = ERR_OK;

    if (!n->h2 || n->state == CLIENT_CLOSING) return;
    if (n->state == CLIENT_RETIRING && n->calls_count == 0) {
        client_end_in_order(n);
        ending = true;
    }
    while (!err && h2_has_output(n->h2) && stream_pending(n->stream) <= CONNECTION_OUTPUT_MAX / 2) {
        n->flushes++;
        err = h2_take_output(n->h2, CONNECTION_OUTPUT_MAX / 2, &n->output);
        bytes = buf_peek(&n->output);
        if (bytes.len == 0) break;
        if (stream_write(n->stream, &bytes, 1)) break; /* the stream is closed; on_closed follows */
        buf_clear(&n->output);
    }
    if (ending) {
        stream_end(n->stream);
    } else if (n->goaway && (err || h2_is_over(n->h2))) {
        client_cut(n);
    } else if (err || h2_is_over(n->h2)) {
        client_cut_because(n, broke_protocol);
    }
}
