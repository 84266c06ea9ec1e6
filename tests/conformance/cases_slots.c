/* SPDX-License-Identifier: Apache-2.0 */
/* D3: slots. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"

static coord_result acquire_at(struct suite *s, const char *group, uint32_t slot_count,
                               const char *owner, int64_t ttl_ms, uint32_t prefer,
                               int64_t cooldown_ms, int64_t wait_ms, coord_lease **lease)
{
    coord_slot_request request = COORD_SLOT_REQUEST_INIT;
    request.group = text(group);
    request.slot_count = slot_count;
    request.owner = owner;
    request.ttl_ms = ttl_ms;
    request.prefer_slot = prefer;
    request.cooldown_ms = cooldown_ms;
    request.wait_ms = wait_ms;
    return coord_acquire_slot(s->store, &(coord_call){.timeout_ms = 30000}, &request, lease);
}

/* Holds slots 0 .. count-1 of the group "g". */
static void hold(struct suite *s, uint32_t slot_count, uint32_t count, coord_lease **leases)
{
    for (uint32_t i = 0; i < count; i++) {
        char owner[32];
        (void)snprintf(owner, sizeof owner, "holder-%u", i);
        coord_result r =
            acquire(s->store, N("g"), slot_count, owner, suite_long_ttl(s), 0, &leases[i]);
        WANT(r, COORD_OK, COORD_R_ACQUIRED);
        EXPECT_EQ(r.slot, i, "the lowest free slot");
        EXPECT_EQ(coord_lease_slot(leases[i]), i, "the handle's");
        EXPECT_EQ(coord_lease_token(leases[i]), r.token, "the handle's");
    }
}

static void drop(coord_lease **lease)
{
    if (*lease != NULL) {
        (void)coord_release(*lease, NULL);
        coord_lease_unref(*lease);
        *lease = NULL;
    }
}

static void drop_all(coord_lease **leases, size_t count)
{
    for (size_t i = 0; i < count; i++) { drop(&leases[i]); }
}

static uint64_t group_revision(struct suite *s, const char *group)
{
    coord_holders *holders = NULL;
    if (coord_list_holders(s->store, NULL, text(group), &holders).code != COORD_OK) { return 0; }
    uint64_t revision = holders->revision;
    coord_holders_free(holders);
    return revision;
}

static void c01(struct suite *s)
{
    coord_lease *lease = NULL, *none = NULL;
    SUB(hold(s, 1, 1, &lease));
    coord_result full = acquire(s->store, N("g"), 1, "other", suite_long_ttl(s), 0, &none);
    WANT(full, COORD_EXISTS, COORD_R_FULL);
    EXPECT_EQ(full.live, 1, "live");
    EXPECT(none == NULL, "no handle");
    drop(&lease);
}

void worker_acquire_one(struct worker *w)
{
    char group[NAME_CAP], owner[32];
    coord_lease *lease = NULL;
    uint64_t handle = 0;
    (void)snprintf(group, sizeof group, "%s/g", w->prefix);
    (void)snprintf(owner, sizeof owner, "w%u", w->index);
    /* No worker releases its slot; the slot of a dead worker must not become free within the case.
     */
    coord_result r =
        noted_acquire(w, group, (uint32_t)w->a, (uint32_t)w->a, owner, 60000, 0, &lease, &handle);
    if (r.code != COORD_OK && r.code != COORD_EXISTS) { w->failed = 1; }
    coord_lease_unref(lease);
}

static void c02(struct suite *s)
{
    struct history history = {0};
    bool taken[3] = {false, false, false};
    int won = 0;
    /* Threads, because a process that ends releases its slots. */
    if (!workers_threads(s, "acquire_one", 10, 3, 0, &history)) { return; }
    for (size_t i = 0; i < history.count; i++) {
        const struct history_op *op = &history.ops[i];
        if (op->code != COORD_OK) { continue; }
        EXPECT(op->slot < 3 && !taken[op->slot], "slot %u was given twice or is none", op->slot);
        taken[op->slot] = true;
        won++;
    }
    SUB(suite_check(s, &history));
    history_deinit(&history);
    EXPECT_EQ(won, 3, "all slots are given, and no more");
}

void worker_churn(struct worker *w)
{
    char group[NAME_CAP], owner[32];
    unsigned seed = w->index * 104729 + 17;
    int64_t until_ns = real_now_ns() + w->a * MSEC;
    uint32_t slots = (uint32_t)w->b;
    int64_t ttl_ms = w->s->limits.ttl_min_ms > 2000 ? w->s->limits.ttl_min_ms : 2000;
    (void)snprintf(group, sizeof group, "%s/churn", w->prefix);
    (void)snprintf(owner, sizeof owner, "w%u", w->index);
    while (real_now_ns() < until_ns) {
        coord_lease *lease = NULL;
        uint64_t handle = 0;
        coord_result r = noted_acquire(w, group, slots, slots, owner, ttl_ms, 0, &lease, &handle);
        if (r.code == COORD_OK) {
            real_sleep_ms(1 + rand_r(&seed) % 20);
            if (rand_r(&seed) % 4 == 0) { (void)noted_renew(w, lease, handle); }
            (void)noted_release(w, lease, handle);
            coord_lease_unref(lease);
        } else if (r.code == COORD_EXISTS) {
            real_sleep_ms(1 + rand_r(&seed) % 10);
        } else if (r.code != COORD_UNAVAILABLE && r.code != COORD_EXPIRED) {
            w->failed = r.code; /* EXPIRED: the outage was longer than the TTL */
            return;
        }
    }
}

static void c03(struct suite *s)
{
    struct history history = {0};
    uint32_t clients = (uint32_t)(s->full ? 64 : 12);
    if (!workers_run(s, "churn", clients, s->full ? 30000 : 1500, 3, &history)) { return; }
    size_t won = 0;
    for (size_t i = 0; i < history.count; i++) {
        won += history.ops[i].op == COORD_OP_ACQUIRE && history.ops[i].code == COORD_OK;
    }
    SUB(suite_check(s, &history));
    history_deinit(&history);
    EXPECT(won >= 3, "some were let in");
}

static void c04(struct suite *s)
{
    coord_lease *leases[3] = {0}, *next = NULL;
    SUB(hold(s, 3, 3, leases));
    uint64_t token = coord_lease_token(leases[1]);
    drop(&leases[1]);
    coord_result r = acquire(s->store, N("g"), 3, "next", suite_long_ttl(s), 0, &next);
    WANT(r, COORD_OK, COORD_R_ACQUIRED);
    EXPECT_EQ(r.slot, 1, "the one that is free");
    EXPECT(r.token > token, "F2");
    drop_all(leases, 3);
    drop(&next);
}

static void c05(struct suite *s)
{
    coord_lease *first = NULL, *second = NULL;
    coord_result r = acquire_at(s, N("g"), 3, "a", suite_long_ttl(s), 2, 0, 0, &first);
    WANT(r, COORD_OK, COORD_R_ACQUIRED);
    EXPECT_EQ(r.slot, 2, "preferred and free");
    r = acquire_at(s, N("g"), 3, "b", suite_long_ttl(s), 2, 0, 0, &second);
    WANT(r, COORD_OK, COORD_R_ACQUIRED);
    EXPECT_EQ(r.slot, 0, "preferred and taken");
    drop(&first);
    drop(&second);
}

static void c06(struct suite *s)
{
    coord_lease *lease = NULL, *none = NULL;
    SUB(hold(s, 3, 1, &lease));
    coord_result r = acquire(s->store, N("g"), 4, "b", suite_long_ttl(s), 0, &none);
    WANT(r, COORD_CONFLICT, COORD_R_SLOT_COUNT);
    EXPECT_EQ(r.slot_count, 3, "the real one");
    EXPECT(none == NULL, "no handle");
    WANT(acquire(s->store, N("nowhere"), 3, "b", suite_long_ttl(s), COORD_NO_CREATE, &none),
         COORD_NOT_FOUND, ANY_REASON);
    coord_holders *holders = NULL;
    coord_result listed = coord_list_holders(s->store, NULL, text(N("nowhere")), &holders);
    EXPECT(listed.code == COORD_NOT_FOUND ||
               (listed.code == COORD_OK && holders->count == 0 && holders->slot_count == 0),
           "nothing was made");
    if (listed.code == COORD_OK) { coord_holders_free(holders); }
    drop(&lease);
}

static void c07(struct suite *s)
{
    coord_lease *leases[3] = {0}, *more[3] = {0};
    SUB(hold(s, 3, 3, leases));
    uint64_t revision = group_revision(s, N("g"));
    EXPECT(revision > 0, "the group has a revision");
    WANT(coord_resize_group(s->store, NULL, text(N("g")), revision + 1, 5), COORD_CONFLICT,
         COORD_R_REVISION);
    coord_result r = coord_resize_group(s->store, NULL, text(N("g")), revision, 5);
    WANT(r, COORD_OK, COORD_R_RESIZED);
    EXPECT(r.revision > revision, "a change");
    WANT(coord_resize_group(s->store, NULL, text(N("g")), revision, 6), COORD_CONFLICT,
         COORD_R_REVISION);
    for (uint32_t i = 0; i < 2; i++) {
        char owner[16];
        (void)snprintf(owner, sizeof owner, "more-%u", i);
        coord_result got = acquire(s->store, N("g"), 5, owner, suite_long_ttl(s), 0, &more[i]);
        WANT(got, COORD_OK, COORD_R_ACQUIRED);
        EXPECT_EQ(got.slot, 3 + i, "a new slot");
    }
    WANT(acquire(s->store, N("g"), 5, "more-2", suite_long_ttl(s), 0, &more[2]), COORD_EXISTS,
         COORD_R_FULL);
    WANT(coord_resize_group(s->store, NULL, text(N("nowhere")), 1, 5), COORD_NOT_FOUND, ANY_REASON);
    drop_all(leases, 3);
    drop_all(more, 3);
}

static void c08(struct suite *s)
{
    coord_lease *leases[3] = {0}, *next = NULL;
    SUB(hold(s, 3, 3, leases));
    WANT(coord_resize_group(s->store, NULL, text(N("g")), group_revision(s, N("g")), 1), COORD_OK,
         COORD_R_RESIZED);
    for (int i = 0; i < 3; i++) { WANT(coord_renew(leases[i], NULL), COORD_OK, COORD_R_RENEWED); }
    drop(&leases[0]);
    WANT(acquire(s->store, N("g"), 1, "next", suite_long_ttl(s), 0, &next), COORD_EXISTS,
         COORD_R_FULL);
    drop(&leases[1]);
    WANT(acquire(s->store, N("g"), 1, "next", suite_long_ttl(s), 0, &next), COORD_EXISTS,
         COORD_R_FULL);
    drop(&leases[2]);
    coord_result r = acquire(s->store, N("g"), 1, "next", suite_long_ttl(s), 0, &next);
    WANT(r, COORD_OK, COORD_R_ACQUIRED);
    EXPECT_EQ(r.slot, 0, "the one that is left");
    drop(&next);
}

static void c21(struct suite *s)
{
    coord_lease *leases[3] = {0};
    struct history history = {0};
    SUB(hold(s, 3, 3, leases));
    drop(&leases[0]);
    drop(&leases[1]);
    WANT(coord_resize_group(s->store, NULL, text(N("g")), group_revision(s, N("g")), 2), COORD_OK,
         COORD_R_RESIZED);
    if (!workers_threads(s, "acquire_one", 2, 2, 0, &history)) { return; }
    for (size_t i = 0; i < history.count; i++) {
        EXPECT(history.ops[i].code == COORD_EXISTS && history.ops[i].reason == COORD_R_FULL,
               "full until slot 2 is free, got %s", coord_code_name(history.ops[i].code));
    }
    history_deinit(&history);
    drop(&leases[2]);
    WANT(acquire(s->store, N("g"), 2, "a", suite_long_ttl(s), 0, &leases[0]), COORD_OK,
         COORD_R_ACQUIRED);
    drop_all(leases, 3);
}

struct resizer {
    struct suite *s;
    coord_store *store;
    const char *group;
    uint64_t expected;
    uint32_t slot_count;
    coord_result result;
};
static void *resize(void *arg)
{
    struct resizer *r = arg;
    r->result = coord_resize_group(r->store, NULL, text(r->group), r->expected, r->slot_count);
    return NULL;
}

static void c09(struct suite *s)
{
    for (int round = 0; round < suite_scale(s, 50, 6); round++) {
        char leaf[16];
        coord_lease *first = NULL;
        (void)snprintf(leaf, sizeof leaf, "g%d", round);
        struct name group = suite_name(s, leaf);
        WANT(acquire(s->store, group.text, 2, "first", suite_long_ttl(s), 0, &first), COORD_OK,
             COORD_R_ACQUIRED);
        uint64_t revision = group_revision(s, group.text);
        struct resizer resizers[2];
        pthread_t threads[2];
        for (uint32_t i = 0; i < 2; i++) {
            resizers[i] = (struct resizer){s, s->store, group.text, revision, 3 + i, {0}};
            EXPECT(pthread_create(&threads[i], NULL, resize, &resizers[i]) == 0, "thread");
        }
        coord_lease *during = NULL;
        coord_result r = acquire(s->store, group.text, 2, "during", suite_long_ttl(s), 0, &during);
        for (int i = 0; i < 2; i++) { (void)pthread_join(threads[i], NULL); }
        drop(&first);
        drop(&during);
        EXPECT(r.code == COORD_OK || (r.code == COORD_CONFLICT && r.reason == COORD_R_SLOT_COUNT),
               "before or after, got %s/%s", coord_code_name(r.code), coord_reason_name(r.reason));
        int done = (resizers[0].result.code == COORD_OK) + (resizers[1].result.code == COORD_OK);
        EXPECT_EQ(done, 1, "one resize has the revision");
        int refused = (resizers[0].result.reason == COORD_R_REVISION) +
                      (resizers[1].result.reason == COORD_R_REVISION);
        EXPECT(refused == 1, "the other learns it, got %s and %s",
               coord_reason_name(resizers[0].result.reason),
               coord_reason_name(resizers[1].result.reason));
    }
}

static void c10(struct suite *s)
{
    coord_lease *lease = NULL, *none = NULL;
    coord_result first = acquire(s->store, N("g"), 3, "me", suite_long_ttl(s), 0, &lease);
    WANT(first, COORD_OK, COORD_R_ACQUIRED);
    coord_result again = acquire(s->store, N("g"), 3, "me", suite_long_ttl(s), 0, &none);
    WANT(again, COORD_EXISTS, COORD_R_ALREADY_HOLDER);
    EXPECT_EQ(again.slot, first.slot, "its slot");
    EXPECT_EQ(again.token, first.token, "its token");
    EXPECT(none == NULL, "no handle");
    drop(&lease);
}

static void c11(struct suite *s)
{
    coord_lease *old = NULL, *now = NULL, *between = NULL;
    coord_result first = acquire(s->store, N("g"), 3, "me", suite_long_ttl(s), 0, &old);
    WANT(first, COORD_OK, COORD_R_ACQUIRED);
    WANT(acquire(s->store, N("g"), 3, "other", suite_long_ttl(s), 0, &between), COORD_OK,
         COORD_R_ACQUIRED);
    coord_result again =
        acquire(s->store, N("g"), 3, "me", suite_long_ttl(s), COORD_TAKEOVER_SAME_OWNER, &now);
    WANT(again, COORD_OK, COORD_R_ACQUIRED);
    EXPECT_EQ(again.slot, first.slot, "the same slot");
    EXPECT(again.token > first.token, "a larger token");
    coord_result late = coord_renew(old, NULL);
    WANT(late, COORD_EXPIRED, COORD_R_SUPERSEDED);
    WANT(coord_renew(old, NULL), COORD_EXPIRED, COORD_R_SUPERSEDED);
    WANT(coord_release(old, NULL), COORD_EXPIRED, ANY_REASON);
    WANT(coord_renew(now, NULL), COORD_OK, COORD_R_RENEWED);
    coord_lease_unref(old);
    drop(&now);
    drop(&between);
}

void worker_takeover(struct worker *w)
{
    char group[NAME_CAP];
    coord_lease *lease = NULL;
    uint64_t handle = 0;
    (void)snprintf(group, sizeof group, "%s/g", w->prefix);
    coord_result r =
        noted_acquire(w, group, 1, 1, "me", 60000, COORD_TAKEOVER_SAME_OWNER, &lease, &handle);
    if (r.code == COORD_OK) {
        /* The second process has taken the slot; the first may learn it only now. */
        real_sleep_ms(50);
        (void)noted_renew(w, lease, handle);
        coord_lease_unref(lease);
    }
}

static void c12(struct suite *s)
{
    struct history history = {0};
    coord_lease *old = NULL;
    WANT(acquire(s->store, N("g"), 1, "me", suite_long_ttl(s), 0, &old), COORD_OK,
         COORD_R_ACQUIRED);
    if (!workers_threads(s, "takeover", 2, 0, 0, &history)) { return; }
    int acquired = 0, renewed = 0;
    for (size_t i = 0; i < history.count; i++) {
        const struct history_op *op = &history.ops[i];
        acquired += op->op == COORD_OP_ACQUIRE && op->code == COORD_OK;
        renewed += op->op == COORD_OP_RENEW && op->code == COORD_OK;
        if (op->op == COORD_OP_ACQUIRE && op->code != COORD_OK) {
            EXPECT(op->code == COORD_EXISTS, "or it is reported that it holds already: %s",
                   coord_code_name(op->code));
        }
        if (op->op == COORD_OP_RENEW && op->code != COORD_OK) {
            EXPECT_EQ(op->reason, COORD_R_SUPERSEDED, "the earlier one");
        }
    }
    history_deinit(&history);
    EXPECT(acquired >= 1, "one takes it");
    EXPECT_EQ(renewed, 1, "one has it in the end");
    WANT(coord_renew(old, NULL), COORD_EXPIRED, COORD_R_SUPERSEDED);
    coord_lease_unref(old);
}

struct releaser {
    coord_lease *lease;
    int64_t after_ms;
};
static void *release_later(void *arg)
{
    struct releaser *r = arg;
    real_sleep_ms(r->after_ms);
    (void)coord_release(r->lease, NULL);
    return NULL;
}

static void c13(struct suite *s)
{
    coord_lease *lease = NULL, *next = NULL;
    pthread_t thread;
    WANT(acquire(s->store, N("g"), 1, "first", suite_long_ttl(s), 0, &lease), COORD_OK,
         COORD_R_ACQUIRED);
    coord_result busy =
        acquire_at(s, N("g"), 1, "second", suite_long_ttl(s), COORD_NO_SLOT, 0, 50, &next);
    WANT(busy, COORD_EXISTS, COORD_R_FULL);
    struct releaser releaser = {lease, 200};
    int64_t start_ns = real_now_ns();
    EXPECT(pthread_create(&thread, NULL, release_later, &releaser) == 0, "thread");
    coord_result r =
        acquire_at(s, N("g"), 1, "second", suite_long_ttl(s), COORD_NO_SLOT, 0, 20000, &next);
    (void)pthread_join(thread, NULL);
    WANT(r, COORD_OK, COORD_R_ACQUIRED);
    EXPECT(real_now_ns() - start_ns >= 200 * MSEC, "not before it was free");
    coord_lease_unref(lease);
    drop(&next);
}

static void c16(struct suite *s)
{
    coord_lease *lease = NULL, *next = NULL;
    int64_t ttl_ms = suite_short_ttl(s), cooldown_ms = s->stepped ? 2000 : 1000;
    int64_t start_ns = real_now_ns(); /* before the call, because the answer may be late */
    coord_result r = acquire_at(s, N("g"), 1, "a", ttl_ms, COORD_NO_SLOT, cooldown_ms, 0, &lease);
    WANT(r, COORD_OK, COORD_R_ACQUIRED);
    if (s->stepped) {
        suite_pass_ms(s, ttl_ms + cooldown_ms - 1);
        coord_result resting = acquire(s->store, N("g"), 1, "b", ttl_ms, 0, &next);
        WANT(resting, COORD_EXISTS, COORD_R_FULL);
        EXPECT_EQ(resting.live, 0, "nobody has it, it rests");
        suite_pass_ms(s, 1);
    }
    r = acquire_when_free(s, N("g"), 1, "b", suite_long_ttl(s), &next);
    WANT(r, COORD_OK, COORD_R_ACQUIRED);
    EXPECT(s->stepped || real_now_ns() >= start_ns + (ttl_ms + cooldown_ms - 20) * MSEC,
           "rested its time");
    drop(&next);
    WANT(acquire(s->store, N("g"), 1, "c", suite_long_ttl(s), 0, &next), COORD_OK,
         COORD_R_ACQUIRED);
    drop(&next);
    coord_lease_unref(lease);
}

static void c17(struct suite *s)
{
    coord_lease *lease = NULL;
    WANT(acquire(s->store, N("g"), 0, "a", suite_long_ttl(s), 0, &lease), COORD_INVALID,
         COORD_R_GROUP);
    coord_result r = acquire(s->store, N("g"), 1025, "a", suite_long_ttl(s), 0, &lease);
    WANT(r, COORD_INVALID, COORD_R_GROUP);
    EXPECT(strstr(r.text, "1024") != NULL, "the text names the limit: %s", r.text);
    WANT(acquire(s->store, N("g"), 1, "", suite_long_ttl(s), 0, &lease), COORD_INVALID,
         COORD_R_OWNER);
    WANT(acquire(s->store, N("g"), 1, "a b", suite_long_ttl(s), 0, &lease), COORD_INVALID,
         COORD_R_OWNER);
    WANT(acquire(s->store, "", 1, "a", suite_long_ttl(s), 0, &lease), COORD_INVALID, ANY_REASON);
}

static void c18(struct suite *s)
{
    uint32_t slots = s->full || s->stepped ? 1024 : 40;
    coord_lease **leases = calloc(slots, sizeof(void *)), *none = NULL;
    EXPECT(leases != NULL, "memory");
    SUB(hold(s, slots, slots, leases));
    coord_result full = acquire(s->store, N("g"), slots, "late", suite_long_ttl(s), 0, &none);
    WANT(full, COORD_EXISTS, COORD_R_FULL);
    EXPECT_EQ(full.live, slots, "live");
    coord_holders *holders = NULL;
    WANT(coord_list_holders(s->store, NULL, text(N("g")), &holders), COORD_OK, ANY_REASON);
    EXPECT_EQ(holders->count, slots, "all are listed");
    for (uint32_t i = 0; i < slots; i++) { EXPECT_EQ(holders->rows[i].slot, i, "by slot"); }
    coord_holders_free(holders);
    drop_all(leases, slots);
    free(leases);
}

static void c19(struct suite *s)
{
    coord_store *faulty =
        suite_open_faulty(s, "fault_ops=acquire&fault_first=1&fault_lose_reply=1000");
    if (faulty == NULL) { return; }
    coord_lease *lease = NULL, *same = NULL;
    coord_result r = acquire(faulty, N("g"), 3, "me", suite_long_ttl(s), 0, &lease);
    WANT(r, COORD_OK, COORD_R_REPLAYED);
    EXPECT_EQ(r.slot, 0, "the first attempt's");
    coord_holders *holders = NULL;
    WANT(coord_list_holders(s->store, NULL, text(N("g")), &holders), COORD_OK, ANY_REASON);
    EXPECT_EQ(holders->count, 1, "only one slot is used");
    EXPECT_EQ(holders->rows[0].token, r.token, "the same token");
    coord_holders_free(holders);
    WANT(coord_renew(lease, NULL), COORD_OK, COORD_R_RENEWED);
    drop(&lease);
    /* A caller's own retry. */
    coord_slot_request request = COORD_SLOT_REQUEST_INIT;
    coord_call call = {.request_id = suite_id()};
    struct name group = suite_name(s, "h");
    request.group = text(group.text);
    request.slot_count = 3;
    request.owner = "me";
    request.ttl_ms = suite_long_ttl(s);
    coord_result first = coord_acquire_slot(s->store, &call, &request, &lease);
    WANT(first, COORD_OK, COORD_R_ACQUIRED);
    coord_result second = coord_acquire_slot(s->store, &call, &request, &same);
    WANT(second, COORD_OK, COORD_R_REPLAYED);
    EXPECT_EQ(second.slot, first.slot, "slot");
    EXPECT_EQ(second.token, first.token, "token");
    coord_lease_unref(same);
    drop(&lease);
}

static void c20(struct suite *s)
{
    coord_lease *lease = NULL;
    WANT(create(s->store, N("g/slot-0000"), "v", 0, NULL, NULL), COORD_INVALID, COORD_R_KEY);
    WANT(create(s->store, N("g/.group"), "v", 0, NULL, NULL), COORD_INVALID, COORD_R_KEY);
    SUB(hold(s, 1, 1, &lease));
    coord_result r = cas(s->store, N("g/slot-0000"), coord_lease_token(lease), "v", 0, lease);
    EXPECT(r.code == COORD_INVALID || r.code == COORD_CONFLICT, "a slot is no plain key: %s",
           coord_code_name(r.code));
    WANT(coord_renew(lease, NULL), COORD_OK, COORD_R_RENEWED);
    /* A plain key under the group is not a slot and is not listed as one. */
    WANT(create(s->store, N("g/plain"), "v", 0, NULL, NULL), COORD_OK, COORD_R_CREATED);
    WANT(create(s->store, N("g2"), "v", 0, NULL, NULL), COORD_OK, COORD_R_CREATED);
    coord_holders *holders = NULL;
    WANT(coord_list_holders(s->store, NULL, text(N("g")), &holders), COORD_OK, ANY_REASON);
    EXPECT_EQ(holders->count, 1, "holders");
    coord_holders_free(holders);
    drop(&lease);
}

#define SLOTS (COORD_CAP_CREATE | COORD_CAP_TTL | COORD_CAP_SLOTS)
const struct test_case cases_slots[] = {
    {"C01", "one slot, two callers", SLOTS, c01, 0, 0},
    {"C02", "three slots, ten callers at once", SLOTS, c02, CASE_REAL, 0},
    {"C03", "many clients come and go: never more than three", SLOTS, c03, CASE_REAL, 0},
    {"C04", "the slot that was released is taken again", SLOTS, c04, 0, 0},
    {"C05", "a preferred slot", SLOTS, c05, 0, 0},
    {"C06", "another slot count learns the real one", SLOTS, c06, 0, 0},
    {"C07", "a group grows", SLOTS, c07, 0, 0},
    {"C08", "a group shrinks: nobody is evicted, nobody enters", SLOTS | COORD_CAP_SHRINK, c08, 0,
     0},
    {"C09", "resizes and an acquire at once", SLOTS, c09, CASE_REAL, 0},
    {"C10", "the same owner twice", SLOTS, c10, 0, 0},
    {"C11", "takeover by the same owner", SLOTS, c11, 0, 0},
    {"C12", "two takeovers at once", SLOTS, c12, CASE_REAL, 0},
    {"C13", "who waits gets the slot that is released", SLOTS, c13, CASE_REAL, 0},
    {"C14", "waiters are served in order", SLOTS | COORD_CAP_FIFO_WAIT, NULL, 0, 0},
    {"C15", "a waiter that died is passed over", SLOTS | COORD_CAP_FIFO_WAIT, NULL, 0, 0},
    {"C16", "cooldown after an expiry, none after a release", SLOTS | COORD_CAP_COOLDOWN, c16, 0,
     0},
    {"C17", "slot counts and owners outside the limits", SLOTS, c17, 0, 0},
    {"C18", "a large group is filled", SLOTS, c18, 0, 0},
    {"C19", "the reply of an acquire is lost", SLOTS, c19, CASE_REAL, 0},
    {"C20", "slots and plain keys are never mixed", SLOTS, c20, 0, 0},
    {"C21", "shrunk, one above left: two at once find it full", SLOTS | COORD_CAP_SHRINK, c21,
     CASE_REAL, 0},
    {0},
};
