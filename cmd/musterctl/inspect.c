/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl top, doctor, explain, needs, state-hash and provider: their options and help. What they do is in src/ctl.
 * One thread. */
#include "ctl/inspect.h"
#include "common/help.h"
#include "common/tables.h"
#include "ctl/doctor.h"
#include "ctl/explain.h"
#include "musterctl/commands.h"
#include "musterctl/run.h"

const struct command top_command = {
    HELP_MUSTERCTL_TOP,
    .options = &top_table,
    .exits = BIT(6),
    CTL_OFFLINE(top_act),
};

const struct command doctor_command = {
    HELP_MUSTERCTL_DOCTOR,
    .options = &doctor_table,
    CTL_OFFLINE(doctor_act),
};

static const struct command need_command = {
    HELP_MUSTERCTL_EXPLAIN_NEED,
    .options = &explain_table,
    COMMAND_ARGUMENTS("CLUSTER[/WHICH]", 1, 1),
    .exits = CTL_EXITS | BIT(5),
    CTL_OFFLINE(explain_need),
};

static const struct command machine_command = {
    HELP_MUSTERCTL_EXPLAIN_MACHINE,     .options = &explain_table,
    COMMAND_ARGUMENTS("MACHINE", 1, 1), .exits = CTL_EXITS | BIT(5),
    CTL_OFFLINE(explain_machine),
};

static const struct command worker_command = {
    HELP_MUSTERCTL_EXPLAIN_WORKER, .options = &explain_table, COMMAND_ARGUMENTS("WORKER", 1, 1),
    .exits = CTL_EXITS | BIT(5),   CTL_ACT(explain_worker),
};

const struct command explain_command = {
    HELP_MUSTERCTL_EXPLAIN,
    .children = COMMAND_CHILDREN(&need_command, &machine_command, &worker_command),
};

const struct command state_hash_command = {
    HELP_MUSTERCTL_STATE_HASH,
    .options = &ctl_table,
    .exits = CTL_EXITS | BIT(4),
    CTL_ACT(state_hash_act),
};

const struct command needs_command = {
    HELP_MUSTERCTL_NEEDS,
    .options = &needs_table,
    .exits = CTL_EXITS,
    CTL_OFFLINE(needs_act),
};

static const struct command verify_command = {
    HELP_MUSTERCTL_PROVIDER_VERIFY,     .options = &provider_verify_table,
    COMMAND_ARGUMENTS("ADDRESS", 1, 1), .exits = BIT(4) | BIT(5) | BIT(6),
    CTL_OFFLINE(provider_verify),
};
const struct command provider_command = {
    HELP_MUSTERCTL_PROVIDER,
    .verbs = true,
    .children =
        COMMAND_CHILDREN(&list_providers_command, &upsert_provider_command, &verify_command),
};
