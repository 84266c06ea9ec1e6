/* SPDX-License-Identifier: Apache-2.0 */
/* D1: create_if_absent. */
#include <stdlib.h>
#include <string.h>

#include "cases.h"

static void a01(struct suite *s)
{
    coord_result r = create(s->store, N("k"), "hello", 0, NULL, NULL);
    WANT(r, COORD_OK, COORD_R_CREATED);
    EXPECT(r.revision > 0, "a revision");
    EXPECT_EQ(value_is(s->store, N("k"), "hello"), r.revision, "get returns value and revision");
}

static void a02(struct suite *s)
{
    coord_result first = create(s->store, N("k"), "one", 0, NULL, NULL);
    WANT(first, COORD_OK, COORD_R_CREATED);
    coord_result second = create(s->store, N("k"), "two", 0, NULL, NULL);
    WANT(second, COORD_EXISTS, COORD_R_HELD);
    EXPECT_EQ(second.revision, first.revision, "the revision of the one that is there");
    EXPECT_EQ(value_is(s->store, N("k"), "one"), first.revision, "unchanged");
}

/* -- races -- */

void worker_create_one(struct worker *w)
{
    char key[NAME_CAP];
    coord_lease *lease = NULL;
    uint64_t handle;
    (void)snprintf(key, sizeof key, "%s/one", w->prefix);
    (void)noted_create(w, key, 0, NULL, &lease, &handle);
}

static void one_winner(struct suite *s, struct history *history, uint32_t count)
{
    uint64_t revision = 0;
    uint32_t won = 0, lost = 0, other = 0;
    for (size_t i = 0; i < history->count; i++) {
        const struct history_op *op = &history->ops[i];
        if (revision == 0) { revision = op->revision; }
        won += op->code == COORD_OK;
        lost += op->code == COORD_EXISTS;
        other += op->revision != revision;
    }
    history_deinit(history);
    EXPECT_EQ(won, 1, "winners");
    EXPECT_EQ(lost, count - 1, "reported EXISTS");
    EXPECT_EQ(other, 0, "with another revision");
}

static void a03(struct suite *s)
{
    struct history history = {0};
    if (workers_threads(s, "create_one", 64, 0, 0, &history)) { one_winner(s, &history, 64); }
}

static void a04(struct suite *s)
{
    struct history history = {0};
    uint32_t count = (uint32_t)suite_scale(s, 64, 24);
    if (workers_processes(s, "create_one", count, 0, 0, &history)) {
        one_winner(s, &history, count);
    }
}

void worker_create_many(struct worker *w)
{
    long keys = w->a;
    long *order = calloc((size_t)keys, sizeof *order);
    if (order == NULL) {
        w->failed = 1;
        return;
    }
    for (long i = 0; i < keys; i++) { order[i] = i; }
    unsigned seed = w->index + 1;
    for (long i = keys - 1; i > 0; i--) {
        long j = rand_r(&seed) % (i + 1), other = order[i];
        order[i] = order[j];
        order[j] = other;
    }
    for (long i = 0; i < keys; i++) {
        char key[NAME_CAP];
        coord_lease *lease = NULL;
        uint64_t handle;
        (void)snprintf(key, sizeof key, "%s/many-%ld", w->prefix, order[i]);
        (void)noted_create(w, key, 0, NULL, &lease, &handle);
    }
    free(order);
}

static void a05(struct suite *s)
{
    struct history history = {0};
    long keys = suite_scale(s, 1000, 60);
    uint32_t clients = (uint32_t)suite_scale(s, 16, 8);
    if (!workers_run(s, "create_many", clients, keys, 0, &history)) { return; }
    long won = 0, lost = 0;
    for (size_t i = 0; i < history.count; i++) {
        won += history.ops[i].code == COORD_OK;
        lost += history.ops[i].code == COORD_EXISTS;
    }
    SUB(suite_check(s, &history)); /* two winners would show as a revision that does not grow */
    history_deinit(&history);
    EXPECT_EQ(won, keys, "one winner a key");
    EXPECT_EQ(lost, keys * (clients - 1), "all others EXISTS");
}

/* -- TTL -- */

static void a06(struct suite *s)
{
    coord_lease *lease = NULL, *next = NULL;
    int64_t ttl_ms = suite_short_ttl(s), start_ns = real_now_ns();
    coord_result first = create(s->store, N("k"), "v", ttl_ms, "first", &lease);
    WANT(first, COORD_OK, COORD_R_CREATED);
    EXPECT_EQ(first.token, first.revision, "F1");
    EXPECT(first.granted_ttl_ms >= ttl_ms, "T2");
    coord_result early = create(s->store, N("k"), "v", ttl_ms, "second", &next);
    WANT(early, COORD_EXISTS, COORD_R_HELD);
    EXPECT(strcmp(early.owner, "first") == 0, "the holder is named: %s", early.owner);
    EXPECT_EQ(early.token, first.token, "and its token");
    if (s->stepped) { suite_pass_ms(s, ttl_ms); }
    coord_result second = create_when_free(s, N("k"), ttl_ms, "second", &next);
    WANT(second, COORD_OK, COORD_R_CREATED);
    EXPECT(s->stepped || real_now_ns() >= start_ns + first.granted_ttl_ms * MSEC,
           "T4: not before its TTL is over");
    EXPECT(second.revision > first.revision && second.token > first.token, "larger");
    coord_lease_unref(lease);
    coord_lease_unref(next);
}

static void a07(struct suite *s)
{
    if (!s->stepped) { /* only a stepped clock keeps the store from expiring it first */
        a06(s);
        return;
    }
    coord_lease *lease = NULL;
    WANT(create(s->store, N("k"), "v", 1000, "first", &lease), COORD_OK, COORD_R_CREATED);
    coord_lease_unref(lease);
    suite_pass_ms(s, 999);
    WANT(create(s->store, N("k"), "v", 0, NULL, NULL), COORD_EXISTS, COORD_R_HELD);
    suite_pass_ms(s, 1);
    WANT(create(s->store, N("k"), "v", 0, NULL, NULL), COORD_OK, COORD_R_CREATED);
}

static void a08(struct suite *s)
{
    coord_lease *lease = NULL;
    WANT(create(s->store, N("k"), "v", s->limits.ttl_min_ms - 1, "o", &lease), COORD_INVALID,
         COORD_R_TTL_RANGE);
    WANT(create(s->store, N("k"), "v", -1, "o", &lease), COORD_INVALID, COORD_R_TTL_RANGE);
    EXPECT_EQ(value_is(s->store, N("k"), NULL), 0, "no entry");
}

static void a09(struct suite *s)
{
    coord_lease *lease = NULL;
    coord_result r = create(s->store, N("k"), "v", 86400001, "o", &lease);
    WANT(r, COORD_INVALID, COORD_R_TTL_RANGE);
    EXPECT(strstr(r.text, "86400000") != NULL, "the text names the limit: %s", r.text);
    EXPECT_EQ(value_is(s->store, N("k"), NULL), 0, "no entry");
}

/* -- names and values -- */

static void a10(struct suite *s)
{
    char longest[514];
    memset(longest, 'k', sizeof longest);
    const coord_str bad[] = {
        {"a b", 3},      {"a\x7f", 2},
        {"a\0b", 3},     {"a//b", 4},
        {"..", 2},       {"a/../b", 6},
        {longest, 513},  {"", 0},
        {"/a", 2},       {"a/", 2},
        {".hidden", 7},  {"a/.group", 8},
        {"\xc3\xa4", 2}, {"1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17", 41},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        coord_result r = coord_create_if_absent(s->store, NULL, bad[i], text("v"), 0, NULL, NULL);
        EXPECT(r.code == COORD_INVALID && r.reason == COORD_R_KEY, "bad key %zu: %s/%s", i,
               coord_code_name(r.code), coord_reason_name(r.reason));
        EXPECT(r.text[0] != '\0', "bad key %zu learns why", i);
    }
    longest[0] = 'c'; /* 512 bytes are allowed: no other limit applies first */
    memcpy(longest, s->prefix, strlen(s->prefix));
    longest[strlen(s->prefix)] = '/';
    coord_result r =
        coord_create_if_absent(s->store, NULL, (coord_str){longest, 512}, text("v"), 0, NULL, NULL);
    WANT(r, COORD_OK, COORD_R_CREATED);
    coord_entry *entry = NULL;
    WANT(coord_get(s->store, NULL, (coord_str){longest, 512}, COORD_LATEST, &entry), COORD_OK,
         ANY_REASON);
    EXPECT_EQ(entry->key.len, 512, "comes back whole");
    coord_entry_free(entry);
}

static void a11(struct suite *s)
{
    size_t most = (size_t)s->limits.value_max;
    char *bytes = malloc(most + 1);
    EXPECT(bytes != NULL, "memory");
    for (size_t i = 0; i <= most; i++) { bytes[i] = (char)(i * 31); }
    EXPECT(most >= 65536, "every store takes 64 KiB");
    coord_result fits = coord_create_if_absent(s->store, NULL, text(N("fits")),
                                               (coord_str){bytes, 65536}, 0, NULL, NULL);
    coord_result large = coord_create_if_absent(s->store, NULL, text(N("large")),
                                                (coord_str){bytes, most + 1}, 0, NULL, NULL);
    coord_entry *entry = NULL;
    coord_result got = coord_get(s->store, NULL, text(N("fits")), COORD_LATEST, &entry);
    bool same = got.code == COORD_OK && entry->value.len == 65536 &&
                memcmp(entry->value.at, bytes, 65536) == 0;
    if (got.code == COORD_OK) { coord_entry_free(entry); }
    free(bytes);
    WANT(fits, COORD_OK, COORD_R_CREATED);
    WANT(large, COORD_INVALID, COORD_R_VALUE_SIZE);
    EXPECT(same, "every byte comes back");
    EXPECT_EQ(value_is(s->store, N("large"), NULL), 0, "no entry");
}

static void a12(struct suite *s)
{
    coord_result r = create(s->store, N("k"), "", 0, NULL, NULL);
    WANT(r, COORD_OK, COORD_R_CREATED);
    EXPECT_EQ(value_is(s->store, N("k"), ""), r.revision, "an empty value is a value");
}

static void a13(struct suite *s)
{
    WANT(create(s->store, N("a/b"), "slash", 0, NULL, NULL), COORD_OK, COORD_R_CREATED);
    WANT(create(s->store, N("a%2Fb"), "percent", 0, NULL, NULL), COORD_OK, COORD_R_CREATED);
    uint64_t slash = value_is(s->store, N("a/b"), "slash");
    uint64_t percent = value_is(s->store, N("a%2Fb"), "percent");
    EXPECT(slash != 0 && slash != UINT64_MAX && percent != 0 && percent != UINT64_MAX,
           "two entries");
}

static void a15(struct suite *s)
{
    uint64_t last = 0;
    for (int i = 0; i < 3; i++) {
        coord_result made = create(s->store, N("k"), "v", 0, NULL, NULL);
        WANT(made, COORD_OK, COORD_R_CREATED);
        EXPECT(made.revision > last, "larger than the deletion's");
        coord_result gone = coord_delete(s->store, NULL, text(N("k")), made.revision, NULL);
        WANT(gone, COORD_OK, COORD_R_DELETED);
        EXPECT(gone.revision > made.revision, "a deletion is a change");
        last = gone.revision;
    }
}

static void a16(struct suite *s)
{
    /* Garbage collection is the store's own; a client can only open the store again. */
    coord_result made = create(s->store, N("k"), "v", 0, NULL, NULL);
    WANT(made, COORD_OK, COORD_R_CREATED);
    coord_result gone = coord_delete(s->store, NULL, text(N("k")), COORD_ANY, NULL);
    WANT(gone, COORD_OK, COORD_R_DELETED);
    for (int i = 0; i < suite_scale(s, 200, 20); i++) {
        char leaf[32];
        (void)snprintf(leaf, sizeof leaf, "churn-%d", i);
        WANT(create(s->store, N(leaf), "v", 0, NULL, NULL), COORD_OK, COORD_R_CREATED);
        WANT(coord_delete(s->store, NULL, text(N(leaf)), COORD_ANY, NULL), COORD_OK,
             COORD_R_DELETED);
    }
    coord_store *other = suite_open(s);
    if (other == NULL) { return; }
    coord_result again = create(other, N("k"), "v", 0, NULL, NULL);
    WANT(again, COORD_OK, COORD_R_CREATED);
    EXPECT(again.revision > gone.revision, "still larger");
}

const struct test_case cases_create[] = {
    {"A01", "create on an empty store", COORD_CAP_CREATE, a01, 0, 0},
    {"A02", "create twice", COORD_CAP_CREATE, a02, 0, 0},
    {"A03", "64 threads, one key: one winner", COORD_CAP_CREATE, a03, 0, 0},
    {"A04", "processes, one key: one winner", COORD_CAP_CREATE, a04, CASE_PROCESSES | CASE_REAL, 0},
    {"A05", "many keys, many clients: one winner each", COORD_CAP_CREATE, a05, CASE_REAL, 0},
    {"A06", "a lease ends, another creates", COORD_CAP_CREATE | COORD_CAP_TTL, a06, 0, 0},
    {"A07", "an expired entry that nobody swept is absent", COORD_CAP_CREATE | COORD_CAP_TTL, a07,
     0, 0},
    {"A08", "a TTL below the least is refused", COORD_CAP_TTL, a08, 0, 0},
    {"A09", "a TTL above a day is refused", COORD_CAP_TTL, a09, 0, 0},
    {"A10", "keys outside the alphabet are refused", COORD_CAP_CREATE, a10, 0, 0},
    {"A11", "values up to the limit, and one more", COORD_CAP_CREATE, a11, 0, 0},
    {"A12", "an empty value", COORD_CAP_CREATE, a12, 0, 0},
    {"A13", "a/b and a%2Fb are two keys", COORD_CAP_CREATE, a13, 0, 0},
    {"A14", "names whose hashes collide", COORD_CAP_CREATE, NULL, 0, 0},
    {"A15", "create after delete has a larger revision", COORD_CAP_CREATE | COORD_CAP_CAS, a15, 0,
     0},
    {"A16", "also after what was deleted is collected", COORD_CAP_CREATE | COORD_CAP_CAS, a16, 0,
     0},
    {0},
};
