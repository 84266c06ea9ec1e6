/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/operator.h"

#include <stdlib.h>

#include "operator/operator_internal.h"

/* -- what a word of the shard or of the source leads to -- */

static void tell_source(struct operator_host *host)
{
    const struct source_ops *ops = host->source->ops;
    uint64_t taken = host->taken_due;
    struct str id;

    host->taken_due = 0;
    if (taken && ops->taken) ops->taken(host->source, taken);
    while (nodes_take(host->nodes, &id)) ops->node_changed(host->source, id);
    if (host->whole_due && ops->nodes_whole) ops->nodes_whole(host->source);
    host->whole_due = false;
}

static void step(struct task *task)
{
    struct operator_host *host = CONTAINER_OF(task, struct operator_host, step);

    if (!host->started || host->closing) return;
    operator_reclaims_step(host);
    tell_source(host);
    for (int phase = 0; phase < NODE_PHASE_COUNT; phase++)
        meter_set(host->meters.nodes[phase],
                  (double)nodes_count(host->nodes, (enum node_phase)phase));
}

void operator_step_later(struct operator_host *host)
{
    if (!host->closing) loop_defer(host->io->loop, &host->step);
}

static void on_tick(struct timer *timer)
{
    struct operator_host *host = CONTAINER_OF(timer, struct operator_host, tick);

    timer_start_in(&host->tick, TICK_MS);
    operator_step_later(host); /* graces that end, what could not be saved */
}

/* -- what a source may say -- */

enum err operator_put(struct operator_host *host, struct str id,
                      const struct capacity_request *request, uint64_t *ret_change,
                      struct note *note)
{
    uint64_t before = demand_change(host->demand);
    enum err err = demand_put(host->demand, id, request, ret_change, note);

    if (err) meter_inc(host->meters.requests_refused);
    if (demand_change(host->demand) != before) operator_demand_changed(host);
    return err;
}

enum err operator_check(struct operator_host *host, const struct capacity_request *request,
                        struct note *note)
{
    return demand_check(host->demand, request, note);
}

void operator_remove(struct operator_host *host, struct str id)
{
    uint64_t before = demand_change(host->demand);

    demand_remove(host->demand, id);
    if (demand_change(host->demand) != before) operator_demand_changed(host);
}

void operator_list_begin(struct operator_host *host)
{
    demand_list_begin(host->demand);
}

void operator_list_end(struct operator_host *host)
{
    demand_list_end(host->demand);
    operator_demand_changed(host);
}

void operator_list_give_up(struct operator_host *host)
{
    demand_list_give_up(host->demand);
    operator_demand_changed(host);
}

const struct cluster_node *operator_find_node(const struct operator_host *host,
                                              struct str machine_id)
{
    return nodes_find(host->nodes, machine_id);
}

const struct cluster_node *operator_each_node(const struct operator_host *host, size_t *cursor)
{
    return nodes_next(host->nodes, cursor);
}

/* -- life -- */

bool operator_ready(const struct operator_host *host, struct note *reason)
{
    const struct demand_source *source = host->source;

    if (!host->connected) {
        note_set(reason, "%s", host->ended[0] ? host->ended : "not connected to the shard yet");
        return false;
    }
    if (!demand_whole(host->demand)) {
        note_set(reason, "the source has not told all demand yet");
        return false;
    }
    return !source->ops->ready || source->ops->ready(host->source, reason);
}

/* Everything but the source and the uplink. */
static void set_free(struct operator_host *host)
{
    task_cancel(&host->step);
    uplink_free(host);
    operator_timers_close(host);
    timer_deinit(&host->tick);
    file_watch_close(host->template_watch);
    file_keeper_close(host->keeper);
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

static void finish(struct operator_host *host)
{
    void (*closed)(void *) = host->closed;
    void *closed_owner = host->closed_owner;

    if (!host->source_closed || !host->uplink_closed) return;
    set_free(host);
    if (closed) closed(closed_owner);
}

static void on_source_closed(void *owner)
{
    struct operator_host *host = owner;

    host->source_closed = true;
    finish(host);
}

static void on_uplink_closed(void *owner)
{
    struct operator_host *host = owner;

    host->uplink_closed = true;
    finish(host);
}

/* The reclaims stay on disk as they are: the next start takes them up. */
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
    timer_stop(&host->settle);
    timer_stop(&host->due);
    timer_stop(&host->stale);
    task_cancel(&host->step);
    /* The uplink's done() comes in a later turn, so `host` outlives this call. */
    uplink_close(host, on_uplink_closed);
    host->source->ops->close(host->source, on_source_closed, host);
}

static enum err open_parts(struct operator_host *host, const struct operator_options *options,
                           struct note *note)
{
    enum err err = operator_meters_open(options->metrics, &host->meters, note);

    if (!err) err = id_check("cluster-id", str_from(host->cluster), ID_MAX, note);
    if (!err) err = demand_open(entropy_u64(host->io->entropy), &host->demand);
    if (!err) err = nodes_open(entropy_u64(host->io->entropy), &host->nodes);
    if (!err) err = operator_reclaims_open(host, note);
    if (!err) err = operator_template_open(host, options->template_file, note);
    if (!err) err = operator_timers_open(host);
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
    task_init(&host->step, step);
    err = open_parts(host, options, note);
    if (!err) err = uplink_open(host, options, note);
    if (err) {
        set_free(host);
        return err;
    }
    host->around = (struct operator_around){.io = host->io,
                                            .log = &host->log,
                                            .metrics = options->metrics,
                                            .cluster = str_from(host->cluster),
                                            .state_dir = host->state_dir};
    *ret_host = host;
    return ERR_OK;
}

enum err operator_start(struct operator_host *host, struct note *note)
{
    enum err err = host->source->ops->start(host->source, host, &host->around, note);

    if (err) return err;
    host->started = true;
    timer_start_in(&host->tick, 0);
    return ERR_OK;
}
