/* SPDX-License-Identifier: Apache-2.0 */
/* Workers with a real thread. Jobs wait in a bounded queue, and results in another queue. One post
 * wakes the loop for all results. */
#include "io/real_internal.h"

#include <stdlib.h>
#include <string.h>

enum { THREAD_NAME_CAP = 16 }; /* the kernel's limit, including NUL */

struct worker_thread {
    struct loop_worker worker;
    struct real_io *real;
    pthread_t thread;
    size_t jobs_max, jobs;     /* loop's thread only */
    bool handing_back, closed; /* closed: a done() called worker_close */
    struct post post;
    char name[THREAD_NAME_CAP];

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct list waiting, finished; /* `lock` protects waiting, finished, posted and stop */
    bool posted, stop;
};

static void finish_job(struct worker_thread *w, struct job *job)
{
    pthread_mutex_lock(&w->lock);
    list_append(&w->finished, &job->link);
    /* Posts under the lock: after the join, worker_close takes the lock and finds the post. */
    if (!w->posted) loop_post(&w->real->loop, &w->post);
    w->posted = true;
    pthread_mutex_unlock(&w->lock);
}

static void *thread_main(void *context)
{
    struct worker_thread *w = context;

    pthread_setname_np(pthread_self(), w->name);
    for (;;) { /* until `stop` is set, even if jobs wait */
        struct list *node = NULL;
        struct job *job;

        pthread_mutex_lock(&w->lock);
        while (!w->stop && list_empty(&w->waiting)) pthread_cond_wait(&w->changed, &w->lock);
        if (!w->stop) node = list_pop(&w->waiting);
        pthread_mutex_unlock(&w->lock);
        if (!node) return NULL;
        job = CONTAINER_OF(node, struct job, link);
        job->run(job);
        finish_job(w, job);
    }
}

static struct job *take_job(struct worker_thread *w, struct list *from)
{
    struct list *node;

    pthread_mutex_lock(&w->lock);
    node = list_pop(from);
    pthread_mutex_unlock(&w->lock);
    if (!node) return NULL;
    assert(w->jobs > 0);
    w->jobs--; /* first, so that done() can submit another job */
    return CONTAINER_OF(node, struct job, link);
}

static void worker_free(struct worker_thread *w)
{
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static void on_post(struct post *post)
{
    struct worker_thread *w = CONTAINER_OF(post, struct worker_thread, post);
    size_t most = w->jobs_max;

    pthread_mutex_lock(&w->lock);
    w->posted = false;
    pthread_mutex_unlock(&w->lock);
    w->handing_back = true;
    /* done() may submit more jobs. */
    for (struct job *job; most > 0 && (job = take_job(w, &w->finished)); most--)
        job->done(job, ERR_OK); /* may close the worker, which leaves no job */
    w->handing_back = false;
    if (w->closed) {
        worker_free(w);
        return;
    }
    pthread_mutex_lock(&w->lock);
    if (!list_empty(&w->finished) && !w->posted) {
        loop_post(&w->real->loop, &w->post);
        w->posted = true;
    }
    pthread_mutex_unlock(&w->lock);
}

static enum err thread_submit(struct loop_worker *worker, struct job *job)
{
    struct worker_thread *w = CONTAINER_OF(worker, struct worker_thread, worker);
    enum err err = ERR_CLOSED; /* for a job that a done() submits in worker_close */

    pthread_mutex_lock(&w->lock);
    if (!w->stop) {
        err = w->jobs < w->jobs_max ? ERR_OK : ERR_FULL;
        if (!err) {
            w->jobs++;
            list_append(&w->waiting, &job->link);
            pthread_cond_signal(&w->changed);
        }
    }
    pthread_mutex_unlock(&w->lock);
    return err;
}

static void thread_close(struct loop_worker *worker)
{
    struct worker_thread *w = CONTAINER_OF(worker, struct worker_thread, worker);

    pthread_mutex_lock(&w->lock);
    assert(!w->stop); /* worker_close runs only once */
    w->stop = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    real_unpost(w->real, &w->post);
    for (struct job *job; (job = take_job(w, &w->finished));) job->done(job, ERR_OK);
    for (struct job *job; (job = take_job(w, &w->waiting));) job->done(job, ERR_CANCELLED);
    w->closed = true;
    if (!w->handing_back) worker_free(w);
}

static const struct worker_ops thread_ops = {.submit = thread_submit, .close = thread_close};

/* A signal handler on another thread would interrupt system calls. Fault signals stay unblocked,
 * because a blocked fault would end the process silently. */
int real_thread_start(pthread_t *ret_thread, void *(*run)(void *), void *argument)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    sigset_t all, before;
    int failed;

    sigfillset(&all);
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(ret_thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

enum err real_worker_open(struct loop *loop, const struct worker_options *options,
                          struct loop_worker **ret_worker)
{
    struct worker_thread *w = calloc(1, sizeof *w);

    if (!w) return ERR_NOMEM;
    w->worker.ops = &thread_ops;
    w->real = CONTAINER_OF(loop, struct real_io, loop);
    w->jobs_max = options->jobs_max;
    memcpy(w->name, options->name, strnlen(options->name, THREAD_NAME_CAP - 1));
    post_init(&w->post, on_post);
    list_init(&w->waiting);
    list_init(&w->finished);
    if (pthread_mutex_init(&w->lock, NULL)) goto no_lock;
    if (pthread_cond_init(&w->changed, NULL)) goto no_condition;
    if (real_thread_start(&w->thread, thread_main, w)) goto no_thread;
    *ret_worker = &w->worker;
    return ERR_OK;

no_thread:
    pthread_cond_destroy(&w->changed);
no_condition:
    pthread_mutex_destroy(&w->lock);
no_lock:
    free(w);
    return ERR_UNAVAILABLE;
}
