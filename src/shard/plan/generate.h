/* SPDX-License-Identifier: Apache-2.0 */
/* Generates realistic fleets of any size; the same seed gives the same fleet.
 *
 * Used by `muster plan --generate`, by benchmarks, and for trying the engine at sizes that no test
 * fleet has. There are two kinds of fleet. *Correlated*: a dozen types in six zones, most machines
 * of a row bought in bulk in one place, racks only where gangs need them, like a cloud account.
 * *Adversarial*: every machine has its own labels and price, and rows ask for unusual combinations,
 * so that no two machines are equal and nothing can be shared.
 *
 * Three in four machines are Configured and stamped for a row they match. The rest are Idle,
 * Speculative, in transition or Failed. Three percent of the rows want more than they have, and
 * three percent less. One row in twenty is a gang; one in ten has a strict spread. Pure: machine
 * `i` and the rows of cluster `c` depend only on the seed and their number, so they can be
 * generated one at a time, in any order. */
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

/* Generates the rows of cluster number `cluster` in the arena. All clusters together have
 * options->needs rows. ERR_NOMEM, ERR_FULL (too many dimensions). */
enum err generate_needs(const struct generate_options *options, uint32_t cluster,
                        struct arena *arena, struct dimensions *dimensions, struct str *ret_cluster,
                        struct need **ret_rows, size_t *ret_count);
/* Generates machine number `number`; its texts and lists are in the arena. ERR_NOMEM, ERR_FULL. */
enum err generate_machine(const struct generate_options *options, uint32_t number,
                          struct arena *arena, struct dimensions *dimensions,
                          struct machine *ret_machine);
#endif
