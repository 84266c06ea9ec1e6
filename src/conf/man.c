/* SPDX-License-Identifier: Apache-2.0 */
/* Manual pages: the tables once more, as troff with the man macros.
 *
 * A line of text never begins with '.' or '\'' unguarded, a backslash is \e, every '-' that belongs
 * to an option is \- (a plain one may become another character, and then nobody can paste it), and
 * what is not ASCII is written by its number, so that a page reads alike whatever the locale is. */
#include <stdio.h>
#include <string.h>

#include "conf/command.h"
#include "conf/printable.h"

enum { PAGE_NAME_CAP = COMMAND_PATH_CAP };

/* -- text -- */

struct troff {
    struct buf *into;
    bool literal; /* every '-' is one that is typed */
    bool bold;    /* between backticks */
    bool line_start;
    char before;
};

static enum err put_char(struct troff *t, int32_t code)
{
    bool guarded = t->line_start && (code == '.' || code == '\'');
    /* of --option, and of a range of options; not the hyphen of a word */
    bool typed = t->literal || t->bold || t->before == ' ' || t->before == '-' || t->line_start;

    t->line_start = code == '\n';
    t->before = code < 128 ? (char)code : 'x';
    if (code == '\\') return buf_append_c(t->into, "\\e");
    if (code == '-' && typed) return buf_append_c(t->into, "\\-");
    if (code >= 128) return buf_appendf(t->into, "\\[u%04X]", (unsigned)code);
    if (guarded) return buf_appendf(t->into, "\\&%c", (char)code);
    return buf_append_byte(t->into, (char)code);
}

static enum err put_text(struct troff *t, struct str text)
{
    enum err err = ERR_OK;

    while (text.len > 0 && !err) {
        int32_t code;
        text = str_tail(text, printable_next(text, &code));
        if (code == PRINTABLE_NONE) code = '?';
        if (code == '`' && !t->literal) {
            t->bold = !t->bold;
            err = buf_append_c(t->into, t->bold ? "\\fB" : "\\fP");
        } else {
            err = put_char(t, code);
        }
    }
    return err;
}

static enum err text(struct buf *into, const char *words)
{
    return command_man_text(str_from(words), into);
}

enum err command_man_text(struct str words, struct buf *into)
{
    struct troff t = {.into = into, .line_start = true};

    return put_text(&t, words);
}

enum err command_man_literal(struct str words, struct buf *into)
{
    struct troff t = {.into = into, .literal = true, .line_start = true};

    return put_text(&t, words);
}

/* What is typed as it stands: names, flags, command lines. */
static enum err literal(struct buf *into, const char *words)
{
    return command_man_literal(str_from(words), into);
}

static enum err bold_line(struct buf *into, const char *words, const char *rest)
{
    enum err err = buf_append_c(into, "\\fB");

    if (!err) err = literal(into, words);
    if (!err) err = buf_append_c(into, "\\fP");
    if (!err && rest[0]) err = buf_append_byte(into, ' ');
    if (!err && rest[0]) err = literal(into, rest);
    return err ? err : buf_append_byte(into, '\n');
}

/* Each line of `words` is a paragraph. */
static enum err paragraphs(struct buf *into, const char *words)
{
    struct str rest = str_from(words), line;
    enum err err = ERR_OK;
    bool first = true;

    while (rest.len > 0 && str_split(&rest, '\n', &line) && !err) {
        if (!first) err = buf_append_c(into, ".PP\n");
        if (!err) err = command_man_text(line, into);
        if (!err) err = buf_append_byte(into, '\n');
        first = false;
    }
    return err;
}

/* -- sections -- */

/* "musterctl-cert-issue" */
static void page_name(const char *path, char name[PAGE_NAME_CAP])
{
    snprintf(name, PAGE_NAME_CAP, "%s", path);
    for (char *c = name; *c; c++)
        if (*c == ' ') *c = '-';
}

static enum err head(const struct command *command, const char *path, const char *release,
                     struct buf *into)
{
    char name[PAGE_NAME_CAP], capital[PAGE_NAME_CAP];
    enum err err;

    page_name(path, name);
    snprintf(capital, sizeof capital, "%s", name);
    for (char *c = capital; *c; c++)
        if (*c >= 'a' && *c <= 'z') *c = (char)(*c - 'a' + 'A');
    /* .nh, .ad l: what is typed is not parted by hyphens, nor spread over the line. */
    err = buf_appendf(into, ".TH \"%s\" 1 \"\" \"%s\" \"User Commands\"\n.nh\n.ad l\n.SH NAME\n",
                      capital, release);
    if (!err) err = literal(into, name);
    if (!err) err = buf_append_c(into, " \\- ");
    if (!err) err = text(into, command->summary);
    return err ? err : buf_append_byte(into, '\n');
}

static enum err synopsis(const struct command *command, const char *path, struct buf *into)
{
    char rest[256];
    enum err err = buf_append_c(into, ".SH SYNOPSIS\n");

    if (command->children)
        snprintf(rest, sizeof rest, "COMMAND [OPTION]...");
    else
        snprintf(rest, sizeof rest, "%s%s%s", command->options ? "[OPTION]..." : "",
                 command->options && command->arguments ? " " : "",
                 command->arguments ? command->arguments : "");
    return err ? err : bold_line(into, path, rest);
}

struct listing {
    struct buf *into;
    const char *below; /* path of the group */
};

/* Every command below the group, however deep: each has a page of its own. */
static enum err list_command(void *owner, const struct command *command, const char *path)
{
    const struct listing *listing = owner;
    size_t len = strlen(listing->below);
    char name[PAGE_NAME_CAP];
    enum err err;

    if (strncmp(path, listing->below, len) != 0 || path[len] != ' ' || command->children)
        return ERR_OK;
    page_name(path, name);
    err = buf_append_c(listing->into, ".TP\n\\fB");
    if (!err) err = literal(listing->into, name);
    if (!err) err = buf_append_c(listing->into, "\\fP(1)\n");
    if (!err) err = text(listing->into, command->summary);
    return err ? err : buf_append_byte(listing->into, '\n');
}

static enum err commands(const struct command_call *call, const char *path, struct buf *into)
{
    struct listing listing = {into, path};
    enum err err = buf_append_c(into, ".SH COMMANDS\n");

    return err ? err : command_visit(call->path[0], list_command, &listing);
}

static enum err option_entry(const struct option *option, struct buf *into)
{
    char flag[OPTION_NAME_CAP];
    const char *value = command_option_usage(option, flag);
    struct buf facts;
    enum err err = buf_append_c(into, ".TP\n");

    if (!err) err = bold_line(into, flag, value);
    if (!err) err = text(into, option->help);
    if (!err) err = buf_append_c(into, ".\n");
    buf_init(&facts, OPTION_TEXT_MAX);
    if (!err) err = command_option_facts(option, &facts);
    if (!err) err = command_man_text(str_trim(buf_peek(&facts)), into);
    if (!err && facts.len > 0) err = buf_append_byte(into, '\n');
    buf_deinit(&facts);
    return err;
}

static enum err options(const struct option_table *table, struct buf *into)
{
    enum err err = buf_append_c(into, ".SH OPTIONS\n");

    for (size_t i = 0; table && i < table->count && !err; i++)
        err = option_entry(&table->options[i], into);
    return err ? err
               : buf_append_c(into, ".TP\n\\fB\\-\\-help\\fP\nshow a shorter form of this page.\n");
}

static enum err examples(const struct command *command, struct buf *into)
{
    enum err err = buf_append_c(into, ".SH EXAMPLES\n");

    for (const struct command_example *e = command->examples; e->line && !err; e++) {
        err = buf_append_c(into, ".TP\n");
        if (!err) err = bold_line(into, e->line, "");
        if (!err) err = text(into, e->what);
        if (!err) err = buf_append_byte(into, '\n');
    }
    return err;
}

static enum err exits(const struct command *command, struct buf *into)
{
    enum err err = buf_append_c(into, ".SH EXIT STATUS\n");

    for (size_t i = 0; command_exit_meaning(i) && !err; i++) {
        if (i > 0 && !(command->exits & BIT(i))) continue;
        err = buf_appendf(into, ".TP\n%zu\n%s\n", i, command_exit_meaning(i));
    }
    return err;
}

static enum err see_also(const struct command_call *call, const char *path, struct buf *into)
{
    char name[PAGE_NAME_CAP], upper[COMMAND_PATH_CAP];
    enum err err = buf_append_c(into, ".SH SEE ALSO\n");

    for (size_t i = 0; i + 1 < call->depth && !err; i++) {
        struct command_call above = *call;
        above.depth = i + 1;
        command_path_text(&above, upper);
        page_name(upper, name);
        err = buf_append_c(into, "\\fB");
        if (!err) err = literal(into, name);
        if (!err) err = buf_append_c(into, "\\fP(1),\n");
    }
    if (err) return err;
    if (call->depth == 1)
        err = buf_appendf(into, "\\fB%s\\fP(1),\n",
                          strcmp(path, "muster") == 0 ? "musterctl" : "muster");
    return err ? err : buf_append_c(into, "\\fBmuster.toml\\fP(5)\n");
}

enum err command_man(const struct command_call *call, const char *release, struct buf *into)
{
    const struct command *command = command_of(call);
    char path[COMMAND_PATH_CAP];
    enum err err;

    command_path_text(call, path);
    err = head(command, path, release, into);
    if (!err) err = synopsis(command, path, into);
    if (!err) err = buf_append_c(into, ".SH DESCRIPTION\n");
    if (!err) err = paragraphs(into, command->about);
    if (!err && command->children) err = commands(call, path, into);
    if (!err && !command->children) err = options(command->options, into);
    if (!err && command->examples) err = examples(command, into);
    if (!err && !command->children) err = exits(command, into);
    return err ? err : see_also(call, path, into);
}
