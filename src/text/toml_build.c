/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the TOML parser: positions, errors, the index of keys, and the document's memory. */
#include "text/toml_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "text/utf8.h"

enum {
    BUCKETS_FIRST = 64,
    ARENA_SLACK = 64, /* bytes of a block's overhead */
};

struct toml_position toml_here(struct toml_parser *p)
{
    struct toml_position here;

    assert(p->mark <= p->at); /* the parser never goes back */
    here.line = p->line;
    here.column =
        p->mark_column + (uint32_t)utf8_count((struct str){p->mark, (size_t)(p->at - p->mark)});
    p->mark = p->at;
    p->mark_column = here.column;
    return here;
}

enum err toml_fail(struct toml_parser *p, struct toml_position at, enum err err, const char *format,
                   ...)
{
    char text[NOTE_CAP];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (p->where) *p->where = at;
    note_set(p->note, "line %u, column %u: %s", at.line, at.column, text);
    return err;
}

struct toml_quote toml_quote(struct str text)
{
    struct toml_quote quote;
    struct str shown = utf8_clip(text, sizeof quote.text - sizeof "...");
    size_t len = shown.len;

    if (len > 0) memcpy(quote.text, shown.at, len);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)quote.text[i] < 0x20 || quote.text[i] == 0x7f) quote.text[i] = '?';
    memcpy(quote.text + len, len < text.len ? "..." : "", len < text.len ? 4 : 1);
    return quote;
}

enum err toml_alloc(struct toml_parser *p, size_t size, void **ret_memory)
{
    const struct arena *arena = &p->document->arena;
    size_t left = arena->max - arena->used;
    void *memory = arena_calloc(&p->document->arena, 1, size);

    if (memory) {
        *ret_memory = memory;
        return ERR_OK;
    }
    if (size + ARENA_SLACK > left)
        return toml_fail(p, toml_here(p), ERR_TOO_LARGE,
                         "the document needs more than the %zu bytes of memory it may use",
                         arena->max);
    return toml_fail(p, toml_here(p), ERR_NOMEM, "out of memory");
}

static size_t bucket_of(const struct toml *document, const struct toml_value *table, struct str key)
{
    return (size_t)str_hash(key, (uint64_t)(uintptr_t)table) & (document->bucket_count - 1);
}

struct toml_value *toml_lookup(const struct toml_value *table, struct str key)
{
    const struct toml *document = table->children.document;

    assert(table->type == TOML_TABLE);
    if (document->bucket_count == 0) return NULL;
    for (struct toml_value *v = document->buckets[bucket_of(document, table, key)]; v; v = v->chain)
        if (v->parent == table && str_equal(v->key, key)) return v;
    return NULL;
}

/* The old index stays in the arena until toml_close(). */
static enum err index_grow(struct toml_parser *p)
{
    struct toml *document = p->document;
    struct toml_value **old = document->buckets;
    size_t old_count = document->bucket_count;
    void *memory = NULL;
    enum err err;

    if (document->key_count < old_count) return ERR_OK;
    document->bucket_count = old_count ? old_count * 2 : BUCKETS_FIRST;
    err = toml_alloc(p, document->bucket_count * sizeof(struct toml_value *), &memory);
    if (err) {
        document->bucket_count = old_count;
        return err;
    }
    assert(memory);
    document->buckets = memory;
    for (size_t i = 0; i < old_count; i++)
        for (struct toml_value *v = old[i], *following; v; v = following) {
            size_t bucket = bucket_of(document, v->parent, v->key);
            following = v->chain;
            v->chain = document->buckets[bucket];
            document->buckets[bucket] = v;
        }
    return ERR_OK;
}

static void index_put(struct toml *document, struct toml_value *value)
{
    size_t bucket = bucket_of(document, value->parent, value->key);

    value->chain = document->buckets[bucket];
    document->buckets[bucket] = value;
    document->key_count++;
}

enum err toml_add(struct toml_parser *p, struct toml_value *parent, const struct str *key,
                  struct toml_new options, struct toml_value **ret_value)
{
    struct toml_value *value;
    void *memory = NULL;
    enum err err;

    assert(!parent || (key != NULL) == (parent->type == TOML_TABLE));
    assert(!key || !toml_lookup(parent, *key));
    if (parent && parent->depth >= TOML_DEPTH_MAX)
        return toml_fail(p, options.at, ERR_TOO_LARGE, "nested deeper than %d levels",
                         TOML_DEPTH_MAX);
    err = key ? index_grow(p) : ERR_OK;
    if (!err) err = toml_alloc(p, sizeof *value, &memory);
    if (err) return err;
    assert(memory);
    value = memory;
    value->type = (uint8_t)options.type;
    value->form = (uint8_t)options.form;
    value->at = options.at;
    value->parent = parent;
    if (options.type == TOML_TABLE || options.type == TOML_ARRAY)
        value->children.document = p->document;
    if (parent) {
        value->depth = (uint16_t)(parent->depth + 1);
        if (parent->children.last)
            parent->children.last->next = value;
        else
            parent->children.first = value;
        parent->children.last = value;
        parent->children.count++;
    }
    if (key) {
        value->key = *key;
        value->key_at = options.key_at;
        index_put(p->document, value);
    }
    *ret_value = value;
    return ERR_OK;
}

static struct toml_position position_of(const struct toml_parser *p, const char *at)
{
    struct toml_position position = {1, 1};
    const char *line_start = p->at;

    for (const char *c = p->at; c < at; c++)
        if (*c == '\n') {
            position.line++;
            line_start = c + 1;
        }
    position.column += (uint32_t)utf8_count((struct str){line_start, (size_t)(at - line_start)});
    return position;
}

/* Checks the rules that also apply inside strings and comments. */
enum err toml_check_text(struct toml_parser *p)
{
    for (const char *c = p->at; c < p->end;) {
        unsigned char byte = (unsigned char)*c;
        size_t step = byte < 0x80 ? 1 : utf8_step(c, (size_t)(p->end - c));

        if (step == 0)
            return toml_fail(p, position_of(p, c), ERR_PARSE, "byte 0x%02x is not valid UTF-8 here",
                             byte);
        if (byte == '\r' && (c + 1 == p->end || c[1] != '\n'))
            return toml_fail(p, position_of(p, c), ERR_PARSE,
                             "a carriage return must be followed by a line feed");
        if ((byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7f)
            return toml_fail(p, position_of(p, c), ERR_PARSE,
                             "control character U+%04X is not allowed; write it as \\u%04X in a"
                             " double-quoted string",
                             byte, byte);
        c += step;
    }
    return ERR_OK;
}
