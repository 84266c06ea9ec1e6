/* SPDX-License-Identifier: Apache-2.0 */
/* The stores that tests disturb, and the library over them. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <muster/coord.h>

#include "lib/test.h"

#define TEXT(literal) ((coord_str){"" literal, sizeof(literal) - 1})

static coord_result open_url(const char *url, coord_store **store)
{
    return coord_open(url, NULL, store);
}

TEST(prefixes_are_few_and_each_knows_its_own_parameters)
{
    coord_store *store = NULL;
    CHECK_I64("of the other wrapper", open_url("trace+mem:?fault_seed=1", &store).reason,
              COORD_R_URL);
    CHECK_I64("too many prefixes", open_url("trace+trace+trace+trace+trace+mem:", &store).reason,
              COORD_R_URL);
    CHECK_I64("NULL", open_url(NULL, &store).reason, COORD_R_ARGUMENT);
    CHECK("nothing was opened", store == NULL);
}

/* -- trace ------------------------------------------------------------------------------------ */

TEST(a_trace_has_one_line_for_each_call_and_no_secret)
{
    char path[256], url[320], text[8192] = "";
    coord_store *store;
    coord_lease *lease = NULL;
    (void)snprintf(path, sizeof path, "%s/trace", test_dir());
    (void)snprintf(url, sizeof url, "trace+mem:?trace=%s", path);
    CHECK_I64("opens", open_url(url, &store).code, COORD_OK);
    coord_result made = coord_create_if_absent(store, NULL, TEXT("a\"b"), TEXT("secret value"),
                                               60000, "owner-name", &lease);
    CHECK_I64("created", made.code, COORD_OK);
    (void)coord_create_if_absent(store, NULL, TEXT("a\"b"), TEXT(""), 0, NULL, NULL);
    (void)coord_renew(lease, NULL);
    (void)coord_release(lease, NULL);
    coord_lease_unref(lease);
    coord_close(store);
    FILE *file = fopen(path, "r");
    CHECK("written", file != NULL);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    (void)fclose(file);
    CHECK_HAS("created", text,
              "\"op\":\"create\",\"key\":\"a\\\"b\",\"attempt\":0,\"code\":\"OK\","
              "\"reason\":\"created\",\"revision\":");
    CHECK_HAS("refused", text, "\"code\":\"EXISTS\",\"reason\":\"held\"");
    CHECK_HAS("renewed", text, "\"op\":\"renew\"");
    CHECK_HAS("released", text, "\"op\":\"release\"");
    CHECK("no value", strstr(text, "secret") == NULL);
    CHECK("no owner", strstr(text, "owner-name") == NULL);
    size_t lines = 0;
    for (const char *at = text; *at != '\0'; at++) { lines += *at == '\n'; }
    CHECK_SIZE("four lines", lines, 4);
    CHECK_I64("a file that cannot be", open_url("trace+mem:?trace=/nowhere/x", &store).reason,
              COORD_R_URL);
}

/* -- fault ------------------------------------------------------------------------------------ */

/* B18, C19, E04: the first reply is lost, the library asks again, one effect. */
TEST(a_lost_reply_is_recognised)
{
    coord_store *store;
    coord_lease *lease = NULL;
    coord_entry *entry = NULL;
    CHECK_I64("opens", open_url("fault+mem:?fault_lose_reply=1000&fault_first=1", &store).code,
              COORD_OK);
    coord_result result =
        coord_create_if_absent(store, NULL, TEXT("a"), TEXT("1"), 60000, "me", &lease);
    CHECK_I64("the first attempt had done it", result.reason, COORD_R_REPLAYED);
    CHECK_I64("one entry", coord_get(store, NULL, TEXT("a"), COORD_LATEST, &entry).code, COORD_OK);
    CHECK_U64("and its revision is the one", entry->revision, result.revision);
    coord_entry_free(entry);
    coord_lease_unref(lease);
    coord_close(store);
    static const char *const ops[] = {"cas", "acquire", "release"};
    for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
        char url[128];
        (void)snprintf(url, sizeof url,
                       "fault+mem:?fault_lose_reply=1000&fault_first=1&fault_ops=%s", ops[i]);
        CHECK_I64("opens", open_url(url, &store).code, COORD_OK);
        result = coord_compare_and_set(store, NULL, TEXT("c"), 0, TEXT("1"), 0, NULL, NULL, NULL);
        CHECK_I64("cas", result.reason, i == 0 ? COORD_R_REPLAYED : COORD_R_CREATED);
        coord_slot_request request = COORD_SLOT_REQUEST_INIT;
        request.group = TEXT("g");
        request.slot_count = 2;
        request.owner = "me";
        request.ttl_ms = 60000;
        result = coord_acquire_slot(store, NULL, &request, &lease);
        CHECK_I64("acquire", result.reason, i == 1 ? COORD_R_REPLAYED : COORD_R_ACQUIRED);
        coord_holders *holders = NULL;
        (void)coord_list_holders(store, NULL, TEXT("g"), &holders);
        CHECK_SIZE("one slot used", holders->count, 1);
        coord_holders_free(holders);
        result = coord_release(lease, NULL);
        CHECK_I64("release", result.reason, i == 2 ? COORD_R_ALREADY : COORD_R_RELEASED);
        coord_lease_unref(lease);
        coord_close(store);
    }
}

TEST(a_lost_request_has_done_nothing_and_is_repeated)
{
    coord_store *store;
    CHECK_I64(
        "opens",
        open_url("fault+mem:?fault_lose_request=1000&fault_first=2&fault_ops=create", &store).code,
        COORD_OK);
    coord_result result = coord_create_if_absent(store, NULL, TEXT("a"), TEXT(""), 0, NULL, NULL);
    CHECK_I64("done by the third", result.reason, COORD_R_CREATED);
    coord_close(store);
    CHECK_I64("opens", open_url("fault+mem:?fault_refuse=1000", &store).code, COORD_OK);
    coord_call call = {.timeout_ms = 200};
    result = coord_create_if_absent(store, &call, TEXT("a"), TEXT(""), 0, NULL, NULL);
    CHECK_I64("never", result.reason, COORD_R_CONNECTION);
    CHECK_U32("and surely not done", result.flags, 0);
    coord_close(store);
}

TEST(a_store_that_is_silent_costs_the_deadline_and_not_more)
{
    coord_store *store;
    CHECK_I64("opens", open_url("fault+mem:?fault_hang=1000&fault_ops=get", &store).code, COORD_OK);
    coord_call call = {.timeout_ms = 30};
    coord_result result = coord_get(store, &call, TEXT("a"), COORD_LATEST, NULL);
    CHECK_I64("unknown", result.reason, COORD_R_TIMEOUT);
    CHECK_I64("others go on", coord_delete(store, NULL, TEXT("a"), COORD_ANY, NULL).code,
              COORD_NOT_FOUND);
    coord_close(store);
    CHECK_I64("too long", open_url("fault+mem:?fault_delay_after=1h&fault_ops=get", &store).code,
              COORD_INVALID);
    CHECK_I64("opens", open_url("fault+mem:?fault_delay_after=300s&fault_ops=get", &store).code,
              COORD_OK);
    result = coord_get(store, &call, TEXT("a"), COORD_LATEST, NULL);
    CHECK_I64("late is unknown", result.reason, COORD_R_TIMEOUT);
    coord_close(store);
}

TEST(rates_and_names_are_checked)
{
    coord_store *store;
    CHECK_I64("rate", open_url("fault+mem:?fault_refuse=1001", &store).reason, COORD_R_URL);
    CHECK_I64("sum", open_url("fault+mem:?fault_refuse=600&fault_hang=600", &store).reason,
              COORD_R_URL);
    coord_result result = open_url("fault+mem:?fault_ops=renew,sing", &store);
    CHECK_I64("op", result.reason, COORD_R_URL);
    CHECK_HAS("lists them", result.text, "acquire");
}

TEST(a_deaf_holder_learns_of_its_loss_when_it_asks)
{
    for (int deaf = 0; deaf < 2; deaf++) {
        coord_store *store;
        coord_lease *lease = NULL;
        CHECK_I64("opens", open_url(deaf ? "fault+mem:?fault_deaf=1" : "fault+mem:", &store).code,
                  COORD_OK);
        (void)coord_create_if_absent(store, NULL, TEXT("a"), TEXT(""), 3600000, "me", &lease);
        CHECK_I64("kept", coord_keep(lease, NULL, NULL).code, COORD_OK);
        CHECK_I64("taken away", coord_delete(store, NULL, TEXT("a"), COORD_FORCE, NULL).code,
                  COORD_OK);
        if (deaf) { CHECK_I64("does not know", coord_check(lease), COORD_OK); }
        while (!deaf && coord_check(lease) == COORD_OK) { (void)usleep(1000); }
        CHECK_I64("asked", coord_renew(lease, NULL).reason, COORD_R_REVOKED);
        CHECK_I64("and over", coord_check(lease), COORD_EXPIRED);
        coord_lease_unref(lease);
        coord_close(store);
    }
}

/* The same seed loses the same calls. */
TEST(draws_repeat_from_their_seed)
{
    char first[201] = "", again[201] = "";
    for (int round = 0; round < 2; round++) {
        coord_store *store;
        char *drawn = round == 0 ? first : again;
        bool late = false;
        CHECK_I64("opens",
                  open_url("fault+mem:?fault_refuse=300&fault_ops=get&fault_seed=42", &store).code,
                  COORD_OK);
        for (int i = 0; i < 200; i++) {
            coord_call call = {.timeout_ms = 30}; /* less than a pause: no retry */
            coord_result result = coord_get(store, &call, TEXT("a"), COORD_LATEST, NULL);
            drawn[i] = result.code == COORD_NOT_FOUND ? '.' : 'x';
            late = late || result.reason == COORD_R_TIMEOUT;
        }
        coord_close(store);
        if (late) round--; /* the machine stopped for a whole call: nothing was drawn by it */
    }
    CHECK_TEXT("the same", again, first);
    CHECK("some of each", strchr(first, '.') != NULL && strchr(first, 'x') != NULL);
}

/* F11 in short: a twentieth of requests and of replies is lost; one slot, never two holders. */
TEST(lost_messages_never_give_a_slot_two_holders)
{
    coord_store *store;
    CHECK_I64(
        "opens",
        open_url("fault+mem:?fault_lose_request=50&fault_lose_reply=50&fault_seed=3", &store).code,
        COORD_OK);
    uint64_t token = 0;
    for (int i = 0; i < 200; i++) {
        coord_lease *lease = NULL, *second = NULL;
        coord_slot_request request = COORD_SLOT_REQUEST_INIT;
        request.group = TEXT("g");
        request.owner = "me";
        request.ttl_ms = 60000;
        coord_result result = coord_acquire_slot(store, NULL, &request, &lease);
        CHECK_I64("acquired", result.code, COORD_OK);
        CHECK("a larger token", coord_lease_token(lease) > token);
        token = coord_lease_token(lease);
        request.owner = "you";
        CHECK_I64("full", coord_acquire_slot(store, NULL, &request, &second).code, COORD_EXISTS);
        CHECK_I64("released", coord_release(lease, NULL).code, COORD_OK);
        coord_lease_unref(lease);
    }
    coord_close(store);
}

/* -- waiting ---------------------------------------------------------------------------------- */

enum { WAITERS = 40 };

static coord_store *shared;
static atomic_int inside, together;

static void *hold_a_moment(void *arg)
{
    coord_lease *lease = NULL;
    coord_slot_request request = COORD_SLOT_REQUEST_INIT;
    request.group = TEXT("g");
    request.owner = arg;
    request.ttl_ms = 3600000;
    request.wait_ms = 3600000;
    coord_result result = coord_acquire_slot(shared, NULL, &request, &lease);
    if (result.code != COORD_OK) { return arg; }
    if (atomic_fetch_add(&inside, 1) != 0) { atomic_fetch_add(&together, 1); }
    (void)usleep(2000);
    atomic_fetch_sub(&inside, 1);
    (void)coord_release(lease, NULL);
    coord_lease_unref(lease);
    return NULL;
}

static size_t count_in_file(const char *path, const char *word)
{
    char line[1024];
    size_t count = 0;
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        count += strstr(line, word) != NULL;
    }
    if (file != NULL) { (void)fclose(file); }
    return count;
}

/* All coming whenever a slot is free would be 40 + 39 + ... = 820 calls. */
TEST(waiters_do_not_come_all_at_once)
{
    static char names[WAITERS][16];
    char path[256], url[320];
    pthread_t threads[WAITERS];
    (void)snprintf(path, sizeof path, "%s/waiters", test_dir());
    (void)snprintf(url, sizeof url, "trace+mem:?trace=%s", path);
    CHECK_I64("opens", open_url(url, &shared).code, COORD_OK);
    for (int i = 0; i < WAITERS; i++) {
        (void)snprintf(names[i], sizeof names[i], "waiter-%d", i);
        (void)pthread_create(&threads[i], NULL, hold_a_moment, names[i]);
    }
    for (int i = 0; i < WAITERS; i++) {
        void *failed = NULL;
        (void)pthread_join(threads[i], &failed);
        CHECK("each in the end", failed == NULL);
    }
    coord_close(shared);
    CHECK_I64("one at a time", together, 0);
    CHECK("no herd", count_in_file(path, "\"acquire\"") < 410);
}
