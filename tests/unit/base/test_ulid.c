/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ulid.h"

#include <string.h>

#include "base/bytes.h"
#include "base/note.h"
#include "lib/test.h"

TEST(text_and_bytes_both_ways)
{
    static const struct {
        const char *text;
        const char bytes[17];
        uint64_t ms;
    } cases[] = {
        {"00000000000000000000000000", "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 0},
        {"7ZZZZZZZZZZZZZZZZZZZZZZZZZ",
         "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 281474976710655},
        {"01ARZ3NDEKTSV4RRFFQ69G5FAV",
         "\x01\x56\x3e\x3a\xb5\xd3\xd6\x76\x4c\x61\xef\xb9\x93\x02\xbd\x5b", 1469922850259},
        {"01ARYZ6S410000000000000000", "\x01\x56\x3d\xf3\x64\x81\0\0\0\0\0\0\0\0\0\0",
         1469918176385},
        {"0123456789ABCDEFGHJKMNPQRS",
         "\x01\x10\xc8\x53\x1d\x09\x52\xd8\xd7\x3e\x11\x94\xe9\x5b\x5f\x19", 1171591994633},
        {"6TVWXYZ0123456789ABCDEFGHJ",
         "\xda\xdf\x3b\xef\x80\x22\x19\x0a\x63\xa1\x2a\x5b\x1a\xe7\xc2\x32", 240652318113826},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct ulid ulid;
        char text[ULID_TEXT_CAP], lower[ULID_TEXT_CAP];

        CHECK_OK(cases[i].text, ulid_parse(str_from(cases[i].text), &ulid, NULL));
        CHECK(cases[i].text, memcmp(ulid.bytes, cases[i].bytes, 16) == 0);
        CHECK_U64(cases[i].text, __builtin_bswap64(load_le64(ulid.bytes)) >> 16, cases[i].ms);
        ulid_text(&ulid, text);
        CHECK_TEXT("printed back", text, cases[i].text);
        for (size_t k = 0; k < ULID_TEXT_CAP; k++)
            lower[k] = (char)(text[k] >= 'A' ? text[k] + ('a' - 'A') : text[k]);
        memset(&ulid, 0xEE, sizeof ulid);
        CHECK_OK("lower case is accepted", ulid_parse(str_from(lower), &ulid, NULL));
        ulid_text(&ulid, text);
        CHECK_TEXT("and printed upper case", text, cases[i].text);
    }
}

TEST(what_is_no_ulid_is_refused_with_the_reason)
{
    static const struct {
        struct str text;
        const char *want;
    } cases[] = {
        {{"", 0}, "not a valid ulid: invalid length"},
        {{"w1", 2}, "not a valid ulid: invalid length"},
        {{"nope", 4}, "not a valid ulid: invalid length"},
        {{"01ARZ3NDEKTSV4RRFFQ69G5FA", 25}, "not a valid ulid: invalid length"},
        {{"01ARZ3NDEKTSV4RRFFQ69G5FAVV", 27}, "not a valid ulid: invalid length"},
        {{"01ARZ3NDEKTSV4RRFFQ69G5FAI", 26}, "not a valid ulid: invalid character"},
        {{"01ARZ3NDEKTSV4RRFFQ69G5FAl", 26}, "not a valid ulid: invalid character"},
        {{"0OARZ3NDEKTSV4RRFFQ69G5FAV", 26}, "not a valid ulid: invalid character"},
        {{"01ARZ3NDEKTSV4uRFFQ69G5FAV", 26}, "not a valid ulid: invalid character"},
        {{"U1ARZ3NDEKTSV4RRFFQ69G5FAV", 26}, "not a valid ulid: invalid character"},
        {{"01ARZ3NDEKTSV4RR-FQ69G5FAV", 26}, "not a valid ulid: invalid character"},
        {{"01ARZ3NDEKTSV4RR\0FQ69G5FAV", 26}, "not a valid ulid: invalid character"},
        {{"01ARZ3NDEKTSV4RRF\xC3\xA4"
          "69G5FAV",
          26},
         "not a valid ulid: invalid character"},
        {{" 1ARZ3NDEKTSV4RRFFQ69G5FAV", 26}, "not a valid ulid: invalid character"},
        {{"80000000000000000000000000", 26}, "not a valid ulid: out of range"},
        {{"ZZZZZZZZZZZZZZZZZZZZZZZZZZ", 26}, "not a valid ulid: out of range"},
        {{"8000000000000000000000000I", 26}, "not a valid ulid: invalid character"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct ulid ulid, before;
        struct note note = {"untouched"};

        memset(&ulid, 0xEE, sizeof ulid);
        before = ulid;
        CHECK_ERR(cases[i].want, ulid_parse(cases[i].text, &ulid, &note), ERR_PARSE);
        CHECK_TEXT("the reason", note.text, cases[i].want);
        CHECK("the output is untouched", memcmp(&ulid, &before, sizeof ulid) == 0);
        CHECK_ERR("without a note", ulid_parse(cases[i].text, &ulid, NULL), ERR_PARSE);
    }
}

TEST(every_single_character_is_in_the_alphabet_or_refused)
{
    struct str alphabet = STR("0123456789ABCDEFGHJKMNPQRSTVWXYZabcdefghjkmnpqrstvwxyz");

    for (int c = 0; c < 256; c++) {
        char text[] = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
        struct ulid ulid;
        text[20] = (char)c;
        CHECK_ERR("only these", ulid_parse(str_of(text, ULID_LEN), &ulid, NULL),
                  str_has(alphabet, (char)c) ? ERR_OK : ERR_PARSE);
    }
}

TEST(bytes_sort_as_the_text_does)
{
    static const char *const rising[] = {
        "00000000000000000000000000", "00000000000000000000000001", "0000000000000000000000000Z",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAW", "01ARZ3NDEM0000000000000000",
        "7ZZZZZZZZZZZZZZZZZZZZZZZZZ",
    };

    for (size_t i = 0; i < ARRAY_LEN(rising); i++)
        for (size_t j = 0; j < ARRAY_LEN(rising); j++) {
            struct ulid a, b;
            CHECK_OK("a", ulid_parse(str_from(rising[i]), &a, NULL));
            CHECK_OK("b", ulid_parse(str_from(rising[j]), &b, NULL));
            int order = ulid_compare(&a, &b);
            CHECK_I64("same order", (order > 0) - (order < 0), (i > j) - (i < j));
        }
}

static const uint8_t low[10] = {0}, high[10] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 255};

static void check_next(const char *why, struct ulid_maker *maker, uint64_t ms,
                       const uint8_t random[10], const char *want)
{
    struct ulid ulid;
    char text[ULID_TEXT_CAP];

    CHECK_OK(why, ulid_next(maker, (wall_time){ms}, random, &ulid));
    ulid_text(&ulid, text);
    CHECK_TEXT(why, text, want);
}

TEST(made_ids_grow_whatever_the_clock_does)
{
    struct ulid_maker maker = {0};
    uint8_t some[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 255};

    check_next("time zero", &maker, 0, low, "00000000000000000000000000");
    check_next("time and randomness", &maker, 1469922850259, some, "01ARZ3NDEK041061050R3GG2FZ");
    check_next("same millisecond: one more", &maker, 1469922850259, high,
               "01ARZ3NDEK041061050R3GG2G0");
    check_next("clock stepped back: one more", &maker, 5, high, "01ARZ3NDEK041061050R3GG2G1");
    check_next("a new millisecond: fresh randomness", &maker, 1469922850260, low,
               "01ARZ3NDEM0000000000000000");
    check_next("past 48 bits is the last moment", &maker, UINT64_MAX, low,
               "7ZZZZZZZZZ0000000000000000");
    check_next("and still grows", &maker, UINT64_MAX, low, "7ZZZZZZZZZ0000000000000001");
}

TEST(a_random_part_at_its_top_is_full_until_the_next_millisecond)
{
    struct ulid_maker maker = {0};
    struct ulid ulid, before;

    check_next("at the top", &maker, 1023, high, "00000000ZZZZZZZZZZZZZZZZZZ");
    memset(&ulid, 0xEE, sizeof ulid);
    before = ulid;
    CHECK_ERR("would wrap", ulid_next(&maker, (wall_time){1023}, low, &ulid), ERR_FULL);
    CHECK_ERR("still", ulid_next(&maker, (wall_time){1022}, low, &ulid), ERR_FULL);
    CHECK("the output is untouched", memcmp(&ulid, &before, sizeof ulid) == 0);
    check_next("a millisecond later", &maker, 1024, low, "00000001000000000000000000");
}

TEST(a_carry_runs_through_all_random_bytes)
{
    struct ulid_maker maker = {0};
    uint8_t nearly[10] = {0, 255, 255, 255, 255, 255, 255, 255, 255, 255};
    struct ulid ulid;

    CHECK_OK("first", ulid_next(&maker, (wall_time){7}, nearly, &ulid));
    CHECK_OK("second", ulid_next(&maker, (wall_time){7}, low, &ulid));
    CHECK_U64("time untouched", __builtin_bswap64(load_le64(ulid.bytes)) >> 16, 7);
    CHECK_U64("carried into the first", ulid.bytes[6], 1);
    for (size_t i = 7; i < 16; i++) CHECK_U64("the rest is zero", ulid.bytes[i], 0);
}
