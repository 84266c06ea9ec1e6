/* SPDX-License-Identifier: Apache-2.0 */
/* Every call of a file store with the k-th allocation failing: it returns an answer, leaves nothing
 * behind, and the store still works. */
#include <stdio.h>

#include "lib/fault_alloc.h"
#include "lib/test.h"
#include "prim/feed.h"
#include "rig.h"

/* Any answer is right; a missing one is not. */
static void expect_answer(coord_result result)
{
    CHECK("done, refused, or out of memory", result.code != COORD_UNAVAILABLE ||
                                                 result.reason == COORD_R_MEMORY ||
                                                 result.reason == COORD_R_OVERLOADED);
}

static void use_everything(struct rig *rig, int number)
{
    struct rig_lease lease = {0}, slot = {0};
    coord_holders *holders = NULL;
    char key[32], group[32];
    static char big[5000];
    memset(big, 'x', sizeof big - 1);
    (void)snprintf(key, sizeof key, "a/k%d", number);
    (void)snprintf(group, sizeof group, "g%d", number);
    expect_answer(rig_create(rig, key, big, 0, "", NULL));
    coord_result now = rig_get(rig, key, NULL, 0);
    expect_answer(now);
    expect_answer(rig_cas(rig, key, now.revision, "small", -1, NULL, NULL));
    expect_answer(rig_remove(rig, key, COORD_ANY, NULL));
    coord_result held = rig_create(rig, key, big, 60000, "me", &lease);
    expect_answer(held);
    if (held.code == COORD_OK) {
        expect_answer(rig_renew(rig, &lease));
        rig_guard(rig, &lease);
        rig_unguard(rig);
        expect_answer(rig_release(rig, &lease, NULL));
    }
    coord_result got = rig_acquire(rig, group, 2, "me", 60000, 0, &slot);
    expect_answer(got);
    expect_answer(rig_holders(rig, group, &holders));
    coord_holders_free(holders);
    if (got.code == COORD_OK) { expect_answer(rig_release(rig, &slot, NULL)); }
}

TEST(every_call_with_the_kth_allocation_failing)
{
    struct rig rig;
    const char *dir = rig_memory_dir();
    int number = 0;
    file_hooks.no_collector = true;
    rig_open(&rig, dir, "");
    FAULT_SWEEP_ALLOC(k)
    {
        use_everything(&rig, number++);
    }
    use_everything(&rig, number);
    CHECK("it was a sweep", number > 5);
    CHECK_ANSWER("and it works on", rig_create(&rig, "after", "1", 0, "", NULL), COORD_OK,
                 COORD_R_CREATED);
    rig_close(&rig);
}

TEST(opening_with_the_kth_allocation_failing)
{
    char dir[200];
    (void)snprintf(dir, sizeof dir, "%s", rig_memory_dir());
    file_hooks.no_collector = true;
    FAULT_SWEEP_ALLOC(k)
    {
        struct rig rig = {0};
        coord_result result = rig_try(&rig, dir, "");
        if (result.code == COORD_OK) {
            rig_close(&rig);
        } else {
            CHECK("a reason", result.reason == COORD_R_MEMORY || result.code == COORD_UNSUPPORTED);
        }
    }
}
