/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl: the tool beside a fleet. */
#include "common/program.h"
#include "common/tools.h"
#include "musterctl/bigfleetctl.h"
#include "musterctl/commands.h"

/* -- nouns; each command keeps its name of older releases, too -- */

static const struct command shard_group = {
    .name = "shard",
    .verbs = true,
    .summary = "the shards: list, reports, add, remove",
    .about = "Shards decide which cluster gets which machine. They register by reporting.",
    .children = COMMAND_CHILDREN(&list_shards_command, &list_shard_reports_command,
                                 &add_shard_command, &remove_shard_command),
};

static const struct command domain_group = {
    .name = "domain",
    .verbs = true,
    .summary = "topology domains and the shards that own them",
    .about = "A domain is a value of a machine label, such as a zone. Each belongs to one shard.",
    .children = COMMAND_CHILDREN(&list_domain_assignments_command, &list_leaving_domains_command,
                                 &assign_domain_command, &unassign_domain_command),
};

static const struct command cluster_group = {
    .name = "cluster",
    .verbs = true,
    .summary = "the clusters and the shards that serve them",
    .about = "A cluster consumes machines; one shard serves it.",
    .children = COMMAND_CHILDREN(&list_clusters_command, &bind_cluster_command),
};

static const struct command quota_group = {
    .name = "quota",
    .verbs = true,
    .summary = "how many speculative machines each shard may order",
    .about = "A provider's quota of a region is divided into slices, one for each shard.",
    .children = COMMAND_CHILDREN(&list_quotas_command, &set_quota_command),
};

static const struct command need_group = {
    .name = "need",
    .verbs = true,
    .summary = "what each Need of a shard got, and why it lacks the rest",
    .about = "A Need is demand with one profile, priority and penalties.",
    .children = COMMAND_CHILDREN(&needs_command),
};

static const struct command worker_group = {
    .name = "worker",
    .verbs = true,
    .summary = "the workers: list, status, drain, evict",
    .about = "Workers own partitions and send heartbeats.",
    .children = COMMAND_CHILDREN(&workers_command, &member_status_command, &assignment_command,
                                 &drain_command, &evict_command, &release_hold_command),
};

static const struct command partition_group = {
    .name = "partition",
    .verbs = true,
    .summary = "the partitions, and who owns each",
    .about = "A partition is a part of the input, owned by one worker.",
    .children = COMMAND_CHILDREN(&partitions_command),
};

static const struct command queue_group = {
    .name = "queue",
    .verbs = true,
    .summary = "the work queue",
    .about = "Items that workers pull, each identified by the hash of its content.",
    .children = COMMAND_CHILDREN(&work_command),
};

static const struct command program = {
    .name = "musterctl",
    .summary = "looks at a fleet and changes it; makes its certificates",
    .about = "Talks to a coordinator: any replica will do, the leader is found. Also makes the "
             "certificates a fleet proves itself with, checks configuration files, and claims, "
             "locks and compares on any store (`musterctl coord`). Installed under the name "
             "bigfleetctl it takes that program's command lines.",
    .examples =
        COMMAND_EXAMPLES({"musterctl shard list --coordinator c1:7790,c2:7790,c3:7790",
                          "any replicas; whoever leads is found"},
                         {"musterctl domain assign --key zone --value eu-1a --shard shard-0",
                          "a domain gets an owner"},
                         {"musterctl replica hash", "do the replicas hold the same state?"},
                         {"musterctl coord exec --group nightly --slots 1 -- ./backup.sh",
                          "one at a time, whoever starts it, on whatever store you have"},
                         {"musterctl cert ca && musterctl cert issue admin",
                          "an authority, and a certificate for you"},
                         {"musterctl config check muster.toml", "is this file good?"}),
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
    if (argc > 0 && bigfleetctl_is(argv[0])) return bigfleetctl_main(argc, argv);
    return program_main(&program, argc, argv);
}
