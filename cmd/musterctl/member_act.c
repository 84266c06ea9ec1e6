/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl drain, evict, release-hold, checkpoint: what a person may do to workers. One thread. */
#include "common/help.h"
#include "common/tables.h"
#include "musterctl/commands.h"
#include "musterctl/run.h"
#include "wire/pb/muster_v1_member.pb-c.h"

const struct command drain_command = {
    HELP_MUSTERCTL_DRAIN,
    .options = &drain_table,
    COMMAND_ARGUMENTS("WORKER", 1, 1),
    .exits = CTL_EXITS | BIT(4) | BIT(5),
    CTL_RPC(CTL_ONCE(MEMBERSHIP_PATH "Drain", muster__v1__drain_worker, "musterctl workers"),
            CTL_FILL({"worker_id", NULL}, {"deadline_ms", "deadline"}), .done_if = "delivered",
            .done = "{worker_id} has been told to drain",
            .done_else = "{worker_id} will be told to drain with its next beat"),
};

const struct command evict_command = {
    HELP_MUSTERCTL_EVICT,
    .options = &ctl_table,
    COMMAND_ARGUMENTS("WORKER", 1, 1),
    .exits = CTL_EXITS | BIT(4) | BIT(5),
    CTL_RPC(CTL_ONCE(MEMBERSHIP_PATH "Evict", muster__v1__evict, "musterctl workers"),
            CTL_FILL({"worker_id", NULL}),
            .done = "evicted {worker_id}, incarnation {incarnation}"),
};

const struct command release_hold_command = {
    HELP_MUSTERCTL_RELEASE_HOLD,
    .options = &ctl_table,
    .exits = CTL_EXITS,
    CTL_RPC(CTL_ONCE(MEMBERSHIP_PATH "ReleaseHold", muster__v1__release_hold, "musterctl status"),
            .done_if = "held", .done = "failures are declared again",
            .done_else = "nothing was held back"),
};

static const struct command now_command = {
    HELP_MUSTERCTL_CHECKPOINT_NOW,
    .options = &ctl_table,
    .exits = CTL_EXITS,
    CTL_RPC(CTL_ONCE(MEMBERSHIP_PATH "CheckpointNow", muster__v1__checkpoint_now,
                     "musterctl checkpoints"),
            .done = "round {round} asks {workers} workers"),
};

const struct command checkpoint_command = {
    HELP_MUSTERCTL_CHECKPOINT,
    .children = COMMAND_CHILDREN(&now_command),
};
