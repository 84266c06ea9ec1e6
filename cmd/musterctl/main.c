/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl: the tool beside a fleet. */
#include "common/help.h"
#include <string.h>

#include "common/program.h"
#include "common/tools.h"
#include "common/words.h"
#include "musterctl/commands.h"

static const struct command program = {
    HELP_MUSTERCTL,
    .children = COMMAND_CHILDREN(
        &top_command, &explain_command, &doctor_command, &list_shards_command,
        &list_domain_assignments_command, &list_leaving_domains_command, &list_quotas_command,
        &list_providers_command, &list_clusters_command, &list_shard_reports_command,
        &needs_command, &assign_domain_command, &unassign_domain_command, &add_shard_command,
        &remove_shard_command, &bind_cluster_command, &set_quota_command, &upsert_provider_command,
        &instruction_command, &replica_command, &state_hash_command, &provider_command,
        &member_status_command, &workers_command, &partitions_command, &assignment_command,
        &checkpoints_command, &work_command, &drain_command, &evict_command, &release_hold_command,
        &checkpoint_command, &backup_command, &restore_command, &snapshot_command, &coord_command,
        &store_command, &auth_command, &cert_command, &config_command, &completion_command,
        &man_command, &version_command),
};

int main(int argc, char **argv)
{
    if (argc > 0 && strcmp(words_program(argv[0]), "bigfleetctl") == 0)
        return bigfleetctl_main(argc, argv);
    return program_main(&program, argc, argv);
}
