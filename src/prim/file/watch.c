/* SPDX-License-Identifier: Apache-2.0 */
/* Watches: one thread and one inotify descriptor for all watched directories of heads. Without
 * inotify the thread reads all heads every 250 ms.
 *
 * An inotify event names a file. The thread reads the head and reports a larger revision than
 * the last known. An expiry causes no file event, so the thread judges a lease at its deadline
 * and regularly before, because a holder may die early. */
#include "prim/file/store.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/heap.h"
#include "prim/file/lease_file.h"
#include "prim/names.h"
#include "prim/thread.h"

enum {
    POLL_MS = 250,
    WAIT_MS = 1000, /* longest wait, because deadlines pass during a suspend */
    LOOK_MS = 1000, /* between checks of a lease, for holders without a pidfd */
    JUDGE_MS = 200,
    FIXED_FDS = 2,
    DEATHS_MAX = 256, /* processes watched by pidfd; further processes are polled */
    TRACKS_MAX = 1 << 24,
    EVENTS_BYTES = 64 * 1024,
};

/* The heads of one bucket, as last read. */
struct place {
    struct list node;
    struct bucket *bucket;
    int wd; /* inotify watch descriptor; -1: polled */
    unsigned refs;
    bool gone;
    struct map tracks;
};

struct track {
    struct heap_node timer; /* armed while the entry is live and leased */
    struct place *place;
    uint64_t revision;
    struct head head; /* of a leased entry; strings in `text` */
    bool seen;        /* the running scan found the entry */
    char *text;
};

struct watch {
    struct list node;
    struct place *place;
    struct prim_feed *feed;
    bool snapshot_due, ended;
    char name[LAYOUT_NAME_CAP]; /* file name of a single key; "": the whole bucket */
};

struct hub {
    struct file_store *store;
    pthread_mutex_t mutex;
    pthread_t thread;
    bool running;
    atomic_bool stop;
    int events, wake;
    struct list places, watches;
    struct heap timers;
    struct pollfd fds[FIXED_FDS + DEATHS_MAX]; /* wake, inotify, pidfds */
    uint32_t pids[DEATHS_MAX];
    size_t deaths;
    int64_t next_poll_ns;
    char buffer[EVENTS_BYTES] __attribute__((aligned(8)));
};

static void hub_wake(void *owner)
{
    struct hub *hub = owner;
    uint64_t one = 1;
    (void)!write(hub->wake, &one, sizeof one); /* EAGAIN: the thread is already awake */
}

/* -- places -- */

static void track_free(struct hub *hub, struct track *track)
{
    heap_remove(&hub->timers, &track->timer);
    free(track->text);
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

/* -- reporting -- */

static void file_watch_notify(struct hub *hub, struct place *place, int type,
                              const struct head *head, uint64_t revision)
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
        if (watch->place != place || watch->ended || watch->snapshot_due) continue;
        if (!prim_feed_put(watch->feed, &event) && prim_feed_wants_snapshot(watch->feed))
            watch->snapshot_due = true;
    }
}

/* Called when an event was lost. The readers get a new snapshot. */
static void watch_lose(struct hub *hub, struct place *only)
{
    LIST_EACH(&hub->watches, node)
    {
        struct watch *watch = CONTAINER_OF(node, struct watch, node);
        if (watch->ended || (only != NULL && watch->place != only)) continue;
        if (!watch->snapshot_due) prim_feed_resync(watch->feed);
        watch->snapshot_due = true;
    }
}

/* -- reading heads -- */

static void arm(struct hub *hub, struct track *track, int64_t deadline_ns)
{
    int64_t early = file_now(hub->store) + LOOK_MS * NS_IN_MS;
    bool own = track->head.who.pid == hub->store->facts.self.pid &&
               track->head.who.pid_namespace == hub->store->facts.self.pid_namespace;
    int64_t due = own || deadline_ns < early ? deadline_ns : early; /* own keys: no early check */
    /* Without a timer the expiry would be missed, so the readers start again. */
    if (heap_put(&hub->timers, &track->timer, (uint64_t)due) != ERR_OK)
        watch_lose(hub, track->place);
}

/* Copies the head without its value, to judge the lease later. False: out of memory. */
static bool remember_lease(struct track *track, const struct head *head)
{
    char *text = malloc(head->key.len + head->owner.len + 1), *at = text;
    if (text == NULL) return false;
    free(track->text);
    track->text = text;
    track->head = *head;
    track->head.key = str_put(&at, head->key);
    track->head.owner = str_put(&at, head->owner);
    track->head.value = STR_EMPTY;
    return true;
}

/* Reports once that a lease or its entry ended, with a revision that no later change gets. */
static void track_end(struct hub *hub, struct track *track, int type)
{
    heap_remove(&hub->timers, &track->timer);
    track->revision = track->head.revision + 1;
    file_watch_notify(hub, track->place, type, &track->head, track->revision);
}

static void deaths_forget(struct hub *hub, size_t i)
{
    struct pollfd *fds = &hub->fds[FIXED_FDS];
    sys_close(fds[i].fd);
    fds[i] = fds[--hub->deaths];
    hub->pids[i] = hub->pids[hub->deaths];
}

/* A death only causes the lease to be judged. Processes beyond the limit are polled every
 * LOOK_MS. */
static void deaths_add(struct hub *hub, const struct who *who)
{
    if (hub->deaths == DEATHS_MAX) return;
    for (size_t i = 0; i < hub->deaths; i++)
        if (hub->pids[i] == who->pid) return;
    int fd = who_watch(&hub->store->facts, who);
    if (fd < 0) return;
    hub->fds[FIXED_FDS + hub->deaths] = (struct pollfd){.fd = fd, .events = POLLIN};
    hub->pids[hub->deaths++] = who->pid;
}

static bool judge_track(struct hub *hub, struct track *track)
{
    struct lease_verdict verdict;
    int64_t now = file_now(hub->store);
    coord_result result = judge(hub->store, &track->head, now + JUDGE_MS * NS_IN_MS, &verdict);
    if (result.code != COORD_OK) {
        arm(hub, track, now + JUDGE_MS * NS_IN_MS); /* checked again soon */
        return false;
    }
    if (verdict.over) return true;
    if (hub->store->settings.early_death) deaths_add(hub, &track->head.who);
    arm(hub, track, verdict.deadline_ns);
    return false;
}

static void learn(struct hub *hub, struct track *track, const struct head *head)
{
    bool live = (head->flags & HEAD_LIVE) != 0, leased = (head->flags & HEAD_LEASED) != 0;
    track->revision = head->revision;
    heap_remove(&hub->timers, &track->timer);
    file_watch_notify(hub, track->place, live ? COORD_PUT : COORD_DELETE, head, head->revision);
    if (!live || !leased) return;
    if (!remember_lease(track, head))
        watch_lose(hub, track->place);
    else if (judge_track(hub, track))
        track_end(hub, track, COORD_EXPIRE);
}

static bool add_to_snapshot(const struct track *track, const struct head *head,
                            struct prim_snapshot *snapshot)
{
    struct prim_event entry = {.type = COORD_ENTRY,
                               .revision = head->revision,
                               .token = head->token,
                               .key = head->key,
                               .owner = head->owner,
                               .value = head->value};
    bool live = (head->flags & HEAD_LIVE) != 0 && track->revision == head->revision;
    return !live || prim_snapshot_add(snapshot, &entry);
}

/* Reads a head and reports a change; adds a live entry to `snapshot`. False: read the head
 * again, because memory or descriptors ran out. With `alone`, false also for an unreadable head,
 * because a single key must not be reported absent. */
static bool look(struct hub *hub, struct place *place, const char *name, bool alone,
                 struct prim_snapshot *snapshot)
{
    struct head_file file;
    bool good = true;
    if (name[0] == '.') return true;
    head_file_init(&file);
    int error = head_read(place->bucket->heads, name, STR_EMPTY, &file);
    /* a shortage in this process is not a fault of the file */
    bool passing = error == EMFILE || error == ENFILE || error == ENOMEM;
    if (passing || (error != 0 && alone)) good = false;
    if (error == 0 && file.found == HEAD_IS_THERE) {
        struct track *track = map_make(&place->tracks, str_from(name), sizeof *track);
        good = track != NULL;
        if (track != NULL) {
            track->place = place;
            track->seen = true;
            if (file.head.revision > track->revision) learn(hub, track, &file.head);
            if (snapshot != NULL) good = add_to_snapshot(track, &file.head, snapshot);
        }
    }
    head_file_deinit(&file);
    return good;
}

struct scan {
    struct hub *hub;
    struct place *place;
    struct prim_snapshot *snapshot;
    bool good;
};

static bool scan_name(void *context, const char *name)
{
    struct scan *scan = context;
    if (!look(scan->hub, scan->place, name, false, scan->snapshot)) scan->good = false;
    return true;
}

/* Forgets a file that was collected, or removed by hand while its lease is live. */
static void forget_name(struct hub *hub, struct place *place, struct str name)
{
    struct track *track = map_get(&place->tracks, name);
    if (track == NULL) return;
    if (track->timer.place != 0)
        track_end(hub, track, judge_track(hub, track) ? COORD_EXPIRE : COORD_DELETE);
    (void)map_remove(&place->tracks, name);
    track_free(hub, track);
}

static bool scan_place(struct hub *hub, struct place *place, struct prim_snapshot *snapshot)
{
    struct scan scan = {.hub = hub, .place = place, .snapshot = snapshot, .good = true};
    struct map_entry *entry;
    for (size_t cursor = 0; (entry = map_next(&place->tracks, &cursor)) != NULL;)
        ((struct track *)entry->value)->seen = false;
    if (sys_walk(place->bucket->heads, scan_name, &scan) != 0) return false;
    for (size_t cursor = 0; (entry = map_next(&place->tracks, &cursor)) != NULL;) {
        struct track *track = entry->value;
        if (!track->seen) forget_name(hub, place, entry->key);
    }
    return scan.good;
}

static void send_snapshot(struct hub *hub, struct watch *watch)
{
    struct prim_snapshot *snapshot = prim_snapshot_open(watch->feed);
    if (snapshot == NULL) { return; } /* still due: the next turn tries again */
    bool good = watch->name[0] == '\0' ? scan_place(hub, watch->place, snapshot)
                                       : look(hub, watch->place, watch->name, true, snapshot);
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
            watch->snapshot_due = true; /* no events are sent while the snapshot is made */
            send_snapshot(hub, watch);
        }
    }
}

/* -- inotify events -- */

static void place_is_gone(struct hub *hub, struct place *place)
{
    struct map_entry *entry;
    place->gone = true;
    for (size_t cursor = 0; (entry = map_next(&place->tracks, &cursor)) != NULL;)
        forget_name(hub, place, entry->key);
    LIST_EACH(&hub->watches, node)
    {
        struct watch *watch = CONTAINER_OF(node, struct watch, node);
        if (watch->place != place || watch->ended) continue;
        watch->ended = true;
        prim_feed_end(watch->feed, COORD_R_STORAGE);
    }
}

static void take_event(struct hub *hub, const struct inotify_event *event)
{
    if ((event->mask & IN_Q_OVERFLOW) != 0) {
        watch_lose(hub, NULL);
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
                forget_name(hub, place, str_from(event->name));
            else if (!look(hub, place, event->name, false, NULL))
                watch_lose(hub, place);
        }
        return;
    }
}

static void watch_take_events(struct hub *hub)
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
        /* The kernel reports a removal only after all processes have closed the directory, and
         * this process keeps it open. */
        if (fstat(place->bucket->heads, &info) < 0 || info.st_nlink == 0) {
            place_is_gone(hub, place);
            continue;
        }
        if (place->wd >= 0) continue;
        if (!scan_place(hub, place, NULL)) watch_lose(hub, place);
    }
}

static void take_deadlines(struct hub *hub)
{
    struct heap_node *node;
    uint64_t now = (uint64_t)file_now(hub->store);
    while ((node = heap_pop_due(&hub->timers, now)) != NULL) {
        struct track *track = CONTAINER_OF(node, struct track, timer);
        if (judge_track(hub, track)) track_end(hub, track, COORD_EXPIRE);
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

static void hear_death(struct hub *hub, uint32_t pid)
{
    struct map_entry *entry;
    LIST_EACH(&hub->places, node)
    {
        struct place *place = CONTAINER_OF(node, struct place, node);
        for (size_t cursor = 0; (entry = map_next(&place->tracks, &cursor)) != NULL;) {
            struct track *track = entry->value;
            if (track->timer.place != 0 && track->head.who.pid == pid)
                (void)heap_put(&hub->timers, &track->timer, 0); /* moving cannot fail */
        }
    }
}

/* Removes the pidfds of ended processes, or all if nothing is watched. */
static void take_deaths(struct hub *hub)
{
    bool all = list_empty(&hub->places);
    for (size_t i = hub->deaths; i-- > 0;) {
        if (hub->fds[FIXED_FDS + i].revents == 0 && !all) continue;
        hear_death(hub, hub->pids[i]);
        deaths_forget(hub, i);
    }
}

static void *hub_run(void *arg)
{
    struct hub *hub = arg;
    uint64_t count;
    hub->fds[0] = (struct pollfd){.fd = hub->wake, .events = POLLIN};
    hub->fds[1] = (struct pollfd){.fd = hub->events, .events = POLLIN}; /* poll() skips -1 */
    while (!atomic_load(&hub->stop)) {
        (void)pthread_mutex_lock(&hub->mutex);
        int timeout = wait_ms(hub);
        (void)pthread_mutex_unlock(&hub->mutex);
        (void)poll(hub->fds, FIXED_FDS + hub->deaths, timeout);
        (void)!read(hub->wake, &count, sizeof count);
        (void)pthread_mutex_lock(&hub->mutex);
        if (hub->events >= 0) watch_take_events(hub);
        take_deaths(hub);
        poll_places(hub);
        take_deadlines(hub);
        send_snapshots(hub);
        (void)pthread_mutex_unlock(&hub->mutex);
    }
    return NULL;
}

/* The mutex must be held. */
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
    (void)pthread_mutex_init(&hub->mutex, NULL);
    list_init(&hub->places);
    list_init(&hub->watches);
    heap_init(&hub->timers, TRACKS_MAX);
    return hub;
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
    assert(list_empty(&hub->places));
    heap_deinit(&hub->timers);
    while (hub->deaths > 0) deaths_forget(hub, 0);
    sys_close(hub->events);
    sys_close(hub->wake);
    (void)pthread_mutex_destroy(&hub->mutex);
    free(hub);
}

/* -- called from outside -- */

coord_result file_watch(struct prim_backend *backend, const struct prim_call *,
                        struct prim_feed *feed, void **ret_watch)
{
    struct hub *hub = file_store_of(backend)->hub;
    struct prim_scope scope = prim_feed_scope(feed);
    coord_result result = file_usable(hub->store);
    if (result.code != COORD_OK) return result;
    struct watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL) return prim_no_memory();
    list_init(&watch->node);
    watch->feed = feed;
    watch->snapshot_due = true;
    if (!scope.bucket) layout_name(prim_leaf_of(scope.name), watch->name);
    (void)pthread_mutex_lock(&hub->mutex);
    result = hub_start(hub);
    if (result.code == COORD_OK)
        result =
            place_get(hub, scope.bucket ? scope.name : prim_bucket_of(scope.name), &watch->place);
    if (result.code == COORD_OK) {
        prim_feed_on_room(feed, hub_wake, hub);
        list_append(&hub->watches, &watch->node);
        *ret_watch = watch;
    } else {
        free(watch);
    }
    (void)pthread_mutex_unlock(&hub->mutex);
    if (result.code == COORD_OK) hub_wake(hub);
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
