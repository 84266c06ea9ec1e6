/* SPDX-License-Identifier: Apache-2.0 */
#include "base/prng.h"

#include <string.h>

#include "dies.h"
#include "lib/test.h"

/* Published outputs of the two generators' reference implementations. */
TEST(the_sequence_is_xoshiro256_star_star)
{
    static const uint64_t want[] = {11520,
                                    0,
                                    1509978240,
                                    1215971899390074240,
                                    1216172134540287360,
                                    607988272756665600,
                                    16172922978634559625u,
                                    8476171486693032832,
                                    10595114339597558777u,
                                    2904607092377533576};
    struct prng p = {{1, 2, 3, 4}};

    for (size_t i = 0; i < ARRAY_LEN(want); i++) CHECK_U64("as published", prng_u64(&p), want[i]);
}

TEST(the_seed_is_spread_by_splitmix64)
{
    static const uint64_t want[] = {6457827717110365317, 3203168211198807973, 9817491932198370423u,
                                    4593380528125082431};
    struct prng p;

    prng_seed(&p, 1234567);
    for (size_t i = 0; i < ARRAY_LEN(want); i++) CHECK_U64("as published", p.s[i], want[i]);
}

TEST(the_same_seed_repeats_and_another_does_not)
{
    static const uint64_t seeds[] = {0, 1, 2, UINT64_MAX, 0x8000000000000000u};

    for (size_t i = 0; i < ARRAY_LEN(seeds); i++) {
        struct prng a, b, c;
        prng_seed(&a, seeds[i]);
        prng_seed(&b, seeds[i]);
        prng_seed(&c, seeds[i] + 1);
        for (int n = 0; n < 100; n++) {
            uint64_t draw = prng_u64(&a);
            CHECK_U64("repeats", prng_u64(&b), draw);
            CHECK("differs", prng_u64(&c) != draw);
        }
    }
}

/* 16 buckets of 1,000 each: a deviation of 5 sigma means a wrong generator. The seed is fixed, so
 * the test cannot fail by chance. */
TEST(below_is_even_and_stays_below)
{
    struct prng p;
    int counts[16] = {0};

    prng_seed(&p, 7);
    for (int i = 0; i < 16000; i++) counts[prng_below(&p, 16)]++;
    for (int i = 0; i < 16; i++) CHECK("even", counts[i] > 840 && counts[i] < 1160);
    for (int i = 0; i < 1000; i++) CHECK_U64("one choice", prng_below(&p, 1), 0);
    for (int i = 0; i < 1000; i++)
        CHECK("a bound that does not divide the range", prng_below(&p, UINT64_MAX) < UINT64_MAX);
    /* With a bound of 3/4 of the range and no rejected draws, every third number would come twice
     * as often: half the time instead of a third. */
    int thirds = 0;
    for (int i = 0; i < 3000; i++) {
        uint64_t bound = 3ull << 62, draw = prng_below(&p, bound);
        CHECK("below", draw < bound);
        if (draw % 3 == 0) thirds++;
    }
    CHECK("without bias", thirds > 870 && thirds < 1130);
}

TEST(between_includes_both_ends)
{
    struct prng p;
    bool seen[3] = {false};

    prng_seed(&p, 7);
    for (int i = 0; i < 200; i++) seen[prng_between(&p, 10, 12) - 10] = true;
    CHECK("all three", seen[0] && seen[1] && seen[2]);
    CHECK_U64("one", prng_between(&p, 5, 5), 5);
    CHECK("the whole range", prng_between(&p, 0, UINT64_MAX) != prng_between(&p, 0, UINT64_MAX));
    CHECK("the top", prng_between(&p, UINT64_MAX - 1, UINT64_MAX) >= UINT64_MAX - 1);
}

TEST(chance_is_never_at_0_and_always_at_a_million)
{
    struct prng p;
    int hits = 0;

    prng_seed(&p, 7);
    for (int i = 0; i < 10000; i++) {
        CHECK("never", !prng_chance(&p, 0));
        CHECK("always", prng_chance(&p, 1000000));
        if (prng_chance(&p, 250000)) hits++;
    }
    CHECK("a quarter", hits > 2280 && hits < 2720);
}

TEST(fill_gives_the_same_bytes_on_every_machine)
{
    struct prng p = {{1, 2, 3, 4}};
    unsigned char got[20];

    memset(got, 0xEE, sizeof got);
    prng_fill(&p, got, 17);
    CHECK("11520, then 0, little-endian",
          memcmp(got, "\x00\x2D\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16) == 0);
    CHECK_U64("then the lowest byte of 1509978240", got[16], 1509978240 & 255);
    CHECK_U64("and not one more", got[17], 0xEE);
    prng_fill(&p, got, 0);
}

TEST(a_fork_draws_on_its_own)
{
    struct prng a, b, child_a, child_b;

    prng_seed(&a, 3);
    prng_seed(&b, 3);
    prng_fork(&a, &child_a);
    prng_fork(&b, &child_b);
    for (int i = 0; i < 10; i++) prng_u64(&child_a);
    CHECK_U64("the child's draws do not shift the parent's", prng_u64(&a), prng_u64(&b));
    CHECK("parent and child differ", prng_u64(&b) != prng_u64(&child_b));
    prng_seed(&a, 3);
    prng_fork(&a, &child_a);
    prng_fork(&a, &child_b);
    CHECK("two children differ", prng_u64(&child_a) != prng_u64(&child_b));
}

static void draw_unseeded(void)
{
    struct prng p = {{0}};

    prng_u64(&p);
}

TEST(a_generator_that_was_never_seeded_stops_at_an_assertion)
{
    CHECK("caught", dies(draw_unseeded));
}
