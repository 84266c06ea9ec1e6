/* SPDX-License-Identifier: Apache-2.0 */
#include "store_txns.h"

#include <stdio.h>
#include <string.h>

enum { OPS_MAX = 4, COMPARES_MAX = 2, DEPTH_MAX = 2 };
static const char *const names[] = {"e/i0", "e/i1", "e/i2", "e/i3", "e/u0",
                                    "e/u1", "e/u2", "e/u3", "e/u4"};
static const char *const ends[] = {"e/i2", "e/j", "e/u1", "e/u3", "e/v", "f"};

static uint64_t below(const struct txns *t, uint64_t bound)
{
    return prng_below(t->prng, bound);
}

static ProtobufCBinaryData text(const struct txns *t, const char *from)
{
    char *copy = arena_dup(t->arena, str_from(from));

    return (ProtobufCBinaryData){copy ? strlen(from) : 0, (uint8_t *)copy};
}

static ProtobufCBinaryData any_key(const struct txns *t)
{
    return text(t, names[below(t, sizeof names / sizeof *names)]);
}

static void any_range(const struct txns *t, ProtobufCBinaryData *key, ProtobufCBinaryData *end)
{
    static uint8_t nul = 0;

    *key = any_key(t);
    *end = (ProtobufCBinaryData){0, NULL};
    if (below(t, 3) == 0) *end = text(t, ends[below(t, sizeof ends / sizeof *ends)]);
    if (below(t, 40) == 0) *end = (ProtobufCBinaryData){1, &nul};
}

Etcdserverpb__PutRequest *txns_draw_put(const struct txns *t)
{
    Etcdserverpb__PutRequest *put = ARENA_NEW(t->arena, Etcdserverpb__PutRequest);
    char value[TXNS_VALUE_CAP];

    if (!put) return NULL;
    etcdserverpb__put_request__init(put);
    put->key = any_key(t);
    put->prev_kv = below(t, 3) == 0;
    if (put->key.len > 2 && put->key.data[2] == 'i') {
        (void)snprintf(value, sizeof value, "v%d", (int)below(t, 4));
        if (below(t, 8) == 0) put->ignore_value = true;
        put->ignore_lease = below(t, 8) == 0;
    } else {
        t->value(t->owner, value);
    }
    if (!put->ignore_value) put->value = text(t, value);
    if (below(t, 40) == 0) put->lease = 99; /* nobody has granted it */
    if (below(t, 60) == 0) put->key = text(t, "muster/k/p0");
    return put;
}

Etcdserverpb__DeleteRangeRequest *txns_draw_delete(const struct txns *t)
{
    Etcdserverpb__DeleteRangeRequest *del = ARENA_NEW(t->arena, Etcdserverpb__DeleteRangeRequest);

    if (!del) return NULL;
    etcdserverpb__delete_range_request__init(del);
    any_range(t, &del->key, &del->range_end);
    del->prev_kv = below(t, 2) == 0;
    return del;
}

Etcdserverpb__RangeRequest *txns_draw_range(const struct txns *t)
{
    Etcdserverpb__RangeRequest *range = ARENA_NEW(t->arena, Etcdserverpb__RangeRequest);

    if (!range) return NULL;
    etcdserverpb__range_request__init(range);
    any_range(t, &range->key, &range->range_end);
    if (below(t, 3) == 0) range->limit = (int64_t)below(t, 4);
    if (below(t, 3) == 0) range->sort_order = (int)below(t, 3);
    if (below(t, 3) == 0) range->sort_target = (int)below(t, 5);
    range->keys_only = below(t, 6) == 0;
    range->count_only = below(t, 8) == 0;
    if (below(t, 8) == 0) range->min_mod_revision = (int64_t)below(t, t->revision + 2);
    if (below(t, 8) == 0) range->max_create_revision = (int64_t)below(t, t->revision + 2);
    return range;
}

static Etcdserverpb__Compare *draw_compare(const struct txns *t)
{
    Etcdserverpb__Compare *c = ARENA_NEW(t->arena, Etcdserverpb__Compare);
    char value[8];

    if (!c) return NULL;
    etcdserverpb__compare__init(c);
    any_range(t, &c->key, &c->range_end);
    c->result = (int)below(t, 4);
    c->target = (int)below(t, 5);
    if (below(t, 4) == 0) return c; /* the number is left out, like zero */
    switch (c->target) {
    case ETCDSERVERPB__COMPARE__COMPARE_TARGET__VERSION:
        c->target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_VERSION;
        c->version = (int64_t)below(t, 4);
        break;
    case ETCDSERVERPB__COMPARE__COMPARE_TARGET__CREATE:
        c->target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_CREATE_REVISION;
        c->create_revision = (int64_t)below(t, t->revision + 2);
        break;
    case ETCDSERVERPB__COMPARE__COMPARE_TARGET__MOD:
        c->target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_MOD_REVISION;
        c->mod_revision = (int64_t)below(t, t->revision + 2);
        break;
    case ETCDSERVERPB__COMPARE__COMPARE_TARGET__VALUE:
        c->target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_VALUE;
        (void)snprintf(value, sizeof value, "v%d", (int)below(t, 4));
        c->value = text(t, value);
        break;
    default: c->target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_LEASE; c->lease = 0;
    }
    return c;
}

static Etcdserverpb__TxnRequest *draw(const struct txns *t, int depth);

static Etcdserverpb__RequestOp *draw_op(const struct txns *t, int depth)
{
    Etcdserverpb__RequestOp *op = ARENA_NEW(t->arena, Etcdserverpb__RequestOp);
    uint64_t die = below(t, depth < DEPTH_MAX ? 10 : 8);

    if (!op) return NULL;
    etcdserverpb__request_op__init(op);
    if (die < 4) {
        op->request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
        op->request_put = txns_draw_put(t);
    } else if (die < 7) {
        op->request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
        op->request_range = txns_draw_range(t);
    } else if (die < 8) {
        op->request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
        op->request_delete_range = txns_draw_delete(t);
    } else {
        op->request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_TXN;
        op->request_txn = draw(t, depth + 1);
    }
    return op;
}

static Etcdserverpb__RequestOp **draw_branch(const struct txns *t, int depth, size_t *ret_count)
{
    size_t count = (size_t)below(t, OPS_MAX);
    Etcdserverpb__RequestOp **ops = arena_calloc(t->arena, count + 1, sizeof *ops);

    *ret_count = ops ? count : 0;
    for (size_t i = 0; ops && i < count; i++) ops[i] = draw_op(t, depth);
    return ops;
}

static Etcdserverpb__TxnRequest *draw(const struct txns *t, int depth)
{
    Etcdserverpb__TxnRequest *txn = ARENA_NEW(t->arena, Etcdserverpb__TxnRequest);
    size_t compares = (size_t)below(t, COMPARES_MAX + 1);

    if (!txn) return NULL;
    etcdserverpb__txn_request__init(txn);
    txn->compare = arena_calloc(t->arena, compares + 1, sizeof *txn->compare);
    txn->n_compare = txn->compare ? compares : 0;
    for (size_t i = 0; i < txn->n_compare; i++) txn->compare[i] = draw_compare(t);
    txn->success = draw_branch(t, depth, &txn->n_success);
    txn->failure = draw_branch(t, depth, &txn->n_failure);
    return txn;
}

Etcdserverpb__TxnRequest *txns_draw(const struct txns *t)
{
    return draw(t, 0);
}
