/* SPDX-License-Identifier: Apache-2.0 */
/* The shard's core at its designed size: CPU time of Lists, roll-ups, cycles and readings.
 * Nobody answers actions here: the core is paused, so a cycle is decision, views, hints
 * and gauges. bench_core [MACHINES NEEDS correlated|adversarial] */
#include <string.h>

#include "bench.h"
#include "model/metadata.h"
#include "shard/core/core_internal.h"
#include "shard/plan/generate.h"

enum { CLUSTERS = 200, CHUNK = 1000, REPEATS = 5 };

struct world {
    struct generate_options options;
    struct arena arena; /* of one chunk of records, as a decoder has */
    struct core *core;
    struct effects out;
    mono_time now;
};

static double cpu_ms(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID) / 1e6;
}

static void forget(struct world *w)
{
    effects_deinit(&w->out);
    effects_init(&w->out);
}

/* A full List; every `every`-th record has another price (0: none). CPU in the core, in ms. */
static double list(struct world *w, uint32_t every, double price)
{
    static struct machine machines[CHUNK];
    static struct label metadata[CHUNK][METADATA_MAX];
    static size_t counts[CHUNK];
    double spent = 0, start;

    core_list_begin(w->core, LIST_FULL);
    for (uint32_t first = 0; first < w->options.machines; first += CHUNK) {
        uint32_t count = w->options.machines - first < CHUNK ? w->options.machines - first : CHUNK;
        arena_reset(&w->arena);
        for (uint32_t i = 0; i < count; i++) {
            struct machine *m = &machines[i];
            struct machine_metadata ours;
            MUST(!generate_machine(&w->options, first + i, &w->arena, core_dimensions(w->core), m));
            if (every && (first + i) % every == 0) m->price_per_hour += price;
            ours = (struct machine_metadata){m->stamp, m->destination, m->promised};
            MUST(!metadata_encode(&w->arena, &ours, metadata[i], &counts[i]));
        }
        start = cpu_ms();
        for (uint32_t i = 0; i < count; i++)
            MUST(
                !core_list_machine(w->core, &machines[i], metadata[i], counts[i], w->now, &w->out));
        spent += cpu_ms() - start;
        forget(w);
    }
    start = cpu_ms();
    core_list_end(w->core, true, w->now, &w->out);
    forget(w);
    return spent + cpu_ms() - start;
}

/* The rows of one cluster, until the next. */
static struct str rows_of(struct world *w, uint32_t cluster, struct need **ret_rows,
                          size_t *ret_count)
{
    struct str name;

    arena_reset(&w->arena);
    MUST(!generate_needs(&w->options, cluster, &w->arena, core_dimensions(w->core), &name, ret_rows,
                         ret_count));
    return name;
}

/* Every cluster rolls up; `more`: a unit on each row. */
static double roll_up(struct world *w, bool more)
{
    enum rollup_verdict verdict;
    double spent = 0, start;
    struct need *rows;
    size_t count;

    for (uint32_t cluster = 0; cluster < CLUSTERS; cluster++) {
        struct str name = rows_of(w, cluster, &rows, &count);
        for (size_t i = 0; i < count && more; i++)
            resource_sum_add(&rows[i].aggregate, &rows[i].min_unit);
        start = cpu_ms();
        MUST(!core_rollup(w->core, name, rows, count, w->now, &verdict, &w->out, NULL));
        spent += cpu_ms() - start;
    }
    forget(w);
    return spent;
}

static double sessions(struct world *w, size_t *ret_updates)
{
    double spent = 0, start;
    struct need *rows;
    size_t count;

    for (uint32_t cluster = 0; cluster < CLUSTERS; cluster++) {
        struct str name = rows_of(w, cluster, &rows, &count);
        start = cpu_ms();
        MUST(!core_session(w->core, name, true, w->now, &w->out));
        spent += cpu_ms() - start;
        *ret_updates += w->out.count;
        forget(w);
    }
    return spent;
}

struct marks {
    double last, at[PHASE_COUNT];
};

static void mark(void *context, enum cycle_phase phase)
{
    struct marks *m = context;
    double now = cpu_ms();

    m->at[phase] = now - m->last;
    m->last = now;
}

static double cycle(struct world *w, struct marks *ret_marks, size_t *ret_effects)
{
    double start = cpu_ms(), spent;

    ret_marks->last = start;
    MUST(!core_cycle(w->core, w->now, (wall_time){1}, mark, ret_marks, &w->out));
    spent = cpu_ms() - start;
    *ret_effects = 0;
    for (size_t i = 0; i < w->out.count; i++)
        *ret_effects += w->out.items[i].kind == EFFECT_CAPACITY;
    forget(w);
    w->now.ms += 10 * 1000;
    return spent;
}

static void cycle_print(const char *what, struct world *w)
{
    struct marks m = {0};
    size_t hints;
    double spent = cycle(w, &m, &hints);

    printf("  %-44s %8.1f ms   emit %.1f, end %.1f, %zu hints\n", what, spent, m.at[PHASE_EMIT],
           m.at[PHASE_EXECUTE], hints);
}

static void read_all(struct world *w)
{
    struct core_summary summary;
    struct needs_view view;
    struct arena arena;
    double start;

    arena_init(&arena, (size_t)2 << 30);
    start = cpu_ms();
    MUST(!core_inspect(w->core, STR_EMPTY, 0, &arena, &view));
    printf("  %-44s %8.1f ms   %zu rows, %zu MB\n", "InspectNeeds, all of them", cpu_ms() - start,
           view.count, arena.used >> 20);
    start = cpu_ms();
    MUST(!core_summary(w->core, &arena, &summary));
    printf("  %-44s %8.3f ms\n", "Summary", cpu_ms() - start);
    arena_deinit(&arena);
}

static void run(uint32_t machines, uint32_t needs, bool adversarial)
{
    struct core_options options = {.machines_max = machines, .seed = 1, .paused = true};
    struct world w = {.options = {machines, needs, CLUSTERS, 1, adversarial}, .now = {1000 * 1000}};
    size_t updates = 0;
    double spent;

    printf("%u machines, %u Needs, %d clusters, %s\n", machines, needs, CLUSTERS,
           adversarial ? "adversarial" : "correlated");
    arena_init(&w.arena, (size_t)1 << 30);
    effects_init(&w.out);
    MUST(!core_open(&options, &w.core));
    spent = list(&w, 0, 0);
    printf("  %-44s %8.1f ms   %.0f ns a record\n", "List, all of it new", spent,
           spent * 1e6 / machines);
    for (int i = 0; i < REPEATS; i++) {
        spent = list(&w, 0, 0);
        printf("  %-44s %8.1f ms   %.0f ns a record\n", "List, nothing changed", spent,
               spent * 1e6 / machines);
    }
    spent = list(&w, 1000, 1);
    printf("  %-44s %8.1f ms\n", "List, one price in a thousand changed", spent);
    printf("  %-44s %8.1f ms\n", "roll-ups, all new", roll_up(&w, false));
    printf("  %-44s %8.1f ms\n", "roll-ups, the same again", roll_up(&w, false));
    printf("  %-44s %8.1f ms\n", "roll-ups, every row changed", roll_up(&w, true));
    cycle_print("cycle, the first", &w);
    spent = sessions(&w, &updates);
    printf("  %-44s %8.1f ms   %zu updates\n", "sessions of all clusters at once", spent, updates);
    cycle_print("cycle, every hint is new", &w);
    cycle_print("cycle, nothing changed", &w);
    (void)list(&w, 1000, 2);
    cycle_print("cycle, one machine in a thousand changed", &w);
    (void)roll_up(&w, false);
    cycle_print("cycle, every row changed", &w);
    read_all(&w);
    printf("  %-44s %8.0f bytes a machine\n", "inventory",
           (double)inventory_stats(w.core->inventory).bytes / machines);
    core_close(w.core);
    effects_deinit(&w.out);
    arena_deinit(&w.arena);
}

int main(int argc, char **argv)
{
    if (argc > 3) {
        run((uint32_t)atoi(argv[1]), (uint32_t)atoi(argv[2]), strcmp(argv[3], "adversarial") == 0);
        return 0;
    }
    run(500 * 1000, 50 * 1000, false);
    run(500 * 1000, 50 * 1000, true);
    return 0;
}
