/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/uplink.h"

#include <stdlib.h>

#include "rpc/retry.h"

#define SESSION_PATH "/bigfleet.v1alpha1.Shard/Session"
enum {
    PING_AFTER_MS = 20 * 1000, /* of silence: a shard's host that died says nothing */
    PING_TIMEOUT_MS = 20 * 1000,
};

struct answer {
    char *bytes;
    size_t len;
};
struct uplink {
    struct io *io;
    const struct uplink_events *events;
    void *owner;
    size_t frame_max;
    struct rpc_channel *channel;
    struct rpc_client_call *call; /* NULL: there is no stream */
    struct timer pause;
    struct task pump;
    struct answer answers[UPLINK_ANSWERS_MAX]; /* a ring */
    size_t answer_first, answer_count;
    struct buf frame;
    mono_time opened;
    uint32_t failures;
    bool rollup_wanted, unreachable, closing;
    void (*closed)(void *owner);
    void *closed_owner;
};

static void drop_answers(struct uplink *u)
{
    for (; u->answer_count > 0; u->answer_count--) {
        free(u->answers[u->answer_first].bytes);
        u->answer_first = (u->answer_first + 1) % UPLINK_ANSWERS_MAX;
    }
}

static void set_free(void *owner)
{
    struct uplink *u = owner;
    void (*closed)(void *) = u->closed;
    void *closed_owner = u->closed_owner;

    timer_deinit(&u->pause);
    task_cancel(&u->pump);
    drop_answers(u);
    buf_deinit(&u->frame);
    free(u);
    if (closed) closed(closed_owner);
}

/* -- sending -- */

/* ERR_FULL: on_writable calls again. Any other error is the stream's end, which tells itself. */
static enum err send_answers(struct uplink *u)
{
    for (; u->answer_count > 0; u->answer_count--) {
        struct answer *answer = &u->answers[u->answer_first];
        enum err err = rpc_call_send(u->call, str_of(answer->bytes, answer->len));
        if (err) return err;
        free(answer->bytes);
        u->answer_first = (u->answer_first + 1) % UPLINK_ANSWERS_MAX;
    }
    return ERR_OK;
}

static void pump(struct uplink *u)
{
    enum err err;

    if (!u->call || u->closing) return;
    err = send_answers(u);
    if (err || !u->rollup_wanted) return;
    err = u->events->write_rollup(u->owner, &u->frame);
    if (!err) err = rpc_call_send(u->call, buf_peek(&u->frame));
    if (err != ERR_FULL) u->rollup_wanted = false;
    if (!err) u->events->on_rollup_sent(u->owner, u->frame.len);
    if (err && err != ERR_FULL && err != ERR_CANCELLED) rpc_call_cancel(u->call);
}

static void on_pump(struct task *task)
{
    pump(CONTAINER_OF(task, struct uplink, pump));
}

static void on_writable(void *owner, struct rpc_client_call *call)
{
    (void)call;
    pump(owner);
}

void uplink_want_rollup(struct uplink *u)
{
    if (!u->call) return;
    u->rollup_wanted = true;
    loop_defer(u->io->loop, &u->pump);
}

enum err uplink_answer(struct uplink *u, struct str frame)
{
    struct answer answer = {.len = frame.len};

    if (!u->call) return ERR_CLOSED;
    if (u->answer_count == UPLINK_ANSWERS_MAX) return ERR_FULL;
    answer.bytes = str_dup(frame);
    if (!answer.bytes) return ERR_NOMEM;
    u->answers[(u->answer_first + u->answer_count++) % UPLINK_ANSWERS_MAX] = answer;
    loop_defer(u->io->loop, &u->pump);
    return ERR_OK;
}

/* -- the stream -- */

static void on_message(void *owner, struct rpc_client_call *call, struct str message)
{
    struct uplink *u = owner;

    (void)call;
    if (!u->closing) u->events->on_frame(u->owner, message);
}

static void on_end(void *owner, struct rpc_client_call *call, const struct rpc_outcome *outcome)
{
    struct uplink *u = owner;
    struct backoff backoff = {UPLINK_PAUSE_FIRST_MS, UPLINK_PAUSE_MAX_MS};

    (void)call;
    u->call = NULL;
    u->rollup_wanted = false;
    drop_answers(u);
    if (u->closing) return;
    if (mono_elapsed_ms(u->opened, loop_now(u->io->loop)) >= UPLINK_LASTED_MS) u->failures = 0;
    u->failures++;
    timer_start_in(&u->pause, backoff_ms(backoff, u->failures, entropy_u64(u->io->entropy)));
    u->events->on_closed(u->owner, outcome->status, outcome->text);
}

static void open_stream(struct uplink *u)
{
    static const struct rpc_call_events events = {
        .on_message = on_message, .on_writable = on_writable, .on_end = on_end};
    struct rpc_call_options options = {
        .path = SESSION_PATH, .response_max = u->frame_max, .attempts_max = 1};
    enum err err;

    if (u->closing || u->call || timer_running(&u->pause) || !rpc_channel_ready(u->channel)) return;
    err = rpc_call_start(u->channel, &options, &events, u, &u->call);
    if (err) { /* no memory, no timer: later */
        timer_start_in(&u->pause, UPLINK_PAUSE_MAX_MS);
        return;
    }
    u->opened = loop_now(u->io->loop);
    err = u->events->write_hello(u->owner, &u->frame);
    if (!err) err = rpc_call_send(u->call, buf_peek(&u->frame));
    if (err)
        rpc_call_cancel(u->call);
    else
        u->events->on_open(u->owner);
}

static void on_pause_over(struct timer *timer)
{
    open_stream(CONTAINER_OF(timer, struct uplink, pause));
}

/* Once for each time it becomes so. */
static void on_channel_change(void *owner)
{
    struct uplink *u = owner;
    bool failing = rpc_channel_failing(u->channel);

    if (u->closing) return;
    if (failing && !u->unreachable) u->events->on_unreachable(u->owner);
    u->unreachable = failing;
    open_stream(u);
}

enum err uplink_open(const struct uplink_options *options, struct uplink **ret_uplink,
                     struct note *note)
{
    struct uplink *u = calloc(1, sizeof *u);
    struct rpc_channel_options channel = {
        .io = options->io,
        .addresses = options->addresses,
        .tls = options->tls,
        .metrics = options->metrics,
        .backoff_first_ms = UPLINK_PAUSE_FIRST_MS,
        .backoff_max_ms = UPLINK_PAUSE_MAX_MS,
        .ping_after_ms = PING_AFTER_MS,
        .ping_timeout_ms = PING_TIMEOUT_MS,
        .on_change = on_channel_change,
        .owner = u,
    };
    enum err err;

    if (!u) return ERR_NOMEM;
    u->io = options->io;
    u->events = options->events;
    u->owner = options->owner;
    u->frame_max = options->frame_max;
    task_init(&u->pump, on_pump);
    buf_init(&u->frame, options->rollup_max);
    err = timer_init(&u->pause, u->io->loop, on_pause_over);
    if (!err) err = rpc_channel_open(&channel, &u->channel, note);
    if (err) {
        set_free(u);
        return err;
    }
    *ret_uplink = u;
    return ERR_OK;
}

void uplink_close(struct uplink *u, void (*done)(void *owner), void *owner)
{
    if (!u) {
        if (done) done(owner);
        return;
    }
    u->closing = true;
    u->closed = done;
    u->closed_owner = owner;
    timer_stop(&u->pause);
    rpc_channel_close(u->channel, set_free, u);
}
