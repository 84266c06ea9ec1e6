/* SPDX-License-Identifier: Apache-2.0 */
/* Unary calls (op.h). The loop's thread runs them; other threads submit them and wait.
 *
 * Invariants: done() is called exactly once per call. A call whose earlier slice may have
 * reached a server ends as ERR_UNKNOWN, never as "not done". */
#include "prim/grpc_thread/op.h"

#include <stdio.h>

#include "prim/answer.h"

enum {
    SLICE_LEAST_MS = 1000,
    SLICE_TROUBLE_MS = 250, /* a shorter attempt proves nothing about a silent server */
    OPEN_PAUSE_MS = 100,
};

static void op_begin(struct grpc_thread_op *op);

void grpc_op_init(struct grpc_thread_op *op, const char *path, int64_t deadline_ns,
                  size_t request_max, size_t response_max)
{
    *op = (struct grpc_thread_op){.path = path, .deadline_ns = deadline_ns};
    buf_init(&op->request, request_max);
    buf_init(&op->response, response_max);
    list_init(&op->link);
}

void grpc_op_deinit(struct grpc_thread_op *op)
{
    buf_deinit(&op->request);
    buf_deinit(&op->response);
}

int grpc_op_silence(const struct grpc_thread_op *op)
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

static int64_t op_left_ms(const struct grpc_thread_op *op)
{
    return prim_left_ms(&op->grpc_thread->clock, op->deadline_ns);
}

void grpc_op_fail(struct grpc_thread_op *op, enum err err, const char *text)
{
    op->err = op->doubt ? ERR_UNKNOWN : err;
    op->status = err_grpc_status(err);
    op->answered = false;
    (void)snprintf(op->text, sizeof op->text, "%s", text);
    op->done(op);
}

static void op_take(struct grpc_thread_op *op, const struct rpc_outcome *outcome,
                    struct str message)
{
    op->err = outcome->err;
    if (!op->err && outcome->doubted) op->doubt = true;
    /* An earlier slice may have reached a server. */
    if (op->err && op->doubt) op->err = ERR_UNKNOWN;
    op->status = outcome->status;
    op->answered = outcome->answered;
    prim_copy_printable(op->text, sizeof op->text, outcome->text);
    if (!op->err && buf_append(&op->response, message)) {
        op->err = ERR_UNKNOWN; /* applied, but the result is unknown */
        op->answered = false;
        (void)snprintf(op->text, sizeof op->text, "no memory for the answer");
    }
}

static void answered(void *owner, const struct rpc_client_call *, const struct rpc_outcome *outcome,
                     struct str message)
{
    struct grpc_thread_op *op = owner;
    struct grpc_thread *r = op->grpc_thread;
    bool silent = !outcome->answered && outcome->status == GRPC_DEADLINE_EXCEEDED &&
                  outcome->attempts > 0 && !op->waits && op->slice_ms >= SLICE_TROUBLE_MS;
    bool again = silent || op->again;

    op->call = NULL;
    op->again = false;
    list_remove(&op->link);
    if (r->ways->refused && !r->closing && r->ways->refused(op, outcome)) return;
    if (silent || grpc_should_move(r, outcome)) grpc_server_trouble(r, op->generation);
    if (outcome->err == ERR_UNKNOWN) op->doubt = true;
    if (outcome->err && again && op->idempotent && !op->stopped && op_left_ms(op) > 0 &&
        !r->closing) {
        op_begin(op);
        return;
    }
    op_take(op, outcome, message);
    op->done(op);
}

static uint64_t slice_ms(const struct grpc_thread_op *op, int64_t left)
{
    bool several = op->grpc_thread->address_count > 1;
    int64_t least = several ? SLICE_LEAST_MS : 2 * SLICE_LEAST_MS;
    int64_t slice = several ? left / 3 : left / 2;

    if (op->waits) return (uint64_t)left;
    if (slice < least) slice = least;
    return (uint64_t)(slice < left ? slice : left);
}

static void op_begin(struct grpc_thread_op *op)
{
    struct grpc_thread *r = op->grpc_thread;
    int64_t left = op_left_ms(op);
    struct rpc_call_options options = {.path = op->path,
                                       .request_id = str_from(op->request_id),
                                       .dedups_by_request_id = op->request_id[0] != '\0',
                                       .idempotent = op->idempotent && !op->request_id[0],
                                       .wait_for_ready = !op->hurried,
                                       .response_max = op->response.max,
                                       .attempts_max = r->ways->attempts_max};
    enum err err;

    if (left <= 0) {
        grpc_op_fail(op, ERR_TIMEOUT, "no time left");
        return;
    }
    if (r->ways->prepare && !r->ways->prepare(op, &options)) return;
    op->generation = r->generation;
    op->slice_ms = options.timeout_ms = slice_ms(op, left);
    err = rpc_unary(r->channel, &options, buf_peek(&op->request), answered, op, &op->call);
    if (err) {
        op->call = NULL;
        grpc_op_fail(op, err, err_text(err));
        return;
    }
    if (op->waits) list_append(&r->waiting, &op->link);
}

void grpc_op_begin(struct grpc_thread *r, struct grpc_thread_op *op)
{
    op->grpc_thread = r;
    op_begin(op);
}

static void on_start(struct post *post)
{
    struct grpc_thread_op *op = CONTAINER_OF(post, struct grpc_thread_op, post);

    op->stopped = op->waits && op->grpc_thread->stopping;
    if (op->grpc_thread->closing || op->stopped)
        grpc_op_fail(op, ERR_CANCELLED, "the store is closed");
    else
        op_begin(op);
}

void grpc_op_start(struct grpc_thread *r, struct grpc_thread_op *op)
{
    op->grpc_thread = r;
    post_init(&op->post, on_start);
    loop_post(r->io->loop, &op->post);
}

static void op_wake(struct grpc_thread_op *op)
{
    latch_open(&op->wait);
}

void grpc_op_will_wait(struct grpc_thread_op *op)
{
    latch_init(&op->wait);
    op->done = op_wake;
}

void grpc_op_run(struct grpc_thread *r, struct grpc_thread_op *op)
{
    grpc_op_will_wait(op);
    grpc_op_start(r, op);
    latch_wait(&op->wait);
}

bool grpc_worth_another_probe(const coord_result *result)
{
    if (result->code != COORD_UNAVAILABLE ||
        (result->reason != COORD_R_NO_LEADER && result->reason != COORD_R_TIMEOUT))
        return false;
    prim_thread_pause_ms(OPEN_PAUSE_MS);
    return true;
}

/* -- server failures -- */

bool grpc_should_move(const struct grpc_thread *r, const struct rpc_outcome *outcome)
{
    return r->address_count > 1 && outcome->answered && outcome->status == GRPC_UNAVAILABLE;
}

void grpc_server_trouble(struct grpc_thread *r, uint32_t generation)
{
    if (r->closing || generation != r->generation) return;
    r->generation++;
    rpc_channel_next_address(r->channel);
    grpc_streams_reset(r);
    LIST_EACH_SAFE(&r->waiting, node, following)
    {
        struct grpc_thread_op *op = CONTAINER_OF(node, struct grpc_thread_op, link);
        if (!op->call) continue;
        op->again = true;
        rpc_call_cancel(op->call);
    }
}

static void move_on(void *owner)
{
    struct grpc_thread *r = owner;

    grpc_server_trouble(r, r->generation);
}

void grpc_move_on(struct grpc_thread *r)
{
    grpc_loop_call(r, move_on, r);
}

static void stop_waiting(void *owner)
{
    struct grpc_thread *r = owner;

    LIST_EACH_SAFE(&r->waiting, node, following)
    {
        struct grpc_thread_op *op = CONTAINER_OF(node, struct grpc_thread_op, link);
        op->stopped = true;
        if (op->call) rpc_call_cancel(op->call);
    }
}

void grpc_stop_waiting(struct grpc_thread *r)
{
    r->stopping = true;
    grpc_loop_call(r, stop_waiting, r);
}
