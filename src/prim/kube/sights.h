/* SPDX-License-Identifier: Apache-2.0 */
/* Observed expiry, without the API server's clock. For each object a contender stores (uid,
 * resourceVersion) and the time on its own clock when it first saw this pair. If the pair does
 * not change for the lease's duration and a grace period, the holder counts as gone. A contender
 * that has just started waits a full TTL.
 *
 * Forgetting a sight (SIGHTS_MAX) only makes the contender wait again. A sight also stores the
 * object of a lease of this process, so that a renewal needs no read. Not thread safe. */
#ifndef PRIM_KUBE_SIGHTS_H
#define PRIM_KUBE_SIGHTS_H
#include "base/list.h"
#include "base/map.h"
#include "prim/kube/lease.h"

enum { SIGHTS_MAX = 16384 };

struct sights {
    struct map by_key;
    struct list by_age; /* by last use, oldest first */
};
void kube_sights_init(struct sights *sights, uint64_t seed);
void kube_sights_deinit(struct sights *sights);

/* Records the state from a read or an answered write. sent_ns is before the request, got_ns
 * after the answer. An interval counts from the end of the first request to the start of the
 * last. Without memory nothing is recorded, which is safe. */
void kube_sights_note(struct sights *sights, struct str key, const struct kube_lease_view *view,
                      int64_t got_ns);
/* Records that a read found no object. */
void kube_sights_note_absent(struct sights *sights, struct str key, int64_t got_ns);
bool kube_sights_knows(const struct sights *sights, struct str key);
/* Returns the time from at_ns until the holder counts as gone; 0: gone. */
int64_t kube_sights_left_ms(const struct sights *sights, struct str key,
                            const struct kube_lease_view *view, int64_t at_ns);
/* Returns how long to wait, so that a new object does not get the creation second of a deleted
 * object. */
int64_t kube_sights_create_wait_ms(const struct sights *sights, struct str key, int64_t at_ns);
/* Stores the object of a lease of this process. kube_sights_take returns the object if it
 * belongs to the given lease. */
void kube_sights_keep(struct sights *sights, struct str key, struct doc *own_doc);
bool kube_sights_take(struct sights *sights, struct str key, const coord_id *lease_id,
                      struct doc *ret_doc);
int64_t kube_sights_grace_ms(int64_t ttl_ms); /* T6 */
#endif
