/* SPDX-License-Identifier: Apache-2.0 */
/* A transaction, put together piece by piece: the table of coordination.md B3. Keys and
 * values are borrowed
 * until it has been encoded. */
#ifndef PRIM_ETCD_REQUEST_H
#define PRIM_ETCD_REQUEST_H
#include "base/str.h"
#include "wire/pb/etcd_rpc.pb-c.h"

enum {
    ETCD_TXN_KEYS = 16, /* in one transaction; servers allow 128 unless told otherwise */
    ETCD_TXN_COMPARES = 2 * ETCD_TXN_KEYS + 1,
};
struct etcd_ops {
    Etcdserverpb__RequestOp ops[ETCD_TXN_KEYS];
    Etcdserverpb__RequestOp *list[ETCD_TXN_KEYS];
    union {
        Etcdserverpb__RangeRequest range;
        Etcdserverpb__PutRequest put;
        Etcdserverpb__DeleteRangeRequest remove;
    } bodies[ETCD_TXN_KEYS];
    size_t count;
};
struct etcd_txn {
    Etcdserverpb__Compare compares[ETCD_TXN_COMPARES];
    Etcdserverpb__Compare *compare_list[ETCD_TXN_COMPARES];
    size_t compare_count;
    struct etcd_ops then, otherwise;
    bool reads_only;        /* nothing to doubt */
    int64_t revision_floor; /* what follows a compared revision is larger */
};
void etcd_txn_init(struct etcd_txn *txn);
void etcd_if_created(struct etcd_txn *txn, struct str key,
                     uint64_t create_revision); /* 0: absent */
void etcd_if_modified(struct etcd_txn *txn, struct str key, uint64_t revision);
void etcd_if_leased(struct etcd_txn *txn, struct str key, int64_t lease); /* 0: not leased */
void etcd_put(struct etcd_ops *ops, struct str key, struct str value, int64_t lease);
void etcd_put_same_lease(struct etcd_ops *ops, struct str key, struct str value);
void etcd_delete(struct etcd_ops *ops, struct str key);
void etcd_range(struct etcd_ops *ops, struct str key);
void etcd_range_to(struct etcd_ops *ops, struct str from, struct str end);
void etcd_txn_request(struct etcd_txn *txn, Etcdserverpb__TxnRequest *ret_request); /* borrows */
#endif
