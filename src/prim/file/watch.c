/* SPDX-License-Identifier: Apache-2.0 */
/* Watches and guards: one thread, one inotify descriptor, the directories of heads it looks at.
 *
 * Only head files are watched; temporary files, locks and lease records stand in directories that
 * nobody watches. An event names a file; what counts is the head that is read then, and whether its
 * revision is larger than the last one known. Expiry makes no event: deadlines are kept, and judged
 * when they are due, and every now and then before, because a holder may die early. Without inotify
 * the same is done by reading all heads every 250 ms. */
#include "prim/file/store.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/heap.h"
#include "prim/file/head_file.h"
#include "prim/file/lease_file.h"
#include "prim/names.h"
#include "prim/thread.h"

enum {
    POLL_MS = 250,
    WAIT_MS = 1000, /* at most: a deadline may come sooner than it seemed, after a suspend */
    LOOK_MS = 1000, /* at every lease: its holder may have died where no descriptor tells */
    JUDGE_MS = 200,
    TRACKS_MAX = 1 << 24,
    EVENTS_BYTES = 64 * 1024,
};

/* The heads of one bucket, as last seen. */
struct place {
    struct list node;
    struct bucket *bucket;
    int wd; /* -1: found by polling */
    unsigned refs;
    bool gone; /* the directory went away */
    struct map tracks;
};

struct track {
    struct heap_node timer; /* live and leased */
    struct place *place;
    uint64_t revision; /* the last one told */
    struct head head;  /* of a leased one; strings point to `key` and `owner` */
    bool seen;         /* by the scan that runs */
    char *key, *owner;
    char name[LAYOUT_NAME_CAP];
};

struct watch {
    struct list node;
    struct place *place;
    struct prim_feed *feed;
    bool bucket, snapshot_due, ended;
    char name[LAYOUT_NAME_CAP]; /* of a single key */
    size_t scope_len;
    char scope[];
};

struct guard {
    struct list node;
    coord_id lease_id;
    bool told;
    struct fate fate; /* to be told */
    size_t count;
    struct guard_key {
        struct place *place;
        struct prim_held held; /* its key is the one below */
        char name[LAYOUT_NAME_CAP], key[PRIM_SLOT_KEY_CAP];
    } keys[];
};

struct hub {
    struct file_store *store;
    pthread_mutex_t mutex;
    pthread_t thread;
    bool running;
    atomic_bool stop;
    int events, wake;
    struct list places, watches, guards;
    struct heap timers;
    struct deaths deaths;
    int64_t next_poll_ns;
    char buffer[EVENTS_BYTES] __attribute__((aligned(8)));
};

static void hub_wake(void *owner)
{
    struct hub *hub = owner;
    uint64_t one = 1;
    (void)!write(hub->wake, &one, sizeof one); /* full means that it is awake already */
}

/* -- places -- */

static void track_free(struct hub *hub, struct track *track)
{
    heap_remove(&hub->timers, &track->timer);
    free(track->key);
    free(track->owner);
    free(track);
}

static void place_put(struct hub *hub, struct place *place)
{
    struct map_entry *entry;
    if (--place->refs > 0) return;
    if (place->wd >= 0 && !place->gone) (void)inotify_rm_watch(hub->events, place->wd);
    for (size_t cursor = 0; (entry = map_next(&place->tracks, &cursor)) != NULL;)
        track_free(hub, entry->value);
    map_deinit(&place->tracks);
    list_remove(&place->node);
    bucket_put(hub->store, place->bucket);
    free(place);
    if (list_empty(&hub->places)) deaths_forget_all(&hub->deaths);
}

static void place_listen(struct hub *hub, struct place *place)
{
    char path[40];
    place->wd = -1;
    if (hub->events < 0) return;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", place->bucket->heads);
    place->wd =
        inotify_add_watch(hub->events, path, IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_ONLYDIR);
    if (place->wd < 0) atomic_store(&hub->store->poll, true);
}

static coord_result place_get(struct hub *hub, struct str key_bucket, struct place **ret_place)
{
    char name[LAYOUT_NAME_CAP];
    struct bucket *bucket;
    layout_name(key_bucket, name);
    LIST_EACH(&hub->places, node)
    {
        struct place *place = CONTAINER_OF(node, struct place, node);
        if (!place->gone && strcmp(place->bucket->name, name) == 0) {
            place->refs++;
            *ret_place = place;
            return prim_ok(COORD_R_NONE);
        }
    }
    coord_result result = bucket_get(hub->store, name, true, &bucket);
    if (result.code != COORD_OK) return result;
    struct place *place = calloc(1, sizeof *place);
    if (place == NULL) {
        bucket_put(hub->store, bucket);
        return prim_no_memory();
    }
    place->bucket = bucket;
    place->refs = 1;
    list_init(&place->node);
    map_init(&place->tracks, TRACKS_MAX, prim_random());
    place_listen(hub, place);
    list_append(&hub->places, &place->node);
    *ret_place = place;
    return result;
}

/* -- telling -- */

static bool watches_key(const struct watch *watch, const struct place *place, struct str key)
{
    return watch->place == place && !watch->ended &&
           prim_in_scope(key, str_of(watch->scope, watch->scope_len), watch->bucket);
}

static void tell(struct hub *hub, struct place *place, int type, const struct head *head,
                 uint64_t revision)
{
    struct prim_event event = {.type = type,
                               .revision = revision,
                               .token = head->token,
                               .key = head->key,
                               .owner = head->owner,
                               .value = type == COORD_PUT ? head->value : STR_EMPTY};
    LIST_EACH(&hub->watches, node)
    {
        struct watch *watch = CONTAINER_OF(node, struct watch, node);
        if (watch->snapshot_due || !watches_key(watch, place, head->key)) continue;
        if (!prim_feed_put(watch->feed, &event) && prim_feed_wants_snapshot(watch->feed))
            watch->snapshot_due = true;
    }
}

/* Nothing may go missing in silence: what cannot be remembered is sent as a whole again. */
static void tell_loss(struct hub *hub, struct place *only)
{
    LIST_EACH(&hub->watches, node)
    {
        struct watch *watch = CONTAINER_OF(node, struct watch, node);
        if (watch->ended || (only != NULL && watch->place != only)) continue;
        if (!watch->snapshot_due) prim_feed_resync(watch->feed);
        watch->snapshot_due = true;
    }
}

static void check_guard_key(struct hub *hub, struct guard *guard, const struct guard_key *key)
{
    struct fate fate;
    if (guard->told || guard->fate.reason != COORD_R_NONE) return;
    int64_t until = file_now(hub->store) + JUDGE_MS * NS_IN_MS;
    coord_result result = claim_fate(hub->store, &guard->lease_id, &key->held, false, until, &fate);
    /* Its own release is known where it was made. */
    if (result.code == COORD_OK && fate.reason != COORD_R_RELEASED) guard->fate = fate;
}

/* `name` NULL: all of the place. */
static void check_guards(struct hub *hub, const struct place *place, const char *name)
{
    LIST_EACH(&hub->guards, node)
    {
        struct guard *guard = CONTAINER_OF(node, struct guard, node);
        for (size_t i = 0; i < guard->count; i++) {
            const struct guard_key *key = &guard->keys[i];
            if (key->place == place && (name == NULL || strcmp(key->name, name) == 0))
                check_guard_key(hub, guard, key);
        }
    }
}

/* -- looking -- */

static struct track *track_get(struct place *place, const char *name)
{
    struct track *track = map_get(&place->tracks, str_from(name));
    if (track != NULL || strlen(name) >= LAYOUT_NAME_CAP) return track;
    track = calloc(1, sizeof *track);
    if (track == NULL) return NULL;
    track->place = place;
    memcpy(track->name, name, strlen(name) + 1);
    if (map_put(&place->tracks, str_from(track->name), track) != ERR_OK) {
        free(track);
        return NULL;
    }
    return track;
}

static void arm(struct hub *hub, struct track *track, int64_t deadline_ns)
{
    int64_t early = file_now(hub->store) + LOOK_MS * NS_IN_MS;
    int64_t due = deadline_ns < early ? deadline_ns : early;
    /* Without room for a timer an expiry would be missed. */
    if (heap_put(&hub->timers, &track->timer, (uint64_t)due) != ERR_OK)
        tell_loss(hub, track->place);
}

/* What is kept of a leased head until its end. */
static bool remember_lease(struct track *track, const struct head *head)
{
    char *key = str_dup(head->key), *owner = str_dup(head->owner);
    if (key == NULL || owner == NULL) {
        free(key);
        free(owner);
        return false;
    }
    free(track->key);
    free(track->owner);
    track->key = key;
    track->owner = owner;
    track->head = *head;
    track->head.key = str_of(key, head->key.len);
    track->head.owner = str_of(owner, head->owner.len);
    track->head.value = STR_EMPTY;
    return true;
}

/* The lease is over: told once, under the revision that no later change will have. */
static void expire(struct hub *hub, struct track *track)
{
    heap_remove(&hub->timers, &track->timer);
    track->revision = track->head.revision + 1;
    tell(hub, track->place, COORD_EXPIRE, &track->head, track->revision);
}

/* True: the lease of this head is over. */
static bool judge_track(struct hub *hub, struct track *track)
{
    struct verdict verdict;
    int64_t now = file_now(hub->store);
    coord_result result = judge(hub->store, &track->head, now + JUDGE_MS * NS_IN_MS, &verdict);
    if (result.code != COORD_OK) {
        arm(hub, track, now + JUDGE_MS * NS_IN_MS); /* looked at again soon */
        return false;
    }
    if (verdict.over) return true;
    if (hub->store->settings.early_death)
        deaths_add(&hub->deaths, &hub->store->facts, &track->head.who);
    arm(hub, track, verdict.deadline_ns);
    return false;
}

static void learn(struct hub *hub, struct track *track, const struct head *head)
{
    bool live = (head->flags & HEAD_LIVE) != 0, leased = (head->flags & HEAD_LEASED) != 0;
    track->revision = head->revision;
    heap_remove(&hub->timers, &track->timer);
    tell(hub, track->place, live ? COORD_PUT : COORD_DELETE, head, head->revision);
    if (!live || !leased) return;
    if (!remember_lease(track, head))
        tell_loss(hub, track->place);
    else if (judge_track(hub, track))
        expire(hub, track);
}

static bool add_to_snapshot(const struct watch *watch, const struct track *track,
                            const struct head *head, struct prim_snapshot *snapshot)
{
    struct prim_event entry = {.type = COORD_ENTRY,
                               .revision = head->revision,
                               .token = head->token,
                               .key = head->key,
                               .owner = head->owner,
                               .value = head->value};
    bool live = (head->flags & HEAD_LIVE) != 0 && track->revision == head->revision;
    return !live || !watches_key(watch, track->place, head->key) ||
           prim_snapshot_add(snapshot, &entry);
}

/* Of us and of this moment, not of the file: it will be readable later. */
static bool is_passing(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM;
}

/* Reads a head and tells what is new about it; `watch` and `snapshot` NULL, or what is live is
 * added. False: no memory or descriptor; it must be looked at again. */
static bool look(struct hub *hub, struct place *place, const char *name, const struct watch *watch,
                 struct prim_snapshot *snapshot)
{
    struct head_file file;
    bool good = true;
    if (name[0] == '.') return true;
    head_file_init(&file);
    int error = head_read(place->bucket->heads, name, STR_EMPTY, &file);
    if (is_passing(error)) good = false;
    if (error == 0 && file.found == HEAD_IS_THERE) {
        struct track *track = track_get(place, name);
        good = track != NULL;
        if (track != NULL && file.head.revision > track->revision) learn(hub, track, &file.head);
        if (track != NULL) track->seen = true;
        if (track != NULL && snapshot != NULL)
            good = add_to_snapshot(watch, track, &file.head, snapshot);
    }
    head_file_deinit(&file);
    return good;
}

struct scan {
    struct hub *hub;
    struct place *place;
    const struct watch *watch;
    struct prim_snapshot *snapshot;
    bool good;
};

static bool scan_name(void *context, const char *name)
{
    struct scan *scan = context;
    if (!look(scan->hub, scan->place, name, scan->watch, scan->snapshot)) scan->good = false;
    return true;
}

static void forget_name(struct hub *hub, struct place *place, const char *name)
{
    struct track *track = map_remove(&place->tracks, str_from(name));
    if (track != NULL) track_free(hub, track);
}

/* Reads the whole place; what is not there any more was collected. */
static bool scan_place(struct hub *hub, struct place *place, const struct watch *watch,
                       struct prim_snapshot *snapshot)
{
    struct scan scan = {
        .hub = hub, .place = place, .watch = watch, .snapshot = snapshot, .good = true};
    struct map_entry *entry;
    for (size_t cursor = 0; (entry = map_next(&place->tracks, &cursor)) != NULL;)
        ((struct track *)entry->value)->seen = false;
    if (sys_walk(place->bucket->heads, scan_name, &scan) != 0) return false;
    for (size_t cursor = 0; (entry = map_next(&place->tracks, &cursor)) != NULL;) {
        struct track *track = entry->value;
        if (track->seen) continue;
        (void)map_remove(&place->tracks, str_from(track->name));
        track_free(hub, track);
    }
    return scan.good;
}

static void send_snapshot(struct hub *hub, struct watch *watch)
{
    struct prim_snapshot *snapshot = prim_snapshot_open();
    if (snapshot == NULL) { return; } /* still due: tried again at the next turn */
    bool good = watch->bucket ? scan_place(hub, watch->place, watch, snapshot)
                              : look(hub, watch->place, watch->name, watch, snapshot);
    if (!good) {
        prim_snapshot_close(snapshot);
        return;
    }
    watch->snapshot_due = false;
    prim_feed_snapshot(watch->feed, snapshot, 0);
}

static void send_snapshots(struct hub *hub)
{
    LIST_EACH(&hub->watches, node)
    {
        struct watch *watch = CONTAINER_OF(node, struct watch, node);
        if (!watch->ended && (watch->snapshot_due || prim_feed_wants_snapshot(watch->feed))) {
            watch->snapshot_due = true; /* nothing is told while it is being made */
            send_snapshot(hub, watch);
        }
    }
}

/* -- events of the kernel -- */

static void place_is_gone(struct hub *hub, struct place *place)
{
    place->gone = true;
    LIST_EACH(&hub->watches, node)
    {
        struct watch *watch = CONTAINER_OF(node, struct watch, node);
        if (watch->place != place || watch->ended) continue;
        watch->ended = true;
        prim_feed_end(watch->feed, COORD_R_STORAGE);
    }
    check_guards(hub, place, NULL);
}

static void all_over_again(struct hub *hub)
{
    tell_loss(hub, NULL);
    LIST_EACH(&hub->places, node)
    {
        check_guards(hub, CONTAINER_OF(node, struct place, node), NULL);
    }
}

static void take_event(struct hub *hub, const struct inotify_event *event)
{
    if ((event->mask & IN_Q_OVERFLOW) != 0) {
        all_over_again(hub);
        return;
    }
    LIST_EACH(&hub->places, node)
    {
        struct place *place = CONTAINER_OF(node, struct place, node);
        if (place->wd != event->wd || place->gone) continue;
        if ((event->mask & (IN_IGNORED | IN_UNMOUNT)) != 0) {
            place_is_gone(hub, place);
        } else if (event->len > 0) {
            if ((event->mask & IN_DELETE) != 0)
                forget_name(hub, place, event->name);
            else if (!look(hub, place, event->name, NULL, NULL))
                tell_loss(hub, place);
            check_guards(hub, place, event->name);
        }
        return;
    }
}

static void take_events(struct hub *hub)
{
    for (;;) {
        ssize_t got = read(hub->events, hub->buffer, sizeof hub->buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return;
        for (ssize_t at = 0; at < got;) {
            const struct inotify_event *event = (const void *)(hub->buffer + at);
            at += (ssize_t)sizeof *event + (ssize_t)event->len;
            take_event(hub, event);
        }
    }
}

static void poll_places(struct hub *hub)
{
    struct stat info;
    int64_t now = file_now(hub->store);
    if (now < hub->next_poll_ns) return;
    hub->next_poll_ns = now + POLL_MS * NS_IN_MS;
    LIST_EACH(&hub->places, node)
    {
        struct place *place = CONTAINER_OF(node, struct place, node);
        if (place->gone) continue;
        /* The kernel tells of a directory's end only when nobody has it open, and we have. */
        if (fstat(place->bucket->heads, &info) < 0 || info.st_nlink == 0) {
            place_is_gone(hub, place);
            continue;
        }
        if (place->wd >= 0) continue;
        if (!scan_place(hub, place, NULL, NULL)) tell_loss(hub, place);
        check_guards(hub, place, NULL);
    }
}

static void take_deadlines(struct hub *hub)
{
    struct heap_node *node;
    uint64_t now = (uint64_t)file_now(hub->store);
    while ((node = heap_pop_due(&hub->timers, now)) != NULL) {
        struct track *track = CONTAINER_OF(node, struct track, timer);
        if (judge_track(hub, track)) expire(hub, track);
    }
}

/* -- the thread -- */

static int wait_ms(struct hub *hub)
{
    int64_t now = file_now(hub->store), until = now + WAIT_MS * NS_IN_MS;
    const struct heap_node *first = heap_peek(&hub->timers);
    if (first != NULL && (int64_t)first->due < until) until = (int64_t)first->due;
    LIST_EACH(&hub->places, node)
    {
        const struct place *place = CONTAINER_OF(node, struct place, node);
        if (place->wd < 0 && hub->next_poll_ns < until) until = hub->next_poll_ns;
    }
    return until <= now ? 0 : (int)((until - now + NS_IN_MS - 1) / NS_IN_MS);
}

/* Without our lock: the host may call us back. */
static void tell_host(struct hub *hub)
{
    for (;;) {
        struct fate fate = {0};
        coord_id id = {{0}};
        (void)pthread_mutex_lock(&hub->mutex);
        LIST_EACH(&hub->guards, node)
        {
            struct guard *guard = CONTAINER_OF(node, struct guard, node);
            if (guard->told || guard->fate.reason == COORD_R_NONE) continue;
            guard->told = true;
            fate = guard->fate;
            id = guard->lease_id;
            break;
        }
        (void)pthread_mutex_unlock(&hub->mutex);
        if (fate.reason == COORD_R_NONE) return;
        if (hub->store->host != NULL)
            hub->store->host->lost(hub->store->host, &id, fate.reason, fate.token);
    }
}

/* Its leases are looked at now. */
static void hear_death(struct hub *hub, uint32_t pid)
{
    struct map_entry *entry;
    LIST_EACH(&hub->places, node)
    {
        struct place *place = CONTAINER_OF(node, struct place, node);
        for (size_t cursor = 0; (entry = map_next(&place->tracks, &cursor)) != NULL;) {
            struct track *track = entry->value;
            if (track->timer.place != 0 && track->head.who.pid == pid)
                (void)heap_put(&hub->timers, &track->timer, 0); /* it is in: only moved */
        }
    }
}

static void *hub_run(void *arg)
{
    struct hub *hub = arg;
    uint64_t count;
    while (!atomic_load(&hub->stop)) {
        (void)pthread_mutex_lock(&hub->mutex);
        int timeout = wait_ms(hub);
        (void)pthread_mutex_unlock(&hub->mutex);
        struct pollfd fds[] = {{.fd = hub->wake, .events = POLLIN},
                               {.fd = hub->events, .events = POLLIN},
                               {.fd = hub->deaths.poll, .events = POLLIN}};
        (void)poll(fds, ARRAY_LEN(fds), timeout); /* a descriptor of -1 is skipped */
        (void)!read(hub->wake, &count, sizeof count);
        (void)pthread_mutex_lock(&hub->mutex);
        if (hub->events >= 0) take_events(hub);
        for (uint32_t pid; deaths_take(&hub->deaths, &pid);) hear_death(hub, pid);
        poll_places(hub);
        take_deadlines(hub);
        send_snapshots(hub);
        (void)pthread_mutex_unlock(&hub->mutex);
        tell_host(hub);
    }
    return NULL;
}

/* Holding the mutex. */
static coord_result hub_start(struct hub *hub)
{
    if (hub->running) return prim_ok(COORD_R_NONE);
    if (hub->wake < 0) hub->wake = sys_eventfd();
    if (hub->wake < 0) return file_trouble(errno, "make an event descriptor");
    if (hub->events < 0) {
        hub->events = sys_inotify();
        atomic_store(&hub->store->poll, hub->events < 0);
    }
    hub->running = prim_thread_start(&hub->thread, hub_run, hub);
    return hub->running ? prim_ok(COORD_R_NONE)
                        : prim_answer(COORD_UNAVAILABLE, COORD_R_OVERLOADED,
                                      "no thread for the watch could be started");
}

struct hub *file_hub_open(struct file_store *store)
{
    struct hub *hub = calloc(1, sizeof *hub);
    if (hub == NULL) return NULL;
    hub->store = store;
    hub->events = hub->wake = -1;
    deaths_open(&hub->deaths);
    (void)pthread_mutex_init(&hub->mutex, NULL);
    list_init(&hub->places);
    list_init(&hub->watches);
    list_init(&hub->guards);
    heap_init(&hub->timers, TRACKS_MAX);
    return hub;
}

static void guard_free(struct hub *hub, struct guard *guard)
{
    list_remove(&guard->node);
    for (size_t i = 0; i < guard->count; i++) place_put(hub, guard->keys[i].place);
    free(guard);
}

void file_hub_close(struct hub *hub)
{
    if (hub == NULL) return;
    atomic_store(&hub->stop, true);
    if (hub->running) {
        hub_wake(hub);
        (void)pthread_join(hub->thread, NULL);
    }
    assert(list_empty(&hub->watches));
    LIST_EACH_SAFE(&hub->guards, node, following)
    {
        guard_free(hub, CONTAINER_OF(node, struct guard, node));
    }
    assert(list_empty(&hub->places));
    heap_deinit(&hub->timers);
    deaths_close(&hub->deaths);
    sys_close(hub->events);
    sys_close(hub->wake);
    (void)pthread_mutex_destroy(&hub->mutex);
    free(hub);
}

/* -- from outside -- */

coord_result file_watch(struct prim_backend *backend, const struct prim_call *call,
                        struct str scope, bool bucket, struct prim_feed *feed, void **ret_watch)
{
    struct hub *hub = file_store_of(backend)->hub;
    (void)call;
    coord_result result = file_usable(hub->store);
    if (result.code != COORD_OK) return result;
    struct watch *watch = calloc(1, sizeof *watch + scope.len);
    if (watch == NULL) return prim_no_memory();
    list_init(&watch->node);
    watch->feed = feed;
    watch->bucket = bucket;
    watch->snapshot_due = true;
    watch->scope_len = scope.len;
    if (scope.len > 0) memcpy(watch->scope, scope.at, scope.len);
    layout_name(prim_leaf_of(scope), watch->name);
    (void)pthread_mutex_lock(&hub->mutex);
    result = hub_start(hub);
    if (result.code == COORD_OK)
        result = place_get(hub, bucket ? scope : prim_bucket_of(scope), &watch->place);
    if (result.code == COORD_OK) {
        prim_feed_on_room(feed, hub_wake, hub);
        list_append(&hub->watches, &watch->node);
    }
    (void)pthread_mutex_unlock(&hub->mutex);
    if (result.code != COORD_OK) {
        free(watch);
        return result;
    }
    hub_wake(hub);
    *ret_watch = watch;
    return result;
}

void file_unwatch(struct prim_backend *backend, void *handle)
{
    struct hub *hub = file_store_of(backend)->hub;
    struct watch *watch = handle;
    (void)pthread_mutex_lock(&hub->mutex);
    list_remove(&watch->node);
    place_put(hub, watch->place);
    (void)pthread_mutex_unlock(&hub->mutex);
    free(watch);
}

static struct guard *guard_make(struct hub *hub, const struct prim_claim *claim)
{
    struct guard *guard = calloc(1, sizeof *guard + claim->count * sizeof guard->keys[0]);
    if (guard == NULL) return NULL;
    list_init(&guard->node);
    guard->lease_id = claim->lease_id;
    for (size_t i = 0; i < claim->count; i++) {
        struct str key = str_from(claim->held[i].key);
        struct place *place = NULL;
        if (key.len < PRIM_SLOT_KEY_CAP) (void)place_get(hub, prim_bucket_of(key), &place);
        if (place == NULL) { continue; } /* renewals still look at it */
        struct guard_key *at = &guard->keys[guard->count++];
        at->place = place;
        at->held = claim->held[i];
        memcpy(at->key, key.at, key.len);
        at->held.key = at->key;
        layout_name(prim_leaf_of(key), at->name);
    }
    return guard;
}

static struct guard *guard_find(struct hub *hub, const coord_id *lease_id)
{
    LIST_EACH(&hub->guards, node)
    {
        struct guard *guard = CONTAINER_OF(node, struct guard, node);
        if (prim_id_equal(&guard->lease_id, lease_id)) return guard;
    }
    return NULL;
}

void file_guard(struct prim_backend *backend, const struct prim_claim *claim)
{
    struct hub *hub = file_store_of(backend)->hub;
    (void)pthread_mutex_lock(&hub->mutex);
    struct guard *old = guard_find(hub, &claim->lease_id);
    if (old != NULL) guard_free(hub, old);
    struct guard *guard = hub_start(hub).code == COORD_OK ? guard_make(hub, claim) : NULL;
    if (guard != NULL) {
        list_append(&hub->guards, &guard->node);
        /* What happened before the directory was being watched. */
        for (size_t i = 0; i < guard->count; i++) check_guard_key(hub, guard, &guard->keys[i]);
    }
    (void)pthread_mutex_unlock(&hub->mutex);
    hub_wake(hub);
}

void file_unguard(struct prim_backend *backend, const coord_id *lease_id)
{
    struct hub *hub = file_store_of(backend)->hub;
    (void)pthread_mutex_lock(&hub->mutex);
    struct guard *guard = guard_find(hub, lease_id);
    if (guard != NULL) guard_free(hub, guard);
    (void)pthread_mutex_unlock(&hub->mutex);
}
