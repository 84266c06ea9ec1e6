/* The text behind --help, and the completion script: both are the tables, written out. */
#include <stdio.h>
#include <string.h>

#include "conf/command.h"
#include "conf/wrap.h"

static const char *const exit_meanings[] = {
    "done",
    "failed while running",
    "wrong command line or configuration",
    "not the leader, or not ready",
    "conflict, or it exists already",
    "not found",
    "unavailable, or the outcome is unknown",
};

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

static enum err help_option_facts(const struct option *option, struct buf *into)
{
    char variable[OPTION_NAME_CAP];
    struct buf facts;
    enum err err;

    option_environment_name(option, variable);
    buf_init(&facts, OPTION_TEXT_MAX);
    err = help_bounds(option, &facts);
    if (!err && option->fallback) err = buf_appendf(&facts, "Default: %s. ", option->fallback);
    if (!err && (option->flags & OPTION_REQUIRED)) err = buf_append_c(&facts, "Required. ");
    if (!err && option->example) err = buf_appendf(&facts, "Example: %s. ", option->example);
    if (!err && option->also) err = buf_appendf(&facts, "Also: %s. ", option->also);
    if (!err && !(option->flags & OPTION_FLAG_ONLY)) {
        err = buf_appendf(&facts, "Environment: %s.", variable);
    }
    if (!err && (option->flags & OPTION_RELOAD)) err = buf_append_c(&facts, " Reloaded on SIGHUP.");
    if (!err) err = buf_append_byte(&facts, '\0');
    if (!err && facts.len > 1) err = wrapped(facts.data, "      ", into);
    buf_deinit(&facts);
    return err;
}

static enum err help_options(const struct option_table *table, struct buf *into)
{
    enum err err = buf_append_c(into, "\nOptions:\n");

    for (size_t i = 0; table && i < table->count && !err; i++) {
        const struct option *option = &table->options[i];
        char flag[OPTION_NAME_CAP];
        option_flag_name(option, flag);
        if (option->kind != OPTION_BOOL) {
            err = buf_appendf(into, "  %s %s\n", flag, option_placeholder(option));
        } else if (option->flags & OPTION_FLAG_ONLY) {
            err = buf_appendf(into, "  %s\n", flag);
        } else {
            err = buf_appendf(into, "  --[no-]%s\n", flag + 2);
        }
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
    for (size_t i = 0; i < ARRAY_LEN(exit_meanings) && !err; i++) {
        if (i > 0 && !(command->exits & BIT(i))) continue;
        err = buf_appendf(into, "  %zu  %s\n", i, exit_meanings[i]);
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

/* -- completion: one case arm per command path -- */

static enum err complete_words(const struct command *command, bool is_program, struct buf *into)
{
    const struct option_table *table = command->options;
    char flag[OPTION_NAME_CAP];
    enum err err = ERR_OK;

    for (size_t i = 0; command->children && command->children[i] && !err; i++) {
        if (command->children[i]->hidden) continue;
        err = buf_appendf(into, "%s ", command->children[i]->name);
    }
    if (!err && is_program) err = buf_append_c(into, "help --version ");
    for (size_t i = 0; table && i < table->count && !err; i++) {
        option_flag_name(&table->options[i], flag);
        err = buf_appendf(into, "%s ", flag);
        if (!err && table->options[i].kind == OPTION_BOOL &&
            !(table->options[i].flags & OPTION_FLAG_ONLY)) {
            err = buf_appendf(into, "--no-%s ", flag + 2);
        }
    }
    return err ? err : buf_append_c(into, "--help");
}

static enum err complete_values(const struct command *command, const char *path, struct buf *into)
{
    const struct option_table *table = command->options;
    char flag[OPTION_NAME_CAP];
    enum err err = ERR_OK;

    for (size_t i = 0; table && i < table->count && !err; i++) {
        if (!table->options[i].choices) continue;
        option_flag_name(&table->options[i], flag);
        err = buf_appendf(into, "        '%s %s'", path, flag);
        if (!err && table->options[i].also)
            err = buf_appendf(into, "|'%s %s'", path, table->options[i].also);
        if (!err) err = buf_append_c(into, ") words='");
        for (size_t j = 0; table->options[i].choices[j] && !err; j++) {
            err = buf_appendf(into, "%s%s", j > 0 ? " " : "", table->options[i].choices[j]);
        }
        if (!err) err = buf_append_c(into, "' ;;\n");
    }
    return err;
}

/* Depth is COMMAND_DEPTH_MAX at most: the tree is ours and command_resolve asserts it. */
static enum err complete_command(const struct command *command, const char *parent, bool values,
                                 struct buf *into)
{
    char path[COMMAND_PATH_CAP];
    enum err err = ERR_OK;

    snprintf(path, sizeof path, "%s%s%s", parent, parent[0] ? " " : "", command->name);
    if (values) {
        err = complete_values(command, path, into);
    } else {
        err = buf_appendf(into, "        '%s') words='", path);
        if (!err) err = complete_words(command, parent[0] == '\0', into);
        if (!err) err = buf_append_c(into, "' ;;\n");
    }
    for (size_t i = 0; command->children && command->children[i] && !err; i++) {
        err = complete_command(command->children[i], path, values, into);
    }
    return err;
}

enum err command_completion_bash(const struct command *program, struct buf *into)
{
    const char *name = program->name;
    enum err err = buf_appendf(
        into,
        "# Completion for %s in bash: source <(%s completion bash)\n"
        "_%s_complete() {\n"
        "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} path=%s "
        "words='' i\n"
        "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
        "        case ${COMP_WORDS[i]} in -*) break ;; *) path+=\" ${COMP_WORDS[i]}\" ;; esac\n"
        "    done\n"
        "    case $path in\n",
        name, name, name, name);

    if (!err) err = complete_command(program, "", false, into);
    if (!err) err = buf_append_c(into, "    esac\n    case \"$path $before\" in\n");
    if (!err) err = complete_command(program, "", true, into);
    if (!err) {
        err = buf_appendf(into,
                          "    esac\n"
                          "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
                          "}\n"
                          "complete -o default -F _%s_complete %s\n",
                          name, name);
    }
    return err;
}
