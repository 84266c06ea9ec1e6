/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one world per seed: draws faults, applies them, heals the world, requires progress.
 *
 * There are two phases. In the first, faults happen, and safe() is asked after every event. Then
 * everything is healed (links, disks, clock rates, processes restarted), and done() must become
 * true within heal_ms. The seed decides which faults there are, and how strong, within a mild or a
 * harsh profile. Some are off entirely, because a frequent fault can hide the bug that another one
 * shows.
 *
 * A scenario brings its own hosts, workload and checker. A process that dies is started again, by
 * the fault that killed it or by the supervisor, as a service manager does. */
#ifndef TESTS_SIM_SCENARIO_H
#define TESTS_SIM_SCENARIO_H
#include "base/buf.h"
#include "sim/sim.h"
#include "sim/sim_link.h"

enum scenario_profile { SCENARIO_MILD, SCENARIO_HARSH };

/* How often a fault strikes (mean; 0: never) and how long it lasts at most. */
struct scenario_rate {
    uint64_t every_ms, lasts_ms_max;
};

enum scenario_strike {
    SCENARIO_POWER_CUT, /* at once, or at one of the next disk calls */
    SCENARIO_KILL,
    SCENARIO_PAUSE,     /* of the process or the machine */
    SCENARIO_PARTITION, /* some hosts from the rest, both ways or one */
    SCENARIO_CLOG,
    SCENARIO_DISK_FULL,
    SCENARIO_CLOCK_STEP,
    SCENARIO_STRIKE_COUNT
};
struct scenario_faults {
    struct sim_link_faults link;
    struct sim_fs_options disk;
    struct scenario_rate strikes[SCENARIO_STRIKE_COUNT];
    uint32_t down_max;     /* nodes that faults keep without a process at once */
    int32_t clock_ppm_max; /* each node's rate is drawn up to this, either way */
    int64_t clock_step_ms_max;
    bool one_way; /* partitions may be */
};
void scenario_faults_draw(struct prng *prng, enum scenario_profile profile,
                          struct scenario_faults *ret_faults);
void scenario_faults_text(const struct scenario_faults *faults, struct buf *into);

/* The interface for a running scenario. */
struct scenario_world;
struct sim *scenario_sim(struct scenario_world *world);
uint32_t scenario_bug(const struct scenario_world *world);
/* Generator for the scenario's workload, independent of the faults. */
struct prng *scenario_prng(struct scenario_world *world);
enum scenario_may {
    SCENARIO_MAY_DIE = BIT(0),
    SCENARIO_MAY_PAUSE = BIT(1),
    SCENARIO_MAY_FILL = BIT(2), /* it uses its disk, which may be full or lose power at a call */
};
enum { SCENARIO_NODES_MAX = 16 };
/* Adds a host with the seed's disk and clock and starts its process. ERR_FULL, or the error of
 * start(). */
enum err scenario_add_node(struct scenario_world *world, const char *name,
                           const struct sim_process_ops *ops, void *context, uint32_t may,
                           struct sim_host **ret_host);

struct scenario {
    const char *name, *about;
    uint64_t faults_ms;      /* length of the first phase */
    uint64_t faults_ms_min;  /* not 0: the length is drawn from here to faults_ms */
    uint64_t heal_ms;        /* within which done() must come true */
    const char *const *bugs; /* names of planted bugs from 1 on, ending with NULL; or NULL */
    enum err (*open)(struct scenario_world *world, void **ret_state);
    bool (*safe)(void *state, struct note *why); /* false with a reason: an invariant is broken */
    bool (*done)(void *state);
    void (*close)(void *state); /* after every process was destroyed */
};
struct scenario_table {
    const struct scenario *const *items;
    size_t count;
};
const struct scenario *scenario_find(struct scenario_table table, const char *name); /* or NULL */
uint32_t scenario_bug_number(const struct scenario *scenario, const char *name); /* 0: none such */

enum scenario_end { SCENARIO_PASSED, SCENARIO_BROKEN, SCENARIO_UNSAFE, SCENARIO_STUCK };
/* Exit codes of a runner; a crash has SCENARIO_EXIT_CRASH, set by the runner's own handler. */
enum {
    SCENARIO_EXIT_PASSED = 0,
    SCENARIO_EXIT_BROKEN = 1, /* could not be set up */
    SCENARIO_EXIT_CRASH = 20,
    SCENARIO_EXIT_UNSAFE = 21,
    SCENARIO_EXIT_STUCK = 22,
};
int scenario_exit_code(enum scenario_end end);
const char *scenario_end_text(enum scenario_end end);

struct scenario_options {
    uint64_t seed;
    enum scenario_profile profile;
    uint32_t bug; /* planted; 0: none */
    void (*trace)(void *context, sim_time now, const char *host, const char *text); /* or NULL */
    void *trace_context;
};
struct scenario_result {
    enum scenario_end end;
    struct note why; /* empty when passed */
    struct scenario_faults faults;
    uint64_t hash, events, virtual_ms;
    uint32_t deaths, pauses, partitions;
};
/* ERR_NOMEM only; everything else is in the result. */
enum err scenario_run(const struct scenario *scenario, const struct scenario_options *options,
                      struct scenario_result *ret_result);
/* "scenario=register seed=7 profile=harsh bug=none commit=... : no progress: why; faults: ..." */
void scenario_report(const struct scenario *scenario, const struct scenario_options *options,
                     const struct scenario_result *result, const char *commit, struct buf *into);
#endif
