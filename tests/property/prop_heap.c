/* SPDX-License-Identifier: Apache-2.0 */
/* Random puts, moves, removals and pops of the heap against a search through all nodes. */
#include "base/heap.h"
#include "base/prng.h"
#include "lib/test.h"

enum { NODES = 300, WORLDS = 150, STEPS = 4000 };

struct oracle {
    uint64_t due, order;
    bool in;
};

static size_t oracle_first(const struct oracle *oracle)
{
    size_t first = NODES;

    for (size_t i = 0; i < NODES; i++) {
        if (!oracle[i].in) continue;
        if (first == NODES || oracle[i].due < oracle[first].due ||
            (oracle[i].due == oracle[first].due && oracle[i].order < oracle[first].order))
            first = i;
    }
    return first;
}

static void run(uint64_t seed)
{
    struct heap_node nodes[NODES] = {{0, 0, 0}};
    struct oracle oracle[NODES] = {{0, 0, false}};
    struct prng p;
    struct heap h;
    size_t count = 0, max;
    uint64_t order = 0, spread, now = 0;

    prng_seed(&p, seed);
    max = prng_between(&p, 1, NODES + 10);
    spread = prng_chance(&p, 500000) ? 5 : 1000000; /* many equal times, or almost none */
    heap_init(&h, max);
    if (prng_chance(&p, 300000)) CHECK_OK("reserve", heap_reserve(&h, prng_between(&p, 0, max)));
    for (int s = 0; s < STEPS; s++) {
        size_t i = prng_below(&p, NODES), first;
        uint64_t die = prng_below(&p, 100);
        if (die < 55) {
            uint64_t due = now + prng_below(&p, spread);
            enum err want = oracle[i].in || count < max ? ERR_OK : ERR_FULL;
            CHECK_ERR("put", heap_put(&h, &nodes[i], due), want);
            if (want == ERR_OK) {
                count += oracle[i].in ? 0 : 1;
                oracle[i] = (struct oracle){due, order++, true};
            }
        } else if (die < 70) {
            heap_remove(&h, &nodes[i]);
            count -= oracle[i].in ? 1 : 0;
            oracle[i].in = false;
        } else {
            now += prng_below(&p, spread / 4 + 1);
            first = oracle_first(oracle);
            CHECK("peek", heap_peek(&h) == (first < NODES ? &nodes[first] : NULL));
            if (first < NODES && oracle[first].due > now) first = NODES;
            CHECK("pop", heap_pop_due(&h, now) == (first < NODES ? &nodes[first] : NULL));
            if (first < NODES) {
                oracle[first].in = false;
                count--;
            }
        }
        CHECK_SIZE("count", h.count, count);
        CHECK("a node knows whether it is in", (nodes[i].place != 0) == oracle[i].in);
    }
    while (count > 0) {
        size_t first = oracle_first(oracle);
        CHECK("drains in order", heap_pop_due(&h, UINT64_MAX) == &nodes[first]);
        oracle[first].in = false;
        count--;
    }
    CHECK("empty", heap_peek(&h) == NULL);
    heap_deinit(&h);
}

TEST(the_heap_behaves_as_a_search_for_the_earliest)
{
    struct prng worlds;

    prng_seed(&worlds, test_seed());
    for (int i = 0; i < WORLDS; i++) run(prng_u64(&worlds));
}
