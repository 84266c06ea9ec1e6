/* SPDX-License-Identifier: Apache-2.0 */
/* One connection: its place in the server's list, its input and its output. HTTP thread only.
 *
 * A connection handles one request at a time. Pipelined requests wait in `input`, and reading
 * pauses while a response waits for output space. A response is written only while less than half
 * of output_max is pending: a write always fits, and on_drained follows. */
#include "io/http_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HTTP_CONNECTION_LINGER_MS = 2000 }; /* for the peer to read the last response */

/* -- opening and closing ----------------------------------------------------------------------- */

static void connection_free(struct http_connection *c)
{
    struct http_server *server = c->server;

    http_channel_leave(c);
    list_remove(&c->link);
    http_page_unref(c->page);
    buf_deinit(&c->input);
    buf_deinit(&c->head_text);
    buf_deinit(&c->body);
    buf_deinit(&c->own_body);
    free(c);
    if (atomic_fetch_sub(&server->connection_count, 1) == server->connections_max &&
        server->listener)
        listener_pause(server->listener, false);
}

static void connection_peer_text(const char *address, char text[HTTP_PEER_CAP])
{
    struct address_parts parts = {.host = STR_EMPTY};

    (void)address_split(address, &parts, NULL); /* the kernel made this text */
    snprintf(text, HTTP_PEER_CAP, "%.*s", STR_ARG(parts.host));
}

static bool connection_peer_is_full(const struct http_server *server, const char *peer)
{
    uint32_t count = 0;

    LIST_EACH(&server->connections, node)
    {
        count += strcmp(CONTAINER_OF(node, struct http_connection, link)->peer, peer) == 0;
    }
    return count >= server->per_peer_max;
}

static const struct stream_events connection_events;

static void connection_on_open(void *owner) /* called for TLS connections only */
{
    struct http_connection *c = owner;

    c->state = CONNECTION_HEAD;
    c->active_at = loop_now(real_io_io(c->server->real)->loop);
}

static enum err connection_secure(struct http_connection *c, struct tls_context *tls)
{
    const struct listen_options options = {.tls = tls, .output_max = HTTP_OUTPUT_MAX};
    enum err err = tls_accept(real_io_io(c->server->real)->loop, &options, c->stream,
                              &connection_events, c, &c->stream, NULL);

    if (!err) http_tls_expire(c->server); /* tls_accept may have reloaded changed files */
    return err;
}

void http_connection_accept(void *owner, struct stream *own_stream)
{
    struct http_server *server = owner;
    struct http_connection *c = calloc(1, sizeof *c);
    struct tls_context *tls = http_tls_now(server);

    if (!c) {
        stream_close(own_stream);
        return;
    }
    connection_peer_text(stream_peer_address(own_stream), c->peer);
    list_init(&c->link);
    list_init(&c->in_channel);
    c->server = server;
    c->stream = own_stream;
    c->state = tls ? CONNECTION_SHAKING : CONNECTION_HEAD;
    c->active_at = loop_now(real_io_io(server->real)->loop);
    buf_init(&c->input, HTTP_INPUT_MAX);
    buf_init(&c->head_text, HTTP_HEAD_MAX);
    buf_init(&c->body, server->body_max);
    if (connection_peer_is_full(server, c->peer) || (tls && connection_secure(c, tls))) {
        free(c);
        stream_close(own_stream);
        return;
    }
    list_append(&server->connections, &c->link);
    if (atomic_fetch_add(&server->connection_count, 1) + 1 == server->connections_max)
        listener_pause(server->listener, true); /* more connections wait in the kernel */
    http_sweep_start(server);
    if (!tls) stream_start(c->stream, &connection_events, c);
}

void http_connection_end(struct http_connection *c)
{
    c->state = CONNECTION_ENDING;
    c->active_at = loop_now(real_io_io(c->server->real)->loop);
    stream_end(c->stream);
    c->paused = false;
    stream_resume(c->stream); /* a close with unread bytes could cut off our response */
}

void http_connection_fail(struct http_connection *c)
{
    atomic_fetch_add(&c->server->errors, 1);
    c->state = CONNECTION_ENDING;
    stream_close(c->stream);
}

void http_connection_expire(struct http_connection *c)
{
    c->last = c->expired = true;
    if (c->state == CONNECTION_HEAD && c->input.len == 0) http_connection_end(c);
}

void http_connection_check(struct http_connection *c, mono_time now, bool pulse)
{
    size_t pending = stream_pending(c->stream);
    uint64_t taken = c->sent > pending ? c->sent - pending : 0, limit_ms;

    if (c->state == CONNECTION_SHAKING) return; /* the handshake has its own time limit */
    if (taken > c->taken || (c->state == CONNECTION_EVENTS && pending == 0)) c->active_at = now;
    c->taken = taken;
    limit_ms = c->state == CONNECTION_ENDING && pending == 0 ? HTTP_CONNECTION_LINGER_MS
                                                             : c->server->idle_timeout_ms;
    if (mono_elapsed_ms(c->active_at, now) >= limit_ms)
        stream_close(c->stream);
    else if (pulse && c->state == CONNECTION_EVENTS)
        http_channel_pump(c, true);
}

/* -- bytes out --------------------------------------------------------------------------------- */

bool http_connection_has_room(const struct http_connection *c)
{
    return stream_pending(c->stream) <= HTTP_OUTPUT_MAX / 2;
}

void http_connection_write(struct http_connection *c, const struct str *parts, size_t count)
{
    enum err err = stream_write(c->stream, parts, count);

    assert(err != ERR_FULL && err != ERR_TOO_LARGE); /* http_connection_has_room was checked */
    if (err) stream_close(c->stream);
    for (size_t i = 0; i < count; i++) c->sent += parts[i].len;
}

static void connection_answer_done(struct http_connection *c)
{
    http_page_unref(c->page);
    c->page = NULL;
    buf_deinit(&c->own_body);
    buf_deinit(&c->body);
    if (!list_empty(&c->in_channel))
        c->state = CONNECTION_EVENTS;
    else if (c->last)
        http_connection_end(c);
    else
        c->state = CONNECTION_HEAD;
}

static void connection_answer_pump(struct http_connection *c)
{
    while (c->answer_left.len > 0 && http_connection_has_room(c)) {
        struct str piece =
            str_of(c->answer_left.at, min_size(c->answer_left.len, HTTP_OUTPUT_PIECE));
        http_connection_write(c, &piece, 1);
        c->answer_left = str_tail(c->answer_left, piece.len);
    }
    if (c->answer_left.len == 0) connection_answer_done(c);
}

void http_connection_send(struct http_connection *c, struct str head, struct str body)
{
    struct str first[] = {head, str_of(body.at, min_size(body.len, HTTP_OUTPUT_PIECE))};

    c->state = CONNECTION_ANSWER;
    http_connection_write(c, first, ARRAY_LEN(first)); /* one packet if both fit */
    c->answer_left = str_tail(body, first[1].len);
    connection_answer_pump(c);
}

/* -- bytes in ---------------------------------------------------------------------------------- */

static struct str connection_input(const struct http_connection *c)
{
    return str_tail(buf_peek(&c->input), c->input_at);
}

/* The functions below return false if they first need more input or more output space. */
static bool connection_read_head(struct http_connection *c)
{
    struct str input = connection_input(c);
    size_t len = http_head_len(input);
    bool too_long = len != SIZE_MAX && (len ? len : input.len) > HTTP_HEAD_MAX;
    int refuse = 0;

    /* Without space for the response, reading continues at on_drained. */
    if (!http_connection_has_room(c)) return false;
    if (len == SIZE_MAX)
        refuse = 400;
    else if (too_long)
        refuse = memchr(input.at, '\n', HTTP_HEAD_MAX) ? 431 : 414;
    else if (len == 0)
        return false;
    if (!refuse) {
        buf_clear(&c->head_text);
        if (buf_append(&c->head_text, str_of(input.at, len))) {
            http_connection_fail(c);
            return false;
        }
        c->input_at += len;
        refuse = http_head_read(buf_peek(&c->head_text), &c->head);
    }
    if (refuse) {
        c->head = (struct http_head){.close = true};
        c->method = 0;
        http_request_refuse(c, refuse);
    } else {
        http_request_begin(c);
    }
    return true;
}

/* False: the connection failed. */
static bool connection_keep_body(struct http_connection *c, struct str piece)
{
    enum err err = c->refuse ? ERR_OK : buf_append(&c->body, piece);

    if (err == ERR_NOMEM) {
        http_connection_fail(c);
        return false;
    }
    if (err) c->refuse = 413;
    if (!c->refuse) return true;
    c->drained += piece.len;
    if (c->drained <= HTTP_DRAIN_MAX) return true;
    http_connection_fail(c);
    return false;
}

static bool connection_read_chunks(struct http_connection *c)
{
    while (c->chunks.state != CHUNK_DONE) {
        struct str input = connection_input(c), data;
        size_t before = input.len;
        if (!http_chunks_take(&c->chunks, &input, &data)) {
            c->head.close = true; /* the rest of the input cannot be trusted */
            http_request_refuse(c, 400);
            return true;
        }
        c->input_at += before - input.len;
        if (!connection_keep_body(c, data) || input.len == before) return false;
    }
    http_request_answer(c);
    return true;
}

static bool connection_read_body(struct http_connection *c)
{
    struct str piece = connection_input(c);

    if (c->head.chunked) return connection_read_chunks(c);
    piece.len = min_size(piece.len, c->body_left);
    c->input_at += piece.len;
    c->body_left -= piece.len;
    if (!connection_keep_body(c, piece) || c->body_left > 0) return false;
    http_request_answer(c);
    return true;
}

static void connection_advance(struct http_connection *c)
{
    bool more = true, pause;

    while (more) {
        if (c->state == CONNECTION_HEAD)
            more = connection_read_head(c);
        else
            more = c->state == CONNECTION_BODY && connection_read_body(c);
    }
    if (c->state == CONNECTION_ENDING) return;
    if (c->input_at == c->input.len)
        buf_deinit(&c->input); /* an idle connection needs no input memory */
    else
        buf_consume(&c->input, c->input_at);
    c->input_at = 0;
    pause = c->state == CONNECTION_ANSWER ||
            (c->state == CONNECTION_HEAD && !http_connection_has_room(c));
    if (pause && !c->paused) stream_pause(c->stream);
    if (!pause && c->paused) stream_resume(c->stream);
    c->paused = pause;
}

static void connection_on_bytes(void *owner, struct str bytes)
{
    struct http_connection *c = owner;

    if (c->state == CONNECTION_ENDING || c->state == CONNECTION_EVENTS) {
        c->drained += bytes.len;
        if (c->drained > HTTP_DRAIN_MAX) stream_close(c->stream);
        return;
    }
    c->active_at = loop_now(real_io_io(c->server->real)->loop);
    if (buf_append(&c->input, bytes))
        http_connection_fail(c);
    else
        connection_advance(c);
}

static void connection_on_drained(void *owner)
{
    struct http_connection *c = owner;

    c->active_at = loop_now(real_io_io(c->server->real)->loop);
    if (c->state == CONNECTION_EVENTS) http_channel_pump(c, false);
    if (c->state == CONNECTION_ANSWER) connection_answer_pump(c);
    if (c->state == CONNECTION_HEAD) connection_advance(c);
}

/* The peer sends no more requests but may still read the current response. */
static void connection_on_end(void *owner)
{
    struct http_connection *c = owner;

    c->last = true;
    if (c->state == CONNECTION_HEAD || c->state == CONNECTION_BODY) http_connection_end(c);
}

static void connection_on_closed(void *owner, enum err, const struct note *)
{
    connection_free(owner);
}

static const struct stream_events connection_events = {
    .on_open = connection_on_open,
    .on_bytes = connection_on_bytes,
    .on_drained = connection_on_drained,
    .on_end = connection_on_end,
    .on_closed = connection_on_closed,
};
