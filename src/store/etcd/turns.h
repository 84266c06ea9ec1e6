/* SPDX-License-Identifier: Apache-2.0 */
/* Whose turn it is: the keys and transactions of etcd's Lock and Election, from messages and the
 * key space alone.
 *
 * Who wants a lock or to be elected has a key, "name/lease" with the lease in hexadecimal, that
 * lives with its lease. The one that was created first has its turn; everybody else waits for the
 * one created just before its own to go. A key that is gone never comes back with its number, so
 * what was seen once of those before stays true. */
#ifndef STORE_ETCD_TURNS_H
#define STORE_ETCD_TURNS_H
#include "base/buf.h"
#include "store/core/keys.h"
#include "wire/pb/etcd_rpc.pb-c.h"

/* -- keys -- */
enum err turn_prefix(struct str name, struct buf *into);             /* appends "name/" */
enum err turn_key(struct str name, int64_t lease, struct buf *into); /* "name/lease" */

/* The first of them. ERR_NOT_FOUND: there is none. ERR_TOO_LARGE: more than TXN_KEYS_MAX, of which
 * none is looked at; nobody can come in among so many either. */
enum err turn_first(const struct keys *keys, struct key_range range, struct key_value *ret_first);
/* The last one created before `create`. False: there is none. Walks all. */
bool turn_before(const struct keys *keys, struct key_range range, uint64_t create,
                 struct key_value *ret_before);

/* -- transactions: the caller's storage, which must not move; views of what is given -- */
struct turn_txn {
    Etcdserverpb__TxnRequest txn, inner;
    Etcdserverpb__Compare is, inner_is;
    Etcdserverpb__Compare *is_at[1], *inner_at[1];
    Etcdserverpb__PutRequest put, keep;
    Etcdserverpb__RangeRequest mine, first;
    Etcdserverpb__DeleteRangeRequest del;
    Etcdserverpb__RequestOp put_op, keep_op, mine_op, first_op, del_op, inner_op;
    Etcdserverpb__RequestOp *success[2], *failure[3], *inner_success[1];
};
struct turn_entered {
    uint64_t create, mod; /* the key's; mod: this call's own, until the next one comes in */
    bool made;            /* by this call: it was not there before */
    bool first;           /* it has its turn already */
};
/* The key is there afterwards: created under the lease with the value, or as it was and in its
 * place, but written again, so that its `mod` says which call came in last. `says`: then it has the
 * value, too. Tells the first of `range`. */
void turn_enter(struct turn_txn *t, struct str key, int64_t lease, struct str value, bool says,
                struct key_range range);
/* What a call that is given up leaves behind. The key stays when another call of the lease came in
 * since; and one that this call did not make stays once it has its turn, for another call may have
 * been told so: then it goes with its lease. */
void turn_leave(struct turn_txn *t, struct str key, const struct turn_entered *as,
                struct key_range range);
/* Each only while the key is the one created at `create`. */
void turn_resign(struct turn_txn *t, struct str key, int64_t create);
/* lease 0: the key's own. */
void turn_says(struct turn_txn *t, struct str key, int64_t create, struct str value, int64_t lease);
void turn_delete(struct turn_txn *t, struct str key); /* whoever created it */

/* What turn_enter came to at `revision`. False: no answer to it. */
bool turn_entered(const Etcdserverpb__TxnResponse *answer, uint64_t revision,
                  struct turn_entered *ret_entered);
#endif
