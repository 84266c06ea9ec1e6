/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of muster, one file each. */
#ifndef MUSTER_COMMANDS_H
#define MUSTER_COMMANDS_H
#include "conf/command.h"

extern const struct command dev_command, check_command, coordinator_command;
extern const struct command test_fence_command, mock_run_command;
extern const struct command operator_command, provider_command, plan_command, shard_command;
extern const struct command worker_command;
extern const struct command force_config_command, rejoin_command, coordinator_restore_command;
extern const struct command coordinator_ledger_command;
#endif
