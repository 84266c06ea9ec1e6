/* SPDX-License-Identifier: Apache-2.0 */
/* Who has been silent for too long: the failure detector. Pure, of the leader alone.
 *
 * A worker says with each beat when the next one is due. Late by more than the clock skew budget it
 * is suspected, which moves nothing; late by more than that AND the failure timeout it has failed.
 * Or, by silence: suspected at a part of the heartbeat timeout, failed past it. All comparisons are
 * strict. What a verdict means (dead, or gone because it was draining) the registry knows.
 *
 * Three things keep the judge from blaming workers for its own faults: a due time that a worker's
 * clock cannot mean counts as arrival plus lease; a scan that comes late moves every deadline by as
 * much; and when too many would fail at once, the rest is held for a while.
 *
 * A scan costs what crossed a threshold, not what there is: workers are in a heap by the time of
 * their next threshold, and a beat does not move them there; who turns out to have beaten is filed
 * again when its time comes. */
#ifndef MEMBER_CORE_DETECT_H
#define MEMBER_CORE_DETECT_H
#include "base/err.h"
#include "base/heap.h"

enum detect_kind { DETECT_DEADLINE, DETECT_SILENCE };
enum detect_source {
    DETECT_AUTO,    /* the worker's due time, unless its clock is off by more than the budget */
    DETECT_WORKER,  /* the worker's, whatever it says */
    DETECT_ARRIVAL, /* arrival plus lease */
};
struct detect_options { /* detect_defaults() fills all of it; times in nanoseconds */
    enum detect_kind kind;
    enum detect_source source;
    uint64_t heartbeat_interval_ns, clock_skew_budget_ns, failure_timeout_ns;
    uint64_t heartbeat_timeout_ns; /* silence */
    double suspect_ratio;          /* silence; 0..1 */
    uint32_t confirm_scans;        /* silence: further scans before it has failed */
    double max_fail_fraction; /* 0..1; of at least DETECT_MASS_LEAST, in DETECT_MASS_WINDOW_NS */
    uint64_t mass_failure_hold_ns;
    /* Suspicion by the history of arrivals instead of a fixed threshold (deadline): how improbable
     * the silence is, as the power of ten. Failure is judged as ever. */
    bool phi;
    double phi_threshold; /* above 0, at most DETECT_PHI_MAX */
    uint32_t phi_samples; /* that the mean is of; at least 2 */
    uint64_t phi_min_std_ns;
};
#define DETECT_MS             1000000ull
#define DETECT_MASS_WINDOW_NS (10000 * DETECT_MS)
#define DETECT_SKEW_AGAIN_NS  (3600000 * DETECT_MS)
enum { DETECT_MASS_LEAST = 10, DETECT_PHI_MAX = 100, DETECT_PHI_LEAST = 10 /* gaps */ };

/* Of one worker; embedded in its row, touched by detect.c alone but for `owner`. */
struct watched {
    struct heap_node look; /* at or before its next threshold */
    void *owner;
    uint64_t lease_ns, due_ns, last_ns; /* due: less the lateness that had been granted by then */
    uint64_t skew_reported_ns;
    double gap_mean, gap_variance; /* between its beats */
    uint32_t confirmed, gaps;
    bool watching, suspected, held, skew_reported;
};

struct detect;
void detect_defaults(struct detect_options *ret_options);
/* ERR_INVALID: intervals of 0, fractions out of bounds. ERR_NOMEM. */
enum err detect_open(const struct detect_options *options, uint64_t now_ns,
                     struct detect **ret_detect);
/* Others from now on, of the same kind and heartbeat interval. ERR_INVALID: it keeps its own. */
enum err detect_reload(struct detect *detect, const struct detect_options *options);
void detect_close(struct detect *detect); /* NULL is fine; forgets everybody */

/* Watches it from now on, as if it had just beaten, whatever was known of it: a new one, a new
 * incarnation, or every one of them when a leader takes over. lease 0: two intervals. */
void detect_watch(struct detect *detect, struct watched *w, uint64_t lease_ns, uint64_t now_ns);
void detect_forget(struct detect *detect, struct watched *w); /* fine when it is not watched */
/* How long it is between its beats from now on, by what it said or was sent. */
void detect_lease(struct detect *detect, struct watched *w, uint64_t lease_ns);
/* It was promised that it has until then. */
void detect_extend(struct detect *detect, struct watched *w, uint64_t due_ns);

struct beat {
    bool has_due;
    int64_t due_wall_ms; /* by the worker's clock */
};
struct beat_heard {
    bool recovered; /* was suspected */
    bool skewed;    /* its clock is off; reported once an hour */
    int64_t skew_ms;
    uint64_t late_ns; /* that it was by then, as of a verdict */
};
/* `now_wall_ms` is our own clock, for comparison with the worker's only. */
struct beat_heard detect_beat(struct detect *detect, struct watched *w, const struct beat *beat,
                              uint64_t now_ns, int64_t now_wall_ms);

enum verdict_kind { VERDICT_SUSPECTED, VERDICT_FAILED, VERDICT_MASS_HOLD };
struct failure_verdict {
    enum verdict_kind kind;
    struct watched *worker; /* NULL for VERDICT_MASS_HOLD: too many; the others wait */
    uint64_t late_ns;       /* behind its due time, or silent for */
};
/* How often to scan: half an interval. */
uint64_t detect_cadence_ns(const struct detect *detect);
/* Who crossed a threshold since the last scan, each once. A failed worker is not watched any more.
 * Returns how many were written; `room` is at least 2. *ret_more: there was not enough of it, call
 * again with the same time. */
size_t detect_scan(struct detect *detect, uint64_t now_ns, struct failure_verdict *ret_verdicts,
                   size_t room, bool *ret_more);
/* Failures are held back at this time. */
bool detect_holds(const struct detect *detect, uint64_t now_ns);
/* Lets held ones be declared by the next scan: an operator knows better. */
void detect_release(struct detect *detect);
#endif
