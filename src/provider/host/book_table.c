/* SPDX-License-Identifier: Apache-2.0 */
/* The table of machines: slots that never move, operations under way by their number, the order of
 * revisions, and what is gone. It knows no rule. */
#include <stdlib.h>

#include "provider/host/book_internal.h"

/* --- operations under way --- */

static struct entry **bucket_of(const struct book *book, uint64_t number)
{
    return &book->under_way[number & (book->buckets - 1)];
}

struct entry *book_find_operation(const struct book *book, uint64_t number)
{
    struct entry *e = number ? *bucket_of(book, number) : NULL;

    while (e && entry_under_way(e) != number) e = e->under_way;
    return e;
}

void table_begin(struct book *book, struct entry *e)
{
    struct entry **bucket = bucket_of(book, entry_under_way(e));

    e->under_way = *bucket;
    *bucket = e;
    book->operations++;
}

void table_end(struct book *book, struct entry *e)
{
    struct entry **at = bucket_of(book, entry_under_way(e));

    while (*at != e) at = &(*at)->under_way;
    *at = e->under_way;
    e->under_way = NULL;
    book->operations--;
}

/* --- the order of revisions --- */

void table_link_newest(struct book *book, struct entry *e)
{
    e->older = book->newest;
    e->newer = NULL;
    if (book->newest)
        book->newest->newer = e;
    else
        book->oldest = e;
    book->newest = e;
}

void table_unlink(struct book *book, struct entry *e)
{
    *(e->newer ? &e->newer->older : &book->newest) = e->older;
    *(e->older ? &e->older->newer : &book->oldest) = e->newer;
    e->newer = e->older = NULL;
}

/* --- slots --- */

static enum err grow_buckets(struct book *book)
{
    uint32_t old_count = book->buckets;
    struct entry **old = book->under_way, **buckets;

    if (book->slots < old_count) return ERR_OK;
    buckets = calloc((size_t)old_count * 2, sizeof(struct entry *));
    if (!buckets) return ERR_NOMEM;
    book->under_way = buckets;
    book->buckets = old_count * 2;
    book->operations = 0;
    for (uint32_t i = 0; i < old_count; i++)
        for (struct entry *e = old[i], *next; e; e = next) {
            next = e->under_way;
            table_begin(book, e);
        }
    free(old);
    return ERR_OK;
}

enum err table_take(struct book *book, struct entry **ret_entry)
{
    struct entry *e = book->free, *chunk;
    enum err err;

    if (map_count(&book->by_id) >= book->options.machines_max) return ERR_FULL;
    if (!e) {
        err = grow_buckets(book);
        if (err) return err;
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

void table_give(struct book *book, struct entry *e)
{
    *e = (struct entry){.slot = e->slot, .newer = book->free};
    book->free = e;
}

/* --- what is gone --- */

void table_bury(struct book *book, struct tombstone *own_tombstone)
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
