/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to etcd: transactions, and calls that the caller's thread waits for. */
#include "prim/etcd/internal.h"
#include "wire/pack.h"

enum {
    /* of TxnRequest */
    FIELD_COMPARE = 1,
    FIELD_SUCCESS = 2,
    FIELD_FAILURE = 3,
    /* of RequestOp */
    FIELD_RANGE = 1,
    FIELD_PUT = 2,
    FIELD_DELETE = 3,
    /* fields of Compare; EQUAL is 0, so `result` is omitted */
    FIELD_TARGET = 2,
    FIELD_COMPARED_KEY = 3,
    FIELD_VERSION = 4, /* of the first target; other targets have the next numbers */
    /* of the requests inside RequestOp */
    FIELD_KEY = 1,
    FIELD_RANGE_END = 2,
    FIELD_VALUE = 2,
    FIELD_LEASE = 3,
    FIELD_IGNORE_LEASE = 6,
};

void etcd_txn_init(struct etcd_txn *txn)
{
    *txn = (struct etcd_txn){.err = ERR_OK};
    buf_init(&txn->request, ETCD_REQUEST_MAX);
    buf_init(&txn->op, ETCD_REQUEST_MAX);
    buf_init(&txn->body, ETCD_REQUEST_MAX);
}

void etcd_txn_deinit(struct etcd_txn *txn)
{
    buf_deinit(&txn->request);
    buf_deinit(&txn->op);
    buf_deinit(&txn->body);
}

static void txn_add(struct etcd_txn *txn, uint32_t field, const struct pack *row)
{
    struct pack all = {&txn->request, txn->err};

    pack_row(&all, field, row);
    txn->err = all.err;
}

static void txn_add_op(struct etcd_txn *txn, uint32_t branch, uint32_t field,
                       const struct pack *body)
{
    struct pack op = pack_begin(&txn->op);

    pack_row(&op, field, body);
    txn_add(txn, branch, &op);
}

void etcd_if(struct etcd_txn *txn, struct str key, enum etcd_target target, int64_t number)
{
    struct pack row = pack_begin(&txn->body);

    pack_u64(&row, FIELD_TARGET, target);
    pack_bytes(&row, FIELD_COMPARED_KEY, key);
    pack_varint(&row, (uint64_t)(FIELD_VERSION + target) << 3); /* target 0 is written, too */
    pack_varint(&row, (uint64_t)number);
    txn_add(txn, FIELD_COMPARE, &row);
    if (target == ETCD_MODIFIED && number > txn->revision_floor) txn->revision_floor = number;
}

void etcd_put(struct etcd_txn *txn, struct str key, struct str value, int64_t lease)
{
    struct pack row = pack_begin(&txn->body);

    pack_bytes(&row, FIELD_KEY, key);
    pack_text(&row, FIELD_VALUE, value);
    if (lease == ETCD_SAME_LEASE)
        pack_u64(&row, FIELD_IGNORE_LEASE, true);
    else
        pack_i64(&row, FIELD_LEASE, lease);
    txn_add_op(txn, FIELD_SUCCESS, FIELD_PUT, &row);
}

void etcd_delete(struct etcd_txn *txn, struct str key)
{
    struct pack row = pack_begin(&txn->body);

    pack_bytes(&row, FIELD_KEY, key);
    txn_add_op(txn, FIELD_SUCCESS, FIELD_DELETE, &row);
}

void etcd_range(struct etcd_txn *txn, bool otherwise, struct str from, struct str end)
{
    struct pack row = pack_begin(&txn->body);

    pack_bytes(&row, FIELD_KEY, from);
    pack_text(&row, FIELD_RANGE_END, end);
    txn_add_op(txn, otherwise ? FIELD_FAILURE : FIELD_SUCCESS, FIELD_RANGE, &row);
}

/* -- calls -- */

/* The endpoints belong to another cluster than at open (R5). */
static const char other_cluster_text[] = "etcd: the endpoints answer for another cluster now";

static coord_result other_cluster(void)
{
    return prim_answer(COORD_UNAVAILABLE, COORD_R_DEGRADED, "%s", other_cluster_text);
}

bool etcd_header_fits(struct etcd_backend *b, const Etcdserverpb__ResponseHeader *header)
{
    if (header && header->cluster_id == b->cluster_id) return true;
    prim_degrade(&b->base, other_cluster_text);
    return false;
}

coord_result etcd_ask(struct etcd_backend *b, int64_t deadline_ns, const struct etcd_ask *ask,
                      struct arena *arena, ProtobufCMessage **ret_message)
{
    coord_result result = prim_ok(COORD_R_NONE);
    struct grpc_thread_op op;

    arena_init(arena, 1);
    if (b->base.degraded) return other_cluster();
    etcd_op_init(&op, ask->path, deadline_ns);
    op.idempotent = !ask->writes;
    op.hurried = ask->hurried;
    if (ask->txn ? ask->txn->err || buf_append(&op.request, buf_peek(&ask->txn->request))
                 : message_write(ask->request, &op.request, NULL)) {
        grpc_op_deinit(&op);
        return prim_no_memory();
    }
    grpc_op_run(&b->client.grpc_thread, &op);
    if (op.err) {
        result = etcd_failure(&op, ask->writes);
    } else if (grpc_read(buf_peek(&op.response), ask->type, arena, ret_message)) {
        result = etcd_corrupt("an answer that cannot be read");
        if (ask->writes) result.flags |= COORD_F_MAYBE_APPLIED;
    }
    grpc_op_deinit(&op);
    return result;
}

coord_result etcd_txn_run(struct etcd_backend *b, const struct prim_call *call,
                          const struct etcd_txn *txn, struct arena *arena,
                          Etcdserverpb__TxnResponse **ret_response)
{
    const struct etcd_ask ask = {.path = "/etcdserverpb.KV/Txn",
                                 .txn = txn,
                                 .type = &etcdserverpb__txn_response__descriptor,
                                 .writes = !txn->reads_only};
    const Etcdserverpb__TxnResponse *response;
    ProtobufCMessage *message = NULL;
    coord_result result;

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
                       bool stale, struct arena *arena, struct prim_seen *ret_seen)
{
    Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;
    const Etcdserverpb__RangeResponse *range;
    ProtobufCMessage *message = NULL;
    struct etcd_key stored;
    coord_result result;

    etcd_key_make(&b->space, key, &stored);
    request.key = grpc_bytes(str_of(stored.text, stored.len));
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
    return etcd_range_one(&b->space, range, key, ret_seen) < 0
               ? etcd_corrupt("the value of the key is no entry of ours")
               : result;
}
