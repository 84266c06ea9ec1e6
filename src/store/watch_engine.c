/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the positions, turns and event cache of watches. Loop's thread.
 *
 * A position is kept twice: as the number of a change, for speed, and as a revision with an index
 * in that revision. Only the second form stays valid when a restored snapshot renumbers the
 * changes. */
#include "store/watch_engine.h"

#include <stdlib.h>

enum {
    MESSAGE_BYTES = 256 << 10,         /* bytes after which a message ends, at the next revision */
    MESSAGE_REVISIONS = 1000,          /* C4, rule 7 */
    MESSAGE_KEPT = 4 << 20,            /* capacity that the scratch buffer keeps */
    HEAD_ROOM = 128,                   /* of a message, for the fields other than events */
    LARGE_BYTES = 1 << 20,             /* larger revisions are collected over several turns */
    LARGE_STEP = 4096,                 /* changes read per turn of a large revision */
    LARGE_MAX = (1 << 30) - (1 << 20), /* bytes of the largest revision that fits into a message */
    WALK_MAX = 4096,                   /* changes read for one message */
    TURN_BYTES = 1 << 20,
    TURN_WALK = 4 * WALK_MAX,
    TURN_MESSAGES = 512, /* watches handled in a turn, including those that send nothing */
    CACHE_BYTES_MAX = 16 << 10,
};

enum walk_end {
    WALK_DONE,    /* end of the history */
    WALK_BETWEEN, /* the message ends after a whole revision */
    WALK_WITHIN,  /* the revision has more changes than a turn reads */
    WALK_SPLIT,   /* the revision continues in the next message */
    WALK_FAILED,
};
static const struct keys *engine_keys(const struct watch_engine *engine)
{
    return store_keys(watch_engine_store(engine));
}

static void pump_soon(struct watch_engine *engine)
{
    loop_defer(engine->options.io->loop, &engine->pump);
}

/* -- positions -- */

void watch_wake(struct watch *watch)
{
    struct watch_stream *stream = watch->stream;

    if (!list_empty(&watch->ready)) return;
    if (stream->blocked) {
        list_append(&stream->waiting, &watch->ready);
        return;
    }
    list_append(&stream->engine->ready, &watch->ready);
    pump_soon(stream->engine);
}

void watch_end_soon(struct watch *watch)
{
    watch->ends = true;
    list_remove(&watch->ready);
    list_append(&watch->stream->engine->ready, &watch->ready);
    pump_soon(watch->stream->engine);
}

static void set_behind(struct watch *watch, uint64_t next, uint64_t revision, uint32_t sub)
{
    if (!watch_is_behind(watch)) watch->stream->behind++;
    watch->next = next;
    watch->next_revision = revision;
    watch->next_sub = sub;
}

static void set_sent_all(struct watch *watch)
{
    if (watch_is_behind(watch)) watch->stream->behind--;
    watch->is_lost = false;
    watch->live = watch->from_revision != WATCH_NOTHING;
    watch->next = WATCH_SENT_ALL;
    watch->next_sub = watch->waiting = 0;
    watch->waiting_bytes = 0;
}

/* Finds the first unsent change. */
static void find_position(struct watch *watch, uint64_t revision, uint32_t sub)
{
    const struct keys *keys = engine_keys(watch->stream->engine);
    struct key_changes there = keys_changes(keys);
    struct key_value change, before;
    uint64_t n;

    watch->live = false;
    if (revision < keys_compacted(keys)) {
        set_behind(watch, 0, revision, 0);
        watch->is_lost = true;
    } else if (revision > keys_revision(keys)) {
        set_sent_all(watch);
    } else {
        for (n = keys_change_seek(keys, revision); sub > 0 && n < there.end; n++) {
            keys_change_at(keys, n, &change, &before);
            if (change.mod != revision || change.sub >= sub) break;
        }
        if (n == there.end)
            set_sent_all(watch);
        else
            set_behind(watch, n, revision, sub);
    }
    if (watch_is_behind(watch)) watch_wake(watch);
}

void watch_follow(struct watch *watch, uint64_t from_revision)
{
    watch->from_revision = from_revision;
    find_position(watch, from_revision, 0);
}

/* True: history still contains the first unsent change. */
static bool is_in_history(const struct watch *watch)
{
    const struct keys *keys = engine_keys(watch->stream->engine);

    return !watch->is_lost && watch->next >= keys_changes(keys).first &&
           watch->next_revision >= keys_compacted(keys);
}

/* -- walking through history -- */

/* Does not check the key. */
static bool watch_wants(const struct watch *watch, const struct key_value *change)
{
    if (change->mod < watch->from_revision) return false;
    return !(change->version ? watch->no_put : watch->no_delete);
}

bool watch_has_key(const struct watch *watch, struct str key)
{
    struct str bucket;

    if (watch->exact && watch->range.end.len) return str_starts(key, watch->range.from);
    if (!watch->bucket.len) return key_range_has(watch->range, key);
    return interest_bucket(key, &bucket) && str_equal(bucket, watch->bucket);
}

/* Watches of one form share the bytes of an event. */
static struct str event_bytes(struct watch_engine *engine, const struct watch *watch,
                              const struct watch_change *change, enum err *ret_err)
{
    struct watch_cached *slot =
        &engine->cache[(change->number + 31 * watch->form) % WATCH_CACHE_SLOTS];
    struct pack event;

    if (slot->used && slot->number == change->number && slot->form == watch->form)
        return buf_peek(&slot->bytes);
    event = pack_begin(&engine->event);
    watch->stream->api->event(watch, change, &event);
    *ret_err = event.err;
    if (event.err || engine->event.len > CACHE_BYTES_MAX) return buf_peek(&engine->event);
    buf_clear(&slot->bytes);
    slot->used = !buf_append(&slot->bytes, buf_peek(&engine->event));
    slot->number = change->number;
    slot->form = watch->form;
    return buf_peek(&engine->event);
}

/* Appends the events of unsent changes to `into`. `walk_max` 0: appends at most one revision. */
static enum walk_end history_walk(struct watch_engine *engine, const struct watch *watch,
                                  struct buf *into, size_t walk_max, struct watch_walk *w)
{
    const struct keys *keys = engine_keys(engine);
    uint64_t end = keys_changes(keys).end;
    size_t walked = 0, revisions = 0, start = into->len;

    for (; w->at < end; w->at++) {
        struct watch_change change;
        struct str event;
        bool fresh;

        change.number = w->at;
        keys_change_at(keys, w->at, &change.now, &change.before);
        fresh = !w->inside || change.now.mod != w->revision;
        if (!fresh && (walked >= walk_max + LARGE_STEP || into->len - start > LARGE_BYTES))
            return WALK_WITHIN;
        w->revision = change.now.mod;
        w->sub = change.now.sub;
        if (fresh && w->inside &&
            (walked >= walk_max || revisions >= MESSAGE_REVISIONS || into->len > MESSAGE_BYTES))
            return WALK_BETWEEN;
        w->has = w->has && !fresh;
        w->inside = true;
        walked++;
        engine->walked++;
        if (!watch_wants(watch, &change.now) || !watch_has_key(watch, change.now.key)) continue;
        event = event_bytes(engine, watch, &change, &w->err);
        if (watch->split && into->len && into->len + event.len + HEAD_ROOM >= watch->split)
            return w->has ? WALK_SPLIT : WALK_BETWEEN;
        if (!w->err) w->err = buf_append(into, event);
        if (w->err) return WALK_FAILED;
        revisions += !w->has;
        w->has = true;
        w->events++;
        w->bytes += change.now.key.len + change.now.value.len;
    }
    w->revision = keys_revision(keys);
    w->sub = 0;
    return WALK_DONE;
}

/* -- sending -- */

struct pack watch_message(struct watch_engine *engine)
{
    return pack_begin(&engine->message);
}

enum err watch_send(struct watch_stream *stream, const struct pack *message)
{
    struct watch_engine *engine = stream->engine;
    enum err err =
        message->err ? message->err : stream->api->send(stream, buf_peek(&engine->message));

    if (err == ERR_FULL) stream->blocked = true;
    if (engine->message.cap > MESSAGE_KEPT) {
        buf_deinit(&engine->message);
        buf_init(&engine->message, (size_t)2 * LARGE_MAX);
    }
    return err;
}

/* last revision whose events the message contains completely */
static uint64_t complete_up_to(enum walk_end end, const struct watch_walk *w)
{
    return end == WALK_BETWEEN ? w->revision - 1 : w->revision;
}

static enum err events_send(struct watch *watch, const struct buf *events, enum walk_end end,
                            const struct watch_walk *w)
{
    struct watch_engine *engine = watch->stream->engine;
    struct pack message = watch_message(engine);
    enum err err;

    watch->stream->api->head(watch, complete_up_to(end, w), end == WALK_SPLIT, &message);
    if (!message.err) message.err = buf_append(&engine->message, buf_peek(events));
    err = watch_send(watch->stream, &message);
    if (err) return err;
    watch->sent_revision = complete_up_to(end, w) - (end == WALK_SPLIT);
    if (engine->options.events) *engine->options.events += w->events;
    return ERR_OK;
}

/* Updates the position after a message was sent, failed, or was not needed. */
static void events_sent(struct watch *watch, enum err err, enum walk_end end,
                        const struct watch_walk *w)
{
    if (err == ERR_FULL) {
        watch_wake(watch);
        return;
    }
    if (err) {
        watch->stream->api->broken(watch->stream, err);
        return;
    }
    if (end == WALK_DONE) {
        bool first = !watch->live;

        set_sent_all(watch);
        if (first) watch->stream->api->idle(watch);
        return;
    }
    watch->waiting -= (uint32_t)min_u64(watch->waiting, w->events);
    watch->waiting_bytes -= min_u64(watch->waiting_bytes, w->bytes);
    set_behind(watch, w->at, w->revision, end == WALK_SPLIT ? w->sub : 0);
    watch_wake(watch);
}

static void large_drop(struct watch_engine *engine)
{
    engine->large.watch = NULL;
    if (engine->large.events.cap > TURN_BYTES) {
        buf_deinit(&engine->large.events);
        buf_init(&engine->large.events, LARGE_MAX);
    }
    buf_clear(&engine->large.events);
}

static void large_begin(struct watch *watch, const struct watch_walk *w)
{
    struct watch_engine *engine = watch->stream->engine;
    struct buf events = engine->large.events;

    if (engine->large.watch) {
        list_append(&engine->large_waiting, &watch->ready);
        return;
    }
    engine->large.watch = watch;
    engine->large.walk = *w;
    engine->large.events = engine->events;
    engine->events = events;
    pump_soon(engine);
}

static void large_step(struct watch_engine *engine)
{
    struct watch *watch = engine->large.watch;
    struct watch_walk w = engine->large.walk;
    enum walk_end end;
    enum err err;

    if (watch->stream->blocked) {
        large_drop(engine);
        watch_wake(watch);
        return;
    }
    end = history_walk(engine, watch, &engine->large.events, 0, &w);
    if (end == WALK_WITHIN) {
        engine->large.walk = w;
        return;
    }
    if (end == WALK_FAILED && w.err == ERR_FULL) {
        large_drop(engine);
        watch->stream->api->too_large(watch);
        return;
    }
    err = end == WALK_FAILED ? w.err
          : w.events         ? events_send(watch, &engine->large.events, end, &w)
                             : ERR_OK;
    large_drop(engine);
    events_sent(watch, err, end, &w);
}

static void large_next(struct watch_engine *engine)
{
    struct list *node;

    while (!engine->large.watch && (node = list_pop(&engine->large_waiting))) {
        struct watch *watch = CONTAINER_OF(node, struct watch, ready);

        watch_wake(watch);
        if (!watch->stream->blocked) break; /* blocked: the next watch's turn */
    }
}

static void watch_send_events(struct watch *watch)
{
    struct watch_engine *engine = watch->stream->engine;
    struct watch_walk w = {
        .at = watch->next, .revision = watch->next_revision, .inside = watch->next_sub > 0};
    enum err err = ERR_OK;
    enum walk_end end;

    if (!is_in_history(watch)) {
        watch->stream->api->lost(watch);
        return;
    }
    buf_clear(&engine->events);
    end = history_walk(engine, watch, &engine->events, WALK_MAX, &w);
    if (end == WALK_WITHIN) {
        large_begin(watch, &w);
        return;
    }
    if (end == WALK_FAILED)
        err = w.err;
    else if (w.events)
        err = events_send(watch, &engine->events, end, &w);
    events_sent(watch, err, end, &w);
}

/* Sends each watch with unsent changes one message, within the budget of the turn. Further messages
 * follow in later turns. */
static void on_pump(struct task *task)
{
    struct watch_engine *engine = CONTAINER_OF(task, struct watch_engine, pump);
    size_t bytes = 0, messages = 0;
    struct list round, *node;

    engine->walked = 0;
    /* pumping resumes in restored() */
    if (store_machine_restoring(engine->options.machine)) return;
    if (timer_running(&engine->next_turn)) return;
    if (engine->large.watch) large_step(engine);
    list_init(&round);
    list_splice(&round, &engine->ready);
    while (bytes < TURN_BYTES && messages++ < TURN_MESSAGES && engine->walked < TURN_WALK &&
           (node = list_pop(&round))) {
        struct watch *watch = CONTAINER_OF(node, struct watch, ready);

        buf_clear(&engine->message);
        if (watch->ends)
            watch->stream->api->ends(watch);
        else if (watch->stream->blocked)
            watch_wake(watch);
        else if (watch_is_behind(watch))
            watch_send_events(watch);
        else
            watch->stream->api->idle(watch);
        bytes += engine->message.len;
    }
    list_splice(&round, &engine->ready); /* the longest-waiting watch is first */
    list_splice(&engine->ready, &round);
    large_next(engine);
    LIST_EACH_SAFE(&engine->asking, asking, next)
    {
        struct watch_stream *stream = CONTAINER_OF(asking, struct watch_stream, asking);

        if (!stream->behind && !stream->blocked) stream->api->caught_up(stream);
    }
    if (!list_empty(&engine->ready) || engine->large.watch) timer_start_in(&engine->next_turn, 0);
}

static void on_next_turn(struct timer *timer)
{
    pump_soon(CONTAINER_OF(timer, struct watch_engine, next_turn));
}

/* -- applied changes -- */

/* False: a limit of unsent events is exceeded. */
static bool count_waiting(struct watch *watch, const struct key_value *change)
{
    const struct watch_engine_options *options = &watch->stream->engine->options;
    uint64_t bytes = change->key.len + change->value.len;

    if (options->events_max && watch->waiting == options->events_max) return false;
    if (options->bytes_max && watch->waiting && watch->waiting_bytes + bytes > options->bytes_max)
        return false;
    watch->waiting++;
    watch->waiting_bytes += bytes;
    return true;
}

/* Wakes a watch without testing single changes, because there are too many or they have new
 * numbers. The watch then reads history from its position on. */
static void seen_many(struct watch *watch)
{
    const struct watch_engine *engine = watch->stream->engine;

    if (watch->is_lost) return;
    if (!watch_is_behind(watch))
        find_position(watch, max_u64(engine->revision + 1, watch->from_revision), 0);
    else if (engine->renumbered)
        find_position(watch, watch->next_revision, watch->next_sub);
}

static void on_seen(struct looker *looker, uint64_t number, const struct key_value *change)
{
    struct watch *watch = CONTAINER_OF(looker, struct watch, looker);

    if (!change) {
        seen_many(watch);
        return;
    }
    if ((watch_is_behind(watch) && !watch->bounded) || !watch_wants(watch, change)) return;
    if (!watch->exact && !watch_has_key(watch, change->key)) return;
    if (watch->bounded && watch->live && !count_waiting(watch, change)) {
        watch->stream->api->lost(watch);
    } else if (!watch_is_behind(watch)) {
        set_behind(watch, number, change->mod, 0);
        watch_wake(watch);
    }
}

void watch_engine_applied(struct watch_engine *engine, struct key_changes changes)
{
    const struct keys *keys = engine_keys(engine);
    bool watched = !list_empty(&engine->interest.all);
    bool many = changes.end - changes.first > LARGE_STEP;

    for (uint64_t n = changes.first; watched && !many && n < changes.end; n++) {
        struct key_value change, before;

        keys_change_at(keys, n, &change, &before);
        facts_note_claim(&engine->claims, watch_engine_store(engine), n, &change);
        interest_changed(&engine->interest, n, &change);
    }
    if (many) interest_changed_all(&engine->interest);
    engine->revision = keys_revision(keys);
    if (!list_empty(&engine->asking)) pump_soon(engine);
}

void watch_engine_restored(struct watch_engine *engine)
{
    struct watch *watch = engine->large.watch;

    for (size_t i = 0; i < WATCH_CACHE_SLOTS; i++) engine->cache[i].used = false;
    if (watch) {
        large_drop(engine);
        watch_wake(watch);
    }
    engine->renumbered = true;
    interest_changed_all(&engine->interest);
    engine->renumbered = false;
    engine->revision = keys_revision(engine_keys(engine));
    pump_soon(engine); /* watches may have been woken during the pump */
}

uint64_t watch_engine_visible(const struct watch_engine *engine)
{
    return max_u64(keys_revision(engine_keys(engine)), engine->forwarded);
}

/* -- streams and watches -- */

void watch_stream_init(struct watch_stream *stream, struct watch_engine *engine,
                       const struct watch_api *api)
{
    *stream = (struct watch_stream){.engine = engine, .api = api};
    list_init(&stream->waiting);
    list_init(&stream->asking);
}

void watch_stream_deinit(struct watch_stream *stream)
{
    assert(list_empty(&stream->waiting));
    list_remove(&stream->asking);
}

void watch_stream_writable(struct watch_stream *stream)
{
    stream->blocked = false;
    list_splice(&stream->engine->ready, &stream->waiting);
    pump_soon(stream->engine);
}

void watch_stream_ask(struct watch_stream *stream)
{
    if (list_empty(&stream->asking)) list_append(&stream->engine->asking, &stream->asking);
    pump_soon(stream->engine);
}

enum err watch_join(struct watch *watch)
{
    struct key_range bucket = {watch->bucket, STR_EMPTY};

    watch->exact = !watch->bucket.len && interest_exact(watch->range);
    watch->from_revision = WATCH_NOTHING;
    watch->next = WATCH_SENT_ALL;
    watch->looker.seen = on_seen;
    list_init(&watch->ready);
    return interest_join(&watch->stream->engine->interest,
                         watch->bucket.len ? bucket : watch->range, &watch->looker);
}

void watch_leave(struct watch *watch)
{
    struct watch_engine *engine = watch->stream->engine;

    if (engine->large.watch == watch) large_drop(engine);
    if (watch_is_behind(watch)) watch->stream->behind--;
    interest_leave(&engine->interest, &watch->looker);
    list_remove(&watch->ready);
    pump_soon(engine); /* other watches may have waited for the large revision */
}

/* -- life -- */

enum err watch_engine_open(const struct watch_engine_options *options,
                           struct watch_engine **ret_engine)
{
    struct watch_engine *engine = calloc(1, sizeof *engine);

    if (!engine) return ERR_NOMEM;
    engine->options = *options;
    if (timer_init(&engine->next_turn, options->io->loop, on_next_turn)) {
        free(engine);
        return ERR_FULL;
    }
    interest_init(&engine->interest, entropy_u64(options->io->entropy));
    list_init(&engine->ready);
    list_init(&engine->asking);
    list_init(&engine->large_waiting);
    task_init(&engine->pump, on_pump);
    buf_init(&engine->message, (size_t)2 * LARGE_MAX);
    buf_init(&engine->events, LARGE_MAX);
    buf_init(&engine->event, LARGE_MAX);
    buf_init(&engine->large.events, LARGE_MAX);
    for (size_t i = 0; i < WATCH_CACHE_SLOTS; i++)
        buf_init(&engine->cache[i].bytes, CACHE_BYTES_MAX);
    engine->revision = keys_revision(engine_keys(engine));
    *ret_engine = engine;
    return ERR_OK;
}

void watch_engine_close(struct watch_engine *engine)
{
    if (!engine) return;
    assert(list_empty(&engine->interest.all) && list_empty(&engine->asking));
    task_cancel(&engine->pump);
    timer_deinit(&engine->next_turn);
    interest_deinit(&engine->interest);
    free(engine->claims);
    for (size_t i = 0; i < WATCH_CACHE_SLOTS; i++) buf_deinit(&engine->cache[i].bytes);
    buf_deinit(&engine->message);
    buf_deinit(&engine->events);
    buf_deinit(&engine->event);
    buf_deinit(&engine->large.events);
    free(engine);
}

const struct store *watch_engine_store(const struct watch_engine *engine)
{
    return store_machine_store(engine->options.machine);
}
