/* SPDX-License-Identifier: Apache-2.0 */
/* A thread beside the loop that runs jobs in order and returns results as events.
 *
 * A job owns its data until done() runs on the loop's thread; threads share no mutable data. The
 * simulator has no worker threads; its jobs take virtual time. */
#ifndef IO_WORKER_H
#define IO_WORKER_H
#include "base/err.h"
#include "base/list.h"
#include "io/loop.h"

struct job;
struct job {
    struct list link;
    void (*run)(struct job *job); /* runs on the worker's thread */
    /* Called once, on the loop's thread: ERR_OK if the job ran, otherwise ERR_CANCELLED. */
    void (*done)(struct job *job, enum err err);
};
struct worker_options {
    const char *name; /* name of the thread, at most 15 characters */
    size_t jobs_max;  /* jobs whose done() was not called yet */
};
struct loop_worker;

void job_init(struct job *job, void (*run)(struct job *), void (*done)(struct job *, enum err));
/* ERR_INVALID, ERR_NOMEM, ERR_UNAVAILABLE (cannot start a thread). */
enum err worker_open(struct loop *loop, const struct worker_options *options,
                     struct loop_worker **ret_worker);
/* Loop thread. After an error the caller keeps the job. ERR_FULL. ERR_CLOSED in worker_close(). */
enum err worker_submit(struct loop_worker *worker, struct job *job);
/* Waits for the running job and calls done() for all jobs. `worker` may be NULL. A done() may call
 * worker_close. */
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
