/* SPDX-License-Identifier: Apache-2.0 */
/* The clocks of a host. The monotonic clock runs slightly fast or slow and starts at a random
 * value. The wall clock has the same rate and an offset, which can be changed in steps. */
#include "sim/world.h"

enum { PPM = 1000000, PPM_MAX = 500000 };
#define MONO_START_NS_MAX (3600ull * MS_PER_SECOND * NS_PER_MS)

/* Converts ns of the world to ns on this host's clock. The product is split, so that it cannot
 * overflow. */
static uint64_t counted(const struct sim_clock *clock, uint64_t ns)
{
    int64_t millions = (int64_t)(ns / PPM), rest = (int64_t)(ns % PPM);
    return (uint64_t)((int64_t)ns + millions * clock->ppm + rest * clock->ppm / PPM);
}

static uint64_t since(const struct sim_host *host, uint64_t ahead)
{
    return counted(&host->clock, host->sim->now.ns - host->clock.since.ns + ahead);
}

static uint64_t mono_in(const struct sim_host *host, uint64_t ahead)
{
    return host->clock.mono_ns + since(host, ahead);
}

static int64_t wall_in(const struct sim_host *host, uint64_t ahead)
{
    return host->clock.wall_ns + (int64_t)since(host, ahead);
}

/* Time that blocking calls of this turn took, and that has not passed in the world yet. A job does
 * not see this time, because it runs on another thread. */
static uint64_t ahead(const struct sim_host *host)
{
    return host->in_job ? 0 : host->spent_ns;
}

static mono_ns clock_mono_read(struct clock *clock)
{
    const struct sim_host *host = CONTAINER_OF(clock, struct sim_host, clock.base);
    return (mono_ns){mono_in(host, ahead(host))};
}

static wall_time clock_wall_read(struct clock *clock)
{
    const struct sim_host *host = CONTAINER_OF(clock, struct sim_host, clock.base);
    int64_t ns = wall_in(host, ahead(host));
    return (wall_time){ns > 0 ? (uint64_t)ns / NS_PER_MS : 0};
}

void sim_clock_boot(struct sim_host *host)
{
    struct sim_clock *clock = &host->clock;

    if (!host->boots) {
        clock->base = (struct clock){clock_mono_read, clock_wall_read};
        clock->wall_ns = (int64_t)(SIM_WALL_START_NS + host->sim->now.ns);
    } else {
        clock->wall_ns = wall_in(host, 0); /* a battery keeps the wall clock running */
    }
    clock->mono_ns = prng_below(&host->entropy.prng, MONO_START_NS_MAX);
    clock->since = host->sim->now;
}

static void rebase(struct sim_host *host)
{
    struct sim_clock *clock = &host->clock;
    uint64_t mono = mono_in(host, 0);
    int64_t wall = wall_in(host, 0);

    clock->mono_ns = mono;
    clock->wall_ns = wall;
    clock->since = host->sim->now;
}

sim_time sim_clock_when(const struct sim_host *host, mono_time due)
{
    const struct sim_clock *clock = &host->clock;
    uint64_t due_ns, wait, step;

    if (due.ms >= UINT64_MAX / NS_PER_MS / 4) return SIM_NEVER;
    due_ns = due.ms * NS_PER_MS;
    if (due_ns <= mono_in(host, 0)) return host->sim->now;
    wait = due_ns - clock->mono_ns; /* exact at rate 0, otherwise approximated below */
    while (counted(clock, wait) < due_ns - clock->mono_ns) {
        step = due_ns - clock->mono_ns - counted(clock, wait);
        wait += step;
    }
    while (clock->ppm > 0) {
        uint64_t over = counted(clock, wait) - (due_ns - clock->mono_ns);
        step = over / 2; /* the clock advances at most 1.5 ns per simulated ns */
        if (step == 0) break;
        wait -= step;
    }
    assert(counted(clock, wait) >= due_ns - clock->mono_ns);
    return (sim_time){clock->since.ns + wait};
}

void sim_host_clock_rate(struct sim_host *host, int32_t ppm)
{
    assert(ppm >= -PPM_MAX && ppm <= PPM_MAX);
    rebase(host);
    host->clock.ppm = ppm;
    sim_mark(host->sim, SIM_MARK_CLOCK, host, (uint64_t)(int64_t)ppm, 0);
    sim_host_schedule(host);
}

void sim_host_clock_step(struct sim_host *host, int64_t ms)
{
    host->clock.wall_ns += ms * (int64_t)NS_PER_MS;
    sim_mark(host->sim, SIM_MARK_CLOCK, host, (uint64_t)ms, 1);
}
