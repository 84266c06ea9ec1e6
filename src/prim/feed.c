/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/feed.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/list.h"
#include "base/map.h"
#include "prim/answer.h"
#include "prim/thread.h"

/* What waits for the reader is a list of items. RESYNC and CLOSED are members of the feed, so that
 * saying "something was lost" can never itself fail for want of memory. */
enum kind { ITEM_EVENT, ITEM_SNAPSHOT, ITEM_RESYNC, ITEM_CLOSED };
struct item {
    struct list node;
    enum kind kind;
};
struct event_item {
    struct item item;
    int type;
    uint64_t revision, token;
    size_t key_len, value_len, owner_len;
    char bytes[]; /* key, value, owner; a NUL after the first two, for callers that print */
};
struct prim_snapshot {
    struct item item;
    struct list entries; /* event_item */
    uint64_t as_of;
};

/* W2, per key. What was queued may be dropped again; what was delivered cannot be taken back. */
struct seen {
    struct list node; /* in feed->dead while the key is absent */
    uint64_t queued, delivered;
    bool dead;
    size_t key_len;
    char key[];
};
/* Revisions of absent keys are kept for as many keys as there are live ones, and at least these. */
enum { DEAD_KEPT_MIN = 4096 };

enum need {
    NEED_NOTHING,
    NEED_READER,   /* overflow: until RESYNC is read a snapshot would only take memory */
    NEED_SNAPSHOT, /* now */
};

struct prim_feed {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int fd;
    bool signalled; /* fd is readable */

    struct list items;
    struct item resync, closed;
    int closed_reason;
    bool ended, finished; /* CLOSED is queued; CLOSED was read */
    enum need need;
    size_t events, bytes; /* what waits; a snapshot counts nothing */
    uint64_t as_of;       /* of the last snapshot */

    struct map seen;
    struct list dead;
    size_t dead_count;

    /* Reader's. */
    bool begun;                     /* it has been given anything */
    bool in_on_room;                /* a call of on_room is under way */
    struct prim_snapshot *snapshot; /* being read */
    struct event_item *current;     /* what the last event points to */
    void (*on_room)(void *owner);
    void *on_room_owner;

    prim_feed_event_fn *on_event; /* not NULL: no queue, no descriptor */
    void *event_owner;
    uint64_t since;
};

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
    *event = (struct event_item){.item = {.kind = ITEM_EVENT},
                                 .type = like->type,
                                 .revision = like->revision,
                                 .token = like->token,
                                 .key_len = like->key.len,
                                 .value_len = like->value.len,
                                 .owner_len = like->owner.len};
    list_init(&event->item.node);
    char *at = event->bytes;
    if (like->key.len > 0) memcpy(at, like->key.at, like->key.len);
    at += like->key.len;
    *at++ = '\0';
    if (like->value.len > 0) memcpy(at, like->value.at, like->value.len);
    at += like->value.len;
    *at++ = '\0';
    if (like->owner.len > 0) memcpy(at, like->owner.at, like->owner.len);
    return event;
}

/* -- what was seen ---------------------------------------------------------------------------- */

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
    (void)map_remove(&feed->seen, str_of(seen->key, seen->key_len));
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
    struct seen *seen = map_get(&feed->seen, key);
    if (seen != NULL) return seen;
    seen = malloc(sizeof *seen + key.len);
    if (seen == NULL) return NULL;
    *seen = (struct seen){.key_len = key.len};
    list_init(&seen->node);
    if (key.len > 0) memcpy(seen->key, key.at, key.len);
    if (map_put(&feed->seen, str_of(seen->key, key.len), seen) != ERR_OK) {
        free(seen);
        return NULL;
    }
    return seen;
}

static void seen_delivered(struct prim_feed *feed, const struct event_item *event)
{
    struct seen *seen = map_get(&feed->seen, event_key(event));
    if (seen != NULL) seen->delivered = max_u64(seen->delivered, event->revision);
}

/* -- what waits ------------------------------------------------------------------------------- */

/* Under the lock. The descriptor follows the list: readable exactly while something waits. */
static void feed_signal(struct prim_feed *feed)
{
    bool waits = !list_empty(&feed->items) || feed->snapshot != NULL;
    uint64_t count = 1;
    if (waits == feed->signalled) return;
    ssize_t moved =
        waits ? write(feed->fd, &count, sizeof count) : read(feed->fd, &count, sizeof count);
    assert(moved == (ssize_t)sizeof count); /* the counter is 0 or 1: neither can block */
    feed->signalled = waits;
}

static void feed_append(struct prim_feed *feed, struct item *item)
{
    list_append(&feed->items, &item->node);
    feed_signal(feed);
    (void)pthread_cond_signal(&feed->changed);
}

static void snapshot_free(struct prim_snapshot *snapshot)
{
    if (snapshot == NULL) return;
    LIST_EACH_SAFE(&snapshot->entries, node, following)
    {
        free(CONTAINER_OF(node, struct event_item, item.node));
    }
    free(snapshot);
}

static void feed_drop_waiting(struct prim_feed *feed)
{
    LIST_EACH_SAFE(&feed->items, node, following)
    {
        struct item *item = CONTAINER_OF(node, struct item, node);
        if (item->kind == ITEM_EVENT)
            free(CONTAINER_OF(item, struct event_item, item));
        else if (item->kind == ITEM_SNAPSHOT)
            snapshot_free(CONTAINER_OF(item, struct prim_snapshot, item));
        else
            list_init(node); /* the feed's own: RESYNC, CLOSED */
    }
    list_init(&feed->items);
    feed->events = feed->bytes = 0;
}

/* Drops all waiting events, and the reader gets RESYNC. Events that it never saw may come again. */
static void feed_lose(struct prim_feed *feed, enum need need)
{
    feed_drop_waiting(feed);
    struct map_entry *entry;
    for (size_t cursor = 0; (entry = map_next(&feed->seen, &cursor)) != NULL;) {
        struct seen *seen = entry->value;
        seen->queued = seen->delivered;
        if (seen->delivered == 0) seen_forget(feed, seen);
    }
    feed->as_of = 0; /* as far as it was delivered, the keys' own revisions keep it */
    feed->need = feed->begun ? need : NEED_SNAPSHOT;
    if (feed->begun) feed_append(feed, &feed->resync);
    feed_signal(feed);
}

/* False: no memory. */
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
    feed->events++;
    feed->bytes += event_bytes(event);
    feed_append(feed, &event->item);
    return true;
}

bool prim_feed_put(struct prim_feed *feed, const struct prim_event *event)
{
    size_t len = event->key.len + event->value.len + event->owner.len;
    bool taken = true;
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
        taken = true; /* known already: nothing is missing */
    } else if (feed->events == FEED_EVENTS_MAX || len > FEED_BYTES_MAX - feed->bytes ||
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
        feed_append(feed, &feed->closed);
    }
    (void)pthread_mutex_unlock(&feed->lock);
}

/* -- snapshots -------------------------------------------------------------------------------- */

struct prim_snapshot *prim_snapshot_open(void)
{
    struct prim_snapshot *snapshot = calloc(1, sizeof *snapshot);
    if (snapshot == NULL) return NULL;
    snapshot->item.kind = ITEM_SNAPSHOT;
    list_init(&snapshot->item.node);
    list_init(&snapshot->entries);
    return snapshot;
}

void prim_snapshot_close(struct prim_snapshot *snapshot)
{
    snapshot_free(snapshot);
}

bool prim_snapshot_add(struct prim_snapshot *snapshot, const struct prim_event *entry)
{
    struct event_item *event = event_make(entry);
    if (event == NULL) return false;
    event->type = COORD_ENTRY;
    list_append(&snapshot->entries, &event->item.node);
    return true;
}

/* From now on the keys of the snapshot are the live ones, and every other is absent. */
static bool seen_from(struct prim_feed *feed, const struct prim_snapshot *snapshot)
{
    struct map_entry *entry;
    for (size_t cursor = 0; (entry = map_next(&feed->seen, &cursor)) != NULL;)
        seen_set_dead(feed, entry->value, true);
    LIST_EACH(&snapshot->entries, node)
    {
        const struct event_item *event = CONTAINER_OF(node, struct event_item, item.node);
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
        const struct event_item *item = CONTAINER_OF(node, struct event_item, item.node);
        on_event(feed->event_owner, &(struct prim_event){.type = COORD_ENTRY,
                                                         .revision = item->revision,
                                                         .token = item->token,
                                                         .key = event_key(item)});
    }
    mark = (struct prim_event){.type = COORD_SNAPSHOT_END, .revision = as_of};
    on_event(feed->event_owner, &mark);
    snapshot_free(own_snapshot);
}

void prim_feed_snapshot(struct prim_feed *feed, struct prim_snapshot *own_snapshot, uint64_t as_of)
{
    if (feed->on_event) {
        snapshot_direct(feed, own_snapshot, as_of);
        return;
    }
    (void)pthread_mutex_lock(&feed->lock);
    if (feed->ended) {
        snapshot_free(own_snapshot);
    } else {
        /* One that was not asked for: the reader must not take it for more of the stream. */
        if (feed->need == NEED_NOTHING) feed_lose(feed, NEED_SNAPSHOT);
        if (seen_from(feed, own_snapshot)) {
            own_snapshot->as_of = feed->as_of = as_of;
            feed->need = NEED_NOTHING;
            feed_append(feed, &own_snapshot->item);
        } else {
            snapshot_free(own_snapshot);
            feed_lose(feed, NEED_READER);
        }
    }
    (void)pthread_mutex_unlock(&feed->lock);
}

/* -- reader ----------------------------------------------------------------------------------- */

static struct prim_feed *feed_make(int fd)
{
    struct prim_feed *feed = calloc(1, sizeof *feed);
    if (feed == NULL) return NULL;
    feed->fd = fd;
    prim_cond_init(&feed->changed);
    (void)pthread_mutex_init(&feed->lock, NULL);
    list_init(&feed->items);
    list_init(&feed->dead);
    feed->resync.kind = ITEM_RESYNC;
    list_init(&feed->resync.node);
    feed->closed.kind = ITEM_CLOSED;
    list_init(&feed->closed.node);
    feed->need = NEED_SNAPSHOT;
    map_init(&feed->seen, MAP_MOST, prim_random());
    return feed;
}

struct prim_feed *prim_feed_open(void)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct prim_feed *feed = fd < 0 ? NULL : feed_make(fd);
    if (feed == NULL && fd >= 0) (void)close(fd);
    return feed;
}

struct prim_feed *prim_feed_open_direct(uint64_t since, prim_feed_event_fn *on_event, void *owner)
{
    struct prim_feed *feed = feed_make(-1);
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
    snapshot_free(feed->snapshot);
    free(feed->current);
    struct map_entry *entry;
    for (size_t cursor = 0; (entry = map_next(&feed->seen, &cursor)) != NULL;) free(entry->value);
    map_deinit(&feed->seen);
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
    if (own_event->type != COORD_PROGRESS) seen_delivered(feed, own_event);
}

/* Under the lock; something waits. */
static void feed_take(struct prim_feed *feed, coord_event *ret_event)
{
    struct list *node;
    feed->begun = true;
    if (feed->snapshot != NULL) {
        node = list_pop(&feed->snapshot->entries);
        if (node != NULL) {
            feed_show(feed, CONTAINER_OF(node, struct event_item, item.node), ret_event);
            return;
        }
        *ret_event = (coord_event){.type = COORD_SNAPSHOT_END, .revision = feed->snapshot->as_of};
        snapshot_free(feed->snapshot);
        feed->snapshot = NULL;
        return;
    }
    node = list_pop(&feed->items);
    assert(node != NULL);
    struct item *item = CONTAINER_OF(node, struct item, node);
    switch (item->kind) {
    case ITEM_EVENT:
        feed->events--;
        feed->bytes -= event_bytes(CONTAINER_OF(item, struct event_item, item));
        feed_show(feed, CONTAINER_OF(item, struct event_item, item), ret_event);
        break;
    case ITEM_SNAPSHOT:
        feed->snapshot = CONTAINER_OF(item, struct prim_snapshot, item);
        *ret_event = (coord_event){.type = COORD_SNAPSHOT_BEGIN};
        break;
    case ITEM_RESYNC: *ret_event = (coord_event){.type = COORD_RESYNC}; break;
    case ITEM_CLOSED:
        *ret_event = (coord_event){.type = COORD_CLOSED, .reason = feed->closed_reason};
        feed->finished = true;
        break;
    }
}

/* Under the lock. False: nothing came in time. */
static bool wait_for_item(struct prim_feed *feed, int64_t wait_ms)
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
    bool got = wait_for_item(feed, wait_ms);
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
