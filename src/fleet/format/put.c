/* SPDX-License-Identifier: Apache-2.0 */
/* Writing JSON as the original does: compact, with the five characters that HTML or JavaScript
 * would take for their own escaped, control characters as \u00XX but for \n, \r and \t. */
#include <string.h>

#include "fleet/format/record.h"

/* What stands for the byte at `at`; NULL: itself. *ret_len: of the bytes it stands for. */
static const char *escape_of(const char *at, size_t left, size_t *ret_len, char room[8])
{
    static const char hex[] = "0123456789abcdef";
    unsigned char c = (unsigned char)*at;

    *ret_len = 1;
    switch (c) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    case '<':
    case '>':
    case '&': break;
    case 0xe2: /* U+2028 and U+2029 are e2 80 a8 and e2 80 a9 */
        if (left < 3 || at[1] != '\x80' || (at[2] != '\xa8' && at[2] != '\xa9')) return NULL;
        *ret_len = 3;
        return at[2] == '\xa8' ? "\\u2028" : "\\u2029";
    default:
        if (c >= 0x20) return NULL;
    }
    memcpy(room, "\\u00", 4);
    room[4] = hex[c >> 4];
    room[5] = hex[c & 15];
    room[6] = '\0';
    return room;
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&';
}

static enum err text_put_escaped(struct buf *into, struct str text)
{
    size_t at = 0, from = 0, len;
    enum err err = buf_append_byte(into, '"');
    char room[8];

    while (!err && at < text.len) {
        const char *escape = escape_of(text.at + at, text.len - at, &len, room);
        if (!escape) {
            at++;
            continue;
        }
        err = buf_append(into, str_of(text.at + from, at - from));
        if (!err) err = buf_append_c(into, escape);
        at += len;
        from = at;
    }
    if (!err) err = buf_append(into, str_of(text.at + from, text.len - from));
    if (!err) err = buf_append_byte(into, '"');
    return err;
}

enum err json_text_put(struct buf *into, struct str text)
{
    size_t plain = 0;
    char *room;
    enum err err;

    while (plain < text.len && is_plain((unsigned char)text.at[plain])) plain++;
    if (plain < text.len) return str_is_utf8(text) ? text_put_escaped(into, text) : ERR_INVALID;
    err = buf_reserve(into, text.len + 2, &room);
    if (err) return err;
    room[0] = '"';
    if (text.len > 0) memcpy(room + 1, text.at, text.len);
    room[text.len + 1] = '"';
    buf_commit(into, text.len + 2);
    return ERR_OK;
}

enum err json_name_put(struct buf *into, char before, struct str name)
{
    char *room;
    enum err err = buf_reserve(into, name.len + 4, &room);

    if (err) return err;
    room[0] = before;
    room[1] = '"';
    memcpy(room + 2, name.at, name.len);
    room[name.len + 2] = '"';
    room[name.len + 3] = ':';
    buf_commit(into, name.len + 4);
    return ERR_OK;
}

/* The smallest shard behind `last` and its newest slice; NULL: none. Quadratic, so only for rows
 * that are not in order. */
static const struct fleet_slice *slice_behind(const struct fleet_slice *slices, size_t count,
                                              const struct str *last)
{
    const struct fleet_slice *best = NULL;

    for (size_t i = 0; i < count; i++) {
        if (last && str_compare(slices[i].shard, *last) <= 0) continue;
        if (!best || str_compare(slices[i].shard, best->shard) <= 0) best = &slices[i];
    }
    return best;
}

static bool is_ascending(const struct fleet_slice *slices, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (str_compare(slices[i - 1].shard, slices[i].shard) >= 0) return false;
    return true;
}

enum err json_slices_put(struct buf *into, const struct fleet_slice *slices, size_t count)
{
    bool ascending = is_ascending(slices, count);
    const struct fleet_slice *slice = NULL;
    enum err err = ERR_OK;

    if (count == 0) return buf_append_c(into, "null");
    for (size_t i = 0; !err && i < count; i++) {
        slice = ascending ? &slices[i] : slice_behind(slices, count, slice ? &slice->shard : NULL);
        if (!slice) break;
        err = buf_append_byte(into, i ? ',' : '{');
        if (!err) err = json_text_put(into, slice->shard);
        if (!err) err = buf_appendf(into, ":%d", (int)slice->slice);
    }
    return err ? err : buf_append_byte(into, '}');
}
