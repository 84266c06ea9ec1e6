/* SPDX-License-Identifier: Apache-2.0 */
/* The failure detector: a heap of workers by the time of their next threshold. Invariant: a worker
 * fails only after its deadline, which every late scan moves by the scan's delay. Pure. */
#include "member/core/detect.h"

#include <math.h>
#include <stdlib.h>

#include "member/core/internal.h"

enum { EACH = 2 /* verdicts per worker and scan */ };
/* a due time further in the future shows a wrong worker clock and is not used */
#define LEAD_MAX_MS (100 * 365 * 86400000ull)

struct detect {
    struct detect_options options;
    uint64_t cadence_ns;
    double phi_sigmas; /* distance of the threshold from the mean, in standard deviations */
    uint64_t scanned_ns;
    uint64_t granted_ns;
    struct heap dues;            /* all watched workers by the time of their next check */
    uint64_t window_ns, hold_ns; /* start of the window; end of the hold of failures, or 0 */
    size_t window_count, window_failed;
    bool hold_reported;
};

void detect_defaults(struct detect_options *ret_options)
{
    *ret_options = (struct detect_options){
        .heartbeat_interval_ns = 500 * DETECT_MS,
        .clock_skew_budget_ns = 250 * DETECT_MS,
        .failure_timeout_ns = 5000 * DETECT_MS,
        .heartbeat_timeout_ns = 30000 * DETECT_MS,
        .suspect_ratio = 0.5,
        .max_fail_fraction = 0.34,
        .mass_failure_hold_ns = 30000 * DETECT_MS,
        .phi_threshold = 8,
        .phi_samples = 200,
        .phi_min_std_ns = 100 * DETECT_MS,
    };
}

/* how many standard deviations a normal variable exceeds with probability 10^-phi */
static double sigmas_of(double phi)
{
    double low = -1, high = 40;

    for (int i = 0; i < 100; i++) {
        double middle = (low + high) / 2;
        if (-log10(0.5 * erfc(middle / sqrt(2))) < phi)
            low = middle;
        else
            high = middle;
    }
    return high;
}

static bool is_fine(const struct detect_options *options)
{
    return options->heartbeat_interval_ns >= 2 && options->failure_timeout_ns &&
           options->heartbeat_timeout_ns &&
           (options->suspect_ratio > 0 && options->suspect_ratio <= 1) &&
           (options->max_fail_fraction > 0 && options->max_fail_fraction <= 1) &&
           (!options->phi ||
            (options->phi_threshold > 0 && options->phi_threshold <= DETECT_PHI_MAX &&
             options->phi_samples >= 2));
}

enum err detect_open(const struct detect_options *options, uint64_t now_ns,
                     struct detect **ret_detect)
{
    struct detect *d;

    if (!is_fine(options)) return ERR_INVALID;
    d = calloc(1, sizeof *d);
    if (!d) return ERR_NOMEM;
    d->options = *options;
    d->cadence_ns = options->heartbeat_interval_ns / 2;
    d->phi_sigmas = options->phi ? sigmas_of(options->phi_threshold) : 0;
    d->scanned_ns = now_ns;
    heap_init(&d->dues, SIZE_MAX / 64);
    *ret_detect = d;
    return ERR_OK;
}

void detect_close(struct detect *d)
{
    struct heap_node *node;

    if (!d) return;
    while ((node = heap_pop_due(&d->dues, UINT64_MAX)) != NULL)
        CONTAINER_OF(node, struct watched, look)->watching = false;
    heap_deinit(&d->dues);
    free(d);
}

/* -- thresholds -- */

/* The due time moves by the delays of late scans. */
static uint64_t due_of(const struct detect *d, const struct watched *w)
{
    return w->due_ns + d->granted_ns;
}

static uint64_t soft_of(const struct detect *d, const struct watched *w)
{
    if (d->options.phi && d->options.kind == DETECT_DEADLINE && w->gaps >= DETECT_PHI_LEAST) {
        double least = (double)d->options.phi_min_std_ns, deviation = sqrt(w->gap_variance);
        if (deviation < least) deviation = least;
        /* Phi accrual: compared with the mean gap, a longer silence is improbable. */
        return w->last_ns + d->granted_ns + (uint64_t)(w->gap_mean + d->phi_sigmas * deviation);
    }
    if (d->options.kind == DETECT_DEADLINE) return due_of(d, w) + d->options.clock_skew_budget_ns;
    return w->last_ns + d->granted_ns +
           (uint64_t)(d->options.suspect_ratio * (double)d->options.heartbeat_timeout_ns);
}

static uint64_t hard_of(const struct detect *d, const struct watched *w)
{
    const struct detect_options *o = &d->options;
    uint64_t most = max_u64(o->clock_skew_budget_ns, o->failure_timeout_ns);

    if (o->kind == DETECT_DEADLINE) return due_of(d, w) + most;
    return w->last_ns + d->granted_ns + o->heartbeat_timeout_ns;
}

static uint64_t next_of(const struct detect *d, const struct watched *w)
{
    return w->suspected ? hard_of(d, w) : soft_of(d, w);
}

/* -- the heap of checks -- */

/* Thresholds are strict, so the check is one nanosecond after `at_ns`. */
static void detect_file(struct detect *d, struct watched *w, uint64_t at_ns)
{
    if (heap_put(&d->dues, &w->look, at_ns + 1)) (void)member_must(NULL);
}

static void look_at_all(struct detect *d)
{
    struct heap again;
    struct heap_node *node;

    heap_init(&again, SIZE_MAX / 64);
    while ((node = heap_pop_due(&d->dues, UINT64_MAX)) != NULL)
        if (heap_put(&again, node, 0)) (void)member_must(NULL);
    heap_deinit(&d->dues);
    d->dues = again;
}

void detect_watch(struct detect *d, struct watched *w, uint64_t lease_ns, uint64_t now_ns)
{
    void *owner = w->owner;

    detect_forget(d, w);
    *w = (struct watched){.owner = owner, .watching = true};
    w->lease_ns = lease_ns ? lease_ns : 2 * d->options.heartbeat_interval_ns;
    w->last_ns = now_ns - d->granted_ns;
    w->due_ns = now_ns + w->lease_ns - d->granted_ns;
    detect_file(d, w, next_of(d, w));
}

void detect_forget(struct detect *d, struct watched *w)
{
    heap_remove(&d->dues, &w->look);
    w->watching = false;
}

void detect_lease(struct detect *, struct watched *w, uint64_t lease_ns)
{
    w->lease_ns = lease_ns;
}

/* The worker keeps its position in the heap. A scan that comes too early inserts the worker
 * again. */
void detect_extend(struct detect *d, struct watched *w, uint64_t due_ns)
{
    if (due_of(d, w) < due_ns) w->due_ns = due_ns - d->granted_ns;
}

/* Thresholds may be earlier than before, so the next scan checks every worker. */
enum err detect_reload(struct detect *d, const struct detect_options *options)
{
    assert(options->kind == d->options.kind &&
           options->heartbeat_interval_ns == d->options.heartbeat_interval_ns);
    if (!is_fine(options)) return ERR_INVALID;
    d->options = *options;
    d->phi_sigmas = options->phi ? sigmas_of(options->phi_threshold) : 0;
    look_at_all(d);
    return ERR_OK;
}

/* -- heartbeats -- */

/* The time after the due time; with DETECT_SILENCE, the length of the silence. */
static uint64_t late_of(const struct detect *d, const struct watched *w, uint64_t now_ns)
{
    uint64_t since = d->options.kind == DETECT_DEADLINE ? due_of(d, w) : w->last_ns + d->granted_ns;

    return now_ns > since ? now_ns - since : 0;
}

/* Uses the worker's own due time only if it is plausible. */
static uint64_t due_by(const struct detect *d, const struct watched *w, const struct beat *beat,
                       uint64_t now_ns, int64_t now_wall_ms, int64_t *ret_skew_ms)
{
    uint64_t arrival_ns = now_ns + w->lease_ns;
    int64_t lead_ms = beat->has_due ? beat->due_wall_ms - now_wall_ms : 0;
    int64_t skew_ms = lead_ms - (int64_t)(w->lease_ns / DETECT_MS);
    uint64_t off_ms = (uint64_t)(skew_ms < 0 ? -skew_ms : skew_ms);
    uint64_t lead_ns =
        min_u64((uint64_t)(lead_ms < 0 ? -lead_ms : lead_ms), LEAD_MAX_MS) * DETECT_MS;

    *ret_skew_ms = 0;
    if (d->options.source == DETECT_ARRIVAL || (!beat->has_due && d->options.source == DETECT_AUTO))
        return arrival_ns;
    if (d->options.source == DETECT_AUTO && off_ms > d->options.clock_skew_budget_ns / DETECT_MS) {
        *ret_skew_ms = skew_ms;
        return arrival_ns;
    }
    if (lead_ms >= 0) return now_ns + lead_ns;
    return now_ns > lead_ns ? now_ns - lead_ns : 0;
}

/* Keeps moving averages over phi_samples, not the gaps. */
static void take_gap(const struct detect *d, struct watched *w, uint64_t now_ns)
{
    double gap = (double)(int64_t)(now_ns - (w->last_ns + d->granted_ns)), off, share;

    if (!d->options.phi || gap < 0) return;
    if (w->gaps < d->options.phi_samples) w->gaps++;
    share = 1.0 / w->gaps;
    off = gap - w->gap_mean;
    w->gap_mean += share * off;
    w->gap_variance = (1 - share) * (w->gap_variance + share * off * off);
}

struct beat_heard detect_beat(struct detect *d, struct watched *w, const struct beat *beat,
                              uint64_t now_ns, int64_t now_wall_ms)
{
    struct beat_heard heard = {.recovered = w->suspected, .late_ns = late_of(d, w, now_ns)};
    uint64_t due_ns = due_by(d, w, beat, now_ns, now_wall_ms, &heard.skew_ms);

    assert(w->watching);
    heard.skewed = heard.skew_ms != 0 &&
                   (!w->skew_reported || now_ns - w->skew_reported_ns >= DETECT_SKEW_AGAIN_NS);
    if (heard.skewed) {
        w->skew_reported = true;
        w->skew_reported_ns = now_ns;
    }
    take_gap(d, w, now_ns);
    w->due_ns = due_ns - d->granted_ns; /* may wrap around; due_of() adds granted_ns again */
    w->last_ns = now_ns - d->granted_ns;
    w->suspected = w->held = false;
    w->confirmed = 0;
    if (next_of(d, w) + 1 < w->look.due) detect_file(d, w, next_of(d, w));
    return heard;
}

/* -- the mass-failure brake -- */

/* True if one more worker may fail now. */
static bool brake_lets(struct detect *d, struct watched *w, uint64_t now_ns)
{
    if (w->held && now_ns >= d->hold_ns) return true;
    if (now_ns < d->hold_ns) return false;
    if (!d->window_count || now_ns - d->window_ns >= DETECT_MASS_WINDOW_NS) {
        d->window_ns = now_ns;
        d->window_count = d->dues.count + 1; /* including this worker */
        d->window_failed = 0;
    }
    if (d->window_count < DETECT_MASS_LEAST ||
        (double)(d->window_failed + 1) <= d->options.max_fail_fraction * (double)d->window_count) {
        d->window_failed++;
        return true;
    }
    d->hold_ns = now_ns + d->options.mass_failure_hold_ns;
    d->hold_reported = false;
    return false;
}

bool detect_holds(const struct detect *d, uint64_t now_ns)
{
    return now_ns < d->hold_ns;
}

void detect_release(struct detect *d)
{
    d->hold_ns = 0;
    d->window_count = 0;
    look_at_all(d);
}

/* -- scans -- */

/* Writes up to two verdicts. A worker that has not failed rejoins the heap. */
static size_t detect_judge(struct detect *d, struct watched *w, uint64_t now_ns,
                           struct failure_verdict *out)
{
    uint64_t late_ns = late_of(d, w, now_ns);
    size_t count = 0;

    if (!w->suspected && now_ns > soft_of(d, w)) {
        w->suspected = true;
        out[count++] = (struct failure_verdict){VERDICT_SUSPECTED, w, late_ns};
    }
    if (!w->suspected || now_ns <= hard_of(d, w)) {
        detect_file(d, w, next_of(d, w));
        return count;
    }
    if (d->options.kind == DETECT_SILENCE && w->confirmed < d->options.confirm_scans) {
        w->confirmed++;
        detect_file(d, w, now_ns + d->cadence_ns - 1); /* check again at the next scan */
        return count;
    }
    if (!brake_lets(d, w, now_ns)) {
        w->held = true;
        detect_file(d, w, d->hold_ns - 1); /* check again at the end of the hold */
        if (!d->hold_reported) out[count++] = (struct failure_verdict){VERDICT_MASS_HOLD, NULL, 0};
        d->hold_reported = true;
        return count;
    }
    out[count++] = (struct failure_verdict){VERDICT_FAILED, w, late_ns};
    detect_forget(d, w);
    return count;
}

/* Moves all deadlines by this scan's lateness, because workers did not cause the leader's delay. */
static void grant_lateness(struct detect *d, uint64_t now_ns)
{
    uint64_t late_ns =
        now_ns - d->scanned_ns > d->cadence_ns ? now_ns - d->scanned_ns - d->cadence_ns : 0;

    if (late_ns > d->options.failure_timeout_ns / 2) d->granted_ns += late_ns;
    d->scanned_ns = now_ns;
}

size_t detect_scan(struct detect *d, uint64_t now_ns, struct failure_verdict *ret_verdicts,
                   size_t room, bool *ret_more)
{
    struct heap_node *node;
    size_t count = 0;

    grant_lateness(d, now_ns);
    while (count + EACH <= room && (node = heap_pop_due(&d->dues, now_ns)) != NULL)
        count +=
            detect_judge(d, CONTAINER_OF(node, struct watched, look), now_ns, ret_verdicts + count);
    node = heap_peek(&d->dues);
    *ret_more = node && node->due <= now_ns;
    return count;
}

uint64_t detect_cadence_ns(const struct detect *d)
{
    return d->cadence_ns;
}
