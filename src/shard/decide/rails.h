/* SPDX-License-Identifier: Apache-2.0 */
/* Safety limits: they limit how fast decisions take effect, and delay a roll-up that is probably
 * wrong. They never change a decision.
 *
 * Pure: each function computes from (decision, history, now) and keeps no other state.
 *
 *   reclaim cap   per cluster and cycle at most max(1, floor(fraction x Configured)) Reclaims pass,
 *                 in their order. Other actions are not capped: a Preempt serves a higher priority,
 *                 the rest only adds machines. The next cycle decides held Reclaims again.
 *   action limit  of the actions that passed the cap, the first actions_max pass.
 *   quarantine    if a cluster had at least ten rows and a roll-up keeps less than a tenth of them,
 *                 the roll-up counts only after three such roll-ups in a row. Until then the old
 *                 rows stay. A real scale-down is delayed by two roll-ups; an operator that lost
 *                 its pods does not lose its machines. */
#ifndef SHARD_DECIDE_RAILS_H
#define SHARD_DECIDE_RAILS_H
#include "shard/decide/decide.h"

struct rails_options {
    double reclaim_fraction; /* of a cluster's Configured machines; 0: no cap; by default 0.05 */
    size_t actions_max;      /* in one cycle; 0: no limit */
};
struct rails_passed { /* what passed; the arrays are in the arena */
    const struct action **actions;
    size_t action_count;
    size_t reclaims_held, actions_held; /* held by the reclaim cap, and by the action limit */
};
/* Returns how many Reclaims may pass for a cluster with `configured` Configured machines. */
uint64_t rails_reclaim_cap(double fraction, uint64_t configured);
/* Returns ERR_NOMEM. */
enum err rails_pass(const struct decision *decision, const struct inventory *inventory,
                    const struct rails_options *options, struct arena *arena,
                    struct rails_passed *ret_passed);

enum {
    QUARANTINE_ROWS_MIN = 10,  /* with fewer rows any change is accepted */
    QUARANTINE_KEPT_PART = 10, /* suspicious: the roll-up keeps less than one row in this many */
    QUARANTINE_CONFIRMATIONS = 3,
};
struct quarantine { /* state of one cluster; all zero: the cluster has not reported */
    uint32_t accepted_rows, holds;
};
enum quarantine_verdict {
    QUARANTINE_ACCEPTED,  /* use the new rows */
    QUARANTINE_HELD,      /* keep the old rows; the cluster has reported (needs_mark_reported) */
    QUARANTINE_CONFIRMED, /* use the new rows, because the roll-up was repeated often enough */
};
enum quarantine_verdict quarantine_admit(struct quarantine *q, uint32_t rows);
#endif
