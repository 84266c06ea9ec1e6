/* SPDX-License-Identifier: Apache-2.0 */
/* The core under everything that can happen to it, from a seed: calls answered late, lost before or
 * after they were done, done long after, refused, garbled, never answered; Lists that lag, full and
 * deltas; sessions that come and go; demand that jumps; machines that break; domains that change;
 * memory that is not there; a shard that is killed and started again, or paused or fenced. After
 * every event all tables are right, no machine has two calls under way and none is left alone in a
 * passing state; after a hold no call that changes a machine is asked for.
 * Then the faults stop, and everything must come to rest where the demand wants it.
 *
 * MUSTER_WORLDS and MUSTER_SOAK_CYCLES make it longer. */
#include <stdio.h>
#include <stdlib.h>

#include "fleet.h"
#include "lib/fault_alloc.h"
#include "lib/test.h"

enum { CLUSTERS = 3, WORLDS = 100, STEPS = 120 };
static const char *const clusters[CLUSTERS] = {"a", "b", "c"};

struct world {
    struct fleet fleet;
    struct prng prng;
    uint32_t wanted[CLUSTERS];
    struct fleet_machine *old, *now; /* what a lagging List still says, and what is */
    size_t old_count;
    bool lags;
    bool holds; /* the core is held once, until the next start */
    bool held;
    uint64_t changes; /* calls that change a machine, asked for until then */
    bool starved;     /* now and then there is no memory */
    bool strays;      /* what is ours changes */
    bool killed;      /* the shard is started again and again */
    struct cordon_rule rules[2];
    char ruled[24];
    size_t rule_count;
    uint32_t reporting; /* per cent of sessions whose operator reports its drains */
};

static void demand(struct world *w, size_t cluster, uint32_t units)
{
    static const int32_t priorities[] = {10, 1000, 2000000};

    w->wanted[cluster] = units;
    fleet_demand(&w->fleet, clusters[cluster], priorities[cluster], units);
}

static void world_open(struct world *w, uint64_t seed, uint64_t hash_seed)
{
    struct core_options options = {.seed = hash_seed};

    memset(w, 0, sizeof *w);
    prng_seed(&w->prng, seed);
    options.concurrency = (uint32_t)prng_between(&w->prng, 1, 12);
    options.queue_max = (uint32_t)prng_between(&w->prng, 1, 12);
    options.rails.reclaim_fraction = prng_chance(&w->prng, 500000) ? 0.3 : 0;
    options.rails.actions_max = prng_below(&w->prng, 3) * 3;
    options.stuck_ms = 120 * 1000;
    options.rest_most_ms = 600 * 1000;
    options.operator_return_ms = 20 * 1000;
    fleet_open(&w->fleet, &options, 64);
    fleet_add(&w->fleet, "i", prng_between(&w->prng, 0, 8), MACHINE_IDLE, NULL);
    fleet_add(&w->fleet, "s", prng_between(&w->prng, 1, 8), MACHINE_SPECULATIVE, NULL);
    fleet_add(&w->fleet, "c", prng_between(&w->prng, 0, 4), MACHINE_CONFIGURED, "a");
    fleet_add(&w->fleet, "f", prng_between(&w->prng, 0, 2), MACHINE_FAILED, NULL);
    w->fleet.random = &w->prng;
    w->fleet.faults_per_million = (uint32_t)prng_between(&w->prng, 50000, 600000);
    w->fleet.old_gets = prng_chance(&w->prng, 500000);
    w->lags = prng_chance(&w->prng, 500000);
    w->starved = prng_chance(&w->prng, 250000);
    w->strays = prng_chance(&w->prng, 150000);
    w->killed = prng_chance(&w->prng, 300000);
    w->holds = prng_chance(&w->prng, 300000);
    w->reporting = (uint32_t)prng_below(&w->prng, 3) * 50;
    w->fleet.reports_drains = w->reporting > 50;
    w->fleet.unsure = w->lags;
    if (!w->lags) w->fleet.deltas = prng_chance(&w->prng, 600000);
    w->old = calloc(w->fleet.machine_count, sizeof *w->old);
    w->now = calloc(w->fleet.machine_count, sizeof *w->now);
    CHECK("memory", w->old && w->now);
    fleet_list(&w->fleet);
    for (size_t i = 0; i < CLUSTERS; i++) fleet_session(&w->fleet, clusters[i], true);
}

static void world_close(struct world *w)
{
    fleet_close(&w->fleet);
    free(w->old);
    free(w->now);
}

/* A List that shows the fleet as it was a while ago. */
static void list_lagging(struct world *w)
{
    struct fleet *f = &w->fleet;
    size_t size = f->machine_count * sizeof *w->now;

    memcpy(w->now, f->machines, size);
    if (w->old_count) memcpy(f->machines, w->old, size);
    fleet_list(f);
    memcpy(f->machines, w->now, size);
    memcpy(w->old, w->now, size);
    w->old_count = f->machine_count;
}

static void breaks(struct world *w)
{
    struct fleet *f = &w->fleet;
    struct fleet_machine *m = &f->machines[prng_below(&w->prng, f->machine_count)];

    if (m->state != MACHINE_CONFIGURED && m->state != MACHINE_IDLE) return;
    m->state = MACHINE_FAILED;
    m->changed = true;
    m->end_ms = UINT64_MAX;
    snprintf(m->error, sizeof m->error, "it broke");
}

/* Nothing is known until the List; a protected one is protected then. */
static void restart(struct world *w)
{
    struct fleet *f = &w->fleet;

    fault_alloc_arm(0);
    f->faulty = false;
    w->held = false;
    fleet_restart(f);
    fleet_list_kind(f, LIST_FULL);
    for (size_t i = 0; i < f->machine_count; i++) {
        const struct fleet_machine *m = &f->machines[i];
        if (m->state == MACHINE_CONFIGURED && m->label_count)
            CHECK_STR("protected as before", fleet_record(f, m->id).stamp.fingerprint,
                      str_from(m->values[2]));
    }
    for (size_t i = 0; i < CLUSTERS; i++) {
        if (prng_chance(&w->prng, 300000)) continue; /* late */
        fleet_session(f, clusters[i], true);
        demand(w, i, w->wanted[i]);
    }
}

static uint64_t changes(const struct fleet *f)
{
    return f->seen[EFFECT_CREATE] + f->seen[EFFECT_CONFIGURE] + f->seen[EFFECT_DRAIN] +
           f->seen[EFFECT_DELETE];
}

static void maybe_hold(struct world *w)
{
    struct fleet *f = &w->fleet;

    if (!w->holds || !prng_chance(&w->prng, 30000)) return;
    w->holds = false;
    w->held = true;
    w->changes = changes(f);
    fleet_hold(f, prng_chance(&w->prng, 500000) ? CORE_PAUSED : CORE_FENCED);
}

/* An operator cordons a machine or all, empties them, or takes the order back. */
static void cordon(struct world *w)
{
    struct fleet *f = &w->fleet;
    struct fleet_machine *m = &f->machines[prng_below(&w->prng, f->machine_count)];

    w->rule_count = 0;
    fleet_cordon(f, w->rules, 0); /* the texts of the old rules go */
    if (prng_chance(&w->prng, 400000)) return;
    memcpy(w->ruled, m->id, sizeof w->ruled);
    w->rules[w->rule_count++] =
        (struct cordon_rule){.value = str_from(w->ruled),
                             .cordon = prng_chance(&w->prng, 500000) ? CORDON_EMPTY : CORDON_KEEP};
    if (prng_chance(&w->prng, 150000))
        w->rules[w->rule_count++] = (struct cordon_rule){
            .key = LABEL_INSTANCE_TYPE,
            .value = STR("m5"),
            .cordon = prng_chance(&w->prng, 300000) ? CORDON_EMPTY : CORDON_KEEP};
    fleet_cordon(f, w->rules, w->rule_count);
}

static void step(struct world *w)
{
    struct fleet *f = &w->fleet;
    size_t cluster = prng_below(&w->prng, CLUSTERS);

    if (w->starved) {
        f->faulty = true;
        fault_alloc_arm(prng_between(&w->prng, 1, 300));
    }
    switch (prng_below(&w->prng, 20)) {
    case 0: demand(w, cluster, (uint32_t)prng_below(&w->prng, 6)); break;
    case 1:
        f->reports_drains = prng_below(&w->prng, 100) < w->reporting;
        fleet_session(f, clusters[cluster], prng_chance(&w->prng, 700000));
        break;
    case 2: breaks(w); break;
    case 3:
    case 4:
        if (w->lags && prng_chance(&w->prng, 500000))
            list_lagging(w);
        else
            fleet_list(f);
        break;
    case 5:
    case 6:
    case 7:
    case 8: fleet_decide(f); break;
    case 9:
        if (w->strays) fleet_scope(f, prng_chance(&w->prng, 400000) ? "another" : NULL);
        break;
    case 10:
        if (w->killed && prng_chance(&w->prng, 300000)) restart(w);
        break;
    case 11:
    case 12:
        for (size_t i = 0; i < f->machine_count; i++)
            if (f->machines[i].state == MACHINE_CONFIGURED && prng_chance(&w->prng, 200000))
                fleet_drained(f, &f->machines[i]);
        break;
    case 13:
        if (prng_chance(&w->prng, 500000)) cordon(w);
        break;
    default: fleet_run(f, prng_below(&w->prng, 12 * 1000)); break;
    }
    fault_alloc_arm(0);
    f->faulty = false;
    maybe_hold(w);
    fleet_check(f);
    if (w->held) CHECK_U64("nothing is begun", changes(f), w->changes);
    if (!w->strays && core_listed(f->core))
        CHECK_U32("no machine comes or goes", inventory_counts(f->core->inventory).machines,
                  f->machine_count);
}

/* The faults are over. */
static void settle(struct world *w)
{
    struct fleet *f = &w->fleet;
    size_t bound = 0, wanted = 0, hosts = f->machine_count, cycles = 0, calm = 0;

    f->random = NULL;
    if (w->held) {
        fleet_cycles(f, 30);
        CHECK_U64("nothing is under way", core_counts(f->core)->queued, 0);
        CHECK_U64("and nothing was begun", changes(f), w->changes);
        restart(w);
    }
    fleet_scope(f, NULL);
    fleet_cordon(f, w->rules, 0);
    for (size_t i = 0; i < CLUSTERS; i++) {
        fleet_session(f, clusters[i], true);
        demand(w, i, (uint32_t)prng_below(&w->prng, 4));
        wanted += w->wanted[i];
    }
    for (; cycles < 1500 && calm < 3; cycles++) {
        bool quiet = true;
        uint64_t before = f->seen[EFFECT_AUDIT], moot = core_counts(f->core)->deduped;
        fleet_cycles(f, 1);
        if (cycles % 20 == 0) fleet_check(f);
        for (size_t i = 0; i < f->machine_count; i++)
            if (f->machines[i].state != MACHINE_CONFIGURED &&
                f->machines[i].state != MACHINE_SPECULATIVE)
                quiet = false; /* Idle ones are let go after a while */
        for (int s = MACHINE_SPECULATIVE; s < MACHINE_STATE_COUNT; s++)
            if (!machine_state_stable((enum machine_state)s) &&
                fleet_count(f, (enum machine_state)s))
                quiet = false; /* some still rest, or are in doubt */
        if (f->seen[EFFECT_AUDIT] != before || f->core->running->asking ||
            core_counts(f->core)->in_doubt || !f->core->running->settled ||
            core_counts(f->core)->deduped != moot)
            quiet = false;
        calm = quiet && !core_counts(f->core)->inflight ? calm + 1 : 0;
    }
    CHECK("it comes to rest", cycles < 1500);
    fleet_check(f);
    for (size_t i = 0; i < f->machine_count; i++) {
        const struct fleet_machine *m = &f->machines[i];
        struct machine known = fleet_record(f, m->id);
        CHECK_U32("we know what is", known.state, m->state);
        CHECK_STR("and whose it is", known.cluster, str_from(m->cluster));
        if (m->state != MACHINE_CONFIGURED) continue;
        bound++;
        /* A List that lags may show the binding before the last, and what is known of a machine in
         * the same state and cluster stays. */
        if (m->label_count && !w->lags)
            CHECK_STR("and for what", known.stamp.fingerprint, str_from(m->values[2]));
    }
    CHECK_SIZE("everybody has what he wants", bound, wanted < hosts ? wanted : hosts);
    CHECK_U32("nothing waits", core_counts(f->core)->queued, 0);
}

TEST(whatever_happens_no_machine_is_acted_on_twice_and_none_is_stuck)
{
    uint64_t seed = test_seed();
    const char *count = getenv("MUSTER_WORLDS");
    size_t worlds = count ? (size_t)atol(count) : WORLDS;
    uint64_t outcomes[OUTCOME_COUNT] = {0}, waits[DRAIN_WAIT_COUNT] = {0};

    for (size_t i = 0; i < worlds; i++) {
        struct world w;

        fprintf(stderr, "world %llu\n", (unsigned long long)(seed + i));
        world_open(&w, seed + i, seed + i);
        for (int n = 0; n < STEPS; n++) step(&w);
        settle(&w);
        for (int kind = 0; kind <= ACTION_DELETE; kind++)
            for (int outcome = 0; outcome < OUTCOME_COUNT; outcome++)
                outcomes[outcome] += core_counts(w.fleet.core)->outcomes[kind][outcome];
        for (int wait = 0; wait < DRAIN_WAIT_COUNT; wait++)
            waits[wait] += core_counts(w.fleet.core)->drain_waits[wait];
        world_close(&w);
    }
    if (worlds < WORLDS) return;
    /* the faults are felt */
    CHECK("success", outcomes[OUTCOME_SUCCESS]);
    CHECK("not known", outcomes[OUTCOME_CTX_CANCELED]);
    CHECK("refused", outcomes[OUTCOME_PROVIDER_ERROR]);
    CHECK("no session", outcomes[OUTCOME_NO_SESSION]);
    CHECK("no blob", outcomes[OUTCOME_BLOB_ERROR]);
    CHECK("operators drained", waits[DRAIN_WAIT_DRAINED]);
    CHECK("and did not", waits[DRAIN_WAIT_GRACE_ENDED]);
}

/* What is done, and in which order, follows from the events alone. */
TEST(the_seed_of_the_hash_tables_decides_nothing)
{
    uint64_t seed = test_seed();

    for (uint64_t i = 0; i < 20; i++) {
        uint64_t digests[2];
        for (uint64_t n = 0; n < 2; n++) {
            struct world w;
            world_open(&w, seed + i, 1000 + n);
            w.starved = false; /* tables that grow at other times fail at other times */
            for (int k = 0; k < STEPS; k++) step(&w);
            settle(&w);
            digests[n] = w.fleet.digest;
            world_close(&w);
        }
        CHECK_U64("the same effects", digests[0], digests[1]);
    }
}

/* shard.md § 25: demand that comes and goes for a long time leaves nothing behind. */
TEST(a_long_life_leaves_nothing_behind)
{
    enum { IDLE = 1000, SPECULATIVE = 2000, SOAK_CLUSTERS = 30 };
    const char *count = getenv("MUSTER_SOAK_CYCLES");
    size_t cycles = count ? (size_t)atol(count) : 1000;
    char names[SOAK_CLUSTERS][8];
    struct prng prng;
    struct fleet f;

    prng_seed(&prng, 25);
    fleet_open(&f, NULL, IDLE + SPECULATIVE);
    fleet_add(&f, "i", IDLE, MACHINE_IDLE, NULL);
    fleet_add(&f, "s", SPECULATIVE, MACHINE_SPECULATIVE, NULL);
    fleet_list(&f);
    for (int i = 0; i < SOAK_CLUSTERS; i++) {
        snprintf(names[i], sizeof names[i], "c-%d", i);
        fleet_session(&f, names[i], true);
    }
    for (size_t cycle = 0; cycle < cycles; cycle++) {
        size_t which = prng_below(&prng, SOAK_CLUSTERS);
        if (cycle % 5 == 0)
            fleet_demand(&f, names[which], (int32_t)prng_below(&prng, 1000000),
                         (uint32_t)prng_between(&prng, 1, 50));
        if (cycle % 35 == 0) fleet_demand(&f, names[which], 0, 0);
        if (cycle % 50 == 0) fleet_list(&f);
        fleet_decide(&f);
        fleet_run(&f, 0);
        f.now_ms += 10 * 1000;
        CHECK_U32("as many as ever", inventory_counts(f.core->inventory).machines,
                  IDLE + SPECULATIVE);
        for (int s = MACHINE_SPECULATIVE; s < MACHINE_STATE_COUNT; s++)
            if (!machine_state_stable((enum machine_state)s))
                CHECK_SIZE("nothing passes or failed", fleet_count(&f, (enum machine_state)s), 0);
    }
    fleet_check(&f);
    CHECK_U64("no worry is left", f.core->running->works.count, 0);
    fleet_close(&f);
}
