/* SPDX-License-Identifier: Apache-2.0 */
/* The histogram of bench/latency.h: buckets are contiguous, and percentiles are never too low. */
#include "latency.h"

#include "base/prng.h"
#include "lib/test.h"

TEST(every_place_ends_where_the_next_begins)
{
    for (size_t i = 0; i + 1 < LATENCY_PLACES; i++) {
        uint64_t upper = latency_upper_ns(i);
        CHECK_SIZE("its upper end is in it", latency_place(upper), i);
        if (upper < UINT64_MAX)
            CHECK_SIZE("one more is in the next", latency_place(upper + 1), i + 1);
    }
    CHECK_SIZE("the largest number has the last place", latency_place(UINT64_MAX),
               LATENCY_PLACES - 1);
}

TEST(percentiles_are_right_to_two_percent)
{
    static struct latency l;
    static const struct {
        double share;
        uint64_t want;
    } cases[] = {{0.5, 500000}, {0.9, 900000}, {0.99, 990000}, {0.999, 999000}, {1, 1000000}};

    CHECK_U64("nothing counted", latency_at(&l, 0.5), 0);
    for (uint64_t i = 1; i <= 1000000; i += 7) latency_add(&l, i);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint64_t got = latency_at(&l, cases[i].share);
        CHECK("not under", got + 10 >= cases[i].want);
        CHECK("not far over", (double)got <= (double)cases[i].want * 1.02);
    }
    CHECK("never above the largest", latency_at(&l, 1) <= l.max_ns);
}
