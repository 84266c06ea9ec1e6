/* SPDX-License-Identifier: Apache-2.0 */
/* Merges rows: sorts them, and turns each run of equal rows into one demand at the position of its
 * first row. The last sort key is the row's index, so the result does not depend on addresses. */
#include "shard/state/merge.h"

#include <stdlib.h>
#include <string.h>

#include "shard/state/kinds.h"

struct item { /* a row or a gang, with the amounts that must be equal */
    uint32_t kind, index;
    const struct amounts *amounts;
};

static int amounts_compare(const struct amounts *a, const struct amounts *b)
{
    uint32_t count = resource_bits(a->mask);

    if (a->mask != b->mask) return a->mask < b->mask ? -1 : 1;
    for (uint32_t i = 0; i < count; i++)
        if (a->milli[i] != b->milli[i]) return a->milli[i] < b->milli[i] ? -1 : 1;
    return 0;
}

static bool item_same(const struct item *a, const struct item *b)
{
    return a->kind == b->kind && amounts_compare(a->amounts, b->amounts) == 0;
}

static int item_compare(const void *left, const void *right)
{
    const struct item *a = left, *b = right;
    int order;

    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    order = amounts_compare(a->amounts, b->amounts);
    if (order) return order;
    return a->index < b->index ? -1 : a->index > b->index;
}

static uint64_t rank_of(const struct profile *p)
{
    return (uint64_t)((int64_t)INT32_MAX - p->priority) << 16 |
           (uint64_t)(UINT8_MAX - p->interruption_bucket) << 8 |
           (uint64_t)(UINT8_MAX - p->reclamation_bucket);
}

static void demand_fill(struct demand_cluster *cluster, struct demand *demand,
                        const struct demand_row *row, const struct kind *kind)
{
    memset(demand, 0, sizeof *demand);
    demand->key.cluster = cluster->name;
    demand->key.fingerprint = kind->profile.fingerprint;
    demand->profile = &kind->profile;
    demand->kind = kind;
    demand->gang = kind->same != NULL;
    demand->cluster = cluster;
    demand->rank = rank_of(&kind->profile);
    demand->arrival_unix_ns = row->arrival_unix_ns;
    demand->aggregate = row->aggregate;
    demand->min_unit = &row->unit->amounts;
    demand->unit = &row->unit->resources;
}

static enum err merge_run(struct demand_cluster *cluster, struct demand_set *set,
                          const struct item *run, uint32_t count)
{
    struct demand *demand = &set->demands[set->demand_count];
    const struct demand_row *first = &set->rows[run[0].index];
    struct resource_sum sum, more;
    enum err err = ERR_OK;

    demand_fill(cluster, demand, first, first->kind);
    demand->place = run[0].index;
    amounts_sum(&first->aggregate, &sum);
    for (uint32_t i = 1; i < count; i++) {
        const struct demand_row *row = &set->rows[run[i].index];
        amounts_sum(&row->aggregate, &more);
        resource_sum_add_sum(&sum, &more);
        demand->arrival_unix_ns = arrival_earlier(demand->arrival_unix_ns, row->arrival_unix_ns);
    }
    if (count > 1) err = amounts_keep(&set->arena, &sum, &demand->aggregate);
    if (!err) set->demand_count++;
    return err;
}

static enum err merge_plain(struct demand_cluster *cluster, struct demand_set *set,
                            struct item *items)
{
    uint32_t count = 0, from = 0;
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < set->row_count; i++) {
        const struct demand_row *row = &set->rows[i];
        if (!row->kind->same)
            items[count++] = (struct item){row->kind->slot, i, &row->unit->amounts};
    }
    if (count) qsort(items, count, sizeof *items, item_compare);
    for (uint32_t i = 1; i <= count && !err; i++) {
        if (i < count && item_same(&items[from], &items[i])) continue;
        err = merge_run(cluster, set, &items[from], i - from);
        from = i;
    }
    return err;
}

static void gang_add(struct demand_cluster *cluster, struct demand_set *set, uint32_t index,
                     struct gangs *gangs)
{
    struct demand *demand = &set->demands[set->demand_count];
    const struct demand_row *row = &set->rows[index];

    demand_fill(cluster, demand, row, row->kind);
    demand->place = index;
    demand->key.group = row->group;
    demand->gangs = gangs;
    set->demand_count++;
}

static void group_gangs(struct demand_cluster *cluster, struct demand_set *set, struct item *items)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < set->row_count; i++) {
        const struct demand_row *row = &set->rows[i];
        if (row->kind->same) items[count++] = (struct item){row->kind->slot, i, &row->aggregate};
    }
    if (count) qsort(items, count, sizeof *items, item_compare);
    for (uint32_t i = 0; i < count; i++) {
        if (i == 0 || !item_same(&items[i - 1], &items[i])) {
            const struct demand_row *row = &set->rows[items[i].index];
            set->gangs[set->gangs_count++] =
                (struct gangs){.kind = row->kind, .aggregate = row->aggregate};
        }
        gang_add(cluster, set, items[i].index, &set->gangs[set->gangs_count - 1]);
    }
}

/* Finds the plain demand equal to `like`. Plain demands come first and are sorted. */
static struct demand *plain_equal(struct demand_set *set, uint32_t plain_count,
                                  const struct demand *like)
{
    uint32_t low = 0, high = plain_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        struct demand *d = &set->demands[middle];
        int order = d->kind == like->kind ? amounts_compare(d->min_unit, like->min_unit)
                    : d->kind->slot < like->kind->slot ? -1
                                                       : 1;
        if (order == 0) return d;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* Creates the fold of a run of gangs, unless a gang is larger than any machine. */
static enum err fold_run(struct needs *needs, struct demand_cluster *cluster,
                         struct demand_set *set, uint32_t plain_count, const struct item *run,
                         uint32_t count)
{
    const struct gangs *first = &set->gangs[run[0].index];
    struct fold *fold = &set->folds[set->fold_count];
    struct demand_row row = {.aggregate = first->aggregate};
    struct resource_sum whole;
    enum err err;

    memset(fold, 0, sizeof *fold);
    amounts_sum(&first->aggregate, &whole);
    err = unit_take(needs, &whole, &row.unit);
    if (err) return err == ERR_TOO_LARGE ? ERR_OK : err;
    fold->unit = row.unit;
    demand_fill(cluster, &fold->demand, &row, first->kind->stripped);
    fold->demand.place = set->row_count; /* after all rows that stay */
    for (uint32_t i = 0; i < count; i++) set->gangs[run[i].index].fold = fold;
    fold->plain = plain_equal(set, plain_count, &fold->demand);
    if (fold->plain) fold->plain->fold = fold;
    set->fold_count++;
    return ERR_OK;
}

static enum err group_folds(struct needs *needs, struct demand_cluster *cluster,
                            struct demand_set *set, uint32_t plain_count, struct item *items)
{
    uint32_t from = 0;
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < set->gangs_count; i++) {
        items[i] = (struct item){set->gangs[i].kind->stripped->slot, i, &set->gangs[i].aggregate};
    }
    if (set->gangs_count) qsort(items, set->gangs_count, sizeof *items, item_compare);
    for (uint32_t i = 1; i <= set->gangs_count && !err; i++) {
        if (i < set->gangs_count && item_same(&items[from], &items[i])) continue;
        err = fold_run(needs, cluster, set, plain_count, &items[from], i - from);
        from = i;
    }
    return err;
}

enum err demand_merge(struct needs *needs, struct demand_cluster *cluster, struct demand_set *set)
{
    struct item *items;
    uint32_t plain_count;
    enum err err;

    set->demand_count = set->gangs_count = set->fold_count = 0;
    if (!set->row_count) return ERR_OK;
    items = malloc(set->row_count * sizeof *items);
    if (!items) return ERR_NOMEM;
    err = merge_plain(cluster, set, items);
    plain_count = set->demand_count;
    if (!err) {
        group_gangs(cluster, set, items);
        err = group_folds(needs, cluster, set, plain_count, items);
    }
    free(items);
    for (uint32_t i = 0; i < set->demand_count; i++) set->demands[i].birth = ++needs->births;
    for (uint32_t i = 0; i < set->fold_count; i++) set->folds[i].demand.birth = ++needs->births;
    return err;
}
