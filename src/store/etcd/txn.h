/* SPDX-License-Identifier: Apache-2.0 */
/* KV.Txn, and what every write is answered with. */
#ifndef STORE_ETCD_TXN_H
#define STORE_ETCD_TXN_H
#include "store/etcd/internal.h"

/* More than a proposal may have. */
bool etcd_request_is_large(const struct etcd_request *request);
/* Takes the transaction from its message and checks it; etcd_txn_check: and its size. */
enum etcd_error etcd_txn_take(struct etcd_request *request);
enum etcd_error etcd_txn_check(struct etcd_request *request);
/* The request is this transaction from now on, which lives as its arena does; and the check. */
enum etcd_error etcd_txn_become(struct etcd_request *request, const Etcdserverpb__TxnRequest *txn);
bool etcd_txn_allows(const struct etcd_request *request);
bool etcd_txn_serializable(const ProtobufCMessage *message);
int64_t etcd_txn_newest(const ProtobufCMessage *message);
bool etcd_txn_reads(const struct etcd_request *request);
void etcd_txn_read(struct etcd_request *request);
enum err etcd_txn_command(struct etcd_request *request, struct buf *into,
                          enum store_kind *ret_kind);
void etcd_txn_written(struct etcd_request *request, struct str reply);
/* The same of a method whose answer is the header alone. */
void etcd_txn_header(struct etcd_request *request, struct str reply);
/* What came of it. False: it was refused, and is answered. */
bool etcd_txn_done(struct etcd_request *request, struct str reply,
                   struct store_txn_reply *ret_reply);
#endif
