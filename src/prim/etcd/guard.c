/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of our own claims, watched from the revision of their grant: O3, a keep-alive that
 * succeeds is no proof that the entry is still there.
 *
 * All of it belongs to the loop's thread. A guard that cannot be kept up (no memory, no permission)
 * is no loss of safety: every renewal looks at the keys itself. */
#include <stdlib.h>

#include "prim/etcd/internal.h"

enum { VERIFY_LIMIT_MS = 60000 };

struct guard_key {
    struct etcd_sub sub;
    struct list link;
    struct guarded *claim; /* NULL: unguarded while a read is under way */
    struct etcd_backend *backend;
    struct etcd_key stored;
    struct courier_op op; /* after a compaction: is it still ours? */
    bool reading;
};
struct guarded {
    coord_id lease_id;
    int64_t lease;
    struct etcd_backend *backend;
    struct list keys;
    struct post post;
    char *wanted_key; /* of a drop */
};

static struct str id_of(const struct guarded *g)
{
    return str_of(&g->lease_id, sizeof g->lease_id);
}

static void free_key(struct guard_key *key)
{
    etcd_sub_remove(&key->sub);
    list_remove(&key->link);
    key->claim = NULL;
    if (!key->reading) free(key);
}

static void free_guarded(struct guarded *g)
{
    LIST_EACH_SAFE(&g->keys, node, following)
    {
        free_key(CONTAINER_OF(node, struct guard_key, link));
    }
    free(g->wanted_key);
    free(g);
}

static void lost(struct guard_key *key, int reason, uint64_t token)
{
    struct etcd_backend *b = key->backend;
    coord_id lease_id = key->claim->lease_id;

    free_key(key);
    b->host->lost(b->host, &lease_id, reason, token);
}

static uint64_t token_of(const struct etcd_backend *b, const Mvccpb__KeyValue *kv)
{
    struct etcd_entry entry;

    return etcd_entry_read(&b->space, kv, &entry) ? 0 : entry.token;
}

/* -- events -- */

static void on_events(struct etcd_sub *sub, const Etcdserverpb__WatchResponse *response,
                      struct str bytes)
{
    struct guard_key *key = CONTAINER_OF(sub, struct guard_key, sub);

    (void)bytes;
    for (size_t i = 0; i < response->n_events; i++) {
        const Mvccpb__Event *event = response->events[i];
        if (event->type == MVCCPB__EVENT__EVENT_TYPE__DELETE) {
            lost(key, COORD_R_REVOKED, 0);
            return;
        }
        if (event->kv->lease != key->claim->lease) {
            lost(key, COORD_R_SUPERSEDED, token_of(key->backend, event->kv));
            return;
        }
    }
}

static void on_denied(struct etcd_sub *sub, const char *text)
{
    (void)text;
    free_key(CONTAINER_OF(sub, struct guard_key, sub));
}

static void on_read(struct courier_op *op)
{
    struct guard_key *key = CONTAINER_OF(op, struct guard_key, op);
    struct courier_op spent = *op; /* the key, and the op in it, may be gone below */
    const Etcdserverpb__RangeResponse *range;
    ProtobufCMessage *message;
    struct arena arena;

    key->reading = false;
    arena_init(&arena, 1);
    if (!key->claim) {
        free(key);
    } else if (op->err ||
               etcd_reply(op, &etcdserverpb__range_response__descriptor, &arena, &message)) {
        free_key(key); /* the next renewal looks */
    } else {
        range = (Etcdserverpb__RangeResponse *)message;
        if (!range->header || range->header->revision <= 0 || range->n_kvs > 1) {
            free_key(key);
        } else if (range->n_kvs == 0) {
            lost(key, COORD_R_REVOKED, 0);
        } else if (range->kvs[0]->lease != key->claim->lease) {
            lost(key, COORD_R_SUPERSEDED, token_of(key->backend, range->kvs[0]));
        } else {
            key->sub.next = (uint64_t)range->header->revision + 1;
            if (etcd_sub_add(&key->backend->guards, &key->sub)) free_key(key);
        }
    }
    arena_deinit(&arena);
    courier_op_deinit(&spent);
}

static void on_compacted(struct etcd_sub *sub)
{
    Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;
    struct guard_key *key = CONTAINER_OF(sub, struct guard_key, sub);
    struct etcd_client *client = key->backend->client;

    request.key = etcd_bytes(key->sub.key);
    etcd_op_init(&key->op, "/etcdserverpb.KV/Range",
                 etcd_client_now(client) + VERIFY_LIMIT_MS * (int64_t)NS_PER_MS);
    key->op.idempotent = true;
    key->op.done = on_read;
    if (message_write(&request.base, &key->op.request, NULL)) {
        free_key(key);
        return;
    }
    key->reading = true;
    etcd_op_start(client, &key->op);
}

static const struct etcd_sub_events guard_events = {on_events, on_compacted, on_denied};

/* -- from outside -- */

static struct guarded *make(struct etcd_backend *b, const coord_id *lease_id)
{
    struct guarded *g = calloc(1, sizeof *g);

    if (!g) return NULL;
    g->lease_id = *lease_id;
    g->lease = etcd_lease_number(lease_id);
    g->backend = b;
    list_init(&g->keys);
    return g;
}

static void on_guard(struct post *post)
{
    struct guarded *g = CONTAINER_OF(post, struct guarded, post);
    struct etcd_backend *b = g->backend;
    struct guarded *before = map_remove(&b->guarded, id_of(g));

    if (before) free_guarded(before);
    if (map_put(&b->guarded, id_of(g), g)) {
        free_guarded(g);
        return;
    }
    LIST_EACH_SAFE(&g->keys, node, following)
    {
        struct guard_key *key = CONTAINER_OF(node, struct guard_key, link);
        if (etcd_sub_add(&b->guards, &key->sub)) free_key(key);
    }
}

void etcd_guard(struct prim_backend *base, const struct prim_claim *claim)
{
    struct etcd_backend *b = etcd_of(base);
    struct guarded *g = make(b, &claim->lease_id);

    if (!g) return;
    for (size_t i = 0; i < claim->count; i++) {
        struct guard_key *key = calloc(1, sizeof *key);
        if (!key) break;
        etcd_key_make(&b->space, str_from(claim->held[i].key), &key->stored);
        key->sub = (struct etcd_sub){.events = &guard_events,
                                     .key = str_of(key->stored.text, key->stored.len),
                                     .next = claim->held[i].token + 1};
        key->claim = g;
        key->backend = b;
        list_init(&key->sub.link);
        list_init(&key->link);
        list_append(&g->keys, &key->link);
    }
    post_init(&g->post, on_guard);
    loop_post(etcd_client_loop(b->client), &g->post);
}

static void on_unguard(struct post *post)
{
    struct guarded *g = CONTAINER_OF(post, struct guarded, post);
    struct etcd_backend *b = g->backend;
    struct guarded *there;

    if (!g->wanted_key) {
        there = map_remove(&b->guarded, id_of(g));
        if (there) free_guarded(there);
    } else if ((there = map_get(&b->guarded, id_of(g)))) {
        LIST_EACH_SAFE(&there->keys, node, following)
        {
            struct guard_key *key = CONTAINER_OF(node, struct guard_key, link);
            struct str ours = etcd_key_ours(&b->space, key->sub.key);
            if (str_equal(ours, str_from(g->wanted_key))) free_key(key);
        }
    }
    free_guarded(g);
}

static void unguard(struct etcd_backend *b, const coord_id *lease_id, char *own_key)
{
    struct guarded *g = make(b, lease_id);

    if (!g) {
        free(own_key);
        return;
    }
    g->wanted_key = own_key;
    post_init(&g->post, on_unguard);
    loop_post(etcd_client_loop(b->client), &g->post);
}

void etcd_unguard(struct prim_backend *base, const coord_id *lease_id)
{
    unguard(etcd_of(base), lease_id, NULL);
}

void etcd_guard_drop(struct etcd_backend *b, const coord_id *lease_id, struct str key)
{
    char *copy = str_dup(key);

    if (copy) unguard(b, lease_id, copy);
}

void etcd_guards_close(struct etcd_backend *b)
{
    struct map_entry *entry;
    size_t cursor = 0;

    while ((entry = map_next(&b->guarded, &cursor))) {
        struct guarded *g = entry->value;
        (void)map_remove(&b->guarded, id_of(g));
        free_guarded(g);
    }
    map_deinit(&b->guarded);
}
