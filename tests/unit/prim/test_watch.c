/* SPDX-License-Identifier: Apache-2.0 */
/* Watches of a store, and waiting for a slot, which uses a watch. */
#include <poll.h>
#include <unistd.h>

#include "lib/test.h"
#include "prim/answer.h"
#include "prim/wait.h"
#include "unit/prim/fake_backend.h"

#define TEXT(literal) ((coord_str){"" literal, sizeof(literal) - 1})

static struct prim_feed *feed_of(struct fake *fake)
{
    struct prim_feed *feed = NULL;
    while (feed == NULL) {
        (void)pthread_mutex_lock(&fake->lock);
        feed = fake->feed;
        (void)pthread_mutex_unlock(&fake->lock);
        if (feed == NULL) { (void)usleep(200); }
    }
    return feed;
}

TEST(a_watch_ends_with_the_store_and_outlives_it)
{
    struct fake fake;
    coord_store *store;
    coord_watch *watch = NULL;
    coord_event event;
    fake_init(&fake);
    (void)fake_open(&fake, NULL, &store);
    CHECK_I64("opens", coord_watch_open(store, NULL, TEXT("b"), COORD_WATCH_BUCKET, &watch).code,
              COORD_OK);
    CHECK_I64("begin", coord_watch_next(watch, -1, &event), 1);
    CHECK_I64("begin", event.type, COORD_SNAPSHOT_BEGIN);
    CHECK_I64("end", coord_watch_next(watch, -1, &event), 1);
    CHECK_I64("end", event.type, COORD_SNAPSHOT_END);
    struct prim_event put = {
        .type = COORD_PUT, .revision = 5, .key = STR("b/x"), .value = STR("1")};
    CHECK("taken", prim_feed_put(feed_of(&fake), &put));
    struct pollfd ready = {.fd = coord_watch_fd(watch), .events = POLLIN};
    CHECK_I64("readable", poll(&ready, 1, -1), 1);
    CHECK_I64("put", coord_watch_next(watch, 0, &event), 1);
    CHECK_STR("its key", str_of(event.key.at, event.key.len), STR("b/x"));
    CHECK_I64("nothing more", coord_watch_next(watch, 0, &event), 0);
    coord_close(store);
    CHECK_I64("the last event", coord_watch_next(watch, -1, &event), 1);
    CHECK_I64("closed", event.type, COORD_CLOSED);
    CHECK_I64("because", event.reason, COORD_R_CLOSED);
    CHECK_I64("then nothing, at once", coord_watch_next(watch, -1, &event), 0);
    coord_watch_close(watch);
}

TEST(what_cannot_be_watched_is_refused)
{
    struct fake fake;
    coord_store *store;
    coord_watch *watch = NULL;
    fake_init(&fake);
    (void)fake_open(&fake, NULL, &store);
    CHECK_I64("key", coord_watch_open(store, NULL, TEXT("//"), 0, &watch).code, COORD_INVALID);
    CHECK_I64("flags", coord_watch_open(store, NULL, TEXT("b"), 2, &watch).code, COORD_INVALID);
    fake.caps.watch = COORD_WATCH_NONE;
    coord_result result = coord_watch_open(store, NULL, TEXT("b"), 0, &watch);
    CHECK_I64("no bit", result.code, COORD_UNSUPPORTED);
    CHECK_I64("nobody was asked", fake_calls(&fake, FAULT_WATCH), 0);
    coord_close(store);
}

static void *close_it(void *arg)
{
    coord_watch_close(arg);
    return NULL;
}

TEST(a_reader_may_close_while_the_store_closes)
{
    for (int round = 0; round < 100; round++) {
        struct fake fake;
        coord_store *store;
        coord_watch *watch = NULL;
        pthread_t reader;
        fake_init(&fake);
        (void)fake_open(&fake, NULL, &store);
        (void)coord_watch_open(store, NULL, TEXT("b"), 0, &watch);
        (void)pthread_create(&reader, NULL, close_it, watch);
        coord_close(store);
        (void)pthread_join(reader, NULL);
        CHECK("not filled any more", fake.feed == NULL);
    }
}

static void reported(struct wait_view *view, int type, const char *key)
{
    coord_event event = {.type = type, .key = {key, strlen(key)}};
    wait_view_event(view, &event);
}

TEST(a_waiter_counts_the_slots_that_are_held)
{
    struct wait_view view = {.known = false};
    reported(&view, COORD_SNAPSHOT_BEGIN, "");
    reported(&view, COORD_ENTRY, "g/slot-0000");
    reported(&view, COORD_ENTRY, "g/slot-1023");
    CHECK("not before it is complete", !view.known);
    reported(&view, COORD_SNAPSHOT_END, "");
    CHECK("known", view.known);
    CHECK_U32("two", view.live, 2);
    reported(&view, COORD_PUT, "g/slot-0000"); /* a takeover */
    CHECK_U32("still two", view.live, 2);
    reported(&view, COORD_EXPIRE, "g/slot-0000");
    reported(&view, COORD_DELETE, "g/slot-0000");
    CHECK_U32("one", view.live, 1);
    reported(&view, COORD_PUT, "g/something");
    reported(&view, COORD_PUT, "g/slot-9999");
    CHECK_U32("no others count", view.live, 1);
    reported(&view, COORD_RESYNC, "");
    CHECK("unknown until the next snapshot", !view.known && view.live == 0);
}

/* -- waiting ---------------------------------------------------------------------------------- */

static coord_result full_until(struct fake *fake, enum fault_op op, const struct prim_call *call)
{
    atomic_bool *room = fake->arg;
    (void)call;
    if (op != FAULT_ACQUIRE || atomic_load(room)) { return prim_ok(COORD_R_NONE); }
    coord_result full = prim_answer(COORD_EXISTS, COORD_R_FULL, "1 of 1 slots are held");
    full.hint_ms = 60000;
    full.slot_count = 1;
    return full;
}

struct waiting {
    coord_store *store;
    coord_lease *lease;
    coord_result result;
    int64_t wait_ms;
};

static void *wait_for_slot(void *arg)
{
    struct waiting *waiting = arg;
    coord_slot_request request = COORD_SLOT_REQUEST_INIT;
    request.group = TEXT("g");
    request.owner = "me";
    request.ttl_ms = 60000;
    request.wait_ms = waiting->wait_ms;
    waiting->result = coord_acquire_slot(waiting->store, NULL, &request, &waiting->lease);
    return NULL;
}

TEST(a_waiter_gets_the_slot_when_it_is_free)
{
    struct fake fake;
    atomic_bool room = false;
    struct waiting waiting = {.wait_ms = 600000};
    pthread_t thread;
    fake_init(&fake);
    fake.act = full_until;
    fake.arg = &room;
    (void)fake_open(&fake, NULL, &waiting.store);
    (void)pthread_create(&thread, NULL, wait_for_slot, &waiting);
    struct prim_feed *feed = feed_of(&fake);
    struct prim_event held = {.type = COORD_PUT, .revision = 1, .key = STR("g/slot-0000")};
    (void)prim_feed_put(feed, &held);
    while (fake_calls(&fake, FAULT_ACQUIRE) < 2) { (void)usleep(1000); } /* it looks again */
    atomic_store(&room, true);
    struct prim_event gone = {.type = COORD_DELETE, .revision = 2, .key = STR("g/slot-0000")};
    (void)prim_feed_put(feed, &gone);
    (void)pthread_join(thread, NULL);
    CHECK_I64("acquired", waiting.result.reason, COORD_R_ACQUIRED);
    CHECK_U32("every try was a first one", fake.attempt, 0);
    CHECK("the watch is over", fake.feed == NULL);
    coord_lease_unref(waiting.lease);
    coord_close(waiting.store);
}

TEST(a_waiter_that_times_out_learns_that_the_group_is_full)
{
    struct fake fake;
    atomic_bool room = false;
    struct waiting waiting = {.wait_ms = 50};
    fake_init(&fake);
    fake.act = full_until;
    fake.arg = &room;
    (void)fake_open(&fake, NULL, &waiting.store);
    (void)wait_for_slot(&waiting);
    CHECK_I64("full", waiting.result.reason, COORD_R_FULL);
    CHECK("without a lease", waiting.lease == NULL);
    CHECK("the watch is over", fake.feed == NULL);
    fake.caps.watch = COORD_WATCH_NONE; /* the same, by looking again */
    (void)wait_for_slot(&waiting);
    CHECK_I64("full", waiting.result.reason, COORD_R_FULL);
    coord_close(waiting.store);
}

TEST(closing_the_store_ends_the_waiting)
{
    struct fake fake;
    atomic_bool room = false;
    struct waiting waiting = {.wait_ms = 600000};
    pthread_t thread;
    fake_init(&fake);
    fake.act = full_until;
    fake.arg = &room;
    (void)fake_open(&fake, NULL, &waiting.store);
    (void)pthread_create(&thread, NULL, wait_for_slot, &waiting);
    struct prim_event held = {.type = COORD_PUT, .revision = 1, .key = STR("g/slot-0000")};
    while (!prim_feed_put(feed_of(&fake), &held)) { (void)usleep(200); } /* the snapshot is first */
    (void)usleep(100000); /* now it waits for an event and not for its random delay */
    coord_close(waiting.store);
    (void)pthread_join(thread, NULL);
    CHECK_I64("closed", waiting.result.reason, COORD_R_CLOSED);
}

static coord_result watch_ends_at_once(struct fake *fake, enum fault_op op,
                                       const struct prim_call *call)
{
    atomic_int *asked = fake->arg;
    (void)call;
    if (op != FAULT_ACQUIRE || atomic_fetch_add(asked, 1) > 3) { return prim_ok(COORD_R_NONE); }
    if (fake->feed != NULL) { prim_feed_end(fake->feed, COORD_R_FORBIDDEN); }
    coord_result full = prim_answer(COORD_EXISTS, COORD_R_FULL, "1 of 1 slots are held");
    full.hint_ms = 60000;
    full.slot_count = 1;
    return full;
}

/* An ended watch answers at once for ever: waiting for its next event would be a busy loop. */
TEST(a_waiter_whose_watch_ended_opens_another)
{
    struct fake fake;
    atomic_int asked = 0;
    struct waiting waiting = {.wait_ms = 600000};
    fake_init(&fake);
    fake.act = watch_ends_at_once;
    fake.arg = &asked;
    CHECK_I64("opens", fake_open(&fake, NULL, &waiting.store).code, COORD_OK);
    (void)wait_for_slot(&waiting);
    CHECK_I64("acquired in the end", waiting.result.code, COORD_OK);
    CHECK("a watch after the one that ended", fake_calls(&fake, FAULT_WATCH) > 1);
    CHECK("none is left open", fake.feed == NULL);
    coord_lease_unref(waiting.lease);
    coord_close(waiting.store);
}
