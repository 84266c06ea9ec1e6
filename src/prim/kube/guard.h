/* SPDX-License-Identifier: Apache-2.0 */
/* Hears what others do to the objects of kept claims, so that a claim taken by hand is told soon
 * and not at the next renewal (O3). A watch for each key, 64 at most; the rest is found by
 * renewals. */
#ifndef PRIM_KUBE_GUARD_H
#define PRIM_KUBE_GUARD_H
#include "prim/backend.h"

enum { KUBE_GUARDS_MAX = 64 };
struct kube_guards;
struct kube_guards *kube_guards_open(struct prim_backend *backend, struct prim_host *host);
void kube_guards_close(struct kube_guards *guards); /* NULL is fine */
void kube_guards_add(struct kube_guards *guards, const struct prim_claim *claim);
void kube_guards_drop(struct kube_guards *guards, const coord_id *lease_id);
#endif
