/* SPDX-License-Identifier: Apache-2.0 */
/* Lookups and walks. */
#include "fleet/core/internal.h"

static const void *find(const struct fleet *fleet, enum fleet_table table, struct str first,
                        struct str second)
{
    return order_find(&fleet->tables[table], (struct order_key){first, second});
}

/* -- lookups -- */
bool fleet_find_shard(const struct fleet *fleet, struct str id, struct fleet_shard *ret_shard)
{
    const void *found = find(fleet, FLEET_SHARDS, id, STR_EMPTY);
    struct fleet_row row;

    if (!found) return false;
    row_show(FLEET_SHARDS, found, &row);
    *ret_shard = row.shard;
    return true;
}

bool fleet_find_cluster(const struct fleet *fleet, struct str id, struct fleet_cluster *ret_cluster)
{
    const void *found = find(fleet, FLEET_CLUSTERS, id, STR_EMPTY);
    struct fleet_row row;

    if (!found) return false;
    row_show(FLEET_CLUSTERS, found, &row);
    *ret_cluster = row.cluster;
    return true;
}

bool fleet_find_domain(const struct fleet *fleet, struct str key, struct str value,
                       struct fleet_domain *ret_domain)
{
    const void *found = domain_find(fleet, key, value);
    struct fleet_row row;

    if (!found) return false;
    row_show(FLEET_DOMAINS, found, &row);
    *ret_domain = row.domain;
    return true;
}

bool fleet_find_quota(const struct fleet *fleet, struct str provider, struct str region,
                      struct fleet_quota *ret_quota)
{
    const void *found = find(fleet, FLEET_QUOTAS, provider, region);
    struct fleet_row row;

    if (!found) return false;
    row_show(FLEET_QUOTAS, found, &row);
    *ret_quota = row.quota;
    return true;
}

bool fleet_find_provider(const struct fleet *fleet, struct str name,
                         struct fleet_provider *ret_provider)
{
    const void *found = find(fleet, FLEET_PROVIDERS, name, STR_EMPTY);
    struct fleet_row row;

    if (!found) return false;
    row_show(FLEET_PROVIDERS, found, &row);
    *ret_provider = row.provider;
    return true;
}

bool fleet_find_leaving(const struct fleet *fleet, struct str key, struct str value,
                        struct str except, struct fleet_leaving *ret_leaving)
{
    char room[LEAVING_TEXT_MAX];
    struct order_place place;
    struct fleet_row row;
    const void *found;
    struct str text;

    if (fleet->tables[FLEET_LEAVING].count == 0) return false; /* nearly always */
    if (!leaving_text(key, value, room, &text)) return false;
    /* No shard's id is empty, so the rows of the domain come behind this key. */
    place = order_behind(&fleet->tables[FLEET_LEAVING], (struct order_key){text, STR_EMPTY});
    while ((found = order_next(&place))) {
        if (!str_equal(row_key(FLEET_LEAVING, found).first, text)) return false;
        row_show(FLEET_LEAVING, found, &row);
        if (str_equal(row.leaving.shard, except)) continue;
        *ret_leaving = row.leaving;
        return true;
    }
    return false;
}

uint32_t fleet_count_leaving(const struct fleet *fleet, struct str shard)
{
    const struct leaver *leaver = leaver_find(fleet, shard);

    return leaver ? leaver->rows.count : 0;
}

/* -- walks -- */
/* The next row of the set the walk stands in; NULL at its end. */
static const void *walk_step(struct fleet_walk *walk)
{
    struct order_place place = {walk->leaf, (uint32_t)walk->slot};
    const void *row = order_next(&place);

    walk->leaf = place.leaf;
    walk->slot = place.slot;
    return row;
}

static void walk_enter(struct fleet_walk *walk, const struct order *order)
{
    struct order_place place = order_begin(order);

    walk->leaf = place.leaf;
    walk->slot = place.slot;
}

/* True the first time. */
static bool walk_begin(const struct fleet *fleet, struct fleet_walk *walk)
{
    bool first = !walk->begun;

    if (first) walk->changes = fleet->changes;
    walk->begun = true;
    assert(walk->changes == fleet->changes); /* rows it stands on may be gone */
    return first;
}

static bool next(const struct fleet *fleet, enum fleet_table table, struct fleet_walk *walk,
                 struct fleet_row *ret_row)
{
    const void *row;

    if (walk_begin(fleet, walk)) walk_enter(walk, &fleet->tables[table]);
    row = walk_step(walk);
    if (row) row_show(table, row, ret_row);
    return row != NULL;
}

static bool next_owned(const struct fleet *fleet, enum fleet_table table, struct fleet_walk *walk,
                       struct str shard, struct fleet_row *ret_row)
{
    const struct shard_row *owner;
    const void *row;

    if (walk_begin(fleet, walk)) {
        owner = find(fleet, FLEET_SHARDS, shard, STR_EMPTY);
        if (owner) walk_enter(walk, table == FLEET_DOMAINS ? &owner->domains : &owner->clusters);
    }
    row = walk_step(walk);
    if (row) row_show(table, row, ret_row);
    return row != NULL;
}

bool fleet_next_shard(const struct fleet *fleet, struct fleet_walk *walk,
                      struct fleet_shard *ret_shard)
{
    struct fleet_row row;

    if (!next(fleet, FLEET_SHARDS, walk, &row)) return false;
    *ret_shard = row.shard;
    return true;
}

bool fleet_next_cluster(const struct fleet *fleet, struct fleet_walk *walk,
                        struct fleet_cluster *ret_cluster)
{
    struct fleet_row row;

    if (!next(fleet, FLEET_CLUSTERS, walk, &row)) return false;
    *ret_cluster = row.cluster;
    return true;
}

bool fleet_next_domain(const struct fleet *fleet, struct fleet_walk *walk,
                       struct fleet_domain *ret_domain)
{
    struct fleet_row row;

    if (!next(fleet, FLEET_DOMAINS, walk, &row)) return false;
    *ret_domain = row.domain;
    return true;
}

bool fleet_next_quota(const struct fleet *fleet, struct fleet_walk *walk,
                      struct fleet_quota *ret_quota)
{
    struct fleet_row row;

    if (!next(fleet, FLEET_QUOTAS, walk, &row)) return false;
    *ret_quota = row.quota;
    return true;
}

bool fleet_next_provider(const struct fleet *fleet, struct fleet_walk *walk,
                         struct fleet_provider *ret_provider)
{
    struct fleet_row row;

    if (!next(fleet, FLEET_PROVIDERS, walk, &row)) return false;
    *ret_provider = row.provider;
    return true;
}

bool fleet_next_domain_of(const struct fleet *fleet, struct fleet_walk *walk, struct str shard,
                          struct fleet_domain *ret_domain)
{
    struct fleet_row row;

    if (!next_owned(fleet, FLEET_DOMAINS, walk, shard, &row)) return false;
    *ret_domain = row.domain;
    return true;
}

bool fleet_next_cluster_of(const struct fleet *fleet, struct fleet_walk *walk, struct str shard,
                           struct fleet_cluster *ret_cluster)
{
    struct fleet_row row;

    if (!next_owned(fleet, FLEET_CLUSTERS, walk, shard, &row)) return false;
    *ret_cluster = row.cluster;
    return true;
}

bool fleet_next_leaving(const struct fleet *fleet, struct fleet_walk *walk,
                        struct fleet_leaving *ret_leaving)
{
    struct fleet_row row;

    if (!next(fleet, FLEET_LEAVING, walk, &row)) return false;
    *ret_leaving = row.leaving;
    return true;
}

bool fleet_next_leaving_of(const struct fleet *fleet, struct fleet_walk *walk, struct str shard,
                           struct fleet_leaving *ret_leaving)
{
    const struct leaver *leaver;
    struct fleet_row row;
    const void *found;

    if (walk_begin(fleet, walk)) {
        leaver = leaver_find(fleet, shard);
        if (leaver) walk_enter(walk, &leaver->rows);
    }
    found = walk_step(walk);
    if (!found) return false;
    row_show(FLEET_LEAVING, found, &row);
    *ret_leaving = row.leaving;
    return true;
}

bool fleet_next_assignment(const struct fleet *fleet, struct fleet_walk *walk,
                           struct fleet_domain *ret_domain)
{
    const struct order *shards = &fleet->tables[FLEET_SHARDS];
    const struct shard_row *owner = walk->owner;
    struct order_place place;
    struct fleet_row row;
    const void *found;

    walk_begin(fleet, walk);
    while (!(found = walk_step(walk))) {
        place = owner ? order_behind(shards, row_key(FLEET_SHARDS, owner)) : order_begin(shards);
        owner = order_next(&place);
        if (!owner) return false; /* walk->owner is still the last one: so it stays at the end */
        walk->owner = owner;
        walk_enter(walk, &owner->domains);
    }
    row_show(FLEET_DOMAINS, found, &row);
    *ret_domain = row.domain;
    return true;
}
