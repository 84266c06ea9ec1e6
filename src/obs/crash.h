/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a last report when the process crashes: the build, a backtrace and the recent-events ring.
 *
 * Handles SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT (so failed assertions, too). The handler
 * prints to standard error and dies by the same signal, so exit status and core dump do not change.
 * The handler waits once, 200 ms, if the reader of standard error does not read. If anything else
 * hangs, SIGALRM ends the process after 5 s. The handler makes only async-signal-safe calls, except
 * those for the backtrace, which do not allocate but take the loader's lock.
 *
 * The handler has an alternate stack only on the thread that installed it. A stack overflow on
 * another thread prints nothing. A thread that blocks these signals prints nothing either. */
#ifndef OBS_CRASH_H
#define OBS_CRASH_H
#include "base/err.h"

struct crash_options {
    const char *program;          /* such as "muster coordinator"; copied */
    const char *version, *commit; /* copied */
    int fd;                       /* 0: standard error */
};
/* Installs the handler. Call it once, early in main. Returns ERR_NOMEM or ERR_UNAVAILABLE. */
enum err crash_install(const struct crash_options *options);
#endif
