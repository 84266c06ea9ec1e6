/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes etcd's answers. Pure. A reply that does not fit the request is UNAVAILABLE/corrupt and
 * never "absent". */
#ifndef PRIM_ETCD_REPLY_H
#define PRIM_ETCD_REPLY_H
#include "prim/answer.h"
#include "prim/change.h"
#include "prim/etcd/client.h"
#include "wire/message.h"
#include "wire/pb/etcd_rpc.pb-c.h"

extern const struct grpc_scheme etcd_scheme;

struct etcd_space {
    char prefix[272]; /* "muster/app/" */
    size_t prefix_len;
    bool raw;
};
enum { ETCD_KEY_CAP = 272 + 520 };
struct etcd_key {
    char text[ETCD_KEY_CAP];
    size_t len;
};
static inline struct str etcd_key_str(const struct etcd_key *key)
{
    return str_of(key->text, key->len);
}
void etcd_key_make(const struct etcd_space *space, struct str key, struct etcd_key *ret_key);
/* "": `stored` is not a key of this store. */
struct str etcd_key_ours(const struct etcd_space *space, struct str stored);
/* 63 bits of the claim's random id; never 0, because etcd would then choose an id. */
int64_t etcd_lease_number(const coord_id *lease_id);

/* `sequence`: etcd's lease number; 0: no lease. The strings are borrowed from the reply.
 * ERR_CORRUPT: no entry of this library, or impossible numbers. */
enum err etcd_entry_read(const struct etcd_space *space, const Mvccpb__KeyValue *kv,
                         struct prim_seen *ret_seen);

coord_result etcd_failure(const struct grpc_thread_op *op, bool writes);
coord_result etcd_corrupt(const char *what);
bool etcd_says(const struct grpc_thread_op *op, enum grpc_status status, const char *part);

/* Answer to a Range of one key. 1: found, 0: absent, -1: the answer does not fit the request. */
int etcd_range_one(const struct etcd_space *space, const Etcdserverpb__RangeResponse *range,
                   struct str key, struct prim_seen *ret_seen);
const Etcdserverpb__RangeResponse *etcd_txn_range(const Etcdserverpb__TxnResponse *txn, size_t at);
#endif
