/* SPDX-License-Identifier: Apache-2.0 */
/* A watch of one bucket or key: a list as the snapshot, then the server's stream from that
 * list's version, and the expiries that this store observes. The stream may lag. So before a
 * holder counts as gone, its object is read and must still have the same uid and version. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "prim/kube/store.h"
#include "prim/thread.h"

enum {
    LIST_TIMEOUT_MS = 30000,
    LOOK_EVERY_MS = 1000, /* between checks of the clock and the feed */
    RETRY_MS = 1000,
    KEYS_MAX = 1 << 20,
};

/* A key as last reported to the reader. */
struct known {
    uint64_t revision, token;
    bool live, leased;
    int64_t due_ns; /* if `leased`: when to check the lease */
};

struct watch {
    struct kube_store *store;
    struct prim_feed *feed;
    struct map known;
    pthread_t thread;
    pthread_mutex_t lock; /* guards `stream` */
    pthread_cond_t wake;
    struct kube_watch *stream;
    atomic_bool ended, room; /* ended: set by unwatch; room: the reader waits for a snapshot */
};

/* -- known keys -- */

static struct prim_event event_of(int type, const struct kube_lease_view *view)
{
    struct prim_event event = {.type = type,
                               .revision = view->revision,
                               .token = view->token,
                               .key = view->key,
                               .value = view->envelope.value,
                               .owner = STR_EMPTY};

    if (kube_lease_is_leased(view)) event.owner = view->envelope.owner;
    return event;
}

/* False: out of memory. */
static bool remember(struct watch *w, const struct doc *doc)
{
    struct known *known = map_make(&w->known, doc->view.key, sizeof(struct known));

    if (!known) return false;
    known->revision = doc->view.revision;
    known->token = doc->view.token;
    known->live = !kube_lease_is_tombstone(&doc->view);
    known->leased = kube_lease_is_leased(&doc->view);
    int64_t ttl_ms = (int64_t)doc->view.duration_s * 1000;
    if (known->leased)
        known->due_ns = doc->got_ns + (ttl_ms + kube_sights_grace_ms(ttl_ms)) * PRIM_NS_PER_MS;
    return true;
}

/* -- snapshot -- */

static struct ask ask_within(struct watch *w, struct prim_call *call, int64_t ms)
{
    *call = (struct prim_call){.deadline_ns = store_now(w->store) + ms * PRIM_NS_PER_MS};
    return (struct ask){.store = w->store, .call = call};
}

static bool add_docs(struct watch *w, const struct docs *docs, struct prim_snapshot *snapshot)
{
    for (size_t i = 0; i < docs->count; i++) {
        const struct doc *doc = &docs->at[i];
        int64_t left_ms;
        if (!prim_feed_covers(w->feed, doc->view.key) || doc->view.foreign) continue;
        if (!remember(w, doc)) return false;
        if (!kube_doc_is_live(w->store, doc, &left_ms)) {
            struct known *known = map_make(&w->known, doc->view.key, sizeof(struct known));
            if (known) known->live = known->leased = false;
            continue;
        }
        struct prim_event event = event_of(COORD_ENTRY, &doc->view);
        if (!prim_snapshot_add(snapshot, &event)) return false;
    }
    return true;
}

static coord_result kube_watch_begin(struct watch *w, struct kube_watch **ret_stream)
{
    struct prim_scope scope = prim_feed_scope(w->feed);
    struct str bucket = scope.bucket ? scope.name : prim_bucket_of(scope.name);
    char hash[LEASE_HASH_CAP], selector[LEASE_PREFIX_MAX + LEASE_HASH_CAP + 16];
    struct prim_call call;
    struct ask ask = ask_within(w, &call, LIST_TIMEOUT_MS);
    struct docs docs = {0};
    struct note note = {""};
    struct prim_snapshot *snapshot;
    coord_result result = kube_docs_list(&ask, bucket, &docs);

    if (result.code != COORD_OK) return result;
    map_free(&w->known);
    map_init(&w->known, KEYS_MAX, prim_random());
    snapshot = prim_snapshot_open(w->feed);
    if (!snapshot || !add_docs(w, &docs, snapshot)) {
        result = prim_no_memory();
        goto out;
    }
    kube_lease_hash(bucket, hash);
    (void)snprintf(selector, sizeof selector, "%s/bucket=%s", w->store->prefix, hash);
    struct kube_path path = kube_store_path(w->store, NULL);
    struct kube_watch_options options = {.label_selector = selector,
                                         .resource_version = docs.version};
    enum err err = kube_watch_open(w->store->kube, &path, &options, ret_stream, &note);
    if (err) {
        result = prim_answer(COORD_UNAVAILABLE, COORD_R_STORAGE, "%s", note.text);
        goto out;
    }
    prim_feed_snapshot(w->feed, snapshot, 0);
    snapshot = NULL;
out:
    prim_snapshot_close(snapshot);
    kube_docs_deinit(&docs);
    return result;
}

/* -- the stream -- */

/* Reports an expiry or loss under the next revision, which the key's next change skips (lease.h).
 * True: the feed is full. */
static bool kube_watch_notify(struct watch *w, int type, struct str key, struct known *known)
{
    struct prim_event event = {.type = type,
                               .revision = ++known->revision,
                               .token = known->token,
                               .key = key,
                               .value = STR_EMPTY,
                               .owner = STR_EMPTY};

    return !prim_feed_put(w->feed, &event);
}

/* True: the feed is full. *ret_unread: the object could not be read or kept. */
static bool watch_on_event(struct watch *w, struct kube_event *event, bool *ret_unread)
{
    struct doc doc = {.present = true, .got_ns = store_now(w->store)};
    struct note note = {""};
    bool full = false;

    if (event->kind == KUBE_BOOKMARK) return false;
    /* An unreadable object is not reported as a value; the following list returns "corrupt". */
    if (kube_lease_decode(event->object, w->store->prefix, &doc.view, &note)) {
        *ret_unread = true;
        return false;
    }
    if (prim_feed_covers(w->feed, doc.view.key) && !doc.view.foreign) {
        struct known *known = map_get(&w->known, doc.view.key);
        uint64_t before = known ? known->revision : 0;
        bool was_live = known && known->live;
        if (event->kind == KUBE_DELETED) {
            /* The object was deleted by hand. A new object has a later creation time. */
            if (was_live) {
                known->live = known->leased = false;
                full = kube_watch_notify(w, COORD_DELETE, doc.view.key, known);
            }
        } else if (!remember(w, &doc)) {
            *ret_unread = true;
        } else if (doc.view.revision > before) { /* R2: a renewal is not reported as a change */
            bool live = !kube_lease_is_tombstone(&doc.view);
            struct prim_event change = event_of(live ? COORD_PUT : COORD_DELETE, &doc.view);
            if (!live) change.value = STR_EMPTY;
            if (live || was_live) full = !prim_feed_put(w->feed, &change);
        }
    }
    kube_lease_view_deinit(&doc.view);
    return full;
}

/* -- expiry -- */

static int64_t next_due_ns(const struct watch *w)
{
    int64_t due = INT64_MAX;
    struct map_entry *entry;

    for (size_t cursor = 0; (entry = map_next(&w->known, &cursor));) {
        const struct known *known = entry->value;
        if (known->live && known->leased && known->due_ns < due) due = known->due_ns;
    }
    return due;
}

/* Reads a key whose lease seems to have expired. True: the feed is full. */
static bool look_at(struct watch *w, struct str key, struct known *known)
{
    struct prim_call call;
    struct ask ask = ask_within(w, &call, LOOK_EVERY_MS);
    struct doc doc = {0};
    int64_t left_ms = LOOK_EVERY_MS;
    coord_result read = kube_doc_read(&ask, key, &doc);
    bool full = false;

    if (read.code != COORD_OK || !doc.present || kube_lease_is_tombstone(&doc.view) ||
        doc.view.revision != known->revision) {
        /* The object is unreadable, or it changed and the stream will report the change. */
        known->due_ns = store_now(w->store) + RETRY_MS * PRIM_NS_PER_MS;
    } else if (kube_doc_is_live(w->store, &doc, &left_ms)) {
        known->due_ns = store_now(w->store) + (left_ms > 0 ? left_ms : 1) * PRIM_NS_PER_MS;
    } else {
        known->live = known->leased = false;
        full = kube_watch_notify(w, COORD_EXPIRE, key, known);
    }
    kube_doc_deinit(&doc);
    return full;
}

static bool expire_due(struct watch *w)
{
    int64_t now = store_now(w->store);
    struct map_entry *entry;
    bool full = false;

    for (size_t cursor = 0; !full && (entry = map_next(&w->known, &cursor));) {
        struct known *known = entry->value;
        if (known->live && known->leased && known->due_ns <= now)
            full = look_at(w, entry->key, known);
        if (atomic_load(&w->ended)) break;
    }
    return full;
}

/* -- the thread -- */

enum end {
    END_BROKEN, /* events may be missing: send RESYNC, then read a list */
    END_FULL,   /* the feed sent RESYNC; read a list when its reader asks */
    END_OVER,   /* the watch is over; the feed has the reason */
};

static enum end follow(struct watch *w, struct kube_watch *stream)
{
    while (!atomic_load(&w->ended) && !atomic_load(&w->room)) {
        struct kube_event event = {0};
        struct note note = {""};
        int64_t due = next_due_ns(w), now = store_now(w->store);
        uint64_t wait_ms = LOOK_EVERY_MS;
        if (due < INT64_MAX)
            wait_ms =
                due <= now ? 0 : min_u64((uint64_t)((due - now) / PRIM_NS_PER_MS) + 1, wait_ms);
        enum err err = kube_watch_next(stream, wait_ms, &event, &note);
        bool unread = false, full = err == ERR_OK && watch_on_event(w, &event, &unread);
        kube_event_deinit(&event);
        if (unread) return END_BROKEN;
        if (err && err != ERR_TIMEOUT) {
            if (err == ERR_CANCELLED) return END_FULL; /* on_room or unwatch cancelled the stream */
            if (err == ERR_PRECONDITION || err == ERR_PARSE || err == ERR_TOO_LARGE ||
                err == ERR_NOMEM)
                return END_BROKEN;
            bool forbidden = err == ERR_DENIED || err == ERR_UNAUTHENTICATED;
            prim_feed_end(w->feed, forbidden ? COORD_R_FORBIDDEN : COORD_R_STORAGE);
            return END_OVER;
        }
        if (full || expire_due(w)) return END_FULL;
    }
    return END_FULL;
}

static void set_stream(struct watch *w, struct kube_watch *stream)
{
    pthread_mutex_lock(&w->lock);
    w->stream = stream;
    pthread_mutex_unlock(&w->lock);
}

static void kube_watch_backoff(struct watch *w, int64_t ms)
{
    struct timespec until = prim_until_ms(ms);

    pthread_mutex_lock(&w->lock);
    if (!atomic_load(&w->ended) && !atomic_load(&w->room))
        (void)pthread_cond_timedwait(&w->wake, &w->lock, &until);
    pthread_mutex_unlock(&w->lock);
}

static void *kube_watch_run(void *context)
{
    struct watch *w = context;

    while (!atomic_load(&w->ended)) {
        struct kube_watch *stream = NULL;
        /* A full feed accepts a snapshot only after its reader has read RESYNC. */
        atomic_store(&w->room, false);
        if (!prim_feed_wants_snapshot(w->feed)) {
            kube_watch_backoff(w, RETRY_MS);
            continue;
        }
        coord_result begun = kube_watch_begin(w, &stream);
        if (begun.code != COORD_OK) {
            /* Corrupt and forbidden are final. Other errors are retried. */
            if (begun.reason == COORD_R_FORBIDDEN || begun.reason == COORD_R_CORRUPT) {
                prim_feed_end(w->feed, begun.reason);
                break;
            }
            kube_watch_backoff(w, RETRY_MS);
            continue;
        }
        set_stream(w, stream);
        enum end end = follow(w, stream);
        set_stream(w, NULL);
        kube_watch_close(stream);
        if (end == END_OVER) break;
        if (end == END_BROKEN) prim_feed_resync(w->feed);
    }
    return NULL;
}

/* Called when the reader has read RESYNC. The stream ends and a new list follows. */
static void watch_on_room(void *owner)
{
    struct watch *w = owner;

    pthread_mutex_lock(&w->lock);
    atomic_store(&w->room, true);
    if (w->stream) kube_watch_cancel(w->stream);
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
}

static void kube_watch_watch_free(struct watch *w)
{
    map_free(&w->known);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

/* The call's deadline does not apply: the thread retries until it gets the snapshot. */
coord_result kube_op_watch(struct prim_backend *backend, const struct prim_call *,
                           struct prim_feed *feed, void **ret_watch)
{
    struct watch *w = calloc(1, sizeof *w);

    if (!w) return prim_no_memory();
    w->store = store_of(backend);
    w->feed = feed;
    map_init(&w->known, KEYS_MAX, prim_random());
    (void)pthread_mutex_init(&w->lock, NULL);
    prim_cond_init(&w->wake);
    prim_feed_on_room(feed, watch_on_room, w);
    if (!prim_thread_start(&w->thread, kube_watch_run, w)) {
        kube_watch_watch_free(w);
        return prim_no_memory();
    }
    *ret_watch = w;
    return prim_ok(COORD_R_NONE);
}

void kube_op_unwatch(struct prim_backend *, void *watch)
{
    struct watch *w = watch;

    pthread_mutex_lock(&w->lock);
    atomic_store(&w->ended, true);
    if (w->stream) kube_watch_cancel(w->stream);
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    (void)pthread_join(w->thread, NULL);
    kube_watch_watch_free(w);
}
