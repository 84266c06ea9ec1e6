/* SPDX-License-Identifier: Apache-2.0 */
/* Outgoing messages and statuses.
 *
 * A message is queued directly on the stream if it fits. A message that can never fit, and the
 * response of rpc_reply, wait in the call's outbox and are sent in pieces as the peer reads.
 *
 * While the outboxes of a connection hold more than output_max, the connection is choked: its
 * requests are not read. Each call counts with at most SHARE_MAX, so that one large response does
 * not block many small ones. */
#include "rpc/headers.h"
#include "rpc/server_internal.h"

enum {
    PIECE = 16 << 10, /* bytes of an outbox that are given to h2 at a time */
    SHARE_MAX = 256 << 10,
    FIXED_HEADERS = 8,
};

/* -- metadata -- */

static enum err metadata_add(struct rpc_call *call, struct str name, struct str value, bool trailer)
{
    struct buf *scratch = &call->server->message;
    char *own_name, *own_value;
    enum err err;

    if (!header_name_is_free(name)) return ERR_INVALID;
    if (str_ends(name, STR("-bin"))) {
        buf_clear(scratch);
        err = grpc_bin_encode(value, scratch);
        if (err) return err;
        value = buf_peek(scratch);
    } else if (!header_value_is_printable(value)) {
        return ERR_INVALID;
    }
    if (call->added_count == RPC_METADATA_OUT_MAX) return ERR_FULL;
    if (!call->added)
        call->added = arena_calloc(&call->head, RPC_METADATA_OUT_MAX, sizeof *call->added);
    own_name = arena_dup(&call->head, name);
    own_value = arena_dup(&call->head, value);
    if (!call->added || !own_name || !own_value) return ERR_NOMEM;
    (void)limits_charge_metadata(call, name.len + value.len); /* the flush checks the limit */
    call->added[call->added_count++] = (struct call_metadata){
        .name = str_of(own_name, name.len),
        .value = str_of(own_value, value.len),
        .trailer = trailer,
    };
    return ERR_OK;
}

enum err rpc_add_header(struct rpc_call *call, struct str name, struct str value)
{
    if (!call_takes_answer(call) || call->response != RESPONSE_NONE) return ERR_CLOSED;
    return metadata_add(call, name, value, false);
}

enum err rpc_add_trailer(struct rpc_call *call, struct str name, struct str value)
{
    if (!call_takes_answer(call)) return ERR_CLOSED;
    return metadata_add(call, name, value, true);
}

static size_t metadata_put_added(const struct rpc_call *call, bool trailers, struct h2_header *into)
{
    size_t count = 0;

    for (size_t i = 0; i < call->added_count; i++)
        if (call->added[i].trailer == trailers)
            into[count++] = (struct h2_header){call->added[i].name, call->added[i].value};
    return count;
}

/* The supported encodings are sent with a connection's first response, and when a request was
 * refused for its encoding. */
static size_t response_put_headers(struct connection *c, struct h2_header *into)
{
    size_t count = 0;

    into[count++] = (struct h2_header){STR(":status"), STR("200")};
    into[count++] = (struct h2_header){STR("content-type"), STR("application/grpc")};
    if (!c->encodings_sent)
        into[count++] = (struct h2_header){STR("grpc-accept-encoding"), STR("identity,gzip")};
    c->encodings_sent = true;
    return count;
}

/* -- status -- */

static struct str status_put_digits(enum grpc_status status, char out[3])
{
    size_t len = 0;

    if (status >= 10) out[len++] = (char)('0' + status / 10 % 10);
    out[len++] = (char)('0' + status % 10);
    return str_of(out, len);
}

/* `full` false: only fields that always fit */
static size_t status_put(const struct rpc_call *call, bool full, char digits[3],
                         struct h2_header *into)
{
    size_t count = 0;

    into[count++] = (struct h2_header){STR("grpc-status"), status_put_digits(call->status, digits)};
    if (call->status_text.len > 0 && full)
        into[count++] = (struct h2_header){STR("grpc-message"), call->status_text};
    if (call->status_details.len > 0 && full)
        into[count++] = (struct h2_header){STR("grpc-status-details-bin"), call->status_details};
    into[count++] = (struct h2_header){STR("x-muster-trace"), rpc_call_trace(call)};
    return count;
}

static enum err status_try(struct rpc_call *call, bool headers_out, bool full)
{
    struct h2_header headers[RPC_METADATA_OUT_MAX + FIXED_HEADERS];
    struct h2 *h2 = call->connection->h2;
    char digits[3];
    size_t count = 0;

    if (!headers_out) {
        count += response_put_headers(call->connection, headers);
        if (full) count += metadata_put_added(call, false, headers + count);
    }
    count += status_put(call, full, digits, headers + count);
    if (full) count += metadata_put_added(call, true, headers + count);
    if (headers_out) return h2_send_trailers(h2, call->stream, headers, count);
    return h2_respond(h2, call->stream, headers, count, true); /* a gRPC "Trailers-Only" response */
}

static void status_send(struct rpc_call *call, bool headers_out, enum response_state end)
{
    enum err err = status_try(call, headers_out, true);

    if (err == ERR_TOO_LARGE || err == ERR_INVALID) err = status_try(call, headers_out, false);
    if (err && err != ERR_CLOSED) h2_reset(call->connection->h2, call->stream, H2_INTERNAL_ERROR);
    call_response_to(call, end);
}

/* The encoded status is copied into the call, because it may be sent later. */
static void status_keep_text(struct rpc_call *call, struct str text, struct str details)
{
    struct buf *scratch = &call->server->message;
    char *copy;

    text.len = min_size(text.len, RPC_STATUS_TEXT_MAX);
    buf_clear(scratch);
    if (text.len > 0 && !grpc_message_encode(text, scratch)) {
        copy = arena_dup(&call->head, buf_peek(scratch));
        if (copy) call->status_text = str_of(copy, scratch->len);
    }
    buf_clear(scratch);
    if (details.len > 0 && !grpc_bin_encode(details, scratch)) {
        copy = arena_dup(&call->head, buf_peek(scratch));
        if (copy) call->status_details = str_of(copy, scratch->len);
    }
    (void)limits_charge_metadata(call, call->status_text.len + call->status_details.len);
}

void call_finish(struct rpc_call *call, enum grpc_status status, struct str text,
                 struct str details, enum response_state end)
{
    bool headers_out = call->response == RESPONSE_STARTED;

    if (call_is_decided(call)) return;
    if (text.len > 0 || details.len > 0) status_keep_text(call, text, details);
    call_decide(call, status);
    call_due(call); /* schedules on_done for the end of the turn */
    if (call->connection->state == CONNECTION_ENDED) return;
    if (call->outbox.len == 0) status_send(call, headers_out, end);
    connection_mark_dirty(call->connection);
}

void rpc_finish(struct rpc_call *call, enum grpc_status status, struct str text, struct str details)
{
    call_finish(call, status, text, details, RESPONSE_SENT);
}

void rpc_fail(struct rpc_call *call, enum err err, const struct note *note)
{
    struct str text = note && note->text[0] ? str_from(note->text) : str_from(err_text(err));

    assert(err);
    rpc_finish(call, err_grpc_status(err), text, STR_EMPTY);
}

/* -- messages -- */

static enum err response_start(struct rpc_call *call)
{
    struct h2_header headers[RPC_METADATA_OUT_MAX + FIXED_HEADERS];
    size_t count;
    enum err err;

    if (call->response == RESPONSE_STARTED) return ERR_OK;
    count = response_put_headers(call->connection, headers);
    count += metadata_put_added(call, false, headers + count);
    err = h2_respond(call->connection->h2, call->stream, headers, count, false);
    if (!err) call_response_to(call, RESPONSE_STARTED);
    return err;
}

static size_t outbox_share(size_t outbox_len)
{
    return min_size(outbox_len, SHARE_MAX);
}

static void outbox_choke(struct connection *c)
{
    if (c->held >= c->server->limits.output_max) c->choked = true;
}

/* Resumes only calls with waiting input, because a peer can choke its connection often: resuming
 * must not visit all open calls. */
static void outbox_unchoke(struct connection *c)
{
    struct list *node;

    if (!c->choked || c->held > c->server->limits.output_max / 2) return;
    c->choked = false;
    while ((node = list_pop(&c->waiting)) != NULL) {
        c->server->stats.unchoked++;
        call_due(CONTAINER_OF(node, struct rpc_call, waiting));
    }
}

void call_drop_outbox(struct rpc_call *call)
{
    size_t len = call->outbox.len;

    if (len == 0) return;
    limits_refund(call, len);
    assert(call->connection->held >= outbox_share(len));
    call->connection->held -= outbox_share(len);
    buf_deinit(&call->outbox);
    call->outbox_at = 0;
    outbox_unchoke(call->connection);
}

static enum err outbox_append(struct rpc_call *call, const struct str *parts, size_t count)
{
    size_t total = 0, before = call->outbox.len;
    enum err err;

    for (size_t i = 0; i < count; i++) total += parts[i].len;
    err = limits_charge(call, total);
    if (err) return err;
    for (size_t i = 0; i < count && !err; i++) err = buf_append(&call->outbox, parts[i]);
    if (err) {
        call->outbox.len = before;
        limits_refund(call, total);
        return err;
    }
    call->connection->held += outbox_share(call->outbox.len) - outbox_share(before);
    outbox_choke(call->connection);
    return ERR_OK;
}

/* Gives h2 as much of the outbox as the stream accepts, then the status if it is decided. */
void call_pump(struct rpc_call *call)
{
    struct connection *c = call->connection;

    while (call->outbox_at < call->outbox.len) {
        size_t n = min_size(call->outbox.len - call->outbox_at,
                            min_size(PIECE, c->server->limits.stream_output_max));
        struct str piece = str_of(call->outbox.data + call->outbox_at, n);
        enum err err = h2_send(c->h2, call->stream, &piece, 1);
        if (err == ERR_FULL) return;   /* on_writable will continue */
        if (err == ERR_CLOSED) return; /* on_closed will follow */
        if (err) {
            h2_reset(c->h2, call->stream, H2_INTERNAL_ERROR);
            return;
        }
        call->outbox_at += n;
    }
    call_drop_outbox(call);
    outbox_unchoke(c);
    if (call->response == RESPONSE_DECIDED) status_send(call, true, RESPONSE_SENT);
}

static void response_block(struct rpc_call *call)
{
    if (call->handler != HANDLER_BLOCKED) call_handler_to(call, HANDLER_BLOCKED);
}

/* `must_take`: the caller cannot try again */
static enum err response_send(struct rpc_call *call, struct str message, bool must_take)
{
    struct connection *c = call->connection;
    char head[GRPC_FRAME_BYTES];
    struct str parts[2] = {{head, sizeof head}, message};
    enum err err;

    if (!call_takes_answer(call)) return ERR_CLOSED;
    if (message.len > call->method->rpc.response_max) return ERR_TOO_LARGE;
    if (call->outbox.len > 0 && !must_take) {
        response_block(call);
        return ERR_FULL;
    }
    err = response_start(call);
    if (err) return err;
    grpc_frame_write((uint32_t)message.len, false, head);
    err = call->outbox.len > 0 ? ERR_FULL : h2_send(c->h2, call->stream, parts, 2);
    if (err == ERR_TOO_LARGE || (err == ERR_FULL && must_take)) {
        err = outbox_append(call, parts, 2);
        /* the peer's share of memory is used up, and no event reports free memory */
        if (err == ERR_FULL) return ERR_NOMEM;
        if (!err) call_pump(call);
    }
    if (err == ERR_FULL) response_block(call);
    if (err) return err;
    call->bytes_out += message.len;
    connection_mark_dirty(c);
    return ERR_OK;
}

static enum err response_encode(struct rpc_call *call, const ProtobufCMessage *message,
                                bool must_take, struct note *note)
{
    struct buf *scratch = &call->server->message;
    enum err err;

    if (!call_takes_answer(call)) return ERR_CLOSED;
    if (call->outbox.len > 0 && !must_take) { /* checked before the message is encoded */
        response_block(call);
        return ERR_FULL;
    }
    buf_clear(scratch);
    err = message_write(message, scratch, note);
    if (err) return err == ERR_FULL ? ERR_TOO_LARGE : err;
    return response_send(call, buf_peek(scratch), must_take);
}

enum err rpc_send(struct rpc_call *call, const ProtobufCMessage *message)
{
    return response_encode(call, message, false, NULL);
}

enum err rpc_send_bytes(struct rpc_call *call, struct str message)
{
    return response_send(call, message, false);
}

enum err rpc_send_kept(struct rpc_call *call, struct str message)
{
    enum err err = response_send(call, message, true);

    if (!err && call->outbox.len > 0) response_block(call);
    return err;
}

/* The handler has acted, so the status must not mean "not applied". A client reads
 * RESOURCE_EXHAUSTED, the status of most of these errors, as "not applied" (retry.c). */
static void response_end(struct rpc_call *call, enum err err, const struct note *why)
{
    struct note note;

    if (!err) {
        rpc_finish(call, GRPC_OK, STR_EMPTY, STR_EMPTY);
        return;
    }
    note_set(&note, "the answer cannot be sent: %s", why->text[0] ? why->text : err_text(err));
    rpc_finish(call, err == ERR_CLOSED ? GRPC_CANCELLED : GRPC_INTERNAL, str_from(note.text),
               STR_EMPTY);
}

void rpc_reply(struct rpc_call *call, const ProtobufCMessage *message)
{
    struct note why;

    why.text[0] = '\0'; /* only the first byte, because every call passes here */
    response_end(call, response_encode(call, message, true, &why), &why);
}

void rpc_reply_bytes(struct rpc_call *call, struct str message)
{
    response_end(call, response_send(call, message, true), &(struct note){0});
}

enum err rpc_reply_begin(struct rpc_call *call, size_t total)
{
    char head[GRPC_FRAME_BYTES];
    struct str part = {head, sizeof head};
    enum err err;

    if (!call_takes_answer(call)) return ERR_CLOSED;
    assert(call->reply_left == 0 && total > 0);
    if (total > call->method->rpc.response_max) return ERR_TOO_LARGE;
    err = response_start(call);
    if (err) return err;
    grpc_frame_write((uint32_t)total, false, head);
    err = outbox_append(call, &part, 1);
    if (!err) call->reply_left = total;
    return err;
}

enum err rpc_reply_more(struct rpc_call *call, struct str piece)
{
    enum err err;

    if (!call_takes_answer(call)) return ERR_CLOSED;
    assert(piece.len <= call->reply_left);
    err = outbox_append(call, &piece, 1);
    if (err) return err;
    call_pump(call);
    call->reply_left -= piece.len;
    call->bytes_out += piece.len;
    connection_mark_dirty(call->connection);
    if (call->reply_left > 0) {
        if (call->outbox.len > 0) response_block(call);
        return ERR_OK;
    }
    rpc_finish(call, GRPC_OK, STR_EMPTY, STR_EMPTY);
    return ERR_OK;
}

bool rpc_reply_waits(const struct rpc_call *call)
{
    return call->handler == HANDLER_BLOCKED; /* false if only a message's header is in the outbox */
}
