/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the TOML reader share. Private: consumers include text/toml.h.
 *
 *     toml.c           the finished document: lookup, walking, getters
 *     toml_parse.c     the grammar: lines, headers, keys, arrays, inline tables, rules of adding
 *     toml_build.c     for the parser: positions, errors, memory, values put into their place
 *     toml_string.c    the four kinds of strings
 *     toml_number.c    integers and floats
 *     toml_datetime.c  dates and times
 *
 * Before the grammar sees a byte, toml_check_text() has proved the input to be UTF-8 without
 * control characters, other than tab, line feed and a carriage return before a line feed. */
#ifndef TEXT_TOML_IMPL_H
#define TEXT_TOML_IMPL_H
#include "base/arena.h"
#include "text/toml.h"

/* How a table or an array came to be, which decides who may still add to it:
 *
 *     form       written as                 [header]  [sub.header]  dotted key  [[header]]
 *     IMPLICIT   the "a" of [a.b]           once      yes           no          no
 *     HEADER     [a], or one of [[a]]       no        yes           no          no
 *     DOTTED     the "a" of a.b = 1         no        yes           yes (1)     no
 *     INLINE     { }, or [ ]                no        no            no          no
 *     ELEMENTS   the array of [[a]]         no        yes (2)       no          yes
 *
 *     (1) no other section than its own can reach it: on the way there is a HEADER or IMPLICIT
 *     (2) in its last table */
enum toml_form { TOML_IMPLICIT, TOML_HEADER, TOML_DOTTED, TOML_INLINE, TOML_ELEMENTS };

struct toml_value {
    uint8_t type; /* enum toml_type */
    uint8_t form; /* enum toml_form, of a table or an array */
    uint16_t depth;
    struct toml_position at, key_at; /* key_at.line 0: no key */
    struct str key;
    struct toml_value *parent; /* NULL for the root */
    struct toml_value *next;   /* in its parent, in file order */
    struct toml_value *chain;  /* in its bucket of the document's index */
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
        } children; /* of a table or an array */
    };
};

/* One index for all tables of a document: a key is found by (table, key) without a hash table per
 * table. It is only ever looked up, never walked, so no order depends on it. */
struct toml {
    struct arena arena; /* owns this struct, too */
    struct toml_value *root;
    struct toml_value **buckets;
    size_t bucket_count; /* a power of two */
    size_t key_count;
};

struct toml_parser {
    struct toml *document;
    const char *at, *end;
    uint32_t line;
    /* Columns are counted from here on, so that a very long line is still read in linear time. */
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
/* Text from the input made fit for a message: cut to size, control characters replaced. */
struct toml_quote {
    char text[TOML_QUOTE_CAP];
};
struct toml_quote toml_quote(struct str text);
enum err toml_alloc(struct toml_parser *p, size_t size, void **ret_memory);
/* A new value at the end of `parent`; the caller has made sure that the key is free. NULL key: the
 * parent is an array. */
struct toml_new {
    enum toml_type type;
    enum toml_form form;
    struct toml_position at, key_at;
};
enum err toml_add(struct toml_parser *p, struct toml_value *parent, const struct str *key,
                  struct toml_new options, struct toml_value **ret_value);
enum err toml_check_text(struct toml_parser *p);

/* The parser's look ahead: the next byte, or '\0' at the end (no input holds a NUL). */
static inline char toml_peek(const struct toml_parser *p)
{
    if (p->at == p->end) return '\0';
    return *p->at;
}
static inline bool toml_looking_at(const struct toml_parser *p, struct str text)
{
    return str_starts((struct str){p->at, (size_t)(p->end - p->at)}, text);
}
/* Length of the line break the parser is at, 0 when it is at none. A carriage return is
 * always followed by a line feed: toml_check_text() has seen to it. */
static inline size_t toml_line_break(const struct toml_parser *p)
{
    char c = toml_peek(p);
    return c == '\n' ? 1 : c == '\r' ? 2 : 0;
}
/* Steps over the line break the parser is at. */
static inline void toml_next_line(struct toml_parser *p)
{
    p->at += toml_line_break(p);
    p->line++;
    p->mark = p->at;
    p->mark_column = 1;
}

/* Leaves: each begins at the first byte of its value and steps past the last. */
enum err toml_parse_string(struct toml_parser *p, bool is_key, struct str *ret_text);
/* `token` is the run of letters, digits and signs that is the whole value. */
enum err toml_parse_number(struct toml_parser *p, struct str token, struct toml_position at,
                           struct toml_value *value);
enum err toml_parse_datetime(struct toml_parser *p, struct str token, struct toml_position at,
                             struct toml_value *value);
bool toml_looks_like_datetime(struct str token);
bool toml_looks_like_date(struct str token); /* exactly a date, so a time may follow a space */

enum err toml_parse_document(struct toml_parser *p);
#endif
