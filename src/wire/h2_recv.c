/* SPDX-License-Identifier: Apache-2.0 */
/* nghttp2's callbacks for received bytes, and the events for the owner.
 *
 * A server reports a stream when the headers are complete and within the limits. Other streams are
 * reset and never reported. */
#include <string.h>

#include "wire/h2_internal.h"

enum {
    FIELD_OVERHEAD = 32, /* bytes of a field besides its text: RFC 9113, 6.5.2 */
    BOMB_FACTOR = 4,     /* a header block so many times over its limit is abuse */
    FIELDS_FIRST = 16,
};

/* Ends the connection because of abuse. */
static int deny(struct h2 *h2)
{
    h2_fail(h2, ERR_DENIED, H2_ENHANCE_YOUR_CALM);
    return NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int out_of_memory(struct h2 *h2)
{
    return h2_engine_err(h2, NGHTTP2_ERR_NOMEM) ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int go_on(const struct h2 *h2)
{
    return h2->failed ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

/* -- header blocks -- */

void h2_block_clear(struct h2_block *b)
{
    for (size_t i = 0; i < 2 * b->count; i++) nghttp2_rcbuf_decref(b->held[i]);
    b->count = b->bytes = 0;
    b->over = b->interim = b->trailers = b->malformed = false;
    b->seen = 0;
    b->length = H2_ANY_LENGTH;
}

static bool block_grow(struct h2 *h2)
{
    struct h2_block *b = &h2->block;
    size_t cap = b->cap ? min_size(b->cap * 2, h2->limits.headers_max)
                        : min_size(FIELDS_FIRST, h2->limits.headers_max);
    struct h2_header *fields = h2_memory_alloc(&h2->memory, cap * sizeof *fields);
    nghttp2_rcbuf **held = h2_memory_alloc(&h2->memory, 2 * cap * sizeof(nghttp2_rcbuf *));

    if (!fields || !held) {
        h2_memory_free(&h2->memory, fields);
        h2_memory_free(&h2->memory, held);
        return false;
    }
    if (b->count > 0) {
        memcpy(fields, b->fields, b->count * sizeof *fields);
        memcpy(held, b->held, 2 * b->count * sizeof(nghttp2_rcbuf *));
    }
    h2_memory_free(&h2->memory, b->fields);
    h2_memory_free(&h2->memory, b->held);
    b->fields = fields;
    b->held = held;
    b->cap = cap;
    return true;
}

static struct str view(nghttp2_rcbuf *held)
{
    nghttp2_vec bytes = nghttp2_rcbuf_get_buf(held);

    return str_of(bytes.base, bytes.len);
}

static int on_begin_headers(nghttp2_session *, const nghttp2_frame *frame, void *user)
{
    struct h2 *h2 = user;

    h2_block_clear(&h2->block); /* the previous block may be incomplete */
    h2->block.trailers = frame->headers.cat != NGHTTP2_HCAT_REQUEST;
    return 0;
}

/* Kept fields point into nghttp2's buffers. Each field counts with its full length, even if many
 * fields refer to one entry of the header table. */
static int on_header(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *name,
                     nghttp2_rcbuf *value, uint8_t flags, void *user)
{
    struct h2 *h2 = user;
    struct h2_block *b = &h2->block;
    struct h2_header field = {view(name), view(value)};

    (void)session, (void)frame, (void)flags;
    b->bytes += field.name.len + field.value.len + FIELD_OVERHEAD;
    if (b->bytes > (size_t)h2->limits.header_bytes_max * BOMB_FACTOR) return deny(h2);
    if (b->bytes > h2->limits.header_bytes_max || b->count >= h2->limits.headers_max)
        b->over = true;
    if (b->over) return 0;
    if (h2->side == H2_SERVER) h2_request_field(b, field);
    if (b->count == b->cap && !block_grow(h2)) return out_of_memory(h2);
    if (b->count == 0 && str_equal(field.name, STR(":status")) && str_starts(field.value, STR("1")))
        b->interim = true;
    b->fields[b->count] = field;
    b->held[2 * b->count] = name;
    b->held[2 * b->count + 1] = value;
    nghttp2_rcbuf_incref(name);
    nghttp2_rcbuf_incref(value);
    b->count++;
    return 0;
}

/* A name or value that HTTP/2 forbids makes the message malformed (RFC 9113, 8.1.1). */
static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame,
                             nghttp2_rcbuf *name, nghttp2_rcbuf *value, uint8_t flags, void *user)
{
    struct h2 *h2 = user;

    (void)session, (void)name, (void)value, (void)flags;
    if (h2_guard_count(&h2->guard, &h2->limits, H2_ABUSE_RESET)) return deny(h2);
    if (!h2_submit_reset(h2, frame->hd.stream_id, H2_PROTOCOL_ERROR)) return go_on(h2);
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int refuse(struct h2 *h2, struct h2_stream *stream, int32_t id, uint32_t code)
{
    if (h2_guard_count(&h2->guard, &h2->limits, H2_ABUSE_RESET)) return deny(h2);
    if (stream)
        h2_reset(h2, id, code);
    else
        h2_submit_reset(h2, id, code);
    return go_on(h2);
}

static int on_request(struct h2 *h2, int32_t id, bool end)
{
    struct h2_stream *stream;

    if (h2->block.over) return refuse(h2, NULL, id, H2_ENHANCE_YOUR_CALM);
    if (id > h2->last_accepted) return refuse(h2, NULL, id, H2_REFUSED_STREAM);
    if (!h2_request_is_whole(&h2->block) ||
        (end && h2->block.length != 0 && h2->block.length != H2_ANY_LENGTH))
        return refuse(h2, NULL, id, H2_PROTOCOL_ERROR);
    stream = h2_stream_new(h2, id);
    if (!stream) return out_of_memory(h2);
    stream->sent = true;
    stream->peer_ended = end;
    stream->length = h2->block.length;
    h2_streams_put(&h2->streams, &h2->memory, stream);
    h2->events.on_headers(h2->owner, id, h2->block.fields, h2->block.count, false, end);
    return go_on(h2);
}

static int on_answer(struct h2 *h2, struct h2_stream *stream, bool end)
{
    bool trailers = stream->answered;

    if (h2->block.over) return refuse(h2, stream, stream->id, H2_ENHANCE_YOUR_CALM);
    if (h2->block.interim && !end) return 0;
    stream->answered = true;
    stream->peer_ended = end;
    h2->events.on_headers(h2->owner, stream->id, h2->block.fields, h2->block.count, trailers, end);
    return go_on(h2);
}

static bool is_short(const struct h2_stream *stream)
{
    return stream->length != H2_ANY_LENGTH && stream->came != stream->length;
}

static int on_headers_whole(struct h2 *h2, const nghttp2_frame *frame)
{
    int32_t id = frame->hd.stream_id;
    bool end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    struct h2_stream *stream = h2_streams_get(&h2->streams, id);
    int code = 0;

    if (!stream && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        code = on_request(h2, id, end);
    } else if (stream && !stream->reset && h2->side == H2_CLIENT) {
        code = on_answer(h2, stream, end);
    } else if (stream && !stream->reset && h2->block.over) {
        code = refuse(h2, stream, id, H2_ENHANCE_YOUR_CALM);
    } else if (stream && !stream->reset &&
               (!end || !h2_request_is_whole(&h2->block) || is_short(stream))) {
        code = refuse(h2, stream, id, H2_PROTOCOL_ERROR);
    } else if (stream && !stream->reset) {
        stream->peer_ended = true;
        h2->events.on_end(h2->owner, id);
        code = go_on(h2);
    }
    h2_block_clear(&h2->block);
    return code;
}

/* -- other frames -- */

void h2_remember_ended(struct h2 *h2, int32_t id)
{
    h2->ended[h2->ended_next++ % H2_ENDED_KEPT] = id;
}

/* Headers on a stream that the peer itself has ended are an error (RFC 9113, 5.1). Headers on a
 * stream that this side reset may have been in transit. */
static bool speaks_after_its_end(const struct h2 *h2, const nghttp2_frame_hd *head)
{
    if (head->type != NGHTTP2_HEADERS || head->stream_id == 0) return false;
    if (h2_streams_get(&h2->streams, head->stream_id)) return false; /* nghttp2 checks the frame */
    for (size_t i = 0; i < H2_ENDED_KEPT; i++)
        if (h2->ended[i] == head->stream_id) return true;
    return false;
}

static int on_begin_frame(nghttp2_session *, const nghttp2_frame_hd *head, void *user)
{
    struct h2 *h2 = user;
    bool known;

    if (speaks_after_its_end(h2, head)) {
        h2_fail(h2, ERR_DENIED, H2_STREAM_CLOSED);
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    if (head->type == NGHTTP2_DATA) { /* checked in on_frame, when the padding is known */
        h2->data_found += head->length ? head->length : 1;
        return 0;
    }
    if (head->type == NGHTTP2_HEADERS) h2->block.continuations = 0;
    if (head->type == NGHTTP2_CONTINUATION && ++h2->block.continuations > H2_CONTINUATIONS_MAX)
        return deny(h2);
    known = head->type == NGHTTP2_RST_STREAM && h2_streams_get(&h2->streams, head->stream_id);
    if (!h2_guard_frame(&h2->guard, &h2->limits, head, known)) return 0;
    /* nghttp2's GOAWAY has no reason, so a GOAWAY with the reason is sent first. */
    if (head->type == NGHTTP2_PING) h2_go_away_because(h2, H2_ENHANCE_YOUR_CALM, H2_TOO_MANY_PINGS);
    return deny(h2);
}

static int on_data_whole(struct h2 *h2, const nghttp2_frame *frame)
{
    struct h2_stream *stream = h2_streams_get(&h2->streams, frame->hd.stream_id);
    nghttp2_frame_hd head = frame->hd;

    head.length -= min_size(frame->data.padlen, head.length);
    if (h2_guard_frame(&h2->guard, &h2->limits, &head, stream)) return deny(h2);
    if (!stream || stream->reset || !(head.flags & NGHTTP2_FLAG_END_STREAM)) return 0;
    if (h2->side == H2_SERVER && is_short(stream))
        return refuse(h2, stream, stream->id, H2_PROTOCOL_ERROR);
    stream->peer_ended = true;
    h2->events.on_end(h2->owner, stream->id);
    return go_on(h2);
}

static int on_reset_received(struct h2 *h2, int32_t id)
{
    struct h2_stream *stream = h2_streams_get(&h2->streams, id);
    enum h2_abuse abuse;

    h2_remember_ended(h2, id);
    if (!stream) return 0;
    abuse = stream->answered && !stream->ending ? H2_ABUSE_ABANDON : H2_ABUSE_RESET;
    return h2_guard_count(&h2->guard, &h2->limits, abuse) ? deny(h2) : 0;
}

static int on_ping(struct h2 *h2, const nghttp2_ping *ping)
{
    uint64_t token = 0;

    if (!(ping->hd.flags & NGHTTP2_FLAG_ACK) || !h2->events.on_ping_ack) return 0;
    for (size_t i = 0; i < sizeof ping->opaque_data; i++) token = token << 8 | ping->opaque_data[i];
    h2->events.on_ping_ack(h2->owner, token);
    return go_on(h2);
}

static int on_frame(nghttp2_session *, const nghttp2_frame *frame, void *user)
{
    struct h2 *h2 = user;

    switch (frame->hd.type) {
    case NGHTTP2_HEADERS: return on_headers_whole(h2, frame);
    case NGHTTP2_DATA: return on_data_whole(h2, frame);
    case NGHTTP2_RST_STREAM: return on_reset_received(h2, frame->hd.stream_id);
    case NGHTTP2_PING: return on_ping(h2, &frame->ping);
    case NGHTTP2_GOAWAY:
        if (h2->events.on_goaway)
            h2->events.on_goaway(h2->owner, frame->goaway.last_stream_id, frame->goaway.error_code);
        return go_on(h2);
    default: return 0;
    }
}

static int on_chunk(nghttp2_session *session, uint8_t, int32_t id, const uint8_t *bytes, size_t len,
                    void *user)
{
    struct h2 *h2 = user;
    struct h2_stream *stream = h2_streams_get(&h2->streams, id);

    if (!stream || stream->reset) { /* nobody will consume the data */
        h2_engine_err(h2, nghttp2_session_consume_connection(session, len));
        return go_on(h2);
    }
    stream->unconsumed += len;
    stream->came += len;
    if (h2->side == H2_SERVER && stream->came > stream->length)
        return refuse(h2, stream, id, H2_PROTOCOL_ERROR);
    h2->events.on_data(h2->owner, id, str_of(bytes, len));
    return go_on(h2);
}

/* nghttp2 resets the stream or ends the connection because of this frame. The frame counts like a
 * reset by the peer. */
static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int error,
                            void *user)
{
    struct h2 *h2 = user;

    (void)session, (void)frame, (void)error;
    h2_excuse_data(h2);
    return h2_guard_count(&h2->guard, &h2->limits, H2_ABUSE_RESET) ? deny(h2) : 0;
}

static int on_extension(nghttp2_session *session, void **payload, const nghttp2_frame_hd *head,
                        void *user)
{
    (void)session, (void)payload, (void)head, (void)user;
    return NGHTTP2_ERR_CANCEL; /* on_begin_frame counted the frame */
}

/* May be called while output is gathered, when this side's last frame ends the stream. */
static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    struct h2 *h2 = user;
    struct h2_stream *stream = h2_streams_get(&h2->streams, id);

    if (!stream) return 0;
    if (stream->peer_ended)
        h2_remember_ended(h2, id);
    else
        h2_excuse_data(h2);
    h2_streams_remove(&h2->streams, stream);
    list_remove(&stream->link);
    h2_stream_drop_output(h2, stream);
    stream->close_code = code;
    if (stream->unconsumed > 0 && !h2->failed)
        h2_engine_err(h2, nghttp2_session_consume_connection(session, stream->unconsumed));
    if (h2->gathering) {
        list_append(&h2->closed, &stream->link);
        /* Unless `mute`, the final GOAWAY must still be sent. */
        return h2->mute ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
    }
    h2_report_closed(h2, stream);
    return go_on(h2);
}

void h2_set_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback2(callbacks, on_header);
    nghttp2_session_callbacks_set_on_invalid_header_callback2(callbacks, on_invalid_header);
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_chunk);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
    nghttp2_session_callbacks_set_unpack_extension_callback(callbacks, on_extension);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
}
