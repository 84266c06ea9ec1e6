/* SPDX-License-Identifier: Apache-2.0 */
/* Observed expiry. No clock of the API server takes part: a contender remembers, per object, which
 * (uid, resourceVersion) it saw and when it first saw it, on its own clock. The version changes
 * with every write and never comes back, so the same pair at a later read means that nothing was
 * written in between; a holder whose pair did not change for its duration and a grace is gone.
 *
 * The surprising rule: a contender that has just started waits a full TTL, even for a holder that
 * died long ago. Forgetting a sight (SIGHTS_MAX) only makes it wait again. Not thread safe.
 *
 * Beside a sight is the object of a lease of our own, so that a renewal needs no read. */
#ifndef PRIM_KUBE_SIGHTS_H
#define PRIM_KUBE_SIGHTS_H
#include "base/list.h"
#include "base/map.h"
#include "prim/kube/lease.h"

enum { SIGHTS_MAX = 16384 };

struct sights {
    struct map by_key;
    struct list by_age; /* the longest not looked at is first */
};
void kube_sights_init(struct sights *sights, uint64_t seed);
void kube_sights_deinit(struct sights *sights);

/* A read or an answered write of ours showed this. `sent_ns` before the request left, `got_ns` when
 * the answer was here: an interval counts from the end of the first to the beginning of the last.
 * Without memory nothing is noted, which is safe. */
void kube_sights_note(struct sights *sights, struct str key, const struct kube_lease_view *view,
                      int64_t got_ns);
/* A read showed that there is no such object. */
void kube_sights_note_absent(struct sights *sights, struct str key, int64_t got_ns);
bool kube_sights_knows(const struct sights *sights, struct str key); /* it was there, once */
/* How long until the holder counts as gone, as of `at_ns`; 0: it does. */
int64_t kube_sights_left_ms(const struct sights *sights, struct str key,
                            const struct kube_lease_view *view, int64_t at_ns);
/* How long a new object must wait, so that it cannot share its second with one that was deleted. */
int64_t kube_sights_create_wait_ms(const struct sights *sights, struct str key, int64_t at_ns);
/* The object of a lease of ours: take gives it away, when it is of that lease. */
void kube_sights_keep(struct sights *sights, struct str key, struct doc *own_doc);
bool kube_sights_take(struct sights *sights, struct str key, const coord_id *lease_id,
                      struct doc *ret_doc);
int64_t kube_sights_grace_ms(int64_t ttl_ms); /* T6 */
#endif
