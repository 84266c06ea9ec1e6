/* The process's side of the network: struct net, listeners and streams of io/net.h over sim_tcp.c.
 *
 * A host is reached by its name or its address 10.0.0.N, and by itself also as localhost, 127.0.0.1
 * or [::1]. Names that no host has do not resolve. All callbacks run from the ready list of a
 * turn. */
#include "sim/tcp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    READ_MAX = 64 * 1024, /* bytes in one on_bytes */
    OUTPUT_MAX_DEFAULT = 1024 * 1024,
    STREAMS_MAX_DEFAULT = 1024,
    DIAL_TIMEOUT_DEFAULT_MS = 10000,
    ADDRESS_CAP = 160,
    EPHEMERAL_PORTS = 28000, /* from 32768 on */
};

struct sim_listener {
    struct listener base;
    struct list link; /* on its host */
    struct sim_host *host;
    char key[SIM_KEY_CAP], address[ADDRESS_CAP];
    struct listen_options options;
    struct list backlog; /* sockets, half open or waiting for accept */
    size_t backlog_count;
    struct listener_stats stats;
    struct sim_ready ready;
    bool accepting, closed;
};
struct sim_stream {
    struct stream base;
    struct list link, unsent; /* on its host */
    struct sim_host *host;
    struct sim_socket *socket;     /* NULL: never had one, or the process closed it */
    struct sim_listener *listener; /* that counts it as open */
    struct stream_events events;
    void *owner;
    bool started; /* it has events; an accepted one gets them later */
    bool opened, paused, ended, end_told, closing, failed;
    struct sim_bytes pending;    /* written, not yet taken by the kernel */
    size_t output_max, drain_at; /* on_drained is due when no more than drain_at is pending */
    bool drain_wanted;
    struct sim_event deadline; /* of a dial */
    struct sim_ready ready;
    enum err why;
    struct note note;
    char peer_address[ADDRESS_CAP];
    const struct tls_identity *identity;
    const char *alpn;
};

static struct sim_stream *stream_of(const struct stream *stream)
{
    return CONTAINER_OF(stream, struct sim_stream, base);
}

static struct sim_listener *listener_of(const struct listener *listener)
{
    return CONTAINER_OF(listener, struct sim_listener, base);
}

/* -- streams: life -- */

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

static struct sim_stream *stream_new(struct sim_host *host, size_t output_max)
{
    struct sim_stream *stream = calloc(1, sizeof *stream);

    if (!stream) return NULL;
    if (sim_event_init(&stream->deadline, host->sim, dial_timed_out)) {
        free(stream);
        return NULL;
    }
    stream->base.ops = &stream_ops;
    stream->host = host;
    stream->output_max = output_max ? output_max : OUTPUT_MAX_DEFAULT;
    stream->alpn = "";
    sim_bytes_init(&stream->pending, stream->output_max);
    sim_ready_init(&stream->ready, stream_turn);
    list_init(&stream->unsent);
    list_init(&stream->link);
    list_append(&host->streams, &stream->link);
    return stream;
}

static void attach(struct sim_stream *stream, struct sim_socket *socket)
{
    stream->socket = socket;
    socket->stream = stream;
    if (socket->tls) {
        stream->identity = socket->peer->options.identity;
        stream->alpn = socket->host->alpn;
    }
}

static void stream_free(struct sim_stream *stream)
{
    if (stream->socket) sim_socket_abandon(stream->socket);
    if (stream->listener) stream->listener->stats.open--;
    list_remove(&stream->link);
    list_remove(&stream->unsent);
    list_remove(&stream->ready.link);
    sim_event_deinit(&stream->deadline);
    sim_bytes_deinit(&stream->pending);
    free(stream);
}

/* The last word. */
static void finish(struct sim_stream *stream, enum err why, const struct note *note)
{
    static const struct note orderly = {"closed"};

    stream->closing = true; /* refuses whatever the callback still tries */
    if (stream->listener) stream->listener->stats.open--; /* its place is free in on_closed */
    stream->listener = NULL;
    if (stream->started) stream->events.on_closed(stream->owner, why, note ? note : &orderly);
    stream_free(stream);
}

/* -- streams: a turn -- */

static void mark_unsent(struct sim_stream *stream)
{
    if (list_empty(&stream->unsent)) list_append(&stream->host->unsent, &stream->unsent);
    sim_host_schedule(stream->host);
}

/* Hands the kernel what it has room for. */
static void feed(struct sim_stream *stream)
{
    struct sim_socket *socket = stream->socket;
    size_t len = sim_bytes_len(&stream->pending);

    if (!socket || socket->state == SIM_GONE || socket->fin_wanted) return;
    if (len)
        sim_bytes_consume(&stream->pending,
                          sim_socket_take(socket, sim_bytes_peek(&stream->pending, 0, len)));
    sim_socket_push(socket);
    if (stream->ended && !sim_bytes_len(&stream->pending)) sim_socket_end(socket);
    if (stream->drain_wanted && sim_bytes_len(&stream->pending) <= stream->drain_at) {
        sim_host_ready(stream->host, &stream->ready); /* on_drained, in the next turn */
    }
}

void sim_net_flush(struct sim_host *host)
{
    for (struct list *node; (node = list_pop(&host->unsent));) {
        feed(CONTAINER_OF(node, struct sim_stream, unsent));
    }
}

static void tell_open(struct sim_stream *stream)
{
    if (stream->opened || !stream->socket || stream->socket->state == SIM_SYN_SENT) return;
    if (stream->socket->state == SIM_GONE && !stream->socket->was_open) return;
    stream->opened = true;
    sim_event_cancel(&stream->deadline);
    if (stream->events.on_open) stream->events.on_open(stream->owner);
}

static void tell_drained(struct sim_stream *stream)
{
    if (stream->closing || !stream->drain_wanted) return;
    if (sim_bytes_len(&stream->pending) > stream->drain_at) return;
    stream->drain_wanted = false;
    if (stream->events.on_drained) stream->events.on_drained(stream->owner);
}

static bool readable(const struct sim_stream *stream)
{
    return !stream->closing && !stream->paused && stream->socket &&
           sim_bytes_len(&stream->socket->in);
}

/* Copied out first, as a read would: the callback may close the stream and still look at its
 * bytes. */
static void tell_bytes(struct sim_stream *stream)
{
    static char room[READ_MAX];

    while (readable(stream)) { /* ends: nothing arrives during a turn */
        size_t len = min_size(sim_bytes_len(&stream->socket->in), READ_MAX);
        memcpy(room, sim_bytes_peek(&stream->socket->in, 0, len).at, len);
        sim_socket_read(stream->socket, len);
        stream->events.on_bytes(stream->owner, str_of(room, len));
    }
}

static void tell_end(struct sim_stream *stream)
{
    const struct sim_socket *socket = stream->socket;

    if (stream->closing || stream->paused || stream->end_told || !socket || !socket->fin_received ||
        sim_bytes_len(&socket->in)) {
        return;
    }
    stream->end_told = true;
    if (stream->events.on_end)
        stream->events.on_end(stream->owner);
    else
        stream_end(&stream->base);
}

static void tell_failure(struct sim_stream *stream)
{
    const struct sim_socket *socket = stream->socket;

    if (stream->closing) return;
    if (stream->failed) {
        finish(stream, stream->why, &stream->note);
    } else if (socket && stream->end_told && socket->fin_wanted) {
        finish(stream, ERR_CLOSED, NULL); /* the kernel has the rest; nothing more can happen */
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
    tell_open(stream);
    if (!stream->closing) feed(stream);
    tell_drained(stream);
    tell_bytes(stream);
    tell_end(stream);
    tell_failure(stream);
}

void sim_stream_progress(struct sim_stream *stream)
{
    sim_host_ready(stream->host, &stream->ready);
}

/* -- streams: calls -- */

static void stream_begin(struct stream *base, const struct stream_events *events, void *owner)
{
    struct sim_stream *stream = stream_of(base);

    assert(!stream->started); /* accepted ones only, and once */
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
    size_t len = 0, before = stream->pending.buf.len, max = stream->output_max;

    if (stream->closing || stream->ended || stream->failed) return ERR_CLOSED;
    if (stream->socket && stream->socket->state == SIM_GONE) return ERR_CLOSED;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].len > max - len) return ERR_TOO_LARGE;
        len += parts[i].len;
    }
    if (!len) return ERR_OK;
    if (len > max - min_size(sim_bytes_len(&stream->pending), max)) {
        want_drain(stream, min_size(max / 2, max - len)); /* when this very write fits */
        return ERR_FULL;
    }
    for (size_t i = 0; i < count; i++) {
        enum err err = parts[i].len ? sim_bytes_append(&stream->pending, parts[i]) : ERR_OK;
        if (err) {
            stream->pending.buf.len = before;
            return ERR_NOMEM;
        }
    }
    if (sim_bytes_len(&stream->pending) > max / 2) want_drain(stream, max / 2);
    mark_unsent(stream);
    return ERR_OK;
}

static size_t stream_waiting(const struct stream *base)
{
    return sim_bytes_len(&stream_of(base)->pending);
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
    sim_host_ready(stream->host, &stream->ready); /* it may be over when this has left */
}

static void stream_stop(struct stream *base)
{
    struct sim_stream *stream = stream_of(base);

    if (stream->closing) return;
    stream->closing = true;
    sim_bytes_consume(&stream->pending, sim_bytes_len(&stream->pending));
    sim_event_cancel(&stream->deadline);
    /* The doomed still hold their sockets: what the kernel does with them is decided at the
     * burial. */
    if (stream->socket && sim_host_heard(stream->host)) {
        sim_socket_abandon(stream->socket);
        stream->socket = NULL;
    }
    sim_host_ready(stream->host, &stream->ready);
}

static const char *stream_peer(const struct stream *base)
{
    return stream_of(base)->peer_address;
}

static const struct tls_identity *stream_identity(const struct stream *base)
{
    return stream_of(base)->identity;
}

static const char *stream_protocol(const struct stream *base)
{
    return stream_of(base)->alpn;
}

static const struct stream_ops stream_ops = {
    .start = stream_begin,
    .write = stream_put,
    .pending = stream_waiting,
    .pause = stream_hold,
    .resume = stream_go_on,
    .end = stream_half_close,
    .close = stream_stop,
    .peer_address = stream_peer,
    .peer_identity = stream_identity,
    .alpn = stream_protocol,
};

/* -- addresses -- */

enum place { PLACE_LOOPBACK, PLACE_ANY, PLACE_HOST, PLACE_NOWHERE };

static enum place resolve(struct sim_host *host, struct str name, struct sim_host **ret_host)
{
    static const char *const loopback[] = {"localhost", "127.0.0.1", "::1"};
    static const char *const any[] = {"0.0.0.0", "::", ""};

    *ret_host = host;
    for (size_t i = 0; i < ARRAY_LEN(loopback); i++) {
        if (str_equal(name, str_from(loopback[i]))) return PLACE_LOOPBACK;
        if (str_equal(name, str_from(any[i]))) return PLACE_ANY;
    }
    for (size_t i = 0; i < host->sim->host_count; i++) {
        struct sim_host *other = host->sim->hosts[i];
        if (str_equal(name, str_from(other->name)) || str_equal(name, str_from(other->ip))) {
            *ret_host = other;
            return PLACE_HOST;
        }
    }
    return PLACE_NOWHERE;
}

/* -- dialing -- */

static enum err dial(struct net *net, const struct dial_options *options,
                     const struct stream_events *events, void *owner, struct stream **ret_stream,
                     struct note *note)
{
    struct sim_host *host = CONTAINER_OF(net, struct sim_host, net), *peer;
    struct address_parts parts;
    struct sim_stream *stream;
    char key[SIM_KEY_CAP];
    uint64_t timeout_ms = options->timeout_ms ? options->timeout_ms : DIAL_TIMEOUT_DEFAULT_MS;
    enum err err = address_split(options->address, &parts, note);
    enum place place;

    if (err) return err;
    if (!parts.is_unix && !parts.port) {
        note_set(note, "dial %s: no port", options->address);
        return ERR_INVALID;
    }
    if (host->dead) return ERR_UNAVAILABLE;
    place = parts.is_unix ? PLACE_LOOPBACK : resolve(host, parts.host, &peer);
    if (parts.is_unix) {
        peer = host;
        snprintf(key, sizeof key, "unix:%.*s", STR_ARG(parts.host));
    } else {
        snprintf(key, sizeof key, "%s%u",
                 place == PLACE_HOST && peer != host ? "" : "lo:", (unsigned)parts.port);
    }
    stream = stream_new(host, options->output_max);
    if (!stream) return ERR_NOMEM;
    snprintf(stream->peer_address, sizeof stream->peer_address, "%s",
             parts.is_unix ? "unix" : options->address);
    stream->started = true;
    stream->events = *events;
    stream->owner = owner;
    if (place == PLACE_NOWHERE || host->doomed) {
        stream->failed = true;
        stream->why = ERR_UNAVAILABLE;
        note_set(&stream->note, "dial %s: no such host", stream->peer_address);
        sim_host_ready(host, &stream->ready);
    } else {
        struct sim_socket *socket;
        err = sim_socket_dial(host, peer, key, options->tls != NULL, &socket);
        if (err) {
            stream_free(stream);
            return err;
        }
        attach(stream, socket);
        sim_event_in(&stream->deadline, timeout_ms * NS_PER_MS);
    }
    *ret_stream = &stream->base;
    return ERR_OK;
}

/* -- listening -- */

struct sim_listener *sim_listener_find(struct sim_host *host, struct str key)
{
    struct str wild = str_starts(key, STR("lo:")) ? str_tail(key, 3) : key;

    LIST_EACH(&host->listeners, node)
    {
        struct sim_listener *listener = CONTAINER_OF(node, struct sim_listener, link);
        struct str own = str_from(listener->key);
        if (!listener->closed && (str_equal(own, key) || str_equal(own, wild))) return listener;
    }
    return NULL;
}

static bool port_taken(struct sim_host *host, uint16_t port)
{
    char key[SIM_KEY_CAP];
    snprintf(key, sizeof key, "lo:%u", (unsigned)port);
    return sim_listener_find(host, str_from(key)) != NULL; /* finds "lo:7000" and "7000" */
}

bool sim_listener_wants(struct sim_listener *listener, bool tls)
{
    bool same = (listener->options.tls != NULL) == tls;
    if (!same) listener->stats.failed_handshake++;
    return same;
}

bool sim_listener_full(const struct sim_listener *listener)
{
    return listener->backlog_count >= SIM_BACKLOG_MAX;
}

void sim_listener_add(struct sim_listener *listener, struct sim_socket *s)
{
    s->listener = listener;
    list_append(&listener->backlog, &s->waiting);
    listener->backlog_count++;
}

void sim_listener_ready(struct sim_listener *listener, struct sim_socket *s)
{
    (void)s;
    sim_host_ready(listener->host, &listener->ready);
}

void sim_listener_drop(struct sim_socket *s)
{
    list_remove(&s->waiting);
    s->listener->backlog_count--;
    s->listener = NULL;
}

static void accept_one(struct sim_listener *listener, struct sim_socket *socket)
{
    size_t streams_max =
        listener->options.streams_max ? listener->options.streams_max : STREAMS_MAX_DEFAULT;
    struct sim_stream *stream = NULL;

    sim_listener_drop(socket);
    if (listener->stats.open >= streams_max)
        listener->stats.refused_full++;
    else
        stream = stream_new(listener->host, listener->options.output_max);
    if (!stream) {
        sim_socket_reset(socket);
        return;
    }
    attach(stream, socket);
    stream->opened = stream->paused = true;
    stream->listener = listener;
    if (str_starts(str_from(listener->key), STR("unix:"))) {
        snprintf(stream->peer_address, sizeof stream->peer_address, "unix");
    } else {
        snprintf(stream->peer_address, sizeof stream->peer_address, "%s:%u", socket->peer->ip,
                 (unsigned)(32768 + socket->connection % EPHEMERAL_PORTS));
    }
    listener->stats.accepted++;
    listener->stats.open++;
    listener->options.on_accept(listener->options.owner, &stream->base);
}

static void listener_free(struct sim_listener *listener)
{
    list_remove(&listener->link);
    list_remove(&listener->ready.link);
    free(listener);
}

static void accept_waiting(struct sim_ready *ready)
{
    struct sim_listener *listener = CONTAINER_OF(ready, struct sim_listener, ready);
    size_t rounds = listener->backlog_count;

    if (listener->host->dead) return;
    listener->accepting = true;
    for (struct list *node = listener->backlog.next; rounds && !listener->closed; rounds--) {
        struct sim_socket *socket = CONTAINER_OF(node, struct sim_socket, waiting);
        node = node->next;
        if (socket->state != SIM_SYN_RECEIVED) accept_one(listener, socket);
    }
    listener->accepting = false;
    if (listener->closed) listener_free(listener);
}

static void refuse_backlog(struct sim_listener *listener)
{
    while (!list_empty(&listener->backlog)) {
        sim_socket_reset(CONTAINER_OF(listener->backlog.next, struct sim_socket, waiting));
    }
}

static void listener_stop(struct listener *base)
{
    struct sim_listener *listener = listener_of(base);

    listener->closed = true;
    if (sim_host_heard(listener->host)) refuse_backlog(listener);
    LIST_EACH(&listener->backlog, node)
    {
        CONTAINER_OF(node, struct sim_socket, waiting)->listener = NULL;
    }
    while (list_pop(&listener->backlog)) continue;
    LIST_EACH(&listener->host->streams, node)
    {
        struct sim_stream *stream = CONTAINER_OF(node, struct sim_stream, link);
        if (stream->listener == listener) stream->listener = NULL;
    }
    if (!listener->accepting) listener_free(listener);
}

static const char *listener_where(const struct listener *base)
{
    return listener_of(base)->address;
}

static struct listener_stats listener_counts(const struct listener *base)
{
    return listener_of(base)->stats;
}

static const struct listener_ops listener_ops = {listener_where, listener_counts, listener_stop};

/* Fills in where it listens. ERR_BUSY, ERR_UNAVAILABLE. */
static enum err choose_key(struct sim_listener *listener, const struct address_parts *parts,
                           struct note *note)
{
    struct sim_host *host = listener->host, *named;
    unsigned port = parts->port;
    bool v6 = str_has(parts->host, ':');
    enum place place;

    if (parts->is_unix) {
        snprintf(listener->key, sizeof listener->key, "unix:%.*s", STR_ARG(parts->host));
        snprintf(listener->address, sizeof listener->address, "%s", listener->key);
        if (!sim_listener_find(host, str_from(listener->key))) return ERR_OK;
        note_set(note, "listen %s: address in use", listener->address);
        return ERR_BUSY;
    }
    place = resolve(host, parts->host, &named);
    if (place == PLACE_NOWHERE || named != host) {
        note_set(note, "listen %.*s: not an address of this host", STR_ARG(parts->host));
        return ERR_UNAVAILABLE;
    }
    for (int tries = 0; !port && tries < EPHEMERAL_PORTS; tries++) {
        host->next_port = host->next_port == UINT16_MAX ? 32768 : (uint16_t)(host->next_port + 1);
        if (!port_taken(host, host->next_port)) port = host->next_port;
    }
    snprintf(listener->key, sizeof listener->key, "%s%u", place == PLACE_LOOPBACK ? "lo:" : "",
             port);
    snprintf(listener->address, sizeof listener->address, v6 ? "[%.*s]:%u" : "%.*s:%u",
             STR_ARG(parts->host), port);
    if (port && !port_taken(host, (uint16_t)port)) return ERR_OK;
    note_set(note, "listen %s: address in use", listener->address);
    return ERR_BUSY;
}

static enum err listen_on(struct net *net, const struct listen_options *options,
                          struct listener **ret_listener, struct note *note)
{
    struct sim_host *host = CONTAINER_OF(net, struct sim_host, net);
    struct address_parts parts;
    struct sim_listener *listener;
    enum err err = address_split(options->address, &parts, note);

    if (err) return err;
    if (!sim_host_heard(host)) return ERR_UNAVAILABLE;
    listener = calloc(1, sizeof *listener);
    if (!listener) return ERR_NOMEM;
    listener->base.ops = &listener_ops;
    listener->host = host;
    listener->options = *options;
    err = choose_key(listener, &parts, note);
    if (err) {
        free(listener);
        return err;
    }
    list_init(&listener->backlog);
    list_init(&listener->link);
    list_append(&host->listeners, &listener->link);
    sim_ready_init(&listener->ready, accept_waiting);
    *ret_listener = &listener->base;
    return ERR_OK;
}

/* -- the host's life -- */

void sim_net_init(struct sim_host *host)
{
    host->net = (struct net){dial, listen_on};
}

void sim_net_death(struct sim_host *host, enum sim_death death)
{
    if (death == SIM_POWER_CUT) {
        sim_sockets_power_cut(host);
        return;
    }
    LIST_EACH(&host->streams, node)
    {
        struct sim_stream *stream = CONTAINER_OF(node, struct sim_stream, link);
        if (stream->socket) sim_socket_abandon(stream->socket);
        stream->socket = NULL;
    }
    LIST_EACH(&host->listeners, node)
    {
        refuse_backlog(CONTAINER_OF(node, struct sim_listener, link));
    }
}

void sim_net_reclaim(struct sim_host *host)
{
    while (!list_empty(&host->streams)) {
        stream_free(CONTAINER_OF(host->streams.next, struct sim_stream, link));
    }
    while (!list_empty(&host->listeners)) {
        listener_free(CONTAINER_OF(host->listeners.next, struct sim_listener, link));
    }
}
