/* SPDX-License-Identifier: Apache-2.0 */
/* One connection: passes bytes between a stream and its h2, and runs its timer.
 *
 * Input is processed as it arrives. connection_flush sends output once per turn, in one write. If
 * the socket is full, further output stays in h2 until on_drained.
 *
 * One timer serves all deadlines of the connection. It is never postponed: when it fires early it
 * checks what is due and restarts, so a read does not change the timer heap. */
#include <stdlib.h>
#include <string.h>

#include "rpc/forward.h"
#include "rpc/server_internal.h"

enum {
    ROOM_MIN = 16 << 10, /* free bytes of the socket's output that justify a flush */
    TOKEN_DRAIN = 1,     /* ping between two GOAWAYs */
    TOKEN_ALIVE = 2,
    TOKEN_STALL = 3,                      /* ping to a peer with closed windows */
    PASSED_RESETS_MAX = 10 * 1000 * 1000, /* per minute; a replica passes on its clients' resets */
};

/* -- its calls -- */

void connection_put(struct connection *c, struct rpc_call *call)
{
    list_append(&c->calls, &call->link);
    c->call_count++;
    h2_bind(c->h2, call->stream, call);
}

void connection_remove(struct connection *c, struct rpc_call *call)
{
    list_remove(&call->link);
    c->call_count--;
    if (c->call_count == 0) c->idle_since = loop_now(c->server->io->loop);
}

/* -- the end -- */

/* Functions for handlers return ERR_CLOSED from now on. teardown.c ends the calls. */
static void connection_drop_h2(struct connection *c)
{
    if (c->state == CONNECTION_ENDED) return;
    c->state = CONNECTION_ENDED;
    list_remove(&c->dirty);
    buf_deinit(&c->page_head);
    teardown_begin(c);
}

/* Ends the connection. Written output is still sent, and the peer gets time to read it. */
void connection_end(struct connection *c)
{
    if (c->state == CONNECTION_ENDED) return;
    connection_drop_h2(c);
    stream_end(c->stream);
    timer_start_in(&c->timer, LINGER_MS);
}

void connection_cut(struct connection *c)
{
    connection_drop_h2(c);
    timer_stop(&c->timer);
    if (c->stream) stream_close(c->stream);
}

/* May be called inside h2's events. The next flush sends the output and closes the connection. */
static void connection_fail(struct connection *c)
{
    if (c->state != CONNECTION_OPEN) return;
    c->state = CONNECTION_FAILED;
    connection_mark_dirty(c);
}

static void connection_fail_because(struct connection *c, enum refused reason, const char *what)
{
    if (c->state != CONNECTION_OPEN) return;
    meter_refused(c->server, reason);
    LOG_WARN(&c->server->log, "connection closed for abuse", log_text("what", what),
             log_text("peer", c->address), log_str("identity", c->peer->key),
             log_u64("calls", c->call_count), log_u64("metadata_bytes", c->metadata));
    connection_fail(c);
}

static void connection_fail_abuse(struct connection *c, const char *what)
{
    connection_fail_because(c, REFUSED_ABUSE, what);
}

void connection_too_much(struct connection *c)
{
    if (c->state != CONNECTION_OPEN) return;
    h2_go_away_because(c->h2, H2_ENHANCE_YOUR_CALM, STR("metadata of open calls"));
    connection_fail_because(c, REFUSED_MEMORY, "metadata of open calls");
}

/* -- the timer -- */

void connection_wake_by(struct connection *c, mono_time due)
{
    if (timer_running(&c->timer) && c->timer_due.ms <= due.ms) return;
    if (due.ms == MONO_NEVER.ms) return;
    c->timer_due = due;
    timer_start(&c->timer, due);
}

static mono_time connection_idle_due(const struct connection *c)
{
    uint64_t timeout = c->server->limits.idle_timeout_ms;

    return timeout && c->call_count == 0 ? mono_after(c->idle_since, timeout) : MONO_NEVER;
}

static mono_time connection_greeting_due(const struct connection *c)
{
    return h2_pace(c->h2)->greeted ? MONO_NEVER
                                   : mono_after(c->opened, c->server->limits.handshake_timeout_ms);
}

static mono_time connection_headers_due(const struct connection *c)
{
    const struct h2_pace *pace = h2_pace(c->h2);

    return pace->stalls ? mono_after(pace->since, c->server->limits.header_timeout_ms) : MONO_NEVER;
}

static mono_time connection_ping_due(const struct connection *c)
{
    if (c->ping_sent.ms != MONO_NEVER.ms)
        return mono_after(c->ping_sent, c->server->limits.ping_timeout_ms);
    return mono_after(c->heard, c->server->limits.ping_after_ms);
}

static mono_time connection_write_due(const struct connection *c)
{
    return stream_pending(c->stream) > 0 ? mono_after(c->moved, c->server->limits.write_timeout_ms)
                                         : MONO_NEVER;
}

static void connection_note_written(struct connection *c, mono_time now)
{
    uint64_t taken = c->written - stream_pending(c->stream);

    if (taken == c->taken) return;
    c->taken = taken;
    c->moved = now;
}

/* Returns when to ping a peer whose windows allow no output although responses wait. Only the reply
 * to a ping counts, because a peer that sends requests and never reads would seem alive. */
static mono_time connection_stall_due(const struct connection *c)
{
    if (c->stall_asked.ms != MONO_NEVER.ms)
        return mono_after(c->stall_asked, c->server->limits.ping_timeout_ms);
    return h2_pending(c->h2) > 0 ? mono_after(c->stall_since, c->server->limits.write_timeout_ms)
                                 : MONO_NEVER;
}

static void connection_note_data(struct connection *c, mono_time now)
{
    uint64_t sent = h2_data_sent(c->h2);

    if (sent == c->data_sent) return;
    c->data_sent = sent;
    c->stall_since = now;
}

/* Sends a ping, or closes the connection if the last ping was not answered in time. */
static void connection_ping_or_cut(struct connection *c, mono_time *asked, uint64_t token,
                                   mono_time now)
{
    if (asked->ms != MONO_NEVER.ms) {
        connection_cut(c);
        return;
    }
    *asked = now;
    if (h2_ping(c->h2, token))
        connection_fail(c);
    else
        connection_mark_dirty(c);
}

static mono_time connection_next_due(const struct connection *c)
{
    mono_time due = mono_min(mono_min(connection_idle_due(c), connection_greeting_due(c)),
                             connection_headers_due(c));

    due = mono_min(due, mono_min(connection_ping_due(c),
                                 mono_min(connection_write_due(c), connection_stall_due(c))));
    return mono_min(mono_min(due, body_due(c)), c->drain_step);
}

static void connection_second_go_away(struct connection *c)
{
    if (c->drain_step.ms == MONO_NEVER.ms) return;
    c->drain_step = MONO_NEVER;
    h2_go_away(c->h2, H2_NO_ERROR);
    connection_mark_dirty(c);
}

static void connection_check(struct connection *c, mono_time now)
{
    connection_note_written(c, now);
    if (mono_due(connection_write_due(c), now)) {
        connection_cut(c);
    } else if (mono_due(connection_stall_due(c), now)) {
        connection_ping_or_cut(c, &c->stall_asked, TOKEN_STALL, now);
    } else if (mono_due(connection_greeting_due(c), now) ||
               mono_due(connection_headers_due(c), now)) {
        connection_fail_abuse(c, h2_pace(c->h2)->greeted ? "slow headers" : "slow greeting");
        connection_flush(c);
    } else if (mono_due(body_due(c), now)) {
        body_expire(c, now);
    } else if (mono_due(connection_idle_due(c), now)) {
        h2_go_away(c->h2, H2_NO_ERROR);
        h2_go_away(c->h2, H2_NO_ERROR);
        connection_fail(c);
    } else if (mono_due(c->drain_step, now)) {
        connection_second_go_away(c);
    } else if (mono_due(connection_ping_due(c), now)) {
        connection_ping_or_cut(c, &c->ping_sent, TOKEN_ALIVE, now);
    }
}

static void connection_on_timer(struct timer *timer)
{
    struct connection *c = CONTAINER_OF(timer, struct connection, timer);

    if (c->state == CONNECTION_ENDED) { /* the linger time is over */
        stream_close(c->stream);
        return;
    }
    if (c->state == CONNECTION_OPEN) connection_check(c, loop_now(c->server->io->loop));
    if (c->state == CONNECTION_OPEN) connection_wake_by(c, connection_next_due(c));
}

/* -- h2's events -- */

static void connection_on_headers(void *owner, int32_t stream, const struct h2_header *headers,
                                  size_t count, bool, bool end)
{
    struct connection *c = owner;

    if (c->state == CONNECTION_OPEN)
        call_headers(c, stream, headers, count, end);
    else
        h2_reset(c->h2, stream, H2_REFUSED_STREAM);
}

static void connection_on_data(void *owner, int32_t stream, struct str bytes)
{
    struct connection *c = owner;
    struct rpc_call *call = h2_bound(c->h2, stream);

    if (call) {
        call_data(call, bytes);
        return;
    }
    h2_consume(c->h2, stream, bytes.len); /* the data belongs to a refused request */
}

static void connection_on_stream_end(void *owner, int32_t stream)
{
    struct connection *c = owner;
    struct rpc_call *call = h2_bound(c->h2, stream);

    if (call) call_end(call);
}

static void connection_on_writable(void *owner, int32_t stream)
{
    struct connection *c = owner;
    struct rpc_call *call = h2_bound(c->h2, stream);

    if (!call) return;
    connection_mark_dirty(c);
    call_pump(call);
    if (call->outbox.len > 0 || call_is_decided(call) || call->handler != HANDLER_BLOCKED) return;
    call_handler_to(call, HANDLER_AWARE);
    if (call->events->on_writable) call->events->on_writable(call->service, call);
}

static void connection_on_stream_closed(void *owner, int32_t stream, uint32_t)
{
    struct connection *c = owner;
    struct rpc_call *call = h2_bound(c->h2, stream);

    if (!call) return;
    connection_remove(c, call);
    call_gone(call);
}

static void connection_on_ping_ack(void *owner, uint64_t token)
{
    struct connection *c = owner;

    if (token == TOKEN_DRAIN) connection_second_go_away(c);
    if (token == TOKEN_STALL) {
        c->stall_asked = MONO_NEVER;
        c->stall_since = loop_now(c->server->io->loop);
    }
}

static const struct h2_events connection_h2_events = {
    .on_headers = connection_on_headers,
    .on_data = connection_on_data,
    .on_end = connection_on_stream_end,
    .on_writable = connection_on_writable,
    .on_closed = connection_on_stream_closed,
    .on_ping_ack = connection_on_ping_ack,
};

/* -- bytes -- */

/* Limits data for closed streams. A peer may send some data before it learns of a call's end.
 * Checked after the responses to earlier input were sent. */
static void connection_check_late_data(struct connection *c)
{
    uint64_t late = h2_data_late(c->h2);

    if (late == c->late) return;
    meter_late_data(c->server, late - c->late);
    c->late = late;
    if (late <= h2_data_excused(c->h2)) return;
    h2_go_away(c->h2, H2_ENHANCE_YOUR_CALM);
    connection_fail_abuse(c, "data on closed streams");
}

static void connection_on_bytes(void *owner, struct str bytes)
{
    struct connection *c = owner;
    mono_time now = loop_now(c->server->io->loop);
    enum err err;

    if (c->state == CONNECTION_OPEN) connection_check_late_data(c);
    if (c->state != CONNECTION_OPEN) return;
    c->heard = now;
    /* one clock reading for all calls that begin in these bytes */
    c->read_at = clock_mono_ns(c->server->io->clock);
    c->ping_sent = MONO_NEVER;
    if (page_is_http1(c, bytes)) {
        page_feed(c, bytes);
        return;
    }
    err = h2_feed(c->h2, bytes, now);
    connection_mark_dirty(c);
    if (err == ERR_DENIED)
        connection_fail_abuse(c, h2_abuse(c->h2));
    else if (err)
        connection_fail(c);
    else
        connection_wake_by(c, connection_headers_due(c));
}

static void connection_on_drained(void *owner)
{
    struct connection *c = owner;

    if (c->state != CONNECTION_ENDED) connection_mark_dirty(c);
}

/* Called when the peer has ended its output. A gRPC client that waits for responses would keep its
 * side open. */
static void connection_on_end(void *owner)
{
    connection_end(owner);
}

static void connection_on_closed(void *owner, enum err, const struct note *)
{
    struct connection *c = owner;

    c->stream = NULL;
    timer_stop(&c->timer);
    connection_drop_h2(c);
    /* otherwise teardown.c frees it */
    if (list_empty(&c->ended)) server_connection_gone(c->server, c);
}

static const struct stream_events connection_stream_events = {
    .on_bytes = connection_on_bytes,
    .on_drained = connection_on_drained,
    .on_end = connection_on_end,
    .on_closed = connection_on_closed,
};

void connection_mark_dirty(struct connection *c)
{
    if (c->state == CONNECTION_ENDED || !list_empty(&c->dirty)) return;
    list_append(&c->server->dirty, &c->dirty);
    server_wake(c->server);
}

/* True if nothing is left to send: the connection failed, or has drained. */
static bool connection_is_over(const struct connection *c)
{
    if (c->state == CONNECTION_FAILED || h2_is_over(c->h2)) return true;
    return c->server->draining && c->drain_step.ms == MONO_NEVER.ms && c->call_count == 0 &&
           h2_streams(c->h2) == 0 && !h2_has_output(c->h2);
}

/* Pauses input while the peer has many unread responses. Windows do not bound responses without a
 * body, so a peer that never reads could fill the memory. */
static void connection_check_unread(struct connection *c)
{
    size_t waiting, most = c->server->limits.socket_output_max;

    if (c->state != CONNECTION_OPEN) return;
    waiting = h2_answers_pending(c->h2);
    if (waiting + (c->passes_on ? 0 : c->metadata) >
        c->server->limits.metadata_per_connection_max) {
        connection_too_much(c);
        return;
    }
    if (!c->unread && waiting > most) {
        c->unread = true;
        stream_pause(c->stream);
    } else if (c->unread && waiting <= most / 2) {
        c->unread = false;
        stream_resume(c->stream);
    }
}

void connection_flush(struct connection *c)
{
    struct buf *output = &c->server->output;
    size_t bound = c->server->limits.socket_output_max, pending = stream_pending(c->stream);
    enum err err;

    list_remove(&c->dirty);
    if (c->state == CONNECTION_ENDED) return;
    if (bound - min_size(bound, pending) < min_size(ROOM_MIN, bound / 2)) {
        if (c->state == CONNECTION_FAILED) connection_end(c);
        connection_check_unread(c);
        return; /* on_drained will flush again */
    }
    buf_clear(output);
    err = h2_take_output(c->h2, bound - pending, output);
    if (output->len > 0) {
        struct str bytes = buf_peek(output);
        if (!err) err = stream_write(c->stream, &bytes, 1);
        c->written += bytes.len;
        connection_note_written(c, loop_now(c->server->io->loop));
        connection_note_data(c, loop_now(c->server->io->loop));
        connection_wake_by(c, connection_write_due(c));
        /* More output may wait, and without pending output on_drained would not be called. */
        if (bytes.len == bound - pending && stream_pending(c->stream) <= bound / 2)
            connection_mark_dirty(c);
    }
    if (err)
        connection_cut(c);
    else if (connection_is_over(c))
        connection_end(c);
    else if (h2_pending(c->h2) > 0)
        connection_wake_by(c, connection_stall_due(c));
    connection_check_unread(c);
}

/* -- accepting -- */

static const struct tls_identity nobody;

/* Copies, because the stream frees identity and address at on_closed, before calls end. */
static enum err connection_copy_peer(const struct listening *l, struct connection *c)
{
    const struct tls_identity *identity = stream_peer_identity(c->stream);

    c->address = str_dup(str_from(stream_peer_address(c->stream)));
    if (!c->address) return ERR_NOMEM;
    if (!identity) {
        c->identity = l->tls ? &nobody : NULL;
        return ERR_OK;
    }
    c->identity = c->own_identity = tls_identity_copy(identity);
    if (!c->identity) return ERR_NOMEM;
    c->passes_on = !l->server->outsiders && rpc_forward_from_replica(c->identity);
    return ERR_OK;
}

void connection_free(struct connection *c)
{
    timer_deinit(&c->timer);
    free(c->own_identity);
    free(c->address);
    free(c);
}

static enum err connection_open(struct listening *l, struct stream *stream,
                                struct connection **ret_connection)
{
    struct rpc_server *s = l->server;
    struct h2_limits limits = limits_for_h2(&s->limits);
    struct connection *c = calloc(1, sizeof *c);
    enum err err;

    if (!c) return ERR_NOMEM;
    list_init(&c->link);
    list_init(&c->dirty);
    c->server = s;
    c->stream = stream;
    list_init(&c->ended);
    list_init(&c->calls);
    list_init(&c->bodies);
    list_init(&c->waiting);
    c->opened = c->heard = c->idle_since = c->moved = loop_now(s->io->loop);
    c->stall_since = c->opened;
    c->ping_sent = c->stall_asked = c->drain_step = MONO_NEVER;
    err = connection_copy_peer(l, c);
    if (c->passes_on) limits.resets_per_minute_max = PASSED_RESETS_MAX;
    if (!err) err = timer_init(&c->timer, s->io->loop, connection_on_timer);
    if (!err) err = h2_open(H2_SERVER, &limits, &connection_h2_events, c, &c->h2);
    if (!err) {
        c->peer = limits_join(s, c->identity, c->address);
        if (!c->peer) err = ERR_FULL;
    }
    if (err) {
        h2_close(c->h2);
        connection_free(c);
        return err;
    }
    *ret_connection = c;
    return ERR_OK;
}

void connection_accept(void *owner, struct stream *own_stream)
{
    struct listening *l = owner;
    struct rpc_server *s = l->server;
    /* serves only pages, see page.c */
    bool no_alpn = l->tls && s->page && !stream_alpn(own_stream)[0];
    struct connection *c;
    enum err err;

    if (s->draining || s->closing ||
        (l->tls && !no_alpn && strcmp(stream_alpn(own_stream), "h2") != 0)) {
        stream_close(own_stream);
        return;
    }
    err = s->stats.connections >= s->limits.connections_max ? ERR_BUSY
                                                            : connection_open(l, own_stream, &c);
    if (err) {
        meter_refused(s, err == ERR_FULL ? REFUSED_IDENTITY : REFUSED_CONNECTIONS);
        stream_close(own_stream);
        return;
    }
    list_append(&s->connections, &c->link);
    s->stats.connections++;
    meter_connections(s, 1);
    stream_start(own_stream, &connection_stream_events, c);
    connection_wake_by(c, connection_next_due(c));
    /* Schedules our SETTINGS. With pages, they are sent after the first byte (page.c). */
    if (!s->page) connection_mark_dirty(c);
}

/* Sends a GOAWAY that announces the shutdown, and after the reply to a ping the final GOAWAY. */
void connection_drain(struct connection *c)
{
    mono_time now = loop_now(c->server->io->loop);

    if (c->state != CONNECTION_OPEN) return;
    c->drain_step = mono_after(now, DRAIN_STEP_MS);
    h2_go_away(c->h2, H2_NO_ERROR);
    if (h2_ping(c->h2, TOKEN_DRAIN)) connection_fail(c);
    connection_wake_by(c, c->drain_step);
    connection_mark_dirty(c);
}
