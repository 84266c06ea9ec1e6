/* SPDX-License-Identifier: Apache-2.0 */
/* A shard that dies amid its work and begins anew with what a provider's List carries. Configure
 * gives the provider what a machine was bought for; Create and Drain give it nothing, so for whom a
 * machine is created or emptied is forgotten (docs/decision.md § 8). Nothing is done twice. */
#include <stdio.h>

#include "decide/loop.h"
#include "lib/test.h"

#define CPU "m5.large"

static struct machine machine_like(struct loop *loop, enum machine_state state)
{
    return (struct machine){.state = state,
                            .attributes = {.instance_type = STR(CPU), .zone = STR("z1")},
                            .capacity_type = CAPACITY_ON_DEMAND,
                            .price_per_hour = 1,
                            .resources = loop_size(loop, 4, 0)};
}

static const struct loop_need want_40 = {.type = CPU, .priority = 10, .units = 40, .cpu = 4};

static void add_rack(struct loop *loop, const char *rack, size_t count)
{
    struct label label = {STR("rack"), str_from(rack)};
    struct machine like = machine_like(loop, MACHINE_IDLE);

    like.attributes.instance_type = STR("gpu");
    like.capacity_type = CAPACITY_RESERVED;
    like.attributes.labels = &label;
    like.attributes.label_count = 1;
    loop_machines(loop, rack, count, like);
}

/* The larger gang came first and has the first rack. Without their stamps the smaller one, which is
 * first in the order, would be credited with it and send the other to move. */
TEST(a_fleet_at_rest_stays_at_rest)
{
    struct loop_need gangs[] = {
        {.type = "gpu", .same = "rack", .group = "a", .priority = 5, .units = 3, .cpu = 4},
        {.type = "gpu", .same = "rack", .group = "b", .priority = 5, .units = 4, .cpu = 4},
    };
    struct loop loop;
    size_t total;

    loop_open(&loop, 1, (struct loop_provider){.create_ms = 30 * 1000, .configure_ms = 20 * 1000});
    loop_machines(&loop, "q", 60, machine_like(&loop, MACHINE_SPECULATIVE));
    add_rack(&loop, "r0", 4);
    add_rack(&loop, "r1", 4);
    loop_demand(&loop, "web", &want_40, 1);
    loop_demand(&loop, "train", &gangs[1], 1);
    CHECK("settles", loop_settle(&loop, 60) != SIZE_MAX);
    loop_demand(&loop, "train", gangs, 2);
    CHECK("settles", loop_settle(&loop, 60) != SIZE_MAX);
    CHECK_SIZE("seven", loop_bound(&loop, "train"), 7);
    total = loop_actions(&loop);
    loop_restart(&loop);
    loop_run(&loop, 3);
    CHECK_SIZE("who has not reported keeps all", loop_actions(&loop), total);
    loop_demand(&loop, "train", gangs, 2);
    loop_run(&loop, 3);
    CHECK_SIZE("also when only one has", loop_actions(&loop), total);
    loop_demand(&loop, "web", &want_40, 1);
    loop_run(&loop, 100);
    CHECK_SIZE("own machines are known by their stamps", loop_actions(&loop), total);
    CHECK_SIZE("served", loop_unsatisfied(&loop), 0);
    loop_close(&loop);
}

TEST(what_is_being_configured_is_known)
{
    struct loop loop;

    loop_open(&loop, 1, (struct loop_provider){.configure_ms = 60 * 1000});
    loop_machines(&loop, "m", 60, machine_like(&loop, MACHINE_IDLE));
    loop_demand(&loop, "web", &want_40, 1);
    loop_run(&loop, 2);
    CHECK_SIZE("under way", loop_count(&loop, MACHINE_CONFIGURING), 40);
    loop_restart(&loop);
    loop_demand(&loop, "web", &want_40, 1);
    loop_run(&loop, 20);
    CHECK_SIZE("each once", loop.actions[ACTION_BOOTSTRAP], 40);
    CHECK_SIZE("all serve", loop_bound(&loop, "web"), 40);
    loop_close(&loop);
}

/* Machines that are being created when the shard dies are nobody's afterwards, and count for
 * a Need that lacks one. */
TEST(what_is_being_created_is_not_bought_again)
{
    struct loop loop;

    loop_open(&loop, 1, (struct loop_provider){.create_ms = 60 * 1000});
    loop_machines(&loop, "q", 200, machine_like(&loop, MACHINE_SPECULATIVE));
    loop_demand(&loop, "web", &want_40, 1);
    loop_run(&loop, 2);
    CHECK_SIZE("under way", loop_count(&loop, MACHINE_CREATING), 40);
    loop_restart(&loop);
    loop_demand(&loop, "web", &want_40, 1);
    CHECK("settles", loop_settle(&loop, 200) != SIZE_MAX);
    fprintf(stderr, "a restart amid 40 creations: %zu bought, %zu bootstraps, %zu reclaims\n",
            loop.actions[ACTION_PROVISION], loop.actions[ACTION_BOOTSTRAP],
            loop.actions[ACTION_RECLAIM]);
    CHECK_SIZE("forty for forty", loop.actions[ACTION_PROVISION], 40);
    CHECK_SIZE("all serve", loop_bound(&loop, "web"), 40);
    CHECK_SIZE("each from its first day", loop.actions[ACTION_RECLAIM], 0);
    loop_run(&loop, 70);
    CHECK_SIZE("nothing was left over", loop.actions[ACTION_DELETE], 0);
    loop_close(&loop);
}

/* Machines that are drained for somebody when the shard dies are drained for nobody afterwards, and
 * count as coming back for a Need that lacks one. */
TEST(what_is_being_drained_is_not_preempted_again)
{
    struct loop_need batch = {.type = CPU, .units = 100, .cpu = 4},
                     train = {.type = CPU, .priority = 1000000, .units = 30, .cpu = 4};
    struct loop loop;

    loop_open(&loop, 3,
              (struct loop_provider){.drain_min_ms = 100 * 1000, .drain_max_ms = 600 * 1000});
    loop_machines(&loop, "m", 100, machine_like(&loop, MACHINE_IDLE));
    loop_demand(&loop, "batch", &batch, 1);
    CHECK("settles", loop_settle(&loop, 60) != SIZE_MAX);
    loop_demand(&loop, "train", &train, 1);
    loop_run(&loop, 5);
    CHECK_SIZE("under way", loop_count(&loop, MACHINE_DRAINING), 30);
    loop_restart(&loop);
    loop_demand(&loop, "batch", &batch, 1);
    loop_demand(&loop, "train", &train, 1);
    CHECK("settles", loop_settle(&loop, 400) != SIZE_MAX);
    fprintf(stderr, "a restart amid 30 drains: %zu preempted\n", loop.actions[ACTION_PREEMPT]);
    CHECK_SIZE("thirty for thirty", loop.actions[ACTION_PREEMPT], 30);
    CHECK_SIZE("train has what it asked for", loop_bound(&loop, "train"), 30);
    CHECK_SIZE("batch has the rest", loop_bound(&loop, "batch"), 70);
    CHECK_SIZE("nobody was let go", loop.actions[ACTION_RECLAIM], 0);
    loop_close(&loop);
}

/* It dies again and again while it grows. */
TEST(a_shard_that_keeps_dying_still_serves)
{
    struct loop loop;

    loop_open(&loop, 1, (struct loop_provider){.create_ms = 30 * 1000, .configure_ms = 10 * 1000});
    loop_machines(&loop, "q", 400, machine_like(&loop, MACHINE_SPECULATIVE));
    for (int life = 0; life < 6; life++) {
        loop_demand(&loop, "web", &want_40, 1);
        loop_run(&loop, 2);
        CHECK_SIZE("forty for forty", loop.actions[ACTION_PROVISION], 40);
        loop_restart(&loop);
    }
    loop_demand(&loop, "web", &want_40, 1);
    CHECK("settles", loop_settle(&loop, 60) != SIZE_MAX);
    CHECK_SIZE("served", loop_bound(&loop, "web"), 40);
    CHECK_SIZE("and nothing is left over", loop_count(&loop, MACHINE_IDLE), 0);
    loop_close(&loop);
}
