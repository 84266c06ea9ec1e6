/* SPDX-License-Identifier: Apache-2.0 */
/* The book's tables and the only code that changes them. A change is checked and its memory
 * allocated first, so that it is applied whole or not at all. Pure. */
#include "provider/host/book_internal.h"

#include <stdlib.h>

#include "model/ids.h"

enum {
    POOL_MAX = 8 << 20,
    CHANGE_ROOM = 512, /* upper bound of a change's numbers and tags, in bytes */
};

/* --- open and close --- */

enum err book_open(const struct book_options *options, struct book **ret_book)
{
    struct book *book = calloc(1, sizeof *book);

    if (!book) return ERR_NOMEM;
    book->options = *options;
    if (book->options.machines_max == 0 || book->options.machines_max > BOOK_MACHINES_MAX)
        book->options.machines_max = BOOK_MACHINES_MAX;
    book->identity = options->identity;
    book->rewriting = 1;
    book->chunks = calloc(CHUNKS_MAX, sizeof(struct book_entry *));
    map_init(&book->by_id, book->options.machines_max + STRANGERS_MOST + 1, options->seed);
    map_init(&book->shards, BOOK_SHARDS_MAX + 1, options->seed);
    map_init(&book->loading, POOL_MAX, options->seed);
    map_init(&book->pool.items, POOL_MAX, options->seed);
    book->pool.next_number = 1;
    list_init(&book->shards_by_use);
    list_init(&book->tombstones);
    list_init(&book->walks);
    buf_init(&book->changes, CHANGES_BYTES_MAX);
    buf_init(&book->machine, CHANGES_BYTES_MAX);
    buf_init(&book->host, CHANGES_BYTES_MAX);
    if (!book->chunks) {
        book_close(book);
        return ERR_NOMEM;
    }
    *ret_book = book;
    return ERR_OK;
}

static void entry_clear(struct book *book, struct book_entry *e)
{
    free(e->id);
    free(e->texts);
    for (uint32_t i = 0; i < e->fences.count; i++) pool_drop(&book->pool, e->fences.all[i].shard);
    free(e->fences.all);
    pool_drop(&book->pool, e->offer);
    pool_drop(&book->pool, e->binding);
}

static void book_drop_epoch(struct book *book, struct shard_epoch *newest)
{
    (void)map_remove(&book->shards, pool_text(newest->shard));
    list_remove(&newest->link);
    pool_drop(&book->pool, newest->shard);
    free(newest);
}

void book_close(struct book *book)
{
    struct map_entry *at;
    size_t cursor = 0;

    if (!book) return;
    assert(list_empty(&book->walks));
    while (book->chunks && (at = map_next(&book->by_id, &cursor)) != NULL)
        entry_clear(book, at->value);
    while (!list_empty(&book->shards_by_use))
        book_drop_epoch(book, CONTAINER_OF(book->shards_by_use.next, struct shard_epoch, link));
    while (!list_empty(&book->tombstones))
        free(CONTAINER_OF(list_pop(&book->tombstones), struct tombstone, link));
    for (size_t i = 0; book->chunks && i < CHUNKS_MAX; i++) free(book->chunks[i]);
    free(book->chunks);
    map_deinit(&book->by_id);
    map_deinit(&book->shards);
    map_free(&book->loading);
    map_free(&book->pool.items);
    buf_deinit(&book->changes);
    buf_deinit(&book->machine);
    buf_deinit(&book->host);
    free(book);
}

struct buf *book_changes(struct book *book)
{
    return &book->changes;
}

struct book_stats book_stats(const struct book *book)
{
    struct book_stats stats = {
        .total = map_count(&book->by_id) - book->stranger_count,
        .revision = book->revision,
        .tombstones = book->tombstone_count,
        .strangers = book->stranger_count,
        .shards = map_count(&book->shards),
        .operations = book->operations,
        .blob_bytes = book->blob_bytes,
        .items = map_count(&book->pool.items),
    };

    for (int state = 0; state < MACHINE_STATE_COUNT; state++) {
        stats.machines[state] = book->count[state];
        stats.list_bytes += book->bytes[state];
    }
    return stats;
}

/* --- lists of entries by revision or age --- */

void book_order_append(struct entry_order *order, struct book_entry *e)
{
    e->older = order->newest;
    e->newer = NULL;
    *(order->newest ? &order->newest->newer : &order->oldest) = e;
    order->newest = e;
}

void book_order_remove(struct entry_order *order, struct book_entry *e)
{
    *(e->newer ? &e->newer->older : &order->newest) = e->older;
    *(e->older ? &e->older->newer : &order->oldest) = e->newer;
    e->newer = e->older = NULL;
}

/* --- slots: entries never move --- */

static enum err book_take_slot(struct book *book, struct book_entry **ret_entry)
{
    struct book_entry *e = book->free, *chunk;

    if (!e) {
        if (book->slots == CHUNKS_MAX * CHUNK) return ERR_FULL;
        if (book->slots % CHUNK == 0) {
            chunk = calloc(CHUNK, sizeof *chunk);
            if (!chunk) return ERR_NOMEM;
            book->chunks[book->slots / CHUNK] = chunk;
        }
        e = book_slot(book, book->slots);
        e->slot = book->slots++;
    } else {
        book->free = e->newer;
    }
    e->newer = NULL;
    *ret_entry = e;
    return ERR_OK;
}

static void book_give_slot(struct book *book, struct book_entry *e)
{
    *e = (struct book_entry){.slot = e->slot, .newer = book->free};
    book->free = e;
}

/* --- finding entries --- */

struct book_entry *book_find(const struct book *book, struct str id)
{
    struct book_entry *e = map_get(&book->by_id, id);

    return e && e->state != MACHINE_UNSPECIFIED ? e : NULL;
}

/* --- fences --- */

struct fence *fences_find(const struct fences *fences, struct str shard)
{
    for (uint32_t i = 0; i < fences->count; i++)
        if (str_equal(pool_text(fences->all[i].shard), shard)) return &fences->all[i];
    return NULL;
}

enum err book_raise_epoch(struct book *book, struct pool_item *shard, int64_t epoch)
{
    struct shard_epoch *newest = map_make(&book->shards, pool_text(shard), sizeof *newest);

    if (!newest) return ERR_NOMEM;
    if (!newest->shard) {
        newest->shard = pool_hold(shard);
        newest->epoch = epoch;
        list_init(&newest->link);
    }
    if (epoch > newest->epoch) newest->epoch = epoch;
    list_remove(&newest->link);
    list_append(&book->shards_by_use, &newest->link);
    if (map_count(&book->shards) > BOOK_SHARDS_MAX)
        book_drop_epoch(book, CONTAINER_OF(book->shards_by_use.next, struct shard_epoch, link));
    return ERR_OK;
}

/* Keeps the fences in the order of their last use, the least recently used first. */
static enum err fences_set(struct book *book, struct fences *fences,
                           const struct book_change *change)
{
    struct fence *fence = fences_find(fences, pool_text(change->shard));

    if (!fence && fences->count < BOOK_FENCES_PER_MACHINE_MAX) {
        fence = realloc(fences->all, (fences->count + 1) * sizeof *fence);
        if (!fence) return ERR_NOMEM;
        fences->all = fence;
        fence += fences->count++;
        fence->shard = pool_hold(change->shard);
    } else {
        struct fence used = fence ? *fence : fences->all[0];

        if (!fence) { /* the shard that commanded the machine longest ago; its epoch stays known */
            pool_drop(&book->pool, used.shard);
            used.shard = pool_hold(change->shard);
            fence = fences->all;
        }
        memmove(fence, fence + 1,
                (size_t)(fences->all + fences->count - 1 - fence) * sizeof *fence);
        fence = &fences->all[fences->count - 1];
        fence->shard = used.shard;
    }
    fence->epoch = change->epoch;
    fence->sequence = change->sequence;
    return ERR_OK;
}

static enum err book_add_stranger(struct book *book, struct str id, struct book_entry **ret_entry)
{
    struct book_entry *e = NULL;
    enum err err = book_take_slot(book, &e);

    if (err) return err;
    e->id = str_dup(id);
    e->id_len = (uint8_t)id.len;
    err = e->id ? map_put(&book->by_id, entry_id(e), e) : ERR_NOMEM;
    if (err) {
        free(e->id);
        book_give_slot(book, e);
        return err;
    }
    book_order_append(&book->strangers, e);
    book->stranger_count++;
    *ret_entry = e;
    return ERR_OK;
}

static void book_drop_stranger(struct book *book, struct book_entry *e)
{
    book_order_remove(&book->strangers, e);
    book->stranger_count--;
    (void)map_remove(&book->by_id, entry_id(e));
    entry_clear(book, e);
    book_give_slot(book, e);
}

void book_evict(struct book *book)
{
    size_t most = book->loaded ? BOOK_STRANGERS_MAX : STRANGERS_MOST;

    while (book->stranger_count > most) book_drop_stranger(book, book->strangers.oldest);
}

static enum err book_apply_mark(struct book *book, const struct book_change *change)
{
    struct book_entry *e = map_get(&book->by_id, change->id);
    enum err err = e ? ERR_OK : book_add_stranger(book, change->id, &e);

    if (err) return err;
    err = fences_set(book, &e->fences, change);
    if (e->state == MACHINE_UNSPECIFIED && e->fences.count == 0) book_drop_stranger(book, e);
    book_evict(book);
    return err;
}

/* --- counts per state --- */

static void book_count_out(struct book *book, const struct book_entry *e)
{
    book->count[e->state]--;
    book->bytes[e->state] -= e->wire_len;
}

/* --- applying MACHINE changes --- */

static enum err texts_make(const struct book_change *change, struct entry_texts **ret_texts)
{
    /* "host-<id>" is not stored. */
    bool usual =
        str_starts(change->host, STR("host-")) && str_equal(str_tail(change->host, 5), change->id);
    const struct str parts[] = {usual ? STR_EMPTY : change->host, change->error, change->blob};
    size_t len = parts[0].len + parts[1].len + parts[2].len;
    struct entry_texts *t;
    char *at;

    *ret_texts = NULL;
    if (len == 0 && change->grace_ms == 0) return ERR_OK;
    t = malloc(sizeof *t + len);
    if (!t) return ERR_NOMEM;
    *t = (struct entry_texts){.grace_ms = change->grace_ms,
                              .host_len = (uint32_t)parts[0].len,
                              .error_len = (uint32_t)parts[1].len,
                              .blob_len = (uint32_t)parts[2].len};
    at = t->bytes;
    for (size_t i = 0; i < ARRAY_LEN(parts); at += parts[i++].len)
        if (parts[i].len > 0) memcpy(at, parts[i].at, parts[i].len);
    *ret_texts = t;
    return ERR_OK;
}

static void entry_set_item(struct book *book, struct pool_item **place, struct pool_item *item)
{
    struct pool_item *old = *place;

    *place = pool_hold(item);
    pool_drop(&book->pool, old);
}

static void entry_set_texts(struct book *book, struct book_entry *e, struct entry_texts *own_texts)
{
    book->blob_bytes -= entry_blob(e).len;
    free(e->texts);
    e->texts = own_texts;
    book->blob_bytes += entry_blob(e).len;
}

static void entry_set(struct book *book, struct book_entry *e, const struct book_change *change,
                      struct entry_texts *own_texts)
{
    e->state = (uint8_t)change->state;
    e->revision = change->revision;
    for (int i = 0; i < OPERATION_KINDS; i++) {
        e->operations[i] = change->operations[i];
        book->operation = max_u64(book->operation, change->operations[i]);
    }
    entry_set_item(book, &e->offer, change->offer);
    entry_set_item(book, &e->binding, change->binding);
    e->has_host =
        state_has_host(change->state) && (change->state != MACHINE_FAILED || change->host.len > 0);
    entry_set_texts(book, e, own_texts);
}

static enum err book_apply_machine(struct book *book, const struct book_change *change)
{
    struct book_entry *e = map_get(&book->by_id, change->id);
    bool is_new = !e || e->state == MACHINE_UNSPECIFIED;
    struct entry_texts *texts;
    enum err err;

    assert(change->offer && (!change->binding || state_keeps_binding(change->state)));
    if (is_new && map_count(&book->by_id) - book->stranger_count >= book->options.machines_max)
        return ERR_FULL;
    err = texts_make(change, &texts);
    if (!err && !e) err = book_add_stranger(book, change->id, &e);
    if (err) {
        free(texts);
        return err;
    }
    if (is_new) {
        book_order_remove(&book->strangers, e);
        book->stranger_count--;
    } else {
        walks_keep(book, e);
        book_count_out(book, e);
        if (book->loaded) book_order_remove(&book->by_revision, e);
        book->operations -= entry_under_way(e) != 0;
    }
    /* before entry_set(), which may free texts that the change points to */
    if (book->loaded) book_put_change(book, change, &book->changes);
    entry_set(book, e, change, texts);
    e->wire_len = entry_wire_len(book, e);
    book->count[e->state]++;
    book->bytes[e->state] += e->wire_len;
    book->operations += entry_under_way(e) != 0;
    book->revision = max_u64(book->revision, change->revision);
    if (book->loaded) book_order_append(&book->by_revision, e);
    return ERR_OK;
}

/* --- applying REMOVED --- */

/* Keeps the fences of a removed machine, so that a stale shard stays fenced if the id returns. */
static void book_make_stranger(struct book *book, struct book_entry *e)
{
    const struct book_entry left = {
        .id = e->id, .id_len = e->id_len, .fences = e->fences, .slot = e->slot};

    walks_keep(book, e);
    book_count_out(book, e);
    book->operations -= entry_under_way(e) != 0;
    if (book->loaded) book_order_remove(&book->by_revision, e);
    entry_set_texts(book, e, NULL);
    e->id = NULL;
    e->fences = (struct fences){0};
    entry_clear(book, e);
    *e = left;
    book_order_append(&book->strangers, e);
    book->stranger_count++;
    if (e->fences.count == 0) book_drop_stranger(book, e);
}

/* Above BOOK_TOMBSTONES_MAX the oldest tombstone is dropped. */
static void book_bury(struct book *book, struct tombstone *own_tombstone)
{
    struct list *oldest;

    list_append(&book->tombstones, &own_tombstone->link);
    if (++book->tombstone_count <= BOOK_TOMBSTONES_MAX) return;
    oldest = list_pop(&book->tombstones);
    assert(oldest);
    own_tombstone = CONTAINER_OF(oldest, struct tombstone, link);
    book->forgotten = own_tombstone->revision;
    book->tombstone_count--;
    free(own_tombstone);
}

static enum err book_apply_removed(struct book *book, const struct book_change *change)
{
    struct book_entry *e = book_find(book, change->id);
    struct tombstone *tombstone = malloc(sizeof *tombstone + change->id.len);

    if (!tombstone) return ERR_NOMEM;
    list_init(&tombstone->link);
    tombstone->revision = change->revision;
    tombstone->id_len = (uint8_t)change->id.len;
    memcpy(tombstone->id, change->id.at, change->id.len);
    if (e) book_make_stranger(book, e);
    book_evict(book);
    book->revision = max_u64(book->revision, change->revision);
    book_bury(book, tombstone);
    return ERR_OK;
}

/* --- applying any change --- */

static size_t change_size(const struct book_change *change)
{
    const struct pool_item *const all[] = {change->offer, change->binding, change->shard};
    size_t size =
        CHANGE_ROOM + change->id.len + change->host.len + change->error.len + change->blob.len;

    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (all[i]) size += CHANGE_ROOM + all[i]->len;
    return size;
}

enum err change_room(const struct book_change *change, struct buf *into)
{
    char *at;

    return buf_reserve(into, change_size(change), &at);
}

static enum err book_machine_room(struct book *book, const struct book_change *change)
{
    size_t host = strlen(book->options.provider) + CHANGE_ROOM;
    char *at;
    enum err err;

    buf_clear(&book->machine);
    buf_clear(&book->host);
    err = buf_reserve(&book->host, host, &at);
    return err ? err : buf_reserve(&book->machine, host + change_size(change), &at);
}

enum err book_apply(struct book *book, const struct book_change *change)
{
    const struct book_entry *e;
    enum err err = ERR_OK;

    assert(change->kind != CHANGE_ITEM); /* book_load.c applies the items */
    /* A new journal may not have the machine's fences yet, so write them first. */
    if (change->kind == CHANGE_REMOVED && book->loaded && (e = book_find(book, change->id)) != NULL)
        err = snapshot_put_fences(book, change->id, &e->fences, &book->changes);
    if (!err && book->loaded) err = change_room(change, &book->changes);
    if (!err && change->kind == CHANGE_MACHINE) err = book_machine_room(book, change);
    if (err) return err;
    switch (change->kind) {
    case CHANGE_MACHINE: return book_apply_machine(book, change);
    case CHANGE_FENCE:
        /* If recording the mark fails, the raised epoch stays. That is correct, because the shard's
         * process has this epoch. */
        err = book_raise_epoch(book, change->shard, change->epoch);
        if (!err) err = book_apply_mark(book, change);
        break;
    case CHANGE_REMOVED: err = book_apply_removed(book, change); break;
    case CHANGE_MARKS:
        book->identity = change->identity;
        book->revision = max_u64(book->revision, change->revision);
        book->operation = max_u64(book->operation, change->operation);
        book->forgotten = max_u64(book->forgotten, change->forgotten);
        book->pool.next_number = max_u64(book->pool.next_number, change->item);
        break;
    case CHANGE_ITEM: break;
    }
    if (!err && book->loaded) book_put_change(book, change, &book->changes);
    return err;
}
