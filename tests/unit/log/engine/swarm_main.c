/* SPDX-License-Identifier: Apache-2.0 */
/* Runs many seeds: swarm [FIRST [COUNT [MUTANT]]]. Exit 1 when one was not sound. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutants/mutant.h"
#include "swarm.h"

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 100;
    struct swarm_counts c = {0};
    uint64_t bad = 0;

    for (int m = 1; argc > 3 && m < MUTANT_COUNT; m++)
        if (strcmp(mutant_name((enum mutant)m), argv[3]) == 0) log_mutant = (enum mutant)m;
    if (argc > 3 && !log_mutant) {
        fprintf(stderr, "%s: no such mutant\n", argv[3]);
        return 2;
    }
    for (uint64_t seed = first; seed < first + count; seed++)
        if (!swarm_run(seed, &c)) bad++;
    printf("%llu seeds, %llu bad; %llu commits, %llu elections, %llu crashes, %llu installs, "
           "%llu truncations, %llu added, %llu promoted, %llu removed, %llu moved, %llu died, "
           "%llu hand-overs\n",
           (unsigned long long)c.seeds, (unsigned long long)bad, (unsigned long long)c.commits,
           (unsigned long long)c.elections, (unsigned long long)c.crashes,
           (unsigned long long)c.installs, (unsigned long long)c.truncations,
           (unsigned long long)c.adds, (unsigned long long)c.promotions,
           (unsigned long long)c.removals, (unsigned long long)c.moves,
           (unsigned long long)c.deaths, (unsigned long long)c.transfers);
    return bad != 0;
}
