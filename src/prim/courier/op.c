/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/courier/op.h"

#include <stdio.h>

#include "prim/answer.h"

enum {
    SLICE_LEAST_MS = 1000,
    SLICE_TROUBLE_MS = 250, /* a caller in more hurry than this proves nothing about the server */
    OPEN_PAUSE_MS = 100,
};

static void begin(struct courier_op *op);

void courier_op_init(struct courier_op *op, const char *path, int64_t deadline_ns,
                     size_t request_max, size_t response_max)
{
    *op = (struct courier_op){.path = path, .deadline_ns = deadline_ns};
    buf_init(&op->request, request_max);
    buf_init(&op->response, response_max);
    list_init(&op->link);
}

void courier_op_deinit(struct courier_op *op)
{
    buf_deinit(&op->request);
    buf_deinit(&op->response);
}

int courier_op_silence(const struct courier_op *op)
{
    switch (op->err) {
    case ERR_TIMEOUT: return COORD_R_TIMEOUT;
    case ERR_FULL: return COORD_R_OVERLOADED;
    case ERR_NOMEM: return COORD_R_MEMORY;
    case ERR_CANCELLED:
    case ERR_CLOSED: return COORD_R_CLOSED;
    case ERR_TOO_LARGE: return COORD_R_STORAGE;
    case ERR_NOT_LEADER: return COORD_R_NO_LEADER;
    default: return op->status == GRPC_DEADLINE_EXCEEDED ? COORD_R_TIMEOUT : COORD_R_CONNECTION;
    }
}

static int64_t left_ms(const struct courier_op *op)
{
    return prim_left_ms(&op->courier->clock, op->deadline_ns);
}

void courier_op_fail(struct courier_op *op, enum err err, const char *text)
{
    op->err = op->doubt ? ERR_UNKNOWN : err;
    op->status = err_grpc_status(err);
    op->answered = false;
    (void)snprintf(op->text, sizeof op->text, "%s", text);
    op->done(op);
}

static void take(struct courier_op *op, const struct rpc_outcome *outcome, struct str message)
{
    op->err = outcome->err;
    if (!op->err && outcome->doubted) op->doubt = true;
    /* An earlier slice may have been heard, whatever this one says of itself. */
    if (op->err && op->doubt) op->err = ERR_UNKNOWN;
    op->status = outcome->status;
    op->answered = outcome->answered;
    prim_copy_printable(op->text, sizeof op->text, outcome->text);
    if (!op->err && buf_append(&op->response, message)) {
        op->err = ERR_UNKNOWN; /* it was done, but we cannot say what */
        op->answered = false;
        (void)snprintf(op->text, sizeof op->text, "no memory for the answer");
    }
}

static void answered(void *owner, const struct rpc_client_call *call,
                     const struct rpc_outcome *outcome, struct str message)
{
    struct courier_op *op = owner;
    struct courier *r = op->courier;
    bool silent = !outcome->answered && outcome->status == GRPC_DEADLINE_EXCEEDED &&
                  outcome->attempts > 0 && !op->waits && op->slice_ms >= SLICE_TROUBLE_MS;
    bool again = silent || op->again;

    (void)call;
    op->call = NULL;
    op->again = false;
    list_remove(&op->link);
    if (r->ways->refused && !r->closing && r->ways->refused(op, outcome)) return;
    if (silent || courier_should_move(r, outcome)) courier_trouble(r, op->generation);
    if (outcome->err == ERR_UNKNOWN) op->doubt = true;
    if (outcome->err && again && op->idempotent && !op->stopped && left_ms(op) > 0 && !r->closing) {
        begin(op);
        return;
    }
    take(op, outcome, message);
    op->done(op);
}

static uint64_t slice_ms(const struct courier_op *op, int64_t left)
{
    bool several = op->courier->address_count > 1;
    int64_t least = several ? SLICE_LEAST_MS : 2 * SLICE_LEAST_MS;
    int64_t slice = several ? left / 3 : left / 2;

    if (op->waits) return (uint64_t)left;
    if (slice < least) slice = least;
    return (uint64_t)(slice < left ? slice : left);
}

static void begin(struct courier_op *op)
{
    struct courier *r = op->courier;
    int64_t left = left_ms(op);
    struct rpc_call_options options = {.path = op->path,
                                       .request_id = str_from(op->request_id),
                                       .dedups_by_request_id = op->request_id[0] != '\0',
                                       .idempotent = op->idempotent && !op->request_id[0],
                                       .wait_for_ready = !op->hurried,
                                       .response_max = op->response.max,
                                       .attempts_max = r->ways->attempts_max};
    enum err err;

    if (left <= 0) {
        courier_op_fail(op, ERR_TIMEOUT, "no time left");
        return;
    }
    if (r->ways->prepare && !r->ways->prepare(op, &options)) return;
    op->generation = r->generation;
    op->slice_ms = options.timeout_ms = slice_ms(op, left);
    r->requests++;
    err = rpc_unary(r->channel, &options, buf_peek(&op->request), answered, op, &op->call);
    if (err) {
        op->call = NULL;
        courier_op_fail(op, err, err_text(err));
        return;
    }
    if (op->waits) list_append(&r->waiting, &op->link);
}

void courier_op_begin(struct courier *r, struct courier_op *op)
{
    op->courier = r;
    begin(op);
}

static void on_start(struct post *post)
{
    struct courier_op *op = CONTAINER_OF(post, struct courier_op, post);

    op->stopped = op->waits && op->courier->stopping;
    if (op->courier->closing || op->stopped)
        courier_op_fail(op, ERR_CANCELLED, "the store is closed");
    else
        begin(op);
}

void courier_op_start(struct courier *r, struct courier_op *op)
{
    op->courier = r;
    post_init(&op->post, on_start);
    loop_post(r->io->loop, &op->post);
}

static void wake(struct courier_op *op)
{
    latch_open(&op->wait);
}

void courier_op_run(struct courier *r, struct courier_op *op)
{
    latch_init(&op->wait);
    op->done = wake;
    courier_op_start(r, op);
    latch_wait(&op->wait);
}

bool courier_ask_again(const coord_result *result)
{
    if (result->code != COORD_UNAVAILABLE ||
        (result->reason != COORD_R_NO_LEADER && result->reason != COORD_R_TIMEOUT))
        return false;
    prim_thread_pause_ms(OPEN_PAUSE_MS);
    return true;
}

/* -- trouble -- */

bool courier_should_move(const struct courier *r, const struct rpc_outcome *outcome)
{
    return r->address_count > 1 && outcome->answered && outcome->status == GRPC_UNAVAILABLE;
}

void courier_trouble(struct courier *r, uint32_t generation)
{
    if (r->closing || generation != r->generation) return;
    r->generation++;
    r->moves++;
    rpc_channel_move_on(r->channel);
    courier_streams_reset(r);
    LIST_EACH_SAFE(&r->waiting, node, following)
    {
        struct courier_op *op = CONTAINER_OF(node, struct courier_op, link);
        if (!op->call) continue;
        op->again = true;
        rpc_call_cancel(op->call);
    }
}

static void move_on(void *owner)
{
    struct courier *r = owner;

    courier_trouble(r, r->generation);
}

void courier_move_on(struct courier *r)
{
    courier_do(r, move_on, r);
}

static void stop_waiting(void *owner)
{
    struct courier *r = owner;

    LIST_EACH_SAFE(&r->waiting, node, following)
    {
        struct courier_op *op = CONTAINER_OF(node, struct courier_op, link);
        op->stopped = true;
        if (op->call) rpc_call_cancel(op->call);
    }
}

void courier_stop_waiting(struct courier *r)
{
    r->stopping = true;
    courier_do(r, stop_waiting, r);
}
