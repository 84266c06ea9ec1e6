/* SPDX-License-Identifier: Apache-2.0 */
/* Realistic fleets: so many machines and rows of demand, the same from one seed.
 *
 * For `muster plan --generate`, the bench and trying the engine at a size that is not at
 * hand. Two kinds. *Correlated*: a dozen types in six zones, most machines of a row bought in bulk
 * in one place, racks only where gangs need them; what a cloud account looks like. *Adversarial*:
 * every machine has labels and a price of its own and rows ask for odd combinations, so that no two
 * machines are alike and nothing can be shared.
 *
 * Three in four machines are Configured and stamped for a row they match; the rest are Idle, quota,
 * in between or Failed. Three rows in a hundred want more than they have and as many less; one row
 * in twenty is a gang, one in ten has a strict spread. Pure: machine `i` and the rows of cluster
 * `c` depend on the seed and their number only: they can be made one at a time, in any order. */
#ifndef SHARD_PLAN_GENERATE_H
#define SHARD_PLAN_GENERATE_H
#include "base/arena.h"
#include "model/machine.h"
#include "model/need.h"

struct generate_options {
    uint32_t machines, needs, clusters; /* clusters >= 1 */
    uint64_t seed;
    bool adversarial;
};

/* The rows of cluster number `cluster`, in the arena; together they are options->needs rows.
 * ERR_NOMEM, ERR_FULL of the table. */
enum err generate_needs(const struct generate_options *options, uint32_t cluster,
                        struct arena *arena, struct dimensions *dimensions, struct str *ret_cluster,
                        struct need **ret_rows, size_t *ret_count);
/* Machine number `number`; what it points to is in the arena. ERR_NOMEM, ERR_FULL. */
enum err generate_machine(const struct generate_options *options, uint32_t number,
                          struct arena *arena, struct dimensions *dimensions,
                          struct machine *ret_machine);
#endif
