/* SPDX-License-Identifier: Apache-2.0 */
/* A hash map from bytes to pointers that remembers the order of insertion.
 *
 * Iteration follows the order of insertion, so that replicated state never depends on a hash. Keys
 * and values are borrowed; usually the value's struct contains the key. The caller chooses the
 * seed: random if keys come from outside, fixed if runs must be repeatable. */
#ifndef BASE_MAP_H
#define BASE_MAP_H
#include "base/str.h"

struct map_entry {
    uint64_t hash;
    struct str key;
    void *value; /* NULL: the entry was removed */
};
struct map {
    struct map_entry *entries; /* in order of insertion, with holes until the next rebuild */
    uint32_t *slots;           /* index into entries plus 1; 0: an empty slot */
    size_t count, used, cap, slot_count, max;
    uint64_t seed;
};

/* Allocates nothing. `max` limits the number of entries; it is capped at MAP_MOST. */
#define MAP_MOST ((size_t)1 << 28)
void map_init(struct map *m, size_t max, uint64_t seed);
void map_deinit(struct map *m);                     /* frees no keys and no values */
void *map_get(const struct map *m, struct str key); /* NULL if the key is absent */
/* Adds a value, which must not be NULL. Returns ERR_EXISTS and keeps the old value if the key
 * exists, ERR_FULL if the map is full, or ERR_NOMEM. */
enum err map_put(struct map *m, struct str key, void *value);
/* Returns the value under `key`, or adds a new value: `size` zeroed bytes and a copy of the key.
 * Returns NULL if memory ran out or the map is full. Free a value with free() after map_remove(),
 * or all values with map_free(). */
void *map_make(struct map *m, struct str key, size_t size);
void map_free(struct map *m);                    /* map_deinit(), and free() for each value */
void *map_remove(struct map *m, struct str key); /* returns the value, or NULL */
size_t map_count(const struct map *m);
/* Walks in insertion order. Start with *cursor 0; returns NULL at the end. During the walk the
 * current entry may be removed, but nothing may be inserted. */
struct map_entry *map_next(const struct map *m, size_t *cursor);
#endif
