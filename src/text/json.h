/* SPDX-License-Identifier: Apache-2.0 */
/* Reads JSON over jansson, and says in words which field is wrong.
 *
 * Strict: duplicate keys, bytes after the value, bad UTF-8, integers past 64 bits with a sign,
 * reals past a double, and strings that hold NUL (\u0000) are refused, as is what is larger or
 * deeper than the limits. Integers stay whole: nothing passes through a double. Refuses to know a
 * schema.
 *
 * jansson stays behind this header; a struct json is one of its values. Its memory comes from
 * malloc, not from an arena: 7 to 45 bytes per byte of common input, 79 for a row of empty objects.
 * Choose bytes_max with that in mind. To write JSON see text/ndjson.h. A document is read-only once
 * open, so any thread may read it. */
#ifndef TEXT_JSON_H
#define TEXT_JSON_H
#include "base/buf.h"
#include "base/note.h"
#include "base/str.h"
#include "text/ndjson.h"

enum { JSON_DEPTH_MAX = NDJSON_DEPTH_MAX }; /* so that what was read can be written, and walked */

struct json; /* a value; borrowed from its document unless it is the one json_open() gave */

enum json_kind {
    JSON_KIND_OBJECT,
    JSON_KIND_ARRAY,
    JSON_KIND_STRING,
    JSON_KIND_INTEGER,
    JSON_KIND_REAL,
    JSON_KIND_BOOLEAN,
    JSON_KIND_NULL,
};

/* Reads one value of any kind. ERR_PARSE with "line 1, column 9: duplicate object key near '"a"'"
 * (the column, in code points, is where the reader stopped, usually the end of the offending word);
 * ERR_TOO_LARGE past bytes_max or JSON_DEPTH_MAX; ERR_NOMEM. */
enum err json_open(struct str text, size_t bytes_max, struct json **ret_json, struct note *note);
void json_close(struct json *json); /* NULL is fine */
/* Appends the value as one line or, for people, on several; all or nothing, as ndjson_end(). */
enum err json_write(const struct json *json, enum ndjson_style style, struct buf *out);
bool json_same(const struct json *a, const struct json *b); /* whatever the order of keys */

enum json_kind json_kind(const struct json *json);
const char *json_kind_name(enum json_kind kind); /* "integer"; reads well in a message */

/* A path is a row of keys, "spec.host"; in an array a decimal index takes the place of a key, "items.0.id".
 * The empty path is the value itself. NULL when there is nothing. */
const struct json *json_find(const struct json *json, const char *path);
const struct json *json_member(const struct json *object, struct str key); /* dots and all */
size_t json_count(const struct json *container); /* members or items; 0 for what holds none */
const struct json *json_item(const struct json *array, size_t index);
/* Walks an object in the order of the text: start with *cursor NULL, false at the end. */
bool json_next(const struct json *object, void **cursor, struct str *ret_key,
               const struct json **ret_value);

/* The field at a path as what it has to be. ERR_NOT_FOUND, "field 'a.b': missing"; ERR_INVALID,
 * "field 'a.b': expected integer, got string". null is a kind like any other, not an absence. */
enum err json_get_string(const struct json *json, const char *path, struct str *ret_text,
                         struct note *note);
enum err json_get_i64(const struct json *json, const char *path, int64_t *ret_number,
                      struct note *note);
enum err json_get_u64(const struct json *json, const char *path, uint64_t *ret_number,
                      struct note *note); /* 0 to 2^63-1: JSON integers past that are not read */
enum err json_get_double(const struct json *json, const char *path, double *ret_number,
                         struct note *note); /* an integer, too: exact up to 2^53 */
enum err json_get_bool(const struct json *json, const char *path, bool *ret_truth,
                       struct note *note);
enum err json_get_object(const struct json *json, const char *path, const struct json **ret_object,
                         struct note *note);
enum err json_get_array(const struct json *json, const char *path, const struct json **ret_array,
                        struct note *note);
#endif
