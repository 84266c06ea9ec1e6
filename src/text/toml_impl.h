/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the files of the TOML reader share. Private: other modules include text/toml.h.
 *
 *     toml.c           the opened document: look-up, walks, typed getters
 *     toml_parse.c     the grammar: lines, headers, keys, arrays, inline tables, definitions
 *     toml_build.c     for the parser: positions, errors, memory, adding values
 *     toml_string.c    the four kinds of strings
 *     toml_number.c    integers and floats
 *     toml_datetime.c  dates and times
 *
 * toml_check_text() runs before the parser and ensures that the input is UTF-8 without control
 * characters, except tab, line feed, and a carriage return before a line feed. */
#ifndef TEXT_TOML_IMPL_H
#define TEXT_TOML_IMPL_H
#include "base/arena.h"
#include "text/toml.h"

/* How a table or an array was written decides which later lines may add to the table or array:
 *
 *     form       written as                 [header]  [sub.header]  dotted key  [[header]]
 *     IMPLICIT   the "a" of [a.b]           once      yes           no          no
 *     HEADER     [a], or one of [[a]]       no        yes           no          no
 *     DOTTED     the "a" of a.b = 1         no        yes           yes (1)     no
 *     INLINE     { }, or [ ]                no        no            no          no
 *     ELEMENTS   the array of [[a]]         no        yes (2)       no          yes
 *
 *     (1) only within the same section
 *     (2) adds to the last table of the array */
enum toml_form { TOML_IMPLICIT, TOML_HEADER, TOML_DOTTED, TOML_INLINE, TOML_ELEMENTS };

struct toml_value {
    uint8_t type; /* a value of enum toml_type */
    uint8_t form; /* a value of enum toml_form, for a table or an array */
    uint16_t depth;
    struct toml_position at, key_at; /* key_at.line 0: no key */
    struct str key;
    struct toml_value *parent; /* NULL for the root */
    struct toml_value *next;   /* next child of the same parent, in file order */
    struct toml_value *chain;  /* next value in the same bucket of the index */
    union {
        struct str string;
        int64_t integer;
        double real;
        bool boolean;
        struct rfc3339_fields datetime;
        struct {
            struct toml_value *first, *last;
            size_t count;
            struct toml *document;
        } children;
    };
};

/* One hash index serves all tables of a document. Its key is the pair (table, key). */
struct toml {
    struct arena arena; /* also contains this struct */
    struct toml_value *root;
    struct toml_value **buckets;
    size_t bucket_count; /* a power of two */
    size_t key_count;
};

struct toml_parser {
    struct toml *document;
    const char *at, *end;
    uint32_t line;
    /* Start of the column count, because counting from the line's start would take quadratic
     * time. */
    const char *mark;
    uint32_t mark_column;
    struct toml_position *where;
    struct note *note;
};

struct toml_value *toml_lookup(const struct toml_value *table, struct str key);

/* Build: positions, errors, memory. */
struct toml_position toml_here(struct toml_parser *p);
enum err toml_fail(struct toml_parser *p, struct toml_position at, enum err err, const char *format,
                   ...) __attribute__((format(printf, 4, 5)));
enum { TOML_QUOTE_CAP = 64 };
struct toml_quote {
    char text[TOML_QUOTE_CAP];
};
struct toml_quote toml_quote(struct str text);
enum err toml_alloc(struct toml_parser *p, size_t size, void **ret_memory);
/* Options of toml_add(), which appends a new value to `parent`. `key` must be new, and is NULL in
 * an array. */
struct toml_new {
    enum toml_type type;
    enum toml_form form;
    struct toml_position at, key_at;
};
enum err toml_add(struct toml_parser *p, struct toml_value *parent, const struct str *key,
                  struct toml_new options, struct toml_value **ret_value);
enum err toml_check_text(struct toml_parser *p);

/* Returns '\0' at the end of the input, which contains no NUL. */
static inline char toml_peek(const struct toml_parser *p)
{
    if (p->at == p->end) return '\0';
    return *p->at;
}
static inline bool toml_looking_at(const struct toml_parser *p, struct str text)
{
    return str_starts((struct str){p->at, (size_t)(p->end - p->at)}, text);
}
/* toml_check_text() has ensured that a line feed follows each carriage return. */
static inline size_t toml_line_break(const struct toml_parser *p)
{
    char c = toml_peek(p);
    return c == '\n' ? 1 : c == '\r' ? 2 : 0;
}
static inline void toml_next_line(struct toml_parser *p)
{
    p->at += toml_line_break(p);
    p->line++;
    p->mark = p->at;
    p->mark_column = 1;
}

/* Each parser starts at a value's first byte and stops behind its last byte. */
enum err toml_parse_string(struct toml_parser *p, bool is_key, struct str *ret_text);
/* `token` is the whole value. */
enum err toml_parse_number(struct toml_parser *p, struct str token, struct toml_position at,
                           struct toml_value *value);
enum err toml_parse_datetime(struct toml_parser *p, struct str token, struct toml_position at,
                             struct toml_value *value);
bool toml_looks_like_datetime(struct str token);
bool toml_looks_like_date(struct str token); /* a time may follow the token */

enum err toml_parse_document(struct toml_parser *p);
#endif
