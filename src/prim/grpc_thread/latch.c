/* SPDX-License-Identifier: Apache-2.0 */
/* Latches (grpc_thread.h). A separate file, so that a single-threaded test can replace them. */
#include "prim/grpc_thread/grpc_thread.h"

void latch_init(struct latch *latch)
{
    pthread_mutex_init(&latch->lock, NULL);
    pthread_cond_init(&latch->changed, NULL);
    latch->open = false;
}

void latch_wait(struct latch *latch)
{
    pthread_mutex_lock(&latch->lock);
    while (!latch->open) pthread_cond_wait(&latch->changed, &latch->lock);
    pthread_mutex_unlock(&latch->lock);
    pthread_cond_destroy(&latch->changed);
    pthread_mutex_destroy(&latch->lock);
}

void latch_open(struct latch *latch)
{
    pthread_mutex_lock(&latch->lock);
    latch->open = true;
    pthread_cond_signal(&latch->changed);
    pthread_mutex_unlock(&latch->lock);
}
