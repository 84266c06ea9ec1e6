/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts: turns, start and death of processes.
 *
 * A turn first delivers what became ready (posts, jobs, connections, bytes). Then loop_core_run
 * runs timers, tasks and hooks exactly as with libuv. At the end the output of the turn is sent. */
#include "sim/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    AFTERLIFE_ROUNDS_MAX = 1000, /* rounds of closing; more: the close never ends */
    TURN_NS_MIN = 1000,          /* virtual time of a turn */
    TURN_NS_MAX = 20000,
    DRAIN_ROUNDS_MAX = 1000000, /* each timer of a draining process is a round */
};
static const struct io *io_of_turn;

/* -- functions that the loop calls -- */

static void host_wake(struct loop *loop)
{
    sim_host_schedule(CONTAINER_OF(loop, struct sim_host, loop));
}

static void post(struct loop *loop, struct post *post)
{
    struct sim_host *host = CONTAINER_OF(loop, struct sim_host, loop);
    list_append(&host->posts, &post->link);
    sim_host_schedule(host);
}

static const struct loop_ops loop_ops = {host_wake, post, sim_worker_open};

static void entropy_draw(struct entropy *entropy, void *out, size_t len)
{
    struct sim_entropy *own = CONTAINER_OF(entropy, struct sim_entropy, base);
    prng_fill(&own->prng, out, len);
}

void sim_ready_init(struct sim_ready *ready, sim_ready_fn *fn)
{
    list_init(&ready->link);
    ready->fn = fn;
}

void sim_host_ready(struct sim_host *host, struct sim_ready *ready)
{
    if (list_empty(&ready->link)) list_append(&host->ready, &ready->link);
    sim_host_schedule(host);
}

/* -- turns -- */

static bool has_work(const struct sim_host *host)
{
    return !list_empty(&host->ready) || !list_empty(&host->posts) || !list_empty(&host->unsent) ||
           host->stop_wanted || loop_core_has_tasks(&host->loop);
}

void sim_host_schedule(struct sim_host *host)
{
    sim_time at;

    if (host->turning || !host->loop_open) return;
    if (host->paused) {
        sim_event_cancel(&host->turn);
        return;
    }
    at = has_work(host) ? host->sim->now : sim_clock_when(host, loop_core_next_due(&host->loop));
    at.ns = max_u64(at.ns, host->busy_until.ns);
    if (at.ns == UINT64_MAX)
        sim_event_cancel(&host->turn);
    else if (!host->turn.node.place || host->turn.node.due != at.ns)
        sim_event_at(&host->turn, at);
}

static void deliver(struct sim_host *host)
{
    struct list batch;

    list_init(&batch);
    list_splice(&batch, &host->posts);
    for (struct list *node; (node = list_pop(&batch));) {
        struct post *own = CONTAINER_OF(node, struct post, link);
        host->loop.stats.posts_run++;
        own->fn(own);
    }
    list_splice(&batch, &host->ready);
    for (struct list *node; (node = list_pop(&batch));) {
        struct sim_ready *own = CONTAINER_OF(node, struct sim_ready, link);
        own->fn(own);
    }
}

static void begin_turn(struct sim_host *host)
{
    assert(!host->turning && host->loop_open && !host->paused);
    sim_mark(host->sim, SIM_MARK_TURN, host, 0, 0);
    host->turning = true;
    host->spent_ns = 0;
    io_of_turn = &host->io;
    loop_core_begin(&host->loop, clock_mono(host->loop.clock));
}

static void end_turn(struct sim_host *host)
{
    uint64_t cost = host->spent_ns + prng_between(&host->cost_prng, TURN_NS_MIN, TURN_NS_MAX);

    loop_core_run(&host->loop);
    cost = max_u64(cost, host->spent_ns);
    if (sim_host_heard(host)) sim_net_flush(host);
    loop_core_count_turn(&host->loop, (struct loop_turn){cost, cost});
    host->spent_ns = 0;
    host->busy_until.ns = host->sim->now.ns + cost;
    host->turning = false;
    io_of_turn = NULL;
    sim_host_schedule(host);
    sim_host_bury_doomed(host);
}

static void turn(struct sim_event *event)
{
    struct sim_host *host = CONTAINER_OF(event, struct sim_host, turn);

    begin_turn(host);
    deliver(host);
    if (host->stop_wanted) {
        host->stop_wanted = false;
        if (host->state && host->ops->stop) host->ops->stop(host->state);
    }
    end_turn(host);
}

/* -- adding hosts -- */

static bool name_ok(const char *name)
{
    size_t len = strlen(name);
    return len > 0 && len < SIM_NAME_CAP &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") == len &&
           strcmp(name, "localhost") != 0;
}

static void open_loop(struct sim_host *host)
{
    host->dead = host->doomed = host->stop_wanted = false;
    host->busy_until = host->sim->now;
    loop_core_init(&host->loop, &loop_ops, &host->clock.base);
    host->loop_open = true;
}

static void boot(struct sim_host *host)
{
    assert(!host->powered);
    host->powered = true;
    sim_clock_boot(host);
    host->boots++;
    host->next_port = (uint16_t)(SIM_EPHEMERAL_PORT_FIRST + prng_below(&host->cost_prng, 1000));
}

static void set_options(struct sim_host *host, const struct sim_host_options *options)
{
    host->options = *options;
    host->options.name = host->name;
    host->options.alpn = host->alpn;
    snprintf(host->name, sizeof host->name, "%s", options->name);
    snprintf(host->alpn, sizeof host->alpn, "%s", options->alpn ? options->alpn : "");
}

static void init_lists(struct sim_host *host)
{
    list_init(&host->ready);
    list_init(&host->posts);
    list_init(&host->streams);
    list_init(&host->listeners);
    list_init(&host->workers);
    list_init(&host->unsent);
    for (size_t i = 0; i < SIM_BUCKETS; i++) list_init(&host->sockets[i]);
}

enum err sim_host_add(struct sim *sim, const struct sim_host_options *options,
                      struct sim_host **ret_host)
{
    struct sim_host *host;
    enum err err;

    if (!options->name || !name_ok(options->name)) return ERR_INVALID;
    for (size_t i = 0; i < sim->host_count; i++) {
        if (strcmp(sim->hosts[i]->name, options->name) == 0) return ERR_EXISTS;
    }
    if (sim->host_count == SIM_HOSTS_MAX) return ERR_FULL;
    host = calloc(1, sizeof *host);
    if (!host) return ERR_NOMEM;
    host->sim = sim;
    host->index = sim->host_count;
    set_options(host, options);
    snprintf(host->ip, sizeof host->ip, "10.0.0.%zu", host->index + 1);
    init_lists(host);
    prng_fork(&sim->host_prng, &host->entropy.prng);
    prng_fork(&sim->host_prng, &host->cost_prng);
    host->entropy.base.fill = entropy_draw;
    sim_links_init(host);
    sim_net_init(host);
    boot(host);
    err = sim_event_init(&host->turn, sim, turn);
    if (!err) err = sim_disk_open(host); /* after boot, which starts the clock of file dates */
    if (err) goto discard;
    open_loop(host);
    host->io = (struct io){&host->loop, &host->clock.base, &host->entropy.base, &host->net,
                           sim_fs_fs(host->disk)};
    sim->hosts[sim->host_count++] = host;
    *ret_host = host;
    return ERR_OK;

discard:
    sim_event_deinit(&host->turn);
    free(host);
    return err;
}

/* -- start -- */

enum err sim_host_start(struct sim_host *host, const struct sim_process_ops *ops, void *context)
{
    enum err err;

    assert(!host->turning && !host->in_job && !host->state && !host->paused);
    if (!host->powered) boot(host);
    if (!host->loop_open) open_loop(host);
    host->ops = ops;
    host->context = context;
    begin_turn(host);
    err = ops->start(&host->io, context, &host->state);
    assert(!!err == !host->state);
    sim_mark(host->sim, SIM_MARK_BOOT, host, (uint64_t)err, host->boots);
    end_turn(host);
    if (!err && !host->state) return ERR_UNAVAILABLE;           /* died while starting */
    if (err && host->loop_open) sim_host_die(host, SIM_KILLED); /* like a process that exits */
    return err;
}

enum err sim_host_restart(struct sim_host *host)
{
    assert(host->ops);
    return sim_host_start(host, host->ops, host->context);
}

void sim_host_stop(struct sim_host *host)
{
    host->stop_wanted = true;
    sim_host_schedule(host);
}

/* -- death -- */

static void stop_timers_and_hooks(struct sim_host *host)
{
    while (heap_pop_due(&host->loop.timers, UINT64_MAX)) continue;
    while (list_pop(&host->loop.hooks)) continue;
}

/* Advances a dead, draining process to its next timer's time. False: there is no timer. */
static bool drain_on(struct sim_host *host)
{
    uint64_t due_ms = loop_core_next_due(&host->loop).ms, now_ms = clock_mono(&host->clock.base).ms;

    if (!host->drains || due_ms == UINT64_MAX) return false;
    if (due_ms > now_ms) host->clock.mono_ns += (due_ms - now_ms) * NS_PER_MS;
    return true;
}

static void afterlife(struct sim_host *host)
{
    int rounds_max = host->drains ? DRAIN_ROUNDS_MAX : AFTERLIFE_ROUNDS_MAX;

    for (int round = 0; has_work(host) || drain_on(host); round++) {
        assert(round < rounds_max);
        host->stop_wanted = false;
        while (list_pop(&host->unsent)) continue;
        loop_core_begin(&host->loop, clock_mono(host->loop.clock));
        deliver(host);
        if (!host->drains) stop_timers_and_hooks(host);
        loop_core_run(&host->loop);
    }
}

/* Frees the memory of the process, whose actions have no effect from here on. */
static void bury(struct sim_host *host, enum sim_death death)
{
    const struct io *before = io_of_turn;
    struct sim_clock clock = host->clock;

    host->dead = true;
    host->doomed = false;
    sim_mark(host->sim, SIM_MARK_DEATH, host, (uint64_t)death, 0);
    sim_event_cancel(&host->turn);
    sim_workers_death(host);
    sim_net_death(host, death);
    host->turning = true;
    host->spent_ns = 0;
    io_of_turn = &host->io;
    if (!host->drains) stop_timers_and_hooks(host);
    if (host->state) {
        void *state = host->state;
        host->state = NULL;
        host->ops->destroy(state);
    }
    afterlife(host);
    sim_workers_reclaim(host);
    sim_net_reclaim(host);
    loop_core_deinit(&host->loop);
    host->loop_open = host->turning = host->paused = host->frozen = host->drains = false;
    host->spent_ns = 0;
    host->clock = clock;
    io_of_turn = before;
    sim_disk_death(host, death);
    if (death == SIM_POWER_CUT) host->powered = false;
}

void sim_host_bury_doomed(struct sim_host *host)
{
    if (host->doomed) bury(host, host->doom);
}

void sim_host_die(struct sim_host *host, enum sim_death death)
{
    if (host->turning || host->in_job) {
        if (host->dead) return;
        host->doom = host->doomed && host->doom == SIM_POWER_CUT ? SIM_POWER_CUT : death;
        host->doomed = true;
        return;
    }
    if (host->loop_open)
        bury(host, death);
    else if (host->powered && death == SIM_POWER_CUT) {
        sim_net_death(host, death);
        sim_disk_death(host, death);
        host->powered = false;
    }
}

void sim_host_pause(struct sim_host *host, enum sim_pause pause)
{
    if (!host->loop_open) return;
    host->paused = true;
    host->frozen = pause == SIM_PAUSE_MACHINE;
    sim_mark(host->sim, SIM_MARK_PAUSE, host, 1, (uint64_t)pause);
    sim_host_schedule(host);
}

void sim_host_resume(struct sim_host *host)
{
    if (!host->paused) return;
    host->paused = host->frozen = false;
    sim_mark(host->sim, SIM_MARK_PAUSE, host, 0, 0);
    sim_workers_thaw(host);
    sim_host_schedule(host);
}

void sim_close(struct sim *sim)
{
    if (!sim) return;
    for (size_t i = 0; i < sim->host_count; i++) sim_host_die(sim->hosts[i], SIM_POWER_CUT);
    sim_links_drop(sim);
    for (size_t i = 0; i < sim->host_count; i++) {
        struct sim_host *host = sim->hosts[i];
        sim_event_deinit(&host->turn);
        sim_fs_close(host->disk);
        free(host);
    }
    heap_deinit(&sim->queue);
    free(sim);
}

/* -- state -- */

struct io *sim_host_io(struct sim_host *host)
{
    return &host->io;
}

struct sim_fs *sim_host_disk(struct sim_host *host)
{
    return host->disk;
}

const struct io *sim_io_of_turn(void)
{
    return io_of_turn;
}

void sim_process_drains(struct io *io)
{
    CONTAINER_OF(io, struct sim_host, io)->drains = true;
}

bool sim_host_running(const struct sim_host *host)
{
    return host->state != NULL;
}

bool sim_host_paused(const struct sim_host *host)
{
    return host->paused;
}
