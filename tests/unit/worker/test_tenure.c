/* SPDX-License-Identifier: Apache-2.0 */
/* worker/core/tenure.h: the worker's half of workers.md 12.4 and 24.9, by its numbers. */
#include <stdlib.h>

#include "base/prng.h"
#include "lib/test.h"
#include "worker/core/tenure.h"

static size_t dropped;
static void on_drop(void *owner, struct tenure *row)
{
    (void)owner;
    (void)row;
    dropped++;
}

static enum err word(struct tenures *t, uint64_t epoch, const struct grant *granted, size_t count,
                     const struct grant *revoking, size_t revoking_count)
{
    struct grant all[64];

    CHECK("room", count + revoking_count <= ARRAY_LEN(all));
    for (size_t i = 0; i < count; i++) all[i] = granted[i];
    for (size_t i = 0; i < revoking_count; i++) {
        all[count + i] = revoking[i];
        all[count + i].revoking = true;
    }
    return tenures_assign(t, epoch, all, count + revoking_count, on_drop, NULL);
}

static void assign(struct tenures *t, uint64_t epoch, const struct grant *granted, size_t count,
                   const struct grant *revoking, size_t revoking_count)
{
    dropped = 0;
    CHECK_OK("taken", word(t, epoch, granted, count, revoking, revoking_count));
}

/* Does the worker hold the partition under that token, in this state? */
static bool is(struct tenures *t, uint32_t partition, uint64_t token, enum tenure_state state)
{
    const struct tenure *row = tenures_find(t, partition);

    return row && row->token == token && row->state == state;
}

TEST(a_grant_is_claimed_then_worked_on_and_left_when_it_is_revoked)
{
    struct grant grants[] = {{7, 3, false}, {2, 3, false}};
    struct tenures t;

    tenures_init(&t);
    assign(&t, 3, grants, 2, NULL, 0);
    CHECK("not before it was claimed", is(&t, 2, 3, TENURE_CLAIM));
    CHECK_U64("lowest first", tenures_next(&t)->partition, 2);
    CHECK_U64("then the other", tenures_next(&t)->partition, 7);
    tenure_claimed(tenures_find(&t, 2));
    CHECK("now", is(&t, 2, 3, TENURE_WORK));
    assign(&t, 4, grants, 1, grants + 1, 1);
    CHECK("no new work, a last write", is(&t, 2, 3, TENURE_LEAVE));
    tenure_left(tenures_find(&t, 2));
    CHECK("nothing any more", is(&t, 2, 3, TENURE_GONE));
    assign(&t, 4, grants, 1, grants + 1, 1);
    CHECK_U64("the same list again starts nothing", tenures_find(&t, 2)->state, TENURE_GONE);
    CHECK_SIZE("held", tenures_held(&t), 1);
    assign(&t, 5, grants, 1, NULL, 0);
    CHECK("gone", !tenures_find(&t, 2));
    tenures_deinit(&t);
}

TEST(a_partition_that_the_service_does_not_list_is_dropped)
{
    struct grant grants[] = {{1, 1, false}, {2, 1, false}, {3, 1, false}};
    struct tenures t;

    tenures_init(&t);
    assign(&t, 1, grants, 3, NULL, 0);
    assign(&t, 2, grants + 1, 1, NULL, 0);
    CHECK_SIZE("two", dropped, 2);
    CHECK("the named one stays", tenures_find(&t, 2) && !tenures_find(&t, 1));
    CHECK_ERR("an old list", word(&t, 1, grants, 3, NULL, 0), ERR_CONFLICT);
    CHECK_ERR("twice", word(&t, 3, grants, 2, grants, 1), ERR_INVALID);
    CHECK_SIZE("nothing changed", t.count, 1);
    dropped = 0;
    tenures_drop_all(&t, on_drop, NULL);
    CHECK_SIZE("the fence takes all", dropped, 1);
    assign(&t, 1, grants, 1, NULL, 0); /* another admission: its first list counts */
    tenures_deinit(&t);
}

TEST(a_higher_token_is_claimed_again_and_a_lower_one_is_ignored) /* 147, 148 */
{
    struct grant before = {5, 3, false}, after = {5, 6, false}, older = {5, 2, false};
    struct tenures t;

    tenures_init(&t);
    assign(&t, 3, &before, 1, NULL, 0);
    tenure_claimed(tenures_find(&t, 5));
    assign(&t, 5, NULL, 0, &before, 1);
    CHECK_U64("leaving", tenures_find(&t, 5)->state, TENURE_LEAVE);
    assign(&t, 6, &after, 1, NULL, 0);
    CHECK_U64("the store must be notified first", tenures_find(&t, 5)->state, TENURE_CLAIM);
    CHECK("the old token writes nothing", tenures_find(&t, 5)->token == 6);
    tenure_claimed(tenures_find(&t, 5));
    assign(&t, 6, &older, 1, NULL, 0);
    CHECK("goes on under its own", is(&t, 5, 6, TENURE_WORK));
    tenures_deinit(&t);
}

TEST(a_partition_revoked_before_it_was_claimed_has_nothing_to_write)
{
    struct grant grant = {9, 1, false};
    struct tenures t;

    tenures_init(&t);
    assign(&t, 1, &grant, 1, NULL, 0);
    assign(&t, 2, NULL, 0, &grant, 1);
    CHECK("nothing begun", !tenures_find(&t, 9)->begun);
    CHECK_U64("to be left", tenures_next(&t)->state, TENURE_LEAVE);
    tenures_deinit(&t);
}

TEST(a_drain_leaves_everything)
{
    struct grant grants[] = {{1, 1, false}, {2, 1, false}};
    struct tenures t;

    tenures_init(&t);
    assign(&t, 1, grants, 2, NULL, 0);
    tenure_claimed(tenures_find(&t, 1));
    tenures_leave_all(&t);
    for (size_t i = 0; i < 2; i++) tenure_left(tenures_next(&t));
    CHECK("nobody has a turn", !tenures_next(&t));
    CHECK_SIZE("held", tenures_held(&t), 0);
    tenures_deinit(&t);
}

/* The service's side as a table, whose messages arrive late, twice and out of order: the worker
 * never assumes more than the last message said, and tokens never fall. */
TEST(words_in_any_order_never_lower_a_token)
{
    enum { PARTITIONS = 12, STEPS = 20000 };
    uint64_t tokens[PARTITIONS] = {0};
    struct prng prng;
    struct tenures t;
    uint64_t epoch = 0;

    prng_seed(&prng, 12);
    tenures_init(&t);
    for (int step = 0; step < STEPS; step++) {
        struct grant granted[PARTITIONS], revoking[PARTITIONS];
        size_t granted_count = 0, revoking_count = 0;
        uint64_t said = prng_chance(&prng, 100000) && epoch ? epoch - 1 : ++epoch;
        struct tenure *row;

        for (uint32_t p = 0; p < PARTITIONS; p++) {
            struct grant grant = {p, prng_between(&prng, said > 3 ? said - 3 : 1, said + 1), false};
            if (prng_chance(&prng, 400000))
                granted[granted_count++] = grant;
            else if (prng_chance(&prng, 300000))
                revoking[revoking_count++] = grant;
        }
        (void)word(&t, said, granted, granted_count, revoking, revoking_count);
        for (uint32_t p = 0; p < PARTITIONS; p++) {
            row = tenures_find(&t, p);
            CHECK("never falls while it is held", !row || row->token >= tokens[p]);
            tokens[p] = row ? row->token : 0;
        }
        row = tenures_next(&t);
        if (row && row->state == TENURE_CLAIM) tenure_claimed(row);
        if (row && row->state == TENURE_LEAVE) tenure_left(row);
    }
    tenures_deinit(&t);
}
