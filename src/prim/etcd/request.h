/* SPDX-License-Identifier: Apache-2.0 */
/* A transaction of the table in coordination.md B3, encoded piece by piece. The order of the pieces
 * does not matter: each is an element of a list of TxnRequest. Lack of memory is reported when the
 * transaction is sent. */
#ifndef PRIM_ETCD_REQUEST_H
#define PRIM_ETCD_REQUEST_H
#include "base/buf.h"
#include "wire/pb/etcd_rpc.pb-c.h"

enum { ETCD_TXN_KEYS = 16 }; /* in one transaction; servers allow 128 unless configured otherwise */
struct etcd_txn {
    struct buf request, op, body; /* the last two are of the element that is being encoded */
    enum err err;
    bool reads_only;        /* the transaction changes nothing */
    int64_t revision_floor; /* a change gets a larger revision than those that were compared */
};
void etcd_txn_init(struct etcd_txn *txn);
void etcd_txn_deinit(struct etcd_txn *txn);

enum etcd_target { /* of Compare */
                   ETCD_CREATED = ETCDSERVERPB__COMPARE__COMPARE_TARGET__CREATE,
                   ETCD_MODIFIED = ETCDSERVERPB__COMPARE__COMPARE_TARGET__MOD,
                   ETCD_LEASED = ETCDSERVERPB__COMPARE__COMPARE_TARGET__LEASE,
};
/* The revision or lease must be `number`; 0: absent, not leased. */
void etcd_if(struct etcd_txn *txn, struct str key, enum etcd_target target, int64_t number);
enum { ETCD_SAME_LEASE = -1 };
void etcd_put(struct etcd_txn *txn, struct str key, struct str value, int64_t lease);
void etcd_delete(struct etcd_txn *txn, struct str key);
/* `end` empty: one key. `otherwise`: only when a compare fails. */
void etcd_range(struct etcd_txn *txn, bool otherwise, struct str from, struct str end);
#endif
