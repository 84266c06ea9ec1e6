/* SPDX-License-Identifier: Apache-2.0 */
/* Manual pages: the tables as troff, with the man macros.
 *
 * A '.' or '\'' at the beginning of a line is escaped, and a backslash becomes \e. An option's '-'
 * becomes \-, because troff may print a plain '-' as a character that users cannot paste. Only
 * ASCII is written, so that a page looks the same in every locale. */
#include <stdio.h>
#include <string.h>

#include "conf/command.h"
#include "conf/writer.h"
#include "text/utf8.h"

enum { PAGE_NAME_CAP = COMMAND_PATH_CAP };

/* -- text -- */

struct troff {
    struct writer *w;
    bool literal; /* every '-' must stay a '-' */
    bool bold;
    bool line_start;
    char before;
};

static void man_put_char(struct troff *t, uint32_t code)
{
    bool guarded = t->line_start && (code == '.' || code == '\'');
    /* true: the '-' belongs to an option or a range; false: it is a hyphen */
    bool typed = t->literal || t->bold || t->before == ' ' || t->before == '-' || t->line_start;

    t->line_start = code == '\n';
    t->before = code < 128 ? (char)code : 'x';
    if (code == '\\')
        writer_add(t->w, "\\e");
    else if (code >= 128)
        writer_add(t->w, "\\[u%04X]", (unsigned)code);
    else
        writer_add(t->w, "%s%c", guarded ? "\\&" : code == '-' && typed ? "\\" : "", (char)code);
}

static void man_put_text(struct writer *w, struct str text, bool literal)
{
    struct troff t = {.w = w, .literal = literal, .line_start = true};

    while (text.len > 0) {
        uint32_t code;
        size_t len = utf8_read(text, &code);
        text = str_tail(text, max_size(len, 1));
        if (len == 0) code = '?';
        if (code == '`' && !literal) {
            t.bold = !t.bold;
            writer_add(w, t.bold ? "\\fB" : "\\fP");
        } else {
            man_put_char(&t, code);
        }
    }
}

enum err command_man_text(struct str words, bool literal, struct buf *into)
{
    struct writer w = {.into = into};

    man_put_text(&w, words, literal);
    return w.err;
}

static void man_text(struct writer *w, const char *words)
{
    man_put_text(w, str_from(words), false);
}

/* Adds `words` in bold, without any markup, and then `after`. */
static void man_bold(struct writer *w, const char *words, const char *after)
{
    writer_add(w, "\\fB");
    man_put_text(w, str_from(words), true);
    writer_add(w, "\\fP%s", after);
}

static void man_bold_line(struct writer *w, const char *words, const char *rest)
{
    man_bold(w, words, rest[0] ? " " : "");
    man_put_text(w, str_from(rest), true);
    writer_add(w, "\n");
}

static void man_paragraphs(struct writer *w, const char *words)
{
    struct str rest = str_from(words), line;

    for (bool first = true; rest.len > 0 && str_split(&rest, '\n', &line); first = false) {
        if (!first) writer_add(w, ".PP\n");
        man_put_text(w, line, false);
        writer_add(w, "\n");
    }
}

/* -- sections -- */

/* "musterctl-cert-issue" */
static void man_page_name(const char *path, char name[PAGE_NAME_CAP])
{
    snprintf(name, PAGE_NAME_CAP, "%s", path);
    for (char *c = name; *c; c++)
        if (*c == ' ') *c = '-';
}

static void man_head(const struct command *command, const char *path, const char *release,
                     struct writer *w)
{
    char name[PAGE_NAME_CAP], capital[PAGE_NAME_CAP];

    man_page_name(path, name);
    snprintf(capital, sizeof capital, "%s", name);
    for (char *c = capital; *c; c++)
        if (*c >= 'a' && *c <= 'z') *c = (char)(*c - 'a' + 'A');
    /* .nh and .ad l: typed text must not be hyphenated or stretched. */
    writer_add(w, ".TH \"%s\" 1 \"\" \"%s\" \"User Commands\"\n.nh\n.ad l\n.SH NAME\n", capital,
               release);
    man_put_text(w, str_from(name), true);
    writer_add(w, " \\- ");
    man_text(w, command->summary);
    writer_add(w, "\n");
}

static void man_synopsis(const struct command *command, const char *path, struct writer *w)
{
    const char *options = command->children  ? "COMMAND [OPTION]..."
                          : command->options ? "[OPTION]..."
                                             : "";
    const char *arguments = command->arguments && !command->children ? command->arguments : "";
    char rest[256];

    snprintf(rest, sizeof rest, "%s%s%s", options, options[0] && arguments[0] ? " " : "",
             arguments);
    writer_add(w, ".SH SYNOPSIS\n");
    man_bold_line(w, path, rest);
}

struct listing {
    struct writer *w;
    const char *below;
};

/* Adds every command below the group, because each has a page. */
static enum err man_list_command(void *owner, const struct command_call *call, const char *path)
{
    const struct command *command = command_of(call);
    const struct listing *listing = owner;
    size_t len = strlen(listing->below);
    char name[PAGE_NAME_CAP];

    if (strncmp(path, listing->below, len) != 0 || path[len] != ' ' || command->children)
        return ERR_OK;
    man_page_name(path, name);
    writer_add(listing->w, ".TP\n");
    man_bold(listing->w, name, "(1)\n");
    man_text(listing->w, command->summary);
    writer_add(listing->w, "\n");
    return listing->w->err;
}

static void man_option(const struct option *option, struct writer *w)
{
    char flag[OPTION_NAME_CAP];
    const char *value = command_option_usage(option, flag);
    struct buf facts;

    writer_add(w, ".TP\n");
    man_bold_line(w, flag, value);
    man_text(w, option->help);
    writer_add(w, ".\n");
    buf_init(&facts, OPTION_TEXT_MAX);
    if (!w->err) w->err = command_option_facts(option, &facts);
    man_put_text(w, str_trim(buf_peek(&facts)), false);
    if (facts.len > 0) writer_add(w, "\n");
    buf_deinit(&facts);
}

static void man_examples(const struct command *command, struct writer *w)
{
    writer_add(w, ".SH EXAMPLES\n");
    for (const struct command_example *e = command->examples; e->line; e++) {
        writer_add(w, ".TP\n");
        man_bold_line(w, e->line, "");
        man_text(w, e->what);
        writer_add(w, "\n");
    }
}

static void man_exits(const struct command *command, struct writer *w)
{
    writer_add(w, ".SH EXIT STATUS\n");
    for (size_t i = 0; command_exit_meaning(i); i++)
        if ((COMMAND_EXITS | command->exits) & BIT(i))
            writer_add(w, ".TP\n%zu\n%s\n", i, command_exit_meaning(i));
}

static void man_see_also(const struct command_call *call, const char *path, struct writer *w)
{
    char name[PAGE_NAME_CAP], upper[COMMAND_PATH_CAP];

    writer_add(w, ".SH SEE ALSO\n");
    for (size_t i = 0; i + 1 < call->depth; i++) {
        struct command_call above = *call;
        above.depth = i + 1;
        command_path_text(&above, upper);
        man_page_name(upper, name);
        man_bold(w, name, "(1),\n");
    }
    if (call->depth == 1)
        man_bold(w, strcmp(path, "muster") == 0 ? "musterctl" : "muster", "(1),\n");
    writer_add(w, "\\fBmuster.toml\\fP(5)\n");
}

enum err command_man(const struct command_call *call, const char *release, struct buf *into)
{
    const struct command *command = command_of(call);
    struct writer w = {.into = into};
    char path[COMMAND_PATH_CAP];

    command_path_text(call, path);
    man_head(command, path, release, &w);
    man_synopsis(command, path, &w);
    writer_add(&w, ".SH DESCRIPTION\n");
    man_paragraphs(&w, command->about);
    if (command->children) {
        writer_add(&w, ".SH COMMANDS\n");
        (void)command_visit(call->path[0], man_list_command, &(struct listing){&w, path});
    } else {
        writer_add(&w, ".SH OPTIONS\n");
        for (size_t i = 0; command->options && i < command->options->count; i++)
            man_option(&command->options->options[i], &w);
        writer_add(&w, ".TP\n\\fB\\-\\-help\\fP\nshow a shorter form of this page.\n");
    }
    if (command->examples) man_examples(command, &w);
    if (!command->children) man_exits(command, &w);
    man_see_also(call, path, &w);
    return w.err;
}
