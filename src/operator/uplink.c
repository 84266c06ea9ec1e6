/* SPDX-License-Identifier: Apache-2.0 */
/* The stream to the shard: dialled, kept, dialled again.
 *
 * It knows no demand and no machines: it sends the Hello, passes on frames, and sends what it is
 * given. Two kinds of things wait when the shard reads slowly: answers, in order, at most
 * UPLINK_ANSWERS_MAX (a newer one is dropped: the shard's own timeout covers it), and one roll-up,
 * which is written only when there is room for it and so is never older than the moment it leaves.
 *
 * A stream that ended is opened again after 0.5 to 30 s, with jitter. The pause starts small again
 * only after a stream that lasted LASTED_MS: two operators of one cluster, who take turns
 * throwing each other out, slow down instead of spinning. */
#include <stdlib.h>

#include "operator/operator_internal.h"

#include "rpc/retry.h"

#define SESSION_PATH "/bigfleet.v1alpha1.Shard/Session"
enum {
    PAUSE_FIRST_MS = 500,
    PAUSE_MAX_MS = 30 * 1000,
    LASTED_MS = 30 * 1000,
    PING_AFTER_MS = 20 * 1000, /* of silence: a shard's host that died says nothing */
    PING_TIMEOUT_MS = 20 * 1000,
};

static void uplink_drop_answers(struct uplink *u)
{
    for (; u->answer_count > 0; u->answer_count--) {
        free(u->answers[u->answer_first].bytes);
        u->answer_first = (u->answer_first + 1) % UPLINK_ANSWERS_MAX;
    }
}

void uplink_free(struct operator_host *host)
{
    struct uplink *u = &host->uplink;

    timer_deinit(&u->pause);
    task_cancel(&u->pump);
    uplink_drop_answers(u);
    buf_deinit(&u->frame);
}

/* -- sending -- */

/* ERR_FULL: on_writable calls again. Any other error ends the stream, and on_end follows. */
static enum err uplink_send_answers(struct uplink *u)
{
    for (; u->answer_count > 0; u->answer_count--) {
        struct queued_answer *answer = &u->answers[u->answer_first];
        enum err err = rpc_call_send(u->call, str_of(answer->bytes, answer->len));
        if (err) return err;
        free(answer->bytes);
        u->answer_first = (u->answer_first + 1) % UPLINK_ANSWERS_MAX;
    }
    return ERR_OK;
}

static void uplink_pump(struct operator_host *host)
{
    struct uplink *u = &host->uplink;
    enum err err;

    if (!u->call || host->closing) return;
    err = uplink_send_answers(u);
    if (err || !u->rollup_wanted) return;
    err = operator_write_rollup(host, &u->frame);
    if (!err) err = rpc_call_send(u->call, buf_peek(&u->frame));
    if (err != ERR_FULL) u->rollup_wanted = false;
    if (!err) operator_rollup_sent(host, u->frame.len);
    if (err && err != ERR_FULL && err != ERR_CANCELLED) rpc_call_cancel(u->call);
}

static void on_pump(struct task *task)
{
    uplink_pump(CONTAINER_OF(task, struct operator_host, uplink.pump));
}

static void on_writable(void *owner, struct rpc_client_call *)
{
    uplink_pump(owner);
}

void uplink_want_rollup(struct operator_host *host)
{
    if (!host->uplink.call) return;
    host->uplink.rollup_wanted = true;
    loop_defer(host->io->loop, &host->uplink.pump);
}

enum err uplink_answer(struct operator_host *host, struct str frame)
{
    struct uplink *u = &host->uplink;
    struct queued_answer answer = {.len = frame.len};

    if (!u->call) return ERR_CLOSED;
    if (u->answer_count == UPLINK_ANSWERS_MAX) return ERR_FULL;
    answer.bytes = str_dup(frame);
    if (!answer.bytes) return ERR_NOMEM;
    u->answers[(u->answer_first + u->answer_count++) % UPLINK_ANSWERS_MAX] = answer;
    loop_defer(host->io->loop, &u->pump);
    return ERR_OK;
}

/* -- the stream -- */

static void on_message(void *owner, struct rpc_client_call *, struct str message)
{
    struct operator_host *host = owner;

    if (!host->closing) operator_take_frame(host, message);
}

static void on_end(void *owner, struct rpc_client_call *call, const struct rpc_outcome *outcome)
{
    struct operator_host *host = owner;
    struct uplink *u = &host->uplink;
    struct backoff backoff = {PAUSE_FIRST_MS, PAUSE_MAX_MS};

    (void)call;
    u->call = NULL;
    u->rollup_wanted = false;
    uplink_drop_answers(u);
    if (host->closing) return;
    if (mono_elapsed_ms(u->opened, loop_now(host->io->loop)) >= LASTED_MS) u->failures = 0;
    u->failures++;
    timer_start_in(&u->pause, backoff_ms(backoff, u->failures, entropy_u64(host->io->entropy)));
    operator_stream_closed(host, outcome->status, outcome->text);
}

static void uplink_open_stream(struct operator_host *host)
{
    static const struct rpc_call_events events = {
        .on_message = on_message, .on_writable = on_writable, .on_end = on_end};
    const struct rpc_call_options options = {
        .path = SESSION_PATH, .response_max = FRAMES_READ_MAX, .attempts_max = 1};
    struct uplink *u = &host->uplink;
    enum err err;

    if (host->closing || u->call || timer_running(&u->pause) || !rpc_channel_ready(u->channel))
        return;
    err = rpc_call_start(u->channel, &options, &events, host, &u->call);
    if (err) { /* no memory, no timer: later */
        timer_start_in(&u->pause, PAUSE_MAX_MS);
        return;
    }
    u->opened = loop_now(host->io->loop);
    err = frames_hello(&host->parts, str_from(host->cluster), &u->frame);
    if (!err) err = rpc_call_send(u->call, buf_peek(&u->frame));
    if (err)
        rpc_call_cancel(u->call);
    else
        operator_stream_opened(host);
}

static void on_pause_over(struct timer *timer)
{
    uplink_open_stream(CONTAINER_OF(timer, struct operator_host, uplink.pause));
}

/* Said once for each time it becomes so. */
static void on_channel_change(void *owner)
{
    struct operator_host *host = owner;
    bool failing = rpc_channel_failing(host->uplink.channel);

    if (host->closing) return;
    if (failing && !host->uplink.unreachable) operator_unreachable(host);
    host->uplink.unreachable = failing;
    uplink_open_stream(host);
}

enum err uplink_open(struct operator_host *host, const struct operator_options *options,
                     struct note *note)
{
    struct uplink *u = &host->uplink;
    const struct rpc_channel_options channel = {
        .io = host->io,
        .addresses = options->shard_addresses,
        .tls = options->tls,
        .metrics = options->rpc_metrics,
        .backoff_first_ms = PAUSE_FIRST_MS,
        .backoff_max_ms = PAUSE_MAX_MS,
        .ping_after_ms = PING_AFTER_MS,
        .ping_timeout_ms = PING_TIMEOUT_MS,
        .on_change = on_channel_change,
        .owner = host,
    };
    enum err err;

    task_init(&u->pump, on_pump);
    buf_init(&u->frame, FRAMES_ROLLUP_MAX);
    err = timer_init(&u->pause, host->io->loop, on_pause_over);
    return err ? err : rpc_channel_open(&channel, &u->channel, note);
}

void uplink_close(struct operator_host *host, void (*done)(void *owner))
{
    timer_stop(&host->uplink.pause);
    rpc_channel_close(host->uplink.channel, done, host);
}
