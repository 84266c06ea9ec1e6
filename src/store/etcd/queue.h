/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of a lock or an election, as etcd keeps it: keys and transactions, from messages and the
 * key space alone.
 *
 * A client that wants a lock, or to be elected, has an entry: the key "name/lease", with the lease in
 * hexadecimal, which lives with its lease. The entry that was created first holds the lock, or leads.
 * Every other one waits until the entry that was created just before it is deleted. An entry that is
 * deleted never comes back with its create revision, so entries before an entry only ever go. */
#ifndef STORE_ETCD_QUEUE_H
#define STORE_ETCD_QUEUE_H
#include "store/core/keys.h"
#include "wire/pb/etcd_rpc.pb-c.h"

/* -- keys -- */
enum { QUEUE_LEASE_MAX = 24 };
/* "name/lease", in name.len + QUEUE_LEASE_MAX bytes of room. */
struct str queue_key(struct str name, int64_t lease, char *room);
/* Every key that begins with "name/", in 2 * (name.len + 1) bytes of room. */
struct key_range queue_range(struct str name, char *room);

/* The first entry. ERR_NOT_FOUND: there is none. ERR_TOO_LARGE: more keys than TXN_KEYS_MAX, of which
 * none is looked at; nobody can enter among so many either. */
enum err queue_first(const struct keys *keys, struct key_range range, struct key_value *ret_first);
/* The last entry created before `create`. False: there is none. Walks all. */
bool queue_before(const struct keys *keys, struct key_range range, uint64_t create,
                  struct key_value *ret_before);

/* -- transactions: the caller's storage, which must not move; views of what is given -- */
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
    uint64_t create, mod; /* the key's; mod: this call's own, until another call enters */
    bool created;         /* by this call */
    bool first;           /* it holds the lock already */
};
/* The key exists afterwards: created under the lease with the value, or as it was and in its place,
 * but written again, so that its `mod` says which call entered last. `sets`: an existing key gets the
 * value, too. Also reads the first entry of `range`. */
void queue_enter(struct queue_txn *t, struct str key, int64_t lease, struct str value, bool sets,
                 struct key_range range);
/* For a call that is given up. The key stays when another call of the lease entered since. A key
 * that this call did not create stays once it is first, because another call may have been answered
 * so: then it goes with its lease. */
void queue_leave(struct queue_txn *t, struct str key, const struct queue_entry *as,
                 struct key_range range);
/* Each only while the key is the one created at `create`. */
void queue_resign(struct queue_txn *t, struct str key, int64_t create);
/* lease 0: the key's own. */
void queue_set_value(struct queue_txn *t, struct str key, int64_t create, struct str value,
                     int64_t lease);
void queue_delete(struct queue_txn *t, struct str key); /* created by any call */

/* What queue_enter came to at `revision`. False: no answer to it. */
bool queue_entered(const Etcdserverpb__TxnResponse *answer, uint64_t revision,
                   struct queue_entry *ret_entry);
#endif
