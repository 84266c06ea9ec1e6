/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of our own claims, watched from the revision of their grant, so that a holder learns at
 * once when one is deleted, taken over or over.
 *
 * Keys share watches: a key joins a watch that covers it and has not yet gone past its grant; else
 * it gets one of its own, for the key alone, or for its bucket when several of the bucket are
 * guarded already. After a gap the snapshot says which keys are still ours.
 *
 * All of it belongs to the loop's thread. A guard that cannot be kept up is no loss of safety:
 * every renewal asks the store. */
#include <stdlib.h>

#include "prim/native/internal.h"

enum { KEYS_ALONE = 4 }; /* of one bucket; the next one has the bucket watched */

struct guard_scope {
    struct native_sub sub;
    struct list link, keys;
    struct native_backend *backend;
};
struct guard_key {
    struct list in_scope, in_claim;
    struct guard_scope *scope;
    struct guarded *claim;
    uint64_t token;
    bool seen; /* in the snapshot that comes */
    size_t len;
    char key[PRIM_KEY_MAX + 1];
};
struct guarded {
    coord_id lease_id;
    struct native_backend *backend;
    struct list keys;
    struct post post;
};

static struct str id_of(const struct guarded *g)
{
    return str_of(&g->lease_id, sizeof g->lease_id);
}

static struct str key_of(const struct guard_key *key)
{
    return str_of(key->key, key->len);
}

static void free_scope(struct guard_scope *scope)
{
    native_sub_deinit(&scope->sub);
    list_remove(&scope->link);
    free(scope);
}

static void free_key(struct guard_key *key)
{
    list_remove(&key->in_scope);
    list_remove(&key->in_claim);
    free(key);
}

static void free_guarded(struct guarded *g)
{
    LIST_EACH_SAFE(&g->keys, node, following)
    {
        struct guard_key *key = CONTAINER_OF(node, struct guard_key, in_claim);
        struct guard_scope *scope = key->scope;
        free_key(key);
        if (scope && list_empty(&scope->keys)) free_scope(scope);
    }
    free(g);
}

/* The key is told once; its scope stays until the events at hand are read. */
static void lost(struct guard_key *key, int reason, uint64_t token)
{
    struct native_backend *b = key->claim->backend;
    coord_id lease_id = key->claim->lease_id;

    free_key(key);
    b->host->lost(b->host, &lease_id, reason, token);
}

static void judge(struct guard_scope *scope, const Muster__V1__WatchEvent *event, bool snapshot)
{
    struct native_entry entry;

    if (native_entry(event->entry, false, &entry)) return;
    LIST_EACH_SAFE(&scope->keys, node, following)
    {
        struct guard_key *key = CONTAINER_OF(node, struct guard_key, in_scope);
        if (!str_equal(key_of(key), entry.key)) continue;
        if (snapshot) key->seen = true;
        if (entry.revision <= key->token) continue; /* of before its grant, or the grant itself */
        if (event->type == MUSTER__V1__WATCH_EVENT__TYPE__DELETE)
            lost(key, COORD_R_REVOKED, 0);
        else if (event->type == MUSTER__V1__WATCH_EVENT__TYPE__EXPIRED)
            lost(key, COORD_R_DEADLINE, 0);
        else if (!prim_id_is_zero(&entry.lease_id) &&
                 !prim_id_equal(&entry.lease_id, &key->claim->lease_id))
            lost(key, COORD_R_SUPERSEDED, entry.token);
    }
}

static void done(struct guard_scope *scope)
{
    if (list_empty(&scope->keys)) free_scope(scope);
}

static void on_begin(struct native_sub *sub)
{
    struct guard_scope *scope = CONTAINER_OF(sub, struct guard_scope, sub);

    LIST_EACH(&scope->keys, node)
    {
        CONTAINER_OF(node, struct guard_key, in_scope)->seen = false;
    }
}

static void on_snapshot(struct native_sub *sub, const Muster__V1__WatchResponse *part)
{
    struct guard_scope *scope = CONTAINER_OF(sub, struct guard_scope, sub);

    for (size_t i = 0; i < part->n_events; i++) judge(scope, part->events[i], true);
    LIST_EACH_SAFE(&scope->keys, node, following)
    {
        struct guard_key *key = CONTAINER_OF(node, struct guard_key, in_scope);
        if (!part->more && !key->seen && key->token <= part->revision)
            lost(key, COORD_R_REVOKED, 0);
    }
    done(scope);
}

static void on_changes(struct native_sub *sub, const Muster__V1__WatchResponse *changes)
{
    struct guard_scope *scope = CONTAINER_OF(sub, struct guard_scope, sub);

    for (size_t i = 0; i < changes->n_events; i++) judge(scope, changes->events[i], false);
    done(scope);
}

static void on_refused(struct native_sub *sub, int reason, struct str text)
{
    struct guard_scope *scope = CONTAINER_OF(sub, struct guard_scope, sub);

    (void)text;
    if (reason == COORD_R_OTHER_STORE) (void)native_other_store(scope->backend);
    LIST_EACH_SAFE(&scope->keys, node, following)
    {
        free_key(CONTAINER_OF(node, struct guard_key, in_scope));
    }
    free_scope(scope);
}

static const struct native_sub_events guard_events = {
    .on_begin = on_begin,
    .on_snapshot = on_snapshot,
    .on_changes = on_changes,
    .on_gap = on_begin,
    .on_refused = on_refused,
};

/* -- which watch -- */

static bool covers(const struct guard_scope *scope, struct str key)
{
    return prim_in_scope(key, str_of(scope->sub.scope, scope->sub.scope_len), scope->sub.bucket);
}

static struct guard_scope *make_scope(struct native_backend *b, struct str name, bool bucket,
                                      uint64_t next)
{
    struct guard_scope *scope = calloc(1, sizeof *scope);

    if (!scope) return NULL;
    scope->backend = b;
    scope->sub.events = &guard_events;
    list_init(&scope->link);
    list_init(&scope->keys);
    if (native_sub_init(&scope->sub, b->client, name, bucket, next)) {
        free(scope);
        return NULL;
    }
    list_append(&b->scopes, &scope->link);
    native_sub_open(&scope->sub);
    return scope;
}

static struct guard_scope *scope_for(struct native_backend *b, const struct guard_key *key)
{
    struct str bucket = prim_bucket_of(key_of(key));
    size_t alone = 0;

    LIST_EACH(&b->scopes, node)
    {
        struct guard_scope *scope = CONTAINER_OF(node, struct guard_scope, link);
        /* Not one whose snapshot is under way: the key may stand in a part that was told. */
        if (covers(scope, key_of(key)) && scope->sub.next > 0 && scope->sub.next <= key->token + 1)
            return scope;
        alone += !scope->sub.bucket &&
                 str_equal(prim_bucket_of(str_of(scope->sub.scope, scope->sub.scope_len)), bucket);
    }
    if (alone >= KEYS_ALONE && bucket.len > 0) return make_scope(b, bucket, true, key->token + 1);
    return make_scope(b, key_of(key), false, key->token + 1);
}

/* -- from outside -- */

static void on_guard(struct post *post)
{
    struct guarded *g = CONTAINER_OF(post, struct guarded, post);
    struct native_backend *b = g->backend;
    struct guarded *before = map_remove(&b->guarded, id_of(g));

    LIST_EACH_SAFE(&g->keys, node, following)
    {
        struct guard_key *key = CONTAINER_OF(node, struct guard_key, in_claim);
        key->scope = scope_for(b, key);
        if (key->scope)
            list_append(&key->scope->keys, &key->in_scope);
        else
            free_key(key);
    }
    if (before) free_guarded(before); /* after: the same watches serve again */
    if (map_put(&b->guarded, id_of(g), g)) free_guarded(g);
}

void native_guard(struct prim_backend *base, const struct prim_claim *claim)
{
    struct native_backend *b = native_of(base);
    struct guarded *g = calloc(1, sizeof *g);

    if (!g) return;
    g->lease_id = claim->lease_id;
    g->backend = b;
    list_init(&g->keys);
    for (size_t i = 0; i < claim->count; i++) {
        struct guard_key *key = calloc(1, sizeof *key);
        if (!key) break;
        key->len = strlen(claim->held[i].key);
        assert(key->len < sizeof key->key);
        memcpy(key->key, claim->held[i].key, key->len);
        key->claim = g;
        key->token = claim->held[i].token;
        list_init(&key->in_scope);
        list_init(&key->in_claim);
        list_append(&g->keys, &key->in_claim);
    }
    post_init(&g->post, on_guard);
    loop_post(native_client_loop(b->client), &g->post);
}

static void on_unguard(struct post *post)
{
    struct guarded *g = CONTAINER_OF(post, struct guarded, post);
    struct guarded *there = map_remove(&g->backend->guarded, id_of(g));

    if (there) free_guarded(there);
    free_guarded(g);
}

void native_unguard(struct prim_backend *base, const coord_id *lease_id)
{
    struct native_backend *b = native_of(base);
    struct guarded *g = calloc(1, sizeof *g);

    if (!g) return; /* it goes on being guarded, and is told to nobody */
    g->lease_id = *lease_id;
    g->backend = b;
    list_init(&g->keys);
    post_init(&g->post, on_unguard);
    loop_post(native_client_loop(b->client), &g->post);
}

void native_guards_close(struct native_backend *b)
{
    struct map_entry *entry;
    size_t cursor = 0;

    while ((entry = map_next(&b->guarded, &cursor))) {
        struct guarded *g = entry->value;
        (void)map_remove(&b->guarded, id_of(g));
        free_guarded(g);
        cursor = 0;
    }
    map_deinit(&b->guarded);
    assert(list_empty(&b->scopes));
}
