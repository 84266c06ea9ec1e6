/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of muster: the roles and the offline tools. */
#ifndef MUSTER_COMMANDS_H
#define MUSTER_COMMANDS_H
#include "common/program.h"

extern const struct command dev_command, coordinator_command, shard_command, operator_command;
extern const struct command provider_command, worker_command;
program_act_fn check_act, plan_act, test_fence_act, mock_run_act;
program_act_fn force_config_act, rejoin_act, coordinator_ledger_act;
#endif
