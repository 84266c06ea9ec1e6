/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of the store objects of one name: records and leases under one mutex.
 *
 *   memory.c    open and close, the step around each call, watches, the thread that ends leases
 *   records.c   records and leases, as prim/change.h wants them
 *
 * The mutex is recursive. A call holds it from its first read to its last write, so that each call
 * is one step and no turn of prim/change.c is lost. Before its first read the call ends every lease
 * whose time is up: no call finds an entry whose lease is over.
 *
 * One counter numbers every change of the store: revisions of different keys compare. */
#ifndef PRIM_MEMORY_SHARED_H
#define PRIM_MEMORY_SHARED_H
#include "base/heap.h"
#include "base/list.h"
#include "base/order.h"
#include "prim/change.h"
#include "prim/thread.h"

struct memory_limits {
    size_t entries; /* entries and groups; past them UNAVAILABLE/quota */
    uint64_t bytes; /* of their values */
};
struct memory_lease {
    struct heap_node due; /* in shared.deadlines */
    int64_t ttl_ms, deadline_ns;
    struct list records; /* in the order in which they joined; never empty */
};
struct memory_record {              /* a live entry, or the memory of one that is gone */
    enum prim_seen_kind kind;       /* LIVE, TOMBSTONE or EXPIRED */
    struct claim_envelope envelope; /* its strings are in `bytes` */
    char *bytes;
    uint64_t revision, create_revision, token;
    struct memory_lease *lease; /* NULL: not leased */
    struct list link;           /* in the lease's records; when gone, in shared.gone */
    int64_t rests_until_ns;     /* a slot that expired: nobody takes it before */
    struct str key;
    struct order_key place; /* bucket and leaf of the key */
    char key_bytes[];
};
struct memory_shared {
    struct list link; /* among the named ones */
    char *name;       /* NULL: nobody else opens it */
    size_t users;
    pthread_mutex_t mutex;
    uint32_t depth;      /* how often its owner holds the mutex */
    pthread_cond_t wake; /* the thread: an earlier deadline, or the end */
    pthread_t thread;
    bool running, closing;
    int64_t sleeping_until_ns; /* what the thread waits for */
    struct prim_clock clock;
    coord_id id;
    struct list watches;
    /* records.c */
    int64_t now_ns; /* of the present step; never runs back */
    struct memory_limits limits;
    struct order records;
    struct order_kind order_kind;
    struct heap deadlines; /* memory_lease.due */
    struct list gone;      /* records of entries that are gone, the oldest first */
    size_t count, gone_count;
    uint64_t bytes, order_bytes, revision;
};
struct memory { /* one store object */
    struct prim_backend backend;
    struct memory_shared *shared;
};
static inline struct memory_shared *memory_shared_of(struct prim_backend *backend)
{
    return CONTAINER_OF(backend, struct memory, backend)->shared;
}

/* -- memory.c -- */
coord_result memory_open(const struct prim_open *in, const struct memory_limits *limits,
                         struct prim_backend **ret_backend);
/* The step around a call; calls may be nested. */
void memory_enter(struct memory_shared *shared);
void memory_leave(struct memory_shared *shared);
void memory_publish(struct memory_shared *shared, const struct prim_event *event);

/* -- records.c: inside a step -- */
extern const struct prim_ways memory_ways;
void memory_records_init(struct memory_shared *shared);
void memory_records_deinit(struct memory_shared *shared);
struct memory_record *memory_record_of(const struct memory_shared *shared, struct str key);
void memory_expire(struct memory_shared *shared); /* ends the leases whose time is up */

prim_create_fn memory_create;
prim_renew_fn memory_renew;
prim_release_fn memory_release;
prim_adopt_fn memory_adopt;
#endif
