/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/option_table.h"

#include <stdio.h>
#include <string.h>

static bool name_valid(const char *name)
{
    char before = '.';
    size_t len = strlen(name);

    if (len == 0 || len + sizeof OPTION_ENVIRONMENT_PREFIX > OPTION_NAME_CAP) return false;
    for (const char *c = name; *c; before = *c++) {
        bool letter = *c >= 'a' && *c <= 'z', digit = *c >= '0' && *c <= '9';
        bool joint = *c == '-' || *c == '_' || *c == '.';
        if (!letter && !digit && !joint) return false;
        if (!letter && (before == '.' || (joint && (before == '-' || before == '_')))) return false;
    }
    return before != '.' && before != '-' && before != '_';
}

static bool option_valid(const struct option *option, struct note *note)
{
    enum { SCRATCH_MAX = 64 * 1024 };
    struct arena scratch;
    struct option_value value;
    enum err err = ERR_OK;

    if (!option->name || !name_valid(option->name)) {
        note_set(note, "'%s' is not a well-formed name", option->name ? option->name : "");
        return false;
    }
    if (!option->help) {
        note_set(note, "%s: no help text", option->name);
        return false;
    }
    if ((option->kind == OPTION_ENUM) != (option->choices != NULL)) {
        note_set(note, "%s: choices belong to an enum, and an enum needs them", option->name);
        return false;
    }
    if ((option->flags & OPTION_REQUIRED) && option->fallback) {
        note_set(note, "%s: required, yet it has a default", option->name);
        return false;
    }
    arena_init(&scratch, SCRATCH_MAX);
    if (option->fallback)
        err = option_parse(option, str_from(option->fallback), &scratch, &value, note);
    if (!err && option->example) {
        err = option_parse(option, str_from(option->example), &scratch, &value, note);
    }
    arena_deinit(&scratch);
    if (err && err != ERR_NOMEM) note_prefix(note, "%s", option->name);
    return !err || err == ERR_NOMEM; /* lack of memory is no mistake in the table */
}

/* A boolean option x also takes the spelling "--no-x". */
static bool spellings_clash(const struct option *a, const struct option *b)
{
    char one[OPTION_NAME_CAP], two[OPTION_NAME_CAP], negated[OPTION_NAME_CAP];

    option_environment_name(a, one);
    option_environment_name(b, two);
    if (strcmp(one, two) == 0) return true;
    option_flag_name(a, one);
    option_flag_name(b, two);
    if (a->also && (strcmp(a->also, two) == 0 || (b->also && strcmp(a->also, b->also) == 0)))
        return true;
    snprintf(negated, sizeof negated, "--no-%.*s", OPTION_NAME_CAP - 6, one + 2);
    return a->kind == OPTION_BOOL && strcmp(negated, two) == 0;
}

bool option_table_valid(const struct option_table *table, struct note *note)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct option *option = &table->options[i];
        struct str section;
        if (!option_valid(option, note)) return false;
        section = option_section(option);
        for (size_t j = 0; j < table->count; j++) {
            if (i != j && spellings_clash(option, &table->options[j])) {
                note_set(note, "%s and %s are spelled alike", option->name, table->options[j].name);
                return false;
            }
        }
        if (i == 0 || str_equal(section, option_section(option - 1))) continue;
        for (size_t j = 0; j < i; j++) {
            if (section.len == 0 || str_equal(section, option_section(&table->options[j]))) {
                note_set(note, "%s: is apart from the options of its section", option->name);
                return false;
            }
        }
    }
    return true;
}
