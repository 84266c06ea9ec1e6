/* SPDX-License-Identifier: Apache-2.0 */
/* The text of --help, made from the tables of commands and options. */
#include <stdio.h>
#include <string.h>

#include "conf/command.h"
#include "conf/writer.h"

static void help_usage(const struct command_call *call, struct writer *w)
{
    const struct command *command = command_of(call);
    char path[COMMAND_PATH_CAP];

    command_path_text(call, path);
    writer_add(w, "%s: %s\n\nUsage: %s", path, command->summary, path);
    if (command->children)
        writer_add(w, " COMMAND [OPTION]...");
    else if (command->options)
        writer_add(w, " [OPTION]...");
    if (!command->children && command->arguments) writer_add(w, " %s", command->arguments);
    writer_add(w, "\n\n");
    writer_indent(w, str_from(command->about), "  ");
}

static void help_children(const struct command *group, struct writer *w)
{
    size_t width = 0;

    for (const struct command *const *child = group->children; *child; child++)
        if (!(*child)->hidden) width = max_size(width, strlen(command_name(group, *child)));
    writer_add(w, "\nCommands:\n");
    for (const struct command *const *child = group->children; *child; child++)
        if (!(*child)->hidden)
            writer_add(w, "  %-*s  %s\n", (int)width, command_name(group, *child),
                       (*child)->summary);
}

enum err command_option_facts(const struct option *option, struct buf *facts)
{
    struct writer w = {.into = facts};
    char variable[OPTION_NAME_CAP];

    option_environment_name(option, variable);
    writer_bounds(&w, option, "", "", ". ");
    if (option->fallback) writer_add(&w, "Default: %s. ", option->fallback);
    if (option->flags & OPTION_REQUIRED) writer_add(&w, "Required. ");
    if (option->example) writer_add(&w, "Example: %s. ", option->example);
    if (option->also) writer_add(&w, "Also: %s. ", option->also);
    if (!(option->flags & OPTION_FLAG_ONLY)) writer_add(&w, "Environment: %s.", variable);
    if (option->flags & OPTION_RELOAD) writer_add(&w, " Reloaded on SIGHUP.");
    if (option->flags & OPTION_RELOAD_ON)
        writer_add(&w, " SIGHUP switches it on; off needs a restart.");
    return w.err;
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

static void help_options(const struct option_table *table, struct writer *w)
{
    writer_add(w, "\nOptions:\n");
    for (size_t i = 0; table && i < table->count; i++) {
        const struct option *option = &table->options[i];
        char flag[OPTION_NAME_CAP];
        const char *value = command_option_usage(option, flag);
        struct buf facts;

        buf_init(&facts, OPTION_TEXT_MAX);
        writer_add(w, "  %s%s%s\n", flag, value[0] ? " " : "", value);
        writer_indent(w, str_from(option->help), "      ");
        if (!w->err) w->err = command_option_facts(option, &facts);
        if (facts.len > 0) writer_indent(w, buf_peek(&facts), "      ");
        buf_deinit(&facts);
    }
    writer_add(w, "  --help\n      show this text\n");
}

static void help_examples(const struct command *command, struct writer *w)
{
    writer_add(w, "\nExamples:\n");
    for (const struct command_example *e = command->examples; e->line; e++) {
        writer_add(w, "  %s\n", e->line);
        writer_indent(w, str_from(e->what), "      ");
    }
}

static void help_exits(const struct command *command, struct writer *w)
{
    writer_add(w, "\nExit codes:\n");
    for (size_t i = 0; command_exit_meaning(i); i++)
        if ((COMMAND_EXITS | command->exits) & BIT(i))
            writer_add(w, "  %zu  %s\n", i, command_exit_meaning(i));
}

static void help_see(const struct command_call *call, struct writer *w)
{
    writer_add(w, "\nSee %s help ", call->path[0]->name);
    for (size_t i = 1; i < call->depth; i++)
        writer_add(w, "%s ", command_name(call->path[i - 1], call->path[i]));
    writer_add(w, "COMMAND for one of them%s.\n",
               call->depth == 1 ? ", --version for the version" : "");
}

enum err command_help(const struct command_call *call, struct buf *into)
{
    const struct command *command = command_of(call);
    struct writer w = {.into = into};

    help_usage(call, &w);
    if (command->children)
        help_children(command, &w);
    else
        help_options(command->options, &w);
    if (command->examples) help_examples(command, &w);
    if (command->children)
        help_see(call, &w);
    else
        help_exits(command, &w);
    return w.err;
}
