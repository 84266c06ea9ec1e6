/* SPDX-License-Identifier: Apache-2.0 */
/* New values for numbers that must never be reused after history was lost (a restore,
 * force-config).
 *
 * Terms, epochs, incarnations, revisions and fencing tokens only grow, and other programs remember
 * the highest value they have seen. A recovered cluster does not know how far the lost history
 * went. Therefore it continues above a floor that no history can have reached: the wall clock in
 * units of 1/1024 ms.
 *
 * No lost history can reach the floor, because each of these numbers starts at 0 or at such a floor
 * and grows by less than 1,024 per millisecond. (One log entry raises each number by one, or, for
 * grants, by one per partition. An election takes longer than a millisecond.) So a history that
 * ends at a given time is below the floor of that time, whichever copy the recovery starts from.
 * For the same reason two recoveries from the same copy get different, growing floors.
 *
 * If the wall clock is far behind, the floor is too low. Then the number grows by RECOVERY_STEP,
 * which is sufficient for one recovery from each copy. A wall clock that is ahead only skips
 * numbers.
 *
 * Overflow is impossible. Floors stay below 2^53 until the year 2248, and a later time counts as a
 * broken clock. From there, 2^63 is eight million steps of RECOVERY_STEP away. */
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

/* Returns the new value: more than `value`, and more than the lost history can have reached. */
static inline uint64_t recovery_above(uint64_t value, uint64_t floor)
{
    return floor > value ? floor : add_sat_u64(value, RECOVERY_STEP);
}
#endif
