/* SPDX-License-Identifier: Apache-2.0 */
/* The two phases of a scenario, and the faults. */
#include "scenario.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    SUPERVISE_EVERY_MS = 250,
    RESTART_DELAY_MS_MAX = 1500,
    PLANNED_DISK_CALLS_MAX = 24, /* a power cut at one of that many calls to come */
};

struct node {
    struct scenario_world *world;
    struct sim_host *host;
    uint32_t may;
    struct sim_event back;    /* starts, or resumes */
    struct sim_event emptied; /* the disk has room again */
};
struct striker {
    struct sim_event event;
    struct scenario_world *world;
    enum scenario_strike kind;
};
struct scenario_world {
    struct sim *sim;
    const struct scenario_options *options;
    struct scenario_faults faults;
    struct prng fault_prng, load_prng;
    struct node nodes[SCENARIO_NODES_MAX];
    size_t node_count;
    struct striker strikers[SCENARIO_STRIKE_COUNT];
    struct sim_event reunited, supervisor;
    bool healed;
    const struct scenario *scenario;
    void *state;
    struct note why;
    bool unsafe;
    enum err start_error; /* of the last failed start */
    struct scenario_result result;
};

struct sim *scenario_sim(struct scenario_world *world)
{
    return world->sim;
}

uint32_t scenario_bug(const struct scenario_world *world)
{
    return world->options->bug;
}

struct prng *scenario_prng(struct scenario_world *world)
{
    return &world->load_prng;
}

/* -- nodes -- */

static bool is_down(const struct node *node)
{
    return !sim_host_running(node->host);
}

static void start(struct node *node)
{
    enum err err = sim_host_restart(node->host);
    if (err) node->world->start_error = err; /* the supervisor tries again */
}

static void come_back(struct sim_event *event)
{
    struct node *node = CONTAINER_OF(event, struct node, back);

    if (sim_host_paused(node->host))
        sim_host_resume(node->host);
    else if (is_down(node))
        start(node);
}

static void disk_emptied(struct sim_event *event)
{
    struct node *node = CONTAINER_OF(event, struct node, emptied);
    struct sim_fs_options options = sim_fs_options(sim_host_disk(node->host));

    options.capacity = node->world->faults.disk.capacity;
    sim_fs_set_options(sim_host_disk(node->host), &options);
}

static void supervise(struct sim_event *event)
{
    struct scenario_world *world = CONTAINER_OF(event, struct scenario_world, supervisor);

    for (size_t i = 0; i < world->node_count; i++) {
        struct node *node = &world->nodes[i];
        if (!is_down(node) || node->back.node.place) continue;
        sim_event_in(
            &node->back,
            world->healed ? 0 : prng_below(&world->fault_prng, RESTART_DELAY_MS_MAX) * NS_PER_MS);
    }
    sim_event_in(event, SUPERVISE_EVERY_MS * NS_PER_MS);
}

enum err scenario_add_node(struct scenario_world *world, const char *name,
                           const struct sim_process_ops *ops, void *context, uint32_t may,
                           struct sim_host **ret_host)
{
    struct node *node = &world->nodes[world->node_count];
    struct sim_host_options options = {.name = name, .disk = world->faults.disk};
    struct sim_fs_options perfect;
    int32_t ppm_max = world->faults.clock_ppm_max;
    enum err err;

    if (world->node_count == SCENARIO_NODES_MAX) return ERR_FULL;
    *node = (struct node){.world = world, .may = may};
    err = sim_host_add(world->sim, &options, &node->host);
    if (!err) err = sim_event_init(&node->back, world->sim, come_back);
    if (!err) err = sim_event_init(&node->emptied, world->sim, disk_emptied);
    if (err) return err;
    if (ppm_max) {
        sim_host_clock_rate(
            node->host, (int32_t)prng_below(&world->fault_prng, (uint64_t)ppm_max * 2) - ppm_max);
    }
    world->node_count++;
    /* The first start is the installation: the disk is without faults. */
    options.disk = sim_fs_options(sim_host_disk(node->host));
    perfect = options.disk;
    perfect.write_fails_per_million = perfect.sync_fails_per_million =
        perfect.read_fails_per_million = 0;
    sim_fs_set_options(sim_host_disk(node->host), &perfect);
    err = sim_host_start(node->host, ops, context);
    sim_fs_set_options(sim_host_disk(node->host), &options.disk);
    if (!err) *ret_host = node->host;
    return err;
}

/* -- strikes -- */

static uint64_t lasts_ns(struct scenario_world *world, enum scenario_strike kind)
{
    uint64_t max = world->faults.strikes[kind].lasts_ms_max;
    return prng_between(&world->fault_prng, 1, max ? max : 1) * NS_PER_MS;
}

static struct node *pick(struct scenario_world *world, uint32_t may)
{
    struct node *node = &world->nodes[prng_below(&world->fault_prng, world->node_count)];
    bool free_now = !is_down(node) && !sim_host_paused(node->host);
    return (node->may & may) && free_now ? node : NULL;
}

static uint32_t count_down(const struct scenario_world *world)
{
    uint32_t count = 0;
    for (size_t i = 0; i < world->node_count; i++) {
        count += is_down(&world->nodes[i]) || sim_host_paused(world->nodes[i].host);
    }
    return count;
}

static void strike_dead(struct scenario_world *world, enum scenario_strike kind)
{
    enum sim_death death = kind == SCENARIO_KILL ? SIM_KILLED : SIM_POWER_CUT;
    struct node *node = pick(world, SCENARIO_MAY_DIE);

    if (!node || count_down(world) >= world->faults.down_max) return;
    world->result.deaths++;
    if (prng_chance(&world->fault_prng, 500000) && (node->may & SCENARIO_MAY_FILL)) {
        sim_host_die_at_disk_call(
            node->host, prng_between(&world->fault_prng, 1, PLANNED_DISK_CALLS_MAX), death);
        return; /* the supervisor brings it back */
    }
    sim_host_die(node->host, death);
    sim_event_in(&node->back, lasts_ns(world, kind));
}

static void strike_pause(struct scenario_world *world)
{
    struct node *node = pick(world, SCENARIO_MAY_PAUSE);

    if (!node || count_down(world) >= world->faults.down_max) return;
    world->result.pauses++;
    sim_host_pause(node->host,
                   prng_chance(&world->fault_prng, 500000) ? SIM_PAUSE_PROCESS : SIM_PAUSE_MACHINE);
    sim_event_in(&node->back, lasts_ns(world, SCENARIO_PAUSE));
}

static void block_between(struct scenario_world *world, uint64_t group, bool out, bool in)
{
    for (size_t i = 0; i < world->node_count; i++) {
        for (size_t j = 0; j < world->node_count; j++) {
            bool i_in = group >> i & 1, j_in = group >> j & 1;
            if (i_in == j_in) continue;
            sim_link_block(world->nodes[i].host, world->nodes[j].host, i_in ? out : in);
        }
    }
}

static void reunite(struct sim_event *event)
{
    struct scenario_world *world = CONTAINER_OF(event, struct scenario_world, reunited);

    for (size_t i = 0; i < world->node_count; i++) {
        for (size_t j = 0; j < world->node_count; j++) {
            if (i != j) sim_link_block(world->nodes[i].host, world->nodes[j].host, false);
        }
    }
}

static void strike_partition(struct scenario_world *world)
{
    uint64_t group = prng_below(&world->fault_prng, 1ull << world->node_count);
    bool one_way = world->faults.one_way && prng_chance(&world->fault_prng, 500000);

    if (world->reunited.node.place) return; /* one at a time */
    world->result.partitions++;
    block_between(world, group, true, !one_way);
    sim_event_in(&world->reunited, lasts_ns(world, SCENARIO_PARTITION));
}

static void strike_clog(struct scenario_world *world)
{
    struct node *from = &world->nodes[prng_below(&world->fault_prng, world->node_count)];
    struct node *to = &world->nodes[prng_below(&world->fault_prng, world->node_count)];

    if (from != to) sim_link_clog(from->host, to->host, lasts_ns(world, SCENARIO_CLOG) / NS_PER_MS);
}

static void strike_full(struct scenario_world *world)
{
    struct node *node = pick(world, SCENARIO_MAY_FILL);
    struct sim_fs_options options;

    if (!node || node->emptied.node.place) return;
    options = sim_fs_options(sim_host_disk(node->host));
    options.capacity = 1; /* less than used: the disk is full */
    sim_fs_set_options(sim_host_disk(node->host), &options);
    sim_event_in(&node->emptied, lasts_ns(world, SCENARIO_DISK_FULL));
}

static void strike_clock(struct scenario_world *world)
{
    struct node *node = &world->nodes[prng_below(&world->fault_prng, world->node_count)];
    int64_t max = world->faults.clock_step_ms_max;

    sim_host_clock_step(node->host,
                        (int64_t)prng_below(&world->fault_prng, (uint64_t)max * 2 + 1) - max);
}

static void strike_again(struct striker *striker)
{
    struct scenario_world *world = striker->world;
    uint64_t every = world->faults.strikes[striker->kind].every_ms;

    if (every && !world->healed) {
        sim_event_in(&striker->event, prng_between(&world->fault_prng, 1, every * 2) * NS_PER_MS);
    }
}

static void strike(struct sim_event *event)
{
    struct striker *striker = CONTAINER_OF(event, struct striker, event);
    struct scenario_world *world = striker->world;

    assert(striker->kind < SCENARIO_STRIKE_COUNT);
    switch (striker->kind) {
    case SCENARIO_POWER_CUT:
    case SCENARIO_KILL: strike_dead(world, striker->kind); break;
    case SCENARIO_PAUSE: strike_pause(world); break;
    case SCENARIO_PARTITION: strike_partition(world); break;
    case SCENARIO_CLOG: strike_clog(world); break;
    case SCENARIO_DISK_FULL: strike_full(world); break;
    case SCENARIO_CLOCK_STEP: strike_clock(world); break;
    case SCENARIO_STRIKE_COUNT: break;
    }
    strike_again(striker);
}

/* -- the two phases -- */

static void heal(struct scenario_world *world)
{
    world->healed = true;
    sim_link_heal_all(world->sim);
    sim_event_cancel(&world->reunited);
    for (size_t i = 0; i < SCENARIO_STRIKE_COUNT; i++) sim_event_cancel(&world->strikers[i].event);
    for (size_t i = 0; i < world->node_count; i++) {
        struct node *node = &world->nodes[i];
        struct sim_fs_options now = sim_fs_options(sim_host_disk(node->host)), good = {0};

        good.capacity = world->faults.disk.capacity;
        good.cost = now.cost;
        good.admits = now.admits;
        good.context = now.context;
        good.call_ns = now.call_ns;
        good.kib_ns = now.kib_ns;
        good.sync_ns_min = now.sync_ns_min;
        good.sync_ns_max = now.sync_ns_max;
        good.clock = now.clock;
        good.pid = now.pid;
        sim_fs_set_options(sim_host_disk(node->host), &good);
        sim_event_cancel(&node->emptied);
        sim_host_die_at_disk_call(node->host, 0, SIM_KILLED);
        sim_host_clock_rate(node->host, 0);
        sim_event_in(&node->back, 0);
    }
}

static bool unsafe(void *context)
{
    struct scenario_world *world = context;
    if (!world->unsafe) world->unsafe = !world->scenario->safe(world->state, &world->why);
    return world->unsafe;
}

static bool unsafe_or_done(void *context)
{
    struct scenario_world *world = context;
    return unsafe(world) || world->scenario->done(world->state);
}

static uint64_t faults_ms(struct scenario_world *world)
{
    const struct scenario *scenario = world->scenario;

    if (!scenario->faults_ms_min) return scenario->faults_ms;
    return prng_between(&world->fault_prng, scenario->faults_ms_min, scenario->faults_ms);
}

static enum scenario_end play(struct scenario_world *world)
{
    const struct scenario *scenario = world->scenario;
    enum sim_end end;

    for (size_t i = 0; i < SCENARIO_STRIKE_COUNT; i++) strike_again(&world->strikers[i]);
    sim_event_in(&world->supervisor, SUPERVISE_EVERY_MS * NS_PER_MS);
    sim_link_set_all(world->sim, &world->faults.link);
    end = sim_wait(world->sim, unsafe, world, faults_ms(world));
    if (end == SIM_REACHED) return SCENARIO_UNSAFE;
    if (end == SIM_LATE) {
        heal(world);
        end = sim_wait(world->sim, unsafe_or_done, world, scenario->heal_ms);
        if (world->unsafe) return SCENARIO_UNSAFE;
        if (end == SIM_REACHED) return SCENARIO_PASSED;
        note_set(&world->why,
                 "not done %" PRIu64 " ms after everything was healed; last failed start: %s",
                 scenario->heal_ms, world->start_error ? err_name(world->start_error) : "none");
        return SCENARIO_STUCK;
    }
    note_set(&world->why, end == SIM_QUIET ? "nothing happens any more" : "too many events");
    return SCENARIO_STUCK;
}

static enum err set_up(struct scenario_world *world)
{
    enum err err = sim_event_init(&world->reunited, world->sim, reunite);

    if (!err) err = sim_event_init(&world->supervisor, world->sim, supervise);
    for (size_t i = 0; !err && i < SCENARIO_STRIKE_COUNT; i++) {
        world->strikers[i].world = world;
        world->strikers[i].kind = (enum scenario_strike)i;
        err = sim_event_init(&world->strikers[i].event, world->sim, strike);
    }
    return err;
}

enum err scenario_run(const struct scenario *scenario, const struct scenario_options *options,
                      struct scenario_result *ret_result)
{
    struct scenario_world *world = calloc(1, sizeof *world);
    struct sim_options sim_options = {
        .seed = options->seed, .trace = options->trace, .trace_context = options->trace_context};
    struct prng root;
    enum err err;

    if (!world) return ERR_NOMEM;
    world->options = options;
    world->scenario = scenario;
    prng_seed(&root, options->seed ^ 0x5ce7a210ull); /* independent of the world's own draws */
    prng_fork(&root, &world->fault_prng);
    prng_fork(&root, &world->load_prng);
    scenario_faults_draw(&root, options->profile, &world->faults);
    err = sim_open(&sim_options, &world->sim);
    if (!err) err = set_up(world);
    if (err) goto out;
    world->result.end = SCENARIO_BROKEN;
    err = scenario->open(world, &world->state);
    if (err)
        note_set(&world->why, "could not be set up: %s", err_name(err));
    else
        world->result.end = play(world);
    world->result.why = world->why;
    world->result.faults = world->faults;
    world->result.hash = sim_hash(world->sim);
    world->result.events = sim_events(world->sim);
    world->result.virtual_ms = sim_now(world->sim).ns / NS_PER_MS;
    *ret_result = world->result;
    err = ERR_OK;

out:
    sim_close(world->sim);
    if (world->state) scenario->close(world->state);
    free(world);
    return err;
}

/* -- the report -- */

const struct scenario *scenario_find(struct scenario_table table, const char *name)
{
    for (size_t i = 0; i < table.count; i++) {
        if (strcmp(table.items[i]->name, name) == 0) return table.items[i];
    }
    return NULL;
}

uint32_t scenario_bug_number(const struct scenario *scenario, const char *name)
{
    for (uint32_t i = 0; scenario->bugs && scenario->bugs[i]; i++) {
        if (strcmp(scenario->bugs[i], name) == 0) return i + 1;
    }
    return 0;
}

static const struct {
    int exit_code;
    const char *text;
} scenario_ends[] = {
    [SCENARIO_PASSED] = {SCENARIO_EXIT_PASSED, "passed"},
    [SCENARIO_BROKEN] = {SCENARIO_EXIT_BROKEN, "broken"},
    [SCENARIO_UNSAFE] = {SCENARIO_EXIT_UNSAFE, "wrong result"},
    [SCENARIO_STUCK] = {SCENARIO_EXIT_STUCK, "no progress"},
};

int scenario_exit_code(enum scenario_end end)
{
    return scenario_ends[end].exit_code;
}

const char *scenario_end_text(enum scenario_end end)
{
    return scenario_ends[end].text;
}

void scenario_report(const struct scenario *scenario, const struct scenario_options *options,
                     const struct scenario_result *result, const char *commit, struct buf *into)
{
    buf_appendf(into, "scenario=%s seed=%" PRIu64 " profile=%s bug=%s commit=%s: %s",
                scenario->name, options->seed,
                options->profile == SCENARIO_HARSH ? "harsh" : "mild",
                options->bug ? scenario->bugs[options->bug - 1] : "none", commit,
                scenario_end_text(result->end));
    if (result->why.text[0]) buf_appendf(into, ": %s", result->why.text);
    buf_appendf(into,
                " (after %" PRIu64 " ms, %" PRIu64
                " events, %u deaths, %u pauses, %u partitions, hash %016" PRIx64 ")\n  faults: ",
                result->virtual_ms, result->events, result->deaths, result->pauses,
                result->partitions, result->hash);
    scenario_faults_text(&result->faults, into);
    buf_append_c(into, "\n");
}
