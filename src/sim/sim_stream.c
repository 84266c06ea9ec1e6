/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: the process's side of a connection. The kernel's events are reported in a turn, in the
 * order open, drained, bytes, end, closed. The process's output is sent as its turn ends. */
#include "sim/tcp.h"

#include <stdlib.h>
#include <string.h>

enum {
    READ_MAX = 64 * 1024,
    OUTPUT_MAX_DEFAULT = 1024 * 1024,
};

static struct sim_stream *stream_of(const struct stream *stream)
{
    return CONTAINER_OF(stream, struct sim_stream, base);
}

/* -- streams: creation and end -- */

static void stream_turn(struct sim_ready *ready);
static const struct stream_ops stream_ops;

static void dial_timed_out(struct sim_event *event)
{
    struct sim_stream *stream = CONTAINER_OF(event, struct sim_stream, deadline);

    if (stream->opened || stream->closing || stream->failed) return;
    if (stream->socket) sim_socket_abandon(stream->socket);
    stream->socket = NULL;
    stream->failed = true;
    stream->why = ERR_TIMEOUT;
    note_set(&stream->note, "dial %s: no answer in time", stream->peer_address);
    sim_host_ready(stream->host, &stream->ready);
}

struct sim_stream *sim_stream_new(struct sim_host *host, size_t output_max)
{
    struct sim_stream *stream = calloc(1, sizeof *stream);

    if (!stream) return NULL;
    if (sim_event_init(&stream->deadline, host->sim, dial_timed_out)) {
        free(stream);
        return NULL;
    }
    stream->base =
        (struct stream){.ops = &stream_ops, .peer_address = stream->peer_address, .alpn = ""};
    stream->host = host;
    stream->output_max = output_max ? output_max : OUTPUT_MAX_DEFAULT;
    buf_init(&stream->pending, stream->output_max);
    sim_ready_init(&stream->ready, stream_turn);
    list_init(&stream->unsent);
    list_init(&stream->link);
    list_append(&host->streams, &stream->link);
    return stream;
}

void sim_stream_attach(struct sim_stream *stream, struct sim_socket *socket)
{
    stream->socket = socket;
    socket->stream = stream;
    if (socket->tls) {
        stream->base.peer_identity = socket->peer->options.identity;
        stream->base.alpn = socket->host->alpn;
    }
}

void sim_stream_free(struct sim_stream *stream)
{
    if (stream->socket) sim_socket_abandon(stream->socket);
    if (stream->listener) stream->listener->base.stats.open--;
    list_remove(&stream->link);
    list_remove(&stream->unsent);
    list_remove(&stream->ready.link);
    sim_event_deinit(&stream->deadline);
    buf_deinit(&stream->pending);
    free(stream);
}

/* on_closed is the last callback. */
static void finish(struct sim_stream *stream, enum err why, const struct note *note)
{
    static const struct note orderly = {"closed"};

    stream->closing = true; /* refuses calls that the callback makes */
    if (stream->listener) stream->listener->base.stats.open--; /* on_closed may accept a stream */
    stream->listener = NULL;
    if (stream->started) stream->events.on_closed(stream->owner, why, note ? note : &orderly);
    sim_stream_free(stream);
}

/* -- streams: a turn -- */

static void mark_unsent(struct sim_stream *stream)
{
    if (list_empty(&stream->unsent)) list_append(&stream->host->unsent, &stream->unsent);
    sim_host_schedule(stream->host);
}

static void feed(struct sim_stream *stream)
{
    struct sim_socket *socket = stream->socket;
    size_t len = stream->pending.len;

    if (!socket || socket->state == SIM_GONE || socket->fin_wanted) return;
    if (len) {
        size_t taken = sim_socket_take(socket, buf_peek(&stream->pending));
        buf_consume(&stream->pending, taken);
        /* The kernel has no memory, and no pending answer will continue the output: retry. */
        if (!taken && !socket->out.len) mark_unsent(stream);
    }
    sim_socket_push(socket);
    if (stream->ended && !stream->pending.len) sim_socket_end(socket);
    if (stream->drain_wanted && stream->pending.len <= stream->drain_at) {
        sim_host_ready(stream->host, &stream->ready); /* calls on_drained in the next turn */
    }
}

void sim_net_flush(struct sim_host *host)
{
    struct list batch;

    list_init(&batch);
    list_splice(&batch, &host->unsent); /* a stream that is added again waits for the next turn */
    for (struct list *node; (node = list_pop(&batch));) {
        feed(CONTAINER_OF(node, struct sim_stream, unsent));
    }
}

static void stream_report_open(struct sim_stream *stream)
{
    if (stream->opened || !stream->socket || stream->socket->state == SIM_SYN_SENT) return;
    if (stream->socket->state == SIM_GONE && !stream->socket->was_open) return;
    stream->opened = true;
    sim_event_cancel(&stream->deadline);
    if (stream->events.on_open) stream->events.on_open(stream->owner);
}

static void stream_report_drained(struct sim_stream *stream)
{
    if (stream->closing || !stream->drain_wanted) return;
    if (stream->pending.len > stream->drain_at) return;
    stream->drain_wanted = false;
    if (stream->events.on_drained) stream->events.on_drained(stream->owner);
}

static bool readable(const struct sim_stream *stream)
{
    return !stream->closing && !stream->paused && stream->socket && stream->socket->in.len;
}

/* Copies the bytes, because a callback may close the stream and still use the bytes. */
static void stream_report_bytes(struct sim_stream *stream)
{
    static char room[READ_MAX];

    while (readable(stream)) { /* ends, because nothing arrives during a turn */
        size_t len = min_size(stream->socket->in.len, READ_MAX);
        memcpy(room, stream->socket->in.data, len);
        sim_socket_read(stream->socket, len);
        stream->events.on_bytes(stream->owner, str_of(room, len));
    }
}

static void stream_report_end(struct sim_stream *stream)
{
    const struct sim_socket *socket = stream->socket;

    if (stream->closing || stream->paused || stream->end_reported || !socket ||
        !socket->fin_received || socket->in.len) {
        return;
    }
    stream->end_reported = true;
    if (stream->events.on_end)
        stream->events.on_end(stream->owner);
    else
        stream_end(&stream->base);
}

static void stream_report_failure(struct sim_stream *stream)
{
    const struct sim_socket *socket = stream->socket;

    if (stream->closing) return;
    if (stream->failed) {
        finish(stream, stream->why, &stream->note);
    } else if (socket && stream->end_reported && socket->fin_wanted) {
        finish(stream, ERR_CLOSED, NULL); /* the kernel has all output, so no event can follow */
    } else if (socket && socket->state == SIM_GONE) {
        note_set(&stream->note, "%s %s: %s", stream->opened ? "read from" : "dial",
                 stream->peer_address, socket->why_text);
        finish(stream, socket->why, &stream->note);
    }
}

static void stream_turn(struct sim_ready *ready)
{
    struct sim_stream *stream = CONTAINER_OF(ready, struct sim_stream, ready);

    if (stream->closing) {
        finish(stream, ERR_CLOSED, NULL);
        return;
    }
    if (stream->host->dead || !stream->started) return;
    stream_report_open(stream);
    if (!stream->closing) feed(stream);
    stream_report_drained(stream);
    stream_report_bytes(stream);
    stream_report_end(stream);
    stream_report_failure(stream);
}

void sim_stream_progress(struct sim_stream *stream)
{
    sim_host_ready(stream->host, &stream->ready);
}

/* -- streams: calls -- */

static void stream_begin(struct stream *base, const struct stream_events *events, void *owner)
{
    struct sim_stream *stream = stream_of(base);

    assert(!stream->started); /* the stream was accepted, and is started once */
    assert(events->on_bytes && events->on_closed);
    stream->started = true;
    stream->events = *events;
    stream->owner = owner;
    stream->paused = false;
    sim_host_ready(stream->host, &stream->ready);
}

static void want_drain(struct sim_stream *stream, size_t drain_at)
{
    stream->drain_at = stream->drain_wanted ? min_size(stream->drain_at, drain_at) : drain_at;
    stream->drain_wanted = true;
}

static enum err stream_put(struct stream *base, const struct str *parts, size_t count)
{
    struct sim_stream *stream = stream_of(base);
    size_t len = 0, before = stream->pending.len, max = stream->output_max;

    if (stream->closing || stream->ended || stream->failed) return ERR_CLOSED;
    if (stream->socket && stream->socket->state == SIM_GONE) return ERR_CLOSED;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].len > max - len) return ERR_TOO_LARGE;
        len += parts[i].len;
    }
    if (!len) return ERR_OK;
    if (len > max - min_size(stream->pending.len, max)) {
        want_drain(stream, min_size(max / 2, max - len)); /* until the refused write would fit */
        return ERR_FULL;
    }
    for (size_t i = 0; i < count; i++) {
        enum err err = parts[i].len ? buf_append(&stream->pending, parts[i]) : ERR_OK;
        if (err) {
            stream->pending.len = before;
            return ERR_NOMEM;
        }
    }
    if (stream->pending.len > max / 2) want_drain(stream, max / 2);
    mark_unsent(stream);
    return ERR_OK;
}

static size_t stream_waiting(const struct stream *base)
{
    return stream_of(base)->pending.len;
}

static void stream_hold(struct stream *base)
{
    stream_of(base)->paused = true;
}

static void stream_go_on(struct stream *base)
{
    struct sim_stream *stream = stream_of(base);

    if (!stream->paused) return;
    stream->paused = false;
    sim_host_ready(stream->host, &stream->ready);
}

static void stream_half_close(struct stream *base)
{
    struct sim_stream *stream = stream_of(base);

    if (stream->closing || stream->ended) return;
    stream->ended = true;
    mark_unsent(stream);
    sim_host_ready(stream->host, &stream->ready); /* the stream may be finished after this output */
}

static void stream_stop(struct stream *base)
{
    struct sim_stream *stream = stream_of(base);

    if (stream->closing) return;
    stream->closing = true;
    buf_consume(&stream->pending, stream->pending.len);
    sim_event_cancel(&stream->deadline);
    /* When the process is being destroyed, the kernel closes the socket. */
    if (stream->socket && sim_host_heard(stream->host)) {
        sim_socket_abandon(stream->socket);
        stream->socket = NULL;
    }
    sim_host_ready(stream->host, &stream->ready);
}

static const struct stream_ops stream_ops = {
    .start = stream_begin,
    .write = stream_put,
    .pending = stream_waiting,
    .pause = stream_hold,
    .resume = stream_go_on,
    .end = stream_half_close,
    .close = stream_stop,
};
