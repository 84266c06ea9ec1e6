/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of a file store in one process. */
#include "lib/test.h"
#include "prim/file/store.h"
#include "rig.h"

TEST(no_more_holders_than_slots_and_the_lowest_free_one_first)
{
    struct rig rig;
    struct rig_lease lease[4];
    coord_holders *holders = NULL;
    rig_open(&rig, rig_dir(), "");
    CHECK_ANSWER("no such group", rig_holders(&rig, "g", &holders), COORD_NOT_FOUND, COORD_R_NONE);
    CHECK_ANSWER("not made", rig_acquire(&rig, "g", 3, "a", 60000, COORD_NO_CREATE, &lease[0]),
                 COORD_NOT_FOUND, COORD_R_NONE);
    for (uint32_t i = 0; i < 3; i++) {
        const char *owners[] = {"a", "b", "c"};
        coord_result got = rig_acquire(&rig, "g", 3, owners[i], 60000, 0, &lease[i]);
        CHECK_ANSWER("acquired", got, COORD_OK, COORD_R_ACQUIRED);
        CHECK_U32("in order", got.slot, i);
        CHECK_U32("of three", got.slot_count, 3);
    }
    coord_result full = rig_acquire(&rig, "g", 3, "d", 60000, 0, &lease[3]);
    CHECK_ANSWER("full", full, COORD_EXISTS, COORD_R_FULL);
    CHECK_U32("three live", full.live, 3);
    CHECK("when to try again", full.hint_ms > 0 && full.hint_ms <= 60000);
    CHECK_ANSWER("another count", rig_acquire(&rig, "g", 4, "d", 60000, 0, &lease[3]),
                 COORD_CONFLICT, COORD_R_SLOT_COUNT);
    CHECK_ANSWER("the same owner", rig_acquire(&rig, "g", 3, "b", 60000, 0, &lease[3]),
                 COORD_EXISTS, COORD_R_ALREADY_HOLDER);
    CHECK_ANSWER("released", rig_release(&rig, &lease[1], NULL), COORD_OK, COORD_R_RELEASED);
    CHECK_ANSWER("listed", rig_holders(&rig, "g", &holders), COORD_OK, COORD_R_NONE);
    CHECK_SIZE("two rows", holders->count, 2);
    CHECK_U32("by slot", holders->rows[1].slot, 2);
    CHECK_TEXT("its owner", holders->rows[1].owner, "c");
    coord_holders_free(holders);
    coord_result got = rig_acquire(&rig, "g", 3, "d", 60000, 0, &lease[1]);
    CHECK_ANSWER("acquired", got, COORD_OK, COORD_R_ACQUIRED);
    CHECK_U32("the free one", got.slot, 1);
    rig_close(&rig);
}

TEST(a_takeover_by_the_same_owner_supersedes_at_once)
{
    struct rig rig;
    struct rig_lease old, new;
    rig_open(&rig, rig_dir(), "");
    (void)rig_acquire(&rig, "g", 2, "me", 60000, 0, &old);
    rig_guard(&rig, &old);
    coord_result got = rig_acquire(&rig, "g", 2, "me", 60000, COORD_TAKEOVER_SAME_OWNER, &new);
    CHECK_ANSWER("taken over", got, COORD_OK, COORD_R_ACQUIRED);
    CHECK_U32("the same slot", got.slot, 0);
    CHECK("a larger token", got.token > old.grant.token);
    coord_result late = rig_renew(&rig, &old);
    CHECK_ANSWER("superseded", late, COORD_EXPIRED, COORD_R_SUPERSEDED);
    CHECK_U64("by", late.token, got.token);
    CHECK_ANSWER("the new one lives", rig_renew(&rig, &new), COORD_OK, COORD_R_RENEWED);
    rig_await(&rig.lost);
    CHECK_I64("reported without being asked", atomic_load(&rig.lost_reason), COORD_R_SUPERSEDED);
    rig_close(&rig);
}

TEST(J32_a_takeover_of_one_key_is_seen_by_the_next_renewal_of_a_lease_of_two)
{
    struct rig rig;
    struct rig_lease old, new;
    rig_open(&rig, rig_dir(), "");
    (void)rig_acquire(&rig, "g", 2, "me", 60000, 0, &old);
    (void)rig_create_under(&rig, &old, "beside", "1");
    CHECK_ANSWER("both", rig_renew(&rig, &old), COORD_OK, COORD_R_RENEWED);
    (void)rig_acquire(&rig, "g", 2, "me", 60000, COORD_TAKEOVER_SAME_OWNER, &new);
    CHECK_ANSWER("one is gone", rig_renew(&rig, &old), COORD_EXPIRED, COORD_R_SUPERSEDED);
    CHECK_ANSWER("the other stays", rig_get(&rig, "beside", NULL, 0), COORD_OK, COORD_R_NONE);
    rig_close(&rig);
}

TEST(a_resize_compares_and_a_shrunk_group_is_full_until_the_slots_above_are_free)
{
    struct rig rig;
    struct rig_lease lease[3];
    coord_holders *holders = NULL;
    const char *owners[] = {"a", "b", "c"};
    rig_open(&rig, rig_dir(), "");
    for (int i = 0; i < 3; i++) { (void)rig_acquire(&rig, "g", 3, owners[i], 60000, 0, &lease[i]); }
    (void)rig_holders(&rig, "g", &holders);
    uint64_t revision = holders->revision;
    coord_holders_free(holders);
    struct prim_call call = {.deadline_ns = prim_boottime_ns(NULL) + RIG_TIMEOUT_MS * NS_IN_MS,
                             .request_id = prim_id_request()};
    CHECK_ANSWER("compared",
                 rig.backend->ops->resize(rig.backend, &call, STR("g"), revision + 1, 1),
                 COORD_CONFLICT, COORD_R_REVISION);
    CHECK_ANSWER("shrunk", rig.backend->ops->resize(rig.backend, &call, STR("g"), revision, 1),
                 COORD_OK, COORD_R_RESIZED);
    CHECK_ANSWER("once", rig.backend->ops->resize(rig.backend, &call, STR("g"), revision, 1),
                 COORD_OK, COORD_R_REPLAYED);
    (void)rig_release(&rig, &lease[0], NULL);
    CHECK_ANSWER("full", rig_acquire(&rig, "g", 1, "d", 60000, 0, &lease[0]), COORD_EXISTS,
                 COORD_R_FULL);
    (void)rig_release(&rig, &lease[1], NULL);
    CHECK_ANSWER("full", rig_acquire(&rig, "g", 1, "d", 60000, 0, &lease[0]), COORD_EXISTS,
                 COORD_R_FULL);
    (void)rig_release(&rig, &lease[2], NULL);
    CHECK_ANSWER("free", rig_acquire(&rig, "g", 1, "d", 60000, 0, &lease[0]), COORD_OK,
                 COORD_R_ACQUIRED);
    rig_close(&rig);
}

TEST(a_slot_rests_after_an_expiry_and_not_after_a_release)
{
    struct rig rig;
    struct rig_lease lease;
    struct prim_grant grant = {0};
    rig_open(&rig, rig_dir(), "");
    struct prim_acquire in = {.group = STR("g"),
                              .owner = STR("a"),
                              .value = STR(""),
                              .slot_count = 1,
                              .prefer_slot = COORD_NO_SLOT,
                              .ttl_ms = 100,
                              .cooldown_ms = 60000,
                              .lease_id = prim_id_random()};
    struct prim_call call = {.deadline_ns = prim_boottime_ns(NULL) + RIG_TIMEOUT_MS * NS_IN_MS,
                             .request_id = prim_id_request()};
    CHECK_ANSWER("acquired", rig.backend->ops->acquire(rig.backend, &call, &in, &grant), COORD_OK,
                 COORD_R_ACQUIRED);
    rig_sleep_ms(150);
    coord_result rest = rig_acquire(&rig, "g", 1, "b", 60000, 0, &lease);
    CHECK_ANSWER("at rest", rest, COORD_EXISTS, COORD_R_FULL);
    CHECK_U32("nobody lives", rest.live, 0);
    CHECK("for the rest of the minute", rest.hint_ms > 30000 && rest.hint_ms <= 60000);
    rig_close(&rig);
    rig_open(&rig, rig_dir(), "");
    call.request_id = prim_id_request();
    in.lease_id = prim_id_random();
    in.ttl_ms = 60000;
    (void)rig.backend->ops->acquire(rig.backend, &call, &in, &grant);
    CHECK_ANSWER("deleted by force", rig_remove(&rig, "g/slot-0000", COORD_FORCE, NULL), COORD_OK,
                 COORD_R_DELETED);
    CHECK_ANSWER("free", rig_acquire(&rig, "g", 1, "b", 60000, 0, &lease), COORD_OK,
                 COORD_R_ACQUIRED);
    rig_close(&rig);
}

TEST(a_repeated_acquire_takes_one_slot_only)
{
    struct rig rig;
    struct rig_lease lease, same;
    coord_holders *holders = NULL;
    const coord_id id = prim_id_request();
    rig_open(&rig, rig_dir(), "");
    rig.request = id;
    coord_result first = rig_acquire(&rig, "g", 3, "me", 60000, 0, &lease);
    rig.request = id;
    coord_result second = rig_acquire(&rig, "g", 3, "me", 60000, 0, &same);
    CHECK_ANSWER("replayed", second, COORD_OK, COORD_R_REPLAYED);
    CHECK_U32("the same slot", second.slot, first.slot);
    CHECK_U64("the same token", second.token, first.token);
    (void)rig_holders(&rig, "g", &holders);
    CHECK_SIZE("one row", holders->count, 1);
    coord_holders_free(holders);
    CHECK_ANSWER("renewable", rig_renew(&rig, &same), COORD_OK, COORD_R_RENEWED);
    rig_close(&rig);
}

/* The head of an expired slot says how long the slot cools down: the collector must keep the head
 * until then. */
TEST(a_slot_rests_though_tombstones_are_kept_for_no_time)
{
    struct rig rig;
    struct rig_lease lease;
    struct prim_grant grant = {0};
    file_hooks.no_collector = true;
    rig_open(&rig, rig_dir(), "tombstone_keep=0ms");
    struct prim_acquire in = {.group = STR("g"),
                              .owner = STR("a"),
                              .value = STR(""),
                              .slot_count = 1,
                              .prefer_slot = COORD_NO_SLOT,
                              .ttl_ms = 100,
                              .cooldown_ms = 60000,
                              .lease_id = prim_id_random()};
    struct prim_call call = {.deadline_ns = prim_boottime_ns(NULL) + RIG_TIMEOUT_MS * NS_IN_MS,
                             .request_id = prim_id_request()};
    CHECK_ANSWER("acquired", rig.backend->ops->acquire(rig.backend, &call, &in, &grant), COORD_OK,
                 COORD_R_ACQUIRED);
    rig_sleep_ms(150);
    (void)gc_run(rig.store, NULL);
    CHECK_ANSWER("at rest", rig_acquire(&rig, "g", 1, "b", 60000, 0, &lease), COORD_EXISTS,
                 COORD_R_FULL);
    rig_close(&rig);
}
