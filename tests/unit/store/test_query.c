/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges that are read in parts, and the limit of what a transaction reads. */
#include <muster/coord.h>
#include <stdio.h>
#include <string.h>

#include "base/prng.h"
#include "lib/store_apply.h"
#include "lib/test.h"
#include "store/core/store.h"

enum { SOME = 600, MANY = (1 << 16) + 500 };

static struct store *store;
static struct prng prng;

static void put(int number, int value)
{
    struct store_command command = {.kind = STORE_PUT};
    struct store_result result;
    char key[16], text[16];

    command.key = str_of(key, (size_t)snprintf(key, sizeof key, "k/%06d", number));
    command.value = str_of(text, (size_t)snprintf(text, sizeof text, "%d", value));
    store_apply(store, 1, &command, &result, NULL);
    CHECK_U64("put", (uint64_t)result.code, COORD_OK);
}

static const struct key_range all = {{"k/", 2}, {"k0", 2}};

/* -- the first of a sorted range -- */
struct reported {
    size_t count;
    struct key_value at[QUERY_BEST_MAX];
};

static void keep(void *owner, const struct key_value *pair)
{
    struct reported *reported = owner;

    CHECK("no more than the limit", reported->count < QUERY_BEST_MAX);
    reported->at[reported->count++] = *pair;
}

static void check_same(const struct query *query)
{
    static struct reported want, got;
    struct query_best *best = query_best_open(query);
    struct keys_cursor cursor;
    struct key_value pair;
    struct query_end end;

    want.count = got.count = 0;
    end = query_run(store_keys(store), query, keep, &want);
    CHECK("open", best != NULL);
    for (int round = 0; round < 2; round++) { /* the second round after a reset */
        query_best_clear(best);
        keys_seek(store_keys(store), query->range, (uint64_t)query->revision, &cursor);
        while (keys_next(&cursor, &pair)) query_best_add(best, &pair);
    }
    CHECK("cut alike", query_best_give(best, keep, &got) == end.more);
    CHECK_SIZE("as many", got.count, want.count);
    for (size_t i = 0; i < got.count; i++) {
        CHECK_STR("the same, in the same order", got.at[i].key, want.at[i].key);
        CHECK_STR("with its value", got.at[i].value, want.at[i].value);
    }
    query_best_close(best);
}

TEST(the_first_of_a_sorted_range_are_those_of_the_whole)
{
    prng_seed(&prng, test_seed());
    store = store_open(&(struct store_options){0});
    for (int i = 0; i < SOME; i++)
        put((int)prng_below(&prng, SOME / 2), (int)prng_below(&prng, 40));
    for (uint32_t target = QUERY_KEY; target <= QUERY_VALUE; target++)
        for (uint32_t order = QUERY_UNORDERED; order <= QUERY_DESCEND; order++)
            for (int64_t limit = 1; limit <= QUERY_BEST_MAX; limit = limit * 3 + 1) {
                struct query query = {
                    .range = all, .order = order, .target = target, .limit = limit};

                if (!query_is_sorted(&query)) continue;
                check_same(&query);
                query.keys_only = true;
                query.min_mod = SOME / 3;
                check_same(&query);
                query.revision = SOME / 2;
                check_same(&query);
            }
    store_close(store);
}

/* -- the limit of what a transaction reads -- */
static size_t pairs_returned;

static void on_begin(struct txn_sink *sink, enum txn_op_kind kind, bool held)
{
    (void)sink, (void)kind, (void)held;
}

static void on_pair(struct txn_sink *sink, const struct key_value *pair)
{
    (void)sink, (void)pair;
    pairs_returned++;
}

static void on_end(struct txn_sink *sink, const struct txn_end *end)
{
    (void)sink, (void)end;
}

static enum txn_refusal try_op(struct txn_op op, bool inside)
{
    struct txn_sink sink = {on_begin, on_pair, on_end};
    struct txn within = {.ops = {NULL, &op}, .op_count = {0, 1}};
    struct txn_op outer[] = {{.kind = TXN_PUT, .put = {.key = STR("z"), .value = STR("v")}},
                             {.kind = TXN_TXN, .txn = &within}};
    struct txn txn = {.ops = {NULL, outer}, .op_count = {0, 2}};
    uint64_t revision, before = keys_revision(store_keys(store));
    enum txn_refusal refusal;

    pairs_returned = 0;
    if (!inside && !txn_writes(&within)) return txn_read(store, &within, &sink);
    refusal = txn_apply(store, inside ? &txn : &within, &sink, &revision);
    if (refusal)
        CHECK("nothing was done",
              keys_revision(store_keys(store)) == before && pairs_returned == 0);
    return refusal;
}

TEST(a_transaction_that_looks_at_too_many_keys_is_refused_and_does_nothing)
{
    static const struct key_range half = {{"k/", 2}, {"k/030000", 8}};
    struct txn_compare compare = {
        .range = all, .target = COMPARE_VERSION, .result = COMPARE_GREATER};
    struct txn compares = {.compares = &compare, .compare_count = 1};
    uint64_t revision;
    const struct {
        const char *why;
        struct txn_op op;
        enum txn_refusal want;
        size_t pairs;
    } cases[] = {
        {"all", {.kind = TXN_RANGE, .range = {.range = all}}, TXN_TOO_LARGE, 0},
        {"a part", {.kind = TXN_RANGE, .range = {.range = half}}, TXN_TAKEN, 30000},
        {"cut", {.kind = TXN_RANGE, .range = {.range = all, .limit = 9}}, TXN_TAKEN, 9},
        {"counted", {.kind = TXN_RANGE, .range = {.range = all, .count_only = true}}, TXN_TAKEN, 0},
        {"one", {.kind = TXN_RANGE, .range = {.range = {{"k/000007", 8}, {"", 0}}}}, TXN_TAKEN, 1},
        {"sorted, then cut",
         {.kind = TXN_RANGE, .range = {.range = all, .limit = 9, .target = QUERY_MOD}},
         TXN_TOO_LARGE,
         0},
        {"filtered, then cut",
         {.kind = TXN_RANGE, .range = {.range = all, .limit = 9, .min_mod = 5}},
         TXN_TOO_LARGE,
         0},
        {"deleted, and shown",
         {.kind = TXN_DELETE, .del = {.range = all, .prev = true}},
         TXN_TOO_LARGE,
         0},
    };

    store = store_open(&(struct store_options){0});
    for (int i = 0; i < MANY; i++) put(i, i);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (int inside = 0; inside < 2; inside++) {
            CHECK_U64(cases[i].why, try_op(cases[i].op, inside), cases[i].want);
            CHECK_SIZE(cases[i].why, pairs_returned, cases[i].pairs);
        }
    CHECK_U64("compared", txn_read(store, &compares, NULL), TXN_TOO_LARGE);
    compare.range = half;
    CHECK_U64("a part compared", txn_apply(store, &compares, NULL, &revision), TXN_TAKEN);
    CHECK("and it holds", compares.held);
    store_close(store);
}

/* A read of the past also visits keys created since and versions written since. */
TEST(a_transaction_that_looks_at_too_much_of_the_past_is_refused)
{
    static const struct key_range one = {{"k/000000", 8}, {"", 0}};
    enum { EARLY = 100, LATER = 10000, NOW = MANY + 1, REWRITTEN = NOW + MANY };
    const struct {
        const char *why;
        struct query query;
        enum txn_refusal want, twice;
    } cases[] = {
        {"counted",
         {.range = all, .revision = EARLY, .count_only = true},
         TXN_TOO_LARGE,
         TXN_TOO_LARGE},
        {"by what changed since",
         {.range = all, .revision = REWRITTEN - LATER, .count_only = true},
         TXN_TAKEN,
         TXN_TAKEN},
        {"cut where there were few",
         {.range = all, .revision = EARLY, .limit = EARLY},
         TXN_TOO_LARGE,
         TXN_TOO_LARGE},
        {"cut where it began",
         {.range = {{"k/000001", 8}, {"k/01", 4}}, .revision = LATER, .limit = 5},
         TXN_TAKEN,
         TXN_TAKEN},
        {"a part, which is more than half of what may be",
         {.range = {{"k/000001", 8}, {"k/04", 4}}, .revision = NOW},
         TXN_TAKEN,
         TXN_TOO_LARGE},
        {"as it is", {.range = {{"k/000001", 8}, {"k/04", 4}}}, TXN_TAKEN, TXN_TOO_LARGE},
        {"one key that was written often since",
         {.range = one, .revision = NOW},
         TXN_TOO_LARGE,
         TXN_TOO_LARGE},
        {"and lately", {.range = one, .revision = REWRITTEN - 40000}, TXN_TAKEN, TXN_TOO_LARGE},
        {"compacted",
         {.range = all, .revision = 2, .count_only = true},
         TXN_COMPACTED,
         TXN_COMPACTED},
        {"not there yet",
         {.range = all, .revision = 1 << 30, .count_only = true},
         TXN_FUTURE,
         TXN_FUTURE},
    };
    struct store_command compact = {.kind = STORE_COMPACT, .expected = EARLY};
    struct store_result result;

    store = store_open(&(struct store_options){0});
    for (int i = 0; i < MANY; i++) put(i, i);
    for (int i = 0; i < MANY; i++) put(0, i);
    CHECK_U64("as expected", keys_revision(store_keys(store)), REWRITTEN);
    store_apply(store, 1, &compact, &result, NULL);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct txn_op ops[] = {{.kind = TXN_RANGE, .range = cases[i].query},
                               {.kind = TXN_RANGE, .range = cases[i].query}};
        struct txn_sink sink = {on_begin, on_pair, on_end};
        struct txn txn = {.ops = {NULL, ops}, .op_count = {0, 1}};
        struct txn_op outer = {.kind = TXN_TXN, .txn = &txn};
        struct txn inside = {.ops = {&outer, NULL}, .op_count = {1, 0}};

        CHECK_U64(cases[i].why, txn_read(store, &txn, &sink), cases[i].want);
        if (cases[i].want == TXN_TOO_LARGE)
            CHECK_U64("a branch that may not be taken, and inside",
                      txn_past_check(store_keys(store), &inside), TXN_TOO_LARGE);
        txn.op_count[1] = 2;
        CHECK_U64(cases[i].why, txn_read(store, &txn, &sink), cases[i].twice);
    }
    store_close(store);
}
