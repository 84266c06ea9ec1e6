/* SPDX-License-Identifier: Apache-2.0 */
/* The data of all mem: store objects with one name: records and leases under one mutex.
 *
 *   memory.c    open and close, the step around each call, watches, the thread that ends leases
 *   records.c   records and leases in the form that prim/change.h needs
 *
 * The mutex is recursive. A call holds the mutex from its first read to its last write, so each
 * call is atomic. Each call first ends every expired lease. One counter numbers all changes of
 * the store, so revisions of different keys can be compared. */
#ifndef PRIM_MEMORY_SHARED_H
#define PRIM_MEMORY_SHARED_H
#include "base/heap.h"
#include "base/list.h"
#include "base/order.h"
#include "prim/change.h"
#include "prim/thread.h"

struct memory_limits {
    size_t entries; /* entries and groups; beyond it UNAVAILABLE/quota */
    uint64_t bytes;
};
struct memory_lease {
    struct heap_node due;
    int64_t ttl_ms, deadline_ns;
    struct list records; /* in the order of joining; never empty */
};
struct memory_record { /* a live entry, or the remains of an ended entry */
    enum prim_seen_kind kind;
    struct claim_envelope envelope; /* strings in `bytes` */
    char *bytes;
    uint64_t revision, create_revision, token;
    struct memory_lease *lease; /* NULL: not leased */
    struct list link;           /* in lease->records, or in shared.gone without a live entry */
    int64_t rests_until_ns;     /* time before which an expired slot must not be taken */
    struct str key;
    struct order_key place;
    char key_bytes[];
};
struct memory_shared {
    struct list link;
    char *name; /* NULL: not shared by name */
    size_t users;
    pthread_mutex_t mutex;
    uint32_t depth;
    pthread_cond_t wake; /* wakes the thread for an earlier deadline, or to end */
    pthread_t thread;
    bool running, closing;
    int64_t sleeping_until_ns; /* end of the thread's present sleep */
    struct prim_clock clock;
    coord_id id;
    struct list watches;
    /* Used by records.c. */
    int64_t now_ns; /* time of the present step; never decreases */
    struct memory_limits limits;
    struct order records;
    struct order_kind order_kind;
    struct heap deadlines;
    struct list gone; /* records without a live entry, oldest first */
    size_t count, gone_count;
    uint64_t bytes, order_bytes, revision;
};
struct memory {
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
/* The step around a call. Steps may be nested. */
void memory_enter(struct memory_shared *shared);
void memory_leave(struct memory_shared *shared);
void memory_publish(struct memory_shared *shared, const struct prim_event *event);

/* -- records.c: inside a step -- */
extern const struct prim_ways memory_ways;
void memory_records_init(struct memory_shared *shared);
void memory_records_deinit(struct memory_shared *shared);
struct memory_record *memory_record_of(const struct memory_shared *shared, struct str key);
void memory_expire(struct memory_shared *shared);

prim_create_fn memory_create;
prim_renew_fn memory_renew;
prim_release_fn memory_release;
prim_adopt_fn memory_adopt;
#endif
