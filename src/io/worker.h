/* SPDX-License-Identifier: Apache-2.0 */
/* A thread beside the loop that takes jobs in order and returns results as events.
 *
 * Nothing mutable is shared: a job owns what it works on until done() runs on the loop's thread.
 * Under the simulator a worker has no thread; its jobs take virtual time. */
#ifndef IO_WORKER_H
#define IO_WORKER_H
#include "base/err.h"
#include "base/list.h"
#include "io/loop.h"

struct job;
struct job {
    struct list link;
    void (*run)(struct job *job); /* on the worker's thread */
    /* On the loop's thread, exactly once: ERR_OK it ran, ERR_CANCELLED it never did. */
    void (*done)(struct job *job, enum err err);
};
struct worker_options {
    const char *name; /* shown in the process list; 15 characters */
    size_t jobs_max;  /* waiting, running and not yet handed back */
};
struct loop_worker;

void job_init(struct job *job, void (*run)(struct job *), void (*done)(struct job *, enum err));
/* ERR_INVALID, ERR_NOMEM, ERR_UNAVAILABLE (no thread to be had). */
enum err worker_open(struct loop *loop, const struct worker_options *options,
                     struct loop_worker **ret_worker);
/* Loop thread only. ERR_FULL, ERR_CLOSED (from a done() that worker_close calls): the job is
 * still the caller's. */
enum err worker_submit(struct loop_worker *worker, struct job *job);
/* Waits for the job that runs, then calls done() for all that are left, then frees. NULL is
 * fine, and so is calling it from a done(). */
void worker_close(struct loop_worker *worker);

/* -- for the two implementations only -- */
struct worker_ops {
    enum err (*submit)(struct loop_worker *worker, struct job *job);
    void (*close)(struct loop_worker *worker);
};
struct loop_worker {
    const struct worker_ops *ops;
};
#endif
