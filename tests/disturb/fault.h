/* SPDX-License-Identifier: Apache-2.0 */
/* A backend that disturbs another one, as networks do. From the URL (fault+URL):
 *
 *   fault_ops=renew,release   which calls; all when not given. Names: create cas delete get acquire
 *                             resize holders renew release adopt watch
 *   fault_first=N             only the first N of those; 0: all
 *   fault_refuse=P            of a thousand: UNAVAILABLE/connection, nothing was done
 *   fault_lose_request=P      UNAVAILABLE/connection + MAYBE_APPLIED, nothing was done
 *   fault_lose_reply=P        the same answer, but it was done
 *   fault_hang=P              nothing is done, and no answer until the deadline
 *   fault_delay_before=TIME   "20ms": before it is done; and after it, before the answer:
 *   fault_delay_after=TIME
 *   fault_deaf=1              the store never reports to a holder by itself that its claim is gone
 *   fault_seed=N              the same draws again
 *
 * Starving a keeper is fault_ops=renew with a delay. Tests change the rules while it runs. */
#ifndef TESTS_DISTURB_FAULT_H
#define TESTS_DISTURB_FAULT_H
#include "disturb/disturb.h"

enum fault_op {
    FAULT_CREATE,
    FAULT_CAS,
    FAULT_DELETE,
    FAULT_GET,
    FAULT_ACQUIRE,
    FAULT_RESIZE,
    FAULT_HOLDERS,
    FAULT_RENEW,
    FAULT_RELEASE,
    FAULT_ADOPT,
    FAULT_WATCH,
    FAULT_OPS,
};
struct fault_rules {
    uint32_t ops; /* BIT(enum fault_op); 0: all */
    int64_t first;
    int64_t refuse, lose_request, lose_reply, hang; /* of a thousand */
    int64_t delay_before_ms, delay_after_ms;
    int64_t
        deaf; /* not 0: guards are not passed on; as it was made, prim_fault_set changes it not */
};
disturb_wrap_fn prim_fault_wrap;
/* NULL: no memory; `inner` stays the caller's then. */
struct prim_backend *prim_fault_make(struct prim_backend *inner, const struct prim_clock *clock,
                                     const struct fault_rules *rules, uint64_t seed);
void prim_fault_set(struct prim_backend *backend, const struct fault_rules *rules);
#endif
