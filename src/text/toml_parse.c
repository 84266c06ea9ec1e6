/* SPDX-License-Identifier: Apache-2.0 */
/* The TOML parser, by recursive descent. toml_add() limits the depth of the recursion. */
#include "text/toml_impl.h"

#include <string.h>

/* The parser's section is the table of the last header: a line "a.b = 1" adds to this table. */

static enum err parse_value(struct toml_parser *p, struct toml_value *parent, const struct str *key,
                            struct toml_position key_at);

static void skip_blanks(struct toml_parser *p)
{
    while (toml_peek(p) == ' ' || toml_peek(p) == '\t') p->at++;
}

static void skip_comment(struct toml_parser *p)
{
    if (toml_peek(p) != '#') return;
    while (p->at < p->end && toml_line_break(p) == 0) p->at++;
}

static void skip_lines(struct toml_parser *p)
{
    for (;;) {
        skip_blanks(p);
        skip_comment(p);
        if (toml_line_break(p) == 0) return;
        toml_next_line(p);
    }
}

/* The character at the current position, for "expected x, found y". */
static struct toml_quote found(const struct toml_parser *p)
{
    size_t len = 1;

    if (p->at == p->end) return toml_quote(STR("the end of the file"));
    if (toml_line_break(p) > 0) return toml_quote(STR("the end of the line"));
    while (p->at + len < p->end && ((unsigned char)p->at[len] & 0xc0) == 0x80) len++;
    struct toml_quote quote = {"'"};
    memcpy(quote.text + 1, p->at, len);
    memcpy(quote.text + 1 + len, "'", 2);
    return quote;
}

static enum err expected(struct toml_parser *p, const char *what)
{
    return toml_fail(p, toml_here(p), ERR_PARSE, "expected %s, found %s", what, found(p).text);
}

static bool is_bare_key(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

static enum err parse_key(struct toml_parser *p, struct str *ret_key, struct toml_position *ret_at)
{
    const char *start = p->at;
    struct toml_position at = toml_here(p);
    void *memory = NULL;
    enum err err;

    if (toml_peek(p) == '"' || toml_peek(p) == '\'') {
        err = toml_parse_string(p, true, ret_key);
        if (!err) *ret_at = at;
        return err;
    }
    while (p->at < p->end && is_bare_key(*p->at)) p->at++;
    if (p->at == start) return expected(p, "a key");
    err = toml_alloc(p, (size_t)(p->at - start) + 1, &memory);
    if (err) return err;
    memcpy(memory, start, (size_t)(p->at - start));
    *ret_key = (struct str){memory, (size_t)(p->at - start)};
    *ret_at = at;
    return ERR_OK;
}

static bool skip_dot(struct toml_parser *p)
{
    skip_blanks(p);
    if (toml_peek(p) != '.') return false;
    p->at++;
    skip_blanks(p);
    return true;
}

static enum err refuse_child(struct toml_parser *p, const struct toml_value *old,
                             struct toml_position at)
{
    struct toml_quote key = toml_quote(old->key);

    if (old->type != TOML_TABLE && old->type != TOML_ARRAY)
        return toml_fail(p, at, ERR_PARSE, "'%s' is %s (line %u) and cannot hold keys", key.text,
                         toml_type_article_name(toml_type(old)), old->at.line);
    if (old->form == TOML_INLINE)
        return toml_fail(p, at, ERR_PARSE,
                         "'%s' was written whole at line %u and cannot be added to", key.text,
                         old->at.line);
    return toml_fail(p, at, ERR_PARSE,
                     "'%s' belongs to a header (line %u); add to it below that header", key.text,
                     old->at.line);
}

static enum err refuse_again(struct toml_parser *p, const struct toml_value *old,
                             struct toml_position at)
{
    return toml_fail(p, at, ERR_PARSE, "%s '%s' is defined twice (first at line %u)",
                     old->type == TOML_TABLE && old->form == TOML_HEADER ? "table" : "key",
                     toml_quote(old->key).text, old->key_at.line);
}

/* Finds or creates table "a" for the dotted key a.b (DOTTED) or the header [a.b] (IMPLICIT). */
static enum err enter_table(struct toml_parser *p, struct toml_value *table, enum toml_form form,
                            struct str key, struct toml_position at, struct toml_value **ret_child)
{
    struct toml_value *old = toml_lookup(table, key), *child = old;
    bool header = form == TOML_IMPLICIT;

    if (!old)
        return toml_add(p, table, &key, (struct toml_new){TOML_TABLE, form, at, at}, ret_child);
    if (header && old->type == TOML_ARRAY && old->form == TOML_ELEMENTS) child = old->children.last;
    if (child->type != TOML_TABLE ||
        (header ? child->form == TOML_INLINE : child->form != TOML_DOTTED))
        return refuse_child(p, old, at);
    *ret_child = child;
    return ERR_OK;
}

/* Defines table "b" of a header [a.b] in table "a". */
static enum err define_table(struct toml_parser *p, struct toml_value *table, struct str key,
                             struct toml_position at, struct toml_value **ret_section)
{
    struct toml_value *old = toml_lookup(table, key);

    if (!old)
        return toml_add(p, table, &key, (struct toml_new){TOML_TABLE, TOML_HEADER, at, at},
                        ret_section);
    if (old->type != TOML_TABLE || old->form != TOML_IMPLICIT) return refuse_again(p, old, at);
    old->form = TOML_HEADER;
    old->at = old->key_at = at; /* the position of a table is its header */
    *ret_section = old;
    return ERR_OK;
}

/* Adds an element to array "b" of a header [[a.b]] in table "a". */
static enum err define_element(struct toml_parser *p, struct toml_value *table, struct str key,
                               struct toml_position at, struct toml_value **ret_section)
{
    struct toml_value *array = toml_lookup(table, key);
    enum err err;

    if (!array) {
        err =
            toml_add(p, table, &key, (struct toml_new){TOML_ARRAY, TOML_ELEMENTS, at, at}, &array);
        if (err) return err;
    }
    if (array->type == TOML_ARRAY && array->form == TOML_INLINE) return refuse_child(p, array, at);
    if (array->type != TOML_ARRAY) return refuse_again(p, array, at);
    return toml_add(p, array, NULL,
                    (struct toml_new){.type = TOML_TABLE, .form = TOML_HEADER, .at = at},
                    ret_section);
}

static enum err parse_header(struct toml_parser *p, struct toml_value **ret_section)
{
    struct toml_value *table = p->document->root;
    bool element = toml_looking_at(p, STR("[["));
    struct str closing = element ? STR("]]") : STR("]");
    struct toml_position at;
    struct str key;
    enum err err;

    p->at += closing.len;
    skip_blanks(p);
    for (;;) {
        err = parse_key(p, &key, &at);
        if (err) return err;
        if (!skip_dot(p)) break;
        err = enter_table(p, table, TOML_IMPLICIT, key, at, &table);
        if (err) return err;
    }
    if (!toml_looking_at(p, closing))
        return expected(p,
                        element ? "']]' at the end of the header" : "']' at the end of the header");
    p->at += closing.len;
    return element ? define_element(p, table, key, at, ret_section)
                   : define_table(p, table, key, at, ret_section);
}

static enum err parse_pair(struct toml_parser *p, struct toml_value *table)
{
    const struct toml_value *old;
    struct toml_position at;
    struct str key;
    enum err err;

    for (;;) {
        err = parse_key(p, &key, &at);
        if (err) return err;
        if (!skip_dot(p)) break;
        err = enter_table(p, table, TOML_DOTTED, key, at, &table);
        if (err) return err;
    }
    if (toml_peek(p) != '=') return expected(p, "'=' after the key");
    p->at++;
    skip_blanks(p);
    old = toml_lookup(table, key);
    if (old) return refuse_again(p, old, at);
    return parse_value(p, table, &key, at);
}

static enum err parse_array(struct toml_parser *p, struct toml_value *array)
{
    static const struct toml_position no_key;
    struct toml_position opened = array->at;
    enum err err;

    p->at++;
    for (;;) {
        skip_lines(p);
        if (toml_peek(p) == ']') break;
        if (p->at == p->end) return toml_fail(p, opened, ERR_PARSE, "this array is never closed");
        err = parse_value(p, array, NULL, no_key);
        if (err) return err;
        skip_lines(p);
        if (toml_peek(p) == ']') break;
        if (p->at == p->end) return toml_fail(p, opened, ERR_PARSE, "this array is never closed");
        if (toml_peek(p) != ',') return expected(p, "',' or ']' after the value");
        p->at++;
    }
    p->at++;
    return ERR_OK;
}

static enum err parse_inline_table(struct toml_parser *p, struct toml_value *table)
{
    enum err err;

    p->at++;
    skip_blanks(p);
    if (toml_peek(p) == '}') {
        p->at++;
        return ERR_OK;
    }
    for (;;) {
        err = parse_pair(p, table);
        if (err) return err;
        skip_blanks(p);
        if (toml_peek(p) == '}') break;
        if (toml_line_break(p) > 0)
            return toml_fail(p, toml_here(p), ERR_PARSE, "an inline table must end on its line");
        if (toml_peek(p) != ',') return expected(p, "',' or '}' after the value");
        p->at++;
        skip_blanks(p);
        if (toml_peek(p) == '}')
            return toml_fail(p, toml_here(p), ERR_PARSE,
                             "an inline table takes no comma after its last value");
        if (toml_line_break(p) > 0)
            return toml_fail(p, toml_here(p), ERR_PARSE, "an inline table must end on its line");
    }
    p->at++;
    return ERR_OK;
}

static bool is_token(char c)
{
    return is_bare_key(c) || c == '+' || c == '.' || c == ':';
}

static struct str take_token(struct toml_parser *p)
{
    struct str token = {p->at, 0};

    while (p->at < p->end && is_token(*p->at)) p->at++;
    token.len = (size_t)(p->at - token.at);
    if (toml_looks_like_date(token) && toml_peek(p) == ' ' && p->at + 1 < p->end &&
        p->at[1] >= '0' && p->at[1] <= '9') {
        p->at++;
        while (p->at < p->end && is_token(*p->at)) p->at++;
        token.len = (size_t)(p->at - token.at);
    }
    return token;
}

static enum err parse_token(struct toml_parser *p, struct toml_value *value)
{
    struct toml_position at = value->at;
    struct str token = take_token(p);

    if (token.len == 0) return expected(p, "a value");
    if (str_equal(token, STR("true")) || str_equal(token, STR("false"))) {
        value->type = TOML_BOOLEAN;
        value->boolean = token.at[0] == 't';
        return ERR_OK;
    }
    if (toml_looks_like_datetime(token)) return toml_parse_datetime(p, token, at, value);
    if (strchr("+-.0123456789_", token.at[0]) || str_equal(token, STR("inf")) ||
        str_equal(token, STR("nan")))
        return toml_parse_number(p, token, at, value);
    return toml_fail(p, at, ERR_PARSE,
                     "'%s' is not a value; text needs quotes, and true and false are lower case",
                     toml_quote(token).text);
}

static enum err parse_value(struct toml_parser *p, struct toml_value *parent, const struct str *key,
                            struct toml_position key_at)
{
    char c = toml_peek(p);
    struct toml_new options = {.type = c == '['   ? TOML_ARRAY
                                       : c == '{' ? TOML_TABLE
                                                  : TOML_STRING,
                               .form = TOML_INLINE,
                               .at = toml_here(p),
                               .key_at = key_at};
    struct toml_value *value;
    enum err err = toml_add(p, parent, key, options, &value);

    if (err) return err;
    if (c == '[') return parse_array(p, value);
    if (c == '{') return parse_inline_table(p, value);
    if (c == '"' || c == '\'') return toml_parse_string(p, false, &value->string);
    return parse_token(p, value);
}

enum err toml_parse_document(struct toml_parser *p)
{
    struct toml_value *section = p->document->root;
    enum err err;

    for (;;) {
        skip_lines(p);
        if (p->at == p->end) return ERR_OK;
        err = *p->at == '[' ? parse_header(p, &section) : parse_pair(p, section);
        if (err) return err;
        skip_blanks(p);
        skip_comment(p);
        if (p->at < p->end && toml_line_break(p) == 0) return expected(p, "the end of the line");
    }
}
