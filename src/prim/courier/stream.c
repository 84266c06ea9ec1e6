/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that come back by themselves (stream.h). Loop thread only.
 *
 * Invariant: a call outlives its stream when it was cancelled and has not ended yet; until then its
 * memory is kept, and its late events find no stream. */
#include "prim/courier/stream.h"

#include <stdlib.h>

#include "rpc/retry.h"

enum { PAUSE_FIRST_MS = 50, PAUSE_MAX_MS = 1000, STABLE_MS = 2000, FAILURES_MAX = 16 };

struct courier_call {
    struct courier_stream *stream; /* NULL: left behind */
    struct rpc_client_call *rpc;
};

static void stream_open(struct courier_stream *s);

static void on_again(struct timer *timer)
{
    stream_open(CONTAINER_OF(timer, struct courier_stream, again));
}

enum err courier_stream_init(struct courier_stream *s, struct courier *courier, const char *path)
{
    s->path = path;
    s->courier = courier;
    s->call = NULL;
    s->failures = 0;
    s->wanted = false;
    list_init(&s->link);
    return timer_init(&s->again, courier_loop(courier), on_again);
}

static void stream_retry(struct courier_stream *s)
{
    const struct io *io = s->courier->io;
    const struct backoff backoff = {PAUSE_FIRST_MS, PAUSE_MAX_MS};
    uint64_t bound = backoff_bound_ms(backoff, s->failures + 1) / 2;

    /* A stream that opens, brings one message and ends again is failing, too. */
    if (mono_elapsed_ms(s->opened, loop_now(io->loop)) >= STABLE_MS)
        s->failures = 0;
    else if (s->failures < FAILURES_MAX)
        s->failures++;
    timer_start_in(&s->again, bound + entropy_u64(io->entropy) % bound);
}

static void stream_message(void *owner, struct rpc_client_call *, struct str message)
{
    struct courier_call *call = owner;

    if (call->stream) call->stream->on_message(call->stream, message);
}

/* The owner may leave the stream here, and its memory may be gone then. */
static void stream_lost(struct courier_stream *s, enum grpc_status status, struct str text)
{
    s->call = NULL;
    list_remove(&s->link);
    if (s->wanted && !s->courier->closing) stream_retry(s);
    if (s->on_broken) s->on_broken(s, status, text);
}

static void stream_ended(void *owner, struct rpc_client_call *, const struct rpc_outcome *outcome)
{
    struct courier_call *call = owner;
    struct courier_stream *s = call->stream;
    struct courier *r;
    uint32_t generation;

    free(call);
    if (!s) return;
    r = s->courier;
    generation = r->generation;
    if (r->ways->stream_ended) r->ways->stream_ended(r, outcome);
    stream_lost(s, outcome->answered ? outcome->status : GRPC_UNAVAILABLE, outcome->text);
    if (courier_should_move(r, outcome)) courier_trouble(r, generation);
}

static enum err stream_call(struct courier_stream *s)
{
    static const struct rpc_call_events events = {.on_message = stream_message,
                                                  .on_end = stream_ended};
    struct courier *r = s->courier;
    struct rpc_call_options options = r->ways->stream;
    struct courier_call *call;
    enum err err;

    options.path = s->path;
    options.wait_for_ready = true;
    if (r->ways->prepare_stream && !r->ways->prepare_stream(r, &options))
        return ERR_UNAUTHENTICATED;
    call = calloc(1, sizeof *call);
    if (!call) return ERR_NOMEM;
    call->stream = s;
    err = rpc_call_start(r->channel, &options, &events, call, &call->rpc);
    if (err) {
        free(call);
        return err;
    }
    s->call = call;
    list_append(&r->streams, &s->link);
    return ERR_OK;
}

static void stream_open(struct courier_stream *s)
{
    if (!s->wanted || s->call || s->courier->closing) return;
    s->opened = loop_now(courier_loop(s->courier));
    if (stream_call(s))
        stream_retry(s);
    else
        s->on_open(s);
}

void courier_stream_want(struct courier_stream *s)
{
    s->wanted = true;
    if (!s->call && !timer_running(&s->again)) stream_open(s);
}

static void stream_abandon(struct courier_stream *s)
{
    struct courier_call *call = s->call;

    s->call = NULL;
    list_remove(&s->link);
    if (!call) return;
    call->stream = NULL;
    rpc_call_cancel(call->rpc);
}

void courier_stream_leave(struct courier_stream *s)
{
    s->wanted = false;
    timer_stop(&s->again);
    stream_abandon(s);
}

void courier_stream_deinit(struct courier_stream *s)
{
    courier_stream_leave(s);
    timer_deinit(&s->again);
}

void courier_stream_reset(struct courier_stream *s)
{
    if (!s->call) return;
    stream_abandon(s);
    stream_lost(s, GRPC_UNAVAILABLE, STR("the stream was given up"));
}

enum err courier_stream_send(struct courier_stream *s, struct str message)
{
    return s->call ? rpc_call_send(s->call->rpc, message) : ERR_CLOSED;
}

void courier_stream_send_end(struct courier_stream *s)
{
    if (s->call) rpc_call_end(s->call->rpc);
}

void courier_streams_reset(struct courier *r)
{
    LIST_EACH_SAFE(&r->streams, node, following)
    {
        courier_stream_reset(CONTAINER_OF(node, struct courier_stream, link));
    }
}

void courier_streams_leave(struct courier *r)
{
    while (!list_empty(&r->streams))
        courier_stream_leave(CONTAINER_OF(r->streams.next, struct courier_stream, link));
}
