/* A watch is a consumer of the stream that begins with the last message of each subject. It is
 * ours to keep in order: a gap in its numbers, silence past its heartbeats or a lost connection end
 * it, and a new one begins with a new snapshot (RESYNC). */
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/map.h"
#include "prim/nats/store.h"

enum {
    HEARTBEAT_MS = 1000,
    SILENCE_MS = 3500, /* three heartbeats and a little */
    WAIT_MS = 200,     /* how soon a stop and a wish for a snapshot are seen */
    PAUSE_MIN_MS = 100,
    PAUSE_MAX_MS = 2000,
};

struct live_key {
    size_t len;
    char key[];
};

struct watch {
    struct jet_store *store;
    struct prim_feed *feed;
    pthread_t thread;
    atomic_bool stopped;
    bool bucket;
    char scope[PRIM_KEY_MAX + 1], filter[JET_SUBJECT_CAP];

    natsSubscription *subscription; /* NULL: no consumer */
    char consumer[64];
    uint64_t delivered; /* the consumer's last number */
    int64_t heard_ns;
    struct prim_snapshot *snapshot; /* being collected */
    struct map live;                /* W5: the end of a tombstone is no event */
};

/* -- keys ------------------------------------------------------------------------------------- */

static void forget_all(struct watch *watch)
{
    struct map_entry *entry;
    for (size_t cursor = 0; (entry = map_next(&watch->live, &cursor)) != NULL;) {
        free(entry->value);
    }
    map_deinit(&watch->live);
    coord_id seed = prim_id_random();
    uint64_t number;
    memcpy(&number, seed.b, sizeof number);
    map_init(&watch->live, MAP_MOST, number);
}

static bool remember(struct watch *watch, struct str key)
{
    if (map_get(&watch->live, key) != NULL) { return true; }
    struct live_key *live = malloc(sizeof *live + key.len);
    if (live == NULL) { return false; }
    live->len = key.len;
    memcpy(live->key, key.at, key.len);
    if (map_put(&watch->live, str_of(live->key, key.len), live) == ERR_OK) { return true; }
    free(live);
    return false;
}

/* False: it was not live. */
static bool forget(struct watch *watch, struct str key)
{
    void *live = map_remove(&watch->live, key);
    free(live);
    return live != NULL;
}

/* -- the consumer ----------------------------------------------------------------------------- */

static void consumer_close(struct watch *watch)
{
    if (watch->subscription == NULL) { return; }
    char subject[192];
    struct jet_pipe_guard guard;
    jet_pipe_guard_begin(&guard);
    natsSubscription_Destroy(watch->subscription);
    /* The server would end it by itself, later. */
    (void)snprintf(subject, sizeof subject, "$JS.API.CONSUMER.DELETE.%s.%s", watch->store->stream,
                   watch->consumer);
    (void)natsConnection_PublishString(watch->store->link.connection, subject, "");
    jet_pipe_guard_end(&guard);
    watch->subscription = NULL;
    prim_snapshot_close(watch->snapshot);
    watch->snapshot = NULL;
}

static void snapshot_end(struct watch *watch)
{
    prim_feed_snapshot(watch->feed, watch->snapshot, 0);
    watch->snapshot = NULL;
}

static coord_result consumer_make(struct watch *watch, int64_t deadline_ns, const char *inbox,
                                  uint64_t *ret_pending)
{
    char subject[128];
    struct buf body;
    struct note note = {""};
    struct jet_consumer consumer;
    natsMsg *reply;
    buf_init(&body, 8192);
    (void)snprintf(subject, sizeof subject, "$JS.API.CONSUMER.CREATE.%s", watch->store->stream);
    enum err err = buf_appendf(
        &body,
        "{\"stream_name\":\"%s\",\"config\":{\"deliver_policy\":\"last_per_subject\","
        "\"ack_policy\":\"none\",\"max_deliver\":1,\"replay_policy\":\"instant\","
        "\"deliver_subject\":\"%s\",\"filter_subject\":\"%s\",\"idle_heartbeat\":%" PRId64 ","
        "\"inactive_threshold\":%" PRId64 ",\"num_replicas\":1,\"mem_storage\":true}}",
        watch->store->stream, inbox, watch->filter, (int64_t)HEARTBEAT_MS * 1000000,
        (int64_t)SILENCE_MS * 10 * 1000000);
    coord_result result = err ? prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY, "nats: no memory")
                              : jet_link_request(&watch->store->link, deadline_ns, subject, NULL, 0,
                                                 buf_peek(&body), &reply);
    buf_deinit(&body);
    result.flags = 0;
    if (result.code != COORD_OK) { return result; }
    err = jet_decode_consumer(jet_link_body(reply), &consumer, &note);
    natsMsg_Destroy(reply);
    if (err) { return prim_answer(COORD_UNAVAILABLE, COORD_R_STORAGE, "nats: %.140s", note.text); }
    if (consumer.error.code != 0) {
        return prim_answer(COORD_UNAVAILABLE, COORD_R_STORAGE, "nats: consumer: %s",
                           consumer.error.text);
    }
    memcpy(watch->consumer, consumer.name, sizeof watch->consumer);
    *ret_pending = consumer.pending;
    return result;
}

static coord_result consumer_open(struct watch *watch, int64_t deadline_ns)
{
    natsInbox *inbox = NULL;
    uint64_t pending = 0;
    struct jet_link *link = &watch->store->link;
    assert(watch->subscription == NULL && watch->snapshot == NULL);
    if (natsConnection_Status(link->connection) != NATS_CONN_STATUS_CONNECTED) {
        return jet_link_failed(link, NATS_INSUFFICIENT_BUFFER, false);
    }
    struct prim_snapshot *snapshot = prim_snapshot_open();
    natsStatus status = snapshot == NULL ? NATS_NO_MEMORY : natsInbox_Create(&inbox);
    natsSubscription *subscription = NULL;
    struct jet_pipe_guard guard;
    jet_pipe_guard_begin(&guard);
    if (status == NATS_OK) {
        status = natsConnection_SubscribeSync(&subscription, link->connection, inbox);
    }
    jet_pipe_guard_end(&guard);
    coord_result result = status == NATS_OK ? consumer_make(watch, deadline_ns, inbox, &pending)
                                            : jet_link_failed(link, status, false);
    natsInbox_Destroy(inbox);
    if (result.code != COORD_OK) {
        natsSubscription_Destroy(subscription);
        prim_snapshot_close(snapshot);
        return result;
    }
    watch->subscription = subscription;
    watch->snapshot = snapshot;
    watch->delivered = 0;
    watch->heard_ns = prim_clock_now(&watch->store->clock);
    forget_all(watch);
    if (pending == 0) { snapshot_end(watch); }
    return result;
}

/* -- messages --------------------------------------------------------------------------------- */

static struct str header_of(natsMsg *message, const char *name)
{
    const char *value = NULL;
    return natsMsgHeader_Get(message, name, &value) == NATS_OK ? str_from(value) : STR_EMPTY;
}

/* False: no memory. */
static bool show(struct watch *watch, struct str key, const struct jet_state *state)
{
    struct prim_event event = {.key = key, .revision = state->sequence};
    /* Messages come in the stream's order, first the last one of each subject as it was: when a
     * subject comes again, all of those have been here. */
    if (watch->snapshot != NULL && map_get(&watch->live, key) != NULL) { snapshot_end(watch); }
    if (state->kind == JET_LIVE) {
        bool leased = (state->envelope.flags & ENVELOPE_LEASED) != 0;
        event.type = COORD_PUT;
        event.revision = state->revision;
        event.token = leased ? state->token : 0;
        event.value = state->envelope.value;
        event.owner = state->envelope.owner;
        if (!remember(watch, key)) { return false; }
    } else if (state->kind == JET_FOREIGN || !forget(watch, key)) {
        return true;
    } else {
        event.type = state->kind == JET_EXPIRED ? COORD_EXPIRE : COORD_DELETE;
    }
    if (watch->snapshot != NULL) { return prim_snapshot_add(watch->snapshot, &event); }
    (void)prim_feed_put(watch->feed, &event); /* refused: a snapshot will be asked for */
    return true;
}

/* False: the consumer is of no more use. */
static bool take(struct watch *watch, natsMsg *message)
{
    struct jet_delivery delivery;
    struct str status = header_of(message, "Status");
    watch->heard_ns = prim_clock_now(&watch->store->clock);
    if (status.len > 0) { /* a heartbeat: nothing waits */
        uint64_t last;
        struct str number = header_of(message, "Nats-Last-Consumer");
        if (!str_equal(status, STR("100")) || str_to_u64(number, &last) != ERR_OK ||
            last != watch->delivered) {
            return false;
        }
        if (watch->snapshot != NULL) { snapshot_end(watch); }
        return true;
    }
    if (jet_decode_delivery(str_from(natsMsg_GetReply(message)), &delivery) != ERR_OK ||
        delivery.consumer_sequence != watch->delivered + 1) {
        return false;
    }
    watch->delivered++;
    char key[PRIM_KEY_MAX + 1];
    struct str bucket = str_from(watch->store->bucket);
    if (jet_key_of(bucket, str_from(natsMsg_GetSubject(message)), key) &&
        prim_in_scope(str_from(key), str_from(watch->scope), watch->bucket)) {
        struct jet_state state;
        jet_state_of(delivery.stream_sequence, header_of(message, "Nats-Marker-Reason"),
                     header_of(message, "KV-Operation"), jet_link_body(message), &state);
        if (!show(watch, str_from(key), &state)) { return false; }
    }
    if (delivery.pending == 0 && watch->snapshot != NULL) { snapshot_end(watch); }
    return true;
}

/* -- the thread ------------------------------------------------------------------------------- */

static void rest(struct watch *watch, int64_t ms)
{
    for (; ms > 0 && !atomic_load(&watch->stopped); ms -= 50) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 50 * 1000000}, NULL);
    }
}

/* One message, or a while without one. False: begin anew. */
static bool step(struct watch *watch)
{
    natsMsg *message = NULL;
    natsStatus status = natsSubscription_NextMsg(&message, watch->subscription, WAIT_MS);
    if (status == NATS_OK) {
        bool fine = take(watch, message);
        natsMsg_Destroy(message);
        return fine && (watch->snapshot != NULL || !prim_feed_wants_snapshot(watch->feed));
    }
    if (status != NATS_TIMEOUT) { return false; }
    int64_t silent_ns = prim_clock_now(&watch->store->clock) - watch->heard_ns;
    return silent_ns < (int64_t)SILENCE_MS * 1000000 &&
           natsConnection_Status(watch->store->link.connection) == NATS_CONN_STATUS_CONNECTED &&
           (watch->snapshot != NULL || !prim_feed_wants_snapshot(watch->feed));
}

static void *run(void *arg)
{
    struct watch *watch = arg;
    int64_t pause_ms = PAUSE_MIN_MS;
    while (!atomic_load(&watch->stopped)) {
        if (watch->subscription != NULL) {
            if (step(watch)) {
                pause_ms = PAUSE_MIN_MS;
                continue;
            }
            consumer_close(watch);
            if (!prim_feed_wants_snapshot(watch->feed)) { prim_feed_resync(watch->feed); }
        }
        int64_t deadline_ns =
            prim_clock_now(&watch->store->clock) + (int64_t)JET_REQUEST_MS_MAX * 1000000;
        if (consumer_open(watch, deadline_ns).code != COORD_OK) {
            rest(watch, pause_ms);
            pause_ms = pause_ms * 2 < PAUSE_MAX_MS ? pause_ms * 2 : PAUSE_MAX_MS;
        }
    }
    nats_ReleaseThreadMemory();
    return NULL;
}

coord_result jet_watch(struct prim_backend *backend, const struct prim_call *call, struct str scope,
                       bool bucket, struct prim_feed *feed, void **ret_watch)
{
    struct jet_store *store = CONTAINER_OF(backend, struct jet_store, backend);
    struct watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL) { return prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY, "nats: no memory"); }
    watch->store = store;
    watch->feed = feed;
    watch->bucket = bucket;
    assert(scope.len <= PRIM_KEY_MAX);
    if (scope.len > 0) { memcpy(watch->scope, scope.at, scope.len); }
    if (bucket) {
        jet_subject_below(str_from(store->bucket), scope, watch->filter);
    } else {
        jet_subject_of(str_from(store->bucket), scope, watch->filter);
    }
    map_init(&watch->live, MAP_MOST, 0);
    coord_result result = consumer_open(watch, call->deadline_ns);
    int failed = 0;
    if (result.code == COORD_OK) {
        sigset_t all, before;
        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        failed = pthread_create(&watch->thread, NULL, run, watch);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (failed) {
            consumer_close(watch);
            result = prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY, "nats: no thread");
        }
    }
    if (result.code != COORD_OK) {
        forget_all(watch);
        map_deinit(&watch->live);
        free(watch);
        return result;
    }
    *ret_watch = watch;
    return result;
}

void jet_unwatch(struct prim_backend *backend, void *opaque)
{
    struct watch *watch = opaque;
    (void)backend;
    atomic_store(&watch->stopped, true);
    (void)pthread_join(watch->thread, NULL);
    consumer_close(watch);
    forget_all(watch);
    map_deinit(&watch->live);
    free(watch);
}
