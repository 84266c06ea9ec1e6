/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as JSON: refused with a note, or read, written (on one line and for people) and read
 * again to the same value; the text written from that is the same text, is UTF-8, and holds one
 * line break. The writer also writes the same bytes as a string. */
#include <stdlib.h>
#include <string.h>

#include "text/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TEXT_MAX = 64 << 20 };

static void must(bool holds)
{
    if (!holds) abort();
}

static struct json *read_again(const struct json *json, enum ndjson_style style, struct buf *out)
{
    struct json *again = NULL;

    buf_clear(out);
    must(json_write(json, style, out) == ERR_OK);
    must(str_is_utf8(buf_peek(out)) && str_ends(buf_peek(out), STR("\n")));
    if (style == NDJSON_LINE) must(str_find(buf_peek(out), '\n') == out->len - 1);
    must(json_open(buf_peek(out), TEXT_MAX, &again, NULL) == ERR_OK);
    must(json_same(json, again));
    return again;
}

static void check_document(const struct json *json)
{
    struct buf once, twice;
    struct json *again, *pretty;
    struct str key;
    const struct json *value;
    void *cursor = NULL;

    buf_init(&once, TEXT_MAX);
    buf_init(&twice, TEXT_MAX);
    again = read_again(json, NDJSON_LINE, &once);
    pretty = read_again(again, NDJSON_PRETTY, &twice);
    buf_clear(&twice);
    must(json_write(pretty, NDJSON_LINE, &twice) == ERR_OK);
    must(str_equal(buf_peek(&once), buf_peek(&twice)));
    while (json_next(json, &cursor, &key, &value)) must(json_member(json, key) == value);
    json_close(pretty);
    json_close(again);
    buf_deinit(&twice);
    buf_deinit(&once);
}

static void check_string(struct str bytes)
{
    struct ndjson w;
    struct buf line;
    struct json *json = NULL;
    struct str back;

    buf_init(&line, TEXT_MAX);
    ndjson_begin(&w, &line, NDJSON_LINE);
    ndjson_string(&w, STR("k"), bytes);
    must(ndjson_end(&w) == ERR_OK);
    must(str_is_utf8(buf_peek(&line)));
    if (!str_has(bytes, '\0')) { /* the reader refuses NUL, escaped or not */
        must(json_open(buf_peek(&line), TEXT_MAX, &json, NULL) == ERR_OK);
        must(json_get_string(json, "k", &back, NULL) == ERR_OK);
        if (str_is_utf8(bytes)) must(str_equal(back, bytes));
    }
    json_close(json);
    buf_deinit(&line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_of(data, size);
    struct json *json = NULL;
    struct note note = {""};
    enum err err = json_open(text, TEXT_MAX, &json, &note);

    if (err)
        must(!json && (err == ERR_PARSE || err == ERR_TOO_LARGE) && note.text[0] == 'l');
    else
        check_document(json);
    json_close(json);
    check_string(text);
    return 0;
}
