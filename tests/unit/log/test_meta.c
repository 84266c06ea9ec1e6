/* SPDX-License-Identifier: Apache-2.0 */
#include "log/meta.h"

#include <string.h>

#include "lib/test.h"

TEST(the_clock_sums_what_entries_say_and_never_runs_back)
{
    struct meta meta;
    struct log_envelope envelope = {.advance_ns = 5};

    meta_init(&meta);
    CHECK_U64("starts at nothing", meta.clock_ns, 0);
    meta_advance(&meta, &envelope);
    envelope.advance_ns = 0;
    meta_advance(&meta, &envelope);
    CHECK_U64("after two entries", meta.clock_ns, 5);
    envelope.advance_ns = UINT64_MAX - 1;
    meta_advance(&meta, &envelope);
    CHECK_U64("is at its end", meta.clock_ns, UINT64_MAX);
}

TEST(the_level_rises_by_command_and_never_falls)
{
    static const struct {
        uint32_t command, want;
    } steps[] = {{1, 1}, {3, 3}, {2, 3}, {3, 3}, {UINT32_MAX, UINT32_MAX}, {1, UINT32_MAX}};
    struct meta meta;

    meta_init(&meta);
    CHECK_U64("starts at 1", meta.level, 1);
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        struct buf bytes;

        buf_init(&bytes, 100);
        CHECK_OK("encode", meta_level_command(steps[i].command, &bytes));
        CHECK_OK("apply", meta_apply(&meta, buf_peek(&bytes), NULL));
        CHECK_U64("level", meta.level, steps[i].want);
        buf_deinit(&bytes);
    }
}

TEST(a_command_it_does_not_know_is_refused_and_changes_nothing)
{
    static const struct {
        const char *why;
        struct str command;
        const char *note;
    } cases[] = {
        {"nothing", {"", 0}, "0 bytes"},
        {"cut", {"\1\0\0\0\2\0\0", 7}, "7 bytes"},
        {"too long", {"\1\0\0\0\2\0\0\0\0", 9}, "9 bytes"},
        {"kind 0", {"\0\0\0\0\2\0\0\0", 8}, "kind 0"},
        {"kind 3", {"\3\0\0\0\2\0\0\0", 8}, "kind 3"},
        {"a recovery that is cut", {"\2\0\0\0\2\0\0\0", 8}, "8 bytes"},
        {"level 0", {"\1\0\0\0\0\0\0\0", 8}, "level 0"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct meta meta;
        struct note note = {""};

        meta_init(&meta);
        CHECK_ERR(cases[i].why, meta_apply(&meta, cases[i].command, &note), ERR_PARSE);
        CHECK_HAS(cases[i].why, note.text, cases[i].note);
        CHECK_U64("level", meta.level, 1);
    }
}

TEST(the_bytes_of_a_level_command)
{
    struct buf bytes;

    buf_init(&bytes, 100);
    CHECK_OK("encode", meta_level_command(0x01020304, &bytes));
    CHECK_STR("bytes", buf_peek(&bytes), STR("\1\0\0\0\4\3\2\1"));
    buf_deinit(&bytes);
}

TEST(a_recovery_raises_the_level_and_says_how_far)
{
    struct machine_recovery got, recovery = {.floor = 0x0807060504030201};
    struct meta meta;
    struct buf bytes;

    for (size_t i = 0; i < sizeof recovery.identity; i++) recovery.identity[i] = (uint8_t)('a' + i);
    meta_init(&meta);
    buf_init(&bytes, 100);
    CHECK_OK("encode", meta_recover_command(4, &recovery, &bytes));
    CHECK_STR("bytes", buf_peek(&bytes),
              STR("\2\0\0\0\4\0\0\0\1\2\3\4\5\6\7\x08"
                  "abcdefghijklmnop"));
    CHECK_OK("apply", meta_apply(&meta, buf_peek(&bytes), NULL));
    CHECK_U64("level", meta.level, 4);
    CHECK("it is one", meta_recovery(buf_peek(&bytes), &got));
    CHECK_U64("floor", got.floor, recovery.floor);
    CHECK("identity", !memcmp(got.identity, recovery.identity, sizeof got.identity));
    bytes.len--;
    CHECK_ERR("cut", meta_apply(&meta, buf_peek(&bytes), NULL), ERR_PARSE);
    CHECK("none", !meta_recovery(buf_peek(&bytes), &got));
    buf_clear(&bytes);
    CHECK_OK("encode", meta_level_command(2, &bytes));
    CHECK("a level is none", !meta_recovery(buf_peek(&bytes), &got));
    buf_deinit(&bytes);
}

TEST(clock_and_level_both_show_in_the_hash)
{
    struct meta a, b;

    meta_init(&a);
    b = a;
    CHECK("the same", meta_hash(&a) == meta_hash(&b));
    b.clock_ns = 1;
    CHECK("another clock", meta_hash(&a) != meta_hash(&b));
    b = a;
    b.level = 2;
    CHECK("another level", meta_hash(&a) != meta_hash(&b));
}
