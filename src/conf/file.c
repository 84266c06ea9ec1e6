/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a TOML file. A table is a section: "[http] listen" is the option http.listen. */
#include <stdio.h>
#include <string.h>

#include "conf/internal.h"
#include "text/toml.h"

enum { DOCUMENT_MEMORY_MAX = 16 * CONF_FILE_MAX }; /* a parsed tree is larger than its text */
enum { PATH_CAP = 128 }; /* a longer path is cut, because no option has one */

enum { NOT_HERE = OPTION_NOT_IN_FILE | OPTION_FLAG_ONLY };

struct reader {
    struct conf *conf;
    const char *file_name;
    enum err first; /* the first error */
};

static void file_refuse(struct reader *r, struct toml_position at, const char *what,
                        const char *hint)
{
    enum err err =
        conf_problem(r->conf, "%s:%u:%u: %s%s", r->file_name, at.line, at.column, what, hint);
    if (!r->first || err == ERR_NOMEM) r->first = err;
}

static void file_spell_quoted(const struct option *option, char name[OPTION_NAME_CAP])
{
    snprintf(name, OPTION_NAME_CAP, "'%s'", option->name);
}

/* Also true for an option in a section below `path`. */
static bool file_is_section(const struct option_table *table, const char *path)
{
    size_t len = strlen(path);
    for (size_t i = 0; i < table->count; i++) {
        const struct option *option = &table->options[i];
        if (option->flags & NOT_HERE) continue;
        if (strncmp(option->name, path, len) == 0 && option->name[len] == '.') return true;
        if (option->also_key && strncmp(option->also_key, path, len) == 0 &&
            option->also_key[len] == '.')
            return true;
    }
    return false;
}

static const struct option *file_find_key(const struct option_table *table, const char *path)
{
    for (size_t i = 0; i < table->count; i++) {
        const char *also = table->options[i].also_key;
        if (also && strcmp(also, path) == 0) return &table->options[i];
    }
    return option_find(table, path);
}

static void file_unknown_key(struct reader *r, const struct toml_value *value, const char *path)
{
    const struct option_table *table = r->conf->table;
    char what[NOTE_CAP], hint[CONF_HINT_CAP] = "", flag[OPTION_NAME_CAP];
    const struct option *option = option_find(table, path);

    if (option) { /* known, but not allowed in a file */
        option_flag_name(option, flag);
        snprintf(what, sizeof what, "'%s' cannot be in a file; use the flag %s", path, flag);
    } else {
        bool empty_or_table = toml_type(value) == TOML_TABLE;
        snprintf(what, sizeof what, "unknown %s '%s'", empty_or_table ? "section" : "key", path);
        conf_hint(table, str_from(path), NOT_HERE, file_spell_quoted, hint);
        if (file_is_section(table, path)) {
            snprintf(what, sizeof what, "'%s' is a section: write [%s]", path, path);
            hint[0] = '\0';
        }
    }
    file_refuse(r, toml_key_position(value), what, hint);
}

/* What a TOML value must be, for each kind of option: a text for errors, and the types. */
static const struct {
    const char *form;
    uint32_t types;
} forms[] = {
    [OPTION_STRING] = {"a string", BIT(TOML_STRING)},
    [OPTION_U64] = {"an integer", BIT(TOML_INTEGER)},
    [OPTION_DURATION] = {"a string with a duration, such as \"10s\"", BIT(TOML_STRING)},
    [OPTION_SIZE] = {"a string with a size, such as \"64KiB\", or an integer of bytes",
                     BIT(TOML_STRING) | BIT(TOML_INTEGER)},
    [OPTION_DECIMAL] = {"a number, such as 0.05", BIT(TOML_INTEGER) | BIT(TOML_FLOAT)},
    [OPTION_BOOL] = {"a boolean, true or false", BIT(TOML_BOOLEAN)},
    [OPTION_ADDRESS] = {"a string with an address, such as \"127.0.0.1:8790\"", BIT(TOML_STRING)},
    [OPTION_ENUM] = {"a string with one of the choices", BIT(TOML_STRING)},
    [OPTION_LIST] = {"an array of strings", BIT(TOML_ARRAY)},
};

/* A double is exact enough for six digits after the decimal point. */
static enum err file_read_millionths(const struct option *option, double number,
                                     struct option_value *ret_value, struct note *note)
{
    double millionths = number * 1e6 + 0.5;

    if (!(millionths >= 0.5 && millionths < 1e18))
        return note_fail(note, ERR_INVALID,
                         "must not be negative, or larger than any number of this kind");
    *ret_value = (struct option_value){.number = (uint64_t)millionths, .text = STR_EMPTY};
    return option_check_number(option, ret_value->number, note);
}

static enum err file_read_integer(const struct option *option, const struct toml_value *value,
                                  struct option_value *ret_value, struct note *note)
{
    int64_t number = 0;

    if (toml_i64(value, &number, NULL) || number < 0)
        return note_fail(note, ERR_INVALID, "must not be negative");
    if (option->kind == OPTION_DECIMAL)
        return file_read_millionths(option, (double)number, ret_value, note);
    *ret_value = (struct option_value){.number = (uint64_t)number, .text = STR_EMPTY};
    return option_check_number(option, (uint64_t)number, note);
}

static enum err file_read_array(struct reader *r, const struct option *option,
                                const struct toml_value *value, struct option_value *ret_value,
                                struct note *note)
{
    struct str items[OPTION_LIST_MAX + 1];
    size_t count = 0;

    for (const struct toml_value *item = toml_first(value); item; item = toml_next(item)) {
        if (count == ARRAY_LEN(items)) break; /* one item too many is enough for the error */
        if (toml_string(item, &items[count++], NULL))
            return note_fail(note, ERR_PARSE, "must be an array of strings; item %zu is %s", count,
                             toml_type_article_name(toml_type(item)));
    }
    return option_make_list(option, items, count, &r->conf->memory, ret_value, note);
}

static enum err file_read_value(struct reader *r, const struct option *option,
                                const struct toml_value *value, struct option_value *ret_value,
                                struct note *note)
{
    enum toml_type type = toml_type(value);
    bool lone = type == TOML_STRING && (option->flags & OPTION_ONE_OR_LIST);
    struct str text = STR_EMPTY;
    double number = 0;
    bool truth = false;

    if (!lone && !(forms[option->kind].types & BIT(type)))
        return note_fail(note, ERR_PARSE, "must be %s, not %s", forms[option->kind].form,
                         toml_type_article_name(type));
    switch (type) {
    case TOML_STRING:
        if (toml_string(value, &text, note)) return ERR_PARSE;
        return lone ? option_make_list(option, &text, 1, &r->conf->memory, ret_value, note)
                    : option_parse(option, text, &r->conf->memory, ret_value, note);
    case TOML_INTEGER: return file_read_integer(option, value, ret_value, note);
    case TOML_FLOAT:
        if (toml_double(value, &number, note)) return ERR_PARSE;
        return file_read_millionths(option, number, ret_value, note);
    case TOML_ARRAY: return file_read_array(r, option, value, ret_value, note);
    default:
        if (toml_bool(value, &truth, note)) return ERR_PARSE;
        *ret_value = (struct option_value){.number = truth, .text = STR_EMPTY};
        return ERR_OK;
    }
}

/* An option with two names in a file may have only one value. */
static void file_take_entry(struct reader *r, const struct option *option,
                            const struct option_value *value, struct conf_place place)
{
    size_t index = (size_t)(option - r->conf->table->options);
    const struct conf_place *before = &r->conf->entries[index].place;
    char what[NOTE_CAP];

    if (option->also_key && before->source == CONF_FILE) {
        snprintf(what, sizeof what,
                 "'%s' and '%s' are two names of one option; line %u has the other", option->name,
                 option->also_key, before->line);
        file_refuse(r, (struct toml_position){place.line, place.column}, what, "");
        return;
    }
    conf_set(r->conf, index, value, place);
}

static void file_take_value(struct reader *r, const struct option *option,
                            const struct toml_value *value)
{
    struct toml_position at = toml_position(value);
    struct option_value read = {.text = STR_EMPTY};
    struct note note = {""};
    char what[NOTE_CAP + OPTION_NAME_CAP];
    enum err err = file_read_value(r, option, value, &read, &note);

    if (err == ERR_NOMEM) {
        r->first = err;
    } else if (err) {
        snprintf(what, sizeof what, "'%s': %s", option->name, note.text);
        file_refuse(r, at, what, "");
    } else {
        struct conf_place place = {.source = CONF_FILE, .line = at.line, .column = at.column};
        file_take_entry(r, option, &read, place);
    }
}

static void file_quoted_key(struct reader *r, const struct toml_value *value, const char *path)
{
    char what[NOTE_CAP];
    snprintf(what, sizeof what, "unknown key '%s': in quotes it is one word; write it without",
             path);
    file_refuse(r, toml_key_position(value), what, "");
}

static void file_note_section(struct reader *r, const char *section)
{
    struct conf *conf = r->conf;
    const char *name = arena_dup(&conf->memory, str_from(section));

    if (!name)
        r->first = ERR_NOMEM;
    else if (conf->section_count < CONF_SECTIONS_MAX)
        conf->sections[conf->section_count++] = name;
}

/* Only known sections are read, which bounds the recursion. */
static void file_take_table(struct reader *r, const struct toml_value *table, const char *section)
{
    const struct option_table *known = r->conf->table;

    file_note_section(r, section);
    for (const struct toml_value *v = toml_first(table); v && r->first != ERR_NOMEM;
         v = toml_next(v)) {
        char path[PATH_CAP];
        struct str key = toml_key(v);
        snprintf(path, sizeof path, "%s%s%.*s", section, section[0] ? "." : "", STR_ARG(key));
        const struct option *option = file_find_key(known, path);
        if (str_has(key, '.') || str_has(key, '\0'))
            file_quoted_key(r, v, path);
        else if (option && !(option->flags & NOT_HERE))
            file_take_value(r, option, v);
        else if (toml_type(v) == TOML_TABLE && file_is_section(known, path))
            file_take_table(r, v, path);
        else
            file_unknown_key(r, v, path);
    }
}

static enum err file_not_toml(struct reader *r, struct toml_position where, const struct note *note)
{
    char prefix[64];
    snprintf(prefix, sizeof prefix, "line %u, column %u: ", where.line, where.column);
    size_t skip = strncmp(note->text, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0;
    file_refuse(r, where, note->text + skip, "");
    return r->first;
}

enum err conf_add_file(struct conf *conf, const char *file_name, struct str content)
{
    struct reader r = {.conf = conf, .file_name = file_name};
    struct toml_position where = {1, 1};
    struct toml *document;
    struct note note = {""};
    enum err err;

    assert(!conf->file_name); /* the order of precedence allows one file */
    conf->file_name = arena_dup(&conf->memory, str_from(file_name));
    if (!conf->file_name) return ERR_NOMEM;
    if (content.len > CONF_FILE_MAX) {
        return conf_problem(conf, "%s: larger than %d bytes", file_name, CONF_FILE_MAX);
    }
    err = toml_open(content, DOCUMENT_MEMORY_MAX, &document, &where, &note);
    if (err == ERR_NOMEM) return err;
    if (err) return file_not_toml(&r, where, &note);
    file_take_table(&r, toml_root(document), "");
    toml_close(document);
    return r.first;
}
