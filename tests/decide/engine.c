/* SPDX-License-Identifier: Apache-2.0 */
#include "decide/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/dimensions_find.h"
#include "lib/shard_check.h"
#include "lib/test.h"
#include "shard/decide/decide.h"

struct bench { /* everything one decision needs, built and thrown away */
    struct arena arena;
    struct dimensions dimensions;
    struct inventory *inventory;
    struct needs *needs;
    struct decider *engine;
    struct note note;
};

static void bench_open(struct bench *b)
{
    static uint64_t seed; /* another one each time: no decision depends on a hash table's order */
    struct inventory_options inventory = {.machines_max = 4096, .seed = ++seed};
    struct needs_options needs = {.rows_max = 4096, .seed = seed, .dimensions = &b->dimensions};
    struct decider_options engine = {.scratch_max = (size_t)1 << 30, .dimensions = &b->dimensions};

    memset(b, 0, sizeof *b);
    arena_init(&b->arena, (size_t)1 << 30);
    dimensions_init(&b->dimensions);
    CHECK_OK("inventory", inventory_open(&inventory, &b->inventory));
    CHECK_OK("needs", needs_open(&needs, &b->needs));
    engine.inventory = b->inventory;
    engine.needs = b->needs;
    CHECK_OK("engine", decider_open(&engine, &b->engine));
}

static void bench_close(struct bench *b)
{
    decider_close(b->engine);
    needs_close(b->needs);
    inventory_close(b->inventory);
    dimensions_deinit(&b->dimensions);
    arena_deinit(&b->arena);
}

/* ---- in ---- */

static struct resources resources_of(struct bench *b, const struct oracle_fleet *fleet,
                                     const struct oracle_amounts *amounts)
{
    struct resources out = {0};

    for (int d = 0; d < ORACLE_DIMS && fleet->dimensions[d]; d++) {
        uint32_t index;

        if (amounts->of[d] <= 0) continue;
        CHECK_OK("dimension", dimensions_index(&b->dimensions, str_from(fleet->dimensions[d]),
                                               &index, &b->note));
        CHECK_OK("amount", resources_set(&out, index, amounts->of[d], QUANTITY_DECIMAL_SI));
    }
    return out;
}

static struct machine_stamp stamp_in(const struct oracle_stamp *stamp)
{
    return (struct machine_stamp){
        .priority = stamp->priority,
        .interruption_dollars = stamp->interruption_dollars,
        .reclamation_dollars = stamp->reclamation_dollars,
        .fingerprint = str_from(stamp->fingerprint),
        .group = str_from(stamp->group),
    };
}

static struct machine_promise promise_in(const struct oracle_stamp *stamp)
{
    return (struct machine_promise){
        .cluster = str_from(stamp->cluster),
        .fingerprint = str_from(stamp->fingerprint),
        .group = str_from(stamp->group),
        .priority = stamp->priority,
    };
}

static void add_machine(struct bench *b, const struct oracle_fleet *fleet,
                        const struct oracle_machine *from)
{
    struct label *labels = arena_calloc(&b->arena, ORACLE_LABELS, sizeof *labels);
    struct machine m = {
        .id = str_from(from->id),
        .state = (enum machine_state)from->state,
        .cluster = str_from(from->cluster),
        .capacity_type = (enum capacity_type)from->capacity,
        .resources = resources_of(b, fleet, &from->alloc),
        .price_per_hour = from->price,
        .interruption_probability = from->probability,
        .attributes = {.instance_type = str_from(from->type),
                       .zone = str_from(from->zone),
                       .labels = labels},
    };

    for (int i = 0; i < ORACLE_LABELS && from->labels[i].key[0]; i++)
        labels[m.attributes.label_count++] =
            (struct label){str_from(from->labels[i].key), str_from(from->labels[i].value)};
    CHECK_OK("labels", labels_canonicalise("labels", labels, m.attributes.label_count, &b->note));
    if (from->state != ORACLE_SPECULATIVE && from->state != ORACLE_CREATING)
        m.host_provider = m.host_ref = STR("host");
    if (from->state == ORACLE_FAILED) m.last_error = STR("broken");
    if (from->state == ORACLE_CREATING) m.destination = str_from(from->stamp.cluster);
    if (from->state == ORACLE_CREATING || machine_state_keeps_stamp(m.state))
        m.stamp = stamp_in(&from->stamp);
    if (from->state == ORACLE_DRAINING || from->state == ORACLE_IDLE)
        m.promised = promise_in(&from->drained_for);
    CHECK_OK(b->note.text,
             inventory_insert(b->inventory, &m, (mono_time){from->idle_since_ms}, &b->note));
    if (from->occupancy && from->state == ORACLE_CONFIGURED)
        CHECK_OK("occupancy", inventory_occupy(b->inventory, m.id, (enum occupancy)from->occupancy,
                                               from->disruption));
    if (from->queued) {
        static const enum planned_action actions[] = {PLANNED_NOTHING,   PLANNED_BOOTSTRAP,
                                                      PLANNED_PROVISION, PLANNED_DRAIN,
                                                      PLANNED_DRAIN,     PLANNED_DELETE};
        struct plan plan = {.action = actions[from->queued]};

        if (from->queued == ORACLE_BOOTSTRAP || from->queued == ORACLE_PROVISION) {
            plan.cluster = str_from(from->queued_stamp.cluster);
            plan.stamp = stamp_in(&from->queued_stamp);
        } else if (plan.action == PLANNED_DRAIN) {
            plan.promised = promise_in(&from->queued_stamp);
        }
        CHECK_OK(b->note.text, inventory_plan(b->inventory, m.id, &plan, &b->note));
    }
}

static struct need need_in(struct bench *b, const struct oracle_fleet *fleet,
                           const struct oracle_need *from)
{
    struct requirement *requirements =
        arena_calloc(&b->arena, ORACLE_REQUIREMENTS, sizeof *requirements);
    struct spread *spreads = arena_calloc(&b->arena, ORACLE_SPREADS, sizeof *spreads);
    struct profile given = {
        .requirements = requirements,
        .spreads = spreads,
        .priority = from->profile.priority,
        .interruption_bucket = from->profile.interruption_bucket,
        .reclamation_bucket = from->profile.reclamation_bucket,
    };
    struct need out = {
        .cluster = str_from(from->cluster),
        .min_unit = resources_of(b, fleet, &from->min_unit),
        .arrival_unix_ns = (int64_t)from->arrival,
        .group = str_from(from->group),
    };
    struct resources aggregate = resources_of(b, fleet, &from->aggregate);

    resource_sum_clear(&out.aggregate);
    resource_sum_add(&out.aggregate, &aggregate);
    for (int i = 0; i < ORACLE_REQUIREMENTS && from->profile.requirements[i].key[0]; i++) {
        const struct oracle_requirement *r = &from->profile.requirements[i];
        struct str *values = arena_calloc(&b->arena, ORACLE_VALUES, sizeof *values);
        size_t count = 0;

        for (; count < ORACLE_VALUES && r->values[count][0]; count++)
            values[count] = str_from(r->values[count]);
        requirements[given.requirement_count++] = (struct requirement){
            str_from(r->key), (enum requirement_operator)r->operator, values, count};
    }
    for (int i = 0; i < ORACLE_SPREADS && from->profile.spreads[i].key[0]; i++)
        spreads[given.spread_count++] =
            (struct spread){str_from(from->profile.spreads[i].key), from->profile.spreads[i].skew,
                            (enum spread_when)from->profile.spreads[i].when};
    CHECK_OK(b->note.text, profile_build(&b->arena, &given, &out.profile, &b->note));
    return out;
}

static void add_needs(struct bench *b, const struct oracle_fleet *fleet, struct decide_input *input)
{
    struct need *rows = arena_calloc(&b->arena, fleet->need_count + 1, sizeof *rows);
    struct need_key *parked = arena_calloc(&b->arena, fleet->need_count + 1, sizeof *parked);

    input->parked = parked;
    for (size_t i = 0; i < fleet->need_count; i++) {
        const char *cluster = fleet->needs[i].cluster;
        size_t count = 0, earlier = 0;

        while (strcmp(fleet->needs[earlier].cluster, cluster) != 0) earlier++;
        if (earlier < i) continue; /* its cluster came with an earlier row */
        for (size_t k = i; k < fleet->need_count; k++) {
            if (strcmp(fleet->needs[k].cluster, cluster) != 0) continue;
            rows[count] = need_in(b, fleet, &fleet->needs[k]);
            if (fleet->needs[k].parked)
                parked[input->parked_count++] = (struct need_key){
                    rows[count].cluster, rows[count].profile.fingerprint, rows[count].group};
            count++;
        }
        CHECK_OK(b->note.text, needs_replace(b->needs, str_from(cluster), rows, count, &b->note));
    }
    if (fleet->ready)
        for (size_t i = 0; i < fleet->ready_count; i++)
            CHECK_OK("greet", needs_mark_reported(b->needs, str_from(fleet->ready[i])));
    else
        for (size_t i = 0; i < fleet->machine_count; i++)
            if (fleet->machines[i].cluster[0])
                CHECK_OK("greet",
                         needs_mark_reported(b->needs, str_from(fleet->machines[i].cluster)));
}

/* ---- out ---- */

static void put_text(char *out, size_t cap, struct str text)
{
    snprintf(out, cap, "%.*s", (int)text.len, text.at);
}
#define PUT(field, text) put_text(field, sizeof(field), text)

static struct oracle_sum sum_out(struct bench *b, const struct oracle_fleet *fleet,
                                 const struct amounts *amounts)
{
    struct oracle_sum out = {0};
    struct resource_sum sum;

    amounts_sum(amounts, &sum);
    for (int d = 0; d < ORACLE_DIMS && fleet->dimensions[d]; d++) {
        uint32_t index;

        if (dimensions_find(&b->dimensions, str_from(fleet->dimensions[d]), &index))
            out.of[d] = resource_sum_get(&sum, index);
    }
    return out;
}

static void row_out(struct bench *b, const struct oracle_fleet *fleet, const struct need_verdict *v,
                    struct oracle_row *row)
{
    const struct shortage *s = v->shortage;

    PUT(row->cluster, v->need->key.cluster);
    PUT(row->group, v->need->key.group);
    PUT(row->fingerprint, v->need->key.fingerprint);
    row->aggregate = sum_out(b, fleet, &v->need->aggregate);
    row->min_unit = sum_out(b, fleet, v->need->min_unit);
    row->arrival = (uint64_t)v->need->arrival_unix_ns;
    row->gang = v->need->gang;
    row->parked = v->parked;
    row->satisfied = v->satisfied;
    row->satisfiable = v->satisfiable;
    row->has_domain = v->has_domain;
    if (v->has_domain) PUT(row->domain, v->domain);
    row->claimed = v->claimed;
    row->bootstraps = v->bootstraps;
    row->provisions = v->provisions;
    row->resolved = true;
    row->reason = "";
    if (!s) return;
    row->rem = sum_out(b, fleet, &s->deficit);
    row->unresolved = sum_out(b, fleet, &s->unresolved);
    row->freed = sum_out(b, fleet, &s->freed);
    row->victims = s->victims;
    row->idle_matching = (int)s->idle_count;
    row->speculative_matching = (int)s->speculative_count;
    row->configured_matching = (int)s->configured_count;
    row->reason = verdict_reason_name(s->reason);
    for (int d = 0; d < ORACLE_DIMS; d++)
        if (row->unresolved.of[d] > 0) row->resolved = false;
    for (; row->candidate_count < s->domain_count; row->candidate_count++) {
        struct oracle_candidate *c = &row->candidates[row->candidate_count];

        PUT(c->value, s->domains[row->candidate_count].value);
        c->per_mille = (int)s->domains[row->candidate_count].per_mille;
        c->satisfiable = c->per_mille == 1000;
    }
}

static void action_out(const struct oracle_fleet *fleet, const struct action *from,
                       struct oracle_action *to)
{
    static const enum oracle_kind kinds[] = {ORACLE_BOOTSTRAP, ORACLE_PROVISION, ORACLE_PREEMPT,
                                             ORACLE_RECLAIM, ORACLE_DELETE};

    to->kind = kinds[from->kind];
    while (!str_equal(from->machine, str_from(fleet->machines[to->machine].id))) to->machine++;
    PUT(to->cluster, from->cluster);
    PUT(to->for_whom.cluster, from->key.cluster);
    PUT(to->for_whom.fingerprint, from->key.fingerprint);
    PUT(to->for_whom.group, from->key.group);
    to->for_whom.priority = from->priority;
    to->for_whom.interruption_dollars = from->interruption_dollars;
    to->for_whom.reclamation_dollars = from->reclamation_dollars;
    to->grace_ms = from->grace_ms;
    if (from->kind == ACTION_PREEMPT) to->preemptor = from->priority;
    to->reason = action_reason(from->kind);
}

void engine_decide(const struct oracle_fleet *fleet, struct oracle_decision *ret_decision)
{
    struct bench b;
    struct decide_input input;
    const struct decision *decision;
    struct oracle_decision out = {0};

    bench_open(&b);
    decide_input_init(&input, (mono_time){fleet->now_ms});
    if (fleet->weights)
        input.weights =
            (struct victim_weights){.priority = fleet->weights->priority,
                                    .drain = fleet->weights->drain,
                                    .interruption = fleet->weights->interruption,
                                    .reclamation = fleet->weights->reclamation,
                                    .drain_ms = (uint64_t)(fleet->weights->drain_seconds * 1000)};
    for (size_t i = 0; i < fleet->machine_count; i++) add_machine(&b, fleet, &fleet->machines[i]);
    add_needs(&b, fleet, &input);
    CHECK("every index is right", inventory_check(b.inventory, &b.note));
    CHECK_OK("decide", decide(b.engine, &input, &decision));
    out.rows = calloc(decision->verdict_count + 1, sizeof *out.rows);
    out.actions = calloc(decision->action_count + 1, sizeof *out.actions);
    for (; out.row_count < decision->verdict_count; out.row_count++)
        row_out(&b, fleet, &decision->verdicts[out.row_count], &out.rows[out.row_count]);
    for (; out.action_count < decision->action_count; out.action_count++)
        action_out(fleet, &decision->actions[out.action_count], &out.actions[out.action_count]);
    bench_close(&b);
    *ret_decision = out;
}
