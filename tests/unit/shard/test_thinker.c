/* SPDX-License-Identifier: Apache-2.0 */
/* The decide thread's border: order, and how much is handed over in one go. */
#include "lib/test.h"
#include "shard/thinker.h"
#include "sim/sim.h"

enum { THOUGHTS = 12, EFFECTS = 5000 };

struct counting {
    struct thought thought;
    size_t number;
    bool done;
};
static struct {
    struct counting thoughts[THOUGHTS];
    size_t carried, batches, since, most; /* since: effects of the batch that is carried out */
    size_t thought_of;                    /* so many were */
} seen;

static void think(struct thought *thought, struct mind *mind, struct effects *out)
{
    const struct counting *t = CONTAINER_OF(thought, struct counting, thought);

    (void)mind;
    CHECK_SIZE("in order", t->number, seen.thought_of++);
    for (size_t i = 0; i < EFFECTS; i++) {
        struct effect *effect = effects_add(out, EFFECT_CYCLE_SOON);
        CHECK("memory", effect != NULL);
        effect->action = t->number * EFFECTS + i;
    }
}

static void done(struct thought *thought, enum err err)
{
    struct counting *t = CONTAINER_OF(thought, struct counting, thought);

    CHECK_OK("thought", err);
    CHECK("all it caused is on its way", seen.carried >= (t->number + 1) * EFFECTS);
    t->done = true;
}

static const struct str *prepare(const struct effect *effect, struct mind *mind,
                                 struct arena *arena)
{
    (void)effect, (void)mind, (void)arena;
    return NULL;
}

static bool carry_out(void *owner, const struct effect *effect, const struct str *prepared)
{
    (void)owner, (void)prepared;
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

/* All operators come back at once, and each is told of all its machines. */
TEST(much_is_handed_over_in_pieces_and_in_order)
{
    struct thinker_options options = {
        .prepare = prepare, .carry_out = carry_out, .on_counts = on_counts};
    struct thinker *thinker;
    struct sim_host *host;
    struct sim *sim;
    struct note note;

    CHECK_OK("sim", sim_open(&(struct sim_options){.seed = 1, .events_max = 1000000}, &sim));
    CHECK_OK("host", sim_host_add(sim, &(struct sim_host_options){.name = "s"}, &host));
    options.io = sim_host_io(host);
    CHECK_OK("core", core_open(&(struct core_options){.seed = 1}, &options.core, &note));
    CHECK_OK("thinker", thinker_open(&options, &thinker));
    for (size_t i = 0; i < THOUGHTS; i++) {
        seen.thoughts[i] =
            (struct counting){.thought = {.think = think, .done = done}, .number = i};
        thinker_submit(thinker, &seen.thoughts[i].thought);
    }
    CHECK("time goes on", sim_run_for(sim, 1000) == SIM_REACHED);
    for (size_t i = 0; i < THOUGHTS; i++) CHECK("done", seen.thoughts[i].done);
    CHECK_SIZE("all of it", seen.carried, (size_t)THOUGHTS * EFFECTS);
    CHECK("not all in one", seen.most < (size_t)16384 + EFFECTS);
    thinker_close(thinker);
    sim_close(sim);
}
