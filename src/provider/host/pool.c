/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/host/pool.h"

#include <stdlib.h>

void pool_init(struct item_pool *pool, size_t max, uint64_t seed)
{
    map_init(&pool->items, max, seed);
    pool->next_number = 1;
}

void pool_deinit(struct item_pool *pool)
{
    struct map_entry *entry;
    size_t cursor = 0;

    while ((entry = map_next(&pool->items, &cursor)) != NULL) free(entry->value);
    map_deinit(&pool->items);
}

static enum err make(struct item_pool *pool, struct str bytes, uint64_t number,
                     struct pool_item **ret_item)
{
    struct pool_item *item;
    enum err err;

    if (bytes.len > UINT32_MAX) return ERR_TOO_LARGE;
    item = malloc(sizeof *item + bytes.len);
    if (!item) return ERR_NOMEM;
    *item = (struct pool_item){.number = number, .refs = 1, .len = (uint32_t)bytes.len};
    if (bytes.len > 0) memcpy(item->bytes, bytes.at, bytes.len);
    err = map_put(&pool->items, pool_text(item), item);
    if (err) {
        free(item);
        return err;
    }
    *ret_item = item;
    return ERR_OK;
}

enum err pool_take(struct item_pool *pool, struct str bytes, uint64_t number,
                   struct pool_item **ret_item)
{
    struct pool_item *item = map_get(&pool->items, bytes);
    enum err err;

    if (item) {
        pool->next_number = max_u64(pool->next_number, add_sat_u64(number, 1));
        *ret_item = pool_hold(item);
        return ERR_OK;
    }
    if (number == 0) number = pool->next_number;
    err = make(pool, bytes, number, ret_item);
    if (!err) pool->next_number = max_u64(pool->next_number, add_sat_u64(number, 1));
    return err;
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
