/* SPDX-License-Identifier: Apache-2.0 */
/* A clock whose time the test sets. Monotonic time only goes forward; wall time goes anywhere. */
#ifndef TESTS_LIB_FAKE_CLOCK_H
#define TESTS_LIB_FAKE_CLOCK_H
#include "io/clock.h"

struct fake_clock {
    struct clock clock; /* give its address to the code under test */
    mono_ns mono;
    wall_time wall;
};
#define FAKE_CLOCK_WALL_START 1767225600000ull /* 2026-01-01T00:00:00Z */

void fake_clock_init(struct fake_clock *fake); /* monotonic 1 s, wall FAKE_CLOCK_WALL_START */
void fake_clock_advance(struct fake_clock *fake, uint64_t ms); /* both */
void fake_clock_set_wall(struct fake_clock *fake, wall_time wall);
#endif
