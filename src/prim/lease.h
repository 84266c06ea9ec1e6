/* SPDX-License-Identifier: Apache-2.0 */
/* A lease handle: counted, usable from many threads, and final once it is over.
 *
 * The keys it holds are an immutable set that is replaced as a whole, so that a renewal under way
 * keeps its own view while another thread adds or drops a key. */
#ifndef PRIM_LEASE_H
#define PRIM_LEASE_H
#include "base/heap.h"
#include "prim/guard.h"
#include "prim/keeper_core.h"
#include "prim/names.h"
#include "prim/store.h"

struct held_set {
    atomic_uint refs;
    size_t count, cap;
    struct prim_held held[]; /* each key is its own allocation, owned here */
};

struct coord_lease {
    /* coord_check reads these, together. INT64_MIN: over. */
    _Atomic int64_t safe_until_ns;
    int64_t (*now)(void *arg);
    void *now_arg;
    unsigned generation;

    atomic_uint refs;   /* the caller's */
    coord_store *store; /* counted */
    coord_id id;
    char owner[PRIM_OWNER_MAX + 1];
    int64_t ttl_ms;
    uint64_t token; /* of the first key */
    uint32_t slot;

    /* Under store->lock. */
    struct list node;
    unsigned pins; /* the keeper needs the memory */
    bool gone;     /* the last reference is given back */
    struct held_set *set;
    int64_t sent_ns;     /* of the newest answer; safe_until follows from it */
    int over;            /* 0, or the reason: final */
    uint64_t over_token; /* of the holder now, when the store said */
    bool release_done;
    uint32_t
        changes; /* keys added or dropped so far: a question from before may be answered "lost" */

    /* Under store->lock; the keeper's. */
    bool kept, guarded, job_queued;
    struct prim_guard *guard; /* of guard.c, under its lock */
    bool unreported;          /* lost, and on_lost has not returned */
    struct keeper_core core;
    struct heap_node timer;
    struct list due; /* in the queue of renewals or of losses */
    int64_t attempt_until_ns;
    coord_lost_fn on_lost;
    void *on_lost_arg;
};

/* A lease slot of the store is taken before the grant is asked for: INVALID/argument when all are
 * in use. */
coord_result prim_lease_reserve(coord_store *store);
void prim_lease_unreserve(coord_store *store);
/* Takes the reservation. NULL: no memory (the reservation stays). `sent_ns`: before the request
 * that granted left. */
coord_lease *prim_lease_make(coord_store *store, const struct prim_claim *claim, int64_t sent_ns);

/* The keeper's own hold, all under store->lock: it keeps the memory and nothing else, so that the
 * caller's last reference ends the keeping though a renewal hangs. pin: false when there is none
 * left. unpin: true when the memory is to be freed, without the lock. */
bool prim_lease_pin(coord_lease *lease);
bool prim_lease_unpin(coord_lease *lease);
void prim_lease_free(coord_lease *lease);

/* A view for one backend call; give it back. */
struct held_lease_view {
    struct prim_claim claim;
    struct held_set *set;
    uint32_t changes;
};
void prim_lease_view(coord_lease *lease, struct held_lease_view *ret_view);
void prim_lease_view_locked(coord_lease *lease, struct held_lease_view *ret_view);
void prim_lease_view_done(struct held_lease_view *view);

coord_result prim_lease_expired(int reason, uint64_t token);
/* The first reason stays. Under store->lock; true when it was alive. */
bool prim_lease_end(coord_lease *lease, int reason, uint64_t token);
/* Moves safe_until forward; nothing when it is over. Under store->lock. */
void prim_lease_extend(coord_lease *lease, int64_t sent_ns);
int64_t prim_safe_until(int64_t sent_ns, int64_t ttl_ms);
/* Adds or drops a key. False: no memory, unchanged. Under store->lock. */
bool prim_lease_add_key(coord_lease *lease, const struct prim_held *like);
void prim_lease_drop_key(coord_lease *lease, struct str key);
/* Is this handle usable for a call on `store`? INVALID/handle, INVALID/other_store, EXPIRED. */
coord_result prim_lease_check_use(coord_store *store, coord_lease *lease);

/* -- keeper.c -- */
/* Keeps leases alive: one timer thread that does no I/O (decides, and calls on_lost), and up to
 * KEEPER_WORKERS_MAX threads that renew, so that a renewal that hangs delays nobody else's.
 *
 * Functions marked "locked" are called under store->lock. */
enum { KEEPER_WORKERS_MAX = 16 };

/* Locked. The store says that the lease is over: reported to its holder when it is kept. */
void prim_keeper_lost(coord_lease *lease, int reason, uint64_t token);
/* Locked. KEEPER_ASK: something may have happened to it, renew at once. KEEPER_RENEWED: another
 * thread's renewal was answered. Nothing when the lease is not kept. */
void prim_keeper_hear(coord_lease *lease, struct keeper_event event);
/* Locked. No renewal, no on_lost begins after it. True: its guard must be dropped. */
bool prim_keeper_forget(coord_lease *lease);
/* Locked. Returns when no on_lost of this lease is running or due, unless the caller is one. */
void prim_keeper_quiet(coord_lease *lease);
/* Locked. The same, but it does not wait for one that is due and has not begun. */
void prim_keeper_quiet_if_running(coord_lease *lease);
/* Its keys have changed. Not locked; inside a call. */
void prim_keeper_reguard(coord_lease *lease);
/* Ends and joins the threads; pending on_lost calls are made first. Not locked. */
void prim_keeper_stop(coord_store *store);

/* -- renewing and giving up, of lease_calls.c; not locked, inside a call -- */
coord_result prim_renew_now(coord_lease *lease, struct prim_frame *frame);
/* A call under the lease was answered EXPIRED. */
void prim_lease_refused(coord_lease *lease, const coord_result *result, uint32_t changes);
/* Before and after a key leaves the lease by delete or compare-and-set. */
void prim_lease_will_drop(coord_lease *lease);
void prim_lease_dropped(coord_lease *lease, struct str key);
#endif
