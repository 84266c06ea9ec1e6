/* SPDX-License-Identifier: Apache-2.0 */
/* Reads, checks and prints a value according to its option. Copies go into the caller's arena. Any
 * thread may call. */
#include "conf/option.h"

#include <stdio.h>
#include <string.h>

#include "conf/units.h"
#include "text/utf8.h"

const struct option *option_find(const struct option_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->options[i].name, name) == 0) return &table->options[i];
    return NULL;
}

/* -- spellings -- */

void option_flag_name(const struct option *option, char name[OPTION_NAME_CAP])
{
    snprintf(name, OPTION_NAME_CAP, "--%s", option->name);
    for (char *c = name; *c; c++) *c = (char)(*c == '.' || *c == '_' ? '-' : *c);
}

bool option_is_flag(const struct option *option, struct str name)
{
    char spelled[OPTION_NAME_CAP];

    option_flag_name(option, spelled);
    return str_equal(str_from(spelled), name) ||
           (option->also && str_equal(str_from(option->also), name)) ||
           (option->alias && str_equal(str_from(option->alias), name));
}

void option_environment_name(const struct option *option, char name[OPTION_NAME_CAP])
{
    snprintf(name, OPTION_NAME_CAP, OPTION_ENVIRONMENT_PREFIX "%s", option->name);
    for (char *c = name; *c; c++) {
        if (*c == '.' || *c == '-') *c = '_';
        if (*c >= 'a' && *c <= 'z') *c = (char)(*c - 'a' + 'A');
    }
}

struct str option_section(const struct option *option)
{
    const char *dot = strrchr(option->name, '.');
    return dot ? str_of(option->name, (size_t)(dot - option->name)) : STR_EMPTY;
}

struct str option_key(const struct option *option)
{
    const char *dot = strrchr(option->name, '.');
    return str_from(dot ? dot + 1 : option->name);
}

const char *option_placeholder(const struct option *option)
{
    static const char *const by_kind[] = {
        [OPTION_STRING] = "TEXT", [OPTION_U64] = "NUMBER",    [OPTION_DURATION] = "DURATION",
        [OPTION_SIZE] = "SIZE",   [OPTION_BOOL] = "",         [OPTION_ADDRESS] = "ADDRESS",
        [OPTION_ENUM] = "CHOICE", [OPTION_LIST] = "ITEM,...", [OPTION_DECIMAL] = "NUMBER",
    };
    return option->placeholder ? option->placeholder : by_kind[option->kind];
}

/* -- values -- */

void option_number_text(const struct option *option, uint64_t number, char text[UNITS_TEXT_CAP])
{
    if (option->kind == OPTION_DURATION)
        units_duration_text(number, text);
    else if (option->kind == OPTION_SIZE)
        units_size_text(number, text);
    else if (option->kind == OPTION_DECIMAL)
        units_decimal_text(number, text);
    else
        snprintf(text, UNITS_TEXT_CAP, "%llu", (unsigned long long)number);
}

enum err option_check_number(const struct option *option, uint64_t number, struct note *note)
{
    char got[UNITS_TEXT_CAP], low[UNITS_TEXT_CAP], high[UNITS_TEXT_CAP];

    if (number >= option->min && (option->max == 0 || number <= option->max)) return ERR_OK;
    option_number_text(option, number, got);
    option_number_text(option, option->min, low);
    option_number_text(option, option->max, high);
    if (option->max == 0)
        note_set(note, "must be at least %s, got %s", low, got);
    else
        note_set(note, "must be between %s and %s, got %s", low, high, got);
    return ERR_INVALID;
}

static enum err option_parse_bool(struct str text, uint64_t *ret_number, struct note *note)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (str_equal(text, str_from(words[i]))) {
            *ret_number = i % 2;
            return ERR_OK;
        }
    }
    return note_fail(note, ERR_PARSE, "needs true or false, got '%.*s'", STR_ARG(text));
}

static enum err option_parse_number(const struct option *option, struct str text,
                                    uint64_t *ret_number, struct note *note)
{
    uint64_t number = 0;
    enum err err;

    if (option->kind == OPTION_DURATION)
        err = units_parse_duration(text, &number, note);
    else if (option->kind == OPTION_SIZE)
        err = units_parse_size(text, &number, note);
    else if (option->kind == OPTION_DECIMAL)
        err = units_parse_decimal(text, &number, note);
    else {
        err = str_to_u64(text, &number);
        if (err == ERR_TOO_LARGE)
            note_set(note, "does not fit in 64 bits");
        else if (err)
            note_set(note, "needs a whole number, got '%.*s'", STR_ARG(text));
    }
    if (!err) err = option_check_number(option, number, note);
    if (!err) *ret_number = number;
    return err;
}

/* Checks the syntax only: whether a name resolves may change. */
static enum err option_check_address(struct str text, struct note *note)
{
    uint64_t port;
    size_t colon = text.len;

    if (str_starts(text, STR("unix:"))) {
        if (text.len > 5) return ERR_OK;
        return note_fail(note, ERR_PARSE, "needs a path after 'unix:'");
    }
    while (colon > 0 && text.at[colon - 1] != ':') colon--;
    struct str host = str_of(text.at, colon > 0 ? colon - 1 : 0);
    bool bracketed = host.len > 2 && host.at[0] == '[' && host.at[host.len - 1] == ']';
    bool bare = host.len > 0 && !str_has(host, ':') && !str_has(host, '[') && !str_has(host, ']');
    bool blank = str_has(text, ' ') || str_has(text, '\t') || str_has(text, '/');
    if (blank || !(bracketed || bare) || str_to_u64(str_tail(text, colon), &port))
        return note_fail(
            note, ERR_PARSE,
            "needs an address such as 127.0.0.1:8790, [::1]:8790 or unix:/run/muster.sock, "
            "got '%.*s'",
            STR_ARG(text));
    if (port > UINT16_MAX)
        return note_fail(note, ERR_INVALID, "port %llu is past 65535", (unsigned long long)port);
    return ERR_OK;
}

static enum err option_parse_choice(const struct option *option, struct str text,
                                    uint64_t *ret_number, struct note *note)
{
    char all[NOTE_CAP / 2];
    size_t used = 0;

    for (size_t i = 0; option->choices[i]; i++) {
        if (str_equal(text, str_from(option->choices[i]))) {
            *ret_number = i;
            return ERR_OK;
        }
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", i > 0 ? ", " : "",
                                 option->choices[i]);
        used = min_size(used, sizeof all - 1);
    }
    return note_fail(note, ERR_INVALID, "must be one of %s, got '%.*s'", all, STR_ARG(text));
}

static enum err option_check_text(struct str text, struct note *note)
{
    if (text.len > OPTION_TEXT_MAX)
        return note_fail(note, ERR_TOO_LARGE, "longer than %d bytes", OPTION_TEXT_MAX);
    if (str_has(text, '\0') || !str_is_utf8(text))
        return note_fail(note, ERR_PARSE, "must be valid UTF-8 without a NUL");
    return ERR_OK;
}

enum err option_make_list(const struct option *option, const struct str *items, size_t count,
                          struct arena *arena, struct option_value *ret_value, struct note *note)
{
    struct str *copies;

    assert(option->kind == OPTION_LIST);
    if (count > OPTION_LIST_MAX)
        return note_fail(note, ERR_TOO_LARGE, "has more than %d items", OPTION_LIST_MAX);
    copies = arena_calloc(arena, max_size(count, 1), sizeof *copies);
    if (!copies) return ERR_NOMEM;
    for (size_t i = 0; i < count; i++) {
        enum err err = option_check_text(items[i], note);
        if (err) return err;
        if (items[i].len == 0) return note_fail(note, ERR_PARSE, "item %zu is empty", i + 1);
        char *copy = arena_dup(arena, items[i]);
        if (!copy) return ERR_NOMEM;
        copies[i] = str_of(copy, items[i].len);
    }
    *ret_value = (struct option_value){.items = copies, .item_count = count};
    return ERR_OK;
}

static enum err option_parse_list(const struct option *option, struct str text, struct arena *arena,
                                  struct option_value *ret_value, struct note *note)
{
    struct str items[OPTION_LIST_MAX + 1], rest = text;
    size_t count = 0;

    if (text.len == 0) return option_make_list(option, NULL, 0, arena, ret_value, note);
    while (count < ARRAY_LEN(items) && str_split(&rest, ',', &items[count])) {
        items[count] = str_trim(items[count]);
        count++;
    }
    return option_make_list(option, items, count, arena, ret_value, note);
}

/* No host means 0.0.0.0: every interface. */
static enum err option_with_host(const struct option *option, struct arena *arena, struct str *text)
{
    static const char everywhere[] = "0.0.0.0";
    char *whole;

    if (!(option->flags & OPTION_LISTEN) || !str_starts(*text, STR(":"))) return ERR_OK;
    whole = arena_alloc(arena, sizeof everywhere + text->len);
    if (!whole) return ERR_NOMEM;
    memcpy(whole, everywhere, sizeof everywhere - 1);
    memcpy(whole + sizeof everywhere - 1, text->at, text->len);
    *text = str_of(whole, sizeof everywhere - 1 + text->len);
    return ERR_OK;
}

enum err option_parse(const struct option *option, struct str text, struct arena *arena,
                      struct option_value *ret_value, struct note *note)
{
    struct option_value value = {.text = STR_EMPTY};
    enum err err = option_check_text(text, note);

    if (err) return err;
    switch (option->kind) {
    case OPTION_STRING: break;
    case OPTION_U64:
    case OPTION_DURATION:
    case OPTION_DECIMAL:
    case OPTION_SIZE: err = option_parse_number(option, text, &value.number, note); break;
    case OPTION_BOOL: err = option_parse_bool(text, &value.number, note); break;
    case OPTION_ADDRESS:
        err = option_with_host(option, arena, &text);
        if (!err && (!(option->flags & OPTION_OFF) || !str_equal(text, STR("0"))))
            err = option_check_address(text, note);
        if (!err && option->flags & OPTION_DIAL && str_ends(text, STR(":0")))
            err = note_fail(note, ERR_INVALID, "port 0 cannot be dialed");
        break;
    case OPTION_ENUM: err = option_parse_choice(option, text, &value.number, note); break;
    case OPTION_LIST: return option_parse_list(option, text, arena, ret_value, note);
    }
    if (err) return err;
    if (option->kind == OPTION_STRING || option->kind == OPTION_ADDRESS ||
        option->kind == OPTION_ENUM) {
        char *copy = arena_dup(arena, text);
        if (!copy) return ERR_NOMEM;
        value.text = str_of(copy, text.len);
    }
    *ret_value = value;
    return ERR_OK;
}

bool option_address_off(const char *address)
{
    return str_equal(str_from(address), STR("0"));
}

bool option_value_equal(const struct option *option, const struct option_value *a,
                        const struct option_value *b)
{
    if (option->kind != OPTION_LIST) return a->number == b->number && str_equal(a->text, b->text);
    if (a->item_count != b->item_count) return false;
    for (size_t i = 0; i < a->item_count; i++) {
        if (!str_equal(a->items[i], b->items[i])) return false;
    }
    return true;
}

/* Appends a TOML basic string. Control characters are escaped, because they would affect a
 * terminal. */
static enum err option_format_quoted(struct str text, struct buf *into)
{
    enum err err = buf_append_byte(into, '"');

    while (text.len > 0 && !err) {
        uint32_t code;
        size_t len = utf8_read(text, &code);
        assert(len > 0); /* a value is UTF-8: see check_text */
        if (code == '"' || code == '\\')
            err = buf_appendf(into, "\\%c", text.at[0]);
        else if (utf8_is_control(code))
            err = buf_appendf(into, "\\u%04X", (unsigned)code);
        else
            err = buf_append(into, str_of(text.at, len));
        text = str_tail(text, len);
    }
    return err ? err : buf_append_byte(into, '"');
}

enum err option_format(const struct option *option, const struct option_value *value,
                       struct buf *into)
{
    char text[UNITS_TEXT_CAP];
    enum err err = ERR_OK;

    switch (option->kind) {
    case OPTION_STRING:
    case OPTION_ADDRESS:
    case OPTION_ENUM: return option_format_quoted(value->text, into);
    case OPTION_BOOL: return buf_append_c(into, value->number ? "true" : "false");
    case OPTION_DECIMAL:
    case OPTION_U64:
        option_number_text(option, value->number, text);
        return buf_append_c(into, text);
    case OPTION_DURATION:
    case OPTION_SIZE:
        option_number_text(option, value->number, text);
        return option_format_quoted(str_from(text), into);
    case OPTION_LIST: break;
    }
    err = buf_append_byte(into, '[');
    for (size_t i = 0; i < value->item_count && !err; i++) {
        if (i > 0) err = buf_append_c(into, ", ");
        if (!err) err = option_format_quoted(value->items[i], into);
    }
    return err ? err : buf_append_byte(into, ']');
}
