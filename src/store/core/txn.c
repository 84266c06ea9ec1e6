/* SPDX-License-Identifier: Apache-2.0 */
/* Transactions: evaluates the compares, checks the branches taken, then executes them. */
#include "store/core/txn.h"

#include <stdlib.h>
#include <string.h>

#include "store/core/internal.h"

/* -- compares, on the state before the transaction -- */
static int compare_i64(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static bool holds_for(const struct txn_compare *compare, const struct key_value *pair)
{
    int order = 0;

    switch (compare->target) {
    case COMPARE_VERSION: order = compare_i64((int64_t)pair->version, compare->number); break;
    case COMPARE_CREATE: order = compare_i64((int64_t)pair->create, compare->number); break;
    case COMPARE_MOD: order = compare_i64((int64_t)pair->mod, compare->number); break;
    case COMPARE_LEASE: order = compare_i64((int64_t)pair->lease, compare->number); break;
    case COMPARE_VALUE: order = str_compare(pair->value, compare->value); break;
    default: return false;
    }
    switch (compare->result) {
    case COMPARE_EQUAL: return order == 0;
    case COMPARE_GREATER: return order > 0;
    case COMPARE_LESS: return order < 0;
    case COMPARE_NOT_EQUAL: return order != 0;
    default: return false;
    }
}

static bool holds(const struct keys *keys, const struct txn_compare *compare)
{
    static const struct key_value missing;
    struct keys_cursor cursor;
    struct key_value pair;
    bool any = false;

    if (compare->range.end.len == 0) {
        any = keys_get(keys, compare->range.from, 0, &pair);
        if (any) return holds_for(compare, &pair);
    } else {
        keys_seek(keys, compare->range, 0, &cursor);
        while (keys_next(&cursor, &pair)) {
            if (!holds_for(compare, &pair)) return false;
            any = true;
        }
    }
    if (any) return true;
    /* A missing key has no value, so no compare with a value succeeds, not even NOT_EQUAL. */
    return compare->target != COMPARE_VALUE && holds_for(compare, &missing);
}

static void txn_decide(const struct keys *keys, struct txn *txn)
{
    txn->held = true;
    for (size_t i = 0; txn->held && i < txn->compare_count; i++)
        txn->held = holds(keys, &txn->compares[i]);
    for (size_t i = 0; i < txn->op_count[txn->held]; i++)
        if (txn->ops[txn->held][i].kind == TXN_TXN) txn_decide(keys, txn->ops[txn->held][i].txn);
}

/* -- checks of the branches taken -- */
static bool has_claims(const struct keys *keys, struct key_range range)
{
    static const struct str first = {STORE_CLAIMS, sizeof STORE_CLAIMS - 1},
                            behind = {"muster0", 7};
    struct key_range among = {first, behind};

    if (range.end.len == 0) return str_starts(range.from, first);
    if (str_compare(range.from, first) > 0) among.from = range.from;
    if (!key_range_is_open(range) && str_compare(range.end, behind) < 0) among.end = range.end;
    if (str_compare(among.from, among.end) >= 0) return false;
    return keys_count_range(keys, among, 0) > 0;
}

static enum txn_refusal txn_put_check(const struct store *store, const struct txn_put *put,
                                      uint64_t *bytes)
{
    struct key_value now;
    size_t value_len = put->value.len;

    if (str_starts(put->key, STR(STORE_CLAIMS))) return TXN_CLAIM;
    if (put->ignore_value || put->ignore_lease) {
        if (!keys_get(store->keys, put->key, 0, &now)) return TXN_KEY_MISSING;
        if (put->ignore_value) value_len = now.value.len;
    }
    if (put->lease && !lease_plain(store, (uint64_t)put->lease)) return TXN_NO_LEASE;
    *bytes += keys_cost(put->key.len, value_len);
    return TXN_TAKEN;
}

static enum txn_refusal check_ops(const struct store *store, const struct txn *txn, bool reads,
                                  uint64_t *bytes)
{
    enum txn_refusal refusal = TXN_TAKEN;

    for (size_t i = 0; !refusal && i < txn->op_count[txn->held]; i++) {
        const struct txn_op *op = &txn->ops[txn->held][i];

        if (op->kind == TXN_TXN)
            refusal = check_ops(store, op->txn, reads, bytes);
        else if (op->kind == TXN_RANGE)
            refusal = reads ? query_check(store->keys, &op->range) : TXN_TAKEN;
        else if (!reads && op->kind == TXN_PUT)
            refusal = txn_put_check(store, &op->put, bytes);
        else if (!reads && op->kind == TXN_DELETE)
            refusal = has_claims(store->keys, op->del.range) ? TXN_CLAIM : TXN_TAKEN;
        else if (!reads)
            refusal = TXN_NO_OPERATION;
    }
    return refusal;
}

/* as in etcd: refused writes before refused reads */
static enum txn_refusal check_path(const struct store *store, const struct txn *txn,
                                   uint64_t *bytes)
{
    enum txn_refusal refusal = check_ops(store, txn, false, bytes);

    return refusal ? refusal : check_ops(store, txn, true, bytes);
}

/* -- cost: bounded before the transaction runs, because a turn must be short -- */
static uint64_t compares_cost(const struct keys *keys, const struct txn *txn)
{
    uint64_t cost = txn->compare_count;

    for (size_t i = 0; i < txn->compare_count; i++)
        if (txn->compares[i].range.end.len > 0)
            cost += keys_count_range(keys, txn->compares[i].range, 0);
    for (int branch = 0; branch < 2; branch++)
        for (size_t i = 0; i < txn->op_count[branch]; i++)
            if (txn->ops[branch][i].kind == TXN_TXN)
                cost += compares_cost(keys, txn->ops[branch][i].txn);
    return cost;
}

/* Cost of the branches taken. */
static uint64_t ops_cost(const struct keys *keys, const struct txn *txn)
{
    uint64_t cost = 0;

    for (size_t i = 0; i < txn->op_count[txn->held]; i++) {
        const struct txn_op *op = &txn->ops[txn->held][i];

        if (op->kind == TXN_RANGE)
            cost += query_cost(keys, &op->range);
        else if (op->kind == TXN_DELETE && op->del.range.end.len > 0)
            cost += keys_count_range(keys, op->del.range, 0);
        else if (op->kind == TXN_TXN)
            cost += ops_cost(keys, op->txn);
        else
            cost++;
    }
    return cost;
}

/* past versions that all branches together read, counted up to `max` */
static uint64_t past_cost(const struct keys *keys, const struct txn *txn, uint64_t max)
{
    uint64_t cost = 0;

    for (int branch = 0; branch < 2; branch++)
        for (size_t i = 0; cost < max && i < txn->op_count[branch]; i++) {
            const struct txn_op *op = &txn->ops[branch][i];

            if (op->kind == TXN_RANGE)
                cost += query_past_cost(keys, &op->range, max - cost);
            else if (op->kind == TXN_TXN)
                cost += past_cost(keys, op->txn, max - cost);
        }
    return cost;
}

enum txn_refusal txn_past_check(const struct keys *keys, const struct txn *txn)
{
    return past_cost(keys, txn, TXN_KEYS_MAX + 1) > TXN_KEYS_MAX ? TXN_TOO_LARGE : TXN_TAKEN;
}

/* TXN_TAKEN: all branches taken may run */
static enum txn_refusal txn_prepare(const struct store *store, struct txn *txn, uint64_t *bytes)
{
    if (compares_cost(store->keys, txn) > TXN_KEYS_MAX) return TXN_TOO_LARGE;
    txn_decide(store->keys, txn);
    if (ops_cost(store->keys, txn) > TXN_KEYS_MAX) return TXN_TOO_LARGE;
    return check_path(store, txn, bytes);
}

/* -- execution -- */
struct run {
    struct store *store; /* NULL for a read-only transaction */
    const struct keys *keys;
    struct txn_sink *sink;
    bool wrote, no_memory;
};

static void each_pair(void *owner, const struct key_value *pair)
{
    struct txn_sink *sink = ((const struct run *)owner)->sink;

    if (sink) sink->pair(sink, pair);
}

static void run_put(struct run *run, const struct txn_put *put)
{
    struct key_value now;
    bool was = keys_get(run->keys, put->key, 0, &now);
    struct str value = put->value;
    uint64_t lease = (uint64_t)put->lease;

    if (was && put->prev) each_pair(run, &now);
    if (was && put->ignore_value) value = now.value;
    if (was && put->ignore_lease) lease = now.lease;
    keys_put(run->store->keys, put->key, value, lease);
    run->wrote = true;
}

static uint64_t run_delete(struct run *run, const struct txn_delete *del)
{
    struct keys_cursor cursor;
    struct key_value pair;
    size_t count;

    keys_seek(run->keys, del->range, 0, &cursor);
    while (del->prev && keys_next(&cursor, &pair)) each_pair(run, &pair);
    count = keys_delete_range(run->store->keys, del->range, SIZE_MAX);
    run->wrote = run->wrote || count > 0;
    return count;
}

static struct query_end run_range(struct run *run, const struct query *query)
{
    struct query_end end = query_run(run->keys, query, each_pair, run);

    if (end.no_memory && run->store) (void)store_must(NULL);
    run->no_memory = run->no_memory || end.no_memory;
    return end;
}

static void run_txn(struct run *run, const struct txn *txn)
{
    struct txn_end end = {.kind = TXN_TXN};

    if (run->sink) run->sink->begin(run->sink, TXN_TXN, txn->held);
    for (size_t i = 0; i < txn->op_count[txn->held]; i++) {
        const struct txn_op *op = &txn->ops[txn->held][i];
        struct txn_end done = {.kind = op->kind};

        if (op->kind == TXN_TXN) {
            run_txn(run, op->txn);
            continue;
        }
        if (run->sink) run->sink->begin(run->sink, op->kind, false);
        if (op->kind == TXN_RANGE)
            done.range = run_range(run, &op->range);
        else if (op->kind == TXN_PUT)
            run_put(run, &op->put);
        else
            done.deleted = run_delete(run, &op->del);
        done.revision = keys_revision(run->keys) + run->wrote;
        if (run->sink) run->sink->end(run->sink, &done);
    }
    end.revision = keys_revision(run->keys) + run->wrote;
    if (run->sink) run->sink->end(run->sink, &end);
}

const struct txn_delete *txn_sweeps(const struct txn *txn)
{
    const struct txn_op *op = txn->ops[1];
    bool one = txn->compare_count == 0 && txn->op_count[1] == 1;

    return one && op->kind == TXN_DELETE && !op->del.prev ? &op->del : NULL;
}

enum txn_refusal txn_sweep_check(const struct store *store, const struct txn_delete *del)
{
    return has_claims(store->keys, del->range) ? TXN_CLAIM : TXN_TAKEN;
}

void txn_sweep_report(struct txn_sink *sink, uint64_t deleted, uint64_t revision)
{
    struct txn_end end = {.kind = TXN_DELETE, .deleted = deleted, .revision = revision};

    if (!sink) return;
    sink->begin(sink, TXN_TXN, true);
    sink->begin(sink, TXN_DELETE, false);
    sink->end(sink, &end);
    end.kind = TXN_TXN;
    sink->end(sink, &end);
}

enum txn_refusal txn_read(const struct store *store, struct txn *txn, struct txn_sink *sink)
{
    struct run run = {.keys = store->keys, .sink = sink};
    uint64_t bytes = 0;
    enum txn_refusal refusal;

    assert(!txn_writes(txn));
    refusal = txn_prepare(store, txn, &bytes);
    if (!refusal) refusal = txn_past_check(store->keys, txn);
    if (!refusal) run_txn(&run, txn);
    return run.no_memory ? TXN_NO_MEMORY : refusal;
}

enum txn_refusal txn_apply(struct store *store, struct txn *txn, struct txn_sink *sink,
                           uint64_t *ret_revision)
{
    struct run run = {.store = store, .keys = store->keys, .sink = sink};
    uint64_t bytes = 0;
    enum txn_refusal refusal;

    *ret_revision = keys_revision(store->keys);
    refusal = txn_prepare(store, txn, &bytes);
    if (!refusal && bytes && !store_has_room(store, bytes)) refusal = TXN_NO_SPACE;
    if (refusal) return refusal;
    keys_begin(store->keys);
    run_txn(&run, txn);
    *ret_revision = keys_commit(store->keys);
    return TXN_TAKEN;
}
