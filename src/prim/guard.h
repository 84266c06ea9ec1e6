/* SPDX-License-Identifier: Apache-2.0 */
/* Watches the keys of kept claims from the revision of their grant. A holder thus learns at once
 * that a key was deleted, expired or taken over, instead of at its next renewal (O3).
 *
 * Works with the watch of any backend. A guard that cannot be opened (no memory, no permission, too
 * many keys) does not reduce safety, because every renewal checks the store.
 *
 * Each key has its own watch. If watches are expensive, only `guards_alone` keys of a bucket have
 * their own watch. One more key opens a watch of the whole bucket. Later keys join the bucket's
 * watch if it has not passed the revision of their grant. */
#ifndef PRIM_GUARD_H
#define PRIM_GUARD_H
#include "prim/backend.h"

struct prim_guards;
struct prim_guard; /* the guard of one lease handle */
/* Opens the guards. The backend must have watch and unwatch, which may block. Only renewals check
 * keys beyond the backend's guards_max. Returns NULL if memory ran out. */
struct prim_guards *prim_guards_open(struct prim_backend *backend);
void prim_guards_close(struct prim_guards *guards); /* ends all guards; `guards` may be NULL */
/* Replaces the keys of *guard, or makes *guard if it is NULL. Never blocks. Any thread. */
void prim_guards_add(struct prim_guards *guards, struct prim_guard **guard,
                     const struct prim_claim *claim);
/* Stops guarding: later changes of the keys are no loss. Sets *guard to NULL. Never blocks. */
void prim_guards_drop(struct prim_guards *guards, struct prim_guard **guard);
#endif
