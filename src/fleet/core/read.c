/* SPDX-License-Identifier: Apache-2.0 */
/* Lookups and walks. Pure. */
#include "fleet/core/internal.h"

bool fleet_find(const struct fleet *fleet, enum fleet_table table, struct str first,
                struct str second, struct fleet_row *ret_row)
{
    const void *found = table == FLEET_DOMAINS
                            ? domain_find(fleet, first, second)
                            : order_find(&fleet->tables[table], (struct order_key){first, second});

    if (found) row_show(table, found, ret_row);
    return found != NULL;
}

uint32_t fleet_find_leaving(const struct fleet *fleet, struct str key, struct str value,
                            struct str except, struct fleet_leaving *ret_leaving)
{
    char room[LEAVING_TEXT_MAX];
    struct order_place place;
    uint32_t count = 0;
    struct fleet_row row;
    const void *found;
    struct str text;

    if (fleet->tables[FLEET_LEAVING].count == 0) return 0; /* the usual case */
    if (!leaving_text(key, value, room, &text)) return 0;
    /* The id of a shard is never empty, so the domain's rows follow this key. */
    place = order_behind(&fleet->tables[FLEET_LEAVING], (struct order_key){text, STR_EMPTY});
    while ((found = order_next(&place))) {
        if (!str_equal(row_key(FLEET_LEAVING, found).first, text)) break;
        row_show(FLEET_LEAVING, found, &row);
        if (str_equal(row.leaving.shard, except)) continue;
        if (count++ == 0) *ret_leaving = row.leaving;
    }
    return count;
}

uint32_t fleet_count_leaving(const struct fleet *fleet, struct str shard)
{
    const struct name *leaver = name_find(&fleet->leavers, shard);

    return leaver ? leaver->rows.count : 0;
}

/* -- walks -- */
/* True if this call started the walk. */
static bool walk_begin(const struct fleet *fleet, struct fleet_walk *walk)
{
    bool first = !walk->begun;

    if (first) walk->changes = fleet->changes;
    walk->begun = true;
    assert(walk->changes == fleet->changes); /* otherwise the walk's row may be gone */
    return first;
}

static bool walk_show(struct fleet_walk *walk, enum fleet_table table, struct fleet_row *ret_row)
{
    const void *row = order_next(&walk->place);

    if (row) row_show(table, row, ret_row);
    return row != NULL;
}

bool fleet_next(const struct fleet *fleet, enum fleet_table table, struct fleet_walk *walk,
                struct fleet_row *ret_row)
{
    if (walk_begin(fleet, walk)) walk->place = order_begin(&fleet->tables[table]);
    return walk_show(walk, table, ret_row);
}

/* NULL if there is no such shard. */
static const struct order *owned_by(const struct fleet *fleet, enum fleet_table table,
                                    struct str shard)
{
    const struct name *leaver = name_find(&fleet->leavers, shard);
    const struct shard_row *owner =
        order_find(&fleet->tables[FLEET_SHARDS], (struct order_key){.first = shard});

    if (table == FLEET_LEAVING) return leaver ? &leaver->rows : NULL;
    if (!owner) return NULL;
    return table == FLEET_DOMAINS ? &owner->domains : &owner->clusters;
}

bool fleet_next_of(const struct fleet *fleet, enum fleet_table table, struct fleet_walk *walk,
                   struct str shard, struct fleet_row *ret_row)
{
    const struct order *owned;

    if (walk_begin(fleet, walk) && (owned = owned_by(fleet, table, shard)))
        walk->place = order_begin(owned);
    return walk_show(walk, table, ret_row);
}

bool fleet_next_assignment(const struct fleet *fleet, struct fleet_walk *walk,
                           struct fleet_row *ret_row)
{
    const struct order *shards = &fleet->tables[FLEET_SHARDS];
    const struct shard_row *owner = walk->owner;
    struct order_place place;

    walk_begin(fleet, walk);
    while (!walk_show(walk, FLEET_DOMAINS, ret_row)) {
        place = owner ? order_behind(shards, row_key(FLEET_SHARDS, owner)) : order_begin(shards);
        owner = order_next(&place);
        /* walk->owner stays unchanged: the walk stays at its end */
        if (!owner) return false;
        walk->owner = owner;
        walk->place = order_begin(&owner->domains);
    }
    return true;
}
