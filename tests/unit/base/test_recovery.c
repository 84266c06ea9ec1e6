/* SPDX-License-Identifier: Apache-2.0 */
#include "base/recovery.h"

#include "lib/test.h"

TEST(a_recovered_number_is_above_the_old_one_and_above_every_history_that_ends_now)
{
    static const uint64_t now = 1794727489000; /* ms */
    static const struct {
        uint64_t value, wall_ms, want;
    } cases[] = {
        {0, now, 1794727489000 * 1024},
        {5, now, 1794727489000 * 1024},
        {1794727489000 * 1024 - 1, now, 1794727489000 * 1024},
        /* A clock that is behind the numbers in use is ignored. */
        {1794727489000 * 1024, now, 1794727489000 * 1024 + (1ull << 40)},
        {5, 0, 5 + (1ull << 40)},
        {5, 1ull << 43, 5 + (1ull << 40)},
        {5, UINT64_MAX, 5 + (1ull << 40)},
        {UINT64_MAX - 1, now, UINT64_MAX},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint64_t got = recovery_above(cases[i].value, recovery_floor(cases[i].wall_ms));
        CHECK_U64("goes on at", got, cases[i].want);
        CHECK("above", got > cases[i].value);
    }
    CHECK("exact in a double, and far from overflow",
          recovery_floor((1ull << 43) - 1) < 1ull << 53);
}

TEST(recoveries_of_one_copy_grow_with_the_ids_issued_between_them)
{
    const uint64_t copy = 77, first = 1794727489000, seconds = 3;
    uint64_t one = recovery_above(copy, recovery_floor(first));
    uint64_t handed_out = one + seconds * 1000000; /* a million a second */

    CHECK("above that", recovery_above(copy, recovery_floor(first + seconds * 1000)) > handed_out);
}
