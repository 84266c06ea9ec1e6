/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include <stdlib.h>
#include <string.h>

#include "lib/test.h"

TEST(views_of_text_and_bytes)
{
    CHECK_STR("a C string", str_from("abc"), STR("abc"));
    CHECK_STR("NULL is empty", str_from(NULL), STR_EMPTY);
    CHECK("and has an address", str_from(NULL).at != NULL);
    CHECK_SIZE("a literal keeps inner NULs", STR("a\0b").len, 3);
    CHECK_STR("bytes", str_of("abcdef", 3), STR("abc"));
}

TEST(equality_and_order)
{
    static const struct {
        const char *why;
        struct str a, b;
        int order;
        bool equal_nocase;
    } cases[] = {
        {"same", {"abc", 3}, {"abc", 3}, 0, true},
        {"both empty", {"", 0}, {NULL, 0}, 0, true},
        {"shorter first", {"ab", 2}, {"abc", 3}, -1, false},
        {"empty first", {"", 0}, {"a", 1}, -1, false},
        {"bytewise", {"abd", 3}, {"abc", 3}, 1, false},
        {"high bytes after ASCII", {"\xC3", 1}, {"z", 1}, 1, false},
        {"NUL is a byte", {"a\0b", 3}, {"a\0c", 3}, -1, false},
        {"upper case first", {"ABC", 3}, {"abc", 3}, -1, true},
        {"the letters' neighbours", {"@[", 2}, {"`{", 2}, -1, false},
        {"no case beyond ASCII", {"\xC4", 1}, {"\xE4", 1}, -1, false},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct str a = cases[i].a, b = cases[i].b;
        int order = str_compare(a, b), back = str_compare(b, a);
        CHECK_I64(cases[i].why, (order > 0) - (order < 0), cases[i].order);
        CHECK_I64(cases[i].why, (back > 0) - (back < 0), -cases[i].order);
        CHECK(cases[i].why, str_equal(a, b) == (cases[i].order == 0));
        CHECK(cases[i].why, str_equal_nocase(a, b) == cases[i].equal_nocase);
    }
}

TEST(starts_ends_find_tail_trim)
{
    struct str s = STR("abcabc");

    CHECK("starts", str_starts(s, STR("abc")) && str_starts(s, STR_EMPTY) && str_starts(s, s));
    CHECK("does not", !str_starts(s, STR("abd")) && !str_starts(STR("ab"), STR("abc")));
    CHECK("ends", str_ends(s, STR("cabc")) && str_ends(s, STR_EMPTY) && str_ends(s, s));
    CHECK("does not", !str_ends(s, STR("ab")) && !str_ends(STR("bc"), STR("abc")));
    CHECK_SIZE("first of two", str_find(s, 'c'), 2);
    CHECK_SIZE("none", str_find(s, 'x'), s.len);
    CHECK_SIZE("in nothing", str_find((struct str){0}, 'x'), 0);
    CHECK("has", str_has(s, 'b') && !str_has(s, 'B') && !str_has(STR_EMPTY, '\0'));
    CHECK_SIZE("how often", str_count(STR("a\0b\0"), '\0'), 2);
    CHECK_SIZE("never in nothing", str_count((struct str){0}, 'a'), 0);
    CHECK_STR("tail", str_tail(s, 4), STR("bc"));
    CHECK_STR("past the end", str_tail(s, 100), STR_EMPTY);
    CHECK_STR("trimmed", str_trim(STR(" \t\r\n a b \n")), STR("a b"));
    CHECK_STR("only blanks", str_trim(STR(" \n ")), STR_EMPTY);
    CHECK_STR("nothing else is blank", str_trim(STR("\v\f")), STR("\v\f"));
}

TEST(split_gives_every_part)
{
    static const struct {
        const char *text;
        const char *parts[4];
        size_t count;
    } cases[] = {
        {"a,,b", {"a", "", "b"}, 3}, {"", {""}, 1}, {",", {"", ""}, 2}, {"abc", {"abc"}, 1},
        {"a,b,", {"a", "b", ""}, 3},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct str rest = str_from(cases[i].text), part = STR("untouched");
        size_t count = 0;
        while (str_split(&rest, ',', &part)) {
            CHECK(cases[i].text, count < cases[i].count);
            CHECK_STR(cases[i].text, part, str_from(cases[i].parts[count]));
            count++;
        }
        CHECK_SIZE(cases[i].text, count, cases[i].count);
    }
}

TEST(whole_numbers)
{
    static const struct {
        const char *text;
        enum err want;
        uint64_t value;
    } cases[] = {
        {"0", ERR_OK, 0},
        {"007", ERR_OK, 7},
        {"18446744073709551615", ERR_OK, UINT64_MAX},
        {"00000000000000000000000018446744073709551615", ERR_OK, UINT64_MAX},
        {"18446744073709551616", ERR_TOO_LARGE, 0},
        {"99999999999999999999", ERR_TOO_LARGE, 0},
        {"36893488147419103232", ERR_TOO_LARGE, 0},
        {"99999999999999999999x", ERR_PARSE, 0},
        {"", ERR_PARSE, 0},
        {"-1", ERR_PARSE, 0},
        {"+1", ERR_PARSE, 0},
        {" 1", ERR_PARSE, 0},
        {"1 ", ERR_PARSE, 0},
        {"0x10", ERR_PARSE, 0},
        {"1e3", ERR_PARSE, 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint64_t value = 12345;
        CHECK_ERR(cases[i].text, str_to_u64(str_from(cases[i].text), &value), cases[i].want);
        CHECK_U64(cases[i].text, value, cases[i].want == ERR_OK ? cases[i].value : 12345);
    }
}

TEST(signed_numbers)
{
    static const struct {
        const char *text;
        enum err want;
        int64_t value;
    } cases[] = {
        {"0", ERR_OK, 0},
        {"-0", ERR_OK, 0},
        {"-12", ERR_OK, -12},
        {"9223372036854775807", ERR_OK, INT64_MAX},
        {"9223372036854775808", ERR_TOO_LARGE, 0},
        {"-9223372036854775808", ERR_OK, INT64_MIN},
        {"-9223372036854775809", ERR_TOO_LARGE, 0},
        {"-", ERR_PARSE, 0},
        {"--1", ERR_PARSE, 0},
        {"+1", ERR_PARSE, 0},
        {"", ERR_PARSE, 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t value = 12345;
        CHECK_ERR(cases[i].text, str_to_i64(str_from(cases[i].text), &value), cases[i].want);
        CHECK_I64(cases[i].text, value, cases[i].want == ERR_OK ? cases[i].value : 12345);
    }
}

TEST(dup_is_a_copy_with_a_closing_nul)
{
    char *copy = str_dup(STR("a\0b"));

    CHECK("all bytes", copy && memcmp(copy, "a\0b", 4) == 0);
    free(copy);
    copy = str_dup((struct str){0});
    CHECK_TEXT("of nothing", copy, "");
    free(copy);
    CHECK("of too much", str_dup(str_of("", SIZE_MAX)) == NULL);
}

TEST(utf8_is_read_strictly)
{
    static const struct {
        const char *why;
        struct str text;
        bool want;
    } cases[] = {
        {"empty", {"", 0}, true},
        {"ASCII with NUL and DEL", {"a\0\x7F", 3}, true},
        {"two bytes, first and last", {"\xC2\x80\xDF\xBF", 4}, true},
        {"three bytes, first and last", {"\xE0\xA0\x80\xEF\xBF\xBF", 6}, true},
        {"around the surrogates", {"\xED\x9F\xBF\xEE\x80\x80", 6}, true},
        {"four bytes, first and last", {"\xF0\x90\x80\x80\xF4\x8F\xBF\xBF", 8}, true},
        {"a long ASCII run, then one more", {"aaaaaaaaaaaaaaaa\xC3\xA4", 18}, true},
        {"a lone continuation", {"\x80", 1}, false},
        {"overlong NUL", {"\xC0\x80", 2}, false},
        {"overlong slash, C1", {"\xC1\xBF", 2}, false},
        {"overlong three", {"\xE0\x9F\xBF", 3}, false},
        {"overlong four", {"\xF0\x8F\xBF\xBF", 4}, false},
        {"first surrogate", {"\xED\xA0\x80", 3}, false},
        {"last surrogate", {"\xED\xBF\xBF", 3}, false},
        {"past U+10FFFF", {"\xF4\x90\x80\x80", 4}, false},
        {"F5", {"\xF5\x80\x80\x80", 4}, false},
        {"FE and FF", {"\xFE\xFF", 2}, false},
        {"cut after one of two", {"\xC2", 1}, false},
        {"cut after two of three", {"\xE2\x82", 2}, false},
        {"cut after three of four", {"\xF0\x9F\x98", 3}, false},
        {"a letter where a byte should follow", {"\xE2\x82z", 3}, false},
        {"bad after a long ASCII run", {"aaaaaaaaaaaaaaaa\xFF", 17}, false},
        {"bad inside the eighth byte", {"aaaaaaa\xFF", 8}, false},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char *exact = malloc(cases[i].text.len + 1); /* ASan sees a read past the end */
        CHECK("memory", exact != NULL);
        memcpy(exact, cases[i].text.at, cases[i].text.len);
        bool got = str_is_utf8(str_of(exact, cases[i].text.len));
        free(exact);
        CHECK(cases[i].why, got == cases[i].want);
    }
}

/* Every three-byte sequence against the definition: a loose decoder, then the rules. */
TEST(utf8_three_bytes_by_the_definition)
{
    for (unsigned a = 0xE0; a <= 0xEF; a++)
        for (unsigned b = 0; b < 256; b++)
            for (unsigned c = 0x70; c < 0xD0; c++) {
                char text[3] = {(char)a, (char)b, (char)c};
                unsigned point = (a & 15) << 12 | (b & 63) << 6 | (c & 63);
                bool want = (b & 0xC0) == 0x80 && (c & 0xC0) == 0x80 && point >= 0x800 &&
                            (point < 0xD800 || point > 0xDFFF);
                if (str_is_utf8(str_of(text, 3)) != want) CHECK("as defined", false);
            }
}

/* SipHash-1-3 under the all-zero key, made with CPython 3.11 (PYTHONHASHSEED=0, hash(bytes)). */
TEST(the_hash_is_siphash_1_3)
{
    static const struct {
        size_t len;
        uint64_t want;
    } cases[] = {
        {1, 0x68A914128E01E473u},   {3, 0x4D4C9A4A8EF6E0ADu},    {7, 0x2F098AB0C751325Au},
        {8, 0xEAD411E67EBE2EEAu},   {9, 0x75927F9D95124362u},    {15, 0xF30EB725BB91C9EAu},
        {16, 0x8972188433A5C5B7u},  {17, 0x4883C49A2C009C1Du},   {26, 0xED36FF242FE478B2u},
        {63, 0x385D3E39E5F37359u},  {64, 0x75E05FD5BBC870C6u},   {255, 0x5DC1F93EA135EB43u},
        {256, 0x31AE646AFBA70308u}, {1000, 0x498F889AC054D2D8u},
    };
    char bytes[1000];

    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)i;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        CHECK_U64("as CPython's", str_hash(str_of(bytes, cases[i].len), 0), cases[i].want);
}

/* One changed bit of key or seed changes each bit of the hash about half the time. */
TEST(the_hash_avalanches)
{
    char key[26] = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    uint64_t plain = str_hash(str_of(key, sizeof key), 99);
    int flips[64] = {0}, trials = 0;

    for (size_t bit = 0; bit < sizeof key * 8 + 64; bit++, trials++) {
        uint64_t seed = 99, change;
        if (bit < sizeof key * 8)
            key[bit / 8] ^= (char)BIT(bit % 8);
        else
            seed ^= 1ull << (bit - sizeof key * 8);
        change = str_hash(str_of(key, sizeof key), seed) ^ plain;
        if (bit < sizeof key * 8) key[bit / 8] ^= (char)BIT(bit % 8);
        int changed = __builtin_popcountll(change);
        CHECK("about half the bits", changed > 12 && changed < 52);
        for (int i = 0; i < 64; i++) flips[i] += (int)(change >> i & 1);
    }
    for (int i = 0; i < 64; i++)
        CHECK("each bit about half the time", flips[i] > trials / 4 && flips[i] < trials * 3 / 4);
}
