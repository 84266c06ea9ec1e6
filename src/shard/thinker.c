/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/thinker.h"

#include <stdlib.h>

#include "shard/slack.h"

enum {
    BATCH_MAX = 1024,     /* thoughts of one job: then the loop hears of what they want */
    EFFECTS_MOST = 16384, /* and so many effects: an operator that comes hears of all its machines,
                             and all may come at once */
    BATCHES_MAX = 4,      /* thought and not yet carried out; past it the thread waits */
    SLICE = 512,          /* effects carried out in one go */
    LATER_MS = 10,        /* until an effect that had to wait is tried again */
    SCRATCH_MAX = 1 << 30 /* of one thought: the largest roll-up, decoded */
};

struct batch {
    struct job job;
    struct list link; /* of thinker->ready, in the order of thinking */
    struct thinker *thinker;
    struct list thoughts;
    struct list *left; /* the first that has to wait for the next batch */
    struct effects effects;
    const struct str **prepared; /* one for each; NULL: there was no memory, or nothing */
    size_t next;                 /* effect to carry out */
    struct core_counts counts;
};

struct thinker {
    struct thinker_options options;
    struct worker *worker;
    struct mind mind;
    struct list waiting; /* thoughts */
    struct list ready;   /* batches that were thought */
    size_t backlog, batches;
    bool thinking, closing;
    bool starved; /* no memory for a batch: in a moment */
    struct task carry;
    struct timer later;
};

static void begin_batch(struct thinker *t);

/* -- on the decide thread -- */

/* Without memory for it operators hear late: the next change, or their next session, tells them. */
static void prepare(struct batch *batch)
{
    struct effects *effects = &batch->effects;

    batch->prepared = arena_calloc(&effects->arena, effects->count, sizeof(struct str *));
    for (size_t i = 0; batch->prepared && i < effects->count; i++)
        batch->prepared[i] = batch->thinker->options.prepare(
            &effects->items[i], &batch->thinker->mind, &effects->arena);
}

static void run(struct job *job)
{
    struct batch *batch = CONTAINER_OF(job, struct batch, job);
    struct mind *mind = &batch->thinker->mind;

    mind->now = clock_mono(mind->clock);
    mind->wall = clock_wall(mind->clock);
    while (batch->left != &batch->thoughts && batch->effects.count < EFFECTS_MOST) {
        struct thought *thought = CONTAINER_OF(batch->left, struct thought, link);

        batch->left = batch->left->next;
        arena_reset(&mind->scratch);
        thought->think(thought, mind, &batch->effects);
    }
    prepare(batch);
    batch->counts = *core_counts(mind->core);
    slack_return(&mind->slack, mind->now);
}

/* -- on the loop -- */

static void end_thoughts(struct thinker *t, struct list *thoughts, enum err err)
{
    while (!list_empty(thoughts)) {
        struct thought *thought = CONTAINER_OF(thoughts->next, struct thought, link);

        list_remove(&thought->link);
        t->backlog--;
        thought->done(thought, err);
    }
}

static void free_batch(struct thinker *t, struct batch *batch)
{
    effects_deinit(&batch->effects);
    free(batch);
    t->batches--;
}

static void finish_batch(struct thinker *t, struct batch *batch)
{
    list_remove(&batch->link);
    t->options.on_counts(t->options.owner, &batch->counts);
    end_thoughts(t, &batch->thoughts, ERR_OK);
    free_batch(t, batch);
}

/* False: an effect must wait. */
static bool carry_out_slice(struct thinker *t)
{
    for (size_t left = SLICE; left && !list_empty(&t->ready);) {
        struct batch *batch = CONTAINER_OF(t->ready.next, struct batch, link);

        for (; left && batch->next < batch->effects.count; left--, batch->next++)
            if (!t->options.carry_out(t->options.owner, &batch->effects.items[batch->next],
                                      batch->prepared ? batch->prepared[batch->next] : NULL))
                return false;
        if (batch->next == batch->effects.count) finish_batch(t, batch);
    }
    return true;
}

static void go_on(struct thinker *t)
{
    bool waits = !carry_out_slice(t);

    begin_batch(t);
    if (waits || t->starved)
        timer_start_in(&t->later, LATER_MS);
    else if (!list_empty(&t->ready))
        loop_defer(t->options.io->loop, &t->carry);
    t->starved = false;
}

static void on_carry(struct task *task)
{
    struct thinker *t = CONTAINER_OF(task, struct thinker, carry);

    if (!timer_running(&t->later)) go_on(t);
}

static void on_later(struct timer *timer)
{
    go_on(CONTAINER_OF(timer, struct thinker, later));
}

/* What was not thought comes before what came since. */
static void give_back(struct thinker *t, struct batch *batch)
{
    struct list left;

    list_init(&left);
    while (batch->left != &batch->thoughts) {
        struct list *link = batch->left;

        batch->left = link->next;
        list_remove(link);
        list_append(&left, link);
    }
    list_splice(&left, &t->waiting);
    list_splice(&t->waiting, &left);
}

static void on_thought(struct job *job, enum err err)
{
    struct batch *batch = CONTAINER_OF(job, struct batch, job);
    struct thinker *t = batch->thinker;

    t->thinking = false;
    if (err || t->closing) {
        end_thoughts(t, &batch->thoughts, ERR_CANCELLED);
        free_batch(t, batch);
        return;
    }
    give_back(t, batch);
    list_append(&t->ready, &batch->link);
    loop_defer(t->options.io->loop, &t->carry);
    begin_batch(t);
}

static void begin_batch(struct thinker *t)
{
    struct batch *batch;
    enum err err;

    if (t->thinking || t->closing || list_empty(&t->waiting) || t->batches == BATCHES_MAX) return;
    batch = calloc(1, sizeof *batch);
    if (!batch) {
        t->starved = true;
        loop_defer(t->options.io->loop, &t->carry);
        return;
    }
    batch->thinker = t;
    list_init(&batch->link);
    list_init(&batch->thoughts);
    effects_init(&batch->effects);
    job_init(&batch->job, run, on_thought);
    for (size_t i = 0; i < BATCH_MAX && !list_empty(&t->waiting); i++) {
        struct list *link = t->waiting.next;

        list_remove(link);
        list_append(&batch->thoughts, link);
    }
    batch->left = batch->thoughts.next;
    t->batches++;
    t->thinking = true;
    err = worker_submit(t->worker, &batch->job);
    assert(!err); /* one job at a time, of a worker that takes one */
}

void thinker_submit(struct thinker *thinker, struct thought *thought)
{
    thinker->backlog++;
    list_init(&thought->link);
    list_append(&thinker->waiting, &thought->link);
    if (thinker->closing)
        end_thoughts(thinker, &thinker->waiting, ERR_CANCELLED);
    else
        begin_batch(thinker);
}

enum err thinker_open(const struct thinker_options *options, struct thinker **ret_thinker)
{
    struct thinker *t = calloc(1, sizeof *t);
    enum err err;

    if (!t) return ERR_NOMEM;
    t->options = *options;
    t->mind.core = options->core;
    t->mind.clock = options->io->clock;
    arena_init(&t->mind.scratch, SCRATCH_MAX);
    frame_writer_init(&t->mind.frames);
    list_init(&t->waiting);
    list_init(&t->ready);
    task_init(&t->carry, on_carry);
    err = timer_init(&t->later, options->io->loop, on_later);
    if (!err) err = machine_reader_open(core_dimensions(options->core), &t->mind.reader);
    if (!err)
        err = worker_open(options->io->loop,
                          &(struct worker_options){.name = "decide", .jobs_max = 1}, &t->worker);
    if (err) {
        machine_reader_close(t->mind.reader);
        frame_writer_deinit(&t->mind.frames);
        timer_deinit(&t->later);
        free(t);
        return err;
    }
    *ret_thinker = t;
    return ERR_OK;
}

void thinker_close(struct thinker *thinker)
{
    if (!thinker) return;
    thinker->closing = true;
    worker_close(thinker->worker);
    task_cancel(&thinker->carry);
    timer_deinit(&thinker->later);
    LIST_EACH_SAFE(&thinker->ready, link, following)
    {
        struct batch *batch = CONTAINER_OF(link, struct batch, link);

        end_thoughts(thinker, &batch->thoughts, ERR_CANCELLED);
        free_batch(thinker, batch);
    }
    end_thoughts(thinker, &thinker->waiting, ERR_CANCELLED);
    machine_reader_close(thinker->mind.reader);
    arena_deinit(&thinker->mind.scratch);
    frame_writer_deinit(&thinker->mind.frames);
    core_close(thinker->mind.core);
    free(thinker);
}
