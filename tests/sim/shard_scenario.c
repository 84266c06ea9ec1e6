/* SPDX-License-Identifier: Apache-2.0 */
/* The shard under fire: the hosts, what is drawn, and who takes over. See shard_story.h. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard_story.h"

enum {
    FAULTS_MS = 150000,
    FAULTS_MS_MIN = 30000,
    HEAL_MS = 900000,
    TICK_MS = 250,
    LOOK_MS = 1000,
    CHANGE_MS_MAX = 40000,
    WAVE_MS_MIN = 5000,
    WAVE_MS_MAX = 60000,
    HANDOVER_MS_MAX = 80000,
    RESTART_MS_MAX = 60000,
    ORDER_MS_MAX = 12000,
    UNITS_MAX = 6,
    CALM_CHANGES = 8,
    TOKENS_MAX = 1 << 20,
};
const char *const shard_bug_names[] = {
    "calls-twice",   "no-fences",    "lost-metadata",    "epoch-forgotten",
    "deaf-operator", "lost-machine", "cordon-forgotten", NULL};
static_assert(ARRAY_LEN(shard_bug_names) == SHARD_BUG_COUNT, "a name for every bug");

uint64_t shard_now_ms(const struct shard_story *story)
{
    return sim_now(scenario_sim(story->world)).ns / NS_PER_MS;
}

void shard_wrong(struct shard_story *story, const char *format, ...)
{
    char text[NOTE_CAP];
    va_list args;

    if (story->is_wrong) return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    note_set(&story->wrong, "%s", text);
    story->is_wrong = true;
}

/* -- what is drawn -- */

static void draw_settings(struct shard_story *story, struct prng *prng)
{
    static const uint64_t cycles_ms[] = {500, 1000, 3000, 10000};

    story->settings = (struct shard_settings){
        .cycle_ms = cycles_ms[prng_below(prng, ARRAY_LEN(cycles_ms))],
        .execute_ms = prng_between(prng, 2000, 8000),
        .bootstrap_ms = prng_between(prng, 2000, 8000),
        .rest_first_ms = prng_between(prng, 500, 5000),
        .rest_most_ms = prng_between(prng, 5000, 40000),
        .stuck_ms = prng_between(prng, 70000, 100000),
        .hold_on_demand_ms = prng_between(prng, 10000, 60000),
        .hold_spot_ms = prng_between(prng, 5000, 30000),
        .reclaim_fraction = prng_below(prng, 2) ? 0.05 : 1,
        .incremental = prng_below(prng, 2),
        .audit = prng_below(prng, 2),
        .paused = prng_below(prng, 24) == 0,
        .concurrency = prng_below(prng, 4) ? 64 : (uint32_t)prng_between(prng, 1, 4),
        .queue = prng_below(prng, 4) ? 128 : (uint32_t)prng_between(prng, 1, 4),
        .actions_max = prng_below(prng, 4) ? 0 : (uint32_t)prng_between(prng, 1, 4),
    };
    story->talk = (struct shard_talk_faults){
        .blob_error = prng_below(prng, 3) == 0 ? (uint32_t)prng_below(prng, 200000) : 0,
        .blob_never = prng_below(prng, 3) == 0 ? (uint32_t)prng_below(prng, 200000) : 0,
        .blob_twice = prng_below(prng, 3) == 0 ? (uint32_t)prng_below(prng, 500000) : 0,
        .hang_up = prng_below(prng, 2) == 0 ? (uint32_t)prng_below(prng, 300000) : 0,
        .reports_drains = prng_below(prng, 3) > 0,
        .reports_occupancy = story->settings.audit, /* no draw of its own: seeds stay */
    };
}

static uint32_t draw_units(struct prng *prng)
{
    return prng_below(prng, 4) ? (uint32_t)prng_below(prng, UNITS_MAX + 1) : 0;
}

/* Priorities far apart and near: the grace of a preemption depends on the gap. */
static void draw_needs(struct shard_operator *op)
{
    static const int32_t levels[] = {0, 1000, 150000, 600000, 1000000};
    struct prng *prng = &op->demand_prng;

    op->need_count = (uint32_t)prng_between(prng, 1, SHARD_NEEDS);
    for (uint32_t i = 0; i < op->need_count; i++) {
        struct shard_need *need = &op->needs[i];

        need->kind = (uint32_t)prng_below(prng, SHARD_KINDS);
        need->priority =
            levels[prng_below(prng, ARRAY_LEN(levels))] + (int32_t)(op->number * SHARD_NEEDS + i);
        need->interruption = (uint32_t)prng_between(prng, 1, 12);
        need->reclamation = (uint32_t)prng_between(prng, 1, 12);
        need->spare_milli = (uint32_t)prng_below(prng, shard_kinds[need->kind].cpu * 1000);
        need->units = draw_units(prng);
        sim_trace(scenario_sim(op->story->world), NULL,
                  "%s: Need %" PRIu32 " of kind %" PRIu32 " at priority %" PRId32, op->cluster, i,
                  need->kind, need->priority);
    }
}

/* -- what happens -- */

static void change_again(struct shard_operator *op)
{
    sim_event_in(&op->change, prng_between(&op->demand_prng, 1, CHANGE_MS_MAX) * NS_PER_MS);
}

static void grow(struct shard_operator *op, struct shard_need *need)
{
    need->units += (uint32_t)prng_below(&op->demand_prng, 3);
    op->story->steady = false;
    op->story->settled_ms = 0;
    if (++op->changes < CALM_CHANGES) change_again(op);
}

static void on_change(struct sim_event *event)
{
    struct shard_operator *op = CONTAINER_OF(event, struct shard_operator, change);
    struct shard_need *need = &op->needs[prng_below(&op->demand_prng, op->need_count)];

    if (op->story->calm) {
        grow(op, need);
    } else {
        need->units = draw_units(&op->demand_prng);
        change_again(op);
    }
    shard_operator_changed(op);
}

static void on_tick(struct sim_event *event)
{
    struct shard_story *story = CONTAINER_OF(event, struct shard_story, tick);

    shard_book_tick(story);
    for (size_t i = 0; i < SHARD_OPERATORS; i++) shard_operator_look(&story->operators[i]);
    sim_event_in(event, TICK_MS * NS_PER_MS);
}

static void on_wave(struct sim_event *event)
{
    struct shard_story *story = CONTAINER_OF(event, struct shard_story, wave);

    shard_book_wave(story);
    sim_event_in(event, prng_between(&story->prng, WAVE_MS_MIN, WAVE_MS_MAX) * NS_PER_MS);
}

/* The other host takes over. The one before may live on for a while and know nothing of it. */
static void on_handover(struct sim_event *event)
{
    struct shard_story *story = CONTAINER_OF(event, struct shard_story, handover);
    struct shard_host *old = &story->hosts[story->holder], *new = &story->hosts[1 - story->holder];

    sim_trace(scenario_sim(story->world), new->host, "takes over");
    old->active = false;
    new->active = true;
    if (sim_host_running(new->host)) sim_host_die(new->host, SIM_KILLED);
    sim_event_in(event, prng_between(&story->prng, 1, HANDOVER_MS_MAX) * NS_PER_MS);
}

/* An orderly stop, as an upgrade does it. */
static void on_restart(struct sim_event *event)
{
    struct shard_story *story = CONTAINER_OF(event, struct shard_story, restart);
    struct shard_host *host = &story->hosts[story->holder];

    if (sim_host_running(host->host) && !sim_host_paused(host->host)) sim_host_stop(host->host);
    sim_event_in(event, prng_between(&story->prng, 1, RESTART_MS_MAX) * NS_PER_MS);
}

/* An operator of the shard cordons a machine, empties it, or takes that back. When all is healed, every
 * cordon is taken back, so that the judge may expect every Need to be met. */
static void on_order_due(struct sim_event *event)
{
    struct shard_story *story = CONTAINER_OF(event, struct shard_story, order);
    struct shard_book *book = &story->book;
    struct shard_machine *m = &book->machines[prng_below(&story->order_prng, book->count)];
    static const enum shard_order_kind orders[] = {ORDER_UNCORDON, ORDER_CORDON, ORDER_CORDON,
                                                   ORDER_DRAIN};
    uint64_t most = story->healed ? 500 : ORDER_MS_MAX;

    for (uint32_t i = 0; story->healed && i < book->count && !m->cordoned; i++)
        m = &book->machines[i];
    if (!story->healed || m->cordoned)
        shard_process_order(story, m,
                            story->healed
                                ? ORDER_UNCORDON
                                : orders[prng_below(&story->order_prng, ARRAY_LEN(orders))]);
    sim_event_in(event, prng_between(&story->order_prng, 1, most) * NS_PER_MS);
}

static void heal(struct shard_story *story)
{
    story->healed = true;
    if (story->wave.node.place) shard_book_wave(story); /* the last one, which nobody may miss */
    sim_event_cancel(&story->wave);
    sim_event_cancel(&story->handover);
    sim_event_cancel(&story->restart);
    story->talk = (struct shard_talk_faults){.reports_drains = story->talk.reports_drains,
                                             .reports_occupancy = story->talk.reports_occupancy};
    shard_book_heal(story);
    for (size_t i = 0; !story->calm && i < SHARD_OPERATORS; i++)
        sim_event_cancel(&story->operators[i].change);
    for (size_t i = 0; i < SHARD_HOSTS; i++)
        if ((!story->hosts[i].active || story->settings.paused) &&
            sim_host_running(story->hosts[i].host))
            sim_host_die(story->hosts[i].host, SIM_KILLED);
    story->settings.paused = false;
}

/* -- the story -- */

static enum err open_operator(struct shard_story *story, uint32_t number)
{
    static const char *const names[SHARD_OPERATORS] = {"o0", "o1", "o2"};
    struct shard_operator *op = &story->operators[number];
    enum err err = sim_event_init(&op->change, scenario_sim(story->world), on_change);

    if (err) return err;
    op->story = story;
    op->number = number;
    (void)snprintf(op->cluster, sizeof op->cluster, "c%u", (unsigned)number);
    op->sayings = calloc(SHARD_SAYINGS_MAX, sizeof *op->sayings);
    if (!op->sayings) return ERR_NOMEM;
    prng_fork(&story->prng, &op->demand_prng);
    draw_needs(op);
    change_again(op);
    return scenario_add_node(story->world, names[number], &shard_operator_ops, op,
                             SCENARIO_MAY_DIE | SCENARIO_MAY_PAUSE, &op->host);
}

static enum err open_hosts(struct shard_story *story)
{
    static const char *const names[SHARD_HOSTS] = {"s0", "s1"};
    enum err err = scenario_add_node(story->world, "p", &shard_provider_ops, story,
                                     SCENARIO_MAY_DIE | SCENARIO_MAY_PAUSE, &story->provider_host);

    if (!err) shard_book_open(story);
    if (story->calm) story->book.complete_ms[VERB_CREATE] = story->calm->create_ms;
    if (story->calm) shard_book_heal(story);
    for (uint32_t i = 0; !err && i < SHARD_HOSTS; i++) {
        story->hosts[i] = (struct shard_host){.story = story, .number = i, .active = i == 0};
        err = scenario_add_node(story->world, names[i], &shard_process_ops, &story->hosts[i],
                                SCENARIO_MAY_DIE | SCENARIO_MAY_PAUSE | SCENARIO_MAY_FILL,
                                &story->hosts[i].host);
    }
    for (uint32_t i = 0; !err && i < SHARD_OPERATORS; i++) err = open_operator(story, i);
    return err;
}

/* Who is taken away, and who takes over. */
static void begin_events(struct shard_story *story)
{
    bool waves = prng_below(&story->prng, 2), handovers = prng_below(&story->prng, 3) == 0;
    bool restarts = prng_below(&story->prng, 4) == 0;

    sim_event_in(&story->tick, TICK_MS * NS_PER_MS);
    if (story->calm) return;
    story->order_prng = story->prng; /* the other draws stay as they are without orders */
    (void)prng_below(&story->order_prng, 7);
    /* Each host has a disk of its own, and so cordons of its own. */
    if (!handovers && prng_below(&story->order_prng, 2))
        sim_event_in(&story->order, prng_between(&story->order_prng, 1, ORDER_MS_MAX) * NS_PER_MS);
    if (waves) sim_event_in(&story->wave, prng_between(&story->prng, 1, WAVE_MS_MAX) * NS_PER_MS);
    if (restarts)
        sim_event_in(&story->restart, prng_between(&story->prng, 1, RESTART_MS_MAX) * NS_PER_MS);
    if (handovers)
        sim_event_in(&story->handover, prng_between(&story->prng, 1, HANDOVER_MS_MAX) * NS_PER_MS);
}

enum err shard_story_open(struct scenario_world *world, struct shard_calm *calm, void **ret_state)
{
    struct shard_story *story = calloc(1, sizeof *story);
    struct sim *sim = scenario_sim(world);
    enum err err;

    if (!story) return ERR_NOMEM;
    *ret_state = story; /* closed by the runner, whatever happens next */
    story->world = world;
    story->calm = calm;
    story->bug = (enum shard_bug)scenario_bug(world);
    map_init(&story->tokens, TOKENS_MAX, 1);
    prng_fork(scenario_prng(world), &story->prng);
    prng_fork(scenario_prng(world), &story->book.prng);
    story->blobs = calloc(SHARD_BLOBS_MAX, sizeof *story->blobs);
    if (!story->blobs) return ERR_NOMEM;
    draw_settings(story, &story->prng);
    if (calm) story->talk = (struct shard_talk_faults){.reports_drains = true};
    err = sim_event_init(&story->tick, sim, on_tick);
    if (!err) err = sim_event_init(&story->wave, sim, on_wave);
    if (!err) err = sim_event_init(&story->handover, sim, on_handover);
    if (!err) err = sim_event_init(&story->restart, sim, on_restart);
    if (!err) err = sim_event_init(&story->order, sim, on_order_due);
    if (!err) err = open_hosts(story);
    if (!err) begin_events(story);
    return err;
}

static enum err story_open(struct scenario_world *world, void **ret_state)
{
    return shard_story_open(world, NULL, ret_state);
}

static bool story_safe(void *state, struct note *why)
{
    struct shard_story *story = state;

    if (story->is_wrong) *why = story->wrong;
    return !story->is_wrong;
}

/* Looked at now and then: it is asked after every event. */
static bool story_done(void *state)
{
    struct shard_story *story = state;
    uint64_t now = shard_now_ms(story);

    if (!story->healed) heal(story);
    if (now < story->looked_ms + LOOK_MS) return false;
    story->looked_ms = now;
    if (shard_judge_is_over(story)) return true;
    if (!story->steady)
        sim_trace(scenario_sim(story->world), NULL, "not yet: %s", story->why_not.text);
    return false;
}

static void story_close(void *state)
{
    struct shard_story *story = state;
    struct map_entry *entry;
    size_t cursor = 0;

    if (story->calm) story->calm->bought = story->book.accepted[VERB_CREATE];
    while ((entry = map_next(&story->tokens, &cursor))) free(entry->value);
    map_deinit(&story->tokens);
    for (size_t i = 0; i < SHARD_OPERATORS; i++) free(story->operators[i].sayings);
    shard_book_close(&story->book);
    free(story->blobs);
    free(story);
}

const struct scenario shard_scenario = {
    .name = "shard",
    .about = "a shard, its provider and its operators: nothing is done twice, nothing is lost, "
             "and in the end everybody has what was asked for",
    .faults_ms = FAULTS_MS,
    .faults_ms_min = FAULTS_MS_MIN,
    .heal_ms = HEAL_MS,
    .bugs = shard_bug_names,
    .open = story_open,
    .safe = story_safe,
    .done = story_done,
    .close = story_close,
};
