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

struct tap {
    atomic_int refs; /* the list's and the subscription's */
    struct jet_guards *guards;
    atomic_bool dirty;
    coord_id lease_id; /* zero: not of a key but of the stream */
    uint64_t token;
    struct list node;
    natsSubscription *subscription;
    char key[]; /* NUL-terminated */
};

struct jet_guards {
    atomic_int refs; /* the store's, and one for each tap */
    struct jet_store *store;
    pthread_t thread;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    bool rung, stopped; /* rung: a tap is dirty */
    struct list taps;
};

static void guards_unref(struct jet_guards *guards)
{
    if (atomic_fetch_sub(&guards->refs, 1) > 1) return;
    (void)pthread_mutex_destroy(&guards->lock);
    (void)pthread_cond_destroy(&guards->changed);
    free(guards);
}

static void mark(struct tap *tap)
{
    struct jet_guards *guards = tap->guards;
    atomic_store(&tap->dirty, true);
    (void)pthread_mutex_lock(&guards->lock);
    guards->rung = true;
    (void)pthread_cond_signal(&guards->changed);
    (void)pthread_mutex_unlock(&guards->lock);
}

static void tap_unref(struct tap *tap)
{
    if (atomic_fetch_sub(&tap->refs, 1) > 1) return;
    guards_unref(tap->guards);
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
    if (prim_id_is_zero(&tap->lease_id) || !is_own(tap, message)) mark(tap);
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
    atomic_init(&tap->dirty, true); /* what happened between the grant and the subscription */
    tap->guards = guards;
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
        free(tap);
        return;
    }
    atomic_fetch_add(&guards->refs, 1);
    if (natsSubscription_SetOnCompleteCB(tap->subscription, on_complete, tap) != NATS_OK)
        abort(); /* only for arguments that are none */
    (void)pthread_mutex_lock(&guards->lock);
    list_append(&guards->taps, &tap->node);
    guards->rung = true;
    (void)pthread_cond_signal(&guards->changed);
    (void)pthread_mutex_unlock(&guards->lock);
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
    struct timespec until = prim_until_ms(0);
    for (;;) {
        bool timed_out = false;
        (void)pthread_mutex_lock(&guards->lock);
        while (!guards->rung && !guards->stopped && !timed_out)
            timed_out = pthread_cond_timedwait(&guards->changed, &guards->lock, &until) != 0;
        guards->rung = false;
        bool stopped = guards->stopped;
        (void)pthread_mutex_unlock(&guards->lock);
        if (stopped) break;
        look(guards);
        if (timed_out) {
            jet_stream_check(guards->store);
            until = prim_until_ms(JET_CHECK_MS);
        }
        prim_thread_pause_ms(LOOK_PAUSE_MS);
    }
    nats_ReleaseThreadMemory();
    return NULL;
}

coord_result jet_guards_open(struct jet_store *store)
{
    struct jet_guards *guards = calloc(1, sizeof *guards);
    if (guards == NULL) return prim_no_memory();
    atomic_init(&guards->refs, 1);
    guards->store = store;
    list_init(&guards->taps);
    prim_cond_init(&guards->changed);
    (void)pthread_mutex_init(&guards->lock, NULL);
    if (!prim_thread_start(&guards->thread, run, guards)) {
        guards_unref(guards);
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
    (void)pthread_mutex_lock(&guards->lock);
    guards->stopped = true;
    (void)pthread_cond_signal(&guards->changed);
    (void)pthread_mutex_unlock(&guards->lock);
    (void)pthread_join(guards->thread, NULL);
    LIST_EACH_SAFE(&guards->taps, node, following)
    {
        tap_close(CONTAINER_OF(node, struct tap, node));
    }
    guards_unref(guards);
    store->guards = NULL;
}
