/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, closing and feeding a connection, and small calls. */
#include "wire/h2.h"

#include <stdlib.h>
#include <string.h>

#include "wire/h2_internal.h"

#define WINDOW_MAX ((1u << 31) - 1) /* RFC 9113, 6.9.1 */
enum {
    FRAME_HEAD = 9,
    EXTENSION_FIRST = 10,
    EXTENSION_LAST = 255
}; /* HTTP/2 does not define these frame types */

static uint32_t or_default(uint32_t value, uint32_t otherwise)
{
    return value ? value : otherwise;
}

static enum err settle_limits(const struct h2_limits *given, struct h2_limits *ret_limits)
{
    static const struct h2_limits none;
    const struct h2_limits *g = given ? given : &none;
    struct h2_limits l = {
        .streams_max = or_default(g->streams_max, 1024),
        .header_bytes_max = or_default(g->header_bytes_max, 64 << 10),
        .headers_max = or_default(g->headers_max, 128),
        .stream_window = or_default(g->stream_window, 256 << 10),
        .connection_window = or_default(g->connection_window, 4 << 20),
        .stream_output_max = or_default(g->stream_output_max, 256 << 10),
        .output_max = or_default(g->output_max, 2 << 20),
        .memory_max = or_default(g->memory_max, 16 << 20),
        .resets_per_minute_max = or_default(g->resets_per_minute_max, 2000),
        .pings_per_minute_max = or_default(g->pings_per_minute_max, 300),
        .ping_min_interval_ms = g->ping_min_interval_ms,
        .settings_per_minute_max = or_default(g->settings_per_minute_max, 60),
        .idle_frames_per_minute_max = or_default(g->idle_frames_per_minute_max, 2000),
    };

    if (l.stream_window > WINDOW_MAX || l.connection_window > WINDOW_MAX) return ERR_INVALID;
    if (l.stream_output_max > l.output_max) return ERR_INVALID;
    if (l.output_max > l.memory_max) return ERR_INVALID;
    *ret_limits = l;
    return ERR_OK;
}

static nghttp2_option *new_options(enum h2_side side)
{
    nghttp2_option *option;

    if (nghttp2_option_new(&option)) return NULL;
    nghttp2_option_set_no_auto_window_update(option, 1); /* h2_consume updates windows */
    /* nghttp2 keeps closed streams only for a priority tree, which gRPC does not use. Without
     * closed streams, nghttp2 silently drops their data: see h2_data_late(). */
    nghttp2_option_set_no_closed_streams(option, 1);
    /* nghttp2's limit reads the machine's clock, which simulations lack. h2_guard.c counts
     * resets. */
    nghttp2_option_set_stream_reset_rate_limit(option, UINT64_MAX, UINT64_MAX);
    /* nghttp2 counts a frame again for each piece of its head, so nghttp2's limit is high.
     * h2_recv.c counts frames. */
    nghttp2_option_set_max_continuations(option, (size_t)FRAME_HEAD * (H2_CONTINUATIONS_MAX + 1));
    /* gRPC allows leading and trailing blanks in values. */
    nghttp2_option_set_no_rfc9113_leading_and_trailing_ws_validation(option, 1);
    /* h2_request.c checks requests; nghttp2 checks responses. */
    if (side == H2_SERVER) nghttp2_option_set_no_http_messaging(option, 1);
    /* h2_recv.c counts frames of unknown types. */
    for (unsigned type = EXTENSION_FIRST; type <= EXTENSION_LAST; type++)
        nghttp2_option_set_user_recv_extension_type(option, (uint8_t)type);
    return option;
}

static enum err new_session(struct h2 *h2)
{
    nghttp2_mem memory = h2_memory_for_engine(&h2->memory);
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = new_options(h2->side);
    int code = NGHTTP2_ERR_NOMEM;

    if (!option || nghttp2_session_callbacks_new(&callbacks)) goto done;
    h2_set_callbacks(callbacks);
    h2_set_send_callbacks(callbacks);
    if (h2->side == H2_SERVER)
        code = nghttp2_session_server_new3(&h2->session, callbacks, h2, option, &memory);
    else
        code = nghttp2_session_client_new3(&h2->session, callbacks, h2, option, &memory);
    if (code) h2->session = NULL;
done:
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    return code ? ERR_NOMEM : ERR_OK;
}

static enum err say_hello(struct h2 *h2)
{
    nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, h2->limits.stream_window},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, h2->limits.header_bytes_max},
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, h2->limits.streams_max},
    };

    /* A client refuses pushed streams, and needs no limit for them. */
    if (h2->side == H2_CLIENT)
        settings[2] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_ENABLE_PUSH, 0};
    if (nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, settings, ARRAY_LEN(settings)) ||
        nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0,
                                              (int32_t)h2->limits.connection_window))
        return ERR_NOMEM;
    return ERR_OK;
}

enum err h2_open(enum h2_side side, const struct h2_limits *limits, const struct h2_events *events,
                 void *owner, struct h2 **ret_h2)
{
    struct h2_limits settled;
    struct h2 *h2;
    enum err err = settle_limits(limits, &settled);

    if (err) return err;
    if (!events->on_headers || !events->on_data || !events->on_end || !events->on_closed)
        return ERR_INVALID;
    h2 = calloc(1, sizeof *h2);
    if (!h2) return ERR_NOMEM;
    h2->side = side;
    h2_sift_init(&h2->sift);
    h2->limits = settled;
    h2->events = *events;
    h2->owner = owner;
    h2->memory.max = settled.memory_max;
    h2->last_accepted = INT32_MAX;
    h2->data_excused = settled.connection_window; /* for data of streams that nghttp2 resets */
    list_init(&h2->blocked);
    list_init(&h2->closed);
    err = h2_streams_init(&h2->streams, &h2->memory);
    if (!err) err = new_session(h2);
    if (!err) err = say_hello(h2);
    if (err) {
        h2_close(h2);
        return err;
    }
    *ret_h2 = h2;
    return ERR_OK;
}

void h2_close(struct h2 *h2)
{
    struct list *node;

    if (!h2) return;
    assert(!h2->busy); /* an event must not call h2_close */
    while ((node = list_pop(&h2->closed)) != NULL)
        h2_stream_free(h2, CONTAINER_OF(node, struct h2_stream, link));
    for (size_t i = 0; i < h2->streams.bucket_count; i++) {
        while (h2->streams.buckets[i]) {
            struct h2_stream *stream = h2->streams.buckets[i];
            h2_streams_remove(&h2->streams, stream);
            list_remove(&stream->link);
            h2_stream_free(h2, stream);
        }
    }
    h2_block_clear(&h2->block); /* the session owns the block's memory */
    h2_memory_free(&h2->memory, h2->block.fields);
    h2_memory_free(&h2->memory, h2->block.held);
    h2_memory_free(&h2->memory, h2->streams.buckets);
    nghttp2_session_del(h2->session);
    assert(h2->memory.used == 0); /* also nghttp2's memory */
    h2_memory_trim(&h2->memory);
    free(h2);
}

/* Only the first failure counts. Sends GOAWAY with `code` unless memory ran out. */
void h2_fail(struct h2 *h2, enum err err, uint32_t code)
{
    if (h2->failed) return;
    h2->failed = err;
    if (err == ERR_NOMEM || nghttp2_session_terminate_session(h2->session, code)) h2->mute = true;
}

enum err h2_engine_err(struct h2 *h2, ssize_t code)
{
    if (code >= 0) return ERR_OK;
    switch (code) {
    case NGHTTP2_ERR_NOMEM:
        /* The peer used up the memory ceiling. */
        h2_fail(h2, h2->memory.over ? ERR_DENIED : ERR_NOMEM, H2_ENHANCE_YOUR_CALM);
        /* The failed allocation was inside nghttp2, whose state can no longer be trusted. */
        if (h2->memory.over) h2->mute = true;
        break;
    case NGHTTP2_ERR_FLOODED: h2_fail(h2, ERR_DENIED, H2_ENHANCE_YOUR_CALM); break;
    /* The callback has failed the connection. */
    case NGHTTP2_ERR_CALLBACK_FAILURE: assert(h2->failed); break;
    default: h2_fail(h2, ERR_DENIED, H2_PROTOCOL_ERROR); break;
    }
    return h2->failed;
}

enum err h2_feed(struct h2 *h2, struct str bytes, mono_time now)
{
    assert(!h2->busy);
    if (h2->failed) return h2->failed;
    h2_guard_time(&h2->guard, now);
    h2->busy = true;
    if (h2->side == H2_SERVER)
        h2_sift_feed(h2, bytes);
    else if (bytes.len > 0)
        h2_engine_err(h2,
                      nghttp2_session_mem_recv(h2->session, (const uint8_t *)bytes.at, bytes.len));
    /* A received reset may have freed output space for other streams. */
    if (h2->drained && !h2->failed) h2_report_writable(h2);
    h2->busy = false;
    return h2->failed;
}

/* -- streams -- */

struct h2_stream *h2_stream_new(struct h2 *h2, int32_t id)
{
    struct h2_stream *stream = h2_memory_alloc(&h2->memory, sizeof *stream);

    if (!stream) return NULL;
    *stream = (struct h2_stream){.id = id};
    list_init(&stream->link);
    return stream;
}

void h2_stream_drop_output(struct h2 *h2, struct h2_stream *stream)
{
    assert(h2->pending >= stream->output.len);
    if (stream->output.len > 0) h2->drained = true;
    h2->pending -= stream->output.len;
    h2_queue_clear(&stream->output, &h2->memory);
}

void h2_stream_free(struct h2 *h2, struct h2_stream *stream)
{
    assert(list_empty(&stream->link));
    h2_stream_drop_output(h2, stream);
    assert(h2->answers_pending >= stream->answer_bytes + stream->trailer_bytes);
    h2->answers_pending -= stream->answer_bytes + stream->trailer_bytes;
    h2_memory_free(&h2->memory, stream->trailers);
    h2_memory_free(&h2->memory, stream);
}

void h2_report_closed(struct h2 *h2, struct h2_stream *stream)
{
    h2->closing = stream;
    h2->events.on_closed(h2->owner, stream->id, stream->close_code);
    h2->closing = NULL;
    h2_stream_free(h2, stream);
}

/* Finds a stream whose on_closed has not returned. */
static struct h2_stream *find_reported(const struct h2 *h2, int32_t id)
{
    struct h2_stream *stream = h2->closing;

    if (stream && stream->id == id) return stream;
    stream = h2_streams_get(&h2->streams, id);
    if (stream) return stream;
    LIST_EACH(&h2->closed, node)
    {
        stream = CONTAINER_OF(node, struct h2_stream, link);
        if (stream->id == id) return stream;
    }
    return NULL;
}

void h2_bind(struct h2 *h2, int32_t id, void *bound)
{
    struct h2_stream *stream = find_reported(h2, id);

    if (stream) stream->bound = bound;
}

void *h2_bound(const struct h2 *h2, int32_t id)
{
    const struct h2_stream *stream = find_reported(h2, id);

    return stream ? stream->bound : NULL;
}

void h2_excuse_data(struct h2 *h2)
{
    h2->data_excused += h2->limits.stream_window + 1; /* 1 for an empty frame with END_STREAM */
}

bool h2_submit_reset(struct h2 *h2, int32_t id, uint32_t code)
{
    h2_excuse_data(h2); /* from now on nghttp2 drops received data of the stream */
    return !h2_engine_err(h2, nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, id, code));
}

void h2_reset(struct h2 *h2, int32_t id, uint32_t code)
{
    struct h2_stream *stream = h2_streams_get(&h2->streams, id);

    if (!stream || stream->reset || h2->failed) return;
    stream->reset = stream->ending = true;
    list_remove(&stream->link);
    h2_stream_drop_output(h2, stream);
    h2_submit_reset(h2, id, code);
}

void h2_consume(struct h2 *h2, int32_t id, size_t bytes)
{
    struct h2_stream *stream = h2_streams_get(&h2->streams, id);
    size_t n;
    int code;

    if (!stream || h2->failed) return;
    n = min_size(bytes, stream->unconsumed);
    if (n == 0) return;
    stream->unconsumed -= n;
    /* The stream needs no window update, because the peer has ended the stream. */
    if (stream->peer_ended || stream->reset)
        code = nghttp2_session_consume_connection(h2->session, n);
    else
        code = nghttp2_session_consume(h2->session, id, n);
    h2_engine_err(h2, code);
}

/* -- the connection -- */

enum err h2_ping(struct h2 *h2, uint64_t token)
{
    uint8_t bytes[8];

    if (h2->failed) return ERR_CLOSED;
    h2_memory_trim(&h2->memory); /* a connection that sends pings is quiet */
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(token >> (56 - 8 * i));
    return nghttp2_submit_ping(h2->session, NGHTTP2_FLAG_NONE, bytes) ? ERR_NOMEM : ERR_OK;
}

void h2_go_away(struct h2 *h2, uint32_t code)
{
    h2_go_away_because(h2, code, STR_EMPTY);
}

void h2_go_away_because(struct h2 *h2, uint32_t code, struct str why)
{
    if (h2->failed || h2->final) return;
    if (h2->side == H2_SERVER && code == H2_NO_ERROR && !h2->announced) {
        h2->announced = true;
        h2_engine_err(h2, nghttp2_submit_shutdown_notice(h2->session));
        return;
    }
    h2->final = true;
    h2->last_accepted = nghttp2_session_get_last_proc_stream_id(h2->session);
    h2_engine_err(h2, nghttp2_submit_goaway(h2->session, NGHTTP2_FLAG_NONE, h2->last_accepted, code,
                                            (const uint8_t *)why.at, why.len));
}

size_t h2_stream_pending(const struct h2 *h2, int32_t id)
{
    const struct h2_stream *stream = h2_streams_get(&h2->streams, id);

    return stream ? stream->output.len : 0;
}

size_t h2_pending(const struct h2 *h2)
{
    return h2->pending;
}

size_t h2_answers_pending(const struct h2 *h2)
{
    return h2->answers_pending;
}

size_t h2_receive_window(const struct h2 *h2)
{
    int32_t window = nghttp2_session_get_local_window_size(h2->session);

    return window > 0 ? (size_t)window : 0;
}

size_t h2_streams(const struct h2 *h2)
{
    return h2->streams.count;
}

uint64_t h2_data_sent(const struct h2 *h2)
{
    return h2->data_sent;
}

uint64_t h2_data_late(const struct h2 *h2)
{
    return h2->sift.data - h2->data_found;
}

const char *h2_abuse(const struct h2 *h2)
{
    return h2->guard.abuse ? h2->guard.abuse : "http/2";
}

const struct h2_pace *h2_pace(const struct h2 *h2)
{
    return &h2->sift.pace;
}

uint64_t h2_data_excused(const struct h2 *h2)
{
    /* After the final GOAWAY, all data of later streams is excused. */
    return h2->final || h2->failed ? UINT64_MAX : h2->data_excused;
}

size_t h2_memory(const struct h2 *h2)
{
    return sizeof *h2 + h2->memory.used + h2->memory.kept_bytes;
}

bool h2_has_output(const struct h2 *h2)
{
    return h2->left.len > 0 || (!h2->mute && nghttp2_session_want_write(h2->session));
}

bool h2_is_over(const struct h2 *h2)
{
    if (h2_has_output(h2)) return false;
    return h2->mute || !nghttp2_session_want_read(h2->session);
}
