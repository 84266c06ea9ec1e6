/* SPDX-License-Identifier: Apache-2.0 */
/* One seeded run of a cluster of engines: loss, delay, reordering, duplicates, partitions, crashes
 * that lose or restore unsynced entries, slow disks, snapshots, member changes, deaths, hand-overs.
 * Then all faults end, and the cluster must make progress. */
#ifndef TESTS_UNIT_LOG_ENGINE_SWARM_H
#define TESTS_UNIT_LOG_ENGINE_SWARM_H
#include <stdbool.h>
#include <stdint.h>

struct swarm_counts {
    uint64_t seeds, commits, elections, crashes, installs, truncations;
    uint64_t adds, promotions, removals, moves, deaths, transfers;
};
/* True: nothing unsafe happened, and the cluster made progress. On false it prints the seed and the
 * reason. */
bool swarm_run(uint64_t seed, struct swarm_counts *counts);
#endif
