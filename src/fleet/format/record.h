/* SPDX-License-Identifier: Apache-2.0 */
/* Reads JSON objects of a known shape, token by token, by the rules of the original's reader.
 * Private to fleet/format.
 * - keys may be upper or lower case (ASCII), and unknown keys are ignored
 * - null leaves a text or number unchanged
 * - the last duplicate is used, but an object that appears twice becomes one object with all fields
 *
 * A shape is a table of fields; each field has the slot of its value. A field may contain rows.
 * Each row is a separate record: `row` is called before the next row is read. */
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
    SHAPE_TEXT,   /* texts[payload][slot] */
    SHAPE_TIME,   /* stored in texts[payload][slot], not parsed */
    SHAPE_NUMBER, /* stored in numbers[slot]: an integer of at least 0 */
    SHAPE_FLAG,   /* stored in numbers[slot]; 0 is not written */
    SHAPE_OBJECT, /* an object with its own fields */
    /* An object whose texts belong to payload `slot`, so that unexpected payloads overwrite
     * nothing. Sets bit `slot` of `present`; null clears the bit. */
    SHAPE_PAYLOAD,
    SHAPE_SLICES, /* a map from shard id to number, read into `slices` */
    SHAPE_ROW,
    SHAPE_ROWS,    /* a list of rows; may appear only once */
    SHAPE_MAP,     /* a map of texts, each a row of two; may appear only once */
    SHAPE_IGNORED, /* any value */
};
struct record_shape;
struct shape_field {
    struct str name;
    enum shape_kind kind;
    uint8_t slot;
    const struct record_shape *shape; /* for OBJECT, PAYLOAD, ROW, ROWS */
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
    struct arena *arena; /* memory of copied texts and of slices */
    struct str stable;   /* texts within these bytes need no copy */
    bool strict;         /* unknown keys are refused */
    /* Called at the end of a row, with the slot of its field. An error ends the reading. */
    enum err (*row)(void *owner, uint8_t slot, struct note *note);
    void *owner;
    /* the result */
    /* payload 0 is for texts outside of payloads; NULL: unset */
    struct str texts[RECORD_PAYLOADS][RECORD_TEXTS];
    uint64_t numbers[RECORD_NUMBERS];
    uint32_t present; /* bit `slot`: the field was present, for PAYLOAD, ROWS and MAP */
    struct fleet_slice *slices;
    size_t slice_count, slice_cap;
    /* the parser's position */
    struct {
        const struct record_shape *shape; /* of the object; NULL in SLICES or MAP */
        const struct shape_field *field;  /* for the next value; NULL: unknown field */
        uint8_t payload;
        bool list; /* a ROWS list, between two rows */
    } levels[RECORD_DEPTH];
    uint32_t depth, skipped; /* open levels; levels inside an unknown value */
    uint64_t offset;         /* where record_parse stopped */
};

/* Clears the record, except arena, stable and row. */
void record_begin(struct format_record *record, const struct record_shape *shape);
/* Handles one token; *ret_done after the last token. Null instead of the record is an empty record.
 * ERR_PARSE with a note that names the field, ERR_NOMEM, errors of `row`. */
enum err record_token(struct format_record *record, enum json_token token, struct str text,
                      bool *ret_done, struct note *note);
/* Reads `bytes` as one record, with texts up to text_max. ERR_PARSE, ERR_TOO_LARGE, ERR_NOMEM. */
enum err record_parse(struct format_record *record, struct str bytes, size_t text_max,
                      struct note *note);

/* Appends a text in quotes, with the original's escapes. ERR_INVALID: not UTF-8. */
enum err json_text_put(struct buf *into, struct str text);
/* `before` is the character in front of the quoted name. */
enum err json_name_put(struct buf *into, char before, struct str name);
/* Appends {"a":1,"b":2}, or null if empty. `slices` is sorted; the last duplicate is used. */
enum err json_slices_put(struct buf *into, const struct fleet_slice *slices, size_t count);
#endif
