/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl: the tool beside a fleet. */
#include <string.h>

#include "common/help.h"
#include "common/program.h"
#include "common/tools.h"
#include "common/words.h"
#include "musterctl/commands.h"

static const struct command main_program = {
    HELP_MUSTERCTL,
    .children = COMMAND_CHILDREN(
        &top_command, &explain_command, &doctor_command, &shard_command, &domain_command,
        &cluster_command, &need_command, &quota_command, &provider_command, &instruction_command,
        &replica_command, &worker_command, &partition_command, &checkpoint_command, &queue_command,
        &store_command, &coord_command, &backup_command, &restore_command, &snapshot_command,
        &auth_command, &cert_command, &config_command, &completion_command, &man_command,
        &version_command),
};

int main(int argc, char **argv)
{
    if (argc > 0 && strcmp(words_program(argv[0]), "bigfleetctl") == 0)
        return bigfleetctl_main(argc, argv);
    return program_main(&main_program, argc, argv);
}
