/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/printable.h"

size_t printable_next(struct str text, int32_t *ret_code)
{
    unsigned char first = (unsigned char)text.at[0];
    size_t len = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;

    *ret_code = PRINTABLE_NONE;
    if (text.len < len || !str_is_utf8(str_of(text.at, len))) return 1;
    int32_t code = len == 1 ? first : first & (0x7f >> len);
    for (size_t i = 1; i < len; i++) code = code << 6 | (text.at[i] & 0x3f);
    *ret_code = code;
    return len;
}

bool printable_code(int32_t code)
{
    if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return false;
    if (code == 0x061c || code == 0xfeff) return false; /* Arabic mark; byte order mark */
    if (code >= 0x200b && code <= 0x200f) return false; /* no width; direction marks */
    if (code >= 0x2028 && code <= 0x202e) return false; /* separators; direction turned */
    return !(code >= 0x2066 && code <= 0x2069);         /* direction isolated */
}

static enum err append_shown(struct str character, int32_t code, struct buf *into)
{
    if (printable_code(code)) return buf_append(into, character);
    if (code == '\n') return buf_append_c(into, "\\n");
    if (code == '\t') return buf_append_c(into, "\\t");
    if (code == '\r') return buf_append_c(into, "\\r");
    if (code < 0x80) return buf_appendf(into, "\\x%02X", (unsigned char)character.at[0]);
    return buf_appendf(into, "\\u%04X", (unsigned)code);
}

enum err printable_append(struct str text, struct buf *into)
{
    enum err err = ERR_OK;

    while (text.len > 0 && !err) {
        int32_t code;
        size_t len = printable_next(text, &code);
        err = append_shown(str_of(text.at, len), code, into);
        text = str_tail(text, len);
    }
    return err;
}
