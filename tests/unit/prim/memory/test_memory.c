/* SPDX-License-Identifier: Apache-2.0 */
/* What memory.c adds to the records: the thread that ends leases, watches, guards, names, a mutex.
 * */

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/test.h"
#include "prim/answer.h"
#include "prim/guard.h"
#include "prim/stores.h"
#include "prim/url.h"

struct host {
    struct prim_host host;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int calls, reason;
    uint64_t token;
};
static void on_lost(struct prim_host *host, const coord_id *lease_id, int reason, uint64_t token)
{
    struct host *h = CONTAINER_OF(host, struct host, host);
    (void)lease_id;
    (void)pthread_mutex_lock(&h->mutex);
    h->calls++;
    h->reason = reason;
    h->token = token;
    (void)pthread_cond_broadcast(&h->changed);
    (void)pthread_mutex_unlock(&h->mutex);
}
static void wait_for_loss(struct host *h)
{
    (void)pthread_mutex_lock(&h->mutex);
    while (h->calls == 0) { (void)pthread_cond_wait(&h->changed, &h->mutex); }
    (void)pthread_mutex_unlock(&h->mutex);
}

static _Atomic int64_t stepped_ns;
static int64_t stepped(void *arg)
{
    (void)arg;
    return atomic_load(&stepped_ns);
}

struct box {
    struct prim_backend *b;
    struct prim_guards *guards;
    struct prim_guard *guard;
    struct host host;
    struct prim_url url;
};
static void open_box(struct box *box, const char *url, bool step)
{
    *box = (struct box){.host = {.host = {.lost = on_lost},
                                 .mutex = PTHREAD_MUTEX_INITIALIZER,
                                 .changed = PTHREAD_COND_INITIALIZER}};
    CHECK_I64("url", prim_url_parse(url, &box->url).code, COORD_OK);
    struct prim_open in = {.url = &box->url,
                           .options = &(coord_options){0},
                           .clock = {step ? stepped : prim_boottime_ns, NULL},
                           .host = &box->host.host,
                           .deadline_ns = INT64_MAX};
    CHECK_I64("open", prim_memory_open(&in, &box->b).code, COORD_OK);
    box->guards = prim_guards_open(box->b);
    CHECK("guards", box->guards != NULL);
}
static void close_box(struct box *box)
{
    prim_guards_close(box->guards);
    box->b->ops->close(box->b);
    prim_url_deinit(&box->url);
}
static struct prim_call call_now(void)
{
    return (struct prim_call){.deadline_ns = INT64_MAX, .request_id = prim_id_request()};
}
static coord_result create(struct box *box, const char *key, int64_t ttl_ms,
                           struct prim_grant *grant)
{
    struct prim_call call = call_now();
    struct prim_create in = {.key = str_from(key),
                             .value = STR("v"),
                             .owner = STR("o"),
                             .ttl_ms = ttl_ms,
                             .lease_id = prim_id_random()};
    *grant = (struct prim_grant){0};
    return box->b->ops->create(box->b, &call, &in, grant);
}
static coord_result drop(struct box *box, const char *key, uint64_t expected)
{
    struct prim_call call = call_now();
    struct prim_delete in = {str_from(key), expected, NULL};
    return box->b->ops->remove(box->b, &call, &in);
}
static int next_type(struct prim_feed *feed, coord_event *event)
{
    return prim_feed_next(feed, -1, event) ? event->type : 0;
}

TEST(a_lease_ends_without_anybody_calling_and_its_guard_reports_it)
{
    struct box box;
    struct prim_grant grant;
    open_box(&box, "mem:", false);
    struct prim_feed *feed = prim_feed_open((struct prim_scope){STR("k"), false});
    void *watch;
    coord_event event;
    struct prim_call call = call_now();
    CHECK_I64("watch", box.b->ops->watch(box.b, &call, feed, &watch).code, COORD_OK);
    CHECK_I64("begin", next_type(feed, &event), COORD_SNAPSHOT_BEGIN);
    CHECK_I64("end", next_type(feed, &event), COORD_SNAPSHOT_END);
    CHECK_I64("create", create(&box, "k", 10, &grant).code, COORD_OK);
    struct prim_held held = {(char *)"k", grant.token, grant.create_revision, COORD_NO_SLOT};
    struct prim_claim claim = {grant.lease_id, "o", 10, &held, 1};
    prim_guards_add(box.guards, &box.guard, &claim);
    CHECK_I64("put", next_type(feed, &event), COORD_PUT);
    CHECK_I64("the end", next_type(feed, &event), COORD_EXPIRE);
    CHECK("a change", event.revision > grant.token);
    /* The guard may have been added after the end: then only a renewal shows the end. */
    int64_t sent = 0;
    coord_result late = box.b->ops->renew(box.b, &call, &claim, &sent);
    CHECK_I64("over", late.code, COORD_EXPIRED);
    prim_guards_drop(box.guards, &box.guard);
    box.b->ops->unwatch(box.b, watch);
    prim_feed_close(feed);
    close_box(&box);
}

TEST(a_guarded_lease_is_reported_once_and_why)
{
    struct box box;
    struct prim_grant grant;
    open_box(&box, "mem:", false);
    (void)create(&box, "k", 60000, &grant);
    struct prim_held held = {(char *)"k", grant.token, grant.create_revision, COORD_NO_SLOT};
    struct prim_claim claim = {grant.lease_id, "o", 60000, &held, 1};
    prim_guards_add(box.guards, &box.guard, &claim);
    CHECK_I64("force", drop(&box, "k", COORD_FORCE).code, COORD_OK);
    wait_for_loss(&box.host);
    CHECK_I64("why", box.host.reason, COORD_R_REVOKED);
    (void)create(&box, "k", 60000, &grant);
    (void)drop(&box, "k", COORD_FORCE);
    CHECK_I64("another lease is not guarded", box.host.calls, 1);
    close_box(&box);
}

TEST(an_orderly_release_is_not_reported)
{
    struct box box;
    struct prim_grant grant;
    open_box(&box, "mem:", false);
    (void)create(&box, "k", 60000, &grant);
    struct prim_held held = {(char *)"k", grant.token, grant.create_revision, COORD_NO_SLOT};
    struct prim_claim claim = {grant.lease_id, "o", 60000, &held, 1};
    struct prim_call call = call_now();
    prim_guards_add(box.guards, &box.guard, &claim);
    prim_guards_drop(box.guards, &box.guard); /* like prim before a release */
    CHECK_I64("release", box.b->ops->release(box.b, &call, &claim, NULL).code, COORD_OK);
    CHECK_I64("silence", box.host.calls, 0);
    close_box(&box);
}

TEST(stores_of_one_name_share_and_others_do_not)
{
    struct box a, b, alone;
    struct prim_grant grant;
    coord_entry *entry = NULL;
    struct prim_call call = call_now();
    open_box(&a, "mem:?name=same", false);
    open_box(&b, "mem:?name=same", false);
    open_box(&alone, "mem:", false);
    (void)create(&a, "k", 0, &grant);
    CHECK_I64("shared", b.b->ops->get(b.b, &call, STR("k"), 0, &entry).code, COORD_OK);
    coord_entry_free(entry);
    CHECK_I64("not shared", alone.b->ops->get(alone.b, &call, STR("k"), 0, &entry).code,
              COORD_NOT_FOUND);
    coord_id first = a.b->id, second = b.b->id, other = alone.b->id;
    CHECK("one store", prim_id_equal(&first, &second));
    CHECK("another", !prim_id_equal(&first, &other));
    close_box(&a);
    CHECK_I64("until the last closes", b.b->ops->get(b.b, &call, STR("k"), 0, &entry).code,
              COORD_OK);
    coord_entry_free(entry);
    close_box(&b);
    open_box(&a, "mem:?name=same", false);
    CHECK_I64("gone", a.b->ops->get(a.b, &call, STR("k"), 0, &entry).code, COORD_NOT_FOUND);
    close_box(&a);
    close_box(&alone);
}

TEST(a_stepped_clock_ends_leases)
{
    struct box box;
    struct prim_grant grant;
    coord_entry *entry = NULL;
    struct prim_call call = call_now();
    atomic_store(&stepped_ns, 1000000000);
    open_box(&box, "mem:", true);
    (void)create(&box, "k", 1000, &grant);
    struct prim_held held = {(char *)"k", grant.token, grant.create_revision, COORD_NO_SLOT};
    struct prim_claim claim = {grant.lease_id, "o", 1000, &held, 1};
    prim_guards_add(box.guards, &box.guard, &claim);
    atomic_fetch_add(&stepped_ns, 999999999);
    CHECK_I64("not before", box.b->ops->get(box.b, &call, STR("k"), 0, &entry).code, COORD_OK);
    coord_entry_free(entry);
    atomic_fetch_add(&stepped_ns, 1);
    wait_for_loss(&box.host);
    CHECK_I64("why", box.host.reason, COORD_R_DEADLINE);
    CHECK_I64("absent", box.b->ops->get(box.b, &call, STR("k"), 0, &entry).code, COORD_NOT_FOUND);
    close_box(&box);
}

TEST(a_watch_of_a_bucket_shows_its_own_keys_only)
{
    static const char *const inside[] = {"a/1", "a/2"}, *const outside[] = {"a", "a!", "a/b/1",
                                                                            "a0/1", "b/1"};
    struct box box;
    struct prim_grant grant;
    coord_event event;
    void *watch;
    struct prim_call call = call_now();
    open_box(&box, "mem:", false);
    for (size_t i = 0; i < ARRAY_LEN(outside); i++) { (void)create(&box, outside[i], 0, &grant); }
    for (size_t i = 0; i < ARRAY_LEN(inside); i++) { (void)create(&box, inside[i], 0, &grant); }
    struct prim_feed *feed = prim_feed_open((struct prim_scope){STR("a"), true});
    (void)box.b->ops->watch(box.b, &call, feed, &watch);
    CHECK_I64("begin", next_type(feed, &event), COORD_SNAPSHOT_BEGIN);
    for (size_t i = 0; i < ARRAY_LEN(inside); i++) {
        CHECK_I64("an entry", next_type(feed, &event), COORD_ENTRY);
        CHECK_STR("in order", str_of(event.key.at, event.key.len), str_from(inside[i]));
    }
    CHECK_I64("end", next_type(feed, &event), COORD_SNAPSHOT_END);
    for (size_t i = 0; i < ARRAY_LEN(outside); i++) { (void)drop(&box, outside[i], COORD_ANY); }
    (void)drop(&box, "a/2", COORD_ANY);
    CHECK_I64("the first change inside", next_type(feed, &event), COORD_DELETE);
    CHECK_STR("its key", str_of(event.key.at, event.key.len), STR("a/2"));
    box.b->ops->unwatch(box.b, watch);
    prim_feed_close(feed);
    close_box(&box);
}

/* Reads nothing while more events happen than the queue holds. */
static void lag(bool read_first)
{
    struct box box;
    struct prim_grant grant;
    coord_event event;
    void *watch;
    struct prim_call call = call_now();
    open_box(&box, "mem:", false);
    struct prim_feed *feed = prim_feed_open((struct prim_scope){STR("k"), false});
    (void)box.b->ops->watch(box.b, &call, feed, &watch);
    if (read_first) {
        CHECK_I64("begin", next_type(feed, &event), COORD_SNAPSHOT_BEGIN);
        CHECK_I64("end", next_type(feed, &event), COORD_SNAPSHOT_END);
    }
    for (int i = 0; i < FEED_EVENTS_MAX; i++) {
        (void)create(&box, "k", 0, &grant);
        (void)drop(&box, "k", COORD_ANY);
    }
    coord_result last = create(&box, "k", 0, &grant);
    if (read_first) {
        int type;
        while ((type = next_type(feed, &event)) != COORD_RESYNC) { CHECK("more", type != 0); }
    }
    CHECK_I64("begin", next_type(feed, &event), COORD_SNAPSHOT_BEGIN);
    uint64_t seen = 0;
    while (seen != last.revision) { /* ends: the last state is always reported */
        CHECK("more", next_type(feed, &event) != 0);
        if (event.type == COORD_ENTRY || event.type == COORD_PUT) { seen = event.revision; }
    }
    if (event.type == COORD_ENTRY) {
        CHECK_I64("end", next_type(feed, &event), COORD_SNAPSHOT_END);
    }
    (void)drop(&box, "k", COORD_ANY);
    CHECK_I64("and on", next_type(feed, &event), COORD_DELETE);
    box.b->ops->unwatch(box.b, watch);
    prim_feed_close(feed);
    close_box(&box);
}
TEST(a_reader_that_lags_gets_a_new_snapshot)
{
    lag(true);
}
TEST(so_does_one_that_has_not_begun_to_read)
{
    lag(false);
}

struct racer {
    struct box *box;
    int won;
};
enum { ROUNDS = 300, RACERS = 4 };
static void *race(void *arg)
{
    struct racer *r = arg;
    for (int i = 0; i < ROUNDS; i++) {
        char key[16];
        struct prim_grant grant;
        (void)snprintf(key, sizeof key, "k%d", i);
        if (create(r->box, key, i % 2 ? 0 : 60000, &grant).code == COORD_OK) { r->won++; }
    }
    return NULL;
}
TEST(threads_that_race_for_a_key_have_one_winner)
{
    struct box box[2];
    struct racer racers[RACERS];
    pthread_t threads[RACERS];
    int won = 0;
    open_box(&box[0], "mem:?name=race", false);
    open_box(&box[1], "mem:?name=race", false);
    for (int i = 0; i < RACERS; i++) {
        racers[i] = (struct racer){&box[i % 2], 0};
        CHECK_I64("thread", pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < RACERS; i++) {
        (void)pthread_join(threads[i], NULL);
        won += racers[i].won;
    }
    CHECK_I64("one each", won, ROUNDS);
    close_box(&box[0]);
    close_box(&box[1]);
}
