/* SPDX-License-Identifier: Apache-2.0 */
/* Reads TOML 1.0 into a tree that keeps the position of every value, for errors of configuration.
 *
 * Lines and columns start at 1. A column counts code points: a tab is one, a byte order mark is
 * none. A line break in a multi-line string is always "\n" in the value.
 *
 * Values and strings are valid until toml_close(). The input may be freed after toml_open().
 * Strings may contain NUL (written \u0000). */
#ifndef TEXT_TOML_H
#define TEXT_TOML_H
#include "base/note.h"
#include "base/str.h"
#include "text/rfc3339.h"

enum {
    /* Levels of nested values in any notation (brackets, dotted keys, headers). Recursive walks
     * rely on this limit. More levels are ERR_TOO_LARGE. */
    TOML_DEPTH_MAX = 128,
    TOML_PATH_CAP = 128,
};

struct toml;       /* a document with one owner; any thread may read it */
struct toml_value; /* a value; the root is a table */

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

/* Reads a whole document. `memory_max` limits the input and, separately, the document's memory:
 * about 120 bytes per value plus the text. `where` and `note` may be NULL.
 * ERR_PARSE: not TOML, or a number that does not fit. ERR_TOO_LARGE: above memory_max or
 * TOML_DEPTH_MAX. ERR_NOMEM. */
enum err toml_open(struct str input, size_t memory_max, struct toml **ret_document,
                   struct toml_position *where, struct note *note);
void toml_close(struct toml *document); /* NULL is allowed */
const struct toml_value *toml_root(const struct toml *document);

/* NULL if the key is absent, or `table` is no table. */
const struct toml_value *toml_get(const struct toml_value *table, struct str key);
/* Finds a path of plain keys, such as "server.tls.cert"; NULL if absent. */
const struct toml_value *toml_find(const struct toml_value *table, const char *path);

/* Walk a table or an array in file order. Return NULL at the end, and for values without
 * children. */
const struct toml_value *toml_first(const struct toml_value *container);
const struct toml_value *toml_next(const struct toml_value *value);
size_t toml_count(const struct toml_value *container);

enum toml_type toml_type(const struct toml_value *value);
const char *toml_type_article_name(enum toml_type type); /* for example "an integer" */
struct str toml_key(const struct toml_value *value);     /* empty for the root and in an array */
struct toml_position toml_position(const struct toml_value *value); /* where the value starts */
struct toml_position toml_key_position(
    const struct toml_value *value); /* without a key, the position of the value */
/* Writes the path from the root, such as "servers[1].tls.cert". A path that is too long ends in
 * "...". */
void toml_path(const struct toml_value *value, char path[TOML_PATH_CAP]);

/* Return the value if it has this type. ERR_INVALID for another type, with a note: "line 4, column
 * 8: 'server.port' must be an integer, not a string". toml_double() also accepts an integer. */
enum err toml_string(const struct toml_value *value, struct str *ret_text, struct note *note);
enum err toml_i64(const struct toml_value *value, int64_t *ret_number, struct note *note);
enum err toml_double(const struct toml_value *value, double *ret_number, struct note *note);
enum err toml_bool(const struct toml_value *value, bool *ret_truth, struct note *note);
enum err toml_datetime(const struct toml_value *value, struct rfc3339_fields *ret_time,
                       struct note *note);
/* ERR_NOT_FOUND has the note "'server.port' is missing". */
enum err toml_find_string(const struct toml_value *table, const char *path, struct str *ret_text,
                          struct note *note);
enum err toml_find_i64(const struct toml_value *table, const char *path, int64_t *ret_number,
                       struct note *note);
enum err toml_find_bool(const struct toml_value *table, const char *path, bool *ret_truth,
                        struct note *note);
#endif
