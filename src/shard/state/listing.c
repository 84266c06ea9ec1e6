/* SPDX-License-Identifier: Apache-2.0 */
/* Processes Lists. Most records of a List are unchanged, so each record is compared with its row in
 * place, before any object is built. */
#include <stdlib.h>

#include "base/memory.h"
#include "shard/state/cohorts.h"

/* --- the order of Lists ---
 *
 * A provider lists its machines in nearly the same order every time. So the order of the last full
 * List is a guess for the next record, which saves a look-up in a table of half a million rows. A
 * wrong guess costs a few comparisons. */

enum {
    ORDER_WINDOW = 8, /* missing machines that the guess may skip */
    FETCH_ROW = 8,    /* prefetch distance, in records */
    FETCH_COHORT = 4,
    DEAD_MOST = 64 << 10, /* removed rows kept for the order; with more, the order is dropped */
};

static void order_free(struct inventory *inv, struct list_order *order)
{
    array_free(order->at, order->cap, sizeof(struct machine_row *), &inv->bytes);
    *order = (struct list_order){0};
}

static void dead_free(struct inventory *inv, struct table_link **dead)
{
    while (*dead) {
        struct machine_row *row = CONTAINER_OF(*dead, struct machine_row, link);
        *dead = row->link.next;
        inv->dead_count--;
        memory_give(&inv->bytes, row, row_size(row));
    }
}

void list_orders_free(struct inventory *inv)
{
    order_free(inv, &inv->order);
    order_free(inv, &inv->order_next);
    dead_free(inv, &inv->dead_before);
    dead_free(inv, &inv->dead);
    inv->order_cursor = SLOT_NONE; /* a partial order is not used */
}

void row_bury(struct inventory *inv, struct machine_row *row)
{
    row->cohort = row->actual = SLOT_NONE;
    row->link.next = inv->dead;
    inv->dead = &row->link;
    if (++inv->dead_count > DEAD_MOST || (!inv->order.count && !inv->order_next.count))
        list_orders_free(inv);
}

uint32_t inventory_list_begin(struct inventory *inventory, bool full)
{
    inventory->listed = 0;
    if (!full)
        list_orders_free(inventory); /* a provider that lists deltas rarely sends full Lists */
    while (inventory->dead) {
        struct table_link *link = inventory->dead;
        inventory->dead = link->next;
        link->next = inventory->dead_before;
        inventory->dead_before = link;
    }
    inventory->order_next.count = 0;
    inventory->order_cursor = full ? 0 : SLOT_NONE;
    return ++inventory->list;
}

void inventory_list_end(struct inventory *inventory, bool whole)
{
    if (inventory->order_cursor == SLOT_NONE || !whole) return;
    order_free(inventory, &inventory->order);
    inventory->order = inventory->order_next;
    inventory->order_next = (struct list_order){0};
    inventory->order_cursor = SLOT_NONE;
    dead_free(inventory, &inventory->dead_before);
}

static void order_note(struct inventory *inv, struct machine_row *row)
{
    struct list_order *next = &inv->order_next;

    if (inv->order_cursor == SLOT_NONE) return;
    if (array_reserve(&next->at, next->count, &next->cap, sizeof(struct machine_row *),
                      &inv->bytes)) {
        list_orders_free(inv); /* the order only improves speed */
        return;
    }
    next->at[next->count++] = row;
}

static struct machine_row *order_ahead(const struct inventory *inv, uint32_t by)
{
    uint32_t at = inv->order_cursor + by;

    return at < inv->order.count ? inv->order.at[at] : NULL;
}

static void order_fetch_ahead(const struct inventory *inv)
{
    const struct machine_row *row = order_ahead(inv, FETCH_ROW);
    const struct machine_row *nearer = order_ahead(inv, FETCH_COHORT);

    if (row) __builtin_prefetch(row);
    if (nearer && nearer->actual != SLOT_NONE) __builtin_prefetch(row_actual(inv, nearer));
}

/* NULL: unknown machine. */
static struct machine_row *row_listed(struct inventory *inv, struct str id)
{
    struct machine_row *row;

    if (inv->order_cursor == SLOT_NONE) return inventory_row(inv, id);
    row = order_ahead(inv, 0);
    if (row && row->cohort != SLOT_NONE && str_equal(row_id(row), id)) {
        order_fetch_ahead(inv);
        inv->order_cursor++;
        return row;
    }
    row = inventory_row(inv, id);
    for (uint32_t i = 0; row && i <= ORDER_WINDOW; i++) {
        if (order_ahead(inv, i) != row) continue;
        inv->order_cursor += i + 1;
        break;
    }
    return row;
}

/* --- records --- */

/* The fields that change most often come first. */
static bool row_matches(const struct inventory *inv, const struct machine_row *row,
                        const struct machine *m)
{
    const struct traits *t = &row_actual(inv, row)->traits;

    return t->state == (uint32_t)m->state && t->price == m->price_per_hour &&
           t->probability == m->interruption_probability &&
           t->capacity_type == (uint32_t)m->capacity_type &&
           str_equal(cluster_text(traits_bound(t)), m->cluster) &&
           str_equal(row_host_ref(row), m->host_ref) &&
           str_equal(word_text(origin_at(inv, row->origin)->host_provider), m->host_provider) &&
           str_equal(word_text(origin_at(inv, row->origin)->last_error), m->last_error) &&
           resources_same(&t->shape->resources, &m->resources) &&
           resources_same(&t->shape->allocatable, &m->allocatable) &&
           look_is(t->look, &m->attributes);
}

enum listed_as inventory_list_record(struct inventory *inventory, const struct machine *machine)
{
    struct machine_row *row;

    assert(inventory->list); /* a List is under way */
    row = row_listed(inventory, machine->id);
    if (!row) return LISTED_NEW;
    if (row->link.refs == inventory->list) return LISTED_AGAIN;
    row->link.refs = inventory->list;
    inventory->listed++;
    order_note(inventory, row);
    return row_matches(inventory, row, machine) ? LISTED_SAME : LISTED_CHANGED;
}

uint32_t inventory_unseen_count(const struct inventory *inventory)
{
    return inventory->rows.count - inventory->listed;
}

enum err inventory_unseen(const struct inventory *inventory, uint32_t since, struct arena *arena,
                          struct str **ret_ids, size_t *ret_count)
{
    struct str *ids = arena_alloc(arena, inventory_unseen_count(inventory) * sizeof *ids);
    size_t count = 0;

    if (!ids) return ERR_NOMEM;
    for (uint32_t i = 0; i < inventory->rows.bucket_count; i++) {
        for (struct table_link *link = inventory->rows.buckets[i]; link; link = link->next) {
            if (link->refs >= since) continue;
            ids[count++] = row_id(CONTAINER_OF(link, struct machine_row, link));
        }
    }
    if (count) qsort(ids, count, sizeof *ids, str_order); /* callers must not see the hash order */
    *ret_ids = ids;
    *ret_count = count;
    return ERR_OK;
}

static void bag_bound(const struct inventory *inv, const struct bag *bag,
                      const struct cohort_cluster *cluster, struct str *ids, size_t *count)
{
    for (uint32_t i = 0; i < bag->count; i++) {
        struct member_place place = cohort_begin(bag->at[i].cohort);
        const struct machine_row *row;
        while ((row = cohort_next(&place)))
            if (traits_bound(&row_actual(inv, row)->traits) == cluster)
                ids[(*count)++] = row_id(row);
    }
}

enum err inventory_bound(const struct inventory *inventory, struct str cluster, struct arena *arena,
                         struct str **ret_ids, size_t *ret_count)
{
    const struct cohort_cluster *c = inventory_cluster(inventory, cluster);
    size_t most = 0, count = 0;
    struct str *ids;

    for (int state = 0; c && state < MACHINE_STATE_COUNT; state++) most += c->machines[state];
    ids = arena_alloc(arena, most * sizeof *ids);
    if (!ids) return ERR_NOMEM;
    if (c) {
        for (uint32_t i = 0; i < c->configured.count; i++)
            bag_bound(inventory, &c->configured.at[i].bag, c, ids, &count);
        for (uint32_t i = 0; i < c->configuring.count; i++)
            bag_bound(inventory, &c->configuring.at[i].bag, c, ids, &count);
        bag_bound(inventory, &c->others, c, ids, &count);
    }
    *ret_ids = ids;
    *ret_count = count;
    return ERR_OK;
}
