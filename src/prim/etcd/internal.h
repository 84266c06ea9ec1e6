/* SPDX-License-Identifier: Apache-2.0 */
/* Shared declarations of the etcd backend.
 *
 *   client.c   the thread and request headers         request.c  transactions and other calls
 *   reply.c    decoding of etcd's answers             backend.c  open, capabilities, close
 *   lease.c    leases and the claims under them       entries.c  keys and groups by prim/change.h
 *   feed.c     watches, also those of prim/guard.h
 *
 * A key is "muster/" + prefix + key with an envelope; with raw=1, prefix + key with the plain
 * value. Revision = mod_revision; token = revision of the granting transaction; store id =
 * cluster id and prefix. A restored backup needs a new --initial-cluster-token, so that the
 * store id changes (R5). */
#ifndef PRIM_ETCD_INTERNAL_H
#define PRIM_ETCD_INTERNAL_H
#include "prim/etcd/reply.h"
#include "prim/names.h"

enum {
    ETCD_TTL_MIN_MS = 2000, /* 1.5 election timeouts (default 1 s), rounded up */
    ETCD_REVOKE_AFTER_MS = 1000,
    ETCD_REVOKES_MAX = 8192, /* waiting revocations; further leases expire */
};

struct etcd_revokes { /* of lease.c; loop's thread */
    struct list waiting;
    size_t count;
    bool draining; /* closing waits with `drained` for the last revocation */
    struct latch drained;
};

struct etcd_backend {
    struct prim_backend base;
    struct etcd_client client;
    struct etcd_space space;
    uint64_t cluster_id;
    coord_caps caps;
    struct etcd_revokes revokes;
};
static inline struct etcd_backend *etcd_of(struct prim_backend *base)
{
    return CONTAINER_OF(base, struct etcd_backend, base);
}

/* -- request.c over client.c -- */
/* A transaction of the table in coordination.md B3, encoded in pieces in any order.
 * Out-of-memory is reported at sending. */
enum { ETCD_TXN_KEYS = 16 }; /* keys per transaction; servers allow 128 by default */
struct etcd_txn {
    struct buf request, op, body; /* op, body: buffers of the element being encoded */
    enum err err;
    bool reads_only;
    int64_t revision_floor; /* highest compared mod revision; a change gets a larger one */
};
void etcd_txn_init(struct etcd_txn *txn);
void etcd_txn_deinit(struct etcd_txn *txn);

enum etcd_target {
    ETCD_CREATED = ETCDSERVERPB__COMPARE__COMPARE_TARGET__CREATE,
    ETCD_MODIFIED = ETCDSERVERPB__COMPARE__COMPARE_TARGET__MOD,
    ETCD_LEASED = ETCDSERVERPB__COMPARE__COMPARE_TARGET__LEASE,
};
/* `number` 0 means absent or not leased. */
void etcd_if(struct etcd_txn *txn, struct str key, enum etcd_target target, int64_t number);
enum { ETCD_SAME_LEASE = -1 };
void etcd_put(struct etcd_txn *txn, struct str key, struct str value, int64_t lease);
void etcd_delete(struct etcd_txn *txn, struct str key);
/* An empty `end` means one key. `otherwise`: only if a compare fails. */
void etcd_range(struct etcd_txn *txn, bool otherwise, struct str from, struct str end);

struct etcd_ask {
    const char *path;
    const ProtobufCMessage *request; /* or: */
    const struct etcd_txn *txn;
    const ProtobufCMessageDescriptor *type;
    bool writes; /* a lost answer leaves the outcome in doubt */
    bool hurried;
};
/* Makes a call and waits. OK: *ret_message is in `arena`. The caller always closes `arena`. */
coord_result etcd_ask(struct etcd_backend *b, int64_t deadline_ns, const struct etcd_ask *ask,
                      struct arena *arena, ProtobufCMessage **ret_message);
/* OK: *ret_response is in `arena`. The caller always closes `arena`. */
coord_result etcd_txn_run(struct etcd_backend *b, const struct prim_call *call,
                          const struct etcd_txn *txn, struct arena *arena,
                          Etcdserverpb__TxnResponse **ret_response);
/* Linearizable unless `stale`. *ret_seen is LIVE or NOTHING. */
coord_result etcd_read(struct etcd_backend *b, const struct prim_call *call, struct str key,
                       bool stale, struct arena *arena, struct prim_seen *ret_seen);
bool etcd_header_fits(struct etcd_backend *b, const Etcdserverpb__ResponseHeader *header);

/* -- lease.c -- */
/* Grants a lease (ttl_ms rounded up to seconds), or finds an earlier attempt's lease. */
coord_result etcd_lease_obtain(struct etcd_backend *b, const struct prim_call *call,
                               const coord_id *lease_id, int64_t ttl_ms, int64_t *ret_ttl_ms,
                               int64_t *ret_sent_ns);
/* OK with granted_ttl_ms, EXPIRED/deadline or UNAVAILABLE. *ret_sent_ns: a time before the request
 * was sent. */
coord_result etcd_keep_alive(struct etcd_backend *b, int64_t lease, int64_t deadline_ns,
                             int64_t *ret_sent_ns);
/* Revokes the lease after one second, in which a watch can distinguish a release from an expiry. */
void etcd_lease_revoke(struct etcd_backend *b, int64_t lease);
void etcd_lease_drain(struct etcd_backend *b); /* before close: sends all revocations */
prim_renew_fn etcd_renew;
prim_release_fn etcd_release;
prim_adopt_fn etcd_adopt;

/* -- entries.c: create, delete, get and groups by prim/change.h -- */
extern const struct prim_ways etcd_ways;
prim_cas_fn etcd_cas;

/* -- feed.c -- */
prim_watch_fn etcd_watch;
void etcd_unwatch(struct prim_backend *base, void *watch);
#endif
