/* SPDX-License-Identifier: Apache-2.0 */
/* A List as it arrives: the result does not depend on the cuts, and a bad record costs only itself.
 * */
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "lib/test.h"
#include "provider/list.h"
#include "records.h"

struct world {
    struct dimensions dimensions;
    struct machine_reader *reader;
    struct buf bytes;    /* the answer */
    struct buf reported; /* its events, one per line */
    struct provider_list *list;
    enum err answer; /* of on_machine */
};

static enum err on_machine(void *context, const struct machine_record *record)
{
    struct world *w = context;

    buf_appendf(&w->reported, "%.*s/%zu ", STR_ARG(record->machine.id), record->metadata_count);
    return w->answer;
}

static void on_refused(void *context, struct str id, const char *why)
{
    buf_appendf(&((struct world *)context)->reported, "refused(%.*s: %s) ", STR_ARG(id), why);
}

static void on_removed(void *context, struct str id)
{
    buf_appendf(&((struct world *)context)->reported, "gone(%.*s) ", STR_ARG(id));
}

static const struct provider_list_events events = {on_machine, on_refused, on_removed};

static void world_open(struct world *w)
{
    *w = (struct world){0};
    dimensions_init(&w->dimensions);
    buf_init(&w->bytes, BYTES_MAX);
    buf_init(&w->reported, BYTES_MAX);
    CHECK_OK("reader", machine_reader_open(&w->dimensions, &w->reader));
    CHECK_OK("list", provider_list_open(w->reader, &events, w, &w->list));
}

static void world_close(struct world *w)
{
    provider_list_close(w->list);
    machine_reader_close(w->reader);
    dimensions_deinit(&w->dimensions);
    buf_deinit(&w->reported);
    buf_deinit(&w->bytes);
}

static void put_machine(struct world *w, const char *id)
{
    struct machine_record record;

    record_full(&w->dimensions, &record);
    record.machine.id = str_from(id);
    put_record(&w->bytes, 1, &w->dimensions, &record);
}

static enum err feed_all(struct world *w, struct provider_list_end *ret_end, struct note *note)
{
    enum err err = provider_list_feed(w->list, buf_peek(&w->bytes), note);

    return err ? err : provider_list_finish(w->list, ret_end, note);
}

TEST(every_cut_gives_the_same_result)
{
    struct prng prng;
    uint64_t seed = test_seed();

    prng_seed(&prng, seed);
    for (int round = 0; round < 50; round++) {
        struct provider_list_end end;
        struct str left;
        struct world w;
        world_open(&w);
        put_machine(&w, "a");
        put_field(&w.bytes, 2, STR("rev-7"));
        put_machine(&w, "b");
        put_field(&w.bytes, 1, STR_EMPTY); /* a record without a byte: refused */
        put_machine(&w, "c");
        for (left = buf_peek(&w.bytes); left.len > 0;) {
            size_t n = 1 + prng_below(&prng, round % 2 ? 7 : 400);
            char *piece =
                malloc(min_size(n, left.len)); /* so that a sanitizer sees a read past the end */
            n = min_size(n, left.len);
            memcpy(piece, left.at, n);
            CHECK_OK("a piece", provider_list_feed(w.list, str_of(piece, n), NULL));
            free(piece);
            left = str_tail(left, n);
        }
        CHECK_OK("the end", provider_list_finish(w.list, &end, NULL));
        CHECK_STR("events", buf_peek(&w.reported), STR("a/3 b/3 refused(: id: empty) c/3 "));
        CHECK_U64("machines", end.machines, 3);
        CHECK_U64("refused", end.refused, 1);
        CHECK("one has no name: whatever is missing may be that one", !end.whole);
        CHECK("without tombstones no cursor", end.cursor.len == 0 && !end.tombstones);
        world_close(&w);
    }
}

TEST(a_cursor_is_used_only_where_removals_are_reported)
{
    const struct {
        const char *why;
        bool tombstones, revision;
        const char *cursor;
    } cases[] = {
        {"an old provider: everything each time", false, true, ""},
        {"a new one", true, true, "rev-9"},
        {"no revision, no cursor", true, false, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct provider_list_end end;
        struct world w;
        world_open(&w);
        put_machine(&w, "a");
        if (cases[i].revision) put_field(&w.bytes, 2, STR("rev-9"));
        if (cases[i].tombstones) {
            buf_append(&w.bytes, STR("\xa8\x06\x01"));
            put_field(&w.bytes, 100, STR("old-1"));
            put_field(&w.bytes, 100, STR("old-2"));
        }
        CHECK_OK(cases[i].why, feed_all(&w, &end, NULL));
        CHECK_STR(cases[i].why, end.cursor, str_from(cases[i].cursor));
        CHECK_STR("as it was given", end.revision, str_from(cases[i].revision ? "rev-9" : ""));
        CHECK("and whether removals are reported", end.tombstones == cases[i].tombstones);
        CHECK("whole", end.whole);
        CHECK_U64("removed", end.removed, cases[i].tombstones ? 2 : 0);
        CHECK_STR("reported after the machines", buf_peek(&w.reported),
                  cases[i].tombstones ? STR("a/3 gone(old-1) gone(old-2) ") : STR("a/3 "));
        world_close(&w);
    }
}

TEST(pages_follow_each_other)
{
    struct provider_list_end end;
    struct note note;
    struct world w;

    world_open(&w);
    put_machine(&w, "a");
    buf_append(&w.bytes, STR("\xb0\x06\x01"));
    put_field(&w.bytes, 103, STR("page-2"));
    CHECK_OK("a page", feed_all(&w, &end, NULL));
    CHECK("there is more", end.more);
    CHECK_STR("where", end.next_page, STR("page-2"));
    world_close(&w);
    world_open(&w);
    buf_append(&w.bytes, STR("\xb0\x06\x01"));
    CHECK_ERR("more, but not where", feed_all(&w, &end, &note), ERR_PARSE);
    CHECK_HAS("named", note.text, "next_page");
    world_close(&w);
}

TEST(ten_megabytes_of_labels_cost_one_record_and_little_memory)
{
    enum { BIG = 10 << 20 };
    struct provider_list_end end;
    struct world w;
    struct buf big;
    char *label = malloc(BIG);

    world_open(&w);
    buf_init(&big, BYTES_MAX);
    memset(label, 'x', BIG);
    put_machine(&w, "a");
    put_field(&big, 1, STR("big"));
    put_field(&big, 10, str_of(label, BIG));
    put_field(&w.bytes, 1, buf_peek(&big));
    put_machine(&w, "b");
    for (size_t at = 0; at < w.bytes.len; at += 65536)
        CHECK_OK("a piece",
                 provider_list_feed(
                     w.list, str_of(w.bytes.data + at, min_size(65536, w.bytes.len - at)), NULL));
    CHECK_OK("the end", provider_list_finish(w.list, &end, NULL));
    CHECK_HAS("refused alone, by its name", w.reported.data, "a/3 refused(big: 104857");
    CHECK_U64("the others came", end.machines, 2);
    world_close(&w);
    buf_deinit(&big);
    free(label);
}

TEST(bytes_that_are_no_list_end_it_and_a_cut_list_is_not_complete)
{
    struct provider_list_end end;
    struct note note;
    struct world w;

    world_open(&w);
    CHECK_ERR("not a list", provider_list_feed(w.list, STR("\x0b\x0b"), &note), ERR_PARSE);
    CHECK_ERR("and stays so", provider_list_feed(w.list, STR(""), &note), ERR_PARSE);
    CHECK_ERR("to the end", provider_list_finish(w.list, &end, &note), ERR_PARSE);
    world_close(&w);
    world_open(&w);
    put_machine(&w, "a");
    w.bytes.len--;
    CHECK_ERR("cut", feed_all(&w, &end, &note), ERR_PARSE);
    CHECK_HAS("named", note.text, "machines[0]: cut short");
    world_close(&w);
    world_open(&w);
    put_machine(&w, "a");
    w.answer = ERR_FULL;
    CHECK_ERR("the receiver may end it", feed_all(&w, &end, &note), ERR_FULL);
    world_close(&w);
}

TEST(tombstones_are_bounded_and_checked)
{
    struct provider_list_end end;
    struct world w;

    world_open(&w);
    put_field(&w.bytes, 100, STR("bad\nid"));
    put_field(&w.bytes, 100, STR("good"));
    CHECK_OK("read", feed_all(&w, &end, NULL));
    CHECK_STR("the good one only", buf_peek(&w.reported),
              STR("refused(: removed_ids: no id) gone(good) "));
    world_close(&w);
}
