/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of a watch (feed.h). Any thread may add events, and one thread reads. The lock
 * guards all but the fields that are set at open.
 *
 * Invariants: the descriptor is readable exactly while the reader has an event to read. The
 * reader gets, in this order: the rest of the current snapshot, RESYNC, the next snapshot,
 * events, CLOSED. RESYNC and CLOSED need no memory, so a loss is always reported. */
#include "prim/feed.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/list.h"
#include "base/map.h"
#include "prim/answer.h"
#include "prim/names.h"
#include "prim/thread.h"

struct event_item {
    struct list node;
    int type;
    uint64_t revision, token;
    size_t key_len, value_len, owner_len;
    char bytes[]; /* key NUL value NUL owner; callers print key and value */
};
struct prim_snapshot {
    const struct prim_feed *feed;
    struct list entries;
    uint64_t as_of;
};

/* The newest revisions of one key (W2). Only queued events can be dropped. */
struct seen {
    struct list node; /* in feed->dead while the key is absent */
    uint64_t queued, delivered;
    bool dead;
    struct str key; /* bytes behind the struct */
};
/* As many absent keys as live keys are remembered, but at least this many. */
enum { DEAD_KEPT_MIN = 4096 };

enum need {
    NEED_NOTHING,
    NEED_READER,   /* after the overflow: a snapshot, once the reader has read RESYNC */
    NEED_SNAPSHOT, /* a snapshot is needed now */
};

struct prim_feed {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int fd;
    bool signalled;

    bool resync;                /* RESYNC is queued */
    struct prim_snapshot *next; /* queued snapshot */
    struct list events;
    size_t event_count, bytes;
    int closed_reason;
    bool ended, finished; /* ended: CLOSED was queued; finished: the reader has read CLOSED */
    enum need need;
    uint64_t as_of;

    struct map seen;
    struct list dead;
    size_t dead_count;

    /* Fields of the reader. */
    bool begun;
    bool in_on_room;
    struct prim_snapshot *snapshot;
    struct event_item *current; /* the last returned event points into this item */
    void (*on_room)(void *owner);
    void *on_room_owner;

    prim_feed_event_fn *on_event; /* if set: no queue and no descriptor */
    void *event_owner;
    uint64_t since;
    bool bucket;
    size_t scope_len;
    char scope[];
};

struct prim_scope prim_feed_scope(const struct prim_feed *feed)
{
    return (struct prim_scope){str_of(feed->scope, feed->scope_len), feed->bucket};
}

bool prim_feed_covers(const struct prim_feed *feed, struct str key)
{
    return prim_in_scope(key, str_of(feed->scope, feed->scope_len), feed->bucket);
}

static size_t event_bytes(const struct event_item *event)
{
    return event->key_len + event->value_len + event->owner_len;
}

static struct str event_key(const struct event_item *event)
{
    return str_of(event->bytes, event->key_len);
}

static struct event_item *event_make(const struct prim_event *like)
{
    struct event_item *event =
        malloc(sizeof *event + like->key.len + like->value.len + like->owner.len + 2);
    if (event == NULL) return NULL;
    *event = (struct event_item){.type = like->type,
                                 .revision = like->revision,
                                 .token = like->token,
                                 .key_len = like->key.len,
                                 .value_len = like->value.len,
                                 .owner_len = like->owner.len};
    list_init(&event->node);
    char *at = event->bytes;
    str_put(&at, like->key);
    *at++ = '\0';
    str_put(&at, like->value);
    *at++ = '\0';
    str_put(&at, like->owner);
    return event;
}

/* -- the revisions of keys --------------------------------------------------------------------- */

static void seen_set_dead(struct prim_feed *feed, struct seen *seen, bool dead)
{
    if (seen->dead == dead) return;
    seen->dead = dead;
    if (dead) {
        list_append(&feed->dead, &seen->node);
        feed->dead_count++;
    } else {
        list_remove(&seen->node);
        feed->dead_count--;
    }
}

static void seen_forget(struct prim_feed *feed, struct seen *seen)
{
    seen_set_dead(feed, seen, false);
    (void)map_remove(&feed->seen, seen->key);
    free(seen);
}

static void seen_trim(struct prim_feed *feed)
{
    size_t live = map_count(&feed->seen) - feed->dead_count;
    while (feed->dead_count > max_size(live, DEAD_KEPT_MIN))
        seen_forget(feed, CONTAINER_OF(feed->dead.next, struct seen, node));
}

static struct seen *seen_get(struct prim_feed *feed, struct str key)
{
    struct seen *seen = map_make(&feed->seen, key, sizeof *seen);
    if (seen == NULL || seen->node.next != NULL) return seen;
    list_init(&seen->node);
    seen->key = str_of(seen + 1, key.len);
    return seen;
}

/* -- the queue -------------------------------------------------------------------------------- */

/* Under the lock. */
static void feed_signal(struct prim_feed *feed)
{
    bool waits = feed->snapshot != NULL || feed->resync || feed->next != NULL ||
                 !list_empty(&feed->events) || (feed->ended && !feed->finished);
    uint64_t count = 1;
    if (waits == feed->signalled) return;
    ssize_t moved =
        waits ? write(feed->fd, &count, sizeof count) : read(feed->fd, &count, sizeof count);
    assert(moved == (ssize_t)sizeof count); /* the counter is 0 or 1, so neither call can block */
    feed->signalled = waits;
    if (waits) (void)pthread_cond_signal(&feed->changed);
}

static void feed_free_events(struct list *events)
{
    struct list *node;
    while ((node = list_pop(events)) != NULL) free(CONTAINER_OF(node, struct event_item, node));
}

void prim_snapshot_close(struct prim_snapshot *snapshot)
{
    if (snapshot != NULL) feed_free_events(&snapshot->entries);
    free(snapshot);
}

static void feed_drop_waiting(struct prim_feed *feed)
{
    feed_free_events(&feed->events);
    feed->event_count = feed->bytes = 0;
    prim_snapshot_close(feed->next);
    feed->next = NULL;
}

/* Drops all queued events and queues RESYNC. Dropped events may be sent again. */
static void feed_lose(struct prim_feed *feed, enum need need)
{
    feed_drop_waiting(feed);
    struct map_entry *entry;
    for (size_t cursor = 0; (entry = map_next(&feed->seen, &cursor)) != NULL;) {
        struct seen *seen = entry->value;
        seen->queued = seen->delivered;
        if (seen->delivered == 0) seen_forget(feed, seen);
    }
    feed->as_of = 0; /* each delivered key has its own revision */
    feed->need = feed->begun ? need : NEED_SNAPSHOT;
    feed->resync = feed->begun;
    feed_signal(feed);
}

static bool queue_event(struct prim_feed *feed, const struct prim_event *like)
{
    struct event_item *event = event_make(like);
    if (event == NULL) return false;
    if (like->type != COORD_PROGRESS) {
        struct seen *seen = seen_get(feed, like->key);
        if (seen == NULL) {
            free(event);
            return false;
        }
        seen->queued = like->revision;
        seen_set_dead(feed, seen, like->type != COORD_PUT);
        seen_trim(feed);
    }
    feed->event_count++;
    feed->bytes += event_bytes(event);
    list_append(&feed->events, &event->node);
    feed_signal(feed);
    return true;
}

bool prim_feed_put(struct prim_feed *feed, const struct prim_event *event)
{
    size_t len = event->key.len + event->value.len + event->owner.len;
    bool taken = true;
    if (event->type != COORD_PROGRESS && !prim_feed_covers(feed, event->key)) return true;
    if (feed->on_event) {
        feed->on_event(feed->event_owner, event);
        return true;
    }
    (void)pthread_mutex_lock(&feed->lock);
    const struct seen *seen =
        event->type == COORD_PROGRESS ? NULL : map_get(&feed->seen, event->key);
    if (feed->ended || feed->need != NEED_NOTHING) {
        taken = false;
    } else if (event->revision <= feed->as_of ||
               (seen != NULL && event->revision <= seen->queued)) {
        taken = true; /* the reader has this revision already */
    } else if (feed->event_count == FEED_EVENTS_MAX || len > FEED_BYTES_MAX - feed->bytes ||
               !queue_event(feed, event)) {
        feed_lose(feed, NEED_READER);
        taken = false;
    }
    (void)pthread_mutex_unlock(&feed->lock);
    return taken;
}

void prim_feed_on_room(struct prim_feed *feed, void (*on_room)(void *owner), void *owner)
{
    (void)pthread_mutex_lock(&feed->lock);
    feed->on_room = on_room;
    feed->on_room_owner = owner;
    while (feed->in_on_room) (void)pthread_cond_wait(&feed->changed, &feed->lock);
    (void)pthread_mutex_unlock(&feed->lock);
}

bool prim_feed_wants_snapshot(struct prim_feed *feed)
{
    (void)pthread_mutex_lock(&feed->lock);
    bool wants = feed->need == NEED_SNAPSHOT && !feed->ended;
    (void)pthread_mutex_unlock(&feed->lock);
    return wants;
}

void prim_feed_resync(struct prim_feed *feed)
{
    (void)pthread_mutex_lock(&feed->lock);
    if (!feed->ended) feed_lose(feed, NEED_SNAPSHOT);
    (void)pthread_mutex_unlock(&feed->lock);
}

void prim_feed_end(struct prim_feed *feed, int reason)
{
    if (feed->on_event) {
        feed->on_event(feed->event_owner, &(struct prim_event){.type = COORD_CLOSED});
        return;
    }
    (void)pthread_mutex_lock(&feed->lock);
    if (!feed->ended) {
        feed->ended = true;
        feed->closed_reason = reason;
        feed_signal(feed);
    }
    (void)pthread_mutex_unlock(&feed->lock);
}

/* -- snapshots -------------------------------------------------------------------------------- */

struct prim_snapshot *prim_snapshot_open(const struct prim_feed *feed)
{
    struct prim_snapshot *snapshot = calloc(1, sizeof *snapshot);
    if (snapshot == NULL) return NULL;
    snapshot->feed = feed;
    list_init(&snapshot->entries);
    return snapshot;
}

bool prim_snapshot_add(struct prim_snapshot *snapshot, const struct prim_event *entry)
{
    if (!prim_feed_covers(snapshot->feed, entry->key)) return true;
    struct event_item *event = event_make(entry);
    if (event == NULL) return false;
    event->type = COORD_ENTRY;
    list_append(&snapshot->entries, &event->node);
    return true;
}

/* Marks the snapshot's keys as live and all other keys as absent. */
static bool seen_from(struct prim_feed *feed, const struct prim_snapshot *snapshot)
{
    struct map_entry *entry;
    for (size_t cursor = 0; (entry = map_next(&feed->seen, &cursor)) != NULL;)
        seen_set_dead(feed, entry->value, true);
    LIST_EACH(&snapshot->entries, node)
    {
        const struct event_item *event = CONTAINER_OF(node, struct event_item, node);
        struct seen *seen = seen_get(feed, event_key(event));
        if (seen == NULL) return false;
        seen->queued = max_u64(seen->queued, event->revision);
        seen_set_dead(feed, seen, false);
    }
    seen_trim(feed);
    return true;
}

static void snapshot_direct(struct prim_feed *feed, struct prim_snapshot *own_snapshot,
                            uint64_t as_of)
{
    prim_feed_event_fn *on_event = feed->on_event;
    struct prim_event mark = {.type = COORD_SNAPSHOT_BEGIN};
    (void)pthread_mutex_lock(&feed->lock);
    feed->need = NEED_NOTHING;
    (void)pthread_mutex_unlock(&feed->lock);
    on_event(feed->event_owner, &mark);
    LIST_EACH(&own_snapshot->entries, node)
    {
        const struct event_item *item = CONTAINER_OF(node, struct event_item, node);
        on_event(feed->event_owner, &(struct prim_event){.type = COORD_ENTRY,
                                                         .revision = item->revision,
                                                         .token = item->token,
                                                         .key = event_key(item)});
    }
    mark = (struct prim_event){.type = COORD_SNAPSHOT_END, .revision = as_of};
    on_event(feed->event_owner, &mark);
    prim_snapshot_close(own_snapshot);
}

void prim_feed_snapshot(struct prim_feed *feed, struct prim_snapshot *own_snapshot, uint64_t as_of)
{
    if (feed->on_event) {
        snapshot_direct(feed, own_snapshot, as_of);
        return;
    }
    (void)pthread_mutex_lock(&feed->lock);
    if (feed->ended) {
        prim_snapshot_close(own_snapshot);
    } else {
        /* Nobody asked for the snapshot, so the reader must get RESYNC first. */
        if (feed->need == NEED_NOTHING) feed_lose(feed, NEED_SNAPSHOT);
        if (seen_from(feed, own_snapshot)) {
            own_snapshot->as_of = feed->as_of = as_of;
            feed->need = NEED_NOTHING;
            feed->next = own_snapshot;
            feed_signal(feed);
        } else {
            prim_snapshot_close(own_snapshot);
            feed_lose(feed, NEED_READER);
        }
    }
    (void)pthread_mutex_unlock(&feed->lock);
}

/* -- reader ----------------------------------------------------------------------------------- */

static struct prim_feed *feed_make(struct prim_scope scope, int fd)
{
    struct prim_feed *feed = calloc(1, sizeof *feed + scope.name.len);
    if (feed == NULL) return NULL;
    feed->fd = fd;
    feed->bucket = scope.bucket;
    feed->scope_len = scope.name.len;
    if (scope.name.len > 0) memcpy(feed->scope, scope.name.at, scope.name.len);
    prim_cond_init(&feed->changed);
    (void)pthread_mutex_init(&feed->lock, NULL);
    list_init(&feed->events);
    list_init(&feed->dead);
    feed->need = NEED_SNAPSHOT;
    map_init(&feed->seen, MAP_MOST, prim_random());
    return feed;
}

struct prim_feed *prim_feed_open(struct prim_scope scope)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct prim_feed *feed = fd < 0 ? NULL : feed_make(scope, fd);
    if (feed == NULL && fd >= 0) (void)close(fd);
    return feed;
}

struct prim_feed *prim_feed_open_direct(struct prim_scope scope, uint64_t since,
                                        prim_feed_event_fn *on_event, void *owner)
{
    struct prim_feed *feed = feed_make(scope, -1);
    if (feed == NULL) return NULL;
    feed->on_event = on_event;
    feed->event_owner = owner;
    feed->since = since;
    return feed;
}

uint64_t prim_feed_since(const struct prim_feed *feed)
{
    return feed->since;
}

void prim_feed_close(struct prim_feed *feed)
{
    if (feed == NULL) return;
    feed_drop_waiting(feed);
    prim_snapshot_close(feed->snapshot);
    free(feed->current);
    map_free(&feed->seen);
    if (feed->fd >= 0) (void)close(feed->fd);
    (void)pthread_cond_destroy(&feed->changed);
    (void)pthread_mutex_destroy(&feed->lock);
    free(feed);
}

int prim_feed_fd(struct prim_feed *feed)
{
    return feed->fd;
}

static void feed_show(struct prim_feed *feed, struct event_item *own_event, coord_event *ret_event)
{
    const char *at = own_event->bytes;
    *ret_event = (coord_event){.type = own_event->type,
                               .revision = own_event->revision,
                               .token = own_event->token,
                               .key = {at, own_event->key_len},
                               .value = {at + own_event->key_len + 1, own_event->value_len}};
    size_t len = min_size(own_event->owner_len, sizeof ret_event->owner - 1);
    memcpy(ret_event->owner, at + own_event->key_len + own_event->value_len + 2, len);
    feed->current = own_event;
    struct seen *seen =
        own_event->type == COORD_PROGRESS ? NULL : map_get(&feed->seen, event_key(own_event));
    if (seen != NULL) seen->delivered = max_u64(seen->delivered, own_event->revision);
}

/* Under the lock; an event must be queued. */
static void feed_take(struct prim_feed *feed, coord_event *ret_event)
{
    struct list *node;
    feed->begun = true;
    if (feed->snapshot != NULL && (node = list_pop(&feed->snapshot->entries)) != NULL) {
        feed_show(feed, CONTAINER_OF(node, struct event_item, node), ret_event);
    } else if (feed->snapshot != NULL) {
        *ret_event = (coord_event){.type = COORD_SNAPSHOT_END, .revision = feed->snapshot->as_of};
        prim_snapshot_close(feed->snapshot);
        feed->snapshot = NULL;
    } else if (feed->resync) {
        *ret_event = (coord_event){.type = COORD_RESYNC};
        feed->resync = false;
    } else if (feed->next != NULL) {
        *ret_event = (coord_event){.type = COORD_SNAPSHOT_BEGIN};
        feed->snapshot = feed->next;
        feed->next = NULL;
    } else if ((node = list_pop(&feed->events)) != NULL) {
        struct event_item *event = CONTAINER_OF(node, struct event_item, node);
        feed->event_count--;
        feed->bytes -= event_bytes(event);
        feed_show(feed, event, ret_event);
    } else {
        *ret_event = (coord_event){.type = COORD_CLOSED, .reason = feed->closed_reason};
        feed->finished = true;
    }
}

/* Under the lock. False: no event came in time. */
static bool feed_wait(struct prim_feed *feed, int64_t wait_ms)
{
    struct timespec until = prim_until_ms(wait_ms > 0 ? wait_ms : 0);
    while (!feed->signalled && !feed->finished) {
        int late = 0;
        if (wait_ms == 0) return false;
        if (wait_ms < 0)
            (void)pthread_cond_wait(&feed->changed, &feed->lock);
        else
            late = pthread_cond_timedwait(&feed->changed, &feed->lock, &until);
        if (late != 0 && !feed->signalled) return false;
    }
    return feed->signalled;
}

int prim_feed_next(struct prim_feed *feed, int64_t wait_ms, coord_event *ret_event)
{
    void (*on_room)(void *owner) = NULL;
    void *owner = NULL;
    (void)pthread_mutex_lock(&feed->lock);
    free(feed->current);
    feed->current = NULL;
    bool got = feed_wait(feed, wait_ms);
    if (got) {
        feed_take(feed, ret_event);
        if (ret_event->type == COORD_RESYNC && feed->need == NEED_READER && !feed->ended) {
            feed->need = NEED_SNAPSHOT;
            on_room = feed->on_room;
            owner = feed->on_room_owner;
            feed->in_on_room = on_room != NULL;
        }
        feed_signal(feed);
    }
    (void)pthread_mutex_unlock(&feed->lock);
    if (on_room != NULL) {
        on_room(owner);
        (void)pthread_mutex_lock(&feed->lock);
        feed->in_on_room = false;
        (void)pthread_cond_signal(&feed->changed);
        (void)pthread_mutex_unlock(&feed->lock);
    }
    return got ? 1 : 0;
}
