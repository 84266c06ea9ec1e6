/* SPDX-License-Identifier: Apache-2.0 */
/* Blocking code in virtual time: threads, locks, conditions, sleeps and descriptors as fibers of a
 * process; a crash ends them all at once. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "lib/test.h"
#include "sim/sim.h"
#include "sim/threads/threads.h"

enum { ITEMS = 40, MAKERS = 3 };

static struct story {
    struct sim *sim;
    struct sim_host *host;
    struct sim_threads *threads;
    void *(*main)(void *arg);
    bool ended;
    /* state of the main functions */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int waiting, taken, order[8], late;
    uint64_t slept_ms;
    bool dying;
} story;

static void ended(void *owner)
{
    (void)owner;
    story.ended = true;
    sim_threads_free(story.threads);
}

static enum err start(struct io *io, void *context, void **ret_state)
{
    (void)context;
    story.threads = sim_threads_open(io, ended, NULL);
    sim_threads_start(story.threads, story.main, NULL);
    *ret_state = &story;
    return ERR_OK;
}

static void destroy(void *state)
{
    (void)state;
    story.dying = true;
}

static const struct sim_process_ops ops = {start, NULL, destroy};

static bool is_ended(void *context)
{
    (void)context;
    return story.ended;
}

static void run(uint64_t seed, void *(*body)(void *arg))
{
    story = (struct story){.main = body};
    CHECK_OK("a world", sim_open(&(struct sim_options){.seed = seed}, &story.sim));
    CHECK_OK("a host",
             sim_host_add(story.sim, &(struct sim_host_options){.name = "h"}, &story.host));
    CHECK_OK("a process", sim_host_start(story.host, &ops, NULL));
}

static uint64_t now_ms(void)
{
    struct timespec now;

    CHECK("the clock", clock_gettime(CLOCK_BOOTTIME, &now) == 0);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

static void init_condition(void)
{
    pthread_condattr_t attributes;

    CHECK("attributes", pthread_condattr_init(&attributes) == 0);
    CHECK("a clock", pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0);
    CHECK("a lock", pthread_mutex_init(&story.lock, NULL) == 0);
    CHECK("a condition", pthread_cond_init(&story.changed, &attributes) == 0);
    CHECK("done", pthread_condattr_destroy(&attributes) == 0);
}

/* -- locks and conditions -- */
static void *make_items(void *arg)
{
    for (int i = 0; i < ITEMS; i++) {
        pthread_mutex_lock(&story.lock);
        story.waiting++;
        pthread_cond_signal(&story.changed);
        pthread_mutex_unlock(&story.lock);
        if (i % 8 == 0) nanosleep(&(struct timespec){0, 2000000}, NULL);
    }
    return arg;
}

static void *take_items(void *arg)
{
    pthread_t makers[MAKERS];
    void *result;

    init_condition();
    for (size_t i = 0; i < MAKERS; i++)
        CHECK("a thread", pthread_create(&makers[i], NULL, make_items, &story.order[i]) == 0);
    pthread_mutex_lock(&story.lock);
    while (story.taken < ITEMS * MAKERS) {
        while (story.waiting == 0) pthread_cond_wait(&story.changed, &story.lock);
        story.taken += story.waiting;
        story.waiting = 0;
    }
    pthread_mutex_unlock(&story.lock);
    for (size_t i = 0; i < MAKERS; i++) {
        CHECK("joined", pthread_join(makers[i], &result) == 0);
        CHECK("with its result", result == &story.order[i]);
    }
    return arg;
}

TEST(threads_share_a_lock_and_a_condition_under_every_order_of_turns)
{
    for (uint64_t seed = 1; seed <= 30; seed++) {
        run(seed, take_items);
        CHECK("it ends", sim_wait(story.sim, is_ended, NULL, 10000) == SIM_REACHED);
        CHECK_I64("nothing is lost", story.taken, ITEMS * MAKERS);
        sim_close(story.sim);
    }
}

/* -- time -- */
static void *wait_in_vain(void *arg)
{
    uint64_t began = now_ms();
    struct timespec until;

    init_condition();
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += 3;
    pthread_mutex_lock(&story.lock);
    story.late = pthread_cond_timedwait(&story.changed, &story.lock, &until);
    pthread_mutex_unlock(&story.lock);
    story.slept_ms = now_ms() - began;
    return arg;
}

TEST(a_wait_with_a_deadline_ends_then_by_the_clock_of_its_host)
{
    run(1, wait_in_vain);
    CHECK("it ends", sim_wait(story.sim, is_ended, NULL, 10000) == SIM_REACHED);
    CHECK_I64("late", story.late, ETIMEDOUT);
    CHECK("after three seconds", story.slept_ms >= 3000 && story.slept_ms < 3010);
    sim_close(story.sim);
}

/* -- descriptors -- */
static void *wake_poll(void *arg)
{
    uint64_t one = 1;

    nanosleep(&(struct timespec){0, 50000000}, NULL);
    CHECK("written", write(*(int *)arg, &one, sizeof one) == sizeof one);
    return NULL;
}

static void *poll_both(void *arg)
{
    int event = eventfd(0, EFD_NONBLOCK), timer = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK);
    struct pollfd fds[] = {{.fd = event, .events = POLLIN}, {.fd = timer, .events = POLLIN}};
    struct itimerspec at = {.it_value = {0, 0}};
    uint64_t count = 0, due = now_ms() + 200;
    pthread_t waker;

    at.it_value.tv_sec = (time_t)(due / 1000);
    at.it_value.tv_nsec = (long)(due % 1000) * 1000000;
    CHECK("set", timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL) == 0);
    CHECK("a thread", pthread_create(&waker, NULL, wake_poll, &event) == 0);
    CHECK_I64("one", poll(fds, 2, -1), 1);
    CHECK("the event first", fds[0].revents == POLLIN && fds[1].revents == 0);
    CHECK("read", read(event, &count, sizeof count) == sizeof count && count == 1);
    CHECK("once", read(event, &count, sizeof count) == -1 && errno == EAGAIN);
    CHECK_I64("then", poll(fds, 2, -1), 1);
    CHECK("the timer, in time", fds[1].revents == POLLIN && now_ms() >= due);
    CHECK_I64("and no more", poll(fds, 1, 20), 0);
    CHECK("joined", pthread_join(waker, NULL) == 0);
    CHECK("closed", close(event) == 0 && close(timer) == 0);
    return arg;
}

TEST(descriptors_of_events_and_timers_are_the_process_s_own)
{
    run(1, poll_both);
    CHECK("it ends", sim_wait(story.sim, is_ended, NULL, 10000) == SIM_REACHED);
    sim_close(story.sim);
}

/* -- death -- */
static void *sleep_long(void *arg)
{
    while (!story.dying) nanosleep(&(struct timespec){3600, 0}, NULL);
    return arg;
}

TEST(a_process_that_dies_ends_its_threads_in_no_time_of_the_world)
{
    uint64_t before, started_ms;

    run(1, sleep_long);
    started_ms = clock_mono(sim_host_io(story.host)->clock).ms;
    CHECK("a while", sim_run_for(story.sim, 500) == SIM_REACHED);
    before = sim_now(story.sim).ns;
    CHECK("it sleeps", !story.ended);
    sim_host_die(story.host, SIM_KILLED);
    CHECK("it is over", story.ended);
    CHECK_U64("and no time has passed", sim_now(story.sim).ns, before);
    CHECK("on its host, too", clock_mono(sim_host_io(story.host)->clock).ms < started_ms + 3600000);
    sim_close(story.sim);
}
