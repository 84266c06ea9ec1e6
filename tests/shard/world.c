/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/world.h"

#include <stdio.h>
#include <string.h>

#include "lib/test.h"
#include "model/penalty.h"

void world_open(struct world *w)
{
    struct inventory_options inventory = {.machines_max = 200, .seed = 1};
    struct needs_options needs = {.rows_max = 100, .seed = 1, .dimensions = &w->dimensions};

    memset(w, 0, sizeof *w);
    arena_init(&w->arena, SIZE_MAX);
    dimensions_init(&w->dimensions);
    CHECK_OK("cpu", dimensions_index(&w->dimensions, STR("cpu"), &w->cpu, &w->note));
    CHECK_OK("memory", dimensions_index(&w->dimensions, STR("memory"), &w->memory, &w->note));
    CHECK_OK("inventory", inventory_open(&inventory, &w->inventory));
    CHECK_OK("needs", needs_open(&needs, &w->needs));
}

void world_close(struct world *w)
{
    needs_close(w->needs);
    inventory_close(w->inventory);
    dimensions_deinit(&w->dimensions);
    arena_deinit(&w->arena);
}

static void place(struct machine *m)
{
    if (m->state != MACHINE_SPECULATIVE && m->state != MACHINE_CREATING) {
        m->host_provider = STR("cloud");
        m->host_ref = STR("host-1");
    }
    if (m->state < MACHINE_CONFIGURING || m->state > MACHINE_DRAINING) m->cluster = STR_EMPTY;
    if (m->state == MACHINE_FAILED) m->last_error = STR("broken");
}

struct machine world_machine(struct world *w, const char *id, enum machine_state state)
{
    struct machine m = {.id = str_from(id), .state = state, .cluster = STR("a")};

    m.capacity_type = CAPACITY_ON_DEMAND;
    m.price_per_hour = 1;
    CHECK_OK("cpu", resources_set(&m.resources, w->cpu, 4000, QUANTITY_DECIMAL_SI));
    place(&m);
    return m;
}

static struct profile profile_of(struct world *w, const struct profile *given)
{
    struct profile out = {0};

    CHECK_OK("profile", profile_build(&w->arena, given, &out, &w->note));
    return out;
}

struct need world_need(struct world *w, const char *cluster, int32_t priority, int64_t units)
{
    struct need need = {.cluster = str_from(cluster)};

    need.profile = profile_of(w, &(struct profile){.priority = priority});
    CHECK_OK("unit", resources_set(&need.min_unit, w->cpu, 1000, QUANTITY_DECIMAL_SI));
    resource_sum_clear(&need.aggregate);
    resource_sum_scale(&need.aggregate, &need.min_unit, (uint64_t)units);
    return need;
}

/* --- random ones --- */

#define PICK(p, list) ((list)[prng_below((p), ARRAY_LEN(list))])

static const struct str types[] = {{"", 0}, {"t1", 2}, {"t2", 2}, {"t3", 2}};
static const struct str zones[] = {{"", 0}, {"z1", 2}, {"z2", 2}};
static const struct str racks[] = {{"r1", 2}, {"r2", 2}, {"", 0}};
static const struct str clusters[] = {{"a", 1}, {"b", 1}, {"c", 1}};
static const struct str groups[] = {{"", 0}, {"g1", 2}, {"g2", 2}};

struct str random_cluster(struct prng *p)
{
    return PICK(p, clusters);
}

/* Few kinds, so that stamps and rows meet. */
static struct profile random_profile(struct world *w, struct prng *p)
{
    struct str values[2] = {PICK(p, types), STR("t1")};
    struct requirement r[2] = {{LABEL_INSTANCE_TYPE, OPERATOR_IN, values, values[0].len ? 1u : 0u},
                               {STR("rack"), OPERATOR_SAME, NULL, 0}};
    struct spread spread = {LABEL_ZONE, 1, SPREAD_DO_NOT_SCHEDULE};
    bool typed = values[0].len != 0, gang = prng_below(p, 3) == 0;
    struct profile given = {.requirements = typed ? r : r + 1,
                            .requirement_count = (typed ? 1u : 0u) + (gang ? 1u : 0u),
                            .spreads = &spread,
                            .spread_count = prng_below(p, 6) == 0,
                            .priority = (int32_t)prng_below(p, 2) * 400000,
                            .interruption_bucket = prng_below(p, 4) ? 1 : PENALTY_PINNED};

    return profile_of(w, &given);
}

static struct machine_stamp random_stamp(struct world *w, struct prng *p)
{
    struct profile profile = random_profile(w, p);

    return (struct machine_stamp){.priority = profile.priority,
                                  .interruption_dollars = 1,
                                  .reclamation_dollars = (double)prng_below(p, 2),
                                  .fingerprint = profile.fingerprint,
                                  .group = profile_same(&profile) ? PICK(p, groups) : STR_EMPTY};
}

static struct machine_promise random_promise(struct world *w, struct prng *p)
{
    struct machine_stamp stamp = random_stamp(w, p);

    if (prng_below(p, 3) == 0) return (struct machine_promise){0};
    return (struct machine_promise){.cluster = random_cluster(p),
                                    .fingerprint = stamp.fingerprint,
                                    .group = stamp.group,
                                    .priority = stamp.priority};
}

struct machine random_machine(struct world *w, struct prng *p, struct str id,
                              enum machine_state state)
{
    struct label *labels = arena_calloc(&w->arena, 3, sizeof *labels);
    struct machine m = {.id = id, .state = state, .cluster = random_cluster(p)};

    place(&m);
    m.capacity_type = (enum capacity_type)prng_below(p, CAPACITY_TYPE_COUNT);
    m.price_per_hour = (double)prng_below(p, 3);
    m.interruption_probability = prng_below(p, 2) ? 0.25 : 0;
    m.attributes.instance_type = PICK(p, types);
    m.attributes.zone = PICK(p, zones);
    if (prng_below(p, 4) == 0) { /* hidden while the type is set */
        labels[m.attributes.label_count++] = (struct label){LABEL_INSTANCE_TYPE, STR("t3")};
    }
    labels[m.attributes.label_count++] = (struct label){STR("rack"), PICK(p, racks)};
    m.attributes.labels = labels;
    CHECK_OK("cpu", resources_set(&m.resources, w->cpu, (int64_t)(1 + prng_below(p, 3)) * 1000,
                                  QUANTITY_DECIMAL_SI));
    if (prng_below(p, 2)) {
        CHECK_OK("memory", resources_set(&m.allocatable, w->memory,
                                         (int64_t)prng_below(p, 3) * 1000, QUANTITY_BINARY_SI));
        CHECK_OK("cpu", resources_set(&m.allocatable, w->cpu, 2000, QUANTITY_DECIMAL_SI));
    }
    m.stamp = random_stamp(w, p);
    m.destination = random_cluster(p);
    m.promised = random_promise(w, p);
    return m;
}

struct need random_need(struct world *w, struct prng *p, struct str cluster)
{
    struct need need = {.cluster = cluster, .profile = random_profile(w, p)};
    struct resources one = {0};

    need.arrival_unix_ns = (int64_t)prng_below(p, 4);
    if (profile_same(&need.profile)) need.group = PICK(p, groups);
    CHECK_OK("one", resources_set(&one, w->cpu, 1000, QUANTITY_DECIMAL_SI));
    if (prng_below(p, 3) == 0) {
        CHECK_OK("one", resources_set(&one, w->memory, 1000, QUANTITY_BINARY_SI));
    }
    if (prng_below(p, 3)) {
        CHECK_OK("unit", resources_set(&need.min_unit, w->cpu, (int64_t)prng_below(p, 3) * 1000,
                                       QUANTITY_DECIMAL_SI));
    }
    resource_sum_clear(&need.aggregate);
    resource_sum_scale(&need.aggregate, &one, prng_below(p, 8));
    return need;
}

struct plan random_plan(struct world *w, struct prng *p, enum planned_action action)
{
    struct plan plan = {.action = action};

    if (action == PLANNED_BOOTSTRAP || action == PLANNED_PROVISION) {
        plan.cluster = random_cluster(p);
        plan.stamp = random_stamp(w, p);
    }
    if (action == PLANNED_DRAIN) plan.promised = random_promise(w, p);
    return plan;
}
