/* SPDX-License-Identifier: Apache-2.0 */
/* A reader's watch: what the server tells, handed to the reader's queue.
 *
 *   SNAPSHOT --whole--> LIVE --queue full--> WAIT_ROOM --reader has room--> SNAPSHOT
 *                        \--history gone----------------------------------> SNAPSHOT
 *
 * Loop thread only. */
#include <stdlib.h>

#include "prim/native/internal.h"

struct native_feed {
    struct native_backend *backend;
    struct prim_feed *feed;
    struct native_sub sub;
    struct prim_snapshot *snapshot;
    bool waits_for_room;
    struct post room;
    _Atomic bool room_posted, closed;
    /* who opened it */
    struct str scope;
    bool bucket;
    int64_t deadline_ns;
    struct timer late;
    struct latch *opening; /* until the first snapshot */
    coord_result opened;
};

static void opened(struct native_feed *f, coord_result result)
{
    struct latch *wait = f->opening;

    if (!wait) return;
    f->opening = NULL;
    f->opened = result;
    timer_stop(&f->late);
    latch_open(wait);
}

static void end(struct native_feed *f, int reason)
{
    native_sub_pause(&f->sub);
    if (f->opening && reason == COORD_R_OTHER_STORE)
        opened(f, native_other_store(f->backend));
    else if (f->opening)
        opened(f, prim_answer(COORD_UNAVAILABLE, reason, "muster: the watch was refused"));
    else
        prim_feed_end(f->feed, reason);
}

static bool to_event(const struct native_feed *f, const Muster__V1__WatchEvent *event, int type,
                     struct prim_event *ret_event)
{
    struct native_entry entry;

    if (native_entry(event->entry, false, &entry)) return false;
    if (!prim_in_scope(entry.key, str_of(f->sub.scope, f->sub.scope_len), f->sub.bucket))
        return false;
    *ret_event = (struct prim_event){.type = type,
                                     .revision = entry.revision,
                                     .token = entry.token,
                                     .key = entry.key,
                                     .value = entry.value,
                                     .owner = entry.owner};
    return true;
}

static void on_begin(struct native_sub *sub)
{
    struct native_feed *f = CONTAINER_OF(sub, struct native_feed, sub);

    prim_snapshot_close(f->snapshot);
    f->snapshot = NULL;
}

static void on_snapshot(struct native_sub *sub, const Muster__V1__WatchResponse *part)
{
    struct native_feed *f = CONTAINER_OF(sub, struct native_feed, sub);
    struct prim_event event;

    if (!f->snapshot) f->snapshot = prim_snapshot_open();
    for (size_t i = 0; f->snapshot && i < part->n_events; i++) {
        if (!to_event(f, part->events[i], COORD_ENTRY, &event)) continue;
        if (prim_snapshot_add(f->snapshot, &event)) continue;
        on_begin(sub);
        break;
    }
    if (!f->snapshot) {
        end(f, COORD_R_MEMORY);
        return;
    }
    if (part->more) return;
    prim_feed_snapshot(f->feed, f->snapshot, part->revision);
    f->snapshot = NULL;
    opened(f, prim_ok(COORD_R_NONE));
}

static void begin_anew(struct native_feed *f)
{
    f->waits_for_room = false;
    f->sub.next = 0;
    native_sub_open(&f->sub);
}

static void overflowed(struct native_feed *f)
{
    native_sub_pause(&f->sub);
    f->waits_for_room = true;
    if (prim_feed_wants_snapshot(f->feed)) begin_anew(f);
}

static void on_changes(struct native_sub *sub, const Muster__V1__WatchResponse *changes)
{
    static const int types[] = {COORD_PUT, COORD_DELETE, COORD_EXPIRE};
    struct native_feed *f = CONTAINER_OF(sub, struct native_feed, sub);
    struct prim_event event;

    for (size_t i = 0; i < changes->n_events; i++) {
        unsigned type = (unsigned)changes->events[i]->type;
        if (type >= ARRAY_LEN(types) || !to_event(f, changes->events[i], types[type], &event))
            continue;
        if (prim_feed_put(f->feed, &event)) continue;
        overflowed(f);
        return;
    }
}

static void on_progress(struct native_sub *sub, uint64_t revision)
{
    struct native_feed *f = CONTAINER_OF(sub, struct native_feed, sub);

    (void)prim_feed_put(f->feed,
                        &(struct prim_event){.type = COORD_PROGRESS, .revision = revision});
}

static void on_gap(struct native_sub *sub)
{
    struct native_feed *f = CONTAINER_OF(sub, struct native_feed, sub);

    on_begin(sub);
    prim_feed_resync(f->feed);
}

static void on_refused(struct native_sub *sub, int reason, struct str text)
{
    struct native_feed *f = CONTAINER_OF(sub, struct native_feed, sub);

    (void)text;
    if (reason == COORD_R_OTHER_STORE) (void)native_other_store(f->backend);
    end(f, reason);
}

static const struct native_sub_events feed_events = {
    .on_begin = on_begin,
    .on_snapshot = on_snapshot,
    .on_changes = on_changes,
    .on_progress = on_progress,
    .on_gap = on_gap,
    .on_refused = on_refused,
};

/* -- from outside -- */

static void on_room_post(struct post *post)
{
    struct native_feed *f = CONTAINER_OF(post, struct native_feed, room);

    f->room_posted = false;
    if (f->waits_for_room && !f->closed) begin_anew(f);
}

static void on_room(void *owner)
{
    struct native_feed *f = owner;

    if (f->closed || atomic_exchange(&f->room_posted, true)) return;
    post_init(&f->room, on_room_post);
    loop_post(courier_loop(&f->backend->client->courier), &f->room);
}

static void on_late(struct timer *timer)
{
    opened(CONTAINER_OF(timer, struct native_feed, late),
           prim_answer(COORD_UNAVAILABLE, COORD_R_TIMEOUT, "muster: no snapshot came in time"));
}

static void on_watch(void *owner)
{
    struct native_feed *f = owner;
    struct native_client *client = f->backend->client;
    int64_t left_ms = (f->deadline_ns - courier_now(&client->courier)) / (int64_t)NS_PER_MS;

    if (timer_init(&f->late, courier_loop(&client->courier), on_late) ||
        native_sub_init(&f->sub, client, f->scope, f->bucket, prim_feed_since(f->feed))) {
        opened(f, native_no_memory());
        return;
    }
    timer_start_in(&f->late, left_ms > 0 ? (uint64_t)left_ms : 0);
    native_sub_open(&f->sub);
    if (f->sub.next > 0) opened(f, prim_ok(COORD_R_NONE)); /* there is no snapshot to wait for */
}

static void on_unwatch(void *owner)
{
    struct native_feed *f = owner;

    native_sub_deinit(&f->sub);
    timer_deinit(&f->late);
    on_begin(&f->sub);
}

static void close_feed(struct native_feed *f)
{
    f->closed = true;
    courier_do(&f->backend->client->courier, on_unwatch,
               f); /* after a post for room, if there is one */
    free(f);
}

coord_result native_watch(struct prim_backend *base, const struct prim_call *call, struct str scope,
                          bool bucket, struct prim_feed *feed, void **ret_watch)
{
    struct native_feed *f = calloc(1, sizeof *f);
    struct latch wait;
    coord_result result;

    if (!f) return native_no_memory();
    f->backend = native_of(base);
    f->feed = feed;
    f->scope = scope;
    f->bucket = bucket;
    f->deadline_ns = call->deadline_ns;
    f->sub.events = &feed_events;
    prim_feed_on_room(feed, on_room, f);
    latch_init(&wait);
    f->opening = &wait;
    courier_do(&f->backend->client->courier, on_watch, f);
    latch_wait(&wait);
    result = f->opened;
    if (result.code == COORD_OK)
        *ret_watch = f;
    else
        close_feed(f);
    return result;
}

void native_unwatch(struct prim_backend *base, void *watch)
{
    (void)base;
    close_feed(watch);
}
