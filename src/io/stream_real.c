/* SPDX-License-Identifier: Apache-2.0 */
/* Streams over kernel sockets: reads with back-pressure, gathered writes with a bound, closing.
 * Runs on the loop's thread. */
#include "io/stream_real.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIRECT_PARTS_MAX = 16 }; /* a write with more parts is buffered */

static struct real_stream *from_stream(const struct stream *stream)
{
    return CONTAINER_OF(stream, struct real_stream, stream);
}

void stream_address_text(const struct sockaddr_storage *address, char text[STREAM_PEER_CAP])
{
    char host[INET6_ADDRSTRLEN] = "";

    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)address;
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
        snprintf(text, STREAM_PEER_CAP, "%s:%u", host, ntohs(v4->sin_port));
    } else if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const void *)address;
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
        snprintf(text, STREAM_PEER_CAP, "[%s]:%u", host, ntohs(v6->sin6_port));
    } else {
        snprintf(text, STREAM_PEER_CAP, "unix");
    }
}

/* -- closing -- */

static void write_note(const struct real_stream *s, struct note *note)
{
    char reason[96];

    note->text[0] = '\0';
    if (!s->verb) {
        note_set(note, "closed");
        return;
    }
    if (s->code) uv_strerror_r(s->code, reason, sizeof reason);
    note_set(note, "%s %s: %s", s->verb, s->stream.peer_address,
             s->code ? reason : err_text(s->why));
}

void stream_free(struct real_stream *s)
{
    assert(!s->has_handle);
    if (s->listener) listener_forget(s->listener, s);
    dial_release(s->dial);
    buf_deinit(&s->front);
    buf_deinit(&s->back);
    free(s);
}

void stream_finish(struct real_stream *s)
{
    struct note note;

    assert(s->state == STREAM_CLOSING);
    write_note(s, &note);
    if (s->listener) listener_forget(s->listener, s); /* before on_closed: frees the slot */
    if (s->started) s->events.on_closed(s->owner, s->why, &note);
    stream_free(s);
}

static void stream_real_on_handle_closed(uv_handle_t *handle)
{
    struct real_stream *s = handle->data;

    real_enter(s->real);
    s->has_handle = false;
    stream_finish(s);
}

void stream_fail(struct real_stream *s, const char *verb, enum err why, int code)
{
    if (s->state == STREAM_CLOSING) return; /* the first reason is reported */
    s->state = STREAM_CLOSING;
    s->verb = verb;
    s->why = why;
    s->code = code;
    list_remove(&s->in_unsent);
    task_cancel(&s->notify);
    if (s->dial) dial_stop(s->dial);
    if (!s->has_handle)
        loop_defer(&s->real->loop, &s->notify);
    else if (!uv_is_closing(&s->uv.handle))
        uv_close(&s->uv.handle, stream_real_on_handle_closed);
    /* A closing handle belongs to a dial that tries another address. The dial calls
     * stream_finish. */
}

static void real_stream_close(struct stream *stream)
{
    stream_fail(from_stream(stream), NULL, ERR_CLOSED, 0);
}

static void on_notify(struct task *task)
{
    struct real_stream *s = CONTAINER_OF(task, struct real_stream, notify);

    if (s->state == STREAM_CLOSING) {
        stream_finish(s);
    } else if (s->drain_due) {
        s->drain_due = false;
        if (s->started && s->events.on_drained) s->events.on_drained(s->owner);
    }
}

static void close_if_over(struct real_stream *s)
{
    if (s->peer_ended && s->shut) stream_fail(s, NULL, ERR_CLOSED, 0);
}

/* -- reading -- */

static void on_room(uv_handle_t *handle, size_t, uv_buf_t *ret_room)
{
    struct real_stream *s = handle->data;
    struct real_io *real = s->real;

    real_enter(real);
    if (s->read_turn != real->loop.stats.turns) {
        s->read_turn = real->loop.stats.turns;
        s->read_bytes = 0;
    }
    /* Returning no buffer ends this turn's reading. Pausing costs a system call only here, when
     * data arrives. */
    if (s->paused || s->read_bytes >= STREAM_READ_PER_TURN)
        *ret_room = uv_buf_init(NULL, 0);
    else
        *ret_room = uv_buf_init(real->read_room, sizeof real->read_room);
}

static void stop_reading(struct real_stream *s)
{
    if (s->reading) uv_read_stop(&s->uv.stream);
    s->reading = false;
}

static void on_peer_end(struct real_stream *s)
{
    s->peer_ended = true;
    stop_reading(s);
    if (s->events.on_end)
        s->events.on_end(s->owner);
    else
        stream_end(&s->stream);
    close_if_over(s);
}

static void on_read(uv_stream_t *uv_stream, ssize_t got, const uv_buf_t *room)
{
    struct real_stream *s = uv_stream->data;

    real_enter(s->real);
    if (got > 0) {
        s->read_bytes += (size_t)got;
        s->events.on_bytes(s->owner, str_of(room->base, (size_t)got));
    } else if (got == UV_ENOBUFS) {
        if (s->paused) stop_reading(s);
    } else if (got == UV_EOF) {
        on_peer_end(s);
    } else if (got < 0) {
        stream_fail(s, "read from", ERR_IO, (int)got);
    }
}

static void read_if_wanted(struct real_stream *s)
{
    int failed;

    if (s->state != STREAM_OPEN || !s->started || s->paused || s->reading || s->peer_ended) return;
    failed = uv_read_start(&s->uv.stream, on_room, on_read);
    if (failed)
        stream_fail(s, "read from", ERR_IO, failed);
    else
        s->reading = true;
}

static void real_stream_pause(struct stream *stream)
{
    from_stream(stream)->paused = true;
}

static void real_stream_resume(struct stream *stream)
{
    struct real_stream *s = from_stream(stream);

    s->paused = false;
    read_if_wanted(s);
}

static void real_stream_start(struct stream *stream, const struct stream_events *events,
                              void *owner)
{
    struct real_stream *s = from_stream(stream);

    assert(events->on_bytes && events->on_closed);
    s->events = *events;
    s->owner = owner;
    s->started = true;
    read_if_wanted(s);
}

/* -- writing -- */

static size_t real_stream_pending(const struct stream *stream)
{
    const struct real_stream *s = from_stream(stream);
    size_t taken = s->writing > 0 ? s->writing - uv_stream_get_write_queue_size(&s->uv.stream) : 0;

    return s->front.len - s->front_at - taken + s->back.len;
}

static void mark_unsent(struct real_stream *s)
{
    if (s->state == STREAM_OPEN && list_empty(&s->in_unsent))
        list_append(&s->real->unsent, &s->in_unsent);
}

static void want_drain(struct real_stream *s, size_t drain_at)
{
    s->drain_at = s->drain_wanted ? min_size(s->drain_at, drain_at) : drain_at;
    s->drain_wanted = true;
}

static void notify_if_drained(struct real_stream *s)
{
    if (!s->drain_wanted || real_stream_pending(&s->stream) > s->drain_at) return;
    s->drain_wanted = false;
    s->drain_due = true;
    loop_defer(&s->real->loop, &s->notify);
}

static void clear_buffer(struct buf *b)
{
    if (b->cap > STREAM_KEEP)
        buf_deinit(b);
    else
        buf_clear(b);
}

static void reset_front(struct real_stream *s)
{
    clear_buffer(&s->front);
    s->front_at = 0;
}

static void on_written(uv_write_t *write, int status)
{
    struct real_stream *s = write->handle->data;

    real_enter(s->real);
    s->front_at += s->writing;
    s->writing = 0;
    if (s->front_at == s->front.len) reset_front(s);
    if (s->state == STREAM_CLOSING) return;
    if (status < 0) {
        stream_fail(s, "write to", ERR_IO, status);
        return;
    }
    notify_if_drained(s);
    mark_unsent(s);
}

/* The kernel's buffer is full. libuv gets a quarter of output_max at a time, so that on_drained is
 * called while libuv still sends. */
static void hand_to_libuv(struct real_stream *s)
{
    size_t len =
        min_size(s->front.len - s->front_at, max_size(s->output_max / 4, STREAM_DIRECT_MIN));
    uv_buf_t piece;
    int failed;

    len = min_size(len, INT32_MAX);
    piece = uv_buf_init(s->front.data + s->front_at, (unsigned)len);
    s->writing = len;
    failed = uv_write(&s->write, &s->uv.stream, &piece, 1, on_written);
    if (failed) {
        s->writing = 0;
        stream_fail(s, "write to", real_err(failed), failed);
    }
}

/* False if bytes are left or the stream failed. */
static bool send_front(struct real_stream *s)
{
    size_t len = min_size(s->front.len - s->front_at, INT32_MAX);
    uv_buf_t all = uv_buf_init(s->front.data + s->front_at, (unsigned)len);
    int sent = uv_try_write(&s->uv.stream, &all, 1);

    if (sent < 0 && sent != UV_EAGAIN) {
        stream_fail(s, "write to", ERR_IO, sent);
        return false;
    }
    if (sent > 0) s->front_at += (size_t)sent;
    if (s->front_at < s->front.len) {
        hand_to_libuv(s);
        return false;
    }
    reset_front(s);
    return true;
}

static void on_shutdown(uv_shutdown_t *shutdown, int status)
{
    struct real_stream *s = shutdown->handle->data;

    real_enter(s->real);
    if (s->state == STREAM_CLOSING) return;
    if (status < 0 && status != UV_ENOTCONN) {
        stream_fail(s, "end", ERR_IO, status);
        return;
    }
    s->shut = true;
    close_if_over(s);
}

static void flush(struct real_stream *s)
{
    bool free_way = true;

    if (s->state != STREAM_OPEN || s->writing > 0) return;
    while (free_way && (s->front.len > 0 || s->back.len > 0)) {
        if (s->front.len == 0) {
            struct buf empty = s->front;
            s->front = s->back;
            s->back = empty;
        }
        free_way = send_front(s);
    }
    if (s->state != STREAM_OPEN) return;
    notify_if_drained(s);
    if (free_way && s->ending && !s->shutdown.handle) {
        int failed = uv_shutdown(&s->shutdown, &s->uv.stream, on_shutdown);
        if (failed) stream_fail(s, "end", ERR_IO, failed);
    }
}

void real_flush_streams(struct real_io *real)
{
    for (struct list *node; (node = list_pop(&real->unsent));)
        flush(CONTAINER_OF(node, struct real_stream, in_unsent));
}

/* Gives a large write to the kernel without a copy. The kernel may take only a part; the caller has
 * reserved space for the other bytes. */
static size_t send_directly(struct real_stream *s, const struct str *parts, size_t count)
{
    uv_buf_t pieces[DIRECT_PARTS_MAX];
    int sent;

    for (size_t i = 0; i < count; i++) {
        /* libuv does not write to the buffers */
        pieces[i].base = (char *)parts[i].at;
        pieces[i].len = parts[i].len;
    }
    sent = uv_try_write(&s->uv.stream, pieces, (unsigned)count);
    if (sent < 0 && sent != UV_EAGAIN) stream_fail(s, "write to", ERR_IO, sent);
    return sent > 0 ? (size_t)sent : 0;
}

static enum err gather(struct real_stream *s, const struct str *parts, size_t count, size_t total)
{
    bool direct = total >= STREAM_DIRECT_MIN && count <= DIRECT_PARTS_MAX &&
                  s->state == STREAM_OPEN && real_stream_pending(&s->stream) == 0;
    size_t skip = 0;
    char *room;
    enum err err = buf_reserve(&s->back, total, &room);

    if (err) return err;
    if (direct) skip = send_directly(s, parts, count);
    if (s->state == STREAM_CLOSING) return ERR_CLOSED;
    for (size_t i = 0; i < count; i++) {
        struct str rest = str_tail(parts[i], min_size(skip, parts[i].len));
        skip -= parts[i].len - rest.len;
        if (rest.len == 0) continue;
        memcpy(room, rest.at, rest.len);
        room += rest.len;
        buf_commit(&s->back, rest.len);
    }
    if (s->back.len == 0) clear_buffer(&s->back);
    return ERR_OK;
}

static enum err real_stream_write(struct stream *stream, const struct str *parts, size_t count)
{
    struct real_stream *s = from_stream(stream);
    size_t total = 0, pending = real_stream_pending(stream);
    enum err err;

    if (s->state == STREAM_CLOSING || s->ending) return ERR_CLOSED;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].len > s->output_max - total) return ERR_TOO_LARGE;
        total += parts[i].len;
    }
    if (total == 0) return ERR_OK;
    if (total > s->output_max - pending) {
        /* on_drained must come when this write fits. */
        want_drain(s, min_size(s->output_max / 2, s->output_max - total));
        return ERR_FULL;
    }
    err = gather(s, parts, count, total);
    if (err) return err;
    if (real_stream_pending(stream) > s->output_max / 2) want_drain(s, s->output_max / 2);
    mark_unsent(s);
    return ERR_OK;
}

static void real_stream_end(struct stream *stream)
{
    struct real_stream *s = from_stream(stream);

    s->ending = true;
    mark_unsent(s);
}

/* -- other calls -- */

static const struct stream_ops real_stream_ops = {
    .start = real_stream_start,
    .write = real_stream_write,
    .pending = real_stream_pending,
    .pause = real_stream_pause,
    .resume = real_stream_resume,
    .end = real_stream_end,
    .close = real_stream_close,
};

struct real_stream *stream_new(struct real_io *real, size_t output_max)
{
    struct real_stream *s = calloc(1, sizeof *s);

    if (!s) return NULL;
    s->stream = (struct stream){.ops = &real_stream_ops, .peer_address = s->peer, .alpn = ""};
    s->real = real;
    s->output_max = output_max ? output_max : STREAM_OUTPUT_MAX_DEFAULT;
    s->read_turn = UINT64_MAX;
    list_init(&s->in_listener);
    list_init(&s->in_unsent);
    list_init(&s->in_handshakes);
    task_init(&s->notify, on_notify);
    buf_init(&s->front, s->output_max);
    buf_init(&s->back, s->output_max);
    return s;
}

int stream_adopt(struct real_stream *s, int fd, bool is_unix)
{
    int failed = is_unix ? uv_pipe_init(&s->real->uv, &s->uv.pipe, 0)
                         : uv_tcp_init(&s->real->uv, &s->uv.tcp);

    if (failed) return failed;
    s->has_handle = true;
    s->uv.handle.data = s;
    failed = is_unix ? uv_pipe_open(&s->uv.pipe, fd) : uv_tcp_open(&s->uv.tcp, fd);
    if (!failed && !is_unix) uv_tcp_nodelay(&s->uv.tcp, 1);
    return failed;
}

void stream_opened(struct real_stream *s)
{
    assert(s->state == STREAM_DIALING && s->has_handle);
    s->state = STREAM_OPEN;
    if (s->back.len > 0 || s->ending) mark_unsent(s);
    read_if_wanted(s);
}
