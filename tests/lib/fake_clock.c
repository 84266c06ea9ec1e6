/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/fake_clock.h"

static mono_ns read_mono(struct clock *clock)
{
    return CONTAINER_OF(clock, struct fake_clock, clock)->mono;
}

static wall_time read_wall(struct clock *clock)
{
    return CONTAINER_OF(clock, struct fake_clock, clock)->wall;
}

void fake_clock_init(struct fake_clock *fake)
{
    *fake = (struct fake_clock){
        .clock = {read_mono, read_wall},
        .mono = {MS_PER_SECOND * NS_PER_MS},
        .wall = {FAKE_CLOCK_WALL_START},
    };
}

void fake_clock_advance(struct fake_clock *fake, uint64_t ms)
{
    fake->mono.ns += ms * NS_PER_MS;
    fake->wall.ms += ms;
}

void fake_clock_set_wall(struct fake_clock *fake, wall_time wall)
{
    fake->wall = wall;
}
