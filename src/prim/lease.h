/* SPDX-License-Identifier: Apache-2.0 */
/* A lease handle is reference counted, usable from many threads, and final once the lease is over.
 *
 * The keys of a lease are an immutable set that is replaced as a whole. A renewal under way thus
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
    struct prim_held held[]; /* each key is a separate allocation that the set owns */
};

struct coord_lease {
    /* coord_check reads the following fields. safe_until_ns is INT64_MIN if the lease is over. */
    _Atomic int64_t safe_until_ns;
    int64_t (*now)(void *arg);
    void *now_arg;
    unsigned generation;

    atomic_uint refs;   /* references of the caller */
    coord_store *store; /* referenced */
    coord_id id;
    char owner[PRIM_OWNER_MAX + 1];
    int64_t ttl_ms;
    uint64_t token; /* token of the lease's first key */
    uint32_t slot;

    /* Guarded by store->lock. */
    struct list node;
    unsigned pins; /* the keeper's references, which keep the memory allocated */
    bool gone;     /* the caller's last reference was dropped */
    struct held_set *set;
    int64_t sent_ns;     /* when the newest answered renewal was sent; determines safe_until */
    int over;            /* why the lease is over; 0 while it lives; never changed once set */
    uint64_t over_token; /* token of the present holder, if the store returned it */
    bool release_done;
    uint32_t changes; /* number of changes of the key set; a request from before may get EXPIRED */

    /* Guarded by store->lock; used by the keeper. */
    bool kept, guarded, job_queued;
    struct prim_guard *guard; /* used only by guard.c, under guard.c's lock */
    bool unreported;          /* the lease is lost, and on_lost has not returned yet */
    struct keeper_core core;
    struct heap_node timer;
    struct list due; /* a node of keeper->jobs or keeper->losses */
    int64_t attempt_until_ns;
    coord_lost_fn on_lost;
    void *on_lost_arg;
};

/* Reserves one of the store's leases before a grant request. INVALID/argument if all are in use. */
coord_result prim_lease_reserve(coord_store *store);
void prim_lease_unreserve(coord_store *store);
/* Makes a handle and uses up the reservation. Returns NULL and keeps the reservation if memory ran
 * out. `sent_ns` is the time before the granting request was sent. */
coord_lease *prim_lease_make(coord_store *store, const struct prim_claim *claim, int64_t sent_ns);

/* The keeper's reference to the memory, under store->lock. Dropping the caller's last reference
 * thus ends the keeping even if a renewal hangs. prim_lease_pin returns false if no caller
 * reference is left. prim_lease_unpin returns true if the memory must be freed, without the
 * lock. */
bool prim_lease_pin(coord_lease *lease);
bool prim_lease_unpin(coord_lease *lease);
void prim_lease_free(coord_lease *lease);

/* A view of the keys for one backend call; release it afterwards. */
struct held_lease_view {
    struct prim_claim claim;
    struct held_set *set;
    uint32_t changes;
};
void prim_lease_view(coord_lease *lease, struct held_lease_view *ret_view);
void prim_lease_view_locked(coord_lease *lease, struct held_lease_view *ret_view);
void prim_lease_view_done(struct held_lease_view *view);

coord_result prim_lease_expired(int reason, uint64_t token);
/* Ends the lease; the first reason stays. Under store->lock. Returns true if it was alive. */
bool prim_lease_end(coord_lease *lease, int reason, uint64_t token);
/* Moves safe_until forward unless the lease is over. Under store->lock. */
void prim_lease_extend(coord_lease *lease, int64_t sent_ns);
int64_t prim_safe_until(int64_t sent_ns, int64_t ttl_ms);
/* Adds or drops a key. Returns false without changes if out of memory. Under store->lock. */
bool prim_lease_add_key(coord_lease *lease, const struct prim_held *like);
void prim_lease_drop_key(coord_lease *lease, struct str key);
/* Checks that a call on `store` may use the handle, else INVALID/handle, /other_store, EXPIRED. */
coord_result prim_lease_check_use(coord_store *store, coord_lease *lease);

/* -- keeper.c -- */
/* Keeps leases alive. One timer thread decides and calls on_lost, but does no I/O. Up to
 * KEEPER_WORKERS_MAX threads renew, so that a renewal that hangs does not delay other renewals.
 *
 * Functions marked "locked" are called under store->lock. */
enum { KEEPER_WORKERS_MAX = 16 };

/* Locked. The store reported that the lease is over. Notifies the holder of a kept lease. */
void prim_keeper_lost(coord_lease *lease, int reason, uint64_t token);
/* Locked. Passes an event to keeper_core.h if the lease is kept. KEEPER_ASK: the lease may have
 * changed, so renew at once. KEEPER_RENEWED: a renewal of another thread was answered. */
void prim_keeper_hear(coord_lease *lease, struct keeper_event event);
/* Locked. Ends keeping: no renewal or on_lost begins. True if the caller must drop the guard. */
bool prim_keeper_forget(coord_lease *lease);
/* Locked. Waits until no on_lost of this lease is running or due, unless called from on_lost. */
void prim_keeper_quiet(coord_lease *lease);
/* Locked. Waits for a running on_lost only, not for an on_lost that is due. */
void prim_keeper_quiet_if_running(coord_lease *lease);
/* Updates the guard after the keys of the lease changed. Not locked; inside a call. */
void prim_keeper_reguard(coord_lease *lease);
/* Makes pending on_lost calls, then ends and joins the threads. Not locked. */
void prim_keeper_stop(coord_store *store);

/* -- lease_calls.c: renew and give up a lease; not locked, inside a call -- */
coord_result prim_renew_now(coord_lease *lease, struct prim_frame *frame);
/* Handles EXPIRED for a request that was made when lease->changes was `changes`. */
void prim_lease_refused(coord_lease *lease, const coord_result *result, uint32_t changes);
/* Called before and after a key leaves the lease by delete or compare-and-set. */
void prim_lease_will_drop(coord_lease *lease);
void prim_lease_dropped(coord_lease *lease, struct str key);
#endif
