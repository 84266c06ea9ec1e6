/* SPDX-License-Identifier: Apache-2.0 */
/* The last report of a dying process: the recent-events ring, a backtrace, and which build it is.
 *
 * For SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT (so for a failed assertion too): prints to
 * standard error, then dies by the same signal, so that exit status and core dump are what they
 * would have been. A reader of standard error that has stopped is waited for 200 ms, once; should
 * anything else hang, SIGALRM ends the process after 5 s. All calls are ones that a signal handler
 * may make, except those for the backtrace, which do not allocate but take the loader's lock.
 *
 * The handler has its own stack on the thread that installed it; on others an overflowed stack dies
 * silently, as without us. A thread that blocks these signals dies silently too. */
#ifndef OBS_CRASH_H
#define OBS_CRASH_H
#include "base/err.h"

struct crash_options {
    const char *program;          /* "muster coordinator"; copied */
    const char *version, *commit; /* copied */
    int fd;                       /* 0: standard error */
};
/* Once, early in main. ERR_NOMEM, ERR_UNAVAILABLE. */
enum err crash_install(const struct crash_options *options);
#endif
