/* SPDX-License-Identifier: Apache-2.0 */
/* One seeded life of a cluster of engines: loss, delay, reordering, duplicates, partitions, crashes
 * that lose or bring back what was not synced, slow disks, snapshots, members that come, rise,
 * move, go and die, hand-overs; then everything heals, and it must make progress. */
#ifndef TESTS_UNIT_LOG_ENGINE_SWARM_H
#define TESTS_UNIT_LOG_ENGINE_SWARM_H
#include <stdbool.h>
#include <stdint.h>

struct swarm_counts {
    uint64_t seeds, commits, elections, crashes, installs, truncations;
    uint64_t adds, promotions, removals, moves, deaths, transfers;
};
/* True: nothing unsafe happened and it made progress. Prints the seed and why when not. */
bool swarm_run(uint64_t seed, struct swarm_counts *counts);
#endif
