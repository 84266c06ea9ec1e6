/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl worker drain, evict, release-hold, checkpoint: what a person may do to workers. One thread. */
#include "common/tables.h"
#include "musterctl/commands.h"
#include "musterctl/run.h"
#include "wire/pb/muster_v1_member.pb-c.h"

const struct command drain_command = {
    .name = "drain",
    .verb = "drain",
    .summary = "ask a worker to finish, give back and leave",
    .about = "Tells a worker to stop taking work, to give back what it has and to leave. Nothing "
             "is taken from it by force; see evict.",
    .options = &drain_table,
    COMMAND_ARGUMENTS("WORKER", 1, 1),
    .examples = COMMAND_EXAMPLES({"musterctl worker drain 01JFEAVS7C5DE5XEAEAB91EBT6",
                                  "it finishes, gives everything back and leaves"}),
    .exits = CTL_EXITS | BIT(4) | BIT(5),
    CTL_RPC(CTL_ONCE(MEMBERSHIP_PATH "Drain", muster__v1__drain_worker, "musterctl worker list"),
            CTL_FILL({"worker_id", NULL}, {"deadline_ms", "deadline"}), .done_if = "delivered",
            .done = "{worker_id} has been told to drain",
            .done_else = "{worker_id} will be told to drain with its next beat"),
};

const struct command evict_command = {
    .name = "evict",
    .verb = "evict",
    .summary = "declare a worker failed",
    .about = "Declares a worker dead, as if it had been silent for too long: one worker_failed "
             "event with the reason evicted. What it owned goes to others when it must have fenced "
             "itself. If it beats again it comes back under a new incarnation.",
    .options = &removal_table,
    COMMAND_ARGUMENTS("WORKER", 1, 1),
    .examples =
        COMMAND_EXAMPLES({"musterctl worker evict 01JFEAVS7C5DE5XEAEAB91EBT6",
                          "it counts as failed; what it had is given away after its fence time"}),
    .exits = CTL_EXITS | BIT(4) | BIT(5),
    CTL_RPC(CTL_ONCE(MEMBERSHIP_PATH "Evict", muster__v1__evict, "musterctl worker list"),
            CTL_FILL({"worker_id", NULL}),
            .asks = "The worker counts as failed, and its partitions go to other workers.",
            .done = "evicted {worker_id}, incarnation {incarnation}"),
};

const struct command release_hold_command = {
    .name = "release-hold",
    .verb = "release-hold",
    .summary = "declare failures that are held back",
    .about = "When a third of the workers falls silent at once their failures are held back, for "
             "it is probably the network. This ends the hold at once.",
    .options = &ctl_table,
    .examples =
        COMMAND_EXAMPLES({"musterctl worker release-hold", "they are really dead, all of them"}),
    .exits = CTL_EXITS,
    CTL_RPC(CTL_ONCE(MEMBERSHIP_PATH "ReleaseHold", muster__v1__release_hold,
                     "musterctl worker status"),
            .done_if = "held", .done = "failures are declared again",
            .done_else = "nothing was held back"),
};

static const struct command now_command = {
    .name = "now",
    .summary = "begin a round of checkpoints",
    .about = "Asks every worker that owns partitions for a checkpoint of each, beside the rounds "
             "that come by themselves.",
    .options = &ctl_table,
    .examples = COMMAND_EXAMPLES({"musterctl checkpoint now", "before a restart, say"}),
    .exits = CTL_EXITS,
    CTL_RPC(CTL_ONCE(MEMBERSHIP_PATH "CheckpointNow", muster__v1__checkpoint_now,
                     "musterctl checkpoint list"),
            .done = "round {round} asks {workers} workers"),
};

const struct command checkpoint_command = {
    .name = "checkpoint",
    .summary = "the checkpoints of the partitions: list, begin a round now",
    .about = "Workers write checkpoints by themselves; a round can be asked for.",
    .verbs = true,
    .children = COMMAND_CHILDREN(&checkpoints_command, &now_command),
};
