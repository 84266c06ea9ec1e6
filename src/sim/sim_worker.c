/* SPDX-License-Identifier: Apache-2.0 */
/* Workers without threads: a job runs at one moment of virtual time and is returned later, after
 * the cost of its disk calls. If the host dies before the run, the job never runs. If the host dies
 * before the return, the result is lost. */
#include "sim/world.h"

#include <stdlib.h>

enum { JOB_NS_MIN = 5000, JOB_NS_MAX = 50000 }; /* virtual time of a job without its disk calls */

struct sim_worker {
    struct loop_worker base;
    struct list link; /* in host.workers */
    struct sim_host *host;
    struct list waiting, finished; /* lists of jobs */
    struct job *running;
    bool ran;    /* the job has run, but was not returned yet */
    bool parked; /* the job was due while the process was paused */
    bool delivering, closed;
    size_t count, jobs_max;
    struct sim_event event;
    struct sim_ready ready;
};

static void start_next(struct sim_worker *w)
{
    struct list *node;

    if (w->running || !(node = list_pop(&w->waiting))) return;
    w->running = CONTAINER_OF(node, struct job, link);
    w->ran = false;
    sim_event_in(&w->event, prng_between(&w->host->cost_prng, JOB_NS_MIN, JOB_NS_MAX) / 2);
}

static void sim_worker_advance(struct sim_event *event)
{
    struct sim_worker *w = CONTAINER_OF(event, struct sim_worker, event);
    struct sim_host *host = w->host;

    if (host->paused) {
        w->parked = true;
        return;
    }
    sim_mark(host->sim, SIM_MARK_JOB, host, w->ran, w->count);
    if (!w->ran) {
        assert(!host->in_job && !host->turning && host->spent_ns == 0);
        host->in_job = w->ran = true;
        w->running->run(w->running);
        host->in_job = false;
        sim_event_in(event,
                     host->spent_ns + prng_between(&host->cost_prng, JOB_NS_MIN, JOB_NS_MAX) / 2);
        host->spent_ns = 0;
        sim_host_bury_doomed(host); /* a disk call of the job may have caused the planned death */
        return;
    }
    list_append(&w->finished, &w->running->link);
    w->running = NULL;
    sim_host_ready(host, &w->ready);
    start_next(w);
}

static void give_back(struct sim_worker *w, struct list *jobs, enum err err)
{
    for (struct list *node; (node = list_pop(jobs));) {
        struct job *job = CONTAINER_OF(node, struct job, link);
        w->count--;
        job->done(job, err);
    }
}

static void worker_free(struct sim_worker *w)
{
    list_remove(&w->link);
    list_remove(&w->ready.link);
    sim_event_deinit(&w->event);
    free(w);
}

static void hand_back(struct sim_ready *ready)
{
    struct sim_worker *w = CONTAINER_OF(ready, struct sim_worker, ready);

    w->delivering = true;
    give_back(w, &w->finished, ERR_OK);
    w->delivering = false;
    if (w->closed) worker_free(w);
}

static enum err submit(struct loop_worker *worker, struct job *job)
{
    struct sim_worker *w = CONTAINER_OF(worker, struct sim_worker, base);

    if (w->closed) return ERR_CLOSED; /* called from a done() during worker_close */
    if (w->count >= w->jobs_max) return ERR_FULL;
    w->count++;
    list_append(&w->waiting, &job->link);
    if (!w->host->dead) start_next(w);
    return ERR_OK;
}

/* On a dead host no further job runs. A job that has run ends normally. */
static void worker_end(struct loop_worker *worker)
{
    struct sim_worker *w = CONTAINER_OF(worker, struct sim_worker, base);

    assert(!w->closed);
    w->closed = true;
    sim_event_cancel(&w->event);
    if (w->running) {
        struct job *job = w->running;
        w->running = NULL;
        if (!w->ran && sim_host_heard(w->host)) {
            job->run(job);
            w->ran = true;
        }
        list_append(w->ran ? &w->finished : &w->waiting, &job->link);
    }
    give_back(w, &w->finished, ERR_OK);
    give_back(w, &w->waiting, ERR_CANCELLED);
    assert(w->count == 0);
    if (!w->delivering) worker_free(w);
}

static const struct worker_ops worker_ops = {submit, worker_end};

enum err sim_worker_open(struct loop *loop, const struct worker_options *options,
                         struct loop_worker **ret_worker)
{
    struct sim_host *host = CONTAINER_OF(loop, struct sim_host, loop);
    struct sim_worker *w = calloc(1, sizeof *w);
    enum err err;

    if (!w) return ERR_NOMEM;
    err = sim_event_init(&w->event, host->sim, sim_worker_advance);
    if (err) {
        free(w);
        return err;
    }
    w->base.ops = &worker_ops;
    w->host = host;
    w->jobs_max = options->jobs_max;
    list_init(&w->waiting);
    list_init(&w->finished);
    list_init(&w->link);
    list_append(&host->workers, &w->link);
    sim_ready_init(&w->ready, hand_back);
    *ret_worker = &w->base;
    return ERR_OK;
}

void sim_workers_death(struct sim_host *host)
{
    LIST_EACH(&host->workers, node)
    {
        struct sim_worker *w = CONTAINER_OF(node, struct sim_worker, link);
        sim_event_cancel(&w->event);
        list_remove(&w->ready.link); /* worker_close calls done() for finished jobs */
    }
}

void sim_workers_thaw(struct sim_host *host)
{
    LIST_EACH(&host->workers, node)
    {
        struct sim_worker *w = CONTAINER_OF(node, struct sim_worker, link);
        if (!w->parked) continue;
        w->parked = false;
        sim_event_in(&w->event, 0);
    }
}

void sim_workers_reclaim(struct sim_host *host)
{
    LIST_EACH_SAFE(&host->workers, node, next)
    {
        worker_free(CONTAINER_OF(node, struct sim_worker, link));
    }
}
