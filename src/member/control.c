/* SPDX-License-Identifier: Apache-2.0 */
/* Directives to workers: the control streams, and the directives that wait for workers without a
 * stream. Loop's thread, leader only.
 *
 * A directive is sent on the worker's stream immediately. If the stream is missing or full, the
 * directive waits for the answer to the next heartbeat. Each answer has one directive. A new
 * directive replaces a waiting directive of its kind. */
#include <stdlib.h>

#include "member/service_internal.h"

enum {
    TEXT_MAX = 256,
    ORDER_BYTES_MAX = 512 /* bytes of an encoded ControlPush */
};

struct line {                  /* a worker with a stream or a waiting directive; made by map_make */
    struct call_stream stream; /* call NULL: no stream */
    struct member_service *service;
    struct buf orders[ORDER_KINDS]; /* waiting directive of each kind; empty: none */
    size_t id_len;
};
/* -- encoding: a ControlPush -- */

static enum err order_write(const struct directive *order, struct buf *into)
{
    char bytes[ORDER_BYTES_MAX], more[4 * PACK_VARINT_MAX];
    struct buf inner_room = {.data = bytes, .cap = sizeof bytes, .max = sizeof bytes};
    struct buf more_room = {.data = more, .cap = sizeof more, .max = sizeof more};
    struct pack pack = {into, ERR_OK}, inner = {&inner_room, ERR_OK},
                duration = {&more_room, ERR_OK};

    if (order->kind == ORDER_SNAPSHOT) {
        pack_text(&inner, 1, str_of(order->text.at, min_size(order->text.len, TEXT_MAX)));
        pack_row(&pack, 2, &inner);
        return pack.err;
    }
    assert(order->kind == ORDER_DRAIN);
    pack_u64(&duration, 1, order->deadline_ms / MS_PER_SECOND);
    pack_u64(&duration, 2, order->deadline_ms % MS_PER_SECOND * NS_PER_MS);
    pack_row(&inner, 1, &duration);
    pack_row(&pack, 1, &inner);
    return pack.err;
}

/* -- the line of each worker: stream and waiting directives -- */

static void line_free(struct line *line)
{
    map_remove(&line->service->control, str_of(line + 1, line->id_len));
    for (size_t i = 0; i < ORDER_KINDS; i++) buf_deinit(&line->orders[i]);
    free(line);
}

static struct buf *first_waiting(struct line *line)
{
    for (size_t i = 0; i < ORDER_KINDS; i++)
        if (line->orders[i].len) return &line->orders[i];
    return NULL;
}

static void free_if_idle(struct line *line)
{
    if (!line->stream.call && !first_waiting(line)) line_free(line);
}

static void line_over(struct call_stream *stream)
{
    struct line *line = CONTAINER_OF(stream, struct line, stream);

    line->service->control_streams--;
    free_if_idle(line);
}

/* Also drops the worker's waiting directives. */
static void line_end(struct line *line, enum grpc_status status, const char *why)
{
    for (size_t i = 0; i < ORDER_KINDS; i++) buf_clear(&line->orders[i]);
    if (line->stream.call)
        call_stream_end(&line->stream, status, why);
    else
        line_free(line);
}

static struct line *line_of(const struct member_service *service, struct str worker)
{
    return map_get(&service->control, worker);
}

/* NULL: no memory, or too many workers */
static struct line *line_with(struct member_service *service, struct str worker)
{
    struct line *line = map_make(&service->control, worker, sizeof *line);

    if (!line || line->service) return line;
    line->service = service;
    line->id_len = worker.len;
    for (size_t i = 0; i < ORDER_KINDS; i++) buf_init(&line->orders[i], ORDER_BYTES_MAX);
    return line;
}

/* -- waiting directives -- */

bool control_take(struct member_service *service, struct str worker, struct buf *into)
{
    struct line *line = line_of(service, worker);
    struct buf *order = line ? first_waiting(line) : NULL;

    if (!order || buf_append(into, buf_peek(order))) return false;
    buf_clear(order);
    free_if_idle(line);
    return true;
}

/* Waiting directives go before any new directive. */
static void send_waiting(struct line *line)
{
    struct buf *order;

    while (line->stream.call && (order = first_waiting(line))) {
        if (rpc_send_bytes(line->stream.call, buf_peek(order))) return;
        buf_clear(order);
    }
}

bool control_push(struct member_service *service, struct str worker, const struct directive *order)
{
    char bytes[ORDER_BYTES_MAX];
    struct buf room = {.data = bytes, .cap = sizeof bytes, .max = sizeof bytes}, *waits;
    struct line *line;

    if (order_write(order, &room) || !(line = line_with(service, worker))) return false;
    if (line->stream.call && !first_waiting(line) &&
        !rpc_send_bytes(line->stream.call, buf_peek(&room)))
        return true;
    waits = &line->orders[order->kind];
    buf_clear(waits);
    if (buf_append(waits, buf_peek(&room))) free_if_idle(line);
    return false;
}

/* -- control streams -- */

enum err control_subscribe(struct member_service *service, struct str worker, struct rpc_call *call)
{
    struct line *line = line_of(service, worker);

    if (line) call_stream_end(&line->stream, GRPC_OK, CALL_STREAM_REPLACED);
    line = line_with(service, worker);
    if (!line) return map_count(&service->control) < service->control.max ? ERR_NOMEM : ERR_FULL;
    service->control_streams++;
    call_stream_begin(&line->stream, service, call, line_over);
    send_waiting(line);
    return ERR_OK;
}

void control_release(struct member_service *service, struct str worker)
{
    struct line *line = line_of(service, worker);

    if (line) line_end(line, GRPC_OK, "");
}

void control_end(struct member_service *service, const char *why)
{
    size_t cursor = 0;
    struct map_entry *entry;

    while ((entry = map_next(&service->control, &cursor)))
        line_end(entry->value, GRPC_UNAVAILABLE, why);
}
