/* SPDX-License-Identifier: Apache-2.0 */
/* Groups acquirable machines by their value of one label key. The entries of a price order with
 * equal values form a *chain*, in the order of acquisition. A strict spread uses chains to find the
 * first machine of each domain.
 *
 * A chain does not depend on requirements, so Needs with different requirement sets share it. */
#include "shard/decide/chains.h"

#include <stdlib.h>

struct tied { /* an entry whose sort keys equal those of the entry before or after it */
    struct str id;
    uint32_t entry;
};

static int tied_compare(const void *left, const void *right)
{
    const struct tied *a = left, *b = right;

    return str_compare(a->id, b->id);
}

static void ties_order(const struct decider *e, const struct price_order *order, uint32_t from,
                       uint32_t end, struct tied *tied)
{
    assert(tied && end > from);
    for (uint32_t i = from; i < end; i++) {
        const struct cohort *c = slot_map_held(&e->inventory->cohort_slots, order->at[i].cohort);
        struct member_place place = cohort_begin(c);
        tied[i - from] = (struct tied){row_id(cohort_next(&place)), i};
    }
    qsort(tied, end - from, sizeof *tied, tied_compare);
}

/* While chains are built, chain.next is the last entry of the chain. */
static void chains_add(struct decider *e, const struct price_order *order, struct chains *c,
                       uint32_t entry)
{
    const struct look *look = slot_map_held(&e->inventory->look_slots, order->at[entry].look);
    const struct posting *value = look_find(look, c->key);
    /* the index may belong to another label key; checked below */
    uint32_t known = value ? e->bucket_of[value->slot] : 0;

    if (!value) return;
    if (known < c->count && c->at[known].value == value) {
        c->next[c->at[known].next] = entry;
    } else {
        known = c->count;
        if (!decider_grow(e, &c->at, known, &c->cap, sizeof *c->at)) return;
        c->at[c->count++] = (struct chain){value, order->at[entry].first, entry, entry};
        e->bucket_of[value->slot] = known;
    }
    c->at[known].next = entry;
    c->next[entry] = CHAIN_NONE;
}

static int chain_compare(const void *left, const void *right)
{
    const struct chain *a = left, *b = right;

    if (a->start != b->start) return a->start < b->start ? -1 : 1;
    return str_compare(posting_value(a->value), posting_value(b->value));
}

static void chains_fill(struct decider *e, const struct price_order *order, struct chains *c)
{
    struct tied *tied = NULL;
    uint32_t tied_cap = 0, end;

    for (uint32_t from = order->head; from < order->count; from = end) {
        for (end = from + 1; end < order->count && order->at[end].first == order->at[from].first;) {
            end++;
        }
        if (end - from == 1) {
            chains_add(e, order, c, from);
            continue;
        }
        if (!decider_grow(e, &tied, end - from, &tied_cap, sizeof *tied)) return;
        ties_order(e, order, from, end, tied);
        for (uint32_t i = 0; i < end - from; i++) chains_add(e, order, c, tied[i].entry);
    }
}

struct chains *chains_of(struct decider *e, struct price_order *order, struct str key)
{
    struct chains *c = order->chains;

    while (c && !str_equal(c->key, key)) c = c->other;
    if (c) return c;
    c = decider_alloc(e, 1, sizeof *c);
    if (c) c->next = decider_room(e, order->count, sizeof *c->next);
    if (!c || !c->next) return NULL;
    c->key = key;
    chains_fill(e, order, c);
    if (c->count > 1) qsort(c->at, c->count, sizeof *c->at, chain_compare);
    for (uint32_t i = 0; i < c->count; i++) c->at[i].next = i + 1 < c->count ? i + 1 : CHAIN_NONE;
    c->first = c->count ? 0 : CHAIN_NONE;
    c->other = order->chains;
    order->chains = c;
    return c;
}
