/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share.
 *
 *   client.c   the thread, and what requests carry    request.c  transactions and other calls
 *   reply.c    what etcd answers, in our words        backend.c  open, capabilities, close
 *   lease.c    leases and the claims under them       entries.c  keys and groups by prim/change.h
 *   feed.c     a watch, also of prim/guard.h
 *
 * A key is "muster/" + prefix + key and its value an envelope; with raw=1 prefix + key and the bare
 * value. Revision = mod_revision; token = revision of the granting transaction; store id = the
 * cluster's id and the prefix. A restored backup needs a new --initial-cluster-token, so that the
 * id changes (R5): handles from before the restore are refused then. */
#ifndef PRIM_ETCD_INTERNAL_H
#define PRIM_ETCD_INTERNAL_H
#include "prim/etcd/reply.h"
#include "prim/names.h"

enum {
    ETCD_TTL_MIN_MS = 2000, /* 1.5 election timeouts, which are 1 s unless configured */
    ETCD_REVOKE_AFTER_MS = 1000,
    ETCD_REVOKES_MAX = 8192, /* waiting; past it a lease is left to its deadline */
};

struct etcd_revokes { /* lease.c: loop thread */
    struct list waiting;
    size_t count;  /* these, and those that are under way */
    bool draining; /* the store closes and waits for the last: */
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
/* A transaction of the table in coordination.md B3, encoded piece by piece. The order of the pieces
 * does not matter: each is an element of a list of TxnRequest. Lack of memory is reported when the
 * transaction is sent. */
enum { ETCD_TXN_KEYS = 16 }; /* in one transaction; servers allow 128 unless configured otherwise */
struct etcd_txn {
    struct buf request, op, body; /* the last two are of the element that is being encoded */
    enum err err;
    bool reads_only;        /* the transaction changes nothing */
    int64_t revision_floor; /* a change gets a larger revision than those that were compared */
};
void etcd_txn_init(struct etcd_txn *txn);
void etcd_txn_deinit(struct etcd_txn *txn);

/* of Compare */
enum etcd_target {
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

struct etcd_ask {
    const char *path;
    const ProtobufCMessage *request; /* or: */
    const struct etcd_txn *txn;
    const ProtobufCMessageDescriptor *type; /* of the answer */
    bool writes;                            /* a repeat would do harm; doubt is worth saying */
    bool hurried;
};
/* One call, waited for. OK: *ret_message is in `arena`, which the caller closes in any case. */
coord_result etcd_ask(struct etcd_backend *b, int64_t deadline_ns, const struct etcd_ask *ask,
                      struct arena *arena, ProtobufCMessage **ret_message);
/* OK: *ret_response is set, in `arena`, which the caller closes in any case. */
coord_result etcd_txn_run(struct etcd_backend *b, const struct prim_call *call,
                          const struct etcd_txn *txn, struct arena *arena,
                          Etcdserverpb__TxnResponse **ret_response);
/* One linearizable read of one key, LIVE or NOTHING. */
coord_result etcd_read(struct etcd_backend *b, const struct prim_call *call, struct str key,
                       bool stale, struct arena *arena, struct prim_seen *ret_seen);
bool etcd_header_fits(struct etcd_backend *b, const Etcdserverpb__ResponseHeader *header);

/* -- lease.c -- */
/* A lease of exactly `ttl_ms` rounded up to seconds, new or found as an earlier attempt left it. */
coord_result etcd_lease_obtain(struct etcd_backend *b, const struct prim_call *call,
                               const coord_id *lease_id, int64_t ttl_ms, int64_t *ret_ttl_ms,
                               int64_t *ret_sent_ns);
/* OK with granted_ttl_ms, EXPIRED/deadline, UNAVAILABLE. *ret_sent_ns: before the request left. */
coord_result etcd_keep_alive(struct etcd_backend *b, int64_t lease, int64_t deadline_ns,
                             int64_t *ret_sent_ns);
/* In a second, so that a watch can distinguish a release (the lease is still there) from an
 * expiry. */
void etcd_lease_revoke(struct etcd_backend *b, int64_t lease);
void etcd_lease_drain(struct etcd_backend *b); /* before close */
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
