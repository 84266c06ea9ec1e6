/* SPDX-License-Identifier: Apache-2.0 */
/* The duties of a provider (wire.md 3.2, 8 and 9), on the book alone. */
#include "library.h"

#include <stdio.h>
#include <string.h>

#include "provider/host/operation.h"

/* --- fencing: wire.md 9.2 --- */

struct token_call {
    const char *machine;
    int64_t epoch, sequence;
    bool fenced;
};
static const struct {
    const char *name;
    struct token_call calls[5];
} fence_cases[] = {
    {"P1: the same token", {{"a", 1, 1, false}, {"a", 1, 1, true}}},
    {"P2: an older epoch", {{"a", 2, 1, false}, {"a", 1, 99, true}}},
    {"P3: sequence not newer", {{"a", 1, 5, false}, {"a", 1, 5, true}, {"a", 1, 4, true}}},
    {"P4: per machine",
     {{"a", 1, 30, false},
      {"b", 1, 7, false},
      {"b", 1, 7, true},
      {"a", 1, 30, true},
      {"b", 0, 999, true}}},
    {"P5: a new epoch, any sequence", {{"a", 1, 1000, false}, {"a", 2, 1, false}}},
    {"negative numbers are numbers",
     {{"a", -2, 5, false}, {"a", -1, -9, false}, {"a", -2, 9, true}}},
};

static struct asked create_as(struct book *book, const char *shard, const struct token_call *call)
{
    return library_ask(book, &(struct book_request){.kind = OPERATION_CREATE,
                                                    .machine_id = str_from(call->machine),
                                                    .shard = str_from(shard),
                                                    .epoch = call->epoch,
                                                    .sequence = call->sequence});
}

TEST(tokens_pass_once_per_shard_and_machine)
{
    for (size_t i = 0; i < ARRAY_LEN(fence_cases); i++) {
        struct book *book = library_open();

        library_offer(book, "a");
        library_offer(book, "b");
        for (size_t c = 0; c < 5 && fence_cases[i].calls[c].machine; c++) {
            const struct token_call *call = &fence_cases[i].calls[c];
            struct asked asked = create_as(book, "s1", call);

            CHECK_U32(fence_cases[i].name, asked.answer.status,
                      call->fenced ? GRPC_FAILED_PRECONDITION : GRPC_OK);
        }
        book_close(book);
    }
}

TEST(a_refusal_names_shard_machine_token_and_mark)
{
    struct book *book = library_open();
    struct asked asked;

    library_offer(book, "a");
    create_as(book, "s1", &(struct token_call){"a", 9, 9, false});
    asked = create_as(book, "s1", &(struct token_call){"a", 1, 2, false});
    CHECK_TEXT("why", asked.why,
               "token (1, 2) is not newer than (9, *), the newest epoch of shard s1 (machine a)");
    asked = create_as(book, "s1", &(struct token_call){"a", 9, 2, false});
    CHECK_TEXT("why", asked.why, "token (9, 2) is not newer than (9, 9): shard s1 on machine a");
    asked = create_as(book, "s2", &(struct token_call){"a", 1, 2, false});
    CHECK_U32("another shard has its own mark", asked.answer.status, GRPC_OK);
    asked = library_call(book, OPERATION_CREATE, "a");
    CHECK_U32("no shard, no fence", asked.answer.status, GRPC_OK);
    book_close(book);
}

/* The successor changed machine a only, but the older process is refused on b as well. */
TEST(an_older_epoch_of_a_shard_is_fenced_on_every_machine)
{
    struct book *book = library_open();
    struct asked asked;

    library_offer(book, "a");
    library_offer(book, "b");
    library_offer(book, "c");
    CHECK_U32("older, before the newer",
              create_as(book, "s1", &(struct token_call){"c", 11, 7, false}).answer.status,
              GRPC_OK);
    create_as(book, "s1", &(struct token_call){"a", 41, 1, false});
    asked = create_as(book, "s1", &(struct token_call){"b", 11, 99, true});
    CHECK_U32("older, on an untouched machine", asked.answer.status, GRPC_FAILED_PRECONDITION);
    CHECK_U32("by the fence", asked.answer.outcome, BOOK_FENCED);
    CHECK_U32("older, on no machine",
              create_as(book, "s1", &(struct token_call){"ghost", 40, 99, true}).answer.status,
              GRPC_FAILED_PRECONDITION);
    CHECK_U32("another shard",
              create_as(book, "s2", &(struct token_call){"b", 1, 1, false}).answer.status, GRPC_OK);
    CHECK_U32("the newest epoch, any sequence",
              create_as(book, "s1", &(struct token_call){"b", 41, 1, false}).answer.status,
              GRPC_OK);
    CHECK_U32("no shard, no fence", library_call(book, OPERATION_CREATE, "b").answer.status,
              GRPC_OK);
    book_close(book);
}

TEST(p7_a_stale_shard_changes_nothing)
{
    struct book *book = library_open();
    struct asked asked;
    struct listing listing;

    library_offer(book, "m-1");
    asked = create_as(book, "s1", &(struct token_call){"m-1", 2, 1, false});
    library_end(book, asked.answer.operation);
    asked = library_ask(book, &(struct book_request){.kind = OPERATION_CONFIGURE,
                                                     .machine_id = STR("m-1"),
                                                     .cluster = STR("c1"),
                                                     .blob = STR_EMPTY,
                                                     .shard = STR("s1"),
                                                     .epoch = 1,
                                                     .sequence = 1});
    CHECK_U32("fenced", asked.answer.status, GRPC_FAILED_PRECONDITION);
    library_list(book, &(struct book_filter){0}, &listing);
    CHECK_STR("still Idle", buf_peek(&listing.text), STR("m-1 Idle host-m-1 | "));
    listing_free(&listing);
    book_close(book);
}

TEST(a_token_that_passes_is_recorded_whatever_comes_after)
{
    static const struct token_call first = {"ghost", 5, 5, false}, stale = {"ghost", 5, 4, false};
    struct book *book = library_open();
    struct asked asked = create_as(book, "s1", &first);

    CHECK_U32("no such machine", asked.answer.status, GRPC_NOT_FOUND);
    CHECK_U32("fenced, though it does not exist", create_as(book, "s1", &stale).answer.status,
              GRPC_FAILED_PRECONDITION);
    library_offer(book, "ghost");
    CHECK_U32("the mark is there when it appears", create_as(book, "s1", &stale).answer.status,
              GRPC_FAILED_PRECONDITION);
    {
        struct note note;
        CHECK_OK("gone", book_see(book, SEEN_REMOVED, STR("ghost"), NULL, STR_EMPTY, &note));
    }
    library_offer(book, "ghost");
    CHECK_U32("and when it comes back", create_as(book, "s1", &stale).answer.status,
              GRPC_FAILED_PRECONDITION);
    book_close(book);
}

TEST(forged_shards_fill_nothing_but_their_own_machine)
{
    struct book *book = library_open();
    char shard[32];
    struct operation_ticket created = {0};
    struct asked asked;
    enum grpc_status status = GRPC_OK;

    library_offer(book, "a");
    library_offer(book, "b");
    for (int i = 0; i < BOOK_FENCES_PER_MACHINE_MAX + 1; i++) {
        snprintf(shard, sizeof shard, "forged-%d", i);
        asked = create_as(book, shard, &(struct token_call){"a", 1, 1, false});
        status = asked.answer.status;
        if (i < BOOK_FENCES_PER_MACHINE_MAX) CHECK_U32("fits", status, GRPC_OK);
        if (i == 0) created = asked.answer.operation;
    }
    CHECK_U32("one too many", status, GRPC_RESOURCE_EXHAUSTED);
    status = create_as(book, "forged-0", &(struct token_call){"a", 1, 1, true}).answer.status;
    CHECK_U32("no mark was dropped for it", status, GRPC_FAILED_PRECONDITION);
    status = create_as(book, "honest", &(struct token_call){"b", 1, 1, true}).answer.status;
    CHECK_U32("others are fine", status, GRPC_OK);
    library_end(book, created);
    status = create_as(book, "next", &(struct token_call){"a", 1, 1, true}).answer.status;
    CHECK_U32("Idle: a delayed call of its owner must stay fenced", status,
              GRPC_RESOURCE_EXHAUSTED);
    asked = library_ask(book, &(struct book_request){.kind = OPERATION_DELETE,
                                                     .machine_id = STR("a"),
                                                     .shard = STR("forged-63"),
                                                     .epoch = 1,
                                                     .sequence = 2});
    CHECK_U32("deleted", asked.answer.status, GRPC_OK);
    library_end(book, asked.answer.operation);
    status = create_as(book, "next", &(struct token_call){"a", 1, 1, true}).answer.status;
    CHECK_U32("Speculative: the oldest shard gave it up", status, GRPC_OK);
    status = create_as(book, "forged-1", &(struct token_call){"a", 1, 1, true}).answer.status;
    CHECK_U32("the others' fences stay", status, GRPC_FAILED_PRECONDITION);
    status = create_as(book, "forged-0", &(struct token_call){"a", 0, 9, true}).answer.status;
    CHECK_U32("the oldest shard's epoch stays", status, GRPC_FAILED_PRECONDITION);
    for (int i = 0; i < BOOK_STRANGERS_MAX + 10; i++) {
        char id[32];
        snprintf(id, sizeof id, "ghost-%d", i);
        (void)create_as(book, "s", &(struct token_call){id, 1, 1, true});
    }
    CHECK_U64("bounded", book_stats(book).strangers, BOOK_STRANGERS_MAX);
    book_close(book);
}

/* --- life: wire.md 8.1, 9.3 --- */

TEST(b1_b2_a_whole_life_each_call_twice)
{
    static const struct {
        enum operation_kind kind;
        enum machine_state passing;
        const char *in_the_end;
    } steps[] = {
        {OPERATION_CREATE, MACHINE_CREATING, "m Idle host-m | "},
        {OPERATION_CONFIGURE, MACHINE_CONFIGURING, "m Configured host-m c1 | "},
        {OPERATION_DRAIN, MACHINE_DRAINING, "m Idle host-m | "},
        {OPERATION_DELETE, MACHINE_DELETING, "m Speculative | "},
        {OPERATION_CREATE, MACHINE_CREATING, "m Idle host-m | "},
    };
    struct book *book = library_open();
    uint64_t before = 0;

    library_offer(book, "m");
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        struct asked first = library_call(book, steps[i].kind, "m");
        struct asked second = library_call(book, steps[i].kind, "m");
        struct asked third;
        struct listing listing;

        CHECK_U32(first.why, first.answer.outcome, BOOK_ACCEPTED);
        CHECK_U32("passing", first.state, steps[i].passing);
        CHECK("a new one", first.answer.operation.number > before);
        CHECK_U32("repeated", second.answer.outcome, BOOK_REPEATED);
        CHECK_TEXT("the same operation", second.operation, first.operation);
        library_end(book, first.answer.operation);
        third = library_call(book, steps[i].kind, "m");
        CHECK_TEXT("in its final state too", third.operation, first.operation);
        library_list(book, &(struct book_filter){0}, &listing);
        CHECK_STR("in the end", buf_peek(&listing.text), str_from(steps[i].in_the_end));
        listing_free(&listing);
        before = first.answer.operation.number;
    }
    book_close(book);
}

TEST(calls_in_the_wrong_state_are_refused_and_not_as_fenced)
{
    static const enum machine_state states[] = {MACHINE_SPECULATIVE, MACHINE_CREATING, MACHINE_IDLE,
                                                MACHINE_CONFIGURING, MACHINE_CONFIGURED};

    for (size_t s = 0; s < ARRAY_LEN(states); s++)
        for (enum operation_kind kind = OPERATION_CREATE; kind < OPERATION_KINDS; kind++) {
            struct book *book = library_open();
            struct asked asked;
            bool fits;

            library_offer(book, "m");
            library_bring(book, "m", states[s]);
            asked = library_call(book, kind, "m");
            fits = operation_moves[kind].from == states[s] || /* or it is a repeat */
                   (kind == OPERATION_CREATE && states[s] < MACHINE_CONFIGURING) ||
                   (kind == OPERATION_CONFIGURE && states[s] >= MACHINE_CONFIGURING);
            CHECK_U32(asked.why, asked.answer.status, fits ? GRPC_OK : GRPC_INTERNAL);
            book_close(book);
        }
}

TEST(b3_b4_unknown_and_empty_ids)
{
    struct book *book = library_open();
    char long_id[300];
    struct buf bytes;

    memset(long_id, 'x', sizeof long_id - 1);
    long_id[sizeof long_id - 1] = '\0';
    buf_init(&bytes, 1 << 20);
    for (enum operation_kind kind = OPERATION_CREATE; kind < OPERATION_KINDS; kind++) {
        CHECK_U32("unknown", library_call(book, kind, "x").answer.status, GRPC_NOT_FOUND);
        CHECK_U32("empty", library_call(book, kind, "").answer.status, GRPC_INVALID_ARGUMENT);
        CHECK_U32("long", library_call(book, kind, long_id).answer.status, GRPC_INVALID_ARGUMENT);
        CHECK_U32("control", library_call(book, kind, "a\nb").answer.status, GRPC_INVALID_ARGUMENT);
    }
    CHECK_ERR("get", book_get(book, STR("x"), &bytes), ERR_NOT_FOUND);
    CHECK_ERR("get nothing", book_get(book, STR_EMPTY, &bytes), ERR_INVALID);
    buf_deinit(&bytes);
    book_close(book);
}

static struct asked configure(struct book *book, const char *id, const struct label *metadata,
                              size_t count)
{
    return library_ask(book, &(struct book_request){.kind = OPERATION_CONFIGURE,
                                                    .machine_id = str_from(id),
                                                    .shard = STR_EMPTY,
                                                    .cluster = STR("c1"),
                                                    .blob = STR("join"),
                                                    .metadata = metadata,
                                                    .metadata_count = count});
}

TEST(b13_b15_metadata_is_stored_as_it_came_and_goes_with_the_drain)
{
    static const struct label metadata[] = {
        {{"p", 1}, {"900000", 6}},
        {{"g", 1}, {"rack\0gang-7", 11}},
        {{"παντα ρει", 17}, {"  \t|0xDEADBEEF", 14}},
        {{"empty", 5}, {"", 0}},
    };
    struct book *book = library_open();
    struct asked asked;
    struct listing listing;

    library_offer(book, "m");
    library_bring(book, "m", MACHINE_IDLE);
    asked = configure(book, "m", metadata, ARRAY_LEN(metadata));
    CHECK_U64("the blob waits with it", book_stats(book).blob_bytes, 4);
    library_list(book, &(struct book_filter){0}, &listing);
    CHECK_STR("at acceptance", buf_peek(&listing.text),
              STR("m Configuring host-m c1 p=900000 g=rack\0gang-7 παντα ρει=  \t|0xDEADBEEF "
                  "empty= | "));
    listing_free(&listing);
    library_end(book, asked.answer.operation);
    CHECK_U64("the blob is gone", book_stats(book).blob_bytes, 0);
    asked = library_call(book, OPERATION_DRAIN, "m");
    library_list(book, &(struct book_filter){.states = BIT(MACHINE_DRAINING)}, &listing);
    CHECK_HAS("kept while Draining", listing.text.data, "p=900000");
    listing_free(&listing);
    library_end(book, asked.answer.operation);
    library_list(book, &(struct book_filter){0}, &listing);
    CHECK_STR("gone with the cluster", buf_peek(&listing.text), STR("m Idle host-m | "));
    listing_free(&listing);
    book_close(book);
}

TEST(huge_metadata_and_blobs_are_refused_and_change_nothing)
{
    static char large[BOOK_BLOB_MAX + 1];
    struct label pairs[BOOK_METADATA_MAX + 1];
    char keys[BOOK_METADATA_MAX + 1][8];
    struct book *book = library_open();
    struct asked asked;

    memset(large, 'x', sizeof large);
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        snprintf(keys[i], sizeof keys[i], "k%zu", i);
        pairs[i] = (struct label){str_from(keys[i]), STR("v")};
    }
    library_offer(book, "m");
    library_bring(book, "m", MACHINE_IDLE);
    asked = configure(book, "m", pairs, ARRAY_LEN(pairs));
    CHECK_U32("too many", asked.answer.status, GRPC_INVALID_ARGUMENT);
    pairs[0].value = str_of(large, BOOK_METADATA_BYTES_MAX);
    asked = configure(book, "m", pairs, 1);
    CHECK_U32("too large", asked.answer.status, GRPC_INVALID_ARGUMENT);
    asked = library_ask(book, &(struct book_request){.kind = OPERATION_CONFIGURE,
                                                     .machine_id = STR("m"),
                                                     .shard = STR_EMPTY,
                                                     .cluster = STR("c1"),
                                                     .blob = str_of(large, sizeof large)});
    CHECK_U32("too large a blob", asked.answer.status, GRPC_INVALID_ARGUMENT);
    asked = library_ask(book, &(struct book_request){.kind = OPERATION_CONFIGURE,
                                                     .machine_id = STR("m"),
                                                     .shard = STR_EMPTY,
                                                     .cluster = STR_EMPTY,
                                                     .blob = STR_EMPTY});
    CHECK_U32("no cluster", asked.answer.status, GRPC_INVALID_ARGUMENT);
    CHECK_U64("still Idle", book_stats(book).machines[MACHINE_IDLE], 1);
    asked = configure(book, "m", pairs + 1, BOOK_METADATA_MAX);
    CHECK_U32("as many as may be", asked.answer.status, GRPC_OK);
    book_close(book);
}

TEST(a_failed_operation_ends_in_failed_with_an_error_that_can_be_reported)
{
    static const struct {
        struct str said, reported;
    } cases[] = {
        {{"no capacity", 11}, {"m Failed 'no capacity' | ", 25}},
        {{"", 0}, {"m Failed 'failed without a word' | ", 35}},
        {{"a\nb\x1b[31m", 8}, {"m Failed 'a b [31m' | ", 22}},
        {{"\xff!", 2}, {"m Failed '?!' | ", 16}},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct operation_end end = {.failed = true, .error = cases[i].said};
        struct book *book = library_open();
        struct listing listing;
        struct asked asked;
        enum err err;

        library_offer(book, "m");
        asked = library_call(book, OPERATION_CREATE, "m");
        CHECK("ended", book_end(book, asked.answer.operation, &end, &err));
        CHECK("once", !book_end(book, asked.answer.operation, &end, &err));
        library_list(book, &(struct book_filter){0}, &listing);
        CHECK_STR("reported", buf_peek(&listing.text), cases[i].reported);
        listing_free(&listing);
        CHECK_U32("not by Create", library_call(book, OPERATION_CREATE, "m").answer.status,
                  GRPC_INTERNAL);
        asked = library_call(book, OPERATION_DELETE, "m");
        CHECK_U32("freed by Delete", asked.state, MACHINE_DELETING);
        library_end(book, asked.answer.operation);
        library_list(book, &(struct book_filter){0}, &listing);
        CHECK_STR("a slot again", buf_peek(&listing.text), STR("m Speculative | "));
        listing_free(&listing);
        book_close(book);
    }
}

TEST(a_sighting_ends_the_running_operation)
{
    const struct operation_end end = {.host = STR_EMPTY, .error = STR_EMPTY};
    struct book *book = library_open();
    struct listing listing;
    struct asked asked;
    struct note note;
    enum err err;

    library_offer(book, "m");
    library_bring(book, "m", MACHINE_CONFIGURED);
    asked = library_call(book, OPERATION_DRAIN, "m");
    CHECK_OK("seen", book_see(book, SEEN_FAILED, STR("m"), NULL, STR("fire"), &note));
    CHECK("over", !book_end(book, asked.answer.operation, &end, &err));
    library_list(book, &(struct book_filter){0}, &listing);
    CHECK_STR("host and cluster are reported on", buf_peek(&listing.text),
              STR("m Failed host-m c1 'fire' | "));
    listing_free(&listing);
    CHECK_OK("seen", book_see(book, SEEN_RECLAIMED, STR("m"), NULL, STR_EMPTY, &note));
    library_list(book, &(struct book_filter){0}, &listing);
    CHECK_STR("a slot again", buf_peek(&listing.text), STR("m Speculative | "));
    listing_free(&listing);
    CHECK_OK("unknown is dropped", book_see(book, SEEN_FAILED, STR("x"), NULL, STR("?"), &note));
    book_close(book);
}

TEST(offers_that_a_shard_would_refuse_are_refused)
{
    struct book *book = library_open();
    struct offer offer = plain_offer;
    struct note note = {.text = ""};
    struct label twice[] = {{STR("a"), STR("1")}, {STR("a"), STR("2")}};

    offer.price_per_hour = -1;
    CHECK_ERR("price", book_see(book, SEEN_OFFERED, STR("m"), &offer, STR_EMPTY, &note),
              ERR_INVALID);
    CHECK_HAS("named", note.text, "price_per_hour");
    offer = plain_offer;
    offer.labels = twice;
    offer.label_count = 2;
    CHECK_ERR("label", book_see(book, SEEN_OFFERED, STR("m"), &offer, STR_EMPTY, &note),
              ERR_INVALID);
    offer = plain_offer;
    offer.instance_type = STR_EMPTY;
    CHECK_ERR("type", book_see(book, SEEN_OFFERED, STR("m"), &offer, STR_EMPTY, &note),
              ERR_INVALID);
    CHECK_ERR("id", book_see(book, SEEN_OFFERED, STR_EMPTY, &plain_offer, STR_EMPTY, &note),
              ERR_INVALID);
    CHECK_U64("nothing", book_stats(book).total, 0);
    book_close(book);
}

static enum err refuse_delete(struct backend *, enum operation_kind kind,
                              const struct backend_machine *machine, struct note *note)
{
    CHECK_STR("the machine", machine->id, STR("m"));
    CHECK_STR("the operation", machine->offer->instance_type, STR("m5.large"));
    if (kind != OPERATION_DELETE) return ERR_OK;
    note_set(note, "bare metal stays");
    return ERR_UNSUPPORTED;
}

TEST(a_delete_that_is_not_offered_is_refused_first)
{
    const struct book_request request = {
        .kind = OPERATION_DELETE, .machine_id = STR("m"), .shard = STR_EMPTY};
    const struct backend_ops ops = {.check = refuse_delete};
    struct backend backend = {.ops = &ops};
    struct book *book = library_open();
    struct note note = {.text = ""};
    struct book_answer answer;
    struct buf bytes;

    buf_init(&bytes, 1 << 20);
    library_offer(book, "m");
    answer = book_ask(book, &request, &backend, &bytes, &note);
    CHECK_U32("before the state", answer.status, GRPC_UNIMPLEMENTED);
    library_bring(book, "m", MACHINE_IDLE);
    answer = book_ask(book, &request, &backend, &bytes, &note);
    CHECK_U32("not offered", answer.status, GRPC_UNIMPLEMENTED);
    CHECK_TEXT("why", note.text, "bare metal stays");
    CHECK_U64("still Idle", book_stats(book).machines[MACHINE_IDLE], 1);
    buf_deinit(&bytes);
    book_close(book);
}

/* --- List: wire.md 8.4 and docs/protocols/provider.md --- */

static struct book *book_of(int machines)
{
    struct book *book = library_open();

    for (int i = 0; i < machines; i++) {
        char id[16];
        snprintf(id, sizeof id, "m-%04d", i);
        library_offer(book, id);
    }
    return book;
}

TEST(b5_b6_filters_and_caps)
{
    struct book *book = book_of(10);
    struct listing listing;
    char cursor[64];
    size_t rest;

    library_bring(book, "m-0003", MACHINE_IDLE);
    library_bring(book, "m-0004", MACHINE_CONFIGURED);
    library_list(book, &(struct book_filter){.states = BIT(MACHINE_IDLE)}, &listing);
    CHECK_STR("only Idle", buf_peek(&listing.text), STR("m-0003 Idle host-m-0003 | "));
    listing_free(&listing);
    library_list(book, &(struct book_filter){.states = BIT(MACHINE_UNSPECIFIED)}, &listing);
    CHECK_SIZE("0 matches nothing", listing.count, 0);
    listing_free(&listing);
    library_list(book, &(struct book_filter){.results_max = 1}, &listing);
    CHECK_SIZE("a cap", listing.count, 1);
    CHECK_STR("the oldest change", buf_peek(&listing.text), STR("m-0000 Speculative | "));
    snprintf(cursor, sizeof cursor, "%s", listing.revision);
    listing_free(&listing);
    for (rest = 0; rest < 20; rest++) {
        library_list(book, &(struct book_filter){.since = str_from(cursor), .results_max = 1},
                     &listing);
        snprintf(cursor, sizeof cursor, "%s", listing.revision);
        listing_free(&listing);
        if (listing.count == 0) break;
    }
    CHECK_SIZE("the revision of a cut List leads to the others", rest, 9);
    library_list(book, &(struct book_filter){.results_max = 10}, &listing);
    CHECK_SIZE("just enough", listing.count, 10);
    CHECK("not cut", listing.revision[0]);
    listing_free(&listing);
    book_close(book);
}

TEST(b8_deltas_report_changes_and_removals)
{
    struct book *book = book_of(5);
    struct listing first, second, third;
    struct note note;

    library_list(book, &(struct book_filter){0}, &first);
    CHECK("removals are reported", first.tombstones);
    library_bring(book, "m-0001", MACHINE_CREATING);
    CHECK_OK("gone", book_see(book, SEEN_REMOVED, STR("m-0002"), NULL, STR_EMPTY, &note));
    CHECK_OK("gone", book_see(book, SEEN_REMOVED, STR("m-0003"), NULL, STR_EMPTY, &note));
    library_offer(book, "m-0003");
    library_list(book, &(struct book_filter){.since = str_from(first.revision)}, &second);
    CHECK_STR("the changes", buf_peek(&second.text),
              STR("m-0001 Creating | m-0003 Speculative | gone m-0002 | "));
    CHECK("another revision", strcmp(first.revision, second.revision) != 0);
    CHECK("deltas are deltas", second.tombstones);
    library_list(book, &(struct book_filter){.since = str_from(second.revision)}, &third);
    CHECK_STR("nothing since", buf_peek(&third.text), STR_EMPTY);
    CHECK_TEXT("the same revision", third.revision, second.revision);
    listing_free(&first);
    listing_free(&second);
    listing_free(&third);
    book_close(book);
}

TEST(cursors_that_are_not_understood_get_everything_and_say_so)
{
    static const char *const cursors[] = {"x",
                                          "000000000000abcd",
                                          "000000000000abcd-",
                                          "000000000000abcd-0",
                                          "000000000000abcd-99",
                                          "000000000000abce-3",
                                          "000000000000abcd-3-1",
                                          "000000000000abcd--1",
                                          "\xde\xad\xbe\xef"};
    struct book *book = book_of(3);

    for (size_t i = 0; i < ARRAY_LEN(cursors); i++) {
        struct listing listing;

        library_list(book, &(struct book_filter){.since = str_from(cursors[i])}, &listing);
        CHECK_SIZE(cursors[i], listing.count, 3);
        CHECK("an omitted machine is gone, not unchanged", !listing.tombstones);
        CHECK("a good one for next time", listing.revision[0]);
        listing_free(&listing);
    }
    book_close(book);
}

TEST(a_cursor_older_than_the_memory_of_removals_gets_everything)
{
    struct book *book = book_of(1);
    struct listing first, second;
    struct note note;

    library_list(book, &(struct book_filter){0}, &first);
    for (int i = 0; i <= BOOK_TOMBSTONES_MAX; i++) {
        library_offer(book, "short-lived");
        CHECK_OK("gone", book_see(book, SEEN_REMOVED, STR("short-lived"), NULL, STR_EMPTY, &note));
    }
    CHECK_U64("bounded", book_stats(book).tombstones, BOOK_TOMBSTONES_MAX);
    library_list(book, &(struct book_filter){.since = str_from(first.revision)}, &second);
    CHECK_SIZE("everything", second.count, 1);
    CHECK("and without tombstones", !second.tombstones);
    listing_free(&first);
    listing_free(&second);
    book_close(book);
}

TEST(a_cut_delta_continues_where_it_ended)
{
    struct book *book = book_of(10);
    struct listing first, part;
    char cursor[64];
    size_t reported = 0;

    library_list(book, &(struct book_filter){0}, &first);
    for (int i = 0; i < 7; i++) {
        char id[16];
        snprintf(id, sizeof id, "m-%04d", 9 - i);
        library_bring(book, id, MACHINE_CREATING);
    }
    snprintf(cursor, sizeof cursor, "%s", first.revision);
    for (int i = 0; i < 10; i++) {
        library_list(book, &(struct book_filter){.since = str_from(cursor), .results_max = 3},
                     &part);
        reported += part.count;
        snprintf(cursor, sizeof cursor, "%s", part.revision);
        listing_free(&part);
    }
    CHECK_SIZE("each once", reported, 7);
    listing_free(&first);
    book_close(book);
}

TEST(pages_list_each_machine_once_though_it_changes_meanwhile)
{
    struct book *book = book_of(100);
    struct listing page, delta;
    char token[64] = "", revision[64] = "";
    size_t reported = 0, pages = 0;
    struct note note;

    for (bool more = true; more; pages++) {
        library_list(book, &(struct book_filter){.page_size = 7, .page_token = str_from(token)},
                     &page);
        reported += page.count;
        more = page.more;
        CHECK("a name for the next", more == (page.next_page[0] != '\0'));
        if (pages == 0) snprintf(revision, sizeof revision, "%s", page.revision);
        CHECK_TEXT("the revision of the first", page.revision, revision);
        snprintf(token, sizeof token, "%s", page.next_page);
        listing_free(&page);
        if (pages == 3) { /* one reported, one not yet */
            library_bring(book, "m-0005", MACHINE_CREATING);
            library_bring(book, "m-0090", MACHINE_CREATING);
            library_offer(book, "new");
            CHECK_OK("gone", book_see(book, SEEN_REMOVED, STR("m-0006"), NULL, STR_EMPTY, &note));
        }
    }
    CHECK_SIZE("pages", pages, 15);
    CHECK("all that were there all the time", reported == 100 || reported == 101);
    library_list(book, &(struct book_filter){.since = str_from(revision)}, &delta);
    CHECK_STR("the rest is in the delta", buf_peek(&delta.text),
              STR("m-0005 Creating | m-0090 Creating | new Speculative | gone m-0006 | "));
    listing_free(&delta);
    book_close(book);
}

TEST(page_tokens_of_another_process_are_refused)
{
    static const char *const tokens[] = {"x", "0000000000000008-5-1", "0000000000000007-5",
                                         "0000000000000007-5-9999", "0000000000000007-999-1"};
    struct book *book = book_of(5);

    for (size_t i = 0; i < ARRAY_LEN(tokens); i++) {
        struct book_walk *walk;
        struct note note = {.text = ""};
        enum err err = book_walk_open(
            book, &(struct book_filter){.page_size = 2, .page_token = str_from(tokens[i])}, &walk,
            &note);

        CHECK_ERR(tokens[i], err, ERR_INVALID);
    }
    book_close(book);
}

TEST(a_list_shows_one_moment_whatever_happens_while_it_is_sent)
{
    struct book *book = book_of(50);
    struct listing before, after;
    struct book_walk *walk;
    struct note note;
    struct buf bytes;
    size_t len;

    library_bring(book, "m-0010", MACHINE_CONFIGURED);
    library_list(book, &(struct book_filter){0}, &before);
    buf_init(&bytes, 1 << 20);
    CHECK_OK("open", book_walk_open(book, &(struct book_filter){0}, &walk, &note));
    CHECK_OK("a little", book_walk_next(walk, 1, &bytes));
    for (int i = 0; i < 50;
         i += 2) { /* every second machine changes, some twice; some leave, some arrive */
        char id[16];
        snprintf(id, sizeof id, "m-%04d", i);
        if (i % 8 == 0)
            CHECK_OK("gone", book_see(book, SEEN_REMOVED, str_from(id), NULL, STR_EMPTY, &note));
        else if (i != 10)
            library_bring(book, id, MACHINE_IDLE);
        snprintf(id, sizeof id, "new-%d", i);
        library_offer(book, id);
    }
    do {
        len = bytes.len;
        CHECK_OK("more", book_walk_next(walk, 10, &bytes));
    } while (bytes.len > len);
    CHECK_U64("as long as announced", bytes.len, book_walk_total(walk));
    book_walk_close(walk);
    library_list(book, &(struct book_filter){0}, &after);
    CHECK("it has changed", !str_equal(buf_peek(&before.text), buf_peek(&after.text)));
    /* The bytes are unchanged; the shard's decoder reads them. */
    for (int i = 0; i < 50; i++) {
        char id[16];
        snprintf(id, sizeof id, "m-%04d", i);
        CHECK("there", memmem(bytes.data, bytes.len, id, strlen(id)) != NULL);
    }
    CHECK("nothing new", memmem(bytes.data, bytes.len, "new-", 4) == NULL);
    buf_deinit(&bytes);
    listing_free(&before);
    listing_free(&after);
    book_close(book);
}

TEST(too_many_lists_are_refused)
{
    struct book *book = book_of(1);
    struct book_walk *walks[BOOK_WALKS_MAX], *one_more;
    struct note note;

    for (int i = 0; i < BOOK_WALKS_MAX; i++)
        CHECK_OK("fits", book_walk_open(book, &(struct book_filter){0}, &walks[i], &note));
    CHECK_ERR("full", book_walk_open(book, &(struct book_filter){0}, &one_more, &note), ERR_BUSY);
    for (int i = 0; i < BOOK_WALKS_MAX; i++) book_walk_close(walks[i]);
    book_close(book);
}
