/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of machines by type and zone. The cheapest price of a type is searched again only after
 * its last machine at that price was removed. Decide thread. */
#include "shard/core/tally.h"

#include <stdlib.h>

#include "shard/state/cohort.h"

void tally_init(struct tally *tally, uint64_t seed)
{
    map_init(&tally->types, MAP_MOST, seed);
    map_init(&tally->zones, MAP_MOST, seed);
}

void tally_deinit(struct tally *tally)
{
    map_free(&tally->types);
    map_free(&tally->zones);
}

/* Returns the machine's field `key`, or else its label `key`. */
static struct str attribute(const struct machine *machine, struct str key)
{
    const struct str *value = attributes_find(&machine->attributes, key);

    return value ? *value : STR_EMPTY;
}

/* NULL: out of memory, or the name is empty. */
static struct tally_entry *entry_find(struct map *map, struct str name)
{
    struct tally_entry *entry = name.len ? map_make(map, name, sizeof *entry) : NULL;

    if (entry) entry->name = str_of((const char *)(entry + 1), name.len);
    return entry;
}

static void entry_trim(struct map *map, struct tally_entry *entry)
{
    if (!entry || entry->machines) return;
    map_remove(map, entry->name);
    free(entry);
}

enum err tally_find(struct tally *tally, const struct machine *machine,
                    struct tally_place *ret_place)
{
    struct str type = attribute(machine, LABEL_INSTANCE_TYPE),
               zone = attribute(machine, LABEL_ZONE);
    struct tally_place place = {.type = entry_find(&tally->types, type),
                                .zone = entry_find(&tally->zones, zone),
                                .state = machine->state,
                                .price = machine->price_per_hour};
    uint8_t bucket = PENALTY_ZERO;

    if ((type.len && !place.type) || (zone.len && !place.zone)) {
        tally_leave(tally, &place);
        return ERR_NOMEM;
    }
    /* ERR_INVALID cannot happen, because machine_check() rejects NaN. */
    (void)penalty_from_dollars(machine->stamp.interruption_dollars, &bucket);
    place.bucket = &tally->by_bucket[machine->state][machine->capacity_type][bucket];
    *ret_place = place;
    return ERR_OK;
}

static void entry_add(struct tally_entry *entry, const struct tally_place *place)
{
    entry->machines++;
    entry->speculative += place->state == MACHINE_SPECULATIVE;
    if (place->state != MACHINE_IDLE) return;
    if (entry->idle == 0 || (entry->cheapest_count && place->price < entry->cheapest)) {
        entry->cheapest = place->price;
        entry->cheapest_count = 1;
    } else if (entry->cheapest_count && place->price == entry->cheapest) {
        entry->cheapest_count++;
    }
    entry->idle++;
}

static void entry_remove(struct tally_entry *entry, const struct tally_place *place)
{
    entry->machines--;
    entry->speculative -= place->state == MACHINE_SPECULATIVE;
    if (place->state != MACHINE_IDLE) return;
    entry->idle--;
    if (entry->cheapest_count && place->price == entry->cheapest) entry->cheapest_count--;
}

void tally_move(struct tally *tally, const struct tally_place *from, const struct tally_place *to)
{
    if (to) {
        ++*to->bucket;
        if (to->type) entry_add(to->type, to);
        if (to->zone) entry_add(to->zone, to);
    }
    if (from) {
        --*from->bucket;
        if (from->type) entry_remove(from->type, from);
        if (from->zone) entry_remove(from->zone, from);
        tally_leave(tally, from);
    }
}

void tally_leave(struct tally *tally, const struct tally_place *place)
{
    entry_trim(&tally->types, place->type);
    entry_trim(&tally->zones, place->zone);
}

const struct tally_entry *tally_type(const struct tally *tally, struct str type)
{
    return map_get(&tally->types, type);
}

/* A cohort may be empty because all its machines have a queued action; these machines are still
 * Idle. */
static void cheapest_find(struct tally_entry *entry, const struct inventory *inventory)
{
    const struct posting *posting = inventory_posting(inventory, LABEL_INSTANCE_TYPE, entry->name);

    for (uint32_t i = 0; posting && i < posting->count; i++) {
        const struct bag *idle = &posting_look(inventory, posting, i)->pools[POOL_IDLE];
        for (uint32_t k = 0; k < idle->count; k++) {
            double price = idle->at[k].cohort->traits.price;
            if (entry->cheapest_count && price > entry->cheapest) continue;
            if (!entry->cheapest_count || price < entry->cheapest) entry->cheapest_count = 0;
            entry->cheapest = price;
            entry->cheapest_count += idle->at[k].cohort->link.refs;
        }
    }
}

double tally_cheapest(struct tally *tally, const struct inventory *inventory, struct str type)
{
    struct tally_entry *entry = map_get(&tally->types, type);

    if (!entry || !entry->idle) return 0;
    if (!entry->cheapest_count) cheapest_find(entry, inventory);
    return entry->cheapest;
}
