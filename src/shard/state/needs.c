/* SPDX-License-Identifier: Apache-2.0 */
/* The needs table: each cluster's rows, which a roll-up replaces as a whole. A replaced set that an
 * inspection still reads is kept until the next needs_keep(). Runs on the table's thread. */
#include "shard/state/needs.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "shard/state/kinds.h"
#include "shard/state/merge.h"
#include "shard/state/shared.h"

enum err needs_open(const struct needs_options *options, struct needs **ret_needs)
{
    struct needs *needs;

    if (options->rows_max == 0 || options->rows_max > NEEDS_ROWS_MOST || !options->dimensions) {
        return ERR_INVALID;
    }
    needs = calloc(1, sizeof *needs);
    if (!needs) return ERR_NOMEM;
    needs->options = *options;
    needs->version = 1;
    *ret_needs = needs;
    return ERR_OK;
}

/* --- sets --- */

static void need_set_free(struct needs *needs, struct demand_set *set)
{
    for (uint32_t i = 0; i < set->row_count; i++) {
        shared_give(needs, &kind_kind, set->rows[i].kind);
        shared_give(needs, &unit_kind, set->rows[i].unit);
    }
    for (uint32_t i = 0; i < set->fold_count; i++)
        shared_give(needs, &unit_kind, set->folds[i].unit);
    if (set->block) memory_give(&needs->bytes, set->block, set->block_size);
    needs->bytes -= set->arena.used;
    arena_deinit(&set->arena);
    table_deinit(&set->ages, &needs->bytes);
    *set = (struct demand_set){0};
}

/* --- sets that are still read --- */

struct retired {
    struct retired *next;
    struct demand_set set;
};

static bool is_read(const struct needs *needs, const struct demand_set *set)
{
    return set->row_count && set->version <= needs->kept;
}

void needs_keep(struct needs *needs)
{
    while (needs->retired) {
        struct retired *first = needs->retired;
        needs->retired = first->next;
        needs->held -= first->set.row_count;
        need_set_free(needs, &first->set);
        memory_give(&needs->bytes, first, sizeof *first);
    }
    needs->kept = needs->version;
}

/* Allocates what is needed to keep a replaced set. *ret_retired is NULL if nobody reads the set. */
static enum err retired_make(struct needs *needs, const struct demand_set *set,
                             struct retired **ret_retired)
{
    struct retired *retired = NULL;

    if (is_read(needs, set)) {
        retired = memory_take(&needs->bytes, sizeof *retired);
        if (!retired) return ERR_NOMEM;
    }
    *ret_retired = retired;
    return ERR_OK;
}

static void need_set_retire(struct needs *needs, struct demand_set *set,
                            struct retired *own_retired)
{
    if (!own_retired) {
        need_set_free(needs, set);
        return;
    }
    table_deinit(&set->ages, &needs->bytes); /* only the next roll-up reads the ages */
    *own_retired = (struct retired){needs->retired, *set};
    needs->retired = own_retired;
    needs->held += set->row_count;
}

/* --- clusters --- */

static enum err demand_cluster_born(void *owner, void *object)
{
    const struct needs *needs = owner;
    struct demand_cluster *cluster = object;

    cluster->name = str_of(cluster->text, cluster->len);
    cluster->dimensions = needs->options.dimensions;
    cluster->set.version = needs->version + 1; /* its rows are not ordered yet */
    return ERR_OK;
}

static void demand_cluster_gone(void *owner, void *object)
{
    struct needs *needs = owner;
    struct demand_cluster *cluster = object;

    if (cluster->set.row_count) needs->filled_count--;
    if (cluster->reported) needs->reported_count--;
    needs->row_count -= cluster->set.row_count;
    need_set_free(needs, &cluster->set);
    needs->version++;
}

static const struct shared_kind demand_cluster_kind = {
    SHARED_TEXT(demand_cluster, len, text), SHARED_TABLE(needs, clusters, demand_cluster),
    SHARED_SLOTS(needs, cluster_slots, demand_cluster), .born = demand_cluster_born,
    .gone = demand_cluster_gone};

const struct demand_cluster *needs_cluster(const struct needs *needs, struct str cluster)
{
    return shared_find(needs, &demand_cluster_kind, NULL, cluster);
}

void needs_close(struct needs *needs)
{
    if (!needs) return;
    for (uint32_t i = 0; i < needs->cluster_slots.used; i++) {
        shared_give(needs, &demand_cluster_kind, slot_map_get(&needs->cluster_slots, i));
    }
    needs_keep(needs);
    assert(needs->kinds.count == 0 && needs->sets.count == 0 && needs->units.count == 0);
    table_deinit(&needs->clusters, &needs->bytes);
    table_deinit(&needs->kinds, &needs->bytes);
    table_deinit(&needs->sets, &needs->bytes);
    table_deinit(&needs->units, &needs->bytes);
    slot_map_deinit(&needs->cluster_slots, &needs->bytes);
    slot_map_deinit(&needs->kind_slots, &needs->bytes);
    slot_map_deinit(&needs->set_slots, &needs->bytes);
    array_free(needs->order, needs->order_cap, sizeof(struct demand *), &needs->bytes);
    array_free(needs->order_from, needs->order_from_cap, sizeof *needs->order_from, &needs->bytes);
    array_free(needs->folds, needs->folds_cap, sizeof(struct fold *), &needs->bytes);
    assert(needs->bytes == 0);
    free(needs);
}

/* --- ages --- */

static uint32_t age_hash(const struct needs *needs, const struct kind *kind, struct str group)
{
    return (uint32_t)str_hash(group, needs->options.seed ^ kind->birth);
}

static struct demand_row *age_find(const struct needs *needs, const struct demand_set *set,
                                   const struct kind *kind, struct str group)
{
    TABLE_EACH(&set->ages, age_hash(needs, kind, group), link)
    {
        struct demand_row *row = CONTAINER_OF(link, struct demand_row, link);
        if (row->kind == kind && str_equal(row->group, group)) return row;
    }
    return NULL;
}

/* Rows of a known (kind, group) keep the arrival of this pair. Rows of a new pair get the earliest
 * of their arrivals. */
static enum err ages_fill(struct needs *needs, const struct demand_set *old, struct demand_set *set)
{
    for (uint32_t i = 0; i < set->row_count; i++) {
        struct demand_row *row = &set->rows[i];
        struct demand_row *first = age_find(needs, set, row->kind, row->group);
        enum err err;
        if (first) {
            first->arrival_unix_ns = arrival_earlier(first->arrival_unix_ns, row->arrival_unix_ns);
            continue;
        }
        err = table_reserve(&set->ages, &needs->bytes);
        if (err) return err;
        table_add(&set->ages, &row->link, age_hash(needs, row->kind, row->group));
    }
    for (uint32_t i = 0; i < set->row_count; i++) {
        struct demand_row *row = &set->rows[i];
        struct demand_row *first = age_find(needs, set, row->kind, row->group);
        const struct demand_row *seen = age_find(needs, old, row->kind, row->group);
        if (row == first && seen) row->arrival_unix_ns = seen->arrival_unix_ns;
        row->arrival_unix_ns = first->arrival_unix_ns;
    }
    return ERR_OK;
}

/* --- replacing --- */

static enum err need_row_copy(struct needs *needs, struct demand_set *set, const struct need *from)
{
    struct demand_row *row = &set->rows[set->row_count];
    struct resource_sum unit;
    char *group = arena_dup(&set->arena, from->group);
    enum err err;

    if (!group) return ERR_NOMEM;
    memset(row, 0, sizeof *row);
    row->group = str_of(group, from->group.len);
    row->arrival_unix_ns = from->arrival_unix_ns;
    resource_sum_clear(&unit);
    resource_sum_add(&unit, &from->min_unit);
    err = amounts_keep(&set->arena, &from->aggregate, &row->aggregate);
    if (!err) err = unit_take(needs, &unit, &row->unit);
    if (err) return err;
    err = kind_take(needs, &from->profile, &row->kind);
    if (err) {
        shared_give(needs, &unit_kind, row->unit);
        return err;
    }
    set->row_count++;
    return ERR_OK;
}

/* Allocates `count` rows, and room for the demands, gangs and folds made from them. */
static enum err need_set_room(struct needs *needs, const struct need *rows, size_t count,
                              struct demand_set *set)
{
    size_t gangs = 0;

    if (!count) return ERR_OK;
    for (size_t i = 0; i < count; i++) gangs += profile_same(&rows[i].profile) != NULL;
    set->block_size = count * (sizeof *set->rows + sizeof *set->demands) +
                      gangs * (sizeof *set->gangs + sizeof *set->folds);
    set->block = memory_take(&needs->bytes, set->block_size);
    if (!set->block) return ERR_NOMEM;
    set->rows = set->block;
    set->demands = (struct demand *)(set->rows + count);
    set->gangs = (struct gangs *)(set->demands + count);
    set->folds = (struct fold *)(set->gangs + gangs);
    return ERR_OK;
}

static enum err need_set_fill(struct needs *needs, struct demand_cluster *cluster,
                              const struct need *rows, size_t count, struct demand_set *set)
{
    enum err err = need_set_room(needs, rows, count, set);

    for (size_t i = 0; i < count && !err; i++) err = need_row_copy(needs, set, &rows[i]);
    if (!err) err = ages_fill(needs, &cluster->set, set);
    if (!err) err = demand_merge(needs, cluster, set);
    return err;
}

static bool need_row_is(const struct demand_row *row, const struct need *need)
{
    struct resource_sum unit;

    if (!str_equal(row->kind->profile.fingerprint, need->profile.fingerprint) ||
        !str_equal(row->group, need->group) || !amounts_are(&row->aggregate, &need->aggregate))
        return false;
    resource_sum_clear(&unit);
    resource_sum_add(&unit, &need->min_unit);
    return amounts_are(&row->unit->amounts, &unit);
}

static bool need_set_is(const struct demand_set *set, const struct need *rows, size_t count)
{
    if (set->row_count != count) return false;
    for (size_t i = 0; i < count; i++)
        if (!need_row_is(&set->rows[i], &rows[i])) return false;
    return true;
}

enum err needs_replace(struct needs *needs, struct str cluster, const struct need *rows,
                       size_t count, struct note *note)
{
    struct demand_cluster *entry = shared_find(needs, &demand_cluster_kind, NULL, cluster);
    size_t others = needs->row_count - (entry ? entry->set.row_count : 0);
    struct demand_set set = {0};
    struct retired *retired;
    enum err err;

    if (count > needs->options.rows_max - others)
        return note_fail(note, ERR_FULL, "more than %u rows", needs->options.rows_max);
    for (size_t i = 0; i < count; i++) {
        if (str_equal(rows[i].cluster, cluster)) continue;
        return note_fail(note, ERR_INVALID, "rows[%zu].cluster: another cluster's", i);
    }
    err = needs_mark_reported(needs, cluster);
    if (err) return err;
    entry = shared_find(needs, &demand_cluster_kind, NULL, cluster);
    if (need_set_is(&entry->set, rows, count)) return ERR_OK;
    err = retired_make(needs, &entry->set, &retired);
    if (err) return err;
    arena_init(&set.arena, SIZE_MAX);
    err = need_set_fill(needs, entry, rows, count, &set);
    needs->bytes += set.arena.used;
    if (err) {
        if (retired) memory_give(&needs->bytes, retired, sizeof *retired);
        need_set_free(needs, &set);
        return err;
    }
    needs->filled_count += (count > 0 ? 1u : 0u) - (entry->set.row_count > 0 ? 1u : 0u);
    needs->row_count = (uint32_t)(others + count);
    need_set_retire(needs, &entry->set, retired);
    set.version = ++needs->version;
    entry->set = set;
    return ERR_OK;
}

enum err needs_mark_reported(struct needs *needs, struct str cluster)
{
    struct demand_cluster like = {0},
                          *entry = shared_find(needs, &demand_cluster_kind, NULL, cluster);

    if (!entry) {
        enum err err = shared_take(ERR_OK, needs, &demand_cluster_kind, &like, cluster, &entry);
        if (err) return err;
    }
    if (entry->reported) return ERR_OK;
    entry->reported = true;
    needs->reported_count++;
    needs->version++;
    return ERR_OK;
}

void needs_forget(struct needs *needs, struct str cluster)
{
    shared_give(needs, &demand_cluster_kind,
                shared_find(needs, &demand_cluster_kind, NULL, cluster));
}

bool needs_reported(const struct needs *needs, struct str cluster)
{
    const struct demand_cluster *entry = needs_cluster(needs, cluster);

    return entry && entry->reported;
}

struct needs_stats needs_stats(const struct needs *needs)
{
    return (struct needs_stats){.clusters = needs->filled_count,
                                .rows = needs->row_count,
                                .reported = needs->reported_count,
                                .profiles = needs->kinds.count,
                                .bytes = needs->bytes + sizeof *needs};
}
