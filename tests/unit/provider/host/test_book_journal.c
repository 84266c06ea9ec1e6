/* SPDX-License-Identifier: Apache-2.0 */
/* The book and its changes always agree: replayed from the first change, or from a new journal
 * written in pieces while changes go on. Random runs; the seed is printed. */
#include <stdio.h>
#include <stdlib.h>

#include "base/prng.h"
#include "library.h"
#include "provider/host/operation.h"

enum { IDS = 40, STEPS = 600 };

struct life {
    struct book *book;
    struct prng prng;
    struct buf journal, next; /* the written journal; the new one while it is being written */
    bool compacting;
    struct operation_ticket operations[IDS]; /* under way, or none */
};

static void name_of(uint64_t i, char id[16])
{
    snprintf(id, 16, "m-%02u", (unsigned)i);
}

static void ask_something(struct life *l, uint64_t i)
{
    struct label metadata[2] = {{STR("k"), STR("v\0w")}, {STR("n"), STR_EMPTY}};
    char id[16], value[16], shard[16];
    struct book_request request;
    struct asked asked;

    name_of(i, id);
    snprintf(value, sizeof value, "%u", (unsigned)prng_below(&l->prng, 3));
    snprintf(shard, sizeof shard, "s%u", (unsigned)prng_below(&l->prng, 4));
    metadata[1].value = str_from(value);
    request = (struct book_request){
        .kind = (enum operation_kind)prng_below(&l->prng, OPERATION_KINDS),
        .machine_id = str_from(id),
        .shard = prng_chance(&l->prng, 500000) ? str_from(shard) : STR_EMPTY,
        .epoch = (int64_t)prng_below(&l->prng, 3),
        .sequence = (int64_t)prng_below(&l->prng, 100),
        .cluster = prng_chance(&l->prng, 500000) ? STR("c1") : STR("c2"),
        .blob = prng_chance(&l->prng, 500000) ? STR("blob") : STR_EMPTY,
        .metadata = metadata,
        .metadata_count = (size_t)prng_below(&l->prng, 3),
        .grace_ms = prng_below(&l->prng, 2) * 5000,
    };
    asked = library_ask(l->book, &request);
    if (asked.answer.outcome == BOOK_ACCEPTED) l->operations[i] = asked.answer.operation;
}

static void end_something(struct life *l, uint64_t i)
{
    struct operation_end end = {.host = STR_EMPTY, .error = STR_EMPTY};
    enum err err = ERR_OK;

    end.failed = prng_chance(&l->prng, 100000);
    if (end.failed) end.error = STR("bad luck");
    if (prng_chance(&l->prng, 300000)) end.host = STR("i-0815");
    (void)book_end(l->book, l->operations[i], &end, &err);
    CHECK_OK("end", err);
    l->operations[i] = (struct operation_ticket){0};
}

static void see_something(struct life *l, uint64_t i)
{
    static const enum sighting kinds[] = {SEEN_OFFERED, SEEN_OFFERED,   SEEN_OFFERED,
                                          SEEN_FAILED,  SEEN_RECLAIMED, SEEN_REMOVED};
    struct offer offer = plain_offer;
    char id[16];
    struct note note;

    name_of(i, id);
    if (prng_chance(&l->prng, 300000)) offer.instance_type = STR("c5.large");
    if (prng_chance(&l->prng, 300000)) offer.price_per_hour = (double)prng_below(&l->prng, 4);
    CHECK_OK("see", book_see(l->book, kinds[prng_below(&l->prng, ARRAY_LEN(kinds))], str_from(id),
                             &offer, STR("trouble"), &note));
}

static void do_something(struct life *l)
{
    uint64_t i = prng_below(&l->prng, IDS), what = prng_below(&l->prng, 10);

    if (what < 5)
        ask_something(l, i);
    else if (what < 8)
        end_something(l, i);
    else
        see_something(l, i);
}

static void check_same(const char *why, struct book *book, struct str changes)
{
    struct book *other = library_replay(changes);
    struct buf a, b;

    buf_init(&a, 64 << 20);
    buf_init(&b, 64 << 20);
    library_dump(book, &a);
    library_dump(other, &b);
    CHECK_STR(why, buf_peek(&b), buf_peek(&a));
    buf_deinit(&a);
    buf_deinit(&b);
    book_close(other);
}

/* The host's work at the end of a turn. */
static void write_turn(struct life *l)
{
    struct buf *changes = book_changes(l->book);
    bool more = true;

    CHECK_OK("old", buf_append(&l->journal, buf_peek(changes)));
    if (l->compacting) CHECK_OK("both", buf_append(&l->next, buf_peek(changes)));
    buf_clear(changes);
    if (!l->compacting && prng_chance(&l->prng, 50000)) {
        l->compacting = true;
        buf_clear(&l->next);
        book_snapshot_begin(l->book);
    }
    if (!l->compacting) return;
    CHECK_OK("next",
             book_snapshot_next(l->book, (size_t)prng_below(&l->prng, 600), &l->next, &more));
    if (prng_chance(&l->prng, 20000)) { /* no room on the disk */
        l->compacting = false;
    } else if (!more) {
        check_same("the new journal is whole", l->book, buf_peek(&l->next));
        if (prng_chance(&l->prng, 500000)) do_something(l); /* while it is renamed */
        l->compacting = false;
        buf_clear(&l->journal);
        CHECK_OK("takes its place", buf_append(&l->journal, buf_peek(&l->next)));
    }
}

static void live(uint64_t seed)
{
    struct life l = {.book = library_open()};

    prng_seed(&l.prng, seed);
    buf_init(&l.journal, 256 << 20);
    buf_init(&l.next, 256 << 20);
    for (int step = 0; step < STEPS; step++) {
        for (uint64_t i = prng_below(&l.prng, 4); i > 0; i--) do_something(&l);
        write_turn(&l);
        if (step % 50 == 0 && book_changes(l.book)->len == 0)
            check_same("replayed", l.book, buf_peek(&l.journal));
    }
    CHECK_OK("the rest", buf_append(&l.journal, buf_peek(book_changes(l.book))));
    check_same("in the end", l.book, buf_peek(&l.journal));
    buf_deinit(&l.journal);
    buf_deinit(&l.next);
    book_close(l.book);
}

TEST(replaying_gives_the_same_book)
{
    uint64_t seed = test_seed();

    for (uint64_t i = 0; i < 6; i++) live(seed + i);
}

TEST(fences_and_counters_survive)
{
    const struct book_request request = {.kind = OPERATION_CREATE,
                                         .machine_id = STR("m"),
                                         .shard = STR("s"),
                                         .epoch = 3,
                                         .sequence = 9};
    struct book *book = library_open(), *again;
    struct asked before, after;
    struct buf next;
    bool more;

    library_offer(book, "m");
    before = library_ask(book, &request);
    library_end(book, before.answer.operation);
    buf_init(&next, 1 << 20);
    book_snapshot_begin(book);
    CHECK_OK("all", book_snapshot_next(book, 1 << 20, &next, &more));
    CHECK("at once", !more);
    again = library_replay(buf_peek(&next));
    after = library_ask(again, &request);
    CHECK_U32("fenced after a restart", after.answer.status, GRPC_FAILED_PRECONDITION);
    after = library_call(again, OPERATION_CREATE, "m");
    CHECK_TEXT("the same operation after a restart", after.operation, before.operation);
    after = library_call(again, OPERATION_DELETE, "m");
    CHECK_TEXT("a number never comes twice", after.operation, "op-2");
    buf_deinit(&next);
    book_close(again);
    book_close(book);
}

static enum grpc_status ask_as(struct book *book, const char *machine, int64_t epoch,
                               int64_t sequence)
{
    return library_ask(book, &(struct book_request){.kind = OPERATION_CREATE,
                                                    .machine_id = str_from(machine),
                                                    .shard = STR("s"),
                                                    .epoch = epoch,
                                                    .sequence = sequence})
        .answer.status;
}

static void check_old_epoch(const char *why, struct str journal)
{
    struct book *book = library_replay(journal);

    CHECK_U32(why, ask_as(book, "m", 40, 99), GRPC_FAILED_PRECONDITION);
    CHECK_U32(why, ask_as(book, "m", 41, 2), GRPC_OK);
    book_close(book);
}

static void rewrite(struct book *book, struct buf *next)
{
    bool more;

    buf_init(next, 64 << 20);
    book_snapshot_begin(book);
    CHECK_OK("all", book_snapshot_next(book, 64 << 20, next, &more));
    CHECK("at once", !more);
}

/* The mark that raised the epoch belongs to an id that is no machine, and the book forgets it. */
TEST(the_newest_epoch_of_a_shard_survives)
{
    struct book *book = library_open(), *again;
    struct buf next, last;

    library_offer(book, "m");
    CHECK_U32("newest", ask_as(book, "ghost", 41, 1), GRPC_NOT_FOUND);
    check_old_epoch("from marks alone, as an older release wrote them",
                    buf_peek(book_changes(book)));
    for (int i = 0; i < BOOK_STRANGERS_MAX; i++) {
        char id[32];
        snprintf(id, sizeof id, "flood-%d", i);
        (void)library_ask(book, &(struct book_request){.kind = OPERATION_CREATE,
                                                       .machine_id = str_from(id),
                                                       .shard = STR("other"),
                                                       .epoch = 1,
                                                       .sequence = 1});
    }
    rewrite(book, &next);
    check_old_epoch("rewritten", buf_peek(&next));
    again = library_replay(buf_peek(&next));
    rewrite(again, &last);
    check_old_epoch("rewritten twice", buf_peek(&last));
    buf_deinit(&next);
    buf_deinit(&last);
    book_close(again);
    book_close(book);
}

TEST(changes_that_cannot_be_are_refused)
{
    static const struct {
        const char *why;
        struct str bytes;
    } cases[] = {
        {"cut", {"\x05\0\0\0\x02", 5}},
        {"no such kind", {"\x01\0\0\0\x09", 5}},
        {"a machine without an offer", {"\x08\0\0\0\x02\x0a\x01m\x10\x01\x28\x01", 12}},
        {"creating without an operation",
         {"\x05\0\0\0\x01\x18\x07\x22\0\x0a\0\0\0\x02\x0a\x01m\x10\x01\x28\x02\x30\x07", 23}},
        {"failed without an error",
         {"\x05\0\0\0\x01\x18\x07\x22\0\x0a\0\0\0\x02\x0a\x01m\x10\x01\x28\x08\x30\x07", 23}},
        {"an item that is not there", {"\x0a\0\0\0\x02\x0a\x01m\x10\x01\x28\x01\x30\x07", 14}},
        {"a state that is none", {"\x08\0\0\0\x02\x0a\x01m\x10\x01\x28\x20", 12}},
        {"an item of number 0", {"\x04\0\0\0\x01\x22\x01x", 8}},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct book *book = NULL;
        struct note note = {.text = ""};

        CHECK_OK("open", book_open(&(struct book_options){.provider = "test"}, &book));
        CHECK_ERR(cases[i].why, book_replay(book, cases[i].bytes, &note), ERR_CORRUPT);
        CHECK("with a reason", note.text[0]);
        book_close(book);
    }
}
