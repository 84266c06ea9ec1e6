/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that need only the request of a transaction: its size, its keys, and whether any path
 * through the transaction writes a key twice. */
#include <stdlib.h>
#include <string.h>

#include "store/core/store.h"

bool txn_writes(const struct txn *txn)
{
    for (int branch = 0; branch < 2; branch++)
        for (size_t i = 0; i < txn->op_count[branch]; i++) {
            const struct txn_op *op = &txn->ops[branch][i];

            if (op->kind == TXN_PUT || op->kind == TXN_DELETE) return true;
            if (op->kind == TXN_TXN && txn_writes(op->txn)) return true;
        }
    return false;
}

/* -- one operation -- */
static enum txn_refusal range_form_check(struct key_range range)
{
    if (range.from.len == 0) return TXN_NO_KEY;
    return range.from.len > STORE_KEY_MAX || range.end.len > STORE_KEY_MAX ? TXN_KEY_TOO_LONG
                                                                           : TXN_TAKEN;
}

static enum txn_refusal put_form_check(const struct txn_put *put)
{
    enum txn_refusal refusal = range_form_check((struct key_range){put->key, STR_EMPTY});

    if (refusal) return refusal;
    if (put->ignore_value && put->value.len) return TXN_VALUE_PROVIDED;
    return put->ignore_lease && put->lease ? TXN_LEASE_PROVIDED : TXN_TAKEN;
}

static enum txn_refusal check_query(const struct query *query)
{
    enum txn_refusal refusal = range_form_check(query->range);

    if (refusal) return refusal;
    return query->order > QUERY_DESCEND || query->target > QUERY_VALUE ? TXN_BAD_SORT : TXN_TAKEN;
}

static enum txn_refusal check_txn(const struct txn *txn, size_t left, size_t depth, size_t *total);

static enum txn_refusal check_op(const struct txn_op *op, size_t left, size_t depth, size_t *total)
{
    switch (op->kind) {
    case TXN_RANGE: return check_query(&op->range);
    case TXN_PUT: return put_form_check(&op->put);
    case TXN_DELETE: return range_form_check(op->del.range);
    case TXN_TXN: return check_txn(op->txn, left, depth + 1, total);
    case TXN_NONE: break;
    }
    return TXN_NO_OPERATION;
}

static enum txn_refusal check_txn(const struct txn *txn, size_t left, size_t depth, size_t *total)
{
    size_t most = max_size(txn->compare_count, max_size(txn->op_count[0], txn->op_count[1]));
    enum txn_refusal refusal = TXN_TAKEN;

    *total += txn->op_count[0] + txn->op_count[1];
    if (most > left || depth > TXN_DEPTH_MAX || *total > TXN_TOTAL_MAX) return TXN_TOO_MANY;
    for (size_t i = 0; !refusal && i < txn->compare_count; i++) {
        refusal = range_form_check(txn->compares[i].range);
        if (!refusal && (txn->compares[i].result > COMPARE_NOT_EQUAL ||
                         txn->compares[i].target > COMPARE_LEASE))
            refusal = TXN_BAD_COMPARE;
    }
    for (int branch = 1; branch >= 0; branch--)
        for (size_t i = 0; !refusal && i < txn->op_count[branch]; i++)
            refusal = check_op(&txn->ops[branch][i], left - most, depth, total);
    return refusal;
}

/* -- keys written twice --
 * Two operations of one branch must not overlap in a key that one of them puts. The two branches of
 * a transaction may overlap, because only one of them runs. */
struct write {
    struct key_range range; /* for a put, only `from` is set */
    size_t owner;           /* index of the operation in its branch */
    size_t next_owner;      /* for sorted puts: index of the next put with another owner */
};
struct writes {
    struct write *at;
    size_t count, cap;
};
struct footprint {
    struct writes puts, deletes;
};

/* False: no memory. */
static bool writes_add(struct writes *writes, struct key_range range, size_t owner)
{
    if (writes->count == writes->cap) {
        size_t cap = writes->cap ? writes->cap * 2 : 8;
        struct write *more = realloc(writes->at, cap * sizeof *more);

        if (!more) return false;
        writes->at = more;
        writes->cap = cap;
    }
    writes->at[writes->count++] = (struct write){.range = range, .owner = owner};
    return true;
}

static bool writes_take_over(struct writes *into, struct writes *from, size_t owner)
{
    bool all = true;

    for (size_t i = 0; all && i < from->count; i++)
        all = writes_add(into, from->at[i].range, owner);
    free(from->at);
    *from = (struct writes){NULL, 0, 0};
    return all;
}

static int by_start(const void *a, const void *b)
{
    const struct write *left = a, *right = b;
    int order = str_compare(left->range.from, right->range.from);

    return order ? order : (left->owner > right->owner) - (left->owner < right->owner);
}

static void puts_sort(struct writes *puts)
{
    struct write *at = puts->at;

    if (puts->count > 1) qsort(at, puts->count, sizeof *at, by_start);
    for (size_t i = puts->count; i-- > 0;)
        at[i].next_owner =
            i + 1 < puts->count && at[i + 1].owner == at[i].owner ? at[i + 1].next_owner : i + 1;
}

static size_t puts_seek(const struct writes *puts, struct str key)
{
    size_t low = 0, high = puts->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (str_compare(puts->at[middle].range.from, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool deletes_at(const struct write *del, const struct writes *puts, size_t place)
{
    return place < puts->count && key_range_has(del->range, puts->at[place].range.from);
}

/* True if a put overlaps a deleted range of another operation. For each range two puts suffice: the
 * first put in the range, and the first put of another operation. */
static bool footprint_meets(const struct footprint *all)
{
    const struct writes *puts = &all->puts;

    for (size_t i = 1; i < puts->count; i++)
        if (puts->at[i - 1].owner != puts->at[i].owner &&
            str_equal(puts->at[i - 1].range.from, puts->at[i].range.from))
            return true;
    for (size_t i = 0; i < all->deletes.count; i++) {
        const struct write *del = &all->deletes.at[i];
        size_t place = puts_seek(puts, del->range.from);

        if (!deletes_at(del, puts, place)) continue;
        if (puts->at[place].owner != del->owner ||
            deletes_at(del, puts, puts->at[place].next_owner))
            return true;
    }
    return false;
}

/* TXN_DUPLICATE: a key would be written twice. The caller owns *ret_all in every case. */
static enum txn_refusal footprint_walk(const struct txn_op *ops, size_t count,
                                       struct footprint *ret_all)
{
    struct footprint all = {{NULL, 0, 0}, {NULL, 0, 0}};
    enum txn_refusal refusal = TXN_TAKEN;

    for (size_t i = 0; !refusal && i < count; i++) {
        const struct txn_op *op = &ops[i];
        bool room = true;

        if (op->kind == TXN_PUT)
            room = writes_add(&all.puts, (struct key_range){op->put.key, STR_EMPTY}, i);
        else if (op->kind == TXN_DELETE)
            room = writes_add(&all.deletes, op->del.range, i);
        for (int branch = 0; !refusal && op->kind == TXN_TXN && branch < 2; branch++) {
            struct footprint inner;

            refusal = footprint_walk(op->txn->ops[branch], op->txn->op_count[branch], &inner);
            room = writes_take_over(&all.puts, &inner.puts, i) && room;
            room = writes_take_over(&all.deletes, &inner.deletes, i) && room;
        }
        if (!refusal && !room) refusal = TXN_NO_MEMORY;
    }
    puts_sort(&all.puts);
    *ret_all = all;
    if (refusal) return refusal;
    return footprint_meets(&all) ? TXN_DUPLICATE : TXN_TAKEN;
}

static enum txn_refusal check_writes(const struct txn *txn)
{
    enum txn_refusal refusal = TXN_TAKEN;

    for (int branch = 0; !refusal && branch < 2; branch++) {
        struct footprint all;

        refusal = footprint_walk(txn->ops[branch], txn->op_count[branch], &all);
        free(all.puts.at);
        free(all.deletes.at);
    }
    return refusal;
}

enum txn_refusal txn_check(const struct txn *txn)
{
    size_t total = 0;
    enum txn_refusal refusal = check_txn(txn, TXN_OPS_MAX, 0, &total);

    return refusal || !txn_writes(txn) ? refusal : check_writes(txn);
}
