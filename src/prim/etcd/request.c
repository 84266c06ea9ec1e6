/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/etcd/request.h"

#include "prim/etcd/internal.h"

void etcd_txn_init(struct etcd_txn *txn)
{
    txn->compare_count = txn->then.count = txn->otherwise.count = 0;
    txn->reads_only = false;
    txn->revision_floor = 0;
}

/* -- compares -- */

/* What is compared is a number in each case. */
static void compare(struct etcd_txn *txn, struct str key,
                    Etcdserverpb__Compare__CompareTarget target,
                    Etcdserverpb__Compare__TargetUnionCase member, int64_t number)
{
    Etcdserverpb__Compare *c = &txn->compares[txn->compare_count];

    assert(txn->compare_count < ETCD_TXN_COMPARES);
    *c = (Etcdserverpb__Compare)ETCDSERVERPB__COMPARE__INIT;
    c->result = ETCDSERVERPB__COMPARE__COMPARE_RESULT__EQUAL;
    c->key = etcd_bytes(key);
    c->target = target;
    c->target_union_case = member;
    c->mod_revision = number; /* a member of a union, as each of them */
    txn->compare_list[txn->compare_count++] = c;
}

void etcd_if_created(struct etcd_txn *txn, struct str key, uint64_t create_revision)
{
    compare(txn, key, ETCDSERVERPB__COMPARE__COMPARE_TARGET__CREATE,
            ETCDSERVERPB__COMPARE__TARGET_UNION_CREATE_REVISION, (int64_t)create_revision);
}

void etcd_if_modified(struct etcd_txn *txn, struct str key, uint64_t revision)
{
    compare(txn, key, ETCDSERVERPB__COMPARE__COMPARE_TARGET__MOD,
            ETCDSERVERPB__COMPARE__TARGET_UNION_MOD_REVISION, (int64_t)revision);
    if ((int64_t)revision > txn->revision_floor) txn->revision_floor = (int64_t)revision;
}

void etcd_if_leased(struct etcd_txn *txn, struct str key, int64_t lease)
{
    compare(txn, key, ETCDSERVERPB__COMPARE__COMPARE_TARGET__LEASE,
            ETCDSERVERPB__COMPARE__TARGET_UNION_LEASE, lease);
}

/* -- operations -- */

static Etcdserverpb__RequestOp *next(struct etcd_ops *ops)
{
    Etcdserverpb__RequestOp *op = &ops->ops[ops->count];

    assert(ops->count < ETCD_TXN_KEYS);
    *op = (Etcdserverpb__RequestOp)ETCDSERVERPB__REQUEST_OP__INIT;
    ops->list[ops->count++] = op;
    return op;
}

static Etcdserverpb__PutRequest *put(struct etcd_ops *ops, struct str key, struct str value)
{
    Etcdserverpb__PutRequest *body = &ops->bodies[ops->count].put;
    Etcdserverpb__RequestOp *op = next(ops);

    *body = (Etcdserverpb__PutRequest)ETCDSERVERPB__PUT_REQUEST__INIT;
    body->key = etcd_bytes(key);
    body->value = etcd_bytes(value);
    op->request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
    op->request_put = body;
    return body;
}

void etcd_put(struct etcd_ops *ops, struct str key, struct str value, int64_t lease)
{
    put(ops, key, value)->lease = lease;
}

void etcd_put_same_lease(struct etcd_ops *ops, struct str key, struct str value)
{
    put(ops, key, value)->ignore_lease = true;
}

void etcd_delete(struct etcd_ops *ops, struct str key)
{
    Etcdserverpb__DeleteRangeRequest *body = &ops->bodies[ops->count].remove;
    Etcdserverpb__RequestOp *op = next(ops);

    *body = (Etcdserverpb__DeleteRangeRequest)ETCDSERVERPB__DELETE_RANGE_REQUEST__INIT;
    body->key = etcd_bytes(key);
    op->request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
    op->request_delete_range = body;
}

void etcd_range_to(struct etcd_ops *ops, struct str from, struct str end)
{
    Etcdserverpb__RangeRequest *body = &ops->bodies[ops->count].range;
    Etcdserverpb__RequestOp *op = next(ops);

    *body = (Etcdserverpb__RangeRequest)ETCDSERVERPB__RANGE_REQUEST__INIT;
    body->key = etcd_bytes(from);
    if (end.len > 0) body->range_end = etcd_bytes(end);
    op->request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
    op->request_range = body;
}

void etcd_range(struct etcd_ops *ops, struct str key)
{
    etcd_range_to(ops, key, STR_EMPTY);
}

void etcd_txn_request(struct etcd_txn *txn, Etcdserverpb__TxnRequest *ret_request)
{
    *ret_request = (Etcdserverpb__TxnRequest)ETCDSERVERPB__TXN_REQUEST__INIT;
    ret_request->n_compare = txn->compare_count;
    ret_request->compare = txn->compare_list;
    ret_request->n_success = txn->then.count;
    ret_request->success = txn->then.list;
    ret_request->n_failure = txn->otherwise.count;
    ret_request->failure = txn->otherwise.list;
}

/* -- over the client -- */

bool etcd_header_fits(struct etcd_backend *b, const Etcdserverpb__ResponseHeader *header)
{
    if (header && header->cluster_id == b->cluster_id) return true;
    /* R5: the endpoints lead to another cluster than the one that was opened. */
    prim_degrade(&b->base, "etcd: the endpoints answer for another cluster now");
    return false;
}

static coord_result other_cluster(void)
{
    return prim_answer(COORD_UNAVAILABLE, COORD_R_DEGRADED,
                       "etcd: the endpoints answer for another cluster now");
}

coord_result etcd_ask(struct etcd_backend *b, int64_t deadline_ns, const struct etcd_ask *ask,
                      struct arena *arena, ProtobufCMessage **ret_message)
{
    coord_result result = prim_ok(COORD_R_NONE);
    struct courier_op op;

    arena_init(arena, 1);
    if (b->base.degraded) return other_cluster();
    etcd_op_init(&op, ask->path, deadline_ns);
    op.idempotent = !ask->writes;
    op.hurried = ask->hurried;
    if (message_write(ask->request, &op.request, NULL)) {
        courier_op_deinit(&op);
        return prim_no_memory();
    }
    courier_op_run(&b->client.courier, &op);
    if (op.err) {
        result = etcd_failure(&op, ask->writes);
    } else if (etcd_reply(&op, ask->type, arena, ret_message)) {
        result = etcd_corrupt("an answer that cannot be read");
        if (ask->writes) result.flags |= COORD_F_MAYBE_APPLIED;
    }
    courier_op_deinit(&op);
    return result;
}

coord_result etcd_txn_run(struct etcd_backend *b, const struct prim_call *call,
                          struct etcd_txn *txn, struct arena *arena,
                          Etcdserverpb__TxnResponse **ret_response)
{
    Etcdserverpb__TxnRequest request;
    const struct etcd_ask ask = {.path = "/etcdserverpb.KV/Txn",
                                 .request = &request.base,
                                 .type = &etcdserverpb__txn_response__descriptor,
                                 .writes = !txn->reads_only};
    const Etcdserverpb__TxnResponse *response;
    ProtobufCMessage *message = NULL;
    coord_result result;

    etcd_txn_request(txn, &request);
    result = etcd_ask(b, call->deadline_ns, &ask, arena, &message);
    if (result.code != COORD_OK) return result;
    assert(message);
    response = *ret_response = (Etcdserverpb__TxnResponse *)message;
    if (!etcd_header_fits(b, response->header)) return other_cluster();
    if (response->header->revision <= (response->succeeded ? txn->revision_floor : 0)) {
        result = etcd_corrupt("a revision that cannot be");
        if (ask.writes) result.flags |= COORD_F_MAYBE_APPLIED;
    }
    return result;
}

coord_result etcd_read(struct etcd_backend *b, const struct prim_call *call, struct str key,
                       bool stale, struct arena *arena, int *ret_found,
                       struct etcd_entry *ret_entry)
{
    Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;
    const Etcdserverpb__RangeResponse *range;
    ProtobufCMessage *message = NULL;
    struct etcd_key stored;
    coord_result result;

    etcd_key_make(&b->space, key, &stored);
    request.key = etcd_bytes(str_of(stored.text, stored.len));
    request.serializable = stale;
    result = etcd_ask(b, call->deadline_ns,
                      &(struct etcd_ask){.path = "/etcdserverpb.KV/Range",
                                         .request = &request.base,
                                         .type = &etcdserverpb__range_response__descriptor},
                      arena, &message);
    if (result.code != COORD_OK) return result;
    assert(message);
    range = (const Etcdserverpb__RangeResponse *)message;
    if (!etcd_header_fits(b, range->header)) return other_cluster();
    *ret_found = etcd_range_one(&b->space, range, key, ret_entry);
    return *ret_found < 0 ? etcd_corrupt("what stands there is no entry of ours") : result;
}
