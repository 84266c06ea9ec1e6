/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes an operator. A task calls the source later, never inside a call from the source.
 * Runs on the loop's thread. */
#include "operator/operator.h"

#include <stdlib.h>

#include "operator/operator_internal.h"

static void operator_step(struct task *task)
{
    struct operator_host *host = CONTAINER_OF(task, struct operator_host, step);
    const struct source_ops *ops = host->source->ops;
    uint64_t taken = host->taken_due;
    struct str id;

    if (!host->started || host->closing) return;
    operator_reclaims_step(host);
    host->taken_due = 0;
    if (taken && ops->taken) ops->taken(host->source, taken);
    while (nodes_take(host->nodes, &id)) ops->node_changed(host->source, id);
    if (host->whole_due && ops->nodes_whole) ops->nodes_whole(host->source);
    host->whole_due = false;
}

void operator_step_later(struct operator_host *host)
{
    if (!host->closing) loop_defer(host->io->loop, &host->step);
}

static void on_tick(struct timer *timer)
{
    struct operator_host *host = CONTAINER_OF(timer, struct operator_host, tick);

    timer_start_in(&host->tick, TICK_MS);
    operator_step_later(host); /* for expired grace periods and failed writes */
    if (!host->supplies_due || host->closing) return;
    host->supplies_due = host->source->ops->supplies(host->source, host->supplies_changed);
    host->supplies_changed = false;
}

static void on_turn(struct turn_hook *hook)
{
    struct operator_host *host = CONTAINER_OF(hook, struct operator_host, hook);
    struct operator_counts *c = &host->counts;
    uint64_t change = demand_change(host->demand);
    bool whole = demand_whole(host->demand);

    if (change != host->seen_change || whole != host->seen_whole) operator_demand_changed(host);
    operator_occupancy_changed(host);
    host->seen_change = change;
    host->seen_whole = whole;
    c->connected = host->connected;
    c->requests = demand_requests(host->demand);
    c->rows = demand_rows(host->demand);
    c->unsent = host->last_sent != change;
    c->requests_refused = demand_refused(host->demand);
    for (int phase = 0; phase < NODE_PHASE_COUNT; phase++)
        c->nodes[phase] = nodes_count(host->nodes, (enum node_phase)phase);
    metrics_set_fields(host->metrics, c);
}

/* -- open and close -- */

bool operator_ready(const struct operator_host *host, struct note *reason)
{
    const struct demand_source *source = host->source;

    if (!host->connected) {
        note_set(reason, "%s", host->ended[0] ? host->ended : "not connected to the shard yet");
        return false;
    }
    if (!demand_whole(host->demand)) {
        note_set(reason, "the source has not read all demand yet");
        return false;
    }
    return !source->ops->ready || source->ops->ready(host->source, reason);
}

/* The source and the stream must be closed or never opened. */
static void operator_free(struct operator_host *host)
{
    task_cancel(&host->step);
    turn_hook_remove(&host->hook);
    uplink_free(host);
    timer_deinit(&host->tick);
    side_file_close(host->template_watch);
    side_file_close(host->keeper);
    template_close(host->template);
    reclaims_close(host->reclaims);
    nodes_close(host->nodes);
    demand_close(host->demand);
    frame_parts_deinit(&host->parts);
    buf_deinit(&host->frame);
    buf_deinit(&host->blob);
    arena_deinit(&host->arena);
    free(host);
}

static void on_uplink_closed(void *owner)
{
    struct operator_host *host = owner;
    void (*closed)(void *) = host->closed;
    void *closed_owner = host->closed_owner;

    operator_free(host);
    if (closed) closed(closed_owner);
}

/* Reclaims stay on disk; the next start resumes them. */
void operator_close(struct operator_host *host, void (*done)(void *owner), void *owner)
{
    if (!host) {
        if (done) done(owner);
        return;
    }
    host->closing = true;
    host->closed = done;
    host->closed_owner = owner;
    timer_stop(&host->tick);
    task_cancel(&host->step);
    turn_hook_remove(&host->hook);
    host->source->ops->close(host->source);
    uplink_close(host, on_uplink_closed);
}

static enum err operator_open_parts(struct operator_host *host,
                                    const struct operator_options *options, struct note *note)
{
    enum err err = operator_metrics_open(options->metrics, &host->metrics, note);

    if (!err) err = id_check("cluster-id", str_from(host->cluster), ID_MAX, note);
    if (!err) err = demand_open(entropy_u64(host->io->entropy), &host->demand);
    if (!err) err = nodes_open(entropy_u64(host->io->entropy), &host->nodes);
    if (!err) err = operator_reclaims_open(host, note);
    if (!err) err = operator_template_open(host, options->template_file, note);
    if (!err) err = timer_init(&host->tick, host->io->loop, on_tick);
    return err;
}

enum err operator_open(const struct operator_options *options, struct operator_host **ret_host,
                       struct note *note)
{
    struct operator_host *host = calloc(1, sizeof *host);
    enum err err;

    if (!host) return ERR_NOMEM;
    host->io = options->io;
    if (options->log) host->log = *options->log;
    host->source = options->source;
    host->rollup_ms = options->rollup_ms ? options->rollup_ms : OPERATOR_ROLLUP_MS;
    host->stale_ms = options->stale_ms ? options->stale_ms : OPERATOR_STALE_MS;
    host->cluster = options->cluster_id;
    host->state_dir = options->state_dir;
    frame_parts_init(&host->parts);
    buf_init(&host->frame, FRAMES_BLOB_MAX + 2 * ERROR_TEXT_MAX);
    buf_init(&host->blob, FRAMES_BLOB_MAX);
    arena_init(&host->arena, BLOB_ARENA_MAX);
    task_init(&host->step, operator_step);
    err = operator_open_parts(host, options, note);
    if (!err) err = uplink_open(host, options, note);
    if (err) {
        operator_free(host);
        return err;
    }
    host->around = (struct operator_around){.io = host->io,
                                            .log = &host->log,
                                            .metrics = options->metrics,
                                            .cluster = str_from(host->cluster),
                                            .state_dir = host->state_dir,
                                            .host = host,
                                            .demand = host->demand,
                                            .nodes = host->nodes};
    turn_hook_add(host->io->loop, &host->hook, on_turn);
    *ret_host = host;
    return ERR_OK;
}

enum err operator_start(struct operator_host *host, struct note *note)
{
    enum err err = host->source->ops->start(host->source, &host->around, note);

    if (err) return err;
    host->started = true;
    timer_start_in(&host->tick, 0);
    return ERR_OK;
}
