/* SPDX-License-Identifier: Apache-2.0 */
/* The mem: store: stores and their names, the step around each call, watches, and a thread that
 * ends leases between calls. Without a watch no thread is needed, because each call ends expired
 * leases.
 *
 * `memory_shared` is the data, one per name; `memory` is one open store object. Events are sent
 * under the mutex, so each reader gets the events in the order of changes. */
#include <stdlib.h>

#include "prim/answer.h"
#include "prim/memory/shared.h"
#include "prim/names.h"
#include "prim/stores.h"
#include "prim/url.h"

enum {
    ENTRIES_MAX = 1 << 20,
    BYTES_MAX = 1 << 30,
    TTL_MIN_MS = 10,
    LOOK_AGAIN_MS = 1000, /* longest sleep: the condition's clock may lag behind CLOCK_BOOTTIME */
    LOOK_STEPPED_MS = 2,  /* longest sleep with a test's clock, which wakes no thread */
};

struct watch {
    struct list link;
    struct memory_shared *shared;
    struct prim_feed *feed;
};

static pthread_mutex_t names_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct list names = {&names, &names};

/* -- the step around every call -- */

void memory_enter(struct memory_shared *s)
{
    (void)pthread_mutex_lock(&s->mutex);
    if (s->depth++ > 0) return;
    int64_t now_ns = prim_clock_now(&s->clock);
    if (now_ns > s->now_ns) s->now_ns = now_ns;
    memory_expire(s);
}

static int64_t next_end_ns(const struct memory_shared *s)
{
    const struct heap_node *first = heap_peek(&s->deadlines);

    return first ? (int64_t)first->due : INT64_MAX;
}

void memory_leave(struct memory_shared *s)
{
    if (--s->depth == 0 && next_end_ns(s) < s->sleeping_until_ns)
        (void)pthread_cond_signal(&s->wake);
    (void)pthread_mutex_unlock(&s->mutex);
}

static void *memory_run(void *arg)
{
    struct memory_shared *s = arg;
    int64_t most_ms = s->clock.now == prim_boottime_ns ? LOOK_AGAIN_MS : LOOK_STEPPED_MS;

    for (;;) { /* ends when the last user closes the store */
        memory_enter(s);
        if (s->closing) break;
        int64_t next_ns = next_end_ns(s), left_ms = (next_ns - s->now_ns + 999999) / 1000000;
        struct timespec until = prim_until_ms(left_ms < most_ms ? left_ms : most_ms);
        s->sleeping_until_ns = next_ns;
        s->depth--;
        if (next_ns == INT64_MAX)
            (void)pthread_cond_wait(&s->wake, &s->mutex);
        else
            (void)pthread_cond_timedwait(&s->wake, &s->mutex, &until);
        s->sleeping_until_ns = INT64_MIN;
        (void)pthread_mutex_unlock(&s->mutex);
    }
    memory_leave(s);
    return NULL;
}

/* -- watches -- */

/* A reader gets live entries. A guard gets the changes of its keys since the grant. */
static bool send_record(const struct watch *watch, const struct memory_record *record,
                        struct prim_snapshot *snapshot)
{
    static const int types[] = {[PRIM_SEEN_LIVE] = COORD_PUT,
                                [PRIM_SEEN_TOMBSTONE] = COORD_DELETE,
                                [PRIM_SEEN_EXPIRED] = COORD_EXPIRE};
    const struct prim_event event = {.type = types[record->kind],
                                     .revision = record->revision,
                                     .token = record->token,
                                     .key = record->key,
                                     .value = record->envelope.value,
                                     .owner = record->envelope.owner};

    if (snapshot) return record->kind != PRIM_SEEN_LIVE || prim_snapshot_add(snapshot, &event);
    if (record->revision >= prim_feed_since(watch->feed)) (void)prim_feed_put(watch->feed, &event);
    return true;
}

static bool send_scope(const struct watch *watch)
{
    const struct memory_shared *s = watch->shared;
    struct prim_scope scope = prim_feed_scope(watch->feed);
    bool guards = prim_feed_since(watch->feed) > 0;
    struct prim_snapshot *snapshot = guards ? NULL : prim_snapshot_open(watch->feed);
    struct memory_record *record;
    bool fine = snapshot || guards;

    if (scope.bucket) {
        struct order_place place =
            order_behind(&s->records, (struct order_key){scope.name, STR_EMPTY});
        while (fine && (record = order_next(&place)) && str_equal(record->place.first, scope.name))
            fine = send_record(watch, record, snapshot);
    } else if (fine && (record = memory_record_of(s, scope.name))) {
        fine = send_record(watch, record, snapshot);
    }
    if (fine && snapshot)
        prim_feed_snapshot(watch->feed, snapshot, s->revision);
    else
        prim_snapshot_close(snapshot);
    return fine;
}

void memory_publish(struct memory_shared *s, const struct prim_event *event)
{
    LIST_EACH(&s->watches, node)
    {
        struct watch *watch = CONTAINER_OF(node, struct watch, link);
        /* A lagging reader gets its snapshot after it has read RESYNC. A reader that has read
         * nothing gets its snapshot now. */
        if (!prim_feed_put(watch->feed, event) && prim_feed_wants_snapshot(watch->feed) &&
            !send_scope(watch))
            prim_feed_end(watch->feed, COORD_R_MEMORY);
    }
}

static void memory_on_room(void *arg)
{
    struct watch *watch = arg;

    memory_enter(watch->shared);
    if (!send_scope(watch)) prim_feed_end(watch->feed, COORD_R_MEMORY);
    memory_leave(watch->shared);
}

static coord_result op_watch(struct prim_backend *backend, const struct prim_call *,
                             struct prim_feed *feed, void **ret_watch)
{
    struct memory_shared *s = memory_shared_of(backend);
    struct watch *watch = malloc(sizeof *watch);

    if (!watch) return prim_no_memory();
    *watch = (struct watch){.shared = s, .feed = feed};
    list_init(&watch->link);
    prim_feed_on_room(feed, memory_on_room, watch);
    memory_enter(s);
    if (!s->running) s->running = prim_thread_start(&s->thread, memory_run, s);
    bool fine = s->running && send_scope(watch);
    if (fine) list_append(&s->watches, &watch->link);
    memory_leave(s);
    if (fine) {
        *ret_watch = watch;
        return prim_ok(COORD_R_NONE);
    }
    free(watch);
    return prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY, "no memory or no thread for a watch");
}

static void op_unwatch(struct prim_backend *backend, void *arg)
{
    struct memory_shared *s = memory_shared_of(backend);
    struct watch *watch = arg;

    (void)pthread_mutex_lock(&s->mutex);
    list_remove(&watch->link);
    (void)pthread_mutex_unlock(&s->mutex);
    free(watch);
}

/* -- open, close, capabilities -- */

static coord_caps op_capabilities(struct prim_backend *)
{
    return (coord_caps){
        .bits = COORD_CAP_CREATE | COORD_CAP_CAS | COORD_CAP_TTL | COORD_CAP_SLOTS |
                COORD_CAP_SHRINK | COORD_CAP_STORE_ORDER | COORD_CAP_LIST_ATOMIC |
                COORD_CAP_COOLDOWN | COORD_CAP_MULTI_KEY | COORD_CAP_EXACT_OWNER | COORD_CAP_FORCE,
        .scope = COORD_SCOPE_PROCESS,
        .watch = COORD_WATCH_ORDERED,
        .token = COORD_TOKEN_PROCESS,
        .replay = COORD_REPLAY_LAST,
        .server = "memory",
        .note = "one process only; everything is gone when it ends",
    };
}

/* No users are left, and the thread has ended. */
static void shared_free(struct memory_shared *s)
{
    memory_records_deinit(s);
    (void)pthread_cond_destroy(&s->wake);
    (void)pthread_mutex_destroy(&s->mutex);
    free(s->name);
    free(s);
}

static struct memory_shared *shared_make(const char *name, const struct prim_clock *clock,
                                         const struct memory_limits *limits)
{
    struct memory_shared *s = calloc(1, sizeof *s);
    pthread_mutexattr_t recursive;

    if (!s) return NULL;
    (void)pthread_mutexattr_init(&recursive);
    (void)pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    (void)pthread_mutex_init(&s->mutex, &recursive);
    (void)pthread_mutexattr_destroy(&recursive);
    prim_cond_init(&s->wake);
    list_init(&s->link);
    list_init(&s->watches);
    memory_records_init(s);
    s->limits = *limits;
    s->clock = *clock;
    s->sleeping_until_ns = INT64_MIN; /* the awake thread checks before it sleeps */
    s->id = prim_id_random();
    /* Tokens are larger than those of an earlier process, unless the wall clock was set back. */
    s->revision = prim_wall_ms() << 16;
    if (name && !(s->name = str_dup(str_from(name)))) {
        shared_free(s);
        return NULL;
    }
    return s;
}

/* Finds or makes the store `name` and adds a user. NULL: no memory, or another clock. */
static struct memory_shared *shared_take(const char *name, const struct prim_clock *clock,
                                         const struct memory_limits *limits)
{
    struct memory_shared *s = NULL;

    (void)pthread_mutex_lock(&names_mutex);
    LIST_EACH(&names, node)
    {
        struct memory_shared *known = CONTAINER_OF(node, struct memory_shared, link);
        if (name && strcmp(known->name, name) == 0) s = known;
    }
    if (!s) {
        s = shared_make(name, clock, limits);
        if (s && name) list_append(&names, &s->link);
    } else if (s->clock.now != clock->now || s->clock.arg != clock->arg) {
        s = NULL;
    }
    if (s) s->users++;
    (void)pthread_mutex_unlock(&names_mutex);
    return s;
}

static void shared_drop(struct memory_shared *s)
{
    (void)pthread_mutex_lock(&names_mutex);
    bool last = --s->users == 0;
    if (last) list_remove(&s->link);
    (void)pthread_mutex_unlock(&names_mutex);
    if (!last) return;
    (void)pthread_mutex_lock(&s->mutex);
    s->closing = true;
    (void)pthread_cond_signal(&s->wake);
    (void)pthread_mutex_unlock(&s->mutex);
    if (s->running) (void)pthread_join(s->thread, NULL);
    shared_free(s);
}

static void op_close(struct prim_backend *backend)
{
    struct memory *memory = CONTAINER_OF(backend, struct memory, backend);

    shared_drop(memory->shared);
    free(memory);
}

static const struct prim_backend_ops memory_ops = {
    .name = "mem",
    .guards_max = 64 * 1024,
    .capabilities = op_capabilities,
    PRIM_CHANGE_OPS,
    .create = memory_create,
    .cas = prim_change_cas,
    .renew = memory_renew,
    .release = memory_release,
    .adopt = memory_adopt,
    .watch = op_watch,
    .unwatch = op_unwatch,
    .close = op_close,
    .ways = &memory_ways,
};

coord_result memory_open(const struct prim_open *in, const struct memory_limits *limits,
                         struct prim_backend **ret_backend)
{
    const char *name = in->url ? prim_url_param(in->url, "name") : NULL;
    struct memory *memory = calloc(1, sizeof *memory);
    struct memory_shared *s = memory ? shared_take(name, &in->clock, limits) : NULL;

    if (!s) {
        free(memory);
        return prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY,
                           "no memory, or this name is open with another clock");
    }
    prim_backend_init(&memory->backend, &memory_ops, in,
                      prim_limits(TTL_MIN_MS, 1, PRIM_VALUE_LARGE_MAX));
    memory->backend.id = s->id;
    memory->shared = s;
    *ret_backend = &memory->backend;
    return prim_ok(COORD_R_NONE);
}

coord_result prim_memory_open(const struct prim_open *in, struct prim_backend **ret_backend)
{
    return memory_open(in, &(struct memory_limits){ENTRIES_MAX, BYTES_MAX}, ret_backend);
}
