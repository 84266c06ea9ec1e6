/* SPDX-License-Identifier: Apache-2.0 */
/* Time: one queue, clocks that drift and step, turns that take time. */
#include <string.h>

#include "lib/fake_clock.h"
#include "lib/test.h"
#include "sim/sim.h"
#include "sim/world.h"

struct tick {
    struct timer timer;
    mono_time fired;
    unsigned count;
    struct sim *sim;
    sim_time at;
};

static void on_tick(struct timer *timer)
{
    struct tick *tick = CONTAINER_OF(timer, struct tick, timer);
    tick->count++;
    tick->fired = loop_now(timer->loop);
    tick->at = sim_now(tick->sim);
}

struct world {
    struct sim *sim;
    struct sim_host *host;
    struct io *io;
};

static struct world world_open(uint64_t seed)
{
    struct world w;
    CHECK_OK("a world", sim_open(&(struct sim_options){.seed = seed}, &w.sim));
    CHECK_OK("a host", sim_host_add(w.sim, &(struct sim_host_options){.name = "h"}, &w.host));
    w.io = sim_host_io(w.host);
    return w;
}

static const struct {
    const char *why;
    int32_t ppm;
} rates[] = {
    {"a perfect clock", 0},
    {"a usual crystal", 37},
    {"one that is late", -37},
    {"a broken fast one", 500000},
    {"a broken slow one", -500000},
    {"odd", 12345},
    {"odd", -99999},
};
TEST(timers_fire_by_the_hosts_own_clock_and_never_early)
{
    for (size_t i = 0; i < ARRAY_LEN(rates); i++) {
        struct world w = world_open(i);
        struct tick tick = {.sim = w.sim};
        mono_time start;
        int64_t world_ms, want_ms;

        sim_host_clock_rate(w.host, rates[i].ppm);
        sim_run_for(w.sim, 777);
        CHECK_OK("a timer", timer_init(&tick.timer, w.io->loop, on_tick));
        start = clock_mono(w.io->clock);
        timer_start(&tick.timer, mono_after(start, 10000));
        sim_run_for(w.sim, 30000);
        CHECK_U32(rates[i].why, tick.count, 1);
        CHECK_U64(rates[i].why, tick.fired.ms - start.ms, 10000);
        world_ms = (int64_t)(tick.at.ns / NS_PER_MS) - 777;
        want_ms = (int64_t)10000 * 1000000 / (1000000 + rates[i].ppm);
        CHECK(rates[i].why, world_ms >= want_ms - 2 && world_ms <= want_ms + 2);
        timer_deinit(&tick.timer);
        sim_close(w.sim);
    }
}

static int64_t wall_error_ms(const struct world *w)
{
    return (int64_t)clock_wall(w->io->clock).ms -
           (int64_t)((SIM_WALL_START_NS + w->sim->now.ns) / NS_PER_MS);
}

TEST(wall_clocks_step_and_monotonic_clocks_do_not)
{
    struct world w = world_open(1);
    mono_ns mono;
    wall_time wall;

    CHECK_I64("right at first", wall_error_ms(&w), 0);
    mono = clock_mono_ns(w.io->clock);
    wall = clock_wall(w.io->clock);
    sim_host_clock_step(w.host, -3600000);
    CHECK_U64("no step", clock_mono_ns(w.io->clock).ns, mono.ns);
    CHECK_U64("an hour back", clock_wall(w.io->clock).ms, wall.ms - 3600000);
    sim_run_for(w.sim, 5000);
    CHECK_U64("goes on from there", clock_wall(w.io->clock).ms, wall.ms - 3600000 + 5000);
    CHECK_I64("wrong by as much", wall_error_ms(&w), -3600000);
    sim_host_clock_rate(w.host, 100000);
    sim_run_for(w.sim, 10000);
    CHECK_I64("and gaining", wall_error_ms(&w), -3600000 + 1000);
    CHECK_U64("both run at the same rate", clock_mono_ns(w.io->clock).ns, mono.ns + 16000000000ull);
    sim_close(w.sim);
}

static enum err start_nothing(struct io *io, void *context, void **ret_state)
{
    *ret_state = context;
    (void)io;
    return ERR_OK;
}

static void destroy_nothing(void *state)
{
    (void)state;
}

TEST(a_reboot_resets_the_monotonic_clock_and_keeps_the_wall_clock)
{
    const struct sim_process_ops ops = {.start = start_nothing, .destroy = destroy_nothing};
    struct world w = world_open(2);
    uint64_t before;

    sim_host_clock_step(w.host, 5000);
    CHECK_OK("start", sim_host_start(w.host, &ops, &w));
    before = clock_mono_ns(w.io->clock).ns;
    sim_host_die(w.host, SIM_KILLED);
    sim_run_for(w.sim, 1000);
    CHECK_OK("start", sim_host_restart(w.host));
    CHECK_U64("a new process, the same boot", clock_mono_ns(w.io->clock).ns,
              before + 1000 * NS_PER_MS);
    sim_host_die(w.host, SIM_POWER_CUT);
    CHECK("off", !w.host->powered);
    CHECK_OK("boot", sim_host_restart(w.host));
    CHECK("another start", clock_mono_ns(w.io->clock).ns != before + 1000 * NS_PER_MS);
    CHECK_I64("the battery kept it", wall_error_ms(&w), 5000);
    CHECK_U64("counted", w.host->boots, 2);
    sim_close(w.sim);
}

struct order {
    struct sim_event event;
    int number, *next;
    int *got;
};

static void on_order(struct sim_event *event)
{
    struct order *order = CONTAINER_OF(event, struct order, event);
    order->got[(*order->next)++] = order->number;
}

TEST(events_run_by_time_then_by_order_of_scheduling)
{
    static const struct {
        uint64_t at;
        int want;
    } plan[] = {
        {5, 2}, {1, 0}, {5, 3}, {9, 5}, {5, 4}, {1, 1},
    };
    struct world w = world_open(3);
    struct order orders[ARRAY_LEN(plan)];
    int got[ARRAY_LEN(plan)], next = 0;
    static const int want[] = {1, 5, 0, 2, 4, 3};

    for (size_t i = 0; i < ARRAY_LEN(plan); i++) {
        orders[i] = (struct order){.number = (int)i, .next = &next, .got = got};
        CHECK_OK("init", sim_event_init(&orders[i].event, w.sim, on_order));
        sim_event_at(&orders[i].event, (sim_time){plan[i].at * NS_PER_MS});
    }
    CHECK("the time comes", sim_run_for(w.sim, 100) == SIM_REACHED);
    for (size_t i = 0; i < ARRAY_LEN(plan); i++) {
        CHECK_I64("in order", got[i], want[i]);
        sim_event_deinit(&orders[i].event);
    }
    CHECK_U64("time went on to the end", sim_now(w.sim).ns, 100 * NS_PER_MS);
    sim_close(w.sim);
}

static bool never(void *context)
{
    (void)context;
    return false;
}

TEST(running_is_bounded_and_says_why_it_ended)
{
    struct sim *sim;
    struct sim_host *host;
    struct tick tick = {0};

    CHECK_OK("a world", sim_open(&(struct sim_options){.seed = 1, .events_max = 3}, &sim));
    CHECK_OK("a host", sim_host_add(sim, &(struct sim_host_options){.name = "h"}, &host));
    CHECK("nothing to do", sim_wait(sim, never, NULL, 10) == SIM_QUIET);
    tick.sim = sim;
    CHECK_OK("a timer", timer_init(&tick.timer, sim_host_io(host)->loop, on_tick));
    for (int i = 0; i < 3; i++) {
        timer_start_in(&tick.timer, 1);
        CHECK("late", sim_wait(sim, never, NULL, 10) != SIM_REACHED);
    }
    timer_start_in(&tick.timer, 1);
    CHECK("the bound on events", sim_wait(sim, never, NULL, 10) == SIM_EXHAUSTED);
    CHECK_U32("fired", tick.count, 3);
    sim_close(sim);
}

TEST(entropy_repeats_by_seed_and_differs_by_host)
{
    struct world a = world_open(7), b = world_open(7), c = world_open(8);
    struct sim_host *other;
    uint64_t first = entropy_u64(a.io->entropy);

    CHECK_U64("the same seed", entropy_u64(b.io->entropy), first);
    CHECK("another seed", entropy_u64(c.io->entropy) != first);
    CHECK_OK("another host", sim_host_add(a.sim, &(struct sim_host_options){.name = "o"}, &other));
    CHECK("another host", entropy_u64(sim_host_io(other)->entropy) != first);
    sim_close(a.sim);
    sim_close(b.sim);
    sim_close(c.sim);
}

/* -- loop: the rules of the libuv loop -- */

struct turn_step {
    struct task task;
    struct turn_hook hook;
    struct post post;
    struct loop *loop;
    char *log;
};

static void on_task(struct task *task)
{
    strcat(CONTAINER_OF(task, struct turn_step, task)->log, "t");
}

static void on_hook(struct turn_hook *hook)
{
    struct turn_step *turn_step = CONTAINER_OF(hook, struct turn_step, hook);
    strcat(turn_step->log, "h");
    if (!strchr(turn_step->log, 't')) loop_defer(turn_step->loop, &turn_step->task);
}

static void on_post(struct post *post)
{
    strcat(CONTAINER_OF(post, struct turn_step, post)->log, "p");
}

TEST(a_turn_delivers_posts_then_timers_then_tasks_then_hooks)
{
    struct world w = world_open(9);
    char log[32] = "";
    struct turn_step turn_step = {.loop = w.io->loop, .log = log};

    task_init(&turn_step.task, on_task);
    post_init(&turn_step.post, on_post);
    turn_hook_add(w.io->loop, &turn_step.hook, on_hook);
    loop_post(w.io->loop, &turn_step.post);
    CHECK_TEXT("not from inside the call", log, "");
    sim_run_for(w.sim, 1);
    CHECK_TEXT("a hook may defer, and runs again after it", log, "phth");
    CHECK_U64("one turn", loop_stats(w.io->loop).turns, 1);
    turn_hook_remove(&turn_step.hook);
    sim_close(w.sim);
}

static void on_slow_task(struct task *task)
{
    struct turn_step *turn_step = CONTAINER_OF(task, struct turn_step, task);
    struct io *io = (struct io *)(void *)turn_step->log;
    struct fs_file *file;
    mono_ns before = clock_mono_ns(io->clock);

    CHECK_OK("open", fs_open(io->fs, "f", FS_WRITE | FS_CREATE, 0600, &file));
    CHECK_OK("sync", fs_sync(io->fs, file));
    fs_close(io->fs, file);
    CHECK("blocking calls take time", clock_mono_ns(io->clock).ns > before.ns);
    CHECK_U64("the turn's time stops", loop_now(io->loop).ms, before.ns / NS_PER_MS);
}

TEST(a_blocking_call_makes_the_next_turn_late)
{
    struct sim *sim;
    struct sim_host *host;
    struct turn_step turn_step = {0};
    struct tick tick = {0};
    const struct sim_host_options options = {
        .name = "h", .disk = {.sync_ns_min = 30 * NS_PER_MS, .sync_ns_max = 30 * NS_PER_MS}};

    CHECK_OK("a world", sim_open(&(struct sim_options){.seed = 4}, &sim));
    CHECK_OK("a host", sim_host_add(sim, &options, &host));
    tick.sim = sim;
    turn_step.log = (char *)sim_host_io(host);
    task_init(&turn_step.task, on_slow_task);
    CHECK_OK("a timer", timer_init(&tick.timer, sim_host_io(host)->loop, on_tick));
    timer_start_in(&tick.timer, 1);
    loop_defer(sim_host_io(host)->loop, &turn_step.task);
    sim_run_for(sim, 1000);
    CHECK_U32("fired", tick.count, 1);
    CHECK("late by the sync", tick.at.ns >= 30 * NS_PER_MS);
    CHECK_U64("the watchdog saw it", loop_stats(sim_host_io(host)->loop).slow_wall, 1);
    sim_close(sim);
}

TEST(a_fake_clock_shows_what_the_test_set)
{
    struct fake_clock fake;

    fake_clock_init(&fake);
    CHECK_U64("starts", clock_mono(&fake.clock).ms, 1000);
    fake_clock_advance(&fake, 250);
    CHECK_U64("both go on", clock_mono(&fake.clock).ms, 1250);
    CHECK_U64("both go on", clock_wall(&fake.clock).ms, FAKE_CLOCK_WALL_START + 250);
    fake_clock_set_wall(&fake, (wall_time){5});
    CHECK_U64("a step", clock_wall(&fake.clock).ms, 5);
    CHECK_U64("of one clock only", clock_mono(&fake.clock).ms, 1250);
}
