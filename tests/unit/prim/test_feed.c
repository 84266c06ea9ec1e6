/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/feed.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/test.h"
#include "prim/backend.h"
#include "prim/thread.h"

/* A feed of the keys at the top level. */
static struct prim_feed *test_feed(void)
{
    return prim_feed_open((struct prim_scope){STR_EMPTY, true});
}

static bool put(struct prim_feed *feed, int type, const char *key, uint64_t revision)
{
    return prim_feed_put(feed, &(struct prim_event){.type = type,
                                                    .revision = revision,
                                                    .token = revision,
                                                    .key = str_from(key),
                                                    .value = STR("v"),
                                                    .owner = STR("me")});
}

static void snapshot(struct prim_feed *feed, const char *key, uint64_t revision, uint64_t as_of)
{
    struct prim_snapshot *made = prim_snapshot_open(feed);
    if (key != NULL) {
        CHECK("added", prim_snapshot_add(made, &(struct prim_event){.revision = revision,
                                                                    .key = str_from(key),
                                                                    .value = STR("s")}));
    }
    prim_feed_snapshot(feed, made, as_of);
}

static bool readable(struct prim_feed *feed)
{
    struct pollfd fd = {.fd = prim_feed_fd(feed), .events = POLLIN};
    return poll(&fd, 1, 0) == 1;
}

/* The queued events as text: "BEGIN a=3 END@5 PUT a=6 ..." */
static char *all_of(struct prim_feed *feed)
{
    static char text[4096];
    static const char *const names[] = {"",    "BEGIN", "ENTRY",  "END",      "PUT",
                                        "DEL", "EXP",   "RESYNC", "PROGRESS", "CLOSED"};
    coord_event event;
    size_t len = 0;
    text[0] = '\0';
    while (readable(feed)) {
        CHECK_I64("readable means that an event waits", prim_feed_next(feed, 0, &event), 1);
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%s", len ? " " : "",
                                names[event.type]);
        if (event.key.len > 0) {
            len += (size_t)snprintf(text + len, sizeof text - len, " %.*s=%d", (int)event.key.len,
                                    event.key.at, (int)event.revision);
        } else if (event.revision > 0) {
            len += (size_t)snprintf(text + len, sizeof text - len, "@%d", (int)event.revision);
        } else if (event.reason > 0) {
            len += (size_t)snprintf(text + len, sizeof text - len, ":%s",
                                    coord_reason_name(event.reason));
        }
        assert(len < sizeof text);
    }
    CHECK_I64("not readable means that none does", prim_feed_next(feed, 0, &event), 0);
    return text;
}

TEST(a_snapshot_then_changes_in_order)
{
    struct prim_feed *feed = test_feed();
    CHECK("nothing waits", !readable(feed));
    CHECK("a new feed wants a snapshot", prim_feed_wants_snapshot(feed));
    CHECK("before it events are refused", !put(feed, COORD_PUT, "a", 1));
    snapshot(feed, "a", 3, 0);
    CHECK("wanted no more", !prim_feed_wants_snapshot(feed));
    CHECK("put", put(feed, COORD_PUT, "b", 4));
    CHECK("delete", put(feed, COORD_DELETE, "a", 5));
    CHECK("expire", put(feed, COORD_EXPIRE, "b", 6));
    CHECK("progress", prim_feed_put(feed, &(struct prim_event){COORD_PROGRESS, .revision = 6}));
    CHECK_TEXT("in order", all_of(feed), "BEGIN ENTRY a=3 END PUT b=4 DEL a=5 EXP b=6 PROGRESS@6");
    prim_feed_close(feed);
}

TEST(everything_of_an_event_arrives_and_stays_until_the_next_call)
{
    struct prim_feed *feed = prim_feed_open((struct prim_scope){STR("a"), true});
    coord_event event;
    snapshot(feed, NULL, 0, 9);
    char key[] = "a/b", value[] = "v\0w", owner[] = "me";
    CHECK("put", prim_feed_put(feed, &(struct prim_event){COORD_PUT, 10, 8, str_of(key, 3),
                                                          str_of(value, 3), str_of(owner, 2)}));
    memset(key, 0, 3), memset(value, 0, 3), memset(owner, 0, 2);
    CHECK_I64("begin", prim_feed_next(feed, -1, &event), 1);
    CHECK_I64("end", prim_feed_next(feed, -1, &event), 1);
    CHECK_U64("as of", event.revision, 9);
    CHECK_I64("put", prim_feed_next(feed, -1, &event), 1);
    CHECK_STR("key", str_of(event.key.at, event.key.len), STR("a/b"));
    CHECK_STR("value", str_of(event.value.at, event.value.len), STR("v\0w"));
    CHECK_TEXT("owner", event.owner, "me");
    CHECK_U64("token", event.token, 8);
    prim_feed_close(feed);
}

TEST(only_a_larger_revision_of_a_key_gets_through)
{
    struct prim_feed *feed = test_feed();
    snapshot(feed, "a", 5, 0);
    CHECK("shown already", put(feed, COORD_PUT, "a", 5));
    CHECK("older", put(feed, COORD_PUT, "a", 4));
    CHECK("newer", put(feed, COORD_PUT, "a", 7));
    CHECK("twice", put(feed, COORD_PUT, "a", 7));
    CHECK("gone", put(feed, COORD_DELETE, "a", 8));
    CHECK("an echo from before", put(feed, COORD_PUT, "a", 7));
    CHECK("another key has revisions of its own", put(feed, COORD_PUT, "b", 2));
    CHECK_TEXT("once each", all_of(feed), "BEGIN ENTRY a=5 END PUT a=7 DEL a=8 PUT b=2");
    CHECK("after reading too", put(feed, COORD_PUT, "a", 8));
    CHECK_TEXT("nothing", all_of(feed), "");
    prim_feed_close(feed);
}

TEST(nothing_a_snapshot_covers_follows_it)
{
    struct prim_feed *feed = test_feed();
    snapshot(feed, "a", 5, 20);
    CHECK("of a key it does not have", put(feed, COORD_PUT, "b", 20));
    CHECK("after it", put(feed, COORD_PUT, "b", 21));
    CHECK_TEXT("only the new events", all_of(feed), "BEGIN ENTRY a=5 END@20 PUT b=21");
    prim_feed_close(feed);
}

TEST(revisions_of_absent_keys_are_bounded_by_what_lives)
{
    struct prim_feed *feed = test_feed();
    char key[16];
    snapshot(feed, NULL, 0, 0);
    (void)all_of(feed);
    for (int i = 0; i < 20000; i++) {
        coord_event event;
        (void)snprintf(key, sizeof key, "k%d", i);
        CHECK("put", put(feed, COORD_PUT, key, 10));
        CHECK("delete", put(feed, COORD_DELETE, key, 11));
        CHECK_I64("read", prim_feed_next(feed, 0, &event) + prim_feed_next(feed, 0, &event), 2);
    }
    CHECK("the newest are known", put(feed, COORD_PUT, "k19999", 11));
    CHECK_TEXT("and held back", all_of(feed), "");
    CHECK("the oldest are forgotten", put(feed, COORD_PUT, "k0", 11));
    CHECK_TEXT("and let through", all_of(feed), "PUT k0=11");
    prim_feed_close(feed);
}

static void count_room(void *owner)
{
    ++*(int *)owner;
}

static void overflow(struct prim_feed *feed)
{
    for (uint64_t i = 0; i < FEED_EVENTS_MAX; i++) {
        CHECK("room", put(feed, COORD_PUT, "a", 1000 + i));
    }
    CHECK("one too many", !put(feed, COORD_PUT, "a", 1000 + FEED_EVENTS_MAX));
}

TEST(a_reader_that_lags_gets_resync_and_then_a_snapshot)
{
    struct prim_feed *feed = test_feed();
    int room_calls = 0;
    prim_feed_on_room(feed, count_room, &room_calls);
    snapshot(feed, "a", 5, 0);
    (void)all_of(feed);
    overflow(feed);
    CHECK("refused until a snapshot comes", !put(feed, COORD_PUT, "b", 1));
    CHECK("which nobody needs before the reader is there", !prim_feed_wants_snapshot(feed));
    CHECK_I64("nor is it asked for", room_calls, 0);
    CHECK_TEXT("the queued events are dropped", all_of(feed), "RESYNC");
    CHECK_I64("asked for once", room_calls, 1);
    CHECK("and wanted", prim_feed_wants_snapshot(feed));
    snapshot(feed, "a", 1001, 0);
    CHECK("dropped events were never seen: they may come", put(feed, COORD_PUT, "a", 1002));
    CHECK_TEXT("goes on", all_of(feed), "BEGIN ENTRY a=1001 END PUT a=1002");
    CHECK_I64("asked for once", room_calls, 1);
    prim_feed_close(feed);
}

TEST(bytes_overflow_too)
{
    struct prim_feed *feed = test_feed();
    struct str value = str_of(calloc(1, 1 << 20), 1 << 20);
    snapshot(feed, NULL, 0, 0);
    (void)all_of(feed);
    uint64_t taken = 0;
    while (prim_feed_put(
        feed, &(struct prim_event){COORD_PUT, taken + 1, 0, STR("a"), value, STR_EMPTY})) {
        taken++;
    }
    CHECK_U64("64 MiB, and each has its key's byte", taken, 63);
    CHECK_TEXT("the events", all_of(feed), "RESYNC");
    free((void *)(uintptr_t)value.at);
    prim_feed_close(feed);
}

TEST(a_snapshot_of_any_size_is_one_item)
{
    struct prim_feed *feed = test_feed();
    struct prim_snapshot *made = prim_snapshot_open(feed);
    char key[16];
    for (int i = 0; i < 2 * FEED_EVENTS_MAX; i++) {
        int len = snprintf(key, sizeof key, "k%d", i);
        CHECK("added", prim_snapshot_add(
                           made, &(struct prim_event){.revision = 1, .key = {key, (size_t)len}}));
    }
    prim_feed_snapshot(feed, made, 0);
    CHECK("there is room behind it", put(feed, COORD_PUT, "k7", 2));
    coord_event event;
    size_t entries = 0;
    while (prim_feed_next(feed, 0, &event) == 1) { entries += event.type == COORD_ENTRY; }
    CHECK_SIZE("all of them", entries, 2 * FEED_EVENTS_MAX);
    CHECK_I64("and the change", event.type, COORD_PUT);
    prim_feed_close(feed);
}

TEST(an_overflow_within_a_snapshot_lets_it_end)
{
    struct prim_feed *feed = test_feed();
    coord_event event;
    snapshot(feed, "a", 5, 0);
    CHECK_I64("begin", prim_feed_next(feed, 0, &event), 1);
    overflow(feed);
    CHECK_TEXT("its brackets match", all_of(feed), "ENTRY a=5 END RESYNC");
    snapshot(feed, NULL, 0, 0);
    CHECK_TEXT("then the new one", all_of(feed), "BEGIN END");
    prim_feed_close(feed);
}

TEST(a_broken_stream_says_so)
{
    struct prim_feed *feed = test_feed();
    int room_calls = 0;
    prim_feed_on_room(feed, count_room, &room_calls);
    prim_feed_resync(feed);
    CHECK_TEXT("before the first event there is nothing to say", all_of(feed), "");
    snapshot(feed, "a", 5, 0);
    (void)all_of(feed);
    prim_feed_resync(feed);
    prim_feed_resync(feed);
    CHECK("the producer knows the missing events", prim_feed_wants_snapshot(feed));
    CHECK("no event before it", !put(feed, COORD_PUT, "a", 6));
    snapshot(feed, "a", 5, 0);
    CHECK_TEXT("once, and all of it again", all_of(feed), "RESYNC BEGIN ENTRY a=5 END");
    CHECK_I64("so it is not asked", room_calls, 0);
    snapshot(feed, NULL, 0, 0);
    CHECK_TEXT("a snapshot out of turn is announced", all_of(feed), "RESYNC BEGIN END");
    CHECK("a key it lacked is gone, its revisions are not", put(feed, COORD_PUT, "a", 5));
    CHECK_TEXT("not again", all_of(feed), "");
    prim_feed_close(feed);
}

TEST(nothing_follows_the_end)
{
    struct prim_feed *feed = test_feed();
    coord_event event;
    snapshot(feed, "a", 5, 0);
    CHECK("put", put(feed, COORD_PUT, "a", 6));
    prim_feed_end(feed, COORD_R_CONNECTION);
    prim_feed_end(feed, COORD_R_NONE);
    CHECK("refused", !put(feed, COORD_PUT, "a", 7));
    prim_feed_resync(feed);
    snapshot(feed, "a", 9, 0);
    CHECK("nothing is wanted", !prim_feed_wants_snapshot(feed));
    CHECK_TEXT("the queued events, then the reason", all_of(feed),
               "BEGIN ENTRY a=5 END PUT a=6 CLOSED:connection");
    CHECK_I64("and no waiting after it", prim_feed_next(feed, -1, &event), 0);
    prim_feed_close(feed);
}

/* A producer that never waits and a slow reader. Events may be lost, but in the end the reader's
 * copy equals the producer's, and no key ever goes back. */
enum { KEYS = 50, CHANGES = 300000 };
struct race {
    struct prim_feed *feed;
    uint64_t state[KEYS]; /* the producer's; 0: absent */
};

static void fill(struct race *race)
{
    struct prim_snapshot *made = prim_snapshot_open(race->feed);
    char key[8];
    for (int i = 0; i < KEYS; i++) {
        if (race->state[i] == 0) { continue; }
        int len = snprintf(key, sizeof key, "%d", i);
        (void)prim_snapshot_add(
            made, &(struct prim_event){.revision = race->state[i], .key = {key, (size_t)len}});
    }
    prim_feed_snapshot(race->feed, made, 0);
}

static void *produce(void *arg)
{
    struct race *race = arg;
    char key[8];
    fill(race);
    for (uint64_t i = 1; i <= CHANGES; i++) {
        uint64_t k = i * 7919 % KEYS;
        bool drop = i % 5 == 0;
        race->state[k] = drop ? 0 : i;
        (void)snprintf(key, sizeof key, "%d", (int)k);
        (void)put(race->feed, drop ? COORD_DELETE : COORD_PUT, key, i);
        if (i % 90000 == 0) { prim_feed_resync(race->feed); }
        if (prim_feed_wants_snapshot(race->feed)) { fill(race); }
    }
    /* The reader may have to read RESYNC before it asks for one. */
    prim_feed_resync(race->feed);
    fill(race);
    prim_feed_end(race->feed, COORD_R_NONE);
    return NULL;
}

TEST(a_fast_producer_and_a_slow_reader_agree_in_the_end)
{
    struct race race = {.feed = test_feed()};
    uint64_t copy[KEYS] = {0}, highest[KEYS] = {0};
    bool listed[KEYS] = {0};
    size_t events = 0, resyncs = 0;
    coord_event event;
    pthread_t thread;
    (void)pthread_create(&thread, NULL, produce, &race);
    while (prim_feed_next(race.feed, -1, &event) == 1 && event.type != COORD_CLOSED) {
        int k = event.key.len > 0 ? (int)strtol(event.key.at, NULL, 10) : 0;
        events++;
        switch (event.type) {
        case COORD_SNAPSHOT_BEGIN: memset(listed, 0, sizeof listed); break;
        case COORD_ENTRY:
            CHECK("a snapshot never goes back", event.revision >= highest[k]);
            copy[k] = highest[k] = event.revision;
            listed[k] = true;
            break;
        case COORD_SNAPSHOT_END:
            for (int i = 0; i < KEYS; i++) { copy[i] = listed[i] ? copy[i] : 0; }
            break;
        case COORD_PUT:
        case COORD_DELETE:
            CHECK("strictly increasing", event.revision > highest[k]);
            highest[k] = event.revision;
            copy[k] = event.type == COORD_PUT ? event.revision : 0;
            break;
        case COORD_RESYNC:
            resyncs++;
            (void)poll(NULL, 0, 1); /* slow enough that the queue sometimes overflows */
            break;
        default: CHECK("no other event", false);
        }
    }
    (void)pthread_join(thread, NULL);
    for (int i = 0; i < KEYS; i++) { CHECK_U64("the producer's state", copy[i], race.state[i]); }
    CHECK("it was reported at least of the broken streams", resyncs >= 1 && events > KEYS);
    prim_feed_close(race.feed);
}

/* -- a watch that ends while its reader asks for a snapshot -- */

struct asking {
    struct prim_feed *feed;
    atomic_bool inside, may_return, returned;
};

static void ask_slowly(void *owner)
{
    struct asking *asking = owner;
    atomic_store(&asking->inside, true);
    while (!atomic_load(&asking->may_return)) prim_thread_pause_ms(1);
    atomic_store(&asking->returned, true);
}

static void *read_resync(void *owner)
{
    struct asking *asking = owner;
    coord_event event;
    do {
        (void)prim_feed_next(asking->feed, -1, &event);
    } while (event.type != COORD_RESYNC);
    return NULL;
}

static void *let_return(void *owner)
{
    struct asking *asking = owner;
    prim_thread_pause_ms(20);
    atomic_store(&asking->may_return, true);
    return NULL;
}

TEST(no_on_room_callback_runs_after_its_removal)
{
    struct asking asking = {.feed = test_feed()};
    pthread_t reader, other;
    prim_feed_on_room(asking.feed, ask_slowly, &asking);
    snapshot(asking.feed, NULL, 0, 1);
    for (uint64_t i = 0; i < 2;
         i++) { /* one overflow before the reader starts requests a snapshot at once */
        coord_event event;
        CHECK_I64("the snapshot", prim_feed_next(asking.feed, 0, &event), 1);
    }
    for (uint64_t i = 0; i <= FEED_EVENTS_MAX; i++) (void)put(asking.feed, COORD_PUT, "k", i + 2);
    CHECK_I64("a reader", pthread_create(&reader, NULL, read_resync, &asking), 0);
    while (!atomic_load(&asking.inside)) prim_thread_pause_ms(1);
    CHECK_I64("another", pthread_create(&other, NULL, let_return, &asking), 0);
    prim_feed_on_room(asking.feed, NULL, NULL);
    CHECK("it has returned", atomic_load(&asking.returned));
    (void)pthread_join(reader, NULL);
    (void)pthread_join(other, NULL);
    prim_feed_close(asking.feed);
}

TEST(the_clock_runs)
{
    int64_t before = prim_boottime_ns(NULL);
    CHECK("forward", before > 0 && prim_boottime_ns(NULL) >= before);
}
