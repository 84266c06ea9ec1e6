/* SPDX-License-Identifier: Apache-2.0 */
/* The loop over libuv: wake-up, turns, and the cost of turns. Other threads may only post. */
#include "io/real_internal.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

/* Rounds of "run tasks, flush output" per turn. A fast peer could cause endless rounds: a flush
 * makes owners write again. */
enum { TURN_ROUNDS_MAX = 8 };

/* -- posts -- */

static void real_post(struct loop *loop, struct post *post)
{
    struct real_io *real = CONTAINER_OF(loop, struct real_io, loop);
    bool first;

    pthread_mutex_lock(&real->posts_lock);
    first = list_empty(&real->posts);
    list_append(&real->posts, &post->link); /* asserts that the post is not waiting already */
    atomic_fetch_add(&real->posters, 1);
    pthread_mutex_unlock(&real->posts_lock);
    /* Without the lock, because the woken thread takes the lock immediately. The woken thread may
     * even close the loop; real_io_close waits for `posters`. */
    if (first) uv_async_send(&real->wake);
    atomic_fetch_sub(&real->posters, 1);
}

void real_unpost(struct real_io *real, struct post *post)
{
    pthread_mutex_lock(&real->posts_lock);
    list_remove(&post->link);
    pthread_mutex_unlock(&real->posts_lock);
}

static void run_posts(struct real_io *real)
{
    struct list ready;

    real_enter(real);
    list_init(&ready);
    pthread_mutex_lock(&real->posts_lock);
    list_splice(&ready, &real->posts);
    pthread_mutex_unlock(&real->posts_lock);
    for (struct list *node; (node = list_pop(&ready));) {
        struct post *post = CONTAINER_OF(node, struct post, link);
        real->loop.stats.posts_run++;
        post->fn(post);
    }
}

static void on_wake(uv_async_t *wake)
{
    run_posts(wake->data);
}

static bool has_posts(struct real_io *real)
{
    bool has;

    pthread_mutex_lock(&real->posts_lock);
    has = !list_empty(&real->posts);
    pthread_mutex_unlock(&real->posts_lock);
    return has;
}

/* -- turns -- */

/* Empty: the loop checks tasks and timers just before it sleeps. */
static void wake(struct loop *) {}

const struct loop_ops real_loop_ops = {
    .wake = wake,
    .post = real_post,
    .worker_open = real_worker_open,
};

static uint64_t thread_cpu_ns(void)
{
    struct timespec used;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000 * NS_PER_MS + (uint64_t)used.tv_nsec;
}

/* Reading the CPU time is a system call, as expensive as a small turn. Therefore CPU time is read
 * only after more than LOOP_CPU_GRAIN_NS of wall time. Between readings wall time counts as CPU
 * time. */
void real_turn_begin(struct real_io *real)
{
    uint64_t now = clock_mono_ns(real->loop.clock).ns;

    real->turn_start_ns = now;
    if (now - real->cpu_mark_at_ns > LOOP_CPU_GRAIN_NS) {
        real->cpu_mark_ns = thread_cpu_ns();
        real->cpu_mark_at_ns = now;
    }
    loop_core_begin(&real->loop, (mono_time){now / NS_PER_MS});
}

static void count_turn(struct real_io *real)
{
    uint64_t now = clock_mono_ns(real->loop.clock).ns;
    struct loop_turn turn = {.wall_ns = now - real->turn_start_ns};

    turn.cpu_ns = turn.wall_ns;
    if (turn.wall_ns > LOOP_CPU_GRAIN_NS) {
        uint64_t used = thread_cpu_ns();
        turn.cpu_ns = min_u64(turn.wall_ns, used - real->cpu_mark_ns);
        real->cpu_mark_ns = used;
        real->cpu_mark_at_ns = now;
    }
    loop_core_count_turn(&real->loop, turn);
}

static bool has_more(const struct real_io *real)
{
    return loop_core_has_tasks(&real->loop) || !list_empty(&real->unsent);
}

static void finish_turn(struct real_io *real)
{
    bool spent;

    real_enter(real); /* if no event has begun a turn */
    loop_core_run(&real->loop);
    spent = loop_core_has_tasks(&real->loop); /* the limit of task rounds was reached */
    real_flush_streams(real);
    for (int rounds = 1; !spent && rounds < TURN_ROUNDS_MAX && has_more(real); rounds++) {
        loop_core_run_on(&real->loop);
        spent = loop_core_has_tasks(&real->loop);
        real_flush_streams(real);
    }
    count_turn(real);
}

static void on_alarm(uv_timer_t *alarm)
{
    struct real_io *real = alarm->data;

    real_enter(real);
    real->alarm_due = MONO_NEVER;
    /* libuv 1.44 runs timers before it polls, and would then sleep without a timer. uv_stop makes
     * the poll return immediately; uv_run clears the stop flag. */
    uv_stop(&real->uv);
}

static void set_alarm(struct real_io *real)
{
    mono_time due = loop_core_next_due(&real->loop);
    uint64_t now;

    if (due.ms == real->alarm_due.ms) return;
    real->alarm_due = due;
    if (due.ms == MONO_NEVER.ms) {
        uv_timer_stop(&real->alarm);
        return;
    }
    now = uv_now(&real->uv); /* same clock and unit as `due` */
    uv_timer_start(&real->alarm, on_alarm, due.ms > now ? due.ms - now : 0, 0);
}

/* `wait`: waits for the first event, which begins the turn. */
static void run_events(struct real_io *real, bool wait)
{
    assert(!real->loop.in_turn); /* a callback must not call this function */
    set_alarm(real);
    uv_run(&real->uv, wait && !has_more(real) ? UV_RUN_ONCE : UV_RUN_NOWAIT);
}

void real_io_turn(struct real_io *real, bool wait)
{
    run_events(real, wait);
    finish_turn(real);
}

void real_io_run(struct real_io *real)
{
    while (!real->stop) real_io_turn(real, true);
    real->stop = false;
}

void real_io_stop(struct real_io *real)
{
    real->stop = true;
}

/* -- opening and closing -- */

static void check_closing(uv_handle_t *handle, void *context)
{
    struct real_io *real = context;
    bool ours = handle == (uv_handle_t *)&real->wake || handle == (uv_handle_t *)&real->alarm;

    assert(ours || uv_is_closing(handle));
}

static void close_handle(uv_handle_t *handle, void *)
{
    if (!uv_is_closing(handle)) uv_close(handle, NULL);
}

/* Also works on a partly opened loop. */
static void close_uv(struct real_io *real)
{
    int failed;

    uv_walk(&real->uv, close_handle, NULL);
    while (uv_run(&real->uv, UV_RUN_DEFAULT)) continue; /* ends: every handle is closing */
    failed = uv_loop_close(&real->uv);
    assert(!failed);
}

enum err real_io_open_within(struct real_io **ret_real)
{
    struct real_io *real = calloc(1, sizeof *real);
    int failed;

    if (!real) return ERR_NOMEM;
    failed = uv_loop_init(&real->uv);
    if (failed) goto no_loop;
    failed = uv_async_init(&real->uv, &real->wake, on_wake);
    if (!failed) failed = uv_timer_init(&real->uv, &real->alarm);
    if (!failed) failed = -pthread_mutex_init(&real->posts_lock, NULL);
    if (failed) goto no_handles;

    real->wake.data = real->alarm.data = real;
    real->alarm_due = MONO_NEVER;
    list_init(&real->unsent);
    list_init(&real->posts);
    loop_core_init(&real->loop, &real_loop_ops, clock_real());
    real->net = (struct net){.dial = real_dial, .listen = real_listen};
    real->io = (struct io){.loop = &real->loop,
                           .clock = clock_real(),
                           .entropy = entropy_real(),
                           .net = &real->net,
                           .fs = fs_real()};
    *ret_real = real;
    return ERR_OK;

no_handles:
    close_uv(real);
no_loop:
    free(real);
    return real_err(failed) == ERR_NOMEM ? ERR_NOMEM : ERR_IO;
}

enum err real_io_open(struct real_io **ret_real)
{
    enum err err = real_io_open_within(ret_real);

    if (!err) signal(SIGPIPE, SIG_IGN); /* writing to a closed connection must not kill */
    return err;
}

struct io *real_io_io(struct real_io *real)
{
    return &real->io;
}

void real_io_close(struct real_io *real)
{
    if (!real) return;
    uv_walk(&real->uv, check_closing, real);
    uv_unref((uv_handle_t *)&real->wake);
    uv_unref((uv_handle_t *)&real->alarm);
    /* Runs all close callbacks. A name lookup that is still running ends first. */
    do {
        if (has_posts(real))
            run_posts(real);
        else
            run_events(real, true);
        finish_turn(real);
    } while (uv_loop_alive(&real->uv) || has_posts(real) || has_more(real));
    while (atomic_load(&real->posters) > 0) sched_yield(); /* ends: no thread may post any more */
    assert(real->loop.timers_made == 0); /* otherwise a timer would outlive its loop */
    close_uv(real);
    pthread_mutex_destroy(&real->posts_lock);
    loop_core_deinit(&real->loop);
    free(real);
}

const char *real_io_engine_version(void)
{
    return uv_version_string();
}
