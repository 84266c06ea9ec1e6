/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/native/sub.h"

#include "prim/native/reply.h"

static void on_open(struct courier_stream *stream)
{
    struct native_sub *sub = CONTAINER_OF(stream, struct native_sub, stream);
    Muster__V1__WatchRequest message = MUSTER__V1__WATCH_REQUEST__INIT;
    struct buf request;

    message.scope = native_bytes(str_of(sub->scope, sub->scope_len));
    message.bucket = sub->bucket;
    message.start_revision = sub->next;
    buf_init(&request, NATIVE_REQUEST_MAX);
    if (native_client_write(sub->client, &message.base, &request) ||
        courier_stream_send(stream, buf_peek(&request)))
        courier_stream_reset(stream);
    courier_stream_send_end(stream);
    buf_deinit(&request);
}

static void take(struct native_sub *sub, const Muster__V1__WatchResponse *m)
{
    switch (m->kind) {
    case MUSTER__V1__WATCH_RESPONSE__KIND__CHANGES:
        /* Of a revision told in parts the rest is still to come. */
        if (m->revision >= sub->next) sub->next = m->more ? m->revision : m->revision + 1;
        sub->events->on_changes(sub, m);
        break;
    case MUSTER__V1__WATCH_RESPONSE__KIND__SNAPSHOT:
        if (!m->more) sub->next = m->revision + 1;
        sub->events->on_snapshot(sub, m);
        break;
    case MUSTER__V1__WATCH_RESPONSE__KIND__RESYNC:
    case MUSTER__V1__WATCH_RESPONSE__KIND__COMPACTED: /* its stream ends and is asked for anew */
        sub->next = 0;
        sub->events->on_gap(sub);
        break;
    case MUSTER__V1__WATCH_RESPONSE__KIND__PROGRESS:
        if (m->revision >= sub->next) sub->next = m->revision + 1;
        if (sub->events->on_progress) sub->events->on_progress(sub, m->revision);
        break;
    default: break; /* of a later version: not for us */
    }
}

static bool is_good(const Muster__V1__WatchResponse *m)
{
    struct native_entry entry;

    for (size_t i = 0; i < m->n_events; i++)
        if (native_entry(m->events[i]->entry, false, &entry)) return false;
    return true;
}

/* An event that cannot be is not passed over: that would be a gap which nobody is told of. */
static void on_message(struct courier_stream *stream, struct str bytes)
{
    struct native_sub *sub = CONTAINER_OF(stream, struct native_sub, stream);
    ProtobufCMessage *message;
    struct arena arena;

    if (native_read(bytes, &muster__v1__watch_response__descriptor, &arena, &message)) {
        courier_stream_reset(stream);
    } else if (is_good((Muster__V1__WatchResponse *)message)) {
        take(sub, (Muster__V1__WatchResponse *)message);
    } else {
        sub->next = 0;
        sub->events->on_gap(sub);
        courier_stream_reset(stream);
    }
    arena_deinit(&arena);
}

static void on_broken(struct courier_stream *stream, enum grpc_status status, struct str text)
{
    struct native_sub *sub = CONTAINER_OF(stream, struct native_sub, stream);
    int reason = 0;

    if (sub->next == 0) sub->events->on_begin(sub);
    if (status == GRPC_PERMISSION_DENIED || status == GRPC_UNAUTHENTICATED)
        reason = COORD_R_FORBIDDEN;
    if (status == GRPC_UNIMPLEMENTED || status == GRPC_INVALID_ARGUMENT) reason = COORD_R_STORAGE;
    if (status == GRPC_NOT_FOUND) reason = COORD_R_OTHER_STORE;
    if (!reason) return;
    courier_stream_leave(stream);
    sub->events->on_refused(sub, reason, text);
}

enum err native_sub_init(struct native_sub *sub, struct native_client *client, struct str scope,
                         bool bucket, uint64_t next)
{
    assert(scope.len < sizeof sub->scope);
    sub->bucket = bucket;
    sub->next = next;
    sub->scope_len = scope.len;
    if (scope.len) memcpy(sub->scope, scope.at, scope.len);
    sub->client = client;
    sub->stream.on_open = on_open;
    sub->stream.on_message = on_message;
    sub->stream.on_broken = on_broken;
    return courier_stream_init(&sub->stream, &client->courier, "/muster.v1.Coordination/Watch");
}

void native_sub_open(struct native_sub *sub)
{
    courier_stream_want(&sub->stream);
}

void native_sub_pause(struct native_sub *sub)
{
    courier_stream_leave(&sub->stream);
}

void native_sub_deinit(struct native_sub *sub)
{
    if (sub->client) courier_stream_deinit(&sub->stream);
}
