/* SPDX-License-Identifier: Apache-2.0 */
/* KV.Txn, and the responses of all writes. */
#ifndef STORE_ETCD_TXN_H
#define STORE_ETCD_TXN_H
#include "store/etcd/internal.h"

bool etcd_request_is_large(const struct etcd_request *request);
/* etcd_txn_take() decodes and checks the transaction. etcd_txn_check() also checks its size. */
enum etcd_error etcd_txn_take(struct etcd_request *request);
enum etcd_error etcd_txn_check(struct etcd_request *request);
/* Replaces the request by `txn`, and checks it. `txn` must live as long as the request's arena. */
enum etcd_error etcd_txn_become(struct etcd_request *request, const Etcdserverpb__TxnRequest *txn);
bool etcd_txn_allows(const struct etcd_request *request);
bool etcd_txn_serializable(const ProtobufCMessage *message);
int64_t etcd_txn_newest(const ProtobufCMessage *message);
bool etcd_txn_reads(const struct etcd_request *request);
void etcd_txn_read(struct etcd_request *request);
enum err etcd_txn_command(struct etcd_request *request, struct buf *into,
                          enum store_kind *ret_kind);
void etcd_txn_written(struct etcd_request *request, struct str reply);
/* like etcd_txn_written(), but the response is only the header */
void etcd_txn_header(struct etcd_request *request, struct str reply);
/* false: the transaction was refused, and the request answered */
bool etcd_txn_done(struct etcd_request *request, struct str reply,
                   struct store_txn_reply *ret_reply);
#endif
