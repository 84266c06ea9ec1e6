/* SPDX-License-Identifier: Apache-2.0 */
/* Open TOML documents: look-up, walks and typed getters. Any thread may read a document, because a
 * document never changes. */
#include "text/toml.h"

#include <stdio.h>
#include <string.h>

#include "text/toml_impl.h"

static const char *const type_names[TOML_TYPE_COUNT] = {
    [TOML_STRING] = "a string",
    [TOML_INTEGER] = "an integer",
    [TOML_FLOAT] = "a float",
    [TOML_BOOLEAN] = "a boolean",
    [TOML_OFFSET_DATETIME] = "an offset date-time",
    [TOML_LOCAL_DATETIME] = "a local date-time",
    [TOML_LOCAL_DATE] = "a local date",
    [TOML_LOCAL_TIME] = "a local time",
    [TOML_ARRAY] = "an array",
    [TOML_TABLE] = "a table",
};

const char *toml_type_article_name(enum toml_type type)
{
    assert(type < TOML_TYPE_COUNT);
    return type_names[type];
}

static enum err parse(struct toml_parser *p)
{
    enum err err = toml_check_text(p);

    if (!err)
        err = toml_add(p, NULL, NULL,
                       (struct toml_new){.type = TOML_TABLE, .form = TOML_HEADER, .at = {1, 1}},
                       &p->document->root);
    return err ? err : toml_parse_document(p);
}

enum err toml_open(struct str input, size_t memory_max, struct toml **ret_document,
                   struct toml_position *where, struct note *note)
{
    struct toml_parser p = {.line = 1, .mark_column = 1, .where = where, .note = note};
    struct arena arena;
    enum err err;

    if (str_starts(input, STR("\xef\xbb\xbf"))) input = str_tail(input, 3); /* byte order mark */
    p.at = p.mark = input.len > 0 ? input.at : "";
    p.end = p.at + input.len;
    if (input.len > memory_max || input.len > UINT32_MAX)
        return toml_fail(&p, (struct toml_position){1, 1}, ERR_TOO_LARGE,
                         "the file has %zu bytes and may have %zu", input.len,
                         min_size(memory_max, UINT32_MAX));
    arena_init(&arena, memory_max);
    p.document = ARENA_NEW(&arena, struct toml);
    if (!p.document) {
        bool too_small = memory_max < 2 * sizeof(struct toml);
        arena_deinit(&arena);
        return toml_fail(
            &p, (struct toml_position){1, 1}, too_small ? ERR_TOO_LARGE : ERR_NOMEM, "%s",
            too_small ? "the memory limit leaves no room for a document" : "out of memory");
    }
    p.document->arena = arena;
    err = parse(&p);
    if (err) {
        toml_close(p.document);
        return err;
    }
    *ret_document = p.document;
    return ERR_OK;
}

void toml_close(struct toml *document)
{
    struct arena arena;

    if (!document) return;
    arena = document->arena; /* a copy, because the arena contains `document` */
    arena_deinit(&arena);
}

const struct toml_value *toml_root(const struct toml *document)
{
    return document->root;
}

const struct toml_value *toml_get(const struct toml_value *table, struct str key)
{
    return table->type == TOML_TABLE ? toml_lookup(table, key) : NULL;
}

const struct toml_value *toml_find(const struct toml_value *table, const char *path)
{
    struct str rest = str_from(path), key;

    while (table && str_split(&rest, '.', &key)) table = toml_get(table, key);
    return table;
}

static bool has_children(const struct toml_value *value)
{
    return value->type == TOML_TABLE || value->type == TOML_ARRAY;
}

const struct toml_value *toml_first(const struct toml_value *container)
{
    return has_children(container) ? container->children.first : NULL;
}

const struct toml_value *toml_next(const struct toml_value *value)
{
    return value->next;
}

size_t toml_count(const struct toml_value *container)
{
    return has_children(container) ? container->children.count : 0;
}

enum toml_type toml_type(const struct toml_value *value)
{
    return (enum toml_type)value->type;
}

struct str toml_key(const struct toml_value *value)
{
    return value->key_at.line ? value->key : STR_EMPTY;
}

struct toml_position toml_position(const struct toml_value *value)
{
    return value->at;
}

struct toml_position toml_key_position(const struct toml_value *value)
{
    return value->key_at.line ? value->key_at : value->at;
}

static size_t index_in_parent(const struct toml_value *value)
{
    size_t index = 0;

    for (const struct toml_value *v = value->parent->children.first; v != value; v = v->next)
        index++;
    return index;
}

void toml_path(const struct toml_value *value, char path[TOML_PATH_CAP])
{
    const struct toml_value *way[TOML_DEPTH_MAX + 1];
    size_t count = 0, len = 0;

    for (; value->parent; value = value->parent) way[count++] = value;
    path[0] = '\0';
    while (count > 0 && len < TOML_PATH_CAP) {
        const struct toml_value *step = way[--count];
        size_t room = TOML_PATH_CAP - len;
        if (step->parent->type == TOML_ARRAY)
            len += (size_t)snprintf(path + len, room, "[%zu]", index_in_parent(step));
        else
            len += (size_t)snprintf(path + len, room, "%s%s", len > 0 ? "." : "",
                                    toml_quote(step->key).text);
    }
    if (len >= TOML_PATH_CAP) memcpy(path + TOML_PATH_CAP - 4, "...", 4);
}

static enum err wrong_type(const struct toml_value *value, const char *wanted, struct note *note)
{
    char path[TOML_PATH_CAP];

    toml_path(value, path);
    return note_fail(note, ERR_INVALID, "line %u, column %u: '%s' must be %s, not %s",
                     value->at.line, value->at.column, path, wanted,
                     toml_type_article_name(toml_type(value)));
}

enum err toml_string(const struct toml_value *value, struct str *ret_text, struct note *note)
{
    if (value->type != TOML_STRING) return wrong_type(value, "a string", note);
    *ret_text = value->string;
    return ERR_OK;
}

enum err toml_i64(const struct toml_value *value, int64_t *ret_number, struct note *note)
{
    if (value->type != TOML_INTEGER) return wrong_type(value, "an integer", note);
    *ret_number = value->integer;
    return ERR_OK;
}

enum err toml_double(const struct toml_value *value, double *ret_number, struct note *note)
{
    if (value->type == TOML_INTEGER)
        *ret_number = (double)value->integer;
    else if (value->type == TOML_FLOAT)
        *ret_number = value->real;
    else
        return wrong_type(value, "a number", note);
    return ERR_OK;
}

enum err toml_bool(const struct toml_value *value, bool *ret_truth, struct note *note)
{
    if (value->type != TOML_BOOLEAN) return wrong_type(value, "true or false", note);
    *ret_truth = value->boolean;
    return ERR_OK;
}

enum err toml_datetime(const struct toml_value *value, struct rfc3339_fields *ret_time,
                       struct note *note)
{
    if (value->type < TOML_OFFSET_DATETIME || value->type > TOML_LOCAL_TIME)
        return wrong_type(value, "a date or time", note);
    *ret_time = value->datetime;
    return ERR_OK;
}

static const struct toml_value *required(const struct toml_value *table, const char *path,
                                         struct note *note)
{
    const struct toml_value *value = toml_find(table, path);

    if (!value) note_set(note, "'%s' is missing", path);
    return value;
}

enum err toml_find_string(const struct toml_value *table, const char *path, struct str *ret_text,
                          struct note *note)
{
    const struct toml_value *value = required(table, path, note);
    return value ? toml_string(value, ret_text, note) : ERR_NOT_FOUND;
}

enum err toml_find_i64(const struct toml_value *table, const char *path, int64_t *ret_number,
                       struct note *note)
{
    const struct toml_value *value = required(table, path, note);
    return value ? toml_i64(value, ret_number, note) : ERR_NOT_FOUND;
}

enum err toml_find_bool(const struct toml_value *table, const char *path, bool *ret_truth,
                        struct note *note)
{
    const struct toml_value *value = required(table, path, note);
    return value ? toml_bool(value, ret_truth, note) : ERR_NOT_FOUND;
}
