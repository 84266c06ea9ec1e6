/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and answering streams, pending output, and gathering output.
 *
 * The send calls only queue. In h2_take_output, nghttp2 asks for a stream's bytes (read_output) as
 * far as the peer's windows allow. Trailers wait for the stream's last byte. */
#include "wire/h2_internal.h"

enum { KEPT_TURNS = 32 }; /* after so many turns, kept blocks are freed */

/* -- trailers -- */

/* nghttp2 does not copy the text of trailers. */
static enum err keep_trailers(struct h2 *h2, struct h2_stream *stream, const nghttp2_nv *fields,
                              size_t count)
{
    nghttp2_nv *kept;
    size_t bytes = 0;
    char *text;

    for (size_t i = 0; i < count; i++) bytes += fields[i].namelen + fields[i].valuelen;
    kept = h2_memory_alloc(&h2->memory, count * sizeof *kept + bytes);
    if (!kept) return ERR_NOMEM;
    text = (char *)(kept + count);
    for (size_t i = 0; i < count; i++) {
        kept[i] = fields[i];
        kept[i].name = (uint8_t *)str_put(&text, str_of(fields[i].name, fields[i].namelen)).at;
        kept[i].value = (uint8_t *)str_put(&text, str_of(fields[i].value, fields[i].valuelen)).at;
        kept[i].flags |= NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE;
    }
    stream->trailers = kept;
    stream->trailers_count = count;
    return ERR_OK;
}

/* -- data requested by nghttp2 -- */

static ssize_t read_output(nghttp2_session *session, int32_t id, uint8_t *into, size_t room,
                           uint32_t *flags, nghttp2_data_source *, void *user)
{
    struct h2 *h2 = user;
    struct h2_stream *stream = h2_streams_get(&h2->streams, id);
    size_t n;

    if (!stream) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    n = h2_queue_pull(&stream->output, &h2->memory, into, room);
    h2->pending -= n;
    h2->data_sent += n;
    if (n > 0) h2->drained = true;
    if (stream->output.len > 0) return (ssize_t)n;
    if (!stream->ending) {
        stream->deferred = n == 0;
        return n == 0 ? NGHTTP2_ERR_DEFERRED : (ssize_t)n;
    }
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (stream->trailers) {
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        if (h2_engine_err(
                h2, nghttp2_submit_trailer(session, id, stream->trailers, stream->trailers_count)))
            return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    return (ssize_t)n;
}

static enum err wake(struct h2 *h2, struct h2_stream *stream)
{
    if (!stream->deferred) return ERR_OK;
    stream->deferred = false;
    return h2_engine_err(h2, nghttp2_session_resume_data(h2->session, stream->id));
}

static int on_sent(nghttp2_session *, const nghttp2_frame *frame, void *user)
{
    struct h2 *h2 = user;
    struct h2_stream *stream;

    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
    h2_guard_work(&h2->guard);
    h2->guard.has_sent = true;
    stream = h2_streams_get(&h2->streams, frame->hd.stream_id);
    if (!stream) return 0;
    stream->sent = true;
    if (frame->hd.type == NGHTTP2_HEADERS) {
        h2->answers_pending -= stream->answer_bytes;
        stream->answer_bytes = 0;
    }
    if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) return 0;
    /* The response is complete, so the request's missing part is not needed (RFC 9113, 8.1). */
    if (h2->side == H2_SERVER && !stream->peer_ended && !stream->reset) {
        stream->reset = true;
        if (!h2_submit_reset(h2, stream->id, H2_NO_ERROR)) return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    return 0;
}

/* A stream whose headers were not sent would never end. */
static int on_not_sent(nghttp2_session *session, const nghttp2_frame *frame, int error, void *user)
{
    struct h2 *h2 = user;
    struct h2_stream *stream = h2_streams_get(&h2->streams, frame->hd.stream_id);

    (void)session, (void)error;
    if (frame->hd.type != NGHTTP2_HEADERS || !stream || stream->reset) return 0;
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        return 0; /* nghttp2 closes the stream with REFUSED_STREAM */
    stream->reset = true;
    return h2_submit_reset(h2, stream->id, H2_INTERNAL_ERROR) ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

void h2_set_send_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_not_sent);
}

/* -- queueing -- */

size_t h2_requests_max(const struct h2 *h2)
{
    uint32_t theirs =
        nghttp2_session_get_remote_settings(h2->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);

    return min_size(theirs, h2->limits.streams_max);
}

enum err h2_request(struct h2 *h2, const struct h2_header *headers, size_t count, bool end,
                    int32_t *ret_stream)
{
    nghttp2_data_provider data = {.read_callback = read_output};
    nghttp2_nv fields[H2_FIELDS_OUT_MAX];
    struct h2_stream *stream;
    int32_t id;
    enum err err;

    if (h2->side != H2_CLIENT) return ERR_INVALID;
    err = h2_fields_make(h2, headers, count, fields);
    if (err) return err;
    if (h2->failed || h2->final || !nghttp2_session_check_request_allowed(h2->session))
        return ERR_CLOSED;
    if (h2->streams.count >= h2_requests_max(h2)) return ERR_FULL;
    stream = h2_stream_new(h2, 0);
    if (!stream) return ERR_NOMEM;
    id = nghttp2_submit_request(h2->session, NULL, fields, count, end ? NULL : &data, NULL);
    if (id < 0) {
        h2_stream_free(h2, stream);
        return id == NGHTTP2_ERR_NOMEM ? ERR_NOMEM : ERR_CLOSED;
    }
    stream->id = id;
    stream->ending = end;
    h2_streams_put(&h2->streams, &h2->memory, stream);
    *ret_stream = id;
    return ERR_OK;
}

static enum err open_stream(struct h2 *h2, int32_t id, struct h2_stream **ret_stream)
{
    struct h2_stream *stream = h2_streams_get(&h2->streams, id);

    if (!stream || stream->reset || h2->failed) return ERR_CLOSED;
    *ret_stream = stream;
    return ERR_OK;
}

static size_t fields_bytes(const struct h2_header *headers, size_t count)
{
    size_t bytes = count * sizeof(nghttp2_nv);

    for (size_t i = 0; i < count; i++) bytes += headers[i].name.len + headers[i].value.len;
    return bytes;
}

enum err h2_respond(struct h2 *h2, int32_t id, const struct h2_header *headers, size_t count,
                    bool end)
{
    nghttp2_data_provider data = {.read_callback = read_output};
    nghttp2_nv fields[H2_FIELDS_OUT_MAX];
    struct h2_stream *stream;
    enum err err = open_stream(h2, id, &stream);

    if (err) return err;
    if (h2->side != H2_SERVER || stream->answered) return ERR_INVALID;
    err = h2_fields_make(h2, headers, count, fields);
    if (err) return err;
    if (nghttp2_submit_response(h2->session, id, fields, count, end ? NULL : &data))
        return ERR_NOMEM;
    stream->answered = true;
    stream->ending = end;
    stream->answer_bytes = fields_bytes(headers, count);
    h2->answers_pending += stream->answer_bytes;
    return ERR_OK;
}

static bool may_send(const struct h2 *h2, const struct h2_stream *stream)
{
    return !stream->ending && (h2->side == H2_CLIENT || stream->answered);
}

static size_t room_for(const struct h2 *h2, const struct h2_stream *stream)
{
    size_t in_stream = h2->limits.stream_output_max - stream->output.len;

    assert(stream->output.len <= h2->limits.stream_output_max);
    assert(h2->pending <= h2->limits.output_max);
    return min_size(in_stream, h2->limits.output_max - h2->pending);
}

enum err h2_send(struct h2 *h2, int32_t id, const struct str *parts, size_t count)
{
    struct h2_stream *stream;
    size_t total = 0;
    enum err err = open_stream(h2, id, &stream);

    if (err) return err;
    if (!may_send(h2, stream)) return ERR_INVALID;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].len > h2->limits.stream_output_max - total) return ERR_TOO_LARGE;
        total += parts[i].len;
    }
    if (total == 0) return ERR_OK;
    if (total > room_for(h2, stream)) {
        if (list_empty(&stream->link)) list_append(&h2->blocked, &stream->link);
        return ERR_FULL;
    }
    err = h2_queue_push(&stream->output, &h2->memory, parts, count, total);
    if (err) return err;
    h2->pending += total;
    return wake(h2, stream);
}

size_t h2_send_room(const struct h2 *h2, int32_t id)
{
    const struct h2_stream *stream = h2_streams_get(&h2->streams, id);

    if (!stream || stream->reset || h2->failed || !may_send(h2, stream)) return 0;
    return room_for(h2, stream);
}

enum err h2_send_trailers(struct h2 *h2, int32_t id, const struct h2_header *headers, size_t count)
{
    nghttp2_nv fields[H2_FIELDS_OUT_MAX];
    struct h2_stream *stream;
    enum err err = open_stream(h2, id, &stream);

    if (err) return err;
    if (h2->side != H2_SERVER || !may_send(h2, stream) || count == 0) return ERR_INVALID;
    err = h2_fields_make(h2, headers, count, fields);
    if (!err) err = keep_trailers(h2, stream, fields, count);
    if (err) return err;
    /* Trailers count only if no output is pending. Otherwise the owner could stop reading because
     * of the trailers, and miss the window update that the output waits for. */
    if (stream->output.len == 0) stream->trailer_bytes = fields_bytes(headers, count);
    h2->answers_pending += stream->trailer_bytes;
    stream->ending = true;
    list_remove(&stream->link); /* the stream will send nothing more */
    return wake(h2, stream);
}

enum err h2_send_end(struct h2 *h2, int32_t id)
{
    struct h2_stream *stream;
    enum err err = open_stream(h2, id, &stream);

    if (err) return err;
    if (h2->side != H2_CLIENT || !may_send(h2, stream)) return ERR_INVALID;
    stream->ending = true;
    list_remove(&stream->link);
    return wake(h2, stream);
}

/* -- gathering -- */

/* Without a frame, h2->left is empty. */
static enum err next_left(struct h2 *h2)
{
    const uint8_t *bytes;
    ssize_t n;

    if (h2->left.len > 0) return ERR_OK;
    if (h2->mute) return h2->failed;
    h2->gathering = true;
    n = nghttp2_session_mem_send(h2->session, &bytes);
    h2->gathering = false;
    if (n < 0) {
        h2->mute = true; /* nghttp2's state for sending is broken */
        return h2_engine_err(h2, n);
    }
    h2->left = str_of(bytes, (size_t)n);
    return ERR_OK;
}

static enum err gather(struct h2 *h2, size_t max, struct buf *into)
{
    while (max > 0) {
        size_t n;
        enum err err = next_left(h2);
        if (err) return err;
        if (h2->left.len == 0) return ERR_OK;
        n = min_size(max, h2->left.len);
        err = buf_append(into, str_of(h2->left.at, n));
        if (err) return err;
        h2->left = str_tail(h2->left, n);
        max -= n;
    }
    return ERR_OK;
}

/* A stream that is full again moves to the end of the list. */
void h2_report_writable(struct h2 *h2)
{
    struct list waiting, *node;

    h2->drained = false;
    if (list_empty(&h2->blocked) || h2->pending > h2->limits.output_max / 2) return;
    list_init(&waiting);
    list_splice(&waiting, &h2->blocked);
    while ((node = list_pop(&waiting)) != NULL) {
        struct h2_stream *stream = CONTAINER_OF(node, struct h2_stream, link);
        if (stream->output.len > h2->limits.stream_output_max / 2 ||
            h2->pending > h2->limits.output_max / 2)
            list_append(&h2->blocked, node);
        else if (h2->events.on_writable)
            h2->events.on_writable(h2->owner, stream->id);
    }
}

enum err h2_take_output(struct h2 *h2, size_t max, struct buf *into)
{
    struct list *node;
    enum err err;

    assert(!h2->busy);
    h2->busy = true;
    err = gather(h2, max, into);
    while ((node = list_pop(&h2->closed)) != NULL)
        h2_report_closed(h2, CONTAINER_OF(node, struct h2_stream, link));
    if (h2->drained && !h2->failed) h2_report_writable(h2);
    h2->busy = false;
    /* Also frees kept blocks of connections that are never quiet for long. */
    if (++h2->turns % KEPT_TURNS == 0) h2_memory_trim(&h2->memory);
    return err;
}
