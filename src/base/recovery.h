/* SPDX-License-Identifier: Apache-2.0 */
/* New values for numbers that must never be reused after history was lost (a restore,
 * force-config): terms, epochs, incarnations, revisions and fencing tokens.
 *
 * Other programs remember the highest number they saw, and the recovered cluster does not know this
 * number. Therefore the cluster continues above a floor: the wall clock in units of 1/1024 ms.
 *
 * No lost history is above the floor, because each number starts at 0 or at a floor, and grows by
 * less than 1,024 per millisecond. Two recoveries from the same copy also get different floors.
 *
 * If the wall clock is too far behind, the number grows by RECOVERY_STEP instead, which suffices
 * for one recovery from each copy. A wall clock that is ahead only skips numbers.
 *
 * Numbers cannot overflow: floors stay below 2^53 until the year 2248, and a later time counts as a
 * broken clock. RECOVERY_STEP fits eight million times between 2^53 and 2^63. */
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

static inline uint64_t recovery_above(uint64_t value, uint64_t floor)
{
    return floor > value ? floor : add_sat_u64(value, RECOVERY_STEP);
}
#endif
