/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl drain, evict, release-hold, checkpoint: what a person may do to workers. */
#include <inttypes.h>

#include "common/tables.h"
#include "musterctl/commands.h"
#include "musterctl/ctl.h"
#include "wire/pb/muster_v1_member.pb-c.h"

static const char look[] = "musterctl workers";

static enum err drain(struct ctl *ctl)
{
    static const struct remote_method method = {"/muster.v1.Membership/Drain",
                                                &muster__v1__drain_worker_response__descriptor,
                                                REMOTE_ONCE, look};
    Muster__V1__DrainWorkerRequest request = MUSTER__V1__DRAIN_WORKER_REQUEST__INIT;
    const Muster__V1__DrainWorkerResponse *drained;
    ProtobufCMessage *answer;
    enum err err;

    request.worker_id = ctl_text(conf_argument(ctl->conf, 0));
    request.deadline_ms = conf_number(ctl->conf, "deadline");
    err = ctl_call(ctl, &method, &request.base, &answer);
    if (err) return err;
    drained = (const void *)answer;
    return ctl_done(ctl, &method, &request.base, answer, "%s %s", request.worker_id,
                    drained->delivered ? "has been told to drain"
                                       : "will be told to drain with its next beat");
}

static int run_drain(void *context, const struct command_call *call)
{
    return ctl_run(context, call, drain);
}

static const struct command_example drain_examples[] = {
    {"musterctl drain 01JFEAVS7C5DE5XEAEAB91EBT6", "it finishes, gives everything back and leaves"},
    {NULL, NULL},
};
const struct command drain_command = {
    .name = "drain",
    .summary = "ask a worker to finish, give back and leave",
    .about = "Tells a worker to stop taking work, to give back what it has and to leave. Nothing "
             "is taken from it by force; see evict.",
    .options = &drain_table,
    .arguments = "WORKER",
    .arguments_min = 1,
    .arguments_max = 1,
    .examples = drain_examples,
    .exits = CTL_EXITS | BIT(4) | BIT(5),
    .run = run_drain,
};

static enum err evict(struct ctl *ctl)
{
    static const struct remote_method method = {
        "/muster.v1.Membership/Evict", &muster__v1__evict_response__descriptor, REMOTE_ONCE, look};
    Muster__V1__EvictRequest request = MUSTER__V1__EVICT_REQUEST__INIT;
    const Muster__V1__EvictResponse *evicted;
    ProtobufCMessage *answer;
    enum err err;

    request.worker_id = ctl_text(conf_argument(ctl->conf, 0));
    err = ctl_call(ctl, &method, &request.base, &answer);
    if (err) return err;
    evicted = (const void *)answer;
    return ctl_done(ctl, &method, &request.base, answer, "evicted %s, incarnation %" PRIu64,
                    request.worker_id, evicted->incarnation);
}

static int run_evict(void *context, const struct command_call *call)
{
    return ctl_run(context, call, evict);
}

static const struct command_example evict_examples[] = {
    {"musterctl evict 01JFEAVS7C5DE5XEAEAB91EBT6",
     "it counts as failed; what it had is given away after its fence time"},
    {NULL, NULL},
};
const struct command evict_command = {
    .name = "evict",
    .summary = "declare a worker failed",
    .about = "Declares a worker dead, as if it had been silent for too long: one worker_failed "
             "event with the reason evicted. What it owned goes to others when it must have "
             "fenced itself. If it beats again it comes back under a new incarnation.",
    .options = &ctl_table,
    .arguments = "WORKER",
    .arguments_min = 1,
    .arguments_max = 1,
    .examples = evict_examples,
    .exits = CTL_EXITS | BIT(4) | BIT(5),
    .run = run_evict,
};

static enum err release_hold(struct ctl *ctl)
{
    static const struct remote_method method = {"/muster.v1.Membership/ReleaseHold",
                                                &muster__v1__release_hold_response__descriptor,
                                                REMOTE_ONCE, "musterctl status"};
    Muster__V1__ReleaseHoldRequest request = MUSTER__V1__RELEASE_HOLD_REQUEST__INIT;
    const Muster__V1__ReleaseHoldResponse *released;
    ProtobufCMessage *answer;
    enum err err = ctl_call(ctl, &method, &request.base, &answer);

    if (err) return err;
    released = (const void *)answer;
    return ctl_done(ctl, &method, &request.base, answer, "%s",
                    released->held ? "failures are declared again" : "nothing was held back");
}

static int run_release_hold(void *context, const struct command_call *call)
{
    return ctl_run(context, call, release_hold);
}

static const struct command_example release_examples[] = {
    {"musterctl release-hold", "they are really dead, all of them"},
    {NULL, NULL},
};
const struct command release_hold_command = {
    .name = "release-hold",
    .summary = "declare failures that are held back",
    .about = "When a third of the workers falls silent at once their failures are held back, for "
             "it is probably the network. This ends the hold at once.",
    .options = &ctl_table,
    .examples = release_examples,
    .exits = CTL_EXITS,
    .run = run_release_hold,
};

static enum err checkpoint_now(struct ctl *ctl)
{
    static const struct remote_method method = {"/muster.v1.Membership/CheckpointNow",
                                                &muster__v1__checkpoint_now_response__descriptor,
                                                REMOTE_ONCE, "musterctl checkpoints"};
    Muster__V1__CheckpointNowRequest request = MUSTER__V1__CHECKPOINT_NOW_REQUEST__INIT;
    const Muster__V1__CheckpointNowResponse *begun;
    ProtobufCMessage *answer;
    enum err err = ctl_call(ctl, &method, &request.base, &answer);

    if (err) return err;
    begun = (const void *)answer;
    return ctl_done(ctl, &method, &request.base, answer,
                    "round %" PRIu64 " asks %" PRIu32 " workers", begun->round, begun->workers);
}

static int run_checkpoint_now(void *context, const struct command_call *call)
{
    return ctl_run(context, call, checkpoint_now);
}

static const struct command_example now_examples[] = {
    {"musterctl checkpoint now", "before a restart, say"},
    {NULL, NULL},
};
static const struct command now_command = {
    .name = "now",
    .summary = "begin a round of checkpoints",
    .about = "Asks every worker that owns partitions for a checkpoint of each, beside the rounds "
             "that come by themselves.",
    .options = &ctl_table,
    .examples = now_examples,
    .exits = CTL_EXITS,
    .run = run_checkpoint_now,
};

static const struct command *const children[] = {&now_command, NULL};
const struct command checkpoint_command = {
    .name = "checkpoint",
    .summary = "checkpoints beside those that come by themselves",
    .about = "Begins a round of checkpoints. `musterctl checkpoints` lists them.",
    .children = children,
};
