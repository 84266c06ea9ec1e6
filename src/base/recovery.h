/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that must never be handed out twice, after history was lost (a restore, force-config).
 *
 * Terms, epochs, incarnations, revisions and fencing tokens only ever grow, and others remember the
 * highest they have seen. A recovered cluster does not know how far the lost history went, so it
 * goes on above a floor that no history can have reached: the wall clock in units of 1/1024 ms.
 *
 * Why no lost history can be there: every one of these numbers starts at 0 or at such a floor and
 * grows by less than 1,024 per millisecond (one log entry raises each by one, or, for grants, by
 * one per partition; an election takes longer than a millisecond). A history that is cut at a given
 * time is therefore below the floor of that time, whichever copy the recovery starts from. Two
 * recoveries from the same copy have growing floors for the same reason.
 *
 * With a wall clock that is far behind the floor says nothing; the number then rises by
 * RECOVERY_STEP, which is right for one recovery from each copy. A clock that is ahead costs
 * nothing but the numbers between.
 *
 * No overflow: floors stay below 2^53 until the year 2248, later times count as a broken clock, and
 * 2^63 is eight million steps away. */
#ifndef BASE_RECOVERY_H
#define BASE_RECOVERY_H
#include "base/base.h"

#define RECOVERY_STEP        (1ull << 40)
#define RECOVERY_WALL_MS_MAX (1ull << 43)
#define RECOVERY_PER_MS      1024

static inline uint64_t recovery_floor(uint64_t wall_ms)
{
    return wall_ms < RECOVERY_WALL_MS_MAX ? wall_ms * RECOVERY_PER_MS : 0;
}

/* What `value` becomes: more than it, and more than any lost history made of it. */
static inline uint64_t recovery_above(uint64_t value, uint64_t floor)
{
    return floor > value ? floor : add_sat_u64(value, RECOVERY_STEP);
}
#endif
