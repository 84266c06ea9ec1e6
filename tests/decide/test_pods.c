/* SPDX-License-Identifier: Apache-2.0 */
/* Fleets in which demand reacts to what is done: pods run on machines, are evicted when one is
 * drained, come back or do not (decision.md § 14).
 *
 * Two of these are canaries. They do what nobody should: pods without a controller, and requests
 * for pending pods only. Both must show the runaway that they are known for, or else this
 * simulation could not see one; done rightly, the same fleet is at rest. */
#include <stdio.h>

#include "decide/loop.h"
#include "lib/test.h"
#include "model/penalty.h"

#define TINY "c6a.xlarge"
enum { CLUSTERS = 2, PODS = 200, DENSITY = 10, SURPLUS = 3 };

struct pods {
    struct loop loop;
    uint32_t on[LOOP_MACHINES_MAX]; /* pods by machine of the loop ... */
    int whose[LOOP_MACHINES_MAX];   /* ... and the cluster they are of */
    uint32_t pending[CLUSTERS];
    size_t destroyed, reclaim_cycles;
    bool bare, unmet_only, reports;
};
static const char *const names[CLUSTERS] = {"a", "b"};

static void pods_open(struct pods *p, size_t bound, size_t quota)
{
    struct machine like = {.capacity_type = CAPACITY_ON_DEMAND,
                           .attributes = {.instance_type = STR(TINY)},
                           .price_per_hour = 1};

    memset(p, 0, sizeof *p);
    loop_open(&p->loop, 1, (struct loop_provider){.drain_max_ms = 20 * 1000});
    like.resources = loop_size(&p->loop, DENSITY, 0);
    for (int c = 0; c < CLUSTERS; c++) {
        like.state = MACHINE_CONFIGURED;
        like.cluster = str_from(names[c]);
        loop_machines(&p->loop, names[c], bound, like);
    }
    like.state = MACHINE_SPECULATIVE;
    like.cluster = STR_EMPTY;
    loop_machines(&p->loop, "q", quota, like);
}

/* The cluster a machine serves; CLUSTERS: none. Draining evicts at once. */
static int serves(struct pods *p, size_t machine)
{
    struct machine m = loop_machine(&p->loop, p->loop.machines[machine].id);

    if (m.state != MACHINE_CONFIGURED) return CLUSTERS;
    return str_equal(m.cluster, str_from(names[0])) ? 0 : 1;
}

/* Pods of machines that went, then pods that wait: on the emptiest machine of their cluster. */
static void place_pods(struct pods *p)
{
    static int of[LOOP_MACHINES_MAX];

    for (size_t i = 0; i < p->loop.machine_count; i++) {
        of[i] = serves(p, i);
        if (of[i] < CLUSTERS || !p->on[i]) continue;
        p->destroyed += p->on[i];
        if (!p->bare) p->pending[p->whose[i]] += p->on[i];
        p->on[i] = 0;
    }
    for (int c = 0; c < CLUSTERS; c++) {
        while (p->pending[c]) {
            size_t best = SIZE_MAX;

            for (size_t i = 0; i < p->loop.machine_count; i++)
                if (of[i] == c && p->on[i] < DENSITY &&
                    (best == SIZE_MAX || p->on[i] < p->on[best]))
                    best = i;
            if (best == SIZE_MAX) break;
            p->on[best]++;
            p->whose[best] = c;
            p->pending[c]--;
        }
    }
}

static uint32_t bound_pods(struct pods *p, int cluster)
{
    uint32_t sum = 0;

    for (size_t i = 0; i < p->loop.machine_count; i++)
        if (p->on[i] && serves(p, i) == cluster) sum += p->on[i];
    return sum;
}

static void report_pods(struct pods *p)
{
    for (size_t i = 0; i < p->loop.machine_count; i++) {
        enum occupancy busy = p->bare ? OCCUPANCY_HELD : OCCUPANCY_EVICTABLE;

        CHECK_OK("report", inventory_occupy(p->loop.inventory, str_from(p->loop.machines[i].id),
                                            p->on[i] ? busy : OCCUPANCY_EMPTY, PENALTY_DOLLAR));
    }
}

static void pods_run(struct pods *p, size_t cycles)
{
    while (cycles-- > 0) {
        size_t reclaims = p->loop.actions[ACTION_RECLAIM];

        place_pods(p);
        if (p->reports) report_pods(p);
        for (int c = 0; c < CLUSTERS; c++) {
            struct loop_need need = {.type = TINY, .priority = 100, .cpu = 1};

            need.units = p->pending[c] + (p->unmet_only ? 0 : bound_pods(p, c));
            loop_demand(&p->loop, names[c], &need, 1);
        }
        loop_cycle(&p->loop);
        p->reclaim_cycles += p->loop.actions[ACTION_RECLAIM] > reclaims;
    }
}

static uint32_t alive(struct pods *p)
{
    return bound_pods(p, 0) + bound_pods(p, 1) + p->pending[0] + p->pending[1];
}

static void bare_pods(struct pods *p, bool bare)
{
    pods_open(p, PODS / DENSITY + SURPLUS, 0);
    p->bare = bare;
    p->pending[0] = p->pending[1] = PODS;
}

TEST(canary_bare_pods_are_destroyed_wave_by_wave)
{
    static struct pods p;

    bare_pods(&p, true);
    pods_run(&p, 80);
    fprintf(stderr, "bare pods: %zu destroyed, %zu reclaims in %zu cycles\n", p.destroyed,
            p.loop.actions[ACTION_RECLAIM], p.reclaim_cycles);
    CHECK("a hundred and twenty and more", p.destroyed >= 120);
    CHECK("more than the surplus and its like", p.loop.actions[ACTION_RECLAIM] > 12);
    CHECK("wave by wave", p.reclaim_cycles >= 5);
    loop_close(&p.loop);
}

TEST(pods_with_controllers_lose_the_surplus_and_come_to_rest)
{
    static struct pods p;
    size_t total;

    bare_pods(&p, false);
    pods_run(&p, 70); /* the surplus is let go when its hold is over */
    total = loop_actions(&p.loop);
    pods_run(&p, 40);
    CHECK_SIZE("the last forty cycles are quiet", loop_actions(&p.loop), total);
    CHECK_SIZE("the surplus went", p.loop.actions[ACTION_RECLAIM], (size_t)SURPLUS * CLUSTERS);
    CHECK_U32("all pods are alive", alive(&p), CLUSTERS * PODS);
    CHECK_U32("and run", p.pending[0] + p.pending[1], 0);
    loop_close(&p.loop);
}

/* The same pods as the canary's, with reports of what runs where. */
TEST(bare_pods_that_are_reported_keep_their_machines_and_empty_machines_go)
{
    enum { EMPTIED = 5 };
    static struct pods p;

    bare_pods(&p, true);
    p.reports = true;
    pods_run(&p, 40);
    CHECK_SIZE("every machine runs something", p.loop.actions[ACTION_RECLAIM], 0);
    memset(p.on, 0, EMPTIED * sizeof p.on[0]);
    pods_run(&p, 40);
    CHECK_SIZE("the empty machines went", p.loop.actions[ACTION_RECLAIM], EMPTIED);
    for (size_t i = 0; i < EMPTIED; i++) CHECK_U32("these", serves(&p, i), CLUSTERS);
    CHECK_SIZE("no pod was lost", p.destroyed, 0);
    loop_close(&p.loop);
}

static size_t acquisitions(const struct pods *p)
{
    return p->loop.actions[ACTION_BOOTSTRAP] + p->loop.actions[ACTION_PROVISION];
}

static void run_requests(struct pods *p, bool unmet_only, size_t *ret_reclaims, size_t *ret_bought)
{
    pods_open(p, 0, 60);
    p->unmet_only = unmet_only;
    p->pending[0] = p->pending[1] = PODS;
    pods_run(p, 60);
    *ret_reclaims = p->loop.actions[ACTION_RECLAIM];
    *ret_bought = acquisitions(p);
    pods_run(p, 60);
    *ret_reclaims = p->loop.actions[ACTION_RECLAIM] - *ret_reclaims;
    *ret_bought = acquisitions(p) - *ret_bought;
}

TEST(canary_requests_for_pending_pods_only_buy_and_reclaim_for_ever)
{
    static struct pods p;
    size_t reclaims, bought;

    run_requests(&p, true, &reclaims, &bought);
    fprintf(stderr, "pending pods only: %zu reclaims, %zu acquisitions in the last 60 cycles\n",
            reclaims, bought);
    CHECK("reclaims without end", reclaims >= 100);
    CHECK("and acquisitions", bought >= 100);
    loop_close(&p.loop);
}

TEST(one_request_a_pod_for_its_whole_life_is_quiet)
{
    static struct pods p;
    size_t reclaims, bought;

    run_requests(&p, false, &reclaims, &bought);
    CHECK_SIZE("nothing is reclaimed", p.loop.actions[ACTION_RECLAIM], 0);
    CHECK_SIZE("nothing is bought any more", bought, 0);
    CHECK_U32("all run", p.pending[0] + p.pending[1], 0);
    CHECK_SIZE("ten pods a machine", loop_count(&p.loop, MACHINE_CONFIGURED),
               CLUSTERS * PODS / DENSITY);
    loop_close(&p.loop);
}
