/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps leases alive: one timer thread that does no I/O (decides, and calls on_lost), and up to
 * KEEPER_WORKERS_MAX threads that renew, so that a renewal that hangs delays nobody else's.
 *
 * Functions marked "locked" are called under store->lock. */
#ifndef PRIM_KEEPER_H
#define PRIM_KEEPER_H
#include "prim/lease.h"

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
