/* SPDX-License-Identifier: Apache-2.0 */
/* etcdserverpb.KV: Range, Put, DeleteRange, Compact. Every write, even a single operation, is
 * proposed as a transaction. Txn itself is in txn.c. */
#include <muster/coord.h>

#include "store/etcd/listing.h"
#include "store/etcd/txn.h"
#include "store/keyvalue.h"
#include "store/txn_wire.h"

/* -- Range -- */

static enum etcd_error range_check(struct etcd_request *request)
{
    struct txn_op op = {.kind = TXN_RANGE, .range = query_from_message(etcd_message(request))};
    enum txn_refusal refusal = txn_check(&(struct txn){.ops = {NULL, &op}, .op_count = {0, 1}});

    if (refusal) return etcd_error_of(refusal);
    return etcd_request_is_large(request) ? ETCD_TOO_LARGE : ETCD_OK;
}

static bool range_allows(const struct etcd_request *request)
{
    const Etcdserverpb__RangeRequest *m = etcd_message(request);

    return etcd_may(api_of(request), request->base.call,
                    (struct key_range){bytes_str(m->key), bytes_str(m->range_end)}, ETCD_READ);
}

static bool kv_range_serializable(const ProtobufCMessage *message)
{
    return ((const Etcdserverpb__RangeRequest *)message)->serializable;
}

static int64_t range_newest(const ProtobufCMessage *message)
{
    return ((const Etcdserverpb__RangeRequest *)message)->revision;
}

static void range_pack_pair(void *owner, const struct key_value *pair)
{
    keyvalue_pack(owner, 2, pair);
}

static void range_read(struct etcd_request *request)
{
    struct etcd_api *api = api_of(request);
    const struct keys *keys = api_keys(api);
    struct query query = query_from_message(etcd_message(request));
    enum txn_refusal refusal = query_check(keys, &query);
    struct pack answer;
    struct query_end end;

    if (refusal) {
        etcd_refuse(request, etcd_error_of(refusal));
        return;
    }
    if (listing_suits(keys, &query)) {
        listing_begin(request, &query);
        return;
    }
    if (query_cost(keys, &query) > TXN_KEYS_MAX) { /* a sort with a limit above QUERY_BEST_MAX */
        etcd_refuse(request, ETCD_TOO_LARGE);
        return;
    }
    /* Reading the current revision is cheaper than reading it as a past revision. */
    if ((uint64_t)query.revision == keys_revision(keys)) query.revision = 0;
    answer = etcd_answer(api);
    end = query_run(keys, &query, range_pack_pair, &answer);
    if (end.no_memory) {
        etcd_refuse(request, ETCD_TOO_MANY_REQUESTS);
        return;
    }
    pack_u64(&answer, 3, end.more);
    pack_u64(&answer, 4, end.count);
    etcd_reply(request, &answer);
}

/* -- Put, DeleteRange: each becomes a transaction of one operation -- */

struct single {
    Etcdserverpb__TxnRequest txn;
    Etcdserverpb__RequestOp op, *op_at[1];
};

static enum etcd_error single_check(struct etcd_request *request,
                                    Etcdserverpb__RequestOp__RequestCase kind)
{
    struct single *single = ARENA_NEW(etcd_arena(request), struct single);
    bool large = etcd_request_is_large(request);
    enum etcd_error error;

    if (!single) return ETCD_TOO_MANY_REQUESTS;
    etcdserverpb__txn_request__init(&single->txn);
    etcdserverpb__request_op__init(&single->op);
    single->op.request_case = kind;
    /* fits any request: every member of the union is a pointer */
    single->op.request_put = (Etcdserverpb__PutRequest *)request->base.message;
    single->op_at[0] = &single->op;
    single->txn.success = single->op_at;
    single->txn.n_success = 1;
    request->base.message = &single->txn.base;
    error = etcd_txn_take(request);
    return !error && large ? ETCD_TOO_LARGE : error;
}

static enum etcd_error kv_put_check(struct etcd_request *request)
{
    return single_check(request, ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT);
}

static enum etcd_error delete_check(struct etcd_request *request)
{
    return single_check(request, ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE);
}

static enum err single_command(struct etcd_request *request, struct buf *into,
                               enum store_kind *ret_kind)
{
    *ret_kind = STORE_TXN;
    return store_txn_write(etcd_message(request), STORE_TXN_BARE, into);
}

/* -- Compact -- */

static enum etcd_error compact_check(struct etcd_request *request)
{
    const Etcdserverpb__CompactionRequest *m = etcd_message(request);

    return m->revision <= 0 ? ETCD_COMPACTED : ETCD_OK;
}

static enum err compact_command(struct etcd_request *request, struct buf *into,
                                enum store_kind *ret_kind)
{
    const Etcdserverpb__CompactionRequest *m = etcd_message(request);
    struct store_command command = {
        .kind = STORE_COMPACT, .prefer_slot = STORE_NO_SLOT, .expected = (uint64_t)m->revision};

    *ret_kind = command.kind;
    return store_command_write(&command, into);
}

static void compact_reply(struct etcd_request *request, struct str reply)
{
    const Etcdserverpb__CompactionRequest *m = etcd_message(request);
    struct etcd_api *api = api_of(request);
    struct store_reply answer;

    if (store_reply_parse(reply, &answer))
        request_refuse_as(&request->base, LEADER_UNKNOWN);
    else if (answer.code == COORD_OK && m->physical && keys_prune_left(api_keys(api)))
        request_keep(&request->base, &api->pruning);
    else if (answer.code == COORD_OK)
        etcd_reply_header(request);
    else
        etcd_refuse(request, answer.code == COORD_CONFLICT ? ETCD_COMPACTED : ETCD_FUTURE);
}

static void prunings_applied(struct etcd_api *api)
{
    if (list_empty(&api->pruning) || keys_prune_left(api_keys(api))) return;
    LIST_EACH_SAFE(&api->pruning, node, next)
    {
        etcd_reply_header(etcd_request_of(CONTAINER_OF(node, struct leader_request, link)));
    }
}

/* Refuses waiting compactions, because the new leader frees the history. */
static void prunings_changed(struct etcd_api *api, const struct replica_status *)
{
    if (api->leader.led) return;
    LIST_EACH_SAFE(&api->pruning, node, next)
    {
        request_refuse_as(CONTAINER_OF(node, struct leader_request, link), LEADER_UNKNOWN);
    }
}

static const struct etcd_method kv_methods[] = {
    {ETCD_METHOD("Range", etcdserverpb, KV, range, range), .check = range_check,
     .allows = range_allows, .serializable = kv_range_serializable, .newest = range_newest,
     .read = range_read},
    {ETCD_METHOD("Put", etcdserverpb, KV, put, put), .check = kv_put_check,
     .allows = etcd_txn_allows, .command = single_command, .written = etcd_txn_written},
    {ETCD_METHOD("DeleteRange", etcdserverpb, KV, delete_range, delete_range),
     .check = delete_check, .allows = etcd_txn_allows, .command = single_command,
     .written = etcd_txn_written},
    {ETCD_METHOD("Txn", etcdserverpb, KV, txn, txn), .check = etcd_txn_check,
     .allows = etcd_txn_allows, .serializable = etcd_txn_serializable, .newest = etcd_txn_newest,
     .reads = etcd_txn_reads, .read = etcd_txn_read, .command = etcd_txn_command,
     .written = etcd_txn_written},
    {ETCD_METHOD("Compact", etcdserverpb, KV, compaction, compaction), .check = compact_check,
     .allows = etcd_may_manage, .command = compact_command, .written = compact_reply},
    {.base = {.path = NULL}},
};

const struct etcd_part etcd_kv_part = {.methods = kv_methods,
                                       .open = listing_open,
                                       .close = listing_close,
                                       .applied = prunings_applied,
                                       .restored = listing_restored,
                                       .changed = prunings_changed};
