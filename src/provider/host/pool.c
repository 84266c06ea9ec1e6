/* SPDX-License-Identifier: Apache-2.0 */
/* Shared texts with reference counts; a text is freed with its last reference. Pure. */
#include "provider/host/pool.h"

#include <stdlib.h>

enum err pool_take(struct item_pool *pool, struct str bytes, uint64_t number,
                   struct pool_item **ret_item)
{
    struct pool_item *item;

    if (bytes.len > UINT32_MAX) return ERR_TOO_LARGE;
    item = map_make(&pool->items, bytes, sizeof *item);
    if (!item) return map_count(&pool->items) == pool->items.max ? ERR_FULL : ERR_NOMEM;
    if (item->refs == 0) {
        if (number == 0) number = pool->next_number;
        item->number = number;
        item->len = (uint32_t)bytes.len;
    }
    item->refs++;
    pool->next_number = max_u64(pool->next_number, add_sat_u64(number, 1));
    *ret_item = item;
    return ERR_OK;
}

struct pool_item *pool_hold(struct pool_item *item)
{
    if (item) {
        assert(item->refs > 0 && item->refs < UINT32_MAX);
        item->refs++;
    }
    return item;
}

void pool_drop(struct item_pool *pool, struct pool_item *item)
{
    if (!item) return;
    assert(item->refs > 0);
    if (--item->refs > 0) return;
    (void)map_remove(&pool->items, pool_text(item));
    free(item);
}
