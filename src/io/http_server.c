/* SPDX-License-Identifier: Apache-2.0 */
/* Life cycle of the server: loop and thread, listener, certificates, wake-up of the thread.
 *
 * The server has its own loop, so that pages are served even if the process's main loop hangs.
 * Objects on the server's loop are opened before the thread starts, and the thread closes them at
 * its end. Other threads change routes and channels under the lock, and post to wake the thread. */
#include "io/http_internal.h"
#include "io/real_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HTTP_SWEEP_MS = 1000, /* between checks of the connections */
    HTTP_STOP_TURNS = 16, /* turns in which event streams can send their last bytes */
};

void http_wake(struct http_server *server)
{
    if (server->woken || !server->thread_runs) return;
    server->woken = true;
    loop_post(real_io_io(server->real)->loop, &server->wake);
}

/* -- certificates ------------------------------------------------------------------------------ */

struct tls_context *http_tls_now(struct http_server *server)
{
    struct tls_context *next;

    http_lock(server);
    next = server->tls_next;
    server->tls_next = NULL;
    http_unlock(server);
    if (next) {
        tls_context_unref(server->tls);
        server->tls = next;
        server->tls_loads = 0; /* no context has this load count */
    }
    return server->tls;
}

void http_tls_expire(struct http_server *server)
{
    uint64_t loads = tls_context_info(server->tls).loads;

    if (loads == server->tls_loads) return;
    server->tls_loads = loads;
    LIST_EACH_SAFE(&server->connections, node, following)
    {
        http_connection_expire(CONTAINER_OF(node, struct http_connection, link));
    }
}

static enum err server_open_tls(struct http_server *server, struct tls_context **ret_context,
                                struct note *note)
{
    const struct tls_options *options = &server->tls_options;

    if (!options->cert_file && !options->key_file)
        return note_fail(note, ERR_INVALID, "the server was opened without TLS");
    if (!options->cert_file || !options->key_file)
        return note_fail(note, ERR_INVALID, "TLS needs both a certificate and a key");
    return tls_context_open(fs_real(), options, ret_context, note);
}

enum err http_reload_tls(struct http_server *server, struct note *note)
{
    struct tls_context *next = NULL, *unused;
    enum err err = server_open_tls(server, &next, note);

    if (err) return err;
    http_lock(server);
    unused = server->tls_next; /* the HTTP thread has not used tls_next yet */
    server->tls_next = next;
    http_wake(server);
    http_unlock(server);
    tls_context_unref(unused);
    return ERR_OK;
}

/* -- the thread -------------------------------------------------------------------------------- */

static void server_on_wake(struct post *post)
{
    struct http_server *server = CONTAINER_OF(post, struct http_server, wake);
    size_t count;
    bool stopping, certificates;

    http_lock(server);
    server->woken = false;
    stopping = server->stopping;
    certificates = server->tls_next != NULL;
    count = server->route_count; /* channels are never removed */
    http_unlock(server);
    if (stopping) {
        real_io_stop(server->real);
        return;
    }
    if (certificates && http_tls_now(server)) http_tls_expire(server);
    for (size_t i = 0; i < count; i++) {
        struct http_channel *channel;
        http_lock(server); /* another thread may be changing the route's kind */
        channel = server->routes[i].kind == ROUTE_CHANNEL ? server->routes[i].channel : NULL;
        http_unlock(server);
        if (channel) http_channel_pump_all(channel);
    }
}

static void server_on_sweep(struct timer *timer)
{
    struct http_server *server = CONTAINER_OF(timer, struct http_server, sweep);
    mono_time now = loop_now(timer->loop);
    bool pulse = mono_due(server->pulse_at, now);

    if (pulse) server->pulse_at = mono_after(now, server->keepalive_ms);
    LIST_EACH_SAFE(&server->connections, node, following)
    {
        http_connection_check(CONTAINER_OF(node, struct http_connection, link), now, pulse);
    }
    if (!list_empty(&server->connections)) http_sweep_start(server);
}

void http_sweep_start(struct http_server *server)
{
    if (!timer_running(&server->sweep))
        timer_start_in(&server->sweep, min_u64(server->keepalive_ms, HTTP_SWEEP_MS));
}

static void server_close_connections(struct http_server *server, bool readers_too)
{
    LIST_EACH_SAFE(&server->connections, node, following)
    {
        struct http_connection *c = CONTAINER_OF(node, struct http_connection, link);
        if (c->state == CONNECTION_EVENTS && !readers_too)
            http_channel_finish(c);
        else
            stream_close(c->stream);
    }
}

static void *http_thread(void *argument)
{
    struct http_server *server = argument;

    pthread_setname_np(pthread_self(), "http");
    real_io_run(server->real); /* returns after http_close */
    listener_close(server->listener);
    server->listener = NULL;
    server_close_connections(server, false);
    for (int i = 0; i < HTTP_STOP_TURNS && !list_empty(&server->connections); i++)
        real_io_turn(server->real, false);
    server_close_connections(server, true);
    while (!list_empty(&server->connections)) /* until all connections are closed */
        real_io_turn(server->real, true);
    return NULL;
}

/* -- open and close ---------------------------------------------------------------------------- */

static uint32_t given_or(uint32_t given, uint32_t usual)
{
    return given ? given : usual;
}

static enum err server_prepare_tls(struct http_server *server, const struct http_options *options,
                                   struct note *note)
{
    const char *const given[] = {options->cert_file, options->key_file, options->ca_file};
    const char **const kept[] = {&server->tls_options.cert_file, &server->tls_options.key_file,
                                 &server->tls_options.ca_files[0]};

    if (!options->cert_file && !options->key_file) return ERR_OK;
    server->tls_options.side = TLS_SERVER;
    server->tls_options.version_min = TLS_V1_2;
    server->tls_options.peer_optional = true; /* probes and most clients have no certificate */
    server->tls_options.peer_unproven = true;
    for (size_t i = 0; i < ARRAY_LEN(given); i++) {
        *kept[i] = given[i] ? str_dup(str_from(given[i])) : NULL;
        if (given[i] && !*kept[i]) return ERR_NOMEM;
    }
    return server_open_tls(server, &server->tls, note);
}

static enum err server_listen(struct http_server *server, const char *address, struct note *note)
{
    struct listen_options options = {
        .address = address,
        .streams_max = SIZE_MAX, /* the server pauses accepting instead */
        .output_max = server->tls ? tls_plain_output_max(HTTP_OUTPUT_MAX) : HTTP_OUTPUT_MAX,
        .on_accept = http_connection_accept,
        .owner = server,
    };
    struct address_parts parts;
    struct note why = {""};
    enum err err = address_split(address, &parts, note);

    if (!err && parts.is_unix) {
        note_set(note, "address \"%s\": HTTP needs host:port", address);
        err = ERR_INVALID;
    }
    if (err) return err;
    err = net_listen(real_io_io(server->real)->net, &options, &server->listener, &why);
    if (err)
        note_set(note, "listen %s", why.text + strlen("listen on "));
    else
        snprintf(server->address, sizeof server->address, "%s", listener_address(server->listener));
    return err == ERR_UNAVAILABLE ? ERR_INVALID : err;
}

static enum err server_start(struct http_server *server, const struct http_options *options,
                             struct note *note)
{
    enum err err = server_prepare_tls(server, options, note);
    struct loop *loop;

    if (!err) err = real_io_open_within(&server->real);
    if (err) return err;
    loop = real_io_io(server->real)->loop;
    entropy_fill(real_io_io(server->real)->entropy, &server->boot_id, sizeof server->boot_id);
    server->pulse_at = mono_after(loop_now(loop), server->keepalive_ms);
    if (server->tls) server->tls_loads = tls_context_info(server->tls).loads;
    err = timer_init(&server->sweep, loop, server_on_sweep);
    if (!err) err = server_listen(server, options->address, note);
    if (err) return err;
    server->thread_runs = true;
    if (real_thread_start(&server->thread, http_thread, server)) server->thread_runs = false;
    return server->thread_runs ? ERR_OK : ERR_UNAVAILABLE;
}

enum err http_open(const struct http_options *options, struct http_server **ret_server,
                   struct note *note)
{
    struct http_server *server;
    enum err err;

    if (!options->address || options->connections_max > HTTP_CONNECTIONS_LIMIT)
        return note_fail(note, ERR_INVALID,
                         options->address ? "too many connections: %u" : "no address to listen on",
                         options->connections_max);
    server = calloc(1, sizeof *server);
    if (!server) return ERR_NOMEM;
    pthread_cond_init(&server->handler_ended, NULL);
    pthread_mutex_init(&server->lock, NULL); /* cannot fail with default attributes */
    list_init(&server->connections);
    post_init(&server->wake, server_on_wake);
    server->body_max = options->body_max ? options->body_max : HTTP_BODY_MAX;
    server->response_max = options->response_max ? options->response_max : HTTP_RESPONSE_MAX;
    server->keepalive_ms = given_or(options->keepalive_ms, HTTP_KEEPALIVE_MS);
    server->idle_timeout_ms =
        (uint64_t)given_or(options->idle_timeout_s, HTTP_IDLE_TIMEOUT_S) * MS_PER_SECOND;
    server->connections_max = given_or(options->connections_max, HTTP_CONNECTIONS_MAX);
    server->per_peer_max =
        given_or(options->connections_per_peer_max, HTTP_CONNECTIONS_PER_PEER_MAX);
    server->readers_max = server->connections_max > 1 ? server->connections_max / 2 : 1;
    err = server_start(server, options, note);
    if (err)
        http_close(server);
    else
        *ret_server = server;
    return err;
}

void http_close(struct http_server *server)
{
    if (!server) return;
    if (server->thread_runs) {
        http_lock(server);
        server->stopping = true;
        http_wake(server);
        http_unlock(server);
        pthread_join(server->thread, NULL);
    }
    assert(list_empty(&server->connections) && atomic_load(&server->readers) == 0);
    listener_close(server->listener); /* still open if the thread did not start */
    timer_deinit(&server->sweep);
    real_io_close(server->real);
    http_routes_deinit(server);
    tls_context_unref(server->tls);
    tls_context_unref(server->tls_next);
    free((char *)server->tls_options.cert_file);
    free((char *)server->tls_options.key_file);
    free((char *)server->tls_options.ca_files[0]);
    pthread_mutex_destroy(&server->lock);
    pthread_cond_destroy(&server->handler_ended);
    free(server);
}

const char *http_address(const struct http_server *server)
{
    return server->address;
}

struct http_stats http_stats(const struct http_server *server)
{
    return (struct http_stats){
        .requests = atomic_load(&server->requests),
        .errors = atomic_load(&server->errors),
        .events_sent = atomic_load(&server->events_sent),
        .events_dropped = atomic_load(&server->events_dropped),
        .connections = atomic_load(&server->connection_count),
        .readers = atomic_load(&server->readers),
    };
}
