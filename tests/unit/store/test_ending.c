/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a lease with many keys: applied in parts, but one step for a reader. */
#include <muster/coord.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "lib/store_apply.h"
#include "lib/test.h"
#include "store/core/store.h"

enum { MANY = 9 * STORE_SWEEP_KEYS + 17, FEW = 40, TTL_MS = 1000, PARTS_MAX = 10000 };
#define NS_OF(ms) ((uint64_t)(ms)*1000000)

static struct store *store;
static uint64_t clock_ns;

static struct store_result apply(const struct store_command *command)
{
    struct store_result result;

    store_apply(store, clock_ns, command, &result, NULL);
    return result;
}

static void grant(int64_t number, int64_t ttl_ms)
{
    struct store_command command = {
        .kind = STORE_LEASE_GRANT, .lease = store_plain_lease(number), .ttl_ms = ttl_ms};

    CHECK_U64("granted", (uint64_t)apply(&command).code, COORD_OK);
}

/* Puts the keys in an order unlike that of their names. */
static void put_under(int64_t number, int count)
{
    struct store_command put = {
        .kind = STORE_PUT, .value = STR("v"), .held = store_plain_lease(number)};
    static int shuffled[MANY];
    struct prng prng;
    char key[32];

    prng_seed(&prng, test_seed());
    for (int i = 0; i < count; i++) shuffled[i] = i;
    for (int i = count - 1; i > 0; i--) {
        int other = (int)prng_below(&prng, (uint64_t)i + 1), kept = shuffled[i];
        shuffled[i] = shuffled[other];
        shuffled[other] = kept;
    }
    for (int i = 0; i < count; i++) {
        put.key =
            str_of(key, (size_t)snprintf(key, sizeof key, "%d/%06d", (int)number, shuffled[i]));
        CHECK_U64("put", (uint64_t)apply(&put).code, COORD_OK);
    }
}

static void open_with(int64_t number, int count)
{
    store = store_open(&(struct store_options){0});
    CHECK("open", store != NULL);
    clock_ns = 1;
    grant(number, TTL_MS);
    put_under(number, count);
}

/* All keys of the lease are readable in order, and so is their history. */
static void check_as_before(int64_t number, uint64_t revision, uint64_t changes)
{
    static struct str names[MANY + 1000];
    char first[32], last[32];
    struct key_value value;
    size_t count = 0, more;

    snprintf(first, sizeof first, "%d/%06d", (int)number, 0);
    snprintf(last, sizeof last, "%d/%06d", (int)number, MANY - 1);
    CHECK_U64("revision", keys_revision(store_keys(store)), revision);
    CHECK_U64("nothing is reported", keys_changes(store_keys(store)).end, changes);
    CHECK("the first", keys_get(store_keys(store), str_from(first), 0, &value));
    CHECK("the last", keys_get(store_keys(store), str_from(last), 0, &value));
    CHECK_SIZE("all under it", store_lease_key_count(store, number), MANY);
    for (struct store_lease_walk walk = {0};
         (more = store_lease_keys_next(store, number, &walk, names + count, 1000)); count += more)
        CHECK("no more than there are", count + more <= MANY);
    CHECK_SIZE("all of them", count, MANY);
    CHECK_STR("in order", names[0], str_from(first));
    CHECK_STR("in order", names[MANY - 1], str_from(last));
    for (size_t i = 1; i < MANY; i++) CHECK("each once", str_compare(names[i - 1], names[i]) < 0);
}

/* Applies all parts; returns their number. */
static uint64_t parts_of(const struct store_command *command, int64_t number,
                         struct store_result *result)
{
    uint64_t revision = keys_revision(store_keys(store)), parts = 0, work = store_work(store);
    uint64_t changes = keys_changes(store_keys(store)).end;

    if (!store_apply_begin(store, clock_ns, command, result, NULL)) return 0;
    do {
        check_as_before(number, revision, changes);
        CHECK("a part counts, so that a turn may end behind it",
              parts == 0 || store_work(store) > work);
        CHECK("a part is little work", store_work(store) - work <= 2 * STORE_SWEEP_KEYS + 8);
        work = store_work(store);
        CHECK("it ends", ++parts < PARTS_MAX);
    } while (store_apply_more(store, command, result));
    return parts;
}

/* The last MANY changes except `behind`: every key of the lease, in order, at one revision. */
static void check_ended(int64_t number, uint64_t behind)
{
    uint64_t end = keys_changes(store_keys(store)).end - behind, at = 0;
    struct key_value change, before;
    struct store_lease lease;
    char key[32];

    for (int i = 0; i < MANY; i++) {
        keys_change_at(store_keys(store), end - MANY + (uint64_t)i, &change, &before);
        snprintf(key, sizeof key, "%d/%06d", (int)number, i);
        CHECK_STR("in order", change.key, str_from(key));
        CHECK("deleted", change.version == 0 && before.version == 1);
        CHECK("at one revision", at == 0 || change.mod == at);
        at = change.mod;
    }
    CHECK_SIZE("none is left", store_lease_key_count(store, number), 0);
    CHECK("nor it", !store_lease_of(store, number, clock_ns, &lease));
}

TEST(revoking_takes_parts_and_is_seen_as_one_step)
{
    struct store_command revoke = {.kind = STORE_LEASE_REVOKE, .lease = store_plain_lease(7)};
    struct store_result result;
    uint64_t before;

    open_with(7, MANY);
    before = keys_revision(store_keys(store));
    CHECK("parts", parts_of(&revoke, 7, &result) >= 10);
    CHECK_U64("done", (uint64_t)result.code, COORD_OK);
    CHECK_U64("at the next revision", result.revision, before + 1);
    check_ended(7, 0);
    CHECK_U64("once", (uint64_t)apply(&revoke).code, COORD_NOT_FOUND);
    store_close(store);
}

TEST(expiry_runs_in_parts_before_the_command)
{
    struct store_command put = {.kind = STORE_PUT, .key = STR("a"), .value = STR("b")};
    struct store_result result;
    uint64_t before;

    open_with(7, MANY);
    before = keys_revision(store_keys(store));
    clock_ns += NS_OF(TTL_MS);
    CHECK("parts", parts_of(&put, 7, &result) >= 10);
    CHECK_U64("the command", result.revision, before + 2);
    check_ended(7, 1);
    store_close(store);
}

TEST(a_lease_of_few_keys_ends_at_once)
{
    struct store_command revoke = {.kind = STORE_LEASE_REVOKE, .lease = store_plain_lease(7)};
    struct store_result result;

    open_with(7, STORE_SWEEP_KEYS);
    CHECK("no parts", !store_apply_begin(store, clock_ns, &revoke, &result, NULL));
    CHECK_U64("none is left", keys_count(store_keys(store)), 0);
    store_close(store);
}

/* If the large lease ended after small ones in one entry, the small ones' ends would be visible
 * before they are reported. */
TEST(a_large_lease_behind_small_ones_waits_for_an_entry_of_its_own)
{
    struct store_command tick = {.kind = STORE_TICK};
    struct store_result result;

    open_with(7, MANY);
    grant(8, TTL_MS / 2);
    put_under(8, FEW);
    clock_ns += NS_OF(TTL_MS);
    CHECK("the small one", !store_apply_begin(store, clock_ns, &tick, &result, NULL));
    CHECK_SIZE("is gone", store_lease_key_count(store, 8), 0);
    CHECK_SIZE("alone", store_lease_key_count(store, 7), MANY);
    CHECK("and the next is due", store_next_due(store) <= clock_ns);
    CHECK("parts", parts_of(&tick, 7, &result) >= 10);
    check_ended(7, 0);
    store_close(store);
}

/* The number of an expired lease can be granted again, even before its end was applied. */
TEST(granting_a_number_again_ends_the_old_lease_in_parts)
{
    struct store_command again = {
        .kind = STORE_LEASE_GRANT, .lease = store_plain_lease(7), .ttl_ms = 60000};
    struct store_result result;
    struct store_lease lease;

    open_with(7, MANY);
    grant(8, TTL_MS / 2); /* expires first, so the same entry leaves the end of 7 for later */
    put_under(8, FEW);
    clock_ns += NS_OF(TTL_MS);
    CHECK("parts", store_apply_begin(store, clock_ns, &again, &result, NULL));
    while (store_apply_more(store, &again, &result)) continue;
    CHECK_U64("granted", (uint64_t)result.code, COORD_OK);
    CHECK_U64("for its time", (uint64_t)result.granted_ttl_ms, 60000);
    CHECK("it lives", store_lease_of(store, 7, clock_ns, &lease) && lease.remaining_ms == 60000);
    CHECK_U64("and has nothing of the other", keys_count(store_keys(store)), 0);
    store_close(store);
}

TEST(a_store_may_be_closed_in_the_middle_of_it)
{
    struct store_command revoke = {.kind = STORE_LEASE_REVOKE, .lease = store_plain_lease(7)};
    struct store_result result;

    for (int stop = 0; stop < 40; stop += 3) {
        open_with(7, MANY);
        CHECK("begun", store_apply_begin(store, clock_ns, &revoke, &result, NULL));
        for (int i = 0; i < stop && store_apply_more(store, &revoke, &result); i++) continue;
        store_close(store);
    }
}
