/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the configuration as TOML: the current values with their sources, or all options. */
#include <stdio.h>
#include <string.h>

#include "conf/internal.h"
#include "conf/printable.h"

enum { COMMENT_COLUMN = 40 }; /* column of comments after short values */

/* Adds the source of an entry as text, for example "flag --http-listen". */
static void print_place_text(struct writer *w, const struct conf *conf, const struct option *option,
                             struct conf_place place)
{
    char name[OPTION_NAME_CAP];

    switch (place.source) {
    case CONF_UNSET: writer_add(w, "not set"); break;
    case CONF_DEFAULT: writer_add(w, "default"); break;
    case CONF_FILE:
        if (!w->err) w->err = printable_append(str_from(conf->file_name), w->into);
        writer_add(w, ":%u:%u", place.line, place.column);
        break;
    case CONF_ENVIRONMENT:
        option_environment_name(option, name);
        writer_add(w, "environment %s", name);
        break;
    case CONF_FLAG:
        option_flag_name(option, name);
        writer_add(w, "flag %s", name);
        break;
    }
}

/* Adds the heading of a section. The heading is a comment if the section is gated and empty. */
static void print_section(struct writer *w, const struct option *option,
                          const struct option *before, bool empty)
{
    struct str section = option_section(option);

    if (section.len == 0 || (before && str_equal(section, option_section(before)))) return;
    writer_add(w, "\n%s[%.*s]\n", empty && (option->flags & OPTION_GATED) ? "#" : "",
               STR_ARG(section));
}

/* `start`: where the line begins. */
static void print_pad_to_comment(struct writer *w, size_t start)
{
    size_t used = w->into->len - start;

    writer_add(w, "%*s# ", used < COMMENT_COLUMN ? (int)(COMMENT_COLUMN - used) : 2, "");
}

static void print_waiting(struct writer *w, const struct conf *conf, const struct option *option,
                          const struct conf_entry *entry)
{
    writer_add(w, "; restart to take ");
    conf_value_text(w, option, &entry->next_value, entry->next_place);
    writer_add(w, " from ");
    print_place_text(w, conf, option, entry->next_place);
}

static void print_entry(struct writer *w, const struct conf *conf, size_t index)
{
    const struct option *option = &conf->table->options[index];
    const struct conf_entry *entry = &conf->entries[index];
    bool set = entry->place.source != CONF_UNSET;
    bool comment = !set || (option->flags & OPTION_NOT_IN_FILE);
    size_t start = w->into->len;

    writer_add(w, "%s%.*s =%s", comment ? "# " : "", STR_ARG(option_key(option)), set ? " " : "");
    if (set) writer_value(w, option, &entry->value);
    print_pad_to_comment(w, start);
    if (entry->waiting) writer_add(w, "at start: ");
    print_place_text(w, conf, option, entry->place);
    if (entry->waiting) print_waiting(w, conf, option, entry);
    writer_add(w, "\n");
}

/* A gated section must not be printed if reading it back would enable a feature. */
static bool print_gated_away(const struct conf *conf, const struct option *option)
{
    char section[OPTION_NAME_CAP];

    if (!(option->flags & OPTION_GATED)) return false;
    snprintf(section, sizeof section, "%.*s", STR_ARG(option_section(option)));
    return !conf_has_section(conf, section);
}

enum err conf_print(const struct conf *conf, const char *title, struct buf *into)
{
    struct writer w = {.into = into};
    const struct option *before = NULL;

    writer_add(&w, "# %s: the configuration in force, each value with its source.\n", title);
    for (size_t i = 0; i < conf->table->count; i++) {
        const struct option *option = &conf->table->options[i];
        if ((option->flags & OPTION_FLAG_ONLY) || print_gated_away(conf, option)) continue;
        print_section(&w, option, before, false);
        print_entry(&w, conf, i);
        before = option;
    }
    return w.err;
}

/* Adds the default, or else the example, or else an empty value to fill in. */
static void print_sample(struct writer *w, const struct option *option)
{
    enum { SCRATCH_MAX = 64 * 1024 };
    const char *sample = option->fallback ? option->fallback : option->example;
    struct option_value value;
    struct arena scratch;

    arena_init(&scratch, SCRATCH_MAX);
    writer_add(w, "#%.*s =%s", STR_ARG(option_key(option)), sample ? " " : "");
    if (sample && !w->err) w->err = option_parse(option, str_from(sample), &scratch, &value, NULL);
    if (sample && !w->err) writer_value(w, option, &value);
    if (!option->fallback)
        writer_add(w, option->flags & OPTION_REQUIRED ? "  # required" : "  # not set by default");
    writer_add(w, "\n");
    arena_deinit(&scratch);
}

static void print_manual(struct writer *w, const struct option *option)
{
    char flag[OPTION_NAME_CAP], variable[OPTION_NAME_CAP];

    option_flag_name(option, flag);
    option_environment_name(option, variable);
    writer_indent(w, str_from(option->help), "# ");
    writer_bounds(w, option, "# ", ":", ".\n");
    writer_add(w, "# Flag %s, environment %s; %s.\n", flag, variable,
               option->flags & OPTION_RELOAD      ? "reloaded on SIGHUP"
               : option->flags & OPTION_RELOAD_ON ? "SIGHUP switches it on"
                                                  : "read at start");
    if (option->flags & OPTION_NOT_IN_FILE)
        writer_add(w, "# It cannot be in a file itself.\n");
    else
        print_sample(w, option);
}

enum err conf_print_reference(const struct option_table *table, const char *title, struct buf *into)
{
    struct writer w = {.into = into};
    const struct option *before = NULL;

    writer_add(&w,
               "# %s: every option with its default. Take away a '#' to set one.\n"
               "# A flag beats the environment, which beats this file, which beats the default.\n",
               title);
    for (size_t i = 0; i < table->count; i++) {
        const struct option *option = &table->options[i];
        if (option->flags & OPTION_FLAG_ONLY) continue;
        print_section(&w, option, before, true);
        writer_add(&w, "\n");
        print_manual(&w, option);
        before = option;
    }
    return w.err;
}
