/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/etcd/watcher.h"

#include "prim/etcd/internal.h"

enum {
    SUBS_MAX = 64 * 1024,
    REQUEST_MAX = 64 * 1024,
    DENIED_MAX = 2, /* the first may be an old token's fault */
};

static struct str id_key(const struct etcd_sub *sub)
{
    return str_of(&sub->id, sizeof sub->id);
}

static enum err say(struct etcd_watcher *w, Etcdserverpb__WatchRequest *request)
{
    struct buf bytes;
    enum err err;

    buf_init(&bytes, REQUEST_MAX);
    err = message_write(&request->base, &bytes, NULL);
    if (!err) err = courier_stream_send(&w->stream, buf_peek(&bytes));
    buf_deinit(&bytes);
    return err;
}

static enum err ask(struct etcd_watcher *w, struct etcd_sub *sub)
{
    Etcdserverpb__WatchRequest request = ETCDSERVERPB__WATCH_REQUEST__INIT;
    Etcdserverpb__WatchCreateRequest create = ETCDSERVERPB__WATCH_CREATE_REQUEST__INIT;

    create.key = etcd_bytes(sub->key);
    if (sub->end.len > 0) create.range_end = etcd_bytes(sub->end);
    create.start_revision = (int64_t)sub->next;
    create.prev_kv = true;
    create.progress_notify = sub->progress;
    create.fragment = true;
    create.watch_id = sub->id;
    request.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    request.create_request = &create;
    return say(w, &request);
}

static void pump(struct etcd_watcher *w)
{
    if (w->unasked == 0) return;
    LIST_EACH(&w->subs, node)
    {
        struct etcd_sub *sub = CONTAINER_OF(node, struct etcd_sub, link);
        if (sub->asked) continue;
        if (!w->stream.call || ask(w, sub)) return; /* on_writable, on_open */
        sub->asked = true;
        w->unasked--;
    }
}

static void on_stream(struct courier_stream *stream)
{
    pump(CONTAINER_OF(stream, struct etcd_watcher, stream));
}

static void on_broken(struct courier_stream *stream, enum grpc_status status, struct str text)
{
    struct etcd_watcher *w = CONTAINER_OF(stream, struct etcd_watcher, stream);

    (void)status, (void)text;
    w->unasked = 0;
    LIST_EACH(&w->subs, node)
    {
        CONTAINER_OF(node, struct etcd_sub, link)->asked = false;
        w->unasked++;
    }
}

static void take_off(struct etcd_sub *sub)
{
    struct etcd_watcher *w = sub->watcher;

    (void)map_remove(&w->by_id, id_key(sub));
    list_remove(&sub->link);
    if (!sub->asked) w->unasked--;
    sub->watcher = NULL;
}

static void cancelled(struct etcd_watcher *w, struct etcd_sub *sub,
                      const Etcdserverpb__WatchResponse *response)
{
    if (response->compact_revision > 0 || strstr(response->cancel_reason, "compacted")) {
        take_off(sub);
        etcd_sub_compacted(sub);
    } else if (strstr(response->cancel_reason, "permission") ||
               strstr(response->cancel_reason, "auth") ||
               strstr(response->cancel_reason, "user name is empty")) {
        if (++sub->denied < DENIED_MAX && etcd_client_forget_token(w->backend->client)) {
            courier_stream_reset(&w->stream);
            return;
        }
        take_off(sub);
        etcd_sub_denied(sub);
    } else {
        courier_stream_reset(&w->stream); /* asked again, after a pause */
    }
}

/* Numbers that a server cannot mean would make us skip what is to come. */
static bool makes_sense(const Etcdserverpb__WatchResponse *response)
{
    if (!response->header || response->header->revision < 0) return false;
    for (size_t i = 0; i < response->n_events; i++)
        if (!response->events[i]->kv || response->events[i]->kv->mod_revision <= 0) return false;
    return true;
}

static struct etcd_sub *oldest_asked(struct etcd_watcher *w)
{
    LIST_EACH(&w->subs, node)
    {
        struct etcd_sub *sub = CONTAINER_OF(node, struct etcd_sub, link);
        if (sub->asked) return sub;
    }
    return NULL;
}

static void take(struct etcd_watcher *w, const Etcdserverpb__WatchResponse *response,
                 struct str bytes)
{
    int64_t id = response->watch_id;
    struct etcd_sub *sub = map_get(&w->by_id, str_of(&id, sizeof id));

    /* A watch that was refused at once has no number on some servers. */
    if (!sub && response->created && response->canceled) sub = oldest_asked(w);
    if (!sub) return; /* removed meanwhile */
    if (response->canceled) {
        cancelled(w, sub, response);
        return;
    }
    if (response->created) {
        sub->denied = 0;
        return;
    }
    if (!response->fragment) {
        uint64_t seen = response->n_events > 0
                            ? (uint64_t)response->events[response->n_events - 1]->kv->mod_revision
                            : (uint64_t)response->header->revision;
        if (seen + 1 > sub->next) sub->next = seen + 1;
    }
    etcd_sub_events(sub, response, bytes);
}

static void on_message(struct courier_stream *stream, struct str bytes)
{
    struct etcd_watcher *w = CONTAINER_OF(stream, struct etcd_watcher, stream);
    Etcdserverpb__WatchResponse *response;
    ProtobufCMessage *message;
    struct arena arena;

    etcd_arena_init(&arena, bytes.len);
    if (message_read(&etcdserverpb__watch_response__descriptor, bytes, NULL, &arena, &message,
                     NULL) ||
        !makes_sense(response = (Etcdserverpb__WatchResponse *)message) ||
        !etcd_header_fits(w->backend, response->header))
        courier_stream_reset(stream);
    else
        take(w, response, bytes);
    arena_deinit(&arena);
}

enum err etcd_watcher_init(struct etcd_watcher *w, struct etcd_backend *backend)
{
    w->backend = backend;
    list_init(&w->subs);
    map_init(&w->by_id, SUBS_MAX, 0);
    w->stream.on_open = w->stream.on_writable = on_stream;
    w->stream.on_message = on_message;
    w->stream.on_broken = on_broken;
    return courier_stream_init(&w->stream, etcd_client_courier(backend->client),
                               "/etcdserverpb.Watch/Watch");
}

void etcd_watcher_deinit(struct etcd_watcher *w)
{
    courier_stream_deinit(&w->stream);
    map_deinit(&w->by_id);
}

enum err etcd_sub_add(struct etcd_watcher *w, struct etcd_sub *sub)
{
    enum err err;

    assert(!sub->watcher && sub->next > 0);
    sub->id = ++w->last_id;
    err = map_put(&w->by_id, id_key(sub), sub);
    if (err) return err;
    sub->watcher = w;
    sub->asked = false;
    sub->denied = 0;
    list_init(&sub->link);
    list_append(&w->subs, &sub->link);
    w->unasked++;
    courier_stream_want(&w->stream);
    pump(w);
    return ERR_OK;
}

void etcd_sub_remove(struct etcd_sub *sub)
{
    Etcdserverpb__WatchRequest request = ETCDSERVERPB__WATCH_REQUEST__INIT;
    Etcdserverpb__WatchCancelRequest cancel = ETCDSERVERPB__WATCH_CANCEL_REQUEST__INIT;
    struct etcd_watcher *w = sub->watcher;
    bool asked = sub->asked;

    if (!w) return;
    take_off(sub);
    if (!asked || !w->stream.call) return;
    cancel.watch_id = sub->id;
    request.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST;
    request.cancel_request = &cancel;
    if (say(w, &request)) courier_stream_reset(&w->stream); /* or the server would send for ever */
}
