/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a call, and the functions for handlers.
 *
 * A call ends twice: for its handler with on_done, and for its stream with h2's on_closed. The
 * later of the two ends frees the call. After a handler has answered, on_done is called at the end
 * of the turn, never from inside rpc_finish. */
#include <stdlib.h>
#include <string.h>

#include "rpc/server_internal.h"

static void call_on_deadline(struct timer *timer);

static struct rpc_call *call_take_kept(struct rpc_server *s)
{
    struct list *node = list_pop(&s->kept);
    struct rpc_call *call;

    if (!node) return calloc(1, sizeof *call);
    call = CONTAINER_OF(node, struct rpc_call, link);
    s->kept_count--;
    *call = (struct rpc_call){.head = call->head, .arena = call->arena, .message = call->message};
    return call;
}

struct rpc_call *call_new(struct connection *c, int32_t stream)
{
    struct rpc_server *s = c->server;
    struct rpc_call *call = call_take_kept(s);

    if (!call) return NULL;
    list_init(&call->link);
    list_init(&call->due);
    list_init(&call->body);
    list_init(&call->waiting);
    call->server = s;
    call->connection = c;
    call->method = &s->unknown;
    call->stream = stream;
    call->head.max = HEAD_ARENA_MAX;
    call->deadline = MONO_NEVER;
    call->began = c->read_at;
    buf_init(&call->inbox, SIZE_MAX / 2); /* both are bounded by limits_charge */
    buf_init(&call->outbox, SIZE_MAX / 2);
    if (timer_init(&call->timer, s->io->loop, call_on_deadline)) {
        call_free(call);
        return NULL;
    }
    connection_put(c, call);
    meter_call_began(s);
    return call;
}

static void call_keep_arena(struct arena *a)
{
    if (a->used > ARENA_KEPT_MAX)
        arena_deinit(a);
    else
        arena_reset(a);
}

void call_free(struct rpc_call *call)
{
    struct rpc_server *s = call->server;

    limits_refund(call, call->charged);
    limits_refund_metadata(call);
    timer_deinit(&call->timer);
    list_remove(&call->due);
    list_remove(&call->body);
    list_remove(&call->waiting);
    buf_deinit(&call->inbox);
    buf_deinit(&call->outbox);
    call_keep_arena(&call->head);
    call_keep_arena(&call->arena);
    if (call->message.cap > ARENA_KEPT_MAX) buf_deinit(&call->message);
    list_prepend(&s->kept, &call->link);
    if (++s->kept_count > CALLS_KEPT_MAX || s->closing) call_forget_kept(s);
}

void call_forget_kept(struct rpc_server *s)
{
    struct rpc_call *call = CONTAINER_OF(list_pop(&s->kept), struct rpc_call, link);

    s->kept_count--;
    arena_deinit(&call->head);
    arena_deinit(&call->arena);
    buf_deinit(&call->message);
    free(call);
}

/* -- the states: see struct rpc_call -- */

static const uint8_t request_moves[] = {
    [REQUEST_OPEN] = BIT(REQUEST_ENDED),
    [REQUEST_ENDED] = BIT(REQUEST_DELIVERED),
    [REQUEST_DELIVERED] = 0,
};
static const uint8_t response_moves[] = {
    [RESPONSE_NONE] = BIT(RESPONSE_STARTED) | BIT(RESPONSE_DECIDED),
    [RESPONSE_STARTED] = BIT(RESPONSE_DECIDED),
    [RESPONSE_DECIDED] = BIT(RESPONSE_SENT) | BIT(RESPONSE_CANCELLED),
    [RESPONSE_SENT] = 0,
    [RESPONSE_CANCELLED] = 0,
};
static const uint8_t handler_moves[] = {
    [HANDLER_UNAWARE] = BIT(HANDLER_AWARE) | BIT(HANDLER_DONE),
    [HANDLER_AWARE] = BIT(HANDLER_BLOCKED) | BIT(HANDLER_DONE),
    [HANDLER_BLOCKED] = BIT(HANDLER_AWARE) | BIT(HANDLER_DONE),
    [HANDLER_DONE] = 0,
};

static void call_check_states(const struct rpc_call *call)
{
    assert(call->handler != HANDLER_DONE || call_is_decided(call));
    assert(call->outbox.len == 0 || call->response == RESPONSE_STARTED ||
           call->response == RESPONSE_DECIDED);
}

void call_request_to(struct rpc_call *call, enum request_state to)
{
    assert(request_moves[call->request] & BIT(to));
    call->request = to;
    call_check_states(call);
}

void call_response_to(struct rpc_call *call, enum response_state to)
{
    assert(response_moves[call->response] & BIT(to));
    call->response = to;
    call_check_states(call);
}

void call_handler_to(struct rpc_call *call, enum handler_state to)
{
    assert(handler_moves[call->handler] & BIT(to));
    call->handler = to;
    call_check_states(call);
}

/* -- the two ends -- */

void call_decide(struct rpc_call *call, enum grpc_status status)
{
    call_response_to(call, RESPONSE_DECIDED);
    call->status = status;
    body_over(call);
    meter_call_ended(call);
}

static void call_report_done(struct rpc_call *call)
{
    bool aware = call->handler != HANDLER_UNAWARE;

    if (call->handler == HANDLER_DONE) return;
    call_handler_to(call, HANDLER_DONE);
    call_keep_arena(&call->arena); /* after on_done the handler must not use the arena */
    if (aware && call->events->on_done) call->events->on_done(call->service, call);
}

void call_due(struct rpc_call *call)
{
    if (!list_empty(&call->due)) return;
    list_append(&call->server->due, &call->due);
    server_wake(call->server);
}

void call_look(struct rpc_call *call)
{
    if (call_is_decided(call))
        call_report_done(call);
    else if (call_takes_answer(call))
        call_advance(call, STR_EMPTY);
}

void call_gone(struct rpc_call *call)
{
    struct rpc_server *s = call->server;
    bool open = !call_is_decided(call);

    if (open) call_decide(call, GRPC_CANCELLED);
    call_drop_outbox(call);
    if (call->response == RESPONSE_DECIDED)
        call_response_to(call, open ? RESPONSE_CANCELLED : RESPONSE_SENT);
    call_report_done(call);
    s->stats.calls--;
    if (s->meter) gauge_add(s->meter->running, -1);
    call_free(call);
}

void call_abort(struct rpc_call *call, enum grpc_status status, const char *text)
{
    /* No status can follow a message that was sent only in part. */
    bool torn = call->outbox_at > 0;

    if (call->response > RESPONSE_DECIDED || call->connection->state == CONNECTION_ENDED) return;
    call_drop_outbox(call);
    if (call_is_decided(call) || torn) {
        if (!call_is_decided(call)) call_decide(call, status);
        h2_reset(call->connection->h2, call->stream, H2_CANCEL);
        call_response_to(call, RESPONSE_CANCELLED);
    } else {
        call_finish(call, status, str_from(text), STR_EMPTY, RESPONSE_CANCELLED);
    }
    connection_mark_dirty(call->connection);
    call_report_done(call);
}

void call_drain(struct rpc_call *call)
{
    if (call->handler != HANDLER_UNAWARE && !call_is_decided(call) && call->events->on_drain)
        call->events->on_drain(call->service, call);
}

static void call_on_deadline(struct timer *timer)
{
    struct rpc_call *call = CONTAINER_OF(timer, struct rpc_call, timer);

    if (call->plain)
        stranger_answer(call);
    else
        call_abort(call, GRPC_DEADLINE_EXCEEDED, "deadline exceeded");
}

/* -- properties -- */

struct str rpc_call_path(const struct rpc_call *call)
{
    return call->path;
}

const struct tls_identity *rpc_call_identity(const struct rpc_call *call)
{
    return call->caller ? call->caller : call->connection->identity;
}

const char *rpc_call_peer(const struct rpc_call *call)
{
    return call->connection->address;
}

mono_time rpc_call_deadline(const struct rpc_call *call)
{
    return call->deadline;
}

bool rpc_call_metadata(const struct rpc_call *call, struct str name, struct str *ret_value)
{
    for (size_t i = 0; i < call->metadata_count; i++) {
        if (!str_equal(call->metadata[i].name, name)) continue;
        *ret_value = call->metadata[i].value;
        return true;
    }
    return false;
}

bool rpc_call_metadata_next(const struct rpc_call *call, size_t *cursor, struct str *ret_name,
                            struct str *ret_value)
{
    if (*cursor >= call->metadata_count) return false;
    *ret_name = call->metadata[*cursor].name;
    *ret_value = call->metadata[*cursor].value;
    (*cursor)++;
    return true;
}

struct str rpc_call_trace(const struct rpc_call *call)
{
    return str_of(call->trace, RPC_TRACE_LEN);
}

struct arena *rpc_call_arena(struct rpc_call *call)
{
    return &call->arena;
}

void rpc_call_set_data(struct rpc_call *call, void *data)
{
    call->data = data;
}

void *rpc_call_data(const struct rpc_call *call)
{
    return call->data;
}

void rpc_call_redirect(struct rpc_call *call, const struct rpc_handler *handler, void *service)
{
    call->events = handler;
    call->service = service;
}

void rpc_call_set_waiting(struct rpc_call *call)
{
    call->waits = true;
}

void call_mark_at(struct rpc_call *call, const char *stage, mono_ns at)
{
    if (call->stage_count < RPC_STAGES_MAX)
        call->stages[call->stage_count++] = (struct stage){stage, at.ns - call->began.ns};
}

void rpc_call_mark(struct rpc_call *call, const char *stage)
{
    call_mark_at(call, stage, clock_mono_ns(call->server->io->clock));
}

/* -- pausing and resuming -- */

void rpc_pause(struct rpc_call *call)
{
    call->paused = true;
}

void rpc_resume(struct rpc_call *call)
{
    if (!call->paused) return;
    call->paused = false;
    if (!call_is_decided(call)) call_due(call);
}
