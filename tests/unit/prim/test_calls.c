/* SPDX-License-Identifier: Apache-2.0 */
/* prim/ around a backend: refusals before any I/O, retries, handles, closing. */
#include <sys/wait.h>
#include <unistd.h>

#include "lib/test.h"
#include "prim/answer.h"
#include "unit/prim/fake_backend.h"

#define TEXT(literal) ((coord_str){"" literal, sizeof(literal) - 1})

static void check_result(const char *why, coord_result got, int code, int reason)
{
    CHECK_TEXT(why, coord_code_name(got.code), coord_code_name(code));
    CHECK_TEXT(why, coord_reason_name(got.reason), coord_reason_name(reason));
}

static int all_calls(struct fake *fake)
{
    int sum = 0;
    for (int op = 0; op < FAULT_OPS; op++) { sum += fake_calls(fake, (enum fault_op)op); }
    return sum;
}

TEST(a_call_outside_the_limits_is_refused_before_any_io)
{
    struct fake fake;
    coord_store *store;
    coord_lease *lease = NULL;
    static char big[PRIM_VALUE_MAX + 1];
    fake_init(&fake);
    check_result("opens", fake_open(&fake, NULL, &store), COORD_OK, COORD_R_NONE);
    coord_result result =
        coord_create_if_absent(store, NULL, TEXT("a//b"), TEXT(""), 0, NULL, NULL);
    check_result("key", result, COORD_INVALID, COORD_R_KEY);
    result = coord_create_if_absent(store, NULL, TEXT("g/slot-0001"), TEXT(""), 0, NULL, NULL);
    check_result("slots are reserved", result, COORD_INVALID, COORD_R_KEY);
    result =
        coord_create_if_absent(store, NULL, TEXT("a"), (coord_str){big, sizeof big}, 0, NULL, NULL);
    check_result("value", result, COORD_INVALID, COORD_R_VALUE_SIZE);
    CHECK_HAS("names the limit", result.text, "65536");
    result = coord_create_if_absent(store, NULL, TEXT("a"), TEXT(""), 9, "me", &lease);
    check_result("ttl below", result, COORD_INVALID, COORD_R_TTL_RANGE);
    result = coord_create_if_absent(store, NULL, TEXT("a"), TEXT(""), -1, "me", &lease);
    check_result("negative ttl", result, COORD_INVALID, COORD_R_TTL_RANGE);
    result = coord_create_if_absent(store, NULL, TEXT("a"), TEXT(""), 1000, "m e", &lease);
    check_result("owner", result, COORD_INVALID, COORD_R_OWNER);
    result = coord_create_if_absent(store, NULL, TEXT("a"), TEXT(""), 1000, NULL, &lease);
    check_result("no owner", result, COORD_INVALID, COORD_R_OWNER);
    result = coord_create_if_absent(store, NULL, TEXT("a"), TEXT(""), 1000, "me", NULL);
    check_result("nowhere to put the lease", result, COORD_INVALID, COORD_R_ARGUMENT);
    coord_call call = {.timeout_ms = 600001};
    result = coord_create_if_absent(store, &call, TEXT("a"), TEXT(""), 0, NULL, NULL);
    check_result("timeout", result, COORD_INVALID, COORD_R_ARGUMENT);
    coord_slot_request request = COORD_SLOT_REQUEST_INIT;
    request.group = TEXT("g");
    request.owner = "me";
    request.ttl_ms = 1000;
    request.slot_count = 1025;
    result = coord_acquire_slot(store, NULL, &request, &lease);
    check_result("slots", result, COORD_INVALID, COORD_R_GROUP);
    CHECK_HAS("names the limit", result.text, "1024");
    request.slot_count = 1;
    request.cooldown_ms = 60001;
    result = coord_acquire_slot(store, NULL, &request, &lease);
    check_result("cooldown", result, COORD_INVALID, COORD_R_GROUP);
    request.cooldown_ms = 0;
    request.flags = 4;
    result = coord_acquire_slot(store, NULL, &request, &lease);
    check_result("flags", result, COORD_INVALID, COORD_R_ARGUMENT);
    result = coord_compare_and_set(store, NULL, TEXT("a"), 5, TEXT(""), 1000, "me", NULL, &lease);
    check_result("a ttl on another's entry", result, COORD_INVALID, COORD_R_ARGUMENT);
    result = coord_delete(store, NULL, TEXT("a"), 0, NULL);
    check_result("delete of nothing", result, COORD_INVALID, COORD_R_ARGUMENT);
    result = coord_delete(store, NULL, TEXT("g/slot-0000"), COORD_ANY, NULL);
    check_result("a slot by plain delete", result, COORD_INVALID, COORD_R_KEY);
    check_result("a slot by force",
                 coord_delete(store, NULL, TEXT("g/slot-0000"), COORD_FORCE, NULL), COORD_OK,
                 COORD_R_DELETED);
    CHECK_I64("nothing but that was asked of the store", all_calls(&fake), 1);
    CHECK("no lease was made", lease == NULL);
    coord_close(store);
    CHECK_I64("closed once", fake.closes, 1);
}

static const struct {
    const char *why;
    uint32_t bit;
    const char *name;
} missing[] = {
    {"create", COORD_CAP_CREATE, "CREATE"},   {"cas", COORD_CAP_CAS, "CAS"},
    {"leases", COORD_CAP_TTL, "TTL"},         {"slots", COORD_CAP_SLOTS, "SLOTS"},
    {"rest", COORD_CAP_COOLDOWN, "COOLDOWN"}, {"force", COORD_CAP_FORCE, "FORCE"},
};

static coord_result call_that_needs(coord_store *store, uint32_t bit)
{
    coord_lease *lease = NULL;
    coord_slot_request request = COORD_SLOT_REQUEST_INIT;
    request.group = TEXT("g");
    request.owner = "me";
    request.ttl_ms = 1000;
    switch (bit) {
    case COORD_CAP_CREATE:
        return coord_create_if_absent(store, NULL, TEXT("a"), TEXT(""), 0, NULL, NULL);
    case COORD_CAP_TTL:
        return coord_create_if_absent(store, NULL, TEXT("a"), TEXT(""), 1000, "me", &lease);
    case COORD_CAP_CAS:
        return coord_compare_and_set(store, NULL, TEXT("a"), 0, TEXT(""), 0, NULL, NULL, NULL);
    case COORD_CAP_COOLDOWN: request.cooldown_ms = 1; break;
    case COORD_CAP_FORCE: return coord_delete(store, NULL, TEXT("a"), COORD_FORCE, NULL);
    default: break;
    }
    return coord_acquire_slot(store, NULL, &request, &lease);
}

TEST(a_missing_bit_is_unsupported_and_named)
{
    for (size_t i = 0; i < ARRAY_LEN(missing); i++) {
        struct fake fake;
        coord_store *store;
        fake_init(&fake);
        fake.caps.bits &= ~missing[i].bit;
        check_result("opens", fake_open(&fake, NULL, &store), COORD_OK, COORD_R_NONE);
        coord_result result = call_that_needs(store, missing[i].bit);
        check_result(missing[i].why, result, COORD_UNSUPPORTED, COORD_R_CAPABILITY);
        CHECK_HAS("names the bit", result.text, missing[i].name);
        CHECK_I64("and nothing was asked", all_calls(&fake), 0);
        coord_close(store);
    }
}

TEST(a_narrow_store_is_not_opened_where_a_wide_one_is_required)
{
    struct fake fake;
    coord_store *store;
    fake_init(&fake);
    fake.caps.scope = COORD_SCOPE_HOST;
    coord_options options = {.require_scope = COORD_SCOPE_CLUSTER};
    coord_result result = fake_open(&fake, &options, &store);
    check_result("refused", result, COORD_UNSUPPORTED, COORD_R_SCOPE);
    CHECK_HAS("names both", result.text, "host");
    CHECK_HAS("names both", result.text, "cluster");
    CHECK_I64("and closed again", fake.closes, 1);
}

static coord_result lose_two_replies(struct fake *fake, enum fault_op op,
                                     const struct prim_call *call)
{
    int *heard = fake->arg;
    (void)op;
    (void)call;
    return ++*heard <= 2 ? prim_unclear(COORD_R_TIMEOUT, "no answer") : prim_ok(COORD_R_NONE);
}

TEST(an_unknown_result_is_retried_with_the_same_id)
{
    struct fake fake;
    coord_store *store;
    int heard = 0;
    fake_init(&fake);
    fake.act = lose_two_replies;
    fake.arg = &heard;
    check_result("opens", fake_open(&fake, NULL, &store), COORD_OK, COORD_R_NONE);
    coord_call call = {.request_id = {{1, 2, 3}}};
    check_result("done at the third",
                 coord_create_if_absent(store, &call, TEXT("a"), TEXT(""), 0, NULL, NULL), COORD_OK,
                 COORD_R_CREATED);
    CHECK_I64("asked three times", fake_calls(&fake, FAULT_CREATE), 3);
    CHECK_U32("the store is reported that it may have happened", fake.attempt, 2);
    CHECK("by the caller's id", prim_id_equal(&fake.request_id, &call.request_id));
    coord_close(store);
}

static coord_result never_connected(struct fake *fake, enum fault_op op,
                                    const struct prim_call *call)
{
    (void)fake;
    (void)op;
    return call->attempt == 0 ? prim_unclear(COORD_R_TIMEOUT, "no answer")
                              : prim_answer(COORD_UNAVAILABLE, COORD_R_CONNECTION, "refused");
}

TEST(an_unknown_first_attempt_stays_unknown)
{
    struct fake fake;
    coord_store *store;
    fake_init(&fake);
    fake.act = never_connected;
    check_result("opens", fake_open(&fake, NULL, &store), COORD_OK, COORD_R_NONE);
    coord_call call = {.timeout_ms = 300};
    coord_result result = coord_create_if_absent(store, &call, TEXT("a"), TEXT(""), 0, NULL, NULL);
    check_result("the last answer", result, COORD_UNAVAILABLE, COORD_R_CONNECTION);
    CHECK_U32("but it may have been applied", result.flags, COORD_F_MAYBE_APPLIED);
    coord_close(store);
}

static coord_result full_disk(struct fake *fake, enum fault_op op, const struct prim_call *call)
{
    (void)fake;
    (void)op;
    (void)call;
    return prim_answer(COORD_UNAVAILABLE, COORD_R_STORAGE, "full");
}

TEST(a_certain_result_is_not_retried)
{
    struct fake fake;
    coord_store *store;
    fake_init(&fake);
    fake.act = full_disk;
    check_result("opens", fake_open(&fake, NULL, &store), COORD_OK, COORD_R_NONE);
    check_result("as it is", coord_delete(store, NULL, TEXT("a"), COORD_ANY, NULL),
                 COORD_UNAVAILABLE, COORD_R_STORAGE);
    CHECK_I64("once", fake_calls(&fake, FAULT_DELETE), 1);
    coord_close(store);
}

TEST(a_lease_is_safe_from_the_send_and_not_longer)
{
    struct fake fake;
    coord_store *store;
    coord_lease *lease = NULL;
    struct turned_clock clock = {INT64_C(5000000000)};
    coord_options options = {.now = turned_clock_now, .now_arg = &clock};
    fake_init(&fake);
    fake.sent_ns = INT64_C(4900000000); /* the backend reports an earlier send time */
    check_result("opens", fake_open(&fake, &options, &store), COORD_OK, COORD_R_NONE);
    check_result("granted",
                 coord_create_if_absent(store, NULL, TEXT("a"), TEXT(""), 1000, "me", &lease),
                 COORD_OK, COORD_R_CREATED);
    CHECK_I64("ttl less a tenth, from the send", coord_safe_for_ms(lease), 800);
    CHECK_I64("holds", coord_check(lease), COORD_OK);
    clock.now_ns += INT64_C(799999999);
    CHECK_I64("holds", coord_check(lease), COORD_OK);
    clock.now_ns += 1;
    CHECK_I64("over to the nanosecond", coord_check(lease), COORD_EXPIRED);
    CHECK_SIZE("and no longer exported", coord_lease_export(lease, NULL, 0), 0);
    coord_lease_unref(lease);
    coord_close(store);
}

TEST(a_released_handle_is_over_at_once_and_for_good)
{
    struct fake fake;
    coord_store *store;
    coord_lease *lease = NULL;
    fake_init(&fake);
    check_result("opens", fake_open(&fake, NULL, &store), COORD_OK, COORD_R_NONE);
    (void)coord_create_if_absent(store, NULL, TEXT("a"), TEXT(""), 60000, "me", &lease);
    check_result("renewed", coord_renew(lease, NULL), COORD_OK, COORD_R_RENEWED);
    fake.act = full_disk;
    check_result("no answer", coord_release(lease, NULL), COORD_UNAVAILABLE, COORD_R_STORAGE);
    CHECK_I64("given up all the same", coord_check(lease), COORD_EXPIRED);
    check_result("no renewal", coord_renew(lease, NULL), COORD_EXPIRED, COORD_R_RELEASED);
    fake.act = NULL;
    check_result("again", coord_release(lease, NULL), COORD_OK, COORD_R_ALREADY);
    check_result("and again", coord_release(lease, NULL), COORD_OK, COORD_R_ALREADY);
    CHECK_I64("which asks nobody", fake_calls(&fake, FAULT_RELEASE), 2);
    coord_lease_unref(lease);
    coord_close(store);
}

TEST(closing_releases_what_is_held_unless_configured_otherwise)
{
    for (int keep = 0; keep < 2; keep++) {
        struct fake fake;
        coord_store *store;
        coord_lease *one = NULL, *two = NULL, *gone = NULL;
        coord_options options = {.keep_on_close = keep};
        fake_init(&fake);
        check_result("opens", fake_open(&fake, &options, &store), COORD_OK, COORD_R_NONE);
        (void)coord_create_if_absent(store, NULL, TEXT("a"), TEXT(""), 60000, "me", &one);
        (void)coord_create_if_absent(store, NULL, TEXT("b"), TEXT(""), 60000, "me", &two);
        (void)coord_create_if_absent(store, NULL, TEXT("c"), TEXT(""), 60000, "me", &gone);
        (void)coord_release(gone, NULL);
        coord_close(store);
        CHECK_I64("one release each", fake_calls(&fake, FAULT_RELEASE), keep ? 1 : 3);
        CHECK_I64("the handle knows", coord_check(one), keep ? COORD_OK : COORD_EXPIRED);
        if (keep) {
            check_result("no calls any more", coord_renew(two, NULL), COORD_UNAVAILABLE,
                         COORD_R_CLOSED);
        }
        coord_lease_unref(one);
        coord_lease_unref(two);
        coord_lease_unref(gone);
    }
}

TEST(after_fork_the_copy_is_dead)
{
    struct fake fake;
    coord_store *store;
    coord_lease *lease = NULL;
    fake_init(&fake);
    check_result("opens", fake_open(&fake, NULL, &store), COORD_OK, COORD_R_NONE);
    (void)coord_create_if_absent(store, NULL, TEXT("a"), TEXT(""), 60000, "me", &lease);
    pid_t child = fork();
    if (child == 0) {
        coord_result got = coord_get(store, NULL, TEXT("a"), COORD_LATEST, NULL);
        bool dead = got.code == COORD_INVALID && got.reason == COORD_R_HANDLE;
        dead &= coord_check(lease) == COORD_EXPIRED;
        dead &= coord_renew(lease, NULL).code == COORD_INVALID;
        dead &= coord_release(lease, NULL).code == COORD_INVALID;
        coord_lease_unref(lease);
        coord_close(store);
        _exit(dead ? 0 : 1);
    }
    int status = -1;
    CHECK_I64("waited", waitpid(child, &status, 0), child);
    CHECK_I64("every call refused there", status, 0);
    CHECK_I64("and ours lives", coord_check(lease), COORD_OK);
    coord_close(store);
    coord_lease_unref(lease);
    CHECK_I64("released by the parent alone", fake_calls(&fake, FAULT_RELEASE), 1);
}

TEST(a_handle_that_outlives_its_store_asks_nothing_of_it)
{
    struct fake fake;
    coord_store *store;
    coord_lease *lease = NULL;
    fake_init(&fake);
    coord_options options = {.keep_on_close = 1};
    check_result("opens", fake_open(&fake, &options, &store), COORD_OK, COORD_R_NONE);
    (void)coord_create_if_absent(store, NULL, TEXT("a"), TEXT(""), 60000, "me", &lease);
    coord_close(store);
    check_result("renew", coord_renew(lease, NULL), COORD_UNAVAILABLE, COORD_R_CLOSED);
    check_result("one more key", coord_create_under(lease, NULL, TEXT("b"), TEXT("")),
                 COORD_UNAVAILABLE, COORD_R_CLOSED);
    check_result("release", coord_release(lease, NULL), COORD_UNAVAILABLE, COORD_R_CLOSED);
    CHECK_I64("the closed backend was left alone", fake.late, 0);
    coord_lease_unref(lease);
}

static coord_result replays_without_a_lease(struct fake *fake, enum fault_op op,
                                            const struct prim_call *call)
{
    (void)fake, (void)op, (void)call;
    return prim_ok(COORD_R_REPLAYED);
}

/* The same id made the entry without a lease: there is no lease to return. */
TEST(a_request_id_that_made_no_lease_gives_none)
{
    struct fake fake;
    coord_store *store;
    coord_lease *lease = NULL;
    coord_call call = {.request_id = {{7}}};
    fake_init(&fake);
    fake.grants_nothing = true;
    fake.act = replays_without_a_lease;
    check_result("opens", fake_open(&fake, NULL, &store), COORD_OK, COORD_R_NONE);
    check_result("create",
                 coord_create_if_absent(store, &call, TEXT("a"), TEXT(""), 1000, "me", &lease),
                 COORD_INVALID, COORD_R_ARGUMENT);
    check_result(
        "cas",
        coord_compare_and_set(store, &call, TEXT("a"), 0, TEXT(""), 1000, "me", NULL, &lease),
        COORD_INVALID, COORD_R_ARGUMENT);
    CHECK("no handle", lease == NULL);
    coord_close(store);
}
