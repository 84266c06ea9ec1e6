/* Runs scenarios from seeds: muster-sim-tests --seed 7 --count 100 --profile harsh --scenario
 * register
 *
 * Stops at the first seed that fails, prints how to run it again, and exits with a code that says
 * how it failed: 20 crash, 21 wrong result, 22 no progress. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "scenarios.h"
#include "sim_commit.h"

enum { REPORT_MAX = 64 * 1024, DYING_CAP = 512 };

struct plan {
    const struct scenario *scenario;
    uint64_t seed, count;
    int profile; /* -1: both in turn */
    uint32_t bug;
    bool trace, quiet, expect_failure;
};

static const struct scenario *current;
static struct scenario_options current_options;

/* -- a crash names its seed -- */

static void tell_crash(void)
{
    char text[DYING_CAP];
    int len =
        snprintf(text, sizeof text,
                 "\ncrash: scenario=%s seed=%" PRIu64 " profile=%s bug=%u commit=%s\n"
                 "again: muster-sim-tests --scenario %s --seed %" PRIu64 " --profile %s --trace\n",
                 current->name, current_options.seed,
                 current_options.profile == SCENARIO_HARSH ? "harsh" : "mild", current_options.bug,
                 SIM_COMMIT, current->name, current_options.seed,
                 current_options.profile == SCENARIO_HARSH ? "harsh" : "mild");
    ssize_t written = write(STDERR_FILENO, text, (size_t)len);
    (void)written;
}

static void on_fatal_signal(int number)
{
    (void)number;
    tell_crash();
    _exit(SCENARIO_EXIT_CRASH);
}

#if defined(__SANITIZE_ADDRESS__)
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "exitcode=20:handle_abort=0"; /* SCENARIO_EXIT_CRASH */
}
void __sanitizer_set_death_callback(void (*callback)(void));
#endif

static void catch_crashes(void)
{
    struct sigaction action = {.sa_handler = on_fatal_signal};

    sigaction(SIGABRT, &action, NULL);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_set_death_callback(tell_crash);
#else
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGFPE, &action, NULL);
#endif
}

/* -- running -- */

static void print_trace(void *context, sim_time now, const char *host, const char *text)
{
    (void)context;
    printf("%5" PRIu64 ".%06" PRIu64 " %-4s %s\n", now.ns / 1000000000, now.ns / 1000 % 1000000,
           host, text);
}

static enum scenario_end run_one(const struct plan *plan, uint64_t seed,
                                 enum scenario_profile profile, uint64_t *events)
{
    struct scenario_result result = {0};
    struct buf report;

    current = plan->scenario;
    current_options = (struct scenario_options){.seed = seed,
                                                .profile = profile,
                                                .bug = plan->bug,
                                                .trace = plan->trace ? print_trace : NULL};
    if (scenario_run(current, &current_options, &result)) {
        fprintf(stderr, "out of memory\n");
        return SCENARIO_BROKEN;
    }
    *events += result.events;
    if (result.end == SCENARIO_PASSED && (plan->quiet || plan->count > 1)) return result.end;
    buf_init(&report, REPORT_MAX);
    scenario_report(current, &current_options, &result, SIM_COMMIT, &report);
    printf("%.*s", STR_ARG(buf_peek(&report)));
    buf_deinit(&report);
    if (result.end != SCENARIO_PASSED) {
        printf("again: muster-sim-tests --scenario %s --seed %" PRIu64
               " --profile %s%s%s --trace\n",
               current->name, seed, profile == SCENARIO_HARSH ? "harsh" : "mild",
               plan->bug ? " --bug " : "", plan->bug ? current->bugs[plan->bug - 1] : "");
    }
    return result.end;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int run_plan(const struct plan *plan)
{
    double start = seconds(), took;
    uint64_t events = 0, runs = 0;

    for (uint64_t i = 0; i < plan->count; i++) {
        for (int profile = SCENARIO_MILD; profile <= SCENARIO_HARSH; profile++) {
            enum scenario_end end;
            if (plan->profile >= 0 && plan->profile != profile) continue;
            runs++;
            end = run_one(plan, plan->seed + i, (enum scenario_profile)profile, &events);
            if (end == SCENARIO_PASSED) continue;
            if (plan->expect_failure) {
                printf("%s: bug %s caught by seed %" PRIu64 " (run %" PRIu64 ")\n",
                       plan->scenario->name,
                       plan->bug ? plan->scenario->bugs[plan->bug - 1] : "none", plan->seed + i,
                       runs);
                return 0;
            }
            return scenario_exit_code(end);
        }
    }
    took = seconds() - start;
    if (!plan->quiet) {
        printf("%s: %" PRIu64 " runs passed, %" PRIu64 " events, %.1f s, %.0f runs a minute\n",
               plan->scenario->name, runs, events, took, (double)runs * 60 / took);
    }
    return plan->expect_failure ? SCENARIO_EXIT_BROKEN : 0;
}

/* -- past failures: one line per seed, see seeds/README.md -- */

enum { TEST_SKIPPED = 77 }; /* as meson understands it */

static int run_seed_file(struct plan plan, const char *path)
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
        plan.profile = strcmp(profile, "harsh") == 0 ? SCENARIO_HARSH : SCENARIO_MILD;
        code = run_plan(&plan);
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
    "usage: muster-sim-tests [--scenario NAME] [--seed N] [--count M] [--profile mild|harsh|both]\n"
    "                        [--bug NAME [--expect-failure]] [--seeds FILE] [--trace] [--quiet] "
    "[--list]\n"
    "examples:\n"
    "  muster-sim-tests --seed 7 --profile harsh --trace    one world, told event by event\n"
    "  muster-sim-tests --seed 1 --count 1000               a thousand worlds, mild and harsh\n"
    "  muster-sim-tests --bug ack-before-sync --count 200 --expect-failure\n"
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
    fprintf(stderr, "muster-sim-tests: %s\n%s", what, usage);
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
    struct plan plan = {.scenario = scenarios_all().items[0], .seed = 1, .count = 1, .profile = -1};
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
            if (strcmp(optarg, "mild") == 0)
                plan.profile = SCENARIO_MILD;
            else if (strcmp(optarg, "harsh") == 0)
                plan.profile = SCENARIO_HARSH;
            else if (strcmp(optarg, "both") == 0)
                plan.profile = -1;
            else
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
    catch_crashes();
    return seeds ? run_seed_file(plan, seeds) : run_plan(&plan);
}
