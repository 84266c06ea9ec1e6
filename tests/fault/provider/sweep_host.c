/* SPDX-License-Identifier: Apache-2.0 */
/* Memory ends at every place of a book's life. A refused call has changed nothing, and
 * the reported changes agree with the book. */
#include <stdio.h>
#include <stdlib.h>

#include "lib/fault_alloc.h"
#include "library.h"
#include "provider/host/catalogue.h"

static const struct book_options options = {
    .seed = 1, .identity = 0xabcd, .boot = 7, .provider = "test", .keeps_blobs = true};

static struct operation_ticket ask(struct book *book, enum operation_kind kind, const char *id)
{
    static const struct label metadata[] = {{{"k", 1}, {"v", 1}}};
    static int64_t sequence;
    struct note note = {.text = ""};
    struct book_answer answer;
    struct buf bytes;

    buf_init(&bytes, 1 << 20);
    answer = book_ask(book,
                      &(struct book_request){.kind = kind,
                                             .machine_id = str_from(id),
                                             .shard = STR("s"),
                                             .epoch = 1,
                                             .sequence = ++sequence,
                                             .cluster = STR("c1"),
                                             .blob = STR("join"),
                                             .metadata = metadata,
                                             .metadata_count = 1,
                                             .grace_ms = 1000},
                      NULL, &bytes, &note);
    CHECK("never fenced by a call that failed", answer.outcome != BOOK_FENCED);
    CHECK("an answer or a reason", (answer.status == GRPC_OK) == (bytes.len > 0));
    buf_deinit(&bytes);
    return answer.outcome == BOOK_ACCEPTED ? answer.operation : (struct operation_ticket){0};
}

static void end(struct book *book, struct operation_ticket operation, bool failed)
{
    const struct operation_end how = {.failed = failed, .error = STR("broken"), .host = STR("i-1")};
    enum err err;

    if (operation.number) (void)book_end(book, operation, &how, &err);
}

static void see(struct book *book, enum sighting what, const char *id)
{
    struct note note;
    (void)book_see(book, what, str_from(id), &plain_offer, STR("fire"), &note);
}

/* A List that runs while machines change; it may fail, but its length is never wrong. */
static void list_while(struct book *book)
{
    struct book_walk *walk = NULL;
    struct note note;
    struct buf bytes;
    enum err err;

    if (book_walk_open(book, &(struct book_filter){0}, &walk, &note)) return;
    buf_init(&bytes, 1 << 20);
    see(book, SEEN_FAILED, "m-2");
    see(book, SEEN_REMOVED, "m-1");
    do {
        size_t before = bytes.len;
        err = book_walk_next(walk, 64, &bytes);
        if (!err && bytes.len == before) break;
    } while (!err);
    CHECK("whole, or given up", err || bytes.len == book_walk_total(walk));
    book_walk_close(walk);
    buf_deinit(&bytes);
}

static void live(struct book *book, struct buf *next, bool *ret_whole)
{
    bool more = true;
    size_t reported;
    enum err err;

    for (int i = 1; i <= 3; i++) {
        char id[8];
        snprintf(id, sizeof id, "m-%d", i);
        see(book, SEEN_OFFERED, id);
    }
    end(book, ask(book, OPERATION_CREATE, "m-1"), false);
    end(book, ask(book, OPERATION_CONFIGURE, "m-1"), false);
    (void)ask(book, OPERATION_DRAIN, "m-1");
    end(book, ask(book, OPERATION_CREATE, "m-2"), true);
    (void)ask(book, OPERATION_CREATE, "ghost");
    reported = book_changes(book)->len;
    book_snapshot_begin(book);
    err = book_snapshot_next(book, 1, next, &more);
    if (!err) list_while(book);
    end(book, ask(book, OPERATION_CREATE, "m-3"), false);
    while (!err && more) {
        err = buf_append(next, str_tail(buf_peek(book_changes(book)), reported));
        reported = book_changes(book)->len;
        if (!err) err = book_snapshot_next(book, 100, next, &more);
    }
    *ret_whole = !err;
}

static void check_says(const char *why, struct book *book, struct str changes)
{
    struct book *other = library_replay(changes);
    struct buf a, b;

    buf_init(&a, 1 << 20);
    buf_init(&b, 1 << 20);
    library_dump(book, &a);
    library_dump(other, &b);
    CHECK_STR(why, buf_peek(&b), buf_peek(&a));
    buf_deinit(&a);
    buf_deinit(&b);
    book_close(other);
}

TEST(a_book_without_memory_refuses_and_stays_true)
{
    uint64_t refused = 0;

    FAULT_SWEEP_ALLOC(k)
    {
        struct book *book = NULL;
        struct buf next;
        bool whole = false;

        buf_init(&next, 1 << 20);
        if (book_open(&options, &book) == ERR_OK && book_loaded(book) == ERR_OK) {
            live(book, &next, &whole);
            fault_alloc_arm(0);
            check_says("the journal", book, buf_peek(book_changes(book)));
            if (whole) check_says("the new journal", book, buf_peek(&next));
        } else {
            refused++;
        }
        book_close(book);
        buf_deinit(&next);
    }
    CHECK("the first ones are those of the book itself", refused > 0);
}

TEST(a_journal_is_read_whole_or_refused)
{
    struct book *first = library_open();
    struct buf next;
    bool whole;

    buf_init(&next, 1 << 20);
    live(first, &next, &whole);
    CHECK("made", whole);
    FAULT_SWEEP_ALLOC(k)
    {
        struct book *book = NULL;
        struct note note = {.text = ""};

        if (book_open(&options, &book) == ERR_OK &&
            book_replay(book, buf_peek(&next), &note) == ERR_OK && book_loaded(book) == ERR_OK) {
            fault_alloc_arm(0);
            CHECK_U64("all of it", book_stats(book).total, book_stats(first).total);
        }
        book_close(book);
    }
    buf_deinit(&next);
    book_close(first);
}

TEST(a_catalogue_is_read_whole_or_refused)
{
    FAULT_SWEEP_ALLOC(k)
    {
        struct catalogue *c = NULL;
        struct note note;

        if (catalogue_open(catalogue_usual(), &c, &note) == ERR_OK)
            CHECK_SIZE("all of it", c->pool_count, 6);
        catalogue_close(c);
    }
}
