/* SPDX-License-Identifier: Apache-2.0 */
/* Converts transactions between etcd's KV messages and the core's structures. */
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

/* *ret_txn points into the message and the arena. ERR_NOMEM. */
enum err txn_from_message(const Etcdserverpb__TxnRequest *message, struct arena *arena,
                          struct txn **ret_txn);
struct query query_from_message(const Etcdserverpb__RangeRequest *message);

/* Encodes the results of a transaction as the fields of a TxnResponse without its header. `bare`:
 * only the fields of the single operation's response. Headers of nested responses have only the
 * revision. */
struct txn_writer {
    struct txn_sink sink;
    struct pack pack;
    bool bare;
    size_t depth;
    size_t starts[2 * TXN_DEPTH_MAX + 8]; /* offsets of the open messages */
    enum txn_op_kind kinds[TXN_DEPTH_MAX + 4];
};
void txn_writer_init(struct txn_writer *writer, struct buf *into, bool bare);
#endif
