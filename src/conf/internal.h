/* SPDX-License-Identifier: Apache-2.0 */
/* For the files of conf only: a loaded configuration, and functions that set its values. */
#ifndef CONF_INTERNAL_H
#define CONF_INTERNAL_H
#include "conf/command.h"
#include "conf/conf.h"
#include "conf/writer.h"

struct conf_place {
    enum conf_source source;
    uint32_t line, column;
}; /* line and column only for CONF_FILE */

struct conf_entry {
    struct option_value value;
    struct conf_place place;
    bool wrong;                     /* a source has a value that cannot be read */
    bool waiting;                   /* the sources have another value, which needs a restart */
    struct option_value next_value; /* value in the sources, if `waiting` */
    struct conf_place next_place;   /* source of next_value; UNSET: no source has a value now */
};

enum { CONF_SECTIONS_MAX = 64 };
struct conf {
    const struct option_table *table;
    struct conf_entry *entries; /* in the order of the table */
    struct arena memory;
    struct buf problems;
    size_t problem_count;
    const char *file_name; /* NULL: no file */
    const char *arguments[CONF_ARGUMENTS_MAX];
    size_t argument_count;
    const char *sections[CONF_SECTIONS_MAX]; /* sections in the file; more are not recorded */
    size_t section_count;
    struct conf_change *changes;
};

/* Sets the value, unless a stronger source has set one. */
void conf_set(struct conf *conf, size_t index, const struct option_value *value,
              struct conf_place place);
/* Adds the value as text, or "none" if no source has a value. */
void conf_value_text(struct writer *w, const struct option *option,
                     const struct option_value *value, struct conf_place place);
/* Writes " (did you mean x?)" with the option nearest to `wanted`, in the spelling of `spell`, or
 * "". Ignores options with one of `excluded_flags`. */
enum { CONF_HINT_CAP = OPTION_NAME_CAP + 32 };
typedef void conf_spell_fn(const struct option *option, char name[OPTION_NAME_CAP]);
void conf_hint(const struct option_table *table, struct str wanted, uint32_t excluded_flags,
               conf_spell_fn *spell, char hint[CONF_HINT_CAP]);

/* -- words of other tools -- */

bool phrase_is_noun(struct str typed, struct str noun);
/* Finds a row of the program's words that has one of the kinds. `second` NULL: rows of one word. */
const struct command_word *phrase_find(const struct command *program, const char *kinds,
                                       struct str first, const char *second);
/* Removes a word that is understood. Returns the words that stay. */
const char **phrase_drop(struct command_call *call, const char **words, size_t place);
/* Drops options that mean nothing here. ERR_INVALID: an option of another tool, with advice. */
enum err phrase_heed_options(struct command_call *call, const char **words, struct note *note);
#endif
