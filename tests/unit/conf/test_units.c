/* SPDX-License-Identifier: Apache-2.0 */
#include "base/prng.h"
#include "conf/units.h"
#include "lib/test.h"

struct unit_case {
    const char *why, *text;
    enum err err;
    uint64_t want;
};

static const struct unit_case durations[] = {
    {"milliseconds", "250ms", ERR_OK, 250},
    {"seconds", "10s", ERR_OK, 10000},
    {"minutes", "5m", ERR_OK, 300000},
    {"hours", "1h", ERR_OK, 3600000},
    {"days", "2d", ERR_OK, 172800000},
    {"joined, largest first", "1d2h3m4s5ms", ERR_OK, 93784005},
    {"a part may be left out", "1h5ms", ERR_OK, 3600005},
    {"a blank between two parts", "1m 30s", ERR_OK, 90000},
    {"two blanks", "1m  30s", ERR_PARSE, 0},
    {"a blank at the end", "10s ", ERR_PARSE, 0},
    {"nothing needs no unit", "0", ERR_OK, 0},
    {"nothing with a unit", "0s", ERR_OK, 0},
    {"the most that fits", "18446744073709551615ms", ERR_OK, UINT64_MAX},
    {"one more", "18446744073709551616ms", ERR_TOO_LARGE, 0},
    {"too many seconds", "18446744073709551615s", ERR_TOO_LARGE, 0},
    {"a sum that wraps", "18446744073709551s999ms", ERR_TOO_LARGE, 0},
    {"a sum that just fits", "18446744073709551s615ms", ERR_OK, UINT64_MAX},
    {"too many days", "213503982335d", ERR_TOO_LARGE, 0},
    {"no unit", "10", ERR_PARSE, 0},
    {"no unit at the end", "1m30", ERR_PARSE, 0},
    {"an unknown unit", "10us", ERR_PARSE, 0},
    {"upper case is another unit", "10S", ERR_PARSE, 0},
    {"a wrong order", "30s1m", ERR_PARSE, 0},
    {"the same unit twice", "1s1s", ERR_PARSE, 0},
    {"a sign", "-1s", ERR_PARSE, 0},
    {"a fraction", "1.5s", ERR_PARSE, 0},
    {"a blank inside", "10 s", ERR_PARSE, 0},
    {"a blank in front", " 10s", ERR_PARSE, 0},
    {"only a unit", "s", ERR_PARSE, 0},
    {"empty", "", ERR_PARSE, 0},
};
static const struct unit_case sizes[] = {
    {"bytes", "512", ERR_OK, 512},
    {"bytes, said", "512B", ERR_OK, 512},
    {"kibibytes", "64KiB", ERR_OK, 65536},
    {"mebibytes", "16MiB", ERR_OK, 16777216},
    {"gibibytes", "2GiB", ERR_OK, 2147483648},
    {"tebibytes", "1TiB", ERR_OK, 1099511627776},
    {"nothing", "0", ERR_OK, 0},
    {"the most that fits", "18446744073709551615", ERR_OK, UINT64_MAX},
    {"one more", "18446744073709551616", ERR_TOO_LARGE, 0},
    {"the most tebibytes", "16777215TiB", ERR_OK, 18446742974197923840u},
    {"one more of those", "16777216TiB", ERR_TOO_LARGE, 0},
    {"two meanings", "64KB", ERR_PARSE, 0},
    {"a letter only", "64k", ERR_PARSE, 0},
    {"not joined", "1GiB512MiB", ERR_PARSE, 0},
    {"a sign", "-1", ERR_PARSE, 0},
    {"a fraction", "1.5GiB", ERR_PARSE, 0},
    {"a blank", "64 KiB", ERR_PARSE, 0},
    {"only a unit", "KiB", ERR_PARSE, 0},
    {"empty", "", ERR_PARSE, 0},
};

static void check_cases(const struct unit_case *cases, size_t count,
                        enum err parse(struct str, uint64_t *, struct note *))
{
    for (size_t i = 0; i < count; i++) {
        uint64_t got = 77;
        struct note note = {""};
        CHECK_ERR(cases[i].why, parse(str_from(cases[i].text), &got, &note), cases[i].err);
        CHECK_U64(cases[i].why, got, cases[i].err ? 77 : cases[i].want);
        CHECK("a refusal has a reason", (cases[i].err == ERR_OK) == (note.text[0] == '\0'));
        CHECK_ERR("without a note too", parse(str_from(cases[i].text), &got, NULL), cases[i].err);
    }
}
TEST(durations_are_read)
{
    check_cases(durations, ARRAY_LEN(durations), units_parse_duration);
}
TEST(sizes_are_read)
{
    check_cases(sizes, ARRAY_LEN(sizes), units_parse_size);
}

TEST(a_refusal_teaches)
{
    struct note note;
    uint64_t got;
    units_parse_duration(STR("10"), &got, &note);
    CHECK_HAS("names the right forms of the same number", note.text, "such as 10ms, 10s or 10m");
    units_parse_size(STR("64KB"), &got, &note);
    CHECK_HAS("names the unit that was meant", note.text, "did you mean 64KiB?");
    units_parse_size(STR("3g"), &got, &note);
    CHECK_HAS("from a letter too", note.text, "did you mean 3GiB?");
    units_parse_size(STR("many"), &got, &note);
    CHECK_HAS("else by example", note.text, "64KiB");
}

static const struct {
    uint64_t number;
    const char *duration, *size;
} texts[] = {
    {0, "0s", "0B"},
    {999, "999ms", "999B"},
    {1000, "1s", "1000B"},
    {1024, "1s24ms", "1KiB"},
    {90000, "1m30s", "90000B"},
    {86400000, "1d", "84375KiB"},
    {1ull << 30, "12d10h15m41s824ms", "1GiB"},
    {UINT64_MAX, "213503982334d14h25m51s615ms", "18446744073709551615B"},
};
TEST(texts_are_the_shortest_exact_form)
{
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        char text[UNITS_TEXT_CAP];
        units_duration_text(texts[i].number, text);
        CHECK_TEXT("duration", text, texts[i].duration);
        units_size_text(texts[i].number, text);
        CHECK_TEXT("size", text, texts[i].size);
    }
}

TEST(what_is_printed_is_read_back)
{
    struct prng prng;
    prng_seed(&prng, test_seed());
    for (int i = 0; i < 20000; i++) {
        uint64_t number = prng_u64(&prng) >> prng_below(&prng, 64), got = 0;
        char text[UNITS_TEXT_CAP];
        units_duration_text(number, text);
        CHECK_OK(text, units_parse_duration(str_from(text), &got, NULL));
        CHECK_U64(text, got, number);
        units_size_text(number, text);
        CHECK_OK(text, units_parse_size(str_from(text), &got, NULL));
        CHECK_U64(text, got, number);
    }
}
