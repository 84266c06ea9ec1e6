/* SPDX-License-Identifier: Apache-2.0 */
/* The runner: the same seed gives the same run, and each kind of failure has its own exit code. */
#include <stdlib.h>
#include <string.h>

#include "lib/test.h"
#include "register_scenario.h"
#include "scenarios.h"

static struct scenario_result run(const struct scenario *scenario, uint64_t seed,
                                  enum scenario_profile profile)
{
    const struct scenario_options options = {.seed = seed, .profile = profile};
    struct scenario_result result;

    CHECK_OK("memory", scenario_run(scenario, &options, &result));
    return result;
}

TEST(the_same_seed_gives_the_same_run_event_by_event)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct scenario_result first = run(&register_scenario, seed, SCENARIO_HARSH);
        struct scenario_result again = run(&register_scenario, seed, SCENARIO_HARSH);
        struct scenario_result mild = run(&register_scenario, seed, SCENARIO_MILD);
        struct scenario_result other = run(&register_scenario, seed + 1, SCENARIO_HARSH);

        CHECK_U64("hash", again.hash, first.hash);
        CHECK_U64("events", again.events, first.events);
        CHECK("another profile is another run", mild.hash != first.hash);
        CHECK("another seed is another run", other.hash != first.hash);
    }
}

TEST(options_differ_by_seed_and_some_faults_are_off)
{
    unsigned off[SCENARIO_STRIKE_COUNT] = {0}, calm = 0;

    for (uint64_t seed = 0; seed < 200; seed++) {
        struct scenario_faults faults;
        struct prng prng;
        prng_seed(&prng, seed);
        scenario_faults_draw(&prng, SCENARIO_HARSH, &faults);
        for (size_t i = 0; i < SCENARIO_STRIKE_COUNT; i++)
            off[i] += faults.strikes[i].every_ms == 0;
        calm += faults.link.loss_ppm == 0;
    }
    for (size_t i = 0; i < SCENARIO_STRIKE_COUNT; i++) {
        CHECK("each kind of strike is sometimes off, mostly on", off[i] > 10 && off[i] < 120);
    }
    CHECK("links are sometimes without loss", calm > 10 && calm < 120);
}

/* -- a world that does nothing and fails in each possible way -- */

static enum err idle_start(struct io *io, void *context, void **ret_state)
{
    (void)io;
    *ret_state = context;
    return ERR_OK;
}

static void idle_destroy(void *state)
{
    (void)state;
}

static enum err toy_open(struct scenario_world *world, void **ret_state)
{
    static const struct sim_process_ops ops = {idle_start, NULL, idle_destroy};
    struct sim_host *host;

    *ret_state = malloc(1);
    if (!*ret_state) return ERR_NOMEM;
    return scenario_add_node(world, "h", &ops, *ret_state, SCENARIO_MAY_DIE | SCENARIO_MAY_PAUSE,
                             &host);
}

static enum err toy_refuse(struct scenario_world *world, void **ret_state)
{
    (void)world, (void)ret_state;
    return ERR_INVALID;
}

static bool yes(void *state)
{
    (void)state;
    return true;
}

static bool no(void *state)
{
    (void)state;
    return false;
}

static bool safe(void *state, struct note *why)
{
    (void)state, (void)why;
    return true;
}

static bool unsafe(void *state, struct note *why)
{
    (void)state;
    note_set(why, "two holders");
    return false;
}

TEST(each_way_to_fail_has_its_own_end_and_exit_code)
{
    const struct scenario good = {.name = "toy",
                                  .faults_ms = 1000,
                                  .heal_ms = 1000,
                                  .open = toy_open,
                                  .safe = safe,
                                  .done = yes,
                                  .close = free};
    struct scenario bad = good;
    struct scenario_result result;

    CHECK("passes", run(&good, 1, SCENARIO_HARSH).end == SCENARIO_PASSED);
    bad.done = no;
    result = run(&bad, 1, SCENARIO_HARSH);
    CHECK("stuck", result.end == SCENARIO_STUCK);
    CHECK_I64("code", scenario_exit_code(result.end), SCENARIO_EXIT_STUCK);
    bad = good;
    bad.safe = unsafe;
    result = run(&bad, 1, SCENARIO_HARSH);
    CHECK("unsafe", result.end == SCENARIO_UNSAFE);
    CHECK_TEXT("why", result.why.text, "two holders");
    CHECK_I64("code", scenario_exit_code(result.end), SCENARIO_EXIT_UNSAFE);
    bad = good;
    bad.open = toy_refuse;
    result = run(&bad, 1, SCENARIO_HARSH);
    CHECK("broken", result.end == SCENARIO_BROKEN);
    CHECK_I64("code", scenario_exit_code(result.end), SCENARIO_EXIT_BROKEN);
}

TEST(a_report_says_how_to_run_it_again)
{
    const struct scenario_options options = {.seed = 77, .profile = SCENARIO_HARSH, .bug = 1};
    const struct scenario_result result = {.end = SCENARIO_STUCK, .why = {"nobody moves"}};
    struct buf text;
    char *line;

    buf_init(&text, 4096);
    scenario_report(&register_scenario, &options, &result, "abc123", &text);
    CHECK_OK("text", buf_detach(&text, &line));
    CHECK_HAS("seed", line, "seed=77");
    CHECK_HAS("profile", line, "profile=harsh");
    CHECK_HAS("bug", line, "bug=ack-before-sync");
    CHECK_HAS("commit", line, "commit=abc123");
    CHECK_HAS("end", line, "no progress: nobody moves");
    CHECK_HAS("options", line, "faults: link{");
    free(line);
    buf_deinit(&text);
}

TEST(scenarios_are_found_by_name)
{
    CHECK("there", scenario_find(scenarios_all(), "register") == &register_scenario);
    CHECK("not there", !scenario_find(scenarios_all(), "none"));
    CHECK_U32("a bug", scenario_bug_number(&register_scenario, "no-write-back"), 7);
    CHECK_U32("no bug", scenario_bug_number(&register_scenario, "none"), 0);
}
