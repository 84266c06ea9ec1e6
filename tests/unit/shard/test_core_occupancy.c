/* SPDX-License-Identifier: Apache-2.0 */
/* What machines run, as operators report it: which machines a scale-in takes, and whether the pods
 * of a busy one have room elsewhere (decision.md 2, 4 and 6). */
#include <stdio.h>

#include "fleet.h"
#include "lib/fault_alloc.h"
#include "lib/test.h"
#include "shard/state/cohort.h"

enum { CPU = 4, MOST = 24 };

struct reports {
    struct machine_occupancy rows[MOST];
    size_t count;
    bool pending;
};

static struct resources cpus(struct fleet *f, int64_t cpu)
{
    struct resources out = {0};
    uint32_t index;

    CHECK_OK("cpu", dimensions_index(core_dimensions(f->core), STR("cpu"), &index, NULL));
    CHECK_OK("cpu", resources_set(&out, index, cpu * 1000, QUANTITY_DECIMAL_SI));
    return out;
}

/* `pods` of 1 cpu each that may be evicted, `held` of nothing that may not. */
static struct machine_occupancy *report(struct fleet *f, struct reports *r, const char *machine,
                                        uint32_t pods, uint32_t held, int64_t free)
{
    struct machine_occupancy *row = &r->rows[r->count++];

    *row = (struct machine_occupancy){.machine = str_from(machine),
                                      .evictable = pods,
                                      .held = held,
                                      .disruption = pods,
                                      .free = cpus(f, free),
                                      .requested = cpus(f, pods),
                                      .largest = cpus(f, 1)};
    return row;
}

static enum err try_send(struct fleet *f, const char *cluster, const struct reports *r)
{
    struct effects out = {0};
    enum err err;

    effects_init(&out);
    err = core_occupancy(f->core, str_from(cluster), r->rows, r->count, r->pending, fleet_now(f),
                         &out);
    effects_deinit(&out);
    return err;
}

static void send(struct fleet *f, const struct reports *r)
{
    CHECK_OK("reports", try_send(f, "a", r));
}

static void open_bound(struct fleet *f, size_t count)
{
    fleet_open(f, NULL, 64);
    fleet_add(f, "m", count, MACHINE_CONFIGURED, "a");
    fleet_list(f);
    fleet_session(f, "a", true);
    fleet_demand(f, "a", 1000, 0);
}

static struct machine_facts facts(struct fleet *f, const char *machine)
{
    struct machine_facts out;

    CHECK_OK("facts", core_machine(f->core, str_from(machine), fleet_now(f), &out));
    return out;
}

static bool stays(struct fleet *f, const char *machine)
{
    return fleet_state(f, machine) == MACHINE_CONFIGURED;
}

TEST(empty_machines_go_and_machines_with_held_pods_stay)
{
    struct reports r = {0};
    struct fleet f;

    open_bound(&f, 4);
    report(&f, &r, "m-000", 0, 1, 0);
    report(&f, &r, "m-001", 0, 0, CPU);
    report(&f, &r, "m-002", 3, 1, 0);
    report(&f, &r, "m-003", 0, 0, CPU);
    send(&f, &r);
    fleet_cycles(&f, 10);
    CHECK("bare pods", stays(&f, "m-000") && stays(&f, "m-002"));
    CHECK("empty", !stays(&f, "m-001") && !stays(&f, "m-003"));
    CHECK("facts", facts(&f, "m-002").occupancy_known && !facts(&f, "m-002").no_room);
    CHECK_U32("evictable", facts(&f, "m-002").evictable_pods, 3);
    CHECK_U32("held", facts(&f, "m-002").held_pods, 1);
    fleet_check(&f);
    r.rows[0].held = 0; /* the pod ended */
    send(&f, &r);
    fleet_cycles(&f, 3);
    CHECK("it has become empty", !stays(&f, "m-000"));
    r.count = 0; /* an operator that cannot report took over */
    send(&f, &r);
    fleet_cycles(&f, 3);
    CHECK("without reports everything goes", !stays(&f, "m-002"));
    fleet_check(&f);
    fleet_close(&f);
}

TEST(a_busy_machine_goes_only_when_its_pods_have_room_elsewhere)
{
    struct reports r = {0};
    struct fleet f;

    open_bound(&f, 3);
    fleet_demand(&f, "a", 1000, 2);
    for (int i = 0; i < 3; i++) {
        static const char *const ids[] = {"m-000", "m-001", "m-002"};
        report(&f, &r, ids[i], 2, 0, 0);
    }
    send(&f, &r);
    fleet_cycles(&f, 10);
    CHECK_SIZE("all stay", fleet_count(&f, MACHINE_CONFIGURED), 3);
    CHECK("why",
          facts(&f, "m-000").no_room || facts(&f, "m-001").no_room || facts(&f, "m-002").no_room);
    CHECK("said", strstr(f.logs, "busy machines stay: their pods have no room elsewhere"));
    CHECK_U64("each was tried once", core_counts(f.core)->roomless, 3);
    send(&f, &r); /* the same again */
    fleet_cycles(&f, 3);
    CHECK_U64("and not again", core_counts(f.core)->roomless, 3);
    r.rows[0].free = r.rows[1].free = r.rows[2].free = cpus(&f, 1);
    send(&f, &r);
    fleet_cycles(&f, 10);
    CHECK_SIZE("one pod fits on each", fleet_count(&f, MACHINE_CONFIGURED), 2);
    fleet_check(&f);
    fleet_close(&f);
}

TEST(one_machine_may_take_all_pods_though_the_largest_would_not_fit_so_often)
{
    struct reports r = {0};
    struct fleet f;

    open_bound(&f, 2);
    fleet_demand(&f, "a", 1000, 1);
    for (int i = 0; i < 2; i++) {
        struct machine_occupancy *row = report(&f, &r, i ? "m-001" : "m-000", 2, 0, 3);
        row->requested = cpus(&f, 3); /* 1 and 2 */
        row->largest = cpus(&f, 2);
    }
    send(&f, &r);
    fleet_cycles(&f, 3);
    CHECK_SIZE("one goes", fleet_count(&f, MACHINE_CONFIGURED), 1);
    fleet_close(&f);
}

TEST(room_is_used_once_also_by_machines_that_are_still_drained)
{
    struct reports r = {0};
    struct fleet f;

    open_bound(&f, 4);
    fleet_demand(&f, "a", 1000, 2);
    f.latency_ms[EFFECT_DRAIN] = 3600 * 1000;
    for (int i = 0; i < 4; i++) {
        static const char *const ids[] = {"m-000", "m-001", "m-002", "m-003"};
        report(&f, &r, ids[i], 2, 0, 1);
    }
    send(&f, &r);
    fleet_cycle(&f);
    CHECK_SIZE("room for one", fleet_count(&f, MACHINE_CONFIGURED), 3);
    r.rows[0].disruption = r.rows[1].disruption = 9; /* other reports: tried again */
    send(&f, &r);
    fleet_cycle(&f);
    CHECK_SIZE("it still needs that room", fleet_count(&f, MACHINE_CONFIGURED), 3);
    fleet_check(&f);
    fleet_close(&f);
}

TEST(a_report_counts_only_for_machines_of_its_cluster_that_are_configured)
{
    struct reports r = {0};
    struct fleet f;

    open_bound(&f, 2);
    fleet_add(&f, "b", 1, MACHINE_CONFIGURED, "b");
    fleet_add(&f, "i", 1, MACHINE_IDLE, NULL);
    fleet_list(&f);
    report(&f, &r, "b-000", 0, 1, 0);
    report(&f, &r, "i-000", 0, 1, 0);
    report(&f, &r, "gone", 0, 1, 0);
    report(&f, &r, "m-000", 0, 0, 0);
    report(&f, &r, "m-000", 0, 1, 0); /* named twice: the one with more pods counts */
    send(&f, &r);
    CHECK("not of this cluster", !facts(&f, "b-000").occupancy_known);
    CHECK_U32("named twice", facts(&f, "m-000").held_pods, 1);
    fleet_session(&f, "b", true);
    fleet_demand(&f, "b", 1000, 0);
    fleet_cycles(&f, 2);
    CHECK("it goes as ever", !stays(&f, "b-000"));
    CHECK("it stays", stays(&f, "m-000"));
    CHECK("without a report it goes", !stays(&f, "m-001"));
    fleet_check(&f);
    fleet_close(&f);
}

TEST(nothing_is_reclaimed_while_the_operator_does_not_know_its_machines)
{
    struct reports r = {0};
    struct fleet f;

    open_bound(&f, 3);
    report(&f, &r, "m-000", 0, 1, 0);
    send(&f, &r);
    r.count = 0; /* the operator was restarted */
    r.pending = true;
    send(&f, &r);
    fleet_cycles(&f, 5);
    CHECK_SIZE("all stay", fleet_count(&f, MACHINE_CONFIGURED), 3);
    CHECK_U32("the earlier report counts", facts(&f, "m-000").held_pods, 1);
    fleet_cycles(&f, 12); /* two minutes: it does not say more */
    CHECK_SIZE("without reports they go", fleet_count(&f, MACHINE_CONFIGURED), 1);
    r.pending = false;
    send(&f, &r);
    fleet_cycles(&f, 3);
    CHECK_SIZE("it says that it knows nothing", fleet_count(&f, MACHINE_CONFIGURED), 0);
    fleet_check(&f);
    fleet_close(&f);
}

TEST(running_out_of_memory_keeps_the_earlier_reports)
{
    struct reports r = {0};
    struct fleet f;
    size_t tries = 0;
    enum err err;

    open_bound(&f, 2);
    report(&f, &r, "m-000", 0, 1, 0);
    send(&f, &r);
    report(&f, &r, "m-001", 0, 1, 0);
    do {
        fault_alloc_arm(++tries);
        err = try_send(&f, "a", &r);
        fault_alloc_arm(0);
        CHECK_U32("m-000", facts(&f, "m-000").held_pods, 1);
        CHECK("m-001", facts(&f, "m-001").occupancy_known == !err);
    } while (err == ERR_NOMEM);
    CHECK_OK("at last", err);
    fleet_check(&f);
    fleet_close(&f);
}

/* --- random pods: what leaves can really be placed --- */

struct world {
    int64_t free[MOST], pods[MOST][3]; /* 0: no pod */
    bool leaves[MOST];
    size_t count;
};

/* Places the pods of all machines that leave, from pod `from` on. */
static bool placeable(struct world *w, size_t from)
{
    size_t machine = from / 3;

    if (machine == w->count) return true;
    if (!w->leaves[machine] || !w->pods[machine][from % 3]) return placeable(w, from + 1);
    for (size_t i = 0; i < w->count; i++) {
        int64_t size = w->pods[machine][from % 3];
        bool fits;
        if (w->leaves[i] || w->free[i] < size) continue;
        w->free[i] -= size;
        fits = placeable(w, from + 1);
        w->free[i] += size;
        if (fits) return true;
    }
    return false;
}

static void random_world(struct prng *p)
{
    struct reports r = {0};
    struct world w = {.count = prng_between(p, 2, 7)};
    char ids[MOST][8];
    struct fleet f;

    open_bound(&f, w.count);
    fleet_demand(&f, "a", 1000, (uint32_t)prng_below(p, w.count));
    f.latency_ms[EFFECT_DRAIN] = 3600 * 1000;
    for (size_t i = 0; i < w.count; i++) {
        struct machine_occupancy *row;
        int64_t all = 0, largest = 0;
        uint32_t pods = 0;
        for (size_t k = 0; k < 3; k++) {
            w.pods[i][k] = (int64_t)prng_below(p, 4);
            pods += w.pods[i][k] > 0;
            all += w.pods[i][k];
            if (w.pods[i][k] > largest) largest = w.pods[i][k];
        }
        w.free[i] = (int64_t)prng_below(p, 5);
        snprintf(ids[i], sizeof ids[i], "m-%03zu", i);
        row = report(&f, &r, ids[i], pods, prng_below(p, 8) == 0, w.free[i]);
        row->requested = cpus(&f, all);
        row->largest = cpus(&f, largest);
    }
    send(&f, &r);
    fleet_cycles(&f, 8); /* drains do not end, so all that leave need room at once */
    for (size_t i = 0; i < w.count; i++) {
        w.leaves[i] = !stays(&f, ids[i]);
        CHECK("held pods stay", !w.leaves[i] || !r.rows[i].held);
    }
    CHECK("everything that leaves has room", placeable(&w, 0));
    fleet_check(&f);
    fleet_close(&f);
}

TEST(pods_of_machines_that_leave_can_be_placed_on_those_that_stay)
{
    struct prng p;

    for (uint64_t seed = 1; seed <= 400; seed++) {
        fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
        prng_seed(&p, seed);
        random_world(&p);
    }
}
