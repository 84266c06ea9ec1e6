/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that many machines share, stored once: offers, bindings, ids of shards. Pure.
 *
 * An item is freed with its last reference. Its number is never reused, so a file may refer to
 * it. */
#ifndef PROVIDER_HOST_POOL_H
#define PROVIDER_HOST_POOL_H
#include "base/map.h"

struct pool_item {
    uint64_t number;
    uint64_t written; /* the newest compaction whose file has the item; set by the book */
    uint32_t refs;
    uint32_t len;
    char bytes[];
};
static_assert(offsetof(struct pool_item, bytes) == sizeof(struct pool_item), "see map_make");
struct item_pool {
    struct map items;
    uint64_t next_number; /* begins at 1 */
};
/* Adds a reference to the text `bytes`. A new item gets `number`; 0: the next number. ERR_FULL,
 * ERR_TOO_LARGE, ERR_NOMEM. */
enum err pool_take(struct item_pool *pool, struct str bytes, uint64_t number,
                   struct pool_item **ret_item);
struct pool_item *pool_hold(struct pool_item *item);            /* NULL is allowed */
void pool_drop(struct item_pool *pool, struct pool_item *item); /* NULL is allowed */
static inline struct str pool_text(const struct pool_item *item)
{
    return item ? str_of(item->bytes, item->len) : STR_EMPTY;
}
#endif
