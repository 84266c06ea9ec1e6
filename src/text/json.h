/* SPDX-License-Identifier: Apache-2.0 */
/* Reads JSON with the library jansson. Errors name the wrong field.
 *
 * The reader rejects:
 * - duplicate keys
 * - bytes after the value
 * - bad UTF-8, and strings that contain NUL (\u0000)
 * - integers outside of int64, and reals outside of a double
 * - input above the limits of size and depth
 *
 * Integers are never converted to double. Any thread may read an open document, which never
 * changes.
 * A document takes 7 to 45 bytes of heap per byte of common input, and up to 79: see bytes_max. */
#ifndef TEXT_JSON_H
#define TEXT_JSON_H
#include "base/buf.h"
#include "base/note.h"
#include "base/str.h"
#include "text/ndjson.h"

enum { JSON_DEPTH_MAX = NDJSON_DEPTH_MAX };

struct json; /* a value; freed with its document by json_close() */

enum json_kind {
    JSON_KIND_OBJECT,
    JSON_KIND_ARRAY,
    JSON_KIND_STRING,
    JSON_KIND_INTEGER,
    JSON_KIND_REAL,
    JSON_KIND_BOOLEAN,
    JSON_KIND_NULL,
};

/* Reads one value of any kind. ERR_PARSE has a note such as "line 1, column 9: duplicate object key
 * near '"a"'". ERR_TOO_LARGE above bytes_max or JSON_DEPTH_MAX; ERR_NOMEM. */
enum err json_open(struct str text, size_t bytes_max, struct json **ret_json, struct note *note);
void json_close(struct json *json); /* NULL is allowed */
/* Appends all or nothing. Errors: see ndjson_end(). */
enum err json_write(const struct json *json, enum ndjson_style style, struct buf *out);
bool json_same(const struct json *a, const struct json *b); /* ignores the order of keys */

enum json_kind json_kind(const struct json *json);
const char *json_kind_name(enum json_kind kind); /* for messages, for example "integer" */

/* A path is a list of keys joined with dots: "spec.host". In an array, an index replaces the key:
 * "items.0.id". The empty path is the value itself. Returns NULL if there is no value at the
 * path. */
const struct json *json_find(const struct json *json, const char *path);
const struct json *json_member(const struct json *object, struct str key);
size_t json_count(const struct json *container); /* 0 unless an object or array */
const struct json *json_item(const struct json *array, size_t index);
/* Walks an object in the order of the text. Start with *cursor NULL. Returns false at the end. */
bool json_next(const struct json *object, void **cursor, struct str *ret_key,
               const struct json **ret_value);

/* Return the field at a path if it has the required kind.
 * ERR_NOT_FOUND: "field 'a.b': missing". ERR_INVALID: "field 'a.b': expected integer, got
 * string". */
enum err json_get_string(const struct json *json, const char *path, struct str *ret_text,
                         struct note *note);
enum err json_get_i64(const struct json *json, const char *path, int64_t *ret_number,
                      struct note *note);
enum err json_get_u64(const struct json *json, const char *path, uint64_t *ret_number,
                      struct note *note); /* at most 2^63-1: json_open() rejects larger integers */
enum err json_get_double(const struct json *json, const char *path, double *ret_number,
                         struct note *note); /* also accepts an integer, exact up to 2^53 */
enum err json_get_bool(const struct json *json, const char *path, bool *ret_truth,
                       struct note *note);
enum err json_get_object(const struct json *json, const char *path, const struct json **ret_object,
                         struct note *note);
enum err json_get_array(const struct json *json, const char *path, const struct json **ret_array,
                        struct note *note);
#endif
