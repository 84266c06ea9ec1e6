/* SPDX-License-Identifier: Apache-2.0 */
/* The decision engine at 50K, 500K and 5M machines: from scratch, after a few machines changed,
 * after one row and after all rows of demand changed; bytes a machine.
 *
 * *Steady* is the usual cycle of a shard: every action decided so far was carried out, then a tenth
 * of a percent of the machines changes. "None carried out" is a shard without providers: it decides
 * the same actions in every cycle.
 *
 * The peer in the same run is the least work of any engine: one walk over as many records of 64
 * bytes, adding them up. bench_decide [MACHINES NEEDS correlated|adversarial]; a further argument,
 * for callgrind: `once` decides one time and ends, `steady` ends after the steady cycles. */
#include <string.h>

#include "base/prng.h"
#include "bench.h"
#include "shard/decide/decide.h"
#include "shard/plan/generate.h"

enum { LOOKS_MOST = 1000 * 1000, CLUSTERS = 200, REPEATS = 5, ROUNDS_MOST = 30 };

struct world {
    struct generate_options options;
    struct arena arena; /* for one record, reset after each */
    struct dimensions dimensions;
    struct inventory *inventory;
    struct needs *needs;
    struct decider *engine;
    struct decide_input input;
};

static double now_ms(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID) / 1e6;
}

static void put_needs(struct world *w, uint32_t cluster, uint32_t changed)
{
    struct str name;
    struct need *rows;
    size_t count;

    arena_reset(&w->arena);
    MUST(generate_needs(&w->options, cluster, &w->arena, &w->dimensions, &name, &rows, &count) ==
         ERR_OK);
    for (size_t i = 0; i < count && i < changed; i++) {
        struct resources more = rows[i].min_unit;

        resource_sum_add(&rows[i].aggregate, &more);
    }
    MUST(needs_replace(w->needs, name, rows, count, NULL) == ERR_OK);
}

static struct machine machine_number(struct world *w, uint32_t number)
{
    struct machine machine;

    arena_reset(&w->arena);
    MUST(generate_machine(&w->options, number, &w->arena, &w->dimensions, &machine) == ERR_OK);
    return machine;
}

static void world_open(struct world *w, struct generate_options options)
{
    struct inventory_options inventory = {.machines_max = options.machines, .seed = 1};
    struct needs_options needs = {.rows_max = options.needs, .seed = 1};
    struct decider_options engine = {.scratch_max = (size_t)8 << 30};

    memset(w, 0, sizeof *w);
    w->options = options;
    arena_init(&w->arena, (size_t)1 << 30);
    dimensions_init(&w->dimensions);
    needs.dimensions = engine.dimensions = &w->dimensions;
    MUST(inventory_open(&inventory, &w->inventory) == ERR_OK);
    MUST(needs_open(&needs, &w->needs) == ERR_OK);
    engine.inventory = w->inventory;
    engine.needs = w->needs;
    MUST(decider_open(&engine, &w->engine) == ERR_OK);
    decide_input_init(&w->input, (mono_time){1});
    for (uint32_t cluster = 0; cluster < options.clusters; cluster++) put_needs(w, cluster, 0);
    for (uint32_t i = 0; i < options.machines; i++) {
        struct machine machine = machine_number(w, i);

        MUST(inventory_insert(w->inventory, &machine, (mono_time){1}, NULL) == ERR_OK);
    }
}

static void world_close(struct world *w)
{
    decider_close(w->engine);
    needs_close(w->needs);
    inventory_close(w->inventory);
    dimensions_deinit(&w->dimensions);
    arena_deinit(&w->arena);
}

/* Not inlined, for callgrind: scripts/bench counts its instructions. */
__attribute__((noinline)) static const struct decision *decide_now(struct world *w, double *ret_ms)
{
    const struct decision *decision;
    double start = now_ms();

    MUST(decide(w->engine, &w->input, &decision) == ERR_OK);
    *ret_ms = now_ms() - start;
    return decision;
}

/* --- carrying out --- */

static struct machine machine_get(struct world *w, struct str id)
{
    struct inventory_entry entry;

    MUST(inventory_get(w->inventory, id, &w->arena, &entry) == ERR_OK);
    return entry.machine;
}

static void machine_put(struct world *w, const struct machine *m, enum inventory_source source)
{
    MUST(inventory_apply(w->inventory, m, source, (mono_time){2}, NULL, NULL) == ERR_OK);
}

/* Ends the machine's running action. False: it had none. */
static bool finish(struct world *w, struct machine *m)
{
    switch (m->state) {
    case MACHINE_CREATING:
    case MACHINE_DRAINING:
        m->state = MACHINE_IDLE;
        m->host_provider = STR("example");
        m->host_ref = m->id;
        m->cluster = m->destination = STR_EMPTY;
        break;
    case MACHINE_CONFIGURING: m->state = MACHINE_CONFIGURED; break;
    case MACHINE_DELETING:
        m->state = MACHINE_SPECULATIVE;
        m->host_provider = m->host_ref = STR_EMPTY;
        m->promised = (struct machine_promise){0};
        break;
    default: return false;
    }
    machine_put(w, m, INVENTORY_DRIVEN);
    return true;
}

/* A change of the inventory invalidates a decision's texts. */
static struct str own_text(struct arena *arena, struct str text)
{
    char *copy = arena_dup(arena, text);

    MUST(copy);
    return str_of(copy, text.len);
}

static void action_own(struct arena *arena, const struct action *from, struct action *to)
{
    *to = *from;
    to->machine = own_text(arena, from->machine);
    to->cluster = own_text(arena, from->cluster);
    to->key.cluster = own_text(arena, from->key.cluster);
    to->key.fingerprint = own_text(arena, from->key.fingerprint);
    to->key.group = own_text(arena, from->key.group);
}

static void begin_and_finish(struct world *w, const struct action *a)
{
    struct machine m = machine_get(w, a->machine);
    bool buys = a->kind == ACTION_BOOTSTRAP || a->kind == ACTION_PROVISION;

    m.promised = (struct machine_promise){0};
    if (buys) {
        m.stamp = (struct machine_stamp){a->priority, a->interruption_dollars,
                                         a->reclamation_dollars, a->key.fingerprint, a->key.group};
        *(a->kind == ACTION_BOOTSTRAP ? &m.cluster : &m.destination) = a->cluster;
        m.state = a->kind == ACTION_BOOTSTRAP ? MACHINE_CONFIGURING : MACHINE_CREATING;
    } else if (a->kind == ACTION_DELETE) {
        m.state = MACHINE_DELETING;
    } else {
        m.promised = (struct machine_promise){
            a->key.cluster, a->key.fingerprint, a->key.group, a->priority, {0}};
        m.state = MACHINE_DRAINING;
    }
    machine_put(w, &m, INVENTORY_DRIVEN);
    MUST(finish(w, &m));
}

static size_t carry_out(struct world *w, const struct decision *decision)
{
    size_t count = decision->action_count;
    struct action *actions = calloc(count ? count : 1, sizeof *actions);
    struct arena texts;

    MUST(actions);
    arena_init(&texts, (size_t)1 << 30);
    for (size_t i = 0; i < count; i++) action_own(&texts, &decision->actions[i], &actions[i]);
    for (size_t i = 0; i < count; i++) {
        arena_reset(&w->arena);
        begin_and_finish(w, &actions[i]);
    }
    arena_deinit(&texts);
    free(actions);
    return count;
}

/* Ends all running actions, and carries out decisions until there is no further action. */
static uint32_t come_to_rest(struct world *w)
{
    uint32_t rounds = 0;
    double ms;

    for (uint32_t i = 0; i < w->options.machines; i++) {
        struct machine m = machine_get(w, machine_number(w, i).id);
        (void)finish(w, &m);
    }
    while (rounds++ < ROUNDS_MOST) {
        if (carry_out(w, decide_now(w, &ms)) == 0) return rounds;
    }
    return 0;
}

/* --- changes --- */

/* Half of the machines change their price, which moves each to another cohort; of the others bound
 * machines are lost, and lost ones become available again. */
static void change_machine(struct world *w, struct prng *prng, bool price_only)
{
    struct str id = machine_number(w, (uint32_t)prng_below(prng, w->options.machines)).id;
    struct machine m = machine_get(w, id);

    if (price_only || prng_below(prng, 2) || m.state == MACHINE_SPECULATIVE ||
        m.state == MACHINE_IDLE) {
        m.price_per_hour += 0.001 * (double)prng_between(prng, 1, 3);
    } else if (m.state == MACHINE_FAILED) {
        m.state = MACHINE_SPECULATIVE;
        m.host_provider = m.host_ref = m.last_error = STR_EMPTY;
    } else if (m.state == MACHINE_CONFIGURED) {
        m.state = MACHINE_FAILED;
        m.last_error = STR("interrupted");
        m.cluster = STR_EMPTY;
    }
    machine_put(w, &m, INVENTORY_OBSERVED);
}

static void change_machines(struct world *w, struct prng *prng, bool price_only)
{
    for (uint32_t i = 0; i < w->options.machines / 1000; i++) change_machine(w, prng, price_only);
}

static double least_ms(uint32_t machines)
{
    enum { RECORD = 64 / sizeof(uint64_t) };
    uint64_t *records = malloc((size_t)machines * RECORD * sizeof *records), sum = 0;
    double start;

    MUST(records);
    memset(records, 1, (size_t)machines * RECORD * sizeof *records);
    start = now_ms();
    for (size_t i = 0; i < (size_t)machines * RECORD; i += RECORD)
        sum += records[i] ^ records[i + 7];
    start = now_ms() - start;
    MUST(sum != 1);
    free(records);
    return start;
}

struct budget {
    double scratch_ms, steady_ms;
};

static void line(const char *what, double ms, double least, double budget)
{
    printf("  %-34s %9.2f ms  %7.1f x one walk", what, ms, ms / least);
    if (budget > 0) printf("  budget %.0f ms %s", budget, ms <= budget ? "met" : "MISSED");
    putchar('\n');
}

static void print_fleet(struct world *w, const struct decision *decision)
{
    const struct generate_options *o = &w->options;
    struct inventory_stats stats = inventory_stats(w->inventory);

    printf("%u machines, %u needs, %u clusters, %s: %u cohorts, %zu actions, %zu verdicts\n",
           o->machines, o->needs, o->clusters, o->adversarial ? "adversarial" : "correlated",
           stats.cohorts, decision->action_count, decision->verdict_count);
    printf("  %-34s %9.0f B  budget 200 B %s (labels: %.0f B of it; a row of demand: %.0f B)\n",
           "memory a machine", (double)stats.bytes / o->machines,
           stats.bytes <= (uint64_t)200 * o->machines ? "met" : "MISSED",
           (double)stats.label_bytes / o->machines, (double)needs_stats(w->needs).bytes / o->needs);
}

static double change_and_decide(struct world *w, struct prng *prng)
{
    double ms, sum = 0;

    for (int i = 0; i < REPEATS; i++) {
        change_machines(w, prng, true);
        decide_now(w, &ms);
        sum += ms / REPEATS;
    }
    return sum;
}

static double change_one_need(struct world *w)
{
    double ms, sum = 0;

    for (uint32_t i = 0; i < REPEATS; i++) {
        put_needs(w, i, 1);
        decide_now(w, &ms);
        sum += ms / REPEATS;
    }
    return sum;
}

__attribute__((noinline)) static double change_all_needs(struct world *w)
{
    double ms;

    for (uint32_t cluster = 0; cluster < w->options.clusters; cluster++)
        put_needs(w, cluster, UINT32_MAX);
    decide_now(w, &ms);
    return ms;
}

static size_t unsatisfied(const struct decision *decision)
{
    size_t count = 0;

    for (size_t i = 0; i < decision->verdict_count; i++) count += !decision->verdicts[i].satisfied;
    return count;
}

/* Repeats: some changes, one timed decision, and its actions are carried out. */
__attribute__((noinline)) static double steady_cycles(struct world *w, struct prng *prng,
                                                      size_t *ret_actions)
{
    const struct decision *decision;
    double ms, sum = 0;

    *ret_actions = 0;
    for (int i = 0; i < REPEATS; i++) {
        change_machines(w, prng, false);
        decision = decide_now(w, &ms);
        *ret_actions += carry_out(w, decision);
        sum += ms / REPEATS;
    }
    return sum;
}

/* Coming to rest takes some thirty decisions, which is minutes with millions of adversarial
 * machines. There only the cycle without carried-out actions is measured. */
static bool comes_to_rest(const struct generate_options *options)
{
    return !options->adversarial || options->machines <= LOOKS_MOST;
}

static void bench(struct generate_options options, struct budget budget)
{
    struct world w;
    struct prng prng;
    double load = now_ms(), least = least_ms(options.machines), first, ms;
    uint32_t rounds;
    size_t actions;

    world_open(&w, options);
    load = now_ms() - load;
    prng_seed(&prng, options.seed);
    print_fleet(&w, decide_now(&w, &first));
    line("made and loaded", load, least, 0);
    line("decided from scratch", first, least, budget.scratch_ms);
    line("0.1 % changed, none carried out", change_and_decide(&w, &prng), least, 0);
    if (comes_to_rest(&options)) {
        rounds = come_to_rest(&w);
        printf("  at rest after %u rounds (0: not), %zu needs unsatisfied\n", rounds,
               unsatisfied(decide_now(&w, &ms)));
        line("nothing changed", ms, least, 0);
        ms = steady_cycles(&w, &prng, &actions);
        line("steady: 0.1 % of machines changed", ms, least, budget.steady_ms);
        printf("  %-34s %9zu\n", "actions of a steady cycle", actions / REPEATS);
        (void)come_to_rest(&w);
    }
    line("after one need changed", change_one_need(&w), least, 0);
    line("after all needs changed", change_all_needs(&w), least, 0);
    world_close(&w);
}

/* Few decisions, for a machine that counts instructions. */
static void counted(struct generate_options options, bool at_rest)
{
    struct world w;
    struct prng prng;
    size_t actions;
    double ms;

    world_open(&w, options);
    prng_seed(&prng, options.seed);
    decide_now(&w, &ms);
    if (at_rest) {
        (void)come_to_rest(&w);
        (void)steady_cycles(&w, &prng, &actions);
    }
    world_close(&w);
}

int main(int argc, char **argv)
{
    static const struct {
        uint32_t machines, needs;
        struct budget correlated, adversarial;
    } sizes[] = {
        {50 * 1000, 10 * 1000, {0, 0}, {0, 0}},
        {500 * 1000, 10 * 1000, {0, 0}, {0, 0}},
        {500 * 1000, 50 * 1000, {500, 20}, {2000, 0}},
        {5000 * 1000, 50 * 1000, {0, 0}, {0, 0}},
    };

    if (argc >= 4) {
        struct generate_options options = {.machines = (uint32_t)strtoul(argv[1], NULL, 10),
                                           .needs = (uint32_t)strtoul(argv[2], NULL, 10),
                                           .clusters = CLUSTERS,
                                           .seed = 1,
                                           .adversarial = strcmp(argv[3], "adversarial") == 0};

        if (argc == 5)
            counted(options, strcmp(argv[4], "steady") == 0);
        else
            bench(options, (struct budget){0, 0});
        return 0;
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct generate_options options = {.machines = sizes[i].machines,
                                           .needs = sizes[i].needs,
                                           .clusters = CLUSTERS,
                                           .seed = 1};

        bench(options, sizes[i].correlated);
        options.adversarial = true;
        bench(options, sizes[i].adversarial);
    }
    return 0;
}
