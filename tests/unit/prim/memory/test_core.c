/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/test.h"
#include "rig.h"

#define ANSWERS(why, result, want_code, want_reason)                                               \
    do {                                                                                           \
        coord_result answer_ = (result);                                                           \
        CHECK_TEXT(why, coord_code_name(answer_.code), coord_code_name(want_code));                \
        CHECK_TEXT(why, coord_reason_name(answer_.reason), coord_reason_name(want_reason));        \
    } while (0)

static size_t reported(struct rig *d, struct rig_event events[RIG_EVENTS])
{
    return rig_events_of(d, events, RIG_EVENTS);
}

TEST(a_key_is_created_once_and_every_change_has_a_larger_revision)
{
    struct rig d;
    rig_open(&d);
    coord_result first = rig_create(&d, "a", 0, "", NULL);
    ANSWERS("absent", first, COORD_OK, COORD_R_CREATED);
    CHECK_U64("no lease, no token", first.token, 0);
    coord_result second = rig_create(&d, "a", 0, "", NULL);
    ANSWERS("present", second, COORD_EXISTS, COORD_R_HELD);
    CHECK_U64("of the one that is there", second.revision, first.revision);
    ANSWERS("deleted", rig_remove(&d, "a", first.revision, NULL), COORD_OK, COORD_R_DELETED);
    ANSWERS("gone", rig_remove(&d, "a", COORD_ANY, NULL), COORD_NOT_FOUND, COORD_R_NONE);
    CHECK_U64("a deletion is a change", rig_create(&d, "a", 0, "", NULL).revision,
              first.revision + 2);
    rig_close(&d);
}

TEST(leases_end_in_the_order_of_their_deadlines_each_key_with_a_revision)
{
    static const char *const order[] = {"first", "z", "b", "m"};
    struct rig d;
    struct hand h = {0};
    struct rig_event events[RIG_EVENTS];
    rig_open(&d);
    (void)rig_create(&d, "z", 50, "o", &h);
    (void)rig_under(&d, "b", &h);
    (void)rig_create(&d, "m", 50, "o", NULL);
    (void)rig_create(&d, "first", 49, "o", NULL);
    uint64_t last = rig_create(&d, "later", 51, "o", NULL).revision;
    rig_watch(&d, "");
    d.now += 50 * MS;
    rig_expire(&d);
    CHECK_SIZE("all that is due", reported(&d, events), ARRAY_LEN(order));
    for (size_t i = 0; i < ARRAY_LEN(order); i++) {
        CHECK_TEXT("by deadline, then as they were granted", events[i].key, order[i]);
        CHECK_I64("kind", events[i].type, COORD_EXPIRE);
        CHECK_U64("one each", events[i].revision, last + 1 + i);
    }
    CHECK("not yet due", rig_get(&d, "later") != NULL);
    CHECK_SIZE("reported once", reported(&d, events), 0);
    rig_close(&d);
}

TEST(a_call_that_meets_the_deadline_finds_the_lease_over)
{
    struct rig d;
    struct hand h = {0}, other = {0};
    struct rig_event events[RIG_EVENTS];
    rig_open(&d);
    (void)rig_create(&d, "k", 20, "o", &h);
    rig_watch(&d, "");
    d.now += 20 * MS - 1;
    ANSWERS("in time", rig_renew(&d, &h), COORD_OK, COORD_R_RENEWED);
    CHECK_SIZE("a renewal is no event", reported(&d, events), 0);
    d.now += 20 * MS;
    ANSWERS("too late", rig_renew(&d, &h), COORD_EXPIRED, COORD_R_DEADLINE);
    CHECK_SIZE("and moves the end", reported(&d, events), 1);
    CHECK("absent", rig_get(&d, "k") == NULL);
    coord_result r = rig_create(&d, "k", 20, "p", &other);
    ANSWERS("free", r, COORD_OK, COORD_R_CREATED);
    coord_result late = rig_renew(&d, &h);
    ANSWERS("another has it", late, COORD_EXPIRED, COORD_R_SUPERSEDED);
    CHECK_U64("the token's claim", late.token, r.token);
    ANSWERS("release too", rig_release(&d, &h, 0, NULL), COORD_EXPIRED, COORD_R_SUPERSEDED);
    ANSWERS("untouched", rig_renew(&d, &other), COORD_OK, COORD_R_RENEWED);
    rig_close(&d);
}

TEST(a_retry_with_the_same_id_finds_its_own_work)
{
    struct rig d;
    struct hand h = {0}, again = {0};
    rig_open(&d);
    struct prim_call call = rig_call(&d);
    coord_result first = rig_create_as(&d, &call, "k", "v", 50, "o", &h);
    call.attempt = 1;
    coord_result second = rig_create_as(&d, &call, "k", "v", 50, "o", &again);
    ANSWERS("known", second, COORD_OK, COORD_R_REPLAYED);
    CHECK_U64("revision", second.revision, first.revision);
    CHECK("the stored lease, not the one drawn for the retry",
          memcmp(&h.grant.lease_id, &again.grant.lease_id, sizeof(coord_id)) == 0);
    CHECK_U64("nothing happened", d.shared->revision, first.revision);
    struct prim_delete in = {STR("k"), first.revision, &h.claim};
    struct prim_call gone = rig_call(&d);
    ANSWERS("own", d.b->ops->remove(d.b, &gone, &in), COORD_OK, COORD_R_DELETED);
    ANSWERS("again", d.b->ops->remove(d.b, &gone, &in), COORD_OK, COORD_R_ALREADY);
    ANSWERS("replaced since: a new call", rig_create_as(&d, &call, "k", "v", 50, "o", NULL),
            COORD_OK, COORD_R_CREATED);
    rig_close(&d);
}

TEST(compare_and_set_needs_the_revision_and_the_lease)
{
    struct rig d;
    struct hand h = {0}, stranger = {0};
    struct prim_grant grant = {0};
    rig_open(&d);
    ANSWERS("absent", rig_cas(&d, "k", 5, COORD_TTL_KEEP, NULL, &grant), COORD_CONFLICT,
            COORD_R_ABSENT);
    coord_result made = rig_create(&d, "k", 50, "o", &h);
    (void)rig_create(&d, "other", 50, "s", &stranger);
    ANSWERS("present", rig_cas(&d, "k", 0, 0, NULL, &grant), COORD_CONFLICT, COORD_R_PRESENT);
    ANSWERS("no lease", rig_cas(&d, "k", made.revision, COORD_TTL_KEEP, NULL, &grant),
            COORD_CONFLICT, COORD_R_NOT_OWNER);
    ANSWERS("another's", rig_cas(&d, "k", made.revision, COORD_TTL_KEEP, &stranger, &grant),
            COORD_CONFLICT, COORD_R_NOT_OWNER);
    struct hand forged = h;
    forged.held[0].token--;
    forged.claim.held = forged.held;
    ANSWERS("the token counts too",
            rig_cas(&d, "k", made.revision, COORD_TTL_KEEP, &forged, &grant), COORD_CONFLICT,
            COORD_R_NOT_OWNER);
    ANSWERS("old revision", rig_cas(&d, "k", made.revision - 1, COORD_TTL_KEEP, &h, &grant),
            COORD_CONFLICT, COORD_R_REVISION);
    coord_result kept = rig_cas(&d, "k", made.revision, COORD_TTL_KEEP, &h, &grant);
    ANSWERS("own", kept, COORD_OK, COORD_R_UPDATED);
    CHECK_U64("the same grant", kept.token, made.token);
    d.now += 10 * MS;
    coord_result renewed = rig_cas(&d, "k", kept.revision, 70, &h, &grant);
    ANSWERS("a new lease", renewed, COORD_OK, COORD_R_UPDATED);
    CHECK_U64("is a new grant", renewed.token, renewed.revision);
    ANSWERS("the old one is over", rig_renew(&d, &h), COORD_EXPIRED, COORD_R_SUPERSEDED);
    struct hand next = {0};
    hand_take(&next, "k", "o", &grant);
    coord_result dropped = rig_cas(&d, "k", renewed.revision, 0, &next, &grant);
    ANSWERS("permanent", dropped, COORD_OK, COORD_R_UPDATED);
    d.now += 1000 * MS;
    CHECK("outlives its lease", rig_get(&d, "k") != NULL);
    ANSWERS("no lease to replace", rig_cas(&d, "k", dropped.revision, 50, &next, &grant),
            COORD_CONFLICT, COORD_R_NOT_OWNER);
    rig_close(&d);
}

TEST(force_removes_a_leased_key_and_its_holder_is_notified)
{
    struct rig d;
    struct hand h = {0};
    rig_open(&d);
    (void)rig_create(&d, "k", 50, "o", &h);
    (void)rig_under(&d, "k2", &h);
    ANSWERS("any is not force", rig_remove(&d, "k", COORD_ANY, NULL), COORD_CONFLICT,
            COORD_R_NOT_OWNER);
    ANSWERS("force", rig_remove(&d, "k", COORD_FORCE, NULL), COORD_OK, COORD_R_DELETED);
    ANSWERS("renew", rig_renew(&d, &h), COORD_EXPIRED, COORD_R_REVOKED);
    CHECK("the other key lives to its deadline", rig_get(&d, "k2") != NULL);
    ANSWERS("the rest can be released", rig_release(&d, &h, 0, NULL), COORD_OK, COORD_R_RELEASED);
    CHECK("gone", rig_get(&d, "k2") == NULL);
    rig_close(&d);
}

TEST(release_is_final_and_may_be_repeated)
{
    struct rig d;
    struct hand h = {0};
    rig_open(&d);
    (void)rig_create(&d, "k", 50, "o", &h);
    (void)rig_under(&d, "k2", &h);
    ANSWERS("one key", rig_release(&d, &h, 0, "k2"), COORD_OK, COORD_R_RELEASED);
    CHECK("others stay", rig_get(&d, "k") != NULL);
    ANSWERS("a retry", rig_release(&d, &h, 1, "k2"), COORD_OK, COORD_R_ALREADY);
    h.claim.count = 1;
    ANSWERS("all", rig_release(&d, &h, 0, NULL), COORD_OK, COORD_R_RELEASED);
    ANSWERS("again", rig_release(&d, &h, 0, NULL), COORD_OK, COORD_R_ALREADY);
    ANSWERS("renew", rig_renew(&d, &h), COORD_EXPIRED, COORD_R_RELEASED);
    (void)rig_create(&d, "t", 20, "o", &h);
    h = (struct hand){0};
    (void)rig_create(&d, "e", 20, "o", &h);
    d.now += 20 * MS;
    ANSWERS("after the end", rig_release(&d, &h, 0, NULL), COORD_EXPIRED, COORD_R_DEADLINE);
    ANSWERS("a retry cannot know", rig_release(&d, &h, 1, NULL), COORD_OK, COORD_R_ALREADY);
    rig_close(&d);
}

TEST(the_lowest_free_slot_is_taken_unless_another_is_preferred)
{
    struct rig d;
    struct hand h[4];
    char want[PRIM_SLOT_KEY_CAP];
    memset(h, 0, sizeof h);
    rig_open(&d);
    struct prim_call call = rig_call(&d);
    ANSWERS("no group", rig_acquire(&d, "g", 3, "a", 50, COORD_NO_CREATE, NULL), COORD_NOT_FOUND,
            COORD_R_NONE);
    CHECK_U32("first", rig_acquire(&d, "g", 3, "a", 50, 0, &h[0]).slot, 0);
    prim_slot_key(STR("g"), 0, want);
    CHECK_TEXT("the slot's name is the library's", h[0].keys[0], want);
    CHECK("and its key", rig_get(&d, want) != NULL);
    CHECK_U32("preferred", rig_acquire_as(&d, &call, "g", 3, "b", 50, 0, 2, 0, &h[1]).slot, 2);
    ANSWERS("the same request", rig_acquire_as(&d, &call, "g", 3, "b", 50, 0, 2, 0, NULL), COORD_OK,
            COORD_R_REPLAYED);
    call = rig_call(&d);
    CHECK_U32("preferred but taken",
              rig_acquire_as(&d, &call, "g", 3, "c", 50, 0, 2, 0, &h[2]).slot, 1);
    coord_result full = rig_acquire(&d, "g", 3, "d", 50, 0, NULL);
    ANSWERS("full", full, COORD_EXISTS, COORD_R_FULL);
    CHECK_U32("live", full.live, 3);
    CHECK_I64("when to try again", full.hint_ms, 50);
    ANSWERS("another size", rig_acquire(&d, "g", 4, "d", 50, 0, NULL), COORD_CONFLICT,
            COORD_R_SLOT_COUNT);
    coord_result again = rig_acquire(&d, "g", 3, "c", 50, 0, NULL);
    ANSWERS("twice", again, COORD_EXISTS, COORD_R_ALREADY_HOLDER);
    CHECK_U32("its slot", again.slot, 1);
    CHECK_U64("its token", again.token, h[2].grant.token);
    (void)rig_release(&d, &h[0], 0, NULL);
    CHECK_U32("free at once", rig_acquire(&d, "g", 3, "d", 50, 0, &h[3]).slot, 0);
    CHECK("larger token", h[3].grant.token > h[0].grant.token);
    rig_close(&d);
}

TEST(a_takeover_is_one_change_and_ends_the_earlier_lease)
{
    struct rig d;
    struct hand old = {0}, now = {0};
    struct rig_event events[RIG_EVENTS];
    rig_open(&d);
    (void)rig_acquire(&d, "g", 1, "a", 50, 0, &old);
    rig_watch(&d, "g");
    coord_result r = rig_acquire(&d, "g", 1, "a", 50, COORD_TAKEOVER_SAME_OWNER, &now);
    ANSWERS("taken", r, COORD_OK, COORD_R_ACQUIRED);
    CHECK_U64("one revision", r.revision, old.grant.token + 1);
    CHECK_SIZE("one event", reported(&d, events), 1);
    CHECK_I64("another grant", events[0].type, COORD_PUT);
    coord_result late = rig_renew(&d, &old);
    ANSWERS("the earlier one", late, COORD_EXPIRED, COORD_R_SUPERSEDED);
    CHECK_U64("new token", late.token, r.token);
    ANSWERS("cannot release it", rig_release(&d, &old, 0, NULL), COORD_EXPIRED, COORD_R_SUPERSEDED);
    ANSWERS("nor with a retry", rig_release(&d, &old, 1, NULL), COORD_EXPIRED, COORD_R_SUPERSEDED);
    (void)rig_release(&d, &now, 0, NULL);
    ANSWERS("still known when the newer one has gone", rig_renew(&d, &old), COORD_EXPIRED,
            COORD_R_SUPERSEDED);
    rig_close(&d);
}

TEST(a_shrunk_group_is_full_until_those_above_have_left)
{
    struct rig d;
    struct hand h[3];
    memset(h, 0, sizeof h);
    rig_open(&d);
    ANSWERS("no group", rig_resize(&d, "g", 1, 2), COORD_NOT_FOUND, COORD_R_NONE);
    for (int i = 0; i < 3; i++) {
        char owner[2] = {(char)('a' + i), 0};
        (void)rig_acquire(&d, "g", 3, owner, 50, 0, &h[i]);
    }
    uint64_t revision = rig_group_revision(&d, "g");
    ANSWERS("stale", rig_resize(&d, "g", revision + 1, 2), COORD_CONFLICT, COORD_R_REVISION);
    coord_result shrunk = rig_resize(&d, "g", revision, 2);
    ANSWERS("shrunk", shrunk, COORD_OK, COORD_R_RESIZED);
    CHECK("a change", shrunk.revision > revision);
    (void)rig_release(&d, &h[0], 0, NULL);
    (void)rig_release(&d, &h[1], 0, NULL);
    ANSWERS("slot 2 is held", rig_acquire(&d, "g", 2, "x", 50, 0, NULL), COORD_EXISTS,
            COORD_R_FULL);
    ANSWERS("nobody was evicted", rig_renew(&d, &h[2]), COORD_OK, COORD_R_RENEWED);
    (void)rig_release(&d, &h[2], 0, NULL);
    CHECK_U32("open again", rig_acquire(&d, "g", 2, "x", 50, 0, NULL).slot, 0);
    ANSWERS("grown", rig_resize(&d, "g", shrunk.revision, 5), COORD_OK, COORD_R_RESIZED);
    CHECK_U32("more room", rig_acquire(&d, "g", 5, "y", 50, 0, NULL).slot, 1);
    rig_close(&d);
}

TEST(a_slot_rests_after_an_expiry_and_not_after_a_release)
{
    struct rig d;
    struct hand h = {0};
    rig_open(&d);
    struct prim_call call = rig_call(&d);
    (void)rig_acquire_as(&d, &call, "g", 1, "a", 20, 0, COORD_NO_SLOT, 100, &h);
    d.now += 20 * MS;
    coord_result resting = rig_acquire(&d, "g", 1, "b", 20, 0, NULL);
    ANSWERS("resting", resting, COORD_EXISTS, COORD_R_FULL);
    CHECK_U32("nobody has it", resting.live, 0);
    CHECK_I64("until", resting.hint_ms, 100);
    d.now += 100 * MS - 1;
    ANSWERS("still", rig_acquire(&d, "g", 1, "b", 20, 0, NULL), COORD_EXISTS, COORD_R_FULL);
    d.now += 1;
    ANSWERS("over", rig_acquire(&d, "g", 1, "b", 20, 0, &h), COORD_OK, COORD_R_ACQUIRED);
    (void)rig_release(&d, &h, 0, NULL);
    ANSWERS("no rest after a release", rig_acquire(&d, "g", 1, "c", 20, 0, NULL), COORD_OK,
            COORD_R_ACQUIRED);
    rig_close(&d);
}

TEST(an_adopted_lease_is_checked_and_not_extended)
{
    struct rig d;
    struct hand h = {0};
    int64_t left_ms = -1;
    struct prim_call call;
    rig_open(&d);
    call = rig_call(&d);
    (void)rig_create(&d, "k", 50, "o", &h);
    d.now += 30 * MS + 1;
    ANSWERS("live", d.b->ops->adopt(d.b, &call, &h.claim, &left_ms), COORD_OK, COORD_R_RENEWED);
    CHECK_I64("rounded down", left_ms, 19);
    d.now += 20 * MS;
    ANSWERS("over", d.b->ops->adopt(d.b, &call, &h.claim, &left_ms), COORD_EXPIRED,
            COORD_R_DEADLINE);
    rig_close(&d);
}

TEST(a_key_under_a_lease_that_is_over_is_refused)
{
    struct rig d;
    struct hand h = {0};
    rig_open(&d);
    (void)rig_create(&d, "k", 20, "o", &h);
    d.now += 20 * MS;
    ANSWERS("over", rig_under(&d, "k2", &h), COORD_EXPIRED, COORD_R_DEADLINE);
    CHECK("nothing was made", rig_get(&d, "k2") == NULL);
    rig_close(&d);
}

TEST(force_frees_a_slot)
{
    struct rig d;
    struct hand h = {0};
    rig_open(&d);
    (void)rig_acquire(&d, "g", 1, "a", 50, 0, &h);
    ANSWERS("force frees it", rig_remove(&d, "g/slot-0000", COORD_FORCE, NULL), COORD_OK,
            COORD_R_DELETED);
    ANSWERS("for another", rig_acquire(&d, "g", 1, "b", 50, 0, NULL), COORD_OK, COORD_R_ACQUIRED);
    rig_close(&d);
}

TEST(a_release_frees_the_keys_that_another_handle_has_put_under_the_lease)
{
    struct rig d;
    struct hand h = {0}, same;
    rig_open(&d);
    (void)rig_create(&d, "k", 50, "o", &h);
    same = h;
    same.claim.held = same.held;
    ANSWERS("another handle", rig_under(&d, "k2", &same), COORD_OK, COORD_R_CREATED);
    ANSWERS("all", rig_release(&d, &h, 0, NULL), COORD_OK, COORD_R_RELEASED);
    CHECK("gone with it", rig_get(&d, "k2") == NULL);
    rig_close(&d);
}

TEST(removed_keys_are_forgotten_in_the_end)
{
    struct rig d;
    enum { MANY = 9000 };
    rig_open(&d);
    for (int i = 0; i < MANY; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%d", i);
        (void)rig_create(&d, key, 0, "", NULL);
        (void)rig_remove(&d, key, COORD_ANY, NULL);
    }
    CHECK("not all is kept", d.shared->records.count < MANY);
    CHECK_SIZE("and nothing lives", d.shared->count, 0);
    rig_close(&d);
}

TEST(a_full_store_refuses_and_changes_nothing)
{
    struct rig d = {.ids = 0};
    struct prim_grant grant = {0};
    CHECK("open", rig_try_open(&d, 2, 10));
    struct prim_call call = rig_call(&d);
    uint64_t before = d.shared->revision;
    ANSWERS("bytes", rig_create_as(&d, &call, "a", "12345678901", 0, "", NULL), COORD_UNAVAILABLE,
            COORD_R_QUOTA);
    coord_result r = rig_create(&d, "a", 0, "", NULL);
    ANSWERS("room", r, COORD_OK, COORD_R_CREATED);
    (void)rig_create(&d, "b", 0, "", NULL);
    ANSWERS("entries", rig_create(&d, "c", 50, "o", NULL), COORD_UNAVAILABLE, COORD_R_QUOTA);
    ANSWERS("slots too", rig_acquire(&d, "g", 1, "o", 50, 0, NULL), COORD_UNAVAILABLE,
            COORD_R_QUOTA);
    ANSWERS("nor is the group there", rig_acquire(&d, "g", 1, "o", 50, COORD_NO_CREATE, NULL),
            COORD_NOT_FOUND, COORD_R_NONE);
    CHECK_U64("no revision was used", d.shared->revision, before + 2);
    ANSWERS("an update needs no room", rig_cas(&d, "a", r.revision, COORD_TTL_KEEP, NULL, &grant),
            COORD_OK, COORD_R_UPDATED);
    rig_close(&d);
}
