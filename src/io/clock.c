/* SPDX-License-Identifier: Apache-2.0 */
/* Implements clock.h with the kernel's clocks and randomness. Any thread may call. */
#include "io/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

static uint64_t read_ns(clockid_t id)
{
    struct timespec time;
    int failed = clock_gettime(id, &time);

    assert(!failed); /* every Linux has all of these clocks */
    return (uint64_t)time.tv_sec * 1000 * NS_PER_MS + (uint64_t)time.tv_nsec;
}

static mono_ns real_mono(struct clock *)
{
    return (mono_ns){read_ns(CLOCK_MONOTONIC)};
}

static mono_ns boot_mono(struct clock *)
{
    return (mono_ns){read_ns(CLOCK_BOOTTIME)};
}

static wall_time real_wall(struct clock *)
{
    return (wall_time){read_ns(CLOCK_REALTIME) / NS_PER_MS};
}

static void real_fill(struct entropy *, void *out, size_t len)
{
    char *at = out;

    while (len > 0) {
        ssize_t got = getrandom(at, len, 0);
        if (got < 0 && errno == EINTR) continue;
        /* Without randomness the process would repeat keys and identities. */
        if (got <= 0) abort();
        at += got;
        len -= (size_t)got;
    }
}

uint64_t entropy_u64(struct entropy *entropy)
{
    uint64_t value;

    entropy_fill(entropy, &value, sizeof value);
    return value;
}

struct clock *clock_boot(void)
{
    static struct clock clock = {boot_mono, real_wall};
    return &clock;
}

struct clock *clock_real(void)
{
    static struct clock clock = {.mono = real_mono, .wall = real_wall};
    return &clock;
}

struct entropy *entropy_real(void)
{
    static struct entropy entropy = {.fill = real_fill};
    return &entropy;
}
