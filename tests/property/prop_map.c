/* SPDX-License-Identifier: Apache-2.0 */
/* Random puts, gets, removals and walks of the map against a plain array in order of insertion. */
#include <string.h>

#include "base/map.h"
#include "base/prng.h"
#include "lib/test.h"

enum { KEYS = 400, WORLDS = 200, STEPS = 3000 };

struct world {
    struct map map;
    struct prng prng;
    char keys[KEYS][12]; /* key i has the value keys[i] */
    size_t key_lens[KEYS];
    size_t order[KEYS], count; /* the oracle: indexes of keys, oldest first */
    size_t max;
};

static struct str key(const struct world *w, size_t i)
{
    return str_of(w->keys[i], w->key_lens[i]);
}

/* The empty key, and keys of random bytes behind two that make them different. */
static void world_init(struct world *w, uint64_t seed)
{
    prng_seed(&w->prng, seed);
    for (size_t i = 0; i < KEYS; i++) {
        w->key_lens[i] = prng_between(&w->prng, 2, sizeof w->keys[i]);
        prng_fill(&w->prng, w->keys[i], w->key_lens[i]);
        w->keys[i][0] = (char)(i & 255);
        w->keys[i][1] = (char)(i >> 8);
    }
    w->key_lens[0] = 0;
    w->count = 0;
    w->max = prng_between(&w->prng, 1, KEYS + 50);
    map_init(&w->map, w->max, prng_u64(&w->prng));
}

static size_t oracle_find(const struct world *w, size_t k)
{
    size_t at = 0;

    while (at < w->count && w->order[at] != k) at++;
    return at;
}

static void oracle_remove(struct world *w, size_t at)
{
    w->count--;
    memmove(&w->order[at], &w->order[at + 1], (w->count - at) * sizeof w->order[0]);
}

static void put(struct world *w, size_t k)
{
    bool in = oracle_find(w, k) < w->count;
    enum err want = in ? ERR_EXISTS : w->count == w->max ? ERR_FULL : ERR_OK;

    CHECK_ERR("put", map_put(&w->map, key(w, k), w->keys[k]), want);
    if (want == ERR_OK) w->order[w->count++] = k;
}

static void take_out(struct world *w, size_t k)
{
    size_t at = oracle_find(w, k);

    CHECK("removal answers the value",
          map_remove(&w->map, key(w, k)) == (at < w->count ? w->keys[k] : NULL));
    if (at < w->count) oracle_remove(w, at);
}

/* Walks all entries and removes each with the given chance. */
static void walk(struct world *w, uint32_t per_million)
{
    size_t cursor = 0, at = 0;
    struct map_entry *entry;

    while ((entry = map_next(&w->map, &cursor))) {
        CHECK("the walk is not longer", at < w->count);
        size_t k = w->order[at];
        CHECK("in order of insertion", entry->value == w->keys[k]);
        CHECK_STR("with its key", entry->key, key(w, k));
        if (prng_chance(&w->prng, per_million)) {
            CHECK("removed", map_remove(&w->map, entry->key) == w->keys[k]);
            oracle_remove(w, at);
        } else
            at++;
    }
    CHECK_SIZE("the walk is not shorter", at, w->count);
}

static void step(struct world *w, uint64_t removals)
{
    size_t k = prng_below(&w->prng, KEYS);
    uint64_t die = prng_below(&w->prng, 1000);

    if (die < 2)
        walk(w, 300000);
    else if (die < 10)
        walk(w, 0);
    else if (die < 300) {
        void *want = oracle_find(w, k) < w->count ? w->keys[k] : NULL;
        CHECK("get", map_get(&w->map, key(w, k)) == want);
    } else if (die < 300 + removals)
        take_out(w, k);
    else
        put(w, k);
    CHECK_SIZE("count", map_count(&w->map), w->count);
    CHECK("memory in proportion", w->map.cap <= 8 || w->map.cap <= 4 * w->max);
}

TEST(the_map_behaves_as_an_ordered_array)
{
    struct prng worlds;
    static struct world w;

    prng_seed(&worlds, test_seed());
    for (int i = 0; i < WORLDS; i++) {
        uint64_t seed = prng_u64(&worlds);
        world_init(&w, seed);
        for (int s = 0; s < STEPS; s++) {
            uint64_t removals =
                s / 500 % 2 ? 500 : 200; /* phases that grow and phases that shrink */
            step(&w, removals);
        }
        walk(&w, 0);
        walk(&w, 1000000);
        CHECK_SIZE("emptied by a walk", map_count(&w.map), 0);
        map_deinit(&w.map);
    }
}
