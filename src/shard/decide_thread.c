/* SPDX-License-Identifier: Apache-2.0 */
/* Passes jobs in batches to the decide thread, and their effects back to the loop. The decide
 * thread owns a batch while it runs; at other times the loop owns it. Effects are executed in the
 * order of the jobs. */
#include "shard/decide_thread.h"

#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

enum {
    JOBS_PER_BATCH_MAX = 1024,
    EFFECTS_PER_BATCH_MAX = 16384, /* enough for all machines of an operator that reconnects */
    BATCHES_IN_FLIGHT_MAX = 4,     /* while all batches are in use, no job runs */
    EFFECTS_PER_SLICE = 512,
    EFFECT_RETRY_MS = 10,
    DECIDE_THREAD_SCRATCH_MAX = 1 << 30 /* bytes for one job: enough for the largest roll-up */
};

struct batch {
    struct job work;
    struct list link;                    /* in decide_thread->ready */
    struct decide_thread *decide_thread; /* NULL: the batch is unused */
    struct list jobs;
    struct list *left; /* the first job that did not fit into this batch */
    struct effects effects;
    size_t next; /* next effect to execute */
    struct core_counts counts;
};

struct decide_thread {
    struct decide_thread_options options;
    struct loop_worker *worker;
    struct decide_context context;
    struct list waiting;
    struct list ready; /* batches with effects left to execute, oldest first */
    size_t backlog;
    bool batch_running, closing;
    struct batch batches[BATCHES_IN_FLIGHT_MAX];
    struct task carry;
    struct timer later;
};

static void begin_batch(struct decide_thread *t);

/* -- on the decide thread -- */

void slack_return(mono_time *last, mono_time now)
{
    if (mono_elapsed_ms(*last, now) < SLACK_EVERY_MS) return;
    *last = now;
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}

static void batch_run(struct job *work)
{
    struct batch *batch = CONTAINER_OF(work, struct batch, work);
    struct decide_context *context = &batch->decide_thread->context;

    context->now = clock_mono(context->clock);
    context->wall = clock_wall(context->clock);
    while (batch->left != &batch->jobs && batch->effects.count < EFFECTS_PER_BATCH_MAX) {
        struct decide_job *job = CONTAINER_OF(batch->left, struct decide_job, link);

        batch->left = batch->left->next;
        arena_reset(&context->scratch);
        job->run(job, context, &batch->effects);
    }
    for (size_t i = 0; i < batch->effects.count; i++)
        batch->decide_thread->options.prepare(&batch->effects.items[i], context,
                                              &batch->effects.arena);
    batch->counts = *core_counts(context->core);
    slack_return(&context->slack, context->now);
}

/* -- on the loop -- */

static void jobs_end(struct decide_thread *t, struct list *jobs, enum err err)
{
    while (!list_empty(jobs)) {
        struct decide_job *job = CONTAINER_OF(jobs->next, struct decide_job, link);

        list_remove(&job->link);
        t->backlog--;
        if (job->done) job->done(job, err);
    }
}

static void batch_free(struct batch *batch)
{
    effects_deinit(&batch->effects);
    batch->decide_thread = NULL;
}

static void batch_finish(struct decide_thread *t, struct batch *batch)
{
    list_remove(&batch->link);
    t->options.on_counts(t->options.owner, &batch->counts);
    jobs_end(t, &batch->jobs, ERR_OK);
    batch_free(batch);
}

/* False: the next effect cannot be executed yet. */
static bool carry_out_slice(struct decide_thread *t)
{
    for (size_t left = EFFECTS_PER_SLICE; left && !list_empty(&t->ready);) {
        struct batch *batch = CONTAINER_OF(t->ready.next, struct batch, link);

        for (; left && batch->next < batch->effects.count; left--, batch->next++)
            if (!t->options.carry_out(t->options.owner, &batch->effects.items[batch->next]))
                return false;
        if (batch->next == batch->effects.count) batch_finish(t, batch);
    }
    return true;
}

static void batches_go_on(struct decide_thread *t)
{
    bool waits = !carry_out_slice(t);

    begin_batch(t);
    if (waits)
        timer_start_in(&t->later, EFFECT_RETRY_MS);
    else if (!list_empty(&t->ready))
        loop_defer(t->options.io->loop, &t->carry);
}

static void on_carry(struct task *task)
{
    struct decide_thread *t = CONTAINER_OF(task, struct decide_thread, carry);

    if (!timer_running(&t->later)) batches_go_on(t);
}

static void on_later(struct timer *timer)
{
    batches_go_on(CONTAINER_OF(timer, struct decide_thread, later));
}

/* Puts jobs that the batch did not run back at the front of the queue. */
static void batch_give_back(struct decide_thread *t, struct batch *batch)
{
    struct list left;

    list_init(&left);
    while (batch->left != &batch->jobs) {
        struct list *link = batch->left;

        batch->left = link->next;
        list_remove(link);
        list_append(&left, link);
    }
    list_splice(&left, &t->waiting);
    list_splice(&t->waiting, &left);
}

static void on_job(struct job *work, enum err err)
{
    struct batch *batch = CONTAINER_OF(work, struct batch, work);
    struct decide_thread *t = batch->decide_thread;

    t->batch_running = false;
    if (err || t->closing) {
        jobs_end(t, &batch->jobs, ERR_CANCELLED);
        batch_free(batch);
        return;
    }
    batch_give_back(t, batch);
    list_append(&t->ready, &batch->link);
    loop_defer(t->options.io->loop, &t->carry);
    begin_batch(t);
}

static struct batch *batch_unused(struct decide_thread *t)
{
    for (size_t i = 0; i < BATCHES_IN_FLIGHT_MAX; i++)
        if (!t->batches[i].decide_thread) return &t->batches[i];
    return NULL;
}

static void begin_batch(struct decide_thread *t)
{
    struct batch *batch;
    enum err err;

    if (t->batch_running || t->closing || list_empty(&t->waiting) || !(batch = batch_unused(t)))
        return;
    *batch = (struct batch){.decide_thread = t};
    list_init(&batch->link);
    list_init(&batch->jobs);
    effects_init(&batch->effects);
    job_init(&batch->work, batch_run, on_job);
    for (size_t i = 0; i < JOBS_PER_BATCH_MAX && !list_empty(&t->waiting); i++) {
        struct list *link = t->waiting.next;

        list_remove(link);
        list_append(&batch->jobs, link);
    }
    batch->left = batch->jobs.next;
    t->batch_running = true;
    err = worker_submit(t->worker, &batch->work);
    assert(!err); /* the worker has no other job */
}

void decide_thread_submit(struct decide_thread *decide_thread, struct decide_job *job)
{
    decide_thread->backlog++;
    list_init(&job->link);
    list_append(&decide_thread->waiting, &job->link);
    if (decide_thread->closing)
        jobs_end(decide_thread, &decide_thread->waiting, ERR_CANCELLED);
    else
        begin_batch(decide_thread);
}

enum err decide_thread_open(const struct decide_thread_options *options,
                            struct decide_thread **ret_decide_thread)
{
    struct decide_thread *t = calloc(1, sizeof *t);
    enum err err;

    if (!t) return ERR_NOMEM;
    t->options = *options;
    t->context.core = options->core;
    t->context.clock = options->io->clock;
    arena_init(&t->context.scratch, DECIDE_THREAD_SCRATCH_MAX);
    frame_writer_init(&t->context.frames);
    list_init(&t->waiting);
    list_init(&t->ready);
    task_init(&t->carry, on_carry);
    err = timer_init(&t->later, options->io->loop, on_later);
    if (!err) err = machine_reader_open(core_dimensions(options->core), &t->context.reader);
    if (!err)
        err = worker_open(options->io->loop,
                          &(struct worker_options){.name = "decide", .jobs_max = 1}, &t->worker);
    if (err) {
        t->context.core = NULL;
        decide_thread_close(t);
    } else {
        *ret_decide_thread = t;
    }
    return err;
}

void decide_thread_close(struct decide_thread *decide_thread)
{
    if (!decide_thread) return;
    decide_thread->closing = true;
    worker_close(decide_thread->worker);
    task_cancel(&decide_thread->carry);
    timer_deinit(&decide_thread->later);
    LIST_EACH_SAFE(&decide_thread->ready, link, following)
    {
        struct batch *batch = CONTAINER_OF(link, struct batch, link);

        jobs_end(decide_thread, &batch->jobs, ERR_CANCELLED);
        batch_free(batch);
    }
    jobs_end(decide_thread, &decide_thread->waiting, ERR_CANCELLED);
    machine_reader_close(decide_thread->context.reader);
    arena_deinit(&decide_thread->context.scratch);
    frame_writer_deinit(&decide_thread->context.frames);
    core_close(decide_thread->context.core);
    free(decide_thread);
}
