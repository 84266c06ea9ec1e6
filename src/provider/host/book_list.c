/* SPDX-License-Identifier: Apache-2.0 */
/* Lists: the book at one moment, written in pieces while the book changes. Pure.
 *
 * The length of an answer is written first, so a List must write exactly the bytes that it counted.
 * A List visits the slots in order. An entry that changes before its slot was visited is copied
 * first (walks_keep).
 *
 *   cursor      <identity, 16 hex>-<revision>       valid for the life of a book
 *   page token  <boot, 16 hex>-<revision>-<slot>    valid for one process, like slots */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "provider/host/book_internal.h"
#include "wire/pack.h"

enum {
    LIST_REVISION = 2,
    LIST_REMOVED = 100,
    LIST_TOMBSTONES = 101,
    LIST_MORE = 102,
    LIST_NEXT_PAGE = 103,
    TOKEN_CAP = 64,
    SMALL_DELTA = 4096, /* a delta with fewer changes is encoded in one turn */
    ASIDE_BYTES_MAX = 256 << 20,
};

struct book_walk {
    struct list link;
    struct book *book;
    uint32_t states;
    uint64_t since, revision; /* machines whose last change is after `since`, up to `revision` */
    uint64_t cursor;          /* the revision in the response; the same on all pages */
    uint32_t position, end;   /* next slot to write, and where the walk ends */
    uint64_t total;
    struct map aside; /* struct buf by slot: the entry before its change */
    size_t aside_bytes;
    struct buf tail; /* sent last: a small delta and all fields that are not machines */
    bool tail_written;
    enum err broken;
};

/* --- cursors and page tokens --- */

static void token_write(uint64_t name, uint64_t revision, const uint32_t *slot,
                        char text[TOKEN_CAP])
{
    int len = snprintf(text, TOKEN_CAP, "%016" PRIx64 "-%" PRIu64, name, revision);

    if (slot) snprintf(text + len, TOKEN_CAP - (size_t)len, "-%" PRIu32, *slot);
}

/* Parses "<name>-<number>[-<number>]". False: not a token of this book or process. */
static bool token_read(struct str token, uint64_t name, uint64_t *ret_revision, uint64_t *ret_slot)
{
    char wanted[TOKEN_CAP];
    struct str rest, part;

    snprintf(wanted, sizeof wanted, "%016" PRIx64 "-", name);
    if (!str_starts(token, str_from(wanted))) return false;
    rest = str_tail(token, strlen(wanted));
    if (rest.len == 0 || !str_split(&rest, '-', &part) || str_to_u64(part, ret_revision))
        return false;
    if (!ret_slot) return rest.at == NULL;
    return rest.at != NULL && str_to_u64(rest, ret_slot) == ERR_OK;
}

/* False: the cursor is malformed, or tombstones after it were dropped. */
static bool token_read_cursor(const struct book *book, struct str cursor, uint64_t *ret_since)
{
    uint64_t since;

    if (!token_read(cursor, book->identity, &since, NULL)) return false;
    if (since == 0 || since > book->revision || since < book->forgotten) return false;
    *ret_since = since;
    return true;
}

/* --- which machines a List contains --- */

static bool walk_has(const struct book_walk *walk, const struct book_entry *e)
{
    return e->id && (walk->states & BIT(e->state)) && e->revision > walk->since &&
           e->revision <= walk->revision;
}

static enum err walk_keep(struct book_walk *walk, const struct book_entry *e)
{
    struct str slot = str_of(&e->slot, sizeof e->slot);
    struct buf *bytes;
    enum err err;

    if (walk->aside_bytes + e->wire_len > ASIDE_BYTES_MAX) return ERR_NOMEM;
    bytes = map_make(&walk->aside, slot, sizeof *bytes);
    if (!bytes) return ERR_NOMEM;
    buf_init(bytes, e->wire_len);
    err = entry_write(walk->book, e, LIST_MACHINES, bytes);
    assert(err || bytes->len == e->wire_len);
    walk->aside_bytes += bytes->len;
    return err;
}

void walks_keep(struct book *book, const struct book_entry *e)
{
    LIST_EACH(&book->walks, node)
    {
        struct book_walk *walk = CONTAINER_OF(node, struct book_walk, link);

        if (walk->broken || e->slot < walk->position || e->slot >= walk->end) continue;
        /* copied once: the newer revision excludes the entry from this List */
        if (walk_has(walk, e)) walk->broken = walk_keep(walk, e);
    }
}

/* --- measuring the answer --- */

/* Counts the slots from `position` on, up to `most` machines; 0: no limit. */
static void walk_count_slots(struct book_walk *walk, uint64_t most)
{
    const struct book *book = walk->book;
    uint64_t count = 0;
    uint32_t slot = walk->position;

    for (; slot < book->slots && (most == 0 || count < most); slot++) {
        const struct book_entry *e = book_slot(book, slot);

        if (!walk_has(walk, e)) continue;
        walk->total += e->wire_len;
        count++;
    }
    walk->end = slot;
}

/* True if the List has machines after this page. */
static bool walk_has_more(const struct book_walk *walk)
{
    for (uint32_t slot = walk->end; slot < walk->book->slots; slot++)
        if (walk_has(walk, book_slot(walk->book, slot))) return true;
    return false;
}

/* Ends the List at its result number `most`, oldest change first. The response has the revision of
 * that result, so the client's next List contains the later changes. */
static void walk_cut(struct book_walk *walk, uint64_t most)
{
    const struct book *book = walk->book;
    const struct book_entry *e = book->by_revision.oldest;

    if (most == 0 || most >= map_count(&book->by_id) - book->stranger_count) return;
    for (; e && most > 0; e = e->newer)
        if (walk_has(walk, e) && --most == 0 && e->newer)
            walk->revision = walk->cursor = e->revision;
}

/* Encodes all changes in one piece, oldest first. *ret_done false: there are too many for one
 * piece. */
static enum err walk_encode_delta(struct book_walk *walk, bool *ret_done)
{
    struct book *book = walk->book;
    const struct book_entry *e = book->by_revision.newest;
    uint64_t count = 0;
    enum err err = ERR_OK;

    *ret_done = false;
    if (!e || e->revision <= walk->since) {
        *ret_done = true;
        return ERR_OK;
    }
    for (; e->older && e->older->revision > walk->since; e = e->older)
        if (++count >= SMALL_DELTA) return ERR_OK;
    *ret_done = true;
    for (; e && !err; e = e->newer)
        if (walk_has(walk, e)) err = entry_write(book, e, LIST_MACHINES, &walk->tail);
    return err;
}

/* --- the tail of an answer --- */

static void walk_put_removed(struct book_walk *walk, struct pack *pack)
{
    LIST_EACH(&walk->book->tombstones, node)
    {
        const struct tombstone *t = CONTAINER_OF(node, struct tombstone, link);
        struct str id = str_of(t->id, t->id_len);

        if (t->revision <= walk->since || t->revision > walk->revision) continue;
        if (!book_find(walk->book, id)) pack_text(pack, LIST_REMOVED, id);
    }
}

struct tail {
    bool no_tombstones;
    bool removed;
    bool more;
};

static enum err walk_write_tail(struct book_walk *walk, struct tail tail)
{
    struct pack pack = {&walk->tail, ERR_OK};
    char token[TOKEN_CAP];

    token_write(walk->book->identity, walk->cursor, NULL, token);
    pack_text(&pack, LIST_REVISION, str_from(token));
    if (tail.removed && !tail.more) walk_put_removed(walk, &pack);
    pack_u64(&pack, LIST_TOMBSTONES, !tail.no_tombstones);
    pack_u64(&pack, LIST_MORE, tail.more);
    token_write(walk->book->options.boot, walk->cursor, &walk->end, token);
    if (tail.more) pack_text(&pack, LIST_NEXT_PAGE, str_from(token));
    walk->total += walk->tail.len;
    return pack.err;
}

/* --- opening a List and writing it --- */

/* Plans a walk over slots, for everything, a page, a part, or a large delta. */
static void walk_plan_slots(struct book_walk *walk, const struct book_filter *filter,
                            struct tail *tail)
{
    walk->end = walk->book->slots;
    if (filter->page_size > 0 || walk->since > 0 || walk->position > 0 ||
        walk->revision < walk->book->revision)
        walk_count_slots(walk, filter->page_size);
    else
        for (int state = 0; state < MACHINE_STATE_COUNT; state++)
            if (walk->states & BIT(state)) walk->total += walk->book->bytes[state];
    tail->more = filter->page_size > 0 && walk_has_more(walk);
}

static enum err walk_plan(struct book_walk *walk, const struct book_filter *filter,
                          struct note *note)
{
    struct book *book = walk->book;
    bool delta = filter->since.len > 0 && token_read_cursor(book, filter->since, &walk->since);
    struct tail tail = {.no_tombstones = filter->since.len > 0 && !delta, .removed = delta};
    uint64_t slot = 0;
    bool done = false;
    enum err err = ERR_OK;

    if (filter->page_token.len > 0) {
        if (!token_read(filter->page_token, book->options.boot, &walk->cursor, &slot) ||
            slot > book->slots || walk->cursor > book->revision)
            return note_fail(note, ERR_INVALID,
                             "page_token: not of this provider, or of before its restart; begin "
                             "again without one");
        walk->position = (uint32_t)slot;
    } else {
        walk_cut(walk, filter->results_max);
        if (delta) err = walk_encode_delta(walk, &done);
    }
    if (!err && !done) walk_plan_slots(walk, filter, &tail);
    return err ? err : walk_write_tail(walk, tail);
}

enum err book_walk_open(struct book *book, const struct book_filter *filter,
                        struct book_walk **ret_walk, struct note *note)
{
    struct book_walk *walk;
    size_t count = 0;
    enum err err;

    LIST_EACH(&book->walks, node) count++;
    if (count >= BOOK_WALKS_MAX) return ERR_BUSY;
    walk = calloc(1, sizeof *walk);
    if (!walk) return ERR_NOMEM;
    list_init(&walk->link);
    walk->book = book;
    walk->states = (filter->states ? filter->states : UINT32_MAX) & ~BIT(MACHINE_UNSPECIFIED);
    walk->revision = walk->cursor = book->revision;
    map_init(&walk->aside, BOOK_MACHINES_MAX, book->options.seed);
    buf_init(&walk->tail, CHANGES_BYTES_MAX);
    list_append(&book->walks, &walk->link);
    err = walk_plan(walk, filter, note);
    if (err) {
        book_walk_close(walk);
        return err;
    }
    *ret_walk = walk;
    return ERR_OK;
}

uint64_t book_walk_total(const struct book_walk *walk)
{
    return walk->total;
}

static enum err walk_write_slot(struct book_walk *walk, uint32_t slot, struct buf *into)
{
    const struct book_entry *e = book_slot(walk->book, slot);
    const struct buf *aside;

    if (walk_has(walk, e)) return entry_write(walk->book, e, LIST_MACHINES, into);
    if (map_count(&walk->aside) == 0) return ERR_OK;
    aside = map_get(&walk->aside, str_of(&slot, sizeof slot));
    return aside ? buf_append(into, buf_peek(aside)) : ERR_OK;
}

enum err book_walk_next(struct book_walk *walk, size_t budget, struct buf *into)
{
    size_t before = into->len;
    enum err err = walk->broken;

    while (!err && walk->position < walk->end && into->len - before < budget)
        err = walk_write_slot(walk, walk->position++, into);
    if (!err && walk->position >= walk->end && !walk->tail_written) {
        walk->tail_written = true;
        err = buf_append(into, buf_peek(&walk->tail));
    }
    return err;
}

void book_walk_close(struct book_walk *walk)
{
    struct map_entry *at;
    size_t cursor = 0;

    if (!walk) return;
    list_remove(&walk->link);
    while ((at = map_next(&walk->aside, &cursor)) != NULL) buf_deinit(at->value);
    map_free(&walk->aside);
    buf_deinit(&walk->tail);
    free(walk);
}
