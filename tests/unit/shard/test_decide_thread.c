/* SPDX-License-Identifier: Apache-2.0 */
/* The decide thread's border: order, and how much is handed over in one go. */
#include "lib/test.h"
#include "shard/decide_thread.h"
#include "sim/sim.h"

enum { THOUGHTS = 12, EFFECTS = 5000 };

struct counting {
    struct decide_job job;
    size_t number;
    bool done;
};
static struct {
    struct counting jobs[THOUGHTS];
    size_t carried, batches, since, most; /* since: effects of the batch that is carried out */
    size_t thought_of;                    /* so many were */
} seen;

static void think(struct decide_job *job, struct decide_context *context, struct effects *out)
{
    const struct counting *t = CONTAINER_OF(job, struct counting, job);

    (void)context;
    CHECK_SIZE("in order", t->number, seen.thought_of++);
    for (size_t i = 0; i < EFFECTS; i++) {
        struct effect *effect = effects_add(out, EFFECT_CYCLE_SOON);
        CHECK("memory", effect != NULL);
        effect->action = t->number * EFFECTS + i;
    }
}

static void done(struct decide_job *job, enum err err)
{
    struct counting *t = CONTAINER_OF(job, struct counting, job);

    CHECK_OK("job", err);
    CHECK("all it caused is on its way", seen.carried >= (t->number + 1) * EFFECTS);
    t->done = true;
}

static void prepare(struct effect *effect, struct decide_context *context, struct arena *arena)
{
    (void)context, (void)arena;
    CHECK_U64("once", effect->timeout_ms++, 0);
}

static bool carry_out(void *owner, const struct effect *effect)
{
    (void)owner;
    CHECK_U64("prepared", effect->timeout_ms, 1);
    CHECK_U64("in order", effect->action, seen.carried++);
    seen.since++;
    return true;
}

static void on_counts(void *owner, const struct core_counts *counts)
{
    (void)owner, (void)counts;
    if (seen.since > seen.most) seen.most = seen.since;
    seen.since = 0;
    seen.batches++;
}

/* All operators come back at once, and each gets the state of all its machines. */
TEST(much_is_handed_over_in_pieces_and_in_order)
{
    struct decide_thread_options options = {
        .prepare = prepare, .carry_out = carry_out, .on_counts = on_counts};
    struct decide_thread *decide_thread;
    struct sim_host *host;
    struct sim *sim;

    CHECK_OK("sim", sim_open(&(struct sim_options){.seed = 1, .events_max = 1000000}, &sim));
    CHECK_OK("host", sim_host_add(sim, &(struct sim_host_options){.name = "s"}, &host));
    options.io = sim_host_io(host);
    CHECK_OK("core", core_open(&(struct core_options){.seed = 1}, &options.core));
    CHECK_OK("decide_thread", decide_thread_open(&options, &decide_thread));
    for (size_t i = 0; i < THOUGHTS; i++) {
        seen.jobs[i] = (struct counting){.job = {.run = think, .done = done}, .number = i};
        decide_thread_submit(decide_thread, &seen.jobs[i].job);
    }
    CHECK("time goes on", sim_run_for(sim, 1000) == SIM_REACHED);
    for (size_t i = 0; i < THOUGHTS; i++) CHECK("done", seen.jobs[i].done);
    CHECK_SIZE("all of it", seen.carried, (size_t)THOUGHTS * EFFECTS);
    CHECK("not all in one", seen.most < (size_t)16384 + EFFECTS);
    decide_thread_close(decide_thread);
    sim_close(sim);
}
