/* SPDX-License-Identifier: Apache-2.0 */
/* muster coordinator: the role itself and the offline tools beside it. */
#include "muster/commands.h"

const struct command coordinator_command = {
    .name = "coordinator",
    .summary = "a replica of the fleet coordinator, and tools for its data directory",
    .about = "Runs a replica of the coordinator, or works on the data directory of one that is not "
             "running.",
    .children = COMMAND_CHILDREN(&coordinator_run_command, &force_config_command, &rejoin_command,
                                 &coordinator_restore_command, &coordinator_ledger_command),
};
