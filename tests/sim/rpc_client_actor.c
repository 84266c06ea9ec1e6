/* SPDX-License-Identifier: Apache-2.0 */
/* A client of the story: keeps a few operations open on one channel, with deadlines that are
 * sometimes too short, and sometimes cancels one. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "rpc_story.h"

enum {
    UNDER_WAY_MAX = 6,
    THINK_MS_MAX = 40,
    TIMEOUT_MS_MAX = 5000,
    CANCEL_ONE_IN = 40,
    CANCEL_AFTER_MS_MAX = 200,
    TEXT_CAP = 64,
};

struct client_actor {
    struct rpc_actor *actor;
    struct io *io;
    struct rpc_channel *channel;
    struct timer think;
    struct list doings;
    size_t count;
    bool dying; /* the witness receives nothing any more */
};
struct doing {
    struct list link;
    struct client_actor *client;
    struct rpc_client_call *call;
    uint32_t op, messages, seen;
    struct timer cancel;
    mono_time began;
    uint64_t timeout_ms;
    bool out_of_order, cancelled;
};

static uint64_t below(struct client_actor *c, uint64_t bound)
{
    return entropy_u64(c->io->entropy) % bound;
}

/* -- ends -- */

/* ERR_UNKNOWN needs a reason: the deadline passed, the client cancelled, the server that forwarded
 * the call does not know either, or a connection was lost, which does not happen in a calm world.
 */
static bool is_explained(const struct doing *d, const struct rpc_outcome *outcome)
{
    const struct rpc_story *story = d->client->actor->story;
    uint64_t took = mono_elapsed_ms(d->began, loop_now(d->client->io->loop));

    switch (outcome->status) {
    case GRPC_DEADLINE_EXCEEDED: return outcome->answered || took >= d->timeout_ms;
    case GRPC_CANCELLED: return d->cancelled || outcome->answered;
    case GRPC_UNKNOWN: return outcome->answered && story->forwards;
    case GRPC_UNAVAILABLE: return !rpc_story_is_calm(story);
    default: return false;
    }
}

static void report(struct doing *d, const struct rpc_outcome *outcome, bool right_answer)
{
    struct rpc_story *story = d->client->actor->story;
    struct rpc_outcome reported = *outcome;

    if (d->client->dying) return;
    if (story->bug == RPC_UNKNOWN_AS_NO && reported.err == ERR_UNKNOWN)
        reported.err = ERR_UNAVAILABLE;
    if (story->bug == RPC_FORGET_AN_END && d->op % 100 == 11) return;
    if (outcome->err == ERR_UNKNOWN && !is_explained(d, outcome))
        witness_wrong(&story->witness, d->op, "nobody knows, and nobody knows why");
    witness_ended(&story->witness, d->op, &reported, right_answer);
    if (story->bug == RPC_END_TWICE && d->op % 100 == 11)
        witness_ended(&story->witness, d->op, &reported, right_answer);
    story->witness.done[d->client->actor->number] += !outcome->err;
}

static void over(struct doing *d)
{
    list_remove(&d->link);
    d->client->count--;
    timer_deinit(&d->cancel);
    free(d);
}

static void unary_done(void *owner, const struct rpc_client_call *call,
                       const struct rpc_outcome *outcome, struct str message)
{
    struct doing *d = owner;
    char want[TEXT_CAP];

    (void)call;
    snprintf(want, sizeof want, "%" PRIu32, d->op);
    report(d, outcome, outcome->err || str_equal(message, str_from(want)));
    over(d);
}

static void stream_message(void *owner, struct rpc_client_call *call, struct str message)
{
    struct doing *d = owner;
    char want[TEXT_CAP];

    (void)call;
    d->seen++;
    snprintf(want, sizeof want, "%" PRIu32 " %" PRIu32, d->op, d->seen);
    if (!str_equal(message, str_from(want))) d->out_of_order = true;
}

static void stream_end_of(void *owner, struct rpc_client_call *call,
                          const struct rpc_outcome *outcome)
{
    struct doing *d = owner;

    (void)call;
    if (d->out_of_order && !d->client->dying)
        witness_wrong(&d->client->actor->story->witness, d->op, "answers out of order");
    report(d, outcome, outcome->err || d->seen == d->messages);
    over(d);
}

static void on_cancel(struct timer *timer)
{
    struct doing *d = CONTAINER_OF(timer, struct doing, cancel);

    d->cancelled = true;
    rpc_call_cancel(d->call);
}

/* -- beginnings -- */

static enum err begin_stream(struct doing *d, const struct rpc_call_options *options,
                             const char *text)
{
    static const struct rpc_call_events events = {stream_message, NULL, stream_end_of};
    enum err err = rpc_call_start(d->client->channel, options, &events, d, &d->call);

    if (err) return err;
    d->messages = 1 + (uint32_t)below(d->client, RPC_STREAM_MAX);
    for (uint32_t i = 0; i < d->messages; i++)
        if (rpc_call_send(d->call, str_from(text))) rpc_call_cancel(d->call);
    rpc_call_end(d->call);
    return ERR_OK;
}

static enum err begin_call(struct doing *d, enum rpc_op_kind kind)
{
    struct client_actor *c = d->client;
    char text[TEXT_CAP], id[TEXT_CAP];
    struct rpc_call_options options = {
        .path = kind == RPC_STREAM ? "/t.T/Stream" : "/t.T/Unary",
        .timeout_ms = 1 + below(c, below(c, 4) ? TIMEOUT_MS_MAX : 100),
        .wait_for_ready = below(c, 2),
        .idempotent = kind == RPC_REPEATABLE,
    };

    d->began = loop_now(c->io->loop);
    d->timeout_ms = options.timeout_ms;
    snprintf(text, sizeof text, "%" PRIu32 " %d", d->op, (int)kind);
    snprintf(id, sizeof id, "op-%" PRIu32, d->op);
    if (kind == RPC_WITH_ID) {
        options.request_id = str_from(id);
        options.dedups_by_request_id = true;
    }
    if (kind == RPC_PLAIN && c->actor->story->bug == RPC_REPEAT_A_PLAIN_CALL)
        options.idempotent = true;
    if (kind == RPC_STREAM) return begin_stream(d, &options, text);
    return rpc_unary(c->channel, &options, str_from(text), unary_done, d, &d->call);
}

static void begin(struct client_actor *c)
{
    struct rpc_witness *w = &c->actor->story->witness;
    enum rpc_op_kind kind = (enum rpc_op_kind)below(c, RPC_OP_KINDS);
    struct doing *d;

    if (w->count == RPC_OPS_MAX) return;
    d = calloc(1, sizeof *d);
    if (!d) return;
    d->client = c;
    d->op = w->count;
    list_init(&d->link);
    if (timer_init(&d->cancel, c->io->loop, on_cancel)) {
        free(d);
        return;
    }
    w->ops[w->count] = (struct rpc_op){.kind = kind};
    if (begin_call(d, kind)) {
        timer_deinit(&d->cancel);
        free(d);
        return;
    }
    w->count++;
    w->open++;
    list_append(&c->doings, &d->link);
    c->count++;
    if (below(c, CANCEL_ONE_IN) == 0) timer_start_in(&d->cancel, below(c, CANCEL_AFTER_MS_MAX));
}

static void think(struct timer *timer)
{
    struct client_actor *c = CONTAINER_OF(timer, struct client_actor, think);

    while (c->count < UNDER_WAY_MAX && below(c, 3)) begin(c);
    timer_start_in(timer, 1 + below(c, THINK_MS_MAX));
}

/* -- life -- */

static enum err client_start(struct io *io, void *context, void **ret_state)
{
    struct rpc_actor *actor = context;
    struct client_actor *c = calloc(1, sizeof *c);
    struct rpc_channel_options options = {.io = io,
                                          .addresses = rpc_server_addresses,
                                          .warm_second = actor->story->warm,
                                          .follow_leader = true,
                                          .backoff_max_ms = 1000,
                                          .dial_timeout_ms = 1500,
                                          .ping_after_ms = 1000,
                                          .ping_timeout_ms = 1000};
    enum err err;

    if (!c) return ERR_NOMEM;
    c->actor = actor;
    c->io = io;
    list_init(&c->doings);
    err = timer_init(&c->think, io->loop, think);
    if (!err) err = rpc_channel_open(&options, &c->channel, NULL);
    if (err) {
        timer_deinit(&c->think);
        free(c);
        return err;
    }
    timer_start_in(&c->think, 1);
    *ret_state = c;
    return ERR_OK;
}

static void client_gone(void *owner)
{
    struct client_actor *c = owner;

    timer_deinit(&c->think);
    free(c);
}

/* The process is dead: its calls end in its memory only. */
static void client_destroy(void *state)
{
    struct client_actor *c = state;
    struct rpc_witness *w = &c->actor->story->witness;

    c->dying = true;
    LIST_EACH(&c->doings, node)
    {
        struct rpc_op *op = &w->ops[CONTAINER_OF(node, struct doing, link)->op];
        op->client_died = true;
        w->open--;
    }
    rpc_channel_close(c->channel, client_gone, c);
}

const struct sim_process_ops rpc_client_ops = {client_start, NULL, client_destroy};
