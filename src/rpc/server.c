/* SPDX-License-Identifier: Apache-2.0 */
/* A server's methods, listeners, turns, draining and closing. Loop's thread. */
#include "rpc/server.h"

#include <stdlib.h>
#include <string.h>

#include "rpc/server_internal.h"

#define REQUEST_LIMIT_MOST ((size_t)INT32_MAX) /* the largest message of protobuf */

/* -- turns -- */

static void scratch_trim(struct buf *scratch)
{
    if (scratch->cap > SCRATCH_KEPT_MAX) buf_deinit(scratch);
}

/* Runs deferred work and sends gathered output at the end of the turn, until neither is left. The
 * loop ends, because sockets are bounded and a handler gets each event once. */
static void server_on_turn(struct turn_hook *hook)
{
    struct rpc_server *s = CONTAINER_OF(hook, struct rpc_server, hook);
    struct list *node;

    s->flushing = true;
    while (!list_empty(&s->due) || !list_empty(&s->dirty)) {
        while ((node = list_pop(&s->due)) != NULL)
            call_look(CONTAINER_OF(node, struct rpc_call, due));
        node = list_pop(&s->dirty);
        if (node) connection_flush(CONTAINER_OF(node, struct connection, dirty));
    }
    s->flushing = false;
    scratch_trim(&s->output);
    scratch_trim(&s->message);
    scratch_trim(&s->inflated);
}

/* The task only makes the loop run another turn and its hooks. */
static void server_on_wake(struct task *) {}

void server_wake(struct rpc_server *s)
{
    if (!s->flushing) loop_defer(s->io->loop, &s->wake);
}

/* -- methods -- */

static enum err method_settle_access(const struct rpc_method *method, struct rpc_access *ret_access,
                                     struct note *note)
{
    struct rpc_access listed = rpc_access_for(str_from(method->path));

    *ret_access = method->access.kind ? method->access : listed;
    if (!ret_access->kind) return note_fail(note, ERR_INVALID, "%s: no access rule", method->path);
    if (listed.kind && listed.kind != ret_access->kind)
        return note_fail(note, ERR_INVALID, "%s: not the access rule of the table", method->path);
    return ERR_OK;
}

/* "/package.Service/Method" */
static bool method_is_path(struct str path)
{
    struct str rest = str_tail(path, 1);
    size_t slash = str_find(rest, '/');

    return path.len > 0 && path.at[0] == '/' && slash > 0 && slash + 1 < rest.len &&
           !str_has(str_tail(rest, slash + 1), '/');
}

static enum err method_check(const struct rpc_method *method, struct note *note)
{
    if (!method->path || !method_is_path(str_from(method->path)))
        return note_fail(note, ERR_INVALID, "%s: not a method's path",
                         method->path ? method->path : "(none)");
    if (!method->handler || !method->handler->on_message ||
        method->request_max > REQUEST_LIMIT_MOST || method->response_max > REQUEST_LIMIT_MOST)
        return note_fail(note, ERR_INVALID, "%s: no handler, or a limit past 2 GiB", method->path);
    return ERR_OK;
}

enum err rpc_server_add(struct rpc_server *server, const struct rpc_method *method,
                        struct note *note)
{
    struct method *m;
    enum err err = method_check(method, note);

    if (err) return err;
    if (server->method_count == RPC_METHODS_MAX) return ERR_FULL;
    m = calloc(1, sizeof *m);
    if (!m) return ERR_NOMEM;
    m->rpc = *method;
    m->path = str_from(method->path);
    if (!m->rpc.request_max) m->rpc.request_max = MESSAGE_MAX_DEFAULT;
    if (!m->rpc.inflated_max) m->rpc.inflated_max = m->rpc.request_max;
    if (!m->rpc.response_max) m->rpc.response_max = MESSAGE_MAX_DEFAULT;
    if (!m->rpc.arena_max) m->rpc.arena_max = max_size(ARENA_MAX_DEFAULT, 4 * m->rpc.request_max);
    err = method_settle_access(method, &m->rpc.access, note);
    if (!err) err = map_put(&server->by_path, m->path, m);
    if (err) {
        if (err == ERR_EXISTS) note_set(note, "%s: registered twice", method->path);
        free(m);
        return err;
    }
    meter_method(server->meter, m);
    server->methods[server->method_count++] = m;
    return ERR_OK;
}

size_t rpc_server_methods(const struct rpc_server *server)
{
    return server->method_count;
}

const struct rpc_method *rpc_server_method(const struct rpc_server *server, size_t index)
{
    return index < server->method_count ? &server->methods[index]->rpc : NULL;
}

/* -- listening -- */

enum err rpc_server_listen(struct rpc_server *server, const char *address, struct tls_context *tls,
                           struct note *note)
{
    struct listening *l = &server->listening[server->listener_count];
    struct listen_options options = {
        .address = address,
        .tls = tls,
        /* One more than the limit: the server itself refuses further connections. */
        .streams_max = (size_t)server->limits.connections_max + 1,
        .handshake_timeout_ms = server->limits.handshake_timeout_ms,
        .output_max = server->limits.socket_output_max,
        .on_accept = connection_accept,
        .owner = l,
    };
    enum err err;

    if (server->draining || server->closing) return ERR_CLOSED;
    if (server->listener_count == RPC_LISTENERS_MAX) return ERR_FULL;
    *l = (struct listening){.server = server, .tls = tls != NULL};
    err = net_listen(server->io->net, &options, &l->listener, note);
    if (err) return err;
    server->listener_count++;
    return ERR_OK;
}

const char *rpc_server_address(const struct rpc_server *server, size_t listener)
{
    if (listener >= server->listener_count || !server->listening[listener].listener) return "";
    return listener_address(server->listening[listener].listener);
}

static void server_close_listeners(struct rpc_server *s)
{
    for (size_t i = 0; i < s->listener_count; i++) {
        listener_close(s->listening[i].listener);
        s->listening[i].listener = NULL;
    }
}

/* -- draining -- */

static void server_report_drained(struct rpc_server *s)
{
    void (*done)(void *owner) = s->drained;

    s->drained = NULL;
    timer_stop(&s->drain_timer);
    if (done) done(s->drained_owner);
}

static void server_on_drain_timer(struct timer *timer)
{
    server_report_drained(CONTAINER_OF(timer, struct rpc_server, drain_timer));
}

/* Handlers may end any calls here, because a call's memory is kept until the end of the turn. */
static void server_drain_calls(struct connection *c)
{
    if (c->state == CONNECTION_ENDED) return;
    LIST_EACH(&c->calls, node) call_drain(CONTAINER_OF(node, struct rpc_call, link));
}

void rpc_server_drain(struct rpc_server *server, uint64_t within_ms, void (*done)(void *owner),
                      void *owner)
{
    assert(!server->draining && !server->closing);
    server->draining = true;
    server->drained = done;
    server->drained_owner = owner;
    server_close_listeners(server);
    LIST_EACH(&server->connections, node)
    {
        struct connection *c = CONTAINER_OF(node, struct connection, link);
        connection_drain(c);
        server_drain_calls(c);
    }
    /* Without connections the timer calls done(), so that done() never runs inside this call. */
    timer_start_in(&server->drain_timer, list_empty(&server->connections) ? 0 : within_ms);
}

void server_connection_gone(struct rpc_server *s, struct connection *c)
{
    list_remove(&c->link);
    limits_leave(s, c->peer);
    connection_free(c);
    s->stats.connections--;
    meter_connections(s, -1);
    if (s->closing && list_empty(&s->connections))
        loop_defer(s->io->loop, &s->end);
    else if (s->draining && list_empty(&s->connections))
        server_report_drained(s);
}

/* -- life -- */

static void server_free(struct rpc_server *s)
{
    assert(list_empty(&s->connections) && list_empty(&s->due) && list_empty(&s->dirty));
    assert(list_empty(&s->ended));
    assert(s->stats.calls == 0 && s->stats.buffered == 0 && s->stats.metadata == 0);
    turn_hook_remove(&s->hook);
    task_cancel(&s->wake);
    task_cancel(&s->end);
    task_cancel(&s->teardown);
    timer_deinit(&s->drain_timer);
    while (s->kept_count > 0) call_forget_kept(s);
    for (size_t i = 0; i < s->method_count; i++) free(s->methods[i]);
    map_deinit(&s->by_path);
    map_deinit(&s->peers);
    buf_deinit(&s->output);
    buf_deinit(&s->message);
    buf_deinit(&s->inflated);
    free(s);
}

static void server_free_if_closed(struct rpc_server *s)
{
    void (*done)(void *owner) = s->closed;
    void *owner = s->closed_owner;

    if (!s->closing || !list_empty(&s->connections)) return;
    server_free(s);
    if (done) done(owner);
}

static void server_on_end(struct task *task)
{
    struct rpc_server *s = CONTAINER_OF(task, struct rpc_server, end);

    LIST_EACH_SAFE(&s->connections, node, next)
    connection_cut(CONTAINER_OF(node, struct connection, link));
    server_free_if_closed(s);
}

void rpc_server_close(struct rpc_server *server, void (*done)(void *owner), void *owner)
{
    if (!server) {
        if (done) done(owner);
        return;
    }
    assert(!server->closing);
    server->closing = true;
    server->closed = done;
    server->closed_owner = owner;
    timer_stop(&server->drain_timer); /* a drain that is not finished is not reported */
    server_close_listeners(server);
    loop_defer(server->io->loop, &server->end);
}

enum err rpc_server_open(const struct rpc_server_options *options, struct rpc_server **ret_server,
                         struct note *note)
{
    struct rpc_server *s = calloc(1, sizeof *s);
    enum err err;

    if (!s) return ERR_NOMEM;
    s->io = options->io;
    s->meter = options->meter;
    s->outsiders = options->outsiders;
    if (options->log) s->log = *options->log;
    list_init(&s->connections);
    list_init(&s->dirty);
    list_init(&s->due);
    list_init(&s->ended);
    list_init(&s->kept);
    task_init(&s->wake, server_on_wake);
    task_init(&s->end, server_on_end);
    task_init(&s->teardown, teardown_run);
    map_init(&s->by_path, RPC_METHODS_MAX, entropy_u64(s->io->entropy));
    map_init(&s->peers, MAP_MOST, entropy_u64(s->io->entropy));
    err = limits_settle(&options->limits, &s->limits);
    if (err) note_set(note, "the limits of the server contradict each other");
    if (!err) err = timer_init(&s->drain_timer, s->io->loop, server_on_drain_timer);
    if (err) {
        free(s);
        return err;
    }
    buf_init(&s->output, s->limits.socket_output_max);
    buf_init(&s->message, REQUEST_LIMIT_MOST);
    buf_init(&s->inflated, REQUEST_LIMIT_MOST);
    meter_method(s->meter, &s->unknown);
    turn_hook_add(s->io->loop, &s->hook, server_on_turn);
    *ret_server = s;
    return ERR_OK;
}

struct rpc_server_stats rpc_server_stats(const struct rpc_server *server)
{
    return server->stats;
}
