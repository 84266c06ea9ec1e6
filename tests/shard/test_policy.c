/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the rule book that no fleet shows: how long Idle machines are held, by whose word;
 * what a victim scores (specification, decision.md 7.3, 8.2). */
#include <math.h>

#include "lib/test.h"
#include "shard/decide/decider.h"
#include "shard/world.h"

static const mono_time idle_at = {1000}, then = {1000 + 120 * 1000};

static size_t deletes(struct world *w, const uint64_t *holds)
{
    struct decider_options options = {
        .inventory = w->inventory, .needs = w->needs, .dimensions = &w->dimensions};
    const struct decision *decision;
    struct decide_input input;
    struct decider *engine;
    size_t count;

    CHECK_OK("engine", decider_open(&options, &engine));
    decide_input_init(&input, then);
    if (holds) memcpy(input.idle_hold_ms, holds, sizeof input.idle_hold_ms);
    CHECK_OK("decide", decide(engine, &input, &decision));
    for (size_t i = 0; i < decision->action_count; i++)
        CHECK_U32("only deletes", decision->actions[i].kind, ACTION_DELETE);
    count = decision->action_count;
    decider_close(engine);
    return count;
}

TEST(holds_are_the_callers_and_zero_lets_nothing_go)
{
    static const uint64_t zero[CAPACITY_TYPE_COUNT] = {0};
    uint64_t all[CAPACITY_TYPE_COUNT], exact[CAPACITY_TYPE_COUNT];
    struct world w;

    world_open(&w);
    for (int type = 0; type < CAPACITY_TYPE_COUNT; type++) {
        static const char *const ids[] = {"un", "bm", "rs", "od", "sp"};
        struct machine m = world_machine(&w, ids[type], MACHINE_IDLE);

        m.capacity_type = (enum capacity_type)type;
        CHECK_OK("insert", inventory_insert(w.inventory, &m, idle_at, &w.note));
        all[type] = 1;
        exact[type] = then.ms - idle_at.ms + (type == CAPACITY_SPOT);
    }
    CHECK_SIZE("by default after two minutes: spot", deletes(&w, NULL), 1);
    CHECK_SIZE("zero", deletes(&w, zero), 0);
    CHECK_SIZE("a millisecond each", deletes(&w, all), CAPACITY_TYPE_COUNT);
    CHECK_SIZE("to the millisecond: all but the one held longer", deletes(&w, exact),
               CAPACITY_TYPE_COUNT - 1);
    world_close(&w);
}

static double score(int32_t preemptor, int32_t victim, double interruption, double reclamation)
{
    struct stamp stamp = {.interruption_dollars = interruption, .reclamation_dollars = reclamation};
    struct cohort cohort = {.traits = {.stamp = &stamp}};
    struct supply_source source = {.cohort = &cohort, .priority = victim};
    struct decide_input input;

    decide_input_init(&input, then);
    return victim_score(&input.weights, preemptor, &source);
}

TEST(a_victims_score_is_that_of_the_specification)
{
    double worked = score(1000000, 400000, 5, 1);

    CHECK("the worked example", fabs(worked - 600000.123333) < 1e-5);
    CHECK("the less important gives way first", score(10, 1, 1, 1) > score(10, 2, 1, 1));
    CHECK("penalties break ties", score(10, 1, 1, 1) > score(10, 1, 10000, 1));
    CHECK("both of them", score(10, 1, 1, 1) > score(10, 1, 1, 10000));
    CHECK("without penalties it is finite", isfinite(score(0, 0, 0, 0)));
    CHECK("each has its own floor", fabs(score(0, 0, 0, 5) - (0.1 / 30 + 10 + 0.02)) < 1e-9);
    CHECK("pinned counts nothing", score(10, 1, (double)INFINITY, 1) < score(10, 1, 8388608, 1));
    CHECK("64 bits", score(INT32_MAX, INT32_MIN, 1, 1) > 4294967295.0);
    CHECK("no gap below zero", score(1, 5, 1, 1) < 1);
}
