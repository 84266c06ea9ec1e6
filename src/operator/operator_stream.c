/* SPDX-License-Identifier: Apache-2.0 */
/* The stream to the shard: connects, reconnects, reads frames, and decides when to send a roll-up.
 *
 * When the shard reads slowly, up to UPLINK_ANSWERS_MAX answers wait. Further answers are dropped,
 * and the shard asks again after its timeout. A roll-up is written only when there is room, so that
 * it has the current demand.
 *
 * The pause before a reconnect is reset only after a stream of LASTED_MS. Otherwise two operators
 * of one cluster would replace each other's streams in a fast loop. */
#include <stdio.h>
#include <stdlib.h>

#include "operator/operator_internal.h"

#include "rpc/retry.h"
#include "wire/grpc.h"
#include "wire/message.h"

#define SESSION_PATH "/bigfleet.v1alpha1.Shard/Session"
enum {
    PAUSE_FIRST_MS = 500,
    PAUSE_MAX_MS = 30 * 1000,
    LASTED_MS = 30 * 1000,
    /* a shard's host that crashed sends nothing */
    PING_AFTER_MS = 20 * 1000,
    PING_TIMEOUT_MS = 20 * 1000,
};

/* -- queued answers -- */

static void stream_drop_answer(struct uplink *u)
{
    free((void *)u->answers[u->answer_first].at);
    u->answer_first = (u->answer_first + 1) % UPLINK_ANSWERS_MAX;
    u->answer_count--;
}

static void stream_drop_answers(struct uplink *u)
{
    while (u->answer_count > 0) stream_drop_answer(u);
}

bool operator_answer(struct operator_host *host, enum err written)
{
    struct uplink *u = &host->uplink;
    char *copy = NULL;
    enum err err = written;

    if (!err && !u->call) err = ERR_CLOSED;
    if (!err && u->answer_count == UPLINK_ANSWERS_MAX) err = ERR_FULL;
    if (!err && !(copy = str_dup(buf_peek(&host->frame)))) err = ERR_NOMEM;
    if (err) {
        host->counts.answers_dropped++;
        LOG_WARN(&host->log, "could not queue a response to the shard: dropped it",
                 log_err("err", err));
        return false;
    }
    u->answers[(u->answer_first + u->answer_count++) % UPLINK_ANSWERS_MAX] =
        str_of(copy, host->frame.len);
    loop_defer(host->io->loop, &u->pump);
    return true;
}

/* -- sending roll-ups -- */

static bool stream_sends_occupancy(const struct operator_host *host)
{
    return host->takes_occupancy && host->source->ops->occupancy;
}

/* True while the roll-up cannot say what the machines run: the shard has not reported all machines
 * of this session, or the source has not read everything. Bounded, because a source that may not
 * read something must not stop scale-in. */
static bool stream_occupancy_pending(const struct operator_host *host)
{
    const struct source_ops *ops = host->source->ops;

    if (!ops->occupancy || (host->connected && !host->takes_occupancy)) return false;
    if (mono_elapsed_ms(host->uplink.opened, loop_now(host->io->loop)) >= OCCUPANCY_WAIT_MS)
        return false;
    return !host->whole || !ops->occupancy_change(host->source);
}

static void stream_want_rollup(struct operator_host *host)
{
    if (!host->open || !demand_whole(host->demand)) return;
    timer_stop(&host->settle);
    timer_start_in(&host->due, host->rollup_ms);
    host->uplink.rollup_wanted = true;
    loop_defer(host->io->loop, &host->uplink.pump);
}

/* Schedules a roll-up. While one roll-up is unanswered, none is sent early, so that a slow shard is
 * not overloaded. */
void operator_demand_changed(struct operator_host *host)
{
    if (!host->open || !demand_whole(host->demand) || host->awaiting) return;
    if (timer_running(&host->settle) && !host->settles_slowly) return;
    host->settles_slowly = false;
    timer_start_in(&host->settle, ROLLUP_SETTLE_MS);
}

void operator_occupancy_changed(struct operator_host *host)
{
    const struct source_ops *ops = host->source->ops;

    if (!host->open || !stream_sends_occupancy(host) || !demand_whole(host->demand)) return;
    if (ops->occupancy_change(host->source) == host->occupancy_sent) return;
    if (host->awaiting || timer_running(&host->settle)) return;
    host->settles_slowly = true;
    timer_start_in(&host->settle, OCCUPANCY_SETTLE_MS);
}

static void operator_stream_on_settled(struct timer *timer)
{
    stream_want_rollup(CONTAINER_OF(timer, struct operator_host, settle));
}

static void on_interval(struct timer *timer)
{
    struct operator_host *host = CONTAINER_OF(timer, struct operator_host, due);

    /* If no roll-up waits for an answer, those still listed were replaced or refused. */
    if (host->awaiting)
        host->counts.rollups_unanswered++;
    else
        host->sent_count = 0;
    stream_want_rollup(host);
    if (host->open) timer_start_in(&host->due, host->rollup_ms);
}

static enum err stream_write_rollup(struct operator_host *host)
{
    const struct source_ops *ops = host->source->ops;
    struct occupancy_rows rows = {0};
    bool pending = stream_occupancy_pending(host);
    bool known = !pending && stream_sends_occupancy(host) && ops->occupancy(host->source, &rows);
    enum err err = frames_rollup(&host->parts, str_from(host->cluster), clock_wall(host->io->clock),
                                 host->demand, known ? &rows : NULL, pending, &host->uplink.frame);

    if (stream_sends_occupancy(host))
        host->occupancy_sent = pending ? 0 : ops->occupancy_change(host->source);
    host->counts.occupied = known ? min_size(rows.count, OCCUPANCY_ROWS_MAX) : 0;
    host->counts.unoccupied = known ? rows.count - host->counts.occupied : 0;

    if (err)
        LOG_ERROR(&host->log, "roll-up could not be encoded", log_err("err", err),
                  log_u64("rows", demand_rows(host->demand)));
    return err;
}

static void stream_drop_first_sent(struct operator_host *host)
{
    host->sent_count--;
    memmove(host->sent, host->sent + 1, host->sent_count * sizeof host->sent[0]);
}

static void stream_pump(struct operator_host *host)
{
    struct uplink *u = &host->uplink;
    enum err err;

    if (!u->call || host->closing) return;
    while (u->answer_count > 0) {
        /* ERR_FULL: on_writable retries. Other errors end the stream and call on_end. */
        if (rpc_call_send(u->call, u->answers[u->answer_first])) return;
        stream_drop_answer(u);
    }
    if (!u->rollup_wanted) return;
    err = demand_whole(host->demand) ? stream_write_rollup(host) : ERR_CANCELLED;
    if (!err) err = rpc_call_send(u->call, buf_peek(&u->frame));
    if (err != ERR_FULL) u->rollup_wanted = false;
    if (!err) {
        if (host->sent_count == ROLLUPS_UNANSWERED_MAX) stream_drop_first_sent(host);
        host->last_sent = host->sent[host->sent_count++] = demand_change(host->demand);
        host->awaiting = true;
        host->counts.rollups++;
        host->counts.rollup_bytes += u->frame.len;
    }
    if (err && err != ERR_FULL && err != ERR_CANCELLED) rpc_call_cancel(u->call);
}

static void on_pump(struct task *task)
{
    stream_pump(CONTAINER_OF(task, struct operator_host, uplink.pump));
}

static void on_writable(void *owner, struct rpc_client_call *)
{
    stream_pump(owner);
}

/* -- frames from the shard -- */

static void on_rollup_ack(struct operator_host *host)
{
    host->counts.rollup_acks++;
    host->awaiting = false;
    if (!host->whole) {
        host->whole = true;
        timer_start_in(&host->stale, host->stale_ms);
    }
    if (host->sent_count == 0) return;
    host->taken_due = host->sent[0];
    stream_drop_first_sent(host);
    if (host->last_sent != demand_change(host->demand)) operator_demand_changed(host);
}

static void on_stale(struct timer *timer)
{
    struct operator_host *host = CONTAINER_OF(timer, struct operator_host, stale);
    size_t left = nodes_sweep(host->nodes);

    reclaims_sweep(host->reclaims);
    if (left)
        LOG_INFO(
            &host->log,
            "machines left the cluster while the shard was disconnected: removing their objects",
            log_u64("count", left));
    host->whole_due = true;
    operator_step_later(host);
}

static void stream_take_ack(struct operator_host *host,
                            const Bigfleet__V1alpha1__Acknowledgement *ack)
{
    if (str_equal(str_from(ack->echo), STR("rollup"))) {
        on_rollup_ack(host);
    } else if (str_equal(str_from(ack->echo), STR("hello"))) {
        if (!host->connected) LOG_INFO(&host->log, "connected to the shard");
        host->connected = true;
        host->ended[0] = '\0';
        reclaims_reporting(host->reclaims, ack->takes_drain_reports);
        host->takes_occupancy = ack->takes_occupancy;
    }
}

static void stream_take_node(struct operator_host *host, const struct cluster_node *node)
{
    enum err err = nodes_report(host->nodes, node);

    reclaims_reported(host->reclaims, node->machine_id, node->state);
    if (err)
        LOG_ERROR(&host->log, "machine could not be shown in the cluster",
                  log_str("machine", node->machine_id), log_err("err", err));
}

static enum err stream_take_status(struct operator_host *host, const struct row_status *status)
{
    enum err err = demand_supply_put(host->demand, status->fingerprint, status->group,
                                     status->known ? &status->supply : NULL);

    if (host->source->ops->supplies) host->supplies_due = host->supplies_changed = true;
    return err;
}

static enum err stream_take_frame(struct operator_host *host,
                                  const Bigfleet__V1alpha1__ShardMessage *given, struct note *note)
{
    struct blob_request blob;
    struct cluster_node node;
    struct available hint;
    struct row_status status;
    enum err err = ERR_OK;

    switch ((int)given->payload_case) {
    case BIGFLEET__V1ALPHA1__SHARD_MESSAGE__PAYLOAD_ACK: stream_take_ack(host, given->ack); break;
    case BIGFLEET__V1ALPHA1__SHARD_MESSAGE__PAYLOAD_BOOTSTRAP_REQUEST:
        err = frames_read_blob(given->bootstrap_request, &host->arena, &blob, note);
        if (!err) operator_blob_wanted(host, &blob);
        break;
    case BIGFLEET__V1ALPHA1__SHARD_MESSAGE__PAYLOAD_RECLAIM_INSTRUCTION:
        err = operator_reclaims_take(host, given->reclaim_instruction, note);
        break;
    case BIGFLEET__V1ALPHA1__SHARD_MESSAGE__PAYLOAD_NODE_STATE_UPDATE:
        err = frames_read_node(given->node_state_update, &host->arena, &node, note);
        if (!err) stream_take_node(host, &node);
        break;
    case BIGFLEET__V1ALPHA1__SHARD_MESSAGE__PAYLOAD_AVAILABLE_CAPACITY:
        err = frames_read_available(given->available_capacity, &host->arena, &hint, note);
        if (!err && host->source->ops->available) host->source->ops->available(host->source, &hint);
        break;
    case BIGFLEET__V1ALPHA1__SHARD_MESSAGE__PAYLOAD_NEED_STATUS:
        err = frames_read_status(given->need_status, &status, note);
        if (!err) err = stream_take_status(host, &status);
        break;
    default: LOG_DEBUG(&host->log, "ignored a frame of an unknown kind"); break;
    }
    return err;
}

static void on_message(void *owner, struct rpc_client_call *, struct str message)
{
    struct operator_host *host = owner;
    ProtobufCMessage *frame;
    struct note note = {""};
    enum err err;

    if (host->closing) return;
    err = message_read(&bigfleet__v1alpha1__shard_message__descriptor, message, NULL, &host->arena,
                       &frame, &note);
    if (!err) err = stream_take_frame(host, (const void *)frame, &note);
    if (err) {
        host->counts.frames_refused++;
        LOG_ERROR(&host->log, "rejected a frame of the shard", log_err("err", err),
                  log_text("why", note.text));
    }
    arena_reset(&host->arena);
    operator_step_later(host);
}

/* -- opening and closing the stream -- */

static void stream_closed(struct operator_host *host, enum grpc_status status, struct str why)
{
    host->counts.session_ends++;
    snprintf(host->ended, sizeof host->ended, "%s: %.*s", grpc_status_name(status),
             (int)min_size(why.len, 120), why.at);
    if (status == GRPC_ABORTED)
        LOG_ERROR(&host->log, "another operator speaks for this cluster", log_str("why", why));
    else if (status == GRPC_PERMISSION_DENIED)
        LOG_ERROR(&host->log, "the shard rejected this operator's identity", log_str("why", why));
    else
        LOG_WARN(&host->log, "stream to the shard ended: reconnecting",
                 log_text("why", host->ended));
    host->open = host->connected = false;
    timer_stop(&host->settle);
    timer_stop(&host->due);
    timer_stop(&host->stale);
}

static void on_end(void *owner, struct rpc_client_call *, const struct rpc_outcome *outcome)
{
    struct operator_host *host = owner;
    struct uplink *u = &host->uplink;
    struct backoff backoff = {PAUSE_FIRST_MS, PAUSE_MAX_MS};

    u->call = NULL;
    u->rollup_wanted = false;
    stream_drop_answers(u);
    if (host->closing) return;
    if (mono_elapsed_ms(u->opened, loop_now(host->io->loop)) >= LASTED_MS) u->failures = 0;
    u->failures++;
    timer_start_in(&u->pause, backoff_ms(backoff, u->failures, entropy_u64(host->io->entropy)));
    stream_closed(host, outcome->status, outcome->text);
}

static void stream_opened(struct operator_host *host)
{
    host->counts.sessions++;
    host->open = true;
    host->whole = false;
    host->sent_count = 0;
    host->awaiting = false;
    nodes_session(host->nodes);
    demand_supplies_forget(host->demand);
    reclaims_session(host->reclaims);
    host->takes_occupancy = false;
    host->occupancy_sent = 0;
    timer_start_in(&host->due, host->rollup_ms);
    stream_want_rollup(host);
}

static void stream_open(struct operator_host *host)
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
    if (err) {
        timer_start_in(&u->pause, PAUSE_MAX_MS);
        return;
    }
    u->opened = loop_now(host->io->loop);
    err = frames_hello(&host->parts, str_from(host->cluster), host->source->ops->supplies != NULL,
                       host->source->ops->occupancy != NULL, &u->frame);
    if (!err) err = rpc_call_send(u->call, buf_peek(&u->frame));
    if (err)
        rpc_call_cancel(u->call);
    else
        stream_opened(host);
}

static void on_pause_over(struct timer *timer)
{
    stream_open(CONTAINER_OF(timer, struct operator_host, uplink.pause));
}

/* Logs one line each time that all shards become unreachable. */
static void on_channel_change(void *owner)
{
    struct operator_host *host = owner;
    bool failing = rpc_channel_failing(host->uplink.channel);

    if (host->closing) return;
    if (failing && !host->uplink.unreachable) {
        snprintf(host->ended, sizeof host->ended, "no shard can be reached");
        LOG_WARN(&host->log, "no shard can be reached: retrying");
    }
    host->uplink.unreachable = failing;
    stream_open(host);
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
    if (!err) err = timer_init(&host->settle, host->io->loop, operator_stream_on_settled);
    if (!err) err = timer_init(&host->due, host->io->loop, on_interval);
    if (!err) err = timer_init(&host->stale, host->io->loop, on_stale);
    return err ? err : rpc_channel_open(&channel, &u->channel, note);
}

void uplink_close(struct operator_host *host, void (*done)(void *owner))
{
    timer_stop(&host->uplink.pause);
    timer_stop(&host->settle);
    timer_stop(&host->due);
    timer_stop(&host->stale);
    rpc_channel_close(host->uplink.channel, done, host);
}

void uplink_free(struct operator_host *host)
{
    struct uplink *u = &host->uplink;

    timer_deinit(&u->pause);
    timer_deinit(&host->settle);
    timer_deinit(&host->due);
    timer_deinit(&host->stale);
    task_cancel(&u->pump);
    stream_drop_answers(u);
    buf_deinit(&u->frame);
}
