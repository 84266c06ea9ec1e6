/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_THREADS_INTERNAL_H
#define SIM_THREADS_INTERNAL_H
#include <time.h>

#include "base/list.h"
#include "sim/threads/threads.h"

struct thread;
struct descriptor;
struct sim_threads {
    struct list link;
    struct io *io;
    struct list threads, ready;
    uint64_t threads_made;
    struct post post; /* runs the ready threads */
    bool posted;
    struct thread *loop_thread;
    struct list descriptors;
    int next_descriptor;
    void (*ended)(void *owner);
    void *owner;
};
#define SIM_THREADS_FOREVER UINT64_MAX

struct sim_threads *threads_here(void); /* of the process whose turn runs, or NULL */
uint64_t threads_now_ns(const struct sim_threads *threads);
/* Blocks the calling fiber until `what` is woken or the process's monotonic clock reaches
 * `until_ns`. False: the time came first. */
bool thread_wait(const void *what, uint64_t until_ns);
void thread_wake(const void *what, bool all);
struct thread *thread_self(void); /* NULL: the loop's own turn, which must not block */
void threads_loop_passes(void);   /* waits until everything posted so far has run */
void descriptors_free(struct sim_threads *threads);
#endif
