/* SPDX-License-Identifier: Apache-2.0 */
#include "store/etcd/feed.h"

#include <stdlib.h>

#include "store/keyvalue.h"

enum {
    MESSAGE_BYTES = 256 << 10, /* then a response goes, between two revisions */
    MESSAGE_REVISIONS = 1000,  /* C4, rule 7 */
    LARGE_BYTES = 1 << 20,     /* of one revision: then it is gathered over several turns */
    FRAGMENT_MAX = (3 << 19) + (512 << 10),
    HEAD_ROOM = 128,                   /* of a response, beside its events */
    LARGE_MAX = (1 << 30) - (1 << 20), /* of one revision in one piece; more only as fragments */
    WALK_MAX = 4096,                   /* changes looked at for one response */
    LARGE_STEP = 4096,                 /* changes of one entry; more are not gone through at once */
    TURN_BYTES = 1 << 20,
    TURN_WALK = 4 * WALK_MAX,
    TURN_MESSAGES = 1024, /* those that only look, and find nothing, count as well */
    PROGRESS_MS = 600000,
    CACHE_SLOTS = 64,
    CACHE_BYTES_MAX = 16 << 10,
    FEW = 8, /* watches of a stream that are freed at once: most streams have one */
};
#define TOLD_ALL UINT64_MAX /* a position: nothing waits */

static const char duplicate_id[] = "mvcc: duplicate watch ID provided on the WatchStream",
                  empty_range[] = "mvcc: watcher range is empty",
                  compacted_start[] = "etcdserver: mvcc: required revision has been compacted",
                  too_many[] = "etcdserver: too many requests",
                  too_large[] = "one revision is too large for one response; ask for fragments";

struct watch {
    struct list link;     /* feed.all */
    struct list ready;    /* feed.ready, feed.large_waiting, stream.waiting, or none */
    struct list in_scope; /* of the interest */
    struct list notified; /* feed.notified: who asked for progress_notify */
    struct feed_stream *stream;
    struct interest_scope *scope;
    int64_t id;
    bool prev_kv, no_put, no_delete, fragment;
    bool exact; /* its scope holds no key that it does not look at */
    bool lost;  /* its position is compacted: it is to be cancelled */
    bool quiet, progress_due;
    uint64_t start_revision; /* as asked for; 0: from now on */
    uint64_t from_revision;  /* nothing before it is told */
    uint64_t next;           /* the change that comes next, or TOLD_ALL */
    uint64_t next_revision;  /* its revision and its place in it, which outlive its number */
    uint32_t next_sub;       /* not 0: a part of the revision is told */
    size_t from_len, end_len;
    char range[];
};
struct answer {
    struct list link;
    bool created, canceled;
    int64_t id;
    uint64_t revision;
    const char *reason;
};
enum walk_end {
    WALK_DONE,    /* the end of history */
    WALK_BETWEEN, /* a response ends here */
    WALK_WITHIN,  /* a revision: there is more of it than is gone through in a turn */
    WALK_SPLIT,   /* a revision, before an event that would make a fragment too large */
    WALK_FAILED,
};
struct walk {
    uint64_t at; /* the change that comes next, with its revision and its place in that */
    uint64_t revision;
    uint32_t sub;
    bool inside; /* `revision` is begun */
    bool told;   /* an event of it is in the response */
    uint64_t events;
    enum err err;
};

struct feed {
    struct feed_options options;
    struct interest interest;
    struct list all, ready, asking, notified, closing;
    struct timer closer; /* runs while `closing` is not empty */
    size_t count;
    uint64_t revision; /* as applied here last */
    uint64_t shown;    /* somebody was, by the leader through us: may be ahead of it */
    uint64_t walked;   /* changes looked at in this turn */
    struct task pump;
    struct timer next_turn; /* runs while this one has had its share */
    struct timer progress;
    struct buf message, events, event;
    struct { /* the one response that is gathered over many turns */
        struct watch *watch;
        struct walk walk;
        struct buf events;
    } large;
    struct list large_waiting;
    struct {
        uint64_t number;
        bool prev_kv, used;
        struct buf bytes;
    } cache[CACHE_SLOTS];
};

static const struct keys *keys_of(const struct feed *feed)
{
    return store_keys(store_machine_store(feed->options.machine));
}

static struct key_range range_of(const struct watch *watch)
{
    return (struct key_range){str_of(watch->range, watch->from_len),
                              str_of(watch->range + watch->from_len, watch->end_len)};
}

static struct str id_text(const struct watch *watch)
{
    return str_of(&watch->id, sizeof watch->id);
}

static void pump_soon(struct feed *feed)
{
    loop_defer(feed->options.io->loop, &feed->pump);
}

static void wake(struct watch *watch)
{
    struct feed_stream *stream = watch->stream;

    if (!list_empty(&watch->ready)) return;
    if (stream->blocked) {
        list_append(&stream->waiting, &watch->ready);
        return;
    }
    list_append(&stream->feed->ready, &watch->ready);
    pump_soon(stream->feed);
}

static bool is_behind(const struct watch *watch)
{
    return watch->lost || watch->next != TOLD_ALL;
}

static void set_behind(struct watch *watch, uint64_t next, uint64_t revision, uint32_t sub)
{
    if (!is_behind(watch)) watch->stream->behind++;
    watch->next = next;
    watch->next_revision = revision;
    watch->next_sub = sub;
}

static void set_told(struct watch *watch)
{
    if (is_behind(watch)) watch->stream->behind--;
    watch->lost = false;
    watch->next = TOLD_ALL;
    watch->next_sub = 0;
}

/* -- responses -- */

/* ERR_OK, ERR_FULL (the stream is blocked from now on); of others `broken` is told. */
static enum err send(struct feed_stream *stream)
{
    struct feed *feed = stream->feed;
    enum err err = feed->options.send(stream, buf_peek(&feed->message));

    if (err == ERR_FULL) stream->blocked = true;
    return err;
}

static struct pack response_begin(struct feed *feed, int64_t id, uint64_t revision)
{
    struct pack message = pack_begin(&feed->message);

    feed->options.header(feed->options.owner, &message, revision);
    pack_i64(&message, 2, id);
    return message;
}

static enum err response_send(struct feed_stream *stream, const struct pack *message)
{
    struct feed *feed = stream->feed;
    enum err err = message->err ? message->err : send(stream);

    if (feed->message.cap > (size_t)2 * FRAGMENT_MAX) { /* a rare size */
        buf_deinit(&feed->message);
        buf_init(&feed->message, (size_t)2 * LARGE_MAX);
    }
    return err;
}

static enum err answer_send(struct feed_stream *stream, const struct answer *answer)
{
    struct pack message = response_begin(stream->feed, answer->id, answer->revision);

    pack_u64(&message, 3, answer->created);
    pack_u64(&message, 4, answer->canceled);
    if (answer->reason) pack_text(&message, 6, str_from(answer->reason));
    return response_send(stream, &message);
}

/* Now, or once there is room: before anything that its watch is told. */
static void answer(struct feed_stream *stream, const struct answer *what)
{
    enum err err = ERR_FULL;
    struct answer *kept;

    if (!stream->blocked) err = answer_send(stream, what);
    if (err == ERR_FULL) {
        kept = malloc(sizeof *kept);
        err = kept ? ERR_OK : ERR_NOMEM;
        if (kept) {
            *kept = *what;
            list_init(&kept->link);
            list_append(&stream->answers, &kept->link);
        }
    }
    if (err) stream->feed->options.broken(stream, err);
}

/* Sends what waits. True: all of it. */
static bool answers_send(struct feed_stream *stream)
{
    while (!stream->blocked && !list_empty(&stream->answers)) {
        struct answer *first = CONTAINER_OF(stream->answers.next, struct answer, link);
        enum err err = answer_send(stream, first);

        if (err == ERR_FULL) return false;
        list_remove(&first->link);
        free(first);
        if (err) {
            stream->feed->options.broken(stream, err);
            return false;
        }
    }
    return list_empty(&stream->answers);
}

/* -- events -- */

/* The event as field 11 of a response; into the cache, where many find it. */
static struct str event_bytes(struct feed *feed, const struct watch *watch, uint64_t number,
                              const struct key_value *change, const struct key_value *before,
                              enum err *ret_err)
{
    size_t slot = number % CACHE_SLOTS;
    struct pack event, whole;

    if (feed->cache[slot].used && feed->cache[slot].number == number &&
        feed->cache[slot].prev_kv == watch->prev_kv)
        return buf_peek(&feed->cache[slot].bytes);
    event = pack_begin(&feed->message);
    pack_u64(&event, 1, change->version == 0);
    keyvalue_pack(&event, 2, change);
    if (watch->prev_kv && before->version) keyvalue_pack(&event, 3, before);
    whole = pack_begin(&feed->event);
    pack_row(&whole, 11, &event);
    *ret_err = whole.err;
    if (whole.err || feed->event.len > CACHE_BYTES_MAX) return buf_peek(&feed->event);
    buf_clear(&feed->cache[slot].bytes);
    feed->cache[slot].used = !buf_append(&feed->cache[slot].bytes, buf_peek(&feed->event));
    feed->cache[slot].number = number;
    feed->cache[slot].prev_kv = watch->prev_kv;
    return buf_peek(&feed->event);
}

/* Of a key in its range. */
static bool wants(const struct watch *watch, const struct key_value *change)
{
    if (change->mod < watch->from_revision) return false;
    return !(change->version ? watch->no_put : watch->no_delete);
}

/* -- going through history -- */

/* `walk_max` 0: to the end of the revision at most. */
static enum walk_end walk(struct feed *feed, const struct watch *watch, struct buf *into,
                          size_t walk_max, struct walk *w)
{
    const struct keys *keys = keys_of(feed);
    uint64_t end = keys_changes(keys).end;
    size_t walked = 0, revisions = 0, start = into->len;

    for (; w->at < end; w->at++) {
        struct key_value change, before;
        struct str event;
        bool fresh;

        keys_change_at(keys, w->at, &change, &before);
        fresh = !w->inside || change.mod != w->revision;
        if (!fresh && (walked >= walk_max + LARGE_STEP || into->len - start > LARGE_BYTES))
            return WALK_WITHIN;
        w->revision = change.mod;
        w->sub = change.sub;
        if (fresh && w->inside &&
            (walked >= walk_max || revisions >= MESSAGE_REVISIONS || into->len > MESSAGE_BYTES))
            return WALK_BETWEEN;
        w->told = w->told && !fresh;
        w->inside = true;
        walked++;
        feed->walked++;
        if (!wants(watch, &change) || !interest_in(range_of(watch), change.key)) continue;
        event = event_bytes(feed, watch, w->at, &change, &before, &w->err);
        if (watch->fragment && into->len && into->len + event.len + HEAD_ROOM >= FRAGMENT_MAX)
            return w->told ? WALK_SPLIT : WALK_BETWEEN;
        if (!w->err) w->err = buf_append(into, event);
        if (w->err) return WALK_FAILED;
        revisions += !w->told;
        w->told = true;
        w->events++;
    }
    w->revision = keys_revision(keys);
    w->sub = 0;
    return WALK_DONE;
}

static enum err events_send(struct watch *watch, const struct buf *events, uint64_t revision,
                            bool fragment)
{
    struct feed_stream *stream = watch->stream;
    struct pack message = response_begin(stream->feed, watch->id, revision);

    pack_u64(&message, 7, fragment);
    if (!message.err) message.err = buf_append(&stream->feed->message, buf_peek(events));
    return response_send(stream, &message);
}

/* What a response that ends so says of itself. */
static uint64_t told_up_to(enum walk_end end, const struct walk *w)
{
    return end == WALK_BETWEEN ? w->revision - 1 : w->revision;
}

static void count(struct feed *feed, uint64_t events)
{
    if (feed->options.events && events) counter_add(feed->options.events, events);
}

/* -- life of a watch -- */

static void large_drop(struct feed *feed)
{
    feed->large.watch = NULL;
    if (feed->large.events.cap > TURN_BYTES) {
        buf_deinit(&feed->large.events);
        buf_init(&feed->large.events, LARGE_MAX);
    }
    buf_clear(&feed->large.events);
}

static bool has_begun(const struct feed *feed, uint64_t start_revision)
{
    return max_u64(start_revision, feed->shown) <= keys_revision(keys_of(feed));
}

/* Only when it matters: a walk over all watches at each cancel would be quadratic. */
static void find_last_start(struct feed_stream *stream)
{
    struct map_entry *entry;
    size_t cursor = 0;

    if (!stream->starts_stale || has_begun(stream->feed, stream->starts_at)) return;
    stream->starts_stale = false;
    stream->starts_at = 0;
    while ((entry = map_next(&stream->watches, &cursor)))
        stream->starts_at =
            max_u64(stream->starts_at, ((struct watch *)entry->value)->start_revision);
}

static void watch_free(struct watch *watch)
{
    struct feed_stream *stream = watch->stream;
    struct feed *feed = stream->feed;

    if (feed->large.watch == watch) {
        large_drop(feed);
        pump_soon(feed); /* the next one's turn */
    }
    if (is_behind(watch)) stream->behind--;
    (void)map_remove(&stream->watches, id_text(watch));
    interest_leave(&feed->interest, watch->scope, &watch->in_scope);
    list_remove(&watch->link);
    list_remove(&watch->ready);
    list_remove(&watch->notified);
    feed->count--;
    if (watch->start_revision && watch->start_revision == stream->starts_at)
        stream->starts_stale = true;
    free(watch);
}

/* True: it is told, and gone. */
static bool cancel(struct watch *watch, uint64_t compact_revision, const char *reason)
{
    struct feed_stream *stream = watch->stream;
    struct pack message = response_begin(stream->feed, watch->id, stream->feed->revision);
    enum err err;

    pack_u64(&message, 4, 1);
    pack_u64(&message, 5, compact_revision);
    if (reason) pack_text(&message, 6, str_from(reason));
    err = response_send(stream, &message);
    if (err == ERR_FULL) return false;
    watch_free(watch);
    if (err) stream->feed->options.broken(stream, err);
    return true;
}

/* -- telling -- */

/* What comes of a response that went out, or did not. */
static void sent(struct watch *watch, enum err err, enum walk_end end, const struct walk *w)
{
    struct feed *feed = watch->stream->feed;

    if (err == ERR_FULL) {
        wake(watch); /* among those that wait for room */
        return;
    }
    if (err) {
        feed->options.broken(watch->stream, err);
        return;
    }
    if (w->events) watch->quiet = false;
    count(feed, w->events);
    if (end == WALK_DONE)
        set_told(watch);
    else
        set_behind(watch, w->at, w->revision, end == WALK_SPLIT ? w->sub : 0);
    if (is_behind(watch)) wake(watch);
}

/* A revision that is larger than a turn has a place of its own, one at a time. */
static void large_begin(struct watch *watch, const struct walk *w)
{
    struct feed *feed = watch->stream->feed;
    struct buf events = feed->large.events;

    if (feed->large.watch) {
        list_append(&feed->large_waiting, &watch->ready);
        return;
    }
    feed->large.watch = watch;
    feed->large.walk = *w;
    feed->large.events = feed->events;
    feed->events = events;
    pump_soon(feed);
}

static void large_step(struct feed *feed)
{
    struct watch *watch = feed->large.watch;
    struct walk w = feed->large.walk;
    enum walk_end end = walk(feed, watch, &feed->large.events, 0, &w);
    enum err err;

    if (end == WALK_WITHIN) {
        feed->large.walk = w;
        return;
    }
    if (end == WALK_FAILED && w.err == ERR_FULL) {
        large_drop(feed);
        if (!cancel(watch, 0, too_large)) wake(watch);
        return;
    }
    err = end == WALK_FAILED
              ? w.err
              : events_send(watch, &feed->large.events, told_up_to(end, &w), end == WALK_SPLIT);
    large_drop(feed);
    sent(watch, err, end, &w);
}

/* Its position is where history begins, or after. */
static bool is_there(const struct feed *feed, const struct watch *watch)
{
    const struct keys *keys = keys_of(feed);

    return !watch->lost && watch->next >= keys_changes(keys).first &&
           watch->next_revision >= keys_compacted(keys);
}

static void tell_events(struct watch *watch)
{
    struct feed *feed = watch->stream->feed;
    struct walk w = {
        .at = watch->next, .revision = watch->next_revision, .inside = watch->next_sub > 0};
    enum walk_end end;

    if (!is_there(feed, watch)) {
        if (!cancel(watch, keys_compacted(keys_of(feed)), NULL)) wake(watch);
        return;
    }
    buf_clear(&feed->events);
    end = walk(feed, watch, &feed->events, WALK_MAX, &w);
    if (end == WALK_WITHIN || end == WALK_SPLIT)
        large_begin(watch, &w);
    else
        sent(watch,
             end == WALK_FAILED ? w.err
             : w.events         ? events_send(watch, &feed->events, told_up_to(end, &w), false)
                                : ERR_OK,
             end, &w);
}

static enum err tell_progress(struct feed_stream *stream, int64_t id)
{
    struct pack message = response_begin(stream->feed, id, stream->feed->revision);

    return response_send(stream, &message);
}

static void tell(struct watch *watch)
{
    struct feed *feed = watch->stream->feed;
    enum err err = ERR_OK;

    if (is_behind(watch)) {
        tell_events(watch);
        return;
    }
    if (watch->progress_due && has_begun(feed, watch->start_revision))
        err = tell_progress(watch->stream, watch->id);
    watch->progress_due = false; /* without room it is not quiet, and may wait */
    if (err && err != ERR_FULL) feed->options.broken(watch->stream, err);
}

/* Rule 11: when nothing waits for any watch of the stream, and not before. */
static void answer_progress(struct feed_stream *stream)
{
    enum err err;

    if (stream->behind || stream->blocked) return;
    find_last_start(stream);
    if (!has_begun(stream->feed, stream->starts_at)) return;
    err = tell_progress(stream, -1);
    if (err == ERR_FULL) return;
    list_remove(&stream->asking);
    if (err) stream->feed->options.broken(stream, err);
}

/* A response for each that has something to be told, as many as a turn has room for; who has more,
 * and whoever is left, comes in the next turn of the loop, so nobody holds it. */
static void on_pump(struct task *task)
{
    struct feed *feed = CONTAINER_OF(task, struct feed, pump);
    size_t bytes = 0, messages = 0;
    struct list round, *node;

    feed->walked = 0;
    if (store_machine_restoring(feed->options.machine)) return; /* feed_restored wakes them */
    if (timer_running(&feed->next_turn)) return;
    if (feed->large.watch) large_step(feed);
    list_init(&round);
    list_splice(&round, &feed->ready);
    while (bytes < TURN_BYTES && messages++ < TURN_MESSAGES && feed->walked < TURN_WALK &&
           (node = list_pop(&round))) {
        struct watch *watch = CONTAINER_OF(node, struct watch, ready);

        buf_clear(&feed->message);
        if (watch->stream->blocked)
            wake(watch); /* among those that wait for room */
        else
            tell(watch);
        bytes += feed->message.len;
    }
    list_splice(&round, &feed->ready); /* who waited longest is first */
    list_splice(&feed->ready, &round);
    while (!feed->large.watch && (node = list_pop(&feed->large_waiting))) {
        struct watch *watch = CONTAINER_OF(node, struct watch, ready);
        wake(watch);
        if (!watch->stream->blocked) break; /* else it is the next one's turn */
    }
    LIST_EACH_SAFE(&feed->asking, asking, next)
    answer_progress(CONTAINER_OF(asking, struct feed_stream, asking));
    if (!list_empty(&feed->ready) || feed->large.watch) timer_start_in(&feed->next_turn, 0);
}

static void on_next_turn(struct timer *timer)
{
    pump_soon(CONTAINER_OF(timer, struct feed, next_turn));
}

/* -- what is applied -- */

struct told_change {
    uint64_t number;
    const struct key_value *change;
};

static void tell_scope(void *context, struct interest_scope *scope)
{
    const struct told_change *told = context;

    LIST_EACH(&scope->lookers, node)
    {
        struct watch *watch = CONTAINER_OF(node, struct watch, in_scope);

        if (is_behind(watch) || !wants(watch, told->change)) continue;
        if (!watch->exact && !interest_in(range_of(watch), told->change->key)) continue;
        set_behind(watch, told->number, told->change->mod, 0);
        wake(watch);
    }
}

/* Each finds its own part of it, from where it is, in its own turns. */
static void tell_large(struct feed *feed, uint64_t first, uint64_t revision)
{
    LIST_EACH(&feed->all, node)
    {
        struct watch *watch = CONTAINER_OF(node, struct watch, link);

        if (is_behind(watch)) continue;
        set_behind(watch, first, revision, 0);
        wake(watch);
    }
}

void feed_applied(struct feed *feed, const struct store_applied *applied)
{
    const struct keys *keys = keys_of(feed);
    struct key_value change, before;

    feed->revision = keys_revision(keys);
    if (!list_empty(&feed->asking)) pump_soon(feed); /* a start may have come */
    if (feed->count == 0 || applied->changes.first == applied->changes.end) return;
    if (applied->changes.end - applied->changes.first > LARGE_STEP) {
        keys_change_at(keys, applied->changes.first, &change, &before);
        tell_large(feed, applied->changes.first, change.mod);
        return;
    }
    for (uint64_t n = applied->changes.first; n < applied->changes.end; n++) {
        keys_change_at(keys, n, &change, &before);
        interest_each(&feed->interest, change.key, tell_scope, &(struct told_change){n, &change});
    }
}

/* The number of the first change that a watch was not told, found again by its revision. */
static void find_again(struct feed *feed, struct watch *watch, uint64_t revision, uint32_t sub)
{
    const struct keys *keys = keys_of(feed);
    struct key_changes there = keys_changes(keys);
    struct key_value change, before;
    uint64_t n;

    if (revision < keys_compacted(keys)) {
        set_behind(watch, 0, revision, 0);
        watch->lost = true;
    } else if (revision > keys_revision(keys)) {
        set_told(watch);
    } else {
        for (n = keys_change_seek(keys, revision); sub > 0 && n < there.end; n++) {
            keys_change_at(keys, n, &change, &before);
            if (change.mod != revision || change.sub >= sub) break;
        }
        if (n == there.end)
            set_told(watch);
        else
            set_behind(watch, n, revision, sub);
    }
    if (is_behind(watch)) wake(watch);
}

void feed_restored(struct feed *feed)
{
    for (size_t i = 0; i < CACHE_SLOTS; i++) feed->cache[i].used = false;
    if (feed->large.watch) {
        struct watch *watch = feed->large.watch;
        large_drop(feed);
        wake(watch);
    }
    LIST_EACH(&feed->all, node)
    {
        struct watch *watch = CONTAINER_OF(node, struct watch, link);

        if (watch->lost) continue;
        if (is_behind(watch))
            find_again(feed, watch, watch->next_revision, watch->next_sub);
        else
            find_again(feed, watch, max_u64(feed->revision + 1, watch->from_revision), 0);
    }
    feed->revision = keys_revision(keys_of(feed));
    pump_soon(feed); /* also who was woken while it was under way */
}

/* -- requests -- */

static struct watch *watch_find(const struct feed_stream *stream, int64_t id)
{
    return map_get(&stream->watches, str_of(&id, sizeof id));
}

/* Why it cannot be, or NULL with the watch in its place. */
static const char *watch_make(struct feed_stream *stream, const struct feed_create *create,
                              struct watch **ret_watch)
{
    struct feed *feed = stream->feed;
    size_t from_len = create->range.from.len, end_len = create->range.end.len;
    bool open = end_len == 1 && create->range.end.at[0] == '\0';
    struct watch *watch;
    int64_t id = create->id;

    if (create->refusal) return create->refusal;
    if (create->start_revision < 0) return compacted_start;
    if (end_len && !open && str_compare(create->range.from, create->range.end) >= 0)
        return empty_range;
    if (id && watch_find(stream, id)) return duplicate_id;
    if (feed->count >= feed->options.watches_max) return too_many;
    while (!id && watch_find(stream, stream->next_id)) stream->next_id++;
    if (!id) id = stream->next_id++;
    watch = calloc(1, sizeof *watch + from_len + end_len);
    if (!watch) return too_many;
    watch->stream = stream;
    watch->id = id;
    watch->from_len = from_len;
    watch->end_len = end_len;
    memcpy(watch->range, create->range.from.at, from_len);
    if (end_len) memcpy(watch->range + from_len, create->range.end.at, end_len);
    list_init(&watch->link);
    list_init(&watch->ready);
    list_init(&watch->in_scope);
    list_init(&watch->notified);
    watch->scope = interest_join(&feed->interest, range_of(watch), &watch->in_scope);
    if (!watch->scope || map_put(&stream->watches, id_text(watch), watch)) {
        if (watch->scope) interest_leave(&feed->interest, watch->scope, &watch->in_scope);
        free(watch);
        return too_many;
    }
    *ret_watch = watch;
    return NULL;
}

/* What requests are answered with: an answer never names less than one before it. */
static uint64_t shown_revision(const struct feed *feed)
{
    return max_u64(keys_revision(keys_of(feed)), feed->shown);
}

void feed_shown(struct feed *feed, uint64_t revision)
{
    feed->shown = max_u64(feed->shown, revision);
}

void feed_create(struct feed_stream *stream, const struct feed_create *create)
{
    struct feed *feed = stream->feed;
    struct answer told = {.created = true, .id = -1, .revision = shown_revision(feed)};
    struct watch *watch = NULL;

    told.reason = watch_make(stream, create, &watch);
    told.canceled = told.reason != NULL;
    if (watch) {
        told.id = watch->id;
        watch->prev_kv = create->prev_kv;
        watch->no_put = create->no_put;
        watch->no_delete = create->no_delete;
        watch->fragment = create->fragment;
        watch->exact = interest_exact(range_of(watch));
        watch->next = TOLD_ALL;
        watch->start_revision = (uint64_t)create->start_revision;
        watch->from_revision = watch->start_revision ? watch->start_revision : told.revision + 1;
        list_append(&feed->all, &watch->link);
        if (create->progress_notify) list_append(&feed->notified, &watch->notified);
        feed->count++;
        stream->starts_at = max_u64(stream->starts_at, watch->start_revision);
        find_again(feed, watch, watch->from_revision, 0);
    }
    answer(stream, &told);
}

void feed_cancel(struct feed_stream *stream, int64_t id)
{
    struct watch *watch = watch_find(stream, id);

    if (!watch) return;
    watch_free(watch);
    answer(stream,
           &(struct answer){.canceled = true, .id = id, .revision = shown_revision(stream->feed)});
    pump_soon(stream->feed); /* it may have been what progress waited for */
}

void feed_progress(struct feed_stream *stream)
{
    if (list_empty(&stream->asking)) list_append(&stream->feed->asking, &stream->asking);
    pump_soon(stream->feed);
}

/* -- streams -- */

void feed_stream_init(struct feed *feed, struct feed_stream *stream)
{
    *stream = (struct feed_stream){.feed = feed};
    map_init(&stream->watches, MAP_MOST, entropy_u64(feed->options.io->entropy));
    list_init(&stream->answers);
    list_init(&stream->waiting);
    list_init(&stream->asking);
    list_init(&stream->closing);
}

static void answers_drop(struct feed_stream *stream)
{
    LIST_EACH_SAFE(&stream->answers, node, next)
    free(CONTAINER_OF(node, struct answer, link));
    list_init(&stream->answers);
}

/* Returns how many it freed, `max` at most. */
static size_t watches_free(struct feed_stream *stream, size_t max)
{
    struct map_entry *entry;
    size_t count = 0;

    for (; count < max && (entry = map_next(&stream->watches, &stream->close_cursor)); count++)
        watch_free(entry->value);
    return count;
}

static void close_streams(struct feed *feed, size_t max)
{
    while (max > 0 && !list_empty(&feed->closing)) {
        struct feed_stream *stream = CONTAINER_OF(feed->closing.next, struct feed_stream, closing);
        max -= watches_free(stream, max);
        if (map_count(&stream->watches) > 0) break;
        list_remove(&stream->closing);
        map_deinit(&stream->watches);
        stream->freed(stream);
    }
    if (!list_empty(&feed->closing)) timer_start_in(&feed->closer, 0);
}

static void on_closer(struct timer *timer)
{
    struct feed *feed = CONTAINER_OF(timer, struct feed, closer);

    close_streams(feed, FEED_FREES_PER_TURN);
}

void feed_stream_close(struct feed_stream *stream, void (*freed)(struct feed_stream *stream))
{
    struct feed *feed = stream->feed;

    if (map_count(&stream->watches) <= FEW) {
        feed_stream_deinit(stream);
        freed(stream);
        return;
    }
    stream->blocked = true; /* a blocked stream is told nothing, and nobody unblocks this one */
    stream->freed = freed;
    answers_drop(stream);
    list_remove(&stream->asking);
    if (feed->large.watch && feed->large.watch->stream == stream) {
        large_drop(feed);
        pump_soon(feed);
    }
    list_append(&feed->closing, &stream->closing);
    timer_start_in(&feed->closer, 0);
}

void feed_stream_deinit(struct feed_stream *stream)
{
    answers_drop(stream);
    (void)watches_free(stream, SIZE_MAX);
    map_deinit(&stream->watches);
    list_remove(&stream->asking);
}

bool feed_stream_full(const struct feed_stream *stream)
{
    return !list_empty(&stream->answers);
}

bool feed_stream_writable(struct feed_stream *stream)
{
    struct feed *feed = stream->feed;

    stream->blocked = false;
    if (!answers_send(stream)) return false;
    list_splice(&feed->ready, &stream->waiting);
    pump_soon(feed);
    return true;
}

/* -- life -- */

static void progress_later(struct feed *feed)
{
    uint64_t ms = feed->options.progress_ms;

    /* Up to a tenth more: not all replicas at once. */
    timer_start_in(&feed->progress, ms + entropy_u64(feed->options.io->entropy) % (ms / 10 + 1));
}

static void on_progress(struct timer *timer)
{
    struct feed *feed = CONTAINER_OF(timer, struct feed, progress);

    LIST_EACH(&feed->notified, node)
    {
        struct watch *watch = CONTAINER_OF(node, struct watch, notified);

        if (watch->quiet && !is_behind(watch) && !watch->stream->blocked) {
            watch->progress_due = true;
            wake(watch);
        }
        watch->quiet = true;
    }
    progress_later(feed);
}

enum err feed_open(const struct feed_options *options, struct feed **ret_feed)
{
    struct feed *feed = calloc(1, sizeof *feed);
    enum err err;

    if (!feed) return ERR_NOMEM;
    feed->options = *options;
    if (!feed->options.progress_ms) feed->options.progress_ms = PROGRESS_MS;
    interest_init(&feed->interest, entropy_u64(options->io->entropy));
    list_init(&feed->all);
    list_init(&feed->ready);
    list_init(&feed->asking);
    list_init(&feed->notified);
    list_init(&feed->large_waiting);
    list_init(&feed->closing);
    task_init(&feed->pump, on_pump);
    buf_init(&feed->message, (size_t)2 * LARGE_MAX);
    buf_init(&feed->events, LARGE_MAX);
    buf_init(&feed->event, LARGE_MAX);
    buf_init(&feed->large.events, LARGE_MAX);
    for (size_t i = 0; i < CACHE_SLOTS; i++) buf_init(&feed->cache[i].bytes, CACHE_BYTES_MAX);
    err = timer_init(&feed->next_turn, options->io->loop, on_next_turn);
    if (!err) err = timer_init(&feed->progress, options->io->loop, on_progress);
    if (!err) err = timer_init(&feed->closer, options->io->loop, on_closer);
    if (err) {
        feed_close(feed);
        return err;
    }
    feed->revision = keys_revision(keys_of(feed));
    progress_later(feed);
    *ret_feed = feed;
    return ERR_OK;
}

void feed_close(struct feed *feed)
{
    if (!feed) return;
    close_streams(feed, SIZE_MAX);
    assert(feed->count == 0 && list_empty(&feed->asking));
    task_cancel(&feed->pump);
    timer_deinit(&feed->next_turn);
    timer_deinit(&feed->progress);
    timer_deinit(&feed->closer);
    interest_deinit(&feed->interest);
    for (size_t i = 0; i < CACHE_SLOTS; i++) buf_deinit(&feed->cache[i].bytes);
    buf_deinit(&feed->message);
    buf_deinit(&feed->events);
    buf_deinit(&feed->event);
    buf_deinit(&feed->large.events);
    free(feed);
}

size_t feed_count(const struct feed *feed)
{
    return feed->count;
}
