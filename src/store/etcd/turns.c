/* SPDX-License-Identifier: Apache-2.0 */
#include "store/etcd/turns.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/core/txn.h"

/* -- keys -- */

enum err turn_prefix(struct str name, struct buf *into)
{
    enum err err = buf_append(into, name);

    return err ? err : buf_append(into, STR("/"));
}

enum err turn_key(struct str name, int64_t lease, struct buf *into)
{
    char hex[24];
    /* As Go prints a number: its sign, then its size. */
    uint64_t size = lease < 0 ? -(uint64_t)lease : (uint64_t)lease;
    int len = snprintf(hex, sizeof hex, "%s%" PRIx64, lease < 0 ? "-" : "", size);
    enum err err = turn_prefix(name, into);

    return err ? err : buf_append(into, str_of(hex, (size_t)len));
}

enum err turn_first(const struct keys *keys, struct key_range range, struct key_value *ret_first)
{
    struct keys_cursor cursor;
    struct key_value pair;
    bool found = false;

    /* A name like "registry" may have a million keys that are nobody's turn. */
    if (keys_count_range(keys, range, 0) > TXN_KEYS_MAX) return ERR_TOO_LARGE;
    keys_seek(keys, range, 0, &cursor);
    while (keys_next(&cursor, &pair)) {
        if (found && pair.create >= ret_first->create) continue;
        *ret_first = pair;
        found = true;
    }
    return found ? ERR_OK : ERR_NOT_FOUND;
}

bool turn_before(const struct keys *keys, struct key_range range, uint64_t create,
                 struct key_value *ret_before)
{
    struct keys_cursor cursor;
    struct key_value pair;
    bool found = false;

    keys_seek(keys, range, 0, &cursor);
    while (keys_next(&cursor, &pair)) {
        if (pair.create >= create || (found && pair.create <= ret_before->create)) continue;
        *ret_before = pair;
        found = true;
    }
    return found;
}

/* -- transactions -- */

static ProtobufCBinaryData bytes_from(struct str s)
{
    return (ProtobufCBinaryData){s.len, (uint8_t *)(uintptr_t)s.at};
}

static void begin(struct turn_txn *t)
{
    memset(t, 0, sizeof *t);
    etcdserverpb__txn_request__init(&t->txn);
    etcdserverpb__txn_request__init(&t->inner);
    etcdserverpb__compare__init(&t->is);
    etcdserverpb__compare__init(&t->inner_is);
    etcdserverpb__put_request__init(&t->put);
    etcdserverpb__put_request__init(&t->keep);
    etcdserverpb__range_request__init(&t->mine);
    etcdserverpb__range_request__init(&t->first);
    etcdserverpb__delete_range_request__init(&t->del);
    etcdserverpb__request_op__init(&t->put_op);
    etcdserverpb__request_op__init(&t->keep_op);
    etcdserverpb__request_op__init(&t->mine_op);
    etcdserverpb__request_op__init(&t->first_op);
    etcdserverpb__request_op__init(&t->del_op);
    etcdserverpb__request_op__init(&t->inner_op);
    t->put_op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
    t->put_op.request_put = &t->put;
    t->keep_op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
    t->keep_op.request_put = &t->keep;
    t->mine_op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
    t->mine_op.request_range = &t->mine;
    t->first_op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
    t->first_op.request_range = &t->first;
    t->del_op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
    t->del_op.request_delete_range = &t->del;
    t->inner_op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_TXN;
    t->inner_op.request_txn = &t->inner;
    t->is_at[0] = &t->is;
    t->inner_at[0] = &t->inner_is;
    t->txn.success = t->success;
    t->txn.failure = t->failure;
}

static void if_created_at(struct turn_txn *t, struct str key, int64_t create)
{
    t->is.key = bytes_from(key);
    t->is.result = ETCDSERVERPB__COMPARE__COMPARE_RESULT__EQUAL;
    t->is.target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__CREATE;
    t->is.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_CREATE_REVISION;
    t->is.create_revision = create;
    t->txn.compare = t->is_at;
    t->txn.n_compare = 1;
}

void turn_enter(struct turn_txn *t, struct str key, int64_t lease, struct str value, bool says,
                struct key_range range)
{
    begin(t);
    if_created_at(t, key, 0);
    t->put.key = t->keep.key = t->mine.key = bytes_from(key);
    t->put.value = bytes_from(value);
    t->put.lease = lease;
    t->keep.ignore_value = t->keep.ignore_lease = true;
    t->mine.keys_only = t->first.keys_only = true;
    t->first.key = bytes_from(range.from);
    t->first.range_end = bytes_from(range.end);
    t->first.limit = 1;
    t->first.sort_order = ETCDSERVERPB__RANGE_REQUEST__SORT_ORDER__ASCEND;
    t->first.sort_target = ETCDSERVERPB__RANGE_REQUEST__SORT_TARGET__CREATE;
    t->success[0] = &t->put_op;
    t->success[1] = &t->first_op;
    t->txn.n_success = 2;
    t->failure[0] = says ? &t->put_op : &t->keep_op;
    t->failure[1] = &t->mine_op;
    t->failure[2] = &t->first_op;
    t->txn.n_failure = 3;
}

static void delete_if_written_at(struct turn_txn *t, struct str key, uint64_t mod)
{
    t->inner_is.key = t->del.key = bytes_from(key);
    t->inner_is.result = ETCDSERVERPB__COMPARE__COMPARE_RESULT__EQUAL;
    t->inner_is.target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__MOD;
    t->inner_is.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_MOD_REVISION;
    t->inner_is.mod_revision = (int64_t)mod;
    t->inner.compare = t->inner_at;
    t->inner.n_compare = 1;
    t->inner_success[0] = &t->del_op;
    t->inner.success = t->inner_success;
    t->inner.n_success = 1;
}

/* All of them were created when it was, or later: it has its turn. */
static void if_first(struct turn_txn *t, uint64_t create, struct key_range range)
{
    t->is.key = bytes_from(range.from);
    t->is.range_end = bytes_from(range.end);
    t->is.result = ETCDSERVERPB__COMPARE__COMPARE_RESULT__GREATER;
    t->is.target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__CREATE;
    t->is.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_CREATE_REVISION;
    t->is.create_revision = (int64_t)create - 1;
    t->txn.compare = t->is_at;
    t->txn.n_compare = 1;
}

void turn_leave(struct turn_txn *t, struct str key, const struct turn_entered *as,
                struct key_range range)
{
    begin(t);
    delete_if_written_at(t, key, as->mod);
    if (as->made) {
        t->txn = t->inner;
        return;
    }
    if_first(t, as->create, range);
    t->failure[0] = &t->inner_op;
    t->txn.n_failure = 1;
}

void turn_resign(struct turn_txn *t, struct str key, int64_t create)
{
    begin(t);
    if_created_at(t, key, create);
    t->del.key = bytes_from(key);
    t->success[0] = &t->del_op;
    t->txn.n_success = 1;
}

void turn_says(struct turn_txn *t, struct str key, int64_t create, struct str value, int64_t lease)
{
    begin(t);
    if_created_at(t, key, create);
    t->put.key = bytes_from(key);
    t->put.value = bytes_from(value);
    t->put.lease = lease;
    t->put.ignore_lease = lease == 0;
    t->success[0] = &t->put_op;
    t->txn.n_success = 1;
}

void turn_delete(struct turn_txn *t, struct str key)
{
    begin(t);
    t->del.key = bytes_from(key);
    t->success[0] = &t->del_op;
    t->txn.n_success = 1;
}

/* The one key that a range told; NULL: none, or it is no range. */
static const Mvccpb__KeyValue *only_key(const Etcdserverpb__ResponseOp *op)
{
    const Etcdserverpb__RangeResponse *range;

    if (op->response_case != ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE) return NULL;
    range = op->response_range;
    return range->n_kvs == 1 ? range->kvs[0] : NULL;
}

bool turn_entered(const Etcdserverpb__TxnResponse *answer, uint64_t revision,
                  struct turn_entered *ret_entered)
{
    size_t count = answer->n_responses;
    const Mvccpb__KeyValue *mine = NULL, *first = NULL;

    if (count < 2) return false;
    first = only_key(answer->responses[count - 1]);
    if (!answer->succeeded) mine = only_key(answer->responses[count - 2]);
    if (!first || (!answer->succeeded && !mine)) return false;
    ret_entered->made = answer->succeeded;
    ret_entered->create = mine ? (uint64_t)mine->create_revision : revision;
    ret_entered->mod = mine ? (uint64_t)mine->mod_revision : revision;
    ret_entered->first = (uint64_t)first->create_revision == ret_entered->create;
    return true;
}
