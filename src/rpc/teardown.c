/* SPDX-License-Identifier: Apache-2.0 */
/* Ends the calls of connections that are over, in slices.
 *
 * A peer that hangs up may leave as many open calls as its connections allow, and each of them
 * costs its handler's on_done. The loop's turn also carries Raft, so a turn ends at most
 * TEARDOWN_PER_TURN calls, whatever number of connections ended. The rest waits for the next turn.
 * Until a call is ended it counts: against calls_max, buffered bytes and metadata.
 *
 * Invariants: a connection in server.ended has the state CONNECTION_ENDED, so no handler can answer
 * a call of it and no call is added to it. A connection is freed when its calls are ended, its h2
 * is closed and on_closed has come, in whichever order. */
#include "rpc/server_internal.h"

enum {
    STREAMS_PER_STEP = 8, /* freeing a stream of an h2 costs far less than ending a call */
    /* A closing server defers its slices, and a turn runs a task that defers itself up to 16 times. */
    CLOSING_PER_SLICE = TEARDOWN_PER_TURN / 16,
};

/* A closing server needs no timer to finish: the simulator stops the timers of a dead process. */
void teardown_go_on(struct rpc_server *s)
{
    if (list_empty(&s->ended)) return;
    if (s->closing) {
        timer_stop(&s->teardown_timer);
        loop_defer(s->io->loop, &s->teardown_task);
    } else {
        timer_start_in(&s->teardown_timer, 0);
    }
}

void teardown_begin(struct connection *c)
{
    assert(c->state == CONNECTION_ENDED && list_empty(&c->ended));
    list_append(&c->server->ended, &c->ended);
    teardown_go_on(c->server);
}

/* Ends at most `max` calls; returns how many it ended. */
static size_t end_calls(struct connection *c, size_t max)
{
    size_t count = 0;

    for (; !list_empty(&c->calls) && count < max; count++) {
        struct rpc_call *call = CONTAINER_OF(c->calls.next, struct rpc_call, link);
        connection_remove(c, call);
        call_gone(call);
    }
    return count;
}

/* An h2 is freed in one piece, so one whose streams pass the budget gets a slice to itself. */
static size_t close_h2(struct connection *c, size_t left, size_t slice)
{
    size_t cost = 1 + h2_streams(c->h2) / STREAMS_PER_STEP;

    if (cost > left && left < slice) return 0;
    h2_close(c->h2);
    c->h2 = NULL;
    return min_size(cost, left);
}

void teardown_run(struct rpc_server *s)
{
    size_t slice = s->closing ? CLOSING_PER_SLICE : TEARDOWN_PER_TURN, left = slice, calls = 0;

    while (left > 0 && !list_empty(&s->ended)) {
        struct connection *c = CONTAINER_OF(s->ended.next, struct connection, ended);
        size_t count = end_calls(c, left);
        calls += count;
        left -= count;
        if (c->call_count == 0) left -= close_h2(c, left, slice);
        if (c->h2) break; /* the rest of it is for the next turn */
        list_remove(&c->ended);
        if (!c->stream) server_connection_gone(s, c);
    }
    if (calls > s->stats.teardown_turn_max) s->stats.teardown_turn_max = (uint32_t)calls;
    teardown_go_on(s);
}
