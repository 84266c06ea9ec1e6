/* A snapshot of the store while commands go on, and its way back.
 *
 * Keys tell themselves (keys.h). Of the other records a view takes a list when it is opened; one
 * that changes or goes before it was told is written aside first, as it was. So a slice costs what
 * it tells, and a command what it changes.
 *
 * Bytes: records of one kind byte, a length of four (little endian), and the content. First H
 * (version, clock, identity, marks, uses), then V (versions of keys, in key order, old to new), L
 * (leases with their claims), G (groups with their slots, each followed by W, its waiters in
 * order), C (clients with their answers), and E, the hash of the whole, which a restore must reach
 * again. docs/formats/store.md has the fields. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "store/core/internal.h"

enum { FORMAT = 1 };

struct store_view {
    struct store *store;
    struct keys_view *keys;
    struct lease **leases;
    struct group **groups;
    struct client **clients;
    size_t lease_count, group_count, client_count, next;
    struct buf leases_aside, groups_aside, clients_aside;
    uint64_t clock_ns, uses, hash;
    struct store_id identity;
    char stage; /* the kind of record that comes next */
};

/* -- writing -- */
static void put_u32(struct buf *into, uint32_t value)
{
    char bytes[4];

    store_le32(bytes, value);
    if (buf_append(into, str_of(bytes, sizeof bytes))) (void)store_must(NULL);
}

static void put_u64(struct buf *into, uint64_t value)
{
    char bytes[8];

    store_le64(bytes, value);
    if (buf_append(into, str_of(bytes, sizeof bytes))) (void)store_must(NULL);
}

static void put_text(struct buf *into, struct str text)
{
    put_u32(into, (uint32_t)text.len);
    if (buf_append(into, text)) (void)store_must(NULL);
}

static void put_id(struct buf *into, const struct store_id *id)
{
    if (buf_append(into, str_of(id->b, sizeof id->b))) (void)store_must(NULL);
}

static size_t record_begin(struct buf *into, char kind)
{
    if (buf_append_byte(into, kind)) (void)store_must(NULL);
    put_u32(into, 0);
    return into->len;
}

static void record_end(struct buf *into, size_t start)
{
    store_le32(into->data + start - 4, (uint32_t)(into->len - start));
}

static void write_lease(const struct lease *lease, struct buf *into)
{
    size_t start = record_begin(into, 'L');

    put_id(into, &lease->id);
    put_u64(into, lease->ttl_ns);
    put_u64(into, lease->deadline_ns);
    put_u32(into, (uint32_t)lease->lost_reason);
    put_u64(into, lease->lost_token);
    put_text(into, str_of(lease->owner, lease->owner_len));
    put_u32(into, lease->claim_count);
    for (uint32_t i = 0; i < lease->claim_count; i++) {
        put_text(into, str_of(lease->claims[i].key, lease->claims[i].key_len));
        put_u64(into, lease->claims[i].token);
        put_u32(into, lease->claims[i].slot);
    }
    record_end(into, start);
}

static void write_group(const struct group *group, struct buf *into)
{
    size_t start = record_begin(into, 'G');

    put_text(into, str_of(group->key, group->key_len));
    put_u32(into, group->slot_count);
    put_u32(into, group->slot_cap);
    put_u64(into, group->cooldown_ns);
    put_u64(into, group->revision);
    for (uint32_t i = 0; i < group->slot_cap; i++) {
        const struct slot *slot = &group->slots[i];
        if (buf_append_byte(into, slot->lease ? 'l' : slot->rest_until_ns ? 'r' : 'f'))
            (void)store_must(NULL);
        if (slot->lease) put_id(into, &slot->lease->id);
        if (slot->rest_until_ns) put_u64(into, slot->rest_until_ns);
    }
    record_end(into, start);
    for (const struct list *at = group->waiters.next; at != &group->waiters; at = at->next) {
        const struct waiter *waiter = CONTAINER_OF(at, struct waiter, in_group);
        start = record_begin(into, 'W');
        put_text(into, str_of(group->key, group->key_len));
        put_id(into, &waiter->lease->id);
        put_id(into, &waiter->client);
        put_u64(into, waiter->sequence);
        put_u32(into, waiter->prefer_slot);
        put_text(into, str_of(waiter->value, waiter->value_len));
        record_end(into, start);
    }
}

static void write_result(const struct store_result *result, struct buf *into)
{
    put_u32(into, (uint32_t)result->code);
    put_u32(into, (uint32_t)result->reason);
    put_u64(into, result->revision);
    put_u64(into, result->token);
    put_u64(into, result->create_revision);
    put_u64(into, (uint64_t)result->granted_ttl_ms);
    put_u64(into, (uint64_t)result->hint_ms);
    put_u32(into, result->slot);
    put_u32(into, result->live);
    put_u32(into, result->slot_count);
    put_u32(into, result->waiting);
    put_id(into, &result->lease);
    put_text(into, str_from(result->owner));
}

static void write_client(const struct client *client, struct buf *into)
{
    size_t start = record_begin(into, 'C');

    put_id(into, &client->id);
    put_u64(into, client->seen_ns);
    put_u64(into, client->use);
    put_u64(into, client->floor);
    put_u32(into, client->count);
    for (uint32_t i = 0; i < client->count; i++) {
        put_u64(into, client->answers[i].sequence);
        put_u32(into, client->answers[i].fingerprint);
        write_result(&client->answers[i].result, into);
    }
    record_end(into, start);
}

/* -- putting aside -- */
void view_lease(struct store *store, struct lease *lease)
{
    if (!lease->in_view) return;
    write_lease(lease, &store->view->leases_aside);
    store->view->leases[lease->in_view - 1] = NULL;
    lease->in_view = 0;
}

void view_group(struct store *store, struct group *group)
{
    if (!group->in_view) return;
    write_group(group, &store->view->groups_aside);
    store->view->groups[group->in_view - 1] = NULL;
    group->in_view = 0;
}

void view_client(struct store *store, struct client *client)
{
    if (!client->in_view) return;
    write_client(client, &store->view->clients_aside);
    store->view->clients[client->in_view - 1] = NULL;
    client->in_view = 0;
}

/* -- a view -- */
uint64_t store_hash(const struct store *store)
{
    uint64_t identity = str_hash(str_of(store->identity.b, sizeof store->identity.b), 7);

    return store->hash ^ keys_hash(store->keys) ^ identity ^
           store->clock_ns * 0xff51afd7ed558ccdull;
}

struct store_view *store_view_open(struct store *store)
{
    struct store_view *view;
    struct map_entry *entry;
    size_t cursor;

    if (store->view || !(view = calloc(1, sizeof *view))) return NULL;
    view->keys = keys_view_open(store->keys);
    view->leases = malloc((map_count(&store->leases) + 1) * sizeof(void *));
    view->groups = malloc((map_count(&store->groups) + 1) * sizeof(void *));
    view->clients = malloc((map_count(&store->clients) + 1) * sizeof(void *));
    if (!view->keys || !view->leases || !view->groups || !view->clients) {
        keys_view_close(view->keys);
        free(view->leases);
        free(view->groups);
        free(view->clients);
        free(view);
        return NULL;
    }
    for (cursor = 0; (entry = map_next(&store->leases, &cursor));) {
        struct lease *lease = entry->value;
        view->leases[view->lease_count++] = lease;
        lease->in_view = (uint32_t)view->lease_count;
    }
    for (cursor = 0; (entry = map_next(&store->groups, &cursor));) {
        struct group *group = entry->value;
        view->groups[view->group_count++] = group;
        group->in_view = (uint32_t)view->group_count;
    }
    for (cursor = 0; (entry = map_next(&store->clients, &cursor));) {
        struct client *client = entry->value;
        view->clients[view->client_count++] = client;
        client->in_view = (uint32_t)view->client_count;
    }
    buf_init(&view->leases_aside, SIZE_MAX / 2);
    buf_init(&view->groups_aside, SIZE_MAX / 2);
    buf_init(&view->clients_aside, SIZE_MAX / 2);
    view->store = store;
    view->clock_ns = store->clock_ns;
    view->uses = store->uses;
    view->identity = store->identity;
    view->hash = store_hash(store);
    view->stage = 'H';
    store->view = view;
    return view;
}

void store_view_close(struct store_view *view)
{
    if (!view) return;
    for (size_t i = 0; i < view->lease_count; i++)
        if (view->leases[i]) view->leases[i]->in_view = 0;
    for (size_t i = 0; i < view->group_count; i++)
        if (view->groups[i]) view->groups[i]->in_view = 0;
    for (size_t i = 0; i < view->client_count; i++)
        if (view->clients[i]) view->clients[i]->in_view = 0;
    view->store->view = NULL;
    keys_view_close(view->keys);
    buf_deinit(&view->leases_aside);
    buf_deinit(&view->groups_aside);
    buf_deinit(&view->clients_aside);
    free(view->leases);
    free(view->groups);
    free(view->clients);
    free(view);
}

static void write_version(void *context, const struct key_value *version)
{
    struct buf *into = context;
    size_t start = record_begin(into, 'V');

    put_text(into, version->key);
    put_u64(into, version->create);
    put_u64(into, version->mod);
    put_u64(into, version->version);
    put_u64(into, version->lease);
    put_u32(into, version->sub);
    put_text(into, version->value);
    record_end(into, start);
}

static void write_header(const struct store_view *view, struct buf *into)
{
    struct keys_marks marks = keys_view_marks(view->keys);
    size_t start = record_begin(into, 'H');

    put_u32(into, FORMAT);
    put_u64(into, view->clock_ns);
    put_id(into, &view->identity);
    put_u64(into, marks.revision);
    put_u64(into, marks.compacted);
    put_u64(into, marks.pruned);
    put_u64(into, view->uses);
    record_end(into, start);
}

/* What was put aside goes out with the rest of its kind. */
static void write_aside(struct buf *aside, struct buf *into)
{
    if (aside->len > 0 && buf_append(into, buf_peek(aside))) (void)store_must(NULL);
    buf_clear(aside);
}

bool store_view_next(struct store_view *view, size_t budget, struct buf *into, enum err *ret_err)
{
    size_t end = into->len + (budget ? budget : 1), start;

    *ret_err = ERR_OK;
    while (into->len < end) {
        switch (view->stage) {
        case 'H':
            write_header(view, into);
            view->stage = 'V';
            break;
        case 'V':
            if (!keys_view_next(view->keys, end - into->len, write_version, into)) {
                view->stage = 'L';
                view->next = 0;
            }
            break;
        case 'L':
            write_aside(&view->leases_aside, into);
            for (; view->next < view->lease_count && into->len < end; view->next++) {
                struct lease *lease = view->leases[view->next];
                if (!lease) continue;
                write_lease(lease, into);
                lease->in_view = 0;
                view->leases[view->next] = NULL;
            }
            if (view->next < view->lease_count) break;
            view->stage = 'G';
            view->next = 0;
            break;
        case 'G':
            write_aside(&view->groups_aside, into);
            for (; view->next < view->group_count && into->len < end; view->next++) {
                struct group *group = view->groups[view->next];
                if (!group) continue;
                write_group(group, into);
                group->in_view = 0;
                view->groups[view->next] = NULL;
            }
            if (view->next < view->group_count) break;
            view->stage = 'C';
            view->next = 0;
            break;
        case 'C':
            write_aside(&view->clients_aside, into);
            for (; view->next < view->client_count && into->len < end; view->next++) {
                struct client *client = view->clients[view->next];
                if (!client) continue;
                write_client(client, into);
                client->in_view = 0;
                view->clients[view->next] = NULL;
            }
            if (view->next < view->client_count) break;
            view->stage = 'E';
            break;
        case 'E':
            start = record_begin(into, 'E');
            put_u64(into, view->hash);
            record_end(into, start);
            view->stage = 0;
            return false;
        default: return false;
        }
    }
    return true;
}
