/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of musterctl. */
#ifndef MUSTERCTL_COMMANDS_H
#define MUSTERCTL_COMMANDS_H
#include "ctl/ctl.h"

extern const struct command shard_command, domain_command, cluster_command, quota_command;
extern const struct command provider_command, instruction_command, replica_command;
extern const struct command worker_command, partition_command, checkpoint_command, queue_command;
extern const struct command store_command, coord_command, cert_command, config_command;
extern const struct command auth_command, snapshot_command;
extern const struct command machine_command, explain_machine_command;
ctl_fn backup_act;
/* of bigfleetctl, too */
extern const struct command list_shards_command, list_domain_assignments_command;
extern const struct command list_quotas_command, assign_domain_command;
extern const struct command unassign_domain_command, remove_shard_command;

/* Runs under the name bigfleetctl. Options may come before the command, with one dash or two. Every
 * failure has exit code 1, as in BigFleet. */
int bigfleetctl_main(int argc, char **argv);
#endif
