/* SPDX-License-Identifier: Apache-2.0 */
/* The four kinds of TOML strings. First the end of a string is found. Then the content is unescaped
 * into memory of the source's length. */
#include "text/toml_impl.h"

#include <string.h>

#include "base/hex.h"
#include "text/utf8.h"

struct literal {
    bool escapes;    /* written with ", not ' */
    bool multi_line; /* written with three quotes */
    const char *content, *content_end, *after;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Finds the closing quotes. A multi-line string may itself end in one or two quotes. */
static bool find_end(const struct toml_parser *p, struct literal *literal)
{
    char quote = literal->escapes ? '"' : '\'';
    const char *c = literal->content;

    while (c < p->end) {
        if (literal->escapes && *c == '\\' && c + 1 < p->end && c[1] != '\n') {
            c += 2; /* an escaped quote closes nothing */
            continue;
        }
        if (*c == '\n' && !literal->multi_line) return false;
        if (*c != quote) {
            c++;
            continue;
        }
        size_t run = 1;
        size_t most = literal->multi_line ? 5 : 1;
        size_t needed = literal->multi_line ? 3 : 1;
        while (run < most && c + run < p->end && c[run] == quote) run++;
        if (run >= needed) {
            literal->content_end = c + run - needed;
            literal->after = c + run;
            return true;
        }
        c += run;
    }
    return false;
}

static enum err fail_here(struct toml_parser *p, const char *at, const char *problem)
{
    p->at = at;
    return toml_fail(p, toml_here(p), ERR_PARSE, "%s", problem);
}

static enum err read_code_point(struct toml_parser *p, const char **at, int digits, char **out)
{
    const char *escape = *at - 2;
    uint32_t code_point = 0;

    for (int i = 0; i < digits; i++, ++*at) {
        int value = *at < p->end ? hex_value(**at) : -1;
        if (value < 0)
            return fail_here(p, escape,
                             digits == 4 ? "\\u must be followed by 4 hexadecimal digits"
                                         : "\\U must be followed by 8 hexadecimal digits");
        code_point = code_point << 4 | (uint32_t)value;
    }
    if (!utf8_is_scalar(code_point))
        return fail_here(p, escape,
                         "this escape names no Unicode character (a surrogate, or past"
                         " U+10FFFF)");
    *out += utf8_write(code_point, *out);
    return ERR_OK;
}

/* A backslash at the end of a line skips all following blanks and line breaks. */
static bool skip_line_end(struct toml_parser *p, const char **at, const char *content_end)
{
    const char *c = *at;

    while (c < content_end && is_blank(*c)) c++;
    p->at = c;
    if (toml_line_break(p) == 0) return false;
    while (p->at < content_end && (is_blank(*p->at) || toml_line_break(p) > 0)) {
        if (toml_line_break(p) > 0)
            toml_next_line(p);
        else
            p->at++;
    }
    *at = p->at;
    return true;
}

static enum err read_escape(struct toml_parser *p, const struct literal *literal, const char **at,
                            char **out)
{
    static const char names[] = "btnfr\"\\", bytes[] = "\b\t\n\f\r\"\\";
    const char *escape = *at, *name;
    char c;

    *at += 1;
    if (literal->multi_line && skip_line_end(p, at, literal->content_end)) return ERR_OK;
    c = *(*at)++; /* find_end() has ensured that a character follows */
    if (c == 'u') return read_code_point(p, at, 4, out);
    if (c == 'U') return read_code_point(p, at, 8, out);
    name = memchr(names, c, sizeof names - 1);
    if (!name)
        return fail_here(p, escape,
                         "unknown escape; use \\b \\t \\n \\f \\r \\\" \\\\ \\uXXXX or"
                         " \\UXXXXXXXX, or a string in single quotes");
    *(*out)++ = bytes[name - names];
    return ERR_OK;
}

static enum err read_content(struct toml_parser *p, const struct literal *literal, char *out,
                             size_t *ret_len)
{
    char *start = out;
    const char *c = literal->content;

    while (c < literal->content_end) {
        p->at = c;
        if (*c == '\\' && literal->escapes) {
            enum err err = read_escape(p, literal, &c, &out);
            if (err) return err;
        } else if (toml_line_break(p) > 0) {
            toml_next_line(p);
            *out++ = '\n';
            c = p->at;
        } else {
            *out++ = *c++;
        }
    }
    *ret_len = (size_t)(out - start);
    return ERR_OK;
}

enum err toml_parse_string(struct toml_parser *p, bool is_key, struct str *ret_text)
{
    struct toml_position at = toml_here(p);
    struct literal literal = {.escapes = *p->at == '"'};
    size_t len;
    void *memory = NULL;
    enum err err;

    literal.multi_line = toml_looking_at(p, literal.escapes ? STR("\"\"\"") : STR("'''"));
    if (literal.multi_line && is_key)
        return toml_fail(p, at, ERR_PARSE, "a key cannot be a multi-line string");
    p->at += literal.multi_line ? 3 : 1;
    if (literal.multi_line && toml_line_break(p) > 0) toml_next_line(p);
    literal.content = p->at;
    if (!find_end(p, &literal))
        return toml_fail(p, at, ERR_PARSE,
                         literal.multi_line ? "this string is never closed"
                                            : "this string is not closed on its line");
    err = toml_alloc(p, (size_t)(literal.content_end - literal.content) + 1, &memory);
    if (!err) err = read_content(p, &literal, memory, &len);
    if (err) return err;
    p->at = literal.after;
    *ret_text = (struct str){memory, len};
    return ERR_OK;
}
