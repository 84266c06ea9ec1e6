/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of a virtual process, as fibers on its loop. See README.md. */
#ifndef SIM_THREADS_THREADS_H
#define SIM_THREADS_THREADS_H
#include "io/io.h"

/* Makes the threads of a process, in a turn of the process. `ended` is called when the last thread
 * has ended, also after a death. `ended` must free everything, including this struct
 * (sim_threads_free()). Aborts without memory. */
struct sim_threads *sim_threads_open(struct io *io, void (*ended)(void *owner), void *owner);
void sim_threads_free(struct sim_threads *threads);
void sim_threads_start(struct sim_threads *threads, void *(*run)(void *arg), void *arg);
/* For tests of blocking code: sleeps for `ms`, or until `what` is woken. */
void sim_thread_sleep(const void *what, uint64_t ms);
void sim_thread_wake(const void *what);
#endif
