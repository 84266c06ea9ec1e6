/* SPDX-License-Identifier: Apache-2.0 */
/* Ends the calls of closed connections, in slices.
 *
 * The loop's turn also runs Raft, so a turn ends at most TEARDOWN_PER_TURN calls. Until a call is
 * ended it counts against calls_max, buffered bytes and metadata.
 *
 * Invariants: a connection in server.ended has the state CONNECTION_ENDED: no handler can answer
 * its calls, and no call is added. A connection is freed when its calls are ended, its h2 is closed
 * and on_closed was called, in any order. */
#include "rpc/server_internal.h"

enum {
    STREAMS_PER_STEP = 8,               /* freeing a stream costs far less than ending a call */
    PER_SLICE = TEARDOWN_PER_TURN / 16, /* a task that defers itself runs up to 16 times per turn */
};

void teardown_begin(struct connection *c)
{
    assert(c->state == CONNECTION_ENDED && list_empty(&c->ended));
    list_append(&c->server->ended, &c->ended);
    loop_defer(c->server->io->loop, &c->server->teardown);
}

static size_t teardown_end_calls(struct connection *c, size_t max)
{
    size_t count = 0;

    for (; !list_empty(&c->calls) && count < max; count++) {
        struct rpc_call *call = CONTAINER_OF(c->calls.next, struct rpc_call, link);
        connection_remove(c, call);
        call_gone(call);
    }
    return count;
}

/* An h2 is freed as a whole, so an h2 with more streams than the budget gets a slice of its own. */
static size_t teardown_close_h2(struct connection *c, size_t left)
{
    size_t cost = 1 + h2_streams(c->h2) / STREAMS_PER_STEP;

    if (cost > left && left < PER_SLICE) return 0;
    h2_close(c->h2);
    c->h2 = NULL;
    return min_size(cost, left);
}

void teardown_run(struct task *task)
{
    struct rpc_server *s = CONTAINER_OF(task, struct rpc_server, teardown);
    size_t left = PER_SLICE;

    while (left > 0 && !list_empty(&s->ended)) {
        struct connection *c = CONTAINER_OF(s->ended.next, struct connection, ended);
        size_t count = teardown_end_calls(c, left);
        left -= count;
        if (c->call_count == 0) left -= teardown_close_h2(c, left);
        if (c->h2) break; /* the next slice continues */
        list_remove(&c->ended);
        if (!c->stream) server_connection_gone(s, c);
    }
    if (!list_empty(&s->ended)) loop_defer(s->io->loop, task);
}
