/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks and randomness, each with a real and a simulated implementation. */
#ifndef IO_CLOCK_H
#define IO_CLOCK_H
#include "base/time.h"

/* Any thread may read a clock. */
struct clock {
    mono_ns (*mono)(struct clock *clock);
    wall_time (*wall)(struct clock *clock);
};
struct entropy {
    void (*fill)(struct entropy *entropy, void *out, size_t len); /* never fails */
};

static inline mono_ns clock_mono_ns(struct clock *clock)
{
    return clock->mono(clock);
}
static inline mono_time clock_mono(struct clock *clock)
{
    return (mono_time){clock->mono(clock).ns / NS_PER_MS};
}
static inline wall_time clock_wall(struct clock *clock)
{
    return clock->wall(clock);
}
static inline void entropy_fill(struct entropy *entropy, void *out, size_t len)
{
    entropy->fill(entropy, out, len);
}
uint64_t entropy_u64(struct entropy *entropy);

struct clock *clock_real(void); /* reads CLOCK_MONOTONIC and CLOCK_REALTIME */
/* CLOCK_BOOTTIME: deadlines go on while the machine sleeps. */
struct clock *clock_boot(void);
struct entropy *entropy_real(void); /* getrandom(2); aborts if the kernel lacks it */
#endif
