/* SPDX-License-Identifier: Apache-2.0 */
/* Writes demand with wire/pack.h and reads requirements from decoded messages. Pure. */
#include "model/wire/demand_wire.h"

#include "wire/pb/bigfleet_v1alpha1_provider.pb-c.h"

enum err read_requirements(struct arena *arena,
                           Bigfleet__V1alpha1__NodeSelectorRequirement *const *given, size_t count,
                           const struct requirement **ret_requirements, struct note *note)
{
    struct requirement *requirements = arena_calloc(arena, count, sizeof *requirements);

    if (!requirements) return ERR_NOMEM;
    for (size_t i = 0; i < count; i++) {
        struct str *values = arena_calloc(arena, given[i]->n_values, sizeof *values);
        if (!values) return ERR_NOMEM;
        for (size_t v = 0; v < given[i]->n_values; v++) values[v] = str_from(given[i]->values[v]);
        if ((uint32_t)given[i]->operator_ >= OPERATOR_COUNT)
            return note_fail(note, ERR_INVALID, "requirements[%zu].operator: unknown number %d", i,
                             (int)given[i]->operator_);
        requirements[i] = (struct requirement){.key = str_from(given[i]->key),
                                               .op = (enum requirement_operator)given[i]->operator_,
                                               .values = values,
                                               .value_count = given[i]->n_values};
    }
    *ret_requirements = requirements;
    return ERR_OK;
}

/* All map<string, string> entries have the same layout. */
struct label *read_labels(struct arena *arena, ProtobufCMessage *const *entries, size_t count)
{
    struct label *labels = arena_calloc(arena, count, sizeof *labels);

    for (size_t i = 0; labels && i < count; i++) {
        const Bigfleet__V1alpha1__Machine__LabelsEntry *entry = (const void *)entries[i];
        labels[i] = (struct label){str_from(entry->key), str_from(entry->value)};
    }
    return labels;
}

void pack_pair(struct pack *pack, uint32_t field, struct str key, struct str value,
               struct buf *scratch)
{
    struct pack entry = pack_begin(scratch);

    pack_text(&entry, 1, key);
    pack_text(&entry, 2, value);
    pack_row(pack, field, &entry);
}

void pack_requirements(struct pack *pack, uint32_t field, const struct profile *profile,
                       struct buf *scratch)
{
    for (size_t i = 0; i < profile->requirement_count; i++) {
        const struct requirement *r = &profile->requirements[i];
        struct pack row = pack_begin(scratch);
        pack_text(&row, 1, r->key);
        pack_u64(&row, 2, r->op);
        for (size_t v = 0; v < r->value_count; v++) pack_bytes(&row, 3, r->values[v]);
        pack_row(pack, field, &row);
    }
}

struct amounts_out {
    struct pack *pack;
    uint32_t field;
    struct buf *scratch;
};

static enum err pack_amount(void *context, struct str name, struct str quantity)
{
    struct amounts_out *out = context;

    pack_pair(out->pack, out->field, name, quantity, out->scratch);
    return out->pack->err;
}

void pack_amounts(struct pack *pack, uint32_t field, const struct resource_sum *sum,
                  const struct dimensions *dimensions, struct buf *scratch)
{
    struct amounts_out out = {pack, field, scratch};
    enum err err = resource_sum_each(dimensions, sum, pack_amount, &out);

    if (!pack->err) pack->err = err;
}

void pack_resources(struct pack *pack, uint32_t field, const struct resource_sum *sum,
                    const struct dimensions *dimensions, struct buf *body, struct buf *scratch)
{
    struct pack amounts = pack_begin(body);

    if (!sum->mask) return;
    pack_amounts(&amounts, 1, sum, dimensions, scratch);
    pack_row(pack, field, &amounts);
}

static void pack_spreads(struct pack *pack, uint32_t field, const struct profile *profile,
                         struct buf *scratch)
{
    for (size_t i = 0; i < profile->spread_count; i++) {
        const struct spread *s = &profile->spreads[i];
        struct pack row = pack_begin(scratch);
        pack_text(&row, 1, s->key);
        pack_i64(&row, 2, s->max_skew);
        pack_u64(&row, 3, s->when);
        pack_row(pack, field, &row);
    }
}

void pack_capacity_need(struct pack *pack, const struct profile *profile, struct str group,
                        const struct resource_sum *aggregate, const struct resources *min_unit,
                        const struct dimensions *dimensions, struct buf *scratch)
{
    struct resource_sum unit;

    resource_sum_clear(&unit);
    resource_sum_add(&unit, min_unit);
    pack_requirements(pack, 1, profile, scratch);
    pack_amounts(pack, 2, aggregate, dimensions, scratch);
    pack_i64(pack, 3, profile->priority);
    pack_spreads(pack, 5, profile, scratch);
    pack_u64(pack, 6, profile->interruption_bucket);
    pack_u64(pack, 7, profile->reclamation_bucket);
    pack_amounts(pack, 8, &unit, dimensions, scratch);
    pack_text(pack, 9, group);
}
