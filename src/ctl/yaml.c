/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the JSON text once, from left to right, and writes each key and item on its own line. The
 * text must come from text/ndjson.h. */
#include "ctl/yaml.h"

#include <ctype.h>
#include <string.h>

enum { YAML_STEP = 2 };

static enum err yaml_value(struct str *rest, size_t indent, size_t depth, struct buf *into);

static char yaml_peek(const struct str *rest)
{
    assert(rest->len > 0);
    return rest->at[0];
}

/* Takes a string with its quotes, or a literal, from the beginning of `rest`. */
static struct str yaml_scalar(struct str *rest)
{
    struct str all = *rest;
    size_t len = 1;

    if (yaml_peek(rest) == '"')
        for (; all.at[len] != '"'; len++) len += all.at[len] == '\\';
    else
        while (len < all.len && !strchr(",]}\n", all.at[len])) len++;
    if (all.at[0] == '"') len++;
    *rest = str_tail(all, len);
    return str_of(all.at, len);
}

static enum err yaml_key(struct str key, struct buf *into)
{
    struct str inner = str_of(key.at + 1, key.len - 2);
    bool plain = inner.len > 0 && isalpha((unsigned char)inner.at[0]);

    for (size_t i = 0; i < inner.len && plain; i++)
        plain = isalnum((unsigned char)inner.at[i]) || inner.at[i] == '_';
    return buf_appendf(into, "%.*s:", STR_ARG(plain ? inner : key));
}

/* A list item's first key stays on the line of its dash. */
static enum err yaml_line(size_t indent, bool first, struct buf *into)
{
    return first ? buf_append_byte(into, ' ') : buf_appendf(into, "\n%*s", (int)indent, "");
}

static enum err yaml_members(struct str *rest, size_t indent, bool in_item, size_t depth,
                             struct buf *into)
{
    enum err err = ERR_OK;

    for (bool first = in_item; !err && yaml_peek(rest) != '}'; first = false) {
        if (yaml_peek(rest) == ',') *rest = str_tail(*rest, 1);
        err = yaml_line(indent, first, into);
        if (!err) err = yaml_key(yaml_scalar(rest), into);
        assert(yaml_peek(rest) == ':');
        *rest = str_tail(*rest, 1);
        if (!err) err = yaml_value(rest, indent + YAML_STEP, depth, into);
    }
    return err;
}

static enum err yaml_items(struct str *rest, size_t indent, size_t depth, struct buf *into)
{
    enum err err = ERR_OK;

    while (!err && yaml_peek(rest) != ']') {
        if (yaml_peek(rest) == ',') *rest = str_tail(*rest, 1);
        err = buf_appendf(into, "\n%*s-", (int)indent, "");
        if (err) break;
        if (yaml_peek(rest) == '{' && rest->at[1] != '}') {
            *rest = str_tail(*rest, 1);
            err = yaml_members(rest, indent + YAML_STEP, true, depth + 1, into);
            *rest = str_tail(*rest, 1);
        } else {
            err = yaml_value(rest, indent + YAML_STEP, depth, into);
        }
    }
    return err;
}

/* Writes the value after "key:" or "-". */
static enum err yaml_value(struct str *rest, size_t indent, size_t depth, struct buf *into)
{
    char open = yaml_peek(rest);
    struct str scalar;
    enum err err;

    assert(depth < YAML_DEPTH_MAX);
    if (open != '{' && open != '[') {
        scalar = yaml_scalar(rest);
        return buf_appendf(into, " %.*s", STR_ARG(scalar));
    }
    *rest = str_tail(*rest, 1);
    if (yaml_peek(rest) == '}' || yaml_peek(rest) == ']')
        err = buf_append_c(into, open == '{' ? " {}" : " []");
    else
        err = open == '{' ? yaml_members(rest, indent, false, depth + 1, into)
                          : yaml_items(rest, indent, depth + 1, into);
    *rest = str_tail(*rest, 1);
    return err;
}

enum err yaml_from_json(struct str json, struct buf *into)
{
    enum err err = buf_append_c(into, "---");

    if (!err) err = yaml_value(&json, 0, 0, into);
    if (!err) err = buf_append_byte(into, '\n');
    return err;
}
