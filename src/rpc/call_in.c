/* SPDX-License-Identifier: Apache-2.0 */
/* From headers to a call, from data to messages.
 *
 * A request is checked in this order: is it gRPC, is there room for a call, does the method exist,
 * may this peer call it, are its headers valid. Bytes are consumed (which opens the peer's window)
 * when the reader takes them. While the call is paused, bytes wait in the inbox, not consumed. */
#include "rpc/forward.h"
#include "rpc/headers.h"
#include "rpc/server_internal.h"

enum {
    INFLATION = 1032,                    /* highest compression ratio of deflate */
    CALL_IN_MESSAGE_KEPT_MAX = 64 << 10, /* buffer capacity kept for the next message */
};

struct request {
    struct str method, path, content_type, timeout, encoding;
    /* metadata_first: where the search begins */
    size_t metadata_first, metadata_count, metadata_bytes;
};

enum grpc_header {
    HEADER_METADATA,
    HEADER_METHOD,
    HEADER_PATH,
    HEADER_CONTENT_TYPE,
    HEADER_TIMEOUT,
    HEADER_ENCODING,
    HEADER_OTHER
};

/* The names that gRPC reserves, except three that users may set. */
static enum grpc_header request_grpc_field(struct str name)
{
    if (str_equal(name, STR("grpc-timeout"))) return HEADER_TIMEOUT;
    if (str_equal(name, STR("grpc-encoding"))) return HEADER_ENCODING;
    if (str_equal(name, STR("grpc-trace-bin")) || str_equal(name, STR("grpc-tags-bin")) ||
        str_equal(name, STR("grpc-previous-rpc-attempts")))
        return HEADER_METADATA;
    return HEADER_OTHER;
}

/* Called for every field of every request, so cheap checks come first. */
static enum grpc_header request_field(struct str name)
{
    switch (name.len > 0 ? name.at[0] : ':') {
    case ':':
        if (str_equal(name, STR(":path"))) return HEADER_PATH;
        return str_equal(name, STR(":method")) ? HEADER_METHOD : HEADER_OTHER;
    case 'c': return str_equal(name, STR("content-type")) ? HEADER_CONTENT_TYPE : HEADER_METADATA;
    case 'g': return str_starts(name, STR("grpc-")) ? request_grpc_field(name) : HEADER_METADATA;
    case 't': return str_equal(name, STR("te")) ? HEADER_OTHER : HEADER_METADATA;
    default: return HEADER_METADATA;
    }
}

static void request_sort(const struct h2_header *headers, size_t count, struct request *r)
{
    for (size_t i = 0; i < count; i++) {
        struct str value = headers[i].value;
        switch (request_field(headers[i].name)) {
        case HEADER_METADATA:
            if (r->metadata_count++ == 0) r->metadata_first = i;
            r->metadata_bytes += headers[i].name.len + value.len;
            break;
        case HEADER_METHOD: r->method = value; break;
        case HEADER_PATH: r->path = value; break;
        case HEADER_CONTENT_TYPE: r->content_type = value; break;
        case HEADER_TIMEOUT: r->timeout = value; break;
        case HEADER_ENCODING: r->encoding = value; break;
        case HEADER_OTHER: break;
        }
    }
}

/* "application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8" */
static bool request_is_grpc(struct str content_type)
{
    struct str rest;

    if (!str_starts(content_type, STR("application/grpc"))) return false;
    rest = str_tail(content_type, 16);
    return rest.len == 0 || rest.at[0] == '+' || rest.at[0] == ';';
}

static void request_refuse(struct connection *c, int32_t stream)
{
    const struct h2_header headers[] = {
        {STR(":status"), STR("200")},
        {STR("content-type"), STR("application/grpc")},
        {STR("grpc-status"), STR("8")}, /* RESOURCE_EXHAUSTED */
        {STR("grpc-message"), STR("too many calls")},
    };

    meter_refused(c->server, REFUSED_CALLS);
    if (h2_respond(c->h2, stream, headers, ARRAY_LEN(headers), true))
        h2_reset(c->h2, stream, H2_INTERNAL_ERROR);
}

/* NULL: the request is gRPC. */
static const struct plain_answer *request_plain_answer(const struct request *r)
{
    static const struct plain_answer no_post = {{"405", 3}, {"only POST", 9}};
    static const struct plain_answer no_grpc = {{"415", 3},
                                                {"content-type is not application/grpc", 36}};

    if (!str_equal(r->method, STR("POST"))) return &no_post;
    return request_is_grpc(r->content_type) ? NULL : &no_grpc;
}

static struct str request_keep_text(struct rpc_call *call, struct str s)
{
    char *copy = arena_dup(&call->head, s);

    return copy ? str_of(copy, s.len) : STR_EMPTY;
}

/* The value of a -bin name is decoded, which never grows. ERR_PARSE: not base64. */
static enum err metadata_put_value(struct rpc_call *call, char **at, const struct h2_header *header,
                                   struct str *ret_value)
{
    struct buf *scratch = &call->server->message;
    struct str value = header->value;
    enum err err;

    if (str_ends(header->name, STR("-bin"))) {
        buf_clear(scratch);
        err = grpc_bin_decode(value, scratch);
        if (err) return err;
        assert(scratch->len <= value.len);
        value = buf_peek(scratch);
    }
    *ret_value = str_put(at, value);
    return ERR_OK;
}

static enum err metadata_keep(struct rpc_call *call, const struct h2_header *headers,
                              const struct request *r, struct note *note)
{
    struct call_metadata *kept =
        arena_alloc(&call->head, r->metadata_count * sizeof *kept + r->metadata_bytes);
    char *at;

    if (!kept) return ERR_NOMEM;
    call->metadata = kept;
    at = (char *)(kept + r->metadata_count);
    for (size_t i = r->metadata_first; call->metadata_count < r->metadata_count; i++) {
        struct call_metadata *m = &kept[call->metadata_count];
        enum err err;
        if (request_field(headers[i].name) != HEADER_METADATA) continue;
        *m = (struct call_metadata){.name = str_put(&at, headers[i].name)};
        err = metadata_put_value(call, &at, &headers[i], &m->value);
        if (err) {
            note_set(note, "metadata %.*s: not base64", STR_ARG(headers[i].name));
            return err == ERR_PARSE ? ERR_INVALID : err;
        }
        call->metadata_count++;
    }
    return ERR_OK;
}

static enum err request_take_timeout(struct rpc_call *call, struct str timeout, struct note *note)
{
    uint64_t us, due_us;

    if (timeout.len == 0) return ERR_OK;
    if (grpc_timeout_parse(timeout, &us))
        return note_fail(note, ERR_INVALID, "grpc-timeout: not a time");
    /* The handler's deadline is never later than the client's. The timer counts from the arrival of
     * the call and is rounded up, so it never fires early. */
    call->deadline = mono_after(loop_now(call->server->io->loop), us / 1000);
    due_us = add_sat_u64(call->began.ns / NS_PER_US + 1, us);
    timer_start(&call->timer, (mono_time){due_us / 1000 + 1});
    return ERR_OK;
}

static enum err request_take_encoding(struct rpc_call *call, struct str encoding, struct note *note)
{
    call->gzip = str_equal(encoding, STR("gzip"));
    if (call->gzip || encoding.len == 0 || str_equal(encoding, STR("identity"))) return ERR_OK;
    call->connection->encodings_sent = false; /* this response then lists the encodings */
    return note_fail(note, ERR_UNSUPPORTED,
                     "grpc-encoding %.*s: only gzip and identity are understood",
                     (int)min_size(encoding.len, 64), encoding.at);
}

/* Only a replica may name the original caller of a forwarded call (rpc/forward.h). */
static enum err request_take_caller(struct rpc_call *call, struct note *note)
{
    struct str value;

    if (!rpc_call_metadata(call, STR(RPC_CALLER_HEADER), &value)) return ERR_OK;
    return rpc_forward_identity(call->connection->identity, value, &call->head, &call->caller,
                                note);
}

static enum err scheme_check_name(struct str name, struct note *note)
{
    if (!str_starts(name, STR("bigfleet://")) && !str_starts(name, STR("muster://"))) return ERR_OK;
    return note_fail(note, ERR_DENIED, "%.*s is not for this listener's authority to name",
                     (int)min_size(name.len, 128), name.at);
}

/* Refuses an identity with the fleet's URI schemes if another certificate authority signed it. */
static enum err scheme_check(const struct rpc_call *call, struct note *note)
{
    const struct tls_identity *identity = call->connection->identity;
    enum err err = ERR_OK;

    if (!call->server->outsiders || !identity) return ERR_OK;
    for (size_t i = 0; !err && i < identity->uri_count; i++)
        err = scheme_check_name(identity->uris[i], note);
    return err ? err : scheme_check_name(identity->common_name, note);
}

static enum err request_find_method(struct rpc_call *call, struct str path, struct note *note)
{
    struct connection *c = call->connection;
    struct method *m = c->last;

    if (!m || !str_equal(m->path, path)) m = map_get(&call->server->by_path, path);
    if (m) {
        c->last = call->method = m;
        rpc_call_redirect(call, m->rpc.handler, m->rpc.service);
        call->path = m->path;
        enum err err = scheme_check(call, note);
        if (!err) err = request_take_caller(call, note);
        if (!err) err = rpc_access_check(m->rpc.access, rpc_call_identity(call), note);
        if (err == ERR_DENIED)
            LOG_ERROR(&call->server->log, "certificate identity rejected", log_str("rpc", m->path),
                      log_text("peer", c->address), log_text("why", note->text));
        return err;
    }
    call->path = request_keep_text(call, path);
    return note_fail(note, ERR_UNSUPPORTED, "unknown method %.*s", (int)min_size(path.len, 200),
                     path.at);
}

static enum err request_open_call(struct rpc_call *call, const struct h2_header *headers,
                                  const struct request *r, struct note *note)
{
    enum err err = metadata_keep(call, headers, r, note), later;

    trace_take(call);
    later = request_find_method(call, r->path,
                                note); /* even after an error, so that the method counts the call */
    if (err != ERR_OK && !later) return err;
    if (!later) later = request_take_timeout(call, r->timeout, note);
    if (!later) later = request_take_encoding(call, r->encoding, note);
    return later;
}

static bool request_is_one(const struct rpc_call *call)
{
    return call->method->rpc.kind == RPC_UNARY || call->method->rpc.kind == RPC_SERVER_STREAM;
}

static bool request_has_hops(const struct h2_header *headers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_equal(headers[i].name, STR(RPC_HOPS_HEADER))) return true;
    return false;
}

/* Charges the call for the metadata that it keeps: one byte can refer to a long entry of the header
 * table. False: the call was refused. */
static bool request_charge_metadata(struct rpc_call *call, const struct h2_header *headers,
                                    size_t count, const struct request *r)
{
    size_t bytes = r->metadata_bytes + r->metadata_count * sizeof(struct call_metadata);
    enum err err = limits_charge_metadata(call, bytes);
    struct note note;

    if (err == ERR_TOO_LARGE && !call->connection->identity && request_has_hops(headers, count)) {
        call->connection->passes_on = true;
        err = limits_charge_metadata(call, bytes);
    }
    if (!err) return true;
    trace_take(call);
    if (err == ERR_TOO_LARGE)
        connection_too_much(call->connection);
    else
        meter_refused(call->server, REFUSED_CALLS);
    note_set(&note, "too much metadata in the open calls of this %s",
             err == ERR_TOO_LARGE ? "connection" : "peer");
    rpc_fail(call, ERR_FULL, &note);
    return false;
}

static void request_start(struct rpc_call *call)
{
    const struct rpc_method *m = &call->method->rpc;

    grpc_reader_init(&call->reader, m->request_max);
    buf_clear(&call->message); /* the buffer may be left from an earlier call */
    if (call->message.cap > m->request_max) buf_deinit(&call->message);
    call->message.max = m->request_max;
    call->arena.max = m->arena_max;
    /* these two kinds of calls begin with on_message */
    if (m->kind == RPC_UNARY || m->kind == RPC_SERVER_STREAM) return;
    call_handler_to(call, HANDLER_AWARE);
    if (call->events->on_start) call->events->on_start(call->service, call);
    if (call->server->draining) call_drain(call);
}

void call_headers(struct connection *c, int32_t stream, const struct h2_header *headers,
                  size_t count, bool end)
{
    struct rpc_server *s = c->server;
    struct request r = {0};
    const struct plain_answer *plain;
    struct rpc_call *call;
    struct note note = {0};
    bool head;
    enum err err;

    request_sort(headers, count, &r);
    plain = request_plain_answer(&r);
    head = str_equal(r.method, STR("HEAD"));
    if (end && (head || str_equal(r.method, STR("GET"))) && page_answer(c, stream, r.path, head))
        return;
    call = s->stats.calls < s->limits.calls_max ? call_new(c, stream) : NULL;
    if (!call) {
        request_refuse(c, stream);
        return;
    }
    if (end) call_request_to(call, REQUEST_ENDED);
    if (plain) {
        stranger_begin(call, plain, head);
        return;
    }
    if (!request_charge_metadata(call, headers, count, &r)) return;
    err = request_open_call(call, headers, &r, &note);
    if (err) {
        rpc_fail(call, err, &note);
        return;
    }
    request_start(call);
    if (end)
        call_advance(call, STR_EMPTY);
    else if (request_is_one(call))
        body_wait(call);
}

/* -- messages -- */

static void request_fail(struct rpc_call *call, enum grpc_status status, struct str text)
{
    rpc_finish(call, status, text, STR_EMPTY);
}

/* The status must not mean "not applied", because the handler may have acted on earlier messages. A
 * client reads RESOURCE_EXHAUSTED as "not applied" (retry.c). */
static void request_fail_reading(struct rpc_call *call, enum err err, const struct note *note)
{
    bool ours = err == ERR_NOMEM || err == ERR_FULL;

    if (ours && call->handler != HANDLER_UNAWARE)
        request_fail(call, GRPC_UNKNOWN, str_from(note->text[0] ? note->text : err_text(err)));
    else
        rpc_fail(call, err, note);
}

/* Inflates if needed. False: the call has ended. */
static bool message_inflated(struct rpc_call *call, struct str *ret_bytes)
{
    struct rpc_server *s = call->server;
    enum err err;

    *ret_bytes = buf_peek(&call->message);
    if (!call->reader.compressed) return true;
    if (!call->gzip) {
        request_fail(call, GRPC_INTERNAL, STR("compressed message without grpc-encoding"));
        return false;
    }
    buf_clear(&s->inflated);
    err = grpc_gunzip(*ret_bytes, call->method->rpc.inflated_max, &s->inflated);
    *ret_bytes = buf_peek(&s->inflated);
    if (!err) return true;
    if (err == ERR_TOO_LARGE)
        request_fail(call, GRPC_RESOURCE_EXHAUSTED,
                     STR("message is larger than the limit once inflated"));
    else
        request_fail_reading(call, err, &(struct note){"gzip message"});
    return false;
}

static void message_deliver(struct rpc_call *call)
{
    const struct rpc_method *m = &call->method->rpc;
    ProtobufCMessage *message = NULL;
    struct note note = {0};
    struct str bytes;
    enum err err;

    if (!message_inflated(call, &bytes)) return;
    call->bytes_in += bytes.len;
    if (request_is_one(call)) /* for a single request, marks when its last bytes arrived */
        call_mark_at(call, "received", call->connection->read_at);
    else
        arena_reset(&call->arena);
    if (m->input) {
        err = message_read(m->input, bytes, NULL, &call->arena, &message, &note);
        if (err) {
            request_fail_reading(call, err, &note);
            return;
        }
    }
    if (request_is_one(call)) rpc_call_mark(call, "decoded");
    if (call->handler == HANDLER_UNAWARE) call_handler_to(call, HANDLER_AWARE);
    call->events->on_message(call->service, call, message, m->input ? STR_EMPTY : bytes);
    if (call->server->draining && request_is_one(call)) call_drain(call);
}

static void message_forget(struct rpc_call *call)
{
    buf_clear(&call->message);
    if (call->message.cap > CALL_IN_MESSAGE_KEPT_MAX) buf_deinit(&call->message);
}

static void request_deliver_end(struct rpc_call *call)
{
    call_request_to(call, REQUEST_DELIVERED);
    if (call->whole) {
        message_deliver(call);
        message_forget(call);
    } else if (!grpc_reader_between(&call->reader)) {
        request_fail(call, GRPC_INVALID_ARGUMENT, STR("message was cut off"));
    } else if (request_is_one(call)) {
        request_fail(call, GRPC_UNIMPLEMENTED,
                     STR("no request message")); /* the status that gRPC specifies */
    } else if (call->events->on_half_closed) {
        call->events->on_half_closed(call->service, call);
    }
}

static void request_reader_failed(struct rpc_call *call, enum err err)
{
    if (err == ERR_TOO_LARGE)
        request_fail(call, GRPC_RESOURCE_EXHAUSTED, STR("message is larger than the limit"));
    else if (err == ERR_PARSE)
        request_fail(call, GRPC_INTERNAL, STR("message has reserved flags"));
    else
        request_fail_reading(call, err, &(struct note){"request buffer"});
}

/* If the handler accepted the announced size, reserves memory for the whole message: growing step
 * by step would copy a large message repeatedly. */
static enum err message_make_room(struct rpc_call *call)
{
    struct grpc_reader *r = &call->reader;
    char *room;

    if (!call->events->on_announced || call->message.len > 0) return ERR_OK;
    return buf_reserve(&call->message, r->head_len == GRPC_FRAME_BYTES ? r->length : 0, &room);
}

static void message_announce(struct rpc_call *call)
{
    uint64_t bytes = call->reader.length;

    if (call->reader.compressed) bytes = min_u64(call->method->rpc.inflated_max, bytes * INFLATION);
    call->events->on_announced(call->service, call, (size_t)bytes);
}

/* Reads up to the end of one message. The five header bytes of a message that must be announced are
 * read alone. */
static enum err request_read_message(struct rpc_call *call, struct str *bytes, bool *ret_whole)
{
    struct grpc_reader *r = &call->reader;
    bool announces = call->events->on_announced && r->head_len < GRPC_FRAME_BYTES;
    size_t most = announces ? GRPC_FRAME_BYTES - r->head_len : bytes->len, taken;
    struct str rest = str_of(bytes->at, min_size(most, bytes->len)), piece = STR_EMPTY;
    enum err err = message_make_room(call);

    taken = rest.len;
    if (!err) err = grpc_reader_piece(r, &rest, &piece, ret_whole);
    taken -= rest.len;
    *bytes = str_tail(*bytes, taken);
    h2_consume(call->connection->h2, call->stream, taken);
    if (!err) err = buf_append(&call->message, piece);
    if (!err) err = limits_charge(call, piece.len);
    if (!err && announces && r->head_len == GRPC_FRAME_BYTES) message_announce(call);
    return err;
}

struct buf rpc_take_message(struct rpc_call *call)
{
    struct buf *from = call->reader.compressed ? &call->server->inflated : &call->message;
    struct buf message = *from;

    assert(!call->method->rpc.input && !request_is_one(call));
    buf_init(from, message.max);
    return message;
}

static void message_whole(struct rpc_call *call)
{
    size_t len = call->message.len;

    call->whole = request_is_one(call);
    if (call->whole) return; /* delivered after the end of the request */
    body_over(call);         /* the next message has its own timeout */
    message_deliver(call);
    message_forget(call);
    if (call->paused) buf_deinit(&call->message); /* the next message may arrive much later */
    limits_refund(call, len);
}

static bool request_is_held(const struct rpc_call *call)
{
    return call->paused || call->connection->choked;
}

/* Reads messages until the call is paused or decided; unread bytes stay in *bytes. */
static void request_read(struct rpc_call *call, struct str *bytes)
{
    while (bytes->len > 0 && !request_is_held(call) && !call_is_decided(call)) {
        bool whole = false;
        enum err err;
        if (call->whole) {
            request_fail(call, GRPC_UNIMPLEMENTED, STR("more than one request message"));
            return;
        }
        err = request_read_message(call, bytes, &whole);
        if (err)
            request_reader_failed(call, err);
        else if (whole)
            message_whole(call);
    }
}

static void request_read_inbox(struct rpc_call *call)
{
    struct str bytes = buf_peek(&call->inbox);
    size_t before = bytes.len;

    request_read(call, &bytes);
    limits_refund(call, before - bytes.len);
    buf_consume(&call->inbox, before - bytes.len);
    if (call->inbox.len == 0) buf_deinit(&call->inbox);
    /* Schedules a flush for the window update. Without the update the peer cannot complete a
     * message larger than the window. */
    if (bytes.len < before) connection_mark_dirty(call->connection);
}

static void request_keep(struct rpc_call *call, struct str bytes)
{
    enum err err = limits_charge(call, bytes.len);

    if (!err) err = buf_append(&call->inbox, bytes);
    if (err) request_fail_reading(call, err, &(struct note){"request buffer"});
}

void call_advance(struct rpc_call *call, struct str fresh)
{
    if (call->inbox.len > 0) request_read_inbox(call);
    if (call->inbox.len == 0) request_read(call, &fresh);
    if (fresh.len > 0 && !call_is_decided(call)) request_keep(call, fresh);
    if (call->request == REQUEST_ENDED && call->inbox.len == 0 && !request_is_held(call) &&
        !call_is_decided(call))
        request_deliver_end(call);
    if (call_is_decided(call)) return;
    if (call->connection->choked && list_empty(&call->waiting) &&
        (call->inbox.len > 0 || call->request == REQUEST_ENDED))
        list_append(&call->connection->waiting, &call->waiting);
    if (call->request == REQUEST_OPEN && !grpc_reader_between(&call->reader)) body_wait(call);
}

void call_data(struct rpc_call *call, struct str bytes)
{
    call->body_came += bytes.len;
    if (!call->plain && !call_is_decided(call)) {
        call_advance(call, bytes);
        return;
    }
    h2_consume(call->connection->h2, call->stream, bytes.len);
    if (!call_is_decided(call)) stranger_data(call);
}

void call_end(struct rpc_call *call)
{
    call_request_to(call, REQUEST_ENDED);
    body_over(call);
    if (call_is_decided(call)) return;
    if (call->plain)
        stranger_answer(call);
    else
        call_advance(call, STR_EMPTY);
}
