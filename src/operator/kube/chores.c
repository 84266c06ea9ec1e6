/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/kube/chores.h"

#include <stdlib.h>

enum { REST_FIRST_MS = 500, REST_MAX_MS = 30 * 1000, REST_DOUBLINGS = 6, LOOK_MS = 250 };

struct hand {
    struct chores *chores;
    struct loop_worker *worker;
    struct job job;
    struct chore *chore; /* NULL: free */
    enum err err;
};
struct chores {
    struct io *io;
    struct list urgent, queued, resting;
    struct timer look; /* while something rests */
    struct hand hands[CHORE_HANDS];
    bool closing;
};

static void assign(struct chores *c);

static void run(struct job *job)
{
    struct hand *hand = CONTAINER_OF(job, struct hand, job);

    hand->err = hand->chore->ops->run(hand->chore);
}

static void rest(struct chore *chore, uint64_t delay_ms)
{
    struct chores *c = chore->chores;

    chore->state = CHORE_RESTING;
    chore->due = mono_after(loop_now(c->io->loop), delay_ms);
    list_append(&c->resting, &chore->link);
    if (!timer_running(&c->look)) timer_start_in(&c->look, LOOK_MS);
}

static void after_failure(struct chore *chore)
{
    uint64_t delay_ms = (uint64_t)REST_FIRST_MS << min_u64(chore->failures++, REST_DOUBLINGS);

    rest(chore, min_u64(delay_ms, REST_MAX_MS));
}

static void done(struct job *job, enum err err)
{
    struct hand *hand = CONTAINER_OF(job, struct hand, job);
    struct chores *c = hand->chores;
    struct chore *chore = hand->chore;
    bool again;

    hand->chore = NULL;
    if (c->closing || err) return;
    again = chore->again;
    chore->again = false;
    chore->state = CHORE_IDLE;
    if (!chore->ops->ended(chore, hand->err) && chore->state == CHORE_IDLE) {
        if (hand->err) {
            after_failure(chore);
        } else {
            chore->failures = 0;
            if (again) chore_want(chore);
        }
    }
    assign(c);
}

static void enqueue(struct chore *chore)
{
    struct chores *c = chore->chores;

    chore->state = CHORE_QUEUED;
    list_append(chore->urgent ? &c->urgent : &c->queued, &chore->link);
}

static struct list *next_queue(struct chores *c)
{
    if (!list_empty(&c->urgent)) return &c->urgent;
    return list_empty(&c->queued) ? NULL : &c->queued;
}

static struct hand *free_hand(struct chores *c)
{
    for (size_t i = 0; i < CHORE_HANDS; i++)
        if (!c->hands[i].chore) return &c->hands[i];
    return NULL;
}

static void assign(struct chores *c)
{
    struct list *queue;
    struct hand *hand;

    while ((queue = next_queue(c)) != NULL && (hand = free_hand(c)) != NULL) {
        struct chore *chore = CONTAINER_OF(list_pop(queue), struct chore, link);
        chore->state = CHORE_IDLE;
        if (!chore->ops->prepare(chore)) continue;
        hand->chore = chore;
        chore->state = CHORE_RUNNING;
        if (worker_submit(hand->worker, &hand->job)) {
            hand->chore = NULL;
            chore->state = CHORE_IDLE;
            after_failure(chore);
            return;
        }
    }
}

static void on_look(struct timer *timer)
{
    struct chores *c = CONTAINER_OF(timer, struct chores, look);
    mono_time now = loop_now(c->io->loop);

    for (struct list *node = c->resting.next, *next; node != &c->resting; node = next) {
        struct chore *chore = CONTAINER_OF(node, struct chore, link);
        next = node->next;
        if (!mono_due(chore->due, now)) continue;
        list_remove(node);
        enqueue(chore);
    }
    if (!list_empty(&c->resting)) timer_start_in(&c->look, LOOK_MS);
    assign(c);
}

enum err chores_open(struct io *io, struct chores **ret_chores)
{
    struct worker_options options = {.name = "kube-write", .jobs_max = 1};
    struct chores *c = calloc(1, sizeof *c);
    enum err err = c ? timer_init(&c->look, io->loop, on_look) : ERR_NOMEM;

    if (!c) return err;
    c->io = io;
    list_init(&c->urgent);
    list_init(&c->queued);
    list_init(&c->resting);
    for (size_t i = 0; !err && i < CHORE_HANDS; i++) {
        c->hands[i].chores = c;
        job_init(&c->hands[i].job, run, done);
        err = worker_open(io->loop, &options, &c->hands[i].worker);
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
    for (size_t i = 0; i < CHORE_HANDS; i++) worker_close(c->hands[i].worker);
    timer_deinit(&c->look);
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
    enqueue(chore);
    assign(chore->chores);
}

void chore_want_in(struct chore *chore, uint64_t delay_ms)
{
    if (chore->state == CHORE_IDLE) rest(chore, delay_ms);
}

bool chore_forget(struct chore *chore)
{
    if (chore->state == CHORE_RUNNING) return false;
    list_remove(&chore->link);
    chore->state = CHORE_IDLE;
    return true;
}
