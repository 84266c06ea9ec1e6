/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the keys and transactions of a lock's or an election's queue. Pure. */
#include "store/etcd/queue.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/core/txn.h"

/* -- keys -- */

struct str queue_key(struct str name, int64_t lease, char *room)
{
    /* Go's format of a signed number: the sign, then the magnitude. */
    uint64_t size = lease < 0 ? -(uint64_t)lease : (uint64_t)lease;
    char *at = room;
    int len;

    (void)str_put(&at, name);
    len = snprintf(at, QUEUE_LEASE_MAX, "/%s%" PRIx64, lease < 0 ? "-" : "", size);
    return str_of(room, name.len + (size_t)len);
}

struct key_range queue_range(struct str name, char *room)
{
    char *at = room;

    (void)str_put(&at, name);
    *at++ = '/';
    return key_range_of_prefix(str_of(room, name.len + 1), at);
}

enum err queue_first(const struct keys *keys, struct key_range range, struct key_value *ret_first)
{
    struct keys_cursor cursor;
    struct key_value pair;
    bool found = false;

    /* A name such as "registry" may have a million keys that are not entries of the queue. */
    if (keys_count_range(keys, range, 0) > TXN_KEYS_MAX) return ERR_TOO_LARGE;
    keys_seek(keys, range, 0, &cursor);
    while (keys_next(&cursor, &pair)) {
        if (found && pair.create >= ret_first->create) continue;
        *ret_first = pair;
        found = true;
    }
    return found ? ERR_OK : ERR_NOT_FOUND;
}

bool queue_before(const struct keys *keys, struct key_range range, uint64_t create,
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

static void op_init(Etcdserverpb__RequestOp *op, Etcdserverpb__RequestOp__RequestCase kind,
                    void *request)
{
    etcdserverpb__request_op__init(op);
    op->request_case = kind;
    op->request_range = request; /* every member of the union is a pointer */
}

static void txn_init(struct queue_txn *t)
{
    *t = (struct queue_txn){.txn = ETCDSERVERPB__TXN_REQUEST__INIT,
                            .inner = ETCDSERVERPB__TXN_REQUEST__INIT,
                            .is = ETCDSERVERPB__COMPARE__INIT,
                            .inner_is = ETCDSERVERPB__COMPARE__INIT,
                            .is_at = {&t->is},
                            .inner_at = {&t->inner_is},
                            .put = ETCDSERVERPB__PUT_REQUEST__INIT,
                            .keep = ETCDSERVERPB__PUT_REQUEST__INIT,
                            .own = ETCDSERVERPB__RANGE_REQUEST__INIT,
                            .first = ETCDSERVERPB__RANGE_REQUEST__INIT,
                            .del = ETCDSERVERPB__DELETE_RANGE_REQUEST__INIT};
    op_init(&t->put_op, ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT, &t->put);
    op_init(&t->keep_op, ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT, &t->keep);
    op_init(&t->own_op, ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE, &t->own);
    op_init(&t->first_op, ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE, &t->first);
    op_init(&t->del_op, ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE, &t->del);
    op_init(&t->inner_op, ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_TXN, &t->inner);
    t->txn.success = t->success;
    t->txn.failure = t->failure;
    t->inner.success = t->inner_success;
}

static void txn_if_created(struct queue_txn *t, struct key_range range,
                           Etcdserverpb__Compare__CompareResult result, int64_t create)
{
    t->is.key = bytes_from(range.from);
    t->is.range_end = bytes_from(range.end);
    t->is.result = result;
    t->is.target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__CREATE;
    t->is.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_CREATE_REVISION;
    t->is.create_revision = create;
    t->txn.compare = t->is_at;
    t->txn.n_compare = 1;
}

static void txn_if_key_created(struct queue_txn *t, struct str key, int64_t create)
{
    txn_if_created(t, (struct key_range){key, STR_EMPTY},
                   ETCDSERVERPB__COMPARE__COMPARE_RESULT__EQUAL, create);
}

static void txn_does(struct queue_txn *t, Etcdserverpb__RequestOp *op, struct str key)
{
    t->put.key = t->del.key = bytes_from(key);
    t->success[0] = op;
    t->txn.n_success = 1;
}

void queue_enter(struct queue_txn *t, struct str key, int64_t lease, struct str value, bool sets,
                 struct key_range range)
{
    txn_init(t);
    txn_if_key_created(t, key, 0);
    t->put.key = t->keep.key = t->own.key = bytes_from(key);
    t->put.value = bytes_from(value);
    t->put.lease = lease;
    t->keep.ignore_value = t->keep.ignore_lease = true;
    t->own.keys_only = t->first.keys_only = true;
    t->first.key = bytes_from(range.from);
    t->first.range_end = bytes_from(range.end);
    t->first.limit = 1;
    t->first.sort_order = ETCDSERVERPB__RANGE_REQUEST__SORT_ORDER__ASCEND;
    t->first.sort_target = ETCDSERVERPB__RANGE_REQUEST__SORT_TARGET__CREATE;
    t->success[0] = &t->put_op;
    t->success[1] = &t->first_op;
    t->txn.n_success = 2;
    t->failure[0] = sets ? &t->put_op : &t->keep_op;
    t->failure[1] = &t->own_op;
    t->failure[2] = &t->first_op;
    t->txn.n_failure = 3;
}

static void txn_inner_deletes(struct queue_txn *t, struct str key, uint64_t mod)
{
    t->inner_is.key = t->del.key = bytes_from(key);
    t->inner_is.result = ETCDSERVERPB__COMPARE__COMPARE_RESULT__EQUAL;
    t->inner_is.target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__MOD;
    t->inner_is.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_MOD_REVISION;
    t->inner_is.mod_revision = (int64_t)mod;
    t->inner.compare = t->inner_at;
    t->inner.n_compare = 1;
    t->inner_success[0] = &t->del_op;
    t->inner.n_success = 1;
}

void queue_leave(struct queue_txn *t, struct str key, const struct queue_entry *as,
                 struct key_range range)
{
    txn_init(t);
    txn_inner_deletes(t, key, as->mod);
    if (as->created) {
        t->txn = t->inner;
        return;
    }
    /* Succeeds if no entry was created before this entry: this entry is first. */
    txn_if_created(t, range, ETCDSERVERPB__COMPARE__COMPARE_RESULT__GREATER,
                   (int64_t)as->create - 1);
    t->failure[0] = &t->inner_op;
    t->txn.n_failure = 1;
}

void queue_resign(struct queue_txn *t, struct str key, int64_t create)
{
    txn_init(t);
    txn_if_key_created(t, key, create);
    txn_does(t, &t->del_op, key);
}

void queue_set_value(struct queue_txn *t, struct str key, int64_t create, struct str value,
                     int64_t lease)
{
    txn_init(t);
    txn_if_key_created(t, key, create);
    txn_does(t, &t->put_op, key);
    t->put.value = bytes_from(value);
    t->put.lease = lease;
    t->put.ignore_lease = lease == 0;
}

void queue_delete(struct queue_txn *t, struct str key)
{
    txn_init(t);
    txn_does(t, &t->del_op, key);
}

/* NULL: another response, or not exactly one key */
static const Mvccpb__KeyValue *only_key(const Etcdserverpb__ResponseOp *op)
{
    const Etcdserverpb__RangeResponse *range;

    if (op->response_case != ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE) return NULL;
    range = op->response_range;
    return range->n_kvs == 1 ? range->kvs[0] : NULL;
}

bool queue_entered(const Etcdserverpb__TxnResponse *answer, uint64_t revision,
                   struct queue_entry *ret_entry)
{
    size_t count = answer->n_responses;
    const Mvccpb__KeyValue *own = NULL, *first = NULL;

    if (count < 2) return false;
    first = only_key(answer->responses[count - 1]);
    if (!answer->succeeded) own = only_key(answer->responses[count - 2]);
    if (!first || (!answer->succeeded && !own)) return false;
    ret_entry->created = answer->succeeded;
    ret_entry->create = own ? (uint64_t)own->create_revision : revision;
    ret_entry->mod = own ? (uint64_t)own->mod_revision : revision;
    ret_entry->first = (uint64_t)first->create_revision == ret_entry->create;
    return true;
}
