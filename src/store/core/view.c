/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot of the store while commands go on, and its way back.
 *
 * Keys tell themselves (keys.h). Of the other records those that the view has not told yet stand
 * first on a list of their kind; one that changes or goes before its turn is written aside, as it
 * was. So a view begins and ends at once, a slice costs what it tells, and a command what it
 * changes.
 *
 * Bytes: records of one kind byte, a length of four (little endian), and the content. First H
 * (version, clock, identity, marks, uses), then V (versions of keys, in key order, old to new), L
 * (leases with their claims), G (groups with their slots), W (who waits, with its place in the
 * queue), C (clients with their answers), and E, the hash of the whole, which a restore must reach
 * again. docs/formats/store.md has the fields. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "store/core/internal.h"

enum { FORMAT = 2 };

enum { KIND_LEASES, KIND_GROUPS, KIND_WAITERS, KIND_CLIENTS, KINDS };
static const char stages[] = "HVLGWCE";

struct aside { /* a record as it was; kept whole, so that no large buffer is ever moved */
    struct aside *next;
    size_t len, at;
    char bytes[];
};
struct asides { /* first come, first told */
    struct aside *first, *last;
};
struct store_view {
    struct store *store;
    struct keys_view *keys;
    struct asides aside[KINDS];
    struct buf record; /* scratch */
    uint64_t clock_ns, uses, hash;
    struct store_id identity;
    const char *stage; /* in `stages`: the kind of record that comes next */
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
        if (buf_append_byte(into, (char)(slot->lease ? 'l' : slot->rest_until_ns ? 'r' : 'f')))
            (void)store_must(NULL);
        if (slot->lease) put_id(into, &slot->lease->id);
        if (slot->rest_until_ns) put_u64(into, slot->rest_until_ns);
    }
    record_end(into, start);
}

static void write_waiter(const struct waiter *waiter, struct buf *into)
{
    size_t start = record_begin(into, 'W');

    put_text(into, str_of(waiter->group->key, waiter->group->key_len));
    put_id(into, &waiter->lease->id);
    put_id(into, &waiter->client);
    put_u64(into, waiter->sequence);
    put_u64(into, waiter->place);
    put_u32(into, waiter->prefer_slot);
    put_text(into, str_of(waiter->value, waiter->value_len));
    record_end(into, start);
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

static struct list *list_of(struct store *store, int kind)
{
    struct list *lists[KINDS] = {&store->leases_told, &store->groups_told, &store->waiters_told,
                                 &store->clients_told};

    return lists[kind];
}

static void write_record(int kind, const struct told *told, struct buf *into)
{
    switch (kind) {
    case KIND_LEASES: write_lease(CONTAINER_OF(told, const struct lease, told), into); return;
    case KIND_GROUPS: write_group(CONTAINER_OF(told, const struct group, told), into); return;
    case KIND_WAITERS: write_waiter(CONTAINER_OF(told, const struct waiter, told), into); return;
    default: write_client(CONTAINER_OF(told, const struct client, told), into); return;
    }
}

/* -- what was told, and what was put aside -- */
void view_born(struct store *store, struct list *kind, struct told *told)
{
    told->stamp = store->view_stamp;
    list_init(&told->link);
    list_append(kind, &told->link);
}

static void tell(struct store *store, int kind, struct told *told)
{
    told->stamp = store->view_stamp;
    list_remove(&told->link);
    list_append(list_of(store, kind), &told->link);
}

static void put_aside(struct store *store, int kind, struct told *told)
{
    struct store_view *view = store->view;
    struct aside *aside;

    if (!view || told->stamp == store->view_stamp) return;
    buf_clear(&view->record);
    write_record(kind, told, &view->record);
    aside = store_must(malloc(sizeof *aside + view->record.len));
    *aside = (struct aside){.len = view->record.len};
    memcpy(aside->bytes, view->record.data, aside->len);
    if (view->aside[kind].last)
        view->aside[kind].last->next = aside;
    else
        view->aside[kind].first = aside;
    view->aside[kind].last = aside;
    tell(store, kind, told);
}

static void aside_drop(struct asides *asides)
{
    struct aside *first = asides->first;

    asides->first = first->next;
    if (!asides->first) asides->last = NULL;
    free(first);
}

void view_lease(struct store *store, struct lease *lease)
{
    put_aside(store, KIND_LEASES, &lease->told);
}

void view_group(struct store *store, struct group *group)
{
    put_aside(store, KIND_GROUPS, &group->told);
}

void view_waiter(struct store *store, struct waiter *waiter)
{
    put_aside(store, KIND_WAITERS, &waiter->told);
}

void view_client(struct store *store, struct client *client)
{
    put_aside(store, KIND_CLIENTS, &client->told);
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

    if (store->view || !(view = calloc(1, sizeof *view))) return NULL;
    view->keys = keys_view_open(store->keys);
    if (!view->keys) {
        free(view);
        return NULL;
    }
    buf_init(&view->record, SIZE_MAX / 2);
    view->store = store;
    view->clock_ns = store->clock_ns;
    view->uses = store->uses;
    view->identity = store->identity;
    view->hash = store_hash(store);
    view->stage = stages;
    store->view_stamp++;
    store->view = view;
    return view;
}

void store_view_close(struct store_view *view)
{
    if (!view) return;
    view->store->view = NULL;
    keys_view_close(view->keys);
    for (int kind = 0; kind < KINDS; kind++)
        while (view->aside[kind].first) aside_drop(&view->aside[kind]);
    buf_deinit(&view->record);
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
    put_u32(into, marks.pruned_sub);
    put_u64(into, view->uses);
    record_end(into, start);
}

/* False: there is nothing left of this kind. What was put aside comes last, when it can no longer
 * grow, and may be cut anywhere. */
static bool write_kind(struct store_view *view, int kind, struct buf *into, size_t end)
{
    const struct list *records = list_of(view->store, kind);

    while (into->len < end) {
        struct told *told = CONTAINER_OF(records->next, struct told, link);
        struct aside *aside = view->aside[kind].first;
        size_t part;

        if (records->next != records && told->stamp != view->store->view_stamp) {
            write_record(kind, told, into);
            tell(view->store, kind, told);
            continue;
        }
        if (!aside) return false;
        part = min_size(aside->len - aside->at, end - into->len);
        if (buf_append(into, str_of(aside->bytes + aside->at, part))) (void)store_must(NULL);
        aside->at += part;
        if (aside->at == aside->len) aside_drop(&view->aside[kind]);
    }
    return true;
}

bool store_view_next(struct store_view *view, size_t budget, struct buf *into, enum err *ret_err)
{
    size_t end = into->len + (budget ? budget : 1), start;
    bool more = false;

    *ret_err = ERR_OK;
    while (into->len < end) {
        switch (*view->stage) {
        case 'H': write_header(view, into); break;
        case 'V': more = keys_view_next(view->keys, end - into->len, write_version, into); break;
        case 'L': more = write_kind(view, KIND_LEASES, into, end); break;
        case 'G': more = write_kind(view, KIND_GROUPS, into, end); break;
        case 'W': more = write_kind(view, KIND_WAITERS, into, end); break;
        case 'C': more = write_kind(view, KIND_CLIENTS, into, end); break;
        case 'E':
            start = record_begin(into, 'E');
            put_u64(into, view->hash);
            record_end(into, start);
            view->stage++;
            return false;
        default: return false;
        }
        if (!more) view->stage++;
        more = false;
    }
    return true;
}
