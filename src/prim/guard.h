/* SPDX-License-Identifier: Apache-2.0 */
/* Watches the keys of kept claims from the revision of their grant. A holder learns without waiting
 * for its next renewal that a key was deleted, expired or taken over (O3). A guard that cannot be
 * opened does not reduce safety, because every renewal checks the store.
 *
 * Each key has its own watch. If watches are expensive, at most `guards_alone` keys of a bucket
 * have their own watch. For more keys the whole bucket is watched. A key joins this watch, unless
 * the watch has passed the revision of the key's grant. */
#ifndef PRIM_GUARD_H
#define PRIM_GUARD_H
#include "prim/backend.h"

struct prim_guards;
struct prim_guard;
/* The backend must have watch and unwatch, which may block. Only renewals check keys beyond
 * guards_max. NULL: out of memory. */
struct prim_guards *prim_guards_open(struct prim_backend *backend);
void prim_guards_close(struct prim_guards *guards); /* `guards` may be NULL */
/* Replaces the keys of *guard; makes *guard if NULL. Never blocks. Any thread. */
void prim_guards_add(struct prim_guards *guards, struct prim_guard **guard,
                     const struct prim_claim *claim);
/* Later changes of the keys are no loss. Sets *guard to NULL. Never blocks. */
void prim_guards_drop(struct prim_guards *guards, struct prim_guard **guard);
#endif
