/* SPDX-License-Identifier: Apache-2.0 */
/* v3lockpb.Lock: whoever was first has the lock, until its key goes (store/etcd/waits.h). */
#include "store/etcd/turns.h"
#include "store/etcd/txn.h"
#include "store/etcd/waits.h"
#include "wire/pb/etcd_lock.pb-c.h"

/* -- Lock -- */

static void pack_lock(const struct etcd_api *api, struct pack *pack, const struct wait_turn *turn)
{
    etcd_header(api, pack, turn->revision);
    pack_text(pack, 2, turn->key);
}

static const struct wait_kind lock_kind = {.lost = ETCD_SESSION_EXPIRED, .pack = pack_lock};

static void on_lock(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                    struct str)
{
    const V3lockpb__LockRequest *m = (const V3lockpb__LockRequest *)message;

    waits_begin(service, call, &lock_kind,
                &(struct wait_ask){.name = bytes_str(m->name), .lease = m->lease});
}

static const struct rpc_handler lock_handler = {
    .on_message = on_lock, .on_drain = waits_drain, .on_done = waits_gone};

static enum err add(struct etcd_api *api, struct rpc_server *server, struct note *note)
{
    return etcd_add(api, server,
                    &(struct rpc_method){.path = "/v3lockpb.Lock/Lock",
                                         .kind = RPC_UNARY,
                                         .input = &v3lockpb__lock_request__descriptor,
                                         .output = &v3lockpb__lock_response__descriptor,
                                         .request_max = ETCD_MESSAGE_MAX,
                                         .handler = &lock_handler,
                                         .service = api},
                    NULL, note);
}

/* -- Unlock -- */

/* The request becomes the transaction that it stands for. */
static enum etcd_error check_unlock(struct etcd_request *request)
{
    const V3lockpb__UnlockRequest *m = (const V3lockpb__UnlockRequest *)request->base.message;
    struct turn_txn *txn = ARENA_NEW(rpc_call_arena(request->base.call), struct turn_txn);

    if (!txn) return ETCD_TOO_MANY_REQUESTS;
    turn_delete(txn, bytes_str(m->key));
    request->base.message = &txn->txn.base;
    return etcd_txn_check(request);
}

static const struct etcd_method methods[] = {
    {.base = {.path = "/v3lockpb.Lock/Unlock",
              .name = "Unlock",
              .input = &v3lockpb__unlock_request__descriptor,
              .output = &v3lockpb__unlock_response__descriptor},
     .check = check_unlock,
     .allows = etcd_txn_allows,
     .inner = true,
     .command = etcd_txn_command,
     .written = etcd_txn_header},
    {.base = {.path = NULL}},
};

const struct etcd_part etcd_lock_part = {.methods = methods, .add = add};
