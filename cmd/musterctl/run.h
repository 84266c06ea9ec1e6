/* SPDX-License-Identifier: Apache-2.0 */
/* Macros for the action of a musterctl command; each struct command uses one of them. */
#ifndef MUSTERCTL_RUN_H
#define MUSTERCTL_RUN_H
#include "ctl/ctl.h"

int ctl_run(void *context, const struct command_call *call); /* runs `data` */

/* `more`: exit codes in addition to CTL_EXITS. */
#define CTL_RUN(more, ...)                                                                         \
    .exits = CTL_EXITS | (more), .run = ctl_run, .data = (&(const struct ctl_action){__VA_ARGS__})
#define CTL_RPC(more, ...) CTL_RUN(more, .rpc = {__VA_ARGS__})
#define CTL_ACT(more, fn)  CTL_RUN(more, .act = (fn))
#define CTL_OFFLINE(codes, fn)                                                                     \
    .exits = (codes), .run = ctl_run,                                                              \
    .data = (&(const struct ctl_action){.act = (fn), .offline = true})

#endif
