/* SPDX-License-Identifier: Apache-2.0 */
/* Hash tables of linked structs, slot numbers, and growing arrays. The caller's counter counts
 * their memory. */
#include "shard/state/table.h"

#include <string.h>

#include "base/memory.h"

enum { BUCKETS_FIRST = 16, BUCKETS_MOST = 1 << 27, ARRAY_FIRST = 1 };

static enum err table_resize(struct table *table, uint32_t bucket_count, uint64_t *bytes)
{
    struct table_link **buckets = memory_take(bytes, bucket_count * sizeof(struct table_link *));

    if (!buckets) return ERR_NOMEM;
    memset(buckets, 0, bucket_count * sizeof(struct table_link *));
    for (uint32_t i = 0; table->buckets && i < table->bucket_count; i++) {
        for (struct table_link *link = table->buckets[i], *next; link; link = next) {
            struct table_link **to = &buckets[link->hash & (bucket_count - 1)];
            next = link->next;
            link->next = *to;
            *to = link;
        }
    }
    if (table->buckets) {
        memory_give(bytes, table->buckets, table->bucket_count * sizeof(struct table_link *));
    }
    table->buckets = buckets;
    table->bucket_count = bucket_count;
    return ERR_OK;
}

enum err table_reserve(struct table *table, uint64_t *bytes)
{
    if (!table->buckets) return table_resize(table, BUCKETS_FIRST, bytes);
    if (table->count >= table->bucket_count && table->bucket_count < BUCKETS_MOST) {
        /* if memory runs out, the table stays correct and gets slower */
        (void)table_resize(table, table->bucket_count * 2, bytes);
    }
    return ERR_OK;
}

void table_add(struct table *table, struct table_link *link, uint32_t hash)
{
    struct table_link **bucket;

    assert(table->buckets); /* table_reserve() was called */
    bucket = &table->buckets[hash & (table->bucket_count - 1)];
    link->hash = hash;
    link->next = *bucket;
    *bucket = link;
    table->count++;
}

void table_remove(struct table *table, struct table_link *link)
{
    struct table_link **at = &table->buckets[link->hash & (table->bucket_count - 1)];

    while (*at != link) {
        assert(*at); /* the link must be in the table */
        at = &(*at)->next;
    }
    *at = link->next;
    link->next = NULL;
    table->count--;
}

void table_deinit(struct table *table, uint64_t *bytes)
{
    if (table->buckets) {
        memory_give(bytes, table->buckets, table->bucket_count * sizeof(struct table_link *));
    }
    *table = (struct table){0};
}

enum err array_room(void *items_pointer, uint32_t count, uint32_t *cap, size_t size,
                    uint64_t *bytes)
{
    uint32_t more = *cap ? *cap : ARRAY_FIRST;
    void *items, *old;

    if (count <= *cap) return ERR_OK;
    assert(count <= UINT32_MAX / 2);
    while (more < count) more *= 2;
    items = memory_take(bytes, more * size);
    if (!items) return ERR_NOMEM;
    memcpy(&old, items_pointer, sizeof old);
    if (old) memcpy(items, old, *cap * size);
    array_free(old, *cap, size, bytes);
    memcpy(items_pointer, &items, sizeof items);
    *cap = more;
    return ERR_OK;
}

enum err array_reserve(void *items_pointer, uint32_t count, uint32_t *cap, size_t size,
                       uint64_t *bytes)
{
    return array_room(items_pointer, count + 1, cap, size, bytes);
}

void array_free(void *items, uint32_t cap, size_t size, uint64_t *bytes)
{
    if (items) memory_give(bytes, items, cap * size);
}

enum err slot_map_take(struct slot_map *map, void *object, uint32_t *ret_slot, uint64_t *bytes)
{
    uint32_t slot = map->first_free;
    enum err err;

    if (slot) { /* a free slot contains the number of the next free slot, as an odd value */
        slot--;
        map->first_free = (uint32_t)((uintptr_t)map->at[slot] >> 1);
    } else {
        err = array_reserve(&map->at, map->used, &map->cap, sizeof *map->at, bytes);
        if (err) return err;
        slot = map->used++;
    }
    map->at[slot] = object;
    *ret_slot = slot;
    return ERR_OK;
}

void slot_map_give(struct slot_map *map, uint32_t slot)
{
    uintptr_t chain = (uintptr_t)map->first_free << 1 | 1;

    memcpy(&map->at[slot], &chain, sizeof chain);
    map->first_free = slot + 1;
}

void slot_map_deinit(struct slot_map *map, uint64_t *bytes)
{
    array_free(map->at, map->cap, sizeof *map->at, bytes);
    *map = (struct slot_map){0};
}
