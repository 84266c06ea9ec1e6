/* SPDX-License-Identifier: Apache-2.0 */
/* Transactions between the messages of etcd's KV and the core. */
#ifndef STORE_TXN_WIRE_H
#define STORE_TXN_WIRE_H
#include "base/arena.h"
#include "base/buf.h"
#include "store/core/txn.h"
#include "wire/pack.h"
#include "wire/pb/etcd_rpc.pb-c.h"

static inline struct str bytes_str(ProtobufCBinaryData bytes)
{
    return bytes.len ? str_of(bytes.data, bytes.len) : STR_EMPTY;
}

/* Views of the message; what is made lives as the arena does. ERR_NOMEM. */
enum err txn_from_message(const Etcdserverpb__TxnRequest *message, struct arena *arena,
                          struct txn **ret_txn);
struct query query_from_message(const Etcdserverpb__RangeRequest *message);

/* What a transaction found, as fields of the TxnResponse without its header; or of the response of
 * its one operation: `bare`. Headers inside carry the revision alone. */
struct txn_writer {
    struct txn_sink sink; /* give this to the core */
    struct pack pack;
    bool bare;
    size_t depth;
    size_t starts[2 * TXN_DEPTH_MAX + 8]; /* of the messages that are open */
    enum txn_op_kind kinds[TXN_DEPTH_MAX + 4];
};
void txn_writer_init(struct txn_writer *writer, struct buf *into, bool bare);
#endif
