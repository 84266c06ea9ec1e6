/* SPDX-License-Identifier: Apache-2.0 */
/* The table: slots that never move, the orders of entries, and what is gone. It knows no rule. */
#include <stdlib.h>

#include "provider/host/book_internal.h"

/* --- the order of revisions --- */

void table_link_newest(struct entry_order *order, struct book_entry *e)
{
    e->older = order->newest;
    e->newer = NULL;
    *(order->newest ? &order->newest->newer : &order->oldest) = e;
    order->newest = e;
}

void table_unlink(struct entry_order *order, struct book_entry *e)
{
    *(e->newer ? &e->newer->older : &order->newest) = e->older;
    *(e->older ? &e->older->newer : &order->oldest) = e->newer;
    e->newer = e->older = NULL;
}

/* --- slots --- */

enum err table_take(struct book *book, struct book_entry **ret_entry)
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

void table_give(struct book *book, struct book_entry *e)
{
    *e = (struct book_entry){.slot = e->slot, .newer = book->free};
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
