/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "operator/operator_internal.h"
#include "wire/grpc.h"

/* -- when a roll-up goes out -- */

static void stream_want_rollup(struct operator_host *host)
{
    if (!host->open || !demand_whole(host->demand)) return;
    timer_stop(&host->settle);
    timer_start_in(&host->due, host->rollup_ms);
    uplink_want_rollup(host);
}

/* A change waits for its like, and for the answer to the roll-up before: a shard that is slow is
 * not given more to do. Without an answer the interval sends it. */
void operator_demand_changed(struct operator_host *host)
{
    if (!host->open || !demand_whole(host->demand) || host->awaiting) return;
    if (!timer_running(&host->settle)) timer_start_in(&host->settle, ROLLUP_SETTLE_MS);
}

static void operator_stream_on_settled(struct timer *timer)
{
    stream_want_rollup(CONTAINER_OF(timer, struct operator_host, settle));
}

static void on_interval(struct timer *timer)
{
    struct operator_host *host = CONTAINER_OF(timer, struct operator_host, due);

    /* A whole interval later, what has no answer beside the newest was refused. */
    if (host->awaiting)
        host->counts.rollups_unanswered++;
    else
        host->sent_count = 0;
    stream_want_rollup(host);
    if (host->open) timer_start_in(&host->due, host->rollup_ms);
}

enum err operator_write_rollup(struct operator_host *host, struct buf *out)
{
    enum err err;

    if (!demand_whole(host->demand)) return ERR_CANCELLED;
    host->written = demand_change(host->demand);
    err = frames_rollup(&host->parts, str_from(host->cluster), clock_wall(host->io->clock),
                        host->demand, out);
    if (err)
        LOG_ERROR(&host->log, "roll-up could not be encoded", log_err("err", err),
                  log_u64("rows", demand_rows(host->demand)));
    return err;
}

void operator_rollup_sent(struct operator_host *host, size_t bytes)
{
    if (host->sent_count == ROLLUPS_UNANSWERED_MAX) {
        host->sent_count--;
        memmove(host->sent, host->sent + 1, host->sent_count * sizeof host->sent[0]);
    }
    host->sent[host->sent_count++] = host->written;
    host->last_sent = host->written;
    host->awaiting = true;
    host->counts.rollups++;
    host->counts.rollup_bytes += bytes;
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
    host->sent_count--;
    memmove(host->sent, host->sent + 1, host->sent_count * sizeof host->sent[0]);
    if (host->last_sent != demand_change(host->demand)) operator_demand_changed(host);
}

static void on_stale(struct timer *timer)
{
    struct operator_host *host = CONTAINER_OF(timer, struct operator_host, stale);
    size_t left = nodes_sweep(host->nodes);

    reclaims_sweep(host->reclaims);
    if (left)
        LOG_INFO(&host->log, "machines left the cluster while the stream was down",
                 log_u64("count", left));
    host->whole_due = true;
    operator_step_later(host);
}

static void stream_take_frame(struct operator_host *host, const struct shard_frame *frame)
{
    enum err err;

    switch (frame->word) {
    case SHARD_HELLO_ACK:
        if (!host->connected) LOG_INFO(&host->log, "connected to the shard");
        host->connected = true;
        host->ended[0] = '\0';
        reclaims_reporting(host->reclaims, frame->takes_drain_reports);
        break;
    case SHARD_ROLLUP_ACK: on_rollup_ack(host); break;
    case SHARD_BLOB_REQUEST: operator_blob_wanted(host, &frame->blob); break;
    case SHARD_RECLAIM: operator_reclaims_take(host, &frame->reclaim); break;
    case SHARD_NODE_STATE:
        err = nodes_report(host->nodes, &frame->node);
        reclaims_reported(host->reclaims, frame->node.machine_id, frame->node.state);
        if (err)
            LOG_ERROR(&host->log, "machine could not be shown in the cluster",
                      log_str("machine", frame->node.machine_id), log_err("err", err));
        break;
    case SHARD_AVAILABLE:
        if (host->source->ops->available)
            host->source->ops->available(host->source, &frame->available);
        break;
    case SHARD_UNSET: LOG_DEBUG(&host->log, "ignored a frame of an unknown kind"); break;
    }
}

void operator_take_frame(struct operator_host *host, struct str bytes)
{
    struct shard_frame frame;
    struct note note = {""};
    enum err err = frames_read(bytes, &host->arena, &frame, &note);

    if (err) {
        host->counts.frames_refused++;
        LOG_ERROR(&host->log, "rejected a frame of the shard", log_err("err", err),
                  log_text("why", note.text));
    } else {
        stream_take_frame(host, &frame);
    }
    arena_reset(&host->arena);
    operator_step_later(host);
}

/* -- the stream -- */

void operator_stream_opened(struct operator_host *host)
{
    host->counts.sessions++;
    host->open = true;
    host->whole = false;
    host->sent_count = 0;
    host->awaiting = false;
    nodes_session(host->nodes);
    reclaims_session(host->reclaims);
    timer_start_in(&host->due, host->rollup_ms);
    stream_want_rollup(host);
}

void operator_stream_closed(struct operator_host *host, enum grpc_status status, struct str why)
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

void operator_unreachable(struct operator_host *host)
{
    snprintf(host->ended, sizeof host->ended, "no shard can be reached");
    LOG_WARN(&host->log, "no shard can be reached: retrying");
}

bool operator_answer(struct operator_host *host, enum err written)
{
    enum err err = written;

    if (!err) err = uplink_answer(host, buf_peek(&host->frame));
    if (!err) return true;
    host->counts.answers_dropped++;
    LOG_WARN(&host->log, "response to the shard dropped", log_err("err", err));
    return false;
}

enum err operator_timers_open(struct operator_host *host)
{
    enum err err = timer_init(&host->settle, host->io->loop, operator_stream_on_settled);

    if (!err) err = timer_init(&host->due, host->io->loop, on_interval);
    return err ? err : timer_init(&host->stale, host->io->loop, on_stale);
}

void operator_timers_close(struct operator_host *host)
{
    timer_deinit(&host->settle);
    timer_deinit(&host->due);
    timer_deinit(&host->stale);
}
