/* SPDX-License-Identifier: Apache-2.0 */
/* Reads JSON objects of a known shape, token by token. Pure functions. */
#include "fleet/format/record.h"

#include <string.h>

static void record_clear(struct format_record *record)
{
    for (size_t i = 0; i < RECORD_PAYLOADS; i++)
        for (size_t j = 0; j < RECORD_TEXTS; j++) record->texts[i][j] = (struct str){NULL, 0};
    memset(record->numbers, 0, sizeof record->numbers);
    record->slices = NULL;
    record->slice_count = record->slice_cap = 0;
}

void record_begin(struct format_record *record, const struct record_shape *shape)
{
    record_clear(record);
    record->present = 0;
    record->skipped = 0;
    record->depth = 0;
    memset(&record->levels[0], 0, sizeof record->levels[0]);
    record->levels[0].shape = shape; /* entered by the first token */
}

static enum err record_keep(const struct format_record *record, struct str text,
                            struct str *ret_text)
{
    struct str stable = record->stable;
    char *copy;

    if (stable.len > 0 && text.at >= stable.at && text.at + text.len <= stable.at + stable.len) {
        *ret_text = text;
        return ERR_OK;
    }
    copy = arena_dup(record->arena, text);
    if (!copy) return ERR_NOMEM;
    *ret_text = str_of(copy, text.len);
    return ERR_OK;
}

static enum err unexpected(struct str name, const char *expected, struct note *note)
{
    return note_fail(note, ERR_PARSE, "field '%.*s': expected %s", STR_ARG(name), expected);
}

static const struct shape_field *field_of(const struct record_shape *shape, struct str name)
{
    for (size_t i = 0; i < shape->count; i++)
        if (str_equal_nocase(shape->fields[i].name, name)) return &shape->fields[i];
    return NULL;
}

static enum err level_enter(struct format_record *record, const struct record_shape *shape,
                            uint8_t payload, bool list)
{
    assert(record->depth < RECORD_DEPTH); /* every shape is a constant of small depth */
    record->levels[record->depth].shape = shape;
    record->levels[record->depth].field = NULL;
    record->levels[record->depth].payload = payload;
    record->levels[record->depth].list = list;
    record->depth++;
    return ERR_OK;
}

/* The list, map or object that is being read. */
static const struct shape_field *field_open(const struct format_record *record)
{
    return record->depth > 1 ? record->levels[record->depth - 2].field : NULL;
}

/* -- rows -- */
static enum err row_null(struct format_record *record, const struct shape_field *field,
                         struct note *note)
{
    record_clear(record);
    return record->row(record->owner, field->slot, note);
}

static enum err list_token(struct format_record *record, enum json_token token, struct note *note)
{
    const struct shape_field *field = field_open(record);

    if (token == TOKEN_ARRAY_END) {
        record->depth--;
        return ERR_OK;
    }
    if (token == TOKEN_NULL) return row_null(record, field, note);
    if (token != TOKEN_OBJECT) return unexpected(field->name, "objects", note);
    record_clear(record);
    return level_enter(record, field->shape, 0, false);
}

static enum err map_token(struct format_record *record, enum json_token token, struct str text,
                          struct note *note)
{
    const struct shape_field *field = field_open(record);

    if (token == TOKEN_KEY) {
        record_clear(record);
        return record_keep(record, text, &record->texts[0][0]);
    }
    if (token == TOKEN_STRING)
        record->texts[0][1] = text;
    else if (token != TOKEN_NULL)
        return unexpected(field->name, "texts", note);
    return record->row(record->owner, field->slot, note);
}

static enum err object_end(struct format_record *record, struct note *note)
{
    const struct shape_field *field = field_open(record);
    bool row = field && field->kind == SHAPE_ROW;

    record->depth--;
    if (record->depth > 0 && record->levels[record->depth - 1].list) {
        field = field_open(record);
        row = true;
    }
    return row ? record->row(record->owner, field->slot, note) : ERR_OK;
}

/* -- the map of quota slices -- */
static enum err slice_key(struct format_record *record, struct str text)
{
    struct fleet_slice *slices = record->slices;

    if (record->slice_count == record->slice_cap) {
        size_t cap = record->slice_cap ? record->slice_cap * 2 : 16;
        slices = arena_calloc(record->arena, cap, sizeof slices[0]);
        if (!slices) return ERR_NOMEM;
        if (record->slice_count > 0)
            memcpy(slices, record->slices, record->slice_count * sizeof slices[0]);
        record->slices = slices;
        record->slice_cap = cap;
    }
    slices[record->slice_count] = (struct fleet_slice){.slice = 0};
    return record_keep(record, text, &slices[record->slice_count++].shard);
}

static enum err slice_value(struct format_record *record, enum json_token token, struct str text,
                            struct note *note)
{
    struct fleet_slice *slice = &record->slices[record->slice_count - 1];
    int64_t number = 0;

    if (token != TOKEN_NULL && (token != TOKEN_NUMBER || str_to_i64(text, &number) ||
                                number < INT32_MIN || number > INT32_MAX))
        return note_fail(note, ERR_PARSE,
                         "field 'per_shard': '%.*s': expected a whole number of 32 bits",
                         STR_ARG(slice->shard));
    slice->slice = (int32_t)number;
    return ERR_OK;
}

/* -- fields -- */
/* Null leaves a text or number unchanged. */
static enum err field_null(struct format_record *record, const struct shape_field *field,
                           struct note *note)
{
    if (field->kind == SHAPE_PAYLOAD) record->present &= ~BIT(field->slot);
    if (field->kind == SHAPE_SLICES) record->slice_count = 0;
    return field->kind == SHAPE_ROW ? row_null(record, field, note) : ERR_OK;
}

static enum err field_value(struct format_record *record, const struct shape_field *field,
                            enum json_token token, struct str text, struct note *note)
{
    uint8_t payload = record->levels[record->depth - 1].payload;

    switch (field->kind) {
    case SHAPE_TEXT:
    case SHAPE_TIME:
        if (token != TOKEN_STRING) return unexpected(field->name, "a text", note);
        return record_keep(record, text, &record->texts[payload][field->slot]);
    case SHAPE_NUMBER:
    case SHAPE_FLAG:
        if (token != TOKEN_NUMBER || str_to_u64(text, &record->numbers[field->slot]))
            return unexpected(field->name, "a whole number", note);
        return ERR_OK;
    case SHAPE_ROWS:
        if (token != TOKEN_ARRAY) return unexpected(field->name, "a list", note);
        return level_enter(record, NULL, 0, true);
    case SHAPE_ROW:
    case SHAPE_PAYLOAD:
    case SHAPE_OBJECT:
    case SHAPE_SLICES:
    case SHAPE_MAP:
    case SHAPE_IGNORED: break;
    }
    if (token != TOKEN_OBJECT) return unexpected(field->name, "an object", note);
    if (field->kind == SHAPE_ROW) record_clear(record);
    if (field->kind == SHAPE_PAYLOAD) {
        payload = field->slot;
        record->present |= BIT(field->slot);
    }
    return level_enter(record, field->shape, payload, false); /* the shape of a map is NULL */
}

static enum err inner_token(struct format_record *record, enum json_token token, struct str text,
                            struct note *note)
{
    const struct record_shape *shape = record->levels[record->depth - 1].shape;
    const struct shape_field **field = &record->levels[record->depth - 1].field;

    if (record->levels[record->depth - 1].list) return list_token(record, token, note);
    if (token == TOKEN_OBJECT_END) return object_end(record, note);
    if (!shape && field_open(record)->kind == SHAPE_MAP)
        return map_token(record, token, text, note);
    if (!shape)
        return token == TOKEN_KEY ? slice_key(record, text)
                                  : slice_value(record, token, text, note);
    if (token == TOKEN_KEY) {
        *field = field_of(shape, text);
        if (*field || !record->strict) return ERR_OK;
        return note_fail(note, ERR_INVALID, "field '%.*s': not known here", STR_ARG(text));
    }
    if (*field && ((*field)->kind == SHAPE_ROWS || (*field)->kind == SHAPE_MAP)) {
        if (record->present & BIT((*field)->slot))
            return unexpected((*field)->name, "it once", note);
        record->present |= BIT((*field)->slot);
    }
    if (*field && token == TOKEN_NULL) return field_null(record, *field, note);
    if (*field && (*field)->kind != SHAPE_IGNORED)
        return field_value(record, *field, token, text, note);
    if (token == TOKEN_OBJECT || token == TOKEN_ARRAY) record->skipped = 1;
    return ERR_OK;
}

enum err record_token(struct format_record *record, enum json_token token, struct str text,
                      bool *ret_done, struct note *note)
{
    enum err err = ERR_OK;

    *ret_done = false;
    if (record->depth == 0) {
        *ret_done = token == TOKEN_NULL;
        if (*ret_done) return ERR_OK;
        if (token == TOKEN_OBJECT) return level_enter(record, record->levels[0].shape, 0, false);
        return note_fail(note, ERR_PARSE, "expected an object");
    }
    if (record->skipped > 0) {
        if (token == TOKEN_OBJECT || token == TOKEN_ARRAY) record->skipped++;
        if (token == TOKEN_OBJECT_END || token == TOKEN_ARRAY_END) record->skipped--;
    } else {
        err = inner_token(record, token, text, note);
    }
    *ret_done = !err && record->depth == 0;
    return err;
}

enum err record_parse(struct format_record *record, struct str bytes, size_t text_max,
                      struct note *note)
{
    struct str text = STR_EMPTY;
    enum json_token token;
    struct json_scan scan;
    bool done = false;
    enum err err;

    json_scan_init(&scan, text_max);
    do {
        err = json_scan_next(&scan, &bytes, &token, &text, note);
        if (!err && token != TOKEN_NEED && !done)
            err = record_token(record, token, text, &done, note);
    } while (!err && token != TOKEN_NEED);
    if (!err && !json_scan_whole(&scan)) err = note_fail(note, ERR_PARSE, "it ends early");
    record->offset = scan.offset;
    json_scan_deinit(&scan);
    return err;
}
