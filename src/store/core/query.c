/* SPDX-License-Identifier: Apache-2.0 */
/* A range of keys at one revision: in order, filtered, cut. */
#include <stdlib.h>
#include <string.h>

#include "store/core/txn.h"

enum txn_refusal query_check(const struct keys *keys, const struct query *query)
{
    if (query->revision <= 0) return TXN_TAKEN;
    if ((uint64_t)query->revision > keys_revision(keys)) return TXN_FUTURE;
    return (uint64_t)query->revision < keys_compacted(keys) ? TXN_COMPACTED : TXN_TAKEN;
}

bool query_is_filtered(const struct query *query)
{
    return query->min_mod || query->max_mod || query->min_create || query->max_create;
}

bool query_passes(const struct query *query, const struct key_value *pair)
{
    int64_t mod = (int64_t)pair->mod, create = (int64_t)pair->create;

    return (!query->min_mod || mod >= query->min_mod) &&
           (!query->max_mod || mod <= query->max_mod) &&
           (!query->min_create || create >= query->min_create) &&
           (!query->max_create || create <= query->max_create);
}

static void tell(const struct query *query, const struct key_value *pair, pair_fn *each,
                 void *owner)
{
    struct key_value told = *pair;

    if (query->keys_only) told.value = STR_EMPTY;
    each(owner, &told);
}

/* -- sorted -- */
struct pairs {
    struct key_value *at;
    size_t count, cap;
};

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

#define BY(name, field)                                                                            \
    static int by_##name(const void *a, const void *b)                                             \
    {                                                                                              \
        const struct key_value *left = a, *right = b;                                              \
        int order = compare_u64(left->field, right->field);                                        \
                                                                                                   \
        return order ? order : str_compare(left->key, right->key);                                 \
    }                                                                                              \
    static int by_##name##_down(const void *a, const void *b)                                      \
    {                                                                                              \
        const struct key_value *left = a, *right = b;                                              \
        int order = compare_u64(right->field, left->field);                                        \
                                                                                                   \
        return order ? order : str_compare(left->key, right->key);                                 \
    }
BY(version, version)
BY(create, create)
BY(mod, mod)

static int by_value(const void *a, const void *b)
{
    const struct key_value *left = a, *right = b;
    int order = str_compare(left->value, right->value);

    return order ? order : str_compare(left->key, right->key);
}

static int by_value_down(const void *a, const void *b)
{
    const struct key_value *left = a, *right = b;
    int order = str_compare(right->value, left->value);

    return order ? order : str_compare(left->key, right->key);
}

static int by_key_down(const void *a, const void *b)
{
    return str_compare(((const struct key_value *)b)->key, ((const struct key_value *)a)->key);
}

typedef int compare_fn(const void *a, const void *b);

/* NULL: as the keys come. */
static compare_fn *order_of(const struct query *query)
{
    bool down = query->order == QUERY_DESCEND;

    switch (query->target) {
    case QUERY_VERSION: return down ? by_version_down : by_version;
    case QUERY_CREATE: return down ? by_create_down : by_create;
    case QUERY_MOD: return down ? by_mod_down : by_mod;
    case QUERY_VALUE: return down ? by_value_down : by_value;
    default: return down ? by_key_down : NULL;
    }
}

/* False: memory. */
static bool pairs_add(struct pairs *pairs, const struct key_value *pair)
{
    if (pairs->count == pairs->cap) {
        size_t cap = pairs->cap ? pairs->cap * 2 : 64;
        struct key_value *more = realloc(pairs->at, cap * sizeof *more);

        if (!more) return false;
        pairs->at = more;
        pairs->cap = cap;
    }
    pairs->at[pairs->count++] = *pair;
    return true;
}

static struct query_end run_sorted(const struct query *query, compare_fn *order,
                                   struct keys_cursor *cursor, pair_fn *each, void *owner)
{
    struct pairs pairs = {NULL, 0, 0};
    struct query_end end = {0};
    struct key_value pair;
    size_t told;

    while (!end.no_memory && keys_next(cursor, &pair))
        if (query_passes(query, &pair)) end.no_memory = !pairs_add(&pairs, &pair);
    if (pairs.count > 1) qsort(pairs.at, pairs.count, sizeof *pairs.at, order);
    told = end.no_memory ? 0 : pairs.count;
    if (query->limit > 0 && (uint64_t)query->limit < told) told = (size_t)query->limit;
    for (size_t i = 0; i < told; i++) tell(query, &pairs.at[i], each, owner);
    free(pairs.at);
    end.more = told < pairs.count;
    return end;
}

bool query_is_sorted(const struct query *query)
{
    return order_of(query) != NULL;
}

uint64_t query_cost(const struct keys *keys, const struct query *query)
{
    uint64_t count;

    if (query->count_only || query->range.end.len == 0) return 1;
    count = keys_count_range(keys, query->range, 0);
    if (query->limit <= 0 || query_is_sorted(query) || query_is_filtered(query)) return count;
    return min_u64(count, (uint64_t)query->limit);
}

uint64_t query_past_cost(const struct keys *keys, const struct query *query, uint64_t max)
{
    bool whole = query->limit <= 0 || query_is_sorted(query) || query_is_filtered(query);
    uint64_t revision = (uint64_t)query->revision, cost = 0;

    if (query->revision <= 0 || query_check(keys, query)) return 0;
    if (!query->count_only)
        cost = keys_walk_cost(keys, query->range, revision,
                              whole ? UINT64_MAX : (uint64_t)query->limit, max);
    if (query->count_only || query->limit > 0 || query_is_sorted(query) || query_is_filtered(query))
        cost += keys_count_cost(keys, query->range, revision, max - cost);
    return cost;
}

struct query_best {
    struct query query;
    compare_fn *order;
    size_t count;
    bool more;
    struct key_value at[QUERY_BEST_MAX + 1]; /* in order; one more than may stay */
};

struct query_best *query_best_open(const struct query *query)
{
    struct query_best *best = calloc(1, sizeof *best);

    assert(query_is_sorted(query) && query->limit > 0 && query->limit <= QUERY_BEST_MAX);
    if (!best) return NULL;
    best->query = *query;
    best->order = order_of(query);
    return best;
}

void query_best_close(struct query_best *best)
{
    free(best);
}

void query_best_clear(struct query_best *best)
{
    best->count = 0;
    best->more = false;
}

void query_best_add(struct query_best *best, const struct key_value *pair)
{
    size_t low = 0, high = best->count;

    if (!query_passes(&best->query, pair)) return;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (best->order(&best->at[middle], pair) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(&best->at[low + 1], &best->at[low], (best->count - low) * sizeof best->at[0]);
    best->at[low] = *pair;
    if (best->count < (size_t)best->query.limit)
        best->count++;
    else
        best->more = true; /* the last one falls off */
}

bool query_best_tell(const struct query_best *best, pair_fn *each, void *owner)
{
    for (size_t i = 0; i < best->count; i++) tell(&best->query, &best->at[i], each, owner);
    return best->more;
}

/* -- as the keys come -- */
static bool run_plain(const struct query *query, struct keys_cursor *cursor, pair_fn *each,
                      void *owner, uint64_t *ret_told)
{
    struct key_value pair;

    while (keys_next(cursor, &pair)) {
        if (!query_passes(query, &pair)) continue;
        if (query->limit > 0 && *ret_told == (uint64_t)query->limit) return true;
        tell(query, &pair, each, owner);
        ++*ret_told;
    }
    return false;
}

struct query_end query_run(const struct keys *keys, const struct query *query, pair_fn *each,
                           void *owner)
{
    uint64_t revision = query->revision > 0 ? (uint64_t)query->revision : 0, told = 0;
    compare_fn *order = order_of(query);
    struct query_end end = {0};
    struct keys_cursor cursor;

    if (query->count_only) {
        end.count = keys_count_range(keys, query->range, revision);
        return end;
    }
    keys_seek(keys, query->range, revision, &cursor);
    if (order)
        end = run_sorted(query, order, &cursor, each, owner);
    else
        end.more = run_plain(query, &cursor, each, owner, &told);
    /* All of it was told: that is how many there are. */
    end.count = order || end.more || query_is_filtered(query)
                    ? keys_count_range(keys, query->range, revision)
                    : told;
    return end;
}
