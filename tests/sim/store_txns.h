/* SPDX-License-Identifier: Apache-2.0 */
/* Random requests of etcd's KV: few keys, so that they collide; sometimes one that is refused. */
#ifndef TESTS_SIM_STORE_TXNS_H
#define TESTS_SIM_STORE_TXNS_H
#include "base/arena.h"
#include "base/prng.h"
#include "wire/pb/etcd_rpc.pb-c.h"

enum { TXNS_VALUE_CAP = 24 };
struct txns {
    struct prng *prng;
    struct arena *arena;
    /* A value that no other client puts, for keys under "e/u"; other values come from a small set.
     */
    void (*value)(void *owner, char value[TXNS_VALUE_CAP]);
    void *owner;
    uint64_t revision; /* about the store's revision, for compares */
};
/* In the arena; NULL: memory. May be one that is refused. */
Etcdserverpb__TxnRequest *txns_draw(const struct txns *t);
Etcdserverpb__PutRequest *txns_draw_put(const struct txns *t);
Etcdserverpb__DeleteRangeRequest *txns_draw_delete(const struct txns *t);
Etcdserverpb__RangeRequest *txns_draw_range(const struct txns *t);
#endif
