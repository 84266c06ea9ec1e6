/* SPDX-License-Identifier: Apache-2.0 */
/* The limit of provider calls at once, alone and before providers made of numbers. */
#include "lib/test.h"
#include "shard/core/concurrency.h"

enum { TIMEOUT = 30 * 1000, CALLS_MAX = 8192 };

/* A provider that works on `width` calls at a time, each for `takes_ms`, in the order they came. A
 * caller keeps as many under way as the limit allows. */
struct world {
    struct concurrency c;
    uint64_t sent[CALLS_MAX], due[CALLS_MAX]; /* calls under way: a ring */
    uint64_t free_at[4096];                   /* by server */
    uint32_t head, count, width;
    uint64_t takes_ms, now, answered, late;
};

static void world_send(struct world *w)
{
    uint32_t first = 0, at = (w->head + w->count) % CALLS_MAX;

    for (uint32_t i = 1; i < w->width; i++)
        if (w->free_at[i] < w->free_at[first]) first = i;
    if (w->free_at[first] < w->now) w->free_at[first] = w->now;
    w->free_at[first] += w->takes_ms;
    w->sent[at] = w->now;
    w->due[at] = w->free_at[first];
    w->count++;
}

static void world_fill(struct world *w)
{
    while (w->count < w->c.limit && w->count < CALLS_MAX) world_send(w);
}

static void world_run(struct world *w, uint64_t until)
{
    while (w->now < until) {
        world_fill(w);
        for (w->now++; w->count && w->due[w->head] <= w->now; world_fill(w)) {
            bool late = w->now - w->sent[w->head] > TIMEOUT;
            concurrency_answered(&w->c, 0, (mono_time){w->sent[w->head]}, late,
                                 w->count >= w->c.limit, (mono_time){w->now});
            w->answered++;
            w->late += late;
            w->head = (w->head + 1) % CALLS_MAX;
            w->count--;
        }
    }
}

TEST(a_provider_that_does_ten_calls_a_second_answers_all_in_time)
{
    static struct world w;

    w = (struct world){.width = 1, .takes_ms = 100};
    concurrency_init(&w.c, 8, 4096, TIMEOUT);
    world_run(&w, 600 * 1000);
    CHECK_U64("no call is late", w.late, 0);
    CHECK("it always has work", w.answered >= 5990);
    CHECK("and waits for few", w.c.limit < 150);
}

TEST(a_provider_of_ten_thousand_calls_a_second_is_saturated)
{
    static struct world w;

    w = (struct world){.width = 1000, .takes_ms = 100};
    concurrency_init(&w.c, 8, 4096, TIMEOUT);
    world_run(&w, 5 * 1000);
    CHECK("within seconds", w.answered > 30 * 1000);
    CHECK_U64("no call is late", w.late, 0);
}

/* Its calls take long, and as long when many run. */
TEST(a_provider_that_is_slow_but_not_overloaded_gets_more_calls)
{
    static struct world w;

    w = (struct world){.width = 4096, .takes_ms = 20 * 1000};
    concurrency_init(&w.c, 8, 4096, TIMEOUT);
    world_run(&w, 900 * 1000);
    CHECK("more at once", w.c.limit > 1000);
    CHECK_U64("no call is late", w.late, 0);
}

TEST(a_provider_that_becomes_slow_gets_fewer_calls)
{
    static struct world w;
    uint64_t late;

    w = (struct world){.width = 1000, .takes_ms = 10};
    concurrency_init(&w.c, 8, 4096, TIMEOUT);
    world_run(&w, 10 * 1000);
    CHECK("many", w.c.limit > 1000);
    w.width = 1;
    w.takes_ms = 100;
    world_run(&w, 900 * 1000);
    CHECK("few", w.c.limit < 300);
    late = w.late;
    world_run(&w, 1200 * 1000);
    CHECK_U64("and no call is late any more", w.late, late);
}

TEST(the_limit_is_halved_once_for_the_calls_of_its_time)
{
    struct concurrency c;

    concurrency_init(&c, 64, 64, TIMEOUT);
    for (int i = 0; i < 10; i++)
        concurrency_answered(&c, 0, (mono_time){1000}, true, true, (mono_time){2000});
    CHECK_U32("once", c.limit, 32);
    concurrency_answered(&c, 0, (mono_time){2000}, true, true, (mono_time){3000});
    CHECK_U32("sent before it was known", c.limit, 32);
    concurrency_answered(&c, 0, (mono_time){2001}, true, true, (mono_time){3000});
    CHECK_U32("sent after", c.limit, 16);
    CHECK_U64("counted", c.halvings, 2);
    for (uint64_t t = 4000; t < 20000; t += 1000)
        concurrency_answered(&c, 0, (mono_time){t}, true, true, (mono_time){t + 500});
    CHECK_U32("never none", c.limit, 1);
}

TEST(the_limit_grows_only_while_it_is_used_and_never_beyond_the_most)
{
    struct concurrency c;

    concurrency_init(&c, 8, 10, TIMEOUT);
    concurrency_answered(&c, 0, (mono_time){1000}, false, false, (mono_time){1001});
    CHECK_U32("not used", c.limit, 8);
    for (int i = 0; i < 5; i++)
        concurrency_answered(&c, 0, (mono_time){1000}, false, true, (mono_time){1001});
    CHECK_U32("the most", c.limit, 10);
    concurrency_init(&c, 8, 2, TIMEOUT);
    CHECK_U32("smaller than the first", c.limit, 2);
}
