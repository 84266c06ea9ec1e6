/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of events, and the functions that run them. */
#include "sim/world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { EVENTS_ROOM_STEP = 1024, TRACE_TEXT_CAP = 256 };
#define EVENTS_MAX_DEFAULT 200000000ull
#define GIVE_UP_DEFAULT_MS 20000ull

enum err sim_open(const struct sim_options *options, struct sim **ret_sim)
{
    struct sim *sim = calloc(1, sizeof *sim);
    struct prng root;

    if (!sim) return ERR_NOMEM;
    sim->options = *options;
    if (!sim->options.events_max) sim->options.events_max = EVENTS_MAX_DEFAULT;
    if (!sim->options.give_up_ms) sim->options.give_up_ms = GIVE_UP_DEFAULT_MS;
    heap_init(&sim->queue, SIM_EVENTS_WAITING_MAX);
    prng_seed(&root, options->seed);
    prng_fork(&root, &sim->net_prng);
    prng_fork(&root, &sim->host_prng);
    sim->new_link = sim_link_calm;
    sim->hash = options->seed;
    *ret_sim = sim;
    return ERR_OK;
}

sim_time sim_now(const struct sim *sim)
{
    return sim->now;
}

uint64_t sim_events(const struct sim *sim)
{
    return sim->events_run;
}

uint64_t sim_hash(const struct sim *sim)
{
    return sim->hash;
}

/* -- the hash of all events: each event is hashed with its place and time -- */

static uint64_t fold(uint64_t hash, uint64_t fact)
{
    hash = (hash ^ fact) * 0x9e3779b97f4a7c15ull;
    return hash ^ (hash >> 29);
}

static const char *const mark_texts[] = {
    [SIM_MARK_TURN] = "turn",         [SIM_MARK_ARRIVE] = "packet arrives",
    [SIM_MARK_LOSE] = "packet lost",  [SIM_MARK_JOB] = "job",
    [SIM_MARK_BOOT] = "starts",       [SIM_MARK_DEATH] = "dies",
    [SIM_MARK_PAUSE] = "pause",       [SIM_MARK_CLOCK] = "clock",
    [SIM_MARK_SOCKET] = "connection", [SIM_MARK_CALLER] = "note",
    [SIM_MARK_LINK] = "link"};

void sim_mark(struct sim *sim, enum sim_mark mark, const struct sim_host *host, uint64_t a,
              uint64_t b)
{
    char text[TRACE_TEXT_CAP];

    sim->hash = fold(sim->hash, sim->now.ns);
    sim->hash = fold(sim->hash, (uint64_t)mark << 32 | (host ? host->index + 1 : 0));
    sim->hash = fold(sim->hash, a);
    sim->hash = fold(sim->hash, b);
    if (!sim->options.trace || mark == SIM_MARK_CALLER) return;
    snprintf(text, sizeof text, "%s %" PRIu64 " %" PRIu64, mark_texts[mark], a, b);
    sim->options.trace(sim->options.trace_context, sim->now, host ? host->name : "", text);
}

void sim_trace(struct sim *sim, const struct sim_host *host, const char *format, ...)
{
    char text[TRACE_TEXT_CAP];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    sim_mark(sim, SIM_MARK_CALLER, host, str_hash(str_from(text), 0), 0);
    if (sim->options.trace) {
        sim->options.trace(sim->options.trace_context, sim->now, host ? host->name : "", text);
    }
}

/* -- events -- */

enum err sim_event_init(struct sim_event *event, struct sim *sim, sim_event_fn *fn)
{
    if (sim->events_made == sim->events_room) {
        size_t room = max_size(sim->events_room * 2, EVENTS_ROOM_STEP);
        enum err err = heap_reserve(&sim->queue, min_size(room, SIM_EVENTS_WAITING_MAX));
        if (err) return err;
        if (room > SIM_EVENTS_WAITING_MAX) return ERR_FULL;
        sim->events_room = room;
    }
    sim->events_made++;
    *event = (struct sim_event){.sim = sim, .fn = fn};
    return ERR_OK;
}

void sim_event_deinit(struct sim_event *event)
{
    if (!event->sim) return;
    sim_event_cancel(event);
    assert(event->sim->events_made > 0);
    event->sim->events_made--;
    event->sim = NULL;
}

void sim_event_at(struct sim_event *event, sim_time at)
{
    struct sim *sim = event->sim;
    enum err err = heap_put(&sim->queue, &event->node, max_u64(at.ns, sim->now.ns));
    assert(!err); /* the room was reserved in sim_event_init */
}

void sim_event_in(struct sim_event *event, uint64_t delay_ns)
{
    sim_event_at(event, (sim_time){add_sat_u64(event->sim->now.ns, delay_ns)});
}

void sim_event_cancel(struct sim_event *event)
{
    if (event->sim) heap_remove(&event->sim->queue, &event->node);
}

/* -- running -- */

bool sim_step(struct sim *sim)
{
    struct heap_node *node;

    if (sim->events_run >= sim->options.events_max) return false;
    node = heap_pop_due(&sim->queue, UINT64_MAX - 1);
    if (!node) return false;
    assert(node->due >= sim->now.ns);
    sim->now.ns = node->due;
    sim->events_run++;
    struct sim_event *event = CONTAINER_OF(node, struct sim_event, node);
    event->fn(event);
    return true;
}

static enum sim_end run(struct sim *sim, bool (*holds)(void *), void *context, sim_time until)
{
    for (;;) {
        const struct heap_node *next;

        if (holds && holds(context)) return SIM_REACHED;
        next = heap_peek(&sim->queue); /* after holds(), which may end hosts and their events */
        if (!next || next->due == UINT64_MAX || next->due > until.ns) break;
        if (!sim_step(sim)) return SIM_EXHAUSTED;
    }
    if (holds && !heap_peek(&sim->queue)) return SIM_QUIET;
    sim->now.ns = max_u64(sim->now.ns, until.ns);
    return holds ? SIM_LATE : SIM_REACHED;
}

enum sim_end sim_run_for(struct sim *sim, uint64_t ms)
{
    return run(sim, NULL, NULL, (sim_time){sim->now.ns + ms * NS_PER_MS});
}

enum sim_end sim_wait(struct sim *sim, bool (*holds)(void *context), void *context, uint64_t ms)
{
    return run(sim, holds, context, (sim_time){sim->now.ns + ms * NS_PER_MS});
}
