/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that reopen by themselves (stream.h). Loop's thread only.
 *
 * Invariant: a cancelled call that has not ended outlives its stream. The memory of the call is
 * kept until the call ends, and late events of the call are ignored. */
#include "prim/grpc_thread/stream.h"

#include <stdlib.h>

#include "rpc/retry.h"

enum { PAUSE_FIRST_MS = 50, PAUSE_MAX_MS = 1000, STABLE_MS = 2000, FAILURES_MAX = 16 };

struct grpc_thread_call {
    struct grpc_stream *stream; /* NULL: the stream was left */
    struct rpc_client_call *rpc;
};

static void stream_open(struct grpc_stream *s);

static void stream_on_again(struct timer *timer)
{
    stream_open(CONTAINER_OF(timer, struct grpc_stream, again));
}

enum err grpc_stream_init(struct grpc_stream *s, struct grpc_thread *grpc_thread, const char *path)
{
    s->path = path;
    s->grpc_thread = grpc_thread;
    s->call = NULL;
    s->failures = 0;
    s->wanted = false;
    list_init(&s->link);
    return timer_init(&s->again, grpc_loop(grpc_thread), stream_on_again);
}

static void stream_retry(struct grpc_stream *s)
{
    const struct io *io = s->grpc_thread->io;
    const struct backoff backoff = {PAUSE_FIRST_MS, PAUSE_MAX_MS};
    uint64_t bound = backoff_bound_ms(backoff, s->failures + 1) / 2;

    /* A stream that opens, delivers one message and ends has failed, too. */
    if (mono_elapsed_ms(s->opened, loop_now(io->loop)) >= STABLE_MS)
        s->failures = 0;
    else if (s->failures < FAILURES_MAX)
        s->failures++;
    timer_start_in(&s->again, bound + entropy_u64(io->entropy) % bound);
}

static void stream_message(void *owner, struct rpc_client_call *, struct str message)
{
    struct grpc_thread_call *call = owner;

    if (call->stream) call->stream->on_message(call->stream, message);
}

/* The owner may free the stream in on_broken. */
static void stream_lost(struct grpc_stream *s, enum grpc_status status, struct str text)
{
    s->call = NULL;
    list_remove(&s->link);
    if (s->wanted && !s->grpc_thread->closing) stream_retry(s);
    if (s->on_broken) s->on_broken(s, status, text);
}

static void stream_stream_ended(void *owner, struct rpc_client_call *,
                                const struct rpc_outcome *outcome)
{
    struct grpc_thread_call *call = owner;
    struct grpc_stream *s = call->stream;
    struct grpc_thread *r;
    uint32_t generation;

    free(call);
    if (!s) return;
    r = s->grpc_thread;
    generation = r->generation;
    if (r->ways->stream_ended) r->ways->stream_ended(r, outcome);
    stream_lost(s, outcome->answered ? outcome->status : GRPC_UNAVAILABLE, outcome->text);
    if (grpc_should_move(r, outcome)) grpc_server_trouble(r, generation);
}

static enum err grpc_thread_stream_stream_call(struct grpc_stream *s)
{
    static const struct rpc_call_events events = {.on_message = stream_message,
                                                  .on_end = stream_stream_ended};
    struct grpc_thread *r = s->grpc_thread;
    struct rpc_call_options options = r->ways->stream;
    struct grpc_thread_call *call;
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

static void stream_open(struct grpc_stream *s)
{
    if (!s->wanted || s->call || s->grpc_thread->closing) return;
    s->opened = loop_now(grpc_loop(s->grpc_thread));
    if (grpc_thread_stream_stream_call(s))
        stream_retry(s);
    else
        s->on_open(s);
}

void grpc_stream_want(struct grpc_stream *s)
{
    s->wanted = true;
    if (!s->call && !timer_running(&s->again)) stream_open(s);
}

static void stream_abandon(struct grpc_stream *s)
{
    struct grpc_thread_call *call = s->call;

    s->call = NULL;
    list_remove(&s->link);
    if (!call) return;
    call->stream = NULL;
    rpc_call_cancel(call->rpc);
}

void grpc_stream_leave(struct grpc_stream *s)
{
    s->wanted = false;
    timer_stop(&s->again);
    stream_abandon(s);
}

void grpc_stream_deinit(struct grpc_stream *s)
{
    grpc_stream_leave(s);
    timer_deinit(&s->again);
}

void grpc_stream_reset(struct grpc_stream *s)
{
    if (!s->call) return;
    stream_abandon(s);
    stream_lost(s, GRPC_UNAVAILABLE, STR("the stream was given up"));
}

enum err grpc_stream_send(struct grpc_stream *s, struct str message)
{
    return s->call ? rpc_call_send(s->call->rpc, message) : ERR_CLOSED;
}

void grpc_stream_send_end(struct grpc_stream *s)
{
    if (s->call) rpc_call_end(s->call->rpc);
}

void grpc_streams_reset(struct grpc_thread *r)
{
    LIST_EACH_SAFE(&r->streams, node, following)
    {
        grpc_stream_reset(CONTAINER_OF(node, struct grpc_stream, link));
    }
}

void grpc_streams_leave(struct grpc_thread *r)
{
    while (!list_empty(&r->streams))
        grpc_stream_leave(CONTAINER_OF(r->streams.next, struct grpc_stream, link));
}
