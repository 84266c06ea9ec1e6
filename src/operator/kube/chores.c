/* SPDX-License-Identifier: Apache-2.0 */
/* Runs chores on a few threads, urgent chores first. Only chore_ops.run runs on these threads;
 * everything else runs on the loop's thread. */
#include "operator/kube/chores.h"

#include <stdlib.h>

enum {
    CHORES_PAUSE_FIRST_MS = 500,
    CHORES_PAUSE_MAX_MS = 30 * 1000,
    PAUSE_DOUBLINGS = 6,
    PAUSE_LOOK_MS = 250
};

struct chore_thread {
    struct chores *chores;
    struct loop_worker *worker;
    struct job job;
    struct chore *chore; /* NULL: no chore runs here */
    enum err err;
};
struct chores {
    struct io *io;
    struct list urgent, queued, paused;
    struct timer pause_timer; /* set while a chore pauses */
    struct chore_thread threads[CHORE_THREADS];
    bool closing;
};

static void chores_assign(struct chores *c);

static void chore_run(struct job *job)
{
    struct chore_thread *thread = CONTAINER_OF(job, struct chore_thread, job);

    thread->err = thread->chore->ops->run(thread->chore);
}

static void chore_pause(struct chore *chore, uint64_t delay_ms)
{
    struct chores *c = chore->chores;

    chore->state = CHORE_PAUSED;
    chore->due = mono_after(loop_now(c->io->loop), delay_ms);
    list_append(&c->paused, &chore->link);
    if (!timer_running(&c->pause_timer)) timer_start_in(&c->pause_timer, PAUSE_LOOK_MS);
}

static void chore_pause_failed(struct chore *chore)
{
    uint64_t delay_ms = (uint64_t)CHORES_PAUSE_FIRST_MS
                        << min_u64(chore->failures++, PAUSE_DOUBLINGS);

    chore_pause(chore, min_u64(delay_ms, CHORES_PAUSE_MAX_MS));
}

static void on_chore_done(struct job *job, enum err err)
{
    struct chore_thread *thread = CONTAINER_OF(job, struct chore_thread, job);
    struct chores *c = thread->chores;
    struct chore *chore = thread->chore;
    bool again;

    thread->chore = NULL;
    if (c->closing || err) return;
    again = chore->again;
    chore->again = false;
    chore->state = CHORE_IDLE;
    if (!chore->ops->ended(chore, thread->err) && chore->state == CHORE_IDLE) {
        if (thread->err) {
            chore_pause_failed(chore);
        } else {
            chore->failures = 0;
            if (again) chore_want(chore);
        }
    }
    chores_assign(c);
}

static void chore_enqueue(struct chore *chore)
{
    struct chores *c = chore->chores;

    chore->state = CHORE_QUEUED;
    list_append(chore->urgent ? &c->urgent : &c->queued, &chore->link);
}

static struct list *chores_next_queue(struct chores *c)
{
    if (!list_empty(&c->urgent)) return &c->urgent;
    return list_empty(&c->queued) ? NULL : &c->queued;
}

static struct chore_thread *chores_free_thread(struct chores *c)
{
    for (size_t i = 0; i < CHORE_THREADS; i++)
        if (!c->threads[i].chore) return &c->threads[i];
    return NULL;
}

static void chores_assign(struct chores *c)
{
    struct list *queue;
    struct chore_thread *thread;

    while ((queue = chores_next_queue(c)) != NULL && (thread = chores_free_thread(c)) != NULL) {
        struct chore *chore = CONTAINER_OF(list_pop(queue), struct chore, link);
        chore->state = CHORE_IDLE;
        if (!chore->ops->prepare(chore)) continue;
        thread->chore = chore;
        chore->state = CHORE_RUNNING;
        if (worker_submit(thread->worker, &thread->job)) {
            thread->chore = NULL;
            chore->state = CHORE_IDLE;
            chore_pause_failed(chore);
            return;
        }
    }
}

static void on_pause_timer(struct timer *timer)
{
    struct chores *c = CONTAINER_OF(timer, struct chores, pause_timer);
    mono_time now = loop_now(c->io->loop);

    for (struct list *node = c->paused.next, *next; node != &c->paused; node = next) {
        struct chore *chore = CONTAINER_OF(node, struct chore, link);
        next = node->next;
        if (!mono_due(chore->due, now)) continue;
        list_remove(node);
        chore_enqueue(chore);
    }
    if (!list_empty(&c->paused)) timer_start_in(&c->pause_timer, PAUSE_LOOK_MS);
    chores_assign(c);
}

enum err chores_open(struct io *io, struct chores **ret_chores)
{
    struct worker_options options = {.name = "kube-write", .jobs_max = 1};
    struct chores *c = calloc(1, sizeof *c);
    enum err err = c ? timer_init(&c->pause_timer, io->loop, on_pause_timer) : ERR_NOMEM;

    if (!c) return err;
    c->io = io;
    list_init(&c->urgent);
    list_init(&c->queued);
    list_init(&c->paused);
    for (size_t i = 0; !err && i < CHORE_THREADS; i++) {
        c->threads[i].chores = c;
        job_init(&c->threads[i].job, chore_run, on_chore_done);
        err = worker_open(io->loop, &options, &c->threads[i].worker);
    }
    if (err) {
        chores_close(c);
        return err;
    }
    *ret_chores = c;
    return ERR_OK;
}

void chores_close(struct chores *c)
{
    if (!c) return;
    c->closing = true;
    for (size_t i = 0; i < CHORE_THREADS; i++) worker_close(c->threads[i].worker);
    timer_deinit(&c->pause_timer);
    free(c);
}

void chore_init(struct chore *chore, struct chores *chores, const struct chore_ops *ops)
{
    *chore = (struct chore){.ops = ops, .chores = chores};
    list_init(&chore->link);
}

void chore_want(struct chore *chore)
{
    if (chore->state == CHORE_RUNNING) chore->again = true;
    if (chore->state != CHORE_IDLE) return;
    chore_enqueue(chore);
    chores_assign(chore->chores);
}

void chore_want_in(struct chore *chore, uint64_t delay_ms)
{
    if (chore->state == CHORE_IDLE) chore_pause(chore, delay_ms);
}

bool chore_forget(struct chore *chore)
{
    if (chore->state == CHORE_RUNNING) return false;
    list_remove(&chore->link);
    chore->state = CHORE_IDLE;
    return true;
}
