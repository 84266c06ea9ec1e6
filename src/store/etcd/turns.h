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

/* The first of them; the last one created before `create`. False: there is none. Walks all. */
bool turn_first(const struct keys *keys, struct key_range range, struct key_value *ret_first);
bool turn_before(const struct keys *keys, struct key_range range, uint64_t create,
                 struct key_value *ret_before);

/* -- transactions: the caller's storage, which must not move; views of what is given -- */
struct turn_txn {
    Etcdserverpb__TxnRequest txn, says_so;
    Etcdserverpb__Compare is, same;
    Etcdserverpb__Compare *is_at[1], *same_at[1];
    Etcdserverpb__PutRequest put;
    Etcdserverpb__RangeRequest mine, first;
    Etcdserverpb__DeleteRangeRequest del;
    Etcdserverpb__RequestOp put_op, mine_op, first_op, del_op, says_op;
    Etcdserverpb__RequestOp *success[2], *failure[3], *says[1];
};
/* The key is there afterwards: created under the lease with the value, or as it was. `says`: then
 * it has the value, too. Tells the first of `range`. */
void turn_enter(struct turn_txn *t, struct str key, int64_t lease, struct str value, bool says,
                struct key_range range);
/* Each only while the key is the one created at `create`. */
void turn_leave(struct turn_txn *t, struct str key, int64_t create);
/* lease 0: the key's own. */
void turn_says(struct turn_txn *t, struct str key, int64_t create, struct str value, int64_t lease);
void turn_delete(struct turn_txn *t, struct str key); /* whoever created it */

struct turn_entered {
    uint64_t create;
    bool first; /* it has its turn already */
};
/* What turn_enter came to at `revision`. False: no answer to it. */
bool turn_entered(const Etcdserverpb__TxnResponse *answer, uint64_t revision,
                  struct turn_entered *ret_entered);
#endif
