/* SPDX-License-Identifier: Apache-2.0 */
/* muster sim: simulated worlds over the very code that runs, from seeds. */
#include "common/program.h"
#include "common/tables.h"
#include "common/version.h"
#include "muster/commands.h"
#include "sim/log/story.h"
#include "sim/scenario_plan.h"

static int run_sim_log(void *context, const struct command_call *call)
{
    struct scenario_plan plan = {
        .scenario = &log_scenario, .again = "muster sim log", .commit = version_commit()};
    struct conf *conf;
    enum err err = program_load_conf(context, call, &conf);
    int exit_code;

    if (err) return err_exit_code(err);
    plan.seed = conf_number(conf, "seed");
    plan.count = conf_number(conf, "count");
    plan.mild = conf_choice(conf, "profile") != SCENARIO_HARSH;
    plan.harsh = conf_choice(conf, "profile") != SCENARIO_MILD;
    plan.trace = conf_bool(conf, "trace");
    scenario_plan_catch_crashes();
    exit_code = scenario_plan_run(&plan);
    conf_close(conf);
    return exit_code ? 1 : 0;
}

static const struct command_example log_examples[] = {
    {"muster sim log --seed 7 --count 100", "a hundred seeds, each in a mild and a harsh world"},
    {"muster sim log --seed 7 --profile harsh --trace", "one world, told event by event"},
    {NULL, NULL},
};
static const struct command log_command = {
    .name = "log",
    .summary = "the replicated log: replicas, clients and member changes under faults",
    .about = "Runs the replicas of this very program in a simulated world: hosts, disks, clocks "
             "and a network in one thread, everything drawn from a seed. First with faults (power "
             "cuts, kills, pauses, partitions, torn writes, full disks, clocks that drift) and "
             "nothing unsafe may happen; then everything is healed and progress must follow. Stops "
             "at the first seed that fails and prints how to run it again.",
    .options = &sim_log_table,
    .examples = log_examples,
    .exits = BIT(1) | BIT(2),
    .run = run_sim_log,
};
static const struct command *const children[] = {&log_command, NULL};
const struct command sim_command = {
    .name = "sim",
    .summary = "simulated worlds from seeds",
    .about = "The same code in virtual time, under faults that are drawn from a seed. Needs no "
             "disk, no network and no privileges.",
    .children = children,
};
