/* SPDX-License-Identifier: Apache-2.0 */
/* The loop: one thread that owns a process's connections and state. Every callback runs on the
 * loop's thread, never inside the call that requested the callback.
 *
 * A turn has these steps:
 * 1. deliver events
 * 2. fire due timers, ordered by time and then by start
 * 3. run deferred tasks until none is left
 * 4. call each turn hook once; hooks flush output. If hooks defer tasks, repeat steps 3 and 4
 *
 * After 16 rounds of tasks the turn ends, and the next turn follows without sleep. Timers, tasks
 * and hooks are the same over libuv (io/real.h) and over virtual time (src/sim). */
#ifndef IO_LOOP_H
#define IO_LOOP_H
#include "base/err.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/time.h"
#include "io/clock.h"

struct loop;
struct loop_worker;
struct worker_options;
struct job;

/* -- timers: members of the caller's struct, found with CONTAINER_OF -- */
struct timer;
typedef void timer_fn(struct timer *timer);
struct timer {
    struct heap_node node;
    struct loop *loop;
    timer_fn *fn;
};
/* timer_init reserves the space for a timer, so that starting a timer cannot fail. ERR_FULL or
 * ERR_NOMEM. */
enum { LOOP_TIMERS_MAX = 4 * 1024 * 1024 };
enum err timer_init(struct timer *timer, struct loop *loop, timer_fn *fn);
void timer_deinit(struct timer *timer); /* stops the timer; accepts a zeroed struct */
/* Starts a one-shot timer or moves a running one. A due time in the past means now. A timer started
 * while timers fire waits for the next turn. */
void timer_start(struct timer *timer, mono_time due);
void timer_start_in(struct timer *timer, uint64_t delay_ms);
void timer_stop(struct timer *timer); /* no effect on a stopped timer */
bool timer_running(const struct timer *timer);

/* -- tasks: run once, later in this turn -- */
struct task;
typedef void task_fn(struct task *task);
struct task {
    struct list link;
    task_fn *fn;
};
void task_init(struct task *task, task_fn *fn);
void task_cancel(struct task *task);
/* Runs the task later in this turn. A task that is already deferred keeps its position. */
void loop_defer(struct loop *loop, struct task *task);

/* -- turn hooks: run at the end of every turn -- */
struct turn_hook;
typedef void turn_hook_fn(struct turn_hook *hook);
struct turn_hook {
    struct list link;
    turn_hook_fn *fn;
};
void turn_hook_add(struct loop *loop, struct turn_hook *hook, turn_hook_fn *fn);
void turn_hook_remove(struct turn_hook *hook); /* accepts a zeroed or removed hook */

/* -- posts: the only way for another thread to reach a loop -- */
struct post;
typedef void post_fn(struct post *post);
struct post {
    struct list link;
    post_fn *fn;
};
void post_init(struct post *post, post_fn *fn);
/* Any thread. The loop owns `post` until its fn begins: do not post it again before. */
void loop_post(struct loop *loop, struct post *post);

/* -- time -- */
mono_time loop_now(const struct loop *loop); /* constant in a turn; otherwise the current time */
struct clock *loop_clock(const struct loop *loop);

/* -- watchdog: the cost of turns. A turn with more wall time than CPU time was preempted. CPU time
 * may be too high by LOOP_CPU_GRAIN_NS, never too low. -- */
enum { LOOP_CPU_GRAIN_NS = 20000 };
struct loop_turn {
    uint64_t wall_ns, cpu_ns;
};
struct loop_stats {
    uint64_t turns, slow_wall, slow_cpu; /* slow_*: turns longer than LOOP_SLOW_NS */
    uint64_t wall_ns_max, cpu_ns_max;
    uint64_t wall_ns_total, cpu_ns_total;
    uint64_t timers_fired, tasks_run, posts_run;
};
enum { LOOP_SLOW_NS = 1000000 };
typedef void loop_slow_fn(void *context, struct loop_turn turn);
struct loop_stats loop_stats(const struct loop *loop);
/* The total delay of due timers, without delays up to LOOP_LATE_MS. A delay means that the process
 * was paused or got no CPU, or that a turn took too long. */
enum { LOOP_LATE_MS = 100 };
uint64_t loop_late_ms(const struct loop *loop);
/* A loop has one hook for slow turns; NULL removes the hook. */
void loop_on_slow(struct loop *loop, loop_slow_fn *fn, void *context);

/* -- for the two implementations only -- */
struct loop_ops {
    /* The earliest timer changed, or a task was deferred outside a turn. */
    void (*wake)(struct loop *loop);
    void (*post)(struct loop *loop, struct post *post); /* called by any thread */
    enum err (*worker_open)(struct loop *loop, const struct worker_options *options,
                            struct loop_worker **ret_worker);
};
struct loop {
    const struct loop_ops *ops;
    struct clock *clock;
    mono_time now;
    struct heap timers;
    size_t timers_made;
    struct list tasks, hooks;
    struct loop_stats stats;
    loop_slow_fn *slow_fn;
    void *slow_context;
    uint64_t late_ms;
    bool in_turn; /* from loop_core_begin until loop_core_run returns */
};
void loop_core_init(struct loop *loop, const struct loop_ops *ops, struct clock *clock);
void loop_core_deinit(struct loop *loop);
/* Call before the turn's first event. loop_core_run ends the turn. */
void loop_core_begin(struct loop *loop, mono_time now);
void loop_core_run(struct loop *loop);                 /* runs timers, then tasks, then hooks */
void loop_core_run_on(struct loop *loop);              /* continues the turn, but runs no timers */
mono_time loop_core_next_due(const struct loop *loop); /* MONO_NEVER if no timer runs */
bool loop_core_has_tasks(const struct loop *loop);
void loop_core_count_turn(struct loop *loop, struct loop_turn turn);
#endif
