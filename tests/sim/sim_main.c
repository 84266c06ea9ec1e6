/* SPDX-License-Identifier: Apache-2.0 */
/* Runs scenarios from seeds: muster-sim --seed 7 --count 100 --profile harsh --scenario
 * register
 *
 * Stops at the first seed that fails, prints how to run it again, and exits with a code that says
 * how it failed: 20 crash, 21 wrong result, 22 no progress. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "scenario_plan.h"
#include "scenarios.h"
#include "sim_commit.h"

#if defined(__SANITIZE_ADDRESS__)
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "exitcode=20:handle_abort=0"; /* SCENARIO_EXIT_CRASH */
}
#endif

/* -- past failures: one line per seed, see seeds/README.md -- */

enum { TEST_SKIPPED = 77 }; /* as meson understands it */

static int run_plan(struct scenario_plan plan)
{
    char again[128];

    snprintf(again, sizeof again, "muster-sim --scenario %s", plan.scenario->name);
    plan.again = again;
    return scenario_plan_run(&plan);
}

static int run_seed_file(struct scenario_plan plan, const char *path)
{
    char line[256], scenario[64], profile[16];
    FILE *file = fopen(path, "r");
    int code = 0, runs = 0;

    if (!file) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return SCENARIO_EXIT_BROKEN;
    }
    while (!code && fgets(line, sizeof line, file)) {
        if (line[0] == '#' || line[0] == '\n') continue;
        if (sscanf(line, "%63s %15s %" SCNu64, scenario, profile, &plan.seed) != 3 ||
            !(plan.scenario = scenario_find(scenarios_all(), scenario))) {
            fprintf(stderr, "%s: cannot be read: %s", path, line);
            code = SCENARIO_EXIT_BROKEN;
            break;
        }
        plan.harsh = strcmp(profile, "harsh") == 0;
        plan.mild = !plan.harsh;
        code = run_plan(plan);
        runs++;
    }
    fclose(file);
    if (runs == 0 && !code) {
        printf("%s holds no seed: none has failed without a planted bug yet\n", path);
        return TEST_SKIPPED;
    }
    return code;
}

/* -- command line -- */

static const char usage[] =
    "usage: muster-sim [--scenario NAME] [--seed N] [--count M] [--profile mild|harsh|both]\n"
    "                  [--bug NAME [--expect-failure]] [--seeds FILE] [--trace] [--quiet] "
    "[--list]\n"
    "examples:\n"
    "  muster-sim --seed 7 --profile harsh --trace    one world, event by event\n"
    "  muster-sim --seed 1 --count 1000               a thousand worlds, mild and harsh\n"
    "  muster-sim --bug ack-before-sync --count 200 --expect-failure\n"
    "exit codes: 0 passed, 1 not run, 2 usage, 20 crash, 21 wrong result, 22 no progress\n";

static int list_all(void)
{
    struct scenario_table table = scenarios_all();
    for (size_t i = 0; i < table.count; i++) {
        printf("%s: %s\n", table.items[i]->name, table.items[i]->about);
        for (size_t k = 0; table.items[i]->bugs && table.items[i]->bugs[k]; k++) {
            printf("  --bug %s\n", table.items[i]->bugs[k]);
        }
    }
    return 0;
}

static int misused(const char *what)
{
    fprintf(stderr, "muster-sim: %s\n%s", what, usage);
    return 2;
}

static bool parse_number(const char *text, uint64_t *ret_number)
{
    return str_to_u64(str_from(text), ret_number) == ERR_OK;
}

int main(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"scenario", required_argument, NULL, 's'}, {"seed", required_argument, NULL, 'n'},
        {"count", required_argument, NULL, 'c'},    {"profile", required_argument, NULL, 'p'},
        {"bug", required_argument, NULL, 'b'},      {"expect-failure", no_argument, NULL, 'x'},
        {"seeds", required_argument, NULL, 'f'},    {"trace", no_argument, NULL, 't'},
        {"quiet", no_argument, NULL, 'q'},          {"list", no_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},           {0},
    };
    struct scenario_plan plan = {.scenario = scenarios_all().items[0],
                                 .commit = SIM_COMMIT,
                                 .seed = 1,
                                 .count = 1,
                                 .mild = true,
                                 .harsh = true};
    const char *bug = NULL, *seeds = NULL;
    int option;

    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        switch (option) {
        case 's':
            plan.scenario = scenario_find(scenarios_all(), optarg);
            if (!plan.scenario) return misused("no such scenario; --list names them");
            break;
        case 'n':
            if (!parse_number(optarg, &plan.seed)) return misused("--seed wants a whole number");
            break;
        case 'c':
            if (!parse_number(optarg, &plan.count) || plan.count == 0)
                return misused("--count wants a whole number above 0: nothing run is not passed");
            break;
        case 'p':
            plan.mild = strcmp(optarg, "harsh") != 0;
            plan.harsh = strcmp(optarg, "mild") != 0;
            if (plan.mild && plan.harsh && strcmp(optarg, "both") != 0)
                return misused("--profile wants mild, harsh or both");
            break;
        case 'b': bug = optarg; break;
        case 'f': seeds = optarg; break;
        case 'x': plan.expect_failure = true; break;
        case 't': plan.trace = true; break;
        case 'q': plan.quiet = true; break;
        case 'l': return list_all();
        case 'h': fputs(usage, stdout); return 0;
        default: return misused("unknown option");
        }
    }
    if (optind < argc) return misused("it takes options only");
    if (bug && !(plan.bug = scenario_bug_number(plan.scenario, bug))) {
        return misused("no such bug; --list names them");
    }
    scenario_plan_catch_crashes();
    return seeds ? run_seed_file(plan, seeds) : run_plan(plan);
}
