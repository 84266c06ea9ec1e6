/* SPDX-License-Identifier: Apache-2.0 */
/* One pass over the text with a stack of open quotes and expansions. The bottom of the stack is
 * command text; a quoted word is accepted there only.
 *
 * Invariant: while nothing is unclear, the stack and the here-documents are what both sh and
 * bash have open at `at`. Where the two differ, or only one of them is sure, scan_doubt ends
 * the scan's knowledge for good. Refusing too much is safe: its author can assign the value to
 * a variable earlier. */
#include "operator/template_shell.h"

#include <assert.h>

enum { FRAMES_MAX = 32, HERES_MAX = 8, HERE_WORD_MAX = 128 };
enum frame_kind {
    FRAME_SINGLE,      /* '...' */
    FRAME_ANSI,        /* $'...' */
    FRAME_DOUBLE,      /* "..." */
    FRAME_COMMAND,     /* $(...) */
    FRAME_PAREN,       /* (...) inside of FRAME_COMMAND */
    FRAME_PARAMETER,   /* ${...} */
    FRAME_ARITHMETIC,  /* $((...)) */
    FRAME_DOUBLE_PAREN /* ((...)): arithmetic in bash, two subshells in sh */
};
static const char *const frame_names[] = {
    [FRAME_SINGLE] = "the single quotes",
    [FRAME_ANSI] = "the single quotes",
    [FRAME_DOUBLE] = "the double quotes",
    [FRAME_COMMAND] = "the command substitution",
    [FRAME_PAREN] = "the command substitution",
    [FRAME_PARAMETER] = "the ${",
    [FRAME_ARITHMETIC] = "the arithmetic expression",
    [FRAME_DOUBLE_PAREN] = "the arithmetic expression",
};
struct frame {
    enum frame_kind kind;
    size_t line;
    size_t parens; /* open in arithmetic */
};
struct here {
    char word[HERE_WORD_MAX];
    size_t len, line, depth;
    bool strips_tabs, quoted;
};
struct scan {
    struct str text;
    size_t at, line, marks;
    struct frame frames[FRAMES_MAX];
    size_t depth;
    struct here heres[HERES_MAX]; /* begun on this line, not read yet */
    size_t here_count;
    bool in_word;        /* the byte before `at` belongs to a word */
    bool after_value;    /* the byte before `at` is a placeholder whose value may be empty */
    bool subscript;      /* that word has a [ */
    const char *unclear; /* the first construct that cannot be judged */
    struct template_finding judged; /* how far the text was judged until then */
    size_t judged_at;
    struct template_finding finding;
};

static void scan_doubt(struct scan *s, const char *what)
{
    if (s->unclear) return;
    s->unclear = what;
    s->judged = (struct template_finding){.mark = s->marks, .line = s->line};
    s->judged_at = s->at;
}

static char peek(const struct scan *s, size_t ahead)
{
    return ahead < s->text.len - s->at ? s->text.at[s->at + ahead] : '\0';
}

static bool is_mark(char c)
{
    return c >= TEMPLATE_MARK_INERT && c <= TEMPLATE_MARK_OTHER;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Bytes that end a word when they are not quoted. */
static bool ends_word(char c)
{
    return is_blank(c) || c == '\n' || str_has(STR(";&|<>()"), c);
}

static void scan_refuse(struct scan *s, enum template_verdict verdict, const char *what,
                        size_t since)
{
    if (s->finding.verdict) return;
    s->finding = (struct template_finding){verdict, what, s->marks, s->line, since};
}

static bool over(const struct scan *s)
{
    return s->finding.verdict || s->unclear || s->at >= s->text.len;
}

static const char other_text[] = "a placeholder with a text behind | that is not plain";

/* Steps over one byte of any kind. */
static void scan_skip(struct scan *s)
{
    char c = peek(s, 0);

    if (c == TEMPLATE_MARK_OTHER) scan_doubt(s, other_text);
    s->line += c == '\n';
    s->marks += is_mark(c);
    s->at++;
}

/* A newline where the shell does not read the here-documents that are still to come: sh and
 * bash look for them in different places. */
static void scan_inner_newline(struct scan *s)
{
    if (s->here_count)
        scan_doubt(s, "a here-document whose line goes on in quotes or an expansion");
    scan_skip(s);
}

/* A placeholder inside something that is open: only quoted words mind. */
static void scan_inner_mark(struct scan *s, const char *what, size_t since)
{
    if (peek(s, 0) == TEMPLATE_MARK_SHELL) scan_refuse(s, TEMPLATE_INSIDE, what, since);
    scan_skip(s);
}

/* `bytes` open it, none of them a newline. */
static void scan_push(struct scan *s, enum frame_kind kind, size_t bytes)
{
    bool counts = kind == FRAME_ARITHMETIC || kind == FRAME_DOUBLE_PAREN;

    if (s->depth == FRAMES_MAX) {
        scan_doubt(s, "deep nesting");
        return;
    }
    s->frames[s->depth++] = (struct frame){kind, s->line, counts ? 2 : 0};
    s->at += bytes;
}

static void scan_pop(struct scan *s)
{
    assert(s->depth > 0);
    s->depth--;
    s->in_word = true;
}

static bool in_double_quotes(const struct scan *s)
{
    for (size_t i = 0; i < s->depth; i++)
        if (s->frames[i].kind == FRAME_DOUBLE) return true;
    return false;
}

/* A backslash and what it quotes. */
static void scan_escape(struct scan *s)
{
    bool joins_lines = peek(s, 1) == '\n';

    if (is_mark(peek(s, 1)) || s->at + 1 == s->text.len)
        scan_doubt(s, "a backslash right before a placeholder");
    if (joins_lines && s->here_count)
        scan_doubt(s, "a here-document whose line goes on behind a backslash");
    if (joins_lines && s->at && str_has(STR("$<("), s->text.at[s->at - 1]))
        scan_doubt(s, "a backslash that joins two lines inside an operator");
    scan_skip(s);
    if (!s->unclear) scan_skip(s);
    if (!joins_lines) s->in_word = true;
}

/* `...`: up to the next backquote that has no backslash. */
static void scan_backquotes(struct scan *s)
{
    bool quoted = in_double_quotes(s);
    size_t since = s->line, singles = 0, doubles = 0;

    scan_skip(s);
    while (!over(s) && peek(s, 0) != '`') {
        char c = peek(s, 0);
        singles += c == '\'';
        doubles += c == '"';
        if ((c == '\'' || c == '"') && quoted)
            scan_doubt(s, "quotes in backquotes in double quotes");
        if (c == '<' && peek(s, 1) == '<') scan_doubt(s, "a here-document in backquotes");
        if (c == '#') scan_doubt(s, "a # in backquotes");
        if (c == '\\')
            scan_escape(s);
        else if (c == '\n')
            scan_inner_newline(s);
        else if (is_mark(c))
            scan_inner_mark(s, "the command substitution", since);
        else
            scan_skip(s);
    }
    if (over(s)) return;
    if (singles % 2 || doubles % 2) scan_doubt(s, "backquotes with an odd number of quotes");
    scan_skip(s);
    s->in_word = true;
}

/* Expansions, in command text, double quotes, ${} and arithmetic. */
static void scan_dollar(struct scan *s, bool in_double)
{
    char next = peek(s, 1);

    if (is_mark(next) || s->at + 1 == s->text.len) scan_doubt(s, "a $ right before a placeholder");
    if (next == '[') scan_doubt(s, "the arithmetic $[");
    s->in_word = true;
    scan_skip(s);
    if (next == '(' && peek(s, 1) == '(') {
        scan_push(s, FRAME_ARITHMETIC, 2);
    } else if (next == '(') {
        scan_push(s, FRAME_COMMAND, 1);
        s->in_word = s->after_value = false;
        if (is_mark(peek(s, 0))) scan_doubt(s, "a $( right before a placeholder");
    } else if (next == '{') {
        scan_push(s, FRAME_PARAMETER, 1);
    } else if (next == '\'' && !in_double) {
        scan_push(s, FRAME_ANSI, 1);
    } else if (next == '#' || next == '$') { /* $# and $$ are parameters */
        s->at++;
    }
}

/* -- here-documents -- */

static void here_byte(struct scan *s, struct here *here, char c)
{
    if (here->len == sizeof here->word)
        scan_doubt(s, "the long word of a here-document");
    else
        here->word[here->len++] = c;
    scan_skip(s);
}

/* From the opening quote on. */
static void here_quotes(struct scan *s, struct here *here, char quote)
{
    here->quoted = true;
    scan_skip(s);
    while (!over(s) && peek(s, 0) != quote) {
        char c = peek(s, 0);
        if (c == '\n' || is_mark(c) || (quote == '"' && str_has(STR("\\$`"), c)))
            scan_doubt(s, "the word of a here-document");
        here_byte(s, here, c);
    }
    if (!over(s)) scan_skip(s);
}

static void here_word(struct scan *s, struct here *here)
{
    while (!over(s) && !ends_word(peek(s, 0))) {
        char c = peek(s, 0);
        if (c == '\'' || c == '"') {
            here_quotes(s, here, c);
            continue;
        }
        if (c == '\\') {
            here->quoted = true;
            scan_skip(s);
            c = peek(s, 0);
            if (c == '\n' || s->at == s->text.len) scan_doubt(s, "the word of a here-document");
            if (s->unclear) return;
        } else if (c == '$' || c == '`') {
            scan_doubt(s, "the word of a here-document");
        }
        if (is_mark(c)) {
            scan_doubt(s, "a here-document whose word is a placeholder");
            return;
        }
        here_byte(s, here, c);
    }
    if (here->len == 0 && !here->quoted) scan_doubt(s, "a here-document without a word");
}

/* At <<. The text of it begins behind the next newline. */
static void scan_here(struct scan *s)
{
    struct here here = {.line = s->line, .depth = s->depth};

    if (s->subscript && s->in_word) scan_doubt(s, "a << behind [");
    s->at += 2;
    if (peek(s, 0) == '-') {
        here.strips_tabs = true;
        s->at++;
    }
    while (is_blank(peek(s, 0))) s->at++;
    here_word(s, &here);
    s->in_word = true;
    if (s->here_count == HERES_MAX) scan_doubt(s, "many here-documents on one line");
    if (!s->unclear) s->heres[s->here_count++] = here;
}

/* The end of the quotes that begin at `from`, or the line's length. */
static size_t end_of_quotes(struct str line, size_t from)
{
    size_t i = from + 1;

    for (; i < line.len && line.at[i] != line.at[from]; i++)
        if (line.at[from] == '"' && str_has(STR("\\$`"), line.at[i])) return line.len;
    return i;
}

/* Could a shell that expands this line of a here-document look for the end of an expansion
 * behind it? Bash finds the end of the here-document first, sh does not. True in doubt. */
static bool leaves_expansion_open(struct str line)
{
    size_t depth = 0;
    bool backquotes = false, expands = false;

    for (size_t i = 0; i < line.len; i++) {
        char c = line.at[i], next = i + 1 < line.len ? line.at[i + 1] : '\0';
        if (c == '\\') {
            i++;
        } else if (c == '`') {
            backquotes = !backquotes;
        } else if (c == '$' && (next == '(' || next == '{')) {
            expands = true;
            depth++;
            i++;
        } else if (depth == 0) {
            continue;
        } else if (c == '(') {
            depth++;
        } else if (c == ')' || c == '}') {
            depth--;
        } else if (c == '\'' || c == '"') {
            i = end_of_quotes(line, i);
            if (i == line.len) return true;
        } else if (c == '#' && is_blank(line.at[i - 1])) {
            return true;
        }
    }
    return depth > 0 || backquotes || (expands && memmem(line.at, line.len, "case", 4));
}

static bool ends_with_backslash(struct str line)
{
    size_t count = 0;

    while (count < line.len && line.at[line.len - 1 - count] == '\\') count++;
    return count % 2;
}

/* The placeholders of one line. A plain value that begins a line, or continues what could
 * become the here-document's word, can end the here-document: what follows would run. */
static void here_marks(struct scan *s, const struct here *here, struct str line)
{
    struct str word = str_of(here->word, here->len);
    size_t tabs = 0;

    while (here->strips_tabs && tabs < line.len && line.at[tabs] == '\t') tabs++;
    for (size_t i = 0; i < line.len && !s->finding.verdict; i++) {
        if (!is_mark(line.at[i])) continue;
        if (line.at[i] == TEMPLATE_MARK_OTHER) scan_doubt(s, other_text);
        if (line.at[i] == TEMPLATE_MARK_SHELL)
            scan_refuse(s, TEMPLATE_INSIDE, "the here-document", here->line);
        if (line.at[i] == TEMPLATE_MARK_PLAIN && str_starts(word, str_of(line.at + tabs, i - tabs)))
            scan_refuse(s, TEMPLATE_ENDS_HERE, "the here-document", here->line);
        s->marks++;
    }
}

static void scan_here_text(struct scan *s, const struct here *here)
{
    bool continued = false, last = false;

    while (!over(s) && !last) {
        struct str rest = str_tail(s->text, s->at), line, end;
        (void)str_split(&rest, '\n', &line);
        end = line;
        while (here->strips_tabs && end.len && end.at[0] == '\t') end = str_tail(end, 1);
        last = str_equal(end, str_of(here->word, here->len));
        if (last && continued) scan_doubt(s, "a here-document whose last line follows a backslash");
        if (!last && here->depth && str_starts(end, str_of(here->word, here->len)))
            scan_doubt(s, "a line that begins with the word of a here-document");
        if (!last && !here->quoted && leaves_expansion_open(line))
            scan_doubt(s, "an expansion of several lines in a here-document");
        if (s->unclear) return;
        here_marks(s, here, line);
        continued = !here->quoted && ends_with_backslash(line);
        s->at += line.len;
        if (!s->finding.verdict && s->at < s->text.len) scan_skip(s);
    }
}

/* A newline in command text. */
static void scan_newline(struct scan *s)
{
    size_t count = s->here_count;

    for (size_t i = 0; i < count; i++)
        if (s->heres[i].depth != s->depth)
            scan_doubt(s, "a here-document that begins outside of an expansion");
    s->here_count = 0;
    s->in_word = false;
    scan_skip(s);
    for (size_t i = 0; i < count && !over(s); i++) scan_here_text(s, &s->heres[i]);
}

/* -- one byte or more of each kind of text -- */

static void scan_comment(struct scan *s)
{
    if (s->after_value) scan_doubt(s, "a # right behind a placeholder");
    while (!over(s) && peek(s, 0) != '\n') {
        if (is_mark(peek(s, 0)))
            scan_inner_mark(s, "the comment", s->line);
        else
            s->at++;
    }
}

/* Closes what is open; at the bottom a lone ) belongs to a subshell, a function or a pattern. */
static void scan_close(struct scan *s)
{
    bool expansion = s->depth && s->frames[s->depth - 1].kind == FRAME_COMMAND;

    if (s->depth) scan_pop(s);
    if (expansion && s->here_count && s->heres[s->here_count - 1].depth > s->depth)
        scan_doubt(s, "a here-document that the end of an expansion cuts off");
    s->in_word = expansion;
    s->at++;
}

static void scan_open(struct scan *s)
{
    s->in_word = false;
    if (peek(s, 1) == '(') {
        scan_push(s, FRAME_DOUBLE_PAREN, 2);
    } else if (s->depth) {
        scan_push(s, FRAME_PAREN, 1);
    } else {
        s->at++; /* a subshell, a function or a pattern */
    }
    if (is_mark(peek(s, 0)) && peek(s, 1) == '(') scan_doubt(s, "a ( right before a placeholder");
}

static void scan_word_byte(struct scan *s, char c)
{
    struct str rest = str_tail(s->text, s->at);

    if (ends_word(c)) {
        s->in_word = false;
        scan_skip(s);
        return;
    }
    if (!s->in_word) s->subscript = false;
    if (!s->in_word && s->depth && str_starts(rest, STR("case")) &&
        (ends_word(peek(s, 4)) || peek(s, 4) == '\\'))
        scan_doubt(s, "a case inside a command substitution");
    if (c == '[') s->subscript = true;
    s->in_word = true;
    scan_skip(s);
}

/* A redirection. */
static void scan_less(struct scan *s)
{
    if (peek(s, 1) == '<' && peek(s, 2) != '<') {
        scan_here(s);
        return;
    }
    if (is_mark(peek(s, 1)) && peek(s, 2) == '<') scan_doubt(s, "a < right before a placeholder");
    s->at += peek(s, 1) == '<' ? 3 : 1;
    s->in_word = false;
}

static void scan_mark(struct scan *s, const struct frame *frame)
{
    s->in_word = true;
    if (frame)
        scan_inner_mark(s, frame_names[frame->kind], frame->line);
    else
        scan_skip(s);
}

/* `frame` is NULL at the bottom. */
static void scan_command(struct scan *s, const struct frame *frame)
{
    bool after_value = false;
    char c = peek(s, 0);

    switch (c) {
    case '\\': scan_escape(s); break;
    case '\'': scan_push(s, FRAME_SINGLE, 1); break;
    case '"': scan_push(s, FRAME_DOUBLE, 1); break;
    case '`': scan_backquotes(s); break;
    case '$': scan_dollar(s, false); break;
    case '\n': scan_newline(s); break;
    case '(': scan_open(s); break;
    case ')': scan_close(s); break;
    case '<': scan_less(s); break;
    case TEMPLATE_MARK_SHELL:
    case TEMPLATE_MARK_INERT:
    case TEMPLATE_MARK_PLAIN:
    case TEMPLATE_MARK_OTHER:
        after_value = c != TEMPLATE_MARK_SHELL && (!s->in_word || s->after_value);
        scan_mark(s, frame);
        break;
    default:
        if (c == '#' && (!s->in_word || s->after_value))
            scan_comment(s);
        else
            scan_word_byte(s, c);
    }
    s->after_value = after_value;
}

static void scan_quotes(struct scan *s, const struct frame *frame)
{
    char c = peek(s, 0), end = frame->kind == FRAME_DOUBLE ? '"' : '\'';

    if (c == end) {
        scan_pop(s);
        s->at++;
    } else if (is_mark(c)) {
        scan_inner_mark(s, frame_names[frame->kind], frame->line);
    } else if (c == '\n') {
        scan_inner_newline(s);
    } else if (c == '\\' && frame->kind != FRAME_SINGLE) {
        if (frame->kind == FRAME_ANSI && peek(s, 1) == '\'') scan_doubt(s, "a \\' in $'...'");
        scan_escape(s);
    } else if (c == '$' && frame->kind == FRAME_DOUBLE) {
        scan_dollar(s, true);
    } else if (c == '`' && frame->kind == FRAME_DOUBLE) {
        scan_backquotes(s);
    } else {
        scan_skip(s);
    }
}

static void scan_parameter(struct scan *s, const struct frame *frame)
{
    bool quoted = in_double_quotes(s);
    char c = peek(s, 0);

    if (quoted && (c == '\'' || c == '"')) scan_doubt(s, "quotes in ${...} in double quotes");
    if (c == '}') {
        scan_pop(s);
        s->at++;
    } else if (is_mark(c)) {
        scan_inner_mark(s, frame_names[frame->kind], frame->line);
    } else if (c == '\'' || c == '"') {
        scan_push(s, c == '"' ? FRAME_DOUBLE : FRAME_SINGLE, 1);
    } else if (c == '$') {
        scan_dollar(s, quoted);
    } else if (c == '`') {
        scan_backquotes(s);
    } else if (c == '\\') {
        scan_escape(s);
    } else if (c == '\n') {
        scan_inner_newline(s);
    } else {
        scan_skip(s);
    }
}

static void scan_arithmetic(struct scan *s, struct frame *frame)
{
    bool expansion = frame->kind == FRAME_ARITHMETIC;
    char c = peek(s, 0);

    if (str_has(STR("'\"`\\\n"), c) || (expansion && c == ';'))
        scan_doubt(s, "quotes or several lines in ((...))");
    if (!expansion && (c == '#' || (c == '<' && peek(s, 1) == '<')))
        scan_doubt(s, "a << or # in ((...))");
    if (is_mark(c)) {
        scan_inner_mark(s, frame_names[frame->kind], frame->line);
        return;
    }
    if (c == '$') {
        scan_dollar(s, true);
        return;
    }
    frame->parens += c == '(';
    if (c == ')' && --frame->parens == 1 && peek(s, 1) != ')') scan_doubt(s, "a (( without ))");
    if (frame->parens == 0) {
        scan_pop(s);
        s->in_word = expansion;
    }
    scan_skip(s);
}

/* After the first doubt: any quoted word is one too many. */
static void refuse_the_rest(struct scan *s)
{
    s->at = s->judged_at;
    s->line = s->judged.line;
    s->marks = s->judged.mark;
    for (; !s->finding.verdict && s->at < s->text.len; scan_skip(s))
        if (peek(s, 0) == TEMPLATE_MARK_SHELL)
            scan_refuse(s, TEMPLATE_UNCLEAR, s->unclear, s->judged.line);
}

struct template_finding template_shell_scan(struct str text)
{
    struct scan s = {.text = text, .line = 1};

    if (str_has(text, '\0')) scan_doubt(&s, "a text with a NUL byte");
    while (!over(&s)) {
        struct frame *frame = s.depth ? &s.frames[s.depth - 1] : NULL;
        if (!frame || frame->kind == FRAME_COMMAND || frame->kind == FRAME_PAREN)
            scan_command(&s, frame);
        else if (frame->kind == FRAME_PARAMETER)
            scan_parameter(&s, frame);
        else if (frame->kind == FRAME_ARITHMETIC || frame->kind == FRAME_DOUBLE_PAREN)
            scan_arithmetic(&s, frame);
        else
            scan_quotes(&s, frame);
    }
    if (s.unclear) refuse_the_rest(&s);
    return s.finding;
}
