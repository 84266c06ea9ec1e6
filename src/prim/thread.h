/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the library inside the host program, and waits with a timeout. */
#ifndef PRIM_THREAD_H
#define PRIM_THREAD_H
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* All signals are blocked, so that no handler of the host program runs on the thread. */
bool prim_thread_start(pthread_t *ret_thread, void *(*run)(void *arg), void *arg);
/* Timeouts are on CLOCK_MONOTONIC. */
void prim_cond_init(pthread_cond_t *cond);
void prim_thread_pause_ms(int64_t ms); /* a signal ends the pause early */
struct timespec prim_until_ms(int64_t ms);
#endif
