/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

/* The events, one letter each. */
static char story[64];
static void letter_add(char letter)
{
    size_t len = strlen(story);
    if (len + 1 < sizeof story) story[len] = letter, story[len + 1] = '\0';
}

/* -- the turn -- */

static struct rig rig;
static struct task first_task, hook_task;
static struct turn_hook hook;

static void on_first_task(struct task *task)
{
    (void)task;
    letter_add('k');
}
static void on_hook_task(struct task *task)
{
    (void)task;
    letter_add('K');
}
static void on_event(struct post *post)
{
    (void)post;
    letter_add('e');
    loop_defer(rig.loop, &first_task);
}
static void on_due(struct timer *timer)
{
    (void)timer;
    letter_add('t');
}
static void on_turn_end(struct turn_hook *h)
{
    (void)h;
    letter_add('h');
    if (!strchr(story, 'K')) loop_defer(rig.loop, &hook_task);
}

TEST(a_turn_is_events_timers_tasks_hooks_and_again_for_what_hooks_defer)
{
    struct post post;
    struct timer timer;

    story[0] = '\0';
    rig_open(&rig);
    CHECK_OK("timer", timer_init(&timer, rig.loop, on_due));
    post_init(&post, on_event);
    task_init(&first_task, on_first_task);
    task_init(&hook_task, on_hook_task);
    turn_hook_add(rig.loop, &hook, on_turn_end);
    timer_start_in(&timer, 0);
    loop_post(rig.loop, &post);
    while (!strchr(story, 'e')) real_io_turn(rig.real, true);
    CHECK_TEXT("order", story, "etkhKh");
    turn_hook_remove(&hook);
    turn_hook_remove(&hook);
    timer_deinit(&timer);
    rig_close(&rig);
}

static unsigned endless_runs, endless_ticks;
static void on_endless(struct task *task)
{
    endless_runs++;
    loop_defer(rig.loop, task);
}
static void on_endless_tick(struct timer *timer)
{
    endless_ticks++;
    timer_start_in(timer, 0);
}

TEST(a_task_that_always_defers_itself_lets_the_turn_end)
{
    struct task task;
    struct timer timer;

    endless_runs = endless_ticks = 0;
    rig_open(&rig);
    CHECK_OK("timer", timer_init(&timer, rig.loop, on_endless_tick));
    task_init(&task, on_endless);
    loop_defer(rig.loop, &task);
    for (unsigned turn = 1; turn <= 10; turn++) {
        unsigned before = endless_runs, ticks = endless_ticks;
        timer_start_in(&timer, 0);
        real_io_turn(rig.real, true); /* must not sleep while work is pending */
        CHECK("the task goes on", endless_runs > before && endless_runs - before < 1000);
        CHECK("a restarted timer waits for the next turn", endless_ticks <= ticks + 1);
    }
    RIG_UNTIL("timers have their go", &rig, endless_ticks > 2);
    task_cancel(&task);
    timer_deinit(&timer);
    rig_close(&rig);
}

TEST(a_waiting_turn_does_not_sleep_over_tasks)
{
    struct task task;

    story[0] = '\0';
    rig_open(&rig);
    task_init(&task, on_first_task);
    loop_defer(rig.loop, &task);
    loop_defer(rig.loop, &task);
    real_io_turn(rig.real, true); /* no other event would wake the loop */
    CHECK_TEXT("ran once, in this turn", story, "k");
    rig_close(&rig);
}

static struct task other_task;
static void cancels_other(struct task *task)
{
    (void)task;
    letter_add('c');
    task_cancel(&other_task);
}
static void on_other(struct task *task)
{
    (void)task;
    letter_add('o');
}
static void frees_itself(struct task *task)
{
    letter_add('f');
    free(task);
}

TEST(a_task_may_cancel_another_of_its_round_and_free_itself)
{
    struct task canceller, *freed = malloc(sizeof *freed), zeroed = {0};

    story[0] = '\0';
    rig_open(&rig);
    task_init(&canceller, cancels_other);
    task_init(&other_task, on_other);
    task_init(freed, frees_itself);
    loop_defer(rig.loop, &canceller);
    loop_defer(rig.loop, &other_task);
    loop_defer(rig.loop, freed);
    task_cancel(&zeroed);
    real_io_turn(rig.real, true);
    CHECK_TEXT("order", story, "cf");
    rig_close(&rig);
}

static struct turn_hook second_hook;
static void removes_both(struct turn_hook *h)
{
    letter_add('1');
    turn_hook_remove(h);
    turn_hook_remove(&second_hook);
}
static void never_runs(struct turn_hook *h)
{
    (void)h;
    letter_add('2');
}

TEST(a_hook_may_remove_itself_and_the_next)
{
    struct turn_hook first, zeroed = {0};

    story[0] = '\0';
    rig_open(&rig);
    turn_hook_remove(&zeroed);
    turn_hook_add(rig.loop, &first, removes_both);
    turn_hook_add(rig.loop, &second_hook, never_runs);
    real_io_turn(rig.real, false);
    real_io_turn(rig.real, false);
    CHECK_TEXT("story", story, "1");
    rig_close(&rig);
}

/* -- timers -- */

struct named_timer {
    struct timer timer;
    char name;
};
static struct named_timer timers[4];

static void on_named(struct timer *timer)
{
    letter_add(CONTAINER_OF(timer, struct named_timer, timer)->name);
}
static void stops_next(struct timer *timer)
{
    on_named(timer);
    timer_stop(&timers[1].timer);
}
static void restarts(struct timer *timer)
{
    on_named(timer);
    timer_start_in(timer, 0);
}
static void in_the_past(struct timer *timer)
{
    on_named(timer);
    timer_start(timer, (mono_time){1});
}
static void ends_itself(struct timer *timer)
{
    on_named(timer);
    timer_deinit(timer);
}

static void open_timers(timer_fn *const fns[4])
{
    story[0] = '\0';
    rig_open(&rig);
    for (int i = 0; i < 4; i++) {
        CHECK_OK("timer", timer_init(&timers[i].timer, rig.loop, fns[i]));
        timers[i].name = (char)('a' + i);
    }
}
static void close_timers(void)
{
    for (int i = 0; i < 4; i++) timer_deinit(&timers[i].timer);
    rig_close(&rig);
}

TEST(timers_fire_by_time_and_equal_ones_in_the_order_they_were_started)
{
    open_timers((timer_fn *const[]){on_named, on_named, on_named, on_named});
    mono_time now = loop_now(rig.loop);
    timer_start(&timers[0].timer, mono_after(now, 3));
    timer_start(&timers[1].timer, mono_after(now, 2));
    timer_start(&timers[2].timer, mono_after(now, 2));
    timer_start(&timers[3].timer, mono_after(now, 9));
    timer_start(&timers[3].timer, mono_after(now, 1)); /* moved */
    CHECK("running", timer_running(&timers[3].timer));
    RIG_UNTIL("all fire", &rig, strlen(story) == 4);
    CHECK_TEXT("order", story, "dbca");
    CHECK("the clock has come to the last one", loop_now(rig.loop).ms >= now.ms + 3);
    CHECK("one shot", !timer_running(&timers[3].timer));
    CHECK_U64("counted", loop_stats(rig.loop).timers_fired, 4);
    close_timers();
}

TEST(a_timer_stopped_by_an_earlier_one_of_the_same_turn_stays_silent)
{
    open_timers((timer_fn *const[]){stops_next, on_named, ends_itself, on_named});
    for (int i = 0; i < 3; i++) timer_start_in(&timers[i].timer, 0);
    real_io_turn(rig.real, true);
    CHECK_TEXT("order", story, "ac");
    timer_stop(&timers[1].timer);
    timer_stop(&timers[2].timer);
    close_timers();
}

TEST(a_timer_that_restarts_itself_at_once_fires_once_a_turn)
{
    open_timers((timer_fn *const[]){restarts, on_named, in_the_past, on_named});
    timer_start_in(&timers[0].timer, 0);
    timer_start_in(&timers[2].timer, 0);
    timer_start_in(&timers[1].timer, 0);
    real_io_turn(rig.real, true);
    CHECK_TEXT("nobody is passed over", story, "acb");
    timer_start_in(&timers[1].timer, 0);
    real_io_turn(rig.real, true);
    CHECK_TEXT("each again, then the newcomer", story, "acbacb");
    close_timers();
}

TEST(a_deadline_is_counted_from_now_even_when_the_last_turn_is_long_past)
{
    open_timers((timer_fn *const[]){on_named, on_named, on_named, on_named});
    real_io_turn(rig.real, false);
    mono_time before = loop_now(rig.loop);
    while (loop_now(rig.loop).ms < before.ms + 5) continue; /* a program that loads something */
    timer_start_in(&timers[0].timer, 3);
    CHECK("not due yet", timers[0].timer.node.due >= before.ms + 8);
    RIG_UNTIL("fires", &rig, story[0]);
    close_timers();
}

static mono_time seen[2];
static void spends_time(struct timer *timer)
{
    struct clock *clock = loop_clock(timer->loop);
    mono_time start = clock_mono(clock);
    seen[0] = loop_now(timer->loop);
    while (clock_mono(clock).ms < start.ms + 3) continue;
    seen[1] = loop_now(timer->loop);
}

TEST(time_does_not_advance_during_a_turn)
{
    open_timers((timer_fn *const[]){spends_time, on_named, on_named, on_named});
    timer_start_in(&timers[0].timer, 0);
    real_io_turn(rig.real, true);
    CHECK_U64("the same", seen[1].ms, seen[0].ms);
    CHECK("and goes on after it", loop_now(rig.loop).ms > seen[1].ms);
    close_timers();
}

TEST(thousands_of_timers_start_and_stop)
{
    enum { MANY = 20000 };
    struct named_timer *many = calloc(MANY, sizeof *many);

    rig_open(&rig);
    for (size_t i = 0; i < MANY; i++) {
        CHECK_OK("room", timer_init(&many[i].timer, rig.loop, on_named));
        timer_start_in(&many[i].timer, i % 7 == 0 ? 0 : 1000000 + i % 1000);
    }
    real_io_turn(rig.real, true);
    CHECK_U64("those that were due", loop_stats(rig.loop).timers_fired, (MANY + 6) / 7);
    for (size_t i = 0; i < MANY; i++) timer_deinit(&many[i].timer);
    rig_close(&rig);
    free(many);
}

/* -- posts -- */

enum { POSTERS = 8, POSTS_EACH = 3000 };
struct counted_post {
    struct post post;
    unsigned poster, number;
};
static unsigned next_number[POSTERS], posts_seen;
static bool order_held, on_loop_thread;
static pthread_t loop_thread;

static void on_counted(struct post *post)
{
    struct counted_post *counted = CONTAINER_OF(post, struct counted_post, post);
    if (next_number[counted->poster]++ != counted->number) order_held = false;
    if (!pthread_equal(pthread_self(), loop_thread)) on_loop_thread = false;
    posts_seen++;
    free(counted);
}

static void *poster_main(void *context)
{
    unsigned poster = *(unsigned *)context;
    for (unsigned i = 0; i < POSTS_EACH; i++) {
        struct counted_post *counted = malloc(sizeof *counted);
        *counted = (struct counted_post){.poster = poster, .number = i};
        post_init(&counted->post, on_counted);
        loop_post(rig.loop, &counted->post);
    }
    return NULL;
}

TEST(posts_of_many_threads_all_run_on_the_loop_in_each_threads_order)
{
    pthread_t threads[POSTERS];
    unsigned numbers[POSTERS];

    rig_open(&rig);
    memset(next_number, 0, sizeof next_number);
    posts_seen = 0;
    order_held = on_loop_thread = true;
    loop_thread = pthread_self();
    for (unsigned i = 0; i < POSTERS; i++) {
        numbers[i] = i;
        CHECK_U64("thread", pthread_create(&threads[i], NULL, poster_main, &numbers[i]), 0);
    }
    RIG_UNTIL("all come", &rig, posts_seen == POSTERS * POSTS_EACH);
    for (unsigned i = 0; i < POSTERS; i++) pthread_join(threads[i], NULL);
    CHECK("in order", order_held);
    CHECK("on the loop's thread", on_loop_thread);
    CHECK_U64("counted", loop_stats(rig.loop).posts_run, POSTERS * POSTS_EACH);
    rig_close(&rig);
}

static unsigned rounds;
static void posts_again(struct post *post)
{
    if (rounds++ < 5) loop_post(rig.loop, post);
}

TEST(a_post_that_posts_itself_lets_the_turn_end)
{
    struct post post;

    rounds = 0;
    rig_open(&rig);
    post_init(&post, posts_again);
    loop_post(rig.loop, &post);
    real_io_turn(rig.real, true);
    CHECK_U64("once a turn", rounds, 1);
    RIG_UNTIL("and goes on", &rig, rounds == 6);
    rig_close(&rig);
}

static void *post_last_word(void *context)
{
    loop_post(rig.loop, context);
    return NULL;
}
static void on_last_word(struct post *post)
{
    (void)post;
    letter_add('w');
}

TEST(closing_runs_the_posts_that_still_wait)
{
    struct post post;
    pthread_t thread;

    story[0] = '\0';
    rig_open(&rig);
    post_init(&post, on_last_word);
    CHECK_U64("thread", pthread_create(&thread, NULL, post_last_word, &post), 0);
    pthread_join(thread, NULL);
    rig_close(&rig);
    CHECK_TEXT("ran", story, "w");
}

/* -- running and watching -- */

static void stops(struct timer *timer)
{
    on_named(timer);
    real_io_stop(rig.real);
}

TEST(run_ends_with_the_turn_that_stopped_it)
{
    open_timers((timer_fn *const[]){stops, on_named, on_named, on_named});
    timer_start_in(&timers[0].timer, 0);
    timer_start_in(&timers[1].timer, 0);
    real_io_run(rig.real);
    CHECK_TEXT("the whole turn", story, "ab");
    real_io_stop(rig.real);
    real_io_run(rig.real); /* stopped before: returns at once */
    close_timers();
}

static uint64_t cpu_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}
static void burns_cpu(struct timer *timer)
{
    uint64_t start = cpu_ns();
    (void)timer;
    while (cpu_ns() - start < 3 * LOOP_SLOW_NS) continue;
}
static void blocks(struct timer *timer)
{
    struct timespec pause = {.tv_nsec = 3 * LOOP_SLOW_NS};
    (void)timer;
    nanosleep(&pause, NULL); /* simulates a preempted or blocked turn */
}
static struct loop_turn slow_turn;
static unsigned slow_turns;
static void on_slow(void *context, struct loop_turn turn)
{
    CHECK("context", context == &slow_turn);
    slow_turn = turn;
    slow_turns++;
}

TEST(the_watchdog_separates_cpu_from_waiting)
{
    open_timers((timer_fn *const[]){burns_cpu, blocks, on_named, on_named});
    slow_turns = 0;
    loop_on_slow(rig.loop, on_slow, &slow_turn);
    timer_start_in(&timers[0].timer, 0);
    real_io_turn(rig.real, true);
    struct loop_stats stats = loop_stats(rig.loop);
    CHECK_U64("a turn that computes is slow by CPU", stats.slow_cpu, 1);
    CHECK_U64("and by the wall", stats.slow_wall, 1);
    CHECK("reported", slow_turns == 1 && slow_turn.cpu_ns >= 3 * LOOP_SLOW_NS);
    CHECK("CPU never exceeds wall", slow_turn.cpu_ns <= slow_turn.wall_ns);
    timer_start_in(&timers[1].timer, 0);
    real_io_turn(rig.real, true);
    stats = loop_stats(rig.loop);
    CHECK_U64("a turn that waits is not slow by CPU", stats.slow_cpu, 1);
    CHECK_U64("but by the wall", stats.slow_wall, 2);
    CHECK_U64("reported", slow_turns, 2);
    CHECK("the longest is kept", stats.cpu_ns_max >= 3 * LOOP_SLOW_NS);
    loop_on_slow(rig.loop, NULL, NULL);
    close_timers();
}

TEST(sleeping_between_turns_is_not_counted)
{
    open_timers((timer_fn *const[]){on_named, on_named, on_named, on_named});
    timer_start_in(&timers[0].timer, 30);
    mono_ns start = clock_mono_ns(loop_clock(rig.loop));
    RIG_UNTIL("fires", &rig, story[0]);
    uint64_t passed_ns = clock_mono_ns(loop_clock(rig.loop)).ns - start.ns;
    /* Independent of the machine's speed: the sleep counts in one figure and not in the other. */
    CHECK("the turns are shorter than the time that passed by the sleep",
          loop_stats(rig.loop).wall_ns_total + 20 * NS_PER_MS < passed_ns);
    close_timers();
}

TEST(loops_open_and_close_without_a_trace)
{
    for (int i = 0; i < 50; i++) {
        rig_open(&rig);
        rig_close(&rig);
    }
    real_io_close(NULL);
    CHECK_HAS("the log line names the engine", real_io_engine_version(), "1.");
}

TEST(randomness_and_clocks_are_there)
{
    struct entropy *entropy = entropy_real();
    char bytes[5000] = {0};
    size_t zeros = 0;

    entropy_fill(entropy, bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++) zeros += bytes[i] == 0;
    CHECK("all of it is filled", zeros < 200);
    CHECK("it does not repeat", entropy_u64(entropy) != entropy_u64(entropy));
    CHECK("it is after 2020", clock_wall(clock_real()).ms > 1577836800000ull);
    CHECK("monotonic", clock_mono_ns(clock_real()).ns <= clock_mono_ns(clock_real()).ns);
}
