/* SPDX-License-Identifier: Apache-2.0 */
#include "log/entries.h"

#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "lib/test.h"

static void append(struct entries *e, uint64_t index, uint64_t term, const char *text)
{
    struct entry entry = {
        .index = index, .term = term, .kind = ENTRY_COMMAND, .bytes = str_from(text)};
    CHECK_OK("append", entries_append(e, &entry));
}

static struct wal_place place_of(uint64_t sequence, uint32_t offset, size_t bytes)
{
    return (struct wal_place){sequence, offset, (uint32_t)((48 + bytes + 7) / 8 * 8)};
}

static void found(struct entries *e, uint64_t index, uint64_t term, const char *text, enum err want)
{
    struct wal_found f = {
        .entry = {.index = index, .term = term, .kind = ENTRY_COMMAND, .bytes = str_from(text)},
        .place = place_of(1, 4096, strlen(text))};
    CHECK_ERR("found", entries_found(e, &f), want);
}

static void check_bytes(const char *why, const struct entries *e, uint64_t index, const char *want)
{
    struct entry entry;
    struct wal_place place;

    CHECK(why, entries_get(e, index, &entry, &place));
    CHECK(why, entry.bytes.at != NULL);
    CHECK_STR(why, entry.bytes, str_from(want));
}

static bool in_memory(const struct entries *e, uint64_t index)
{
    struct entry entry;
    struct wal_place place;

    CHECK("is there", entries_get(e, index, &entry, &place));
    return entry.bytes.at != NULL;
}

TEST(an_empty_log_knows_where_it_goes_on)
{
    struct entries *e;
    struct entry entry;
    struct wal_place place;

    CHECK_OK("open", entries_open(1000, 7, &e));
    CHECK_U64("first", entries_first(e), 7);
    CHECK_U64("last", entries_last(e), 6);
    CHECK("nothing there", !entries_get(e, 7, &entry, &place));
    CHECK("nor before", !entries_get(e, 6, &entry, &place));
    CHECK_U64("no term", entries_term(e, 7), 0);
    CHECK_U64("no bytes", entries_log_bytes_since(e, 0), 0);
    entries_close(e);
    entries_close(NULL);
}

TEST(what_was_appended_is_there_with_index_term_and_kind)
{
    struct entries *e;
    struct entry entry = {.index = 2, .term = 9, .kind = ENTRY_BARRIER, .bytes = STR_EMPTY};
    struct wal_place place;

    CHECK_OK("open", entries_open(1000, 1, &e));
    append(e, 1, 4, "one");
    CHECK_OK("a barrier", entries_append(e, &entry));
    CHECK("it is there", entries_get(e, 2, &entry, &place));
    CHECK_U64("index", entry.index, 2);
    CHECK_U64("term", entry.term, 9);
    CHECK_U64("kind", entry.kind, ENTRY_BARRIER);
    CHECK("no bytes are in memory, too", entry.bytes.at != NULL && entry.bytes.len == 0);
    CHECK_U64("not on disk yet", place.size, 0);
    check_bytes("a copy", e, 1, "one");
    CHECK_U64("term", entries_term(e, 1), 4);
    CHECK_U64("cached", entries_bytes(e), 3);
    entries_close(e);
}

TEST(an_index_that_comes_again_replaces_it_and_what_followed)
{
    struct entries *e;

    CHECK_OK("open", entries_open(1000, 1, &e));
    for (uint64_t i = 1; i <= 5; i++) append(e, i, 1, "old");
    append(e, 3, 2, "new!");
    CHECK_U64("last", entries_last(e), 3);
    check_bytes("the new one", e, 3, "new!");
    check_bytes("the earlier entries", e, 2, "old");
    CHECK_U64("its term", entries_term(e, 3), 2);
    CHECK_U64("no more", entries_term(e, 4), 0);
    CHECK_U64("cached", entries_bytes(e), 10);
    CHECK_U64("on disk", entries_log_bytes_since(e, 0), 3 * 56);
    append(e, 1, 3, "all");
    CHECK_U64("everything replaced", entries_last(e), 1);
    entries_close(e);
}

TEST(a_position_is_returned_when_the_disk_reports_it)
{
    struct entries *e;
    struct entry entry;
    struct wal_place place, reported = place_of(0xFFFFFFFF, 0xFFFFFFF8, 5);

    CHECK_OK("open", entries_open(1000, 1, &e));
    append(e, 1, 1, "first");
    append(e, 2, 1, "secnd");
    entries_placed(e, 2, &reported);
    CHECK("get", entries_get(e, 2, &entry, &place));
    CHECK_U64("sequence", place.sequence, reported.sequence);
    CHECK_U64("offset", place.offset, reported.offset);
    CHECK_U64("size", place.size, reported.size);
    CHECK("get", entries_get(e, 1, &entry, &place));
    CHECK_U64("the other has none", place.size, 0);
    entries_forget_to(e, 1);
    entries_placed(e, 1, &reported); /* compacted during the write: no effect */
    append(e, 2, 2, "again");
    CHECK("get", entries_get(e, 2, &entry, &place));
    CHECK_U64("a replacement has no place yet", place.size, 0);
    entries_close(e);
}

TEST(bytes_are_dropped_from_the_front_and_only_of_durable_applied_entries)
{
    struct entries *e;
    struct wal_place place = place_of(1, 4096, 4);

    CHECK_OK("open", entries_open(8, 1, &e));
    for (uint64_t i = 1; i <= 6; i++) append(e, i, 1, "four");
    entries_trim(e, 6);
    CHECK_U64("nothing is durable", entries_bytes(e), 24);
    for (uint64_t i = 1; i <= 5; i++) entries_placed(e, i, &place);
    entries_trim(e, 1);
    CHECK("the applied one goes", !in_memory(e, 1));
    CHECK("the next is not applied", in_memory(e, 2));
    entries_trim(e, 100);
    CHECK_U64("down to the bound", entries_bytes(e), 8);
    CHECK("oldest first", !in_memory(e, 4) && in_memory(e, 5));
    check_bytes("still right", e, 5, "four");
    append(e, 3, 2, "1234567890");
    CHECK("its replacement is in memory though older ones are not", in_memory(e, 3));
    entries_trim(e, 100);
    CHECK("over the bound and not durable: it stays", in_memory(e, 3));
    append(e, 4, 2, "x");
    entries_placed(e, 3, &(struct wal_place){1, 8192, 64});
    entries_trim(e, 3);
    CHECK("now it goes", !in_memory(e, 3));
    entries_close(e);
}

TEST(length_is_known_of_what_is_not_in_memory)
{
    struct entries *e;
    struct entry entry;
    struct wal_place place;

    CHECK_OK("open", entries_open(0, 1, &e));
    found(e, 1, 3, "seven77", ERR_OK);
    CHECK("there", entries_get(e, 1, &entry, &place));
    CHECK("without bytes", entry.bytes.at == NULL);
    CHECK_SIZE("with a length", entry.bytes.len, 7);
    CHECK_U64("and a place", place.size, 56);
    entries_close(e);
}

TEST(compaction_forgets_the_front)
{
    struct entries *e;

    CHECK_OK("open", entries_open(1 << 20, 1, &e));
    for (uint64_t i = 1; i <= 5000; i++) append(e, i, i, "12345678");
    CHECK_U64("on disk", entries_log_bytes_since(e, 0), 5000 * 56);
    entries_forget_to(e, 2500);
    CHECK_U64("first", entries_first(e), 2501);
    CHECK_U64("last", entries_last(e), 5000);
    CHECK_U64("gone", entries_term(e, 2500), 0);
    CHECK_U64("there", entries_term(e, 2501), 2501);
    CHECK_U64("on disk, of the remaining entries", entries_log_bytes_since(e, 0), 2500 * 56);
    CHECK_U64("since the last ten", entries_log_bytes_since(e, 4990), 10 * 56);
    CHECK_U64("cached", entries_bytes(e), 2500 * 8);
    entries_forget_to(e, 17);
    CHECK_U64("forgotten already", entries_first(e), 2501);
    entries_forget_to(e, 5000);
    CHECK_U64("empty, goes on", entries_first(e), 5001);
    CHECK_U64("last", entries_last(e), 5000);
    CHECK_U64("no bytes", entries_bytes(e) + entries_log_bytes_since(e, 0), 0);
    append(e, 5001, 1, "next");
    check_bytes("goes on", e, 5001, "next");
    CHECK_U64("on disk", entries_log_bytes_since(e, 5000), 56);
    entries_close(e);
}

TEST(a_reset_forgets_all_and_goes_on_after_it)
{
    struct entries *e;

    CHECK_OK("open", entries_open(1000, 1, &e));
    append(e, 1, 1, "one");
    entries_reset(e, 40);
    CHECK_U64("first", entries_first(e), 41);
    CHECK_U64("last", entries_last(e), 40);
    CHECK_U64("cached", entries_bytes(e), 0);
    append(e, 41, 2, "on");
    check_bytes("goes on", e, 41, "on");
    entries_reset(e, 10);
    CHECK_U64("may go back", entries_first(e), 11);
    entries_close(e);
}

TEST(recovery_keeps_the_newest_bytes_and_begins_where_the_log_begins)
{
    struct entries *e;

    CHECK_OK("open", entries_open(8, 1, &e));
    found(e, 30, 2, "four", ERR_OK);
    CHECK_U64("begins there", entries_first(e), 30);
    found(e, 31, 2, "four", ERR_OK);
    found(e, 32, 2, "four", ERR_OK);
    CHECK("the oldest bytes went", !in_memory(e, 30) && in_memory(e, 31));
    found(e, 31, 3, "new", ERR_OK);
    CHECK_U64("replaced", entries_last(e), 31);
    found(e, 33, 3, "gap", ERR_CORRUPT);
    found(e, 0, 3, "zero", ERR_CORRUPT);
    found(e, 20, 4, "back", ERR_OK);
    CHECK_U64("an older index replaces the first found entries", entries_first(e), 20);
    CHECK_U64("with all that followed", entries_last(e), 20);
    entries_close(e);
}

TEST(after_a_reset_is_found_the_log_goes_on_exactly_there)
{
    struct entries *e;
    struct wal_found reset = {.entry = {.index = 50, .term = 3}, .reset = true};

    CHECK_OK("open", entries_open(8, 1, &e));
    found(e, 1, 1, "one", ERR_OK);
    CHECK_OK("reset", entries_found(e, &reset));
    found(e, 52, 1, "gap", ERR_CORRUPT);
    found(e, 51, 4, "next", ERR_OK);
    CHECK_U64("first", entries_first(e), 51);
    entries_close(e);
}

/* -- against a plain array -- */
enum { MOST = 6000, WORLDS = 60, STEPS = 1500 };
struct oracle {
    uint64_t first, last;
    struct {
        uint64_t term;
        uint32_t len, offset;
        char byte;
    } at[MOST + 2];
};

static void check_same(const struct entries *e, const struct oracle *o, struct prng *prng)
{
    uint64_t total = 0;

    CHECK_U64("first", entries_first(e), o->first);
    CHECK_U64("last", entries_last(e), o->last);
    for (int i = 0; i < 8; i++) {
        uint64_t index = prng_below(prng, MOST + 2);
        struct entry entry;
        struct wal_place place;
        bool there = index >= o->first && index <= o->last;

        CHECK("there", entries_get(e, index, &entry, &place) == there);
        CHECK_U64("term", entries_term(e, index), there ? o->at[index].term : 0);
        if (!there) continue;
        CHECK_U64("length", entry.bytes.len, o->at[index].len);
        CHECK_U64("offset", place.offset, o->at[index].offset);
        CHECK("bytes or a place", entry.bytes.at || place.size);
        for (size_t b = 0; entry.bytes.at && b < entry.bytes.len; b++)
            CHECK("byte", entry.bytes.at[b] == o->at[index].byte);
    }
    uint64_t since = prng_below(prng, MOST);
    for (uint64_t i = max_u64(since + 1, o->first); i <= o->last; i++)
        total += (48 + o->at[i].len + 7u) / 8 * 8;
    CHECK_U64("log bytes", entries_log_bytes_since(e, since), total);
}

static void append_some(struct entries *e, struct oracle *o, struct prng *prng, uint64_t from)
{
    uint64_t many = prng_between(prng, 1, 300);

    for (uint64_t i = from; i < from + many && i <= MOST; i++) {
        char bytes[40];
        struct entry entry = {.index = i, .term = prng_between(prng, 1, 9), .kind = ENTRY_COMMAND};

        o->at[i].term = entry.term;
        o->at[i].len = (uint32_t)prng_below(prng, sizeof bytes);
        o->at[i].offset = 0;
        o->at[i].byte = (char)prng_u64(prng);
        memset(bytes, o->at[i].byte, sizeof bytes);
        entry.bytes = str_of(bytes, o->at[i].len);
        CHECK_OK("append", entries_append(e, &entry));
        o->last = i;
    }
}

TEST(the_log_behaves_as_a_plain_array)
{
    static struct oracle o;
    struct prng worlds, prng;

    prng_seed(&worlds, test_seed());
    for (int w = 0; w < WORLDS; w++) {
        struct entries *e;

        prng_fork(&worlds, &prng);
        memset(&o, 0, sizeof o);
        o.first = prng_between(&prng, 1, 2000);
        o.last = o.first - 1;
        CHECK_OK("open", entries_open(prng_below(&prng, 20000), o.first, &e));
        for (int s = 0; s < STEPS; s++) {
            uint64_t die = prng_below(&prng, 100), count = o.last + 1 - o.first;

            if (die < 35)
                append_some(e, &o, &prng, o.last + 1);
            else if (die < 45 && count)
                append_some(e, &o, &prng, o.last + 1 - prng_below(&prng, min_u64(count, 40)));
            else if (die < 60 && count) {
                uint64_t index = o.first + prng_below(&prng, count);
                for (uint64_t i = index; i <= o.last && i < index + 100; i++) {
                    struct wal_place place =
                        place_of(1, (uint32_t)prng_between(&prng, 8, 1 << 20), o.at[i].len);
                    o.at[i].offset = place.offset;
                    entries_placed(e, i, &place);
                }
            } else if (die < 75)
                entries_trim(e, prng_below(&prng, MOST));
            else if (die < 90) {
                uint64_t to = o.first - 1 + prng_below(&prng, count + 1);
                entries_forget_to(e, to);
                if (to >= o.first) o.first = to + 1;
            } else if (die < 91 || o.last > MOST - 100) {
                o.last = prng_below(&prng, 2000);
                o.first = o.last + 1;
                entries_reset(e, o.last);
            }
            check_same(e, &o, &prng);
        }
        entries_close(e);
    }
}
