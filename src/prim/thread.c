/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the library start with signals blocked, so that no handler of the host program runs
 * on them. Waits use CLOCK_MONOTONIC, so wall clock changes do not affect timeouts. */
#include "prim/thread.h"

#include <signal.h>

bool prim_thread_start(pthread_t *ret_thread, void *(*run)(void *arg), void *arg)
{
    sigset_t all, before;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(ret_thread, NULL, run, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed == 0;
}

void prim_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t monotonic;

    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(cond, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
}

void prim_thread_pause_ms(int64_t ms)
{
    (void)nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

struct timespec prim_until_ms(int64_t ms)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    return until;
}
