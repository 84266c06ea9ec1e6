/* SPDX-License-Identifier: Apache-2.0 */
/* Writes JSON like the original: without blanks. <, >, &, U+2028 and U+2029 are escaped. Control
 * characters become \u00XX, except \n, \r and \t. */
#include <string.h>

#include "fleet/format/record.h"

static bool byte_is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&';
}

/* Escapes the first character of `text`. *ret_len is the character's length. */
static enum err escape_put(struct buf *into, struct str text, size_t *ret_len)
{
    unsigned char c = (unsigned char)text.at[0];

    *ret_len = 1;
    switch (c) {
    case '"': return buf_append_c(into, "\\\"");
    case '\\': return buf_append_c(into, "\\\\");
    case '\n': return buf_append_c(into, "\\n");
    case '\r': return buf_append_c(into, "\\r");
    case '\t': return buf_append_c(into, "\\t");
    case '<':
    case '>':
    case '&': return buf_appendf(into, "\\u%04x", c);
    default: break;
    }
    if (c < 0x20) return buf_appendf(into, "\\u%04x", c);
    if (!str_starts(text, STR("\xe2\x80\xa8")) && !str_starts(text, STR("\xe2\x80\xa9")))
        return buf_append_byte(into, (char)c);
    *ret_len = 3;
    return buf_append_c(into, text.at[2] == '\xa8' ? "\\u2028" : "\\u2029");
}

enum err json_text_put(struct buf *into, struct str text)
{
    bool checked = false;
    enum err err = buf_append_byte(into, '"');

    for (size_t len; !err && text.len > 0; text = str_tail(text, len)) {
        for (len = 0; len < text.len && byte_is_plain((unsigned char)text.at[len]);) len++;
        if (len > 0) {
            err = buf_append(into, str_of(text.at, len));
        } else if (checked || str_is_utf8(text)) {
            checked = true;
            err = escape_put(into, text, &len);
        } else {
            err = ERR_INVALID;
        }
    }
    return err ? err : buf_append_byte(into, '"');
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

/* Returns the slice that follows the shard `last` in order, the last one of duplicates. NULL:
 * none. */
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
