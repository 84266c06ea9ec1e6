/* SPDX-License-Identifier: Apache-2.0 */
/* What toml-test drives: TOML on stdin, toml-test's tagged JSON on stdout; exit 1 when it is
 * invalid. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "text/ndjson.h"
#include "text/toml.h"

enum { INPUT_MAX = 16 << 20, MEMORY_MAX = 256 << 20, OUTPUT_MAX = 256 << 20, READ_AT_ONCE = 65536 };

static enum err read_all(struct buf *input)
{
    for (;;) {
        char *room;
        enum err err = buf_reserve(input, READ_AT_ONCE, &room);
        ssize_t got;
        if (err) return err;
        got = read(STDIN_FILENO, room, READ_AT_ONCE);
        if (got < 0) return ERR_IO;
        if (got == 0) return ERR_OK;
        buf_commit(input, (size_t)got);
    }
}

static enum err write_all(struct str bytes)
{
    while (bytes.len > 0) {
        ssize_t put = write(STDOUT_FILENO, bytes.at, bytes.len);
        if (put <= 0) return ERR_IO;
        bytes = str_tail(bytes, (size_t)put);
    }
    return ERR_OK;
}

static void datetime_text(const struct toml_value *value, char *text, size_t cap)
{
    struct rfc3339_fields t = {0};
    enum toml_type type = toml_type(value);
    size_t len = 0;

    if (toml_datetime(value, &t, NULL)) return;
    if (type != TOML_LOCAL_TIME)
        len += (size_t)snprintf(text, cap, "%04u-%02u-%02u", t.year, t.month, t.day);
    if (type == TOML_LOCAL_DATE) return;
    len += (size_t)snprintf(text + len, cap - len, "%s%02u:%02u:%02u",
                            type == TOML_LOCAL_TIME ? "" : "T", t.hour, t.minute, t.second);
    if (t.nanosecond) len += (size_t)snprintf(text + len, cap - len, ".%09u", t.nanosecond);
    if (type != TOML_OFFSET_DATETIME) return;
    unsigned offset = (unsigned)(t.offset_minutes < 0 ? -t.offset_minutes : t.offset_minutes);
    snprintf(text + len, cap - len, "%c%02u:%02u", t.offset_minutes < 0 ? '-' : '+', offset / 60,
             offset % 60);
}

static const char *tag_name(enum toml_type type)
{
    switch (type) {
    case TOML_STRING: return "string";
    case TOML_INTEGER: return "integer";
    case TOML_FLOAT: return "float";
    case TOML_BOOLEAN: return "bool";
    case TOML_OFFSET_DATETIME: return "datetime";
    case TOML_LOCAL_DATETIME: return "datetime-local";
    case TOML_LOCAL_DATE: return "date-local";
    case TOML_LOCAL_TIME: return "time-local";
    default: return "array or table"; /* those have no tag */
    }
}

static void write_leaf(struct ndjson *w, struct str key, const struct toml_value *value)
{
    char text[64] = "";
    struct str shown;
    int64_t integer = 0;
    double real = 0;
    bool truth = false;

    switch (toml_type(value)) {
    case TOML_INTEGER:
        toml_i64(value, &integer, NULL);
        snprintf(text, sizeof text, "%lld", (long long)integer);
        break;
    case TOML_FLOAT:
        toml_double(value, &real, NULL);
        if (isnan(real))
            snprintf(text, sizeof text, "nan");
        else if (isinf(real))
            snprintf(text, sizeof text, real < 0 ? "-inf" : "inf");
        else
            snprintf(text, sizeof text, "%.17g", real);
        break;
    case TOML_BOOLEAN:
        toml_bool(value, &truth, NULL);
        snprintf(text, sizeof text, truth ? "true" : "false");
        break;
    case TOML_STRING: break;
    default: datetime_text(value, text, sizeof text);
    }
    shown = str_from(text);
    if (toml_type(value) == TOML_STRING) toml_string(value, &shown, NULL);
    ndjson_open_object(w, key);
    ndjson_c_string(w, STR("type"), tag_name(toml_type(value)));
    ndjson_string(w, STR("value"), shown);
    ndjson_close_object(w);
}

/* No deeper than TOML_DEPTH_MAX. */
static void write_value(struct ndjson *w, struct str key, const struct toml_value *value)
{
    bool table = toml_type(value) == TOML_TABLE;

    if (!table && toml_type(value) != TOML_ARRAY) {
        write_leaf(w, key, value);
        return;
    }
    if (table)
        ndjson_open_object(w, key);
    else
        ndjson_open_array(w, key);
    for (const struct toml_value *v = toml_first(value); v; v = toml_next(v))
        write_value(w, table ? toml_key(v) : NDJSON_ITEM, v);
    if (table)
        ndjson_close_object(w);
    else
        ndjson_close_array(w);
}

int main(void)
{
    struct buf input, output;
    struct toml *document = NULL;
    struct ndjson w;
    struct note note = {""};
    enum err err;

    buf_init(&input, INPUT_MAX);
    buf_init(&output, OUTPUT_MAX);
    err = read_all(&input);
    if (!err) err = toml_open(buf_peek(&input), MEMORY_MAX, &document, NULL, &note);
    if (!err) {
        ndjson_begin_value(&w, &output, NDJSON_PRETTY);
        write_value(&w, NDJSON_ITEM, toml_root(document));
        err = ndjson_end(&w);
    }
    if (!err) err = write_all(buf_peek(&output));
    if (err) fprintf(stderr, "toml_decoder: %s: %s\n", err_text(err), note.text);
    toml_close(document);
    buf_deinit(&output);
    buf_deinit(&input);
    return err ? 1 : 0;
}
