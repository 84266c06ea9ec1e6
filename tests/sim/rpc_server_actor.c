/* SPDX-License-Identifier: Apache-2.0 */
/* A server of the story: our own, with two methods behind the gate of rpc/forward.h.
 *
 * A request is "<op> <kind> [messages]". The leader applies it when it comes, then answers at once
 * or a little later, so that crashes fall between the two. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc_story.h"

enum { ANSWER_DELAY_MS_MAX = 60, REQUEST_CAP = 64 };

struct server_actor {
    struct rpc_actor *actor;
    struct io *io;
    struct rpc_server *server;
    struct rpc_forwarder *forwarder;
    struct rpc_forward_gate unary, stream;
};
struct pending { /* a delayed answer; its call may end meanwhile */
    struct server_actor *server;
    struct rpc_call *call;
    struct timer timer;
    uint32_t op;
};
struct exchange { /* a stream */
    uint32_t op, messages;
    bool applied;
};

static bool leads(const struct server_actor *s)
{
    return s->actor->story->leader == s->actor->number;
}

/* In worlds with forwarding: whether the call is handled here. */
static bool stays(void *service, struct rpc_call *call)
{
    struct server_actor *s = service;

    (void)call;
    if (leads(s)) return true;
    (void)rpc_forwarder_set_leader(s->forwarder, rpc_server_addresses[s->actor->story->leader]);
    return false;
}

/* In worlds without forwarding followers name the leader, or answer that they know none. */
static void name_the_leader(struct server_actor *s, struct rpc_call *call)
{
    bool known = entropy_u64(s->io->entropy) % 4 > 0;

    rpc_fail_not_leader(call, known ? rpc_server_addresses[s->actor->story->leader] : "");
}

static bool parse(struct str request, uint32_t *ret_op, enum rpc_op_kind *ret_kind)
{
    char text[REQUEST_CAP];
    unsigned kind;

    snprintf(text, sizeof text, "%.*s", STR_ARG(request));
    if (sscanf(text, "%" SCNu32 " %u", ret_op, &kind) != 2 || kind >= RPC_OP_KINDS) return false;
    *ret_kind = (enum rpc_op_kind)kind;
    return true;
}

/* An operation with an id takes effect once; the table of ids is part of the leader's state. */
static void apply(struct server_actor *s, uint32_t op, enum rpc_op_kind kind)
{
    struct rpc_story *story = s->actor->story;
    bool known = kind == RPC_WITH_ID && story->witness.ops[op].applied > 0;

    if (known && story->bug != RPC_FORGET_REQUEST_IDS) return;
    witness_applied(&story->witness, op);
}

/* -- unary -- */

static void answer(struct server_actor *s, struct rpc_call *call, uint32_t op)
{
    char text[32];
    bool mixed = s->actor->story->bug == RPC_ANSWER_ANOTHER && op % 50 == 7;

    snprintf(text, sizeof text, "%" PRIu32, mixed ? op + 1 : op);
    rpc_reply_bytes(call, str_from(text));
}

static void pending_free(struct pending *p)
{
    timer_deinit(&p->timer);
    free(p);
}

static void on_answer_time(struct timer *timer)
{
    struct pending *p = CONTAINER_OF(timer, struct pending, timer);

    rpc_call_set_data(p->call, NULL);
    answer(p->server, p->call, p->op);
    pending_free(p);
}

static void answer_later(struct server_actor *s, struct rpc_call *call, uint32_t op)
{
    uint64_t delay = 1 + entropy_u64(s->io->entropy) % ANSWER_DELAY_MS_MAX;
    struct pending *p = calloc(1, sizeof *p);

    if (!p || timer_init(&p->timer, s->io->loop, on_answer_time)) {
        free(p);
        rpc_fail(call, ERR_NOMEM, NULL); /* it was applied: the witness would find this answer */
        return;
    }
    p->server = s;
    p->call = call;
    p->op = op;
    rpc_call_set_data(call, p);
    timer_start_in(&p->timer, delay);
}

static void refuse(struct server_actor *s, struct rpc_call *call)
{
    switch (entropy_u64(s->io->entropy) % 3) {
    case 0: rpc_fail(call, ERR_NOT_FOUND, NULL); break;
    case 1: rpc_finish(call, GRPC_ABORTED, STR("no"), STR_EMPTY); break;
    default:
        (void)rpc_add_trailer(call, STR(RPC_APPLIED_TRAILER), STR("no"));
        rpc_finish(call, GRPC_INTERNAL, STR("not yet"), STR_EMPTY);
        break;
    }
}

static void unary_message(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                          struct str bytes)
{
    struct server_actor *s = service;
    enum rpc_op_kind kind;
    uint32_t op;

    (void)message;
    if (!leads(s)) {
        name_the_leader(s, call);
        return;
    }
    if (!parse(bytes, &op, &kind)) {
        rpc_fail(call, ERR_PARSE, NULL);
        return;
    }
    if (kind == RPC_REFUSED_OP) {
        refuse(s, call);
        return;
    }
    if (s->actor->story->bug != RPC_ANSWER_WITHOUT_APPLYING || op % 20 != 3) apply(s, op, kind);
    if (entropy_u64(s->io->entropy) % 2)
        answer_later(s, call, op);
    else
        answer(s, call, op);
}

static void unary_done(void *service, struct rpc_call *call)
{
    struct pending *p = rpc_call_data(call);

    (void)service;
    if (!p) return;
    pending_free(p); /* nobody waits any more */
}

/* -- streams: each message is answered with "<op> <number>" -- */

static void stream_start_in(void *service, struct rpc_call *call)
{
    (void)service;
    rpc_call_set_data(call, calloc(1, sizeof(struct exchange)));
}

static void stream_message(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                           struct str bytes)
{
    struct server_actor *s = service;
    struct exchange *e = rpc_call_data(call);
    enum rpc_op_kind kind;
    char text[32];

    (void)message;
    if (!leads(s) && e && !e->applied) {
        name_the_leader(s, call);
        return;
    }
    if (!e || !parse(bytes, &e->op, &kind)) {
        rpc_fail(call, ERR_PARSE, NULL);
        return;
    }
    if (!e->applied) apply(s, e->op, kind);
    e->applied = true;
    e->messages++;
    if (s->actor->story->bug == RPC_SKIP_A_MESSAGE && e->messages == 3) return;
    snprintf(text, sizeof text, "%" PRIu32 " %" PRIu32, e->op, e->messages);
    (void)rpc_send_bytes(call, str_from(text)); /* few and small: never full */
}

static void stream_ended(void *service, struct rpc_call *call)
{
    (void)service;
    rpc_finish(call, GRPC_OK, STR_EMPTY, STR_EMPTY);
}

static void stream_done(void *service, struct rpc_call *call)
{
    (void)service;
    free(rpc_call_data(call));
}

static const struct rpc_handler unary_handler = {.on_message = unary_message,
                                                 .on_done = unary_done};
static const struct rpc_handler stream_handler = {.on_start = stream_start_in,
                                                  .on_message = stream_message,
                                                  .on_half_closed = stream_ended,
                                                  .on_done = stream_done};

/* -- life -- */

static void on_forwarder_gone(void *owner)
{
    free(owner);
}

static void on_server_gone(void *owner)
{
    struct server_actor *s = owner;

    rpc_forwarder_close(s->forwarder, on_forwarder_gone, s);
}

static enum err add(struct server_actor *s, const char *path, enum rpc_kind kind,
                    struct rpc_forward_gate *gate, const struct rpc_handler *handler)
{
    *gate = (struct rpc_forward_gate){
        .forwarder = s->forwarder, .handler = handler, .service = s, .stays = stays};
    return rpc_server_add(
        s->server,
        &(struct rpc_method){.path = path,
                             .kind = kind,
                             .access = {ACCESS_ANYONE},
                             .handler = s->actor->story->forwards ? &rpc_forward_handler : handler,
                             .service = s->actor->story->forwards ? (void *)gate : s},
        NULL);
}

static enum err server_start(struct io *io, void *context, void **ret_state)
{
    struct rpc_actor *actor = context;
    struct server_actor *s = calloc(1, sizeof *s);
    enum err err;

    if (!s) return ERR_NOMEM;
    s->actor = actor;
    s->io = io;
    err = rpc_forwarder_open(
        &(struct rpc_forwarder_options){.io = io, .ping_after_ms = 1000, .ping_timeout_ms = 1000},
        &s->forwarder);
    if (err) {
        free(s);
        return err;
    }
    err = rpc_server_open(
        &(struct rpc_server_options){
            .io = io,
            .limits = {.ping_min_interval_ms = 1, .ping_after_ms = 3000, .ping_timeout_ms = 2000}},
        &s->server, NULL);
    if (!err) err = add(s, "/t.T/Unary", RPC_UNARY, &s->unary, &unary_handler);
    if (!err) err = add(s, "/t.T/Stream", RPC_BIDI, &s->stream, &stream_handler);
    if (!err) err = rpc_server_listen(s->server, "0.0.0.0:7000", NULL, NULL);
    if (err) {
        if (s->server)
            rpc_server_close(s->server, on_server_gone, s);
        else
            on_server_gone(s);
        return err;
    }
    *ret_state = s;
    return ERR_OK;
}

static void server_destroy(void *state)
{
    struct server_actor *s = state;

    rpc_server_close(s->server, on_server_gone, s);
}

const struct sim_process_ops rpc_server_ops = {server_start, NULL, server_destroy};
