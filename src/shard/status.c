/* SPDX-License-Identifier: Apache-2.0 */
/* ShardView: shows the last cycle to people. After each cycle the decide thread copies the cycle's
 * data, and the loop answers requests from the copy. A shard with many cohorts copies them only
 * while clients ask. */
#include <stdlib.h>

#include "shard/shard_internal.h"
#include "wire/pack.h"

enum {
    COHORTS_FEW = 2000,
    COHORTS_MOST = 100000,
    ROWS_MOST = 2000,
    WANTED_MS = 60000,
    INVENTORY_BYTES_MAX = 1 << 20,
    STATUS_ANSWER_BYTES_MAX = 3 << 20,
    ROW_BYTES_MAX = 64 << 10,
};

/* -- on the decide thread -- */

static void pack_holding(struct pack *rows, const struct holding *h, struct buf *scratch)
{
    struct pack row = pack_begin(scratch);
    char name[MACHINE_NAME_CAP];

    pack_text(&row, 1, str_from(machine_state_name(h->state, name)));
    pack_text(&row, 2, h->type);
    pack_text(&row, 3, h->zone);
    pack_text(&row, 4, str_from(capacity_type_name(h->capacity_type, name)));
    pack_double(&row, 5, h->price);
    pack_u64(&row, 6, h->count);
    pack_row(rows, 22, &row);
}

void status_look(struct decide_context *context, bool wanted, struct arena *arena,
                 struct status_cycle *ret_cycle)
{
    struct holding *holdings = NULL;
    struct pack rows;
    size_t count = 0;
    enum err err =
        core_holdings(context->core, wanted ? COHORTS_MOST : COHORTS_FEW, arena, &holdings, &count);

    buf_init(&ret_cycle->inventory, INVENTORY_BYTES_MAX);
    rows = pack_begin(&ret_cycle->inventory);
    for (size_t i = 0; !err && i < count && i < ROWS_MOST; i++)
        pack_holding(&rows, &holdings[i], &context->frames.part);
    ret_cycle->left_out = err || rows.err || count > ROWS_MOST;
    if (rows.err) buf_clear(&ret_cycle->inventory); /* a partial inventory would mislead */
}

/* -- on the loop -- */

bool status_wanted(const struct shard *shard)
{
    return !mono_due(shard->status.wanted_until, loop_now(shard->io->loop));
}

void status_take(struct shard *shard, struct status_cycle *own_cycle)
{
    struct status *s = &shard->status;

    buf_deinit(&s->last.inventory);
    s->last = *own_cycle;
    own_cycle->inventory = (struct buf){0};
    s->at = clock_wall(shard->io->clock);
}

static void pack_named(struct pack *answer, uint32_t field, const char *name, uint64_t count,
                       struct buf *scratch)
{
    struct pack row = pack_begin(scratch);

    pack_text(&row, 1, str_from(name));
    pack_u64(&row, 2, count);
    pack_row(answer, field, &row);
}

static void pack_phases(struct pack *answer, const struct status *s, struct buf *scratch)
{
    for (size_t i = 0; i < PHASE_COUNT; i++) {
        struct pack row = pack_begin(scratch);

        pack_text(&row, 1, str_from(cycle_phase_name((enum cycle_phase)i)));
        pack_double(&row, 2, s->last.phases[i] * 1000);
        pack_row(answer, 6, &row);
    }
}

static void status_pack_counts(struct pack *answer, const struct core_counts *counts,
                               struct buf *scratch)
{
    char name[MACHINE_NAME_CAP];

    for (uint32_t state = 0; state < MACHINE_STATE_COUNT; state++) {
        uint64_t machines = 0;
        for (size_t type = 0; type < CAPACITY_TYPE_COUNT; type++)
            machines += counts->inventory.by_state[state][type];
        if (machines) pack_named(answer, 13, machine_state_name(state, name), machines, scratch);
    }
    for (int kind = 0; kind <= ACTION_DELETE; kind++)
        pack_named(answer, 14, audit_kind_name((enum action_kind)kind), counts->actions[kind],
                   scratch);
}

static void pack_rails(struct pack *answer, const struct shard *shard)
{
    const struct core_options *core = &shard->options.core;

    pack_u64(answer, 15, core->paused);
    pack_u64(answer, 16, core->dry_run);
    pack_u64(answer, 17, core->rails.actions_max);
    pack_double(answer, 18, core->rails.reclaim_fraction);
    pack_u64(answer, 19, core->rollup_guard);
    pack_u64(answer, 20, shard->options.cycle_ms);
}

static void pack_answer(struct pack *answer, struct shard *shard)
{
    struct status *s = &shard->status;
    const struct core_counts *counts = &s->last.counts;

    pack_text(answer, 1, str_from(shard->id));
    pack_u64(answer, 2, shard->options.epoch);
    pack_u64(answer, 3, counts->cycles);
    pack_u64(answer, 4, s->at.ms * NS_PER_MS);
    pack_double(answer, 5, s->last.seconds * 1000);
    pack_phases(answer, s, &s->row);
    pack_u64(answer, 7, counts->inventory.machines);
    pack_u64(answer, 8, sessions_stats(shard->sessions).active);
    pack_u64(answer, 9, counts->queued);
    pack_u64(answer, 10, counts->inflight);
    pack_u64(answer, 11, counts->in_doubt);
    pack_u64(answer, 12, counts->shortfalls);
    status_pack_counts(answer, counts, &s->row);
    pack_rails(answer, shard);
    pack_u64(answer, 21, counts->capped);
    pack_u64(answer, 40, counts->drains_waiting);
    if (!answer->err) answer->err = buf_append(answer->into, buf_peek(&s->last.inventory));
    pack_u64(answer, 23, s->last.left_out);
    pack_u64(answer, 25, shard->holds[CORE_FENCED].begun);
    pack_i64(answer, 26, shard->newest_epoch);
    for (size_t i = 0; i < audit_kept(&shard->audit); i++)
        pack_bytes(answer, 24, audit_line(&shard->audit, i));
}

static void status_on_message(void *service, struct rpc_call *call, const ProtobufCMessage *,
                              struct str)
{
    struct shard *shard = service;
    struct pack answer = pack_begin(&shard->status.answer);

    shard->status.wanted_until = mono_after(loop_now(shard->io->loop), WANTED_MS);
    pack_answer(&answer, shard);
    if (answer.err)
        rpc_fail(call, answer.err, NULL);
    else
        rpc_reply_bytes(call, buf_peek(&shard->status.answer));
}

void status_open(struct shard *shard)
{
    buf_init(&shard->status.answer, STATUS_ANSWER_BYTES_MAX);
    buf_init(&shard->status.row, ROW_BYTES_MAX);
}

void status_close(struct shard *shard)
{
    buf_deinit(&shard->status.last.inventory);
    buf_deinit(&shard->status.answer);
    buf_deinit(&shard->status.row);
}

const struct rpc_handler status_handler = {.on_message = status_on_message};
