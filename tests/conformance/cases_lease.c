/* SPDX-License-Identifier: Apache-2.0 */
/* D4: renewal and expiry, keepers. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cases.h"

/* The loss that a keeper reported. */
struct loss_seen {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int calls, reason;
    int64_t at_ns;
};
#define LOSS_INIT                                                                                  \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0                               \
    }
static void on_lost(void *arg, coord_lease *lease, int reason)
{
    struct loss_seen *reported = arg;
    int64_t now_ns = real_now_ns();
    (void)lease;
    (void)pthread_mutex_lock(&reported->mutex);
    reported->calls++;
    reported->reason = reason;
    reported->at_ns = now_ns;
    (void)pthread_cond_broadcast(&reported->changed);
    (void)pthread_mutex_unlock(&reported->mutex);
}
static void wait_loss(struct loss_seen *reported)
{
    (void)pthread_mutex_lock(&reported->mutex);
    while (reported->calls == 0) { (void)pthread_cond_wait(&reported->changed, &reported->mutex); }
    (void)pthread_mutex_unlock(&reported->mutex);
}
static int calls_of(struct loss_seen *reported)
{
    (void)pthread_mutex_lock(&reported->mutex);
    int calls = reported->calls;
    (void)pthread_mutex_unlock(&reported->mutex);
    return calls;
}

static void drop(coord_lease **lease)
{
    if (*lease != NULL) { (void)coord_release(*lease, NULL); }
    coord_lease_unref(*lease);
    *lease = NULL;
}

/* With COORD_CAP_LATE_RENEWAL the library itself refuses after safe_until. */
static bool is_over(const struct suite *s, coord_result r)
{
    return r.code == COORD_EXPIRED &&
           (r.reason == COORD_R_DEADLINE ||
            (r.reason == COORD_R_LOCAL && (s->caps.bits & COORD_CAP_LATE_RENEWAL) != 0));
}

static void wait_absent(struct suite *s, const char *key)
{
    int64_t until_ns = real_now_ns() + 60000 * MSEC;
    while (value_is(s->store, key, NULL) != 0) {
        EXPECT(real_now_ns() < until_ns, "the lease never ended");
        suite_pass_ms(s, 20);
    }
}

static void d01(struct suite *s)
{
    coord_lease *lease = NULL;
    int64_t ttl_ms = s->stepped ? 2000 : suite_short_ttl(s) * 4;
    coord_result made = create(s->store, N("k"), "v", ttl_ms, "o", &lease);
    WANT(made, COORD_OK, COORD_R_CREATED);
    int rounds = s->stepped ? 50 : suite_scale(s, 30, 4);
    for (int i = 0; i < rounds; i++) {
        suite_pass_ms(s, ttl_ms * 3 / 10);
        coord_result r = coord_renew(lease, NULL);
        WANT(r, COORD_OK, COORD_R_RENEWED);
        EXPECT_EQ(coord_check(lease), COORD_OK, "check");
        EXPECT_EQ(coord_lease_token(lease), made.token, "one token");
        EXPECT_EQ(value_is(s->store, N("k"), "v"), made.revision, "live");
    }
    drop(&lease);
}

static void d02(struct suite *s)
{
    coord_lease *lease = NULL, *next = NULL;
    int64_t ttl_ms = suite_short_ttl(s), start_ns = real_now_ns();
    coord_result made = acquire(s->store, N("g"), 1, "first", ttl_ms, 0, &lease);
    WANT(made, COORD_OK, COORD_R_ACQUIRED);
    if (s->stepped) {
        suite_pass_ms(s, ttl_ms - 1);
        coord_result full = acquire(s->store, N("g"), 1, "second", ttl_ms, 0, &next);
        WANT(full, COORD_EXISTS, COORD_R_FULL);
        EXPECT_EQ(full.live, 1, "live to the last");
        suite_pass_ms(s, 1);
        WANT(acquire(s->store, N("g"), 1, "second", ttl_ms, 0, &next), COORD_OK, COORD_R_ACQUIRED);
    } else {
        coord_result r = acquire_when_free(s, N("g"), 1, "second", suite_long_ttl(s), &next);
        WANT(r, COORD_OK, COORD_R_ACQUIRED);
        EXPECT(real_now_ns() >= start_ns + made.granted_ttl_ms * MSEC, "T4: not before");
        EXPECT(r.token > made.token, "F2");
    }
    EXPECT_EQ(coord_check(lease), COORD_EXPIRED, "the first knows without asking");
    coord_lease_unref(lease);
    drop(&next);
}

static void d03(struct suite *s)
{
    coord_lease *lease = NULL;
    int64_t ttl_ms = suite_short_ttl(s);
    WANT(create(s->store, N("k"), "v", ttl_ms, "o", &lease), COORD_OK, COORD_R_CREATED);
    if (s->stepped) {
        suite_pass_ms(s, ttl_ms + 1);
    } else {
        SUB(wait_absent(s, N("k")));
    }
    coord_result r = coord_renew(lease, NULL);
    EXPECT(is_over(s, r), "over, got %s/%s", coord_code_name(r.code), coord_reason_name(r.reason));
    EXPECT_EQ(value_is(s->store, N("k"), NULL), 0, "and absent");
    r = coord_renew(lease, NULL);
    EXPECT(r.code == COORD_EXPIRED, "final");
    coord_lease_unref(lease);
}

struct racer {
    struct suite *s;
    coord_lease *lease;
    const char *key;
    pthread_barrier_t *barrier;
    coord_result result;
    int kind; /* 0 renew, 1 create, 2 step */
};
static void *race(void *arg)
{
    struct racer *r = arg;
    coord_lease *lease = NULL;
    (void)pthread_barrier_wait(r->barrier);
    if (r->kind == 0) {
        r->result = coord_renew(r->lease, NULL);
    } else if (r->kind == 1) {
        r->result = create(r->s->store, r->key, "v", 60000, "other", &lease);
        coord_lease_unref(lease);
    } else if (r->s->stepped) {
        suite_pass_ms(r->s, 1);
    }
    return NULL;
}

static void d04(struct suite *s)
{
    int rounds = s->stepped ? suite_scale(s, 10000, 500) : suite_scale(s, 20, 3);
    int64_t ttl_ms = suite_short_ttl(s);
    int renewed = 0, taken = 0;
    pthread_barrier_t barrier;
    EXPECT(pthread_barrier_init(&barrier, NULL, 3) == 0, "barrier");
    for (int i = 0; i < rounds; i++) {
        char leaf[24];
        coord_lease *lease = NULL;
        (void)snprintf(leaf, sizeof leaf, "k%d", i);
        struct name key = suite_name(s, leaf);
        WANT(create(s->store, key.text, "v", ttl_ms, "o", &lease), COORD_OK, COORD_R_CREATED);
        /* To just before the end, so that the third racer's step, or chance, decides. */
        suite_pass_ms(s, s->stepped ? ttl_ms - 1 : ttl_ms - 2 + i % 4);
        struct racer racers[3];
        pthread_t threads[3];
        for (int n = 0; n < 3; n++) {
            racers[n] = (struct racer){s, lease, key.text, &barrier, {0}, n};
            EXPECT(pthread_create(&threads[n], NULL, race, &racers[n]) == 0, "thread");
        }
        for (int n = 0; n < 3; n++) { (void)pthread_join(threads[n], NULL); }
        bool live = racers[0].result.code == COORD_OK, other = racers[1].result.code == COORD_OK;
        EXPECT(!(live && other), "T5: renewed and given to another");
        EXPECT(live || racers[0].result.code == COORD_EXPIRED, "OK or EXPIRED, got %s",
               coord_code_name(racers[0].result.code));
        EXPECT(other || racers[1].result.code == COORD_EXISTS, "OK or EXISTS, got %s",
               coord_code_name(racers[1].result.code));
        renewed += live;
        taken += other;
        coord_lease_unref(lease);
    }
    (void)pthread_barrier_destroy(&barrier);
    EXPECT(!s->stepped || renewed + taken > 0, "somebody wins");
}

static void d05(struct suite *s)
{
    coord_lease *lease = NULL, *next = NULL;
    int64_t ttl_ms = suite_short_ttl(s);
    WANT(create(s->store, N("k"), "v", ttl_ms, "o", &lease), COORD_OK, COORD_R_CREATED);
    if (s->stepped) { suite_pass_ms(s, ttl_ms); }
    coord_result r = create_when_free(s, N("k"), suite_long_ttl(s), "p", &next);
    WANT(r, COORD_OK, COORD_R_CREATED);
    coord_result late = coord_renew(lease, NULL);
    if ((s->caps.bits & COORD_CAP_LATE_RENEWAL) == 0) {
        WANT(late, COORD_EXPIRED, COORD_R_SUPERSEDED);
        EXPECT_EQ(late.token, r.token, "the new token");
    } else {
        WANT(late, COORD_EXPIRED, ANY_REASON);
    }
    WANT(coord_renew(next, NULL), COORD_OK, COORD_R_RENEWED);
    coord_lease_unref(lease);
    drop(&next);
}

static void d06(struct suite *s)
{
    coord_lease *lease = NULL;
    WANT(create(s->store, N("k"), "v", suite_long_ttl(s), "o", &lease), COORD_OK, COORD_R_CREATED);
    WANT(coord_delete(s->store, NULL, text(N("k")), COORD_FORCE, NULL), COORD_OK, COORD_R_DELETED);
    WANT(coord_renew(lease, NULL), COORD_EXPIRED, COORD_R_REVOKED);
    EXPECT_EQ(coord_check(lease), COORD_EXPIRED, "check");
    coord_lease_unref(lease);
}

static void d07(struct suite *s)
{
    coord_lease *lease = NULL;
    WANT(create(s->store, N("k"), "v", suite_long_ttl(s), "o", &lease), COORD_OK, COORD_R_CREATED);
    WANT(coord_release(lease, NULL), COORD_OK, COORD_R_RELEASED);
    WANT(coord_renew(lease, NULL), COORD_EXPIRED, COORD_R_RELEASED);
    EXPECT_EQ(coord_check(lease), COORD_EXPIRED, "check");
    EXPECT_EQ(coord_lease_export(lease, NULL, 0), 0, "nothing to export");
    coord_lease_unref(lease);
}

static void d08(struct suite *s)
{
    coord_store *elsewhere = NULL;
    coord_lease *lease = NULL, *none = NULL;
    unsigned char blob[4096];
    WANT(coord_open("mem:", NULL, &elsewhere), COORD_OK, ANY_REASON);
    coord_result made = create(s->store, N("k"), "v", suite_long_ttl(s), "o", &lease);
    WANT(made, COORD_OK, COORD_R_CREATED);
    size_t len = coord_lease_export(lease, blob, sizeof blob);
    EXPECT(len > 0 && len <= sizeof blob, "a blob");
    coord_result r = coord_lease_import(elsewhere, NULL, blob, len, &none);
    coord_result set = cas(elsewhere, N("k"), made.revision, "w", COORD_TTL_KEEP, lease);
    coord_close(elsewhere);
    WANT(r, COORD_INVALID, COORD_R_OTHER_STORE);
    WANT(set, COORD_INVALID, COORD_R_OTHER_STORE);
    EXPECT(none == NULL, "no handle");
    drop(&lease);
}

static void d09(struct suite *s)
{
    coord_lease *old = NULL, *now = NULL, *forged = NULL;
    int64_t ttl_ms = s->stepped ? 1000 : suite_long_ttl(s);
    unsigned char blob[4096];
    WANT(acquire(s->store, N("g"), 1, "me", ttl_ms, 0, &old), COORD_OK, COORD_R_ACQUIRED);
    size_t len = coord_lease_export(old, blob, sizeof blob);
    EXPECT(len > 0 && len <= sizeof blob, "a blob");
    WANT(acquire(s->store, N("g"), 1, "me", ttl_ms, COORD_TAKEOVER_SAME_OWNER, &now), COORD_OK,
         COORD_R_ACQUIRED);
    suite_pass_ms(s, s->stepped ? 600 : 0);
    WANT(coord_renew(old, NULL), COORD_EXPIRED, ANY_REASON);
    for (size_t i = 0; i < len; i += 7) { /* no byte may be changed */
        blob[i] ^= 0x40;
        coord_result r = coord_lease_import(s->store, NULL, blob, len, &forged);
        EXPECT(r.code == COORD_INVALID || r.code == COORD_EXPIRED, "byte %zu: %s", i,
               coord_code_name(r.code));
        blob[i] ^= 0x40;
    }
    if (s->stepped) {
        suite_pass_ms(s, 400);
        WANT(coord_renew(now, NULL), COORD_EXPIRED, COORD_R_DEADLINE); /* nobody moved it */
    }
    coord_lease_unref(old);
    drop(&now);
}

/* -- keepers -- */

static int64_t keeper_ttl(const struct suite *s)
{
    int64_t least = s->limits.ttl_min_ms > 2000 ? s->limits.ttl_min_ms : 2000;
    return least + patience_outage_ms(); /* a margin of 200 ms */
}

/* A keeper whose renewals get no answer in time stops before another client can acquire. True: it
 * stopped; else `why` has the reason, perhaps only a machine that gave no core for 200 ms. */
static bool lost_in_time(struct suite *s, coord_store *faulty, const char *group, int want_reason,
                         const char **why)
{
    struct loss_seen reported = LOSS_INIT;
    coord_lease *lease = NULL, *next = NULL;
    struct timespec before, after;
    coord_result r = acquire(faulty, group, 1, "kept", keeper_ttl(s), 0, &lease);
    if (!suite_want(s, __FILE__, __LINE__, r, COORD_OK, COORD_R_ACQUIRED)) { return true; }
    r = coord_keep(lease, on_lost, &reported);
    if (r.code != COORD_OK) {
        coord_lease_unref(lease);
        *why = "it could not be kept";
        return false;
    }
    int64_t start_ns = real_now_ns();
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    r = acquire_when_free(s, group, 1, "next", suite_long_ttl(s), &next);
    int64_t taken_ns = real_now_ns();
    wait_loss(&reported);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    int64_t cpu_ns = (after.tv_sec - before.tv_sec) * 1000000000 + (after.tv_nsec - before.tv_nsec);
    bool fine = false;
    if (r.code != COORD_OK) {
        *why = "nobody was let in";
    } else if (reported.at_ns >= taken_ns) {
        *why = "T8: reported after another was let in";
    } else if (want_reason != ANY_REASON && reported.reason != want_reason) {
        *why = "reported by the store's end, not by its own clock";
    } else if (cpu_ns >= (taken_ns - start_ns) / 2) {
        *why = "the keeper spins";
    } else if (coord_check(lease) != COORD_EXPIRED ||
               coord_renew(lease, NULL).code != COORD_EXPIRED) {
        *why = "lost, and yet it lives";
    } else if (coord_renew(next, NULL).code != COORD_OK) {
        *why = "the next one lost it";
    } else if (calls_of(&reported) != 1) {
        *why = "reported more than once";
    } else {
        fine = true;
    }
    coord_lease_unref(lease);
    drop(&next);
    return fine;
}

static void lose_in_time(struct suite *s, const char *faults, int want_reason)
{
    enum { TRIES = 4 };
    const char *why = "";
    coord_store *faulty = suite_open_faulty(s, faults);
    if (faulty == NULL) { return; }
    for (int i = 0; i < TRIES; i++) {
        char leaf[16];
        (void)snprintf(leaf, sizeof leaf, "g%d", i);
        if (lost_in_time(s, faulty, N(leaf), want_reason, &why)) { return; }
    }
    EXPECT(why[0] == '\0', "%d times: %s", TRIES, why);
}

static void d10(struct suite *s)
{
    char faults[96];
    (void)snprintf(faults, sizeof faults, "fault_ops=renew&fault_delay_after=%lldms",
                   (long long)keeper_ttl(s) * 9 / 10);
    lose_in_time(s, faults, ANY_REASON);
}

static void d11(struct suite *s)
{
    lose_in_time(s, "fault_ops=renew&fault_hang=1000", COORD_R_LOCAL);
}

static volatile int spin_on;
static void *spin(void *arg)
{
    volatile uint64_t n = 0;
    (void)arg;
    while (__atomic_load_n(&spin_on, __ATOMIC_RELAXED)) { n++; }
    return NULL;
}

static void d12(struct suite *s)
{
    enum { MOST = 200 };
    struct loss_seen reported = LOSS_INIT;
    coord_lease *lease = NULL;
    pthread_t threads[MOST];
    int count = s->full ? MOST : 16;
    WANT(create(s->store, N("k"), "v", keeper_ttl(s), "o", &lease), COORD_OK, COORD_R_CREATED);
    coord_result kept = coord_keep(lease, on_lost, &reported);
    if (kept.code == COORD_EXPIRED) { /* starved already, and reported so */
        coord_lease_unref(lease);
        return;
    }
    WANT(kept, COORD_OK, ANY_REASON);
    __atomic_store_n(&spin_on, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < count; i++) {
        if (pthread_create(&threads[i], NULL, spin, NULL) != 0) { count = i; }
    }
    real_sleep_ms(keeper_ttl(s) * (s->full ? 4 : 1));
    __atomic_store_n(&spin_on, 0, __ATOMIC_RELAXED);
    for (int i = 0; i < count; i++) { (void)pthread_join(threads[i], NULL); }
    if (coord_check(lease) == COORD_OK) {
        coord_result r = coord_renew(lease, NULL);
        EXPECT(r.code == COORD_OK || calls_of(&reported) == 1, "held in truth");
    } else {
        wait_loss(&reported); /* never silent */
    }
    EXPECT(calls_of(&reported) <= 1, "reported at most once");
    drop(&lease);
}

static void d13(struct suite *s)
{
    int rounds =
        s->caps.scope == COORD_SCOPE_PROCESS ? suite_scale(s, 200, 20) : suite_scale(s, 6, 2);
    int64_t ttl_ms = s->limits.ttl_min_ms > 100 ? s->limits.ttl_min_ms : 100;
    coord_store *faulty = suite_open_faulty(s, "fault_ops=renew&fault_hang=500");
    if (faulty == NULL) { return; }
    for (int i = 0; i < rounds; i++) {
        struct loss_seen reported = LOSS_INIT;
        coord_lease *lease = NULL;
        char leaf[24];
        (void)snprintf(leaf, sizeof leaf, "k%d", i);
        WANT(create(faulty, N(leaf), "v", ttl_ms, "o", &lease), COORD_OK, COORD_R_CREATED);
        coord_result kept = coord_keep(lease, on_lost, &reported);
        if (kept.code == COORD_EXPIRED) { /* a machine slower than the TTL */
            coord_lease_unref(lease);
            continue;
        }
        WANT(kept, COORD_OK, ANY_REASON);
        real_sleep_ms(ttl_ms * (i % 3) / 2);
        if (suite_has(s, COORD_CAP_FORCE)) {
            (void)coord_delete(s->store, NULL, text(N(leaf)), COORD_FORCE, NULL);
        }
        wait_loss(&reported);
        (void)coord_renew(lease, &(coord_call){.timeout_ms = 20});
        real_sleep_ms(2);
        EXPECT_EQ(calls_of(&reported), 1, "reported once");
        coord_lease_unref(lease);
    }
}

static void d14(struct suite *s)
{
    coord_lease *lease = NULL;
    coord_watch *watch = NULL;
    coord_event event;
    int64_t ttl_ms = s->stepped ? 1000 : keeper_ttl(s);
    int keys = s->stepped ? 100 : 10, ended = 0;
    WANT(create(s->store, N("k0"), "v", ttl_ms, "o", &lease), COORD_OK, COORD_R_CREATED);
    for (int i = 1; i < keys; i++) {
        char leaf[24];
        (void)snprintf(leaf, sizeof leaf, "k%d", i);
        WANT(coord_create_under(lease, NULL, text(N(leaf)), text("v")), COORD_OK, COORD_R_CREATED);
    }
    WANT(coord_watch_open(s->store, NULL, text(s->prefix), COORD_WATCH_BUCKET, &watch), COORD_OK,
         ANY_REASON);
    do {
        EXPECT(coord_watch_next(watch, 30000, &event) == 1, "a snapshot");
    } while (event.type != COORD_SNAPSHOT_END);
    if (s->stepped) {
        suite_pass_ms(s, ttl_ms);
        for (int i = 0; i < keys; i++) { /* at one instant */
            char leaf[24];
            (void)snprintf(leaf, sizeof leaf, "k%d", i);
            EXPECT_EQ(value_is(s->store, N(leaf), NULL), 0, "absent");
        }
    }
    while (ended < keys) {
        EXPECT(coord_watch_next(watch, 60000, &event) == 1, "%d of %d endings", ended, keys);
        if (event.type == COORD_PROGRESS) { continue; } /* a store may send progress at any time */
        EXPECT_EQ(event.type, COORD_EXPIRE, "only endings");
        ended++;
    }
    while (coord_watch_next(watch, 50, &event) != 0) {
        EXPECT_EQ(event.type, COORD_PROGRESS, "one each");
    }
    coord_watch_close(watch);
    WANT(coord_renew(lease, NULL), COORD_EXPIRED, ANY_REASON);
    coord_lease_unref(lease);
}

static void d15(struct suite *s)
{
    coord_lease *a = NULL, *b = NULL;
    int64_t ttl_ms = s->stepped ? 1000 : keeper_ttl(s);
    WANT(create(s->store, N("a"), "v", ttl_ms, "o", &a), COORD_OK, COORD_R_CREATED);
    WANT(create(s->store, N("b"), "v", ttl_ms, "o", &b), COORD_OK, COORD_R_CREATED);
    int64_t until_ns = real_now_ns() + 60000 * MSEC;
    if (s->stepped) {
        suite_pass_ms(s, 600);
        WANT(coord_renew(a, NULL), COORD_OK, COORD_R_RENEWED);
        suite_pass_ms(s, 400);
    } else {
        while (value_is(s->store, N("b"), NULL) != 0) {
            EXPECT(real_now_ns() < until_ns, "b never ends while a is renewed");
            WANT(coord_renew(a, NULL), COORD_OK, COORD_R_RENEWED);
            real_sleep_ms(50);
        }
    }
    EXPECT(value_is(s->store, N("a"), "v") != 0, "a lives");
    EXPECT_EQ(value_is(s->store, N("b"), NULL), 0, "b does not");
    drop(&a);
    coord_lease_unref(b);
}

static void d16(struct suite *s)
{
    enum { MOST = 1000 };
    struct loss_seen reported = LOSS_INIT;
    coord_lease *leases[MOST] = {0};
    int count = s->full ? MOST : suite_scale(s, 60, 60);
    int64_t ttl_ms = s->full ? 10000 : keeper_ttl(s) * 3 / 2;
    for (int i = 0; i < count; i++) {
        char leaf[24];
        (void)snprintf(leaf, sizeof leaf, "k%d", i);
        WANT(create(s->store, N(leaf), "v", ttl_ms, "o", &leases[i]), COORD_OK, COORD_R_CREATED);
        WANT(coord_keep(leases[i], on_lost, &reported), COORD_OK, ANY_REASON);
        WANT(coord_keep(leases[i], on_lost, &reported), COORD_INVALID, COORD_R_HANDLE);
    }
    real_sleep_ms(s->full ? 60000 : ttl_ms * 5 / 4);
    EXPECT_EQ(calls_of(&reported), 0, "no loss without a reason");
    for (int i = 0; i < count; i++) {
        EXPECT_EQ(coord_check(leases[i]), COORD_OK, "check");
        WANT(coord_release(leases[i], NULL), COORD_OK, COORD_R_RELEASED);
        coord_lease_unref(leases[i]);
    }
    EXPECT_EQ(calls_of(&reported), 0, "a release is no loss");
}

static void d17(struct suite *s)
{
    coord_lease *lease = NULL;
    int64_t step_ms = s->limits.ttl_step_ms, asked_ms = s->limits.ttl_min_ms + step_ms * 2 / 5;
    int64_t want_ms = (asked_ms + step_ms - 1) / step_ms * step_ms;
    coord_result r = create(s->store, N("k"), "v", asked_ms, "o", &lease);
    WANT(r, COORD_OK, COORD_R_CREATED);
    EXPECT_EQ(r.granted_ttl_ms, want_ms, "rounded up to the store's step");
    EXPECT_EQ(coord_lease_ttl_ms(lease), want_ms, "the handle's");
    EXPECT(coord_safe_for_ms(lease) < want_ms, "T3: the margin is taken off");
    drop(&lease);
}

static void d18(struct suite *s)
{
    enum { MOST = 4000 };
    coord_lease **leases = calloc(MOST, sizeof(void *));
    int count = s->full ? MOST : suite_scale(s, 300, 300);
    EXPECT(leases != NULL, "memory");
    for (int i = 0; i < count; i++) {
        char leaf[24];
        (void)snprintf(leaf, sizeof leaf, "k%d", i);
        WANT(create(s->store, N(leaf), "v", suite_long_ttl(s), "o", &leases[i]), COORD_OK,
             COORD_R_CREATED);
    }
    for (int i = 0; i < count; i++) {
        WANT(coord_renew(leases[i], NULL), COORD_OK, COORD_R_RENEWED);
    }
    for (int i = 0; i < count; i++) { drop(&leases[i]); }
    free(leases);
}

/* From hex; 0: no hex. */
static size_t unhex(const char *hex, unsigned char *out, size_t cap)
{
    size_t len = strlen(hex) / 2;
    for (size_t i = 0; i < len && i < cap; i++) {
        unsigned byte;
        if (sscanf(hex + 2 * i, "%2x", &byte) != 1) { return 0; }
        out[i] = (unsigned char)byte;
    }
    return len <= cap ? len : 0;
}

enum { D19_PAUSE_MS = 300 };

static void d19(struct suite *s)
{
    coord_lease *lease = NULL, *again = NULL;
    unsigned char blob[4096];
    size_t len;
    uint64_t token;
    int64_t granted_ns; /* then it was */
    if (s->caps.scope == COORD_SCOPE_PROCESS) {
        coord_store *other = suite_open(s);
        if (other == NULL) { return; }
        coord_result made = create(s->store, N("k"), "v", suite_long_ttl(s), "o", &lease);
        WANT(made, COORD_OK, COORD_R_CREATED);
        granted_ns = real_now_ns();
        token = made.token;
        EXPECT_EQ(coord_lease_export(lease, blob, 1), coord_lease_export(lease, NULL, 0),
                  "says what it needs");
        len = coord_lease_export(lease, blob, sizeof blob);
        coord_lease_unref(lease);
        real_sleep_ms(D19_PAUSE_MS);
        WANT(coord_lease_import(other, NULL, blob, len, &again), COORD_OK, ANY_REASON);
    } else {
        struct helper h;
        char line[8300];
        if (!helper_start(s, "outlive", (long)suite_long_ttl(s), &h)) { return; }
        bool fine = helper_line(s, &h, line, sizeof line);
        granted_ns = real_now_ns();
        token = fine ? strtoull(strchr(line, ' ') != NULL ? strchr(line, ' ') : "0", NULL, 10) : 0;
        if (fine) { helper_say(&h, "export"); }
        fine = fine && helper_line(s, &h, line, sizeof line);
        helper_end(&h);
        if (!fine) { return; }
        len = unhex(line, blob, sizeof blob);
        EXPECT(len > 0, "a blob: %.20s", line);
        real_sleep_ms(D19_PAUSE_MS);
        WANT(coord_lease_import(s->store, NULL, blob, len, &again), COORD_OK, ANY_REASON);
    }
    /* Each side is a bound for a whole safe period, however slow the machine is. */
    int64_t now_ns = real_now_ns();
    int64_t at_most = coord_safe_for_ms(again) + (now_ns - granted_ns) / MSEC;
    now_ns = real_now_ns();
    WANT(coord_renew(again, NULL), COORD_OK, COORD_R_RENEWED);
    int64_t at_least = coord_safe_for_ms(again);
    at_least += (real_now_ns() - now_ns) / MSEC + 2;
    EXPECT(at_most <= at_least, "the import extended it by %lld ms",
           (long long)(at_most - at_least));
    EXPECT_EQ(coord_lease_token(again), token, "the same grant");
    EXPECT_EQ(coord_check(again), COORD_OK, "check");
    WANT(coord_release(again, NULL), COORD_OK, COORD_R_RELEASED);
    coord_lease_unref(again);
}

static void d20(struct suite *s)
{
    coord_lease *lease = NULL, *none = NULL;
    unsigned char blob[4096];
    int64_t ttl_ms = suite_short_ttl(s);
    coord_store *fresh = suite_open(s); /* has not observed the lease; no other client is open */
    if (fresh == NULL) { return; }
    WANT(create(s->store, N("k"), "v", ttl_ms, "o", &lease), COORD_OK, COORD_R_CREATED);
    ttl_ms = coord_lease_ttl_ms(lease);
    size_t len = coord_lease_export(lease, blob, sizeof blob);
    EXPECT(len > 0 && len <= sizeof blob, "a blob");
    coord_lease_unref(lease);
    suite_pass_ttl(s, ttl_ms);
    coord_result r = coord_lease_import(fresh, NULL, blob, len, &none);
    /* A store whose leader was paused counts less time than we do; an import extends nothing. */
    int64_t until_ns = real_now_ns() + 60000 * MSEC;
    while (!s->stepped && r.code == COORD_OK && real_now_ns() < until_ns) {
        coord_lease_unref(none);
        none = NULL;
        suite_pass_ms(s, 10);
        r = coord_lease_import(fresh, NULL, blob, len, &none);
    }
    EXPECT(r.code == COORD_EXPIRED && r.reason == COORD_R_DEADLINE, "at its deadline, got %s/%s",
           coord_code_name(r.code), coord_reason_name(r.reason));
    EXPECT(none == NULL, "no handle");
    if (!s->stepped) { SUB(wait_absent(s, N("k"))); }
    r = coord_lease_import(s->store, NULL, blob, len, &none);
    EXPECT(is_over(s, r), "over, got %s/%s", coord_code_name(r.code), coord_reason_name(r.reason));
    EXPECT(none == NULL, "no handle");
    WANT(coord_lease_import(s->store, NULL, blob, len - 1, &none), COORD_INVALID, COORD_R_HANDLE);
    WANT(coord_lease_import(s->store, NULL, "", 0, &none), COORD_INVALID, COORD_R_HANDLE);
}

#define LEASE (COORD_CAP_CREATE | COORD_CAP_TTL)
#define SLOT  (LEASE | COORD_CAP_SLOTS)
const struct test_case cases_lease[] = {
    {"D01", "renewed in time: live all the time, one token", LEASE, d01, 0, 0},
    {"D02", "not renewed: over at its TTL, not before", SLOT, d02, 0, 0},
    {"D03", "renewed too late, though nobody took it", LEASE, d03, 0, 0},
    {"D04", "renewal against takeover: never both", LEASE, d04, 0, 0},
    {"D05", "renewal after a takeover", LEASE, d05, 0, 0},
    {"D06", "renewal after a forced delete", LEASE | COORD_CAP_FORCE, d06, 0, 0},
    {"D07", "renewal after the own release", LEASE, d07, 0, 0},
    {"D08", "a handle of another store", LEASE | COORD_CAP_CAS, d08, 0, 0},
    {"D09", "the owner's name is not enough", SLOT, d09, 0, 0},
    {"D10", "renewals answered too late: reported in time", SLOT, d10, CASE_REAL, 0},
    {"D11", "renewals never answered: reported in time, no spinning", SLOT, d11, CASE_REAL, 0},
    {"D12", "a starved keeper is never silent", LEASE, d12, CASE_REAL, 0},
    {"D13", "on_lost exactly once", LEASE, d13, CASE_REAL, 0},
    {"D14", "a lease of many keys ends: one event each", LEASE | COORD_CAP_MULTI_KEY, d14, 0,
     COORD_WATCH_POLL},
    {"D15", "renewing one lease does not move another", LEASE, d15, 0, 0},
    {"D16", "many kept leases, none lost", LEASE, d16, CASE_REAL, 0},
    {"D17", "the granted TTL is rounded up and reported", LEASE, d17, 0, 0},
    {"D18", "many renewals at once", LEASE, d18, 0, 0},
    {"D19", "export, die, import, renew", SLOT, d19, CASE_REAL, 0},
    {"D20", "import after the deadline", LEASE, d20, 0, 0},
    {0},
};
