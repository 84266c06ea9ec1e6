/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a JSON object into a struct, by a table of keys, struct members and allowed values.
 *
 * Texts and lists are copied into an arena, so the document may be closed afterwards. Reading stops
 * at the first wrong field and notes its path: "spread[1]: max-skew: 0, 1 to 9 is allowed". */
#ifndef TEXT_JSON_FIELDS_H
#define TEXT_JSON_FIELDS_H
#include <stddef.h>

#include "base/arena.h"
#include "text/json.h"

enum json_as {
    JSON_AS_TEXT,   /* struct str */
    JSON_AS_NUMBER, /* an integer of 4 or 8 bytes */
    JSON_AS_DOUBLE, /* double; accepts integers, too */
    JSON_AS_BOOL,   /* bool */
    JSON_AS_WORD,   /* an enum: the text's index in `words` */
    JSON_AS_TEXTS,  /* array of const struct str, with an item count */
    JSON_AS_PAIRS, /* an object of texts, as (name, text) pairs of struct str, with an item count */
    JSON_AS_ROW,   /* a struct, read with the table `row` */
    JSON_AS_ROWS,  /* array of const structs, with an item count */
    JSON_AS_OWN,   /* read by the function `own` */
};
struct json_fields;
/* Reads a field into the member at `into`. The caller adds the key to the note. */
typedef enum err json_own_fn(const struct json *value, void *into, struct arena *arena,
                             struct note *note);
struct json_field {
    const char *key;
    enum json_as as;
    size_t offset, size, count; /* of the member; `count`: offset of its item count */
    int64_t least, most;      /* range of a NUMBER, or of the item count of TEXTS, PAIRS or ROWS */
    const char *const *words; /* ends with NULL; "" at an index without a word */
    const struct json_fields *row;
    json_own_fn *own;
    bool needed, any_case; /* any_case: a WORD matches in any case */
};
#define JSON_MEMBER(type, member)                                                                  \
    .offset = offsetof(type, member), .size = sizeof(((type *)NULL)->member)
#define JSON_COUNT(type, member) .count = offsetof(type, member)
#define JSON_FIELDS(fields)      .all = (fields), .count = ARRAY_LEN(fields)
struct json_fields {
    const struct json_field *all;
    size_t count;
    size_t size;       /* size of the struct, for ROWS */
    const void *usual; /* initial value of an item of ROWS; NULL: zeroed */
    bool loose;        /* ignore unknown keys and null; otherwise ERR_INVALID */
};
/* Members whose key is missing stay unchanged. After an error `into` is partly written. ERR_INVALID
 * with a note, ERR_NOMEM, or an error of `own`. */
enum err json_fields_read(const struct json *object, const struct json_fields *fields, void *into,
                          struct arena *arena, struct note *note);
/* Functions for use in `own`. */
enum err json_text(const struct json *value, struct str *into, struct arena *arena,
                   struct note *note);
enum err json_wrong(struct note *note, const char *what); /* returns ERR_INVALID with a note */
#endif
