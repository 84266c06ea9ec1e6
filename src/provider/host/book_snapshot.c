/* SPDX-License-Identifier: Apache-2.0 */
/* The same book in a new journal: first its counters and what is no machine, then slot by slot. A
 * change to a slot that was told already goes into both journals (book_apply). */
#include "provider/host/book_internal.h"

static void tell_item(struct pool_item *item, uint64_t file, struct buf *into)
{
    const struct change change = {.kind = CHANGE_ITEM, .number = item ? item->number : 0};
    struct change told = change;
    enum err err;

    if (!item || item->written >= file) return;
    told.bytes = pool_text(item);
    err = change_write(&told, into);
    assert(!err);
    item->written = file;
}

void tell_change(const struct change *change, const struct change_items *items, uint64_t file,
                 struct buf *into)
{
    enum err err;

    tell_item(items->offer, file, into);
    tell_item(items->binding, file, into);
    tell_item(items->shard, file, into);
    err = change_write(change, into);
    assert(!err);
}

/* Room first, so that what was said of an item is true whatever happens. */
static enum err say(struct book *book, const struct change *change,
                    const struct change_items *items, struct buf *into)
{
    enum err err = change_room(change, items, into);

    if (!err) tell_change(change, items, book->snapshot.file, into);
    return err;
}

static enum err say_fences(struct book *book, struct str id, const struct fences *fences,
                           struct buf *into)
{
    const struct fence *fence;
    enum err err = ERR_OK;

    for (uint32_t i = 0; !err && (fence = fences_at(fences, i)) != NULL; i++) {
        const struct change change = {.kind = CHANGE_FENCE,
                                      .id = id,
                                      .shard = fence->shard->number,
                                      .epoch = fence->epoch,
                                      .sequence = fence->sequence};
        err = say(book, &change, &(struct change_items){.shard = fence->shard}, into);
    }
    return err;
}

enum err snapshot_say(struct book *book, const struct entry *e, struct buf *into)
{
    char room[ENTRY_HOST_CAP];
    const struct change_items items = {.offer = e->offer, .binding = e->binding};
    struct change change = {
        .kind = CHANGE_MACHINE,
        .id = entry_id(e),
        .revision = e->revision,
        .state = e->state,
        .offer = e->offer->number,
        .binding = e->binding ? e->binding->number : 0,
        .error = str_of(e->error, e->error_len),
    };
    enum err err;

    /* A Failed one must say that it has a host; of the others the state says it. */
    if (e->host || (e->has_host && e->state == MACHINE_FAILED)) change.host = entry_host(e, room);
    if (e->pending) {
        change.blob = str_of(e->pending->blob, e->pending->blob_len);
        change.grace_ms = e->pending->grace_ms;
    }
    for (int i = 0; i < OPERATION_KINDS; i++) change.operations[i] = e->operations[i];
    err = say(book, &change, &items, into);
    return err ? err : say_fences(book, entry_id(e), &e->fences, into);
}

/* The newest epoch of each shard, which no machine's marks may hold any more. It stands beside the
 * shard's id in an item, where a release that does not know it ignores it. */
static enum err say_epochs(struct book *book, struct buf *into)
{
    enum err err = ERR_OK;

    LIST_EACH(&book->shards_by_use, node)
    {
        const struct shard_epoch *newest = CONTAINER_OF(node, struct shard_epoch, link);
        const struct change change = {.kind = CHANGE_ITEM,
                                      .number = newest->shard->number,
                                      .bytes = pool_text(newest->shard),
                                      .epoch = newest->epoch};

        err = change_room(&change, &(struct change_items){.shard = newest->shard}, into);
        if (!err) err = change_write(&change, into);
        if (err) return err;
        newest->shard->written = book->snapshot.file;
    }
    return ERR_OK;
}

static enum err say_marks(struct book *book, struct buf *into)
{
    const struct change marks = {
        .kind = CHANGE_MARKS,
        .identity = book->identity,
        .revision = book->revision,
        .operation = book->operation,
        .item = book->pool.next_number,
        .forgotten = book->forgotten,
    };
    const struct change_items none = {0};
    enum err err = say(book, &marks, &none, into);

    if (!err) err = say_epochs(book, into);
    LIST_EACH(&book->tombstones, node)
    {
        const struct tombstone *t = CONTAINER_OF(node, struct tombstone, link);
        const struct change change = {
            .kind = CHANGE_REMOVED, .id = str_of(t->id, t->id_len), .revision = t->revision};
        if (!err) err = say(book, &change, &none, into);
    }
    LIST_EACH(&book->strangers_by_age, node)
    {
        const struct stranger *s = CONTAINER_OF(node, struct stranger, link);
        if (!err) err = say_fences(book, str_of(s->id, s->id_len), &s->fences, into);
    }
    return err;
}

void book_snapshot_begin(struct book *book)
{
    assert(book->loaded && !book->snapshot.active);
    book->snapshot.active = true;
    book->snapshot.marked = false;
    book->snapshot.position = 0;
    book->snapshot.file = max_u64(book->snapshot.file, book->file) + 1;
    buf_clear(&book->snapshot.changes);
}

enum err book_snapshot_next(struct book *book, size_t budget, struct buf *into, bool *ret_more)
{
    size_t before = into->len;
    enum err err = ERR_OK;

    assert(book->snapshot.active);
    if (!book->snapshot.marked) {
        err = say_marks(book, into);
        if (!err) book->snapshot.marked = true;
    }
    if (!err) err = buf_append(into, buf_peek(&book->snapshot.changes));
    if (!err) buf_clear(&book->snapshot.changes);
    while (!err && book->snapshot.position < book->slots && into->len - before < budget) {
        const struct entry *e = book_slot(book, book->snapshot.position);

        if (e->id) err = snapshot_say(book, e, into);
        if (!err) book->snapshot.position++;
    }
    *ret_more = book->snapshot.position < book->slots;
    if (!*ret_more) book->snapshot.position = UINT32_MAX; /* from here on it hears of everything */
    return err;
}

void book_snapshot_end(struct book *book, bool published)
{
    struct buf old = book->changes;

    assert(book->snapshot.active);
    book->snapshot.active = false;
    if (published) {
        assert(book->snapshot.position == UINT32_MAX);
        book->file = book->snapshot.file;
        book->changes = book->snapshot.changes;
        book->snapshot.changes = old;
    }
    buf_clear(&book->snapshot.changes);
}
