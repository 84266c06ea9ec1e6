/* SPDX-License-Identifier: Apache-2.0 */
/* Responses of a call: headers, messages, and the status that ends it.
 *
 * A response that breaks gRPC's rules ends the attempt as lost, because the server has received the
 * call and its effect is unknown. */
#include "rpc/client_internal.h"

enum { CLIENT_ANSWER_MESSAGE_KEPT_MAX = 64 << 10 }; /* buffer capacity kept for the next message */

/* -- metadata -- */

/* True for names that the protocol uses; other names are for the caller. */
static bool is_protocol_name(struct str name)
{
    return name.len == 0 || name.at[0] == ':' || str_starts(name, STR("grpc-")) ||
           str_equal(name, STR("content-type"));
}

static struct str answer_keep(struct rpc_client_call *call, struct str value)
{
    const char *copy = arena_dup(&call->answer, value);

    return copy ? str_of(copy, value.len) : STR_EMPTY;
}

static struct str answer_keep_decoded(struct rpc_client_call *call, struct str value,
                                      enum err (*decode)(struct str, struct buf *))
{
    struct buf decoded;
    struct str kept = STR_EMPTY;

    buf_init(&decoded, CALL_ANSWER_MAX);
    if (!decode(value, &decoded)) kept = answer_keep(call, buf_peek(&decoded));
    buf_deinit(&decoded);
    return kept;
}

static struct h2_header answer_keep_field(struct rpc_client_call *call, struct h2_header field)
{
    struct h2_header kept = {answer_keep(call, field.name), STR_EMPTY};

    if (str_ends(field.name, STR("-bin")))
        kept.value = answer_keep_decoded(call, field.value, grpc_bin_decode);
    else
        kept.value = answer_keep(call, field.value);
    return kept;
}

/* Without memory the metadata is dropped, but the status is kept. */
static size_t answer_keep_metadata(struct rpc_client_call *call, const struct h2_header *fields,
                                   size_t count, const struct h2_header **ret_kept)
{
    struct h2_header *kept;
    size_t wanted = 0, n = 0;

    for (size_t i = 0; i < count; i++) wanted += !is_protocol_name(fields[i].name);
    if (wanted == 0) return 0;
    kept = arena_calloc(&call->answer, wanted, sizeof *kept);
    if (!kept) return 0;
    for (size_t i = 0; i < count; i++)
        if (!is_protocol_name(fields[i].name)) kept[n++] = answer_keep_field(call, fields[i]);
    *ret_kept = kept;
    return n;
}

static bool answer_find_field(const struct h2_header *fields, size_t count, struct str name,
                              struct str *ret_value)
{
    for (size_t i = 0; i < count; i++) {
        if (!str_equal(fields[i].name, name)) continue;
        *ret_value = fields[i].value;
        return true;
    }
    return false;
}

bool rpc_call_header(const struct rpc_client_call *call, struct str name, struct str *ret_value)
{
    return answer_find_field(call->headers, call->headers_count, name, ret_value);
}

bool rpc_call_trailer(const struct rpc_client_call *call, struct str name, struct str *ret_value)
{
    return answer_find_field(call->trailers, call->trailers_count, name, ret_value);
}

size_t rpc_call_headers(const struct rpc_client_call *call, const struct h2_header **ret_headers)
{
    *ret_headers = call->headers;
    return call->headers_count;
}

size_t rpc_call_trailers(const struct rpc_client_call *call, const struct h2_header **ret_trailers)
{
    *ret_trailers = call->trailers;
    return call->trailers_count;
}

/* -- the end of an answer -- */

/* The attempt ends when all held data is delivered to the caller. */
static void answer_conclude(struct rpc_client_call *call, const struct attempt *attempt)
{
    call->attempt = *attempt;
    call->incoming = INCOMING_WHOLE;
    if (!call->paused && call->held.len == 0) client_call_over(call, attempt);
}

static void answer_lose(struct rpc_client_call *call, enum grpc_status status, struct str text)
{
    const struct attempt attempt = {.end = ATTEMPT_LOST, .status = status, .text = text};

    buf_clear(&call->held); /* data after the invalid data is dropped */
    client_call_over(call, &attempt);
}

static bool answer_parse_status(struct str text, enum grpc_status *ret_status)
{
    uint64_t number;

    if (str_to_u64(text, &number)) return false;
    *ret_status = number <= GRPC_UNAUTHENTICATED ? (enum grpc_status)number : GRPC_UNKNOWN;
    return true;
}

/* The status may be in trailers or in a trailers-only response. */
static void answer_take_status(struct rpc_client_call *call, const struct h2_header *fields,
                               size_t count, enum grpc_status status)
{
    struct attempt attempt = {.end = ATTEMPT_ANSWERED, .status = status, .answered = true};
    struct str value;

    call->trailers_count = answer_keep_metadata(call, fields, count, &call->trailers);
    if (answer_find_field(fields, count, STR("grpc-message"), &value))
        attempt.text = answer_keep_decoded(call, value, grpc_message_decode);
    if (answer_find_field(fields, count, STR("grpc-status-details-bin"), &value))
        attempt.details = answer_keep_decoded(call, value, grpc_bin_decode);
    if (status == GRPC_OK && !grpc_reader_between(&call->reader) && call->held.len == 0) {
        answer_lose(call, GRPC_INTERNAL, STR("the answer ends inside a message"));
        return;
    }
    if (status == GRPC_FAILED_PRECONDITION &&
        rpc_call_trailer(call, STR(RPC_LEADER_TRAILER), &value))
        attempt.end = ATTEMPT_NOT_LEADER;
    else if (status != GRPC_OK && rpc_call_trailer(call, STR(RPC_APPLIED_TRAILER), &value) &&
             str_equal(value, STR("no")))
        attempt.end = ATTEMPT_NOT_APPLIED;
    answer_conclude(call, &attempt);
}

/* An HTTP error comes from a proxy or a server that is not gRPC. A request refused with 4xx did not
 * reach the method. */
static void answer_take_http(struct rpc_client_call *call, int http_status)
{
    struct attempt attempt = {
        .end = http_status >= 400 && http_status < 500 ? ATTEMPT_ANSWERED : ATTEMPT_LOST,
        .status = grpc_status_from_http(http_status),
    };
    struct note text;

    note_set(&text, "HTTP status %d without a grpc-status", http_status);
    attempt.text = answer_keep(call, str_from(text.text));
    client_call_over(call, &attempt);
}

/* -- events -- */

static void answer_take_headers(struct rpc_client_call *call, const struct h2_header *fields,
                                size_t count)
{
    struct str value;
    uint64_t http_status = 0;

    call->incoming = INCOMING_BEGUN;
    if (answer_find_field(fields, count, STR(":status"), &value))
        (void)str_to_u64(value, &http_status);
    if (http_status != 200) {
        answer_take_http(call, (int)http_status);
        return;
    }
    if (!answer_find_field(fields, count, STR("content-type"), &value) ||
        !str_starts(value, STR("application/grpc"))) {
        answer_lose(call, GRPC_UNKNOWN, STR("the answer's content type is not gRPC's"));
        return;
    }
    call->gzip = false;
    if (answer_find_field(fields, count, STR("grpc-encoding"), &value)) {
        call->gzip = str_equal(value, STR("gzip"));
        if (!call->gzip && !str_equal(value, STR("identity"))) {
            answer_lose(call, GRPC_INTERNAL,
                        STR("the answer is compressed in a way we did not offer"));
            return;
        }
    }
    call->headers_count = answer_keep_metadata(call, fields, count, &call->headers);
}

void answer_headers(struct rpc_client_call *call, const struct h2_header *fields, size_t count,
                    bool trailers, bool end)
{
    enum grpc_status status;
    struct str value;

    if (call->incoming == INCOMING_WHOLE) return;
    if (end && answer_find_field(fields, count, STR("grpc-status"), &value)) {
        if (answer_parse_status(value, &status))
            answer_take_status(call, fields, count, status);
        else
            answer_lose(call, GRPC_UNKNOWN, STR("the answer's grpc-status is no number"));
        return;
    }
    if (!trailers) answer_take_headers(call, fields, count);
    if (end && call->state == CALL_RUNNING)
        answer_lose(call, GRPC_UNKNOWN, STR("the answer has no grpc-status"));
}

void answer_ended(struct rpc_client_call *call)
{
    if (call->incoming != INCOMING_WHOLE)
        answer_lose(call, GRPC_UNKNOWN, STR("the answer has no grpc-status"));
}

void answer_set_aside(struct rpc_client_call *call)
{
    client_remove_call(call->connection, call);
    client_call_to(call, CALL_ANSWERED, &call->channel->delayed);
}

void answer_closed(struct rpc_client_call *call, uint32_t code)
{
    struct attempt attempt = {
        .end = code == H2_REFUSED_STREAM && call->incoming == INCOMING_NONE ? ATTEMPT_REFUSED
                                                                            : ATTEMPT_LOST,
        .status = grpc_status_from_reset(code),
    };
    struct note text;

    if (call->incoming == INCOMING_WHOLE) {
        answer_set_aside(call);
        return;
    }
    note_set(&text, "the server reset the call with HTTP/2 code %u", code);
    attempt.text = answer_keep(call, str_from(text.text));
    client_call_over(call, &attempt);
}

/* -- messages -- */

static void answer_deliver(struct rpc_client_call *call, struct str message)
{
    if (call->unary_done) return; /* a unary response is delivered at the end of the call */
    call->replayable = false;     /* no retry is possible, because the caller has seen data */
    call->events.on_message(call->owner, call, message);
    buf_clear(&call->message);
    if (call->message.cap > CLIENT_ANSWER_MESSAGE_KEPT_MAX) buf_deinit(&call->message);
}

static void answer_inflate(struct rpc_client_call *call)
{
    struct buf plain, gzip = call->message;
    enum err err;

    if (!call->gzip) {
        answer_lose(call, GRPC_INTERNAL, STR("a compressed message without a grpc-encoding"));
        return;
    }
    buf_init(&plain, call->response_max);
    err = grpc_gunzip(buf_peek(&gzip), call->response_max, &plain);
    call->message = plain;
    buf_deinit(&gzip);
    if (!err)
        answer_deliver(call, buf_peek(&call->message));
    else
        answer_lose(call, err == ERR_PARSE ? GRPC_INTERNAL : GRPC_RESOURCE_EXHAUSTED,
                    err == ERR_PARSE ? STR("a compressed message is damaged")
                                     : STR("a compressed message is larger than the limit"));
}

static void answer_piece(struct rpc_client_call *call, struct str piece, bool last)
{
    if (call->on_piece && call->reader.compressed) {
        answer_lose(call, GRPC_INTERNAL, STR("a compressed message, which was not offered"));
        return;
    }
    call->messages += last;
    if (call->on_piece) {
        call->replayable = false;
        call->on_piece(call->owner, call, piece, last);
    } else if (call->unary_done && call->messages > last) {
        /* a unary call got a further message; on_end reports the error */
    } else if (buf_append(&call->message, piece)) {
        answer_lose(call, GRPC_RESOURCE_EXHAUSTED, STR("out of memory"));
    } else if (last && call->reader.compressed) {
        answer_inflate(call);
    } else if (last) {
        answer_deliver(call, buf_peek(&call->message));
    }
}

static bool answer_is_read(const struct rpc_client_call *call)
{
    return call->state == CALL_RUNNING || call->state == CALL_ANSWERED;
}

static bool answer_takes_messages(const struct rpc_client_call *call)
{
    return answer_is_read(call) && !call->paused && list_empty(&call->resume_link);
}

/* Reads messages until the caller pauses the call; unread bytes stay in *bytes. */
static void answer_read(struct rpc_client_call *call, struct str *bytes)
{
    uint32_t attempt = call->attempts;
    bool whole;

    while (bytes->len > 0 && answer_takes_messages(call) && call->attempts == attempt) {
        size_t before = bytes->len;
        struct str piece = STR_EMPTY;
        enum err err = grpc_reader_piece(&call->reader, bytes, &piece, &whole);
        if (call->connection) h2_consume(call->connection->h2, call->stream, before - bytes->len);
        if (err == ERR_TOO_LARGE)
            answer_lose(call, GRPC_RESOURCE_EXHAUSTED, STR("a message is larger than the limit"));
        else if (err)
            answer_lose(call, GRPC_INTERNAL, STR("a message frame cannot be read"));
        if (err) return;
        if (piece.len > 0 || whole) answer_piece(call, piece, whole);
    }
}

void answer_data(struct rpc_client_call *call, struct str bytes)
{
    if (call->incoming == INCOMING_WHOLE) return;
    if (call->incoming == INCOMING_NONE) {
        answer_lose(call, GRPC_INTERNAL, STR("data before headers"));
        return;
    }
    if (call->held.len == 0) answer_read(call, &bytes);
    if (bytes.len == 0 || call->state != CALL_RUNNING) return;
    /* Held bytes are not consumed, so the peer's window bounds them. */
    if (buf_append(&call->held, bytes))
        answer_lose(call, GRPC_RESOURCE_EXHAUSTED, STR("out of memory"));
}

void answer_continue(struct rpc_client_call *call)
{
    struct str bytes = buf_peek(&call->held);
    size_t before = bytes.len;

    if (!answer_is_read(call) || call->paused) return;
    answer_read(call, &bytes);
    if (!answer_is_read(call)) return;
    buf_consume(&call->held, min_size(before - bytes.len, call->held.len));
    if (call->incoming != INCOMING_WHOLE || call->paused || call->held.len > 0) return;
    if (call->attempt.status == GRPC_OK && !grpc_reader_between(&call->reader))
        answer_lose(call, GRPC_INTERNAL, STR("the answer ends inside a message"));
    else
        client_call_over(call, &call->attempt);
}

void answer_forget(struct rpc_client_call *call)
{
    grpc_reader_init(&call->reader, call->response_max); /* grpc_reader_init does not allocate */
    buf_clear(&call->held);
    buf_clear(&call->message);
    call->messages = 0;
    call->headers = call->trailers = NULL;
    call->headers_count = call->trailers_count = 0;
    call->incoming = INCOMING_NONE;
    call->gzip = false;
    arena_reset(&call->answer);
}

void rpc_call_in_pieces(struct rpc_client_call *call, rpc_piece_fn *on_piece)
{
    assert(call->attempts == 0 && !call->unary_done);
    call->on_piece = on_piece;
}

void rpc_call_pause(struct rpc_client_call *call)
{
    call->paused = true;
}

void rpc_call_resume(struct rpc_client_call *call)
{
    if (!call->paused || call->state == CALL_ENDED) return;
    call->paused = false;
    if (list_empty(&call->resume_link)) list_append(&call->channel->resumed, &call->resume_link);
    channel_touch(call->channel);
}
