/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of a lock or an election in etcd's layout. Builds keys and transactions from messages,
 * and evaluates the queue from the key space alone.
 *
 * A client that waits for a lock or an election has an entry: the key "name/lease" with the lease
 * in hexadecimal, which is deleted when the lease ends. The entry that was created first holds the
 * lock, or leads. Every other entry waits until the entry created just before it is deleted. A
 * deleted entry never returns with its old create revision. The set of entries before a given entry
 * can therefore only shrink. */
#ifndef STORE_ETCD_QUEUE_H
#define STORE_ETCD_QUEUE_H
#include "store/core/keys.h"
#include "wire/pb/etcd_rpc.pb-c.h"

/* -- keys -- */
enum { QUEUE_LEASE_MAX = 24 };
/* Writes "name/lease" to `room`, which has name.len + QUEUE_LEASE_MAX bytes. */
struct str queue_key(struct str name, int64_t lease, char *room);
/* Returns the range of keys that begin with "name/". `room` has 2 * (name.len + 1) bytes. */
struct key_range queue_range(struct str name, char *room);

/* Finds the first entry. Returns ERR_NOT_FOUND if the queue is empty, or ERR_TOO_LARGE if it has
 * more than TXN_KEYS_MAX keys. No client can enter such a large queue either. */
enum err queue_first(const struct keys *keys, struct key_range range, struct key_value *ret_first);
/* Finds the newest entry created before `create`, or returns false. Reads all entries. */
bool queue_before(const struct keys *keys, struct key_range range, uint64_t create,
                  struct key_value *ret_before);

/* -- transactions in the caller's storage, which must not move; they point to the arguments -- */
struct queue_txn {
    Etcdserverpb__TxnRequest txn, inner;
    Etcdserverpb__Compare is, inner_is;
    Etcdserverpb__Compare *is_at[1], *inner_at[1];
    Etcdserverpb__PutRequest put, keep;
    Etcdserverpb__RangeRequest own, first;
    Etcdserverpb__DeleteRangeRequest del;
    Etcdserverpb__RequestOp put_op, keep_op, own_op, first_op, del_op, inner_op;
    Etcdserverpb__RequestOp *success[2], *failure[3], *inner_success[1];
};
struct queue_entry {
    uint64_t create, mod; /* revisions; `mod` is from this call unless another call entered later */
    bool created;         /* this call created the entry */
    bool first;           /* the entry holds the lock already */
};
/* Makes sure that the entry `key` exists. A new entry is created under the lease with the value. An
 * existing entry keeps its place and is written again, so that its `mod` shows which call entered
 * last; with `sets`, the entry also gets the value. Also reads the first entry of `range`. */
void queue_enter(struct queue_txn *t, struct str key, int64_t lease, struct str value, bool sets,
                 struct key_range range);
/* Deletes the entry of a call that is given up. The entry stays if another call of the lease has
 * entered since. An entry that this call did not create also stays once it is first, because
 * another call may rely on this place. The entry is then deleted with its lease. */
void queue_leave(struct queue_txn *t, struct str key, const struct queue_entry *as,
                 struct key_range range);
/* queue_resign() and queue_set_value() change the key only if its create revision is `create`. */
void queue_resign(struct queue_txn *t, struct str key, int64_t create);
/* `lease` 0 keeps the key's lease. */
void queue_set_value(struct queue_txn *t, struct str key, int64_t create, struct str value,
                     int64_t lease);
void queue_delete(struct queue_txn *t, struct str key); /* even if another call created the key */

/* Decodes queue_enter()'s response of `revision`. Returns false if the response is malformed. */
bool queue_entered(const Etcdserverpb__TxnResponse *answer, uint64_t revision,
                   struct queue_entry *ret_entry);
#endif
