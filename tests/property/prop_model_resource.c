/* SPDX-License-Identifier: Apache-2.0 */
/* Packed vectors and sums against plain arrays of one amount per dimension. */
#include <string.h>

#include "base/prng.h"
#include "lib/test.h"
#include "model/resource.h"

enum { ROUNDS = 50000 };

struct plain { /* the oracle: every dimension, zero when absent */
    int64_t milli[DIMENSIONS_MAX];
};

static int64_t draw_amount(struct prng *p)
{
    switch (prng_below(p, 4)) {
    case 0: return 0;
    case 1: return (int64_t)prng_below(p, 4);
    case 2: return (int64_t)(prng_u64(p) >> 1 >> prng_below(p, 63));
    default: return INT64_MAX - (int64_t)prng_below(p, 2);
    }
}

static void draw(struct prng *p, struct resources *r, struct plain *plain)
{
    uint64_t count = prng_below(p, RESOURCES_MAX + 1);
    uint32_t span = prng_chance(p, 500000) ? 4 : DIMENSIONS_MAX; /* often the same few names */

    *r = (struct resources){0};
    *plain = (struct plain){{0}};
    for (uint64_t i = 0; i < count; i++) {
        uint32_t d = (uint32_t)prng_below(p, span);
        int64_t milli = draw_amount(p);
        CHECK_OK("room", resources_set(r, d, milli, (enum quantity_format)prng_below(p, 3)));
        plain->milli[d] = milli;
    }
}

TEST(every_operation_agrees_with_plain_arrays)
{
    struct prng p;

    prng_seed(&p, test_seed());
    for (int round = 0; round < ROUNDS; round++) {
        struct resources a, b, c, largest;
        struct plain x, y;
        struct resource_sum sum, wide_a;
        bool covers = true, zero = true, fits;
        draw(&p, &a, &x);
        draw(&p, &b, &y);
        resource_sum_scale(&wide_a, &a, 1);
        resource_sum_copy(&sum, &wide_a);
        resource_sum_add(&sum, &b);
        largest = a;
        fits = resources_max(&largest, &b) == ERR_OK;
        CHECK("the union decides", fits == (resource_bits(a.mask | b.mask) <= RESOURCES_MAX));
        for (uint32_t d = 0; d < DIMENSIONS_MAX; d++) {
            int128 m = x.milli[d], n = y.milli[d];
            CHECK("get", resources_get(&a, d) == x.milli[d]);
            CHECK("sum", resource_sum_get(&sum, d) == m + n);
            if (fits) CHECK("max", resources_get(&largest, d) == (m > n ? m : n));
            covers &= m >= n;
            zero &= m == 0;
        }
        CHECK("names of both", sum.mask == (a.mask | b.mask));
        CHECK("covers", resources_covers(&a, &b) == covers);
        CHECK("zero", resource_sum_is_zero(&wide_a) == zero);
        CHECK("equal", resources_equal(&a, &b) == (memcmp(&x, &y, sizeof x) == 0));
        CHECK_OK("narrow", resource_sum_narrow(&wide_a, &c));
        CHECK("back to the same", resources_equal(&a, &c) && a.mask == c.mask);
    }
}

static int sign(int order)
{
    return (order > 0) - (order < 0);
}

TEST(keys_are_compared_as_their_texts_are)
{
    static const char *const names[] = {"cpu", "cpu2", "cpu-x", "cpu.y", "cpuZ", "c", "cp\xc3\xa9"};
    struct dimensions dims;
    struct prng p;

    dimensions_init(&dims);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        uint32_t index;
        CHECK_OK("name", dimensions_index(&dims, str_from(names[i]), &index, NULL));
    }
    prng_seed(&p, test_seed());
    for (int round = 0; round < ROUNDS / 10; round++) {
        struct resource_sum sums[2];
        struct buf keys[2];
        for (int k = 0; k < 2; k++) {
            struct resources r = {0};
            for (uint32_t d = 0; d < ARRAY_LEN(names); d++) {
                int64_t milli = prng_chance(&p, 500000) ? 0 : (int64_t)prng_below(&p, 200);
                if (prng_chance(&p, 100000)) milli = draw_amount(&p);
                CHECK_OK("set", resources_set(&r, d, milli, QUANTITY_DECIMAL_SI));
            }
            resource_sum_clear(&sums[k]);
            resource_sum_add(&sums[k], &r);
            if (k && prng_chance(&p, 300000)) resource_sum_copy(&sums[1], &sums[0]);
            buf_init(&keys[k], RESOURCES_TEXT_MAX);
            CHECK_OK("key", resource_sum_key(&dims, &sums[k], &keys[k]));
        }
        CHECK_I64("as the texts", sign(resource_sum_key_compare(&dims, &sums[0], &sums[1])),
                  sign(str_compare(buf_peek(&keys[0]), buf_peek(&keys[1]))));
        buf_deinit(&keys[0]);
        buf_deinit(&keys[1]);
    }
    dimensions_deinit(&dims);
}
