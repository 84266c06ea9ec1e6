/* SPDX-License-Identifier: Apache-2.0 */
/* Sends directives to workers. Invariant: at most one directive of each kind waits for a worker,
 * the newest. Loop thread, leader only. */
#include "member/control.h"

#include <stdlib.h>

#include "base/map.h"
#include "wire/pack.h"

enum { TEXT_MAX = 256 };

struct line { /* of one worker that has a stream or something waiting */
    struct control *control;
    struct rpc_call *call;          /* NULL: no stream */
    struct buf orders[ORDER_KINDS]; /* that wait; empty: none of this kind */
    size_t id_len;
    char id[];
};
struct control {
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

static struct str id_of(const struct line *line)
{
    return str_of(line->id, line->id_len);
}

static struct line *line_of(const struct control *control, struct str worker)
{
    return map_get(&control->lines, worker);
}

static enum err line_with(struct control *control, struct str worker, struct line **ret_line)
{
    struct line *line = line_of(control, worker);
    enum err err;

    if (!line) {
        line = calloc(1, sizeof *line + worker.len);
        if (!line) return ERR_NOMEM;
        line->control = control;
        line->id_len = worker.len;
        for (size_t i = 0; i < ORDER_KINDS; i++) buf_init(&line->orders[i], ORDER_BYTES_MAX);
        memcpy(line->id, worker.at, worker.len);
        err = map_put(&control->lines, id_of(line), line);
        if (err) {
            free(line);
            return err;
        }
    }
    *ret_line = line;
    return ERR_OK;
}

static void line_free(struct line *line)
{
    map_remove(&line->control->lines, id_of(line));
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
    if (!line->call && !first_waiting(line)) line_free(line);
}

static void end_stream(struct line *line, enum grpc_status status, const char *why)
{
    if (!line->call) return;
    rpc_call_set_data(line->call, NULL);
    rpc_finish(line->call, status, str_from(why), STR_EMPTY);
    line->call = NULL;
    line->control->streams--;
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

    while (line->call && (order = first_waiting(line))) {
        if (rpc_send_bytes(line->call, buf_peek(order))) return;
        buf_clear(order);
    }
}

bool control_push(struct control *control, struct str worker, const struct directive *order)
{
    char bytes[ORDER_BYTES_MAX];
    struct buf room = {.data = bytes, .cap = sizeof bytes, .max = sizeof bytes}, *waits;
    struct line *line;

    if (order_write(order, &room) || line_with(control, worker, &line)) return false;
    if (line->call && !first_waiting(line) && !rpc_send_bytes(line->call, buf_peek(&room)))
        return true;
    waits = &line->orders[order->kind];
    buf_clear(waits);
    if (buf_append(waits, buf_peek(&room))) free_if_idle(line);
    return false;
}

/* -- streams -- */

enum err control_subscribe(struct control *control, struct str worker, struct rpc_call *call)
{
    struct line *line;
    enum err err = line_with(control, worker, &line);

    if (err) return err;
    end_stream(line, GRPC_OK, "another stream of this worker took its place");
    line->call = call;
    control->streams++;
    rpc_call_set_data(call, line);
    rpc_call_set_waiting(call);
    send_waiting(line);
    return ERR_OK;
}

void control_gone(struct control *control, struct rpc_call *call)
{
    struct line *line = rpc_call_data(call);

    if (!line) return;
    line->call = NULL;
    control->streams--;
    free_if_idle(line);
}

void control_release(struct control *control, struct str worker)
{
    struct line *line = line_of(control, worker);

    if (!line) return;
    end_stream(line, GRPC_OK, "");
    line_free(line);
}

void control_end(struct control *control, const char *why)
{
    size_t cursor = 0;
    struct map_entry *entry;

    while ((entry = map_next(&control->lines, &cursor))) {
        struct line *line = entry->value;

        end_stream(line, GRPC_UNAVAILABLE, why);
        line_free(line);
    }
}

size_t control_streams(const struct control *control)
{
    return control->streams;
}

/* -- life -- */

enum err control_open(uint64_t seed, size_t workers_max, struct control **ret_control)
{
    struct control *control = calloc(1, sizeof *control);

    if (!control) return ERR_NOMEM;
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
