/* SPDX-License-Identifier: Apache-2.0 */
/* D5: release. */
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "cases.h"

static void e01(struct suite *s)
{
    coord_lease *lease = NULL, *next = NULL;
    WANT(acquire(s->store, N("g"), 1, "a", suite_long_ttl(s), 0, &lease), COORD_OK,
         COORD_R_ACQUIRED);
    WANT(coord_release(lease, NULL), COORD_OK, COORD_R_RELEASED);
    WANT(acquire(s->store, N("g"), 1, "b", suite_long_ttl(s), 0, &next), COORD_OK,
         COORD_R_ACQUIRED);
    EXPECT_EQ(coord_check(lease), COORD_EXPIRED, "check");
    (void)coord_release(next, NULL);
    coord_lease_unref(lease);
    coord_lease_unref(next);
}

static void e02(struct suite *s)
{
    coord_lease *lease = NULL;
    WANT(create(s->store, N("k"), "v", suite_long_ttl(s), "o", &lease), COORD_OK, COORD_R_CREATED);
    WANT(coord_release(lease, NULL), COORD_OK, COORD_R_RELEASED);
    WANT(coord_release(lease, NULL), COORD_OK, COORD_R_ALREADY);
    WANT(coord_release(lease, NULL), COORD_OK, COORD_R_ALREADY);
    coord_lease_unref(lease);
}

static void e03(struct suite *s)
{
    coord_lease *lease = NULL, *next = NULL;
    int64_t ttl_ms = suite_short_ttl(s);
    WANT(acquire(s->store, N("g"), 1, "a", ttl_ms, 0, &lease), COORD_OK, COORD_R_ACQUIRED);
    if (s->stepped) { suite_pass_ms(s, ttl_ms); }
    coord_result r = acquire_when_free(s, N("g"), 1, "b", suite_long_ttl(s), &next);
    WANT(r, COORD_OK, COORD_R_ACQUIRED);
    WANT(coord_release(lease, NULL), COORD_EXPIRED, ANY_REASON);
    WANT(coord_renew(next, NULL), COORD_OK, COORD_R_RENEWED);
    coord_holders *holders = NULL;
    WANT(coord_list_holders(s->store, NULL, text(N("g")), &holders), COORD_OK, ANY_REASON);
    EXPECT(holders->count == 1 && holders->rows[0].token == r.token, "the new holder is untouched");
    coord_holders_free(holders);
    (void)coord_release(next, NULL);
    coord_lease_unref(lease);
    coord_lease_unref(next);
}

static void e04(struct suite *s)
{
    coord_store *faulty =
        suite_open_faulty(s, "fault_ops=release&fault_first=1&fault_lose_reply=1000");
    if (faulty == NULL) { return; }
    coord_lease *lease = NULL;
    WANT(create(faulty, N("k"), "v", suite_long_ttl(s), "o", &lease), COORD_OK, COORD_R_CREATED);
    WANT(coord_release(lease, NULL), COORD_OK, COORD_R_ALREADY);
    EXPECT_EQ(value_is(s->store, N("k"), NULL), 0, "absent");
    coord_lease_unref(lease);
}

struct renewer {
    coord_lease *lease;
    coord_result result;
};
static void *renew(void *arg)
{
    struct renewer *r = arg;
    r->result = coord_renew(r->lease, NULL);
    return NULL;
}

static void e05(struct suite *s)
{
    for (int i = 0; i < suite_scale(s, 500, 40); i++) {
        coord_lease *lease = NULL;
        pthread_t thread;
        char leaf[24];
        (void)snprintf(leaf, sizeof leaf, "k%d", i);
        WANT(create(s->store, N(leaf), "v", suite_long_ttl(s), "o", &lease), COORD_OK,
             COORD_R_CREATED);
        struct renewer renewer = {lease, {0}};
        EXPECT(pthread_create(&thread, NULL, renew, &renewer) == 0, "thread");
        coord_result r = coord_release(lease, NULL);
        (void)pthread_join(thread, NULL);
        WANT(r, COORD_OK, COORD_R_RELEASED);
        coord_result got = renewer.result;
        EXPECT(got.code == COORD_OK ||
                   (got.code == COORD_EXPIRED && got.reason == COORD_R_RELEASED),
               "OK or EXPIRED/released, got %s/%s", coord_code_name(got.code),
               coord_reason_name(got.reason));
        EXPECT_EQ(value_is(s->store, N(leaf), NULL), 0, "absent afterwards");
        coord_lease_unref(lease);
    }
}

static void e06(struct suite *s)
{
    struct helper h;
    char line[128];
    coord_lease *lease = NULL;
    int64_t ttl_ms = suite_short_ttl(s) * 2;
    if (!helper_start(s, "hold", (long)ttl_ms, &h)) { return; }
    bool fine = helper_line(s, &h, line, sizeof line);
    helper_end(&h);
    if (!fine) { return; }
    EXPECT(strncmp(line, "acquired ", 9) == 0, "the helper holds: %s", line);
    coord_result r = acquire_when_free(s, N("g"), 1, "next", suite_long_ttl(s), &lease);
    WANT(r, COORD_OK, COORD_R_ACQUIRED);
    (void)coord_release(lease, NULL);
    coord_lease_unref(lease);
}

static void e07(struct suite *s)
{
    coord_lease *own = NULL, *slot = NULL, *others = NULL;
    coord_store *other = suite_open(s);
    if (other == NULL) { return; }
    WANT(create(other, N("own"), "v", suite_long_ttl(s), "o", &own), COORD_OK, COORD_R_CREATED);
    WANT(acquire(other, N("g"), 1, "o", suite_long_ttl(s), 0, &slot), COORD_OK, COORD_R_ACQUIRED);
    WANT(create(s->store, N("others"), "v", suite_long_ttl(s), "o", &others), COORD_OK,
         COORD_R_CREATED);
    coord_result kept = create(other, N("permanent"), "v", 0, NULL, NULL);
    WANT(kept, COORD_OK, COORD_R_CREATED);
    suite_close_now(s, other);
    EXPECT_EQ(value_is(s->store, N("own"), NULL), 0, "released");
    EXPECT_EQ(value_is(s->store, N("permanent"), "v"), kept.revision, "permanent ones stay");
    coord_lease *next = NULL;
    WANT(acquire(s->store, N("g"), 1, "p", suite_long_ttl(s), 0, &next), COORD_OK,
         COORD_R_ACQUIRED);
    WANT(coord_renew(others, NULL), COORD_OK, COORD_R_RENEWED);
    EXPECT_EQ(coord_check(own), COORD_EXPIRED, "a handle that outlived its store");
    coord_lease_unref(own);
    coord_lease_unref(slot);
    (void)coord_release(others, NULL);
    (void)coord_release(next, NULL);
    coord_lease_unref(others);
    coord_lease_unref(next);
}

static void e08(struct suite *s)
{
    coord_lease *lease = NULL;
    coord_result a = create(s->store, N("a"), "v", suite_long_ttl(s), "o", &lease);
    WANT(a, COORD_OK, COORD_R_CREATED);
    coord_result b = coord_create_under(lease, NULL, text(N("b")), text("v"));
    WANT(b, COORD_OK, COORD_R_CREATED);
    WANT(coord_create_under(lease, NULL, text(N("b")), text("v")), COORD_EXISTS, COORD_R_HELD);
    WANT(coord_release_key(lease, NULL, text(N("a"))), COORD_OK, COORD_R_RELEASED);
    EXPECT_EQ(value_is(s->store, N("a"), NULL), 0, "absent");
    EXPECT_EQ(value_is(s->store, N("b"), "v"), b.revision, "stays");
    WANT(coord_renew(lease, NULL), COORD_OK, COORD_R_RENEWED);
    WANT(coord_release(lease, NULL), COORD_OK, COORD_R_RELEASED);
    EXPECT_EQ(value_is(s->store, N("b"), NULL), 0, "absent");
    coord_lease_unref(lease);
}

#define LEASE (COORD_CAP_CREATE | COORD_CAP_TTL)
#define SLOT  (LEASE | COORD_CAP_SLOTS)
const struct test_case cases_release[] = {
    {"E01", "released: free at once for another", SLOT, e01, 0, 0},
    {"E02", "released twice", LEASE, e02, 0, 0},
    {"E03", "released after expiry and takeover", SLOT, e03, 0, 0},
    {"E04", "the reply of a release is lost", LEASE, e04, CASE_REAL, 0},
    {"E05", "release against the own renewal", LEASE, e05, CASE_REAL, 0},
    {"E06", "a process ends without release", SLOT, e06, CASE_REAL | CASE_PROCESSES, 0},
    {"E07", "a store object is closed: its leases are released", SLOT, e07, 0, 0},
    {"E08", "one key of a lease is released", LEASE | COORD_CAP_MULTI_KEY, e08, 0, 0},
    {0},
};
