/* SPDX-License-Identifier: Apache-2.0 */
#include "decide/loop.h"

#include <stdio.h>

#include "lib/test.h"
#include "model/metadata.h"

enum { LOST_REPLY_MS = 3 * LOOP_CYCLE_MS, BACK_OFF_MS = 60 * 1000 };
#define NOTHING_DUE UINT64_MAX

/* The half that dies with the shard. */
static void shard_open(struct loop *loop)
{
    struct inventory_options inventory = {.machines_max = LOOP_MACHINES_MAX, .seed = 1};
    struct needs_options needs = {.rows_max = 4096, .seed = 1};
    struct decider_options engine = {.scratch_max = (size_t)1 << 30};

    needs.dimensions = engine.dimensions = &loop->dimensions;
    CHECK_OK("inventory", inventory_open(&inventory, &loop->inventory));
    CHECK_OK("needs", needs_open(&needs, &loop->needs));
    engine.inventory = loop->inventory;
    engine.needs = loop->needs;
    CHECK_OK("engine", decider_open(&engine, &loop->engine));
    CHECK_OK("parking", parking_open(&loop->parking));
    CHECK_OK("ledger", ledger_open(1, &loop->ledger));
}

static void shard_close(struct loop *loop)
{
    ledger_close(loop->ledger);
    parking_close(loop->parking);
    decider_close(loop->engine);
    needs_close(loop->needs);
    inventory_close(loop->inventory);
}

void loop_open(struct loop *loop, uint64_t seed, struct loop_provider provider)
{
    memset(loop, 0, sizeof *loop);
    arena_init(&loop->arena, (size_t)1 << 30);
    dimensions_init(&loop->dimensions);
    shard_open(loop);
    prng_seed(&loop->prng, seed);
    loop->provider = provider;
    loop->now_ms = 1000 * 1000;
}

void loop_close(struct loop *loop)
{
    shard_close(loop);
    dimensions_deinit(&loop->dimensions);
    arena_deinit(&loop->arena);
}

struct resources loop_size(struct loop *loop, uint32_t cpu, uint32_t gpu)
{
    struct resources out = {0};
    uint32_t index;

    CHECK_OK("cpu", dimensions_index(&loop->dimensions, STR("cpu"), &index, NULL));
    if (cpu) CHECK_OK("cpu", resources_set(&out, index, cpu * 1000, QUANTITY_DECIMAL_SI));
    CHECK_OK("gpu", dimensions_index(&loop->dimensions, STR("nvidia.com/gpu"), &index, NULL));
    if (gpu) CHECK_OK("gpu", resources_set(&out, index, gpu * 1000, QUANTITY_DECIMAL_SI));
    return out;
}

void loop_machines(struct loop *loop, const char *prefix, size_t count, struct machine like)
{
    for (size_t i = 0; i < count; i++) {
        struct loop_machine *machine = &loop->machines[loop->machine_count++];

        CHECK("room", loop->machine_count <= LOOP_MACHINES_MAX);
        snprintf(machine->id, sizeof machine->id, "%s-%04zu", prefix, i);
        machine->due_ms = NOTHING_DUE;
        like.id = str_from(machine->id);
        if (like.state != MACHINE_SPECULATIVE) like.host_provider = like.host_ref = STR("h");
        CHECK_OK("insert",
                 inventory_insert(loop->inventory, &like, (mono_time){loop->now_ms}, NULL));
    }
}

void loop_demand(struct loop *loop, const char *cluster, const struct loop_need *needs,
                 size_t count)
{
    struct need *rows = arena_calloc(&loop->arena, count, sizeof *rows);

    for (size_t i = 0; i < count; i++) {
        struct requirement *requirements = arena_calloc(&loop->arena, 2, sizeof *requirements);
        struct str *type = arena_calloc(&loop->arena, 1, sizeof *type);
        struct spread *spread = ARENA_NEW(&loop->arena, struct spread);
        struct profile given = {.priority = needs[i].priority,
                                .interruption_bucket = needs[i].interruption_bucket,
                                .requirements = requirements,
                                .spreads = spread,
                                .spread_count = needs[i].spread != NULL};

        *type = str_from(needs[i].type);
        requirements[given.requirement_count++] =
            (struct requirement){LABEL_INSTANCE_TYPE, OPERATOR_IN, type, 1};
        if (needs[i].same)
            requirements[given.requirement_count++] =
                (struct requirement){str_from(needs[i].same), OPERATOR_SAME, NULL, 0};
        *spread = (struct spread){str_from(needs[i].spread), 1, SPREAD_DO_NOT_SCHEDULE};
        rows[i].cluster = str_from(cluster);
        rows[i].group = str_from(needs[i].group);
        rows[i].arrival_unix_ns = (int64_t)i + 1;
        CHECK_OK("profile", profile_build(&loop->arena, &given, &rows[i].profile, NULL));
        rows[i].min_unit = loop_size(loop, needs[i].cpu, needs[i].gpu);
        resource_sum_clear(&rows[i].aggregate);
        resource_sum_scale(&rows[i].aggregate, &rows[i].min_unit, needs[i].units);
    }
    CHECK_OK("replace", needs_replace(loop->needs, str_from(cluster), rows, count, NULL));
}

/* ---- the provider ---- */

static struct loop_machine *find(struct loop *loop, struct str id)
{
    for (size_t i = 0; i < loop->machine_count; i++)
        if (str_equal(id, str_from(loop->machines[i].id))) return &loop->machines[i];
    CHECK("a machine of ours", false);
    return NULL;
}

static void put(struct loop *loop, const struct machine *machine, enum inventory_source source)
{
    struct note note = {""};
    enum err err =
        inventory_apply(loop->inventory, machine, source, (mono_time){loop->now_ms}, NULL, &note);

    CHECK_OK(note.text, err);
}

static void clear_binding(struct machine *m)
{
    m->cluster = m->destination = STR_EMPTY;
    m->stamp = (struct machine_stamp){0};
}

/* What is under way ends. */
static void finish(struct loop *loop, struct loop_machine *machine)
{
    struct arena arena;
    struct inventory_entry entry;
    struct machine *m = &entry.machine;
    enum inventory_source source = INVENTORY_DRIVEN;

    arena_init(&arena, 1 << 20);
    CHECK_OK("get", inventory_get(loop->inventory, str_from(machine->id), &arena, &entry));
    machine->due_ms = NOTHING_DUE;
    if (machine->will_fail && m->state != MACHINE_FAILED) {
        m->state = MACHINE_FAILED;
        m->last_error = STR("the provider says no");
        clear_binding(m);
        m->promised = (struct machine_promise){0};
        machine->due_ms = loop->now_ms + BACK_OFF_MS;
    } else if (m->state == MACHINE_CREATING) {
        m->state = MACHINE_IDLE;
        m->host_provider = m->host_ref = STR("h");
        m->promised = (struct machine_promise){.cluster = m->destination, /* empty: nobody's */
                                               .fingerprint = m->stamp.fingerprint,
                                               .group = m->stamp.group,
                                               .priority = m->stamp.priority};
        clear_binding(m);
    } else if (m->state == MACHINE_CONFIGURING) {
        m->state = MACHINE_CONFIGURED;
    } else if (m->state == MACHINE_DRAINING) {
        m->state = MACHINE_IDLE;
        clear_binding(m);
    } else { /* Deleting, or Failed and given up */
        if (m->state == MACHINE_FAILED) source = INVENTORY_OBSERVED;
        m->state = MACHINE_SPECULATIVE;
        m->host_provider = m->host_ref = m->last_error = STR_EMPTY;
        m->promised = (struct machine_promise){0};
    }
    machine->will_fail = false;
    put(loop, m, source);
    arena_deinit(&arena);
}

static uint64_t delay(struct loop *loop, enum action_kind kind)
{
    const struct loop_provider *p = &loop->provider;
    uint64_t ms;

    switch (kind) {
    case ACTION_BOOTSTRAP: ms = p->configure_ms; break;
    case ACTION_PROVISION: ms = p->create_ms; break;
    case ACTION_DELETE: ms = p->delete_ms; break;
    default: ms = prng_between(&loop->prng, p->drain_min_ms, p->drain_max_ms); break;
    }
    if (prng_chance(&loop->prng, p->lost_per_million)) ms += LOST_REPLY_MS;
    return ms;
}

static void begin(struct loop *loop, const struct action *action)
{
    struct loop_machine *machine = find(loop, action->machine);
    struct arena arena;
    struct inventory_entry entry;
    struct machine *m = &entry.machine;

    arena_init(&arena, 1 << 20);
    CHECK_OK("get", inventory_get(loop->inventory, action->machine, &arena, &entry));
    switch (action->kind) {
    case ACTION_BOOTSTRAP:
    case ACTION_PROVISION:
        m->state = action->kind == ACTION_BOOTSTRAP ? MACHINE_CONFIGURING : MACHINE_CREATING;
        if (action->kind == ACTION_BOOTSTRAP)
            m->cluster = action->cluster;
        else
            m->destination = action->cluster;
        m->promised = (struct machine_promise){0};
        m->stamp = (struct machine_stamp){
            .priority = action->priority,
            .interruption_dollars = action->interruption_dollars,
            .reclamation_dollars = action->reclamation_dollars,
            .fingerprint = action->key.fingerprint,
            .group = action->key.group,
        };
        break;
    case ACTION_PREEMPT:
    case ACTION_RECLAIM:
        m->state = MACHINE_DRAINING;
        m->promised = (struct machine_promise){
            .cluster = action->key.cluster,
            .fingerprint = action->key.fingerprint,
            .group = action->key.group,
            .priority = action->priority,
        };
        break;
    case ACTION_DELETE: m->state = MACHINE_DELETING; break;
    }
    put(loop, m, INVENTORY_DRIVEN);
    machine->will_fail = prng_chance(&loop->prng, loop->provider.fail_per_million);
    machine->due_ms = loop->now_ms + delay(loop, action->kind);
    arena_deinit(&arena);
}

void loop_lose(struct loop *loop, const char *id)
{
    struct loop_machine *machine = find(loop, str_from(id));
    struct arena arena;
    struct inventory_entry entry;

    arena_init(&arena, 1 << 20);
    CHECK_OK("get", inventory_get(loop->inventory, str_from(id), &arena, &entry));
    entry.machine.state = MACHINE_FAILED;
    entry.machine.last_error = STR("interrupted");
    clear_binding(&entry.machine);
    entry.machine.promised = (struct machine_promise){0};
    put(loop, &entry.machine, INVENTORY_OBSERVED);
    machine->due_ms = loop->now_ms + BACK_OFF_MS;
    machine->will_fail = false;
    arena_deinit(&arena);
}

/* ---- the end of a shard, and its beginning ---- */

static struct str kept(struct loop *loop, struct str text)
{
    return str_of(arena_dup(&loop->arena, text), text.len);
}

struct machine loop_machine(struct loop *loop, const char *id)
{
    struct inventory_entry entry;
    struct machine *m = &entry.machine;
    struct label *labels;

    CHECK_OK("get", inventory_get(loop->inventory, str_from(id), &loop->arena, &entry));
    labels = arena_calloc(&loop->arena, m->attributes.label_count, sizeof *labels);
    for (size_t i = 0; i < m->attributes.label_count; i++) {
        labels[i].key = kept(loop, m->attributes.labels[i].key);
        labels[i].value = kept(loop, m->attributes.labels[i].value);
    }
    m->attributes.labels = labels;
    m->attributes.instance_type = kept(loop, m->attributes.instance_type);
    m->attributes.zone = kept(loop, m->attributes.zone);
    m->id = kept(loop, m->id);
    m->host_provider = kept(loop, m->host_provider);
    m->host_ref = kept(loop, m->host_ref);
    m->cluster = kept(loop, m->cluster);
    m->last_error = kept(loop, m->last_error);
    m->stamp.fingerprint = kept(loop, m->stamp.fingerprint);
    m->stamp.group = kept(loop, m->stamp.group);
    m->destination = m->promised.cluster = STR_EMPTY; /* nobody asks; a List does not carry them */
    m->promised = (struct machine_promise){0};
    return *m;
}

/* Configure alone gives the provider metadata, which it keeps until the machine is drained. */
static void list(struct loop *loop, struct machine *m)
{
    struct machine_metadata written = {.stamp = m->stamp}, read = {0};
    struct label pairs[METADATA_MAX];
    size_t count;

    m->stamp = (struct machine_stamp){0};
    if (m->state == MACHINE_CREATING || !machine_state_keeps_stamp(m->state)) return;
    CHECK_OK("encode", metadata_encode(&loop->arena, &written, pairs, &count));
    CHECK_OK("decode", metadata_decode(pairs, count, &read, NULL));
    m->stamp = read.stamp;
}

void loop_restart(struct loop *loop)
{
    struct machine *all = arena_calloc(&loop->arena, loop->machine_count, sizeof *all);

    for (size_t i = 0; i < loop->machine_count; i++) {
        all[i] = loop_machine(loop, loop->machines[i].id);
        list(loop, &all[i]);
    }
    shard_close(loop);
    shard_open(loop);
    for (size_t i = 0; i < loop->machine_count; i++)
        CHECK_OK("list",
                 inventory_insert(loop->inventory, &all[i], (mono_time){loop->now_ms}, NULL));
}

/* ---- the cycle ---- */

void loop_cycle(struct loop *loop)
{
    struct decide_input input;
    struct rails_passed passed;
    struct arena arena;
    struct action *copies;

    for (size_t i = 0; i < loop->machine_count; i++)
        if (loop->machines[i].due_ms <= loop->now_ms) finish(loop, &loop->machines[i]);
    decide_input_init(&input, (mono_time){loop->now_ms});
    input.parked = parking_parked(loop->parking, &input.parked_count);
    CHECK_OK("decide", decide(loop->engine, &input, &loop->decision));
    CHECK_OK("parking", parking_note(loop->parking, loop->decision));
    CHECK_OK("ledger", ledger_note(loop->ledger, loop->decision));
    arena_init(&arena, (size_t)1 << 28);
    CHECK_OK("rails", rails_pass(loop->decision, loop->inventory, &loop->rails, &arena, &passed));
    /* A change of the inventory ends the loan of the decision's texts: they are copied first. */
    copies = arena_calloc(&arena, passed.action_count, sizeof *copies);
    for (size_t i = 0; i < passed.action_count; i++) {
        struct action *copy = &copies[i];
        struct str *texts[] = {&copy->machine, &copy->cluster, &copy->key.cluster,
                               &copy->key.fingerprint, &copy->key.group};

        *copy = *passed.actions[i];
        for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++)
            texts[t]->at = arena_dup(&arena, *texts[t]);
    }
    loop->last_actions = passed.action_count;
    for (size_t i = 0; i < passed.action_count; i++) {
        loop->actions[copies[i].kind]++;
        begin(loop, &copies[i]);
    }
    arena_deinit(&arena);
    loop->now_ms += LOOP_CYCLE_MS;
    loop->cycles++;
}

void loop_run(struct loop *loop, size_t cycles)
{
    while (cycles-- > 0) loop_cycle(loop);
}

size_t loop_settle(struct loop *loop, size_t most)
{
    for (size_t cycle = 0; cycle < most; cycle++) {
        bool under_way = false;

        loop_cycle(loop);
        for (size_t i = 0; i < loop->machine_count; i++)
            if (loop->machines[i].due_ms != NOTHING_DUE) under_way = true;
        if (!under_way && loop->last_actions == 0) return cycle;
    }
    return SIZE_MAX;
}

size_t loop_count(const struct loop *loop, enum machine_state state)
{
    struct inventory_counts counts = inventory_counts(loop->inventory);
    size_t sum = 0;

    for (int type = 0; type < CAPACITY_TYPE_COUNT; type++) sum += counts.by_state[state][type];
    return sum;
}

size_t loop_actions(const struct loop *loop)
{
    size_t sum = 0;

    for (int kind = 0; kind < LOOP_KINDS; kind++) sum += loop->actions[kind];
    return sum;
}

size_t loop_bound(const struct loop *loop, const char *cluster)
{
    return inventory_cluster_count(loop->inventory, str_from(cluster), MACHINE_CONFIGURED);
}

size_t loop_unsatisfied(const struct loop *loop)
{
    size_t count = 0;

    for (size_t i = 0; i < loop->decision->verdict_count; i++)
        count += !loop->decision->verdicts[i].satisfied;
    return count;
}
