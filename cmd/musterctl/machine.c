/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl machine: lists machines, explains one, takes machines out of use. One thread. */
#include "common/help.h"
#include "common/tables.h"
#include "ctl/explain.h"
#include "ctl/machines.h"
#include "musterctl/commands.h"
#include "musterctl/run.h"

const struct command explain_machine_command = {
    .verb = "explain",
    COMMAND_ROW_WITH(HELP_MUSTERCTL_EXPLAIN_MACHINE, explain, "MACHINE", 1, 1),
    CTL_OFFLINE(CTL_EXITS | BIT(5), explain_machine)};
const struct command machine_command = COMMAND_GROUP(
    HELP_MUSTERCTL_MACHINE,
    COMMAND(COMMAND_ROW(HELP_MUSTERCTL_MACHINE_LIST, machine_list),
            CTL_OFFLINE(CTL_EXITS, machine_list_act)),
    &explain_machine_command,
    COMMAND(COMMAND_ROW(HELP_MUSTERCTL_MACHINE_CORDONS, machine_cordons),
            CTL_OFFLINE(CTL_EXITS, machine_cordons_act)),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_MACHINE_CORDON, machine_cordon, "[MACHINE]", 0, 1),
            CTL_OFFLINE(CTL_EXITS | BIT(5), machine_cordon_act)),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_MACHINE_UNCORDON, machine_cordon, "[MACHINE]", 0, 1),
            CTL_OFFLINE(CTL_EXITS | BIT(5), machine_uncordon_act)),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_MACHINE_DRAIN, machine_drain, "[MACHINE]", 0, 1),
            CTL_OFFLINE(CTL_EXITS | BIT(5), machine_drain_act)),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_MACHINE_REPLACE, machine_drain, "[MACHINE]", 0, 1),
            CTL_OFFLINE(CTL_EXITS | BIT(5), machine_drain_act)));
