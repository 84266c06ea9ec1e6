/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a JSON object into a struct. A table maps keys to struct members and gives the allowed
 * values.
 *
 * Texts and lists are copied into an arena, so the document may be closed. The first wrong field
 * ends the reading, with its path in the note: "spread[1]: max-skew: 0, 1 to 9 is allowed". */
#ifndef TEXT_JSON_FIELDS_H
#define TEXT_JSON_FIELDS_H
#include <stddef.h>

#include "base/arena.h"
#include "text/json.h"

/* The type of a field and of its struct member. */
enum json_as {
    JSON_AS_TEXT,   /* struct str */
    JSON_AS_NUMBER, /* an integer of 4 or 8 bytes */
    JSON_AS_DOUBLE, /* double; accepts integers, too */
    JSON_AS_BOOL,   /* bool */
    JSON_AS_WORD,   /* an enum: the text's index in `words` */
    JSON_AS_TEXTS,  /* const struct str *, with a member for the number of items */
    JSON_AS_PAIRS,  /* an object of texts, as pairs of struct str (name, text), with a count */
    JSON_AS_ROW,    /* a struct, read with the table `row` */
    JSON_AS_ROWS,   /* pointer to a const array of structs, with a count */
    JSON_AS_OWN,    /* read by the function `own` */
};
struct json_fields;
/* Reads a field by code. `into` points to the member. The caller adds the key to the note. */
typedef enum err json_own_fn(const struct json *value, void *into, struct arena *arena,
                             struct note *note);
struct json_field {
    const char *key;
    enum json_as as;
    size_t offset, size, count; /* offset and size of the member, and offset of its item count */
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
    const void *usual; /* initial value of an item of ROWS; NULL: all bytes are zero */
    bool loose;        /* ignore unknown keys and null, instead of ERR_INVALID */
};
/* Reads an object. Members without a key in the object stay unchanged. After an error `into` is
 * partly written. ERR_INVALID with a note, ERR_NOMEM, or an error from `own`. */
enum err json_fields_read(const struct json *object, const struct json_fields *fields, void *into,
                          struct arena *arena, struct note *note);
/* Functions for use in `own`. */
enum err json_text(const struct json *value, struct str *into, struct arena *arena,
                   struct note *note);
enum err json_wrong(struct note *note, const char *what); /* returns ERR_INVALID with a note */
#endif
