/* SPDX-License-Identifier: Apache-2.0 */
/* How a command of musterctl names what it does: one of these in its struct command. */
#ifndef MUSTERCTL_RUN_H
#define MUSTERCTL_RUN_H
#include "ctl/ctl.h"

int ctl_run(void *context, const struct command_call *call); /* what `data` of the command says */

#define CTL_RUN(...)                                                                               \
    .run = ctl_run, .data = &(const struct ctl_action)                                             \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define CTL_RPC(...)    CTL_RUN(.rpc = {__VA_ARGS__})
#define CTL_ACT(fn)     CTL_RUN(.act = (fn))
#define CTL_OFFLINE(fn) CTL_RUN(.act = (fn), .offline = true)

#define COORDINATOR_PATH "/bigfleet.v1alpha1.Coordinator/"
#define FLEET_PATH       "/muster.v1.Fleet/"
#define MEMBERSHIP_PATH  "/muster.v1.Membership/"
#define STORE_PATH       "/muster.v1.Coordination/"
#endif
