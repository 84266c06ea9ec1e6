/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table of structs that carry their own link, and dense numbers for them.
 *
 * The tables of the shard hold millions of small shared objects; a link inside the object costs 16
 * bytes and no second allocation. What equal means is the caller's: walk the chain and compare.
 * Nothing that is decided may follow the order of a chain. */
#ifndef SHARD_STATE_TABLE_H
#define SHARD_STATE_TABLE_H
#include "base/err.h"

struct table_link {
    struct table_link *next;
    uint32_t hash;
    uint32_t refs; /* the owner's count of references; unused where objects are not shared */
};
struct table { /* zeroed: the empty one, which holds no memory */
    struct table_link **buckets;
    uint32_t count, bucket_count; /* bucket_count: a power of two, or 0 */
};

/* Room for one more; call before table_add. ERR_NOMEM only when there is no bucket at all: a table
 * that cannot grow gets slower, not wrong. */
enum err table_reserve(struct table *table, uint64_t *bytes);
void table_add(struct table *table, struct table_link *link, uint32_t hash);
void table_remove(struct table *table, struct table_link *link); /* must be in */
void table_deinit(struct table *table, uint64_t *bytes);         /* the objects are not touched */

static inline struct table_link *table_chain(const struct table *table, uint32_t hash)
{
    return table->bucket_count ? table->buckets[hash & (table->bucket_count - 1)] : NULL;
}
#define TABLE_EACH(table, wanted_hash, link)                                                       \
    for (struct table_link *link = table_chain((table), (wanted_hash)); link; link = link->next)   \
        if (link->hash == (wanted_hash))

/* Small numbers for objects, reused when one goes: what arrays beside the tables are indexed by.
 * All slots are below `used`. */
struct rooms {                      /* zeroed: empty */
    void **at;                      /* free ones hold the chain, see rooms_get */
    uint32_t used, cap, first_free; /* a chain through the free ones; number + 1, 0 ends it */
};
/* The object under a number below `used`; NULL: free. A free slot has an odd value. */
static inline void *rooms_get(const struct rooms *rooms, uint32_t slot)
{
    return (uintptr_t)rooms->at[slot] & 1 ? NULL : rooms->at[slot];
}
/* The object under a number that one of its users holds: it is there. */
static inline void *rooms_held(const struct rooms *rooms, uint32_t slot)
{
    assert(slot < rooms->used && !((uintptr_t)rooms->at[slot] & 1));
    return rooms->at[slot];
}
enum err rooms_take(struct rooms *rooms, void *object, uint32_t *ret_slot, uint64_t *bytes);
void rooms_give(struct rooms *rooms, uint32_t slot);
void rooms_deinit(struct rooms *rooms, uint64_t *bytes);

/* Room for one more item in an array that doubles: *items of `size` bytes each. */
enum err array_reserve(void *items_pointer, uint32_t count, uint32_t *cap, size_t size,
                       uint64_t *bytes);
/* Room for `count` items in one. */
enum err array_room(void *items_pointer, uint32_t count, uint32_t *cap, size_t size,
                    uint64_t *bytes);
void array_free(void *items, uint32_t cap, size_t size, uint64_t *bytes);
#endif
