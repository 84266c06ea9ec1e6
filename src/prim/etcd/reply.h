/* SPDX-License-Identifier: Apache-2.0 */
/* What etcd answers, in our words. Pure: bytes and outcomes in, facts out; a reply that does not
 * fit what was asked is UNAVAILABLE/corrupt, never "absent". */
#ifndef PRIM_ETCD_REPLY_H
#define PRIM_ETCD_REPLY_H
#include "prim/answer.h"
#include "prim/change.h"
#include "prim/etcd/client.h"
#include "wire/message.h"
#include "wire/pb/etcd_rpc.pb-c.h"

extern const struct grpc_scheme etcd_scheme;

/* How keys are written there. */
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
struct str etcd_key_ours(const struct etcd_space *space, struct str stored); /* "": not ours */
/* 63 bits of the claim's random id; never 0, which etcd would take for "draw one". */
int64_t etcd_lease_number(const coord_id *lease_id);

/* What an entry shows; `sequence` is etcd's number of its lease, 0: not leased. The strings are
 * borrowed from the reply. ERR_CORRUPT: not an entry of ours, or numbers that cannot be. */
enum err etcd_entry_read(const struct etcd_space *space, const Mvccpb__KeyValue *kv,
                         struct prim_seen *ret_seen);

/* An op that did not end well. `writes`: doubt is worth saying. */
coord_result etcd_failure(const struct grpc_thread_op *op, bool writes);
coord_result etcd_corrupt(const char *what);
bool etcd_says(const struct grpc_thread_op *op, enum grpc_status status, const char *part);

/* The answer to a single-key Range inside a transaction, or alone: 1 found, 0 absent, -1 not what
 * was asked. */
int etcd_range_one(const struct etcd_space *space, const Etcdserverpb__RangeResponse *range,
                   struct str key, struct prim_seen *ret_seen);
const Etcdserverpb__RangeResponse *etcd_txn_range(const Etcdserverpb__TxnResponse *txn, size_t at);
#endif
