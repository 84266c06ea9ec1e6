/* SPDX-License-Identifier: Apache-2.0 */
#include "model/metadata.h"

#include <math.h>
#include <stdio.h>

#include "lib/comma_locale.h"
#include "lib/test.h"

#define ASSIGNED "bigfleet.lucy.sh/assigned-"

static struct arena arena;

static void check_pair(const struct label *pair, const char *key, struct str value)
{
    CHECK_STR(key, pair->key, str_from(key));
    CHECK_STR(key, pair->value, value);
}

TEST(five_keys_are_always_written)
{
    struct machine_metadata m = {
        .stamp = {-7, 8192, (double)INFINITY, STR("p=1|ipb=0"), STR("ns\0gang")}};
    struct label pairs[METADATA_MAX];
    size_t count = 0;

    arena_init(&arena, 4096);
    CHECK_OK("written", metadata_encode(&arena, &m, pairs, &count));
    CHECK_SIZE("five", count, 5);
    check_pair(&pairs[0], ASSIGNED "group", STR("ns\0gang"));
    check_pair(&pairs[1], ASSIGNED "interruption-penalty-dollars", STR("8192"));
    check_pair(&pairs[2], ASSIGNED "need-fingerprint", STR("p=1|ipb=0"));
    check_pair(&pairs[3], ASSIGNED "priority", STR("-7"));
    check_pair(&pairs[4], ASSIGNED "reclamation-penalty-dollars", STR("+Inf"));
    m = (struct machine_metadata){0};
    CHECK_OK("also of nothing", metadata_encode(&arena, &m, pairs, &count));
    CHECK_SIZE("five", count, 5);
    check_pair(&pairs[0], ASSIGNED "group", STR_EMPTY);
    check_pair(&pairs[1], ASSIGNED "interruption-penalty-dollars", STR("0"));
    check_pair(&pairs[3], ASSIGNED "priority", STR("0"));
    arena_deinit(&arena);
}

TEST(own_fields_are_written_when_they_are_set)
{
    struct machine_metadata m = {
        .destination = STR("east"),
        .promised = {STR("west"), STR("p=9"), STR("g"), 9, {1763250000123}}};
    struct machine_metadata back = {0};
    struct label pairs[METADATA_MAX];
    size_t count = 0;

    arena_init(&arena, 4096);
    CHECK_OK("written", metadata_encode(&arena, &m, pairs, &count));
    CHECK_SIZE("all", count, METADATA_MAX);
    check_pair(&pairs[5], "muster/destination-cluster", STR("east"));
    check_pair(&pairs[6], "muster/promised-at-unix-ms", STR("1763250000123"));
    check_pair(&pairs[7], "muster/promised-cluster", STR("west"));
    check_pair(&pairs[8], "muster/promised-fingerprint", STR("p=9"));
    check_pair(&pairs[9], "muster/promised-group", STR("g"));
    check_pair(&pairs[10], "muster/promised-priority", STR("9"));
    for (size_t i = 1; i < count; i++)
        CHECK("by key", str_compare(pairs[i - 1].key, pairs[i].key) < 0);
    CHECK_OK("read", metadata_decode(pairs, count, &back, NULL));
    CHECK_STR("destination", back.destination, STR("east"));
    CHECK_STR("cluster", back.promised.cluster, STR("west"));
    CHECK_STR("fingerprint", back.promised.fingerprint, STR("p=9"));
    CHECK_STR("group", back.promised.group, STR("g"));
    CHECK_I64("priority", back.promised.priority, 9);
    CHECK_U64("time", back.promised.at.ms, 1763250000123);
    m.promised.cluster = STR_EMPTY;
    CHECK_OK("no promise", metadata_encode(&arena, &m, pairs, &count));
    CHECK_SIZE("only the destination", count, 6);
    arena_deinit(&arena);
}

/* As strconv.FormatFloat(value, 'g', -1, 64) prints them. */
const struct {
    double value;
    const char *text;
} reals[] = {
    {0, "0"},
    {0.5, "0.5"},
    {1, "1"},
    {10, "10"},
    {1024, "1024"},
    {100000, "100000"},
    {524288, "524288"},
    {999999, "999999"},
    {1000000, "1e+06"},
    {1048576, "1.048576e+06"},
    {8388608, "8.388608e+06"},
    {123456789, "1.23456789e+08"},
    {1e20, "1e+20"},
    {1e21, "1e+21"},
    {0.1, "0.1"},
    {0.3, "0.3"},
    {1.25, "1.25"},
    {12345.678, "12345.678"},
    {0.0001, "0.0001"},
    {0.00012, "0.00012"},
    {0.00001, "1e-05"},
    {1.5e-7, "1.5e-07"},
    {5e-324, "5e-324"},
    {2.2250738585072014e-308, "2.2250738585072014e-308"},
    {1.7976931348623157e308, "1.7976931348623157e+308"},
    {9007199254740992, "9.007199254740992e+15"},
    {0x1p-44, "5.684341886080802e-14"},
    {0x1p-1074, "5e-324"},
    {0x1p89, "6.189700196426902e+26"},
    {0x1p+122, "5.316911983139664e+36"},
};

TEST(reals_are_printed_as_go_prints_them)
{
    arena_init(&arena, 1 << 16);
    for (size_t i = 0; i < ARRAY_LEN(reals); i++) {
        struct machine_metadata m = {.stamp.interruption_dollars = reals[i].value}, back = {0};
        struct label pairs[METADATA_MAX];
        size_t count;
        CHECK_OK(reals[i].text, metadata_encode(&arena, &m, pairs, &count));
        CHECK_STR(reals[i].text, pairs[1].value, str_from(reals[i].text));
        CHECK_OK(reals[i].text, metadata_decode(pairs, count, &back, NULL));
        CHECK(reals[i].text, back.stamp.interruption_dollars == reals[i].value);
    }
    arena_deinit(&arena);
}

TEST(no_locale_changes_them)
{
    struct machine_metadata m = {.stamp.interruption_dollars = 12345.678}, back = {0};
    struct label pairs[METADATA_MAX];
    size_t count;

    comma_locale_enter();
    arena_init(&arena, 4096);
    CHECK_OK("written", metadata_encode(&arena, &m, pairs, &count));
    CHECK_STR("with a point", pairs[1].value, STR("12345.678"));
    CHECK_OK("read", metadata_decode(pairs, count, &back, NULL));
    CHECK("the same", back.stamp.interruption_dollars == 12345.678);
    arena_deinit(&arena);
    comma_locale_leave();
}

TEST(the_reader_accepts_what_go_accepts)
{
    static const struct {
        const char *text;
        bool good;
        double value;
    } cases[] = {
        {"8192", true, 8192},
        {"+8192", true, 8192},
        {"1.5", true, 1.5},
        {".5", true, 0.5},
        {"5.", true, 5},
        {"1e3", true, 1000},
        {"1E+03", true, 1000},
        {"1e-3", true, 0.001},
        {"0.1", true, 0.1},
        {"00012.50", true, 12.5},
        {"1e-400", true, 0},
        {"0e999", true, 0},
        {"Inf", true, HUGE_VAL},
        {"+Inf", true, HUGE_VAL},
        {"infinity", true, HUGE_VAL},
        {"123456789012345678901234567890", true, 123456789012345678901234567890.0},
        {"", false, 0},
        {"+", false, 0},
        {".", false, 0},
        {"-1", false, 0},
        {"-0", false, 0},
        {"-Inf", false, 0},
        {"NaN", false, 0},
        {"1e", false, 0},
        {"1e+", false, 0},
        {"1e+-3", false, 0},
        {"1e400", false, 0},
        {"1e99999", false, 0},
        {"1.2.3", false, 0},
        {"1,5", false, 0},
        {" 1", false, 0},
        {"1 ", false, 0},
        {"0x10", false, 0},
        {"1_0", false, 0},
        {"abc", false, 0},
        {"e5", false, 0},
        {"12345678901234567890123456789012345678901234567890123456789012345", false, 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct label pair = {STR(ASSIGNED "reclamation-penalty-dollars"), str_from(cases[i].text)};
        struct machine_metadata m = {.stamp.reclamation_dollars = 77};
        CHECK_ERR(cases[i].text, metadata_decode(&pair, 1, &m, NULL),
                  cases[i].good ? ERR_OK : ERR_PARSE);
        CHECK(cases[i].text, m.stamp.reclamation_dollars == (cases[i].good ? cases[i].value : 77));
    }
}

TEST(each_key_is_read_for_itself)
{
    struct label pairs[] = {
        {STR(ASSIGNED "priority"), STR("12x")},
        {STR(ASSIGNED "interruption-penalty-dollars"), STR("64")},
        {STR("somebody/else"), STR("\xFF")},
        {STR(ASSIGNED "reclamation-penalty-dollars"), STR("NaN")},
        {STR(ASSIGNED "group"), STR("g\0")},
    };
    struct machine_metadata m = {.stamp = {5, 1, 2, STR("kept"), STR("old")}};
    struct note note = {"old text"};

    CHECK_ERR("two are bad", metadata_decode(pairs, 5, &m, &note), ERR_PARSE);
    CHECK_TEXT("both are named in one note", note.text,
               ASSIGNED "priority: unreadable; " ASSIGNED
                        "reclamation-penalty-dollars: unreadable");
    CHECK_I64("bad: as it was", m.stamp.priority, 5);
    CHECK("good: read", m.stamp.interruption_dollars == 64);
    CHECK("bad: as it was", m.stamp.reclamation_dollars == 2);
    CHECK_STR("absent: as it was", m.stamp.fingerprint, STR("kept"));
    CHECK_STR("any byte in a group", m.stamp.group, STR("g\0"));
    CHECK_OK("none at all", metadata_decode(NULL, 0, &m, &note));
    CHECK_TEXT("without a reason", note.text, "");
    CHECK_OK("without a note", metadata_decode(pairs + 1, 1, &m, NULL));
    CHECK_ERR("without a note", metadata_decode(pairs, 5, &m, NULL), ERR_PARSE);
}

TEST(m1_to_m4_of_the_wire)
{
    const struct machine_metadata sent = {
        .stamp = {900000, 8192, 0.5, STR("fp-abc"), STR("rack\0gang-7")}};
    struct machine_metadata m = {0}, set = {.stamp = {.priority = 42, .interruption_dollars = 7}};
    struct label pairs[METADATA_MAX], unknown = {STR("somebody/else"), STR("x")};
    struct label bad[] = {{STR(ASSIGNED "priority"), STR("not-a-number")},
                          {STR(ASSIGNED "interruption-penalty-dollars"), STR("64")},
                          {STR(ASSIGNED "need-fingerprint"), STR("fp-1")}};
    struct note note = {""};
    size_t count;

    arena_init(&arena, 4096);
    CHECK_OK("M1", metadata_encode(&arena, &sent, pairs, &count));
    CHECK_OK("M1", metadata_decode(pairs, count, &m, &note));
    CHECK_I64("M1: priority", m.stamp.priority, 900000);
    CHECK("M1: penalties",
          m.stamp.interruption_dollars == 8192 && m.stamp.reclamation_dollars == 0.5);
    CHECK_STR("M1: fingerprint", m.stamp.fingerprint, STR("fp-abc"));
    CHECK_STR("M1: group", m.stamp.group, STR("rack\0gang-7"));
    CHECK_OK("M2", metadata_decode(&unknown, 1, &set, &note));
    CHECK("M2: as it was", set.stamp.priority == 42 && set.stamp.interruption_dollars == 7);
    m = (struct machine_metadata){0};
    CHECK_ERR("M3", metadata_decode(bad, 3, &m, &note), ERR_PARSE);
    CHECK_HAS("M3: named", note.text, ASSIGNED "priority");
    CHECK("M3: the others", m.stamp.priority == 0 && m.stamp.interruption_dollars == 64);
    CHECK_STR("M3: the others", m.stamp.fingerprint, STR("fp-1"));
    CHECK_OK("M4", metadata_decode(NULL, 0, &set, &note));
    CHECK("M4: as it was", set.stamp.priority == 42 && set.stamp.interruption_dollars == 7);
    arena_deinit(&arena);
}

TEST(hostile_metadata)
{
    static char big[1 << 17];
    static struct label flood[METADATA_READ_MAX + 1];
    static const struct {
        const char *why, *key;
        struct str value;
        bool good;
    } cases[] = {
        {"priority", ASSIGNED "priority", {"-2147483648", 11}, true},
        {"with a plus", ASSIGNED "priority", {"+5", 2}, true},
        {"past 32 bits", ASSIGNED "priority", {"2147483648", 10}, false},
        {"far past", ASSIGNED "priority", {"-99999999999999999999", 21}, false},
        {"plus minus", ASSIGNED "priority", {"+-5", 3}, false},
        {"empty", ASSIGNED "priority", {"", 0}, false},
        {"a fingerprint of 64 KiB", ASSIGNED "need-fingerprint", {big, 1 << 16}, true},
        {"longer", ASSIGNED "need-fingerprint", {big, (1 << 16) + 1}, false},
        {"with control characters", ASSIGNED "need-fingerprint", {"a\n", 2}, false},
        {"a long group", ASSIGNED "group", {big, GROUP_MAX + 1}, false},
        {"a long cluster", "muster/destination-cluster", {big, ID_MAX + 1}, false},
        {"a time", "muster/promised-at-unix-ms", {"18446744073709551615", 20}, true},
        {"a negative time", "muster/promised-at-unix-ms", {"-1", 2}, false},
    };

    memset(big, 'x', sizeof big);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct label pair = {str_from(cases[i].key), cases[i].value};
        struct machine_metadata m = {0};
        CHECK_ERR(cases[i].why, metadata_decode(&pair, 1, &m, NULL),
                  cases[i].good ? ERR_OK : ERR_PARSE);
    }
    struct label twice[] = {{STR(ASSIGNED "priority"), STR("1")},
                            {STR(ASSIGNED "priority"), STR("2")}};
    struct machine_metadata m = {0};
    struct note note;
    CHECK_ERR("a key twice", metadata_decode(twice, 2, &m, &note), ERR_PARSE);
    CHECK_TEXT("noted", note.text, ASSIGNED "priority: given twice");
    CHECK_I64("the first counts", m.stamp.priority, 1);
    for (size_t i = 0; i < ARRAY_LEN(flood); i++) flood[i] = (struct label){STR("x"), STR("y")};
    CHECK_OK("256 entries", metadata_decode(flood, METADATA_READ_MAX, &m, NULL));
    CHECK_ERR("257", metadata_decode(flood, METADATA_READ_MAX + 1, &m, &note), ERR_TOO_LARGE);
    CHECK_TEXT("noted", note.text, "shard_metadata: 257 entries, at most 256 are allowed");
}

TEST(an_allocation_failure_is_reported)
{
    struct machine_metadata m = {.stamp.priority = 1};
    struct label pairs[METADATA_MAX];
    size_t count = 99;

    arena_init(&arena, 8);
    CHECK_ERR("no room", metadata_encode(&arena, &m, pairs, &count), ERR_NOMEM);
    CHECK_SIZE("untouched", count, 99);
    arena_deinit(&arena);
}
