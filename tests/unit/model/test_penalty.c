/* SPDX-License-Identifier: Apache-2.0 */
#include "model/penalty.h"

#include <math.h>
#include <stdio.h>

#include "lib/test.h"

TEST(dollars_become_the_smallest_bucket_that_covers_them)
{
    static const struct {
        double dollars;
        const char *label;
    } cases[] = {
        {-5, "0"},
        {0, "0"},
        {0.25, "0.5"},
        {0.5, "0.5"},
        {0.51, "1"},
        {1, "1"},
        {1.01, "2"},
        {8000, "8192"},
        {8192, "8192"},
        {1048576, "1048576"},
        {8388608, "8388608"},
        {8388608.01, "pinned"},
        {20000000, "pinned"},
        {1e300, "pinned"},
    };
    uint8_t bucket = 99;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CHECK_OK(cases[i].label, penalty_from_dollars(cases[i].dollars, &bucket));
        CHECK_TEXT("bucket", penalty_label(bucket), cases[i].label);
    }
    CHECK_OK("infinity", penalty_from_dollars((double)INFINITY, &bucket));
    CHECK_U64("is pinned", bucket, PENALTY_PINNED);
    CHECK_OK("minus infinity", penalty_from_dollars((double)-INFINITY, &bucket));
    CHECK_U64("is nothing", bucket, PENALTY_ZERO);
    bucket = 99;
    CHECK_ERR("not a number", penalty_from_dollars((double)NAN, &bucket), ERR_INVALID);
    CHECK_U64("untouched", bucket, 99);
}

TEST(buckets_are_their_upper_bounds)
{
    CHECK("unspecified", penalty_dollars(0) == 0);
    CHECK("zero", penalty_dollars(1) == 0);
    CHECK("half", penalty_dollars(2) == 0.5);
    CHECK("one", penalty_dollars(3) == 1);
    CHECK("two", penalty_dollars(4) == 2);
    CHECK("the last", penalty_dollars(26) == 8388608);
    CHECK("pinned", isinf(penalty_dollars(27)) && penalty_dollars(27) > 0);
    CHECK_TEXT("unspecified", penalty_label(0), "unspecified");
    CHECK_TEXT("pinned", penalty_label(27), "pinned");
    for (uint8_t bucket = PENALTY_ZERO; bucket < PENALTY_BUCKET_COUNT; bucket++) {
        uint8_t back;
        char text[32];
        CHECK_OK("its own bound", penalty_from_dollars(penalty_dollars(bucket), &back));
        CHECK_U64("is in it", back, bucket);
        if (bucket == PENALTY_PINNED) break;
        snprintf(text, sizeof text, "%.10g", penalty_dollars(bucket));
        CHECK_TEXT("the label is the number", penalty_label(bucket), text);
    }
}

TEST(unknown_buckets_are_refused)
{
    struct note note = {""};

    CHECK_OK("27", penalty_check("reclamation_penalty_bucket", 27, &note));
    CHECK_ERR("28", penalty_check("reclamation_penalty_bucket", 28, &note), ERR_INVALID);
    CHECK_TEXT("named", note.text, "reclamation_penalty_bucket: unknown bucket 28");
    CHECK_ERR("a large one", penalty_check("x", UINT32_MAX, NULL), ERR_INVALID);
}

TEST(the_cost_counts_the_risk)
{
    static const struct {
        const char *why;
        double price, probability, penalty, want;
    } cases[] = {
        {"spot that is interrupted now and then", 1.80, 0.10, 5, 2.30},
        {"never interrupted", 6, 0, 100, 6},
        {"at $50 the spot machine loses", 1.80, 0.10, 50, 6.80},
        {"no penalty", 1.80, 0.5, 0, 1.80},
        {"a negative penalty counts as none", 1.80, 0.5, -4, 1.80},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        double cost = effective_cost(cases[i].price, cases[i].probability, cases[i].penalty);
        CHECK(cases[i].why, fabs(cost - cases[i].want) < 1e-12);
    }
    CHECK("pinned, never interrupted: the price",
          effective_cost(6, 0, penalty_dollars(PENALTY_PINNED)) == 6);
    CHECK("pinned, at risk: never",
          isinf(effective_cost(1, 1e-9, penalty_dollars(PENALTY_PINNED))));
}
