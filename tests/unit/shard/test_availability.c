/* SPDX-License-Identifier: Apache-2.0 */
/* The table of capacity pools without stock. */
#include <stdio.h>

#include "lib/test.h"
#include "shard/core/availability.h"

enum { FIRST = 30 * 1000, MOST = 300 * 1000 };

static const struct capacity_pool spot = {{"m5.large", 8}, {"z1", 2}, CAPACITY_SPOT};

static mono_time at(uint64_t seconds)
{
    return (mono_time){seconds * 1000};
}

static struct pool_memory *refuse(struct availability *a, const struct capacity_pool *pool,
                                  uint64_t action, enum pool_refusal why, uint64_t seconds)
{
    return availability_refused(a, pool, action, why, STR("no stock"), at(seconds));
}

TEST(pauses_double_with_every_refused_probe_up_to_the_longest)
{
    static const uint64_t pauses[] = {60, 120, 240, 300, 300};
    struct availability a;
    struct pool_memory *m;
    uint64_t now = 1000;

    availability_init(&a, FIRST, MOST);
    m = refuse(&a, &spot, 1, REFUSED_STOCK, now);
    CHECK("sold out at once", m && m->sold_out && availability_barred(&a, m, at(now)));
    CHECK_U64("first pause", m->until.ms, at(now + 30).ms);
    for (size_t i = 0; i < ARRAY_LEN(pauses); i++) {
        now = m->until.ms / 1000;
        CHECK("not earlier", availability_barred(&a, m, (mono_time){m->until.ms - 1}));
        CHECK("due", !availability_barred(&a, m, at(now)));
        availability_probe(&a, m, 10 + i);
        CHECK("one at a time", availability_barred(&a, m, at(now)));
        CHECK("refused again", refuse(&a, &spot, 10 + i, REFUSED_STOCK, now) == m);
        CHECK_U64("longer", m->until.ms, at(now + pauses[i]).ms);
        CHECK_U32("no probe is left", a.probes, 0);
    }
    availability_deinit(&a);
}

TEST(only_the_probe_of_a_sold_out_pool_changes_it)
{
    struct availability a;
    struct pool_memory *m;

    availability_init(&a, FIRST, MOST);
    m = refuse(&a, &spot, 1, REFUSED_STOCK, 1000);
    CHECK("an older call was refused too", !refuse(&a, &spot, 2, REFUSED_STOCK, 1001));
    CHECK_U64("same pause", m->until.ms, at(1030).ms);
    CHECK("an older call was accepted", !availability_accepted(&a, &spot, 3));
    CHECK("still sold out", availability_barred(&a, m, at(1001)));
    availability_probe(&a, m, 4);
    CHECK("the probe was accepted", availability_accepted(&a, &spot, 4));
    CHECK("forgotten", !availability_find(&a, &spot));
    CHECK_U32("and no probe", a.probes, 0);
    availability_deinit(&a);
}

TEST(a_probe_without_an_answer_is_followed_by_another_after_the_first_pause)
{
    struct availability a;
    struct pool_memory *m;

    availability_init(&a, FIRST, MOST);
    m = refuse(&a, &spot, 1, REFUSED_STOCK, 1000);
    availability_probe(&a, m, 2);
    availability_over(&a, 2, at(1100));
    CHECK("not at once", availability_barred(&a, m, at(1100)));
    CHECK("after a pause", !availability_barred(&a, m, at(1130)));
    CHECK_U32("the pauses do not grow", m->refusals, 1);
    availability_deinit(&a);
}

TEST(other_refusals_count_when_three_come_in_a_row)
{
    struct availability a;

    availability_init(&a, FIRST, MOST);
    CHECK("one", !refuse(&a, &spot, 1, REFUSED_OTHER, 1000));
    CHECK("two", !refuse(&a, &spot, 2, REFUSED_OTHER, 1000));
    CHECK("a success", !availability_accepted(&a, &spot, 3));
    CHECK("one again", !refuse(&a, &spot, 4, REFUSED_OTHER, 1000));
    CHECK("may be bought", !availability_barred(&a, availability_find(&a, &spot), at(1000)));
    CHECK("two again", !refuse(&a, &spot, 5, REFUSED_OTHER, 1000));
    CHECK("three", refuse(&a, &spot, 6, REFUSED_OTHER, 1000) != NULL);
    CHECK("sold out", availability_barred(&a, availability_find(&a, &spot), at(1029)));
    CHECK("for the first pause", !availability_barred(&a, availability_find(&a, &spot), at(1030)));
    availability_deinit(&a);
}

TEST(type_zone_and_capacity_type_make_a_pool)
{
    struct capacity_pool other = spot;
    struct availability a;

    availability_init(&a, FIRST, MOST);
    (void)refuse(&a, &spot, 1, REFUSED_STOCK, 1000);
    other.zone = STR("z2");
    CHECK("zone", !availability_find(&a, &other));
    other = spot;
    other.capacity_type = CAPACITY_ON_DEMAND;
    CHECK("capacity type", !availability_find(&a, &other));
    other = spot;
    other.instance_type = STR("m5.xlarge");
    CHECK("type", !availability_find(&a, &other));
    other.instance_type = STR("m5.large");
    CHECK("the same text", availability_find(&a, &other) != NULL);
    availability_deinit(&a);
}

/* Bounded: the pool whose pause ends first gives way, and old ones are forgotten. */
TEST(the_table_is_bounded)
{
    struct availability a;
    char name[16];

    availability_init(&a, FIRST, MOST);
    for (uint64_t i = 0; i < POOLS_MAX + 5; i++) {
        struct capacity_pool pool = spot;
        (void)snprintf(name, sizeof name, "t%u", (unsigned)i);
        pool.instance_type = str_from(name);
        (void)refuse(&a, &pool, i + 1, REFUSED_STOCK, 1000 + i);
    }
    CHECK_U32("full", a.count, POOLS_MAX);
    CHECK_U64("replaced", a.forgotten, 5);
    for (uint32_t i = 0; i < POOLS_MAX && a.probes < PROBES_MOST; i++)
        availability_probe(&a, a.at[i], 10000 + i);
    CHECK("no more probes", availability_barred(&a, a.at[POOLS_MAX - 1], at(100000)));
    for (uint32_t i = 0; i < PROBES_MOST; i++) availability_over(&a, 10000 + i, at(100000));
    CHECK_U32("all over", a.probes, 0);
    availability_sweep(&a, at(200000));
    CHECK_U32("nobody wants them", a.count, 0);
    availability_deinit(&a);
}

TEST(a_hint_of_an_earlier_process_ends_within_the_longest_pause)
{
    struct availability a;
    struct pool_memory *m;

    availability_init(&a, FIRST, MOST);
    availability_restore(&a, &spot, 3, at(1000000), at(1000));
    m = availability_find(&a, &spot);
    CHECK("sold out", availability_barred(&a, m, at(1299)));
    CHECK("not for ever", !availability_barred(&a, m, at(1300)));
    availability_probe(&a, m, 1);
    (void)refuse(&a, &spot, 1, REFUSED_STOCK, 1300);
    CHECK_U64("the pauses go on", m->until.ms, at(1300 + 240).ms);
    availability_deinit(&a);
}
