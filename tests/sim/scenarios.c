/* SPDX-License-Identifier: Apache-2.0 */
#include "scenarios.h"

#include "log_story.h"
#include "member_story.h"
#include "quorum_story.h"
#include "register_scenario.h"
#include "rpc_scenario.h"
#include "shard_story.h"
#include "store_story.h"

static const struct scenario *const all[] = {
    &register_scenario, &rpc_scenario,   &log_scenario,    &quorum_scenario,
    &store_scenario,    &shard_scenario, &member_scenario,
};

struct scenario_table scenarios_all(void)
{
    return (struct scenario_table){all, ARRAY_LEN(all)};
}
