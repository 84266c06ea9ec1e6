/* SPDX-License-Identifier: Apache-2.0 */
/* KV.Txn: checks, permissions, reads without the log, and the replies of writes. */
#include "store/etcd/txn.h"

#include "store/txn_wire.h"

static const Etcdserverpb__TxnRequest *txn_of(const struct etcd_request *request)
{
    return (const Etcdserverpb__TxnRequest *)request->base.message;
}

bool etcd_request_is_large(const struct etcd_request *request)
{
    return protobuf_c_message_get_packed_size(request->base.message) > ETCD_REQUEST_MAX;
}

enum etcd_error etcd_txn_take(struct etcd_request *request)
{
    if (txn_from_message(txn_of(request), etcd_arena(request), &request->txn))
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

/* Both branches, whichever is taken: a refusal must not depend on which keys exist. */
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

/* -- those that only read -- */

static bool is_serializable(const Etcdserverpb__TxnRequest *m, size_t *ranges);

/* Of these operations: every one is a read that any replica may answer. */
static bool all_serializable(Etcdserverpb__RequestOp *const *ops, size_t count, size_t *ranges)
{
    for (size_t i = 0; i < count; i++) {
        const Etcdserverpb__RequestOp *op = ops[i];
        bool range = op->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
        bool txn = op->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_TXN;

        *ranges += range;
        if (!(range && op->request_range->serializable) &&
            !(txn && is_serializable(op->request_txn, ranges)))
            return false;
    }
    return true;
}

static bool is_serializable(const Etcdserverpb__TxnRequest *m, size_t *ranges)
{
    return all_serializable(m->success, m->n_success, ranges) &&
           all_serializable(m->failure, m->n_failure, ranges);
}

/* A transaction without any range, also inside, asks for its compares alone: the leader answers. */
bool etcd_txn_serializable(const ProtobufCMessage *message)
{
    size_t ranges = 0;

    return is_serializable((const Etcdserverpb__TxnRequest *)message, &ranges) && ranges > 0;
}

static int64_t newest_of(Etcdserverpb__RequestOp *const *ops, size_t count)
{
    int64_t newest = 0;

    for (size_t i = 0; i < count; i++) {
        int64_t named = 0;

        if (ops[i]->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE)
            named = ops[i]->request_range->revision;
        else if (ops[i]->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_TXN)
            named = etcd_txn_newest(&ops[i]->request_txn->base);
        if (named > newest) newest = named;
    }
    return newest;
}

int64_t etcd_txn_newest(const ProtobufCMessage *message)
{
    const Etcdserverpb__TxnRequest *m = (const Etcdserverpb__TxnRequest *)message;
    int64_t held = newest_of(m->success, m->n_success),
            failed = newest_of(m->failure, m->n_failure);

    return held > failed ? held : failed;
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

/* -- those that write -- */

enum err etcd_txn_command(struct etcd_request *request, struct buf *into, enum store_kind *ret_kind)
{
    *ret_kind = STORE_TXN;
    if (txn_past_check(api_keys(api_of(request)), request->txn)) return ERR_FULL;
    return store_txn_write(txn_of(request), 0, into);
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
