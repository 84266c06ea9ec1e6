/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the book from the changes of a journal, then links the machines by revision. Pure. */
#include <stdlib.h>

#include "provider/host/book_internal.h"

struct loaded { /* an item and its number in the file, which later changes use */
    struct pool_item *item;
};

/* An item with an epoch is a shard's id, and the epoch is the shard's newest one. */
static enum err load_item(struct book *book, const struct book_change *change, struct note *note)
{
    struct str number = str_of(&change->number, sizeof change->number);
    struct loaded *l = map_make(&book->loading, number, sizeof *l);
    enum err err = ERR_OK;

    if (!l) return ERR_NOMEM;
    if (l->item && !str_equal(pool_text(l->item), change->bytes))
        return note_fail(note, ERR_CORRUPT, "text %llu is given twice",
                         (unsigned long long)change->number);
    if (!l->item) err = pool_take(&book->pool, change->bytes, change->number, &l->item);
    if (err) {
        free(map_remove(&book->loading, number));
        return err;
    }
    l->item->written = book->rewriting;
    return change->epoch ? book_raise_epoch(book, l->item, change->epoch) : ERR_OK;
}

static struct pool_item *load_find(const void *book, uint64_t number)
{
    const struct loaded *l =
        map_get(&((const struct book *)book)->loading, str_of(&number, sizeof number));

    return l ? l->item : NULL;
}

enum err book_replay(struct book *book, struct str changes, struct note *note)
{
    assert(!book->loaded);
    while (changes.len > 0) {
        struct book_change change;
        size_t size;
        enum err err = change_read(changes, load_find, book, &change, &size);

        if (err == ERR_NOT_FOUND)
            return note_fail(note, ERR_CORRUPT, "%.*s: refers to a text that is not there",
                             STR_ARG(change.id));
        if (err) return note_fail(note, ERR_CORRUPT, "a change cannot be read");
        note->text[0] = '\0';
        err =
            change.kind == CHANGE_ITEM ? load_item(book, &change, note) : book_apply(book, &change);
        if (err && !note->text[0])
            note_set(note, "change of '%.*s': %s", STR_ARG(change.id), err_text(err));
        if (err) return err == ERR_FULL ? ERR_CORRUPT : err;
        changes = str_tail(changes, size);
    }
    return ERR_OK;
}

static int load_compare_revisions(const void *a, const void *b)
{
    uint64_t left = (*(struct book_entry *const *)a)->revision;
    uint64_t right = (*(struct book_entry *const *)b)->revision;

    return left < right ? -1 : left > right;
}

static enum err load_link_all(struct book *book)
{
    struct book_entry **all = calloc(map_count(&book->by_id) + 1, sizeof(struct book_entry *));
    struct map_entry *at;
    size_t cursor = 0, count = 0;

    if (!all) return ERR_NOMEM;
    while ((at = map_next(&book->by_id, &cursor)) != NULL)
        if (((struct book_entry *)at->value)->state != MACHINE_UNSPECIFIED)
            all[count++] = at->value;
    qsort(all, count, sizeof(struct book_entry *), load_compare_revisions);
    for (size_t i = 0; i < count; i++) book_order_append(&book->by_revision, all[i]);
    free(all);
    return ERR_OK;
}

enum err book_loaded(struct book *book)
{
    bool is_new = book->revision == 0;
    struct book_change marks = {.kind = CHANGE_MARKS, .revision = 1, .identity = book->identity};
    enum err err = load_link_all(book);
    struct map_entry *at;

    if (err) return err;
    for (size_t cursor = 0; (at = map_next(&book->loading, &cursor)) != NULL;)
        pool_drop(&book->pool, ((struct loaded *)at->value)->item);
    map_free(&book->loading);
    map_init(&book->loading, 0, 0);
    book->loaded = true;
    book_evict(book);
    /* Revision 0 means "everything" on the wire, so a book begins at 1. Every cursor contains the
     * identity, so it must be durable now. */
    return is_new ? book_apply(book, &marks) : ERR_OK;
}
