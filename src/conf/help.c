/* SPDX-License-Identifier: Apache-2.0 */
/* The text behind --help: the tables, written out. */
#include <stdio.h>
#include <string.h>

#include "conf/command.h"
#include "conf/wrap.h"

static enum err wrapped(const char *text, const char *indent, struct buf *into)
{
    struct wrap_options options = {.first = indent, .rest = indent, .width = WRAP_WIDTH};
    return wrap_text(str_from(text), &options, into);
}

static enum err help_usage(const struct command_call *call, struct buf *into)
{
    const struct command *command = command_of(call);
    char path[COMMAND_PATH_CAP];
    enum err err;

    command_path_text(call, path);
    err = buf_appendf(into, "%s: %s\n\nUsage: %s", path, command->summary, path);
    if (!err && command->children) return buf_append_c(into, " COMMAND [OPTION]...\n");
    if (!err && command->options) err = buf_append_c(into, " [OPTION]...");
    if (!err && command->arguments) err = buf_appendf(into, " %s", command->arguments);
    return err ? err : buf_append_byte(into, '\n');
}

static enum err help_children(const struct command *command, struct buf *into)
{
    size_t width = 0;
    enum err err = buf_append_c(into, "\nCommands:\n");

    for (size_t i = 0; command->children[i]; i++) {
        if (command->children[i]->hidden) continue;
        width = max_size(width, strlen(command->children[i]->name));
    }
    for (size_t i = 0; command->children[i] && !err; i++) {
        if (command->children[i]->hidden) continue;
        err = buf_appendf(into, "  %-*s  %s\n", (int)width, command->children[i]->name,
                          command->children[i]->summary);
    }
    return err;
}

static enum err help_bounds(const struct option *option, struct buf *facts)
{
    struct option_value low = {.number = option->min}, high = {.number = option->max};
    enum err err = ERR_OK;

    if (option->choices) {
        err = buf_append_c(facts, "One of");
        for (size_t i = 0; option->choices[i] && !err; i++) {
            err = buf_appendf(facts, "%s %s", i > 0 ? "," : "", option->choices[i]);
        }
        return err ? err : buf_append_c(facts, ". ");
    }
    if (option->min == 0 && option->max == 0) return ERR_OK;
    err = buf_append_c(facts, "From ");
    if (!err) err = option_format_plain(option, &low, facts);
    if (!err && option->max > 0) err = buf_append_c(facts, " to ");
    if (!err && option->max > 0) err = option_format_plain(option, &high, facts);
    return err ? err : buf_append_c(facts, option->max > 0 ? ". " : " on. ");
}

enum err command_option_facts(const struct option *option, struct buf *facts)
{
    char variable[OPTION_NAME_CAP];
    enum err err;

    option_environment_name(option, variable);
    err = help_bounds(option, facts);
    if (!err && option->fallback) err = buf_appendf(facts, "Default: %s. ", option->fallback);
    if (!err && (option->flags & OPTION_REQUIRED)) err = buf_append_c(facts, "Required. ");
    if (!err && option->example) err = buf_appendf(facts, "Example: %s. ", option->example);
    if (!err && option->also) err = buf_appendf(facts, "Also: %s. ", option->also);
    if (!err && !(option->flags & OPTION_FLAG_ONLY)) {
        err = buf_appendf(facts, "Environment: %s.", variable);
    }
    if (!err && (option->flags & OPTION_RELOAD)) err = buf_append_c(facts, " Reloaded on SIGHUP.");
    if (!err && (option->flags & OPTION_RELOAD_ON))
        err = buf_append_c(facts, " SIGHUP switches it on; off needs a restart.");
    return err;
}

static enum err help_option_facts(const struct option *option, struct buf *into)
{
    struct buf facts;
    enum err err;

    buf_init(&facts, OPTION_TEXT_MAX);
    err = command_option_facts(option, &facts);
    if (!err) err = buf_append_byte(&facts, '\0');
    if (!err && facts.len > 1) err = wrapped(facts.data, "      ", into);
    buf_deinit(&facts);
    return err;
}

const char *command_option_usage(const struct option *option, char flag[OPTION_NAME_CAP])
{
    char plain[OPTION_NAME_CAP];

    option_flag_name(option, flag);
    if (option->kind != OPTION_BOOL) return option_placeholder(option);
    if (option->flags & OPTION_FLAG_ONLY) return "";
    memcpy(plain, flag, sizeof plain);
    snprintf(flag, OPTION_NAME_CAP, "--[no-]%.*s", OPTION_NAME_CAP - 8, plain + 2);
    return "";
}

static enum err help_options(const struct option_table *table, struct buf *into)
{
    enum err err = buf_append_c(into, "\nOptions:\n");

    for (size_t i = 0; table && i < table->count && !err; i++) {
        const struct option *option = &table->options[i];
        char flag[OPTION_NAME_CAP];
        const char *value = command_option_usage(option, flag);
        err = buf_appendf(into, "  %s%s%s\n", flag, value[0] ? " " : "", value);
        if (!err) err = wrapped(option->help, "      ", into);
        if (!err) err = help_option_facts(option, into);
    }
    return err ? err : buf_append_c(into, "  --help\n      show this text\n");
}

static enum err help_examples(const struct command *command, struct buf *into)
{
    enum err err = buf_append_c(into, "\nExamples:\n");
    for (const struct command_example *e = command->examples; e->line && !err; e++) {
        err = buf_appendf(into, "  %s\n", e->line);
        if (!err) err = wrapped(e->what, "      ", into);
    }
    return err;
}

static enum err help_exits(const struct command *command, struct buf *into)
{
    enum err err = buf_append_c(into, "\nExit codes:\n");
    for (size_t i = 0; command_exit_meaning(i) && !err; i++) {
        if (i > 0 && !(command->exits & BIT(i))) continue;
        err = buf_appendf(into, "  %zu  %s\n", i, command_exit_meaning(i));
    }
    return err;
}

enum err command_help(const struct command_call *call, struct buf *into)
{
    const struct command *command = command_of(call);
    enum err err = help_usage(call, into);

    if (!err) err = buf_append_byte(into, '\n');
    if (!err) err = wrapped(command->about, "  ", into);
    if (!err && command->children) err = help_children(command, into);
    if (!err && !command->children) err = help_options(command->options, into);
    if (!err && command->examples) err = help_examples(command, into);
    if (!err && !command->children) err = help_exits(command, into);
    if (err || !command->children) return err;
    err = buf_appendf(into, "\nSee %s help ", call->path[0]->name);
    for (size_t i = 1; i < call->depth && !err; i++)
        err = buf_appendf(into, "%s ", call->path[i]->name);
    if (err) return err;
    return buf_appendf(into, "COMMAND for one of them%s.\n",
                       call->depth == 1 ? ", --version for the version" : "");
}
