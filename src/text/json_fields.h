/* SPDX-License-Identifier: Apache-2.0 */
/* A JSON object read into a struct, as a table says: which key is which member, and what it may be.
 *
 * Texts and lists are copied into an arena, so the document may be closed. The first member that is
 * wrong ends it, with the way to it in the note: "spread[1]: max-skew: 0, 1 to 9 is allowed". */
#ifndef TEXT_JSON_FIELDS_H
#define TEXT_JSON_FIELDS_H
#include <stddef.h>

#include "base/arena.h"
#include "text/json.h"

/* What the member is. */
enum json_as {
    JSON_AS_TEXT,   /* struct str */
    JSON_AS_NUMBER, /* an integer of 4 or 8 bytes */
    JSON_AS_DOUBLE, /* double; an integer, too */
    JSON_AS_BOOL,   /* bool */
    JSON_AS_WORD,   /* an enum: the place of the text in `words` */
    JSON_AS_TEXTS,  /* const struct str *, with a count */
    JSON_AS_PAIRS,  /* texts by name: two struct str each, name and text; with a count */
    JSON_AS_ROW,    /* a struct, as `row` says */
    JSON_AS_ROWS,   /* a const pointer to so many, with a count */
    JSON_AS_OWN,    /* `own` reads it */
};
struct json_fields;
/* `into` is the member. The key is put before what it notes. */
typedef enum err json_own_fn(const struct json *value, void *into, struct arena *arena,
                             struct note *note);
struct json_field {
    const char *key;
    enum json_as as;
    size_t offset, size, count; /* of the member; of its count */
    int64_t least, most;        /* NUMBER, both included; TEXTS, PAIRS, ROWS: how many */
    const char *const *words;   /* ends with NULL; "" is none */
    const struct json_fields *row;
    json_own_fn *own;
    bool needed, any_case; /* any_case: of a WORD */
};
#define JSON_MEMBER(type, member)                                                                  \
    .offset = offsetof(type, member), .size = sizeof(((type *)NULL)->member)
#define JSON_COUNT(type, member) .count = offsetof(type, member)
#define JSON_FIELDS(fields)      .all = (fields), .count = ARRAY_LEN(fields)
struct json_fields {
    const struct json_field *all;
    size_t count;
    size_t size;       /* of the struct, for ROWS */
    const void *usual; /* what an element of ROWS is before it is read; NULL: zeroed */
    bool loose;        /* keys that are not in the table, and null, are passed over; else refused */
};
/* Members that are not given stay as they are. ERR_INVALID with a note, ERR_NOMEM, what `own`
 * answers; then `into` is half written. */
enum err json_fields_read(const struct json *object, const struct json_fields *fields, void *into,
                          struct arena *arena, struct note *note);
/* One of what `own` is made of. */
enum err json_text(const struct json *value, struct str *into, struct arena *arena,
                   struct note *note);
enum err json_wrong(struct note *note, const char *what); /* ERR_INVALID, with the note */
#endif
