/* SPDX-License-Identifier: Apache-2.0 */
/* The core (core/core.h) behind one mutex, a thread that ends leases when nobody calls, watches,
 * and the telling of losses.
 *
 * Two structs: `shared` is the data, one for each name; `memory` is one open store object. Every
 * call takes the mutex, lets the core do its step, hands the step's events to the watches, notes
 * which guarded leases lost something, and tells their hosts after the mutex is free again. */
#include "prim/memory/memory.h"

#include <errno.h>
#include <stdlib.h>

#include "prim/answer.h"
#include "prim/memory/core/core.h"
#include "prim/names.h"
#include "prim/thread.h"
#include "prim/url.h"

enum {
    ENTRIES_MAX = 1 << 20,
    TTL_MIN_MS = 10,
    LOOK_AGAIN_MS = 1000, /* boottime may run ahead of the clock that a condition waits on */
    LOOK_STEPPED_MS = 2,  /* a test's clock wakes nobody */
};
#define BYTES_MAX ((uint64_t)1 << 30)

struct guard {
    struct list link; /* in shared.guards; once lost, among those to be told */
    struct memory *owner;
    coord_id lease_id;
    int reason;
    uint64_t token;
};
struct shared {
    struct list link; /* among the named ones */
    char *name;       /* NULL: nobody else will open it */
    size_t users;
    pthread_mutex_t mutex;
    pthread_cond_t wake; /* the expiry thread: an earlier deadline, or the end */
    pthread_cond_t told; /* a close waits until its host is not being told */
    pthread_t thread;
    bool closing;
    struct prim_clock clock;
    int64_t last_ns;
    coord_id id;
    struct memory_core *core;
    struct list watches, guards;
    int64_t sleeping_until_ns; /* what the thread waits for */
};
struct watch {
    struct list link;
    struct shared *shared;
    struct prim_feed *feed;
    bool bucket;
    size_t scope_len;
    char scope[];
};
struct memory {
    struct prim_backend backend;
    struct shared *shared;
    struct prim_host *host;
    size_t telling; /* threads inside host->lost */
};

static pthread_mutex_t names_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct list names = {&names, &names};

static struct memory *of(struct prim_backend *backend)
{
    return CONTAINER_OF(backend, struct memory, backend);
}

/* -- the step around every call -- */

static int64_t enter(struct shared *shared)
{
    (void)pthread_mutex_lock(&shared->mutex);
    int64_t now_ns = prim_clock_now(&shared->clock);
    if (now_ns > shared->last_ns) shared->last_ns = now_ns;
    return shared->last_ns;
}

static struct str scope_of(const struct watch *watch)
{
    return str_of(watch->scope, watch->scope_len);
}

/* With the mutex, between two steps: what the snapshot lacks comes as events. */
static bool send_snapshot(struct watch *watch)
{
    const struct memory_core *core = watch->shared->core;
    struct prim_snapshot *snapshot = prim_snapshot_open();
    struct str scope = scope_of(watch);
    const struct memory_entry *entry = memory_core_from(core, scope, false);
    bool fine = snapshot != NULL;
    /* Keys of a bucket stand together behind its name: "a", "a!", "a/b", "a0". */
    for (; fine && entry != NULL && str_starts(entry->key, scope);
         entry = memory_core_from(core, entry->key, true)) {
        if (!prim_in_scope(entry->key, scope, watch->bucket)) continue;
        fine = prim_snapshot_add(
            snapshot,
            &(struct prim_event){.type = COORD_ENTRY,
                                 .revision = entry->revision,
                                 .token = entry->token,
                                 .key = entry->key,
                                 .value = entry->value,
                                 .owner = entry->lease != NULL ? entry->lease->owner : STR_EMPTY});
    }
    if (!fine) {
        prim_snapshot_close(snapshot);
        return false;
    }
    prim_feed_snapshot(watch->feed, snapshot, memory_core_revision(core));
    return true;
}

static void publish(struct shared *shared, const struct memory_event *event)
{
    struct prim_event out = {.type = event->type,
                             .revision = event->revision,
                             .token = event->token,
                             .key = event->key,
                             .value = event->type == COORD_PUT ? event->value : STR_EMPTY,
                             .owner = event->owner};
    LIST_EACH(&shared->watches, node)
    {
        struct watch *watch = CONTAINER_OF(node, struct watch, link);
        if (!prim_in_scope(event->key, scope_of(watch), watch->bucket)) continue;
        /* A reader that lags asks when it has read so; one that never read gets it now. */
        if (!prim_feed_put(watch->feed, &out) && prim_feed_wants_snapshot(watch->feed) &&
            !send_snapshot(watch))
            prim_feed_end(watch->feed, COORD_R_MEMORY);
    }
}

/* Once lost a lease stays lost: its guard goes with the telling. */
static void note_loss(struct shared *shared, const struct memory_event *event, struct list *losses)
{
    LIST_EACH_SAFE(&shared->guards, node, following)
    {
        struct guard *guard = CONTAINER_OF(node, struct guard, link);
        if (!prim_id_equal(&guard->lease_id, &event->lost_lease)) continue;
        guard->reason = event->lost_reason;
        guard->token = event->type == COORD_PUT ? event->token : 0;
        guard->owner->telling++;
        list_remove(node);
        list_append(losses, node);
    }
}

/* Hands on the events of the step just made; with the mutex. */
static void settle(struct shared *shared, struct list *losses)
{
    const struct list *events = memory_core_events(shared->core);
    list_init(losses);
    for (const struct list *node = events->next; node != events; node = node->next) {
        const struct memory_event *event = CONTAINER_OF(node, struct memory_event, link);
        publish(shared, event);
        if (event->lost_reason != 0) note_loss(shared, event, losses);
    }
    if (memory_core_next_deadline(shared->core) < shared->sleeping_until_ns)
        (void)pthread_cond_signal(&shared->wake);
}

/* Gives the mutex back, then tells. */
static void tell(struct shared *shared, struct list *losses)
{
    (void)pthread_mutex_unlock(&shared->mutex);
    LIST_EACH_SAFE(losses, node, following)
    {
        struct guard *guard = CONTAINER_OF(node, struct guard, link);
        struct prim_host *host = guard->owner->host;
        host->lost(host, &guard->lease_id, guard->reason, guard->token);
        (void)pthread_mutex_lock(&shared->mutex);
        if (--guard->owner->telling == 0) (void)pthread_cond_broadcast(&shared->told);
        (void)pthread_mutex_unlock(&shared->mutex);
        free(guard);
    }
}

/* Once after every step of the core: its events are valid until the next one. */
static void leave(struct shared *shared)
{
    struct list losses;
    settle(shared, &losses);
    tell(shared, &losses);
}

static void wait_ms(struct shared *shared, int64_t ms)
{
    struct timespec until = prim_until_ms(ms);
    (void)pthread_cond_timedwait(&shared->wake, &shared->mutex, &until);
}

static void *expiry_thread(void *arg)
{
    struct shared *shared = arg;
    bool stepped = shared->clock.now != prim_boottime_ns;
    for (;;) { /* ends when the last user closes */
        int64_t now_ns = enter(shared);
        if (shared->closing) break;
        memory_core_expire(shared->core, now_ns);
        leave(shared);

        (void)pthread_mutex_lock(&shared->mutex);
        int64_t next_ns = memory_core_next_deadline(shared->core);
        shared->sleeping_until_ns = next_ns;
        if (shared->closing) break;
        if (next_ns == INT64_MAX) {
            (void)pthread_cond_wait(&shared->wake, &shared->mutex);
        } else {
            int64_t left_ms = next_ns <= now_ns ? 0 : (next_ns - now_ns + 999999) / 1000000;
            int64_t most_ms = stepped ? LOOK_STEPPED_MS : LOOK_AGAIN_MS;
            if (left_ms > 0) wait_ms(shared, left_ms < most_ms ? left_ms : most_ms);
        }
        shared->sleeping_until_ns = INT64_MIN;
        (void)pthread_mutex_unlock(&shared->mutex);
    }
    (void)pthread_mutex_unlock(&shared->mutex);
    return NULL;
}

/* -- operations -- */

static coord_result op_create(struct prim_backend *backend, const struct prim_call *call,
                              const struct prim_create *in, struct prim_grant *ret_grant)
{
    struct shared *shared = of(backend)->shared;
    int64_t now_ns = enter(shared);
    coord_result result = memory_core_create(shared->core, now_ns, call, in, ret_grant);
    leave(shared);
    return result;
}

static coord_result op_cas(struct prim_backend *backend, const struct prim_call *call,
                           const struct prim_cas *in, struct prim_grant *ret_grant)
{
    struct shared *shared = of(backend)->shared;
    int64_t now_ns = enter(shared);
    coord_result result = memory_core_cas(shared->core, now_ns, call, in, ret_grant);
    leave(shared);
    return result;
}

static coord_result op_remove(struct prim_backend *backend, const struct prim_call *call,
                              const struct prim_delete *in)
{
    struct shared *shared = of(backend)->shared;
    int64_t now_ns = enter(shared);
    coord_result result = memory_core_remove(shared->core, now_ns, call, in);
    leave(shared);
    return result;
}

static int64_t left_ms(const struct memory_lease *lease, int64_t now_ns)
{
    return lease == NULL ? -1 : (lease->deadline_ns - now_ns) / 1000000;
}

static coord_result op_get(struct prim_backend *backend, const struct prim_call *call,
                           struct str key, int consistency, coord_entry **ret_entry)
{
    struct shared *shared = of(backend)->shared;
    const struct memory_entry *found = NULL;
    (void)call;
    (void)consistency; /* there is one copy: always the latest */
    int64_t now_ns = enter(shared);
    coord_result result = memory_core_get(shared->core, now_ns, key, &found);
    if (result.code == COORD_OK) {
        coord_entry like = {.revision = found->revision,
                            .create_revision = found->create_revision,
                            .token = found->token,
                            .remaining_ms = left_ms(found->lease, now_ns)};
        struct str owner = STR_EMPTY;
        if (found->lease != NULL) {
            like.lease_id = found->lease->id;
            like.ttl_ms = found->lease->ttl_ms;
            owner = found->lease->owner;
        }
        coord_entry *entry = prim_entry_make(&like, found->key, found->value, owner);
        if (entry == NULL)
            result = prim_no_memory();
        else
            *ret_entry = entry;
    }
    leave(shared);
    return result;
}

static coord_result op_acquire(struct prim_backend *backend, const struct prim_call *call,
                               const struct prim_acquire *in, struct prim_grant *ret_grant)
{
    struct shared *shared = of(backend)->shared;
    int64_t now_ns = enter(shared);
    coord_result result = memory_core_acquire(shared->core, now_ns, call, in, ret_grant);
    leave(shared);
    return result;
}

static coord_result op_resize(struct prim_backend *backend, const struct prim_call *call,
                              struct str group, uint64_t expected, uint32_t slot_count)
{
    struct shared *shared = of(backend)->shared;
    int64_t now_ns = enter(shared);
    coord_result result =
        memory_core_resize(shared->core, now_ns, call, group, expected, slot_count);
    leave(shared);
    return result;
}

static coord_holders *holders_of(const struct memory_group *group, int64_t now_ns)
{
    coord_holders *holders = prim_holders_make(group->room);
    if (holders == NULL) return NULL;
    holders->slot_count = group->slot_count;
    holders->revision = group->revision;
    holders->cooldown_ms = group->cooldown_ms;
    holders->atomic = 1;
    holders->certainty = COORD_BY_AUTHORITY;
    for (uint32_t i = 0; i < group->room; i++) {
        const struct memory_entry *entry = group->slots[i].entry;
        if (entry == NULL) continue;
        assert(entry->lease != NULL); /* who is in a slot holds a lease */
        coord_holder like = {.slot = i,
                             .token = entry->token,
                             .revision = entry->revision,
                             .remaining_ms = left_ms(entry->lease, now_ns)};
        memcpy(like.lease_id_prefix, entry->lease->id.b, sizeof like.lease_id_prefix);
        if (!prim_holders_add(holders, &like, entry->lease->owner, entry->value)) {
            coord_holders_free(holders);
            return NULL;
        }
    }
    return holders;
}

static coord_result op_holders(struct prim_backend *backend, const struct prim_call *call,
                               struct str key, coord_holders **ret_holders)
{
    struct shared *shared = of(backend)->shared;
    const struct memory_group *group = NULL;
    (void)call;
    int64_t now_ns = enter(shared);
    coord_result result = memory_core_group(shared->core, now_ns, key, &group);
    if (result.code == COORD_OK) {
        coord_holders *holders = holders_of(group, now_ns);
        if (holders == NULL)
            result = prim_no_memory();
        else
            *ret_holders = holders;
    }
    leave(shared);
    return result;
}

static coord_result op_renew(struct prim_backend *backend, const struct prim_call *call,
                             const struct prim_claim *claim, int64_t *ret_sent_ns)
{
    struct shared *shared = of(backend)->shared;
    (void)call;
    int64_t now_ns = enter(shared);
    coord_result result = memory_core_renew(shared->core, now_ns, claim);
    /* Sent and received at one instant: there is nothing in between. */
    if (result.code == COORD_OK) *ret_sent_ns = now_ns;
    leave(shared);
    return result;
}

static coord_result op_release(struct prim_backend *backend, const struct prim_call *call,
                               const struct prim_claim *claim, const char *key)
{
    struct shared *shared = of(backend)->shared;
    int64_t now_ns = enter(shared);
    coord_result result = memory_core_release(shared->core, now_ns, call, claim, key);
    leave(shared);
    return result;
}

static coord_result op_adopt(struct prim_backend *backend, const struct prim_call *call,
                             const struct prim_claim *claim, int64_t *ret_left_ms)
{
    struct shared *shared = of(backend)->shared;
    (void)call;
    int64_t now_ns = enter(shared);
    coord_result result = memory_core_adopt(shared->core, now_ns, claim, ret_left_ms);
    leave(shared);
    return result;
}

/* -- guards -- */

static void op_guard(struct prim_backend *backend, const struct prim_claim *claim)
{
    struct memory *memory = of(backend);
    struct guard *guard = malloc(sizeof *guard);
    if (guard == NULL) { return; } /* the next renewal finds out what nobody told */
    *guard = (struct guard){.owner = memory, .lease_id = claim->lease_id};
    list_init(&guard->link);
    (void)pthread_mutex_lock(&memory->shared->mutex);
    list_append(&memory->shared->guards, &guard->link);
    (void)pthread_mutex_unlock(&memory->shared->mutex);
}

/* With the mutex. lease_id NULL: all of this store object's. */
static void drop_guards(struct memory *memory, const coord_id *lease_id)
{
    struct list gone;
    list_init(&gone);
    LIST_EACH_SAFE(&memory->shared->guards, each, following)
    {
        const struct guard *guard = CONTAINER_OF(each, struct guard, link);
        if (guard->owner == memory &&
            (lease_id == NULL || prim_id_equal(&guard->lease_id, lease_id))) {
            list_remove(each);
            list_append(&gone, each);
        }
    }
    LIST_EACH_SAFE(&gone, each, following)
    {
        free(CONTAINER_OF(each, struct guard, link));
    }
}

static void op_unguard(struct prim_backend *backend, const coord_id *lease_id)
{
    struct memory *memory = of(backend);
    (void)pthread_mutex_lock(&memory->shared->mutex);
    drop_guards(memory, lease_id);
    (void)pthread_mutex_unlock(&memory->shared->mutex);
}

/* -- watches -- */

static void on_room(void *arg)
{
    struct watch *watch = arg;
    struct shared *shared = watch->shared;
    struct list losses;
    int64_t now_ns = enter(shared);
    memory_core_expire(shared->core, now_ns);
    settle(shared, &losses); /* before the snapshot, which shows these endings already */
    if (!send_snapshot(watch)) prim_feed_end(watch->feed, COORD_R_MEMORY);
    tell(shared, &losses);
}

static coord_result op_watch(struct prim_backend *backend, const struct prim_call *call,
                             struct str scope, bool bucket, struct prim_feed *feed,
                             void **ret_watch)
{
    struct shared *shared = of(backend)->shared;
    struct watch *watch = malloc(sizeof *watch + scope.len + 1);
    struct list losses;
    (void)call;
    if (watch == NULL) return prim_no_memory();
    *watch =
        (struct watch){.shared = shared, .feed = feed, .bucket = bucket, .scope_len = scope.len};
    list_init(&watch->link);
    if (scope.len > 0) memcpy(watch->scope, scope.at, scope.len);
    prim_feed_on_room(feed, on_room, watch);
    int64_t now_ns = enter(shared);
    memory_core_expire(shared->core, now_ns);
    settle(shared, &losses); /* before the snapshot, which shows these endings already */
    bool fine = send_snapshot(watch);
    if (fine) list_append(&shared->watches, &watch->link);
    tell(shared, &losses);
    if (!fine) {
        free(watch);
        return prim_no_memory();
    }
    *ret_watch = watch;
    return prim_ok(COORD_R_NONE);
}

static void op_unwatch(struct prim_backend *backend, void *arg)
{
    struct watch *watch = arg;
    struct shared *shared = of(backend)->shared;
    (void)pthread_mutex_lock(&shared->mutex);
    list_remove(&watch->link);
    (void)pthread_mutex_unlock(&shared->mutex);
    free(watch);
}

/* -- open, close, what it can -- */

static coord_caps op_capabilities(struct prim_backend *backend)
{
    (void)backend;
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

/* Without users, and without its thread. */
static void shared_free(struct shared *shared)
{
    if (shared == NULL) return;
    memory_core_close(shared->core);
    (void)pthread_cond_destroy(&shared->told);
    (void)pthread_cond_destroy(&shared->wake);
    (void)pthread_mutex_destroy(&shared->mutex);
    free(shared->name);
    free(shared);
}

static struct shared *shared_make(const char *name, const struct prim_clock *clock)
{
    struct shared *shared = calloc(1, sizeof *shared);
    if (shared == NULL) return NULL;
    (void)pthread_mutex_init(&shared->mutex, NULL);
    prim_cond_init(&shared->wake);
    prim_cond_init(&shared->told);
    list_init(&shared->link);
    list_init(&shared->watches);
    list_init(&shared->guards);
    shared->clock = *clock;
    shared->last_ns = INT64_MIN;
    shared->sleeping_until_ns = INT64_MIN; /* awake: it looks before it sleeps */
    shared->id = prim_id_random();
    /* So that the tokens of a restarted process are larger than its earlier ones, unless the wall
     * clock went back; capabilities promise it within one process only. */
    struct memory_core_options options = {
        .revision_start = prim_wall_ms() << 16, .entries_max = ENTRIES_MAX, .bytes_max = BYTES_MAX};
    options.seed = prim_random();
    shared->core = memory_core_open(&options);
    if (name != NULL) shared->name = str_dup(str_from(name));
    if (shared->core == NULL || (name != NULL && shared->name == NULL) ||
        !prim_thread_start(&shared->thread, expiry_thread, shared)) {
        shared_free(shared);
        return NULL;
    }
    return shared;
}

/* The one of that name, or a new one; with one user more. NULL: no memory, or another clock. */
static struct shared *shared_take(const char *name, const struct prim_clock *clock)
{
    struct shared *shared = NULL;
    (void)pthread_mutex_lock(&names_mutex);
    LIST_EACH(&names, node)
    {
        struct shared *known = CONTAINER_OF(node, struct shared, link);
        if (name != NULL && strcmp(known->name, name) == 0) shared = known;
    }
    if (shared == NULL) {
        shared = shared_make(name, clock);
        if (shared != NULL && name != NULL) list_append(&names, &shared->link);
    } else if (shared->clock.now != clock->now || shared->clock.arg != clock->arg) {
        shared = NULL;
    }
    if (shared != NULL) shared->users++;
    (void)pthread_mutex_unlock(&names_mutex);
    return shared;
}

static void shared_drop(struct shared *shared)
{
    (void)pthread_mutex_lock(&names_mutex);
    bool last = --shared->users == 0;
    if (last) list_remove(&shared->link);
    (void)pthread_mutex_unlock(&names_mutex);
    if (!last) return;
    (void)pthread_mutex_lock(&shared->mutex);
    shared->closing = true;
    (void)pthread_cond_signal(&shared->wake);
    (void)pthread_mutex_unlock(&shared->mutex);
    (void)pthread_join(shared->thread, NULL);
    shared_free(shared);
}

static void op_close(struct prim_backend *backend)
{
    struct memory *memory = of(backend);
    struct shared *shared = memory->shared;
    (void)pthread_mutex_lock(&shared->mutex);
    drop_guards(memory, NULL);
    while (memory->telling > 0) (void)pthread_cond_wait(&shared->told, &shared->mutex);
    (void)pthread_mutex_unlock(&shared->mutex);
    shared_drop(shared);
    free(memory);
}

static const struct prim_backend_ops memory_ops = {
    .name = "mem",
    .capabilities = op_capabilities,
    .create = op_create,
    .cas = op_cas,
    .remove = op_remove,
    .get = op_get,
    .acquire = op_acquire,
    .resize = op_resize,
    .holders = op_holders,
    .renew = op_renew,
    .release = op_release,
    .adopt = op_adopt,
    .guard = op_guard,
    .unguard = op_unguard,
    .watch = op_watch,
    .unwatch = op_unwatch,
    .close = op_close,
};

coord_result prim_memory_open(const struct prim_open *in, struct prim_backend **ret_backend)
{
    const char *name = in->url == NULL ? NULL : prim_url_param(in->url, "name");
    struct memory *memory = calloc(1, sizeof *memory);
    if (memory == NULL) return prim_no_memory();
    memory->backend.ops = &memory_ops;
    memory->host = in->host;
    memory->shared = shared_take(name, &in->clock);
    if (memory->shared == NULL) {
        free(memory);
        return prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY,
                           "no memory, no thread, or this name is open with another clock");
    }
    memory->backend.id = memory->shared->id;
    memory->backend.limits = prim_limits(TTL_MIN_MS, 1, PRIM_VALUE_LARGE_MAX);
    *ret_backend = &memory->backend;
    return prim_ok(COORD_R_NONE);
}
