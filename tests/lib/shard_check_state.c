/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that every index agrees with the machines: recomputes everything by walking.
 *
 * References are compared in sum per kind, which shows any wrong count. An object without
 * references must not be in a table. */
#include <stdlib.h>
#include <string.h>

#include "lib/shard_check.h"
#include "shard/state/cohorts.h"
#include "shard/state/kinds.h"

#define FAULT(...)                                                                                 \
    do {                                                                                           \
        note_set(note, __VA_ARGS__);                                                               \
        return false;                                                                              \
    } while (0)
#define TABLE_ALL(table, link)                                                                     \
    for (uint32_t link##_bucket = 0; link##_bucket < (table)->bucket_count; link##_bucket++)       \
        for (struct table_link *link = (table)->buckets[link##_bucket]; link; link = link->next)

static bool rows_check(const struct inventory *inv, struct note *note)
{
    struct inventory_counts counts = {0};
    uint64_t refs = 0;
    uint32_t listed = 0;

    TABLE_ALL(&inv->rows, link)
    {
        const struct machine_row *row = CONTAINER_OF(link, struct machine_row, link);
        const struct traits *t = &row_actual(inv, row)->traits;
        counts.machines++;
        listed += inv->list && row->link.refs == inv->list;
        counts.planned += row->planned != PLANNED_NOTHING;
        counts.by_state[t->state][t->capacity_type]++;
        counts.cordoned[t->cordon]++;
        refs += row->actual == row->cohort ? 1 : 2;
        if ((row->planned != PLANNED_NOTHING) != (row->actual != row->cohort)) {
            FAULT("machine %.*s: planned but not moved, or moved but not planned",
                  STR_ARG(row_id(row)));
        }
        if (t->promise &&
            t->promise->idle_since_ms != (t->state == MACHINE_IDLE ? row->idle_since_ms : 0)) {
            FAULT("machine %.*s: idle since differs from its cohort", STR_ARG(row_id(row)));
        }
    }
    for (uint32_t i = 0; i < inv->order.count + inv->order_next.count; i++) {
        const struct machine_row *row =
            i < inv->order.count ? inv->order.at[i] : inv->order_next.at[i - inv->order.count];
        if (row->cohort != SLOT_NONE && inventory_row(inv, row_id(row)) != row) {
            FAULT("a row in the order of Lists that is no machine's");
        }
    }
    if (listed != inv->listed) FAULT("machines that the List under way named");
    if (memcmp(&counts, &inv->counts, sizeof counts) != 0) FAULT("counts by state");
    TABLE_ALL(&inv->cohorts, link) refs -= link->refs;
    if (refs != 0) FAULT("references to cohorts");
    return true;
}

static bool members_check(const struct inventory *inv, const struct cohort *cohort,
                          struct note *note)
{
    struct member_place place = cohort_begin(cohort);
    const struct machine_row *before = NULL, *row;
    uint32_t count = 0;

    while ((row = cohort_next(&place))) {
        if (row_cohort(inv, row) != cohort) FAULT("a member of another cohort");
        if (before && str_compare(row_id(before), row_id(row)) >= 0) FAULT("members out of order");
        before = row;
        count++;
    }
    if (count != cohort->count) FAULT("members of a cohort: %u, counted %u", cohort->count, count);
    return true;
}

static bool cohorts_check(const struct inventory *inv, struct note *note)
{
    uint64_t members = 0, in_bags = 0, bag_sum = 0;

    TABLE_ALL(&inv->cohorts, link)
    {
        struct cohort *cohort = CONTAINER_OF(link, struct cohort, link);
        if (!members_check(inv, cohort, note)) return false;
        if (cohort->link.refs == 0) FAULT("a cohort of nobody");
        if (slot_map_get(&inv->cohort_slots, cohort->slot) != cohort) FAULT("slot of a cohort");
        members += cohort->count;
        for (int kind = 0; kind < BAG_COUNT; kind++) {
            const struct bag *bag = cohort_bag_of(inv, cohort, (enum cohort_bag)kind);
            if (!bag) continue;
            in_bags++;
            uint32_t place = *cohort_place(cohort, (enum cohort_bag)kind);
            if (place >= bag->count || bag->at[place].cohort != cohort) {
                FAULT("a cohort is not in its bag %d", kind);
            }
        }
    }
    bag_sum += inv->nobodys.count;
    TABLE_ALL(&inv->clusters, link)
    {
        const struct cohort_cluster *c = CONTAINER_OF(link, struct cohort_cluster, link);
        bag_sum += c->others.count;
        for (uint32_t i = 0; i < c->configured.count; i++) bag_sum += c->configured.at[i].bag.count;
        for (uint32_t i = 0; i < c->configuring.count; i++) {
            bag_sum += c->configuring.at[i].bag.count;
        }
    }
    TABLE_ALL(&inv->keys, link)
    {
        const struct key *k = CONTAINER_OF(link, struct key, link);
        bag_sum += k->cohorts.count;
        if (k->family->keys[k->place] != k) FAULT("place of a key in its family");
    }
    TABLE_ALL(&inv->looks, link)
    {
        const struct look *l = CONTAINER_OF(link, struct look, link);
        for (int i = 0; i < POOL_COUNT; i++) bag_sum += l->pools[i].count;
    }
    if (members != inv->rows.count) FAULT("machines in cohorts");
    if (in_bags != bag_sum) FAULT("bags hold %zu cohorts of %zu", (size_t)bag_sum, (size_t)in_bags);
    return true;
}

/* UINT32_MAX with a note when a machine is in the wrong lane. */
static uint32_t lane_machines(const struct inventory *inv, const struct type_bag *lane,
                              struct note *note)
{
    uint32_t machines = 0;

    for (uint32_t i = 0; i < lane->bag.count; i++) {
        if (inv->look_briefs[lane->bag.at[i].look].type != lane->type) {
            note_set(note, "a cohort in the lane of another type");
            return UINT32_MAX;
        }
        machines += lane->bag.at[i].cohort->count;
    }
    return machines;
}

static bool clusters_check(const struct inventory *inv, struct note *note)
{
    uint64_t by_cluster = 0, bound = 0;

    TABLE_ALL(&inv->clusters, link)
    {
        const struct cohort_cluster *c = CONTAINER_OF(link, struct cohort_cluster, link);
        for (int i = 0; i < MACHINE_STATE_COUNT; i++) by_cluster += c->machines[i];
        for (int i = 0; i < 2; i++) {
            const struct type_bags *lanes = i ? &c->configuring : &c->configured;
            uint32_t machines = 0;
            for (uint32_t k = 0; k < lanes->count; k++) {
                machines += lane_machines(inv, &lanes->at[k], note);
            }
            if (machines != c->machines[i ? MACHINE_CONFIGURING : MACHINE_CONFIGURED]) {
                FAULT("machines of cluster %.*s", STR_ARG(cluster_text(c)));
            }
        }
    }
    TABLE_ALL(&inv->cohorts, link)
    {
        const struct cohort *cohort = CONTAINER_OF(link, struct cohort, link);
        if (traits_bound(&cohort->traits)) bound += cohort->count;
    }
    if (by_cluster != bound) FAULT("machines by cluster");
    return true;
}

static bool looks_check(const struct inventory *inv, struct note *note)
{
    uint64_t carried = 0, listed = 0, refs = 0;

    TABLE_ALL(&inv->looks, link)
    {
        const struct look *look = CONTAINER_OF(link, struct look, link);
        struct look_brief brief = look_brief_of(look);
        if (memcmp(&brief, &inv->look_briefs[look->slot], sizeof brief) != 0) {
            FAULT("the brief of a look");
        }
        for (uint32_t i = 0; i < look->attribute_count; i++) {
            const struct posting *posting = look->postings[i];
            uint32_t place = look_places(look)[i];
            if (!posting) continue;
            refs++;
            if (place == LOOK_HIDDEN) continue;
            carried++;
            if (place >= posting->count || posting_look(inv, posting, place) != look) {
                FAULT("a look is not in its posting");
            }
            if (look_find(look, word_text(posting->key)) != posting) {
                FAULT("an attribute that is listed is not found");
            }
        }
    }
    TABLE_ALL(&inv->postings, link)
    {
        listed += CONTAINER_OF(link, struct posting, link)->count;
        refs -= link->refs;
    }
    if (carried != listed) FAULT("postings");
    if (refs != 0) FAULT("references to postings");
    return true;
}

static uint64_t refs_sum(const struct table *table)
{
    uint64_t sum = 0;

    TABLE_ALL(table, link)
    {
        if (link->refs == 0) return UINT64_MAX; /* in the table, and nobody's */
        sum += link->refs;
    }
    return sum;
}

static bool refs_check(const struct inventory *inv, struct note *note)
{
    uint64_t words = 0, origins = 0, clusters = 0, keys = 0, stamps = 0, promises = 0;

    TABLE_ALL(&inv->rows, link)
    {
        origins += CONTAINER_OF(link, struct machine_row, link)->origin != SLOT_NONE;
    }
    TABLE_ALL(&inv->origins, link)
    {
        const struct origin *o = CONTAINER_OF(link, struct origin, link);
        words += o->host_provider != NULL;
        words += o->last_error != NULL;
    }
    TABLE_ALL(&inv->cohorts, link)
    {
        const struct cohort *c = CONTAINER_OF(link, struct cohort, link);
        clusters += c->traits.cluster != NULL;
        keys += c->own != SLOT_NONE;
        stamps += c->traits.stamp != NULL;
        promises += c->traits.promise != NULL;
    }
    TABLE_ALL(&inv->stamps, link)
    {
        const struct stamp *s = CONTAINER_OF(link, struct stamp, link);
        words += s->fingerprint != NULL;
        words += s->group != NULL;
    }
    TABLE_ALL(&inv->keys, link)
    {
        words += CONTAINER_OF(link, struct key, link)->group != NULL;
    }
    TABLE_ALL(&inv->families, link)
    {
        words += CONTAINER_OF(link, struct family, link)->fingerprint != NULL;
        clusters++;
    }
    words += inv->postings.count; /* each names its key */
    if (refs_sum(&inv->words) != words) FAULT("references to words");
    if (refs_sum(&inv->origins) != origins) FAULT("references to origins");
    if (refs_sum(&inv->clusters) != clusters) FAULT("references to clusters");
    if (refs_sum(&inv->keys) != keys + inv->promises.count) FAULT("references to keys");
    if (refs_sum(&inv->families) != inv->keys.count) FAULT("references to families");
    if (refs_sum(&inv->stamps) != stamps) FAULT("references to stamps");
    if (refs_sum(&inv->promises) != promises) FAULT("references to promises");
    if (refs_sum(&inv->shapes) != inv->cohorts.count) FAULT("references to shapes");
    if (refs_sum(&inv->looks) != inv->cohorts.count) FAULT("references to looks");
    if (refs_sum(&inv->outfits) != inv->cohorts.count) FAULT("references to outfits");
    return true;
}

bool inventory_check(const struct inventory *inventory, struct note *note)
{
    return rows_check(inventory, note) && cohorts_check(inventory, note) &&
           clusters_check(inventory, note) && looks_check(inventory, note) &&
           refs_check(inventory, note);
}

/* --- needs --- */

struct snapshot_item {
    const struct demand_row *row;
    const struct demand_cluster *cluster;
    uint32_t place;
};

static int snapshot_compare(const void *left, const void *right)
{
    const struct snapshot_item *a = left, *b = right;
    int32_t a_priority = a->row->kind->profile.priority;
    int32_t b_priority = b->row->kind->profile.priority;
    int order;

    if (a_priority != b_priority) return a_priority > b_priority ? -1 : 1;
    if (a->row->arrival_unix_ns != b->row->arrival_unix_ns) {
        return a->row->arrival_unix_ns < b->row->arrival_unix_ns ? -1 : 1;
    }
    order = str_compare(a->cluster->name, b->cluster->name);
    if (order) return order;
    return a->place < b->place ? -1 : a->place > b->place;
}

static void snapshot_row(const struct snapshot_item *item, struct need *need)
{
    need->cluster = item->cluster->name;
    need->profile = item->row->kind->profile;
    need->arrival_unix_ns = item->row->arrival_unix_ns;
    need->group = item->row->group;
    amounts_sum(&item->row->aggregate, &need->aggregate);
    need->min_unit = item->row->unit->resources;
}

enum err needs_snapshot(const struct needs *needs, struct arena *arena, struct need **ret_rows,
                        size_t *ret_count)
{
    size_t count = 0;
    struct snapshot_item *items = arena_alloc(arena, needs->row_count * sizeof *items);
    struct need *rows = arena_alloc(arena, needs->row_count * sizeof *rows);

    if (!items || !rows) return ERR_NOMEM;
    for (uint32_t i = 0; i < needs->cluster_slots.used; i++) {
        const struct demand_cluster *cluster = slot_map_get(&needs->cluster_slots, i);
        for (uint32_t k = 0; cluster && k < cluster->set.row_count; k++) {
            items[count++] = (struct snapshot_item){&cluster->set.rows[k], cluster, k};
        }
    }
    assert(count == needs->row_count);
    if (count) qsort(items, count, sizeof *items, snapshot_compare);
    for (size_t i = 0; i < count; i++) snapshot_row(&items[i], &rows[i]);
    *ret_rows = rows;
    *ret_count = count;
    return ERR_OK;
}

bool needs_check(const struct needs *needs, struct note *note)
{
    uint32_t rows = 0, filled = 0, reported = 0, clusters = 0;
    uint64_t refs = 0;

    for (uint32_t i = 0; i < needs->cluster_slots.used; i++) {
        const struct demand_cluster *cluster = slot_map_get(&needs->cluster_slots, i);
        if (!cluster) continue;
        clusters++;
        rows += cluster->set.row_count;
        filled += cluster->set.row_count > 0;
        reported += cluster->reported;
    }
    for (uint32_t i = 0; i < needs->kind_slots.used; i++) {
        const struct kind *kind = slot_map_get(&needs->kind_slots, i);
        if (!kind) continue;
        refs += kind->link.refs;
        if (kind->stripped) refs--;
    }
    if (rows == needs->row_count && filled == needs->filled_count &&
        reported == needs->reported_count && clusters == needs->clusters.count &&
        refs == rows + needs->held) {
        return true;
    }
    note_set(note, "needs: rows %u/%u, filled %u/%u, reported %u/%u, references to kinds", rows,
             needs->row_count, filled, needs->filled_count, reported, needs->reported_count);
    return false;
}
