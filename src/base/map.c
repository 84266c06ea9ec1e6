/* SPDX-License-Identifier: Apache-2.0 */
/* The insertion-ordered hash map: entries in an array, and an open-addressing index over it. */
#include "base/map.h"

#include <stdlib.h>
#include <string.h>

/* `entries` is in order of insertion. A removed entry becomes a hole (value NULL).
 *
 * `slots` is an index over `entries`, with open addressing and linear probing. The slot of a hole
 * stays, so that probes continue behind the slot. At least half of the slots are empty, so every
 * probe ends.
 *
 * When `entries` is full, the holes are removed if they are more than half of the entries.
 * Otherwise both arrays double, even beyond `max`. So an insertion takes constant time on
 * average. */
enum {
    SLOTS_PER_ENTRY = 2,
    MAP_CAP_FIRST = 8,
};
static_assert(MAP_MOST * 4 <= UINT32_MAX, "a slot numbers an entry, also after the last doubling");

void map_init(struct map *m, size_t max, uint64_t seed)
{
    *m = (struct map){.max = min_size(max, MAP_MOST), .seed = seed};
}

void map_deinit(struct map *m)
{
    free(m->entries);
    free(m->slots);
    m->entries = NULL;
    m->slots = NULL;
    m->count = m->used = m->cap = m->slot_count = 0;
}

size_t map_count(const struct map *m)
{
    return m->count;
}

static struct map_entry *find(const struct map *m, struct str key, uint64_t hash)
{
    size_t mask = m->slot_count - 1;

    if (m->count == 0) return NULL;
    for (size_t i = hash & mask; m->slots[i] != 0; i = (i + 1) & mask) {
        struct map_entry *entry = &m->entries[m->slots[i] - 1];
        if (entry->hash == hash && entry->value && str_equal(entry->key, key)) return entry;
    }
    return NULL;
}

static void index_entry(struct map *m, size_t index)
{
    size_t mask = m->slot_count - 1;
    size_t i = m->entries[index].hash & mask;

    assert(index < m->cap);
    while (m->slots[i] != 0) i = (i + 1) & mask;
    m->slots[i] = (uint32_t)(index + 1);
}

/* `to` may be m->entries. */
static void squeeze(struct map *m, struct map_entry *to)
{
    size_t kept = 0;

    for (size_t i = 0; i < m->used; i++)
        if (m->entries[i].value) to[kept++] = m->entries[i];
    assert(kept == m->count);
    m->entries = to;
    m->used = kept;
    for (size_t i = 0; i < kept; i++) index_entry(m, i);
}

static enum err map_grow(struct map *m)
{
    size_t cap = max_size(m->cap * 2, MAP_CAP_FIRST);
    struct map_entry *old = m->entries, *entries = malloc(cap * sizeof *entries);
    uint32_t *slots = calloc(cap * SLOTS_PER_ENTRY, sizeof *slots);

    if (!entries || !slots) {
        free(entries);
        free(slots);
        return ERR_NOMEM;
    }
    free(m->slots);
    m->slots = slots;
    m->cap = cap;
    m->slot_count = cap * SLOTS_PER_ENTRY;
    squeeze(m, entries);
    free(old);
    return ERR_OK;
}

static enum err make_room(struct map *m)
{
    if (m->used < m->cap) return ERR_OK;
    if (m->count >= m->cap / 2) return map_grow(m);
    memset(m->slots, 0, m->slot_count * sizeof *m->slots);
    squeeze(m, m->entries);
    return ERR_OK;
}

void *map_get(const struct map *m, struct str key)
{
    struct map_entry *entry = m->count > 0 ? find(m, key, str_hash(key, m->seed)) : NULL;

    return entry ? entry->value : NULL;
}

enum err map_put(struct map *m, struct str key, void *value)
{
    uint64_t hash = str_hash(key, m->seed);
    enum err err;

    assert(value);
    if (find(m, key, hash)) return ERR_EXISTS;
    if (m->count >= m->max) return ERR_FULL;
    err = make_room(m);
    if (err) return err;
    m->entries[m->used] = (struct map_entry){hash, key, value};
    index_entry(m, m->used++);
    m->count++;
    return ERR_OK;
}

void *map_remove(struct map *m, struct str key)
{
    struct map_entry *entry = m->count > 0 ? find(m, key, str_hash(key, m->seed)) : NULL;
    void *value;

    if (!entry) return NULL;
    value = entry->value;
    entry->value = NULL; /* the key is never read again: the caller may free the key */
    m->count--;
    return value;
}

struct map_entry *map_next(const struct map *m, size_t *cursor)
{
    while (*cursor < m->used) {
        struct map_entry *entry = &m->entries[(*cursor)++];
        if (entry->value) return entry;
    }
    return NULL;
}

void *map_make(struct map *m, struct str key, size_t size)
{
    char *value = map_get(m, key);

    if (value) return value;
    value = calloc(1, size + key.len);
    if (!value) return NULL;
    if (key.len > 0) memcpy(value + size, key.at, key.len);
    if (!map_put(m, str_of(value + size, key.len), value)) return value;
    free(value);
    return NULL;
}

void map_free(struct map *m)
{
    struct map_entry *entry;

    for (size_t cursor = 0; (entry = map_next(m, &cursor));) free(entry->value);
    map_deinit(m);
}
