/* SPDX-License-Identifier: Apache-2.0 */
/* Sends answers, events, progress and cancellations on etcd's watch streams. Loop's thread. */
#include "store/etcd/feed.h"

#include <stdlib.h>

#include "store/keyvalue.h"
#include "store/txn_wire.h"

enum {
    FRAGMENT_MAX = (3 << 19) + (512 << 10),
    PROGRESS_MS = 600000,
    FREE_COST = 16, /* freeing a watch costs as much as reading this many changes */
    FEW = 8,        /* a stream with at most this many watches is freed in one turn */
};

static const char duplicate_id[] = "mvcc: duplicate watch ID provided on the WatchStream",
                  empty_range[] = "mvcc: watcher range is empty",
                  compacted_start[] = "etcdserver: mvcc: required revision has been compacted",
                  too_many[] = "etcdserver: too many requests",
                  too_large_text[] =
                      "one revision is too large for one response; ask for fragments";

struct etcd_watch {
    struct watch base;
    struct list notified; /* in feed.notified, if progress_notify is set */
    int64_t id;
    uint64_t start_revision; /* as requested; 0: the current revision */
    uint64_t quiet_at;       /* sent_revision at the last run of the progress timer */
    bool progress_due;
    char range[];
};
struct answer {
    bool created, canceled;
    int64_t id;
    uint64_t revision, compact_revision;
    const char *reason;
};
struct feed {
    struct feed_options options;
    struct list notified, closing;
    struct timer progress;
    size_t count;
};

static struct feed_stream *stream_of(struct watch_stream *stream)
{
    return CONTAINER_OF(stream, struct feed_stream, base);
}

static struct etcd_watch *watch_of(const struct watch *watch)
{
    return CONTAINER_OF((struct watch *)(uintptr_t)watch, struct etcd_watch, base);
}

static struct feed_stream *stream_of_watch(const struct etcd_watch *watch)
{
    return stream_of(watch->base.stream);
}

static uint64_t now_of(const struct feed *feed)
{
    return keys_revision(store_keys(watch_engine_store(feed->options.engine)));
}

static struct str id_text(const struct etcd_watch *watch)
{
    return str_of(&watch->id, sizeof watch->id);
}

/* -- responses -- */

static void stream_break(struct watch_stream *stream, enum err err)
{
    struct feed_stream *mine = stream_of(stream);

    mine->feed->options.broken(mine, err);
}

static enum err stream_send_bytes(struct watch_stream *stream, struct str message)
{
    struct feed_stream *mine = stream_of(stream);

    return mine->feed->options.send(mine, message, false);
}

static void response_begin(const struct feed *feed, int64_t id, uint64_t revision,
                           struct pack *message)
{
    feed->options.header(feed->options.owner, message, revision);
    pack_i64(message, 2, id);
}

static struct pack answer_pack(struct feed_stream *stream, const struct answer *answer)
{
    struct pack message = watch_message(stream->base.engine);

    response_begin(stream->feed, answer->id, answer->revision, &message);
    pack_u64(&message, 3, answer->created);
    pack_u64(&message, 4, answer->canceled);
    pack_u64(&message, 5, answer->compact_revision);
    if (answer->reason) pack_text(&message, 6, str_from(answer->reason));
    return message;
}

static enum err answer_send(struct feed_stream *stream, const struct answer *answer)
{
    struct pack message = answer_pack(stream, answer);

    return watch_send(&stream->base, &message);
}

static void answer_request(struct feed_stream *stream, const struct answer *answer)
{
    struct pack message = answer_pack(stream, answer);
    enum err err = message.err;

    if (!err) err = stream->feed->options.send(stream, buf_peek(message.into), true);
    if (err) stream_break(&stream->base, err);
}

static void feed_head(const struct watch *watch, uint64_t revision, bool more, struct pack *into)
{
    response_begin(stream_of(watch->stream)->feed, watch_of(watch)->id, revision, into);
    pack_u64(into, 7, more);
}

static size_t pair_size(const struct key_value *pair)
{
    size_t size = keyvalue_size(pair);

    return 1 + keyvalue_varint(size) + size;
}

static void feed_event(const struct watch *watch, const struct watch_change *change,
                       struct pack *into)
{
    bool before = watch->form == WATCH_ETCD_PREV && change->before.version;
    bool deleted = change->now.version == 0;

    pack_varint(into, 11 << 3 | 2);
    pack_varint(into, keyvalue_number(deleted) + pair_size(&change->now) +
                          (before ? pair_size(&change->before) : 0));
    pack_u64(into, 1, deleted);
    keyvalue_pack(into, 2, &change->now);
    if (before) keyvalue_pack(into, 3, &change->before);
}

/* -- the end of a watch -- */

static bool has_begun(const struct feed *feed, uint64_t start_revision)
{
    return max_u64(start_revision, watch_engine_visible(feed->options.engine)) <= now_of(feed);
}

/* Searches all watches: call only if the watch with the largest start revision is gone. */
static void find_last_start(struct feed_stream *stream)
{
    struct map_entry *entry;
    size_t cursor = 0;

    if (!stream->starts_stale || has_begun(stream->feed, stream->starts_at)) return;
    stream->starts_stale = false;
    stream->starts_at = 0;
    while ((entry = map_next(&stream->watches, &cursor)))
        stream->starts_at =
            max_u64(stream->starts_at, ((struct etcd_watch *)entry->value)->start_revision);
}

static void watch_free(struct etcd_watch *watch)
{
    struct feed_stream *stream = stream_of_watch(watch);

    (void)map_remove(&stream->watches, id_text(watch));
    watch_leave(&watch->base);
    list_remove(&watch->notified);
    stream->feed->count--;
    if (watch->start_revision && watch->start_revision == stream->starts_at)
        stream->starts_stale = true;
    free(watch);
}

/* The client gets the reason when its stream has room. */
static void watch_cancel(struct watch *base, uint64_t compact_revision, const char *reason)
{
    struct etcd_watch *watch = watch_of(base);
    struct feed_stream *stream = stream_of_watch(watch);
    enum err err = answer_send(stream, &(struct answer){.canceled = true,
                                                        .id = watch->id,
                                                        .revision = now_of(stream->feed),
                                                        .compact_revision = compact_revision,
                                                        .reason = reason});

    if (err == ERR_FULL) {
        watch_wake(base);
        return;
    }
    watch_free(watch);
    if (err) stream_break(&stream->base, err);
}

static void watch_lost(struct watch *watch)
{
    watch_cancel(watch, keys_compacted(store_keys(watch_engine_store(watch->stream->engine))),
                 NULL);
}

static void watch_too_large(struct watch *watch)
{
    watch_cancel(watch, 0, too_large_text);
}

/* -- progress -- */

static enum err feed_progress_send(struct feed_stream *stream, int64_t id)
{
    return answer_send(stream, &(struct answer){.id = id, .revision = now_of(stream->feed)});
}

static void watch_idle(struct watch *base)
{
    struct etcd_watch *watch = watch_of(base);
    struct feed_stream *stream = stream_of_watch(watch);
    enum err err = ERR_OK;

    if (watch->progress_due && has_begun(stream->feed, watch->start_revision))
        err = feed_progress_send(stream, watch->id);
    watch->progress_due = false; /* no room: the stream is not idle */
    if (err && err != ERR_FULL) stream_break(&stream->base, err);
}

/* Rule 11: progress is sent only when no event waits for any watch of the stream. */
static void stream_caught_up(struct watch_stream *base)
{
    struct feed_stream *stream = stream_of(base);
    enum err err;

    find_last_start(stream);
    if (!has_begun(stream->feed, stream->starts_at)) return;
    err = feed_progress_send(stream, -1);
    if (err == ERR_FULL) return;
    list_remove(&base->asking);
    if (err) stream_break(base, err);
}

/* -- the end of a stream -- */

/* frees at most `max` watches */
static void close_some(struct feed_stream *stream, size_t max)
{
    struct map_entry *entry;

    while ((entry = map_next(&stream->watches, &stream->close_cursor)) && max-- > 0)
        watch_free(entry->value);
    if (entry) {
        stream->close_cursor--;
        watch_end_soon(&((struct etcd_watch *)entry->value)->base);
        return;
    }
    list_remove(&stream->closing);
    watch_stream_deinit(&stream->base);
    map_deinit(&stream->watches);
    if (stream->freed) stream->freed(stream);
}

static void stream_ends(struct watch *watch)
{
    watch->stream->engine->walked += (uint64_t)FREE_COST * FEED_FREES_PER_TURN;
    close_some(stream_of(watch->stream), FEED_FREES_PER_TURN);
}

void feed_stream_close(struct feed_stream *stream, void (*freed)(struct feed_stream *stream))
{
    stream->base.blocked = true; /* a blocked stream sends nothing */
    stream->freed = freed;
    list_remove(&stream->base.asking);
    list_append(&stream->feed->closing, &stream->closing);
    close_some(stream, map_count(&stream->watches) <= FEW ? FEW : 0);
}

void feed_stream_deinit(struct feed_stream *stream)
{
    close_some(stream, SIZE_MAX);
}

static const struct watch_api watch_api = {.event = feed_event,
                                           .head = feed_head,
                                           .send = stream_send_bytes,
                                           .idle = watch_idle,
                                           .lost = watch_lost,
                                           .too_large = watch_too_large,
                                           .ends = stream_ends,
                                           .caught_up = stream_caught_up,
                                           .broken = stream_break};

static void progress_later(struct feed *feed)
{
    uint64_t ms = feed->options.progress_ms;

    /* Up to 10 % at random, so that the replicas do not send at the same moment. */
    timer_start_in(&feed->progress, ms + entropy_u64(feed->options.io->entropy) % (ms / 10 + 1));
}

static void on_progress(struct timer *timer)
{
    struct feed *feed = CONTAINER_OF(timer, struct feed, progress);

    LIST_EACH(&feed->notified, node)
    {
        struct etcd_watch *watch = CONTAINER_OF(node, struct etcd_watch, notified);

        if (watch->quiet_at == watch->base.sent_revision && !watch_is_behind(&watch->base) &&
            !watch->base.stream->blocked) {
            watch->progress_due = true;
            watch_wake(&watch->base);
        }
        watch->quiet_at = watch->base.sent_revision;
    }
    progress_later(feed);
}

/* -- requests -- */

static struct etcd_watch *watch_find(const struct feed_stream *stream, int64_t id)
{
    return map_get(&stream->watches, str_of(&id, sizeof id));
}

/* returns why the watch is refused, or NULL */
static const char *create_refusal(struct feed_stream *stream, struct key_range range,
                                  const Etcdserverpb__WatchCreateRequest *m)
{
    struct str end = range.end;

    if (m->start_revision < 0) return compacted_start;
    if (end.len && !key_range_is_open(range) && str_compare(range.from, end) >= 0)
        return empty_range;
    if (m->watch_id && watch_find(stream, m->watch_id)) return duplicate_id;
    return stream->feed->count >= stream->feed->options.watches_max ? too_many : NULL;
}

static int64_t id_for(struct feed_stream *stream, int64_t asked)
{
    if (asked) return asked;
    while (watch_find(stream, stream->next_id)) stream->next_id++;
    return stream->next_id++;
}

static struct etcd_watch *watch_make(struct feed_stream *stream, struct key_range range,
                                     const Etcdserverpb__WatchCreateRequest *m)
{
    struct str from = range.from, end = range.end;
    struct etcd_watch *watch = calloc(1, sizeof *watch + from.len + end.len);

    if (!watch) return NULL;
    memcpy(watch->range, from.at, from.len);
    if (end.len) memcpy(watch->range + from.len, end.at, end.len);
    watch->base = (struct watch){
        .stream = &stream->base,
        .range = {str_of(watch->range, from.len), str_of(watch->range + from.len, end.len)},
        .form = m->prev_kv ? WATCH_ETCD_PREV : WATCH_ETCD,
        .split = m->fragment ? FRAGMENT_MAX : 0};
    for (size_t i = 0; i < m->n_filters; i++)
        if (m->filters[i] == ETCDSERVERPB__WATCH_CREATE_REQUEST__FILTER_TYPE__NOPUT)
            watch->base.no_put = true;
        else if (m->filters[i] == ETCDSERVERPB__WATCH_CREATE_REQUEST__FILTER_TYPE__NODELETE)
            watch->base.no_delete = true;
    watch->id = id_for(stream, m->watch_id);
    watch->start_revision = (uint64_t)m->start_revision;
    list_init(&watch->notified);
    if (watch_join(&watch->base)) {
        free(watch);
        return NULL;
    }
    if (map_put(&stream->watches, id_text(watch), watch)) {
        watch_leave(&watch->base);
        free(watch);
        return NULL;
    }
    return watch;
}

static void feed_create(struct feed_stream *stream, const Etcdserverpb__WatchCreateRequest *m,
                        feed_refusal_fn *refusal, void *owner)
{
    struct feed *feed = stream->feed;
    struct answer created = {
        .created = true, .id = -1, .revision = watch_engine_visible(feed->options.engine)};
    struct key_range range = {bytes_str(m->key), bytes_str(m->range_end)};
    struct etcd_watch *watch = NULL;

    if (range.from.len == 0) range.from = str_of("", 1); /* the smallest possible key */
    created.reason = refusal(owner, range);
    if (!created.reason) created.reason = create_refusal(stream, range, m);
    if (!created.reason && !(watch = watch_make(stream, range, m))) created.reason = too_many;
    created.canceled = created.reason != NULL;
    if (watch) {
        created.id = watch->id;
        if (m->progress_notify) list_append(&feed->notified, &watch->notified);
        feed->count++;
        stream->starts_at = max_u64(stream->starts_at, watch->start_revision);
        watch_follow(&watch->base,
                     watch->start_revision ? watch->start_revision : created.revision + 1);
        watch->quiet_at = WATCH_NOTHING; /* not idle yet */
    }
    answer_request(stream, &created);
}

static void feed_cancel(struct feed_stream *stream, int64_t id)
{
    struct etcd_watch *watch = watch_find(stream, id);

    if (!watch) return;
    watch_free(watch);
    answer_request(
        stream, &(struct answer){.canceled = true,
                                 .id = id,
                                 .revision = watch_engine_visible(stream->feed->options.engine)});
}

void feed_request(struct feed_stream *stream, const Etcdserverpb__WatchRequest *m,
                  feed_refusal_fn *refusal, void *owner)
{
    switch (m->request_union_case) {
    case ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST:
        feed_create(stream, m->create_request, refusal, owner);
        break;
    case ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST:
        feed_cancel(stream, m->cancel_request->watch_id);
        break;
    case ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_PROGRESS_REQUEST:
        watch_stream_ask(&stream->base);
        break;
    default: break; /* a request type of a later release; etcd ignores it, too */
    }
}

/* -- streams -- */

void feed_stream_init(struct feed *feed, struct feed_stream *stream)
{
    *stream = (struct feed_stream){.feed = feed};
    watch_stream_init(&stream->base, feed->options.engine, &watch_api);
    map_init(&stream->watches, MAP_MOST, entropy_u64(feed->options.io->entropy));
    list_init(&stream->closing);
}

/* -- life -- */

enum err feed_open(const struct feed_options *options, struct feed **ret_feed)
{
    struct feed *feed = calloc(1, sizeof *feed);
    enum err err;

    if (!feed) return ERR_NOMEM;
    feed->options = *options;
    if (!feed->options.progress_ms) feed->options.progress_ms = PROGRESS_MS;
    list_init(&feed->notified);
    list_init(&feed->closing);
    err = timer_init(&feed->progress, options->io->loop, on_progress);
    if (err) {
        free(feed);
        return err;
    }
    progress_later(feed);
    *ret_feed = feed;
    return ERR_OK;
}

void feed_close(struct feed *feed)
{
    if (!feed) return;
    LIST_EACH_SAFE(&feed->closing, node, next)
    close_some(CONTAINER_OF(node, struct feed_stream, closing), SIZE_MAX);
    assert(feed->count == 0);
    timer_deinit(&feed->progress);
    free(feed);
}

size_t feed_count(const struct feed *feed)
{
    return feed->count;
}
