/* SPDX-License-Identifier: Apache-2.0 */
/* The failure detector: decides which workers have been silent for too long. Pure; leader only.
 *
 * A worker states with each heartbeat when the next heartbeat is due. Late by more than the clock
 * skew budget, a worker is suspected, and keeps its partitions. Late by more than the budget plus
 * the failure timeout, a worker fails. With DETECT_SILENCE a worker is suspected after a part of
 * the heartbeat timeout, and fails after the whole timeout.
 *
 * Three rules keep workers from failing because of the leader's own faults: - A due time that no
 * correct clock can produce is replaced by arrival plus lease. - A late scan moves every deadline
 * by its delay. - When too many workers would fail together, further failures are held for a
 * while. */
#ifndef MEMBER_CORE_DETECT_H
#define MEMBER_CORE_DETECT_H
#include "base/err.h"
#include "base/heap.h"

enum detect_kind { DETECT_DEADLINE, DETECT_SILENCE };
enum detect_source {
    DETECT_AUTO,    /* the worker's due time, unless the clock is off by more than the budget */
    DETECT_WORKER,  /* always the worker's due time */
    DETECT_ARRIVAL, /* time of arrival plus the lease */
};
struct detect_options { /* detect_defaults() sets all fields; times are in nanoseconds */
    enum detect_kind kind;
    enum detect_source source;
    uint64_t heartbeat_interval_ns, clock_skew_budget_ns, failure_timeout_ns;
    uint64_t heartbeat_timeout_ns; /* DETECT_SILENCE: a worker fails after this silence */
    double suspect_ratio;          /* DETECT_SILENCE: share of the timeout until suspicion; 0..1 */
    uint32_t confirm_scans;        /* DETECT_SILENCE: additional scans before a worker fails */
    /* A mass failure: this share of the workers (0..1) fails within DETECT_MASS_WINDOW_NS. */
    double max_fail_fraction;
    uint64_t mass_failure_hold_ns;
    /* With DETECT_DEADLINE: suspects by the phi accrual of arrival times, not by a fixed threshold.
     * Phi is -log10 of the probability of the silence. Failures are not affected. */
    bool phi;
    double phi_threshold; /* above 0, at most DETECT_PHI_MAX */
    uint32_t phi_samples; /* samples of the mean; at least 2 */
    uint64_t phi_min_std_ns;
};
#define DETECT_MS             1000000ull
#define DETECT_MASS_WINDOW_NS (10000 * DETECT_MS)
#define DETECT_SKEW_AGAIN_NS  (3600000 * DETECT_MS)
enum { DETECT_MASS_LEAST = 10, DETECT_PHI_MAX = 100, DETECT_PHI_LEAST = 10 /* gaps, for phi */ };

/* Only detect.c uses the fields, except `owner`. */
struct watched {
    struct heap_node look; /* keyed by a time at or before the worker's next threshold */
    void *owner;
    uint64_t lease_ns, due_ns, last_ns; /* due_ns, last_ns: minus granted_ns at that time */
    uint64_t skew_reported_ns;
    double gap_mean, gap_variance; /* of the times between heartbeats */
    uint32_t confirmed, gaps;
    bool watching, suspected, held, skew_reported;
};

struct detect;
void detect_defaults(struct detect_options *ret_options);
/* ERR_INVALID: an interval is 0 or a fraction is out of bounds. ERR_NOMEM. */
enum err detect_open(const struct detect_options *options, uint64_t now_ns,
                     struct detect **ret_detect);
/* Kind and interval must stay the same. ERR_INVALID: nothing changed. */
enum err detect_reload(struct detect *detect, const struct detect_options *options);
void detect_close(struct detect *detect); /* NULL is allowed; forgets all workers */

/* Watches the worker as if it had just sent a heartbeat, and forgets its past. For a new worker or
 * incarnation, and for every worker when a leader takes over. `lease_ns` 0: two heartbeat
 * intervals. */
void detect_watch(struct detect *detect, struct watched *w, uint64_t lease_ns, uint64_t now_ns);
/* Allowed for a worker that is not watched. */
void detect_forget(struct detect *detect, struct watched *w);
/* `lease_ns`: the time between the worker's heartbeats */
void detect_lease(struct detect *detect, struct watched *w, uint64_t lease_ns);
/* Call when the worker was promised that it does not fail before `due_ns`. */
void detect_extend(struct detect *detect, struct watched *w, uint64_t due_ns);

struct beat {
    bool has_due;
    int64_t due_wall_ms; /* on the worker's clock */
};
struct beat_heard {
    bool recovered; /* the worker was suspected */
    bool skewed;    /* the worker's clock deviates; reported once an hour */
    int64_t skew_ms;
    uint64_t late_ns; /* how late the worker was at this heartbeat */
};
/* `now_wall_ms`: leader's wall clock, only compared with the worker's */
struct beat_heard detect_beat(struct detect *detect, struct watched *w, const struct beat *beat,
                              uint64_t now_ns, int64_t now_wall_ms);

enum verdict_kind { VERDICT_SUSPECTED, VERDICT_FAILED, VERDICT_MASS_HOLD };
struct failure_verdict {
    enum verdict_kind kind;
    struct watched *worker; /* NULL for VERDICT_MASS_HOLD: more failures are held */
    uint64_t late_ns;       /* lateness after the due time, or length of the silence */
};
/* time between scans: half a heartbeat interval */
uint64_t detect_cadence_ns(const struct detect *detect);
/* Returns every worker that crossed a threshold since the last scan, once. A failed worker is no
 * longer watched. `room` is at least 2. *ret_more: `room` was too small; call again with the same
 * time. */
size_t detect_scan(struct detect *detect, uint64_t now_ns, struct failure_verdict *ret_verdicts,
                   size_t room, bool *ret_more);
bool detect_holds(const struct detect *detect, uint64_t now_ns);
/* On an operator's request, the next scan declares the held failures. */
void detect_release(struct detect *detect);
#endif
