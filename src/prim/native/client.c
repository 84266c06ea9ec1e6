/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/native/client.h"

#include "prim/native/reply.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    DIAL_TIMEOUT_MS = 1000,
    BACKOFF_FIRST_MS = 50,
    BACKOFF_MAX_MS = 1000,
    ATTEMPTS_MAX = 6,
    STREAM_MESSAGE_MAX = 8 * 1024 * 1024,
};

struct native_client {
    struct courier courier;
    struct list streams; /* open ones; loop thread */
    coord_id store_id;   /* zero: not known yet */
};

/* -- which store -- */

void native_client_bind(struct native_client *c, const coord_id *store_id)
{
    c->store_id = *store_id;
}

enum err native_client_write(const struct native_client *c, ProtobufCMessage *message,
                             struct buf *into)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(message->descriptor, STORE_ID_FIELD);
    ProtobufCBinaryData meant = native_id_bytes(&c->store_id);

    if (field && !prim_id_is_zero(&c->store_id))
        memcpy((char *)message + field->offset, &meant, sizeof meant);
    return message_write(message, into, NULL);
}

/* -- trouble -- */

static void moved(struct courier *courier)
{
    LIST_EACH_SAFE(&CONTAINER_OF(courier, struct native_client, courier)->streams, node, following)
    {
        native_stream_reset(CONTAINER_OF(node, struct native_stream, link));
    }
}

/* -- unary calls -- */

/* All carry (client, sequence), or only read: a repeat does no harm. */
void native_op_init(struct courier_op *op, const char *path, int64_t deadline_ns)
{
    courier_op_init(op, path, deadline_ns, NATIVE_REQUEST_MAX, NATIVE_RESPONSE_MAX);
    op->idempotent = true;
}

void native_op_start(struct native_client *c, struct courier_op *op)
{
    courier_op_start(&c->courier, op);
}

void native_op_run(struct native_client *c, struct courier_op *op)
{
    courier_op_run(&c->courier, op);
}

int64_t native_client_now(const struct native_client *c)
{
    return prim_clock_now(&c->courier.clock);
}

struct loop *native_client_loop(struct native_client *c)
{
    return c->courier.io->loop;
}

bool native_client_listens(const struct native_client *c)
{
    return !list_empty(&c->streams) || !list_empty(&c->courier.waiting);
}

void native_client_do(struct native_client *c, void (*fn)(void *owner), void *owner)
{
    courier_do(&c->courier, fn, owner);
}

static void move_on(void *owner)
{
    struct courier *courier = owner;

    courier_trouble(courier, courier->generation);
}

void native_client_move_on(struct native_client *c)
{
    courier_do(&c->courier, move_on, &c->courier);
}

void native_client_stop_waiting(struct native_client *c)
{
    courier_stop_waiting(&c->courier);
}

/* -- streams -- */

static void stream_open(struct native_stream *s);

static void on_again(struct timer *timer)
{
    stream_open(CONTAINER_OF(timer, struct native_stream, again));
}

enum err native_stream_init(struct native_stream *s, struct native_client *c, const char *path)
{
    s->path = path;
    s->client = c;
    s->call = NULL;
    s->pace = (struct courier_pace){.failures = 0};
    s->wanted = false;
    list_init(&s->link);
    return timer_init(&s->again, c->courier.io->loop, on_again);
}

static void pause_stream(struct native_stream *s)
{
    courier_pause(&s->client->courier, &s->pace, &s->again);
}

/* The life of one call, which may be longer than its stream's: cancelled is not yet ended. */
struct native_call {
    struct native_stream *stream; /* NULL: left behind */
    struct rpc_client_call *rpc;
};

static void stream_message(void *owner, struct rpc_client_call *rpc, struct str message)
{
    struct native_call *call = owner;

    (void)rpc;
    if (call->stream) call->stream->on_message(call->stream, message);
}

/* Whoever is told may leave the stream, and its memory may be gone then. */
static void stream_lost(struct native_stream *s, enum grpc_status status, struct str text)
{
    s->call = NULL;
    list_remove(&s->link);
    if (s->wanted && !s->client->courier.closing) pause_stream(s);
    s->on_broken(s, status, text);
}

static void stream_ended(void *owner, struct rpc_client_call *rpc,
                         const struct rpc_outcome *outcome)
{
    struct native_call *call = owner;
    struct native_stream *s = call->stream;
    struct native_client *c;
    uint32_t generation;

    (void)rpc;
    free(call);
    if (!s) return;
    c = s->client;
    generation = c->courier.generation;
    stream_lost(s, outcome->answered ? outcome->status : GRPC_UNAVAILABLE, outcome->text);
    if (courier_should_move(&c->courier, outcome)) courier_trouble(&c->courier, generation);
}

static enum err stream_call(struct native_stream *s, struct str request)
{
    static const struct rpc_call_events events = {stream_message, NULL, stream_ended};
    struct native_call *call = calloc(1, sizeof *call);
    enum err err;

    if (!call) return ERR_NOMEM;
    call->stream = s;
    err = rpc_call_start(s->client->courier.channel,
                         &(struct rpc_call_options){.path = s->path,
                                                    .idempotent = true,
                                                    .wait_for_ready = true,
                                                    .response_max = STREAM_MESSAGE_MAX,
                                                    .attempts_max = ATTEMPTS_MAX},
                         &events, call, &call->rpc);
    if (err) {
        free(call);
        return err;
    }
    s->call = call;
    list_append(&s->client->streams, &s->link);
    (void)rpc_call_send(call->rpc, request); /* if it cannot, it ends, and comes again */
    rpc_call_end(call->rpc);
    return ERR_OK;
}

static void stream_open(struct native_stream *s)
{
    struct buf request;
    enum err err;

    if (!s->wanted || s->call || s->client->courier.closing) return;
    s->pace.opened = loop_now(s->client->courier.io->loop);
    buf_init(&request, NATIVE_REQUEST_MAX);
    err = s->on_ask(s, &request);
    if (!err) err = stream_call(s, buf_peek(&request));
    if (err) pause_stream(s);
    buf_deinit(&request);
}

void native_stream_want(struct native_stream *s)
{
    s->wanted = true;
    if (!s->call && !timer_running(&s->again)) stream_open(s);
}

static void stream_abandon(struct native_stream *s)
{
    struct native_call *call = s->call;

    s->call = NULL;
    list_remove(&s->link);
    if (!call) return;
    call->stream = NULL;
    rpc_call_cancel(call->rpc);
}

void native_stream_leave(struct native_stream *s)
{
    s->wanted = false;
    timer_stop(&s->again);
    stream_abandon(s);
}

void native_stream_deinit(struct native_stream *s)
{
    native_stream_leave(s);
    timer_deinit(&s->again);
}

void native_stream_reset(struct native_stream *s)
{
    if (!s->call) return;
    stream_abandon(s);
    stream_lost(s, GRPC_UNAVAILABLE, STR("the stream was given up"));
}

/* -- life -- */

static const struct courier_ways ways = {
    .thread_name = "muster-native", .attempts_max = ATTEMPTS_MAX, .moved = moved};

enum err native_client_open(const struct native_client_options *o,
                            struct native_client **ret_client, struct note *note)
{
    struct native_client *c = calloc(1, sizeof *c);
    enum err err;

    if (!c) return ERR_NOMEM;
    list_init(&c->streams);
    err = courier_open(&c->courier, &ways, o->servers, o->clock,
                       &(struct rpc_channel_options){.follow_leader = true,
                                                     .backoff_first_ms = BACKOFF_FIRST_MS,
                                                     .backoff_max_ms = BACKOFF_MAX_MS,
                                                     .dial_timeout_ms = DIAL_TIMEOUT_MS},
                       note);
    if (err)
        free(c);
    else
        *ret_client = c;
    return err;
}

static void leave_all(void *owner)
{
    struct native_client *c = owner;

    while (!list_empty(&c->streams))
        native_stream_leave(CONTAINER_OF(c->streams.next, struct native_stream, link));
}

void native_client_close(struct native_client *c)
{
    if (!c) return;
    courier_close(&c->courier, leave_all, c);
    free(c);
}
