/* SPDX-License-Identifier: Apache-2.0 */
/* A watch follows a run (store.h). If the run breaks, is silent past its heartbeats, or the
 * connection is lost, a new run starts with a new snapshot (RESYNC). */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/map.h"
#include "prim/nats/store.h"
#include "prim/thread.h"

enum {
    SILENCE_MS = 3 * JET_HEARTBEAT_MS + 500,
    WAIT_MS = 200, /* longest time until a stop or a request for a snapshot is noticed */
    PAUSE_MIN_MS = 100,
    PAUSE_MAX_MS = 2000,
};

struct watch {
    struct jet_store *store;
    struct prim_feed *feed;
    pthread_t thread;
    atomic_bool stopped;
    char filter[JET_SUBJECT_CAP];

    pthread_mutex_t lock; /* guards whether the run is open, because unwatch interrupts its wait */
    struct jet_run run;
    int64_t heard_ns;
    struct prim_snapshot *snapshot;
    uint64_t newest;
    struct map live; /* live keys; the end of a tombstone is not reported (W5) */
};

/* -- keys ------------------------------------------------------------------------------------- */

static bool forget(struct watch *watch, struct str key)
{
    void *live = map_remove(&watch->live, key);
    free(live);
    return live != NULL;
}

/* -- the run ---------------------------------------------------------------------------------- */

static void run_close(struct watch *watch)
{
    (void)pthread_mutex_lock(&watch->lock);
    jet_run_close(watch->store, &watch->run);
    (void)pthread_mutex_unlock(&watch->lock);
    prim_snapshot_close(watch->snapshot);
    watch->snapshot = NULL;
}

/* Guards get the newest sequence, because the replica may lack their keys. */
static void snapshot_end(struct watch *watch)
{
    prim_feed_snapshot(watch->feed, watch->snapshot,
                       prim_feed_since(watch->feed) > 0 ? watch->newest : 0);
    watch->snapshot = NULL;
}

static coord_result run_open(struct watch *watch, int64_t deadline_ns)
{
    assert(watch->snapshot == NULL);
    struct prim_snapshot *snapshot = prim_snapshot_open(watch->feed);
    struct jet_run nats_watch_run = {NULL};
    coord_result result =
        snapshot == NULL ? prim_no_memory()
                         : jet_run_open(watch->store, deadline_ns, watch->filter, &nats_watch_run);
    (void)pthread_mutex_lock(&watch->lock);
    watch->run = nats_watch_run;
    (void)pthread_mutex_unlock(&watch->lock);
    if (result.code != COORD_OK) {
        prim_snapshot_close(snapshot);
        return result;
    }
    watch->snapshot = snapshot;
    watch->newest = 1;
    watch->heard_ns = prim_clock_now(&watch->store->backend.clock);
    map_free(&watch->live);
    map_init(&watch->live, MAP_MOST, prim_random());
    if (watch->run.pending == 0) snapshot_end(watch);
    return result;
}

/* -- messages --------------------------------------------------------------------------------- */

static bool show(struct watch *watch, struct str key, const struct prim_seen *state)
{
    struct prim_event event = {.key = key, .revision = state->sequence};
    /* A run begins with the last message of each subject. A second message of a live key is a
     * change, so the snapshot is complete. */
    if (watch->snapshot != NULL && map_get(&watch->live, key) != NULL) snapshot_end(watch);
    if (watch->snapshot != NULL) watch->newest = max_u64(watch->newest, state->sequence);
    if (state->kind == PRIM_SEEN_FOREIGN && prim_feed_since(watch->feed) > 0) {
        event.type = COORD_PUT;
        event.token = PRIM_TOKEN_UNKNOWN;
    } else if (state->kind == PRIM_SEEN_LIVE) {
        event.type = COORD_PUT;
        event.revision = state->revision;
        event.token = state->token;
        event.value = state->envelope.value;
        event.owner = state->envelope.owner;
        if (map_make(&watch->live, key, 1) == NULL) return false;
    } else if (state->kind == PRIM_SEEN_FOREIGN || !forget(watch, key)) {
        return true;
    } else {
        event.type = state->kind == PRIM_SEEN_EXPIRED ? COORD_EXPIRE : COORD_DELETE;
    }
    if (watch->snapshot != NULL) return prim_snapshot_add(watch->snapshot, &event);
    (void)prim_feed_put(watch->feed, &event); /* if refused, the feed requests a snapshot */
    return true;
}

/* -- the thread ------------------------------------------------------------------------------- */

/* Handles one message, or a wait without a message. False: a new run must start. */
static bool watch_step(struct watch *watch)
{
    struct jet_message got;
    enum jet_step watch_step = jet_run_next(watch->store, &watch->run, WAIT_MS, &got);
    if (watch_step == JET_STEP_BROKEN) return false;
    if (watch_step == JET_STEP_SILENT) {
        int64_t silent_ns = prim_clock_now(&watch->store->backend.clock) - watch->heard_ns;
        if (silent_ns >= (int64_t)SILENCE_MS * 1000000 ||
            natsConnection_Status(watch->store->link.connection) != NATS_CONN_STATUS_CONNECTED)
            return false;
    } else {
        watch->heard_ns = prim_clock_now(&watch->store->backend.clock);
    }
    bool fine = true;
    if (watch_step == JET_STEP_MESSAGE) {
        struct str key = str_from(got.key);
        if (prim_feed_covers(watch->feed, key)) fine = show(watch, key, &got.state.seen);
        natsMsg_Destroy(got.message);
    }
    bool all = watch_step == JET_STEP_IDLE || (watch_step == JET_STEP_MESSAGE && got.pending == 0);
    if (fine && all && watch->snapshot != NULL) snapshot_end(watch);
    return fine && (watch->snapshot != NULL || !prim_feed_wants_snapshot(watch->feed));
}

static void *nats_watch_run(void *arg)
{
    struct watch *watch = arg;
    int64_t pause_ms = PAUSE_MIN_MS;
    while (!atomic_load(&watch->stopped)) {
        if (watch->run.subscription != NULL) {
            if (watch_step(watch)) {
                pause_ms = PAUSE_MIN_MS;
                continue;
            }
            if (atomic_load(&watch->stopped)) break; /* unwatch ended the run: no event was lost */
            run_close(watch);
            if (!prim_feed_wants_snapshot(watch->feed)) prim_feed_resync(watch->feed);
        }
        int64_t deadline_ns =
            prim_clock_now(&watch->store->backend.clock) + (int64_t)JET_REQUEST_MS_MAX * 1000000;
        if (run_open(watch, deadline_ns).code != COORD_OK) {
            for (int64_t ms = pause_ms; ms > 0 && !atomic_load(&watch->stopped); ms -= 50)
                prim_thread_pause_ms(50);
            pause_ms = pause_ms * 2 < PAUSE_MAX_MS ? pause_ms * 2 : PAUSE_MAX_MS;
        }
    }
    nats_ReleaseThreadMemory();
    return NULL;
}

static void nats_watch_watch_free(struct watch *watch)
{
    map_free(&watch->live);
    (void)pthread_mutex_destroy(&watch->lock);
    free(watch);
}

coord_result jet_watch(struct prim_backend *backend, const struct prim_call *call,
                       struct prim_feed *feed, void **ret_watch)
{
    struct jet_store *store = jet_of(backend);
    struct prim_scope scope = prim_feed_scope(feed);
    struct watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL) return prim_no_memory();
    watch->store = store;
    watch->feed = feed;
    if (scope.bucket)
        jet_subject_below(str_from(store->bucket), scope.name, watch->filter);
    else
        jet_subject_of(str_from(store->bucket), scope.name, watch->filter);
    map_init(&watch->live, MAP_MOST, 0);
    (void)pthread_mutex_init(&watch->lock, NULL);
    coord_result result = run_open(watch, call->deadline_ns);
    if (result.code == COORD_OK && !prim_thread_start(&watch->thread, nats_watch_run, watch)) {
        run_close(watch);
        result = prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY, "nats: no thread");
    }
    if (result.code != COORD_OK) {
        nats_watch_watch_free(watch);
        return result;
    }
    *ret_watch = watch;
    return result;
}

void jet_unwatch(struct prim_backend *, void *opaque)
{
    struct watch *watch = opaque;
    struct jet_pipe_guard guard;
    atomic_store(&watch->stopped, true);
    (void)pthread_mutex_lock(&watch->lock);
    jet_pipe_guard_begin(&guard);
    if (watch->run.subscription != NULL)
        (void)natsSubscription_Unsubscribe(watch->run.subscription);
    jet_pipe_guard_end(&guard);
    (void)pthread_mutex_unlock(&watch->lock);
    (void)pthread_join(watch->thread, NULL);
    run_close(watch);
    nats_watch_watch_free(watch);
}
