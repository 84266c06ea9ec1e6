/* SPDX-License-Identifier: Apache-2.0 */
/* Memory ends at every place. The model allocates from arenas only, so an arena of one block is
 * filled until n bytes are left, for every n that is too small. Each call must return out of
 * memory with unchanged outputs. The table of names is swept by failing mallocs. */
#include "lib/fault_alloc.h"
#include "lib/test.h"
#include "model/metadata.h"
#include "model/need.h"

enum { BLOCK = 4096, STEP = 8 };

static struct dimensions dims;

/* Each function writes its outputs over the value that `ret_touched` checks. */
static enum err build(struct arena *arena, bool *ret_touched)
{
    struct str types[] = {STR("m5.xlarge"), STR("m5.large")};
    struct requirement requirements[] = {{STR("zone"), OPERATOR_EXISTS, NULL, 0},
                                         {LABEL_INSTANCE_TYPE, OPERATOR_IN, types, 2}};
    struct spread spread = {STR("zone"), 1, SPREAD_DO_NOT_SCHEDULE};
    struct label cpu = {STR("cpu"), STR("4")};
    struct need_input given = {.cluster = STR("c"),
                               .group = STR("g"),
                               .profile = {.requirements = requirements,
                                           .requirement_count = 2,
                                           .spreads = &spread,
                                           .spread_count = 1},
                               .aggregate = &cpu,
                               .aggregate_count = 1,
                               .arrival_unix_ns = 5};
    struct need need = {.arrival_unix_ns = 77};
    enum err err = need_build(arena, &dims, &given, &need, NULL);

    *ret_touched = need.arrival_unix_ns != 77;
    if (!err) {
        CHECK("all of it is there",
              need.cluster.at && need.group.at && need.profile.fingerprint.at);
        CHECK_STR("a copied value", need.profile.requirements[0].values[0], STR("m5.large"));
        CHECK_STR("a copied key", need.profile.spreads[0].key, STR("zone"));
    }
    return err;
}

static enum err strip(struct arena *arena, bool *ret_touched)
{
    struct requirement same = {STR("rack"), OPERATOR_SAME, NULL, 0};
    struct profile p = {.requirements = &same, .requirement_count = 1}, plain = {.priority = 77};
    enum err err = profile_without_same(arena, &p, &plain);

    *ret_touched = plain.priority != 77;
    return err;
}

static enum err encode(struct arena *arena, bool *ret_touched)
{
    struct machine_metadata m = {.destination = STR("c"), .promised = {.cluster = STR("d")}};
    struct label pairs[METADATA_MAX] = {0};
    size_t count = 77;
    enum err err = metadata_encode(arena, &m, pairs, &count);

    *ret_touched = count != 77 || pairs[0].key.len > 0;
    if (!err) CHECK_STR("the last value", pairs[count - 1].value, STR("0"));
    return err;
}

/* An arena in which so many bytes are left, and no more to be had. */
static void nearly_full(struct arena *arena, size_t left)
{
    size_t size = BLOCK;

    arena_init(arena, BLOCK);
    while (!arena_alloc(arena, size)) size -= STEP; /* all that one block holds */
    arena_deinit(arena);
    arena_init(arena, BLOCK);
    CHECK("one block is enough for each", left < size);
    CHECK("filled", arena_alloc(arena, size - left) != NULL);
}

TEST(every_place_where_an_arena_can_end)
{
    static enum err (*const calls[])(struct arena *, bool *) = {build, strip, encode};

    dimensions_init(&dims);
    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        unsigned refused = 0;
        enum err err = ERR_NOMEM;
        for (size_t left = 0; err; left += STEP) {
            struct arena arena;
            bool touched = true;
            nearly_full(&arena, left);
            err = calls[i](&arena, &touched);
            CHECK("out of memory or done", err == ERR_NOMEM || err == ERR_OK);
            CHECK("outputs are written on success only", touched == (err == ERR_OK));
            arena_deinit(&arena);
            refused += err == ERR_NOMEM;
        }
        CHECK("it was refused first", refused > 1);
    }
    dimensions_deinit(&dims);
}

TEST(names_are_added_whole_or_not_at_all)
{
    FAULT_SWEEP_ALLOC(k)
    {
        struct label pairs[] = {{STR("cpu"), STR("1")}, {STR("memory"), STR("1Gi")}};
        struct resources r = {.mask = 77};
        struct dimensions names;
        enum err err;

        dimensions_init(&names);
        err = resources_parse(&names, "v", pairs, 2, &r, NULL);
        CHECK_ERR("reported", err, fault_alloc_fired() ? ERR_NOMEM : ERR_OK);
        if (err) {
            CHECK_U64("untouched", r.mask, 77);
            CHECK_OK("the next try is served", resources_parse(&names, "v", pairs, 2, &r, NULL));
        }
        CHECK_U64("both, once", names.count, 2);
        dimensions_deinit(&names);
    }
}
