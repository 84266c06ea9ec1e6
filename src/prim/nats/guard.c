/* SPDX-License-Identifier: Apache-2.0 */
/* Notices by itself that a held key is another's, and that the stream was edited.
 *
 * A plain subscription to the key's subject hears every publish to it, the refused ones too, so it
 * only says "look": a thread then reads the key. What the server itself does (an expiry, a purge by
 * an administrator) is not published; the next renewal finds it, a third of the TTL later.
 *
 * The library may still be inside a callback when a subscription or the connection is gone, so what
 * callbacks touch is counted and outlives both. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/list.h"
#include "prim/nats/store.h"
#include "prim/thread.h"

enum { LOOK_PAUSE_MS = 100 }; /* contenders may publish to a held key as often as they like */

struct bell {
    atomic_int refs;
    pthread_mutex_t lock;
    pthread_cond_t rung_or_stopped;
    bool rung, stopped;
};

struct tap {
    atomic_int refs; /* the list's and the subscription's */
    struct bell *bell;
    atomic_bool dirty;
    coord_id lease_id; /* zero: not of a key but of the stream */
    uint64_t token;
    struct list node;
    natsSubscription *subscription;
    char key[]; /* NUL-terminated */
};

struct jet_guards {
    struct jet_store *store;
    struct bell *bell;
    pthread_t thread;
    pthread_mutex_t lock; /* of the list */
    struct list taps;
};

static void bell_unref(struct bell *bell)
{
    if (atomic_fetch_sub(&bell->refs, 1) > 1) return;
    (void)pthread_mutex_destroy(&bell->lock);
    (void)pthread_cond_destroy(&bell->rung_or_stopped);
    free(bell);
}

static void ring(struct bell *bell)
{
    (void)pthread_mutex_lock(&bell->lock);
    bell->rung = true;
    (void)pthread_cond_signal(&bell->rung_or_stopped);
    (void)pthread_mutex_unlock(&bell->lock);
}

static void tap_unref(struct tap *tap)
{
    if (atomic_fetch_sub(&tap->refs, 1) > 1) return;
    bell_unref(tap->bell);
    free(tap);
}

static void on_complete(void *closure)
{
    tap_unref(closure);
}

/* Our own renewals pass by here, too. */
static bool is_own(const struct tap *tap, natsMsg *message)
{
    struct envelope envelope;
    return envelope_decode(jet_link_body(message), &envelope) == ERR_OK &&
           !(envelope.flags & ENVELOPE_TOMBSTONE) &&
           prim_id_equal(&envelope.lease_id, &tap->lease_id);
}

static void on_message(natsConnection *connection, natsSubscription *subscription, natsMsg *message,
                       void *closure)
{
    struct tap *tap = closure;
    (void)connection, (void)subscription;
    if (prim_id_is_zero(&tap->lease_id) || !is_own(tap, message)) {
        atomic_store(&tap->dirty, true);
        ring(tap->bell);
    }
    natsMsg_Destroy(message);
}

/* Without memory or a connection there is no tap: a renewal still finds what happened. */
static void tap_open(struct jet_guards *guards, const char *subject, const char *key,
                     const coord_id *lease_id, uint64_t token)
{
    size_t len = strlen(key);
    struct tap *tap = calloc(1, sizeof *tap + len + 1);
    if (tap == NULL) return;
    atomic_init(&tap->refs, 2);
    atomic_init(&tap->dirty, false);
    tap->bell = guards->bell;
    atomic_fetch_add(&tap->bell->refs, 1);
    tap->lease_id = *lease_id;
    tap->token = token;
    list_init(&tap->node);
    memcpy(tap->key, key, len + 1);
    struct jet_pipe_guard guard;
    jet_pipe_guard_begin(&guard);
    natsStatus status = natsConnection_Subscribe(&tap->subscription, guards->store->link.connection,
                                                 subject, on_message, tap);
    jet_pipe_guard_end(&guard);
    if (status != NATS_OK) {
        bell_unref(tap->bell);
        free(tap);
        return;
    }
    if (natsSubscription_SetOnCompleteCB(tap->subscription, on_complete, tap) != NATS_OK)
        abort(); /* only for arguments that are none */
    (void)pthread_mutex_lock(&guards->lock);
    list_append(&guards->taps, &tap->node);
    (void)pthread_mutex_unlock(&guards->lock);
    /* What happened between the grant and the subscription. */
    atomic_store(&tap->dirty, true);
    ring(guards->bell);
}

static void tap_close(struct tap *tap)
{
    struct jet_pipe_guard guard;
    jet_pipe_guard_begin(&guard);
    natsSubscription_Destroy(tap->subscription);
    jet_pipe_guard_end(&guard);
    tap_unref(tap);
}

void jet_guard(struct prim_backend *backend, const struct prim_claim *claim)
{
    struct jet_store *store = jet_of(backend);
    for (size_t i = 0; i < claim->count; i++) {
        char subject[JET_SUBJECT_CAP];
        jet_subject_of(str_from(store->bucket), str_from(claim->held[i].key), subject);
        tap_open(store->guards, subject, claim->held[i].key, &claim->lease_id,
                 claim->held[i].token);
    }
}

void jet_unguard(struct prim_backend *backend, const coord_id *lease_id)
{
    struct jet_guards *guards = jet_of(backend)->guards;
    struct list gone;
    list_init(&gone);
    (void)pthread_mutex_lock(&guards->lock);
    LIST_EACH_SAFE(&guards->taps, node, following)
    {
        if (prim_id_equal(&CONTAINER_OF(node, struct tap, node)->lease_id, lease_id)) {
            list_remove(node);
            list_append(&gone, node);
        }
    }
    (void)pthread_mutex_unlock(&guards->lock);
    LIST_EACH_SAFE(&gone, node, following)
    {
        tap_close(CONTAINER_OF(node, struct tap, node));
    }
}

/* -- the thread ------------------------------------------------------------------------------- */

/* A tap that wants a look, counted for the caller; NULL when there is none. */
static struct tap *next_dirty(struct jet_guards *guards)
{
    struct tap *found = NULL;
    (void)pthread_mutex_lock(&guards->lock);
    LIST_EACH(&guards->taps, node)
    {
        struct tap *tap = CONTAINER_OF(node, struct tap, node);
        if (atomic_exchange(&tap->dirty, false)) {
            atomic_fetch_add(&tap->refs, 1);
            found = tap;
            break;
        }
    }
    (void)pthread_mutex_unlock(&guards->lock);
    return found;
}

static void look(struct jet_guards *guards)
{
    struct jet_store *store = guards->store;
    struct tap *tap;
    while ((tap = next_dirty(guards)) != NULL) {
        if (prim_id_is_zero(&tap->lease_id)) {
            jet_stream_check(store);
        } else {
            int64_t deadline_ns =
                prim_clock_now(&store->backend.clock) + (int64_t)JET_REQUEST_MS_MAX * 1000000;
            const struct prim_held held = {.key = tap->key, .token = tap->token};
            const struct prim_claim claim = {.lease_id = tap->lease_id, .held = &held, .count = 1};
            int64_t stored_ms;
            coord_result result = jet_check_claim(store, deadline_ns, &claim, &stored_ms);
            if (result.code == COORD_EXPIRED)
                store->host->lost(store->host, &tap->lease_id, result.reason, result.token);
        }
        tap_unref(tap);
    }
}

static void *run(void *arg)
{
    struct jet_guards *guards = arg;
    struct bell *bell = guards->bell;
    struct timespec until = prim_until_ms(0);
    for (;;) {
        bool timed_out = false;
        (void)pthread_mutex_lock(&bell->lock);
        while (!bell->rung && !bell->stopped && !timed_out)
            timed_out = pthread_cond_timedwait(&bell->rung_or_stopped, &bell->lock, &until) != 0;
        bell->rung = false;
        bool stopped = bell->stopped;
        (void)pthread_mutex_unlock(&bell->lock);
        if (stopped) break;
        look(guards);
        if (timed_out) {
            jet_stream_check(guards->store);
            until = prim_until_ms(JET_CHECK_MS);
        }
        jet_pause_ms(LOOK_PAUSE_MS);
    }
    nats_ReleaseThreadMemory();
    return NULL;
}

static struct bell *bell_open(void)
{
    struct bell *bell = calloc(1, sizeof *bell);
    if (bell == NULL) return NULL;
    prim_cond_init(&bell->rung_or_stopped);
    (void)pthread_mutex_init(&bell->lock, NULL);
    atomic_init(&bell->refs, 1);
    return bell;
}

coord_result jet_guards_open(struct jet_store *store)
{
    struct jet_guards *guards = calloc(1, sizeof *guards);
    struct bell *bell = guards == NULL ? NULL : bell_open();
    if (bell == NULL) {
        free(guards);
        return prim_no_memory();
    }
    guards->store = store;
    guards->bell = bell;
    list_init(&guards->taps);
    (void)pthread_mutex_init(&guards->lock, NULL);
    if (!prim_thread_start(&guards->thread, run, guards)) {
        bell_unref(bell);
        free(guards);
        return prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY, "nats: no thread");
    }
    store->guards = guards;
    char subject[128];
    (void)snprintf(subject, sizeof subject, "$JS.EVENT.ADVISORY.STREAM.*.%s", store->stream);
    tap_open(guards, subject, "", &(coord_id){{0}}, 0);
    return prim_ok(COORD_R_NONE);
}

void jet_guards_close(struct jet_store *store)
{
    struct jet_guards *guards = store->guards;
    if (guards == NULL) return;
    (void)pthread_mutex_lock(&guards->bell->lock);
    guards->bell->stopped = true;
    (void)pthread_cond_signal(&guards->bell->rung_or_stopped);
    (void)pthread_mutex_unlock(&guards->bell->lock);
    (void)pthread_join(guards->thread, NULL);
    LIST_EACH_SAFE(&guards->taps, node, following)
    {
        tap_close(CONTAINER_OF(node, struct tap, node));
    }
    bell_unref(guards->bell);
    (void)pthread_mutex_destroy(&guards->lock);
    free(guards);
    store->guards = NULL;
}
