/* SPDX-License-Identifier: Apache-2.0 */
/* What threads.c and calls.c share. */
#ifndef SIM_THREADS_INTERNAL_H
#define SIM_THREADS_INTERNAL_H
#include <time.h>

#include "base/list.h"
#include "sim/threads/threads.h"

struct thread;
struct descriptor;
struct sim_threads {
    struct list link; /* of all processes */
    struct io *io;
    struct list threads, ready;
    uint64_t threads_made;
    struct post post; /* ready ones are run by it */
    bool posted;
    struct thread *loop_thread; /* in real_io_run */
    struct list descriptors;
    int next_descriptor;
    void (*ended)(void *owner);
    void *owner;
};
#define SIM_THREADS_FOREVER UINT64_MAX

struct sim_threads *threads_here(void); /* of the process whose turn it is; NULL: none such */
uint64_t threads_now_ns(const struct sim_threads *threads);
/* The calling fiber: until `what` is woken, or that moment of the process's monotonic clock. False:
 * the moment came. */
bool thread_wait(const void *what, uint64_t until_ns);
void thread_wake(const void *what, bool all);
struct thread *thread_self(void); /* NULL: it is the loop's own turn, which may not wait */
void threads_loop_passes(void);   /* until what is posted now has run */
void descriptors_free(struct sim_threads *threads);
#endif
