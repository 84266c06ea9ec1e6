/* SPDX-License-Identifier: Apache-2.0 */
/* Completion scripts for three shells. Each is a short script around lists made from the tables
 * of options: the words that may follow a command, their descriptions, and the choices of an
 * option. */
#include <stdio.h>
#include <string.h>

#include "conf/command.h"
#include "conf/writer.h"

/* Adds one word that may follow a command. `option` is NULL if the word is a command. */
typedef void completion_word_fn(struct writer *w, const char *path, const struct option *option,
                                const char *word, const char *what);
struct completion {
    struct writer w;
    const struct shell {
        const char *name;
        const unsigned char *script;
        const size_t *len;
        command_visit_fn *paths;
        completion_word_fn *put;
        const char *array; /* shell array of a command's words; NULL: a line for each word */
        bool also;
    } * shell;
};

/* -- the words that may follow a command, one at a time -- */

/* False: the option has no --no- spelling. */
static bool completion_negated(const struct option *option, char no[OPTION_NAME_CAP])
{
    char flag[OPTION_NAME_CAP];

    if (option->kind != OPTION_BOOL || (option->flags & OPTION_FLAG_ONLY)) return false;
    option_flag_name(option, flag);
    snprintf(no, OPTION_NAME_CAP, "--no-%.*s", OPTION_NAME_CAP - 6, flag + 2);
    return true;
}

static bool completion_is_program(const char *path)
{
    return !strchr(path, ' ');
}

/* Adds the script's text for {{words}}, for one command. */
static enum err completion_words(void *owner, const struct command_call *call, const char *path)
{
    static const struct option help = {.help = "what it does, its options, examples",
                                       .kind = OPTION_BOOL};
    static const struct option version = {.help = "version, commit and engines",
                                          .kind = OPTION_BOOL};
    struct completion *c = owner;
    const struct command *command = command_of(call);
    const struct option_table *table = command->options;
    const struct shell *shell = c->shell;
    struct writer *w = &c->w;
    char flag[OPTION_NAME_CAP];

    if (shell->array) writer_add(w, "        '%s') %s=(", path, shell->array);
    for (size_t i = 0; command->children && command->children[i]; i++)
        if (!command->children[i]->hidden)
            shell->put(w, path, NULL, command_name(command, command->children[i]),
                       command->children[i]->summary);
    if (completion_is_program(path)) {
        shell->put(w, path, NULL, "help", "the help of a command");
        shell->put(w, path, &version, "--version", version.help);
    }
    for (size_t i = 0; table && i < table->count; i++) {
        const struct option *option = &table->options[i];
        option_flag_name(option, flag);
        shell->put(w, path, option, flag, option->help);
        if (option->also && shell->also) shell->put(w, path, option, option->also, option->help);
        if (completion_negated(option, flag)) shell->put(w, path, option, flag, option->help);
    }
    shell->put(w, path, &help, "--help", help.help);
    if (shell->array) writer_add(w, ") ;;\n");
    return w->err;
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

/* -- functions for bash and zsh, which both have `case` -- */

/* "'musterctl cert'|'musterctl cert issue'|..." */
static enum err completion_case_paths(void *owner, const struct command_call *, const char *path)
{
    struct writer *w = &((struct completion *)owner)->w;

    if (!completion_is_program(path))
        writer_add(w, "%s'%s'", completion_last_byte(w) == '\n' ? "" : "|", path);
    return w->err;
}

static enum err completion_case_choices(void *owner, const struct command_call *call,
                                        const char *path)
{
    const struct option_table *table = command_of(call)->options;
    struct writer *w = &((struct completion *)owner)->w;
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

static void bash_word(struct writer *w, const char *, const struct option *, const char *word,
                      const char *)
{
    writer_add(w, "%s%s", completion_last_byte(w) == '(' ? "" : " ", word);
}

/* -- zsh -- */

/* Adds the first sentence of a text, on one line, escaped for single quotes. */
static void completion_quoted(struct writer *w, const char *text, const char *quote)
{
    for (const char *c = text; *c && *c != '\n' && *c != ';'; c++) {
        if (*c == '\'')
            writer_add(w, "%s", quote);
        else
            writer_add(w, "%s%c", *c == '\\' ? "\\" : "", *c);
    }
}

static void zsh_word(struct writer *w, const char *, const struct option *, const char *word,
                     const char *what)
{
    writer_add(w, " '%s:", word); /* ':' ends the word, because no name contains one */
    completion_quoted(w, what, "'\\''");
    writer_add(w, "'");
}

/* -- fish: one line for each word, because fish itself recognises options -- */

/* "--output", "-o" and "--no-color" are options; other words are arguments. */
static void fish_word(struct writer *w, const char *path, const struct option *option,
                      const char *word, const char *what)
{
    const char *space = strchr(path, ' ');
    int name = (int)str_find(str_from(path), ' ');
    bool is_long = strncmp(word, "--", 2) == 0;

    writer_add(w, "complete -c %.*s -n '__%.*s_at%s'", name, path, name, path, space ? space : "");
    if (option)
        writer_add(w, " -%c %s", is_long ? 'l' : 's', word + (is_long ? 2 : 1));
    else
        writer_add(w, " -f -a %s", word);
    if (option && option->kind != OPTION_BOOL) writer_add(w, option->choices ? " -x" : " -r");
    if (option && option->choices) {
        writer_add(w, " -a '");
        completion_put_choices(w, option);
        writer_add(w, "'");
    }
    writer_add(w, " -d '");
    completion_quoted(w, what, "\\'");
    writer_add(w, "'\n");
}

static enum err fish_path(void *owner, const struct command_call *, const char *path)
{
    struct writer *w = &((struct completion *)owner)->w;

    if (!completion_is_program(path)) writer_add(w, " '%s'", strchr(path, ' ') + 1);
    return w->err;
}

/* -- the scripts' fixed parts: completion/bash.txt and the others -- */

#define ASSET(shell)                                                                               \
    extern const unsigned char completion_##shell[];                                               \
    extern const size_t completion_##shell##_len;
ASSET(bash)
ASSET(zsh)
ASSET(fish)

static const struct shell shells[] = {
    {"bash", completion_bash, &completion_bash_len, completion_case_paths, bash_word, "words",
     false},
    {"zsh", completion_zsh, &completion_zsh_len, completion_case_paths, zsh_word, "described",
     false},
    {"fish", completion_fish, &completion_fish_len, fish_path, fish_word, NULL, true},
};

enum err command_completion(const struct command *program, const char *shell, struct buf *into)
{
    struct completion c = {.w = {.into = into}, .shell = shells};
    struct str rest, text;

    while (strcmp(c.shell->name, shell) != 0) c.shell++;
    rest = str_of(c.shell->script, *c.shell->len);
    while (!c.w.err && str_split(&rest, '{', &text)) {
        writer_put(&c.w, text);
        if (!str_starts(rest, STR("{"))) { /* a brace of the shell, not a placeholder */
            if (rest.at) writer_put(&c.w, STR("{"));
            continue;
        }
        (void)str_split(&rest, '}', &text);
        rest = str_tail(rest, 1);
        if (str_equal(text, STR("{name")))
            writer_add(&c.w, "%s", program->name);
        else
            (void)command_visit(program,
                                str_equal(text, STR("{paths"))   ? c.shell->paths
                                : str_equal(text, STR("{words")) ? completion_words
                                                                 : completion_case_choices,
                                &c);
    }
    return c.w.err;
}
