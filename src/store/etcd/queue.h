/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of a lock or an election in etcd's layout. Pure: uses messages and the key space only.
 *
 * A waiting client has an entry: the key "name/lease" with the lease in hexadecimal, which is
 * deleted when the lease ends. The oldest entry holds the lock, or leads. Every other entry waits
 * until the entry created just before is deleted. New entries get a later create revision, so the
 * set of entries before an entry can only shrink. */
#ifndef STORE_ETCD_QUEUE_H
#define STORE_ETCD_QUEUE_H
#include "store/core/keys.h"
#include "wire/pb/etcd_rpc.pb-c.h"

/* -- keys -- */
enum { QUEUE_LEASE_MAX = 24 };
/* `room`: name.len + QUEUE_LEASE_MAX bytes */
struct str queue_key(struct str name, int64_t lease, char *room);
/* the keys that begin with "name/"; `room`: 2 * (name.len + 1) bytes */
struct key_range queue_range(struct str name, char *room);

/* ERR_NOT_FOUND: the queue is empty. ERR_TOO_LARGE: it has more than TXN_KEYS_MAX keys, and no
 * client can enter it. */
enum err queue_first(const struct keys *keys, struct key_range range, struct key_value *ret_first);
/* The newest entry created before `create`; false: none. Reads all entries. */
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
    uint64_t create, mod; /* `mod` is this call's revision, unless another call entered later */
    bool created;         /* this call created the entry */
    bool first;           /* the entry holds the lock already */
};
/* A new entry is created under the lease with the value. An existing entry keeps its place. The
 * existing entry is written again, with the value if `sets`, so that `mod` shows which call entered
 * last. Also reads the first entry of `range`. */
void queue_enter(struct queue_txn *t, struct str key, int64_t lease, struct str value, bool sets,
                 struct key_range range);
/* Deletes the entry of a call that is given up. The entry stays in two cases:
 * - another call of the lease has entered since
 * - another call created the entry, and the entry is first: that call may rely on the place */
void queue_leave(struct queue_txn *t, struct str key, const struct queue_entry *as,
                 struct key_range range);
/* queue_resign() and queue_set_value() change the key only if its create revision is `create`. */
void queue_resign(struct queue_txn *t, struct str key, int64_t create);
/* `lease` 0 keeps the key's lease */
void queue_set_value(struct queue_txn *t, struct str key, int64_t create, struct str value,
                     int64_t lease);
void queue_delete(struct queue_txn *t, struct str key); /* even if another call created the key */

/* `revision`: of queue_enter()'s response. False: the response is malformed. */
bool queue_entered(const Etcdserverpb__TxnResponse *answer, uint64_t revision,
                   struct queue_entry *ret_entry);
#endif
