/* SPDX-License-Identifier: Apache-2.0 */
/* A histogram of times that is right to about 1.6 % from a nanosecond to centuries, in 30 KiB.
 *
 * Sixty-four steps per doubling: a value below 128 has a place of its own, above that the upper
 * seven bits decide. Percentiles answer the upper end of their place, so they never flatter. */
#ifndef BENCH_LATENCY_H
#define BENCH_LATENCY_H
#include "base/base.h"

enum {
    LATENCY_EXACT = 128,
    LATENCY_STEPS = 64,
    LATENCY_PLACES = LATENCY_EXACT + 57 * LATENCY_STEPS
};

struct latency {
    uint64_t places[LATENCY_PLACES];
    uint64_t count, max_ns;
    double sum_ns;
};

static inline size_t latency_place(uint64_t ns)
{
    unsigned shift;

    if (ns < LATENCY_EXACT) return (size_t)ns;
    shift = 57u - (unsigned)__builtin_clzll(ns); /* the upper seven bits are left: 64..127 */
    return LATENCY_EXACT + (shift - 1) * LATENCY_STEPS + (size_t)(ns >> shift) - LATENCY_STEPS;
}

static inline uint64_t latency_upper_ns(size_t place)
{
    unsigned shift;

    if (place < LATENCY_EXACT) return place;
    shift = (unsigned)((place - LATENCY_EXACT) / LATENCY_STEPS) + 1;
    return (((place - LATENCY_EXACT) % LATENCY_STEPS + LATENCY_STEPS + 1) << shift) - 1;
}

static inline void latency_add(struct latency *l, uint64_t ns)
{
    l->places[latency_place(ns)]++;
    l->count++;
    l->sum_ns += (double)ns;
    l->max_ns = max_u64(l->max_ns, ns);
}

/* 0.99 for p99; 0 when nothing was counted. */
static inline uint64_t latency_at(const struct latency *l, double share)
{
    uint64_t want = (uint64_t)((double)l->count * share), seen = 0;

    if (l->count == 0) return 0;
    if (want >= l->count) want = l->count - 1;
    for (size_t i = 0; i < LATENCY_PLACES; i++) {
        seen += l->places[i];
        if (seen > want) return min_u64(latency_upper_ns(i), l->max_ns);
    }
    return l->max_ns;
}
#endif
