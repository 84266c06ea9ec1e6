/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl: the tool beside a fleet. */
#include "common/program.h"
#include "common/tools.h"
#include "musterctl/bigfleetctl.h"
#include "musterctl/commands.h"

static const struct command program = {
    .name = "musterctl",
    .summary = "looks at a fleet and changes it; makes its certificates",
    .about = "Talks to a coordinator: any replica will do, the leader is found. Also makes the "
             "certificates a fleet proves itself with, checks configuration files, and claims, "
             "locks and compares on any store (`musterctl coord`). Installed under the name "
             "bigfleetctl it takes that program's command lines.",
    .examples =
        COMMAND_EXAMPLES({"musterctl list-shards --coordinator c1:7790,c2:7790,c3:7790",
                          "any replicas; whoever leads is found"},
                         {"musterctl assign-domain --key zone --value eu-1a --shard shard-0",
                          "a domain gets an owner"},
                         {"musterctl state-hash", "do the replicas hold the same state?"},
                         {"musterctl coord exec --group nightly --slots 1 -- ./backup.sh",
                          "one at a time, whoever starts it, on whatever store you have"},
                         {"musterctl cert ca && musterctl cert issue admin",
                          "an authority, and a certificate for you"},
                         {"musterctl config check muster.toml", "is this file good?"}),
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
    if (argc > 0 && bigfleetctl_is(argv[0])) return bigfleetctl_main(argc, argv);
    return program_main(&program, argc, argv);
}
