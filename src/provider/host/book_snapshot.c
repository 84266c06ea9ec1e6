/* SPDX-License-Identifier: Apache-2.0 */
/* The book as changes: what one machine is; and all of it, for a new journal, slot by slot. What
 * changes meanwhile goes into both journals; a change says all there is to say, so the last one of a
 * machine counts, whether the slot was told before or after it. */
#include "provider/host/book_internal.h"

void change_of(const struct book_entry *e, struct change_of *ret_change)
{
    struct book_change *change = &ret_change->change;

    ret_change->items = (struct change_items){.offer = e->offer, .binding = e->binding};
    *change = (struct book_change){
        .kind = CHANGE_MACHINE,
        .id = entry_id(e),
        .revision = e->revision,
        .state = e->state,
        .offer = e->offer->number,
        .binding = e->binding ? e->binding->number : 0,
        .error = str_of(e->error, e->error_len),
    };
    /* A Failed one must say that it has a host; of the others the state says it. */
    if (e->host || (e->has_host && e->state == MACHINE_FAILED))
        change->host = entry_host(e, ret_change->room);
    if (e->pending) {
        change->blob = str_of(e->pending->blob, e->pending->blob_len);
        change->grace_ms = e->pending->grace_ms;
    }
    memcpy(change->operations, e->operations, sizeof change->operations);
}

static void tell_item(const struct book *book, struct pool_item *item, struct buf *into)
{
    struct book_change change = {.kind = CHANGE_ITEM};
    enum err err;

    if (!item || item->written >= book->rewriting) return;
    change.number = item->number;
    change.bytes = pool_text(item);
    err = change_write(&change, into);
    assert(!err);
    item->written = book->rewriting;
}

void tell_change(const struct book *book, const struct book_change *change,
                 const struct change_items *items, struct buf *into)
{
    enum err err;

    tell_item(book, items->offer, into);
    tell_item(book, items->binding, into);
    tell_item(book, items->shard, into);
    err = change_write(change, into);
    assert(!err);
}

/* Room first, so that what was said of an item is true whatever happens. */
static enum err say(const struct book *book, const struct book_change *change,
                    const struct change_items *items, struct buf *into)
{
    enum err err = change_room(change, items, into);

    if (!err) tell_change(book, change, items, into);
    return err;
}

enum err say_fences(const struct book *book, struct str id, const struct fences *fences,
                    struct buf *into)
{
    enum err err = ERR_OK;

    for (uint32_t i = 0; !err && i < fences->count; i++) {
        const struct fence *fence = &fences->all[i];
        const struct book_change change = {.kind = CHANGE_FENCE,
                                           .id = id,
                                           .shard = fence->shard->number,
                                           .epoch = fence->epoch,
                                           .sequence = fence->sequence};
        err = say(book, &change, &(struct change_items){.shard = fence->shard}, into);
    }
    return err;
}

/* A stranger has no more than its marks. */
static enum err say_entry(const struct book *book, const struct book_entry *e, struct buf *into)
{
    struct change_of all;
    enum err err = ERR_OK;

    if (e->state != MACHINE_UNSPECIFIED) {
        change_of(e, &all);
        err = say(book, &all.change, &all.items, into);
    }
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
        const struct book_change change = {.kind = CHANGE_ITEM,
                                           .number = newest->shard->number,
                                           .bytes = pool_text(newest->shard),
                                           .epoch = newest->epoch};

        err = change_room(&change, &(struct change_items){.shard = newest->shard}, into);
        if (!err) err = change_write(&change, into);
        if (err) return err;
        newest->shard->written = book->rewriting;
    }
    return ERR_OK;
}

static enum err say_marks(struct book *book, struct buf *into)
{
    const struct book_change marks = {
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
        const struct book_change change = {
            .kind = CHANGE_REMOVED, .id = str_of(t->id, t->id_len), .revision = t->revision};
        if (!err) err = say(book, &change, &none, into);
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
    enum err err = ERR_OK;

    if (!book->snapshot.marked) err = say_marks(book, into);
    book->snapshot.marked = !err;
    while (!err && book->snapshot.position < book->slots && into->len - before < budget) {
        const struct book_entry *e = book_slot(book, book->snapshot.position);

        if (e->id) err = say_entry(book, e, into);
        if (!err) book->snapshot.position++;
    }
    *ret_more = book->snapshot.position < book->slots;
    return err;
}
