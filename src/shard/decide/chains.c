/* SPDX-License-Identifier: Apache-2.0 */
/* What can be acquired, by value of a key: the entries of a shelf's order, a *chain* for each
 * value, in the order they are taken. For strict spreads, which take the first of a domain.
 *
 * Chains are the same for every Need, whatever it requires: it is asked for as a chain is read, of
 * as many entries as are read. So Needs by the thousand with sets of their own share them. */
#include "shard/decide/chains.h"

#include <stdlib.h>

struct tied { /* an entry that the order does not tell from its neighbours */
    struct str id;
    uint32_t entry;
};

static int tied_compare(const void *left, const void *right)
{
    const struct tied *a = left, *b = right;

    return str_compare(a->id, b->id);
}

/* Entries [from, end) in the order of the first id of each cohort. */
static void ties_order(const struct decider *e, const struct shelf_order *order, uint32_t from,
                       uint32_t end, struct tied *tied)
{
    assert(tied && end > from);
    for (uint32_t i = from; i < end; i++) {
        const struct cohort *c = rooms_held(&e->inventory->cohort_slots, order->at[i].cohort);
        struct member_place place = cohort_begin(c);
        tied[i - from] = (struct tied){row_id(cohort_next(&place)), i};
    }
    qsort(tied, end - from, sizeof *tied, tied_compare);
}

/* Hangs an entry behind the last of its value. Until all are made `next` of a chain is its last
 * entry. */
static enum err chains_add(struct decider *e, const struct shelf_order *order, struct chains *c,
                           uint32_t entry)
{
    const struct look *look = rooms_held(&e->inventory->look_slots, order->at[entry].look);
    const struct posting *value = look_find(look, c->key);
    uint32_t known = value ? e->bucket_of[value->slot] : 0; /* another's, perhaps */
    enum err err;

    if (!value) return ERR_OK;
    if (known < c->count && c->at[known].value == value) {
        c->next[c->at[known].next] = entry;
    } else {
        known = c->count;
        err = decider_grow(e, &c->at, known, &c->cap, sizeof *c->at);
        if (err) return err;
        c->at[c->count++] = (struct chain){value, order->at[entry].first, entry, entry};
        e->bucket_of[value->slot] = known;
    }
    c->at[known].next = entry;
    c->next[entry] = CHAIN_NONE;
    return ERR_OK;
}

static int chain_compare(const void *left, const void *right)
{
    const struct chain *a = left, *b = right;

    if (a->start != b->start) return a->start < b->start ? -1 : 1;
    return str_compare(posting_value(a->value), posting_value(b->value));
}

static enum err chains_fill(struct decider *e, const struct shelf_order *order, struct chains *c)
{
    struct tied *tied = NULL;
    uint32_t tied_cap = 0, end;
    enum err err = ERR_OK;

    for (uint32_t from = order->head; !err && from < order->count; from = end) {
        for (end = from + 1; end < order->count && order->at[end].first == order->at[from].first;) {
            end++;
        }
        if (end - from == 1) {
            err = chains_add(e, order, c, from);
            continue;
        }
        err = decider_grow(e, &tied, end - from, &tied_cap, sizeof *tied);
        if (err) return err;
        ties_order(e, order, from, end, tied);
        for (uint32_t i = 0; !err && i < end - from; i++) {
            err = chains_add(e, order, c, tied[i].entry);
        }
    }
    return err;
}

static enum err chains_make(struct decider *e, const struct shelf_order *order, struct chains *c)
{
    enum err err;

    c->next = arena_alloc(&e->arena, ((size_t)order->count + 1) * sizeof *c->next);
    if (!c->next) return ERR_FULL;
    err = chains_fill(e, order, c);
    if (c->count > 1) qsort(c->at, c->count, sizeof *c->at, chain_compare);
    for (uint32_t i = 0; i < c->count; i++) c->at[i].next = i + 1 < c->count ? i + 1 : CHAIN_NONE;
    c->first = c->count ? 0 : CHAIN_NONE;
    return err;
}

enum err chains_of(struct decider *e, struct shelf_order *order, struct str key,
                   struct chains **ret_chains)
{
    struct chains *c = order->chains;
    enum err err;

    while (c && !str_equal(c->key, key)) c = c->other;
    if (!c) {
        c = decider_alloc(e, 1, sizeof *c);
        if (!c) return ERR_FULL;
        c->key = key;
        err = chains_make(e, order, c);
        if (err) return err;
        c->other = order->chains;
        order->chains = c;
    }
    *ret_chains = c;
    return ERR_OK;
}
