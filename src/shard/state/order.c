/* SPDX-License-Identifier: Apache-2.0 */
/* The order of Needs (docs/decision.md): priority descending, both buckets descending, arrival
 * ascending, cluster, group, fingerprint, text of the unit, text of the aggregate, place. */
#include <stdlib.h>
#include <string.h>

#include "shard/state/demand.h"

int need_key_compare(const void *left, const void *right)
{
    const struct need_key *a = left, *b = right;
    int order = str_compare(a->fingerprint, b->fingerprint);

    if (!order) order = str_compare(a->group, b->group);
    return order ? order : str_compare(a->cluster, b->cluster);
}

static int amounts_text_compare(const struct dimensions *dimensions, const struct amounts *a,
                                const struct amounts *b)
{
    struct resource_sum a_sum, b_sum;

    amounts_sum(a, &a_sum);
    amounts_sum(b, &b_sum);
    return resource_sum_key_compare(dimensions, &a_sum, &b_sum);
}

int demand_compare(const void *left, const void *right)
{
    const struct demand *a = *(struct demand *const *)left, *b = *(struct demand *const *)right;
    const struct dimensions *dimensions = a->cluster->dimensions;
    int order;

    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    if (a->arrival_unix_ns != b->arrival_unix_ns) {
        return a->arrival_unix_ns < b->arrival_unix_ns ? -1 : 1;
    }
    if (a->cluster != b->cluster) {
        order = str_compare(a->key.cluster, b->key.cluster);
        if (order) return order;
    }
    order = str_compare(a->key.group, b->key.group);
    if (order) return order;
    if (a->kind != b->kind) {
        order = str_compare(a->key.fingerprint, b->key.fingerprint);
        if (order) return order;
    }
    order =
        a->min_unit == b->min_unit ? 0 : amounts_text_compare(dimensions, a->min_unit, b->min_unit);
    if (!order) order = amounts_text_compare(dimensions, &a->aggregate, &b->aggregate);
    if (order) return order;
    return a->place < b->place ? -1 : a->place > b->place;
}

static enum err order_room(struct needs *needs, uint32_t demands, uint32_t folds)
{
    uint64_t *bytes = &needs->bytes;
    enum err err = array_room(&needs->order, demands, &needs->order_cap, sizeof(void *), bytes);

    if (!err) {
        err = array_room(&needs->order_from, demands, &needs->order_from_cap,
                         sizeof *needs->order_from, bytes);
    }
    return err ? err : array_room(&needs->folds, folds, &needs->folds_cap, sizeof(void *), bytes);
}

static void order_number_gangs(struct needs *needs)
{
    needs->gangs_count = needs->folds_count = 0;
    for (uint32_t i = 0; i < needs->cluster_slots.used; i++) {
        struct demand_cluster *cluster = slot_map_get(&needs->cluster_slots, i);
        struct demand_set *set = cluster ? &cluster->set : NULL;
        if (!set) continue;
        for (uint32_t k = 0; k < set->gangs_count; k++) set->gangs[k].number = needs->gangs_count++;
        for (uint32_t k = 0; k < set->fold_count; k++) {
            set->folds[k].number = needs->folds_count;
            needs->folds[needs->folds_count++] = &set->folds[k];
        }
    }
}

/* True if the order contains the cluster's current rows. */
static bool order_has(const struct needs *needs, const struct demand_cluster *cluster)
{
    return cluster && cluster->set.version <= needs->ordered;
}

/* Drops rows of changed clusters. These rows may be freed already, so they are not read. */
static void order_keep(struct needs *needs)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < needs->order_count; i++) {
        uint32_t from = needs->order_from[i];
        if (!order_has(needs, slot_map_get(&needs->cluster_slots, from))) continue;
        needs->order[kept] = needs->order[i];
        needs->order_from[kept++] = from;
    }
    needs->order_count = kept;
}

static void order_collect(const struct needs *needs, struct demand **rows)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < needs->cluster_slots.used; i++) {
        struct demand_cluster *cluster = slot_map_get(&needs->cluster_slots, i);
        if (!cluster || order_has(needs, cluster)) continue;
        for (uint32_t k = 0; k < cluster->set.demand_count; k++)
            rows[count++] = &cluster->set.demands[k];
    }
}

/* Merges new rows into the order, from the last row to the first, so that each row moves once. */
static void order_merge(struct needs *needs, struct demand *const *rows, uint32_t count)
{
    uint32_t kept = needs->order_count, at = kept + count;

    needs->order_count = at;
    while (count > 0) {
        bool old = kept > 0 && demand_compare(&needs->order[kept - 1], &rows[count - 1]) > 0;
        needs->order[--at] = old ? needs->order[--kept] : rows[--count];
        needs->order_from[at] = needs->order[at]->cluster->slot;
    }
}

enum err needs_order(struct needs *needs)
{
    uint32_t demands = 0, fresh = 0, folds = 0;
    struct demand **rows;
    enum err err;

    if (needs->ordered == needs->version) return ERR_OK;
    for (uint32_t i = 0; i < needs->cluster_slots.used; i++) {
        struct demand_cluster *cluster = slot_map_get(&needs->cluster_slots, i);
        if (!cluster) continue;
        demands += cluster->set.demand_count;
        folds += cluster->set.fold_count;
        if (!order_has(needs, cluster)) fresh += cluster->set.demand_count;
    }
    err = order_room(needs, demands, folds);
    if (err) return err;
    rows = malloc((fresh + 1) * sizeof(struct demand *));
    if (!rows) return ERR_NOMEM;
    order_collect(needs, rows);
    qsort(rows, fresh, sizeof(struct demand *), demand_compare);
    order_keep(needs);
    order_merge(needs, rows, fresh);
    assert(needs->order_count == demands);
    order_number_gangs(needs);
    free(rows);
    needs->ordered = needs->version;
    return ERR_OK;
}
