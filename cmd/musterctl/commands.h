/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of musterctl. */
#ifndef MUSTERCTL_COMMANDS_H
#define MUSTERCTL_COMMANDS_H
#include "conf/command.h"

extern const struct command cert_command, config_command, auth_command;
extern const struct command list_shards_command, list_domain_assignments_command;
extern const struct command list_leaving_domains_command;
extern const struct command list_quotas_command, list_providers_command, list_clusters_command;
extern const struct command list_shard_reports_command;
extern const struct command assign_domain_command, unassign_domain_command;
extern const struct command add_shard_command, remove_shard_command;
extern const struct command bind_cluster_command, set_quota_command, upsert_provider_command;
extern const struct command replica_command, instruction_command, state_hash_command;
extern const struct command provider_command;
extern const struct command member_status_command, workers_command, partitions_command,
    assignment_command;
extern const struct command checkpoints_command, work_command;
extern const struct command drain_command, evict_command, release_hold_command, checkpoint_command;
extern const struct command store_command, needs_command, top_command;
extern const struct command doctor_command, explain_command;
extern const struct command coord_command;
extern const struct command snapshot_command, backup_command, restore_command;

/* The run under the name bigfleetctl, in whose command lines options may come before the command,
 * with one dash or two. Every failure is 1, as there. */
int bigfleetctl_main(int argc, char **argv);
#endif
