/* SPDX-License-Identifier: Apache-2.0 */
/* A fleet that lives: cycles of ten seconds, the real inventory, needs table, engine, rails and
 * parking, and a provider made of delays and mishaps. The clock is a number, everything is drawn
 * from a seed.
 *
 * A shard in small: each cycle finishes what is due at the provider, decides, passes the rails and
 * starts every action at once. What a provider does late, twice or never is set per fleet. */
#ifndef TESTS_DECIDE_LOOP_H
#define TESTS_DECIDE_LOOP_H
#include "base/prng.h"
#include "shard/decide/ledger.h"
#include "shard/decide/parking.h"
#include "shard/decide/rails.h"

enum { LOOP_CYCLE_MS = 10 * 1000, LOOP_MACHINES_MAX = 4096, LOOP_KINDS = 5 };

struct loop_provider {
    uint64_t create_ms, configure_ms, delete_ms;
    uint64_t drain_min_ms, drain_max_ms; /* drawn evenly between */
    uint32_t fail_per_million;           /* an action ends in Failed; the host is given up */
    uint32_t lost_per_million;           /* its reply is lost: seen three cycles late */
};
struct loop_machine {
    char id[24];
    uint64_t due_ms; /* when what is under way ends; UINT64_MAX: nothing is */
    bool will_fail;
};
struct loop {
    struct arena arena; /* profiles, rows: all of the fleet's life */
    struct dimensions dimensions;
    struct inventory *inventory;
    struct needs *needs;
    struct decider *engine;
    struct parking *parking;
    struct ledger *ledger;
    struct prng prng;
    struct loop_provider provider;
    struct rails_options rails;
    struct loop_machine machines[LOOP_MACHINES_MAX];
    size_t machine_count;
    uint64_t now_ms, cycles;
    size_t actions[LOOP_KINDS];      /* since the beginning, by enum action_kind */
    size_t last_actions;             /* of the last cycle */
    const struct decision *decision; /* of the last cycle */
};

void loop_open(struct loop *loop, uint64_t seed, struct loop_provider provider);
void loop_close(struct loop *loop);

/* Adds `count` machines like `like` (id, host and texts are filled in), id prefix-0000 and up. */
void loop_machines(struct loop *loop, const char *prefix, size_t count, struct machine like);
/* A shape: "cpu" and "gpu" in whole units, 0 for none. */
struct resources loop_size(struct loop *loop, uint32_t cpu, uint32_t gpu);

struct loop_need { /* one row, said in few words */
    const char *type, *same, *group;
    const char *spread; /* strictly, by one */
    int32_t priority;
    uint8_t interruption_bucket;
    uint32_t units, cpu, gpu; /* of one unit */
};
void loop_demand(struct loop *loop, const char *cluster, const struct loop_need *needs,
                 size_t count);

/* The shard dies and begins anew: what it knows is what a List carries (wire.md 8), no demand has
 * come in yet, every age is forgotten. What the provider has under way goes on. */
void loop_restart(struct loop *loop);

void loop_cycle(struct loop *loop);
void loop_run(struct loop *loop, size_t cycles);
/* Cycles until one had no action and nothing was under way; SIZE_MAX after `most`. */
size_t loop_settle(struct loop *loop, size_t most);

/* The provider says that this machine is gone: Failed now, quota again when looked at later. */
void loop_lose(struct loop *loop, const char *id);
/* The machine as it is; its texts are in the loop's arena. */
struct machine loop_machine(struct loop *loop, const char *id);
size_t loop_count(const struct loop *loop, enum machine_state state);
size_t loop_actions(const struct loop *loop);                    /* all, since the beginning */
size_t loop_bound(const struct loop *loop, const char *cluster); /* Configured there */
size_t loop_unsatisfied(const struct loop *loop);
#endif
