/* SPDX-License-Identifier: Apache-2.0 */
/* muster-log: the replicated log as a program for tests and benches: a replica with a machine of
 * registers, and muster's own offline tools over its directory. muster-log-mutants is the same
 * program with the planted bugs of the log; MUSTER_TEST_MUTANT switches one of them on. */
#include "common/program.h"
#include "common/tables.h"
#include "log_node.h"
#include "muster/commands.h"

/* An offline tool over the directory DIR. */
#define OFFLINE_TOOL(tool)                                                                         \
    .name = (tool), .summary = "an offline tool", .about = "", COMMAND_ARGUMENTS("DIR", 1, 1)

static const struct command *const tools[] = {
    COMMAND(OFFLINE_TOOL("force-config"), .options = &force_config_table,
            PROGRAM_ACT(BIT(4) | BIT(5), force_config_act)),
    COMMAND(OFFLINE_TOOL("rejoin"), .options = &rejoin_table,
            PROGRAM_ACT(BIT(4) | BIT(5), rejoin_act)),
    NULL};
static const struct command coordinator = {
    .name = "coordinator", .summary = "the offline tools", .about = "", .children = tools};
static const struct command *const children[] = {
    &log_node_command, COMMAND(OFFLINE_TOOL("check"), PROGRAM_ACT(BIT(4) | BIT(5), check_act)),
    &coordinator, NULL};
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
