/* SPDX-License-Identifier: Apache-2.0 */
/* Entries and leases of a file store in one process: the answers of the contract, and the disk's
 * content after them. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "lib/test.h"
#include "rig.h"

TEST(an_entry_is_created_once_changed_by_revision_and_buried)
{
    struct rig rig;
    char value[32];
    const char *dir = rig_dir();
    rig_open(&rig, dir, "");
    coord_result made = rig_create(&rig, "a/b", "one", 0, "", NULL);
    CHECK_ANSWER("created", made, COORD_OK, COORD_R_CREATED);
    CHECK("revisions start above epoch << 40", made.revision >= UINT64_C(1) << 40);
    coord_result again = rig_create(&rig, "a/b", "two", 0, "", NULL);
    CHECK_ANSWER("once", again, COORD_EXISTS, COORD_R_HELD);
    CHECK_U64("the first one's revision", again.revision, made.revision);
    CHECK_ANSWER("read", rig_get(&rig, "a/b", value, sizeof value), COORD_OK, COORD_R_NONE);
    CHECK_TEXT("the first value", value, "one");
    CHECK_ANSWER("wrong revision", rig_cas(&rig, "a/b", made.revision + 7, "x", -1, NULL, NULL),
                 COORD_CONFLICT, COORD_R_REVISION);
    coord_result changed = rig_cas(&rig, "a/b", made.revision, "three", -1, NULL, NULL);
    CHECK_ANSWER("right revision", changed, COORD_OK, COORD_R_UPDATED);
    CHECK("larger", changed.revision > made.revision);
    CHECK_ANSWER("gone by", rig_remove(&rig, "a/b", made.revision, NULL), COORD_CONFLICT,
                 COORD_R_REVISION);
    coord_result removed = rig_remove(&rig, "a/b", changed.revision, NULL);
    CHECK_ANSWER("deleted", removed, COORD_OK, COORD_R_DELETED);
    CHECK("a deletion has a revision", removed.revision > changed.revision);
    CHECK_ANSWER("absent", rig_get(&rig, "a/b", NULL, 0), COORD_NOT_FOUND, COORD_R_NONE);
    CHECK_ANSWER("absent", rig_remove(&rig, "a/b", COORD_ANY, NULL), COORD_NOT_FOUND, COORD_R_NONE);
    CHECK_ANSWER("absent", rig_cas(&rig, "a/b", removed.revision, "x", -1, NULL, NULL),
                 COORD_CONFLICT, COORD_R_ABSENT);
    coord_result created = rig_cas(&rig, "a/b", 0, "four", 0, NULL, NULL);
    CHECK_ANSWER("created again", created, COORD_OK, COORD_R_CREATED);
    CHECK("larger than the deletion's", created.revision > removed.revision);
    CHECK_ANSWER("present", rig_cas(&rig, "a/b", 0, "five", 0, NULL, NULL), COORD_CONFLICT,
                 COORD_R_PRESENT);
    CHECK_I64("no temporary file is left", rig_count(dir, "b/a/t"), 0);
    rig_close(&rig);
}

TEST(what_was_written_is_there_after_reopening_under_the_same_store_id)
{
    struct rig rig;
    char value[32];
    const char *dir = rig_dir();
    rig_open(&rig, dir, "");
    coord_id id = rig.backend->id;
    CHECK_ANSWER("created", rig_create(&rig, "top", "1", 0, "", NULL), COORD_OK, COORD_R_CREATED);
    CHECK_ANSWER("created", rig_create(&rig, "a/b/c", "2", 0, "", NULL), COORD_OK, COORD_R_CREATED);
    rig_close(&rig);
    rig_open(&rig, dir, "");
    CHECK("the same store", prim_id_equal(&id, &rig.backend->id));
    CHECK_U64("the same boot, the same epoch", rig.store->epoch, 1);
    CHECK_ANSWER("read", rig_get(&rig, "a/b/c", value, sizeof value), COORD_OK, COORD_R_NONE);
    CHECK_TEXT("its value", value, "2");
    CHECK_ANSWER("read", rig_get(&rig, "top", value, sizeof value), COORD_OK, COORD_R_NONE);
    CHECK_I64("the documented names", rig_count(dir, "b/a%2Fb/h"), 1);
    CHECK_I64("the empty bucket", rig_count(dir, "b/~/h"), 1);
    rig_close(&rig);
}

TEST(the_execute_bit_marks_heads_that_were_synced)
{
    struct rig rig;
    struct rig_lease lease;
    struct stat info;
    char path[400];
    const char *dir = rig_dir();
    rig_open(&rig, dir, "");
    (void)rig_create(&rig, "a/kept", "1", 0, "", NULL);
    (void)rig_create(&rig, "a/leased", "1", 60000, "me", &lease);
    (void)snprintf(path, sizeof path, "%s/b/a/h/kept", dir);
    CHECK("there", stat(path, &info) == 0);
    CHECK_U64("durable", info.st_mode & 0777, 0700);
    (void)snprintf(path, sizeof path, "%s/b/a/h/leased", dir);
    CHECK("there", stat(path, &info) == 0);
    CHECK_U64("not durable", info.st_mode & 0777, 0600);
    rig_close(&rig);
    dir = rig_dir();
    rig_open(&rig, dir, "sync=always&mode=0770");
    (void)rig_create(&rig, "a/leased", "1", 60000, "me", &lease);
    (void)snprintf(path, sizeof path, "%s/b/a/h/leased", dir);
    CHECK("there", stat(path, &info) == 0);
    CHECK_U64("sync=always makes it durable, mode= opens it to the group", info.st_mode & 0777,
              0760);
    rig_close(&rig);
}

TEST(a_leased_entry_needs_its_lease_and_ends_with_it)
{
    struct rig rig;
    struct rig_lease lease, other;
    rig_open(&rig, rig_dir(), "");
    coord_result made = rig_create(&rig, "k", "1", 1000, "me", &lease);
    CHECK_ANSWER("created", made, COORD_OK, COORD_R_CREATED);
    CHECK_U64("the token is the revision", made.token, made.revision);
    CHECK_ANSWER("not without", rig_cas(&rig, "k", made.revision, "2", -1, NULL, NULL),
                 COORD_CONFLICT, COORD_R_NOT_OWNER);
    CHECK_ANSWER("not without", rig_remove(&rig, "k", COORD_ANY, NULL), COORD_CONFLICT,
                 COORD_R_NOT_OWNER);
    coord_result held = rig_create(&rig, "k", "2", 1000, "you", &other);
    CHECK_ANSWER("held", held, COORD_EXISTS, COORD_R_HELD);
    CHECK_TEXT("the owner", held.owner, "me");
    CHECK("a hint of the time left", held.hint_ms >= 0 && held.hint_ms <= 1000);
    coord_result changed = rig_cas(&rig, "k", made.revision, "2", COORD_TTL_KEEP, &lease, NULL);
    CHECK_ANSWER("with it", changed, COORD_OK, COORD_R_UPDATED);
    CHECK_U64("the token stays", changed.token, made.token);
    for (int i = 0; i < 6; i++) {
        rig_sleep_ms(50);
        CHECK_ANSWER("renewed", rig_renew(&rig, &lease), COORD_OK, COORD_R_RENEWED);
    }
    rig_sleep_ms(1050);
    CHECK_ANSWER("ended", rig_get(&rig, "k", NULL, 0), COORD_NOT_FOUND, COORD_R_NONE);
    CHECK_ANSWER("for good", rig_renew(&rig, &lease), COORD_EXPIRED, COORD_R_DEADLINE);
    coord_result next = rig_create(&rig, "k", "3", 60000, "you", &other);
    CHECK_ANSWER("another's", next, COORD_OK, COORD_R_CREATED);
    CHECK("a larger token, past the number of the expiry", next.token >= changed.revision + 2);
    coord_result late = rig_renew(&rig, &lease);
    CHECK_ANSWER("superseded", late, COORD_EXPIRED, COORD_R_SUPERSEDED);
    CHECK_U64("by this one", late.token, next.token);
    CHECK_ANSWER("and not released", rig_release(&rig, &lease, NULL), COORD_EXPIRED,
                 COORD_R_SUPERSEDED);
    CHECK_ANSWER("still the other's", rig_get(&rig, "k", NULL, 0), COORD_OK, COORD_R_NONE);
    rig_close(&rig);
}

TEST(O1_the_lease_id_and_the_token_must_both_be_right)
{
    struct rig rig;
    struct rig_lease lease, wrong;
    rig_open(&rig, rig_dir(), "");
    coord_result made = rig_create(&rig, "k", "1", 60000, "me", &lease);
    wrong = lease;
    wrong.held[0].key = wrong.keys[0];
    wrong.claim.held = wrong.held;
    wrong.held[0].token++;
    CHECK_ANSWER("token", rig_cas(&rig, "k", made.revision, "2", -1, &wrong, NULL), COORD_CONFLICT,
                 COORD_R_NOT_OWNER);
    CHECK_ANSWER("token", rig_remove(&rig, "k", COORD_ANY, &wrong), COORD_CONFLICT,
                 COORD_R_NOT_OWNER);
    wrong.held[0].token--;
    wrong.claim.lease_id.b[3] ^= 1;
    CHECK_ANSWER("id", rig_cas(&rig, "k", made.revision, "2", -1, &wrong, NULL), COORD_CONFLICT,
                 COORD_R_NOT_OWNER);
    CHECK_ANSWER("id", rig_release(&rig, &wrong, NULL), COORD_EXPIRED, COORD_R_SUPERSEDED);
    CHECK_ANSWER("id", rig_renew(&rig, &wrong), COORD_EXPIRED, COORD_R_SUPERSEDED);
    CHECK_ANSWER("both", rig_cas(&rig, "k", made.revision, "2", -1, &lease, NULL), COORD_OK,
                 COORD_R_UPDATED);
    rig_close(&rig);
}

TEST(a_release_frees_the_key_at_once_and_is_remembered)
{
    struct rig rig;
    struct rig_lease lease, other;
    const char *dir = rig_dir();
    rig_open(&rig, dir, "");
    (void)rig_create(&rig, "a/k", "1", 60000, "me", &lease);
    CHECK_I64("a record", rig_count(dir, "s"), 1);
    CHECK_ANSWER("released", rig_release(&rig, &lease, NULL), COORD_OK, COORD_R_RELEASED);
    CHECK_I64("no record", rig_count(dir, "s"), 0);
    CHECK_ANSWER("again", rig_release(&rig, &lease, NULL), COORD_OK, COORD_R_ALREADY);
    CHECK_ANSWER("renewal", rig_renew(&rig, &lease), COORD_EXPIRED, COORD_R_RELEASED);
    CHECK_ANSWER("free", rig_create(&rig, "a/k", "2", 60000, "you", &other), COORD_OK,
                 COORD_R_CREATED);
    CHECK_ANSWER("another's now", rig_release(&rig, &lease, NULL), COORD_EXPIRED,
                 COORD_R_SUPERSEDED);
    rig_close(&rig);
}

TEST(dropping_or_replacing_the_lease_of_an_entry)
{
    struct rig rig;
    struct rig_lease lease, next;
    rig_open(&rig, rig_dir(), "");
    coord_result made = rig_create(&rig, "k", "1", 1000, "me", &lease);
    coord_result changed = rig_cas(&rig, "k", made.revision, "2", 60000, &lease, &next);
    CHECK_ANSWER("a new lease", changed, COORD_OK, COORD_R_UPDATED);
    CHECK("a larger token", changed.token > made.token);
    coord_result kept = rig_cas(&rig, "k", changed.revision, "3", 0, &next, NULL);
    CHECK_ANSWER("none", kept, COORD_OK, COORD_R_UPDATED);
    rig_sleep_ms(1050);
    CHECK_ANSWER("it stays", rig_get(&rig, "k", NULL, 0), COORD_OK, COORD_R_NONE);
    CHECK_ANSWER("for anybody", rig_cas(&rig, "k", kept.revision, "4", -1, NULL, NULL), COORD_OK,
                 COORD_R_UPDATED);
    rig_close(&rig);
}

TEST(a_forced_delete_is_reported_to_the_holder)
{
    struct rig rig;
    struct rig_lease lease;
    rig_open(&rig, rig_dir(), "");
    (void)rig_create(&rig, "k", "1", 60000, "me", &lease);
    rig_guard(&rig, &lease);
    CHECK_ANSWER("deleted", rig_remove(&rig, "k", COORD_FORCE, NULL), COORD_OK, COORD_R_DELETED);
    CHECK_ANSWER("revoked", rig_renew(&rig, &lease), COORD_EXPIRED, COORD_R_REVOKED);
    rig_await(&rig.lost);
    CHECK_I64("reported once", atomic_load(&rig.lost), 1);
    CHECK_I64("as revoked", atomic_load(&rig.lost_reason), COORD_R_REVOKED);
    rig_close(&rig);
}

TEST(one_lease_may_hold_several_keys)
{
    struct rig rig;
    struct rig_lease lease, other;
    rig_open(&rig, rig_dir(), "");
    (void)rig_create(&rig, "a/one", "1", 60000, "me", &lease);
    coord_result two = rig_create_under(&rig, &lease, "b/two", "2");
    CHECK_ANSWER("a second key", two, COORD_OK, COORD_R_CREATED);
    CHECK_ANSWER("one is released", rig_release(&rig, &lease, "a/one"), COORD_OK, COORD_R_RELEASED);
    CHECK_ANSWER("free", rig_create(&rig, "a/one", "1", 60000, "you", &other), COORD_OK,
                 COORD_R_CREATED);
    CHECK_ANSWER("the other stays", rig_create(&rig, "b/two", "2", 0, "", NULL), COORD_EXISTS,
                 COORD_R_HELD);
    lease.held[0] = lease.held[1];
    lease.claim.count = 1;
    CHECK_ANSWER("and is renewed", rig_renew(&rig, &lease), COORD_OK, COORD_R_RENEWED);
    rig_close(&rig);
}

TEST(a_repeated_request_is_answered_as_the_first_time)
{
    struct rig rig;
    struct rig_lease lease, same;
    const coord_id id = prim_id_request();
    rig_open(&rig, rig_dir(), "");
    rig.request = id;
    coord_result first = rig_create(&rig, "k", "1", 60000, "me", &lease);
    rig.request = id;
    coord_result second = rig_create(&rig, "k", "1", 60000, "me", &same);
    CHECK_ANSWER("replayed", second, COORD_OK, COORD_R_REPLAYED);
    CHECK_U64("its token", second.token, first.token);
    CHECK("its lease", prim_id_equal(&lease.grant.lease_id, &same.grant.lease_id));
    CHECK("no longer than it was granted for",
          same.grant.sent_ns > 0 && same.grant.sent_ns <= prim_boottime_ns(NULL));
    rig.request = id;
    rig.attempt = 1;
    CHECK_ANSWER("deleted", rig_remove(&rig, "k", COORD_ANY, &lease), COORD_OK, COORD_R_DELETED);
    rig.request = id;
    CHECK_ANSWER("deleted before", rig_remove(&rig, "k", COORD_ANY, &lease), COORD_OK,
                 COORD_R_ALREADY);
    rig.request = id;
    CHECK_ANSWER("no false replay of a removed entry",
                 rig_create(&rig, "k", "2", 60000, "me", &same), COORD_OK, COORD_R_CREATED);
    rig_close(&rig);
}

TEST(names_that_need_encoding_and_hashing_do_not_meet)
{
    struct rig rig;
    char value[32], long_a[301], long_b[301];
    rig_open(&rig, rig_dir(), "");
    CHECK_ANSWER("created", rig_create(&rig, "a/b", "1", 0, "", NULL), COORD_OK, COORD_R_CREATED);
    CHECK_ANSWER("another", rig_create(&rig, "a%2Fb", "2", 0, "", NULL), COORD_OK, COORD_R_CREATED);
    CHECK_ANSWER("read", rig_get(&rig, "a%2Fb", value, sizeof value), COORD_OK, COORD_R_NONE);
    CHECK_TEXT("its own value", value, "2");
    memset(long_a, 'x', 300);
    memset(long_b, 'x', 300);
    long_a[300] = long_b[300] = '\0';
    long_b[299] = 'y';
    CHECK_ANSWER("long", rig_create(&rig, long_a, "a", 0, "", NULL), COORD_OK, COORD_R_CREATED);
    CHECK_ANSWER("and long", rig_create(&rig, long_b, "b", 0, "", NULL), COORD_OK, COORD_R_CREATED);
    CHECK_ANSWER("read", rig_get(&rig, long_a, value, sizeof value), COORD_OK, COORD_R_NONE);
    CHECK_TEXT("its own value", value, "a");
    rig_close(&rig);
    file_hooks.same_hash = true; /* A14 */
    rig_open(&rig, rig_dir(), "");
    CHECK_ANSWER("first", rig_create(&rig, long_a, "a", 0, "", NULL), COORD_OK, COORD_R_CREATED);
    CHECK_ANSWER("never read as another key's", rig_create(&rig, long_b, "b", 0, "", NULL),
                 COORD_UNAVAILABLE, COORD_R_CORRUPT);
    CHECK_ANSWER("nor seen", rig_get(&rig, long_b, NULL, 0), COORD_UNAVAILABLE, COORD_R_CORRUPT);
    CHECK_ANSWER("intact", rig_get(&rig, long_a, value, sizeof value), COORD_OK, COORD_R_NONE);
    file_hooks.same_hash = false;
    rig_close(&rig);
}

static int no_room_to_publish(void *arg, enum file_step step)
{
    int *times = arg;
    return step == STEP_S10 && (*times)-- > 0 ? ENOSPC : 0;
}

/* prim repeats an unknown answer with the same ids: files of the first attempt must not block it.
 * */
TEST(a_lease_whose_head_had_no_room_is_made_by_the_repeat)
{
    struct rig rig;
    int times = 1;
    struct prim_grant grant = {0};
    rig_open(&rig, rig_dir(), "");
    file_hooks.step = no_room_to_publish;
    file_hooks.arg = &times;
    struct prim_call call = {.deadline_ns = INT64_MAX, .request_id = prim_id_request()};
    struct prim_create create = {
        .key = STR("k"), .owner = STR("me"), .ttl_ms = 60000, .lease_id = prim_id_random()};
    coord_result result = rig.backend->ops->create(rig.backend, &call, &create, &grant);
    CHECK_ANSWER("no room", result, COORD_UNAVAILABLE, COORD_R_STORAGE);
    CHECK("open", (result.flags & COORD_F_MAYBE_APPLIED) != 0);
    call.attempt = 1;
    result = rig.backend->ops->create(rig.backend, &call, &create, &grant);
    CHECK_ANSWER("room", result, COORD_OK, COORD_R_CREATED);

    struct prim_acquire acquire = {.group = STR("g"),
                                   .owner = STR("me"),
                                   .slot_count = 1,
                                   .prefer_slot = COORD_NO_SLOT,
                                   .ttl_ms = 60000,
                                   .lease_id = prim_id_random()};
    struct rig_lease other;
    (void)rig_acquire(&rig, "g", 1, "you", 60000, 0, &other); /* the group's record */
    (void)rig_release(&rig, &other, NULL);
    times = 1;
    call = (struct prim_call){.deadline_ns = INT64_MAX, .request_id = prim_id_request()};
    result = rig.backend->ops->acquire(rig.backend, &call, &acquire, &grant);
    CHECK_ANSWER("no room", result, COORD_UNAVAILABLE, COORD_R_STORAGE);
    call.attempt = 1;
    result = rig.backend->ops->acquire(rig.backend, &call, &acquire, &grant);
    CHECK_ANSWER("room", result, COORD_OK, COORD_R_ACQUIRED);
    file_hooks.step = NULL;
    rig_close(&rig);
}

TEST(a_new_lease_on_an_entry_needs_the_one_it_has)
{
    struct rig rig;
    struct rig_lease lease, next;
    rig_open(&rig, rig_dir(), "");
    coord_result plain = rig_create(&rig, "plain", "1", 0, NULL, NULL);
    (void)rig_create(&rig, "k", "1", 60000, "me", &lease);
    CHECK_ANSWER("another entry's lease",
                 rig_cas(&rig, "plain", plain.revision, "2", 60000, &lease, &next), COORD_CONFLICT,
                 COORD_R_NOT_OWNER);
    rig_close(&rig);
}
