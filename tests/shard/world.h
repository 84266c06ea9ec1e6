/* SPDX-License-Identifier: Apache-2.0 */
/* Machines and Needs made of a few words, for tests of the shard's tables: one dimension table, one
 * inventory, one needs table, small enough to collide on everything. */
#ifndef TESTS_SHARD_WORLD_H
#define TESTS_SHARD_WORLD_H
#include "base/prng.h"
#include "shard/decide/decide.h"

struct world {
    struct arena arena; /* of everything made for it */
    struct dimensions dimensions;
    uint32_t cpu, memory;
    struct inventory *inventory;
    struct needs *needs;
    struct note note;
};
void world_open(struct world *w);
void world_close(struct world *w);

/* A machine that passes its invariant: 4 cpu, host and cluster where the state wants them. */
struct machine world_machine(struct world *w, const char *id, enum machine_state state);
/* A plain Need of `units` machines for one cluster; fingerprint from the priority alone. */
struct need world_need(struct world *w, const char *cluster, int32_t priority, int64_t units);

/* Anything: type, zone, labels, price, stamp and promise from short lists. */
struct machine random_machine(struct world *w, struct prng *p, struct str id,
                              enum machine_state state);
struct need random_need(struct world *w, struct prng *p, struct str cluster);
struct str random_cluster(struct prng *p);
struct plan random_plan(struct world *w, struct prng *p, enum planned_action action);
#endif
