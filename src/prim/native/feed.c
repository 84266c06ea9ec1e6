/* SPDX-License-Identifier: Apache-2.0 */
/* A watch: puts the server's changes into the reader's queue. After a break the stream resumes
 * behind the last complete revision. Loop's thread only.
 *
 *   SNAPSHOT --whole--> LIVE --queue full--> WAIT_ROOM --reader has room--> SNAPSHOT
 *                        \--history gone----------------------------------> SNAPSHOT */
#include <stdlib.h>

#include "prim/native/internal.h"

struct native_feed {
    struct native_backend *backend;
    struct prim_feed *feed;
    struct grpc_stream stream;
    uint64_t next; /* first incomplete revision; 0: a snapshot must come first */
    struct prim_snapshot *snapshot;
    bool waits_for_room;
    struct post room;
    _Atomic bool room_posted;
    /* Used by the thread that opens the watch. */
    int64_t deadline_ns;
    struct timer late;
    struct latch *opening;
    coord_result opened;
};

static void native_feed_opened(struct native_feed *f, coord_result result)
{
    struct latch *wait = f->opening;

    if (!wait) return;
    f->opening = NULL;
    f->opened = result;
    timer_stop(&f->late);
    latch_open(wait);
}

static void feed_end(struct native_feed *f, int reason)
{
    grpc_stream_leave(&f->stream);
    if (f->opening && reason == COORD_R_OTHER_STORE)
        native_feed_opened(f, native_other_store(f->backend));
    else if (f->opening)
        native_feed_opened(f,
                           prim_answer(COORD_UNAVAILABLE, reason, "muster: the watch was refused"));
    else
        prim_feed_end(f->feed, reason);
}

static bool native_feed_to_event(const Muster__V1__WatchEvent *event, int type,
                                 struct prim_event *ret_event)
{
    struct native_entry entry;

    if (native_entry(event->entry, false, &entry)) return false;
    *ret_event = (struct prim_event){.type = type,
                                     .revision = entry.revision,
                                     .token = entry.token,
                                     .key = entry.key,
                                     .value = entry.value,
                                     .owner = entry.owner};
    return true;
}

/* Drops the part received so far. */
static void drop_snapshot(struct native_feed *f)
{
    prim_snapshot_close(f->snapshot);
    f->snapshot = NULL;
}

/* In the last part `more` is not set. */
static void take_snapshot(struct native_feed *f, const Muster__V1__WatchResponse *part)
{
    struct prim_event event;

    if (!f->snapshot) f->snapshot = prim_snapshot_open(f->feed);
    for (size_t i = 0; f->snapshot && i < part->n_events; i++) {
        if (!native_feed_to_event(part->events[i], COORD_ENTRY, &event)) continue;
        if (prim_snapshot_add(f->snapshot, &event)) continue;
        drop_snapshot(f);
        break;
    }
    if (!f->snapshot) {
        feed_end(f, COORD_R_MEMORY);
        return;
    }
    if (part->more) return;
    prim_feed_snapshot(f->feed, f->snapshot, part->revision);
    f->snapshot = NULL;
    native_feed_opened(f, prim_ok(COORD_R_NONE));
}

static void begin_anew(struct native_feed *f)
{
    f->waits_for_room = false;
    f->next = 0;
    grpc_stream_want(&f->stream);
}

static void take_changes(struct native_feed *f, const Muster__V1__WatchResponse *changes)
{
    static const int types[] = {COORD_PUT, COORD_DELETE, COORD_EXPIRE};
    struct prim_event event;

    for (size_t i = 0; i < changes->n_events; i++) {
        unsigned type = (unsigned)changes->events[i]->type;
        if (type >= ARRAY_LEN(types) ||
            !native_feed_to_event(changes->events[i], types[type], &event))
            continue;
        if (prim_feed_put(f->feed, &event)) continue;
        grpc_stream_leave(&f->stream);
        f->waits_for_room = true;
        if (prim_feed_wants_snapshot(f->feed)) begin_anew(f);
        return;
    }
}

static void take_gap(struct native_feed *f)
{
    f->next = 0;
    drop_snapshot(f);
    prim_feed_resync(f->feed);
}

/* -- the stream -- */

static void native_feed_on_open(struct grpc_stream *stream)
{
    struct native_feed *f = CONTAINER_OF(stream, struct native_feed, stream);
    Muster__V1__WatchRequest message = MUSTER__V1__WATCH_REQUEST__INIT;
    struct buf request;

    message.scope = grpc_bytes(prim_feed_scope(f->feed).name);
    message.bucket = prim_feed_scope(f->feed).bucket;
    message.start_revision = f->next;
    buf_init(&request, NATIVE_REQUEST_MAX);
    if (native_write(f->backend, &message.base, &request) ||
        grpc_stream_send(stream, buf_peek(&request)))
        grpc_stream_reset(stream);
    grpc_stream_send_end(stream);
    buf_deinit(&request);
}

static void native_feed_take(struct native_feed *f, const Muster__V1__WatchResponse *m)
{
    switch (m->kind) {
    case MUSTER__V1__WATCH_RESPONSE__KIND__CHANGES:
        /* `more`: the rest of the revision is still to come. */
        if (m->revision >= f->next) f->next = m->more ? m->revision : m->revision + 1;
        take_changes(f, m);
        break;
    case MUSTER__V1__WATCH_RESPONSE__KIND__SNAPSHOT:
        if (!m->more) f->next = m->revision + 1;
        take_snapshot(f, m);
        break;
    case MUSTER__V1__WATCH_RESPONSE__KIND__RESYNC:
    case MUSTER__V1__WATCH_RESPONSE__KIND__COMPACTED: /* the stream ends and is requested again */
        take_gap(f);
        break;
    case MUSTER__V1__WATCH_RESPONSE__KIND__PROGRESS:
        if (m->revision >= f->next) f->next = m->revision + 1;
        (void)prim_feed_put(f->feed,
                            &(struct prim_event){.type = COORD_PROGRESS, .revision = m->revision});
        break;
    default: break; /* kinds of later versions are ignored */
    }
}

static bool is_good(const Muster__V1__WatchResponse *m)
{
    struct native_entry entry;

    for (size_t i = 0; i < m->n_events; i++)
        if (native_entry(m->events[i]->entry, false, &entry)) return false;
    return true;
}

/* An impossible event is an error: skipping it would be an unnoticed gap. */
static void native_feed_on_message(struct grpc_stream *stream, struct str bytes)
{
    struct native_feed *f = CONTAINER_OF(stream, struct native_feed, stream);
    ProtobufCMessage *message;
    struct arena arena;

    if (grpc_read(bytes, &muster__v1__watch_response__descriptor, &arena, &message)) {
        grpc_stream_reset(stream);
    } else if (is_good((Muster__V1__WatchResponse *)message)) {
        native_feed_take(f, (Muster__V1__WatchResponse *)message);
    } else {
        take_gap(f);
        grpc_stream_reset(stream);
    }
    arena_deinit(&arena);
}

static void on_broken(struct grpc_stream *stream, enum grpc_status status, struct str)
{
    struct native_feed *f = CONTAINER_OF(stream, struct native_feed, stream);
    int reason = 0;

    if (f->next == 0) drop_snapshot(f);
    if (status == GRPC_PERMISSION_DENIED || status == GRPC_UNAUTHENTICATED)
        reason = COORD_R_FORBIDDEN;
    if (status == GRPC_UNIMPLEMENTED || status == GRPC_INVALID_ARGUMENT) reason = COORD_R_STORAGE;
    if (status == GRPC_NOT_FOUND) reason = COORD_R_OTHER_STORE;
    if (reason == COORD_R_OTHER_STORE) (void)native_other_store(f->backend);
    if (reason) feed_end(f, reason);
}

/* -- called from outside -- */

static void native_feed_on_room_post(struct post *post)
{
    struct native_feed *f = CONTAINER_OF(post, struct native_feed, room);

    f->room_posted = false;
    if (f->waits_for_room) begin_anew(f);
}

static void native_feed_on_room(void *owner)
{
    struct native_feed *f = owner;

    if (atomic_exchange(&f->room_posted, true)) return;
    post_init(&f->room, native_feed_on_room_post);
    loop_post(grpc_loop(&f->backend->grpc_thread), &f->room);
}

static void on_late(struct timer *timer)
{
    native_feed_opened(
        CONTAINER_OF(timer, struct native_feed, late),
        prim_answer(COORD_UNAVAILABLE, COORD_R_TIMEOUT, "muster: no snapshot came in time"));
}

static void native_feed_on_watch(void *owner)
{
    struct native_feed *f = owner;
    struct grpc_thread *grpc_thread = &f->backend->grpc_thread;
    int64_t left_ms = (f->deadline_ns - grpc_now(grpc_thread)) / (int64_t)NS_PER_MS;

    if (timer_init(&f->late, grpc_loop(grpc_thread), on_late) ||
        grpc_stream_init(&f->stream, grpc_thread, "/muster.v1.Coordination/Watch")) {
        native_feed_opened(f, prim_no_memory());
        return;
    }
    timer_start_in(&f->late, left_ms > 0 ? (uint64_t)left_ms : 0);
    grpc_stream_want(&f->stream);
    if (f->next > 0) native_feed_opened(f, prim_ok(COORD_R_NONE)); /* no snapshot to wait for */
}

static void native_feed_on_unwatch(void *owner)
{
    struct native_feed *f = owner;

    if (f->stream.grpc_thread) grpc_stream_deinit(&f->stream);
    timer_deinit(&f->late);
    drop_snapshot(f);
}

/* Ends the watch on the loop's thread, where a pending on_room post runs first. */
void native_unwatch(struct prim_backend *base, void *watch)
{
    grpc_loop_call(&native_of(base)->grpc_thread, native_feed_on_unwatch, watch);
    free(watch);
}

coord_result native_watch(struct prim_backend *base, const struct prim_call *call,
                          struct prim_feed *feed, void **ret_watch)
{
    struct native_feed *f = calloc(1, sizeof *f);
    struct latch wait;
    coord_result result;

    if (!f) return prim_no_memory();
    f->backend = native_of(base);
    f->feed = feed;
    f->next = prim_feed_since(feed);
    f->deadline_ns = call->deadline_ns;
    f->stream.on_open = native_feed_on_open;
    f->stream.on_message = native_feed_on_message;
    f->stream.on_broken = on_broken;
    prim_feed_on_room(feed, native_feed_on_room, f);
    latch_init(&wait);
    f->opening = &wait;
    grpc_loop_call(&f->backend->grpc_thread, native_feed_on_watch, f);
    latch_wait(&wait);
    result = f->opened;
    if (result.code == COORD_OK)
        *ret_watch = f;
    else
        native_unwatch(base, f);
    return result;
}
