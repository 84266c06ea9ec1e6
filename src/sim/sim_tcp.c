/* SPDX-License-Identifier: Apache-2.0 */
/* A small transport: delivers bytes in order and once, or not at all.
 *
 * Per direction bytes are numbered from 0, and the end of the stream has a number, too. A receiver
 * acknowledges the next expected number and announces its free buffer. After a timeout the sender
 * repeats one packet, and more when an answer arrives. There is no congestion control and no fast
 * resend. Invariants, checked in check():
 *   1. unacked <= next <= sent <= unacked + length of `out` + 1
 *   2. `early` holds numbers above `expected` only, sorted, within the window
 *   3. the timer runs exactly when something is unanswered, waits for a window, or lingers */
#include "sim/tcp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- creation and end -- */

static void timer_fired(struct sim_event *event);

static struct list *bucket(struct sim_host *host, uint64_t connection)
{
    return &host->sockets[connection % SIM_BUCKETS];
}

static struct sim_socket *sim_tcp_find(struct sim_host *host, uint64_t connection, uint8_t side)
{
    LIST_EACH(bucket(host, connection), node)
    {
        struct sim_socket *s = CONTAINER_OF(node, struct sim_socket, link);
        if (s->connection == connection && s->side == side) return s;
    }
    return NULL;
}

static struct sim_socket *socket_new(struct sim_host *host, struct sim_host *peer,
                                     uint64_t connection, uint8_t side)
{
    struct sim_socket *s;

    if (host->socket_count >= SIM_SOCKETS_MAX) return NULL;
    s = calloc(1, sizeof *s);
    if (!s) return NULL;
    if (sim_event_init(&s->timer, host->sim, timer_fired)) {
        free(s);
        return NULL;
    }
    s->host = host;
    s->peer = peer;
    s->connection = connection;
    s->side = side;
    list_init(&s->link);
    list_init(&s->waiting);
    list_init(&s->early);
    buf_init(&s->out, SIM_SEND_BUFFER);
    buf_init(&s->in, SIM_RECEIVE_BUFFER);
    s->window_end = SIM_RECEIVE_BUFFER;
    s->resend_at = s->linger_until = s->waiting_since = SIM_NEVER;
    list_append(bucket(host, connection), &s->link);
    host->socket_count++;
    sim_mark(host->sim, SIM_MARK_SOCKET, host, connection, side);
    return s;
}

static void drop_early(struct sim_socket *s)
{
    while (!list_empty(&s->early)) {
        sim_packet_free(CONTAINER_OF(s->early.next, struct sim_packet, link));
    }
}

static void sim_tcp_forget(struct sim_socket *s)
{
    if (s->state == SIM_GONE) return;
    s->state = SIM_GONE;
    list_remove(&s->link);
    s->host->socket_count--;
    sim_event_cancel(&s->timer);
    drop_early(s);
    if (s->listener) sim_listener_drop(s);
}

void sim_socket_free(struct sim_socket *s)
{
    if (!s) return;
    sim_tcp_forget(s);
    sim_event_deinit(&s->timer);
    buf_deinit(&s->out);
    buf_deinit(&s->in);
    free(s);
}

/* The process is notified if it still has the handle. */
static void fail(struct sim_socket *s, enum err why, const char *text)
{
    sim_tcp_forget(s);
    s->why = why;
    s->why_text = text;
    if (s->stream)
        sim_stream_progress(s->stream);
    else
        sim_socket_free(s);
}

/* -- sending -- */

static uint64_t data_end(const struct sim_socket *s)
{
    return s->unacked + s->out.len;
}

static void check(const struct sim_socket *s)
{
    assert(s->unacked <= s->next && s->next <= s->sent && s->sent <= data_end(s) + 1);
    assert(s->next <= data_end(s) || s->fin_wanted);
}

static void emit(struct sim_socket *s, enum sim_packet_kind kind, uint64_t sequence, size_t len,
                 bool fin, bool probe)
{
    struct str bytes = len ? str_of(s->out.data + (sequence - s->unacked), len) : STR_EMPTY;
    struct sim_packet *packet =
        sim_packet_new(s->host, s->peer, kind, kind == SIM_SYN ? str_from(s->key) : bytes);

    if (!packet) return; /* without memory the packet counts as lost */
    packet->connection = s->connection;
    packet->side = !s->side;
    packet->tls = s->tls;
    packet->fin = fin;
    packet->probe = probe;
    packet->sequence = sequence;
    packet->ack = s->expected;
    packet->window = SIM_RECEIVE_BUFFER - min_size(s->in.len, SIM_RECEIVE_BUFFER);
    sim_packet_send(packet);
}

static void send_ack(struct sim_socket *s)
{
    emit(s, SIM_DATA, s->next, 0, false, false);
}

static void arm(struct sim_socket *s)
{
    sim_time at = {min_u64(s->resend_at.ns, s->linger_until.ns)};

    if (s->state == SIM_GONE) return;
    if (at.ns == UINT64_MAX)
        sim_event_cancel(&s->timer);
    else
        sim_event_at(&s->timer, at);
}

static bool unanswered(const struct sim_socket *s)
{
    return s->state == SIM_SYN_SENT || s->state == SIM_SYN_RECEIVED || s->next > s->unacked ||
           /* data waits for a larger window */
           (s->state == SIM_ESTABLISHED && data_end(s) > s->next);
}

static void set_resend(struct sim_socket *s)
{
    bool opening = s->state == SIM_SYN_SENT || s->state == SIM_SYN_RECEIVED;
    uint64_t first = opening ? SIM_SYN_RESEND_NS : SIM_RESEND_NS;
    uint64_t now = s->host->sim->now.ns;

    if (!unanswered(s)) {
        s->resend_at = s->waiting_since = SIM_NEVER;
        s->resends = 0;
    } else {
        if (s->waiting_since.ns == UINT64_MAX) s->waiting_since.ns = now;
        s->resend_at.ns =
            now + (first << (s->resends < SIM_RESEND_DOUBLINGS_MAX ? s->resends
                                                                   : SIM_RESEND_DOUBLINGS_MAX));
    }
    arm(s);
}

static bool fin_next(const struct sim_socket *s, uint64_t sequence)
{
    return s->fin_wanted && sequence == data_end(s);
}

/* Sends data or the end, if the window allows. False: nothing was sent. */
static bool send_one(struct sim_socket *s)
{
    uint64_t end = min_u64(data_end(s), s->window_end);
    size_t len = s->next < end ? min_size((size_t)(end - s->next), SIM_SEGMENT_MAX) : 0;
    bool fin = s->next + len == data_end(s) && fin_next(s, s->next + len);

    if (s->fin_acked || s->next > data_end(s) || (!len && !fin)) return false;
    emit(s, SIM_DATA, s->next, len, fin, false);
    s->next += len + fin;
    s->sent = max_u64(s->sent, s->next);
    return true;
}

void sim_socket_push(struct sim_socket *s)
{
    if (s->state != SIM_ESTABLISHED) return;
    while (send_one(s)) continue;
    /* A timer that every write restarts would never fire. */
    if (unanswered(s) && s->resend_at.ns == UINT64_MAX) set_resend(s);
    check(s);
}

size_t sim_socket_take(struct sim_socket *s, struct str bytes)
{
    size_t room = SIM_SEND_BUFFER - min_size(s->out.len, SIM_SEND_BUFFER);
    size_t len = min_size(room, bytes.len);

    assert(!s->fin_wanted);
    if (s->state == SIM_GONE || !len) return 0;
    if (buf_append(&s->out, str_of(bytes.at, len))) return 0; /* no memory acts as a full buffer */
    return len;
}

void sim_socket_end(struct sim_socket *s)
{
    s->fin_wanted = true;
    sim_socket_push(s);
}

enum err sim_socket_dial(struct sim_host *host, struct sim_host *peer, const char *key, bool tls,
                         struct sim_socket **ret_socket)
{
    struct sim_socket *s = socket_new(host, peer, ++host->sim->next_connection, 0);

    if (!s) return ERR_NOMEM;
    s->state = SIM_SYN_SENT;
    s->tls = tls;
    snprintf(s->key, sizeof s->key, "%s", key);
    emit(s, SIM_SYN, 0, 0, false, false);
    set_resend(s);
    *ret_socket = s;
    return ERR_OK;
}

static void resend(struct sim_socket *s)
{
    s->resends++;
    switch (s->state) {
    case SIM_SYN_SENT: emit(s, SIM_SYN, 0, 0, false, false); break;
    case SIM_SYN_RECEIVED: emit(s, SIM_SYN_ACK, 0, 0, false, false); break;
    case SIM_ESTABLISHED:
        if (s->next > s->unacked) s->next = s->unacked;
        if (!send_one(s))
            emit(s, SIM_DATA, s->next, 0, false, true); /* asks whether the window is closed */
        break;
    case SIM_TIME_WAIT:
    case SIM_GONE: break;
    }
    set_resend(s);
}

static void timer_fired(struct sim_event *event)
{
    struct sim_socket *s = CONTAINER_OF(event, struct sim_socket, timer);
    uint64_t now = s->host->sim->now.ns, give_up = s->host->sim->options.give_up_ms * NS_PER_MS;

    if (s->host->frozen) {
        sim_event_in(event, SIM_RESEND_NS); /* the host is frozen: try again after it resumes */
        return;
    }
    if (now >= s->linger_until.ns) {
        fail(s, ERR_CLOSED, "");
        return;
    }
    if (now - min_u64(s->waiting_since.ns, now) >= give_up) {
        fail(s, ERR_IO, "connection timed out");
        return;
    }
    resend(s);
}

/* -- receiving -- */

/* Sends a reset to the peer of the socket with this `side` of the connection. */
static void send_reset(struct sim_host *from, struct sim_host *to, uint64_t connection,
                       uint8_t side)
{
    struct sim_packet *reset = sim_packet_new(from, to, SIM_RESET, STR_EMPTY);

    if (!reset) return;
    reset->connection = connection;
    reset->side = !side;
    sim_packet_send(reset);
}

static void answer_reset(const struct sim_packet *packet)
{
    if (packet->kind != SIM_RESET) /* a reset gets no answer, or both sides would answer for ever */
        send_reset(packet->to, packet->from, packet->connection, packet->side);
}

static void receive_syn(struct sim_packet *packet)
{
    struct sim_host *host = packet->to;
    struct sim_listener *listener = sim_listener_find(host, str_of(packet->bytes, packet->len));
    struct sim_socket *s = sim_tcp_find(host, packet->connection, 1);

    if (s) { /* a repeated packet: our reply is lost or under way */
        if (s->state == SIM_SYN_RECEIVED) emit(s, SIM_SYN_ACK, 0, 0, false, false);
        return;
    }
    if (!listener || !sim_listener_wants(listener, packet->tls)) {
        answer_reset(packet);
        return;
    }
    if (listener->backlog_count >= SIM_BACKLOG_MAX) return;
    s = socket_new(host, packet->from, packet->connection, 1);
    if (!s) return;
    s->state = SIM_SYN_RECEIVED;
    s->tls = packet->tls;
    s->listener = listener;
    list_append(&listener->backlog, &s->waiting);
    listener->backlog_count++;
    emit(s, SIM_SYN_ACK, 0, 0, false, false);
    set_resend(s);
}

static void established(struct sim_socket *s)
{
    s->state = SIM_ESTABLISHED;
    s->was_open = true;
    s->resends = 0;
    s->resend_at = s->waiting_since = SIM_NEVER;
    if (s->listener) sim_host_ready(s->host, &s->listener->ready);
    if (s->stream) sim_stream_progress(s->stream);
}

static void receive_ack(struct sim_socket *s, const struct sim_packet *packet)
{
    uint64_t acked = packet->ack - s->unacked;

    /* an old packet or an invalid number */
    if (packet->ack < s->unacked || packet->ack > s->sent) return;
    /* The peer is alive but has no room, so the connection must not time out. */
    if (data_end(s) > s->window_end) s->waiting_since = SIM_NEVER;
    if (packet->ack + packet->window > s->window_end) s->window_end = packet->ack + packet->window;
    if (acked) {
        size_t data = min_size((size_t)acked, s->out.len);
        buf_consume(&s->out, data);
        s->unacked = packet->ack;
        if (data < acked) s->fin_acked = true;
        s->next = max_u64(s->next, s->unacked);
        s->resends = 0;
        s->waiting_since = SIM_NEVER;
        set_resend(s);
        if (s->stream) sim_stream_progress(s->stream);
    }
}

/* Appends the packet's new bytes. False: no room or memory; the packet counts as lost. */
static bool absorb(struct sim_socket *s, const struct sim_packet *packet)
{
    size_t known = (size_t)min_u64(s->expected - packet->sequence, packet->len);
    struct str fresh = str_of(packet->bytes + known, packet->len - known);

    if (s->in.len + fresh.len > SIM_RECEIVE_BUFFER) return false;
    if (fresh.len && buf_append(&s->in, fresh)) return false;
    s->expected += fresh.len;
    if (packet->fin && !s->fin_received && s->expected == packet->sequence + packet->len) {
        s->expected++;
        s->fin_received = true;
    }
    return true;
}

/* Takes ownership of a packet that arrived before its predecessors. */
static void keep_early(struct sim_socket *s, struct sim_packet *packet)
{
    if (packet->sequence + packet->len > s->expected + SIM_RECEIVE_BUFFER) {
        sim_packet_free(packet);
        return;
    }
    LIST_EACH(&s->early, node)
    {
        const struct sim_packet *other = CONTAINER_OF(node, struct sim_packet, link);
        if (other->sequence > packet->sequence ||
            (other->sequence == packet->sequence && other->len < packet->len)) {
            list_insert_before(node, &packet->link);
            return;
        }
        if (other->sequence == packet->sequence) {
            sim_packet_free(packet); /* a duplicate packet */
            return;
        }
    }
    list_append(&s->early, &packet->link);
}

static void absorb_early(struct sim_socket *s)
{
    while (!list_empty(&s->early)) {
        struct sim_packet *packet = CONTAINER_OF(s->early.next, struct sim_packet, link);
        if (packet->sequence > s->expected || !absorb(s, packet)) break;
        sim_packet_free(packet);
    }
}

/* When both sides have ended and all is acknowledged, the socket only answers repeated packets. */
static void maybe_finished(struct sim_socket *s)
{
    if (s->state != SIM_ESTABLISHED || !s->fin_received || !s->fin_acked) return;
    s->state = SIM_TIME_WAIT;
    s->resend_at = SIM_NEVER;
    s->linger_until.ns = s->host->sim->now.ns + SIM_LINGER_NS;
    arm(s);
    if (s->stream) sim_stream_progress(s->stream);
}

static void receive_data(struct sim_socket *s, struct sim_packet *packet)
{
    bool carries = packet->len || packet->fin, wants_answer = carries || packet->probe;
    bool had_fin = s->fin_received;
    uint64_t before = s->expected;

    receive_ack(s, packet);
    if (carries && packet->len && !s->stream && !s->listener && s->state == SIM_ESTABLISHED &&
        packet->sequence + packet->len > s->expected) {
        answer_reset(packet); /* the process has closed its handle */
        sim_packet_free(packet);
        fail(s, ERR_IO, "");
        return;
    }
    if (carries && packet->sequence > s->expected) {
        keep_early(s, packet);
        packet = NULL;
    } else if (carries && absorb(s, packet)) {
        absorb_early(s);
    }
    sim_packet_free(packet);
    if (wants_answer) send_ack(s);
    if ((s->expected != before || s->fin_received != had_fin) && s->stream)
        sim_stream_progress(s->stream);
    sim_socket_push(s);
    maybe_finished(s);
}

void sim_tcp_receive(struct sim_packet *packet)
{
    struct sim_socket *s;

    if (packet->kind == SIM_SYN) {
        receive_syn(packet);
        sim_packet_free(packet);
        return;
    }
    s = sim_tcp_find(packet->to, packet->connection, packet->side);
    if (!s) {
        answer_reset(packet);
        sim_packet_free(packet);
        return;
    }
    switch (packet->kind) {
    case SIM_SYN_ACK:
        if (s->state == SIM_SYN_SENT) established(s);
        send_ack(s);
        sim_socket_push(s);
        sim_packet_free(packet);
        break;
    case SIM_DATA:
        if (s->state == SIM_SYN_SENT) { /* the answer to our first packet is still under way */
            sim_packet_free(packet);
            break;
        }
        if (s->state == SIM_SYN_RECEIVED) established(s);
        receive_data(s, packet);
        break;
    case SIM_RESET:
        sim_packet_free(packet);
        if (s->state == SIM_SYN_SENT)
            fail(s, ERR_UNAVAILABLE, "connection refused");
        else
            fail(s, ERR_IO, "connection reset by peer");
        break;
    case SIM_SYN: break;
    }
}

/* -- calls from the process -- */

void sim_socket_read(struct sim_socket *s, size_t len)
{
    bool was_tight = s->in.len > SIM_RECEIVE_BUFFER / 2;
    uint64_t expected = s->expected;

    buf_consume(&s->in, len);
    if (s->state != SIM_ESTABLISHED) return;
    absorb_early(s);
    /* The sender may wait for room. If this packet is lost, the sender asks again by itself. */
    if (s->expected != expected || (was_tight && s->in.len <= SIM_RECEIVE_BUFFER / 2)) {
        send_ack(s);
    }
}

void sim_socket_reset(struct sim_socket *s)
{
    if (s->state != SIM_GONE && s->state != SIM_TIME_WAIT)
        send_reset(s->host, s->peer, s->connection, s->side);
    sim_socket_free(s);
}

void sim_socket_abandon(struct sim_socket *s)
{
    s->stream = NULL;
    if (s->state == SIM_GONE) {
        sim_socket_free(s);
    } else if (s->state == SIM_SYN_SENT || s->state == SIM_SYN_RECEIVED || s->in.len ||
               !list_empty(&s->early)) {
        sim_socket_reset(s);
    } else if (s->state == SIM_ESTABLISHED) {
        s->linger_until.ns = s->host->sim->now.ns + SIM_LINGER_NS;
        if (!s->fin_wanted) sim_socket_end(s);
        arm(s);
    }
}

void sim_sockets_power_cut(struct sim_host *host)
{
    for (size_t i = 0; i < SIM_BUCKETS; i++) {
        LIST_EACH_SAFE(&host->sockets[i], node, next)
        {
            struct sim_socket *s = CONTAINER_OF(node, struct sim_socket, link);
            if (s->stream) {
                sim_tcp_forget(s);
                s->why = ERR_IO;
                s->why_text = "power cut";
            } else {
                sim_socket_free(s);
            }
        }
    }
}
