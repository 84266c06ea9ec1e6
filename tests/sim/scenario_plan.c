/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the worlds of a scenario one after another and reports the first seed that fails. Main
 * thread. */
#include "scenario_plan.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { REPORT_MAX = 64 * 1024, DYING_CAP = 512 };

static const struct scenario_plan *current;
static struct scenario_options current_options;

static const char *profile_name(enum scenario_profile profile)
{
    return profile == SCENARIO_HARSH ? "harsh" : "mild";
}

/* -- a crash reports its seed -- */

static void report_crash(void)
{
    char text[DYING_CAP];
    int len;
    ssize_t written;

    if (!current) return;
    len = snprintf(text, sizeof text,
                   "\ncrash: scenario=%s seed=%" PRIu64 " profile=%s bug=%u commit=%s\n"
                   "again: %s --seed %" PRIu64 " --profile %s --trace\n",
                   current->scenario->name, current_options.seed,
                   profile_name(current_options.profile), current_options.bug, current->commit,
                   current->again, current_options.seed, profile_name(current_options.profile));
    written = write(STDERR_FILENO, text, min_size((size_t)len, sizeof text - 1));
    (void)written;
}

static void on_fatal_signal(int)
{
    report_crash();
    _exit(SCENARIO_EXIT_CRASH);
}

#if defined(__SANITIZE_ADDRESS__)
void __sanitizer_set_death_callback(void (*callback)(void));
#endif

void scenario_plan_catch_crashes(void)
{
    struct sigaction action = {.sa_handler = on_fatal_signal};

    sigaction(SIGABRT, &action, NULL);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_set_death_callback(report_crash);
#else
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGFPE, &action, NULL);
#endif
}

/* -- running -- */

static void print_trace(void *, sim_time now, const char *host, const char *text)
{
    printf("%5" PRIu64 ".%06" PRIu64 " %-4s %s\n", now.ns / 1000000000, now.ns / 1000 % 1000000,
           host, text);
}

static enum scenario_end scenario_plan_run_one(const struct scenario_plan *plan, uint64_t seed,
                                               enum scenario_profile profile, uint64_t *events)
{
    const struct scenario *scenario = plan->scenario;
    struct scenario_result result = {0};
    struct buf report;

    current = plan;
    current_options = (struct scenario_options){.seed = seed,
                                                .profile = profile,
                                                .bug = plan->bug,
                                                .trace = plan->trace ? print_trace : NULL};
    if (scenario_run(scenario, &current_options, &result)) {
        fprintf(stderr, "out of memory\n");
        return SCENARIO_BROKEN;
    }
    *events += result.events;
    if (result.end == SCENARIO_PASSED && (plan->quiet || plan->count > 1)) return result.end;
    buf_init(&report, REPORT_MAX);
    scenario_report(scenario, &current_options, &result, plan->commit, &report);
    printf("%.*s", STR_ARG(buf_peek(&report)));
    buf_deinit(&report);
    if (result.end != SCENARIO_PASSED) {
        printf("again: %s --seed %" PRIu64 " --profile %s%s%s --trace\n", plan->again, seed,
               profile_name(profile), plan->bug ? " --bug " : "",
               plan->bug ? scenario->bugs[plan->bug - 1] : "");
    }
    return result.end;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int scenario_plan_run(const struct scenario_plan *plan)
{
    double start = seconds(), took;
    uint64_t events = 0, runs = 0;

    for (uint64_t i = 0; i < plan->count; i++) {
        for (int profile = SCENARIO_MILD; profile <= SCENARIO_HARSH; profile++) {
            enum scenario_end end;
            if (profile == SCENARIO_MILD ? !plan->mild : !plan->harsh) continue;
            runs++;
            end = scenario_plan_run_one(plan, plan->seed + i, (enum scenario_profile)profile,
                                        &events);
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
