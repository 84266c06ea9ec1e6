/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/state/units.h"

#include <string.h>

#include "base/memory.h"

static size_t unit_size(uint32_t count)
{
    return sizeof(struct demand_unit) + count * sizeof(int128);
}

static uint32_t amounts_hash(const struct needs *needs, const struct amounts *a)
{
    uint64_t head[] = {a->mask, a->formats.binary, a->formats.exponent};
    uint64_t hash = str_hash(str_of(head, sizeof head), needs->options.seed);

    return (uint32_t)str_hash(str_of(a->milli, resource_bits(a->mask) * sizeof *a->milli), hash);
}

enum err unit_take(struct needs *needs, const struct resource_sum *sum,
                   struct demand_unit **ret_unit)
{
    int128 milli[DIMENSIONS_MAX];
    struct resource_sum positive;
    struct resources resources;
    struct amounts amounts;
    struct demand_unit *unit;
    uint32_t hash, count;
    enum err err;

    amounts_pack(sum, milli, &amounts);
    amounts_sum(&amounts, &positive);
    err = resource_sum_narrow(&positive, &resources);
    if (err) return err;
    count = resource_bits(amounts.mask);
    hash = amounts_hash(needs, &amounts);
    TABLE_EACH(&needs->units, hash, link)
    {
        unit = CONTAINER_OF(link, struct demand_unit, link);
        if (!amounts_are(&unit->amounts, &positive)) continue;
        unit->link.refs++;
        *ret_unit = unit;
        return ERR_OK;
    }
    err = table_reserve(&needs->units, &needs->bytes);
    if (err) return err;
    unit = memory_take(&needs->bytes, unit_size(count));
    if (!unit) return ERR_NOMEM;
    *unit = (struct demand_unit){.link = {.refs = 1}, .resources = resources, .amounts = amounts};
    unit->amounts.milli = unit->milli;
    memcpy(unit->milli, milli, count * sizeof *milli);
    table_add(&needs->units, &unit->link, hash);
    *ret_unit = unit;
    return ERR_OK;
}

void unit_give(struct needs *needs, struct demand_unit *unit)
{
    if (--unit->link.refs) return;
    table_remove(&needs->units, &unit->link);
    memory_give(&needs->bytes, unit, unit_size(resource_bits(unit->amounts.mask)));
}
