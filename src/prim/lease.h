/* SPDX-License-Identifier: Apache-2.0 */
/* A lease handle: reference counted, usable from many threads, final once the lease is over. Its
 * keys are an immutable set that is replaced as a whole, so that a renewal keeps its view while
 * another thread adds or drops a key. */
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
    struct prim_held held[]; /* each key is an allocation that the set owns */
};

struct coord_lease {
    /* Read by coord_check. safe_until_ns is INT64_MIN if the lease is over. */
    _Atomic int64_t safe_until_ns;
    int64_t (*now)(void *arg);
    void *now_arg;
    unsigned generation;

    atomic_uint refs;
    coord_store *store; /* referenced */
    coord_id id;
    char owner[PRIM_OWNER_MAX + 1];
    int64_t ttl_ms;
    uint64_t token; /* of the first key */
    uint32_t slot;

    /* Guarded by store->lock. */
    struct list node;
    unsigned pins; /* the keeper's references, which keep the memory */
    bool gone;     /* the caller's last reference was dropped */
    struct held_set *set;
    int64_t sent_ns;     /* newest answered renewal; determines safe_until */
    int over;            /* why the lease is over; 0: alive; final once set */
    uint64_t over_token; /* of the present holder, if known */
    bool release_done;
    uint32_t changes; /* counts key set changes; an older request may get EXPIRED */

    /* Guarded by store->lock; used by the keeper. */
    bool kept, guarded, job_queued;
    struct prim_guard *guard; /* used by guard.c, under its lock */
    bool unreported;          /* lost, and on_lost has not returned yet */
    struct keeper_core core;
    struct heap_node timer;
    struct list due; /* in keeper->jobs or keeper->losses */
    int64_t attempt_until_ns;
    coord_lost_fn on_lost;
    void *on_lost_arg;
};

/* Reserves one of the store's leases before a grant request. INVALID/argument: all are in use. */
coord_result prim_lease_reserve(coord_store *store);
void prim_lease_unreserve(coord_store *store);
/* Makes a handle and uses up the reservation. NULL: out of memory, and the reservation stays.
 * sent_ns: before the granting request was sent. */
coord_lease *prim_lease_make(coord_store *store, const struct prim_claim *claim, int64_t sent_ns);

/* A pin keeps the memory for the keeper, but does not keep the lease alive after the caller's
 * last reference. Under store->lock. prim_lease_pin: false if no caller reference is left.
 * prim_lease_unpin: true if the memory must be freed, without the lock. */
bool prim_lease_pin(coord_lease *lease);
bool prim_lease_unpin(coord_lease *lease);
void prim_lease_free(coord_lease *lease);

/* The keys for one backend call. Release the view after the call. */
struct held_lease_view {
    struct prim_claim claim;
    struct held_set *set;
    uint32_t changes;
};
void prim_lease_view(coord_lease *lease, struct held_lease_view *ret_view);
void prim_lease_view_locked(coord_lease *lease, struct held_lease_view *ret_view);
void prim_lease_view_done(struct held_lease_view *view);

coord_result prim_lease_expired(int reason, uint64_t token);
/* The first reason stays. Under store->lock. True: the lease was alive. */
bool prim_lease_end(coord_lease *lease, int reason, uint64_t token);
/* Moves safe_until forward unless the lease is over. Under store->lock. */
void prim_lease_extend(coord_lease *lease, int64_t sent_ns);
int64_t prim_safe_until(int64_t sent_ns, int64_t ttl_ms);
/* False: out of memory, without changes. Under store->lock. */
bool prim_lease_add_key(coord_lease *lease, const struct prim_held *like);
void prim_lease_drop_key(coord_lease *lease, struct str key);
/* May a call on `store` use the handle? Else INVALID/handle, /other_store, EXPIRED. */
coord_result prim_lease_check_use(coord_store *store, coord_lease *lease);

/* -- keeper.c -- */
/* Keeps leases alive. One timer thread decides and calls on_lost, but does no I/O. Up to
 * KEEPER_WORKERS_MAX threads renew, so that a hanging renewal does not delay others.
 *
 * "Locked": under store->lock. */
enum { KEEPER_WORKERS_MAX = 16 };

/* Locked. The lease is over: notifies the holder of a kept lease. */
void prim_keeper_lost(coord_lease *lease, int reason, uint64_t token);
/* Locked. Passes an event to keeper_core.h if the lease is kept. KEEPER_ASK: renew now, because the
 * lease may have changed. KEEPER_RENEWED: another thread's renewal was answered. */
void prim_keeper_hear(coord_lease *lease, struct keeper_event event);
/* Locked. No renewal or on_lost begins any more. True: the caller must drop the guard. */
bool prim_keeper_forget(coord_lease *lease);
/* Locked. Waits until no on_lost of this lease is running or due, unless called from on_lost. */
void prim_keeper_quiet(coord_lease *lease);
/* Locked. Waits for a running on_lost, but not for an on_lost that is due. */
void prim_keeper_quiet_if_running(coord_lease *lease);
/* Call after the keys of the lease changed. Not locked; inside a call. */
void prim_keeper_reguard(coord_lease *lease);
/* Makes pending on_lost calls, then joins the threads. Not locked. */
void prim_keeper_stop(coord_store *store);

/* -- lease_calls.c: renew and give up a lease; not locked, inside a call -- */
coord_result prim_renew_now(coord_lease *lease, struct prim_frame *frame);
/* Handles EXPIRED for a request that was made when lease->changes was `changes`. */
void prim_lease_refused(coord_lease *lease, const coord_result *result, uint32_t changes);
/* Call before and after a key leaves the lease by delete or compare-and-set. */
void prim_lease_will_drop(coord_lease *lease);
void prim_lease_dropped(coord_lease *lease, struct str key);
#endif
