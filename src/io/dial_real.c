/* SPDX-License-Identifier: Apache-2.0 */
/* Dialing: resolves the name and tries its addresses one after the other until the deadline. Runs
 * on the loop's thread. */
#include "io/stream_real.h"
#include "io/tls.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIAL_REAL_HOST_CAP = 256, PORT_CAP = 8 };

/* One attempt to open a stream. Freed when the stream is open or closed and no lookup runs. */
struct dial {
    struct real_stream *stream; /* NULL: closed during the lookup */
    struct timer timer;
    mono_time deadline;
    uv_getaddrinfo_t lookup;
    bool looking;
    struct addrinfo *found, *next; /* result of the lookup; next address to try */
    struct addrinfo numeric;       /* the only address if no lookup was needed */
    struct sockaddr_storage numeric_address;
    int code; /* libuv's error for the last address */
    bool is_unix;
    struct str host; /* view into `address` */
    uint16_t port;
    char address[];
};

void dial_stop(struct dial *dial)
{
    timer_deinit(&dial->timer);
    /* The lookup's callback runs even after a cancel, and frees `dial`. */
    if (dial->looking) uv_cancel((uv_req_t *)&dial->lookup);
}

static void dial_free(struct dial *dial)
{
    uv_freeaddrinfo(dial->found);
    timer_deinit(&dial->timer);
    free(dial);
}

void dial_release(struct dial *dial)
{
    if (!dial) return;
    dial->stream = NULL;
    if (!dial->looking) dial_free(dial);
}

static void try_next(struct dial *dial);

static void on_attempt_closed(uv_handle_t *handle)
{
    struct real_stream *s = handle->data;

    real_enter(s->real);
    s->has_handle = false;
    if (s->state == STREAM_CLOSING)
        stream_finish(s);
    else
        try_next(s->dial);
}

static void end_attempt(struct dial *dial, int code)
{
    dial->code = code;
    timer_stop(&dial->timer);
    uv_close(&dial->stream->uv.handle, on_attempt_closed);
}

/* TCP's simultaneous open can connect a socket to itself, when the kernel picks the dialed port for
 * our end. Nobody listens then, so the connection counts as refused. */
static bool met_itself(struct real_stream *s, const struct sockaddr_storage *peer)
{
    struct sockaddr_storage own = {0};
    int len = sizeof own;

    return uv_tcp_getsockname(&s->uv.tcp, (struct sockaddr *)&own, &len) == 0 &&
           memcmp(&own, peer, sizeof own) == 0;
}

static int check_peer(struct dial *dial)
{
    struct real_stream *s = dial->stream;
    struct sockaddr_storage peer = {0};
    int len = sizeof peer, failed = 0;

    if (!dial->is_unix) {
        failed = uv_tcp_getpeername(&s->uv.tcp, (struct sockaddr *)&peer, &len);
        if (!failed && met_itself(s, &peer)) failed = UV_ECONNREFUSED;
    }
    stream_address_text(&peer, s->peer);
    s->stream.peer_address = s->peer;
    return failed;
}

static void on_connect(uv_connect_t *connect, int status)
{
    struct real_stream *s = connect->handle->data;
    struct dial *dial = s->dial;

    real_enter(s->real);
    if (uv_is_closing(&s->uv.handle)) return; /* closed; the close callback continues */
    if (status == 0) status = check_peer(dial);
    if (status < 0) {
        end_attempt(dial, status);
        return;
    }
    s->dial = NULL;
    dial_release(dial);
    stream_opened(s);
    if (s->state == STREAM_OPEN && s->events.on_open) s->events.on_open(s->owner);
}

/* Each remaining address gets an equal share of the remaining time, because an address may drop all
 * packets. */
static void start_clock(struct dial *dial)
{
    struct loop *loop = &dial->stream->real->loop;
    uint64_t left = mono_elapsed_ms(loop_now(loop), dial->deadline), shares = 1;

    for (const struct addrinfo *later = dial->next; later; later = later->ai_next) shares++;
    timer_start_in(&dial->timer, max_u64(left / shares, 1));
}

static void try_next(struct dial *dial)
{
    struct real_stream *s = dial->stream;
    struct addrinfo *target = dial->next;
    int failed;

    if (!target) {
        bool late = dial->code == UV_ETIMEDOUT;
        stream_fail(s, "dial", late ? ERR_TIMEOUT : ERR_UNAVAILABLE, dial->code);
        return;
    }
    dial->next = target->ai_next;
    failed = uv_tcp_init(&s->real->uv, &s->uv.tcp);
    if (failed) {
        stream_fail(s, "dial", real_err(failed), failed);
        return;
    }
    s->has_handle = true;
    s->uv.handle.data = s;
    uv_tcp_nodelay(&s->uv.tcp, 1);
    failed = uv_tcp_connect(&s->connect, &s->uv.tcp, target->ai_addr, on_connect);
    if (failed)
        end_attempt(dial, failed);
    else
        start_clock(dial);
}

static void on_looked_up(uv_getaddrinfo_t *lookup, int status, struct addrinfo *found)
{
    struct dial *dial = CONTAINER_OF(lookup, struct dial, lookup);

    dial->looking = false;
    dial->found = found;
    if (!dial->stream) { /* the stream was closed during the lookup */
        dial_free(dial);
        return;
    }
    real_enter(dial->stream->real);
    if (dial->stream->state == STREAM_CLOSING) return;
    timer_stop(&dial->timer);
    dial->next = found;
    if (status < 0)
        stream_fail(dial->stream, "look up", ERR_UNAVAILABLE, status);
    else
        try_next(dial);
}

static void on_time_up(struct timer *timer)
{
    struct dial *dial = CONTAINER_OF(timer, struct dial, timer);

    if (!dial->looking && dial->next)
        end_attempt(dial, UV_ETIMEDOUT);
    else
        stream_fail(dial->stream, dial->looking ? "look up" : "dial", ERR_TIMEOUT, UV_ETIMEDOUT);
}

static bool parse_numeric(struct dial *dial, const char *host)
{
    struct sockaddr *address = (struct sockaddr *)&dial->numeric_address;

    if (uv_ip4_addr(host, dial->port, (struct sockaddr_in *)address) &&
        uv_ip6_addr(host, dial->port, (struct sockaddr_in6 *)address))
        return false;
    dial->numeric.ai_addr = address;
    dial->next = &dial->numeric;
    return true;
}

static enum err dial_unix(struct dial *dial)
{
    struct real_stream *s = dial->stream;
    char path[DIAL_REAL_HOST_CAP];

    if (uv_pipe_init(&s->real->uv, &s->uv.pipe, 0)) return ERR_NOMEM;
    s->has_handle = true;
    s->uv.handle.data = s;
    snprintf(path, sizeof path, "%.*s", STR_ARG(dial->host));
    uv_pipe_connect(&s->connect, &s->uv.pipe, path, on_connect);
    start_clock(dial);
    return ERR_OK;
}

/* Returns ERR_NOMEM. Every other failure is reported by on_closed. */
static enum err dial_begin(struct dial *dial)
{
    static const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    char host[DIAL_REAL_HOST_CAP], port[PORT_CAP];
    int failed;

    if (dial->is_unix) return dial_unix(dial);
    snprintf(host, sizeof host, "%.*s", STR_ARG(dial->host));
    snprintf(port, sizeof port, "%u", dial->port);
    if (parse_numeric(dial, host)) {
        try_next(dial);
        return ERR_OK;
    }
    failed =
        uv_getaddrinfo(&dial->stream->real->uv, &dial->lookup, on_looked_up, host, port, &hints);
    if (failed == UV_ENOMEM) return ERR_NOMEM;
    dial->looking = !failed;
    if (failed)
        stream_fail(dial->stream, "look up", ERR_UNAVAILABLE, failed);
    else
        start_clock(dial);
    return ERR_OK;
}

static enum err dial_new(struct real_stream *s, const struct dial_options *options,
                         const struct address_parts *parts)
{
    size_t size = strlen(options->address) + 1;
    uint64_t timeout_ms = options->timeout_ms ? options->timeout_ms : DIAL_TIMEOUT_DEFAULT_MS;
    struct dial *dial = calloc(1, sizeof *dial + size);
    enum err err;

    if (!dial) return ERR_NOMEM;
    err = timer_init(&dial->timer, &s->real->loop, on_time_up);
    if (err) {
        free(dial);
        return err;
    }
    memcpy(dial->address, options->address, size);
    dial->is_unix = parts->is_unix;
    dial->host = str_of(dial->address + (parts->host.at - options->address), parts->host.len);
    dial->port = parts->port;
    dial->deadline = mono_after(loop_now(&s->real->loop), timeout_ms);
    dial->stream = s;
    s->dial = dial;
    s->stream.peer_address = dial->address;
    return ERR_OK;
}

static enum err dial_plain(struct net *net, const struct dial_options *options,
                           const struct stream_events *events, void *owner,
                           struct stream **ret_stream, struct note *note)
{
    struct real_io *real = CONTAINER_OF(net, struct real_io, net);
    struct address_parts parts;
    struct real_stream *s;
    enum err err = address_split(options->address, &parts, note);

    if (err) return err;
    if (parts.host.len == 0 || (!parts.is_unix && parts.port == 0))
        return note_fail(note, ERR_INVALID, "address \"%s\": needs a host and a port to dial",
                         options->address);
    s = stream_new(real, options->output_max);
    if (!s) return ERR_NOMEM;
    err = dial_new(s, options, &parts);
    if (!err) err = dial_begin(s->dial);
    if (err) {
        note_set(note, "dial %s: %s", options->address, err_text(err));
        stream_free(s);
        return err;
    }
    stream_start(&s->stream, events, owner);
    *ret_stream = &s->stream;
    return ERR_OK;
}

enum err real_dial(struct net *net, const struct dial_options *options,
                   const struct stream_events *events, void *owner, struct stream **ret_stream,
                   struct note *note)
{
    struct real_io *real = CONTAINER_OF(net, struct real_io, net);

    if (!options->tls) return dial_plain(net, options, events, owner, ret_stream, note);
    return tls_dial(&real->loop, net, dial_plain, options, events, owner, ret_stream, note);
}
