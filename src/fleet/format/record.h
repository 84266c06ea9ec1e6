/* SPDX-License-Identifier: Apache-2.0 */
/* JSON objects of a known shape, token by token, with the manners of the original's reader: keys in
 * any case (ASCII), unknown keys ignored, the last of duplicates counts (an object that comes twice
 * is one object with the fields of both), null leaves a text or number as it is.
 *
 * A shape is a table of fields, each with the slot its value goes to. A field may hold rows: each
 * is a record by itself, which `row` takes before the next one begins. Inside of fleet/format. */
#ifndef FLEET_FORMAT_RECORD_H
#define FLEET_FORMAT_RECORD_H
#include "base/arena.h"
#include "base/buf.h"
#include "base/note.h"
#include "fleet/core/fleet.h"
#include "text/json_scan.h"

enum { RECORD_TEXTS = 4, RECORD_NUMBERS = 3, RECORD_DEPTH = 8 };
enum { RECORD_PAYLOADS = FLEET_KIND_LAST + 1 };

enum shape_kind {
    SHAPE_TEXT,    /* texts[payload][slot] */
    SHAPE_TIME,    /* likewise: not parsed */
    SHAPE_NUMBER,  /* numbers[slot]: a whole number that is not negative */
    SHAPE_FLAG,    /* likewise; 0 is not written */
    SHAPE_OBJECT,  /* its fields */
    SHAPE_PAYLOAD, /* its fields, whose texts are of payload `slot`, so that a stray payload does
                      not get in the way; and bit `slot` of `present`; null clears the bit */
    SHAPE_SLICES,  /* a map of shard to number: slices */
    SHAPE_ROW,     /* an object that is a row */
    SHAPE_ROWS,    /* a list of them; once */
    SHAPE_MAP,     /* a map of text to text, each a row of two texts; once */
    SHAPE_IGNORED, /* whatever it holds */
};
struct record_shape;
struct shape_field {
    struct str name;
    enum shape_kind kind;
    uint8_t slot;
    const struct record_shape *shape; /* OBJECT, PAYLOAD, ROW, ROWS */
};
struct record_shape {
    const struct shape_field *fields;
    size_t count;
};
#define FIELD(name, kind, slot, shape)                                                             \
    {                                                                                              \
        {name, sizeof name - 1}, SHAPE_##kind, slot, shape                                         \
    }
#define SHAPE(table)                                                                               \
    {                                                                                              \
        (table), ARRAY_LEN(table)                                                                  \
    }

struct format_record {
    struct arena *arena; /* where texts are copied to, and slices */
    struct str stable;   /* texts that are in here are not copied */
    bool strict;         /* unknown keys are refused */
    /* A row of the field with this slot is read. What it answers ends the reading. */
    enum err (*row)(void *owner, uint8_t slot, struct note *note);
    void *owner;
    /* what was read */
    struct str texts[RECORD_PAYLOADS][RECORD_TEXTS]; /* 0: outside of payloads; NULL when unset */
    uint64_t numbers[RECORD_NUMBERS];
    uint32_t present; /* bit per slot of PAYLOAD, ROWS and MAP */
    struct fleet_slice *slices;
    size_t slice_count, slice_cap;
    /* where it is */
    struct {
        const struct record_shape *shape; /* of the object; NULL: of SLICES or MAP */
        const struct shape_field *field;  /* whose value comes next; NULL: unknown */
        uint8_t payload;
        bool list; /* of ROWS, between two of them */
    } levels[RECORD_DEPTH];
    uint32_t depth, skipped; /* levels open; levels of an unknown value open */
    uint64_t offset;         /* where record_parse ended */
};

/* Empties it; arena, stable and row stay. */
void record_begin(struct format_record *record, const struct record_shape *shape);
/* One token of the value; *ret_done: it was the last. A null in its place is an empty record.
 * ERR_PARSE with a note that names the field; ERR_NOMEM; what `row` answers. */
enum err record_token(struct format_record *record, enum json_token token, struct str text,
                      bool *ret_done, struct note *note);
/* The whole text as one record; `text_max` bounds one of its texts. ERR_PARSE, ERR_TOO_LARGE,
 * ERR_NOMEM. */
enum err record_parse(struct format_record *record, struct str bytes, size_t text_max,
                      struct note *note);

/* Appends a text with its quotes, escaped as the original does. ERR_INVALID: not UTF-8. */
enum err json_text_put(struct buf *into, struct str text);
/* `before`, the name with its quotes and a colon. */
enum err json_name_put(struct buf *into, char before, struct str name);
/* "{"a":1,"b":2}", or null when there is none; ascending, of the same shard the last. */
enum err json_slices_put(struct buf *into, const struct fleet_slice *slices, size_t count);
#endif
