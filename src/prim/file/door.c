/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/file/door.h"

#include <errno.h>
#include <time.h>

void door_init(struct door *door)
{
    pthread_condattr_t attributes;
    *door = (struct door){0};
    (void)pthread_mutex_init(&door->mutex, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&door->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

void door_deinit(struct door *door)
{
    assert(door->sharing == 0 && !door->alone);
    (void)pthread_cond_destroy(&door->changed);
    (void)pthread_mutex_destroy(&door->mutex);
}

static bool may_enter(const struct door *door, bool alone)
{
    return alone ? !door->alone && door->sharing == 0 : !door->alone && door->waiting_alone == 0;
}

bool door_enter(struct door *door, bool alone, int64_t wait_ns)
{
    struct timespec until;
    int waited = 0;
    (void)pthread_mutex_lock(&door->mutex);
    if (!may_enter(door, alone) && wait_ns > 0) {
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        int64_t ns = until.tv_nsec + wait_ns % 1000000000;
        until.tv_sec += wait_ns / 1000000000 + ns / 1000000000;
        until.tv_nsec = ns % 1000000000;
        door->waiting_alone += alone ? 1 : 0;
        while (!may_enter(door, alone) && waited != ETIMEDOUT)
            waited = pthread_cond_timedwait(&door->changed, &door->mutex, &until);
        door->waiting_alone -= alone ? 1 : 0;
    }
    bool entered = may_enter(door, alone);
    if (entered && alone) door->alone = true;
    if (entered && !alone) door->sharing++;
    /* Who gave up waiting alone held the others back. */
    if (!entered) (void)pthread_cond_broadcast(&door->changed);
    (void)pthread_mutex_unlock(&door->mutex);
    return entered;
}

void door_leave(struct door *door, bool alone)
{
    (void)pthread_mutex_lock(&door->mutex);
    assert(alone ? door->alone : door->sharing > 0);
    if (alone)
        door->alone = false;
    else
        door->sharing--;
    (void)pthread_cond_broadcast(&door->changed);
    (void)pthread_mutex_unlock(&door->mutex);
}
