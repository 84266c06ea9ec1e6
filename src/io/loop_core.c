/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the loop that libuv and virtual time share: timers, tasks, hooks and the cost of
 * turns. */
#include "io/loop.h"
#include "io/worker.h"

/* Rounds of tasks per turn; a few are usual. A fast peer can cause endless rounds. */
enum { LOOP_ROUNDS_MAX = 16 };

void loop_core_init(struct loop *loop, const struct loop_ops *ops, struct clock *clock)
{
    *loop = (struct loop){.ops = ops, .clock = clock, .now = clock_mono(clock)};
    heap_init(&loop->timers, LOOP_TIMERS_MAX);
    list_init(&loop->tasks);
    list_init(&loop->hooks);
}

void loop_core_deinit(struct loop *loop)
{
    while (list_pop(&loop->tasks)) continue; /* makes a later task_cancel harmless */
    while (list_pop(&loop->hooks)) continue;
    heap_deinit(&loop->timers);
}

void loop_core_begin(struct loop *loop, mono_time now)
{
    uint64_t due = max_u64(loop_core_next_due(loop).ms, loop->now.ms);

    assert(now.ms >= loop->now.ms); /* the clock never goes backwards */
    if (now.ms > due && now.ms - due > LOOP_LATE_MS) loop->late_ms += now.ms - due;
    loop->now = now;
    loop->in_turn = true;
}

/* Fires the timers that were due when this function began. Timers that callbacks start sort behind
 * these timers, by `order`. */
static void run_timers(struct loop *loop)
{
    uint64_t started_before = loop->timers.next_order;

    for (struct heap_node *node; (node = heap_peek(&loop->timers));) {
        struct timer *timer = CONTAINER_OF(node, struct timer, node);
        if (node->due > loop->now.ms || node->order >= started_before) break;
        heap_remove(&loop->timers, node);
        loop->stats.timers_fired++;
        timer->fn(timer);
    }
}

static void run_tasks(struct loop *loop)
{
    struct list ready;

    list_init(&ready);
    list_splice(&ready, &loop->tasks); /* newly deferred tasks wait for the next round */
    for (struct list *node; (node = list_pop(&ready));) {
        struct task *task = CONTAINER_OF(node, struct task, link);
        loop->stats.tasks_run++;
        task->fn(task);
    }
}

static void run_hooks(struct loop *loop)
{
    struct list waiting;

    /* A hook moves to the end of the list before it runs, because it may remove itself or
     * others. */
    list_init(&waiting);
    list_splice(&waiting, &loop->hooks);
    for (struct list *node; (node = list_pop(&waiting));) {
        struct turn_hook *hook = CONTAINER_OF(node, struct turn_hook, link);
        list_append(&loop->hooks, node);
        hook->fn(hook);
    }
}

void loop_core_run_on(struct loop *loop)
{
    int rounds = 0;

    loop->in_turn = true;
    do {
        for (; rounds < LOOP_ROUNDS_MAX && !list_empty(&loop->tasks); rounds++) run_tasks(loop);
        run_hooks(loop);
    } while (rounds < LOOP_ROUNDS_MAX && !list_empty(&loop->tasks));
    loop->in_turn = false;
}

void loop_core_run(struct loop *loop)
{
    loop->in_turn = true;
    run_timers(loop);
    loop_core_run_on(loop);
}

mono_time loop_core_next_due(const struct loop *loop)
{
    const struct heap_node *node = heap_peek(&loop->timers);
    if (!node) return MONO_NEVER;
    return (mono_time){node->due};
}

bool loop_core_has_tasks(const struct loop *loop)
{
    return !list_empty(&loop->tasks);
}

void loop_core_count_turn(struct loop *loop, struct loop_turn turn)
{
    struct loop_stats *stats = &loop->stats;
    bool slow_wall = turn.wall_ns > LOOP_SLOW_NS, slow_cpu = turn.cpu_ns > LOOP_SLOW_NS;

    stats->turns++;
    stats->slow_wall += slow_wall;
    stats->slow_cpu += slow_cpu;
    stats->wall_ns_total += turn.wall_ns;
    stats->cpu_ns_total += turn.cpu_ns;
    stats->wall_ns_max = max_u64(stats->wall_ns_max, turn.wall_ns);
    stats->cpu_ns_max = max_u64(stats->cpu_ns_max, turn.cpu_ns);
    if ((slow_wall || slow_cpu) && loop->slow_fn) loop->slow_fn(loop->slow_context, turn);
}

struct loop_stats loop_stats(const struct loop *loop)
{
    return loop->stats;
}

void loop_on_slow(struct loop *loop, loop_slow_fn *fn, void *context)
{
    loop->slow_fn = fn;
    loop->slow_context = context;
}

mono_time loop_now(const struct loop *loop)
{
    /* Between turns, the time of the last turn may be seconds old. */
    return loop->in_turn ? loop->now : clock_mono(loop->clock);
}

uint64_t loop_late_ms(const struct loop *loop)
{
    return loop->late_ms;
}

struct clock *loop_clock(const struct loop *loop)
{
    return loop->clock;
}

/* -- timers -- */

enum err timer_init(struct timer *timer, struct loop *loop, timer_fn *fn)
{
    enum err err = heap_reserve(&loop->timers, loop->timers_made + 1);

    if (err) return err;
    loop->timers_made++;
    *timer = (struct timer){.loop = loop, .fn = fn};
    return ERR_OK;
}

void timer_deinit(struct timer *timer)
{
    if (!timer->loop) return;
    timer_stop(timer);
    assert(timer->loop->timers_made > 0);
    timer->loop->timers_made--;
    timer->loop = NULL;
}

void timer_start(struct timer *timer, mono_time due)
{
    struct loop *loop = timer->loop;
    enum err err;

    due.ms = max_u64(due.ms, loop->now.ms); /* a past time means now; run_timers relies on this */
    err = heap_put(&loop->timers, &timer->node, due.ms);
    assert(!err); /* timer_init reserved the space */
    if (heap_peek(&loop->timers) == &timer->node) loop->ops->wake(loop);
}

void timer_start_in(struct timer *timer, uint64_t delay_ms)
{
    timer_start(timer, mono_after(loop_now(timer->loop), delay_ms));
}

void timer_stop(struct timer *timer)
{
    if (timer->loop) heap_remove(&timer->loop->timers, &timer->node);
}

bool timer_running(const struct timer *timer)
{
    return timer->node.place != 0;
}

/* -- tasks, hooks, posts -- */

void task_init(struct task *task, task_fn *fn)
{
    list_init(&task->link);
    task->fn = fn;
}

void task_cancel(struct task *task)
{
    if (task->link.next) list_remove(&task->link);
}

void loop_defer(struct loop *loop, struct task *task)
{
    assert(task->link.next); /* task_init must have been called */
    if (!list_empty(&task->link)) return;
    list_append(&loop->tasks, &task->link);
    if (!loop->in_turn) loop->ops->wake(loop);
}

void turn_hook_add(struct loop *loop, struct turn_hook *hook, turn_hook_fn *fn)
{
    list_init(&hook->link);
    hook->fn = fn;
    list_append(&loop->hooks, &hook->link);
}

void turn_hook_remove(struct turn_hook *hook)
{
    if (hook->link.next) list_remove(&hook->link);
}

void post_init(struct post *post, post_fn *fn)
{
    list_init(&post->link);
    post->fn = fn;
}

void loop_post(struct loop *loop, struct post *post)
{
    loop->ops->post(loop, post);
}

/* -- workers -- */

void job_init(struct job *job, void (*run)(struct job *), void (*done)(struct job *, enum err))
{
    list_init(&job->link);
    job->run = run;
    job->done = done;
}

enum err worker_open(struct loop *loop, const struct worker_options *options,
                     struct loop_worker **ret_worker)
{
    if (!options->name || options->jobs_max == 0) return ERR_INVALID;
    return loop->ops->worker_open(loop, options, ret_worker);
}

enum err worker_submit(struct loop_worker *worker, struct job *job)
{
    return worker->ops->submit(worker, job);
}

void worker_close(struct loop_worker *worker)
{
    if (worker) worker->ops->close(worker);
}
