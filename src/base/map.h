/* SPDX-License-Identifier: Apache-2.0 */
/* A hash map from bytes to pointers. Iteration is in the order of insertion, never in the order of
 * hashes, because replicated state must be the same everywhere.
 *
 * Keys and values are borrowed: usually the value's struct contains the key. The seed is random if
 * keys come from outside, and fixed if runs must be repeatable. */
#ifndef BASE_MAP_H
#define BASE_MAP_H
#include "base/str.h"

struct map_entry {
    uint64_t hash;
    struct str key;
    void *value; /* NULL: the entry was removed */
};
struct map {
    struct map_entry *entries; /* in order of insertion; removed entries stay as holes */
    uint32_t *slots;           /* index into entries plus 1; 0: empty */
    size_t count, used, cap, slot_count, max;
    uint64_t seed;
};

/* `max` is limited to MAP_MOST. */
#define MAP_MOST ((size_t)1 << 28)
void map_init(struct map *m, size_t max, uint64_t seed);
void map_deinit(struct map *m);                     /* frees no keys and no values */
void *map_get(const struct map *m, struct str key); /* NULL if the key is absent */
/* The value must not be NULL. ERR_EXISTS keeps the old value. ERR_FULL, ERR_NOMEM. */
enum err map_put(struct map *m, struct str key, void *value);
/* Returns the value under `key`, or adds `size` zeroed bytes under a copy of the key. NULL if the
 * map is full or memory runs out. Free a value with free() after map_remove(), or all with
 * map_free(). */
void *map_make(struct map *m, struct str key, size_t size);
void map_free(struct map *m);                    /* map_deinit(), and free() for each value */
void *map_remove(struct map *m, struct str key); /* returns the value, or NULL */
size_t map_count(const struct map *m);
/* Walks in order of insertion. Start with *cursor 0; returns NULL at the end. The walk may remove
 * the current entry, but must not insert. */
struct map_entry *map_next(const struct map *m, size_t *cursor);
#endif
