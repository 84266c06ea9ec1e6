/* SPDX-License-Identifier: Apache-2.0 */
/* The action of a command of musterctl: one of these macros in its struct command. */
#ifndef MUSTERCTL_RUN_H
#define MUSTERCTL_RUN_H
#include "ctl/ctl.h"

int ctl_run(void *context, const struct command_call *call); /* what `data` of the command says */

/* `more`: exit codes beside those that every call can end with. */
#define CTL_RUN(more, ...)                                                                         \
    .exits = CTL_EXITS | (more), .run = ctl_run, .data = &(const struct ctl_action)                \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define CTL_RPC(more, ...) CTL_RUN(more, .rpc = {__VA_ARGS__})
#define CTL_ACT(more, fn)  CTL_RUN(more, .act = (fn))
#define CTL_OFFLINE(codes, fn)                                                                     \
    .exits = (codes), .run = ctl_run, .data = &(const struct ctl_action)                           \
    {                                                                                              \
        .act = (fn), .offline = true                                                               \
    }

#endif
