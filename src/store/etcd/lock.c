/* SPDX-License-Identifier: Apache-2.0 */
/* v3lockpb.Lock: the first entry of the queue holds the lock until its key is deleted. */
#include "store/etcd/queue.h"
#include "store/etcd/queue_wait.h"
#include "store/etcd/txn.h"
#include "wire/pb/etcd_lock.pb-c.h"

static void lock_pack(const struct etcd_api *api, struct pack *pack,
                      const struct queue_place *place)
{
    etcd_header(api, pack, place->revision);
    pack_text(pack, 2, place->key);
}

static const struct queue_wait_kind lock_kind = {.lost = ETCD_SESSION_EXPIRED, .pack = lock_pack};

static void on_lock(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                    struct str)
{
    const V3lockpb__LockRequest *m = (const V3lockpb__LockRequest *)message;

    queue_wait_begin(service, call, &lock_kind,
                     &(struct queue_request){.name = bytes_str(m->name), .lease = m->lease});
}

static const struct rpc_handler lock_handler = {
    .on_message = on_lock, .on_drain = queue_wait_drain, .on_done = queue_wait_gone};

static enum etcd_error unlock_check(struct etcd_request *request)
{
    const V3lockpb__UnlockRequest *m = (const V3lockpb__UnlockRequest *)request->base.message;
    struct queue_txn *txn = ARENA_NEW(etcd_arena(request), struct queue_txn);

    if (!txn) return ETCD_TOO_MANY_REQUESTS;
    queue_delete(txn, bytes_str(m->key));
    return etcd_txn_become(request, &txn->txn);
}

static const struct etcd_method lock_methods[] = {
    {ETCD_METHOD("Unlock", v3lockpb, Lock, unlock, unlock), .inner = true, .check = unlock_check,
     .allows = etcd_txn_allows, .command = etcd_txn_command, .written = etcd_txn_header},
    {.base = {.path = NULL}},
};

static const struct etcd_raw lock_raws[] = {
    {ETCD_RAW("Lock", v3lockpb, Lock, lock, lock, RPC_UNARY, lock_handler)},
    {.rpc = {.path = NULL}},
};

const struct etcd_part etcd_lock_part = {.methods = lock_methods, .raws = lock_raws};
