/* SPDX-License-Identifier: Apache-2.0 */
#include "desk.h"
#include "lib/test.h"

#define ANSWERS(why, result, want_code, want_reason)                                               \
    do {                                                                                           \
        coord_result answer_ = (result);                                                           \
        CHECK_TEXT(why, coord_code_name(answer_.code), coord_code_name(want_code));                \
        CHECK_TEXT(why, coord_reason_name(answer_.reason), coord_reason_name(want_reason));        \
    } while (0)

static size_t reported(struct desk *d, struct desk_event events[DESK_EVENTS])
{
    return desk_events_of(d, events, DESK_EVENTS);
}

TEST(a_key_is_created_once_and_every_change_has_a_larger_revision)
{
    struct desk d;
    desk_open(&d);
    coord_result first = desk_create(&d, "a", 0, "", NULL);
    ANSWERS("absent", first, COORD_OK, COORD_R_CREATED);
    CHECK_U64("no lease, no token", first.token, 0);
    coord_result second = desk_create(&d, "a", 0, "", NULL);
    ANSWERS("present", second, COORD_EXISTS, COORD_R_HELD);
    CHECK_U64("of the one that is there", second.revision, first.revision);
    ANSWERS("deleted", desk_remove(&d, "a", first.revision, NULL), COORD_OK, COORD_R_DELETED);
    ANSWERS("gone", desk_remove(&d, "a", COORD_ANY, NULL), COORD_NOT_FOUND, COORD_R_NONE);
    CHECK_U64("a deletion is a change", desk_create(&d, "a", 0, "", NULL).revision,
              first.revision + 2);
    desk_close(&d);
}

TEST(leases_end_in_the_order_of_their_deadlines_each_key_with_a_revision)
{
    static const char *const order[] = {"first", "z", "b", "m"};
    struct desk d;
    struct hand h = {0};
    struct desk_event events[DESK_EVENTS];
    desk_open(&d);
    (void)desk_create(&d, "z", 50, "o", &h);
    (void)desk_under(&d, "b", &h);
    (void)desk_create(&d, "m", 50, "o", NULL);
    (void)desk_create(&d, "first", 49, "o", NULL);
    uint64_t last = desk_create(&d, "later", 51, "o", NULL).revision;
    desk_watch(&d, "");
    d.now += 50 * MS;
    desk_expire(&d);
    CHECK_SIZE("all that is due", reported(&d, events), ARRAY_LEN(order));
    for (size_t i = 0; i < ARRAY_LEN(order); i++) {
        CHECK_TEXT("by deadline, then as they were granted", events[i].key, order[i]);
        CHECK_I64("kind", events[i].type, COORD_EXPIRE);
        CHECK_U64("one each", events[i].revision, last + 1 + i);
    }
    CHECK("not yet due", desk_get(&d, "later") != NULL);
    CHECK_SIZE("reported once", reported(&d, events), 0);
    desk_close(&d);
}

TEST(a_call_that_meets_the_deadline_finds_the_lease_over)
{
    struct desk d;
    struct hand h = {0}, other = {0};
    struct desk_event events[DESK_EVENTS];
    desk_open(&d);
    (void)desk_create(&d, "k", 20, "o", &h);
    desk_watch(&d, "");
    d.now += 20 * MS - 1;
    ANSWERS("in time", desk_renew(&d, &h), COORD_OK, COORD_R_RENEWED);
    CHECK_SIZE("a renewal is no event", reported(&d, events), 0);
    d.now += 20 * MS;
    ANSWERS("too late", desk_renew(&d, &h), COORD_EXPIRED, COORD_R_DEADLINE);
    CHECK_SIZE("and moves the end", reported(&d, events), 1);
    CHECK("absent", desk_get(&d, "k") == NULL);
    coord_result r = desk_create(&d, "k", 20, "p", &other);
    ANSWERS("free", r, COORD_OK, COORD_R_CREATED);
    coord_result late = desk_renew(&d, &h);
    ANSWERS("another has it", late, COORD_EXPIRED, COORD_R_SUPERSEDED);
    CHECK_U64("whose token", late.token, r.token);
    ANSWERS("release too", desk_release(&d, &h, 0, NULL), COORD_EXPIRED, COORD_R_SUPERSEDED);
    ANSWERS("untouched", desk_renew(&d, &other), COORD_OK, COORD_R_RENEWED);
    desk_close(&d);
}

TEST(a_retry_with_the_same_id_finds_its_own_work)
{
    struct desk d;
    struct hand h = {0}, again = {0};
    desk_open(&d);
    struct prim_call call = desk_call(&d);
    coord_result first = desk_create_as(&d, &call, "k", "v", 50, "o", &h);
    call.attempt = 1;
    coord_result second = desk_create_as(&d, &call, "k", "v", 50, "o", &again);
    ANSWERS("known", second, COORD_OK, COORD_R_REPLAYED);
    CHECK_U64("revision", second.revision, first.revision);
    CHECK("the stored lease, not the one drawn for the retry",
          memcmp(&h.grant.lease_id, &again.grant.lease_id, sizeof(coord_id)) == 0);
    CHECK_U64("nothing happened", d.shared->revision, first.revision);
    struct prim_delete in = {STR("k"), first.revision, &h.claim};
    struct prim_call gone = desk_call(&d);
    ANSWERS("own", d.b->ops->remove(d.b, &gone, &in), COORD_OK, COORD_R_DELETED);
    ANSWERS("again", d.b->ops->remove(d.b, &gone, &in), COORD_OK, COORD_R_ALREADY);
    ANSWERS("replaced since: a new call", desk_create_as(&d, &call, "k", "v", 50, "o", NULL),
            COORD_OK, COORD_R_CREATED);
    desk_close(&d);
}

TEST(compare_and_set_needs_the_revision_and_the_lease)
{
    struct desk d;
    struct hand h = {0}, stranger = {0};
    struct prim_grant grant = {0};
    desk_open(&d);
    ANSWERS("absent", desk_cas(&d, "k", 5, COORD_TTL_KEEP, NULL, &grant), COORD_CONFLICT,
            COORD_R_ABSENT);
    coord_result made = desk_create(&d, "k", 50, "o", &h);
    (void)desk_create(&d, "other", 50, "s", &stranger);
    ANSWERS("present", desk_cas(&d, "k", 0, 0, NULL, &grant), COORD_CONFLICT, COORD_R_PRESENT);
    ANSWERS("no lease", desk_cas(&d, "k", made.revision, COORD_TTL_KEEP, NULL, &grant),
            COORD_CONFLICT, COORD_R_NOT_OWNER);
    ANSWERS("another's", desk_cas(&d, "k", made.revision, COORD_TTL_KEEP, &stranger, &grant),
            COORD_CONFLICT, COORD_R_NOT_OWNER);
    struct hand forged = h;
    forged.held[0].token--;
    forged.claim.held = forged.held;
    ANSWERS("the token counts too",
            desk_cas(&d, "k", made.revision, COORD_TTL_KEEP, &forged, &grant), COORD_CONFLICT,
            COORD_R_NOT_OWNER);
    ANSWERS("old revision", desk_cas(&d, "k", made.revision - 1, COORD_TTL_KEEP, &h, &grant),
            COORD_CONFLICT, COORD_R_REVISION);
    coord_result kept = desk_cas(&d, "k", made.revision, COORD_TTL_KEEP, &h, &grant);
    ANSWERS("own", kept, COORD_OK, COORD_R_UPDATED);
    CHECK_U64("the same grant", kept.token, made.token);
    d.now += 10 * MS;
    coord_result renewed = desk_cas(&d, "k", kept.revision, 70, &h, &grant);
    ANSWERS("a new lease", renewed, COORD_OK, COORD_R_UPDATED);
    CHECK_U64("is a new grant", renewed.token, renewed.revision);
    ANSWERS("the old one is over", desk_renew(&d, &h), COORD_EXPIRED, COORD_R_SUPERSEDED);
    struct hand next = {0};
    hand_take(&next, "k", "o", &grant);
    coord_result dropped = desk_cas(&d, "k", renewed.revision, 0, &next, &grant);
    ANSWERS("permanent", dropped, COORD_OK, COORD_R_UPDATED);
    d.now += 1000 * MS;
    CHECK("outlives its lease", desk_get(&d, "k") != NULL);
    ANSWERS("no lease to replace", desk_cas(&d, "k", dropped.revision, 50, &next, &grant),
            COORD_CONFLICT, COORD_R_NOT_OWNER);
    desk_close(&d);
}

TEST(force_takes_a_leased_key_and_its_holder_learns_it)
{
    struct desk d;
    struct hand h = {0};
    desk_open(&d);
    (void)desk_create(&d, "k", 50, "o", &h);
    (void)desk_under(&d, "k2", &h);
    ANSWERS("any is not force", desk_remove(&d, "k", COORD_ANY, NULL), COORD_CONFLICT,
            COORD_R_NOT_OWNER);
    ANSWERS("force", desk_remove(&d, "k", COORD_FORCE, NULL), COORD_OK, COORD_R_DELETED);
    ANSWERS("renew", desk_renew(&d, &h), COORD_EXPIRED, COORD_R_REVOKED);
    CHECK("the other key lives to its deadline", desk_get(&d, "k2") != NULL);
    ANSWERS("what is left can be released", desk_release(&d, &h, 0, NULL), COORD_OK,
            COORD_R_RELEASED);
    CHECK("gone", desk_get(&d, "k2") == NULL);
    desk_close(&d);
}

TEST(release_is_final_and_may_be_repeated)
{
    struct desk d;
    struct hand h = {0};
    desk_open(&d);
    (void)desk_create(&d, "k", 50, "o", &h);
    (void)desk_under(&d, "k2", &h);
    ANSWERS("one key", desk_release(&d, &h, 0, "k2"), COORD_OK, COORD_R_RELEASED);
    CHECK("others stay", desk_get(&d, "k") != NULL);
    ANSWERS("a retry", desk_release(&d, &h, 1, "k2"), COORD_OK, COORD_R_ALREADY);
    h.claim.count = 1;
    ANSWERS("all", desk_release(&d, &h, 0, NULL), COORD_OK, COORD_R_RELEASED);
    ANSWERS("again", desk_release(&d, &h, 0, NULL), COORD_OK, COORD_R_ALREADY);
    ANSWERS("renew", desk_renew(&d, &h), COORD_EXPIRED, COORD_R_RELEASED);
    (void)desk_create(&d, "t", 20, "o", &h);
    h = (struct hand){0};
    (void)desk_create(&d, "e", 20, "o", &h);
    d.now += 20 * MS;
    ANSWERS("after the end", desk_release(&d, &h, 0, NULL), COORD_EXPIRED, COORD_R_DEADLINE);
    ANSWERS("a retry cannot know", desk_release(&d, &h, 1, NULL), COORD_OK, COORD_R_ALREADY);
    desk_close(&d);
}

TEST(the_lowest_free_slot_is_taken_unless_another_is_preferred)
{
    struct desk d;
    struct hand h[4];
    char want[PRIM_SLOT_KEY_CAP];
    memset(h, 0, sizeof h);
    desk_open(&d);
    struct prim_call call = desk_call(&d);
    ANSWERS("no group", desk_acquire(&d, "g", 3, "a", 50, COORD_NO_CREATE, NULL), COORD_NOT_FOUND,
            COORD_R_NONE);
    CHECK_U32("first", desk_acquire(&d, "g", 3, "a", 50, 0, &h[0]).slot, 0);
    prim_slot_key(STR("g"), 0, want);
    CHECK_TEXT("the slot's name is the library's", h[0].keys[0], want);
    CHECK("and its key", desk_get(&d, want) != NULL);
    CHECK_U32("preferred", desk_acquire_as(&d, &call, "g", 3, "b", 50, 0, 2, 0, &h[1]).slot, 2);
    ANSWERS("the same request", desk_acquire_as(&d, &call, "g", 3, "b", 50, 0, 2, 0, NULL),
            COORD_OK, COORD_R_REPLAYED);
    call = desk_call(&d);
    CHECK_U32("preferred but taken",
              desk_acquire_as(&d, &call, "g", 3, "c", 50, 0, 2, 0, &h[2]).slot, 1);
    coord_result full = desk_acquire(&d, "g", 3, "d", 50, 0, NULL);
    ANSWERS("full", full, COORD_EXISTS, COORD_R_FULL);
    CHECK_U32("live", full.live, 3);
    CHECK_I64("when to try again", full.hint_ms, 50);
    ANSWERS("another size", desk_acquire(&d, "g", 4, "d", 50, 0, NULL), COORD_CONFLICT,
            COORD_R_SLOT_COUNT);
    coord_result again = desk_acquire(&d, "g", 3, "c", 50, 0, NULL);
    ANSWERS("twice", again, COORD_EXISTS, COORD_R_ALREADY_HOLDER);
    CHECK_U32("its slot", again.slot, 1);
    CHECK_U64("its token", again.token, h[2].grant.token);
    (void)desk_release(&d, &h[0], 0, NULL);
    CHECK_U32("free at once", desk_acquire(&d, "g", 3, "d", 50, 0, &h[3]).slot, 0);
    CHECK("larger token", h[3].grant.token > h[0].grant.token);
    desk_close(&d);
}

TEST(a_takeover_is_one_change_and_ends_the_earlier_lease)
{
    struct desk d;
    struct hand old = {0}, now = {0};
    struct desk_event events[DESK_EVENTS];
    desk_open(&d);
    (void)desk_acquire(&d, "g", 1, "a", 50, 0, &old);
    desk_watch(&d, "g");
    coord_result r = desk_acquire(&d, "g", 1, "a", 50, COORD_TAKEOVER_SAME_OWNER, &now);
    ANSWERS("taken", r, COORD_OK, COORD_R_ACQUIRED);
    CHECK_U64("one revision", r.revision, old.grant.token + 1);
    CHECK_SIZE("one event", reported(&d, events), 1);
    CHECK_I64("another grant", events[0].type, COORD_PUT);
    coord_result late = desk_renew(&d, &old);
    ANSWERS("the earlier one", late, COORD_EXPIRED, COORD_R_SUPERSEDED);
    CHECK_U64("new token", late.token, r.token);
    ANSWERS("cannot release it", desk_release(&d, &old, 0, NULL), COORD_EXPIRED,
            COORD_R_SUPERSEDED);
    ANSWERS("nor with a retry", desk_release(&d, &old, 1, NULL), COORD_EXPIRED, COORD_R_SUPERSEDED);
    (void)desk_release(&d, &now, 0, NULL);
    ANSWERS("still known when the newer one has gone", desk_renew(&d, &old), COORD_EXPIRED,
            COORD_R_SUPERSEDED);
    desk_close(&d);
}

TEST(a_shrunk_group_is_full_until_those_above_have_left)
{
    struct desk d;
    struct hand h[3];
    memset(h, 0, sizeof h);
    desk_open(&d);
    ANSWERS("no group", desk_resize(&d, "g", 1, 2), COORD_NOT_FOUND, COORD_R_NONE);
    for (int i = 0; i < 3; i++) {
        char owner[2] = {(char)('a' + i), 0};
        (void)desk_acquire(&d, "g", 3, owner, 50, 0, &h[i]);
    }
    uint64_t revision = desk_group_revision(&d, "g");
    ANSWERS("stale", desk_resize(&d, "g", revision + 1, 2), COORD_CONFLICT, COORD_R_REVISION);
    coord_result shrunk = desk_resize(&d, "g", revision, 2);
    ANSWERS("shrunk", shrunk, COORD_OK, COORD_R_RESIZED);
    CHECK("a change", shrunk.revision > revision);
    (void)desk_release(&d, &h[0], 0, NULL);
    (void)desk_release(&d, &h[1], 0, NULL);
    ANSWERS("slot 2 is held", desk_acquire(&d, "g", 2, "x", 50, 0, NULL), COORD_EXISTS,
            COORD_R_FULL);
    ANSWERS("nobody was evicted", desk_renew(&d, &h[2]), COORD_OK, COORD_R_RENEWED);
    (void)desk_release(&d, &h[2], 0, NULL);
    CHECK_U32("open again", desk_acquire(&d, "g", 2, "x", 50, 0, NULL).slot, 0);
    ANSWERS("grown", desk_resize(&d, "g", shrunk.revision, 5), COORD_OK, COORD_R_RESIZED);
    CHECK_U32("more room", desk_acquire(&d, "g", 5, "y", 50, 0, NULL).slot, 1);
    desk_close(&d);
}

TEST(a_slot_rests_after_an_expiry_and_not_after_a_release)
{
    struct desk d;
    struct hand h = {0};
    desk_open(&d);
    struct prim_call call = desk_call(&d);
    (void)desk_acquire_as(&d, &call, "g", 1, "a", 20, 0, COORD_NO_SLOT, 100, &h);
    d.now += 20 * MS;
    coord_result resting = desk_acquire(&d, "g", 1, "b", 20, 0, NULL);
    ANSWERS("resting", resting, COORD_EXISTS, COORD_R_FULL);
    CHECK_U32("nobody has it", resting.live, 0);
    CHECK_I64("until", resting.hint_ms, 100);
    d.now += 100 * MS - 1;
    ANSWERS("still", desk_acquire(&d, "g", 1, "b", 20, 0, NULL), COORD_EXISTS, COORD_R_FULL);
    d.now += 1;
    ANSWERS("over", desk_acquire(&d, "g", 1, "b", 20, 0, &h), COORD_OK, COORD_R_ACQUIRED);
    (void)desk_release(&d, &h, 0, NULL);
    ANSWERS("no rest after a release", desk_acquire(&d, "g", 1, "c", 20, 0, NULL), COORD_OK,
            COORD_R_ACQUIRED);
    desk_close(&d);
}

TEST(an_adopted_lease_is_checked_and_not_extended)
{
    struct desk d;
    struct hand h = {0};
    int64_t left_ms = -1;
    struct prim_call call;
    desk_open(&d);
    call = desk_call(&d);
    (void)desk_create(&d, "k", 50, "o", &h);
    d.now += 30 * MS + 1;
    ANSWERS("live", d.b->ops->adopt(d.b, &call, &h.claim, &left_ms), COORD_OK, COORD_R_RENEWED);
    CHECK_I64("rounded down", left_ms, 19);
    d.now += 20 * MS;
    ANSWERS("over", d.b->ops->adopt(d.b, &call, &h.claim, &left_ms), COORD_EXPIRED,
            COORD_R_DEADLINE);
    desk_close(&d);
}

TEST(a_key_under_a_lease_that_is_over_is_refused)
{
    struct desk d;
    struct hand h = {0};
    desk_open(&d);
    (void)desk_create(&d, "k", 20, "o", &h);
    d.now += 20 * MS;
    ANSWERS("over", desk_under(&d, "k2", &h), COORD_EXPIRED, COORD_R_DEADLINE);
    CHECK("nothing was made", desk_get(&d, "k2") == NULL);
    desk_close(&d);
}

TEST(force_frees_a_slot)
{
    struct desk d;
    struct hand h = {0};
    desk_open(&d);
    (void)desk_acquire(&d, "g", 1, "a", 50, 0, &h);
    ANSWERS("force frees it", desk_remove(&d, "g/slot-0000", COORD_FORCE, NULL), COORD_OK,
            COORD_R_DELETED);
    ANSWERS("for another", desk_acquire(&d, "g", 1, "b", 50, 0, NULL), COORD_OK, COORD_R_ACQUIRED);
    desk_close(&d);
}

TEST(a_release_frees_the_keys_that_another_handle_has_put_under_the_lease)
{
    struct desk d;
    struct hand h = {0}, same;
    desk_open(&d);
    (void)desk_create(&d, "k", 50, "o", &h);
    same = h;
    same.claim.held = same.held;
    ANSWERS("another handle", desk_under(&d, "k2", &same), COORD_OK, COORD_R_CREATED);
    ANSWERS("all", desk_release(&d, &h, 0, NULL), COORD_OK, COORD_R_RELEASED);
    CHECK("gone with it", desk_get(&d, "k2") == NULL);
    desk_close(&d);
}

TEST(what_is_gone_is_forgotten_in_the_end)
{
    struct desk d;
    enum { MANY = 9000 };
    desk_open(&d);
    for (int i = 0; i < MANY; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%d", i);
        (void)desk_create(&d, key, 0, "", NULL);
        (void)desk_remove(&d, key, COORD_ANY, NULL);
    }
    CHECK("not all is kept", d.shared->records.count < MANY);
    CHECK_SIZE("and nothing lives", d.shared->count, 0);
    desk_close(&d);
}

TEST(a_full_store_refuses_and_changes_nothing)
{
    struct desk d = {.ids = 0};
    struct prim_grant grant = {0};
    CHECK("open", desk_try_open(&d, 2, 10));
    struct prim_call call = desk_call(&d);
    uint64_t before = d.shared->revision;
    ANSWERS("bytes", desk_create_as(&d, &call, "a", "12345678901", 0, "", NULL), COORD_UNAVAILABLE,
            COORD_R_QUOTA);
    coord_result r = desk_create(&d, "a", 0, "", NULL);
    ANSWERS("room", r, COORD_OK, COORD_R_CREATED);
    (void)desk_create(&d, "b", 0, "", NULL);
    ANSWERS("entries", desk_create(&d, "c", 50, "o", NULL), COORD_UNAVAILABLE, COORD_R_QUOTA);
    ANSWERS("slots too", desk_acquire(&d, "g", 1, "o", 50, 0, NULL), COORD_UNAVAILABLE,
            COORD_R_QUOTA);
    ANSWERS("nor is the group there", desk_acquire(&d, "g", 1, "o", 50, COORD_NO_CREATE, NULL),
            COORD_NOT_FOUND, COORD_R_NONE);
    CHECK_U64("no revision was used", d.shared->revision, before + 2);
    ANSWERS("an update needs no room", desk_cas(&d, "a", r.revision, COORD_TTL_KEEP, NULL, &grant),
            COORD_OK, COORD_R_UPDATED);
    desk_close(&d);
}
