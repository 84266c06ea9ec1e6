/* SPDX-License-Identifier: Apache-2.0 */
/* Safety limits between a decision and its execution, and the quarantine of roll-ups. Pure.
 *
 *   reclaim cap   at most max(1, floor(fraction * Configured)) Reclaims per cluster and cycle.
 *                 Other actions are not capped. The next cycle decides held Reclaims again.
 *                 After a start, Preempts of a cluster that has not reported are capped in the same
 *                 way, because nobody knows yet what the cluster wants.
 *   action limit  at most actions_max actions per cycle, after the reclaim cap.
 *   quarantine    a roll-up that keeps less than a tenth of at least ten rows is held until three
 *                 such roll-ups arrived in a row, each a roll-up interval after the last. So an
 *                 operator that lost sight of its pods does not lose its machines. After a restart
 *                 ten machines that serve the cluster make an empty first roll-up suspicious. */
#ifndef SHARD_DECIDE_RAILS_H
#define SHARD_DECIDE_RAILS_H
#include "shard/decide/decide.h"

struct rails_options {
    double reclaim_fraction; /* part of a cluster's Configured machines; 0: no cap */
    /* After a start: Preempts of clusters that have not reported are capped, too. NULL: these
     * Preempts have no cap. */
    const struct needs *unreported;
    size_t actions_max;   /* per cycle; 0: no limit */
    const bool *withheld; /* indexed by action: these do not pass; NULL: none */
};
struct rails_passed { /* arrays are in the arena */
    const struct action **actions;
    size_t action_count;
    size_t reclaims_held, preempts_held; /* by the reclaim cap */
    size_t actions_held;                 /* by the action limit */
    size_t reclaims_withheld;            /* by `withheld` */
};
uint64_t rails_reclaim_cap(double fraction, uint64_t configured);
enum err rails_pass(const struct decision *decision, const struct inventory *inventory,
                    const struct rails_options *options, struct arena *arena,
                    struct rails_passed *ret_passed);

enum {
    QUARANTINE_ROWS_MIN = 10,  /* a cluster with fewer rows is never quarantined */
    QUARANTINE_KEPT_PART = 10, /* a roll-up is suspicious if less than one row in this many stays */
    QUARANTINE_CONFIRMATIONS = 3,
    QUARANTINE_APART_MS = 9 * 1000, /* operators send a roll-up every 10 s */
};
struct quarantine { /* of one cluster; zeroed: the cluster has not reported */
    uint32_t accepted_rows, holds;
    bool accepted;     /* a roll-up was accepted */
    mono_time counted; /* when `holds` increased */
};
enum quarantine_verdict {
    QUARANTINE_ACCEPTED,  /* use the new rows */
    QUARANTINE_HELD,      /* keep the old rows, but call needs_mark_reported() */
    QUARANTINE_CONFIRMED, /* use the new rows: enough suspicious roll-ups arrived in a row */
};
/* `serving`: number of machines that serve the cluster. */
enum quarantine_verdict quarantine_admit(struct quarantine *q, uint32_t rows, uint32_t serving,
                                         mono_time now);
#endif
