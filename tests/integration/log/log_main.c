/* SPDX-License-Identifier: Apache-2.0 */
/* muster-log: the replicated log as a program, to try, break and measure it: a replica with a machine
 * of registers, and muster's own offline tools over its directory. muster-log-mutants is the same
 * over the log with its planted bugs; the environment's MUSTER_TEST_MUTANT names the one that is
 * on. */
#include "common/program.h"
#include "log_node.h"
#include "muster/commands.h"

static const struct command *const tools[] = {&force_config_command, &rejoin_command, NULL};
static const struct command coordinator = {
    .name = "coordinator", .summary = "the offline tools", .about = "", .children = tools};
static const struct command *const children[] = {&log_node_command, &check_command, &coordinator,
                                                 NULL};
static const struct command program = {
    .name = "muster-log",
    .summary = "the replicated log by itself",
    .about = "A test program; docs/log.md shows what can be done with it.",
    .children = children,
};

int main(int argc, char **argv)
{
    return program_main(&program, argc, argv);
}
