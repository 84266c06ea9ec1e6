/* SPDX-License-Identifier: Apache-2.0 */
/* D6: fencing and idempotency. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"

static void f01(struct suite *s)
{
    uint64_t last = 0;
    for (int i = 0; i < suite_scale(s, 1000, 90); i++) {
        coord_lease *lease = NULL;
        coord_result r =
            acquire(s->store, N("g"), 1, i % 2 ? "a" : "b", suite_long_ttl(s), 0, &lease);
        WANT(r, COORD_OK, COORD_R_ACQUIRED);
        EXPECT(r.token > last, "F2");
        last = r.token;
        WANT(coord_release(lease, NULL), COORD_OK, COORD_R_RELEASED);
        coord_lease_unref(lease);
    }
}

static void f02(struct suite *s)
{
    coord_lease *old = NULL, *now = NULL;
    coord_fence fence = {0};
    WANT(acquire(s->store, N("g"), 1, "me", suite_long_ttl(s), 0, &old), COORD_OK,
         COORD_R_ACQUIRED);
    EXPECT(coord_fence_admit(&fence, coord_lease_token(old)) == 1, "the holder");
    EXPECT(coord_fence_admit(&fence, coord_lease_token(old)) == 1, "again: equal is admitted");
    WANT(acquire(s->store, N("g"), 1, "me", suite_long_ttl(s), COORD_TAKEOVER_SAME_OWNER, &now),
         COORD_OK, COORD_R_ACQUIRED);
    EXPECT(coord_fence_admit(&fence, coord_lease_token(now)) == 1, "the new holder");
    EXPECT(coord_fence_admit(&fence, coord_lease_token(old)) == 0, "the old one is refused");
    coord_lease_unref(old);
    (void)coord_release(now, NULL);
    coord_lease_unref(now);
}

static void f04(struct suite *s)
{
    uint64_t token, revision;
    coord_store *first = suite_open(s);
    coord_lease *lease = NULL;
    if (first == NULL) { return; }
    coord_result r = acquire(first, N("g"), 1, "a", suite_long_ttl(s), 0, &lease);
    WANT(r, COORD_OK, COORD_R_ACQUIRED);
    token = r.token;
    revision = r.revision;
    WANT(coord_release(lease, NULL), COORD_OK, COORD_R_RELEASED);
    coord_lease_unref(lease);
    coord_id id = coord_store_id(first);
    suite_close_now(s, first);
    coord_store *second = suite_open(s);
    if (second == NULL) { return; }
    coord_id again = coord_store_id(second);
    EXPECT(memcmp(&id, &again, sizeof id) == 0, "the store keeps its id");
    r = acquire(second, N("g"), 1, "b", suite_long_ttl(s), 0, &lease);
    WANT(r, COORD_OK, COORD_R_ACQUIRED);
    EXPECT(r.token > token && r.revision > revision, "still larger");
    coord_lease_unref(lease);
}

static void f07(struct suite *s)
{
    coord_lease *lease = NULL;
    coord_result made = create(s->store, N("k"), "0", suite_long_ttl(s), "o", &lease);
    WANT(made, COORD_OK, COORD_R_CREATED);
    uint64_t revision = made.revision;
    for (int i = 0; i < 10; i++) {
        WANT(coord_renew(lease, NULL), COORD_OK, COORD_R_RENEWED);
        coord_result r = cas(s->store, N("k"), revision, "x", COORD_TTL_KEEP, lease);
        WANT(r, COORD_OK, COORD_R_UPDATED);
        EXPECT_EQ(r.token, made.token, "constant");
        revision = r.revision;
    }
    coord_entry *entry = NULL;
    WANT(coord_get(s->store, NULL, text(N("k")), COORD_LATEST, &entry), COORD_OK, ANY_REASON);
    EXPECT_EQ(entry->token, made.token, "in the entry, too");
    coord_entry_free(entry);
    WANT(coord_assert_token(s->store, NULL, text(N("k")), made.token), COORD_OK, ANY_REASON);
    WANT(coord_assert_token(s->store, NULL, text(N("k")), made.token + 1), COORD_CONFLICT,
         COORD_R_NOT_OWNER);
    (void)coord_release(lease, NULL);
    WANT(coord_assert_token(s->store, NULL, text(N("k")), made.token), COORD_NOT_FOUND, ANY_REASON);
    coord_lease_unref(lease);
}

static void f08(struct suite *s)
{
    uint64_t last = 0;
    for (int i = 0; i < 20; i++) {
        coord_lease *lease = NULL;
        coord_slot_request request = COORD_SLOT_REQUEST_INIT;
        struct name group = suite_name(s, "g");
        request.group = text(group.text);
        request.slot_count = 2;
        request.prefer_slot = (uint32_t)(i % 2);
        request.owner = "o";
        request.ttl_ms = suite_long_ttl(s);
        coord_result r = coord_acquire_slot(s->store, NULL, &request, &lease);
        WANT(r, COORD_OK, COORD_R_ACQUIRED);
        EXPECT(r.token > last, "F5: larger, whatever the slot");
        last = r.token;
        (void)coord_release(lease, NULL);
        coord_lease_unref(lease);
    }
}

static void f09(struct suite *s)
{
    coord_call call = {.request_id = suite_id()};
    coord_result made =
        coord_create_if_absent(s->store, &call, text(N("k")), text("a"), 0, NULL, NULL);
    WANT(made, COORD_OK, COORD_R_CREATED);
    coord_result r =
        coord_create_if_absent(s->store, &call, text(N("k")), text("b"), 0, NULL, NULL);
    if (s->caps.replay == COORD_REPLAY_TABLE) { WANT(r, COORD_INVALID, COORD_R_HANDLE); }
    EXPECT_EQ(value_is(s->store, N("k"), "a"), made.revision, "the second call changes nothing");
}

static void f10(struct suite *s)
{
    coord_call call = {.request_id = suite_id()};
    coord_result made =
        coord_create_if_absent(s->store, &call, text(N("k")), text("a"), 0, NULL, NULL);
    WANT(made, COORD_OK, COORD_R_CREATED);
    coord_result again =
        coord_create_if_absent(s->store, &call, text(N("k")), text("a"), 0, NULL, NULL);
    WANT(again, COORD_OK, COORD_R_REPLAYED);
    EXPECT_EQ(again.revision, made.revision, "the first answer");
    WANT(coord_delete(s->store, NULL, text(N("k")), COORD_ANY, NULL), COORD_OK, COORD_R_DELETED);
    coord_result other = create(s->store, N("k"), "b", 0, NULL, NULL);
    WANT(other, COORD_OK, COORD_R_CREATED);
    if (s->caps.replay != COORD_REPLAY_TABLE) {
        WANT(coord_create_if_absent(s->store, &call, text(N("k")), text("a"), 0, NULL, NULL),
             COORD_EXISTS, COORD_R_HELD);
    }
    EXPECT_EQ(value_is(s->store, N("k"), "b"), other.revision, "untouched");
}

static void f11(struct suite *s)
{
    struct history history = {0};
    s->faults = "fault_lose_request=50&fault_lose_reply=50";
    uint32_t clients = s->full ? 20 : 8;
    if (!workers_threads(s, "churn", clients, s->full ? 60000 : 2000, 2, &history)) { return; }
    suite_check(s, &history);
    history_deinit(&history);
}

#define LEASE (COORD_CAP_CREATE | COORD_CAP_TTL)
#define SLOT  (LEASE | COORD_CAP_SLOTS)
const struct test_case cases_fence[] = {
    {"F01", "tokens of successive holders rise", SLOT, f01, 0, 0},
    {"F02", "the fence refuses the old holder", SLOT, f02, 0, 0},
    {"F04", "the store is opened anew: tokens still rise", SLOT, f04, CASE_REAL | CASE_PROCESSES,
     0},
    {"F05", "the host is rebooted between holders", SLOT, NULL, 0, 0},
    {"F06", "the data is restored from an old copy", SLOT, NULL, 0, 0},
    {"F07", "renewals and updates keep the token", LEASE | COORD_CAP_CAS, f07, 0, 0},
    {"F08", "tokens of two slots compare", SLOT | COORD_CAP_STORE_ORDER, f08, 0, 0},
    {"F09", "the same request id, other arguments", COORD_CAP_CREATE, f09, 0, 0},
    {"F10", "a retry after others replaced it", COORD_CAP_CREATE | COORD_CAP_CAS, f10, 0, 0},
    {"F11", "requests and replies are lost: no double grant", SLOT, f11, CASE_REAL, 0},
    {0},
};
