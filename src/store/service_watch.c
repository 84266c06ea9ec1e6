/* SPDX-License-Identifier: Apache-2.0 */
/* muster.v1's Watch: calls, snapshots and messages, on top of the watch engine.
 *
 * A watch begins with a snapshot at one revision, unless the request names a start revision. Then
 * every later change is sent once, in order. A watch that falls behind the limits or the history
 * gets RESYNC and a new snapshot.
 *
 * On the leader a watch begins after a leadership round, so that its snapshot contains everything
 * acknowledged before the call. Such a watch ends when the leadership is lost. */
#include <stdlib.h>

#include "store/entry.h"
#include "store/keyvalue.h"
#include "store/service_internal.h"
#include "store/watch_engine.h"
#include "wire/pb/muster_v1_coordination.pb-c.h"

enum {
    CHANGES_BYTES = 64 << 10,   /* of a message that has several events */
    SNAPSHOT_BYTES = 256 << 10, /* a message ends after these bytes and its last entry */
    SNAPSHOT_WALK = 4096,       /* keys read for one message */
    PROGRESS_SECONDS = 10,
};
enum phase { PHASE_SNAPSHOT, PHASE_CHANGES };

struct watcher {
    struct watch_stream stream;
    struct watch watch; /* the stream's only watch */
    struct store_service *service;
    struct leader_request *request;
    struct list link; /* in service.watchers */
    enum phase phase;
    bool needs_leader, resync, progress;
    bool sent_live; /* a change was sent since the snapshot */
    uint64_t start_revision;
    /* for PHASE_SNAPSHOT: the snapshot's revision and the next key */
    uint64_t snapshot;
    size_t at_len;
    char at[STORE_KEY_MAX + 1];
    char range[];
};

static struct watcher *watcher_of(const struct watch *watch)
{
    return CONTAINER_OF((struct watch *)(uintptr_t)watch, struct watcher, watch);
}

static const struct keys *watcher_keys(const struct watcher *watcher)
{
    return store_keys(service_store(watcher->service));
}

/* -- the end -- */

void watcher_free(struct watcher *watcher)
{
    if (!watcher) return;
    watch_leave(&watcher->watch);
    watch_stream_deinit(&watcher->stream);
    list_remove(&watcher->link);
    watcher->service->watcher_count--;
    free(watcher);
}

static void watcher_end(struct watcher *watcher, enum grpc_status status, const char *text)
{
    request_fail(watcher->request, status, "Watch: %s", text);
}

static void watcher_end_without_leader(struct watch *watch)
{
    watcher_end(watcher_of(watch), GRPC_UNAVAILABLE,
                "leadership was lost; go on from the next revision elsewhere");
}

static void watcher_broken(struct watch_stream *stream, enum err err)
{
    if (err != ERR_CLOSED)
        watcher_end(CONTAINER_OF(stream, struct watcher, stream), err_grpc_status(err),
                    "a message could not be sent");
}

/* -- messages -- */

/* The client does not see this many leading bytes of a key. */
static size_t cut_of(const struct watch *watch)
{
    return watch->form == WATCH_CLAIM ? sizeof STORE_CLAIMS - 1 : 0;
}

static void event_pack(const struct watcher *watcher, const struct key_value *change,
                       const struct store_claim *claim, struct pack *into)
{
    struct buf *row = &watcher->service->row;
    struct pack entry = pack_begin(row);
    size_t cut = cut_of(&watcher->watch);
    uint64_t type = MUSTER__V1__WATCH_EVENT__TYPE__PUT;

    if (change->version) {
        store_entry_pack(&entry, change, cut, claim, STORE_ENTRY_WHOLE);
    } else {
        type = change->expired ? MUSTER__V1__WATCH_EVENT__TYPE__EXPIRED
                               : MUSTER__V1__WATCH_EVENT__TYPE__DELETE;
        pack_text(&entry, 1, str_tail(change->key, cut));
        pack_u64(&entry, 3, change->mod);
    }
    if (!into->err) into->err = entry.err;
    pack_varint(into, 3 << 3 | 2);
    pack_varint(into, keyvalue_number(type) + 1 + keyvalue_varint(row->len) + row->len);
    pack_u64(into, 1, type);
    pack_bytes(into, 2, buf_peek(row));
}

static void watcher_event(const struct watch *watch, const struct watch_change *change,
                          struct pack *into)
{
    const struct watcher *watcher = watcher_of(watch);
    struct store_claim claim;
    bool claimed = facts_claim(watcher->stream.engine->claims, service_store(watcher->service),
                               change->number, &change->now, &claim);

    event_pack(watcher, &change->now, claimed ? &claim : NULL, into);
}

static void head_pack(Muster__V1__WatchResponse__Kind kind, uint64_t revision, struct pack *into)
{
    pack_u64(into, 1, kind);
    pack_u64(into, 2, revision);
}

static void watcher_head(const struct watch *, uint64_t revision, bool more, struct pack *into)
{
    head_pack(MUSTER__V1__WATCH_RESPONSE__KIND__CHANGES, revision, into);
    pack_u64(into, 4, more);
}

static enum err watcher_send_bytes(struct watch_stream *stream, struct str message)
{
    return rpc_send_bytes(CONTAINER_OF(stream, struct watcher, stream)->request->call, message);
}

/* False: the stream is full or broken. When there is room again, the watch is woken. */
static bool watcher_send(struct watcher *watcher, const struct pack *message)
{
    enum err err = watch_send(&watcher->stream, message);

    if (err == ERR_FULL) watch_wake(&watcher->watch);
    if (err && err != ERR_FULL) watcher_broken(&watcher->stream, err);
    return !err;
}

static bool watcher_send_head(struct watcher *watcher, Muster__V1__WatchResponse__Kind kind,
                              uint64_t revision)
{
    struct pack message = watch_message(watcher->stream.engine);

    head_pack(kind, revision, &message);
    return watcher_send(watcher, &message);
}

/* -- snapshots -- */

static void snapshot_begin(struct watcher *watcher)
{
    watcher->phase = PHASE_SNAPSHOT;
    watcher->start_revision = 0;
    watcher->snapshot = keys_revision(watcher_keys(watcher));
    watcher->at_len = watcher->watch.range.from.len;
    memcpy(watcher->at, watcher->watch.range.from.at, watcher->at_len);
    watch_follow(&watcher->watch, WATCH_NOTHING);
    watch_wake(&watcher->watch);
}

static void watcher_lost(struct watch *watch)
{
    struct watcher *watcher = watcher_of(watch);

    watcher->service->numbers.resyncs++;
    watcher->resync = true;
    snapshot_begin(watcher);
}

/* Appends entries from the key `at` on. Then `cursor.next` is the next key to append. */
static void snapshot_fill(struct watcher *watcher, struct pack *message, struct keys_cursor *cursor)
{
    struct key_range range = watcher->watch.range;
    struct key_value value;

    range.from = str_of(watcher->at, watcher->at_len);
    keys_seek(watcher_keys(watcher), range, watcher->snapshot, cursor);
    cursor->rows_left = SNAPSHOT_WALK;
    while (!message->err && keys_next(cursor, &value)) {
        struct store_claim claim;
        bool claimed;

        if (message->into->len > SNAPSHOT_BYTES) {
            cursor->next = value.key;
            break;
        }
        if (!watch_has_key(&watcher->watch, value.key)) continue;
        claimed = facts_claim_now(service_store(watcher->service), &value, &claim);
        event_pack(watcher, &value, claimed ? &claim : NULL, message);
    }
    watcher->stream.engine->walked += SNAPSHOT_WALK - cursor->rows_left;
}

static void snapshot_send(struct watcher *watcher)
{
    struct pack message = watch_message(watcher->stream.engine);
    struct keys_cursor cursor;

    if (watcher->snapshot < keys_compacted(watcher_keys(watcher))) {
        watcher_lost(&watcher->watch);
        return;
    }
    head_pack(MUSTER__V1__WATCH_RESPONSE__KIND__SNAPSHOT, watcher->snapshot, &message);
    snapshot_fill(watcher, &message, &cursor);
    pack_u64(&message, 4, cursor.next.len > 0);
    if (!watcher_send(watcher, &message)) return;
    if (cursor.next.len) {
        watcher->at_len = cursor.next.len;
        memcpy(watcher->at, cursor.next.at, cursor.next.len);
    } else {
        watcher->phase = PHASE_CHANGES;
        watcher->watch.sent_revision = watcher->snapshot;
        watch_follow(&watcher->watch, watcher->snapshot + 1);
    }
    watch_wake(&watcher->watch);
}

/* -- progress without changes -- */

/* Sends the progress when the watch has caught up, and later when unrelated keys changed. */
static void service_watch_progress_send(struct watcher *watcher)
{
    uint64_t revision = keys_revision(watcher_keys(watcher));
    bool due = watcher->progress && watcher->watch.sent_revision < revision;

    watcher->progress = false;
    if (watcher->start_revision > revision || (watcher->sent_live && !due)) return;
    if (!watcher_send_head(watcher, MUSTER__V1__WATCH_RESPONSE__KIND__PROGRESS, revision)) return;
    watcher->sent_live = true;
    watcher->watch.sent_revision = revision;
}

static void watcher_idle(struct watch *watch)
{
    struct watcher *watcher = watcher_of(watch);

    if (watcher->resync) {
        if (!watcher_send_head(watcher, MUSTER__V1__WATCH_RESPONSE__KIND__RESYNC,
                               watcher->snapshot))
            return;
        watcher->resync = false;
        watch_wake(watch);
    } else if (watcher->phase == PHASE_SNAPSHOT) {
        snapshot_send(watcher);
    } else if (watcher->phase == PHASE_CHANGES) {
        service_watch_progress_send(watcher);
    }
}

static const struct watch_api watch_api = {.event = watcher_event,
                                           .head = watcher_head,
                                           .send = watcher_send_bytes,
                                           .idle = watcher_idle,
                                           .lost = watcher_lost,
                                           .ends = watcher_end_without_leader,
                                           .broken = watcher_broken};

void watchers_second(struct store_service *service)
{
    uint64_t revision = keys_revision(store_keys(service_store(service)));

    if (++service->watch_seconds % PROGRESS_SECONDS) return;
    LIST_EACH(&service->watchers, node)
    {
        struct watcher *watcher = CONTAINER_OF(node, struct watcher, link);

        if (watcher->phase != PHASE_CHANGES || watcher->stream.blocked ||
            watch_is_behind(&watcher->watch) || watcher->watch.sent_revision >= revision)
            continue;
        watcher->progress = true;
        watch_wake(&watcher->watch);
    }
}

void watchers_leadership_lost(struct store_service *service)
{
    LIST_EACH(&service->watchers, node)
    {
        struct watcher *watcher = CONTAINER_OF(node, struct watcher, link);

        if (watcher->needs_leader) watch_end_soon(&watcher->watch);
    }
}

/* -- the start -- */

static void watcher_begin(struct watcher *watcher)
{
    uint64_t compacted = keys_compacted(watcher_keys(watcher));
    struct pack message = watch_message(watcher->stream.engine);

    if (watcher->start_revision == 0) {
        snapshot_begin(watcher);
    } else if (watcher->start_revision < compacted) {
        head_pack(MUSTER__V1__WATCH_RESPONSE__KIND__COMPACTED, compacted, &message);
        (void)rpc_send_bytes(watcher->request->call, buf_peek(message.into));
        rpc_finish(watcher->request->call, GRPC_OK, STR_EMPTY, STR_EMPTY);
        request_free(watcher->request);
    } else {
        watcher->phase = PHASE_CHANGES;
        watcher->watch.sent_revision = watcher->start_revision - 1;
        watch_follow(&watcher->watch, watcher->start_revision);
        watch_wake(&watcher->watch);
    }
}

/* Requests for claims leave out "muster/". */
static struct str full_name(const Muster__V1__WatchRequest *m, char name[STORE_KEY_MAX + 2])
{
    struct str scope = bytes_str(m->scope);
    size_t len = m->raw ? 0 : sizeof STORE_CLAIMS - 1;

    memcpy(name, STORE_CLAIMS, len);
    if (scope.len) memcpy(name + len, scope.at, scope.len);
    len += scope.len;
    if (m->bucket && scope.len) name[len++] = '/';
    return str_of(name, len);
}

static struct watcher *watcher_new(struct leader_request *request)
{
    const Muster__V1__WatchRequest *m = (const Muster__V1__WatchRequest *)request->message;
    struct store_service *service = service_of(request);
    char room[STORE_KEY_MAX + 2];
    struct str name = full_name(m, room);
    struct watcher *watcher = calloc(1, sizeof *watcher + 2 * name.len + 1);
    struct watch *watch;

    if (!watcher) return NULL;
    watcher->service = service;
    watcher->request = request;
    watcher->start_revision = m->start_revision;
    watcher->needs_leader = !m->serializable;
    list_init(&watcher->link);
    watch_stream_init(&watcher->stream, service->watches, &watch_api);
    watch = &watcher->watch;
    watch->stream = &watcher->stream;
    watch->form = m->raw ? WATCH_PLAIN : WATCH_CLAIM;
    watch->split = CHANGES_BYTES;
    watch->bounded = true;
    if (name.len) memcpy(watcher->range, name.at, name.len);
    watch->range.from = str_of(watcher->range, name.len);
    if (m->raw || m->bucket)
        watch->range = key_range_of_prefix(watch->range.from, watcher->range + name.len);
    if (m->bucket) watch->bucket = watch->range.from;
    if (watch_join(watch)) {
        free(watcher);
        return NULL;
    }
    list_append(&service->watchers, &watcher->link);
    service->watcher_count++;
    return watcher;
}

/* Called on the leader after a leadership round, or on any replica if the request is
 * serializable. */
void watch_begin(struct leader_request *request)
{
    struct store_service *service = service_of(request);
    struct store_request *mine = store_request_of(request);
    bool full = service->watcher_count >= service->limits.watchers_max;

    if (!full) mine->watcher = watcher_new(request);
    if (!mine->watcher) {
        request_refuse(request, err_grpc_status(full ? ERR_FULL : ERR_NOMEM),
                       "Watch: %u are open; try again", service->watcher_count);
        return;
    }
    mine->kept = KEPT_WATCHES;
    request_keep(request, &service->kept);
    watcher_begin(mine->watcher);
}

int watch_check(const ProtobufCMessage *message, struct note *note)
{
    const Muster__V1__WatchRequest *m = (const Muster__V1__WatchRequest *)message;
    struct str scope = bytes_str(m->scope);

    if (m->raw && m->bucket)
        return note_fail(note, COORD_R_ARGUMENT, "a bucket or a prefix, not both");
    if (m->raw) {
        note_set(note, "a prefix of %zu bytes: at most %d", scope.len, STORE_KEY_MAX);
        return scope.len <= STORE_KEY_MAX ? 0 : COORD_R_KEY;
    }
    if (m->bucket && scope.len == 0) return 0; /* "" selects the keys outside of buckets */
    return m->bucket ? store_check_group(scope, note) : store_check_claim_key(scope, note);
}

void watcher_writable(struct watcher *watcher)
{
    watch_stream_writable(&watcher->stream);
}
