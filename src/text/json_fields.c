/* SPDX-License-Identifier: Apache-2.0 */
/* Reads an object by a table of fields. */
#include "text/json_fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN = 60 }; /* bytes of an unknown key in an error message */

enum err json_wrong(struct note *note, const char *what)
{
    return note_fail(note, ERR_INVALID, "%s", what);
}

static enum err keep(struct str text, struct str *into, struct arena *arena)
{
    char *copy = arena_dup(arena, text);

    if (copy) *into = str_of(copy, text.len);
    return copy ? ERR_OK : ERR_NOMEM;
}

enum err json_text(const struct json *value, struct str *into, struct arena *arena,
                   struct note *note)
{
    struct str text;

    if (json_get_string(value, "", &text, NULL)) return json_wrong(note, "must be a text");
    return keep(text, into, arena);
}

static enum err read_number(const struct json *value, const struct json_field *field, void *into,
                            struct note *note)
{
    int64_t number;
    int32_t half;

    if (json_get_i64(value, "", &number, NULL)) return json_wrong(note, "must be a whole number");
    if (number < field->least || number > field->most)
        return note_fail(note, ERR_INVALID,
                         "%" PRId64 ", between %" PRId64 " and %" PRId64 " is allowed", number,
                         field->least, field->most);
    half = (int32_t)number;
    if (field->size == sizeof number)
        memcpy(into, &number, sizeof number);
    else
        memcpy(into, &half, sizeof half);
    return ERR_OK;
}

static enum err no_such_word(const char *const *words, struct note *note)
{
    size_t len = 0;

    note_set(note, "must be");
    for (; *words; words++) {
        if (!**words) continue;
        len = strlen(note->text);
        snprintf(note->text + len, sizeof note->text - len, "%s%s",
                 len == strlen("must be") ? " "
                 : words[1]               ? ", "
                                          : " or ",
                 *words);
    }
    return ERR_INVALID;
}

static enum err read_word(const struct json *value, const struct json_field *field, void *into,
                          struct note *note)
{
    struct str text = STR_EMPTY;

    (void)json_get_string(value, "", &text, NULL);
    for (int i = 0; text.len > 0 && field->words[i]; i++) {
        struct str word = str_from(field->words[i]);

        if (field->any_case ? !str_equal_nocase(text, word) : !str_equal(text, word)) continue;
        memcpy(into, &i, sizeof i);
        return ERR_OK;
    }
    return no_such_word(field->words, note);
}

/* -- lists -- */

static enum err open_list(const struct json *value, const struct json_field *field,
                          enum json_kind kind, size_t element, void *record, struct arena *arena,
                          char **ret_elements, struct note *note)
{
    size_t count = json_count(value);
    char *elements;

    if (json_kind(value) != kind)
        return json_wrong(note, field->as == JSON_AS_PAIRS   ? "must be a table of texts"
                                : field->as == JSON_AS_TEXTS ? "must be a list of texts"
                                                             : "must be a list of tables");
    if (count < (size_t)field->least || count > (size_t)field->most)
        return note_fail(note, ERR_INVALID, "%zu entries, %" PRId64 " to %" PRId64 " are allowed",
                         count, field->least, field->most);
    elements = arena_calloc(arena, count, element);
    if (!elements) return ERR_NOMEM;
    memcpy((char *)record + field->offset, &elements, sizeof elements);
    memcpy((char *)record + field->count, &count, sizeof count);
    *ret_elements = elements;
    return ERR_OK;
}

static enum err read_texts(const struct json *value, const struct json_field *field, void *record,
                           struct arena *arena, struct note *note)
{
    char *at;
    enum err err =
        open_list(value, field, JSON_KIND_ARRAY, sizeof(struct str), record, arena, &at, note);

    for (size_t i = 0; !err && i < json_count(value); i++, at += sizeof(struct str))
        err = json_text(json_item(value, i), (void *)at, arena, note);
    return err;
}

static enum err read_pairs(const struct json *value, const struct json_field *field, void *record,
                           struct arena *arena, struct note *note)
{
    const struct json *text;
    void *cursor = NULL;
    struct str key;
    char *at;
    enum err err =
        open_list(value, field, JSON_KIND_OBJECT, 2 * sizeof(struct str), record, arena, &at, note);

    for (; !err && json_next(value, &cursor, &key, &text); at += 2 * sizeof key) {
        err = keep(key, (void *)at, arena);
        if (!err) err = json_text(text, (void *)(at + sizeof key), arena, note);
        if (err && err != ERR_NOMEM)
            note_prefix(note, "%.*s", (int)min_size(key.len, SHOWN), key.at);
    }
    return err;
}

static enum err read_rows(const struct json *value, const struct json_field *field, void *record,
                          struct arena *arena, struct note *note)
{
    const struct json_fields *row = field->row;
    char *at;
    enum err err = open_list(value, field, JSON_KIND_ARRAY, row->size, record, arena, &at, note);

    for (size_t i = 0; !err && i < json_count(value); i++, at += row->size) {
        if (row->usual) memcpy(at, row->usual, row->size);
        err = json_fields_read(json_item(value, i), row, at, arena, note);
        if (err && err != ERR_NOMEM) note_prefix(note, "[%zu]", i);
    }
    return err;
}

/* -- the object -- */

static enum err read_field(const struct json *value, const struct json_field *field, void *record,
                           struct arena *arena, struct note *note)
{
    void *into = (char *)record + field->offset;

    switch (field->as) {
    case JSON_AS_TEXT: return json_text(value, into, arena, note);
    case JSON_AS_NUMBER: return read_number(value, field, into, note);
    case JSON_AS_DOUBLE:
        return json_get_double(value, "", into, NULL) ? json_wrong(note, "must be a number")
                                                      : ERR_OK;
    case JSON_AS_BOOL:
        return json_get_bool(value, "", into, NULL) ? json_wrong(note, "must be true or false")
                                                    : ERR_OK;
    case JSON_AS_WORD: return read_word(value, field, into, note);
    case JSON_AS_TEXTS: return read_texts(value, field, record, arena, note);
    case JSON_AS_PAIRS: return read_pairs(value, field, record, arena, note);
    case JSON_AS_ROW: return json_fields_read(value, field->row, into, arena, note);
    case JSON_AS_ROWS: return read_rows(value, field, record, arena, note);
    case JSON_AS_OWN: return field->own(value, into, arena, note);
    }
    return ERR_INTERNAL;
}

static const struct json_field *find_field(const struct json_fields *fields, struct str key)
{
    for (size_t i = 0; i < fields->count; i++)
        if (str_equal(key, str_from(fields->all[i].key))) return &fields->all[i];
    return NULL;
}

enum err json_fields_read(const struct json *object, const struct json_fields *fields, void *into,
                          struct arena *arena, struct note *note)
{
    const struct json *value;
    void *cursor = NULL;
    struct str key;
    enum err err = ERR_OK;

    if (json_kind(object) != JSON_KIND_OBJECT) return json_wrong(note, "must be a table");
    while (!err && json_next(object, &cursor, &key, &value)) {
        const struct json_field *field = find_field(fields, key);

        if (fields->loose && json_kind(value) == JSON_KIND_NULL) continue;
        if (field) {
            err = read_field(value, field, into, arena, note);
            if (err && err != ERR_NOMEM) note_prefix(note, "%s", field->key);
        } else if (!fields->loose) {
            note_set(note, "unknown key '%.*s'", (int)min_size(key.len, SHOWN), key.at);
            err = ERR_INVALID;
        }
    }
    for (size_t i = 0; !err && i < fields->count; i++) {
        if (!fields->all[i].needed || json_member(object, str_from(fields->all[i].key))) continue;
        note_set(note, "%s: is missing", fields->all[i].key);
        err = ERR_INVALID;
    }
    return err;
}
