/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a range of keys at one revision, with sorting, filters and a limit. */
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

static void pair_give(const struct query *query, const struct key_value *pair, pair_fn *each,
                      void *owner)
{
    struct key_value given = *pair;

    if (query->keys_only) given.value = STR_EMPTY;
    each(owner, &given);
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

static int compare_by(uint32_t target, const struct key_value *a, const struct key_value *b)
{
    switch (target) {
    case QUERY_VERSION: return compare_u64(a->version, b->version);
    case QUERY_CREATE: return compare_u64(a->create, b->create);
    case QUERY_MOD: return compare_u64(a->mod, b->mod);
    case QUERY_VALUE: return str_compare(a->value, b->value);
    default: return str_compare(a->key, b->key);
    }
}

/* Equal sort values are in ascending key order, also when sorting descends. */
static int compare_pairs(const void *a, const void *b, void *of)
{
    const struct query *query = of;
    const struct key_value *left = a, *right = b;
    int order = query->order == QUERY_DESCEND ? compare_by(query->target, right, left)
                                              : compare_by(query->target, left, right);

    return order ? order : str_compare(left->key, right->key);
}

bool query_is_sorted(const struct query *query)
{
    return query->order == QUERY_DESCEND ||
           (query->target >= QUERY_VERSION && query->target <= QUERY_VALUE);
}

/* False: no memory. */
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

static struct query_end run_sorted(const struct query *query, struct keys_cursor *cursor,
                                   pair_fn *each, void *owner)
{
    struct pairs pairs = {NULL, 0, 0};
    struct query_end end = {0};
    struct key_value pair;
    size_t given;

    while (!end.no_memory && keys_next(cursor, &pair))
        if (query_passes(query, &pair)) end.no_memory = !pairs_add(&pairs, &pair);
    if (pairs.count > 1)
        qsort_r(pairs.at, pairs.count, sizeof *pairs.at, compare_pairs, (void *)(uintptr_t)query);
    given = end.no_memory ? 0 : pairs.count;
    if (query->limit > 0 && (uint64_t)query->limit < given) given = (size_t)query->limit;
    for (size_t i = 0; i < given; i++) pair_give(query, &pairs.at[i], each, owner);
    free(pairs.at);
    end.more = given < pairs.count;
    return end;
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
    size_t count;
    bool more;
    struct key_value at[QUERY_BEST_MAX + 1]; /* sorted pairs, one more than are kept */
};

struct query_best *query_best_open(const struct query *query)
{
    struct query_best *best = calloc(1, sizeof *best);

    assert(query_is_sorted(query) && query->limit > 0 && query->limit <= QUERY_BEST_MAX);
    if (!best) return NULL;
    best->query = *query;
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
        if (compare_pairs(&best->at[middle], pair, &best->query) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(&best->at[low + 1], &best->at[low], (best->count - low) * sizeof best->at[0]);
    best->at[low] = *pair;
    if (best->count < (size_t)best->query.limit)
        best->count++;
    else
        best->more = true; /* the last pair is dropped */
}

bool query_best_give(const struct query_best *best, pair_fn *each, void *owner)
{
    for (size_t i = 0; i < best->count; i++) pair_give(&best->query, &best->at[i], each, owner);
    return best->more;
}

/* -- in key order -- */
static bool run_plain(const struct query *query, struct keys_cursor *cursor, pair_fn *each,
                      void *owner, uint64_t *ret_given)
{
    struct key_value pair;

    while (keys_next(cursor, &pair)) {
        if (!query_passes(query, &pair)) continue;
        if (query->limit > 0 && *ret_given == (uint64_t)query->limit) return true;
        pair_give(query, &pair, each, owner);
        ++*ret_given;
    }
    return false;
}

struct query_end query_run(const struct keys *keys, const struct query *query, pair_fn *each,
                           void *owner)
{
    uint64_t revision = query->revision > 0 ? (uint64_t)query->revision : 0, given = 0;
    bool sorted = query_is_sorted(query);
    struct query_end end = {0};
    struct keys_cursor cursor;

    if (query->count_only) {
        end.count = keys_count_range(keys, query->range, revision);
        return end;
    }
    keys_seek(keys, query->range, revision, &cursor);
    if (sorted)
        end = run_sorted(query, &cursor, each, owner);
    else
        end.more = run_plain(query, &cursor, each, owner, &given);
    end.count = sorted || end.more || query_is_filtered(query)
                    ? keys_count_range(keys, query->range, revision)
                    : given;
    return end;
}
