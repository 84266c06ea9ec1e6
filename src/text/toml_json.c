/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a TOML document as JSON, and reports the first value that JSON cannot represent. */
#include "text/toml_json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void write_time(const struct toml_value *value, struct str key, struct ndjson *w)
{
    struct rfc3339_fields t = {0};
    char text[64];
    int offset;

    (void)toml_datetime(value, &t, NULL);
    offset = abs(t.offset_minutes);
    snprintf(text, sizeof text, "%04u-%02u-%02uT%02u:%02u:%02u%c%02d:%02d", t.year, t.month, t.day,
             t.hour, t.minute, t.second, t.offset_minutes < 0 ? '-' : '+', offset / 60,
             offset % 60);
    ndjson_c_string(w, key, text);
}

void toml_write_json(const struct toml_value *value, struct str key, struct ndjson *w,
                     const struct toml_value **odd)
{
    enum toml_type type = toml_type(value);
    struct str text;
    int64_t number;
    double real = 0;
    bool truth, is_array = type == TOML_ARRAY;

    switch (type) {
    case TOML_STRING:
        if (!toml_string(value, &text, NULL)) ndjson_string(w, key, text);
        break;
    case TOML_INTEGER:
        if (!toml_i64(value, &number, NULL)) ndjson_i64(w, key, number);
        break;
    case TOML_FLOAT:
        if (!toml_double(value, &real, NULL)) ndjson_double(w, key, real);
        if (!isfinite(real) && !*odd) *odd = value;
        break;
    case TOML_BOOLEAN:
        if (!toml_bool(value, &truth, NULL)) ndjson_bool(w, key, truth);
        break;
    case TOML_ARRAY:
    case TOML_TABLE:
        (is_array ? ndjson_open_array : ndjson_open_object)(w, key);
        for (const struct toml_value *v = toml_first(value); v; v = toml_next(v))
            toml_write_json(v, is_array ? NDJSON_ITEM : toml_key(v), w, odd);
        (is_array ? ndjson_close_array : ndjson_close_object)(w);
        break;
    default:
        if (!*odd) *odd = value;
        write_time(value, key, w);
    }
}

enum err toml_as_json(const struct toml *document, struct buf *out, struct note *note)
{
    const struct toml_value *odd = NULL;
    struct ndjson w;
    enum err err;

    ndjson_begin_value(&w, out, NDJSON_LINE);
    toml_write_json(toml_root(document), NDJSON_ITEM, &w, &odd);
    err = ndjson_end(&w);
    if (!odd) return err;
    if (toml_type(odd) == TOML_FLOAT)
        note_set(note, "line %" PRIu32 ": not a finite number", toml_position(odd).line);
    else
        note_set(note, "line %" PRIu32 ": %s has no place here", toml_position(odd).line,
                 toml_type_article_name(toml_type(odd)));
    return ERR_INVALID;
}
