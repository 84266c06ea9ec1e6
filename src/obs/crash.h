/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a last report when the process crashes: the build, a backtrace and the recent-events ring.
 *
 * Handles SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT. The handler prints to standard error and
 * dies by the same signal, so exit status and core dump do not change. If anything hangs, SIGALRM
 * ends the process after 5 s.
 *
 * Only the thread that installed the handler has an alternate stack: a stack overflow on another
 * thread prints nothing. A thread that blocks these signals prints nothing either. */
#ifndef OBS_CRASH_H
#define OBS_CRASH_H
#include "base/err.h"

struct crash_options {
    const char *program;          /* such as "muster coordinator"; copied */
    const char *version, *commit; /* copied */
    int fd;                       /* 0: standard error */
};
/* Call once, early in main. ERR_NOMEM or ERR_UNAVAILABLE. */
enum err crash_install(const struct crash_options *options);
#endif
