/* SPDX-License-Identifier: Apache-2.0 */
/* D2: compare_and_set, delete. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"

static void b01(struct suite *s)
{
    coord_result made = create(s->store, N("k"), "a", 0, NULL, NULL);
    WANT(made, COORD_OK, COORD_R_CREATED);
    coord_result r = cas(s->store, N("k"), made.revision, "b", COORD_TTL_KEEP, NULL);
    WANT(r, COORD_OK, COORD_R_UPDATED);
    EXPECT(r.revision > made.revision, "larger");
    EXPECT_EQ(value_is(s->store, N("k"), "b"), r.revision, "R1");
}

static void b02(struct suite *s)
{
    coord_result made = create(s->store, N("k"), "a", 0, NULL, NULL);
    WANT(made, COORD_OK, COORD_R_CREATED);
    coord_result now = cas(s->store, N("k"), made.revision, "b", COORD_TTL_KEEP, NULL);
    WANT(now, COORD_OK, COORD_R_UPDATED);
    coord_result r = cas(s->store, N("k"), made.revision, "c", COORD_TTL_KEEP, NULL);
    WANT(r, COORD_CONFLICT, COORD_R_REVISION);
    EXPECT_EQ(r.revision, now.revision, "the present one");
    EXPECT_EQ(value_is(s->store, N("k"), "b"), now.revision, "unchanged");
}

static void b03(struct suite *s)
{
    coord_result r = cas(s->store, N("k"), 0, "a", COORD_TTL_KEEP, NULL);
    WANT(r, COORD_OK, COORD_R_CREATED);
    coord_result again = cas(s->store, N("k"), 0, "b", COORD_TTL_KEEP, NULL);
    WANT(again, COORD_CONFLICT, COORD_R_PRESENT);
    EXPECT_EQ(value_is(s->store, N("k"), "a"), r.revision, "unchanged");
}

static void b04(struct suite *s)
{
    coord_result r = cas(s->store, N("k"), 7, "a", COORD_TTL_KEEP, NULL);
    WANT(r, COORD_CONFLICT, COORD_R_ABSENT);
    EXPECT_EQ(r.revision, 0, "R4");
    EXPECT_EQ(value_is(s->store, N("k"), NULL), 0, "nothing created");
}

/* Waits until the entry has ended at the authority. */
static bool wait_absent(struct suite *s, const char *key)
{
    int64_t until_ns = real_now_ns() + 60000 * MSEC;
    while (value_is(s->store, key, NULL) != 0) {
        if (real_now_ns() > until_ns) {
            suite_fail(s, __FILE__, __LINE__, key, "the lease never ended");
            return false;
        }
        suite_pass_ms(s, 20);
    }
    return true;
}

static void b05(struct suite *s)
{
    coord_lease *lease = NULL;
    coord_result made = create(s->store, N("k"), "a", suite_short_ttl(s), "o", &lease);
    WANT(made, COORD_OK, COORD_R_CREATED);
    if (!wait_absent(s, N("k"))) { return; }
    WANT(cas(s->store, N("k"), made.revision, "b", COORD_TTL_KEEP, NULL), COORD_CONFLICT,
         COORD_R_ABSENT);
    coord_result own = cas(s->store, N("k"), made.revision, "b", COORD_TTL_KEEP, lease);
    EXPECT(own.code == COORD_CONFLICT || own.code == COORD_EXPIRED,
           "its own lease is over, too: %s", coord_code_name(own.code));
    EXPECT_EQ(value_is(s->store, N("k"), NULL), 0, "nothing created");
    coord_lease_unref(lease);
}

void worker_increment(struct worker *w)
{
    char key[NAME_CAP];
    (void)snprintf(key, sizeof key, "%s/counter", w->prefix);
    for (long done = 0; done < w->a;) { /* ends: somebody always succeeds */
        coord_entry *entry = NULL;
        if (coord_get(w->store, NULL, text(key), COORD_LATEST, &entry).code != COORD_OK) {
            w->failed = 1;
            return;
        }
        char value[32];
        long number = strtol(entry->value.at, NULL, 10);
        (void)snprintf(value, sizeof value, "%ld", number + 1);
        struct history_op op = {
            .op = COORD_OP_CAS, .client = w->index, .called_ns = real_now_ns(), .key = "counter"};
        coord_result r = cas(w->store, key, entry->revision, value, COORD_TTL_KEEP, NULL);
        op.replied_ns = real_now_ns();
        op.code = r.code;
        op.reason = r.reason;
        op.revision = r.revision;
        coord_entry_free(entry);
        if (r.code == COORD_OK) {
            done++;
            noted(w, &op);
        } else if (r.code != COORD_CONFLICT) {
            w->failed = 1;
            return;
        }
    }
}

static void b06(struct suite *s)
{
    struct history history = {0};
    uint32_t writers = (uint32_t)suite_scale(s, 32, 9);
    long each = s->caps.scope == COORD_SCOPE_PROCESS ? 1000 : suite_scale(s, 1000, 30);
    char want[32];
    WANT(create(s->store, N("counter"), "0", 0, NULL, NULL), COORD_OK, COORD_R_CREATED);
    if (!workers_run(s, "increment", writers, each, 0, &history)) { return; }
    SUB(suite_check(s, &history));
    history_deinit(&history);
    (void)snprintf(want, sizeof want, "%ld", (long)writers * each);
    EXPECT(value_is(s->store, N("counter"), want) != UINT64_MAX, "no increment was lost");
}

static void b07(struct suite *s)
{
    coord_result made = create(s->store, N("k"), "same", 0, NULL, NULL);
    WANT(made, COORD_OK, COORD_R_CREATED);
    WANT(coord_delete(s->store, NULL, text(N("k")), COORD_ANY, NULL), COORD_OK, COORD_R_DELETED);
    WANT(create(s->store, N("k"), "same", 0, NULL, NULL), COORD_OK, COORD_R_CREATED);
    WANT(cas(s->store, N("k"), made.revision, "new", COORD_TTL_KEEP, NULL), COORD_CONFLICT,
         COORD_R_REVISION);
}

static void b08(struct suite *s)
{
    coord_lease *lease = NULL, *other = NULL;
    coord_result made = create(s->store, N("k"), "a", suite_long_ttl(s), "o", &lease);
    WANT(made, COORD_OK, COORD_R_CREATED);
    WANT(create(s->store, N("k2"), "a", suite_long_ttl(s), "o", &other), COORD_OK, COORD_R_CREATED);
    WANT(cas(s->store, N("k"), made.revision, "b", COORD_TTL_KEEP, NULL), COORD_CONFLICT,
         COORD_R_NOT_OWNER);
    WANT(cas(s->store, N("k"), made.revision, "b", COORD_TTL_KEEP, other), COORD_CONFLICT,
         COORD_R_NOT_OWNER); /* O1: the owner's name is not enough */
    EXPECT_EQ(value_is(s->store, N("k"), "a"), made.revision, "unchanged");
    /* A new lease can replace the lease of an entry, but a plain entry has none. */
    coord_lease *none = NULL;
    coord_result plain = create(s->store, N("k3"), "a", 0, NULL, NULL);
    WANT(plain, COORD_OK, COORD_R_CREATED);
    WANT(coord_compare_and_set(s->store, NULL, text(N("k3")), plain.revision, text("b"),
                               suite_long_ttl(s), NULL, other, &none),
         COORD_CONFLICT, COORD_R_NOT_OWNER);
    EXPECT_EQ(value_is(s->store, N("k3"), "a"), plain.revision, "unchanged, and nobody's");
    (void)coord_release(lease, NULL);
    (void)coord_release(other, NULL);
    coord_lease_unref(lease);
    coord_lease_unref(other);
}

static void b09(struct suite *s)
{
    coord_lease *lease = NULL;
    int64_t ttl_ms = s->stepped ? 1000 : suite_short_ttl(s) * 2;
    coord_result made = create(s->store, N("k"), "a", ttl_ms, "o", &lease);
    WANT(made, COORD_OK, COORD_R_CREATED);
    if (s->stepped) { suite_pass_ms(s, 600); }
    coord_result r = cas(s->store, N("k"), made.revision, "b", COORD_TTL_KEEP, lease);
    WANT(r, COORD_OK, COORD_R_UPDATED);
    EXPECT_EQ(r.token, made.token, "the same grant");
    EXPECT_EQ(coord_lease_token(lease), made.token, "the handle's, too");
    if (s->stepped) {
        suite_pass_ms(s, 399);
        EXPECT_EQ(value_is(s->store, N("k"), "b"), r.revision, "to its deadline");
        suite_pass_ms(s, 1);
        EXPECT_EQ(value_is(s->store, N("k"), NULL), 0, "and no longer: an update is no renewal");
    } else {
        (void)coord_release(lease, NULL);
    }
    coord_lease_unref(lease);
}

static void b10(struct suite *s)
{
    coord_lease *lease = NULL, *watcher = NULL;
    int64_t ttl_ms = suite_short_ttl(s);
    coord_result made = create(s->store, N("k"), "a", ttl_ms, "o", &lease);
    WANT(made, COORD_OK, COORD_R_CREATED);
    /* A second lease of the same length: when it has expired, the first would have, too. */
    WANT(create(s->store, N("clock"), "a", ttl_ms, "o", &watcher), COORD_OK, COORD_R_CREATED);
    coord_result r = cas(s->store, N("k"), made.revision, "b", 0, lease);
    WANT(r, COORD_OK, COORD_R_UPDATED);
    if (!wait_absent(s, N("clock"))) { return; }
    EXPECT_EQ(value_is(s->store, N("k"), "b"), r.revision, "permanent");
    coord_entry *entry = NULL;
    WANT(coord_get(s->store, NULL, text(N("k")), COORD_LATEST, &entry), COORD_OK, ANY_REASON);
    EXPECT(entry->ttl_ms == 0 && entry->owner[0] == '\0', "not leased");
    coord_entry_free(entry);
    coord_lease_unref(lease);
    coord_lease_unref(watcher);
}

static void b11(struct suite *s)
{
    int rounds = s->stepped ? suite_scale(s, 500, 50) : 2;
    for (int i = 0; i < rounds; i++) {
        coord_lease *lease = NULL;
        char leaf[32];
        (void)snprintf(leaf, sizeof leaf, "k%d", i);
        int64_t ttl_ms = suite_short_ttl(s);
        coord_result made = create(s->store, N(leaf), "a", ttl_ms, "o", &lease);
        WANT(made, COORD_OK, COORD_R_CREATED);
        suite_pass_ms(s, s->stepped ? ttl_ms - i % 2 : ttl_ms - 20 + 10 * i);
        coord_result r = cas(s->store, N(leaf), made.revision, "b", COORD_TTL_KEEP, lease);
        EXPECT(r.code == COORD_OK || r.code == COORD_EXPIRED ||
                   (r.code == COORD_CONFLICT && r.reason == COORD_R_ABSENT),
               "updated or absent, got %s/%s", coord_code_name(r.code),
               coord_reason_name(r.reason));
        if (s->stepped) { EXPECT_EQ(r.code == COORD_OK, i % 2 == 1, "the deadline decides"); }
        if (r.code != COORD_OK) {
            uint64_t now = value_is(s->store, N(leaf), "b");
            EXPECT(now == 0 || now == UINT64_MAX, "refused and yet written");
        }
        coord_lease_unref(lease);
    }
}

void worker_cas_delete(struct worker *w)
{
    /* Even workers set and odd ones delete, each with the revision that it knows: revision `a` of
     * key b. */
    char key[NAME_CAP];
    (void)snprintf(key, sizeof key, "%s/race-%ld", w->prefix, w->b);
    struct history_op op = {.op = w->index % 2 == 0 ? COORD_OP_CAS : COORD_OP_DELETE,
                            .client = w->index,
                            .called_ns = real_now_ns()};
    coord_result r = w->index % 2 == 0
                         ? cas(w->store, key, (uint64_t)w->a, "new", COORD_TTL_KEEP, NULL)
                         : coord_delete(w->store, NULL, text(key), (uint64_t)w->a, NULL);
    op.replied_ns = real_now_ns();
    op.code = r.code;
    op.reason = r.reason;
    op.revision = r.revision;
    (void)snprintf(op.key, sizeof op.key, "race-%ld", w->b);
    noted(w, &op);
}

static void b12(struct suite *s)
{
    for (int i = 0; i < suite_scale(s, 300, 30) && !s->failed; i++) {
        struct history history = {0};
        char leaf[32];
        (void)snprintf(leaf, sizeof leaf, "race-%d", i);
        coord_result made = create(s->store, N(leaf), "old", 0, NULL, NULL);
        WANT(made, COORD_OK, COORD_R_CREATED);
        if (!workers_threads(s, "cas_delete", 2, (long)made.revision, i, &history)) { return; }
        bool set = false, deleted = false;
        for (size_t n = 0; n < history.count; n++) {
            const struct history_op *op = &history.ops[n];
            set |= op->op == COORD_OP_CAS && op->code == COORD_OK;
            deleted |= op->op == COORD_OP_DELETE && op->code == COORD_OK;
        }
        history_deinit(&history);
        EXPECT(set != deleted, "exactly one had the revision: set %d, deleted %d", set, deleted);
        uint64_t now = value_is(s->store, N(leaf), "new");
        EXPECT(set ? now != 0 && now != UINT64_MAX : now == 0, "the state agrees with the replies");
    }
}

static void b13(struct suite *s)
{
    coord_result made = create(s->store, N("k"), "a", 0, NULL, NULL);
    WANT(made, COORD_OK, COORD_R_CREATED);
    coord_result r = coord_delete(s->store, NULL, text(N("k")), made.revision, NULL);
    WANT(r, COORD_OK, COORD_R_DELETED);
    EXPECT(r.revision > made.revision, "the deletion's own");
    WANT(coord_delete(s->store, NULL, text(N("k")), made.revision, NULL), COORD_NOT_FOUND,
         ANY_REASON);
    WANT(coord_delete(s->store, NULL, text(N("k")), COORD_ANY, NULL), COORD_NOT_FOUND, ANY_REASON);
}

static void b14(struct suite *s)
{
    coord_result made = create(s->store, N("k"), "a", 0, NULL, NULL);
    WANT(made, COORD_OK, COORD_R_CREATED);
    WANT(coord_delete(s->store, NULL, text(N("k")), made.revision + 1, NULL), COORD_CONFLICT,
         COORD_R_REVISION);
    EXPECT_EQ(value_is(s->store, N("k"), "a"), made.revision, "stays");
}

static void b15(struct suite *s)
{
    coord_lease *lease = NULL;
    coord_result made = create(s->store, N("k"), "a", suite_long_ttl(s), "o", &lease);
    WANT(made, COORD_OK, COORD_R_CREATED);
    WANT(coord_delete(s->store, NULL, text(N("k")), COORD_ANY, NULL), COORD_CONFLICT,
         COORD_R_NOT_OWNER);
    WANT(coord_delete(s->store, NULL, text(N("k")), made.revision, NULL), COORD_CONFLICT,
         COORD_R_NOT_OWNER);
    EXPECT_EQ(value_is(s->store, N("k"), "a"), made.revision, "stays");
    WANT(coord_delete(s->store, NULL, text(N("k")), COORD_ANY, lease), COORD_OK, COORD_R_DELETED);
    coord_lease_unref(lease);
}

struct loss_seen {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int calls, reason;
};
static void on_lost(void *arg, coord_lease *lease, int reason)
{
    struct loss_seen *reported = arg;
    (void)lease;
    (void)pthread_mutex_lock(&reported->mutex);
    reported->calls++;
    reported->reason = reason;
    (void)pthread_cond_broadcast(&reported->changed);
    (void)pthread_mutex_unlock(&reported->mutex);
}

static void b16(struct suite *s)
{
    struct loss_seen reported = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};
    coord_lease *lease = NULL;
    /* Its own renewals come so rarely that only the store can report the loss; if the store does
     * not, the renewal at a third of the TTL does. */
    WANT(create(s->store, N("k"), "a", 3 * suite_short_ttl(s), "o", &lease), COORD_OK,
         COORD_R_CREATED);
    WANT(coord_keep(lease, on_lost, &reported), COORD_OK, ANY_REASON);
    coord_result r = coord_delete(s->store, NULL, text(N("k")), COORD_FORCE, NULL);
    WANT(r, COORD_OK, COORD_R_DELETED);
    (void)pthread_mutex_lock(&reported.mutex);
    while (reported.calls == 0) { (void)pthread_cond_wait(&reported.changed, &reported.mutex); }
    int reason = reported.reason;
    (void)pthread_mutex_unlock(&reported.mutex);
    EXPECT_EQ(reason, COORD_R_REVOKED, "why");
    EXPECT_EQ(coord_check(lease), COORD_EXPIRED, "check");
    WANT(coord_renew(lease, NULL), COORD_EXPIRED, COORD_R_REVOKED);
    EXPECT_EQ(value_is(s->store, N("k"), NULL), 0, "gone");
    coord_lease_unref(lease);
    real_sleep_ms(50);
    EXPECT_EQ(reported.calls, 1, "reported once");
}

static void b17(struct suite *s)
{
    coord_lease *lease = NULL;
    coord_result made = create(s->store, N("k"), "a", suite_long_ttl(s), "o", &lease);
    WANT(made, COORD_OK, COORD_R_CREATED);
    for (int i = 0; i < suite_scale(s, 100, 30); i++) {
        WANT(coord_renew(lease, NULL), COORD_OK, COORD_R_RENEWED);
        if (s->stepped) { suite_pass_ms(s, 100); }
    }
    EXPECT_EQ(value_is(s->store, N("k"), "a"), made.revision, "R2: no change");
    WANT(cas(s->store, N("k"), made.revision, "b", COORD_TTL_KEEP, lease), COORD_OK,
         COORD_R_UPDATED);
    (void)coord_release(lease, NULL);
    coord_lease_unref(lease);
}

static void b18(struct suite *s)
{
    coord_store *faulty = suite_open_faulty(s, "fault_ops=cas&fault_first=1&fault_lose_reply=1000");
    if (faulty == NULL) { return; }
    coord_result made = create(s->store, N("k"), "a", 0, NULL, NULL);
    WANT(made, COORD_OK, COORD_R_CREATED);
    coord_result r = cas(faulty, N("k"), made.revision, "b", COORD_TTL_KEEP, NULL);
    WANT(r, COORD_OK, COORD_R_REPLAYED);
    EXPECT_EQ(value_is(s->store, N("k"), "b"), r.revision, "one effect, and its revision");
    coord_result next = cas(s->store, N("k"), r.revision, "c", COORD_TTL_KEEP, NULL);
    WANT(next, COORD_OK, COORD_R_UPDATED);
    if (s->stepped) { EXPECT_EQ(next.revision, r.revision + 1, "one revision consumed"); }
}

void worker_random(struct worker *w)
{
    enum { KEYS = 10 };
    unsigned seed = w->index * 7919 + 1;
    for (long i = 0; i < w->a; i++) {
        char key[NAME_CAP];
        coord_lease *lease = NULL;
        int number = rand_r(&seed) % KEYS, die = rand_r(&seed) % 10;
        (void)snprintf(key, sizeof key, "%s/k%d", w->prefix, number);
        struct history_op op = {.client = w->index, .called_ns = real_now_ns()};
        (void)snprintf(op.key, sizeof op.key, "k%d", number);
        coord_result r;
        coord_entry *entry = NULL;
        if (die < 3) {
            op.op = COORD_OP_CREATE;
            r = create(w->store, key, "v", die == 0 && w->b > 0 ? w->b : 0, "o", &lease);
            coord_lease_unref(lease);
        } else if (die < 6) {
            coord_result got = coord_get(w->store, NULL, text(key), COORD_LATEST, &entry);
            uint64_t expected = got.code == COORD_OK ? entry->revision : 0;
            coord_entry_free(entry);
            op.called_ns = real_now_ns();
            op.op = COORD_OP_CAS;
            r = cas(w->store, key, expected, "w", COORD_TTL_KEEP, NULL);
        } else if (die < 8) {
            op.op = COORD_OP_DELETE;
            r = coord_delete(w->store, NULL, text(key), COORD_ANY, NULL);
        } else {
            op.op = COORD_OP_GET;
            r = coord_get(w->store, NULL, text(key), COORD_LATEST, &entry);
            r.revision = r.code == COORD_OK ? entry->revision : 0;
            coord_entry_free(entry);
        }
        op.replied_ns = real_now_ns();
        op.code = r.code;
        op.reason = r.reason;
        op.revision = r.revision;
        noted(w, &op);
    }
}

static void b19(struct suite *s)
{
    struct history history = {0};
    long each = suite_scale(s, 2500, 150);
    int64_t ttl_ms = suite_has(s, COORD_CAP_TTL) ? s->limits.ttl_min_ms : 0;
    if (!workers_run(s, "random", 4, each, (long)ttl_ms, &history)) { return; }
    suite_check(s, &history);
    history_deinit(&history);
}

#define CAS   (COORD_CAP_CREATE | COORD_CAP_CAS)
#define LEASE (COORD_CAP_CREATE | COORD_CAP_CAS | COORD_CAP_TTL)
const struct test_case cases_cas[] = {
    {"B01", "set with the present revision", CAS, b01, 0, 0},
    {"B02", "set with an old revision", CAS, b02, 0, 0},
    {"B03", "set where it must be absent", CAS, b03, 0, 0},
    {"B04", "set with a revision where nothing is", CAS, b04, 0, 0},
    {"B05", "set with a revision that has expired", LEASE, b05, 0, 0},
    {"B06", "many writers increment: none is lost", CAS, b06, CASE_REAL, 0},
    {"B07", "deleted and made again: no ABA", CAS, b07, 0, 0},
    {"B08", "set of a leased key needs the lease", LEASE, b08, 0, 0},
    {"B09", "set with the lease keeps token and deadline", LEASE, b09, 0, 0},
    {"B10", "set that drops the lease", LEASE, b10, 0, 0},
    {"B11", "set against expiry: one or the other", LEASE, b11, 0, 0},
    {"B12", "set against delete: one or the other", CAS, b12, 0, 0},
    {"B13", "delete, and again", CAS, b13, 0, 0},
    {"B14", "delete with a wrong revision", CAS, b14, 0, 0},
    {"B15", "delete of a leased key by a stranger", LEASE, b15, 0, 0},
    {"B16", "delete by force: the holder learns it", LEASE | COORD_CAP_FORCE, b16, CASE_REAL, 0},
    {"B17", "renewals are no change", LEASE, b17, 0, 0},
    {"B18", "the reply of a set is lost", CAS, b18, CASE_REAL, 0},
    {"B19", "revisions of random calls rise", CAS, b19, CASE_REAL, 0},
    {0},
};
