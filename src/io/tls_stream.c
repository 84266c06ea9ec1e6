/* SPDX-License-Identifier: Apache-2.0 */
/* A TLS stream over a plain stream. Runs on the loop's thread.
 *
 * Output: the owner's writes of a turn are gathered, so that small writes share a record. The
 * deferred task `work` encodes the records, which always fit into the plain stream's bound. Input:
 * if the owner pauses, the plain stream is paused, and the session keeps bytes that were already
 * read.
 *
 * No callback runs inside a call of the owner. The memory is freed when the plain stream is
 * closed. */
#include <stdlib.h>
#include <string.h>

#include "io/loop.h"
#include "io/tls_context.h"
#include "io/tls_session.h"

enum {
    DEFAULT_TIMEOUT_MS = 10 * 1000,
    DEFAULT_OUTPUT_MAX = 1024 * 1024,
    PLAIN_SLACK = 64 * 1024,                /* room for handshakes and alerts */
    OUTPUT_PIECE = 64 * 1024,               /* bytes encrypted at a time */
    TLS_STREAM_IDLE_OUTPUT_MAX = 64 * 1024, /* kept by a stream without output */
    TLS_STREAM_LINGER_MS = 1000,            /* for the peer to receive our alert */
    NAME_CAP = 256,
};

struct tls_stream {
    struct stream stream; /* first field: the owner has a pointer to it */
    struct loop *loop;
    struct stream *plain; /* NULL until dialed, and after closing */
    struct tls_session *session;
    struct stream_events events;
    void *owner;
    struct timer timer; /* deadline of the handshake, or of the peer's close */
    mono_time deadline; /* of a dialed stream */
    struct task work;
    struct buf output; /* plaintext of this turn or during the handshake */
    size_t output_max, plain_max;
    bool connected; /* the plain stream is open */
    bool opened;    /* the handshake is done and on_open was called */
    bool paused;
    bool drain_wanted; /* call on_drained when at most `drain_at` bytes are unsent */
    size_t drain_at;
    bool ending, half_closed; /* stream_end was called; close_notify was sent */
    bool end_reported;
    bool plain_ended;
    bool closing; /* stream_close was called: only on_closed may follow */
    bool failed;  /* `why` is set; the stream waits until the peer has read the alert */
    enum err why;
    struct note note;
};

static const struct stream_ops tls_stream_ops;
static const struct stream_events plain_events;

static struct tls_stream *tls_stream_of(const struct stream *stream)
{
    return CONTAINER_OF(stream, struct tls_stream, stream);
}

static size_t tls_stream_unsent(const struct tls_stream *t)
{
    return t->output.len + (t->plain ? stream_pending(t->plain) : 0);
}

/* -- failures ---------------------------------------------------------------------------------- */

static void tls_push_records(struct tls_stream *t);

/* Waits before closing: closing with unread bytes would reset the connection, and lose the
 * alert. */
static void tls_fail(struct tls_stream *t, enum err why, const struct note *note)
{
    bool has_alert;

    if (t->failed || t->closing) return;
    t->failed = true;
    t->why = why;
    t->note = *note;
    has_alert = tls_session_output(t->session).len > 0;
    tls_push_records(t);
    if (t->plain_ended || !has_alert) {
        stream_close(t->plain);
        return;
    }
    stream_end(t->plain);
    stream_resume(t->plain); /* bytes are dropped from now on */
    timer_start_in(&t->timer, TLS_STREAM_LINGER_MS);
}

static void tls_fail_text(struct tls_stream *t, enum err why, const char *text)
{
    struct note note;
    note_set(&note, "tls: %s", text);
    tls_fail(t, why, &note);
}

static void tls_on_timer(struct timer *timer)
{
    struct tls_stream *t = CONTAINER_OF(timer, struct tls_stream, timer);

    if (!t->opened && !t->failed && !t->closing) {
        t->failed = true;
        t->why = ERR_TIMEOUT;
        note_set(&t->note, "tls: the handshake took too long");
    }
    /* A peer that has read everything must close in time. Pending output keeps the stream open, as
     * without TLS. */
    if (t->opened && !t->failed && !t->closing && stream_pending(t->plain) > 0)
        timer_start_in(&t->timer, TLS_STREAM_LINGER_MS);
    else
        stream_close(t->plain);
}

/* -- output ------------------------------------------------------------------------------------ */

/* A peer may make TLS respond without reading, which fills the plain stream. */
static void tls_push_records(struct tls_stream *t)
{
    struct str records = tls_session_output(t->session);
    enum err err = records.len > 0 ? stream_write(t->plain, &records, 1) : ERR_OK;

    if (!err)
        tls_session_consume(t->session, records.len);
    else if (err != ERR_CLOSED) /* then the plain stream calls on_closed */
        tls_fail_text(t, err, err_text(err));
}

/* Encodes all written bytes, then close_notify after stream_end. */
static void tls_send_output(struct tls_stream *t)
{
    struct str rest = buf_peek(&t->output);
    enum err err = ERR_OK;

    while (!err && rest.len > 0 && !t->failed) {
        struct str piece = str_of(rest.at, min_size(rest.len, OUTPUT_PIECE));
        err = tls_session_write(t->session, piece);
        rest = str_tail(rest, piece.len);
        if (!err) tls_push_records(t);
    }
    buf_clear(&t->output);
    if (t->output.cap > TLS_STREAM_IDLE_OUTPUT_MAX) buf_deinit(&t->output);
    if (!err && t->ending && !t->half_closed && !t->failed) {
        t->half_closed = true;
        err = tls_session_end(t->session);
        if (!err) tls_push_records(t);
        if (!err) stream_end(t->plain);
    }
    if (err) tls_fail(t, err, &t->session->failure);
}

static void tls_want_drain(struct tls_stream *t, size_t drain_at)
{
    t->drain_at = t->drain_wanted ? min_size(t->drain_at, drain_at) : drain_at;
    t->drain_wanted = true;
}

/* Makes the plain stream call on_drained at `drain_at` pending bytes. The probe is a write that
 * only fits then; its bytes are never read. */
static void tls_ask_plain(struct tls_stream *t)
{
    struct str probe = {"", t->plain_max - t->drain_at};
    enum err err;

    assert(stream_pending(t->plain) > t->drain_at && t->drain_at < t->plain_max);
    err = stream_write(t->plain, &probe, 1);
    assert(err == ERR_FULL || err == ERR_CLOSED);
    (void)err;
}

static void tls_report_drained(struct tls_stream *t)
{
    if (!t->drain_wanted || t->failed || t->closing) return;
    if (tls_stream_unsent(t) <= t->drain_at) {
        t->drain_wanted = false;
        if (t->events.on_drained) t->events.on_drained(t->owner);
    } else if (t->output.len == 0 && !t->half_closed) {
        tls_ask_plain(t);
    }
}

/* Call only from events and tasks: on_drained may be called. */
static void tls_pump_out(struct tls_stream *t)
{
    tls_push_records(t);
    if (!t->opened || t->failed || t->closing) return;
    tls_send_output(t);
    tls_report_drained(t);
    if (t->failed || t->closing) return;
    /* Limits the wait for the peer to close its TCP side. */
    if (t->half_closed && t->session->peer_ended && !timer_running(&t->timer))
        timer_start_in(&t->timer, TLS_STREAM_LINGER_MS);
}

/* -- input ------------------------------------------------------------------------------------- */

static bool tls_is_held(const struct tls_stream *t)
{
    return t->failed || t->closing || (t->opened && t->paused);
}

static void tls_report_open(struct tls_stream *t)
{
    t->opened = true;
    t->stream.peer_identity = tls_session_identity(t->session);
    timer_stop(&t->timer);
    if (t->events.on_open) t->events.on_open(t->owner);
}

/* Continues the handshake, then passes plaintext to the owner until the owner pauses. */
static void tls_read(struct tls_stream *t)
{
    char plain[TLS_RECORD_MAX];

    while (!tls_is_held(t)) {
        size_t got = 0;
        enum err err = tls_session_read(t->session, plain, sizeof plain, &got);
        if (err) {
            tls_fail(t, err, &t->session->failure);
            return;
        }
        tls_push_records(t);
        if (!t->opened && t->session->state == TLS_OPEN)
            tls_report_open(t);
        else if (got > 0)
            t->events.on_bytes(t->owner, str_of(plain, got));
        else
            return;
    }
}

static void tls_report_end(struct tls_stream *t)
{
    if (tls_is_held(t)) return;
    if (t->session->peer_ended) {
        if (t->end_reported) return;
        t->end_reported = true;
        if (t->events.on_end)
            t->events.on_end(t->owner);
        else
            t->ending = true;
    } else if (t->plain_ended && t->session->input.len == 0) {
        tls_fail_text(t, ERR_IO,
                      t->opened ? "cut off by the peer without close_notify"
                                : "closed by the peer during the handshake");
    }
}

static void tls_pump_in(struct tls_stream *t)
{
    tls_read(t);
    tls_report_end(t);
    tls_pump_out(t);
    if (t->failed || t->closing) return;
    if (tls_is_held(t))
        stream_pause(t->plain);
    else
        stream_resume(t->plain);
}

static void tls_on_work(struct task *task)
{
    struct tls_stream *t = CONTAINER_OF(task, struct tls_stream, work);
    if (t->connected && !t->failed && !t->closing) tls_pump_in(t);
}

/* -- events of the plain stream ---------------------------------------------------------------- */

static void plain_open(void *owner)
{
    struct tls_stream *t = owner;

    t->stream.peer_address = t->plain->peer_address; /* before: the dialed address */
    t->connected = true;
    if (t->failed || t->closing) return;
    timer_start(&t->timer, t->deadline);
    tls_pump_in(t); /* makes the client's first message */
}

static void plain_bytes(void *owner, struct str bytes)
{
    struct tls_stream *t = owner;
    enum err err;

    if (t->failed || t->closing) return;
    err = tls_session_feed(t->session, bytes);
    if (err)
        tls_fail_text(t, err, err_text(err));
    else
        tls_pump_in(t);
}

static void plain_drained(void *owner)
{
    struct tls_stream *t = owner;
    if (!t->failed && !t->closing) tls_pump_out(t);
}

static void plain_end(void *owner)
{
    struct tls_stream *t = owner;

    t->plain_ended = true;
    if (t->closing) return;
    if (t->failed)
        stream_close(t->plain); /* the peer had time to read the last bytes */
    else
        tls_pump_in(t);
}

static void tls_free(struct tls_stream *t)
{
    timer_deinit(&t->timer);
    task_cancel(&t->work);
    tls_session_close(t->session);
    buf_deinit(&t->output);
    free(t);
}

static void plain_closed(void *owner, enum err why, const struct note *note)
{
    struct tls_stream *t = owner;
    struct note text = {{0}};

    t->plain = NULL;
    t->stream.peer_address = "";
    if (note) text = *note;
    if (t->failed) {
        why = t->why;
        text = t->note;
    } else if (!t->closing && why == ERR_CLOSED && !t->session->peer_ended) {
        why = ERR_IO;
        note_set(&text, "tls: cut off by the peer without close_notify");
    }
    t->closing = true;
    t->events.on_closed(t->owner, why, &text);
    tls_free(t);
}

static const struct stream_events plain_events = {
    .on_open = plain_open,
    .on_bytes = plain_bytes,
    .on_drained = plain_drained,
    .on_end = plain_end,
    .on_closed = plain_closed,
};

/* -- calls of the owner ------------------------------------------------------------------------ */

static void tls_stream_start(struct stream *stream, const struct stream_events *events, void *owner)
{
    struct tls_stream *t = tls_stream_of(stream);

    assert(events->on_bytes && events->on_closed);
    t->events = *events;
    t->owner = owner;
    t->paused = false;
    loop_defer(t->loop, &t->work);
}

static enum err tls_stream_write(struct stream *stream, const struct str *parts, size_t count)
{
    struct tls_stream *t = tls_stream_of(stream);
    size_t total = 0;
    char *room;
    enum err err;

    if (t->failed || t->closing || t->ending) return ERR_CLOSED;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].len > t->output_max - total) return ERR_TOO_LARGE;
        total += parts[i].len;
    }
    if (total == 0) return ERR_OK;
    if (total + tls_stream_unsent(t) > t->output_max) {
        tls_want_drain(t, min_size(t->output_max / 2, t->output_max - total));
        loop_defer(t->loop, &t->work);
        return ERR_FULL;
    }
    err = buf_reserve(&t->output, total, &room);
    if (err) return err;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].len) memcpy(room, parts[i].at, parts[i].len);
        room += parts[i].len;
    }
    buf_commit(&t->output, total);
    if (tls_stream_unsent(t) > t->output_max / 2) tls_want_drain(t, t->output_max / 2);
    loop_defer(t->loop, &t->work);
    return ERR_OK;
}

static size_t tls_stream_pending(const struct stream *stream)
{
    const struct tls_stream *t = tls_stream_of(stream);

    /* Records are a little longer than their content. */
    return min_size(tls_stream_unsent(t), t->output_max);
}

static void tls_stream_pause(struct stream *stream)
{
    struct tls_stream *t = tls_stream_of(stream);

    t->paused = true;
    if (t->opened && !t->failed && !t->closing) stream_pause(t->plain);
}

static void tls_stream_resume(struct stream *stream)
{
    struct tls_stream *t = tls_stream_of(stream);

    if (!t->paused) return;
    t->paused = false;
    if (!t->closing) loop_defer(t->loop, &t->work);
}

static void tls_stream_end(struct stream *stream)
{
    struct tls_stream *t = tls_stream_of(stream);

    t->ending = true;
    if (!t->closing) loop_defer(t->loop, &t->work);
}

static void tls_stream_close(struct stream *stream)
{
    struct tls_stream *t = tls_stream_of(stream);

    if (t->closing) return;
    t->closing = true;
    stream_close(t->plain);
}

static const struct stream_ops tls_stream_ops = {
    .start = tls_stream_start,
    .write = tls_stream_write,
    .pending = tls_stream_pending,
    .pause = tls_stream_pause,
    .resume = tls_stream_resume,
    .end = tls_stream_end,
    .close = tls_stream_close,
};

/* -- opening ----------------------------------------------------------------------------------- */

size_t tls_plain_output_max(size_t output_max)
{
    if (output_max == 0) output_max = DEFAULT_OUTPUT_MAX;
    return output_max + (output_max / TLS_RECORD_MAX + 1) * TLS_RECORD_EXTRA + PLAIN_SLACK;
}

static enum err tls_new(struct loop *loop, struct tls_context *context, const char *peer_name,
                        size_t output_max, struct tls_stream **ret_tls, struct note *note)
{
    struct tls_stream *t = calloc(1, sizeof *t);
    enum err err;

    if (!t) return note_fail(note, ERR_NOMEM, "tls: out of memory");
    t->stream.ops = &tls_stream_ops;
    t->loop = loop;
    t->output_max = min_size(output_max ? output_max : DEFAULT_OUTPUT_MAX, SIZE_MAX / 4);
    t->plain_max = tls_plain_output_max(t->output_max);
    buf_init(&t->output, t->output_max);
    task_init(&t->work, tls_on_work);
    err = timer_init(&t->timer, loop, tls_on_timer);
    if (err) {
        note_set(note, "tls: timer: %s", err_text(err));
        free(t);
        return err;
    }
    tls_context_recheck(context, loop_now(loop));
    err = tls_session_open(context, peer_name, &t->session, note);
    if (err) {
        tls_free(t);
        return err;
    }
    t->stream.alpn = t->session->alpn;
    *ret_tls = t;
    return ERR_OK;
}

/* The configured name, otherwise the dialed host. */
static enum err tls_name_to_verify(const struct dial_options *options, char name[NAME_CAP],
                                   struct note *note)
{
    struct address_parts parts;
    struct str host = str_from(options->tls_name);
    enum err err;

    if (!options->tls_name) {
        err = address_split(options->address, &parts, note);
        if (err) return err;
        if (parts.is_unix)
            return note_fail(note, ERR_INVALID,
                             "dial %s: TLS over a unix socket needs a name to verify",
                             options->address);
        host = parts.host;
    }
    if (host.len >= NAME_CAP)
        return note_fail(note, ERR_INVALID, "tls: a host name has at most %d bytes", NAME_CAP - 1);
    memcpy(name, host.at, host.len);
    name[host.len] = '\0';
    return ERR_OK;
}

enum err tls_dial(struct loop *loop, struct net *net, net_dial_fn *dial_plain,
                  const struct dial_options *options, const struct stream_events *events,
                  void *owner, struct stream **ret_stream, struct note *note)
{
    struct dial_options below = *options;
    char name[NAME_CAP];
    uint64_t timeout_ms = options->timeout_ms ? options->timeout_ms : DEFAULT_TIMEOUT_MS;
    struct tls_stream *t;
    enum err err;

    assert(events->on_bytes && events->on_closed);
    err = tls_name_to_verify(options, name, note);
    if (!err) err = tls_new(loop, options->tls, name, options->output_max, &t, note);
    if (err) return err;
    t->events = *events;
    t->owner = owner;
    below.tls = NULL;
    below.tls_name = NULL;
    below.output_max = t->plain_max;
    t->deadline = mono_after(loop_now(loop), timeout_ms);
    err = dial_plain(net, &below, &plain_events, t, &t->plain, note);
    if (err) {
        tls_free(t);
        return err;
    }
    t->stream.peer_address = t->plain->peer_address;
    *ret_stream = &t->stream;
    return ERR_OK;
}

enum err tls_accept(struct loop *loop, const struct listen_options *options,
                    struct stream *own_plain, const struct stream_events *events, void *owner,
                    struct stream **ret_stream, struct note *note)
{
    uint64_t timeout_ms = options->handshake_timeout_ms;
    struct tls_stream *t;
    enum err err;

    if (options->tls->side != TLS_SERVER)
        return note_fail(note, ERR_INVALID, "tls: a listener needs a server's context");
    err = tls_new(loop, options->tls, NULL, options->output_max, &t, note);
    if (err) return err;
    t->events = *events;
    t->owner = owner;
    t->plain = own_plain;
    t->stream.peer_address = own_plain->peer_address;
    t->connected = true;
    timer_start_in(&t->timer, timeout_ms ? timeout_ms : DEFAULT_TIMEOUT_MS);
    stream_start(own_plain, &plain_events, t);
    *ret_stream = &t->stream;
    return ERR_OK;
}
