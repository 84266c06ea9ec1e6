/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/shard/core_case.h"

#include <string.h>

#include "lib/shard_check.h"
#include "lib/test.h"
#include "model/metadata.h"
#include "shard/core/running_actions.h"
#include "shard/state/cohort.h"

void case_open(struct core_case *c, const struct core_options *options)
{
    struct core_options usual = {.machines_max = 100, .seed = 1, .rollup_guard = true};

    memset(c, 0, sizeof *c);
    c->now.ms = 1000 * 1000;
    arena_init(&c->arena, SIZE_MAX);
    effects_init(&c->out);
    CHECK_OK(c->note.text, core_open(options ? options : &usual, &c->core));
    CHECK_OK("cpu", dimensions_index(core_dimensions(c->core), STR("cpu"), &c->cpu, NULL));
}

static void tally_check(struct core_case *c)
{
    const struct inventory *inventory = c->core->inventory;
    struct tally *counted = &c->core->tally;
    struct map_entry *entry;
    struct tally walked;
    size_t cursor = 0;

    memset(&walked, 0, sizeof walked);
    tally_init(&walked, 1);
    for (uint32_t i = 0; i < inventory->rows.bucket_count; i++) {
        for (struct table_link *link = inventory->rows.buckets[i]; link; link = link->next) {
            struct str id = row_id(CONTAINER_OF(link, struct machine_row, link));
            struct inventory_entry known;
            struct tally_place place;
            CHECK_OK("get", inventory_get(inventory, id, &c->arena, &known));
            CHECK_OK("find", tally_find(&walked, &known.machine, &place));
            tally_move(&walked, NULL, &place);
        }
    }
    CHECK("counts by bucket",
          memcmp(walked.by_bucket, counted->by_bucket, sizeof walked.by_bucket) == 0);
    CHECK_SIZE("types", map_count(&counted->types), map_count(&walked.types));
    CHECK_SIZE("zones", map_count(&counted->zones), map_count(&walked.zones));
    while ((entry = map_next(&walked.types, &cursor))) {
        const struct tally_entry *want = entry->value, *got = tally_type(counted, want->name);
        CHECK("a type", got && got->machines == want->machines && got->idle == want->idle &&
                            got->speculative == want->speculative);
        CHECK("its cheapest", tally_cheapest(counted, inventory, want->name) ==
                                  tally_cheapest(&walked, inventory, want->name));
    }
    tally_deinit(&walked);
}

void case_check(struct core_case *c)
{
    CHECK(c->note.text, inventory_check(c->core->inventory, &c->note));
    CHECK(c->note.text, needs_check(c->core->needs, &c->note));
    CHECK(c->note.text, running_check(c->core, &c->note));
    tally_check(c);
}

void case_close(struct core_case *c)
{
    case_check(c);
    core_close(c->core);
    effects_deinit(&c->out);
    arena_deinit(&c->arena);
}

void case_forget(struct core_case *c)
{
    effects_deinit(&c->out);
    effects_init(&c->out);
}

struct machine case_machine(struct core_case *c, const char *id, enum machine_state state)
{
    struct machine m = {.id = str_from(id), .state = state, .price_per_hour = 1};

    m.capacity_type = CAPACITY_ON_DEMAND;
    m.attributes.instance_type = STR("t1");
    m.attributes.zone = STR("z1");
    CHECK_OK("cpu", resources_set(&m.resources, c->cpu, 4000, QUANTITY_DECIMAL_SI));
    if (state != MACHINE_SPECULATIVE && state != MACHINE_CREATING) {
        m.host_provider = STR("cloud");
        m.host_ref = STR("host");
    }
    if (machine_state_keeps_stamp(state)) m.cluster = STR("a");
    if (state == MACHINE_FAILED) m.last_error = STR("broken");
    return m;
}

struct profile case_profile(struct core_case *c, const struct profile *given)
{
    struct profile out = {0};

    CHECK_OK("profile", profile_build(&c->arena, given, &out, &c->note));
    return out;
}

struct need case_need(struct core_case *c, const char *cluster, int32_t priority, int64_t units,
                      const char *type)
{
    struct str types[1] = {str_from(type)};
    struct requirement pinned = {LABEL_INSTANCE_TYPE, OPERATOR_IN, types, 1};
    struct need need = {.cluster = str_from(cluster)};

    need.profile = case_profile(c, &(struct profile){.requirements = &pinned,
                                                     .requirement_count = type[0] ? 1 : 0,
                                                     .priority = priority});
    CHECK_OK("unit", resources_set(&need.min_unit, c->cpu, 1000, QUANTITY_DECIMAL_SI));
    resource_sum_clear(&need.aggregate);
    resource_sum_scale(&need.aggregate, &need.min_unit, (uint64_t)units);
    return need;
}

void case_list(struct core_case *c, enum list_kind kind, const struct machine *machines,
               size_t count, bool whole)
{
    core_list_begin(c->core, kind);
    for (size_t i = 0; i < count; i++)
        CHECK_OK("record", core_list_machine(c->core, &machines[i], NULL, 0, c->now, &c->out));
    core_list_end(c->core, whole, c->now, &c->out);
    case_check(c);
}

void case_put(struct core_case *c, const struct machine *machine, const struct machine_stamp *stamp)
{
    struct machine_metadata ours = {.stamp = *stamp};
    struct label pairs[METADATA_MAX];
    size_t count;

    CHECK_OK("encode", metadata_encode(&c->arena, &ours, pairs, &count));
    core_list_begin(c->core, LIST_DELTA);
    CHECK_OK("put", core_list_machine(c->core, machine, pairs, count, c->now, &c->out));
    core_list_end(c->core, true, c->now, &c->out);
    CHECK("it is there", case_has(c, arena_dup(&c->arena, machine->id)));
}

void case_session(struct core_case *c, const char *cluster, bool open)
{
    CHECK_OK("session", core_session(c->core, str_from(cluster), open, c->now, &c->out));
}

enum rollup_verdict case_rollup(struct core_case *c, const char *cluster, const struct need *rows,
                                size_t count)
{
    enum rollup_verdict verdict = ROLLUP_HELD;

    CHECK_OK(c->note.text, core_rollup(c->core, str_from(cluster), rows, count, c->now, &verdict,
                                       &c->out, &c->note));
    return verdict;
}

const struct decision *case_decide(struct core_case *c)
{
    const struct decision *decision = NULL;
    struct core *core = c->core;
    struct decide_input input;

    core_begin_at(core, c->now, (wall_time){77}, &c->out);
    core->counts.cycles++;
    decide_input_init(&input, c->now);
    input.parked = parking_parked(core->parking, &input.parked_count);
    CHECK_OK("decide", decide(core->decider, &input, &decision));
    CHECK_OK("parking", parking_note(core->parking, decision));
    CHECK_OK("ledger", ledger_note(core->ledger, decision));
    attribution_note(core, decision);
    capacity_note(core, decision);
    need_status_note(core, decision);
    CHECK_OK("view", view_note(core, decision));
    gauges_note(core);
    return decision;
}

bool case_has(struct core_case *c, const char *id)
{
    struct inventory_entry entry;

    return inventory_get(c->core->inventory, str_from(id), &c->arena, &entry) == ERR_OK;
}

struct machine case_get(struct core_case *c, const char *id)
{
    struct inventory_entry entry = {0};

    CHECK_OK(id, inventory_get(c->core->inventory, str_from(id), &c->arena, &entry));
    return entry.machine;
}

size_t case_count(const struct core_case *c, enum effect_kind kind)
{
    size_t count = 0;

    for (size_t i = 0; i < c->out.count; i++) count += c->out.items[i].kind == kind;
    return count;
}

const struct effect *case_effect(const struct core_case *c, enum effect_kind kind, size_t n)
{
    for (size_t i = 0; i < c->out.count; i++)
        if (c->out.items[i].kind == kind && n-- == 0) return &c->out.items[i];
    CHECK("an effect of this kind", false);
    return NULL;
}

bool case_said(const struct core_case *c, const char *text)
{
    for (size_t i = 0; i < c->out.count; i++)
        if (c->out.items[i].kind == EFFECT_LOG && strcmp(c->out.items[i].log.text, text) == 0)
            return true;
    return false;
}
