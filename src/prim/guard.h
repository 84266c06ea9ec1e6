/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of kept claims, watched from the revision of their grant on, so that a holder learns at
 * once that a key was deleted, expired or taken over, and not at its next renewal (O3).
 *
 * Works over the watch of any backend. A guard that cannot be kept up (no memory, no permission,
 * too many keys) is no loss of safety: every renewal asks the store.
 *
 * Each key has a watch of its own. Where watches are dear, the next key of a bucket that has
 * `guards_alone` of them has the whole bucket watched, and later keys join that watch as long as it
 * has not gone past their grant. */
#ifndef PRIM_GUARD_H
#define PRIM_GUARD_H
#include "prim/backend.h"

struct prim_guards;
struct prim_guard; /* of one lease handle */
/* The backend has watch and unwatch, which may block. Keys past its guards_max are left to
 * renewals. NULL: no memory. */
struct prim_guards *prim_guards_open(struct prim_backend *backend);
void prim_guards_close(struct prim_guards *guards); /* NULL is fine; ends every watch and guard */
/* Replaces the keys of *guard; NULL: none yet. Both return at once, from any thread. */
void prim_guards_add(struct prim_guards *guards, struct prim_guard **guard,
                     const struct prim_claim *claim);
/* Changes of those keys are no loss from now on; *guard is NULL then. */
void prim_guards_drop(struct prim_guards *guards, struct prim_guard **guard);
#endif
