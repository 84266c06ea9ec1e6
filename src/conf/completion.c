/* SPDX-License-Identifier: Apache-2.0 */
/* Completion scripts for three shells. Each is a few lines of that shell around lists made from the
 * tables: which words may follow a command, what each is for, and the choices of an option.
 *
 * All three go the same way: the words of the line are followed as far as they name commands, so
 * that arguments in between ("assignment w-1 --o") do not hide what the command can do. */
#include <stdio.h>
#include <string.h>

#include "conf/command.h"
#include "conf/writer.h"

/* -- the words of a command, one at a time -- */

typedef void word_fn(struct writer *w, const char *word, const char *what);

/* False: there is no such spelling. */
static bool negated(const struct option *option, char no[OPTION_NAME_CAP])
{
    char flag[OPTION_NAME_CAP];

    if (option->kind != OPTION_BOOL || (option->flags & OPTION_FLAG_ONLY)) return false;
    option_flag_name(option, flag);
    snprintf(no, OPTION_NAME_CAP, "--no-%.*s", OPTION_NAME_CAP - 6, flag + 2);
    return true;
}

static void each_word(const struct command *command, bool is_program, struct writer *w,
                      word_fn *put)
{
    const struct option_table *table = command->options;
    char flag[OPTION_NAME_CAP];

    for (size_t i = 0; command->children && command->children[i]; i++)
        if (!command->children[i]->hidden)
            put(w, command_name(command, command->children[i]), command->children[i]->summary);
    if (is_program) put(w, "help", "the help of a command");
    if (is_program) put(w, "--version", "version, commit and engines");
    for (size_t i = 0; table && i < table->count; i++) {
        const struct option *option = &table->options[i];
        option_flag_name(option, flag);
        put(w, flag, option->help);
        if (negated(option, flag)) put(w, flag, option->help);
    }
    put(w, "--help", "what it does, its options, examples");
}

static bool is_program(const char *path)
{
    return !strchr(path, ' ');
}

static char last_byte(const struct writer *w)
{
    return w->into->len > 0 ? w->into->data[w->into->len - 1] : '\0';
}

static void put_choices(struct writer *w, const struct option *option)
{
    for (size_t i = 0; option->choices[i]; i++)
        writer_add(w, "%s%s", i > 0 ? " " : "", option->choices[i]);
}

/* -- pieces that bash and zsh share; both have `case` -- */

/* "'musterctl cert'|'musterctl cert issue'|..." */
static enum err path_pattern(void *owner, const struct command_call *, const char *path)
{
    struct writer *w = owner;

    if (!is_program(path)) writer_add(w, "%s'%s'", last_byte(w) == '\n' ? "" : "|", path);
    return w->err;
}

static enum err choices_arms(void *owner, const struct command_call *call, const char *path)
{
    const struct option_table *table = command_of(call)->options;
    struct writer *w = owner;
    char flag[OPTION_NAME_CAP];

    for (size_t i = 0; table && i < table->count; i++) {
        const struct option *option = &table->options[i];
        if (!option->choices) continue;
        option_flag_name(option, flag);
        writer_add(w, "        '%s %s'", path, flag);
        if (option->also) writer_add(w, "|'%s %s'", path, option->also);
        writer_add(w, ") words=(");
        put_choices(w, option);
        writer_add(w, ") ;;\n");
    }
    return w->err;
}

/* -- bash -- */

static void bash_word(struct writer *w, const char *word, const char *what)
{
    (void)what; /* bash has no place for it */
    writer_add(w, "%s%s", last_byte(w) == '(' ? "" : " ", word);
}

static enum err bash_arm(void *owner, const struct command_call *call, const char *path)
{
    struct writer *w = owner;

    writer_add(w, "        '%s') words=(", path);
    each_word(command_of(call), is_program(path), w, bash_word);
    writer_add(w, ") ;;\n");
    return w->err;
}

enum err command_completion_bash(const struct command *program, struct buf *into)
{
    const char *name = program->name;
    struct writer w = {.into = into};

    writer_add(
        &w,
        "# Completion for %s in bash: source <(%s completion bash)\n"
        "_%s_complete() {\n"
        "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} path=%s i\n"
        "    local -a words=()\n"
        "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
        "        case \"$path ${COMP_WORDS[i]}\" in\n",
        name, name, name, name);
    (void)command_visit(program, path_pattern, &w);
    writer_add(&w, ") path+=\" ${COMP_WORDS[i]}\" ;;\n"
                   "        *) break ;;\n"
                   "        esac\n"
                   "    done\n"
                   "    case $path in\n");
    (void)command_visit(program, bash_arm, &w);
    writer_add(&w, "    esac\n    case \"$path $before\" in\n");
    (void)command_visit(program, choices_arms, &w);
    writer_add(&w,
               "    esac\n"
               "    mapfile -t COMPREPLY < <(compgen -W \"${words[*]}\" -- \"$word\")\n"
               "}\n"
               "complete -o default -F _%s_complete %s\n",
               name, name);
    return w.err;
}

/* -- zsh -- */

/* Into single quotes, on one line, and its first sentence is enough. */
static void quoted(struct writer *w, const char *text, const char *quote)
{
    for (const char *c = text; *c && *c != '\n' && *c != ';'; c++) {
        if (*c == '\'')
            writer_add(w, "%s", quote);
        else
            writer_add(w, "%s%c", *c == '\\' ? "\\" : "", *c);
    }
}

static void zsh_word(struct writer *w, const char *word, const char *what)
{
    writer_add(w, " '%s:", word); /* no name of ours has a colon */
    quoted(w, what, "'\\''");
    writer_add(w, "'");
}

static enum err zsh_arm(void *owner, const struct command_call *call, const char *path)
{
    struct writer *w = owner;

    writer_add(w, "        '%s') told=(", path);
    each_word(command_of(call), is_program(path), w, zsh_word);
    writer_add(w, ") ;;\n");
    return w->err;
}

enum err command_completion_zsh(const struct command *program, struct buf *into)
{
    const char *name = program->name;
    struct writer w = {.into = into};

    writer_add(&w,
               "#compdef %s\n"
               "# Completion for %s in zsh: source <(%s completion zsh), or a file _%s in $fpath\n"
               "_%s() {\n"
               "    local before=${words[CURRENT-1]} at=%s i\n"
               "    local -a told typed=(\"${(@)words}\")\n"
               "    for ((i = 2; i < CURRENT; i++)); do\n"
               "        case \"$at ${typed[i]}\" in\n",
               name, name, name, name, name, name);
    (void)command_visit(program, path_pattern, &w);
    writer_add(&w, ") at+=\" ${typed[i]}\" ;;\n"
                   "        *) break ;;\n"
                   "        esac\n"
                   "    done\n"
                   "    local -a words=()\n"
                   "    case \"$at $before\" in\n");
    (void)command_visit(program, choices_arms, &w);
    writer_add(&w, "    esac\n"
                   "    if ((${#words})); then\n"
                   "        compadd -a words\n"
                   "        return\n"
                   "    fi\n"
                   "    case $at in\n");
    (void)command_visit(program, zsh_arm, &w);
    writer_add(&w,
               "    esac\n"
               "    _describe -t commands %s told || _files\n"
               "}\n"
               "if [ \"$funcstack[1]\" = _%s ]; then _%s \"$@\"; else compdef _%s %s; fi\n",
               name, name, name, name, name);
    return w.err;
}

/* -- fish: a line for each word; it knows by itself what an option is -- */

static void fish_begin(struct writer *w, const char *path)
{
    const char *space = strchr(path, ' ');
    int name = (int)(space ? (size_t)(space - path) : strlen(path));

    writer_add(w, "complete -c %.*s -n '__%.*s_at%s'", name, path, name, path, space ? space : "");
}

static void fish_end(struct writer *w, const char *what)
{
    writer_add(w, " -d '");
    quoted(w, what, "\\'");
    writer_add(w, "'\n");
}

static void fish_word(struct writer *w, const char *path, const char *word, const char *what)
{
    fish_begin(w, path);
    writer_add(w, " -f -a %s", word);
    fish_end(w, what);
}

/* One spelling: "--output", "-o", "--no-color". */
static void fish_spelling(struct writer *w, const char *path, const struct option *option,
                          const char *flag)
{
    bool is_long = strncmp(flag, "--", 2) == 0;

    fish_begin(w, path);
    writer_add(w, " -%c %s", is_long ? 'l' : 's', flag + (is_long ? 2 : 1));
    if (option->kind != OPTION_BOOL) writer_add(w, option->choices ? " -x" : " -r");
    if (option->choices) {
        writer_add(w, " -a '");
        put_choices(w, option);
        writer_add(w, "'");
    }
    fish_end(w, option->help);
}

static enum err fish_command(void *owner, const struct command_call *call, const char *path)
{
    static const struct option help = {.kind = OPTION_BOOL,
                                       .help = "what it does, its options, examples"};
    static const struct option version = {.kind = OPTION_BOOL,
                                          .help = "version, commit and engines"};
    const struct command *command = command_of(call);
    const struct option_table *table = command->options;
    struct writer *w = owner;
    char flag[OPTION_NAME_CAP];

    for (size_t i = 0; command->children && command->children[i]; i++)
        if (!command->children[i]->hidden)
            fish_word(w, path, command_name(command, command->children[i]),
                      command->children[i]->summary);
    if (is_program(path)) fish_word(w, path, "help", "the help of a command");
    if (is_program(path)) fish_spelling(w, path, &version, "--version");
    for (size_t i = 0; table && i < table->count; i++) {
        const struct option *option = &table->options[i];
        option_flag_name(option, flag);
        fish_spelling(w, path, option, flag);
        if (option->also) fish_spelling(w, path, option, option->also);
        if (negated(option, flag)) fish_spelling(w, path, option, flag);
    }
    fish_spelling(w, path, &help, "--help");
    return w->err;
}

static enum err fish_path(void *owner, const struct command_call *, const char *path)
{
    struct writer *w = owner;

    if (!is_program(path)) writer_add(w, " '%s'", strchr(path, ' ') + 1);
    return w->err;
}

enum err command_completion_fish(const struct command *program, struct buf *into)
{
    const char *name = program->name;
    struct writer w = {.into = into};

    writer_add(&w,
               "# Completion for %s in fish: %s completion fish | source\n"
               "set -g __%s_paths",
               name, name, name);
    (void)command_visit(program, fish_path, &w);
    writer_add(&w,
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
    (void)command_visit(program, fish_command, &w);
    return w.err;
}
