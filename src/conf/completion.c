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
static bool completion_negated(const struct option *option, char no[OPTION_NAME_CAP])
{
    char flag[OPTION_NAME_CAP];

    if (option->kind != OPTION_BOOL || (option->flags & OPTION_FLAG_ONLY)) return false;
    option_flag_name(option, flag);
    snprintf(no, OPTION_NAME_CAP, "--no-%.*s", OPTION_NAME_CAP - 6, flag + 2);
    return true;
}

static void completion_each_word(const struct command *command, bool is_program, struct writer *w,
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
        if (completion_negated(option, flag)) put(w, flag, option->help);
    }
    put(w, "--help", "what it does, its options, examples");
}

static bool completion_is_program(const char *path)
{
    return !strchr(path, ' ');
}

static char completion_last_byte(const struct writer *w)
{
    return w->into->len > 0 ? w->into->data[w->into->len - 1] : '\0';
}

static void completion_put_choices(struct writer *w, const struct option *option)
{
    for (size_t i = 0; option->choices[i]; i++)
        writer_add(w, "%s%s", i > 0 ? " " : "", option->choices[i]);
}

/* -- pieces that bash and zsh share; both have `case` -- */

/* "'musterctl cert'|'musterctl cert issue'|..." */
static enum err completion_case_paths(void *owner, const struct command_call *, const char *path)
{
    struct writer *w = owner;

    if (!completion_is_program(path))
        writer_add(w, "%s'%s'", completion_last_byte(w) == '\n' ? "" : "|", path);
    return w->err;
}

static enum err completion_case_choices(void *owner, const struct command_call *call,
                                        const char *path)
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
        completion_put_choices(w, option);
        writer_add(w, ") ;;\n");
    }
    return w->err;
}

/* -- bash -- */

static void bash_word(struct writer *w, const char *word, const char *what)
{
    (void)what; /* bash has no place for it */
    writer_add(w, "%s%s", completion_last_byte(w) == '(' ? "" : " ", word);
}

static enum err bash_arm(void *owner, const struct command_call *call, const char *path)
{
    struct writer *w = owner;

    writer_add(w, "        '%s') words=(", path);
    completion_each_word(command_of(call), completion_is_program(path), w, bash_word);
    writer_add(w, ") ;;\n");
    return w->err;
}

/* -- zsh -- */

/* Into single quotes, on one line, and its first sentence is enough. */
static void completion_quoted(struct writer *w, const char *text, const char *quote)
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
    completion_quoted(w, what, "'\\''");
    writer_add(w, "'");
}

static enum err zsh_arm(void *owner, const struct command_call *call, const char *path)
{
    struct writer *w = owner;

    writer_add(w, "        '%s') told=(", path);
    completion_each_word(command_of(call), completion_is_program(path), w, zsh_word);
    writer_add(w, ") ;;\n");
    return w->err;
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
    completion_quoted(w, what, "\\'");
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
        completion_put_choices(w, option);
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
    if (completion_is_program(path)) fish_word(w, path, "help", "the help of a command");
    if (completion_is_program(path)) fish_spelling(w, path, &version, "--version");
    for (size_t i = 0; table && i < table->count; i++) {
        const struct option *option = &table->options[i];
        option_flag_name(option, flag);
        fish_spelling(w, path, option, flag);
        if (option->also) fish_spelling(w, path, option, option->also);
        if (completion_negated(option, flag)) fish_spelling(w, path, option, flag);
    }
    fish_spelling(w, path, &help, "--help");
    return w->err;
}

static enum err fish_path(void *owner, const struct command_call *, const char *path)
{
    struct writer *w = owner;

    if (!completion_is_program(path)) writer_add(w, " '%s'", strchr(path, ' ') + 1);
    return w->err;
}

/* -- the scripts: completion/bash.txt and its like -- */

#define ASSET(shell)                                                                               \
    extern const unsigned char completion_##shell[];                                               \
    extern const size_t completion_##shell##_len;
ASSET(bash)
ASSET(zsh)
ASSET(fish)

static const struct {
    const char *shell;
    const unsigned char *script;
    const size_t *len;
    command_visit_fn *paths, *words; /* write what stands for {{paths}} and {{words}} */
} shells[] = {
    {"bash", completion_bash, &completion_bash_len, completion_case_paths, bash_arm},
    {"zsh", completion_zsh, &completion_zsh_len, completion_case_paths, zsh_arm},
    {"fish", completion_fish, &completion_fish_len, fish_path, fish_command},
};

enum err command_completion(const struct command *program, const char *shell, struct buf *into)
{
    struct writer w = {.into = into};
    struct str rest, text;
    size_t i = 0;

    while (strcmp(shells[i].shell, shell) != 0) i++;
    rest = str_of(shells[i].script, *shells[i].len);
    while (!w.err && str_split(&rest, '{', &text)) {
        writer_put(&w, text);
        if (!str_starts(rest, STR("{"))) { /* a brace of the shell's own */
            if (rest.at) writer_put(&w, STR("{"));
            continue;
        }
        (void)str_split(&rest, '}', &text);
        rest = str_tail(rest, 1);
        if (str_equal(text, STR("{name")))
            writer_add(&w, "%s", program->name);
        else
            (void)command_visit(program,
                                str_equal(text, STR("{paths"))   ? shells[i].paths
                                : str_equal(text, STR("{words")) ? shells[i].words
                                                                 : completion_case_choices,
                                &w);
    }
    return w.err;
}
