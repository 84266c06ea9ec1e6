/* SPDX-License-Identifier: Apache-2.0 */
/* Generates realistic fleets of any size, for `muster plan --generate` and benchmarks. The same
 * seed gives the same fleet. Pure: machine `i` and the rows of cluster `c` depend only on the seed
 * and their number.
 *
 *   correlated   a dozen types in six zones; most machines of a row bought in bulk in one place
 *   adversarial  every machine has its own labels and price, so no two machines are equal
 *
 * Three in four machines are Configured and stamped for a row they match. The other machines are
 * Idle, Speculative, transitional or Failed. One row in twenty is a gang; one in ten has a strict
 * spread. */
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

/* All clusters together have options->needs rows. ERR_NOMEM, ERR_FULL (too many dimensions). */
enum err generate_needs(const struct generate_options *options, uint32_t cluster,
                        struct arena *arena, struct dimensions *dimensions, struct str *ret_cluster,
                        struct need **ret_rows, size_t *ret_count);
/* Texts and lists are in the arena. ERR_NOMEM, ERR_FULL. */
enum err generate_machine(const struct generate_options *options, uint32_t number,
                          struct arena *arena, struct dimensions *dimensions,
                          struct machine *ret_machine);
#endif
