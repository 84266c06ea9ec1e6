/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of the shard's tables and of a decision fails once: the call returns out of
 * memory, the state is unchanged, the same call then succeeds, nothing leaks. And a decision's
 * scratch memory ends at every place. An engine opened only for the comparison gives the expected
 * decision. */
#include <stdio.h>
#include <string.h>

#include "lib/fault_alloc.h"
#include "lib/shard_check.h"
#include "lib/test.h"
#include "shard/decide/ledger.h"
#include "shard/decide/parking.h"
#include "shard/world.h"

enum { MACHINES = 36, ROWS = 6, SEEDS = 12 };
static const char *const clusters[] = {"a", "b", "c"};
static const mono_time now = {1000000}, later = {1030000};

struct fleet {
    struct world world;
    struct prng prng;
    char ids[MACHINES + 4][8];
    struct need rows[ROWS];
    struct machine machine; /* the subject of a step */
    struct plan plan;
};

static void replace_rows(struct fleet *f, const char *cluster)
{
    for (int i = 0; i < ROWS; i++) f->rows[i] = random_need(&f->world, &f->prng, str_from(cluster));
}

static enum machine_state any_state(struct fleet *f)
{
    return (enum machine_state)(1 + prng_below(&f->prng, MACHINE_STATE_COUNT - 1));
}

static void fleet_open(struct fleet *f, uint64_t seed)
{
    memset(f, 0, sizeof *f);
    prng_seed(&f->prng, seed);
    world_open(&f->world);
    for (size_t c = 0; c < ARRAY_LEN(clusters); c++) {
        replace_rows(f, clusters[c]);
        CHECK_OK("rows", needs_replace(f->world.needs, str_from(clusters[c]), f->rows, ROWS, NULL));
    }
    for (int i = 0; i < MACHINES + 4; i++) {
        struct machine m;

        (void)snprintf(f->ids[i], sizeof f->ids[i], "m%02d", i);
        if (i >= MACHINES) continue;
        m = random_machine(&f->world, &f->prng, str_from(f->ids[i]), any_state(f));
        CHECK_OK("insert", inventory_insert(f->world.inventory, &m, now, &f->world.note));
    }
}

static struct decider *engine_of(struct world *w, size_t scratch_max)
{
    struct decider_options options = {.inventory = w->inventory,
                                      .needs = w->needs,
                                      .dimensions = &w->dimensions,
                                      .scratch_max = scratch_max};
    struct decider *engine;

    CHECK_OK("engine", decider_open(&options, &engine));
    return engine;
}

static enum err decide_now(struct decider *engine, const struct decision **ret_decision)
{
    struct decide_input input;

    decide_input_init(&input, later);
    return decide(engine, &input, ret_decision);
}

static void print_decision(struct world *w, struct decider *engine, struct buf *out)
{
    const struct decision *decision;

    CHECK_OK("decide", decide_now(engine, &decision));
    CHECK_OK("print", decision_print(decision, &w->dimensions, out));
}

/* The visible state of the tables. */
static void digest(struct world *w, struct buf *out)
{
    struct inventory_stats stats = inventory_stats(w->inventory);
    struct inventory_counts counts = inventory_counts(w->inventory);
    struct needs_stats needs = needs_stats(w->needs);
    struct decider *engine = engine_of(w, 0);

    buf_init(out, 1 << 22);
    stats.bytes = stats.label_bytes = needs.bytes = 0; /* arrays that grew stay grown */
    CHECK_OK("stats", buf_append(out, str_of(&stats, sizeof stats)));
    CHECK_OK("counts", buf_append(out, str_of(&counts, sizeof counts)));
    CHECK_OK("needs", buf_append(out, str_of(&needs, sizeof needs)));
    print_decision(w, engine, out);
    decider_close(engine);
    CHECK(w->note.text, inventory_check(w->inventory, &w->note));
    CHECK(w->note.text, needs_check(w->needs, &w->note));
}

/* --- the verbs --- */

static enum err insert(struct fleet *f)
{
    return inventory_insert(f->world.inventory, &f->machine, now, NULL);
}

static enum err apply(struct fleet *f)
{
    return inventory_apply(f->world.inventory, &f->machine, INVENTORY_OBSERVED, later, NULL, NULL);
}

static enum err plan(struct fleet *f)
{
    return inventory_plan(f->world.inventory, f->machine.id, &f->plan, NULL);
}

static enum err unplan(struct fleet *f)
{
    return inventory_unplan(f->world.inventory, f->machine.id);
}

static enum err replace(struct fleet *f)
{
    return needs_replace(f->world.needs, STR("b"), f->rows, ROWS, NULL);
}

static enum err greet(struct fleet *f)
{
    return needs_mark_reported(f->world.needs, STR("a cluster that nobody has heard of"));
}

static void new_machine(struct fleet *f)
{
    struct label *label = ARENA_NEW(&f->world.arena, struct label);

    f->machine = random_machine(&f->world, &f->prng, str_from(f->ids[MACHINES]), any_state(f));
    *label = (struct label){STR("a label of its own"), STR("and a value")};
    f->machine.attributes.labels = label;
    f->machine.attributes.label_count = 1;
    f->machine.stamp.fingerprint = STR("nobody's");
    f->machine.promised.cluster = STR("nobody");
}

/* Adds an idle machine, which can be planned on. */
static void idle_machine(struct fleet *f)
{
    new_machine(f);
    f->machine.state = MACHINE_IDLE;
    f->machine.cluster = f->machine.last_error = STR_EMPTY;
    f->machine.host_provider = f->machine.host_ref = STR("host");
    CHECK_OK("insert", insert(f));
    f->plan = random_plan(&f->world, &f->prng, PLANNED_BOOTSTRAP);
    f->plan.stamp.fingerprint = STR("for this plan alone");
}

static void planned_machine(struct fleet *f)
{
    idle_machine(f);
    CHECK_OK("plan", plan(f));
}

static void other_price(struct fleet *f)
{
    planned_machine(f);
    f->machine.price_per_hour = 77;
    f->machine.host_ref = STR("a longer reference than before");
}

static void other_state(struct fleet *f)
{
    planned_machine(f);
    f->machine.state = MACHINE_FAILED;
    f->machine.last_error = STR("it burns");
}

static void other_rows(struct fleet *f)
{
    replace_rows(f, "b");
}

static void nothing(struct fleet *f)
{
    (void)f;
}

static const struct {
    const char *name;
    void (*prepare)(struct fleet *f);
    enum err (*act)(struct fleet *f);
} verbs[] = {
    {"insert", new_machine, insert},
    {"plan", idle_machine, plan},
    {"unplan", planned_machine, unplan},
    {"apply under a plan", other_price, apply},
    {"apply a new state", other_state, apply},
    {"replace", other_rows, replace},
    {"greet", nothing, greet},
};

static void check_same(const char *why, struct buf *a, struct buf *b)
{
    CHECK_SIZE(why, a->len, b->len);
    CHECK(why, memcmp(a->data, b->data, a->len) == 0);
    buf_deinit(a);
    buf_deinit(b);
}

TEST(a_verb_without_memory_changes_nothing_and_can_be_said_again)
{
    for (size_t v = 0; v < ARRAY_LEN(verbs); v++) {
        bool fired = true;
        uint64_t k = 1;

        for (; fired && k < FAULT_SWEEP_MAX; k++) {
            struct buf before, after;
            struct fleet f, never_failed;
            enum err err;

            fleet_open(&f, 7);
            verbs[v].prepare(&f);
            digest(&f.world, &before);
            fault_alloc_arm(k);
            err = verbs[v].act(&f);
            fired = fault_alloc_fired();
            fault_alloc_arm(0);
            /* A hash table that cannot grow is slower; that is no error. */
            CHECK("out of memory, or done", err == ERR_OK || (fired && err == ERR_NOMEM));
            digest(&f.world, &after);
            if (err) {
                check_same(verbs[v].name, &before, &after);
                CHECK_OK(verbs[v].name, verbs[v].act(&f));
                digest(&f.world, &after);
            } else {
                buf_deinit(&before);
            }
            fleet_open(&never_failed, 7);
            verbs[v].prepare(&never_failed);
            CHECK_OK(verbs[v].name, verbs[v].act(&never_failed));
            digest(&never_failed.world, &before);
            check_same(verbs[v].name, &before, &after);
            world_close(&never_failed.world);
            world_close(&f.world); /* asserts that nothing is left */
        }
        fprintf(stderr, "%s: %llu allocations\n", verbs[v].name, (unsigned long long)k - 2);
        /* unplan returns the machine to a cohort that still exists. */
        CHECK("it went far enough", k > (verbs[v].act == unplan ? 1 : 2));
    }
}

/* --- a decision --- */

static bool is_shortage(enum err err)
{
    return err == ERR_NOMEM || err == ERR_FULL;
}

enum since { FIRST, ROWS_CAME, MACHINES_WENT, MACHINES_CAME, SINCE_COUNT };

/* The change since the engine's last decision; the engine remembers the rest. */
static void change(struct fleet *f, enum since since)
{
    if (since == ROWS_CAME) {
        replace_rows(f, "b");
        CHECK_OK("replace", replace(f));
    }
    for (int i = 0; since == MACHINES_WENT && i < MACHINES; i += 2)
        CHECK_OK("remove", inventory_remove(f->world.inventory, str_from(f->ids[i])));
    for (int i = 0; since == MACHINES_CAME && i < 4; i++) { /* large ones: gangs fold */
        new_machine(f);
        f->machine = world_machine(&f->world, f->ids[MACHINES + i], MACHINE_IDLE);
        f->machine.attributes = (struct attributes){
            .labels = &(struct label){STR("rack"), STR("r1")}, .label_count = 1};
        CHECK_OK("much",
                 resources_set(&f->machine.resources, f->world.cpu, 64000, QUANTITY_DECIMAL_SI));
        CHECK_OK("much",
                 resources_set(&f->machine.resources, f->world.memory, 64000, QUANTITY_DECIMAL_SI));
        CHECK_OK("insert", insert(f));
    }
}

static bool sweep_decision(uint64_t seed, enum since since, uint64_t k)
{
    const struct decision *decision;
    struct buf first, want, got;
    struct decider *engine;
    struct fleet f;
    enum err err;
    bool fired;

    fleet_open(&f, seed);
    engine = engine_of(&f.world, 0);
    if (since != FIRST) CHECK_OK("before", decide_now(engine, &decision));
    change(&f, since);
    fault_alloc_arm(k);
    err = decide_now(engine, &decision);
    fired = fault_alloc_fired();
    fault_alloc_arm(0);
    CHECK("out of memory, or done", err == ERR_OK || (fired && err == ERR_NOMEM));
    buf_init(&first, 1 << 22); /* decided without that memory: the decision must be right */
    if (!err) CHECK_OK("print", decision_print(decision, &f.world.dimensions, &first));
    buf_init(&got, 1 << 22);
    print_decision(&f.world, engine, &got); /* the same engine, after it failed */
    decider_close(engine);
    engine = engine_of(&f.world, 0);
    buf_init(&want, 1 << 22);
    print_decision(&f.world, engine, &want);
    decider_close(engine);
    if (!err) CHECK_STR("done without", buf_peek(&first), buf_peek(&want));
    buf_deinit(&first);
    check_same("as an engine that never failed", &want, &got);
    world_close(&f.world);
    return fired;
}

TEST(a_decision_without_memory_is_an_error_and_the_next_one_is_right)
{
    static const char *const names[] = {"the first", "rows came", "machines went", "machines came"};

    for (int since = FIRST; since < SINCE_COUNT; since++) {
        uint64_t turns = 0;

        for (uint64_t seed = 1; seed <= (since == FIRST ? 2 : SEEDS); seed++) {
            uint64_t k = 1;
            while (sweep_decision(seed, (enum since)since, k)) k++;
            turns += k - 1;
        }
        fprintf(stderr, "decide, %s: %llu allocations\n", names[since], (unsigned long long)turns);
        CHECK("it went far enough", turns > 10);
    }
}

TEST(scratch_that_ends_anywhere_is_an_error)
{
    struct fleet f;
    size_t most = 0, refused = 0;
    enum err err, again;

    fleet_open(&f, 2);
    do {
        const struct decision *decision;
        struct decider *engine = engine_of(&f.world, most += 48);

        err = decide_now(engine, &decision);
        CHECK("full, or done", err == ERR_OK || err == ERR_FULL);
        again = decide_now(engine, &decision); /* its blocks lie otherwise now: either may be */
        CHECK("and again", again == ERR_OK || again == ERR_FULL);
        decider_close(engine);
        refused += err != ERR_OK;
    } while (err);
    CHECK("it went far enough", refused > 50);
    world_close(&f.world);
}

/* --- the records that outlive a decision --- */

TEST(parking_and_ledger_lose_nothing)
{
    for (int of_ledger = 0; of_ledger < 2; of_ledger++) {
        bool fired = true;

        for (uint64_t k = 1; fired && k < FAULT_SWEEP_MAX; k++) {
            const struct decision *decision;
            struct parking *parking;
            struct ledger *ledger;
            struct decider *engine;
            struct fleet f;
            size_t before, after;
            enum err err;

            fleet_open(&f, 2);
            engine = engine_of(&f.world, 0);
            CHECK_OK("decide", decide_now(engine, &decision));
            CHECK_OK("parking", parking_open(&parking));
            CHECK_OK("ledger", ledger_open(1, &ledger));
            for (int i = 0; i < PARK_AFTER; i++) CHECK_OK("age", parking_note(parking, decision));
            CHECK_OK("note", ledger_note(ledger, decision));
            (void)(of_ledger ? (const void *)ledger_shortfalls(ledger, &before)
                             : (const void *)parking_parked(parking, &before));
            CHECK("there is something to lose", before > 0);
            fault_alloc_arm(k);
            err = of_ledger ? ledger_note(ledger, decision) : parking_note(parking, decision);
            fired = fault_alloc_fired();
            fault_alloc_arm(0);
            CHECK("out of memory, or done", fired ? is_shortage(err) : err == ERR_OK);
            (void)(of_ledger ? (const void *)ledger_shortfalls(ledger, &after)
                             : (const void *)parking_parked(parking, &after));
            CHECK_SIZE("the tables are unchanged", after, before);
            CHECK_OK("and again",
                     of_ledger ? ledger_note(ledger, decision) : parking_note(parking, decision));
            ledger_close(ledger);
            parking_close(parking);
            decider_close(engine);
            world_close(&f.world);
        }
    }
}
