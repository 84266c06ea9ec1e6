/* SPDX-License-Identifier: Apache-2.0 */
/* Completion scripts for three shells. Each is a few lines of that shell around lists made from the
 * tables: which words may follow a command, what each is for, and the choices of an option.
 *
 * All three go the same way: the words of the line are followed as far as they name commands, so
 * that arguments in between ("assignment w-1 --o") do not hide what the command can do. */
#include <stdio.h>
#include <string.h>

#include "conf/command.h"

/* -- the words of a command, one at a time -- */

typedef enum err word_fn(struct buf *into, const char *word, const char *what);

static enum err each_option_word(const struct option *option, struct buf *into, word_fn *put)
{
    char flag[OPTION_NAME_CAP], no[OPTION_NAME_CAP];
    enum err err;

    option_flag_name(option, flag);
    err = put(into, flag, option->help);
    if (err || option->kind != OPTION_BOOL || (option->flags & OPTION_FLAG_ONLY)) return err;
    snprintf(no, sizeof no, "--no-%.*s", OPTION_NAME_CAP - 6, flag + 2);
    return put(into, no, option->help);
}

static enum err each_word(const struct command *command, bool is_program, struct buf *into,
                          word_fn *put)
{
    const struct option_table *table = command->options;
    enum err err = ERR_OK;

    for (size_t i = 0; command->children && command->children[i] && !err; i++)
        if (!command->children[i]->hidden)
            err = put(into, command->children[i]->name, command->children[i]->summary);
    if (!err && is_program) err = put(into, "help", "the help of a command");
    if (!err && is_program) err = put(into, "--version", "version, commit and engines");
    for (size_t i = 0; table && i < table->count && !err; i++)
        err = each_option_word(&table->options[i], into, put);
    return err ? err : put(into, "--help", "what it does, its options, examples");
}

static bool is_program(const char *path)
{
    return !strchr(path, ' ');
}

/* -- pieces that bash and zsh share; both have `case` -- */

/* "'musterctl cert'|'musterctl cert issue'|..." */
static enum err path_pattern(void *owner, const struct command *command, const char *path)
{
    struct buf *into = owner;

    (void)command;
    if (is_program(path)) return ERR_OK;
    return buf_appendf(into, "%s'%s'", into->data[into->len - 1] == '\n' ? "" : "|", path);
}

static enum err choices_arms(void *owner, const struct command *command, const char *path)
{
    const struct option_table *table = command->options;
    struct buf *into = owner;
    char flag[OPTION_NAME_CAP];
    enum err err = ERR_OK;

    for (size_t i = 0; table && i < table->count && !err; i++) {
        if (!table->options[i].choices) continue;
        option_flag_name(&table->options[i], flag);
        err = buf_appendf(into, "        '%s %s'", path, flag);
        if (!err && table->options[i].also)
            err = buf_appendf(into, "|'%s %s'", path, table->options[i].also);
        if (!err) err = buf_append_c(into, ") words=(");
        for (size_t j = 0; table->options[i].choices[j] && !err; j++)
            err = buf_appendf(into, "%s%s", j > 0 ? " " : "", table->options[i].choices[j]);
        if (!err) err = buf_append_c(into, ") ;;\n");
    }
    return err;
}

/* -- bash -- */

static enum err bash_word(struct buf *into, const char *word, const char *what)
{
    (void)what; /* bash has no place for it */
    return buf_appendf(into, "%s%s", into->data[into->len - 1] == '(' ? "" : " ", word);
}

static enum err bash_arm(void *owner, const struct command *command, const char *path)
{
    struct buf *into = owner;
    enum err err = buf_appendf(into, "        '%s') words=(", path);

    if (!err) err = each_word(command, is_program(path), into, bash_word);
    return err ? err : buf_append_c(into, ") ;;\n");
}

enum err command_completion_bash(const struct command *program, struct buf *into)
{
    const char *name = program->name;
    enum err err = buf_appendf(
        into,
        "# Completion for %s in bash: source <(%s completion bash)\n"
        "_%s_complete() {\n"
        "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} path=%s i\n"
        "    local -a words=()\n"
        "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
        "        case \"$path ${COMP_WORDS[i]}\" in\n",
        name, name, name, name);

    if (!err) err = command_visit(program, path_pattern, into);
    if (!err)
        err = buf_append_c(into, ") path+=\" ${COMP_WORDS[i]}\" ;;\n"
                                 "        *) break ;;\n"
                                 "        esac\n"
                                 "    done\n"
                                 "    case $path in\n");
    if (!err) err = command_visit(program, bash_arm, into);
    if (!err) err = buf_append_c(into, "    esac\n    case \"$path $before\" in\n");
    if (!err) err = command_visit(program, choices_arms, into);
    if (err) return err;
    return buf_appendf(into,
                       "    esac\n"
                       "    mapfile -t COMPREPLY < <(compgen -W \"${words[*]}\" -- \"$word\")\n"
                       "}\n"
                       "complete -o default -F _%s_complete %s\n",
                       name, name);
}

/* -- zsh -- */

/* Into single quotes, on one line, and its first sentence is enough. */
static enum err quoted(struct str text, bool zsh, struct buf *into)
{
    enum err err = ERR_OK;

    for (size_t i = 0; i < text.len && !err; i++) {
        if (text.at[i] == '\n' || text.at[i] == ';') break;
        if (text.at[i] == '\'')
            err = buf_append_c(into, zsh ? "'\\''" : "\\'");
        else if (text.at[i] == '\\')
            err = buf_append_c(into, "\\\\");
        else
            err = buf_append_byte(into, text.at[i]);
    }
    return err;
}

static enum err zsh_word(struct buf *into, const char *word, const char *what)
{
    enum err err = buf_appendf(into, " '%s:", word); /* no name of ours has a colon */

    if (!err) err = quoted(str_from(what), true, into);
    return err ? err : buf_append_byte(into, '\'');
}

static enum err zsh_arm(void *owner, const struct command *command, const char *path)
{
    struct buf *into = owner;
    enum err err = buf_appendf(into, "        '%s') told=(", path);

    if (!err) err = each_word(command, is_program(path), into, zsh_word);
    return err ? err : buf_append_c(into, ") ;;\n");
}

enum err command_completion_zsh(const struct command *program, struct buf *into)
{
    const char *name = program->name;
    enum err err = buf_appendf(
        into,
        "#compdef %s\n"
        "# Completion for %s in zsh: source <(%s completion zsh), or a file _%s in $fpath\n"
        "_%s() {\n"
        "    local before=${words[CURRENT-1]} at=%s i\n"
        "    local -a told typed=(\"${(@)words}\")\n"
        "    for ((i = 2; i < CURRENT; i++)); do\n"
        "        case \"$at ${typed[i]}\" in\n",
        name, name, name, name, name, name);

    if (!err) err = command_visit(program, path_pattern, into);
    if (!err)
        err = buf_append_c(into, ") at+=\" ${typed[i]}\" ;;\n"
                                 "        *) break ;;\n"
                                 "        esac\n"
                                 "    done\n"
                                 "    local -a words=()\n"
                                 "    case \"$at $before\" in\n");
    if (!err) err = command_visit(program, choices_arms, into);
    if (!err)
        err = buf_append_c(into, "    esac\n"
                                 "    if ((${#words})); then\n"
                                 "        compadd -a words\n"
                                 "        return\n"
                                 "    fi\n"
                                 "    case $at in\n");
    if (!err) err = command_visit(program, zsh_arm, into);
    if (err) return err;
    return buf_appendf(into,
                       "    esac\n"
                       "    _describe -t commands %s told || _files\n"
                       "}\n"
                       "if [ \"$funcstack[1]\" = _%s ]; then _%s \"$@\"; else compdef _%s %s; fi\n",
                       name, name, name, name, name);
}

/* -- fish: a line for each word; it knows by itself what an option is -- */

static enum err fish_begin(struct buf *into, const char *path)
{
    const char *space = strchr(path, ' ');
    int name = (int)(space ? (size_t)(space - path) : strlen(path));

    return buf_appendf(into, "complete -c %.*s -n '__%.*s_at%s'", name, path, name, path,
                       space ? space : "");
}

static enum err fish_end(struct buf *into, const char *what)
{
    enum err err = buf_append_c(into, " -d '");

    if (!err) err = quoted(str_from(what), false, into);
    return err ? err : buf_append_c(into, "'\n");
}

static enum err fish_word(struct buf *into, const char *path, const char *word, const char *what)
{
    enum err err = fish_begin(into, path);

    if (!err) err = buf_appendf(into, " -f -a %s", word);
    return err ? err : fish_end(into, what);
}

/* One spelling: "--output", "-o", "--no-color". */
static enum err fish_spelling(struct buf *into, const char *path, const struct option *option,
                              const char *flag)
{
    bool is_long = strncmp(flag, "--", 2) == 0;
    enum err err = fish_begin(into, path);

    if (!err) err = buf_appendf(into, " -%c %s", is_long ? 'l' : 's', flag + (is_long ? 2 : 1));
    if (!err && option->kind != OPTION_BOOL)
        err = buf_append_c(into, option->choices ? " -x" : " -r");
    if (!err && option->choices) err = buf_append_c(into, " -a '");
    for (size_t i = 0; option->choices && option->choices[i] && !err; i++)
        err = buf_appendf(into, "%s%s", i > 0 ? " " : "", option->choices[i]);
    if (!err && option->choices) err = buf_append_byte(into, '\'');
    return err ? err : fish_end(into, option->help);
}

static enum err fish_option(struct buf *into, const char *path, const struct option *option)
{
    char flag[OPTION_NAME_CAP], no[OPTION_NAME_CAP];
    enum err err;

    option_flag_name(option, flag);
    err = fish_spelling(into, path, option, flag);
    if (!err && option->also) err = fish_spelling(into, path, option, option->also);
    if (err || option->kind != OPTION_BOOL || (option->flags & OPTION_FLAG_ONLY)) return err;
    snprintf(no, sizeof no, "--no-%.*s", OPTION_NAME_CAP - 6, flag + 2);
    return fish_spelling(into, path, option, no);
}

static enum err fish_command(void *owner, const struct command *command, const char *path)
{
    static const struct option help = {.kind = OPTION_BOOL,
                                       .help = "what it does, its options, examples"};
    static const struct option version = {.kind = OPTION_BOOL,
                                          .help = "version, commit and engines"};
    const struct option_table *table = command->options;
    struct buf *into = owner;
    enum err err = ERR_OK;

    for (size_t i = 0; command->children && command->children[i] && !err; i++)
        if (!command->children[i]->hidden)
            err = fish_word(into, path, command->children[i]->name, command->children[i]->summary);
    if (!err && is_program(path)) err = fish_word(into, path, "help", "the help of a command");
    if (!err && is_program(path)) err = fish_spelling(into, path, &version, "--version");
    for (size_t i = 0; table && i < table->count && !err; i++)
        err = fish_option(into, path, &table->options[i]);
    return err ? err : fish_spelling(into, path, &help, "--help");
}

static enum err fish_path(void *owner, const struct command *command, const char *path)
{
    (void)command;
    if (is_program(path)) return ERR_OK;
    return buf_appendf(owner, " '%s'", strchr(path, ' ') + 1);
}

enum err command_completion_fish(const struct command *program, struct buf *into)
{
    const char *name = program->name;
    enum err err = buf_appendf(into,
                               "# Completion for %s in fish: %s completion fish | source\n"
                               "set -g __%s_paths",
                               name, name, name);

    if (!err) err = command_visit(program, fish_path, into);
    if (!err)
        err = buf_appendf(into,
                          "\n"
                          "function __%s_at --description 'are these the commands of the line?'\n"
                          "    set -l path\n"
                          "    for word in (commandline -opc)[2..-1]\n"
                          "        set -l longer $path $word\n"
                          "        contains -- \"$longer\" $__%s_paths; or break\n"
                          "        set path $longer\n"
                          "    end\n"
                          "    test \"$path\" = \"$argv\"\n"
                          "end\n",
                          name, name);
    return err ? err : command_visit(program, fish_command, into);
}
