/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl: the tool beside a fleet. */
#include <string.h>

#include "common/help.h"
#include "common/program.h"
#include "common/tools.h"
#include "common/words.h"
#include "musterctl/commands.h"

/* -- nouns; each command keeps its name of older releases, too -- */

static const struct command shard_group =
    COMMAND_GROUP(HELP_MUSTERCTL_SHARD, &list_shards_command, &list_shard_reports_command,
                  &add_shard_command, &remove_shard_command);
static const struct command domain_group =
    COMMAND_GROUP(HELP_MUSTERCTL_DOMAIN, &list_domain_assignments_command,
                  &list_leaving_domains_command, &assign_domain_command, &unassign_domain_command);
static const struct command cluster_group =
    COMMAND_GROUP(HELP_MUSTERCTL_CLUSTER, &list_clusters_command, &bind_cluster_command);
static const struct command quota_group =
    COMMAND_GROUP(HELP_MUSTERCTL_QUOTA, &list_quotas_command, &set_quota_command);
static const struct command need_group = COMMAND_GROUP(HELP_MUSTERCTL_NEED, &needs_command);
static const struct command worker_group =
    COMMAND_GROUP(HELP_MUSTERCTL_WORKER, &workers_command, &member_status_command,
                  &assignment_command, &drain_command, &evict_command, &release_hold_command);
static const struct command partition_group =
    COMMAND_GROUP(HELP_MUSTERCTL_PARTITION, &partitions_command);
static const struct command queue_group = COMMAND_GROUP(HELP_MUSTERCTL_QUEUE, &work_command);

static const struct command main_program = {
    HELP_MUSTERCTL,
    .children = COMMAND_CHILDREN(&top_command, &explain_command, &doctor_command, &shard_group,
                                 &domain_group, &cluster_group, &need_group, &quota_group,
                                 &provider_command, &instruction_command, &replica_command,
                                 &worker_group, &partition_group, &checkpoint_command, &queue_group,
                                 &store_command, &coord_command, &backup_command, &restore_command,
                                 &snapshot_command, &auth_command, &cert_command, &config_command,
                                 &completion_command, &man_command, &version_command),
};

int main(int argc, char **argv)
{
    if (argc > 0 && strcmp(words_program(argv[0]), "bigfleetctl") == 0)
        return bigfleetctl_main(argc, argv);
    return program_main(&main_program, argc, argv);
}
