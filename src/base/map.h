/* SPDX-License-Identifier: Apache-2.0 */
/* A hash map from bytes to a pointer that remembers insertion order.
 *
 * Iteration order is the order of insertion, so that nothing replicated ever depends on a hash.
 * Keys and values are borrowed: usually the value's struct holds the key. The seed is the caller's;
 * give a random one to a table whose keys come from outside, a fixed one where runs must repeat. */
#ifndef BASE_MAP_H
#define BASE_MAP_H
#include "base/str.h"

struct map_entry {
    uint64_t hash;
    struct str key;
    void *value; /* NULL: removed */
};
struct map {
    struct map_entry *entries; /* by insertion, with holes until the next rebuild */
    uint32_t *slots;           /* index into entries + 1; 0 is empty */
    size_t count, used, cap, slot_count, max;
    uint64_t seed;
};

/* Takes no memory yet. `max` counts entries; past MAP_MOST it is MAP_MOST. */
#define MAP_MOST ((size_t)1 << 28)
void map_init(struct map *m, size_t max, uint64_t seed);
void map_deinit(struct map *m);                     /* frees no key and no value */
void *map_get(const struct map *m, struct str key); /* NULL when absent */
/* value must not be NULL. ERR_EXISTS leaves the old value; ERR_FULL at max; ERR_NOMEM. */
enum err map_put(struct map *m, struct str key, void *value);
/* The value under `key`, or a new one: `size` bytes, zeroed, with a copy of the key behind them. NULL:
 * no memory, or full. free() it after map_remove, or all by map_free. */
void *map_make(struct map *m, struct str key, size_t size);
void map_free(struct map *m);                    /* map_deinit, and free() for each value */
void *map_remove(struct map *m, struct str key); /* the value, or NULL */
size_t map_count(const struct map *m);
/* Walks in insertion order: start with *cursor 0, NULL at the end. Removing the current entry
 * during the walk is allowed, inserting is not. */
struct map_entry *map_next(const struct map *m, size_t *cursor);
#endif
