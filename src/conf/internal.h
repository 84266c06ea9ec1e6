/* SPDX-License-Identifier: Apache-2.0 */
/* For the files of conf only: a loaded configuration, and functions that set its values. */
#ifndef CONF_INTERNAL_H
#define CONF_INTERNAL_H
#include "conf/conf.h"
#include "conf/writer.h"

struct conf_place {
    enum conf_source source;
    uint32_t line, column;
}; /* line and column only for CONF_FILE */

struct conf_entry {
    struct option_value value;
    struct conf_place place;
    bool waiting;                   /* a new value waits for a restart */
    struct option_value next_value; /* the new value, if `waiting` */
    struct conf_place next_place;   /* its source; UNSET: no source has a value */
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
#endif
