/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration as TOML, for people: what is in force and why, and everything that could be. */
#include <stdio.h>
#include <string.h>

#include "conf/internal.h"
#include "conf/printable.h"
#include "conf/wrap.h"

enum { COMMENT_COLUMN = 40 }; /* where sources line up, when values are short */

/* Where an entry came from, for people: "flag --http-listen". */
static enum err place_text(const struct conf *conf, const struct option *option,
                           struct conf_place place, struct buf *into)
{
    char name[OPTION_NAME_CAP];
    enum err err;

    switch (place.source) {
    case CONF_UNSET: return buf_append_c(into, "not set");
    case CONF_DEFAULT: return buf_append_c(into, "default");
    case CONF_FILE:
        err = printable_append(str_from(conf->file_name), into);
        return err ? err : buf_appendf(into, ":%u:%u", place.line, place.column);
    case CONF_ENVIRONMENT:
        option_environment_name(option, name);
        return buf_appendf(into, "environment %s", name);
    case CONF_FLAG: option_flag_name(option, name); return buf_appendf(into, "flag %s", name);
    }
    return ERR_INTERNAL;
}

/* Of a gated section only the name is said while nothing of it is set. */
static enum err print_section(const struct option *option, const struct option *before, bool empty,
                              struct buf *into)
{
    struct str section = option_section(option);
    if (section.len == 0 || (before && str_equal(section, option_section(before)))) return ERR_OK;
    return buf_appendf(into, "\n%s[%.*s]\n", empty && (option->flags & OPTION_GATED) ? "#" : "",
                       STR_ARG(section));
}

/* What stands after the comment sign on a line whose value begins at `start`. */
static enum err pad_to_comment(struct buf *into, size_t start)
{
    enum err err = ERR_OK;
    size_t used = into->len - start;
    size_t blanks = used < COMMENT_COLUMN ? COMMENT_COLUMN - used : 2;
    while (blanks-- > 0 && !err) err = buf_append_byte(into, ' ');
    return err ? err : buf_append_c(into, "# ");
}

static enum err print_waiting(const struct conf *conf, const struct option *option,
                              const struct conf_entry *entry, struct buf *into)
{
    enum err err = buf_append_c(into, "; restart to take ");
    if (!err && entry->next_place.source == CONF_UNSET)
        err = buf_append_c(into, "none");
    else if (!err)
        err = option_format(option, &entry->next_value, into);
    if (!err) err = buf_append_c(into, " from ");
    return err ? err : place_text(conf, option, entry->next_place, into);
}

static enum err print_entry(const struct conf *conf, size_t index, struct buf *into)
{
    const struct option *option = &conf->table->options[index];
    const struct conf_entry *entry = &conf->entries[index];
    bool secret = option->flags & OPTION_SECRET, set = entry->place.source != CONF_UNSET;
    bool comment = secret || !set || (option->flags & OPTION_NOT_IN_FILE);
    size_t start = into->len;
    enum err err = buf_appendf(into, "%s%.*s =", comment ? "# " : "", STR_ARG(option_key(option)));

    if (!err && set) err = buf_append_byte(into, ' ');
    if (!err && set && secret)
        err = buf_append_c(into, "(secret)");
    else if (!err && set)
        err = option_format(option, &entry->value, into);
    if (!err) err = pad_to_comment(into, start);
    if (!err && entry->waiting) err = buf_append_c(into, "at start: ");
    if (!err) err = place_text(conf, option, entry->place, into);
    if (!err && entry->waiting && !secret)
        err = print_waiting(conf, option, entry, into);
    else if (!err && entry->waiting)
        err = buf_append_c(into, "; restart to take a new value");
    return err ? err : buf_append_byte(into, '\n');
}

/* Printed, the section would be there when this is read again, and switch something on. */
static bool gated_away(const struct conf *conf, const struct option *option)
{
    char section[OPTION_NAME_CAP];

    if (!(option->flags & OPTION_GATED)) return false;
    snprintf(section, sizeof section, "%.*s", STR_ARG(option_section(option)));
    return !conf_has_section(conf, section);
}

enum err conf_print(const struct conf *conf, const char *title, struct buf *into)
{
    enum err err =
        buf_appendf(into, "# %s: the configuration in force, each value with its source.\n", title);
    const struct option *before = NULL;

    for (size_t i = 0; i < conf->table->count && !err; i++) {
        const struct option *option = &conf->table->options[i];
        if ((option->flags & OPTION_FLAG_ONLY) || gated_away(conf, option)) continue;
        err = print_section(option, before, false, into);
        if (!err) err = print_entry(conf, i, into);
        before = option;
    }
    return err;
}

static enum err print_bounds(const struct option *option, struct buf *into)
{
    struct option_value low = {.number = option->min}, high = {.number = option->max};
    enum err err = ERR_OK;

    if (option->kind == OPTION_ENUM) {
        err = buf_append_c(into, "# One of:");
        for (size_t i = 0; option->choices[i] && !err; i++) {
            err = buf_appendf(into, "%s %s", i > 0 ? "," : "", option->choices[i]);
        }
        return err ? err : buf_append_c(into, ".\n");
    }
    if (option->min == 0 && option->max == 0) return ERR_OK;
    err = buf_append_c(into, "# From ");
    if (!err) err = option_format_plain(option, &low, into);
    if (!err && option->max > 0) err = buf_append_c(into, " to ");
    if (!err && option->max > 0) err = option_format_plain(option, &high, into);
    return err ? err : buf_append_c(into, option->max > 0 ? ".\n" : " on.\n");
}

/* The default, else the example, else an empty place to fill in. */
static enum err print_sample(const struct option *option, struct buf *into)
{
    enum { SCRATCH_MAX = 64 * 1024 };
    const char *sample = option->fallback ? option->fallback : option->example;
    struct option_value value;
    struct arena scratch;
    enum err err = buf_appendf(into, "#%.*s =", STR_ARG(option_key(option)));

    arena_init(&scratch, SCRATCH_MAX);
    if (!err && sample) err = option_parse(option, str_from(sample), &scratch, &value, NULL);
    if (!err && sample) err = buf_append_byte(into, ' ');
    if (!err && sample) err = option_format(option, &value, into);
    if (!err && !option->fallback) {
        err = buf_append_c(into, option->flags & OPTION_REQUIRED ? "  # required"
                                                                 : "  # not set by default");
    }
    arena_deinit(&scratch);
    return err ? err : buf_append_byte(into, '\n');
}

static enum err print_manual(const struct option *option, struct buf *into)
{
    char flag[OPTION_NAME_CAP], variable[OPTION_NAME_CAP];
    struct wrap_options wrap = {.first = "# ", .rest = "# ", .width = WRAP_WIDTH};
    enum err err = wrap_text(str_from(option->help), &wrap, into);

    option_flag_name(option, flag);
    option_environment_name(option, variable);
    if (!err) err = print_bounds(option, into);
    if (!err) {
        err = buf_appendf(into, "# Flag %s, environment %s; %s.\n", flag, variable,
                          option->flags & OPTION_RELOAD      ? "reloaded on SIGHUP"
                          : option->flags & OPTION_RELOAD_ON ? "SIGHUP switches it on"
                                                             : "read at start");
    }
    if (!err && (option->flags & OPTION_NOT_IN_FILE))
        return buf_append_c(into, "# It cannot stand in a file itself.\n");
    return err ? err : print_sample(option, into);
}

enum err conf_print_reference(const struct option_table *table, const char *title, struct buf *into)
{
    const struct option *before = NULL;
    enum err err = buf_appendf(into,
                               "# %s: every option with its default. Take away a '#' to set one.\n"
                               "# A flag beats the environment, which beats this file, which beats "
                               "the default.\n",
                               title);

    for (size_t i = 0; i < table->count && !err; i++) {
        const struct option *option = &table->options[i];
        if (option->flags & OPTION_FLAG_ONLY) continue;
        err = print_section(option, before, true, into);
        if (!err) err = buf_append_byte(into, '\n');
        if (!err) err = print_manual(option, into);
        before = option;
    }
    return err;
}
