/* SPDX-License-Identifier: Apache-2.0 */
/* The timeout of request bodies.
 *
 * A unary or server-streaming call uses memory and counts against calls_max from its headers on, so
 * the rest of its request must arrive in time. A stream may be silent between messages without a
 * limit, but a message that has begun must be completed.
 *
 * connection.bodies lists the calls with an incomplete request by their next check, every
 * body_timeout_ms. At a check a call must have received RPC_BODY_RATE_MIN bytes per second. Periods
 * in which the server did not read do not count. */
#include "rpc/server_internal.h"

static void enter(struct rpc_call *call, mono_time now)
{
    struct connection *c = call->connection;

    call->body_check = mono_after(now, c->server->limits.body_timeout_ms);
    call->body_came = 0;
    list_append(&c->bodies, &call->body);
}

void body_wait(struct rpc_call *call)
{
    if (!list_empty(&call->body)) return;
    enter(call, loop_now(call->server->io->loop));
    connection_wake_by(call->connection, call->body_check);
}

void body_over(struct rpc_call *call)
{
    list_remove(&call->body);
}

mono_time body_due(const struct connection *c)
{
    return list_empty(&c->bodies) ? MONO_NEVER
                                  : CONTAINER_OF(c->bodies.next, struct rpc_call, body)->body_check;
}

/* True if the peer cannot send, because the server does not read or the window is closed. */
static bool is_ours(const struct rpc_call *call)
{
    const struct connection *c = call->connection;

    return call->paused || c->choked || c->unread || call->inbox.len > 0 ||
           h2_receive_window(c->h2) == 0;
}

static bool is_fast(const struct rpc_call *call)
{
    uint64_t ms = call->server->limits.body_timeout_ms;

    return call->body_came >= ms * RPC_BODY_RATE_MIN / MS_PER_SECOND;
}

void body_expire(struct connection *c, mono_time now)
{
    while (mono_due(body_due(c), now)) {
        struct rpc_call *call = CONTAINER_OF(c->bodies.next, struct rpc_call, body);
        list_remove(&call->body);
        if (is_ours(call) || is_fast(call)) {
            enter(call, now);
            continue;
        }
        meter_refused(c->server, REFUSED_BODY);
        LOG_WARN(&c->server->log, "call ended because its request did not arrive in time",
                 log_str("method", call->path), log_text("peer", c->address),
                 log_str("identity", c->peer->key), log_u64("bytes", call->body_came),
                 log_u64("timeout_ms", c->server->limits.body_timeout_ms));
        call_abort(call, GRPC_DEADLINE_EXCEEDED, "the request did not arrive in time");
    }
}
