/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table of structs that contain their own link, and slot numbers for them. Callers walk the
 * chain and compare. The order of a chain must never influence a decision. */
#ifndef SHARD_STATE_TABLE_H
#define SHARD_STATE_TABLE_H
#include "base/err.h"

struct table_link {
    struct table_link *next;
    uint32_t hash;
    uint32_t refs; /* for the owner's use */
};
struct table { /* zeroed: empty, without memory */
    struct table_link **buckets;
    uint32_t count, bucket_count; /* bucket_count: a power of two, or 0 */
};

/* Makes room for one more object. Call before table_add(). ERR_NOMEM only for the first object. */
enum err table_reserve(struct table *table, uint64_t *bytes);
void table_add(struct table *table, struct table_link *link, uint32_t hash);
void table_remove(struct table *table, struct table_link *link); /* the link must be in the table */
void table_deinit(struct table *table, uint64_t *bytes);         /* does not touch the objects */

static inline struct table_link *table_chain(const struct table *table, uint32_t hash)
{
    return table->bucket_count ? table->buckets[hash & (table->bucket_count - 1)] : NULL;
}
#define TABLE_EACH(table, wanted_hash, link)                                                       \
    for (struct table_link *link = table_chain((table), (wanted_hash)); link; link = link->next)   \
        if (link->hash == (wanted_hash))

/* Slots are array indexes below `used`. Slots are reused. */
struct slot_map {                   /* zeroed: empty */
    void **at;                      /* free slots form a chain, see slot_map_get() */
    uint32_t used, cap, first_free; /* first_free: first free slot + 1; 0: none */
};
/* NULL: the slot is free (odd value). */
static inline void *slot_map_get(const struct slot_map *map, uint32_t slot)
{
    return (uintptr_t)map->at[slot] & 1 ? NULL : map->at[slot];
}
/* The caller holds a reference to the object, so the slot is not free. */
static inline void *slot_map_held(const struct slot_map *map, uint32_t slot)
{
    assert(slot < map->used && !((uintptr_t)map->at[slot] & 1));
    return map->at[slot];
}
enum err slot_map_take(struct slot_map *map, void *object, uint32_t *ret_slot, uint64_t *bytes);
void slot_map_give(struct slot_map *map, uint32_t slot);
void slot_map_deinit(struct slot_map *map, uint64_t *bytes);

/* Makes room for one more item. The array doubles. */
enum err array_reserve(void *items_pointer, uint32_t count, uint32_t *cap, size_t size,
                       uint64_t *bytes);
/* Makes room for `count` items. The array doubles. */
enum err array_room(void *items_pointer, uint32_t count, uint32_t *cap, size_t size,
                    uint64_t *bytes);
void array_free(void *items, uint32_t cap, size_t size, uint64_t *bytes);
#endif
