/* SPDX-License-Identifier: Apache-2.0 */
/* A lock among the threads of this process, shared or exclusive, that gives up at a deadline.
 *
 * Beside the locks on files it decides nothing: those exclude threads too, each call opening its
 * own. It is there so that threads of one process wake each other instead of asking the kernel
 * again and again. Who wants in alone is let in before those who would share. */
#ifndef PRIM_FILE_DOOR_H
#define PRIM_FILE_DOOR_H
#include <pthread.h>

#include "base/base.h"

struct door {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned sharing, waiting_alone;
    bool alone;
};
void door_init(struct door *door);
void door_deinit(struct door *door);
bool door_enter(struct door *door, bool alone, int64_t wait_ns); /* false: in vain */
void door_leave(struct door *door, bool alone);
#endif
