/* SPDX-License-Identifier: Apache-2.0 */
/* Sends directives to workers. Invariant: at most one directive of each kind waits for a worker,
 * the newest. Loop thread, leader only. */
#include "member/control.h"

#include <stdlib.h>

#include "member/service_internal.h"

enum { TEXT_MAX = 256 };

struct line { /* of one worker that has a stream or an order waiting; made by map_make */
    struct call_stream stream; /* its call is NULL: there is none */
    struct control *control;
    struct buf orders[ORDER_KINDS]; /* that wait; empty: none of this kind */
    size_t id_len;
};
struct control {
    struct member_service *service;
    struct map lines;
    size_t streams;
};

/* -- orders as bytes: a ControlPush -- */

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

/* -- lines -- */

static void line_free(struct line *line)
{
    map_remove(&line->control->lines, str_of(line + 1, line->id_len));
    for (size_t i = 0; i < ORDER_KINDS; i++) buf_deinit(&line->orders[i]);
    free(line);
}

/* NULL: nothing does. */
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

    line->control->streams--;
    free_if_idle(line);
}

/* Its stream ends, what waits is forgotten. */
static void line_end(struct line *line, enum grpc_status status, const char *why)
{
    for (size_t i = 0; i < ORDER_KINDS; i++) buf_clear(&line->orders[i]);
    if (line->stream.call)
        call_stream_end(&line->stream, status, why);
    else
        line_free(line);
}

static struct line *line_of(const struct control *control, struct str worker)
{
    return map_get(&control->lines, worker);
}

/* NULL: no memory, or too many. */
static struct line *line_with(struct control *control, struct str worker)
{
    struct line *line = map_make(&control->lines, worker, sizeof *line);

    if (!line || line->control) return line;
    line->control = control;
    line->id_len = worker.len;
    for (size_t i = 0; i < ORDER_KINDS; i++) buf_init(&line->orders[i], ORDER_BYTES_MAX);
    return line;
}

/* -- what waits -- */

bool control_take(struct control *control, struct str worker, struct buf *into)
{
    struct line *line = line_of(control, worker);
    struct buf *order = line ? first_waiting(line) : NULL;

    if (!order || buf_append(into, buf_peek(order))) return false;
    buf_clear(order);
    free_if_idle(line);
    return true;
}

/* What waited goes before what comes. */
static void send_waiting(struct line *line)
{
    struct buf *order;

    while (line->stream.call && (order = first_waiting(line))) {
        if (rpc_send_bytes(line->stream.call, buf_peek(order))) return;
        buf_clear(order);
    }
}

bool control_push(struct control *control, struct str worker, const struct directive *order)
{
    char bytes[ORDER_BYTES_MAX];
    struct buf room = {.data = bytes, .cap = sizeof bytes, .max = sizeof bytes}, *waits;
    struct line *line;

    if (order_write(order, &room) || !(line = line_with(control, worker))) return false;
    if (line->stream.call && !first_waiting(line) &&
        !rpc_send_bytes(line->stream.call, buf_peek(&room)))
        return true;
    waits = &line->orders[order->kind];
    buf_clear(waits);
    if (buf_append(waits, buf_peek(&room))) free_if_idle(line);
    return false;
}

/* -- streams -- */

enum err control_subscribe(struct control *control, struct str worker, struct rpc_call *call)
{
    struct line *line = line_of(control, worker);

    if (line) call_stream_end(&line->stream, GRPC_OK, CALL_STREAM_REPLACED);
    line = line_with(control, worker);
    if (!line) return map_count(&control->lines) < control->lines.max ? ERR_NOMEM : ERR_FULL;
    control->streams++;
    call_stream_begin(&line->stream, control->service, call, line_over);
    send_waiting(line);
    return ERR_OK;
}

void control_release(struct control *control, struct str worker)
{
    struct line *line = line_of(control, worker);

    if (line) line_end(line, GRPC_OK, "");
}

void control_end(struct control *control, const char *why)
{
    size_t cursor = 0;
    struct map_entry *entry;

    while ((entry = map_next(&control->lines, &cursor)))
        line_end(entry->value, GRPC_UNAVAILABLE, why);
}

size_t control_streams(const struct control *control)
{
    return control->streams;
}

/* -- life -- */

enum err control_open(struct member_service *service, uint64_t seed, size_t workers_max,
                      struct control **ret_control)
{
    struct control *control = calloc(1, sizeof *control);

    if (!control) return ERR_NOMEM;
    control->service = service;
    map_init(&control->lines, workers_max, seed);
    *ret_control = control;
    return ERR_OK;
}

void control_close(struct control *control)
{
    if (!control) return;
    assert(control->streams == 0);
    control_end(control, "");
    map_deinit(&control->lines);
    free(control);
}
