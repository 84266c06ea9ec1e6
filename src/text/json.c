/* SPDX-License-Identifier: Apache-2.0 */
/* JSON documents, read by the library jansson. struct json is json_t; in() and out() cast. */
#include "text/json.h"

#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>

static_assert(JSON_DEPTH_MAX < JSON_PARSER_MAX_DEPTH,
              "our own, smaller bound is the one that counts");

/* ---- jansson's memory ----
 *
 * When jansson cannot grow a token's buffer, jansson drops a byte and reports no error. These
 * functions set a flag when an allocation fails, and json_open() then rejects the document. */
static _Thread_local bool out_of_memory;
static pthread_once_t memory_once = PTHREAD_ONCE_INIT;

static void *marked_malloc(size_t size)
{
    void *memory = malloc(size);

    if (!memory) out_of_memory = true;
    return memory;
}

static void set_memory(void)
{
    json_set_alloc_funcs(marked_malloc, free);
}

static const json_t *in(const struct json *json)
{
    return (const json_t *)(const void *)json;
}

static const struct json *out(const json_t *json)
{
    return (const struct json *)(const void *)json;
}

/* ---- reading ---- */

/* jansson allows much deeper nesting than JSON_DEPTH_MAX, so the brackets outside of strings are
 * counted first. */
static bool too_deep(struct str text, struct note *note)
{
    size_t depth = 0, line = 1;
    bool in_string = false;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (c == '\n') line++;
        if (in_string && c == '\\')
            i++;
        else if (c == '"')
            in_string = !in_string;
        else if (in_string)
            continue;
        else if ((c == ']' || c == '}') && depth > 0)
            depth--;
        else if ((c == '[' || c == '{') && ++depth > JSON_DEPTH_MAX) {
            note_set(note, "line %zu: nested deeper than %d levels", line, JSON_DEPTH_MAX);
            return true;
        }
    }
    return false;
}

enum err json_open(struct str text, size_t bytes_max, struct json **ret_json, struct note *note)
{
    json_error_t error = {.line = 1};
    json_t *root;

    if (text.len > bytes_max)
        return note_fail(note, ERR_TOO_LARGE, "%zu bytes of JSON are more than the limit of %zu",
                         text.len, bytes_max);
    if (too_deep(text, note)) return ERR_TOO_LARGE;
    pthread_once(&memory_once, set_memory);
    out_of_memory = false;
    root = json_loadb(text.len > 0 ? text.at : "", text.len,
                      JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (out_of_memory) {
        json_decref(root);
        return note_fail(note, ERR_NOMEM, "out of memory");
    }
    if (!root)
        return note_fail(note, ERR_PARSE, "line %d, column %d: %s", error.line, error.column,
                         error.text);
    *ret_json = (struct json *)(void *)root;
    return ERR_OK;
}

void json_close(struct json *json)
{
    json_decref((json_t *)(void *)json);
}

/* ---- look-ups ---- */

enum json_kind json_kind(const struct json *json)
{
    static const enum json_kind kinds[] = {
        [JSON_OBJECT] = JSON_KIND_OBJECT, [JSON_ARRAY] = JSON_KIND_ARRAY,
        [JSON_STRING] = JSON_KIND_STRING, [JSON_INTEGER] = JSON_KIND_INTEGER,
        [JSON_REAL] = JSON_KIND_REAL,     [JSON_TRUE] = JSON_KIND_BOOLEAN,
        [JSON_FALSE] = JSON_KIND_BOOLEAN, [JSON_NULL] = JSON_KIND_NULL,
    };
    return kinds[json_typeof(in(json))];
}

const char *json_kind_name(enum json_kind kind)
{
    static const char *const names[] = {
        [JSON_KIND_OBJECT] = "object", [JSON_KIND_ARRAY] = "array",
        [JSON_KIND_STRING] = "string", [JSON_KIND_INTEGER] = "integer",
        [JSON_KIND_REAL] = "real",     [JSON_KIND_BOOLEAN] = "boolean",
        [JSON_KIND_NULL] = "null",
    };
    assert((size_t)kind < ARRAY_LEN(names));
    return names[kind];
}

bool json_same(const struct json *a, const struct json *b)
{
    return json_equal(in(a), in(b)) != 0;
}

const struct json *json_member(const struct json *object, struct str key)
{
    return out(json_object_getn(in(object), key.at, key.len));
}

size_t json_count(const struct json *container)
{
    const json_t *json = in(container);
    return json_is_array(json) ? json_array_size(json) : json_object_size(json);
}

const struct json *json_item(const struct json *array, size_t index)
{
    return out(json_array_get(in(array), index)); /* NULL past the end, or if `array` is no array */
}

const struct json *json_find(const struct json *json, const char *path)
{
    struct str rest = str_from(path), part;

    if (rest.len == 0) return json;
    while (json && str_split(&rest, '.', &part)) {
        uint64_t index;
        if (json_kind(json) != JSON_KIND_ARRAY)
            json = json_member(json, part);
        else
            json = str_to_u64(part, &index) ? NULL : json_item(json, (size_t)index);
    }
    return json;
}

bool json_next(const struct json *object, void **cursor, struct str *ret_key,
               const struct json **ret_value)
{
    json_t *json = (json_t *)in(object); /* jansson only reads `object` */

    *cursor = *cursor ? json_object_iter_next(json, *cursor) : json_object_iter(json);
    if (!*cursor) return false;
    *ret_key = str_of(json_object_iter_key(*cursor), json_object_iter_key_len(*cursor));
    *ret_value = out(json_object_iter_value(*cursor));
    return true;
}

/* ---- typed fields ---- */

static enum err get(const struct json *json, const char *path, uint32_t kinds, const char *wanted,
                    const struct json **ret_value, struct note *note)
{
    const struct json *value = json_find(json, path);

    if (!value) return note_fail(note, ERR_NOT_FOUND, "field '%s': missing", path);
    if (!(kinds & BIT(json_kind(value))))
        return note_fail(note, ERR_INVALID, "field '%s': expected %s, got %s", path, wanted,
                         json_kind_name(json_kind(value)));
    *ret_value = value;
    return ERR_OK;
}

enum err json_get_string(const struct json *json, const char *path, struct str *ret_text,
                         struct note *note)
{
    const struct json *value;
    enum err err = get(json, path, BIT(JSON_KIND_STRING), "string", &value, note);

    if (!err) *ret_text = str_of(json_string_value(in(value)), json_string_length(in(value)));
    return err;
}

enum err json_get_i64(const struct json *json, const char *path, int64_t *ret_number,
                      struct note *note)
{
    const struct json *value;
    enum err err = get(json, path, BIT(JSON_KIND_INTEGER), "integer", &value, note);

    if (!err) *ret_number = json_integer_value(in(value));
    return err;
}

enum err json_get_u64(const struct json *json, const char *path, uint64_t *ret_number,
                      struct note *note)
{
    int64_t number;
    enum err err = json_get_i64(json, path, &number, note);

    if (err) return err;
    if (number < 0)
        return note_fail(note, ERR_INVALID, "field '%s': expected 0 or more, got %lld", path,
                         (long long)number);
    *ret_number = (uint64_t)number;
    return ERR_OK;
}

enum err json_get_double(const struct json *json, const char *path, double *ret_number,
                         struct note *note)
{
    const struct json *value;
    enum err err =
        get(json, path, BIT(JSON_KIND_INTEGER) | BIT(JSON_KIND_REAL), "number", &value, note);

    if (!err) *ret_number = json_number_value(in(value));
    return err;
}

enum err json_get_bool(const struct json *json, const char *path, bool *ret_truth,
                       struct note *note)
{
    const struct json *value;
    enum err err = get(json, path, BIT(JSON_KIND_BOOLEAN), "boolean", &value, note);

    if (!err) *ret_truth = json_is_true(in(value));
    return err;
}

enum err json_get_object(const struct json *json, const char *path, const struct json **ret_object,
                         struct note *note)
{
    return get(json, path, BIT(JSON_KIND_OBJECT), "object", ret_object, note);
}

enum err json_get_array(const struct json *json, const char *path, const struct json **ret_array,
                        struct note *note)
{
    return get(json, path, BIT(JSON_KIND_ARRAY), "array", ret_array, note);
}

/* ---- writing ---- */

/* The recursion is bounded: json_open() refuses more than JSON_DEPTH_MAX levels. */
static void write_value(struct ndjson *w, struct str key, const struct json *value)
{
    const json_t *json = in(value);
    struct str member_key;
    const struct json *member;
    void *cursor = NULL;

    switch (json_kind(value)) {
    case JSON_KIND_OBJECT:
        ndjson_open_object(w, key);
        while (json_next(value, &cursor, &member_key, &member)) write_value(w, member_key, member);
        ndjson_close_object(w);
        break;
    case JSON_KIND_ARRAY:
        ndjson_open_array(w, key);
        for (size_t i = 0; i < json_count(value); i++)
            write_value(w, NDJSON_ITEM, json_item(value, i));
        ndjson_close_array(w);
        break;
    case JSON_KIND_STRING:
        ndjson_string(w, key, str_of(json_string_value(json), json_string_length(json)));
        break;
    case JSON_KIND_INTEGER: ndjson_i64(w, key, json_integer_value(json)); break;
    case JSON_KIND_REAL: ndjson_double(w, key, json_real_value(json)); break;
    case JSON_KIND_BOOLEAN: ndjson_bool(w, key, json_is_true(json)); break;
    case JSON_KIND_NULL: ndjson_null(w, key); break;
    }
}

enum err json_write(const struct json *json, enum ndjson_style style, struct buf *out_buffer)
{
    struct ndjson w;

    ndjson_begin_value(&w, out_buffer, style);
    write_value(&w, NDJSON_ITEM, json);
    return ndjson_end(&w);
}
