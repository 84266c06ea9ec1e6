/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of ours inside the host program, and waits with a limit. */
#ifndef PRIM_THREAD_H
#define PRIM_THREAD_H
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* With all signals blocked: the program's handlers run on its own threads. */
bool prim_thread_start(pthread_t *ret_thread, void *(*run)(void *arg), void *arg);
/* A condition whose limits are of CLOCK_MONOTONIC. */
void prim_cond_init(pthread_cond_t *cond);
void prim_thread_pause_ms(int64_t ms);     /* or less, when a signal comes */
struct timespec prim_until_ms(int64_t ms); /* from now on, for pthread_cond_timedwait on such */
#endif
