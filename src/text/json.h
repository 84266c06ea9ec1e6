/* SPDX-License-Identifier: Apache-2.0 */
/* Reads JSON with the library jansson. Error messages name the wrong field. There are no schemas.
 *
 * The reader is strict: it rejects duplicate keys, bytes after the value, bad UTF-8, integers that
 * do not fit into int64, reals outside the range of a double, strings that contain NUL (\u0000),
 * and input above the limits of size and depth. Integers are never converted to double.
 *
 * A struct json is a jansson value, but jansson is not visible outside this module. Its memory
 * comes from malloc(), not from an arena: 7 to 45 bytes per byte of common input, 79 for a list of
 * empty objects. Choose bytes_max accordingly. To write JSON see text/ndjson.h. An open document is
 * read-only, so any thread may read it. */
#ifndef TEXT_JSON_H
#define TEXT_JSON_H
#include "base/buf.h"
#include "base/note.h"
#include "base/str.h"
#include "text/ndjson.h"

enum { JSON_DEPTH_MAX = NDJSON_DEPTH_MAX }; /* the writer's limit, so documents can be written */

struct json; /* a value; its document owns it, and json_open()'s caller owns the root */

enum json_kind {
    JSON_KIND_OBJECT,
    JSON_KIND_ARRAY,
    JSON_KIND_STRING,
    JSON_KIND_INTEGER,
    JSON_KIND_REAL,
    JSON_KIND_BOOLEAN,
    JSON_KIND_NULL,
};

/* Reads one value of any kind. ERR_PARSE with a note such as "line 1, column 9: duplicate object
 * key near '"a"'". The column counts code points. It is where the reader stopped, usually the end
 * of the wrong token. ERR_TOO_LARGE above bytes_max or JSON_DEPTH_MAX; ERR_NOMEM. */
enum err json_open(struct str text, size_t bytes_max, struct json **ret_json, struct note *note);
void json_close(struct json *json); /* NULL is fine */
/* Appends the value as one line, or for people as several; all or nothing, see ndjson_end(). */
enum err json_write(const struct json *json, enum ndjson_style style, struct buf *out);
bool json_same(const struct json *a, const struct json *b); /* the order of keys does not matter */

enum json_kind json_kind(const struct json *json);
const char *json_kind_name(enum json_kind kind); /* for messages, for example "integer" */

/* A path consists of keys joined with dots: "spec.host". In an array a decimal index replaces the
 * key: "items.0.id". The empty path is the value itself. Returns NULL if there is no such value. */
const struct json *json_find(const struct json *json, const char *path);
/* the key may contain dots */
const struct json *json_member(const struct json *object, struct str key);
size_t json_count(const struct json *container); /* number of members or items; else 0 */
const struct json *json_item(const struct json *array, size_t index);
/* Walks an object in the order of the text. Start with *cursor NULL; returns false at the end. */
bool json_next(const struct json *object, void **cursor, struct str *ret_key,
               const struct json **ret_value);

/* Return the field at a path if it has the required kind; null is also a kind. ERR_NOT_FOUND:
 * "field 'a.b': missing". ERR_INVALID: "field 'a.b': expected integer, got string". */
enum err json_get_string(const struct json *json, const char *path, struct str *ret_text,
                         struct note *note);
enum err json_get_i64(const struct json *json, const char *path, int64_t *ret_number,
                      struct note *note);
enum err json_get_u64(const struct json *json, const char *path, uint64_t *ret_number,
                      struct note *note); /* 0 to 2^63-1; json_open refuses larger integers */
enum err json_get_double(const struct json *json, const char *path, double *ret_number,
                         struct note *note); /* also accepts an integer, exact up to 2^53 */
enum err json_get_bool(const struct json *json, const char *path, bool *ret_truth,
                       struct note *note);
enum err json_get_object(const struct json *json, const char *path, const struct json **ret_object,
                         struct note *note);
enum err json_get_array(const struct json *json, const char *path, const struct json **ret_array,
                        struct note *note);
#endif
