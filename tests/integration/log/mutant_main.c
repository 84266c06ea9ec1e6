/* SPDX-License-Identifier: Apache-2.0 */
/* muster with only what the log's tests run, over the log with its planted bugs: the environment's
 * MUSTER_TEST_MUTANT names the one that is on. */
#include "common/program.h"
#include "muster/commands.h"

static const struct command *const tools[] = {&force_config_command, &rejoin_command, NULL};
static const struct command coordinator = {
    .name = "coordinator", .summary = "the offline tools", .about = "", .children = tools};
static const struct command *const children[] = {&coordinator, &check_command, &log_node_command,
                                                 NULL};
static const struct command program = {
    .name = "muster",
    .summary = "the replicated log with a planted bug",
    .about = "For the tests of tests/integration/log.",
    .children = children,
};

int main(int argc, char **argv)
{
    return program_main(&program, argc, argv);
}
