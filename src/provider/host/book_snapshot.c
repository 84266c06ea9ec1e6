/* SPDX-License-Identifier: Apache-2.0 */
/* The book as changes: one machine's record, and the whole book for a new journal, slot by slot. A
 * change made meanwhile goes into both journals and has the machine's whole record, so the last
 * record counts. Pure. */
#include "provider/host/book_internal.h"

void change_of(const struct book_entry *e, struct change_of *ret_change)
{
    struct book_change *change = &ret_change->change;

    *change = (struct book_change){
        .kind = CHANGE_MACHINE,
        .id = entry_id(e),
        .revision = e->revision,
        .state = e->state,
        .offer = e->offer,
        .binding = e->binding,
        .host = entry_own_host(e),
        .error = entry_error(e),
        .blob = entry_blob(e),
        .grace_ms = e->texts ? e->texts->grace_ms : 0,
    };
    /* Only a Failed machine states whether it has a host; other states imply the answer. */
    if (e->has_host && e->state == MACHINE_FAILED) change->host = entry_host(e, ret_change->room);
    memcpy(change->operations, e->operations, sizeof change->operations);
}

static void book_put_item(const struct book *book, struct pool_item *item, int64_t epoch,
                          struct buf *into)
{
    const struct book_change change = {
        .kind = CHANGE_ITEM, .number = item->number, .bytes = pool_text(item), .epoch = epoch};
    enum err err = change_write(&change, into);

    assert(!err);
    item->written = book->rewriting;
}

void book_put_change(const struct book *book, const struct book_change *change, struct buf *into)
{
    struct pool_item *const items[] = {change->offer, change->binding, change->shard};
    enum err err;

    for (size_t i = 0; i < ARRAY_LEN(items); i++)
        if (items[i] && items[i]->written < book->rewriting) book_put_item(book, items[i], 0, into);
    err = change_write(change, into);
    assert(!err);
}

/* The room is reserved first, so that an item marked as written is in the file. */
static enum err snapshot_put(const struct book *book, const struct book_change *change,
                             struct buf *into)
{
    enum err err = change_room(change, into);

    if (!err) book_put_change(book, change, into);
    return err;
}

enum err snapshot_put_fences(const struct book *book, struct str id, const struct fences *fences,
                             struct buf *into)
{
    enum err err = ERR_OK;

    for (uint32_t i = 0; !err && i < fences->count; i++) {
        const struct fence *fence = &fences->all[i];
        const struct book_change change = {.kind = CHANGE_FENCE,
                                           .id = id,
                                           .shard = fence->shard,
                                           .epoch = fence->epoch,
                                           .sequence = fence->sequence};
        err = snapshot_put(book, &change, into);
    }
    return err;
}

/* Writes each shard's newest epoch in the item of the shard's id, where older releases ignore
 * it. */
static enum err snapshot_put_epochs(struct book *book, struct buf *into)
{
    enum err err = ERR_OK;

    LIST_EACH(&book->shards_by_use, node)
    {
        const struct shard_epoch *newest = CONTAINER_OF(node, struct shard_epoch, link);

        if (!err) err = change_room(&(struct book_change){.shard = newest->shard}, into);
        if (!err) book_put_item(book, newest->shard, newest->epoch, into);
    }
    return err;
}

static enum err snapshot_put_marks(struct book *book, struct buf *into)
{
    const struct book_change marks = {
        .kind = CHANGE_MARKS,
        .identity = book->identity,
        .revision = book->revision,
        .operation = book->operation,
        .item = book->pool.next_number,
        .forgotten = book->forgotten,
    };
    enum err err = snapshot_put(book, &marks, into);

    if (!err) err = snapshot_put_epochs(book, into);
    LIST_EACH(&book->tombstones, node)
    {
        const struct tombstone *t = CONTAINER_OF(node, struct tombstone, link);
        const struct book_change change = {
            .kind = CHANGE_REMOVED, .id = str_of(t->id, t->id_len), .revision = t->revision};
        if (!err) err = snapshot_put(book, &change, into);
    }
    return err;
}

void book_snapshot_begin(struct book *book)
{
    assert(book->loaded);
    book->snapshot.marked = false;
    book->snapshot.position = 0;
    book->rewriting++;
}

enum err book_snapshot_next(struct book *book, size_t budget, struct buf *into, bool *ret_more)
{
    size_t before = into->len;
    struct change_of all;
    enum err err = ERR_OK;

    if (!book->snapshot.marked) err = snapshot_put_marks(book, into);
    book->snapshot.marked = !err;
    while (!err && book->snapshot.position < book->slots && into->len - before < budget) {
        const struct book_entry *e = book_slot(book, book->snapshot.position);

        if (e->id && e->state != MACHINE_UNSPECIFIED) {
            change_of(e, &all);
            err = snapshot_put(book, &all.change, into);
        }
        if (e->id && !err) err = snapshot_put_fences(book, entry_id(e), &e->fences, into);
        if (!err) book->snapshot.position++;
    }
    *ret_more = book->snapshot.position < book->slots;
    return err;
}
