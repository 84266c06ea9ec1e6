/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of a virtual process, as fibers on its loop. See README.md. */
#ifndef SIM_THREADS_THREADS_H
#define SIM_THREADS_THREADS_H
#include "io/io.h"

/* Opens in a turn of the process. `ended` comes in a turn, or after the process died, when its last
 * thread is over; it frees what is left, sim_threads_free() included. Aborts without memory. */
struct sim_threads *sim_threads_open(struct io *io, void (*ended)(void *owner), void *owner);
void sim_threads_free(struct sim_threads *threads);
/* What pthread_create does, for the first one. */
void sim_threads_start(struct sim_threads *threads, void *(*run)(void *arg), void *arg);
/* For those who write tests of blocking code: sleeps, or until somebody wakes `what`. */
void sim_thread_sleep(const void *what, uint64_t ms);
void sim_thread_wake(const void *what);
#endif
