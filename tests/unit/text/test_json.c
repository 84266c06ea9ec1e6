/* SPDX-License-Identifier: Apache-2.0 */
#include "text/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/test.h"

enum { ROOM = 1 << 20 };

static struct json *read_json(struct str text)
{
    struct json *json = NULL;
    struct note note = {""};
    enum err err = json_open(text, ROOM, &json, &note);

    if (err) print_error("%.*s: %s\n", STR_ARG(text), note.text);
    CHECK_OK("is read", err);
    return json;
}

static const struct {
    const char *why, *text, *want;
} kept[] = {
    {"an object, in the order of the text", "{\"b\": 1, \"a\": [true, false, null]}",
     "{\"b\":1,\"a\":[true,false,null]}\n"},
    {"blanks around", " \t\r\n{ } \n", "{}\n"},
    {"a lone value", "42", "42\n"},
    {"the least and the largest integer", "[-9223372036854775808,9223372036854775807]",
     "[-9223372036854775808,9223372036854775807]\n"},
    {"past 2^53 every digit stays", "[9007199254740993]", "[9007199254740993]\n"},
    {"a real stays a real", "[1.0, 1e2, 0.1, -0.0]", "[1.0,100.0,0.1,-0.0]\n"},
    {"escapes", "[\"\\u00e9\\n\\/\\ud83d\\ude00\"]", "[\"\xc3\xa9\\n/\xf0\x9f\x98\x80\"]\n"},
    {"an empty key", "{\"\": {\"\": 1}}", "{\"\":{\"\":1}}\n"},
};

TEST(what_is_read_is_written_back_the_same)
{
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        struct json *json = read_json(str_from(kept[i].text)), *again;
        struct buf out;
        buf_init(&out, ROOM);
        CHECK_OK(kept[i].why, json_write(json, NDJSON_LINE, &out));
        CHECK_STR(kept[i].why, buf_peek(&out), str_from(kept[i].want));
        again = read_json(buf_peek(&out));
        CHECK(kept[i].why, json_same(json, again));
        json_close(again);
        buf_clear(&out);
        CHECK_OK(kept[i].why, json_write(json, NDJSON_PRETTY, &out));
        again = read_json(buf_peek(&out));
        CHECK("pretty, too", json_same(json, again));
        json_close(again);
        json_close(json);
        buf_deinit(&out);
    }
}

static const struct {
    const char *why, *text;
    size_t len;
    const char *note;
} refused[] = {
    {"nothing", "", 0, "line 1, column 0: unexpected token near end of file"},
    {"a key twice", "{\"a\":1,\n\"a\":2}", 14,
     "line 2, column 3: duplicate object key near '\"a\"'"},
    {"a key twice, one escaped", "{\"a\":1,\"\\u0061\":2}", 18, "duplicate object key"},
    {"bytes after the value", "{} x", 4, "line 1, column 4: end of file expected near 'x'"},
    {"a second value", "{}{}", 4, "end of file expected"},
    {"NUL after the value", "{}\0", 3, "end of file expected"},
    {"bad UTF-8", "[\"\xff\"]", 5, "unable to decode byte 0xff"},
    {"an overlong form", "[\"\xc0\x80\"]", 6, "unable to decode byte 0xc0"},
    {"a surrogate in UTF-8", "[\"\xed\xa0\x80\"]", 7, "unable to decode byte 0xed"},
    {"a lone surrogate escape", "[\"\\ud800\"]", 10, "invalid Unicode"},
    {"an escaped NUL", "[\"a\\u0000b\"]", 12, "\\u0000 is not allowed"},
    {"an escaped NUL in a key", "{\"\\u0000\": 1}", 13, "NUL byte in object key"},
    {"a raw control character", "[\"a\nb\"]", 7, "line 1, column 3: unexpected newline"},
    {"an integer past 64 bits", "[9223372036854775808]", 21, "too big integer"},
    {"a real past a double", "[1e400]", 7, "real number overflow"},
    {"a leading zero", "[01]", 4, "line 1, column"},
    {"a last comma", "[1,]", 4, "line 1, column 4: unexpected token near ']'"},
    {"not a number", "[NaN]", 5, "line 1, column"},
    {"a comment", "[1] // x", 8, "line 1, column"},
    {"single quotes", "['a']", 5, "line 1, column"},
    {"cut short", "{\"a\": [1, 2", 11, "line 1, column 11: ']' expected near end of file"},
    {"columns count code points", "[\"\xc3\xa9\", x]", 9,
     "line 1, column 7: invalid token near 'x'"},
};

TEST(anything_but_strict_json_is_refused_with_its_place)
{
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        struct json *json = (struct json *)&json;
        struct note note = {""};
        enum err err = json_open(str_of(refused[i].text, refused[i].len), ROOM, &json, &note);
        CHECK_ERR(refused[i].why, err, ERR_PARSE);
        CHECK(refused[i].why, json == (struct json *)&json); /* untouched */
        CHECK_HAS(refused[i].why, note.text, refused[i].note);
        CHECK_HAS("always a place", note.text, "line ");
    }
}

TEST(size_and_depth_are_bounded)
{
    struct json *json = NULL;
    struct note note = {""};
    struct buf text;

    CHECK_OK("to the byte", json_open(STR("[1,2]"), 5, &json, &note));
    json_close(json);
    CHECK_ERR("one byte more", json_open(STR("[1,2]"), 4, &json, &note), ERR_TOO_LARGE);
    CHECK_TEXT("names both sizes", note.text, "5 bytes of JSON are more than the limit of 4");
    buf_init(&text, ROOM);
    for (int i = 0; i < JSON_DEPTH_MAX; i++) buf_append_c(&text, i % 2 ? "[" : "{\"[\\\"{\":");
    for (int i = JSON_DEPTH_MAX - 1; i >= 0; i--) buf_append_c(&text, i % 2 ? "]" : "}");
    CHECK_OK("the deepest; brackets in strings do not count",
             json_open(buf_peek(&text), ROOM, &json, &note));
    buf_clear(&text);
    CHECK_OK("can be written", json_write(json, NDJSON_LINE, &text));
    json_close(json);
    buf_clear(&text);
    buf_append_byte(&text, '\n');
    for (int i = 0; i <= JSON_DEPTH_MAX; i++) buf_append_byte(&text, '[');
    for (int i = 0; i <= JSON_DEPTH_MAX; i++) buf_append_byte(&text, ']');
    CHECK_ERR("one deeper", json_open(buf_peek(&text), ROOM, &json, &note), ERR_TOO_LARGE);
    CHECK_TEXT("the message", note.text, "line 2: nested deeper than 128 levels");
    buf_clear(&text);
    for (int i = 0; i < 1000; i++) buf_append_c(&text, i ? ",[{}]" : "[[{}]");
    buf_append_byte(&text, ']');
    CHECK_OK("many beside each other are not deep", json_open(buf_peek(&text), ROOM, &json, &note));
    json_close(json);
    buf_deinit(&text);
}

static const char sample[] = "{\"name\": \"n\", \"spec\": {\"count\": 3, \"ratio\": 0.5, \"on\": "
                             "true, \"none\": null, \"low\": -1},"
                             " \"items\": [{\"id\": 9007199254740993}, []], \"a.b\": 1}";

TEST(a_typed_field_is_read_or_the_note_says_what_is_wrong)
{
    struct json *json = read_json(str_from(sample));
    const struct json *inner = NULL;
    struct note note = {""};
    struct str text = STR("untouched");
    int64_t i64 = 0;
    uint64_t u64 = 0;
    double real = 0;
    bool truth = false;

    CHECK_OK("string", json_get_string(json, "name", &text, &note));
    CHECK_STR("string", text, STR("n"));
    CHECK_OK("u64", json_get_u64(json, "spec.count", &u64, &note));
    CHECK_U64("u64", u64, 3);
    CHECK_OK("i64 in an array", json_get_i64(json, "items.0.id", &i64, &note));
    CHECK_I64("whole", i64, 9007199254740993);
    CHECK_OK("real", json_get_double(json, "spec.ratio", &real, &note));
    CHECK("real", real == 0.5);
    CHECK_OK("an integer serves as a real", json_get_double(json, "spec.count", &real, &note));
    CHECK("real", real == 3);
    CHECK_OK("truth", json_get_bool(json, "spec.on", &truth, &note));
    CHECK("truth", truth);
    CHECK_OK("object", json_get_object(json, "spec", &inner, &note));
    CHECK_SIZE("members", json_count(inner), 5);
    CHECK_OK("the empty path is the value itself", json_get_object(inner, "", &inner, &note));
    CHECK_OK("array", json_get_array(json, "items.1", &inner, &note));
    CHECK_SIZE("items", json_count(inner), 0);

    CHECK_ERR("wrong kind", json_get_i64(json, "name", &i64, &note), ERR_INVALID);
    CHECK_TEXT("the message", note.text, "field 'name': expected integer, got string");
    CHECK_ERR("a real is no integer", json_get_u64(json, "spec.ratio", &u64, &note), ERR_INVALID);
    CHECK_TEXT("the message", note.text, "field 'spec.ratio': expected integer, got real");
    CHECK_ERR("negative", json_get_u64(json, "spec.low", &u64, &note), ERR_INVALID);
    CHECK_TEXT("the message", note.text, "field 'spec.low': expected 0 or more, got -1");
    CHECK_ERR("null is a kind", json_get_string(json, "spec.none", &text, &note), ERR_INVALID);
    CHECK_TEXT("the message", note.text, "field 'spec.none': expected string, got null");
    CHECK_ERR("missing", json_get_bool(json, "spec.off", &truth, &note), ERR_NOT_FOUND);
    CHECK_TEXT("the message", note.text, "field 'spec.off': missing");
    CHECK_ERR("past the end", json_get_object(json, "items.2", &inner, &note), ERR_NOT_FOUND);
    CHECK_ERR("no index", json_get_object(json, "items.x", &inner, &note), ERR_NOT_FOUND);
    CHECK_ERR("through a string", json_get_i64(json, "name.x", &i64, &note), ERR_NOT_FOUND);
    CHECK_ERR("object wanted", json_get_object(json, "items", &inner, NULL), ERR_INVALID);
    CHECK_ERR("array wanted", json_get_array(json, "spec", &inner, NULL), ERR_INVALID);
    CHECK_ERR("truth wanted", json_get_bool(json, "spec.count", &truth, NULL), ERR_INVALID);
    CHECK_ERR("number wanted", json_get_double(json, "spec.on", &real, NULL), ERR_INVALID);
    CHECK_STR("outputs untouched", text, STR("n"));
    CHECK("a key with a dot is reached by itself", json_member(json, STR("a.b")) != NULL);
    CHECK("and not by a path", json_find(json, "a.b") == NULL);
    json_close(json);
    json_close(NULL);
}

TEST(an_object_is_walked_in_the_order_of_the_text)
{
    struct json *json = read_json(str_from(sample));
    static const char *const keys[] = {"name", "spec", "items", "a.b"};
    static const enum json_kind kinds[] = {JSON_KIND_STRING, JSON_KIND_OBJECT, JSON_KIND_ARRAY,
                                           JSON_KIND_INTEGER};
    const struct json *value = NULL;
    struct str key = STR_EMPTY;
    void *cursor = NULL;
    size_t count = 0;

    for (; json_next(json, &cursor, &key, &value); count++) {
        CHECK("no more than there are", count < ARRAY_LEN(keys));
        CHECK_STR("in order", key, str_from(keys[count]));
        CHECK_TEXT("kind", json_kind_name(json_kind(value)), json_kind_name(kinds[count]));
    }
    CHECK_SIZE("all", count, ARRAY_LEN(keys));
    cursor = NULL;
    CHECK("nothing in an array", !json_next(json_find(json, "items"), &cursor, &key, &value));
    json_close(json);
}

TEST(a_document_that_does_not_fit_is_not_written_in_part)
{
    struct json *json = read_json(str_from(sample));
    struct buf tight;

    buf_init(&tight, 20);
    CHECK_OK("something before", buf_append_c(&tight, "before"));
    CHECK_ERR("no room", json_write(json, NDJSON_LINE, &tight), ERR_FULL);
    CHECK_STR("as it was", buf_peek(&tight), STR("before"));
    buf_deinit(&tight);
    json_close(json);
}
