/* SPDX-License-Identifier: Apache-2.0 */
#include "stall.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "suite.h"

enum { TICK_MS = 10 };
static _Atomic int64_t longest_ns, ticked_ns;

static int64_t late_ns(void)
{
    return real_now_ns() - atomic_load(&ticked_ns) - TICK_MS * MSEC;
}

static void *watch_the_clock(void *arg)
{
    for (;;) {
        real_sleep_ms(TICK_MS);
        int64_t late = late_ns();
        if (late > atomic_load(&longest_ns)) { atomic_store(&longest_ns, late); }
        atomic_store(&ticked_ns, real_now_ns());
    }
    return arg;
}

void stall_begin(void)
{
    static bool is_watched;
    pthread_t thread;
    if (!is_watched) {
        atomic_store(&ticked_ns, real_now_ns());
        is_watched = pthread_create(&thread, NULL, watch_the_clock, NULL) == 0 &&
                     pthread_detach(thread) == 0;
    }
    atomic_store(&longest_ns, 0);
}

int64_t stall_longest_ms(void)
{
    int64_t late = late_ns(); /* the caller may have woken before the watching thread */
    return (late > atomic_load(&longest_ns) ? late : atomic_load(&longest_ns)) / MSEC;
}
