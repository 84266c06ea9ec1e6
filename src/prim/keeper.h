/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps leases alive: one timer thread that does no I/O (decides, and calls on_lost), and up to
 * KEEPER_WORKERS_MAX threads that renew, so that a renewal that hangs delays nobody else's.
 *
 * What is marked "locked" is called under store->lock. */
#ifndef PRIM_KEEPER_H
#define PRIM_KEEPER_H
#include "prim/lease.h"

enum { KEEPER_WORKERS_MAX = 16 };

/* Locked. The store says that the lease is over: told to its holder when it is kept. */
void prim_keeper_lost(coord_lease *lease, int reason, uint64_t token);
/* Locked. Something may have happened to it: renew at once. */
void prim_keeper_ask(coord_lease *lease);
/* Locked. Somebody else's renewal was answered. */
void prim_keeper_renewed(coord_lease *lease, int64_t sent_ns);
/* Locked. No renewal, no on_lost begins after it. True: tell the backend (unguard). */
bool prim_keeper_forget(coord_lease *lease);
/* Locked. Returns when no on_lost of this lease is running or due, unless the caller is one. */
void prim_keeper_quiet(coord_lease *lease);
/* Locked. The same, but one that is due and not begun is none of the caller's business. */
void prim_keeper_quiet_if_told(coord_lease *lease);
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
