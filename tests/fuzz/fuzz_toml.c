/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as TOML: refused with a place inside the input and a note, or read into a tree that
 * holds together: each value is found by its key, strings are UTF-8, positions lie inside the
 * input and grow along an array, depth stays within its bound. And a document written from the
 * tree reads back as the same tree. The first two bytes also choose a memory limit, so that its
 * ceiling is met. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "text/real.h"
#include "text/toml.h"
#include "text/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY_MAX = 16 << 20, TEXT_MAX = 16 << 20 };

static void must(bool holds)
{
    if (!holds) abort();
}

static uint32_t line_count(struct str text)
{
    uint32_t lines = 1;

    for (size_t i = 0; i < text.len; i++) lines += text.at[i] == '\n';
    return lines;
}

static void check_place(struct toml_position at, struct str input)
{
    must(at.line >= 1 && at.line <= line_count(input));
    must(at.column >= 1 && at.column <= input.len + 1);
}

/* ---- the tree written as the plainest TOML: one inline value per key ---- */

static void write_string(struct buf *out, struct str text)
{
    buf_append_byte(out, '"');
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (c < 0x20 || c == 0x7f || c == '"' || c == '\\')
            buf_appendf(out, "\\u%04X", c);
        else
            buf_append_byte(out, text.at[i]);
    }
    buf_append_byte(out, '"');
}

static void write_time(struct buf *out, const struct toml_value *value)
{
    struct rfc3339_fields t;
    enum toml_type type = toml_type(value);
    int offset;

    must(toml_datetime(value, &t, NULL) == ERR_OK);
    if (type != TOML_LOCAL_TIME) buf_appendf(out, "%04u-%02u-%02u", t.year, t.month, t.day);
    if (type == TOML_LOCAL_DATE) return;
    buf_appendf(out, "%s%02u:%02u:%02u.%09u", type == TOML_LOCAL_TIME ? "" : " ", t.hour, t.minute,
                t.second, t.nanosecond);
    if (type != TOML_OFFSET_DATETIME) return;
    offset = abs(t.offset_minutes);
    buf_appendf(out, "%c%02d:%02d", t.offset_minutes < 0 ? '-' : '+', offset / 60, offset % 60);
}

static void write_real(struct buf *out, double real)
{
    char text[REAL_TEXT_CAP];

    if (isnan(real))
        buf_append_c(out, "nan");
    else if (isinf(real))
        buf_append_c(out, real < 0 ? "-inf" : "inf");
    else
        buf_append(out, str_of(text, real_print(real, text)));
}

static void write_value(struct buf *out, const struct toml_value *value)
{
    struct str text;
    int64_t integer;
    double real;
    bool truth;
    char open = toml_type(value) == TOML_TABLE ? '{' : '[';

    if (!toml_string(value, &text, NULL)) {
        write_string(out, text);
    } else if (!toml_i64(value, &integer, NULL)) {
        buf_appendf(out, "%lld", (long long)integer);
    } else if (!toml_double(value, &real, NULL)) {
        write_real(out, real);
    } else if (!toml_bool(value, &truth, NULL)) {
        buf_append_c(out, truth ? "true" : "false");
    } else if (toml_type(value) < TOML_ARRAY) {
        write_time(out, value);
    } else {
        buf_append_byte(out, open);
        for (const struct toml_value *v = toml_first(value); v; v = toml_next(v)) {
            if (v != toml_first(value)) buf_append_byte(out, ',');
            if (open == '{') {
                write_string(out, toml_key(v));
                buf_append_byte(out, '=');
            }
            write_value(out, v);
        }
        buf_append_byte(out, open == '{' ? '}' : ']');
    }
}

/* ---- the tree itself ---- */

static void check_value(const struct toml_value *value, struct str input, unsigned depth)
{
    const struct toml_value *before = NULL;
    size_t count = 0;
    struct str text;
    char path[TOML_PATH_CAP];

    must(depth <= TOML_DEPTH_MAX);
    check_place(toml_position(value), input);
    check_place(toml_key_position(value), input);
    toml_path(value, path);
    must(memchr(path, '\0', sizeof path) != NULL);
    if (!toml_string(value, &text, NULL)) must(str_is_utf8(text));
    for (const struct toml_value *v = toml_first(value); v; before = v, v = toml_next(v), count++) {
        if (toml_type(value) == TOML_TABLE) must(toml_get(value, toml_key(v)) == v);
        if (toml_type(value) == TOML_ARRAY && before) {
            struct toml_position a = toml_position(before), b = toml_position(v);
            must(a.line < b.line || (a.line == b.line && a.column < b.column));
        }
        check_value(v, input, depth + 1);
    }
    must(count == toml_count(value));
}

static void write_document(struct buf *out, const struct toml_value *root)
{
    buf_clear(out);
    for (const struct toml_value *v = toml_first(root); v; v = toml_next(v)) {
        write_string(out, toml_key(v));
        buf_append_c(out, " = ");
        write_value(out, v);
        buf_append_byte(out, '\n');
    }
}

static void check_written_again(const struct toml_value *root)
{
    struct toml *again = NULL;
    struct buf once, twice;

    buf_init(&once, TEXT_MAX);
    buf_init(&twice, TEXT_MAX);
    write_document(&once, root);
    must(toml_open(buf_peek(&once), MEMORY_MAX, &again, NULL, NULL) == ERR_OK);
    write_document(&twice, toml_root(again));
    must(str_equal(buf_peek(&once), buf_peek(&twice)));
    toml_close(again);
    buf_deinit(&twice);
    buf_deinit(&once);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str input = str_of(data, size);
    struct toml *document = NULL;
    struct toml_position where = {0, 0};
    struct note note = {""};
    enum err err = toml_open(input, MEMORY_MAX, &document, &where, &note);

    if (err) {
        must(!document && (err == ERR_PARSE || err == ERR_TOO_LARGE));
        check_place(where, input);
        must(str_starts(str_from(note.text), STR("line ")));
        must(str_is_utf8(str_from(note.text)) || strlen(note.text) == NOTE_CAP - 1);
    } else {
        must(note.text[0] == '\0' && str_is_utf8(input));
        check_value(toml_root(document), input, 0);
        check_written_again(toml_root(document));
    }
    toml_close(document);
    if (!err && size > 2) { /* a ceiling below the memory that the document needs */
        document = NULL;
        err = toml_open(input, size + (data[0] | (size_t)data[1] << 8), &document, NULL, NULL);
        must(err == ERR_OK || err == ERR_TOO_LARGE);
        toml_close(document);
    }
    return 0;
}
