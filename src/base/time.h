/* SPDX-License-Identifier: Apache-2.0 */
/* A separate type for each clock: mixing wall time and monotonic time does not compile. No function
 * here reads a clock: pure code gets the time as an argument, other code from io/. */
#ifndef BASE_TIME_H
#define BASE_TIME_H
#include "base/base.h"

/* Never goes back. The start is arbitrary. */
typedef struct {
    uint64_t ms;
} mono_time;
/* Time since 1970-01-01 UTC. May jump in both directions. */
typedef struct {
    uint64_t ms;
} wall_time;
/* mono_time in nanoseconds, for measuring only. */
typedef struct {
    uint64_t ns;
} mono_ns;

#define MONO_NEVER    ((mono_time){UINT64_MAX}) /* a deadline that never passes */
#define MS_PER_SECOND 1000ull
#define NS_PER_MS     1000000ull
#define NS_PER_US     1000ull

static inline mono_time mono_after(mono_time from, uint64_t ms)
{
    return (mono_time){add_sat_u64(from.ms, ms)};
}
static inline bool mono_due(mono_time deadline, mono_time now)
{
    return now.ms >= deadline.ms;
}
/* 0 if `to` is earlier. */
static inline uint64_t mono_elapsed_ms(mono_time from, mono_time to)
{
    return to.ms > from.ms ? to.ms - from.ms : 0;
}
static inline mono_time mono_min(mono_time a, mono_time b)
{
    return a.ms < b.ms ? a : b;
}
#endif
