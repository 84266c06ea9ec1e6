/* SPDX-License-Identifier: Apache-2.0 */
/* Ownership of claims, and requests whose answers are forgotten, in the core. */
#include <muster/coord.h>
#include <string.h>

#include "lib/store_apply.h"
#include "lib/test.h"
#include "section/section.h"
#include "store/core/store.h"

static struct store *store;

static struct store_id id_of(uint8_t n)
{
    return (struct store_id){{n, 0, 0, 0, 0, 0, 0, 0, 1}};
}

static struct store_result apply(struct store_command command)
{
    struct store_result result;
    struct store_event event;

    store_apply(store, store_clock_ns(store) + 1, &command, &result, NULL);
    while (store_event_next(store, &event)) {}
    return result;
}

static struct store_result create(const char *key, uint8_t lease)
{
    struct store_result result = apply((struct store_command){.kind = STORE_CREATE,
                                                              .key = str_from(key),
                                                              .owner = STR("w"),
                                                              .ttl_ms = 5000,
                                                              .lease = id_of(lease)});

    CHECK_I64("granted", result.code, COORD_OK);
    return result;
}

static bool is_there(const char *key)
{
    struct key_value value;

    return keys_get(store_keys(store), str_from(key), 0, &value);
}

static void open_store(void)
{
    store = store_open(&(struct store_options){0});
    CHECK("open", store != NULL);
}

static void check_answer(const char *why, const struct store_result *got, int code, int reason)
{
    CHECK_I64(why, got->code, code);
    CHECK_I64(why, got->reason, reason);
}

/* A key that was released and acquired again under one lease has a new claim. Requests of the
 * earlier claim name the same lease and the old token. */
static uint64_t claim_again(uint64_t *ret_old_token)
{
    struct store_result result = create("muster/a", 1);
    struct store_command again = {.kind = STORE_CREATE, .held = id_of(1), .key = STR("muster/a")};
    struct store_command beside = {.kind = STORE_CREATE, .held = id_of(1), .key = STR("muster/b")};
    struct store_command release = {.kind = STORE_RELEASE, .lease = id_of(1), .key = again.key};

    *ret_old_token = release.token = result.token;
    CHECK_I64("beside it", apply(beside).code, COORD_OK);
    CHECK_I64("given up", apply(release).code, COORD_OK);
    result = apply(again);
    CHECK_I64("taken again", result.code, COORD_OK);
    return result.token;
}

TEST(a_change_of_a_claim_needs_its_lease_and_its_token)
{
    static const struct {
        const char *why;
        struct store_command command;
        int code, reason;
    } cases[] = {
        {"compare and set",
         {.kind = STORE_CAS, .held = {{1, 0, 0, 0, 0, 0, 0, 0, 1}}, .ttl_ms = STORE_TTL_KEEP},
         COORD_CONFLICT,
         COORD_R_NOT_OWNER},
        {"delete",
         {.kind = STORE_DELETE, .held = {{1, 0, 0, 0, 0, 0, 0, 0, 1}}, .expected = STORE_ANY},
         COORD_CONFLICT,
         COORD_R_NOT_OWNER},
        {"release",
         {.kind = STORE_RELEASE, .lease = {{1, 0, 0, 0, 0, 0, 0, 0, 1}}},
         COORD_EXPIRED,
         COORD_R_REVOKED},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct store_command command = cases[i].command;
        struct store_result result;
        uint64_t old_token, token;

        open_store();
        token = claim_again(&old_token);
        command.key = STR("muster/a");
        if (command.kind == STORE_CAS) command.expected = keys_revision(store_keys(store));
        command.token = old_token;
        result = apply(command);
        check_answer(cases[i].why, &result, cases[i].code, cases[i].reason);
        CHECK("the claim stays", is_there("muster/a"));
        command.token = token;
        result = apply(command);
        CHECK_I64(cases[i].why, result.code, COORD_OK);
        store_close(store);
    }
}

TEST(a_whole_lease_is_released_by_a_token_of_it)
{
    struct store_command release = {.kind = STORE_RELEASE, .lease = id_of(1)};
    struct store_result result;
    uint64_t old_token;

    open_store();
    release.token = claim_again(&old_token);
    release.token++;
    result = apply(release);
    check_answer("by no token of it", &result, COORD_EXPIRED, COORD_R_REVOKED);
    CHECK("it lives", is_there("muster/a") && is_there("muster/b"));
    release.token--;
    CHECK_I64("by one of its tokens", apply(release).code, COORD_OK);
    CHECK("all of it is gone", !is_there("muster/a") && !is_there("muster/b"));
    store_close(store);
}

TEST(a_lease_is_renewed_by_a_token_of_it)
{
    const struct store_id ids[] = {id_of(1), id_of(1), id_of(1)};
    uint64_t tokens[3], old_token;
    struct store_renewal renewals[3];
    struct store_result result;
    struct store_command renew = {
        .kind = STORE_RENEW, .renew = ids, .renew_tokens = tokens, .renew_count = 3};

    open_store();
    tokens[0] = claim_again(&old_token);
    tokens[1] = old_token;
    tokens[2] = 0;
    store_apply(store, 10, &renew, &result, renewals);
    CHECK_I64("by its token", renewals[0].code, COORD_OK);
    CHECK_I64("by that of a claim of before", renewals[1].code, COORD_EXPIRED);
    CHECK_I64("which is over", renewals[1].reason, COORD_R_REVOKED);
    CHECK_I64("by the lease alone: an earlier release", renewals[2].code, COORD_OK);
    store_close(store);
}

TEST(below_level_4_the_lease_alone_decides_as_before)
{
    struct store_command release = {
        .kind = STORE_RELEASE, .lease = id_of(1), .key = STR("muster/a")};

    open_store();
    (void)claim_again(&release.token);
    store_set_level(store, STORE_TOKENS_LEVEL - 1);
    CHECK_I64("released by an old token", apply(release).code, COORD_OK);
    CHECK("and gone", !is_there("muster/a"));
    store_close(store);
}

/* -- answers -- */

static struct store_command delete_by(uint64_t sequence)
{
    return (struct store_command){.kind = STORE_DELETE_RANGE,
                                  .client = id_of(7),
                                  .sequence = sequence,
                                  .key = STR("counted")};
}

static void put(void)
{
    struct store_command command = {.kind = STORE_PUT, .key = STR("counted"), .value = STR("v")};

    CHECK_I64("put", apply(command).code, COORD_OK);
}

TEST(a_late_repeat_of_a_request_with_a_forgotten_answer_is_not_applied_again)
{
    struct store_result result;

    open_store();
    for (uint64_t n = 1; n <= STORE_RESULTS_MAX + 1; n++) {
        put();
        CHECK_I64("done", apply(delete_by(n)).code, COORD_OK);
    }
    put();
    result = apply(delete_by(1));
    check_answer("late", &result, COORD_INVALID, COORD_R_HANDLE);
    CHECK("and not done again", is_there("counted"));
    result = apply(delete_by(2));
    check_answer("the next is still known", &result, COORD_OK, COORD_R_REPLAYED);
    CHECK("nor that", is_there("counted"));
    store_close(store);
}

/* Requests of many threads arrive in any order: a request counts as decided when a larger number of
 * its client is forgotten. */
TEST(a_request_that_was_overtaken_is_decided_until_larger_ones_are_forgotten)
{
    open_store();
    for (uint64_t n = 2 * STORE_RESULTS_MAX; n > STORE_RESULTS_MAX; n--) {
        put();
        CHECK_I64("done", apply(delete_by(n)).code, COORD_OK);
    }
    put();
    CHECK_I64("overtaken by all of them", apply(delete_by(1)).code, COORD_OK);
    CHECK("and done", !is_there("counted"));
    put();
    CHECK_I64("its repeat is known", apply(delete_by(1)).reason, COORD_R_REPLAYED);
    CHECK_I64("larger than the forgotten ones", apply(delete_by(2 * STORE_RESULTS_MAX + 1)).code,
              COORD_OK);
    CHECK("is done", !is_there("counted"));
    put();
    CHECK_I64("a forgotten number comes late", apply(delete_by(STORE_RESULTS_MAX + 1)).reason,
              COORD_R_HANDLE);
    CHECK_I64("and a smaller one", apply(delete_by(2)).reason, COORD_R_HANDLE);
    CHECK("neither is done", is_there("counted"));
    CHECK_I64("the latest is known", apply(delete_by(2 * STORE_RESULTS_MAX)).reason,
              COORD_R_REPLAYED);
    store_close(store);
}

static struct store_command acquire_by(uint64_t sequence, uint8_t lease)
{
    return (struct store_command){.kind = STORE_ACQUIRE,
                                  .client = id_of(7),
                                  .sequence = sequence,
                                  .key = STR("muster/g"),
                                  .owner = lease == 1 ? STR("first") : STR("second"),
                                  .ttl_ms = 60000,
                                  .slot_count = 1,
                                  .prefer_slot = STORE_NO_SLOT,
                                  .lease = id_of(lease),
                                  .wait = true};
}

TEST(a_request_that_waits_is_known_however_many_came_after_it)
{
    struct store_result result;

    open_store();
    CHECK_I64("granted", apply(acquire_by(1, 1)).code, COORD_OK);
    CHECK("waits", apply(acquire_by(2, 2)).waiting);
    for (uint64_t n = 3; n <= STORE_RESULTS_MAX + 3; n++)
        CHECK_I64("done", apply(delete_by(n)).code, COORD_NOT_FOUND);
    result = apply(acquire_by(2, 2));
    CHECK("its repeat finds its place", result.waiting);
    CHECK_U64("which is one", store_sizes(store).waiters, 1);
    result = apply(acquire_by(1, 1));
    check_answer("the grant before it is not known", &result, COORD_INVALID, COORD_R_HANDLE);
    store_close(store);
}

TEST(below_level_4_the_oldest_answer_is_forgotten_as_before)
{
    open_store();
    store_set_level(store, STORE_TOKENS_LEVEL - 1);
    for (uint64_t n = 1; n <= STORE_RESULTS_MAX + 1; n++) {
        put();
        CHECK_I64("done", apply(delete_by(n)).code, COORD_OK);
    }
    put();
    CHECK_I64("a repeat of it is done", apply(delete_by(1)).reason, COORD_R_DELETED);
    store_close(store);
}

static struct store *restored(void)
{
    struct store_restore *restore = store_restore_open(&(struct store_options){0});
    void *view;
    struct store *copy = NULL;
    bool done = false;
    struct buf bytes;

    buf_init(&bytes, 16 << 20);
    CHECK_OK("a view", store_view_open(store, &view));
    while (!done) CHECK_OK("taken", section_view_next(view, 1 << 20, &bytes, &done));
    section_view_close(view);
    CHECK_OK("fed", store_restore_feed(restore, buf_peek(&bytes), NULL));
    CHECK_OK("whole", store_restore_done(restore, &copy, NULL));
    store_restore_close(restore);
    buf_deinit(&bytes);
    return copy;
}

TEST(the_floor_is_in_the_snapshot)
{
    struct store *copy;

    open_store();
    for (uint64_t n = 1; n <= STORE_RESULTS_MAX + 1; n++) (void)apply(delete_by(n));
    copy = restored();
    CHECK_U64("the same state", store_hash(copy), store_hash(store));
    store_close(store);
    store = copy;
    CHECK_I64("a forgotten request is refused", apply(delete_by(1)).reason, COORD_R_HANDLE);
    store_close(store);
}
