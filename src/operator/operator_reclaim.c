/* SPDX-License-Identifier: Apache-2.0 */
/* Reclaim orders of the shard: saves each order, then passes it to the source, then acknowledges
 * it. Runs on the loop's thread; another thread writes the file. */
#include <stdio.h>

#include "operator/operator_internal.h"
#include "operator/reclaims_file.h"

#define RECLAIMS_NAME "reclaims.ndjson"
enum { RECLAIMS_MODE = 0600 };

/* -- saving and loading the orders -- */

static void on_written(void *owner, uint64_t mark)
{
    struct operator_host *host = owner;

    reclaims_saved(host->reclaims, mark);
    operator_step_later(host);
}

static void operator_reclaim_on_trouble(void *owner, enum err err, const char *why)
{
    struct operator_host *host = owner;

    host->counts.save_errors++;
    LOG_ERROR(&host->log, "reclaims cannot be saved: no drain starts until they can be saved",
              log_err("err", err), log_text("why", why));
}

static void reclaims_keep(struct operator_host *host)
{
    uint64_t change = reclaims_change(host->reclaims);

    if (host->keeping == change || side_file_busy(host->keeper)) return;
    /* Without memory for the content, the next tick retries. */
    if (reclaims_write(host->reclaims, side_file_room(host->keeper))) return;
    host->keeping = change;
    side_file_write(host->keeper, change);
}

static enum err reclaims_load(struct operator_host *host, struct note *note)
{
    const char *lost = "";
    struct str text;
    enum err err = side_file_read(host->keeper, &text, note);

    if (err == ERR_NOT_FOUND) return ERR_OK;
    if (!err) {
        err = reclaims_read(host->reclaims, text, note);
        lost = " (without it, orders of before are forgotten)";
    }
    if (err) note_prefix(note, "%s/" RECLAIMS_NAME "%s", host->state_dir, lost);
    return err;
}

enum err operator_reclaims_open(struct operator_host *host, struct note *note)
{
    struct side_file_options options = {
        .io = host->io,
        .thread = "reclaims",
        .directory = host->state_dir,
        .path = RECLAIMS_NAME,
        .bytes_max = RECLAIMS_FILE_MAX,
        .mode = RECLAIMS_MODE,
        .on_written = on_written,
        .on_trouble = operator_reclaim_on_trouble,
        .owner = host,
    };
    enum err err = reclaims_open(entropy_u64(host->io->entropy), &host->reclaims);

    if (err) return err;
    reclaims_reporting(host->reclaims, true); /* assumed until a shard refuses a report */
    err = side_file_open(&options, &host->keeper, note);
    return err ? err : reclaims_load(host, note);
}

/* -- executing orders that are due -- */

static void reclaim_begin(struct operator_host *host, const struct reclaim *r, wall_time now)
{
    const struct cluster_node *node = nodes_find(host->nodes, r->machine);
    struct reclaim_order order = {
        .instruction_id = r->id,
        .machine_id = r->machine,
        .node_name = node ? node->node_name : STR_EMPTY,
        .provider_id = node ? node->provider_id : STR_EMPTY,
        .grace_ms = r->deadline.ms > now.ms ? r->deadline.ms - now.ms : 0,
        .preemptor_priority = r->preemptor_priority,
        .resumed = r->resumed,
    };

    LOG_INFO(&host->log, "reclaim started", log_str("machine", r->machine),
             log_str("instruction", r->id), log_u64("grace_ms", order.grace_ms),
             log_bool("resumed", r->resumed));
    assert(r->phase == RECLAIM_BEGUN && r->id.len && r->machine.len); /* invariant I6 */
    nodes_reclaim(host->nodes, r->machine, NODE_DRAINING);
    host->source->ops->reclaim(host->source, &order);
}

/* If the answer queue is full, the report is sent again soon. */
static void reclaim_report(struct operator_host *host, const struct reclaim *r, wall_time now)
{
    bool gave_up = r->phase == RECLAIM_GAVE_UP;
    struct str error =
        gave_up ? STR("the operator could not drain the machine; its log says why") : STR_EMPTY;
    uint64_t left_ms = r->deadline.ms > now.ms ? r->deadline.ms - now.ms : 0;
    enum err err =
        frames_drain_report(&host->parts,
                            &(struct drain_message){r->id, r->machine, r->phase == RECLAIM_DRAINED,
                                                    left_ms / MS_PER_SECOND, error},
                            &host->frame);

    if (!operator_answer(host, err)) reclaims_unsent(host->reclaims, r->id, now);
}

static void operator_reclaim_on_due(void *context, enum reclaim_due due, const struct reclaim *r)
{
    struct operator_host *host = context;

    switch (due) {
    case RECLAIM_BEGIN: reclaim_begin(host, r, clock_wall(host->io->clock)); break;
    case RECLAIM_ACKNOWLEDGE:
        (void)operator_answer(host, frames_reclaim_ack(&host->parts, r->id, &host->frame));
        break;
    case RECLAIM_EXPIRED:
        host->counts.reclaims_expired++;
        LOG_WARN(&host->log, "reclaim: the grace period ended before the machine was empty",
                 log_str("machine", r->machine), log_str("instruction", r->id));
        nodes_reclaim(host->nodes, r->machine, NODE_FAILED);
        if (r->phase != RECLAIM_ORDERED) host->source->ops->reclaim_over(host->source, r->id);
        break;
    case RECLAIM_REPLACED:
        if (r->phase != RECLAIM_ORDERED) host->source->ops->reclaim_over(host->source, r->id);
        break;
    case RECLAIM_REPORT: reclaim_report(host, r, clock_wall(host->io->clock)); break;
    }
}

void operator_reclaims_step(struct operator_host *host)
{
    reclaims_step(host->reclaims, clock_wall(host->io->clock), host->connected,
                  operator_reclaim_on_due, host);
    reclaims_keep(host);
    host->counts.reclaims = reclaims_running(host->reclaims);
}

/* -- messages from the shard and from the source -- */

/* An order with several machines becomes one order per machine; the first has the instruction's
 * id. */
enum err operator_reclaims_take(struct operator_host *host,
                                const Bigfleet__V1alpha1__ReclaimInstruction *order,
                                struct note *note)
{
    struct str instruction = str_from(order->instruction_id);
    wall_time now = clock_wall(host->io->clock);

    if (id_check("instruction_id", instruction, ID_MAX, note)) return ERR_INVALID;
    for (size_t i = 0; i < order->n_nodes; i++) {
        struct note why = {""};
        char id[ID_MAX + 24];
        int len = snprintf(id, sizeof id, "%s.%zu", order->instruction_id, i);
        struct str part = i > 0 ? str_of(id, (size_t)len) : instruction;
        enum err err =
            reclaims_order(host->reclaims, part, str_from(order->nodes[i]),
                           order->grace_period_seconds, order->preemptor_priority, now, &why);
        if (!err) host->counts.reclaims_ordered++;
        if (err && err != ERR_EXISTS)
            LOG_ERROR(&host->log,
                      "reclaim rejected: the provider drains the machine without the operator",
                      log_text("machine", order->nodes[i]), log_err("err", err),
                      log_text("why", why.text));
    }
    operator_step_later(host);
    return ERR_OK;
}

void operator_reclaim_started(struct operator_host *host, struct str instruction_id)
{
    if (reclaims_started(host->reclaims, instruction_id)) operator_step_later(host);
}

void operator_reclaim_ended(struct operator_host *host, struct str instruction_id, struct str why)
{
    const struct reclaim *r = reclaims_find(host->reclaims, instruction_id);
    enum node_phase phase = why.len ? NODE_FAILED : NODE_DRAINED;

    if (!r || r->phase == RECLAIM_ORDERED || reclaim_is_over(r->phase)) return;
    (*(why.len ? &host->counts.reclaims_failed : &host->counts.reclaims_drained))++;
    if (why.len)
        LOG_WARN(&host->log, "reclaim: the machine could not be drained",
                 log_str("machine", r->machine), log_str("why", why));
    else
        LOG_INFO(&host->log, "reclaim finished", log_str("machine", r->machine));
    nodes_reclaim(host->nodes, r->machine, phase);
    /* The reclaim may end before its start was acknowledged. */
    if ((r->phase == RECLAIM_STARTED || !why.len) && !r->acknowledged && host->connected)
        (void)operator_answer(host, frames_reclaim_ack(&host->parts, r->id, &host->frame));
    reclaims_ended(host->reclaims, instruction_id, !why.len);
    operator_step_later(host);
}
