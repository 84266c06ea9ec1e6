/* SPDX-License-Identifier: Apache-2.0 */
#include "base/heap.h"

#include "dies.h"
#include "lib/test.h"

struct timer {
    struct heap_node node;
    int name;
};

static int pop(struct heap *h, uint64_t now)
{
    struct heap_node *node = heap_pop_due(h, now);

    if (!node) return -1;
    CHECK_SIZE("a popped node is detached", node->place, 0);
    return CONTAINER_OF(node, struct timer, node)->name;
}

TEST(a_zeroed_or_fresh_heap_can_be_closed_twice)
{
    struct heap zeroed = {0}, fresh;

    heap_init(&fresh, 10);
    CHECK("empty", heap_peek(&fresh) == NULL && heap_pop_due(&fresh, UINT64_MAX) == NULL);
    heap_deinit(&zeroed);
    heap_deinit(&zeroed);
    heap_deinit(&fresh);
    heap_deinit(&fresh);
}

TEST(the_earliest_comes_first_and_nothing_before_its_time)
{
    static const uint64_t dues[] = {50, 10, 40, 0, 30, UINT64_MAX, 20};
    struct timer timers[ARRAY_LEN(dues)] = {{{0}, 0}};
    struct heap h;

    heap_init(&h, 100);
    for (size_t i = 0; i < ARRAY_LEN(dues); i++) {
        timers[i].name = (int)i;
        CHECK_OK("put", heap_put(&h, &timers[i].node, dues[i]));
    }
    CHECK_U64("peek shows the earliest", heap_peek(&h)->due, 0);
    CHECK_I64("due at 0 is due at 0", pop(&h, 0), 3);
    CHECK_I64("nothing before its time", pop(&h, 9), -1);
    CHECK_I64("at its time", pop(&h, 10), 1);
    CHECK_I64("late is due, too", pop(&h, 35), 6);
    CHECK_I64("in order", pop(&h, 35), 4);
    CHECK_I64("not yet", pop(&h, 35), -1);
    CHECK_I64("40", pop(&h, 1000), 2);
    CHECK_I64("50", pop(&h, 1000), 0);
    CHECK_I64("never is due at the end of time only", pop(&h, UINT64_MAX - 1), -1);
    heap_deinit(&h);
    CHECK_SIZE("deinit detaches the remaining nodes", timers[5].node.place, 0);
}

TEST(equal_times_fire_in_the_order_they_were_started)
{
    enum { COUNT = 100 };
    struct timer timers[COUNT] = {{{0}, 0}};
    struct heap h;

    heap_init(&h, COUNT);
    for (int i = 0; i < COUNT; i++) {
        timers[i].name = i;
        CHECK_OK("put", heap_put(&h, &timers[i].node, 7));
    }
    heap_remove(&h, &timers[50].node);
    CHECK_OK("started again: it goes behind the others", heap_put(&h, &timers[50].node, 7));
    CHECK_OK("and so does one that was moved", heap_put(&h, &timers[0].node, 7));
    for (int i = 1; i < COUNT; i++)
        if (i != 50) CHECK_I64("in order", pop(&h, 7), i);
    CHECK_I64("then the restarted one", pop(&h, 7), 50);
    CHECK_I64("then the moved one", pop(&h, 7), 0);
    heap_deinit(&h);
}

TEST(removing_is_harmless_twice_and_anywhere)
{
    struct timer timers[20] = {{{0}, 0}};
    struct heap h;

    heap_init(&h, 20);
    heap_remove(&h, &timers[0].node);
    for (int i = 0; i < 20; i++) {
        timers[i].name = i;
        CHECK_OK("put", heap_put(&h, &timers[i].node, (uint64_t)(i * 7 % 20)));
    }
    for (int i = 0; i < 20; i += 2) {
        heap_remove(&h, &timers[i].node);
        heap_remove(&h, &timers[i].node);
    }
    CHECK_SIZE("half are left", h.count, 10);
    for (uint64_t due = 0; due < 20; due++)
        for (int i = 1; i < 20; i += 2)
            if ((uint64_t)(i * 7 % 20) == due) CHECK_I64("in order", pop(&h, 100), i);
    heap_deinit(&h);
}

TEST(a_node_that_is_in_is_moved)
{
    struct timer a = {.name = 1}, b = {.name = 2};
    struct heap h;

    heap_init(&h, 2);
    CHECK_OK("a", heap_put(&h, &a.node, 10));
    CHECK_OK("b", heap_put(&h, &b.node, 20));
    CHECK_OK("later, in a full heap", heap_put(&h, &a.node, 30));
    CHECK_SIZE("still two", h.count, 2);
    CHECK_I64("b first now", pop(&h, 100), 2);
    CHECK_OK("earlier", heap_put(&h, &a.node, 5));
    CHECK_I64("a", pop(&h, 5), 1);
    heap_deinit(&h);
}

TEST(full_is_an_answer_and_changes_nothing)
{
    struct timer a = {.name = 1}, b = {.name = 2};
    struct heap h;

    heap_init(&h, 1);
    CHECK_OK("fits", heap_put(&h, &a.node, 10));
    CHECK_ERR("does not", heap_put(&h, &b.node, 5), ERR_FULL);
    CHECK_SIZE("the refused one is detached", b.node.place, 0);
    CHECK_ERR("no reserve past the ceiling", heap_reserve(&h, 2), ERR_FULL);
    CHECK_I64("the first one is still there", pop(&h, 10), 1);
    CHECK_OK("now there is room", heap_put(&h, &b.node, 5));
    heap_deinit(&h);
    heap_init(&h, SIZE_MAX);
    CHECK_ERR("more than memory", heap_reserve(&h, SIZE_MAX), ERR_NOMEM);
    heap_deinit(&h);
}

static void put_into_two_heaps(void)
{
    struct heap first, second;
    struct timer one = {.name = 1}, other = {.name = 2};

    heap_init(&first, 2);
    heap_init(&second, 2);
    if (heap_put(&first, &one.node, 1) || heap_put(&second, &other.node, 1)) return;
    (void)heap_put(&second, &one.node, 1);
}

TEST(a_node_in_two_heaps_stops_at_an_assertion)
{
    CHECK("caught", dies(put_into_two_heaps));
}
