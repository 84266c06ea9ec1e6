/* SPDX-License-Identifier: Apache-2.0 */
/* Reads TOML 1.0 into a tree that remembers the position of every value.
 *
 * Knows the language, not what the keys mean. Every value carries its line and column, so that a
 * configuration error can point at the file. Lines and columns count from 1; a column counts code
 * points (a tab is one, a byte order mark at the start is none). A line break inside a multi-line
 * string is always "\n" in the value, however the file was saved.
 *
 * One document owns all its memory, taken from one bounded arena: values and strings are borrowed
 * from it and die with toml_close(). The input may be freed as soon as toml_open() returned.
 * Strings are UTF-8 and may hold NUL (written \u0000). */
#ifndef TEXT_TOML_H
#define TEXT_TOML_H
#include "base/note.h"
#include "base/str.h"
#include "text/rfc3339.h"

enum {
    /* Values inside values, however they are written (brackets, braces, dotted keys, headers); more
     * is refused with ERR_TOO_LARGE, so that a walk over the tree may recurse. */
    TOML_DEPTH_MAX = 128,
    TOML_PATH_CAP = 128,
};

struct toml;       /* a document; one owner, read by any thread */
struct toml_value; /* a value in it; the root is a table */

struct toml_position {
    uint32_t line, column;
};

enum toml_type {
    TOML_STRING,
    TOML_INTEGER,
    TOML_FLOAT,
    TOML_BOOLEAN,
    TOML_OFFSET_DATETIME,
    TOML_LOCAL_DATETIME,
    TOML_LOCAL_DATE,
    TOML_LOCAL_TIME,
    TOML_ARRAY,
    TOML_TABLE,
    TOML_TYPE_COUNT
};

/* Reads a whole document. `memory_max` bounds the input and, separately, all that is made of it;
 * about 120 bytes per value plus the text are needed. ERR_PARSE: not TOML, or a number that 64 bits
 * or a double cannot hold. ERR_TOO_LARGE: past memory_max or TOML_DEPTH_MAX. ERR_NOMEM. After an
 * error `where` and `note` (each may be NULL) say what is wrong: "line 3, column 7: key 'a' is
 * defined twice (first at line 1)". */
enum err toml_open(struct str input, size_t memory_max, struct toml **ret_document,
                   struct toml_position *where, struct note *note);
void toml_close(struct toml *document); /* NULL is fine */
const struct toml_value *toml_root(const struct toml *document);

/* The value under one key, or NULL; NULL, too, when `table` is none. */
const struct toml_value *toml_get(const struct toml_value *table, struct str key);
/* The value under a path of plain keys, "server.tls.cert", or NULL. */
const struct toml_value *toml_find(const struct toml_value *table, const char *path);

/* Walks a table or array in file order: a key's place is where it was first mentioned. NULL at the
 * end, and for a value that holds no others. */
const struct toml_value *toml_first(const struct toml_value *container);
const struct toml_value *toml_next(const struct toml_value *value);
size_t toml_count(const struct toml_value *container);

enum toml_type toml_type(const struct toml_value *value);
const char *toml_type_article_name(enum toml_type type); /* "an integer" */
struct str toml_key(const struct toml_value *value);     /* empty in an array and for the root */
struct toml_position toml_position(const struct toml_value *value); /* where the value begins */
struct toml_position toml_key_position(
    const struct toml_value *value); /* its key; else the value */
/* The way from the root, "servers[1].tls.cert", NUL-terminated; what does not fit ends in "...". */
void toml_path(const struct toml_value *value, char path[TOML_PATH_CAP]);

/* What a value is. ERR_INVALID for another type, with a note that points at the place:
 * "line 4, column 8: 'server.port' must be an integer, not a string". No type turns into another,
 * except that a float may be written as an integer (exact up to 2^53). */
enum err toml_string(const struct toml_value *value, struct str *ret_text, struct note *note);
enum err toml_i64(const struct toml_value *value, int64_t *ret_number, struct note *note);
enum err toml_double(const struct toml_value *value, double *ret_number, struct note *note);
enum err toml_bool(const struct toml_value *value, bool *ret_truth, struct note *note);
enum err toml_datetime(const struct toml_value *value, struct rfc3339_fields *ret_time,
                       struct note *note);
/* The same for a path in a table; ERR_NOT_FOUND, "'server.port' is missing", when it is absent. */
enum err toml_find_string(const struct toml_value *table, const char *path, struct str *ret_text,
                          struct note *note);
enum err toml_find_i64(const struct toml_value *table, const char *path, int64_t *ret_number,
                       struct note *note);
enum err toml_find_bool(const struct toml_value *table, const char *path, bool *ret_truth,
                        struct note *note);
#endif
