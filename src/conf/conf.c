/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes a configuration, and adds values from its sources. Invariant: an entry has the
 * value of the strongest source so far, and every problem is a line of `problems`. One thread. */
#include "conf/conf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/internal.h"
#include "conf/nearest.h"
#include "conf/printable.h"

enum { MEMORY_MAX = 4 * 1024 * 1024 }; /* bytes; more than any file needs */
enum { PROBLEM_TEXT_MAX = 8 * 1024 };  /* bytes of a line, which may contain a path of 4 KiB */
/* Escaping turns one byte into at most four. */
enum { PROBLEMS_TEXT_MAX = CONF_PROBLEMS_MAX * 4 * PROBLEM_TEXT_MAX };

/* -- life -- */

enum err conf_open(const struct option_table *table, struct conf **ret_conf)
{
    struct conf *conf = calloc(1, sizeof *conf);

    if (!conf) return ERR_NOMEM;
    conf->table = table;
    arena_init(&conf->memory, MEMORY_MAX);
    buf_init(&conf->problems, PROBLEMS_TEXT_MAX);
    conf->entries = arena_calloc(&conf->memory, max_size(table->count, 1), sizeof *conf->entries);
    if (!conf->entries) {
        conf_close(conf);
        return ERR_NOMEM;
    }
    *ret_conf = conf;
    return ERR_OK;
}

void conf_close(struct conf *conf)
{
    if (!conf) return;
    buf_deinit(&conf->problems);
    arena_deinit(&conf->memory);
    free(conf);
}

/* -- functions that all sources share -- */

/* Escapes the whole line, so that no caller can forget to escape a value. */
enum err conf_problem(struct conf *conf, const char *format, ...)
{
    struct buf *problems = &conf->problems, line;
    size_t before = problems->len;
    va_list args;
    enum err err;

    if (++conf->problem_count > CONF_PROBLEMS_MAX) return ERR_INVALID;
    buf_init(&line, PROBLEM_TEXT_MAX);
    va_start(args, format);
    err = buf_vappendf(&line, format, args);
    va_end(args);
    if (err == ERR_FULL) err = buf_append_c(&line, "a problem with a text too long to show");
    if (!err) err = printable_append(buf_peek(&line), problems);
    if (!err) err = buf_append_byte(problems, '\n');
    if (err) problems->len = before;
    buf_deinit(&line);
    return err == ERR_NOMEM ? ERR_NOMEM : ERR_INVALID;
}

struct str conf_problems(const struct conf *conf)
{
    return buf_peek(&conf->problems);
}

void conf_set(struct conf *conf, size_t index, const struct option_value *value,
              struct conf_place place)
{
    struct conf_entry *entry = &conf->entries[index];
    if (place.source < entry->place.source) return;
    entry->value = *value;
    entry->place = place;
}

/* "HTTP_LISTEN", "http-listen" and "http.listen" all become "http-listen", so that hints depend on
 * the letters only. */
static struct str conf_plain_name(struct str spelled, char name[NEAREST_NAME_MAX])
{
    size_t len = min_size(spelled.len, NEAREST_NAME_MAX);
    for (size_t i = 0; i < len; i++) {
        char c = spelled.at[i];
        if (c >= 'A' && c <= 'Z') c = (char)(c - 'A' + 'a');
        name[i] = (char)(c == '_' || c == '.' ? '-' : c);
    }
    return str_of(name, len);
}

/* Compares the whole name first, then the key alone, because the section may be wrong. */
void conf_hint(const struct option_table *table, struct str wanted, uint32_t excluded_flags,
               conf_spell_fn *spell, char hint[CONF_HINT_CAP])
{
    char plain_whole[NEAREST_NAME_MAX], plain_key[NEAREST_NAME_MAX], plain[NEAREST_NAME_MAX];
    char name[OPTION_NAME_CAP];
    struct nearest whole, key;
    size_t cut = wanted.len;

    hint[0] = '\0';
    if (wanted.len > NEAREST_NAME_MAX) return;
    while (cut > 0 && wanted.at[cut - 1] != '.') cut--;
    nearest_init(&whole, conf_plain_name(wanted, plain_whole));
    nearest_init(&key, conf_plain_name(str_tail(wanted, cut), plain_key));
    for (size_t i = 0; i < table->count; i++) {
        const struct option *option = &table->options[i];
        if (option->flags & excluded_flags) continue;
        nearest_offer(&whole, conf_plain_name(str_from(option->name), plain), i);
        nearest_offer(&key, conf_plain_name(option_key(option), plain), i);
    }
    if (!nearest_found(&whole) && !nearest_found(&key)) return;
    spell(&table->options[nearest_found(&whole) ? whole.place : key.place], name);
    snprintf(hint, CONF_HINT_CAP, " (did you mean %s?)", name);
}

/* -- flags -- */

static size_t conf_find_flag(const struct option_table *table, struct str name)
{
    size_t i = 0;
    while (i < table->count && !option_is_flag(&table->options[i], name)) i++;
    return i;
}

/* --no-x for a bool x. */
static size_t conf_find_negated(const struct option_table *table, struct str name)
{
    char spelled[OPTION_NAME_CAP];

    if (!str_starts(name, STR("--no-"))) return table->count;
    snprintf(spelled, sizeof spelled, "--%.*s", STR_ARG(str_tail(name, 5)));
    size_t i = conf_find_flag(table, str_from(spelled));
    return i < table->count && table->options[i].kind == OPTION_BOOL ? i : table->count;
}

/* A list flag that is used again adds items. */
static enum err conf_join_lists(struct conf *conf, size_t index, struct option_value *value,
                                struct note *note)
{
    const struct conf_entry *entry = &conf->entries[index];
    struct str items[OPTION_LIST_MAX + 1];
    size_t count = 0;

    if (entry->place.source != CONF_FLAG) return ERR_OK;
    for (size_t i = 0; i < entry->value.item_count; i++) items[count++] = entry->value.items[i];
    for (size_t i = 0; i < value->item_count && count < ARRAY_LEN(items); i++) {
        items[count++] = value->items[i];
    }
    return option_make_list(&conf->table->options[index], items, count, &conf->memory, value, note);
}

/* Errors put `where` before the name. */
static enum err conf_take_text(struct conf *conf, size_t index, struct str text,
                               enum conf_source source, const char *where, struct str name)
{
    const struct option *option = &conf->table->options[index];
    struct option_value value;
    struct note note = {""};
    enum err err = option_parse(option, text, &conf->memory, &value, &note);

    if (!err && source == CONF_FLAG && option->kind == OPTION_LIST)
        err = conf_join_lists(conf, index, &value, &note);
    if (err == ERR_NOMEM) return err;
    conf->entries[index].wrong |= err != ERR_OK;
    if (err) return conf_problem(conf, "%s%.*s: %s", where, STR_ARG(name), note.text);
    conf_set(conf, index, &value, (struct conf_place){.source = source});
    return ERR_OK;
}

static enum err conf_set_flag(struct conf *conf, size_t index, struct str name, struct str text)
{
    return conf_take_text(conf, index, text, CONF_FLAG, "", name);
}

static enum err conf_unknown_flag(struct conf *conf, struct str name)
{
    char hint[CONF_HINT_CAP];

    if (!str_starts(name, STR("--"))) {
        return conf_problem(conf, "%.*s: unknown option; most are written out, as in --help",
                            STR_ARG(name));
    }
    conf_hint(conf->table, str_tail(name, 2), 0, option_flag_name, hint);
    return conf_problem(conf, "%.*s: unknown option%s", STR_ARG(name), hint);
}

/* Moves *at to the word after the flag and its value. */
static enum err conf_take_flag(struct conf *conf, size_t count, const char *const *words,
                               size_t *at)
{
    struct str word = str_from(words[(*at)++]);
    size_t equals = str_find(word, '=');
    struct str name = str_of(word.at, equals);
    size_t index = conf_find_flag(conf->table, name),
           negated = conf_find_negated(conf->table, name);

    if (index == conf->table->count && word.len > 2 && word.at[1] != '-') { /* "-ojson" */
        struct str letter = str_of(word.at, 2);
        size_t of = conf_find_flag(conf->table, letter);
        if (of < conf->table->count && conf->table->options[of].kind != OPTION_BOOL)
            return conf_set_flag(conf, of, letter, str_tail(word, 2));
    }
    if (index == conf->table->count && negated < conf->table->count) {
        if (equals == word.len) return conf_set_flag(conf, negated, name, STR("false"));
        return conf_problem(conf, "%.*s: takes no value", STR_ARG(name));
    }
    if (index == conf->table->count) return conf_unknown_flag(conf, name);
    if (equals < word.len) return conf_set_flag(conf, index, name, str_tail(word, equals + 1));
    if (conf->table->options[index].kind == OPTION_BOOL)
        return conf_set_flag(conf, index, name, STR("true"));
    if (*at == count || strncmp(words[*at], "--", 2) == 0) {
        return conf_problem(conf, "%.*s: needs a value, as in %.*s %s", STR_ARG(name),
                            STR_ARG(name), option_placeholder(&conf->table->options[index]));
    }
    return conf_set_flag(conf, index, name, str_from(words[(*at)++]));
}

static enum err conf_take_argument(struct conf *conf, const char *word)
{
    if (conf->argument_count == CONF_ARGUMENTS_MAX) {
        return conf_problem(conf, "more than %d arguments", CONF_ARGUMENTS_MAX);
    }
    char *copy = arena_dup(&conf->memory, str_from(word));
    if (!copy) return ERR_NOMEM;
    conf->arguments[conf->argument_count++] = copy;
    return ERR_OK;
}

/* Returns the first error, for callers that continue after an error to report all problems. */
static enum err conf_first_of(enum err first, enum err err)
{
    return first ? first : err;
}

enum err conf_add_flags(struct conf *conf, size_t count, const char *const *words)
{
    enum err first = ERR_OK;
    bool only_arguments = false;

    for (size_t at = 0; at < count;) {
        enum err err;
        if (!only_arguments && strcmp(words[at], "--") == 0) {
            only_arguments = true;
            at++;
            continue;
        }
        bool is_flag = !only_arguments && words[at][0] == '-' && words[at][1] != '\0';
        if (is_flag)
            err = conf_take_flag(conf, count, words, &at);
        else
            err = conf_take_argument(conf, words[at++]);
        if (err == ERR_NOMEM) return err;
        first = conf_first_of(first, err);
    }
    return first;
}

enum err conf_take_argument_as(struct conf *conf, const char *names)
{
    struct str text = str_from(conf_argument(conf, 0)), all = str_from(names), name, part;
    bool pair = str_has(all, '='), whole = !pair || str_has(text, '=');
    enum err err = ERR_OK;

    if (conf->argument_count == 0) return ERR_OK;
    if (!whole) err = conf_problem(conf, "'%.*s': needs %s", STR_ARG(text), names);
    while (err != ERR_NOMEM && str_split(&all, '=', &name)) {
        char flag[OPTION_NAME_CAP];
        snprintf(flag, sizeof flag, "--%.*s", STR_ARG(name));
        size_t i = conf_find_flag(conf->table, str_from(flag));
        if (conf->entries[i].place.source == CONF_FLAG)
            return conf_problem(conf, "%s and an argument: give one of them", flag);
        conf->entries[i].wrong |= !whole;
        part = text;
        if (whole && all.at) (void)str_split(&text, '=', &part);
        if (whole) err = conf_take_text(conf, i, part, CONF_FLAG, "", str_from(flag));
    }
    return err;
}

/* -- environment -- */

static size_t conf_find_variable(const struct option_table *table, struct str name)
{
    char spelled[OPTION_NAME_CAP];
    size_t i = 0;
    for (; i < table->count; i++) {
        if (table->options[i].flags & OPTION_FLAG_ONLY) continue;
        option_environment_name(&table->options[i], spelled);
        if (str_equal(str_from(spelled), name)) break;
    }
    return i;
}

static bool conf_known_elsewhere(const struct option_table *const *others, struct str name)
{
    for (size_t i = 0; others && others[i]; i++) {
        if (conf_find_variable(others[i], name) < others[i]->count) return true;
    }
    return false;
}

/* True for a variable that Kubernetes sets in each container for a Service. For a Service named
 * muster-x these are MUSTER_X_SERVICE_HOST, _SERVICE_PORT, _SERVICE_PORT_<NAME>, _PORT=tcp://...
 * and _PORT_<NUMBER>_TCP[_PROTO|_PORT|_ADDR]. */
static bool conf_is_service_link(struct str name, struct str text)
{
    static const char *const protocols[] = {"TCP", "UDP", "SCTP"};
    const char *port;
    struct str rest;
    uint64_t number;

    if (str_ends(name, STR("_SERVICE_HOST")) || str_ends(name, STR("_SERVICE_PORT")) ||
        memmem(name.at, name.len, "_SERVICE_PORT_", sizeof "_SERVICE_PORT_" - 1))
        return true;
    if (str_ends(name, STR("_PORT")) && memmem(text.at, text.len, "://", 3)) return true;
    port = memmem(name.at, name.len, "_PORT_", sizeof "_PORT_" - 1);
    if (!port) return false;
    rest = str_tail(name, (size_t)(port - name.at) + sizeof "_PORT_" - 1);
    if (str_to_u64(str_of(rest.at, str_find(rest, '_')), &number)) return false;
    rest = str_tail(rest, str_find(rest, '_') + 1);
    rest = str_of(rest.at, str_find(rest, '_'));
    for (size_t i = 0; i < ARRAY_LEN(protocols); i++)
        if (str_equal(rest, str_from(protocols[i]))) return true;
    return false;
}

static enum err conf_take_variable(struct conf *conf, struct str name, struct str text,
                                   const struct option_table *const *others)
{
    char hint[CONF_HINT_CAP];
    size_t index = conf_find_variable(conf->table, name);

    if (index == conf->table->count) {
        if (conf_known_elsewhere(others, name) || conf_is_service_link(name, text)) return ERR_OK;
        conf_hint(conf->table, str_tail(name, sizeof OPTION_ENVIRONMENT_PREFIX - 1),
                  OPTION_FLAG_ONLY, option_environment_name, hint);
        return conf_problem(conf, "environment %.*s: unknown%s", STR_ARG(name), hint);
    }
    if (text.len == 0) return ERR_OK;
    return conf_take_text(conf, index, text, CONF_ENVIRONMENT, "environment ", name);
}

enum err conf_add_environment(struct conf *conf, const char *const *environment,
                              const struct option_table *const *others)
{
    enum err first = ERR_OK;

    for (size_t i = 0; environment && environment[i]; i++) {
        struct str entry = str_from(environment[i]);
        size_t equals = str_find(entry, '=');
        struct str name = str_of(entry.at, equals);
        if (equals == entry.len || !str_starts(name, STR(OPTION_ENVIRONMENT_PREFIX)) ||
            str_starts(name, STR(OPTION_ENVIRONMENT_PREFIX "TEST_"))) {
            continue;
        }
        enum err err = conf_take_variable(conf, name, str_tail(entry, equals + 1), others);
        if (err == ERR_NOMEM) return err;
        first = conf_first_of(first, err);
    }
    return first;
}

/* -- defaults -- */

static enum err conf_required_missing(struct conf *conf, const struct option *option)
{
    char flag[OPTION_NAME_CAP], variable[OPTION_NAME_CAP];

    option_flag_name(option, flag);
    option_environment_name(option, variable);
    if (option->flags & OPTION_FLAG_ONLY) {
        return conf_problem(conf, "%s %s is required", flag, option_placeholder(option));
    }
    return conf_problem(conf, "%s %s is required (or environment %s)", flag,
                        option_placeholder(option), variable);
}

enum err conf_finish(struct conf *conf)
{
    for (size_t i = 0; i < conf->table->count; i++) {
        const struct option *option = &conf->table->options[i];
        struct option_value value;
        enum err err;
        if (conf->entries[i].place.source != CONF_UNSET || conf->entries[i].wrong) continue;
        if (!option->fallback) {
            err = option->flags & OPTION_REQUIRED ? conf_required_missing(conf, option) : ERR_OK;
        } else {
            err = option_parse(option, str_from(option->fallback), &conf->memory, &value, NULL);
            if (!err) conf_set(conf, i, &value, (struct conf_place){.source = CONF_DEFAULT});
        }
        if (err == ERR_NOMEM) return err;
    }
    if (conf->problem_count > CONF_PROBLEMS_MAX) {
        (void)buf_appendf(&conf->problems, "and %zu more\n",
                          conf->problem_count - CONF_PROBLEMS_MAX);
        conf->problem_count = CONF_PROBLEMS_MAX; /* report it only once */
    }
    return conf->problem_count > 0 ? ERR_INVALID : ERR_OK;
}

/* -- reading -- */

static const struct conf_entry *conf_entry_of(const struct conf *conf, const char *name)
{
    const struct option *option = option_find(conf->table, name);
    assert(option); /* the program asks for an option that it does not have */
    return &conf->entries[option - conf->table->options];
}

static bool conf_entry_is(const struct conf *conf, const struct conf_entry *entry, uint32_t kinds)
{
    return (BIT(conf->table->options[entry - conf->entries].kind) & kinds) != 0;
}

bool conf_is_set(const struct conf *conf, const char *name)
{
    return conf_entry_of(conf, name)->place.source != CONF_UNSET;
}

bool conf_waits(const struct conf *conf, const char *name)
{
    return conf_entry_of(conf, name)->waiting;
}

enum conf_source conf_source(const struct conf *conf, const char *name)
{
    return conf_entry_of(conf, name)->place.source;
}

const char *conf_text(const struct conf *conf, const char *name)
{
    const struct conf_entry *entry = conf_entry_of(conf, name);
    assert(conf_entry_is(conf, entry, BIT(OPTION_STRING) | BIT(OPTION_ADDRESS) | BIT(OPTION_ENUM)));
    return entry->place.source == CONF_UNSET ? NULL : entry->value.text.at;
}

uint64_t conf_number(const struct conf *conf, const char *name)
{
    const struct conf_entry *entry = conf_entry_of(conf, name);
    assert(conf_entry_is(conf, entry, BIT(OPTION_U64) | BIT(OPTION_DURATION) | BIT(OPTION_SIZE)));
    return entry->value.number;
}

double conf_decimal(const struct conf *conf, const char *name)
{
    const struct conf_entry *entry = conf_entry_of(conf, name);
    assert(conf_entry_is(conf, entry, BIT(OPTION_DECIMAL)));
    return (double)entry->value.number / 1e6;
}

bool conf_bool(const struct conf *conf, const char *name)
{
    const struct conf_entry *entry = conf_entry_of(conf, name);
    assert(conf_entry_is(conf, entry, BIT(OPTION_BOOL)));
    return entry->value.number != 0;
}

size_t conf_choice(const struct conf *conf, const char *name)
{
    const struct conf_entry *entry = conf_entry_of(conf, name);
    assert(conf_entry_is(conf, entry, BIT(OPTION_ENUM)) && entry->place.source != CONF_UNSET);
    return (size_t)entry->value.number;
}

struct option_value conf_list(const struct conf *conf, const char *name)
{
    const struct conf_entry *entry = conf_entry_of(conf, name);
    assert(conf_entry_is(conf, entry, BIT(OPTION_LIST)));
    return entry->value;
}

bool conf_has_section(const struct conf *conf, const char *section)
{
    for (size_t i = 0; i < conf->section_count; i++)
        if (strcmp(conf->sections[i], section) == 0) return true;
    for (size_t i = 0; i < conf->table->count; i++)
        if (conf->entries[i].place.source > CONF_FILE &&
            str_equal(option_section(&conf->table->options[i]), str_from(section)))
            return true;
    return false;
}

size_t conf_argument_count(const struct conf *conf)
{
    return conf->argument_count;
}

const char *conf_argument(const struct conf *conf, size_t place)
{
    return place < conf->argument_count ? conf->arguments[place] : "";
}
