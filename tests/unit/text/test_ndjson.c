/* SPDX-License-Identifier: Apache-2.0 */
#include "text/ndjson.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "lib/test.h"

enum { ROOM = 1 << 16 };

static struct buf out;

static void begin(struct ndjson *w, enum ndjson_style style)
{
    buf_deinit(&out);
    buf_init(&out, ROOM);
    ndjson_begin(w, &out, style);
}

static void check_line(const char *why, struct ndjson *w, const char *want)
{
    CHECK_OK(why, ndjson_end(w));
    CHECK_STR(why, buf_peek(&out), str_from(want));
    buf_deinit(&out);
}

TEST(an_empty_record_is_an_empty_object)
{
    struct ndjson w;

    begin(&w, NDJSON_LINE);
    check_line("one line", &w, "{}\n");
    begin(&w, NDJSON_PRETTY);
    check_line("for people", &w, "{}\n");
}

TEST(every_kind_of_value_is_written)
{
    struct ndjson w;

    begin(&w, NDJSON_LINE);
    ndjson_string(&w, STR("s"), STR("text"));
    ndjson_c_string(&w, STR("c"), "text");
    ndjson_c_string(&w, STR("none"), NULL);
    ndjson_u64(&w, STR("u"), UINT64_MAX);
    ndjson_hex(&w, STR("h"), 0x1234567890abcdef);
    ndjson_hex(&w, STR("zero"), 0);
    ndjson_i64(&w, STR("i"), INT64_MIN);
    ndjson_double(&w, STR("d"), 0.25);
    ndjson_double(&w, STR("nan"), (double)NAN);
    ndjson_double(&w, STR("inf"), -(double)INFINITY);
    ndjson_bool(&w, STR("t"), true);
    ndjson_bool(&w, STR("f"), false);
    ndjson_null(&w, STR("n"));
    ndjson_raw(&w, STR("r"), STR("[1, 2]"));
    check_line("all kinds", &w,
               "{\"s\":\"text\",\"c\":\"text\",\"none\":null,\"u\":18446744073709551615,"
               "\"h\":\"1234567890abcdef\",\"zero\":\"0000000000000000\","
               "\"i\":-9223372036854775808,\"d\":0.25,\"nan\":null,\"inf\":null,\"t\":true,"
               "\"f\":false,\"n\":null,\"r\":[1, 2]}\n");
}

static void put_nested(struct ndjson *w)
{
    ndjson_open_object(w, STR("a"));
    ndjson_open_array(w, STR("b"));
    ndjson_u64(w, NDJSON_ITEM, 1);
    ndjson_open_object(w, NDJSON_ITEM);
    ndjson_close_object(w);
    ndjson_open_array(w, NDJSON_ITEM);
    ndjson_close_array(w);
    ndjson_string(w, NDJSON_ITEM, STR(""));
    ndjson_close_array(w);
    ndjson_close_object(w);
    ndjson_null(w, STR("c"));
}

TEST(objects_and_arrays_nest)
{
    struct ndjson w;

    begin(&w, NDJSON_LINE);
    put_nested(&w);
    check_line("one line", &w, "{\"a\":{\"b\":[1,{},[],\"\"]},\"c\":null}\n");
    begin(&w, NDJSON_PRETTY);
    put_nested(&w);
    check_line(
        "for people", &w,
        "{\n  \"a\": {\n    \"b\": [\n      1,\n      {},\n      [],\n      \"\"\n    ]\n  },\n"
        "  \"c\": null\n}\n");
}

TEST(a_record_may_be_any_one_value)
{
    struct ndjson w;

    buf_init(&out, ROOM);
    ndjson_begin_value(&w, &out, NDJSON_LINE);
    ndjson_u64(&w, NDJSON_ITEM, 7);
    check_line("a number", &w, "7\n");
    buf_init(&out, ROOM);
    ndjson_begin_value(&w, &out, NDJSON_PRETTY);
    ndjson_open_array(&w, NDJSON_ITEM);
    ndjson_bool(&w, NDJSON_ITEM, true);
    ndjson_close_array(&w);
    check_line("an array", &w, "[\n  true\n]\n");
}

static const struct {
    uint64_t value;
    const char *want;
} numbers[] = {
    {0, "0"},
    {9, "9"},
    {10, "10"},
    {99, "99"},
    {100, "100"},
    {101, "101"},
    {999, "999"},
    {1000, "1000"},
    {9999, "9999"},
    {12345, "12345"},
    {100000, "100000"},
    {4294967295, "4294967295"},
    {9999999999999999999u, "9999999999999999999"},
    {10000000000000000000u, "10000000000000000000"},
};

TEST(whole_numbers_have_all_their_digits)
{
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        struct ndjson w;
        char want[64];
        begin(&w, NDJSON_LINE);
        ndjson_u64(&w, STR("u"), numbers[i].value);
        ndjson_i64(&w, STR("i"), -(int64_t)(numbers[i].value / 2));
        snprintf(want, sizeof want, "{\"u\":%s,\"i\":%lld}\n", numbers[i].want,
                 -(long long)(numbers[i].value / 2));
        check_line(numbers[i].want, &w, want);
    }
}

static const struct {
    const char *why, *text;
    size_t len;
    const char *want;
} escapes[] = {
    {"nothing to do", "plain", 5, "plain"},
    {"quotes and backslashes", "a\"b\\c", 5, "a\\\"b\\\\c"},
    {"short escapes", "\b\t\n\f\r", 5, "\\b\\t\\n\\f\\r"},
    {"other control characters", "\x01\x1f", 2, "\\u0001\\u001f"},
    {"NUL", "a\0b", 3, "a\\u0000b"},
    {"DEL and slash stay", "\x7f/", 2, "\x7f/"},
    {"UTF-8 stays", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9,
     "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
    {"C1 is control too", "\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0", 8, "\\u0080\\u009b\\u009f\xc2\xa0"},
    {"direction marks", "\xe2\x80\x8e\xe2\x80\x8f\xd8\x9c", 8, "\\u200e\\u200f\\u061c"},
    {"embeddings", "\xe2\x80\xaa\xe2\x80\xae\xe2\x80\xaf", 9, "\\u202a\\u202e\xe2\x80\xaf"},
    {"isolates", "\xe2\x81\xa5\xe2\x81\xa6\xe2\x81\xa9\xe2\x81\xaa", 12,
     "\xe2\x81\xa5\\u2066\\u2069\xe2\x81\xaa"},
    {"separators", "\xe2\x80\xa8\xe2\x80\xa9", 6, "\\u2028\\u2029"},
    {"a bad byte is replaced",
     "a\xff"
     "b",
     3,
     "a\xef\xbf\xbd"
     "b"},
    {"each bad byte", "\xed\xa0\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    {"a cut sequence at the end", "ab\xe2\x82", 4, "ab\xef\xbf\xbd\xef\xbf\xbd"},
    {"after eight plain bytes", "12345678\"", 9, "12345678\\\""},
    {"inside eight bytes", "1234\"678", 8, "1234\\\"678"},
    {"long, at the end", "123456789012345678901234567890\n", 31,
     "123456789012345678901234567890\\n"},
};

TEST(strings_and_keys_are_escaped)
{
    for (size_t i = 0; i < ARRAY_LEN(escapes); i++) {
        struct ndjson w;
        char want[256];
        struct str text = str_of(escapes[i].text, escapes[i].len);
        begin(&w, NDJSON_LINE);
        ndjson_string(&w, text, text);
        snprintf(want, sizeof want, "{\"%s\":\"%s\"}\n", escapes[i].want, escapes[i].want);
        check_line(escapes[i].why, &w, want);
    }
}

TEST(every_byte_at_every_place_of_a_word_is_judged_right)
{
    for (unsigned byte = 0; byte < 256; byte++)
        for (size_t place = 0; place < 17; place++) {
            char text[17];
            struct ndjson w;
            json_t *back;
            memset(text, 'x', sizeof text);
            text[place] = (char)byte;
            begin(&w, NDJSON_LINE);
            ndjson_string(&w, STR("k"), str_of(text, sizeof text));
            CHECK_OK("written", ndjson_end(&w));
            back = json_loadb(out.data, out.len, JSON_ALLOW_NUL, NULL);
            CHECK("jansson reads it", back != NULL);
            if (byte < 0x80)
                CHECK_STR("as it was",
                          str_of(json_string_value(json_object_get(back, "k")),
                                 json_string_length(json_object_get(back, "k"))),
                          str_of(text, sizeof text));
            else
                CHECK_SIZE("replaced", json_string_length(json_object_get(back, "k")), 16 + 3);
            json_decref(back);
            buf_deinit(&out);
        }
}

TEST(random_bytes_make_valid_json_on_one_line)
{
    struct prng prng;

    prng_seed(&prng, test_seed());
    for (int round = 0; round < 5000; round++) {
        char bytes[64];
        size_t len = (size_t)prng_below(&prng, sizeof bytes);
        struct ndjson w;
        json_t *back;
        prng_fill(&prng, bytes, len);
        begin(&w, NDJSON_LINE);
        /* jansson reads the result; it accepts no key with NUL */
        ndjson_string(&w, str_of(bytes, strnlen(bytes, len)), str_of(bytes, len));
        CHECK_OK("written", ndjson_end(&w));
        CHECK_SIZE("one line", str_find(buf_peek(&out), '\n'), out.len - 1);
        CHECK("UTF-8", str_is_utf8(buf_peek(&out)));
        back = json_loadb(out.data, out.len, JSON_ALLOW_NUL, NULL);
        CHECK("JSON", back != NULL);
        json_decref(back);
        buf_deinit(&out);
    }
}

/* Writes a line with every kind of value, for the limits below. */
static enum err put_sample(struct buf *into, enum ndjson_style style)
{
    struct ndjson w;

    ndjson_begin(&w, into, style);
    ndjson_string(&w, STR("quote\""), STR("tab\t\xff"));
    put_nested(&w);
    ndjson_double(&w, STR("d"), 1e100);
    ndjson_u64(&w, STR("u"), 12345);
    ndjson_raw(&w, STR("r"), STR("{}"));
    ndjson_string(&w, STR("last"), STR("a text of some length that needs no escape at all"));
    return ndjson_end(&w);
}

TEST(a_line_that_does_not_fit_leaves_the_buffer_as_it_was)
{
    for (int style = NDJSON_LINE; style <= NDJSON_PRETTY; style++) {
        struct buf whole;
        struct str before = STR("{\"before\":1}\n");
        buf_init(&whole, ROOM);
        CHECK_OK("a line", put_sample(&whole, (enum ndjson_style)style));
        for (size_t room = 0; room <= whole.len; room++) {
            struct buf tight;
            enum err err;
            buf_init(&tight, before.len + room);
            CHECK_OK("a line before", buf_append(&tight, before));
            err = put_sample(&tight, (enum ndjson_style)style);
            CHECK_ERR("to the byte", err, room < whole.len ? ERR_FULL : ERR_OK);
            if (err)
                CHECK_STR("as it was", buf_peek(&tight), before);
            else
                CHECK_STR("whole", str_tail(buf_peek(&tight), before.len), buf_peek(&whole));
            buf_deinit(&tight);
        }
        buf_deinit(&whole);
    }
}

TEST(too_deep_is_refused_and_the_rest_of_the_calls_do_nothing)
{
    struct ndjson w;

    begin(&w, NDJSON_LINE);
    for (int i = 1; i < NDJSON_DEPTH_MAX; i++) {
        if (i % 3)
            ndjson_open_array(&w, i % 3 == 1 ? STR("k") : NDJSON_ITEM);
        else
            ndjson_open_object(&w, NDJSON_ITEM);
    }
    ndjson_open_array(&w, (NDJSON_DEPTH_MAX - 1) % 3 ? NDJSON_ITEM : STR("k"));
    ndjson_u64(&w, STR("ignored"), 1);
    ndjson_close_object(&w);
    CHECK_ERR("reported at the end", ndjson_end(&w), ERR_TOO_LARGE);
    CHECK_SIZE("nothing written", out.len, 0);
    buf_deinit(&out);
}

TEST(the_deepest_allowed_line_is_valid)
{
    struct ndjson w;
    json_t *back;

    begin(&w, NDJSON_LINE);
    ndjson_open_array(&w, STR("k"));
    for (int i = 2; i < NDJSON_DEPTH_MAX; i++) ndjson_open_array(&w, NDJSON_ITEM);
    for (int i = 1; i < NDJSON_DEPTH_MAX; i++) ndjson_close_array(&w);
    CHECK_OK("written", ndjson_end(&w));
    back = json_loadb(out.data, out.len, 0, NULL);
    CHECK("read by jansson", back != NULL);
    json_decref(back);
    buf_deinit(&out);
}

TEST(raw_values_cannot_break_the_line)
{
    static const char *const refused[] = {"", "[1,\n2]", "1\r"};

    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        struct ndjson w;
        begin(&w, NDJSON_LINE);
        ndjson_raw(&w, STR("r"), str_from(refused[i]));
        CHECK_ERR(refused[i], ndjson_end(&w), ERR_INVALID);
        CHECK_SIZE("nothing written", out.len, 0);
        buf_deinit(&out);
    }
}
