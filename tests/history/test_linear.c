/* SPDX-License-Identifier: Apache-2.0 */
/* The search finds an order where there is one, and none where there is none: compared with trying
 * all orders of small random histories of one register. It stops at its limit of steps. */
#include <stdlib.h>

#include "base/prng.h"
#include "history/linear.h"
#include "lib/test.h"

/* A register of numbers whose content is lost at 1000 ns at the earliest. */
enum { WRITE, READ, FORGOTTEN };
struct call {
    int what, value;
};

static void begin(void *state, void *arg)
{
    (void)arg;
    *(int64_t *)state = 0;
}

static bool step(void *state, const struct linear_call *call, int64_t *at_ns, void *arg)
{
    const struct call *c = call->what;
    int64_t *value = state;

    (void)arg;
    if (c->what == WRITE) *value = c->value;
    if (c->what == READ) return *value == c->value;
    if (c->what == FORGOTTEN) {
        if (*at_ns < 1000) *at_ns = 1000;
        *value = 0;
    }
    return true;
}

static const struct linear_model model = {sizeof(int64_t), begin, step, NULL};

/* -- every order, one after the other -- */
static bool every(const struct linear_call *calls, size_t count, uint32_t done, int64_t value,
                  int64_t at_ns)
{
    int64_t end_ns = INT64_MAX;
    bool all = true;

    for (size_t i = 0; i < count; i++) {
        if (done & 1u << i || calls[i].ended_ns == INT64_MAX) continue;
        all = false;
        if (calls[i].ended_ns < end_ns) end_ns = calls[i].ended_ns;
    }
    if (all) return true;
    for (size_t i = 0; i < count; i++) {
        int64_t after = value, then = at_ns > calls[i].called_ns ? at_ns : calls[i].called_ns;
        if (done & 1u << i || then > end_ns) continue;
        if (step(&after, &calls[i], &then, NULL) && then <= end_ns &&
            every(calls, count, done | 1u << i, after, then))
            return true;
    }
    return false;
}

static int by_call(const void *a, const void *b)
{
    const struct linear_call *left = a, *right = b;
    return left->called_ns < right->called_ns ? -1 : left->called_ns > right->called_ns;
}

TEST(small_histories_are_judged_as_by_trying_every_order)
{
    struct prng prng;
    size_t good = 0, bad = 0;

    prng_seed(&prng, test_seed());
    for (int round = 0; round < 20000; round++) {
        struct call whats[7];
        struct linear_call calls[7];
        size_t count = 1 + (size_t)prng_below(&prng, 7);
        struct linear_result got;
        bool want;

        for (size_t i = 0; i < count; i++) {
            int64_t called = (int64_t)prng_below(&prng, 1500);
            whats[i] = (struct call){(int)prng_below(&prng, 10) < 4 ? READ : WRITE,
                                     (int)prng_below(&prng, 4)};
            if (prng_below(&prng, 6) == 0) whats[i].what = FORGOTTEN;
            calls[i] = (struct linear_call){called, called + (int64_t)prng_below(&prng, 800),
                                            &whats[i], 0, 0};
            if (whats[i].what == WRITE && prng_below(&prng, 4) == 0) calls[i].ended_ns = INT64_MAX;
        }
        qsort(calls, count, sizeof *calls, by_call);
        want = every(calls, count, 0, 0, INT64_MIN);
        linear_check(&model, calls, count, UINT64_MAX, &got);
        CHECK_U64("the same verdict", got.verdict, want ? LINEAR_GOOD : LINEAR_BAD);
        good += want;
        bad += !want;
    }
    CHECK("both kinds were there", good > 1000 && bad > 1000);
}

TEST(it_gives_up_after_its_limit_of_steps)
{
    struct call whats[20];
    struct linear_call calls[21];
    struct linear_result got;
    const struct call nobody_wrote = {READ, 99};

    for (int i = 0; i < 20; i++) {
        whats[i] = (struct call){WRITE, i % 3};
        calls[i] = (struct linear_call){i, 1000, &whats[i], 0, 0};
    }
    calls[20] = (struct linear_call){20, 1000, &nobody_wrote, 0, 0};
    linear_check(&model, calls, 21, 1000, &got);
    CHECK_U64("the verdict is: gave up", got.verdict, LINEAR_GAVE_UP);
    CHECK("and how far it came", got.steps > 1000 && got.explained > 0);
}

TEST(the_call_that_could_not_be_next_is_named)
{
    const struct call one = {WRITE, 1}, two = {READ, 2}, three = {READ, 1};
    const struct linear_call calls[] = {
        {0, 1, &one, 0, 0}, {2, 3, &three, 0, 0}, {4, 5, &two, 0, 0}};
    struct linear_result got;

    linear_check(&model, calls, 3, 100, &got);
    CHECK_U64("bad", got.verdict, LINEAR_BAD);
    CHECK("that one", got.stuck == &two);
    CHECK_SIZE("after the others", got.explained, 2);
}

TEST(of_twins_one_is_done)
{
    const struct call one = {WRITE, 1}, two = {WRITE, 2}, saw_one = {READ, 1}, saw_two = {READ, 2};
    struct linear_call calls[] = {{0, INT64_MAX, &one, 1, 0},
                                  {0, INT64_MAX, &two, 1, 0},
                                  {1, 2, &saw_one, 0, 0},
                                  {3, 4, &saw_two, 0, 0}};
    struct linear_result got;

    linear_check(&model, calls, 3, 100, &got);
    CHECK_U64("either", got.verdict, LINEAR_GOOD);
    linear_check(&model, calls, 4, 100, &got);
    CHECK_U64("not both", got.verdict, LINEAR_BAD);
    calls[1].twin = 2;
    linear_check(&model, calls, 4, 100, &got);
    CHECK_U64("unless they are none", got.verdict, LINEAR_GOOD);
    calls[1].after = 1;
    linear_check(&model, calls, 4, 100, &got);
    CHECK_U64("one after the other", got.verdict, LINEAR_GOOD);
    calls[0].after = 2;
    calls[1].after = 0;
    linear_check(&model, calls, 4, 100, &got);
    CHECK_U64("not the other way round", got.verdict, LINEAR_BAD);
}

TEST(thousands_of_calls_cost_little)
{
    enum { COUNT = 20000 };
    struct call *whats = calloc(COUNT, sizeof *whats);
    struct linear_call *calls = calloc(COUNT, sizeof *calls);
    struct linear_result got;

    CHECK("memory", whats && calls);
    for (int i = 0; i < COUNT; i++) { /* three at a time; every tenth is never answered */
        whats[i] = (struct call){i % 2 ? READ : WRITE, i / 2};
        calls[i] =
            (struct linear_call){i * 10, i % 100 == 2 ? INT64_MAX : i * 10 + 15, &whats[i], 0, 0};
    }
    linear_check(&model, calls, COUNT, 4 * COUNT, &got);
    CHECK_U64("good", got.verdict, LINEAR_GOOD);
    free(whats);
    free(calls);
}
