/* SPDX-License-Identifier: Apache-2.0 */
/* Gangs and spreads in a living fleet: what they hold stays where it is, however long a machine
 * takes, and what fits on one machine is not given a machine each. */
#include <stdio.h>

#include "decide/loop.h"
#include "lib/test.h"

#define GPU  "a3-highgpu-8g"
#define HOST "kubernetes.io/hostname"

static void add_labelled(struct loop *loop, const char *prefix, const char *key, const char *value,
                         size_t count, struct machine like)
{
    struct label label = {str_from(key), str_from(value)};

    like.attributes.labels = &label;
    like.attributes.label_count = 1;
    loop_machines(loop, prefix, count, like);
}

static struct machine machine_like(struct loop *loop, enum machine_state state, uint32_t cpu,
                                   uint32_t gpu)
{
    return (struct machine){.state = state,
                            .attributes = {.instance_type = STR(GPU), .zone = STR("z1")},
                            .capacity_type = CAPACITY_RESERVED,
                            .price_per_hour = 1,
                            .resources = loop_size(loop, cpu, gpu)};
}

static void add_racks(struct loop *loop, size_t racks, size_t each, enum machine_state state)
{
    for (size_t r = 0; r < racks; r++) {
        char prefix[16], rack[16];

        snprintf(prefix, sizeof prefix, "m%zu", r);
        snprintf(rack, sizeof rack, "r%zu", r);
        add_labelled(loop, prefix, "rack", rack, each, machine_like(loop, state, 0, 8));
    }
}

static const struct loop_need gangs[] = {
    {.type = GPU, .same = "rack", .group = "a", .priority = 10, .units = 4, .gpu = 8},
    {.type = GPU, .same = "rack", .group = "b", .priority = 10, .units = 3, .gpu = 8},
    {.type = GPU, .same = "rack", .group = "c", .priority = 9, .units = 4, .gpu = 8},
};

/* Which gang each machine was bought for, as one text. */
static void holdings(struct loop *loop, char *text, size_t cap)
{
    size_t at = 0;

    for (size_t i = 0; i < loop->machine_count; i++) {
        struct machine m = loop_machine(loop, loop->machines[i].id);

        CHECK("room", at + 2 < cap);
        text[at++] = m.stamp.group.len ? m.stamp.group.at[0] : '.';
    }
    text[at] = '\0';
}

/* Machines stay Configuring for so many cycles; the domain and the machines of every gang must not
 * change from the moment it has them. */
TEST(gangs_stay_where_they_are_while_machines_are_configured)
{
    for (uint64_t dwell = 0; dwell <= 6; dwell++) {
        char first[128] = "", now[128];
        struct str domains[3];
        struct loop loop;

        loop_open(&loop, 1,
                  (struct loop_provider){.configure_ms = dwell * LOOP_CYCLE_MS,
                                         .create_ms = dwell * LOOP_CYCLE_MS});
        add_racks(&loop, 4, 4, dwell % 2 ? MACHINE_IDLE : MACHINE_SPECULATIVE);
        loop_demand(&loop, "train", gangs, 3);
        for (int cycle = 0; cycle < 30; cycle++) {
            if (cycle == 1) /* a rack that a gang without machines would like better */
                add_labelled(&loop, "new", "rack", "a", 4, machine_like(&loop, MACHINE_IDLE, 0, 8));
            loop_cycle(&loop);
            CHECK_SIZE("three rows", loop.decision->verdict_count, 3);
            for (int i = 0; i < 3; i++) {
                const struct need_verdict *v = &loop.decision->verdicts[i];
                CHECK("satisfied from the first cycle on", v->satisfied && v->has_domain);
                if (cycle == 0) {
                    const char *copy = arena_dup(&loop.arena, v->domain);
                    domains[i] = str_of(copy, v->domain.len);
                }
                CHECK_STR("the domain stays", v->domain, domains[i]);
                CHECK_U32("so do its machines", v->claimed, gangs[i].units);
            }
            if (dwell % 2 == 0) continue; /* a created machine is stamped twice: below */
            holdings(&loop, now, sizeof now);
            now[16] = '\0'; /* the racks of the start */
            if (cycle == 0) memcpy(first, now, sizeof first);
            CHECK_TEXT("each machine stays with its gang", now, first);
        }
        CHECK_SIZE("all are bound", loop_bound(&loop, "train"), 11);
        CHECK_SIZE("each was bootstrapped once", loop.actions[ACTION_BOOTSTRAP], 11);
        CHECK_SIZE("nothing was let go", loop.actions[ACTION_RECLAIM], 0);
        loop_close(&loop);
    }
}

/* Sixty gangs of four pods, each of a quarter of a machine: fifteen machines, not sixty. */
TEST(gangs_smaller_than_a_machine_share_machines)
{
    enum { GANGS = 60 };
    static struct loop_need small[GANGS];
    static char names[GANGS][8];
    struct loop loop;
    size_t total, shortfalls;

    loop_open(&loop, 1, (struct loop_provider){.create_ms = 30 * 1000, .configure_ms = 20 * 1000});
    for (size_t r = 0; r < 8; r++) {
        char prefix[16], rack[16];

        snprintf(prefix, sizeof prefix, "m%zu", r);
        snprintf(rack, sizeof rack, "r%zu", r);
        add_labelled(&loop, prefix, "rack", rack, 10,
                     machine_like(&loop, MACHINE_SPECULATIVE, 16, 0));
    }
    for (int i = 0; i < GANGS; i++) {
        snprintf(names[i], sizeof names[i], "g%d", i);
        small[i] = (struct loop_need){
            .type = GPU, .same = "rack", .group = names[i], .priority = 100, .units = 4, .cpu = 1};
    }
    loop_demand(&loop, "web", small, GANGS);
    CHECK("settles", loop_settle(&loop, 60) != SIZE_MAX);
    CHECK_SIZE("four gangs a machine", loop_bound(&loop, "web"), GANGS * 4 / 16);
    CHECK_SIZE("bought once", loop.actions[ACTION_PROVISION], GANGS * 4 / 16);
    CHECK_SIZE("nobody lacks anything", loop_unsatisfied(&loop), 0);
    ledger_shortfalls(loop.ledger, &shortfalls);
    CHECK_SIZE("and the ledger says so", shortfalls, 0);
    total = loop_actions(&loop);
    loop_run(&loop, 100);
    CHECK_SIZE("quiet", loop_actions(&loop), total);
    loop_close(&loop);
}

/* One gang too large for any rack, two that fit: these are served, that one is short for ever and
 * nothing that is let go could have served it. */
TEST(an_oversized_gang_leaves_the_others_alone)
{
    struct loop_need needs[] = {
        {.type = GPU, .same = "rack", .group = "big", .priority = 10, .units = 8, .gpu = 8},
        {.type = GPU, .same = "rack", .group = "x", .priority = 10, .units = 4, .gpu = 8},
        {.type = GPU, .same = "rack", .group = "y", .priority = 10, .units = 4, .gpu = 8},
    };
    struct loop loop;
    size_t total, count, parked = 0;

    loop_open(&loop, 1, (struct loop_provider){.create_ms = 30 * 1000, .configure_ms = 20 * 1000});
    add_racks(&loop, 4, 4, MACHINE_SPECULATIVE); /* one is to spare */
    loop_demand(&loop, "train", needs, 3);
    loop_run(&loop, 200);
    total = loop_actions(&loop);
    CHECK_SIZE("what lacks a machine takes none from another", loop.actions[ACTION_PREEMPT], 0);
    for (int cycle = 0; cycle < 100; cycle++) {
        const struct shortfall *const *sorted;

        loop_cycle(&loop);
        CHECK_SIZE("one is short", loop_unsatisfied(&loop), 1);
        for (size_t i = 0; i < loop.decision->verdict_count; i++)
            parked += loop.decision->verdicts[i].parked;
        sorted = ledger_shortfalls(loop.ledger, &count);
        CHECK_SIZE("one shortfall", count, 1);
        CHECK_I64("of the four that no rack has", (int64_t)resource_sum_get(&sorted[0]->lacking, 1),
                  4 * 8 * 1000);
    }
    CHECK("parked, but for a probe now and then", parked >= 95 && parked < 100);
    CHECK_SIZE("the last hundred cycles are quiet", loop_actions(&loop), total);
    CHECK_SIZE("the two and what the big one could get", loop_bound(&loop, "train"), 12);
    loop_close(&loop);
}

/* Hundreds of domains: the commonest spread there is. Two cheap slots on each of 500 hosts and a
 * dear one on each of 500 others: one of every host is taken, however cheap the second is. */
TEST(a_spread_over_host_names_takes_one_of_each)
{
    enum { HOSTS = 1000, UNITS = 900 };
    struct loop_need need = {.type = GPU, .spread = HOST, .priority = 10, .units = UNITS, .gpu = 8};
    size_t cheap = 0;
    struct loop loop;

    loop_open(&loop, 1, (struct loop_provider){.configure_ms = 20 * 1000});
    for (int h = 0; h < HOSTS; h++) {
        struct machine like = machine_like(&loop, MACHINE_IDLE, 0, 8);
        char host[16];

        like.price_per_hour = h < HOSTS / 2 ? 1 : 5;
        snprintf(host, sizeof host, "h%04d", h);
        add_labelled(&loop, host, HOST, host, h < HOSTS / 2 ? 2 : 1, like);
    }
    loop_demand(&loop, "web", &need, 1);
    CHECK("settles", loop_settle(&loop, 20) != SIZE_MAX);
    CHECK_SIZE("served", loop_bound(&loop, "web"), UNITS);
    for (size_t i = 0; i < loop.machine_count; i++) {
        struct machine m = loop_machine(&loop, loop.machines[i].id);
        cheap += m.state == MACHINE_CONFIGURED && m.price_per_hour < 2;
    }
    CHECK_SIZE("one of each cheap host, the rest of the others", cheap, HOSTS / 2);
    loop_close(&loop);
}

/* The provider says no to one Configure: that machine is Failed with its error, another serves. */
TEST(a_refused_configure_costs_one_machine)
{
    struct loop_need need = {.type = GPU, .priority = 10, .units = 3, .gpu = 8};
    struct loop loop;
    struct machine broken;

    loop_open(&loop, 1, (struct loop_provider){.configure_ms = 20 * 1000});
    loop_machines(&loop, "m", 5, machine_like(&loop, MACHINE_IDLE, 0, 8));
    loop_demand(&loop, "web", &need, 1);
    loop_cycle(&loop);
    CHECK_SIZE("three begin", loop_count(&loop, MACHINE_CONFIGURING), 3);
    loop.machines[0].will_fail = true;
    loop_run(&loop, 3);
    broken = loop_machine(&loop, "m-0000");
    CHECK_U32("it is Failed", broken.state, MACHINE_FAILED);
    CHECK("and says why", broken.last_error.len > 0);
    CHECK_SIZE("one more was begun", loop.actions[ACTION_BOOTSTRAP], 4);
    loop_run(&loop, 20);
    CHECK_SIZE("three serve", loop_bound(&loop, "web"), 3);
    CHECK_SIZE("and no more was begun", loop.actions[ACTION_BOOTSTRAP], 4);
    loop_close(&loop);
}
