/* SPDX-License-Identifier: Apache-2.0 */
/* What keeps a right decision from being carried out too fast, and a wrong roll-up from counting
 * at once. The rails change how quickly an answer reaches the world, never the answer.
 *
 * Pure; every function is over (decision, history, now) and keeps nothing but what it is given.
 *
 *   reclaim cap   per cluster and cycle at most max(1, floor(fraction x Configured)) Reclaims pass,
 *                 the head of their order. Nothing else is capped: a Preempt is somebody's
 *                 priority, the rest only adds. What is held back the next cycle derives again.
 *   action limit  of what passed, the first so many.
 *   quarantine    a roll-up that keeps less than a tenth of a cluster's rows, when there were ten
 *                 or more, counts only when it has been said three times in a row. Meanwhile the
 *                 old rows stay: a real scale-down is late by two roll-ups, an operator that lost
 *                 its pods takes nobody's machines. */
#ifndef SHARD_DECIDE_RAILS_H
#define SHARD_DECIDE_RAILS_H
#include "shard/decide/decide.h"

struct rails_options {
    double reclaim_fraction; /* 0: no cap; the shard's default is 0.05 */
    size_t actions_max;      /* 0: no limit */
};
struct rails_passed { /* in the arena */
    const struct action **actions;
    size_t action_count;
    size_t reclaims_held, actions_held; /* by the cap, by the limit */
};
/* At most this many Reclaims of a cluster with so many Configured machines. */
uint64_t rails_reclaim_cap(double fraction, uint64_t configured);
/* ERR_NOMEM. */
enum err rails_pass(const struct decision *decision, const struct inventory *inventory,
                    const struct rails_options *options, struct arena *arena,
                    struct rails_passed *ret_passed);

enum {
    QUARANTINE_ROWS_MIN = 10,  /* fewer rows than this and any change is taken */
    QUARANTINE_KEPT_PART = 10, /* suspicious: less than one in this many kept */
    QUARANTINE_CONFIRMATIONS = 3,
};
struct quarantine { /* of one cluster; zeroed: it has not reported */
    uint32_t accepted_rows, holds;
};
enum quarantine_verdict {
    QUARANTINE_ACCEPTED, /* take it */
    QUARANTINE_HELD,     /* keep the old rows; it has reported all the same (needs_mark_reported) */
    QUARANTINE_CONFIRMED, /* take it: said often enough */
};
enum quarantine_verdict quarantine_admit(struct quarantine *q, uint32_t rows);
#endif
