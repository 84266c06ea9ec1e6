/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/option.h"

#include <string.h>

#include "lib/option_table.h"
#include "lib/test.h"
#include "table.h"

TEST(one_name_has_one_spelling_in_each_source)
{
    static const struct {
        const char *name, *flag, *variable, *section, *key;
    } cases[] = {
        {"listen", "--listen", "MUSTER_LISTEN", "", "listen"},
        {"http.listen", "--http-listen", "MUSTER_HTTP_LISTEN", "http", "listen"},
        {"http.connections-max", "--http-connections-max", "MUSTER_HTTP_CONNECTIONS_MAX", "http",
         "connections-max"},
        {"a.b.c2", "--a-b-c2", "MUSTER_A_B_C2", "a.b", "c2"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct option option = {.name = cases[i].name};
        char text[OPTION_NAME_CAP];
        option_flag_name(&option, text);
        CHECK_TEXT("flag", text, cases[i].flag);
        option_environment_name(&option, text);
        CHECK_TEXT("environment", text, cases[i].variable);
        CHECK_STR("section", option_section(&option), str_from(cases[i].section));
        CHECK_STR("key", option_key(&option), str_from(cases[i].key));
    }
}

TEST(the_table_of_these_tests_is_valid)
{
    struct note note = {""};
    CHECK(note.text, option_table_valid(&test_table, &note));
    CHECK_TEXT("and gives no message", note.text, "");
}

static const char *const some[] = {"x", NULL};
#define BOOL_NAMED(n)                                                                              \
    {                                                                                              \
        .name = n, .kind = OPTION_BOOL, .help = "h"                                                \
    }
static const struct {
    const char *why;
    struct option options[3];
    size_t count;
} bad_tables[] = {
    {"upper case", {BOOL_NAMED("Listen")}, 1},
    {"ends with an underscore", {BOOL_NAMED("a_")}, 1},
    {"a joint behind an underscore", {BOOL_NAMED("a_-b")}, 1},
    {"alike but for the joint", {BOOL_NAMED("a_b"), BOOL_NAMED("a-b")}, 2},
    {"empty", {BOOL_NAMED("")}, 1},
    {"no name", {{.kind = OPTION_BOOL, .help = "h"}}, 1},
    {"an empty part", {BOOL_NAMED("a..b")}, 1},
    {"ends with a joint", {BOOL_NAMED("a-")}, 1},
    {"begins with a joint", {BOOL_NAMED("-a")}, 1},
    {"two joints", {BOOL_NAMED("a--b")}, 1},
    {"begins with a digit", {BOOL_NAMED("1a")}, 1},
    {"too long for its spellings",
     {BOOL_NAMED("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")},
     1},
    {"no help", {{.name = "a", .kind = OPTION_BOOL}}, 1},
    {"twice", {BOOL_NAMED("a"), BOOL_NAMED("a")}, 2},
    {"one more spelling for two",
     {{.name = "a", .kind = OPTION_BOOL, .help = "h", .also = "-x"},
      {.name = "b", .kind = OPTION_BOOL, .help = "h", .also = "-x"}},
     2},
    {"the spelling of another",
     {{.name = "a", .kind = OPTION_BOOL, .help = "h", .also = "--b"}, BOOL_NAMED("b")},
     2},
    {"alike in the environment", {BOOL_NAMED("a-b"), BOOL_NAMED("a.b")}, 2},
    {"takes the place of a negation", {BOOL_NAMED("color"), BOOL_NAMED("no-color")}, 2},
    {"a section in two places", {BOOL_NAMED("a.x"), BOOL_NAMED("b.x"), BOOL_NAMED("a.y")}, 3},
    {"no section after a section", {BOOL_NAMED("a.x"), BOOL_NAMED("b")}, 2},
    {"an enum without choices", {{.name = "a", .kind = OPTION_ENUM, .help = "h"}}, 1},
    {"choices without an enum",
     {{.name = "a", .kind = OPTION_STRING, .choices = some, .help = "h"}},
     1},
    {"a default that does not parse",
     {{.name = "a", .kind = OPTION_DURATION, .fallback = "10", .help = "h"}},
     1},
    {"a default out of bounds",
     {{.name = "a", .kind = OPTION_U64, .min = 5, .fallback = "4", .help = "h"}},
     1},
    {"an example that does not parse",
     {{.name = "a", .kind = OPTION_SIZE, .example = "1KB", .help = "h"}},
     1},
    {"required, with a default",
     {{.name = "a", .kind = OPTION_STRING, .flags = OPTION_REQUIRED, .fallback = "x", .help = "h"}},
     1},
};
TEST(a_table_that_breaks_a_rule_is_found_out)
{
    for (size_t i = 0; i < ARRAY_LEN(bad_tables); i++) {
        struct option_table table = {bad_tables[i].options, bad_tables[i].count};
        struct note note = {""};
        CHECK(bad_tables[i].why, !option_table_valid(&table, &note));
        CHECK("the note has the reason", note.text[0] != '\0');
    }
}

static const struct option kinds[] = {
    [OPTION_STRING] = {.name = "s", .kind = OPTION_STRING},
    [OPTION_U64] = {.name = "u", .kind = OPTION_U64, .min = 3, .max = 9},
    [OPTION_DURATION] = {.name = "d", .kind = OPTION_DURATION, .min = 100, .max = 60000},
    [OPTION_SIZE] = {.name = "z", .kind = OPTION_SIZE, .min = 4096},
    [OPTION_DECIMAL] = {.name = "f", .kind = OPTION_DECIMAL, .max = 2000000},
    [OPTION_BOOL] = {.name = "b", .kind = OPTION_BOOL},
    [OPTION_ADDRESS] = {.name = "a", .kind = OPTION_ADDRESS},
    [OPTION_ENUM] = {.name = "e", .kind = OPTION_ENUM, .choices = test_levels},
    [OPTION_LIST] = {.name = "l", .kind = OPTION_LIST},
};
/* want: the printed TOML, or a part of the note */
static const struct {
    const char *why;
    enum option_kind kind;
    const char *text;
    enum err err;
    const char *want;
} values[] = {
    {"a string is what it is", OPTION_STRING, "a b", ERR_OK, "\"a b\""},
    {"an empty string is a string", OPTION_STRING, "", ERR_OK, "\"\""},
    {"what TOML escapes", OPTION_STRING, "a\"b\\c\td\x7f", ERR_OK,
     "\"a\\\"b\\\\c\\u0009d\\u007F\""},
    {"what steers a terminal", OPTION_STRING, "a\xc2\x9b\xe2\x80\xae!", ERR_OK,
     "\"a\\u009B\\u202E!\""},
    {"letters of the world", OPTION_STRING, "K\xc3\xb6ln", ERR_OK, "\"K\xc3\xb6ln\""},
    {"not UTF-8", OPTION_STRING, "K\xf6ln", ERR_PARSE, "UTF-8"},
    {"at the lower bound", OPTION_U64, "3", ERR_OK, "3"},
    {"at the upper bound", OPTION_U64, "9", ERR_OK, "9"},
    {"below", OPTION_U64, "2", ERR_INVALID, "between 3 and 9, got 2"},
    {"above", OPTION_U64, "10", ERR_INVALID, "between 3 and 9, got 10"},
    {"no number", OPTION_U64, "three", ERR_PARSE, "whole number"},
    {"past 64 bits", OPTION_U64, "99999999999999999999", ERR_TOO_LARGE, "64 bits"},
    {"a duration", OPTION_DURATION, "1000ms", ERR_OK, "\"1s\""},
    {"a short one", OPTION_DURATION, "99ms", ERR_INVALID, "between 100ms and 1m, got 99ms"},
    {"a long one", OPTION_DURATION, "1h", ERR_INVALID, "got 1h"},
    {"a size", OPTION_SIZE, "4096", ERR_OK, "\"4KiB\""},
    {"a small one", OPTION_SIZE, "4095", ERR_INVALID, "at least 4KiB, got 4095B"},
    {"a decimal", OPTION_DECIMAL, "0.05", ERR_OK, "0.05"},
    {"without a point", OPTION_DECIMAL, "2", ERR_OK, "2.0"},
    {"six digits", OPTION_DECIMAL, "0.000001", ERR_OK, "0.000001"},
    {"seven", OPTION_DECIMAL, "0.0000001", ERR_PARSE, "six digits"},
    {"too much", OPTION_DECIMAL, "2.000001", ERR_INVALID, "between 0.0 and 2.0, got 2.000001"},
    {"below nothing", OPTION_DECIMAL, "-1", ERR_PARSE, "such as 0.05"},
    {"a point alone", OPTION_DECIMAL, ".", ERR_PARSE, "such as 0.05"},
    {"nothing behind it", OPTION_DECIMAL, "1.", ERR_PARSE, "such as 0.05"},
    {"an exponent", OPTION_DECIMAL, "1e3", ERR_PARSE, "such as 0.05"},
    {"past 64 bits", OPTION_DECIMAL, "18446744073710", ERR_TOO_LARGE, "64 bits"},
    {"yes", OPTION_BOOL, "yes", ERR_OK, "true"},
    {"on", OPTION_BOOL, "on", ERR_OK, "true"},
    {"one", OPTION_BOOL, "1", ERR_OK, "true"},
    {"off", OPTION_BOOL, "off", ERR_OK, "false"},
    {"no truth", OPTION_BOOL, "maybe", ERR_PARSE, "true or false"},
    {"empty is no truth", OPTION_BOOL, "", ERR_PARSE, "true or false"},
    {"nowhere is no address", OPTION_ADDRESS, "0", ERR_PARSE, "address"},
    {"a numeric address", OPTION_ADDRESS, "127.0.0.1:0", ERR_OK, "\"127.0.0.1:0\""},
    {"a name", OPTION_ADDRESS, "node-1.example:65535", ERR_OK, "\"node-1.example:65535\""},
    {"six", OPTION_ADDRESS, "[::1]:80", ERR_OK, "\"[::1]:80\""},
    {"a path", OPTION_ADDRESS, "unix:/run/x", ERR_OK, "\"unix:/run/x\""},
    {"no path", OPTION_ADDRESS, "unix:", ERR_PARSE, "path"},
    {"no port", OPTION_ADDRESS, "localhost", ERR_PARSE, "address"},
    {"no host", OPTION_ADDRESS, ":80", ERR_PARSE, "address"},
    {"six without brackets", OPTION_ADDRESS, "::1:80", ERR_PARSE, "address"},
    {"brackets around nothing", OPTION_ADDRESS, "[]:80", ERR_PARSE, "address"},
    {"a port that is none", OPTION_ADDRESS, "h:http", ERR_PARSE, "address"},
    {"an empty port", OPTION_ADDRESS, "h:", ERR_PARSE, "address"},
    {"a port too high", OPTION_ADDRESS, "h:65536", ERR_INVALID, "past 65535"},
    {"a whole URL", OPTION_ADDRESS, "http://h:80", ERR_PARSE, "address"},
    {"a blank", OPTION_ADDRESS, "h h:80", ERR_PARSE, "address"},
    {"a choice", OPTION_ENUM, "warn", ERR_OK, "\"warn\""},
    {"no choice", OPTION_ENUM, "Warn", ERR_INVALID, "debug, info, warn, error"},
    {"a list", OPTION_LIST, "a, b ,c", ERR_OK, "[\"a\", \"b\", \"c\"]"},
    {"an empty list", OPTION_LIST, "", ERR_OK, "[]"},
    {"an empty item", OPTION_LIST, "a,,b", ERR_PARSE, "item 2 is empty"},
    {"an empty last item", OPTION_LIST, "a,", ERR_PARSE, "item 2 is empty"},
};
TEST(a_listener_that_may_be_off_is_off_at_0_and_nowhere_else)
{
    struct option option = {.name = "a", .kind = OPTION_ADDRESS, .flags = OPTION_OFF};
    struct option_value value;
    struct arena arena;

    arena_init(&arena, 4096);
    CHECK_OK("0", option_parse(&option, STR("0"), &arena, &value, NULL));
    CHECK("is off", option_address_off(value.text.at));
    CHECK_OK("port 0", option_parse(&option, STR("h:0"), &arena, &value, NULL));
    CHECK("is not", !option_address_off(value.text.at));
    CHECK_ERR("00", option_parse(&option, STR("00"), &arena, &value, NULL), ERR_PARSE);
    arena_deinit(&arena);
}

TEST(a_listener_without_a_host_listens_everywhere)
{
    struct option option = {.name = "a", .kind = OPTION_ADDRESS, .flags = OPTION_LISTEN};
    struct option_value value;
    struct arena arena;

    arena_init(&arena, 4096);
    CHECK_OK(":7790", option_parse(&option, STR(":7790"), &arena, &value, NULL));
    CHECK_STR("every interface", value.text, STR("0.0.0.0:7790"));
    CHECK_OK("with a host", option_parse(&option, STR("h:1"), &arena, &value, NULL));
    CHECK_STR("as it is", value.text, STR("h:1"));
    CHECK_ERR("no port", option_parse(&option, STR(":"), &arena, &value, NULL), ERR_PARSE);
    option.flags = 0;
    CHECK_ERR("an address to dial needs a host",
              option_parse(&option, STR(":1"), &arena, &value, NULL), ERR_PARSE);
    arena_deinit(&arena);
}

TEST(values_are_read_checked_and_printed)
{
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        const struct option *option = &kinds[values[i].kind];
        struct option_value value = {.number = 77};
        struct note note = {""};
        struct arena arena;
        struct buf out;
        arena_init(&arena, 65536);
        buf_init(&out, 1000);
        CHECK_ERR(values[i].why,
                  option_parse(option, str_from(values[i].text), &arena, &value, &note),
                  values[i].err);
        if (values[i].err) {
            CHECK_HAS(values[i].why, note.text, values[i].want);
            CHECK_U64("the output is untouched", value.number, 77);
        } else {
            CHECK_OK(values[i].why, option_format(option, &value, &out));
            CHECK_STR(values[i].why, buf_peek(&out), str_from(values[i].want));
            CHECK("equal to itself", option_value_equal(option, &value, &value));
        }
        buf_deinit(&out);
        arena_deinit(&arena);
    }
}

TEST(text_and_lists_have_a_ceiling)
{
    static char text[OPTION_TEXT_MAX + 2];
    struct option_value value;
    struct arena arena;
    struct note note = {""};
    arena_init(&arena, 1 << 20);
    memset(text, 'x', sizeof text);
    CHECK_OK("the longest", option_parse(&kinds[OPTION_STRING], str_of(text, OPTION_TEXT_MAX),
                                         &arena, &value, &note));
    CHECK_ERR("one more",
              option_parse(&kinds[OPTION_STRING], str_of(text, OPTION_TEXT_MAX + 1), &arena, &value,
                           &note),
              ERR_TOO_LARGE);
    for (size_t i = 0; i < 2 * OPTION_LIST_MAX + 2; i++) text[i] = i % 2 ? ',' : 'x';
    CHECK_OK("the most items",
             option_parse(&kinds[OPTION_LIST], str_of(text, 2 * OPTION_LIST_MAX - 1), &arena,
                          &value, &note));
    CHECK_SIZE("all there", value.item_count, OPTION_LIST_MAX);
    CHECK_ERR("one more",
              option_parse(&kinds[OPTION_LIST], str_of(text, 2 * OPTION_LIST_MAX + 1), &arena,
                           &value, &note),
              ERR_TOO_LARGE);
    CHECK_ERR("NUL has no place in a value",
              option_parse(&kinds[OPTION_STRING], STR("a\0b"), &arena, &value, &note), ERR_PARSE);
    arena_deinit(&arena);
}

TEST(values_differ_when_any_part_does)
{
    struct option_value a, b;
    struct arena arena;
    arena_init(&arena, 65536);
    static const struct {
        enum option_kind kind;
        const char *a, *b;
        bool want;
    } pairs[] = {
        {OPTION_LIST, "a,b", "a,b", true},    {OPTION_LIST, "a,b", "a,c", false},
        {OPTION_LIST, "a", "a,b", false},     {OPTION_DURATION, "60s", "1m", true},
        {OPTION_STRING, "a", "b", false},     {OPTION_BOOL, "yes", "true", true},
        {OPTION_ENUM, "warn", "info", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        const struct option *option = &kinds[pairs[i].kind];
        CHECK_OK("a", option_parse(option, str_from(pairs[i].a), &arena, &a, NULL));
        CHECK_OK("b", option_parse(option, str_from(pairs[i].b), &arena, &b, NULL));
        CHECK(pairs[i].a, option_value_equal(option, &a, &b) == pairs[i].want);
    }
    arena_deinit(&arena);
}
