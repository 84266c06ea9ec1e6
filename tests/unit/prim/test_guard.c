/* SPDX-License-Identifier: Apache-2.0 */
/* Guards over a backend that only records open watches; the test sends their events. */
#include "prim/guard.h"

#include <pthread.h>
#include <stdio.h>

#include "lib/test.h"

enum { WATCHES_CAP = 16, LOSSES_CAP = 16 };

struct watch {
    char scope[64];
    bool bucket, open;
    struct prim_feed *feed;
};
struct loss {
    coord_id lease_id;
    int reason;
    uint64_t token;
};
struct rig {
    struct prim_backend backend;
    struct prim_backend_ops ops;
    struct prim_host host;
    struct prim_guards *guards;
    struct prim_guard *of[16]; /* by the first byte of the lease's id */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct watch watches[WATCHES_CAP];
    size_t opened, ended, refuse; /* refuse: number of watches to refuse */
    struct loss losses[LOSSES_CAP];
    size_t loss_count;
};

static coord_result watch(struct prim_backend *backend, const struct prim_call *call,
                          struct prim_feed *feed, void **ret_watch)
{
    struct rig *r = CONTAINER_OF(backend, struct rig, backend);
    struct prim_scope scope = prim_feed_scope(feed);
    bool refused;

    assert(call->deadline_ns > prim_boottime_ns(NULL));
    pthread_mutex_lock(&r->lock);
    assert(r->opened < WATCHES_CAP);
    struct watch *w = &r->watches[r->opened];
    (void)snprintf(w->scope, sizeof w->scope, "%.*s", STR_ARG(scope.name));
    refused = r->refuse > 0 && r->refuse--;
    w->bucket = scope.bucket;
    w->open = !refused;
    w->feed = feed;
    r->opened++;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    if (refused) return (coord_result){.code = COORD_UNAVAILABLE};
    *ret_watch = w;
    return (coord_result){.code = COORD_OK};
}

static void unwatch(struct prim_backend *backend, void *opaque)
{
    struct rig *r = CONTAINER_OF(backend, struct rig, backend);
    struct watch *w = opaque;

    pthread_mutex_lock(&r->lock);
    assert(w->open);
    w->open = false;
    r->ended++;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

static void lost(struct prim_host *host, const coord_id *lease_id, int reason, uint64_t token)
{
    struct rig *r = CONTAINER_OF(host, struct rig, host);

    assert(r->loss_count < LOSSES_CAP);
    r->losses[r->loss_count++] = (struct loss){*lease_id, reason, token};
}

static void rig_open(struct rig *r, uint32_t keys_max, uint32_t keys_alone)
{
    *r = (struct rig){.ops = {.watch = watch,
                              .unwatch = unwatch,
                              .guards_max = keys_max,
                              .guards_alone = keys_alone},
                      .host = {.lost = lost}};
    r->backend.ops = &r->ops;
    r->backend.host = &r->host;
    r->backend.clock = (struct prim_clock){prim_boottime_ns, NULL};
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    r->guards = prim_guards_open(&r->backend);
    CHECK("memory", r->guards != NULL);
}

static void rig_close(struct rig *r)
{
    prim_guards_close(r->guards);
    for (size_t i = 0; i < r->opened; i++) CHECK("every watch has ended", !r->watches[i].open);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
}

static void wait_for(struct rig *r, const size_t *count, size_t want)
{
    pthread_mutex_lock(&r->lock);
    while (*count < want) pthread_cond_wait(&r->changed, &r->lock);
    CHECK_SIZE("as many as that", *count, want);
    pthread_mutex_unlock(&r->lock);
}

static const coord_id lease_a = {{1}}, lease_b = {{2}};

static void guard(struct rig *r, const coord_id *lease_id, struct prim_held *held, size_t count)
{
    prim_guards_add(r->guards, &r->of[lease_id->b[0]],
                    &(struct prim_claim){*lease_id, "me", 1000, held, count});
}

static void drop(struct rig *r, const coord_id *lease_id)
{
    prim_guards_drop(r->guards, &r->of[lease_id->b[0]]);
}

static void add(struct rig *r, const coord_id *lease_id, const char *key, uint64_t token)
{
    struct prim_held held = {(char *)key, token, token, COORD_NO_SLOT};

    guard(r, lease_id, &held, 1);
}

static void send(struct rig *r, size_t at, int type, const char *key, uint64_t revision,
                 uint64_t token)
{
    (void)prim_feed_put(r->watches[at].feed, &(struct prim_event){.type = type,
                                                                  .revision = revision,
                                                                  .token = token,
                                                                  .key = str_from(key)});
}

/* A snapshot of no entry or one. */
static void send_snapshot(struct rig *r, size_t at, const char *key, uint64_t token, uint64_t as_of)
{
    struct prim_snapshot *snapshot = prim_snapshot_open(r->watches[at].feed);

    if (key)
        CHECK("memory", prim_snapshot_add(snapshot, &(struct prim_event){.revision = token,
                                                                         .token = token,
                                                                         .key = str_from(key)}));
    prim_feed_snapshot(r->watches[at].feed, snapshot, as_of);
}

TEST(a_key_is_watched_from_its_grant_on_and_its_end_is_reported_once)
{
    static const struct {
        int type;
        uint64_t token;
        int reason;
        uint64_t reported;
    } cases[] = {{COORD_DELETE, 0, COORD_R_REVOKED, 0},
                 {COORD_EXPIRE, 0, COORD_R_DEADLINE, 0},
                 {COORD_PUT, 12, COORD_R_SUPERSEDED, 12},
                 {COORD_PUT, PRIM_TOKEN_UNKNOWN, COORD_R_SUPERSEDED, 0}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct rig r;
        rig_open(&r, 8, 0);
        add(&r, &lease_a, "a/k", 10);
        wait_for(&r, &r.opened, 1);
        CHECK_TEXT("the key", r.watches[0].scope, "a/k");
        CHECK("alone", !r.watches[0].bucket);
        CHECK_U64("after its grant", prim_feed_since(r.watches[0].feed), 11);
        send(&r, 0, COORD_DELETE, "a/k", 10, 0);
        send(&r, 0, COORD_PUT, "a/k", 10, 10);
        send(&r, 0, COORD_PUT, "a/k", 11, 10);
        send(&r, 0, COORD_PUT, "a/k", 11, 0);
        send(&r, 0, COORD_DELETE, "a/other", 12, 0);
        send(&r, 0, COORD_PROGRESS, "", 12, 0);
        CHECK_SIZE("own changes, earlier ones, other keys", r.loss_count, 0);
        send(&r, 0, cases[i].type, "a/k", 12, cases[i].token);
        send(&r, 0, COORD_DELETE, "a/k", 13, 0);
        CHECK_SIZE("once", r.loss_count, 1);
        CHECK_I64("why", r.losses[0].reason, cases[i].reason);
        CHECK_U64("the lease", r.losses[0].token, cases[i].reported);
        CHECK("which", memcmp(&r.losses[0].lease_id, &lease_a, sizeof lease_a) == 0);
        rig_close(&r);
    }
}

TEST(a_key_that_left_the_claim_is_no_loss)
{
    struct rig r;
    struct prim_held held[] = {{"a/1", 5, 5, 0}, {"a/2", 6, 6, 0}};

    rig_open(&r, 8, 0);
    guard(&r, &lease_a, held, 2);
    add(&r, &lease_b, "b", 7);
    wait_for(&r, &r.opened, 3);
    guard(&r, &lease_a, held + 1, 1);
    wait_for(&r, &r.ended, 1);
    CHECK("of that key", !r.watches[0].open && r.watches[1].open);
    send(&r, 1, COORD_DELETE, "a/2", 9, 0);
    CHECK_SIZE("the other one is still guarded", r.loss_count, 1);
    drop(&r, &lease_a);
    wait_for(&r, &r.ended, 2);
    drop(&r, &lease_a); /* twice is fine */
    send(&r, 2, COORD_EXPIRE, "b", 9, 0);
    CHECK_SIZE("another lease's", r.loss_count, 2);
    CHECK("its id", memcmp(&r.losses[1].lease_id, &lease_b, sizeof lease_b) == 0);
    rig_close(&r);
}

TEST(a_key_that_stays_keeps_its_watch_when_the_claim_changes)
{
    struct rig r;
    struct prim_held held[] = {{"a/1", 5, 5, 0}, {"a/2", 6, 6, 0}, {"a/1", 9, 9, 0}};

    rig_open(&r, 8, 0);
    add(&r, &lease_a, "a/1", 5);
    wait_for(&r, &r.opened, 1);
    guard(&r, &lease_a, held, 2);
    wait_for(&r, &r.opened, 2);
    CHECK_TEXT("only the new one", r.watches[1].scope, "a/2");
    guard(&r, &lease_a, held + 1, 2);
    wait_for(&r, &r.opened, 3);
    wait_for(&r, &r.ended, 1);
    CHECK("a new grant has a new watch", !r.watches[0].open && r.watches[2].open);
    send(&r, 2, COORD_PUT, "a/1", 9, 9);
    CHECK_SIZE("that grant", r.loss_count, 0);
    rig_close(&r);
}

TEST(many_keys_of_a_bucket_share_a_watch_that_has_not_gone_past_their_grant)
{
    struct rig r;
    static const coord_id ids[] = {{{11}}, {{12}}, {{13}}, {{14}}, {{15}}};

    rig_open(&r, 8, 2);
    add(&r, &ids[0], "a/1", 10);
    add(&r, &ids[1], "a/2", 11);
    wait_for(&r, &r.opened, 2);
    add(&r, &ids[2], "a/3", 12);
    wait_for(&r, &r.opened, 3);
    CHECK_TEXT("the third has the bucket watched", r.watches[2].scope, "a");
    CHECK("whole", r.watches[2].bucket);
    CHECK_U64("after its grant", prim_feed_since(r.watches[2].feed), 13);
    add(&r, &ids[3], "a/4", 12);
    add(&r, &ids[4], "a/0", 4); /* older than the watch: its events would be missed */
    wait_for(&r, &r.opened, 4);
    CHECK_U64("a watch of its own", prim_feed_since(r.watches[3].feed), 5);
    send(&r, 2, COORD_DELETE, "a/4", 20, 0);
    CHECK_SIZE("the one that joined", r.loss_count, 1);
    send(&r, 2, COORD_DELETE, "a/0", 21, 0);
    CHECK_SIZE("not the one that did not", r.loss_count, 1);
    send(&r, 3, COORD_PROGRESS, "", 16, 0);
    add(&r, &ids[3], "a/4", 15);
    wait_for(&r, &r.opened, 5);
    CHECK_U64("gone past it", prim_feed_since(r.watches[4].feed), 16);
    rig_close(&r);
}

TEST(after_a_gap_the_snapshot_shows_the_keys_still_held)
{
    struct rig r;

    rig_open(&r, 8, 0);
    add(&r, &lease_a, "k", 10);
    wait_for(&r, &r.opened, 1);
    CHECK("from the start a snapshot may come", prim_feed_wants_snapshot(r.watches[0].feed));
    send_snapshot(&r, 0, "k", 10, 30);
    CHECK("one is enough", !prim_feed_wants_snapshot(r.watches[0].feed));
    prim_feed_resync(r.watches[0].feed);
    CHECK("after a gap another", prim_feed_wants_snapshot(r.watches[0].feed));
    send_snapshot(&r, 0, NULL, 0, 9);
    CHECK_SIZE("still there; or from before the grant", r.loss_count, 0);
    send_snapshot(&r, 0, NULL, 0, 10);
    CHECK_I64("gone", r.losses[0].reason, COORD_R_REVOKED);
    add(&r, &lease_b, "l", 10);
    wait_for(&r, &r.opened, 2);
    send_snapshot(&r, 1, "l", 15, 0);
    CHECK_I64("another's", r.losses[1].reason, COORD_R_SUPERSEDED);
    CHECK_U64("the lease", r.losses[1].token, 15);
    add(&r, &lease_a, "m", 10);
    wait_for(&r, &r.opened, 3);
    send_snapshot(&r, 2, NULL, 0, 0);
    CHECK_I64("without a revision it is the latest", r.losses[2].reason, COORD_R_REVOKED);
    CHECK_SIZE("once each", r.loss_count, 3);
    rig_close(&r);
}

TEST(no_key_joins_a_watch_that_cannot_show_its_end)
{
    struct rig r;

    rig_open(&r, 8, 1);
    r.refuse = 1;
    add(&r, &lease_a, "a/1", 5);
    wait_for(&r, &r.opened, 1);
    add(&r, &lease_b, "a/1", 5);
    wait_for(&r, &r.opened, 2); /* the first was refused */
    CHECK_TEXT("and counts for sharing", r.watches[1].scope, "a");
    prim_feed_end(r.watches[1].feed, COORD_R_FORBIDDEN);
    add(&r, &(coord_id){{3}}, "a/3", 5);
    wait_for(&r, &r.opened, 3); /* the second has ended */
    send(&r, 2, COORD_SNAPSHOT_BEGIN, "a/", 0, 0);
    add(&r, &(coord_id){{4}}, "a/4", 50);
    wait_for(&r, &r.opened, 4); /* its entry may have been in the snapshot of the third */
    CHECK_SIZE("nothing is lost", r.loss_count, 0);
    rig_close(&r);
}

TEST(past_the_limit_a_key_is_left_to_renewals)
{
    struct rig r;
    struct prim_held held[] = {{"b", 5, 5, 0}, {"c", 6, 6, 0}};

    rig_open(&r, 1, 0);
    add(&r, &lease_a, "a", 5);
    wait_for(&r, &r.opened, 1);
    add(&r, &lease_b, "b", 5);
    drop(&r, &lease_a);
    wait_for(&r, &r.ended, 1);
    add(&r, &lease_a, "c", 6);
    wait_for(&r, &r.opened, 2);
    CHECK_TEXT("not b, which found no room", r.watches[1].scope, "c");
    guard(&r, &lease_a, held, 2);
    send(&r, 1, COORD_DELETE, "c", 9, 0);
    CHECK_SIZE("guarded leases stay guarded", r.loss_count, 1);
    rig_close(&r);
}
