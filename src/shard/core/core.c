/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes the core, sets the defaults of its options, and begins its events. Decide
 * thread. */
#include "shard/core/running_actions.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { DETAILS_MAX = 1024 }; /* bytes of one log line; longer lines are cut */
#define SCRATCH_BYTES_MAX ((size_t)1 << 30)

static void default_u32(uint32_t *option, uint32_t value)
{
    if (!*option) *option = value;
}

static void default_ms(uint64_t *option, uint64_t ms)
{
    if (!*option) *option = ms;
}

static struct core_options options_filled(const struct core_options *given)
{
    struct core_options o = *given;

    default_u32(&o.machines_max, INVENTORY_MACHINES_MOST);
    default_u32(&o.rows_max, NEEDS_ROWS_MOST);
    default_u32(&o.clusters_max, 10 * 1000);
    default_u32(&o.concurrency, 64);
    default_u32(&o.concurrency_first, 8);
    default_u32(&o.queue_max, 64 << 10);
    default_u32(&o.blobs_max, 100 * 1000);
    default_ms(&o.execute_timeout_ms, 30 * MS_PER_SECOND);
    default_ms(&o.bootstrap_timeout_ms, 30 * MS_PER_SECOND);
    default_ms(&o.operator_return_ms, 120 * MS_PER_SECOND);
    default_ms(&o.capacity_interval_ms, 5 * MS_PER_SECOND);
    default_u32(&o.hints_most, 2500);
    default_ms(&o.rest_first_ms, 30 * MS_PER_SECOND);
    default_ms(&o.rest_most_ms, 3600 * MS_PER_SECOND);
    default_ms(&o.stuck_ms, 600 * MS_PER_SECOND);
    for (int type = 0; type < CAPACITY_TYPE_COUNT; type++)
        default_ms(&o.idle_hold_ms[type], capacity_type_idle_hold_ms((enum capacity_type)type));
    if (o.removal_fraction == 0) o.removal_fraction = 0.1;
    if (o.weights.priority == 0 && o.weights.drain == 0 && o.weights.interruption == 0 &&
        o.weights.reclamation == 0 && o.weights.drain_ms == 0) {
        struct decide_input usual;
        decide_input_init(&usual, (mono_time){0});
        o.weights = usual.weights;
    }
    return o;
}

/* The configuration has already checked these bounds. */
static void options_check(const struct core_options *o)
{
    assert(o->removal_fraction > 0 && o->removal_fraction <= 1);
    assert(o->rails.reclaim_fraction >= 0 && o->rails.reclaim_fraction <= 1);
    assert(isfinite(o->weights.priority) && isfinite(o->weights.drain));
    assert(isfinite(o->weights.interruption) && isfinite(o->weights.reclamation));
    assert(o->rest_first_ms <= o->rest_most_ms);
}

static enum err parts_open(struct core *core)
{
    const struct core_options *o = &core->options;
    struct inventory_options inventory = {.machines_max = o->machines_max, .seed = o->seed};
    struct needs_options needs = {
        .rows_max = o->rows_max, .seed = o->seed, .dimensions = &core->dimensions};
    struct decider_options decider;
    enum err err = inventory_open(&inventory, &core->inventory);

    if (!err) err = needs_open(&needs, &core->needs);
    if (err) return err;
    decider = (struct decider_options){
        .inventory = core->inventory, .needs = core->needs, .dimensions = &core->dimensions};
    err = decider_open(&decider, &core->decider);
    if (!err) err = parking_open(&core->parking);
    if (!err) err = ledger_open(o->seed, &core->ledger);
    if (!err) err = running_open(core);
    if (!err) err = cordons_init(core, o->cordons, o->cordon_count);
    core->options.cordons = NULL; /* were borrowed */
    return err;
}

enum err core_open(const struct core_options *options, struct core **ret_core)
{
    struct core *core = calloc(1, sizeof *core);
    enum err err;

    if (!core) return ERR_NOMEM;
    core->options = options_filled(options);
    options_check(&core->options);
    dimensions_init(&core->dimensions);
    arena_init(&core->scratch, SCRATCH_BYTES_MAX);
    clients_init(&core->clients, core->options.clusters_max, core->options.seed);
    availability_init(&core->availability, core->options.rest_first_ms, core->options.rest_most_ms);
    concurrency_init(&core->concurrency, core->options.concurrency_first, core->options.concurrency,
                     core->options.execute_timeout_ms);
    core->counts.concurrency = core->concurrency.limit;
    tally_init(&core->tally, core->options.seed);
    scope_init(&core->scope, core->options.seed);
    err = parts_open(core);
    if (err) {
        core_close(core);
        return err;
    }
    *ret_core = core;
    return ERR_OK;
}

void core_close(struct core *core)
{
    if (!core) return;
    running_close(core);
    ledger_close(core->ledger);
    parking_close(core->parking);
    decider_close(core->decider);
    needs_close(core->needs);
    inventory_close(core->inventory);
    views_deinit(&core->views);
    availability_deinit(&core->availability);
    scope_deinit(&core->scope);
    cordons_deinit(&core->cordons);
    tally_deinit(&core->tally);
    clients_deinit(&core->clients);
    arena_deinit(&core->scratch);
    dimensions_deinit(&core->dimensions);
    free(core);
}

struct dimensions *core_dimensions(struct core *core)
{
    return &core->dimensions;
}

const struct core_counts *core_counts(const struct core *core)
{
    return &core->counts;
}

/* Checks the invariants of core.h for one task per cycle, because checking all tasks takes too
 * long. */
static void core_check(const struct core *core)
{
    const struct running_actions *h = core->running;
    const struct core_counts *c = &core->counts;
    uint64_t tasks = (uint64_t)c->queued + c->inflight + c->drains_waiting + c->blobs_waiting;
    uint32_t slot = (uint32_t)c->cycles % (h->slots.used + 1);
    const struct machine_task *task = slot < h->slots.used ? slot_map_get(&h->slots, slot) : NULL;

    assert(tasks <= h->works.count && tasks <= h->slots.used);                             /* I1 */
    assert(!task || (task->work->task == task && task_find(core, task->machine) == task)); /* I1 */
    assert(c->inflight <= core->options.concurrency);                                      /* I2 */
    assert(c->blobs_waiting <= core->options.blobs_max);                                   /* I2 */
    assert(!c->queued ==
           (list_empty(&h->waiting) && list_empty(&h->creates) && list_empty(&h->ready))); /* I3 */
}

void core_end(const struct core *core)
{
    core_check(core);
    for (size_t i = core->out_first; i < core->out->count; i++) {
        const struct effect *effect = &core->out->items[i];
        const struct machine_task *task = task_numbered(core, effect->action);
        effect_check(effect); /* I6 */
        if (effect->kind > EFFECT_DELETE && effect->kind != EFFECT_ASK_BLOB) continue;
        assert(core_acts(core) && core->running->settled);                           /* I4 */
        assert(task && task->step && call_rules[task->step].effect == effect->kind); /* I5 */
        assert(task_find(core, effect->machine) == task);                            /* I5 */
    }
}

void core_begin(struct core *core, mono_time now, struct effects *out)
{
    assert(now.ms >= core->now.ms); /* I7 */
    core->now = now;
    core->out = out;
    core->out_first = out->count;
    arena_reset(&core->scratch);
}

void core_begin_at(struct core *core, mono_time now, wall_time wall, struct effects *out)
{
    core_check(core);
    core->wall = wall;
    core_begin(core, now, out);
}

void core_log(const struct core *core, enum core_level level, const char *text, const char *format,
              ...)
{
    char details[DETAILS_MAX];
    struct effect *line;
    va_list args;
    struct str copy;
    int len;

    va_start(args, format);
    len = vsnprintf(details, sizeof details, format, args);
    va_end(args);
    if (len < 0) return;
    if (len >= (int)sizeof details) len = (int)sizeof details - 1;
    if (text_copy(&core->out->arena, str_of(details, (size_t)len), &copy)) return;
    line = effects_add(core->out, EFFECT_LOG);
    if (!line) return;
    line->log.level = level;
    line->log.text = text;
    line->log.details = copy;
}
