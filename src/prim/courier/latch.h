/* SPDX-License-Identifier: Apache-2.0 */
/* A thread waits here until another has opened it. */
#ifndef PRIM_COURIER_LATCH_H
#define PRIM_COURIER_LATCH_H
#include "prim/thread.h"

struct latch {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
};
void latch_init(struct latch *latch);
void latch_wait(struct latch *latch); /* once; it can be thrown away after */
void latch_open(struct latch *latch);
#endif
