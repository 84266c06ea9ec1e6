/* SPDX-License-Identifier: Apache-2.0 */
/* KV.Txn: checks, permissions, reads without the log, and the replies of writes. */
#include "store/etcd/txn.h"

#include "store/txn_wire.h"

bool etcd_request_is_large(const struct etcd_request *request)
{
    return protobuf_c_message_get_packed_size(request->base.message) > ETCD_REQUEST_MAX;
}

enum etcd_error etcd_txn_take(struct etcd_request *request)
{
    if (txn_from_message(etcd_message(request), etcd_arena(request), &request->txn))
        return ETCD_TOO_MANY_REQUESTS;
    return etcd_error_of(txn_check(request->txn));
}

enum etcd_error etcd_txn_check(struct etcd_request *request)
{
    enum etcd_error error = etcd_txn_take(request);

    return !error && etcd_request_is_large(request) ? ETCD_TOO_LARGE : error;
}

enum etcd_error etcd_txn_become(struct etcd_request *request, const Etcdserverpb__TxnRequest *txn)
{
    request->base.message = &txn->base;
    return etcd_txn_check(request);
}

/* Checks both branches, because a refusal must not reveal which keys exist. */
static bool may_all(const struct etcd_request *request, const struct txn *txn)
{
    const struct etcd_api *api = api_of(request);
    const struct rpc_call *call = request->base.call;
    bool may = true;

    for (size_t i = 0; may && i < txn->compare_count; i++)
        may = etcd_may(api, call, txn->compares[i].range, ETCD_READ);
    for (int branch = 0; branch < 2; branch++)
        for (size_t i = 0; may && i < txn->op_count[branch]; i++) {
            const struct txn_op *op = &txn->ops[branch][i];

            switch (op->kind) {
            case TXN_RANGE: may = etcd_may(api, call, op->range.range, ETCD_READ); break;
            case TXN_PUT:
                may = etcd_may(api, call, (struct key_range){op->put.key, STR_EMPTY}, ETCD_WRITE);
                break;
            case TXN_DELETE: may = etcd_may(api, call, op->del.range, ETCD_WRITE); break;
            case TXN_TXN: may = may_all(request, op->txn); break;
            case TXN_NONE: break;
            }
        }
    return may;
}

bool etcd_txn_allows(const struct etcd_request *request)
{
    return may_all(request, request->txn);
}

/* -- read-only transactions -- */

/* over all ranges of a transaction, nested transactions included */
struct txn_reads {
    size_t ranges;
    bool leader;    /* at least one range must be read on the leader */
    int64_t newest; /* newest revision that a range names */
};

static void reads_add(const Etcdserverpb__TxnRequest *m, struct txn_reads *reads)
{
    for (size_t i = 0; i < m->n_success + m->n_failure; i++) {
        const Etcdserverpb__RequestOp *op =
            i < m->n_success ? m->success[i] : m->failure[i - m->n_success];

        if (op->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_TXN) {
            reads_add(op->request_txn, reads);
        } else if (op->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE) {
            reads->ranges++;
            reads->leader |= !op->request_range->serializable;
            if (op->request_range->revision > reads->newest)
                reads->newest = op->request_range->revision;
        } else {
            reads->leader = true;
        }
    }
}

/* A transaction without ranges only evaluates compares, and the leader must do that. */
bool etcd_txn_serializable(const ProtobufCMessage *message)
{
    struct txn_reads reads = {0};

    reads_add((const Etcdserverpb__TxnRequest *)message, &reads);
    return reads.ranges > 0 && !reads.leader;
}

int64_t etcd_txn_newest(const ProtobufCMessage *message)
{
    struct txn_reads reads = {0};

    reads_add((const Etcdserverpb__TxnRequest *)message, &reads);
    return reads.newest;
}

bool etcd_txn_reads(const struct etcd_request *request)
{
    return !txn_writes(request->txn);
}

void etcd_txn_read(struct etcd_request *request)
{
    struct etcd_api *api = api_of(request);
    struct pack answer = etcd_answer(api);
    struct txn_writer writer;
    enum txn_refusal refusal;

    txn_writer_init(&writer, &api->answer, false);
    refusal = txn_read(api_store(api), request->txn, &writer.sink);
    if (!answer.err) answer.err = writer.pack.err;
    if (refusal)
        etcd_refuse(request, etcd_error_of(refusal));
    else
        etcd_reply(request, &answer);
}

/* -- transactions that write -- */

enum err etcd_txn_command(struct etcd_request *request, struct buf *into, enum store_kind *ret_kind)
{
    *ret_kind = STORE_TXN;
    if (txn_past_check(api_keys(api_of(request)), request->txn)) return ERR_FULL;
    return store_txn_write(etcd_message(request), 0, into);
}

bool etcd_txn_done(struct etcd_request *request, struct str reply,
                   struct store_txn_reply *ret_reply)
{
    if (store_txn_parse(reply, ret_reply))
        request_refuse_as(&request->base, LEADER_UNKNOWN);
    else if (ret_reply->refusal)
        etcd_refuse(request, etcd_error_of(ret_reply->refusal));
    else
        return true;
    return false;
}

static void txn_reply(struct etcd_request *request, struct str reply, bool whole)
{
    struct etcd_api *api = api_of(request);
    struct pack answer = pack_begin(&api->answer);
    struct store_txn_reply txn;

    if (!etcd_txn_done(request, reply, &txn)) return;
    etcd_header(api, &answer, txn.revision);
    if (whole && !answer.err) answer.err = buf_append(&api->answer, txn.response);
    etcd_reply(request, &answer);
}

void etcd_txn_written(struct etcd_request *request, struct str reply)
{
    txn_reply(request, reply, true);
}

void etcd_txn_header(struct etcd_request *request, struct str reply)
{
    txn_reply(request, reply, false);
}
