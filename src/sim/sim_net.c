/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses, dialing and listening: struct net of io/net.h.
 *
 * A host is reached by its name or by its address 10.0.0.N, and by itself also as localhost,
 * 127.0.0.1 or [::1]. Unknown names do not resolve. */
#include "sim/tcp.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    STREAMS_MAX_DEFAULT = 1024,
    DIAL_TIMEOUT_DEFAULT_MS = 10000,
    EPHEMERAL_PORTS = 28000,
};

static struct sim_listener *listener_of(const struct listener *listener)
{
    return CONTAINER_OF(listener, struct sim_listener, base);
}

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
    if (!parts.is_unix && !parts.port)
        return note_fail(note, ERR_INVALID, "dial %s: no port", options->address);
    if (host->dead) return ERR_UNAVAILABLE;
    place = parts.is_unix ? PLACE_LOOPBACK : resolve(host, parts.host, &peer);
    if (parts.is_unix) {
        peer = host;
        snprintf(key, sizeof key, "unix:%.*s", STR_ARG(parts.host));
    } else {
        snprintf(key, sizeof key, "%s%u",
                 place == PLACE_HOST && peer != host ? "" : "lo:", (unsigned)parts.port);
    }
    stream = sim_stream_new(host, options->output_max);
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
            sim_stream_free(stream);
            return err;
        }
        sim_stream_attach(stream, socket);
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
    return sim_listener_find(host, str_from(key)) != NULL; /* `key` may be "lo:7000" or "7000" */
}

bool sim_listener_wants(struct sim_listener *listener, bool tls)
{
    bool same = (listener->options.tls != NULL) == tls;
    if (!same) listener->base.stats.failed_handshake++;
    return same;
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
    if (listener->base.stats.open >= streams_max)
        listener->base.stats.refused_full++;
    else
        stream = sim_stream_new(listener->host, listener->options.output_max);
    if (!stream) {
        sim_socket_reset(socket);
        return;
    }
    sim_stream_attach(stream, socket);
    stream->opened = stream->paused = true;
    stream->listener = listener;
    if (str_starts(str_from(listener->key), STR("unix:"))) {
        snprintf(stream->peer_address, sizeof stream->peer_address, "unix");
    } else {
        snprintf(stream->peer_address, sizeof stream->peer_address, "%s:%u", socket->peer->ip,
                 (unsigned)(SIM_EPHEMERAL_PORT_FIRST + socket->connection % EPHEMERAL_PORTS));
    }
    listener->base.stats.accepted++;
    listener->base.stats.open++;
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

static const struct listener_ops listener_ops = {.close = listener_stop};

/* ERR_BUSY, ERR_UNAVAILABLE. */
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
        return note_fail(note, ERR_BUSY, "listen %s: address in use", listener->address);
    }
    place = resolve(host, parts->host, &named);
    if (place == PLACE_NOWHERE || named != host)
        return note_fail(note, ERR_UNAVAILABLE, "listen %.*s: not an address of this host",
                         STR_ARG(parts->host));
    for (int tries = 0; !port && tries < EPHEMERAL_PORTS; tries++) {
        host->next_port = host->next_port == UINT16_MAX ? SIM_EPHEMERAL_PORT_FIRST
                                                        : (uint16_t)(host->next_port + 1);
        if (!port_taken(host, host->next_port)) port = host->next_port;
    }
    snprintf(listener->key, sizeof listener->key, "%s%u", place == PLACE_LOOPBACK ? "lo:" : "",
             port);
    snprintf(listener->address, sizeof listener->address, v6 ? "[%.*s]:%u" : "%.*s:%u",
             STR_ARG(parts->host), port);
    if (port && !port_taken(host, (uint16_t)port)) return ERR_OK;
    return note_fail(note, ERR_BUSY, "listen %s: address in use", listener->address);
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
    listener->base = (struct listener){.ops = &listener_ops, .address = listener->address};
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

/* -- start and death of a host's network -- */

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
    LIST_EACH_SAFE(&host->streams, node, next)
    {
        sim_stream_free(CONTAINER_OF(node, struct sim_stream, link));
    }
    LIST_EACH_SAFE(&host->listeners, node, next)
    {
        listener_free(CONTAINER_OF(node, struct sim_listener, link));
    }
}
