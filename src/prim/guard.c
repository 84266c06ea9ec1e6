/* SPDX-License-Identifier: Apache-2.0 */
/* Guards of kept claims (guard.h). A separate thread opens and ends the watches, because both
 * may wait for a server. Events arrive on the backend's threads.
 *
 * Invariants: the lock is not held during backend calls. The host is called under the lock and
 * does not call back. A scope without keys is in `empty` and gets no more keys. Only the thread
 * opens, ends and frees scopes, so a scope outlives every event of its watch. A key is reported
 * lost at most once. */
#include "prim/guard.h"

#include <stdlib.h>

#include "base/list.h"
#include "base/time.h"
#include "prim/answer.h"
#include "prim/names.h"
#include "prim/thread.h"

enum { OPEN_LIMIT_MS = 10000 };

struct guard_scope {
    struct list link;
    struct prim_guards *guards;
    struct list keys;
    struct prim_feed *feed;
    void *watch; /* NULL: the watch could not be opened */
    bool ended;
    uint64_t seen; /* all changes up to this revision have arrived */
};
struct guard_key {
    struct list in_claim, in_scope; /* in_scope: in `fresh` without a scope, else in its `keys` */
    struct guard_scope *scope;
    coord_id lease_id;
    uint64_t token;
    bool lost; /* lost and reported */
    bool here; /* in the snapshot being received */
    size_t len;
    char name[];
};
struct prim_guard {
    struct list link, keys;
};
struct prim_guards {
    struct prim_backend *backend;
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t changed;
    pthread_t thread;
    bool running, stopping;
    struct list claims;
    struct list fresh; /* keys without a scope */
    struct list scopes, empty;
    size_t key_count;
};

static struct str key_name(const struct guard_key *key)
{
    return str_of(key->name, key->len);
}

/* -- events, called on the backend's threads -- */

/* Reason of the key's loss; 0: none. */
static int key_take(struct guard_key *key, const struct prim_event *event)
{
    if (event->type == COORD_SNAPSHOT_BEGIN) key->here = false;
    /* A snapshot older than the grant proves nothing. Revision 0: the latest. */
    if (event->type == COORD_SNAPSHOT_END)
        return !key->here && (event->revision == 0 || event->revision >= key->token)
                   ? COORD_R_REVOKED
                   : 0;
    if (!str_equal(key_name(key), event->key)) return 0;
    key->here = true;
    if (event->revision <= key->token) return 0; /* the grant or older */
    if (event->type == COORD_DELETE) return COORD_R_REVOKED;
    if (event->type == COORD_EXPIRE) return COORD_R_DEADLINE;
    return event->token != 0 && event->token != key->token ? COORD_R_SUPERSEDED : 0;
}

static void guard_on_event(void *owner, const struct prim_event *event)
{
    struct guard_scope *scope = owner;
    struct prim_host *host = scope->guards->backend->host;
    bool named = event->token != PRIM_TOKEN_UNKNOWN;

    pthread_mutex_lock(&scope->guards->lock);
    if (event->type == COORD_CLOSED) scope->ended = true;
    /* No key may join during a snapshot, because the key's entry may have been sent. */
    if (event->type == COORD_SNAPSHOT_BEGIN) scope->seen = UINT64_MAX;
    if (event->type == COORD_SNAPSHOT_END) scope->seen = event->revision;
    if (scope->seen < event->revision) scope->seen = event->revision;
    LIST_EACH(&scope->keys, node)
    {
        struct guard_key *key = CONTAINER_OF(node, struct guard_key, in_scope);
        int reason = key_take(key, event);
        if (reason == 0 || key->lost) continue;
        key->lost = true;
        host->lost(host, &key->lease_id, reason,
                   reason == COORD_R_SUPERSEDED && named ? event->token : 0);
    }
    pthread_mutex_unlock(&scope->guards->lock);
}

/* -- the thread: under the lock, except for backend calls -- */

static struct guard_scope *scope_to_join(struct prim_guards *guards, const struct guard_key *key,
                                         size_t *ret_alone)
{
    struct str bucket = prim_bucket_of(key_name(key));

    *ret_alone = 0;
    LIST_EACH(&guards->scopes, node)
    {
        struct guard_scope *scope = CONTAINER_OF(node, struct guard_scope, link);
        struct prim_scope watched = prim_feed_scope(scope->feed);
        if (!scope->ended && scope->seen <= key->token &&
            prim_feed_covers(scope->feed, key_name(key)))
            return scope;
        *ret_alone += !watched.bucket && str_equal(prim_bucket_of(watched.name), bucket);
    }
    return NULL;
}

static struct guard_scope *scope_make(struct prim_guards *guards, struct prim_scope watched,
                                      uint64_t since)
{
    struct guard_scope *scope = calloc(1, sizeof *scope);

    if (!scope) return NULL;
    scope->feed = prim_feed_open_direct(watched, since, guard_on_event, scope);
    if (!scope->feed) {
        free(scope);
        return NULL;
    }
    scope->guards = guards;
    scope->seen = since - 1;
    list_init(&scope->keys);
    list_init(&scope->link);
    list_append(&guards->scopes, &scope->link);
    return scope;
}

static void scope_open(struct guard_scope *scope)
{
    struct prim_guards *guards = scope->guards;
    struct prim_backend *backend = guards->backend;
    struct prim_call call = {.deadline_ns = prim_clock_now(&backend->clock) +
                                            OPEN_LIMIT_MS * (int64_t)NS_PER_MS};
    void *watch = NULL;

    pthread_mutex_unlock(&guards->lock);
    coord_result result = backend->ops->watch(backend, &call, scope->feed, &watch);
    pthread_mutex_lock(&guards->lock);
    scope->watch = watch;
    if (result.code != COORD_OK) scope->ended = true;
}

static void scope_close(struct guard_scope *scope)
{
    struct prim_guards *guards = scope->guards;
    struct prim_backend *backend = guards->backend;

    pthread_mutex_unlock(&guards->lock);
    if (scope->watch) backend->ops->unwatch(backend, scope->watch);
    prim_feed_close(scope->feed);
    free(scope);
    pthread_mutex_lock(&guards->lock);
}

/* The key may be dropped while its watch is being opened. */
static void key_watch(struct prim_guards *guards, struct guard_key *key)
{
    size_t sharing = guards->backend->ops->guards_alone, alone = 0;
    struct guard_scope *scope = sharing > 0 ? scope_to_join(guards, key, &alone) : NULL;
    struct prim_scope watched = {key_name(key), false},
                      whole = {prim_bucket_of(watched.name), true};
    bool fresh = !scope;

    if (sharing > 0 && alone >= sharing && whole.name.len > 0) watched = whole;
    if (fresh) scope = scope_make(guards, watched, key->token + 1);
    if (!scope) return;
    key->scope = scope;
    list_append(&scope->keys, &key->in_scope);
    if (fresh) scope_open(scope);
}

static void *guard_run(void *arg)
{
    struct prim_guards *guards = arg;
    struct list *node;

    pthread_mutex_lock(&guards->lock);
    for (;;) { /* ends when the guards are closed and the last watch has ended */
        if ((node = list_pop(&guards->empty))) {
            assert(guards->empty.next != node);
            scope_close(CONTAINER_OF(node, struct guard_scope, link));
        } else if ((node = list_pop(&guards->fresh))) {
            key_watch(guards, CONTAINER_OF(node, struct guard_key, in_scope));
        } else if (guards->stopping) {
            break;
        } else {
            pthread_cond_wait(&guards->changed, &guards->lock);
        }
    }
    pthread_mutex_unlock(&guards->lock);
    return NULL;
}

/* -- functions for other files: under the lock -- */

static void key_free(struct prim_guards *guards, struct guard_key *key)
{
    struct guard_scope *scope = key->scope;

    list_remove(&key->in_claim);
    list_remove(&key->in_scope);
    free(key);
    guards->key_count--;
    if (!scope || !list_empty(&scope->keys)) return;
    list_remove(&scope->link);
    list_append(&guards->empty, &scope->link);
}

static void keys_free(struct prim_guards *guards, struct list *keys)
{
    LIST_EACH_SAFE(keys, node, following)
    {
        key_free(guards, CONTAINER_OF(node, struct guard_key, in_claim));
    }
}

static struct guard_key *key_make(struct prim_guards *guards, const coord_id *lease_id,
                                  const struct prim_held *held)
{
    size_t len = strlen(held->key);
    struct guard_key *key = NULL;

    if (guards->key_count < guards->backend->ops->guards_max) key = calloc(1, sizeof *key + len);
    if (!key) return NULL;
    guards->key_count++;
    key->lease_id = *lease_id;
    key->token = held->token;
    key->len = len;
    memcpy(key->name, held->key, len);
    list_init(&key->in_claim);
    list_init(&key->in_scope);
    list_append(&guards->fresh, &key->in_scope);
    return key;
}

static struct guard_key *key_of(const struct list *keys, const struct prim_held *held)
{
    for (struct list *node = keys->next; node != keys; node = node->next) {
        struct guard_key *key = CONTAINER_OF(node, struct guard_key, in_claim);
        if (key->token == held->token && str_equal(key_name(key), str_from(held->key))) return key;
    }
    return NULL;
}

static struct prim_guard *claim_make(struct prim_guards *guards)
{
    struct prim_guard *claim = calloc(1, sizeof *claim);

    if (!claim) return NULL;
    list_init(&claim->link);
    list_init(&claim->keys);
    list_append(&guards->claims, &claim->link);
    return claim;
}

static void claim_free(struct prim_guards *guards, struct prim_guard *claim)
{
    keys_free(guards, &claim->keys);
    list_remove(&claim->link);
    free(claim);
}

void prim_guards_add(struct prim_guards *guards, struct prim_guard **guard,
                     const struct prim_claim *in)
{
    struct prim_guard *claim;
    struct list before;

    list_init(&before);
    pthread_mutex_lock(&guards->lock);
    if (!guards->running) guards->running = prim_thread_start(&guards->thread, guard_run, guards);
    if (guards->running && !*guard) *guard = claim_make(guards);
    claim = *guard;
    if (claim) list_splice(&before, &claim->keys);
    for (size_t i = 0; claim && i < in->count; i++) {
        struct guard_key *key = key_of(&before, &in->held[i]);
        if (!key) key = key_make(guards, &in->lease_id, &in->held[i]);
        if (!key) continue; /* out of memory: still try the next key */
        list_remove(&key->in_claim);
        list_append(&claim->keys, &key->in_claim);
    }
    keys_free(guards, &before);
    pthread_cond_signal(&guards->changed);
    pthread_mutex_unlock(&guards->lock);
}

void prim_guards_drop(struct prim_guards *guards, struct prim_guard **guard)
{
    pthread_mutex_lock(&guards->lock);
    if (*guard) claim_free(guards, *guard);
    *guard = NULL;
    pthread_cond_signal(&guards->changed);
    pthread_mutex_unlock(&guards->lock);
}

struct prim_guards *prim_guards_open(struct prim_backend *backend)
{
    struct prim_guards *guards = calloc(1, sizeof *guards);

    if (!guards) return NULL;
    guards->backend = backend;
    (void)pthread_mutex_init(&guards->lock, NULL);
    (void)pthread_cond_init(&guards->changed, NULL);
    list_init(&guards->claims);
    list_init(&guards->fresh);
    list_init(&guards->scopes);
    list_init(&guards->empty);
    return guards;
}

void prim_guards_close(struct prim_guards *guards)
{
    if (!guards) return;
    pthread_mutex_lock(&guards->lock);
    LIST_EACH_SAFE(&guards->claims, node, following)
    {
        claim_free(guards, CONTAINER_OF(node, struct prim_guard, link));
    }
    guards->stopping = true;
    pthread_cond_signal(&guards->changed);
    pthread_mutex_unlock(&guards->lock);
    if (guards->running) (void)pthread_join(guards->thread, NULL);
    assert(list_empty(&guards->scopes) && list_empty(&guards->fresh));
    (void)pthread_cond_destroy(&guards->changed);
    (void)pthread_mutex_destroy(&guards->lock);
    free(guards);
}
