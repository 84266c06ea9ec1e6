/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a template as a shell would, but knows only words, quotes, comments and parameters. After
 * other syntax the state is unclear, and {{shell}} is refused. No I/O. */
#include "operator/template_shell.h"

#include <stdio.h>

enum {
    VALUE = '\1',   /* marks a placeholder after a text */
    HERES_MAX = 64, /* here-documents whose end words are stored */
    HERE_WORD_MAX = 64,
};

struct scan {
    char quote; /* character of the open quote; #: in a comment; 0: none */
    size_t quote_line;
    size_t line;
    char before;         /* the previous byte */
    bool in_word;        /* inside a word, where # does not begin a comment */
    bool after_value;    /* a value may be empty, so a following # may begin a comment */
    const char *unclear; /* NULL: the state is clear */
    size_t unclear_line;
};
struct here {
    size_t line, len;
    bool known; /* false: any line may end the here-document */
    char word[HERE_WORD_MAX];
};
struct heres {
    size_t count;
    bool open_less; /* the previous text ends with < */
    struct here all[HERES_MAX];
};

static void doubt(struct scan *s, const char *what)
{
    if (s->unclear) return;
    s->unclear = what;
    s->unclear_line = s->line;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool ends_word(char c)
{
    return is_blank(c) || c == '\n' || str_has(STR(";&|<>()"), c);
}

/* The length of "${NAME}" at the start of `rest`; 0 for other parameters. */
static size_t parameter_len(struct str rest)
{
    size_t len = 2;

    while (len < rest.len && (rest.at[len] == '_' || is_alphanumeric(rest.at[len]))) len++;
    return len > 2 && len < rest.len && rest.at[len] == '}' ? len + 1 : 0;
}

static size_t scan_dollar(struct scan *s, struct str rest, char next)
{
    size_t len = next == '{' ? parameter_len(rest) : 1;

    s->in_word = true;
    if (next == VALUE || next == '\0') doubt(s, "a $ right before a placeholder");
    if (len == 0 || str_has(STR("([\\"), next)) doubt(s, "an expansion that is more than a name");
    if (!s->quote && (next == '\'' || next == '"')) doubt(s, "the quotes $'...'");
    if (next == '#' || next == '$') return 2; /* $# and $$ are parameters */
    return len ? len : 1;
}

/* A shell joins lines at an escaped newline, so the state is unclear inside a word. */
static size_t scan_backslash(struct scan *s, char next)
{
    if (next == VALUE || next == '\0') doubt(s, "a backslash right before a placeholder");
    if (next == '\n' && !s->quote && !is_blank(s->before))
        doubt(s, "a word that a backslash continues on the next line");
    s->line += next == '\n';
    s->in_word = s->in_word || next != '\n';
    return 2;
}

static void open_quote(struct scan *s, char quote)
{
    s->quote = quote;
    s->quote_line = s->line;
    s->in_word = quote != '#';
}

/* Reads the start of `rest` outside of quotes. Returns the number of bytes read. */
static size_t scan_command(struct scan *s, struct str rest, char next)
{
    char c = rest.at[0];

    if (c == '\\') return scan_backslash(s, next);
    if (c == '$') return scan_dollar(s, rest, next);
    if (c == '`') doubt(s, "a backquote");
    if (c == '<' && next == '<') doubt(s, "a here-document");
    if (c == '<' && (next == VALUE || next == '\\')) doubt(s, "a < right before a placeholder");
    if (c == '(' && (next == '(' || next == VALUE)) doubt(s, "a (( or a ( before a placeholder");
    if (c == '#' && s->after_value) doubt(s, "a # right behind a placeholder");
    if (c == '\'' || c == '"' || (c == '#' && !s->in_word))
        open_quote(s, c);
    else
        s->in_word = !ends_word(c);
    return 1;
}

static size_t scan_quoted(struct scan *s, struct str rest, char next)
{
    char c = rest.at[0];

    if (s->quote == '"' && c == '\\') return scan_backslash(s, next);
    if (s->quote == '"' && c == '$') return scan_dollar(s, rest, next);
    if (s->quote == '"' && c == '`') doubt(s, "a backquote");
    if (c == (s->quote == '#' ? '\n' : s->quote)) {
        s->in_word = s->quote != '#';
        s->quote = '\0';
    }
    return 1;
}

static void scan_text(struct scan *s, struct str text, bool last)
{
    while (text.len > 0 && !s->unclear) {
        char next = text.len > 1 ? text.at[1] : last ? '\0' : VALUE;
        size_t len;

        if (text.at[0] == '\0') doubt(s, "a NUL byte");
        len =
            min_size(s->quote ? scan_quoted(s, text, next) : scan_command(s, text, next), text.len);
        s->line += text.at[0] == '\n';
        s->before = text.at[len - 1];
        s->after_value = false;
        text = str_tail(text, len);
    }
}

/* Checks the template author's default text, which follows |. */
static bool is_plain_text(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!is_alphanumeric(text.at[i]) && !str_has(STR(" ,._-/:@"), text.at[i])) return false;
    return true;
}

static void scan_value(struct scan *s, const struct template_part *part)
{
    bool plain = part->context == CONTEXT_PLAIN && part->kind != PART_REQUIREMENTS;

    if (plain && !is_plain_text(part->otherwise)) doubt(s, "the text behind | in a placeholder");
    s->after_value = plain && !s->quote && (!s->in_word || s->after_value);
    s->in_word = true;
    s->before = VALUE;
}

/* -- here-documents -- */

static void read_here(struct str rest, struct here *here)
{
    char quote = '\0';
    size_t at = str_starts(rest, STR("-"));

    while (at < rest.len && is_blank(rest.at[at])) at++;
    for (; at < rest.len && (quote || !ends_word(rest.at[at])); at++) {
        char c = rest.at[at];
        if (str_has(STR("$`\\\n"), c) || here->len == HERE_WORD_MAX) return;
        if (quote ? c == quote : c == '\'' || c == '"')
            quote = quote ? '\0' : c;
        else
            here->word[here->len++] = c;
    }
    here->known = here->len > 0 && at < rest.len; /* else a value may be part of the word */
}

static void add_here(struct heres *heres, struct str rest, size_t line)
{
    struct here *here = &heres->all[min_size(heres->count, HERES_MAX - 1)];

    *here = (struct here){.line = line};
    if (heres->count < HERES_MAX) heres->count++;
    /* further here-documents share the last entry */
    if (heres->count < HERES_MAX) read_here(rest, here);
}

static void find_heres(struct heres *heres, const struct template_part *part)
{
    struct str text = part->text;
    size_t line = part->line;

    if (heres->open_less && str_starts(text, STR("<"))) add_here(heres, STR_EMPTY, line);
    for (size_t i = 0; i < text.len; i++) {
        struct str rest = str_tail(text, i);

        line += text.at[i] == '\n';
        if (str_starts(rest, STR("<\\\n"))) add_here(heres, STR_EMPTY, line);
        if (!str_starts(rest, STR("<<"))) continue;
        while (i + 2 < text.len && text.at[i + 2] == '<') i++; /* treat <<< as one operator */
        add_here(heres, str_tail(text, i + 2), line);
    }
    heres->open_less = text.len > 0 && text.at[text.len - 1] == '<';
}

/* Returns a here-document that `line` and a plain value could end, or NULL. */
static const struct here *ended_here(const struct heres *heres, struct str line)
{
    while (line.len > 0 && line.at[0] == '\t') line = str_tail(line, 1);
    for (size_t i = 0; i < heres->count; i++) {
        const struct here *here = &heres->all[i];
        if (!here->known || str_starts(str_of(here->word, here->len), line)) return here;
    }
    return NULL;
}

/* The line's text up to its first placeholder. */
static struct str line_start(const struct template_part *parts, size_t at)
{
    for (size_t i = at; i-- > 0;) {
        struct str text = parts[i].text;
        const char *end;

        if (parts[i].kind != PART_TEXT) continue;
        end = text.len ? memrchr(text.at, '\n', text.len) : NULL;
        if (!end && i > 0) continue;
        if (!end) return text;
        if (end > text.at && end[-1] == '\\') break;
        return str_tail(text, (size_t)(end - text.at) + 1);
    }
    return STR_EMPTY;
}

/* -- the check of a template -- */

const char *template_part_name(const struct template_part *part, char name[TEMPLATE_NAME_CAP])
{
    static const char *const words[] = {[PART_CLUSTER] = "cluster_id",
                                        [PART_REQUEST] = "request_id",
                                        [PART_REQUIREMENTS] = "requirements",
                                        [PART_REQUIREMENT] = "requirement "};

    snprintf(name, TEMPLATE_NAME_CAP, "%s%.*s", words[part->kind], STR_ARG(part->text));
    return name;
}

static enum err check_word(const struct scan *s, const struct template_part *part,
                           struct note *note)
{
    const char *what = s->quote == '#'    ? "the comment"
                       : s->quote == '\'' ? "the single quotes"
                                          : "the double quotes";
    char room[TEMPLATE_NAME_CAP];
    const char *name = template_part_name(part, room);

    if (s->unclear)
        note_set(
            note,
            "line %zu: it is not clear whether {{shell %s}} is inside quotes, because of %s on "
            "line %zu; assign it to a variable before that line: value={{shell %s}}",
            part->line, name, s->unclear, s->unclear_line, name);
    else if (s->quote)
        note_set(
            note,
            "line %zu: {{shell %s}} is inside %s that line %zu opens, where its quotes have no "
            "effect; write it outside, or assign it to a variable before: value={{shell %s}}",
            part->line, name, what, s->quote_line, name);
    return s->unclear || s->quote ? ERR_PARSE : ERR_OK;
}

static enum err template_shell_check_plain(const struct heres *heres,
                                           const struct template_part *parts, size_t at,
                                           struct note *note)
{
    char room[TEMPLATE_NAME_CAP];
    const char *name = template_part_name(&parts[at], room);
    const struct here *here = ended_here(heres, line_start(parts, at));

    if (!here) return ERR_OK;
    return note_fail(
        note, ERR_PARSE,
        "line %zu: {{%s}} could end the here-document that line %zu begins; write {{json %s}}, "
        "or other text before it on its line",
        parts[at].line, name, here->line, name);
}

enum err template_shell_check(const struct template_part *parts, size_t count, struct note *note)
{
    struct heres heres = {0};
    struct scan s = {.before = '\n'};
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < count; i++) {
        const struct template_part *part = &parts[i];

        s.line = part->line;
        if (part->kind == PART_TEXT) {
            scan_text(&s, part->text, i + 1 == count);
            find_heres(&heres, part);
            continue;
        }
        if (part->context == CONTEXT_SHELL) err = check_word(&s, part, note);
        if (part->kind == PART_REQUIREMENT && part->context == CONTEXT_PLAIN)
            err = template_shell_check_plain(&heres, parts, i, note);
        scan_value(&s, part);
    }
    return err;
}
